"""Files that are being written, part by part, the way their input was: text, encoding, codecs, row groups and types stay.

In text, new fields follow the text of each record, and new keys come before the closing brace of each object.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, LeftOpen, squeezed
from r2b._files.text import dialect_of, members
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.jsonl import JsonStored
from r2b.engines.files.reading import Chunk, Stored
from r2b.engines.source import NewColumns, Relabel
from r2b.engines.tally import combined
from r2b.errors import InputError

_HELD_BYTES = 1 << 28  # of a row group that is put together; a larger one is split
_GROUP_ROWS = 1 << 20  # of row groups where the input has none
_BUFFER = 1 << 20


class Out:
    """A file that is being written.

    Parameters
    ----------
    target : Path or binary file
        A new file, or a stream that stays open.
    compression : str
    """

    def __init__(self, target: Path | BinaryIO, compression: str) -> None:
        self._owned = isinstance(target, Path)
        self._raw: Any = open(target, "xb", buffering=_BUFFER) if isinstance(target, Path) else LeftOpen(target)  # noqa: SIM115
        self._file = squeezed(self._raw, compression)
        self._writer: Any = None

    def take(self, piece: Any) -> None:
        """Write some rows: bytes of text, or record batches with their places."""
        self._file.write(piece)

    def close(self) -> None:
        """End the file, and bring it to the disk."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not self._raw:
            self._file.close()
        self._raw.flush()
        if self._owned:
            os.fsync(self._raw.fileno())
        self._raw.close()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        for each in (self._writer, self._file, self._raw):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each.close()

    @contextmanager
    def abandoned_on_error(self) -> Iterator[None]:
        """Let go of the file where anything goes wrong."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise


class TextOut(Out):
    """A text file that is being written, from UTF-8 to its own encoding.

    Parameters
    ----------
    target, compression
        As for :class:`Out`.
    encoding : str
    mark : bytes
        That the file begins with.
    """

    def __init__(self, target: Path | BinaryIO, compression: str, encoding: str = "utf-8", mark: bytes = b"") -> None:
        super().__init__(target, compression)
        self._encoder = None if encoding == "utf-8" else codecs.getincrementalencoder(encoding)()
        self.encoding = encoding
        self._file.write(mark)

    def take(self, piece: bytes) -> None:
        """Write some lines."""
        try:
            self._file.write(piece if self._encoder is None else self._encoder.encode(piece.decode()))
        except UnicodeEncodeError as cause:
            raise InputError(
                f"The character {cause.object[cause.start]!r} cannot be written in the encoding {self.encoding}.",
                remedy="Write Parquet or Arrow, or convert the file to UTF-8 first.",
                encoding=self.encoding,
            ) from cause


class ParquetOut(Out):
    """A Parquet file that is being written.

    Parameters
    ----------
    target, compression
        As for :class:`Out`.
    schema : pyarrow.Schema
    file : Stored
        What it is written after.
    relabel : Relabel
    """

    def __init__(self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored, relabel: Relabel) -> None:
        from r2b.engines.files.typed import ParquetStored, parquet

        super().__init__(target, compression)
        self.schema = schema
        self.like_input = isinstance(file, ParquetStored)
        self._held: list[Any] = []
        self._place = ""
        with self.abandoned_on_error():
            options = _like(file.metadata(), schema, relabel) if isinstance(file, ParquetStored) else {}
            self._writer = parquet().ParquetWriter(self._file, schema, **options)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows; those of one row group stay together."""
        for place, record in piece:
            held = sum(each.num_rows for each in self._held)
            full = sum(each.nbytes for each in self._held) > _HELD_BYTES
            if self._held and (full or (place != self._place if self.like_input else held >= _GROUP_ROWS)):
                self._flush()
            self._place = place
            self._held.append(record)

    def _flush(self) -> None:
        if self._held:
            table = pyarrow().Table.from_batches([fitted(record, self.schema) for record in self._held], self.schema)
            self._held = []
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        """Write the footer."""
        self._flush()
        super().close()


class ArrowOut(Out):
    """An Arrow file or stream that is being written.

    Parameters
    ----------
    target, compression
        As for :class:`Out`.
    schema : pyarrow.Schema
    file : Stored
        What it is written after.
    """

    def __init__(self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored) -> None:
        from r2b.engines.files.typed import ArrowStored

        super().__init__(target, compression)
        arrow = pyarrow()
        like = file if isinstance(file, ArrowStored) else None
        # Row groups of Parquet have dictionaries of their own, of which an Arrow file can hold only one.
        self.schema = schema if like is not None else _decoded(schema)
        make = arrow.ipc.new_stream if like is not None and like.streamed else arrow.ipc.new_file
        with self.abandoned_on_error():
            options = arrow.ipc.IpcWriteOptions(compression=None if like is None else like.codec, use_threads=False)
            self._writer = make(self._file, self.schema, options=options)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows."""
        for _, record in piece:
            self._writer.write_batch(fitted(record, self.schema))


def fitted(record: Any, schema: Any) -> Any:
    """Give a record the types of the file."""
    if record.schema.equals(schema):
        return record
    arrow = pyarrow()
    columns = [
        column if column.type == field.type else column.cast(field.type) for column, field in zip(record.columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)


def _decoded(schema: Any) -> Any:
    arrow = pyarrow()
    plain = [field.with_type(field.type.value_type) if arrow.types.is_dictionary(field.type) else field for field in schema]
    return arrow.schema(plain, schema.metadata)


def _like(footer: Any, schema: Any, relabel: Relabel) -> dict[str, Any]:
    """Read from a footer how a file was written."""
    options: dict[str, Any] = {"store_schema": b"ARROW:schema" in (footer.metadata or {})}
    if footer.num_row_groups == 0:
        return options
    group = footer.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    codecs = {column.path_in_schema: "NONE" if column.compression == "UNCOMPRESSED" else column.compression for column in columns}
    known = [name for name in relabel.decode.roles.label if name in codecs]
    label = codecs[known[0]] if known else next(iter(codecs.values()), "snappy")
    options["compression"] = codecs | dict.fromkeys(relabel.names, label)
    # Labels that follow from classes have few values; those that follow from probabilities have as many as rows.
    few = [name for name in relabel.names if relabel.form != "soft" or not relabel.decode.roles.soft]
    coded = [column.path_in_schema for column in columns if any("DICTIONARY" in each for each in column.encodings)]
    options["use_dictionary"] = [*coded, *few]
    options["write_statistics"] = any(column.is_stats_set for column in columns)
    options["use_deprecated_int96_timestamps"] = any(column.physical_type == "INT96" for column in columns)
    options["version"] = footer.format_version if footer.format_version in ("1.0", "2.4", "2.6") else "2.6"
    if group.sorting_columns and relabel.form != "expand":
        options["sorting_columns"] = group.sorting_columns
    return options


def header_of(file: Stored, new: Sequence[str], shape: Format) -> bytes:
    """Give the first line: as it stands where the file is of the same kind, with the new names after it; JSON Lines have none."""
    if shape.kind == "jsonl":
        return b""
    if isinstance(file, DelimitedStored) and file.format.kind == shape.kind:
        dialect, raw = file.dialect, file.header.raw
        body = raw.rstrip("\r\n")
        return f"{body}{dialect.delimiter}{dialect.joined([list(new)])[0]}{raw[len(body) :] or dialect.newline}".encode()
    return (dialect_of(shape).joined([[*file.schema.names, *new]])[0] + "\n").encode()


def added_fields(file: DelimitedStored, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
    """Give the records of a chunk with new fields after each."""
    if not chunk.n_records:
        return chunk.raw
    dialect = file.dialect
    newline = dialect.newline.encode()
    bodies, ends = _records(chunk)
    tails = [tail for each in made for tail in _tails(each.columns, dialect.records)]
    order = _order(made)
    if order is not None:
        open_end = chunk.raw[-1:] not in (b"\n", b"\r")
        bodies, ends = [bodies[row] for row in order], [ends[row] or newline for row in order]
        if open_end:
            ends[-1] = b""
    pieces: list[bytes] = [dialect.delimiter.encode()] * (4 * len(bodies))
    pieces[0::4], pieces[2::4], pieces[3::4] = bodies, tails, ends
    return b"".join(pieces)


def added_members(file: JsonStored, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
    """Give the objects of a chunk with new keys at the end of each."""
    begins = [line.strip()[:-1].rstrip() for line in chunk.raw.split(b"\n")[: chunk.n_records]]
    tails = [tail for each in made for tail in _tails(each.columns, members)]
    order = _order(made)
    if order is not None:
        begins = [begins[row] for row in order]
    return b"".join(
        b"".join((begin, b"" if begin.endswith(b"{") else b", ", tail, b"}", file.newline))
        for begin, tail in zip(begins, tails, strict=True)
    )


def _order(made: Sequence[NewColumns]) -> list[int] | None:
    """Give the rows of a chunk that leave, where they are repeated; rows of a batch are numbered from its own first."""
    found: list[int] = []
    first = 0
    for each in made:
        if each.rows is None:
            return None
        found += (each.rows + first).tolist()
        first += int(each.rows[-1]) + 1  # every row leaves at least once
    return found


def _records(chunk: Chunk) -> tuple[list[bytes], list[bytes]]:
    """Give the text of each record and the end of its line."""
    raw = chunk.raw
    if chunk.ends is None and b"\r" not in raw:
        bodies = raw.split(b"\n")
        ends = [b"\n"] * len(bodies)
        if not bodies[-1]:
            del bodies[-1], ends[-1]
        else:
            ends[-1] = b""
        return bodies, ends
    places = chunk.ends.tolist() if chunk.ends is not None else _line_ends(raw)
    bodies, ends, start = [], [], 0
    for stop in places:
        record = raw[start:stop]
        body = record[:-2] if record.endswith(b"\r\n") else record[:-1] if record.endswith((b"\n", b"\r")) else record
        bodies.append(body)
        ends.append(record[len(body) :])
        start = stop
    return bodies, ends


def _line_ends(raw: bytes) -> list[int]:
    found = (np.flatnonzero(np.frombuffer(raw, np.uint8) == ord("\n")) + 1).tolist()
    return found if raw.endswith(b"\n") else [*found, len(raw)]


def _tails(columns: dict[str, Any], texts_of: Callable[[Mapping[str, Any]], list[str]]) -> list[bytes]:
    """Give the text of new columns, row by row; rows that are alike are written once and looked up."""
    coded = [column if hasattr(column, "dictionary") else column.dictionary_encode(null_encoding="encode") for column in columns.values()]
    codes = [(column.indices.to_numpy(zero_copy_only=False), column.dictionary) for column in coded]
    first, place, _ = combined(codes, len(coded[0]))
    texts = texts_of({name: column.take(pyarrow().array(first)) for name, column in columns.items()})
    found: list[bytes] = np.array([text.encode() for text in texts], dtype=object)[place].tolist()
    return found
