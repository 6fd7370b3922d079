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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._solve.oracle import ClassOracle, Supports
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.settings import SETTINGS, TOLERANCE

_DAMPING = (1e-9, 1e3)  # least and most, in units of a class's mean over lam
_SLOPE = 0.9  # a step must leave less than this part of the slope along it
_STRETCH = 8.0  # factor of a step while its slope hardly changes
_NOISE = 1e-14  # differences of the dual below this are rounding


@dataclass(frozen=True, eq=False)
class ThresholdState(State):
    """Where the iteration stands; the residual is the largest entry of E, as in Newton's method.

    Attributes
    ----------
    level : ndarray of the shape of the prices
        Threshold of the row of each class.
    damping : float
    levels : ndarray of shape (n_classes,)
        Of the means of the classes, to start the next search from.
    dual : float
    idle : int
        Steps since the last gain.
    best : float
        The smallest residual so far.
    """

    level: Floats
    damping: float
    levels: Floats
    dual: float
    idle: int = 0
    best: float = np.inf


@dataclass(frozen=True, eq=False)
class Point:
    """Thresholds with the best prices for them: what each class is worth, which rows give to it, how far row sums are off 1."""

    level: Floats
    worth: Floats
    levels: Floats
    supports: Supports
    excess: Floats


@dataclass(frozen=True, eq=False)
class Seen:
    """Prices, the value of the dual, which falls towards the answer, the best thresholds of the rows, and how to tell the residual."""

    prices: Floats
    dual: float
    level: Floats
    off: Callable[[], Floats]

    @cached_property
    def residual(self) -> float:
        """How far the prices are from optimal; found where it is asked for, since it may cost more than the rest."""
        return float(np.abs(self.off()).max())

    def better(self, other: Seen) -> Seen:
        """Give the one with the lower dual, or where that does not tell them apart the one with the lower residual."""
        if abs(self.dual - other.dual) <= _NOISE:
            return self if self.residual <= other.residual else other
        return self if self.dual < other.dual else other


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
        seen = self.look(prices)
        # As far from giving as the costliest class is from taking.
        level = np.where(seen.level > _top(prices), 0.5 * (seen.level + _top(prices)), seen.level)
        levels = np.full(prices.shape[1], np.nan)
        return ThresholdState(prices, seen.residual, level, _DAMPING[0], levels, seen.dual)

    def step(self, state: ThresholdState) -> ThresholdState:
        """Take one accepted step on the thresholds."""
        with np.errstate(all="ignore"):  # a step beyond floating point is caught here
            there, seen, damping = self._try(state)
        if not np.isfinite(seen.residual):
            return replace(state, stalled=True)
        # A row that keeps its label whole has any threshold between the costliest class and what
        # would make it give.
        top = _top(seen.prices)
        level = np.where(seen.level > top, np.clip(there.level, top, seen.level), seen.level)
        falls = state.dual - seen.dual > 1e-11 and state.best > TOLERANCE
        idle = 0 if seen.residual < 0.5 * state.best or falls else state.idle + 1
        return ThresholdState(
            seen.prices,
            seen.residual,
            level,
            damping,
            there.levels,
            seen.dual,
            idle,
            min(seen.residual, state.best),
            stalled=idle >= (5 if state.best <= TOLERANCE else 60),
        )

    def _try(self, state: ThresholdState) -> tuple[Point, Seen, float]:
        """Give a better point, what is seen there, and the damping for the next step."""
        here = self.point(state.level, state.levels, -state.prices)
        damping, first = state.damping, True
        while True:
            worth, level = self._direction(here, damping)
            there, length, gained = self._along_line(here, worth, level)
            if gained or damping >= _DAMPING[1]:
                seen = self.look(-there.worth)
                if length == 1.0:
                    seen = seen.better(self.look(-(here.worth + worth)))
                if seen.dual <= state.dual + _NOISE or damping >= _DAMPING[1]:
                    eased = 1.0 if length < 1.0 else 30.0 if first else 3.0
                    return there, seen, max(damping / eased, _DAMPING[0])
            damping, first = max(damping * 10.0, 1e-3), False

    def _along_line(self, here: Point, worth: Floats, level: Floats) -> tuple[Point, float, bool]:
        """Go along a direction to where its slope is small: give the point, the length, and whether it is."""
        slope, length = self._slope(here, level), 1.0
        there = self.point(here.level + level, here.levels, here.worth + worth)
        ahead = self._slope(there, level)
        if ahead > _SLOPE * abs(slope):
            length = max(-slope / (ahead - slope), 0.3)
            there = self.point(
                here.level + length * level, here.levels, here.worth + length * worth
            )
            return there, length, self._slope(there, level) <= _SLOPE * abs(slope)
        # Where nothing bends, as between rows that keep their labels, only a bound of a class ends
        # the way.
        while ahead < -0.98 * abs(slope) and length < 1e9:
            further = self.point(here.level + _STRETCH * length * level, here.levels, here.worth)
            ahead = self._slope(further, level)
            if ahead > _SLOPE * abs(slope):
                break
            there, length = further, _STRETCH * length
        return there, length, True

    def look(self, prices: Floats) -> Seen:
        """Evaluate prices."""
        # Rounding leaves some classes out of balance; what has no price stays without one.
        priced = prices != 0
        total = self.parity.share @ priced
        prices = prices - priced * (self.parity.share @ prices) / np.where(total > 0, total, 1.0)
        _, level, means, value = self.oracle.respond(prices, self.lam)
        dual = self.parity.support(self.parity.settle(prices)) - float(self.parity.share @ value)
        return Seen(
            prices,
            dual,
            level,
            lambda: (
                means
                - self.parity.project(means + prices / (SETTINGS.step_length * self.lam)).means
            ),
        )

    def point(self, level: Floats, levels: Floats, worth: Floats) -> Point:
        """Give the best prices for these thresholds; levels and worth are near them."""
        weight, epsilon = self.oracle.weight, self.parity.bound.epsilon
        worth, levels = self.oracle.kernel.balanced(
            level, weight, self.parity.share, self.lam, epsilon, levels
        )
        supports, excess = self.oracle.supports_at(worth, level, self.lam)
        return Point(level, worth, levels, supports, excess)

    def _slope(self, at: Point, level: Floats) -> float:
        """How fast the dual changes along a change of the thresholds."""
        return -float(self.parity.share @ (self.oracle.weight * at.excess * level).sum(axis=1))

    def _direction(self, at: Point, damping: float) -> tuple[Floats, Floats]:
        """Give the changes of worth and thresholds that bring every row to a sum of 1 and keep every class in balance, to first order."""
        worth = self._within_reach(at, self.change(at, damping))
        return worth, self._moved(at, worth)

    def _within_reach(self, at: Point, worth: Floats) -> Floats:
        """Let no class that no row gives to rise further than where rows would: they hold it there, of which the supports know nothing."""
        there = at.worth + worth
        given = at.supports.given > 0
        held = np.where(given, there, -np.inf).max(axis=1, keepdims=True)
        held = np.maximum(held, there.min(axis=1, keepdims=True) + 1.0 - self.lam)
        return np.where(given, worth, np.minimum(worth, np.maximum(held - at.worth, 0.0)))

    def change(self, at: Point, damping: float) -> Floats:
        """Give the change of worth of such a direction."""
        supports = at.supports
        free = (at.worth != 0) | (self.parity.bound.epsilon == 0)
        precise = float(np.clip(1e-3 * np.abs(at.excess).max(), 1e-10, 1e-4))
        return supports.solution(
            supports.spread(at.excess), free, self.parity.share, self.damped(damping), precise
        )

    def damped(self, damping: float) -> Floats:
        """Give what damping adds to the curvature of each class."""
        mean = self.parity.share @ self.oracle.weight
        return np.asarray(damping * np.maximum(mean, 1e-9 * mean.max()) / self.lam)

    def _moved(self, at: Point, worth: Floats) -> Floats:
        """Give the change of thresholds that brings every row to a sum of 1 where the worth of classes changes so."""
        counts, lam = at.supports.counts, self.lam
        moved = at.supports.averages(worth) + lam * at.excess / np.maximum(counts, 1.0)
        if lam >= 1.0:
            return np.asarray(moved)
        # A row that keeps its label whole stays where it is between the costliest class and what
        # would make it give.
        low, high = at.worth.max(axis=1, keepdims=True), at.worth + 1.0 - lam
        low_there, high_there = (at.worth + worth).max(axis=1, keepdims=True), high + worth
        part = np.clip((at.level - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
        moved = np.where(counts > 0, moved, (1.0 - part) * low_there + part * high_there - at.level)
        # One that begins to give does so to many classes at once, of which the supports know
        # nothing: no lower than it would end up.
        begins = (at.supports.sizes == 0) & (high_there < low_there)
        if begins.any():
            best = self.oracle.respond(-(at.worth + worth), lam)[1]
            moved = np.where(begins, np.maximum(moved, best - at.level), moved)
        return moved


def _top(prices: Floats) -> Floats:
    """Give what the costliest class of each cell is worth."""
    return np.asarray(-prices.min(axis=1, keepdims=True))
