"""Files that are being written, part by part, the way their input was: encoding, codecs, row groups and types stay."""

from __future__ import annotations

import codecs
import importlib
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from r2b._files.arrow import pyarrow
from r2b.engines.files.stored import Stored
from r2b.engines.source import Relabel
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
        self._raw: Any = open(target, "xb", buffering=_BUFFER) if isinstance(target, Path) else _LeftOpen(target)  # noqa: SIM115
        self._file = _compressed(self._raw, compression)
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


class _LeftOpen(io.RawIOBase):
    """Writes to a file that it does not close, and counts the bytes: a pipe does not know its place."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.place = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self.file.write(piece)
        self.place += memoryview(piece).nbytes
        return memoryview(piece).nbytes

    def tell(self) -> int:
        return self.place

    def flush(self) -> None:
        self.file.flush()


def _compressed(file: Any, compression: str) -> Any:
    if not compression:
        return file
    if compression == "gz":  # no name and no time of writing inside, or no two files would be alike
        return importlib.import_module("gzip").GzipFile("", "wb", 6, file, mtime=0)
    if compression == "zst":
        arrow = pyarrow()
        return arrow.CompressedOutputStream(arrow.PythonFile(_LeftOpen(file), "w"), "zstd")
    module, kind = ("bz2", "BZ2File") if compression == "bz2" else ("lzma", "LZMAFile")
    return getattr(importlib.import_module(module), kind)(file, "wb")


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
        try:
            options = _like(file.metadata(), schema, relabel) if isinstance(file, ParquetStored) else {}
            self._writer = parquet().ParquetWriter(self._file, schema, **options)
        except BaseException:
            self.abandon()
            raise

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
        try:
            options = arrow.ipc.IpcWriteOptions(compression=None if like is None else like.codec, use_threads=False)
            self._writer = make(self._file, self.schema, options=options)
        except BaseException:
            self.abandon()
            raise

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
