"""Rows in memory: fixed lanes of rows, one kernel, a thread pool of our own.

MemoryBlocks depend on the number of rows alone and are added up in order, so the result does not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType

import numpy as np

from r2b._data.arrays import Array, Flags, Floats, Whole
from r2b._data.compute import cores, in_order, parts_of
from r2b._data.merge import Rows
from r2b._solve.oracle import classes_plain, reference
from r2b._solve.oracle.blocks import (
    Block,
    BlockOracle,
    BlockTask,
    Inspect,
    KernelChoice,
    Sums,
    added,
    choose_kernel,
    evidence,
)
from r2b._solve.oracle.reference import Answers, Evaluation, Inspection, Responses, Samples
from r2b._solve.oracle.thinning import (
    FEWEST_PER_PRICE,
    ROWS_PER_PRICE,
    THIN_FROM,
    sample_sizes,
    thin,
)

_LANES = 16
_LANE_ENTRIES = 1 << 16  # below this many entries a lane is not worth a thread
# a sample of this many rows in as many classes costs about three passes when its curvature is taken
_WORTH = 40


@dataclass(frozen=True, eq=False)
class MemoryBlocks:
    """Blocks that are parts of one array, read by threads.

    Attributes
    ----------
    parts : list of Block
    threads : int
    """

    parts: list[Block]
    threads: int

    @classmethod
    def of(cls, rows: Rows, truth: Array | None, threads: int) -> MemoryBlocks:
        """Cut rows into lanes."""
        # Each lane may return a table of curvature; all of them together should not outgrow the
        # rows.
        tables = max(2, rows.labels.size // (rows.n_cells * rows.n_classes**2))
        n_lanes = min(_LANES, max(1, rows.labels.size // _LANE_ENTRIES), tables)
        weight = np.empty(0) if rows.weight is None else rows.weight
        parts = [
            Block(
                rows.labels[part],
                rows.cells[part],
                weight[part],
                None if truth is None else truth[part],
            )
            for part in parts_of(len(rows.labels), -(-len(rows.labels) // n_lanes))
        ]
        return cls(parts, threads)

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every lane, by threads."""
        return in_order(
            lambda lane: task(self.parts[lane.start]), parts_of(len(self.parts), 1), self.threads
        )

    def with_answers(self, answers: Floats) -> MemoryBlocks:
        """Give the same blocks with their new labels."""
        ends = np.cumsum([len(part) for part in self.parts])
        each = np.split(answers, ends[:-1])
        return replace(
            self,
            parts=[
                replace(part, answers=mine) for part, mine in zip(self.parts, each, strict=True)
            ],
        )


class MemoryOracle(BlockOracle):
    """Answers for rows held in memory.

    Parameters
    ----------
    rows : Rows
    kernel : {"auto", "numpy", "compiled"}
    threads : int, optional
        The number of cores by default. It changes the time, never the result.
    truth : ndarray of the shape of the rows' labels, optional
        The labels themselves, where those of ``rows`` are what each class is worth to a row.
        Distances are measured from them.
    """

    blocks: MemoryBlocks

    def __init__(
        self,
        rows: Rows,
        kernel: KernelChoice = "auto",
        threads: int | None = None,
        truth: Array | None = None,
    ) -> None:
        self.rows = rows
        self.truth = truth
        self.kernel = choose_kernel(kernel, rows.labels.size)
        self.threads = threads or cores()
        # Chosen once for all lanes: what pays is decided by the whole table.
        super().__init__(
            MemoryBlocks.of(rows, truth, self.threads),
            rows.group_weight,
            "numpy" if self.kernel is reference else "compiled",
        )

    @property
    def labels(self) -> Array:
        """The labels that came in."""
        return self.rows.labels if self.truth is None else self.truth

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        if answers is None or isinstance(answers, Responses):
            return super().inspect(prices, lam, unchanged=unchanged, answers=answers)
        task = Inspect(prices, lam, unchanged, self.kernel_choice)
        return evidence(
            self.blocks.with_answers(answers).run(task), self._cell_weight, self.total_weight
        )

    def samples(self) -> Samples | None:
        """Give a small and a larger sample of the rows, to come near with; None where all rows are cheap to read, or too few."""
        # merged rows are all different: none stands for another
        if self.rows.merged or self.rows.labels.size < THIN_FROM:
            return None
        n_rows, n_classes = self.rows.labels.shape
        enough = min(
            ROWS_PER_PRICE * self.rows.n_cells * n_classes,
            n_rows // 4,
            _WORTH * n_rows // n_classes,
        )
        sizes = sample_sizes(n_rows, enough)
        if sizes[1] < FEWEST_PER_PRICE * self.rows.n_cells * n_classes:
            return None
        small, large = (
            MemoryOracle(thin(self.rows, size), self.kernel_choice, self.threads) for size in sizes
        )
        # With a truth of their own the means of labels are those of others.
        return Samples(
            small, large, self.label_means() - small.label_means() if self.truth is None else None
        )


# of merged rows, from where on their structure saves more than loading its kernels costs, half a
# second
MANY_ENTRIES = 1 << 16
# Where weights differ by this much an interior point takes seconds, or ends short, on tables a
# quarter of that size.
_UNEVEN, _UNEVEN_ENTRIES = 1e4, 1 << 14
_WORTHWHILE = 1 << 30  # entries from which any kernel pays: it is only asked whether there is one
_SORTED_ENTRIES = 1 << 13  # from which on threads sort
_ITERATIONS = 400  # conjugate gradients; twenty are the rule
_BLOCK_ENTRIES = 1 << 18  # of rows that are looked at together


@dataclass(frozen=True, eq=False)
class Supports:
    """Which classes the row of each class gives to, in every cell, and the curvature of the means that follows from it.

    Attributes
    ----------
    order : ndarray of shape (n_cells, n_classes)
        The classes of each cell, costliest first; a place in it is a rank.
    size, own : ndarray of the same shape
        By rank: the row's support is the first ``size`` ranks, and its own where ``own`` is 1.
    weight : ndarray of the same shape
        By rank, as a share of the cell.
    lam : float
    kernel : module
    """

    order: Whole
    size: Whole
    own: Floats
    weight: Floats
    lam: float
    kernel: ModuleType

    @cached_property
    def _reach(self) -> Floats:
        return np.asarray(self.kernel.reached(self.size, self.weight))

    def product(self, d: Floats) -> Floats:
        """Multiply the curvature of each cell, minus the derivative of its means by its shifts, by a vector."""
        return np.asarray(
            self.kernel.product(d, self.order, self.size, self.own, self.weight, self._reach)
            / self.lam
        )

    def solution(
        self, right: Floats, free: Flags | bool, share: Floats, extra: Floats, precise: float
    ) -> Floats:
        """Solve with the curvature and ``extra``, on changes of what is free that balance in every class by the shares of cells."""
        # not a view to read only, for which kernels would be compiled once more
        extra = np.broadcast_to(extra, right.shape).copy()
        inverse = np.where(free, 1.0 / (self.diagonal + extra), 0.0)
        tables = (self.order, self.size, self.own, self.weight, self._reach)
        found = self.kernel.solution(
            right,
            share,
            extra,
            inverse,
            self.diagonal * inverse,
            self.lam,
            tables,
            precise,
            _ITERATIONS,
        )
        return np.asarray(found)

    def averages(self, d: Floats) -> Floats:
        """Give the mean of d over the support of the row of each class."""
        return np.asarray(self.kernel.averages(d, self.order, self.size, self.own))

    def spread(self, amount: Floats) -> Floats:
        """Share an amount for the row of each class, times its weight, evenly over its support."""
        return np.asarray(self.kernel.spread(amount, self.order, self.size, self.own, self.weight))

    @cached_property
    def counts(self) -> Floats:
        """The number of classes in the support of the row of each class."""
        return self._by_class(self.size + self.own)

    @cached_property
    def sizes(self) -> Floats:
        """The number of classes that the row of each class gives to, but for its own where that is none of the costliest."""
        return self._by_class(self.size)

    @cached_property
    def given(self) -> Floats:
        """The weight of the rows that give to each class, but for its own where that is none of the costliest."""
        return self._by_class(self._reach)

    @cached_property
    def diagonal(self) -> Floats:
        """The diagonal of the curvature."""
        part = self.weight / np.maximum(self.size + self.own, 1.0)
        shared = (
            self._reach - self.kernel.reached(self.size, part) + self.own * (self.weight - part)
        )
        return self._by_class(shared / self.lam)

    def _by_class(self, ranked: Array) -> Floats:
        by_class = np.empty(ranked.shape)
        np.put_along_axis(by_class, self.order, ranked, axis=1)
        return by_class

    def matrix(self, cell: int) -> Floats:
        """Give the curvature of one cell as a matrix."""
        order, size, own = self.order[cell], self.size[cell], self.own[cell]
        n_classes = len(order)
        part = self.weight[cell] / np.maximum(size + own, 1.0)
        shared = self.kernel.reached(size[None], part[None])[0]
        rank = np.arange(n_classes)
        ranked = -shared[np.maximum(rank[:, None], rank)]
        # The row of a class beyond its prefix ties that class to the prefix.
        tied = np.where(rank < size[:, None], (own * part)[:, None], 0.0)
        ranked -= tied + tied.T
        ranked[rank, rank] += self._reach[cell] + own * (self.weight[cell] - part)
        matrix = np.empty((n_classes, n_classes))
        matrix[order[:, None], order] = ranked / self.lam
        return matrix


class ClassOracle:
    """Answers for class labels, of which there is one merged row for each cell and class.

    Parameters
    ----------
    rows : Rows
        With ``classes``.
    kernel : {"auto", "numpy", "compiled"}
    threads : int, optional
        The number of cores by default. It changes the time, never the result.

    Examples
    --------
    >>> from r2b._data import read
    >>> from r2b._data.merge import merge
    >>> oracle = ClassOracle(merge(read(["a", "b", "a", "a"], sensitive_features=[0, 0, 1, 1])))
    >>> oracle.evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0, curvature=False).means
    array([[0.45, 0.55],
           [1.  , 0.  ]])
    """

    def __init__(
        self, rows: Rows, kernel: KernelChoice = "auto", threads: int | None = None
    ) -> None:
        assert rows.classes is not None, "these rows are no classes"
        self.rows = rows
        self.threads = threads or cores()
        few = kernel == "auto" and not _structured(rows)
        self.kernel_choice: KernelChoice = (
            "numpy" if few or choose_kernel(kernel, _WORTHWHILE) is reference else "compiled"
        )
        self.kernel: ModuleType = classes_plain
        if self.kernel_choice == "compiled":
            from r2b._solve.oracle import classes_compiled

            self.kernel = classes_compiled
        total = rows.group_weight
        self.total_weight = float(total.sum())
        self.cell_share = total / self.total_weight
        table = np.zeros((rows.n_cells, rows.n_classes))
        table[rows.cells, rows.classes] = rows.weight
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        self._divisor = np.where(total > 0, total, 1.0)[:, None]
        self.weight = table / self._divisor

    @property
    def labels(self) -> Array:
        """The labels that came in, as a matrix."""
        return self.rows.labels

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""
        return self.weight.copy()

    def samples(self) -> None:
        """Give None: a pass costs next to nothing."""

    def respond(self, shifts: Floats, lam: float) -> tuple[Supports, Floats, Floats, Floats]:
        """Give the supports of the best responses, the thresholds of the rows by class, cell means and the values of cells."""
        worth = -shifts
        order = _order(worth)
        size, own, level, means, value = self.kernel.settle(worth, order, self.weight, lam)
        return self._supports(order, size, own, lam), level, means, value

    def supports_at(self, worth: Floats, level: Floats, lam: float) -> tuple[Supports, Floats]:
        """Give the supports of rows with these thresholds, best or not, and how much their sums exceed 1."""
        order = _order(worth)
        size, own, excess = self.kernel.supports(worth, order, level, lam)
        return self._supports(order, size, own, lam), excess

    def _supports(self, order: Whole, size: Whole, own: Floats, lam: float) -> Supports:
        return Supports(
            order, size, own, np.take_along_axis(self.weight, order, axis=1), lam, self.kernel
        )

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        supports, _, means, value = self.respond(prices, lam)
        curve = (
            np.stack([supports.matrix(cell) for cell in range(len(prices))]) if curvature else None
        )
        return Evaluation(means, float(self.cell_share @ value), curve)

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        supports, *_ = self.respond(prices, lam)
        n, n_classes = design.shape[1], prices.shape[1]
        folded = np.zeros((n, n_classes, n, n_classes))
        for cell, counted in enumerate(design):
            mine = np.flatnonzero(counted)
            block = self.cell_share[cell] * supports.matrix(cell)
            for one in mine:
                for other in mine:
                    folded[one, :, other, :] += counted[one] * counted[other] * block
        return folded

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        responses = answers if isinstance(answers, Responses) else None
        rows = None if isinstance(answers, Responses) else answers
        task = Inspect(prices, lam, unchanged, self.kernel_choice, responses)
        level = (
            np.zeros_like(prices)
            if unchanged or rows is not None
            else self.respond(*(responses or (prices, lam)))[1]
        )
        n_rows = len(self.rows.cells)
        lanes = parts_of(n_rows, -(-n_rows // _LANES))
        results = in_order(
            lambda lane: added(self._inspect(task, lane, level, rows), largest=True),
            lanes,
            self.threads,
        )
        return evidence(results, self._divisor, self.total_weight)

    def _inspect(
        self, task: Inspect, lane: slice, level: Floats, answers: Floats | None
    ) -> Iterator[Sums]:
        rows, weight = self.rows, self.rows.weight
        assert rows.classes is not None and weight is not None
        for part, labels in label_blocks(rows, lane, max(1, _BLOCK_ENTRIES // rows.n_classes)):
            cells, own = rows.cells[part], None if answers is None else answers[part]
            # The compiled kernel starts from these thresholds and checks them against every entry.
            yield task(
                Block(
                    labels,
                    cells,
                    weight[part],
                    answers=own,
                    levels=level[cells, rows.classes[part]],
                )
            )


def label_blocks(rows: Rows, lane: slice, size: int) -> Iterator[tuple[slice, Array]]:
    """Give the rows of a lane in parts with their labels; those of classes are made for the part and gone after it."""
    if rows.matrix is not None:
        yield from ((part, rows.matrix[part]) for part in parts_of(lane.stop, size, lane.start))
        return
    assert rows.classes is not None
    room, place = np.zeros((min(size, lane.stop - lane.start), rows.n_classes)), np.arange(size)
    for part in parts_of(lane.stop, size, lane.start):
        at = place[: part.stop - part.start], rows.classes[part]
        room[at] = 1.0
        yield part, room[: len(at[0])]
        room[at] = 0.0


def _structured(rows: Rows) -> bool:
    """Whether class labels are many, or weigh so differently, that kernels for their structure are loaded."""
    if rows.entries >= MANY_ENTRIES or rows.entries < _UNEVEN_ENTRIES or rows.weight is None:
        return rows.entries >= MANY_ENTRIES
    counted = rows.weight[rows.weight > 0]
    return bool(counted.max(initial=0.0) > _UNEVEN * counted.min(initial=np.inf))


def oracle_of(
    rows: Rows,
    kernel: KernelChoice = "auto",
    threads: int | None = None,
    truth: Array | None = None,
) -> MemoryOracle | ClassOracle:
    """Choose the oracle for rows in memory: many classes go by their structure, and fewer where weights differ widely."""
    if rows.classes is not None and _structured(rows):
        return ClassOracle(rows, kernel, threads)
    return MemoryOracle(rows, kernel, threads, truth)


def _order(worth: Floats) -> Whole:
    order = np.empty(worth.shape, np.int64)

    def work(some: slice) -> None:
        # ties in whatever order: a stable sort takes two to three times as long
        order[some] = np.argsort(-worth[some], axis=1)

    n_cells = len(worth)
    list(
        in_order(
            work,
            parts_of(
                n_cells, max(1, -(-n_cells // _LANES) if worth.size >= _SORTED_ENTRIES else n_cells)
            ),
        )
    )
    return order
