"""Class labels whose counts match a table or a set of distributions: every sum is rounded down or up, and nothing changes on average."""

from __future__ import annotations

from dataclasses import dataclass
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


Found = tuple[Whole, Whole, Whole]
"""Rows of each (pair, bin), and pair and draw of the rows in the windows."""

_MOST_BINS = 12  # bits of a draw that its bin is told by, where pairs are few
_BIN_ENTRIES = 1 << 20
_FINEST_BINS = 16  # the same where draws are too many to be brought home at once
_FINE_ENTRIES = 1 << 22
_MOST_DRAWS = 1 << 23  # that are brought home in a pass: 128 MB
_SHARED = 0.01  # draws that coincide: far more than chance makes of different keys, even of billions
_DEVIATIONS = 8.0  # half the width of a window, in standard deviations of the border


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
class Search:
    """What a pass over the rows is asked for.

    Attributes
    ----------
    ends : ndarray of shape (n_pairs, n_classes - 1)
        Rows of a pair that come before each border.
    rows : ndarray of shape (n_pairs,)
    bits : int
        Bits of a draw that tell its bin.
    wanted : ndarray of shape (n_pairs, n_bins), bool
        Bins whose draws are brought home.
    below : ndarray of shape (n_pairs * n_bins,), optional
        Rows in each bin and those before it, once they are counted.
    known : ndarray of shape (n_pairs, n_classes - 1), optional
        Borders, as far as they were found in earlier passes.
    asked : ndarray of shape (n_pairs * n_bins,), bool, optional
        Bins whose draws were brought home in earlier passes.
    """

    ends: Whole
    rows: Whole
    bits: int
    wanted: Flags
    below: Whole | None = None
    known: Whole | None = None
    asked: Flags | None = None

    @classmethod
    def of(cls, counts: Whole) -> Search:
        """Plan the search for the borders of whole counts, of shape (n_pairs, n_classes)."""
        ends = np.cumsum(counts, axis=1)[:, :-1]
        rows = counts.sum(axis=1)
        bits = _bits(len(counts), _BIN_ENTRIES, _MOST_BINS)
        wanted = np.zeros((len(counts), 1 << bits), bool)
        pair, border = np.nonzero((ends > 0) & (ends < rows[:, None]))
        size = rows[pair].astype(np.float64)
        middle = ends[pair, border] / size
        half = _DEVIATIONS * (np.sqrt(middle * (1.0 - middle) / size) + 1.0 / size)
        first, last = (np.clip(np.floor(each * (1 << bits)), 0, (1 << bits) - 1).astype(int) for each in (middle - half, middle + half))
        for one, low, high in zip(pair, first, last, strict=True):
            wanted[one, low : high + 1] = True
        if (wanted.sum(axis=1) * (rows / (1 << bits))).sum() <= _MOST_DRAWS:
            return cls(ends, rows, bits, wanted)
        # Too many draws to bring home at once: count in finer bins first, and bring those of the bins that borders lie in.
        bits = _bits(len(counts), _FINE_ENTRIES, _FINEST_BINS)
        return cls(ends, rows, bits, np.zeros((len(counts), 1 << bits), bool))

    def look(self, pairs: Array, draws: Whole) -> Found:
        """Count some rows, and give the draws that are wanted."""
        place = pairs.astype(np.int64) << self.bits
        place += draws >> (BITS - self.bits)
        counted = np.bincount(place, minlength=self.wanted.size) if self.below is None else np.empty(0, np.int64)
        mine = np.flatnonzero(self.wanted.ravel()[place])
        return counted, pairs[mine].astype(np.int64), draws[mine]

    @staticmethod
    def merge(one: Found, other: Found) -> Found:
        """Put together what was found among rows and among later ones."""
        return one[0] + other[0], np.concatenate([one[1], other[1]]), np.concatenate([one[2], other[2]])

    def borders(self, found: Found) -> Whole | Search:
        """Find the borders, of shape (n_pairs, n_classes - 1); or plan another pass where draws of some were not wanted yet."""
        counted, pair, draw = found
        below = np.cumsum(counted) if self.below is None else self.below
        order = np.lexsort((draw, pair))
        pair, draw = pair[order], draw[order]
        _refuse_shared(int(((np.diff(pair) == 0) & (np.diff(draw) == 0)).sum()), len(draw))
        borders = np.where(self.ends > 0, np.int64(1) << BITS, np.int64(0)) if self.known is None else self.known.copy()
        n_bins = 1 << self.bits
        one, border = np.nonzero((self.ends > 0) & (self.ends < self.rows[:, None]))
        starts = np.concatenate([[0], below[n_bins - 1 :: n_bins]])
        ends = starts[one] + self.ends[one, border]
        if (ends >= starts[one + 1]).any():
            problem = "There are fewer rows of a group and class than were counted."
            raise InputError(problem, remedy="Leave the table alone until its labels are written: write it to files, or persist it.")
        here = np.searchsorted(below, ends, side="right")  # the bin of the first row that comes after the border
        ready = self.wanted.ravel()[here]
        before = np.where(here > 0, below[here - 1], 0)
        inside = np.searchsorted((pair << self.bits) + (draw >> (BITS - self.bits)), here[ready])
        borders[one[ready], border[ready]] = draw[inside + (ends - before)[ready]]
        asked = np.zeros(self.wanted.size, bool) if self.asked is None else self.asked
        open_ = np.unique(here[~(ready | asked[here])])
        if not len(open_):
            return borders
        # As many of the bins that are left as fit.
        n_rows = np.diff(below, prepend=0)[open_]
        wanted = np.zeros(self.wanted.size, bool)
        wanted[open_[: max(1, int(np.searchsorted(np.cumsum(n_rows), _MOST_DRAWS, side="right")))]] = True
        return Search(self.ends, self.rows, self.bits, wanted.reshape(self.wanted.shape), below, borders, asked | self.wanted.ravel())


def _bits(n_pairs: int, entries: int, most: int) -> int:
    return int(np.clip(np.log2(max(entries // max(n_pairs, 1), 1)), 2, most))


def _refuse_shared(n_shared: int, n_seen: int) -> None:
    """Refuse keys that many rows share: they would all get the same new class, and counts could not be kept."""
    if n_shared > _SHARED * n_seen:
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
