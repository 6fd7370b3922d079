"""Sums of weights that do not depend on the order of the rows, nor on how they are cut into parts: exact, then rounded once.

Where prices are not unique, a difference in the last bit of a weight can choose between them; equal data must not give different prices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]

_UNIT = 1074  # every float64 is a whole number of 2**-1074
_BITS = 53
_LOW = 27
_MOST_ROWS = 1 << 24  # of a part: whole numbers of 27 bits are added up as floats, which are exact to 53


def exact_sums(codes: Array, weight: NDArray[np.float64], n_codes: int) -> dict[int, int]:
    """Add up the weights of each code exactly.

    Parameters
    ----------
    codes : ndarray of integers, of shape (N,)
    weight : ndarray of shape (N,)
        Finite, none negative.
    n_codes : int

    Returns
    -------
    dict of int to int
        For every code that occurs with weight, the sum in units of 2**-1074.

    Examples
    --------
    >>> exact_sums(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.5]), 2)[1] == 2**1073
    True
    """
    total: dict[int, int] = {}
    for start in range(0, len(codes), _MOST_ROWS):
        _add(codes[start : start + _MOST_ROWS], weight[start : start + _MOST_ROWS], n_codes, total)
    return total


def _add(codes: Array, weight: NDArray[np.float64], n_codes: int, total: dict[int, int]) -> None:
    part, exponent = np.frexp(weight)
    lowest = int(exponent.min())
    span = int(exponent.max()) - lowest + 1
    whole = np.ldexp(part, _BITS).astype(np.int64)
    place = codes.astype(np.int64) * span + (exponent - lowest)
    high = np.bincount(place, whole >> _LOW, minlength=n_codes * span)
    low = np.bincount(place, whole & ((1 << _LOW) - 1), minlength=n_codes * span)
    for there in np.flatnonzero(high + low).tolist():
        code, power = divmod(there, span)
        units = (int(high[there]) << _LOW) + int(low[there])
        shift = power + lowest - _BITS + _UNIT
        total[code] = total.get(code, 0) + (units << shift if shift >= 0 else units >> -shift)


def as_float(total: int) -> float:
    """Give an exact sum as the nearest float.

    Examples
    --------
    >>> sums = exact_sums(np.zeros(3, int), np.array([1e16, 1.0, 1.0]), 1)
    >>> as_float(sums[0])
    1.0000000000000002e+16
    """
    return total / (1 << _UNIT)


def exact_bincount(codes: Array, weight: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
    """Give the sum of the weights of each code, rounded once; ``np.bincount`` rounds after every row."""
    if n_codes > 4 * len(codes) + 4096:  # a table of sums larger than the rows: nobody counts these elsewhere
        return np.bincount(codes, weight, minlength=n_codes).astype(np.float64)
    out = np.zeros(n_codes)
    for code, total in exact_sums(codes, weight, n_codes).items():
        out[code] = as_float(total)
    return out
