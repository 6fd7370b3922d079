"""Tables to measure: Adult, and class and soft labels that differ by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.datasets import load_adult

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Labels (codes or probabilities) and group codes of the same rows."""

    labels: NDArray[Any]
    groups: Codes
    n_classes: int

    @property
    def matrix(self) -> Floats:
        """The labels as probabilities."""
        if self.labels.ndim == 2:
            return self.labels
        matrix: Floats = np.eye(self.n_classes)[self.labels]
        return matrix

    @property
    def joint(self) -> Codes:
        """Group and class of each row as one code; class labels only."""
        joint: Codes = self.groups * self.n_classes + self.labels
        return joint


def adult(rows: int | None = None, seed: int = 0) -> Table:
    """Education by sex, as codes; all rows, or some drawn at random."""
    table = load_adult()
    names, codes = np.unique(table["education"], return_inverse=True)
    _, sex = np.unique(table["sex"], return_inverse=True)
    chosen = (
        slice(None)
        if rows is None
        else np.random.default_rng(seed).choice(len(codes), rows, replace=False)
    )
    return Table(codes[chosen].astype(np.int64), sex[chosen].astype(np.int64), len(names))


def classes(
    rows: int,
    n_classes: int,
    n_groups: int,
    *,
    spread: float = 0.5,
    zipf: float = 0.0,
    seed: int = 0,
) -> Table:
    """Class labels as int64 codes.

    Parameters
    ----------
    rows, n_classes, n_groups : int
    spread : float
        Standard deviation over groups of the logarithm of the probability of a class.
    zipf : float
        The k-th class has probability about ``k ** -zipf``.
    seed : int
    """
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, rows)
    log = -zipf * np.log(np.arange(1, n_classes + 1)) + spread * rng.standard_normal(
        (n_groups, n_classes)
    )
    probability = np.exp(log)
    probability /= probability.sum(axis=1, keepdims=True)
    labels = np.empty(rows, np.int64)
    for group in range(n_groups):
        mine = np.flatnonzero(groups == group)
        edges = np.cumsum(probability[group])
        edges[-1] = 1.0
        labels[mine] = np.searchsorted(edges, rng.random(len(mine)), side="right")
    return Table(labels, groups, n_classes)


def soft(
    rows: int, n_classes: int, n_groups: int = 5, *, seed: int = 0, dtype: str = "float64"
) -> Table:
    """Probabilities: rows of gamma draws over their sums, whose shapes differ by group."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, rows)
    shape = np.exp(0.5 * rng.standard_normal((n_groups, n_classes)))
    matrix = np.empty((rows, n_classes), dtype)
    block = 65_536  # so that building the table leaves no high-water mark above its size
    for start in range(0, rows, block):
        part = rng.standard_gamma(shape[groups[start : start + block]])
        part /= part.sum(axis=1, keepdims=True)
        matrix[start : start + block] = part
    return Table(matrix, groups, n_classes)


def build(kind: str, **arguments: Any) -> Table:
    """Build a table by name, for a process that gets its orders as text."""
    kinds: dict[str, Callable[..., Table]] = {"adult": adult, "classes": classes, "soft": soft}
    return kinds[kind](**arguments)
