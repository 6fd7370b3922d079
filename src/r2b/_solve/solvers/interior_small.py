"""The interior point for small tables: the steps of ``interior`` in few calls, since there calls and not sums take the time.

Everything that must stay positive stands in two long vectors whose products the path brings down together: rows x beside their duals z, and
the duals of the band beside its slacks. Step lengths, products and moves are then one call each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from r2b._solve.problem import Problem
from r2b._solve.solvers.blocks import LevelSystem
from r2b._solve.solvers.central import REGULARISATION, SHY
from r2b._solve.solvers.interior import Infeasibility, Interior, Point
from r2b._solve.solvers.rows import RowGaps, RowPoint

Floats = NDArray[np.float64]

_SMALL = 1 << 14  # entries of rows up to which this is faster


def is_small(problem: Problem) -> bool:
    """Whether the rows are few, under the paper's constraint, and its bounds all open or all closed."""
    if not problem.parity.simple or problem.rows.entries > _SMALL:
        return False
    epsilon = problem.parity.bound.epsilon
    return bool((epsilon > 0).all() or (epsilon == 0).all())


@dataclass(frozen=True, eq=False)
class _Move:
    """A direction: of the two long vectors, of prices, of the levels of classes and of rows."""

    first: Floats
    second: Floats
    prices: Floats
    c: Floats
    t: Floats


class SmallInterior(Interior):
    """The same method with the same settings."""

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        super().__init__(problem, middle, products)
        rows, n_classes = self.rows, problem.n_classes
        self._average = np.zeros((rows.n_cells, len(rows.cell)))
        self._average[rows.cell, np.arange(len(rows.cell))] = rows.within
        bands = [np.repeat(self.share, n_classes)] * 2 if self.banded else []
        self._mass = np.concatenate([np.repeat(rows.weight, n_classes), *bands]) / self.mass
        self._free = np.ones(self.band.shape, dtype=bool)

    def infeasibility(self, at: Point) -> Infeasibility:
        """Residuals of the equations that a solution satisfies exactly."""
        x = at.rows.x
        stationary = self.rows.lam * x - self.rows.y - at.rows.z + (at.prices[self.rows.cell] - at.rows.t[:, None])
        gaps = RowGaps(stationary, x.sum(axis=1) - 1.0, self._average @ x, float(np.abs(stationary).max()))
        slack = at.c - gaps.means + (at.a if self.banded else 0.0)
        balance = self.share @ at.prices
        largest = max(gaps.largest, *(float(np.abs(each).max()) for each in (gaps.row_sum, slack, balance)))
        return Infeasibility(gaps, slack, balance, largest)

    def complementarity(self, at: Point) -> float:
        """Mean of all products."""
        first, second = self._vectors(at)
        return float(self._mass @ (first * second))

    def _vectors(self, at: Point) -> tuple[Floats, Floats]:
        if not self.banded:
            return at.rows.x.ravel(), at.rows.z.ravel()
        first = np.concatenate([at.rows.x, at.p, at.q]).ravel()
        return first, np.concatenate([at.rows.z, self.width - at.a, at.a]).ravel()

    def _advance(self, here: Point, off: Infeasibility, mu: float) -> Point:
        first, second = self._vectors(here)
        system = _System(self, here, off)
        products = first * second
        d = system.direction(-products, 1.0)
        length = _reach(first, second, d)
        ahead = float(self._mass @ ((first + length * d.first) * (second + length * d.second)))
        centring = (max(ahead, 0.0) / mu) ** 3
        d = system.direction(centring * mu - products - d.first * d.second, 1.0 - min(centring, 1.0))
        length = min(1.0, SHY * _reach(first, second, d))
        parts = (first + length * d.first).reshape(-1, len(here.c)), (second + length * d.second).reshape(-1, len(here.c))
        n, groups = len(here.rows.x), len(here.prices)
        return Point(
            rows=RowPoint(parts[0][:n], parts[1][:n], here.rows.t + length * d.t),
            prices=here.prices + length * d.prices,
            a=parts[1][n + groups :] if self.banded else here.a,
            p=parts[0][n : n + groups] if self.banded else here.p,
            q=parts[0][n + groups :] if self.banded else here.q,
            c=here.c + length * d.c,
        )


def _reach(first: Floats, second: Floats, d: _Move) -> float:
    """Largest step that keeps everything positive, at most a little over 1."""
    steepest = min(float((d.first / first).min()), float((d.second / second).min()))
    return min(1.0 / SHY, -1.0 / steepest if steepest < 0 else np.inf)


class _System:
    """The Newton system of the central path at one point, factorised; see :mod:`r2b._solve.solvers.interior`."""

    def __init__(self, method: SmallInterior, here: Point, off: Infeasibility) -> None:
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
            diagonal += REGULARISATION
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
