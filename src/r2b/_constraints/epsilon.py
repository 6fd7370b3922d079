"""Epsilon and other numbers per class, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Floats
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
    """Check epsilon (one number, or one per class in order or by name) and freeze it.

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
    >>> epsilon_per_class({"b": 0.1}, 3, ["a", "b", "c"])
    array([inf, 0.1, inf])
    >>> epsilon_per_class({"b": 0.1, ...: 0.2}, 3, ["a", "b", "c"])
    array([0.2, 0.1, 0.2])
    """
    values = numbers_per_class("epsilon", epsilon, n_classes, names, partial=True)
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
    above = np.flatnonzero((numbers > largest + _ROUNDING) & np.isfinite(numbers))
    if not len(above):
        return
    place, value = int(above[0]), float(numbers[above[0]])
    problem = f"`{what}` is {value:g}{where(place)}, but what it bounds never exceeds {largest:g}."
    percent = min(value, 100)
    share = f"for {percent:g} % pass {percent / 100:g}"
    remedy = f"It is a share and no percentage: {share}; inf bounds nothing."
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
    """Read numbers of shape (n_classes,); a partial mapping leaves other classes infinite."""
    if given is None or isinstance(given, (bool, np.bool_)):
        raise ParameterError(
            f"`{what}` is {given}.",
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
            f"`{what}` is {given!r}, which is not a number.", remedy=remedy, **{what: given}
        ) from None
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
                word_ = type_word(unknown[0])
                fault = f"names {unknown[0]!r} ({word_}), but the classes are of another type"
                listed += f" ({word})"
        elif missing:
            fault = f"has no value for class {missing[0]!r}"
        remedy = f"Name {'classes among these' if partial else 'every class once'}: {listed}."
        raise ParameterError(f"`{what}` {fault}.", remedy=remedy, missing=missing, unknown=unknown)
    return (
        [given.get(name, given.get(..., np.inf)) for name in names]
        if partial
        else [given[name] for name in names]
    )
