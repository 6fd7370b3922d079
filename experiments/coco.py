"""COCO: predict the shares of objects in an image, fair to the gender that its captions name.

On the official layout this is the paper's experiment. On the table of photographs, tags take the
place of objects, and features of a smaller network that of ResNet-50's; ``source`` says which.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.coco_data import Codes, Floats, Split, images_of, split_of
from experiments.coco_page import figures, section
from experiments.coco_softmax import PAPER_SCHEDULE, linear_softmax
from experiments.experiment import Configuration, Experiment, Row
from experiments.labelling import (
    FAIR_MODEL,
    LABEL_METHODS,
    METHODS,
    VISIBLE,
    repaired,
    visible_labels,
)
from experiments.learners import measures_of
from r2b.methods import Reweighing, Unchanged
from r2b.metrics.performance import error_parity, tv_accuracy

QUICK_SCHEDULE: Final = ((1e-3, 20), (1e-4, 10), (1e-5, 10))
GROUP_PENALTY: Final = 0.01
"""C of the logistic regression that predicts gender: 256 features, 1,650 rows."""


def targets_of(method: str, labels: Floats, groups: Codes) -> Floats:
    """Return the targets of training.

    They are fair labels, or the weights that reweighing gives every (row, class) pair.
    """
    if method == "RW":
        return Reweighing().fit_transform(labels, sensitive_features=groups)
    return LABEL_METHODS.get(method, Unchanged)().fit_transform(labels, sensitive_features=groups)


def target_parity(targets: Floats, groups: Codes) -> float:
    """Return the disparity of targets.

    A group's mean is its share of the weight, which for distributions is the plain mean.

    Examples
    --------
    >>> target_parity(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0, 1]))
    0.5
    """
    sums = np.stack([targets[groups == group].sum(axis=0) for group in np.unique(groups)])
    return float(np.ptp(sums / sums.sum(axis=1, keepdims=True), axis=0).max())


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Train on what one method makes of the training rows, and measure on the test rows."""
    split = _split(data, configuration["p"], seed)
    method, rng = configuration["method"], np.random.default_rng([seed, 14])
    schedule = (
        QUICK_SCHEDULE
        if configuration["epochs"] == sum(epochs for _, epochs in QUICK_SCHEDULE)
        else PAPER_SCHEDULE
    )
    if method == "DPR":
        parts = split.X, split.groups, split.X_test, split.groups_test
        X, X_test = repaired(*parts, np.random.default_rng([seed, 13]))
        split = replace(split, X=X, X_test=X_test)
    label_parity: float | None = None
    if method == FAIR_MODEL:
        scores = _fair_model(split, schedule, seed)
    else:
        targets = (
            visible_labels(split.X, split.Y, split.groups, _gender(), seed)
            if method == VISIBLE
            else targets_of(method, split.Y, split.groups)
        )
        label_parity = target_parity(targets, split.groups)
        scores = linear_softmax(split.X, targets, split.X_test, rng=rng, schedule=schedule)
    accuracy = tv_accuracy(split.Y_test, scores)
    return {
        "source": split.source,
        "n_train": len(split.Y),
        "n_test": len(split.Y_test),
        "n_features": split.X.shape[1],
        "n_classes": split.Y.shape[1],
        "data_parity": target_parity(split.Y, split.groups),
        "label_parity": label_parity,
        **measures_of(scores, split.Y_test, split.groups_test),
        "tv_accuracy": accuracy.value,
        "error_parity": error_parity(accuracy, sensitive_features=split.groups_test).value,
    }


def _gender() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=GROUP_PENALTY, max_iter=1_000)


def _fair_model(split: Split, schedule: tuple[tuple[float, int], ...], seed: int) -> Floats:
    """Return the fair probabilities of a ParityClassifier around the same learner."""
    from experiments.softmax_classifier import SoftmaxClassifier
    from r2b.sklearn import ParityClassifier

    model = ParityClassifier(
        SoftmaxClassifier(schedule, seed),
        group_estimator=_gender(),
        form="soft",
        frontier=0,
        random_state=seed,
    )
    model.fit(split.X, split.Y, sensitive_features=split.groups)
    return np.asarray(model.predict_proba(split.X_test))


@lru_cache(maxsize=1)
def _split(data: Path | None, p: float, seed: int) -> Split:
    return split_of(images_of(data), p, seed)


def configurations(quick: bool) -> list[Configuration]:
    """List all methods with and without injected bias.

    The small setting takes a tenth of the epochs, and leaves our own models out.
    """
    epochs = sum(epochs for _, epochs in (QUICK_SCHEDULE if quick else PAPER_SCHEDULE))
    return [
        {"p": p, "method": method, "epochs": epochs}
        for p in (0.0, 0.5)
        for method in (METHODS if quick else (*METHODS, VISIBLE, FAIR_MODEL))
    ]


def together(configuration: Configuration, seed: int) -> Hashable:
    """Name the split."""
    return configuration["p"], seed


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
