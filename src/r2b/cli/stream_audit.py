"""``r2b audit`` of tables that are read part by part."""

from __future__ import annotations

from typing import Any

from r2b._audit import Audit
from r2b._files import AtomicWriter
from r2b.cli.meter import RowMeter
from r2b.cli.reporting import check_reports
from r2b.cli.selection import Selection, families_of
from r2b.cli.stream_reports import refuse_soft_report, write_stream_reports
from r2b.cli.streams import columns_of, open_stream
from r2b.engines.files.writing import kept_files
from r2b.engines.tables import Scan

_DRAWS = ("n_permutations", "n_boot", "level", "random_state")


def audit_stream(
    data: str,
    html: str | None,
    markdown: str | None,
    reading: dict[str, Any],
    asked: dict[str, Any],
    given: dict[str, Any],
    *,
    force: bool,
    quiet: bool,
) -> tuple[Audit, str]:
    """Audit files, write the reports that are asked for, and give what was found and the name of the table."""
    epsilon, draws = asked.pop("epsilon"), {name: asked[name] for name in _DRAWS}
    with AtomicWriter(force=force) as writer, RowMeter(quiet=quiet) as meter:
        source, table = open_stream(data, **reading, na=given["na"], watch=meter)
        writer.keep = kept_files(source)
        check_reports(writer, html, markdown)
        selection = Selection.of(table, **given)
        columns, scan = columns_of(selection), Scan(source)
        refuse_soft_report(scan, columns, html, markdown)
        asked["families"] = families_of(table, asked.pop("families"), asked.pop("family"), "both")
        found = scan.audit(**columns, **asked)
        options = {name: value for name, value in asked.items() if name not in (*_DRAWS, "n_largest")} | {"epsilon": epsilon}
        write_stream_reports(writer, html, markdown, scan=scan, columns=columns, label=selection.stem, options=options, draws=draws)
        writer.commit()
    return found, source.name
