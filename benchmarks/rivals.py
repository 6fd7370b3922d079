"""General QP solvers on the same problem through CVXPY, at their default tolerances, and what their answers are worth.

Everything a solver returns is scored by the same few lines, ours included; no solver's own word is
taken for it.
"""

from __future__ import annotations

import json
import time
import warnings
from importlib import import_module
from typing import Any

import numpy as np
from measure import phases
from numpy.typing import NDArray
from tables import Table

import r2b

Floats = NDArray[np.float64]
SOLVERS = ("CLARABEL", "OSQP", "SCS", "PIQP")


def installed() -> list[str]:
    """Name the solvers that CVXPY finds."""
    found: list[str] = import_module("cvxpy").installed_solvers()

    return [name for name in SOLVERS if name in found]


def scored(x: Floats, table: Table, epsilon: float) -> dict[str, float]:
    """Measure labels: parity above epsilon, how far rows are off the simplex, and mean squared distance to the old labels."""
    means = np.stack(
        [x[table.groups == group].mean(axis=0) for group in range(int(table.groups.max()) + 1)]
    )
    return {
        "parity_excess": max(0.0, float(np.ptp(means, axis=0).max()) - epsilon),
        "simplex_violation": float(max(-x.min(), np.abs(x.sum(axis=1) - 1.0).max())),
        "distance": float(((x - table.matrix) ** 2).sum(axis=1).mean()),
    }


def compare(
    table: Table, solver: str, epsilon: float, *, merged: bool, repeats: int = 7
) -> dict[str, Any]:
    """Solve one table with ours and with a QP solver.

    Parameters
    ----------
    table : Table
    solver : str
        As CVXPY names it.
    epsilon : float
    merged : bool
        Give the solver distinct weighted rows instead of all rows; class labels only.
    repeats : int
        Of ours; the least time counts. The other is run once: the time of its solver alone, and of
        the whole call through CVXPY.
    """
    taken = phases(
        lambda: r2b.debias(table.labels, sensitive_features=table.groups, epsilon=epsilon), repeats
    )
    fair = r2b.debias(table.labels, sensitive_features=table.groups, epsilon=epsilon)
    optimum = fair.soft_labels
    # Who gets merged rows is spared reading and merging; so are we then.
    ours = taken["total"] - taken["read"] - taken["merge"] if merged else taken["total"]
    answer: dict[str, Any] = {
        "seconds_ours": ours,
        "phases": taken,
        "ours": scored(optimum, table, epsilon),
        "status_ours": fair.status.value,
    }
    answer["ours"]["relative_gap"] = fair.certificate.relative_gap
    print(json.dumps(answer), flush=True)  # so that it is known even if the other never answers
    try:
        x, solved = _solve(table, solver, epsilon, merged)
    except MemoryError:
        return {**answer, "failure": "out of memory"}
    except Exception as error:  # a solver that gives up says so in its own way; that is a result
        return {
            **answer,
            "failure": f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}",
        }
    answer.update(solved)
    if x is None:
        return {**answer, "failure": f"status {solved['status']}"}
    answer["theirs"] = scored(x, table, epsilon)
    answer["theirs"]["relative_distance_to_optimum"] = (
        answer["theirs"]["distance"] / answer["ours"]["distance"] - 1.0
    )
    answer["theirs"]["largest_difference"] = float(np.abs(x - optimum).max())
    return answer


def _solve(
    table: Table, solver: str, epsilon: float, merged: bool
) -> tuple[Floats | None, dict[str, Any]]:
    from scipy import sparse

    cp: Any = import_module("cvxpy")
    row_of: NDArray[np.intp] | None = None
    weight: NDArray[Any] = np.ones(len(table.groups))
    if merged:
        cells, row_of, weight = np.unique(table.joint, return_inverse=True, return_counts=True)
        groups, labels = cells // table.n_classes, np.eye(table.n_classes)[cells % table.n_classes]
    else:
        groups, labels = table.groups, table.matrix
    begun = time.perf_counter()
    averaging = sparse.csr_array(
        (weight / np.bincount(groups, weight)[groups], (groups, np.arange(len(groups))))
    )
    x, level = cp.Variable(labels.shape), cp.Variable((1, labels.shape[1]))
    means = averaging @ x
    root = np.sqrt(weight)[:, None]
    objective = (
        cp.sum_squares(x if not merged else cp.multiply(np.broadcast_to(root, labels.shape), x)) / 2
    )
    objective -= cp.sum(cp.multiply(weight[:, None] * labels, x))
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
        problem.solve(solver=solver)
    stats = problem.solver_stats
    facts = {
        "status": problem.status,
        "seconds_with_cvxpy": time.perf_counter() - begun,
        "seconds": stats.solve_time if stats is not None else None,
        "iterations": stats.num_iters if stats is not None else None,
    }
    value = x.value
    return (None if value is None else value if row_of is None else value[row_of]), facts
