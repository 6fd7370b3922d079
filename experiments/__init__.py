"""The paper's experiments, rerun: every run one row, every table and figure from rows, our numbers beside the paper's.

``reproduce("adult")`` or ``python -m experiments adult`` runs one; :mod:`experiments.experiment`
says how another plugs in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Final

from experiments.experiment import Experiment, Row
from experiments.runner import Progress, rerun, run_experiment
from r2b.errors import ParameterError

__all__ = ["MODULES", "Experiment", "Progress", "find", "reproduce", "rerun", "within_reach"]

MODULES: Final = {
    "adult": "experiments.adult",
    "adult_choices": "experiments.adult_choices",
    "synthetic": "experiments.synthetic",
    "rounds": "experiments.rounds",
    "convergence": "experiments.convergence",
    "guarantee": "experiments.guarantee",
    "coco": "experiments.coco",
    "dermatology": "experiments.dermatology",
    "appendix_cartoon": "experiments.appendix_cartoon",
    "normalising": "experiments.normalising",
    "appendix_bins": "experiments.appendix_bins",
    "appendix_classes": "experiments.appendix_classes",
    "appendix_balance": "experiments.appendix_balance",
    "appendix_time": "experiments.appendix_time",
}
"""The experiments by name, in the order of the page, and the modules that hold them as ``EXPERIMENT``."""


def find(name: str) -> Experiment:
    """Return an experiment by name.

    Raises
    ------
    ParameterError
        There is none of this name.

    Examples
    --------
    >>> find("adult").title
    'Adult'
    """
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise ParameterError(
            f"There is no experiment {name!r}.",
            remedy=f"Choose one of {known}.",
            name=name,
            names=tuple(MODULES),
        )
    experiment: Experiment = import_module(MODULES[name]).EXPERIMENT
    return experiment


def within_reach(data: str | PathLike[str] | None = None) -> tuple[list[str], list[str]]:
    """Tell which experiments can run here, and which are left out because no folder is named that holds their data.

    Examples
    --------
    >>> can, cannot = within_reach("some/folder")
    >>> len(can), cannot
    (14, [])
    """
    named = data is not None or bool(os.environ.get("R2B_DATA"))
    left_out = [] if named else [name for name in MODULES if find(name).needs_data]
    return [name for name in MODULES if name not in left_out], left_out


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
    """Run an experiment of the paper, or what is missing of it, and write its rows, tables and figures.

    Parameters
    ----------
    name : str
        One of ``MODULES``.
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
        The rows.

    Raises
    ------
    ParameterError
        There is no such experiment.
    RunFailedError
        Some runs failed; the finished ones are kept.

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
    folder = Path(output) if output is not None else Path("results", "quick" if quick else "")
    place = Path(data) if data is not None else None
    rows = run_experiment(
        experiment,
        quick=quick,
        output=folder,
        data=place,
        seeds=seeds,
        jobs=jobs,
        resume=resume,
        progress=progress,
    )
    write_files(experiment, rows, folder, quick=quick)
    return rows
