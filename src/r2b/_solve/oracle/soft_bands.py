"""Bands that give: prices of class labels for given thresholds where every side of a band pushes back before it is reached.

In a band of width epsilon the mean of a group is ``c + a``. Exact bounds leave ``a`` anywhere within the band while the price is 0, at 0
while what the class is worth there is above 0, and at epsilon while it is below. Here it glides from one side to the other,

    a(v) = epsilon / (1 + u + sqrt(1 + u^2)),  u = v / soft,

as on the central path of an interior point, but for the bands alone: rows stay exact. Compiled by numba; imported only where it pays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled, in_order, parts_of
from r2b._solve.oracle.classes_compiled import _at, _inverse, _received

_PRECISE = 1e-11  # of the size of the prices of a class: how well they balance
_CLOSE = 1e-8  # of a worth: a change after which the next one, which is about its square, is lost in rounding
_PARTS = 8  # of the classes, for threads


@compiled
def _inside(worth: float, width: float, soft: float) -> tuple[float, float]:
    """Give the place in the band, from its lower side, and how fast it falls with the worth."""
    u = worth / soft
    root = np.sqrt(1.0 + u * u)
    sum_ = u + root if u >= 0.0 else 1.0 / (root - u)
    place: float = width / (1.0 + sum_)
    return place, place / (1.0 + sum_) * sum_ / (root * soft)


@compiled
def _mean(v: float, place: int, own: float, most: float, level: float, cell: Any) -> tuple[float, float, int]:
    """Give the mean of a class of this worth, its slope, and the number of kinks below; ``place`` is a guess of that number."""
    kinks, amount, slope = cell
    low, high = 0, kinks.size
    if (place == high or kinks[place] >= v) and (place == 0 or kinks[place - 1] < v):
        low = high = place
    while low < high:
        middle = (low + high) // 2
        if kinks[middle] < v:
            low = middle + 1
        else:
            high = middle
    mean, rate = amount[low - 1] + (v - kinks[low - 1]) * slope[low] if low > 0 else 0.0, slope[low]
    kept = v + 1.0 - level
    if kept >= most:
        mean += own * most
    elif kept > 0.0:
        mean += own * kept
        rate += own
    return mean, rate, low


@compiled
def _moved(v: float, change: float, facts: Any, band: Any, at: float, mine: Any, cell: Any) -> float:
    """Give the worth after a change to first order: of the mean and the place in the band the one that bends more is exact."""
    own, most, level, whole, start = mine
    kinks, amount, slope = cell
    width, soft = band
    mean, bend, place, fall = facts
    if fall >= bend:
        part = (mean + bend * change - at) / width
        if part <= 0.0 or part >= 1.0:
            return v + change
        ratio = 1.0 / part - 1.0
        return float(0.5 * soft * (ratio - 1.0 / ratio))
    wanted = at + min(max(place - fall * change, 0.0), width)
    if wanted <= 0.0:
        return v + change
    if own > 0.0 and whole + most * own <= wanted:
        return _inverse(wanted - most * own, 0.0, kinks, amount, slope)
    if own <= 0.0 or start >= wanted:
        return _inverse(wanted, 0.0, kinks, amount, slope)
    return _inverse(wanted - own * (1.0 - level), own, kinks, amount, slope)


@compiled
def _soft_worth(at: float, width: float, soft: float, v: float, mine: Any, cell: Any) -> tuple[float, float]:
    """Newton's method, between bounds, for the worth at which the mean is its place in the band above ``at``; with its slope."""
    low, high, rate, near = -np.inf, np.inf, 1.0, 0
    for _ in range(60):
        mean, bend, near = _mean(v, near, mine[0], mine[1], mine[2], cell)
        place, fall = _inside(v, width, soft)
        rate = bend + fall
        off = mean - place - at
        if off > 0.0:
            high = v
        else:
            low = v
        change = -off / rate
        if abs(change) <= _CLOSE * abs(v) or abs(change) <= _CLOSE * soft:
            return v + change, 1.0 / rate
        new = _moved(v, change, (mean, bend, place, fall), (width, soft), at, mine, cell)
        if not (new > low and new < high):
            new = v + change if np.isinf(high - low) else 0.5 * (low + high)
        v = new
    return v, 1.0 / rate


@compiled
def _one_by_one(at: float, width: float, soft: float, most: float, mine: Any, share: Array, cells: Any) -> float:
    """Find the worth of a class in each cell by itself, for one level after the other, between bounds: slower, and never astray."""
    v, own, level, ends = mine
    kinks, amount, slope = cells
    low, high = np.inf, -np.inf
    for cell in range(len(v)):
        found = _mean(0.0, 0, own[cell], most, level[cell], (kinks[cell], amount[cell], slope[cell]))[0]
        low, high = min(low, found - width), max(high, found)
    at = at if at > low and at < high else 0.5 * (low + high)
    below, above, side, last = 0.0, 0.0, 0, np.inf
    rates, excess, rise = np.empty(len(v)), 0.0, 1.0
    for count in range(80):
        excess, size, rise = 0.0, 0.0, 0.0
        for cell in range(len(v)):
            here = (kinks[cell], amount[cell], slope[cell])
            own_ends = (own[cell], most, level[cell], ends[0, cell], ends[1, cell])
            v[cell], rates[cell] = _soft_worth(at, width, soft, v[cell], own_ends, here)
            excess += share[cell] * v[cell]
            size += share[cell] * abs(v[cell])
            rise += share[cell] * rates[cell]
        if abs(excess) <= _PRECISE * size:
            break
        if excess > 0.0:
            below *= 0.5 if side > 0 else 1.0
            high, above, side = at, excess, 1
        else:
            above *= 0.5 if side < 0 else 1.0
            low, below, side = at, excess, -1
        # Where cells keep their means over a stretch of prices the balance all but jumps, and a slope tells little about it.
        new = at - excess / rise
        if not (new > low and new < high) or abs(excess) > 0.5 * last:
            new = 0.5 * (low + high)
            if below < 0.0 and above > 0.0 and count < 40:
                secant = (low * above - high * below) / (above - below)
                new = secant if secant > low and secant < high else new
        last = abs(excess)
        if not (new > low and new < high):
            break
        at = new
    # Levels have no more digits where bands all but give no more; the rest goes to the prices that nothing holds.
    for cell in range(len(v)):
        v[cell] -= excess / rise * rates[cell]
    return at


@compiled
def _balance_softly(
    some: Any, level: Array, weight: Array, share: Array, lam: float, epsilon: Array, soft: float, cells: Any, levels: Array, worth: Array
) -> None:
    n_cells = len(level)
    ends = np.empty((2, n_cells))
    kinks, amount, slope = cells
    for k in range(some[0], some[1]):
        if not np.isfinite(epsilon[k]):
            continue
        width, most = epsilon[k] * lam, min(lam, 1.0)
        v, own, t = worth[:, k].copy(), weight[:, k].copy(), level[:, k].copy()
        for cell in range(n_cells):
            ends[0, cell] = _at(t[cell] - 1.0 + most, kinks[cell], amount[cell], slope[cell])
            ends[1, cell] = _at(t[cell] - 1.0, kinks[cell], amount[cell], slope[cell])
        mine = (v, own, t, ends)
        levels[k] = _one_by_one(levels[k], width, soft, most, mine, share, cells)
        worth[:, k] = v


def balanced_softly(
    level: Array, weight: Array, share: Array, lam: float, epsilon: Array, guess: Array, worth: Array, soft: float
) -> tuple[Array, Array]:
    """Give the best worth of every class for given thresholds, and its levels, from guesses of both; every band is open or absent."""
    worth, levels = np.where(np.isfinite(epsilon), worth, 0.0), np.array(guess, np.float64)
    order = np.argsort(level, axis=1, kind="stable").astype(np.int64, copy=False)
    cells = _received(level, order, weight)
    n_classes = len(levels)

    def work(part: slice) -> None:
        _balance_softly((part.start, part.stop), level, weight, share, lam, epsilon, soft, cells, levels, worth)

    list(in_order(work, parts_of(n_classes, max(1, -(-n_classes // _PARTS)))))
    return worth, levels


def places(worth: Array, epsilon: Array, soft: float) -> tuple[Array, Array, Array]:
    """Give the places in the band, how fast they fall with the worth, and what the prices cost up to a constant."""
    u = worth / soft
    root = np.sqrt(1.0 + u * u)
    sum_ = np.where(u >= 0, u + root, 1.0 / (root - u))
    bounded = np.isfinite(epsilon)
    width = np.where(bounded, epsilon, 0.0)
    place = width / (1.0 + sum_)
    fall = place / (1.0 + sum_) * sum_ / (root * soft)
    # The place is the best one for these prices, with a logarithm that keeps it off both sides.
    cost = -worth * place + 0.5 * width * soft * (np.log(sum_) - 2.0 * np.log1p(sum_))
    return place, fall, np.where(bounded, cost, 0.0)
