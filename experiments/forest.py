"""Random forests of small depth, fast enough for hundreds of fits: features in at most 256 bins, loops compiled.

They are scikit-learn's ``RandomForestRegressor`` (squared error, all features at every split) and
``RandomForestClassifier`` (Gini, the square root of the features) with ``max_depth`` set: bootstrap
of as many rows, leaves of one row, sample weights on top of the bootstrap's. What differs: splits
are sought between bins (a feature with up to 256 values loses nothing), and ties between splits go
to the first. Nodes are numbered as in a heap: the children of i are 2i + 1 and 2i + 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.errors import MissingExtraError

Array = NDArray[Any]
Floats = NDArray[np.float64]

MAX_BINS = 256
TREES = 100
DEPTH = 5


@dataclass(frozen=True, eq=False)
class Bins:
    """Features of training and test rows as bin numbers.

    Attributes
    ----------
    train, test : ndarray of shape (n, d), uint8
    offsets : ndarray of shape (d + 1,)
        Where the bins of each feature begin when all are laid side by side.
    """

    train: Array
    test: Array
    offsets: Array

    @classmethod
    def of(cls, train: Floats, test: Floats, max_bins: int = MAX_BINS) -> Bins:
        """Cut every feature at its training values, or at quantiles where there are more than ``max_bins``."""
        coded, sizes = [], []
        for column, other in zip(train.T, test.T, strict=True):
            values = np.unique(column)
            if len(values) > max_bins:
                values = np.unique(
                    np.quantile(
                        column, np.arange(1, max_bins + 1) / max_bins, method="inverted_cdf"
                    )
                )
            # As scikit-learn does, cut halfway between values.
            cuts = (values[1:] + values[:-1]) / 2
            coded.append((np.searchsorted(cuts, column), np.searchsorted(cuts, other)))
            sizes.append(len(values))
        first, second = (
            np.ascontiguousarray(np.stack([pair[j] for pair in coded], axis=1).astype(np.uint8))
            for j in (0, 1)
        )
        return cls(first, second, np.concatenate([[0], np.cumsum(sizes)]))


def regression_forest(
    bins: Bins, target: Floats, weight: Floats | None, rng: np.random.Generator, trees: int = TREES
) -> Floats:
    """Train a forest on one target column and give its mean prediction for every test row.

    Parameters
    ----------
    bins : Bins
    target : ndarray of shape (n,)
    weight : ndarray of shape (n,) or None
    rng : Generator
        Draws the bootstraps.
    trees : int

    Returns
    -------
    ndarray of shape (m,)
    """
    kernels = _kernels()
    n_rows = len(target)
    total = np.zeros((len(bins.test), 1))
    for _ in range(trees):
        drawn = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows).astype(np.float64)
        rows = np.flatnonzero(drawn)
        feature, cut, value = kernels.grow_regression(
            bins.train,
            bins.offsets,
            target,
            drawn if weight is None else drawn * weight,
            rows,
            DEPTH,
        )
        kernels.add_predictions(bins.test, feature, cut, value, total)
    return total[:, 0] / trees


def classification_forest(
    bins: Bins,
    labels: Array,
    n_classes: int,
    weight: Floats | None,
    rng: np.random.Generator,
    trees: int = TREES,
) -> Floats:
    """Train a forest on classes and give its mean class shares for every test row.

    Returns
    -------
    ndarray of shape (m, n_classes)
    """
    kernels = _kernels()
    n_rows, n_features = bins.train.shape
    columns = np.ascontiguousarray(bins.train.T)
    tried = max(1, int(np.sqrt(n_features)))
    total = np.zeros((len(bins.test), n_classes))
    for _ in range(trees):
        drawn = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows).astype(np.float64)
        rows = np.flatnonzero(drawn)
        candidates = np.argsort(rng.random((2**DEPTH - 1, n_features)), axis=1)[:, :tried]
        loads = drawn if weight is None else drawn * weight
        feature, cut, value = kernels.grow_classification(
            columns, labels, n_classes, loads, rows, candidates, DEPTH
        )
        kernels.add_predictions(bins.test, feature, cut, value, total)
    return total / trees


def _kernels() -> Any:
    try:
        from experiments import forest_kernels
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "numba is not installed.",
            remedy="Install it with: pip install 'r2b[fast]'.",
            library="numba",
        ) from error
    return forest_kernels
