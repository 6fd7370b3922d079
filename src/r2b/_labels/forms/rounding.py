"""Class labels whose counts match a table or a set of distributions: every sum is rounded down or up, and nothing changes on average."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Flags, Floats, Whole, ends_passed, smallest_unsigned
from r2b._data.compute import parts_of
from r2b._labels.forms.forest import COMPILE_FROM, Forest
from r2b._labels.forms.keyed import BITS, SeededStream
from r2b._labels.forms.sampling import check_matrix
from r2b.errors import InputError, ParameterError

#: Targets this close to an integer are that integer.
SNAP = 1e-9
#: How far the sum of a row of targets may be from an integer.
ROW_SUM_TOLERANCE = 1e-6


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
        Nonnegative real counts whose row sums are integers to 1e-6. Entries within 1e-9 of an
        integer are that integer.
    rng : Uniforms

    Returns
    -------
    counts : int64 array of shape (M, L)
        Each entry is the floor or the ceiling of its target, each row sum is exact, each column sum
        is the floor or the ceiling of the real column sum, and the expected value is ``targets``.

    Raises
    ------
    ShapeError, ParameterError
        The table is not two-dimensional, has negative or infinite entries, or a row sum that is not
        an integer.

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
        raise ParameterError(
            "targets has negative, infinite or missing entries.",
            remedy="Pass real counts that are not negative.",
        )
    floor = np.floor(table)
    raw = table - floor
    _check_row_sums(table, raw)
    ups = raw > 1 - SNAP
    parts = np.where(ups | (raw < SNAP), 0.0, raw)
    _complete_rows(parts)
    counts = floor.astype(np.int64) + ups
    moved = np.abs(parts + ups - raw).sum(axis=0)
    parts = np.vstack(
        [parts, _slack(parts.sum(axis=0), np.minimum(SNAP + moved, ROW_SUM_TOLERANCE))]
    )

    counts = np.vstack([counts, np.zeros((1, table.shape[1]), np.int64)])
    counts += parts >= 1
    owner, column = np.nonzero((parts > 0) & (parts < 1))
    owners, lengths = np.unique(owner, return_counts=True)
    start = np.concatenate([[0], np.cumsum(lengths)])
    forest = Forest(table.shape[1], len(parts), capped=True, compiled=parts.size > COMPILE_FROM)
    full = forest.add(
        start, column, parts[owner, column], owners, np.ones(len(owners)), rng.random(len(owner))
    )
    counts[full] += 1
    # With the slack all sums are whole, so that no forest is left in exact arithmetic; what is left
    # here is whole but for rounding errors.
    row, column, mass = forest.undecided()
    counts[row, column] += mass > 0.5
    return counts[:-1]


def _check_row_sums(table: Floats, raw: Floats) -> None:
    sums = raw.sum(axis=1)
    off = np.abs(sums - np.rint(sums))
    # Counts of 1e9 carry errors of 1e-7 each before they are handed in.
    bad = np.flatnonzero(off > ROW_SUM_TOLERANCE + 4 * np.finfo(np.float64).eps * table.sum(axis=1))
    if bad.size:
        problem = (
            f"Row {bad[0]} of targets sums to {table[bad[0]].sum():.9g}, which is not an integer."
        )
        remedy = "Pass one row per class of labels, its entries summing to the number of rows of that class."
        raise ParameterError(
            problem, remedy=remedy, row=int(bad[0]), total=float(table[bad[0]].sum())
        )


def _complete_rows(parts: Floats) -> None:
    """Spread what each row lacks to an integer sum over its fractional entries, none of which leaves [0, 1]."""
    sums = parts.sum(axis=1)
    gap = np.rint(sums) - sums
    room = np.where(gap[:, None] > 0, 1 - parts, parts) * (parts > 0)
    # In proportion to the room left, which always suffices: the nearest integer lies between 0 and
    # the number of fractional entries.
    parts += room * (gap / np.maximum(room.sum(axis=1), np.finfo(np.float64).tiny))[:, None]
    np.clip(parts, 0, 1, out=parts)


def _slack(sums: Floats, tolerance: Floats) -> Floats:
    """Return an extra row that makes every column sum whole, so that no path of the forest ever has to be treated apart from a cycle."""
    return np.where(np.abs(sums - np.rint(sums)) <= tolerance, 0.0, np.ceil(sums) - sums)


Found = tuple[Whole, Array, Whole]
"""Rows of each bin, and slot and draw of the rows that are brought home."""

_MOST_BINS = 12  # bits of a draw that its bin is told by, where pairs are few
_BIN_ENTRIES = 1 << 20
_FINEST_BINS = 16  # the same where draws are too many to be brought home at once
_FINE_ENTRIES = 1 << 22
# that are brought home in a pass: 25 MB, and several times that while they are sorted
_MOST_DRAWS = 1 << 21
_AT_ONCE = 1 << 18  # bins, draws and borders that are looked at together on the way home
# rows of a bin on average below which it is not divided again, however many bins there are
_FEW_EACH = 4
# draws that coincide: far more than chance makes of different keys, even of billions
_SHARED = 0.01
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
    # filled cell by cell: a list of tables would be held beside it
    whole = np.empty(channel.shape, np.int64)
    for cell, mine in enumerate(counts):
        whole[cell] = whole_cell(mine, channel[cell], cell, random_state)
    return whole


def whole_cell(counts: Array, channel: Floats, cell: int, random_state: int) -> Whole:
    """Round what the rows of each class of one cell should become to whole rows; arguments as for :func:`whole_counts`, of this cell."""
    return round_table(counts[:, None] * channel, SeededStream(random_state, cell))


@dataclass(frozen=True, eq=False)
class Look:
    """What a pass over the rows is asked for.

    Attributes
    ----------
    n_slots : int
        Sets of rows in which borders are looked for: at first the pairs, then the bins of a slot in
        which a border lies.
    bits : int
        Bits of a draw that tell its bin within a slot; 0 where all draws are brought home instead.
    wanted : ndarray of shape (n_slots, n_bins), bool, optional
        Bins whose draws are brought home as well.
    path : tuple of (ndarray, int, int)
        How slots were divided before: the bins that are the new slots, the number of old ones, and
        the bits of a bin.
    counter : str
        The type in which rows are counted.
    """

    n_slots: int
    bits: int
    wanted: Flags | None = None
    path: tuple[tuple[Array, int, int], ...] = ()
    counter: str = "<i8"

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
        mine = (
            np.flatnonzero(self.wanted.ravel()[place])
            if self.wanted is not None
            else np.empty(0, np.intp)
        )
        counted = np.zeros(self.n_slots << self.bits, self.counter)
        # bincount would count in numbers twice as long, of which there are millions
        np.add.at(counted, place, counted.dtype.type(1))
        return counted, slot[mine].astype(np.int32), draws[mine]

    @staticmethod
    def merge(one: Found, other: Found) -> Found:
        """Put together what was found among rows and among later ones."""
        return (
            one[0] + other[0],
            np.concatenate([one[1], other[1]]),
            np.concatenate([one[2], other[2]]),
        )


@dataclass(frozen=True, eq=False)
class Search:
    """Borders that are being looked for, pass by pass, until the draws near them are few.

    Attributes
    ----------
    known : ndarray of shape (n_pairs, n_classes - 1)
        Borders, as far as they are found; those that a pass tells are filled in.
    places, slots, ends : ndarray of shape (n_open,)
        Of the borders that are not: the place in ``known``, the slot, rising, and the rows of the
        slot that come before.
    sizes : ndarray of shape (n_slots,)
        Rows of the slots.
    look : Look
        The next pass; it goes to where the rows are, and the rest stays.
    """

    known: Whole
    places: Array
    slots: Array
    ends: Array
    sizes: Whole
    look: Look

    @classmethod
    def of(cls, counts: Whole) -> Search:
        """Plan the search for the borders of whole counts, of shape (n_pairs, n_classes)."""
        n_pairs, rows = len(counts), counts.sum(axis=1)
        ends = np.cumsum(counts, axis=1)[:, :-1]
        known = np.where(ends > 0, np.int64(1) << BITS, np.int64(0))
        open_ = (ends > 0) & (ends < rows[:, None])
        counter = "<u4" if rows.max(initial=0) < 1 << 32 else "<i8"
        places, ends = np.flatnonzero(open_).astype(np.int32), ends[open_].astype(counter)
        pair = (places // max(known.shape[1], 1)).astype(np.int32)
        bits, near = _bits(n_pairs, _BIN_ENTRIES, _MOST_BINS), np.zeros(n_pairs)
        for part in parts_of(len(pair), _AT_ONCE):
            size, _, half = _windows(ends[part], rows[pair[part]])
            # rows of bins that a window touches
            np.add.at(near, pair[part], (2.0 * half + 2.0 / (1 << bits)) * size)
        # too many draws to bring home at once: count in finer bins first
        if np.minimum(near, rows).sum() > _MOST_DRAWS:
            fine = Look(n_pairs, _bits(n_pairs, _FINE_ENTRIES, _FINEST_BINS), counter=counter)
            return cls(known, places, pair, ends, rows, fine)
        # Windows begin and end at bins: a bin is wanted where more have begun than ended.
        begun = np.zeros((n_pairs, (1 << bits) + 1), np.int32)
        for part in parts_of(len(pair), _AT_ONCE):
            _, middle, half = _windows(ends[part], rows[pair[part]])
            low, high = (
                np.clip(each * (1 << bits), 0, (1 << bits) - 1).astype(np.intp)
                for each in (middle - half, middle + half)
            )
            np.add.at(begun, (pair[part], low), 1)
            np.add.at(begun, (pair[part], high + 1), -1)
        wanted = np.cumsum(begun, axis=1, out=begun)[:, :-1] > 0
        return cls(known, places, pair, ends, rows, Look(n_pairs, bits, wanted, counter=counter))

    def borders(self, found: Found) -> Whole | Search:
        """Find the borders, of shape (n_pairs, n_classes - 1); or plan another pass where draws of some were not wanted yet."""
        (counted, slot, draw), look = found, self.look
        shared, left = 0, []
        for part in parts_of(
            look.n_slots, max(1, _AT_ONCE * look.n_slots // max(len(counted) + len(draw), 1))
        ):
            mine = np.flatnonzero((slot >= part.start) & (slot < part.stop))
            mine = mine[np.lexsort((draw[mine], slot[mine]))]
            here, drawn = slot[mine].astype(np.int64) - part.start, draw[mine]
            shared += int(((np.diff(here) == 0) & (np.diff(drawn) == 0)).sum())
            rows = (
                counted[part.start << look.bits : part.stop << look.bits]
                if look.bits
                else np.bincount(here, minlength=_length(part))
            )
            left.append(self._settled(part, rows, here, drawn))
        _refuse_shared(shared, len(draw))
        places, asked, ends, sizes = (np.concatenate(each) for each in zip(*left, strict=True))
        if not len(places):
            return self.known
        # borders rise, and so do their bins: those of one bin are next to each other
        new = np.diff(asked, prepend=-1) > 0
        asked, sizes, used = asked[new], sizes[new], look.used + look.bits
        few = sizes.sum() <= max(_MOST_DRAWS, _FEW_EACH * len(asked))
        if not few and used == BITS:
            _refuse_shared(int(sizes.sum()), int(sizes.sum()))
        bits = 0 if few else _bits(len(asked), _FINE_ENTRIES, min(_FINEST_BINS, BITS - used))
        path = (*look.path, (asked.astype(np.uint32), look.n_slots, look.bits))
        slots = np.cumsum(new, dtype=np.int32) - 1
        return Search(
            self.known,
            places,
            slots,
            ends.astype(look.counter),
            sizes,
            Look(len(asked), bits, None, path, look.counter),
        )

    def _settled(
        self, part: slice, counted: Array, slot: Whole, draw: Whole
    ) -> tuple[Array, Whole, Whole, Whole]:
        """Fill in borders of some slots from the rows of their bins and the draws, in order; give place, bin, rank, rows of the others."""
        look, sizes = self.look, self.sizes[part]
        if not np.array_equal(counted.reshape(len(sizes), -1).sum(axis=1), sizes):
            problem = "The rows of a group and class are not those that were counted before."
            raise InputError(
                problem,
                remedy="Leave the table alone until its labels are written: write it to files, or persist it.",
            )
        mine = slice(*np.searchsorted(self.slots, [part.start, part.stop]).tolist())
        below, places = np.cumsum(counted, dtype=np.int64), self.places[mine]
        ends = (np.cumsum(sizes) - sizes)[self.slots[mine] - part.start] + self.ends[mine]
        # the bin of the first row that comes after the border
        here = np.searchsorted(below, ends, side="right")
        rank, asked = ends - (below[here] - counted[here]), here + (part.start << look.bits)
        ready = (
            np.full(len(here), not look.bits) if look.wanted is None else look.wanted.ravel()[asked]
        )
        inside = np.searchsorted(_bins(slot, draw, look.used, look.bits), here[ready])
        self.known.ravel()[places[ready]] = draw[inside + rank[ready]]
        return places[~ready], asked[~ready], rank[~ready], counted[here[~ready]].astype(np.int64)


def _length(part: slice) -> int:
    return int(part.stop - part.start)


def _windows(ends: Array, rows: Whole) -> tuple[Floats, Floats, Floats]:
    """Give the rows of the pairs of borders, and where each border is expected among the draws: the middle and half the width."""
    size = rows.astype(np.float64)
    middle = ends / size
    return size, middle, _DEVIATIONS * (np.sqrt(middle * (1.0 - middle) / size) + 1.0 / size)


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
        remedy = (
            "Name columns that tell every row apart, such as key='id' or key=['person', 'year']."
        )
        raise InputError(problem, remedy=remedy, n_shared=n_shared, n_seen=n_seen)


def picked(pairs: Array, draws: Whole, borders: Whole) -> Array:
    """Give the new class of rows: how many borders of their pair their draw has passed.

    Examples
    --------
    >>> picked(np.array([0, 0, 1]), np.array([3, 9, 0]), np.array([[5], [0]]))
    array([0, 1, 1], dtype=uint8)
    """
    return past(pairs, draws, padded(borders), borders.shape[1] + 1)


def padded(borders: Whole) -> Whole:
    """Give the borders of each pair as a row whose length is a power of two, for :func:`past`."""
    ends = np.full(
        (len(borders), 1 << max(borders.shape[1].bit_length(), 1)), np.iinfo(np.int64).max
    )
    ends[:, : borders.shape[1]] = borders
    return ends


def past(pairs: Array, draws: Whole, ends: Whole, n_classes: int) -> Array:
    """Give the new class of rows, of padded borders: they are padded once, however many batches of rows there are."""
    return ends_passed(ends, pairs.astype(np.intp), draws).astype(smallest_unsigned(n_classes))


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
