"""Disparity of the training labels by ADMM round, for five tolerances: the paper's figure on convergence.

Only labels and groups matter, so the paper's 36 panels are 9: classes and rows per class of the
synthetic data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from experiments.experiment import Configuration, Experiment, Row
from experiments.rounds_page import ROUNDS, figures, section
from experiments.synthetic import CLASSES, PER_CLASS, biased_groups
from r2b.methods import R2B
from r2b.metrics import demographic_parity_difference

EPSILONS: Final = (0.0, 0.025, 0.05, 0.075, 0.10)


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Run Algorithm 1 once and note the disparity that it would return after so many rounds; round 0 is the data."""
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
    free = [
        {"classes": c, "per_class": n, "epsilon": epsilon}
        for c in classes
        for n in sizes
        for epsilon in EPSILONS
    ]
    return free + [{**each, "target": "population"} for each in free if not quick]


EXPERIMENT: Final = Experiment(
    name="rounds",
    title="Rounds of Algorithm 1",
    configurations=configurations,
    run=run,
    section=section,
    figures=figures,
)
