"""The values of a continuous attribute, and how its weight is spread over them: checked, never repaired."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b._data.integers import Array
from r2b._data.objects import family_of
from r2b._data.vocabulary import plain_value
from r2b.errors import InputError, LengthError, ShapeError, WeightError

Floats = NDArray[np.float64]


def numeric_values(values: ArrayLike, *, what: str = "the attribute") -> Floats:
    """Read values of an attribute as float64, refusing what is not a finite number; true/false and dates are not numbers here.

    Parameters
    ----------
    values : array-like of shape (n,)
    what : str
        How the column is called in an error.

    Raises
    ------
    ShapeError, InputError

    Examples
    --------
    >>> numeric_values([17, 90])
    array([17., 90.])
    """
    array: Array = np.asarray(values)
    if array.ndim != 1:
        raise ShapeError(
            f"The values of {what} have the shape {array.shape}.", remedy="Pass one value per row.", column=what, shape=array.shape
        )
    if array.dtype.kind in "fiu":
        numbers: Floats = array.astype(np.float64)
    else:
        for value in array:  # the vocabulary of a column, or already wrong: cheap either way
            if family_of(type(value)) not in ("int", "float") and not isinstance(value, Decimal):
                raise _not_numeric(plain_value(value), what)
        numbers = np.array([float(value) for value in array], dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise _not_numeric(float(numbers[~np.isfinite(numbers)][0]), what)
    return numbers


def _not_numeric(value: Any, what: str) -> InputError:
    return InputError(
        f"In {what}, the value {value!r} is not a finite number, and a continuous attribute has no other values.",
        remedy="Convert it to numbers (a date to an age, for example) and drop rows without one, or use the attribute as groups.",
        column=what,
        value=value,
    )


def spoken(name: str) -> str:
    """Say which attribute is meant in an error."""
    return f"the attribute {name!r}" if name else "the attribute"


def named(name: str, function: str) -> str:
    """Name a function of an attribute."""
    return f"{name}, {function}" if name else function


def distribution(values: ArrayLike, weight: ArrayLike, name: str) -> tuple[Floats, Floats]:
    """Check values and weights; give those that count, ascending, and their shares of the weight."""
    what = spoken(name)
    numbers, given = numeric_values(values, what=what), np.asarray(weight)
    if given.dtype.kind not in "fiub":
        raise WeightError(f"The weights of {what} have the dtype {given.dtype}.", remedy="Pass numbers.", dtype=str(given.dtype))
    weights = given.astype(np.float64)
    if weights.shape != numbers.shape:
        raise LengthError(
            f"There are {len(numbers)} values of {what}, but weights of shape {weights.shape}.",
            remedy="Pass one weight per value.",
            lengths=(len(numbers), weights.shape),
        )
    bad = ~(weights >= 0) | ~np.isfinite(weights)
    with np.errstate(over="ignore"):
        total = float(weights.sum()) if not bad.any() else math.nan
    if not 0 < total < math.inf:
        found = f"a weight of {float(weights[bad][0])!r}" if bad.any() else f"weights that add up to {total!r}"
        raise WeightError(
            f"The values of {what} have {found}.",
            remedy="Pass finite weights of zero or more, with a positive and finite sum.",
            total=total,
        )
    order = np.argsort(numbers, kind="stable")
    order = order[weights[order] > 0]
    numbers, share = numbers[order], weights[order] / total
    low, high = float(numbers[0]), float(numbers[-1])
    if low == high:
        raise InputError(
            f"All rows with weight have the same value {low!r} of {what}.",
            remedy="Leave the attribute out: labels cannot depend on it.",
            column=name,
            value=low,
        )
    if not math.isfinite(high - low):
        raise InputError(
            f"The values of {what} lie between {low!r} and {high!r}, a distance that a float cannot hold.",
            remedy="Divide the attribute by a power of ten.",
            column=name,
            range=(low, high),
        )
    return numbers, share
