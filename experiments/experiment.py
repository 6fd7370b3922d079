"""What an experiment is to the runner: configurations, and a pure function from one to a row.

How a new experiment plugs in
-----------------------------
1. Write a module in this folder with the names below.
2. Add its name to ``NAMES`` here.

That is all: the command, the runner, the results file, and its tables and figures follow.

- ``TITLE`` is the heading of its section.
- ``configurations(quick)`` lists configurations: flat dictionaries of text, numbers, True/False and
  None. They become columns of the results.
- ``run(configuration, seed, data)`` computes one row, a flat dictionary of numbers and text under
  other names than the configuration's. It must depend on nothing but its arguments (``data`` is the
  folder or file that the user named, or None). It may return None-valued entries for measures that
  do not apply. Neighbouring configurations are mostly done by one process, so what they share needs
  no more than a small ``functools.lru_cache``.
- ``section(rows)`` writes the tables of ``results/NAME.md`` from result rows alone;
  ``figures(rows)``, where there are any, gives what its pictures show, by file stem. Both need
  every row of the full setting.
- ``SEEDS``, ``REVISION`` and ``NEEDS_DATA`` may be left out. A revision is part of a row's
  identity: raise it when ``run`` changes what it computes, and old rows are not taken for new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from r2b.errors import ParameterError

if TYPE_CHECKING:
    from experiments.figures import Picture

NAMES = (
    "adult",
    "adult_choices",
    "synthetic",
    "rounds",
    "convergence",
    "guarantee",
    "coco",
    "dermatology",
    "appendix_cartoon",
    "normalising",
    "appendix_bins",
    "appendix_classes",
    "appendix_balance",
    "appendix_time",
)
"""The experiments in the order of the page."""

Configuration = dict[str, Any]
Row = dict[str, Any]
Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# What the runner itself writes into a row, beside configuration and measures.
IDENTITY = "run"
OWN_COLUMNS = (IDENTITY, "experiment", "revision", "seed", "configuration", "versions", "seconds")


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper; see the module for how its parts are used.

    Attributes
    ----------
    name, title : str
    configurations : callable
        ``quick -> list of configurations``.
    run : callable
        ``configuration, seed, data -> measures``.
    section : callable
        ``rows -> Markdown``, without the heading.
    figures : callable
        ``rows -> {file stem: Picture}``.
    seeds : tuple of int
    revision : int
    needs_data : bool
        Whether ``run`` cannot do without ``data``; such an experiment is left out when all are run
        without.
    """

    name: str
    title: str
    configurations: Callable[[bool], list[Configuration]]
    run: Callable[[Configuration, int, Path | None], Row]
    section: Callable[[Sequence[Row]], str]
    figures: Callable[[Sequence[Row]], dict[str, Picture]]
    seeds: tuple[int, ...]
    revision: int
    needs_data: bool


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
    if name not in NAMES:
        problem = f"There is no experiment {name!r}."
        remedy = f"Choose one of {', '.join(NAMES)}."
        raise ParameterError(problem, remedy=remedy, name=name, names=NAMES)
    module = import_module(f"experiments.{name}")
    return Experiment(
        name,
        module.TITLE,
        module.configurations,
        module.run,
        module.section,
        getattr(module, "figures", lambda rows: {}),
        getattr(module, "SEEDS", tuple(range(10))),
        getattr(module, "REVISION", 1),
        getattr(module, "NEEDS_DATA", False),
    )


@dataclass(frozen=True)
class Run:
    """One configuration with one seed: what becomes one row."""

    experiment: str
    revision: int
    configuration: str
    seed: int

    @property
    def identity(self) -> str:
        """Name the run by what determines it; 16 hexadecimal digits."""
        text = json.dumps([self.experiment, self.revision, self.configuration, self.seed])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def settings(self) -> Configuration:
        """The configuration as a dictionary."""
        settings: Configuration = json.loads(self.configuration)
        return settings


def run_of(experiment: Experiment, configuration: Configuration, seed: int) -> Run:
    """Freeze a configuration and a seed.

    Raises
    ------
    ParameterError
        A configuration is not flat, or uses a name that the runner writes itself.
    """
    wrong = [
        name
        for name, value in configuration.items()
        if name in OWN_COLUMNS or not isinstance(value, str | int | float | bool | None)
    ]
    if wrong:
        problem = f"The configuration of {experiment.name!r} has {', '.join(map(repr, wrong))}."
        remedy = (
            "Use text, numbers, True, False or None under other names than"
            f" {', '.join(OWN_COLUMNS)}."
        )
        raise ParameterError(problem, remedy=remedy, experiment=experiment.name, names=wrong)
    return Run(
        experiment.name, experiment.revision, json.dumps(configuration, sort_keys=True), int(seed)
    )


def crossed(**options: Iterable[Any]) -> list[Configuration]:
    """List all combinations of some options; the last one varies fastest.

    Examples
    --------
    >>> crossed(p=[0.0], method=["BL", "R2B"])
    [{'p': 0.0, 'method': 'BL'}, {'p': 0.0, 'method': 'R2B'}]
    """
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def planned(
    experiment: Experiment, *, quick: bool = False, seeds: Sequence[int] | None = None
) -> list[Run]:
    """List the runs of an experiment, seed by seed, so that an unfinished one has whole seeds.

    Examples
    --------
    >>> runs = planned(find("adult"))
    >>> len({run.identity for run in runs}) == len(runs)
    True
    """
    if seeds is None:
        seeds = (0,) if quick else experiment.seeds
    configurations = experiment.configurations(quick)
    return [run_of(experiment, each, seed) for seed in seeds for each in configurations]
