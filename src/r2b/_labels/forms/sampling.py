"""Draws one class per row from its distribution, for uniform numbers that the caller has drawn.

No function here makes its own random numbers: the same uniforms give the same labels, whatever the
block size.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Floats, Whole, ends_passed, smallest_unsigned
from r2b.errors import (
    EmptyError,
    LengthError,
    ParameterError,
    ProbabilityError,
    ShapeError,
    WeightError,
)

#: How far a row of probabilities may be from a sum of 1 before it is refused; closer rows are rescaled. float32 rows need about 1e-6.
SUM_TOLERANCE = 1e-4

#: Entries per block: 1 MB of float64, so that the temporaries of a block stay in the processor's cache.
BLOCK_ENTRIES = 131_072


def block_length(n_classes: int) -> int:
    """Rows of one block, for rows of ``n_classes`` entries."""
    return max(1, BLOCK_ENTRIES // max(n_classes, 1))


def check_matrix(rows: ArrayLike, name: str = "rows") -> Array:
    """Two-dimensional array with at least one column, not copied and not yet looked into."""
    matrix = np.asarray(rows)
    if matrix.ndim != 2:
        remedy = "Pass one row per distribution and one column per class."
        raise ShapeError(
            f"{name} has {matrix.ndim} dimensions, not 2.", remedy=remedy, ndim=matrix.ndim
        )
    if matrix.shape[1] == 0:
        raise EmptyError(
            f"{name} has no columns.", remedy="Pass at least one class.", shape=matrix.shape
        )
    return matrix


def check_distributions(block: Array, totals: Floats, first: int = 0) -> None:
    """Refuse a block of rows, the first of which is row ``first``, unless each is a distribution to ``SUM_TOLERANCE``."""
    # Written so that a NaN, for which every comparison is false, is refused as well.
    if not block.size or (block.min() >= 0 and np.abs(totals - 1).max() <= SUM_TOLERANCE):
        return
    bad = np.flatnonzero(~((block >= 0).all(axis=1) & (np.abs(totals - 1) <= SUM_TOLERANCE)))[0]
    problem = f"Row {first + bad} is not a distribution: its smallest entry is {block[bad].min():.6g} and its sum {totals[bad]:.6g}."
    remedy = "Pass rows without missing or negative entries that sum to 1."
    raise ProbabilityError(problem, remedy=remedy, row=int(first + bad), total=float(totals[bad]))


def check_index(index: ArrayLike, n_table: int) -> Array:
    """One-dimensional array of integers that point into a table of ``n_table`` rows."""
    codes = np.asarray(index)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "ui"):
        problem = f"index has {codes.ndim} dimensions and type {codes.dtype}."
        raise ShapeError(
            problem, remedy="Pass one integer per row.", ndim=codes.ndim, dtype=str(codes.dtype)
        )
    if codes.size and (codes.min() < 0 or codes.max() >= n_table):
        problem = (
            f"index runs from {codes.min()} to {codes.max()}, but the table has {n_table} rows."
        )
        remedy = "Pass indices that start at 0 and stay below the number of rows of the table."
        raise ParameterError(
            problem,
            remedy=remedy,
            lowest=int(codes.min()),
            highest=int(codes.max()),
            n_table=n_table,
        )
    return codes


def _one_per_row(given: ArrayLike, n_rows: int, name: str, noun: str) -> Floats:
    """Give one number per row, or refuse another shape."""
    values = np.asarray(given, dtype=np.float64)
    if values.shape != (n_rows,):
        problem = f"{name} has shape {values.shape}, but there are {n_rows} rows."
        raise LengthError(
            problem, remedy=f"Pass one {noun} per row.", shape=values.shape, n_rows=n_rows
        )
    return values


def check_weight(weight: ArrayLike, n_rows: int) -> Floats:
    """Weights as float64: one per row, finite, none negative."""
    values = _one_per_row(weight, n_rows, "weight", "weight")
    bad = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if bad.size:
        remedy = "Pass finite weights that are not negative."
        raise WeightError(
            f"The weight of row {bad[0]} is {values[bad[0]]}.",
            remedy=remedy,
            row=int(bad[0]),
            weight=float(values[bad[0]]),
        )
    return values


def _check_uniforms(uniforms: ArrayLike, n_rows: int) -> Floats:
    values = _one_per_row(uniforms, n_rows, "uniforms", "uniform number")
    if values.size and not (values.min() >= 0 and values.max() < 1):
        problem = f"uniforms run from {values.min()} to {values.max()}."
        remedy = "Pass numbers in [0, 1), such as rng.random(n)."
        raise ParameterError(
            problem, remedy=remedy, lowest=float(values.min()), highest=float(values.max())
        )
    return values


def sample_rows(rows: ArrayLike, uniforms: ArrayLike) -> Array:
    """Draw one class per row by inverting its cumulative distribution.

    Rows are rescaled to their own sum, and a class of probability zero is never drawn.

    Parameters
    ----------
    rows : array of shape (n, L)
        Distributions; float32 rows and rows off by rounding are fine.
    uniforms : array of shape (n,)
        Numbers in [0, 1).

    Returns
    -------
    codes : array of shape (n,)
        Class of each row, in the smallest unsigned integer type.

    Raises
    ------
    ProbabilityError
        A row has a missing or negative entry or is off a sum of 1 by more than 1e-4.
    LengthError, ParameterError
        ``uniforms`` has another length or leaves [0, 1).

    Examples
    --------
    >>> sample_rows([[0.5, 0.0, 0.5], [0.25, 0.75, 0.0]], [0.5, 0.2])
    array([2, 0], dtype=uint8)
    """
    matrix = check_matrix(rows)
    n, n_classes = matrix.shape
    draws = _check_uniforms(uniforms, n)
    codes = np.empty(n, dtype=smallest_unsigned(n_classes))
    step = block_length(n_classes)
    for low in range(0, n, step):
        block = matrix[low : low + step]
        reached = np.cumsum(block, axis=1, dtype=np.float64)
        totals = reached[:, -1]
        check_distributions(block, totals, low)
        # A float64 u < 1 is at most 1 - 2**-53, so u * total rounds to a number below total: the
        # count stays below L, and as the sums rise only at classes of positive probability, only
        # those are drawn.
        codes[low : low + step] = np.count_nonzero(
            reached <= (draws[low : low + step] * totals)[:, None], axis=1
        )
    return codes


def sample_table(index: ArrayLike, table: ArrayLike, uniforms: ArrayLike) -> Array:
    """Draw one class per row where row i has the distribution ``table[index[i]]``.

    The result is that of ``sample_rows(table[index], uniforms)``, without those rows: a binary
    search in the cumulative table.

    Parameters
    ----------
    index : integer array of shape (n,)
        Row of the table for each row.
    table : array of shape (M, L)
        Distributions.
    uniforms : array of shape (n,)
        Numbers in [0, 1).

    Returns
    -------
    codes : array of shape (n,)
        Class of each row, in the smallest unsigned integer type.

    Raises
    ------
    ProbabilityError
        A row of the table is not a distribution.
    LengthError, ParameterError, ShapeError
        ``uniforms`` or ``index`` does not fit.

    Examples
    --------
    >>> sample_table([1, 1, 0], [[0.0, 1.0], [0.5, 0.5]], [0.1, 0.6, 0.0])
    array([0, 1, 1], dtype=uint8)
    """
    matrix = check_matrix(table, "table")
    chosen = check_index(index, len(matrix))
    draws = _check_uniforms(uniforms, chosen.size)
    n_classes = matrix.shape[1]
    width = 1 << (n_classes - 1).bit_length()
    # Padded with infinity to a power of two, so that every search takes the same steps. Adding the
    # row number to the sums and searching once would cost the uniforms their last digits.
    reached = np.full((len(matrix), width), np.inf)
    np.cumsum(matrix, axis=1, dtype=np.float64, out=reached[:, :n_classes])
    totals = reached[:, n_classes - 1].copy()
    check_distributions(matrix, totals)
    codes = np.empty(chosen.size, dtype=smallest_unsigned(n_classes))
    step = BLOCK_ENTRIES // 4
    for low in range(0, chosen.size, step):
        part = chosen[low : low + step].astype(np.intp)
        codes[low : low + step] = ends_passed(reached, part, draws[low : low + step] * totals[part])
    return codes


Expansion = tuple[Whole, Array, Floats]


def entries(block: Array, first: int = 0, above: float = 0.0) -> tuple[Whole, Whole, Floats]:
    """Row, class and probability of the positive entries of a block, ordered by row then class, each row rescaled to a sum of 1."""
    check_distributions(block, block.sum(axis=1, dtype=np.float64), first)
    row, column = np.nonzero(block > above)
    chance = block[row, column].astype(np.float64)
    # The sum of what is kept, added in the order in which a reader would: it is this sum that the
    # weights of a row come back to.
    chance /= np.bincount(row, chance, minlength=len(block))[row]
    return row, column, chance


def expanded(
    table: ArrayLike, index: ArrayLike | None = None, weight: ArrayLike | None = None
) -> Expansion:
    """Repeat each row once per class of positive probability.

    Parameters
    ----------
    table : array of shape (M, L)
        Distributions; each is rescaled to its own sum.
    index : integer array of shape (n,), optional
        Row of the table for each row; every row of the table once where there is none.
    weight : array of shape (n,), optional
        Weight of each row; 1 where none are given. A row of weight 0 keeps its entries, with weight
        0.

    Returns
    -------
    row_index : int64 array of shape (m,)
        Row that each entry repeats.
    class_codes : array of shape (m,)
        Class of each entry, in the smallest unsigned integer type.
    weights : float64 array of shape (m,)
        Probability times row weight. The weights of a row sum to its weight. Entries are ordered by
        row, then class.

    Raises
    ------
    ProbabilityError, LengthError, WeightError, ShapeError, ParameterError
        A row of the table is not a distribution, or the index or the weights do not fit.

    Examples
    --------
    >>> row_index, class_codes, weights = expanded([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], weight=[4.0, 1.0])
    >>> row_index.tolist(), class_codes.tolist(), weights.tolist()
    ([0, 0, 1], [0, 2, 1], [2.0, 2.0, 1.0])
    >>> row_index, class_codes, weights = expanded([[1.0, 0.0], [0.25, 0.75]], [1, 0])
    >>> row_index.tolist(), class_codes.tolist(), weights.tolist()
    ([0, 0, 1], [0, 1, 0], [0.25, 0.75, 1.0])
    """
    matrix = check_matrix(table, "table")
    chosen = None if index is None else check_index(index, len(matrix))
    values = (
        None
        if weight is None
        else check_weight(weight, len(matrix) if chosen is None else chosen.size)
    )
    entry_row, entry_class, chance = entries(matrix)
    entry_class = entry_class.astype(smallest_unsigned(matrix.shape[1]))
    if chosen is None:
        return entry_row, entry_class, chance if values is None else chance * values[entry_row]
    counts = np.bincount(entry_row, minlength=len(matrix))
    starts = np.cumsum(counts) - counts
    total = int(np.bincount(chosen, minlength=len(matrix)) @ counts)
    row_index, class_codes, weights = (
        np.empty(total, np.int64),
        np.empty(total, entry_class.dtype),
        np.empty(total),
    )
    done = 0
    step = BLOCK_ENTRIES // 4
    for low in range(0, chosen.size, step):
        part = chosen[low : low + step]
        repeats = counts[part]
        ends = np.cumsum(repeats)
        here = slice(done, done + int(ends[-1]))
        local = np.repeat(np.arange(part.size), repeats)
        entry = np.arange(ends[-1]) + (starts[part] - (ends - repeats))[local]
        row_index[here] = local + low
        class_codes[here] = entry_class[entry]
        weights[here] = (
            chance[entry] if values is None else chance[entry] * values[low : low + step][local]
        )
        done = here.stop
    return row_index, class_codes, weights


def take_rows(X: Any, index: Array) -> Any:
    """Take rows by number, as the kind of table that came in; without one, give the numbers.

    Examples
    --------
    >>> take_rows(np.array([[1, 2], [3, 4]]), np.array([1, 1, 0]))
    array([[3, 4],
           [3, 4],
           [1, 2]])
    """
    if X is None:
        return index
    frame = nw.from_native(X, eager_only=True, pass_through=True, allow_series=True)
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return nw.to_native(frame[index])
    return X[index] if hasattr(X, "__array__") or hasattr(X, "tocsr") else [X[i] for i in index]


def with_row_labels(labels: Any, taken: Any, row_labels: Any, index: Array) -> Any:
    """Give a pandas column of labels the row labels of its features: pandas joins by them, not by position."""
    if not libraries.is_pandas_series(labels):
        return labels
    if libraries.is_pandas_dataframe(taken) or libraries.is_pandas_series(taken):
        return labels.set_axis(taken.index)
    return labels if row_labels is None else labels.set_axis(row_labels[index])
