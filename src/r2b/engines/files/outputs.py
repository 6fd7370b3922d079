"""Files that are being written, in the form of the file that they come from."""

from __future__ import annotations

import codecs
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, LeftOpen, squeezed
from r2b._files.text import header_of
from r2b._files.workbook import SheetWriter
from r2b.engines.batch import PIECE_ROWS
from r2b.engines.files.reading import Stored
from r2b.engines.files.typed import parquet
from r2b.engines.source import Relabel
from r2b.errors import InputError


class Out:
    """A file that is being written.

    Parameters
    ----------
    target : Path or binary file
        A new file, or a stream that stays open.
    compression : str
    """

    def __init__(self, target: Path | BinaryIO, compression: str) -> None:
        self._own = isinstance(target, Path)
        self._raw: Any = LeftOpen(target)
        if isinstance(target, Path):
            self._raw = open(target, "xb")  # noqa: SIM115 - closed by finish or abandon
        self._file = squeezed(self._raw, compression)
        self._writer: Any = None

    def take(self, piece: Any) -> None:
        """Write some rows: bytes of text, or record batches with their places."""
        for _, record in piece:
            self._writer.take(record)

    def finish(self) -> None:
        """End the file, and bring it to the disk."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not self._raw:
            self._file.close()
        self._raw.flush()
        if self._own:
            os.fsync(self._raw.fileno())
            self._raw.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        for each in (self._writer, self._file, self._raw):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each.close()


class TextOut(Out):
    """A text file, from UTF-8 to its own encoding; ``mark`` is what it begins with (BOM)."""

    def __init__(
        self, target: Path | BinaryIO, compression: str, encoding: str = "utf-8", mark: bytes = b""
    ) -> None:
        super().__init__(target, compression)
        self.encoding, self._encoder = encoding, codecs.getincrementalencoder(encoding)()
        self._file.write(mark)

    def take(self, piece: bytes) -> None:
        """Write some lines."""
        try:
            self._file.write(
                piece if self.encoding == "utf-8" else self._encoder.encode(piece.decode())
            )
        except UnicodeEncodeError as cause:
            letter = cause.object[cause.start]
            raise InputError(
                f"The character {letter!r} cannot be written in the encoding {self.encoding}.",
                remedy="Write Parquet or Arrow, or convert the file to UTF-8 first.",
                encoding=self.encoding,
            ) from cause


class ParquetOut(Out):
    """A Parquet file; ``file`` is what it comes from, ``schema`` has the new columns."""

    def __init__(
        self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored, relabel: Relabel
    ) -> None:
        super().__init__(target, compression)
        self.schema = schema
        self._held: list[Any] = []
        self._place = ""
        self._keep_groups = file.kind == "parquet"
        codecs: Any = file.codecs()
        # New columns have the codec of the label.
        label = next((codecs[name] for name in relabel.decode.roles.label if name in codecs), None)
        codecs = (codecs | dict.fromkeys(relabel.names, label or "snappy")) if codecs else "snappy"
        self._writer = parquet().ParquetWriter(self._file, schema, compression=codecs)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows; those of one row group of the input stay together."""
        for place, record in piece:
            full = sum(each.nbytes for each in self._held) > 1 << 28  # a larger group is split
            if self._keep_groups:
                full = full or place != self._place
            else:
                full = full or sum(each.num_rows for each in self._held) >= PIECE_ROWS
            if full:
                self._flush()
            self._place = place
            self._held.append(fitted(record, self.schema))

    def _flush(self) -> None:
        if self._held:
            table = pyarrow().Table.from_batches(self._held, self.schema)
            self._held = []
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def finish(self) -> None:
        """Write the footer."""
        self._flush()
        super().finish()


class ArrowOut(Out):
    """An Arrow file or stream; ``file`` is what it comes from, ``schema`` has the new columns."""

    def __init__(
        self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored
    ) -> None:
        super().__init__(target, compression)
        ipc = pyarrow().ipc
        # An Arrow file holds one dictionary per column, and each row group of Parquet has its own.
        self.schema = schema if file.kind == "arrow" else _decoded(schema)
        make = ipc.new_stream if file.streamed else ipc.new_file
        options = ipc.IpcWriteOptions(compression=file.codec, use_threads=False)
        self._writer = make(self._file, self.schema, options=options)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows."""
        for _, record in piece:
            self._writer.write_batch(fitted(record, self.schema))


class WorkbookOut(Out):
    """A workbook with one sheet."""

    def __init__(
        self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored, relabel: Relabel
    ) -> None:
        super().__init__(target, compression)
        n_rows = None if relabel.form == "expand" else file.n_rows
        self._writer = SheetWriter(self._file, schema.names, file.sheet, n_rows)


def open_output(
    target: Path | BinaryIO, file: Stored, schema: Any, shape: Format, relabel: Relabel
) -> Out:
    """Open a file that is written from another.

    Parameters
    ----------
    target : Path or binary file
    file : Stored
        What it comes from.
    schema : pyarrow.Schema
        Its columns and the new ones.
    shape : Format
    relabel : Relabel
    """
    if shape.kind == "parquet":
        return ParquetOut(target, shape.compression, schema, file, relabel)
    if shape.kind == "arrow":
        return ArrowOut(target, shape.compression, schema, file)
    if shape.kind == "xlsx":
        return WorkbookOut(target, shape.compression, schema, file, relabel)
    if file.kind == shape.kind:
        out = TextOut(target, shape.compression, file.encoding, file.mark)
        header = file.header_with(relabel.names)
    else:
        out = TextOut(target, shape.compression)
        header = header_of(schema.names, shape).encode()
    try:
        out.take(header)
    except BaseException:
        out.abandon()
        raise
    return out


def fitted(record: Any, schema: Any) -> Any:
    """Return a record with the types of a schema."""
    if record.schema.equals(schema):
        return record
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(record.columns, schema, strict=True)
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=schema)


def _decoded(schema: Any) -> Any:
    """Return a schema with the values of dictionaries in their place."""
    types = pyarrow().types
    plain = [
        field.with_type(field.type.value_type) if types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pyarrow().schema(plain, schema.metadata)
