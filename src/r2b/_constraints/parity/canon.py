"""Of the prices that buy the same labels at the same cost, one that does not depend on where an iteration happened to end.

A constant c_s added to all prices of group s changes no label. With the balance ``sum_s W_s c_s = 0`` it is free where it leaves
``sum_s W_s sum_k eps_k / 2 |nu_sk + c_s|`` as it is: each group may move as long as its slope, the sum of the signs of its prices times
eps / 2, is the one that all groups share. Of these moves the one is taken that brings the means of the prices nearest to 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ZERO = 1e-11  # prices below this, which are units of labels, are none
_SAME = 1e-12  # slopes are sums of eps / 2


def centred(prices: Floats, epsilon: Floats, share: Floats) -> Floats:
    """Give the prices with the means nearest to 0 among those that are as good.

    Parameters
    ----------
    prices : ndarray of shape (n_groups, n_classes)
        Optimal for a range, with ``sum_s W_s nu_sk = 0`` for every class.
    epsilon : ndarray of shape (n_classes,)
    share : ndarray of shape (n_groups,)

    Examples
    --------
    >>> centred(np.array([[0.5, 0.3], [-0.5, -0.3]]), np.zeros(2), np.array([0.5, 0.5])).round(3)
    array([[ 0.1, -0.1],
           [-0.1,  0.1]])
    """
    if not np.isfinite(epsilon).all():  # a class that is free has no price, and a constant would give it one
        return prices
    half = 0.5 * epsilon
    left = np.where(prices > _ZERO, 1.0, -1.0) @ half
    right = np.where(prices < -_ZERO, -1.0, 1.0) @ half
    flat = np.flatnonzero(np.abs(right - left) <= _SAME)
    if not len(flat):
        return prices  # every group sits on a corner: the prices are the only ones
    slope = left[flat[0]]
    breaks = np.where(epsilon > 0, -prices, np.nan)  # the constant at which a price changes its sign
    lowest = np.where(breaks < -_ZERO, breaks, -np.inf).max(axis=1, initial=-np.inf)
    highest = np.where(breaks > _ZERO, breaks, np.inf).min(axis=1, initial=np.inf)
    lowest = np.where(np.abs(left - slope) <= _SAME, lowest, 0.0)
    highest = np.where(np.abs(right - slope) <= _SAME, highest, 0.0)
    return np.asarray(prices + _moves(prices.mean(axis=1), lowest, highest, share)[:, None])


def _moves(means: Floats, lowest: Floats, highest: Floats, share: Floats) -> Floats:
    """Give moves within their limits, balanced, that bring the means nearest to a common level of 0: ``clip(level - mean)``."""

    def at(level: float) -> Floats:
        return np.clip(level - means, lowest, highest)

    # The balance grows with the level and is piecewise linear: between two of its corners a line tells the root.
    corners = np.concatenate([means + lowest, means + highest])
    corners = np.unique(np.concatenate([corners[np.isfinite(corners)], means, [0.0]]))
    balance = np.array([float(share @ at(level)) for level in corners])
    after = int(np.searchsorted(balance, 0.0))
    if after == 0 or after == len(corners):
        edge = corners[0] if after == 0 else corners[-1]
        moving = share[(at(edge) > lowest) & (at(edge) < highest)].sum() if np.isfinite(edge) else 0.0
        outside = share[np.isinf(lowest if after == 0 else highest)].sum()
        pace = float(max(moving, outside))
        level = edge - float(share @ at(edge)) / pace if pace > 0 else edge
        return at(level)
    low, high = corners[after - 1], corners[after]
    span = balance[after] - balance[after - 1]
    return at(low + (high - low) * (0.0 - balance[after - 1]) / span if span > 0 else high)


def within_reach(prices: Floats, epsilon: Floats, reach: float) -> Floats:
    """Bring prices near a target down to what a row could pay: beyond it they change no label, and cost the labels their digits.

    A class whose price is more than ``reach`` above the least of its group is in the label of no row. Lowering it down to there, but not
    below 0, changes no label and makes no bound worse. Where every epsilon is 0, a constant per group is free as well.

    Parameters
    ----------
    prices : ndarray of shape (n_groups, n_classes)
        Optimal for a target, the groups being the cells.
    epsilon : ndarray of shape (n_classes,)
    reach : float
        The largest difference of what two classes are worth to a row, and lambda.

    Examples
    --------
    >>> within_reach(np.array([[-1000.0, -1000.5, 1e6]]), np.zeros(3), 2.0)
    array([[-0.33333333, -0.83333333,  1.16666667]])
    """
    if not np.isfinite(epsilon).all():  # a class that is free has no price
        return prices
    most = prices.min(axis=1, keepdims=True) + reach
    if epsilon.any():
        return np.asarray(np.minimum(prices, np.maximum(most, 0.0)))
    lowered = np.minimum(prices, most)
    return np.asarray(lowered - lowered.mean(axis=1, keepdims=True))
