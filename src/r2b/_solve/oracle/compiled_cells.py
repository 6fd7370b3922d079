"""The row kernels compiled by numba; imported only where they pay. Same functions as :mod:`r2b._solve.oracle.reference`.

Rows are taken in tiles that stay in the first-level cache. The threshold of a row is found by
Newton on ``t -> sum_k max(v_k - t, 0) - lam`` from the threshold of the last pass. From any start
the first step lands at or below the root and the others climb to it; a step that passes no entry is
exact. Near the answer one step does, so that each tile is read twice: once to step and to see that
nothing changed sides, once to add up. Methods that drop entries one by one (Michelot, Condat) and
sorting do not fill the registers and are slower in nearly every case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled, compiled_kernel
from r2b._solve.oracle.kernel_loops import vector_loops
from r2b._solve.oracle.kernel_vectors import WIDTH

TILE = 2_048  # entries: with their prices and sums they fit the first-level cache
_FEW = 24  # classes up to which eight rows are turned and settled at a time
_TRIES = 4  # steps that eight rows take together before each goes its own way
_COPIED = 1 << 16  # entries copied at a time where rows are not stored one after the other
_MARKED = 1 << 17  # entries of support patterns that are multiplied at a time
_PER_GROUP = 256  # rows of a group that make its product worth the table it is added to
# share of a table's entries that a row must touch for the product of whole patterns to pay
_SPARSE = 1 / 16

(
    _climb,
    _climb_eight,
    _climb_eight_single,
    _add_above,
    _add_above_single,
    _write_above,
    _mark,
    _weigh,
) = vector_loops()


@compiled
def _settle(rows: Any, first: int, last: int, lam: float) -> None:
    """Find the thresholds of rows, starting from their levels (anything, NaN where there is none)."""
    n_classes, levels = rows[1], rows[5]
    for i in range(first, last):
        level = levels[i]
        # The support shrinks with every step but the first; entries tied within rounding may trade
        # places, either choice being right.
        for step in range(n_classes + 3):
            reached, count, exact = _climb(rows, i, level, lam)
            # lam vanishes beside the row's values; the level is their largest
            if count == 0.0 and step > 0:
                break
            climbs = reached > level
            level = reached if count > 0.0 else -np.inf
            if exact > 0.0 or (step > 0 and not climbs and count > 0.0):
                break
        levels[i] = level


@compiled
def _settle_few(rows: Any, first: int, last: int, lam: float) -> None:
    """Find the thresholds of rows of few classes, eight rows at a time."""
    whole = last - (last - first) % 8
    single = rows[4] == 8
    for i in range(first, whole, 8):
        exact = 0.0
        for _ in range(_TRIES):
            exact = _climb_eight_single(rows, i, lam) if single else _climb_eight(rows, i, lam)
            if exact > 0.0:
                break
        if exact == 0.0:
            _settle(rows, i, i + 8, lam)
    _settle(rows, whole, last, lam)


@compiled
def settle_tile(rows: Any, first: int, last: int, lam: float) -> None:
    """Find the thresholds of the rows of a tile."""
    if rows[1] <= _FEW:
        _settle_few(rows, first, last, lam)
    else:
        _settle(rows, first, last, lam)


@compiled
def _evaluate(
    rows: Any, n_rows: int, weight: Array, lam: float, sums: Array, totals: Array
) -> None:
    tile = max(8, TILE // rows[4])
    value, each = 0.0, 1.0 / lam
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        settle_tile(rows, start, stop, lam)
        if rows[4] == 8:
            square, lifted = _add_above_single(rows, start, stop, weight, each, sums)
        else:
            square, lifted = _add_above(rows, start, stop, weight, each, sums)
        # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
        value -= 0.5 * square + lifted
    totals[0] += value


@compiled
def _answer(rows: Any, n_rows: int, lam: float, out: Array) -> None:
    tile = max(8, TILE // rows[4])
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        settle_tile(rows, start, stop, lam)
        _write_above(rows, start, stop, 1.0 / lam, out[start * rows[1] :])


@compiled
def _inspect(
    rows: Any,
    first: int,
    last: int,
    weight: Array,
    lam: float,
    answers: Array,
    sums: Array,
    totals: Array,
) -> None:
    for i in range(first, last):
        own = weight[i] if weight.shape[0] > 0 else 1.0
        paid, square, inner, apart, moved, whole, lowest, least = _weigh(
            rows, i, lam, own, sums, answers, i - first
        )
        totals[0] += own * (paid - lowest)
        totals[1] += own * square
        totals[2] += own * inner
        totals[3] += own * apart
        totals[4] += own * 0.5 * moved
        totals[5] = max(totals[5], abs(whole - 1.0), -least)


@compiled
def _prove(rows: Any, n_rows: int, weight: Array, lam: float, sums: Array, totals: Array) -> None:
    """Write the answers of a tile and inspect them while they are at hand."""
    tile = max(8, TILE // rows[4])
    answers = np.empty(tile * rows[4])
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        settle_tile(rows, start, stop, lam)
        _write_above(rows, start, stop, 1.0 / lam, answers)
        _inspect(rows, start, stop, weight, lam, answers, sums, totals)


@compiled
def _mark_rows(
    rows: Any, order: Array, weight: Array, lam: float, counts: Array, marks: Array, sizes: Array
) -> None:
    """Write the support patterns of some rows, each times the root of its weight over its size."""
    for place in range(order.shape[0]):
        i = order[place]
        own = weight[i] if weight.shape[0] > 0 else 1.0
        size = max(_climb(rows, i, rows[5][i], lam)[1], 1.0)
        sizes[place] = size
        _mark(rows, i, own, counts, np.sqrt(own / size), marks, place * rows[4])


@compiled
def _scatter(marks: Array, n_classes: int, table: Array) -> None:
    """Subtract the products of patterns with few entries from a table, entry by entry."""
    where = np.empty(n_classes, np.int64)
    for i in range(marks.shape[0]):
        size = 0
        for k in range(n_classes):
            where[size] = k
            size += marks[i, k] > 0.0
        for a in range(size):
            part = marks[i, where[a]] ** 2
            for b in range(size):
                table[where[a], where[b]] -= part


def in_chunks(n_rows: int, n_classes: int, filling: float = 0.0) -> Array:
    """Make a table whose rows have room for whole chunks, each within a cache line: chunks across two take twice as long to add to."""
    room = -(-n_classes // WIDTH) * WIDTH
    space = np.full(n_rows * room + WIDTH, filling)
    skipped = -space.ctypes.data // space.itemsize % WIDTH
    return space[skipped : skipped + n_rows * room].reshape(n_rows, room)


def fixed(array: Array) -> Array:
    """See an array as read-only, so that a kernel is compiled once for those that are and those that are not."""
    view = array.view()
    view.flags.writeable = False
    return view


def pieces(*matrices: Array) -> Iterator[tuple[slice, list[Array], bool]]:
    """Give rows of matrices as flat arrays that may be read a chunk past the end of each row, and whether they are copies.

    That leads out of the array for the last rows alone. They are copied, as are rows that are not
    stored one after the other.
    """
    n_rows, n_classes = matrices[0].shape
    spare = -n_classes % WIDTH
    first, step = 0, max(1, _COPIED // n_classes)
    if all(matrix.flags.c_contiguous for matrix in matrices):
        first = max(0, n_rows - -(-spare // n_classes))
        if first:
            yield slice(0, first), [matrix.reshape(-1) for matrix in matrices], False
    for start in range(first, n_rows, step):
        part = slice(start, min(start + step, n_rows))
        yield (
            part,
            [np.append(matrix[part].ravel(), np.zeros(spare, matrix.dtype)) for matrix in matrices],
            True,
        )


def _rows(
    prices: Array, groups: Array, levels: Array, *matrices: Array
) -> Iterator[tuple[slice, Any, list[Array], bool]]:
    """Give pieces of the rows as the loops take them, the first matrix being the labels; the others flat, and whether these are copies."""
    n_groups, n_classes = prices.shape
    shifts = in_chunks(n_groups, n_classes, np.inf)  # infinite where there is no class
    shifts[:, :n_classes] = prices
    for part, (labels, *others), copied in pieces(*matrices):
        rows = (
            fixed(labels),
            n_classes,
            fixed(groups[part]),
            shifts.reshape(-1),
            shifts.shape[1],
            levels[part],
        )
        yield part, rows, others, copied


def evaluate(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    out: Sequence[Array],
) -> None:
    """Add responses, values and curvature, as :func:`r2b._solve.oracle.reference.evaluate`."""
    sums, totals, curvature = out
    added = in_chunks(*prices.shape)
    for part, rows, _, _ in _rows(prices, groups, levels, labels):
        _evaluate(rows, len(rows[2]), fixed(weight[part]), float(lam), added.reshape(-1), totals)
        if curvature.size:
            _add_curvature(rows, fixed(weight[part]), float(lam), curvature)
    sums += added[:, : prices.shape[1]]


def _add_curvature(rows: tuple[Any, ...], weight: Array, lam: float, curvature: Array) -> None:
    """Add the rows' curvature times lam: the patterns of a group's rows as one matrix, multiplied by itself."""
    n_groups, n_classes, _ = curvature.shape
    groups, room = rows[2], rows[4]
    size = min(len(groups), max(_MARKED // room, _PER_GROUP * min(n_groups, 8)))
    marks, counts, sizes = (
        in_chunks(size, n_classes),
        in_chunks(n_groups, n_classes),
        np.empty(size),
    )
    for start in range(0, len(groups), size):
        mine = groups[start : start + size]
        order = np.argsort(mine, kind="stable")
        _mark_rows(rows, order + start, weight, lam, counts.reshape(-1), marks.reshape(-1), sizes)
        ends = np.cumsum(np.bincount(mine, minlength=n_groups))
        for group in np.flatnonzero(np.diff(ends, prepend=0)):
            part = slice(ends[group - 1] if group else 0, ends[group])
            pattern = marks[part, :n_classes]
            if sizes[part] @ sizes[part] < _SPARSE * n_classes**2 * len(pattern):
                _scatter(pattern, n_classes, curvature[group])
            else:
                curvature[group] -= pattern.T @ pattern
    np.einsum("skk->sk", curvature)[:] += counts[:, :n_classes]


def answer(
    labels: Array, groups: Array, prices: Array, lam: float, levels: Array, out: Array
) -> None:
    """Write the response of each row into ``out``."""
    for part, rows, (into,), copied in _rows(prices, groups, levels, labels, out):
        _answer(rows, len(rows[2]), float(lam), into)
        if copied:
            out[part] = into[: len(rows[2]) * rows[1]].reshape(-1, rows[1])


def inspect(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    answers: Array,
    out: Sequence[Array],
) -> None:
    """Add the evidence about ``answers``, as :func:`r2b._solve.oracle.reference.inspect`."""
    added = in_chunks(*prices.shape)
    for part, rows, (given,), _ in _rows(prices, groups, np.empty(0), labels, answers):
        _inspect(
            rows, 0, len(rows[2]), fixed(weight[part]), float(lam), given, added.reshape(-1), out[1]
        )
    out[0][...] += added[:, : prices.shape[1]]


def prove(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    out: Sequence[Array],
) -> None:
    """Add the evidence about the responses: :func:`answer` and :func:`inspect` tile by tile."""
    added = in_chunks(*prices.shape)
    for part, rows, _, _ in _rows(prices, groups, levels, labels):
        _prove(rows, len(rows[2]), fixed(weight[part]), float(lam), added.reshape(-1), out[1])
    out[0][...] += added[:, : prices.shape[1]]


@compiled_kernel
def add_rows(labels: Array, groups: Array, weight: Array, sums: Array) -> None:
    """Add the label rows themselves to ``sums``."""
    n_rows, n_classes = labels.shape
    for i in range(n_rows):
        s = groups[i]
        own = weight[i] if weight.shape[0] > 0 else 1.0
        for k in range(n_classes):
            sums[s, k] += own * labels[i, k]
