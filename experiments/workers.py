"""Processes that run experiments: one batch of runs at a time each, one row back as soon as it is there."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.experiment import Run
from r2b.errors import R2BError

Batch = list[Run]


class RunFailedError(R2BError, RuntimeError):
    """Runs of an experiment raised, or the process that ran them died."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run: its measures, or the words of what went wrong."""

    run: Run
    measures: dict[str, Any] | None
    seconds: float
    failure: str | None = None


def carry_out(run: Run, data: Path | None) -> Outcome:
    """Do one run in this process on one thread; what it raises is returned, so that the other runs go on."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    from experiments import find

    begun = time.perf_counter()
    try:
        with threadpool_limits(1):
            measures = find(run.experiment).run(run.settings, run.seed, data)
    # anything that an experiment may raise; the runner reports it with the run's name
    except Exception:
        return Outcome(run, None, time.perf_counter() - begun, traceback.format_exc())
    return Outcome(run, measures, time.perf_counter() - begun)


def outcomes(batches: list[Batch], data: Path | None, jobs: int) -> Iterator[Outcome]:
    """Do all runs and yield what became of each as it comes; with one job, in this process.

    Raises
    ------
    RunFailedError
        A process died: killed, or out of memory.
    """
    # Runs share the cores, so each keeps to one thread: of libraries that are loaded later, too.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if jobs <= 1 or len(batches) <= 1:
        for batch in batches:
            for run in batch:
                yield carry_out(run, data)
        return
    # Started afresh instead of forked: threads of BLAS and of compiled kernels do not survive a
    # fork.
    context = multiprocessing.get_context("spawn")
    tasks, done = context.Queue(), context.Queue()
    for batch in batches:
        tasks.put(batch)
    processes = [
        context.Process(target=_work, args=(tasks, done, data), daemon=True)
        for _ in range(min(jobs, len(batches)))
    ]
    for process in processes:
        tasks.put(None)
        process.start()
    try:
        for _ in range(sum(map(len, batches))):
            yield _next(done, processes)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _next(done: Any, processes: list[Any]) -> Outcome:
    while True:
        try:
            outcome: Outcome = done.get(timeout=1.0)
        except queue.Empty:
            dead = [process for process in processes if process.exitcode not in (None, 0)]
            if dead:
                problem = f"A worker process ended with code {dead[0].exitcode}."
                remedy = "Finished rows are kept: call again to go on, with fewer jobs if memory was short."
                raise RunFailedError(problem, remedy=remedy, exitcode=dead[0].exitcode) from None
        else:
            return outcome


def _work(tasks: Any, done: Any, data: Path | None) -> None:
    # A worker outlives a killed parent otherwise, waiting for tasks that never come.
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while (batch := tasks.get()) is not None:
        for run in batch:
            done.put(carry_out(run, data))
    done.close()
    done.join_thread()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
