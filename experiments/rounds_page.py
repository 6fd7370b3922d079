"""The section on the rounds of Algorithm 1: parity of the training labels after so many rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.figures import Axis, Panel, Picture, Series, points
from experiments.tables import cell, chosen, markdown

ROUNDS: Final = (0, 1, 10, 20, 50, 100)
"""The paper's; 0 is the data."""

_WORDS: Final = """\
Parity of the training labels, in %, by the number of ADMM rounds, on the labels of the synthetic data (features do not matter), mean over
seeds and rows per class. The paper shows curves only, and says of them that 50 to 100 rounds suffice, and that parity converges to the
smaller of epsilon and the parity of the data: the last column is how far any run is from that after 100 rounds, in points."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    head = ["classes", "epsilon", "data", *(f"{t} rounds" if t > 1 else "1 round" for t in ROUNDS[1:]), "furthest from min(epsilon, data)"]
    body = []
    for classes, epsilon in _cases(rows):
        found = chosen(rows, classes=classes, epsilon=epsilon)
        cells = [cell(found, f"round_{t}") for t in ROUNDS]
        off = max(abs(row["round_100"] - min(epsilon, row["round_0"])) for row in found)
        numbers = ["not run" if value is None else f"{value.mean:.2f}" for value in cells]
        body.append([str(classes), f"{epsilon:g}", *numbers, f"{100 * off:.2f}"])
    return f"{_WORDS}\n\n{markdown(head, body)}"


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw parity by round: one panel per number of classes and of rows per class, one line per epsilon."""
    sizes, epsilons = (sorted({row[name] for row in rows}) for name in ("per_class", "epsilon"))
    grid = []
    for classes in sorted({row["classes"] for row in rows}):
        panels = []
        for size in sizes:
            series = []
            for epsilon in epsilons:
                found = chosen(rows, classes=classes, per_class=size, epsilon=epsilon)
                series.append(Series(f"{100 * epsilon:g} %", points((t, cell(found, f"round_{t}")) for t in ROUNDS)))
            title = f"{classes} classes, {size:,} rows each"
            panels.append(Panel(title, tuple(series), Axis("parity of the labels (%)", zero=True)))
        grid.append(tuple(panels))
    words = "One line for each epsilon, named at its end; round 0 is the data. Mean over seeds with 99 % intervals."
    along = Axis("ADMM rounds (logarithmic above 1)", "symlog", (0.0, 1.0, 10.0, 100.0))
    return {"parity": Picture("Parity of the training labels by ADMM round", words, tuple(grid), along)} if grid else {}


def _cases(rows: Sequence[Row]) -> list[tuple[int, float]]:
    return sorted({(row["classes"], row["epsilon"]) for row in rows})
