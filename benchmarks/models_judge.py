"""Limits on the figures of ``models.py``, for means over splits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = dict[str, Any]
OURS = ("ParityClassifier", "ParityPostprocessor")
TIMES_CHANCE = 1.5
ABOVE = {"probabilities": 0.003, "decisions": 0.005}
LESS_ACCURATE = 0.003  # than LinearPost, at the same parity
RIVAL = "LinearPost"
# and with larger epsilons: the path along which accuracy is read at another's parity
ALONG = "ParityPostprocessor"


@dataclass(frozen=True)
class Verdict:
    """One requirement on one table and learner; ``room`` is negative if it is missed."""

    table: str
    learner: str
    method: str
    what: str
    value: float
    limit: float
    room: float

    @property
    def holds(self) -> bool:
        """Whether the limit is kept."""
        return self.room >= 0

    def __str__(self) -> str:
        figures = f"{100 * self.value:.2f} %, limit {100 * self.limit:.2f} %"
        said = "holds " if self.holds else "MISSED"
        return f"{said} {self.table}, {self.learner}, {self.method}: {self.what} {figures}"


def mean(row: Row, measure: str) -> float:
    """Return the mean over splits."""
    return float(np.mean(row[measure]))


def along(rows: Iterable[Row], table: str, learner: str) -> list[tuple[float, float]]:
    """Return disparity and accuracy of our decisions along epsilons, in rising order of epsilon."""
    found = [
        row
        for row in rows
        if (row["table"], row["learner"]) == (table, learner) and "decisions" in row
    ]
    on_path = [
        row
        for row in found
        if row["method"] == ALONG or row["method"].startswith(f"{ALONG}, epsilon")
    ]
    ordered = sorted(on_path, key=lambda row: float(row["method"].partition("epsilon ")[2] or 0.0))
    return [(mean(row, "decisions"), mean(row, "accuracy")) for row in ordered]


def verdicts(rows: Iterable[Row]) -> list[Verdict]:
    """Judge all rows that can be judged."""
    rows = [row for row in rows if "decisions" in row]
    found = []
    for row in rows:
        key = row["table"], row["learner"], row["method"]
        if row["method"] in OURS:
            for what, above in ABOVE.items():
                value, limit = mean(row, what), TIMES_CHANCE * mean(row, f"{what}_chance") + above
                found.append(Verdict(*key, f"disparity of {what}", value, limit, limit - value))
        if row["method"] == RIVAL and (points := along(rows, *key[:2])):
            ours = float(np.interp(mean(row, "decisions"), *zip(*sorted(points), strict=True)))
            limit = mean(row, "accuracy") - LESS_ACCURATE
            found.append(
                Verdict(
                    *key[:2],
                    ALONG,
                    f"accuracy at the disparity of {RIVAL}",
                    ours,
                    limit,
                    ours - limit,
                )
            )
    return found


RIVALS = (
    "LinearPost",
    "LinearPost, calibrated",
    "FairProjection",
    "ExponentiatedGradient",
    "ThresholdOptimizer, attribute given",
)


@dataclass(frozen=True)
class Duel:
    """A rival and ours, with the same knowledge at prediction, on one table and learner.

    ``theirs`` and ``ours`` are disparity and accuracy of decisions.
    """

    table: str
    learner: str
    rival: str
    theirs: tuple[float, float]
    ours: tuple[float, float]

    @property
    def lost(self) -> bool:
        """Whether the rival is better in one and worse in neither."""
        fairer, better = self.ours[0] - self.theirs[0], self.theirs[1] - self.ours[1]
        return min(fairer, better) >= 0 and max(fairer, better) > 0

    @property
    def won(self) -> bool:
        """Whether ours is."""
        return Duel("", "", "", self.ours, self.theirs).lost


def duels(rows: Iterable[Row]) -> list[Duel]:
    """Compare every rival with ours."""
    known = {(row["table"], row["learner"], row["method"]): row for row in rows if row["splits"]}
    found = []
    for (table, learner, rival), row in known.items():
        given = ", attribute given" if rival.endswith("given") else ""
        ours = known.get((table, learner, f"{ALONG}{given}"))
        if rival in RIVALS and ours is not None and ours["splits"] == row["splits"]:
            both = [(mean(each, "decisions"), mean(each, "accuracy")) for each in (row, ours)]
            found.append(Duel(table, learner, rival, *both))
    return found


def extremes(judged: Iterable[Verdict]) -> list[tuple[Verdict, Verdict, int, int]]:
    """Return worst and best for each method and requirement, how many hold, and of how many."""
    together: dict[tuple[str, str], list[Verdict]] = {}
    for one in judged:
        together.setdefault((one.method, one.what), []).append(one)
    ordered = [sorted(some, key=lambda one: one.room) for some in together.values()]
    return [(some[0], some[-1], sum(one.holds for one in some), len(some)) for some in ordered]
