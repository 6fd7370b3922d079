"""Rounding of probabilities to one class per row, which keeps class counts and expectations.

The method is dependent rounding (Gandhi, Khuller, Parthasarathy and Srinivasan, J. ACM 53, 2006).
Rows and classes are the two sides of a bipartite graph; its edges are the entries strictly between
0 and full. Along a cycle every row and every class meets two edges, so adding a mass to every other
edge and subtracting it from the rest changes no sum. The mass is the largest that keeps all entries
in range, up or down, with the probabilities under which nothing changes on average; at least one
entry settles. Undecided entries therefore form a forest. Rows are added one at a time.

Class labels without weights need no rounding row by row: the table of counts (old class by new
class) of each cell is rounded, and the rows of an old class get their new classes in the order of
their draws (:mod:`r2b._labels.draws`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import BLOCK_ROWS, Array, Floats, Whole, count_ends, smallest_unsigned
from r2b._data.compute import compiled, in_order, parts_of
from r2b._labels.draws import BITS, SeededStream, entry_uniforms, uniforms_of
from r2b._labels.sampling import (
    block_length,
    positive_entries,
    sample_rows,
)
from r2b.errors import InputError

# Lists of Python numbers when interpreted (four times as fast as arrays there), arrays when
# compiled; the results are the same.
Vector = Any

COMPILE_FROM = 200_000  # entries (rows times classes) from which compiling is faster
SNAP = 1e-9  # targets and probabilities this close to an integer are that integer
DEVIATIONS = 5.0  # half the width of the window around a border, in standard deviations


def settle(
    start: Vector,
    classes: Vector,
    masses: Vector,
    owners: Vector,
    sizes: Vector,
    uniforms: Vector,
    capped: bool,
    n_classes: int,
    forest: tuple[Vector, ...],
    full: tuple[Vector, Vector],
) -> int:
    """Add rows to the forest, entry by entry, and return how many entries became full.

    Owners and classes of full entries are listed in ``full``. Nodes are the classes 0..L-1, then
    the slots of undecided rows; ``value[node]`` is the entry on the edge from ``node`` to
    ``parent[node]`` (-1 at a root). ``degree[slot]`` counts the unsettled entries of a row, those
    not yet added included. Without ``capped`` an entry settles only at 0, and a row of one class
    fills its last entry. With ``capped`` entries also settle at 1, and rows may hold more than one
    full entry.
    """
    parent, value, degree, owner, size, free, n_free, cycle = forest
    hits = 0
    for i in range(len(owners)):
        n_free[0] -= 1
        slot = free[n_free[0]]
        row = n_classes + slot
        degree[slot] = start[i + 1] - start[i]
        owner[slot] = owners[i]
        size[slot] = sizes[i]
        parent[row] = -1
        for e in range(start[i], start[i + 1]):
            if degree[slot] == 1:
                # The other entries settled together; the sum of the row is whole, so this entry is
                # whole but for rounding errors.
                if masses[e] + masses[e] > size[slot]:
                    full[0][hits] = owner[slot]
                    full[1][hits] = classes[e]
                    hits += 1
                degree[slot] = 0
                free[n_free[0]] = slot
                n_free[0] += 1
                break
            _make_root(row, parent, value)
            length = 0
            node = classes[e]
            while node >= 0:
                cycle[length] = node
                length += 1
                node = parent[node]
            parent[row] = classes[e]
            value[row] = masses[e]
            # Otherwise two trees became one.
            if cycle[length - 1] == row:
                hits = _shift_mass(length, uniforms[e], capped, n_classes, forest, full, hits)
    return hits


def _make_root(row: int, parent: Vector, value: Vector) -> None:
    """Make a row the root of its tree by turning the edges above it."""
    below = -1
    carried = 0.0
    node = row
    while node >= 0:
        above = parent[node]
        next_carried = value[node]
        parent[node] = below
        value[node] = carried
        below = node
        carried = next_carried
        node = above


def _shift_mass(
    length: int,
    uniform: float,
    capped: bool,
    n_classes: int,
    forest: tuple[Vector, ...],
    full: tuple[Vector, Vector],
    hits: int,
) -> int:
    """Shift mass around a cycle (class, row, class, row, ...) until an entry settles.

    The edges of each pair (class, row) are two entries of that row. Return how many entries are
    full then.
    """
    parent, value, degree, owner, size, free, n_free, cycle = forest
    up = np.inf
    down = np.inf
    for j in range(0, length, 2):
        a = value[cycle[j]]
        b = value[cycle[j + 1]]
        up = min(up, a)
        down = min(down, b)
        if capped:
            up = min(up, 1.0 - b)
            down = min(down, 1.0 - a)
    # up with probability down / (up + down), otherwise down: no change on average.
    step = up if uniform * (up + down) < down else -down
    for j in range(0, length, 2):
        k = cycle[j]
        r = cycle[j + 1]
        slot = r - n_classes
        # Exactly 0 or 1 where the step is the distance to 0 or 1, in floating point too: x - x, and
        # x + (1 - x) for x in [0, 1].
        a = value[k] - step
        b = value[r] + step
        value[k] = a
        value[r] = b
        a_done = a <= 0.0 or (capped and a >= 1.0)
        b_done = b <= 0.0 or (capped and b >= 1.0)
        degree[slot] -= int(a_done) + int(b_done)
        if degree[slot] == 1 and a_done != b_done:
            # The last entry of a row of whole sum is whole but for rounding errors.
            a_done = True
            b_done = True
            degree[slot] = 0
        if a_done:
            if a + a > size[slot]:
                full[0][hits] = owner[slot]
                full[1][hits] = k
                hits += 1
            parent[k] = -1
        if b_done:
            if b + b > size[slot]:
                full[0][hits] = owner[slot]
                full[1][hits] = parent[r]
                hits += 1
            parent[r] = -1
        if degree[slot] == 0:
            free[n_free[0]] = slot
            n_free[0] += 1
    return hits


@cache
def _compiled_settle() -> Callable[..., int] | None:
    """Return the compiled kernel, or None without numba."""
    try:
        return compiled(settle, parts=(_make_root, _shift_mass))
    except ImportError:
        return None


class DependentRounding:
    """The undecided entries of the rows added so far.

    Parameters
    ----------
    n_classes : int
    n_slots : int
        Most rows that can be undecided at once. Without ``capped`` fewer rows than classes are
        undecided, so ``n_classes`` slots are enough.
    capped : bool
        Whether an entry also settles at 1 while its row continues with the rest.
    compiled : bool
        Whether to use the compiled kernel if there is one. The results are the same.

    Examples
    --------
    >>> forest = DependentRounding(n_classes=2, n_slots=2, capped=False, compiled=False)
    >>> halves = np.array([0.5, 0.5, 0.5, 0.5])
    >>> rows, classes = np.array([7, 7, 8, 8]), np.array([0, 1, 0, 1])
    >>> decided, chosen = forest.add(rows, classes, halves, np.ones(4), np.zeros(4))
    >>> sorted(decided.tolist()), sorted(chosen.tolist())
    ([7, 8], [0, 1])
    """

    def __init__(self, n_classes: int, n_slots: int, *, capped: bool, compiled: bool) -> None:
        self.n_classes, self.capped = n_classes, capped
        kernel = _compiled_settle() if compiled else None
        self._kernel: Callable[..., int] = settle if kernel is None else kernel
        self._listed = kernel is None
        n_nodes = n_classes + n_slots
        parent, value = np.full(n_nodes, -1, np.int64), np.zeros(n_nodes)
        degree, owner, size = (np.zeros(n_slots, kind) for kind in (np.int64, np.int64, float))
        free, n_free = np.arange(n_slots)[::-1], np.array([n_slots])
        cycle = np.zeros(n_nodes + 1, np.int64)
        state = (parent, value, degree, owner, size, free, n_free, cycle)
        self._state = tuple(map(self._vector, state))

    def _vector(self, array: Array) -> Vector:
        # Contiguous, because the kernel is compiled once per memory layout.
        return array.tolist() if self._listed else np.ascontiguousarray(array)

    def add(
        self, rows: Whole, classes: Whole, masses: Floats, sizes: Floats, uniforms: Floats
    ) -> tuple[Whole, Whole]:
        """Add entries; return row and class of those, of any row so far, that became full.

        All entries of a row, two or more, come together and in the order of the rows. Each has the
        size at which its row is full, and a mass strictly between 0 and that.
        """
        owners, first = np.unique(rows, return_index=True)
        start, sizes = np.append(first, len(rows)), sizes[first]
        room = np.zeros(len(masses) + len(self._state[0]), np.int64)
        full = self._vector(room), self._vector(room.copy())
        given = [self._vector(array) for array in (start, classes, masses, owners, sizes, uniforms)]
        hits = self._kernel(*given, self.capped, self.n_classes, self._state, full)
        return np.array(full[0][:hits], np.int64), np.array(full[1][:hits], np.int64)

    def undecided(self) -> tuple[Whole, Whole, Floats]:
        """Return owner, class and mass of the entries that have not settled."""
        parent, value, _, owner = (np.asarray(each) for each in self._state[:4])
        node = np.flatnonzero(parent >= 0)
        above = parent[node]
        # One end of each edge is a class, the other a row; rows have the higher numbers.
        owner = owner[np.maximum(node, above) - self.n_classes]
        return owner, np.minimum(node, above), value[node]


def round_table(targets: ArrayLike, rng: SeededStream | np.random.Generator) -> Whole:
    """Round a table of counts at random so that sums stay and nothing changes on average.

    Parameters
    ----------
    targets : array of shape (M, L)
        Counts, none negative, whose row sums are integers but for rounding. Entries within 1e-9 of
        an integer are that integer.
    rng : SeededStream or Generator

    Returns
    -------
    counts : int64 array of shape (M, L)
        Each entry is the floor or the ceiling of its target, each row sum is exact, each column sum
        is the floor or the ceiling of the real column sum, and the expected value is ``targets``.

    Examples
    --------
    >>> counts = round_table([[1.5, 0.5], [2.5, 0.5]], np.random.default_rng(0))
    >>> counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    ([2, 3], [4, 1])
    """
    table = np.asarray(targets, dtype=np.float64)
    n_classes = table.shape[1]
    floor = np.floor(table)
    raw = table - floor
    ups = raw > 1 - SNAP
    parts = np.where(ups | (raw < SNAP), 0.0, raw)
    _complete_rows(parts)
    # One more row makes every column sum whole, so that paths need no treatment beside cycles.
    sums, tolerance = parts.sum(axis=0), SNAP + np.abs(parts + ups - raw).sum(axis=0)
    near = np.abs(sums - np.rint(sums)) <= np.minimum(tolerance, 1e3 * SNAP)
    parts = np.vstack([parts, np.where(near, 0.0, np.ceil(sums) - sums)])
    counts = np.vstack([floor.astype(np.int64) + ups, np.zeros((1, n_classes), np.int64)])
    counts += parts >= 1
    row, column = np.nonzero((parts > 0) & (parts < 1))
    rounding = DependentRounding(
        n_classes, len(parts), capped=True, compiled=parts.size > COMPILE_FROM
    )
    masses, ones = parts[row, column], np.ones(len(row))
    counts[rounding.add(row, column, masses, ones, rng.random(len(row)))] += 1
    # All sums are whole, so what is left is whole but for rounding errors.
    row, column, mass = rounding.undecided()
    counts[row, column] += mass > 0.5
    return counts[:-1]


def _complete_rows(parts: Floats) -> None:
    """Spread what each row lacks to an integer sum over its fractional entries, inside [0, 1]."""
    sums = parts.sum(axis=1)
    gap = np.rint(sums) - sums
    # In proportion to the room left. That suffices: the nearest integer lies between 0 and the
    # number of fractional entries.
    room = np.where(gap[:, None] > 0, 1 - parts, parts) * (parts > 0)
    parts += room * (gap / np.maximum(room.sum(axis=1), np.finfo(np.float64).tiny))[:, None]
    np.clip(parts, 0, 1, out=parts)


def whole_counts(counts: Array, channel: Floats, random_state: int, first: int = 0) -> Whole:
    """Round how many rows of each cell and old class become each new class.

    Parameters
    ----------
    counts : ndarray of shape (n_cells, n_old)
        Rows of each pair of cell and old class.
    channel : ndarray of shape (n_cells, n_old, n_classes)
        P(new class | old class, cell).
    random_state : int
    first : int
        The number of the first cell.

    Returns
    -------
    ndarray of shape (n_cells, n_old, n_classes)
        Every class count of a cell is its fair value rounded up or down.
    """
    whole = np.empty(channel.shape, np.int64)
    for cell, mine in enumerate(counts):
        stream = SeededStream(random_state, first + cell)
        whole[cell] = round_table(mine[:, None] * channel[cell], stream)
    return whole


Found = tuple[Whole, Whole, Whole]
"""Rows before each window, and window and draw of the rows inside one."""


@dataclass(frozen=True, eq=False)
class Look:
    """A pass over rows that counts the draws before each window and collects those inside.

    Attributes
    ----------
    low, high : ndarray of shape (n_pairs, width)
        Where the windows of each pair begin and end, rising; see :func:`padded`.
    """

    low: Whole
    high: Whole

    def __call__(self, pairs: Array, draws: Whole) -> Found:
        """Look at some rows."""
        rows = pairs.astype(np.intp)
        begun = count_ends(self.low, rows, draws)
        places = rows * self.low.shape[1] + begun
        inside = np.flatnonzero((begun > 0) & (self.high.take(places - 1, mode="clip") > draws))
        counts = np.bincount(places, minlength=self.low.size)
        return counts, places[inside], draws[inside]

    @staticmethod
    def merge(one: Found, other: Found) -> Found:
        """Add the counts and join the draws."""
        counts, places, draws = zip(one, other, strict=True)
        return counts[0] + counts[1], np.concatenate(places), np.concatenate(draws)


def find_borders(counts: Whole, look_at: Callable[[Look], Found]) -> Whole:
    """Find the draws at which new classes begin, in few passes over rows anywhere.

    Draws are uniform, so the draw of rank r among n lies near r / n. A pass collects the draws in a
    window of five standard deviations around each border and counts those before it. If a border
    is outside its window, which takes keys that are not unique, all windows are made wider.

    Parameters
    ----------
    counts : ndarray of shape (n_pairs, n_classes)
        How many rows of each pair of cell and old class become each new class.
    look_at : callable
        Looks at all rows.

    Returns
    -------
    ndarray of shape (n_pairs, n_classes - 1)
    """
    rows, ends = counts.sum(axis=1), np.cumsum(counts, axis=1)[:, :-1]
    borders = np.where(ends < rows[:, None], 0, np.int64(1) << BITS)
    # The border of a class without rows is that of the class before.
    new = (np.diff(ends, axis=1, prepend=0) > 0) & (ends < rows[:, None])
    pair = np.nonzero(new)[0]
    if not len(pair):
        return borders
    column = np.arange(len(pair)) - np.searchsorted(pair, pair)
    share, deviations = ends[new] / rows[pair], DEVIATIONS
    while True:
        half = deviations * (np.sqrt(share * (1.0 - share) / rows[pair]) + 1.0 / rows[pair])
        low, high = (np.ones((len(rows), column.max() + 1)) for _ in range(2))
        low[pair, column] = np.maximum(share - half, 0.0)
        high[pair, column] = np.minimum(share + half, 1.0)
        # Both rise with the border.
        low = np.minimum.accumulate(low[:, ::-1], axis=1)[:, ::-1]
        high = np.maximum.accumulate(high, axis=1)
        look = Look(*(padded((each * 2.0**BITS).astype(np.int64)) for each in (low, high)))
        counted, places, draws = look_at(look)
        counted = counted.reshape(look.low.shape)
        if not np.array_equal(counted.sum(axis=1), rows):
            raise InputError(
                "The rows of a group and class are not those that were counted before.",
                remedy="Leave the table alone until its labels are written: write it to files, or "
                "persist it.",
            )
        order = np.lexsort((draws, places))
        places, draws = places[order], draws[order]
        shared = (np.diff(places) == 0) & (np.diff(draws) == 0)
        _refuse_shared(int(shared.sum()), len(draws))
        width = look.low.shape[1]
        first = np.searchsorted(places, pair * width + column, side="right")
        place = first + ends[new] - np.cumsum(counted, axis=1)[pair, column]
        inside = (place >= first) & (place < np.searchsorted(places, (pair + 1) * width))
        found = np.append(draws, 0)[np.where(inside, place, -1)]
        if (inside & (found < look.high[pair, column])).all():
            borders[new] = found
            return np.maximum.accumulate(borders, axis=1)
        deviations *= 8.0


def assign_in_order(whole: Whole, pairs: Array, draws: Whole) -> Array:
    """Assign new classes to rows in memory: per pair as many as its counts say, by rising draw.

    Rows of one pair with equal draws get the same class.

    Examples
    --------
    >>> assign_in_order(np.array([[1, 2]]), np.zeros(3, int), np.array([9, 4, 7])).tolist()
    [1, 0, 1]
    """
    codes = np.empty(len(draws), smallest_unsigned(whole.shape[1]))

    def look_at(look: Look) -> Found:
        parts = parts_of(len(draws), max(BLOCK_ROWS, look.low.size))
        found = in_order(lambda rows: look(pairs[rows], draws[rows]), parts)
        return reduce(Look.merge, found)

    def assign(rows: slice) -> None:
        codes[rows] = classes_after(pairs[rows], draws[rows], ends, whole.shape[1])

    ends = padded(find_borders(whole, look_at))
    list(in_order(assign, parts_of(len(draws), BLOCK_ROWS)))
    return codes


def _refuse_shared(n_shared: int, n_seen: int) -> None:
    """Refuse keys that many rows share: those rows would all get the same new class."""
    # Chance makes far fewer of different keys; among few rows a pair of copies says nothing.
    if n_shared > 0.01 * n_seen and n_shared > min(8, n_seen // 4):
        raise InputError(
            f"Of {n_seen:,} rows that were looked at, {n_shared:,} have a key that another row of "
            "their group and class has too.",
            remedy="Name columns that tell every row apart, such as `key='id'` or "
            "`key=['person', 'year']`.",
            n_shared=n_shared,
            n_seen=n_seen,
        )


def padded(borders: Whole) -> Whole:
    """Pad the borders of each pair to a power of two, for :func:`classes_after`."""
    width = 1 << max(borders.shape[1].bit_length(), 1)
    ends = np.full((len(borders), width), np.iinfo(np.int64).max)
    ends[:, : borders.shape[1]] = borders
    return ends


def classes_after(pairs: Array, draws: Whole, ends: Whole, n_classes: int) -> Array:
    """Return the new class of rows: how many padded borders of their pair their draw has passed.

    Examples
    --------
    >>> classes_after(np.array([0, 0, 1]), np.array([3, 9, 0]), padded(np.array([[5], [0]])), 2)
    array([0, 1, 1], dtype=uint8)
    """
    return count_ends(ends, pairs.astype(np.intp), draws).astype(smallest_unsigned(n_classes))


def rows_by_code(codes: Array) -> list[Array]:
    """Return the rows of each code that occurs, in order.

    Examples
    --------
    >>> [rows.tolist() for rows in rows_by_code(np.array([3, 1, 3]))]
    [[1], [0, 2]]
    """
    rows = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[rows].astype(np.int64))) + 1
    return np.split(rows, cuts) if len(rows) else []


class RowRounding:
    """Rounds rows one after the other, in the order in which they come; groups stay apart.

    Parameters
    ----------
    n_groups, n_classes : int
    seed : int
    heaviest : ndarray of shape (n_groups,), optional
        Weight of the heaviest row of each group; None without weights.
    compiled : bool
        Whether to use the compiled kernel if there is one. The results are the same.

    Examples
    --------
    >>> halves, draws = np.full((4, 2), 0.5), np.array([5, 1, 7, 3])
    >>> whole, cut = RowRounding(1, 2, 0), RowRounding(1, 2, 0)
    >>> whole.add(np.zeros(4, int), draws, None, 0, lambda rows: halves[rows])
    >>> cut.add(np.zeros(1, int), draws[:1], None, 0, lambda rows: halves[rows])
    >>> cut.add(np.zeros(3, int), draws[1:], None, 1, lambda rows: halves[rows])
    >>> whole.finish().tolist() == cut.finish().tolist()
    True
    """

    def __init__(
        self,
        n_groups: int,
        n_classes: int,
        seed: int,
        heaviest: Floats | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        self.n_classes, self.seed = n_classes, seed
        largest = np.ones(n_groups) if heaviest is None else heaviest
        self.heaviest = np.maximum(largest, np.finfo(np.float64).tiny)
        # The classes of each group are nodes of their own, so that no cycle leaves a group.
        n_nodes = n_groups * n_classes
        self._forest = DependentRounding(n_nodes, n_nodes, capped=False, compiled=compiled)
        self._codes = np.zeros(0, smallest_unsigned(n_classes))
        self._n_rows = 0

    def add(
        self,
        groups: Array,
        draws: Whole,
        weight: Floats | None,
        first: int,
        rows_of: Callable[[slice], Array],
    ) -> None:
        """Add a batch whose first row has number ``first``; ``rows_of`` returns distributions."""
        self._n_rows = first + len(groups)
        missing = self._n_rows - len(self._codes)
        if missing > 0:
            self._codes = np.pad(self._codes, (0, max(missing, len(self._codes))))
        for part in parts_of(len(groups), block_length(self.n_classes)):
            own = np.ones(part.stop - part.start) if weight is None else weight[part]
            self._add(part.start + first, groups[part], draws[part], own, rows_of(part))

    def _add(self, first: int, groups: Array, draws: Whole, weight: Floats, block: Array) -> None:
        values = weight / self.heaviest[groups]
        negligible = 1e-150  # products of smaller numbers underflow
        row, column, chance = positive_entries(block, first, above=negligible)
        heavy = values >= negligible
        weightless = np.flatnonzero(~heavy)
        drawn = sample_rows(block[weightless], uniforms_of(draws[weightless]))
        self._codes[first + weightless] = drawn
        sure = (chance >= 1 - 1e-12) & heavy[row]  # 1 but for rounding
        self._codes[first + row[sure]] = column[sure]
        heavy[row[sure]] = False
        open_ = heavy[row]
        row, column, chance = row[open_], column[open_], chance[open_]
        sizes, nodes = values[row], groups[row].astype(np.int64) * self.n_classes + column
        # One uniform per entry that follows from the row's draw and the class alone.
        uniforms = entry_uniforms(draws[row], column)
        decided, nodes = self._forest.add(first + row, nodes, chance * sizes, sizes, uniforms)
        self._codes[decided] = nodes % self.n_classes

    def finish(self) -> Array:
        """Decide the rows that are left, fewer than classes in each group; return all classes."""
        owner, node, mass = self._forest.undecided()
        group, column = np.divmod(node, self.n_classes)
        for each in np.unique(group):
            mine = group == each
            rows, place = np.unique(owner[mine], return_inverse=True)
            table = np.zeros((len(rows), self.n_classes))
            table[place, column[mine]] = mass[mine]
            table /= table.sum(axis=1, keepdims=True)
            chosen = round_table(table, SeededStream(self.seed, int(each)))
            self._codes[rows] = np.nonzero(chosen)[1]
        return self._codes[: self._n_rows]
