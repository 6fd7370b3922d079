"""The forms in which fair labels are returned: soft, sampled, rounded, expanded.

The new label of a row is a function of its old label, its cell and the prices. The matrix of all
rows is built only on request. No form takes the most probable class of a row, which would undo
parity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from r2b._data import Cells, Dataset, Mixtures
from r2b._data.arrays import Array, Floats, Whole, cross, smallest_unsigned
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import (
    format_bytes,
    in_order,
    matrix_parts,
    parts_of,
    refuse_beyond_memory,
)
from r2b._data.merge import class_weights, joint_codes
from r2b._labels.draws import uniforms_of
from r2b._labels.rounding import (
    COMPILE_FROM,
    RowRounding,
    assign_in_order,
    rows_by_code,
    whole_counts,
)
from r2b._labels.sampling import Expansion, block_length, expanded, sample_rows
from r2b._solve.oracle import respond
from r2b._solve.oracle.blocks import as_matrix
from r2b.errors import ParameterError

HELD_ENTRIES = 1 << 26  # most entries of a table of answers: 512 MB


@dataclass(frozen=True, eq=False)
class Response:
    """The map from (old label, cell) to the distribution of the new label.

    Attributes
    ----------
    shifts : ndarray of shape (n_cells, n_classes)
        The sum of the prices of its groups, for each cell.
    lam : float
        0 for agreement of class labels, where the table decides.
    unchanged : bool
        Labels stay as they came in.
    costs : ndarray of shape (n_classes, n_classes), optional
        Cost of turning one class into another.
    table : ndarray of shape (n_cells, n_classes, n_classes), optional
        P(new class | old class, cell), where prices do not determine it.
    overall : ndarray of shape (n_cells, n_classes), optional
        What rows of new classes, and all rows of cells without prices, get.
    priced : ndarray of shape (n_cells,), optional
        Which cells have prices, if ``overall`` is given.

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
    overall: Floats | None = None
    priced: Array | None = None

    @property
    def n_classes(self) -> int:
        """The number of classes of the new labels, which come first among the old."""
        return int(self.shifts.shape[1])

    @property
    def keeps_all(self) -> bool:
        """Whether every label stays as it came in."""
        return self.unchanged and self.overall is None

    def of_rows(self, labels: Array, cells: Array) -> Array:
        """Return the new label of rows of probabilities."""
        if self.unchanged:
            return self._known(labels, cells)
        worth = labels if self.costs is None else labels @ -self.costs
        return self._known(respond(worth, cells, self.shifts, self.lam), cells)

    def of_classes(self, classes: Array, cells: Array) -> Array:
        """Return the new label of rows of class labels, of shape (m, n_classes)."""
        fitted = np.minimum(classes, self.n_classes - 1)
        if self.table is None:
            found = self.of_rows(as_matrix(fitted, self.n_classes), cells)
        else:
            found = self.table[cells, fitted]
        return self._known(found, cells, classes < self.n_classes)

    def _known(self, found: Array, cells: Array, known: Any = True) -> Array:
        """Return the answers of known classes and cells; others get what rows have overall."""
        if self.overall is None or self.priced is None:
            return found
        return np.where((known & self.priced[cells])[:, None], found, self.overall[cells])

    def channel(self, n_old: int | None = None, cells: slice = slice(None)) -> Floats:
        """Return P(new class | old class, cell), of shape (n_cells, n_old, n_classes)."""
        if self.table is not None and self.overall is None:
            return self.table[cells]
        numbers, n_classes = np.arange(len(self.shifts))[cells], self.n_classes
        classes = np.arange(n_classes if n_old is None else n_old)
        refuse_beyond_memory(
            len(numbers) * len(classes) * n_classes * 8,
            f"The table of {len(numbers):,} cells and {len(classes):,} x {n_classes:,} classes",
            "Use iter_soft(), sample() or round(), which need no such table, or put rare classes "
            "and small groups together.",
        )
        channel = np.empty((len(numbers), len(classes), n_classes))
        for place, cell in enumerate(numbers):
            channel[place] = self.of_classes(classes, np.full(len(classes), cell))
        return channel


@dataclass(frozen=True, eq=False)
class FairRows:
    """The rows of a table with the response that gives their new labels.

    Attributes
    ----------
    dataset : Dataset
    response : Response
        For the cells of this dataset.
    """

    dataset: Dataset
    response: Response

    def of_rows(self, mine: Array | slice) -> Array:
        """Return the new labels of some rows."""
        data = self.dataset
        if self._answers is not None:
            table, place = self._answers
            # Places are in range by construction; "clip" spares NumPy a check.
            return table.take(place.take(joint_codes(data, mine)), axis=0, mode="clip")
        labels, cells = data.labels.array[mine], data.cells.codes[mine]
        if data.labels.is_soft:
            return self.response.of_rows(labels, cells)
        return self.response.of_classes(labels, cells)

    @cached_property
    def _answers(self) -> tuple[Floats, Whole] | None:
        """The answers to the pairs (cell, class) that occur, and the place of each pair.

        None for probabilities, and where there are too many answers to be held.
        """
        data = self.dataset
        if data.labels.is_soft:
            return None
        n_pairs = data.n_cells * data.n_classes
        there = np.flatnonzero(np.bincount(joint_codes(data), minlength=n_pairs))
        if len(there) * self.response.n_classes > HELD_ENTRIES:
            return None
        place = np.zeros(n_pairs, np.intp)
        place[there] = np.arange(len(there))
        cells, classes = np.divmod(there, data.n_classes)
        return self.response.of_classes(classes, cells), place

    def _parts(self) -> Iterator[tuple[slice, Array | None, Array]]:
        """Iterate over blocks of rows: the rows, the place of their answers, and the answers.

        The place is None where every row has its own answer.
        """
        data = self.dataset
        if self._answers is not None:
            table, place = self._answers
            yield slice(0, data.n_rows), place[joint_codes(data)], table
            return
        for part in parts_of(data.n_rows, block_length(data.n_classes)):
            yield part, None, self.of_rows(part).astype(np.float64, copy=False)

    def blocks(self, size: int, dtype: DTypeLike) -> Iterator[Array]:
        """Iterate over the matrix of fair labels, ``size`` rows at a time."""
        for part in parts_of(self.dataset.n_rows, size):
            yield self.of_rows(part).astype(dtype, copy=False)

    def matrix(self, dtype: DTypeLike) -> Array:
        """Build the whole matrix of fair labels."""
        n_rows, n_classes = self.dataset.n_rows, self.response.n_classes
        refuse_beyond_memory(
            n_rows * n_classes * np.dtype(dtype).itemsize,
            f"The matrix of {n_rows:,} rows and {n_classes:,} classes",
            "Use iter_soft(), which returns it a block at a time, sample(), round() or expand(), "
            "or soft(dtype='float32') for half of it.",
        )
        out = np.empty((n_rows, n_classes), dtype)

        def write(part: slice) -> None:
            out[part] = self.of_rows(part)

        list(in_order(write, matrix_parts(n_rows, n_classes)))
        return out

    def sample(self, draws: Whole) -> Array:
        """Draw one class per row by the random number that belongs to it."""
        data, uniforms = self.dataset, uniforms_of(draws)
        drawn = np.empty(data.n_rows, smallest_unsigned(data.n_classes))
        for mine, index, table in self._parts():
            drawn[mine] = sample_rows(table, uniforms[mine], index)
        return drawn

    def expand(self) -> Expansion:
        """Repeat each row for its classes, with weights."""
        weight, parts = self.dataset.weight, []
        for mine, index, table in self._parts():
            own = None if weight is None else weight[mine]
            row, code, part = expanded(table, index, own)
            parts.append((row + mine.start, code, part))
        rows, codes, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        return rows, codes, weights

    def round(self, draws: Whole, seed: int, *, keyed: bool = False) -> Array:
        """Pick one class per row so that group means stay as close to the optimum as possible.

        Rows of class labels without weights get whole counts for every cell, assigned by rising
        draw. Other rows are rounded one after the other: with keys in the order of their draws,
        which is the same wherever the rows are stored, otherwise in their own order.
        """
        data, n_classes = self.dataset, self.response.n_classes
        if self.response.keeps_all and not data.labels.is_soft:
            return data.labels.array
        categorical = data.cells.is_categorical
        if categorical and not data.labels.is_soft and data.weight is None:
            return self._round_counts(draws, seed)
        order = np.argsort(draws, kind="stable") if keyed else np.arange(data.n_rows)
        if categorical:
            groups = data.cells.codes[order]
        else:
            order, groups = _attribute_order(data.cells, order)
        n_groups, weight, heaviest = int(groups.max(initial=0)) + 1, None, None
        if data.weight is not None:
            weight, heaviest = data.weight[order], np.zeros(n_groups)
            np.maximum.at(heaviest, groups, weight)
        large = data.n_rows * n_classes > COMPILE_FROM
        rounding = RowRounding(n_groups, n_classes, seed, heaviest, compiled=large)
        rounding.add(groups, draws[order], weight, 0, lambda rows: self.of_rows(order[rows]))
        codes = np.empty(data.n_rows, smallest_unsigned(n_classes))
        codes[order] = rounding.finish()
        return codes

    def _round_counts(self, draws: Whole, seed: int) -> Array:
        data, n_old = self.dataset, self.dataset.n_classes
        refuse_large_round(1, n_old)  # cell by cell
        counts, pairs = class_weights(data, ignore_weight=True), joint_codes(data)
        codes = np.empty(data.n_rows, smallest_unsigned(self.response.n_classes))
        # Cells whose tables of classes are held together: 8 MiB.
        step = max(1, (1 << 20) // n_old**2)
        several = data.n_cells > step
        for mine in rows_by_code(data.cells.codes // step) if several else [slice(None)]:
            first = int(data.cells.codes[mine][0]) // step * step
            cells = slice(first, first + step)
            whole = whole_counts(counts[cells], self.response.channel(n_old, cells), seed, first)
            here = pairs[mine].astype(np.intp) - first * n_old
            codes[mine] = assign_in_order(whole.reshape(-1, whole.shape[2]), here, draws[mine])
        return codes

    def sampling_variance(self, outcomes: Floats | None = None) -> tuple[Floats, float]:
        """Return the variance of the sum of drawn labels of each cell, and the total weight.

        The variance has the shape (n_cells, n_outcomes); without a matrix of outcomes (n_outcomes,
        n_classes) each class is one. Both are in units of the heaviest row:
        squares of very large or small weights leave the range of floating point.
        """
        data = self.dataset
        n_outcomes = self.response.n_classes if outcomes is None else len(outcomes)
        variance = np.zeros((data.n_cells, n_outcomes))
        weights = np.ones(data.n_rows) if data.weight is None else data.weight / data.weight.max()
        for part in parts_of(data.n_rows, block_length(self.response.n_classes)):
            mean = square = self.of_rows(part)
            if outcomes is not None:
                mean, square = mean @ outcomes.T, square @ (outcomes**2).T
            # Projected labels leave [0, 1] by rounding errors, and a variance below 0 has no root.
            each = np.maximum(square - mean**2, 0.0)
            np.add.at(variance, data.cells.codes[part], weights[part, None] ** 2 * each)
        return variance, float(weights.sum())


def refuse_large_round(n_cells: int, n_classes: int) -> None:
    """Refuse to round class labels whose tables of classes would take gigabytes.

    Examples
    --------
    >>> refuse_large_round(100, 16)
    """
    most = 1 << 26  # entries: 2.7 GB while they are rounded
    if n_cells * n_classes**2 > most:
        cells = f" in {n_cells:,} groups" if n_cells > 1 else ""
        raise ParameterError(
            f"There are {n_classes:,} classes{cells}, and 'round' counts how many rows of each "
            "class become each other: it would take "
            f"{format_bytes(40 * n_cells * n_classes**2)} of memory.",
            remedy="Take 'sample' or 'expand', which need no such table, or put rare classes "
            "together first.",
            n_classes=n_classes,
            n_cells=n_cells,
        )


def _attribute_order(cells: Cells, order: Array) -> tuple[Array, Array]:
    """Return an order of the rows, and a number for each row in it: its categories.

    Rows of the same categories are in the order of their continuous and uncertain attributes; equal
    rows keep the given order. A continuous attribute leaves few rows to a cell. Rounded in its
    order, rows pass what they lack on to their neighbours, so every stretch of the attribute keeps
    its counts and its moments hardly change.
    """
    categories, sizes, ranks = [np.zeros(cells.n_cells, np.uint8)], [1], []
    for column, (vocabulary, kind) in enumerate(zip(cells.vocabularies, cells.kinds, strict=True)):
        codes = cells.table[:, column]
        if kind == CATEGORICAL:
            categories.append(codes)
            sizes.append(vocabulary.n_codes)
        elif isinstance(vocabulary, Mixtures):  # in the order in which they were met
            ranks += list(vocabulary.matrix[codes].T[::-1])
        else:  # distinct values are in order
            ranks.append(codes)
    crossed, _ = cross(categories, sizes)
    place = np.empty(cells.n_cells, np.int64)
    place[np.lexsort((*ranks, crossed))] = np.arange(cells.n_cells)
    rows = order[np.argsort(place[cells.codes[order]], kind="stable")]
    return rows, crossed[cells.codes[rows]]
