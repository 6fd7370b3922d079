"""The fewest changed labels: the limit of lambda to 0, a linear programme on merged rows, solved by HiGHS through SciPy.

Its answer is a corner of the feasible set: most rows keep one class, few are split between two. Prices do not tell the answer (a row may be
indifferent between classes), so it comes with the new label of every merged row; the prices are its proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.errors import MissingExtraError
from r2b.parity import Parity
from r2b.problem import Problem
from r2b.solvers.driver import Status

Floats = NDArray[np.float64]

# What SciPy's numbers mean: a limit of steps or time is only ever met because a time limit was given.
_ENDS = {0: Status.SOLVED, 1: Status.OUT_OF_TIME, 2: Status.INFEASIBLE}
_TOLERANCE = 1e-10  # the smallest that HiGHS takes; corners come out far more accurate


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


def most_agreement(problem: Problem, time_limit: float | None = None) -> Agreement:
    """Maximise ``sum_i w_i <x_i, y_i>`` over rows of the simplex in parity.

    Raises
    ------
    MissingExtraError
        SciPy is not installed.
    """
    try:
        from scipy import sparse
        from scipy.optimize import linprog
    except ImportError as cause:
        raise MissingExtraError(
            "The agreement objective needs SciPy, which is not installed.",
            remedy="Install it with: pip install 'r2b[agreement]', or use the distance with a small lam, such as 0.05.",
            library="scipy",
        ) from cause
    rows, parity = problem.at_hand, problem.parity
    n_rows, n_classes = rows.labels.shape
    weight = np.ones(n_rows) if rows.weight is None else rows.weight
    weight = weight / weight.sum()
    sides = _sides(parity, n_classes)
    n_entries, n_levels = n_rows * n_classes, len(parity.members) * n_classes
    # Unknowns: the rows' labels, then one level per family and class. Means, not sums, so that a group of little weight is bounded as
    # closely as any.
    part = (parity.matrix[rows.groups] * weight[:, None]).T / parity.share[:, None]
    means = sparse.kron(sparse.csr_array(part), sparse.eye_array(n_classes), format="csr")

    def moving(slope: Floats) -> Any:
        return sparse.csr_array((slope, (np.arange(len(slope)), sides.level)), shape=(len(slope), n_levels))

    upper = sparse.hstack([means, -moving(sides.high_slope)], format="csr")[sides.bounded]
    lower = sparse.hstack([-means, moving(sides.low_slope)], format="csr")[sides.bounded]
    each_row = sparse.hstack([sparse.kron(sparse.eye_array(n_rows), np.ones((1, n_classes))), sparse.csr_array((n_rows, n_levels))])
    # A level that is the mean over its family's groups, by their shares.
    family = sparse.csr_array((sides.part, (sides.level, np.arange(len(sides.level)))), shape=(n_levels, len(sides.level)))
    mean = sparse.hstack([family @ means, -sparse.eye_array(n_levels)], format="csr")[sides.tied]
    found = linprog(
        np.concatenate([-(weight[:, None] * rows.labels).ravel(), np.zeros(n_levels)]),
        A_ub=sparse.vstack([upper, lower]),
        b_ub=np.concatenate([sides.high[sides.bounded], -sides.low[sides.bounded]]),
        A_eq=sparse.vstack([each_row, mean]),
        b_eq=np.concatenate([np.ones(n_rows), np.zeros(len(sides.tied))]),
        bounds=[(0.0, None)] * n_entries + [(None, None)] * n_levels,
        method="highs",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE} | _limit(time_limit),
    )
    if found.x is None:
        nothing = np.zeros((parity.n_groups, n_classes))
        return Agreement(None, nothing, int(found.nit or 0), _ENDS.get(found.status, Status.STALLED))
    answers = np.maximum(found.x[:n_entries].reshape(n_rows, n_classes), 0.0)
    answers /= answers.sum(axis=1, keepdims=True)
    charge = np.zeros(parity.n_groups * n_classes)
    duals = -np.asarray(found.ineqlin.marginals)
    charge[sides.bounded] = duals[: len(sides.bounded)] - duals[len(sides.bounded) :]
    prices = parity.settle(charge.reshape(parity.n_groups, n_classes) / parity.share[:, None])
    return Agreement(answers, prices, int(found.nit), _ENDS.get(found.status, Status.STALLED))


@dataclass(frozen=True, eq=False)
class _Sides:
    """The bounds of all families side by side, one entry per group and class."""

    low: Floats
    high: Floats
    low_slope: Floats
    high_slope: Floats
    level: NDArray[np.intp]
    bounded: NDArray[np.intp]
    part: Floats
    tied: NDArray[np.intp]


def _sides(parity: Parity, n_classes: int) -> _Sides:
    columns: dict[str, list[Floats]] = {name: [] for name in ("low", "high", "low_slope", "high_slope", "part")}
    level, tied = [], np.zeros((len(parity.members), n_classes), dtype=bool)
    for number, member in enumerate(parity.members):
        sides, share = member.bound.sides(), parity.share[member.groups]
        shape = (len(share), n_classes)
        for name in ("low", "high", "low_slope", "high_slope"):
            columns[name].append(np.broadcast_to(getattr(sides, name), shape))
        columns["part"].append(np.broadcast_to((share / share.sum())[:, None], shape))
        level.append(np.broadcast_to(number * n_classes + np.arange(n_classes), shape))
        tied[number] = sides.level == "mean"
    flat = {name: np.concatenate(parts).ravel() for name, parts in columns.items()}
    bounded = np.flatnonzero(np.isfinite(flat["high"]) & np.isfinite(flat["low"]))
    return _Sides(**flat, level=np.concatenate(level).ravel(), bounded=bounded, tied=np.flatnonzero(tied.ravel()))


def _limit(time_limit: float | None) -> dict[str, float]:
    return {} if time_limit is None else {"time_limit": time_limit}
