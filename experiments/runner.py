"""One runner for all experiments: parallel over processes, resumable, one row per run, one Parquet file.

A run is a pure function of its configuration and seed (:mod:`experiments.experiment` says how an
experiment plugs in). Rows are written down as they come; whatever stops the runner, calling it
again does only what is missing. Nothing here knows any experiment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import Any

from experiments import journal
from experiments.experiment import IDENTITY, Experiment, Row, Run, planned
from experiments.workers import Batch, Outcome, RunFailedError, carry_out, outcomes
from r2b.errors import ParameterError

RECORDED = ("numpy", "scipy", "scikit-learn", "numba", "torch", "pyarrow")


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


def run_experiment(
    experiment: Experiment,
    *,
    quick: bool = False,
    output: Path,
    data: Path | None = None,
    seeds: Sequence[int] | None = None,
    jobs: int = 2,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> list[Row]:
    """Do the runs of an experiment that are not finished, and give the rows of all.

    Parameters
    ----------
    experiment : Experiment
    quick : bool
        The small setting instead of the paper's.
    output : Path
        Folder of the results file; made if it is not there.
    data : Path, optional
        Handed to every run.
    seeds : sequence of int, optional
        Instead of the experiment's own.
    jobs : int
        Processes at a time.
    resume : bool
        Keep finished rows. False does all planned runs again.
    progress : callable, optional
        Called at the start and after every run.

    Returns
    -------
    list of dict
        Planned rows in the order of the plan. The file may hold more: rows of other seeds or
        configurations stay.

    Raises
    ------
    RunFailedError
        Some runs failed; the others are kept.
    """
    if jobs < 1:
        raise ParameterError(f"jobs is {jobs!r}.", remedy="Pass 1 or more.", jobs=jobs)
    output.mkdir(parents=True, exist_ok=True)
    plan = planned(experiment, quick=quick, seeds=seeds)
    rows = journal.finished(output, experiment.name)
    if not resume:
        # Dropped from the file first, so that a restart that is killed does not take the old rows
        # for its own.
        rows = {key: row for key, row in rows.items() if key not in {run.identity for run in plan}}
        journal.settle(output, experiment.name, rows.values())
    missing = [run for run in plan if run.identity not in rows]
    versions = json.dumps(_versions(), sort_keys=True)
    told, begun, failures = progress or _silent, time.perf_counter(), []
    told(Progress(experiment.name, len(plan) - len(missing), len(plan), 0.0, None))
    for number, outcome in enumerate(outcomes(_batches(experiment, missing), data, jobs), start=1):
        if outcome.failure is not None:
            failures.append(outcome)
        else:
            row = _row(outcome, versions)
            journal.append(journal.journal_path(output, experiment.name), row)
            rows[row[IDENTITY]] = row
        elapsed = time.perf_counter() - begun
        left = elapsed / number * (len(missing) - number)
        told(Progress(experiment.name, len(plan) - len(missing) + number, len(plan), elapsed, left))
    if missing:
        journal.settle(output, experiment.name, _sorted(rows, plan))
    if failures:
        raise _failed(failures)
    return [rows[run.identity] for run in plan]


def rerun(row: Row, data: Path | None = None) -> Row:
    """Do the run of a row once more, in this process.

    Returns
    -------
    dict
        The row as it comes out now, to be compared with the one given.
    """
    run = Run(row["experiment"], row["revision"], row["configuration"], row["seed"])
    outcome = carry_out(run, data)
    if outcome.failure is not None:
        raise _failed([outcome])
    return _row(outcome, json.dumps(_versions(), sort_keys=True))


def _row(outcome: Outcome, versions: str) -> Row:
    run, measures = outcome.run, outcome.measures or {}
    settings = run.settings
    twice = sorted(set(settings) & set(measures))
    if twice:
        problem = f"A run of {run.experiment!r} measures {', '.join(map(repr, twice))}, which its configuration has too."
        raise ParameterError(problem, remedy="Give the measure another name.", names=twice)
    own: dict[str, Any] = {
        IDENTITY: run.identity,
        "experiment": run.experiment,
        "revision": run.revision,
        "seed": run.seed,
    }
    own |= {
        "configuration": run.configuration,
        "versions": versions,
        "seconds": round(outcome.seconds, 3),
    }
    return own | settings | measures


def _batches(experiment: Experiment, runs: list[Run]) -> list[Batch]:
    """Put runs that share something into one batch, in the order of their first."""
    if experiment.together is None:
        return [[run] for run in runs]
    batches: dict[Hashable, Batch] = {}
    for run in runs:
        batches.setdefault(experiment.together(run.settings, run.seed), []).append(run)
    return list(batches.values())


def _sorted(rows: dict[str, Row], plan: list[Run]) -> list[Row]:
    """Order rows by plan, whatever order they finished in, so that equal results are equal files; rows of other plans follow."""
    first = [rows[run.identity] for run in plan if run.identity in rows]
    known = {row[IDENTITY] for row in first}
    rest = sorted(
        (row for key, row in rows.items() if key not in known),
        key=lambda row: (row["seed"], row["configuration"]),
    )
    return first + rest


def _failed(failures: list[Outcome]) -> RunFailedError:
    run, words = failures[0].run, str(failures[0].failure)
    problem = f"{len(failures)} of the runs of {run.experiment!r} failed; the first, {run.configuration} with seed {run.seed}, said:\n{words}"
    return RunFailedError(
        problem,
        remedy="The other rows are kept: correct this and call again.",
        n_failed=len(failures),
    )


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


def _silent(progress: Progress) -> None:
    pass


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
