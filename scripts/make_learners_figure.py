"""Draw the picture and fill in the tables of docs/learners.md.

``python scripts/make_learners_figure.py`` writes both; ``--check`` only says whether they are what
would be written. The JSON is made by ``python -m benchmarks.learners``.
"""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from benchmarks.learners import RESULTS, table  # noqa: E402 - after the path
from experiments.figures import (  # noqa: E402
    Axis,
    Panel,
    Picture,
    Series,
    fill_marks,
    points,
    update,
)
from experiments.paper_numbers import ADULT  # noqa: E402
from experiments.tables import Cell, cell_of, markdown  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "learners.svg"
PAGE = ROOT / "docs" / "learners.md"
HEADS = ("disparity before", "disparity", "accuracy before", "accuracy")
BIAS = 0.5
WANTED = 0.015  # the paper's level for random forest and kNN, and what it rounds to
ACCEPTS = {
    "logistic regression": "classes, weights",
    "random forest, one per class": "probabilities (regressor)",
    "random forest": "classes, weights",
    "gradient boosting": "classes, weights",
    "kNN": "classes",
    "MLP": "classes, weights",
    "LightGBM": "classes, weights; probabilities by `train_lightgbm`",
}
IN_THE_PAPER = {"random forest, one per class": "rf", "kNN": "knn"}
WAYS = {
    "": "fair labels, by the strategy named",
    "baseline": "labels as they came",
    "argmax": "argmax of the fair labels: the trap",
}
Row = dict[str, Any]


def cell(rows: list[Row], learner: str, way: str, measure: str, p: float = BIAS) -> Cell:
    """Return the mean over splits of one measure, in percent."""
    (row,) = [row for row in rows if (row["learner"], row["way"], row["p"]) == (learner, way, p)]
    return cell_of(row[measure])


def lines_of(rows: list[Row]) -> list[tuple[str, str, str]]:
    """Return what the picture shows, a line each: learner, way, and the name of both."""
    chosen = [
        (row["learner"], row["way"], f"{row['learner']}: {row['way']}")
        for row in rows
        if row["auto"] and row["p"] == BIAS
    ]
    place = next(n for n, (learner, *_) in enumerate(chosen) if learner == "kNN")
    return [
        *chosen[: place + 1],
        ("kNN", "sample, agreement", "kNN: sample, agreement"),
        *chosen[place + 1 :],
    ]


def trade_off(rows: list[Row]) -> Picture:
    """Show disparity and accuracy of baseline, fair labels and their argmax by learner."""
    shown = lines_of(rows)
    panels = []
    for measure, title, axis, level in (
        (
            "probability",
            "Disparity of probabilities",
            Axis("disparity (%, logarithmic)", "log"),
            100 * WANTED,
        ),
        ("accuracy", "Accuracy", Axis("accuracy (%)"), None),
    ):
        series = []
        for way, words in WAYS.items():
            found = [
                (name, cell(rows, learner, way or own, measure)) for learner, own, name in shown
            ]
            series.append(Series(words, points(found)))
        panels.append(Panel(title, tuple(series), axis, level))
    words = (
        "Adult, education by sex, bias injected with p = 0.5; means over ten test splits with "
        "99 % intervals. The attribute is no feature."
    )
    return Picture(
        "What parity costs in accuracy, learner by learner",
        words,
        (tuple(panels),),
        level="the paper's level, 1.5 %",
    )


def summary(rows: list[Row]) -> str:
    """Write one line per learner: what it takes, what is chosen, and what that changes."""
    body = []
    for row in (row for row in rows if row["auto"] and row["p"] == BIAS):
        name = row["learner"]
        numbers = [
            f"{cell(rows, name, way, measure).mean:.1f} %"
            for measure in ("probability", "accuracy")
            for way in ("baseline", row["way"])
        ]
        body.append([name, ACCEPTS[name], f"`{row['way']}`", *numbers])
    return markdown(["learner", "takes", "`auto` chooses", *HEADS], body)


def against_paper(rows: list[Row]) -> str:
    """Write our figures beside those of the paper, for ways measured on both biases."""
    body = []
    for p, (learner, short) in product((0.0, 0.5), IN_THE_PAPER.items()):
        own = next(row["way"] for row in rows if row["auto"] and row["learner"] == learner)
        for way in (own, f"{own}, agreement"):
            numbers = [
                f"{cell(rows, learner, one, ours, p).mean:.1f}"
                f" ({ADULT[theirs, p, short, method].mean})"
                for ours, theirs in (("probability", "parity"), ("accuracy", "top_1"))
                for one, method in (("baseline", "BL"), (way, "R2B"))
            ]
            body.append([f"{p:g}", learner, way, *numbers])
    return markdown(["p", "learner", "trained on", *(f"{head} (paper)" for head in HEADS)], body)


MEASURED = """The figures on this page were measured in November 2026, before the solvers were
rewritten; `make learners` repeats them."""


def page(words: str, rows: list[Row]) -> str:
    """Put the tables between their marks."""
    parts = {
        "measured": MEASURED,
        "summary": summary(rows),
        "paper": against_paper(rows),
        "p = 0.5": table(rows, 0.5),
        "p = 0": table(rows, 0.0),
    }
    return fill_marks(words, parts)


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    made = {PICTURE: trade_off(rows), PAGE: page(PAGE.read_text(encoding="utf-8"), rows)}
    return update(made, arguments)


if __name__ == "__main__":
    sys.exit(main())
