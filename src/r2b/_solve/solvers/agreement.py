"""The fewest changed labels: the limit of lambda to 0, a linear programme on merged rows, solved by HiGHS through SciPy.

Its answer is a corner of the feasible set: most rows keep one class, few are split between two.
Prices do not tell the answer (a row may be indifferent between classes), so it comes with the new
label of every merged row; the prices are its proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from r2b._constraints.parity import RatioBound
from r2b._constraints.parity.constraint import proves_infeasible, surely_feasible
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.certificate import Problem
from r2b._solve.solvers.driver import Status
from r2b._solve.solvers.linear import entries_of

# What SciPy's numbers mean: a limit of steps or time is only ever met because a time limit was
# given.
_ENDS = {0: Status.SOLVED, 1: Status.OUT_OF_TIME, 2: Status.INFEASIBLE}
_DOUBTFUL = (Status.INFEASIBLE, Status.STALLED)  # as long as nothing proves it
_TOLERANCE = 1e-10  # the smallest that HiGHS takes; corners come out far more accurate
# of constraints on means: HiGHS takes entries below 1e-9 for 0, such as those of rows of little
# weight or chance
_SCALE = 32.0
# of a table that is asked whether anything meets its bounds, and how long
_FEW_ENTRIES, _SECONDS = 1 << 18, 20.0
_OTHER_SCALES = (1024.0, 1.0)  # finer ones keep smaller entries, coarser ones forgive more rounding


@dataclass(frozen=True, eq=False)
class Agreement:
    """An optimal corner and its proof.

    Attributes
    ----------
    answers : ndarray of shape (n_rows, n_classes) or None
        New label of each of the problem's rows; None where the run ended before there were any.
    prices : ndarray of shape (n_groups, n_classes)
    steps : int
    status : Status
    """

    answers: Floats | None
    prices: Floats
    steps: int
    status: Status


def most_agreement(
    problem: Problem, time_limit: float | None = None, among: Flags | None = None
) -> Agreement:
    """Maximise ``sum_i w_i <x_i, y_i>`` over rows of the simplex in parity; with ``among``, over the entries that it names."""
    programme = _Programme(problem, time_limit, among=among)
    found = programme.solve()
    if found.status not in _DOUBTFUL or among is not None:
        return found
    if not surely_feasible(problem.parity) and proves_infeasible(
        problem.parity, programme.least_violation()
    ):
        return replace(found, status=Status.INFEASIBLE)
    # What HiGHS finds infeasible may be so by its own rounding: without its simplifications, or in
    # other units, it sees more.
    tries = ((_SCALE, False), *((scale, True) for scale in _OTHER_SCALES))
    for scale, presolve in tries:
        found = _Programme(problem, time_limit, scale).solve(presolve=presolve)
        if found.status not in _DOUBTFUL:
            return found
    return replace(found, status=Status.STALLED)


def infeasible(problem: Problem) -> bool:
    """Tell whether the labels that miss the bound they miss most by least have prices which prove that none miss nothing.

    A solver sees that from prices that grow without end, and may stop before they are large enough.
    Tables beyond a size, and those of whom one distribution meets every bound, are not asked, .
    """
    if problem.rows.entries > _FEW_ENTRIES or surely_feasible(problem.parity):
        return False
    return proves_infeasible(problem.parity, _Programme(problem, _SECONDS).least_violation())


class _Programme:
    """The linear programme of a problem: the rows' labels are its unknowns, and one level per family and class.

    Its constraints are on means, not sums, so that a group of little weight is bounded as closely
    as any.
    """

    def __init__(
        self,
        problem: Problem,
        time_limit: float | None,
        scale: float = _SCALE,
        among: Flags | None = None,
    ) -> None:
        self.scale = scale
        rows, self.parity = problem.rows_in_memory, problem.parity
        n_rows, self.n_classes = rows.labels.shape
        weight = np.ones(n_rows) if rows.weight is None else rows.weight
        weight = weight / weight.sum()
        # The entries that may be above 0, in the order of rows and classes. A row that has a single
        # one is no unknown.
        allowed = np.ones(rows.labels.shape, dtype=bool) if among is None else among
        unknown = np.count_nonzero(allowed, axis=1) > 1
        self.settled = np.where(unknown[:, None], 0.0, allowed)
        self.row, self.column = np.nonzero(allowed & unknown[:, None])
        self.worth = weight[self.row] * rows.labels[self.row, self.column]
        self.limit = {} if time_limit is None else {"time_limit": time_limit}
        sides = entries_of(self.parity)
        # Shares add up to 1: where a family is closed in all classes, the last follows from the
        # others. Said twice, rounding contradicts.
        implied = sides.equal.all(axis=1, keepdims=True) & (
            np.arange(self.n_classes) == self.n_classes - 1
        )
        self.open, self.equal = np.flatnonzero(sides.band), np.flatnonzero(sides.equal & ~implied)
        self.level = (sides.family[:, None] * self.n_classes + np.arange(self.n_classes)).ravel()
        self.n_levels = len(self.parity.members) * self.n_classes
        # Means with offsets may lie below 0, where they have no ratio.
        ratios = [
            member.bound.shift is not None and isinstance(member.bound.shape, RatioBound)
            for member in self.parity.members
        ]
        self.lowest = np.repeat(np.where(ratios, 0.0, -np.inf), self.n_classes)
        part = self.scale * self.parity.matrix[rows.cells] * weight[:, None] / self.parity.share
        place, group = np.nonzero(part[self.row])
        means = _Block(
            group * self.n_classes + self.column[place],
            place,
            part[self.row[place], group],
            len(self.level),
        )
        self.upper = means.beside(self._moving(-sides.high_slope.ravel()))
        self.lower = means.times(-1.0).beside(self._moving(sides.low_slope.ravel()))
        settled = (part.T @ self.settled).ravel()
        self.high, self.low = (
            self.scale * sides.high.ravel() - settled,
            self.scale * sides.low.ravel() - settled,
        )
        n_unknown = np.cumsum(unknown)
        self.rows = _Block(
            n_unknown[self.row] - 1,
            np.arange(len(self.row)),
            np.ones(len(self.row)),
            int(n_unknown[-1]),
        )
        # A level that is the mean over its family's groups, by their shares.
        part = np.repeat(sides.share / sides.total[sides.family], self.n_classes)
        mean = _Block(
            self.level[means.row], means.column, part[means.row] * means.value, self.n_levels
        )
        levels = np.arange(self.n_levels)
        averaged = np.flatnonzero(sides.averaged)
        self.tied = mean.beside(
            _Block(
                levels, len(self.row) + levels, np.full(self.n_levels, -self.scale), self.n_levels
            )
        ).at(averaged)
        settled_levels = np.bincount(self.level, part * settled, self.n_levels)[averaged]
        self.row_level: Floats = np.append(np.ones(self.rows.n_rows), -settled_levels)

    def _moving(self, slope: Floats) -> _Block:
        return _Block(
            np.arange(len(slope)), len(self.row) + self.level, self.scale * slope, len(slope)
        )

    def solve(self, *, presolve: bool = True) -> Agreement:
        """Solve it."""
        equal, open_ = self.equal, self.open
        found = self._linprog(
            np.append(-self.worth, np.zeros(self.n_levels)),
            [self.upper.at(open_), self.lower.at(open_)],
            np.concatenate([self.high[open_], -self.low[open_]]),
            [self.rows, self.tied, self.upper.at(equal)],
            np.concatenate([self.row_level, self.high[equal]]),
            presolve,
        )
        status = _ENDS.get(found.status, Status.STALLED)
        if found.x is None:
            return Agreement(
                None, np.zeros((self.parity.n_groups, self.n_classes)), int(found.nit or 0), status
            )
        answers = self.settled.copy()
        answers[self.row, self.column] = np.maximum(found.x[: len(self.row)], 0.0)
        answers /= answers.sum(axis=1, keepdims=True)
        charge = np.zeros(len(self.level))
        duals = -np.asarray(found.ineqlin.marginals)
        charge[open_] = duals[: len(open_)] - duals[len(open_) :]
        charge[equal] = -np.asarray(found.eqlin.marginals)[len(self.row_level) :]
        return Agreement(answers, self.parity.settle(self._prices(charge)), int(found.nit), status)

    def least_violation(self) -> Floats:
        """Give the prices of the labels that miss the bound they miss most by least: they tell whether any labels miss none."""
        bounded = np.sort(np.concatenate([self.open, self.equal]))
        each = np.arange(len(bounded))
        missed = _Block(
            each,
            np.full(len(bounded), len(self.row) + self.n_levels),
            np.full(len(bounded), -self.scale),
            len(bounded),
        )
        found = self._linprog(
            np.append(np.zeros(len(self.worth) + self.n_levels), 1.0),
            [self.upper.at(bounded).beside(missed), self.lower.at(bounded).beside(missed)],
            np.concatenate([self.high[bounded], -self.low[bounded]]),
            [self.rows, self.tied],
            self.row_level,
            presolve=True,
        )
        charge = np.zeros(len(self.level))
        if found.x is not None:
            duals = -np.asarray(found.ineqlin.marginals)
            charge[bounded] = duals[: len(bounded)] - duals[len(bounded) :]
        return self._prices(charge)

    def _prices(self, charge: Floats) -> Floats:
        return np.asarray(
            self.scale
            * charge.reshape(self.parity.n_groups, self.n_classes)
            / self.parity.share[:, None]
        )

    def _linprog(
        self,
        cost: Floats,
        above: Sequence[_Block],
        top: Floats,
        equal: Sequence[_Block],
        level: Floats,
        presolve: bool,
    ) -> Any:
        free = slice(len(self.worth), len(self.worth) + self.n_levels)
        low, high = np.zeros(len(cost)), np.full(len(cost), np.inf)
        low[free] = self.lowest
        return linprog(
            cost,
            A_ub=_stacked(above, len(cost)),
            b_ub=top,
            A_eq=_stacked(equal, len(cost)),
            b_eq=level,
            bounds=np.column_stack([low, high]),
            method="highs",
            options={
                "primal_feasibility_tolerance": _TOLERANCE,
                "dual_feasibility_tolerance": _TOLERANCE,
                "presolve": presolve,
                **self.limit,
            },
        )


class _Block(NamedTuple):
    """Rows of a sparse matrix, entry by entry: a matrix made once of all of them costs less than matrices put together."""

    row: Places
    column: Places
    value: Floats
    n_rows: int

    def at(self, rows: Places) -> _Block:
        """Give these rows, numbered anew."""
        place = np.full(self.n_rows, -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.row] >= 0)
        return _Block(place[self.row[kept]], self.column[kept], self.value[kept], len(rows))

    def beside(self, other: _Block) -> _Block:
        """Put entries of the same rows beside."""
        row, column, value = (
            np.concatenate(pair) for pair in zip(self[:3], other[:3], strict=True)
        )
        return _Block(row, column, value, self.n_rows)

    def times(self, factor: float) -> _Block:
        """Scale all entries."""
        return self._replace(value=factor * self.value)


def _stacked(blocks: Sequence[_Block], n_columns: int) -> Any:
    ends = np.cumsum([block.n_rows for block in blocks])
    row = np.concatenate(
        [block.row + end - block.n_rows for block, end in zip(blocks, ends, strict=True)]
    )
    column, value = (
        np.concatenate(parts)
        for parts in zip(*((block.column, block.value) for block in blocks), strict=True)
    )
    return sparse.csc_array((value, (row, column)), shape=(int(ends[-1]), n_columns))
