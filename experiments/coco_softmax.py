"""The paper's learner on COCO: a linear softmax by SGD with momentum and its learning rates."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from experiments.experiment import Array, Floats
from r2b._data.compute import one_blas_thread

Schedule = tuple[tuple[float, int], ...]
"""Learning rates and for how many epochs."""

MOMENTUM: Final = 0.9
PAPER_SCHEDULE: Final = ((1e-3, 200), (1e-4, 100), (1e-5, 100))
BATCH: Final = 32
"""Rows per step, of which the paper says nothing."""


def by_epochs(*schedules: Schedule) -> dict[int, Schedule]:
    """Return schedules by the number of their epochs, which names them in a configuration."""
    return {sum(epochs for _, epochs in schedule): schedule for schedule in schedules}


def linear_softmax(
    X: Floats,
    targets: Floats,
    X_test: Floats,
    *,
    rng: np.random.Generator,
    schedule: Schedule = PAPER_SCHEDULE,
    batch: int = BATCH,
) -> Floats:
    """Train on soft targets from weights 0, and return the class probabilities of test rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    targets : ndarray of shape (n, n_classes)
        Distributions, or weights of (row, class) pairs: a row counts by its sum.
    X_test : ndarray of shape (m, d)
    rng : Generator
        Orders the rows anew in every epoch.
    schedule : tuple of (float, int)
        Learning rates and epochs.
    batch : int

    Returns
    -------
    ndarray of shape (m, n_classes)

    Examples
    --------
    >>> X, Y = np.array([[1.0], [-1.0]] * 50), np.array([[1.0, 0.0], [0.0, 1.0]] * 50)
    >>> asked = {"rng": np.random.default_rng(0), "schedule": ((0.1, 20),)}
    >>> linear_softmax(X, Y, np.array([[1.0]]), **asked).round(1)
    array([[1., 0.]])
    """
    return softmax(X_test, linear_weights(X, targets, rng=rng, schedule=schedule, batch=batch))


def linear_weights(
    X: Floats,
    targets: Floats,
    *,
    rng: np.random.Generator,
    schedule: Schedule,
    batch: int = BATCH,
) -> NDArray[np.float32]:
    """Return the weights (d + 1, n_classes) after training; the last row is the intercept."""
    # Single precision halves the time, and a linear model trained in small steps does not need
    # more.
    rows = np.column_stack([X, np.ones(len(X))]).astype(np.float32)
    wanted = targets.astype(np.float32)
    mass = wanted.sum(axis=1, keepdims=True)
    weights = np.zeros((rows.shape[1], targets.shape[1]), dtype=np.float32)
    speed = np.zeros_like(weights)
    with one_blas_thread():
        for rate, epochs in schedule:
            for _ in range(epochs):
                order = rng.permutation(len(rows))
                for start in range(0, len(rows), batch):
                    part = order[start : start + batch]
                    picked = rows[part]
                    error = mass[part] * _normalised(picked @ weights) - wanted[part]
                    speed *= MOMENTUM
                    speed -= (rate / len(part)) * (picked.T @ error)
                    weights += speed
    return weights


def softmax(X: Floats, weights: NDArray[np.float32]) -> Floats:
    """Return the class probabilities of rows."""
    with one_blas_thread():
        logits = np.column_stack([X, np.ones(len(X))]) @ weights
    return np.asarray(_normalised(logits.astype(np.float64)))


def _normalised(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


class SoftmaxClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train the paper's linear softmax on probabilities.

    Parameters
    ----------
    schedule : tuple of (float, int)
        Learning rates and epochs.
    seed : int
        Orders the rows.
    """

    def __init__(self, schedule: Schedule = PAPER_SCHEDULE, seed: int = 0) -> None:
        self.schedule, self.seed = schedule, seed

    def fit(self, X: Floats, y: Any) -> Self:
        """Train on distributions, a column per class."""
        targets = np.asarray(y, dtype=np.float64)
        self.classes_ = np.arange(targets.shape[1])
        rng = np.random.default_rng([self.seed, 14])
        self.weights_ = linear_weights(X, targets, rng=rng, schedule=self.schedule)
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """Return the probabilities of the classes."""
        return softmax(X, self.weights_)

    def predict(self, X: Floats) -> Any:
        """Return the most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
