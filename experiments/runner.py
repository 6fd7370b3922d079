"""One runner for all experiments: parallel, resumable, one row per run, one Parquet file.

A run is a pure function of its configuration and seed (:mod:`experiments.experiment` says how an
experiment plugs in). Rows are written down as they come; whatever stops the runner, calling it
again does only what is missing. Nothing here knows any experiment.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from os import PathLike
from pathlib import Path
from platform import python_version

from experiments import journal
from experiments.experiment import IDENTITY, Row, Run, find, planned
from r2b.errors import ParameterError, R2BError

RECORDED = ("numpy", "scipy", "scikit-learn", "numba", "torch", "pyarrow")
NEIGHBOURS = 8  # runs that one process does in a row, since what they share is kept there


class RunFailedError(R2BError, RuntimeError):
    """Runs of an experiment raised, or the process that ran them died."""


@dataclass(frozen=True)
class Progress:
    """How far a run of an experiment is.

    Attributes
    ----------
    experiment : str
    done, total : int
        Runs, those found finished included.
    elapsed : float
        Seconds since the call.
    left : float or None
        Seconds still to go at the pace so far; None before the first row of this call.
    """

    experiment: str
    done: int
    total: int
    elapsed: float
    left: float | None

    def __str__(self) -> str:
        rest = "" if self.left is None else f", about {_duration(self.left)} left"
        return (
            f"{self.experiment}: {self.done} of {self.total} runs, {_duration(self.elapsed)}{rest}"
        )


def reproduce(
    name: str,
    *,
    quick: bool = False,
    output: str | PathLike[str] | None = None,
    data: str | PathLike[str] | None = None,
    seeds: Sequence[int] | None = None,
    jobs: int = 2,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> list[Row]:
    """Run an experiment, or what is missing of it, and write its rows, tables and figures.

    Parameters
    ----------
    name : str
        One of ``NAMES``.
    quick : bool
        A small setting that takes seconds instead of the paper's. Its tables state their settings
        and are not compared with the paper.
    output : path, optional
        The folder to write to: ``NAME.parquet`` with one row per run, ``NAME.md`` with the tables,
        ``NAME-*.svg``. By default ``results``, and ``results/quick`` for the small setting.
    data : path, optional
        Where the experiment's data is, for those that need some.
    seeds : sequence of int, optional
        Instead of the experiment's own.
    jobs : int
        Processes at a time. Scripts that ask for more than one need the usual ``if __name__ ==
        "__main__":``.
    resume : bool
        Keep rows that are finished; False does them again.
    progress : callable, optional
        Called with a :class:`Progress` at the start and after every run.

    Returns
    -------
    list of dict
        Planned rows in the order of the plan. The file may hold more: rows of other seeds or
        configurations stay.

    Raises
    ------
    ParameterError
        There is no such experiment.
    RunFailedError
        Some runs failed, or a process died; the rows of the others are kept.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = reproduce("rounds", quick=True, output=folder, jobs=1)
    >>> rows[0]["epsilon"], round(rows[0]["round_100"], 4)
    (0.0, 0.0...)
    """
    from experiments.report import write_files

    experiment = find(name)
    folder = Path("results", "quick" if quick else "") if output is None else Path(output)
    place = None if data is None else Path(data)
    if jobs < 1:
        raise ParameterError(f"jobs is {jobs!r}.", remedy="Pass 1 or more.", jobs=jobs)
    folder.mkdir(parents=True, exist_ok=True)
    plan = planned(experiment, quick=quick, seeds=seeds)
    wanted = {run.identity for run in plan}
    rows = journal.finished(folder, name)
    if not resume:
        # Dropped from the file first, so that a restart that is killed does not take the old rows
        # for its own.
        rows = {key: row for key, row in rows.items() if key not in wanted}
        journal.settle(folder, name, rows.values())
    missing = [run for run in plan if run.identity not in rows]
    before, begun, failures = len(plan) - len(missing), time.perf_counter(), []
    tell = progress or (lambda progress: None)
    tell(Progress(name, before, len(plan), 0.0, None))
    carry_out = partial(_carry_out, data=place, path=journal.journal_path(folder, name))
    for number, (run, row) in enumerate(_results(carry_out, missing, jobs), start=1):
        if isinstance(row, str):
            failures.append((run, row))
        else:
            rows[run.identity] = row
        elapsed = time.perf_counter() - begun
        left = elapsed / number * (len(missing) - number)
        tell(Progress(name, before + number, len(plan), elapsed, left))
    if missing:
        # Whatever order rows finished in, equal results are equal files; rows of other plans
        # follow.
        first = [rows[run.identity] for run in plan if run.identity in rows]
        others = [row for key, row in rows.items() if key not in wanted]
        others.sort(key=lambda row: (row["seed"], row["configuration"]))
        journal.settle(folder, name, [*first, *others])
    if failures:
        run, words = failures[0]
        problem = (
            f"{len(failures)} of the runs of {name!r} failed; the first, {run.configuration} with"
            f" seed {run.seed}, said:\n{words}"
        )
        remedy = "The other rows are kept: correct this and call again."
        raise RunFailedError(problem, remedy=remedy, n_failed=len(failures))
    found = [rows[run.identity] for run in plan]
    write_files(experiment, found, folder, quick=quick)
    return found


def rerun(row: Row, data: Path | None = None) -> Row:
    """Do the run of a row once more, in this process.

    Returns
    -------
    dict
        The row as it comes out now, to be compared with the one given.
    """
    run = Run(row["experiment"], row["revision"], row["configuration"], row["seed"])
    return _row_of(run, data)


def _row_of(run: Run, data: Path | None) -> Row:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    begun, settings = time.perf_counter(), run.settings
    with threadpool_limits(1):
        measures = find(run.experiment).run(settings, run.seed, data)
    twice = sorted(set(settings) & set(measures))
    if twice:
        problem = (
            f"A run of {run.experiment!r} measures {', '.join(map(repr, twice))}, which its"
            " configuration has too."
        )
        raise ParameterError(problem, remedy="Give the measure another name.", names=twice)
    own: Row = {IDENTITY: run.identity, **vars(run)}
    own["versions"] = json.dumps(_versions(), sort_keys=True)
    own["seconds"] = round(time.perf_counter() - begun, 3)
    return own | settings | measures


def _carry_out(run: Run, data: Path | None, path: Path) -> tuple[Run, Row | str]:
    """Do a run and write its row down; what it raises is returned, so that the other runs go on."""
    try:
        row = _row_of(run, data)
    except Exception:  # anything that an experiment may raise
        return run, traceback.format_exc()
    journal.append(path, row)
    return run, row


def _results(
    carry_out: Callable[[Run], tuple[Run, Row | str]], runs: list[Run], jobs: int
) -> Iterator[tuple[Run, Row | str]]:
    """Do runs in several processes, or with one job in this one."""
    # Runs share the cores, so each keeps to one thread: of libraries that are loaded later, too.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if jobs == 1:
        yield from map(carry_out, runs)
        return
    # Started afresh instead of forked: threads of BLAS and of compiled kernels do not survive a
    # fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _leave_with_parent) as pool:
        try:
            size = min(NEIGHBOURS, -(-len(runs) // jobs))
            yield from pool.map(carry_out, runs, chunksize=max(1, size))
        except BrokenProcessPool as error:
            remedy = (
                "Finished rows are kept: call again to go on, with fewer jobs if memory was short."
            )
            raise RunFailedError("A worker process died.", remedy=remedy) from error


def _leave_with_parent() -> None:
    """End this process with the one that started it, which a pool of a killed process does not."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _versions() -> dict[str, str]:
    import r2b

    # A checkout that is on the path but not installed has a version all the same.
    found = {"python": python_version(), "r2b": r2b.__version__}
    for name in RECORDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
