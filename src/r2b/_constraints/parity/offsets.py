"""A bound on means that are off by known amounts: numbers that are added to the mean of every group before the bound is asked.

The allowed means are those of the bound, shifted. So is their projection, and the support function
loses what the offsets pay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from r2b._constraints.parity.bounds import Bound, Projected, Sides
from r2b._data.arrays import Flags, Floats


@dataclass(frozen=True, eq=False)
class OffsetBound(Bound):
    """What a bound asks of ``means + added``.

    Parameters
    ----------
    epsilon : ndarray of shape (n_classes,)
        That of ``bound``.
    bound : Bound
    added : ndarray of shape (n_groups, n_classes)
        Each row adds up to 0, as shares add up to 1 before and after.

    Examples
    --------
    >>> from r2b._constraints.parity import RangeBound
    >>> bound = OffsetBound.of(RangeBound(np.array([0.0, 0.0])), np.array([[0.1, -0.1], [0.0, 0.0]]))
    >>> means = np.array([[0.6, 0.4], [0.4, 0.6]])
    >>> bound.measure(means, np.ones(2)).round(3), bound.project(means, np.ones(2)).means.round(3).tolist()
    (array([0.3, 0.3]), [[0.45, 0.55], [0.55, 0.45]])
    """

    kind: ClassVar[str] = "offset"
    bound: Bound
    added: Floats

    @classmethod
    def of(cls, bound: Bound, added: Floats) -> OffsetBound:
        """Shift a bound."""
        return cls(bound.epsilon, bound, added)

    @property
    def shape(self) -> Bound:
        """The bound that is asked of the shifted means."""
        return self.bound

    @property
    def offsets(self) -> Floats:
        """What is added to the means."""
        return self.added

    @property
    def free(self) -> Flags:
        """Classes that nothing is asked of."""
        return self.bound.free

    @cached_property
    def shift(self) -> Floats:
        """What is added to the means of classes that are bounded; of the others nothing is asked, whatever would be added."""
        return np.where(self.free, 0.0, self.added)

    def _paid(self, prices: Floats, weight: Floats) -> float:
        return float(weight @ (prices * self.shift).sum(axis=1))

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Give what the bound limits, of the shifted means."""
        return self.bound.measure(means + self.added, weight)

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """How far some shifted mean lies outside."""
        return self.bound.violation(means + self.shift, weight)

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Project the shifted means, and shift back."""
        found = self.bound.project(means + self.shift, weight)
        return Projected(found.means - self.shift, found.clipped, found.slope)

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Give that of the bound: a shift does not change it."""
        return self.bound.derivative(at, weight)

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Settle as the bound does: a shift does not change at which prices the support function is finite."""
        return self.bound.settle(prices, weight)

    def support(self, prices: Floats, weight: Floats) -> float:
        """Give what shifted means pay, without what the shift pays."""
        return self.bound.support(prices, weight) - self._paid(prices, weight)

    def most(self, prices: Floats, weight: Floats, shift: Floats | None = None) -> float:
        """Give what shifted means pay at most, without what the shift pays."""
        return self.bound.most(prices, weight, self.shift) - self._paid(prices, weight)

    def canonical(self, prices: Floats, weight: Floats, reach: float) -> Floats:
        """Choose as the bound does, by the signs of prices and constants per group, for which offsets that add up to 0 pay nothing."""
        return self.bound.canonical(prices, weight, reach)

    def sides(self) -> Sides:
        """Write the bound on the shifted means as inequalities."""
        return self.bound.sides()

    def at(self, epsilon: Floats) -> Self:
        """Give the same shift of the same shape with another epsilon per class."""
        return type(self)(epsilon, self.bound.at(epsilon), self.added)
