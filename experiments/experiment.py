"""What an experiment is to the runner: a list of configurations, and a pure function from one of them and a seed to one row.

How a new experiment plugs in
-----------------------------
1. Write a module in this folder that ends in ``EXPERIMENT = Experiment(name=..., ...)``.
2. Add its name and module to ``MODULES`` in ``experiments/__init__.py``.

That is all: the command, the runner, the results file, and its tables and figures follow.

- ``configurations(quick)`` lists configurations: flat dictionaries of text, numbers, True/False and None. They become columns of the
  results.
- ``run(configuration, seed, data)`` computes one row, a flat dictionary of numbers and text under other names than the configuration's. It
  must depend on nothing but its arguments (``data`` is the folder or file that the user named, or
  None), and sit at the top level of its module so that processes can find it. It may return
  None-valued entries for measures that do not apply.
- ``together(configuration, seed)`` names what a run shares with others, a data set or a neighbour search. Runs of one name are done one
  after another by one process, so a small ``functools.lru_cache`` in the module is all that sharing
  takes. Without it every run stands alone.
- ``section(rows)`` writes the tables of ``results/NAME.md`` from result rows alone; ``figures(rows)`` gives what its pictures show, by file
  stem. Both need every row of the full setting.
- ``revision`` is part of a row's identity: raise it when ``run`` changes what it computes, and old rows are not taken for new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2b.errors import ParameterError

if TYPE_CHECKING:
    from experiments.figures import Picture

Configuration = dict[str, Any]
Row = dict[str, Any]

# What the runner itself writes into a row, beside configuration and measures.
IDENTITY = "run"
OWN_COLUMNS = (IDENTITY, "experiment", "revision", "seed", "configuration", "versions", "seconds")


def _nothing(rows: Sequence[Row]) -> dict[str, Picture]:
    return {}


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper; see the module for how its parts are used.

    Attributes
    ----------
    name : str
    title : str
        Heading of its section.
    configurations : callable
        ``quick -> list of configurations``.
    run : callable
        ``configuration, seed, data -> measures``.
    section : callable
        ``rows -> Markdown``, without the heading.
    figures : callable
        ``rows -> {file stem: Picture}``.
    together : callable, optional
        ``configuration, seed -> what the run shares with others``.
    seeds, quick_seeds : tuple of int
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
    figures: Callable[[Sequence[Row]], dict[str, Picture]] = _nothing
    together: Callable[[Configuration, int], Hashable] | None = None
    seeds: tuple[int, ...] = tuple(range(10))
    quick_seeds: tuple[int, ...] = (0,)
    revision: int = 1
    needs_data: bool = False


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
    taken = sorted(set(configuration) & set(OWN_COLUMNS))
    nested = [
        name
        for name, value in configuration.items()
        if not isinstance(value, str | int | float | bool | None)
    ]
    if taken or nested:
        problem = (
            f"The configuration of {experiment.name!r} has {', '.join(map(repr, taken or nested))}."
        )
        remedy = (
            "Rename it: the runner has such a column."
            if taken
            else "Use text, numbers, True, False or None."
        )
        raise ParameterError(
            problem, remedy=remedy, experiment=experiment.name, names=taken or nested
        )
    return Run(
        experiment.name, experiment.revision, json.dumps(configuration, sort_keys=True), int(seed)
    )


def planned(
    experiment: Experiment, *, quick: bool = False, seeds: Sequence[int] | None = None
) -> list[Run]:
    """List the runs of an experiment, seed by seed, so that an unfinished one has whole seeds.

    Examples
    --------
    >>> from experiments import find
    >>> runs = planned(find("adult"))
    >>> len({run.identity for run in runs}) == len(runs)
    True
    """
    chosen = (
        tuple(seeds)
        if seeds is not None
        else (experiment.quick_seeds if quick else experiment.seeds)
    )
    configurations = experiment.configurations(quick)
    return [
        run_of(experiment, configuration, seed)
        for seed in chosen
        for configuration in configurations
    ]
