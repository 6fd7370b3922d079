"""Doubtful data, told on standard error: the library's warnings about groups and classes, each once, in words of the command line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from r2b.cli.speaking import folded, spoken
from r2b.errors import DataWarning

_WORDS = {
    "Pass it as r2b.Continuous(column)": "Pass it with --continuous",
    "make it missing and pass": "make it missing with --na, and pass",
}


@contextmanager
def told_doubts(*, quiet: bool) -> Iterator[None]:
    """Print warnings about the data as notes while a command runs; whatever Python was told to do with warnings, they stop nothing.

    Parameters
    ----------
    quiet : bool
        Print none.
    """
    told: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **further: Any) -> None:
            if not isinstance(message, DataWarning):
                usual(message, category, *where, **further)
            elif not quiet and str(message) not in told:
                told.add(str(message))
                problem, remedy = spoken(message)
                for ours, theirs in _WORDS.items():
                    remedy = remedy.replace(ours, theirs)
                click.echo(folded(f"Note: {problem} {remedy}", sys.stderr), err=True)

        warnings.showwarning = show
        warnings.simplefilter("always", DataWarning)
        yield
