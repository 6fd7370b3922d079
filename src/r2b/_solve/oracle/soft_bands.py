"""Bands that give: prices of class labels for given thresholds where every side of a band pushes back before it is reached.

In a band of width epsilon the mean of a group is ``c + a``. Exact bounds leave ``a`` anywhere
within the band while the price is 0, at 0 while what the class is worth there is above 0, and at
epsilon while it is below. Here it glides from one side to the other,

    a(v) = epsilon / (1 + u + sqrt(1 + u^2)),  u = v / soft,

as on the central path of an interior point, but for the bands alone: rows stay exact. Compiled by
numba; imported only where it pays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled
from r2b._solve.oracle.classes_compiled import _at, received, spread_out

_PRECISE = 1e-6  # of the size of the prices of a class: how well they balance
# worth that no class has: where a band all but touches 0 the means of some groups are reached at
# none
_FARTHEST = 1e12
# of a worth: a change after which the next one, which is about its square, is lost in rounding
_CLOSE = 1e-4


@compiled
def _inside(worth: float, width: float, soft: float) -> tuple[float, float]:
    """Give the place in the band, from its lower side, and how fast it falls with the worth."""
    u = worth / soft
    root = np.sqrt(1.0 + u * u)
    # Of the sum and its inverse the one that does not cancel; the place is the same from the other
    # side with the other one.
    sum_ = abs(u) + root
    part = width / (1.0 + sum_)
    place: float = part if u >= 0.0 else width - part
    return place, part * sum_ / ((1.0 + sum_) * root * soft)


@compiled
def _mean(v: float, mine: Any, cell: int, cells: Any) -> tuple[float, int]:
    """Give the mean of a class of this worth, and the number of kinks below."""
    own, most, level = mine
    kinks, amount, slope = cells
    low, high = 0, kinks.shape[1]
    while low < high:
        middle = (low + high) // 2
        if kinks[cell, middle] < v:
            low = middle + 1
        else:
            high = middle
    received: float = (
        amount[cell, low - 1] + (v - kinks[cell, low - 1]) * slope[cell, low] if low > 0 else 0.0
    )
    return received + own * min(max(v + 1.0 - level, 0.0), most), low


@compiled
def _stretch(
    v: float, up: bool, near: int, mine: Any, cell: int, cells: Any
) -> tuple[float, float, int]:
    """Give the end of the straight piece of the mean that begins at v, up or down, its slope, and the number of kinks below it."""
    own, most, level = mine
    kinks, _, slope = cells
    first, last = level - 1.0, level - 1.0 + most
    if up:
        while near < kinks.shape[1] and kinks[cell, near] <= v:
            near += 1
        end = kinks[cell, near] if near < kinks.shape[1] else np.inf
        end = min(end, first if v < first else last if v < last else np.inf)
        keeps = v >= first and v < last
    else:
        while near > 0 and kinks[cell, near - 1] >= v:
            near -= 1
        end = kinks[cell, near - 1] if near > 0 else -np.inf
        end = max(end, last if v > last else first if v > first else -np.inf)
        keeps = v > first and v <= last
    return end, slope[cell, near] + (own if keeps else 0.0), near


@compiled
def _walked(
    to: float, wanted: float, fall: float, state: Any, mine: Any, cell: int, cells: Any
) -> tuple[float, float, int]:
    """Go on until the worth is ``to`` or the mean ``wanted``, whichever comes first, from one kink to the next, of which there are few.

    A state is a worth, its mean and the number of kinks below. Where the mean comes to bend more
    than the band, or less, it ends too.
    """
    v, mean, near = state
    up = to > v
    end, rate, near = _stretch(v, up, near, mine, cell, cells)
    firmly = rate > fall
    while True:
        stop = to if (to < end) == up else end
        if rate > 0.0:
            reach = v + (wanted - mean) / rate
            if (reach < stop) == up and reach != stop:
                return reach, wanted, near
        if np.isinf(stop):
            return v, mean, near
        v, mean = stop, mean + (stop - v) * rate
        if v == to:
            return v, mean, near
        end, rate, near = _stretch(v, up, near, mine, cell, cells)
        if (rate > fall) != firmly:
            return v, mean, near


@compiled
def _moved(
    change: float, facts: Any, band: Any, at: float, state: Any, mine: Any, cell: int, cells: Any
) -> tuple[float, float, int]:
    """Give the state after a change to first order: of the mean and the place in the band the one that bends more is exact."""
    width, soft = band
    v, mean, _ = state
    place, fall, bend = facts
    far = np.inf if change > 0.0 else -np.inf
    if fall < bend:
        wanted = at + min(max(place - fall * change, 0.0), width)
        # No worth is so low that a mean is below 0.
        return (
            _walked(far, wanted, fall, state, mine, cell, cells)
            if wanted > 0.0
            else _walked(v + change, far, fall, state, mine, cell, cells)
        )
    part = (mean + bend * change - at) / width
    if part > 0.0 and part < 1.0:
        ratio = 1.0 / part - 1.0
        to = 0.5 * soft * (ratio - 1.0 / ratio)
        if (to > v) == (change > 0.0):
            return _walked(to, far, fall, state, mine, cell, cells)
    return _walked(v + change, far, fall, state, mine, cell, cells)


@compiled
def _soft_worth(
    at: float, band: Any, state: Any, mine: Any, cell: int, cells: Any
) -> tuple[Any, float]:
    """Newton's method, between bounds, for the worth at which the mean is its place in the band above ``at``; with its slope."""
    width, soft = band
    low, high, rate = -np.inf, np.inf, 1.0
    for _ in range(60):
        v, mean, near = state
        place, fall = _inside(v, width, soft)
        off = mean - place - at
        if off > 0.0:
            high = v
        else:
            low = v
        end, bend, near = _stretch(v, off < 0.0, near, mine, cell, cells)
        rate = bend + fall
        change = -off / rate
        if not abs(v + change) < _FARTHEST:  # a mean that only a price beyond all others would have
            return (v, mean, near), 1.0 / max(rate, 1.0 / _FARTHEST)
        if abs(change) <= min(_CLOSE * max(abs(v), soft), abs(end - v)):
            return (v + change, mean + bend * change, near), 1.0 / rate
        new = _moved(change, (place, fall, bend), band, at, state, mine, cell, cells)
        if not (new[0] > low and new[0] < high):
            to = v + change if np.isinf(high - low) else 0.5 * (low + high)
            new = _walked(to, np.inf if to > v else -np.inf, fall, state, mine, cell, cells)
        state = new
    return state, 1.0 / rate


@compiled
def _one_by_one(
    at: float, band: Any, ends: Any, mine: Any, share: Array, cells: Any, room: Any
) -> float:
    """Find the worth of a class in each cell by itself, for one level after the other, between bounds."""
    v, own, most, level = mine
    means, nears, rates = room
    low, high = ends
    at = at if at > low and at < high else 0.5 * (low + high)
    total, rise = 0.0, 0.0
    for cell in range(len(v)):
        own_row = (own[cell], most, level[cell])
        means[cell], nears[cell] = _mean(v[cell], own_row, cell, cells)
        place, fall = _inside(v[cell], band[0], band[1])
        off = means[cell] - place - at
        rate = 1.0 / (_stretch(v[cell], off < 0.0, nears[cell], own_row, cell, cells)[1] + fall)
        total += share[cell] * (v[cell] - off * rate)
        rise += share[cell] * rate
    # The prices are guesses of their own, better than the one of the level: to first order they
    # tell where it balances.
    if low < at - total / rise < high:
        at -= total / rise
    below, above, side, last = 0.0, 0.0, 0, np.inf
    excess, rise = 0.0, 1.0
    for count in range(80):
        excess, size, rise = 0.0, 0.0, 0.0
        for cell in range(len(v)):
            state = (v[cell], means[cell], nears[cell])
            (v[cell], means[cell], nears[cell]), rates[cell] = _soft_worth(
                at, band, state, (own[cell], most, level[cell]), cell, cells
            )
            excess += share[cell] * v[cell]
            size += share[cell] * abs(v[cell])
            rise += share[cell] * rates[cell]
        if abs(excess) <= _PRECISE * size:
            at -= excess / rise
            break
        if excess > 0.0:
            below *= 0.5 if side > 0 else 1.0
            high, above, side = at, excess, 1
        else:
            above *= 0.5 if side < 0 else 1.0
            low, below, side = at, excess, -1
        # Where cells keep their means over a stretch of prices the balance all but jumps, and a
        # slope tells little about it.
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
    # Levels have no more digits where bands all but give no more; the rest goes to the prices that
    # nothing holds.
    for cell in range(len(v)):
        v[cell] -= excess / rise * rates[cell]
    return at


@compiled
def _balance_softly(
    some: Any,
    level: Array,
    weight: Array,
    share: Array,
    lam: float,
    epsilon: Array,
    soft: float,
    cells: Any,
    levels: Array,
    worth: Array,
) -> None:
    n_cells = len(level)
    kinks, amount, slope = cells
    room = np.empty(n_cells), np.empty(n_cells, np.int64), np.empty(n_cells)
    most, unpriced = min(lam, 1.0), np.empty(n_cells)
    for cell in range(n_cells):
        unpriced[cell] = _at(0.0, kinks[cell], amount[cell], slope[cell])
    for k in range(some[0], some[1]):
        if not np.isfinite(epsilon[k]):
            continue
        width = epsilon[k] * lam
        v, own, t = worth[:, k].copy(), weight[:, k].copy(), level[:, k].copy()
        low, high = np.inf, -np.inf
        for cell in range(n_cells):
            found = unpriced[cell] + own[cell] * min(max(1.0 - t[cell], 0.0), most)
            low, high = min(low, found - width), max(high, found)
        levels[k] = _one_by_one(
            levels[k], (width, soft), (low, high), (v, own, most, t), share, cells, room
        )
        worth[:, k] = v


def balanced_softly(
    level: Array,
    weight: Array,
    share: Array,
    lam: float,
    epsilon: Array,
    guess: Array,
    worth: Array,
    soft: float,
) -> tuple[Array, Array]:
    """Give the best worth of every class for given thresholds, and its levels, from guesses of both; every band is open or absent."""
    worth, levels = np.where(np.isfinite(epsilon), worth, 0.0), np.array(guess, np.float64)
    cells = received(level, weight)

    def work(some: slice) -> None:
        _balance_softly(
            (some.start, some.stop), level, weight, share, lam, epsilon, soft, cells, levels, worth
        )

    spread_out(work, len(levels), level.size)
    return worth, levels


def _places(worth: Array, epsilon: Array, soft: float) -> tuple[Array, Array, Array, Array]:
    u = worth / soft
    root = np.sqrt(1.0 + u * u)
    sum_ = np.where(u >= 0, u + root, 1.0 / (root - u))
    width = np.where(np.isfinite(epsilon), epsilon, 0.0)
    return width, width / (1.0 + sum_), sum_, root


def places(worth: Array, epsilon: Array, soft: float) -> tuple[Array, Array]:
    """Give the places in the band, and what the prices cost up to a constant."""
    width, place, sum_, _ = _places(worth, epsilon, soft)
    # The place is the best one for these prices, with a logarithm that keeps it off both sides.
    cost = -worth * place + 0.5 * width * soft * (np.log(sum_) - 2.0 * np.log1p(sum_))
    return place, np.where(width > 0.0, cost, 0.0)


def falls(worth: Array, epsilon: Array, soft: float) -> Array:
    """Give how fast the places in the band fall with the worth."""
    _, place, sum_, root = _places(worth, epsilon, soft)
    return np.asarray(place / (1.0 + sum_) * sum_ / (root * soft))
