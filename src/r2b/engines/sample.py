"""A sample of rows: those of the least hashes, so that it does not depend on how rows are cut.

Equal rows are one, with the weight of all: a table of few different rows is in the sample whole,
however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Array, row_hashes
from r2b._solve.oracle import Block, Blocks
from r2b._solve.oracle.blocks import Sums

ALL = np.uint64(np.iinfo(np.uint64).max)


def mixed_hashes(block: Block) -> Array:
    """Return a hash of each row over 64 bits, the same for equal rows of a cell."""
    hashes = row_hashes(block.labels, block.design)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (29, 0xC4CEB9FE1A85EC53)):
        hashes ^= hashes >> np.uint64(shift)
        hashes *= np.uint64(factor)
    hashes ^= hashes >> np.uint64(32)
    return hashes


def sample(blocks: Blocks, n_cells: int, n_rows: int, most: int) -> tuple[Sums, bool]:
    """Draw about ``most`` different rows; return them, and whether they are all there are.

    Returns
    -------
    list of ndarray
        Labels, cells and weights.
    bool
    """
    share = min(1.0, 0.9 * most / n_rows) if n_rows > most else 1.0
    draw = Draw(n_cells, share, most + 1)
    found = draw.settled(blocks.reduce(draw))
    different = 0.9 * most / len(found[0])
    # Where many rows are equal, more of the different ones have room.
    if share < 1.0 and different > 2.0:
        draw = Draw(n_cells, min(1.0, share * different), most + 1)
        found = draw.settled(blocks.reduce(draw))
    return found[1:], draw.share == 1.0 and len(found[0]) <= most


@dataclass(frozen=True, eq=False)
class Draw:
    """The rows of the least hashes, and the least of every cell.

    Attributes
    ----------
    n_cells : int
    share : float
        Of all hashes: rows of larger ones are left out.
    most : int
        Rows at most, but for those of cells that would have none.
    """

    n_cells: int
    share: float
    most: int

    @property
    def limit(self) -> np.uint64:
        """The largest hash that is taken."""
        return ALL if self.share == 1.0 else np.uint64(int(self.share * float(ALL)))

    def make(self, block: Block) -> Sums:
        """Read the rows once; gives hashes, labels, cells and weights."""
        hashes = mixed_hashes(block)
        taken = hashes <= self.limit
        if not taken.all():
            least, largest = np.full(self.n_cells, ALL), np.zeros(self.n_cells, np.uint64)
            np.minimum.at(least, block.design[taken], hashes[taken])
            np.maximum.at(largest, block.design[taken], hashes[taken])
            # of cells of which not two different rows are taken
            rows = np.flatnonzero((largest <= least)[block.design])
            order = rows[np.lexsort((hashes[rows], block.design[rows]))]
            taken[order[_first_two(block.design[order], hashes[order])]] = True
        rows = np.flatnonzero(taken)
        return self.settled(
            [hashes[rows], block.labels[rows], block.design[rows], block.weights[rows]]
        )

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Keep the least of both; parts stand one after the other until they are many."""
        parts = [*one, *other]
        sizes = [len(part) for part in parts[::4]]
        return (
            self.settled(parts)
            if sum(sizes) > 2 * max(sizes) + min(1 << 16, 2000 * len(sizes))
            else parts
        )

    def settled(self, parts: Sums) -> Sums:
        """Put parts together: equal rows are one, and of others those of the least hashes stay."""
        hashes, labels, cells, weight = (np.concatenate(parts[place::4]) for place in range(4))
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        new = np.diff(hashes, prepend=~hashes[:1]) != 0
        alike = np.flatnonzero(~new)  # rows of one hash are compared before they are taken for one
        new[alike] = (cells[order[alike]] != cells[order[alike - 1]]) | (
            labels[order[alike]] != labels[order[alike - 1]]
        ).any(axis=1)
        starts = np.flatnonzero(new)
        hashes, first, weight = (
            hashes[starts],
            order[starts],
            np.add.reduceat(weight[order], starts) if len(starts) else weight,
        )
        mine = cells[first]
        kept = hashes <= self.limit
        kept[self.most :] = False
        if not kept.all():
            by_cell = np.lexsort((hashes, mine))
            kept[by_cell[_first_two(mine[by_cell], hashes[by_cell])]] = True
        return [hashes[kept], labels[first[kept]], mine[kept], weight[kept]]


def _first_two(cells: Array, hashes: Array) -> Array:
    """Tell which rows, sorted by cell and hash, have one of the two least hashes of their cell."""
    new_cell = np.diff(cells.astype(np.int64), prepend=-1) != 0
    step = new_cell | (np.diff(hashes, prepend=~hashes[:1]) != 0)
    count = np.cumsum(step)
    starts = np.flatnonzero(new_cell)
    return np.asarray(count - np.repeat(count[starts], np.diff(starts, append=len(cells))) < 2)
