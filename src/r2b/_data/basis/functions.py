"""Basis functions that the user gives: called with care, refused by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.basis.values import Floats, named
from r2b._data.integers import Array
from r2b.errors import ParameterError

Function = Callable[[Floats], ArrayLike]


def functions_of(basis: Any) -> tuple[Function, ...]:
    """Give one or several functions as a tuple."""
    functions = (basis,) if callable(basis) else tuple(basis) if isinstance(basis, Sequence) else ()
    wrong = next((function for function in functions if not callable(function)), None)
    if not functions or wrong is not None:
        raise ParameterError(
            f"The basis {basis!r} holds no function." if not functions else f"The basis holds {wrong!r}, which is not a function.",
            remedy='Pass "linear", "spline", a function of an array of values, or a list of such functions.',
            basis=basis,
        )
    return functions


def names_of(functions: tuple[Function, ...], name: str) -> tuple[str, ...]:
    """Name functions by their own name where it tells them apart, else by their place."""
    own = [str(getattr(function, "__name__", "")) for function in functions]
    telling = [part.isidentifier() and own.count(part) == 1 for part in own]
    return tuple(named(name, part if tells else f"function {j}") for j, (part, tells) in enumerate(zip(own, telling, strict=True), 1))


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
        with np.errstate(all="ignore"):  # what is not finite is refused below, with the value that it came from
            result: Array = np.asarray(function(numbers.copy()))
    except Exception as error:
        problem = f"The basis function {name!r} raised {type(error).__name__} ({error})."
        raise ParameterError(problem, remedy="Correct the function: it is called with an array of values.", function=name) from error
    if result.shape != numbers.shape:
        problem = f"The basis function {name!r} gave the shape {result.shape} for values of shape {numbers.shape}."
        raise ParameterError(problem, remedy=fix, function=name, shape=result.shape, expected=numbers.shape)
    if result.dtype.kind not in "fiub":
        problem = f"The basis function {name!r} gave {result.dtype} instead of numbers."
        raise ParameterError(problem, remedy=fix, function=name, dtype=str(result.dtype))
    outcome: Floats = result.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(outcome))
    if len(bad):
        value, found = float(numbers[bad[0]]), float(outcome[bad[0]])
        problem = f"The basis function {name!r} gives {found!r} at the value {value!r}."
        raise ParameterError(problem, remedy=fix, function=name, value=value, found=found)
    return outcome


def refuse_batchwise(functions: tuple[Function, ...], names: tuple[str, ...], numbers: Floats, raw: Floats) -> None:
    """Raise where a function looks at the other values too (a mean, a rank): on new rows it would be another function."""
    some = np.arange(len(numbers) // 2, -1, -1)
    off = np.abs(outcomes(functions, names, numbers[some]) - raw[some]).max(axis=0)
    wrong = np.flatnonzero(off > 1e-9 * np.abs(raw).max(axis=0))
    if len(wrong):
        name = names[wrong[0]]
        raise ParameterError(
            f"The basis function {name!r} gives a value another result when other values are passed with it.",
            remedy="Compute means, ranks and the like once, outside, and use them as constants in the function.",
            function=name,
            difference=float(off[wrong[0]]),
        )
