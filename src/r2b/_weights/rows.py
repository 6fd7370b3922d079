"""Rows that keep their label and get a weight: another row set for the same dual problem.

A row of label y gets a factor u between 0 and a largest one, as close to 1 as the bounds let it be.
It counts as the vector ``u (y, 1)``: what it adds to the shares of the classes, and to the total of
its groups, which is given. Its best response to what its cell pays, s, has a closed form,

    u = clip(1 - <s, (y, 1)>, 0, largest).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from r2b._constraints.bounds import Bound, Projected, Sides
from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Floats, Places
from r2b._data.merge import Rows
from r2b._solve.oracle import Block, Evaluation, Oracle

CURVATURE = 2.0  # the most that a unit of price moves a row: |(y, 1)|^2


@dataclass(frozen=True, eq=False)
class WithTotal(Bound):
    """A bound on shares of the classes in groups of given totals: the last mean of each is 1.

    Attributes
    ----------
    inner : Bound
        That of the shares.

    Examples
    --------
    >>> from r2b._constraints.bounds import RangeBound
    >>> bound = WithTotal(np.zeros(3), RangeBound(np.zeros(2)))
    >>> bound.project(np.array([[0.6, 0.6, 1.2], [0.2, 0.6, 0.8]]), np.ones(2)).means
    array([[0.4, 0.6, 1. ],
           [0.4, 0.6, 1. ]])
    """

    inner: Bound

    @classmethod
    def around(cls, inner: Bound) -> WithTotal:
        """Return it for a bound on shares."""
        none = np.zeros((*inner.epsilon.shape[:-1], 1))
        return cls(np.concatenate([inner.epsilon, none], axis=-1), inner)

    def __post_init__(self) -> None:
        for name in ("name", "level", "lowest_level"):
            object.__setattr__(self, name, getattr(self.inner, name))

    def sides(self, n_groups: int) -> Sides:
        """Return those of the shares, and 1 on both sides of the total."""
        one = np.ones((n_groups, 1))
        parts = [self.inner.sides(n_groups), Sides(one, one, 0.0 * one, 0.0 * one, one > 0)]
        return Sides(*map(np.hstack, zip(*parts, strict=True)))

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the disparities of the shares, and how far a total is off."""
        return np.append(self.inner.measure(means[:, :-1], weight), _off(means))

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """Return how far a share, and how far a total, is off."""
        return np.append(self.inner.violation(means[:, :-1], weight), _off(means))

    def project(self, means: Floats, weight: Floats) -> Projected:
        """Project the shares; totals become 1."""
        one = np.ones((len(means), 1))
        parts = [self.inner.project(means[:, :-1], weight), Projected(one, one > 0, 0.0 * one)]
        return Projected(*map(np.hstack, zip(*parts, strict=True)))

    def derivative(self, at: Projected, weight: Floats) -> Floats:
        """Return that of the shares; totals do not move."""
        shares = Projected(at.means[:, :-1], at.clipped[:, :-1], at.slope[:, :-1])
        return np.pad(self.inner.derivative(shares, weight), ((0, 1), (0, 0), (0, 0)))

    def settle(self, prices: Floats, weight: Floats) -> Floats:
        """Settle the prices of shares; those of totals may be any."""
        return np.hstack([self.inner.settle(prices[:, :-1], weight), prices[:, -1:]])

    def support(self, prices: Floats, weight: Floats) -> float:
        """Return the largest product of the prices with what is allowed."""
        return self.inner.support(prices[:, :-1], weight) + float(weight @ prices[:, -1])


def _off(means: Floats) -> float:
    return float(np.abs(means[:, -1] - 1.0).max())


def with_totals(parity: Parity, totals: Floats | float = 1.0) -> Parity:
    """Return the constraint on ``u (y, 1)``, where groups have these totals; 1 for what they have.

    Means of groups are divided by the totals asked for, so that those of the classes are shares.
    """
    outcomes = parity.outcomes
    if outcomes is not None:
        outcomes = np.pad(outcomes, (0, 1))
        outcomes[-1, -1] = 1.0
    members = tuple(replace(m, bound=WithTotal.around(m.bound)) for m in parity.members)
    return replace(parity, members=members, share=parity.share * totals, outcomes=outcomes)


def without_totals(parity: Parity) -> Parity:
    """Return the constraint on shares alone, in groups of the totals asked for."""
    members = tuple(
        replace(m, bound=m.bound.inner) for m in parity.members if isinstance(m.bound, WithTotal)
    )
    outcomes = None if parity.outcomes is None else parity.outcomes[:-1, :-1]
    return replace(parity, members=members, outcomes=outcomes)


def factors(labels: Array, shifts: Floats, cells: Array, largest: float) -> Floats:
    """Return the factor of each row: classes, or probabilities, of these cells."""
    if labels.ndim == 1:
        table = np.clip(1.0 - shifts[:, :-1] - shifts[:, -1:], 0.0, largest)
        return table[cells, labels]
    paid = np.einsum("ik,ik->i", labels, shifts[cells, :-1], dtype=np.float64)
    return np.asarray(np.clip(1.0 - (paid + shifts[cells, -1]), 0.0, largest))


class WeightOracle(Oracle):
    """Sums over the responses of such rows, by cell or by group.

    Examples
    --------
    >>> from r2b._constraints.bounds import RangeBound
    >>> from r2b._data import read
    >>> from r2b._data.merge import merge
    >>> rows = merge(read(["a", "b", "a", "a"], sensitive_features=[0, 0, 1, 1]))
    >>> parity = with_totals(Parity.of_groups(RangeBound(np.zeros(2)), np.ones(2)), np.ones(2))
    >>> oracle = WeightOracle.over(rows, parity, np.inf, by_group=False)
    >>> oracle.evaluate(np.array([[0.2, 0.0, 0.0], [0.0, 0.0, 0.0]]), 1.0).means
    array([[0.4, 0.5, 0.9],
           [1. , 0. , 1. ]])
    """

    largest: float
    block: Block

    @classmethod
    def over(cls, rows: Rows, parity: Parity, largest: float, *, by_group: bool) -> WeightOracle:
        """Make the oracle of rows in memory, which adds up by cell or by group.

        What is added up for groups is divided by the totals that are asked for.
        """
        total = float(rows.cell_weight.sum())
        grouped = by_group or parity.design is None
        weight = parity.share * total if grouped else rows.cell_weight
        oracle = cls(_Nowhere(), weight, rows.n_classes + 1, total_weight=total, rows=rows)
        whole = np.column_stack([rows.labels, np.ones(len(rows.cells))])
        own = np.empty(0) if rows.weight is None else rows.weight
        design = parity.matrix[rows.cells] if by_group else rows.cells
        oracle.by_group, oracle.largest = by_group, largest
        oracle.block = Block(whole, design, own)
        return oracle

    def respond(self, prices: Floats) -> tuple[Floats, Floats]:
        """Return the factor of every row, and what it pays for each unit of it."""
        paid = np.einsum("ik,ik->i", self.block.labels, self.block.shifts(prices))
        return np.clip(1.0 - paid, 0.0, self.largest), paid

    def means(self, u: Floats) -> Floats:
        """Return the means of ``u (y, 1)`` by cell or group."""
        sums = self.block.totals(u[:, None] * self.block.labels, self._shape[0])
        return sums / self._divisor

    def matrix(self, parity: Parity) -> Floats:
        """Return the means of groups as a matrix of the factors: (n_groups, n_outcomes, n_rows)."""
        block, share = self.block, self.block.weights / self.total_weight
        counts = block.design if self.by_group else parity.matrix[block.design]
        labels = block.labels
        compared = labels if parity.outcomes is None else labels @ parity.outcomes.T
        design = counts * share[:, None] / parity.share
        return design.T[:, None, :] * compared.T

    def mean(self, each: Floats) -> float:
        """Return the mean of a number per row."""
        return float(self.block.weights @ each) / self.total_weight

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool = False) -> Evaluation:
        """Evaluate all rows at these prices; lam is 1, and what is asked for is ignored."""
        u, paid = self.respond(prices)
        value = self.mean(0.5 * (u - 1.0) ** 2 + u * paid)
        curve = None
        if curvature:
            labels = self.block.labels
            pairs = (self._moves(u)[:, None, None] * labels[:, :, None]) * labels[:, None, :]
            by_cell = self.block.totals(pairs.reshape(len(u), -1), self._shape[0])
            curve = by_cell.reshape(-1, *pairs.shape[1:]) / self._divisor[:, :, None]
        return Evaluation(self.means(u), value, curve)

    def curvature(
        self,
        prices: Floats,
        lam: float,
        components: list[Places],
        members: Floats | None = None,
    ) -> list[Floats]:
        """Add up ``w b b' (y, 1) (y, 1)'`` of the rows that still move, by pairs of groups."""
        u, block = self.respond(prices)[0], self.block
        own = block.weights * self._moves(u) / self.total_weight
        counts = block.design if members is None else members[block.design]
        found = []
        for groups in components:
            each = (counts[:, groups, None] * block.labels[:, None, :]).reshape(len(u), -1)
            shape = (len(groups), block.labels.shape[1]) * 2
            found.append((each.T @ (own[:, None] * each)).reshape(shape))
        return found

    def _moves(self, u: Floats) -> Floats:
        return ((u > 0.0) & (u < self.largest)).astype(np.float64)


class _Nowhere:
    """No blocks: the rows are in the oracle itself."""

    def reduce(self, task: object, /) -> None:
        """Nothing is asked."""
