"""A parity constraint entry by entry, which groups constrain each other, and the curvature that rows leave for each set of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Level
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.oracle.folding import Folded
from r2b._solve.oracle.reference import folded_cells
from r2b._solve.solvers.factors import RowCurvature, row_work
from r2b._solve.solvers.gradients import most_products, worthwhile
from r2b._solve.solvers.rows import RowSide

_FEW_ROWS = 4  # rows per cell below which cells save no work


@dataclass(frozen=True, eq=False)
class Component:
    """Groups that constrain each other.

    Attributes
    ----------
    groups : ndarray of int
    disjoint : bool
        They share no cell and are joined by levels or means, if at all: what rows leave is one
        block per group.
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
        Where there is a level to find; where instead it is the mean of the family, and means and
        prices count by what they are apart from theirs. Where the mean's band is closed all means
        are equal, and any level will do.
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
        np.where(infinite, 0.0, np.stack([getattr(side, name) for side in sides]))
        for name in ("low", "high", "low_slope", "high_slope")
    )
    # A ratio of 0 asks nothing of means that are never negative.
    bound = ~(infinite | ((high_slope > 0) & (low_slope == 0)))
    equal = bound & (high == low) & (high_slope == low_slope)
    level = np.array([side.level for side in sides])[:, None]
    averaged = bound & ~equal & (level == "mean")
    first, share = (
        np.array([member.groups.start for member in parity.members], dtype=np.intp),
        parity.share[:, None],
    )
    leveled, components = (
        bound & (level != "none") & ~averaged,
        _components(parity, family, [side.level for side in sides]),
    )
    total = np.add.reduceat(share, first)
    by_entry: list[Any] = [
        each[family] for each in (low, high, low_slope, high_slope, bound, equal, bound & ~equal)
    ]
    if parity.shift is not None:
        # A shifted mean is within its sides where the mean is within theirs less the shift; around
        # a mean that is shifted as well.
        mean = np.where(level == "mean", np.add.reduceat(share * parity.shift, first) / total, 0.0)
        by_entry[:2] = [each - (parity.shift - mean[family]) for each in by_entry[:2]]
    return SystemLayout(*by_entry, *[family, leveled, averaged, first, share, total, components])


def _components(parity: Parity, family: Places, levels: list[Level]) -> list[Component]:
    """Unlike those of the constraint, these part groups that share a family but neither a cell nor a level."""
    if parity.design is None and len(levels) == 1 and levels[0] != "none":
        return [Component(np.arange(parity.n_groups), disjoint=True)]
    shared = parity.touching
    moving = np.array([level != "none" for level in levels])[family]
    joined = shared | ((family[:, None] == family) & moving) | np.eye(parity.n_groups, dtype=bool)
    label = np.arange(parity.n_groups)
    while (
        nearest := np.where(joined, label, parity.n_groups).min(axis=1)
    ).tolist() != label.tolist():
        label = nearest
    parts = [np.flatnonzero(label == each) for each in np.unique(label)]
    return [
        Component(part, bool((shared[np.ix_(part, part)].sum(axis=1) <= 1).all())) for part in parts
    ]


def fold(
    rows: RowSide, parity: Parity, components: list[Component], d: Floats, d_sum: Floats
) -> list[Floats]:
    """Give ``sum_i w_i b_ig b_ih (D - D 1 1' D / 1' D 1)`` for each component, b_i the row of the design for the cell of row i.

    Returns
    -------
    list of ndarray of shape (n, n_classes, n, n_classes); of disjoint components (n, n_classes,
    n_classes), for g = h alone
    """
    n_classes = d.shape[1]
    blocks: Floats | None = None
    if len(d) >= _FEW_ROWS * rows.n_cells:
        blocks = rows.blocks(d, d_sum) * parity.cell_share[:, None, None]
    parts = []
    for component in components:
        design = parity.matrix[:, component.groups]
        if blocks is None:
            spread = (
                [design[:, g : g + 1] for g in range(design.shape[1])]
                if component.disjoint
                else [design]
            )
            folded = [_row_by_row(rows, column, d, d_sum) for column in spread]
            parts.append(
                np.stack([block[0, :, 0, :] for block in folded])
                if component.disjoint
                else folded[0]
            )
        elif component.disjoint:
            parts.append(
                ((design**2).T @ blocks.reshape(rows.n_cells, -1)).reshape(-1, n_classes, n_classes)
            )
        else:
            parts.append(folded_cells(design, blocks))
    return parts


def _row_by_row(rows: RowSide, design: Floats, d: Floats, d_sum: Floats) -> Floats:
    folded = Folded(design.shape[1], d.shape[1])
    touched = np.flatnonzero(np.asarray(design.any(axis=1))[rows.cell])
    folded.add(design[rows.cell[touched]], d[touched], rows.weight[touched], d_sum[touched])
    return folded.table()


def _folded(
    rows: RowSide, parity: Parity, component: Component, d: Floats, d_sum: Floats
) -> Floats:
    return fold(rows, parity, [component], d, d_sum)[0]


Curved = Floats | RowCurvature


def curvature_of(
    rows: RowSide, parity: Parity, components: list[Component], d: Floats, d_sum: Floats
) -> list[Curved]:
    """Give the curvature of each component: as :func:`fold` does, or unfolded where that is cheaper."""
    found: list[Curved] = []
    for component in components:
        own = None if component.disjoint else unfolded(rows, parity, component, d, d_sum)
        found += [own] if own is not None else fold(rows, parity, [component], d, d_sum)
    return found


def unfolded(
    rows: RowSide, parity: Parity, component: Component, d: Floats, d_sum: Floats
) -> RowCurvature | None:
    """Give the curvature of a component by its rows; None where a table of all pairs of its prices costs less."""
    groups = component.groups
    touched = np.flatnonzero(np.asarray(parity.matrix[:, groups].any(axis=1))[rows.cell])
    cells, cell = np.unique(rows.cell[touched], return_inverse=True)
    size = len(touched), len(groups) * d.shape[1]
    by_row, by_price = (
        row_work(d[touched], d_sum[touched], len(cells), len(groups)),
        _table_work(*size),
    )
    products = most_products(*size, min(by_row, by_price)) if worthwhile(*size) else 0
    if by_row >= by_price and not products:
        return None
    whole = replace(component, disjoint=False)
    design, table = (
        parity.matrix[np.ix_(cells, groups)],
        partial(_folded, rows, parity, whole, d, d_sum),
    )
    return RowCurvature(
        design,
        cell.ravel(),
        d[touched],
        d_sum[touched],
        rows.weight[touched],
        by_row < by_price,
        products,
        table,
    )


def _table_work(n_rows: int, n_prices: int) -> float:
    """Give the operations that a system of the prices takes: adding it up, then a third of a cube."""
    return n_prices**2 * (min(n_rows, n_prices) + n_prices / 3)


def times(curvature: Curved, prices: Floats) -> Floats:
    """Multiply prices of a component's groups by their curvature."""
    if isinstance(curvature, RowCurvature):
        return curvature.times(prices)
    return np.asarray(
        np.einsum("gkl,gl->gk" if curvature.ndim == 3 else "gkhl,hl->gk", curvature, prices)
    )
