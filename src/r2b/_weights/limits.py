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


class _Sides(NamedTuple):
    """Bounds as ``left (u, levels) <= right``: all upper sides, then the lower ones."""

    left: Any
    right: Floats
    entries: Any


def least_missed(oracle: WeightOracle, parity: Parity) -> Missed | None:
    """Return by how much a bound is missed at least; None where totals alone cannot be met."""
    sides = _sides(oracle, parity)
    left = sparse.hstack([sides.left, -np.ones((len(sides.right), 1))])
    found = _solved(oracle, parity, left, sides.right, oracle.largest)
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
    sides, n = _sides(oracle, parity), len(oracle.block)
    n_levels = sides.left.shape[1] - n
    capped = sparse.hstack([sparse.eye_array(n), sparse.csr_array((n, n_levels)), -np.ones((n, 1))])
    held = sparse.hstack([sides.left, sparse.csr_array((len(sides.right), 1))])
    right = np.append(sides.right, np.zeros(n))
    found = _solved(oracle, parity, sparse.vstack([held, capped]), right, np.inf)
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


def _sides(oracle: WeightOracle, parity: Parity) -> _Sides:
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
    return _Sides(sparse.csr_array(left), right, np.concatenate(entries))


def _solved(oracle: WeightOracle, parity: Parity, left: Any, right: Floats, largest: float) -> Any:
    """Minimise the last unknown, at least 0, over factors, levels and it."""
    n, n_unknowns = len(oracle.block), left.shape[1]
    totals = oracle.matrix(parity)[:, -1]
    equal = sparse.hstack(
        [sparse.csr_array(totals), sparse.csr_array((len(totals), n_unknowns - n))]
    )
    low = np.full(n_unknowns, -np.inf)
    low[:n] = low[-1] = 0.0
    levels = np.array([member.bound.lowest_level for member in parity.members])
    low[n:-1] = np.repeat(levels, (n_unknowns - n - 1) // len(levels))
    high = np.full(n_unknowns, np.inf)
    high[:n] = largest
    cost = np.zeros(n_unknowns)
    cost[-1] = 1.0
    found = linprog(
        cost,
        A_ub=left,
        b_ub=right,
        A_eq=equal,
        b_eq=np.ones(len(totals)),
        bounds=np.column_stack([low, high]),
        method="highs",
    )
    return found if found.status == 0 else None
