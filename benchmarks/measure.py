"""How things are measured: interleaved minima, the high-water mark of memory, work in a process of its own, versions, phases."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

MB = 1e6
LIBRARIES = ("r2b", "numpy", "numba", "scipy", "cvxpy", "clarabel", "osqp", "scs", "piqp")


def minima(
    calls: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    seconds: float = 20.0,
    fewest: int = 3,
) -> dict[str, float]:
    """Time calls in turn, so that noise hits all of them, and give the least seconds of each.

    Parameters
    ----------
    calls : mapping of str to callable
    repeats : int
        Rounds over all calls, after one that warms up and does not count.
    seconds : float
        No new round is begun after this long,
    fewest : int
        but so many are always made.
    """
    best = dict.fromkeys(calls, float("inf"))
    begun = time.perf_counter()
    for turn in range(repeats + 1):
        for name, call in calls.items():
            gc.collect()
            start = time.perf_counter()
            call()
            taken = time.perf_counter() - start
            if turn:
                best[name] = min(best[name], taken)
        if turn >= fewest and time.perf_counter() - begun > seconds:
            break
    return best


def peak_extra(call: Callable[[], object]) -> tuple[float, str]:
    """Call once, and give by how many bytes resident memory rose above where it stood, with the way it was measured.

    Meant for a fresh process: the mark only means something where nothing larger went before it, or
    where it can be set back.
    """
    import psutil  # type: ignore[import-untyped]

    gc.collect()
    before = psutil.Process().memory_info().rss
    way = "VmHWM, set back before"
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        way = "ru_maxrss, an upper bound"
    keep = call()
    peak = high_water() if way.startswith("VmHWM") else _maxrss()
    del keep
    return max(0.0, float(peak - before)), way


def high_water() -> int:
    """Give the peak of this process's resident memory. What a process was before it became this one counts in ru_maxrss, and not here."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _maxrss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def in_own_process(
    task: str, *, timeout: float, memory: float | None = None, **arguments: object
) -> dict[str, Any]:
    """Run a task of ``child.py`` in a fresh process.

    Where it dies or runs out of time the answer says so under ``failure``, beside whatever the task
    had reported by then.
    """
    request = json.dumps({"task": task, "memory": memory, "arguments": arguments})
    command = [sys.executable, str(Path(__file__).with_name("child.py")), request]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as late:
        return {**_last_report(late.stdout), "failure": f"no answer within {timeout:g} s"}
    report = _last_report(done.stdout)
    if done.returncode < 0:
        return {**report, "failure": f"killed by {signal.Signals(-done.returncode).name}"}
    if done.returncode or not report:
        return {
            **report,
            "failure": (done.stderr.decode(errors="replace").strip().splitlines() or ["no output"])[
                -1
            ][:200],
        }
    return report


def _last_report(output: bytes | None) -> dict[str, Any]:
    lines = [
        line
        for line in (output or b"").decode(errors="replace").splitlines()
        if line.startswith("{") and line.endswith("}")
    ]
    report: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return report


def environment() -> dict[str, Any]:
    """Versions and cores; nothing that names the machine."""
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


PHASES = ("read", "merge", "solve", "certify")
ORACLE_PHASES = ("__init__", "label_means", "samples")


@contextmanager
def phase_clock() -> Iterator[dict[str, float]]:
    """Collect the seconds that ``r2b.debias`` spends in each of its phases, by watching the functions that a job calls."""
    from r2b._labels import task as job

    seconds: dict[str, float] = {}
    depth = 0

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                depth -= 1
                if depth == 0:  # a phase inside a phase belongs to the outer one
                    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begun

        return timed

    with ExitStack() as stack:
        for name in PHASES:
            stack.enter_context(mock.patch.object(job, name, watched(name, getattr(job, name))))
        oracle = job.MemoryOracle
        for name in ORACLE_PHASES:
            stack.enter_context(
                mock.patch.object(
                    oracle, name, watched(f"oracle {name.strip('_')}", getattr(oracle, name))
                )
            )
        yield seconds


def phases(call: Callable[[], object], repeats: int = 5) -> dict[str, float]:
    """Give the seconds by phase, and their ``total``, of the fastest of several runs."""
    best: dict[str, float] = {"total": float("inf")}
    for _ in range(repeats):
        gc.collect()
        with phase_clock() as seconds:
            begun = time.perf_counter()
            call()
            total = time.perf_counter() - begun
        if total < best["total"]:
            best = {**seconds, "total": total}
    return best
