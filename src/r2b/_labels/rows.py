"""Fair labels of the rows of one table, block by block, in every form. Nothing here takes the likeliest class: that would undo the work.

The new label of a row is a function of its old label, its group and the prices; the whole matrix
exists only if someone asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from r2b._data import Cells, Dataset, Mixtures
from r2b._data.arrays import Array, Floats, Whole, smallest_unsigned
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import in_order, parts_of, refuse_beyond_memory
from r2b._data.merge import class_weights, joint_codes
from r2b._labels.forms.forest import COMPILE_FROM
from r2b._labels.forms.keyed import uniforms_of
from r2b._labels.forms.rounding import handed_out, whole_cell, whole_counts
from r2b._labels.forms.sampling import Expansion, block_length, expanded, sample_rows, sample_table
from r2b._labels.forms.turns import Turns, rows_by_code
from r2b._solve.oracle.reference import Responses, respond

_WITHOUT_MATRIX = "Use iter_soft(), which gives it a block at a time, sample(), round() or expand(), or soft(dtype='float32') for half of it."
_FEW = 1 << 16  # answers that are made at once whatever the number of rows
_HELD = 1 << 26  # entries of all answers that are held at once: 512 MB
_PART = 1 << 22  # entries of answers that are made together where not all are held


@dataclass(frozen=True, eq=False)
class Response:
    """The map from (old label, cell) to the distribution of the new label.

    Attributes
    ----------
    shifts : ndarray of shape (n_cells, n_classes)
        What the prices of its groups add up to for each cell.
    lam : float
        0 for agreement, where the table or the splits decide.
    unchanged : bool
        Labels go out as they came in.
    costs : ndarray of shape (n_classes, n_classes), optional
        What it costs to turn one class into another.
    table : ndarray of shape (n_cells, n_classes, n_classes), optional
        P(new class | old class, cell), where prices do not tell it.
    splits : Responses, optional
        Shifts of cells and the small lambda at which they tell the labels, where those above leave
        ties.
    answers : ndarray of shape (n_cells, n_classes), optional
        What the rows of a cell get whatever their label; NaN for cells that have prices.

    Examples
    --------
    >>> Response(np.array([[0.2, -0.2]]), 1.0).of_rows(np.array([[1.0, 0.0]]), np.array([0]))
    array([[0.8, 0.2]])
    """

    shifts: Floats
    lam: float
    unchanged: bool = False
    costs: Floats | None = None
    table: Floats | None = None
    splits: Responses | None = None
    answers: Floats | None = None

    def of_rows(self, labels: Array, cells: Array) -> Array:
        """Give the new label of rows of probabilities."""
        if self.unchanged:
            found = labels
        else:
            worth = labels if self.costs is None else labels @ -self.costs
            found = respond(worth, cells, *(self.splits or (self.shifts, self.lam)))
        if self.answers is None:
            return found
        given = self.answers[cells]
        return np.where(np.isnan(given), found, given)

    def channel(self) -> Floats:
        """Answer of every cell to every pure class: P(new class | old class, cell)."""
        if self.table is not None:
            return self.table
        n_cells, n_classes = self.shifts.shape
        needed = n_cells * n_classes**2 * 8
        remedy = "Use iter_soft(), sample() or round(), which need no such table, or put rare classes and small groups together."
        refuse_beyond_memory(
            needed,
            f"The table of {n_cells:,} cells and {n_classes:,} x {n_classes:,} classes",
            remedy,
        )
        one_hot = np.eye(n_classes)
        if self.unchanged:
            return np.broadcast_to(one_hot, (n_cells, n_classes, n_classes)).copy()
        channel = np.empty((n_cells, n_classes, n_classes))
        for cell in range(n_cells):
            channel[cell] = self.of_rows(one_hot, np.full(n_classes, cell))
        return channel


@dataclass(frozen=True, eq=False)
class FairRows:
    """The rows of a table and what turns them into fair ones.

    Attributes
    ----------
    dataset : Dataset
    response : Response
        For the cells of this dataset.
    """

    dataset: Dataset
    response: Response

    @cached_property
    def channel(self) -> Floats:
        """P(new class | old class, cell), of shape (n_cells, n_classes, n_classes)."""
        return self.response.channel()

    @property
    def _by_table(self) -> bool:
        """Whether the answers to all pure classes of all cells are fewer than the rows, and so are looked up."""
        data = self.dataset
        if data.labels.is_soft or self.response.table is not None:
            return not data.labels.is_soft
        n_answers = data.n_cells * data.n_classes
        return n_answers <= max(data.n_rows, _FEW) and n_answers * data.n_classes <= _HELD

    @property
    def _table(self) -> Floats:
        # One distribution per (cell, class): the row that ``joint_codes`` points at.
        return self.channel.reshape(-1, self.dataset.n_classes)

    def blocks(self, size: int, dtype: DTypeLike) -> Iterator[Array]:
        """Give the matrix of fair labels ``size`` rows at a time."""
        table = self._table.astype(dtype, copy=False) if self._by_table else None
        for part in parts_of(self.dataset.n_rows, size):
            out = np.empty((part.stop - part.start, self.dataset.n_classes), dtype)
            self._write(out, part, table)
            yield out

    def matrix(self, dtype: DTypeLike) -> Array:
        """Give the whole matrix of fair labels."""
        n_rows, n_classes = self.dataset.n_rows, self.dataset.n_classes
        needed = n_rows * n_classes * np.dtype(dtype).itemsize
        refuse_beyond_memory(
            needed, f"The matrix of {n_rows:,} rows and {n_classes:,} classes", _WITHOUT_MATRIX
        )
        out = np.empty((n_rows, n_classes), dtype)
        table = self._table.astype(dtype, copy=False) if self._by_table else None
        parts = parts_of(n_rows, max(1, (1 << 18) // n_classes))
        for _ in in_order(lambda part: self._write(out[part], part, table), parts):
            pass
        return out

    def _write(self, out: Array, part: slice, table: Array | None) -> None:
        if table is not None:
            # Codes are in range by construction; "clip" spares NumPy a buffer and a check.
            np.take(
                table,
                joint_codes(self.dataset, part.start, part.stop),
                axis=0,
                out=out,
                mode="clip",
            )
            return
        out[...] = self.of_rows(part)

    def sample(self, draws: Whole) -> Array:
        """Draw one class per row, each by the random number that belongs to it."""
        data, uniforms = self.dataset, uniforms_of(draws)
        drawn = np.empty(data.n_rows, smallest_unsigned(data.n_classes))
        for mine, index, table in self._parts():
            drawn[mine] = (
                sample_rows(table, uniforms[mine])
                if index is None
                else sample_table(index, table, uniforms[mine])
            )
        return drawn

    def round(self, draws: Whole, seed: int, *, keyed: bool = False) -> Array:
        """Pick one class per row so that group means stay as close to the optimum as whole rows allow.

        Rows of classes without weights get whole counts for every cell, handed out in the order of
        their draws. Other rows are rounded one after the other: where they have keys in the order
        of their draws, which is the same wherever the rows live, else in their own.
        """
        data = self.dataset
        if self.response.unchanged and not data.labels.is_soft:
            return data.labels.array
        categorical = set(data.cells.kinds) == {CATEGORICAL}
        if categorical and not data.labels.is_soft and data.weight is None:
            return self._counted(draws, seed)
        order = np.argsort(draws, kind="stable") if keyed else None
        if categorical:
            groups = data.cells.codes if order is None else data.cells.codes[order]
        else:
            order, groups = _strands(data.cells, order)
        return self._in_turn(order, groups, draws, seed)

    def _counted(self, draws: Whole, seed: int) -> Array:
        """Hand out whole counts; for all cells at once, as where rows live elsewhere, unless their answers are too many to be held."""
        data = self.dataset
        counts = class_weights(data, ignore_weight=True)
        if data.n_cells * data.n_classes**2 <= _HELD:
            return handed_out(
                whole_counts(counts, self.channel, seed).reshape(-1, data.n_classes),
                joint_codes(data),
                draws,
            )
        codes = np.empty(data.n_rows, smallest_unsigned(data.n_classes))
        for mine in rows_by_code(data.cells.codes):
            cell = int(data.cells.codes[mine[0]])
            codes[mine] = handed_out(
                whole_cell(counts[cell], self._of_cell(cell), cell, seed),
                data.labels.array[mine],
                draws[mine],
            )
        return codes

    def _in_turn(self, order: Array | None, groups: Array, draws: Whole, seed: int) -> Array:
        """Round rows one after the other, in this order, those of a group together."""
        data, weight = self.dataset, self.dataset.weight
        heaviest = None
        if weight is not None:
            heaviest = np.zeros(int(groups.max(initial=0)) + 1)
            np.maximum.at(heaviest, groups, weight if order is None else weight[order])
        turns = Turns(
            data.n_classes, seed, heaviest, compiled=data.n_rows * data.n_classes > COMPILE_FROM
        )
        if order is None:
            turns.take(groups, draws, weight, 0, self.of_rows)
            return turns.finish()
        turns.take(
            groups,
            draws[order],
            None if weight is None else weight[order],
            0,
            lambda rows: self.of_rows(order[rows]),
        )
        codes = np.empty(data.n_rows, smallest_unsigned(data.n_classes))
        codes[order] = turns.finish()
        return codes

    def of_rows(self, mine: Array | slice) -> Array:
        """Give the new labels of some rows."""
        labels, cells = self.dataset.labels.array[mine], self.dataset.cells.codes[mine]
        if self.dataset.labels.is_soft:
            return self.response.of_rows(labels, cells)
        if self._by_table:
            return self.channel[cells, labels]
        codes, place = np.unique(
            cells.astype(np.int64) * self.dataset.n_classes + labels, return_inverse=True
        )
        return self._answers(codes)[place]

    def _of_cell(self, cell: int) -> Array:
        """Give P(new class | old class) in one cell."""
        n_classes = self.dataset.n_classes
        out = np.empty((n_classes, n_classes))
        for part in parts_of(n_classes, max(1, _PART // n_classes)):
            out[part] = self._answers(cell * n_classes + np.arange(part.start, part.stop))
        return out

    def _answers(self, codes: Whole) -> Array:
        """Give the new labels for some pairs of cell and class, coded as by ``joint_codes``."""
        return self.answers(*np.divmod(codes, self.dataset.n_classes))

    def answers(self, cells: Array, classes: Array) -> Array:
        """Give the new labels of rows of these cells and classes."""
        if self.response.table is not None:
            return np.asarray(self.response.table[cells, classes])
        one_hot = np.zeros((len(cells), self.dataset.n_classes))
        one_hot[np.arange(len(cells)), classes] = 1.0
        return self.response.of_rows(one_hot, cells)

    def _parts(self) -> Iterator[tuple[Array | slice, Array | None, Array]]:
        """Give rows together: which rows, which answer each of them has, and the answers; no index where each row has its own."""
        data = self.dataset
        if data.labels.is_soft:
            blocks = parts_of(data.n_rows, block_length(data.n_classes))
            yield from (
                (part, None, self.of_rows(part).astype(np.float64, copy=False)) for part in blocks
            )
            return
        joint = joint_codes(data)
        if self._by_table:
            yield slice(0, data.n_rows), joint, self._table
            return
        order = np.argsort(joint, kind="stable")
        codes, first = np.unique(joint[order], return_index=True)
        ends = np.append(first, len(order))
        for part in parts_of(len(codes), max(1, _PART // data.n_classes)):
            mine = order[ends[part.start] : ends[part.stop]]
            index = np.repeat(
                np.arange(part.stop - part.start), np.diff(ends[part.start : part.stop + 1])
            )
            yield mine, index, self._answers(codes[part].astype(np.int64))

    def expand(self) -> Expansion:
        """Repeat each row for its classes, with weights."""
        weight, parts = self.dataset.weight, []
        for mine, index, table in self._parts():
            row, code, part = expanded(table, index, None if weight is None else weight[mine])
            parts.append((row + mine.start if isinstance(mine, slice) else mine[row], code, part))
        rows, codes, weights = (
            parts[0]
            if len(parts) == 1
            else (np.concatenate(column) for column in zip(*parts, strict=True))
        )
        if isinstance(mine, slice):
            return rows, codes, weights
        order = np.argsort(rows, kind="stable")
        return rows[order], codes[order], weights[order]

    def sampling_variance(self) -> tuple[Floats, float]:
        """Give the variance of the sum of drawn labels of each cell, of shape (n_cells, n_classes), and the total weight.

        Both in units of the heaviest row: squares of very large or small weights leave the range of
        floating point.
        """
        data = self.dataset
        variance = np.zeros((data.n_cells, data.n_classes))
        weights = np.ones(data.n_rows) if data.weight is None else data.weight / data.weight.max()
        for mine, index, table in self._parts():
            squares, cells = weights[mine] ** 2, data.cells.codes[mine]
            if index is not None:
                squares, of_rows, cells = (
                    np.bincount(index, squares, len(table)),
                    cells,
                    np.zeros(len(table), np.intp),
                )
                cells[index] = of_rows
            np.add.at(variance, cells, squares[:, None] * _binomial_variance(table))
        return variance, float(weights.sum())


def _binomial_variance(probability: Array) -> Array:
    # Projected labels leave [0, 1] by rounding errors, and a variance below 0 has no root.
    return np.asarray(np.maximum(probability * (1.0 - probability), 0.0))


def _strands(groups: Cells, equal: Array | None) -> tuple[Array, Array]:
    """Give an order of the rows and a number for each row in it: those of the same categories, in the order of what else they have.

    Rows that are equal in all of it keep the order ``equal``, or their own.

    A continuous attribute leaves few rows to a cell. Rounded in its order, rows pass what they lack
    on to their neighbours, so that every stretch of the attribute keeps its counts and its moments
    stay where they are.
    """
    ranks, fixed = [], np.zeros(groups.n_cells, dtype=np.int64)
    for column, (vocabulary, kind) in enumerate(
        zip(groups.vocabularies, groups.kinds, strict=True)
    ):
        codes = groups.table[:, column]
        if kind == CATEGORICAL:
            fixed = fixed * vocabulary.n_codes + codes
        else:
            # Distinct values come in order already; distinct mixtures in the order in which they
            # were met.
            ranks += (
                list(vocabulary.matrix[codes].T[::-1])
                if isinstance(vocabulary, Mixtures)
                else [codes]
            )
    order = np.lexsort((*ranks, fixed))
    place = np.empty(groups.n_cells, dtype=np.int64)
    place[order] = np.arange(groups.n_cells)
    equal = np.arange(len(groups.codes)) if equal is None else equal
    rows = equal[np.argsort(place[groups.codes[equal]], kind="stable")]
    return rows, np.unique(fixed[groups.codes[rows]], return_inverse=True)[1]
