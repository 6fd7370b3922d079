"""Class labels by their structure: merged rows of a cell differ in one entry."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np

from r2b._data.arrays import Array, Flags, Floats, Places, Whole
from r2b._data.merge import Rows
from r2b._solve.oracle import reference
from r2b._solve.oracle.blocks import KernelChoice, choose_kernel
from r2b._solve.oracle.oracle import Evaluation, Inspection, Oracle

ROUNDING = 1e-14  # of numbers of size 1


@dataclass(frozen=True, eq=False)
class Supports:
    """Which classes the row of each class gives to, in every cell, and the curvature of the means.

    Attributes
    ----------
    order : ndarray of shape (n_cells, n_classes)
        The classes of each cell, best first; a place in it is a rank.
    size, own : ndarray of the same shape
        By rank: the row's support is the first ``size`` ranks, and its own where ``own`` is 1.
    weight : ndarray of the same shape
        By rank, as a share of the cell.
    lam : float
    """

    order: Whole
    size: Whole
    own: Floats
    weight: Floats
    lam: float

    @cached_property
    def counts(self) -> Floats:
        """The number of classes in the support of the row of each class."""
        return self._by_class(self.size + self.own)

    @cached_property
    def _shares(self) -> Floats:
        """By rank, into how many parts a row is shared; 1 for a row that gives nothing."""
        return np.maximum(self.size + self.own, 1.0)

    @cached_property
    def diagonal(self) -> Floats:
        """The diagonal of the curvature."""
        part = self.weight / self._shares
        shared = self._reach - self._reached(part) + self.own * (self.weight - part)
        return self._by_class(shared / self.lam)

    def averages(self, d: Floats) -> Floats:
        """Return the mean of d over the support of the row of each class."""
        ranked = np.take_along_axis(d, self.order, axis=1)
        total = np.concatenate([np.zeros((len(d), 1)), np.cumsum(ranked, axis=1)], axis=1)
        given = np.take_along_axis(total, self.size, axis=1) + self.own * ranked
        return self._by_class(given / self._shares)

    def spread(self, amount: Floats) -> Floats:
        """Share an amount for the row of each class, times its weight, evenly over its support."""
        ranked = self.weight * np.take_along_axis(amount, self.order, axis=1)
        each = ranked / self._shares
        shared: Floats = self._reached(each) + self.own * each
        return self._by_class(shared)

    def product(self, d: Floats) -> Floats:
        """Multiply the curvature of each cell by a vector."""
        from r2b._solve.oracle import classes_compiled

        tables = (self.order, self.size, self.own, self.weight, self._reach)
        return classes_compiled.product(d, *tables) / self.lam

    def matrix(self, cell: int) -> Floats:
        """Return the curvature of one cell as a matrix."""
        order, size, own = self.order[cell], self.size[cell], self.own[cell]
        rank = np.arange(len(order))
        inside = (rank < size[:, None]) | (np.diag(own) > 0)  # of rows by ranks
        scaled = inside * (self.weight[cell] / np.maximum(size + own, 1.0))[:, None]
        ranked = np.diag(self.weight[cell] @ inside) - scaled.T @ inside
        matrix = np.empty(ranked.shape)
        matrix[order[:, None], order] = ranked / self.lam
        return matrix

    def solution(
        self, right: Floats, free: Flags | bool, share: Floats, extra: Floats, precision: float
    ) -> Floats:
        """Solve with the curvature and ``extra`` by conjugate gradients.

        Only what is ``free`` changes, and the changes balance in every class by the shares of
        cells. What is left falls to ``precision`` of its size.
        """
        inverse = np.where(free, 1.0 / (self.diagonal + extra), 0.0)
        # The curvature does not see a constant on all classes of a cell, and hardly one on those
        # that are loose: with the diagonal alone hundreds of iterations go into these.
        loose = self.diagonal * inverse

        def image(vector: Floats) -> Floats:
            return self.product(vector) + extra * vector

        def inner(one: Floats, other: Floats) -> float:
            return float(share @ (one * other).sum(axis=1))

        def preconditioned(vector: Floats) -> Floats:
            # what the balance of classes takes of it, or rounding of that would stay
            vector -= share @ (vector * inverse) / total
            common = loose * ((vector * loose).sum(axis=1) / bend)[:, None]
            return np.asarray(vector * inverse + common - inverse * (share @ common) / total)

        total, bend = share @ inverse, (loose * image(loose)).sum(axis=1)
        total, bend = np.where(total > 0, total, 1.0), np.where(bend > 0, bend, np.inf)
        d, rest = np.zeros_like(right), right.copy()
        z = preconditioned(rest)
        along, size = z.copy(), inner(rest, z)
        enough = precision**2 * size
        for _ in range(sum(right.shape)):  # twenty are usual
            turned = image(along)
            bent = inner(along, turned)
            if not (size > enough and bent > 0):
                break
            d += size / bent * along
            rest -= size / bent * turned
            z = preconditioned(rest)
            size, before = inner(rest, z), size
            along = z + size / before * along
        return d

    @cached_property
    def _reach(self) -> Floats:
        return self._reached(self.weight)

    def _reached(self, amount: Floats) -> Floats:
        """Return by rank the sum of the amounts of the rows whose prefix holds it."""
        n_cells, n_classes = self.size.shape
        place = self.size + (n_classes + 1) * np.arange(n_cells)[:, None]
        counts = np.bincount(place.ravel(), amount.ravel(), minlength=n_cells * (n_classes + 1))
        counts = counts.reshape(n_cells, -1)
        return np.ascontiguousarray(np.cumsum(counts[:, :0:-1], axis=1, dtype=np.float64)[:, ::-1])

    def _by_class(self, ranked: Array) -> Floats:
        by_class = np.empty(ranked.shape)
        np.put_along_axis(by_class, self.order, ranked, axis=1)
        return by_class


class ClassOracle(Oracle):
    """The oracle of class labels, which also knows the responses of merged rows by their structure.

    Attributes
    ----------
    weight : ndarray of shape (n_cells, n_classes)
        Weight of the row of each class, as a share of its cell.
    cell_share : ndarray of shape (n_cells,)

    Examples
    --------
    >>> from r2b._data import read
    >>> from r2b._data.merge import merge
    >>> rows = merge(read(["a", "b", "a", "a"], sensitive_features=[0, 0, 1, 1]))
    >>> ClassOracle.of(rows).respond(np.array([[0.1, -0.1], [0.0, 0.0]]), 1.0)[2]
    array([[0.45, 0.55],
           [1.  , 0.  ]])
    """

    @cached_property
    def weight(self) -> Floats:
        rows = self.rows
        assert rows is not None and rows.classes is not None
        table = np.zeros(self._shape)
        table[rows.cells, rows.classes] = 1.0 if rows.weight is None else rows.weight
        return table / self._divisor

    @cached_property
    def cell_share(self) -> Floats:
        return self._weight / self.total_weight

    @cached_property
    def kernel(self) -> ModuleType:
        """The compiled loops for this structure."""
        from r2b._solve.oracle import classes_compiled

        return classes_compiled

    def label_means(self) -> Floats:
        """Return the means of the old labels, by cell."""
        return self.weight

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None
    ) -> Inspection:
        """Recompute the evidence; that of labels that stay follows from their weights."""
        if not unchanged or lam > 1.0:
            return super().inspect(prices, lam, unchanged=unchanged, answers=answers)
        # Of <x, g> - min g only the entry of the row's own class is not that of all its cell.
        slack = np.maximum(lam - 1.0 + prices - prices.min(axis=1, keepdims=True), 0.0)
        total = float(self.cell_share @ (self.weight * slack).sum(axis=1))
        return Inspection(self.weight, total, 1.0, 1.0, 0.0, 0.0, 0.0)

    def respond(self, shifts: Floats, lam: float) -> tuple[Supports, Floats, Floats, Floats]:
        """Return supports, thresholds by class, means and values of cells at the best responses."""
        worth = -shifts
        order = self.kernel.ordered(worth)
        size, own, level, means, value = self.kernel.settle(worth, order, self.weight, lam)
        return self._supports(order, size, own, lam), level, means, value

    def supports_at(self, worth: Floats, level: Floats, lam: float) -> tuple[Supports, Floats]:
        """Return the supports of rows with these thresholds, and how much their sums exceed 1."""
        order = self.kernel.ordered(worth)
        size, own, excess = self.kernel.supports(worth, order, level, lam)
        return self._supports(order, size, own, lam), excess

    def _supports(self, order: Whole, size: Whole, own: Floats, lam: float) -> Supports:
        weight = np.take_along_axis(self.weight, order, axis=1)
        return Supports(order, size, own, weight, lam)

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool = False) -> Evaluation:
        """Evaluate all rows at these prices of cells."""
        supports, _, means, value = self.respond(prices, lam)
        curve = (
            np.stack([supports.matrix(cell) for cell in range(len(prices))]) if curvature else None
        )
        return Evaluation(means, float(self.cell_share @ value), curve)

    def curvature(
        self, prices: Floats, lam: float, components: list[Places], members: Floats | None = None
    ) -> list[Floats]:
        """Add up the curvature of rows by the groups that their cells count in."""
        assert members is not None
        supports, *_ = self.respond(prices, lam)
        n_classes, tables = prices.shape[1], []
        for groups in components:
            table = np.zeros(2 * (len(groups), n_classes))
            for cell, counted in enumerate(members[:, groups]):
                mine = np.flatnonzero(counted)
                block = self.cell_share[cell] * supports.matrix(cell)
                for one in mine:
                    for other in mine:
                        table[one, :, other, :] += counted[one] * counted[other] * block
            tables.append(table)
        return tables


def structured(rows: Rows) -> bool:
    """Whether class labels are so many that their structure pays."""
    # Rows times classes squared is what a step of the interior-point method costs: 100 classes in
    # 10 groups, 16 in 4,000. Of few classes too: a million rows are too many for it.
    return rows.entries * max(8, rows.n_classes) > 1 << 23


def oracle_of(
    rows: Rows,
    threads: int | None = None,
    truth: Array | None = None,
    kernel: KernelChoice = "auto",
) -> Oracle:
    """Make the oracle of rows in memory: many class labels go by their structure, if compiled."""
    if (
        rows.classes is not None
        and structured(rows)
        and choose_kernel(kernel, sys.maxsize) is not reference
    ):
        return ClassOracle.of(rows, threads=threads, kernel=kernel)
    return Oracle.of(rows, threads=threads, truth=truth, kernel=kernel)
