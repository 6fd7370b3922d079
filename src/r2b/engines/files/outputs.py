"""Files that are being written, in the form of the file that they come from."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, LeftOpen, squeezed
from r2b._files.text import header_of
from r2b._files.workbook import SheetWriter
from r2b.engines.batch import PIECE_ROWS, Batch
from r2b.engines.files.reading import Stored
from r2b.engines.files.typed import parquet
from r2b.engines.source import Relabel
from r2b.errors import InputError

_LARGEST_GROUP = 1 << 28  # bytes of a row group; larger ones are split


class Output(Protocol):
    """What writes the rows of a file: lines of text in UTF-8, or batches."""

    def take(self, piece: Any) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Write what ends the file."""


@contextmanager
def open_output(
    target: Path | BinaryIO, file: Stored, schema: Any, shape: Format, relabel: Relabel
) -> Iterator[Output]:
    """Open a file that is written from another, and bring it to the disk when all is written.

    Parameters
    ----------
    target : Path or binary file
        A new file, or a stream that stays open.
    file : Stored
        What it comes from.
    schema : pyarrow.Schema
        Its columns and the new ones.
    shape : Format
    relabel : Relabel
    """
    raw: Any = open(target, "xb") if isinstance(target, Path) else LeftOpen(target)  # noqa: SIM115
    packed = output = raw
    try:
        packed = squeezed(raw, shape.compression)
        output = _output(packed, file, schema, shape, relabel)
        yield output
        output.close()
        if packed is not raw:
            packed.close()
        raw.flush()
        if isinstance(target, Path):
            os.fsync(raw.fileno())
    finally:
        for each in (output, packed, raw):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each.close()


def _output(target: Any, file: Stored, schema: Any, shape: Format, relabel: Relabel) -> Output:
    match shape.kind:
        case "parquet":
            return ParquetOutput(target, schema, file, relabel)
        case "arrow":
            return ArrowOutput(target, schema, file)
        case "xlsx":
            return WorkbookOutput(target, schema, file, relabel)
        case kind if kind == file.kind:
            target.write(file.mark)
            return TextOutput(target, file.header_with(relabel.names), file.encoding)
        case _:
            return TextOutput(target, header_of(schema.names, shape).encode())


class TextOutput:
    """Lines of text, from UTF-8 to another encoding."""

    def __init__(self, file: Any, header: bytes, encoding: str = "utf-8") -> None:
        self._file, self._encoding = file, encoding
        self._encoder = codecs.getincrementalencoder(encoding)()
        self.take(header)

    def take(self, piece: bytes) -> None:
        """Write some lines."""
        try:
            self._file.write(
                piece if self._encoding == "utf-8" else self._encoder.encode(piece.decode())
            )
        except UnicodeEncodeError as cause:
            letter = cause.object[cause.start]
            raise InputError(
                f"The character {letter!r} cannot be written in the encoding {self._encoding}.",
                remedy="Write Parquet or Arrow, or convert the file to UTF-8 first.",
                encoding=self._encoding,
            ) from cause

    def close(self) -> None:
        """Lines need no end."""


class ParquetOutput:
    """A Parquet file with the row groups and codecs of the one that it comes from."""

    def __init__(self, target: Any, schema: Any, file: Stored, relabel: Relabel) -> None:
        self._schema, self._keep_groups = schema, file.kind == "parquet"
        self._held: list[Any] = []
        self._place = ""
        codecs: Any = file.codecs()
        # New columns have the codec of the label.
        label = next((codecs[name] for name in relabel.decode.roles.label if name in codecs), None)
        codecs = (codecs | dict.fromkeys(relabel.names, label or "snappy")) if codecs else "snappy"
        self._writer = parquet().ParquetWriter(target, schema, compression=codecs)

    def take(self, piece: Batch) -> None:
        """Write some rows; those of one row group of the input stay together."""
        full = sum(each.nbytes for each in self._held) > _LARGEST_GROUP
        if self._keep_groups:
            full = full or piece.place != self._place
        else:
            full = full or sum(map(len, self._held)) >= PIECE_ROWS
        if full:
            self._flush()
        self._place = piece.place
        self._held.append(fitted(piece.record, self._schema))

    def _flush(self) -> None:
        if self._held:
            table = pyarrow().Table.from_batches(self._held, self._schema)
            self._held = []
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        """Write the footer."""
        self._flush()
        self._writer.close()


class ArrowOutput:
    """An Arrow file or stream, with the batches and the codec of the one that it comes from."""

    def __init__(self, target: Any, schema: Any, file: Stored) -> None:
        ipc, types = pyarrow().ipc, pyarrow().types
        if file.kind != "arrow":
            # An Arrow file holds one dictionary per column, and each row group of Parquet its own.
            for place, field in enumerate(schema):
                if types.is_dictionary(field.type):
                    schema = schema.set(place, field.with_type(field.type.value_type))
        self._schema = schema
        options = ipc.IpcWriteOptions(compression=file.codec, use_threads=False)
        make = ipc.new_stream if file.streamed else ipc.new_file
        self._writer = make(target, schema, options=options)

    def take(self, piece: Batch) -> None:
        """Write some rows."""
        self._writer.write_batch(fitted(piece.record, self._schema))

    def close(self) -> None:
        """End the file."""
        self._writer.close()


class WorkbookOutput:
    """A workbook with one sheet."""

    def __init__(self, target: Any, schema: Any, file: Stored, relabel: Relabel) -> None:
        n_rows = None if relabel.form == "expand" else file.n_rows
        self._writer = SheetWriter(target, schema.names, file.sheet, n_rows)

    def take(self, piece: Batch) -> None:
        """Write some rows."""
        self._writer.take(piece.record)

    def close(self) -> None:
        """End the file."""
        self._writer.close()


def fitted(record: Any, schema: Any) -> Any:
    """Return a record with the types of a schema."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(record.columns, schema, strict=True)
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=schema)
