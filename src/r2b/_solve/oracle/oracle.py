"""What a solver may ask about rows, wherever they live: one oracle, which adds up what blocks give.

A solver works with prices and means of groups. Rows count by cells, where a table of cells is
short, or each in groups of its own (:class:`Block`). :func:`evaluated`, :func:`inspected` and
:func:`folded_curvature` are the only place where one becomes the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Floats, Places, Whole
from r2b._data.merge import Rows
from r2b._solve.oracle import reference
from r2b._solve.oracle.blocks import (
    Block,
    Blocks,
    KernelChoice,
    MemoryBlocks,
    Pass,
    Sums,
    choose_kernel,
)
from r2b._solve.settings import SETTINGS

_CELL_ENTRIES = 1 << 23  # entries of the cells' curvature that are held at once
_SEED = 0x7217  # of samples: the same rows give the same samples


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The responses of the rows to prices, added up.

    Attributes
    ----------
    means : ndarray of shape (n_columns, n_classes)
        Weighted means of the responses by cell or group.
    value : float
        ``sum_i w_i (lam/2 |x_i|^2 - <x_i, y_i - s_i>)`` per unit of weight.
    curvature : ndarray of shape (n_cells, n_classes, n_classes) or None
        Minus the derivative of the means of each cell by its prices: the mean of ``(diag(1_A) -
        1_A 1_A' / |A|) / lam``, A the support.
    """

    means: Floats
    value: float
    curvature: Floats | None


@dataclass(frozen=True, eq=False)
class Inspection:
    """Sums over the data and the returned labels, from which a certificate is computed.

    All are per unit of weight.

    Attributes
    ----------
    means : ndarray of shape (n_columns, n_classes)
        Means of the returned labels by cell or group.
    slack : float
        ``sum_i w_i (<x_i, g_i> - min_k g_ik)`` with ``g_i = lam x_i - y_i + s_i``: 0 where each row
        is the best response to its prices.
    squared_norm, agreement, squared_distance, moved : float
        Means of ``|x|^2``, ``<x, y>``, ``|x - y|^2`` and ``|x - y|_1 / 2``.
    simplex_violation : float
        The largest ``|sum_k x_k - 1|`` or ``-x_k`` of any row.
    """

    means: Floats
    slack: float
    squared_norm: float
    agreement: float
    squared_distance: float
    moved: float
    simplex_violation: float


class Samples(NamedTuple):
    """Samples of the rows, for a solver to come near with.

    Attributes
    ----------
    small : Oracle
        To find prices with.
    large : Oracle
        To stand for all rows between passes.
    """

    small: Oracle
    large: Oracle


class Oracle:
    """Sums over rows: of responses to prices, of curvature, and of what a certificate needs.

    Parameters
    ----------
    blocks : Blocks
        Where the rows are.
    weight : ndarray of shape (n_columns,)
        Total weight of each cell, or of each group that rows count in, by which sums are divided.
    n_classes : int
    total_weight : float, optional
        Of all rows; the sum of the weights of cells by default.
    by_group : bool
        Whether rows count in groups of their own: prices and means are then those of groups.
    rows : Rows, optional
        The rows, where they are in memory.
    near : Oracle, optional
        A sample in memory of rows that live elsewhere.
    label_sums : ndarray of shape (n_columns, n_classes), optional
        Where they are known.
    kernel : {"auto", "numpy", "compiled"}

    Examples
    --------
    >>> from r2b._data import read
    >>> from r2b._data.merge import merge
    >>> rows = merge(read(["a", "b", "a", "a"], sensitive_features=[0, 0, 1, 1]))
    >>> Oracle.of(rows).evaluate(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0).means
    array([[0.45, 0.55],
           [1.  , 0.  ]])
    """

    def __init__(
        self,
        blocks: Blocks,
        weight: Floats,
        n_classes: int,
        *,
        total_weight: float | None = None,
        by_group: bool = False,
        rows: Rows | None = None,
        near: Oracle | None = None,
        label_sums: Floats | None = None,
        kernel: KernelChoice = "auto",
    ) -> None:
        self.blocks, self._weight, self.by_group = blocks, weight, by_group
        self.total_weight = float(weight.sum()) if total_weight is None else total_weight
        self.rows, self.near = rows, near
        self.kernel_choice: KernelChoice = kernel
        self._shape = (len(weight), n_classes)
        self._label_sums = label_sums
        # A cell without weight has no mean; nothing counts it, and 0 stands in for it.
        self._divisor = np.where(weight > 0, weight, 1.0)[:, None]

    @classmethod
    def of(
        cls,
        rows: Rows,
        parity: Parity | None = None,
        *,
        threads: int | None = None,
        truth: Array | None = None,
        kernel: KernelChoice = "auto",
    ) -> Oracle:
        """Make the oracle of rows in memory.

        Parameters
        ----------
        rows : Rows
        parity : Parity, optional
            Rows then count in its groups themselves, not by cell.
        threads : int, optional
            The number of cores by default. It changes the time, never the result.
        truth : ndarray of shape (n, n_classes), optional
            The labels themselves, where those of ``rows`` are what each class is worth to a row.
        kernel : {"auto", "numpy", "compiled"}
        """
        labels = rows.matrix if rows.classes is None else np.ascontiguousarray(rows.classes)
        assert labels is not None
        design = rows.cells if parity is None else parity.matrix.take(rows.cells, axis=0)
        block = Block(labels, design, np.empty(0) if rows.weight is None else rows.weight, truth)
        return cls._of(rows, block, None if parity is None else parity.share, threads, kernel)

    @classmethod
    def _of(
        cls,
        rows: Rows,
        block: Block,
        share: Floats | None,
        threads: int | None,
        kernel: KernelChoice,
    ) -> Oracle:
        total = float(block.weight.sum()) if len(block.weight) else float(len(block))
        weight = rows.cell_weight if share is None else share * total
        # chosen once for all lanes: what pays is decided by the whole table
        # NumPy takes four times as long over a row that is in groups of its own
        entries = rows.entries * (1 if share is None else 4)
        plain = choose_kernel(kernel, entries) is reference
        return cls(
            MemoryBlocks.of(block, len(weight), rows.n_classes, threads),
            weight,
            rows.n_classes,
            total_weight=total,
            by_group=share is not None,
            rows=rows,
            kernel="numpy" if plain else "compiled",
        )

    @property
    def table(self) -> Block:
        """All rows, where they are in memory."""
        assert isinstance(self.blocks, MemoryBlocks)
        return self.blocks.table

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool = False) -> Evaluation:
        """Evaluate all rows at these prices of cells or groups; with the curvature of cells."""
        sums, value = self._reduced(Pass("responses", self._shape, prices, lam))
        curve = None
        if curvature:
            (curve,) = self._reduced(Pass("curvature", self._shape, prices, lam))
            curve = curve / (lam * self._divisor[:, :, None])
        return Evaluation(sums / self._divisor, float(value[0]) / self.total_weight, curve)

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that are returned at these prices.

        These are the old labels if ``unchanged``, the ``answers`` if given, else the best responses
        to the prices.
        """
        task, blocks = Pass("evidence", self._shape, prices, lam, unchanged), self.blocks
        if answers is not None:
            assert isinstance(blocks, MemoryBlocks), "answers row by row belong to rows in memory"
            blocks = replace(blocks, table=replace(blocks.table, answers=answers))
        sums, totals, worst = self._reduced(task, blocks)
        each = [*(totals / self.total_weight).tolist(), float(worst[0])]
        return Inspection(sums / self._divisor, *each)

    def curvature(
        self,
        prices: Floats,
        lam: float,
        components: list[Places],
        members: Floats | None = None,
    ) -> list[Floats]:
        """Add up ``w_i b_ig b_ih H_i`` for the groups of each component.

        H_i is the curvature of row i, and b_i says how it counts: by the row of ``members`` for its
        cell, or as the row itself does.

        Returns
        -------
        list of ndarray of shape (n, n_classes, n, n_classes)
            Per unit of weight, for the n groups of each component.
        """
        task = Pass("curvature", self._shape, prices, lam, members=members, components=components)
        return [table / (lam * self.total_weight) for table in self._reduced(task)]

    def label_means(self) -> Floats:
        """Return the means of the old labels, by cell or group."""
        if self._label_sums is None:
            self._label_sums, _ = self._reduced(Pass("labels", self._shape))
        return self._label_sums / self._divisor

    def among(self, groups: Places) -> Oracle:
        """Return the oracle of some of the groups alone, in this order."""
        if not self.by_group or np.array_equal(groups, np.arange(len(self._weight))):
            return self
        assert self.rows is not None
        design = np.ascontiguousarray(self.table.design[:, groups])
        share = self._weight[groups] / self.total_weight
        return Oracle._of(
            self.rows, replace(self.table, design=design), share, self._threads, self.kernel_choice
        )

    def samples(self) -> Samples | None:
        """Return a small and a larger sample of the rows; None where all rows are cheap to read."""
        if self.near is not None:
            return Samples(self.near, self.near)
        rows = self.rows
        # merged rows are all different: none stands for another
        if rows is None or rows.entries < SETTINGS.sample_from or rows.distinct:
            return None
        if rows.one_hot and not self.by_group:
            return None
        n_prices = self._shape[0] * self._shape[1]
        sizes = sample_sizes(len(self.table), n_prices)
        if sizes[1] < 4 * n_prices:  # a sample of fewer rows has another answer than all rows
            return None
        small, large = (self.sample(size) for size in sizes)
        if small is None or large is None:
            return None
        return Samples(small, large)

    def sample(self, n_rows: int) -> Oracle | None:
        """Take about this many rows, weighted so that cells and groups keep their weight.

        None where no sample stands for some group.
        """
        table, rows, share = self.table, self.rows, None
        assert rows is not None
        if self.by_group:
            share = self._weight / self.total_weight
            chosen = _from_stretches(len(table), n_rows, np.random.default_rng(_SEED))
            design = table.design[chosen]
            # a sample stands for a group of which it has 200 rows
            if (np.count_nonzero(design, axis=0) < min(200, n_rows // 2)).any():
                return None
            wanted = table.weights @ table.design / self.total_weight
            own = calibrated(design, table.weights[chosen], wanted)
            if own is None:
                return None
        else:
            chosen, own = sample_of_cells(rows, n_rows)
        labels, cells = table.labels[chosen], rows.cells[chosen]
        matrix, classes = (labels, None) if labels.ndim == 2 else (None, labels)
        taken = replace(
            rows,
            matrix=matrix,
            classes=classes,
            cells=cells,
            weight=own,
            width=rows.n_classes,
        )
        block = Block(labels, table.design[chosen], own)
        return Oracle._of(taken, block, share, self._threads, self.kernel_choice)

    @property
    def labels(self) -> Array:
        """The old labels, as a matrix."""
        assert self.rows is not None
        return self.rows.labels if self.table.truth is None else self.table.truth

    @cached_property
    def _threads(self) -> int | None:
        return self.blocks.threads if isinstance(self.blocks, MemoryBlocks) else None

    def _reduced(self, task: Pass, blocks: Blocks | None = None) -> Sums:
        found: Sums = (blocks or self.blocks).reduce(replace(task, kernel=self.kernel_choice))
        return found


def _from_stretches(n_rows: int, n_wanted: int, rng: np.random.Generator) -> Whole:
    """Draw one row from each stretch of a table: no period in the order of rows hides a group."""
    step = max(n_rows // n_wanted, 1)
    starts = np.arange(0, n_rows - step + 1, step)
    return starts + rng.integers(0, step, len(starts))


def sample_sizes(n_rows: int, n_prices: int) -> tuple[int, int]:
    """Return the number of rows of a small and of a larger sample."""
    parts = SETTINGS.sampled
    enough = min(SETTINGS.sampled_per_price * n_prices, n_rows // 4)
    small, large = (max(n_rows // part, enough * parts[1] // part) for part in parts)
    return small, large


def sample_of_cells(rows: Rows, n_rows: int) -> tuple[Whole, Floats]:
    """Draw about this many rows, some of every cell, weighted so that cells keep their weight."""
    rng, cells, n_cells = np.random.default_rng(_SEED), rows.cells, rows.n_cells
    chosen = _from_stretches(len(cells), n_rows, rng)
    fewest = n_rows // (2 * n_cells) + 1
    for cell in np.flatnonzero(np.bincount(cells[chosen], minlength=n_cells) < fewest):
        everyone = np.flatnonzero(cells == cell)
        more = everyone[np.sort(rng.permutation(len(everyone))[:fewest])]
        chosen = np.concatenate([chosen[cells[chosen] != cell], more])
    # rows of a cell next to each other, which kernels read faster
    chosen = chosen[np.argsort(cells[chosen], kind="stable")]
    own = np.ones(len(chosen)) if rows.weight is None else rows.weight[chosen]
    return chosen, rescaled(cells[chosen], own, rows.cell_weight)


def rescaled(cells: Array, weight: Floats, cell_weight: Floats) -> Floats:
    """Scale the weights of sampled rows so that cells weigh what they do in the table."""
    mass = np.bincount(cells, weight, minlength=len(cell_weight))
    # a cell whose sampled rows all weigh nothing takes part with equal weights
    weight = np.where(mass[cells] > 0, weight, 1.0)
    mass = np.bincount(cells, weight, minlength=len(cell_weight))
    return weight * (cell_weight / np.where(mass > 0, mass, 1.0))[cells]


def calibrated(design: Floats, weight: Floats, wanted: Floats) -> Floats | None:
    """Weigh sampled rows so that the columns of their design have the means of all rows.

    Bounds compare means of groups whose classes add up to 1. In a sample whose groups had other
    shares they would add up to something else, and closed bounds could not be met at all. The
    weights are multiplied by ``1 + b_i c``, which moves them the least. None where that takes
    weights below 0.

    Examples
    --------
    >>> design = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> weight = calibrated(design, np.ones(3), np.array([0.5, 0.5]))
    >>> (weight @ design).round(9).tolist()
    [0.5, 0.5]
    """
    weight = weight / weight.sum()
    whole = np.column_stack([np.ones(len(design)), design])
    pairs = whole.T @ (weight[:, None] * whole)
    lift = np.linalg.lstsq(pairs, np.concatenate([[1.0], wanted]) - weight @ whole, rcond=1e-12)[0]
    factor = 1.0 + whole @ lift
    reweighted: Floats = weight * factor
    met = bool((factor > 0).all()) and np.allclose(
        reweighted @ design, wanted, rtol=0.0, atol=1e-12
    )
    return reweighted if met else None


def evaluated(oracle: Oracle, parity: Parity, prices: Floats, lam: float) -> Evaluation:
    """Evaluate all rows at prices of groups; the means are those of groups."""
    seen = oracle.evaluate(prices_of_rows(oracle, parity, prices), lam)
    return replace(seen, means=group_means(oracle, parity, seen.means))


def inspected(
    oracle: Oracle,
    parity: Parity,
    prices: Floats,
    lam: float,
    *,
    unchanged: bool = False,
    answers: Floats | None = None,
) -> Inspection:
    """Recompute the evidence at prices of groups; the means are those of groups."""
    shifts = prices_of_rows(oracle, parity, prices)
    seen = oracle.inspect(shifts, lam, unchanged=unchanged, answers=answers)
    return replace(seen, means=group_means(oracle, parity, seen.means))


def group_means(oracle: Oracle, parity: Parity, means: Floats) -> Floats:
    """Return means of groups from means as the oracle makes them."""
    if not oracle.by_group:
        return parity.means(means)
    return means if parity.outcomes is None else np.asarray(means @ parity.outcomes.T)


def prices_of_rows(oracle: Oracle, parity: Parity, prices: Floats) -> Floats:
    """Return prices of classes as the oracle takes them: of groups, or what cells pay."""
    if not oracle.by_group:
        return parity.shifts(prices)
    return prices if parity.outcomes is None else np.asarray(prices @ parity.outcomes)


def folded_curvature(oracle: Oracle, parity: Parity, prices: Floats, lam: float) -> list[Floats]:
    """Return minus the derivative of the means of groups, each times its share.

    ``sum_j v_j B_jg B_jh T H_j T'``: H_j is the curvature of cell j, v_j its share of the weight, B
    the design and T the outcomes.

    Parameters
    ----------
    oracle : Oracle
    parity : Parity
    prices : ndarray of shape (n_groups, n_outcomes)
    lam : float

    Returns
    -------
    list of ndarray of shape (n, n_outcomes, n, n_outcomes)
        For each component of the constraint, of n groups.
    """
    shifts = prices_of_rows(oracle, parity, prices)
    n_cells, n_classes = shifts.shape
    if oracle.by_group or n_cells * n_classes**2 > _CELL_ENTRIES:
        members = None if oracle.by_group else parity.matrix
        tables = oracle.curvature(shifts, lam, parity.components, members)
        if parity.outcomes is None:
            return tables
        pairs = (parity.curvature(table.transpose(0, 2, 1, 3)) for table in tables)
        return [np.ascontiguousarray(pair.transpose(0, 2, 1, 3)) for pair in pairs]
    curvature = oracle.evaluate(shifts, lam, curvature=True).curvature
    assert curvature is not None
    blocks = parity.cell_share[:, None, None] * parity.curvature(curvature)
    if parity.design is None:  # groups are the cells, and share none
        return [_block_diagonal(blocks[groups]) for groups in parity.components]
    return [folded_cells(parity.matrix[:, groups], blocks) for groups in parity.components]


def _block_diagonal(blocks: Floats) -> Floats:
    n_groups, n_classes, _ = blocks.shape
    whole = np.zeros((n_groups, n_classes, n_groups, n_classes))
    each = np.arange(n_groups)
    whole[each, :, each] = blocks
    return whole


def folded_cells(design: Floats, blocks: Floats) -> Floats:
    """Return ``sum_j B_jg B_jh H_j`` as (n_groups, n_classes, n_groups, n_classes).

    The H_j are the blocks of the cells.
    """
    n_groups, n_classes = design.shape[1], blocks.shape[1]
    whole = np.zeros((n_groups, n_classes, n_groups, n_classes))
    # few other groups share cells with one, and pairs of all would be cells x groups x groups
    # numbers
    for g in range(n_groups):
        cells = np.flatnonzero(design[:, g])
        others = np.flatnonzero(design[cells].any(axis=0))
        pair = design[np.ix_(cells, others)] * design[cells, g, None]
        flat = blocks[cells].reshape(len(cells), -1)
        whole[g][:, others] = (pair.T @ flat).reshape(-1, n_classes, n_classes).transpose(1, 0, 2)
    return whole
