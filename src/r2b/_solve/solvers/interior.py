"""Interior point for the paper's constraint: where Newton stalls, and the first choice where rows start in corners of the simplex.

Eliminating each row leaves one L x L matrix per group and one system for the levels, the same shape as the Newton step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Floats
from r2b._solve.certificate import Problem
from r2b._solve.solvers.central import Aim, CentralPath, CentralPoint, Gaps, InteriorState, System
from r2b._solve.solvers.newton import LevelSystem, products
from r2b._solve.solvers.rows import RowGaps, RowPoint, RowSystem, longest


@dataclass(frozen=True, eq=False, kw_only=True)
class BandGaps(Gaps):
    """With the residuals of band slacks."""

    slack: Floats


class Interior(CentralPath[CentralPoint, BandGaps]):
    """Predictor-corrector method for a simple constraint; see :class:`CentralPath` for its settings."""

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        # A bound of 1 or more binds no one; a finite width keeps the slacks finite too.
        self.epsilon = np.minimum(problem.parity.bound.epsilon, 2.0)
        super().__init__(problem, middle, products, float(self.epsilon.min(where=self.epsilon > 0, initial=1.0)))
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
            c=self.share @ self.rows.means(rows.x) - np.where(self.epsilon > 0, 0.5 * self.epsilon, 0.0),
        )
        return self._state(point)

    def at_face(self, state: InteriorState[CentralPoint, BandGaps], lean: float = 1.0) -> Iterator[Floats]:
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
            exact = prices + held + LevelSystem(blocks.copy(), clipped, self.share).solve(right, -self.share @ (prices + held))
            yield exact
            # A price of the wrong sign says that its entry does not lean on that side of the band: let it go and solve again.
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
        return (self.rows.complementarity(at.rows) + float(self.share @ bands.sum(axis=1))) / self.mass

    def reach(self, here: CentralPoint, d: CentralPoint) -> float:
        """Largest step along a direction that keeps everything positive, at most a little over 1."""
        band = slice(None) if self.banded else self.band
        limits = [longest(here.a[band], d.a[band]), longest((self.width - here.a)[band], -d.a[band])]
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
        self.theta = np.where(method.band, here.p / self.b + here.q / here.a, 1.0 / method.regularisation)
        self.rows = RowSystem(method.rows, here.rows, off.rows)
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


@dataclass(frozen=True, eq=False)
class _Move:
    """A direction: of the two long vectors, of prices, of the levels of classes and of rows."""

    first: Floats
    second: Floats
    prices: Floats
    c: Floats
    t: Floats


class SmallInterior(Interior):
    """The same method with the same settings, for few rows and bounds that are all open or all closed: faster by fewer calls."""

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        super().__init__(problem, middle, products)
        rows, n_classes = self.rows, problem.n_classes
        self._average = np.zeros((rows.n_cells, len(rows.cell)))
        self._average[rows.cell, np.arange(len(rows.cell))] = rows.within
        bands = [np.repeat(self.share, n_classes)] * 2 if self.banded else []
        self._mass = np.concatenate([np.repeat(rows.weight, n_classes), *bands]) / self.mass
        self._free = np.ones(self.band.shape, dtype=bool)

    def infeasibility(self, at: CentralPoint) -> BandGaps:
        """Residuals of the equations that a solution satisfies exactly."""
        x = at.rows.x
        stationary = self.rows.lam * x - self.rows.y - at.rows.z + (at.prices[self.rows.cell] - at.rows.t[:, None])
        gaps = RowGaps(stationary, x.sum(axis=1) - 1.0, self._average @ x, float(np.abs(stationary).max()))
        slack = at.c - gaps.means + (at.a if self.banded else 0.0)
        balance = self.share @ at.prices
        largest = max(gaps.largest, *(float(np.abs(each).max()) for each in (gaps.row_sum, slack, balance)))
        return BandGaps(rows=gaps, slack=slack, balance=balance, largest=largest)

    def complementarity(self, at: CentralPoint) -> float:
        """Mean of all products."""
        first, second = self._vectors(at)
        return float(self._mass @ (first * second))

    def _vectors(self, at: CentralPoint) -> tuple[Floats, Floats]:
        if not self.banded:
            return at.rows.x.ravel(), at.rows.z.ravel()
        first = np.concatenate([at.rows.x, at.p, at.q]).ravel()
        return first, np.concatenate([at.rows.z, self.width - at.a, at.a]).ravel()

    def _advance(self, here: CentralPoint, off: BandGaps, mu: float) -> CentralPoint:
        first, second = self._vectors(here)
        system = _System(self, here, off)
        products = first * second
        d = system.direction(-products, 1.0)
        length = self._reach(first, second, d)
        ahead = float(self._mass @ ((first + length * d.first) * (second + length * d.second)))
        centring = (max(ahead, 0.0) / mu) ** 3
        d = system.direction(centring * mu - products - d.first * d.second, 1.0 - min(centring, 1.0))
        length = min(1.0, self.shy * self._reach(first, second, d))
        parts = (first + length * d.first).reshape(-1, len(here.c)), (second + length * d.second).reshape(-1, len(here.c))
        n, groups = len(here.rows.x), len(here.prices)
        return CentralPoint(
            rows=RowPoint(parts[0][:n], parts[1][:n], here.rows.t + length * d.t),
            prices=here.prices + length * d.prices,
            a=parts[1][n + groups :] if self.banded else here.a,
            p=parts[0][n : n + groups] if self.banded else here.p,
            q=parts[0][n + groups :] if self.banded else here.q,
            c=here.c + length * d.c,
        )

    def _reach(self, first: Floats, second: Floats, d: _Move) -> float:
        """Largest step that keeps everything positive, at most a little over 1."""
        steepest = min(float((d.first / first).min()), float((d.second / second).min()))
        return min(1.0 / self.shy, -1.0 / steepest if steepest < 0 else np.inf)


class _System:
    """The Newton system of the central path at one point, factorised; see :mod:`r2b._solve.solvers.interior`."""

    def __init__(self, method: SmallInterior, here: CentralPoint, off: BandGaps) -> None:
        self.method, self.here, self.off = method, here, off
        self.ratio = here.rows.z / here.rows.x
        self.d = 1.0 / (self.ratio + method.rows.lam)
        self.d_sum = self.d.sum(axis=1)
        blocks = method.rows.blocks(self.d, self.d_sum)
        diagonal = np.einsum("skk->sk", blocks)
        if method.banded:
            self.b = method.width - here.a
            self.give = 1.0 / (here.p / self.b + here.q / here.a)
            diagonal += self.give
        else:
            diagonal += method.regularisation
        self.system = LevelSystem(blocks, method._free, method.share)

    def direction(self, aim: Floats, repair: float) -> _Move:
        """Direction that makes these changes of the products to first order and removes this part of the infeasibility."""
        method, here = self.method, self.here
        n, n_classes = here.rows.x.shape
        wanted = aim.reshape(-1, n_classes)
        wish = wanted[:n] / here.rows.x
        pull, lack = wish - repair * self.off.rows.stationary, repair * self.off.rows.row_sum
        right = method._average @ self._rows(pull, lack)[0] - repair * self.off.slack
        if method.banded:
            upper, lower = wanted[n : n + method.rows.n_cells], wanted[n + method.rows.n_cells :]
            push = upper / self.b - lower / here.a
            right += push * self.give
        prices = self.system.solve(right, -repair * self.off.balance)
        x, t = self._rows(pull - prices[method.rows.cell], lack)
        moved = method._average @ x - repair * self.off.slack
        z = wish - self.ratio * x
        if not method.banded:
            return _Move(x.ravel(), z.ravel(), prices, method.share @ moved, t)
        a = (prices - push) * self.give
        first = np.concatenate([x, (upper + here.p * a) / self.b, (lower - here.q * a) / here.a])
        return _Move(first.ravel(), np.concatenate([z, -a, a]).ravel(), prices, method.share @ (moved - a), t)

    def _rows(self, pull: Floats, lack: Floats) -> tuple[Floats, Floats]:
        """Move the rows under a pull, their sums by minus what they have too much; give the moves of their levels too."""
        t = -(lack + np.einsum("ik,ik->i", self.d, pull)) / self.d_sum
        return self.d * (pull + t[:, None]), t
