"""Rows in memory: fixed lanes of rows, one kernel, a thread pool of our own.

Lanes depend on the number of rows alone and are added up in order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.lanes import cores, in_order, parts_of
from r2b._data.merge import Rows
from r2b._solve.oracle import plain
from r2b._solve.oracle.blocks import Block, BlockOracle, Inspect, KernelChoice, Sums, Task, choose_kernel
from r2b._solve.oracle.protocol import Floats, Inspection, Oracle
from r2b._solve.oracle.thinning import Corrected, thin

Array = np.ndarray[Any, np.dtype[Any]]

_LANES = 16
_LANE_ENTRIES = 1 << 16  # below this many entries a lane is not worth a thread
_THIN_FROM = 1 << 21  # entries from which a solve starts on samples
_THIN = (32, 16)  # one row in 32 to find prices, one in 16 to stand for all rows between passes
_ROWS_PER_PRICE = 20  # with fewer a sample tells little of the curvature: passes then go up by more than a larger one costs
_WORTH = 40  # a sample of this many rows in as many classes costs about three passes when its curvature is taken


@dataclass(frozen=True, eq=False)
class Lanes:
    """Blocks that are parts of one array, walked by threads.

    Attributes
    ----------
    parts : list of Block
    threads : int
    """

    parts: list[Block]
    threads: int

    @classmethod
    def of(cls, rows: Rows, truth: NDArray[Any] | None, threads: int) -> Lanes:
        """Cut rows into lanes."""
        # Each lane may return a table of curvature; all of them together should not outgrow the rows.
        tables = max(2, rows.labels.size // (rows.n_groups * rows.n_classes**2))
        n_lanes = min(_LANES, max(1, rows.labels.size // _LANE_ENTRIES), tables)
        weight = np.empty(0) if rows.weight is None else rows.weight
        parts = [
            Block(rows.labels[part], rows.groups[part], weight[part], None if truth is None else truth[part])
            for part in parts_of(len(rows.labels), -(-len(rows.labels) // n_lanes))
        ]
        return cls(parts, threads)

    def run(self, task: Task) -> Iterator[Sums]:
        """Walk the lanes by threads."""
        if len(self.parts) == 1:
            return iter([task(self.parts[0])])
        return in_order(lambda lane: task(self.parts[lane.start]), parts_of(len(self.parts), 1), self.threads)

    def with_answers(self, answers: Floats) -> Lanes:
        """Give the same blocks with their new labels."""
        ends = np.cumsum([len(part) for part in self.parts])
        each = np.split(answers, ends[:-1])
        return replace(self, parts=[replace(part, answers=mine) for part, mine in zip(self.parts, each, strict=True)])


class MemoryOracle(BlockOracle):
    """Answers for rows held in memory.

    Parameters
    ----------
    rows : Rows
    kernel : {"auto", "numpy", "compiled"}
    threads : int, optional
        The number of cores by default. It changes the time, never the result.
    truth : ndarray of the shape of the rows' labels, optional
        The labels themselves, where those of ``rows`` are what each class is worth to a row. Distances are measured from them.
    """

    blocks: Lanes

    def __init__(self, rows: Rows, kernel: KernelChoice = "auto", threads: int | None = None, truth: NDArray[Any] | None = None) -> None:
        self.rows = rows
        self.truth = truth
        self.kernel = choose_kernel(kernel, rows.labels.size)
        self.threads = threads or cores()
        # Chosen once for all lanes: what pays is decided by the whole table.
        super().__init__(Lanes.of(rows, truth, self.threads), rows.group_weight, "numpy" if self.kernel is plain else "compiled")

    @property
    def labels(self) -> Array:
        """The labels that came in."""
        return self.rows.labels if self.truth is None else self.truth

    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        blocks = self.blocks if answers is None else self.blocks.with_answers(answers)
        return self._inspection(blocks.run(Inspect(prices, lam, unchanged, self.kernel_choice)))

    @cached_property
    def _label_means(self) -> Floats:
        return super().label_means()

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in; kept, for samples are corrected by them."""
        return self._label_means

    def samples(self) -> tuple[Oracle, Oracle] | None:
        """Give a small and a larger sample of the rows, for a solver to come near with; None where all rows are cheap to walk."""
        if self.rows.merged or self.rows.labels.size < _THIN_FROM:  # merged rows are all different: none stands for another
            return None
        kernel = self.kernel_choice
        n_rows, n_classes = self.rows.labels.shape
        enough = min(_ROWS_PER_PRICE * self.rows.n_groups * n_classes, n_rows // 4, _WORTH * n_rows // n_classes)
        sizes = (max(n_rows // part, enough * _THIN[1] // part) for part in _THIN)
        small, large = (MemoryOracle(thin(self.rows, size), kernel, self.threads) for size in sizes)
        if self.truth is not None:  # the means are those of other labels
            return small, large
        return Corrected(small, self.label_means() - small.label_means(), self.rows.group_weight / self.total_weight), large
