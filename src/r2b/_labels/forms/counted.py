"""Rounding of class labels that live in many places: whole counts for the table, and for each row a comparison.

Within a (cell, class) pair the rows are put in the order of their draws; the first so many get the first new class, the next so many the
second, and so on. A row needs no other row to know its own: only the draw at which one new class ends and the next begins. These borders
are order statistics of the draws. As draws are uniform, a border is known beforehand up to a narrow window, and one pass that counts draws
in bins and brings home the few in the windows finds it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.integers import smallest_unsigned
from r2b._labels.forms.keyed import BITS, SeededStream
from r2b._labels.forms.rounding import round_table
from r2b.errors import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Array = np.ndarray[Any, np.dtype[Any]]
Found = tuple[Integers, Integers, Integers]
"""Rows of each (pair, bin), and pair and draw of the rows in the windows."""

_MOST_BINS = 12  # bits of a draw that its bin is told by, where pairs are few
_BIN_ENTRIES = 1 << 20
_SHARED = 0.01  # draws that coincide: far more than chance makes of different keys, even of billions
_DEVIATIONS = 8.0  # half the width of a window, in standard deviations of the border


def whole_counts(counts: Array, channel: Floats, random_state: int) -> Integers:
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
    cells = zip(counts, channel, strict=True)
    return np.stack([whole_cell(mine, distribution, cell, random_state) for cell, (mine, distribution) in enumerate(cells)])


def whole_cell(counts: Array, channel: Floats, cell: int, random_state: int) -> Integers:
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
    """

    ends: Integers
    rows: Integers
    bits: int
    wanted: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: Integers) -> Search:
        """Plan the search for the borders of whole counts, of shape (n_pairs, n_classes)."""
        ends = np.cumsum(counts, axis=1)[:, :-1]
        rows = counts.sum(axis=1)
        bits = int(np.clip(np.log2(max(_BIN_ENTRIES // max(len(counts), 1), 1)), 2, _MOST_BINS))
        wanted = np.zeros((len(counts), 1 << bits), bool)
        pair, border = np.nonzero((ends > 0) & (ends < rows[:, None]))
        size = rows[pair].astype(np.float64)
        middle = ends[pair, border] / size
        half = _DEVIATIONS * (np.sqrt(middle * (1.0 - middle) / size) + 1.0 / size)
        first, last = (np.clip(np.floor(each * (1 << bits)), 0, (1 << bits) - 1).astype(int) for each in (middle - half, middle + half))
        for one, low, high in zip(pair, first, last, strict=True):
            wanted[one, low : high + 1] = True
        return cls(ends, rows, bits, wanted)

    def look(self, pairs: Array, draws: Integers) -> Found:
        """Count some rows, and give the draws that are wanted."""
        bins = draws >> (BITS - self.bits)
        place = pairs.astype(np.int64) << self.bits
        place += bins
        counted = np.bincount(place, minlength=self.wanted.size)
        mine = np.flatnonzero(self.wanted.ravel()[place])
        return counted, pairs[mine].astype(np.int64), draws[mine]

    def borders(self, found: Iterable[Found]) -> Integers | Search:
        """Find the borders, of shape (n_pairs, n_classes - 1); or plan another pass where a window missed one."""
        counted = np.zeros(self.wanted.size, np.int64)
        pairs, draws = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for counts, pair, draw in found:
            counted += counts
            pairs.append(pair)
            draws.append(draw)
        below = np.cumsum(counted.reshape(self.wanted.shape), axis=1)
        pair, draw = np.concatenate(pairs), np.concatenate(draws)
        order = np.lexsort((draw, pair))
        pair, draw = pair[order], draw[order]
        _refuse_shared(int(((np.diff(pair) == 0) & (np.diff(draw) == 0)).sum()), len(draw))
        borders = np.where(self.ends > 0, np.int64(1) << BITS, np.int64(0))
        missed = np.zeros_like(self.wanted)
        starts = np.searchsorted(pair, np.arange(len(self.ends) + 1))
        for one, border in zip(*np.nonzero((self.ends > 0) & (self.ends < self.rows[:, None])), strict=True):
            end = int(self.ends[one, border])
            here = int(np.searchsorted(below[one], end, side="right"))  # the bin of the first row that comes after the border
            if not self.wanted[one, here]:
                missed[one, here] = True
                continue
            mine = draw[starts[one] : starts[one + 1]]
            before = int(below[one, here - 1]) if here else 0
            inside = int(np.searchsorted(mine, np.int64(here) << (BITS - self.bits)))
            borders[one, border] = mine[inside + end - before]
        return Search(self.ends, self.rows, self.bits, self.wanted | missed) if missed.any() else borders


def _refuse_shared(n_shared: int, n_seen: int) -> None:
    """Refuse keys that many rows share: they would all get the same new class, and counts could not be kept."""
    if n_shared > _SHARED * n_seen:
        raise InputError(
            f"Of {n_seen:,} rows that were looked at, {n_shared:,} have a key that another row of their group and class has too.",
            remedy="Name columns that tell every row apart, such as key='id' or key=['person', 'year'].",
            n_shared=n_shared,
            n_seen=n_seen,
        )


def picked(pairs: Array, draws: Integers, borders: Integers) -> Array:
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
    flat = padded.ravel()
    first = pairs.astype(np.intp) * width
    place = first.copy()
    half = width >> 1
    while half:
        # take, not indexing: it is twice as fast, and the places are in range by construction.
        place += half * (flat.take(place + (half - 1)) <= draws)
        half >>= 1
    return np.asarray((place - first).astype(smallest_unsigned(n_classes)))


def handed_out(whole: Integers, pairs: Array, draws: Integers) -> Array:
    """Give rows in memory their new classes: of each pair as many as its row of whole counts says, in the order of the draws.

    Examples
    --------
    >>> handed_out(np.array([[1, 2]]), np.zeros(3, int), np.array([9, 4, 7])).tolist()
    [1, 0, 1]
    """
    found: Integers | Search = Search.of(whole)
    while isinstance(found, Search):
        found = found.borders([found.look(pairs, draws)])
    return picked(pairs, draws, found)
