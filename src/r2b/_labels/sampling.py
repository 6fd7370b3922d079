"""One class per row drawn from its distribution, and rows repeated once per class.

The caller draws the random numbers: the same numbers give the same labels for any block size.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Floats, Whole, count_ends, smallest_unsigned
from r2b._data.compute import parts_of
from r2b.errors import ProbabilityError

BLOCK_ENTRIES = 131_072  # entries per block: 1 MB of float64, which stays in the processor's cache

Expansion = tuple[Whole, Array, Floats]


def block_length(n_classes: int) -> int:
    """Return how many rows of ``n_classes`` entries a block has."""
    return max(1, BLOCK_ENTRIES // max(n_classes, 1))


def check_distributions(block: Array, totals: Floats, first: int = 0) -> None:
    """Refuse rows, the first of which is row ``first``, that are not distributions."""
    # Written so that NaN, for which every comparison is false, is refused too. Sums of float32 rows
    # are off by about 1e-6.
    summed = np.abs(totals - 1) <= 1e-4
    if not block.size or (block.min() >= 0 and summed.all()):
        return
    bad = np.flatnonzero(~((block >= 0).all(axis=1) & summed))[0]
    raise ProbabilityError(
        f"Row {first + bad} is not a distribution: its smallest entry is {block[bad].min():.6g} "
        f"and its sum {totals[bad]:.6g}.",
        remedy="Pass rows without missing or negative entries that sum to 1.",
        row=int(first + bad),
        total=float(totals[bad]),
    )


def sample_rows(rows: ArrayLike, uniforms: ArrayLike, index: ArrayLike | None = None) -> Array:
    """Draw one class per row by inverting its cumulative distribution.

    Rows are rescaled to their own sum, and a class of probability zero is never drawn.

    Parameters
    ----------
    rows : array of shape (m, L)
        Distributions; float32 rows and rows off by rounding are fine.
    uniforms : array of shape (n,)
        Numbers in [0, 1).
    index : integer array of shape (n,), optional
        Which of the distributions each row has; by default each its own.

    Returns
    -------
    codes : array of shape (n,)
        Class of each row, in the smallest unsigned integer type.

    Raises
    ------
    ProbabilityError
        A row has a missing or negative entry or a sum farther than 1e-4 from 1.

    Examples
    --------
    >>> sample_rows([[0.5, 0.0, 0.5], [0.25, 0.75, 0.0]], [0.5, 0.2])
    array([2, 0], dtype=uint8)
    >>> sample_rows([[0.0, 1.0], [0.5, 0.5]], [0.1, 0.6, 0.0], index=[1, 1, 0])
    array([0, 1, 1], dtype=uint8)
    """
    matrix, draws = np.asarray(rows), np.asarray(uniforms)
    chosen = np.arange(len(matrix)) if index is None else np.asarray(index)
    n_classes = matrix.shape[1]
    # Padded with infinity to a power of two, so that every search takes the same steps.
    reached = np.full((len(matrix), 1 << (n_classes - 1).bit_length()), np.inf)
    np.cumsum(matrix, axis=1, dtype=np.float64, out=reached[:, :n_classes])
    totals = reached[:, n_classes - 1].copy()
    check_distributions(matrix, totals)
    codes = np.empty(len(chosen), dtype=smallest_unsigned(n_classes))
    for rows_of in parts_of(len(chosen), BLOCK_ENTRIES // 4):
        part = chosen[rows_of].astype(np.intp)
        # A float64 u < 1 is at most 1 - 2**-53, so u * total rounds to a number below total: only
        # classes of positive probability are drawn.
        codes[rows_of] = count_ends(reached, part, draws[rows_of] * totals[part])
    return codes


def positive_entries(
    block: Array, first: int = 0, above: float = 0.0
) -> tuple[Whole, Whole, Floats]:
    """Return row, class and probability of entries above a number, each row rescaled to sum 1.

    Entries are ordered by row, then class. ``first`` is the number of the first row, for errors.
    """
    check_distributions(block, block.sum(axis=1, dtype=np.float64), first)
    row, column = np.nonzero(block > above)
    chance = block[row, column].astype(np.float64)
    # The sum of what is kept, added in the order in which a reader would.
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
        Row of the table for each row; by default every row of the table once.
    weight : array of shape (n,), optional
        Weight of each row; 1 by default. A row of weight 0 keeps its entries, with weight 0.

    Returns
    -------
    row_index : int64 array of shape (m,)
        Row that each entry repeats.
    class_codes : array of shape (m,)
        Class of each entry, in the smallest unsigned integer type.
    weights : float64 array of shape (m,)
        Probability times row weight; the weights of a row sum to its weight. Entries are ordered by
        row, then class.

    Raises
    ------
    ProbabilityError
        A row of the table is not a distribution.

    Examples
    --------
    >>> rows, codes, weights = expanded([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], weight=[4.0, 1.0])
    >>> rows.tolist(), codes.tolist(), weights.tolist()
    ([0, 0, 1], [0, 2, 1], [2.0, 2.0, 1.0])
    """
    matrix = np.asarray(table)
    entry_row, entry_class, chance = positive_entries(matrix)
    entry_class = entry_class.astype(smallest_unsigned(matrix.shape[1]))
    counts = np.bincount(entry_row, minlength=len(matrix))
    starts = np.cumsum(counts) - counts
    chosen = np.arange(len(matrix)) if index is None else np.asarray(index)
    repeats = counts[chosen]
    rows = np.repeat(np.arange(len(chosen)), repeats)
    entry = np.arange(len(rows))
    entry += np.repeat(starts[chosen] - (np.cumsum(repeats) - repeats), repeats)
    weights = chance[entry]
    if weight is not None:
        weights *= np.asarray(weight, np.float64)[rows]
    return rows, entry_class[entry], weights


def take_rows(X: Any, index: Array) -> Any:
    """Take rows by number, as the kind of table that came in; without one, return the numbers.

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
    """Return a pandas column of labels the row labels of its features, by which pandas joins."""
    if not libraries.is_pandas_series(labels):
        return labels
    if libraries.is_pandas_dataframe(taken) or libraries.is_pandas_series(taken):
        return labels.set_axis(taken.index)
    return labels if row_labels is None else labels.set_axis(row_labels[index])
