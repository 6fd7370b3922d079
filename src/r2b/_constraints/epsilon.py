"""Epsilon and other numbers per class, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Floats
from r2b._data.values import listed, type_word
from r2b.errors import ParameterError

Epsilon = float | ArrayLike | Mapping[Any, float]


def epsilon_per_class(
    epsilon: Epsilon, names: Sequence[object], *, largest: float = np.inf
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
    values = numbers_per_class("epsilon", epsilon, names, partial=True)
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


def numbers_per_class(
    what: str, given: Epsilon, names: Sequence[object], *, partial: bool = False
) -> Floats:
    """Read a number for each name; a partial mapping leaves other classes infinite."""
    remedy, n_classes = "Pass one number such as 0.01, or one per class.", len(names)
    if given is None or isinstance(given, (bool, np.bool_)):
        raise ParameterError(f"`{what}` is {given}.", remedy=remedy, **{what: given})
    given = labelled(given)
    if isinstance(given, Mapping):
        given = _by_name(what, given, list(names), partial)
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        problem = f"`{what}` is {given!r}, which is not a number."
        raise ParameterError(problem, remedy=remedy, **{what: given}) from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_classes):
        problem = f"`{what}` has shape {values.shape}, but there are {n_classes} classes."
        remedy = f"Pass one number, or {n_classes} numbers in the order of the classes."
        raise ParameterError(problem, remedy=remedy, shape=values.shape, n_classes=n_classes)
    return np.broadcast_to(values, (n_classes,)).copy()


def labelled(given: Any) -> Any:
    """Return a column with row labels as a mapping by them: names go before positions."""
    index = getattr(given, "index", None)
    if index is None or not hasattr(given, "to_dict") or not hasattr(index, "tolist"):
        return given
    # Row labels 0, 1, 2, ... are what a column has that was given none.
    return given if index.tolist() == list(range(len(index))) else given.to_dict()


def _where(given: Epsilon, place: int, names: Sequence[object]) -> str:
    one_for_all = not isinstance(given, Mapping) and np.ndim(given) == 0
    return "" if one_for_all else f" for class {names[place]!r}"


def _by_name(what: str, given: Mapping[Any, float], names: list[Any], partial: bool) -> list[float]:
    known = set(names)
    missing = [name for name in names if name not in given] if not partial else []
    unknown = [name for name in given if name not in known and not (partial and name is ...)]
    if unknown or missing or not given:
        of_type, fault = "", "names no class"
        if unknown:
            fault, words = f"names {unknown[0]!r}", [type_word(e) for e in (unknown[0], names[0])]
            if words[0] != words[1]:  # '0' is not 0, however alike they are written
                fault += f" ({words[0]}), but the classes are of another type"
                of_type = f" ({words[1]})"
            else:
                fault += ", which is not a class"
        elif missing:
            fault = f"has no value for class {missing[0]!r}"
        whose = "classes among these" if partial else "every class once"
        remedy = f"Name {whose}: {listed(names)}{of_type}."
        raise ParameterError(f"`{what}` {fault}.", remedy=remedy, missing=missing, unknown=unknown)
    return (
        [given.get(name, given.get(..., np.inf)) for name in names]
        if partial
        else [given[name] for name in names]
    )
