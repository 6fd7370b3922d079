"""Repeats each row for its classes of positive probability, with weights: exact parity for any learner that takes weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b._data.integers import smallest_unsigned
from r2b._labels.forms.sampling import BLOCK_ENTRIES, block_length, check_distributions, check_index, check_matrix, check_weight
from r2b.errors import ParameterError

Expansion = tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]


def _entries(block: NDArray[Any], first: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Row, class and probability of the positive entries of a block, ordered by row then class, each row rescaled to a sum of 1."""
    check_distributions(block, block.sum(axis=1, dtype=np.float64), first)
    row, column = np.nonzero(block)
    chance = block[row, column].astype(np.float64)
    # The sum of what is kept, added in the order in which a reader would: it is this sum that the weights of a row come back to.
    chance /= np.bincount(row, chance, minlength=len(block))[row]
    return row, column, chance


def expand_rows(rows: ArrayLike, weight: ArrayLike | None = None, block: int | None = None) -> Expansion:
    """Repeat each row once per class of positive probability.

    Parameters
    ----------
    rows : array of shape (n, L)
        Distributions; each is rescaled to its own sum.
    weight : array of shape (n,), optional
        Weight of each row; 1 where none are given. A row of weight 0 keeps its entries, with weight 0.
    block : int, optional
        Rows handled at a time; it changes the memory needed and nothing else.

    Returns
    -------
    row_index : int64 array of shape (m,)
        Row that each entry repeats.
    class_codes : array of shape (m,)
        Class of each entry, in the smallest unsigned integer type.
    weights : float64 array of shape (m,)
        Probability times row weight. The weights of a row sum to its weight. Entries are ordered by row, then class.

    Raises
    ------
    ProbabilityError, LengthError, WeightError
        A row is not a distribution, or the weights do not fit.

    Examples
    --------
    >>> row_index, class_codes, weights = expand_rows([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], weight=[4.0, 1.0])
    >>> row_index.tolist(), class_codes.tolist(), weights.tolist()
    ([0, 0, 1], [0, 2, 1], [2.0, 2.0, 1.0])
    """
    matrix = check_matrix(rows)
    n, n_classes = matrix.shape
    values = None if weight is None else check_weight(weight, n)
    step = block_length(n_classes) if block is None else block
    if step < 1:
        raise ParameterError(f"block is {step}.", remedy="Pass a block of at least one row.", block=step)
    # An empty part first, so that no rows at all give empty arrays of the right types.
    parts: list[Expansion] = [(np.empty(0, np.int64), np.empty(0, smallest_unsigned(n_classes)), np.empty(0))]
    for low in range(0, n, step):
        row, column, chance = _entries(matrix[low : low + step], low)
        row += low
        if values is not None:
            chance *= values[row]
        parts.append((row, column.astype(smallest_unsigned(n_classes)), chance))
    row_index, class_codes, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return row_index, class_codes, weights


def expand_index(index: ArrayLike, table: ArrayLike, weight: ArrayLike | None = None) -> Expansion:
    """Repeat each row once per class of positive probability where row i has the distribution ``table[index[i]]``.

    The result is that of ``expand_rows(table[index], weight)``, without those rows.

    Parameters
    ----------
    index : integer array of shape (n,)
        Row of the table for each row.
    table : array of shape (M, L)
        Distributions; each is rescaled to its own sum.
    weight : array of shape (n,), optional
        Weight of each row; 1 where none are given.

    Returns
    -------
    row_index, class_codes, weights
        As for :func:`expand_rows`.

    Raises
    ------
    ProbabilityError, LengthError, WeightError, ShapeError, ParameterError
        A row of the table is not a distribution, or the index or the weights do not fit.

    Examples
    --------
    >>> row_index, class_codes, weights = expand_index([1, 0], [[1.0, 0.0], [0.25, 0.75]])
    >>> row_index.tolist(), class_codes.tolist(), weights.tolist()
    ([0, 0, 1], [0, 1, 0], [0.25, 0.75, 1.0])
    """
    matrix = check_matrix(table, "table")
    chosen = check_index(index, len(matrix))
    values = None if weight is None else check_weight(weight, chosen.size)
    entry_row, entry_class, chance = _entries(matrix)
    entry_class = entry_class.astype(smallest_unsigned(matrix.shape[1]))
    counts = np.bincount(entry_row, minlength=len(matrix))
    starts = np.cumsum(counts) - counts
    total = int(np.bincount(chosen, minlength=len(matrix)) @ counts)
    row_index = np.empty(total, np.int64)
    class_codes = np.empty(total, entry_class.dtype)
    weights = np.empty(total)
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
        weights[here] = chance[entry] if values is None else chance[entry] * values[low : low + step][local]
        done = here.stop
    return row_index, class_codes, weights
