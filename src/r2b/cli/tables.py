"""Tables as the command line names them: opened where they lie, with roles, classes and numbers by class; and reports about them."""

from __future__ import annotations

import csv
import math
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import click
import numpy as np

from r2b import Continuous, Membership, Scan
from r2b._files import AtomicWriter, did_you_mean
from r2b._files.text import as_text
from r2b._labels.debiasing import request_and_settings
from r2b._labels.realised import Realised
from r2b._labels.task import MemoryTask
from r2b.cli.printing import spelled
from r2b.engines.batch import numbers_of
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.roles import refuse_columns
from r2b.errors import InputError, NotSolvedWarning, ParameterError

_PARTS = ("label", "label_columns", "sensitive", "continuous", "membership", "control", "weight")  # options of the command line


def open_table(
    data: str,
    reading: dict[str, Any],
    *,
    threads: int | None = None,
    watch: Callable[[int], object] | None = None,
) -> tuple[Scan, FileSource]:
    """Open a file, a folder, a pattern or standard input."""
    source = FileSource.open(data, threads=threads, **{**reading, "na": tuple(reading["na"]) or EMPTY})
    source = replace(source, watch=watch, spelled=True)  # numbers may be written as text in every format
    return Scan(source), source


@contextmanager
def on_lines(source: FileSource) -> Iterator[None]:
    """Let an error about a row say on which line of the file it is."""
    try:
        yield
    except InputError as error:
        row = error.facts.get("row")
        try:
            place = source.place(row) if isinstance(row, int) and row >= 0 else ""
        except (IndexError, InputError):
            place = ""
        line = re.search(r"\(line \d+\)", place)
        if line is None or "line" in error.problem:
            raise
        start = f"In {source.name}, row {row}:"
        if error.problem.startswith(start):
            problem = error.problem.replace(start, f"{start[:-1]} {line[0]}:", 1)
        else:
            problem = f"{error.problem} In {source.name}, row {row} is on {line[0][1:-1]}."
        raise type(error)(problem, remedy=error.remedy, **error.facts) from error


def columns_of(source: FileSource, given: dict[str, Any]) -> dict[str, Any]:
    """Take the options that name columns out of those given, find the columns, and give them as :meth:`r2b.Scan.debias` takes them.

    Raises
    ------
    ParameterError
        A column is not there, or is to be two things.
    """
    label, label_columns, sensitive, continuous, membership, control, weight = (given.pop(name) for name in _PARTS)
    names = source.names
    if (label is None) == (not label_columns):
        raise ParameterError(
            "There must be either a label or columns of probabilities.",
            remedy="Pass --label COLUMN for classes, or --label-columns COLUMNS for probabilities.",
        )
    if label is not None and label not in names and len(_split(label)) > 1 and all(name in names for name in _split(label)):
        raise ParameterError(f"--label names several columns: {label!r}.", remedy=f"For probabilities pass --label-columns {label!r}.")
    if not (sensitive or continuous or membership):
        raise ParameterError("No sensitive column is named.", remedy="Pass --sensitive COLUMN, or --continuous or --membership.")
    labels = (label,) if label is not None else named(names, label_columns, patterns=True)
    categories, numbers, controls = named(names, sensitive), named(names, continuous), named(names, control)
    members = [_membership(names, each) for each in membership]
    chosen = [("--label" if label is not None else "--label-columns", labels), ("--sensitive", categories), ("--continuous", numbers)]
    chosen += [("--membership", columns) for _, columns in members]
    chosen += [("--control", controls), ("--weight", () if weight is None else (weight,))]
    for option, columns in chosen:
        source.check(columns, option)
    refuse_columns(names, chosen, source.name)
    if label is None and len(labels) < 2:
        raise ParameterError(
            f"--label-columns names one column, {labels[0]!r}; probabilities need one for every class.",
            remedy="Name them all, or pass --label if its values are classes.",
        )
    attributes = [*categories, *map(Continuous, numbers), *(Membership(list(columns), name=name) for name, columns in members)]
    found: dict[str, Any] = {"label": label if label is not None else list(labels), "sensitive_features": attributes}
    return found | {"control_features": list(controls) or None, "sample_weight": weight}


def named(names: Sequence[str], given: Sequence[str], *, patterns: bool = False) -> tuple[str, ...]:
    """Find columns: a name as it stands, a list with commas, or a pattern where they are welcome."""
    found: list[str] = []
    for each in given:
        if each in names:
            found.append(each)
            continue
        for name in _split(each):
            matching = [known for known in names if fnmatchcase(known, name)] if patterns and name not in names else []
            found += matching or [name]
    return tuple(dict.fromkeys(found))


def named_in(given: Sequence[str]) -> list[str]:
    """Give the names in options that may each hold several, with commas.

    Examples
    --------
    >>> named_in(["sex,race", "age"])
    ['sex', 'race', 'age']
    """
    return [name for each in given for name in _split(each)]


def _split(text: str) -> list[str]:
    return [] if not text else next(csv.reader([text]), [text])


def _membership(names: Sequence[str], text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, columns = text.partition("=")
    if not name or not equals:
        raise ParameterError(f"--membership is {text!r}.", remedy="Pass a name and its columns, such as sex=p_f,p_m.", membership=text)
    return name, named(names, [columns], patterns=True)


def families_of(names: Sequence[str], choice: str | None, family: Sequence[str], default: str) -> str | list[list[str]]:
    """Read ``--families`` and ``--family``."""
    if choice is not None and family:
        raise ParameterError("Both --families and --family are given.", remedy="Pass one of them.")
    if not family:
        return choice or default
    return [[each] if each in names else _split(each) for each in family]


def per_class(what: str, given: Sequence[str], classes: Sequence[Any]) -> Any:
    """Read one number for all classes, or one per class; a plain number among them is for the classes not named.

    Examples
    --------
    >>> per_class("--epsilon", ["0.1", "a=0.2"], ["a", "b"])
    {'a': 0.2, 'b': 0.1}
    """
    by_name: dict[Any, float] = {}
    others: float | None = None
    known = {as_text([value], what)[0]: value for value in classes}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
            if math.isnan(value):
                raise ValueError
        except ValueError:
            raise ParameterError(f"{what} is {text!r}.", remedy="Pass a number such as 0.01, or class=number.", value=text) from None
        if "=" not in text:
            if others is not None:
                raise ParameterError(f"{what} gives two numbers for all classes.", remedy="Pass one; write class=number for one class.")
            others = value
            continue
        if name not in known:
            listed = ", ".join(map(repr, list(known)[:10]))
            remedy = did_you_mean(name, list(known)) or f"The classes are {listed}{', ...' if len(known) > 10 else ''}."
            raise ParameterError(f"{what} names {name!r}, which is not a class.", remedy=remedy, class_name=name)
        by_name[known[name]] = value
    if not by_name:
        return others
    return by_name if others is None else {value: by_name.get(value, others) for value in classes}


def target_of(given: Sequence[str], classes: Sequence[Any]) -> Any:
    """Read ``--target``: a word, or a share for each class."""
    if not given:
        return None
    return given[0] if len(given) == 1 and "=" not in given[0] else per_class("--target", given, classes)


def costs_of(path: str | None, classes: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Read a table of costs: its first column names the class that is left, the other columns the class that is taken.

    Raises
    ------
    InputError
        The table does not have every class once, as a row and as a column.
    """
    if path is None:
        return None
    source = FileSource.open(path)
    names = as_text(list(classes), "classes")
    first, *others = source.names
    table = source.columns(source.names)
    left = as_text(table[first], first)
    for found, where in ((others, "columns"), (left, "rows")):
        if sorted(found) != sorted(names):
            odd = next(iter(sorted(set(names) ^ set(found))), next((name for name in found if found.count(name) > 1), ""))
            raise InputError(
                f"The {where} of {source.name} are not the classes: {odd!r} is only in one of them, or there twice.",
                remedy=f"Name every class once as a row and as a column: {', '.join(map(repr, names[:10]))}.",
                path=path,
                value=odd,
            )
    order = [left.index(name) for name in names]
    by_column = [np.asarray(numbers_of(table[name], name).to_numpy(zero_copy_only=False), np.float64) for name in names]
    return np.column_stack(by_column)[order]


def check_reports(writer: AtomicWriter, html: str | None, markdown: str | None) -> None:
    """Refuse paths of reports before any work is done."""
    for path in (html, markdown):
        if path == "-":
            raise ParameterError("A report cannot go to standard output.", remedy="Pass the name of a file.", path=path)
        if path is not None:
            writer.check(path)


def write_reports(
    writer: AtomicWriter,
    paths: tuple[str | None, str | None],
    scan: Scan,
    columns: dict[str, Any],
    options: dict[str, Any],
    draws: dict[str, Any],
    leaving: tuple[str, Realised] | None = None,
) -> None:
    """Write the reports that are asked for: an audit, fair labels and what they cost.

    Parameters
    ----------
    writer : AtomicWriter
    paths : tuple of str or None
        Where HTML and Markdown go.
    scan : Scan
    columns, options : dict
        As :meth:`r2b.Scan.debias` takes them.
    draws : dict
        How chance is drawn, as :meth:`r2b.Scan.audit` takes it.
    leaving : tuple (str, Realised), optional
        The form in which labels left, and what holds for them.
    """
    if paths == (None, None):
        return
    from r2b import report
    from r2b.report.facts import SHARED

    roles, families = scan.chosen(**columns), options.get("families", "both")
    asked = {name: options[name] for name in SHARED if name in options}
    normalize = options.get("normalize", False)
    found = scan.audit(**columns, families="both" if isinstance(families, str) else families, normalize=normalize, **asked, **draws)
    request, settings = request_and_settings(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSolvedWarning)
        data = scan.rows_for_audit(roles, request, normalize=normalize, clustered=draws.get("clusters") is not None)
        task = MemoryTask.of(data, request, settings, options.get("costs"))
        facts = report.gathered(task, found, label_name=roles.stem, command=command_line(), options=options, draws=draws, leaving=leaving)
    for path, render in zip(paths, (report.to_html, report.to_markdown), strict=True):
        if path is not None:
            writer.write(path, render(facts).encode("utf-8"))


def command_line() -> str:
    """Give the command as it was typed, so that it can be typed again."""
    return spelled(shlex.join(["r2b", *click.get_current_context().obj]))
