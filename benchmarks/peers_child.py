"""Rivals that run in this environment, each in a process of its own: ``python benchmarks/peers_child.py REQUEST`` prints JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from peers_score import Table, fastest, limit_memory, peak_of, scaled_seconds, scored

# up to which the published rounds are also run to their end on probabilities, for their accuracy
ACCURACY_ENTRIES = 400_000


def ours(table: Table, epsilon: float, kernels: list[str], seconds: float) -> dict[str, Any]:
    """``r2b.debias`` with one kernel after another; "one thread" is the default kernel on one thread."""
    import r2b
    from r2b._solve.oracle import blocks

    arguments: dict[str, dict[str, Any]] = {"one thread": {"threads": 1}, "auto": {}}
    found: dict[str, Any] = {}
    for kernel in kernels:
        options = arguments.get(kernel, {})
        if kernel in ("numpy", "compiled"):  # where rows are read by compiled kernels
            blocks._COMPILED_FROM = 0 if kernel == "compiled" else 1 << 62

        def debias(options: dict[str, Any] = options) -> r2b.FairLabels:
            return r2b.debias(
                table.labels, sensitive_features=table.groups, epsilon=epsilon, **options
            )

        def whole(debias: Callable[[], r2b.FairLabels] = debias) -> r2b.FairLabels:
            fair = debias()
            if table.soft:
                _ = fair.soft_labels  # made on demand; the others hand over a matrix
            return fair

        _warm_up(options)
        fair, peak = peak_of(whole)
        scores = _scores_of(fair, table, epsilon)
        proof = fair.certificate
        status, gap, disparity_before = (
            fair.status.value,
            proof.relative_gap,
            proof.disparity_before,
        )
        del fair, proof
        least = fastest(whole, seconds=seconds)
        found[kernel] = {
            "seconds": least,
            "solver_seconds": min(least, _without_reading(debias, seconds)),
            "peak_bytes": peak,
            "status": status,
            "gap": gap,
            "disparity_before": disparity_before,
            **scores,
        }
        print(json.dumps({"kernels": found}), flush=True)
    return {"kernels": found}


def _scores_of(fair: Any, table: Table, epsilon: float) -> dict[str, float]:
    """Score the rows that leave, whichever way they are made: class labels by the channel, probabilities as a matrix."""
    if table.soft:
        matrix = fair.soft_labels
        return scored(lambda part: matrix[part], table, epsilon)
    channel = fair.channel.reshape(table.n_groups * table.n_classes, -1)
    return scored(lambda part: channel[table.joint[part]], table, epsilon)


def _warm_up(options: dict[str, Any]) -> None:
    """Load what is loaded once per process, whatever the size of the table."""
    import r2b

    rng = np.random.default_rng(0)
    groups = np.arange(600) % 2
    few = rng.standard_gamma(1.0 + groups[:, None] * np.arange(4), (600, 4))
    r2b.debias(
        few / few.sum(axis=1, keepdims=True),
        sensitive_features=groups,
        **options,
    )
    r2b.debias(np.arange(100) % 3, sensitive_features=np.arange(100) % 7 % 2, **options)


def _without_reading(debias: Callable[[], object], seconds: float) -> float:
    """Give the seconds of solve and certificate: who is handed merged rows, or rows checked by nobody, is spared the rest."""
    from measure import phases

    taken = [phases(debias, 1)]
    while sum(one["total"] for one in taken) < seconds and len(taken) < 9:
        taken.append(phases(debias, 1))
    return min(one["total"] - one["read"] - one["merge"] for one in taken)


def device(table: Table, epsilon: float, seconds: float, place: str = "cuda") -> dict[str, Any]:
    """``r2b.engines.torch.debias`` on a CUDA device, labels and groups there already; class labels are counted there."""
    import torch

    from r2b.engines.torch import debias

    labels, groups = (
        torch.from_numpy(table.labels).to(place),
        torch.from_numpy(table.groups).to(place),
    )
    gpu = labels.is_cuda

    def run() -> Any:
        fair = debias(labels, sensitive_features=groups, epsilon=epsilon)
        if table.soft:
            _ = fair.soft_labels
        if gpu:
            torch.cuda.synchronize()
        return fair

    run()  # kernels are compiled by the first call
    before = torch.cuda.memory_allocated() if gpu else 0
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    fair = run()
    peak = torch.cuda.max_memory_allocated() - before if gpu else None
    found = {"peak_bytes": peak, "status": fair.status.value, "gap": fair.certificate.relative_gap}
    rows = fair.soft_labels
    found |= scored(lambda part: rows[part].cpu().numpy(), table, epsilon)
    return {"seconds": fastest(run, seconds=seconds), **found}


def reweighing(table: Table, epsilon: float) -> dict[str, Any]:
    """``r2b.methods.Reweighing``: weights instead of labels, so parity is that of the weighted labels and there is no distance."""
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
    """The published procedure, written anew (``published.py``): timed for some binary solves, scaled to all.

    Its accuracy is that of 100 rounds whose binary problems are solved exactly, which is what their
    steps come to at best.
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


def qp(table: Table, **arguments: Any) -> dict[str, Any]:
    """One general QP solver, up its ladder of tolerances."""
    from peers_qp import report

    return report(table, **arguments)


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "ours": ours,
    "device": device,
    "reweighing": reweighing,
    "published": published,
    "qp": qp,
}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    limit_memory(request["memory"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says how it went
        print(json.dumps(TASKS[request["task"]](Table(request["folder"]), **request["arguments"])))
