"""From rows to cells: means over seeds with 99 % intervals, verdicts against the paper, and Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from experiments.experiment import Row
from experiments.paper_numbers import Value

# Student's t for a two-sided 99 % interval, by degrees of freedom 1 to 9; the paper does not say whether it took t or the normal 2.58.
_T: Final = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250)
_NORMAL: Final = 2.576

CLOSE: Final = 1.5
"""How many points away a number still counts as near."""

# The paper prints one decimal: half a unit of it belongs to every number.
_ROUNDING: Final = 0.05

INSIDE, NEAR, APART, MISSING = "within the interval", "within 1.5 points", "not matched", "not run"


@dataclass(frozen=True)
class Cell:
    """A mean over seeds.

    Attributes
    ----------
    mean : float
    half_width : float or None
        Of the 99 % interval; None for one seed.
    seeds : int
    """

    mean: float
    half_width: float | None
    seeds: int

    def text(self, digits: int = 1) -> str:
        """Write mean and half width."""
        half = "" if self.half_width is None else f" ± {self.half_width:.{digits}f}"
        return f"{self.mean:.{digits}f}{half}"


def chosen(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Pick the rows that have all the values asked for."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def cell(rows: Sequence[Row], measure: str, scale: float = 100.0) -> Cell | None:
    """Average one measure over rows, one per seed; None where there are none.

    Examples
    --------
    >>> cell([{"parity": 0.01}, {"parity": 0.03}], "parity").text()
    '2.0 ± 63.7'
    """
    values = np.array([row[measure] for row in rows if row.get(measure) is not None]) * scale
    if not len(values):
        return None
    if len(values) == 1:
        return Cell(float(values[0]), None, 1)
    quantile = _T[len(values) - 2] if len(values) - 2 < len(_T) else _NORMAL
    return Cell(float(values.mean()), float(quantile * values.std(ddof=1) / np.sqrt(len(values))), len(values))


def verdict(ours: Cell | None, paper: Value) -> str:
    """Say whether our mean lies in the paper's interval, or within 1.5 points of its mean, or neither.

    Examples
    --------
    >>> verdict(Cell(4.0, 0.2, 10), Value(3.8, 0.2)), verdict(Cell(5.0, 0.2, 10), Value(3.8, 0.2)), verdict(None, Value(3.8))
    ('within the interval', 'within 1.5 points', 'not run')
    """
    if ours is None:
        return MISSING
    distance = abs(ours.mean - paper.mean)
    if distance <= (paper.half_width or 0.0) + _ROUNDING + 1e-9:
        return INSIDE
    return NEAR if distance <= CLOSE + 1e-9 else APART


def tally(verdicts: Iterable[str]) -> str:
    """Count verdicts in words."""
    listed = list(verdicts)
    return ", ".join(f"{listed.count(name)} {name}" for name in (INSIDE, NEAR, APART, MISSING) if name in listed)


def beside(ours: Cell | None, paper: Value | None) -> str:
    """Write one cell of a comparison: our number, the paper's in brackets, and a mark for the verdict."""
    if ours is None:
        return MISSING
    if paper is None:
        return ours.text()
    mark = {INSIDE: "✓", NEAR: "≈", APART: "✗"}[verdict(ours, paper)]
    half = "" if paper.half_width is None else f" ± {paper.half_width:g}"
    return f"{ours.text()} ({paper.mean:g}{half}) {mark}"


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Write a table.

    Examples
    --------
    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
