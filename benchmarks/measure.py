"""How things are measured: least times of interleaved calls, peak memory, versions."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Mapping
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


def high_water() -> int:
    """Return the peak of this process's resident memory in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def environment() -> dict[str, Any]:
    """Return versions and the number of cores; nothing that names the machine."""
    found: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": cores,
        "versions": found,
    }
