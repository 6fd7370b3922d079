"""The linear softmax of the COCO experiment as a scikit-learn classifier, for fair models."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from experiments.coco_softmax import PAPER_SCHEDULE, linear_weights, softmax

Floats = NDArray[np.float64]


class SoftmaxClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train the paper's linear softmax on probabilities.

    Parameters
    ----------
    schedule : tuple of (float, int)
        Learning rates and epochs.
    seed : int
        Orders the rows.
    """

    def __init__(
        self, schedule: tuple[tuple[float, int], ...] = PAPER_SCHEDULE, seed: int = 0
    ) -> None:
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
