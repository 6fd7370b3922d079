"""The loops of :mod:`r2b._solve.solvers.descent`, compiled by numba; imported only where they pay.

``rows`` is a tuple of what is known of the rows: ``start`` of their entries, the class of each
entry, how rows count in groups, their weight, and the unknown that stands for a group and class, -1
where there is none. ``at`` is where they stand: the worth of each entry, the entry that each row is
at, which other entries are held level with it, and how many a row has of these; the unknowns, and
their signs. ``basis`` is a direction for each equation that moves along it alone, the equation's
kind, what it is about, the gradient, and what a price above 0 adds to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled, compiled_kernel

# kinds of equations: balances; prices as they were; prices of 0; classes of a row that are level
FIXED, STARTED, ZERO, TIED = 0, 1, 2, 3
SOLVED, UNBOUNDED, GIVEN_UP = 0, 1, 2

_SHORT = 1e-9  # part of a row, or of the step of a slope, below which a share is one of 0
_FLAT = 1e-13  # slope of the objective along a price that is rounding
# of the length of a direction: what a difference in worth must change by to count as moving
_PARALLEL = 1e-11


@compiled_kernel
def _slopes(edges: Array, gradient: Array, slopes: Array, sizes: Array) -> None:
    """Give the slope along each edge, and its squared length."""
    for j in range(edges.shape[0]):
        slope, size = 0.0, 0.0
        for e in range(edges.shape[1]):
            slope += edges[j, e] * gradient[e]
            size += edges[j, e] * edges[j, e]
        slopes[j], sizes[j] = slope, size


@compiled
def _steepest(
    rows: Any, basis: Any, row_of: Array, slopes: Array, sizes: Array, taken: Array
) -> tuple[int, float, bool]:
    """Give the edge that leads down most steeply, which way, and whether it is the class that its row is at that leaves."""
    kind, what, rise = basis[1], basis[2], basis[4]
    weight = rows[3]
    best, found, way, own = 0.0, -1, 0.0, False
    for j in range(kind.shape[0]):
        if kind[j] == TIED:
            taken[row_of[what[j]]] = weight[row_of[what[j]]]
    for j in range(kind.shape[0]):
        if kind[j] == TIED:
            taken[row_of[what[j]]] += slopes[j]
    for j in range(kind.shape[0]):
        slope, side, mine = slopes[j], 1.0, False
        if kind[j] == FIXED:
            continue
        if kind[j] == STARTED:
            side = 1.0 if slope < 0.0 else -1.0
            slope = -abs(slope) if abs(slope) > _FLAT else 0.0
        elif kind[j] == ZERO:
            room = rise[what[j]]
            if slope > _SHORT * room + _FLAT:
                slope, side = -slope, -1.0
            else:
                slope = slope + room if slope + room < -_SHORT * room - _FLAT else 0.0
        else:
            i = row_of[what[j]]
            if slope > _SHORT * weight[i]:
                slope, side = -slope, -1.0
            elif taken[i] < -_SHORT * weight[i]:
                slope, mine = taken[i], True
            else:
                slope = 0.0
        if slope < 0.0 and slope * slope > best * sizes[j]:
            best, found, way, own = slope * slope / sizes[j], j, side, mine
    return found, way, own


@compiled
def _turn(rows: Any, at: Any, basis: Any, row_of: Array, j: int) -> None:
    """Let a row be at another of its classes that are level, so that the one it was at may leave."""
    _, column, design, weight, place = rows
    own, held = at[1], at[2]
    edges, kind, what, gradient, _ = basis
    new = what[j]
    i = row_of[new]
    old = own[i]
    for c in range(kind.shape[0]):
        if c != j and kind[c] == TIED and row_of[what[c]] == i:
            for e in range(edges.shape[1]):
                edges[j, e] += edges[c, e]
    for e in range(edges.shape[1]):
        edges[j, e] = -edges[j, e]
    what[j], own[i], held[new], held[old] = old, new, False, True
    for g in range(design.shape[1]):
        _add(gradient, place[g, column[old]], weight[i] * design[i, g])
        _add(gradient, place[g, column[new]], -weight[i] * design[i, g])


@compiled
def _add(gradient: Array, unknown: int, amount: float) -> None:
    if unknown >= 0:
        gradient[unknown] += amount


@compiled
def _next(rows: Any, at: Any, moves: Array, i: int, least: float) -> tuple[float, int]:
    """Give when a row would rather have another class than the one it is at, and which."""
    start, worth, own, held = rows[0], at[0], at[1], at[2]
    base = own[i]
    when, which = np.inf, -1
    for e in range(start[i], start[i + 1]):
        nearer = moves[e] - moves[base]
        if nearer > least and not held[e]:
            ahead = max((worth[base] - worth[e]) / nearer, 0.0)
            if ahead < when:
                when, which = ahead, e
    return when, which


@compiled
def _sink(when: Array, who: Array, place: int, size: int) -> None:
    """Put an element of a heap, least first, where it belongs among those below it."""
    while True:
        child = 2 * place + 1
        if child >= size:
            return
        if child + 1 < size and when[child + 1] < when[child]:
            child += 1
        if when[place] <= when[child]:
            return
        when[place], when[child] = when[child], when[place]
        who[place], who[child] = who[child], who[place]
        place = child


@compiled_kernel
def _moved(start: Array, column: Array, design: Array, ways: Array, moves: Array) -> None:
    """Give how the worth of each entry changes along a direction, which is given by class and group."""
    n_groups = design.shape[1]
    for i in range(start.shape[0] - 1):
        for e in range(start[i], start[i + 1]):
            move, k = 0.0, column[e]
            for g in range(n_groups):
                move -= design[i, g] * ways[k, g]
            moves[e] = move


@compiled
def _ahead(
    rows: Any, at: Any, rise: Array, way: Array, moves: Array, least: float, heap: Any
) -> int:
    """Find what happens first along a direction to each row, and to each price that goes to 0; give how many there are."""
    start, column, design, _, place = rows
    prices, sign = at[4], at[5]
    when, who, which = heap
    ways = np.empty((place.shape[1], place.shape[0]))
    for g in range(place.shape[0]):
        for k in range(place.shape[1]):
            ways[k, g] = way[place[g, k]] if place[g, k] >= 0 else 0.0
    _moved(start, column, design, ways, moves)
    size = 0
    for i in range(start.shape[0] - 1):
        when[size], which[i] = _next(rows, at, moves, i, least)
        if which[i] >= 0:
            who[size] = i
            size += 1
    for e in range(rise.shape[0]):
        if rise[e] > 0.0 and sign[e] * way[e] < 0.0:
            when[size], who[size] = max(-prices[e] / way[e], 0.0), -1 - e
            size += 1
    for node in range(size // 2 - 1, -1, -1):
        _sink(when, who, node, size)
    return size


@compiled
def _search(
    rows: Any, at: Any, basis: Any, way: Array, slope: float, moves: Array, heap: Any
) -> tuple[float, int]:
    """Go down along a direction until it leads up: how far, and the row or price that ends it; rows and prices passed take their turn."""
    _, column, design, weight, place = rows
    _, own, _, level, _, sign = at
    gradient, rise = basis[3], basis[4]
    when, who, which = heap
    least = 0.0
    for e in range(way.shape[0]):
        least = max(least, _PARALLEL * abs(way[e]))
    size = _ahead(rows, at, rise, way, moves, least, heap)
    while size > 0:
        far, i = when[0], who[0]
        slope += (
            rise[-1 - i] * abs(way[-1 - i])
            if i < 0
            else weight[i] * (moves[which[i]] - moves[own[i]])
        )
        if slope >= 0.0 or (i >= 0 and level[i] > 0):
            return far, i
        if i < 0:
            gradient[-1 - i] += rise[-1 - i] if way[-1 - i] > 0.0 else -rise[-1 - i]
            sign[-1 - i] = -sign[-1 - i]
            later = np.inf
        else:
            for g in range(design.shape[1]):
                _add(gradient, place[g, column[own[i]]], weight[i] * design[i, g])
                _add(gradient, place[g, column[which[i]]], -weight[i] * design[i, g])
            own[i] = which[i]
            later, which[i] = _next(rows, at, moves, i, least)
        when[0] = max(later, far)
        if later == np.inf:
            size -= 1
            when[0], who[0] = when[size], who[size]
        _sink(when, who, 0, size)
    return np.inf, 0


@compiled
def _replace(rows: Any, at: Any, basis: Any, j: int, i: int, entry: int, along: Array) -> bool:
    """Put the equation of a row and an entry, or of a price, in the place of another; False where it says nothing new."""
    _, column, design, _, place = rows
    _, own, held, level, prices, sign = at
    edges, kind, what, gradient, rise = basis
    for c in range(along.shape[0]):
        moved = 0.0
        if i < 0:
            moved = edges[c, -1 - i]
        else:
            for g in range(design.shape[1]):
                one, other = place[g, column[own[i]]], place[g, column[entry]]
                moved += design[i, g] * (
                    (edges[c, one] if one >= 0 else 0.0) - (edges[c, other] if other >= 0 else 0.0)
                )
        along[c] = moved
    if along[j] == 0.0:
        return False
    for e in range(edges.shape[1]):
        edges[j, e] /= along[j]
    for c in range(along.shape[0]):
        if c != j and along[c] != 0.0:
            for e in range(edges.shape[1]):
                edges[c, e] -= along[c] * edges[j, e]
    if i < 0:
        e = -1 - i
        gradient[e] -= rise[e] if sign[e] > 0.0 else 0.0
        kind[j], what[j], sign[e], prices[e] = ZERO, e, 0.0, 0.0
    else:
        kind[j], what[j], held[entry] = TIED, entry, True
        level[i] += 1
    return True


@compiled
def _release(at: Any, basis: Any, row_of: Array, j: int, side: float) -> None:
    """Let an equation go: a price leaves 0, or a class falls behind."""
    _, _, held, level, _, sign = at
    _, kind, what, gradient, rise = basis
    if kind[j] == ZERO:
        sign[what[j]] = side
        gradient[what[j]] += rise[what[j]] if side > 0.0 else 0.0
    elif kind[j] == TIED:
        held[what[j]] = False
        level[row_of[what[j]]] -= 1


@compiled
def descend(rows: Any, at: Any, basis: Any, row_of: Array, most: int) -> tuple[int, int]:
    """Go from corner to corner until no edge leads down; how that ended, and after how many steps."""
    edges, kind, _, gradient, rise = basis
    n, n_entries = edges.shape[0], row_of.shape[0]
    slopes, sizes, along, way = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    taken, moves = np.empty(rows[0].shape[0]), np.empty(n_entries)
    heap = (
        np.empty(n + taken.shape[0]),
        np.empty(n + taken.shape[0], np.int64),
        np.empty(taken.shape[0], np.int64),
    )
    worth, prices = at[0], at[4]
    for step in range(most):
        _slopes(edges, gradient, slopes, sizes)
        j, side, turned = _steepest(rows, basis, row_of, slopes, sizes, taken)
        if j < 0:
            return SOLVED, step
        slope = side * slopes[j]
        if kind[j] == ZERO and side > 0.0:
            slope += rise[basis[2][j]]
        if turned:
            slope, side = taken[row_of[basis[2][j]]], -1.0
            _turn(rows, at, basis, row_of, j)
        _release(at, basis, row_of, j, side)
        for e in range(n):
            way[e] = side * edges[j, e]
        far, i = _search(rows, at, basis, way, slope, moves, heap)
        if far == np.inf:
            return UNBOUNDED, step
        for e in range(n):
            prices[e] += far * way[e]
        for e in range(n_entries):
            worth[e] += far * moves[e]
        if not _replace(rows, at, basis, j, i, heap[2][i] if i >= 0 else 0, along):
            return GIVEN_UP, step
    return GIVEN_UP, most
