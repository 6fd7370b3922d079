"""Where rows are kept: a journal while a run goes on, then one Parquet file. None are lost.

A line is on disk before the next run is reported. A process killed while it writes leaves half a
line at the end, which the next reader cuts off: its run was not finished. The Parquet file is
replaced whole, never written in place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from experiments.experiment import IDENTITY, OWN_COLUMNS, Row
from r2b.errors import FileFormatError, require


def results_path(output: Path, name: str) -> Path:
    """Name the results file of an experiment."""
    return output / f"{name}.parquet"


def journal_path(output: Path, name: str) -> Path:
    """Name the journal of an experiment, which exists while rows are missing from results."""
    return output / f"{name}.journal.jsonl"


def append(path: Path, row: Row) -> None:
    """Add one row to a journal and wait until the disk has it."""
    with path.open("ab") as stream:
        stream.write(json.dumps(row, sort_keys=True).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_journal(path: Path) -> list[Row]:
    """Read the rows of a journal, and cut off half a line at its end."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as stream:
            stream.truncate(whole)
    rows = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            problem = f"Line {number} of {path.name} is not JSON."
            raise FileFormatError(
                problem, remedy="Remove that line; its run is then done again.", line=number
            ) from error
    return rows


def read_results(path: Path) -> list[Row]:
    """Read the rows of a results file, in its order; measures that a row does not have are None.

    Raises
    ------
    FileFormatError
        The file has no column of run identities.
    """
    parquet = require("pyarrow.parquet", "A results file needs pyarrow", extra="frames")
    table = parquet.read_table(path)
    missing = [name for name in OWN_COLUMNS if name not in table.column_names]
    if missing:
        problem = f"{path.name} has no column {missing[0]!r}."
        raise FileFormatError(
            problem, remedy="Name a file that experiments wrote.", columns=table.column_names
        )
    rows: list[Row] = table.to_pylist()
    return rows


def finished(output: Path, name: str) -> dict[str, Row]:
    """Return all finished rows by identity, from results and an interrupted run's journal."""
    path = results_path(output, name)
    rows = [
        *(read_results(path) if path.exists() else []),
        *read_journal(journal_path(output, name)),
    ]
    return {row[IDENTITY]: row for row in rows}


def settle(output: Path, name: str, rows: Iterable[Row]) -> None:
    """Write the results file and, once it stands, drop the journal.

    The runner's columns come first, then the others in the order in which they turn up.
    """
    parquet = require("pyarrow.parquet", "A results file needs pyarrow", extra="frames")
    import pyarrow

    listed = list(rows)
    names = dict.fromkeys([*OWN_COLUMNS, *(name for row in listed for name in row)])
    table = pyarrow.table({name: [row.get(name) for row in listed] for name in names})
    path = results_path(output, name)
    part = path.with_suffix(".part")
    parquet.write_table(table, part, compression="zstd")
    part.replace(path)
    journal_path(output, name).unlink(missing_ok=True)
