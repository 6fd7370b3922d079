"""Files that are read part by part: their columns, and their rows a piece at a time; text in any encoding, cut into whole records.

Reading never holds more than a few pieces. Text is worked on as UTF-8, and the bytes of every
record go back as they came.
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
from r2b.engines.batch import Batch
from r2b.engines.files.listing import Part
from r2b.engines.source import NewColumns
from r2b.engines.spool import copied
from r2b.engines.tally import combined
from r2b.errors import DamagedFileError, InputError

_LONGEST = 1 << 26  # bytes of one record
_HEAD = 1 << 20


@dataclass(frozen=True, eq=False)
class ReadJob:
    """Some rows that are still to be read.

    Attributes
    ----------
    n_rows : int
    read : callable
        Reads them; it may be called in any thread. Of delimited text, ``spelled=True`` leaves text
        that means missing as it is.
    chunk : Chunk or None
        Their bytes, where the file is text.
    first : int
        Number of the first row in the table.
    """

    n_rows: int
    read: Callable[..., list[Batch]]
    chunk: Any = None
    first: int = 0


class Stored(ABC):
    """A file of rows.

    Attributes
    ----------
    part : Part
    schema : pyarrow.Schema
        Of the file alone, without what its folders say.
    n_rows : int or None
        None where only reading tells.
    n_bytes : int
    """

    part: Part
    schema: Any
    n_rows: int | None
    n_bytes: int

    @abstractmethod
    def jobs(
        self, columns: Sequence[str] | None, first: int, *, coded: Collection[str], rows: int
    ) -> Iterator[ReadJob]:
        """Give what reads the file, piece by piece in order.

        Parameters
        ----------
        columns : sequence of str or None
            Of this file, each of a name of its own; may be empty. None for all columns, as they
            stand.
        first : int
            Number of its first row in the table.
        coded : collection of str
            Columns whose text may come as a dictionary.
        rows : int
            Most rows of a batch.
        """

    def seen(self) -> tuple[int, int]:
        """Give size and time of change."""
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
    """Open a file of any format; a compressed one that is no text is unpacked to a scratch file first.

    Raises
    ------
    InputError
        It is damaged.
    FileTooLargeError
        It grows beyond the limit of :mod:`r2b._files.formats`.
    """
    made: Stored
    if not shape.is_text and shape.compression:
        size = os.path.getsize(part.path)
        with reading(part), opened(part.path, shape.compression) as file:
            path, held = copied(
                part.name, file.read, scratch, lambda total: refuse_growth(part.name, size, total)
            )
        part = replace(part, path=path, held=held)
    if shape.kind == "parquet":
        from r2b.engines.files.typed import ParquetStored

        made = ParquetStored(part)
    elif shape.kind == "arrow":
        from r2b.engines.files.typed import ArrowStored

        made = ArrowStored(part)
    elif shape.kind == "xlsx":
        from r2b.engines.files.workbook import WorkbookStored

        made = WorkbookStored(part, sheet)
    elif shape.kind == "jsonl":
        from r2b.engines.files.jsonl import JsonStored

        made = JsonStored(part, shape, encoding)
    else:
        from r2b.engines.files.delimited import DelimitedStored

        made = DelimitedStored(part, shape, delimiter, na, encoding)
    with reading(part):
        list(made.schema.names)  # text too, and read only when it is asked for
    return made


@contextmanager
def reading(part: Part, place: str = "") -> Iterator[None]:
    """Turn what goes wrong with a file into an error that names it."""
    try:
        yield
    except _faults() as cause:
        where = f"{part.name}{f', {place}' if place else ''}"
        problem = f"{where} cannot be read: {first_line(cause)}."
        remedy = "Check that the file is whole; write it again where it is not."
        raise DamagedFileError(problem, remedy=remedy, path=part.path, place=where) from cause


def _faults() -> tuple[type[Exception], ...]:
    """Give what damaged files raise: each library has errors of its own for the same fault."""
    return (
        pyarrow().ArrowException,
        OSError,
        EOFError,
        UnicodeDecodeError,
        zlib.error,
        importlib.import_module("lzma").LZMAError,
    )


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
        Bytes of the file, packed or not, that were read by then: how far a pass is.
    """

    raw: bytes
    first: int
    line: int
    n_records: int
    ends: Whole | None = None
    offset: int = 0
    consumed: int = 0

    def line_of(self, record: int) -> int:
        """Say on which line a record begins."""
        if self.ends is None or record == 0:
            return self.line + record
        return self.line + n_lines(self.raw[: int(self.ends[record - 1])])

    def record(self, number: int) -> str:
        """Give the text of a record with the end of its line."""
        if self.ends is None:
            return self.raw.splitlines(keepends=True)[number].decode(errors="replace")
        return self.raw[
            int(self.ends[number - 1]) if number else 0 : int(self.ends[number])
        ].decode(errors="replace")


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
        Of the encoding, at the start of the file.
    """

    size = 1 << 22

    def __init__(self, part: Part, format: Format, encoding: str) -> None:
        self.part, self.format = part, format
        with reading(part):
            self.n_bytes, _ = self.seen()
            with opened(part.path, format.compression) as file:
                self._begin = file.read(64)
        self.encoding, self.mark = settled_encoding(encoding, self._begin)
        self._header, self._header_lines = b"", 0
        self.n_rows = None

    @abstractmethod
    def batches(
        self,
        chunk: Chunk,
        columns: Sequence[str] | None,
        first: int,
        coded: Collection[str],
        rows: int,
        *,
        spelled: bool = False,
    ) -> list[Batch]:
        """Parse a chunk.

        Parameters
        ----------
        chunk : Chunk
        columns : sequence of str or None
        first : int
            Number of the file's first row in the table.
        coded : collection of str
        rows : int
        spelled : bool
            Whether text that means missing stays text.
        """

    @abstractmethod
    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Give the records of a chunk with new columns at the end of each."""

    def jobs(
        self, columns: Sequence[str] | None, first: int, *, coded: Collection[str], rows: int
    ) -> Iterator[ReadJob]:
        """Give one job per chunk, which parses it."""
        for chunk in self.chunks():
            yield ReadJob(
                chunk.n_records,
                partial(self.batches, chunk, columns, first, coded, rows),
                chunk,
                first + chunk.first,
            )

    def start(self) -> str:
        """Give the text at the start of the file, which has its header."""
        head = b""
        for piece, _ in self._pieces():
            head += piece
            if len(head) >= _HEAD and (b"\n" in head or b"\r" in head):
                break
        try:
            return codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError as cause:
            raise self._undecodable(len(self.mark), head, cause.start, 1) from cause

    def chunks(self) -> Iterator[Chunk]:
        """Cut the file after its header into whole records; blank lines at its end come last, as a chunk without records."""
        pieces = self._pieces()
        carry, row, line, blank, last, consumed = b"", 0, 1 + self._header_lines, b"", False, 0
        while len(carry) < len(self._header):
            carry += next(pieces)[0]
        carry, offset = carry[len(self._header) :], len(self.mark) + len(self._header)
        while not last:
            more, consumed = next(pieces, (b"", self.n_bytes))
            last, carry = not more, carry + more
            raw, ends = self._cut(carry, last, line)
            carry = carry[len(raw) :]
            if len(carry) > _LONGEST:
                problem = f"The record on line {line} of {self.part.name} does not end within {_LONGEST:,} bytes."
                raise self._wrong(line, problem, "Look for a quote that is not closed.")
            if blank and raw.strip(b"\r\n"):
                raise self._blank(line - n_lines(blank))
            body = len(raw.rstrip(b"\r\n"))
            kept = raw[: body + (2 if raw[body : body + 2] == b"\r\n" else 1)] if body else b""
            blank += raw[len(kept) :]
            if kept:
                chunk = replace(self._chunk(kept, ends, row, line, offset), consumed=consumed)
                yield chunk
                row += chunk.n_records
            line, offset = line + n_lines(raw), offset + len(raw)
        if blank:
            yield Chunk(blank, row, line - n_lines(blank), 0)

    def _pieces(self) -> Iterator[tuple[bytes, int]]:
        """Give the text after the mark in UTF-8, each piece with the bytes of the file that were read for it and those before."""
        with (
            reading(self.part),
            open(self.part.path, "rb") as packed,
            opened(packed, self.format.compression) as file,
        ):
            place, line = len(file.read(len(self.mark))), 1
            decoder = (
                None if self.encoding == "utf-8" else codecs.getincrementaldecoder(self.encoding)()
            )
            while True:
                raw = file.read(self.size)
                if decoder is None:
                    piece = raw
                else:
                    held: bytes = decoder.getstate()[0]
                    try:
                        text = decoder.decode(raw, not raw)
                    except UnicodeDecodeError as cause:
                        raise self._undecodable(
                            place - len(held), held + raw, cause.start, line
                        ) from cause
                    place, line, piece = place + len(raw), line + text.count("\n"), text.encode()
                if piece:
                    yield piece, packed.tell() if raw else self.n_bytes
                if not raw:
                    return

    def _undecodable(self, offset: int, raw: bytes, start: int, line: int) -> InputError:
        """Say which byte is no text; ``raw`` begins after this many bytes, on this line."""
        seen = seen_instead(self._begin, self.format.kind)
        line += raw[:start].decode(self.encoding, "replace").count("\n")
        found = (
            f"0x{raw[start]:02x}, on line {line}"
            if start < len(raw)
            else f"the end, on line {line}"
        )
        instead, remedy = (
            (f" {seen[0]}.", seen[1])
            if seen
            else ("", "Say how it is encoded, such as encoding='latin-1' or 'cp1252'.")
        )
        problem = f"{self.part.name} is not {self.encoding}: byte {offset + start} ({found}) cannot be read.{instead}"
        return self._wrong(line, problem, remedy, byte=offset + start)

    def _fault(self, chunk: Chunk, cause: Exception) -> InputError:
        """Say what is wrong with a chunk that cannot be parsed."""
        try:
            chunk.raw.decode()
        except UnicodeDecodeError as other:
            if self.encoding == "utf-8":
                return self._undecodable(chunk.offset, chunk.raw, other.start, chunk.line)
        remedy = "Check that it is whole, and say how it is encoded, such as encoding='latin-1' or 'cp1252'."
        return self._wrong(
            chunk.line,
            f"{self.part.name} cannot be read after line {chunk.line}: {first_line(cause)}.",
            remedy,
        )

    def _chunk(self, raw: bytes, ends: Whole | None, row: int, line: int, offset: int) -> Chunk:
        if ends is None:
            n_records = raw.count(b"\n") + (not raw.endswith(b"\n"))
            gap = (
                0
                if raw.startswith((b"\n", b"\r\n"))
                else max(raw.find(b"\n\n"), raw.find(b"\n\r\n")) + 1
            )
            if gap or raw.startswith((b"\n", b"\r\n")):
                raise self._blank(line + raw.count(b"\n", 0, gap))
            return Chunk(raw, row, line, n_records, None, offset)
        ends = ends[ends <= len(raw)]
        starts = np.concatenate([[0], ends[:-1]])
        short = np.flatnonzero(ends - starts <= 2)
        for place in short.tolist():
            if not raw[starts[place] : ends[place]].strip(b"\r\n"):
                raise self._blank(line + n_lines(raw[: int(starts[place])]))
        return Chunk(raw, row, line, len(ends), ends, offset)

    def _cut(self, raw: bytes, last: bool, line: int) -> tuple[bytes, Whole | None]:
        """Give the whole records at the start of some bytes, and where they end where that is not at every line feed."""
        return (raw if last else raw[: raw.rfind(b"\n") + 1]), None

    def _blank(self, line: int) -> InputError:
        remedy = (
            'Remove it, or write "" for a field without text.'
            if self.format.kind != "jsonl"
            else "Remove it."
        )
        return self._wrong(line, f"Line {line} of {self.part.name} is blank.", remedy)

    def _wrong(self, line: int, problem: str, remedy: str, **facts: object) -> InputError:
        return InputError(problem, remedy=remedy, path=self.part.path, line=line, **facts)


def n_lines(raw: bytes) -> int:
    r"""Count the ends of lines.

    Examples
    --------
    >>> n_lines(b"a\nb\r\nc\rd")
    3
    """
    return raw.count(b"\n") + (raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else 0)


def leaving_rows(made: Sequence[NewColumns]) -> list[int] | None:
    """Give the rows of a chunk that leave, where they are repeated; rows of a batch are numbered from its own first."""
    found: list[int] = []
    first = 0
    for each in made:
        if each.rows is None:
            return None
        found += (each.rows + first).tolist()
        first += int(each.rows[-1]) + 1  # every row leaves at least once
    return found


def column_texts(
    made: Sequence[NewColumns], texts_of: Callable[[Mapping[str, Any]], list[str]]
) -> list[bytes]:
    """Give the text of new columns, row by row; rows of a batch that are alike are written once and looked up."""
    found: list[bytes] = []
    for columns in (each.columns for each in made):
        coded = [
            each if hasattr(each, "dictionary") else each.dictionary_encode(null_encoding="encode")
            for each in columns.values()
        ]
        codes = [
            (column.indices.to_numpy(zero_copy_only=False), column.dictionary) for column in coded
        ]
        first, place, _ = combined(codes, len(coded[0]))
        texts = texts_of(
            {name: column.take(pyarrow().array(first)) for name, column in columns.items()}
        )
        found += np.array([text.encode() for text in texts], dtype=object)[place].tolist()
    return found
