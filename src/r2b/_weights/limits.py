"""What weights can reach at all, by linear programmes: asked where a problem has no solution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._weights.rows import WeightOracle, WithTotal

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
    left, right : sparse array, ndarray
        ``left x <= right``: the upper sides of all bounds, then the lower ones.
    entries : ndarray of shape (n_sides / 2, 2)
        The group and the outcome of each side.
    totals : ndarray of shape (n_groups, n)
        ``totals x = 1``.
    least, most : ndarray of shape (n,)
    """

    left: Any
    right: Floats
    entries: Any
    totals: Floats
    least: Floats
    most: Floats


def least_missed(oracle: WeightOracle, parity: Parity) -> Missed | None:
    """Return by how much a bound is missed at least; None where totals alone cannot be met."""
    sides = sides_of(oracle, parity)
    left = sparse.hstack([sides.left, -np.ones((len(sides.right), 1))])
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
    n_levels = sides.left.shape[1] - n
    capped = sparse.hstack([sparse.eye_array(n), sparse.csr_array((n, n_levels)), -np.ones((n, 1))])
    held = sparse.hstack([sides.left, sparse.csr_array((len(sides.right), 1))])
    right = np.append(sides.right, np.zeros(n))
    free = sides._replace(most=np.full(len(sides.most), np.inf))
    found = _solved(free, sparse.vstack([held, capped]), right)
    return None if found is None else float(found.fun)


def _meets(oracle: WeightOracle, parity: Parity, epsilon: float) -> bool:
    members = []
    for member in parity.members:
        assert isinstance(member.bound, WithTotal)
        inner = member.bound.inner
        widths = np.where(np.isfinite(inner.epsilon), epsilon, np.inf)
        members.append(replace(member, bound=WithTotal.around(inner.at(widths))))
    missed = least_missed(oracle, replace(parity, members=tuple(members)))
    return missed is not None and missed.by <= FEASIBLE


def sides_of(oracle: WeightOracle, parity: Parity) -> LinearSides:
    """Write the bounds of a problem as linear inequalities."""
    means, lefts, rights, entries = oracle.matrix(parity), [], [], []
    for place, member in enumerate(parity.members):
        share = parity.share[member.groups]
        sides, level = member.sides(share), member.bound.level
        mine = means[member.groups]
        if level == "mean":
            mine = mine - np.einsum("g,gki->ki", share / share.sum(), mine)
        n_outcomes = mine.shape[1]
        group, outcome = np.nonzero(sides.bounded & (np.arange(n_outcomes) < n_outcomes - 1))
        slopes = np.zeros((2, len(group), len(parity.members) * n_outcomes))
        if level == "free":
            column = place * n_outcomes + outcome
            slopes[0, np.arange(len(group)), column] = sides.high_slope[group, outcome]
            slopes[1, np.arange(len(group)), column] = sides.low_slope[group, outcome]
        counted = mine[group, outcome]
        lefts.append([np.hstack([counted, -slopes[0]]), np.hstack([-counted, slopes[1]])])
        rights.append([sides.high[group, outcome], -sides.low[group, outcome]])
        entries.append(np.column_stack([group + member.groups.start, outcome]))
    left = np.vstack([pair[0] for pair in lefts] + [pair[1] for pair in lefts])
    right = np.concatenate([pair[0] for pair in rights] + [pair[1] for pair in rights])
    levels = np.array([member.bound.lowest_level for member in parity.members])
    n_levels = len(levels) * means.shape[1]
    return LinearSides(
        sparse.csr_array(left),
        right,
        np.concatenate(entries),
        np.pad(means[:, -1], ((0, 0), (0, n_levels))),
        np.append(np.zeros(means.shape[2]), np.repeat(levels, means.shape[1])),
        np.append(np.full(means.shape[2], oracle.largest), np.full(n_levels, np.inf)),
    )


def _solved(sides: LinearSides, left: Any, right: Floats) -> Any:
    """Minimise one more unknown, at least 0."""
    found = linprog(
        np.append(np.zeros(len(sides.least)), 1.0),
        A_ub=left,
        b_ub=right,
        A_eq=sparse.csr_array(np.pad(sides.totals, ((0, 0), (0, 1)))),
        b_eq=np.ones(len(sides.totals)),
        bounds=np.column_stack([np.append(sides.least, 0.0), np.append(sides.most, np.inf)]),
        method="highs",
    )
    return found if found.status == 0 else None
