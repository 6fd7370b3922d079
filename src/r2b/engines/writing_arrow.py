"""Parquet and Arrow files written part by part, the way their input was: codecs, row groups and types stay."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from r2b._files.arrow import pyarrow
from r2b.engines.files_stored import Stored
from r2b.engines.relabel import Relabel

_HELD_BYTES = 1 << 28  # of a row group that is put together; a larger one is split
_GROUP_ROWS = 1 << 20  # of row groups where the input has none
_BUFFER = 1 << 20

_Records = list[tuple[str, Any]]


class ParquetOut:
    """A Parquet file that is being written.

    Parameters
    ----------
    path : Path
    schema : pyarrow.Schema
    file : Stored
        What it is written after.
    relabel : Relabel
    """

    def __init__(self, path: Path, schema: Any, file: Stored, relabel: Relabel) -> None:
        from r2b.engines.files_parquet import ParquetStored, parquet

        self.schema = schema
        self.like_input = isinstance(file, ParquetStored)
        options = _like(file.metadata(), schema, relabel) if isinstance(file, ParquetStored) else {}
        self._held: list[Any] = []
        self._place = ""
        self._file = open(path, "xb", buffering=_BUFFER)  # noqa: SIM115 - closed by close() or abandon()
        try:
            self._writer = parquet().ParquetWriter(self._file, schema, **options)
        except BaseException:
            self._file.close()
            raise

    def take(self, piece: _Records) -> None:
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
        self._writer.close()
        _settle(self._file)

    def abandon(self) -> None:
        """Let go of the file as it is."""
        with suppress(Exception):  # the disk may be full; what is there is thrown away
            self._writer.close()
        with suppress(Exception):
            self._file.close()


class ArrowOut:
    """An Arrow file or stream that is being written.

    Parameters
    ----------
    path : Path
    schema : pyarrow.Schema
    file : Stored
        What it is written after.
    """

    def __init__(self, path: Path, schema: Any, file: Stored) -> None:
        from r2b.engines.files_arrow import ArrowStored

        arrow = pyarrow()
        like = file if isinstance(file, ArrowStored) else None
        # Row groups of Parquet have dictionaries of their own, of which an Arrow file can hold only one.
        self.schema = schema if like is not None else _decoded(schema)
        options = arrow.ipc.IpcWriteOptions(compression=None if like is None else like.codec, use_threads=False)
        make = arrow.ipc.new_stream if like is not None and like.streamed else arrow.ipc.new_file
        self._file = open(path, "xb", buffering=_BUFFER)  # noqa: SIM115 - closed by close() or abandon()
        try:
            self._writer = make(self._file, self.schema, options=options)
        except BaseException:
            self._file.close()
            raise

    def take(self, piece: _Records) -> None:
        """Write some rows."""
        for _, record in piece:
            self._writer.write_batch(fitted(record, self.schema))

    def close(self) -> None:
        """Write the table of contents."""
        self._writer.close()
        _settle(self._file)

    def abandon(self) -> None:
        """Let go of the file as it is."""
        with suppress(Exception):
            self._writer.close()
        with suppress(Exception):
            self._file.close()


def _settle(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


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
