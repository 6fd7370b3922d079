"""Running time per label and round, beside the paper's 5 s on a V100: its SGD, exact binary steps in its rounds, and the exact optimum."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.experiment import Configuration, Experiment, Row
from experiments.tables import MISSING, cell, chosen, markdown
from experiments.theory_figures import growth
from r2b._data.compute import one_blas_thread
from r2b.methods import R2B, Exact, LabelMethod
from r2b.metrics import demographic_parity_difference

PAPER_SECONDS: Final = 5.0
CLASSES: Final = 16
ROUNDS: Final = 100
STEPS: Final = 100_000
SGD_ROWS: Final = 10_000
"""The size at which SGD is timed; its batches cost the same at any."""
QUICK_STEPS: Final = 2_000

SOLVERS: Final[dict[str, str]] = {
    "sgd": "one round, the paper's SGD",
    "rounds": "100 rounds, exact binary steps",
    "exact": "the optimum",
}
_CASES: Final = (("class", 10_000), ("class", 1_000_000), ("soft", 10_000), ("soft", 30_000))
GROWTH: Final = {
    "rows": ((3_000, CLASSES, 2), (10_000, CLASSES, 2), (30_000, CLASSES, 2)),
    "classes": ((3_000, 4, 2), (3_000, CLASSES, 2), (3_000, 64, 2)),
    "groups": ((3_000, CLASSES, 2), (3_000, CLASSES, 8), (3_000, CLASSES, 32)),
}
"""What is varied, and rows, classes and groups of each step; distributions as labels."""


def sample_labels(
    kind: str, size: int, seed: int, classes: int = CLASSES, n_groups: int = 2
) -> tuple[Any, Any]:
    """Draw classes, or distributions, that lean with the group: the first not at all, the last most."""
    rng = np.random.default_rng([seed, 33])
    groups = rng.integers(0, n_groups, size)
    lean = (groups / (n_groups - 1))[:, None] * np.linspace(-1, 1, classes)
    if kind == "class":
        return np.argmax(lean + rng.gumbel(size=(size, classes)), axis=1), groups
    powers = np.exp(lean + rng.standard_normal((size, classes)))
    return powers / powers.sum(axis=1, keepdims=True), groups


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Time one fit; the numbers of seconds are the only measures of these experiments that change from run to run."""
    classes, n_groups = configuration.get("classes", CLASSES), configuration.get("groups", 2)
    labels, groups = sample_labels(
        configuration["labels"], configuration["size"], seed, classes, n_groups
    )
    make: dict[str, Callable[[], LabelMethod]] = {
        "sgd": lambda: R2B(
            max_rounds=1, binary="sgd", steps=configuration["steps"], epochs=0, random_state=seed
        ),
        "rounds": lambda: R2B(max_rounds=ROUNDS),
        "exact": Exact,
    }
    with one_blas_thread():
        # Once on few rows, so that compiling is not timed.
        Exact().fit(labels[:200], sensitive_features=groups[:200])
        method = make[configuration["solver"]]()
        begun = time.perf_counter()
        method.fit(labels, sensitive_features=groups)
        taken = time.perf_counter() - begun
    rounds = {"sgd": 1, "rounds": ROUNDS, "exact": None}[configuration["solver"]]
    fair = method.transform(labels, sensitive_features=groups)
    return {
        "time": taken,
        "n_rounds": rounds,
        "time_per_label_and_round": None if rounds is None else taken / classes / rounds,
        "time_per_label": taken / classes,
        "data_parity": demographic_parity_difference(labels, sensitive_features=groups),
        "label_parity": demographic_parity_difference(fair, sensitive_features=groups),
    }


def configurations(quick: bool) -> list[Configuration]:
    """Three solvers on classes and on distributions."""
    cases = _CASES[::2] if quick else _CASES
    steps = QUICK_STEPS if quick else STEPS
    listed: list[Configuration] = [
        {
            "labels": labels,
            "size": size,
            "solver": solver,
            "steps": steps if solver == "sgd" else None,
        }
        for labels, size in cases
        for solver in SOLVERS
        if solver != "sgd" or size == SGD_ROWS
    ]
    shapes = dict.fromkeys(shape for steps in GROWTH.values() for shape in steps)
    listed += [
        {
            "labels": "soft",
            "size": size,
            "solver": solver,
            "steps": None,
            "classes": classes,
            "groups": n_groups,
        }
        for size, classes, n_groups in (list(shapes)[:1] if quick else shapes)
        for solver in ("rounds", "exact")
    ]
    return listed


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    total = PAPER_SECONDS * CLASSES * ROUNDS
    words = f"""Fitting labels of {CLASSES} classes and two groups on one CPU core, compiling not counted. The paper:
"approximately 5s per label in each round" for 100,000 SGD steps of 256 rows on one V100; a hundred rounds of {CLASSES} labels, one
after another, are then {total:,.0f} s. SGD here takes its steps for all classes at once. Times depend on the machine and differ
from run to run, unlike every other number of this page; parity does not. Class labels are merged into one row per group and class,
so that only reading them grows with the rows."""
    body = []
    for labels, size in _CASES:
        for solver, spoken in SOLVERS.items():
            if solver == "sgd" and size != SGD_ROWS:
                continue
            found = chosen(rows, labels=labels, size=size, solver=solver, classes=None)
            if solver == "sgd" and found:
                spoken += f" ({found[0]['steps']:,.0f} steps of 256 rows)"
            each = cell(found, "time_per_label_and_round", 1.0)
            taken, data, left = (
                cell(found, "time", 1.0),
                cell(found, "data_parity"),
                cell(found, "label_parity"),
            )
            if taken is None or data is None or left is None:
                body.append([labels, f"{size:,}", spoken, MISSING, "", "", ""])
                continue
            pace = (
                ""
                if each is None
                else f"{each.mean:.2g} s ({PAPER_SECONDS / each.mean:,.0f} times the paper's speed)"
            )
            body.append(
                [
                    labels,
                    f"{size:,}",
                    spoken,
                    f"{taken.mean:.3g} s",
                    pace,
                    f"{data.mean:.1f}",
                    f"{left.mean:.2g}",
                ]
            )
    head = [
        "labels",
        "rows",
        "solver",
        "time",
        "per label and round",
        "parity before, %",
        "after, %",
    ]
    return f"{words}\n\n{markdown(head, body)}\n\n{_growth(rows)}"


def exponent(rows: Sequence[Row], varied: str, solver: str) -> float | None:
    """Give the power of what is varied that the time grows with, from the first step to the last; None where a step was not run."""
    ends = []
    for shape in (GROWTH[varied][0], GROWTH[varied][-1]):
        found = cell(
            chosen(
                rows, solver=solver, **dict(zip(("size", "classes", "groups"), shape, strict=True))
            ),
            "time",
            1.0,
        )
        if found is None:
            return None
        ends.append((shape[("rows", "classes", "groups").index(varied)], found.mean))
    return float(np.log(ends[1][1] / ends[0][1]) / np.log(ends[1][0] / ends[0][0]))


def _growth(rows: Sequence[Row]) -> str:
    words = """### By rows, classes and groups

The paper: "The time complexity for each single label is O(|S|) in each round". Distributions as labels, seconds per fit. The last column
is the power that time grows with: 1 is proportional, 0 is not at all. All groups of a class are solved at once here, and a group has
fewer rows the more groups there are, so that groups cost little; the exact solver's time follows the size of its dual, groups times
classes, and the rows that it passes over."""
    body = []
    for varied, shapes in GROWTH.items():
        for solver in ("rounds", "exact"):
            cells = [
                cell(chosen(rows, solver=solver, size=n, classes=c, groups=g), "time", 1.0)
                for n, c, g in shapes
            ]
            steps = ", ".join(
                f"{shape[('rows', 'classes', 'groups').index(varied)]:,}" for shape in shapes
            )
            power = exponent(rows, varied, solver)
            times = [MISSING if value is None else f"{value.mean:.3g} s" for value in cells]
            body.append(
                [
                    f"{varied}: {steps}",
                    SOLVERS[solver],
                    *times,
                    MISSING if power is None else f"{power:.1f}",
                ]
            )
    return f"{words}\n\n{markdown(['varied', 'solver', 'first', 'second', 'third', 'power'], body)}"


EXPERIMENT: Final = Experiment(
    name="appendix_time",
    title="Running time",
    configurations=configurations,
    run=run,
    section=section,
    figures=growth,
    seeds=(0, 1, 2),
)
