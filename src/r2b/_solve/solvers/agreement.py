"""The fewest changed labels: lam = 0, a linear programme on merged rows, solved by HiGHS.

Its answer is a corner of the feasible set: most rows keep one class, few are split between two.
Prices do not determine the answer (a row may be indifferent between classes), so it comes with the
new label of every merged row; the prices prove it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from r2b._constraints.parity import proves_infeasible, surely_feasible
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.certificate import Problem
from r2b._solve.settings import TOLERANCE
from r2b._solve.solvers.driver import Status
from r2b._solve.solvers.linear import entries_of

# What SciPy's numbers mean: a limit is only ever met because a time limit was given.
_ENDS = {0: Status.SOLVED, 1: Status.OUT_OF_TIME, 2: Status.INFEASIBLE}
# Units of the constraints on means, and whether HiGHS simplifies first. It takes entries below
# 1e-9 for 0, such as those of rows of little weight; larger units keep them, smaller ones forgive
# more rounding.
_ATTEMPTS = ((32.0, True), (32.0, False), (1024.0, True), (1.0, True))


@dataclass(frozen=True, eq=False)
class Agreement:
    """An optimal corner and its proof.

    Attributes
    ----------
    answers : ndarray of shape (n_rows, n_classes) or None
        New label of each of the problem's rows; None where the run ended before there were any.
    prices : ndarray of shape (n_groups, n_classes)
    status : Status
    """

    answers: Floats | None
    prices: Floats
    status: Status


def most_agreement(problem: Problem, time_limit: float | None = None) -> Agreement:
    """Maximise ``sum_i w_i <x_i, y_i>`` over rows of the simplex in parity."""
    for scale, presolve in _ATTEMPTS:
        programme = _Programme(problem, time_limit, scale)
        found = programme.solve(presolve=presolve)
        if found.status in (Status.SOLVED, Status.OUT_OF_TIME):
            return found
        if not surely_feasible(problem.parity) and proves_infeasible(
            problem.parity, programme.least_violation()
        ):
            return replace(found, status=Status.INFEASIBLE)
    return replace(found, status=Status.STALLED)


def infeasible(problem: Problem) -> bool:
    """Return whether prices prove that no labels meet all bounds.

    They are those of the labels whose largest violation is smallest. Tables of many entries are not
    asked, nor those where one distribution for all rows meets every bound; HiGHS gets 20 seconds.
    """
    if problem.rows.entries > 1 << 18 or surely_feasible(problem.parity):
        return False
    programme = _Programme(problem, 20.0, _ATTEMPTS[0][0])
    return proves_infeasible(problem.parity, programme.least_violation())


def _implied(outcomes: Floats | None, n_classes: int) -> Flags:
    """Return which outcomes follow from those before them, because the classes add up to 1."""
    if outcomes is None:
        return np.asarray(np.arange(n_classes) == n_classes - 1)
    known = np.ones((1, n_classes))
    implied = np.zeros(len(outcomes), dtype=bool)
    for place, row in enumerate(outcomes):
        longer = np.vstack([known, row])
        implied[place] = np.linalg.matrix_rank(longer) == len(known)
        known = known if implied[place] else longer
    return implied


class _Programme:
    """The linear programme of a problem: its unknowns are the rows' labels, and the levels.

    Constraints are on means, not sums, so that a group of little weight is bounded as closely as
    any.
    """

    def __init__(self, problem: Problem, time_limit: float | None, scale: float) -> None:
        rows, self.parity, self.scale = problem.rows_in_memory, problem.parity, scale
        self.shape = n_rows, n_classes = rows.labels.shape
        weight = np.ones(n_rows) if rows.weight is None else rows.weight
        weight = weight / weight.sum()
        self.cost = -(weight[:, None] * rows.labels).ravel()
        self.limit = {} if time_limit is None else {"time_limit": time_limit}
        entries = entries_of(self.parity)
        # Shares of classes add up to 1: where a family is closed in all outcomes, some follow from
        # the others. Said twice, rounding contradicts.
        n_outcomes = problem.n_outcomes
        closed = np.logical_and.reduceat(entries.equal.all(axis=1), entries.first)
        implied = closed[entries.family, None] & _implied(self.parity.outcomes, n_classes)
        self.band = np.flatnonzero(entries.band)
        self.equal = np.flatnonzero(entries.equal & ~implied)
        n_levels = entries.leveled.size
        # Means with offsets may lie below 0, where they have no ratio.
        ratio = [
            member.offsets is not None and member.bound.lowest_level == 0
            for member in self.parity.members
        ]
        self.lowest = np.concatenate(
            [np.zeros(self.cost.size), np.repeat(np.where(ratio, 0.0, -np.inf), n_outcomes)]
        )
        part = self.parity.matrix[rows.cells] * weight[:, None] / self.parity.share
        each, outcomes = sparse.eye_array(n_outcomes), self.parity.outcomes
        compared = each if outcomes is None else sparse.csr_array(outcomes)
        means = sparse.kron(sparse.csr_array(part.T), compared, format="csr")
        member = sparse.csr_array(np.eye(len(entries.first))[entries.family])
        level = sparse.kron(member, each, format="csr")
        slopes = [
            sparse.diags_array(slope.ravel()) @ level
            for slope in (entries.high_slope, entries.low_slope)
        ]
        self.upper, self.lower = (
            scale * sparse.hstack([means, -slope], format="csr") for slope in slopes
        )
        self.high, self.low = scale * entries.high.ravel(), scale * entries.low.ravel()
        rows_sum = sparse.kron(sparse.eye_array(n_rows), np.ones((1, n_classes)))
        whole = sparse.hstack([rows_sum, sparse.csr_array((n_rows, n_levels))])
        # A level that is the mean over the groups of its family, by their shares.
        averaging = sparse.diags_array(1.0 / np.repeat(entries.total, n_outcomes)) @ level.T
        averaging = averaging @ sparse.diags_array(np.repeat(entries.share, n_outcomes))
        tied = scale * sparse.hstack([averaging @ means, -sparse.eye_array(n_levels)], format="csr")
        averaged = np.flatnonzero(entries.averaged)
        self.rows = sparse.vstack([whole, tied[averaged]], format="csr")
        self.sums = np.append(np.ones(n_rows), np.zeros(len(averaged)))

    def solve(self, *, presolve: bool) -> Agreement:
        """Solve it."""
        equal, n_levels = self.equal, len(self.lowest) - len(self.cost)
        found, charge = self._linprog(
            np.append(self.cost, np.zeros(n_levels)),
            self.band,
            sparse.vstack([self.rows, self.upper[equal]]),
            np.append(self.sums, self.high[equal]),
            presolve=presolve,
        )
        status = _ENDS.get(found.status, Status.STALLED)
        if found.x is None:
            return Agreement(None, self._prices(charge), status)
        answers = np.maximum(found.x[: len(self.cost)], 0.0).reshape(self.shape)
        answers /= answers.sum(axis=1, keepdims=True)
        charge[equal] = -np.asarray(found.eqlin.marginals)[len(self.sums) :]
        return Agreement(answers, self.parity.settle(self._prices(charge)), status)

    def least_violation(self) -> Floats:
        """Return the prices of the labels whose largest violation is smallest."""
        cost = np.append(np.zeros(len(self.lowest)), 1.0)  # of the violation, the last unknown
        bounded = np.sort(np.append(self.band, self.equal))
        rows = sparse.hstack([self.rows, np.zeros((len(self.sums), 1))])
        return self._prices(self._linprog(cost, bounded, rows, self.sums)[1])

    def _prices(self, charge: Floats) -> Floats:
        shaped = charge.reshape(self.parity.n_groups, -1)
        return self.scale * shaped / self.parity.share[:, None]

    def _linprog(
        self, cost: Floats, bounded: Places, rows: Any, sums: Floats, *, presolve: bool = True
    ) -> tuple[Any, Floats]:
        """Return what HiGHS finds within the sides of some entries, and what it charges for them.

        One unknown more than labels and levels is by how much the sides may be missed.
        """
        n_more = len(cost) - len(self.lowest)
        sides = sparse.vstack([self.upper[bounded], -self.lower[bounded]])
        missed = np.full((2 * len(bounded), n_more), -self.scale)
        low = np.append(self.lowest, np.zeros(n_more))
        found: Any = linprog(
            cost,
            A_ub=sparse.hstack([sides, missed]),
            b_ub=np.append(self.high[bounded], -self.low[bounded]),
            A_eq=rows,
            b_eq=sums,
            bounds=np.column_stack([low, np.full(len(cost), np.inf)]),
            method="highs",
            options={
                "primal_feasibility_tolerance": TOLERANCE,  # the smallest that HiGHS takes
                "dual_feasibility_tolerance": TOLERANCE,
                "presolve": presolve,
                **self.limit,
            },
        )
        charge = np.zeros(len(self.high))
        if found.x is not None:
            upper, lower = np.split(-np.asarray(found.ineqlin.marginals), 2)
            charge[bounded] = upper - lower
        return found, charge
