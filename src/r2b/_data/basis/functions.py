"""Basis functions that the user gives: called with care, refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Floats, plain_value
from r2b._data.libraries import family_of
from r2b.errors import InputError, LengthError, ParameterError, ShapeError, WeightError


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
        problem = f"The values of {what} have the shape {array.shape}."
        raise ShapeError(problem, remedy="Pass one value per row.", column=what, shape=array.shape)
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
    problem = f"In {what}, the value {value!r} is not a finite number, and a continuous attribute has no other values."
    remedy = "Convert it to numbers (a date to an age, for example) and drop rows without one, or use the attribute as groups."
    return InputError(problem, remedy=remedy, column=what, value=value)


def called(name: str) -> str:
    """Say which attribute is meant in an error."""
    return f"the attribute {name!r}" if name else "the attribute"


def named(name: str, function: str) -> str:
    """Name a function of an attribute."""
    return f"{name}, {function}" if name else function


def distribution(values: ArrayLike, weight: ArrayLike, name: str) -> tuple[Floats, Floats]:
    """Check values and weights; give those that count, ascending, and their shares of the weight."""
    what = called(name)
    numbers, given = numeric_values(values, what=what), np.asarray(weight)
    if given.dtype.kind not in "fiub":
        raise WeightError(
            f"The weights of {what} have the dtype {given.dtype}.",
            remedy="Pass numbers.",
            dtype=str(given.dtype),
        )
    weights = given.astype(np.float64)
    if weights.shape != numbers.shape:
        problem = (
            f"There are {len(numbers)} values of {what}, but weights of shape {weights.shape}."
        )
        raise LengthError(
            problem, remedy="Pass one weight per value.", lengths=(len(numbers), weights.shape)
        )
    bad = ~(weights >= 0) | ~np.isfinite(weights)
    with np.errstate(over="ignore"):
        total = float(weights.sum()) if not bad.any() else math.nan
    if not 0 < total < math.inf:
        found = (
            f"a weight of {float(weights[bad][0])!r}"
            if bad.any()
            else f"weights that add up to {total!r}"
        )
        remedy = "Pass finite weights of zero or more, with a positive and finite sum."
        raise WeightError(f"The values of {what} have {found}.", remedy=remedy, total=total)
    order = np.argsort(numbers, kind="stable")
    order = order[weights[order] > 0]
    numbers, share = numbers[order], weights[order] / total
    low, high = float(numbers[0]), float(numbers[-1])
    if low == high:
        problem = f"All rows with weight have the same value {low!r} of {what}."
        raise InputError(
            problem,
            remedy="Leave the attribute out: labels cannot depend on it.",
            column=name,
            value=low,
        )
    if not math.isfinite(high - low):
        problem = f"The values of {what} lie between {low!r} and {high!r}, a distance that a float cannot hold."
        raise InputError(
            problem,
            remedy="Divide the attribute by a power of ten.",
            column=name,
            range=(low, high),
        )
    return numbers, share


Function = Callable[[Floats], ArrayLike]


def functions_of(basis: Any) -> tuple[Function, ...]:
    """Give one or several functions as a tuple."""
    functions = (basis,) if callable(basis) else tuple(basis) if isinstance(basis, Sequence) else ()
    wrong = next((function for function in functions if not callable(function)), None)
    if not functions or wrong is not None:
        problem = (
            f"The basis {basis!r} holds no function."
            if not functions
            else f"The basis holds {wrong!r}, which is not a function."
        )
        remedy = 'Pass "linear", "spline", a function of an array of values, or a list of such functions.'
        raise ParameterError(problem, remedy=remedy, basis=basis)
    return functions


def function_error(name: str, problem: str, remedy: str, **facts: Any) -> ParameterError:
    """Build the error for a basis function that cannot be used."""
    return ParameterError(
        f"The basis function {name!r} {problem}.", remedy=remedy, function=name, **facts
    )


def names_of(functions: tuple[Function, ...], name: str) -> tuple[str, ...]:
    """Name functions by their own name where it tells them apart, else by their place."""
    own = [str(getattr(function, "__name__", "")) for function in functions]
    telling = [part.isidentifier() and own.count(part) == 1 for part in own]
    return tuple(
        named(name, part if tells else f"function {j}")
        for j, (part, tells) in enumerate(zip(own, telling, strict=True), 1)
    )


def outcomes(functions: tuple[Function, ...], names: tuple[str, ...], numbers: Floats) -> Floats:
    """Call every function; give their results, of shape (n, n_functions)."""
    raw = np.empty((len(numbers), len(functions)))
    if len(numbers):
        for j, (function, name) in enumerate(zip(functions, names, strict=True)):
            raw[:, j] = _called(function, name, numbers)
    return raw


def _called(function: Function, name: str, numbers: Floats) -> Floats:
    fix = "Return one finite number per value."
    try:
        # what is not finite is refused below, with the value that it came from
        with np.errstate(all="ignore"):
            result: Array = np.asarray(function(numbers.copy()))
    except Exception as error:
        problem, remedy = (
            f"raised {type(error).__name__} ({error})",
            "Correct the function: it is called with an array of values.",
        )
        raise function_error(name, problem, remedy) from error
    if result.shape != numbers.shape:
        problem = f"gave the shape {result.shape} for values of shape {numbers.shape}"
        raise function_error(name, problem, fix, shape=result.shape, expected=numbers.shape)
    if result.dtype.kind not in "fiub":
        raise function_error(
            name, f"gave {result.dtype} instead of numbers", fix, dtype=str(result.dtype)
        )
    outcome: Floats = result.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(outcome))
    if len(bad):
        value, found = float(numbers[bad[0]]), float(outcome[bad[0]])
        raise function_error(
            name, f"gives {found!r} at the value {value!r}", fix, value=value, found=found
        )
    return outcome


def refuse_batchwise(
    functions: tuple[Function, ...], names: tuple[str, ...], numbers: Floats, raw: Floats
) -> None:
    """Raise where a function looks at the other values too (a mean, a rank): on new rows it would be another function."""
    some = np.arange(len(numbers) // 2, -1, -1)
    off = np.abs(outcomes(functions, names, numbers[some]) - raw[some]).max(axis=0)
    wrong = np.flatnonzero(off > 1e-9 * np.abs(raw).max(axis=0))
    if len(wrong):
        problem = "gives a value another result when other values are passed with it"
        remedy = "Compute means, ranks and the like once, outside, and use them as constants in the function."
        raise function_error(names[wrong[0]], problem, remedy, difference=float(off[wrong[0]]))


# The outermost knots leave a twentieth of the weight on either side: beyond them a spline is a
# straight line, so that a few far values cannot bend it.
OUTER_SHARE = 0.05
# Knots nearer than this, against the distance of the outermost, are one knot to the divided
# differences of a spline.
NEAREST_KNOTS = 1e-14


def knot_shares(n_knots: int) -> Floats:
    """Give the shares of the weight up to each of so many knots."""
    # Sums of shares carry rounding, and a quantile that equals one must not slip over it.
    return np.linspace(OUTER_SHARE, 1 - OUTER_SHARE, n_knots) - 1e-12


def knots_of(
    knots: int | ArrayLike, numbers: Floats, share: Floats, name: str
) -> tuple[Floats, int]:
    """Give the knots to use and the number asked for."""
    given = np.asarray(knots)
    whole, problem = given.ndim == 0 and given.dtype.kind in "iu", ""
    if not (whole or (given.ndim == 1 and given.dtype.kind in "fiu")):
        problem = f"The knots are {knots!r}"
    elif whole and given < 2:
        problem = f"A spline of {int(given)} knots was asked for"
    elif not whole and (
        len(given) < 2 or not np.isfinite(given).all() or (np.diff(given) <= 0).any()
    ):
        problem = f"The knots are {given.tolist()!r}"
    if problem:
        remedy = "Pass a whole number of at least 2, or at least two increasing finite numbers."
        raise ParameterError(f"{problem}.", remedy=remedy, knots=knots)
    used = given.astype(np.float64)
    if whole:
        used = np.unique(
            numbers[
                np.minimum(
                    np.searchsorted(np.cumsum(share), knot_shares(int(given))), len(numbers) - 1
                )
            ]
        )
        if len(used) < 2:
            problem = f"All {int(given)} knots of {called(name)} fall on {float(used[0])!r}, which holds nearly all of the weight."
            remedy = 'Pass the knots themselves as increasing numbers, or basis="linear".'
            raise ParameterError(
                problem, remedy=remedy, knots=used.tolist(), asked=int(given), column=name
            )
    gaps = np.diff(used) / (used[-1] - used[0])
    nearest = int(np.argmin(gaps))
    if not gaps[nearest] > NEAREST_KNOTS:
        pair = float(used[nearest]), float(used[nearest + 1])
        problem = f"The knots {pair[0]!r} and {pair[1]!r} of {called(name)} are too near each other beside the range of all knots."
        remedy = "Pass knots that are farther apart, or transform the attribute, for example by its logarithm."
        raise ParameterError(problem, remedy=remedy, knots=pair, column=name)
    return used, int(given) if whole else len(used)


def natural_splines(knots: Floats, numbers: Floats) -> Floats:
    """Give the value itself and, for each inner knot, the natural spline that is 1 there and 0 at all other knots.

    With the constant these span all natural splines of the knots. They are written by their values
    and second derivatives at the knots, which keeps digits that truncated powers lose.
    """
    reach = knots[-1] - knots[0]
    at, where = (knots - knots[0]) / reach, (numbers - knots[0]) / reach
    n_knots, gap = len(at), np.diff(at)
    level = np.eye(n_knots)[:, 1:-1]
    # second derivatives at the knots, none at the ends: that is what natural means
    bend = np.zeros((n_knots, n_knots))
    if n_knots > 2:
        inner = (
            np.diag((gap[:-1] + gap[1:]) / 3)
            + np.diag(gap[1:-1] / 6, 1)
            + np.diag(gap[1:-1] / 6, -1)
        )
        bend[1:-1] = np.linalg.solve(
            inner, np.diff(np.diff(np.eye(n_knots), axis=0) / gap[:, None], axis=0)
        )
    bend = bend[:, 1:-1]
    piece = np.clip(np.searchsorted(at, where, side="right") - 1, 0, n_knots - 2)
    width = gap[piece]
    right = (where - at[piece]) / width
    left = 1 - right

    def curve(part: Floats) -> Floats:
        # Clipped, the cubic term is gone beyond the outermost knots and the straight line of the
        # boundary goes on.
        return np.asarray((width * width / 6 * (np.clip(part, 0, 1) ** 3 - part))[:, None])

    splines = left[:, None] * level[piece] + right[:, None] * level[piece + 1]
    splines += curve(left) * bend[piece] + curve(right) * bend[piece + 1]
    return np.column_stack([where, splines])
