"""Debias on a CUDA device and in memory: whole calls on the same probabilities. Prints JSON.

    python benchmarks/device.py --json device.json

Labels are where they are debiased when the clock starts. The first call does not count; each figure
is the least of several. A call reads and checks the labels, solves, and computes the certificate.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import r2b
import r2b.engines.torch

CASES = {"long": (10_000_000, 100, 5), "wide": (1_000_000, 1_000, 5), "short": (200_000, 16, 5)}
EPSILON = 0.01


def table(n_rows: int, n_classes: int, n_groups: int) -> tuple[Any, Any]:
    """Draw softmax rows in float32 whose group means differ by more than epsilon, and groups."""
    rng = torch.Generator("cuda").manual_seed(0)
    shift = torch.randn(n_groups, n_classes, generator=rng, device="cuda")
    groups = torch.randint(0, n_groups, (n_rows,), generator=rng, device="cuda")
    y = torch.empty(n_rows, n_classes, device="cuda")
    for start in range(0, n_rows, 1 << 20):
        part = slice(start, start + (1 << 20))
        noise = torch.randn(y[part].shape, generator=rng, device="cuda")
        y[part] = torch.softmax(1.5 * noise + 0.5 * shift[groups[part]], dim=1)
    return y, groups


def least_ms(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the least milliseconds of some calls after the first, and the last result."""
    found, best = call(), float("inf")
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = call()
        torch.cuda.synchronize()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return round(best, 3), found


def case(n_rows: int, n_classes: int, n_groups: int, repeats: int) -> dict[str, Any]:
    """Debias one table on the device and in memory."""
    y, groups = table(n_rows, n_classes, n_groups)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ms, fair = least_ms(lambda: r2b.debias(y, sensitive_features=groups, epsilon=EPSILON), repeats)
    peak = torch.cuda.max_memory_allocated() - before
    host_y, host_groups = y.cpu().numpy(), groups.cpu().numpy()
    host_ms, host = least_ms(
        lambda: r2b.debias(host_y, sensitive_features=host_groups, epsilon=EPSILON), 1
    )
    solve = {
        "ms": ms,
        "status": fair.status.value,
        "excess": fair.certificate.excess,
        "relative_gap": fair.certificate.relative_gap,
        "peak_bytes_above_the_labels": peak,
    }
    return {
        "rows": n_rows,
        "classes": n_classes,
        "groups": n_groups,
        "solve": solve,
        "memory_ms": host_ms,
        "largest_difference_of_prices": float(np.abs(host.prices - fair.prices).max()),
    }


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the rows, to try the script")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device.")
    figures: dict[str, Any] = {
        "versions": {"r2b": r2b.__version__, "torch": torch.__version__},
        "device": torch.cuda.get_device_name(),
    }
    for name, (n_rows, n_classes, n_groups) in CASES.items():
        figures[name] = case(n_rows // arguments.shrink, n_classes, n_groups, arguments.repeats)
    text = json.dumps(figures, indent=1)
    if arguments.json:
        arguments.json.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
