"""Parquet by row groups, some columns of one at a time, by several threads; Arrow files and streams by their record batches."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from r2b._files.arrow import (
    MAGIC,
    batch_messages,
    codec_of,
    pyarrow,
    pyarrow_compute,
    sound,
    unpacked_bytes,
)
from r2b._files.text import refuse_growth
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files.listing import Part
from r2b.engines.files.outs import Out, fitted
from r2b.engines.files.reading import ReadJob, Stored, reading
from r2b.engines.source import Relabel

_PIECE_BYTES = 1 << 26  # of texts that are read at once
_SMALLER = "Write the file in smaller record batches, or raise the limit with --max-unpacked where the memory has room for it."


class ParquetStored(Stored):
    """A Parquet file.

    Attributes
    ----------
    groups : tuple of int
        Rows of each row group.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        with reading(part):
            self.n_bytes, _ = self.seen()
            with parquet().ParquetFile(part.path) as file:
                self.schema = file.schema_arrow
                footer = file.metadata
                self.groups = tuple(
                    footer.row_group(k).num_rows for k in range(footer.num_row_groups)
                )
        self.n_rows = sum(self.groups)

    def metadata(self) -> Any:
        """Read the footer; those of the last few files are at hand."""
        # What was unpacked for a while is not kept longer for its footer.
        return (_footer if self.part.held is None else _footer.__wrapped__)(self.part, self.seen())

    def jobs(
        self, columns: Sequence[str] | None, first: int, *, coded: Collection[str], rows: int
    ) -> Iterator[ReadJob]:
        """Give one job per row group; a large one is read here, and its parts are handed on."""
        wanted = None if columns is None else list(columns)
        # Of one row group the footer is read with it; where all columns are read they are written,
        # and how is asked of the footer.
        footer = self.metadata() if wanted is None or len(self.groups) > 1 else None
        names = [name for name in self.schema.names if wanted is None or name in wanted]
        texts = self._texts([name for name in names if name in coded])
        for number, n_rows in enumerate(self.groups):
            if n_rows == 0:
                continue
            most = self._fitting(
                footer, number, [name for name in names if name not in texts], rows
            )
            if n_rows <= most:
                yield ReadJob(
                    n_rows,
                    partial(self._whole, footer, number, wanted, texts, first, most),
                    first=first,
                )
            else:
                yield from self._parts(footer, number, wanted, texts, first, most)
            first += n_rows

    def _fitting(self, footer: Any, number: int, columns: list[str], rows: int) -> int:
        """Give how many rows may be read at once: a code of a few bits can stand for a text of any length."""
        texts = self._texts(columns)
        if not texts:
            return rows
        with reading(self.part, f"row group {number}"), self._opened(footer, texts) as file:
            # With one row come all texts that codes of the row group can stand for.
            record = sound(next(iter(file.iter_batches(1, [number], texts, use_threads=False))))
        lengths = pyarrow_compute()
        longest = sum(
            int(lengths.max(lengths.binary_length(each.dictionary)).as_py() or 0)
            for each in record.columns
        )
        return max(1, min(rows, _PIECE_BYTES // max(longest, 1)))

    def _whole(
        self,
        footer: Any,
        number: int,
        columns: list[str] | None,
        texts: list[str],
        first: int,
        rows: int,
    ) -> list[Batch]:
        with reading(self.part, f"row group {number}"), self._opened(footer, texts) as file:
            table = sound(file.read_row_group(number, columns=columns, use_threads=False))
            if columns == []:
                return [Batch(_no_columns(self.groups[number]), first, self.place(number), 0)]
            return list(in_batches(table, rows, first, self.place(number)))

    def _parts(
        self,
        footer: Any,
        number: int,
        columns: list[str] | None,
        texts: list[str],
        first: int,
        rows: int,
    ) -> Iterator[ReadJob]:
        done = 0
        with self._opened(footer, texts) as file:
            pieces = iter(file.iter_batches(rows, [number], columns, use_threads=False))
            while done < self.groups[number]:
                with reading(self.part, f"row group {number}"):
                    record = (
                        _no_columns(min(rows, self.groups[number] - done))
                        if columns == []
                        else sound(next(pieces))
                    )
                yield ReadJob(
                    record.num_rows,
                    partial(list, [Batch(record, first + done, self.place(number), done)]),
                    first=first + done,
                )
                done += record.num_rows

    def _opened(self, footer: Any, texts: list[str]) -> Any:
        # A reader of its own for every row group: readers are not shared between threads, and the
        # footer is not parsed again.
        return parquet().ParquetFile(
            self.part.path, metadata=footer, read_dictionary=texts, page_checksum_verification=True
        )

    def _texts(self, columns: Sequence[str]) -> list[str]:
        types = pyarrow().types
        # Of columns that share a name, those of text cannot be read as codes alone.
        kinds = {
            each.name: each.type
            for each in self.schema
            if each.name in columns and self.schema.names.count(each.name) == 1
        }
        return [
            name
            for name, kind in kinds.items()
            if types.is_string(kind) or types.is_large_string(kind)
        ]

    def place(self, number: int) -> str:
        """Say which row group."""
        return f"{self.part.name}, row group {number}"


@lru_cache(maxsize=512)
def _footer(part: Part, seen: tuple[int, int]) -> Any:
    with reading(part), parquet().ParquetFile(part.path) as file:
        return file.metadata


def parquet() -> Any:
    """Import the library, or say what to install."""
    pyarrow()
    return importlib.import_module("pyarrow.parquet")


def _no_columns(n_rows: int) -> Any:
    """Give rows of which no column of the file is wanted."""
    arrow = pyarrow()
    return arrow.record_batch({"": arrow.nulls(n_rows)})


class ArrowStored(Stored):
    """An Arrow file, or a stream in a file.

    Attributes
    ----------
    streamed : bool
        Whether it is a stream, without a table of contents.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        with reading(part):
            self.n_bytes, _ = self.seen()
            with open(part.path, "rb") as file:
                self.streamed = file.read(len(MAGIC)) != MAGIC
            with self._opened(None) as reader:
                self.schema = reader.schema
            self._refuse_growth()
        self.n_rows = None

    def _refuse_growth(self) -> None:
        """Refuse a record batch that is small in the file and large in memory: no part of one can be read alone."""
        with pyarrow().memory_map(self.part.path) as source:
            for message in batch_messages(pyarrow(), source):
                size = unpacked_bytes(message)
                if size > message.body.size:
                    refuse_growth(self.part.name, message.body.size, size, _SMALLER)

    def jobs(
        self, columns: Sequence[str] | None, first: int, *, coded: Collection[str], rows: int
    ) -> Iterator[ReadJob]:
        """Read batches here; there is little to decode, and nothing but reading tells how many rows they have."""
        for number, record in self.records(
            None if columns is None else [self.schema.get_field_index(name) for name in columns]
        ):
            place = f"{self.part.name}, record batch {number}"
            if columns is not None:
                record = record.select(list(columns)) if columns else _no_columns(record.num_rows)
            for batch in in_batches(record, rows, first, place):
                if len(batch):
                    yield ReadJob(len(batch), partial(list, [batch]), first=batch.first)
            first += record.num_rows

    def records(self, fields: list[int] | None = None) -> Iterator[tuple[int, Any]]:
        """Give the record batches by number; of some fields, or all."""
        with reading(self.part):
            reader = self._opened(fields or None)
        with reader:
            number = 0
            while True:
                with reading(self.part, f"record batch {number}"):
                    record = self._next(reader, number)
                    if record is None:
                        return
                    sound(record)
                yield number, record
                number += 1

    def _next(self, reader: Any, number: int) -> Any:
        if not self.streamed:
            return reader.get_batch(number) if number < reader.num_record_batches else None
        try:
            return reader.read_next_batch()
        except StopIteration:
            return None

    def _opened(self, fields: list[int] | None) -> Any:
        ipc = pyarrow().ipc
        options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        # Mapped: a batch that is not compressed is read where it lies.
        source = pyarrow().memory_map(self.part.path)
        return (
            ipc.open_stream(source, options=options)
            if self.streamed
            else ipc.open_file(source, options=options)
        )

    @property
    def codec(self) -> str | None:
        """How its batches are compressed: "lz4", "zstd" or None."""
        arrow = pyarrow()
        with reading(self.part), arrow.memory_map(self.part.path) as source:
            first = next(
                (each for each in batch_messages(arrow, source) if each.type == "record batch"),
                None,
            )
            return None if first is None else codec_of(first)


_HELD_BYTES = 1 << 28  # of a row group that is put together; a larger one is split


_GROUP_ROWS = 1 << 20  # of row groups where the input has none


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

    def __init__(
        self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored, relabel: Relabel
    ) -> None:
        super().__init__(target, compression)
        self.schema = schema
        self.like_input = isinstance(file, ParquetStored)
        self._held: list[Any] = []
        self._place = ""
        groups = (
            enumerate(file.groups)
            if isinstance(file, ParquetStored) and relabel.form != "expand"
            else ()
        )
        self._sizes = {file.place(number): n_rows for number, n_rows in groups}  # type: ignore[attr-defined]
        with self.abandoned_on_error():
            options = (
                _like(file.metadata(), schema, relabel) if isinstance(file, ParquetStored) else {}
            )
            self._writer = parquet().ParquetWriter(self._file, schema, **options)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows; those of one row group stay together."""
        for place, record in piece:
            held = sum(each.num_rows for each in self._held)
            full = sum(each.nbytes for each in self._held) > _HELD_BYTES
            if self._held and (
                full or (place != self._place if self.like_input else held >= _GROUP_ROWS)
            ):
                self._flush()
            self._place = place
            self._held.append(record)
            # whole: it need not wait for the next one
            if held + record.num_rows == self._sizes.get(place):
                self._flush()

    def _flush(self) -> None:
        if self._held:
            table = pyarrow().Table.from_batches(
                [fitted(record, self.schema) for record in self._held], self.schema
            )
            self._held = []
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def finish(self) -> None:
        """Write the footer."""
        self._flush()
        super().finish()


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

    def __init__(
        self, target: Path | BinaryIO, compression: str, schema: Any, file: Stored, relabel: Relabel
    ) -> None:
        super().__init__(target, compression)
        arrow = pyarrow()
        like = file if isinstance(file, ArrowStored) else None
        # Row groups of Parquet have dictionaries of their own, of which an Arrow file can hold only
        # one.
        self.schema = schema if like is not None else _decoded(schema)
        make = arrow.ipc.new_stream if like is not None and like.streamed else arrow.ipc.new_file
        with self.abandoned_on_error():
            options = arrow.ipc.IpcWriteOptions(
                compression=None if like is None else like.codec, use_threads=False
            )
            self._writer = make(self._file, self.schema, options=options)

    def take(self, piece: list[tuple[str, Any]]) -> None:
        """Write some rows."""
        for _, record in piece:
            self._writer.write_batch(fitted(record, self.schema))


def _decoded(schema: Any) -> Any:
    arrow = pyarrow()
    plain = [
        field.with_type(field.type.value_type) if arrow.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return arrow.schema(plain, schema.metadata)


def _like(footer: Any, schema: Any, relabel: Relabel) -> dict[str, Any]:
    """Read from a footer how a file was written."""
    options: dict[str, Any] = {"store_schema": b"ARROW:schema" in (footer.metadata or {})}
    if footer.num_row_groups == 0:
        return options
    group = footer.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    codecs = {
        column.path_in_schema: "NONE"
        if column.compression == "UNCOMPRESSED"
        else column.compression
        for column in columns
    }
    known = [name for name in relabel.decode.roles.label if name in codecs]
    label = codecs[known[0]] if known else next(iter(codecs.values()), "snappy")
    options["compression"] = codecs | dict.fromkeys(relabel.names, label)
    # Labels that follow from classes have few values; those that follow from probabilities have as
    # many as rows.
    few = [
        name for name in relabel.names if relabel.form != "soft" or not relabel.decode.roles.soft
    ]
    coded = [
        column.path_in_schema
        for column in columns
        if any("DICTIONARY" in each for each in column.encodings)
    ]
    options["use_dictionary"] = [*coded, *few]
    options["write_statistics"] = any(column.is_stats_set for column in columns)
    options["use_deprecated_int96_timestamps"] = any(
        column.physical_type == "INT96" for column in columns
    )
    options["version"] = (
        footer.format_version if footer.format_version in ("1.0", "2.4", "2.6") else "2.6"
    )
    if group.sorting_columns and relabel.form != "expand":
        options["sorting_columns"] = group.sorting_columns
    return options
