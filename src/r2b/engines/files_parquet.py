"""Parquet by row groups: some columns of one at a time, by several threads."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.arrow_loading import sound
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files_listing import Part
from r2b.engines.files_stored import ReadJob, Stored, reading

_PIECE_BYTES = 1 << 26  # of texts that are read at once


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
                told = file.metadata
                self.groups = tuple(told.row_group(k).num_rows for k in range(told.num_row_groups))
        self.n_rows = sum(self.groups)

    def metadata(self) -> Any:
        """Read the footer."""
        with reading(self.part), parquet().ParquetFile(self.part.path) as file:
            return file.metadata

    def jobs(self, columns: Sequence[str], first: int, *, coded: Collection[str], rows: int) -> Iterator[ReadJob]:
        """Give one job per row group; a large one is read here, and its parts are handed on."""
        footer = self.metadata()
        texts = self._texts([name for name in columns if name in coded])
        for number, n_rows in enumerate(self.groups):
            if n_rows == 0:
                continue
            most = self._fitting(footer, number, [name for name in columns if name not in texts], rows)
            if n_rows <= most:
                yield ReadJob(n_rows, partial(self._whole, footer, number, list(columns), texts, first, most))
            else:
                yield from self._parts(footer, number, list(columns), texts, first, most)
            first += n_rows

    def _fitting(self, footer: Any, number: int, columns: list[str], rows: int) -> int:
        """Give how many rows may be read at once: a code of a few bits can stand for a text of any length."""
        texts = self._texts(columns)
        if not texts:
            return rows
        with reading(self.part, f"row group {number}"), self._opened(footer, texts) as file:
            # With one row come all texts that codes of the row group can stand for.
            record = sound(next(iter(file.iter_batches(1, [number], texts, use_threads=False))))
        lengths = importlib.import_module("pyarrow.compute")
        longest = sum(int(lengths.max(lengths.binary_length(each.dictionary)).as_py() or 0) for each in record.columns)
        return max(1, min(rows, _PIECE_BYTES // max(longest, 1)))

    def _whole(self, footer: Any, number: int, columns: list[str], texts: list[str], first: int, rows: int) -> list[Batch]:
        with reading(self.part, f"row group {number}"), self._opened(footer, texts) as file:
            table = sound(file.read_row_group(number, columns=columns, use_threads=False))
            if not columns:
                return [Batch(_no_columns(self.groups[number]), first, self.place(number), 0)]
            return list(in_batches(table, rows, first, self.place(number)))

    def _parts(self, footer: Any, number: int, columns: list[str], texts: list[str], first: int, rows: int) -> Iterator[ReadJob]:
        done = 0
        with self._opened(footer, texts) as file:
            pieces = iter(file.iter_batches(rows, [number], columns, use_threads=False))
            while done < self.groups[number]:
                with reading(self.part, f"row group {number}"):
                    record = sound(next(pieces)) if columns else _no_columns(min(rows, self.groups[number] - done))
                yield ReadJob(record.num_rows, partial(list, [Batch(record, first + done, self.place(number), done)]))
                done += record.num_rows

    def _opened(self, footer: Any, texts: list[str]) -> Any:
        # A reader of its own for every row group: readers are not shared between threads, and the footer is not parsed again.
        return parquet().ParquetFile(self.part.path, metadata=footer, read_dictionary=texts, page_checksum_verification=True)

    def _texts(self, columns: Sequence[str]) -> list[str]:
        types = pyarrow().types
        kinds = {name: self.schema.field(name).type for name in columns}
        return [name for name, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]

    def place(self, number: int) -> str:
        """Say which row group."""
        return f"{self.part.name}, row group {number}"


def parquet() -> Any:
    """Import the library, or say what to install."""
    pyarrow()
    return importlib.import_module("pyarrow.parquet")


def _no_columns(n_rows: int) -> Any:
    """Give rows of which no column of the file is wanted."""
    arrow = pyarrow()
    return arrow.record_batch({"": arrow.nulls(n_rows)})
