"""The kernels for class labels compiled by numba; imported only where they pay. Same functions as ``classes_plain``."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.compute import compiled

Array = np.ndarray[Any, np.dtype[Any]]


@compiled
def _settle_cell(s: Array, first: Array, second: Array, lam: float, size: Array, own: Array, level: Array, above: Array) -> None:
    """Thresholds of the rows of one cell by rank; s is measured from the costliest class. ``above`` takes the sums of squares at first."""
    n_classes = s.size
    first[0], second[0] = 0.0, 0.0
    for n in range(1, n_classes):
        gap = s[n - 1] - s[n]
        second[n] = second[n - 1] + 2.0 * gap * first[n - 1] + n * gap * gap
        first[n] = first[n - 1] + n * gap
    alone, inside = 1, 1
    while alone < n_classes and first[alone] < lam:
        alone += 1
    while inside < n_classes and 1.0 + first[inside] < lam:
        inside += 1
    low = s[alone - 1] + (first[alone - 1] - lam) / alone
    shared = s[inside - 1] + (first[inside - 1] + 1.0 - lam) / inside
    n = 0
    for r in range(n_classes):
        raised = s[r] + 1.0
        # Dearer classes have shorter prefixes, so one walk finds all of them.
        if r < inside:
            size[r], own[r], level[r] = inside, 0.0, shared
        elif raised <= low:
            size[r], own[r], level[r] = alone, 0.0, low
        else:
            while n < r and first[n] - s[n] < lam - raised:
                n += 1
            size[r], own[r] = n, 1.0
            level[r] = s[n - 1] + (first[n - 1] + raised - s[n - 1] - lam) / (n + 1) if n > 0 else raised - lam
        k = size[r]
        squares = 0.0
        if k > 0:
            rest = s[k - 1] - level[r]
            squares = second[k - 1] + 2.0 * rest * first[k - 1] + k * rest * rest
        if r < inside:
            squares += 2.0 * (s[r] - level[r]) + 1.0
        elif own[r] > 0.0:
            squares += (raised - level[r]) ** 2
        above[r] = squares


@compiled
def _settle(
    worth: Array, order: Array, weight: Array, lam: float, size: Array, own: Array, level: Array, means: Array, value: Array
) -> None:
    n_cells, n_classes = worth.shape
    s, first, second, above = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    ranked, taken, begun = np.empty(n_classes), np.empty(n_classes + 1), np.empty(n_classes + 1)
    for cell in range(n_cells):
        top = worth[cell, order[cell, 0]]
        for r in range(n_classes):
            s[r] = worth[cell, order[cell, r]] - top
        _settle_cell(s, first, second, lam, size[cell], own[cell], ranked, above)
        taken[:] = 0.0
        begun[:] = 0.0
        total = 0.0
        for r in range(n_classes):
            part, k = weight[cell, order[cell, r]], size[cell, r]
            level[cell, order[cell, r]] = ranked[r] + top
            total -= part * (0.5 * above[r] / lam + ranked[r] + top)
            taken[k] += part
            if k > 0:
                begun[k] += part * (s[k - 1] - ranked[r])
        value[cell] = total
        received, reach = 0.0, 0.0
        for r in range(n_classes - 1, -1, -1):
            if r < n_classes - 1:
                received += (s[r] - s[r + 1]) * reach
            reach += taken[r + 1]
            received += begun[r + 1]
            kept = own[cell, r] * (s[r] + 1.0 - ranked[r])
            if own[cell, r] == 0.0 and r < size[cell, r]:
                kept = 1.0
            means[cell, order[cell, r]] = (received + weight[cell, order[cell, r]] * kept) / lam


def settle(worth: Array, order: Array, weight: Array, lam: float) -> tuple[Array, Array, Array, Array, Array]:
    """Best response of every row, as :func:`r2b._solve.oracle.classes_plain.settle`."""
    size, own, value = np.empty(worth.shape, np.int64), np.empty(worth.shape), np.empty(len(worth))
    level, means = np.empty(worth.shape), np.empty(worth.shape)
    _settle(worth, order, weight, lam, size, own, level, means, value)
    return size, own, level, means, value


@compiled
def _supports(worth: Array, order: Array, level: Array, lam: float, size: Array, own: Array, excess: Array) -> None:
    n_cells, n_classes = worth.shape
    s, first = np.empty(n_classes), np.empty(n_classes)
    for cell in range(n_cells):
        top = worth[cell, order[cell, 0]]
        for r in range(n_classes):
            s[r] = worth[cell, order[cell, r]] - top
            first[r] = first[r - 1] + r * (s[r - 1] - s[r]) if r > 0 else 0.0
        for r in range(n_classes):
            t = level[cell, order[cell, r]] - top
            low, high = 0, n_classes
            while low < high:
                middle = (low + high) // 2
                if s[middle] > t:
                    low = middle + 1
                else:
                    high = middle
            total = first[low - 1] + low * (s[low - 1] - t) if low > 0 else 0.0
            kept = min(max(s[r] + 1.0 - t, 0.0), min(lam, 1.0))
            size[cell, r] = low
            own[cell, r] = 1.0 if r >= low and kept > 0.0 and kept < min(lam, 1.0) else 0.0
            excess[cell, order[cell, r]] = (total + kept) / lam - 1.0


def supports(worth: Array, order: Array, level: Array, lam: float) -> tuple[Array, Array, Array]:
    """Supports of rows whose thresholds are given, as :func:`r2b._solve.oracle.classes_plain.supports`."""
    size, own, excess = np.empty(worth.shape, np.int64), np.empty(worth.shape), np.empty(worth.shape)
    _supports(worth, order, level, lam, size, own, excess)
    return size, own, excess


@compiled
def reached(size: Array, weight: Array) -> Array:
    """By rank, the weight of the rows whose prefix holds it."""
    n_cells, n_classes = size.shape
    reach, taken = np.empty(size.shape), np.empty(n_classes + 1)
    for cell in range(n_cells):
        taken[:] = 0.0
        for r in range(n_classes):
            taken[size[cell, r]] += weight[cell, r]
        total = 0.0
        for r in range(n_classes - 1, -1, -1):
            total += taken[r + 1]
            reach[cell, r] = total
    return reach


@compiled
def product(d: Array, order: Array, size: Array, own: Array, weight: Array, reach: Array) -> Array:
    """Curvature, times lam, times a vector, as :func:`r2b._solve.oracle.classes_plain.product`."""
    n_cells, n_classes = d.shape
    out = np.empty(d.shape)
    total, taken, mean = np.empty(n_classes + 1), np.empty(n_classes + 1), np.empty(n_classes)
    for cell in range(n_cells):
        total[0] = 0.0
        for r in range(n_classes):
            total[r + 1] = total[r] + d[cell, order[cell, r]]
        taken[:] = 0.0
        for r in range(n_classes):
            k, o = size[cell, r], own[cell, r]
            mean[r] = (total[k] + o * d[cell, order[cell, r]]) / max(k + o, 1.0)
            taken[k] += weight[cell, r] * mean[r]
        received = 0.0
        for r in range(n_classes - 1, -1, -1):
            received += taken[r + 1]
            mine = d[cell, order[cell, r]]
            out[cell, order[cell, r]] = reach[cell, r] * mine - received + own[cell, r] * weight[cell, r] * (mine - mean[r])
    return out


@compiled
def averages(d: Array, order: Array, size: Array, own: Array) -> Array:
    """By class, the mean of d over the support of its row, as :func:`r2b._solve.oracle.classes_plain.averages`."""
    n_cells, n_classes = d.shape
    out, total = np.empty(d.shape), np.empty(n_classes + 1)
    for cell in range(n_cells):
        total[0] = 0.0
        for r in range(n_classes):
            total[r + 1] = total[r] + d[cell, order[cell, r]]
        for r in range(n_classes):
            j, o = order[cell, r], own[cell, r]
            out[cell, j] = (total[size[cell, r]] + o * d[cell, j]) / max(size[cell, r] + o, 1.0)
    return out


@compiled
def spread(amount: Array, order: Array, size: Array, own: Array, weight: Array) -> Array:
    """Share an amount for each row over its support, as :func:`r2b._solve.oracle.classes_plain.spread`."""
    n_cells, n_classes = amount.shape
    out, taken = np.empty(amount.shape), np.empty(n_classes + 1)
    for cell in range(n_cells):
        taken[:] = 0.0
        for r in range(n_classes):
            taken[size[cell, r]] += weight[cell, r] * amount[cell, order[cell, r]] / max(size[cell, r] + own[cell, r], 1.0)
        received = 0.0
        for r in range(n_classes - 1, -1, -1):
            received += taken[r + 1]
            j, o = order[cell, r], own[cell, r]
            out[cell, j] = received + o * weight[cell, r] * amount[cell, j] / max(size[cell, r] + o, 1.0)
    return out
