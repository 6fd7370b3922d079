"""Algorithm 1 against the optimum of the same problem: by step size tau, by round, with the mean free or pinned; and Z as it is printed.

Five tables of labels, nothing is trained: Adult by sex, by sex and race, and with injected bias; 64
drawn classes; drawn probabilities.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import r2b
from experiments.convergence_page import ROUNDS, section
from experiments.experiment import Configuration, Experiment, Row
from experiments.theory_figures import convergence
from r2b.datasets import load_adult
from r2b.methods import R2B
from r2b.metrics import demographic_parity_difference

TABLES: Final = (
    "Adult, sex",
    "Adult, sex and race",
    "Adult, injected",
    "64 classes",
    "probabilities",
)
EPSILONS: Final = (0.0, 0.025, 0.05, 0.075, 0.10)
TAUS: Final = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
TARGETS: Final = ("free", "population")


@lru_cache(maxsize=1)
def labels_of(table: str) -> tuple[Any, Any]:
    """Return labels and groups: classes, or distributions.

    Examples
    --------
    >>> y, groups = labels_of("probabilities")
    >>> y.shape, sorted(set(groups.tolist()))
    ((600, 6), [0, 1, 2])
    """
    rng = np.random.default_rng(19)
    if table == "64 classes":
        groups = rng.integers(0, 4, 40_000)
        lean = np.where(groups[:, None] == np.arange(64) % 4, 1.0, 0.0)
        return np.argmax(lean + rng.gumbel(size=(40_000, 64)), axis=1), groups
    if table == "probabilities":
        groups = rng.integers(0, 3, 600)
        powers = np.exp(
            np.where(groups[:, None] == np.arange(6) % 3, 0.7, 0.0) + rng.standard_normal((600, 6))
        )
        return powers / powers.sum(axis=1, keepdims=True), groups
    adult = load_adult()
    sex, y = adult["sex"], adult["education"]
    if table == "Adult, sex and race":
        return y, np.char.add(np.char.add(sex.astype(str), " "), adult["race"].astype(str))
    if table == "Adult, injected":
        order = adult.education_order
        return np.where(
            rng.random(len(y)) < 0.5, np.where(sex == "Male", order[1], order[0]), y
        ), sex
    return y, sex


@lru_cache(maxsize=1)
def _optimum(table: str, epsilon: float, target: str) -> float:
    """Return the least squared distance, by the solver of the package."""
    y, groups = labels_of(table)
    bound: dict[str, Any] = (
        {"bound": "target", "target": "population"} if target == "population" else {}
    )
    fair = r2b.debias(y, sensitive_features=groups, epsilon=epsilon, **bound)
    before = y if np.ndim(y) == 2 else (np.asarray(y)[:, None] == np.asarray(fair.classes)[None, :])
    return float(((np.asarray(fair.soft_labels) - before) ** 2).sum())


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Run the paper's rounds and hold each against the optimum."""
    epsilon, target = configuration["epsilon"], configuration["target"]
    y, groups = labels_of(configuration["table"])
    method = R2B(
        epsilon, tau=configuration["tau"], target=target, output="z", max_rounds=max(ROUNDS)
    ).fit(y, sensitive_features=groups)
    best, history = _optimum(configuration["table"], epsilon, target), method.history_
    z = method.transform(y, sensitive_features=groups)
    found: Row = {
        "data_parity": demographic_parity_difference(y, sensitive_features=groups),
        "optimum": best,
        "rows_count": len(groups),
    }
    for t in ROUNDS:
        found[f"parity_{t}"] = history[t - 1].disparity
        # Nothing to change, nothing to fall short of.
        found[f"short_{t}"] = (
            abs(history[t - 1].squared_distance / best - 1) if best > 1e-9 * len(groups) else None
        )
    off = [
        abs(each.squared_distance / best - 1) if best > 1e-9 * len(groups) else 0.0
        for each in history
    ]
    found["rounds_to_a_thousandth"] = next(
        (t for t in range(1, len(off) + 1) if max(off[t - 1 :]) <= 1e-3), None
    )
    found["raw_parity"] = max(each.raw_disparity for each in history)
    found["lowest_entry"] = float(z.min())
    return found


def configurations(quick: bool) -> list[Configuration]:
    """All tables, tolerances, targets and step sizes; the small setting has one table."""
    return [
        {"table": table, "target": target, "epsilon": epsilon, "tau": tau}
        for table in (TABLES[-1:] if quick else TABLES)
        for target in TARGETS
        for epsilon in EPSILONS
        for tau in (TAUS[::4] if quick else TAUS)
    ]


EXPERIMENT: Final = Experiment(
    name="convergence",
    title="Algorithm 1 and the optimum",
    configurations=configurations,
    run=run,
    section=section,
    figures=convergence,
    seeds=(0,),
)
