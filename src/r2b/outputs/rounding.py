"""Class labels whose counts match a table or a set of distributions: every sum is rounded down or up, and nothing changes on average."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b.errors import LengthError, ParameterError, ShapeError
from r2b.inputs.integers import smallest_unsigned
from r2b.outputs.forest import COMPILE_FROM, Forest
from r2b.outputs.sampling import block_length, check_distributions, check_matrix, check_weight, sample_rows

#: Targets this close to an integer are that integer.
SNAP = 1e-9
#: How far the sum of a row of targets may be from an integer.
ROW_SUM_TOLERANCE = 1e-6
#: A row with an entry this close to 1 is decided.
SURE = 1e-12
#: Shares of a row, and weights relative to the largest, below this are zero: their product would leave the range of float64.
NEGLIGIBLE = 1e-150


def round_table(targets: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Round a table of counts at random so that every entry and every sum is rounded down or up and nothing changes on average.

    Parameters
    ----------
    targets : array of shape (M, L)
        Nonnegative real counts whose row sums are integers to 1e-6. Entries within 1e-9 of an integer are that integer.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    counts : int64 array of shape (M, L)
        Each entry is the floor or the ceiling of its target, each row sum is exact, each column sum is the floor or the ceiling of the
        real column sum, and the expected value is ``targets``.

    Raises
    ------
    ShapeError, ParameterError
        The table is not two-dimensional, has negative or infinite entries, or a row sum that is not an integer.

    Examples
    --------
    >>> counts = round_table([[1.5, 0.5], [2.5, 0.5]], np.random.default_rng(0))
    >>> counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    ([2, 3], [4, 1])
    """
    table = np.asarray(check_matrix(targets, "targets"), dtype=np.float64)
    if not (np.isfinite(table).all() and (table >= -SNAP).all()):
        raise ParameterError("targets has negative, infinite or missing entries.", remedy="Pass real counts that are not negative.")
    floor = np.floor(table)
    raw = table - floor
    _check_row_sums(table, raw)
    ups = raw > 1 - SNAP
    parts = np.where(ups | (raw < SNAP), 0.0, raw)
    _complete_rows(parts)
    counts = floor.astype(np.int64) + ups
    moved = np.abs(parts + ups - raw).sum(axis=0)
    parts = np.vstack([parts, _slack(parts.sum(axis=0), np.minimum(SNAP + moved, ROW_SUM_TOLERANCE))])

    counts = np.vstack([counts, np.zeros((1, table.shape[1]), np.int64)])
    counts += parts >= 1
    owner, column = np.nonzero((parts > 0) & (parts < 1))
    owners, lengths = np.unique(owner, return_counts=True)
    start = np.concatenate([[0], np.cumsum(lengths)])
    forest = Forest(table.shape[1], len(parts), capped=True, compiled=parts.size > COMPILE_FROM)
    full = forest.add(start, column, parts[owner, column], owners, np.ones(len(owners)), rng.random(len(owner)))
    counts[full] += 1
    # With the slack all sums are whole, so that no forest is left in exact arithmetic; what is left here is whole but for rounding errors.
    row, column, mass = forest.undecided()
    counts[row, column] += mass > 0.5
    return counts[:-1]


def _check_row_sums(table: NDArray[np.float64], raw: NDArray[np.float64]) -> None:
    sums = raw.sum(axis=1)
    off = np.abs(sums - np.rint(sums))
    # Counts of 1e9 carry errors of 1e-7 each before they are handed in.
    bad = np.flatnonzero(off > ROW_SUM_TOLERANCE + 4 * np.finfo(np.float64).eps * table.sum(axis=1))
    if bad.size:
        raise ParameterError(
            f"Row {bad[0]} of targets sums to {table[bad[0]].sum():.9g}, which is not an integer.",
            remedy="Pass one row per class of labels, its entries summing to the number of rows of that class.",
            row=int(bad[0]),
            total=float(table[bad[0]].sum()),
        )


def _complete_rows(parts: NDArray[np.float64]) -> None:
    """Spread what each row lacks to an integer sum over its fractional entries, none of which leaves [0, 1]."""
    sums = parts.sum(axis=1)
    gap = np.rint(sums) - sums
    room = np.where(gap[:, None] > 0, 1 - parts, parts) * (parts > 0)
    # In proportion to the room left, which always suffices: the nearest integer lies between 0 and the number of fractional entries.
    parts += room * (gap / np.maximum(room.sum(axis=1), np.finfo(np.float64).tiny))[:, None]
    np.clip(parts, 0, 1, out=parts)


def _slack(sums: NDArray[np.float64], tolerance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an extra row that makes every column sum whole, so that no path of the forest ever has to be treated apart from a cycle."""
    return np.where(np.abs(sums - np.rint(sums)) <= tolerance, 0.0, np.ceil(sums) - sums)


def round_rows(rows: ArrayLike, rng: np.random.Generator, weight: ArrayLike | None = None) -> NDArray[Any]:
    """Decide the class of every row of one group at random so that the group's class shares stay as they are.

    Row i gets class k with probability ``rows[i, k]`` (to 1e-9), and only classes of positive probability.

    Without weights the count of each class is the floor or the ceiling of its column sum, so that the group's means are met to within
    1/n. With weights the weighted column sums are kept until at most L-1 rows are undecided; those are then decided at random from their
    distributions. So, for every class,

        |weighted share of the labels - weighted mean of the rows| <= (L - 1) * max(weight of an undecided row) / total weight.

    Equal weights give the labels that no weights give.

    Parameters
    ----------
    rows : array of shape (n, L)
        Distributions of one group, float32 or float64; each is rescaled to its own sum, and sums are meant after that.
    rng : numpy.random.Generator
        Source of randomness. It moves on by the same amount whatever the rows are, unless some have no weight.
    weight : array of shape (n,), optional
        Weight of each row. Rows without weight are sampled.

    Returns
    -------
    codes : array of shape (n,)
        Class of each row, in the smallest unsigned integer type.

    Raises
    ------
    ProbabilityError, LengthError, WeightError
        A row is not a distribution, or the weights do not fit.

    Examples
    --------
    >>> codes = round_rows([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75], [0.75, 0.25]], np.random.default_rng(0))
    >>> np.bincount(codes).tolist()
    [2, 2]
    """
    matrix = check_matrix(rows)
    n, n_classes = matrix.shape
    own = np.random.default_rng(rng.integers(0, 2**63, size=2))
    codes = np.zeros(n, dtype=smallest_unsigned(n_classes))
    values = np.ones(n)
    if weight is not None:
        values = check_weight(weight, n)
        values = values / max(values.max(initial=0.0), np.finfo(np.float64).tiny)
        _sample_weightless(matrix, values, codes, rng)
    forest = Forest(n_classes, n_classes, capped=False, compiled=matrix.size > COMPILE_FROM)
    step = block_length(n_classes)
    for low in range(0, n, step):
        here = slice(low, low + step)
        _add_block(forest, matrix[here], values[here], codes, low, own)
    owner, column, mass = forest.undecided()
    last, place = np.unique(owner, return_inverse=True)
    if last.size:
        table = np.zeros((last.size, n_classes))
        table[place, column] = mass
        chosen = round_table(table / table.sum(axis=1, keepdims=True), own)
        codes[last] = chosen @ np.arange(n_classes)
    return codes


def _sample_weightless(matrix: NDArray[Any], values: NDArray[np.float64], codes: NDArray[Any], rng: np.random.Generator) -> None:
    weightless = np.flatnonzero(values < NEGLIGIBLE)
    step = block_length(matrix.shape[1])
    for low in range(0, weightless.size, step):
        part = weightless[low : low + step]
        codes[part] = sample_rows(matrix[part], rng.random(part.size))


def _add_block(
    forest: Forest, block: NDArray[Any], values: NDArray[np.float64], codes: NDArray[Any], low: int, own: np.random.Generator
) -> None:
    """Decide the sure rows of a block at once, hand the others to the forest, and write down the rows that this decides."""
    check_distributions(block, block.sum(axis=1, dtype=np.float64), low)
    row, column = np.nonzero(block > NEGLIGIBLE)
    chance = block[row, column].astype(np.float64)
    chance /= np.bincount(row, chance, minlength=len(block))[row]
    weighty = values >= NEGLIGIBLE
    sure = (chance >= 1 - SURE) & weighty[row]
    codes[low + row[sure]] = column[sure]
    weighty[row[sure]] = False
    open_ = weighty[row]
    row, column, chance = row[open_], column[open_], chance[open_]
    counts = np.bincount(row, minlength=len(block))
    owners = np.flatnonzero(counts)
    start = np.concatenate([[0], np.cumsum(counts[owners])])
    # One uniform per entry, needed or not: the labels then depend neither on the block size nor on whether the kernel is compiled.
    full = forest.add(start, column, chance * values[row], low + owners, values[owners], own.random(len(row)))
    codes[full[0]] = full[1]


def assign_counts(codes_old: ArrayLike, table_counts: ArrayLike, rng: np.random.Generator) -> NDArray[Any]:
    """Give each row of one group a new class so that a table of counts, old class by new class, is met exactly.

    Parameters
    ----------
    codes_old : integer array of shape (n,)
        Old class of each row.
    table_counts : integer array of shape (L_old, L_new)
        How many rows of each old class get each new class; its row sums are the counts of the old classes.
    rng : numpy.random.Generator
        Source of randomness: which rows of an old class get which new class is drawn uniformly.

    Returns
    -------
    codes_new : array of shape (n,)
        New class of each row, in the order of ``codes_old``, in the smallest unsigned integer type.

    Raises
    ------
    ShapeError, ParameterError, LengthError
        The table is not a table of counts, or its row sums are not the counts of the old classes.

    Examples
    --------
    >>> codes = assign_counts([0, 0, 1, 1, 1], [[1, 1], [0, 3]], np.random.default_rng(0))
    >>> sorted(codes[:2].tolist()), codes[2:].tolist()
    ([0, 1], [1, 1, 1])
    """
    table = check_matrix(table_counts, "table_counts")
    old = np.asarray(codes_old)
    if old.ndim != 1 or (old.size and old.dtype.kind not in "ui") or table.dtype.kind not in "ui":
        raise ShapeError(
            f"codes_old has {old.ndim} dimensions and type {old.dtype}, table_counts type {table.dtype}.",
            remedy="Pass one integer code per row and a table of integers.",
            codes_dtype=str(old.dtype),
            table_dtype=str(table.dtype),
        )
    if (old.size and old.min() < 0) or (table.size and table.min() < 0):
        raise ParameterError("codes_old or table_counts has negative entries.", remedy="Pass codes and counts that are not negative.")
    if old.size and old.max() >= len(table):
        raise ShapeError(
            f"codes_old has the code {old.max()}, but table_counts has {len(table)} rows.",
            remedy="Pass one row of counts per old class.",
            highest=int(old.max()),
            n_rows=len(table),
        )
    # In the smallest type the stable sort is a radix sort, which takes time in proportion to n.
    old = old.astype(smallest_unsigned(len(table)))
    found = np.bincount(old, minlength=len(table))
    wrong = np.flatnonzero(found != table.sum(axis=1))
    if wrong.size:
        raise LengthError(
            f"Old class {wrong[0]} has {found[wrong[0]]} rows, but its row of table_counts sums to {table[wrong[0]].sum()}.",
            remedy="Pass a table whose row sums are the counts of the old classes.",
            old_class=int(wrong[0]),
            n_rows=int(found[wrong[0]]),
            total=int(table[wrong[0]].sum()),
        )
    new_classes = np.arange(table.shape[1], dtype=smallest_unsigned(table.shape[1]))
    drawn = [rng.permutation(np.repeat(new_classes, counts)) for counts in table]
    codes = np.empty(old.size, new_classes.dtype)
    if drawn:
        codes[np.argsort(old, kind="stable")] = np.concatenate(drawn)
    return codes
