"""Bands of constant width: groups near each other, or near the mean over all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from r2b._constraints.parity.bounds import Bound, Epsilon, Projected, Sides, epsilon_per_class
from r2b._constraints.parity.kinks import balance_at_kinks, within_piece
from r2b._data.arrays import Flags, Floats

_ZERO = 1e-11  # prices below this, which are units of labels, are none
_SAME = 1e-12  # slopes are sums of eps / 2
_FEW_GROUPS = 16  # up to which the balance is looked at from every kink to every group
_SORTED = 1 << 14  # means that are sorted at once


@dataclass(frozen=True, eq=False)
class RangeBound(Bound):
    """The paper's bound, eq. (2): for every class, max over groups - min over groups <= epsilon.

    Parameters
    ----------
    epsilon : ndarray of shape (n_classes,)
        One bound per class, each >= 0.

    Examples
    --------
    >>> bound = RangeBound.of(0.1, n_classes=2)
    >>> means = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> bound.violation(means, np.ones(2)).round(3)
    array([0.3, 0.3])
    >>> bound.project(means, np.array([0.5, 0.5])).means.round(3)
    array([[0.75, 0.25],
           [0.65, 0.35]])
    """

    kind: ClassVar[str] = "range"

    @cached_property
    def _all_bounded(self) -> bool:
        return bool(np.isfinite(self.epsilon).all())

    @cached_property
    def _some_closed(self) -> bool:
        return bool((self.epsilon == 0).any())

    @classmethod
    def of(
        cls,
        epsilon: Epsilon,
        n_classes: int,
        names: Sequence[object] | None = None,
        *,
        largest: float = np.inf,
    ) -> RangeBound:
        """Check ``epsilon`` (one number, one per class in order, or one per class by name) and freeze it."""
        return cls(epsilon_per_class(epsilon, n_classes, names, largest=largest))

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Give the largest difference between two groups."""
        return np.asarray(np.ptp(means, axis=0))

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Balance the prices within each class: only such prices bound anything."""
        return _balanced(prices, weight, self.epsilon)

    def support(self, prices: Floats, weight: Floats) -> float:
        """Value of the support function at prices with ``sum_s W_s nu_sk = 0``: ``sum_k eps_k / 2 * sum_s W_s |nu_sk|``."""
        half = 0.5 * (
            self.epsilon
            if self._all_bounded
            else np.where(np.isfinite(self.epsilon), self.epsilon, 0.0)
        )
        return float(half @ (weight @ np.abs(prices)))

    def most(self, prices: Floats, weight: Floats, shift: Floats | None = None) -> float:
        """Means are a level between 0 and 1, of shifted ones the least shift above that, and at most epsilon more."""
        level = _level(weight @ prices, None if shift is None else shift.min(axis=0))
        return float(
            (level + np.minimum(self.epsilon, 1.0) * (weight @ np.maximum(prices, 0.0))).sum()
        )

    def project(self, means: Floats, weight: Floats, leaning: Floats | None = None) -> Projected:
        """Project ``means`` class by class in the norm weighted by ``weight``.

        Values above ``c + epsilon`` and below ``c`` are clipped, where c balances what is cut off
        above and below. That balance is piecewise linear and decreasing in c, so its values at its
        2R kinks tell between which two it is 0. The signs of ``leaning`` are a guess of who is
        clipped on which side, which saves looking for it where it is right.
        """
        if (
            leaning is not None
            and (guessed := self._as_guessed(means, weight, leaning)) is not None
        ):
            return guessed
        level = self._levels(means, weight)
        upper = level + self.epsilon
        above = means > upper
        clipped = (above | (means < level)) & (means.max(axis=0) - means.min(axis=0) > self.epsilon)
        if self._some_closed:
            clipped |= self.epsilon == 0
        return Projected(
            np.where(clipped, np.where(above, upper, level), means), clipped, np.ones(means.shape)
        )

    def canonical(self, prices: Floats, weight: Floats, reach: float) -> Floats:
        """Give the prices with the means over the classes nearest to 0.

        Examples
        --------
        >>> RangeBound(np.zeros(2)).canonical(np.array([[0.5, 0.3], [-0.5, -0.3]]), np.array([0.5, 0.5]), 2.0).round(3)
        array([[ 0.1, -0.1],
               [-0.1,  0.1]])
        """
        # a class that is free has no price, and a constant would give it one
        if len(weight) == 1 or not self._all_bounded:
            return prices
        half = 0.5 * self.epsilon
        left = np.where(prices > _ZERO, 1.0, -1.0) @ half
        right = np.where(prices < -_ZERO, -1.0, 1.0) @ half
        flat = np.flatnonzero(np.abs(right - left) <= _SAME)
        if not len(flat):
            # every group sits on a corner: the prices are the only ones
            return self.settle(prices, weight)
        slope = left[flat[0]]
        # the constant at which a price changes its sign
        breaks = np.where(self.epsilon > 0, -prices, np.nan)
        lowest = np.where(breaks < -_ZERO, breaks, -np.inf).max(axis=1, initial=-np.inf)
        highest = np.where(breaks > _ZERO, breaks, np.inf).min(axis=1, initial=np.inf)
        lowest = np.where(np.abs(left - slope) <= _SAME, lowest, 0.0)
        highest = np.where(np.abs(right - slope) <= _SAME, highest, 0.0)
        return self.settle(
            prices + _moves(prices.mean(axis=1), lowest, highest, weight)[:, None], weight
        )

    def sides(self) -> Sides:
        """Write the bound as inequalities: between a free level and epsilon above it."""
        one = np.ones_like(self.epsilon)
        return Sides(0.0 * one, self.epsilon, one, one, "free")

    def _as_guessed(self, means: Floats, weight: Floats, leaning: Floats) -> Projected | None:
        """Clip just those that lean on a side, where the level that they balance around agrees; None where it does not."""
        above, below = leaning > 0, leaning < 0
        leans = above | below
        cut = weight @ leans
        if not self._all_bounded or not cut.all():
            return None
        tops = means - self.epsilon
        level = weight @ np.where(above, tops, np.where(below, means, 0.0)) / cut
        if not (((tops > level) == above) & ((means < level) == below)).all():
            return None
        clipped = leans | (self.epsilon == 0) if self._some_closed else leans
        return Projected(
            np.where(leans, np.where(above, level + self.epsilon, level), means),
            clipped,
            np.ones(means.shape),
        )

    def _levels(self, means: Floats, weight: Floats) -> Floats:
        eps = self.epsilon
        if not self._all_bounded:
            eps = np.where(np.isfinite(eps), eps, 2.0 + 2.0 * np.abs(means).max(initial=0.0))
        tops = means - eps
        if len(means) == 2:
            # between the lower mean and the higher less epsilon, in whichever order
            middle = 0.5 * (means[0] + tops[1])
        elif len(means) <= _FEW_GROUPS:
            middle = _middle_of_few(means, tops, weight)
        else:
            step = max(1, _SORTED // len(means))  # a few classes at a time, which stay in cache
            parts = [slice(first, first + step) for first in range(0, len(eps), step)]
            middle = np.concatenate(
                [_middle_of_many(means[:, part], tops[:, part], weight) for part in parts]
            )
        # Which values are cut is now known; the level that balances them is computed afresh, free
        # of the sums' rounding.
        above, below = tops > middle, means < middle
        cut = weight @ (above | below)
        total = weight @ np.where(above, tops, np.where(below, means, 0.0))
        return np.asarray(np.divide(total, cut, out=middle, where=cut > 0))


def _middle_of_few(means: Floats, tops: Floats, weight: Floats) -> Floats:
    """Give a point inside the piece that holds the level, from the balance at every kink: a sort costs more calls than it saves sums."""
    kinks = np.concatenate([tops, means])
    here = kinks[:, None, :]
    positive = weight @ (np.maximum(tops - here, 0.0) - np.maximum(here - means, 0.0)) > 0
    # Where all means are equal the balance is 0 from the first kink on.
    left = np.where(positive, kinks, tops.min(axis=0)).max(axis=0)
    return np.asarray(0.5 * (left + np.where(positive, np.inf, kinks).min(axis=0)))


def _middle_of_many(means: Floats, tops: Floats, weight: Floats) -> Floats:
    """Give the same by one sort of the kinks, class after class."""
    rows = np.ascontiguousarray(means.T)
    kinks, balance = balance_at_kinks(
        np.concatenate([tops.T, rows], axis=1),
        np.concatenate([weight, -weight]),
        np.full(len(rows), -weight.sum()),
        (rows - rows.min(axis=1, keepdims=True)) @ weight,
    )
    # The first kink where the balance is no longer positive closes the piece that holds the root.
    return within_piece(kinks.T, (balance > 0).sum(axis=1))


def _balanced(prices: Floats, weight: Floats, epsilon: Floats) -> Floats:
    """Give the closest prices that balance in every class, and none for a class without a bound."""
    balanced: Floats = prices - weight @ prices / weight.sum()
    return np.where(np.isfinite(epsilon), balanced, 0.0)


def _level(paid: Floats, lowest: Floats | None) -> Floats:
    """Give the most that a level pays: one between 0 and 1, or so much above ``lowest``."""
    return np.maximum(paid, 0.0) if lowest is None else np.maximum(paid, 0.0) + paid * lowest


def _moves(means: Floats, lowest: Floats, highest: Floats, share: Floats) -> Floats:
    """Give moves within their limits, balanced, that bring the means nearest to a common level of 0: ``clip(level - mean)``."""

    def at(level: float) -> Floats:
        return np.clip(level - means, lowest, highest)

    # The balance grows with the level and is piecewise linear: between two of its corners a line
    # tells the root.
    corners = np.concatenate([means + lowest, means + highest])
    corners = np.unique(np.concatenate([corners[np.isfinite(corners)], means, [0.0]]))

    def balance(corner: int) -> float:
        return float(share @ at(corners[corner]))

    # of thousands of groups only a few corners are looked at
    after = bisect_left(range(len(corners)), 0.0, key=balance)
    if after == 0 or after == len(corners):
        edge = corners[0] if after == 0 else corners[-1]
        moving = (
            share[(at(edge) > lowest) & (at(edge) < highest)].sum() if np.isfinite(edge) else 0.0
        )
        outside = share[np.isinf(lowest if after == 0 else highest)].sum()
        pace = float(max(moving, outside))
        level = edge - float(share @ at(edge)) / pace if pace > 0 else edge
        return at(level)
    low, high = corners[after - 1], corners[after]
    short, over = balance(after - 1), balance(after)
    return at(low + (high - low) * (0.0 - short) / (over - short) if over > short else high)


def _around_median(prices: Floats, weight: Floats) -> Floats:
    """Give ``sum_s W_s |nu_s - median|`` of each class."""
    order = np.argsort(prices, axis=0, kind="stable")
    passed = np.cumsum(weight[order], axis=0)
    median = np.argmax(passed >= 0.5 * weight.sum(), axis=0)
    columns = np.arange(prices.shape[1])
    return np.asarray(weight @ np.abs(prices - prices[order[median, columns], columns]))


@dataclass(frozen=True, eq=False)
class OverallBound(Bound):
    """Every group within epsilon of the mean over all groups of its family: what fairlearn calls "to_overall".

    Examples
    --------
    >>> bound = OverallBound(np.array([0.1, 0.1]))
    >>> bound.project(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([0.5, 0.5])).means.round(3)
    array([[0.8, 0.2],
           [0.6, 0.4]])
    """

    kind: ClassVar[str] = "to_overall"

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Give the largest distance of a group from the mean over all."""
        return np.asarray(np.abs(means - weight @ means / weight.sum()).max(axis=0))

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Balance the prices: the mean over all is free, so only such prices that balance within a class bound anything."""
        return _balanced(prices, weight, self.epsilon)

    def support(self, prices: Floats, weight: Floats) -> float:
        """``eps * sum_s W_s |nu_s - median|``: deviations add up to zero, which leaves prices a common part to lose."""
        finite = np.isfinite(self.epsilon)
        return float(self.epsilon[finite] @ _around_median(prices, weight)[finite])

    def most(self, prices: Floats, weight: Floats, shift: Floats | None = None) -> float:
        """Means are the one over all, between 0 and 1 and the mean shift above that, and deviations of at most epsilon that balance."""
        level = _level(weight @ prices, None if shift is None else weight @ shift / weight.sum())
        return float((level + np.minimum(self.epsilon, 1.0) * _around_median(prices, weight)).sum())

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Keep the mean over all and clip the deviations, shifted together until what is left of them balances again."""
        overall = weight @ means / weight.sum()
        apart = means - overall
        width = np.where(
            np.isfinite(self.epsilon),
            self.epsilon,
            2.0 * np.abs(apart).max(axis=0, initial=0.0) + 1.0,
        )
        # The balance of clipped deviations grows with the shift; it bends where an entry enters or
        # leaves its band.
        kinks = np.concatenate([-width - apart, width - apart])
        if len(weight) <= _FEW_GROUPS:
            kinks = np.sort(kinks, axis=0)
            balance = np.einsum(
                "s,jsk->jk", weight, np.clip(apart[None] + kinks[:, None, :], -width, width)
            )
        else:
            ordered = balance_at_kinks(
                kinks.T, np.concatenate([weight, -weight]), 0.0 * width, -width * weight.sum()
            )
            kinks, balance = (each.T for each in ordered)
        middle = within_piece(kinks, (balance < 0).sum(axis=0))
        above, below = apart + middle > width, apart + middle < -width
        free = weight @ ~(above | below)
        cut = weight @ (
            np.where(above, width, 0.0)
            - np.where(below, width, 0.0)
            + np.where(above | below, 0.0, apart)
        )
        shift = np.where(free > 0, -cut / np.where(free > 0, free, 1.0), middle)
        inside = np.abs(apart).max(axis=0) <= self.epsilon
        equal = self.epsilon == 0
        clipped = (above | below | equal) & ~(inside & ~equal)
        moved = overall + np.clip(apart + shift, -width, width)
        return Projected(np.where(inside & ~equal, means, moved), clipped, np.ones_like(means))

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Clipped entries follow the mean over all; free ones keep what they are apart from each other."""
        n_groups, n_classes = at.means.shape
        everyone = np.broadcast_to(weight / weight.sum(), (n_classes, n_groups, n_groups)).copy()
        free = ~at.clipped.T
        own = free[:, :, None] * np.eye(n_groups)
        mine = free * weight
        own -= (
            free[:, :, None]
            * (mine / np.maximum(mine.sum(axis=1, keepdims=True), np.finfo(float).tiny))[:, None, :]
        )
        unbound = np.asarray(free.all(axis=1))[:, None, None]
        return np.where(unbound, np.eye(n_groups), everyone + own)

    def sides(self) -> Sides:
        """Write the bound as inequalities: epsilon around the mean over all."""
        one = np.ones_like(self.epsilon)
        return Sides(-self.epsilon, self.epsilon, one, one, "mean")


@dataclass(frozen=True, eq=False)
class RatioBound(Bound):
    """The smallest mean of a class at least (1 - epsilon) times the largest; 0.2 is the four-fifths rule.

    Examples
    --------
    >>> bound = RatioBound(np.array([0.2, 0.2]))
    >>> means = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> bound.measure(means, np.ones(2)).round(3)
    array([0.444, 0.8  ])
    >>> bound.project(means, np.ones(2)).means.round(3)
    array([[0.793, 0.283],
           [0.634, 0.354]])
    """

    kind: ClassVar[str] = "ratio"

    @property
    def ratio(self) -> Floats:
        """The smallest accepted ratio of each class; 0 where a class is free."""
        return np.maximum(1.0 - self.epsilon, 0.0)

    @property
    def free(self) -> Flags:
        """A ratio of 0 asks nothing of means that are never negative."""
        return self.epsilon >= 1

    def measure(self, means: Floats, weight: Floats | None = None) -> Floats:
        """One minus the ratio of the smallest mean to the largest; 0 for a class that no group has, 1 where shifted means are below 0."""
        top, least = means.max(axis=0), means.min(axis=0)
        return np.where(
            top > 0, 1.0 - least / np.where(top > 0, top, 1.0), np.where(least < 0, 1.0, 0.0)
        )

    def violation(self, means: Floats, weight: Floats | None = None) -> Floats:
        """How far the smallest mean lies below the accepted part of the largest, or where that is below 0 below 0."""
        return np.asarray(
            np.maximum(self.ratio * np.maximum(means.max(axis=0), 0.0) - means.min(axis=0), 0.0)
        )

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Take the polar part: what the projection onto the cone of allowed means leaves of the prices."""
        return prices - self.project(prices, weight).means

    def support(self, prices: Floats, weight: Floats) -> float:
        """0 at settled prices."""
        return 0.0

    def most(self, prices: Floats, weight: Floats, shift: Floats | None = None) -> float:
        """Means lie between a level of at most 1, of shifted ones the largest shift above that, and its accepted part."""
        level = 1.0 if shift is None else np.maximum(1.0 + shift.max(axis=0), 0.0)
        return float(
            (
                level
                * np.maximum(
                    weight @ (np.maximum(prices, 0.0) + self.ratio * np.minimum(prices, 0.0)), 0.0
                )
            ).sum()
        )

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Clip to ``[ratio * c, c]``, where c balances what is cut off above and, counted by the ratio, below."""
        ratio = self.ratio
        level = self._levels(means, weight)
        above, below = means > level, means < ratio * level
        # At level 0 the band is a point: the tip of the cone, where every entry ends and none can
        # move.
        tip = level <= 0
        clipped = above | below | (ratio == 1) | tip
        slope = np.where(tip, 0.0, np.where(below, ratio, 1.0))
        return Projected(
            np.where(clipped, np.where(below, ratio, 1.0) * np.maximum(level, 0.0), means),
            clipped,
            slope,
        )

    def _levels(self, means: Floats, weight: Floats) -> Floats:
        ratio = self.ratio
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(ratio > 0, means / np.where(ratio > 0, ratio, 1.0), 0.0)
        kinks = np.maximum(np.concatenate([np.zeros((1, means.shape[1])), means, lower]), 0.0)
        if len(weight) <= _FEW_GROUPS:
            kinks = np.sort(kinks, axis=0)
            over = np.maximum(means[None] - kinks[:, None, :], 0.0)
            under = np.minimum(means[None] - ratio * kinks[:, None, :], 0.0)
            balance = np.einsum("s,jsk->jk", weight, over + ratio * under)
        else:
            bends = np.concatenate(
                [
                    np.zeros((1, len(ratio))),
                    np.tile(weight[:, None], len(ratio)),
                    -(ratio**2) * weight[:, None],
                ]
            )
            first = weight @ (np.maximum(means, 0.0) + ratio * np.minimum(means, 0.0))
            ordered = balance_at_kinks(kinks.T, bends.T, np.full(len(ratio), -weight.sum()), first)
            kinks, balance = (each.T for each in ordered)
        positive = (balance > 0).sum(axis=0)
        middle = within_piece(kinks, positive)
        above, below = means > middle, means < ratio * middle
        size = weight @ (above + ratio**2 * below)
        total = weight @ (np.where(above, means, 0.0) + ratio * np.where(below, means, 0.0))
        level = np.where(
            size > 0, total / np.where(size > 0, size, 1.0), np.maximum(middle, means.max(axis=0))
        )
        # Where nothing is cut at the largest mean the whole class is inside.
        inside = (means.min(axis=0) >= ratio * means.max(axis=0)) & (means.max(axis=0) > 0)
        level = np.where(inside & (ratio < 1), means.max(axis=0), level)
        return np.where(positive == 0, 0.0, level)

    def sides(self) -> Sides:
        """Write the bound as inequalities: between the ratio of a free level and the level itself."""
        zero = np.zeros_like(self.epsilon)
        return Sides(zero, zero, self.ratio, zero + 1.0, "free")


BANDS: dict[str, type[RangeBound | OverallBound | RatioBound]] = {
    each.kind: each for each in (RangeBound, OverallBound, RatioBound)
}
