"""Figure 1 of the paper: debiasing by class and dividing by sums brings bias back, on 3 rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from experiments.experiment import Configuration, Floats, Row, crossed
from experiments.figures import spoken
from experiments.labelling import LABEL_METHODS
from experiments.tables import chosen, markdown

TITLE: Final = "Figure 1: three rows"
SEEDS: Final = (0,)

GROUPS: Final = np.array([0, 1, 0])
LABELS: Final = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
FIGURE: Final = np.array([[1.0, 0.5, 0.0], [0.5, 0.25, 0.5], [0.0, 0.0, 1.0]])
"""The figure's middle matrix: every class fair by itself, rows not yet distributions."""

PAPER: Final = {"data": 0.75, "figure": 0.1}
CASES: Final = ("data", "figure", *LABEL_METHODS)


def parity_of(matrix: Floats) -> float:
    """Return the disparity of rows that need not be distributions.

    Examples
    --------
    >>> parity_of(LABELS), parity_of(FIGURE)
    (0.75, 0.0)
    """
    means = np.stack([matrix[group == GROUPS].mean(axis=0) for group in (0, 1)])
    return float(np.ptp(means, axis=0).max())


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Return what a method makes of the figure's labels."""
    case = configuration["case"]
    before = None
    if case == "data":
        found = LABELS
    elif case == "figure":
        before, found = parity_of(FIGURE), FIGURE / FIGURE.sum(axis=1, keepdims=True)
    else:
        found = LABEL_METHODS[case]().fit_transform(LABELS, sensitive_features=GROUPS)
    rows = {
        f"row_{i}": " ".join(f"{value:.3f}" for value in row)
        for i, row in enumerate(np.abs(found), start=1)
    }
    moved = float(((found - LABELS) ** 2).sum())
    return {
        "parity_before_normalising": before,
        "parity": parity_of(found),
        "squared_distance": moved,
        **rows,
    }


def configurations(quick: bool) -> list[Configuration]:
    """List the data, the figure's own matrix, and all methods on labels."""
    return crossed(case=CASES)


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    words = """Three rows, three classes, two groups: rows 1 and 3 are of one group, row 2 is of the
other. The paper's matrix debiases every class by itself (disparity 0) and then divides rows by
their sums. It is an illustration, not the answer of one of the methods; theirs are below it.
Debiasing each class by itself and dividing (OST, HTO, R2B_0) does not reach disparity 0; the
paper's rounds, mean free or pinned, and the exact optimum do. R2B also sets negative entries of Z
to 0 and divides rows at the end; after 100 rounds that changes nothing here, as Z has no entry
below 0 left that shows."""
    body = []
    for case in CASES:
        [row] = chosen(rows, case=case)
        named = {"data": "labels as they are", "figure": "the figure's, normalised"}.get(
            case, spoken(case)
        )
        paper = (
            f"{PAPER[case]:g}{' ✓' if abs(row['parity'] - PAPER[case]) < 5e-4 else ' ✗'}"
            if case in PAPER
            else ""
        )
        numbers = [f"{row['parity']:.3f}", f"{row['squared_distance']:.3f}"]
        body.append([named, row["row_1"], row["row_2"], row["row_3"], *numbers, paper])
    head = [
        "labels",
        "row 1",
        "row 2",
        "row 3",
        "disparity",
        "squared distance",
        "the paper's disparity",
    ]
    return f"{words}\n\n{markdown(head, body)}"
