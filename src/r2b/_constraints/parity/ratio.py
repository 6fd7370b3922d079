"""A band that narrows with its level: the smallest mean a given part of the largest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity.bounds import Projected, Sides, level_derivative

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatioBound:
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
    epsilon: Floats

    def at(self, epsilon: Floats) -> RatioBound:
        """Give the same shape with another epsilon per class."""
        return replace(self, epsilon=epsilon)

    @property
    def ratio(self) -> Floats:
        """The smallest accepted ratio of each class; 0 where a class is free."""
        return np.maximum(1.0 - self.epsilon, 0.0)

    def measure(self, means: Floats, weight: Floats | None = None) -> Floats:
        """One minus the ratio of the smallest mean to the largest; 0 for a class that no group has."""
        top = means.max(axis=0)
        return np.where(top > 0, 1.0 - means.min(axis=0) / np.where(top > 0, top, 1.0), 0.0)

    def violation(self, means: Floats, weight: Floats | None = None) -> Floats:
        """How far the smallest mean lies below the accepted part of the largest."""
        return np.asarray(np.maximum(self.ratio * means.max(axis=0) - means.min(axis=0), 0.0))

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Take the polar part: what the projection onto the cone of allowed means leaves of the prices."""
        return prices - self.project(prices, weight).means

    def support(self, prices: Floats, weight: Floats) -> float:
        """0 at settled prices."""
        return 0.0

    def most(self, prices: Floats, weight: Floats) -> float:
        """Means lie between a level of at most 1 and its accepted part."""
        return float(np.maximum(weight @ (np.maximum(prices, 0.0) + self.ratio * np.minimum(prices, 0.0)), 0.0).sum())

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Clip to ``[ratio * c, c]``, where c balances what is cut off above and, counted by the ratio, below."""
        ratio = self.ratio
        level = self._levels(means, weight)
        above, below = means > level, means < ratio * level
        # At level 0 the band is a point: the tip of the cone, where every entry ends and none can move.
        tip = level <= 0
        clipped = above | below | (ratio == 1) | tip
        slope = np.where(tip, 0.0, np.where(below, ratio, 1.0))
        return Projected(np.where(clipped, np.where(below, ratio, 1.0) * np.maximum(level, 0.0), means), clipped, slope)

    def _levels(self, means: Floats, weight: Floats) -> Floats:
        ratio = self.ratio
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(ratio > 0, means / np.where(ratio > 0, ratio, 1.0), 0.0)
        kinks = np.sort(np.maximum(np.concatenate([np.zeros((1, means.shape[1])), means, lower]), 0.0), axis=0)
        over = np.maximum(means[None] - kinks[:, None, :], 0.0)
        under = np.minimum(means[None] - ratio * kinks[:, None, :], 0.0)
        balance = np.einsum("s,jsk->jk", weight, over + ratio * under)
        positive = (balance > 0).sum(axis=0)
        closing = np.clip(positive, 1, len(kinks) - 1)
        columns = np.arange(means.shape[1])
        middle = 0.5 * (kinks[closing - 1, columns] + kinks[closing, columns])
        above, below = means > middle, means < ratio * middle
        size = weight @ (above + ratio**2 * below)
        total = weight @ (np.where(above, means, 0.0) + ratio * np.where(below, means, 0.0))
        level = np.where(size > 0, total / np.where(size > 0, size, 1.0), np.maximum(middle, means.max(axis=0)))
        # Where nothing is cut at the largest mean the whole class is inside.
        inside = (means.min(axis=0) >= ratio * means.max(axis=0)) & (means.max(axis=0) > 0)
        level = np.where(inside & (ratio < 1), means.max(axis=0), level)
        return np.where(positive == 0, 0.0, level)

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Give the derivative of the projection there."""
        return level_derivative(at, weight)

    def sides(self) -> Sides:
        """Write the bound as inequalities: between the ratio of a free level and the level itself."""
        zero = np.zeros_like(self.epsilon)
        return Sides(zero, zero, self.ratio, zero + 1.0, "free")
