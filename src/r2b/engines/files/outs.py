"""Files that are being written: text in its encoding, and what all formats share."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, LeftOpen, dialect_of, squeezed
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.reading import Stored
from r2b.errors import InputError

_BUFFER = 1 << 16  # bytes; a larger one takes longer to make than a small file to write
_SMALL = 1 << 20  # bytes of a file that need not wait for the disk alone


class _Summed(io.FileIO):
    """A new file that keeps a checksum of what is written to it, from its start to its end."""

    checksum = 0

    def write(self, data: Any) -> int:
        """Write some bytes."""
        size = super().write(data)
        self.checksum = crc32(memoryview(data)[:size], self.checksum)
        return size


class Out:
    """A file that is being written.

    Parameters
    ----------
    target : Path or binary file
        A new file, or a stream that stays open.
    compression : str
    """

    def __init__(self, target: Path | BinaryIO, compression: str) -> None:
        self._summed = _Summed(str(target), "x") if isinstance(target, Path) else None
        self._raw: Any = LeftOpen(target) if self._summed is None else io.BufferedWriter(self._summed, _BUFFER)
        self._file = squeezed(self._raw, compression)
        self._writer: Any = None

    def take(self, piece: Any) -> None:
        """Write some rows: bytes of text, or record batches with their places."""
        self._file.write(piece)

    def finish(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not self._raw:
            self._file.close()
        self._raw.flush()

    @property
    def written(self) -> tuple[int, int]:
        """Size and checksum of a file that is ended; zeros for a stream."""
        return (0, 0) if self._summed is None else (self._summed.tell(), self._summed.checksum)

    @property
    def small(self) -> bool:
        """Whether it may wait for the disk together with others."""
        return self.written[0] < _SMALL

    def settle(self) -> None:
        """Bring the file to the disk unless it is small, and close it; this may be done by another thread."""
        if self._summed is not None and not self.small:
            os.fsync(self._summed.fileno())
        self._raw.close()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        for each in (self._writer, self._file, self._raw):
            with suppress(Exception):  # the disk may be full; what is there is thrown away
                each.close()

    @contextmanager
    def abandoned_on_error(self) -> Iterator[None]:
        """Let go of the file where anything goes wrong."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise


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
            problem = f"The character {cause.object[cause.start]!r} cannot be written in the encoding {self.encoding}."
            remedy = "Write Parquet or Arrow, or convert the file to UTF-8 first."
            raise InputError(problem, remedy=remedy, encoding=self.encoding) from cause


def header_of(file: Stored, new: Sequence[str], shape: Format) -> bytes:
    """Give the first line: as it stands where the file is of the same kind, with the new names after it; JSON Lines have none."""
    if shape.kind == "jsonl":
        return b""
    if isinstance(file, DelimitedStored) and file.format.kind == shape.kind:
        dialect, raw = file.dialect, file.header.raw
        body = raw.rstrip("\r\n")
        return f"{body}{dialect.delimiter}{dialect.joined([list(new)])[0]}{raw[len(body) :] or dialect.newline}".encode()
    return (dialect_of(shape).joined([[*file.schema.names, *new]])[0] + "\n").encode()


def fitted(record: Any, schema: Any) -> Any:
    """Give a record the types of the file."""
    if record.schema.equals(schema):
        return record
    arrow = pyarrow()
    columns = [
        column if column.type == field.type else column.cast(field.type) for column, field in zip(record.columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)
