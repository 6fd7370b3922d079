"""Epsilon and other numbers per class, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Floats
from r2b._data.by_class import numbers_per_class
from r2b.errors import ParameterError

Epsilon = float | ArrayLike | Mapping[Any, float]


def epsilon_per_class(
    epsilon: Epsilon | None, names: Sequence[object], *, largest: float = np.inf
) -> Floats:
    """Check epsilon (one number, or one per class in order or by name) and freeze it.

    Parameters
    ----------
    epsilon : float, array-like of shape (n_classes,) or mapping
        Classes that a mapping does not name have the number under the key ``...``, and without that
        infinity: they are not bound.
    names : sequence
        Of the classes.
    largest : float
        What the bounded measure cannot exceed. A finite number above it bounds nothing and is
        refused; it is most likely a percentage.

    Examples
    --------
    >>> epsilon_per_class({"no": 0.1, "yes": 0.2}, ["no", "yes"])
    array([0.1, 0.2])
    >>> epsilon_per_class({"b": 0.1}, ["a", "b", "c"])
    array([inf, 0.1, inf])
    >>> epsilon_per_class({"b": 0.1, ...: 0.2}, ["a", "b", "c"])
    array([0.2, 0.1, 0.2])
    """
    values = numbers_per_class("epsilon", epsilon, names, others=np.inf)
    wrong = np.flatnonzero(~(values >= 0))
    if len(wrong):
        value = float(values[wrong[0]])
        problem = f"`epsilon` is {value}{_where(epsilon, int(wrong[0]), names)}."
        remedy = "Pass the largest disparity that you accept: a number of at least 0, such as 0.01."
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
    """Refuse finite numbers above what a disparity can be: most likely they are percentages.

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> refuse_percentages("epsilon", [0.1, np.inf], 1.0)
    """
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    rounding = 1e-9  # a difference of 1 that was computed may come out a little above it
    above = np.flatnonzero((numbers > largest + rounding) & np.isfinite(numbers))
    if not len(above):
        return
    place, value = int(above[0]), float(numbers[above[0]])
    problem = f"`{what}` is {value:g}{where(place)}, but what it bounds never exceeds {largest:g}."
    share = f"for {min(value, 100):g} % pass {min(value, 100) / 100:g}"
    remedy = f"It is a share and no percentage: {share}; inf bounds nothing."
    facts = {"epsilon": value, "largest": largest, "class_index": place, **facts}
    raise ParameterError(problem, remedy=remedy, **facts)


def _where(given: Any, place: int, names: Sequence[object]) -> str:
    one_for_all = not isinstance(given, Mapping) and np.ndim(given) == 0
    return "" if one_for_all else f" for class {names[place]!r}"
