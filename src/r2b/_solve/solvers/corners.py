"""Labels of a linear programme by prices: which rows it splits, whether any other labels are as good, and prices that tell them.

At a corner few rows are split, about as many as bounds have a price. Prices near those of the
programme at which these rows are split as it splits them follow from one system of equations. Where
the bounds that have a price leave the split rows no room to move, the corner is the only optimum:
then its labels are those of least norm, and nothing has to be solved for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.oracle import DesignOracle, MemoryOracle
from r2b._solve.oracle.reference import Responses, respond
from r2b._solve.oracle.screening import Screened, leaders
from r2b._solve.solvers.agreement import Agreement
from r2b._solve.solvers.systems import layout_of

_SPLIT = 1e-9  # part of a row above which it counts
_TIED = 1e-9  # difference in worth below which classes may be tied
_PRICED = 1e-9  # of the largest price: what is not rounding of 0
# part of a direction that the others leave, from where on it is taken for one of theirs
_DEPENDENT = 1e-7
_SAME = 1e-7  # between labels
# lambda at which rows are split as a programme says; at 1e-7 rounding may be too much
_ENDS = (1e-5, 1e-6, 3e-7, 1e-7, 1e-8)


@dataclass(frozen=True, eq=False)
class Corner:
    """An optimum of a linear programme over the rows that are left, its rows that are tied or split once each.

    Attributes
    ----------
    prices : ndarray of shape (n_groups, n_classes)
    worth, answers : ndarray of shape (n, n_classes)
        Of the rows that are tied or split: what classes are worth at these prices, and the label.
    tied : ndarray of bool, shape (n, n_classes)
        Which classes are.
    equations : ndarray of shape (n_pairs, n_groups, n_classes)
        What prices do to the difference of what two classes of such a row are worth: of the first,
        and each of the others.
    pairs : (ndarray, ndarray, ndarray) of shape (n_pairs,)
        The row, its first class and the other.
    n_tied : int
        How many rows are tied or split, among those that are left.
    lead : float
        By how much classes that are tied lead the others, where that is least.
    better : bool
        Whether some row would rather have a class that the programme leaves out.
    few : Screened
    labels : ndarray
        The label of each of its rows.
    """

    prices: Floats
    worth: Floats
    answers: Floats
    tied: Flags
    equations: Floats
    pairs: tuple[Places, Places, Places]
    n_tied: int
    lead: float
    better: bool
    few: Screened
    labels: Floats

    @classmethod
    def of(cls, found: Agreement, few: Screened, among: Flags) -> Corner:
        """Find the rows that are tied or split in the answer of a programme over these entries."""
        assert found.answers is not None
        rows, matrix = few.oracle.rows, few.parity.matrix
        worth = rows.labels - few.parity.shifts(found.prices)[rows.cells]
        better = bool(
            (worth.max(axis=1) > np.where(among, worth, -np.inf).max(axis=1) + _TIED).any()
        )
        tied = (worth >= worth.max(axis=1, keepdims=True) - _TIED) | (found.answers > _SPLIT)
        lead = (
            np.where(tied, worth, np.inf).min(axis=1) - np.where(tied, -np.inf, worth).max(axis=1)
        ).min()
        several = np.flatnonzero(np.count_nonzero(tied, axis=1) > 1)
        design = matrix[rows.cells[several]]
        # A programme tells rows that are the same apart; of least norm are labels that do not.
        _, first, same = np.unique(
            np.column_stack([rows.labels[several], design]),
            axis=0,
            return_index=True,
            return_inverse=True,
        )
        weight = np.ones(len(several)) if rows.weight is None else rows.weight[several]
        mean = (same.ravel() == np.arange(len(first))[:, None]) * weight
        answers = mean @ found.answers[several] / mean.sum(axis=1, keepdims=True)
        labels = found.answers.copy()
        labels[several] = answers[same.ravel()]
        worth, tied, design = worth[several[first]], tied[several[first]], design[first]
        row, column = np.nonzero(tied)
        start = np.flatnonzero(np.diff(row, prepend=-1))
        base = np.repeat(start, np.diff(np.append(start, len(row))))
        other = np.flatnonzero(base != np.arange(len(row)))
        pairs = (row[other], column[base[other]], column[other])
        equations, at = np.zeros((len(other), *found.prices.shape)), np.arange(len(other))
        equations[at, :, pairs[2]] = design[pairs[0]]
        equations[at, :, pairs[1]] -= design[pairs[0]]
        return cls(
            found.prices,
            worth,
            answers,
            tied,
            equations,
            pairs,
            len(several),
            float(lead),
            better,
            few,
            labels,
        )

    def only(self, oracle: MemoryOracle | DesignOracle, parity: Parity) -> bool:
        """Tell whether no other labels of all rows are as good, were these proven to be optimal."""
        sides, prices = layout_of(self.few.parity), self.prices
        if sides.averaged.any() or not (self.answers > _SPLIT)[self.tied].all():
            return False
        priced: Flags = sides.equal | (np.abs(prices) > _PRICED * np.abs(prices).max(initial=0.0))
        group, column = np.nonzero(priced)
        # Means that have a price stay on their side of the bound, which may move with its level.
        level, place = np.unique(
            sides.family[group] * prices.shape[1] + column, return_inverse=True
        )
        slope = np.where(prices > 0, sides.high_slope, sides.low_slope)[group, column]
        moving = slope * (place == np.arange(len(level))[:, None])
        directions = np.concatenate([self.equations[:, group, column], moving[moving.any(axis=1)]])
        size = np.linalg.norm(directions, axis=1, keepdims=True)
        if len(directions) > len(group) or not (size > 0).all():
            return False
        left = np.linalg.qr((directions / size).T, mode="r")
        if not (np.abs(np.diagonal(left)) > _DEPENDENT).all():
            return False
        # Rows that were put together lead by far near the prices at which they were; else all rows
        # are asked.
        if self.few.serves(prices, _TIED):
            return True
        shifts = parity.shifts(prices) if isinstance(oracle, MemoryOracle) else prices
        return int(np.count_nonzero(~leaders(oracle, shifts, _TIED)[1])) == self.n_tied

    def splits(self, lam: float) -> Responses:
        """Give prices nearby at which rows are split as here."""
        row, base, other = self.pairs
        if not len(row):
            return Responses(self.prices, lam)
        aimed = self.worth - lam * self.answers
        apart = aimed[row, other] - aimed[row, base]
        moved = np.linalg.lstsq(
            self.equations.reshape(len(row), self.prices.size), apart, rcond=None
        )[0]
        return Responses(self.prices + moved.reshape(self.prices.shape), lam)

    def told(self) -> Iterator[Responses]:
        """Give such prices for each lambda that is worth a try: one at which no other row is split."""
        rows = self.few.oracle.rows
        for lam in _ENDS:
            if lam < self.lead:
                splits = self.splits(lam)
                labels = respond(
                    rows.labels, rows.cells, self.few.parity.shifts(splits.prices), lam
                )
                if np.abs(labels - self.labels).max() <= _SAME:
                    yield splits
