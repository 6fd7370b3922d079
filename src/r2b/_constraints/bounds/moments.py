"""Every moment of a continuous attribute is within epsilon of 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._constraints.bounds.base import Bound, Sides, around
from r2b._data.arrays import Floats


@dataclass(frozen=True, eq=False)
class MomentBound(Bound):
    """The bound of :class:`r2b.Continuous` attributes, in place of what groups are asked.

    Examples
    --------
    >>> bound = MomentBound(np.array([0.1]))
    >>> bound.violation(np.array([[0.25], [-0.05]]), np.ones(2))
    array([0.15])
    """

    name = "moments"
    title = "Moments"
    description = "largest moment of the attribute"
    level = "none"
    compares_groups = False
    fewest_groups = 1

    def sides(self, n_groups: int) -> Sides:
        """Return epsilon on both sides of 0."""
        return around(np.zeros(self.epsilon.shape[-1]), self.epsilon, n_groups)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the largest moment."""
        return np.asarray(np.abs(means).max(axis=0))
