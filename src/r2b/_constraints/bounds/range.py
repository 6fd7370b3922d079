"""The paper's bound, eq. (2): the largest difference between two groups is at most epsilon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._constraints.bounds.base import Bound, Sides, band
from r2b._data.arrays import Floats


@dataclass(frozen=True, eq=False)
class RangeBound(Bound):
    """For every class, max over groups - min over groups <= epsilon.

    With a width per entry: there is a level that every mean is within half its width of.

    Examples
    --------
    >>> bound = RangeBound(np.array([0.1, 0.1]))
    >>> means = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> bound.violation(means, np.ones(2)).round(3)
    array([0.3, 0.3])
    >>> bound.project(means, np.array([0.5, 0.5])).means.round(3)
    array([[0.75, 0.25],
           [0.65, 0.35]])
    """

    name = "range"
    title = "Between groups"
    description = "largest difference between two groups"

    def sides(self, n_groups: int) -> Sides:
        """Return half of epsilon on both sides of a free level."""
        return band(0.5 * self.epsilon, n_groups)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the largest difference between two groups."""
        return np.asarray(np.ptp(means, axis=0))
