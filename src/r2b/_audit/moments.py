"""Probabilities of many rows, seen from sums: what chance makes of a family follows from two moments of the rows, and from a few of them.

Handing labels about by chance gives every group a sum over rows drawn without replacement. Of a
group of many rows the sum is normal, with mean and covariance as they are; rows of a small group
are drawn, from a sample that is kept. Sums and sample can be added up in any parts, so that rows
need not be in memory together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from r2b._audit.resampling import FamilyRows, PlaceSums
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.compute import parts_of, refuse_beyond_memory
from r2b._labels.draws import draws_of, row_numbers

MOST_EXACT = 1 << 20  # numbers of a table whose rows are handed about one by one
_SAMPLE = 1 << 20  # numbers of the sample of rows, all parts together
_FEWEST, _MOST = 256, 8192  # rows of the sample of a part
_SMALL = 512  # rows below which those of a group are drawn one by one
_BLOCK = 1 << 21  # numbers that are drawn at a time
_ROUNDING = 1e-12  # of the largest variance
_ROWS = 1 << 15  # rows that are looked at at a time
_FEWER = "Put rare classes together, or use fewer control features."


@dataclass(frozen=True, eq=False)
class LabelMoments:
    """Sums over rows of probabilities.

    Attributes
    ----------
    weight, squares : ndarray of shape (n_cells,)
        Sums of the weights of the rows of each cell, and of their squares.
    sums, first, second : ndarray of shape (n_cells, n_classes)
        Sums of the labels, each times its weight; times its squared weight; and of their squares
        times that.
    cross : ndarray of shape (n_parts, 1 + n_classes, 1 + n_classes)
        Of rows ``z = (w, w y)``, sums of ``z z'`` over the cells that the same families count.
    hashes, parts, sample : ndarray of shape (n,), (n,) and (n, 1 + n_classes)
        Some rows z, those of the least hashes of every part.
    """

    weight: Floats
    squares: Floats
    sums: Floats
    first: Floats
    second: Floats
    cross: Floats
    hashes: Whole
    parts: Whole
    sample: Floats


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Adds up rows.

    Attributes
    ----------
    n_classes : int
    part_of_cell : ndarray of shape (n_cells,)
        Cells that the same families count are one part.
    scale : float
        Weights are divided by it: the square of a very large one may not be a number.
    """

    n_classes: int
    part_of_cell: Whole
    scale: float = 1.0

    def __post_init__(self) -> None:
        needed = 8 * 3 * self.n_parts * (1 + self.n_classes) ** 2
        refuse_beyond_memory(
            needed, f"How {self.n_classes:,} classes go together in {self.n_parts:,} strata", _FEWER
        )

    @property
    def n_parts(self) -> int:
        """How many there are."""
        return int(self.part_of_cell.max()) + 1

    @property
    def most(self) -> int:
        """How many rows of a part are kept."""
        return min(max(_SAMPLE // (self.n_parts * (1 + self.n_classes)), _FEWEST), _MOST)

    def of(self, labels: Array, cells: Array, weight: Array | None, hashes: Whole) -> LabelMoments:
        """Add up some rows."""
        n_cells = len(self.part_of_cell)
        order = np.argsort(cells, kind="stable")
        here, labels = cells[order], labels[order].astype(np.float64)
        each = (
            np.ones(len(here))
            if weight is None
            else np.asarray(weight, np.float64)[order] / self.scale
        )
        z = np.column_stack([each, labels * each[:, None]])
        starts = np.flatnonzero(np.diff(here, prepend=-1) != 0)
        there = here[starts]

        def by_cell(rows: Floats) -> Floats:
            found = np.zeros((n_cells, *rows.shape[1:]))
            if len(starts):
                found[there] = np.add.reduceat(rows, starts, axis=0)
            return found

        sums = by_cell(z)
        squared = z if weight is None else z * each[:, None]
        first = sums if weight is None else by_cell(squared)
        cross, part = np.zeros((self.n_parts, z.shape[1], z.shape[1])), self.part_of_cell[here]
        kept: list[Array] = []
        for p in np.unique(part).tolist():
            mine = slice(None) if self.n_parts == 1 else np.flatnonzero(part == p)
            cross[p] = z[mine].T @ z[mine]
            least = _least(hashes[order][mine], self.most)
            kept.append(np.arange(len(here))[mine][least])
        rows = np.concatenate(kept) if kept else np.empty(0, np.intp)
        chosen = hashes[order][rows], part[rows], z[rows]
        return LabelMoments(
            sums[:, 0],
            first[:, 0],
            sums[:, 1:],
            first[:, 1:],
            by_cell(squared[:, 1:] * labels),
            cross,
            *chosen,
        )

    def merge(self, one: LabelMoments, other: LabelMoments) -> LabelMoments:
        """Add up, and keep the rows of the least hashes of every part."""
        names = ("weight", "squares", "sums", "first", "second", "cross")
        added = {name: getattr(one, name) + getattr(other, name) for name in names}
        hashes, parts, sample = (
            np.concatenate([getattr(each, name) for each in (one, other)])
            for name in ("hashes", "parts", "sample")
        )
        if len(hashes) > self.most:
            rows = np.concatenate(
                [
                    np.flatnonzero(parts == p)[_least(hashes[parts == p], self.most)]
                    for p in np.unique(parts)
                ]
            )
            hashes, parts, sample = hashes[rows], parts[rows], sample[rows]
        return LabelMoments(**added, hashes=hashes, parts=parts, sample=sample)


def _least(hashes: Whole, most: int) -> Array:
    """Give the places of the least, in their order."""
    rows = np.argpartition(hashes, most)[:most] if len(hashes) > most else np.arange(len(hashes))
    return rows[np.argsort(hashes[rows], kind="stable")]


def moments_of(data: Dataset, part_of_cell: Whole) -> LabelMoments:
    """Add up rows that are in memory."""
    weight = data.weight
    adding = MomentSums(
        data.n_classes, part_of_cell, 1.0 if weight is None else float(weight.mean()) or 1.0
    )
    total: LabelMoments | None = None
    for rows in parts_of(data.n_rows, _ROWS):
        mine = None if weight is None else weight[rows]
        hashes = draws_of(row_numbers(rows.start, rows.stop - rows.start), 0)
        found = adding.of(data.labels.array[rows], data.cells.codes[rows], mine, hashes)
        total = found if total is None else adding.merge(total, found)
    assert total is not None
    return total


def shared_parts(places: list[Array]) -> Whole:
    """Give cells that the same families count the same number; families by the place of every cell, -1 for none.

    Examples
    --------
    >>> shared_parts([np.array([0, 1, -1]), np.array([0, 0, 1])])
    array([1, 1, 0])
    """
    counted = np.stack([each >= 0 for each in places], axis=1)
    return np.asarray(np.unique(counted, axis=0, return_inverse=True)[1]).reshape(-1)


@dataclass(frozen=True, eq=False)
class MomentRows(FamilyRows):
    """The rows that a family counts, of which sums are known; attributes as for :class:`FamilyRows`, and moments of the whole table."""

    moments: LabelMoments | None = None
    part_of_cell: Whole | None = None

    @cached_property
    def _known(self) -> tuple[LabelMoments, Whole]:
        assert self.moments is not None and self.part_of_cell is not None
        return self.moments, np.unique(self.part_of_cell[self.place_of_cell >= 0])

    def _by_place(self, cells: Floats) -> Floats:
        inside = np.flatnonzero(self.place_of_cell >= 0)
        found = np.zeros((self.n_places, *cells.shape[1:]))
        np.add.at(found, self.place_of_cell[inside], cells[inside])
        return found

    @cached_property
    def sizes(self) -> Floats:
        """Rows of each place."""
        return self._by_place(self.data.cells.counts.astype(np.float64))

    def permuted(self, n_permutations: int, random_state: int) -> Iterator[PlaceSums]:
        """Draw sums as handing the labels, each with its weight, to the rows by chance gives them; block by block."""
        rng, (moments, parts), sizes = np.random.default_rng(random_state), self._known, self.sizes
        total = sizes.sum()
        mean = (
            np.concatenate(
                [[self._by_place(moments.weight).sum()], self._by_place(moments.sums).sum(axis=0)]
            )
            / total
        )
        spread, ways = np.linalg.eigh(
            (moments.cross[parts].sum(axis=0) / total - np.outer(mean, mean))
            * (total / max(total - 1.0, 1.0))
        )
        # The symmetric root: unlike others it hardly moves with the last digits of the sums.
        # Rounding leaves no direction of its own.
        root = ways * np.sqrt(np.where(spread > _ROUNDING * spread[-1], spread, 0.0)) @ ways.T
        mine = np.lexsort((moments.hashes, moments.parts))
        mine = mine[np.isin(moments.parts[mine], parts)]
        sample, chance = moments.sample[mine], self._chances(moments.parts[mine])
        sample = sample - chance @ sample
        step = max(1, _BLOCK // (len(sizes) * len(mean)))
        for start in range(0, n_permutations, step):
            b = min(step, n_permutations - start)
            off = (rng.standard_normal((b, len(sizes), len(mean))) @ root) * np.sqrt(sizes)[:, None]
            for place in np.flatnonzero(sizes < _SMALL):
                drawn = rng.choice(len(sample), (b, int(sizes[place])), p=chance)
                off[:, place] = sample[drawn].sum(axis=1)
            # Nothing is added to the rows of all places together.
            off -= (sizes / total)[:, None] * off.sum(axis=1, keepdims=True)
            sums = sizes[:, None] * mean + off
            yield sums[:, :, 1:], sums[:, :, 0]

    def _chances(self, parts: Whole) -> Floats:
        """Give the chance of each row of the sample: parts have that of their rows."""
        assert self.part_of_cell is not None
        counts = np.bincount(self.part_of_cell, self.data.cells.counts * (self.place_of_cell >= 0))
        chance = counts[parts] / np.bincount(parts, minlength=len(counts))[parts]
        return np.asarray(chance / chance.sum())

    def variances(self, means: Floats) -> tuple[Floats, Floats]:
        """Give the variances of the means and the effective sizes of the groups, as :func:`variance_of_means` of the rows does."""
        moments, _ = self._known
        totals, squares = self._by_place(moments.weight), self._by_place(moments.squares)
        spread = (
            self._by_place(moments.second)
            - 2 * means * self._by_place(moments.first)
            + means**2 * squares[:, None]
        )
        return np.maximum(spread, 0.0) / totals[:, None] ** 2, totals**2 / squares
