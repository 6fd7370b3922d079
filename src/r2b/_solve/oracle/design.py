"""Rows that count in several groups, or in parts: prices of groups to means of groups, with no table of cells between them.

With uncertain groups or a continuous attribute nearly every row is a cell of its own, and a table
of cells would be as long as the rows. Here a row has its own line of the design, b_i, read block by
block: shifts ``b_i nu``, the same kernels as for cells, and what they answer is added up by the
design at once. Nothing of the size of rows x classes is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from types import ModuleType

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Flags, Floats, Places
from r2b._data.compute import cores, in_order, one_blas_thread, parts_of
from r2b._data.merge import Rows
from r2b._solve.oracle import reference
from r2b._solve.oracle.blocks import (
    Block,
    Inspect,
    KernelChoice,
    Sums,
    added,
    choose_kernel,
    evidence,
)
from r2b._solve.oracle.folding import Folded
from r2b._solve.oracle.memory import label_blocks
from r2b._solve.oracle.reference import (
    Answers,
    Evaluation,
    GroupOracle,
    Inspection,
    Responses,
    Samples,
)
from r2b._solve.oracle.thinning import (
    ROWS_PER_PRICE,
    THIN_FROM,
    calibrated,
    sample_sizes,
    stretches,
)

Components = list[Places]

_LANES = 16
_LANE_ENTRIES = 1 << 18  # below this many entries a lane is not worth a thread
# of shifts that are made together: they and the answers stay in the second-level cache
_BLOCK_ENTRIES = 1 << 16
_FEWEST = 200  # rows that must count in a group for a sample to tell anything of it
# up to which a step costs a few passes: the curvature of pairs of groups grows with their square
_FEW_GROUPS = 8
# share of all pairs of classes that a row may have for single entries to be faster than products of
# patterns
_SPARSE = 1 / 32
# of so many prices; a part that matters for their products alone to be faster than all
_MANY_PRICES, _FEW_ENTRIES = 256, 1 / 3
_COSTLIER = 4  # times what a row in one group costs without the compiled kernel
_NO_CURVATURE = np.empty((0, 0, 0))


class DesignOracle(GroupOracle):
    """Answers for rows in memory that know how they count in groups.

    Parameters
    ----------
    rows : Rows
    design : ndarray of shape (n_rows, n_groups)
        How much each of the rows counts in each group.
    share : ndarray of shape (n_groups,)
        Weight of each group as a share of the total, by which its sums are divided.
    kernel : {"auto", "numpy", "compiled"}
    threads : int, optional
        The number of cores by default. It changes the time, never the result.
    truth : ndarray of shape (n_rows, n_classes), optional
        The labels themselves, where those of ``rows`` are what each class is worth to a row.
        Distances are measured from them.
    levels : ndarray of shape (n_rows,), optional
        Thresholds of an earlier pass; those of each pass are written here.

    Examples
    --------
    >>> from r2b._data import read
    >>> from r2b._data.merge import merge
    >>> rows = merge(read(np.array([[0.7, 0.3], [0.2, 0.8]]), sensitive_features=[0, 1]))
    >>> oracle = DesignOracle(rows, np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0.25, 0.75]))
    >>> oracle.label_means()
    array([[0.7       , 0.3       ],
           [0.36666667, 0.63333333]])
    """

    def __init__(
        self,
        rows: Rows,
        design: Floats,
        share: Floats,
        kernel: KernelChoice = "auto",
        threads: int | None = None,
        truth: Array | None = None,
        levels: Array | None = None,
    ) -> None:
        self.rows, self.design, self.share, self.truth = rows, design, share, truth
        self.threads = threads or cores()
        self.kernel = choose_kernel(kernel, _COSTLIER * rows.entries)
        self.kernel_choice: KernelChoice = "numpy" if self.kernel is reference else "compiled"
        self.total_weight = (
            float(len(rows.cells)) if rows.weight is None else float(rows.weight.sum())
        )
        # Labels as they are kept: codes of classes where there is no matrix.
        self._kept = np.ascontiguousarray(rows.classes) if rows.matrix is None else rows.matrix
        self._weight = np.empty(0) if rows.weight is None else rows.weight
        # The threshold of each row in the last pass, from which the compiled kernel starts the
        # next.
        self._levels = np.zeros(len(rows.cells)) if levels is None else levels
        self._loops = None if self.kernel is reference else _compiled_loops()
        n_rows = len(rows.cells)
        n_lanes = min(_LANES, max(1, rows.entries // _LANE_ENTRIES))
        self._divisor = (share * self.total_weight)[:, None]
        self._lanes = parts_of(n_rows, -(-n_rows // n_lanes))
        self._size = max(1, _BLOCK_ENTRIES // rows.n_classes)
        self._cells = np.arange(min(self._size, n_rows), dtype=np.uint32)

    @classmethod
    def of(
        cls,
        rows: Rows,
        parity: Parity,
        kernel: KernelChoice = "auto",
        threads: int | None = None,
        truth: Array | None = None,
    ) -> DesignOracle:
        """Give each row the line of its cell."""
        cells = rows.cells
        in_place = len(cells) == len(parity.matrix) and bool((cells[1:] > cells[:-1]).all())
        return cls(
            rows,
            parity.matrix if in_place else parity.matrix[cells],
            parity.share,
            kernel,
            threads,
            truth,
        )

    def among(self, groups: Places) -> DesignOracle:
        """Give the oracle of some of the groups alone, in this order."""
        if np.array_equal(groups, np.arange(len(self.share))):
            return self
        design = np.ascontiguousarray(self.design[:, groups])
        return DesignOracle(
            self.rows, design, self.share[groups], self.kernel_choice, self.threads, self.truth
        )

    @property
    def labels(self) -> Array:
        """The labels that came in, as a matrix."""
        return self.rows.labels if self.truth is None else self.truth

    def _each_lane(self, work: Callable[[slice], Sums]) -> Iterator[Sums]:
        return in_order(work, self._lanes, self.threads)

    def evaluate(self, prices: Floats, lam: float) -> Evaluation:
        """Evaluate all rows at these prices of groups."""
        sums, totals = self.evaluated(prices, lam)
        return Evaluation(sums / self._divisor, float(totals[0]) / self.total_weight, None)

    def evaluated(self, prices: Floats, lam: float) -> Sums:
        """Give the sums of the responses by group, and their value, neither divided by weights."""
        return added(self._each_lane(lambda lane: self._evaluate(lane, prices, lam)))

    def _evaluate(self, lane: slice, prices: Floats, lam: float) -> Sums:
        sums, totals = np.zeros(prices.shape), np.zeros(1)
        if self._loops is not None:
            own = (self._weight[lane], prices, lam, self._levels[lane])
            self._loops.evaluate(self._kept[lane], self.design[lane], *own, [sums, totals])
            return [sums, totals]
        room = np.empty((min(self._size, lane.stop - lane.start), prices.shape[1]))
        for part, labels in label_blocks(self.rows, lane, self._size):
            design, answers = self.design[part], room[: len(labels)]
            answers[...] = 0.0
            cells, weight, levels = (
                self._cells[: len(labels)],
                self._weight[part],
                self._levels[part],
            )
            self.kernel.evaluate(
                labels,
                cells,
                weight,
                design @ prices,
                lam,
                levels,
                (answers, totals, _NO_CURVATURE),
            )
            sums += design.T @ answers
        return [sums, totals]

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices of groups."""
        return evidence(
            [self.inspected(prices, lam, unchanged=unchanged, answers=answers)],
            self._divisor,
            self.total_weight,
        )

    def inspected(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Sums:
        """Give what the evidence is made of, not divided by weights."""
        with one_blas_thread():
            return added(
                self._each_lane(
                    lambda lane: added(
                        self._inspect(lane, prices, lam, unchanged, answers), largest=True
                    )
                ),
                largest=True,
            )

    def _inspect(
        self, lane: slice, prices: Floats, lam: float, unchanged: bool, answers: Answers | None
    ) -> Iterator[Sums]:
        if self._loops is not None and self.truth is None and answers is None and not unchanged:
            sums, totals = np.zeros(prices.shape), np.zeros(6)
            given = (self._weight[lane], prices, lam, self._levels[lane])
            self._loops.prove(self._kept[lane], self.design[lane], *given, [sums, totals])
            yield [sums, totals[:5].copy(), totals[5:].copy()]
            return
        responses, rows = (answers, None) if isinstance(answers, Responses) else (None, answers)
        for part, labels in label_blocks(self.rows, lane, self._size):
            design, cells = self.design[part], self._cells[: len(labels)]
            truth, own = (None if each is None else each[part] for each in (self.truth, rows))
            block = Block(labels, cells, self._weight[part], truth, own, self._levels[part])
            theirs = (
                None if responses is None else responses._replace(prices=design @ responses.prices)
            )
            seen, totals, worst = Inspect(
                design @ prices, lam, unchanged, self.kernel_choice, theirs
            )(block)
            yield [design.T @ seen, totals, worst]

    def curvature(
        self, prices: Floats, lam: float, components: Components, entries: Flags | None = None
    ) -> list[Floats]:
        """Add up ``w_i b_ig b_ih H_i`` for the groups of each component, in one pass."""
        folded = self.folded(prices, lam, components, entries)
        for block in folded:
            block *= 1.0 / (lam * self.total_weight)
        return folded

    def folded(
        self, prices: Floats, lam: float, components: Components, entries: Flags | None = None
    ) -> Sums:
        """Give lam times the curvature, not divided by weights."""
        return added(
            self._each_lane(lambda lane: self._fold(lane, prices, lam, components, entries))
        )

    def _fold(
        self, lane: slice, prices: Floats, lam: float, components: Components, entries: Flags | None
    ) -> Sums:
        if (
            self._loops is not None
            and (tables := self._fold_compiled(lane, prices, lam, components, entries)) is not None
        ):
            return tables
        n_classes = prices.shape[1]
        folds = [
            Folded(len(groups), n_classes, None if entries is None else entries[groups])
            for groups in components
        ]
        for part, labels in label_blocks(self.rows, lane, self._size):
            design, answers = self.design[part], np.empty((len(labels), n_classes))
            self.kernel.answer(
                labels,
                self._cells[: len(labels)],
                design @ prices,
                lam,
                self._levels[part],
                answers,
            )
            for fold, groups in zip(folds, components, strict=True):
                fold.add_supports(_columns(design, groups), answers, self._weight[part])
        return [fold.table() for fold in folds]

    def _fold_compiled(
        self, lane: slice, prices: Floats, lam: float, components: Components, entries: Flags | None
    ) -> Sums | None:
        """Fold entry by entry where rows have few classes, by products of patterns where more; None where few of many prices matter."""
        assert self._loops is not None
        n_classes, design, tables = prices.shape[1], self.design[lane], []
        few = (
            entries is not None
            and entries.size >= _MANY_PRICES
            and np.count_nonzero(entries) < _FEW_ENTRIES * entries.size
        )
        own = (self._weight[lane], prices, lam, self._levels[lane])
        for groups in components:
            table, given = (
                np.zeros(2 * (len(groups), n_classes)),
                (self._kept[lane], (design, _columns(design, groups)), *own),
            )
            if not self._loops.fold_entries(*given, _SPARSE * n_classes**2, table):
                if few:
                    return None
                self._loops.fold_products(*given, table)
            tables.append(table)
        return tables

    def label_means(self) -> Floats:
        """Group means of the labels as they came in."""
        return self._label_means

    @cached_property
    def _label_means(self) -> Floats:
        return np.asarray(self.label_sums() / self._divisor)

    def label_sums(self) -> Floats:
        """Add up the labels as they came in, by group."""
        if self.rows.classes is not None:
            columns = self._weigh(slice(None)).T
            return np.stack(
                [
                    np.bincount(self.rows.classes, column, minlength=self.rows.n_classes)
                    for column in columns
                ]
            ).astype(np.float64)

        def add(lane: slice) -> Sums:
            parts = parts_of(lane.stop, self._size, lane.start)
            return added(
                [self._weigh(part).T @ self.labels[part].astype(np.float64, copy=False)]
                for part in parts
            )

        with one_blas_thread():
            (sums,) = added(self._each_lane(add))
        return sums

    def _weigh(self, part: slice) -> Floats:
        design = self.design[part]
        return design * self._weight[part, None] if len(self._weight) else design

    @cached_property
    def _counted(self) -> Floats:
        """What all rows count in each group; as a product, which is many times faster than a sum over long columns."""
        with one_blas_thread():
            return np.asarray(
                (self._weight if len(self._weight) else np.ones(len(self.design))) @ self.design
            )

    def samples(self) -> Samples | None:
        """Give a small and a larger sample of the rows, for a solver to come near with; None where all rows are cheap to read."""
        n_rows, n_groups, n_classes = len(self.rows.cells), len(self.share), self.rows.n_classes
        if self.rows.entries * max(1, n_groups // _FEW_GROUPS) < THIN_FROM:
            return None
        sizes = sample_sizes(n_rows, min(ROWS_PER_PRICE * n_groups * n_classes, n_rows // 4))
        small, large = (self.sample(size) for size in sizes)
        if small is None or large is None:
            return None
        known = self.truth is None and self.rows.classes is None
        return Samples(small, large, self.label_means() - small.label_means() if known else None)

    def sample(self, size: int, kernel: KernelChoice | None = None) -> DesignOracle | None:
        """Take about so many rows, weighted so that every group has its share; None where some group has too few of them."""
        chosen = stretches(len(self.rows.cells), size)
        design, wanted = self.design[chosen], self._counted / self.total_weight
        if (np.ones(len(design)) @ (design != 0) < min(_FEWEST, size // 2)).any():
            return None
        weight = calibrated(
            design, self._weight[chosen] if len(self._weight) else np.ones(len(chosen)), wanted
        )
        if weight is None:
            return None
        rows, classes = self.rows, self.rows.classes
        matrix = None if rows.matrix is None else rows.matrix[chosen]
        taken = Rows(
            matrix,
            rows.cells[chosen],
            weight,
            rows.n_cells,
            rows.dataset,
            None,
            None if classes is None else classes[chosen],
        )
        taken = replace(taken, width=rows.width)
        return DesignOracle(taken, design, self.share, kernel or self.kernel_choice, self.threads)


def _compiled_loops() -> ModuleType:
    from r2b._solve.oracle import design_compiled

    return design_compiled


def _columns(design: Floats, groups: Places) -> Floats:
    return design if len(groups) == design.shape[1] else design[:, groups]
