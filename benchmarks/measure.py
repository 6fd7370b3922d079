"""How things are measured and written: least times of interleaved calls, peak memory, versions,
rows.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

LIBRARIES = ("r2b", "numpy", "numba", "scipy", "cvxpy", "clarabel", "osqp", "scs", "piqp")


def least_times(
    calls: Mapping[str, Callable[[], object]], *, repeats: int = 9, seconds: float = 20.0
) -> dict[str, float]:
    """Time calls in turn, so that noise hits all of them, and return the least seconds of each.

    Parameters
    ----------
    calls : mapping of str to callable
    repeats : int
        Rounds over all calls, after one that warms up and does not count.
    seconds : float
        No new round begins after this long.
    """
    best = dict.fromkeys(calls, float("inf"))
    begun = time.perf_counter()
    for turn in range(repeats + 1):
        for name, call in calls.items():
            gc.collect()
            start = time.perf_counter()
            call()
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
        if turn and time.perf_counter() - begun > seconds:
            break
    return best


def write_rows(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write figures and settings as JSON, one line per row."""
    text = json.dumps({**head, "rows": None}, indent=1)
    body = ",\n  ".join(json.dumps(row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("null\n}", f"[\n  {body}\n ]\n}}\n"), encoding="utf-8")


def versions(*libraries: str) -> dict[str, str | None]:
    """Return the versions of libraries; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for name in libraries:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def high_water() -> int:
    """Return the peak of this process's resident memory in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def environment() -> dict[str, Any]:
    """Return versions and the number of cores; nothing that names the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": cores,
        "versions": versions(*LIBRARIES),
    }
