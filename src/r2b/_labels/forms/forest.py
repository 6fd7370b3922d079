"""The undecided entries of a dependent rounding: mass moves around cycles of rows and classes until entries settle.

Rows and classes are the two sides of a bipartite graph whose edges are the entries strictly between
0 and full. Along a cycle every row and every class meets two edges, so adding a mass to every other
edge and taking it from the rest changes no sum. The mass is the largest that keeps all entries in
range, up or down, with the probabilities under which nothing changes on average; at least one entry
settles. So the entries that stay undecided form a forest. The method is dependent rounding (Gandhi,
Khuller, Parthasarathy and Srinivasan, J. ACM 53, 2006); rows are added one at a time, so that no
more than a forest is ever held.

Nothing here draws random numbers: each entry comes with its own uniform number, whether or not it
ends up being used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from r2b._data.arrays import Array, Floats, Whole
from r2b._data.compute import compiled

# Arrays when compiled, lists of Python numbers when interpreted (four times as fast as arrays
# there); same numbers, same results.
Vector = Any

#: Entries (rows times classes) from which compiling pays for itself.
COMPILE_FROM = 200_000


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
    """Add rows to the forest, entry by entry, and return how many entries became full (their owners and classes are listed in ``full``).

    Plain loops over vectors, so that it runs interpreted and compiled alike. Nodes are the classes
    0..L-1, then the slots of undecided rows; ``value[node]`` is the entry on the edge from ``node``
    to ``parent[node]`` (-1 at a root). ``degree[slot]`` counts the unsettled entries of a row,
    those not yet added included. Without ``capped`` an entry can only settle at 0: a row of one
    class fills its last entry by itself. With ``capped`` entries also settle at 1, and rows may
    hold more than one full entry.
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
                # The other entries settled together. As the row has a whole sum, this one is whole
                # but for rounding errors.
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
            # Else two trees became one.
            if cycle[length - 1] == row:
                hits = _move_around(length, uniforms[e], capped, n_classes, forest, full, hits)
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


def _move_around(
    length: int,
    uniform: float,
    capped: bool,
    n_classes: int,
    forest: tuple[Vector, ...],
    full: tuple[Vector, Vector],
    hits: int,
) -> int:
    """Move mass around a cycle until an entry settles, and return how many entries are full then.

    The cycle is class, row, class, row, ..., row: the edges of each pair (class, row) are two
    entries of that row.
    """
    parent, value, degree, owner, size, free, n_free, cycle = forest
    up = np.inf
    down = np.inf
    for j in range(0, length, 2):
        a = value[cycle[j]]
        b = value[cycle[j + 1]]
        if a < up:
            up = a
        if b < down:
            down = b
        if capped:
            if 1.0 - b < up:
                up = 1.0 - b
            if 1.0 - a < down:
                down = 1.0 - a
    # up with probability down / (up + down), else down: no change on average.
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
        if a_done:
            degree[slot] -= 1
        if b_done:
            degree[slot] -= 1
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
def compiled_settle() -> Callable[..., int] | None:
    """:func:`settle` compiled, or None where numba cannot be imported."""
    try:
        return compiled(settle, parts=(_make_root, _move_around))
    except ImportError:
        return None


class Forest:
    """The undecided entries of the rows added so far.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    n_slots : int
        Most rows that can be undecided at once. A forest of rows that each keep two entries or more
        has fewer rows than classes, so ``n_classes`` slots are enough where entries settle at 0
        only.
    capped : bool
        Whether an entry also settles at 1, its row then going on with the rest.
    compiled : bool
        Whether to use the compiled kernel, where there is one. The results are the same.

    Examples
    --------
    >>> forest = Forest(n_classes=2, n_slots=2, capped=False, compiled=False)
    >>> halves = np.array([0.5, 0.5, 0.5, 0.5])
    >>> owners, classes = forest.add(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), halves, np.array([7, 8]), np.ones(2), np.zeros(4))
    >>> sorted(owners.tolist()), sorted(classes.tolist())
    ([7, 8], [0, 1])
    """

    def __init__(self, n_classes: int, n_slots: int, *, capped: bool, compiled: bool) -> None:
        self.n_classes = n_classes
        self.capped = capped
        kernel = compiled_settle() if compiled else None
        self._kernel: Callable[..., int] = settle if kernel is None else kernel
        self._listed = kernel is None
        n_nodes = n_classes + n_slots
        degree, owner, size = (
            np.zeros(n_slots, np.int64),
            np.zeros(n_slots, np.int64),
            np.zeros(n_slots),
        )
        free = np.arange(n_slots)[::-1], np.array([n_slots])
        state = (
            np.full(n_nodes, -1, np.int64),
            np.zeros(n_nodes),
            degree,
            owner,
            size,
            *free,
            np.zeros(n_nodes + 1, np.int64),
        )
        self._state = tuple(self._vector(each) for each in state)
        self._parent, self._value, _, self._owner = self._state[:4]

    def _vector(self, array: Array) -> Vector:
        # Contiguous, as the kernel is compiled once per memory layout.
        return array.tolist() if self._listed else np.ascontiguousarray(array)

    def add(
        self,
        start: Whole,
        classes: Whole,
        masses: Floats,
        owners: Whole,
        sizes: Floats,
        uniforms: Floats,
    ) -> tuple[Whole, Whole]:
        """Add rows; return owner and class of the entries, of these rows and earlier ones, that became full.

        Row i is called ``owners[i]``, is full at ``sizes[i]``, and has the entries ``start[i]`` to
        ``start[i + 1]`` (two or more, all strictly between 0 and full) of ``classes`` and
        ``masses``.
        """
        room = len(masses) + len(self._parent)
        full = (self._vector(np.zeros(room, np.int64)), self._vector(np.zeros(room, np.int64)))
        given = [self._vector(array) for array in (start, classes, masses, owners, sizes, uniforms)]
        hits = self._kernel(*given, self.capped, self.n_classes, self._state, full)
        return np.array(full[0][:hits], np.int64), np.array(full[1][:hits], np.int64)

    def undecided(self) -> tuple[Whole, Whole, Floats]:
        """Owner, class and mass of the entries that have not settled."""
        parent = np.asarray(self._parent)
        node = np.flatnonzero(parent >= 0)
        above = parent[node]
        # One end of each edge is a class, the other a row; rows have the higher numbers.
        owner = np.asarray(self._owner)[np.maximum(node, above) - self.n_classes]
        return owner, np.minimum(node, above), np.asarray(self._value)[node]
