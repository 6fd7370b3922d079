"""Blocks of rows, and the one task that an engine runs on them.

A pass over the rows is ``kernel(block, prices) -> sums``. Which kernel makes the sums of a block
and where blocks live are two independent choices: a :class:`Pass` says what is wanted and can be
sent to wherever the rows are, and an engine has one method, ``reduce(task)``, which makes the sums
of every block and merges them in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np
from scipy.sparse import csc_array

from r2b._data.arrays import Array, Floats, Places
from r2b._data.compute import in_order, parts_of
from r2b.errors import MissingExtraError, install

Sums = list[Array]
KernelChoice = Literal["auto", "numpy", "compiled"]

# entries from which loading the compiled kernels (0.3 s, once) is repaid within one solve
_COMPILED_FROM = 1 << 20
CACHED = 1 << 16  # entries that stay in cache while worked on; fewer are not worth a thread


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a table, in memory while a task reads them.

    Attributes
    ----------
    labels : ndarray of shape (n, n_classes) or (n,)
        What each class is worth to each row: the labels themselves unless changes have costs. Class
        labels may be codes of classes.
    design : ndarray of shape (n,) or (n, n_groups)
        How rows count: the cell of each row, an unsigned code; or how much of each row counts in
        each group.
    weight : ndarray of shape (n,)
        Empty where each row weighs 1.
    truth : ndarray like ``labels``, optional
        The labels, where those above are something else.
    answers : ndarray of shape (n, n_classes), optional
        The labels that are returned, where they do not follow from prices.
    levels : ndarray of shape (n,)
        The threshold of each row in the last pass. A compiled kernel starts from it and writes the
        new one here; results do not depend on it.

    Examples
    --------
    >>> block = Block(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0, 1]))
    >>> Pass("labels", (2, 2)).make(block)
    [array([[0.7, 0.3],
           [0.2, 0.8]]), array([1., 1.])]
    """

    labels: Array
    design: Array
    weight: Array = field(default_factory=lambda: np.empty(0))
    truth: Array | None = None
    answers: Array | None = None
    levels: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.levels):
            object.__setattr__(self, "levels", np.zeros(len(self.labels)))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> Block:
        """Return some of the rows."""
        own = {name: each[rows] for name, each in vars(self).items() if each is not None}
        return replace(self, **own)

    def parts(self, n_classes: int) -> Iterator[Block]:
        """Cut the rows into parts that stay in cache."""
        return (self[each] for each in parts_of(len(self), max(1, CACHED // n_classes)))

    @property
    def old_labels(self) -> Array:
        """The labels themselves, also where the block has what they are worth."""
        return self.labels if self.truth is None else self.truth

    @property
    def weights(self) -> Array:
        """The weights, also where each row weighs 1."""
        return self.weight if len(self.weight) else np.ones(len(self))

    @property
    def unchanged(self) -> Block:
        """The same rows, whose old labels are returned."""
        return replace(self, answers=self.old_labels)

    def counts(self, members: Floats | None, groups: Places) -> Floats:
        """Return how much each row counts in some groups: as its cell does, or the row itself."""
        counts = self.design if members is None else members[self.design]
        return np.ascontiguousarray(counts[:, groups])

    def shifts(self, prices: Floats) -> Floats:
        """Return what the prices of its cell or its groups add up to for each row."""
        return prices[self.design] if self.design.ndim == 1 else self.design @ prices

    def totals(self, rows: Array, n_columns: int) -> Floats:
        """Add up numbers of rows, times their weights, by cell or by group."""
        if self.design.ndim == 2:
            return np.asarray(self.design.T @ (self.weights[:, None] * rows))
        places = np.arange(len(self) + 1)
        return np.asarray(
            csc_array((self.weights, self.design, places), shape=(n_columns, len(self))) @ rows
        )


def as_matrix(labels: Array, n_classes: int) -> Floats:
    """Return labels as rows of probabilities; a class is certain."""
    if labels.ndim == 2:
        return labels
    matrix = np.zeros((len(labels), n_classes))
    matrix[np.arange(len(labels)), labels] = 1.0
    return matrix


class Reduction(Protocol):
    """What is asked of all rows: made of some of them, and merged in their order.

    It can be pickled, and what it makes has a size of its own however many rows there are. It
    changes nothing that it is given, so that work can be repeated where a worker was lost.
    """

    def make(self, rows: Any, /) -> Any:
        """Return the result of some rows: a block, or a batch of a table."""
        ...

    def merge(self, one: Any, other: Any, /) -> Any:
        """Merge the result of some rows with that of later ones."""
        ...


class Blocks(Protocol):
    """An engine: it decides where blocks live and who reads them."""

    def reduce(self, task: Reduction, /) -> Any:
        """Make the result of every block, and merge the results in the order of the blocks."""
        ...


def merged(task: Reduction, results: Iterable[Any]) -> Any:
    """Merge results in their order; None where there are none."""
    several = iter(results)
    first = next(several, None)
    return first if first is None else reduce(task.merge, several, first)


def choose_kernel(choice: KernelChoice, entries: int) -> ModuleType:
    """Choose the kernels: compiled where it pays and numba is installed, else NumPy.

    Raises
    ------
    MissingExtraError
        The compiled kernels were asked for by name and numba is not installed.
    """
    from r2b._solve.oracle import reference

    if choice == "numpy" or (choice == "auto" and entries < _COMPILED_FROM):
        return reference
    try:
        from r2b._solve.oracle import compiled
    except ImportError as cause:
        if choice == "auto":
            return reference
        raise MissingExtraError(
            "The compiled kernels need numba, which is not installed.",
            remedy=f"Install it with: {install('fast')}.",
            library="numba",
        ) from cause
    return compiled


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass over the rows: the sums that a solver or a certificate needs.

    Attributes
    ----------
    wanted : {"labels", "responses", "curvature", "evidence"}
        Sums of the old labels, with the weights; of the responses to the prices, with the
        value of the dual; of the curvature of the rows; or of what a certificate is computed from.
    shape : tuple of (int, int)
        The number of cells or groups by which rows are added up, and the number of classes.
    prices : ndarray of that shape, optional
    lam : float
    unchanged : bool
        For evidence: the old labels are returned.
    members : ndarray of shape (n_cells, n_groups), optional
        For curvature: how cells count in groups. Without it curvature is added up by cell, or by
        the groups that rows themselves count in.
    components : list of ndarray, optional
        For curvature by groups: the groups that share a table.
    kernel : {"auto", "numpy", "compiled"}
    """

    wanted: Literal["labels", "responses", "curvature", "evidence"]
    shape: tuple[int, int]
    prices: Floats | None = None
    lam: float = 1.0
    unchanged: bool = False
    members: Floats | None = None
    components: list[Places] | None = None
    kernel: KernelChoice = "auto"

    def make(self, block: Block) -> Sums:
        """Make the sums of one block."""
        return self.sums(choose_kernel(self.kernel, len(block) * self.shape[1]), block)

    def sums(self, kernel: ModuleType, rows: Any) -> list[Any]:
        """Make the sums of some rows, as arrays of the kernel: a module like the reference one."""
        if self.wanted == "labels":
            return list(kernel.label_sums(rows, self.shape))
        if self.wanted == "responses":
            return list(kernel.evaluate(rows, self.prices, self.lam))
        if self.wanted == "evidence":
            rows = rows.unchanged if self.unchanged else rows
            return list(kernel.inspect(rows, self.prices, self.lam))
        if self.members is None and rows.design.ndim == 1:
            return [kernel.cell_curvature(rows, self.prices, self.lam)]
        return [
            kernel.group_curvature(rows, self.prices, self.lam, rows.counts(self.members, groups))
            for groups in self.components or []
        ]

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Add up; of the last array of evidence keep the largest."""
        total = [mine + more for mine, more in zip(one, other, strict=True)]
        if self.wanted == "evidence":
            total[-1] = np.maximum(one[-1], other[-1])
        return total


@dataclass(frozen=True, eq=False)
class MemoryBlocks:
    """Blocks that are parts of one table in memory, read by threads.

    How the table is cut depends on its size alone, so that sums do not depend on the number of
    threads.

    Attributes
    ----------
    table : Block
    lanes : list of slice
    threads : int, optional
    """

    table: Block
    lanes: list[slice]
    threads: int | None

    @classmethod
    def of(cls, table: Block, n_columns: int, n_classes: int, threads: int | None) -> MemoryBlocks:
        """Cut a table into lanes."""
        entries, curved = len(table) * n_classes, n_columns * n_classes**2
        if table.design.ndim == 2:
            curved *= n_columns
        # 16 threads may read at once. Each lane may make a table of curvature: together they should
        # not outgrow the rows.
        n_lanes = min(16, max(1, entries // CACHED), max(2, entries // curved))
        return cls(table, parts_of(len(table), -(-len(table) // n_lanes)), threads)

    def reduce(self, task: Reduction) -> Any:
        """Make the result of every lane by threads, and merge the results in order."""
        return merged(
            task, in_order(lambda lane: task.make(self.table[lane]), self.lanes, self.threads)
        )
