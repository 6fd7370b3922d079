"""The curvature of rows that count in several groups, added up by pairs of prices while rows come in."""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._data.compute import parts_of

_FACTORS = 1 << 19  # entries of the rows' factors of the curvature that are multiplied together


class Folded:
    """Sums of ``w b_g b_h (D - D 1 1' D / 1' D 1)`` over rows, D the diagonal of d and b a row of the design, while rows come in.

    Parameters
    ----------
    n_groups, n_classes : int
    entries : ndarray of bool, shape (n_groups, n_classes), optional
        Prices that matter; sums for the others are left at 0. The work is that of all pairs of
        prices.

    Examples
    --------
    >>> whole, part = Folded(2, 2), Folded(2, 2, np.array([[True, True], [True, False]]))
    >>> for each in (whole, part):
    ...     each.add(np.array([[0.5, 0.25]]), np.ones((1, 2)), np.ones(1))
    >>> whole.table()[0, 0].round(6).tolist(), part.table()[0, 0].round(6).tolist()
    ([[0.125, -0.125], [0.0625, -0.0625]], [[0.125, -0.125], [0.0625, 0.0]])
    """

    def __init__(self, n_groups: int, n_classes: int, entries: Flags | None = None) -> None:
        self.shape = (n_groups, n_classes)
        self.entries = None if entries is None or entries.all() else np.nonzero(entries)
        size = n_groups * n_classes if self.entries is None else len(self.entries[0])
        self.products = np.zeros((size, size))
        self.own = (
            np.zeros((n_groups * n_groups, n_classes))
            if self.entries is None
            else np.zeros((size, size))
        )

    def add(self, design: Floats, d: Floats, weight: Floats, d_sum: Floats | None = None) -> None:
        """Add rows; with d their supports, it is lam times their curvature."""
        scaled = d * np.sqrt(weight / (d.sum(axis=1) if d_sum is None else d_sum))[:, None]
        size = max(1, len(self.products))
        # A large table is written again with every part: that of a quarter of its size is about
        # free.
        for part in parts_of(len(design), max(1, max(_FACTORS, size**2 // 4) // size)):
            counts = design[part]
            if self.entries is not None:
                self._add_entries(counts, scaled[part], weight[part, None] * d[part])
                continue
            factors = (counts[:, :, None] * scaled[part, None, :]).reshape(len(counts), -1)
            self.products += factors.T @ factors
            pairs = (counts[:, :, None] * (weight[part, None] * counts)[:, None, :]).reshape(
                len(counts), -1
            )
            self.own += pairs.T @ d[part]

    def add_supports(self, design: Floats, answers: Floats, weight: Floats) -> None:
        """Add lam times the curvature of rows with these answers: that of the classes above 0."""
        # a row of one class has no curvature
        several = np.flatnonzero(np.count_nonzero(answers, axis=1) > 1)
        weight = weight[several] if len(weight) else np.ones(len(several))
        self.add(design[several], (answers[several] > 0).astype(np.float64), weight)

    def _add_entries(self, counts: Floats, scaled: Floats, weighed: Floats) -> None:
        assert self.entries is not None
        groups, classes = self.entries
        factors = counts[:, groups] * scaled[:, classes]
        self.products += factors.T @ factors
        for k in np.unique(classes):
            mine = np.flatnonzero(classes == k)
            column = counts[:, groups[mine]]
            self.own[np.ix_(mine, mine)] += (column * weighed[:, k, None]).T @ column

    def table(self) -> Floats:
        """Give them as (n_groups, n_classes, n_groups, n_classes)."""
        n_groups, n_classes = self.shape
        if self.entries is not None:
            whole = np.zeros((n_groups * n_classes, n_groups * n_classes))
            places = self.entries[0] * n_classes + self.entries[1]
            whole[np.ix_(places, places)] = self.own - self.products
            return whole.reshape(n_groups, n_classes, n_groups, n_classes)
        folded: Floats = -self.products.reshape(n_groups, n_classes, n_groups, n_classes)
        np.einsum("gkhk->ghk", folded)[:] += self.own.reshape(n_groups, n_groups, n_classes)
        return folded
