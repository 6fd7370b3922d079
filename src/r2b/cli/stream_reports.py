"""Reports on class labels that are read part by part: everything in them follows from counts."""

from __future__ import annotations

import warnings
from typing import Any

from r2b._constraints.families import Request
from r2b._files import AtomicWriter
from r2b._labels.options import request_and_settings
from r2b._labels.realised import Realised
from r2b._labels.task import MemoryTask
from r2b.cli.reporting import command_line, room
from r2b.engines.roles import ColumnRoles
from r2b.engines.tables import Scan
from r2b.errors import NotSolvedWarning, ParameterError

_LEFT_OUT = "A report on probabilities is asked for, which is not made part by part."
_SHARED = ("missing", "min_group_size", "small_groups", "absent")


def refuse_soft_report(scan: Scan, columns: dict[str, Any], html: str | None, markdown: str | None) -> None:
    """Refuse a report on probabilities before any work is done: it looks at rows more than once.

    Raises
    ------
    ParameterError
    """
    if (html is not None or markdown is not None) and chosen(scan, columns).soft:
        raise ParameterError(_LEFT_OUT, remedy="Leave it out, or read one file into memory with --no-stream.")


def chosen(scan: Scan, columns: dict[str, Any]) -> ColumnRoles:
    """Settle what the columns of a table are."""
    return scan.chosen(columns["label"], columns["sensitive_features"], columns.get("control_features"), columns["sample_weight"])


def write_stream_reports(
    writer: AtomicWriter,
    html: str | None,
    markdown: str | None,
    *,
    scan: Scan,
    columns: dict[str, Any],
    label: str,
    options: dict[str, Any],
    draws: dict[str, Any],
    leaving: tuple[str, Realised] | None = None,
) -> None:
    """Write the reports that are asked for; arguments as for ``write_reports``, with a scan instead of columns."""
    if html is None and markdown is None:
        return
    report = room("report", "A report")
    choice, families = chosen(scan, columns), options.get("families", "both")
    asked = {name: options[name] for name in _SHARED if name in options}
    found = scan.audit(**columns, families="both" if isinstance(families, str) else families, **asked, **draws)
    request, settings = request_and_settings(options)
    counted = scan.counted(choice, Request(missing=request.missing), apart=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSolvedWarning)
        job = MemoryTask.of(counted, request, settings, options.get("costs"))
        facts = report.gathered(job, found, label_name=label, command=command_line(), options=options, draws=draws, leaving=leaving)
    for path, render in ((html, "to_html"), (markdown, "to_markdown")):
        if path is not None:
            writer.write(path, getattr(report, render)(facts).encode("utf-8"))
