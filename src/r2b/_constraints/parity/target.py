"""Boxes that nothing moves: means near a given distribution, moments near zero."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity.bounds import Projected, Sides, level_derivative

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TargetBound:
    """Every group within epsilon / 2 of a given class distribution.

    With the population's own distribution this is the problem that the published implementation solves.

    Examples
    --------
    >>> bound = TargetBound(np.array([0.1, 0.1]), np.array([0.5, 0.5]))
    >>> bound.project(np.array([[0.9, 0.1], [0.48, 0.52]]), np.ones(2)).means
    array([[0.55, 0.45],
           [0.48, 0.52]])
    """

    kind: ClassVar[str] = "target"
    epsilon: Floats
    target: Floats

    def at(self, epsilon: Floats) -> Self:
        """Give the same shape with another epsilon per class."""
        return replace(self, epsilon=epsilon)

    @property
    def reach(self) -> Floats:
        """How far a mean may lie from its target."""
        return 0.5 * self.epsilon

    def measure(self, means: Floats, weight: Floats | None = None) -> Floats:
        """Twice the largest distance from the target, which is at most epsilon where the bound is met."""
        return np.asarray(2.0 * np.abs(means - self.target).max(axis=0))

    def violation(self, means: Floats, weight: Floats | None = None) -> Floats:
        """How far outside the reach of the target some mean lies."""
        return np.asarray(np.maximum(np.abs(means - self.target).max(axis=0) - self.reach, 0.0))

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Any price of a bounded class will do."""
        return np.where(np.isfinite(self.epsilon), prices, 0.0)

    def support(self, prices: Floats, weight: Floats) -> float:
        """Give what the target pays, and the reach on top of it."""
        reach = np.where(np.isfinite(self.epsilon), self.reach, 0.0)
        return float((weight @ prices) @ self.target + (weight @ np.abs(prices)) @ reach)

    def most(self, prices: Floats, weight: Floats) -> float:
        """Means lie within reach of the target."""
        priced = (prices != 0).any(axis=0)
        reach = np.where(priced, self.reach, 0.0)
        return float((weight @ prices) @ self.target + (weight @ np.abs(prices)) @ reach)

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Clip."""
        low, high = self.target - self.reach, self.target + self.reach
        clipped = (means < low) | (means > high) | (self.epsilon == 0)
        return Projected(np.clip(means, low, high), clipped, np.zeros_like(means))

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Give the derivative of the projection there."""
        return level_derivative(at, weight)

    def sides(self) -> Sides:
        """Write the bound as inequalities; nothing is free to move."""
        zero = np.zeros_like(self.epsilon)
        return Sides(self.target - self.reach, self.target + self.reach, zero, zero, "none")


@dataclass(frozen=True, eq=False)
class MomentBound(TargetBound):
    """Every moment of a continuous attribute within epsilon of 0: what :class:`r2b.Continuous` attributes are bounded by.

    Examples
    --------
    >>> bound = MomentBound(np.array([0.1]), np.zeros(1))
    >>> bound.violation(np.array([[0.25], [-0.05]]))
    array([0.15])
    """

    kind: ClassVar[str] = "moments"

    @property
    def reach(self) -> Floats:
        """How far a moment may lie from 0."""
        return self.epsilon

    def measure(self, means: Floats, weight: Floats | None = None) -> Floats:
        """Give the largest moment."""
        return np.asarray(np.abs(means - self.target).max(axis=0))
