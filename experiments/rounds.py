"""Disparity of training labels by ADMM round, for five tolerances: the figure on convergence.

Only labels and groups matter, so the paper's 36 panels are 9: classes and rows per class of the
synthetic data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from experiments.experiment import Configuration, Row, crossed
from experiments.figures import Axis, Panel, Picture, Series, points
from experiments.synthetic import CLASSES, PER_CLASS, biased_groups
from experiments.tables import cell, grouped, markdown
from r2b.methods import R2B
from r2b.metrics import demographic_parity_difference

TITLE: Final = "Rounds of Algorithm 1"

EPSILONS: Final = (0.0, 0.025, 0.05, 0.075, 0.10)


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Run Algorithm 1 once; note the disparity if it stopped after each round; 0 is the data."""
    n_classes = configuration["classes"]
    y = np.repeat(np.arange(n_classes), configuration["per_class"])
    groups = biased_groups(y, np.random.default_rng([seed, n_classes, configuration["per_class"]]))
    target = configuration.get("target", "free")
    history = (
        R2B(configuration["epsilon"], max_rounds=max(ROUNDS), target=target)
        .fit(y, sensitive_features=groups)
        .history_
    )
    before = demographic_parity_difference(y, sensitive_features=groups)
    return {f"round_{t}": history[t - 1].disparity if t else before for t in ROUNDS}


def configurations(quick: bool) -> list[Configuration]:
    """Nine samples and five tolerances; two small samples in the small setting."""
    classes, sizes = ((4, 16), (1_000,)) if quick else (CLASSES, PER_CLASS)
    free = crossed(classes=classes, per_class=sizes, epsilon=EPSILONS)
    return free + [{**each, "target": "population"} for each in free if not quick]


ROUNDS: Final = (0, 1, 10, 20, 50, 100)
"""The paper's; 0 is the data."""

_WORDS: Final = """\
Disparity of the training labels, in %, by the number of ADMM rounds, on the labels of the synthetic
data (features do not matter), mean over seeds and rows per class. The paper shows curves only, and
says of them that 50 to 100 rounds suffice, and that disparity converges to the smaller of epsilon
and the disparity of the data: the last two columns are how far any run is from that, in points,
after 50 and after 100 rounds. At epsilon 0 disparity is at or near 0 after the first round, rises
while entries of Z below 0 are clipped, and falls again: the rise comes from the last clip and
division alone (see `convergence.md`)."""

CLOSE: Final = 1e-3
"""How near to the smaller of epsilon and the disparity of the data counts as converged."""
MEANS: Final = {
    None: "The common mean free, as Algorithm 1 is printed",
    "population": "The mean pinned, as it was published",
}


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    parts = [_WORDS]
    for target, title in MEANS.items():
        found = [row for row in rows if row.get("target") == target]
        if found:
            parts.append(f"### {title}\n\n{_table(found)}\n\n{_account(found)}")
    return "\n\n".join(parts)


def off_by(row: Row, rounds: int) -> float:
    """Return how far a run is from the smaller of epsilon and the disparity of the data."""
    return float(abs(row[f"round_{rounds}"] - min(row["epsilon"], row["round_0"])))


def _table(rows: Sequence[Row]) -> str:
    head = [
        "classes",
        "epsilon",
        "data",
        *(f"{t} rounds" if t > 1 else "1 round" for t in ROUNDS[1:]),
        "off after 50",
        "off after 100",
    ]
    body = []
    for (classes, epsilon), found in sorted(grouped(rows, "classes", "epsilon").items()):
        numbers = [f"{cell(found, f'round_{t}').mean:.2f}" for t in ROUNDS]
        off = [f"{100 * max(off_by(row, t) for row in found):.2f}" for t in (50, 100)]
        body.append([str(classes), f"{epsilon:g}", *numbers, *off])
    return markdown(head, body)


def _account(rows: Sequence[Row]) -> str:
    near = {t: sum(off_by(row, t) <= CLOSE for row in rows) for t in (20, 50, 100)}
    return (
        f"Within {100 * CLOSE:g} points:"
        f" {', '.join(f'{n} of {len(rows)} runs after {t} rounds' for t, n in near.items())}."
    )


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw disparity by round, the mean free and pinned."""
    drawn = {}
    for (target,), found in grouped(rows, "target").items():
        stem, name = ("parity-pinned", "pinned") if target else ("parity", "free")
        title = f"Disparity of the training labels by ADMM round, mean {name}"
        drawn[stem] = _picture(found, title)
    return drawn


def _picture(rows: Sequence[Row], title: str) -> Picture:
    """Return one panel per number of classes and of rows per class, one line per epsilon."""
    axis = Axis("disparity of the labels (%)", "symlog", (0, 1, 2, 5, 10, 20, 50))
    grid = []
    for (classes,), of_classes in grouped(rows, "classes").items():
        panels = []
        for (size,), of_size in grouped(of_classes, "per_class").items():
            series = [
                Series(
                    f"epsilon {100 * epsilon:g} %",
                    points((t, cell(found, f"round_{t}")) for t in ROUNDS),
                )
                for (epsilon,), found in grouped(of_size, "epsilon").items()
            ]
            panels.append(Panel(f"{classes} classes, {size:,} rows each", tuple(series), axis))
        grid.append(tuple(panels))
    words = (
        "One line for each epsilon; round 0 is the data. Mean over seeds with 99 % intervals. Axes"
        " are logarithmic above 1."
    )
    along = Axis("ADMM rounds", "symlog", (0.0, 1.0, 10.0, 100.0))
    return Picture(title, words, tuple(grid), along, legend=True)
