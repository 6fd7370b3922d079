"""Methods that run in this environment, each in a process of its own.

``python benchmarks/peers_child.py REQUEST`` prints JSON. General QP solvers run through CVXPY: at
their defaults, and at the loosest tolerance of a ladder that is as accurate as r2b. With class
labels they get the distinct weighted rows, at most groups x classes of them; this reduction is
ours. Probabilities go in row by row.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers_score import (
    Table,
    accurate,
    fastest,
    limit_memory,
    peak_of,
    scaled_seconds,
    scored,
)

# up to which the published rounds are also run to their end on probabilities, for their accuracy
ACCURACY_ENTRIES = 400_000


def ours(table: Table, epsilon: float, threads: int | None, seconds: float) -> dict[str, Any]:
    """``r2b.debias``, certificate included; ``solver_seconds`` leaves out reading and merging."""
    import r2b
    from r2b._labels.task import task_of

    options: dict[str, Any] = {"epsilon": epsilon, "threads": threads}

    def whole() -> r2b.FairLabels:
        fair = r2b.debias(table.labels, sensitive_features=table.groups, **options)
        if table.soft:
            _ = fair.soft_labels  # made on demand; the others return a matrix
        return fair

    _warm_up(threads)
    fair, peak = peak_of(whole)
    proof = fair.certificate
    found = {
        "peak_bytes": peak,
        "status": fair.status.value,
        "gap": proof.relative_gap,
        "disparity_before": proof.disparity_before,
        **_scores_of(fair, table, epsilon),
    }
    del fair, proof
    task = task_of(table.labels, {"sensitive_features": table.groups, **options})
    least = fastest(whole, seconds=seconds)
    alone = min(least, fastest(task.solve, seconds=seconds))
    return {"seconds": least, "solver_seconds": alone, **found}


def _scores_of(fair: Any, table: Table, epsilon: float) -> dict[str, float]:
    """Score the new rows: class labels by the channel, probabilities as a matrix."""
    if table.soft:
        matrix = fair.soft_labels
        return scored(lambda part: matrix[part], table, epsilon)
    channel = fair.channel.reshape(table.n_groups * table.n_classes, -1)
    return scored(lambda part: channel[table.joint[part]], table, epsilon)


def _warm_up(threads: int | None) -> None:
    """Load everything that is loaded once per process."""
    import r2b

    rng = np.random.default_rng(0)
    groups = np.arange(600) % 2
    few = rng.standard_gamma(1.0 + groups[:, None] * np.arange(4), (600, 4))
    r2b.debias(
        few / few.sum(axis=1, keepdims=True),
        sensitive_features=groups,
        threads=threads,
    )
    r2b.debias(np.arange(100) % 3, sensitive_features=np.arange(100) % 7 % 2, threads=threads)


def reweighing(table: Table, epsilon: float) -> dict[str, Any]:
    """``r2b.methods.Reweighing``: weights instead of labels.

    The disparity is that of the weighted labels; there is no distance.
    """
    from r2b.methods import Reweighing

    def run() -> Any:
        return Reweighing().fit_transform(table.labels, sensitive_features=table.groups)

    weight, peak = peak_of(run)
    size = table.n_groups * table.n_classes
    sums = np.bincount(table.joint, weight, minlength=size).reshape(table.n_groups, -1)
    parity = float(np.ptp(sums / sums.sum(axis=1, keepdims=True), axis=0).max())
    empty = int((np.bincount(table.joint, minlength=size) == 0).sum())
    status = "weights, no labels" + (f"; {empty} empty cells keep their bias" if empty else "")
    return {
        "seconds": fastest(run),
        "peak_bytes": peak,
        "status": status,
        "disparity": parity,
        "excess": max(0.0, parity - epsilon),
    }


def published(table: Table, epsilon: float, patience: float) -> dict[str, Any]:
    """The published procedure (``published.py``): timed for some binary solves, scaled to all.

    Its accuracy is that of 100 rounds whose binary problems are solved exactly, the best that its
    steps can reach.
    """
    import published as procedure

    settings = procedure.Settings(epsilon=epsilon)
    matrix = table.matrix()
    mean = matrix.mean(axis=0)

    def one_class(k: int) -> None:
        procedure.RowByRow(table.groups, mean[k : k + 1], settings)(matrix[:, k : k + 1])

    expected, timed = scaled_seconds(one_class, table.n_classes, settings.rounds, patience)
    answer: dict[str, Any] = {"seconds": expected, "scaled": True}
    answer["status"] = (
        f"scaled from {timed:,} of {settings.rounds * table.n_classes:,} binary solves"
    )
    print(json.dumps(answer), flush=True)  # so that it is known even if the rest is stopped
    # What a round keeps, without the binary solves, which work in place.
    run = procedure.admm(
        matrix, lambda scores: np.clip(scores / settings.width, 0.0, 1.0), settings.tau
    )
    _, answer["peak_bytes"] = peak_of(lambda: next(run))
    if table.soft and matrix.size > ACCURACY_ENTRIES:
        return answer
    from r2b.methods import R2B

    rounds = R2B(epsilon, target="population").fit(table.labels, sensitive_features=table.groups)
    x = rounds.transform(table.labels, sensitive_features=table.groups)
    return answer | scored(lambda part: x[part], table, epsilon)


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
    """What a solver gets: label rows, their groups, and weights of mean 1.

    ``place`` says for each group and class of the table which of the rows it is.
    """

    labels: Floats
    groups: NDArray[np.int64]
    weight: Floats
    place: NDArray[np.intp] | None


def all_rows(table: Table) -> Rows:
    """Return the rows as they are."""
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
    """Solve through CVXPY; return labels, status, and the seconds of solver and set-up."""
    from scipy import sparse

    cp: Any = import_module("cvxpy")
    within = rows.weight / np.bincount(rows.groups, rows.weight)[rows.groups]
    averaging = sparse.csr_array((within, (rows.groups, np.arange(len(within)))))
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
    """Tighten the tolerance of a solver until its labels are accurate; yield each attempt."""
    for setting, options in LADDERS[solver][:highest]:
        try:
            found, _ = _rung(table, solver, epsilon, merged, options, repeats)
        except MemoryError:
            yield {"setting": setting, "status": "out of memory"}
            return
        # a solver that gives up says so in its own way; that is a result
        except Exception as error:
            words = str(error).partition("\n")[0][:80]
            yield {"setting": setting, "status": f"failed: {type(error).__name__}: {words}"}
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


def solver_report(
    table: Table,
    solver: str,
    epsilon: float,
    optimum: float,
    merged: bool,
    highest: int | None = None,
) -> dict[str, Any]:
    """Return all rungs; each is printed at once, in case the next never ends."""
    few = Rows(np.eye(2), np.arange(2), np.ones(2), None)
    # libraries are loaded once per process; that is nobody's time
    solve(few, solver, 0.5, LADDERS[solver][0][1])
    rungs: list[dict[str, Any]] = []
    for rung in climb(table, solver, epsilon, optimum, merged, highest):
        rungs.append(rung)
        print(json.dumps({"rungs": rungs}), flush=True)
    return {"rungs": rungs}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "ours": ours,
    "reweighing": reweighing,
    "published": published,
    "qp": solver_report,
}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    limit_memory(request["memory"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says how it went
        print(json.dumps(TASKS[request["task"]](Table(request["folder"]), **request["arguments"])))
