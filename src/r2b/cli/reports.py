"""Reports beside what a command prints."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from r2b import Audit, Scan, report
from r2b._files import AtomicWriter
from r2b._labels.debiasing import request_and_settings
from r2b._labels.realised import Realised
from r2b._labels.task import MemoryTask
from r2b.cli.options import command_line
from r2b.engines.tables import roles_of
from r2b.errors import NotSolvedWarning
from r2b.report.facts import SHARED
from r2b.report.suppress import suppressed
from r2b.report.trace import files_of, mark_of, stamp


def write_reports(
    writer: AtomicWriter,
    paths: dict[str, str],
    scan: Scan,
    columns: dict[str, Any],
    options: dict[str, Any],
    draws: dict[str, Any],
    leaving: tuple[str, Realised] | None = None,
    made: Mapping[str, Any] | None = None,
    audited: Audit | None = None,
    suppress_below: int = 0,
) -> None:
    """Write the reports that are asked for: an audit, fair labels and what they cost.

    Parameters
    ----------
    writer : AtomicWriter
    paths : dict
        Where HTML and Markdown go, those that are asked for.
    scan : Scan
    columns, options : dict
        As :meth:`r2b.Scan.debias` takes them.
    draws : dict
        How chance is drawn, as :meth:`r2b.Scan.audit` takes it.
    leaving : tuple (str, Realised), optional
        The form in which labels left, one class per row, and what holds for them.
    made : mapping, optional
        Of labels that were made: ``form``, and ``output`` and ``verify`` as
        :func:`r2b.report.facts_of` takes them.
    audited : Audit, optional
        What :meth:`r2b.Scan.audit` gives for these columns, options and draws, where it is there
        already.
    suppress_below : int
        Figures of cells of fewer rows are left out.
    """
    roles, families = roles_of(scan.source, **columns), options.get("families", "both")
    asked = {name: options[name] for name in SHARED if name in options}
    normalize = options.get("normalize", False)
    chosen = "both" if isinstance(families, str) else families
    found = audited or scan.audit(**columns, families=chosen, normalize=normalize, **asked, **draws)
    request, settings = request_and_settings(options)
    data = found.data
    assert data is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSolvedWarning)
        task = MemoryTask.of(data, request, settings, options.get("costs"))
        made = made or {}
        trace = {
            "date": stamp(),
            "input": {
                **mark_of(data, None if roles.soft or not roles.categorical else "counts"),
                "files": _files(scan),
            },
        }
        trace |= {name: made[name] for name in ("output", "verify") if name in made}
        shown = {
            "label_name": roles.stem,
            "command": command_line(),
            "leaving": leaving,
            "form": made.get("form"),
            "trace": trace,
        }
        facts = suppressed(
            report.gathered(task, found, options=options, draws=draws, **shown),
            suppress_below,
            found,
        )
    for name, path in paths.items():
        render = report.to_html if name == "html" else report.to_markdown
        writer.write(path, render(facts).encode("utf-8"))


def _files(scan: Scan) -> list[dict[str, Any]]:
    """Give the checksums of the files of a table; what came through a pipe has none."""
    parts = getattr(getattr(scan.source, "listing", None), "parts", ())
    return files_of([part.path for part in parts if part.held is None])
