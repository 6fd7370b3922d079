"""Running time per label and round, beside the paper's 5 s on a V100.

Timed are the paper's descent, Algorithm 1 with exact binary steps, and the exact optimum: process
time of one fit, which does not count what other programs take, ten times over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from experiments.experiment import Configuration, Experiment, Row
from experiments.figures import Axis, Panel, Picture, Series
from experiments.tables import chosen, markdown
from r2b._data.compute import one_blas_thread
from r2b.methods import R2B, Exact, LabelMethod
from r2b.metrics import demographic_parity_difference

PAPER_SECONDS: Final = 5.0
CLASSES: Final = 16
ROUNDS: Final = 100
STEPS: Final = 100_000
QUICK_STEPS: Final = 2_000

SOLVERS: Final[dict[str, str]] = {
    "sgd": "one round, 100,000 steps of the paper's descent",
    "rounds": "100 rounds, exact binary steps",
    "exact": "the optimum",
}
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
VARIED: Final = {"rows": (3_000, 30_000), "classes": (4, 64), "groups": (2, 32)}
"""From the least to the most of each, the others being 3,000 rows, 16 classes and 2 groups."""
_USUAL: Final = {"labels": "soft", "size": 3_000, "classes": CLASSES, "groups": 2}
_COLUMN: Final = {"rows": "size", "classes": "classes", "groups": "groups"}


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
    """Time one fit on one core, by the time that this process was at work."""
    labels, groups = sample_labels(
        configuration["labels"],
        configuration["size"],
        seed,
        configuration["classes"],
        configuration["groups"],
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
        begun = time.process_time()
        method.fit(labels, sensitive_features=groups)
        taken = time.process_time() - begun
    rounds = {"sgd": 1, "rounds": ROUNDS, "exact": None}[configuration["solver"]]
    fair = method.transform(labels, sensitive_features=groups)
    return {
        "time": taken,
        "time_per_label_and_round": None
        if rounds is None
        else taken / configuration["classes"] / rounds,
        "data_parity": demographic_parity_difference(labels, sensitive_features=groups),
        "label_parity": demographic_parity_difference(fair, sensitive_features=groups),
    }


def configurations(quick: bool) -> list[Configuration]:
    """List every case with the solvers that it is timed with."""
    return [
        {
            "labels": labels,
            "size": size,
            "classes": classes,
            "groups": groups,
            "solver": solver,
            "steps": None if solver != "sgd" else QUICK_STEPS if quick else STEPS,
        }
        for labels, size, classes, groups in (CASES[:1] if quick else CASES)
        for solver in SOLVERS
        if solver != "sgd" or (labels, size, classes, groups) == SGD_CASE
    ]


def median_time(rows: Sequence[Row], **wanted: Any) -> float:
    """Return the median seconds of a case: 16 classes and 2 groups where nothing else is said."""
    found = chosen(rows, **{"classes": CLASSES, "groups": 2, **wanted})
    return float(np.median([row["time"] for row in found]))


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    repeats = len({row["seed"] for row in rows})
    words = f"""Process time of one fit on one core, compiling not counted, median of {repeats} fits on labels drawn anew. The machine was
shared: process time leaves out what other programs take, but not that they empty the caches. The paper: "approximately
5s per label in each round" for 100,000 SGD steps of 256 rows on one V100; a hundred rounds of {CLASSES} labels, one after another, are then
{PAPER_SECONDS * CLASSES * ROUNDS:,.0f} s. The descent here takes its steps for all classes at once. Class labels are merged into one row per
group and class; distributions cannot be merged."""
    body = []
    for labels, size, classes, groups in CASES:
        for solver, spoken in SOLVERS.items():
            if solver == "sgd" and (labels, size, classes, groups) != SGD_CASE:
                continue
            wanted = {"labels": labels, "size": size, "classes": classes, "groups": groups}
            taken = median_time(rows, **wanted, solver=solver)
            rounds = {"sgd": 1, "rounds": ROUNDS}.get(solver)
            pace = "" if rounds is None else f"{taken / classes / rounds:.2g} s"
            shape = [labels, f"{size:,}", str(classes), str(groups), spoken]
            body.append([*shape, f"{taken:.2g} s", pace])
    head = ["labels", "rows", "classes", "groups", "solver", "time", "per label and round"]
    return f"{words}\n\n{markdown(head, body)}\n\n{_growth(rows)}"


def exponent(rows: Sequence[Row], varied: str, solver: str) -> float:
    """Return the power of what is varied that time grows with."""
    least, most = (
        median_time(rows, **{**_USUAL, _COLUMN[varied]: value}, solver=solver)
        for value in VARIED[varied]
    )
    few, many = VARIED[varied]
    return float(np.log(most / least) / np.log(many / few))


def _growth(rows: Sequence[Row]) -> str:
    words = """The paper: "The time complexity for each single label is O(|S|) in each round". The power that time grows with, distributions
as labels: 1 is proportional, 0 is not at all. All groups of a class are solved at once here, and a group has fewer rows the more groups
there are, so that groups cost little."""
    body = []
    for varied, ends in VARIED.items():
        powers = [exponent(rows, varied, solver) for solver in ("rounds", "exact")]
        body.append(
            [
                f"{varied}, {ends[0]:,} to {ends[1]:,}",
                *(f"{power:.1f}" for power in powers),
            ]
        )
    return f"{words}\n\n{markdown(['varied', SOLVERS['rounds'], SOLVERS['exact']], body)}"


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw the time of a fit by rows, by classes and by groups, the others held at their least."""
    solvers = {"rounds": "100 rounds", "exact": "the optimum"}
    names = {"size": "rows", "classes": "classes", "groups": "groups"}
    grown = chosen(rows, labels="soft")
    # The shape that all three series share.
    usual = {"size": 3_000, "classes": 16, "groups": 2}
    panels = []
    for varied, name in names.items():
        fixed = {each: value for each, value in usual.items() if each != varied}
        series = []
        for solver, words in solvers.items():
            some = chosen(grown, solver=solver, **fixed)
            sizes = sorted({row[varied] for row in some})
            times = [median(row["time"] for row in some if row[varied] == size) for size in sizes]
            series.append(
                Series(words, tuple((*each, None) for each in zip(sizes, times, strict=True)))
            )
        along = Axis(f"{name} (log)", "log", tuple(map(float, sizes)))
        others = ", ".join(f"{value:,.0f} {names[each]}" for each, value in fixed.items())
        axis = Axis("seconds (log)", "log", floor=1e-6)
        panels.append(Panel(others, tuple(series), axis, along=along))
    words = "One fit on one core, probabilities as labels; process time, median of ten; both axes logarithmic."
    title = "Running time by rows, classes and groups"
    return {"growth": Picture(title, words, (tuple(panels),), Axis("size", "log"))}


EXPERIMENT: Final = Experiment(
    name="appendix_time",
    title="Running time",
    configurations=configurations,
    run=run,
    section=section,
    figures=figures,
    revision=2,
)
