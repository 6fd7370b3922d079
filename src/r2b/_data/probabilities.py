"""Label probabilities: one N x L matrix on the user's memory where that is possible, checked block by block.

The matrix is never written to, and no temporary of its size is made unless ``normalize`` asks for a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.arrival import Column, Frame, Matrix
from r2b._data.objects import complex_error, is_missing
from r2b.errors import InputError, ProbabilityError

BLOCK_BYTES = 1 << 19  # read twice while it is in the second-level cache
_LONG_ROW = 32
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-6}


@dataclass(frozen=True)
class Wording:
    """How errors speak of a matrix of probabilities: over classes, or over the groups that a row may belong to."""

    noun: str
    numbers_needed: str
    normalising: str


CLASSES = Wording(
    noun="class",
    numbers_needed="Pass one column of class names, or one numeric column of probabilities per class.",
    normalising="Divide each row by its sum, which normalize=True does.",
)


def row_blocks(matrix: Array) -> Iterator[slice]:
    """Cut the rows of a matrix in blocks that fit the cache.

    Examples
    --------
    >>> list(row_blocks(np.zeros((40_000, 4))))
    [slice(0, 16384, None), slice(16384, 32768, None), slice(32768, 40000, None)]
    """
    rows = max(1, BLOCK_BYTES // max(1, matrix.shape[1] * matrix.itemsize))
    for start in range(0, len(matrix), rows):
        yield slice(start, min(start + rows, len(matrix)))


def as_matrix(found: Frame | Matrix, *, what: str, wording: Wording = CLASSES) -> tuple[Array, bool]:
    """Give the numbers of a table as float32 or float64, and whether they are a copy that is ours.

    Raises
    ------
    InputError
        A column is not numeric.
    """
    if isinstance(found, Matrix):
        return _as_floats(found.array, what, wording)
    # The first row tells the dtype, so that columns which must be converted are held one at a time.
    dtypes = [_numbers(replace(column, native=column.native[:1]), what, wording).dtype for column in found.columns]
    common = np.result_type(*dtypes)
    target = common if common in TOLERANCE else np.dtype(np.float32 if common == np.float16 else np.float64)
    if all(dtype == target for dtype in dtypes) and _is_plain(found):
        matrix = found.native.to_numpy()
        return matrix, matrix.flags.writeable and not np.may_share_memory(matrix, found.columns[0].native.to_numpy())
    matrix = np.empty((len(found), len(found.columns)), dtype=target)
    for k, column in enumerate(found.columns):
        matrix[:, k] = _numbers(column, what, wording)
    return matrix, True


def _is_plain(found: Frame) -> bool:
    """Say whether the library can give the frame as one matrix, perhaps without a copy."""
    if found.library == "pandas":
        return all(isinstance(column.native.dtype, np.dtype) and column.native.dtype.kind == "f" for column in found.columns)
    return found.library == "polars" and all(column.native.dtype.is_float() for column in found.columns)


def _as_floats(array: Array, what: str, wording: Wording) -> tuple[Array, bool]:
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan) if np.ma.is_masked(array) else np.asarray(array)
    kind = array.dtype.kind
    if kind == "c":
        raise complex_error(what)
    if kind == "O":
        return _of_objects(array, what, wording), True
    if kind not in "fiub":
        raise InputError(
            f"The argument {what} has {array.shape[1]} columns of dtype {array.dtype}, which are not probabilities.",
            remedy=wording.numbers_needed,
            argument=what,
            dtype=str(array.dtype),
        )
    native = array.dtype.newbyteorder("=")
    target = native if native in TOLERANCE else np.dtype(np.float32 if native == np.float16 else np.float64)
    return (array, False) if array.dtype == target else (array.astype(target), True)


def _of_objects(array: Array, what: str, wording: Wording) -> Array:
    numbers = np.empty(array.shape, dtype=np.float64)
    for place in np.ndindex(*array.shape):
        value: Any = array[place]
        try:
            if isinstance(value, (str, bytes)):  # NumPy would read "0.5" as a number
                raise TypeError
            numbers[place] = np.nan if is_missing(value) else value
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"In {what}, row {place[0]} holds {value!r}, which is not a probability.",
                remedy=wording.numbers_needed,
                argument=what,
                row=place[0],
                value=value,
            ) from error
    return numbers


def _numbers(column: Column, what: str, wording: Wording) -> Array:
    """Give a column of a frame as a NumPy array of numbers, missing ones as NaN."""
    native = column.native
    if isinstance(native, np.ma.MaskedArray):
        native = np.ma.filled(native.astype(np.float64), np.nan)
    if column.library == "pandas" and hasattr(native.dtype, "numpy_dtype"):
        native = native.to_numpy(dtype=np.float64, na_value=np.nan)  # the nullable numbers and those of pyarrow
    array = np.asarray(native.to_numpy() if column.library in ("pandas", "polars") and not isinstance(native, np.ndarray) else native)
    spoken = f"column {column.name!r} of {what}"
    if array.dtype.kind == "O":
        return _of_objects(array, spoken, wording)
    if array.dtype.kind == "c":
        raise complex_error(spoken)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"The values of {spoken} are of type {array.dtype}, which are not probabilities.",
            remedy=wording.numbers_needed,
            argument=what,
            column=column.name,
            dtype=str(array.dtype),
        )
    return array


def checked(matrix: Array, *, ours: bool, name_of: Callable[[int], Any], what: str, normalize: bool, wording: Wording = CLASSES) -> Array:
    """Check that every row is a distribution, in one walk over the matrix.

    Parameters
    ----------
    matrix : ndarray of shape (N, L), float32 or float64
    ours : bool
        Whether the memory is a copy made here, so that ``normalize`` need not make another.
    name_of : callable
        Class name of a column number, for errors.
    what : str
    normalize : bool
        Divide every row by its sum.
    wording : Wording
        How errors call the columns.

    Returns
    -------
    ndarray of shape (N, L)
        Read-only: a view on ``matrix``, or a copy with ``normalize``.

    Raises
    ------
    ProbabilityError
    """
    result = np.empty(matrix.shape, dtype=matrix.dtype) if normalize and not ours else matrix.view()
    tolerance = TOLERANCE[matrix.dtype]
    for rows in row_blocks(matrix):
        block = matrix[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            sums = _row_sums(block)
            fine = block.min() >= 0 and (normalize or bool((np.abs(sums - 1) <= tolerance / 2).all())) and bool(np.isfinite(sums).all())
        if not fine or normalize:
            # Single precision may itself be off by as much as the tolerance, so a row is only refused on its exact sum.
            sums = block.sum(axis=1, dtype=np.float64)
        if not fine:
            _refuse_entries(block, rows.start, name_of, what, wording)
        if normalize:
            _refuse_zero_rows(sums, rows.start, what)
            np.divide(block, sums[:, None], out=result[rows], casting="same_kind")
        elif not fine and (np.abs(sums - 1) > tolerance).any():
            raise _sum_error(matrix, tolerance, what, wording)
    result.flags.writeable = False
    return result


def _row_sums(block: Array) -> Array:
    # Each is the faster on its side by up to two times; ``block.sum(axis=1)`` is on neither. Threads gain nothing: memory is the limit.
    if block.shape[1] < _LONG_ROW:
        return block @ np.ones(block.shape[1], dtype=block.dtype)
    sums: Array = np.einsum("ik->i", block)
    return sums


def _refuse_entries(block: Array, start: int, name_of: Callable[[int], Any], what: str, wording: Wording) -> None:
    bad = ~np.isfinite(block)
    found = "is not a finite number" if bad.any() else "is negative"
    if not bad.any():
        bad = block < 0
    if not bad.any():
        return
    row, col = (int(place) for place in np.argwhere(bad)[0])
    value, name = float(block[row, col]), name_of(col)
    raise ProbabilityError(
        f"In {what}, row {start + row} has the probability {value!r} for {wording.noun} {name!r}, which {found}.",
        remedy="Correct or drop this row; probabilities lie between 0 and 1.",
        argument=what,
        row=start + row,
        value=value,
        **{f"{wording.noun}_name": name},
    )


def _refuse_zero_rows(sums: Array, start: int, what: str) -> None:
    if (sums == 0).any():
        row = start + int(np.argmax(sums == 0))
        raise ProbabilityError(
            f"In {what}, row {row} has the probability 0 for every class, so that it cannot be normalised.",
            remedy="Drop this row, or give it a distribution.",
            argument=what,
            row=row,
            total=0.0,
        )


def _sum_error(matrix: Array, tolerance: float, what: str, wording: Wording) -> ProbabilityError:
    first, total, count = -1, 0.0, 0
    for rows in row_blocks(matrix):
        with np.errstate(invalid="ignore", over="ignore"):
            sums = matrix[rows].sum(axis=1, dtype=np.float64)
            off = ~(np.abs(sums - 1) <= tolerance)
        if first < 0 and off.any():
            first = rows.start + int(np.argmax(off))
            total = float(sums[first - rows.start])
        count += int(off.sum())
    rows_off = "it is the only such row" if count == 1 else f"{count} of {len(matrix)} rows do not sum to 1"
    return ProbabilityError(
        f"In {what}, row {first} sums to {total:.9g}, not to 1; {rows_off} (tolerance {tolerance:g}).",
        remedy=wording.normalising,
        argument=what,
        row=first,
        total=total,
        count=count,
    )
