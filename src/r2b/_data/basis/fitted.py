"""A basis that was fitted to the distribution of an attribute: what it needs for new values, and no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Floats
from r2b._data.basis.functions import (
    Function,
    distribution,
    function_error,
    functions_of,
    knots_of,
    named,
    names_of,
    natural_splines,
    numeric_values,
    outcomes,
    refuse_batchwise,
)
from r2b._data.values import listed, stored_as
from r2b.errors import InputError, ParameterError

Choice = Literal["linear", "spline"] | Function | Sequence[Function]
Kind = Literal["linear", "spline", "functions"]

# A function whose part that is new, after the functions before it, is this small against the whole
# has lost half of its digits to rounding (the root of the precision of a float): what would be
# bounded is mostly noise.
NEW_PART = math.sqrt(float(np.finfo(np.float64).eps))
OTHER_KNOTS = "Use fewer knots, put them where values are, or take the attribute's logarithm."


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions of one attribute, fitted: centred and orthonormal on the rows they were fitted to.

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
        for array in (self.knots, self.origin, self.scale, self.centre, self.transform):
            array.flags.writeable = False

    @property
    def n_functions(self) -> int:
        """The number of functions, J."""
        return len(self.names)

    def evaluate(self, values: ArrayLike) -> Floats:
        """Give the functions at values, seen or new; the same value gives the same bits whatever values are beside it.

        Parameters
        ----------
        values : array-like of numbers, of shape (n,)

        Returns
        -------
        ndarray of shape (n, n_functions)

        Raises
        ------
        InputError
            A value is not a finite number, or so far away that a function overflows.
        ParameterError
            A function of the user's gives no finite number at a value.
        """
        numbers = numeric_values(values)
        with np.errstate(over="ignore", invalid="ignore"):
            found = (
                times((self.raw(numbers) - self.origin) / self.scale, self.transform) - self.centre
            )
        far = ~np.isfinite(found).all(axis=1)
        if far.any():
            value = float(numbers[far][0])
            problem = f"The value {value!r} is so far outside the fitted range {self.fitted_range} that the basis functions overflow there."
            remedy = "Correct the value, or fit on data that has such values."
            raise InputError(problem, remedy=remedy, value=value, fitted_range=self.fitted_range)
        return found

    def raw(self, numbers: Floats) -> Floats:
        """Give the functions before they are scaled and made orthonormal."""
        if self.kind == "functions":
            return outcomes(self.functions, self.names, numbers)
        return natural_splines(self.knots, numbers) if self.kind == "spline" else numbers[:, None]

    def to_json(self) -> dict[str, Any]:
        """Give the basis as a dictionary of plain values that JSON can hold.

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
            problem = f"The basis holds functions of your own ({listed(self.names)}), which a file cannot hold."
            remedy = 'Only basis="linear" and basis="spline" can be saved: choose one of them, or keep this object in memory.'
            raise ParameterError(problem, remedy=remedy, kind=self.kind, names=self.names)
        plain = {
            "kind": self.kind,
            "names": list(self.names),
            "knots_asked": self.knots_asked,
            "fitted_range": list(self.fitted_range),
        }
        return plain | {key: getattr(self, key).tolist() for key in _ARRAYS}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Basis:
        """Restore a basis from :meth:`to_json`; it gives the same bits.

        Raises
        ------
        FileFormatError
            The dictionary is not one of a basis.
        """
        with stored_as("basis"):
            names = tuple(str(name) for name in stored["names"])
            arrays: dict[str, Any] = {
                key: np.array(stored[key], dtype=np.float64) for key in _ARRAYS
            }
            low, high = (float(value) for value in stored["fitted_range"])
            kind, asked = stored["kind"], int(stored["knots_asked"])
            _check_stored(kind, len(names), arrays)
            return cls(kind, names, knots_asked=asked, fitted_range=(low, high), **arrays)


_ARRAYS = ("knots", "origin", "scale", "centre", "transform")


def _check_stored(kind: Any, n: int, arrays: dict[str, Floats]) -> None:
    if kind not in ("linear", "spline"):
        raise ValueError(f"the kind is {kind!r}")
    n_knots = n + 1 if kind == "spline" else 0
    shapes = {
        "knots": (n_knots,),
        "origin": (n,),
        "scale": (n,),
        "centre": (n,),
        "transform": (n, n),
    }
    for key, shape in shapes.items():
        if n == 0 or arrays[key].shape != shape or not np.isfinite(arrays[key]).all():
            raise ValueError(
                f"{key} has the shape {arrays[key].shape} and should hold finite numbers of shape {shape}"
            )
    if (np.diff(arrays["knots"]) <= 0).any() or (arrays["scale"] <= 0).any():
        raise ValueError("knots that do not increase, or a scale that is not positive")


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
    values : array-like of numbers, of shape (n,)
        The values of the attribute. Distinct values with their total weights do, and are faster
        than rows.
    weight : array-like of shape (n,)
        Values of weight 0 do not count.
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
        Knots that cannot be used; a function that is constant, depends on those before it, or gives
        no finite numbers of the right shape.
    InputError
        The attribute has one value only, or a value that is not a finite number; weights that
        cannot be used.

    Examples
    --------
    >>> basis = fit_basis(np.arange(17.0, 91.0), np.ones(74), knots=4, name="age")
    >>> basis.names, basis.knots
    (('age, linear', 'age, spline 2', 'age, spline 3'), array([20., 42., 65., 87.]))
    >>> b = basis.evaluate(np.arange(17.0, 91.0))
    >>> bool(np.allclose(b.mean(axis=0), 0)), bool(np.allclose(b.T @ b / 74, np.eye(3)))
    (True, True)
    """
    numbers, share = distribution(values, weight, name)
    used, asked = np.empty(0), 0
    functions: tuple[Function, ...] = ()
    if callable(basis) or not isinstance(basis, str):
        kind: Kind = "functions"
        functions = functions_of(basis)
        names = names_of(functions, name)
        raw = outcomes(functions, names, numbers)
        refuse_batchwise(functions, names, numbers, raw)
    elif basis == "linear":
        kind, names, raw = "linear", (named(name, "linear"),), numbers[:, None]
    elif basis == "spline":
        used, asked = knots_of(knots, numbers, share, name)
        kind, raw, names = "spline", natural_splines(used, numbers), spline_names(name, len(used))
    else:
        remedy = 'Choose "linear", "spline", or pass functions of your own.'
        raise ParameterError(f"The basis {basis!r} is not known.", remedy=remedy, basis=basis)
    origin, scale = _placed(raw, share, names, kind)
    ready = (raw - origin) / scale
    transform = orthonormal(np.sqrt(share)[:, None] * (ready - share @ ready), names, kind)
    # Last, so that the mean is 0 to the last digit: the classes of a row add up to 1, and moments
    # of exactly 0 need a mean of 0.
    centre = share @ times(ready, transform)
    return Basis(
        kind,
        names,
        used,
        asked,
        (float(numbers.min()), float(numbers.max())),
        origin,
        scale,
        centre,
        transform,
        functions,
    )


def _placed(
    raw: Floats, share: Floats, names: tuple[str, ...], kind: Kind
) -> tuple[Floats, Floats]:
    """Give a rough mean and the reach of each function, so that later sums are of numbers around 1 and lose no digits to an offset."""
    origin = share @ raw
    with np.errstate(over="ignore"):
        scale: Floats = np.abs(raw - origin).max(axis=0)
    # A function of the user's that is constant but for rounding is constant; given values are taken
    # as exact.
    noise = (
        64 * np.finfo(np.float64).eps * np.abs(raw).max(axis=0)
        if kind == "functions"
        else np.zeros(len(names))
    )
    for name, reach, floor, value in zip(names, scale, noise, raw[0], strict=True):
        constant = bool(reach <= floor)
        if constant or not math.isfinite(reach):
            problem = (
                f"is constant: {float(value)!r} for every row with weight"
                if constant
                else "has values too far apart for a float"
            )
            leave = (
                OTHER_KNOTS
                if kind == "spline"
                else "Leave it out: no label is correlated with a constant."
            )
            raise function_error(
                name,
                problem,
                leave if constant else "Divide it by a power of ten.",
                value=float(value),
            )
    return origin, scale


def times(ready: Floats, transform: Floats) -> Floats:
    """Multiply by an upper triangular matrix, the same way whatever rows are beside each other."""
    # Not by BLAS, which adds in an order that depends on the number of rows.
    result = np.zeros_like(ready)
    for j in range(len(transform)):
        result[:, j:] += ready[:, j, None] * transform[j, j:]
    return result


def spline_names(name: str, n_knots: int) -> tuple[str, ...]:
    """Name the functions of a spline."""
    return (named(name, "linear"), *(named(name, f"spline {j}") for j in range(2, n_knots)))


def orthonormal(factor: Floats, names: tuple[str, ...], kind: Kind) -> Floats:
    """Give the upper triangular T with ``(F T)' (F T) = I``, by QR: forming F'F would square the condition number.

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
    # Columns of length 1: the diagonal is the part of each function that those before it do not
    # have. A second round of QR on the result was tried; what is left is the rounding of the
    # functions themselves.
    triangle = np.linalg.qr(factor / np.where(norm > 0, norm, 1), mode="r")
    new = np.abs(np.diag(triangle))
    if (new < NEW_PART).any():
        first = int(np.argmax(new < NEW_PART))
        name = names[first]
        problem = f"On these values the basis function {name!r} is a linear combination of a constant and the functions before it."
        remedy = OTHER_KNOTS if kind == "spline" else "Leave it out: bounding the others bounds it."
        raise ParameterError(problem, remedy=remedy, function=name, new_part=float(new[first]))
    signed = triangle * np.sign(np.diag(triangle))[:, None]
    return np.asarray(np.triu(np.linalg.inv(signed)) / norm[:, None])
