"""Fewer rows for a small lambda: rows whose best class leads by more than prices will move are put together.

At prices theta a row gives all to its best class where that leads by lambda or more. Rows that lead
by a wide margin do so at all prices nearby: those of a cell and a class count as one row there,
exactly. What is left are the rows that are nearly tied, a share of about lambda.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Flags, Floats, Places
from r2b._data.compute import in_order, parts_of
from r2b._data.merge import Rows
from r2b._solve.oracle.design import DesignOracle
from r2b._solve.oracle.memory import MemoryOracle, label_blocks

_LANES = 16
_BLOCK_ENTRIES = 1 << 16  # of rows that are looked at together
# by which the best class of rows that are put together leads at least; interior points fail where
# it is much larger
_LEAD = 0.05


@dataclass(frozen=True, eq=False)
class Screened:
    """Fewer rows that answer the same near some prices.

    Attributes
    ----------
    oracle : MemoryOracle or DesignOracle
    parity : Parity
        The same constraint, over the cells of these rows.
    centre : ndarray of shape (n_groups, n_classes)
    margin : float
        By how much the rows that are put together lead at these prices, at least.
    open_share : float
        Weight of the other rows, as a share of the total.
    leading : ndarray of shape (n_rows of the oracle that was screened,)
        The class of the rows that were put together, -1 for the others.
    """

    oracle: MemoryOracle | DesignOracle
    parity: Parity
    centre: Floats
    margin: float
    open_share: float
    leading: Places

    def serves(self, prices: Floats, lam: float) -> bool:
        """Whether the rows that were put together surely still give all to one class."""
        apart = prices - self.centre
        # Only differences between classes count: a constant per group moves no row.
        return (
            2.0
            * self.parity.largest_shift(
                apart - 0.5 * (apart.max(axis=1) + apart.min(axis=1))[:, None]
            )
            <= self.margin - lam
        )


def screened(
    oracle: MemoryOracle | DesignOracle,
    parity: Parity,
    prices: Floats,
    margin: float,
    last: Screened | None = None,
) -> Screened:
    """Put together the rows whose best class leads by more than the margin at these prices; with ``last``, of those that it did."""
    rows = oracle.rows
    best, leads = leaders(
        oracle, parity.shifts(prices) if isinstance(oracle, MemoryOracle) else prices, margin
    )
    if last is not None:
        leads &= best == last.leading
    settled = np.flatnonzero(leads)
    leading = np.where(leads, best, -1)
    weight = np.ones(len(leads)) if rows.weight is None else rows.weight
    matrix = rows.labels if rows.matrix is None else rows.matrix
    share = 1.0 - float(weight[settled].sum() / weight.sum())
    open_, own = np.flatnonzero(~leads), best[settled]
    value = weight[settled] * matrix[settled, own]
    lead = max(_LEAD, 2.0 * margin)
    if isinstance(oracle, MemoryOracle):
        code = rows.cells[settled].astype(np.int64) * rows.n_classes + own
        places, mass, worth = _by_code(code, weight[settled], value)
        cells, classes = np.divmod(places, rows.n_classes)
        groups = np.concatenate([rows.cells[open_], cells.astype(rows.cells.dtype)])
        labels = _leading(parity.shifts(prices)[cells], classes, worth, lead)
        few = Rows(
            np.concatenate([matrix[open_], labels]),
            groups,
            np.append(weight[open_], mass),
            rows.n_cells,
            None,
        )
        return Screened(
            MemoryOracle(few, oracle.kernel_choice, oracle.threads),
            parity,
            prices,
            margin,
            share,
            leading,
        )
    classes, mass, worth = _by_code(own.astype(np.int64), weight[settled], value)
    counted = oracle.design[settled] * weight[settled, None]
    # Rows of a class count in groups by what they count in all: their shifts, too, add up.
    design = (
        np.stack(
            [np.bincount(own, column, rows.n_classes)[classes] for column in counted.T], axis=1
        )
        / mass[:, None]
    )
    labels = _leading(design @ prices, classes, worth, lead)
    total = np.append(weight[open_], mass)
    few = Rows(
        np.concatenate([matrix[open_], labels]),
        np.arange(len(total), dtype=np.uint32),
        total,
        len(total),
        None,
    )
    design = np.concatenate([oracle.design[open_], design])
    smaller = Parity(parity.members, parity.names, parity.share, total / total.sum(), design)
    walking = DesignOracle(few, design, parity.share, oracle.kernel_choice, oracle.threads)
    return Screened(walking, smaller, prices, margin, share, leading)


def _by_code(code: Array, weight: Floats, value: Floats) -> tuple[Places, Floats, Floats]:
    """Give the codes that occur, their weight and the mean value of each."""
    mass = np.bincount(code, weight).astype(np.float64)
    places = np.flatnonzero(mass)
    return (
        places,
        mass[places],
        np.asarray(np.bincount(code, value)[places] / mass[places], np.float64),
    )


def _leading(shifts: Floats, classes: Places, worth: Floats, lead: float) -> Floats:
    """Give rows that have this worth in their own class, which leads by so much at these shifts."""
    at = np.arange(len(classes))
    labels = shifts + (worth - shifts[at, classes] - lead)[:, None]
    labels[at, classes] = worth
    return np.asarray(labels)


def leaders(
    oracle: MemoryOracle | DesignOracle, prices: Floats, margin: float
) -> tuple[Places, Flags]:
    """Give the best class of each row, and whether it leads by more than the margin; prices are of cells or, with a design, groups."""
    rows = oracle.rows
    n_rows = len(rows.cells)
    best, leads = np.empty(n_rows, dtype=np.intp), np.empty(n_rows, dtype=bool)
    size = max(1, _BLOCK_ENTRIES // rows.n_classes)

    def look(lane: slice) -> None:
        for part, labels in label_blocks(rows, lane, size):
            shifts = (
                oracle.design[part] @ prices
                if isinstance(oracle, DesignOracle)
                else prices[rows.cells[part]]
            )
            np.subtract(labels, shifts, out=shifts)
            mine = best[part]
            np.argmax(shifts, axis=1, out=mine)
            top = np.take_along_axis(shifts, mine[:, None], axis=1)
            leads[part] = np.count_nonzero(shifts >= top - margin, axis=1) == 1

    for _ in in_order(look, parts_of(n_rows, max(size, -(-n_rows // _LANES))), oracle.threads):
        pass
    return best, leads
