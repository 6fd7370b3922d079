"""Files with types: Parquet by row groups, Arrow by record batches, workbooks by their sheet."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

from r2b._files.arrow import pyarrow, pyarrow_compute, sound, unpacked
from r2b._files.text import refuse_growth
from r2b._files.workbook import read_sheet
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import ReadJob, ReadOptions, Stored, Wanted, reading


class ParquetStored(Stored):
    """A Parquet file.

    Attributes
    ----------
    groups : tuple of int
        Rows of each row group.
    """

    def __init__(self, part: Part, options: ReadOptions) -> None:
        super().__init__(part, options)
        with reading(part), self._opened() as file:
            self.schema, footer = file.schema_arrow, file.metadata
        self.groups = tuple(footer.row_group(k).num_rows for k in range(footer.num_row_groups))
        self.n_rows = sum(self.groups)

    @property
    def codecs(self) -> dict[str, str]:
        """Read where rows were read before: damaged columns could end the process."""
        with reading(self.part), self._opened() as file:
            footer = file.metadata
        groups = [footer.row_group(0)] if self.groups else []
        columns = [group.column(k) for group in groups for k in range(group.num_columns)]
        return {
            each.path_in_schema: each.compression.replace("UNCOMPRESSED", "NONE")
            for each in columns
        }

    def jobs(self, wanted: Wanted, first: int) -> Iterator[ReadJob]:
        """Yield one job per row group; a large one is read here, and its parts are handed on."""
        with reading(self.part), self._opened() as file:
            footer = file.metadata
        texts = self._texts(wanted.columns)
        codes = [name for name in texts if name in wanted.coded]
        plain = [name for name in texts if name not in codes]
        for number, n_rows in enumerate(self.groups):
            if n_rows == 0:
                continue
            most = self._fitting(footer, number, plain, wanted.rows)
            batches = self._batches(footer, number, wanted.columns, codes, first, most)
            if n_rows <= most:
                yield ReadJob(n_rows, partial(list, batches))
            else:
                for batch in batches:
                    yield ReadJob(len(batch), partial(list, [batch]))
            first += n_rows

    def _batches(
        self,
        footer: Any,
        number: int,
        columns: list[str] | None,
        codes: list[str],
        first: int,
        rows: int,
    ) -> Iterator[Batch]:
        n_rows, done, place = self.groups[number], 0, f"row group {number}"
        with reading(self.part, place), self._opened(footer, codes) as file:
            pieces = file.iter_batches(rows, [number], columns, use_threads=False)
            while done < n_rows:
                record = sound(next(pieces))
                yield Batch(record, first + done, f"{self.part.name}, {place}", done)
                done += record.num_rows

    def _fitting(self, footer: Any, number: int, texts: list[str], rows: int) -> int:
        """Return how many rows fit at once: a code can stand for a text of any length."""
        if not texts:
            return rows
        with reading(self.part, f"row group {number}"), self._opened(footer, texts) as file:
            # With one row come all texts that codes of the row group can stand for.
            record = sound(next(file.iter_batches(1, [number], texts, use_threads=False)))
        compute = pyarrow_compute()
        longest = max(
            compute.max(compute.binary_length(each.dictionary)).as_py() or 0
            for each in record.columns
        )
        return max(1, min(rows, (1 << 26) // max(longest * len(texts), 1)))

    def _opened(self, footer: Any = None, codes: Sequence[str] = ()) -> Any:
        # Readers are not shared between threads, so every row group has one of its own.
        return parquet().ParquetFile(
            self.part.path, metadata=footer, read_dictionary=codes, page_checksum_verification=True
        )

    def _texts(self, columns: Sequence[str] | None) -> list[str]:
        """Return the columns of text with unique names: only these can be read as codes."""
        types, times = pyarrow().types, Counter(self.schema.names)
        return [
            each.name
            for each in self.schema
            if (types.is_string(each.type) or types.is_large_string(each.type))
            and (columns is None or each.name in columns)
            and times[each.name] == 1
        ]


def parquet() -> Any:
    """Import the library, or say what to install."""
    pyarrow()
    return importlib.import_module("pyarrow.parquet")


class ArrowStored(Stored):
    """An Arrow file, or a stream in a file.

    Attributes
    ----------
    streamed : bool
        Whether it is a stream, without a table of contents.
    codec : str or None
        How its batches are compressed: "lz4", "zstd" or None.
    """

    def __init__(self, part: Part, options: ReadOptions) -> None:
        super().__init__(part, options)
        with reading(part):
            with open(part.path, "rb") as file:
                self.streamed = file.read(6) != b"ARROW1"
            with self._opened(None) as reader:
                self.schema = reader.schema
            with pyarrow().memory_map(part.path) as source:
                # after the magic word and its padding, messages follow as in a stream
                source.seek(0 if self.streamed else 8)
                for message in pyarrow().ipc.MessageReader.open_stream(source):
                    if message.type in ("record batch", "dictionary"):
                        self.codec, size = unpacked(message)
                        if size > message.body.size:
                            refuse_growth(part.name, message.body.size, size)

    def jobs(self, wanted: Wanted, first: int) -> Iterator[ReadJob]:
        """Read batches here: there is little to decode, and only reading tells their rows."""
        fields = [self.schema.get_field_index(name) for name in wanted.columns or ()]
        with reading(self.part):
            reader = self._opened(fields or None)
        with reader:
            batches = (
                iter(reader)
                if self.streamed
                else map(reader.get_batch, range(reader.num_record_batches))
            )
            for number in count():
                place = f"record batch {number}"
                with reading(self.part, place):
                    record = next(batches, None)
                    if record is None:
                        return
                    sound(record)
                yield from _cut(record, wanted, first, f"{self.part.name}, {place}")
                first += len(record)

    def _opened(self, fields: list[int] | None) -> Any:
        ipc = pyarrow().ipc
        options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        # Mapped: a batch that is not compressed is read where it lies.
        source = pyarrow().memory_map(self.part.path)
        return (ipc.open_stream if self.streamed else ipc.open_file)(source, options=options)


class WorkbookStored(Stored):
    """A sheet of a workbook, which is read into memory."""

    def __init__(self, part: Part, options: ReadOptions) -> None:
        super().__init__(part, options)
        with reading(part), open(part.path, "rb") as file:
            self.sheet, self._table = read_sheet(file, part.name, options.sheet)
        self.schema, self.n_rows = self._table.schema, self._table.num_rows

    def jobs(self, wanted: Wanted, first: int) -> Iterator[ReadJob]:
        """Cut the table."""
        return _cut(self._table, wanted, first, self.part.name)


def _cut(table: Any, wanted: Wanted, first: int, place: str) -> Iterator[ReadJob]:
    """Yield jobs for rows that are in memory."""
    table = table if wanted.columns is None else table.select(wanted.columns)
    for batch in in_batches(table, wanted.rows, first, place):
        yield ReadJob(len(batch), partial(list, [batch]))
