"""Functions of a continuous attribute that stand where group indicators would.

They are centred and orthonormal on the fitted rows. Parity bounds the moments
``sum_i w_i b_j(s_i) x_ik / sum_i w_i``. A basis knows values of one attribute and their weights,
never a label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Floats
from r2b._data.values import json_value, listed, stored_as, stored_numbers
from r2b.errors import InputError, ParameterError

Function = Callable[[Floats], ArrayLike]
Choice = Literal["linear", "spline"] | Function | Sequence[Function]
Kind = Literal["linear", "spline", "functions"]

# A function of which so small a part is new, after the functions before it, has lost half of its
# digits to rounding: what would be bounded is mostly noise.
NEW_PART = math.sqrt(float(np.finfo(np.float64).eps))
OTHER_KNOTS = "Use fewer knots, put them where values are, or take the attribute's logarithm."


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions of one attribute: centred and orthonormal on the rows they were fitted to.

    A spline is natural and cubic: twice continuously differentiable, and a straight line beyond its
    outermost knots, for new values too. The functions come in order: the first of a spline is the
    linear one, each later one is orthogonal to all before it.

    Attributes
    ----------
    kind : {"linear", "spline", "functions"}
    names : tuple of str
        One per function, such as ``"age, spline 3"``.
    knots : ndarray of shape (K,)
        The knots in use, ascending; empty unless a spline. Fewer than ``knots_asked`` where
        quantiles fell on the same value.
    knots_asked : int
    fitted_range : tuple of two floats
        The smallest and the largest value with weight.
    origin, scale, centre : ndarray of shape (n_functions,)
    transform : ndarray of shape (n_functions, n_functions)
        Raw functions f, in a row, become ``(f - origin) / scale @ transform - centre``. The
        transform is upper triangular.
    functions : tuple of callables
        What the user gave; empty unless that is the kind.

    Examples
    --------
    >>> basis = fit_basis(np.array([20.0, 40.0, 60.0]), np.ones(3), basis="linear", name="age")
    >>> basis.names, basis.evaluate(np.array([20.0, 40.0, 100.0])).round(3).tolist()
    (('age, linear',), [[-1.225], [0.0], [3.674]])
    """

    kind: Kind
    names: tuple[str, ...]
    knots: Floats
    knots_asked: int
    fitted_range: tuple[float, float]
    origin: Floats
    scale: Floats
    centre: Floats
    transform: Floats
    functions: tuple[Function, ...] = ()

    def __post_init__(self) -> None:
        for key in _ARRAYS:
            getattr(self, key).flags.writeable = False

    @property
    def n_functions(self) -> int:
        """The number of functions, J."""
        return len(self.names)

    def evaluate(self, values: ArrayLike) -> Floats:
        """Return the functions at finite values; each value gets the same bits among any others.

        Parameters
        ----------
        values : array-like of numbers, of shape (n,)

        Returns
        -------
        ndarray of shape (n, n_functions)

        Raises
        ------
        InputError
            A value is so far away that a function overflows.
        ParameterError
            A function of the user's returns no finite number at a value.
        """
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            ready = (self.raw(numbers) - self.origin) / self.scale
            found = times(ready, self.transform) - self.centre
        far = ~np.isfinite(found).all(axis=1)
        if far.any():
            value = float(numbers[far][0])
            problem = f"The basis functions, fitted on {self.fitted_range}, overflow at {value!r}."
            remedy = "Correct the value, or fit on data that has such values."
            raise InputError(problem, remedy=remedy, value=value, fitted_range=self.fitted_range)
        return found

    def raw(self, numbers: Floats) -> Floats:
        """Return the functions before they are scaled and made orthonormal."""
        if self.kind == "functions":
            return outcomes(self.functions, self.names, numbers)
        return natural_splines(self.knots, numbers) if self.kind == "spline" else numbers[:, None]

    def to_json(self) -> dict[str, Any]:
        """Return the basis as a dictionary of plain values that JSON can hold.

        Raises
        ------
        ParameterError
            The functions are the user's own: code cannot be stored.

        Examples
        --------
        >>> stored = fit_basis([0.0, 2.0], [1.0, 1.0], basis="linear").to_json()
        >>> stored["kind"], stored["origin"], stored["names"]
        ('linear', [1.0], ['linear'])
        """
        if self.kind == "functions":
            problem = f"A file cannot hold the functions {listed(self.names)} of your own."
            remedy = 'Choose `basis="linear"` or `basis="spline"`, or keep this object in memory.'
            raise ParameterError(problem, remedy=remedy, kind=self.kind, names=self.names)
        kept = (field.name for field in fields(self) if field.name != "functions")
        plain: dict[str, Any] = json_value({name: getattr(self, name) for name in kept})
        return plain

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Basis:
        """Restore a basis from :meth:`to_json`; it returns the same bits.

        Raises
        ------
        FileFormatError
            The dictionary is not one of a basis.
        """
        with stored_as("basis"):
            names, kind = tuple(map(str, stored["names"])), stored["kind"]
            n, n_knots = len(names), {"linear": 0, "spline": len(names) + 1}[kind]
            shapes = ((n_knots,), (n,), (n,), (n,), (n, n))
            arrays: dict[str, Any] = {
                key: stored_numbers(stored[key], shape)
                for key, shape in zip(_ARRAYS, shapes, strict=True)
            }
            if n == 0 or (np.diff(arrays["knots"]) <= 0).any() or (arrays["scale"] <= 0).any():
                raise ValueError("knots that do not increase, or a scale that is not positive")
            low, high = (float(value) for value in stored["fitted_range"])
            asked = int(stored["knots_asked"])
            return cls(kind, names, knots_asked=asked, fitted_range=(low, high), **arrays)


_ARRAYS = ("knots", "origin", "scale", "centre", "transform")


def fit_basis(
    values: ArrayLike,
    weight: ArrayLike,
    *,
    basis: Choice = "spline",
    knots: int | ArrayLike = 5,
    name: str = "",
) -> Basis:
    """Fit basis functions to the distribution of an attribute.

    Parameters
    ----------
    values : array-like of finite numbers, of shape (n,)
        The values of the attribute. Distinct values with their total weights are enough.
    weight : array-like of shape (n,)
        Zero or more, with a positive sum. Values of weight 0 do not count.
    basis : {"linear", "spline"}, callable or sequence of callables
        One linear function; a natural cubic spline, with one function fewer than it has knots; or
        functions of your own, each from an array of values to an array of the same length, value by
        value. Functions of your own cannot be saved.
    knots : int or array-like, default 5
        For a spline: how many, put at quantiles of the weighted values, evenly spaced from 5 % to
        95 %; or increasing numbers, the knots. A value that many rows share can hold several
        quantiles. There are fewer knots then: ``Basis.knots`` has those in use.
    name : str
        Name of the attribute, for the names of the functions and for errors.

    Returns
    -------
    Basis

    Raises
    ------
    ParameterError
        Knots that cannot be used; a function that is constant, depends on those before it, or
        returns no finite numbers of the right shape.
    InputError
        The attribute has one value only, or values too far apart for a float.

    Examples
    --------
    >>> basis = fit_basis(np.arange(17.0, 91.0), np.ones(74), knots=4, name="age")
    >>> basis.names, basis.knots
    (('age, linear', 'age, spline 2', 'age, spline 3'), array([20., 42., 65., 87.]))
    >>> b = basis.evaluate(np.arange(17.0, 91.0))
    >>> bool(np.allclose(b.mean(axis=0), 0)), bool(np.allclose(b.T @ b / 74, np.eye(3)))
    (True, True)
    """
    numbers, share = _distribution(values, weight, name)
    used, asked = np.empty(0), 0
    functions: tuple[Function, ...] = ()
    kind: Kind = "functions"
    if not isinstance(basis, str):
        functions = functions_of(basis)
        names = names_of(functions, name)
        raw = outcomes(functions, names, numbers)
        refuse_batchwise(functions, names, numbers, raw)
    elif basis == "linear":
        kind, names, raw = "linear", (named(name, "linear"),), numbers[:, None]
    elif basis == "spline":
        used, asked = knots_of(knots, numbers, share, name)
        kind, raw = "spline", natural_splines(used, numbers)
        places = ["linear", *(f"spline {j}" for j in range(2, len(used)))]
        names = tuple(named(name, place) for place in places)
    else:
        remedy = 'Choose "linear", "spline", or pass functions of your own.'
        raise ParameterError(f"The basis {basis!r} is not known.", remedy=remedy, basis=basis)
    # Sums of numbers around 1 lose no digits. A function of the user's that is constant but for
    # rounding is constant: dividing by infinity makes it 0, which is refused as dependent.
    noise = 64 * np.finfo(np.float64).eps * np.abs(raw).max(axis=0) * (kind == "functions")
    with np.errstate(over="ignore", invalid="ignore"):
        origin = share @ raw
        scale = np.abs(raw - origin).max(axis=0)
        scale = np.where(scale > noise, scale, np.inf)
        ready = (raw - origin) / scale
    transform = orthonormal(np.sqrt(share)[:, None] * (ready - share @ ready), names, kind)
    # Last, so that the mean is 0 to the last digit: moments of exactly 0 need a mean of 0.
    centre = share @ times(ready, transform)
    ends = float(numbers[0]), float(numbers[-1])
    return Basis(kind, names, used, asked, ends, origin, scale, centre, transform, functions)


def named(name: str, function: str) -> str:
    """Name a function of an attribute."""
    return f"{name}, {function}" if name else function


def _attribute(name: str) -> str:
    return f"the attribute {name!r}" if name else "the attribute"


def _distribution(values: ArrayLike, weight: ArrayLike, name: str) -> tuple[Floats, Floats]:
    """Return the values with weight, ascending, and their shares of the weight."""
    numbers, weights = np.asarray(values, np.float64), np.asarray(weight, np.float64)
    order = np.argsort(numbers, kind="stable")
    order = order[weights[order] > 0]
    numbers, share = numbers[order], weights[order] / weights.sum()
    low, high = float(numbers[0]), float(numbers[-1])
    if low == high:
        problem = f"All rows with weight have the same value {low!r} of {_attribute(name)}."
        remedy = "Leave the attribute out: labels cannot depend on it."
        raise InputError(problem, remedy=remedy, column=name, value=low)
    if not math.isfinite(high - low):
        problem = f"The values of {_attribute(name)} from {low!r} to {high!r} are too far apart."
        remedy = "Divide the attribute by a power of ten."
        raise InputError(problem, remedy=remedy, column=name, range=(low, high))
    return numbers, share


def times(ready: Floats, transform: Floats) -> Floats:
    """Multiply by an upper triangular matrix, each row the same way whatever rows are beside it."""
    # Not by BLAS, which adds in an order that depends on the number of rows.
    result = np.zeros_like(ready)
    for j in range(len(transform)):
        result[:, j:] += ready[:, j, None] * transform[j, j:]
    return result


def orthonormal(factor: Floats, names: tuple[str, ...], kind: Kind) -> Floats:
    """Return the upper triangular T with ``(F T)' (F T) = I``.

    By QR: forming F'F would square the condition number.

    Parameters
    ----------
    factor : ndarray of shape (n, n_functions)
        Centred functions times the root of each row's share; or the triangle that QR makes of them.
    names : tuple of str
    kind : {"linear", "spline", "functions"}
    """
    # Rows of zeros change nothing but let QR name the dependent function where there are more
    # functions than values.
    factor = np.pad(factor, ((0, max(len(names) - len(factor), 0)), (0, 0)))
    norm = np.linalg.norm(factor, axis=0)
    # With columns of length 1 the diagonal is the part of each function that is new.
    triangle = np.linalg.qr(factor / np.where(norm > 0, norm, 1), mode="r")
    new = np.abs(np.diag(triangle))
    if not (new >= NEW_PART).all():
        first = int(np.argmin(new >= NEW_PART))
        remedy = OTHER_KNOTS if kind == "spline" else "Leave it out: bounding the others bounds it."
        problem = (
            "is on these values a linear combination of a constant and the functions before it"
        )
        raise _error(names[first], problem, remedy, new_part=float(new[first]))
    signed = triangle * np.sign(np.diag(triangle))[:, None]
    return np.asarray(np.triu(np.linalg.inv(signed)) / norm[:, None])


def functions_of(basis: Any) -> tuple[Function, ...]:
    """Return one or several functions as a tuple."""
    functions = tuple(basis) if isinstance(basis, Sequence) else (basis,)
    if not functions or not all(map(callable, functions)):
        problem = f"The basis {basis!r} is not a function or a list of functions."
        remedy = 'Pass "linear", "spline", a function of an array of values, or a list of them.'
        raise ParameterError(problem, remedy=remedy, basis=basis)
    return functions


def names_of(functions: tuple[Function, ...], name: str) -> tuple[str, ...]:
    """Name functions by their own name where it tells them apart, else by their place."""
    own = [str(getattr(function, "__name__", "")) for function in functions]
    return tuple(
        named(name, part if part.isidentifier() and own.count(part) == 1 else f"function {j}")
        for j, part in enumerate(own, 1)
    )


def _error(name: str, problem: str, remedy: str, **facts: Any) -> ParameterError:
    problem = f"The basis function {name!r} {problem}."
    return ParameterError(problem, remedy=remedy, function=name, **facts)


def outcomes(functions: tuple[Function, ...], names: tuple[str, ...], numbers: Floats) -> Floats:
    """Call every function; return their results, of shape (n, n_functions)."""
    raw = np.empty((len(numbers), len(functions)))
    for j, (function, name) in enumerate(zip(functions, names, strict=True)):
        try:
            # what is not finite is refused below, with the value that it came from
            with np.errstate(all="ignore"):
                result: Array = np.asarray(function(numbers.copy()), dtype=np.float64)
        except Exception as error:
            remedy = "Correct the function: it is called with an array of values."
            raise _error(name, f"raised {type(error).__name__} ({error})", remedy) from error
        fix = "Return one finite number per value."
        if result.shape != numbers.shape:
            problem = f"returned the shape {result.shape} for values of shape {numbers.shape}"
            raise _error(name, problem, fix, shape=result.shape, expected=numbers.shape)
        bad = np.flatnonzero(~np.isfinite(result))
        if len(bad):
            value, found = float(numbers[bad[0]]), float(result[bad[0]])
            problem = f"returned {found!r} at the value {value!r}"
            raise _error(name, problem, fix, value=value, found=found)
        raw[:, j] = result
    return raw


def refuse_batchwise(
    functions: tuple[Function, ...], names: tuple[str, ...], numbers: Floats, raw: Floats
) -> None:
    """Raise where a function looks at other values too, such as a mean or a rank.

    On new rows it would be another function.
    """
    some = np.arange(len(numbers) // 2, -1, -1)
    off = np.abs(outcomes(functions, names, numbers[some]) - raw[some]).max(axis=0)
    wrong = np.flatnonzero(off > 1e-9 * np.abs(raw).max(axis=0))
    if len(wrong):
        problem = "returns another result for a value when other values are passed with it"
        remedy = "Compute means, ranks and the like once, outside of the function."
        raise _error(names[wrong[0]], problem, remedy, difference=float(off[wrong[0]]))


def knots_of(
    knots: int | ArrayLike, numbers: Floats, share: Floats, name: str
) -> tuple[Floats, int]:
    """Return the knots to use and the number asked for."""
    given = np.asarray(knots)
    number = given.ndim == 0 and given.dtype.kind in "iu" and given >= 2
    knots_given = given.ndim == 1 and given.dtype.kind in "fiu" and len(given) >= 2
    if not number and not (knots_given and np.isfinite(given).all() and (np.diff(given) > 0).all()):
        remedy = "Pass a whole number of at least 2, or at least two increasing finite numbers."
        raise ParameterError(f"The knots are {given.tolist()!r}.", remedy=remedy, knots=knots)
    used = given.astype(np.float64)
    if number:
        # The outermost knots leave a twentieth of the weight on either side: beyond them a spline
        # is a straight line, so that a few far values cannot bend it. Sums of shares carry
        # rounding, and a quantile that equals one must not slip over it.
        quantiles = np.linspace(0.05, 1 - 0.05, int(given)) - 1e-12
        place = np.searchsorted(np.cumsum(share), quantiles)
        used = np.unique(numbers[np.minimum(place, len(numbers) - 1)])
    # Knots that are closer would be one knot to divided differences.
    if len(used) < 2 or np.diff(used).min() <= 1e-14 * (used[-1] - used[0]):
        problem = f"The knots of {_attribute(name)} are too close: {used.tolist()}."
        remedy = 'Pass increasing numbers that are farther apart, or `basis="linear"`.'
        raise ParameterError(problem, remedy=remedy, knots=used.tolist(), column=name)
    return used, int(given) if number else len(used)


def natural_splines(knots: Floats, numbers: Floats) -> Floats:
    """Return the values and, for each inner knot, the natural spline that is 1 only at that knot.

    With the constant these span all natural splines of the knots.
    """
    at, where = ((each - knots[0]) / (knots[-1] - knots[0]) for each in (knots, numbers))
    if len(at) == 2:
        return np.asarray(where[:, None])
    from scipy.interpolate import CubicSpline

    splines = CubicSpline(at, np.eye(len(at))[:, 1:-1], bc_type="natural")
    inside = np.clip(where, 0.0, 1.0)
    # beyond the outermost knots the straight line of the boundary goes on
    return np.column_stack(
        [where, splines(inside) + splines(inside, 1) * (where - inside)[:, None]]
    )
