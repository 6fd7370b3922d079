"""The block protocol: rows in blocks, wherever they live, and an oracle that adds up what the blocks answer.

An engine has one method: run a task on every block and give the results in the order of the blocks.
Tasks are small, frozen and can be pickled; what they return is a few arrays of the size of the
prices, whatever the number of rows. Threads, memory maps, Dask and Spark all stand behind this one
protocol. An engine on many machines has a second one, which also puts the results together there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Literal, Protocol

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._solve.oracle import reference
from r2b._solve.oracle.reference import Answers, Evaluation, Inspection, Responses
from r2b.errors import MissingExtraError

Sums = list[Array]
KernelChoice = Literal["auto", "numpy", "compiled"]

# entries from which loading the compiled kernel (0.3 s, once) is repaid within one solve
_PAYS = 1 << 20
_ANSWER_ENTRIES = 1 << 15  # answers are inspected in parts that stay in cache


def choose_kernel(choice: KernelChoice, entries: int) -> ModuleType:
    """Pick the kernel: compiled where it pays and numba is there, else NumPy.

    Raises
    ------
    MissingExtraError
        The compiled kernel was asked for by name and numba is not installed.
    """
    if choice == "numpy" or (choice == "auto" and entries < _PAYS):
        return reference
    try:
        from r2b._solve.oracle import compiled
    except ImportError as cause:
        if choice == "auto":
            return reference
        raise MissingExtraError(
            "The compiled kernel needs numba, which is not installed.",
            remedy="Install it with: pip install 'r2b[fast]', or pass kernel='numpy'.",
            library="numba",
        ) from cause
    return compiled


def chosen_kernel(choice: KernelChoice, entries: int) -> KernelChoice:
    """Name the kernel that is picked for so many entries."""
    return "numpy" if choose_kernel(choice, entries) is reference else "compiled"


@dataclass(eq=False)
class Block:
    """Some rows of a table, in memory while a task reads them.

    Attributes
    ----------
    labels : ndarray of shape (n, n_classes)
        What each class is worth to each row; the labels themselves unless changes have costs.
    cells : ndarray of shape (n,)
        The cell of each row, an unsigned code.
    weight : ndarray of shape (n,)
        Empty where each row weighs 1.
    truth : ndarray of shape (n, n_classes), optional
        The labels, where those above are something else.
    answers : ndarray of shape (n, n_classes), optional
        New labels, where prices do not tell them.
    levels : ndarray of shape (n,)
        The row's threshold of the last pass, from which the compiled kernel starts the next; a task
        may write here. Zero is the threshold of a distribution itself, where a solve with lam = 1
        begins.
    parts : ndarray of shape (n, n_columns), optional
        What is known of rows that count in parts: memberships, and values of continuous attributes.
        ``labels`` may then be classes, of shape (n,).

    Examples
    --------
    >>> block = Block(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0, 1]))
    >>> LabelSums(2)(block)
    [array([[0.7, 0.3],
           [0.2, 0.8]]), array([1., 1.])]
    """

    labels: Array
    cells: Array
    weight: Array = field(default_factory=lambda: np.empty(0))
    truth: Array | None = None
    answers: Array | None = None
    levels: Array = field(default_factory=lambda: np.empty(0))
    parts: Array | None = None

    def __post_init__(self) -> None:
        if not len(self.levels):
            self.levels = np.zeros(len(self.labels))

    def __len__(self) -> int:
        return len(self.labels)


class BlockTask(Protocol):
    """What is done to one block. It can be pickled, and its result is small."""

    def __call__(self, block: Block) -> Sums:
        """Give arrays that are put together over the blocks."""
        ...

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Put together the results of some blocks and of later ones; neither is changed, so that work can be repeated."""
        ...


class Blocks(Protocol):
    """An engine: it decides where blocks live and who reads them.

    It may have a method ``reduce(task)`` too, which gives the result of all blocks: merged in their
    order, in a tree that does not depend on who was first. Where blocks are many and far away, one
    result comes home instead of one for every block.
    """

    def run(self, task: BlockTask) -> Iterable[Sums]:
        """Run a task on every block; the results come in the order of the blocks, so that sums do not depend on who was first."""
        ...


class Summed:
    """Tasks whose results are added up; of the last array the largest is kept where ``largest`` is true."""

    largest: ClassVar[bool] = False

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Add up."""
        return added([[each.copy() for each in one], other], largest=self.largest)


def reduced(blocks: Blocks, task: BlockTask) -> Sums:
    """Give the result of all blocks."""
    reduce = getattr(blocks, "reduce", None)
    return merged(task, blocks.run(task)) if reduce is None else reduce(task)


def merged(task: BlockTask, results: Iterable[Sums]) -> Sums:
    """Put results together in their order; there is at least one."""
    if isinstance(task, Summed):
        return added(results, largest=task.largest)
    several = iter(results)
    total = next(several)
    for each in several:
        total = task.merge(total, each)
    return total


@dataclass(frozen=True, eq=False)
class Evaluate(Summed):
    """Sums of the responses to prices and their values; with curvature where asked."""

    prices: Floats
    lam: float
    curvature: bool
    kernel: KernelChoice = "auto"

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        n_groups, n_classes = self.prices.shape
        curved = (n_groups, n_classes, n_classes) if self.curvature else (0, 0, 0)
        out = [np.zeros((n_groups, n_classes)), np.zeros(1), np.zeros(curved)]
        kernel = choose_kernel(self.kernel, block.labels.size)
        kernel.evaluate(
            block.labels, block.cells, block.weight, self.prices, self.lam, block.levels, out
        )
        return out


@dataclass(frozen=True, eq=False)
class Inspect(Summed):
    """The evidence about the labels that go out; the worst row, which is no sum, comes last."""

    largest: ClassVar[bool] = True
    prices: Floats
    lam: float
    unchanged: bool = False
    kernel: KernelChoice = "auto"
    responses: Responses | None = None

    def __call__(self, block: Block) -> Sums:
        """Make the answers of some rows at a time, and inspect them."""
        out: Sums = [np.zeros(self.prices.shape), np.zeros(6)]
        apart = np.zeros(2)
        kernel = choose_kernel(self.kernel, block.labels.size)
        if (
            block.truth is None
            and block.answers is None
            and self.responses is None
            and not self.unchanged
        ):
            kernel.prove(
                block.labels, block.cells, block.weight, self.prices, self.lam, block.levels, out
            )
            return [out[0], out[1][:5].copy(), out[1][5:].copy()]
        for part, x in self._answers(block, kernel):
            cells, weight = block.cells[part], block.weight[part]
            kernel.inspect(block.labels[part], cells, weight, self.prices, self.lam, x, out)
            if block.truth is not None:
                seen = np.zeros(6)
                kernel.inspect(
                    block.truth[part],
                    cells,
                    weight,
                    self.prices,
                    0.0,
                    x,
                    [np.zeros(self.prices.shape), seen],
                )
                apart += seen[3:5]
        sums, totals = out
        if block.truth is not None:
            totals[3:5] = apart
        return [sums, totals[:5].copy(), totals[5:].copy()]

    def _answers(self, block: Block, kernel: ModuleType) -> Iterator[tuple[slice, Array]]:
        given = block.answers
        if self.unchanged:
            given = block.labels if block.truth is None else block.truth
        prices, lam = self.responses or (self.prices, self.lam)
        size = max(1, _ANSWER_ENTRIES // block.labels.shape[1])
        room = np.empty((min(size, len(block)), block.labels.shape[1]))
        for start in range(0, len(block), size):
            part = slice(start, min(start + size, len(block)))
            if given is not None:
                yield part, given[part]
                continue
            x = room[: part.stop - part.start]
            kernel.answer(block.labels[part], block.cells[part], prices, lam, block.levels[part], x)
            yield part, x


@dataclass(frozen=True, eq=False)
class Fold(Summed):
    """Curvature of rows by pairs of columns of a design over the cells."""

    prices: Floats
    lam: float
    design: Floats

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        return [
            reference.fold(
                block.labels, block.cells, block.weight, self.prices, self.lam, self.design
            )
        ]


@dataclass(frozen=True, eq=False)
class LabelSums(Summed):
    """Sums of the labels that came in, and the weights, by cell."""

    n_cells: int
    kernel: KernelChoice = "auto"

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        labels = block.labels if block.truth is None else block.truth
        sums = np.zeros((self.n_cells, labels.shape[1]))
        choose_kernel(self.kernel, labels.size).add_rows(labels, block.cells, block.weight, sums)
        counted = np.bincount(
            block.cells, block.weight if len(block.weight) else None, minlength=self.n_cells
        )
        return [sums, counted.astype(np.float64)]


class BlockOracle:
    """Answers for rows in blocks: the :class:`r2b._solve.oracle.Oracle` of every engine.

    Parameters
    ----------
    blocks : Blocks
    cell_weight : ndarray of shape (n_cells,)
        Total weight of the rows of each cell.
    kernel : {"auto", "numpy", "compiled"}

    Examples
    --------
    >>> class Two:
    ...     blocks = [Block(np.array([[0.7, 0.3]]), np.array([0])), Block(np.array([[0.2, 0.8]]), np.array([1]))]
    ...
    ...     def run(self, task):
    ...         return map(task, self.blocks)
    >>> BlockOracle(Two(), np.ones(2)).evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0, curvature=False).means
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(self, blocks: Blocks, cell_weight: Floats, kernel: KernelChoice = "auto") -> None:
        self.blocks = blocks
        self.kernel_choice: KernelChoice = kernel
        self.total_weight = float(cell_weight.sum())
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        self._cell_weight = np.where(cell_weight > 0, cell_weight, 1.0)[:, None]

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        sums, totals, curve = reduced(
            self.blocks, Evaluate(prices, lam, curvature, self.kernel_choice)
        )
        if curvature:
            curve /= self._cell_weight[:, :, None] * lam
        return Evaluation(
            sums / self._cell_weight,
            float(totals[0]) / self.total_weight,
            curve if curvature else None,
        )

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        assert answers is None or isinstance(answers, Responses), (
            "answers row by row belong to rows in memory"
        )
        task = Inspect(prices, lam, unchanged, self.kernel_choice, answers)
        return evidence([reduced(self.blocks, task)], self._cell_weight, self.total_weight)

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        (folded,) = reduced(self.blocks, Fold(prices, lam, design))
        folded /= lam * self.total_weight
        return folded

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""
        return self._label_means

    @cached_property
    def _label_means(self) -> Floats:
        sums, _ = reduced(self.blocks, LabelSums(len(self._cell_weight), self.kernel_choice))
        return np.asarray(sums / self._cell_weight)


def evidence(results: Iterable[Sums], divisor: Floats, total_weight: float) -> Inspection:
    """Add up what :class:`Inspect` gives, and divide the sums of groups or cells by the divisor."""
    sums, totals, worst = added(results, largest=True)
    return Inspection(sums / divisor, *[*(totals / total_weight).tolist(), float(worst[0])])


def added(results: Iterable[Sums], *, largest: bool = False) -> Sums:
    """Add up results in their order; of the last array the largest, where asked.

    Examples
    --------
    >>> added([[np.ones(2), np.ones(1)], [np.ones(2), np.zeros(1)]], largest=True)
    [array([2., 2.]), array([1.])]
    """
    several = iter(results)
    total = next(several)
    for more in several:
        last = len(total) - 1
        for place, (into, addend) in enumerate(zip(total, more, strict=True)):
            if largest and place == last:
                np.maximum(into, addend, out=into)
            else:
                into += addend
    return total
