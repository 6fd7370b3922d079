"""The row kernels compiled by numba; imported only where they pay. Same functions as ``reference``.

Rows are taken in tiles of ``v = y - s`` that stay in the first-level cache. Thresholds are found by
Newton's method from those of the last pass; near the answer one step does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._data.compute import compiled, compiled_kernel
from r2b._solve.oracle import reference
from r2b._solve.oracle.blocks import CACHED, Block
from r2b._solve.oracle.vectors import WIDTH, newton_steps

_TILE = 2_048  # entries
_FEW = 24  # classes up to which eight rows are settled at a time
# part of all pairs of classes that a row may have for curvature pair by pair to be faster than
# products of matrices
_SPARSE = 0.2

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
            else:
                for k in range(n_classes):
                    tile[row, k] = labels[i, k] - prices[cell, k]
        else:
            for g in range(0, prices.shape[0], 2):
                h = min(g + 1, prices.shape[0] - 1)  # two groups at a time, the last perhaps alone
                one, two = design[i, g], design[i, h] if h > g else 0.0
                if g > 0:
                    for k in range(n_classes):
                        tile[row, k] -= one * prices[g, k] + two * prices[h, k]
                elif labels.ndim == 1:
                    for k in range(n_classes):
                        tile[row, k] = -(one * prices[g, k] + two * prices[h, k])
                else:
                    for k in range(n_classes):
                        tile[row, k] = labels[i, k] - (one * prices[g, k] + two * prices[h, k])
        if labels.ndim == 1:
            tile[row, labels[i]] += 1.0


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
            for _ in range(4):  # near the answer one step does; then each row goes its own way
                exact = _step_eight(flat, room, i, levels, lam)
                if exact > 0.0:
                    break
            if exact == 0.0:
                for row in range(i, i + WIDTH):
                    levels[row] = _settle_row(flat, room, row, levels[row], lam)
    for row in range(done, n_rows):
        levels[row] = _settle_row(flat, room, row, levels[row], lam)


@compiled_kernel
def _gather(design: Array, weight: Array, x: Array, n_classes: int, sums: Array) -> None:
    """Add rows, times their weights, to the sums of their cells or groups."""
    n = len(design)
    if design.ndim == 1:
        for i in range(n):
            cell, own = design[i], weight[i] if weight.shape[0] > 0 else 1.0
            for k in range(n_classes):
                sums[cell, k] += own * x[i, k]
    else:
        for i in range(0, n, 4):  # four rows at a time: sums are read and written once for them
            second, third, fourth = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
            for g in range(design.shape[1]):
                a = _counted(design, weight, i, g)
                b = _counted(design, weight, i + 1, g)
                c = _counted(design, weight, i + 2, g)
                d = _counted(design, weight, i + 3, g)
                for k in range(n_classes):
                    sums[g, k] += (a * x[i, k] + b * x[second, k]) + (
                        c * x[third, k] + d * x[fourth, k]
                    )


@compiled_kernel
def _counted(design: Array, weight: Array, i: int, g: int) -> float:
    """Return how much a row counts in a group, times its weight; 0 past the last row."""
    if i >= len(design):
        return 0.0
    own: float = weight[i] if weight.shape[0] > 0 else 1.0
    return own * float(design[i, g])


@compiled_kernel
def _add_labels(labels: Array, design: Array, weight: Array, sums: Array, mass: Array) -> None:
    if labels.ndim == 2:
        _gather(design, weight, labels, labels.shape[1], sums)
    for i in range(len(labels)):
        if design.ndim == 1:
            own = weight[i] if weight.shape[0] > 0 else 1.0
            mass[design[i]] += own
            if labels.ndim == 1:
                sums[design[i], labels[i]] += own
        else:
            for g in range(design.shape[1]):
                part = _counted(design, weight, i, g)
                mass[g] += part
                if labels.ndim == 1:
                    sums[g, labels[i]] += part


def label_sums(block: Block, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return the sums of the old labels, and the weights, by cell or group."""
    sums, mass = np.zeros(shape), np.zeros(shape[0])
    block = replace(block, labels=block.old_labels)
    for labels, design, weight, _ in _arrays(block):
        _add_labels(labels, design, weight, sums, mass)
    return sums, mass


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
) -> float:
    size, n_classes, value = len(tile), prices.shape[1], 0.0
    for first in range(0, len(levels), size):
        n = min(size, len(levels) - first)
        _spread(labels, design, prices, first, tile, n)
        _settle(tile, n, n_classes, levels[first : first + n], lam)
        for row in range(n):
            level, square = levels[first + row], 0.0
            own = weight[first + row] if weight.shape[0] > 0 else 1.0
            if design.ndim == 1:
                cell = design[first + row]
                for k in range(n_classes):
                    above = max(tile[row, k] - level, 0.0)
                    square += above * above
                    sums[cell, k] += own * above
            else:
                for k in range(n_classes):
                    above = max(tile[row, k] - level, 0.0)
                    square += above * above
                    tile[row, k] = above
            # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level
            value -= own * (0.5 * square / lam + level)
        if design.ndim == 2:
            some = slice(first, first + n)
            _gather(design[some], weight[some], tile, n_classes, sums)
    return value


def evaluate(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats]:
    """Return the sums of the responses by cell or group, and the sum of their values."""
    sums, value = np.zeros(prices.shape), np.zeros(1)
    for part in _arrays(block):
        value += _evaluate(*part, prices, float(lam), _tile(prices), sums)
    return sums / lam, value


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
    n_classes = prices.shape[1]
    for first in range(0, len(levels), len(tile)):
        n = min(len(tile), len(levels) - first)
        _spread(labels, design, prices, first, tile, n)
        _settle(tile, n, n_classes, levels[first : first + n], lam)
        for row in range(n):
            i = first + row
            level, own = levels[i], weight[i] if weight.shape[0] > 0 else 1.0
            # Compilers make vector instructions of sums alone, so instead of the least entry of the
            # gradient: -level less the sum of what entries fall short of it, which is rounding.
            slack, square, inner, apart, moved, whole = level, 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(n_classes):
                v = tile[row, k]
                x = max(v - level, 0.0) / lam
                if labels.ndim == 1:  # noqa: SIM108 - the compiler drops one branch
                    y = 1.0 if labels[i] == k else 0.0
                else:
                    y = float(labels[i, k])
                gradient = lam * x - v
                slack += x * gradient + max(-level - gradient, 0.0)
                square += x * x
                inner += x * y
                apart += (x - y) * (x - y)
                moved += abs(x - y)
                whole += x
                tile[row, k] = x
            totals[0] += own * slack
            totals[1] += own * square
            totals[2] += own * inner
            totals[3] += own * apart
            totals[4] += own * 0.5 * moved
            totals[5] = max(totals[5], abs(whole - 1.0))
        some = slice(first, first + n)
        _gather(design[some], weight[some], tile, n_classes, sums)


def inspect(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats, Floats]:
    """Return the evidence about the returned labels; other labels than responses are rare."""
    if block.answers is not None or block.truth is not None:
        return reference.inspect(block, prices, lam)
    sums, totals = np.zeros(prices.shape), np.zeros(6)
    for part in _arrays(block):
        _inspect(*part, prices, float(lam), _tile(prices), sums, totals)
    return sums, totals[:5], totals[5:]


@compiled_kernel
def _add_pairs(support: Array, cells: Array, weight: Array, table: Array) -> None:
    """Add ``w (diag(1_A) - 1_A 1_A' / |A|)`` to the tables of cells, each pair once."""
    n_rows, n_classes = support.shape
    where = np.empty(n_classes, np.int64)
    for i in range(n_rows):
        size = 0
        for k in range(n_classes):
            where[size] = k
            size += int(support[i, k])
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
            size += int(support[i, k])
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
        support = reference.supports(answer(part, prices, lam))
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
        support = reference.supports(answer(part, prices, lam))
        mine = counts[start : start + len(part)]
        if _is_sparse(support):
            _add_group_pairs(support, mine, part.weights, table)
        else:
            reference.add_group_products(part, support, mine, products)
        start += len(part)
    below = np.tril_indices(n_classes, -1)
    table[below] = table.transpose(1, 0, 2)[below]
    by_group = table.reshape(n_classes, n_classes, n_groups, n_groups)
    return products + by_group.transpose(2, 0, 3, 1)


def _is_sparse(support: Floats) -> bool:
    sizes = reference.sizes_of(support)
    return bool(sizes @ sizes <= _SPARSE * support.shape[1] ** 2 * len(support))


def _tile(prices: Floats) -> Floats:
    """Make room for a tile of whole vectors, with minus infinity where there is no class."""
    room = -(-prices.shape[1] // WIDTH) * WIDTH
    return np.full((max(WIDTH, _TILE // room // WIDTH * WIDTH), room), -np.inf)


def _arrays(block: Block) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield labels, design, weight and levels, contiguous and read-only as kernels expect them."""
    labels, step = block.labels, len(block)
    if not labels.flags.c_contiguous:
        step = max(1, CACHED // labels.shape[1])
    for start in range(0, len(block), step):
        part = block[slice(start, start + step)]
        yield _fixed(part.labels), _fixed(part.design), _fixed(part.weight), part.levels


def _fixed(array: Array) -> Array:
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array
