"""Equal rows become one weighted row: rows of one cell and one label share their answer.

Class labels collapse to at most cells x classes weighted rows, whatever their number.
Probabilities are merged where many repeat, and are otherwise left where they are: the label matrix
is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from r2b._data import Cells, Dataset
from r2b._data.arrays import (
    BLOCK_ROWS,
    Array,
    Floats,
    count_codes,
    distinct_rows,
    exact_bincount,
    new_part,
    smallest_unsigned,
)
from r2b._data.dataset import Labels
from r2b._data.probabilities import row_blocks


@dataclass(frozen=True, eq=False)
class Rows:
    """Weighted rows for the solver, and the way back to the rows of the table.

    Attributes
    ----------
    matrix : ndarray of shape (n, n_classes), or None for classes
        Label rows, float32 or float64: distinct ones if merged, else the user's own matrix.
    cells : ndarray of shape (n,)
        The cell of each, an unsigned code.
    weight : ndarray of shape (n,), or None where each row weighs 1
    n_cells : int
    dataset : Dataset or None
        The table these rows stand for; None for a sample of rows that live elsewhere.
    distinct : bool
        Whether these are the distinct rows of a table of probabilities.
    classes : ndarray of shape (n,) or None
        The class of each row, where labels are classes and each is worth 1 to its own rows and
        nothing to others.
    width : int
        The number of classes, where there is neither a matrix nor a dataset that tells it.
    """

    matrix: Array | None
    cells: Array
    weight: Floats | None
    n_cells: int
    dataset: Dataset | None
    distinct: bool = False
    classes: Array | None = None
    width: int = 0

    @property
    def n_classes(self) -> int:
        """The number of classes, L."""
        if self.matrix is None:
            return self.width if self.dataset is None else self.dataset.n_classes
        return int(self.matrix.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """How labels are stored."""
        return np.dtype(np.float64) if self.matrix is None else self.matrix.dtype

    @property
    def entries(self) -> int:
        """Rows times classes."""
        return len(self.cells) * self.n_classes

    @cached_property
    def labels(self) -> Array:
        """Label rows as a matrix, of shape (n, n_classes); of classes it is made on demand."""
        if self.matrix is not None:
            return self.matrix
        labels = np.zeros((len(self.cells), self.n_classes))
        labels[np.arange(len(labels)), self.classes] = 1.0
        return labels

    @property
    def one_hot(self) -> bool:
        """Whether the labels are classes, or probabilities of 0 and 1."""
        return self.classes is not None or (
            self.dataset is not None and not self.dataset.labels.is_soft
        )

    def mean(self, part: Floats) -> Floats:
        """Return the mean label, (n_classes,), where ``part`` of each cell counts, (n_cells,)."""
        own = part[self.cells] if self.weight is None else part[self.cells] * self.weight
        if self.matrix is None:
            total = np.bincount(np.asarray(self.classes), own, minlength=self.n_classes).astype(
                np.float64
            )
        else:
            total = np.zeros(self.n_classes)
            for start in range(0, len(own), BLOCK_ROWS):
                total += own[start : start + BLOCK_ROWS] @ self.matrix[start : start + BLOCK_ROWS]
        return np.asarray(total / own.sum())

    @cached_property
    def cell_weight(self) -> Floats:
        """Total weight of each cell, of shape (n_cells,)."""
        if self.weight is None:
            return count_codes(self.cells.__getitem__, len(self.cells), self.n_cells)
        return np.bincount(self.cells, self.weight, minlength=self.n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Extent:
    """What is known here of rows of probabilities that live elsewhere.

    Attributes
    ----------
    n_rows, n_classes : int
    dtype : dtype
        How labels are stored.
    cell_weight : ndarray of shape (n_cells,)
        Total weight of the rows of each cell.
    """

    n_rows: int
    n_classes: int
    dtype: np.dtype[Any]
    cell_weight: Floats

    @property
    def entries(self) -> int:
        """Rows times classes."""
        return self.n_rows * self.n_classes


def merge(dataset: Dataset) -> Rows:
    """Merge equal pairs of label row and cell; of probabilities only where enough rows repeat.

    Examples
    --------
    >>> from r2b._data import read
    >>> rows = merge(read(["a", "b", "a", "a"], sensitive_features=[0, 0, 0, 1]))
    >>> rows.labels, rows.cells, rows.weight
    (array([[1., 0.],
           [0., 1.],
           [1., 0.]]), array([0, 0, 1], dtype=uint8), array([2., 1., 1.]))
    """
    if not dataset.labels.is_soft:
        return _merge_classes(dataset)
    codes = _certain(dataset)
    if codes is not None:
        certain = replace(dataset, labels=Labels(dataset.labels.vocabulary, codes=codes))
        return replace(_merge_classes(certain), dataset=dataset)
    labels, cells, weight = dataset.labels.array, dataset.cells.codes, dataset.weight
    # Merging sorts N hashes; it pays where it at least halves the rows that every pass walks. Rows
    # of different groups are not the same.
    merges = 2 * dataset.n_cells <= dataset.n_rows and new_part(labels, cells) <= 0.5
    if merges:
        codes, first = distinct_rows(labels, cells)
        labels, cells = labels[first], cells[first]
        weight = np.bincount(codes, weight, minlength=len(first)).astype(np.float64)
    return Rows(labels, cells, weight, dataset.n_cells, dataset, distinct=merges)


def joint_codes(dataset: Dataset, rows: Array | slice = slice(None)) -> Array:
    """Return ``cell * n_classes + class`` of some rows of a table of class labels."""
    n_pairs = dataset.n_cells * dataset.n_classes
    joint = dataset.cells.codes[rows].astype(smallest_unsigned(n_pairs))
    joint *= joint.dtype.type(dataset.n_classes)
    joint += dataset.labels.array[rows].astype(joint.dtype, copy=False)
    return joint


def class_weights(dataset: Dataset, *, ignore_weight: bool = False) -> Floats:
    """Return the weight, or number, of rows of every cell and class, (n_cells, n_classes)."""
    n_pairs = dataset.n_cells * dataset.n_classes
    if dataset.weight is not None and not ignore_weight:
        total = exact_bincount(joint_codes(dataset), dataset.weight, n_pairs)
    else:
        total = count_codes(
            lambda rows: joint_codes(dataset, rows),
            dataset.n_rows,
            n_pairs,
            dataset.repeats,
        )
    return total.reshape(dataset.n_cells, dataset.n_classes)


def _merge_classes(dataset: Dataset) -> Rows:
    n_classes, n_pairs = dataset.n_classes, dataset.n_cells * dataset.n_classes
    if n_pairs > 2 * dataset.n_rows and not dataset.cells.is_categorical:
        # a table of all pairs would be longer than the rows
        alone = dataset.n_cells == dataset.n_rows
        if alone and dataset.weight is None and dataset.repeats is None:
            cells, classes = dataset.cells.codes, dataset.labels.array.astype(np.intp)
            return Rows(None, cells, None, dataset.n_cells, dataset, classes=classes)
        pairs, place = np.unique(joint_codes(dataset), return_inverse=True)
        weights = (
            np.bincount(place, dataset.repeats).astype(np.float64)
            if dataset.weight is None
            else exact_bincount(place, dataset.weight, len(pairs))
        )
        occurs = np.flatnonzero(weights)
        pairs, weights = pairs[occurs], weights[occurs]
    else:
        table = class_weights(dataset).ravel()
        pairs = np.flatnonzero(table)
        weights = table[pairs]
    cells, classes = np.divmod(pairs.astype(np.intp), n_classes)
    cells = cells.astype(smallest_unsigned(dataset.n_cells))
    return Rows(None, cells, weights, dataset.n_cells, dataset, classes=classes)


def _certain(dataset: Dataset) -> Array | None:
    """Return the class of each row where all probabilities are 0 or 1, else None."""
    matrix = dataset.labels.array
    codes = np.empty(len(matrix), dtype=smallest_unsigned(matrix.shape[1]))
    for rows in row_blocks(matrix):
        # Rows add up to 1, so that entries of 0 and 1 are one 1 and zeros.
        block = matrix[rows]
        if not ((block == 0) | (block == 1)).all():
            return None
        codes[rows] = np.nonzero(block)[1]
    return codes


def cell_sums(labels: Labels, cells: Cells, weight: Floats | None) -> tuple[Floats, Floats]:
    """Add up the labels of each cell.

    Returns
    -------
    weight : ndarray of shape (n_cells,)
    sums : ndarray of shape (n_cells, n_classes)
    """
    size, codes = (cells.n_cells, labels.n_classes), cells.codes
    total = np.bincount(codes, weight, size[0]).astype(np.float64)
    if not labels.is_soft:
        pairs = codes.astype(np.int64) * size[1] + labels.array
        return total, np.bincount(pairs, weight, size[0] * size[1]).astype(float).reshape(size)
    columns = (column if weight is None else weight * column for column in labels.array.T)
    return total, np.column_stack([np.bincount(codes, each, size[0]) for each in columns])
