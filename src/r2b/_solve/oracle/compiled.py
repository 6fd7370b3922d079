"""The row kernels compiled by numba; imported only where they pay. Same functions as ``reference``.

Rows are taken in tiles of ``v = y - s`` that stay in the first-level cache. Thresholds are found by
Newton's method from those of the last pass; near the answer one step does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from r2b._data.arrays import Array, Flags, Floats
from r2b._data.compute import compiled, compiled_kernel
from r2b._solve.oracle import reference
from r2b._solve.oracle.blocks import Block
from r2b._solve.oracle.vectors import WIDTH, newton_steps

_TILE = 2_048  # entries
_COPIED = 1 << 16  # entries copied at a time where labels are not contiguous
_FEW = 24  # classes up to which eight rows are settled at a time
_TRIES = 4  # steps that eight rows take together before each goes its own way
# part of all pairs of classes that a row may have for curvature pair by pair to be faster than
# products of matrices
_SPARSE = 1 / 16

_step, _step_eight = newton_steps()


@compiled_kernel
def _spread(labels: Array, design: Array, prices: Array, first: int, tile: Array, n: int) -> None:
    """Write ``v = y - s`` of n rows; labels may be classes, and the design cells."""
    n_classes = prices.shape[1]
    for row in range(n):
        i = first + row
        if design.ndim == 1:
            cell = design[i]
            if labels.ndim == 1:
                for k in range(n_classes):
                    tile[row, k] = -prices[cell, k]
                tile[row, labels[i]] += 1.0
            else:
                for k in range(n_classes):
                    tile[row, k] = labels[i, k] - prices[cell, k]
        else:
            if labels.ndim == 1:
                for k in range(n_classes):
                    tile[row, k] = 0.0
                tile[row, labels[i]] = 1.0
            else:
                for k in range(n_classes):
                    tile[row, k] = labels[i, k]
            for g in range(prices.shape[0]):
                part = design[i, g]
                for k in range(n_classes):
                    tile[row, k] -= part * prices[g, k]


@compiled
def _settle_row(tile: Array, room: int, row: int, level: float, lam: float) -> float:
    for step in range(room + 3):
        reached, count, exact = _step(tile, room, row, level, lam)
        # lam vanishes beside the row's values; the level is their largest
        if count == 0.0 and step > 0:
            break
        # Supports shrink with every step but the first. Entries tied within rounding may trade
        # places, either choice being right.
        climbs = reached > level
        level = reached if count > 0.0 else -np.inf
        if exact > 0.0 or (step > 0 and not climbs and count > 0.0):
            break
    return level


@compiled
def _settle(tile: Array, n_rows: int, n_classes: int, levels: Array, lam: float) -> None:
    """Find the thresholds of the rows of a tile, from their levels: anything, or NaN."""
    flat, room, done = tile.reshape(-1), tile.shape[1], 0
    if n_classes <= _FEW:
        done = n_rows - n_rows % WIDTH
        for i in range(0, done, WIDTH):
            exact = 0.0
            for _ in range(_TRIES):
                exact = _step_eight(flat, room, i, levels, lam)
                if exact > 0.0:
                    break
            if exact == 0.0:
                for row in range(i, i + WIDTH):
                    levels[row] = _settle_row(flat, room, row, levels[row], lam)
    for row in range(done, n_rows):
        levels[row] = _settle_row(flat, room, row, levels[row], lam)


@compiled_kernel
def _gather(design: Array, i: int, own: float, x: Array, sums: Array) -> None:
    """Add numbers of a row, times its weight, to the sums of its cell or its groups."""
    if design.ndim == 1:
        cell = design[i]
        for k in range(x.shape[0]):
            sums[cell, k] += own * x[k]
    else:
        for g in range(design.shape[1]):
            part = own * design[i, g]
            for k in range(x.shape[0]):
                sums[g, k] += part * x[k]


@compiled_kernel
def _evaluate(
    labels: Array,
    design: Array,
    weight: Array,
    levels: Array,
    prices: Array,
    lam: float,
    tile: Array,
    sums: Array,
    squares: Array,
) -> float:
    size, n_classes, lifted = len(tile), prices.shape[1], 0.0
    x = np.empty(tile.shape[1])
    for first in range(0, len(levels), size):
        n = min(size, len(levels) - first)
        _spread(labels, design, prices, first, tile, n)
        _settle(tile, n, n_classes, levels[first : first + n], lam)
        for row in range(n):
            level = levels[first + row]
            own = weight[first + row] if weight.shape[0] > 0 else 1.0
            lifted += own * level
            if design.ndim == 1:  # in one loop, which is faster
                cell = design[first + row]
                for k in range(tile.shape[1]):
                    above = max(tile[row, k] - level, 0.0)
                    squares[k] += own * above * above
                    sums[cell, k] += own * above
            else:
                for k in range(tile.shape[1]):
                    x[k] = max(tile[row, k] - level, 0.0)
                    squares[k] += own * x[k] * x[k]
                _gather(design, first + row, own, x, sums)
    return lifted


def evaluate(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats]:
    """Return the sums of the responses by cell or group, and the sum of their values."""
    tile, lifted = _tile(prices), 0.0
    sums, squares = np.zeros((len(prices), tile.shape[1])), np.zeros(tile.shape[1])
    for part in _arrays(block):
        lifted += _evaluate(*part, prices, float(lam), tile, sums, squares)
    # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level
    value = -(0.5 * squares.sum() / lam + lifted)
    return sums[:, : prices.shape[1]] / lam, np.array([value])


@compiled_kernel
def _answer(
    labels: Array,
    design: Array,
    weight: Array,
    levels: Array,
    prices: Array,
    lam: float,
    tile: Array,
    out: Array,
) -> None:
    for first in range(0, len(levels), len(tile)):
        n = min(len(tile), len(levels) - first)
        _spread(labels, design, prices, first, tile, n)
        _settle(tile, n, prices.shape[1], levels[first : first + n], lam)
        for row in range(n):
            level = levels[first + row]
            for k in range(prices.shape[1]):
                out[first + row, k] = max(tile[row, k] - level, 0.0) / lam


def answer(block: Block, prices: Floats, lam: float) -> Floats:
    """Return the best response of each row, of shape (n, n_classes)."""
    out, done = np.empty((len(block), prices.shape[1])), 0
    for part in _arrays(block):
        _answer(*part, prices, float(lam), _tile(prices), out[done:])
        done += len(part[0])
    return out


@compiled_kernel
def _inspect(
    labels: Array,
    design: Array,
    weight: Array,
    levels: Array,
    prices: Array,
    lam: float,
    tile: Array,
    sums: Array,
    totals: Array,
) -> None:
    n_classes, answer = prices.shape[1], np.zeros(tile.shape[1])
    for first in range(0, len(levels), len(tile)):
        n = min(len(tile), len(levels) - first)
        _spread(labels, design, prices, first, tile, n)
        _settle(tile, n, n_classes, levels[first : first + n], lam)
        for row in range(n):
            i = first + row
            level, own = levels[i], weight[i] if weight.shape[0] > 0 else 1.0
            paid, square, inner, apart, moved, whole = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            lowest = np.inf
            for k in range(n_classes):
                v = tile[row, k]
                x = max(v - level, 0.0) / lam
                if labels.ndim == 1:  # noqa: SIM108 - the compiler drops one branch
                    y = 1.0 if labels[i] == k else 0.0
                else:
                    y = float(labels[i, k])
                gradient = lam * x - v
                paid += x * gradient
                lowest = min(lowest, gradient)
                square += x * x
                inner += x * y
                apart += (x - y) * (x - y)
                moved += abs(x - y)
                whole += x
                answer[k] = x
            totals[0] += own * (paid - lowest)
            totals[1] += own * square
            totals[2] += own * inner
            totals[3] += own * apart
            totals[4] += own * 0.5 * moved
            totals[5] = max(totals[5], abs(whole - 1.0))
            _gather(design, i, own, answer, sums)


def inspect(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats, Floats]:
    """Return the evidence about the returned labels; other labels than responses are rare."""
    if block.answers is not None or block.truth is not None:
        return reference.inspect(block, prices, lam)
    tile, totals = _tile(prices), np.zeros(6)
    sums = np.zeros((len(prices), tile.shape[1]))
    for part in _arrays(block):
        _inspect(*part, prices, float(lam), tile, sums, totals)
    return sums[:, : prices.shape[1]], totals[:5], totals[5:]


@compiled_kernel
def _add_pairs(support: Array, cells: Array, weight: Array, table: Array) -> None:
    """Add ``w (diag(1_A) - 1_A 1_A' / |A|)`` to the tables of cells, each pair once."""
    n_rows, n_classes = support.shape
    where = np.empty(n_classes, np.int64)
    for i in range(n_rows):
        size = 0
        for k in range(n_classes):
            where[size] = k
            size += support[i, k]
        if size < 2:
            continue
        cell, own = cells[i], weight[i]
        for a in range(size):
            first = where[a]
            table[cell, first, first] += own
            for b in range(a, size):
                table[cell, first, where[b]] -= own / size


@compiled_kernel
def _add_group_pairs(support: Array, counts: Array, weight: Array, table: Array) -> None:
    """Add ``w b_g b_h (diag(1_A) - 1_A 1_A' / |A|)`` by pairs of classes, each once, and groups."""
    n_rows, n_classes = support.shape
    n_groups = counts.shape[1]
    where, products = np.empty(n_classes, np.int64), np.empty(n_groups * n_groups)
    for i in range(n_rows):
        size = 0
        for k in range(n_classes):
            where[size] = k
            size += support[i, k]
        if size < 2:
            continue
        for g in range(n_groups):
            for h in range(n_groups):
                products[g * n_groups + h] = weight[i] * counts[i, g] * counts[i, h]
        for a in range(size):
            for b in range(a, size):
                part = (1.0 if a == b else 0.0) - 1.0 / size
                first, second = where[a], where[b]
                for pair in range(products.shape[0]):
                    table[first, second, pair] += part * products[pair]


def cell_curvature(block: Block, prices: Floats, lam: float) -> Floats:
    """Return lam times the curvature of the rows of each cell."""
    n_cells, n_classes = prices.shape
    table = np.zeros((n_cells, n_classes, n_classes))
    products = np.zeros_like(table)
    for part in block.parts(n_classes):
        support = answer(part, prices, lam) > 0
        if _is_sparse(support):
            _add_pairs(support, part.design, part.weights, table)
        else:
            reference.add_cell_products(part, support, products)
    return products + table + np.triu(table, 1).transpose(0, 2, 1)


def group_curvature(block: Block, prices: Floats, lam: float, counts: Floats) -> Floats:
    """Return lam times the curvature by pairs of groups, as those count."""
    n_groups, n_classes = counts.shape[1], prices.shape[1]
    table, start = np.zeros((n_classes, n_classes, n_groups**2)), 0
    products = np.zeros((n_groups, n_classes, n_groups, n_classes))
    for part in block.parts(n_classes):
        support, mine = answer(part, prices, lam) > 0, counts[start : start + len(part)]
        if _is_sparse(support):
            _add_group_pairs(support, mine, part.weights, table)
        else:
            reference.add_group_products(part, support, mine, products)
        start += len(part)
    below = np.tril_indices(n_classes, -1)
    table[below] = table.transpose(1, 0, 2)[below]
    by_group = table.reshape(n_classes, n_classes, n_groups, n_groups)
    return products + by_group.transpose(2, 0, 3, 1)


def _is_sparse(support: Flags) -> bool:
    sizes = np.count_nonzero(support, axis=1).astype(np.float64)
    return bool(sizes @ sizes <= _SPARSE * support.shape[1] ** 2 * len(support)) or (
        support.shape[1] <= WIDTH
    )


def _tile(prices: Floats) -> Floats:
    """Make room for a tile of whole vectors, with minus infinity where there is no class."""
    room = -(-prices.shape[1] // WIDTH) * WIDTH
    return np.full((max(WIDTH, _TILE // room // WIDTH * WIDTH), room), -np.inf)


def _arrays(block: Block) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield labels, design, weight and levels, contiguous and read-only as kernels expect them."""
    labels, step = block.labels, len(block)
    if not labels.flags.c_contiguous:
        step = max(1, _COPIED // labels.shape[1])
    for start in range(0, len(block), step):
        part = block[slice(start, start + step)]
        yield _fixed(part.labels), _fixed(part.design), _fixed(part.weight), part.levels


def _fixed(array: Array) -> Array:
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array
