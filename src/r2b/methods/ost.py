r"""Optimised score transformation (Wei, Ramamurthy and Calmon) under mean score parity.

For scores r of one class the method looks for r' that maximise ``E[r log r' + (1 - r) log(1 -
r')]`` while every group mean stays within ``epsilon`` of the overall mean. One price ``mu`` per
group decides r' in closed form; the prices are roots of monotone functions.

The solver, for groups of shares w_s with means ``m_s = M_s(mu_s) = E_s[r*(mu_s)]``. Let ``V_s(m)``
be the best objective of a group whose mean is m: it is concave with derivative ``mu_s(m)``, the
inverse of ``M_s``. What is left is ``max sum_s w_s V_s(m_s)`` over ``|m_s - c| <= epsilon`` and
``sum_s w_s m_s = c``. For a fixed overall mean c, with eta the multiplier of the latter, ``mu_s =
clip(eta, mu_s(c + epsilon), mu_s(c - epsilon))``, and eta is the root of ``sum_s w_s M_s(mu_s) =
c``. The value is concave in c, with derivative ``sum_s w_s mu_s``, so that the outer root ``sum_s
w_s mu_s = 0`` ends the search. At ``epsilon = 0`` eta plays no part. The dual of the method, ``min
sum_s w_s E_s[g(mu_s; r)] + epsilon sum_s |lambda_s|``, has ``lambda_s = w_s (mu_s - eta)``: a zero
gap to it is what the tests ask for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from r2b._constraints.epsilon import Epsilon
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, divided
from r2b.methods.base import LabelMethod
from r2b.methods.binary import GroupedRows, grouped_labels

_ROUNDING = float(np.finfo(np.float64).eps)


def transform_scores(scores: Any, mu: Any) -> Floats:
    r"""Return the transformed scores, the root in [0, 1] of ``mu r'^2 - (1 + mu) r' + r = 0``.

    It is written without a difference of like numbers, so that it holds at ``mu = 0``, at scores of
    0 and 1 and for any size of mu.

    Parameters
    ----------
    scores : array-like
        Probabilities r in [0, 1].
    mu : array-like
        Prices, of a shape that broadcasts with the scores. A positive price lowers scores.

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> transform_scores([0.0, 0.5, 1.0], 0.0)
    array([0. , 0.5, 1. ])
    >>> transform_scores([0.0, 1.0], 4.0), transform_scores([0.0, 1.0], -4.0)
    (array([0.  , 0.25]), array([0.75, 1.  ]))
    """
    scores, mu = np.asarray(scores, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    # The discriminant (1 + mu)^2 - 4 mu r is (1 - |mu|)^2 + 4 |mu| q with q = 1 - r or r by the
    # sign of mu: a sum of squares.
    size = np.abs(mu)
    root = np.hypot(1 - size, 2 * np.sqrt(size * np.where(mu > 0, 1 - scores, scores)))
    ahead = 1 + mu
    # Each of the two forms of the root adds where the other subtracts. At mu = -1 and r = 0 the
    # first is 0 / 0, and 0 is meant.
    below = np.where(ahead + root > 0, ahead + root, 1.0)
    found = np.where(ahead >= 0, 2 * scores, ahead - root) / np.where(ahead >= 0, below, 2 * mu)
    return np.asarray(np.clip(found, 0.0, 1.0))


def _price_at(score: Floats, share: Floats, target: float) -> float:
    """Return the price at which the scores of one group have a mean strictly between 0 and 1.

    It lies between 0 and ``p / target`` (``-(1 - p) / (1 - target)`` where the mean p has to grow),
    and is the far end on class labels.
    """

    def excess(mu: float) -> float:
        return float(share @ transform_scores(score, mu)) - target

    own = excess(0.0) + target
    if own == target:
        return 0.0
    far = own / target if own > target else (own - 1) / (1 - target)
    if excess(far) * (own - target) >= 0:
        return far
    return float(brentq(excess, 0.0, far, xtol=1e-300, rtol=4 * _ROUNDING))


def _root(
    function: Callable[[float], tuple[float, Floats]], low: float, high: float, tolerance: float
) -> Floats:
    """Return the prices at the root of a decreasing function of one number.

    Where the function jumps over 0, as it does on class labels, the prices on both sides of the
    jump are mixed so that 0 is met: a mean, monotone in its price, stays between the two.
    """
    (above, first), (below, second) = function(low), function(high)
    if above > tolerance and below < -tolerance:
        root = brentq(lambda at: function(at)[0], low, high, xtol=1e-300, rtol=4 * _ROUNDING)
        apart = 8 * _ROUNDING * abs(root)
        (above, first), (below, second) = function(root - apart), function(root + apart)
    if above <= tolerance:
        return first
    if below >= -tolerance:
        return second
    return first + (second - first) * (above / (above - below))


def fit_scores(score: Floats, rows: GroupedRows, epsilon: float = 0.0) -> tuple[Floats, Floats]:
    """Find the prices of mean score parity for one class at the least loss of likelihood.

    The bound is ``|E[R' | group] - E[R']| <= epsilon``.

    Parameters
    ----------
    score : ndarray of shape (n,)
        Probabilities in [0, 1], in the order of ``rows``.
    rows : GroupedRows
    epsilon : float, default 0
        The largest distance of a group mean from the overall mean of the transformed scores.

    Returns
    -------
    prices : ndarray of shape (n_groups,)
        The price mu of each group, for ``transform_scores``; weighted by the shares of the groups
        they sum to 0.
    targets : ndarray of shape (n_groups,)
        The mean score of each group after the transformation: all equal where epsilon is 0.

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([0, 0, 1, 1, 1, 1]), None, 2)
    >>> prices, targets = fit_scores(np.array([1.0, 0, 1, 1, 1, 0]), rows)
    >>> prices.round(3), targets.round(3)
    (array([-2.,  1.]), array([0.75, 0.75]))
    """
    share = rows.weight / rows.weight.sum()
    groups = [slice(*ends) for ends in itertools.pairwise(rows.start.tolist())]

    def means(prices: Floats) -> Floats:
        new = transform_scores(score, prices[rows.groups])
        return np.minimum(rows.means(new[:, None])[:, 0], 1.0)

    def prices_at(target: float) -> Floats:
        return np.array([_price_at(score[own], rows.share[own], target) for own in groups])

    rate = means(np.zeros(len(share)))
    if np.abs(rate - share @ rate).max() <= epsilon or rate.min() == rate.max():
        # met as it is; this includes a class that no row has, or all have
        return np.zeros(len(rate)), rate

    def at(center: float) -> tuple[float, Floats]:
        even = prices_at(center)  # at its extremes all means lie on one side of the center
        if epsilon == 0:
            return float(share @ even), even
        # A bound outside of (0, 1) is none: means stay inside by themselves.
        least = prices_at(center + epsilon) if center + epsilon < 1 else -np.inf
        most = prices_at(center - epsilon) if center - epsilon > 0 else np.inf

        def given(eta: float) -> tuple[float, Floats]:
            prices = np.broadcast_to(np.clip(eta, least, most), share.shape)
            return float(share @ means(prices)) - center, prices

        prices = _root(given, float(even.min()), float(even.max()), _ROUNDING * center)
        return float(share @ prices), prices

    # Targets of 0 and 1 have no finite price; the best common mean is strictly inside as soon as
    # one score is.
    low, high = max(float(rate.min()), 1e-300), min(float(rate.max()), 1 - _ROUNDING)
    prices = _root(at, low, high, _ROUNDING)
    return prices, means(prices)


class OST(LabelMethod):
    """Optimised score transformation of every class on its own, then rows divided by their sum.

    Before that division the mean of every class is the same in all groups (to ``epsilon``); the
    division brings some of the difference back, since the classes were solved without knowing of
    each other. This is the method as the paper compares with it.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        The largest distance of a group mean from the overall mean, per class, before rows are
        divided by their sum.

    Attributes
    ----------
    prices_ : ndarray of shape (n_groups, n_classes)
        The price of each group for each class, see ``transform_scores``.
    targets_ : ndarray of shape (n_groups, n_classes)
        The group means before rows are divided by their sum.

    Examples
    --------
    >>> y, sex = ["a", "b", "a", "a", "a", "b"], ["f", "f", "m", "m", "m", "m"]
    >>> OST().fit_transform(y, sensitive_features=sex).round(3)
    array([[1. , 0. ],
           [0.5, 0.5],
           [1. , 0. ],
           [1. , 0. ],
           [1. , 0. ],
           [0. , 1. ]])
    """

    def __init__(self, epsilon: Epsilon = 0.0) -> None:
        self.epsilon = epsilon

    def _learn(self, dataset: Dataset) -> None:
        rows, labels, bound = grouped_labels(dataset, self.epsilon)
        fits = [fit_scores(labels[:, k], rows, bound.epsilon[k]) for k in range(labels.shape[1])]
        self.prices_: Floats = np.stack([prices for prices, _ in fits], axis=1)
        self.targets_: Floats = np.stack([targets for _, targets in fits], axis=1)

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        # A positive score keeps a positive image, so a sum of 0 can only come from underflow; such
        # a row is left as it was.
        rows = transform_scores(labels, self.prices_[groups])
        return divided(rows, rows.sum(axis=1, keepdims=True), labels)
