"""Newton's method on the thresholds of class labels, for the paper's constraint.

The dual is a minimum over prices and over the thresholds at which rows are projected onto the
simplex. For given thresholds each class has its best prices, whatever those of the others, bounds
included (the ``balanced`` kernel). What is left to find is which thresholds go together. There
Newton's method works well: the curvature of a row is its weight times the number of classes that it
gives to, which changes little when one more class joins. By prices it would jump by orders of
magnitude. A step solves one linear system by conjugate gradients, whose products cost a few
cumulative sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._solve.oracle import ClassOracle, Supports
from r2b._solve.oracle.classes import ROUNDING
from r2b._solve.settings import SETTINGS, TOLERANCE
from r2b._solve.solvers.driver import State

_DAMPING = (1e-9, 1e3)  # least and most, in units of a class's mean over lam
_SLOPE = 0.9  # a step must leave less than this part of the slope along it
_SEARCH_STEPS = 4  # points that are looked at along a direction, besides the whole step


@dataclass(frozen=True, eq=False)
class ThresholdState(State):
    """Where the iteration stands; the residual is the largest entry of E, as in Newton's method.

    Attributes
    ----------
    level : ndarray of the shape of the prices
        Threshold of the row of each class.
    dual : float
    levels : ndarray of shape (n_classes,)
        Of the means of the classes, to start the next search from.
    damping : float
    idle : int
        Steps since the last gain.
    best : float
        The smallest residual so far.
    """

    level: Floats
    dual: float
    levels: Floats
    damping: float = _DAMPING[0]
    idle: int = 0
    best: float = np.inf


@dataclass(frozen=True, eq=False)
class Point:
    """Thresholds, and what follows from them.

    Attributes
    ----------
    level : ndarray of shape (n_cells, n_classes)
        The thresholds.
    worth : ndarray of the same shape
        Minus the best prices for them.
    levels : ndarray of shape (n_classes,)
        Of the means of the classes.
    supports : Supports
        Which classes each row has then, with the curvature.
    excess : ndarray of shape (n_cells, n_classes)
        By how much the sum of the row of each class exceeds 1.
    """

    level: Floats
    worth: Floats
    levels: Floats
    supports: Supports
    excess: Floats


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The method for one problem.

    Attributes
    ----------
    oracle : ClassOracle
    parity : Parity
        The paper's constraint, every group with weight.
    lam : float
    """

    oracle: ClassOracle
    parity: Parity
    lam: float
    name: str = "thresholds"

    def start(self, prices: Floats) -> ThresholdState:
        """Start at these prices."""
        seen, top = self.look(prices), _top(prices)
        # Half way between the best class and the threshold at which the row gives up its label.
        level = np.where(seen.level > top, 0.5 * (seen.level + top), seen.level)
        return replace(seen, level=level)

    def step(self, state: ThresholdState) -> ThresholdState:
        """Take one accepted step on the thresholds."""
        with np.errstate(all="ignore"):  # a step beyond floating point is caught here
            there, seen, damping = self._accepted(state)
        if not np.isfinite(seen.residual):
            return replace(state, stalled=True)
        # A row that keeps its label whole has any threshold between the best class and the one at
        # which it would give up some of it.
        top = _top(seen.prices)
        level = np.where(seen.level > top, np.clip(there.level, top, seen.level), seen.level)
        gains = seen.residual < 0.5 * state.best or state.best > TOLERANCE
        return replace(
            seen,
            level=level,
            levels=there.levels,
            damping=damping,
            idle=0 if gains else state.idle + 1,
            best=min(seen.residual, state.best),
            stalled=not gains and state.idle >= 4,  # near the answer no gain will come
        )

    def look(self, prices: Floats) -> ThresholdState:
        """Evaluate prices, with the best thresholds of the rows."""
        parity = self.parity
        # Rounding leaves some classes out of balance; what has no price stays without one.
        priced = prices != 0
        total = parity.share @ priced
        prices = prices - priced * (parity.share @ prices) / np.where(total > 0, total, 1.0)
        _, level, means, value = self.oracle.respond(prices, self.lam)
        dual = parity.support(parity.settle(prices)) - float(parity.share @ value)
        target = parity.project(means + prices / (SETTINGS.step_length * self.lam))
        residual = float(np.abs(means - target.means).max())
        return ThresholdState(prices, residual, level, dual, np.full(prices.shape[1], np.nan))

    def point(self, level: Floats, levels: Floats) -> Point:
        """Compute the best prices for these thresholds, from levels of the means near them."""
        weight, epsilon = self.oracle.weight, self.parity.bound.epsilon
        worth, levels = self.oracle.kernel.balanced(
            level, weight, self.parity.share, self.lam, epsilon, levels
        )
        supports, excess = self.oracle.supports_at(worth, level, self.lam)
        return Point(level, worth, levels, supports, excess)

    def slope(self, at: Point, level: Floats) -> float:
        """Return how fast the dual changes along a change of the thresholds."""
        return -float(self.parity.share @ (self.oracle.weight * at.excess * level).sum(axis=1))

    def direction(self, at: Point, damping: float) -> Floats:
        """Return the change of thresholds after which every row sums to 1, to first order.

        The change of prices that it goes with keeps every class in balance.
        """
        supports, lam, share = at.supports, self.lam, self.parity.share
        mean = share @ self.oracle.weight
        damped = damping * np.maximum(mean, 1e-9 * mean.max()) / lam
        free = (at.worth != 0) | (self.parity.bound.epsilon == 0)
        precision = float(np.clip(0.1 * np.abs(at.excess).max(), 1e-10, 0.1))  # inexact Newton
        spread = supports.spread(at.excess)
        worth = supports.solution(spread, free, share, damped, precision)
        counts = supports.counts
        moved = supports.averages(worth) + lam * at.excess / np.maximum(counts, 1.0)
        if lam >= 1.0:
            return moved
        # A row that keeps its label whole stays at its place between the best class and where it
        # would give up some of it.
        low, high = at.worth.max(axis=1, keepdims=True), at.worth + 1.0 - lam
        low_there, high_there = (at.worth + worth).max(axis=1, keepdims=True), high + worth
        part = np.clip((at.level - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
        between = (1.0 - part) * low_there + part * high_there
        return np.where(counts > 0, moved, between - at.level)

    def _accepted(self, state: ThresholdState) -> tuple[Point, ThresholdState, float]:
        """Return a better point, what is seen there, and the damping for the next step."""
        here = self.point(state.level, state.levels)
        damping = state.damping
        while True:
            there, length, gained = self._searched(here, self.direction(here, damping))
            last = damping >= _DAMPING[1]
            if gained or last:
                seen = self.look(-there.worth)
                if seen.dual <= state.dual + ROUNDING or last:
                    # A whole step asks for less damping, a very short one for more.
                    factor = 0.1 if length == 1.0 else 1.0 if length > 0.1 else 3.0
                    return there, seen, max(damping * factor, _DAMPING[0])
            damping = max(damping * 10.0, 1e-3)

    def _searched(self, here: Point, direction: Floats) -> tuple[Point, float, bool]:
        """Search along a direction, by false position, for a small slope of the convex dual.

        Return the point, the length, and whether the slope is small enough there.
        """
        start, length = self.slope(here, direction), 1.0
        whole = there = self.point(here.level + direction, here.levels)
        ahead = self.slope(whole, direction)
        if ahead <= _SLOPE * abs(start):
            return whole, length, True
        low, high = (0.0, start), (1.0, ahead)
        for _ in range(_SEARCH_STEPS):
            (nearest, below), (farthest, above) = low, high
            part = float(np.clip(-below / (above - below), 0.1, 0.9))
            length = nearest + part * (farthest - nearest)
            levels = (1.0 - length) * here.levels + length * whole.levels
            there = self.point(here.level + length * direction, levels)
            ahead = self.slope(there, direction)
            if abs(ahead) <= 0.5 * abs(start):
                break
            low, high = (low, (length, ahead)) if ahead > 0 else ((length, ahead), high)
        return there, length, ahead <= _SLOPE * abs(start)


def _top(prices: Floats) -> Floats:
    """Return what the best class of each cell is worth."""
    return np.asarray(-prices.min(axis=1, keepdims=True))
