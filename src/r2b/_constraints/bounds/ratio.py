"""The smallest mean of a class is at least (1 - epsilon) times the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from r2b._constraints.bounds.base import Asked, Bound, Sides
from r2b._data.arrays import Floats, divided
from r2b.errors import ParameterError


@dataclass(frozen=True, eq=False)
class RatioBound(Bound):
    """Every mean between ``(1 - epsilon) c`` and c; epsilon .2 is the four-fifths rule.

    An epsilon of 1 asks nothing: means are never negative.

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

    name = "ratio"
    title = "Ratio"
    description = "shortfall of the smallest share over the largest"
    of_moments = False
    lowest_level = 0.0

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Make the bound, refusing a class that no row has: it has no ratio."""
        empty = np.flatnonzero((asked.population() <= 0) & (asked.epsilon < 1))
        if len(empty):
            label = asked.classes[int(empty[0])]
            problem = (
                f"The class {label!r} is empty in the family {asked.family!r}, so it has no ratio "
                "between groups."
            )
            remedy = "Leave the class out of the labels, or pass an epsilon of 1 for this class."
            raise ParameterError(problem, remedy=remedy, class_name=label, family=asked.family)
        return cls(asked.epsilon)

    def sides(self, n_groups: int) -> Sides:
        """Return the level and the accepted part of it."""
        wide = np.broadcast_to(self.epsilon, (n_groups, self.epsilon.shape[-1]))
        bounded = wide < 1
        zero = np.zeros_like(wide)
        return Sides(zero, zero, np.where(bounded, 1.0 - wide, 0.0), bounded.astype(float), bounded)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return one minus the ratio; 0 for a class that no group has.

        Means with offsets may be negative: the disparity is then 1.
        """
        top, least = means.max(axis=0), means.min(axis=0)
        return 1.0 - divided(least, top, np.where(least < 0, 0.0, 1.0))

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """Return how far some mean lies below the accepted part of the largest."""
        sides = self.sides(len(means))
        top = np.maximum(np.where(sides.bounded, means, 0.0).max(axis=0), 0.0)
        below = np.where(sides.bounded, sides.low_slope * top - means, 0.0)
        return np.asarray(np.maximum(below.max(axis=0), 0.0))

    def level_of(self, means: Floats, weight: Floats) -> Floats:
        """Return the largest mean that is closest to being allowed."""
        return np.asarray(self.project(means, weight).means.max(axis=0))

    def implied_by(self, other: Bound) -> bool:
        """Return whether averages of means within another bound are within this one."""
        if self.epsilon.ndim > 1:
            return False
        free = self.epsilon >= 1
        if isinstance(other, RatioBound) and other.epsilon.ndim == 1:
            return bool((free | (other.epsilon <= self.epsilon)).all())
        # means that are all equal are within any bound between groups
        return other.spread is not None and bool((free | (other.spread == 0)).all())

    @property
    def spread(self) -> Floats | None:
        """None apart at epsilon 0, otherwise any."""
        return None if self.epsilon.ndim > 1 else np.where(self.epsilon == 0, 0.0, np.inf)

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Return the polar part: what the projection onto the cone leaves of the prices."""
        bounded = self.sides(len(prices)).bounded
        return np.where(bounded, prices - self.project(prices, weight).means, 0.0)
