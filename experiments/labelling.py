"""The methods of the paper by its names, and the training labels, weights or features that each gives a learner."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from r2b.methods import HTO, OST, R2B, R2B0, Exact, LabelMethod, Reweighing, Unchanged

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

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
"""Methods that need labels and groups only, or features: the baseline, the DP remover, those on labels, and reweighing."""

VISIBLE: Final = "Visible"
"""The optimum by the groups as features show them: labels for fair models, which differ from row to row."""

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


def channel_of(method: str, y: Codes, groups: Codes, n_classes: int) -> Floats:
    """Return what a method makes of class labels: P(new label | group, old label).

    Class labels with the same group share their answer, so this small table is all that there is to
    know about a method.

    Parameters
    ----------
    method : str
        One of ``METHODS``; those that leave labels alone give the identity.
    y : ndarray of shape (n,)
        Classes 0 to n_classes - 1, each of which occurs.
    groups : ndarray of shape (n,)
        Groups 0 to n_groups - 1, each of which occurs.
    n_classes : int

    Returns
    -------
    ndarray of shape (n_groups, n_classes, n_classes)

    Examples
    --------
    >>> y, s = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    >>> channel_of("Exact", y, s, 2)[1].round(3)
    array([[0.667, 0.333],
           [0.   , 1.   ]])
    """
    n_groups = int(groups.max()) + 1
    labels = LABEL_METHODS.get(method, Unchanged)().fit(y, sensitive_features=groups)
    cell_groups, cell_labels = (
        np.repeat(np.arange(n_groups), n_classes),
        np.tile(np.arange(n_classes), n_groups),
    )
    return labels.transform(cell_labels, sensitive_features=cell_groups).reshape(
        n_groups, n_classes, n_classes
    )


def drawn_labels(
    channel: Floats, y: Codes, groups: Codes, rng: np.random.Generator, *, even: bool = False
) -> Codes:
    """Draw a class for every row from its distribution: the way for learners that take classes only.

    Parameters
    ----------
    channel : ndarray of shape (n_groups, n_classes, n_classes)
    y, groups : ndarray of shape (n,)
    rng : Generator
    even : bool
        Spread the draws of rows with the same group and class evenly: a row's chances stay the
        same, and each class gets its expected number of them to within one. Otherwise rows are
        drawn independently.

    Examples
    --------
    >>> drawn_labels(np.eye(2)[None], np.array([1, 0, 1]), np.zeros(3, int), np.random.default_rng(0))
    array([1, 0, 1])
    """
    n_groups, n_classes, _ = channel.shape
    chance = rng.random(len(y))
    upper = np.cumsum(channel, axis=2)
    # The last class that a row can get ends at 1 exactly, whatever the sum was rounded to.
    upper = np.where(upper >= upper[:, :, -1:], 1.0, upper)
    cells = groups * n_classes + y
    drawn = np.empty(len(y), dtype=np.int64)
    order = np.argsort(cells, kind="stable")
    edges = np.searchsorted(cells[order], np.arange(n_groups * n_classes + 1))
    for cell, (start, stop) in enumerate(pairwise(edges)):
        rows = order[start:stop]
        if even:
            chance[rows] = (rng.permutation(len(rows)) + rng.random()) / max(1, len(rows))
        drawn[rows] = np.searchsorted(
            upper.reshape(-1, n_classes)[cell], chance[rows], side="right"
        )
    return drawn


def visible_labels(X: Floats, y: Any, groups: Codes, group_estimator: Any, seed: int) -> Floats:
    """Return the closest labels that are fair to the groups as the features show them, predicted out of five folds.

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


def drawn_from_rows(soft: Floats, rng: np.random.Generator) -> Codes:
    """Draw a class for every row from a distribution of its own.

    Examples
    --------
    >>> drawn_from_rows(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    upper = np.cumsum(soft, axis=1)
    chance = rng.random(len(soft)) * upper[:, -1]
    return np.asarray((upper <= chance[:, None]).sum(axis=1), dtype=np.int64)


def parity_of_rows(soft: Floats, groups: Codes) -> float:
    """Return the disparity of distributions by the groups as they are.

    Examples
    --------
    >>> parity_of_rows(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]))
    1.0
    """
    means = np.stack([soft[groups == group].mean(axis=0) for group in range(int(groups.max()) + 1)])
    return float(np.ptp(means, axis=0).max())


def weights_of(method: str, y: Codes, groups: Codes) -> Floats | None:
    """Return the row weights of reweighing; None for every other method."""
    return Reweighing().fit_transform(y, sensitive_features=groups) if method == "RW" else None


def parity_of_channel(channel: Floats, y: Codes, groups: Codes) -> float:
    """Return the multiclass demographic parity of the labels that a channel makes of classes.

    Examples
    --------
    >>> y, s = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    >>> parity_of_channel(np.stack([np.eye(2)] * 2), y, s)
    0.5
    """
    n_groups, n_classes, _ = channel.shape
    counts = np.bincount(groups * n_classes + y, minlength=n_groups * n_classes).reshape(
        n_groups, n_classes
    )
    means = np.einsum("sy,syk->sk", counts / counts.sum(axis=1, keepdims=True), channel)
    return float(np.ptp(means, axis=0).max())


def sampled_parity(labels: Any, groups: Codes, n_classes: int) -> float:
    """Return the disparity of class labels as they are."""
    identity = np.broadcast_to(np.eye(n_classes), (int(groups.max()) + 1, n_classes, n_classes))
    return parity_of_channel(identity, labels, groups)
