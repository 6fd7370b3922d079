"""Labels on a CUDA device: walks against one read, whole solves, agreement with the host, labels larger than a budget. Prints JSON.

    python benchmarks/device.py --json out.json --seed 0

Needs torch with CUDA and Triton beside r2b's own needs (NumPy, narwhals, threadpoolctl); runs from
a checkout with PYTHONPATH=src. Data are on the device when the clock starts, except for batches.
The first call compiles and does not count; each figure is the least of several, with the device
waited for. Solves are whole calls of ``r2b.engines.torch.debias``: reading and checking the labels,
sampling, solving, and the certificate from a last walk over the data and the labels that go out.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from drawn import DEVICE_ENTRIES, Spec, specs, summary

import r2b
import r2b.engines.torch
from r2b.engines.torch.oracle import DeviceOracle, LabelBatches, choose_kernel, line_of
from r2b.engines.torch.reading import read_cells
from r2b.engines.torch.rows import DeviceRows

EPSILON = 0.01
GOALS = {"10,000,000 x 100": 100.0, "1,000,000 x 1,000": 150.0}  # milliseconds


def labels(
    n_rows: int,
    n_classes: int,
    n_groups: int,
    *,
    sharp: float,
    seed: int = 0,
    zipf: float | None = None,
) -> tuple[Any, Any]:
    """Softmax rows whose group means differ by more than epsilon in some classes, in float32, and groups, in no order."""
    rng = torch.Generator("cuda").manual_seed(seed)
    shift = 0.5 * torch.randn(n_groups, n_classes, generator=rng, device="cuda")
    # among many even classes none would be common enough for two groups to differ by epsilon in it
    if zipf is None:
        zipf = 0.7 if n_classes >= 500 else 0.0
    shift -= zipf * torch.log(torch.arange(1, n_classes + 1, device="cuda", dtype=torch.float32))
    groups = torch.randint(0, n_groups, (n_rows,), generator=rng, device="cuda")
    y = torch.empty(n_rows, n_classes, device="cuda")
    for start in range(0, n_rows, 1 << 20):
        part = slice(start, min(start + (1 << 20), n_rows))
        noise = torch.randn(y[part].shape, generator=rng, device="cuda")
        y[part] = torch.softmax(sharp * noise + shift[groups[part]], dim=1)
    return y, groups


def least_ms(call: Callable[[], object], repeats: int) -> float:
    """Give the least milliseconds of some calls, after one that does not count."""
    best = float("inf")
    for turn in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        if turn:
            best = min(best, 1e3 * (time.perf_counter() - start))
    return round(best, 3)


def walks(y: Any, groups: Any, repeats: int) -> dict[str, float]:
    """Time one read, one copy and one walk of each kind over the same rows."""
    codes, cells = read_cells(groups, None, y.device, "error")
    rows = DeviceRows(codes, cells.n_cells, cells.counts)
    oracle = DeviceOracle(LabelBatches(y, rows), rows.mass)
    rng = np.random.default_rng(0)
    prices = 0.01 * rng.standard_normal((rows.n_cells, y.shape[1]))
    near = prices + 1e-4 * rng.standard_normal(prices.shape)
    kernel = choose_kernel("auto", y.device, y.shape[1])
    out = torch.empty_like(y)
    turn = [0]

    def cold() -> None:
        rows.levels.zero_()
        kernel.walk(y, rows, line_of(prices, 1.0, y.device))

    def onward() -> None:
        turn[0] ^= 1
        kernel.walk(y, rows, line_of(near if turn[0] else prices, 1.0, y.device))

    calls: dict[str, Callable[[], object]] = {
        "read (sum of the tensor)": y.sum,
        "copy": lambda: out.copy_(y),
        "labels by cell, with the check of every row": lambda: kernel.label_sums(y, rows),
        "walk, thresholds from nothing": cold,
        "walk, thresholds of prices 1e-4 away": onward,
        "walk with curvature of all rows": lambda: (onward(), oracle.curvature(prices, 1.0)),
        "certificate": lambda: oracle.inspect(prices, 1.0),
        "labels written in float32": lambda: kernel.answer(
            y, rows, line_of(prices, 1.0, y.device), out
        ),
        "sort of every row in torch": lambda: [
            torch.sort(part, dim=1) for part in y.split(1 << 20)
        ],
    }
    return {
        name: least_ms(call, min(repeats, 3) if "sort" in name else repeats)
        for name, call in calls.items()
    }


def solve(y: Any, groups: Any, repeats: int, **asked: Any) -> tuple[Any, dict[str, Any]]:
    """Time whole solves and give the last with its figures."""
    found: list[Any] = [None]

    def call() -> None:
        found[0] = r2b.engines.torch.debias(
            y, sensitive_features=groups, **{"epsilon": EPSILON, **asked}
        )

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ms = least_ms(call, repeats)
    fair = found[0]
    proof = fair.certificate
    return fair, {
        "ms": ms,
        "status": fair.status.value,
        "ok": fair.status.ok,
        "reads": fair.rows.reads,
        "steps": len(fair.history),
        "relative_gap": proof.relative_gap,
        "excess": proof.excess,
        "simplex_violation": proof.simplex_violation,
        "disparity_before": proof.disparity_before,
        "parity": proof.disparity,
        "classes_with_prices": int((fair.prices != 0).any(axis=0).sum()),
        "peak_bytes_above_the_labels": torch.cuda.max_memory_allocated() - before,
    }


def agreement(y: Any, groups: Any, fair: Any) -> dict[str, Any]:
    """Solve the same rows on the host and compare prices."""
    start = time.perf_counter()
    host_y, host_groups = y.cpu().numpy(), groups.cpu().numpy()
    copied = time.perf_counter()
    host = r2b.debias(host_y, sensitive_features=host_groups, epsilon=EPSILON, merge_rows="never")
    return {
        "largest_difference_of_prices": float(np.abs(host.prices - fair.prices).max()),
        "largest_price": float(np.abs(host.prices).max()),
        "host_status": host.status.value,
        "host_seconds": round(time.perf_counter() - copied, 2),
        "copy_seconds": round(copied - start, 2),
    }


def batches(y: Any, groups: Any, fair: Any, batch_rows: int) -> dict[str, Any]:
    """Solve labels of the host through batches, with memory on the device for two of them."""
    host = torch.empty(y.shape, dtype=y.dtype, pin_memory=True)
    host.copy_(y)
    cut, figures = solve(host, groups, 1, device="cuda", batch_rows=batch_rows)
    size = y.numel() * y.element_size()
    return figures | {
        "batch_bytes": batch_rows * y.shape[1] * y.element_size(),
        "label_bytes": size,
        "gigabytes_per_second": round(figures["reads"] * size / figures["ms"] / 1e6, 1),
        "largest_difference_of_prices_to_the_whole": float(np.abs(cut.prices - fair.prices).max()),
    }


def case(
    n_rows: int,
    n_classes: int,
    n_groups: int,
    sharp: float,
    arguments: argparse.Namespace,
    *,
    thorough: bool = False,
    epsilon: float = EPSILON,
    goal: float | None = None,
) -> dict[str, Any]:
    """Measure one table."""
    y, groups = labels(n_rows, n_classes, n_groups, sharp=sharp)
    fair, figures = solve(y, groups, arguments.repeats, epsilon=epsilon)
    again = r2b.engines.torch.debias(y, sensitive_features=groups, epsilon=epsilon)
    name = f"{n_rows:,} x {n_classes:,}"
    found: dict[str, Any] = {
        "rows": n_rows,
        "classes": n_classes,
        "groups": n_groups,
        "sharp": sharp,
        "epsilon": epsilon,
        "solve": figures,
    }
    found["goal_ms"] = GOALS.get(name) if goal is None else goal
    found["same_bits_again"] = bool((again.prices == fair.prices).all())
    found["history"] = [
        (step.stage, step.residual, round(1e3 * step.seconds, 1)) for step in fair.history
    ]
    if thorough:
        found["walks_ms"] = walks(y, groups, arguments.repeats)
        found["equal_means_ms"] = solve(y, groups, 2, epsilon=0.0)[1]
        found["batches"] = batches(y, groups, fair, max(1, n_rows // 20))
        if not arguments.no_host:
            found["agreement"] = agreement(y, groups, fair)
    print(
        json.dumps({name: found["solve"], "goal_ms": found["goal_ms"]}), file=sys.stderr, flush=True
    )
    return found


def classes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time ten million class labels: 16 classes, 5 groups."""
    rng = torch.Generator("cuda").manual_seed(0)
    n_rows = 10_000_000 // arguments.shrink
    groups = torch.randint(0, 5, (n_rows,), generator=rng, device="cuda")
    y = (torch.rand(n_rows, generator=rng, device="cuda") * (12 + groups)).long()
    fair, figures = solve(y, groups, arguments.repeats)
    return figures | {
        "soft_labels_ms": least_ms(lambda: fair.soft(torch.float32), arguments.repeats)
    }


def drawn(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure tables drawn from the seed: each against one read, their median and the worst."""
    low, high = (entries // arguments.shrink for entries in DEVICE_ENTRIES)
    several = specs(arguments.seed, arguments.draws, (low, high))
    each = [_one_drawn(replace(spec, dtype="float32"), arguments) for spec in several]
    ratios = [one["ratio"] for one in each]
    return {
        "seed": arguments.seed,
        **summary(ratios),
        "not_solved": sum(not one["ok"] for one in each),
        "tables": each,
    }


def _one_drawn(spec: Spec, arguments: argparse.Namespace) -> dict[str, Any]:
    y, groups = labels(
        spec.rows, spec.n_classes, spec.n_groups, sharp=spec.sharp, seed=spec.seed, zipf=spec.zipf
    )
    fair, figures = solve(y, groups, min(arguments.repeats, 3), epsilon=spec.epsilon, lam=spec.lam)
    read_ms = least_ms(y.sum, arguments.repeats)
    found = {**spec.to_json(), "read_ms": read_ms, "ratio": figures["ms"] / read_ms, **figures}
    print(
        json.dumps({str(spec): [figures["ms"], read_ms, figures["status"], figures["steps"]]}),
        file=sys.stderr,
        flush=True,
    )
    del y, groups, fair
    torch.cuda.empty_cache()
    return found


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--json", type=Path, help="where to write the figures; they are printed as well"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--shrink",
        type=int,
        default=1,
        help="divide the rows of every table by this, to try the script",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the tables that are drawn")
    parser.add_argument("--draws", type=int, default=20, help="how many tables are drawn")
    parser.add_argument(
        "--only", type=lambda text: text.split(";"), help="the cases to run, by name: drawn;classes"
    )
    parser.add_argument("--no-host", action="store_true", help="leave out the solves on the host")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device.")
    small = arguments.shrink
    figures: dict[str, Any] = {
        "versions": {
            "r2b": r2b.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name(),
    }
    cases: dict[str, Callable[[], dict[str, Any]]] = {
        "long, two groups": lambda: case(10_000_000 // small, 100, 2, 1.5, arguments),
        "long, sharp rows": lambda: case(10_000_000 // small, 100, 5, 4.0, arguments),
        "long, sharp rows, equal means": lambda: case(
            10_000_000 // small, 100, 5, 4.0, arguments, epsilon=0.0, goal=60.0
        ),
        "wide, sharp rows": lambda: case(
            1_000_000 // small, 1000, 8, 4.0, arguments, epsilon=0.001, goal=150.0
        ),
        "short": lambda: case(200_000 // small, 16, 5, 1.5, arguments, goal=5.0),
        "classes": lambda: classes(arguments),
        "wide": lambda: case(1_000_000 // small, 1000, 5, 1.0, arguments, thorough=True),
        "long": lambda: case(10_000_000 // small, 100, 5, 1.5, arguments, thorough=True),
        "drawn": lambda: drawn(arguments),
    }
    for name, measure in cases.items():
        if arguments.only and name not in arguments.only:
            continue
        figures[name] = measure()
        torch.cuda.empty_cache()
        if arguments.json:  # after each case: what is measured stays measured
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
