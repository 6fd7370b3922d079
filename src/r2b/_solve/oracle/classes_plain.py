"""The kernels for class labels in NumPy: the reference for :mod:`r2b._solve.oracle.classes_compiled`.

Rows of one cell differ in one entry. With v what each class is worth there (minus its shift), sorted once, the row of class j is v with the
entry of j raised by 1, and its support is a prefix of the sorted order, and j. So thresholds, means, values and products with the curvature
cost a sort and a few cumulative sums for each cell, whatever the number of rows.

All tables have shape (cells, classes). Ranks are places in the sorted order; ``size`` is how long a row's prefix is, ``own`` is 1 where its
own class lies beyond that prefix and still belongs to its support.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Array = np.ndarray[Any, np.dtype[Any]]


def settle(worth: Floats, order: Whole, weight: Floats, lam: float) -> tuple[Whole, Floats, Floats, Floats, Floats]:
    """Best response of every row.

    Parameters
    ----------
    worth : ndarray of shape (n_cells, n_classes)
    order : ndarray of the same shape
        The classes of each cell, costliest first.
    weight : ndarray of the same shape
        Of the row of each class, as a share of its cell.
    lam : float

    Returns
    -------
    size, own : ndarray
        By rank.
    level, means : ndarray
        By class: threshold of its row, and mean of the responses.
    value : ndarray of shape (n_cells,)
        ``sum_j w_j (lam/2 |x_j|^2 - <x_j, e_j + v>)``.
    """
    n_cells = len(worth)
    size, own = np.empty(worth.shape, np.int64), np.zeros(worth.shape)
    level, means, value = np.empty(worth.shape), np.empty(worth.shape), np.empty(n_cells)
    for cell in range(n_cells):
        mine = order[cell]
        size[cell], own[cell], falling, above, squares = _thresholds(worth[cell, mine], lam)
        part, top = weight[cell, mine], worth[cell, mine[0]]
        level[cell, mine] = falling + top
        means[cell, mine] = _means(worth[cell, mine] - top, size[cell], falling, part, above, lam)
        value[cell] = -(part @ (0.5 * squares / lam + level[cell, mine]))
    return size, own, level, means, value


def _thresholds(sorted_worth: Floats, lam: float) -> tuple[Whole, Floats, Floats, Floats, Floats]:
    """Sizes, own flags, thresholds, and the own entry and sum of squares above them, of the rows of one cell by rank.

    Everything is measured from the costliest class and built from gaps between neighbours, so that no digits cancel.
    """
    n_classes = len(sorted_worth)
    s = sorted_worth - sorted_worth[0]
    gap = np.append(0.0, s[:-1] - s[1:])
    rank = np.arange(n_classes)
    # For the first n + 1 classes: what they are above the last of them, summed, and its squares.
    first = np.cumsum(rank * gap)
    second = np.cumsum(2.0 * gap * np.append(0.0, first[:-1]) + rank * gap**2)
    alone = 1 + int((first[1:] < lam).sum())
    inside = 1 + int((1.0 + first[1:] < lam).sum())
    raised = s + 1.0
    low = s[alone - 1] + (first[alone - 1] - lam) / alone
    size = np.minimum(np.searchsorted(np.maximum.accumulate(first - s), lam - raised, side="left"), rank)
    last = np.maximum(size - 1, 0)
    some = size > 0
    base = np.where(some, s[last], 0.0)
    level = np.where(some, base + (first[last] + raised - base - lam) / (size + 1), raised - lam)
    own = np.ones(n_classes)
    # A row that is worth less than what others alone settle at keeps nothing; one within its own prefix shares it with its neighbours.
    gone, within = raised <= low, rank < inside
    size, level, own = np.where(gone, alone, size), np.where(gone, low, level), np.where(gone | within, 0.0, own)
    size = np.where(within, inside, size)
    level = np.where(within, s[inside - 1] + (first[inside - 1] + 1.0 - lam) / inside, level)
    last, some = np.maximum(size - 1, 0), size > 0
    rest = np.where(some, s[last] - level, 0.0)
    squares = np.where(some, second[last] + 2.0 * rest * first[last] + size * rest**2, 0.0)
    above = np.where(within, 1.0, own * (raised - level))
    squares += np.where(within, 2.0 * (s - level) + 1.0, above**2)
    return size.astype(np.int64), own, level, above, squares


def _means(v: Floats, size: Whole, level: Floats, weight: Floats, above: Floats, lam: float) -> Floats:
    n_classes = len(v)
    # From the cheapest class that anyone takes upwards: each has what the next one has, and more. No term is negative.
    taken = np.bincount(size, weight, minlength=n_classes + 1)[1:]
    begun: Floats = np.bincount(size, weight * (v[np.maximum(size - 1, 0)] - level), minlength=n_classes + 1)[1:].astype(np.float64)
    reach = np.cumsum(taken[::-1])[::-1]
    begun[:-1] += (v[:-1] - v[1:]) * reach[1:]
    received = np.cumsum(begun[::-1])[::-1]
    means: Floats = (received + weight * above) / lam
    return means


def supports(worth: Floats, order: Whole, level: Floats, lam: float) -> tuple[Whole, Floats, Floats]:
    """Supports of rows whose thresholds are given, by rank, and by class how much the sum of the row then exceeds 1.

    A row that keeps its label whole counts its own class as 1 whatever its threshold, and gives what lies above that threshold besides.
    """
    size, own, excess = np.empty(worth.shape, np.int64), np.empty(worth.shape), np.empty(worth.shape)
    for cell, mine in enumerate(order):
        s, t = worth[cell, mine] - worth[cell, mine[0]], level[cell, mine] - worth[cell, mine[0]]
        rank = np.arange(len(s))
        first = np.cumsum(rank * np.append(0.0, s[:-1] - s[1:]))
        size[cell] = np.searchsorted(-s, -t, side="left")
        kept = np.clip(s + 1.0 - t, 0.0, min(lam, 1.0))
        own[cell] = (rank >= size[cell]) & (kept > 0.0) & (kept < min(lam, 1.0))
        last = np.maximum(size[cell] - 1, 0)
        total = np.where(size[cell] > 0, first[last] + size[cell] * (s[last] - t), 0.0)
        excess[cell, mine] = (total + kept) / lam - 1.0
    return size, own, excess


def reached(size: Whole, weight: Floats) -> Floats:
    """By rank, the weight of the rows whose prefix holds it; ``weight`` is by rank."""
    return _from_below(size, weight)


def product(d: Floats, order: Whole, size: Whole, own: Floats, weight: Floats, reach: Floats) -> Floats:
    """Curvature, times lam, times a vector; by class. ``weight`` and ``reach`` are by rank."""
    ranked = np.take_along_axis(d, order, axis=1)
    mean = _averages(ranked, size, own)
    changed = reach * ranked - _from_below(size, weight * mean) + own * weight * (ranked - mean)
    return _by_class(changed, order)


def averages(d: Floats, order: Whole, size: Whole, own: Floats) -> Floats:
    """By class, the mean of d over the support of its row; 0 for a row without one."""
    return _by_class(_averages(np.take_along_axis(d, order, axis=1), size, own), order)


def spread(amount: Floats, order: Whole, size: Whole, own: Floats, weight: Floats) -> Floats:
    """Share an amount for each row, times its weight, evenly over its support; by class."""
    each = weight * np.take_along_axis(amount, order, axis=1) / np.maximum(size + own, 1.0)
    return _by_class(_from_below(size, each) + own * each, order)


def _averages(ranked: Floats, size: Whole, own: Floats) -> Floats:
    total = np.concatenate([np.zeros((len(ranked), 1)), np.cumsum(ranked, axis=1)], axis=1)
    mean: Floats = (np.take_along_axis(total, size, axis=1) + own * ranked) / np.maximum(size + own, 1.0)
    return mean


def _from_below(size: Whole, amount: Floats) -> Floats:
    """By rank, the sum of the amounts of rows whose prefix holds it."""
    n_cells, n_classes = size.shape
    place = size + (n_classes + 1) * np.arange(n_cells)[:, None]
    by_size = np.bincount(place.ravel(), amount.ravel(), minlength=n_cells * (n_classes + 1)).reshape(n_cells, -1)
    total: Floats = np.cumsum(by_size[:, :0:-1], axis=1, dtype=np.float64)[:, ::-1]
    return total


def _by_class(ranked: Floats, order: Whole) -> Floats:
    out = np.empty_like(ranked)
    np.put_along_axis(out, order, ranked, axis=1)
    return out
