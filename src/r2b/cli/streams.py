"""Tables that are read part by part: which are, what that leaves out, and how they are opened."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from r2b._constraints.families import Request
from r2b._files import Table
from r2b._files.formats import Format, format_named, format_of
from r2b._files.reading import STANDARD
from r2b.cli.selection import EMPTY, Selection
from r2b.engines.files import FileSource
from r2b.engines.tables import Scan
from r2b.errors import ParameterError, RowsUnavailableError

LARGE = 64 << 20
_WHOLE = "Leave it out, or read one file into memory with --no-stream."


def streams(data: str, stream: bool | None, format_: str | None, given: Mapping[str, Any]) -> bool:
    """Decide whether a table is read part by part.

    Parameters
    ----------
    data : str
    stream : bool or None
        What the user says; None to decide by the size.
    format_ : str or None
    given : mapping
        Options; those that need the whole table decide where the user does not.

    Raises
    ------
    ParameterError
        It must be read part by part, or is to be, and something asked for cannot be had that way.
    """
    several = data != STANDARD and (os.path.isdir(data) or (not os.path.exists(data) and glob.has_magic(data)))
    if several and stream is False:
        raise ParameterError(f"{data} is several files, which are read part by part.", remedy="Leave out --no-stream, or name one file.")
    reason = _needs_memory(data, format_, given)
    if several or stream:
        if reason is not None:
            raise ParameterError(f"{reason}, which is not done part by part.", remedy=_WHOLE, path=data)
        return True
    if stream is False or reason is not None or find_spec("pyarrow") is None:
        return False
    return data != STANDARD and os.path.isfile(data) and os.path.getsize(data) >= LARGE


def _needs_memory(data: str, format_: str | None, given: Mapping[str, Any]) -> str | None:
    """Say what needs the whole table in memory, if anything does."""
    if data == STANDARD:
        return "The data are standard input"
    shape = None if os.path.isdir(data) else format_named(format_) if format_ else format_of(data)
    if shape is not None and (shape.kind == "jsonl" or (not shape.is_text and shape.compression)):
        return f"The format is {shape}"
    for option in ("continuous", "membership", "clusters"):
        if given.get(option):
            return f"--{option} is given"
    soft = bool(given.get("label_columns"))
    if soft and given.get("normalized"):
        return "--normalize is given for an audit"
    if soft and (given.get("html") or given.get("markdown")):
        return "A report on probabilities is asked for"
    if soft and given.get("costs"):
        return "--costs is given for probabilities"
    if given.get("output") == STANDARD:
        return "The output is standard output"
    if given.get("merge_rows") == "never":
        return "--merge-rows never is given"
    return None


@dataclass(eq=False)
class StreamedTable(Table):
    """The names of a table that is not in memory, for what only asks for names."""

    name: str
    format: Format
    names: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """None are here."""
        return 0

    def columns(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Refuse: columns are read part by part."""
        raise self._elsewhere()

    def encoded(self, new: Mapping[str, Sequence[Any]], rows: Sequence[int] | None = None) -> bytes:
        """Refuse: files are written part by part."""
        raise self._elsewhere()

    def _elsewhere(self) -> RowsUnavailableError:
        return RowsUnavailableError(f"The rows of {self.name} are not in memory.", remedy="Pass --no-stream to read them into it.")


def open_stream(
    data: str,
    *,
    format_: str | None,
    encoding: str,
    delimiter: str | None,
    na: Sequence[str] = (),
    threads: int | None = None,
    watch: Callable[[int], object] | None = None,
) -> tuple[FileSource, StreamedTable]:
    """Open files that are read part by part, and the table of their names."""
    source = FileSource.open(data, format_, delimiter, na=tuple(na) or EMPTY, encoding=encoding, threads=threads)
    source = replace(source, watch=watch, spelled=True)  # as in memory, where text is read as numbers in every format
    return source, StreamedTable(source.name, source.listing.format, source.names)


def columns_of(selection: Selection) -> dict[str, Any]:
    """Give the columns as :meth:`r2b.engines.Scan.debias` takes them."""
    found: dict[str, Any] = {
        "label": selection.label if selection.label is not None else list(selection.label_columns),
        "sensitive_features": list(selection.sensitive),
        "sample_weight": selection.weight,
    }
    return found | ({"control_features": list(selection.control)} if selection.control else {})


def classes_in(scan: Scan, selection: Selection, missing: Any) -> list[Any]:
    """Give the classes of a table; class labels are counted for it, which the solve then need not do again."""
    columns = columns_of(selection)
    choice = scan.chosen(columns["label"], columns["sensitive_features"], columns.get("control_features"), columns["sample_weight"])
    if choice.soft:
        return list(scan.classes(choice).values.tolist())
    return list(scan.counted(choice, Request(missing=missing)).labels.vocabulary.values.tolist())
