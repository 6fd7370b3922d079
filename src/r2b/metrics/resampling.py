"""The rows of one family as a table, places by classes: what chance and resampling make of it.

A place is what rows share in a family: a group, a row of memberships, a value of a continuous
attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import SAME, Array, Floats, divided
from r2b._data.compute import parts_of
from r2b._data.outcomes import Outcomes

PlaceSums = tuple[Floats, Floats]
"""Weighted sums of labels (b, n_places, n_classes), and weights of places (b, n_places)."""

BLOCK_SUMS = 1 << 21  # sums held at a time: 16 MiB
ROWS_OF_A_DRAW = 8  # drawing one hypergeometric number takes as long as moving so many rows
LARGEST_HYPERGEOMETRIC = 10**9  # NumPy draws from no larger urn
MOST_EXACT = 1 << 20  # probabilities above which sums are drawn from their law
MOST_SUMS = 1 << 16  # places x classes above which a resample costs more than its interval is worth


def kinds_of(data: Dataset) -> tuple[Array, Floats] | None:
    """Group class labels by all that a permutation moves: class and weight.

    Returns
    -------
    codes : ndarray of shape (N,)
        ``weight code * n_classes + class``.
    weights : ndarray of shape (n_weights,)
        The different weights. None instead of both where kinds are hardly fewer than rows.
    """
    if data.labels.codes is None:
        return None
    if data.weight is None:
        return data.labels.codes, np.ones(1)
    weights, codes = np.unique(weight_of_each(data), return_inverse=True)
    if data.repeats is None and ROWS_OF_A_DRAW * len(weights) * data.n_classes > data.n_rows:
        return None
    return codes * data.n_classes + data.labels.codes, weights


@dataclass(frozen=True, eq=False)
class FamilyRows:
    """The rows that a family counts.

    Attributes
    ----------
    data : Dataset
        The whole table.
    kinds : (ndarray, ndarray) or None
        :func:`kinds_of` the whole table.
    place_of_cell : ndarray of shape (n_cells,)
        The place of the rows of each cell; -1 for rows that the family does not count.
    parts : ndarray of shape (n_places, n_groups) or None
        How each place counts in each group, or function, of the family; None if places are the
        groups.
    all_clusters : ndarray of shape (N,) or None
        The cluster of each row of the table; None if rows are independent.
    outcomes : Outcomes or None
        What is compared; None for every class.
    """

    data: Dataset
    kinds: tuple[Array, Floats] | None
    place_of_cell: Array
    parts: Floats | None = None
    all_clusters: Array | None = None
    outcomes: Outcomes | None = None

    @property
    def names(self) -> Array:
        """Names of the classes, or of the outcomes that are compared."""
        asked = self.outcomes
        return self.data.labels.vocabulary.values if asked is None else np.array(asked.names)

    def compared(self, sums: PlaceSums) -> PlaceSums:
        """Return sums of outcomes from those of classes."""
        return sums if self.outcomes is None else (self.outcomes.shares(sums[0]), sums[1])

    @property
    def compared_labels(self) -> Array:
        """Labels of the rows that are counted; how much each counts in every outcome."""
        if self.outcomes is None:
            return self.labels
        if self.labels.ndim == 1:
            return self.outcomes.matrix.T[self.labels]
        return self.outcomes.shares(self.labels)

    @cached_property
    def n_places(self) -> int:
        """The number of places; every one has rows."""
        return int(self.place_of_cell.max()) + 1

    @property
    def n_sums(self) -> int:
        """The number of entries of a table of sums."""
        return self.n_places * self.data.n_classes

    @cached_property
    def n_rows(self) -> int:
        """The number of rows that are counted."""
        return int(self.data.cells.counts[self.place_of_cell >= 0].sum())

    @property
    def counted(self) -> bool:
        """Whether a table of counts, places by kinds, is cheaper to draw than the rows."""
        if self.kinds is None or self.all_clusters is not None:
            return False
        if self.data.repeats is not None:
            return True  # the rows were counted where they are
        draws = ROWS_OF_A_DRAW * self.n_sums * len(self.kinds[1])
        return draws <= self.n_rows <= LARGEST_HYPERGEOMETRIC

    @cached_property
    def kept(self) -> Array | slice:
        """Which rows of the table are counted."""
        if (self.place_of_cell >= 0).all():
            return slice(None)
        return np.flatnonzero(self.place_of_cell[self.data.cells.codes] >= 0)

    @cached_property
    def places(self) -> Array:
        """The place of each row that is counted."""
        return np.asarray(self.place_of_cell[self.data.cells.codes[self.kept]], dtype=np.intp)

    @cached_property
    def labels(self) -> Array:
        """Class codes, or probabilities, of the rows that are counted."""
        return self.data.labels.array[self.kept]

    @cached_property
    def weight(self) -> Array | None:
        """Weights of the rows that are counted."""
        return None if self.data.weight is None else weight_of_each(self.data)[self.kept]

    @property
    def repeats(self) -> Array | None:
        """How many rows each row that is counted stands for."""
        return None if self.data.repeats is None else self.data.repeats[self.kept]

    @cached_property
    def clusters(self) -> Array | None:
        """The cluster of each row that is counted."""
        if self.all_clusters is None:
            return None
        return np.unique(self.all_clusters[self.kept], return_inverse=True)[1]

    @cached_property
    def _units(self) -> tuple[int, Array, Array, Floats, Floats]:
        """Clusters, or rows if there are none, by place, in the order of places.

        Returns the number of clusters, then for each pair of cluster and place the place, the
        cluster, the weight and the sums of labels.
        """
        cluster = np.arange(len(self.places)) if self.clusters is None else self.clusters
        n_clusters = int(cluster.max()) + 1
        pairs, unit = np.unique(self.places * n_clusters + cluster, return_inverse=True)
        weight = np.ones(len(unit)) if self.weight is None else self.weight
        sums = np.empty((len(pairs), self.data.n_classes))
        for k in range(self.data.n_classes):
            of_class = self.labels[:, k] if self.data.labels.is_soft else self.labels == k
            sums[:, k] = np.bincount(unit, weight * of_class)
        place, cluster = np.divmod(pairs, n_clusters)
        return n_clusters, place, cluster, np.bincount(unit, weight).astype(np.float64), sums

    @property
    def clusters_meet(self) -> bool:
        """Whether some cluster has rows in two places, which ties their means together."""
        return self.clusters is not None and len(self._units[1]) != self._units[0]

    def _scaled(self, factors: Iterator[Floats]) -> Iterator[PlaceSums]:
        """Iterate over the sums with all rows of a cluster multiplied by its factor."""
        _, place, cluster, weight, sums = self._units
        starts = np.searchsorted(place, np.arange(self.n_places))
        for each in factors:
            factor = each[cluster]
            table = np.add.reduceat(factor[:, None] * sums, starts, axis=0)
            yield table[None], np.add.reduceat(factor * weight, starts)[None]

    def means(self, sums: PlaceSums) -> Floats:
        """Return the means of the groups, of shape (b, n_groups, n_outcomes)."""
        table, totals = self.compared(sums)
        if self.parts is None:
            return divided(table, totals[:, :, None], np.nan)
        return divided(self.parts.T @ table, (totals @ self.parts)[:, :, None], np.nan)

    def permuted(self, n_permutations: int, rng: np.random.Generator) -> Iterator[PlaceSums]:
        """Assign the labels, each with its weight, to the rows at random; yield sums in blocks.

        Rows of one cluster are alike, and cannot be permuted one by one. Instead the signs of what
        the labels of a cluster differ from the mean by are drawn, one sign for all its rows (the
        wild cluster bootstrap): no group is favoured, and every cluster keeps what its rows have in
        common.
        """
        if self.all_clusters is not None:
            return self._flipped(n_permutations, rng)
        if self.counted:
            return self._permuted_counts(n_permutations, rng)
        if self.data.labels.is_soft and self.parts is None and self.labels.size > MOST_EXACT:
            return self._permuted_law(n_permutations, rng)
        return self._permuted_rows(n_permutations, rng)

    def _permuted_counts(
        self, n_permutations: int, rng: np.random.Generator
    ) -> Iterator[PlaceSums]:
        assert self.kinds is not None
        n_classes, (codes, weights) = self.data.n_classes, self.kinds
        n_kinds = len(weights) * n_classes
        joint = self.places * n_kinds + codes[self.kept]
        counts = np.bincount(joint, self.repeats, self.n_places * n_kinds)
        counts = counts.astype(np.int64).reshape(self.n_places, n_kinds)
        for b in _blocks(n_permutations, counts.size):
            sums = np.zeros((b, self.n_places, n_classes))
            for place, kind, taken in tables_by_chance(counts, b, rng):
                sums[:, place, kind % n_classes] += taken * weights[kind // n_classes]
            yield sums, sums.sum(axis=2)

    def _permuted_rows(self, n_permutations: int, rng: np.random.Generator) -> Iterator[PlaceSums]:
        if not self.data.labels.is_soft:
            starts, labels = self.places * self.data.n_classes, self.labels.astype(np.intp)
            for _ in range(n_permutations):
                # Places move instead of labels, which keep their weights.
                drawn = np.bincount(rng.permutation(starts) + labels, self.weight, self.n_sums)
                sums = drawn.reshape(1, self.n_places, -1).astype(np.float64)
                yield sums, sums.sum(axis=2)
            return
        starts, z = np.searchsorted(np.sort(self.places), np.arange(self.n_places)), self._weighted
        for _ in range(n_permutations):
            sums = np.add.reduceat(z[rng.permutation(len(z))], starts, axis=0)[None]
            yield sums[:, :, 1:], sums[:, :, 0]

    @property
    def _weighted(self) -> Floats:
        """Rows of the weight and the weighted probabilities."""
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        return np.column_stack([weight, self.labels * weight[:, None]]).astype(np.float64)

    def _permuted_law(self, n_permutations: int, rng: np.random.Generator) -> Iterator[PlaceSums]:
        """Draw sums of many rows from the law of a permutation.

        The sum over a large place is normal, with the mean and covariance of a sample without
        replacement; the rows of a small place are drawn.
        """
        z, sizes = self._weighted, np.bincount(self.places).astype(np.float64)
        mean = z.mean(axis=0)
        spread, ways = np.linalg.eigh(z.T @ z / len(z) - np.outer(mean, mean))
        # The symmetric root hardly moves with the last digits of the sums.
        root = ways * np.sqrt(np.where(spread > SAME * spread[-1], spread, 0.0)) @ ways.T
        for b in _blocks(n_permutations, len(sizes) * len(mean)):
            off = rng.standard_normal((b, len(sizes), len(mean))) @ root * np.sqrt(sizes)[:, None]
            for place in np.flatnonzero(sizes < 512):  # too few for the normal law
                rows = rng.integers(len(z), size=(b, int(sizes[place])))
                off[:, place] = (z[rows] - mean).sum(axis=1)
            # The sum over all rows does not change.
            off -= (sizes / len(z))[:, None] * off.sum(axis=1, keepdims=True)
            sums = sizes[:, None] * mean + off
            yield sums[:, :, 1:], sums[:, :, 0]

    def _flipped(self, n_permutations: int, rng: np.random.Generator) -> Iterator[PlaceSums]:
        n_clusters = self._units[0]
        ((table, totals),) = self._scaled(iter([np.ones(n_clusters)]))
        overall, whole = table.sum(axis=1) / totals.sum(), totals.sum()
        signs = (rng.choice([-1.0, 1.0], n_clusters) for _ in range(n_permutations))
        for sums, weights in self._scaled(signs):
            moved = sums - weights[:, :, None] * overall
            # The mean of all rows stays what it is, as in a permutation.
            yield moved + totals[:, :, None] * (overall - moved.sum(axis=1) / whole), totals

    def disparities_by_chance(self, n_permutations: int, rng: np.random.Generator) -> Floats:
        """Return the disparity in each of many permutations."""
        permuted = self.permuted(n_permutations, rng)
        return np.concatenate([ranges(self.means(sums)) for sums in permuted])

    def resampled(
        self, statistic: Callable[[PlaceSums], Floats], n_boot: int, rng: np.random.Generator
    ) -> Floats:
        """Return a statistic of the sums on resampled rows, or clusters, of shape (n_boot,).

        A unit counts as often as a Poisson number of mean 1 says. For class labels the number of
        rows of a place and class is then Poisson as well. If their weights differ, the sum is that
        of ``(sum w)^2 / sum w^2`` rows of weight ``sum w^2 / sum w`` (Kish), which has the same
        mean and variance.
        """
        if self.all_clusters is not None or self.data.labels.is_soft:
            n_units = self._units[0]
            factors = (rng.poisson(1.0, n_units).astype(np.float64) for _ in range(n_boot))
            return np.concatenate([statistic(sums) for sums in self._scaled(factors)])
        cells, repeats = self.places * self.data.n_classes + self.labels, self.repeats
        weight = np.ones(len(cells)) if self.weight is None else self.weight
        # In units of the heaviest row: the square of an extreme weight may not be a number.
        weight = weight / weight.max()
        times = 1.0 if repeats is None else repeats
        first, second = (np.bincount(cells, times * weight**p, self.n_sums) for p in (1, 2))
        sizes, each = divided(first**2, second), divided(second, first)
        found = []
        for b in _blocks(n_boot, self.n_sums):
            drawn = rng.poisson(sizes, (b, self.n_sums))
            table = np.asarray(drawn * each, np.float64).reshape(b, self.n_places, -1)
            found.append(statistic((table, table.sum(axis=2))))
        return np.concatenate(found)


def _blocks(n_draws: int, n_sums: int) -> list[int]:
    """Return how many draws, of so many sums each, are held at a time, block by block."""
    parts = parts_of(n_draws, max(1, BLOCK_SUMS // n_sums))
    return [part.stop - part.start for part in parts]


def weight_of_each(data: Dataset) -> Floats:
    """Return the weight of a single row."""
    assert data.weight is not None
    weight = data.weight if data.repeats is None else data.weight / data.repeats
    return np.asarray(weight, np.float64)


def ranges(means: Floats) -> Floats:
    """Return the largest difference between two places over the classes, of shape (b,).

    Places without weight do not count.
    """
    there = ~np.isnan(means)
    high, low = np.where(there, means, -np.inf), np.where(there, means, np.inf)
    gaps = high.max(axis=1) - low.min(axis=1)
    # A resample may be empty, and then shows none.
    return np.asarray(np.maximum(gaps.max(axis=1), 0.0))


def tables_by_chance(
    counts: Array, n_tables: int, rng: np.random.Generator
) -> Iterator[tuple[int, int, Array]]:
    """Draw tables with the row and column sums of ``counts``, as row, column and numbers there."""
    sizes = counts.sum(axis=1).astype(np.int64)
    left = np.tile(counts.sum(axis=0).astype(np.int64), (n_tables, 1))
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
