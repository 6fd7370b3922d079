"""The numbers of a bound: one for all classes, one per class in order, or one per class by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b.errors import ParameterError

Floats = NDArray[np.float64]
Epsilon = float | ArrayLike | Mapping[Any, float]


def epsilon_per_class(epsilon: Epsilon, n_classes: int, names: Sequence[object] | None = None) -> Floats:
    """Check ``epsilon`` (one number, one per class in order, or one per class by name) and freeze it.

    Examples
    --------
    >>> epsilon_per_class({"no": 0.1, "yes": 0.2}, 2, ["no", "yes"])
    array([0.1, 0.2])
    """
    values = numbers_per_class("epsilon", epsilon, n_classes, names)
    wrong = np.flatnonzero(~(values >= 0))
    if len(wrong):
        value = float(values[wrong[0]])
        raise ParameterError(
            f"epsilon is {value}{_where(epsilon, int(wrong[0]), names)}.",
            remedy="It is the largest difference between group means that you accept: pass a number of at least 0, such as 0.01.",
            epsilon=value,
            class_index=int(wrong[0]),
        )
    values += 0.0  # a negative zero would be written as one
    values.flags.writeable = False
    return values


def numbers_per_class(what: str, given: Epsilon, n_classes: int, names: Sequence[object] | None = None) -> Floats:
    """Read one number for all classes, or one per class, as an array of shape (n_classes,)."""
    if given is None or isinstance(given, (bool, np.bool_)):
        raise ParameterError(f"{what} is {given}.", remedy="Pass one number such as 0.01, or one per class.", **{what: given})
    given = labelled(given)
    if isinstance(given, Mapping):
        given = _by_name(what, given, list(range(n_classes)) if names is None else list(names))
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"{what} is {given!r}, which is not a number.",
            remedy="Pass one number such as 0.01, or one per class.",
            **{what: given},
        ) from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_classes):
        raise ParameterError(
            f"{what} has shape {values.shape}, but there are {n_classes} classes.",
            remedy=f"Pass one number, or {n_classes} numbers in the order of the classes.",
            shape=values.shape,
            n_classes=n_classes,
        )
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


def _by_name(what: str, given: Mapping[Any, float], names: list[Any]) -> list[float]:
    known = set(names)
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in known]
    if missing or unknown:
        fault = f"has no value for class {missing[0]!r}" if missing else f"names {unknown[0]!r}, which is not a class"
        raise ParameterError(
            f"{what} {fault}.",
            remedy=f"Name every class once: {', '.join(map(repr, names[:10]))}{', ...' if len(names) > 10 else ''}.",
            missing=missing,
            unknown=unknown,
        )
    return [given[name] for name in names]
