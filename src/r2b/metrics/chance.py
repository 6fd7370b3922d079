"""The disparity that chance alone would show; one below it says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, floor, log10
from numbers import Integral, Real
from typing import Any

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import SAME, Array
from r2b._data.compute import generator
from r2b._data.merge import class_weights
from r2b.errors import ParameterError
from r2b.metrics.means import disparity_of_means, means_of, table_to_measure

# a permuted disparity this near to the observed one is the same number summed in another order
LARGEST_HYPERGEOMETRIC = 10**9  # NumPy draws from no larger urn


@dataclass(frozen=True, eq=False)
class SamplingLevel:
    """The disparity that so many rows of these labels show with groups assigned by chance.

    Attributes
    ----------
    observed : float
        The disparity of the data.
    mean : float
        Mean disparity under chance.
    quantiles : dict
        Probability to quantile of the disparity under chance.
    p_value : float
        The share of (1 + permutations) that are at least as unfair as the data, the data among
        them: valid at every size.
    draws : ndarray of shape (n_permutations,)
    """

    observed: float
    mean: float
    quantiles: dict[float, float]
    p_value: float
    draws: Array = field(repr=False)

    @property
    def at_floor(self) -> bool:
        """Whether no permutation is as unfair as the data: no p-value could be smaller."""
        return self.p_value <= 1 / (1 + len(self.draws))


def format_p_value(p: float, n_permutations: int) -> str:
    """Write a p-value; the least that so many permutations can give is called an upper limit.

    Examples
    --------
    >>> format_p_value(1 / 201, 200), format_p_value(7 / 201, 200), format_p_value(1 / 1001, 1000)
    ('at most 0.005', '= 0.035', 'at most 0.001')
    """
    if p > 1 / (1 + n_permutations):
        return f"= {p:.2g}"
    places = 1 - floor(log10(p))  # two figures, rounded up: "at most" must hold
    return f"at most {ceil(round(p * 10**places, 9)) / 10**places:.2g}"


def sampling_level(
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    n_permutations: int = 200,
    quantiles: tuple[float, ...] = (0.5, 0.95),
    random_state: int = 0,
) -> SamplingLevel:
    """Return the disparity that a fair sample of this size would show, by permuting the groups.

    Appendix C (appendix:scaling) gives it the order sqrt(log L), leaving out that it falls with the
    square root of the group sizes.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`r2b.metrics.demographic_parity_difference`. A weight stays with its label and
        moves between groups.
    n_permutations : int
        How often groups are permuted.
    quantiles : tuple of float
        Which quantiles of the disparity under chance are returned.
    random_state : int
        The same number gives the same draws.

    Returns
    -------
    SamplingLevel

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.audit : What groups differ in, and what chance explains of it.

    Examples
    --------
    >>> y, s = ["no", "yes"] * 200 + ["no"] * 400, ["f"] * 400 + ["m"] * 400
    >>> level = sampling_level(y, sensitive_features=s)
    >>> level.observed, level.quantiles[0.95] < 0.1, level.p_value < 0.01
    (0.5, True, True)
    """
    some = isinstance(n_permutations, Integral) and n_permutations >= 1
    if not (some and all(isinstance(q, Real) and 0 <= q <= 1 for q in quantiles)):
        remedy = "Pass a whole number of permutations, at least one, and quantiles between 0 and 1."
        raise ParameterError(
            f"There are {n_permutations} permutations and the quantiles {quantiles}.",
            remedy=remedy,
            quantiles=quantiles,
        )
    data = table_to_measure(y, sensitive_features, sample_weight)
    means, weights = means_of(data)
    observed = disparity_of_means(means, weights)
    rng = generator(random_state)
    # Unweighted classes are counts in a table, and a permutation is a draw of the table with its
    # margins: no row is touched.
    counted = (
        not data.labels.is_soft
        and data.weight is None
        and means.size <= data.n_rows <= LARGEST_HYPERGEOMETRIC
    )
    draws = (
        disparities_of_tables(class_weights(data), n_permutations, rng)
        if counted
        else disparities_of_rows(data, n_permutations, rng)
    )
    by_chance = {float(q): float(np.quantile(draws, q)) for q in quantiles}
    p_value = (1 + int((draws >= observed - SAME).sum())) / (1 + n_permutations)
    return SamplingLevel(observed, float(draws.mean()), by_chance, p_value, draws)


def disparities_of_tables(counts: Array, n_permutations: int, rng: np.random.Generator) -> Array:
    """Draw tables of groups x classes with the margins of ``counts`` and return their disparities.

    Examples
    --------
    >>> disparities_of_tables(np.array([[1, 0], [0, 1]]), 4, np.random.default_rng(0))
    array([1., 1., 1., 1.])
    """
    shape = (n_permutations, counts.shape[1])
    low, high, sizes = np.full(shape, np.inf), np.full(shape, -np.inf), counts.sum(axis=1)
    for group, k, taken in tables_by_chance(counts, n_permutations, rng):
        np.minimum(low[:, k], taken / sizes[group], out=low[:, k])
        np.maximum(high[:, k], taken / sizes[group], out=high[:, k])
    return np.asarray((high - low).max(axis=1))


def tables_by_chance(
    counts: Array, n_tables: int, rng: np.random.Generator
) -> Iterator[tuple[int, int, Array]]:
    """Draw tables with the row and column sums of ``counts``, as row, column and numbers there."""
    sizes, left = (
        counts.sum(axis=1).astype(np.int64),
        np.tile(counts.sum(axis=0).astype(np.int64), (n_tables, 1)),
    )
    for row, size in enumerate(sizes):
        places, rest = np.full(n_tables, size), left.sum(axis=1)
        # a multivariate hypergeometric is one column after the other, given those before
        for k in range(counts.shape[1]):
            rest -= left[:, k]
            taken = _hypergeometric(rng, left[:, k], rest, places)
            left[:, k] -= taken
            places -= taken
            yield row, k, taken


def _hypergeometric(rng: np.random.Generator, good: Array, bad: Array, drawn: Array) -> Array:
    """Draw how many good ones are among those drawn, from urns of any size."""
    total = good + bad
    if total.max() <= LARGEST_HYPERGEOMETRIC:
        return rng.hypergeometric(good, bad, drawn)
    # NumPy has no larger urns. A count of a billion rows is normal to more digits than a
    # permutation shows.
    size = np.maximum(total.astype(np.float64), 2.0)
    share = good / size
    spread = np.sqrt(drawn * share * (1.0 - share) * np.maximum(size - drawn, 0.0) / (size - 1.0))
    found = np.rint(drawn * share + spread * rng.standard_normal(len(good))).astype(np.int64)
    return np.asarray(np.clip(found, np.maximum(drawn - bad, 0), np.minimum(good, drawn)))


def disparities_of_rows(data: Dataset, n_permutations: int, rng: np.random.Generator) -> Array:
    """Permute the groups of the rows: for probabilities, weights, or more cells than rows."""
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    order = np.argsort(data.cells.codes, kind="stable")
    codes = data.cells.codes[order].astype(np.intp)
    starts = np.searchsorted(codes, np.arange(data.n_cells))
    draws = np.empty(n_permutations)
    for draw in range(n_permutations):
        rows = rng.permutation(data.n_rows)
        moved = weight[rows]
        totals = np.add.reduceat(moved, starts)
        if data.labels.matrix is not None:
            sums = np.add.reduceat(data.labels.matrix[rows] * moved[:, None], starts, axis=0)
        else:
            cells = codes * data.n_classes + data.labels.array[rows]
            sums = np.bincount(cells, moved, data.n_cells * data.n_classes).reshape(
                data.n_cells, -1
            )
        # A permutation may leave a group with weightless rows alone; it then does not count, as
        # everywhere.
        draws[draw] = disparity_of_means(sums / np.where(totals > 0, totals, 1)[:, None], totals)
    return draws
