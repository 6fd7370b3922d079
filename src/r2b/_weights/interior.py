"""A primal-dual interior-point method (Mehrotra) for weights where Newton's method does not end.

Near what weights can reach at all, prices are huge and rows between their limits are few, so that
Newton's steps are short. The steps here are as long there as elsewhere, and its prices start
Newton's method anew.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._weights.limits import sides_of
from r2b._weights.rows import WeightOracle

LARGEST = 2_000  # rows: a step solves for all of them
_STEPS = 100
_SOFT = 1e-12  # of levels, which cost nothing, and of prices that differ in nothing
_TO_BOUNDARY = 0.99
_ENOUGH = 1e-16  # mean product of slacks and duals, beyond which rounding grows


def interior_prices(oracle: WeightOracle, parity: Parity) -> Floats:
    """Return nearly optimal prices of a problem that has a solution."""
    sides, n = sides_of(oracle, parity), len(oracle.block)
    n_x, totals = len(sides.least), sides.totals
    share = oracle.block.weights / oracle.total_weight
    square = np.diag(np.append(share, np.zeros(n_x - n)))
    unit = np.eye(n_x)
    capped = np.flatnonzero(np.isfinite(sides.most))
    floored = np.flatnonzero(np.isfinite(sides.least))
    limits = np.vstack([sides.left.toarray(), unit[capped], -unit[floored]])
    right = np.concatenate([sides.right, sides.most[capped], -sides.least[floored]])
    x = np.append(np.full(n, min(1.0, 0.5 * oracle.largest)), np.zeros(n_x - n))
    y, z = np.zeros(len(totals)), np.ones(len(right))
    s = np.maximum(right - limits @ x, 1.0)
    cost = -np.append(share, np.zeros(n_x - n))
    best: tuple[float, int, Floats, Floats] = (np.inf, -1, y, z)
    for step in range(_STEPS):
        slope = square @ x + cost + totals.T @ y + limits.T @ z
        apart, off, product = totals @ x - 1.0, limits @ x + s - right, float(s @ z) / len(s)
        error = max(product, *(np.abs(each).max() for each in (slope, apart, off)))
        best = min(best, (error, step, y, z))
        if product <= _ENOUGH:
            break
        inner = square + limits.T @ ((z / s)[:, None] * limits) + _SOFT * unit
        system = lu_factor(np.block([[inner, totals.T], [totals, -_SOFT * np.eye(len(y))]]))
        products = s * z
        for part in (1.0, _TO_BOUNDARY):
            pushed = (z * off - products) / s
            found = lu_solve(system, np.append(-slope - limits.T @ pushed, -apart))
            moved = limits @ found[:n_x]
            ds, dz = -off - moved, pushed + z / s * moved
            length = part * _length(s, ds, z, dz)
            centre = float((s + length * ds) @ (z + length * dz)) / len(s)
            products = s * z + ds * dz - (centre / product) ** 3 * product
        x, y = x + length * found[:n_x], y + length * found[n_x:]
        s, z = s + length * ds, z + length * dz
    prices = np.zeros((parity.n_groups, (n_x - n) // len(parity.members)))
    *_, prices[:, -1], duals = best
    high, low = duals[: len(sides.right)].reshape(2, -1)
    np.add.at(prices, tuple(sides.entries.T), high - low)
    return parity.settle(prices / parity.share[:, None])


def _length(s: Floats, ds: Floats, z: Floats, dz: Floats) -> float:
    """Return how far slacks and duals can go before one of them is 0; at most 1."""
    value, slope = np.append(s, z), np.append(ds, dz)
    falls = slope < 0
    return min(1.0, float((value[falls] / -slope[falls]).min(initial=np.inf)))
