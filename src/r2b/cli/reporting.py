"""Reports beside the result of a command."""

from __future__ import annotations

import shlex
import warnings
from typing import Any

import click

from r2b import Scan, report
from r2b._files import AtomicWriter
from r2b._labels.options import request_and_settings
from r2b._labels.realised import Realised
from r2b._labels.task import MemoryTask
from r2b.cli.printing import spelled
from r2b.errors import NotSolvedWarning, ParameterError

_SHARED = ("missing", "min_group_size", "small_groups", "absent")


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
    roles, families = scan.chosen(**columns), options.get("families", "both")
    asked = {name: options[name] for name in _SHARED if name in options}
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
