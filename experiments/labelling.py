"""The methods of the paper by name, and the labels, weights or features that a learner gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from experiments.experiment import Codes, Floats
from r2b.methods import (
    HTO,
    OST,
    R2B,
    R2B0,
    DPRemover,
    Exact,
    LabelMethod,
    Reweighing,
    Unchanged,
)

LABEL_METHODS: Final[dict[str, Callable[[], LabelMethod]]] = {
    "OST": OST,
    "HTO": HTO,
    "R2B0": R2B0,
    "R2B1": lambda: R2B0(reading="algorithm"),
    "R2B": R2B,
    "R2B pinned": lambda: R2B(target="population"),
    "Exact": Exact,
}
"""Methods that change labels by group and class, all with epsilon 0."""

METHODS: Final = ("BL", "DPR", *LABEL_METHODS, "RW")
"""Methods that need labels and groups only, or features: the baseline, the DP remover, those on
labels, and reweighing."""

VISIBLE: Final = "Visible"
"""The optimum by the groups as features show them: labels for fair models, which differ from row to
row."""

FAIR_MODEL: Final = "Fair model"
"""A :class:`r2b.sklearn.ParityClassifier` around the learner of the experiment."""

SPOKEN: Final = {
    "R2B0": "R2B_0",
    "R2B1": "R2B, 1 round",
    "R2B pinned": "R2B, mean pinned",
    "Exact": "R2B exact",
    "RW": "reweighing",
    VISIBLE: "visible groups",
    FAIR_MODEL: "ParityClassifier",
}
"""Names for readers, where they differ."""


def labels_of(method: str, y: Any, groups: Codes) -> Floats:
    """Return what a method makes of labels: probabilities, or the old labels if left alone.

    Examples
    --------
    >>> y, s = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    >>> labels_of("Exact", y, s)[2].round(3)
    array([0.667, 0.333])
    """
    return LABEL_METHODS.get(method, Unchanged)().fit_transform(y, sensitive_features=groups)


def drawn_classes(soft: Floats, rng: np.random.Generator, cells: Codes | None = None) -> Codes:
    """Draw a class for every row from its distribution, for learners that take classes only.

    Parameters
    ----------
    soft : ndarray of shape (n, n_classes)
    rng : Generator
    cells : ndarray of shape (n,), optional
        Codes of rows that share a distribution. Their draws are spread evenly: a row's chances
        stay the same, and each class gets its expected number of them to within one. Without
        them rows are drawn independently.

    Examples
    --------
    >>> drawn_classes(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    chance = rng.random(len(soft))
    if cells is not None:
        order = np.argsort(cells, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
            chance[rows] = (rng.permutation(len(rows)) + rng.random()) / len(rows)
    upper = np.cumsum(soft, axis=1)
    return np.asarray((upper <= (chance * upper[:, -1])[:, None]).sum(axis=1), dtype=np.int64)


def visible_labels(X: Floats, y: Any, groups: Codes, group_estimator: Any, seed: int) -> Floats:
    """Return the closest labels that are fair to groups as features show them, out of five folds.

    Returns
    -------
    ndarray of shape (n, n_classes)
        Distributions, a row's own.
    """
    from r2b.sklearn import fair_labels

    fair = fair_labels(
        X, y, sensitive_features=groups, group_estimator=group_estimator, random_state=seed
    )
    return np.asarray(fair.soft_labels, dtype=np.float64)


def weights_of(method: str, y: Codes, groups: Codes) -> Floats | None:
    """Return the row weights of reweighing; None for every other method."""
    return Reweighing().fit_transform(y, sensitive_features=groups) if method == "RW" else None


def repaired(
    X: Any, groups: Any, X_test: Any, groups_test: Any, random_state: Any
) -> tuple[Any, Any]:
    """Move the features of training and test rows by the DP remover, fitted to the training rows.

    A Generator as ``random_state`` draws the ranks inside ties anew for the test rows.
    """
    remover = DPRemover(random_state=random_state).fit(X, sensitive_features=groups)
    return (
        remover.transform(X, sensitive_features=groups),
        remover.transform(X_test, sensitive_features=groups_test),
    )
