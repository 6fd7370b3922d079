"""Every group is within epsilon of the mean over all groups: fairlearn's "to_overall"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._constraints.bounds.base import (
    Bound,
    Projected,
    Sides,
    balance_at_kinks,
    band,
    within_piece,
)
from r2b._data.arrays import Floats, divided


@dataclass(frozen=True, eq=False)
class OverallBound(Bound):
    """Every group within epsilon of the weighted mean over all groups of its family.

    Examples
    --------
    >>> bound = OverallBound(np.array([0.1, 0.1]))
    >>> means = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> bound.project(means, np.array([0.5, 0.5])).means.round(3)
    array([[0.8, 0.2],
           [0.6, 0.4]])
    """

    name = "to_overall"
    title = "From all rows"
    description = "largest distance of a group from all rows"
    level = "mean"
    apart = 2.0  # to either side

    def sides(self, n_groups: int) -> Sides:
        """Return epsilon on both sides of the mean over all."""
        return band(self.epsilon, n_groups)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the largest distance of a group from the mean over all."""
        return np.asarray(np.abs(means - weight @ means / weight.sum()).max(axis=0))

    def implied_by(self, other: Bound) -> bool:
        """Return whether averages of means within another bound are within this one."""
        if type(other) is type(self) and self.epsilon.ndim == other.epsilon.ndim == 1:
            return bool((other.epsilon <= self.epsilon).all())
        return super().implied_by(other)

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Balance the prices over all groups; those of unbounded entries are one number."""
        bounded = self.sides(len(prices)).bounded
        unbounded = weight[:, None] * ~bounded
        common = divided((unbounded * prices).sum(axis=0), unbounded.sum(axis=0))
        prices = np.where(bounded, prices, common)
        return np.asarray(prices - weight @ prices / weight.sum())

    def support(self, prices: Floats, weight: Floats) -> float:
        """Return the sum of ``W w |nu - median|``, the median weighted by shares and widths W w.

        Deviations from the mean add up to zero, so a common part of the prices pays nothing.
        """
        sides = self.sides(len(prices))
        size = weight[:, None] * sides.high
        order = np.argsort(prices, axis=0, kind="stable")
        passed = np.cumsum(np.take_along_axis(size, order, axis=0), axis=0)
        place, columns = np.argmax(passed >= 0.5 * passed[-1], axis=0), np.arange(prices.shape[1])
        median = prices[order[place, columns], columns]
        # an entry without a bound may be off by any amount: its price is the common part
        unbounded = np.where(sides.bounded, -np.inf, prices).max(axis=0)
        median = np.where(np.isfinite(unbounded), unbounded, median)
        return float((size * np.abs(prices - median)).sum())

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Keep the mean over all; clip the deviations, shifted until the rest balances again."""
        sides = self.sides(len(means))
        overall = weight @ means / weight.sum()
        apart = means - overall
        beyond = 2.0 * np.abs(apart).max(axis=0, initial=0.0) + 1.0
        width = np.where(sides.bounded, sides.high, beyond)
        # The balance of clipped deviations grows with the shift; it bends where an entry enters or
        # leaves its band.
        kinks = np.concatenate([-width - apart, width - apart]).T
        bends = np.tile(np.concatenate([weight, -weight]), (kinks.shape[0], 1))
        ordered, balance = balance_at_kinks(kinks, bends, np.zeros(len(kinks)), -(weight @ width))
        middle = within_piece(ordered.T, (balance < 0).sum(axis=1))
        above, below = apart + middle > width, apart + middle < -width
        free = weight @ ~(above | below)
        cut = weight @ np.where(above, width, np.where(below, -width, apart))
        shift = divided(-cut, free, middle)
        inside = self.violation(means, weight) <= 0
        clipped = ((above | below) & ~inside) | sides.equal
        moved = overall + np.clip(apart + shift, -width, width)
        return Projected(np.where(inside, means, moved), clipped, np.ones_like(means))

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Return the derivative: clipped entries follow the mean, free ones keep distances."""
        n_groups, n_classes = at.means.shape
        everyone = np.broadcast_to(weight / weight.sum(), (n_classes, n_groups, n_groups)).copy()
        free = ~at.clipped.T
        mine = free * weight
        mean = mine / np.maximum(mine.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        own = free[:, :, None] * (np.eye(n_groups) - mean[:, None, :])
        unclipped = np.asarray(free.all(axis=1))[:, None, None]
        return np.where(unclipped, np.eye(n_groups), everyone + own)
