"""The paper's two learners on debiased labels, and what is measured of their predictions.

- kNN (k = 5) takes classes: a label is drawn for every training row from its distribution.
  Reweighing weighs the votes.
- The forests are scikit-learn's, of depth 5 with 100 trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from experiments.experiment import Array, Codes, Floats
from r2b.metrics import demographic_parity_difference
from r2b.metrics.chance import sampling_level
from r2b.metrics.performance import error_parity, top_k_accuracy

NEIGHBOURS: Final = 5
TREES: Final = 100
DEPTH: Final = 5
PERMUTATIONS: Final = 20


@dataclass(frozen=True, eq=False)
class Sample:
    """Features, classes or distributions, and groups of training and test rows."""

    X: Floats
    y: Array
    groups: Codes
    X_test: Floats
    y_test: Array
    groups_test: Codes


def vote(found: Codes, labels: Codes, n_classes: int, weight: Floats | None = None) -> Floats:
    """Return the shares of the classes among the neighbours of every row.

    Examples
    --------
    >>> vote(np.array([[0, 1, 2]]), np.array([1, 1, 0]), 3).round(3)
    array([[0.333, 0.667, 0.   ]])
    """
    votes = np.ones(found.shape) if weight is None else weight[found]
    places = np.arange(len(found))[:, None] * n_classes + labels[found]
    counts = np.bincount(
        places.ravel(), weights=votes.ravel(), minlength=len(found) * n_classes
    ).reshape(-1, n_classes)
    shares: Floats = counts / votes.sum(axis=1, keepdims=True)
    return shares


def nearest(train: Floats, query: Floats, k: int = NEIGHBOURS) -> Codes:
    """Return the k nearest training rows of every query row, of shape (m, k).

    Neighbours depend on features alone, so one search serves all methods on labels.

    Examples
    --------
    >>> nearest(np.array([[0.0], [2.0], [5.0]]), np.array([[2.1], [0.1]]), 2)
    array([[1, 0],
           [0, 1]])
    """
    from sklearn.neighbors import NearestNeighbors

    found: Codes = (
        NearestNeighbors(n_neighbors=k).fit(train).kneighbors(query, return_distance=False)
    )
    return found


def per_class_forest(
    X: Floats, X_test: Floats, soft: Floats, weight: Floats | None, seed: int, trees: int
) -> Floats:
    """Train a regression forest per class on probabilities; divide predictions by their sums.

    Parameters
    ----------
    X, X_test : ndarray of shape (n, d) and (m, d)
    soft : ndarray of shape (n, n_classes)
    weight : ndarray of shape (n,) or None
    seed : int
    trees : int
        Per class.
    """
    from sklearn.ensemble import RandomForestRegressor

    n_classes = soft.shape[1]
    forests = [
        RandomForestRegressor(trees, max_depth=DEPTH, random_state=seed * n_classes + k)
        for k in range(n_classes)
    ]
    scores = np.stack(
        [forest.fit(X, soft[:, k], weight).predict(X_test) for k, forest in enumerate(forests)],
        axis=1,
    )
    # Sums of weights leave a few 1e-21 below 0 where a leaf has none of the class.
    scores = np.maximum(scores, 0.0)
    shares: Floats = scores / scores.sum(axis=1, keepdims=True)
    return shares


def class_forest(
    X: Floats,
    X_test: Floats,
    labels: Codes,
    n_classes: int,
    weight: Floats | None,
    seed: int,
    trees: int,
) -> Floats:
    """Train one classification forest on classes and return its class shares for the test rows."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(trees, max_depth=DEPTH, random_state=seed).fit(X, labels, weight)
    scores = np.zeros((len(X_test), n_classes))
    scores[:, model.classes_] = model.predict_proba(X_test)
    return scores


def measures_of(scores: Floats, y: Any, groups: Any, ties: str = "average") -> dict[str, float]:
    """Measure predictions against the labels and groups of test rows.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
    y : ndarray of shape (n,) or (n, n_classes)
        Classes, or probabilities, which count as a class drawn from them.
    groups : ndarray of shape (n,)
    ties : {"average", "lowest"}
        What becomes of classes with the same score: one of them at random (in expectation), or the
        lowest.

    Returns
    -------
    dict
        ``parity`` of the predicted probabilities; ``chance``, the mean disparity of the same
        predictions when groups are assigned at random; ``top_1`` to ``top_3``; ``error_parity``
        of top-1.
    """
    classes = np.arange(scores.shape[1]) if np.ndim(y) == 1 else None
    known: dict[str, Any] = {"sensitive_features": groups}
    # Shares of neighbours differ by far more than the places of classes, or not at all.
    places = 1e-12 * np.arange(scores.shape[1])
    ranked = scores if ties == "average" else scores - places
    tops = [top_k_accuracy(y, ranked, k=k, classes=classes) for k in (1, 2, 3)]
    return {
        "parity": demographic_parity_difference(scores, **known),
        "chance": sampling_level(scores, n_permutations=PERMUTATIONS, random_state=0, **known).mean,
        **{f"top_{k}": top.value for k, top in enumerate(tops, start=1)},
        "error_parity": error_parity(tops[0], **known).value,
    }
