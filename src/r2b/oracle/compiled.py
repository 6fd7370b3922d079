"""The row kernels compiled by numba; imported only where they pay. Same functions as :mod:`r2b.oracle.plain`.

Rows are taken in tiles of 32, turned so that one instruction works on several rows: no sum runs across a register and any number of classes
fits. The threshold of a row is found by Newton on ``t -> sum_k max(v_k - t, 0) - lam`` from the threshold of the last pass. From any start
the first step lands at or below the root and the others climb to it; once the support repeats the threshold is exact. Methods that drop
entries one by one (Michelot, Condat) and sorting do not fill the registers and are slower in nearly every case.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b.compile import compiled_kernel

Array = np.ndarray[Any, np.dtype[Any]]

TILE = 32


@compiled_kernel
def _fill(labels: Array, groups: Array, prices: Array, levels: Array, start: int, tile: Array, level: Array) -> int:
    """Bring rows ``start`` and on of ``y - nu`` into the tile, padded with copies of the first; return how many there are."""
    n_classes = labels.shape[1]
    size: int = min(TILE, labels.shape[0] - start)
    for j in range(TILE):
        i = start + (j if j < size else 0)
        s = groups[i]
        level[j] = levels[i]
        for k in range(n_classes):
            tile[k, j] = labels[i, k] - prices[s, k]
    return size


@compiled_kernel
def _count(tile: Array, level: Array, count: Array, total: Array) -> None:
    """Count and add up what lies above each row's level."""
    for j in range(TILE):
        count[j] = 0.0
        total[j] = 0.0
    for k in range(tile.shape[0]):
        for j in range(TILE):
            kept = tile[k, j] > level[j]
            count[j] += 1.0 if kept else 0.0
            total[j] += tile[k, j] if kept else 0.0


@compiled_kernel
def _settle(tile: Array, lam: float, level: Array, count: Array, total: Array, last: Array) -> None:
    """Find the thresholds of the rows of a tile, starting from those in ``level`` (NaN where there is none)."""
    n_classes = tile.shape[0]
    _count(tile, level, count, total)
    for j in range(TILE):
        last[j] = count[j]
        if count[j] > 0.0:
            level[j] = (total[j] - lam) / count[j]
        else:
            top = tile[0, j]
            whole = 0.0
            for k in range(n_classes):
                whole += tile[k, j]
                top = max(top, tile[k, j])
            level[j] = max((whole - lam) / n_classes, top - lam)
    # The support shrinks with every step but the first; entries tied within rounding may trade places for ever, either choice being right.
    for _ in range(n_classes + 3):
        _count(tile, level, count, total)
        changed = 0.0
        for j in range(TILE):
            changed = max(changed, abs(count[j] - last[j]))
            last[j] = count[j]
            # A count of 0 means that lam vanishes beside the row's values; the level then is their largest.
            level[j] = (total[j] - lam) / count[j] if count[j] > 0.0 else level[j]
        if changed == 0.0:
            break


@compiled_kernel
def walk(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    sums: Array,
    totals: Array,
    curvature: Array,
) -> None:
    """Add responses, values and curvature, as :func:`r2b.oracle.plain.walk`."""
    n_rows, n_classes = labels.shape
    tile = np.empty((n_classes, TILE))
    level, count, total, last = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    support, where = np.empty(n_classes), np.empty(n_classes, np.int64)
    curved = curvature.shape[0] > 0
    diagonal = np.zeros(prices.shape)
    value = 0.0
    for start in range(0, n_rows, TILE):
        size = _fill(labels, groups, prices, levels, start, tile, level)
        _settle(tile, lam, level, count, total, last)
        for j in range(size):
            i = start + j
            s = groups[i]
            own = weight[i] if weight.shape[0] > 0 else 1.0
            mine = level[j]
            levels[i] = mine
            scale = own / lam
            square = 0.0
            for k in range(n_classes):
                above = max(labels[i, k] - prices[s, k] - mine, 0.0)
                sums[s, k] += scale * above
                square += above * above
            # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
            value -= own * (0.5 * square / lam + mine)
            if curved:
                n_kept = 0
                for k in range(n_classes):
                    kept = tile[k, j] > mine
                    support[k] = 1.0 if kept else 0.0
                    where[n_kept] = k
                    n_kept += kept
                for k in range(n_classes):
                    diagonal[s, k] += own * support[k]
                part = own / max(n_kept, 1)
                for a in range(n_kept):
                    b = where[a]
                    for k in range(n_classes):
                        curvature[s, b, k] -= part * support[k]
    totals[0] += value
    if curved:
        for s in range(prices.shape[0]):
            for k in range(n_classes):
                curvature[s, k, k] += diagonal[s, k]


@compiled_kernel
def answer(labels: Array, groups: Array, prices: Array, lam: float, levels: Array, out: Array) -> None:
    """Write the response of each row into ``out``."""
    n_rows, n_classes = labels.shape
    tile = np.empty((n_classes, TILE))
    level, count, total, last = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(0, n_rows, TILE):
        size = _fill(labels, groups, prices, levels, start, tile, level)
        _settle(tile, lam, level, count, total, last)
        for j in range(size):
            i = start + j
            s = groups[i]
            mine = level[j]
            for k in range(n_classes):
                out[i, k] = max(labels[i, k] - prices[s, k] - mine, 0.0) / lam


@compiled_kernel
def inspect(labels: Array, groups: Array, weight: Array, prices: Array, lam: float, answers: Array, sums: Array, totals: Array) -> None:
    """Add the evidence about ``answers``, as :func:`r2b.oracle.plain.inspect`."""
    n_rows, n_classes = labels.shape
    for i in range(n_rows):
        s = groups[i]
        own = weight[i] if weight.shape[0] > 0 else 1.0
        lowest, least = np.inf, np.inf
        paid, square, inner, apart, moved, whole = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(n_classes):
            x, y = float(answers[i, k]), float(labels[i, k])
            gradient = lam * x - y + prices[s, k]
            lowest = min(lowest, gradient)
            least = min(least, x)
            paid += x * gradient
            square += x * x
            inner += x * y
            apart += (x - y) * (x - y)
            moved += abs(x - y)
            whole += x
            sums[s, k] += own * x
        totals[0] += own * (paid - lowest)
        totals[1] += own * square
        totals[2] += own * inner
        totals[3] += own * apart
        totals[4] += own * 0.5 * moved
        totals[5] = max(totals[5], abs(whole - 1.0), -least)


@compiled_kernel
def add_rows(labels: Array, groups: Array, weight: Array, sums: Array) -> None:
    """Add the label rows themselves to ``sums``."""
    n_rows, n_classes = labels.shape
    for i in range(n_rows):
        s = groups[i]
        own = weight[i] if weight.shape[0] > 0 else 1.0
        for k in range(n_classes):
            sums[s, k] += own * labels[i, k]
