"""Tasks that need a process of their own: for a clean high-water mark of memory, or to be stopped when they take too long."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import peak_extra
from tables import build, soft

import r2b
from r2b.errors import NotSolvedWarning


def memory(table: dict[str, Any], epsilon: float, warm: bool) -> dict[str, Any]:
    """Give the peak of memory of one ``debias`` above inputs and loaded libraries."""
    data = build(**table)
    # the compiled kernel and its compiler are loaded once per process, whatever the size of the
    # table
    if warm:
        tiny = soft(500, 4, 2)
        r2b.debias(tiny.labels, sensitive_features=tiny.groups, kernel="compiled")
        r2b.debias(np.arange(100) % 3, sensitive_features=np.arange(100) % 7 % 2)
    extra, way = peak_extra(
        lambda: r2b.debias(data.labels, sensitive_features=data.groups, epsilon=epsilon)
    )
    return {
        "extra_bytes": extra,
        "measured_by": way,
        "input_bytes": data.labels.nbytes + data.groups.nbytes,
    }


def many(table: dict[str, Any], epsilon: float, time_limit: float) -> dict[str, Any]:
    """Time one ``debias`` of very many classes, and say how it went."""
    from measure import phase_clock

    data = build(**table)
    r2b.debias(np.arange(100) % 3, sensitive_features=np.arange(100) % 7 % 2)
    with phase_clock() as seconds:
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotSolvedWarning)  # the status says it
            fair = r2b.debias(
                data.labels, sensitive_features=data.groups, epsilon=epsilon, time_limit=time_limit
            )
        total = time.perf_counter() - begun
    stages: dict[str, int] = {}
    for line in fair.history:
        stages[line.stage] = stages.get(line.stage, 0) + 1
    proof = fair.certificate
    return {
        "seconds": total,
        "phases": seconds,
        "status": fair.status.value,
        "steps": stages,
        "residual": fair.residual,
        "certificate": {
            "holds": proof.holds,
            "relative_gap": proof.relative_gap,
            "excess": proof.excess,
            "parity": proof.disparity,
            "disparity_before": proof.disparity_before,
            "simplex_violation": proof.simplex_violation,
        },
    }


def rival(table: dict[str, Any], solver: str, epsilon: float, merged: bool) -> dict[str, Any]:
    """Compare with one general QP solver."""
    from rivals import compare

    return compare(build(**table), solver, epsilon, merged=merged)


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"memory": memory, "many": many, "rival": rival}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    if request["memory"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (int(request["memory"]), int(request["memory"])))
    print(json.dumps(TASKS[request["task"]](**request["arguments"])))
