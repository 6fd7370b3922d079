r"""Optimised score transformation (Wei, Ramamurthy and Calmon) under mean score parity, solved exactly for known groups.

For scores r of one class the method looks for r' that maximise ``E[r log r' + (1 - r) log(1 - r')]`` while every group mean stays within
``epsilon`` of the overall mean. One price ``mu`` per group decides r' in closed form; the prices are roots of monotone functions.

The solver, for groups of shares w_s with means ``m_s = M_s(mu_s) = E_s[r*(mu_s)]``. Let ``V_s(m)`` be the best objective of a group whose
mean is m: it is concave with derivative ``mu_s(m)``, the inverse of ``M_s``. What is left is ``max sum_s w_s V_s(m_s)`` over
``|m_s - c| <= epsilon`` and ``sum_s w_s m_s = c``. For a fixed overall mean c, with eta the multiplier of the latter,
``mu_s = clip(eta, mu_s(c + epsilon), mu_s(c - epsilon))``, and eta is the root of ``sum_s w_s M_s(mu_s) = c``. The value is concave in c,
with derivative ``sum_s w_s mu_s``, so that the outer root ``sum_s w_s mu_s = 0`` ends the search. At ``epsilon = 0`` eta plays no part. The
dual of the method, ``min sum_s w_s E_s[g(mu_s; r)] + epsilon sum_s |lambda_s|``, has ``lambda_s = w_s (mu_s - eta)``: a zero gap to it is
what the tests ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2b._constraints.parity import RangeBound
from r2b._constraints.parity.bounds import refuse_percentages
from r2b._data.merge import Rows
from r2b.errors import LengthError, ParameterError, ProbabilityError, WeightError
from r2b.methods.base import LabelMethod

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]

_ROUNDING = float(np.finfo(np.float64).eps)
_NEWTON_STEPS = 200  # a bound for bisection alone; Newton's steps need about five
_ROOT_STEPS = 2_400  # every other step halves the bracket, so that neighbouring numbers are reached from any finite bracket


class ScoreFit(NamedTuple):
    """What :func:`fit_scores` found.

    Attributes
    ----------
    prices : ndarray of shape (n_groups,)
        The price mu of each group; weighted by the shares of the groups they sum to 0.
    targets : ndarray of shape (n_groups,)
        The mean score of each group after the transformation: all equal where epsilon is 0. NaN for a group without weight.
    """

    prices: Floats
    targets: Floats


def transform_scores(scores: Any, mu: Any) -> Floats:
    r"""Give the transformed scores, the root in [0, 1] of ``mu r'^2 - (1 + mu) r' + r = 0``.

    It is written without a difference of like numbers, so that it holds at ``mu = 0``, at scores of 0 and 1 and for any size of mu.

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
    return _response(np.asarray(scores, dtype=np.float64), np.asarray(mu, dtype=np.float64))[0]


def _response(scores: Floats, mu: Floats) -> tuple[Floats, Floats]:
    # The discriminant (1 + mu)^2 - 4 mu r is (1 - |mu|)^2 + 4 |mu| q with q = 1 - r or r by the sign of mu: a sum of squares.
    size = np.abs(mu)
    root = np.hypot(1 - size, 2 * np.sqrt(size * np.where(mu > 0, 1 - scores, scores)))
    ahead = 1 + mu
    # Each of the two forms of the root adds where the other subtracts. At mu = -1 and r = 0 the first is 0 / 0, and 0 is meant.
    below, above = ahead + root, 2 * mu
    out = np.where(ahead >= 0, 2 * scores, ahead - root) / np.where(ahead >= 0, np.where(below > 0, below, 1.0), above)
    return np.clip(out, 0.0, 1.0), root


@dataclass(frozen=True, eq=False)
class _Groups:
    """The scores of one class; weights sum to 1 in each group, shares over the groups."""

    score: Floats
    group: Array
    weight: Floats
    share: Floats

    @classmethod
    def build(cls, scores: Floats, groups: Array, n_groups: int, weight: Floats) -> _Groups:
        # Scores of 0 and 1 collapse to two rows per group: on class labels nothing else is left.
        kinds = [scores == 1, scores == 0]
        sums = [np.bincount(groups[kind], weight[kind], minlength=n_groups) for kind in kinds]
        between = ~(kinds[0] | kinds[1]) & (weight > 0)
        score = np.concatenate([np.ones(n_groups), np.zeros(n_groups), scores[between]])
        group = np.concatenate([np.arange(n_groups), np.arange(n_groups), groups[between].astype(np.intp)])
        mass = np.concatenate([*sums, weight[between]])
        total = np.bincount(group, mass, minlength=n_groups)
        return cls(score, group, mass / total[group], total / total.sum())

    @cached_property
    def rate(self) -> Floats:
        """The mean score of each group, before any change."""
        return np.minimum(self._sum(self.score), 1.0)

    def _sum(self, values: Floats) -> Floats:
        total: Floats = np.bincount(self.group, self.weight * values, minlength=len(self.share)).astype(np.float64)
        return total

    def means(self, prices: Floats) -> Floats:
        """Give the mean transformed score of each group."""
        return np.minimum(self._sum(_response(self.score, prices[self.group])[0]), 1.0)

    def slopes(self, prices: Floats) -> tuple[Floats, Floats]:
        """Give the means and their derivatives, from ``dr'/dmu = -r' (1 - r') / sqrt(discriminant)``."""
        new, root = _response(self.score, prices[self.group])
        slope = new * (1 - new) / np.where(root > 0, root, np.inf)  # a kink of class labels: its flat side, so that a bisection follows
        return np.minimum(self._sum(new), 1.0), -self._sum(slope)

    def prices_at(self, target: float) -> Floats:
        """Solve ``M_s(mu) = target`` for every group, for a target strictly between 0 and 1.

        The price lies between 0 and ``p / target`` (``-(1 - p) / (1 - target)`` where the mean p has to grow), and is the far end on class
        labels. Newton's step is taken on ``1 / M``, which is straight there, and a bisection where the step leaves the bracket.
        """
        down = self.rate > target
        far = np.where(down, self.rate / target, (self.rate - 1) / (1 - target))
        prices = np.where(self.rate == target, 0.0, far)
        low, high = np.minimum(prices, 0.0), np.maximum(prices, 0.0)
        for _ in range(_NEWTON_STEPS):
            mean, slope = self.slopes(prices)
            excess = mean - target
            low, high = np.where(excess >= 0, prices, low), np.where(excess <= 0, prices, high)
            bend = np.where(down, mean / target, (1 - mean) / (1 - target))
            step = prices - bend * excess / np.where(slope < 0, slope, np.nan)
            middle = (low + high) / 2
            done = (np.abs(excess) <= 2 * _ROUNDING * np.minimum(mean, target)) | (middle <= low) | (middle >= high)
            done |= np.abs(step - prices) <= 2 * _ROUNDING * np.abs(prices)
            if done.all():
                break
            inside = (step > low) & (step < high)
            prices = np.where(done, prices, np.where(inside, step, middle))
        return prices


def _root(function: Callable[[float], tuple[float, Floats]], low: float, high: float, tolerance: float) -> Floats:
    """Give the prices at the root of a decreasing function of one number, which comes with a vector of prices.

    The bracket closes by turns with the secant and in the middle. Where the function jumps over 0, as it does on class labels, the bracket
    ends as two neighbouring numbers, and the prices are mixed so that 0 is met: a mean, monotone in its price, stays between the two.
    """
    (above, first), (below, second) = function(low), function(high)
    for step in range(_ROOT_STEPS):
        if above <= tolerance:
            return first
        if below >= -tolerance:
            return second
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        secant = low + (high - low) * above / (above - below)
        point = secant if step % 2 == 0 and low < secant < high else middle
        value, prices = function(point)
        if value >= 0:
            low, above, first = point, value, prices
        else:
            high, below, second = point, value, prices
    return first + (second - first) * (above / (above - below))


def _equal_means(rows: _Groups) -> Floats:
    def at(center: float) -> tuple[float, Floats]:
        prices = rows.prices_at(center)
        return float(rows.share @ prices), prices

    return _root(at, *_inside(float(rows.rate.min()), float(rows.rate.max())), _ROUNDING)


def _bounded_means(rows: _Groups, epsilon: float) -> Floats:
    share = rows.share

    def at(center: float) -> tuple[float, Floats]:
        # A bound outside of (0, 1) is none: means stay inside by themselves.
        least = rows.prices_at(center + epsilon) if center + epsilon < 1 else np.full(len(share), -np.inf)
        most = rows.prices_at(center - epsilon) if center - epsilon > 0 else np.full(len(share), np.inf)
        even = rows.prices_at(center)  # at its extremes all means lie on one side of the center

        def given(eta: float) -> tuple[float, Floats]:
            prices = np.clip(eta, least, most)
            return float(share @ rows.means(prices)) - center, prices

        prices = _root(given, float(even.min()), float(even.max()), _ROUNDING * center)
        return float(share @ prices), prices

    return _root(at, *_inside(float(rows.rate.min()), float(rows.rate.max())), _ROUNDING)


def _inside(low: float, high: float) -> tuple[float, float]:
    # Targets of 0 and 1 have no finite price; the best common mean is strictly inside as soon as one score is.
    return max(low, 1e-300), min(high, 1 - _ROUNDING)


def fit_scores(scores: Any, groups: Any, n_groups: int, weight: Any = None, epsilon: float = 0.0) -> ScoreFit:
    """Find the prices of mean score parity for one class: ``|E[R' | group] - E[R']| <= epsilon`` at the least loss of likelihood.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Probabilities in [0, 1].
    groups : array-like of shape (n,)
        Codes 0 to ``n_groups - 1``.
    n_groups : int
    weight : array-like of shape (n,), optional
        A group without weight takes no part and has price 0.
    epsilon : float, default 0
        The largest distance of a group mean from the overall mean of the transformed scores.

    Returns
    -------
    ScoreFit
        ``prices`` for :func:`transform_scores` and the ``targets`` that the group means become.

    Raises
    ------
    ParameterError, LengthError, ProbabilityError, WeightError

    Examples
    --------
    >>> prices, targets = fit_scores([1, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1], 2)
    >>> prices.round(3), targets.round(3)
    (array([-2.,  1.]), array([0.75, 0.75]))
    """
    epsilon = _checked_epsilon(epsilon)
    score, group = np.asarray(scores, dtype=np.float64), np.asarray(groups)
    mass = np.ones(len(score)) if weight is None else np.asarray(weight, dtype=np.float64)
    _refuse(score, group, mass)
    present = np.bincount(group, mass, minlength=n_groups) > 0
    prices, targets = np.zeros(n_groups), np.full(n_groups, np.nan)
    kept = present[group]
    place = np.cumsum(present) - 1
    rows = _Groups.build(score[kept], place[group[kept]], int(present.sum()), mass[kept])
    prices[present] = found = _solve(rows, epsilon)
    targets[present] = rows.means(found)
    return ScoreFit(prices, targets)


def _solve(rows: _Groups, epsilon: float) -> Floats:
    rate = rows.rate
    if np.abs(rate - rows.share @ rate).max() <= epsilon or rate.min() == rate.max():
        return np.zeros(len(rate))  # met as it is; this includes a class that no row has, or all have
    return _bounded_means(rows, epsilon) if epsilon > 0 else _equal_means(rows)


def _checked_epsilon(epsilon: float) -> float:
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float, np.integer, np.floating)) or not epsilon >= 0:
        raise ParameterError(f"The argument epsilon is {epsilon!r}.", remedy="Pass a number of 0 or more.", epsilon=epsilon)
    refuse_percentages("epsilon", epsilon, 1.0)
    return float(epsilon)


def _refuse(score: Floats, group: Array, mass: Floats) -> None:
    if not score.shape == group.shape == mass.shape or score.ndim != 1:
        shapes = (score.shape, group.shape, mass.shape)
        raise LengthError(
            f"Scores, groups and weights have the shapes {shapes}.", remedy="Pass three columns of one length.", shapes=shapes
        )
    if not ((score >= 0) & (score <= 1)).all():
        row = int(np.argmin((score >= 0) & (score <= 1)))
        raise ProbabilityError(f"Score {row} is {score[row]}.", remedy="Pass probabilities between 0 and 1.", row=row, value=score[row])
    if not (np.isfinite(mass) & (mass >= 0)).all() or not mass.any():
        raise WeightError("Weights are negative, not finite or all 0.", remedy="Pass finite weights of 0 or more, and one above 0.")


class OST(LabelMethod):
    """Optimised score transformation of every class on its own, then rows divided by their sum.

    Before that division the mean of every class is the same in all groups (to ``epsilon``); the division brings some of the difference
    back, since the classes were solved without knowing of each other. This is the method as the paper compares with it.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        The largest distance of a group mean from the overall mean, per class, before rows are divided by their sum.

    Attributes
    ----------
    prices_ : ndarray of shape (n_groups, n_classes)
        The price of each group for each class, see :func:`transform_scores`.
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

    name: ClassVar[str] = "OST"
    prices_: Floats
    targets_: Floats

    def __init__(self, epsilon: float | ArrayLike | Mapping[Any, float] = 0.0) -> None:
        self.epsilon = epsilon

    def _learn(self, rows: Rows) -> None:
        epsilon = RangeBound.of(self.epsilon, rows.n_classes, rows.class_names, largest=1.0).epsilon
        fits = [fit_scores(rows.labels[:, k], rows.groups, rows.n_groups, rows.weight, epsilon[k]) for k in range(rows.n_classes)]
        self.prices_ = np.stack([fit.prices for fit in fits], axis=1)
        self.targets_ = np.stack([fit.targets for fit in fits], axis=1)

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        new = transform_scores(labels, self.prices_[groups])
        total = new.sum(axis=1, keepdims=True)
        # A positive score keeps a positive image, so a sum of 0 can only come from underflow; such a row is left as it was.
        return np.where(total > 0, new / np.where(total > 0, total, 1.0), labels)
