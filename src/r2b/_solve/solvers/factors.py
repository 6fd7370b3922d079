"""Solving with the curvature of prices of groups that share cells: as one table, or in the space of the rows where these are few.

With b_i the row of the design for row i, in units where every share is 1, the matrix is, class by
class and then row by row,

    K = blocks of classes (sum_i w_i d_ik b_i b_i' + softness)  -  sum_i (w_i b_i x d_i) (w_i b_i x
    d_i)' / (w_i sum_k d_ik),

so that with R rows a system of groups x classes prices is one of R levels of rows (Woodbury):
twenty rows of 150 classes in 25 groups have 3,750 prices. Where prices are the fewer the table is
added up and factorised. Either way solutions are refined by the caller against the curvature
itself, whose product with prices costs next to nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from r2b._data.arrays import Flags, Floats, Places
from r2b._data.compute import parts_of
from r2b._solve.oracle.folding import Folded

# added to a unit diagonal until rounding lets it be factorised
_SHIFTS = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)
_BLOCK = 96  # rows of a triangle that are solved for at once
_NOTHING = 1e-13  # of what a row answers with, that is nothing: the solution is refined by far more
# operations that adding a number to a place of its own costs as much as, and weighing a copy of it
_SCATTERED, _WEIGHED = 400.0, 60.0


def cholesky(matrices: Floats) -> Floats:
    """Factorise one or several matrices with unit diagonals, positive definite but for rounding; LinAlgError where they are not."""
    for shift in _SHIFTS:
        shifted = matrices.copy()
        np.einsum("...kk->...k", shifted)[:] += shift
        try:
            return np.asarray(np.linalg.cholesky(shifted))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError


class Cholesky:
    """Solve with a symmetric matrix that is positive definite but for rounding.

    A third of the work of a factorisation by pivots and an eighth of that of an inverse. NumPy has
    no solver for triangles: blocks on the diagonal are inverted, the rest is products.

    Examples
    --------
    >>> matrix = np.array([[4e8, 2e4], [2e4, 3.0]])
    >>> np.abs(matrix @ Cholesky(matrix).solve(np.array([1.0, 2.0])) - [1, 2]).max() < 1e-9
    np.True_
    """

    def __init__(self, matrix: Floats) -> None:
        diagonal = np.diagonal(matrix)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = self.scale[:, None] * matrix
        scaled *= self.scale
        self.lower = cholesky(scaled)
        self.parts = parts_of(len(matrix), _BLOCK)
        self.inverses = [np.linalg.inv(self.lower[part, part]) for part in self.parts]

    def half(self, right: Floats) -> Floats:
        """Give half a solution, for a vector or columns: its square is the inverse with the right-hand side on both sides."""
        found = (right.T * self.scale).T
        for part, inverse in zip(self.parts, self.inverses, strict=True):
            found[part] = inverse @ (
                found[part] - self.lower[part, : part.start] @ found[: part.start]
            )
        return found

    def solve(self, right: Floats) -> Floats:
        """Solve for a vector or columns."""
        found = self.half(right)
        for part, inverse in zip(reversed(self.parts), reversed(self.inverses), strict=True):
            found[part] = inverse.T @ (
                found[part] - self.lower[part.stop :, part].T @ found[part.stop :]
            )
        return (found.T * self.scale).T


class Factor(ABC):
    """The matrix of the prices that are free, as vectors of these, factorised."""

    @abstractmethod
    def times(self, d: Floats) -> Floats:
        """Multiply by the matrix."""

    @abstractmethod
    def solve(self, right: Floats) -> Floats:
        """Solve with the matrix as it was factorised."""

    @abstractmethod
    def square(self, columns: Floats) -> Floats:
        """Give ``columns' K^-1 columns``."""


class TableFactor(Factor):
    """The matrix as a table, with a damping that is added for its factorisation alone."""

    def __init__(self, matrix: Floats, damping: float = 0.0) -> None:
        self.matrix = matrix
        damped = matrix
        if damping:
            damped = matrix.copy()
            damped.flat[:: len(matrix) + 1] += damping
        self.factor = Cholesky(damped)

    def times(self, d: Floats) -> Floats:
        """Multiply by the matrix."""
        return np.asarray(self.matrix @ d)

    def solve(self, right: Floats) -> Floats:
        """Solve with the matrix as it was factorised."""
        return self.factor.solve(right)

    def square(self, columns: Floats) -> Floats:
        """Give ``columns' K^-1 columns``."""
        half = self.factor.half(columns)
        return np.asarray(half.T @ half)


@dataclass(frozen=True, eq=False)
class RowCurvature:
    """The curvature of rows that is never added up: ``sum_i w_i b_ig b_ih (D - D 1 1' D / 1' D 1)``, D the diagonal of d.

    Attributes
    ----------
    design : ndarray of shape (n_cells, n_groups)
    cell : ndarray of shape (n_rows,)
        The row of the design for each row; it rises.
    d : ndarray of shape (n_rows, n_classes)
    d_sum, weight : ndarray of shape (n_rows,)
    by_rows : bool
        A factorisation in the space of the rows costs less than one of the table.
    products : int
        With the rows, that conjugate gradients may take before a factorisation is the cheaper way;
        none where it is at once.
    fold : callable, optional
        Adds it up in a way of its own.
    """

    design: Floats
    cell: Places
    d: Floats
    d_sum: Floats
    weight: Floats
    by_rows: bool = True
    products: int = 0
    fold: Callable[[], Floats] | None = None

    def times(self, prices: Floats) -> Floats:
        """Multiply prices of groups, groups x classes, by it."""
        return np.asarray(
            self.design.T @ self.summed(self.respond(self.spread(self.design @ prices)))
        )

    def table(self) -> Floats:
        """Add it up, as (n_groups, n_classes, n_groups, n_classes)."""
        if self.fold is not None:
            return self.fold()
        folded = Folded(self.design.shape[1], self.d.shape[1])
        folded.add(self.spread(self.design), self.d, self.weight, self.d_sum)
        return folded.table()

    @cached_property
    def first(self) -> Places:
        """The first row of each cell."""
        return np.searchsorted(self.cell, np.arange(len(self.design)))

    def spread(self, by_cell: Floats) -> Floats:
        """Give each row what its cell has."""
        return by_cell if len(by_cell) == len(self.cell) else by_cell[self.cell]

    def summed(self, by_row: Floats) -> Floats:
        """Add up the rows of each cell."""
        return (
            by_row
            if len(by_row) == len(self.design)
            else np.asarray(np.add.reduceat(by_row, self.first, axis=0))
        )

    def respond(self, shifts: Floats) -> Floats:
        """Give what rows move for a shift, times their weight."""
        level = np.einsum("ik,ik->i", self.d, shifts) / self.d_sum
        return np.asarray(self.d * (shifts - level[:, None]) * self.weight[:, None])


def row_work(d: Floats, d_sum: Floats, n_cells: int, n_groups: int) -> float:
    """Give the operations that factorising in the space of the rows takes: products of the rows' levels, then a third of a cube."""
    return min(_works(_joined(d, d_sum), n_cells, n_groups)) + len(d) ** 3 / 3


def _joined(d: Floats, d_sum: Floats) -> Flags:
    return np.asarray(d > _NOTHING * d_sum[:, None])


def _works(joined: Flags, n_cells: int, n_groups: int) -> tuple[float, float, float]:
    """Give the operations of the three ways to make the products of the rows' levels."""
    n_rows, n_classes = joined.shape
    by_class = (_SCATTERED + 2.0 * n_groups) * float(
        (joined.sum(axis=0, dtype=np.float64) ** 2).sum()
    )
    return (
        float(n_rows**2 * n_groups * n_classes),
        by_class,
        float(n_rows * n_classes * (n_rows + _WEIGHED * n_cells)),
    )


class RowFactor(Factor):
    """The matrix in the space of the rows.

    Entries that are all but 0 beside the others of their row do not move with its level: near the
    answer these are nearly all, and what joins two rows is the few classes that both have. They are
    left out of the levels; what that changes is refined by the caller.

    Parameters
    ----------
    curvature : RowCurvature
        Its design in units where every share is 1.
    designs : list of (ndarray of shape (n_cells, n_groups), ndarray of int)
        The design of some classes, and which: prices that are passed on less their mean make it
        differ between classes.
    softness : ndarray of shape (n_groups, n_classes)
    free : ndarray of bool, same shape
    damping : float
        For the factorisation alone.
    """

    def __init__(
        self,
        curvature: RowCurvature,
        designs: list[tuple[Floats, Places]],
        softness: Floats,
        free: Flags,
        damping: float = 0.0,
    ) -> None:
        self.curvature, self.designs, self.softness, self.free = curvature, designs, softness, free
        n_rows, n_groups, n_classes = len(curvature.d), *free.shape
        weighed = curvature.weight[:, None] * curvature.d
        joined, summed = _joined(curvature.d, curvature.d_sum), curvature.summed(weighed)
        moves = weighed * (1.0 / np.sqrt(curvature.weight * curvature.d_sum))[:, None]
        # inverse factors of the classes' blocks
        self.white = np.zeros((n_classes, n_groups, n_groups))
        for design, classes in designs:
            pairs = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
            mine = free.T[classes]
            blocks = (pairs.T @ summed[:, classes]).T.reshape(-1, n_groups, n_groups)
            np.einsum("kgg->kg", blocks)[:] += softness.T[classes] + damping
            blocks *= mine[:, :, None] & mine[:, None, :]
            np.einsum("kgg->kg", blocks)[~mine] = 1.0
            scale = 1.0 / np.sqrt(np.einsum("kgg->kg", blocks))
            inverse = np.linalg.inv(cholesky(blocks * scale[:, :, None] * scale[:, None, :]))
            self.white[classes] = inverse * (scale * mine)[:, None, :]
        # Made from whitened prices: those of nearly singular blocks are large, and would cancel in
        # the rows.
        works = _works(joined, len(curvature.design), n_groups)
        kind = (_Together, _ByClass, _ByCell)[works.index(min(works))]
        self.joints = kind(moves, joined, curvature, _whitened(designs, self.white))
        levels = -self.joints.squares()
        levels.flat[:: n_rows + 1] += 1.0
        self.levels = Cholesky(levels)

    def times(self, d: Floats) -> Floats:
        """Multiply by the matrix."""
        prices = self._spread(d)
        shifts = np.empty_like(self.curvature.d)
        for design, classes in self.designs:
            shifts[:, classes] = self.curvature.spread(design @ prices[:, classes])
        moved = self.curvature.summed(self.curvature.respond(shifts))
        found = self.softness * prices
        for design, classes in self.designs:
            found[:, classes] += design.T @ moved[:, classes]
        return found[self.free]

    def _spread(self, d: Floats) -> Floats:
        prices = np.zeros(self.free.shape)
        prices[self.free] = d
        return prices

    def solve(self, right: Floats) -> Floats:
        """Solve with the matrix as it was factorised."""
        own = np.matmul(self.white, self._spread(right).T[:, :, None])[:, :, 0]
        own += self.joints.back(self.levels.solve(self.joints.of(own[:, :, None])[:, 0]))
        return np.asarray(
            np.matmul(self.white.transpose(0, 2, 1), own[:, :, None])[:, :, 0].T[self.free]
        )

    def square(self, columns: Floats) -> Floats:
        """Give ``columns' K^-1 columns``."""
        whole = np.zeros((*self.free.shape, columns.shape[1]))
        whole[self.free] = columns
        own = np.matmul(self.white, whole.transpose(1, 0, 2))
        half, flat = self.levels.half(self.joints.of(own)), own.reshape(-1, columns.shape[1])
        return np.asarray(flat.T @ flat + half.T @ half)


def _whitened(designs: list[tuple[Floats, Places]], white: Floats) -> Floats:
    """Give the design by whitened prices, classes x cells x groups."""
    found = np.empty((len(white), len(designs[0][0]), white.shape[1]))
    for design, classes in designs:
        found[classes] = np.matmul(design, white[classes].transpose(0, 2, 1))
    return found


class _Joints(ABC):
    """How the levels of rows move with whitened prices, classes x groups.

    Parameters
    ----------
    moves : ndarray of shape (n_rows, n_classes)
        Of entries with the level of their row.
    joined : ndarray of bool, same shape
        Those that move with it at all.
    curvature : RowCurvature
    design : ndarray of shape (n_classes, n_cells, n_groups)
    """

    @abstractmethod
    def __init__(
        self, moves: Floats, joined: Flags, curvature: RowCurvature, design: Floats
    ) -> None: ...

    @abstractmethod
    def squares(self) -> Floats:
        """Give what the levels of two rows have to do with each other, on and below the diagonal."""

    @abstractmethod
    def of(self, own: Floats) -> Floats:
        """Give what levels make of columns of prices, classes x groups x columns."""

    @abstractmethod
    def back(self, level: Floats) -> Floats:
        """Give what prices make of levels."""


class _Together(_Joints):
    """As one table."""

    def __init__(
        self, moves: Floats, joined: Flags, curvature: RowCurvature, design: Floats
    ) -> None:
        factors = curvature.spread(design.transpose(1, 0, 2)) * moves[:, :, None]
        self.factors, self.shape = factors.reshape(len(moves), -1), (len(design), design.shape[2])

    def squares(self) -> Floats:
        return np.asarray(self.factors @ self.factors.T)

    def of(self, own: Floats) -> Floats:
        return np.asarray(self.factors @ own.reshape(-1, own.shape[2]))

    def back(self, level: Floats) -> Floats:
        return np.asarray((self.factors.T @ level).reshape(self.shape))


class _ByClass(_Joints):
    """Class by class, from the rows that have it: few, near the answer."""

    def __init__(
        self, moves: Floats, joined: Flags, curvature: RowCurvature, design: Floats
    ) -> None:
        self.n_rows, self.parts = len(moves), []
        for k, own in enumerate(design):
            rows = np.flatnonzero(joined[:, k])
            self.parts.append((rows, own[curvature.cell[rows]] * moves[rows, k, None]))

    def squares(self) -> Floats:
        found = np.zeros((self.n_rows, self.n_rows))
        for rows, factors in self.parts:
            found[rows[:, None], rows] += factors @ factors.T
        return found

    def of(self, own: Floats) -> Floats:
        found = np.zeros((self.n_rows, own.shape[2]))
        for (rows, factors), mine in zip(self.parts, own, strict=True):
            used = np.flatnonzero(mine.any(axis=0))  # a column may be one of a single class
            found[rows[:, None], used] += factors @ mine[:, used]
        return found

    def back(self, level: Floats) -> Floats:
        return np.stack([level[rows] @ factors for rows, factors in self.parts])


class _ByCell(_Joints):
    """Cell by cell: what groups make of two rows is the same for all rows of two cells."""

    def __init__(
        self, moves: Floats, joined: Flags, curvature: RowCurvature, design: Floats
    ) -> None:
        self.moves, self.curvature, self.design = moves, curvature, design

    def squares(self) -> Floats:
        cell, moves, first = self.curvature.cell, self.moves, self.curvature.first
        # cells x cells x classes
        alike = np.matmul(self.design, self.design.transpose(0, 2, 1)).transpose(1, 2, 0).copy()
        found = np.zeros((len(moves), len(moves)))
        for own, start, stop in zip(alike, first, np.append(first[1:], len(moves)), strict=True):
            found[start:stop, :stop] = moves[start:stop] @ (moves[:stop] * own[cell[:stop]]).T
        return found

    def of(self, own: Floats) -> Floats:
        found = np.zeros((len(self.moves), own.shape[2]))
        by_cell = np.matmul(self.design, own)
        if own.shape[2] == 1:
            found[:, 0] = np.einsum(
                "ik,ik->i", self.moves, self.curvature.spread(by_cell[:, :, 0].T)
            )
            return found
        for k, mine in enumerate(by_cell):
            used = np.flatnonzero(own[k].any(axis=0))
            found[:, used] += self.moves[:, k, None] * self.curvature.spread(mine[:, used])
        return found

    def back(self, level: Floats) -> Floats:
        by_cell = self.curvature.summed(self.moves * level[:, None])
        return np.asarray(np.matmul(by_cell.T[:, None, :], self.design)[:, 0, :])
