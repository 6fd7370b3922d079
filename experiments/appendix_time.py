"""Running time per label and round, beside the paper's 5 s on a V100.

Timed are the paper's descent, Algorithm 1 with exact binary steps, and the exact optimum: process
time of one fit, which does not count what other programs take, ten times over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from experiments.experiment import Configuration, Row
from experiments.figures import Axis, Panel, Picture, Series
from experiments.tables import chosen, grouped, markdown
from r2b._data.compute import one_blas_thread
from r2b.methods import R2B, Exact, LabelMethod
from r2b.metrics import demographic_parity_difference

TITLE: Final = "Running time"
REVISION: Final = 2

PAPER_SECONDS: Final = 5.0
CLASSES: Final = 16
ROUNDS: Final = 100
STEPS: Final = 100_000
QUICK_STEPS: Final = 2_000

SOLVERS: Final = {
    "sgd": "one round, 100,000 steps of the paper's descent",
    "rounds": "100 rounds, exact binary steps",
    "exact": "the optimum",
}
ROUNDS_OF: Final = {"sgd": 1, "rounds": ROUNDS}
SHAPE: Final = ("labels", "size", "classes", "groups")
CASES: Final = (
    ("class", 10_000, CLASSES, 2),
    ("class", 1_000_000, CLASSES, 2),
    ("soft", 3_000, CLASSES, 2),
    ("soft", 10_000, CLASSES, 2),
    ("soft", 30_000, CLASSES, 2),
    ("soft", 3_000, 4, 2),
    ("soft", 3_000, 64, 2),
    ("soft", 3_000, CLASSES, 8),
    ("soft", 3_000, CLASSES, 32),
)
"""Kind of labels, rows, classes and groups. Every configuration is timed once."""
SGD_CASE: Final = ("soft", 10_000, CLASSES, 2)
USUAL: Final = {"size": 3_000, "classes": CLASSES, "groups": 2}
"""What is held while another size grows."""
VARIED: Final = {
    "rows": ("size", 3_000, 30_000),
    "classes": ("classes", 4, 64),
    "groups": ("groups", 2, 32),
}
"""Sizes by name: their column, the least and the most of each."""


def sample_labels(
    kind: str, size: int, seed: int, classes: int = CLASSES, n_groups: int = 2
) -> tuple[Any, Any]:
    """Draw classes, or distributions: the first do not lean with the group, the last do most."""
    rng = np.random.default_rng([seed, 33])
    groups = rng.integers(0, n_groups, size)
    lean = (groups / (n_groups - 1))[:, None] * np.linspace(-1, 1, classes)
    if kind == "class":
        return np.argmax(lean + rng.gumbel(size=(size, classes)), axis=1), groups
    powers = np.exp(lean + rng.standard_normal((size, classes)))
    return powers / powers.sum(axis=1, keepdims=True), groups


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Time one fit on one core, by the time that this process was at work."""
    kind, size, classes, n_groups = (configuration[name] for name in SHAPE)
    labels, groups = sample_labels(kind, size, seed, classes, n_groups)
    known, solver = {"sensitive_features": groups}, configuration["solver"]
    method: LabelMethod = Exact()
    if solver == "rounds":
        method = R2B(max_rounds=ROUNDS)
    elif solver == "sgd":
        descent: dict[str, Any] = {"binary": "sgd", "steps": configuration["steps"], "epochs": 0}
        method = R2B(max_rounds=1, **descent, random_state=seed)
    with one_blas_thread():
        # Once on few rows, so that compiling is not timed.
        Exact().fit(labels[:200], sensitive_features=groups[:200])
        begun = time.process_time()
        method.fit(labels, **known)
        taken = time.process_time() - begun
    rounds, fair = ROUNDS_OF.get(solver), method.transform(labels, **known)
    return {
        "time": taken,
        "time_per_label_and_round": None if rounds is None else taken / classes / rounds,
        "data_parity": demographic_parity_difference(labels, **known),
        "label_parity": demographic_parity_difference(fair, **known),
    }


def configurations(quick: bool) -> list[Configuration]:
    """List every case with the solvers that it is timed with."""
    return [
        {
            **dict(zip(SHAPE, case, strict=True)),
            "solver": solver,
            "steps": None if solver != "sgd" else QUICK_STEPS if quick else STEPS,
        }
        for case in (CASES[:1] if quick else CASES)
        for solver in SOLVERS
        if solver != "sgd" or case == SGD_CASE
    ]


def median_time(rows: Sequence[Row], **wanted: Any) -> float:
    """Return the median seconds of a case: 16 classes and 2 groups where nothing else is said."""
    found = chosen(rows, **{"classes": CLASSES, "groups": 2, **wanted})
    return float(np.median([row["time"] for row in found]))


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    repeats = len({row["seed"] for row in rows})
    words = f"""Process time of one fit on one core, compiling not counted, median of {repeats} fits
on labels drawn anew. The machine was shared: process time leaves out what other programs take, but
not that they empty the caches. The paper: "approximately 5s per label in each round" for 100,000
SGD steps of 256 rows on one V100; a hundred rounds of {CLASSES} labels, one after another, are then
{PAPER_SECONDS * CLASSES * ROUNDS:,.0f} s. The descent here takes its steps for all classes at once.
Class labels are merged into one row per group and class; distributions cannot be merged."""
    body = []
    for (kind, *sizes, solver), found in grouped(rows, *SHAPE, "solver").items():
        taken, rounds = median(row["time"] for row in found), ROUNDS_OF.get(solver)
        pace = "" if rounds is None else f"{taken / sizes[1] / rounds:.2g} s"
        shape = [kind, f"{sizes[0]:,}", *map(str, sizes[1:]), SOLVERS[solver]]
        body.append([*shape, f"{taken:.2g} s", pace])
    head = ["labels", "rows", "classes", "groups", "solver", "time", "per label and round"]
    return f"{words}\n\n{markdown(head, body)}\n\n{_growth(rows)}"


def exponent(rows: Sequence[Row], varied: str, solver: str) -> float:
    """Return the power of what is varied that time grows with."""
    column, few, many = VARIED[varied]
    least, most = (
        median_time(rows, labels="soft", **{**USUAL, column: value}, solver=solver)
        for value in (few, many)
    )
    return float(np.log(most / least) / np.log(many / few))


def _growth(rows: Sequence[Row]) -> str:
    words = """The paper: "The time complexity for each single label is O(|S|) in each round". The
power that time grows with, distributions as labels: 1 is proportional, 0 is not at all. All groups
of a class are solved at once here, and a group has fewer rows the more groups there are, so that
groups cost little."""
    body = []
    for varied, (_, few, many) in VARIED.items():
        powers = [f"{exponent(rows, varied, solver):.1f}" for solver in ("rounds", "exact")]
        body.append([f"{varied}, {few:,} to {many:,}", *powers])
    return f"{words}\n\n{markdown(['varied', SOLVERS['rounds'], SOLVERS['exact']], body)}"


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw the time of a fit by rows, by classes and by groups, the others held at their least."""
    names = {column: name for name, (column, *_) in VARIED.items()}
    panels = []
    for varied, name in names.items():
        fixed = {each: value for each, value in USUAL.items() if each != varied}
        series, sizes = [], set[float]()
        for solver, words in {"rounds": "100 rounds", "exact": "the optimum"}.items():
            grown = grouped(chosen(rows, labels="soft", solver=solver, **fixed), varied)
            times = {size: median(row["time"] for row in some) for (size,), some in grown.items()}
            series.append(Series(words, tuple((*each, None) for each in sorted(times.items()))))
            sizes |= set(times)
        along = Axis(f"{name} (log)", "log", tuple(sorted(map(float, sizes))))
        others = ", ".join(f"{value:,.0f} {names[each]}" for each, value in fixed.items())
        axis = Axis("seconds (log)", "log", floor=1e-6)
        panels.append(Panel(others, tuple(series), axis, along=along))
    words = (
        "One fit on one core, probabilities as labels; process time, median of ten; both axes"
        " logarithmic."
    )
    title = "Running time by rows, classes and groups"
    return {"growth": Picture(title, words, (tuple(panels),), Axis("size", "log"))}
