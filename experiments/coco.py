"""COCO: predict the shares of objects in an image, fair to the gender that its captions name, by a linear softmax.

On the official layout this is the paper's experiment. On the tables that stand in for it, the
features are words of the captions instead of a network's, and the images those of val2017; the rows
say so in ``source``.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.coco_data import (
    Codes,
    Floats,
    Split,
    folder_of,
    images_of,
    repaired,
    repaired_with_ties_as_one,
    split_of,
)
from experiments.coco_page import TIES_AS_ONE, figures, section
from experiments.coco_softmax import PAPER_SCHEDULE, linear_softmax
from experiments.experiment import Configuration, Experiment, Row
from experiments.labelling import LABEL_METHODS, METHODS
from experiments.learners import PERMUTATIONS
from r2b.methods import Reweighing, Unchanged
from r2b.metrics import demographic_parity_difference
from r2b.metrics.chance import sampling_level
from r2b.metrics.performance import error_parity, tv_accuracy

QUICK_SCHEDULE: Final = ((1e-3, 20), (1e-4, 10), (1e-5, 10))


def targets_of(method: str, labels: Floats, groups: Codes) -> Floats:
    """Give the targets of training: fair labels, or the weights that reweighing gives every (row, class) pair."""
    if method == "RW":
        return Reweighing().fit_transform(labels, sensitive_features=groups)
    return LABEL_METHODS.get(method, Unchanged)().fit_transform(labels, sensitive_features=groups)


def target_parity(targets: Floats, groups: Codes) -> float:
    """Give the parity of targets; a group's mean is its share of the weight, which for distributions is the plain mean.

    Examples
    --------
    >>> target_parity(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0, 1]))
    0.5
    """
    sums = np.stack([targets[groups == group].sum(axis=0) for group in np.unique(groups)])
    return float(np.ptp(sums / sums.sum(axis=1, keepdims=True), axis=0).max())


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Train on what one method makes of the training rows, and measure on the test rows."""
    split = _split(
        folder_of(data, "coco").resolve(), configuration["person"], configuration["p"], seed
    )
    if configuration["method"] == "DPR":
        split = repaired(split, seed)
    elif configuration["method"] == TIES_AS_ONE:
        split = repaired_with_ties_as_one(split)
    targets = targets_of(configuration["method"], split.Y, split.groups)
    schedule = (
        QUICK_SCHEDULE
        if configuration["epochs"] == sum(epochs for _, epochs in QUICK_SCHEDULE)
        else PAPER_SCHEDULE
    )
    scores = linear_softmax(
        split.X, targets, split.X_test, rng=np.random.default_rng([seed, 14]), schedule=schedule
    )
    known: dict[str, Any] = {"sensitive_features": split.groups_test}
    accuracy = tv_accuracy(split.Y_test, scores)
    return {
        "source": split.source,
        "n_train": len(split.Y),
        "n_test": len(split.Y_test),
        "n_features": split.X.shape[1],
        "data_parity": target_parity(split.Y, split.groups),
        "label_parity": target_parity(targets, split.groups),
        "parity": demographic_parity_difference(scores, **known),
        "chance": sampling_level(scores, n_permutations=PERMUTATIONS, random_state=0, **known).mean,
        "tv_accuracy": accuracy.value,
        "error_parity": error_parity(accuracy, **known).value,
    }


@lru_cache(maxsize=1)
def _split(folder: Path, person: bool, p: float, seed: int) -> Split:
    return split_of(images_of(folder, trained=True, person=person), p, seed)


def configurations(quick: bool) -> list[Configuration]:
    """List all methods with and without injected bias and the class person; the small setting takes a tenth of the epochs."""
    epochs = sum(epochs for _, epochs in (QUICK_SCHEDULE if quick else PAPER_SCHEDULE))
    return [
        {"person": person, "p": p, "method": method, "epochs": epochs}
        for person in ((True,) if quick else (True, False))
        for p in (0.0, 0.5)
        for method in ((*METHODS, TIES_AS_ONE) if person else METHODS)
    ]


def together(configuration: Configuration, seed: int) -> Hashable:
    """Name the split."""
    return configuration["person"], configuration["p"], seed


EXPERIMENT: Final = Experiment(
    name="coco",
    title="COCO",
    configurations=configurations,
    run=run,
    section=section,
    figures=figures,
    together=together,
    needs_data=True,
)
