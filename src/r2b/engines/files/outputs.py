"""Files that are being written, in the form of the file that they come from."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

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


Output = tuple[Callable[[Any], object], Callable[[], object]]
"""What writes rows, which are lines of text in UTF-8 or a batch, and what ends the file."""


@contextmanager
def open_output(
    target: Path | BinaryIO, file: Stored, schema: Any, shape: Format, relabel: Relabel
) -> Iterator[Callable[[Any], object]]:
    """Yield what writes rows to a new file, and bring it to the disk when all are written.

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
    packed, close = raw, raw.close
    try:
        packed = squeezed(raw, shape.compression)
        take, close = _output(packed, file, schema, shape, relabel)
        yield take
        close()
        if packed is not raw:
            packed.close()
        raw.flush()
        if isinstance(target, Path):
            os.fsync(raw.fileno())
    finally:
        for each in (close, packed.close, raw.close):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each()


def _output(target: Any, file: Stored, schema: Any, shape: Format, relabel: Relabel) -> Output:
    match shape.kind:
        case "parquet":
            made = ParquetOutput(target, schema, file, relabel)
            return made.take, made.close
        case "arrow":
            return _arrow_output(target, schema, file)
        case "xlsx":
            n_rows = None if relabel.form == "expand" else file.n_rows
            sheet = SheetWriter(target, schema.names, file.sheet, n_rows)
            return lambda piece: sheet.take(piece.record), sheet.close
        case kind if kind == file.kind:
            target.write(file.mark)
            take = partial(_write_text, codecs.getwriter(file.encoding)(target), file.encoding)
            take(file.header_with(relabel.names))
            return take, lambda: None
        case _:
            target.write(header_of(schema.names, shape).encode())
            return target.write, lambda: None


def _write_text(target: codecs.StreamWriter, encoding: str, lines: bytes) -> None:
    """Write lines of UTF-8 in another encoding."""
    try:
        target.write(lines.decode())
    except UnicodeEncodeError as cause:
        letter = cause.object[cause.start]
        raise InputError(
            f"The character {letter!r} cannot be written in the encoding {encoding}.",
            remedy="Write Parquet or Arrow, or convert the file to UTF-8 first.",
            encoding=encoding,
        ) from cause


def _arrow_output(target: Any, schema: Any, file: Stored) -> Output:
    """Return what writes an Arrow file or stream, with the codec of the one that it comes from."""
    ipc, types = pyarrow().ipc, pyarrow().types
    if file.kind != "arrow":
        # An Arrow file holds one dictionary per column, and each row group of Parquet its own.
        for place, field in enumerate(schema):
            if types.is_dictionary(field.type):
                schema = schema.set(place, field.with_type(field.type.value_type))
    options = ipc.IpcWriteOptions(compression=file.codec, use_threads=False)
    writer = (ipc.new_stream if file.streamed else ipc.new_file)(target, schema, options=options)
    return lambda piece: writer.write_batch(fitted(piece.record, schema)), writer.close


class ParquetOutput:
    """A Parquet file with the row groups and codecs of the one that it comes from."""

    def __init__(self, target: Any, schema: Any, file: Stored, relabel: Relabel) -> None:
        self._schema, self._keep_groups = schema, file.kind == "parquet"
        self._held: list[Any] = []
        self._place = ""
        codecs: Any = file.codecs
        # New columns have the codec of the label.
        label = next((codecs[name] for name in relabel.roles.label if name in codecs), None)
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


def fitted(record: Any, schema: Any) -> Any:
    """Return a record with the types of a schema."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(record.columns, schema, strict=True)
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=schema)
