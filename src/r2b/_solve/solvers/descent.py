"""Agreement over rows that nearly tie, by prices alone: from corner to corner of the dual, from where the path has come.

What rows are worth at prices, ``sum_i w_i max_k (y_ik - b_i nu_k)``, and the support function of
the bounds are piecewise linear in the prices, and where their sum is least are the prices of the
linear programme. A corner is told by as many equations as there are prices: classes of a row that
are level, prices of 0, balances, and to begin with prices as the path left them. One of them at a
time is let go, the one that leads down most steeply, past all rows that change their class on the
way, until the way leads up. What holds a corner in place are the shares of its rows. HiGHS begins
anew with every programme; this begins next to the end, and takes about as many steps as prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.oracle.screening import Screened
from r2b._solve.solvers.agreement import Agreement
from r2b._solve.solvers.bands import Bands
from r2b._solve.solvers.driver import Status

# for each price, and besides, before it is given up; one or two for each are the rule
_STEPS, _MORE_STEPS = 10, 200
_SHARE = 1e-8  # by which rounding may take a share out of its range


def nearest_corner(few: Screened, prices: Floats, near: Flags, bands: Bands) -> Agreement:
    """Solve the linear programme over these entries, from prices nearby.

    It is ``INFEASIBLE`` where the rows with these entries cannot meet the bounds, and ``STALLED``
    where that is left open.
    """
    from r2b._solve.oracle import descent

    started = _Start.of(few, few.parity.settle(prices), near, bands, descent)
    ended, steps = descent.descend(
        started.rows,
        started.at,
        started.basis,
        started.row,
        _STEPS * len(bands.entries) + _MORE_STEPS,
    )
    if ended == descent.SOLVED:
        with np.errstate(all="ignore"):
            found = started.told((prices.shape[0], prices.shape[1]), bands, descent)
        if found is not None:
            return Agreement(found[0], few.parity.settle(found[1]), steps, Status.SOLVED)
    return Agreement(
        None, prices, steps, Status.INFEASIBLE if ended == descent.UNBOUNDED else Status.STALLED
    )


@dataclass(frozen=True, eq=False)
class _Start:
    """The rows that have a choice and the equations of a corner, as the loops take and change them.

    Attributes
    ----------
    rows, at, basis : tuple
        See :mod:`r2b._solve.oracle.descent`.
    row, value : ndarray
        The row of each entry, and what it is worth without prices.
    chosen : ndarray of int
        The rows that have a choice, among those that are left.
    labels : ndarray of shape (n_rows, n_classes)
        Of the others.
    """

    rows: tuple[Any, ...]
    at: tuple[Any, ...]
    basis: tuple[Any, ...]
    row: Places
    value: Floats
    chosen: Places
    labels: Floats

    @classmethod
    def of(cls, few: Screened, prices: Floats, near: Flags, bands: Bands, loops: Any) -> _Start:
        """Begin where each row has its best class, and each price is as it is."""
        table, share = few.oracle.rows, bands.root**2
        weight = np.ones(len(near)) if table.weight is None else table.weight
        weight = weight / weight.sum()
        design = few.parity.matrix[table.cells]
        chosen = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
        row, column = np.nonzero(near[chosen])
        start = np.append(np.flatnonzero(np.diff(row, prepend=-1)), len(row))
        worth = table.labels[chosen] - design[chosen] @ prices
        labels = near.astype(np.float64)
        labels[chosen] = 0.0
        best = np.argmax(np.where(near[chosen], worth, -np.inf), axis=1)
        labels[chosen, best] = 1.0
        own = np.flatnonzero(best[row] == column)
        place = np.full(prices.size, -1)
        place[bands.entries] = np.arange(len(bands.entries))
        given = prices.ravel()[bands.entries]
        kind, edges = _first_equations(given, bands, loops)
        # A price of 0 that a balance holds there is on either side.
        sign = np.where(bands.closed | (kind == loops.ZERO), 0.0, np.where(given > 0, 1.0, -1.0))
        rise = np.where(bands.closed, 0.0, share * (bands.high - bands.low))
        paid = ((design * weight[:, None]).T @ labels).ravel()[bands.entries]
        gradient = share * bands.low + np.where(sign > 0, rise, 0.0) - paid
        labels[chosen] = 0.0
        return cls(
            (start, column, design[chosen], weight[chosen], place.reshape(prices.shape)),
            (
                worth[row, column],
                own,
                np.zeros(len(row), dtype=bool),
                np.zeros(len(chosen), dtype=np.int64),
                given,
                sign,
            ),
            (edges, kind, np.arange(len(given)), gradient, rise),
            row,
            np.asarray(table.labels[chosen], np.float64)[row, column],
            chosen,
            labels,
        )

    def told(
        self, shape: tuple[int, int], bands: Bands, loops: Any
    ) -> tuple[Floats, Floats] | None:
        """Give labels and prices of the corner where that ended, each from its equations alone; None where these tell none."""
        _, column, design, weight, _ = self.rows
        own, (_, kind, what, gradient, _) = self.at[1], self.basis
        equations, right = np.zeros((len(kind), len(kind))), np.zeros(len(kind))
        equations[kind == loops.FIXED] = bands.balances * bands.root
        single = np.flatnonzero((kind == loops.ZERO) | (kind == loops.STARTED))
        equations[single, what[single]] = 1.0
        right[single] = np.where(kind[single] == loops.STARTED, self.at[4][what[single]], 0.0)
        tied = np.flatnonzero(kind == loops.TIED)
        entry, row = what[tied], self.row[what[tied]]
        apart, each = np.zeros((len(tied), *shape)), np.arange(len(tied))
        apart[each, :, column[own[row]]] = design[row]
        apart[each, :, column[entry]] -= design[row]
        equations[tied] = apart.reshape(len(tied), shape[0] * shape[1])[:, bands.entries]
        right[tied] = self.value[own[row]] - self.value[entry]
        try:
            found, slopes = (
                np.linalg.solve(equations, right),
                np.linalg.solve(equations.T, gradient),
            )
        except np.linalg.LinAlgError:
            return None
        shares = -slopes[tied] / weight[row]
        labels, prices = self.labels, np.zeros(shape)
        labels[self.chosen, column[own]] = 1.0
        labels[self.chosen[row], column[entry]] = shares
        np.subtract.at(labels, (self.chosen[row], column[own[row]]), shares)
        prices.ravel()[bands.entries] = found
        if not (labels.min() >= -_SHARE and np.isfinite(found).all()):
            return None
        labels = np.maximum(labels, 0.0)
        return labels / labels.sum(axis=1, keepdims=True), prices


def _first_equations(given: Floats, bands: Bands, loops: Any) -> tuple[Places, Floats]:
    """Give the kind of the first equations, and their edges: prices as they are, but for one of each balance."""
    kind = np.where(bands.closed | (given != 0), loops.STARTED, loops.ZERO)
    edges = np.eye(len(given))
    for balance in bands.balances * bands.root:
        mine = np.flatnonzero(balance)
        first = mine[np.argmax((1.0 + (kind[mine] == loops.STARTED)) * balance[mine])]
        kind[first] = loops.FIXED
        edges[mine, first] -= balance[mine] / balance[first]
        edges[first, first] = 1.0 / balance[first]
    return kind, edges
