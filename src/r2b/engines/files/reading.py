"""Files that are read part by part: their columns, and their rows a piece at a time.

Reading never holds more than a few pieces. Text is cut into whole records and worked on as UTF-8;
the bytes of every record are kept, so that they can be written again as they are.
"""

from __future__ import annotations

import codecs
import importlib
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import first_line, pyarrow
from r2b._files.formats import Format, opened, seen_instead, settled_encoding
from r2b._files.text import refuse_growth
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files.listing import Part
from r2b.engines.source import NewColumns
from r2b.engines.spool import copied
from r2b.engines.tally import combined, encoded_column
from r2b.errors import DamagedFileError, InputError

_ENCODING = "Say how it is encoded, such as `encoding='latin-1'` or `encoding='cp1252'`."


@dataclass(frozen=True, eq=False)
class ReadJob:
    """Some rows that are still to be read.

    Attributes
    ----------
    n_rows : int
    read : callable
        Reads them, in any thread. Of delimited text, ``spelled=True`` keeps text that means
        missing as it is.
    chunk : Chunk or None
        Their bytes, where the file is text.
    """

    n_rows: int
    read: Callable[..., list[Batch]]
    chunk: Any = None


@dataclass(frozen=True)
class Wanted:
    """What is to be read of a file.

    Attributes
    ----------
    columns : sequence of str or None
        Columns with unique names, possibly none; None for all columns, as they stand.
    coded : collection of str
        Columns whose text may come as a dictionary.
    rows : int
        Most rows of a batch.
    """

    columns: Sequence[str] | None
    coded: Collection[str]
    rows: int


class Stored(ABC):
    """A file of rows.

    Attributes
    ----------
    part : Part
    schema : pyarrow.Schema
        Of the file alone, without the columns that its folders name.
    n_rows : int or None
        None where only reading tells.
    n_bytes : int
    kind : str
        Of its format.

    A file that is written from it in the same format takes over these:

    encoding, mark : str, bytes
        Of text, and what it begins with (BOM).
    codec, streamed : str or None, bool
        How batches of Arrow are compressed, and whether they are a stream.
    sheet : str
        The title of a sheet.
    mixed : frozenset of str
        Columns whose values are of types that no column can hold together.
    """

    part: Part
    schema: Any
    n_rows: int | None = None
    n_bytes: int
    kind: str
    encoding: str = "utf-8"
    mark: bytes = b""
    codec: str | None = None
    streamed: bool = False
    sheet: str = "Sheet1"
    mixed: frozenset[str] = frozenset()

    @abstractmethod
    def jobs(self, wanted: Wanted, first: int) -> Iterator[ReadJob]:
        """Yield what reads the file, piece by piece in order.

        Parameters
        ----------
        wanted : Wanted
        first : int
            Number of its first row in the table.
        """

    def header_with(self, new: Sequence[str]) -> bytes:
        """Return what stands before the rows of a file of text, with new columns."""
        return b""

    def codecs(self) -> dict[str, str]:
        """Return the codec of each column of a Parquet file."""
        return {}

    def remedy_for(self, column: str) -> str:
        """Return a remedy for a column that is not there, if the file suggests one."""
        return ""

    def seen(self) -> tuple[int, int]:
        """Return size and time of change."""
        found = os.stat(self.part.path)
        return found.st_size, found.st_mtime_ns


def open_stored(
    part: Part,
    shape: Format,
    delimiter: str | None,
    na: Sequence[str],
    encoding: str,
    scratch: str | None,
    sheet: str | None = None,
) -> Stored:
    """Open a file of any format; a compressed one that is no text is first unpacked to scratch.

    Raises
    ------
    InputError
        It is damaged.
    FileTooLargeError
        It grows beyond the limit of :mod:`r2b._files.formats`.
    """
    from r2b.engines.files import typed

    packed = part.path
    try:
        if not shape.is_text and shape.compression:
            size = os.path.getsize(packed)
            with reading(part), opened(packed, shape.compression) as file:
                path, held = copied(
                    part.name,
                    file.read,
                    scratch,
                    lambda total: refuse_growth(part.name, size, total),
                )
            part = replace(part, path=path, held=held)
        made: Stored
        match shape.kind:
            case "csv" | "tsv":
                from r2b.engines.files.delimited import DelimitedStored

                made = DelimitedStored(part, shape, delimiter, na, encoding)
            case "jsonl":
                from r2b.engines.files.jsonl import JsonStored

                made = JsonStored(part, shape, encoding)
            case "parquet":
                made = typed.ParquetStored(part)
            case "arrow":
                made = typed.ArrowStored(part)
            case _:
                made = typed.WorkbookStored(part, sheet)
        with reading(part):
            list(made.schema.names)  # names may be damaged text, which is only read here
        return made
    except DamagedFileError as error:
        with open(packed, "rb") as file:
            seen = seen_instead(file.read(64), shape)
        if seen is None:
            raise
        problem = f"{part.name} cannot be read as {shape}. {seen[0]}."
        raise error.changed(problem=problem, remedy=seen[1]) from error


@contextmanager
def reading(part: Part, place: str = "") -> Iterator[None]:
    """Turn what a damaged file raises, in any library, into an error that names the file."""
    try:
        yield
    except (
        pyarrow().ArrowException,
        OSError,
        EOFError,
        UnicodeDecodeError,
        zlib.error,
        importlib.import_module("lzma").LZMAError,
    ) as cause:
        where = f"{part.name}, {place}" if place else part.name
        raise DamagedFileError(
            f"{where} cannot be read: {first_line(cause)}.",
            remedy="Check that the file is whole; write it again where it is not.",
            path=part.path,
            place=where,
        ) from cause


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole records, as they stand in the file.

    Attributes
    ----------
    raw : bytes
        In UTF-8.
    first : int
        Number of the first record.
    line : int
        Line on which it begins, from 1.
    n_records : int
    ends : ndarray or None
        Where records end; None where every line is one.
    offset : int
        Bytes before it.
    consumed : int
        Bytes of the file, packed or not, that were read by then.
    """

    raw: bytes
    first: int
    line: int
    n_records: int
    ends: Whole | None = None
    offset: int = 0
    consumed: int = 0

    def line_of(self, record: int) -> int:
        """Return the line on which a record begins."""
        if self.ends is None or record == 0:
            return self.line + record
        return self.line + n_lines(self.raw[: int(self.ends[record - 1])])

    def record(self, number: int) -> str:
        """Return the text of a record with the end of its line."""
        if self.ends is None:
            return self.raw.splitlines(keepends=True)[number].decode(errors="replace")
        start = int(self.ends[number - 1]) if number else 0
        return self.raw[start : int(self.ends[number])].decode(errors="replace")


class TextStored(Stored):
    """A file of text, possibly compressed, that is cut into chunks of whole records.

    Parameters
    ----------
    part : Part
    format : Format
    encoding : str

    Attributes
    ----------
    size : int
        Bytes that are read at a time.
    encoding : str
        That writes the text back, after the mark.
    mark : bytes
        Of the encoding (BOM), at the start of the file.
    """

    size = 1 << 22

    def __init__(self, part: Part, format: Format, encoding: str) -> None:
        self.part, self.format, self.kind = part, format, format.kind
        with reading(part):
            self.n_bytes, _ = self.seen()
            with opened(part.path, format.compression) as file:
                self._begin = file.read(64)
        self.encoding, self.mark = settled_encoding(encoding, self._begin)
        seen = seen_instead(self._begin, Format(format.kind))
        if seen and not self.encoding.startswith(("utf-16", "utf-32")):
            problem = f"{part.name} cannot be read as {format}. {seen[0]}."
            raise self._wrong(1, problem, seen[1])
        self._header, self._header_lines = b"", 0

    @abstractmethod
    def parsed(self, chunk: Chunk, wanted: Wanted, *, spelled: bool) -> Any:
        """Parse a chunk; ``spelled`` as for :class:`ReadJob`."""

    @abstractmethod
    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Return the records of a chunk with new columns at the end of each."""

    def jobs(self, wanted: Wanted, first: int) -> Iterator[ReadJob]:
        """Yield one job per chunk, which parses it."""

        def read(chunk: Chunk, *, spelled: bool = False) -> list[Batch]:
            if not chunk.n_records:
                return []
            table = self.parsed(chunk, wanted, spelled=spelled)
            start = first + chunk.first
            return list(in_batches(table, wanted.rows, start, self.part.name, chunk.first))

        # A record takes 16 bytes or so at the least: where few rows may be held, chunks are short.
        for chunk in self.chunks(min(self.size, max(1 << 12, 16 * wanted.rows))):
            yield ReadJob(chunk.n_records, partial(read, chunk), chunk)

    def start(self) -> str:
        """Return the text at the start of the file, which has its header."""
        head = b""
        for piece, _ in self._pieces():
            head += piece
            # a header is expected in the first bytes
            if len(head) >= 1 << 20 and (b"\n" in head or b"\r" in head):
                break
        try:
            return codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError as cause:
            raise self._undecodable(len(self.mark), head, cause.start, 1) from cause

    def chunks(self, size: int | None = None) -> Iterator[Chunk]:
        """Cut the file after its header; blank lines at its end are a last chunk of no records."""
        pieces = self._pieces(size)
        carry, consumed, last = b"", 0, False
        row, line, offset = 0, 1 + self._header_lines, len(self.mark) + len(self._header)
        while len(carry) < len(self._header):
            carry += next(pieces)[0]
        carry = carry[len(self._header) :]
        while not last:
            more, consumed = next(pieces, (b"", self.n_bytes))
            last, carry = not more, carry + more
            raw, ends = self._cut(carry, last, line)
            body = len(raw.rstrip(b"\r\n"))
            raw = raw[: body + (2 if raw[body : body + 2] == b"\r\n" else 1)] if body else b""
            carry = carry[len(raw) :]
            if len(carry) > 1 << 26:
                problem = (
                    f"The record on line {line} of {self.part.name} does not end within "
                    f"{1 << 26:,} bytes."
                )
                raise self._wrong(line, problem, "Look for a quote that is not closed.")
            if raw:
                chunk = self._chunk(raw, ends, row, line)
                yield replace(chunk, offset=offset, consumed=consumed)
                row, line = row + chunk.n_records, line + n_lines(raw)
                offset += len(raw)
        if carry:
            yield Chunk(carry, row, line, 0)

    def _pieces(self, size: int | None = None) -> Iterator[tuple[bytes, int]]:
        """Yield the text after the mark in UTF-8, with the bytes of the file read so far."""
        with (
            reading(self.part),
            open(self.part.path, "rb") as packed,
            opened(packed, self.format.compression) as file,
        ):
            place, line = len(file.read(len(self.mark))), 1
            decoder = codecs.getincrementaldecoder(self.encoding)()
            while True:
                piece = raw = file.read(size or self.size)
                if self.encoding != "utf-8":
                    held: bytes = decoder.getstate()[0]
                    try:
                        text = decoder.decode(raw, not raw)
                    except UnicodeDecodeError as cause:
                        place -= len(held)
                        raise self._undecodable(place, held + raw, cause.start, line) from cause
                    place, line, piece = place + len(raw), line + text.count("\n"), text.encode()
                if piece:
                    yield piece, packed.tell() if raw else self.n_bytes
                if not raw:
                    return

    def _cut(self, raw: bytes, last: bool, line: int) -> tuple[bytes, Whole | None]:
        """Return the whole records at the start of some bytes, and their ends if not every line."""
        return (raw if last else raw[: raw.rfind(b"\n") + 1]), None

    def _chunk(self, raw: bytes, ends: Whole | None, row: int, line: int) -> Chunk:
        """Return records as a chunk, and refuse blank lines between them."""
        if ends is None:
            if raw.startswith((b"\n", b"\r\n")):
                raise self._blank(line)
            gap = max(raw.find(b"\n\n"), raw.find(b"\n\r\n")) + 1
            if gap:
                raise self._blank(line + raw.count(b"\n", 0, gap))
            return Chunk(raw, row, line, raw.count(b"\n") + (not raw.endswith(b"\n")))
        ends = ends[ends <= len(raw)]
        starts = np.concatenate([[0], ends[:-1]])
        for place in np.flatnonzero(ends - starts <= 2).tolist():
            if not raw[starts[place] : ends[place]].strip(b"\r\n"):
                raise self._blank(line + n_lines(raw[: int(starts[place])]))
        return Chunk(raw, row, line, len(ends), ends)

    def _undecodable(self, offset: int, raw: bytes, start: int, line: int) -> InputError:
        """Say which byte is no text; ``raw`` begins after ``offset`` bytes, on ``line``."""
        line += raw[:start].decode(self.encoding, "replace").count("\n")
        found = f"0x{raw[start]:02x}" if start < len(raw) else "the end"
        problem = (
            f"{self.part.name} is not {self.encoding}: byte {offset + start} ({found}, on line "
            f"{line}) cannot be read."
        )
        return self._wrong(line, problem, _ENCODING, byte=offset + start)

    def _fault(self, chunk: Chunk, cause: Exception) -> InputError:
        """Say what is wrong with a chunk that cannot be parsed."""
        if self.encoding == "utf-8":
            try:
                chunk.raw.decode()
            except UnicodeDecodeError as other:
                return self._undecodable(chunk.offset, chunk.raw, other.start, chunk.line)
        where = f"{self.part.name} cannot be read after line {chunk.line}"
        return self._wrong(
            chunk.line, f"{where}: {first_line(cause)}.", f"Check that it is whole. {_ENCODING}"
        )

    def _blank(self, line: int) -> InputError:
        remedy = "Remove it."
        if self.format.kind != "jsonl":
            remedy = 'Remove it, or write "" for a field without text.'
        return self._wrong(line, f"Line {line} of {self.part.name} is blank.", remedy)

    def _wrong(self, line: int, problem: str, remedy: str, **facts: object) -> InputError:
        return InputError(problem, remedy=remedy, path=self.part.path, line=line, **facts)


def no_columns(n_rows: int) -> Any:
    """Return rows of which no column is wanted."""
    return pyarrow().record_batch({"": pyarrow().nulls(n_rows)})


def n_lines(raw: bytes) -> int:
    r"""Count the ends of lines.

    Examples
    --------
    >>> n_lines(b"a\nb\r\nc\rd")
    3
    """
    return raw.count(b"\n") + (raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else 0)


def repeated_rows(made: Sequence[NewColumns]) -> list[int] | None:
    """Return the rows of a chunk that are written, None for each once.

    Rows of a batch are numbered from its own first, and every row is written at least once.
    """
    found: list[int] = []
    first = 0
    for each in made:
        if each.rows is None:
            return None
        found += (each.rows + first).tolist()
        first += int(each.rows[-1]) + 1
    return found


def column_texts(
    made: Sequence[NewColumns], texts_of: Callable[[Mapping[str, Any]], list[str]]
) -> list[bytes]:
    """Return the text of new columns, row by row; equal rows of a batch are written once."""
    found: list[bytes] = []
    for columns in (each.columns for each in made):
        coded = [encoded_column(column) for column in columns.values()]
        first, place, _ = combined(coded, len(coded[0][0]))
        rows = pyarrow().array(first)
        texts = texts_of({name: column.take(rows) for name, column in columns.items()})
        found += np.array([text.encode() for text in texts], dtype=object)[place].tolist()
    return found
