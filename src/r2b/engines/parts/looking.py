"""What is first seen of rows that count in parts: sums by cell, and a sample of the rows themselves, the same however they are cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Array, Floats, smallest_unsigned
from r2b._solve.oracle import Block, Blocks
from r2b._solve.oracle.blocks import BlockTask, Sums, reduced
from r2b._solve.oracle.thinning import calibrated
from r2b.engines.sample import ALL, Draw, least_hashes, mixed_hashes, share_limit

_PART = 8
_ENOUGH = 1 << 14  # rows


@dataclass(frozen=True, eq=False)
class Side:
    """What a task needs to know of the columns.

    Attributes
    ----------
    n_cells, n_classes : int
    soft : bool
    members : tuple of slice
        Columns of the parts that are memberships.
    """

    n_cells: int
    n_classes: int
    soft: bool
    members: tuple[slice, ...]

    def strata(self, block: Block) -> tuple[Array, int]:
        """Give each row a number, by its cell and the group that it is likeliest in: none of these is without a row in the sample."""
        codes, size = block.cells.astype(np.int64), 1
        assert block.parts is not None
        for columns in self.members[:1]:
            size = columns.stop - columns.start
            mine = block.parts[:, columns]
            codes = codes * size + np.cumprod(mine < mine.max(axis=1, keepdims=True), axis=1).sum(
                axis=1
            )
        return codes, self.n_cells * size


@dataclass(frozen=True, eq=False)
class Look:
    """The first pass: by cell rows, weight, sums of labels and of parts (by weight, and by rows); least hashes; bytes of a label."""

    side: Side

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        side, parts = self.side, block.parts
        assert parts is not None
        n_cells, finite = side.n_cells, np.isfinite(parts)
        known = parts if finite.all() else np.where(finite, parts, 0.0)
        weight = block.weight if len(block.weight) else np.ones(len(block))
        rows = np.bincount(block.cells, minlength=n_cells).astype(np.float64)
        mass = np.bincount(block.cells, weight, minlength=n_cells).astype(np.float64)
        if side.soft:
            labels = by_cell(block.labels, block.cells, weight, n_cells)
        else:
            pairs = block.cells.astype(np.int64) * side.n_classes + block.labels
            labels = (
                np.bincount(pairs, weight, n_cells * side.n_classes)
                .reshape(n_cells, side.n_classes)
                .astype(np.float64)
            )
        sums = [
            by_cell(known, block.cells, each, n_cells) for each in (weight, np.ones(len(block)))
        ]
        there = [
            by_cell(finite, block.cells, weight, n_cells),
            finite.sum(axis=0).astype(np.float64),
        ]
        return [
            rows,
            mass,
            labels,
            *sums,
            *there,
            least_hashes(mixed_hashes(stacked(block))),
            np.array([block.labels.dtype.itemsize]),
        ]

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Add up, and keep the least hashes and the widest labels."""
        added = [mine + others for mine, others in zip(one[:-2], other[:-2], strict=True)]
        return [
            *added,
            least_hashes(np.concatenate([one[-2], other[-2]])),
            np.maximum(one[-1], other[-1]),
        ]


@dataclass(frozen=True, eq=False)
class DrawParts:
    """The rows of the least hashes, and some of every stratum: see :class:`r2b.engines.sample.Draw`."""

    side: Side
    draw: Draw

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        return self.draw(stacked(block, self.side))

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Keep the least of both."""
        return self.draw.merge(one, other)


def stacked(block: Block, side: Side | None = None) -> Block:
    """Put labels and parts of rows beside each other, and 1 beside their weights; strata in place of cells where they are wanted."""
    labels = block.labels if block.labels.ndim == 2 else block.labels[:, None]
    assert block.parts is not None
    weight = block.weight if len(block.weight) else np.ones(len(block))
    cells = block.cells if side is None else side.strata(block)[0]
    return Block(
        np.column_stack([labels, block.parts]),
        cells,
        np.column_stack([weight, np.ones(len(block))]),
        levels=block.levels,
    )


def by_cell(values: Array, cells: Array, weight: Floats, n_cells: int) -> Floats:
    """Add up columns by cell, of shape (n_cells, n_columns)."""
    if n_cells == 1:
        return np.asarray((weight @ values)[None, :], np.float64)
    return np.column_stack(
        [np.bincount(cells, weight * column, n_cells).astype(np.float64) for column in values.T]
    )


@dataclass(frozen=True, eq=False)
class Seen:
    """What is known of the rows after two passes.

    Attributes
    ----------
    rows, mass : ndarray of shape (n_cells,)
        Rows, and their weight.
    labels : ndarray of shape (n_cells, n_classes)
        Weighted sums of the labels.
    parts, part_rows : ndarray of shape (n_cells, n_columns)
        Sums of the numbers that rows count by, by weight and by rows.
    typical : ndarray of shape (n_columns,)
        Their means over the rows that have one.
    gaps : ndarray of bool, shape (n_columns,)
        Columns that some rows have no value in.
    sample : Block
        Rows in memory, equal ones once with their weight: classes or probabilities, cells and
        parts.
    counts : ndarray
        How many rows each of the sample stands for.
    whole : bool
        Whether the sample is all rows.
    """

    rows: Floats
    mass: Floats
    labels: Floats
    parts: Floats
    part_rows: Floats
    typical: Floats
    gaps: Array
    sample: Block
    counts: Floats
    whole: bool

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return round(float(self.rows.sum()))


def look(blocks: Blocks, side: Side, most: int) -> Seen:
    """Look at all rows twice, and bring about so many of them home."""
    rows, mass, labels, parts, part_rows, known, there, least, width = reduced(blocks, Look(side))
    limit = np.uint64(ALL) if rows.sum() <= most else share_limit(least, most)
    if limit != ALL:  # all rows do not fit, and a part of those that would tells prices as well
        most = max(most // _PART, min(most, _ENOUGH))
        limit = share_limit(least, most)
    sizes = side.members[0].stop - side.members[0].start if side.members else 1
    draw = Draw(side.n_cells * sizes, limit, most + 1)
    task: BlockTask = DrawParts(side, draw)
    _, held, strata, weight = draw.settled(reduced(blocks, task))
    cells = (strata // sizes).astype(smallest_unsigned(side.n_cells))
    size = side.n_classes if side.soft else 1
    labelled = (
        held[:, :size].astype(np.float32 if width[0] == 4 else np.float64)
        if side.soft
        else held[:, 0].astype(np.int64)
    )
    if not side.soft:
        labelled = labelled.astype(smallest_unsigned(side.n_classes))
    sample = Block(
        np.ascontiguousarray(labelled),
        cells,
        weight[:, 0].copy(),
        parts=np.ascontiguousarray(held[:, size:]),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        typical = np.where(known.sum(axis=0) > 0, parts.sum(axis=0) / known.sum(axis=0), 0.0)
    whole = bool(limit == ALL and len(sample) <= most)
    return Seen(
        rows,
        mass,
        labels,
        parts,
        part_rows,
        typical,
        there < rows.sum(),
        sample,
        weight[:, 1].copy(),
        whole,
    )


def balanced(seen: Seen, side: Side, *, by_weight: bool) -> Floats:
    """Give what rows of the sample stand for, in weight or in rows: as much in each cell, and in its uncertain groups, as all rows have."""
    own, wanted = (seen.sample.weight, seen.mass) if by_weight else (seen.counts, seen.rows)
    sums, cells = seen.parts if by_weight else seen.part_rows, seen.sample.cells
    assert seen.sample.parts is not None
    found = np.zeros(len(cells))
    columns = (
        np.concatenate([np.arange(each.start, each.stop) for each in side.members])
        if side.members
        else np.empty(0, np.intp)
    )
    for cell in np.flatnonzero(seen.rows):
        mine = np.flatnonzero(cells == cell)
        weight = own[mine] if own[mine].sum() > 0 else np.ones(len(mine))
        lifted = (
            calibrated(
                seen.sample.parts[mine][:, columns], weight, sums[cell, columns] / wanted[cell]
            )
            if wanted[cell] > 0
            else None
        )
        found[mine] = wanted[cell] * (weight / weight.sum() if lifted is None else lifted)
    return found
