"""Label probabilities: one N x L matrix, checked block by block.

The matrix is never written to, and no temporary of its size is made unless ``normalize`` asks for a
copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data.arrays import Array, first_and_count, plain_value
from r2b._data.columns import Column, Frame, argument_error, column_of, make_column
from r2b._data.compute import one_blas_thread, parts_of
from r2b._data.numbers import numbers_of
from r2b._data.values import key_of, listed
from r2b._data.vocabulary import Vocabulary, read_vocabulary
from r2b.errors import (
    MissingValueError,
    MixedTypeError,
    ProbabilityError,
    UnseenError,
    row_number,
    this_part,
)

TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-6}


@dataclass(frozen=True)
class Wording:
    """How errors speak of a matrix of probabilities: over classes, or over groups.

    Attributes
    ----------
    noun : str
    normalising : str
        What to do about a wrong sum.
    at_most : bool
        A sum below 1 is right as well.
    """

    noun: str
    normalising: str
    at_most: bool = False

    def off(self, sums: Array) -> Array:
        """Tell by how much sums are wrong."""
        return sums - 1 if self.at_most else np.abs(sums - 1)

    def wrong(self, sums: Array, tolerance: float, normalize: bool) -> Array:
        """Tell which sums are wrong; any that rows can be divided by is right to ``normalize``."""
        if normalize:
            return ~((sums > 0) & np.isfinite(sums))
        return ~(self.off(sums) <= tolerance)


CLASSES = Wording("class", "Divide each row by its sum, which `normalize=True` does.")
_NUMBERS = "Pass one column of class names, or one numeric column of probabilities per class."


def row_blocks(matrix: Array) -> list[slice]:
    """Cut the rows of a matrix in blocks that fit the second-level cache.

    Examples
    --------
    >>> list(row_blocks(np.zeros((40_000, 4))))
    [slice(0, 16384, None), slice(16384, 32768, None), slice(32768, 40000, None)]
    """
    rows = max(1, (1 << 19) // max(1, matrix.shape[1] * matrix.itemsize))
    return parts_of(len(matrix), rows)


def as_matrix(found: Frame, *, what: str, remedy: str = _NUMBERS) -> Array:
    """Return a table as float32 or float64, without a copy where the library can.

    Parameters
    ----------
    found : Frame
    what : str
    remedy : str
        For a column that holds something else than numbers.

    Raises
    ------
    InputError
        A column is not numeric.
    """
    array = found.native
    if found.library == "numpy" and array.dtype.kind in "fiub" and not np.ma.is_masked(array):
        array = np.asarray(array)
        return array.astype(_floats_for(array.dtype.newbyteorder("=")), copy=False)
    # The first row tells the dtype, so that columns which must be converted are held one at a time.
    dtypes = [
        _numbers(replace(column, native=column.native[:1]), what, remedy).dtype
        for column in found.columns
    ]
    target = _floats_for(np.result_type(*dtypes))
    if found.library in ("pandas", "polars") and set(dtypes) == {target}:
        whole: Array = found.native.to_numpy()
        if whole.dtype == target:
            return whole
    matrix = np.empty((len(found), len(found.columns)), dtype=target)
    for k, column in enumerate(found.columns):
        matrix[:, k] = _numbers(column, what, remedy)
    return matrix


def _floats_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return (
        dtype if dtype in TOLERANCE else np.dtype(np.float32 if dtype == np.float16 else np.float64)
    )


def _numbers(column: Column, what: str, remedy: str) -> Array:
    """Return a column of a table as a NumPy array of numbers, missing ones as NaN."""
    called = f"column {column.name!r} of `{what}`" if column.name else f"`{what}`"
    return numbers_of(column, called, remedy)


def checked(
    matrix: Array,
    names: Sequence[Any] | Array,
    *,
    what: str,
    normalize: bool,
    wording: Wording = CLASSES,
) -> Array:
    """Check that every row is a distribution, in one walk over the matrix.

    Parameters
    ----------
    matrix : ndarray of shape (N, L), float32 or float64
    names : sequence of length L
        Of the columns, for errors.
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
    result = np.empty(matrix.shape, dtype=matrix.dtype) if normalize else matrix.view()
    tolerance = TOLERANCE[matrix.dtype]
    with one_blas_thread(matrix.size):
        for rows in row_blocks(matrix):
            block = matrix[rows]
            with np.errstate(invalid="ignore", over="ignore"):
                valid = block.min() >= 0
                quick = valid and not normalize and wording.off(_row_sums(block)) <= tolerance / 2
                if np.all(quick):
                    continue
                # Single precision may itself be off by as much as the tolerance, so a row is only
                # refused on its exact sum.
                sums = block.sum(axis=1, dtype=np.float64)
            if not valid or wording.wrong(sums, tolerance, normalize).any():
                raise _error(matrix, names, what, normalize, wording)
            if normalize:
                np.divide(block, sums[:, None], out=result[rows], casting="same_kind")
    result.flags.writeable = False
    return result


def _row_sums(block: Array) -> Array:
    # Each is the faster on its side by up to two times; ``block.sum(axis=1)`` is on neither.
    # Threads gain nothing: memory is the limit.
    if block.shape[1] < 32:
        return block @ np.ones(block.shape[1], dtype=block.dtype)
    return np.asarray(np.einsum("ik->i", block))


def _error(
    matrix: Array, names: Sequence[Any] | Array, what: str, normalize: bool, wording: Wording
) -> ProbabilityError:
    """Build the error about the first row that is no distribution."""
    facts: dict[str, Any] = {"argument": what}
    bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
    if len(bad):
        row, column = (int(place) for place in bad[0])
        value, name = float(matrix[row, column]), plain_value(names[column])
        facts |= {"value": value, f"{wording.noun}_name": name}
        wrong = "is negative" if value < 0 else "is not a finite number"
        found = f"has the probability {value!r} for {wording.noun} {name!r}, which {wrong}"
        remedy = "Correct or drop this row; probabilities lie between 0 and 1."
    else:
        tolerance = TOLERANCE[matrix.dtype]
        with np.errstate(over="ignore"):
            sums = matrix.sum(axis=1, dtype=np.float64)
        row, count = first_and_count(wording.wrong(sums, tolerance, normalize))
        facts |= {"total": float(sums[row]), "count": count}
        wrong = "which is more than 1" if wording.at_most else "not to 1"
        others = "it is the only such row" + this_part("", " of this part")
        if count > 1:
            all_do = "do" if wording.at_most else "do not sum to 1"
            others = f"{count} of {len(matrix)} rows {all_do}"
        found = f"sums to {sums[row]:.9g}, {wrong}; {others} (tolerance {tolerance:g})"
        remedy = wording.normalising
        if normalize:
            found = "has the probability 0 for every class"
            remedy = "Drop this row, or give it a distribution."
        elif wording is CLASSES and ((matrix == 0) | (matrix == 1)).all():
            remedy = "If a row may have several labels, or none, pass `multilabel=True`. If each "
            remedy += "row has one class, and the columns are votes for it, pass `normalize=True`."
    row = row_number(row)
    return ProbabilityError(f"In `{what}`, row {row} {found}.", remedy=remedy, row=row, **facts)


def class_names(found: Frame, *, what: str) -> Array:
    """Return the column names of a table of probabilities as classes; else numbers.

    Raises
    ------
    MissingValueError
        A column has no name.
    MixedTypeError
        Names of several types, such as 0 and "other".

    Examples
    --------
    >>> from r2b._data.columns import recognise
    >>> class_names(recognise({1.0: [0.5], 2.0: [0.5]}, what="y"), what="y")
    array([1., 2.])
    """
    if found.labels is None:
        return np.arange(len(found.columns), dtype=np.int64)
    names = column_of(found.labels, what=f"the column names of {what}")
    try:
        codes, vocabulary = read_vocabulary(names, what=f"the column names of {what}")
    except (MissingValueError, MixedTypeError) as error:
        remedy = "Name every column after its class, all of them by text or all by numbers."
        raise error.changed(remedy=remedy) from None
    return vocabulary.values[codes]


def same_class(one: Any, other: Any) -> bool:
    """Tell whether two names stand for one class: equal, or written alike.

    Examples
    --------
    >>> same_class(1, 1.0), same_class(1, "1"), same_class("a", "b")
    (True, True, False)
    """
    return key_of(one) == key_of(other) or str(plain_value(one)) == str(plain_value(other))


def class_places(names: Any, classes: Array) -> list[int]:
    """Return which class each name stands for; -1 for none.

    Examples
    --------
    >>> class_places(np.array([1, 2]), np.array(["0", "1"]))
    [1, -1]
    """
    # By the class itself; by how it is written where a table can only name columns by text.
    written = {str(plain_value(value)): k for k, value in enumerate(classes)}
    exact = {key_of(value): k for k, value in enumerate(classes)}
    return [exact.get(key_of(name), written.get(str(plain_value(name)), -1)) for name in names]


def decode_like(found: Frame, classes: Array) -> Vocabulary:
    """Return classes that are decoded to the library of a table."""
    library, source = found.library, None
    if library not in ("numpy", "dict"):
        source = Column(make_column(classes, library, ""), library)
    return Vocabulary(classes, source, found.index)


def order_columns(found: Frame, vocabulary: Vocabulary, *, what: str) -> Frame:
    """Put the columns of a frame in the order of the fitted classes; a matrix stays."""
    names = np.arange(len(found.columns)) if found.labels is None else found.labels
    classes, order = vocabulary.values, list(range(len(vocabulary)))
    where = names.tolist() if found.labels is None else class_places(names, classes)
    if where == order:
        return found
    if sorted(where) != order:
        problem = f"has the columns {listed(names)}, but the classes {listed(classes)} were fitted"
        remedy = "Pass one column of probabilities per fitted class, called by its name."
        facts = {"value": list(names), "known": classes.tolist()}
        raise argument_error(what, problem, remedy, UnseenError, **facts)
    columns = tuple(found.columns[where.index(k)] for k in order)
    return Frame(None, "columns", columns)
