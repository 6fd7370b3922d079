"""Solving with the curvature of prices of groups that share cells: as one table, or in the space of the rows where these are few.

With b_i the row of the design for row i, in units where every share is 1, the matrix is, class by class and then row by row,

    K = blocks of classes (sum_i w_i d_ik b_i b_i' + softness)  -  sum_i (w_i b_i x d_i) (w_i b_i x d_i)' / (w_i sum_k d_ik),

so that with R rows a system of groups x classes prices is one of R levels of rows (Woodbury): twenty rows of 150 classes in 25 groups have
3,750 prices. Where prices are the fewer the table is added up and factorised. Either way solutions are refined by the caller against the
curvature itself, whose product with prices costs next to nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Flags, Floats, Places
from r2b._data.compute import parts_of
from r2b._solve.oracle.folding import Folded

_SHIFTS = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)  # added to a unit diagonal until rounding lets it be factorised
_BLOCK = 96  # rows of a triangle that are solved for at once


def cholesky(matrices: Floats) -> Floats:
    """Factorise one or several matrices with unit diagonals, positive definite but for rounding; LinAlgError where they are not."""
    for shift in _SHIFTS:
        try:
            return np.asarray(np.linalg.cholesky(matrices + shift * np.eye(matrices.shape[-1])))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError


class Cholesky:
    """Solve with a symmetric matrix that is positive definite but for rounding.

    A third of the work of a factorisation by pivots and an eighth of that of an inverse. NumPy has no solver for triangles: blocks on the
    diagonal are inverted, the rest is products.

    Examples
    --------
    >>> matrix = np.array([[4e8, 2e4], [2e4, 3.0]])
    >>> np.abs(matrix @ Cholesky(matrix).solve(np.array([1.0, 2.0])) - [1, 2]).max() < 1e-9
    np.True_
    """

    def __init__(self, matrix: Floats) -> None:
        diagonal = np.diagonal(matrix)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        self.lower = cholesky(self.scale[:, None] * matrix * self.scale)
        self.parts = parts_of(len(matrix), _BLOCK)
        self.inverses = [np.linalg.inv(self.lower[part, part]) for part in self.parts]

    def half(self, right: Floats) -> Floats:
        """Give half a solution, for a vector or columns: its square is the inverse with the right-hand side on both sides."""
        found = (right.T * self.scale).T
        for part, inverse in zip(self.parts, self.inverses, strict=True):
            found[part] = inverse @ (found[part] - self.lower[part, : part.start] @ found[: part.start])
        return found

    def solve(self, right: Floats) -> Floats:
        """Solve for a vector or columns."""
        found = self.half(right)
        for part, inverse in zip(reversed(self.parts), reversed(self.inverses), strict=True):
            found[part] = inverse.T @ (found[part] - self.lower[part.stop :, part].T @ found[part.stop :])
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
    design : ndarray of shape (n_rows, n_groups)
    d : ndarray of shape (n_rows, n_classes)
    d_sum, weight : ndarray of shape (n_rows,)
    by_rows : bool
        A factorisation in the space of the rows costs less than one of the table.
    iterate : bool
        Either costs more than conjugate gradients.
    fold : callable, optional
        Adds it up in a way of its own.
    """

    design: Floats
    d: Floats
    d_sum: Floats
    weight: Floats
    by_rows: bool = True
    iterate: bool = False
    fold: Callable[[], Floats] | None = None

    def times(self, prices: Floats) -> Floats:
        """Multiply prices of groups, groups x classes, by it."""
        return np.asarray(self.design.T @ self.respond(self.design @ prices))

    def table(self) -> Floats:
        """Add it up, as (n_groups, n_classes, n_groups, n_classes)."""
        if self.fold is not None:
            return self.fold()
        folded = Folded(self.design.shape[1], self.d.shape[1])
        folded.add(self.design, self.d, self.weight, self.d_sum)
        return folded.table()

    def respond(self, shifts: Floats) -> Floats:
        """Give what rows move for a shift, times their weight."""
        level = np.einsum("ik,ik->i", self.d, shifts) / self.d_sum
        return np.asarray(self.d * (shifts - level[:, None]) * self.weight[:, None])


class RowFactor(Factor):
    """The matrix in the space of the rows.

    Parameters
    ----------
    curvature : RowCurvature
        Its design in units where every share is 1.
    designs : list of (ndarray of shape (n_rows, n_groups), ndarray of int)
        The design of some classes, and which: prices that are passed on less their mean make it differ between classes.
    softness : ndarray of shape (n_groups, n_classes)
    free : ndarray of bool, same shape
    damping : float
        For the factorisation alone.
    """

    def __init__(
        self, curvature: RowCurvature, designs: list[tuple[Floats, Places]], softness: Floats, free: Flags, damping: float = 0.0
    ) -> None:
        self.curvature, self.designs, self.softness, self.free = curvature, designs, softness, free
        n_rows, n_groups, n_classes = len(curvature.d), *free.shape
        weighed = curvature.weight[:, None] * curvature.d
        self.unit = 1.0 / np.sqrt(curvature.weight * curvature.d_sum)
        self.white = np.zeros((n_classes, n_groups, n_groups))  # inverse factors of the classes' blocks
        factors = np.empty((n_rows, n_classes, n_groups))
        for design, classes in designs:
            pairs = (design[:, :, None] * design[:, None, :]).reshape(n_rows, -1)
            mine = free.T[classes]
            blocks = (pairs.T @ weighed[:, classes]).T.reshape(-1, n_groups, n_groups)
            np.einsum("kgg->kg", blocks)[:] += softness.T[classes] + damping
            blocks *= mine[:, :, None] & mine[:, None, :]
            np.einsum("kgg->kg", blocks)[~mine] = 1.0
            scale = 1.0 / np.sqrt(np.einsum("kgg->kg", blocks))
            inverse = np.linalg.inv(cholesky(blocks * scale[:, :, None] * scale[:, None, :]))
            self.white[classes] = inverse * (scale * mine)[:, None, :]
            spread = (design @ self.white[classes].transpose(2, 0, 1).reshape(n_groups, -1)).reshape(n_rows, -1, n_groups)
            factors[:, classes] = spread * (weighed[:, classes] * self.unit[:, None])[:, :, None]
        self.factors = factors.reshape(n_rows, -1)
        self.levels = Cholesky(np.eye(n_rows) - self.factors @ self.factors.T)

    def times(self, d: Floats) -> Floats:
        """Multiply by the matrix."""
        prices = self._spread(d)
        shifts = np.empty_like(self.curvature.d)
        for design, classes in self.designs:
            shifts[:, classes] = design @ prices[:, classes]
        moved = self.curvature.respond(shifts)
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
        own = np.matmul(self.white, self._spread(right).T[:, :, None])
        own += (self.factors.T @ self.levels.solve(self.factors @ own.ravel())).reshape(own.shape)
        return np.asarray(np.matmul(self.white.transpose(0, 2, 1), own)[:, :, 0].T[self.free])

    def square(self, columns: Floats) -> Floats:
        """Give ``columns' K^-1 columns``."""
        whole = np.zeros((*self.free.shape, columns.shape[1]))
        whole[self.free] = columns
        own = np.matmul(self.white, whole.transpose(1, 0, 2)).reshape(-1, columns.shape[1])
        half = self.levels.half(self.factors @ own)
        return np.asarray(own.T @ own + half.T @ half)
