"""Primal-dual interior point on merged rows: the safety net for problems on which Newton's steps shrink to nothing.

Eliminating each row leaves one L x L matrix per group and one system for the levels, the same shape as the Newton step. Its prices start a
polish by Newton; it is never the last word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from r2b.problem import Problem
from r2b.solvers.blocks import LevelSystem

Floats = NDArray[np.float64]

# Classes with epsilon = 0 have no band to give curvature. 1e-14 fails on one degenerate problem in seven and 1e-4 on one in thirty;
# anything between 1e-10 and 1e-8 fails on none.
_REGULARISATION = 1e-9
# Complementarity at which to stop. The price of an entry inside its band is about this over epsilon, and must be small beside epsilon for
# Newton to see on which side of the band the entry lies.
_CENTRAL = 1e-13
_BESIDE_BAND = 1e-6


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

    def moved(self, d: Point, length: float) -> Point:
        """The point after a step of this length along d."""
        names = self.__dataclass_fields__
        return Point(**{name: getattr(self, name) + length * getattr(d, name) for name in names})


@dataclass(frozen=True, eq=False)
class InteriorState:
    """Where the iteration stands; ``residual`` is the largest of complementarity and infeasibility."""

    point: Point
    prices: Floats
    residual: float
    complementarity: float
    stalled: bool = False


class Interior:
    """Predictor-corrector method for one problem whose merged rows fit in memory a few times over."""

    name = "interior"

    def __init__(self, problem: Problem) -> None:
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
        self.free = np.ones(self.band.shape, dtype=bool)
        narrowest = float(self.epsilon.min(where=self.epsilon > 0, initial=1.0))
        self.central = min(_CENTRAL, _BESIDE_BAND * narrowest**2)
        self.mass = problem.n_classes + 2.0 * float(self.share @ self.band.sum(axis=1))

    def start(self, prices: Floats) -> InteriorState:
        """Start from the middle of the simplex and of every band; prices of earlier attempts are of no use here."""
        n, n_classes = self.y.shape
        half = np.broadcast_to(0.5 * self.width, self.band.shape).copy()
        dual = np.where(self.band, 0.1, 1.0)
        point = Point(
            x=np.full((n, n_classes), 1.0 / n_classes),
            z=np.full((n, n_classes), 0.5 * max(1.0, self.lam)),
            t=np.zeros(n),
            prices=np.zeros(self.band.shape),
            a=half,
            p=dual,
            q=dual.copy(),
            c=1.0 / n_classes - np.where(self.epsilon > 0, 0.5 * self.epsilon, 0.0),
        )
        return self._state(point)

    def step(self, state: InteriorState) -> InteriorState:
        """One predictor and one corrector solve with the same factorisation."""
        here, mu = state.point, state.complementarity
        b = self.width - here.a
        with np.errstate(all="ignore"):  # a step beyond double precision is caught by the check below
            try:
                system = _Linearised(self, here)
                predictor = system.direction(-here.x * here.z, -here.p * b, -here.q * here.a)
                ahead = here.moved(predictor, self._reach(here, predictor))
                centring = (max(self._complementarity(ahead), 0.0) / mu) ** 3 * mu
                d = system.direction(
                    centring - here.x * here.z - predictor.x * predictor.z,
                    centring - here.p * b + predictor.p * predictor.a,
                    centring - here.q * here.a - predictor.q * predictor.a,
                )
                length = min(1.0, max(0.99, 1.0 - mu) * self._reach(here, d))
                new = self._state(here.moved(d, length))
            except np.linalg.LinAlgError:
                return replace(state, stalled=True)
        if not np.isfinite(new.residual) or (new.residual > 10 * state.residual and mu < 1e-10):
            return replace(state, stalled=True)
        return new

    def group_means(self, x: Floats) -> Floats:
        """Weighted means of rows by group."""
        out: Floats = np.add.reduceat(x * self.within[:, None], self.first[:-1], axis=0)
        return out

    def infeasibility(self, at: Point) -> tuple[Floats, Floats, Floats, Floats]:
        """Residuals of stationarity, of row sums, of the band's slacks, and of the balance of prices."""
        stationary = self.lam * at.x - self.y + at.prices[self.group] - at.t[:, None] - at.z
        above = self.group_means(at.x) - at.c
        return stationary, at.x.sum(axis=1) - 1.0, np.where(self.band, at.a, 0.0) - above, self.share @ at.prices

    def _state(self, point: Point) -> InteriorState:
        mu = self._complementarity(point)
        residual = max(mu, *(float(np.abs(part).max()) for part in self.infeasibility(point)))
        return InteriorState(point, point.prices, residual, mu, stalled=mu <= self.central)

    def _complementarity(self, at: Point) -> float:
        bands = np.where(self.band, at.p * (self.width - at.a) + at.q * at.a, 0.0)
        return float(self.weight @ (at.x * at.z).sum(axis=1) + self.share @ bands.sum(axis=1)) / self.mass

    def _reach(self, here: Point, d: Point) -> float:
        band = self.band
        reach = 1.0 / 0.99
        for value, change in (
            (here.x, d.x),
            (here.z, d.z),
            (here.a[band], d.a[band]),
            ((self.width - here.a)[band], -d.a[band]),
            (here.p[band], d.p[band]),
            (here.q[band], d.q[band]),
        ):
            falling = change < 0
            if falling.any():
                reach = min(reach, float((-value[falling] / change[falling]).min()))
        return reach


class _Linearised:
    """The Newton system of the central path at one point, factorised."""

    def __init__(self, method: Interior, here: Point) -> None:
        self.method, self.here = method, here
        self.b = method.width - here.a
        self.d = 1.0 / (method.lam + here.z / here.x)
        self.d_sum = self.d.sum(axis=1)
        n_groups, n_classes = method.band.shape
        self.theta = np.where(method.band, here.p / self.b + here.q / here.a, 1.0 / _REGULARISATION)
        blocks = np.empty((n_groups, n_classes, n_classes))
        for group in range(n_groups):
            part = slice(method.first[group], method.first[group + 1])
            d, own = self.d[part], method.within[part]
            blocks[group] = -(d.T * (own / self.d_sum[part])) @ d
            np.einsum("kk->k", blocks[group])[:] += own @ d
        np.einsum("skk->sk", blocks)[:] += 1.0 / self.theta
        self.system = LevelSystem(blocks, method.free, method.share)
        self.stationary, self.row_sum, self.slack, self.balance = method.infeasibility(here)

    def direction(self, rows: Floats, upper: Floats, lower: Floats) -> Point:
        """Direction towards the given targets of the complementarity products (changes of x z, p b and q a)."""
        method, here, d = self.method, self.here, self.d
        band, group = method.band, method.group
        pull = rows / here.x - self.stationary
        own = d * (pull - ((self.row_sum + (d * pull).sum(axis=1)) / self.d_sum)[:, None])
        push = np.where(band, upper / self.b - lower / here.a, 0.0)
        prices = self.system.solve(method.group_means(own) - self.slack + push / self.theta, -self.balance)
        shifted = d * prices[group]
        x = own - shifted + d * (shifted.sum(axis=1) / self.d_sum)[:, None]
        z = (rows - here.z * x) / here.x
        t = ((method.lam * x + prices[group] - z + self.stationary) * d).sum(axis=1) / self.d_sum
        a = np.where(band, (prices - push) / self.theta, 0.0)
        return Point(
            x=x,
            z=z,
            t=t,
            prices=prices,
            a=a,
            p=np.where(band, (upper + here.p * a) / self.b, 0.0),
            q=np.where(band, (lower - here.q * a) / here.a, 0.0),
            c=method.share @ (method.group_means(x) - a - self.slack),
        )
