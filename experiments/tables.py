"""From rows to cells: means over seeds, paired differences with 99 % intervals, Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import stdtrit

from experiments.experiment import Row
from experiments.paper_numbers import Value
from r2b.errors import ParameterError

# The paper prints one decimal: half a unit of it belongs to every number.
_ROUNDING: Final = 0.05

MARGIN: Final = 1.0
"""How many percentage points one method may be behind another and still count as level with it."""

OVERLAP, APART = "intervals overlap", "intervals apart"


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


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Sort rows by their values of some columns, in the order in which these first occur.

    Examples
    --------
    >>> rows = [{"p": 0, "seed": 0}, {"p": 1, "seed": 0}, {"p": 0, "seed": 1}]
    >>> {p: len(found) for (p,), found in grouped(rows, "p").items()}
    {0: 2, 1: 1}
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return found


def cell(rows: Sequence[Row], measure: str, scale: float = 100.0) -> Cell:
    """Average one measure over rows, one per seed.

    Raises
    ------
    ParameterError
        No row has the measure.

    Examples
    --------
    >>> cell([{"parity": 0.01}, {"parity": 0.03}], "parity").text()
    '2.0 ± 63.7'
    """
    values = [row[measure] for row in rows if row.get(measure) is not None]
    if not values:
        problem = f"No row of the results has {measure!r} for a table of the page."
        raise ParameterError(
            problem, remedy="Run what is missing of the experiment.", measure=measure
        )
    return cell_of(values, scale)


def cell_of(values: Sequence[float], scale: float = 100.0) -> Cell:
    """Average values, with a 99 % interval by Student's t; one value has none."""
    scaled = np.array(values) * scale
    if len(values) == 1:
        return Cell(float(scaled[0]), None, 1)
    # The paper does not say whether its intervals are Student's or normal (2.58 deviations).
    half = stdtrit(len(values) - 1, 0.995) * scaled.std(ddof=1) / np.sqrt(len(values))
    return Cell(float(scaled.mean()), float(half), len(values))


def paired(one: Sequence[Row], other: Sequence[Row], measure: str, scale: float = 100.0) -> Cell:
    """Average the difference of a measure, one minus other, over the seeds that both have.

    Methods share their splits, so differences within a split vary less than the methods do.

    Examples
    --------
    >>> ours = [{"seed": 0, "parity": 0.03}, {"seed": 1, "parity": 0.05}]
    >>> theirs = [{"seed": 1, "parity": 0.04}, {"seed": 0, "parity": 0.02}]
    >>> paired(ours, theirs, "parity").text()
    '1.0 ± 0.0'
    """
    known = {row["seed"]: row[measure] for row in other if row.get(measure) is not None}
    differences = [
        {measure: row[measure] - known[row["seed"]]}
        for row in one
        if row.get(measure) is not None and row["seed"] in known
    ]
    return cell(differences, measure, scale)


def signed(difference: Cell) -> str:
    """Write a difference with its sign.

    Examples
    --------
    >>> signed(Cell(-1.62, 0.22, 10)), signed(Cell(-0.01, 0.1, 10))
    ('-1.6 ± 0.2', '0.0 ± 0.1')
    """
    mean = round(difference.mean, 1) or 0.0
    half = "" if difference.half_width is None else f" ± {difference.half_width:.1f}"
    return f"{mean:+.1f}{half}" if mean else f"0.0{half}"


def lower(difference: Cell) -> bool:
    """Say whether the 99 % interval of a paired difference lies below 0."""
    return difference.mean + (difference.half_width or 0.0) < 0


def higher(difference: Cell) -> bool:
    """Say whether the 99 % interval of a paired difference lies above 0."""
    return difference.mean - (difference.half_width or 0.0) > 0


def at_most(difference: Cell, margin: float = MARGIN) -> bool:
    """Say whether the 99 % interval of a paired difference lies below a margin."""
    return difference.mean + (difference.half_width or 0.0) < margin


def verdict(ours: Cell, paper: Value) -> str:
    """Say whether our 99 % interval and the paper's overlap.

    A number of the paper without an interval must lie in ours.

    Examples
    --------
    >>> [verdict(Cell(mean, 0.2, 10), Value(3.8, 0.2)) for mean in (4.1, 5.0)]
    ['intervals overlap', 'intervals apart']
    """
    reach = (ours.half_width or 0.0) + (paper.half_width or 0.0) + _ROUNDING + 1e-9
    return OVERLAP if abs(ours.mean - paper.mean) <= reach else APART


def beside(ours: Cell, paper: Value | None, *, bold: bool = False, marked: bool = True) -> str:
    """Write one cell of a comparison: our number, the paper's in brackets, and a mark.

    The mark says whether the intervals overlap; there is none on other data than the paper's.
    """
    said = f"**{ours.text()}**" if bold else ours.text()
    if paper is None:
        return said
    half = "" if paper.half_width is None else f" ± {paper.half_width:g}"
    mark = {OVERLAP: " ✓", APART: " ✗"}[verdict(ours, paper)] if marked else ""
    return f"{said} ({paper.mean:g}{half}){mark}"


def boldface(parity: Mapping[str, Cell | Value], accuracy: Mapping[str, Cell | Value]) -> str:
    """Pick the method that the paper's rule highlights.

    It is the one with "the best accuracy among the set of methods that achieve the smallest bias
    within the margin of error". The margin is read as an interval that overlaps with that of the
    smallest bias.

    Examples
    --------
    >>> parity = {"BL": Value(4.7, 0.5), "DPR": Value(3.0, 0.7), "R2B": Value(2.1, 0.4)}
    >>> boldface(parity, {"BL": Value(35.5), "DPR": Value(33.4), "R2B": Value(35.5)})
    'R2B'
    """
    least = min(parity.values(), key=lambda value: value.mean)
    within = [
        name
        for name, value in parity.items()
        if value.mean - (value.half_width or 0.0) <= least.mean + (least.half_width or 0.0) + 1e-9
    ]
    # The fairer of two that are equally accurate.
    return min(within, key=lambda name: (-accuracy[name].mean, parity[name].mean))


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
