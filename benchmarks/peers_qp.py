"""General QP solvers through CVXPY: at their defaults, and at the loosest tolerance of a ladder that gives the accuracy of ours.

Class labels are counted first, so that a solver gets distinct weighted rows, at most groups x
classes of them. The reduction is ours, and they are given it. Probabilities go in row by row.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers_score import Table, accurate, peak_of, scored

Floats = NDArray[np.float64]
MANY = 1_000_000


_CLOCK = {"compute_timings": True}  # PIQP does not look at the clock unless it is asked to


def _interior(tolerance: float) -> dict[str, Any]:
    return {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance, "tol_feas": tolerance}


# Each ladder starts with what CVXPY hands over where nothing is asked for.
LADDERS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "CLARABEL": [("default", {}), ("1e-10", _interior(1e-10)), ("1e-12", _interior(1e-12))],
    "PIQP": [
        ("default", _CLOCK),
        ("1e-10", {"eps_abs": 1e-10, "eps_rel": 1e-10, **_CLOCK}),
        ("1e-12", {"eps_abs": 1e-12, "eps_rel": 1e-12, **_CLOCK}),
    ],
    "OSQP": [
        ("default", {}),
        ("1e-7", {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iter": MANY}),
        ("1e-9", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": MANY}),
    ],
    "SCS": [
        ("default", {}),
        ("1e-7", {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": MANY}),
        ("1e-9", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": MANY}),
        ("1e-11", {"eps_abs": 1e-11, "eps_rel": 1e-11, "max_iters": MANY}),
    ],
}


@dataclass(frozen=True)
class Rows:
    """What a solver gets: label rows, their groups and weights of mean 1; and for each row of the table, which of them it is."""

    labels: Floats
    groups: NDArray[np.int64]
    weight: Floats
    place: NDArray[np.intp] | None


def all_rows(table: Table) -> Rows:
    """Give the rows as they are."""
    return Rows(table.matrix(), table.groups, np.ones(len(table.groups)), None)


def merged_rows(table: Table) -> Rows:
    """Count class labels by group."""
    counts = np.bincount(table.joint, minlength=table.n_groups * table.n_classes)
    cells = np.flatnonzero(counts)
    place = np.zeros(len(counts), dtype=np.intp)
    place[cells] = np.arange(len(cells))
    # Weights of mean 1, as rows have them: with counts in the thousands the same tolerance would
    # mean something else.
    weight = counts[cells] / counts[cells].mean()
    return Rows(
        np.eye(table.n_classes)[cells % table.n_classes], cells // table.n_classes, weight, place
    )


def solve(
    rows: Rows, solver: str, epsilon: float, options: dict[str, Any]
) -> tuple[Floats | None, str, float | None]:
    """Solve through CVXPY; give labels, status, and the seconds of the solver alone, its set-up included."""
    from scipy import sparse

    cp: Any = import_module("cvxpy")
    within = rows.weight / np.bincount(rows.cells, rows.weight)[rows.cells]
    averaging = sparse.csr_array((within, (rows.cells, np.arange(len(within)))))
    x, level = cp.Variable(rows.labels.shape), cp.Variable((1, rows.labels.shape[1]))
    means = averaging @ x
    squares = (
        x
        if rows.place is None
        else cp.multiply(np.broadcast_to(np.sqrt(rows.weight)[:, None], rows.labels.shape), x)
    )
    objective = cp.sum_squares(squares) / 2 - cp.sum(
        cp.multiply(rows.weight[:, None] * rows.labels, x)
    )
    ones = np.ones((means.shape[0], 1))
    limits = [
        x >= 0,
        cp.sum(x, axis=1) == 1,
        means >= ones @ level,
        means <= ones @ level + epsilon,
    ]
    problem = cp.Problem(cp.Minimize(objective), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate answer is scored like any other
        problem.solve(solver=solver, **options)
    stats = problem.solver_stats
    alone = (
        None
        if stats is None or stats.solve_time is None
        else stats.solve_time + (stats.setup_time or 0.0)
    )
    return x.value, problem.status, alone


def climb(
    table: Table,
    solver: str,
    epsilon: float,
    optimum: float,
    merged: bool,
    highest: int | None = None,
    repeats: int = 5,
) -> Iterator[dict[str, Any]]:
    """Go up the ladder of a solver until its labels are accurate, and give what each rung cost and gave."""
    for setting, options in LADDERS[solver][:highest]:
        try:
            found, _ = _rung(table, solver, epsilon, merged, options, repeats)
        except MemoryError:
            yield {"setting": setting, "status": "out of memory"}
            return
        # a solver that gives up says so in its own way; that is a result
        except Exception as error:
            yield {
                "setting": setting,
                "status": f"failed: {type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}",
            }
            continue
        good = "distance" in found and accurate(found, optimum)
        yield {"setting": setting, **found, "accurate": good}
        if good:
            return


def _rung(
    table: Table, solver: str, epsilon: float, merged: bool, options: dict[str, Any], repeats: int
) -> tuple[dict[str, Any], Any]:
    read: Callable[[Table], Rows] = merged_rows if merged else all_rows

    def whole() -> tuple[Any, ...]:
        begun = time.perf_counter()
        rows = read(table)
        x, status, alone = solve(rows, solver, epsilon, options)
        return rows, x, status, alone, time.perf_counter() - begun

    (rows, x, status, alone, taken), peak = peak_of(whole)
    left = repeats - 1
    while left and taken < 1.0:  # what takes no time is repeated, as ours is
        *_, again_alone, again = whole()
        taken, alone, left = (
            min(taken, again),
            None if alone is None else min(alone, again_alone),
            left - 1,
        )
    found: dict[str, Any] = {
        "seconds": taken,
        "solver_seconds": alone,
        "peak_bytes": peak,
        "status": status,
    }
    if x is None:
        return found, None
    if rows.place is None:
        return found | scored(lambda part: x[part], table, epsilon), x
    return found | scored(lambda part: x[rows.place[table.joint[part]]], table, epsilon), x


def report(
    table: Table,
    solver: str,
    epsilon: float,
    optimum: float,
    merged: bool,
    highest: int | None = None,
) -> dict[str, Any]:
    """Give all rungs; each is printed as soon as it is there, so that it is known even if the next never ends."""
    few = Rows(np.eye(2), np.arange(2), np.ones(2), None)
    # libraries are loaded once per process; that is nobody's time
    solve(few, solver, 0.5, LADDERS[solver][0][1])
    rungs: list[dict[str, Any]] = []
    for rung in climb(table, solver, epsilon, optimum, merged, highest):
        rungs.append(rung)
        print(json.dumps({"rungs": rungs}), flush=True)
    return {"rungs": rungs}
