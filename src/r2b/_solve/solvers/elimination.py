"""A general constraint entry by entry, and the curvature of its groups' means that rows leave when they are eliminated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Level
from r2b._solve.solvers.rows import RowSide

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_FEW_ROWS = 4  # rows per cell below which cells save no work
_CHUNK = 1 << 22  # entries of the rows' factors that are held at once


@dataclass(frozen=True, eq=False)
class Component:
    """Groups that constrain each other.

    Attributes
    ----------
    groups : ndarray of int
    disjoint : bool
        They share no cell and are joined by levels to find, if at all: what rows leave is one block per group.
    """

    groups: NDArray[np.intp]
    disjoint: bool


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
    components : list of Component
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
    components: list[Component]


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
        components=_components(parity, family, [side.level for side in sides]),
    )


def _components(parity: Parity, family: NDArray[np.intp], levels: list[Level]) -> list[Component]:
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
        blocks = (rows.blocks(d, d_sum) * parity.cell_share[:, None, None]).reshape(rows.n_cells, -1)
    parts = []
    for component in components:
        design = parity.matrix[:, component.groups]
        if blocks is None:
            spread = [design[:, g : g + 1] for g in range(design.shape[1])] if component.disjoint else [design]
            folded = [_row_by_row(rows, column, d, d_sum) for column in spread]
            parts.append(np.stack([block[0, :, 0, :] for block in folded]) if component.disjoint else folded[0])
        elif component.disjoint:
            parts.append(((design**2).T @ blocks).reshape(-1, n_classes, n_classes))
        else:
            parts.append(_cell_by_cell(design, blocks, n_classes))
    return parts


def _cell_by_cell(design: Floats, blocks: Floats, n_classes: int) -> Floats:
    n_groups = design.shape[1]
    touched = np.flatnonzero(design.any(axis=1))
    mine = design[touched]
    pairs = (mine[:, :, None] * mine[:, None, :]).reshape(len(touched), -1)
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
