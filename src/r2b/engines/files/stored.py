"""One file of a table: its columns, and its rows a piece at a time. Reading never holds more than a few pieces."""

from __future__ import annotations

import importlib
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from r2b._files.arrow import first_line, pyarrow
from r2b._files.compression import opened, refuse_growth
from r2b._files.formats import Format
from r2b.engines.batch import Batch, plain_type, same_values
from r2b.engines.files.listing import Part, copied
from r2b.engines.source import Relabel
from r2b.errors import DamagedFileError, InputError

PIECE_ROWS = 1 << 20
PIECE_ENTRIES = 1 << 22  # numbers of a piece where its columns hold lists


@dataclass(frozen=True, eq=False)
class ReadJob:
    """Some rows that are still to be read.

    Attributes
    ----------
    n_rows : int
    read : callable
        Reads them; it may be called in any thread. Of delimited text, ``spelled=True`` leaves text that means missing as it is.
    chunk : Chunk or None
        Their bytes, where the file is text.
    """

    n_rows: int
    read: Callable[..., list[Batch]]
    chunk: Any = None


class Stored(ABC):
    """A file of rows.

    Attributes
    ----------
    part : Part
    schema : pyarrow.Schema
        Of the file alone, without what its folders say.
    n_rows : int or None
        None where only reading tells.
    n_bytes : int
    """

    part: Part
    schema: Any
    n_rows: int | None
    n_bytes: int

    @abstractmethod
    def jobs(self, columns: Sequence[str] | None, first: int, *, coded: Collection[str], rows: int) -> Iterator[ReadJob]:
        """Give what reads the file, piece by piece in order.

        Parameters
        ----------
        columns : sequence of str or None
            Of this file, each of a name of its own; may be empty. None for all columns, as they stand.
        first : int
            Number of its first row in the table.
        coded : collection of str
            Columns whose text may come as a dictionary.
        rows : int
            Most rows of a batch.
        """

    def seen(self) -> tuple[int, int]:
        """Give size and time of change."""
        found = os.stat(self.part.path)
        return found.st_size, found.st_mtime_ns


def open_stored(part: Part, shape: Format, delimiter: str | None, na: Sequence[str], encoding: str, scratch: str | None) -> Stored:
    """Open a file of any format; a compressed one that is no text is unpacked to a scratch file first.

    Raises
    ------
    InputError
        It is damaged.
    FileTooLargeError
        It grows beyond the limit of :mod:`r2b._files.compression`.
    """
    made: Stored
    if not shape.is_text and shape.compression:
        size = os.path.getsize(part.path)
        with reading(part), opened(part.path, shape.compression) as file:
            part = copied(part, file.read, scratch, lambda total: refuse_growth(part.name, size, total))
    if shape.kind == "parquet":
        from r2b.engines.files.typed import ParquetStored

        made = ParquetStored(part)
    elif shape.kind == "arrow":
        from r2b.engines.files.typed import ArrowStored

        made = ArrowStored(part)
    elif shape.kind == "jsonl":
        from r2b.engines.files.jsonl import JsonStored

        made = JsonStored(part, shape, encoding)
    else:
        from r2b.engines.files.delimited import DelimitedStored

        made = DelimitedStored(part, shape, delimiter, na, encoding)
    with reading(part):
        list(made.schema.names)  # text too, and read only when it is asked for
    return made


@contextmanager
def reading(part: Part, place: str = "") -> Iterator[None]:
    """Turn what goes wrong with a file into an error that names it."""
    try:
        yield
    except _faults() as cause:
        where = f"{part.name}{f', {place}' if place else ''}"
        raise DamagedFileError(
            f"{where} cannot be read: {first_line(cause)}.",
            remedy="Check that the file is whole; write it again where it is not.",
            path=part.path,
            place=where,
        ) from cause


def _faults() -> tuple[type[Exception], ...]:
    """Give what damaged files raise: each library has errors of its own for the same fault."""
    return pyarrow().ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error, importlib.import_module("lzma").LZMAError


def piece_rows(schema: Any, columns: Sequence[str] | None) -> int:
    """Give how many rows of these columns may be held at once: fewer where they hold lists."""
    arrow = pyarrow()
    width = 0
    for kind in [column.type for column in schema if columns is None or column.name in columns]:
        width += int(kind.list_size) if arrow.types.is_fixed_size_list(kind) else 16 if arrow.types.is_nested(kind) else 1
    return max(1024, min(PIECE_ROWS, PIECE_ENTRIES // max(width, 1)))


def rows_at_once(relabel: Relabel) -> int:
    """Give how many rows may get new labels at once: fewer where each gets a number per class."""
    wide = relabel.form in ("soft", "expand") or relabel.decode.roles.soft or (relabel.form == "round" and relabel.borders is None)
    return max(1024, PIECE_ENTRIES // len(relabel.decode.schema.classes)) if wide else PIECE_ROWS


def refuse_other_columns(files: Sequence[Stored], shape: Format) -> None:
    """Refuse files whose columns are not those of the first; text may be laid out in any way, such as codes in one file only.

    Raises
    ------
    InputError
        Names the column, both files and, where it has one in both, its types.
    """
    first = files[0]
    mine = {each.name: each.type for each in first.schema}
    one = first.part.name
    for other in files:
        two, others = other.part.name, {each.name: each.type for each in other.schema}
        for name in [*mine, *others]:
            if name not in others:
                problem = f"{two} has no column {name!r}, which {one} has."
            elif name not in mine:
                problem = f"{two} has a column {name!r}, which {one} has not."
            elif not same_values(mine[name], others[name]):
                problem = f"The column {name!r} holds {mine[name]} in {one} and {others[name]} in {two}."
            else:
                continue
            raise InputError(problem, remedy=_remedy(shape), column=name, path=other.part.path, first=first.part.path)


def _remedy(shape: Format) -> str:
    remedy = "Give all files the same columns, or read those that belong together"
    if shape.kind == "arrow":
        return f"{remedy}."
    reader = "read_csv" if shape.is_text else "read_parquet"
    return f"{remedy}; or let DuckDB make one table of them, and scan its relation: FROM {reader}('...', union_by_name=true)."


def uneven_columns(files: Sequence[Stored]) -> dict[str, Any]:
    """Give the columns that files lay out in different ways, and the type that all of them can have."""
    arrow, names = pyarrow(), files[0].schema.names
    found: dict[str, Any] = {}
    for column in [each for each in files[0].schema if names.count(each.name) == 1]:
        if len({file.schema.field(column.name).type for file in files}) > 1:
            kind = plain_type(column.type)
            found[column.name] = arrow.large_string() if "string" in str(kind) else arrow.large_binary() if "binary" in str(kind) else kind
    return found


def evened(batch: Batch, kinds: Mapping[str, Any]) -> Batch:
    """Give a batch with some columns in these types, so that batches of all files are alike."""
    if not kinds:
        return batch
    arrow = pyarrow()
    columns = []
    for name, column in zip(batch.record.schema.names, batch.record.columns, strict=True):
        plain = column.dictionary_decode() if name in kinds and hasattr(column, "dictionary") else column
        columns.append(plain.cast(kinds[name]) if name in kinds else column)
    fields = [field.with_type(column.type) for field, column in zip(batch.record.schema, columns, strict=True)]
    return replace(batch, record=arrow.RecordBatch.from_arrays(columns, schema=arrow.schema(fields, batch.record.schema.metadata)))
