"""The loops of :mod:`experiments.forest`, compiled by numba; imported only where a forest is grown.

Nodes are numbered as in a heap: the children of i are 2i + 1 and 2i + 2. A node without a split has
feature -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.compute import compiled

Array = NDArray[Any]

MAX_BINS = 256
LEAST_GAIN = 1e-10


@compiled
def partition(column: Array, cut: int, rows: Array, spare: Array, start: int, stop: int) -> int:
    """Bring the rows that go left to the front, in order; give where the others begin."""
    left, right = start, 0
    for j in range(start, stop):
        if column[rows[j]] <= cut:
            rows[left] = rows[j]
            left += 1
        else:
            spare[right] = rows[j]
            right += 1
    rows[left:stop] = spare[:right]
    return left


@compiled
def add_up(
    bins: Array,
    offsets: Array,
    target: Array,
    weight: Array,
    rows: Array,
    start: int,
    stop: int,
    sums: Array,
) -> None:
    """Add up weight and weighted target of rows by feature and bin."""
    sums[:] = 0.0
    n_features = bins.shape[1]
    for j in range(start, stop):
        i = rows[j]
        load = weight[i]
        moved = load * target[i]
        for f in range(n_features):
            place = offsets[f] + bins[i, f]
            sums[place, 0] += load
            sums[place, 1] += moved


@compiled
def best_cut(
    sums: Array, offsets: Array, tiny: float
) -> tuple[float, int, int, float, float, float, float]:
    """Find the split with the largest decrease of squared error: gain, feature, bin, and weight and sum of both sides."""
    weight = sums[offsets[0] : offsets[1], 0].sum()
    moved = sums[offsets[0] : offsets[1], 1].sum()
    whole = moved * moved / weight
    best, best_f, best_b, best_w, best_m = 0.0, -1, 0, 0.0, 0.0
    for f in range(len(offsets) - 1):
        left_w, left_m = 0.0, 0.0
        for b in range(offsets[f + 1] - offsets[f] - 1):
            left_w += sums[offsets[f] + b, 0]
            left_m += sums[offsets[f] + b, 1]
            right_w, right_m = weight - left_w, moved - left_m
            if left_w > tiny and right_w > tiny:
                gain = left_m * left_m / left_w + right_m * right_m / right_w - whole
                if gain > best:
                    best, best_f, best_b, best_w, best_m = gain, f, b, left_w, left_m
    return best, best_f, best_b, best_w, best_m, weight - best_w, moved - best_m


@compiled
def grow_regression(
    bins: Array, offsets: Array, target: Array, weight: Array, rows: Array, depth: int
) -> tuple[Array, Array, Array]:
    """Grow one tree on numbers; give the feature, the last bin that goes left, and the mean, node by node."""
    inner = 2**depth - 1
    feature, cut = np.full(2 * inner + 1, -1), np.zeros(2 * inner + 1, np.int64)
    value = np.zeros((2 * inner + 1, 1))
    start, stop = np.zeros(2 * inner + 1, np.int64), np.zeros(2 * inner + 1, np.int64)
    sums, spare = np.zeros((inner, offsets[-1], 2)), np.empty_like(rows)
    stop[0] = len(rows)
    add_up(bins, offsets, target, weight, rows, 0, len(rows), sums[0])
    weight_0 = sums[0, offsets[0] : offsets[1], 0].sum()
    value[0, 0] = sums[0, offsets[0] : offsets[1], 1].sum() / weight_0
    tiny = 1e-12 * weight_0
    for node in range(inner):
        if stop[node] - start[node] < 2:
            continue
        gain, f, b, left_w, left_m, right_w, right_m = best_cut(sums[node], offsets, tiny)
        if f < 0 or gain <= LEAST_GAIN:
            continue
        feature[node], cut[node] = f, b
        middle = partition(bins[:, f], b, rows, spare, start[node], stop[node])
        low, high = 2 * node + 1, 2 * node + 2
        start[low], stop[low], start[high], stop[high] = start[node], middle, middle, stop[node]
        value[low, 0], value[high, 0] = left_m / left_w, right_m / right_w
        if low < inner:
            # The sums of one child are counted, those of the larger are what is left of the
            # parent's.
            few, many = (low, high) if middle - start[node] <= stop[node] - middle else (high, low)
            add_up(bins, offsets, target, weight, rows, start[few], stop[few], sums[few])
            sums[many] = sums[node] - sums[few]
    return feature, cut, value


@compiled
def grow_classification(
    columns: Array,
    labels: Array,
    n_classes: int,
    weight: Array,
    rows: Array,
    candidates: Array,
    depth: int,
) -> tuple[Array, Array, Array]:
    """Grow one tree on classes; give the feature, the last bin that goes left, and the class shares, node by node."""
    inner = 2**depth - 1
    feature, cut = np.full(2 * inner + 1, -1), np.zeros(2 * inner + 1, np.int64)
    value = np.zeros((2 * inner + 1, n_classes))
    start, stop = np.zeros(2 * inner + 1, np.int64), np.zeros(2 * inner + 1, np.int64)
    counts, spare, left = np.zeros((MAX_BINS, n_classes)), np.empty_like(rows), np.zeros(n_classes)
    stop[0] = len(rows)
    for node in range(2 * inner + 1):
        if stop[node] == start[node]:
            continue
        whole = np.zeros(n_classes)
        for j in range(start[node], stop[node]):
            whole[labels[rows[j]]] += weight[rows[j]]
        total = whole.sum()
        value[node] = whole / total
        if node >= inner or (whole > 0).sum() < 2:
            continue
        best, best_f, best_b = (whole * whole).sum() / total + LEAST_GAIN, -1, 0
        for f in candidates[node]:
            counts[:] = 0.0
            for j in range(start[node], stop[node]):
                i = rows[j]
                counts[columns[f, i], labels[i]] += weight[i]
            left[:] = 0.0
            for b in range(MAX_BINS - 1):
                left_w, square, other = 0.0, 0.0, 0.0
                for k in range(n_classes):
                    left[k] += counts[b, k]
                    left_w += left[k]
                    square += left[k] * left[k]
                    other += (whole[k] - left[k]) * (whole[k] - left[k])
                if left_w > 1e-12 * total and total - left_w > 1e-12 * total:
                    gain = square / left_w + other / (total - left_w)
                    if gain > best:
                        best, best_f, best_b = gain, f, b
        if best_f < 0:
            continue
        feature[node], cut[node] = best_f, best_b
        middle = partition(columns[best_f], best_b, rows, spare, start[node], stop[node])
        low, high = 2 * node + 1, 2 * node + 2
        start[low], stop[low], start[high], stop[high] = start[node], middle, middle, stop[node]
    return feature, cut, value


@compiled
def add_predictions(bins: Array, feature: Array, cut: Array, value: Array, total: Array) -> None:
    """Add the value of every row's leaf to the totals."""
    for i in range(len(bins)):
        node = 0
        while feature[node] >= 0:
            node = 2 * node + 1 if bins[i, feature[node]] <= cut[node] else 2 * node + 2
        total[i] += value[node]
