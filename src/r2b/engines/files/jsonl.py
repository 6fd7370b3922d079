"""JSON Lines part by part: one object per line; an object without a key has no value there.

pyarrow's reader is not used: it would turn some text into times, and take a key that comes twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.formats import as_text
from r2b._files.text import objects_of, parse_object
from r2b.engines.files.lines import Chunk, TextStored
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import ReadOptions, Wanted, no_columns
from r2b.errors import EmptyError, MixedTypeError


class JsonStored(TextStored):
    """A file with one object per line. It is read once to know its keys and their types.

    Parameters
    ----------
    part : Part
    options : ReadOptions

    Attributes
    ----------
    mixed : frozenset of str
        Keys whose values are of types that no column can hold together.
    """

    def __init__(self, part: Part, options: ReadOptions) -> None:
        super().__init__(part, options)
        if self.start().partition("\n")[0].endswith("\r"):
            self.newline = b"\r\n"
        arrow = pyarrow()
        kinds: dict[str, Any] = {}
        self.n_rows = 0
        for chunk in self.chunks():
            records = self._objects(chunk)
            for name in dict.fromkeys(key for record in records for key in record):
                values = [record.get(name) for record in records]
                kinds[name] = _common_type(kinds.get(name, arrow.null()), values)
            self.n_rows += len(records)
        if not self.n_rows:
            remedy = "Pass a file with one object per line."
            raise EmptyError(f"{part.name} has no rows.", remedy=remedy, path=part.path)
        self.mixed = frozenset(name for name, kind in kinds.items() if kind is None)
        text = arrow.string()
        self.schema = arrow.schema(
            [(name, text if kind in (None, arrow.null()) else kind) for name, kind in kinds.items()]
        )

    def texts(self, columns: Mapping[str, Any]) -> list[str]:
        """Return objects of new columns, row by row."""
        return objects_of(columns)

    def joined(self, record: bytes, new: bytes) -> bytes:
        """Put new keys at the end of an object."""
        begin = record.strip()[:-1].rstrip()
        return begin + (b"" if begin.endswith(b"{") else b", ") + new[1:]

    def parsed(self, chunk: Chunk, wanted: Wanted, *, spelled: bool) -> Any:
        """Parse a chunk."""
        arrow, records, columns = pyarrow(), self._objects(chunk), wanted.columns
        for name in self.mixed.intersection(columns or ()):
            raise MixedTypeError(
                f"The key {name!r} of {self.part.name} holds values of several types, or numbers "
                "of more than 64 bits.",
                remedy="Write all of them as numbers, or all as text.",
                column=name,
                path=self.part.path,
            )
        names = self.schema.names if columns is None else columns
        arrays = []
        for name in names:
            values: list[Any] = [record.get(name) for record in records]
            values = as_text(values, name) if name in self.mixed else values
            arrays.append(arrow.array(values, self.schema.field(name).type))
        if not names:
            return no_columns(len(records))
        return arrow.RecordBatch.from_arrays(arrays, names)

    def _objects(self, chunk: Chunk) -> list[dict[str, Any]]:
        found = []
        for number, record in enumerate(chunk.records(), chunk.first + 1):
            text = record.decode().strip()
            if not text:
                problem = f"Line {number} of {self.part.name} is blank."
                raise self._wrong(number, problem, "Remove it.")
            found.append(parse_object(text, self.part.name, number))
        return found


def _common_type(kind: Any, values: list[Any]) -> Any:
    """Return the type that holds the values of a type and others; None where there is none."""
    arrow = pyarrow()
    if kind is None:
        return None
    try:
        schemas = [arrow.schema([("", each)]) for each in (kind, arrow.array(values).type)]
        return arrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (arrow.ArrowException, OverflowError):
        return None
