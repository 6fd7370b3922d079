"""Class labels in narrow open bands: thresholds where bands give, softly at first and ever less, to learn who leans on which side.

With many groups nearly all of their means lean on a side of the band of their class. Which side is
combinatorial, and steps that take the sides for given go in circles. Where bands give
(``soft_bands``) there are no sides, and one Newton step on thresholds sees all of them. From one
softness to the next the answer moves little; where it is far below any price but those of the means
inside their bands, exact bands take over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._solve.oracle.memory import ClassOracle
from r2b._solve.oracle.soft_bands import balanced_softly, falls, places
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.thresholds import Point, Seen, Thresholds, ThresholdState

# softness: prices are of the order of 1, and far above this but where they end at 0
_FIRST, _LAST = 1.0, 3e-6
# times the last: softness from which on it is worth knowing what exact bands make of its prices
_SHOWN = 100.0
# of the narrowest epsilon: residual at which bands give less, and at which the last of them are
# left
_ROUGHLY, _CLOSELY = 0.03, 1e-4
# steps for one softness, where five are the rule, and for the last: closer, exact bands take fewer
_TRIES, _LAST_TRIES = 15, 30
# steps from which on the softness falls by as much as before, and more than which it falls by less
_QUICK, _SLOW = 2, 4
_RATIO, _FASTER, _SLOWER = 0.2, 1.5, 0.6  # from one softness to the next at first, and powers of it
_SMALLEST, _LARGEST = 0.01, 0.3  # ratios
_STIFFER = 2e3  # times the damping: by how much bands are taken for stiffer than they are
_EVEN = 0.01  # times the damping: by how much all else is
_KEPT = 0.5  # of the damping that the last softness needed: the next one needs it too
# how closely directions are found, by what rows are off by: rows bend more than closer ones would
# gain
_LOOSELY, _LOOSEST = 0.1, 0.03


@dataclass(frozen=True, eq=False)
class SoftState(State):
    """Where the path stands; the residual is that of exact bands, where it began or near its end.

    Attributes
    ----------
    inner : ThresholdState
        For bands that give as they do now.
    soft, ratio : float
        How much they do, and the last factor of it.
    taken : int
        Steps for this softness.
    """

    inner: ThresholdState
    soft: float
    ratio: float = _RATIO
    taken: int = 0


@dataclass(frozen=True, eq=False)
class SoftBands:
    """The path to exact bands: a step is one on the thresholds, and on along the path where they are found.

    Parameters
    ----------
    oracle : ClassOracle
    parity : Parity
        The paper's constraint, every group with weight and every class with an open band.
    lam : float
    """

    oracle: ClassOracle
    parity: Parity
    lam: float
    name: str = "soft bands"

    def start(self, prices: Floats) -> SoftState:
        """Begin where bands give so much that they hardly matter."""
        return SoftState(
            prices, self._exact(prices).residual, self._at(_FIRST).start(prices), _FIRST
        )

    def step(self, state: SoftState) -> SoftState:
        """One step on the thresholds."""
        inner, taken = self._at(state.soft).step(state.inner), state.taken + 1
        enough, tries = (_CLOSELY, _LAST_TRIES) if state.soft <= _LAST else (_ROUGHLY, _TRIES)
        if (
            inner.residual > enough * float(self.parity.bound.epsilon.min())
            and taken < tries
            and not inner.stalled
        ):
            return replace(state, inner=inner, taken=taken)
        if state.soft <= _SHOWN * _LAST:
            seen = self._exact(inner.prices)
            state = replace(state, prices=seen.prices, residual=seen.residual)
        if state.soft <= _LAST:
            return replace(state, stalled=True)
        ratio = float(
            np.clip(
                state.ratio ** (_FASTER if taken <= _QUICK else 1.0 if taken <= _SLOW else _SLOWER),
                _SMALLEST,
                _LARGEST,
            )
        )
        soft = ratio * state.soft
        begun = self._at(soft).start(inner.prices)
        # At first bands are as stiff as they were: what follows from there to first order goes less
        # astray.
        damping = max((1.0 / ratio - 1.0) / _STIFFER, _KEPT * state.inner.damping)
        begun = replace(begun, level=inner.level, levels=inner.levels, damping=damping)
        return replace(state, inner=begun, soft=soft, ratio=ratio, taken=0)

    def _at(self, soft: float) -> _SoftThresholds:
        return _SoftThresholds(self.oracle, self.parity, self.lam, soft=soft)

    def _exact(self, prices: Floats) -> Seen:
        return Thresholds(self.oracle, self.parity, self.lam).look(prices, self.lam)


@dataclass(frozen=True, eq=False)
class _SoftThresholds(Thresholds):
    """Thresholds for bands that give."""

    soft: float = _FIRST
    gain: ClassVar[float] = 0.5
    rougher: ClassVar[float] = 5.0  # what one step needed of damping the next one does too

    def look(self, prices: Floats, lam: float) -> Seen:
        """Evaluate prices."""
        share = self.parity.share
        prices = prices - share @ prices
        _, level, means, value = self.oracle.respond(prices, lam)
        place, cost = places(-prices, self.parity.bound.epsilon, self.soft)
        off = means - place
        return Seen(
            prices, float(share @ (cost.sum(axis=1) - value)), level, lambda: off - share @ off
        )

    def point(self, level: Floats, lam: float, levels: Floats, worth: Floats) -> Point:
        """Give the best prices for these thresholds."""
        weight, epsilon = self.oracle.weight, self.parity.bound.epsilon
        worth, levels = balanced_softly(
            level, weight, self.parity.share, lam, epsilon, levels, worth, self.soft
        )
        supports, excess = self.oracle.supports_at(worth, level, lam)
        return Point(level, worth, levels, supports, excess)

    def change(self, at: Point, lam: float, damping: float) -> Floats:
        """Give the change of worth; too long a step is one across sides of bands, so that damping is in how stiff they are."""
        fall = falls(at.worth, self.parity.bound.epsilon, self.soft)
        extra = self.damped(_EVEN * damping, lam) + (1.0 + _STIFFER * damping) * fall
        precise = float(np.clip(_LOOSELY * np.abs(at.excess).max(), 1e-10, _LOOSEST))
        return at.supports.solution(
            at.supports.spread(at.excess), True, self.parity.share, extra, precise
        )
