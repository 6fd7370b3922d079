"""Files on their way through: small ones are read together and part again, and those that are being written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch, one_array, taken
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.files.reading import Chunk, ReadJob
from r2b.engines.source import NewColumns
from r2b.errors import InputError

if TYPE_CHECKING:
    from r2b.engines.files import FileSource
import codecs
import io
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from r2b._files.formats import Format, LeftOpen, dialect_of, squeezed
from r2b.engines.files.reading import Stored

Bundle = list[tuple[int, ReadJob]]
"""Jobs one after the other, each with the number of its file."""

_ROWS = 1 << 14
_JOBS = 128


def bundled(jobs: Iterable[tuple[int, ReadJob]], most_rows: int) -> Iterator[Bundle]:
    """Put jobs of few rows that follow each other together, in their order; one of many stays alone."""
    held: Bundle = []
    rows = 0
    for item in jobs:
        job = item[1]
        far = held and (
            held[0][1].first + rows != job.first or rows + job.n_rows > min(_ROWS, most_rows)
        )
        if far or len(held) == _JOBS:
            yield held
            held, rows = [], 0
        held.append(item)
        rows += job.n_rows
    if held:
        yield held


def put_together(batches: Sequence[Batch]) -> Batch | None:
    """Give batches that follow each other as one; None where their columns are not of the same types."""
    if len(batches) == 1:
        return batches[0]
    arrow, schema = pyarrow(), batches[0].record.schema
    if not all(batch.record.schema.equals(schema) for batch in batches):
        return None
    columns = []
    for place in range(len(schema)):
        column = arrow.chunked_array([batch.record.column(place) for batch in batches])
        columns.append(
            one_array(
                column.unify_dictionaries() if arrow.types.is_dictionary(column.type) else column
            )
        )
    return Batch(
        arrow.RecordBatch.from_arrays(columns, schema=schema.remove_metadata()), batches[0].first
    )


def read_together(
    source: FileSource,
    bundle: Bundle,
    columns: Sequence[str] | None,
    coded: Collection[str],
    rows: int,
) -> list[Batch] | None:
    """Parse delimited text of files that are laid out alike at once; None where it cannot be, or something is wrong with it."""
    files = [source.files[number] for number, _ in bundle]
    first, (_, job) = files[0], bundle[0]
    if len(bundle) < 2 or columns is None or source.keys or not isinstance(first, DelimitedStored):
        return None
    layout = (first.dialect, first.na, first.header.names)
    chunks: list[Chunk] = [job.chunk for _, job in bundle]
    for file, chunk in zip(files, chunks, strict=True):
        if (
            not isinstance(file, DelimitedStored)
            or (file.dialect, file.na, file.header.names) != layout
        ):
            return None
        if not chunk.n_records:
            return None
    texts = [chunk.raw if chunk.raw.endswith(b"\n") else chunk.raw + b"\n" for chunk in chunks]
    ends = None if all(chunk.ends is None for chunk in chunks) else _ends(chunks, texts)
    whole = Chunk(b"".join(texts), 0, 1, sum(chunk.n_records for chunk in chunks), ends)
    try:
        found = first.batches(whole, columns, job.first, coded, rows)
        return [source.completed(batch, columns, bundle[0][0]) for batch in found]
    except InputError:  # read one by one, the file that is wrong is named
        return None


def _ends(chunks: Sequence[Chunk], texts: Sequence[bytes]) -> Whole:
    """Give where the records of chunks end when their texts follow each other."""
    found, before = [], 0
    for chunk, text in zip(chunks, texts, strict=True):
        own = (
            np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
            if chunk.ends is None
            else chunk.ends.copy()
        )
        own[-1] = len(text)  # the last line may have been without an end
        found.append(own + before)
        before += len(text)
    return np.concatenate(found)


def worked(work: Callable[[Batch], Any], batches: Sequence[Batch]) -> list[Any] | None:
    """Run work on batches together; None where that cannot be, or fails: each alone then says where."""
    try:
        whole = put_together(batches) if batches else None
        return None if whole is None else [work(whole)]
    except InputError:
        return None


def work_on(
    source: FileSource,
    columns: Sequence[str] | None,
    coded: Collection[str],
    rows: int,
    work: Callable[[Batch], Any],
) -> Callable[[Bundle], tuple[Bundle, list[Any]]]:
    """Give what reads a bundle and runs work on its rows, together where it has several jobs; it runs in any thread."""

    def one_by_one(bundle: Bundle) -> Iterator[Batch]:
        return (
            source.completed(each, columns, number)
            for number, job in bundle
            for each in job.read()
            if len(each)
        )

    def done(bundle: Bundle) -> tuple[Bundle, list[Any]]:
        if len(bundle) > 1:
            batches = read_together(source, bundle, columns, coded, rows)
            found = worked(work, list(one_by_one(bundle)) if batches is None else batches)
            if found is not None:
                return bundle, found
        return bundle, [work(each) for each in one_by_one(bundle)]

    return done


def parted(new: NewColumns, sizes: Sequence[int]) -> list[NewColumns]:
    """Give the new columns of rows that were together to batches of these sizes."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = starts if new.rows is None else np.searchsorted(new.rows, starts)
    found = []
    for start, (low, high) in zip(starts.tolist(), pairwise(places.tolist()), strict=False):
        # A copy: in formats that keep buffers, what a slice is a part of would show.
        rows = pyarrow().array(np.arange(low, high))
        columns = {name: taken(column, rows) for name, column in new.columns.items()}
        found.append(NewColumns(columns, None if new.rows is None else new.rows[low:high] - start))
    return found


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
        self._raw: Any = (
            LeftOpen(target) if self._summed is None else io.BufferedWriter(self._summed, _BUFFER)
        )
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

    def __init__(
        self, target: Path | BinaryIO, compression: str, encoding: str = "utf-8", mark: bytes = b""
    ) -> None:
        super().__init__(target, compression)
        self._encoder = None if encoding == "utf-8" else codecs.getincrementalencoder(encoding)()
        self.encoding = encoding
        self._file.write(mark)

    def take(self, piece: bytes) -> None:
        """Write some lines."""
        try:
            self._file.write(
                piece if self._encoder is None else self._encoder.encode(piece.decode())
            )
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
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(record.columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)
