"""Every group is within epsilon / 2 of a given class distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from r2b._constraints.bounds.base import Asked, Bound, Parameter, Sides, around, stored_epsilon
from r2b._data.arrays import SAME, SUM_ROUNDING, Floats
from r2b._data.by_class import labelled, numbers_per_class
from r2b._data.values import stored_numbers
from r2b.errors import ParameterError


@dataclass(frozen=True, eq=False)
class TargetBound(Bound):
    """Every group within epsilon / 2 of the target.

    With the population's own distribution this is the problem that the published implementation
    solves.

    Examples
    --------
    >>> bound = TargetBound(np.array([0.1, 0.1]), np.array([0.5, 0.5]))
    >>> bound.project(np.array([[0.9, 0.1], [0.48, 0.52]]), np.ones(2)).means
    array([[0.55, 0.45],
           [0.48, 0.52]])
    """

    name = "target"
    title = "From the population"
    description = "twice the largest distance from the target"
    of_moments = False
    largest = 2.0
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "target": Parameter("'population', or 'class=share' for each class.", per_class=True)
    }
    defaults: ClassVar[Mapping[str, Any]] = {"target": "population"}
    level = "none"
    fewest_groups = 1

    target: Floats

    @property
    def of_classes(self) -> bool:
        """Whether it looks at every class in its own way: each has a share to reach."""
        return True

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Make the bound from epsilon and the target."""
        wanted = asked.parameters["target"]
        if wanted is None:
            raise ParameterError(
                f"The bound of the family {asked.family!r} is 'target', but no target is given.",
                remedy="Pass `target='population'`, or one share per class that add up to 1.",
                family=asked.family,
            )
        return cls(asked.epsilon, _read_target(wanted, asked))

    def sides(self, n_groups: int) -> Sides:
        """Return half of epsilon on both sides of the target."""
        return around(self.target, 0.5 * self.epsilon, n_groups)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return twice the largest distance from the target."""
        return np.asarray(2.0 * np.abs(means - self.target).max(axis=0))

    def implied_by(self, other: Bound) -> bool:
        """Return whether averages of means within another bound are within this one."""
        if not isinstance(other, TargetBound) or self.epsilon.ndim + other.epsilon.ndim > 2:
            return False
        apart = np.abs(other.target - self.target) + 0.5 * other.epsilon
        return bool((apart <= 0.5 * self.epsilon + SAME).all())

    def capped(self, prices: Floats, reach: float) -> Floats:
        """Lower prices to what a row could pay: beyond it they cost the labels their digits.

        A class whose price is more than ``reach`` above the least of its group is in the label of
        no row. Lowering it to there, but not below 0, changes no label and makes no bound worse.

        Examples
        --------
        >>> bound = TargetBound(np.zeros(2), np.full(2, 0.5))
        >>> bound.capped(np.array([[-1000.0, 1e6]]), 1002.0)
        array([[-1000.,     2.]])
        """
        if not np.isfinite(self.epsilon).all():  # a class that is free has no price
            return prices
        most = prices.min(axis=1, keepdims=True) + reach
        if self.epsilon.any():
            most = np.maximum(most, 0.0)
        return np.asarray(np.minimum(prices, most))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], n_groups: int) -> Self:
        """Restore a bound from :meth:`to_json`."""
        epsilon = stored_epsilon(stored, n_groups)
        return cls(epsilon, stored_numbers(stored["target"], epsilon.shape[-1:]))


def _read_target(wanted: Any, asked: Asked) -> Floats:
    if isinstance(wanted, str) and wanted == "population":
        return asked.population()
    wanted = labelled(wanted)
    if np.ndim(cast("Floats", wanted)) == 0 and not hasattr(wanted, "keys"):
        remedy = "Pass 'population', or one share per class that add up to 1."
        raise ParameterError(f"target is {wanted!r}.", remedy=remedy, target=wanted)
    target = numbers_per_class("target", wanted, asked.classes)
    wrong = np.flatnonzero(~((target >= 0) & (target <= 1)))
    if len(wrong):
        label, value = asked.classes[int(wrong[0])], float(target[wrong[0]])
        problem = f"The target of class {label!r} is {value}, which is not a share."
        remedy = "Pass numbers between 0 and 1 that add up to 1."
        raise ParameterError(problem, remedy=remedy, class_name=label, value=value)
    if not asked.add_up:
        return target
    total = float(target.sum())
    if abs(total - 1.0) > SUM_ROUNDING:
        problem = f"The target adds up to {total:.10g}, not to 1, so no labels can meet it."
        raise ParameterError(problem, remedy="Divide it by its sum.", total=total)
    # means add up to 1 exactly, and an epsilon of 0 could not be met otherwise
    return target / total
