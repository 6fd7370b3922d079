"""The system that is left when rows and slacks are eliminated: prices and levels of one component of a general constraint.

With d the prices of entries and c the levels (one for each class of a family that has one to find), G the curvature times share:

    (G / share + softness) d + slope c = r,        sum share (slope d) - omega c = b.

Where the level of a band is the mean of its family, the price of an entry is passed on to its group less the mean of the family's. Taking
it as the unknown, rather than the price of the group, keeps entries inside the band from drowning the curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity import Parity
from r2b._solve.solvers.blocks import LevelSystem
from r2b._solve.solvers.elimination import Component, Flags, Layout

Floats = NDArray[np.float64]

_REFINEMENTS = 2
_UNDAMPING = 20  # each takes a part of the damping back, the smaller the nearer to singular a system is


@dataclass(frozen=True, eq=False)
class Conditions:
    """What entries and levels are held to; groups x classes, and families x classes for levels.

    Attributes
    ----------
    free : ndarray of bool
        Entries that have a price.
    softness, slope : ndarray
    leveled : ndarray of bool, shape (n_families, n_classes)
        Levels to find.
    omega : ndarray of shape (n_families, n_classes)
    damping : float
        Added to the curvature where it alone leaves a choice.
    """

    free: Flags
    softness: Floats
    slope: Floats
    leveled: Flags
    omega: Floats
    damping: float = 0.0


class PriceSystem(Protocol):
    """Factorised once, solved for several right-hand sides."""

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Give the prices of the component's entries, and all levels: those of other components are 0."""
        ...


def system_of(parity: Parity, layout: Layout, component: Component, block: Floats, conditions: Conditions) -> PriceSystem:
    """Factorise the system of one component; ``block`` is what :func:`fold` gives for it."""
    kind = _Disjoint if component.disjoint else _Dense
    return kind(parity, layout, component.groups, block, conditions)


class _Disjoint:
    """Groups that share no cells: one factorisation per group, and one for the levels."""

    def __init__(self, parity: Parity, layout: Layout, groups: NDArray[np.intp], block: Floats, held: Conditions) -> None:
        self.family, share = int(layout.family[groups[0]]), parity.share[groups]
        blocks = block / share[:, None, None]
        np.einsum("gkk->gk", blocks)[:] += held.softness[groups] + held.damping
        slope = np.where(held.leveled[self.family], held.slope[groups], 0.0)
        self.system = LevelSystem(blocks, held.free[groups], share, slope, held.omega[self.family])

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        c = np.zeros_like(balance)
        d, levels = self.system.solve_with_levels(right, balance[self.family])
        c[self.family] = -levels
        return d, c


class _Dense:
    """Groups that touch each other."""

    def __init__(self, parity: Parity, layout: Layout, groups: NDArray[np.intp], block: Floats, held: Conditions) -> None:
        family, free = layout.family[groups], held.free[groups]
        self.root = np.sqrt(parity.share[groups, None])
        matrix = _centred(block, parity, layout, groups)
        np.einsum("gkgk->gk", matrix)[:] += held.softness[groups]
        size = free.size
        self.alive = np.flatnonzero(free.ravel())
        flat = matrix.reshape(size, size)
        flat = flat if len(self.alive) == size else flat[np.ix_(self.alive, self.alive)]
        self.places = [
            (f, k) for f in np.unique(family) for k in np.flatnonzero(held.leveled[f] & (free & (family == f)[:, None]).any(axis=0))
        ]
        columns = np.zeros((*free.shape, len(self.places)))
        for place, (f, k) in enumerate(self.places):
            columns[:, k, place] = np.where(family == f, self.root[:, 0] * held.slope[groups, k], 0.0)
        corner = np.array([-held.omega[place] for place in self.places])
        self.system = _Bordered(flat, columns.reshape(size, -1)[self.alive], corner, held.damping) if len(self.alive) else None

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        d, c = np.zeros(right.size), np.zeros_like(balance)
        if self.system is not None:
            wanted = np.array([balance[place] for place in self.places])
            d[self.alive], levels = self.system.solve((self.root * right).ravel()[self.alive], wanted)
            for place, level in zip(self.places, levels, strict=True):
                c[place] = level
        return d.reshape(right.shape) / self.root, c


def _centred(block: Floats, parity: Parity, layout: Layout, groups: NDArray[np.intp]) -> Floats:
    """Give the curvature of a component by its entries' prices, in units where every share is 1."""
    root = np.sqrt(parity.share[groups])
    matrix: Floats = block / root[:, None, None, None] / root[None, None, :, None]
    for f in np.unique(layout.family[groups]):
        columns = np.flatnonzero(layout.averaged[f])
        mine = np.flatnonzero(layout.family[groups] == f)
        if len(columns):
            part = matrix[mine[:, None], columns]
            matrix[mine[:, None], columns] = part - root[mine, None, None, None] * np.tensordot(root[mine], part, 1) / layout.total[f]
            part = matrix[:, :, mine[:, None], columns]
            mean = np.einsum("g,abgk->abk", root[mine], part)[:, :, None, :] / layout.total[f]
            matrix[:, :, mine[:, None], columns] = part - root[mine, None] * mean
    return matrix


class _Bordered:
    """Factorise once, solve for several right-hand sides.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Symmetric, for the m unknown prices, in units where every share is 1.
    columns : ndarray of shape (m, l)
        How the l levels move them.
    corner : ndarray of shape (l,)
        What stands on the diagonal for the levels.
    damping : float
        Added to the diagonal of the matrix for the factorisation only: solutions are refined against the matrix as it is.
    """

    def __init__(self, matrix: Floats, columns: Floats, corner: Floats, damping: float = 0.0) -> None:
        size, levels = columns.shape
        whole = np.zeros((size + levels, size + levels))
        whole[:size, :size] = matrix
        whole[:size, size:] = columns
        whole[size:, :size] = columns.T
        whole[np.arange(size, size + levels), np.arange(size, size + levels)] = corner
        self.size = size
        # Diagonals differ by twenty orders of magnitude near the end.
        scale = np.ones(size + levels)
        scale[:size] = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix), damping))
        scale[size:] = 1.0 / np.sqrt(np.maximum(np.square(scale[:size, None] * columns).sum(axis=0), np.abs(corner)))
        self.whole = whole
        self.refinements = _REFINEMENTS if damping == 0 else _UNDAMPING
        damped = whole
        if damping:
            damped = whole.copy()
            damped[np.arange(size), np.arange(size)] += damping
        self.inverse = scale[:, None] * np.linalg.inv(scale[:, None] * damped * scale) * scale

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Return prices and levels."""
        wanted = np.concatenate([right, balance])
        found = self.inverse @ wanted
        for _ in range(self.refinements):
            found += self.inverse @ (wanted - self.whole @ found)
        return found[: self.size], found[self.size :]
