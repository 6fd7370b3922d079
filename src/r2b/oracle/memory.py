"""Rows in memory: fixed lanes of rows, one kernel, a thread pool of our own.

Lanes depend on the number of rows alone and are added up in order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from r2b.errors import MissingExtraError
from r2b.lanes import cores, in_order, parts_of
from r2b.merge import Rows
from r2b.oracle import plain
from r2b.oracle.protocol import Evaluation, Floats, Inspection
from r2b.oracle.thinning import thin

Array = np.ndarray[Any, np.dtype[Any]]
KernelChoice = Literal["auto", "numpy", "compiled"]

_LANES = 16
_LANE_ENTRIES = 1 << 16  # below this many entries a lane is not worth a thread
_PAYS = 1 << 20  # entries from which loading the compiled kernel (0.3 s, once) is repaid within one solve
_THIN_FROM = 1 << 21  # entries from which a solve starts on samples
_THIN = (32, 16)  # one row in 32 to find prices, one in 16 to estimate the curvature
_ANSWER_ENTRIES = 1 << 15  # answers are inspected in blocks that stay in cache


def choose_kernel(choice: KernelChoice, entries: int) -> ModuleType:
    """Pick the kernel: compiled where it pays and numba is there, else NumPy.

    Raises
    ------
    MissingExtraError
        The compiled kernel was asked for by name and numba is not installed.
    """
    if choice == "numpy" or (choice == "auto" and entries < _PAYS):
        return plain
    try:
        from r2b.oracle import compiled
    except ImportError as cause:
        if choice == "auto":
            return plain
        raise MissingExtraError(
            "The compiled kernel needs numba, which is not installed.",
            remedy="Install it with: pip install 'r2b[fast]', or pass kernel='numpy'.",
            library="numba",
        ) from cause
    return compiled


class MemoryOracle:
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

    def __init__(self, rows: Rows, kernel: KernelChoice = "auto", threads: int | None = None, truth: NDArray[Any] | None = None) -> None:
        self.rows = rows
        self.truth = truth
        self.kernel = choose_kernel(kernel, rows.labels.size)
        self.threads = threads or cores()
        self.total_weight = float(rows.group_weight.sum())
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        self._cell_weight = np.where(rows.group_weight > 0, rows.group_weight, 1.0)[:, None]
        n_lanes = min(_LANES, max(1, rows.labels.size // _LANE_ENTRIES))
        self._lanes = parts_of(len(rows.labels), -(-len(rows.labels) // n_lanes))
        # Thresholds of the last pass, from which the compiled kernel starts the next; the NumPy kernel sorts and needs none.
        # Zero is the threshold of a distribution itself, where a solve with lam = 1 begins.
        self._levels = np.zeros(len(rows.labels) if self.kernel is not plain else 0)
        self._weight = np.empty(0) if rows.weight is None else rows.weight

    @property
    def labels(self) -> Array:
        """The labels that came in."""
        return self.rows.labels if self.truth is None else self.truth

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        n_groups, n_classes = prices.shape
        curved = (n_groups, n_classes, n_classes) if curvature else (0, 0, 0)

        def lane(part: slice) -> list[NDArray[Any]]:
            out = [np.zeros((n_groups, n_classes)), np.zeros(1), np.zeros(curved)]
            rows = self.rows
            self.kernel.walk(rows.labels[part], rows.groups[part], self._weight[part], prices, lam, self._levels[part], *out)
            return out

        sums, totals, curve = self._add_up(lane)
        if curvature:
            curve /= self._cell_weight[:, :, None] * lam
        return Evaluation(sums / self._cell_weight, float(totals[0]) / self.total_weight, curve if curvature else None)

    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices."""
        given = self.labels if unchanged else answers
        apart: defaultdict[int, Floats] = defaultdict(lambda: np.zeros(2))

        def lane(part: slice) -> list[NDArray[Any]]:
            out = [np.zeros(prices.shape), np.zeros(6)]
            rows = self.rows
            for block, x in self._answers(part, prices, lam, given):
                self.kernel.inspect(rows.labels[block], rows.groups[block], self._weight[block], prices, lam, x, *out)
                if self.truth is not None:
                    apart[part.start] += self._distances(block, prices, x)
            return out

        sums, totals = self._add_up(lane, largest=5)
        if self.truth is not None:
            totals[3:5] = sum(apart[part.start] for part in self._lanes)
        each = totals[:5] / self.total_weight
        slack, squared_norm, agreement, squared_distance, moved = (float(value) for value in each)
        means = sums / self._cell_weight
        return Inspection(means, slack, squared_norm, agreement, squared_distance, moved, float(totals[5]))

    def _distances(self, block: slice, prices: Floats, x: Array) -> Floats:
        """Squared and total-variation distance of a block's answers from the true labels."""
        assert self.truth is not None
        sums, totals = np.zeros(prices.shape), np.zeros(6)
        self.kernel.inspect(self.truth[block], self.rows.groups[block], self._weight[block], prices, 0.0, x, sums, totals)
        distances: Floats = totals[3:5]
        return distances

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up the curvature of rows by pairs of columns of the design."""
        n, n_classes = design.shape[1], prices.shape[1]

        def lane(part: slice) -> list[NDArray[Any]]:
            folded = np.zeros((n, n_classes, n, n_classes))
            rows = self.rows
            plain.fold(rows.labels[part], rows.groups[part], self._weight[part], prices, lam, design, folded)
            return [folded]

        (folded,) = self._add_up(lane)
        folded /= lam * self.total_weight
        return folded

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in."""

        def lane(part: slice) -> list[NDArray[Any]]:
            sums = np.zeros((self.rows.n_groups, self.rows.n_classes))
            self.kernel.add_rows(self.labels[part], self.rows.groups[part], self._weight[part], sums)
            return [sums]

        (sums,) = self._add_up(lane)
        means: Floats = sums / self._cell_weight
        return means

    def samples(self) -> tuple[MemoryOracle, MemoryOracle] | None:
        """Give a small and a larger sample of the rows, for a solver to come near with; None where all rows are cheap to walk."""
        if self.rows.merged or self.rows.labels.size < _THIN_FROM:  # merged rows are all different: none stands for another
            return None
        kernel: KernelChoice = "numpy" if self.kernel is plain else "compiled"
        small, large = (MemoryOracle(thin(self.rows, len(self.rows.labels) // part), kernel, self.threads) for part in _THIN)
        return small, large

    def _answers(self, part: slice, prices: Floats, lam: float, given: Array | None) -> Iterator[tuple[slice, Array]]:
        rows = self.rows
        size = max(1, _ANSWER_ENTRIES // rows.n_classes)
        room = np.empty((min(size, part.stop - part.start), rows.n_classes))
        for start in range(part.start, part.stop, size):
            block = slice(start, min(start + size, part.stop))
            if given is not None:
                yield block, given[block]
                continue
            x = room[: block.stop - block.start]
            self.kernel.answer(rows.labels[block], rows.groups[block], prices, lam, self._levels[block], x)
            yield block, x

    def _add_up(self, lane: Callable[[slice], list[NDArray[Any]]], largest: int | None = None) -> list[NDArray[Any]]:
        return _added(in_order(lane, self._lanes, self.threads), largest)


def _added(results: Iterator[list[NDArray[Any]]], largest: int | None) -> list[NDArray[Any]]:
    total = next(results)
    for more in results:
        worst = 0.0 if largest is None else max(total[-1][largest], more[-1][largest])
        for into, addend in zip(total, more, strict=True):
            into += addend
        if largest is not None:
            total[-1][largest] = worst
    return total
