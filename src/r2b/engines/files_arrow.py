"""Arrow files and streams by their record batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.arrow_loading import sound
from r2b._files.limits import refuse_growth
from r2b._files.messages import MAGIC, batch_messages, codec_of, unpacked_bytes
from r2b.engines.batch import in_batches
from r2b.engines.files_listing import Part
from r2b.engines.files_stored import ReadJob, Stored, reading

_SMALLER = "Write the file in smaller record batches, or raise the limit with --max-unpacked where the memory has room for it."


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

    def jobs(self, columns: Sequence[str], first: int, *, coded: Collection[str], rows: int) -> Iterator[ReadJob]:
        """Read batches here; there is little to decode, and nothing but reading tells how many rows they have."""
        wanted = [self.schema.get_field_index(name) for name in columns]
        for number, record in self.records(wanted):
            place = f"{self.part.name}, record batch {number}"
            record = record.select(list(columns)) if columns else pyarrow().record_batch({"": pyarrow().nulls(record.num_rows)})
            for batch in in_batches(record, rows, first, place):
                if len(batch):
                    yield ReadJob(len(batch), partial(list, [batch]))
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
        return ipc.open_stream(source, options=options) if self.streamed else ipc.open_file(source, options=options)

    @property
    def codec(self) -> str | None:
        """How its batches are compressed: "lz4", "zstd" or None."""
        arrow = pyarrow()
        with reading(self.part), arrow.memory_map(self.part.path) as source:
            first = next((each for each in batch_messages(arrow, source) if each.type == "record batch"), None)
            return None if first is None else codec_of(first)
