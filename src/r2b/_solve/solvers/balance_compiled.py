"""Prices class by class compiled by numba; same function as :mod:`r2b._solve.solvers.balance`."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.compute import compiled

Array = np.ndarray[Any, np.dtype[Any]]


@compiled
def _at(worth: float, kinks: Array, amount: Array, slope: Array) -> float:
    low, high = 0, kinks.size
    while low < high:
        middle = (low + high) // 2
        if kinks[middle] < worth:
            low = middle + 1
        else:
            high = middle
    value: float = amount[low - 1] + (worth - kinks[low - 1]) * slope[low] if low > 0 else 0.0
    return value


@compiled
def _inverse(wanted: float, extra: float, kinks: Array, amount: Array, slope: Array) -> float:
    """Worth v at which the received amount and ``extra * v`` add up to ``wanted``; the lowest one where nothing is added."""
    low, high = 0, kinks.size
    while low < high:
        middle = (low + high) // 2
        if amount[middle] + extra * kinks[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    worth: float = kinks[0]
    if low > 0:
        worth = (wanted - amount[low - 1] + kinks[low - 1] * slope[low]) / (slope[low] + extra)
        if extra == 0.0:
            worth = kinks[low - 1] + (wanted - amount[low - 1]) / slope[low]
    elif extra > 0.0:
        worth = wanted / extra
    return worth


@compiled
def _answer(wanted: float, own: float, most: float, level: float, facts: Array, kinks: Array, amount: Array, slope: Array) -> float:
    if own > 0.0 and facts[0] + most * own <= wanted:
        return _inverse(max(wanted - most * own, 0.0), 0.0, kinks, amount, slope)
    if own <= 0.0 or facts[1] >= wanted:
        worth = _inverse(wanted, 0.0, kinks, amount, slope)
        return min(worth, level - 1.0) if wanted <= 0.0 and own > 0.0 else worth
    return _inverse(wanted - own * (1.0 - level), own, kinks, amount, slope)


@compiled
def _worth_at(
    at: float,
    width: float,
    most: float,
    k: int,
    level: Array,
    weight: Array,
    facts: Array,
    kinks: Array,
    amount: Array,
    slope: Array,
    worth: Array,
) -> None:
    for cell in range(level.shape[0]):
        found = facts[2, cell]
        wanted = at if at > found else at + width
        if at > found or wanted < found:
            worth[cell, k] = _answer(wanted, weight[cell, k], most, level[cell, k], facts[:, cell], kinks[cell], amount[cell], slope[cell])
        else:
            worth[cell, k] = 0.0


@compiled
def _beside(
    width: float, most: float, k: int, weight: Array, facts: Array, low: float, high: float, beside: float, otherwise: float
) -> float:
    for less in (0.0, width):
        for cell in range(weight.shape[0]):
            stays = most * weight[cell, k] - less
            if facts[0, cell] == 0.0 and stays > 0.0 and stays > low and stays < high:
                probe = stays * (1.0 - beside)
                if not probe > low:
                    probe = stays * (1.0 + beside)
                if probe > low and probe < high:
                    return float(probe)
    return otherwise


@compiled
def _balance(
    level: Array,
    order: Array,
    weight: Array,
    share: Array,
    lam: float,
    epsilon: Array,
    levels: Array,
    worth: Array,
    precise: float,
    narrow: float,
    probes: int,
    beside: float,
) -> None:
    n_cells, n_classes = level.shape
    kinks, amount, slope = np.empty(level.shape), np.empty(level.shape), np.empty((n_cells, n_classes + 1))
    for cell in range(n_cells):
        slope[cell, 0] = 0.0
        for i in range(n_classes):
            j = order[cell, i]
            kinks[cell, i] = level[cell, j]
            slope[cell, i + 1] = slope[cell, i] + weight[cell, j]
            amount[cell, i] = amount[cell, i - 1] + slope[cell, i] * (kinks[cell, i] - kinks[cell, i - 1]) if i > 0 else 0.0
    first = np.empty(n_cells)
    most = min(lam, 1.0)
    facts = np.empty((3, n_cells))  # received where the own row keeps all and where it keeps nothing, and the mean without a price
    for k in range(n_classes):
        if not np.isfinite(epsilon[k]):
            continue
        low, high, width = np.inf, -np.inf, epsilon[k] * lam
        for cell in range(n_cells):
            t = level[cell, k]
            facts[0, cell] = _at(t - 1.0 + most, kinks[cell], amount[cell], slope[cell])
            facts[1, cell] = _at(t - 1.0, kinks[cell], amount[cell], slope[cell])
            facts[2, cell] = _at(0.0, kinks[cell], amount[cell], slope[cell]) + weight[cell, k] * min(max(1.0 - t, 0.0), most)
            low, high = min(low, facts[2, cell] - width), max(high, facts[2, cell])
        top = high
        at = levels[k] if levels[k] > low and levels[k] < high else 0.5 * (low + high)
        below, above, side, met = 0.0, 0.0, 0, False
        for count in range(100):
            levels[k] = at
            _worth_at(at, width, most, k, level, weight, facts, kinks, amount, slope, worth)
            excess, size = 0.0, 0.0
            for cell in range(n_cells):
                excess += share[cell] * worth[cell, k]
                size += share[cell] * abs(worth[cell, k])
            met = abs(excess) <= precise * size
            if met:
                break
            if excess > 0.0:
                below *= 0.5 if side > 0 else 1.0
                high, above, side = at, excess, 1
            else:
                above *= 0.5 if side < 0 else 1.0
                low, below, side = at, excess, -1
            at = 0.5 * (low + high)
            if below < 0.0 and above > 0.0 and count < 50:
                secant = (low * above - high * below) / (above - below)
                at = secant if secant > low and secant < high else at
            if count >= probes and count % 2 == 1:
                at = _beside(width, most, k, weight, facts, low, high, beside, at)
            if not (at > low and at < high and high - low > narrow * top):
                break
        if not met:
            # Between the two ends of a stretch over which a mean stays, as in the plain function.
            _worth_at(low, width, most, k, level, weight, facts, kinks, amount, slope, worth)
            first[:] = worth[:, k]
            _worth_at(high, width, most, k, level, weight, facts, kinks, amount, slope, worth)
            short, over = 0.0, 0.0
            for cell in range(n_cells):
                short += share[cell] * first[cell]
                over += share[cell] * worth[cell, k]
            part = min(max(-short / (over - short), 0.0), 1.0) if over > short else 0.5
            for cell in range(n_cells):
                worth[cell, k] = first[cell] + part * (worth[cell, k] - first[cell])


def balanced(level: Array, weight: Array, share: Array, lam: float, epsilon: Array, guess: Array) -> tuple[Array, Array]:
    """Give the best worth of every class for given thresholds, as :func:`r2b._solve.solvers.balance.balanced`."""
    from r2b._solve.solvers.balance import BALANCED, BESIDE, NARROW, PROBES

    worth, levels = np.zeros(level.shape), np.array(guess, np.float64)
    order = np.argsort(level, axis=1, kind="stable").astype(np.int64, copy=False)
    _balance(level, order, weight, share, lam, epsilon, levels, worth, BALANCED, NARROW, PROBES, BESIDE)
    return worth, levels
