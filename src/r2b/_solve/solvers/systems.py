"""The system that is left when rows and slacks are eliminated: prices and levels of one component of a general constraint.

With d the prices of entries and c the levels (one for each class of a family that has one to find), G the curvature times share:

    (G / share + softness) d + slope c = r,        sum share (slope d) - omega c = b.

Where the level of a band is the mean of its family, the price of an entry is passed on to its group less the mean of the family's. Taking
it as the unknown, rather than the price of the group, keeps entries inside the band from drowning the curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Level
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.oracle.folding import Folded
from r2b._solve.oracle.reference import folded_cells
from r2b._solve.solvers.central import RowSide
from r2b._solve.solvers.newton import LevelSystem

_FEW_ROWS = 4  # rows per cell below which cells save no work


@dataclass(frozen=True, eq=False)
class Component:
    """Groups that constrain each other.

    Attributes
    ----------
    groups : ndarray of int
    disjoint : bool
        They share no cell and are joined by levels to find, if at all: what rows leave is one block per group.
    """

    groups: Places
    disjoint: bool


@dataclass(frozen=True, eq=False)
class SystemLayout:
    """A parity constraint entry by entry: groups x classes, or families x classes for what belongs to a level.

    Attributes
    ----------
    low, high, low_slope, high_slope : ndarray of shape (n_groups, n_classes)
    bound, equal, band : ndarray of bool, same shape
        Entries that are bounded at all; those whose two sides coincide; the other bounded ones.
    family : ndarray of shape (n_groups,)
    leveled, averaged : ndarray of bool, shape (n_families, n_classes)
        Where there is a level to find; where instead it is the mean of the family, and means and prices count by what they are apart from
        theirs. Where the mean's band is closed all means are equal, and any level will do.
    first : ndarray of shape (n_families,)
        The first group of each family.
    share : ndarray of shape (n_groups, 1)
    total : ndarray of shape (n_families, 1)
        Sum of the shares of a family.
    components : list of Component
    """

    low: Floats
    high: Floats
    low_slope: Floats
    high_slope: Floats
    bound: Flags
    equal: Flags
    band: Flags
    family: Places
    leveled: Flags
    averaged: Flags
    first: Places
    share: Floats
    total: Floats
    components: list[Component]

    def family_sum(self, entries: Floats) -> Floats:
        """Sum over each family."""
        return np.asarray(np.add.reduceat(entries, self.first, axis=0))

    def family_mean(self, entries: Floats) -> Floats:
        """Mean of each family by share."""
        return self.family_sum(self.share * entries) / self.total

    def centred(self, entries: Floats) -> Floats:
        """Take away the mean of the family where that is the level."""
        mine = np.where(self.averaged, self.family_mean(entries), 0.0)
        return entries - mine[self.family]


def layout_of(parity: Parity) -> SystemLayout:
    """Write out the sides of every family."""
    family = np.empty(parity.n_groups, dtype=np.intp)
    sides = [member.bound.sides() for member in parity.members]
    for place, member in enumerate(parity.members):
        family[member.groups] = place
    infinite = np.stack([~np.isfinite(member.bound.epsilon) for member in parity.members])
    low, high, low_slope, high_slope = (
        np.where(infinite, 0.0, np.stack([getattr(side, name) for side in sides])) for name in ("low", "high", "low_slope", "high_slope")
    )
    # A ratio of 0 asks nothing of means that are never negative.
    bound = ~(infinite | ((high_slope > 0) & (low_slope == 0)))
    equal = bound & (high == low) & (high_slope == low_slope)
    level = np.array([side.level for side in sides])[:, None]
    averaged = bound & ~equal & (level == "mean")
    first, share = np.array([member.groups.start for member in parity.members], dtype=np.intp), parity.share[:, None]
    leveled, components = bound & (level != "none") & ~averaged, _components(parity, family, [side.level for side in sides])
    total = np.add.reduceat(share, first)
    by_entry: list[Any] = [each[family] for each in (low, high, low_slope, high_slope, bound, equal, bound & ~equal)]
    if parity.shift is not None:
        # A shifted mean is within its sides where the mean is within theirs less the shift; around a mean that is shifted as well.
        mean = np.where(level == "mean", np.add.reduceat(share * parity.shift, first) / total, 0.0)
        by_entry[:2] = [each - (parity.shift - mean[family]) for each in by_entry[:2]]
    return SystemLayout(*by_entry, *[family, leveled, averaged, first, share, total, components])


def _components(parity: Parity, family: Places, levels: list[Level]) -> list[Component]:
    """Unlike those of the constraint, these part groups that share a family but neither a cell nor a level."""
    touching = (parity.matrix != 0).astype(np.float64)
    shared = touching.T @ touching > 0
    moving = np.array([level != "none" for level in levels])[family]
    joined = shared | ((family[:, None] == family) & moving) | np.eye(parity.n_groups, dtype=bool)
    label = np.arange(parity.n_groups)
    while (nearest := np.where(joined, label, parity.n_groups).min(axis=1)).tolist() != label.tolist():
        label = nearest
    parts = [np.flatnonzero(label == each) for each in np.unique(label)]
    mean = np.array([level == "mean" for level in levels])[family]
    return [Component(part, bool((shared[np.ix_(part, part)].sum(axis=1) <= 1).all() and not mean[part].any())) for part in parts]


def fold(rows: RowSide, parity: Parity, components: list[Component], d: Floats, d_sum: Floats) -> list[Floats]:
    """Give ``sum_i w_i b_ig b_ih (D - D 1 1' D / 1' D 1)`` for each component, b_i the row of the design for the cell of row i.

    Returns
    -------
    list of ndarray of shape (n, n_classes, n, n_classes); of disjoint components (n, n_classes, n_classes), for g = h alone
    """
    n_classes = d.shape[1]
    blocks: Floats | None = None
    if len(d) >= _FEW_ROWS * rows.n_cells:
        blocks = rows.blocks(d, d_sum) * parity.cell_share[:, None, None]
    parts = []
    for component in components:
        design = parity.matrix[:, component.groups]
        if blocks is None:
            spread = [design[:, g : g + 1] for g in range(design.shape[1])] if component.disjoint else [design]
            folded = [_row_by_row(rows, column, d, d_sum) for column in spread]
            parts.append(np.stack([block[0, :, 0, :] for block in folded]) if component.disjoint else folded[0])
        elif component.disjoint:
            parts.append(((design**2).T @ blocks.reshape(rows.n_cells, -1)).reshape(-1, n_classes, n_classes))
        else:
            parts.append(folded_cells(design, blocks))
    return parts


def _row_by_row(rows: RowSide, design: Floats, d: Floats, d_sum: Floats) -> Floats:
    folded = Folded(design.shape[1], d.shape[1])
    touched = np.flatnonzero(np.asarray(design.any(axis=1))[rows.cell])
    folded.add(design[rows.cell[touched]], d[touched], rows.weight[touched], d_sum[touched])
    return folded.table()


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


def system_of(layout: SystemLayout, component: Component, block: Floats, conditions: Conditions) -> _Disjoint | _Dense:
    """Factorise the system of one component; ``block`` is what :func:`fold` gives for it.

    Its ``solve`` gives the prices of the component's entries, and all levels: those of other components are 0.
    """
    kind = _Disjoint if component.disjoint else _Dense
    return kind(layout, component.groups, block, conditions)


class _Disjoint:
    """Groups that share no cells: one factorisation per group, and one for the levels."""

    def __init__(self, layout: SystemLayout, groups: Places, block: Floats, held: Conditions) -> None:
        self.family, share = int(layout.family[groups[0]]), layout.share[groups, 0]
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

    def __init__(self, layout: SystemLayout, groups: Places, block: Floats, held: Conditions) -> None:
        family, free = layout.family[groups], held.free[groups]
        self.root = np.sqrt(layout.share[groups])
        matrix = _centred(block, layout, groups)
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


def _centred(block: Floats, layout: SystemLayout, groups: Places) -> Floats:
    """Give the curvature of a component by its entries' prices, in units where every share is 1."""
    root = np.sqrt(layout.share[groups, 0])
    matrix: Floats = block / root[:, None, None, None] / root[None, None, :, None]
    for f in np.unique(layout.family[groups]):
        columns = np.flatnonzero(layout.averaged[f])
        mine = np.flatnonzero(layout.family[groups] == f)
        if len(columns):
            part = matrix[mine[:, None], columns]
            matrix[mine[:, None], columns] = part - root[mine, None, None, None] * np.tensordot(root[mine], part, 1) / layout.total[f, 0]
            part = matrix[:, :, mine[:, None], columns]
            mean = np.einsum("g,abgk->abk", root[mine], part)[:, :, None, :] / layout.total[f, 0]
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
