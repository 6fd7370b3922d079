"""Confidence intervals of means, and of the largest difference between group means.

Weights are weights, not repetitions: a row of weight 2 is one observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.numbers import refuse_no_probability
from r2b.metrics.binomial import difference_bounds, mean_bounds, variance_of_means
from r2b.metrics.means import means_of, table_to_measure


@dataclass(frozen=True)
class Interval:
    """A confidence interval; it unpacks to its two ends.

    Attributes
    ----------
    low, high : float
        Within [0, 1].
    level : float
    method : str

    Examples
    --------
    >>> low, high = Interval(0.25, 0.5, 0.9)
    >>> high - low
    0.25
    """

    low: float
    high: float
    level: float
    method: str = "binomial"

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))


def mean_interval(values: Array, weight: Array | None, level: float) -> Interval:
    """Return an interval for a weighted mean of values in [0, 1], for few rows as for many.

    Examples
    --------
    >>> low, high = mean_interval(np.array([0.0, 1.0] * 200), None, 0.95)
    >>> round(low, 2), round(high, 2)
    (0.45, 0.55)
    """
    refuse_no_probability("level", level, 0.99)
    mean = np.array([np.average(values, weights=weight)])
    group = np.zeros(len(values), np.intp)
    variance, sizes = variance_of_means(group, values[:, None], mean[None], weight=weight)
    low, high = mean_bounds(mean, variance[0], sizes, (1 - level) / 2)
    return Interval(float(low[0]), float(high[0]), level)


def gap_interval(
    codes: Array, values: Array, means: Array, weight: Array | None, level: float
) -> Interval:
    """Return an interval for the largest difference between group means over all columns.

    The largest of several estimates is biased upwards. All differences are therefore bounded at
    once, and the largest bounds taken: this holds in every case and is conservative. See
    :func:`r2b.metrics.binomial.difference_bounds`.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        The group of each row.
    values : ndarray of shape (N,) or (N, L)
        Class codes, or values between 0 and 1.
    means : ndarray of shape (R, L)
        Those of the groups.
    weight : ndarray of shape (N,) or None
    level : float

    Examples
    --------
    >>> codes, values = np.repeat([0, 1], 100), np.repeat([1, 0, 1, 0], [20, 80, 60, 40])[:, None]
    >>> low, high = gap_interval(codes, values, np.array([[0.2], [0.6]]), None, 0.95)
    >>> round(low, 2), round(high, 2)
    (0.26, 0.52)
    """
    refuse_no_probability("level", level, 0.99)
    variance, sizes = variance_of_means(codes, values, means, weight=weight)
    return Interval(*difference_bounds(means, variance, sizes, level=level), level)


def disparity_interval(
    y: Any, *, sensitive_features: Any, sample_weight: Any = None, level: float = 0.99
) -> Interval:
    """Return an interval for the disparity of the population that the rows were drawn from.

    It is conservative, and holds for groups of few rows.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`r2b.metrics.demographic_parity_difference`.
    level : float
        Confidence of the interval.

    Returns
    -------
    Interval

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.audit : What groups differ in, and what chance explains of it.

    Examples
    --------
    >>> y, sex = ["no", "yes"] * 200 + ["no"] * 400, ["f"] * 400 + ["m"] * 400
    >>> low, high = disparity_interval(y, sensitive_features=sex, level=0.95)
    >>> round(low, 2), round(high, 2)
    (0.45, 0.55)
    >>> y, sex = ["a", "a", "b", "b", "a"], ["f", "f", "f", "m", "m"]
    >>> low, high = disparity_interval(y, sensitive_features=sex, level=0.95)
    >>> round(low, 2), round(high, 2)
    (0.0, 0.75)
    """
    data = table_to_measure(y, sensitive_features, sample_weight)
    return gap_interval(data.cells.codes, data.labels.array, means_of(data)[0], data.weight, level)


def group_sizes(codes: Array, weight: Array | None, n_groups: int) -> Array:
    """Return Kish's effective size of every group; without weights, its number of rows.

    Examples
    --------
    >>> codes = np.array([0, 0, 1])
    >>> group_sizes(codes, None, 2), group_sizes(codes, np.array([3.0, 1.0, 1.0]), 2)
    (array([2., 1.]), array([1.6, 1. ]))
    """
    # the square of a very large weight may not be a number
    each = np.ones(len(codes)) if weight is None else weight / weight.max()
    sums, squares = (np.bincount(codes, each**power, n_groups) for power in (1, 2))
    return sums**2 / squares
