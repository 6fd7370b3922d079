"""The rows of one family seen from a small table, places by classes: what chance and resampling make of it.

A place is what rows share in the eyes of a family: a group, a row of memberships, a value of a
continuous attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from zlib import crc32

import numpy as np

from r2b._audit.findings import RARE, SAME, Chance
from r2b._constraints.families.request import is_a
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.merge import class_weights
from r2b.errors import ParameterError
from r2b.metrics.chance import LARGEST_HYPERGEOMETRIC, tables_by_chance
from r2b.metrics.intervals import Interval, Sample, bootstrap, sample_of_values

PlaceSums = tuple[Floats, Floats]
"""Weighted sums of the labels by place, of shape (b, n_places, n_classes), and the weights of the places, of shape (b, n_places)."""

_BLOCK = 1 << 21  # sums held at a time: 16 MiB
_ROWS_OF_A_DRAW = 8  # one hypergeometric number takes the time of moving about so many rows
# rows of one place and class, all of different weights, above which two moments tell their
# resampled sum
_LARGE_CELL = 1000
MOST_SUMS = 1 << 16  # places x classes above which a resample costs more than its interval is worth


@dataclass(frozen=True, eq=False)
class Kinds:
    """Class labels that are equal in all that a permutation moves: class and weight.

    Attributes
    ----------
    codes : ndarray of shape (N,)
        ``weight code * n_classes + class``.
    weights : ndarray of shape (n_weights,)
        The different weights.
    """

    codes: Array
    weights: Floats

    @classmethod
    def of(cls, data: Dataset) -> Kinds | None:
        """Find the kinds of a table; None where they are hardly fewer than its rows."""
        if data.labels.codes is None:
            return None
        if data.weight is None:
            return cls(data.labels.codes, np.ones(1))
        weights, codes = np.unique(_each(data), return_inverse=True)
        if data.repeats is None and _ROWS_OF_A_DRAW * len(weights) * data.n_classes > data.n_rows:
            return None
        return cls(codes * data.n_classes + data.labels.codes, weights)


@dataclass(frozen=True, eq=False)
class FamilyRows:
    """The rows that a family counts.

    Attributes
    ----------
    data : Dataset
        The whole table.
    kinds : Kinds or None
        Of the whole table.
    place_of_cell : ndarray of shape (n_cells,)
        The place of the rows of each cell; -1 for rows that the family does not count.
    parts : ndarray of shape (n_places, n_groups) or None
        How each place counts in each group, or function, of the family; None where places are the
        groups.
    all_clusters : ndarray of shape (N,) or None
        The cluster of each row of the table; None where rows are independent.
    """

    data: Dataset
    kinds: Kinds | None
    place_of_cell: Array
    parts: Floats | None = None
    all_clusters: Array | None = None

    @cached_property
    def n_places(self) -> int:
        """How many places there are; every one has rows."""
        return int(self.place_of_cell.max()) + 1

    @property
    def n_sums(self) -> int:
        """How many numbers a table of sums has."""
        return self.n_places * self.data.n_classes

    @cached_property
    def n_rows(self) -> int:
        """The number of rows that are counted."""
        return int(self.data.cells.counts[self.place_of_cell >= 0].sum())

    @property
    def counted(self) -> bool:
        """Whether the rows follow from a table of counts, places by kinds, that is cheaper to draw than they are."""
        if self.kinds is None or self.all_clusters is not None:
            return False
        if self.data.repeats is not None:
            return True  # there is nothing else: the rows were counted where they live
        return (
            _ROWS_OF_A_DRAW * self.n_sums * len(self.kinds.weights)
            <= self.n_rows
            <= LARGEST_HYPERGEOMETRIC
        )

    @cached_property
    def counts(self) -> Array:
        """Rows by place and kind, of shape (n_places, n_kinds)."""
        assert self.kinds is not None
        n_kinds = len(self.kinds.weights) * self.data.n_classes
        if self.data.weight is None:  # counted by cell already: no row is touched
            cells, table = (
                np.flatnonzero(self.place_of_cell >= 0),
                np.zeros((self.n_places, n_kinds)),
            )
            np.add.at(table, self.place_of_cell[cells], class_weights(self.data)[cells])
            return table.astype(np.int64)
        joint = self.places * n_kinds + self.kinds.codes[self.kept]
        return (
            np.bincount(joint, self.repeats, self.n_places * n_kinds)
            .astype(np.int64)
            .reshape(self.n_places, n_kinds)
        )

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
        return None if self.data.weight is None else _each(self.data)[self.kept]

    @property
    def repeats(self) -> Array | None:
        """How many rows each row that is counted stands for."""
        return None if self.data.repeats is None else self.data.repeats[self.kept]

    def permuted(self, n_permutations: int, random_state: int) -> Iterator[PlaceSums]:
        """Hand the labels, each with its weight, to the rows by chance, and give the sums; block by block.

        Rows of one cluster are alike for reasons of their own, and cannot be handed about one by
        one. There the signs of what the labels of a cluster differ from the mean by are drawn
        instead, one sign for all its rows: no group is then favoured, and every cluster keeps what
        its rows have in common (the wild cluster bootstrap).
        """
        rng = np.random.default_rng(random_state)
        if self.all_clusters is not None:
            return self._flipped(n_permutations, rng)
        if self.counted:
            return self._permuted_counts(n_permutations, rng)
        return (
            self._permuted_matrix(n_permutations, rng)
            if self.data.labels.is_soft
            else self._permuted_codes(n_permutations, rng)
        )

    def _permuted_counts(
        self, n_permutations: int, rng: np.random.Generator
    ) -> Iterator[PlaceSums]:
        assert self.kinds is not None
        n_classes, weights = self.data.n_classes, self.kinds.weights
        step = max(1, _BLOCK // self.counts.size)
        for start in range(0, n_permutations, step):
            b = min(step, n_permutations - start)
            sums = np.zeros((b, self.n_places, n_classes))
            for place, kind, taken in tables_by_chance(self.counts, b, rng):
                sums[:, place, kind % n_classes] += taken * weights[kind // n_classes]
            yield sums, sums.sum(axis=2)

    def _permuted_codes(self, n_permutations: int, rng: np.random.Generator) -> Iterator[PlaceSums]:
        labels, n_classes = self.labels.astype(np.intp), self.data.n_classes
        starts = self.places * n_classes
        for _ in range(n_permutations):
            # Places move instead of labels, which then keep their weights without looking them up.
            sums = np.bincount(rng.permutation(starts) + labels, self.weight, self.n_sums).reshape(
                1, self.n_places, n_classes
            )
            yield sums.astype(np.float64), sums.sum(axis=2)

    def _permuted_matrix(
        self, n_permutations: int, rng: np.random.Generator
    ) -> Iterator[PlaceSums]:
        order = np.argsort(self.places, kind="stable")
        starts = np.searchsorted(self.places[order], np.arange(self.n_places))
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        weighted = self.labels.astype(np.float64) * weight[:, None]
        for _ in range(n_permutations):
            rows = rng.permutation(self.n_rows)
            yield (
                np.add.reduceat(weighted[rows], starts, axis=0)[None],
                np.add.reduceat(weight[rows], starts)[None],
            )

    @cached_property
    def clusters(self) -> Array | None:
        """The cluster of each row that is counted."""
        return (
            None
            if self.all_clusters is None
            else np.unique(self.all_clusters[self.kept], return_inverse=True)[1]
        )

    @property
    def n_clusters(self) -> int:
        """How many clusters the rows that are counted have."""
        return self.n_rows if self.clusters is None else int(self.clusters.max()) + 1

    @cached_property
    def _pairs(self) -> tuple[Array, Array, Floats, Floats]:
        """Give every cluster and place that occur together, in the order of places, with the weight and the sums of labels there."""
        assert self.clusters is not None
        pairs, unit = np.unique(self.places * self.n_clusters + self.clusters, return_inverse=True)
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        sums = np.empty((len(pairs), self.data.n_classes))
        for k in range(self.data.n_classes):
            sums[:, k] = np.bincount(
                unit, weight * (self.labels[:, k] if self.data.labels.is_soft else self.labels == k)
            )
        place, cluster = np.divmod(pairs, self.n_clusters)
        return place, cluster, np.bincount(unit, weight).astype(np.float64), sums

    @property
    def clusters_meet(self) -> bool:
        """Whether some cluster has rows in two places, which ties their means together."""
        return self.clusters is not None and len(self._pairs[0]) != self.n_clusters

    def _sums_of_clusters(self, factors: Iterator[Floats]) -> Iterator[PlaceSums]:
        """Give the sums when all rows of a cluster are multiplied by its factor."""
        place, cluster, weight, sums = self._pairs
        starts = np.searchsorted(place, np.arange(self.n_places))
        for each in factors:
            factor = each[cluster]
            yield (
                np.add.reduceat(factor[:, None] * sums, starts, axis=0)[None],
                np.add.reduceat(factor * weight, starts)[None],
            )

    def _flipped(self, n_permutations: int, rng: np.random.Generator) -> Iterator[PlaceSums]:
        ((table, totals),) = self._sums_of_clusters(iter([np.ones(self.n_clusters)]))
        overall, whole = table.sum(axis=1) / totals.sum(), totals.sum()
        for sums, weights in self._sums_of_clusters(
            rng.choice([-1.0, 1.0], self.n_clusters) for _ in range(n_permutations)
        ):
            moved = sums - weights[:, :, None] * overall
            # The mean of all rows stays what it is, as when labels are handed about.
            yield moved + totals[:, :, None] * (overall - moved.sum(axis=1) / whole), totals

    def sample(self) -> Sample:
        """Give the rows as what is resampled: cells are places x classes, or places for probabilities."""
        if self.data.labels.is_soft:
            weight = np.ones((self.n_rows, 1)) if self.weight is None else self.weight[:, None]
            return Sample(
                self.places,
                np.hstack([weight, weight * self.labels]),
                np.ones(self.n_rows, dtype=np.int64),
                self.n_places,
            )
        if self.data.weight is None or self.counted:
            assert self.kinds is not None
            place, kind = np.nonzero(self.counts)
            cells = place * self.data.n_classes + kind % self.data.n_classes
            return Sample(
                cells,
                self.kinds.weights[kind // self.data.n_classes][:, None],
                self.counts[place, kind],
                self.n_sums,
            )
        return self._sample_of_weights()

    def _sample_of_weights(self) -> Sample:
        """Give small cells row by row and large ones as equal rows, by Kish's size and the weight that fits it.

        The sum of the weights of resampled rows has mean ``sum w`` and variance ``sum w^2``; so has
        that of ``(sum w)^2 / sum w^2`` rows of weight ``sum w^2 / sum w``. Of a thousand rows and
        more nothing else is left of their law.
        """
        weight, cells = self.weight, self.places * self.data.n_classes + self.labels
        assert weight is not None
        large = np.bincount(cells, minlength=self.n_sums) > _LARGE_CELL
        few = ~large[cells]
        # the square of a very large or small weight may not be a number
        scale = float(weight.max())
        first, second = (
            np.bincount(cells, (weight / scale) ** power, self.n_sums) for power in (1, 2)
        )
        large &= second > 0
        parts = [
            (
                np.flatnonzero(large),
                scale * second[large] / first[large],
                first[large] ** 2 / second[large],
            )
        ]
        if few.any():
            exact = sample_of_values(weight[few], cells[few], None, self.n_sums)
            parts.append((exact.cells, exact.columns[:, 1], exact.counts))
        where, each, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Sample(where, each[:, None], counts, self.n_sums)

    def resampled(
        self, statistic: Callable[[PlaceSums], Floats], *, n_boot: int, random_state: int
    ) -> Floats:
        """Give a statistic of the sums, of shape (b,) for each block, on resampled rows, or on resampled clusters of rows."""
        if self.all_clusters is not None:
            rng = np.random.default_rng(random_state)
            drawn = (rng.poisson(1.0, self.n_clusters).astype(np.float64) for _ in range(n_boot))
            return np.concatenate([statistic(sums) for sums in self._sums_of_clusters(drawn)])

        def of_cells(sums: Array) -> Array:
            if self.data.labels.is_soft:
                return statistic((sums[:, :, 1:], sums[:, :, 0]))
            table = sums.reshape(len(sums), self.n_places, -1)
            return statistic((table, table.sum(axis=2)))

        return bootstrap(self.sample(), of_cells, n_boot=n_boot, random_state=random_state)


def _each(data: Dataset) -> Floats:
    """Give the weight of a single row."""
    assert data.weight is not None
    return np.asarray(
        data.weight if data.repeats is None else data.weight / data.repeats, np.float64
    )


def ranges(means: Floats) -> Floats:
    """Give the largest difference between two places over the classes, of shape (b,); places without weight do not count."""
    there = ~np.isnan(means)
    gaps = np.where(there, means, -np.inf).max(axis=1) - np.where(there, means, np.inf).min(axis=1)
    # a resample may be empty, and then shows none
    return np.asarray(np.maximum(gaps.max(axis=1), 0.0))


@dataclass(frozen=True)
class Draws:
    """How much to draw, where to start, and how many groups to list."""

    n_permutations: int = 200
    n_boot: int = 500
    level: float = 0.95
    random_state: int = 0
    n_largest: int = 10

    def __post_init__(self) -> None:
        remedies = {
            "n_permutations": "Pass a whole number such as 200, or 0 to leave chance out.",
            "n_boot": "Pass a whole number such as 500, or 0 to leave the intervals out.",
            "random_state": "Pass a whole number of 0 or more.",
            "n_largest": "Pass how many groups to list, such as 10.",
        }
        for name, remedy in remedies.items():
            value = getattr(self, name)
            if (
                not is_a(Integral, value)
                or int(value) < 0
                or (name == "n_boot" and int(value) == 1)
            ):
                raise ParameterError(f"{name} is {value!r}.", remedy=remedy, **{name: value})
        if not isinstance(self.level, Real) or not 0 < float(self.level) < 1:
            remedy = "Pass a number between 0 and 1, such as 0.95."
            raise ParameterError(f"level is {self.level!r}.", remedy=remedy, level=self.level)

    def seed(self, family: str) -> int:
        """Give a family's own start: its draws do not depend on which others there are, and are not theirs in another guise."""
        words = np.random.SeedSequence(
            [int(self.random_state), crc32(family.encode())]
        ).generate_state(1, np.uint64)
        return int(words[0])


def chance_of(observed: float, drawn: Floats) -> Chance:
    """Compare a measure with what it is by chance."""
    p = p_value(observed, drawn)
    return Chance(
        float(drawn.mean()),
        float(critical(drawn)),
        p,
        len(drawn),
        at_floor=p <= 1 / (1 + len(drawn)),
    )


def p_value(observed: float, drawn: Floats) -> float:
    """Give the share of the drawn numbers, the observed one among them, that are at least as large."""
    return (1 + int((drawn >= observed - SAME).sum())) / (1 + len(drawn))


def critical(drawn: Floats) -> Floats:
    """Give the number, along the first axis, above which a measure has a p-value of 1 in 20 or less: the same question, asked once.

    Of fewer than 19 draws that is none; the largest is given.

    Examples
    --------
    >>> float(critical(np.arange(200.0))), p_value(190.0, np.arange(200.0)), p_value(190.1, np.arange(200.0))
    (190.0, 0.0547..., 0.0497...)
    """
    place = max(1, int(RARE * (1 + len(drawn)) + 1e-9))
    found: Floats = np.sort(drawn, axis=0)[-place]
    return found


def interval_around(observed: float, changes: Floats, level: float) -> Interval:
    """Give the interval of a maximum from the largest change of its arguments in each resample, as ``gap_interval`` does.

    A maximum never changes by more than its arguments, so that the level-quantile of their largest
    change bounds it on both sides.
    """
    reach = float(np.quantile(changes, level))
    return Interval(max(observed - reach, 0.0), min(observed + reach, 1.0), level, "bootstrap")
