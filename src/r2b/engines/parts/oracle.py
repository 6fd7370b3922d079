"""Passes over blocks of rows that count in parts, and the oracle that adds them up: prices of groups to means of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from r2b._constraints.parity import Member, Parity
from r2b._data.arrays import Array, Flags, Floats, Places
from r2b._data.merge import Rows
from r2b._solve.oracle import Block, Blocks, DesignOracle, Samples
from r2b._solve.oracle.blocks import KernelChoice, Summed, Sums, evidence, reduced
from r2b._solve.oracle.reference import Answers, Evaluation, GroupOracle, Inspection, Responses
from r2b.engines.parts.design import RowDesign


@dataclass(frozen=True, eq=False)
class PartsTask(Summed):
    """What is done to one block with parts.

    Attributes
    ----------
    design : RowDesign
    n_classes : int
    kernel : {"auto", "numpy", "compiled"}
    """

    design: RowDesign
    n_classes: int
    kernel: KernelChoice

    def oracle(self, block: Block) -> DesignOracle:
        """Give the oracle of the block's rows alone; its sums are not divided."""
        assert block.parts is not None
        rows = rows_of(
            block.labels, block.cells, block.weight if len(block.weight) else None, self.n_classes
        )
        design = self.design.of(block.cells, block.parts)
        return DesignOracle(
            rows, design, np.ones(design.shape[1]), self.kernel, 1, levels=block.levels
        )


def rows_of(labels: Array, cells: Array, weight: Floats | None, n_classes: int) -> Rows:
    """Give rows for an oracle, of probabilities or of classes."""
    soft = labels.ndim == 2
    return Rows(
        labels if soft else None,
        cells,
        weight,
        len(cells),
        None,
        None,
        None if soft else labels,
        n_classes,
    )


@dataclass(frozen=True, eq=False)
class EvaluateParts(PartsTask):
    """Sums of the responses to prices of groups, and their values."""

    prices: Floats
    lam: float

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        return self.oracle(block).evaluated(self.prices, self.lam)


@dataclass(frozen=True, eq=False)
class InspectParts(PartsTask):
    """The evidence about the labels that go out."""

    largest: ClassVar[bool] = True
    prices: Floats
    lam: float
    unchanged: bool = False
    responses: Responses | None = None

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        return self.oracle(block).inspected(
            self.prices, self.lam, unchanged=self.unchanged, answers=self.responses
        )


@dataclass(frozen=True, eq=False)
class FoldParts(PartsTask):
    """Curvature by pairs of prices, for the groups of each component."""

    prices: Floats
    lam: float
    components: list[Places]
    entries: Flags | None = None

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        return self.oracle(block).folded(self.prices, self.lam, self.components, self.entries)


@dataclass(frozen=True, eq=False)
class GroupSums(PartsTask):
    """What the groups are made of: the first pass once it is known how rows count.

    Gives the weight that counts in each group, the sum of its design, the sums of labels, those of
    products of two groups, how often two meet, the weight that no family counts, and the most that
    a row counts in all groups.
    """

    largest: ClassVar[bool] = True

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        oracle, weight = (
            self.oracle(block),
            block.weight if len(block.weight) else np.ones(len(block)),
        )
        assert block.parts is not None
        design = oracle.design
        counted = self.design.mass(block.cells, block.parts, design)
        there = (design != 0).astype(np.float64)
        left_out = weight[~(counted > 0).any(axis=1)].sum()
        pairs = design.T @ (weight[:, None] * design)
        most = np.abs(design).sum(axis=1).max(initial=0.0)
        return [
            weight @ counted,
            weight @ design,
            oracle.label_sums(),
            pairs,
            there.T @ there,
            np.array([left_out]),
            np.array([most]),
        ]


@dataclass(frozen=True, eq=False)
class LeastPaid(PartsTask):
    """The least that rows pay at prices whatever their labels, and the size of the terms."""

    prices: Floats

    def __call__(self, block: Block) -> Sums:
        """Read the rows once."""
        assert block.parts is not None
        design, weight = (
            self.design.of(block.cells, block.parts),
            block.weight if len(block.weight) else np.ones(len(block)),
        )
        size = np.abs(design) @ np.abs(self.prices)
        return [np.array([weight @ (design @ self.prices).min(axis=1), weight @ size.max(axis=1)])]


@dataclass(frozen=True, eq=False)
class RowParity(Parity):
    """Families over rows that live elsewhere: what a solver asks of the design was added up over all rows.

    Attributes
    ----------
    pairs : ndarray of shape (n_groups, n_groups)
        Means of products of the parts in two groups.
    meeting : ndarray of bool, shape (n_groups, n_groups)
        Which groups share rows.
    most : float
        The most that a row counts in all groups together.
    whole : ndarray of bool, shape (n_groups,)
        Groups that count rows whole or not at all.
    paid : callable
        Gives what rows pay at least at prices of groups, the size of the terms and their number, by
        a pass over all rows.
    places : ndarray of int
        Which of all groups these are.
    """

    pairs: Floats = field(default_factory=lambda: np.empty((0, 0)))
    meeting: Flags = field(default_factory=lambda: np.empty((0, 0), bool))
    most: float = 1.0
    whole: Flags = field(default_factory=lambda: np.empty(0, bool))
    paid: Callable[[Floats, Places], tuple[float, float, int]] | None = None
    places: Places = field(default_factory=lambda: np.empty(0, np.intp))

    @cached_property
    def scale(self) -> float:
        """A bound on the factor between the squared lengths of shifts and of the prices they come from."""
        return float((np.abs(self.pairs).sum(axis=1) / self.share).max())

    @cached_property
    def touching(self) -> Flags:
        """Which groups share rows."""
        return self.meeting

    def largest_shift(self, prices: Floats) -> float:
        """Bound the shift of any row."""
        return self.most * float(np.abs(prices).max())

    def least_paid(self, prices: Floats, most: float) -> tuple[float, float, int]:
        """Ask the sample first: all rows are read only where it pays more than is allowed."""
        assert self.paid is not None
        seen = super().least_paid(prices, most)
        return self.paid(prices, self.places) if seen[0] > most else (-np.inf, *seen[1:])

    def counts_whole(self, member: Member) -> bool:
        """Tell whether every row counts in a group of a family whole or not at all."""
        return bool(self.whole[member.groups].all())

    def among(self, members: tuple[Member, ...], places: Places, design: Floats | None) -> Parity:
        """Give the constraint of some families."""
        assert self.design is not None
        both = np.ix_(places, places)
        return replace(
            self,
            members=members,
            names=self.names[places],
            share=self.share[places],
            design=self.design[:, places],
            pairs=self.pairs[both],
            meeting=self.meeting[both],
            whole=self.whole[places],
            places=self.places[places],
        )

    def means(self, cell_means: Floats) -> Floats:
        """Give nothing: means of cells are of no use where every row counts by itself."""
        raise AssertionError("rows that live elsewhere have means of groups alone")


class PartsOracle(GroupOracle):
    """Answers for blocks with parts.

    Parameters
    ----------
    blocks : Blocks
    design : RowDesign
    share : ndarray of shape (n_groups,)
    total_weight : float
    before : ndarray of shape (n_groups, n_classes)
        Group means of the labels that came in.
    near : DesignOracle or None
        A sample of the rows in memory.
    kernel : {"auto", "numpy", "compiled"}
    """

    def __init__(
        self,
        blocks: Blocks,
        design: RowDesign,
        share: Floats,
        total_weight: float,
        before: Floats,
        near: DesignOracle | None = None,
        kernel: KernelChoice = "auto",
    ) -> None:
        self.blocks, self.design, self.share, self.total_weight = (
            blocks,
            design,
            share,
            total_weight,
        )
        self.before, self.near, self.kernel = before, near, kernel
        self._divisor = (share * total_weight)[:, None]
        self._known = (design, before.shape[1], kernel)

    def evaluate(self, prices: Floats, lam: float) -> Evaluation:
        """Evaluate all rows at these prices of groups."""
        sums, totals = reduced(self.blocks, EvaluateParts(*self._known, prices, lam))
        return Evaluation(sums / self._divisor, float(totals[0]) / self.total_weight, None)

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the rows and the labels that go out at these prices of groups."""
        assert answers is None or isinstance(answers, Responses), (
            "answers row by row belong to rows in memory"
        )
        task = InspectParts(*self._known, prices, lam, unchanged, answers)
        return evidence([reduced(self.blocks, task)], self._divisor, self.total_weight)

    def curvature(
        self, prices: Floats, lam: float, components: list[Places], entries: Flags | None = None
    ) -> list[Floats]:
        """Add up the curvature for the groups of each component, in one pass."""
        folded = reduced(self.blocks, FoldParts(*self._known, prices, lam, components, entries))
        return [np.asarray(block / (lam * self.total_weight)) for block in folded]

    def among(self, groups: Places) -> PartsOracle:
        """Give the oracle of some of the groups alone, in this order."""
        near = None if self.near is None else self.near.among(groups)
        design, share, before = self.design.among(groups), self.share[groups], self.before[groups]
        return PartsOracle(self.blocks, design, share, self.total_weight, before, near, self.kernel)

    def label_means(self) -> Floats:
        """Group means of the labels as they came in."""
        return self.before

    def samples(self) -> Samples | None:
        """Give the sample, to find prices and to estimate the curvature with."""
        return None if self.near is None else Samples(self.near, self.near)
