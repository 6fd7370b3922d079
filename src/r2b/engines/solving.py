"""Probabilities that live elsewhere: a few passes over their blocks, prices found on a sample at hand."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from r2b._constraints.families import Request
from r2b._constraints.families.request import is_a
from r2b._data import Groups, Schema
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.merge import Extent, Rows
from r2b._labels.debiasing import Settings
from r2b._labels.task import Task
from r2b._solve.certificate import Problem
from r2b._solve.oracle import Block, BlockOracle, Blocks, MemoryOracle, Samples
from r2b._solve.oracle.blocks import KernelChoice, LabelSums, Sums, added
from r2b._solve.solvers import Limits, Outcome, solve
from r2b.errors import ParameterError

SAMPLE_ENTRIES = 1 << 24  # entries of the sample: 128 MB at most, and all rows where they are no more
_SEED = 0x7217
_NEAR = 1e-6  # residual on a sample: well below its distance from all rows
_PATIENCE = 30.0  # seconds for prices that only give a better start


@dataclass(frozen=True, eq=False)
class First:
    """The first pass: sums of the labels by cell, and a sample of the rows.

    Attributes
    ----------
    n_cells : int
    share : float
        Of the rows that are taken.
    fewest : int
        Rows of a cell that are taken from every block where there are so many.
    """

    n_cells: int
    share: float
    fewest: int

    def __call__(self, block: Block) -> Sums:
        """Walk the rows once."""
        sums, weight = LabelSums(self.n_cells)(block)
        rows = np.arange(len(block)) if self.share >= 1.0 else self._chosen(block)
        own = block.weight[rows] if len(block.weight) else np.ones(len(rows))
        return [sums, weight, np.array([len(block)]), block.labels[rows], block.cells[rows], own]

    def _chosen(self, block: Block) -> Whole:
        # Seeded by the rows themselves: the sample of a block does not depend on its number or on who walks it.
        seed = [_SEED, len(block), int(block.cells[:64].sum()), int(np.abs(block.labels[0]).sum() * 2**20)]
        rng = np.random.default_rng(seed)
        taken = rng.random(len(block)) < self.share
        for cell in np.flatnonzero(np.bincount(block.cells, minlength=self.n_cells)):
            mine = np.flatnonzero(block.cells == cell)
            if taken[mine].sum() < self.fewest:
                taken[rng.permutation(mine)[: self.fewest]] = True
        return np.flatnonzero(taken)


class RemoteOracle(BlockOracle):
    """Answers for blocks that live elsewhere, and has a sample of them at hand.

    Parameters
    ----------
    blocks : Blocks
    cell_weight : ndarray of shape (n_cells,)
    n_rows, n_classes : int
    sample_entries : int
        Entries of the sample.
    kernel : {"auto", "numpy", "compiled"}
    threads : int, optional
        For the sample; blocks are walked as their engine sees fit.
    """

    def __init__(
        self,
        blocks: Blocks,
        cell_weight: Floats,
        n_rows: int,
        n_classes: int,
        sample_entries: int = SAMPLE_ENTRIES,
        kernel: KernelChoice = "auto",
        threads: int | None = None,
    ) -> None:
        super().__init__(blocks, cell_weight, kernel)
        share = sample_entries / (n_rows * n_classes)
        first = First(len(cell_weight), share, 2)
        sums, samples = None, []
        for each in blocks.run(first):
            sums = [each[0], each[2]] if sums is None else added([sums, [each[0], each[2]]])
            samples.append(each[3:])
        assert sums is not None
        self._sums: Floats = sums[0]
        self.n_rows = int(sums[1][0])
        self.whole = share >= 1.0
        labels, cells, weight = (np.concatenate(parts) for parts in zip(*samples, strict=True))
        self.sample = Rows(labels, cells, _balanced(cells, weight, cell_weight), len(cell_weight), None)
        self.near = MemoryOracle(self.sample, kernel, threads)

    def label_means(self) -> Floats:
        """Cell means of the labels as they came in; the first pass has added them up."""
        means: Floats = self._sums / self._cell_weight
        return means

    def samples(self) -> Samples:
        """Give the sample, to find prices and to estimate the curvature with."""
        return Samples(self.near, self.near)


def _balanced(cells: Array, weight: Floats, cell_weight: Floats) -> Floats:
    """Scale weights so that cells have in the sample what they have in the table."""
    mass = np.bincount(cells, weight, minlength=len(cell_weight))
    weight = np.where(mass[cells] > 0, weight, 1.0)
    mass = np.bincount(cells, weight, minlength=len(cell_weight))
    return np.asarray(weight * (cell_weight / np.where(mass > 0, mass, 1.0))[cells])


@dataclass(frozen=True, eq=False, kw_only=True)
class RemoteTask(Task):
    """Rows that live elsewhere."""

    oracle: RemoteOracle

    def _found(self, problem: Problem, limits: Limits, start: Floats | None) -> Outcome:
        """Solve for the sample first. Where it is all rows its prices are the answer, and one pass over the blocks confirms it."""
        near, settings = self.oracle.near, self.settings
        few = Limits(settings.max_iter, settings.time_limit if self.oracle.whole else _PATIENCE)
        tol = settings.tol if self.oracle.whole else _NEAR
        small = Problem(self.oracle.sample, problem.parity, problem.lam, problem.costliest)
        start = solve(small, near, samples=near.samples(), tol=tol, limits=few, start=start).prices
        return super()._found(problem, limits, start)


def open_remote(
    blocks: Blocks,
    schema: Schema,
    groups: Groups,
    cell_weight: Floats,
    n_rows: int,
    request: Request,
    settings: Settings,
    sample_entries: int = SAMPLE_ENTRIES,
) -> Task:
    """Settle what is asked of rows in blocks, to be solved as often as asked while the blocks are there.

    Parameters
    ----------
    blocks : Blocks
    schema : Schema
    groups : Groups
        One entry per cell or more, with how many rows each stands for.
    cell_weight : ndarray of shape (n_cells,)
    n_rows : int
    request : Request
    settings : Settings
    sample_entries : int
        Entries of the sample that is brought home.
    """
    if not is_a(Integral, sample_entries) or int(sample_entries) < 0:
        raise ParameterError(
            f"sample_entries is {sample_entries!r}.",
            remedy="Pass how many numbers of the table may be brought home as a sample, a whole number of at least 0.",
            sample_entries=sample_entries,
        )
    oracle = RemoteOracle(blocks, cell_weight, n_rows, len(schema.classes), sample_entries, settings.kernel, settings.threads)
    extent = Extent(n_rows, len(schema.classes), oracle.sample.dtype, cell_weight)
    return RemoteTask.elsewhere(schema, groups, extent, oracle, request, settings)
