"""Rows of many groups rounded one after the other, as batches of them come: the same classes however the rows are cut into batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Floats, Whole, smallest_unsigned
from r2b._data.compute import parts_of
from r2b._labels.forms.forest import COMPILE_FROM, Forest
from r2b._labels.forms.keyed import SeededStream, entry_uniforms, uniforms_of
from r2b._labels.forms.rounding import Uniforms, round_table
from r2b._labels.forms.sampling import (
    block_length,
    check_matrix,
    check_weight,
    entries,
    sample_rows,
)

_FIRST_ROOM = 1 << 16
#: A row with an entry this close to 1 is decided.
SURE = 1e-12
#: Shares of a row, and weights relative to the largest, below this are zero: their product would leave the range of float64.
NEGLIGIBLE = 1e-150


def rows_by_code(codes: Array) -> list[Array]:
    """Give the rows of each code that occurs, in order.

    Examples
    --------
    >>> [rows.tolist() for rows in rows_by_code(np.array([3, 1, 3]))], rows_by_code(np.array([], int))
    ([[1], [0, 2]], [])
    """
    rows = np.argsort(codes, kind="stable")
    return (
        np.split(rows, np.flatnonzero(np.diff(codes[rows].astype(np.int64))) + 1)
        if len(rows)
        else []
    )


class RowRounder:
    """Decides the classes of the rows of one group as they come, in order: what is decided does not depend on the blocks they come in.

    Parameters
    ----------
    n_classes : int
    stream : Uniforms
        Decides the few rows that are undecided at the end.
    heaviest : float
        Weight of the heaviest row of the group; 1 without weights.
    compiled : bool
        Whether to use the compiled kernel, where there is one. The results are the same.
    """

    def __init__(
        self, n_classes: int, stream: Uniforms, heaviest: float = 1.0, *, compiled: bool = False
    ) -> None:
        self.n_classes, self.stream = n_classes, stream
        self.heaviest = max(heaviest, np.finfo(np.float64).tiny)
        self._forest = Forest(n_classes, n_classes, capped=False, compiled=compiled)

    def add(
        self, block: Array, numbers: Whole, draws: Whole, weight: Floats | None = None
    ) -> tuple[Whole, Whole]:
        """Add rows with their numbers, draws and weights; give number and class of the rows, these and earlier ones, that are decided."""
        values = np.ones(len(block)) if weight is None else weight / self.heaviest
        row, column, chance = entries(
            block, int(numbers[0]) if len(numbers) else 0, above=NEGLIGIBLE
        )
        weighty = values >= NEGLIGIBLE
        weightless = np.flatnonzero(~weighty)
        drawn = sample_rows(block[weightless], uniforms_of(draws[weightless])).astype(np.int64)
        sure = (chance >= 1 - SURE) & weighty[row]
        weighty[row[sure]] = False
        open_ = weighty[row]
        decided, classes = [weightless, row[sure]], [drawn, column[sure]]
        row, column, chance = row[open_], column[open_], chance[open_]
        counts = np.bincount(row, minlength=len(block))
        owners = np.flatnonzero(counts)
        start = np.concatenate([[0], np.cumsum(counts[owners])])
        # One uniform per entry, needed or not, that follows from the row's draw and the class
        # alone.
        uniforms = entry_uniforms(draws[row], column)
        full = self._forest.add(
            start, column, chance * values[row], numbers[owners], values[owners], uniforms
        )
        return np.concatenate([numbers[np.concatenate(decided)], full[0]]), np.concatenate(
            [*classes, full[1]]
        )

    def finish(self) -> tuple[Whole, Whole]:
        """Decide the rows that are left, fewer than there are classes; give their numbers and classes."""
        owner, column, mass = self._forest.undecided()
        last, place = np.unique(owner, return_inverse=True)
        table = np.zeros((last.size, self.n_classes))
        table[place, column] = mass
        if not last.size:
            return last, last
        chosen = round_table(table / table.sum(axis=1, keepdims=True), self.stream)
        return last, chosen @ np.arange(self.n_classes)


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

    def __init__(
        self, n_classes: int, seed: int, heaviest: Floats | None = None, *, compiled: bool = False
    ) -> None:
        self.n_classes, self.seed, self.heaviest, self.compiled = (
            n_classes,
            seed,
            heaviest,
            compiled,
        )
        self._rounders: dict[int, RowRounder] = {}
        self._codes = np.zeros(_FIRST_ROOM, smallest_unsigned(n_classes))
        self._n_rows = 0

    def take(
        self,
        groups: Array,
        draws: Whole,
        weight: Floats | None,
        first: int,
        of_rows: Callable[[Whole], Array],
    ) -> None:
        """Add a batch: group, draw and weight of its rows, the number of the first, and what gives the distributions of some of them."""
        self._n_rows = first + len(groups)
        if self._n_rows > len(self._codes):
            self._codes = np.pad(
                self._codes, (0, max(self._n_rows - len(self._codes), len(self._codes)))
            )
        for mine in rows_by_code(groups):
            rounder = self._rounder(int(groups[mine[0]]))
            for part in parts_of(len(mine), block_length(self.n_classes)):
                rows = mine[part]
                self._write(
                    *rounder.add(
                        of_rows(rows),
                        rows + first,
                        draws[rows],
                        None if weight is None else weight[rows],
                    )
                )

    def finish(self) -> Array:
        """Decide the rows that are left, and give the classes of all rows."""
        for rounder in self._rounders.values():
            self._write(*rounder.finish())
        return self._codes[: self._n_rows]

    def _rounder(self, group: int) -> RowRounder:
        if group not in self._rounders:
            heaviest = 1.0 if self.heaviest is None else float(self.heaviest[group])
            self._rounders[group] = RowRounder(
                self.n_classes, SeededStream(self.seed, group), heaviest, compiled=self.compiled
            )
        return self._rounders[group]

    def _write(self, numbers: Whole, classes: Whole) -> None:
        self._codes[numbers] = classes


def round_rows(rows: ArrayLike, draws: Whole, weight: ArrayLike | None = None) -> Array:
    """Decide the class of every row of one group at random so that the group's class shares stay as they are.

    Row i gets class k with probability ``rows[i, k]`` (to 1e-9), and only classes of positive
    probability.

    Without weights the count of each class is the floor or the ceiling of its column sum, so that
    the group's means are met to within 1/n. With weights the weighted column sums are kept until at
    most L-1 rows are undecided; those are then decided at random from their distributions. So, for
    every class,

        |weighted share of the labels - weighted mean of the rows| <= (L - 1) * max(weight of an undecided row) / total weight.

    Equal weights give the labels that no weights give.

    Parameters
    ----------
    rows : array of shape (n, L)
        Distributions of one group, float32 or float64; each is rescaled to its own sum, and sums
        are meant after that.
    draws : int64 array of shape (n,)
        Random numbers of the rows, of 53 bits: see :mod:`r2b._labels.forms.keyed`.
    weight : array of shape (n,), optional
        Weight of each row. Rows without weight are sampled.

    Returns
    -------
    codes : array of shape (n,)
        Class of each row, in the smallest unsigned integer type.

    Raises
    ------
    ProbabilityError, LengthError, WeightError
        A row is not a distribution, or the weights do not fit.

    Examples
    --------
    >>> codes = round_rows([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75], [0.75, 0.25]], np.array([5, 1, 7, 3]))
    >>> np.bincount(codes).tolist()
    [2, 2]
    """
    matrix = check_matrix(rows)
    values = None if weight is None else check_weight(weight, len(matrix))
    heaviest = None if values is None else np.array([values.max(initial=0.0)])
    turns = Turns(
        matrix.shape[1],
        int(draws[0]) if len(matrix) else 0,
        heaviest,
        compiled=matrix.size > COMPILE_FROM,
    )
    turns.take(np.zeros(len(matrix), np.intp), draws, values, 0, lambda mine: matrix[mine])
    return turns.finish()
