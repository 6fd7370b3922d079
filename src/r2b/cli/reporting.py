"""Reports beside the result of a command, written by the room that knows how."""

from __future__ import annotations

import importlib
import shlex
from typing import Any

import click

from r2b._files import AtomicWriter
from r2b._labels.realised import Realised
from r2b.cli.speaking import spelled
from r2b.errors import MissingExtraError, ParameterError


def room(name: str, what: str) -> Any:
    """Import a room when a command needs it.

    Raises
    ------
    MissingExtraError
        It, or a library that it needs, is not installed.
    """
    try:
        return importlib.import_module(f"r2b.{name}")
    except ImportError as cause:
        lacking = cause.name or str(cause)
        remedy = (
            f"Install what it needs with: pip install 'r2b[{name}]'." if not lacking.startswith("r2b") else "Install a release that has it."
        )
        raise MissingExtraError(f"{what} needs {lacking!r}, which is not there.", remedy=remedy, library=lacking) from cause


def check_reports(writer: AtomicWriter, html: str | None, markdown: str | None) -> None:
    """Refuse paths of reports before any work is done."""
    for path in (html, markdown):
        if path == "-":
            raise ParameterError("A report cannot go to standard output.", remedy="Pass the name of a file.", path=path)
        if path is not None:
            writer.check(path)


def write_reports(
    writer: AtomicWriter,
    html: str | None,
    markdown: str | None,
    *,
    arguments: dict[str, Any],
    label: str,
    options: dict[str, Any],
    draws: dict[str, Any],
    leaving: tuple[str, Realised] | None = None,
) -> None:
    """Write the reports that are asked for."""
    if html is None and markdown is None:
        return
    report = room("report", "A report")
    facts = report.gather(**arguments, **options, **draws, label_name=label, command=command_line(), leaving=leaving)
    for path, render in ((html, "to_html"), (markdown, "to_markdown")):
        if path is not None:
            writer.write(path, getattr(report, render)(facts).encode("utf-8"))


def command_line() -> str:
    """Give the command as it was typed, so that it can be typed again."""
    return spelled(shlex.join(["r2b", *click.get_current_context().obj]))
