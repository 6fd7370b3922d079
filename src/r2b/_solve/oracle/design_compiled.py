"""The kernels of rows that count in several groups, compiled by numba; imported only where they pay.

Rows are taken in tiles of ``v = y - b nu`` that stay in the first-level cache; thresholds are found
there as for rows of one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled
from r2b._solve.oracle.compiled_cells import TILE, fixed, in_chunks, pieces, settle_tile
from r2b._solve.oracle.design_loops import design_loops
from r2b._solve.oracle.kernel_vectors import WIDTH

_LOOKED_AT = 256  # rows before it is told whether they have many classes

_spread, _gather, _prove, _mark, _multiply = design_loops()


@compiled
def _evaluate(
    rows: Any,
    n_groups: int,
    weight: Array,
    lam: float,
    beyond: Array,
    space: Array,
    sums: Array,
    totals: Array,
) -> None:
    room, levels, each = rows[4], rows[5], 1.0 / lam
    tile = space.shape[0] // room
    none = np.zeros(tile, np.uint8)
    value, n_rows = 0.0, levels.shape[0]
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        _spread(rows, start, stop, n_groups, space)
        tiled = (space, room, none, beyond, room, levels[start:stop])
        settle_tile(tiled, 0, stop - start, lam)
        square, lifted = _gather(tiled, stop - start, start, n_groups, rows[2], weight, each, sums)
        # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
        value -= 0.5 * square + lifted
    totals[0] += value


def evaluate(
    labels: Array,
    design: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    out: Sequence[Array],
) -> None:
    """Add the responses of rows to the sums of their groups, and their values to the totals.

    Parameters
    ----------
    labels : ndarray of shape (n,) or (n, n_classes)
        Codes of classes, or label rows.
    design : ndarray of shape (n, n_groups)
    weight : ndarray of shape (n,), or empty where each row weighs 1
    prices : ndarray of shape (n_groups, n_classes)
    lam : float
    levels : ndarray of shape (n,)
        Thresholds of the last pass; those of this one are written here.
    out : sums of shape (n_groups, n_classes), and totals of shape (1,)
    """
    n_groups, n_classes = prices.shape
    gathered = in_chunks(n_groups, n_classes)
    for part, rows, beyond, space in _rows(labels, design, prices, levels):
        _evaluate(
            rows,
            n_groups,
            fixed(weight[part]),
            float(lam),
            beyond,
            space,
            gathered.reshape(-1),
            out[1],
        )
    out[0][...] += gathered[:, :n_classes]


def _rows(
    labels: Array, design: Array, prices: Array, levels: Array
) -> Iterator[tuple[slice, Any, Array, Array]]:
    """Give pieces of rows as the loops take them, shifts that are 0 for every class, and room for a tile."""
    n_groups, n_classes = prices.shape
    given, beyond = in_chunks(n_groups, n_classes), in_chunks(1, n_classes, np.inf)
    given[:, :n_classes], beyond[:, :n_classes] = prices, 0.0
    room = given.shape[1]
    space = in_chunks(max(8, TILE // room), n_classes).reshape(-1)
    several = [(slice(0, len(labels)), [labels], False)] if labels.ndim == 1 else pieces(labels)
    for part, (flat,), _ in several:
        counts = np.ascontiguousarray(design[part]).reshape(-1)
        yield (
            part,
            (fixed(flat), n_classes, fixed(counts), given.reshape(-1), room, levels[part]),
            beyond.reshape(-1),
            space,
        )


@compiled
def _prove_rows(
    rows: Any,
    n_groups: int,
    weight: Array,
    lam: float,
    beyond: Array,
    space: Array,
    sums: Array,
    totals: Array,
) -> None:
    labels, n_classes, design, _, room, levels = rows
    tile = space.shape[0] // room
    none, n_rows = np.zeros(tile, np.uint8), levels.shape[0]
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        _spread(rows, start, stop, n_groups, space)
        tiled = (space, room, none, beyond, room, levels[start:stop])
        settle_tile(tiled, 0, stop - start, lam)
        seen = _prove(
            tiled, labels, n_classes, stop - start, start, n_groups, design, weight, lam, sums
        )
        totals[0] += seen[0]
        totals[1] += seen[1]
        totals[2] += seen[2]
        totals[3] += seen[3]
        totals[4] += 0.5 * seen[4]
        totals[5] = max(totals[5], seen[5])


def prove(
    labels: Array,
    design: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    out: Sequence[Array],
) -> None:
    """Add the evidence about the responses of rows to the sums of their groups, and to totals.

    Parameters
    ----------
    labels, design, weight, prices, lam, levels
        As for :func:`evaluate`.
    out : sums of shape (n_groups, n_classes), and totals of shape (6,)
        Totals as those of :func:`r2b._solve.oracle.reference.inspect`.
    """
    n_groups, n_classes = prices.shape
    gathered = in_chunks(n_groups, n_classes)
    for part, rows, beyond, space in _rows(labels, design, prices, levels):
        _prove_rows(
            rows,
            n_groups,
            fixed(weight[part]),
            float(lam),
            beyond,
            space,
            gathered.reshape(-1),
            out[1],
        )
    out[0][...] += gathered[:, :n_classes]


@compiled
def _add_entries(
    rows: Any,
    n_groups: int,
    counted: Array,
    weight: Array,
    lam: float,
    most: float,
    beyond: Array,
    space: Array,
    table: Array,
) -> bool:
    n_classes, room, levels = rows[1], rows[4], rows[5]
    tile = space.shape[0] // room
    none, where = np.zeros(tile, np.uint8), np.empty(n_classes, np.int64)
    n_counted, touched = counted.shape[1], 0
    for start in range(0, levels.shape[0], tile):
        stop = min(start + tile, levels.shape[0])
        _spread(rows, start, stop, n_groups, space)
        settle_tile((space, room, none, beyond, room, levels[start:stop]), 0, stop - start, lam)
        for i in range(start, stop):
            size, first = 0, (i - start) * room
            for k in range(n_classes):
                where[size] = k
                size += space[first + k] > levels[i]
            if size < 2:  # such a row keeps its class whatever prices do
                continue
            touched += size * size
            own = weight[i] if weight.shape[0] > 0 else 1.0
            for a in range(size):
                for b in range(a, size):
                    part = own * ((1.0 if a == b else 0.0) - 1.0 / size)
                    pair = table[where[a], where[b]]
                    for g in range(n_counted):
                        amount = part * counted[i, g]
                        if amount != 0.0:
                            for h in range(n_counted):
                                pair[g, h] += amount * counted[i, h]
        if touched > most * (stop + _LOOKED_AT):
            return False
    return True


@compiled
def _add_tiles(
    rows: Any,
    n_groups: int,
    counted: Array,
    weight: Array,
    lam: float,
    beyond: Array,
    space: Array,
    table: Array,
) -> None:
    """Multiply the patterns of a tile by themselves for every pair of groups, eight classes by eight, upper blocks alone."""
    room, levels = rows[4], rows[5]
    n_counted, tile = counted.shape[1], space.shape[0] // room
    none, sizes, own, amounts = (
        np.zeros(tile, np.uint8),
        np.empty(tile),
        np.empty(tile),
        np.empty(tile),
    )
    for start in range(0, levels.shape[0], tile):
        n_rows = min(tile, levels.shape[0] - start)
        _spread(rows, start, start + n_rows, n_groups, space)
        tiled = (space, room, none, beyond, room, levels[start : start + n_rows])
        settle_tile(tiled, 0, n_rows, lam)
        _mark(tiled, n_rows, sizes)
        for i in range(n_rows):
            own[i] = (
                (weight[start + i] if weight.shape[0] > 0 else 1.0) / sizes[i]
                if sizes[i] > 1.0
                else 0.0
            )
        place = 0
        for g in range(n_counted):
            for h in range(g, n_counted):
                counts = False
                for i in range(n_rows):
                    amounts[i] = own[i] * counted[start + i, g] * counted[start + i, h]
                    counts |= amounts[i] != 0.0
                for one in range(0, room if counts else 0, WIDTH):
                    for other in range(one, room, WIDTH):
                        _multiply(tiled, n_rows, amounts, one, other, table, place + one * room)
                place += room * room


def fold_entries(
    labels: Array,
    designs: tuple[Array, Array],
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    most: float,
    table: Array,
) -> bool:
    """Add ``w b_g b_h (D - D 1 1' D / 1' D 1)`` of rows to a table, D the classes of a row's response, entry by entry.

    Parameters
    ----------
    labels, weight, prices, lam, levels
        As for :func:`evaluate`.
    designs : (ndarray of shape (n, n_groups), ndarray of shape (n, n_counted))
        What rows count in the groups that have prices, and in those of the table.
    most : float
        Pairs of classes that a row may have, on the average.
    table : ndarray of shape (n_counted, n_classes, n_counted, n_classes)

    Returns
    -------
    bool
        False where rows have more, and other ways are faster: the table is of no use then.
    """
    n_groups, n_classes = prices.shape
    n_counted = len(table)
    # Pairs of groups side by side, and each pair of classes once: in the order of the table every
    # number would be a step in memory.
    entries = np.zeros((n_classes, n_classes, n_counted, n_counted))
    for part, rows, beyond, space in _rows(labels, designs[0], prices, levels):
        counted = fixed(np.ascontiguousarray(designs[1][part]))
        if not _add_entries(
            rows,
            n_groups,
            counted,
            fixed(weight[part]),
            float(lam),
            float(most),
            beyond,
            space,
            entries,
        ):
            return False
    for k in range(n_classes):
        table[:, k, :, k:] += entries[k, k:].transpose(1, 2, 0)
        table[:, k + 1 :, :, k] += entries[k, k + 1 :].transpose(1, 0, 2)
    return True


def fold_products(
    labels: Array,
    designs: tuple[Array, Array],
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    table: Array,
) -> None:
    """Add the same as :func:`fold_entries` by products of whole patterns, which is fast where rows have many classes of not too many."""
    n_groups, n_classes = prices.shape
    n_counted = len(table)
    first, second = np.triu_indices(n_counted)
    room = -(-n_classes // WIDTH) * WIDTH
    upper = in_chunks(len(first) * room, n_classes)
    for part, rows, beyond, space in _rows(labels, designs[0], prices, levels):
        counted = fixed(np.ascontiguousarray(designs[1][part]))
        _add_tiles(
            rows,
            n_groups,
            counted,
            fixed(weight[part]),
            float(lam),
            beyond,
            space,
            upper.reshape(-1),
        )
    products = np.triu(upper.reshape(-1, room, room))[:, :n_classes, :n_classes]
    products += np.triu(products, 1).transpose(0, 2, 1)
    # A row's products add up to what it weighs in each of its classes: the diagonal is the sum of
    # the lines.
    np.negative(products, out=products)
    diagonal = np.einsum("pkk->pk", products)
    diagonal -= products.sum(axis=2)
    table[first, :, second, :] += products
    apart = first != second
    table[second[apart], :, first[apart], :] += products[apart]
