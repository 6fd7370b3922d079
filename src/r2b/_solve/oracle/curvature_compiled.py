"""The curvature of class labels compiled by numba: products, averages, and systems by conjugate gradients; see ``classes_plain``."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled


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
def _multiply(cell: int, d: Array, tables: Any, room: Any, out: Array) -> None:
    """Multiply the curvature of one cell, times lam, by a vector."""
    order, size, own, weight, reach = tables
    total, taken, mean = room
    n_classes = d.shape[1]
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
        out[cell, order[cell, r]] = (
            reach[cell, r] * mine - received + own[cell, r] * weight[cell, r] * (mine - mean[r])
        )


@compiled
def product(d: Array, order: Array, size: Array, own: Array, weight: Array, reach: Array) -> Array:
    """Curvature, times lam, times a vector, as :func:`r2b._solve.oracle.classes_plain.product`."""
    n_cells, n_classes = d.shape
    out = np.empty(d.shape)
    room = np.empty(n_classes + 1), np.empty(n_classes + 1), np.empty(n_classes)
    for cell in range(n_cells):
        _multiply(cell, d, (order, size, own, weight, reach), room, out)
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
            taken[size[cell, r]] += (
                weight[cell, r]
                * amount[cell, order[cell, r]]
                / max(size[cell, r] + own[cell, r], 1.0)
            )
        received = 0.0
        for r in range(n_classes - 1, -1, -1):
            received += taken[r + 1]
            j, o = order[cell, r], own[cell, r]
            out[cell, j] = received + o * weight[cell, r] * amount[cell, j] / max(
                size[cell, r] + o, 1.0
            )
    return out


@compiled
def _image(along: Array, extra: Array, lam: float, share: Array, tables: Any, out: Array) -> float:
    """Multiply by the curvature and ``extra``; give the product with the vector itself."""
    n_cells, n_classes = along.shape
    room = np.empty(n_classes + 1), np.empty(n_classes + 1), np.empty(n_classes)
    bent = 0.0
    for cell in range(n_cells):
        _multiply(cell, along, tables, room, out)
        mine = 0.0
        for k in range(n_classes):
            out[cell, k] = out[cell, k] / lam + extra[cell, k] * along[cell, k]
            mine += out[cell, k] * along[cell, k]
        bent += share[cell] * mine
    return bent


@compiled
def _preconditioned(
    rest: Array, inverse: Array, loose: Array, bend: Array, share: Array, total: Array, out: Array
) -> float:
    """Precondition what is left, less what the balance of classes takes of it, and give the product of both."""
    n_cells, n_classes = rest.shape
    lean, common = np.zeros(n_classes), np.zeros(n_classes)
    for cell in range(n_cells):
        for k in range(n_classes):
            lean[k] += share[cell] * inverse[cell, k] * rest[cell, k]
    lean /= total
    for cell in range(n_cells):
        part = 0.0
        for k in range(n_classes):
            rest[cell, k] -= lean[k]
            part += loose[cell, k] * rest[cell, k]
        part /= bend[cell]
        for k in range(n_classes):
            out[cell, k] = rest[cell, k] * inverse[cell, k] + loose[cell, k] * part
            common[k] += share[cell] * loose[cell, k] * part
    common /= total
    size = 0.0
    for cell in range(n_cells):
        mine = 0.0
        for k in range(n_classes):
            out[cell, k] -= inverse[cell, k] * common[k]
            mine += rest[cell, k] * out[cell, k]
        size += share[cell] * mine
    return size


@compiled
def solution(
    right: Array,
    share: Array,
    extra: Array,
    inverse: Array,
    loose: Array,
    lam: float,
    tables: Any,
    precise: float,
    most: int,
) -> Array:
    """Solve with the curvature by conjugate gradients, as :func:`r2b._solve.oracle.classes_plain.solution`."""
    n_cells, n_classes = right.shape
    d, rest, z, along, image = (
        np.zeros(right.shape),
        right.copy(),
        np.empty(right.shape),
        np.empty(right.shape),
        np.empty(right.shape),
    )
    total, bend = np.zeros(n_classes), np.zeros(n_cells)
    _image(loose, extra, lam, share, tables, image)
    for cell in range(n_cells):
        for k in range(n_classes):
            total[k] += share[cell] * inverse[cell, k]
            bend[cell] += loose[cell, k] * image[cell, k]
        if not bend[cell] > 0.0:
            bend[cell] = np.inf
    total[total <= 0.0] = 1.0
    size = _preconditioned(rest, inverse, loose, bend, share, total, z)
    enough = precise**2 * size
    along[:] = z
    for _ in range(most):
        if not size > enough:
            break
        bent = _image(along, extra, lam, share, tables, image)
        if not bent > 0.0:
            break
        step = size / bent
        for cell in range(n_cells):
            for k in range(n_classes):
                d[cell, k] += step * along[cell, k]
                rest[cell, k] -= step * image[cell, k]
        size, before = _preconditioned(rest, inverse, loose, bend, share, total, z), size
        turn = size / before
        for cell in range(n_cells):
            for k in range(n_classes):
                along[cell, k] = z[cell, k] + turn * along[cell, k]
    # Flat directions have huge entries, and rounding of those leaves a class out of balance.
    off = np.zeros(n_classes)
    for cell in range(n_cells):
        for k in range(n_classes):
            off[k] += share[cell] * d[cell, k]
    return d - inverse * (off / total)
