"""Integers to compact codes without sorting the rows: the hot path of reading a large table.

It never allocates more than the codes themselves and one block, and stands alone so that a compiled version can take its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK_ROWS = 65_536
_DENSE = 4  # times the number of values: the widest span that is ranked by a table rather than by sorting
_FAR = 1 << 62  # beyond which offsets leave a signed integer
WIDEST_SPAN = 65_536  # a table of this many entries still sits in the second-level cache


def smallest_unsigned(n_values: int) -> np.dtype[Any]:
    """Give the smallest unsigned dtype that holds the codes 0 to ``n_values - 1``.

    Examples
    --------
    >>> smallest_unsigned(256), smallest_unsigned(257)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.min_scalar_type(max(n_values - 1, 0))


def compact_integers(values: Array) -> tuple[Array, Array]:
    """Replace integers by their rank among the distinct values that occur.

    Parameters
    ----------
    values : ndarray of shape (N,)
        Any integer dtype, any byte order, any stride; at least one row.

    Returns
    -------
    codes : ndarray of shape (N,)
        In the smallest unsigned dtype.
    present : ndarray of shape (n,)
        The distinct values, ascending, in the dtype of ``values``.

    Examples
    --------
    >>> codes, present = compact_integers(np.array([7, -2, 7], dtype=np.int8))
    >>> codes, present
    (array([1, 0, 1], dtype=uint8), array([-2,  7], dtype=int8))
    """
    low, high = int(values[:BLOCK_ROWS].min()), int(values[:BLOCK_ROWS].max())
    codes = _shifted(values, low, high) if high - low < WIDEST_SPAN else None
    if codes is None:  # the first block did not show the whole span
        low, high = int(values.min()), int(values.max())
        codes = _shifted(values, low, high) if high - low < WIDEST_SPAN else None
    if codes is None and high - low < _DENSE * len(values) and low > -_FAR and high < _FAR:
        return _tabled(values, low, high - low + 1)
    if codes is None:
        present, codes = np.unique(values, return_inverse=True)
        return codes.astype(smallest_unsigned(len(present)), copy=False), present.astype(values.dtype, copy=False)
    span = high - low + 1
    occurs = _occurring(codes, span)
    offsets = np.flatnonzero(occurs)
    # Python integers: the sum may leave the dtype on the way (an int8 span reaches 255), its values never do.
    present = np.array([low + int(offset) for offset in offsets], dtype=values.dtype)
    if len(offsets) < span:
        codes = _ranked(codes, occurs, len(offsets))
    return codes, present


def _tabled(values: Array, low: int, span: int) -> tuple[Array, Array]:
    """Rank many values by a table of those that occur: no sort, where the table is about as long as the values."""
    offsets = values.astype(np.int64) - low
    occurs = np.zeros(span, dtype=bool)
    occurs[offsets] = True
    found = np.flatnonzero(occurs)
    if len(found) < span:
        offsets = (np.cumsum(occurs) - 1)[offsets]
    return offsets.astype(smallest_unsigned(len(found))), (found + low).astype(values.dtype)


def _shifted(values: Array, low: int, high: int) -> Array | None:
    """Subtract ``low``, or give None at the first block with a value outside the span: one walk both checks and casts."""
    dtype = smallest_unsigned(high - low + 1)
    codes = np.empty(len(values), dtype)
    offset = dtype.type(low % (1 << (8 * dtype.itemsize)))
    for start in range(0, len(values), BLOCK_ROWS):
        block, out = values[start : start + BLOCK_ROWS], codes[start : start + BLOCK_ROWS]
        if block.min() < low or block.max() > high:
            return None
        # Unsigned arithmetic wraps, so casting first and subtracting after is exact for any integer dtype as long as the span fits.
        np.copyto(out, block, casting="unsafe")
        if offset:
            out -= offset
    return codes


def _occurring(codes: Array, span: int) -> Array:
    occurs = np.zeros(span, dtype=bool)
    for start in range(0, len(codes), BLOCK_ROWS):
        occurs |= np.bincount(codes[start : start + BLOCK_ROWS], minlength=span) > 0
        if occurs.all():  # nothing more to learn: most columns are done after one block
            break
    return occurs


def _ranked(codes: Array, occurs: Array, n_present: int) -> Array:
    dtype = smallest_unsigned(n_present)
    rank = (np.cumsum(occurs) - 1).clip(min=0).astype(dtype)
    ranked = codes if codes.dtype == dtype else np.empty(len(codes), dtype=dtype)
    for start in range(0, len(codes), BLOCK_ROWS):
        ranked[start : start + BLOCK_ROWS] = rank[codes[start : start + BLOCK_ROWS]]
    return ranked


def first_rows(codes: Array, n_values: int) -> Array:
    """Give the first row at which each code occurs; every code must occur.

    Examples
    --------
    >>> first_rows(np.array([1, 0, 1, 2], dtype=np.uint8), 3)
    array([1, 0, 3])
    """
    first = np.full(n_values, -1, dtype=np.int64)
    left = n_values
    for start in range(0, len(codes), BLOCK_ROWS):
        block = codes[start : start + BLOCK_ROWS]
        here = np.full(n_values, -1, dtype=np.int64)
        here[block[::-1]] = np.arange(start + len(block) - 1, start - 1, -1)
        new = (first < 0) & (here >= 0)
        first[new] = here[new]
        left -= int(new.sum())
        if left == 0:
            break
    return first


def cross(codes: list[Array], sizes: list[int]) -> tuple[Array, Array]:
    """Cross the codes of several attributes, keeping only the crossings that occur.

    Parameters
    ----------
    codes : list of ndarray of shape (N,)
    sizes : list of int
        The number of values of each attribute.

    Returns
    -------
    crossed : ndarray of shape (N,)
    table : ndarray of shape (R, n_attributes)
        Lexicographic.

    Examples
    --------
    >>> cross([np.array([0, 1, 1]), np.array([2, 0, 2])], [2, 3])
    (array([0, 1, 2], dtype=uint8), array([[0, 2],
           [1, 0],
           [1, 2]]))
    """
    crossed, present = compact_integers(codes[0])
    table = present.astype(np.int64)[:, None]
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        # Compacting after every attribute keeps the product below rows x values, however many attributes there are.
        mixed = crossed.astype(smallest_unsigned(len(table) * size))
        mixed *= mixed.dtype.type(size)
        mixed += code.astype(mixed.dtype, copy=False)
        crossed, present = compact_integers(mixed)
        place, value = np.divmod(present.astype(np.int64), size)
        table = np.column_stack([table[place], value])
    return crossed, table
