"""JSON Lines part by part: one object per line; an object without a key has no value there.

pyarrow's reader is not used: it would turn some text into times, and take a key that comes twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, as_text
from r2b._files.text import members, parse_object
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import (
    Chunk,
    TextStored,
    Wanted,
    column_texts,
    no_columns,
    repeated_rows,
)
from r2b.engines.source import NewColumns
from r2b.errors import EmptyError, MixedTypeError

Record = dict[str, Any]


class JsonStored(TextStored):
    """A file with one object per line. It is read once to know its keys and their types.

    Parameters
    ----------
    part : Part
    format : Format
    encoding : str

    Attributes
    ----------
    newline : bytes
        The end of its first line.
    mixed : frozenset of str
        Keys whose values are of types that no column can hold together.
    """

    def __init__(self, part: Part, format: Format, encoding: str) -> None:
        super().__init__(part, format, encoding)
        self.newline = b"\r\n" if self.start().partition("\n")[0].endswith("\r") else b"\n"
        arrow = pyarrow()
        kinds: dict[str, Any] = {}
        n_rows = 0
        for chunk in self.chunks():
            records = self._records(chunk)
            for name in dict.fromkeys(key for record in records for key in record):
                found = _type_of([record.get(name) for record in records])
                kinds[name] = _common_type(kinds[name], found) if name in kinds else found
            n_rows += len(records)
        if not n_rows:
            remedy = "Pass a file with one object per line."
            raise EmptyError(f"{part.name} has no rows.", remedy=remedy, path=part.path)
        self.n_rows = n_rows
        self.mixed = frozenset(name for name, kind in kinds.items() if kind is None)
        text = arrow.string()
        self.schema = arrow.schema(
            [(name, text if kind in (None, arrow.null()) else kind) for name, kind in kinds.items()]
        )

    def parsed(self, chunk: Chunk, wanted: Wanted, *, spelled: bool) -> Any:
        """Parse a chunk."""
        arrow, records, columns = pyarrow(), self._records(chunk), wanted.columns
        for name in self.mixed.intersection(columns or ()):
            raise MixedTypeError(
                f"The key {name!r} of {self.part.name} holds values of several types, or numbers "
                "of more than 64 bits.",
                remedy="Write all of them as numbers, or all as text.",
                column=name,
                path=self.part.path,
            )
        names = self.schema.names if columns is None else list(columns)
        arrays = []
        for name in names:
            values: list[Any] = [record.get(name) for record in records]
            values = as_text(values, name) if name in self.mixed else values
            arrays.append(arrow.array(values, self.schema.field(name).type))
        if not names:
            return no_columns(len(records))
        return arrow.RecordBatch.from_arrays(arrays, names)

    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Return the objects of a chunk with new keys at the end of each."""
        begins = [line.strip()[:-1].rstrip() for line in chunk.raw.split(b"\n")[: chunk.n_records]]
        order = repeated_rows(made)
        if order is not None:
            begins = [begins[row] for row in order]
        return b"".join(
            b"".join((begin, b"" if begin.endswith(b"{") else b", ", tail, b"}", self.newline))
            for begin, tail in zip(begins, column_texts(made, members), strict=True)
        )

    def _records(self, chunk: Chunk) -> list[Record]:
        try:
            text = chunk.raw.decode()
        except UnicodeDecodeError as cause:
            raise self._fault(chunk, cause) from cause
        found = []
        for number, line in enumerate(text.split("\n")[: chunk.n_records], chunk.line):
            if not line.strip():
                raise self._blank(number)
            found.append(parse_object(line.strip(), self.part.name, number))
        return found


def _type_of(values: list[Any]) -> Any:
    """Return the Arrow type of some values; None where no type holds them all."""
    arrow = pyarrow()
    try:
        return arrow.array(values).type
    except (arrow.ArrowException, OverflowError):
        return None


def _common_type(one: Any, other: Any) -> Any:
    """Return the type that holds the values of two; None where there is none."""
    arrow = pyarrow()
    if one is None or other is None:
        return None
    try:
        schemas = [arrow.schema([("", kind)]) for kind in (one, other)]
        return arrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except arrow.ArrowException:
        return None
