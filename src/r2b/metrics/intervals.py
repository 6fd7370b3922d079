"""Intervals for means and for the largest difference between group means: by the binomial or the normal law, or by resampling rows.

Weights here are weights, not repetitions: a row of weight 2 is one observation. With Kish's
effective size ``n_eff = (sum w)^2 / sum w^2`` the variance of a weighted mean m is taken as ``sum w
(x - m)^2 / sum w / (n_eff - 1)``; with equal weights this is the usual s^2 / n. It supposes that
weights and values are unrelated; the bootstrap does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import Array
from r2b._data.columns import refuse_other_choice
from r2b._data.compute import generator
from r2b._data.merge import class_weights
from r2b.errors import ParameterError
from r2b.metrics.binomial import (
    difference_bounds,
    largest_difference,
    mean_bounds,
    variance_of_means,
)
from r2b.metrics.means import divided, means_of, table_to_measure

IntervalMethod = Literal["binomial", "normal", "bootstrap"]

_BLOCK = 1 << 21  # draws, or sums, held at a time: 16 MiB


@dataclass(frozen=True)
class Interval:
    """A confidence interval; it unpacks to its two ends.

    Attributes
    ----------
    low, high : float
    level : float
    method : str

    Examples
    --------
    >>> low, high = Interval(0.25, 0.5, 0.9, "normal")
    >>> high - low
    0.25
    """

    low: float
    high: float
    level: float
    method: str

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))


@dataclass(frozen=True)
class IntervalSettings:
    """How an interval is made: level, method, number of resamples and seed; what has no meaning is refused."""

    level: float
    method: str
    n_boot: int = 0
    random_state: int = 0

    def __post_init__(self) -> None:
        level, n_boot = self.level, self.n_boot
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ParameterError(
                f"The level {level!r} is not between 0 and 1.",
                remedy="Pass a level such as 0.99.",
                level=level,
            )
        refuse_other_choice("method", self.method, get_args(IntervalMethod))
        # Refused where no resample is drawn as well: a number without a meaning is a mistake,
        # whatever the method.
        if not (
            isinstance(n_boot, Integral)
            and (n_boot >= 2 or (n_boot == 0 and self.method != "bootstrap"))
        ):
            remedy = "Pass a whole number, such as n_boot=1000, or more."
            raise ParameterError(f"There are {n_boot!r} resamples.", remedy=remedy, n_boot=n_boot)

    def interval(self, low: float, high: float) -> Interval:
        """Give an interval of this level and method, within [0, 1]."""
        return Interval(max(low, 0.0), min(high, 1.0), self.level, self.method)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to resample: what each adds to the sums of its cell.

    Attributes
    ----------
    cells : ndarray of integers, of shape (n,)
        Group, or crossing of group and class.
    columns : ndarray of shape (n, m)
        What a row adds: its weight, then its weighted values.
    counts : ndarray of shape (n,)
        How many equal rows each stands for.
    n_cells : int
    """

    cells: Array
    columns: Array
    counts: Array
    n_cells: int


def sample_of_values(values: Array, groups: Array, weight: Array | None, n_groups: int) -> Sample:
    """Prepare rows of one value each; equal rows become one with a count.

    Examples
    --------
    >>> sample_of_values(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 0]), None, 1).counts
    array([1, 2])
    """
    keys = [values, groups] if weight is None else [values, groups, weight]
    order = np.lexsort(keys)
    new = np.arange(len(values)) == 0
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    first = np.flatnonzero(new)
    rows = order[first]
    w = np.ones(len(rows)) if weight is None else weight[rows]
    return Sample(
        groups[rows],
        np.column_stack([w, w * values[rows]]),
        np.diff(np.append(first, len(values))),
        n_groups,
    )


def _sample_of_labels(data: Dataset) -> Sample:
    groups = data.cells.codes.astype(np.intp)
    if data.labels.matrix is not None:
        weight = np.ones((data.n_rows, 1)) if data.weight is None else data.weight[:, None]
        return Sample(
            groups,
            np.hstack([weight, weight * data.labels.matrix]),
            np.ones(data.n_rows, dtype=np.int64),
            data.n_cells,
        )
    n_cells = data.n_cells * data.n_classes
    if data.weight is None:
        counts = class_weights(data).ravel().astype(np.int64)
        there = np.flatnonzero(counts)
        return Sample(there, np.ones((len(there), 1)), counts[there], n_cells)
    cells = groups * data.n_classes + data.labels.array
    # The weight itself is the value: rows of one cell and one weight are equal, whatever else they
    # hold.
    merged = sample_of_values(data.weight, cells, None, n_cells)
    return Sample(merged.cells, merged.columns[:, 1:], merged.counts, n_cells)


def bootstrap(
    sample: Sample, statistic: Callable[[Array], Array], *, n_boot: int, random_state: int
) -> Array:
    """Give a statistic of the cell sums on resampled rows.

    Every row is taken Poisson(1) times. That is the bootstrap with a random number of rows; a sum
    of independent Poisson numbers is again one, so that merged rows are resampled exactly as the
    rows that they stand for, at the cost of one.

    Parameters
    ----------
    sample : Sample
    statistic : callable
        From sums of shape (b, n_cells, m) to values of shape (b,).
    n_boot : int
    random_state : int

    Returns
    -------
    ndarray of shape (n_boot,)

    Examples
    --------
    >>> sample = sample_of_values(np.arange(4.0), np.zeros(4, dtype=int), None, 1)
    >>> sizes = bootstrap(sample, lambda sums: sums[:, 0, 0], n_boot=5_000, random_state=0)
    >>> round(float(sizes.mean()), 1), round(float(sizes.var()))
    (4.0, 4)
    """
    rng = generator(random_state)
    order = np.argsort(sample.cells, kind="stable")
    cells, counts, m = sample.cells[order], sample.counts[order], sample.columns.shape[1]
    replicates = max(1, min(n_boot, _BLOCK // max(1, sample.n_cells * m)))
    found = []
    for start in range(0, n_boot, replicates):
        b = min(replicates, n_boot - start)
        sums = np.zeros((b, sample.n_cells, m))
        step = max(1, _BLOCK // b)
        for row in range(0, len(cells), step):
            here = slice(row, row + step)
            # one rate for all is drawn much faster than one for each
            rate = counts[here] if (counts[here] > 1).any() else 1
            drawn = rng.poisson(rate, size=(b, len(cells[here]))).astype(np.float64)
            columns = sample.columns[order[here]]
            edges = np.flatnonzero(np.diff(cells[here], prepend=-1, append=-1))
            for low, high in pairwise(edges):
                sums[:, cells[row + low]] += drawn[:, low:high] @ columns[low:high]
        found.append(statistic(sums))
    return np.concatenate(found)


def mean_interval(values: Array, weight: Array | None, settings: IntervalSettings) -> Interval:
    """Give an interval for a weighted mean of values in [0, 1]; the ends are kept there.

    "binomial" is right for few rows too: see ``mean_bounds``. "normal" is the mean plus and minus
    the normal quantile times the error of the module's formula. "bootstrap" is the percentile
    interval. Of few rows that are alike the last two collapse.

    Examples
    --------
    >>> mean_interval(np.array([0.0, 1.0] * 200), None, IntervalSettings(0.95, "normal"))
    Interval(low=0.450939..., high=0.549060..., level=0.95, method='normal')
    """
    w, one_group = (
        np.ones(len(values)) if weight is None else weight,
        np.zeros(len(values), np.intp),
    )
    mean, tail = float(w @ values / w.sum()), (1 - settings.level) / 2
    if settings.method == "binomial":
        variance, sizes = variance_of_means(
            one_group, values[:, None], np.array([[mean]]), weight=w
        )
        return settings.interval(
            *(float(end[0]) for end in mean_bounds(np.array([mean]), variance[0], sizes, tail))
        )
    if settings.method == "normal":
        size = effective_size(w)
        spread = float(w @ (values - mean) ** 2 / w.sum())
        # A single row says nothing about its own error.
        reach = (
            NormalDist().inv_cdf(1 - tail) * (spread / (size - 1)) ** 0.5
            if size > 1 + 1e-9
            else 1.0
        )
        return settings.interval(mean - reach, mean + reach)
    sample = sample_of_values(values, one_group, weight, 1)
    means = bootstrap(
        sample,
        lambda sums: divided(sums[:, 0, 1], sums[:, 0, 0]),
        n_boot=settings.n_boot,
        random_state=settings.random_state,
    )
    return settings.interval(*np.nanquantile(means, [tail, 1 - tail]).tolist())


def effective_size(weight: Array) -> float:
    """Give Kish's effective number of rows, (sum w)^2 / sum w^2.

    Examples
    --------
    >>> effective_size(np.ones(5)), round(effective_size(np.array([3.0, 1.0])), 3)
    (5.0, 1.6)
    """
    return float(group_sizes(np.zeros(len(weight), np.intp), weight, 1)[0])


def gap_interval(
    codes: Array,
    values: Array,
    means: Array,
    weight: Array | None,
    sample: Sample | None,
    settings: IntervalSettings,
) -> Interval:
    """Give an interval for the largest difference between group means over all columns.

    The largest of several estimates is biased upwards and not normal, least of all where the truth
    is 0, and the percentile interval then never holds the truth. All methods therefore bound all
    differences at once and take the largest, which holds in every case and is conservative.
    "binomial", right for small groups too: see :func:`r2b.metrics.binomial.difference_bounds`.
    "normal": each of the M = L R (R - 1) / 2 differences gets its normal interval at Bonferroni's
    level 1 - (1 - level) / M; the ends are the largest lower and the largest upper end.
    "bootstrap": c is the level-quantile over resamples of the largest absolute change of a
    difference; the ends are the observed value minus and plus c, for a maximum never changes by
    more than its arguments.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        The group of each row. A group of one row says nothing about its own error: by the normal
        law, and resampled, [0, 1].
    values : ndarray of shape (N,) or (N, L)
        Class codes, or values between 0 and 1.
    means : ndarray of shape (R, L)
        Those of the groups.
    weight : ndarray of shape (N,) or None
    sample : Sample or None
        For the bootstrap alone, with cells of groups (first column the weight), or of groups x
        classes (the weight alone).
    settings : IntervalSettings

    Returns
    -------
    Interval
        Within [0, 1].

    Examples
    --------
    >>> codes, values = np.repeat([0, 1], 100), np.repeat([1, 0, 1, 0], [20, 80, 60, 40])[:, None]
    >>> gap_interval(codes, values, np.array([[0.2], [0.6]]), None, None, IntervalSettings(0.95, "normal"))
    Interval(low=0.275..., high=0.524..., level=0.95, method='normal')
    """
    level, (n_groups, n_classes) = settings.level, means.shape
    if n_groups == 1:
        return settings.interval(0.0, 0.0)
    if settings.method == "binomial":
        variance, sizes = variance_of_means(codes, values, means, weight=weight)
        return settings.interval(*difference_bounds(means, variance, sizes, level=level))
    sizes = group_sizes(codes, weight, n_groups)
    if sizes.min() <= 1 + 1e-9:
        return settings.interval(0.0, 1.0)
    if settings.method == "normal" or sample is None:
        quantile = NormalDist().inv_cdf(1 - (1 - level) / (n_classes * n_groups * (n_groups - 1)))
        reaches = quantile * _standard_errors(codes, values, means, weight, sizes)
        return settings.interval(
            *largest_difference(means, means - reaches, means + reaches, shared=False)
        )
    changes = bootstrap(
        sample,
        lambda sums: _largest_change(sums, means),
        n_boot=settings.n_boot,
        random_state=settings.random_state,
    )
    observed, reach = (
        float(np.max(means.max(axis=0) - means.min(axis=0))),
        float(np.quantile(changes, level)),
    )
    return settings.interval(observed - reach, observed + reach)


def _largest_change(sums: Array, means: Array) -> Array:
    n_groups, n_columns = means.shape
    if sums.shape[1:] == (n_groups * n_columns, 1):
        sums = sums.reshape(-1, n_groups, n_columns)
        drawn = divided(sums, sums.sum(axis=2, keepdims=True))
    else:
        drawn = divided(sums[:, :, 1:], sums[:, :, :1])
    # A group that a resample left out does not count in it.
    change = drawn - means
    there = ~np.isnan(change)
    return np.asarray(
        (np.where(there, change, -1.0).max(axis=1) - np.where(there, change, 1.0).min(axis=1)).max(
            axis=1
        )
    )


def disparity_interval(
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    level: float = 0.99,
    method: IntervalMethod = "binomial",
    n_boot: int = 1_000,
    random_state: int = 0,
) -> Interval:
    """Give an interval for the demographic parity of the population that the rows were drawn from.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`r2b.metrics.demographic_parity_difference`.
    level : float
    method : {"binomial", "bootstrap", "normal"}
        None is exact for a maximum; all are conservative. The first alone is right for groups of
        few rows: there the others collapse where labels happen to be alike.
    n_boot : int
        Resamples of "bootstrap".
    random_state : int

    Returns
    -------
    Interval

    Raises
    ------
    ParameterError, InputError

    Examples
    --------
    >>> y, s = ["no", "yes"] * 200 + ["no"] * 400, ["f"] * 400 + ["m"] * 400
    >>> low, high = disparity_interval(y, sensitive_features=s, level=0.95)
    >>> round(low, 2), round(high, 2)
    (0.45, 0.55)
    >>> low, high = disparity_interval(["a", "a", "b", "b", "a"], sensitive_features=["f", "f", "f", "m", "m"], level=0.95)
    >>> round(low, 2), round(high, 2)
    (0.0, 0.75)
    """
    settings = IntervalSettings(level, method, n_boot, random_state)
    data = table_to_measure(y, sensitive_features, sample_weight)
    means, _ = means_of(data)
    sample = _sample_of_labels(data) if method == "bootstrap" else None
    return gap_interval(data.cells.codes, data.labels.array, means, data.weight, sample, settings)


def _standard_errors(
    codes: Array, values: Array, means: Array, weight: Array | None, sizes: Array
) -> Array:
    """Give the standard errors of the group means of class codes, or of columns of values, of shape (R, L)."""
    spread = means * (1 - means)
    if values.ndim == 2:
        totals = np.bincount(codes, weight, len(means))
        for k in range(means.shape[1]):
            off = (values[:, k] - means[codes, k]) ** 2
            spread[:, k] = (
                np.bincount(codes, off if weight is None else off * weight, len(means)) / totals
            )
    return np.asarray(np.sqrt(spread / np.maximum(sizes[:, None] - 1, 1e-9)))


def group_sizes(
    codes: Array, weight: Array | None, n_groups: int, repeats: Array | None = None
) -> Array:
    """Give Kish's effective size of every group; without weights, its number of rows. A row may stand for several.

    Examples
    --------
    >>> group_sizes(np.array([0, 0, 1]), None, 2), group_sizes(np.array([0, 0, 1]), np.array([3.0, 1.0, 1.0]), 2)
    (array([2., 1.]), array([1.6, 1. ]))
    """
    if weight is None:
        return np.bincount(codes, repeats, minlength=n_groups).astype(np.float64)
    largest = np.zeros(n_groups)
    np.maximum.at(largest, codes, weight)
    # the square of a very large or small weight may not be a number
    scaled = weight / largest[codes]
    each = np.ones(len(codes)) if repeats is None else repeats
    return np.asarray(
        np.bincount(codes, each * scaled, n_groups) ** 2
        / np.bincount(codes, each * scaled**2, n_groups)
    )
