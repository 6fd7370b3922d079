"""Label probabilities: one N x L matrix on the user's memory where that is possible, checked block by block.

The matrix is never written to, and no temporary of its size is made unless ``normalize`` asks for a
copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._data.arrays import Array, first_and_count, plain_value
from r2b._data.columns import Column, Frame, Matrix, argument_error, made_from
from r2b._data.compute import one_blas_thread, parts_of
from r2b._data.numbers import numbers_of
from r2b._data.values import is_missing, key_of, listed, type_word
from r2b._data.vocabulary import Vocabulary
from r2b.errors import MissingValueError, MixedTypeError, ProbabilityError, UnseenError

BLOCK_BYTES = 1 << 19  # read twice while it is in the second-level cache
_LONG_ROW = 32
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-6}


@dataclass(frozen=True)
class Wording:
    """How errors speak of a matrix of probabilities: over classes, or over the groups that a row may belong to.

    Attributes
    ----------
    noun, numbers_needed, normalising : str
    at_most : bool
        A sum below 1 is right as well.
    """

    noun: str
    numbers_needed: str
    normalising: str
    at_most: bool = False

    def off(self, sums: Array) -> Array:
        """Tell by how much sums are wrong."""
        return sums - 1 if self.at_most else np.abs(sums - 1)


CLASSES = Wording(
    "class",
    "Pass one column of class names, or one numeric column of probabilities per class.",
    "Divide each row by its sum, which `normalize=True` does.",
)


def row_blocks(matrix: Array) -> list[slice]:
    """Cut the rows of a matrix in blocks that fit the cache.

    Examples
    --------
    >>> list(row_blocks(np.zeros((40_000, 4))))
    [slice(0, 16384, None), slice(16384, 32768, None), slice(32768, 40000, None)]
    """
    rows = max(1, BLOCK_BYTES // max(1, matrix.shape[1] * matrix.itemsize))
    return parts_of(len(matrix), rows)


def as_matrix(
    found: Frame | Matrix, *, what: str, wording: Wording = CLASSES
) -> tuple[Array, bool]:
    """Give the numbers of a table as float32 or float64, and whether they are a copy that is ours.

    Raises
    ------
    InputError
        A column is not numeric.
    """
    if (
        isinstance(found, Matrix)
        and found.array.dtype.kind in "fiub"
        and not np.ma.is_masked(found.array)
    ):
        array = np.asarray(found.array)
        target = _floats_for(array.dtype.newbyteorder("="))
        return (array, False) if array.dtype == target else (array.astype(target), True)
    # The first row tells the dtype, so that columns which must be converted are held one at a time.
    dtypes = [
        _numbers(replace(column, native=column.native[:1]), what, wording).dtype
        for column in found.columns
    ]
    target = _floats_for(np.result_type(*dtypes))
    if isinstance(found, Frame) and all(dtype == target for dtype in dtypes) and _is_plain(found):
        matrix = found.native.to_numpy()
        return matrix, matrix.flags.writeable and not np.may_share_memory(
            matrix, found.columns[0].native.to_numpy()
        )
    matrix = np.empty((len(found), len(found.columns)), dtype=target)
    for k, column in enumerate(found.columns):
        matrix[:, k] = _numbers(column, what, wording)
    return matrix, True


def _floats_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return (
        dtype if dtype in TOLERANCE else np.dtype(np.float32 if dtype == np.float16 else np.float64)
    )


def _is_plain(found: Frame) -> bool:
    """Say whether the library can give the frame as one matrix, perhaps without a copy."""
    if found.library == "pandas":
        return all(
            isinstance(column.native.dtype, np.dtype) and column.native.dtype.kind == "f"
            for column in found.columns
        )
    return found.library == "polars" and all(
        column.native.dtype.is_float() for column in found.columns
    )


def _numbers(column: Column, what: str, wording: Wording) -> Array:
    """Give a column of a table as a NumPy array of numbers, missing ones as NaN."""
    return numbers_of(
        column,
        f"column {column.name!r} of {what}" if column.name else what,
        wording.numbers_needed,
        huge=False,
    )


def checked(
    matrix: Array,
    names: Sequence[Any] | Array,
    *,
    ours: bool,
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
    ours : bool
        Whether the memory is a copy made here, so that ``normalize`` need not make another.
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
    with one_blas_thread(matrix.size):
        _check_blocks(matrix, names, result, what, normalize, wording)
    result.flags.writeable = False
    return result


def _check_blocks(
    matrix: Array,
    names: Sequence[Any] | Array,
    result: Array,
    what: str,
    normalize: bool,
    wording: Wording,
) -> None:
    tolerance = TOLERANCE[matrix.dtype]
    for rows in row_blocks(matrix):
        block = matrix[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            sums = _row_sums(block)
            fine = (
                block.min() >= 0
                and (normalize or bool((wording.off(sums) <= tolerance / 2).all()))
                and bool(np.isfinite(sums).all())
            )
        if not fine or normalize:
            # Single precision may itself be off by as much as the tolerance, so a row is only
            # refused on its exact sum.
            sums = block.sum(axis=1, dtype=np.float64)
        if not fine:
            _refuse_entries(block, rows.start, names, what, wording)
        if normalize:
            if (sums == 0).any():
                row = rows.start + int(np.argmax(sums == 0))
                problem = f"In {what}, row {row} has the probability 0 for every class, so that it cannot be normalised."
                raise ProbabilityError(
                    problem,
                    remedy="Drop this row, or give it a distribution.",
                    argument=what,
                    row=row,
                    total=0.0,
                )
            np.divide(block, sums[:, None], out=result[rows], casting="same_kind")
        elif not fine and (wording.off(sums) > tolerance).any():
            raise _sum_error(matrix, tolerance, what, wording)


def _row_sums(block: Array) -> Array:
    # Each is the faster on its side by up to two times; ``block.sum(axis=1)`` is on neither.
    # Threads gain nothing: memory is the limit.
    if block.shape[1] < _LONG_ROW:
        return block @ np.ones(block.shape[1], dtype=block.dtype)
    return np.asarray(np.einsum("ik->i", block))


def _refuse_entries(
    block: Array, start: int, names: Sequence[Any] | Array, what: str, wording: Wording
) -> None:
    infinite = ~np.isfinite(block)
    bad = np.argwhere(infinite if infinite.any() else block < 0)
    if not len(bad):
        return
    row, col = (int(place) for place in bad[0])
    value, name = float(block[row, col]), plain_value(names[col])
    found = "is not a finite number" if infinite.any() else "is negative"
    problem = f"In {what}, row {start + row} has the probability {value!r} for {wording.noun} {name!r}, which {found}."
    facts: dict[str, Any] = {
        "argument": what,
        "row": start + row,
        "value": value,
        f"{wording.noun}_name": name,
    }
    raise ProbabilityError(
        problem, remedy="Correct or drop this row; probabilities lie between 0 and 1.", **facts
    )


def _sum_error(matrix: Array, tolerance: float, what: str, wording: Wording) -> ProbabilityError:
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.concatenate(
            [matrix[rows].sum(axis=1, dtype=np.float64) for rows in row_blocks(matrix)]
        )
        row, count = first_and_count(~(wording.off(sums) <= tolerance))
    rows_off = (
        "it is the only such row"
        if count == 1
        else f"{count} of {len(matrix)} rows {'do' if wording.at_most else 'do not sum to 1'}"
    )
    wrong = "which is more than 1" if wording.at_most else "not to 1"
    problem = f"In {what}, row {row} sums to {sums[row]:.9g}, {wrong}; {rows_off} (tolerance {tolerance:g})."
    return ProbabilityError(
        problem,
        remedy=wording.normalising,
        argument=what,
        row=row,
        total=float(sums[row]),
        count=count,
    )


def class_names(found: Frame | Matrix, *, what: str) -> Array:
    """Give the column names of a table of probabilities as classes, of the type that they have; numbers where it has none.

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
    if isinstance(found, Matrix):
        return np.arange(found.array.shape[1], dtype=np.int64)
    names, words = (
        [plain_value(name) for name in found.names],
        [type_word(name) for name in found.names],
    )
    without = next((k for k, name in enumerate(found.names) if is_missing(name)), None)
    if without is not None:
        problem = f"In {what}, column {without} has no name ({names[without]!r}), so that its class has none."
        raise MissingValueError(
            problem, remedy="Name every column after its class.", argument=what, column=without
        )
    other = next((k for k, word in enumerate(words) if word != words[0]), None)
    if other is not None:
        pair, types = (names[0], names[other]), (words[0], words[other])
        problem = f"The columns of {what} are named {pair[0]!r} ({types[0]}) and {pair[1]!r} ({types[1]}), and classes are of one type."
        remedy = "Name all of them by text: rename the columns with str."
        raise MixedTypeError(problem, remedy=remedy, argument=what, names=pair, types=types)
    return found.names


def same_class(one: Any, other: Any) -> bool:
    """Tell whether two names stand for one class: equal, or written alike, for many tables can name columns by text alone.

    Examples
    --------
    >>> same_class(1, 1.0), same_class(1, "1"), same_class("a", "b")
    (True, True, False)
    """
    return key_of(one) == key_of(other) or str(plain_value(one)) == str(plain_value(other))


def leaving_like(found: Frame | Matrix, classes: Array) -> Vocabulary:
    """Give classes that are decoded to the library of a table."""
    if isinstance(found, Matrix) or found.library == "dict":
        return Vocabulary(classes, index=found.index)
    return Vocabulary(
        classes, made_from(classes, found.library, ""), found.library, index=found.index
    )


def in_fitted_order(found: Frame | Matrix, vocabulary: Vocabulary, *, what: str) -> Frame | Matrix:
    """Put the columns of a frame in the order of the fitted classes; a bare matrix only has to have as many."""
    n_columns, n_classes = len(found.columns), len(vocabulary)
    if n_columns != n_classes:
        remedy = "Pass one column of probabilities per fitted class."
        problem = f"has {n_columns} columns, but {n_classes} classes were fitted"
        raise argument_error(what, problem, remedy, n_columns=n_columns, n_classes=n_classes)
    if isinstance(found, Matrix) or all(map(same_class, found.names, vocabulary.values)):
        return found
    # By the class itself; by how it is written where a table can only name columns by text.
    places = {key_of(value): k for k, value in enumerate(vocabulary.values)}
    written = {str(plain_value(value)): k for k, value in enumerate(vocabulary.values)}
    where = [
        places.get(key_of(name), written.get(str(plain_value(name)), -1)) for name in found.names
    ]
    odd = next((j for j, k in enumerate(where) if k < 0 or k in where[:j]), None)
    if odd is not None:
        unknown, known = (
            plain_value(found.names[odd]),
            [plain_value(value) for value in vocabulary.values],
        )
        problem = f"has a column {unknown!r}, which is not among the fitted classes {listed(known)}"
        raise argument_error(
            what,
            problem,
            "Name the columns after the fitted classes.",
            UnseenError,
            value=unknown,
            known=known,
        )
    order = [where.index(k) for k in range(n_classes)]
    columns = tuple(found.columns[j] for j in order)
    return Frame(
        {column.name: column.native for column in columns}, "columns", columns, found.names[order]
    )
