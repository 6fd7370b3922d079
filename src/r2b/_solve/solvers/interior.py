"""Interior point for the paper's constraint: where Newton stalls, and the first choice where rows start in corners of the simplex.

Eliminating each row leaves one L x L matrix per group and one system for the levels, the same shape
as the Newton step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Floats
from r2b._data.compute import products
from r2b._solve.certificate import Problem
from r2b._solve.solvers.central import Aim, CentralPath, CentralPoint, Gaps, InteriorState, System
from r2b._solve.solvers.newton import LevelSystem
from r2b._solve.solvers.rows import longest


@dataclass(frozen=True, eq=False, kw_only=True)
class BandGaps(Gaps):
    """With the residuals of band slacks."""

    slack: Floats


class Interior(CentralPath[CentralPoint, BandGaps]):
    """Predictor-corrector method for a simple constraint; see :class:`CentralPath` for its settings."""

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        # A bound of 1 or more binds no one; a finite width keeps the slacks finite too.
        self.epsilon = np.minimum(problem.parity.bound.epsilon, 2.0)
        super().__init__(
            problem, middle, products, float(self.epsilon.min(where=self.epsilon > 0, initial=1.0))
        )
        self.share = problem.parity.share
        self.band = np.broadcast_to(self.epsilon > 0, (problem.n_groups, problem.n_classes))
        self.width = np.where(self.epsilon > 0, self.epsilon, 1.0)
        self.banded = bool(self.band.all())
        self.mass = problem.n_classes + 2.0 * float(self.share @ self.band.sum(axis=1))

    def start(self, prices: Floats) -> InteriorState[CentralPoint, BandGaps]:
        """Start in the middle of every band, with all products equal. Prices of earlier attempts are of no use here."""
        rows = self.rows.start(self.middle, self.mu)
        dual = np.where(self.band, 2.0 * self.mu / self.width, 1.0)
        point = CentralPoint(
            rows=rows,
            prices=np.zeros(self.band.shape),
            a=np.broadcast_to(0.5 * self.width, self.band.shape).copy(),
            p=dual,
            q=dual.copy(),
            c=self.share @ self.rows.means(rows.x)
            - np.where(self.epsilon > 0, 0.5 * self.epsilon, 0.0),
        )
        return self._state(point)

    def at_face(
        self, state: InteriorState[CentralPoint, BandGaps], lean: float = 1.0
    ) -> Iterator[Floats]:
        """Guess prices that are exact on the face where the iteration ended."""
        at, prices = state.point, state.prices
        means, d, d_sum = self.rows.on_support(at.rows, prices, lean)
        blocks = self.rows.blocks(d, d_sum)
        np.einsum("skk->sk", blocks)[:] += self.face_damping / self.rows.lam
        upper = self.band & (at.p * lean > self.width - at.a)
        lower = self.band & (at.q * lean > at.a)
        for _ in range(self.releases):
            clipped = upper | lower | ~self.band
            held = np.where(clipped, 0.0, -prices)
            right = means - np.where(upper, self.epsilon, 0.0) - products(blocks, held)
            exact = (
                prices
                + held
                + LevelSystem(blocks.copy(), clipped, self.share).solve(
                    right, -self.share @ (prices + held)
                )
            )
            yield exact
            # A price of the wrong sign says that its entry does not lean on that side of the band:
            # let it go and solve again.
            wrong = (upper & (exact < 0)) | (lower & (exact > 0))
            if not wrong.any():
                break
            upper, lower = upper & ~wrong, lower & ~wrong

    def upper_slacks(self, at: CentralPoint) -> Floats:
        """Give the upper slacks: the width stays."""
        return np.asarray(self.width - at.a)

    def infeasibility(self, at: CentralPoint) -> BandGaps:
        """Residuals of the equations that a solution satisfies exactly."""
        rows = self.rows.gaps(at.rows, at.prices)
        slack = np.where(self.band, at.a, 0.0) - (rows.means - at.c)
        balance = self.share @ at.prices
        largest = max(rows.largest, float(np.abs(slack).max()), float(np.abs(balance).max()))
        return BandGaps(rows=rows, slack=slack, balance=balance, largest=largest)

    def complementarity(self, at: CentralPoint) -> float:
        """Mean of all products."""
        bands = np.where(self.band, at.p * (self.width - at.a) + at.q * at.a, 0.0)
        return (
            self.rows.complementarity(at.rows) + float(self.share @ bands.sum(axis=1))
        ) / self.mass

    def reach(self, here: CentralPoint, d: CentralPoint) -> float:
        """Largest step along a direction that keeps everything positive, at most a little over 1."""
        band = slice(None) if self.banded else self.band
        limits = [
            longest(here.a[band], d.a[band]),
            longest((self.width - here.a)[band], -d.a[band]),
        ]
        limits += [longest(here.p[band], d.p[band]), longest(here.q[band], d.q[band])]
        return min(1.0 / self.shy, self.rows.reach(here.rows, d.rows), *limits)

    def system(self, here: CentralPoint, off: BandGaps) -> _BandSystem:
        """Linearise and factorise."""
        return _BandSystem(self, here, off)


class _BandSystem(System[CentralPoint]):
    """The Newton system of the central path at one point, factorised."""

    def __init__(self, method: Interior, here: CentralPoint, off: BandGaps) -> None:
        self.method, self.here, self.off = method, here, off
        self.b = method.width - here.a
        self.theta = np.where(
            method.band, here.p / self.b + here.q / here.a, 1.0 / method.regularisation
        )
        self.rows = method.rows.system(here.rows, off.rows)
        blocks = method.rows.blocks(self.rows.d, self.rows.d_sum)
        np.einsum("skk->sk", blocks)[:] += 1.0 / self.theta
        self.system = LevelSystem(blocks, np.ones(method.band.shape, dtype=bool), method.share)

    def upper_change(self, d: CentralPoint) -> Floats:
        """Give the change of the upper slacks along a direction: the width stays."""
        return -d.a

    def direction(self, aim: Aim, *, repair: float) -> CentralPoint:
        """Direction that makes these changes to first order and removes this part of the infeasibility."""
        method, here, band = self.method, self.here, self.method.band
        slack = repair * self.off.slack
        push = np.where(band, aim.upper / self.b - aim.lower / here.a, 0.0)
        rows, means = self.rows.own(aim.rows, repair)
        prices = self.system.solve(means - slack + push / self.theta, -repair * self.off.balance)
        shifts = self.rows.respond(rows, prices)
        a = np.where(band, (prices - push) / self.theta, 0.0)
        return CentralPoint(
            rows=rows,
            prices=prices,
            a=a,
            p=np.where(band, (aim.upper + here.p * a) / self.b, 0.0),
            q=np.where(band, (aim.lower - here.q * a) / here.a, 0.0),
            c=method.share @ (shifts - a - slack),
        )
