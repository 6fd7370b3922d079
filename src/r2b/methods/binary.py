"""The exact binary step of Algorithm 1: a threshold per group and class, from breakpoints.

For each class: minimise ``sum_i w_i (gamma/2 h_i^2 - f_i h_i)`` over ``0 <= h <= 1`` under a bound
on the group means m_s of h. The answer is ``h_i = clip((f_i - t_s) / gamma, 0, 1)``, s being the
group of row i, so all there is to find is the thresholds t. The mean of a group falls with its
threshold along straight pieces between sorted breakpoints; the threshold of a mean is read off that
curve, never searched to a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from r2b._constraints.bounds import RangeBound
from r2b._constraints.epsilon import Epsilon, epsilon_per_class
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, Places
from r2b._data.merge import merge

# means in [0, 1] that differ by less are one: (m - epsilon) + epsilon must find m again
_ULPS = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows sorted by group, without those of weight 0, so that a group is a slice.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Which row of the table stands at each place.
    groups : ndarray of shape (n,)
        The group at each place, rising.
    share : ndarray of shape (n,)
        The weight of each row within its group; each group's add up to 1.
    start : ndarray of shape (n_groups + 1,)
        Where each group begins, and the end.
    weight : ndarray of shape (n_groups,)
        The weight of each group.
    """

    order: Places
    groups: Places
    share: Floats
    start: Places
    weight: Floats

    @classmethod
    def of(cls, groups: Array, weight: Floats | None, n_groups: int) -> Self:
        """Sort rows of groups 0..n_groups-1 with some weight; ``weight`` None means ones."""
        each = np.ones(len(groups)) if weight is None else np.asarray(weight, np.float64)
        order = np.argsort(groups, kind="stable")
        order = order[each[order] > 0]
        codes, each = groups[order].astype(np.intp), each[order]
        total: Floats = np.bincount(codes, each, minlength=n_groups).astype(np.float64)
        start = np.searchsorted(codes, np.arange(n_groups + 1))
        return cls(order, codes, each / total[codes], start, total)

    def means(self, values: Floats) -> Floats:
        """Return the group means (n_groups, L) of values (n, L) in this order."""
        return np.add.reduceat(values * self.share[:, None], self.start[:-1], axis=0)

    def overall(self, values: Floats) -> Floats:
        """Return the mean over all rows (L,) of values (n, L) in this order."""
        return np.asarray(self.weight @ self.means(values) / self.weight.sum())


def grouped_labels(dataset: Dataset, epsilon: Epsilon) -> tuple[GroupedRows, Floats, RangeBound]:
    """Return the distinct rows of a table by group, their labels (n, L), and the bound."""
    rows = merge(dataset)
    grouped = GroupedRows.of(rows.cells, rows.weight, rows.n_cells)
    labels: Floats = np.asarray(rows.labels, np.float64)[grouped.order]
    classes = dataset.labels.vocabulary.values.tolist()
    return grouped, labels, RangeBound(epsilon_per_class(epsilon, classes, largest=1.0))


def answer(scores: Floats, thresholds: Floats, gamma: float) -> Floats:
    """Return ``clip((scores - thresholds) / gamma, 0, 1)``, the rule of every binary method here.

    Examples
    --------
    >>> answer(np.array([0.0, 0.5, 1.0]), np.array(0.2), 0.5)
    array([0. , 0.6, 1. ])
    """
    h = scores - thresholds
    h /= gamma
    np.maximum(h, 0.0, out=h)
    np.minimum(h, 1.0, out=h)
    return h


def pinned_thresholds(
    rows: GroupedRows, scores: Floats, gamma: float, rho: Floats, epsilon: Floats
) -> Floats:
    """Return the thresholds of the published bound: ``|m_s - rho| <= epsilon / 2``.

    Parameters
    ----------
    rows : GroupedRows
    scores : ndarray of shape (n, L)
        f, in the order of ``rows``; classes are solved side by side.
    gamma : float
        Above 0.
    rho : ndarray of shape (L,)
        In [0, 1].
    epsilon : ndarray of shape (L,)

    Returns
    -------
    ndarray of shape (n_groups, L)
        0 where the group is inside the bound. Where several thresholds give the same answers, the
        one nearest 0.

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([0, 0, 1, 1]), None, 2)
    >>> scores = np.array([[1.0], [1.0], [1.0], [0.0]])
    >>> pinned_thresholds(rows, scores, 1.0, np.array([0.75]), np.array([0.0]))
    array([[ 0.25],
           [-0.5 ]])
    """
    half = 0.5 * np.minimum(epsilon, 2.0)
    bottom, top = np.clip(rho - half, 0.0, 1.0), np.clip(rho + half, 0.0, 1.0)
    least, most = _Curves.of(rows, scores, gamma).thresholds(np.stack([bottom, top])[:, None, :])
    found = np.minimum(most[0], 0.0) + np.maximum(least[1], 0.0)
    return _polished(rows, scores, gamma, found, bottom, top)


def free_thresholds(rows: GroupedRows, scores: Floats, gamma: float, epsilon: Floats) -> Floats:
    """Return the thresholds of Algorithm 1's bound ``max_s m_s - min_s m_s <= epsilon``.

    The common mean is left free.

    Group means go into a band ``[c, c + epsilon]``. The best c balances the prices, ``sum_s W_s t_s
    = 0``; that sum falls with c along straight pieces and jumps, whose ends are the means at
    breakpoints: these are sorted, halving finds the piece, a line gives the root.

    Parameters
    ----------
    rows, scores, gamma, epsilon
        As for :func:`pinned_thresholds`.

    Returns
    -------
    ndarray of shape (n_groups, L)

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([0, 0, 1, 1]), None, 2)
    >>> scores = np.array([[1.0], [1.0], [1.0], [0.0]])
    >>> thresholds = free_thresholds(rows, scores, 1.0, np.array([0.0]))
    >>> thresholds.round(3)
    array([[ 0.333],
           [-0.333]])
    >>> rows.means(answer(scores, thresholds[rows.groups], 1.0)).round(3)
    array([[0.667],
           [0.667]])
    """
    epsilon = np.minimum(epsilon, 1.0)
    found = np.zeros((len(rows.weight), scores.shape[1]))
    own = rows.means(answer(scores, np.zeros(()), gamma))
    unfair = np.ptp(own, axis=0) > epsilon
    if not unfair.any():
        return found
    chosen, bound = np.ascontiguousarray(scores[:, unfair]), epsilon[unfair]
    curves = _Curves.of(rows, chosen, gamma)
    level, thresholds = _balanced(curves, own[:, unfair], bound)
    found[:, unfair] = _polished(rows, chosen, gamma, thresholds, level, level + bound)
    return found


@dataclass(frozen=True, eq=False)
class _Curves:
    """Group means as functions of thresholds; group s has points ``start[s]:start[s+1]``.

    The first and the last point of a group are beyond all others by far: they stand for infinity,
    where the mean is 1 or 0.
    """

    knots: Floats  # (L, 2n + 2R) thresholds, rising within a group
    means: Floats  # (L, 2n + 2R) means there, falling from 1 to 0
    start: Places
    weight: Floats

    @classmethod
    def of(cls, rows: GroupedRows, scores: Floats, gamma: float) -> Self:
        largest = max(abs(float(scores.min()) - gamma), abs(float(scores.max()))) + gamma
        reach = 4.0 * largest * float(rows.weight.sum() / rows.weight.min())
        columns = np.ascontiguousarray(scores.T)
        curves = [
            _curve(columns[:, begin:end], rows.share[begin:end], gamma, reach)
            for begin, end in pairwise(rows.start)
        ]
        knots, means = (np.concatenate(each, axis=1) for each in zip(*curves, strict=True))
        return cls(knots, means, 2 * (rows.start + np.arange(len(rows.start))), rows.weight)

    def thresholds(self, means: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest threshold at which each group has ``means``."""
        wanted = np.broadcast_to(means, (2, len(self.weight), len(self.knots)))
        # Means above the wanted one come first, then those equal to it: (before, after) are the
        # ends of the equal ones.
        bounds = np.stack([wanted + _ULPS, wanted - _ULPS])
        before, after = ends = np.empty(bounds.shape, np.intp)
        for group, (begin, end) in enumerate(pairwise(self.start)):
            for column, rising in enumerate(self.means[:, begin:end][:, ::-1]):
                here = ..., group, column
                ends[here] = end - np.searchsorted(rising, bounds[here], side="right")
        columns = np.arange(len(self.knots))
        high, low = self.means[columns, before - 1], self.means[columns, before]
        left, right = self.knots[columns, before - 1], self.knots[columns, before]
        fall = np.where(high > low, high - low, 1.0)
        between = left + (high - wanted) / fall * (right - left)
        level = after > before
        last = self.knots[columns, after - 1]
        return np.where(level, right, between), np.where(level, last, between)


def _curve(scores: Floats, share: Floats, gamma: float, reach: float) -> tuple[Floats, Floats]:
    """Return thresholds (L, 2n + 2), sorted, and the means there, of one group's scores (L, n)."""
    breaks = np.concatenate([scores - gamma, scores], axis=1)
    order = np.argsort(breaks, axis=1, kind="stable")
    knots = np.take_along_axis(breaks, order, axis=1)
    # A row adds to the slope from f - gamma on, where it leaves 1, up to f, where it reaches 0.
    slope = np.cumsum(np.concatenate([share, -share])[order], axis=1)[:, :-1]
    n = scores.shape[1]
    moving = np.cumsum(np.where(order < n, 1, -1), axis=1)[:, :-1]
    # counted in integers: rounding must not tilt a level piece
    slope = np.where(moving > 0, slope, 0.0)
    means = np.ones_like(knots)
    np.cumsum(slope * np.diff(knots, axis=1) / -gamma, axis=1, out=means[:, 1:])
    means[:, 1:] += 1.0
    np.clip(means, 0.0, 1.0, out=means)
    means[:, -1] = 0.0
    ends = ((0, 0), (1, 1))
    knots = np.pad(knots, ends, constant_values=((0, 0), (-reach, reach)))
    return knots, np.pad(means, ends, constant_values=((0, 0), (1.0, 0.0)))


def _balanced(curves: _Curves, own: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Return the lower end (L,) of the best band, and the thresholds (R, L) for it."""
    # Where the sum of prices may bend: a group at a breakpoint, or at the mean it has anyway, on
    # either end of the band.
    points = np.concatenate([curves.means, own.T], axis=1)
    levels = np.sort(
        np.clip(np.concatenate([points, points - epsilon[:, None]], axis=1), 0.0, 1.0), axis=1
    )
    columns = np.arange(len(levels))
    low, high = np.zeros(len(levels), dtype=np.intp), np.full(len(levels), levels.shape[1] - 1)
    # ends with the first level at which the least sum is no longer positive
    for _ in range(levels.shape[1].bit_length()):
        middle = (low + high) >> 1
        least, _ = _prices(curves, levels[columns, middle], epsilon)
        done = curves.weight @ least <= 0
        high = np.where(done, middle, high)
        low = np.where(done, low, np.minimum(middle + 1, high))
    left, right = levels[columns, np.maximum(high - 1, 0)], levels[columns, high]
    before, _ = _prices(curves, left, epsilon)
    least, most = _prices(curves, right, epsilon)
    # The sum passes 0 either within a jump at ``right``, or on the straight piece from ``left`` to
    # ``right``.
    jump = curves.weight @ most >= 0
    first, last = np.where(jump, most, before), np.where(jump, least, most)
    total, rest = curves.weight @ first, curves.weight @ last
    fall = np.where(total > rest, total - rest, np.inf)
    part = np.clip(total / fall, 0.0, 1.0)
    level = np.where(jump, right, left + part * (right - left))
    return level, first + part * (last - first)


def _prices(curves: _Curves, level: Floats, epsilon: Floats) -> list[Floats]:
    # Groups below the band are raised (t < 0) to its lower end, those above are lowered (t > 0) to
    # its upper end.
    ends = np.stack([level, np.minimum(level + epsilon, 1.0)])[:, None, :]
    return [np.minimum(each[0], 0.0) + np.maximum(each[1], 0.0) for each in curves.thresholds(ends)]


def _polished(
    rows: GroupedRows, scores: Floats, gamma: float, found: Floats, bottom: Floats, top: Floats
) -> Floats:
    """Take out the rounding of the sums along a curve: one Newton step on means added up afresh."""
    h = answer(scores, found[rows.groups], gamma)
    moving = rows.means(((h > 0.0) & (h < 1.0)).astype(np.float64))
    wanted = np.where(found > 0, top, bottom)
    step = gamma * (rows.means(h) - wanted) / np.where(moving > 0, moving, 1.0)
    better = found + np.where((found != 0) & (moving > 0), step, 0.0)
    # A step that would cross 0 is rounding about a group that needs no price.
    return np.where(np.sign(better) == np.sign(found), better, found)
