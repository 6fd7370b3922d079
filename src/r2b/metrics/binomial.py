"""Bounds on means of values between 0 and 1, and on their largest difference, for few rows too.

A bootstrap of two or three rows that happen to be alike shows no spread at all. The bounds of
Clopper and Pearson are exact for any number of independent labels; with weights they take the
number of equally weighted rows that tell as much (Korn and Graubard 1998).
"""

from __future__ import annotations

from math import log
from statistics import NormalDist

import numpy as np

from r2b._data.arrays import Array, Floats, divided


def difference_bounds(
    means: Floats, variance: Floats, sizes: Floats, *, level: float, shared: bool = False
) -> tuple[float, float]:
    """Return the bounds of the largest difference between the means of two groups over all columns.

    Every one of the M = L R (R - 1) / 2 differences has its interval at Bonferroni's level 1 - (1 -
    level) / M, so that all hold at once; the ends are the largest lower and the largest upper end.
    Small groups widen the upper end alone where others differ for sure.

    Parameters
    ----------
    means, variance : ndarray of shape (R, L)
        Of two columns that add up to 1 the second mirrors the first. The variance of each mean,
        as for :func:`mean_bounds`.
    sizes : ndarray of shape (R,)
        Kish's effective numbers of independent rows.
    level : float
    shared : bool
        As for :func:`largest_difference`.

    Examples
    --------
    >>> means = np.array([[0.3, 0.7], [0.6, 0.4], [1.0, 0.0]])  # of 1,000, 1,000 and 2 rows
    >>> sizes = np.array([1000.0, 1000.0, 2.0])
    >>> variance = means * (1 - means) / sizes[:, None]
    >>> [round(end, 3) for end in difference_bounds(means, variance, sizes, level=0.95)]
    [0.248, 0.734]
    """
    n_groups, n_columns = means.shape
    if n_groups == 1:
        return 0.0, 0.0
    if n_columns == 2 and np.allclose(means.sum(axis=1), 1.0):
        n_columns = 1
    tail = (1 - level) / (n_columns * n_groups * (n_groups - 1))
    each = np.broadcast_to(sizes[:, None], means.shape).astype(np.float64)
    return largest_difference(means, *mean_bounds(means, variance, each, tail), shared=shared)


def variance_of_means(
    codes: Array,
    labels: Array,
    means: Floats,
    *,
    weight: Array | None = None,
    repeats: Array | None = None,
    clusters: Array | None = None,
) -> tuple[Floats, Floats]:
    """Estimate the variance of group means, and return Kish's effective numbers of rows.

    Rows of one cluster are one observation of every group that they are in: their mean, with their
    weight.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        Groups.
    labels : ndarray of shape (N,) or (N, L)
        Class codes, or values between 0 and 1.
    means : ndarray of shape (R, L)
        Those of the groups.
    weight : ndarray of shape (N,), optional
        Of a single row.
    repeats : ndarray of shape (N,), optional
        How many equal rows each stands for.
    clusters : ndarray of shape (N,), optional
        Codes; without them every row is independent of all others.

    Returns
    -------
    ndarray of shape (R, L)
        ``sum w^2 (x - m)^2 / (sum w)^2`` over independent rows, or clusters.
    ndarray of shape (R,)

    Examples
    --------
    >>> codes, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    >>> rows = codes, labels, np.array([[0.5, 0.5], [0.0, 1.0]])
    >>> variance_of_means(*rows)[1]
    array([2., 2.])
    >>> variance_of_means(*rows, clusters=np.array([0, 1, 2, 2]))[1]
    array([2., 1.])
    """
    n_groups, n_classes = means.shape
    # the square of a very large weight may not be a number
    each = np.ones(len(codes)) if weight is None else weight / weight.max()
    rows = each if repeats is None else each * repeats
    totals = np.bincount(codes, rows, n_groups)
    if clusters is None:
        unit, group, squares = None, codes, each**2 * (1 if repeats is None else repeats)
    else:
        pairs, unit = np.unique(clusters.astype(np.int64) * n_groups + codes, return_inverse=True)
        group, squares = pairs % n_groups, np.bincount(unit, rows) ** 2
    spread, all_squares = np.empty(means.shape), np.bincount(group, squares, n_groups)
    if unit is None and labels.ndim == 1:  # whole counts, whatever the order of the rows
        ones = np.bincount(
            codes.astype(np.int64) * n_classes + labels, squares, n_groups * n_classes
        ).reshape(means.shape)
        spread = ones * (1 - means) ** 2 + (all_squares[:, None] - ones) * means**2
    else:
        for k in range(n_classes):
            off = ((labels == k) if labels.ndim == 1 else labels[:, k]) - means[codes, k]
            spread[:, k] = np.bincount(
                group,
                squares * off**2 if unit is None else np.bincount(unit, rows * off) ** 2,
                n_groups,
            )
    return spread / totals[:, None] ** 2, totals**2 / all_squares


def mean_bounds(mean: Floats, variance: Floats, size: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return the lower and the upper bound of true means.

    Two bounds hold, and the closer one is taken on each side. The first is Clopper and Pearson's
    for ``size`` labels, or for fewer where weights go with values and the variance is larger than
    that of so many labels. The second is for values that vary less than labels do, such as
    probabilities: the normal quantile times the standard error, and what ``size`` rows may all have
    missed. A share ``log(1 / tail) / size`` of the population escapes them so often, and its values
    could be all 0, or all 1.

    Parameters
    ----------
    mean : ndarray
    variance : ndarray of the same shape
        Of the mean, estimated: ``sum w^2 (x - m)^2 / (sum w)^2``.
    size : ndarray of the same shape
        Kish's effective number of independent rows.
    tail : float
        How often the truth may lie beyond a bound.

    Returns
    -------
    ndarray, ndarray

    Examples
    --------
    >>> mean, size = np.array([0.0, 1.0, 0.5]), np.array([2.0, 3.0, 100.0])
    >>> low, high = mean_bounds(mean, mean * (1 - mean) / size, size, 0.025)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.292, 0.398]), array([0.842, 1.   , 0.602]))
    """
    mean = np.clip(mean, 0.0, 1.0)
    spread = mean * (1 - mean)
    like = np.minimum(size, divided(spread, variance, size))
    low, high = clopper_pearson(mean, like, tail)
    several = size > 1 + 1e-9  # one row says nothing about its own variance
    corrected = variance * divided(size, size - 1, 1.0)
    error = np.where(several, NormalDist().inv_cdf(1 - tail) * np.sqrt(corrected), 1.0)
    missed = -log(tail) / size
    return np.maximum(low, mean - error - missed * mean), np.minimum(
        high, mean + error + missed * (1 - mean)
    )


def clopper_pearson(mean: Floats, size: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return the bounds of the share of successes in ``size`` trials, whole or not.

    Examples
    --------
    >>> clopper_pearson(np.array([0.5]), np.array([10.0]), 0.025)
    (array([0.187...]), array([0.812...]))
    """
    from scipy.special import betaincinv

    hits, misses = size * mean, size * (1 - mean)
    # without a hit, or a miss, the bound is known
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1.0), misses + 1, tail), 0.0)
    high = 1 - betaincinv(np.where(misses > 0, misses, 1.0), hits + 1, tail)
    return np.minimum(low, mean), np.maximum(np.where(misses > 0, high, 1.0), mean)


def largest_difference(
    means: Floats, low: Floats, high: Floats, *, shared: bool
) -> tuple[float, float]:
    """Return the largest lower and upper ends of the intervals of all differences of two groups.

    The ends of a difference come from those of its two means. Where groups have no rows in common
    their errors add up as independent ones do, in squares (the recovery of variances of Zou and
    Donner, Newcombe's hybrid); otherwise their sizes are added, which always holds.

    Parameters
    ----------
    means, low, high : ndarray of shape (R, L)
        Means and their bounds.
    shared : bool
        Whether groups have rows, or clusters of rows, in common.

    Examples
    --------
    >>> means, reach = np.array([[0.2], [0.6]]), np.array([[0.03], [0.04]])
    >>> ends = largest_difference(means, means - reach, means + reach, shared=False)
    >>> [round(end, 3) for end in ends]
    [0.35, 0.45]
    """
    lowest = highest = 0.0
    for mean, up, down in zip(means.T, (high - means).T, (means - low).T, strict=True):
        lowest = max(lowest, _best(mean, down, up, -1.0, shared))
        highest = max(highest, _best(mean, up, down, 1.0, shared))
    return lowest, min(highest, 1.0)


def _best(mean: Floats, above: Floats, below: Floats, sign: float, shared: bool) -> float:
    """Return the largest ``mean[s] - mean[t] + sign * (above[s] with below[t])``."""
    s, t = _undominated(mean, sign * above), _undominated(-mean, sign * below)
    one, two = above[s][:, None], below[t][None, :]
    ends = (
        mean[s][:, None] - mean[t][None, :] + sign * (one + two if shared else np.hypot(one, two))
    )
    return float(np.where(s[:, None] == t[None, :], -np.inf, ends).max())


def _undominated(value: Floats, reach: Floats) -> Array:
    """Return the places that fewer than two others surpass in both: the best pair is among them."""
    best = second = -np.inf
    kept = []
    for place in np.lexsort((-reach, -value)):
        if reach[place] > second:
            kept.append(int(place))
            best, second = max(best, reach[place]), max(second, min(best, reach[place]))
    return np.array(kept)
