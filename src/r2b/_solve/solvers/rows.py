"""The rows of a problem, for an interior point: their residuals, their moves, and the curvature that is left when they are eliminated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._data.compute import in_order, parts_of
from r2b._solve.certificate import Problem
from r2b._solve.solvers.inverses import SPREAD

Result = TypeVar("Result")

_FEW = 1 << 14  # entries up to which one call for all cells is faster than one for each
_MANY_CELLS = 64  # beyond which rows are taken all together
_SMALL_CELL = 8  # rows below which a product of matrices per cell costs more in calls than in sums


@dataclass(frozen=True, eq=False)
class RowPoint:
    """Rows x with duals z and levels t."""

    x: Floats
    z: Floats
    t: Floats


@dataclass(frozen=True, eq=False)
class RowGaps:
    """Residuals of stationarity and of row sums, the largest of them, and the means of the cells."""

    stationary: Floats
    row_sum: Floats
    means: Floats
    largest: float


class RowSide:
    """The rows of a problem, ordered by cell."""

    def __init__(self, problem: Problem) -> None:
        rows, share = problem.rows_in_memory, problem.parity.cell_share
        order = np.argsort(rows.cells, kind="stable")
        self.y = rows.labels[order].astype(np.float64, copy=False)
        self.cell = rows.cells[order].astype(np.intp)
        weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
        self.weight = weight / weight.sum()
        self.within = self.weight / share[self.cell]
        self.n_cells = len(share)
        self.first = np.searchsorted(self.cell, np.arange(self.n_cells + 1))
        self.filled = np.flatnonzero(np.diff(self.first))
        # every row is a cell of its own
        self.apart = len(self.filled) == self.n_cells == len(order)
        self.lam = float(problem.lam)
        self.whole = np.ones(len(order))  # what the entries of a row add up to
        # A call for each of thousands of cells would cost more than its work. Groups are cut into
        # parts for threads: one each where their blocks are large, else all together.
        large = problem.n_classes >= SPREAD and self.n_cells <= _MANY_CELLS
        self._parts = parts_of(self.n_cells, 1 if large else self.n_cells)

    def start(self, middle: float, products: float, centre: Floats | None = None) -> RowPoint:
        """Start on the way from the labels to the middle of the simplex, or to another centre, with all products equal."""
        x = (1.0 - middle) * np.maximum(self.y, 0.0) + middle * (
            1.0 / self.y.shape[1] if centre is None else centre
        )
        # below 0 is a class that may not be had, less its price
        z = np.where(self.y < 0, -self.y, products / x)
        x = products / z
        return RowPoint(x, z, np.einsum("ik,ik->i", x, self.lam * x - self.y - z))

    def each_part(self, work: Callable[[slice, slice], Result]) -> list[Result]:
        """Call ``work(cells, rows)`` on parts of the cells with their rows, by threads where parts are large."""
        if len(self._parts) == 1:
            return [work(self._parts[0], slice(0, len(self.cell)))]
        return list(
            in_order(
                lambda part: work(part, slice(self.first[part.start], self.first[part.stop])),
                self._parts,
            )
        )

    def spans(self, cells: slice) -> list[tuple[int, int]]:
        """First and last row of each cell."""
        return [(self.first[cell], self.first[cell + 1]) for cell in range(cells.start, cells.stop)]

    def means(self, x: Floats) -> Floats:
        """Weighted means of all rows by cell."""
        return np.concatenate(
            self.each_part(lambda cells, rows: self.cell_means(x[rows], cells, rows))
        )

    def cell_means(self, x: Floats, cells: slice, rows: slice) -> Floats:
        """Weighted means of some rows by cell."""
        n_cells = cells.stop - cells.start
        if self.apart:
            return np.asarray(self.within[rows, None] * x)
        if len(x) < _SMALL_CELL * n_cells or x.size <= _FEW:
            means = np.zeros((n_cells, x.shape[1]))
            first = self.first[cells.start : cells.stop + 1] - rows.start
            filled = np.flatnonzero(np.diff(first))
            if len(filled):
                means[filled] = np.add.reduceat(self.within[rows, None] * x, first[filled], axis=0)
            return means
        return np.stack(
            [self.within[i:j] @ x[i - rows.start : j - rows.start] for i, j in self.spans(cells)]
        )

    def blocks(self, d: Floats, d_sum: Floats) -> Floats:
        """Give ``D - D 1 1' D / 1' D 1`` averaged over the rows of each cell, D the diagonal of a row of ``d``."""
        n_classes = d.shape[1]
        blocks = np.zeros((self.n_cells, n_classes, n_classes))
        if d.size * n_classes <= _FEW:
            each = (d * (self.within / -d_sum)[:, None])[:, :, None] * d[:, None, :]
            np.einsum("ikk->ik", each)[:] += self.within[:, None] * d
            blocks[self.filled] = np.add.reduceat(each, self.first[self.filled], axis=0)
            return blocks

        def work(cells: slice, rows: slice) -> None:
            for cell, (i, j) in zip(range(cells.start, cells.stop), self.spans(cells), strict=True):
                own, within = d[i:j], self.within[i:j]
                scaled = own * (within / d_sum[i:j])[:, None]
                np.matmul(scaled.T, own, out=blocks[cell])
                np.negative(blocks[cell], out=blocks[cell])
                np.einsum("kk->k", blocks[cell])[:] += within @ own

        self.each_part(work)
        return blocks

    def gaps(self, at: RowPoint, shifts: Floats) -> RowGaps:
        """Residuals of the rows' equations where cells are shifted so."""
        stationary, row_sum = np.empty_like(at.x), np.empty(len(at.x))

        def work(cells: slice, rows: slice) -> tuple[Floats, float]:
            x, out = at.x[rows], stationary[rows]
            np.multiply(x, self.lam, out=out)
            out -= self.y[rows]
            out -= at.z[rows]
            out += (
                shifts[self.cell[rows]] if cells.stop - cells.start > 1 else shifts[cells.start]
            ) - at.t[rows, None]
            row_sum[rows] = x.sum(axis=1) - self.whole[rows]
            return self.cell_means(x, cells, rows), max(
                float(out.max(initial=0.0)), -float(out.min(initial=0.0))
            )

        means, worst = zip(*self.each_part(work), strict=True)
        return RowGaps(
            stationary, row_sum, np.concatenate(means), max(*worst, float(np.abs(row_sum).max()))
        )

    def complementarity(self, at: RowPoint) -> float:
        """Add up the products x z by weight."""
        return sum(
            self.each_part(
                lambda _, part: float(
                    np.einsum("i,ik,ik->", self.weight[part], at.x[part], at.z[part])
                )
            )
        )

    def moved(self, here: RowPoint, d: RowPoint, length: float) -> RowPoint:
        """Go so far along a direction."""
        x, z = np.empty_like(here.x), np.empty_like(here.z)

        def work(_: slice, rows: slice) -> None:
            for value, change, out in ((here.x, d.x, x), (here.z, d.z, z)):
                np.multiply(change[rows], length, out=out[rows])
                out[rows] += value[rows]

        self.each_part(work)
        return RowPoint(x, z, here.t + length * d.t)

    def reach(self, here: RowPoint, d: RowPoint) -> float:
        """Largest step along a direction that keeps x and z at or above zero."""
        return min(
            self.each_part(
                lambda _, rows: min(
                    longest(here.x[rows], d.x[rows]), longest(here.z[rows], d.z[rows])
                )
            )
        )

    def system(self, here: RowPoint, gaps: RowGaps) -> RowSystem:
        """Linearise."""
        return RowSystem(self, here, gaps)

    def support(self, at: RowPoint, lean: float = 1.0) -> Flags:
        """Tell which entries the products call positive; ``lean`` above 1 counts entries in doubt as such, below 1 as zero."""
        return np.asarray(at.x * lean > at.z / max(1.0, self.lam))

    def on_support(
        self, at: RowPoint, shifts: Floats, lean: float
    ) -> tuple[Floats, Floats, Floats]:
        """Give the cell means of the best responses if each row has the support that its products tell, and the d and d_sum of blocks."""
        support = self.support(at, lean).astype(np.float64)
        size = np.maximum(support.sum(axis=1), 1.0)
        shifted = self.y - shifts[self.cell]
        level = (np.einsum("ik,ik->i", support, shifted) - self.lam * self.whole) / size
        means = self.means(support * (shifted - level[:, None]) / self.lam)
        return means, support / self.lam, size / self.lam


def longest(value: Floats, change: Floats) -> float:
    """Largest step along ``change`` that keeps ``value`` at or above zero."""
    steepest = float((change / value).min(initial=0.0))
    return -1.0 / steepest if steepest < 0 else np.inf


class RowSystem:
    """The rows' part of the Newton system: a change of the shift by s moves a row by ``-d (s - (d s) / d_sum)``, d = 1 / (lam + z / x)."""

    def __init__(self, side: RowSide, here: RowPoint, gaps: RowGaps) -> None:
        self.side, self.here, self.gaps = side, here, gaps
        self.ratio, self.d, self.d_sum = (
            np.empty_like(here.x),
            np.empty_like(here.x),
            np.empty(len(here.x)),
        )

        def work(_: slice, rows: slice) -> None:
            ratio = np.divide(here.z[rows], here.x[rows], out=self.ratio[rows])
            d = np.add(ratio, side.lam, out=self.d[rows])
            np.reciprocal(d, out=d)
            self.d_sum[rows] = d.sum(axis=1)

        side.each_part(work)

    def aim(self, target: float, second_order: RowPoint | None) -> Floats:
        """Give the changes that bring every product x z to ``target``, with Mehrotra's correction where a predictor is given."""
        here = self.here
        wanted = np.empty_like(here.x)

        def work(_: slice, part: slice) -> None:
            np.multiply(here.x[part], here.z[part], out=wanted[part])
            if second_order is not None:
                wanted[part] += second_order.x[part] * second_order.z[part]
            np.subtract(target, wanted[part], out=wanted[part])

        self.side.each_part(work)
        return wanted

    def own(self, aim: Floats, repair: float) -> tuple[RowPoint, Floats]:
        """Move the rows at unchanged shifts, z still the wanted change of x z over x; give the move and its cell means."""
        here = self.here
        move = RowPoint(np.empty_like(here.x), np.empty_like(here.z), np.empty_like(here.t))

        def work(cells: slice, rows: slice) -> Floats:
            d = self.d[rows]
            wish = np.divide(aim[rows], here.x[rows], out=move.z[rows])
            x = np.multiply(self.gaps.stationary[rows], -repair, out=move.x[rows])
            x += wish
            move.t[rows] = (
                -(repair * self.gaps.row_sum[rows] + np.einsum("ik,ik->i", d, x)) / self.d_sum[rows]
            )
            x += move.t[rows, None]
            x *= d
            return self.side.cell_means(x, cells, rows)

        return move, np.concatenate(self.side.each_part(work))

    def respond(self, move: RowPoint, shifts: Floats) -> Floats:
        """Complete a move, in place, for a change of the shifts; give its cell means."""

        def work(cells: slice, rows: slice) -> Floats:
            d, x = self.d[rows], move.x[rows]
            one = cells.stop - cells.start == 1
            mine = shifts[cells.start] if one else shifts[self.side.cell[rows]]
            shift = (d @ mine if one else np.einsum("ik,ik->i", d, mine)) / self.d_sum[rows]
            move.t[rows] += shift
            x -= d * (mine - shift[:, None])
            move.z[rows] -= self.ratio[rows] * x
            return self.side.cell_means(x, cells, rows)

        return np.concatenate(self.side.each_part(work))
