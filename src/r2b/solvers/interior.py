"""Primal-dual interior point on merged rows: the net under Newton, and the first choice where rows start in corners of the simplex.

Eliminating each row leaves one L x L matrix per group and one system for the levels, the same shape as the Newton step. Its prices start a
polish by Newton; it is never the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from r2b.lanes import in_order
from r2b.problem import Problem
from r2b.solvers.blocks import LevelSystem, groups_in_parts

Floats = NDArray[np.float64]
Result = TypeVar("Result")

# Classes with epsilon = 0 have no band to give curvature; this stands in for it. Much smaller, and degenerate problems lose their digits;
# much larger, and their means no longer meet.
_REGULARISATION = 1e-9
# Complementarity at which to stop: far below the rounding of the objective, so that the products tell on which side of every bound the
# answer lies even where weights differ by six orders of magnitude. The price of an entry inside its band is about this over epsilon, and
# must be small beside epsilon too.
_CENTRAL = 1e-17
_BESIDE_BAND = 1e-6
_ROUNDING = 1e-12  # complementarity below which a step may be lost to rounding
_SHY = 0.995  # of the way to the border: nearer, one product would vanish beside the others and block the next step
_FACE_DAMPING, _RELEASES = 1e-9, 3
_FEASIBLE = 1e-9  # infeasibility that is still rounding


@dataclass(frozen=True, eq=False)
class Point:
    """A primal-dual point: rows x with duals z and levels t; band slacks a with duals (upper p, lower q); class levels c."""

    x: Floats
    z: Floats
    t: Floats
    prices: Floats
    a: Floats
    p: Floats
    q: Floats
    c: Floats


@dataclass(frozen=True, eq=False)
class Infeasibility:
    """Residuals of stationarity (rows), row sums, band slacks and the balance of prices, and the largest of them all."""

    stationary: Floats
    row_sum: Floats
    slack: Floats
    balance: Floats
    largest: float


@dataclass(frozen=True, eq=False)
class InteriorState:
    """Where the iteration stands; ``residual`` is the largest of complementarity and infeasibility."""

    point: Point
    off: Infeasibility
    prices: Floats
    residual: float
    complementarity: float
    stalled: bool = False


class Interior:
    """Predictor-corrector method for one problem whose merged rows fit in memory a few times over.

    Parameters
    ----------
    problem : Problem
    middle : float
        Where to start: 0 is at the labels, 1 in the middle of the simplex, where all group means agree. At 0.7 it takes a quarter fewer
        steps than at 1; the few problems that fail from one start are solved from another.
    products : float
        Complementarity products at the start, in units of lam / n_classes.
    """

    name = "interior"

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        self.middle, self.products = middle, products
        rows = problem.rows
        order = np.argsort(rows.groups, kind="stable")
        self.y = rows.labels[order].astype(np.float64, copy=False)
        self.group = rows.groups[order].astype(np.intp)
        weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
        self.weight = weight / weight.sum()
        self.share = problem.share
        self.within = self.weight / self.share[self.group]
        self.first = np.searchsorted(self.group, np.arange(problem.n_groups + 1))
        self.lam = float(problem.lam)
        # A bound of 1 or more binds no one; a finite width keeps the slacks finite too.
        self.epsilon = np.minimum(problem.bound.epsilon, 2.0)
        self.band = np.broadcast_to(self.epsilon > 0, (problem.n_groups, problem.n_classes))
        self.width = np.where(self.epsilon > 0, self.epsilon, 1.0)
        self.mass = problem.n_classes + 2.0 * float(self.share @ self.band.sum(axis=1))
        narrowest = float(self.epsilon.min(where=self.epsilon > 0, initial=1.0))
        self.central = min(_CENTRAL, _BESIDE_BAND * narrowest**2)
        self._parts = groups_in_parts(problem.n_groups, problem.n_classes)

    def start(self, prices: Floats) -> InteriorState:
        """Start on the way from the labels to the middle of the simplex, in the middle of every band, with all products equal.

        Prices of earlier attempts are of no use here.
        """
        n_classes = self.y.shape[1]
        x = (1.0 - self.middle) * self.y + self.middle / n_classes
        mu = self.products * max(1.0, self.lam) / n_classes
        z = mu / x
        dual = np.where(self.band, 2.0 * mu / self.width, 1.0)
        means = np.concatenate(self.each_part(lambda groups, rows: self.group_means(x[rows], groups, rows)))
        point = Point(
            x=x,
            z=z,
            t=np.einsum("ik,ik->i", x, self.lam * x - self.y - z),
            prices=np.zeros(self.band.shape),
            a=np.broadcast_to(0.5 * self.width, self.band.shape).copy(),
            p=dual,
            q=dual.copy(),
            c=self.share @ means - np.where(self.epsilon > 0, 0.5 * self.epsilon, 0.0),
        )
        return self._state(point)

    def step(self, state: InteriorState) -> InteriorState:
        """One predictor and one corrector solve with the same factorisation."""
        here, mu = state.point, state.complementarity
        with np.errstate(all="ignore"):  # a step beyond double precision is caught by the checks below
            try:
                new = self._state(self._advance(_Linearised(self, here, state.off), mu))
            except np.linalg.LinAlgError:
                return replace(state, stalled=True)
        # Rounding makes the residuals of tiny steps bounce; as long as complementarity falls and they stay small, prices still improve.
        lost = new.residual > max(state.residual, _FEASIBLE) or new.complementarity >= mu
        return replace(state, stalled=True) if not np.isfinite(new.residual) or (mu < _ROUNDING and lost) else new

    def _advance(self, system: _Linearised, mu: float) -> Point:
        here = system.here
        d = system.direction(system.aim(0.0), repair=1.0)
        ahead = self._moved(here, d, self._reach(here, d))
        centring = (max(self._complementarity(ahead), 0.0) / mu) ** 3
        # Tried and left out: Gondzio's further corrections (they save one iteration in twenty-five and cost more than that), pure centring
        # after a short step, and shortening steps to keep lagging products (both make more problems fail than they save).
        d = system.direction(system.aim(centring * mu, second_order=d), repair=1.0 - min(centring, 1.0))
        return self._moved(here, d, min(1.0, _SHY * self._reach(here, d)))

    def at_face(self, state: InteriorState, lean: float = 1.0) -> Iterator[Floats]:
        """Guess prices that are exact on the face where the iteration ended: supports of rows and sides of bands as the products tell them.

        The iterates come to within rounding of that face but not onto it, and where groups differ by orders of magnitude in weight
        Newton cannot tell its sides from the prices alone. ``lean`` above 1 counts entries in doubt as positive, below 1 as zero.
        """
        at, prices = state.point, state.prices
        support = (at.x * lean > at.z / max(1.0, self.lam)).astype(np.float64)
        size = np.maximum(support.sum(axis=1), 1.0)
        shifted = self.y - prices[self.group]
        level = (np.einsum("ik,ik->i", support, shifted) - self.lam) / size
        means = np.empty_like(prices)
        blocks = np.empty((*prices.shape, prices.shape[1]))
        for group, (i, j) in enumerate(self.spans(slice(0, len(prices)))):
            own, within = support[i:j], self.within[i:j]
            means[group] = within @ (own * (shifted[i:j] - level[i:j, None])) / self.lam
            blocks[group] = -((own * (within / size[i:j])[:, None]).T @ own) / self.lam
            np.einsum("kk->k", blocks[group])[:] += within @ own / self.lam
        np.einsum("skk->sk", blocks)[:] += _FACE_DAMPING / self.lam
        upper = self.band & (at.p * lean > self.width - at.a)
        lower = self.band & (at.q * lean > at.a)
        for _ in range(_RELEASES):
            clipped = upper | lower | ~self.band
            held = np.where(clipped, 0.0, -prices)
            right = means - np.where(upper, self.epsilon, 0.0) - np.einsum("skl,sl->sk", blocks, held)
            exact = prices + held + LevelSystem(blocks.copy(), clipped, self.share).solve(right, -self.share @ (prices + held))
            yield exact
            # A price of the wrong sign says that its entry does not lean on that side of the band: let it go and solve again.
            wrong = (upper & (exact < 0)) | (lower & (exact > 0))
            if not wrong.any():
                break
            upper, lower = upper & ~wrong, lower & ~wrong

    def each_part(self, work: Callable[[slice, slice], Result]) -> list[Result]:
        """Call ``work(groups, rows)`` on parts of the groups with their rows, by threads where parts are large."""
        return list(in_order(lambda part: work(part, slice(self.first[part.start], self.first[part.stop])), self._parts))

    def group_means(self, x: Floats, groups: slice, rows: slice) -> Floats:
        """Weighted means of some rows by group."""
        return np.stack([self.within[i:j] @ x[i - rows.start : j - rows.start] for i, j in self.spans(groups)])

    def spans(self, groups: slice) -> list[tuple[int, int]]:
        """First and last row of each group."""
        return [(self.first[group], self.first[group + 1]) for group in range(groups.start, groups.stop)]

    def infeasibility(self, at: Point) -> Infeasibility:
        """Residuals of the equations that a solution satisfies exactly."""
        stationary, row_sum = np.empty_like(at.x), np.empty(len(at.x))

        def work(groups: slice, rows: slice) -> tuple[Floats, float]:
            x, out = at.x[rows], stationary[rows]
            np.multiply(x, self.lam, out=out)
            out -= self.y[rows]
            out -= at.z[rows]
            out += (at.prices[self.group[rows]] if groups.stop - groups.start > 1 else at.prices[groups.start]) - at.t[rows, None]
            row_sum[rows] = x.sum(axis=1) - 1.0
            return self.group_means(x, groups, rows), max(float(out.max()), -float(out.min()))

        means, worst = zip(*self.each_part(work), strict=True)
        slack = np.where(self.band, at.a, 0.0) - (np.concatenate(means) - at.c)
        balance = self.share @ at.prices
        largest = max(*worst, *(float(np.abs(part).max()) for part in (row_sum, slack, balance)))
        return Infeasibility(stationary, row_sum, slack, balance, largest)

    def _state(self, point: Point) -> InteriorState:
        mu, off = self._complementarity(point), self.infeasibility(point)
        return InteriorState(point, off, point.prices, max(mu, off.largest), mu, stalled=mu <= self.central)

    def _complementarity(self, at: Point) -> float:
        rows = sum(self.each_part(lambda _, part: float(np.einsum("i,ik,ik->", self.weight[part], at.x[part], at.z[part]))))
        bands = np.where(self.band, at.p * (self.width - at.a) + at.q * at.a, 0.0)
        return (rows + float(self.share @ bands.sum(axis=1))) / self.mass

    def _moved(self, here: Point, d: Point, length: float) -> Point:
        x, z = np.empty_like(here.x), np.empty_like(here.z)

        def work(_: slice, rows: slice) -> None:
            for value, change, out in ((here.x, d.x, x), (here.z, d.z, z)):
                np.multiply(change[rows], length, out=out[rows])
                out[rows] += value[rows]

        self.each_part(work)
        small = {name: getattr(here, name) + length * getattr(d, name) for name in ("t", "prices", "a", "p", "q", "c")}
        return Point(x=x, z=z, **small)

    def _reach(self, here: Point, d: Point) -> float:
        band = self.band
        limits = [_limit(here.a[band], d.a[band]), _limit((self.width - here.a)[band], -d.a[band])]
        limits += [_limit(here.p[band], d.p[band]), _limit(here.q[band], d.q[band])]
        limits += self.each_part(lambda _, rows: min(_limit(here.x[rows], d.x[rows]), _limit(here.z[rows], d.z[rows])))
        return min(1.0 / _SHY, *limits)


def _limit(value: Floats, change: Floats) -> float:
    """Largest step along ``change`` that keeps ``value`` at or above zero."""
    steepest = float((change / value).min(initial=0.0))
    return -1.0 / steepest if steepest < 0 else np.inf


@dataclass(frozen=True, eq=False)
class Aim:
    """Wanted changes of the products x z (rows), p b (upper) and q a (lower)."""

    rows: Floats
    upper: Floats
    lower: Floats


class _Linearised:
    """The Newton system of the central path at one point, factorised."""

    def __init__(self, method: Interior, here: Point, off: Infeasibility) -> None:
        self.method, self.here, self.off = method, here, off
        self.b = method.width - here.a
        n_groups, n_classes = method.band.shape
        self.theta = np.where(method.band, here.p / self.b + here.q / here.a, 1.0 / _REGULARISATION)
        self.ratio, self.d, self.d_sum = np.empty_like(here.x), np.empty_like(here.x), np.empty(len(here.x))
        blocks = np.empty((n_groups, n_classes, n_classes))

        def work(groups: slice, rows: slice) -> None:
            ratio = np.divide(here.z[rows], here.x[rows], out=self.ratio[rows])
            d = np.add(ratio, method.lam, out=self.d[rows])
            np.reciprocal(d, out=d)
            self.d_sum[rows] = d.sum(axis=1)
            for group, (i, j) in zip(range(groups.start, groups.stop), method.spans(groups), strict=True):
                own, within = self.d[i:j], method.within[i:j]
                scaled = own * (within / self.d_sum[i:j])[:, None]
                np.matmul(scaled.T, own, out=blocks[group])
                np.negative(blocks[group], out=blocks[group])
                np.einsum("kk->k", blocks[group])[:] += within @ own + 1.0 / self.theta[group]

        method.each_part(work)
        self.system = LevelSystem(blocks, np.ones(method.band.shape, dtype=bool), method.share)

    def aim(self, target: float, second_order: Point | None = None) -> Aim:
        """Give the changes that bring every product to ``target``, with Mehrotra's correction where a predictor is given."""
        here = self.here
        rows = np.empty_like(here.x)

        def work(_: slice, part: slice) -> None:
            np.multiply(here.x[part], here.z[part], out=rows[part])
            if second_order is not None:
                rows[part] += second_order.x[part] * second_order.z[part]
            np.subtract(target, rows[part], out=rows[part])

        self.method.each_part(work)
        upper, lower = target - here.p * self.b, target - here.q * here.a
        if second_order is not None:
            upper, lower = upper + second_order.p * second_order.a, lower - second_order.q * second_order.a
        return Aim(rows, upper, lower)

    def direction(self, aim: Aim, *, repair: float) -> Point:
        """Direction that makes these changes to first order and removes this part of the infeasibility."""
        method, here, band = self.method, self.here, self.method.band
        slack = repair * self.off.slack
        push = np.where(band, aim.upper / self.b - aim.lower / here.a, 0.0)
        x, z, t = np.empty_like(here.x), np.empty_like(here.z), np.empty_like(here.t)
        means = np.concatenate(method.each_part(lambda groups, rows: self._own(groups, rows, aim, repair, x, z, t)))
        prices = self.system.solve(means - slack + push / self.theta, -repair * self.off.balance)
        shifts = np.concatenate(method.each_part(lambda groups, rows: self._respond(groups, rows, prices, x, z, t)))
        a = np.where(band, (prices - push) / self.theta, 0.0)
        return Point(
            x=x,
            z=z,
            t=t,
            prices=prices,
            a=a,
            p=np.where(band, (aim.upper + here.p * a) / self.b, 0.0),
            q=np.where(band, (aim.lower - here.q * a) / here.a, 0.0),
            c=method.share @ (shifts - a - slack),
        )

    def _own(self, groups: slice, rows: slice, aim: Aim, repair: float, x: Floats, z: Floats, t: Floats) -> Floats:
        """Move some rows at unchanged prices, and keep in ``z`` the wanted change of x z over x; return the group means of the move."""
        d = self.d[rows]
        wish = np.divide(aim.rows[rows], self.here.x[rows], out=z[rows])
        move = np.multiply(self.off.stationary[rows], -repair, out=x[rows])
        move += wish
        t[rows] = -(repair * self.off.row_sum[rows] + np.einsum("ik,ik->i", d, move)) / self.d_sum[rows]
        move += t[rows, None]
        move *= d
        return self.method.group_means(move, groups, rows)

    def _respond(self, groups: slice, rows: slice, prices: Floats, x: Floats, z: Floats, t: Floats) -> Floats:
        """Complete ``x``, ``z`` and ``t`` of some rows for the change of prices; return the group means of x."""
        d = self.d[rows]
        one = groups.stop - groups.start == 1
        mine = prices[groups.start] if one else prices[self.method.group[rows]]
        shift = (d @ mine if one else np.einsum("ik,ik->i", d, mine)) / self.d_sum[rows]
        t[rows] += shift
        x[rows] -= d * (mine - shift[:, None])
        z[rows] -= self.ratio[rows] * x[rows]
        return self.method.group_means(x[rows], groups, rows)
