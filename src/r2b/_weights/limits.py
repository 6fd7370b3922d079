"""What weights can reach at all, by linear programmes: asked where a problem has no solution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from r2b._constraints.parity import Parity
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.solvers.linear import entries_of
from r2b._weights.rows import WeightOracle, with_totals, without_totals

_PRECISION = 1e-4  # of a smallest epsilon
FEASIBLE = 1e-8  # by how much HiGHS may miss a bound that can be met


class Missed(NamedTuple):
    """By how much some bound is missed at least, and the group and outcome that cost most."""

    by: float
    group: int
    outcome: int


class LinearSides(NamedTuple):
    """A problem as linear conditions on x, the factors and then the levels of the bounds.

    Attributes
    ----------
    left, right : ndarray
        ``left x <= right``: the upper sides of all bounds, then the lower ones.
    fixed : ndarray of bool, shape (n_sides / 2,)
        Where upper and lower side coincide.
    entries : ndarray of shape (n_sides / 2, 2)
        The group and the outcome of each side.
    totals : ndarray of shape (n_groups, n)
        ``totals x = 1``.
    least, most : ndarray of shape (n,)
    """

    left: Floats
    right: Floats
    fixed: Flags
    entries: Places
    totals: Floats
    least: Floats
    most: Floats


def least_missed(oracle: WeightOracle, parity: Parity) -> Missed | None:
    """Return by how much a bound is missed at least; None where totals alone cannot be met."""
    sides = sides_of(oracle, parity)
    left = np.column_stack([sides.left, -np.ones(len(sides.right))])
    found = _solved(sides, left, sides.right)
    if found is None:
        return None
    costs = np.abs(found.ineqlin.marginals).reshape(2, -1).max(axis=0, initial=0.0)
    group, outcome = sides.entries[int(costs.argmax())] if len(costs) else (0, 0)
    return Missed(float(found.fun), int(group), int(outcome))


def smallest_epsilon(oracle: WeightOracle, parity: Parity) -> float | None:
    """Return the smallest epsilon, the same for every bounded class, that weights can meet."""
    low, high = 0.0, max(float(m.bound.largest) for m in parity.members)
    if not _meets(oracle, parity, high):
        return None
    while high - low > _PRECISION:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _meets(oracle, parity, middle) else (middle, high)
    return high


def smallest_cap(oracle: WeightOracle, parity: Parity) -> float | None:
    """Return the smallest largest weight with which the bounds can be met."""
    sides, n = sides_of(oracle, parity), len(oracle.block)
    held = np.column_stack([sides.left, np.zeros(len(sides.right))])
    capped = np.column_stack([np.eye(n, sides.left.shape[1]), -np.ones(n)])
    free = sides._replace(most=np.full(len(sides.most), np.inf))
    found = _solved(free, np.vstack([held, capped]), np.append(sides.right, np.zeros(n)))
    return None if found is None else float(found.fun)


def _meets(oracle: WeightOracle, parity: Parity, epsilon: float) -> bool:
    missed = least_missed(oracle, with_totals(without_totals(parity).at(epsilon)))
    return missed is not None and missed.by <= FEASIBLE


def sides_of(oracle: WeightOracle, parity: Parity) -> LinearSides:
    """Write the bounds of a problem as linear inequalities."""
    entries, means = entries_of(parity), oracle.matrix(parity)
    for member, averaged in zip(parity.members, entries.averaged, strict=True):
        part = entries.share[member.groups, 0] / entries.share[member.groups].sum()
        mean = np.tensordot(part, means[member.groups], 1)
        means[member.groups] -= np.where(averaged[:, None], mean, 0.0)
    _, n_outcomes, n = means.shape
    group, outcome = np.nonzero(entries.bound[:, :-1])  # the last outcome is the total
    family = entries.family[group]
    levels = np.zeros((len(group), *entries.leveled.shape))
    levels[np.arange(len(group)), family, outcome] = entries.leveled[family, outcome]
    levels = levels.reshape(len(group), entries.leveled.size)
    at, counted = (group, outcome), means[group, outcome]
    upper = np.hstack([counted, -entries.high_slope[at][:, None] * levels])
    lower = np.hstack([counted, -entries.low_slope[at][:, None] * levels])
    lowest = np.array([member.bound.lowest_level for member in parity.members])
    n_levels = levels.shape[1]
    return LinearSides(
        np.vstack([upper, -lower]),
        np.concatenate([entries.high[at], -entries.low[at]]),
        entries.equal[at],
        np.column_stack(at),
        np.pad(means[:, -1], ((0, 0), (0, n_levels))),
        np.append(np.zeros(n), np.repeat(lowest, n_outcomes)),
        np.append(np.full(n, oracle.largest), np.full(n_levels, np.inf)),
    )


def _solved(sides: LinearSides, left: Floats, right: Floats) -> Any:
    """Minimise one more unknown, at least 0."""
    found = linprog(
        np.append(np.zeros(len(sides.least)), 1.0),
        A_ub=sparse.csr_array(left),
        b_ub=right,
        A_eq=sparse.csr_array(np.pad(sides.totals, ((0, 0), (0, 1)))),
        b_eq=np.ones(len(sides.totals)),
        bounds=np.column_stack([np.append(sides.least, 0.0), np.append(sides.most, np.inf)]),
        method="highs",
    )
    return found if found.status == 0 else None
