"""NumPy arrays to codes and back, and sums that do not depend on the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.compute import in_order, matrix_parts, parts_of

Array = np.ndarray[Any, np.dtype[Any]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
Whole = NDArray[np.int64]

SAME = 1e-12  # numbers this close are equal, summed in another order
SUM_ROUNDING = 1e-9  # of parts that add up to 1, and of means of such parts
BLOCK_ROWS = 65_536  # also entries of a table that still sits in the second-level cache


def plain_value(value: Any) -> Any:
    """Return a NumPy scalar as a Python value, for messages and names."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def as_objects(values: Sequence[Any]) -> Array:
    """Return an array of Python objects, each as it is."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def frozen(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def divided(top: Array, bottom: Array, otherwise: Any = 0.0) -> Floats:
    """Divide where the divisor is above 0; elsewhere return something else.

    Examples
    --------
    >>> divided(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    result = np.empty(np.broadcast_shapes(top.shape, bottom.shape))
    result[...] = otherwise
    np.divide(top, bottom, out=result, where=bottom > 0)
    return result


def first_and_count(mask: Array) -> tuple[int, int]:
    """Return the first row where a mask is true and the number of such rows.

    Examples
    --------
    >>> first_and_count(np.array([False, True, True]))
    (1, 2)
    """
    return int(np.argmax(mask)), int(np.count_nonzero(mask))


def smallest_unsigned(n_values: int) -> np.dtype[Any]:
    """Return the smallest unsigned dtype that holds the codes 0 to ``n_values - 1``.

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
    found = None
    for some in (values[:BLOCK_ROWS], values):  # one block of most columns shows both ends
        low, high = int(some.min()), int(some.max())
        # A table of all values between the ends is faster than sorting while it is not much longer
        # than the values. Differences of larger numbers leave 64 bits.
        if high - low >= max(BLOCK_ROWS, 4 * len(values)) or max(-low, high) >= 1 << 62:
            present, codes = np.unique(values, return_inverse=True)
            return codes.astype(smallest_unsigned(len(present)), copy=False), present
        found = _shifted(values, low, high)
        if found is not None:
            break
    assert found is not None  # no value lies beyond the ends of all
    codes, occurs = found
    places = np.flatnonzero(occurs)
    if len(places) < len(occurs):
        codes = (np.cumsum(occurs) - 1).clip(min=0).astype(smallest_unsigned(len(places)))[codes]
    return codes, (places + low).astype(values.dtype)


def _shifted(values: Array, low: int, high: int) -> tuple[Array, Array] | None:
    """Return ``values - low``, and which of these occur; None where a value is beyond the ends."""
    span = high - low + 1
    codes, occurs = np.empty(len(values), smallest_unsigned(span)), np.zeros(span, dtype=bool)
    offset = codes.dtype.type(low % (1 << (8 * codes.itemsize)))
    for rows in parts_of(len(values), BLOCK_ROWS):  # checked and written while it is in cache
        block, out = values[rows], codes[rows]
        if block.min() < low or block.max() > high:
            return None
        np.copyto(out, block, casting="unsafe")
        out -= offset  # unsigned numbers wrap: right again whatever the cast did
        if span > BLOCK_ROWS or not occurs.all():  # one block of most columns has all values
            occurs[out] = True
    return codes, occurs


def count_codes(
    codes: Callable[[slice], Array], n_rows: int, n_codes: int, repeats: Array | None = None
) -> Floats:
    """Count how many rows have each code.

    Parameters
    ----------
    codes : callable
        Returns the codes of a slice of the rows.
    n_rows, n_codes : int
    repeats : ndarray of shape (n_rows,), optional
        How often each row counts.

    Examples
    --------
    >>> count_codes(np.array([0, 2, 2]).__getitem__, 3, 4)
    array([1., 0., 2., 0.])
    """

    def count(rows: slice) -> Array:
        found, part = codes(rows), None if repeats is None else repeats[rows]
        if part is None and found.dtype == np.uint8 and len(found) == size:
            pairs = np.bincount(np.ascontiguousarray(found).view(np.uint16), minlength=1 << 16)
            pairs = pairs.reshape(256, 256)
            return np.asarray((pairs.sum(axis=0) + pairs.sum(axis=1))[:n_codes])
        return np.bincount(found, part, minlength=n_codes)

    total = np.zeros(n_codes)
    # The table of a part must not cost more than its rows; bytes are counted two at a time.
    size = max(16 * BLOCK_ROWS, 4 * n_codes)
    for counted in in_order(count, parts_of(n_rows, size)):
        total += counted
    return total


def first_rows(codes: Array, n_values: int) -> Array:
    """Return the first row of each code; every code must occur.

    Examples
    --------
    >>> first_rows(np.array([1, 0, 1, 2], dtype=np.uint8), 3)
    array([1, 0, 3])
    """
    first = np.empty(n_values, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def count_ends(table: Array, rows: Places, aims: Array) -> Places:
    """Count the ends that each aim has passed, in the given rows of a table of rising ends.

    The width of the table is a power of two.
    """
    flat, half = table.ravel(), table.shape[1] >> 1
    first = rows * table.shape[1]
    place = first.copy()
    while half:
        # take, not indexing: it is twice as fast, and the places are in range by construction.
        place += half * (flat.take(place + (half - 1)) <= aims)
        half >>= 1
    return np.asarray(place - first)


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
        # Compacting after every attribute keeps the product below rows x values, however many
        # attributes there are.
        mixed = crossed.astype(smallest_unsigned(len(table) * size))
        mixed *= mixed.dtype.type(size)
        mixed += code.astype(mixed.dtype, copy=False)
        crossed, present = compact_integers(mixed)
        place, value = np.divmod(present.astype(np.int64), size)
        table = np.column_stack([table[place], value])
    return crossed, table


def few_texts(array: Array) -> tuple[Array, Array] | None:
    """Return codes and values of text by hashes of 16 bits, None where two values share one.

    Examples
    --------
    >>> few_texts(np.array(["pear", "fig", "pear"]))[0].tolist() in ([0, 1, 0], [1, 0, 1])
    True
    """
    characters = array.view(np.uint32 if array.dtype.kind == "U" else np.uint8)
    characters = characters.reshape(len(array), -1)
    hashes, parts = np.empty(len(array), np.uint16), parts_of(len(array), BLOCK_ROWS)

    def write(rows: slice) -> None:
        mixed = np.zeros(rows.stop - rows.start, np.uint64)
        for column in characters[rows].T:
            mixed += column
            mixed *= np.uint64(0x9E3779B97F4A7C15)
        hashes[rows] = mixed >> np.uint64(48)

    list(in_order(write, parts))
    codes, distinct = compact_integers(hashes)
    values = array[first_rows(codes, len(distinct))]
    same = (np.array_equal(values[codes[rows]], array[rows]) for rows in parts)
    return (codes, values) if all(same) else None


def row_hashes(matrix: Array, groups: Array | None = None) -> NDArray[np.uint64]:
    """Return a hash of each row of float32 or float64, and of its cell; equal for equal rows."""
    # A 64-bit multiply-add over the bit patterns, block by block. Equal hashes are only candidates:
    # rows are compared before merging.
    odd = np.random.default_rng(0x5EED).integers(
        0, 2**63, matrix.shape[1] + 1, dtype=np.uint64
    ) * np.uint64(2) + np.uint64(1)
    word = np.uint64 if matrix.dtype.itemsize == 8 else np.uint32
    hashes = np.empty(len(matrix), dtype=np.uint64)
    block = max(1, 131_072 // matrix.shape[1])
    for start in range(0, len(matrix), block):
        part = np.ascontiguousarray(matrix[start : start + block]).view(word).astype(np.uint64)
        part ^= part >> np.uint64(29)
        part *= np.uint64(0xBF58476D1CE4E5B9)
        part ^= part >> np.uint64(32)
        hashes[start : start + block] = (part * odd[:-1]).sum(axis=1)
    return hashes if groups is None else hashes + groups.astype(np.uint64) * odd[-1]


def distinct_rows(matrix: Array, groups: Array | None = None) -> tuple[Array, Array]:
    """Return the code of each row, and the first place of each code, by first appearance.

    Examples
    --------
    >>> distinct_rows(np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]))
    (array([0, 1, 0], dtype=uint8), array([0, 1]))
    """
    # By hash: the order of first appearance does not depend on it.
    _, first, inverse = np.unique(
        row_hashes(matrix, groups), return_index=True, return_inverse=True
    )
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=smallest_unsigned(len(order)))
    rank[order] = np.arange(len(order), dtype=rank.dtype)
    codes, first = rank[inverse], first[order]
    stands = first[codes]
    same = (
        np.array_equal(matrix[stands[rows]], matrix[rows]) for rows in matrix_parts(*matrix.shape)
    )
    if all(same) and (groups is None or np.array_equal(groups[stands], groups)):
        return codes, first
    every = np.arange(len(matrix))  # two rows have the same 64-bit hash: right without merging
    return every.astype(smallest_unsigned(len(every))), every


def new_part(matrix: Array, groups: Array | None = None) -> float:
    """Estimate the part of the rows that are the first of their kind, from some 4,096 rows."""
    some = slice(None, None, max(len(matrix) >> 12, 1))
    probe = row_hashes(matrix[some], None if groups is None else groups[some])
    return len(np.unique(probe)) / len(probe)


# Where prices are not unique, a difference in the last bit of a weight can choose between them, and
# equal data must not give different prices: weights are added up exactly, and rounded once.
_UNIT = 1074  # every float64 is a whole number of 2**-1074, and its mantissa has 53 bits


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
    # Halves of 27 bits of 2**24 rows at a time are added up as floats, which are exact to 53 bits.
    for start in range(0, len(codes), 1 << 24):
        rows = slice(start, start + (1 << 24))
        part, exponent = np.frexp(weight[rows])
        lowest = int(exponent.min())
        span = int(exponent.max()) - lowest + 1
        whole = np.ldexp(part, 53).astype(np.int64)
        place = codes[rows].astype(np.int64) * span + (exponent - lowest)
        high = np.bincount(place, whole >> 27, minlength=n_codes * span)
        low = np.bincount(place, whole & ((1 << 27) - 1), minlength=n_codes * span)
        for there in np.flatnonzero(high + low).tolist():
            code, power = divmod(there, span)
            units = (int(high[there]) << 27) + int(low[there])
            shift = power + lowest - 53 + _UNIT
            total[code] = total.get(code, 0) + (units << shift if shift >= 0 else units >> -shift)
    return total


def as_float(total: int) -> float:
    """Return an exact sum as the nearest float.

    Examples
    --------
    >>> sums = exact_sums(np.zeros(3, int), np.array([1e16, 1.0, 1.0]), 1)
    >>> as_float(sums[0])
    1.0000000000000002e+16
    """
    return total / (1 << _UNIT)


def exact_bincount(codes: Array, weight: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
    """Return the sum of the weights of each code, rounded once.

    ``np.bincount`` rounds after every row.

    Examples
    --------
    >>> exact_bincount(np.array([0, 1, 1, 1]), np.array([0.1, 1e16, 1.0, 1.0]), 3).tolist()
    [0.1, 1.0000000000000002e+16, 0.0]
    """
    out = np.zeros(n_codes)
    if len(codes) < 4 * n_codes:
        # Many codes have one weight, its own sum, or two, which are rounded once.
        out = np.bincount(codes, weight, minlength=n_codes).astype(np.float64)
        many = np.flatnonzero((np.bincount(codes, minlength=n_codes) > 2)[codes])
        codes, weight = codes[many], weight[many]
    if len(codes):
        for code, total in exact_sums(codes, weight, n_codes).items():
            out[code] = as_float(total)
    return out
