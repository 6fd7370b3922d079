"""Arrow files and streams by their record batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from r2b.scale.batch import in_batches
from r2b.scale.files_listing import Part
from r2b.scale.files_stored import Job, Stored, reading
from r2b.tables.arrow import pyarrow

_MAGIC = b"ARROW1"
_CODECS = ("lz4", "zstd")


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
                self.streamed = file.read(len(_MAGIC)) != _MAGIC
            with self._opened(None) as reader:
                self.schema = reader.schema
        self.n_rows = None

    def jobs(self, columns: Sequence[str], first: int, *, coded: Collection[str], rows: int) -> Iterator[Job]:
        """Read batches here; there is little to decode, and nothing but reading tells how many rows they have."""
        wanted = [self.schema.get_field_index(name) for name in columns]
        for number, record in self.records(wanted):
            place = f"{self.part.name}, record batch {number}"
            record = record.select(list(columns)) if columns else pyarrow().record_batch({"": pyarrow().nulls(record.num_rows)})
            for batch in in_batches(record, rows, first, place):
                if len(batch):
                    yield Job(len(batch), partial(list, [batch]))
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
                    record.validate()
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
            if not self.streamed:
                source.seek(8)  # the magic word and its padding: messages follow as in a stream
            for message in arrow.ipc.MessageReader.open_stream(source):
                if message.type == "record batch":
                    return codec_of(message.metadata.to_pybytes())
        return None


def codec_of(message: bytes) -> str | None:
    """Read the codec from the metadata of a record batch, for which Arrow has no function.

    The metadata are a flatbuffer: Message.header (field 2) is a RecordBatch, whose field 3 is a BodyCompression; its field 0 is the codec.
    """
    batch = _field(message, int.from_bytes(message[:4], "little"), 2)
    squeezed = None if batch is None else _field(message, _followed(message, batch), 3)
    if squeezed is None:
        return None
    table = _followed(message, squeezed)
    codec = _field(message, table, 0)
    return _CODECS[0 if codec is None else message[codec]]


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Give the place of a field of a flatbuffer table; None where it has its default."""
    layout = table - int.from_bytes(buffer[table : table + 4], "little", signed=True)
    slot = 4 + 2 * number
    if slot >= int.from_bytes(buffer[layout : layout + 2], "little"):
        return None
    offset = int.from_bytes(buffer[layout + slot : layout + slot + 2], "little")
    return table + offset if offset else None


def _followed(buffer: bytes, place: int) -> int:
    return place + int.from_bytes(buffer[place : place + 4], "little")
