"""Rows of many groups rounded one after the other, as batches of them come: the same classes however the rows are cut into batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from r2b._data.arrays import Array, Floats, Whole, smallest_unsigned
from r2b._data.compute import parts_of
from r2b._labels.forms.keyed import SeededStream
from r2b._labels.forms.rounding import RowRounder
from r2b._labels.forms.sampling import block_length

_FIRST_ROOM = 1 << 16


def rows_by_code(codes: Array) -> list[Array]:
    """Give the rows of each code that occurs, in order.

    Examples
    --------
    >>> [rows.tolist() for rows in rows_by_code(np.array([3, 1, 3]))], rows_by_code(np.array([], int))
    ([[1], [0, 2]], [])
    """
    rows = np.argsort(codes, kind="stable")
    return np.split(rows, np.flatnonzero(np.diff(codes[rows].astype(np.int64))) + 1) if len(rows) else []


class Turns:
    """Classes of rows, decided in the order of the rows.

    Parameters
    ----------
    n_classes : int
    seed : int
    heaviest : ndarray of shape (n_groups,), optional
        Weight of the heaviest row of each group; without it rows have no weights.
    compiled : bool
        Whether to use the compiled kernel, where there is one. The results are the same.

    Examples
    --------
    >>> halves, draws = np.full((4, 2), 0.5), np.array([5, 1, 7, 3])
    >>> whole, cut = Turns(2, 0), Turns(2, 0)
    >>> whole.take(np.zeros(4, int), draws, None, 0, lambda rows: halves[rows])
    >>> cut.take(np.zeros(1, int), draws[:1], None, 0, lambda rows: halves[rows])
    >>> cut.take(np.zeros(3, int), draws[1:], None, 1, lambda rows: halves[rows])
    >>> whole.finish().tolist() == cut.finish().tolist()
    True
    """

    def __init__(self, n_classes: int, seed: int, heaviest: Floats | None = None, *, compiled: bool = False) -> None:
        self.n_classes, self.seed, self.heaviest, self.compiled = n_classes, seed, heaviest, compiled
        self._rounders: dict[int, RowRounder] = {}
        self._codes = np.zeros(_FIRST_ROOM, smallest_unsigned(n_classes))
        self._n_rows = 0

    def take(self, groups: Array, draws: Whole, weight: Floats | None, first: int, of_rows: Callable[[Whole], Array]) -> None:
        """Add a batch: group, draw and weight of its rows, the number of the first, and what gives the distributions of some of them."""
        self._n_rows = first + len(groups)
        if self._n_rows > len(self._codes):
            self._codes = np.pad(self._codes, (0, max(self._n_rows - len(self._codes), len(self._codes))))
        for mine in rows_by_code(groups):
            rounder = self._rounder(int(groups[mine[0]]))
            for part in parts_of(len(mine), block_length(self.n_classes)):
                rows = mine[part]
                self._write(*rounder.add(of_rows(rows), rows + first, draws[rows], None if weight is None else weight[rows]))

    def finish(self) -> Array:
        """Decide the rows that are left, and give the classes of all rows."""
        for rounder in self._rounders.values():
            self._write(*rounder.finish())
        return self._codes[: self._n_rows]

    def _rounder(self, group: int) -> RowRounder:
        if group not in self._rounders:
            heaviest = 1.0 if self.heaviest is None else float(self.heaviest[group])
            self._rounders[group] = RowRounder(self.n_classes, SeededStream(self.seed, group), heaviest, compiled=self.compiled)
        return self._rounders[group]

    def _write(self, numbers: Whole, classes: Whole) -> None:
        self._codes[numbers] = classes
