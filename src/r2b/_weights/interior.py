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
from r2b._solve.settings import SETTINGS
from r2b._weights.limits import sides_of
from r2b._weights.rows import WeightOracle

LARGEST = 2_000  # rows: a step solves for all of them
_SOFT = 1e-12  # of levels, which cost nothing, and of prices that differ in nothing
_REFINED = 1e-3  # part of the slope that the last step leaves
_ENOUGH = 1e-16  # mean product of slacks and duals
_LOST = 1e4  # times the least error, where rounding has taken over


def interior_prices(oracle: WeightOracle, parity: Parity) -> Floats:
    """Return nearly optimal prices of a problem that has a solution."""
    sides, n = sides_of(oracle, parity), len(oracle.block)
    n_x, n_sides, n_groups = len(sides.least), len(sides.entries), len(sides.totals)
    # every factor times the root of its weight, so that rows of small weight keep their digits
    root = np.append(np.sqrt(oracle.block.weights / oracle.total_weight), np.ones(n_x - n))
    left, square = sides.left / root, (np.arange(n_x) < n).astype(np.float64)
    fixed, free = np.flatnonzero(sides.fixed), np.flatnonzero(np.tile(~sides.fixed, 2))
    equal = np.concatenate([sides.totals / root, left[fixed]])
    equal_to = np.append(np.ones(n_groups), sides.right[fixed])
    unit, capped, floored = np.eye(n_x), np.isfinite(sides.most), np.isfinite(sides.least)
    limits = np.vstack([left[free], unit[capped], -unit[floored]])
    right = np.concatenate(
        [sides.right[free], (root * sides.most)[capped], -(root * sides.least)[floored]]
    )
    x = min(1.0, 0.5 * oracle.largest) * square * root
    y, z, s = np.zeros(len(equal)), np.ones(len(right)), np.maximum(right - limits @ x, 1.0)
    least, best = np.inf, (y, z)
    for _ in range(SETTINGS.interior_steps):
        slope = square * (x - root) + equal.T @ y + limits.T @ z
        apart, off = equal @ x - equal_to, limits @ x + s - right
        product = float(s @ z) / len(s)
        # the slope only counts a little: Newton's method follows
        unmet = (_REFINED * slope, apart, off)
        error = max(product, *(float(np.abs(each).max()) for each in unmet))
        if error < least:
            least, best = error, (y, z)
        if product <= _ENOUGH or not error <= _LOST * least:
            break
        inner = np.diag(square + _SOFT) + limits.T @ ((z / s)[:, None] * limits)
        system = lu_factor(np.block([[inner, equal.T], [equal, -_SOFT * np.eye(len(y))]]))
        products = s * z
        for part in (1.0, SETTINGS.to_boundary):
            pushed = (z * off - products) / s
            found = lu_solve(system, np.append(-slope - limits.T @ pushed, -apart))
            moved = limits @ found[:n_x]
            ds, dz = -off - moved, pushed + z / s * moved
            value, change = np.append(s, z), np.append(ds, dz)
            falls = change < 0  # until one of them is 0; at most a whole step
            ratios = value[falls] / -change[falls]
            length = part * min(1.0, float(ratios.min(initial=np.inf)))
            centre = float((s + length * ds) @ (z + length * dz)) / len(s)
            products = s * z + ds * dz - min(1.0, centre / product) ** 3 * product
        x, y = x + length * found[:n_x], y + length * found[n_x:]
        s, z = s + length * ds, z + length * dz
    y, z = best
    duals = np.zeros(2 * n_sides)
    duals[free], duals[fixed] = z[: len(free)], y[n_groups:]
    prices = np.zeros((n_groups, (n_x - n) // len(parity.members)))
    prices[tuple(sides.entries.T)] = duals[:n_sides] - duals[n_sides:]
    prices[:, -1] = y[:n_groups]
    return parity.settle(prices / parity.share[:, None])
