"""The dense system that is left when rows and slacks are eliminated: prices and levels of one component of a general constraint.

With d prices and c levels (one for each class of a family that has one), for symmetric G and in the product weighted by the shares:

    (G / share + 1/theta) d + slope c = r,        sum share (slope d) - omega c = b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from r2b.parity import Parity
from r2b.solvers.rows import RowSide

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_REFINEMENTS = 2
_FEW_ROWS = 4  # rows per cell below which cells save no work
_CHUNK = 1 << 22  # entries of the rows' factors that are held at once


@dataclass(frozen=True, eq=False)
class Layout:
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
    total : ndarray of shape (n_families,)
        Sum of the shares of a family.
    """

    low: Floats
    high: Floats
    low_slope: Floats
    high_slope: Floats
    bound: Flags
    equal: Flags
    band: Flags
    family: NDArray[np.intp]
    leveled: Flags
    averaged: Flags
    total: Floats


def layout_of(parity: Parity) -> Layout:
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
    total = np.array([parity.share[member.groups].sum() for member in parity.members])
    return Layout(
        low=low[family],
        high=high[family],
        low_slope=low_slope[family],
        high_slope=high_slope[family],
        bound=bound[family],
        equal=equal[family],
        band=(bound & ~equal)[family],
        family=family,
        leveled=bound & (level != "none") & ~averaged,
        averaged=averaged,
        total=total,
    )


def fold(rows: RowSide, parity: Parity, d: Floats, d_sum: Floats) -> list[Floats]:
    """Give ``sum_i w_i b_ig b_ih (D - D 1 1' D / 1' D 1)`` for each component, b_i the row of the design for the cell of row i.

    Returns
    -------
    list of ndarray of shape (n, n_classes, n, n_classes)
    """
    if len(d) < _FEW_ROWS * rows.n_cells:
        return [_row_by_row(rows, parity.matrix[:, groups], d, d_sum) for groups in parity.components]
    n_classes = d.shape[1]
    flat = rows.blocks(d, d_sum).reshape(rows.n_cells, -1)
    return [_cell_by_cell(parity.matrix[:, groups], parity.cell_share, flat, n_classes) for groups in parity.components]


def _cell_by_cell(design: Floats, share: Floats, blocks: Floats, n_classes: int) -> Floats:
    n_groups = design.shape[1]
    touched = np.flatnonzero(design.any(axis=1))
    mine = design[touched]
    pairs = (share[touched, None, None] * mine[:, :, None] * mine[:, None, :]).reshape(len(touched), -1)
    folded = (pairs.T @ blocks[touched]).reshape(n_groups, n_groups, n_classes, n_classes)
    return np.ascontiguousarray(folded.transpose(0, 2, 1, 3))


def _row_by_row(rows: RowSide, design: Floats, d: Floats, d_sum: Floats) -> Floats:
    n_groups, n_classes = design.shape[1], d.shape[1]
    size = n_groups * n_classes
    folded = np.zeros((size, size))
    own = np.zeros((n_groups, n_groups, n_classes))
    touched = np.flatnonzero(np.asarray(design.any(axis=1))[rows.cell])
    for chunk in np.split(touched, range(0, len(touched), max(1, _CHUNK // size))[1:]):
        mine, weight = design[rows.cell[chunk]], rows.weight[chunk]
        factors = (mine[:, :, None] * (d[chunk] * np.sqrt(weight / d_sum[chunk])[:, None])[:, None, :]).reshape(len(chunk), -1)
        folded -= factors.T @ factors
        own += np.einsum("ig,ih,ik->ghk", mine, mine, weight[:, None] * d[chunk], optimize=True)
    folded = folded.reshape(n_groups, n_classes, n_groups, n_classes)
    np.einsum("gkhk->ghk", folded)[:] += own
    return folded


def centred_block(block: Floats, parity: Parity, layout: Layout, groups: NDArray[np.intp]) -> Floats:
    """Give the curvature of a component by its entries' own prices, in units where every share is 1.

    Where the level of a band is the mean of its family, an own price is passed on less its mean. Taking it as the unknown, rather than
    the price of the group, keeps entries inside the band from drowning the curvature.
    """
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


class ComponentSystem:
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
        damped = whole
        if damping:
            damped = whole.copy()
            damped[np.arange(size), np.arange(size)] += damping
        self.inverse = scale[:, None] * np.linalg.inv(scale[:, None] * damped * scale) * scale

    def solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Return prices and levels."""
        wanted = np.concatenate([right, balance])
        found = self.inverse @ wanted
        for _ in range(_REFINEMENTS):
            found += self.inverse @ (wanted - self.whole @ found)
        return found[: self.size], found[self.size :]
