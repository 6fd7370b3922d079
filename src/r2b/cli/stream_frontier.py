"""``r2b frontier`` of tables that are read part by part."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from r2b._audit.tradeoff import Frontier
from r2b._files import AtomicWriter
from r2b.cli.meter import RowMeter
from r2b.cli.numbers import costs_of, target_of
from r2b.cli.selection import Selection, families_of
from r2b.cli.streams import classes_in, columns_of, open_stream
from r2b.engines.files.writing import kept_files
from r2b.engines.tables import Scan
from r2b.errors import NotSolvedWarning


def frontier_stream(
    writer: AtomicWriter,
    data: str,
    path: int | Sequence[float],
    reading: dict[str, Any],
    columns: dict[str, Any],
    asked: dict[str, Any],
    given: dict[str, Any],
    *,
    quiet: bool,
) -> tuple[Frontier, str]:
    """Solve along a path of epsilons; give what was found and what the table is called.

    Parameters
    ----------
    writer : AtomicWriter
        Told which files not to overwrite.
    data : str
    path : int or sequence of float
    reading : dict
        Format, encoding and delimiter.
    columns : dict
        What the options name, as :meth:`Selection.of` takes it.
    asked : dict
        ``families``, ``family``, ``target`` and ``costs`` as texts of the command line.
    given : dict
        Options of the solve.
    quiet : bool
    """
    with RowMeter(quiet=quiet) as meter:
        source, table = open_stream(data, **reading, na=columns["na"], threads=given["threads"], watch=meter)
        writer.keep = (*writer.keep, *kept_files(source))
        selection = Selection.of(table, **columns)
        scan = Scan(source)
        classes = classes_in(scan, selection, given["missing"])
        given.pop("merge_rows")
        given |= {"families": families_of(table, asked["families"], asked["family"], "crossed")}
        given |= {"target": target_of(asked["target"], classes), "costs": costs_of(asked["costs"], classes)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotSolvedWarning)  # the points say it, and the exit code
            return scan.frontier(**columns_of(selection), epsilons=path, **given), source.name
