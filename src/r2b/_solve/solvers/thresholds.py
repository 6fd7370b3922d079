"""Class labels by their structure: Newton on the thresholds of the rows, with the prices of every class found exactly for given thresholds.

The dual is a minimum over prices and thresholds together. For given prices each row has its best
threshold; for given thresholds each class has its best prices, whatever those of the others
(``balanced``), bounds included. What is left to find is which thresholds go together. There Newton
works well: the curvature of a row is its weight times the number of classes it gives to, which
changes little when one more class joins. By prices it would jump by orders of magnitude, from the
weight of a class to that of all rows that begin to give to it. The step solves one linear system by
conjugate gradients, with products that cost a few cumulative sums (``classes``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._solve.oracle.memory import ClassOracle, Supports
from r2b._solve.solvers.driver import State

_GAMMA = 0.95  # of lam, as in Newton: the residuals of both are the same
_SHORTEST = 0.3  # a step is cut to no less; below that damping is the better remedy
_LEAST, _WORTHWHILE, _MOST = 1e-9, 1e-3, 1e3  # damping, in units of a class's mean over lam
# factors of the damping after a failure, and after a success that took several tries
_GENTLER, _RECOVERED = 10.0, 3.0
# a step is stretched while this part of its slope is left
_STRAIGHT, _STRETCH, _LONGEST = 0.98, 8.0, 1e9
_NOISE = 1e-14  # of the dual
_FALLS = 1e-11  # by how much the dual must fall for a step to count where the residual stays
_SOLVED = 1e-8  # residual at which a problem on the path has done its part
# residual from which rounding may hide the rest, and steps without any gain there
_NEAR, _LAST_TRIES = 1e-10, 5
_PATIENCE = 60  # steps for a problem on the path, and without any gain at its end
_FACTOR = 0.7  # from one lam on the path to the next, at first
# powers and limits of the factor between neighbours on the path
_SLOWER, _FASTER, _WIDEST, _STUCK = 0.4, 1.5, 0.5, 1.0 - 1e-6


@dataclass(frozen=True, eq=False)
class ThresholdState(State):
    """Where the iteration stands; the residual is as Newton's, for the problem asked for.

    Attributes
    ----------
    level : ndarray of the shape of the prices
        Threshold of the row of each class.
    lam : float
        Of the problem on the path that is being solved.
    home : tuple
        Thresholds and lam of the last one solved.
    factor : float
        From one lam to the next.
    damping : float
    levels : ndarray of shape (n_classes,)
        Of the means of the classes, to start the next search from.
    dual : float
        Of the problem on the path.
    taken, best : int, float
        Steps since the last gain, and the smallest residual so far.
    """

    level: Floats
    lam: float
    home: tuple[Floats, float]
    factor: float
    damping: float
    levels: Floats
    dual: float
    taken: int = 0
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
    """Settings for one problem.

    Parameters
    ----------
    oracle : ClassOracle
    parity : Parity
        The paper's constraint, every group with weight.
    lam : float
    path : bool
        Below 1 rows may keep their labels whole, and nothing tells how far prices are from making
        them move. The few problems that fail for it are solved along a path: smaller and smaller
        lam in turn, each from the last.
    """

    oracle: ClassOracle
    parity: Parity
    lam: float
    path: bool = False
    name: str = "thresholds"
    gain: ClassVar[float] = 0.9  # a step must leave less than this part of the slope along it
    rougher: ClassVar[float] = 30.0  # factor of the damping after a success

    def start(self, prices: Floats) -> ThresholdState:
        """Begin at these prices, or at the labels as they are where a path leads away from them."""
        if self.path:
            prices = np.zeros_like(prices)
        begin = max(self.lam, 1.0) if self.path else self.lam
        seen = self.look(prices, begin)
        # As far from giving as the costliest class is from taking.
        level = np.where(seen.level > _top(prices), 0.5 * (seen.level + _top(prices)), seen.level)
        residual = seen.residual if begin == self.lam else self.look(prices, self.lam).residual
        levels = np.full(prices.shape[1], np.nan)
        return ThresholdState(
            prices, residual, level, begin, (level, begin), _FACTOR, _LEAST, levels, seen.dual
        )

    def step(self, state: ThresholdState) -> ThresholdState:
        """One accepted step on the thresholds, and on along the path where its problem is solved."""
        before = state.dual
        with np.errstate(all="ignore"):  # a step beyond floating point is caught here
            there, seen, damping = self._try(state)
        if not np.isfinite(seen.residual):
            return replace(state, stalled=True)
        # A row that keeps its label whole has any threshold between the costliest class and what
        # would make it give.
        top = _top(seen.prices)
        level = np.where(seen.level > top, np.clip(there.level, top, seen.level), seen.level)
        state = replace(
            state,
            prices=seen.prices,
            level=level,
            damping=damping,
            levels=there.levels,
            dual=seen.dual,
        )
        return self._along(state, seen.residual, falls=before - seen.dual > _FALLS)

    def _try(self, state: ThresholdState) -> tuple[Point, Seen, float]:
        """Give a better point, what is seen there, and the damping for the next step."""
        here = self.point(state.level, state.lam, state.levels, -state.prices)
        damping, first = state.damping, True
        while True:
            worth, level = self._direction(here, state.lam, damping)
            there, length, gained = self._along_line(here, worth, level, state.lam)
            if gained or damping >= _MOST:
                seen = self.look(-there.worth, state.lam)
                if length == 1.0:
                    seen = seen.better(self.look(-(here.worth + worth), state.lam))
                if seen.dual <= state.dual + _NOISE or damping >= _MOST:
                    eased = 1.0 if length < 1.0 else self.rougher if first else _RECOVERED
                    return there, seen, max(damping / eased, _LEAST)
            damping, first = max(damping * _GENTLER, _WORTHWHILE), False

    def _along_line(
        self, here: Point, worth: Floats, level: Floats, lam: float
    ) -> tuple[Point, float, bool]:
        """Go along a direction to where its slope is small: give the point, the length, and whether it is."""
        slope, length = self._slope(here, level), 1.0
        there = self.point(here.level + level, lam, here.levels, here.worth + worth)
        ahead = self._slope(there, level)
        if ahead > self.gain * abs(slope):
            length = max(-slope / (ahead - slope), _SHORTEST)
            there = self.point(
                here.level + length * level, lam, here.levels, here.worth + length * worth
            )
            return there, length, self._slope(there, level) <= self.gain * abs(slope)
        # Where nothing bends, as between rows that keep their labels, only a bound of a class ends
        # the way.
        while ahead < -_STRAIGHT * abs(slope) and length < _LONGEST:
            further = self.point(
                here.level + _STRETCH * length * level, lam, here.levels, here.worth
            )
            ahead = self._slope(further, level)
            if ahead > self.gain * abs(slope):
                break
            there, length = further, _STRETCH * length
        return there, length, True

    def _along(self, state: ThresholdState, residual: float, *, falls: bool) -> ThresholdState:
        if state.lam == self.lam:
            gained = residual < 0.5 * state.best or (falls and state.best > _NEAR)
            taken = 0 if gained else state.taken + 1
            return replace(
                state,
                residual=residual,
                taken=taken,
                best=min(residual, state.best),
                stalled=taken >= (_LAST_TRIES if state.best <= _NEAR else _PATIENCE),
            )
        state = replace(
            state, residual=self.look(state.prices, self.lam).residual, taken=state.taken + 1
        )
        if residual > _SOLVED and state.taken < _PATIENCE:
            return state
        if residual <= _SOLVED:
            # The next problem begins with these thresholds as they are: a Newton step from there
            # follows the path.
            home, factor = (
                (state.level, state.lam),
                max(state.factor**_FASTER, _WIDEST) if state.lam < 1 else state.factor,
            )
        else:
            home, factor = state.home, state.factor**_SLOWER
        lam = home[1] * factor
        lam = self.lam if lam < self.lam * (1.0 + 1e-4) else lam
        return replace(
            state,
            level=home[0],
            lam=lam,
            home=home,
            factor=factor,
            damping=_LEAST,
            dual=np.inf,
            taken=0,
            stalled=factor > _STUCK,
        )

    def look(self, prices: Floats, lam: float) -> Seen:
        """Evaluate prices."""
        # Rounding leaves some classes out of balance; what has no price stays without one.
        priced = prices != 0
        total = self.parity.share @ priced
        prices = prices - priced * (self.parity.share @ prices) / np.where(total > 0, total, 1.0)
        _, level, means, value = self.oracle.respond(prices, lam)
        dual = self.parity.support(self.parity.settle(prices)) - float(self.parity.share @ value)
        return Seen(
            prices,
            dual,
            level,
            lambda: means - self.parity.project(means + prices / (_GAMMA * lam)).means,
        )

    def point(self, level: Floats, lam: float, levels: Floats, worth: Floats) -> Point:
        """Give the best prices for these thresholds; levels and worth are near them."""
        weight, epsilon = self.oracle.weight, self.parity.bound.epsilon
        worth, levels = self.oracle.kernel.balanced(
            level, weight, self.parity.share, lam, epsilon, levels
        )
        supports, excess = self.oracle.supports_at(worth, level, lam)
        return Point(level, worth, levels, supports, excess)

    def _slope(self, at: Point, level: Floats) -> float:
        """How fast the dual changes along a change of the thresholds."""
        return -float(self.parity.share @ (self.oracle.weight * at.excess * level).sum(axis=1))

    def _direction(self, at: Point, lam: float, damping: float) -> tuple[Floats, Floats]:
        """Give the changes of worth and thresholds that bring every row to a sum of 1 and keep every class in balance, to first order."""
        worth = self._within_reach(at, self.change(at, lam, damping), lam)
        return worth, self._moved(at, worth, lam)

    def _within_reach(self, at: Point, worth: Floats, lam: float) -> Floats:
        """Let no class that no row gives to rise further than where rows would: they hold it there, of which the supports know nothing."""
        there = at.worth + worth
        given = at.supports.given > 0
        held = np.where(given, there, -np.inf).max(axis=1, keepdims=True)
        held = np.maximum(held, there.min(axis=1, keepdims=True) + 1.0 - lam)
        return np.where(given, worth, np.minimum(worth, np.maximum(held - at.worth, 0.0)))

    def change(self, at: Point, lam: float, damping: float) -> Floats:
        """Give the change of worth of such a direction."""
        supports = at.supports
        free = (at.worth != 0) | (self.parity.bound.epsilon == 0)
        precise = float(np.clip(1e-3 * np.abs(at.excess).max(), 1e-10, 1e-4))
        return supports.solution(
            supports.spread(at.excess), free, self.parity.share, self.damped(damping, lam), precise
        )

    def damped(self, damping: float, lam: float) -> Floats:
        """Give what damping adds to the curvature of each class."""
        mean = self.parity.share @ self.oracle.weight
        return np.asarray(damping * np.maximum(mean, 1e-9 * mean.max()) / lam)

    def _moved(self, at: Point, worth: Floats, lam: float) -> Floats:
        """Give the change of thresholds that brings every row to a sum of 1 where the worth of classes changes so."""
        counts = at.supports.counts
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
