"""Class labels whose counts match a table or a set of distributions: every sum is rounded down or up, and nothing changes on average."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Flags, Floats, Whole, ends_passed, smallest_unsigned
from r2b._labels.forms.forest import COMPILE_FROM, Forest
from r2b._labels.forms.keyed import BITS, SeededStream, entry_uniforms, uniforms_of
from r2b._labels.forms.sampling import check_matrix, entries, sample_rows
from r2b.errors import InputError, ParameterError

#: Targets this close to an integer are that integer.
SNAP = 1e-9
#: How far the sum of a row of targets may be from an integer.
ROW_SUM_TOLERANCE = 1e-6
#: A row with an entry this close to 1 is decided.
SURE = 1e-12
#: Shares of a row, and weights relative to the largest, below this are zero: their product would leave the range of float64.
NEGLIGIBLE = 1e-150


class Uniforms(Protocol):
    """Gives numbers in [0, 1): a generator of NumPy, or a :class:`r2b._labels.forms.keyed.SeededStream`."""

    def random(self, n: int, /) -> Floats:
        """Give the next ``n`` numbers."""
        ...


def round_table(targets: ArrayLike, rng: Uniforms) -> Whole:
    """Round a table of counts at random so that every entry and every sum is rounded down or up and nothing changes on average.

    Parameters
    ----------
    targets : array of shape (M, L)
        Nonnegative real counts whose row sums are integers to 1e-6. Entries within 1e-9 of an integer are that integer.
    rng : Uniforms

    Returns
    -------
    counts : int64 array of shape (M, L)
        Each entry is the floor or the ceiling of its target, each row sum is exact, each column sum is the floor or the ceiling of the
        real column sum, and the expected value is ``targets``.

    Raises
    ------
    ShapeError, ParameterError
        The table is not two-dimensional, has negative or infinite entries, or a row sum that is not an integer.

    Examples
    --------
    >>> counts = round_table([[1.5, 0.5], [2.5, 0.5]], np.random.default_rng(0))
    >>> counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    ([2, 3], [4, 1])
    """
    table = np.asarray(targets, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0:
        check_matrix(table, "targets")
    if not (np.isfinite(table).all() and (table >= -SNAP).all()):
        raise ParameterError("targets has negative, infinite or missing entries.", remedy="Pass real counts that are not negative.")
    floor = np.floor(table)
    raw = table - floor
    _check_row_sums(table, raw)
    ups = raw > 1 - SNAP
    parts = np.where(ups | (raw < SNAP), 0.0, raw)
    _complete_rows(parts)
    counts = floor.astype(np.int64) + ups
    moved = np.abs(parts + ups - raw).sum(axis=0)
    parts = np.vstack([parts, _slack(parts.sum(axis=0), np.minimum(SNAP + moved, ROW_SUM_TOLERANCE))])

    counts = np.vstack([counts, np.zeros((1, table.shape[1]), np.int64)])
    counts += parts >= 1
    owner, column = np.nonzero((parts > 0) & (parts < 1))
    owners, lengths = np.unique(owner, return_counts=True)
    start = np.concatenate([[0], np.cumsum(lengths)])
    forest = Forest(table.shape[1], len(parts), capped=True, compiled=parts.size > COMPILE_FROM)
    full = forest.add(start, column, parts[owner, column], owners, np.ones(len(owners)), rng.random(len(owner)))
    counts[full] += 1
    # With the slack all sums are whole, so that no forest is left in exact arithmetic; what is left here is whole but for rounding errors.
    row, column, mass = forest.undecided()
    counts[row, column] += mass > 0.5
    return counts[:-1]


def _check_row_sums(table: Floats, raw: Floats) -> None:
    sums = raw.sum(axis=1)
    off = np.abs(sums - np.rint(sums))
    # Counts of 1e9 carry errors of 1e-7 each before they are handed in.
    bad = np.flatnonzero(off > ROW_SUM_TOLERANCE + 4 * np.finfo(np.float64).eps * table.sum(axis=1))
    if bad.size:
        problem = f"Row {bad[0]} of targets sums to {table[bad[0]].sum():.9g}, which is not an integer."
        remedy = "Pass one row per class of labels, its entries summing to the number of rows of that class."
        raise ParameterError(problem, remedy=remedy, row=int(bad[0]), total=float(table[bad[0]].sum()))


def _complete_rows(parts: Floats) -> None:
    """Spread what each row lacks to an integer sum over its fractional entries, none of which leaves [0, 1]."""
    sums = parts.sum(axis=1)
    gap = np.rint(sums) - sums
    room = np.where(gap[:, None] > 0, 1 - parts, parts) * (parts > 0)
    # In proportion to the room left, which always suffices: the nearest integer lies between 0 and the number of fractional entries.
    parts += room * (gap / np.maximum(room.sum(axis=1), np.finfo(np.float64).tiny))[:, None]
    np.clip(parts, 0, 1, out=parts)


def _slack(sums: Floats, tolerance: Floats) -> Floats:
    """Return an extra row that makes every column sum whole, so that no path of the forest ever has to be treated apart from a cycle."""
    return np.where(np.abs(sums - np.rint(sums)) <= tolerance, 0.0, np.ceil(sums) - sums)


class RowRounder:
    """Decides the classes of the rows of one group as they come, in order: what is decided does not depend on the blocks they come in.

    Parameters
    ----------
    n_classes : int
    stream : Uniforms
        Decides the few rows that are undecided at the end.
    heaviest : float
        Weight of the heaviest row of the group; 1 without weights.
    compiled : bool
        Whether to use the compiled kernel, where there is one. The results are the same.
    """

    def __init__(self, n_classes: int, stream: Uniforms, heaviest: float = 1.0, *, compiled: bool = False) -> None:
        self.n_classes, self.stream = n_classes, stream
        self.heaviest = max(heaviest, np.finfo(np.float64).tiny)
        self._forest = Forest(n_classes, n_classes, capped=False, compiled=compiled)

    def add(self, block: Array, numbers: Whole, draws: Whole, weight: Floats | None = None) -> tuple[Whole, Whole]:
        """Add rows with their numbers, draws and weights; give number and class of the rows, these and earlier ones, that are decided."""
        values = np.ones(len(block)) if weight is None else weight / self.heaviest
        row, column, chance = entries(block, int(numbers[0]) if len(numbers) else 0, above=NEGLIGIBLE)
        weighty = values >= NEGLIGIBLE
        weightless = np.flatnonzero(~weighty)
        drawn = sample_rows(block[weightless], uniforms_of(draws[weightless])).astype(np.int64)
        sure = (chance >= 1 - SURE) & weighty[row]
        weighty[row[sure]] = False
        open_ = weighty[row]
        decided, classes = [weightless, row[sure]], [drawn, column[sure]]
        row, column, chance = row[open_], column[open_], chance[open_]
        counts = np.bincount(row, minlength=len(block))
        owners = np.flatnonzero(counts)
        start = np.concatenate([[0], np.cumsum(counts[owners])])
        # One uniform per entry, needed or not, that follows from the row's draw and the class alone.
        uniforms = entry_uniforms(draws[row], column)
        full = self._forest.add(start, column, chance * values[row], numbers[owners], values[owners], uniforms)
        return np.concatenate([numbers[np.concatenate(decided)], full[0]]), np.concatenate([*classes, full[1]])

    def finish(self) -> tuple[Whole, Whole]:
        """Decide the rows that are left, fewer than there are classes; give their numbers and classes."""
        owner, column, mass = self._forest.undecided()
        last, place = np.unique(owner, return_inverse=True)
        table = np.zeros((last.size, self.n_classes))
        table[place, column] = mass
        if not last.size:
            return last, last
        chosen = round_table(table / table.sum(axis=1, keepdims=True), self.stream)
        return last, chosen @ np.arange(self.n_classes)


Found = tuple[Whole, Array, Whole]
"""Rows of each bin, and slot and draw of the rows that are brought home."""

_MOST_BINS = 12  # bits of a draw that its bin is told by, where pairs are few
_BIN_ENTRIES = 1 << 20
_FINEST_BINS = 16  # the same where draws are too many to be brought home at once
_FINE_ENTRIES = 1 << 22
_MOST_DRAWS = 1 << 21  # that are brought home in a pass: 25 MB, and several times that while they are sorted
_FEW_EACH = 4  # rows of a bin on average below which it is not divided again, however many bins there are
_SHARED = 0.01  # draws that coincide: far more than chance makes of different keys, even of billions
_COPIES = 8  # rows with a shared key that are not many, however few were looked at
_DEVIATIONS = 5.0  # half the width of a window, in standard deviations of the border


def whole_counts(counts: Array, channel: Floats, random_state: int) -> Whole:
    """Round what the rows of each (cell, class) pair should become to whole rows.

    Parameters
    ----------
    counts : ndarray of shape (n_cells, n_classes)
        Rows of each pair.
    channel : ndarray of shape (n_cells, n_classes, n_classes)
        P(new class | old class, cell).
    random_state : int

    Returns
    -------
    ndarray of shape (n_cells, n_classes, n_classes)
        Whole rows; every count of a cell is its fair value rounded up or down.
    """
    return np.stack([whole_cell(mine, channel[cell], cell, random_state) for cell, mine in enumerate(counts)])


def whole_cell(counts: Array, channel: Floats, cell: int, random_state: int) -> Whole:
    """Round what the rows of each class of one cell should become to whole rows; arguments as for :func:`whole_counts`, of this cell."""
    return round_table(counts[:, None] * channel, SeededStream(random_state, cell))


@dataclass(frozen=True, eq=False)
class Look:
    """What a pass over the rows is asked for.

    Attributes
    ----------
    n_slots : int
        Sets of rows in which borders are looked for: at first the pairs, then the bins of a slot in which a border lies.
    bits : int
        Bits of a draw that tell its bin within a slot; 0 where all draws are brought home instead.
    wanted : ndarray of shape (n_slots, n_bins), bool, optional
        Bins whose draws are brought home as well.
    path : tuple of (ndarray, int, int)
        How slots were divided before: the bins that are the new slots, the number of old ones, and the bits of a bin.
    """

    n_slots: int
    bits: int
    wanted: Flags | None = None
    path: tuple[tuple[Array, int, int], ...] = ()

    @property
    def used(self) -> int:
        """Bits of a draw that tell its slot."""
        return sum(bits for _, _, bits in self.path)

    @cached_property
    def _slots(self) -> list[Array]:
        """The new slot of every bin, or -1: made where rows are, since the bins alone are a fraction of it."""
        found = [np.full(n_slots << bits, -1, np.int32) for _, n_slots, bits in self.path]
        for index, (asked, _, _) in zip(found, self.path, strict=True):
            index[asked] = np.arange(len(asked))
        return found

    def __call__(self, pairs: Array, draws: Whole) -> Found:
        """Count some rows, and give the draws that are wanted."""
        slot, used = pairs.astype(np.int64), 0
        for index, (_, _, bits) in zip(self._slots, self.path, strict=True):
            slot, used = index.take(_bins(slot, draws, used, bits)), used + bits
            kept = np.flatnonzero(slot >= 0)
            slot, draws = slot[kept].astype(np.int64), draws[kept]
        if not self.bits:
            return np.empty(0, np.int64), slot.astype(np.int32), draws
        place = _bins(slot, draws, used, self.bits)
        mine = np.flatnonzero(self.wanted.ravel()[place]) if self.wanted is not None else np.empty(0, np.intp)
        return np.bincount(place, minlength=self.n_slots << self.bits), slot[mine].astype(np.int32), draws[mine]

    @staticmethod
    def merge(one: Found, other: Found) -> Found:
        """Put together what was found among rows and among later ones."""
        return one[0] + other[0], np.concatenate([one[1], other[1]]), np.concatenate([one[2], other[2]])


@dataclass(frozen=True, eq=False)
class Search:
    """Borders that are being looked for, pass by pass, until the draws near them are few.

    Attributes
    ----------
    known : ndarray of shape (n_pairs, n_classes - 1)
        Borders, as far as they are found.
    places, slots, ends : ndarray of shape (n_open,)
        Of the borders that are not: the place in ``known``, the slot, and the rows of the slot that come before.
    sizes : ndarray of shape (n_slots,)
        Rows of the slots.
    look : Look
        The next pass; it goes to where the rows are, and the rest stays.
    """

    known: Whole
    places: Whole
    slots: Whole
    ends: Whole
    sizes: Whole
    look: Look

    @classmethod
    def of(cls, counts: Whole) -> Search:
        """Plan the search for the borders of whole counts, of shape (n_pairs, n_classes)."""
        ends = np.cumsum(counts, axis=1)[:, :-1]
        rows = counts.sum(axis=1)
        known = np.where(ends > 0, np.int64(1) << BITS, np.int64(0))
        pair, border = np.nonzero((ends > 0) & (ends < rows[:, None]))
        places, ends = (pair * known.shape[1] + border).astype(np.int32), ends[pair, border]
        del border
        bits = _bits(len(counts), _BIN_ENTRIES, _MOST_BINS)
        size = rows[pair].astype(np.float64)
        middle = ends / size
        half = _DEVIATIONS * (np.sqrt(middle * (1.0 - middle) / size) + 1.0 / size)
        near = np.bincount(pair, (2.0 * half + 2.0 / (1 << bits)) * size, minlength=len(counts))  # rows of bins that a window touches
        if np.minimum(near, rows).sum() <= _MOST_DRAWS:
            wanted = np.zeros((len(counts), 1 << bits), bool)
            ranges = (np.clip(np.floor(each * (1 << bits)), 0, (1 << bits) - 1).astype(int) for each in (middle - half, middle + half))
            for one, low, high in zip(pair, *ranges, strict=True):
                wanted[one, low : high + 1] = True
            return cls(known, places, pair, ends, rows, Look(len(rows), bits, wanted))
        # Too many draws to bring home at once: count in finer bins first.
        return cls(known, places, pair, ends, rows, Look(len(rows), _bits(len(counts), _FINE_ENTRIES, _FINEST_BINS)))

    def borders(self, found: Found) -> Whole | Search:
        """Find the borders, of shape (n_pairs, n_classes - 1); or plan another pass where draws of some were not wanted yet."""
        (counted, slot, draw), look = found, self.look
        order = np.lexsort((draw, slot))
        slot, draw = slot[order].astype(np.int64), draw[order]
        _refuse_shared(int(((np.diff(slot) == 0) & (np.diff(draw) == 0)).sum()), len(draw))
        counted = counted if look.bits else np.bincount(slot, minlength=look.n_slots)
        if not np.array_equal(counted.reshape(look.n_slots, -1).sum(axis=1), self.sizes):
            problem = "The rows of a group and class are not those that were counted before."
            raise InputError(problem, remedy="Leave the table alone until its labels are written: write it to files, or persist it.")
        below = np.cumsum(counted)
        ends = (np.cumsum(self.sizes) - self.sizes)[self.slots] + self.ends
        here = np.searchsorted(below, ends, side="right")  # the bin of the first row that comes after the border
        rank = ends - (below[here] - counted[here])
        ready = np.full(len(here), not look.bits) if look.wanted is None else look.wanted.ravel()[here]
        inside = np.searchsorted(_bins(slot, draw, look.used, look.bits), here[ready])
        borders = self.known.copy()
        borders.ravel()[self.places[ready]] = draw[inside + rank[ready]]
        if ready.all():
            return borders
        asked, slots = np.unique(here[~ready], return_inverse=True)
        sizes, used = counted[asked], look.used + look.bits
        few = sizes.sum() <= max(_MOST_DRAWS, _FEW_EACH * len(asked))
        if not few and used == BITS:
            _refuse_shared(int(sizes.sum()), int(sizes.sum()))
        bits = 0 if few else _bits(len(asked), _FINE_ENTRIES, min(_FINEST_BINS, BITS - used))
        following = Look(len(asked), bits, None, (*look.path, (asked.astype(np.uint32), look.n_slots, look.bits)))
        return Search(borders, self.places[~ready], slots.astype(np.int32), rank[~ready], sizes, following)


def _bins(slots: Whole, draws: Whole, used: int, bits: int) -> Whole:
    """Give the bins of draws within their slots, told by so many bits after those that are used."""
    place = slots << bits
    place += (draws >> (BITS - used - bits)) & ((1 << bits) - 1)
    return place


def _bits(n_pairs: int, entries: int, most: int) -> int:
    return int(np.clip(np.log2(max(entries // max(n_pairs, 1), 1)), 2, most))


def _refuse_shared(n_shared: int, n_seen: int) -> None:
    """Refuse keys that many rows share: they would all get the same new class, and counts could not be kept."""
    # Few rows near a border may hold one pair of copies by chance, which says nothing of the table.
    if n_shared > _SHARED * n_seen and n_shared > min(_COPIES, n_seen // 4):
        problem = f"Of {n_seen:,} rows that were looked at, {n_shared:,} have a key that another row of their group and class has too."
        remedy = "Name columns that tell every row apart, such as key='id' or key=['person', 'year']."
        raise InputError(problem, remedy=remedy, n_shared=n_shared, n_seen=n_seen)


def picked(pairs: Array, draws: Whole, borders: Whole) -> Array:
    """Give the new class of rows: how many borders of their pair their draw has passed.

    Examples
    --------
    >>> picked(np.array([0, 0, 1]), np.array([3, 9, 0]), np.array([[5], [0]]))
    array([0, 1, 1], dtype=uint8)
    """
    n_classes = borders.shape[1] + 1
    width = 1 << max((n_classes - 1).bit_length(), 1)
    padded = np.full((len(borders), width), np.iinfo(np.int64).max)
    padded[:, : n_classes - 1] = borders
    return ends_passed(padded, pairs.astype(np.intp), draws).astype(smallest_unsigned(n_classes))


def handed_out(whole: Whole, pairs: Array, draws: Whole) -> Array:
    """Give rows in memory their new classes: of each pair as many as its row of whole counts says, in the order of the draws.

    Examples
    --------
    >>> handed_out(np.array([[1, 2]]), np.zeros(3, int), np.array([9, 4, 7])).tolist()
    [1, 0, 1]
    """
    found: Whole | Search = Search.of(whole)
    while isinstance(found, Search):
        found = found.borders(found.look(pairs, draws))
    return picked(pairs, draws, found)
