"""The paper's two learners on debiased labels, and what is measured of their predictions.

- kNN (k = 5) takes classes: a label is drawn for every training row from its distribution. Reweighing weighs the votes.
- The forest has depth 5 and 100 trees; :mod:`experiments.forest` says what it is and how it differs from scikit-learn's.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.forest import Bins, classification_forest, regression_forest
from r2b.metrics import demographic_parity
from r2b.metrics.chance import sampling_level
from r2b.metrics.performance import error_parity, top_k_accuracy

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

NEIGHBOURS: Final = 5
PERMUTATIONS: Final = 20


def vote(found: Codes, labels: Codes, n_classes: int, weight: Floats | None = None) -> Floats:
    """Give the shares of the classes among the neighbours of every row.

    Examples
    --------
    >>> vote(np.array([[0, 1, 2]]), np.array([1, 1, 0]), 3).round(3)
    array([[0.333, 0.667, 0.   ]])
    """
    votes = np.ones(found.shape) if weight is None else weight[found]
    places = np.arange(len(found))[:, None] * n_classes + labels[found]
    counts = np.bincount(places.ravel(), weights=votes.ravel(), minlength=len(found) * n_classes).reshape(-1, n_classes)
    shares: Floats = counts / votes.sum(axis=1, keepdims=True)
    return shares


def per_class_forest(bins: Bins, soft: Floats, weight: Floats | None, rng: np.random.Generator, trees: int) -> Floats:
    """Train one regression forest per class on probabilities, and divide the rows of their predictions by their sums.

    Parameters
    ----------
    bins : Bins
    soft : ndarray of shape (n, n_classes)
    weight : ndarray of shape (n,) or None
    rng : Generator
    trees : int
        Per class.
    """
    scores = np.stack([regression_forest(bins, np.ascontiguousarray(column), weight, rng, trees) for column in soft.T], axis=1)
    # Sums of weights leave a few 1e-21 below 0 where a leaf has none of the class.
    scores = np.maximum(scores, 0.0)
    shares: Floats = scores / scores.sum(axis=1, keepdims=True)
    return shares


def drawn_forest(bins: Bins, labels: Codes, n_classes: int, weight: Floats | None, rng: np.random.Generator, trees: int) -> Floats:
    """Train one classification forest on classes."""
    return classification_forest(bins, labels, n_classes, weight, rng, trees)


def measures_of(scores: Floats, y: Codes, groups: Codes) -> dict[str, float]:
    """Measure predictions against the labels and groups of test rows.

    Returns
    -------
    dict
        ``parity`` of the predicted probabilities; ``chance``, the mean parity of the same predictions when groups are handed out at random;
        ``top_1`` to ``top_3``, ties broken at random (in expectation); ``error_parity`` of top-1.
    """
    classes = np.arange(scores.shape[1])
    known: dict[str, Any] = {"sensitive_features": groups}
    tops = [top_k_accuracy(y, scores, k=k, classes=classes) for k in (1, 2, 3)]
    return {
        "parity": demographic_parity(scores, **known),
        "chance": sampling_level(scores, n_permutations=PERMUTATIONS, random_state=0, **known).mean,
        **{f"top_{k}": top.value for k, top in enumerate(tops, start=1)},
        "error_parity": error_parity(tops[0], **known).value,
    }
