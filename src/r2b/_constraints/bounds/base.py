"""What a bound is: two inequalities per group and class, around a level that groups share.

A bound allows the group means m, entry by entry (group g, class k), where

    low_gk + low_slope_gk c_k  <=  m_gk  <=  high_gk + high_slope_gk c_k

for a level c_k of each class. From these sides follow the projection of means, its derivative, the
support function and the balanced prices; a bound may replace what it computes otherwise. Means and
prices are arrays of shape (n_groups, n_classes), and meet in the product ``sum_g W_g nu_gk m_gk``
weighted by the shares of the groups. No bound ever sees a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from r2b._data.arrays import Flags, Floats, Places, divided
from r2b._data.values import json_value

Level = Literal["free", "mean", "none"]


class Projected(NamedTuple):
    """A projection of group means onto the allowed set, with the face it landed on.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        The closest allowed means, in the norm weighted by the groups' weights.
    clipped : ndarray of bool, same shape
        Entries on a side of the bound. Those of one class follow one unknown level.
    slope : ndarray of the same shape
        How fast a clipped entry moves with the level of its class.
    """

    means: Floats
    clipped: Flags
    slope: Floats


class Sides(NamedTuple):
    """The two inequalities of every entry.

    Attributes
    ----------
    low, high, low_slope, high_slope : ndarray of shape (n_groups, n_classes)
        0 where an entry is not bounded.
    bounded : ndarray of bool, same shape
    """

    low: Floats
    high: Floats
    low_slope: Floats
    high_slope: Floats
    bounded: Flags

    @property
    def equal(self) -> Flags:
        """Bounded entries whose two sides coincide."""
        same = (self.low == self.high) & (self.low_slope == self.high_slope)
        return np.asarray(self.bounded & same)


@dataclass(frozen=True)
class Asked:
    """What a user asks of one family, from which its bound is made.

    Attributes
    ----------
    epsilon : ndarray of shape (n_classes,)
    parameters : mapping
        The parameters of all bounds by name; None where one is not given.
    classes : sequence
        Names of the classes, or their places.
    family : str
    groups : sequence
        Names of the groups; for moments those of the basis functions.
    columns : sequence of str
        Names of the family's columns.
    population : callable
        Returns the mean label of the rows that the family counts, of shape (n_classes,).
    means : callable
        Returns the mean label of each group, of shape (n_groups, n_classes).
    add_up : bool
        Whether the means of a group add up to 1; those of outcomes need not.
    """

    epsilon: Floats
    parameters: Mapping[str, Any]
    classes: Sequence[object]
    family: str
    groups: Sequence[Any] = ()
    columns: Sequence[str] = ()
    population: Callable[[], Floats] = np.empty(0).copy
    means: Callable[[], Floats] = np.empty((0, 0)).copy
    add_up: bool = True


@dataclass(frozen=True)
class Parameter:
    """An option of a bound.

    Attributes
    ----------
    help : str
        What to pass.
    per_class : bool
        Whether it may be a number for each class.
    """

    help: str
    per_class: bool = False


@dataclass(frozen=True, eq=False)
class Bound(ABC):
    """The set of group means that one family allows.

    Attributes
    ----------
    epsilon : ndarray of shape (n_classes,) or (n_groups, n_classes)
        The largest disparity of each class, or a width for each entry; infinite where nothing is
        asked.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # in a list to choose from
    description: ClassVar[str]  # what is at most epsilon, as a noun phrase
    largest: ClassVar[float] = 1.0  # what the disparity never exceeds
    parameters: ClassVar[Mapping[str, Parameter]] = {}  # options beside epsilon, by name
    defaults: ClassVar[Mapping[str, Any]] = {}  # of parameters, where nobody is asked for them
    level: ClassVar[Level] = "free"
    lowest_level: ClassVar[float] = -np.inf
    compares_groups: ClassVar[bool] = True  # else moments of a continuous attribute
    of_moments: ClassVar[bool] = True  # whether a continuous attribute may stand among the groups
    fewest_groups: ClassVar[int] = 2  # with fewer there is nothing to compare
    apart: ClassVar[float] = 1.0  # how many epsilons two group means may differ by

    epsilon: Floats

    @property
    def of_classes(self) -> bool:
        """Whether it looks at every class in its own way, besides its epsilon."""
        return False

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Make the bound that a user asks for."""
        return cls(asked.epsilon)

    def parameters_for(self, groups: Sequence[Any]) -> dict[str, Any]:
        """Return the parameters with which a user would ask for this bound of groups so named."""
        return {name: getattr(self, name) for name in self.parameters}

    @abstractmethod
    def sides(self, n_groups: int) -> Sides:
        """Return the two inequalities of every entry."""

    @abstractmethod
    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the disparity of each class: at most epsilon where the bound is met."""

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """Return how far some mean of each class lies outside, in units of means."""
        sides = self.sides(len(means))
        off = means - weight @ means / weight.sum() if self.level == "mean" else means
        above = np.where(sides.bounded, off - sides.high, -np.inf).max(axis=0)
        below = np.where(sides.bounded, sides.low - off, -np.inf).max(axis=0)
        beyond = above + below if self.level == "free" else np.maximum(above, below)
        return np.asarray(np.maximum(beyond, 0.0))

    def level_of(self, means: Floats, weight: Floats) -> Floats:
        """Return the level that the sides of these means are measured from."""
        if self.level == "none":
            return np.zeros(means.shape[1])
        return np.asarray(weight @ means / weight.sum())

    def on_level(self, n_groups: int) -> Flags:
        """Return which entries are on the level itself, (n_groups, n_classes)."""
        return np.zeros((n_groups, self.epsilon.shape[-1]), dtype=bool)

    @property
    def spread(self) -> Floats | None:
        """The largest difference of two group means per class; None where widths are of entries."""
        return self.apart * self.epsilon if self.epsilon.ndim == 1 else None

    def implied_by(self, other: Bound) -> bool:
        """Return whether averages of means within another bound are within this one."""
        if other.spread is None or self.epsilon.ndim > 1:
            return False
        return bool((other.spread <= self.epsilon).all())

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Project means class by class in the norm weighted by ``weight``."""
        sides = self.sides(len(means))
        if self.level == "none":
            low = np.where(sides.bounded, sides.low, -np.inf)
            high = np.where(sides.bounded, sides.high, np.inf)
            clipped = (means < low) | (means > high) | sides.equal
            return Projected(np.clip(means, low, high), clipped, np.zeros_like(means))
        level = np.maximum(_balanced_level(means, weight, sides), self.lowest_level)
        low, high = sides.low + sides.low_slope * level, sides.high + sides.high_slope * level
        outside = self.violation(means, weight) > 0
        above, below = (sides.bounded & beyond & outside for beyond in (means > high, means < low))
        # At the lowest level the band may be a point, where no entry can move.
        tip = sides.bounded & (level <= self.lowest_level)
        clipped = above | below | sides.equal | tip
        on_equal = sides.equal & outside
        moved = np.where(above | on_equal | tip, high, np.where(below, low, means))
        slope = np.where(below & ~above, sides.low_slope, sides.high_slope)
        return Projected(moved, clipped, np.where(tip, 0.0, slope))

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Return the derivative of the projection, of shape (n_classes, n_groups, n_groups).

        It is the projector onto the span of the face: free entries keep their own direction,
        clipped ones move together along their slopes.
        """
        n_groups = len(at.means)
        along = np.where(at.clipped, at.slope, 0.0).T
        size = np.maximum((along * along) @ weight, np.finfo(float).tiny)
        together = along[:, :, None] * (along * weight)[:, None, :] / size[:, None, None]
        together[:, np.arange(n_groups), np.arange(n_groups)] += ~at.clipped.T
        return together

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Return the closest prices at which the support function is finite."""
        bounded = self.sides(len(prices)).bounded
        if self.level == "none":
            return np.where(bounded, prices, 0.0)
        own = weight[:, None] * bounded
        mean = divided((own * prices).sum(axis=0), own.sum(axis=0))
        return np.where(bounded, prices - mean, 0.0)

    def support(self, prices: Floats, weight: Floats) -> float:
        """Return the largest ``<prices, m>`` over allowed means m; the prices are settled."""
        sides = self.sides(len(prices))
        up, down = np.maximum(prices, 0.0), np.minimum(prices, 0.0)
        return float(weight @ (up * sides.high + down * sides.low).sum(axis=1))

    def capped(self, prices: Floats, reach: float) -> Floats:
        """Lower prices that change no label, where groups are the cells, without loss.

        ``reach`` is the largest difference of what two classes are worth to a row, and lambda.
        """
        return prices

    def reordered(self, places: Places) -> Self:
        """Return the bound for the groups at these places, in this order."""
        return self if self.epsilon.ndim == 1 else self.at(self.epsilon[places])

    def at(self, epsilon: Floats) -> Self:
        """Return the same bound with another epsilon."""
        return replace(self, epsilon=epsilon)

    def to_json(self) -> dict[str, Any]:
        """Return the bound as plain values that strict JSON can hold."""
        own = {name: json_value(getattr(self, name)) for name in self.parameters}
        return {"kind": self.name, "epsilon": json_value(self.epsilon), **own}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], n_groups: int) -> Self:
        """Restore a bound from :meth:`to_json`."""
        return cls(stored_epsilon(stored, n_groups))


def stored_epsilon(stored: Mapping[str, Any], n_groups: int) -> Floats:
    """Read the epsilon of a stored bound."""
    epsilon = np.array(stored["epsilon"], dtype=np.float64)
    wrong = epsilon.ndim not in (1, 2) or (epsilon.ndim == 2 and len(epsilon) != n_groups)
    if wrong or not (epsilon >= 0).all():
        raise ValueError(f"epsilon is {stored['epsilon']!r}")
    return epsilon


def band(width: Floats, n_groups: int, bounded: Flags | None = None) -> Sides:
    """Return the sides ``-width <= m - c <= width`` of a width per class or entry."""
    wide = np.broadcast_to(width, (n_groups, width.shape[-1]))
    bounded = np.isfinite(wide) if bounded is None else bounded
    reach, slope = np.where(bounded, wide, 0.0), bounded.astype(np.float64)
    return Sides(-reach, reach, slope, slope, bounded)


def around(centre: Floats, width: Floats, n_groups: int) -> Sides:
    """Return the sides ``-width <= m - centre <= width`` of fixed numbers per class."""
    wide = np.broadcast_to(width, (n_groups, width.shape[-1]))
    bounded, zero = np.isfinite(wide), np.zeros_like(wide)
    reach, centre = np.where(bounded, wide, 0.0), np.where(bounded, centre, 0.0)
    return Sides(centre - reach, centre + reach, zero, zero, bounded)


def _balanced_level(means: Floats, weight: Floats, sides: Sides) -> Floats:
    """Return the level of each class at which what is cut off above and below balances.

    Of a group above its side ``b c + high`` the excess counts b times, below ``a c + low`` a times.
    The balance is piecewise linear and decreasing in c, so its values at its kinks tell between
    which two it is 0.
    """
    a, b = sides.low_slope, sides.high_slope  # 0 where an entry is not bounded
    leaves, enters = divided(means - sides.high, b, means), divided(means - sides.low, a, means)
    kinks = np.concatenate([leaves, enters])
    bends = np.concatenate([weight[:, None] * b**2, -weight[:, None] * a**2])
    excess = b * (means - sides.high - b * kinks.min(axis=0))
    kinks, balance = balance_at_kinks(kinks.T, bends.T, -weight @ b**2, weight @ excess)
    middle = within_piece(kinks.T, (balance > 0).sum(axis=1))
    # Which entries are cut is now known; the level that balances them is computed afresh, free of
    # the rounding of the sums.
    above, below = means > sides.high + b * middle, means < sides.low + a * middle
    slopes = np.where(above, b, np.where(below, a, 0.0))
    size = weight @ slopes**2
    total = weight @ (slopes * (means - np.where(above, sides.high, sides.low)))
    return divided(total, size, middle)


def balance_at_kinks(
    kinks: Floats, bends: Floats, slope: Floats, start: Floats
) -> tuple[Floats, Floats]:
    """Return the kinks of a piecewise linear function in order, class by class, and its values.

    Parameters
    ----------
    kinks, bends : ndarray of shape (n_classes, n)
        Kinks, and by how much the slope grows at each.
    slope, start : ndarray of shape (n_classes,)
        The slope below the first kink, and the value at it.

    Examples
    --------
    >>> kinks, bends = np.array([[2.0, 1.0, 4.0]]), np.array([[1.0, 1.0, 2.0]])
    >>> balance_at_kinks(kinks, bends, np.zeros(1), np.array([-3.0]))
    (array([[1., 2., 4.]]), array([[-3., -2.,  2.]]))
    """
    order = np.argsort(kinks, axis=1)
    kinks = np.take_along_axis(kinks, order, axis=1)
    slopes = slope[:, None] + np.cumsum(np.take_along_axis(bends, order, axis=1), axis=1)
    rise = np.cumsum(slopes[:, :-1] * np.diff(kinks, axis=1), axis=1)
    return kinks, np.concatenate([start[:, None], start[:, None] + rise], axis=1)


def within_piece(kinks: Floats, closing: Places) -> Floats:
    """Return the middle of the piece of each class that ends at this one of its sorted kinks."""
    closing, columns = np.clip(closing, 1, len(kinks) - 1), np.arange(kinks.shape[1])
    return 0.5 * (kinks[closing - 1, columns] + kinks[closing, columns])
