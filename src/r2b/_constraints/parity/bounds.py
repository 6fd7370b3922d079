"""Shapes of bound: the set of group means that one family allows, its projection, its support function, its distance.

Each shape bounds every class on its own and looks at the means, weights and prices of the groups of
one family; none ever sees a row. Prices act through the product weighted by the groups, ``<nu, m> =
sum_s W_s nu_s m_s``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Flags, Floats
from r2b._data.values import type_word
from r2b.errors import ParameterError

Epsilon = float | ArrayLike | Mapping[Any, float]

_ROUNDING = 1e-9  # a difference of 1 that was computed may come out a little above it


def epsilon_per_class(
    epsilon: Epsilon,
    n_classes: int,
    names: Sequence[object] | None = None,
    *,
    largest: float = np.inf,
) -> Floats:
    """Check ``epsilon`` (one number, one per class in order, or one per class by name) and freeze it.

    Parameters
    ----------
    epsilon : float, array-like of shape (n_classes,) or mapping
        Classes that a mapping does not name have the number under the key ``...``, and without that
        infinity: they are not bound.
    n_classes : int
    names : sequence, optional
        Of the classes.
    largest : float
        What the bounded measure cannot exceed. A finite number above it bounds nothing and is
        refused; it is most likely a percentage.

    Examples
    --------
    >>> epsilon_per_class({"no": 0.1, "yes": 0.2}, 2, ["no", "yes"])
    array([0.1, 0.2])
    >>> epsilon_per_class({"b": 0.1}, 3, ["a", "b", "c"]), epsilon_per_class({"b": 0.1, ...: 0.2}, 3, ["a", "b", "c"])
    (array([inf, 0.1, inf]), array([0.2, 0.1, 0.2]))
    """
    values = numbers_per_class("epsilon", epsilon, n_classes, names, partial=True)
    wrong = np.flatnonzero(~(values >= 0))
    if len(wrong):
        value = float(values[wrong[0]])
        problem = f"epsilon is {value}{_where(epsilon, int(wrong[0]), names)}."
        remedy = "It is the largest difference between group means that you accept: pass a number of at least 0, such as 0.01."
        raise ParameterError(problem, remedy=remedy, epsilon=value, class_index=int(wrong[0]))
    refuse_percentages("epsilon", values, largest, lambda place: _where(epsilon, place, names))
    values += 0.0  # a negative zero would be written as one
    values.flags.writeable = False
    return values


def refuse_percentages(
    what: str,
    values: ArrayLike,
    largest: float,
    where: Callable[[int], str] = lambda place: "",
    **facts: object,
) -> None:
    """Refuse finite numbers above what the bounded measure can be: they bound nothing, and are most likely percentages.

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> refuse_percentages("epsilon", [0.1, np.inf], 1.0)
    """
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    above = np.flatnonzero((numbers > largest + _ROUNDING) & np.isfinite(numbers))
    if not len(above):
        return
    place, value = int(above[0]), float(numbers[above[0]])
    problem = f"{what} is {value:g}{where(place)}, but what it bounds never exceeds {largest:g}."
    remedy = f"It is a share and no percentage: for {min(value, 100):g} % pass {min(value, 100) / 100:g}; inf bounds nothing."
    raise ParameterError(
        problem,
        remedy=remedy,
        **{"epsilon": value, "largest": largest, "class_index": place, **facts},
    )


def numbers_per_class(
    what: str,
    given: Epsilon,
    n_classes: int,
    names: Sequence[object] | None = None,
    *,
    partial: bool = False,
) -> Floats:
    """Read one number for all classes, or one per class, of shape (n_classes,); a partial mapping leaves the others infinite."""
    if given is None or isinstance(given, (bool, np.bool_)):
        raise ParameterError(
            f"{what} is {given}.",
            remedy="Pass one number such as 0.01, or one per class.",
            **{what: given},
        )
    given = labelled(given)
    if isinstance(given, Mapping):
        given = _by_name(
            what, given, list(range(n_classes)) if names is None else list(names), partial
        )
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        remedy = "Pass one number such as 0.01, or one per class."
        raise ParameterError(
            f"{what} is {given!r}, which is not a number.", remedy=remedy, **{what: given}
        ) from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_classes):
        problem = f"{what} has shape {values.shape}, but there are {n_classes} classes."
        remedy = f"Pass one number, or {n_classes} numbers in the order of the classes."
        raise ParameterError(problem, remedy=remedy, shape=values.shape, n_classes=n_classes)
    return np.broadcast_to(values, (n_classes,)).copy()


def labelled(given: Any) -> Any:
    """Give a column with row labels of its own as a mapping by them: numbers with names go by their names, not by position."""
    index = getattr(given, "index", None)
    if index is None or not hasattr(given, "to_dict") or not hasattr(index, "tolist"):
        return given
    # Row labels 0, 1, 2, ... are what a column has that was given none.
    return given if index.tolist() == list(range(len(index))) else given.to_dict()


def _where(given: Epsilon, place: int, names: Sequence[object] | None) -> str:
    one_for_all = not isinstance(given, Mapping) and np.ndim(given) == 0
    return "" if one_for_all else f" for class {names[place] if names is not None else place!r}"


def _by_name(what: str, given: Mapping[Any, float], names: list[Any], partial: bool) -> list[float]:
    known = set(names)
    missing = [name for name in names if name not in given] if not partial else []
    unknown = [name for name in given if name not in known and not (partial and name is ...)]
    if unknown or missing or not given:
        listed = f"{', '.join(map(repr, names[:10]))}{', ...' if len(names) > 10 else ''}"
        fault = "names no class"
        if unknown:
            fault, word = f"names {unknown[0]!r}, which is not a class", type_word(names[0])
            if type_word(unknown[0]) != word:  # '0' is not 0, however alike they are written
                fault = f"names {unknown[0]!r} ({type_word(unknown[0])}), but the classes are of another type"
                listed += f" ({word})"
        elif missing:
            fault = f"has no value for class {missing[0]!r}"
        remedy = f"Name {'classes among these' if partial else 'every class once'}: {listed}."
        raise ParameterError(f"{what} {fault}.", remedy=remedy, missing=missing, unknown=unknown)
    return (
        [given.get(name, given.get(..., np.inf)) for name in names]
        if partial
        else [given[name] for name in names]
    )


Level = Literal["free", "mean", "none"]


@dataclass(frozen=True, eq=False)
class Projected:
    """A projection of group means onto the allowed set, with the face it landed on.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        The closest allowed means, in the norm weighted by the groups' weights.
    clipped : ndarray of bool, same shape
        Entries that lean on the bound. Those of one class follow one unknown level; the others
        stayed where they were.
    slope : ndarray of the same shape
        How fast a clipped entry moves with the level of its class: 1 for a band of constant width,
        less where the band narrows.
    """

    means: Floats
    clipped: Flags
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


@dataclass(frozen=True, eq=False)
class Bound(ABC):
    """What the solver, the certificate and the measures ask of a shape of bound.

    Attributes
    ----------
    epsilon : ndarray of shape (n_classes,)
        The bound of each class; infinite where a class is free.
    """

    kind: ClassVar[str]
    epsilon: Floats

    @property
    def shape(self) -> Bound:
        """The bound itself, where this one is another shifted."""
        return self

    @property
    def offsets(self) -> Floats | None:
        """What is added to the means before the bound is asked; None where nothing is."""
        return None

    @property
    def shift(self) -> Floats | None:
        """The same, with 0 for classes that are free."""
        return None

    @property
    def free(self) -> Flags:
        """Classes that nothing is asked of."""
        return np.isinf(self.epsilon)

    @abstractmethod
    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Give what the bound limits, of shape (n_classes,): at most epsilon where it is met."""

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """How far some mean of each class lies outside, in units of means; 0 where the bound is met."""
        return np.maximum(self.measure(means, weight) - self.epsilon, 0.0)

    @abstractmethod
    def project(self, means: Floats, weight: Floats) -> Projected:
        """Project means class by class."""

    @abstractmethod
    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Give the closest prices at which the support function is finite."""

    @abstractmethod
    def support(self, prices: Floats, weight: Floats) -> float:
        """Give the largest ``<prices, m>`` over allowed means m; the prices are settled."""

    @abstractmethod
    def most(self, prices: Floats, weight: Floats, shift: Floats | None = None) -> float:
        """Give a number that ``<prices, m>`` does not exceed for allowed m between 0 and 1, or those and a shift, settled prices or not.

        Sums of few terms, each exact: what it proves holds up to the rounding of those sums.
        """

    @abstractmethod
    def sides(self) -> Sides:
        """Write the bound as inequalities."""

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Give the derivative of the projection there, (n_classes, n_groups, n_groups): the projector onto the span of its face.

        Free entries keep their own direction; clipped ones move together along their slopes.
        """
        n_groups = len(at.means)
        along = np.where(at.clipped, at.slope, 0.0).T
        size = np.maximum((along * along) @ weight, np.finfo(float).tiny)
        together = along[:, :, None] * (along * weight)[:, None, :] / size[:, None, None]
        together[:, np.arange(n_groups), np.arange(n_groups)] += ~at.clipped.T
        return together

    def canonical(self, prices: Floats, weight: Floats, reach: float) -> Floats:
        """Of settled optimal prices of groups that are the cells, and those that are as good, give the ones that say no more than needed.

        ``reach`` is the largest difference of what two classes are worth to a row, and lambda.
        """
        return prices

    def at(self, epsilon: Floats) -> Self:
        """Give the same shape with another epsilon per class."""
        return replace(self, epsilon=epsilon)


@dataclass(frozen=True, eq=False)
class TargetBound(Bound):
    """Every group within epsilon / 2 of a given class distribution.

    With the population's own distribution this is the problem that the published implementation
    solves.

    Examples
    --------
    >>> bound = TargetBound(np.array([0.1, 0.1]), np.array([0.5, 0.5]))
    >>> bound.project(np.array([[0.9, 0.1], [0.48, 0.52]]), np.ones(2)).means
    array([[0.55, 0.45],
           [0.48, 0.52]])
    """

    kind: ClassVar[str] = "target"
    target: Floats

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
        """Give what the target pays, and the reach on top of it; a class that is free has no price."""
        reach = np.where((prices != 0).any(axis=0), self.reach, 0.0)
        return float((weight @ prices) @ self.target + (weight @ np.abs(prices)) @ reach)

    def most(self, prices: Floats, weight: Floats, shift: Floats | None = None) -> float:
        """Give the support function, which is finite at all prices."""
        return self.support(prices, weight)

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Clip."""
        low, high = self.target - self.reach, self.target + self.reach
        clipped = (means < low) | (means > high) | (self.epsilon == 0)
        return Projected(np.clip(means, low, high), clipped, np.zeros_like(means))

    def canonical(self, prices: Floats, weight: Floats, reach: float) -> Floats:
        """Bring prices down to what a row could pay: beyond it they change no label, and cost the labels their digits.

        A class whose price is more than ``reach`` above the least of its group is in the label of
        no row. Lowering it down to there, but not below 0, changes no label and makes no bound
        worse. Where every epsilon is 0, a constant per group is free as well.

        Examples
        --------
        >>> TargetBound(np.zeros(3), np.full(3, 1 / 3)).canonical(np.array([[-1000.0, -1000.5, 1e6]]), np.ones(1), 2.0)
        array([[-0.33333333, -0.83333333,  1.16666667]])
        """
        if not np.isfinite(self.epsilon).all():  # a class that is free has no price
            return prices
        most = prices.min(axis=1, keepdims=True) + reach
        if self.epsilon.any():
            return np.asarray(np.minimum(prices, np.maximum(most, 0.0)))
        lowered = np.minimum(prices, most)
        return np.asarray(lowered - lowered.mean(axis=1, keepdims=True))

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

    def canonical(self, prices: Floats, weight: Floats, reach: float) -> Floats:
        """Leave prices as they are: moments count rows in parts, and those of two groups add up."""
        return prices

    def measure(self, means: Floats, weight: Floats | None = None) -> Floats:
        """Give the largest moment."""
        return np.asarray(np.abs(means - self.target).max(axis=0))
