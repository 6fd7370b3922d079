"""Shapes of bound: the set of group means that one family allows, its projection, its support function, its distance.

Each shape bounds every class on its own and looks at the means, weights and prices of the groups of one family; none ever sees a row.
Prices act through the product weighted by the groups, ``<nu, m> = sum_s W_s nu_s m_s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Level = Literal["free", "mean", "none"]


@dataclass(frozen=True, eq=False)
class Projected:
    """A projection of group means onto the allowed set, with the face it landed on.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        The closest allowed means, in the norm weighted by the groups' weights.
    clipped : ndarray of bool, same shape
        Entries that lean on the bound. Those of one class follow one unknown level; the others stayed where they were.
    slope : ndarray of the same shape
        How fast a clipped entry moves with the level of its class: 1 for a band of constant width, less where the band narrows.
    """

    means: Floats
    clipped: NDArray[np.bool_]
    slope: Floats


@dataclass(frozen=True, eq=False)
class Sides:
    """A bound as two inequalities per group and class: ``low_slope * c + low <= m <= high_slope * c + high`` for some level c.

    Attributes
    ----------
    low, high, low_slope, high_slope : ndarray of shape (n_classes,)
    level : {"free", "mean", "none"}
        What c is: any number, the weighted mean of the family's means, or nothing (slopes are 0).
    """

    low: Floats
    high: Floats
    low_slope: Floats
    high_slope: Floats
    level: Level


class Bound(Protocol):
    """What the solver, the certificate and the measures ask of a shape of bound."""

    kind: ClassVar[str]

    @property
    def epsilon(self) -> Floats:
        """The bound of each class; infinite where a class is free."""
        ...

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Give what the bound limits, of shape (n_classes,): at most epsilon where it is met."""
        ...

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """How far some mean of each class lies outside, in units of means; 0 where the bound is met."""
        ...

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Project means class by class."""
        ...

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Give the derivative of the projection there, (n_classes, n_groups, n_groups): the projector onto the span of its face."""
        ...

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Give the closest prices at which the support function is finite."""
        ...

    def support(self, prices: Floats, weight: Floats) -> float:
        """Give the largest ``<prices, m>`` over allowed means m; the prices are settled."""
        ...

    def most(self, prices: Floats, weight: Floats) -> float:
        """Give a number that ``<prices, m>`` does not exceed for allowed m between 0 and 1, settled prices or not.

        Sums of few terms, each exact: what it proves holds up to the rounding of those sums.
        """
        ...

    def sides(self) -> Sides:
        """Write the bound as inequalities."""
        ...

    def at(self, epsilon: Floats) -> Self:
        """Give the same shape with another epsilon per class."""
        ...


def level_derivative(at: Projected, weight: Floats) -> Floats:
    """Free entries keep their own direction; clipped ones move together along their slopes."""
    n_groups = len(at.means)
    along = np.where(at.clipped, at.slope, 0.0).T
    size = np.maximum((along * along) @ weight, np.finfo(float).tiny)
    together = along[:, :, None] * (along * weight)[:, None, :] / size[:, None, None]
    together[:, np.arange(n_groups), np.arange(n_groups)] += ~at.clipped.T
    return together


def centred(prices: Floats, weight: Floats, epsilon: Floats) -> Floats:
    """Give the closest prices that balance in every class, and none for a class without a bound."""
    balanced: Floats = prices - weight @ prices / weight.sum()
    return np.where(np.isfinite(epsilon), balanced, 0.0)
