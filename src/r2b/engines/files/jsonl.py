"""JSON Lines part by part: one object per line, of which columns are made; an object without a key has no value there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, as_text
from r2b._files.text import members, parse_object
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import Chunk, TextStored, column_texts, leaving_rows
from r2b.engines.source import NewColumns
from r2b.errors import EmptyError, MixedTypeError

Record = dict[str, Any]


class JsonStored(TextStored):
    """A file with one object per line, possibly compressed. It is read once to know its keys and their types.

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
        self._held: list[Record] | None = None
        n_rows, held = 0, None
        for chunk in self.chunks():
            records = self._records(chunk)
            for name in dict.fromkeys(key for record in records for key in record):
                found = _type_of([record.get(name) for record in records])
                kinds[name] = _common(kinds[name], found) if name in kinds else found
            n_rows += len(records)
            held = records if not chunk.first else None
        if not n_rows:
            raise EmptyError(
                f"{part.name} has no rows.",
                remedy="Pass a file with one object per line.",
                path=part.path,
            )
        self.n_rows, self._held = n_rows, held  # one chunk is parsed once
        self.mixed = frozenset(name for name, kind in kinds.items() if kind is None)
        plain = arrow.string()
        self.schema = arrow.schema(
            [
                (name, plain if kind is None or kind == arrow.null() else kind)
                for name, kind in kinds.items()
            ]
        )

    def batches(
        self,
        chunk: Chunk,
        columns: Sequence[str] | None,
        first: int,
        coded: Collection[str],
        rows: int,
        *,
        spelled: bool = False,
    ) -> list[Batch]:
        """Parse a chunk."""
        if not chunk.n_records:
            return []
        arrow, records = pyarrow(), self._records(chunk)
        for name in self.mixed.intersection(columns or ()):
            problem = f"The key {name!r} of {self.part.name} holds values of several types, or numbers of more than 64 bits."
            raise MixedTypeError(
                problem,
                remedy="Write all of them as numbers, or all as text.",
                column=name,
                path=self.part.path,
            )
        fields = (
            list(self.schema) if columns is None else [self.schema.field(name) for name in columns]
        )
        values = {field.name: [record.get(field.name) for record in records] for field in fields}
        arrays = [
            arrow.array(
                as_text(values[field.name], field.name)
                if field.name in self.mixed
                else values[field.name],
                field.type,
            )
            for field in fields
        ]
        record = arrow.RecordBatch.from_arrays(
            arrays or [arrow.nulls(len(records))], [field.name for field in fields] or [""]
        )
        return list(in_batches(record, rows, first + chunk.first, self.part.name, chunk.first))

    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Give the objects of a chunk with new keys at the end of each."""
        begins = [line.strip()[:-1].rstrip() for line in chunk.raw.split(b"\n")[: chunk.n_records]]
        order = leaving_rows(made)
        if order is not None:
            begins = [begins[row] for row in order]
        return b"".join(
            b"".join((begin, b"" if begin.endswith(b"{") else b", ", tail, b"}", self.newline))
            for begin, tail in zip(begins, column_texts(made, members), strict=True)
        )

    def _records(self, chunk: Chunk) -> list[Record]:
        if self._held is not None:
            return self._held
        try:
            text = chunk.raw.decode()
        except UnicodeDecodeError as cause:
            raise self._fault(chunk, cause) from cause
        found = []
        for number, line in enumerate(text.split("\n")[: chunk.n_records], chunk.line):
            stripped = line.strip()
            if not stripped:
                raise self._blank(number)
            found.append(parse_object(stripped, self.part.name, number))
        return found


def _type_of(values: list[Any]) -> Any:
    """Give the Arrow type of some values; None where no type holds them all."""
    arrow = pyarrow()
    try:
        return arrow.array(values).type
    except (arrow.ArrowException, OverflowError):
        return None


def _common(one: Any, other: Any) -> Any:
    """Give the type that holds the values of two; None where there is none."""
    if one is None or other is None or one == other:
        return None if one is None else other
    arrow = pyarrow()
    try:
        made = arrow.unify_schemas(
            [arrow.schema([("", kind)]) for kind in (one, other)], promote_options="permissive"
        )
    except arrow.ArrowException:
        return None
    return made.field(0).type
