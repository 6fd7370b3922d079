"""The loop of a primal-dual interior point, whatever the constraint: predictor, corrector, step lengths, when to stop.

Its prices start a polish by Newton; it is never the last word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from r2b._data.arrays import Floats
from r2b._data.compute import in_order
from r2b._solve.certificate import Problem
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.newton import groups_in_parts

Result = TypeVar("Result")

_FEW = 1 << 14  # entries up to which one call for all cells is faster than one for each
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
        order = np.argsort(rows.groups, kind="stable")
        self.y = rows.labels[order].astype(np.float64, copy=False)
        self.cell = rows.groups[order].astype(np.intp)
        weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
        self.weight = weight / weight.sum()
        self.within = self.weight / share[self.cell]
        self.n_cells = len(share)
        self.first = np.searchsorted(self.cell, np.arange(self.n_cells + 1))
        self.filled = np.flatnonzero(np.diff(self.first))
        self.lam = float(problem.lam)
        self._parts = groups_in_parts(self.n_cells, problem.n_classes)

    def start(self, middle: float, products: float) -> RowPoint:
        """Start on the way from the labels to the middle of the simplex, with all products equal."""
        n_classes = self.y.shape[1]
        x = (1.0 - middle) * self.y + middle / n_classes
        z = products / x
        return RowPoint(x, z, np.einsum("ik,ik->i", x, self.lam * x - self.y - z))

    def each_part(self, work: Callable[[slice, slice], Result]) -> list[Result]:
        """Call ``work(cells, rows)`` on parts of the cells with their rows, by threads where parts are large."""
        if len(self._parts) == 1:
            return [work(self._parts[0], slice(0, len(self.cell)))]
        return list(in_order(lambda part: work(part, slice(self.first[part.start], self.first[part.stop])), self._parts))

    def spans(self, cells: slice) -> list[tuple[int, int]]:
        """First and last row of each cell."""
        return [(self.first[cell], self.first[cell + 1]) for cell in range(cells.start, cells.stop)]

    def means(self, x: Floats) -> Floats:
        """Weighted means of all rows by cell."""
        return np.concatenate(self.each_part(lambda cells, rows: self.cell_means(x[rows], cells, rows)))

    def cell_means(self, x: Floats, cells: slice, rows: slice) -> Floats:
        """Weighted means of some rows by cell."""
        n_cells = cells.stop - cells.start
        if len(x) < _SMALL_CELL * n_cells or x.size <= _FEW:
            means = np.zeros((n_cells, x.shape[1]))
            first = self.first[cells.start : cells.stop + 1] - rows.start
            filled = np.flatnonzero(np.diff(first))
            if len(filled):
                means[filled] = np.add.reduceat(self.within[rows, None] * x, first[filled], axis=0)
            return means
        return np.stack([self.within[i:j] @ x[i - rows.start : j - rows.start] for i, j in self.spans(cells)])

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
            out += (shifts[self.cell[rows]] if cells.stop - cells.start > 1 else shifts[cells.start]) - at.t[rows, None]
            row_sum[rows] = x.sum(axis=1) - 1.0
            return self.cell_means(x, cells, rows), max(float(out.max(initial=0.0)), -float(out.min(initial=0.0)))

        means, worst = zip(*self.each_part(work), strict=True)
        return RowGaps(stationary, row_sum, np.concatenate(means), max(*worst, float(np.abs(row_sum).max())))

    def complementarity(self, at: RowPoint) -> float:
        """Add up the products x z by weight."""
        return sum(self.each_part(lambda _, part: float(np.einsum("i,ik,ik->", self.weight[part], at.x[part], at.z[part]))))

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
        return min(self.each_part(lambda _, rows: min(longest(here.x[rows], d.x[rows]), longest(here.z[rows], d.z[rows]))))

    def on_support(self, at: RowPoint, shifts: Floats, lean: float) -> tuple[Floats, Floats, Floats]:
        """Give the cell means of the best responses if each row has the support that its products tell, and the d and d_sum of blocks.

        ``lean`` above 1 counts entries in doubt as positive, below 1 as zero.
        """
        support = (at.x * lean > at.z / max(1.0, self.lam)).astype(np.float64)
        size = np.maximum(support.sum(axis=1), 1.0)
        shifted = self.y - shifts[self.cell]
        level = (np.einsum("ik,ik->i", support, shifted) - self.lam) / size
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
        self.ratio, self.d, self.d_sum = np.empty_like(here.x), np.empty_like(here.x), np.empty(len(here.x))

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
            move.t[rows] = -(repair * self.gaps.row_sum[rows] + np.einsum("ik,ik->i", d, x)) / self.d_sum[rows]
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


# Complementarity at which to stop: far below the rounding of the objective, so that the products tell on which side of every bound the
# answer lies even where weights differ by six orders of magnitude. The price of an entry inside its band is about this over epsilon, and
# must be small beside epsilon too.
_CENTRAL = 1e-17
_BESIDE_BAND = 1e-6
_ROUNDING = 1e-12  # complementarity below which a step may be lost to rounding
_RUNAWAY = 1e6  # prices, in units of lam or 1, that no feasible problem needs
_FEASIBLE = 1e-9  # infeasibility that is still rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class CentralPoint:
    """A primal-dual point: rows; prices; slacks a (lower) with duals q; the duals p of upper slacks; levels c."""

    rows: RowPoint
    prices: Floats
    a: Floats
    p: Floats
    q: Floats
    c: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Gaps:
    """Residuals of the rows, of slacks and of the balance of prices, and the largest of them all."""

    rows: RowGaps
    balance: Floats
    largest: float


P = TypeVar("P", bound=CentralPoint)
G = TypeVar("G", bound=Gaps)


class Aim(NamedTuple):
    """Wanted changes of the products x z (rows), p b (upper) and q a (lower)."""

    rows: Floats
    upper: Floats
    lower: Floats


class System(ABC, Generic[P]):
    """The Newton system of the central path at one point, factorised."""

    here: P
    rows: RowSystem
    b: Floats  # the upper slacks

    @abstractmethod
    def upper_change(self, d: P) -> Floats:
        """Give the change of the upper slacks along a direction."""

    def aim(self, target: float, second_order: P | None = None) -> Aim:
        """Give the changes that bring every product to ``target``, with Mehrotra's correction where a predictor is given."""
        here, d = self.here, second_order
        upper, lower = target - here.p * self.b, target - here.q * here.a
        if d is not None:
            upper, lower = upper - d.p * self.upper_change(d), lower - d.q * d.a
        return Aim(self.rows.aim(target, None if d is None else d.rows), upper, lower)

    @abstractmethod
    def direction(self, aim: Aim, *, repair: float) -> P:
        """Direction that makes these changes to first order and removes this part of the infeasibility."""


@dataclass(frozen=True, eq=False)
class InteriorState(State, Generic[P, G]):
    """Where the iteration stands; the residual is the largest of complementarity and infeasibility."""

    point: P
    off: G
    complementarity: float


class CentralPath(ABC, Generic[P, G]):
    """Predictor-corrector method for one problem whose merged rows fit in memory a few times over.

    Parameters
    ----------
    problem : Problem
    middle : float
        Where to start: 0 is at the labels, 1 in the middle of the simplex, where all group means agree. At 0.7 it takes a quarter fewer
        steps than at 1; the few problems that fail from one start are solved from another.
    products : float
        Complementarity products at the start, in units of lam / n_classes.
    narrowest : float
        The smallest width of a band.
    """

    name = "interior"
    regularisation = 1e-9  # for the curvature of an equality; smaller, digits are lost, larger, means no longer meet
    shy = 0.995  # of the way to the border: nearer, one product would vanish beside the others and block the next step
    face_damping, releases = 1e-9, 3

    def __init__(self, problem: Problem, middle: float, products: float, narrowest: float) -> None:
        self.rows = RowSide(problem)
        self.middle = middle
        self.mu = products * max(1.0, float(problem.lam)) / problem.n_classes
        self.central = min(_CENTRAL, _BESIDE_BAND * narrowest**2)

    @abstractmethod
    def start(self, prices: Floats) -> InteriorState[P, G]:
        """Start in the middle of every band, with all products equal. Prices of earlier attempts are of no use here."""

    @abstractmethod
    def at_face(self, state: InteriorState[P, G], lean: float = 1.0) -> Iterator[Floats]:
        """Guess prices that are exact on the face where the iteration ended: supports of rows and sides of bands as the products tell them.

        The iterates come to within rounding of that face but not onto it, and where groups differ by orders of magnitude in weight
        Newton cannot tell its sides from the prices alone. ``lean`` above 1 counts entries in doubt as positive, below 1 as zero.
        """

    @abstractmethod
    def infeasibility(self, at: P) -> G:
        """Residuals of the equations that a solution satisfies exactly."""

    @abstractmethod
    def complementarity(self, at: P) -> float:
        """Mean of all products."""

    def moved(self, here: P, d: P, length: float) -> P:
        """Go so far along a direction."""
        small = {name: getattr(here, name) + length * getattr(d, name) for name in here.__dataclass_fields__ if name != "rows"}
        return replace(here, rows=self.rows.moved(here.rows, d.rows, length), **small)

    @abstractmethod
    def reach(self, here: P, d: P) -> float:
        """Largest step along a direction that keeps everything positive, at most a little over 1."""

    @abstractmethod
    def system(self, here: P, off: G) -> System[P]:
        """Linearise and factorise."""

    def step(self, state: InteriorState[P, G]) -> InteriorState[P, G]:
        """One predictor and one corrector solve with the same factorisation."""
        mu = state.complementarity
        with np.errstate(all="ignore"):  # a step beyond double precision is caught by the checks below
            try:
                new = self._state(self._advance(state.point, state.off, mu))
            except np.linalg.LinAlgError:
                return replace(state, stalled=True)
        # Rounding makes the residuals of tiny steps bounce; as long as complementarity falls and they stay small, prices still improve.
        lost = new.residual > max(state.residual, _FEASIBLE) or new.complementarity >= mu
        # Where no labels meet the bounds prices grow without end.
        runaway = float(np.abs(new.prices).max()) > _RUNAWAY * max(1.0, self.rows.lam)
        return replace(state, stalled=True) if not np.isfinite(new.residual) or runaway or (mu < _ROUNDING and lost) else new

    def _advance(self, here: P, off: G, mu: float) -> P:
        system = self.system(here, off)
        d = system.direction(system.aim(0.0), repair=1.0)
        ahead = self.moved(here, d, self.reach(here, d))
        centring = (max(self.complementarity(ahead), 0.0) / mu) ** 3
        # Tried and left out: Gondzio's further corrections (they save one iteration in twenty-five and cost more than that), pure centring
        # after a short step, and shortening steps to keep lagging products (both make more problems fail than they save).
        d = system.direction(system.aim(centring * mu, second_order=d), repair=1.0 - min(centring, 1.0))
        return self.moved(here, d, min(1.0, self.shy * self.reach(here, d)))

    def _state(self, point: P) -> InteriorState[P, G]:
        mu, off = self.complementarity(point), self.infeasibility(point)
        return InteriorState(point.prices, max(mu, off.largest), point, off, mu, stalled=mu <= self.central)
