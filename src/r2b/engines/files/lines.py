"""Files of text: they are cut into whole records, and their bytes are kept as they are.

Text is worked on as UTF-8. New columns are put at the end of each record; nothing else changes.
"""

from __future__ import annotations

import codecs
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, opened, seen_instead, settled_encoding
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import ReadJob, ReadOptions, Stored, Wanted, reading
from r2b.engines.source import NewColumns
from r2b.engines.tally import combined, encoded_column
from r2b.errors import InputError

_ENCODING = "Say how it is encoded, such as `encoding='latin-1'` or `encoding='cp1252'`."
_LONGEST_RECORD = 1 << 26  # bytes; a longer one is a quote that is not closed


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
    consumed : int
        Bytes of the file, packed or not, that were read by then.
    ends : ndarray
        Where each record ends; blank lines at the end of the file have none.
    """

    raw: bytes
    first: int
    line: int
    consumed: int
    ends: Whole

    @property
    def n_records(self) -> int:
        """The number of records."""
        return len(self.ends)

    def records(self) -> list[bytes]:
        """Return the bytes of each record with the end of its line."""
        places = itertools.pairwise([0, *self.ends.tolist()])
        return [self.raw[start:stop] for start, stop in places]

    def line_of(self, record: int) -> int:
        """Return the line on which a record begins."""
        return self.line + n_lines(b"".join(self.records()[:record]))


class TextStored(Stored):
    """A file of text, possibly compressed, that is cut into chunks of whole records.

    Parameters
    ----------
    part : Part
    options : ReadOptions

    Attributes
    ----------
    size : int
        Bytes that are read at a time.
    encoding : str
        That writes the text back, after the mark.
    mark : bytes
        Of the encoding (BOM), at the start of the file.
    newline : bytes
        The end of its first line.
    """

    size = 1 << 22
    newline = b"\n"

    def __init__(self, part: Part, options: ReadOptions) -> None:
        super().__init__(part, options)
        self._compression = options.format.compression
        with reading(part), opened(part.path, self._compression) as file:
            begin = file.read(64)
        self.encoding, self.mark = settled_encoding(options.encoding, begin)
        seen = seen_instead(begin, Format(self.kind))
        if seen and not self.encoding.startswith(("utf-16", "utf-32")):
            problem = f"{part.name} cannot be read as {options.format}. {seen[0]}."
            raise self._wrong(1, problem, seen[1])
        self._header = b""

    @abstractmethod
    def parsed(self, chunk: Chunk, wanted: Wanted, *, spelled: bool) -> Any:
        """Parse a chunk; ``spelled`` as for :class:`ReadJob`."""

    @abstractmethod
    def texts(self, columns: Mapping[str, Any]) -> list[str]:
        """Return the rows of new columns as they are put into records."""

    @abstractmethod
    def joined(self, record: bytes, new: bytes) -> bytes:
        """Put the text of new columns into a record, which is without the end of its line."""

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

    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Return the records of a chunk with new columns in each."""
        if not chunk.n_records:
            return chunk.raw
        bodies, ends = chunk.raw.splitlines(), [b"\n"] * chunk.n_records
        if len(bodies) != len(ends) or b"\r" in chunk.raw:  # records of several lines
            records = chunk.records()
            bodies = [record.rstrip(b"\r\n") for record in records]
            pairs = zip(records, bodies, strict=True)
            ends = [record[len(body) :] or self.newline for record, body in pairs]
        new: list[bytes] = []
        rows: list[int] = []
        first = 0
        for each in made:
            new += self._texts_of_rows(each.columns)
            if each.rows is not None:  # they count from the first of their batch
                rows += (each.rows + first).tolist()
                first += int(each.rows[-1]) + 1
        if rows:
            bodies, ends = [bodies[row] for row in rows], [ends[row] for row in rows]
        if not chunk.raw.endswith((b"\r", b"\n")):
            ends[-1] = b""
        lines = zip(map(self.joined, bodies, new), ends, strict=True)
        return b"".join(itertools.chain.from_iterable(lines))

    def _texts_of_rows(self, columns: Mapping[str, Any]) -> list[bytes]:
        """Return the text of new columns, row by row; equal rows are written once."""
        coded = [encoded_column(column) for column in columns.values()]
        first, place, _ = combined(coded, len(coded[0][0]))
        rows = pyarrow().array(first)
        texts = self.texts({name: column.take(rows) for name, column in columns.items()})
        found = np.array([text.encode() for text in texts], dtype=object)[place].tolist()
        return cast(list[bytes], found)

    def start(self) -> str:
        """Return the text at the start of the file, which has its header."""
        head = b""
        for piece, _ in self._pieces():
            head += piece
            # a header is expected in the first bytes
            if len(head) >= 1 << 20 and (b"\n" in head or b"\r" in head):
                break
        return head.decode()

    def chunks(self, size: int | None = None) -> Iterator[Chunk]:
        """Cut the file after its header; blank lines at its end are a last chunk of no records."""
        pieces = self._pieces(size)
        carry, consumed, last = b"", 0, False
        row, line = 0, 1 + n_lines(self._header)
        while len(carry) < len(self._header):
            carry += next(pieces)[0]
        carry = carry[len(self._header) :]
        while not last:
            more, consumed = next(pieces, (b"", self.n_bytes))
            last, carry = not more, carry + more
            if carry.endswith(b"\r") and not last:
                continue  # it may belong to a line feed that follows
            ends = self._ends(carry, last, line)
            end = len(carry) if last else int(ends.max(initial=0))
            body = len(carry[:end].rstrip(b"\r\n"))
            end = body + (2 if carry[body : body + 2] == b"\r\n" else 1) if body else 0
            raw, carry = carry[:end], carry[end:]
            if len(carry) > _LONGEST_RECORD:
                problem = (
                    f"The record on line {line} of {self.part.name} does not end within "
                    f"{_LONGEST_RECORD:,} bytes."
                )
                raise self._wrong(line, problem, "Look for a quote that is not closed.")
            if raw:
                ends = np.append(ends[ends < len(raw)], len(raw))
                yield Chunk(raw, row, line, consumed, ends)
                row, line = row + len(ends), line + n_lines(raw)
        if carry:
            yield Chunk(carry, row, line, consumed, np.empty(0, np.int64))

    def _pieces(self, size: int | None = None) -> Iterator[tuple[bytes, int]]:
        """Yield the text after the mark in UTF-8, with the bytes of the file read so far."""
        with (
            reading(self.part),
            open(self.part.path, "rb") as packed,
            opened(packed, self._compression) as file,
        ):
            place, line = len(file.read(len(self.mark))), 1
            decoder = codecs.getincrementaldecoder(self.encoding)()
            while True:
                raw = file.read(size or self.size)
                try:
                    text = decoder.decode(raw, not raw)
                except UnicodeDecodeError as cause:
                    whole, start = cause.object, cause.start  # with bytes of the last piece
                    line += whole[:start].decode(self.encoding, "replace").count("\n")
                    found = f"0x{whole[start]:02x}" if start < len(whole) else "the end"
                    byte = place + len(raw) - len(whole) + start
                    problem = (
                        f"{self.part.name} is not {self.encoding}: byte {byte} ({found}, on line "
                        f"{line}) cannot be read."
                    )
                    raise self._wrong(line, problem, _ENCODING, byte=byte) from cause
                if piece := text.encode():
                    yield piece, packed.tell() if raw else self.n_bytes
                if not raw:
                    return
                place, line = place + len(raw), line + n_feeds(piece)

    def _ends(self, raw: bytes, last: bool, line: int) -> Whole:
        """Return where records end: after every line feed."""
        return np.flatnonzero(np.frombuffer(raw, np.uint8) == ord("\n")) + 1

    def _unreadable(self, chunk: Chunk, reason: str) -> InputError:
        """Say that a chunk cannot be parsed."""
        problem = f"{self.part.name} cannot be read after line {chunk.line}: {reason}."
        return self._wrong(chunk.line, problem, f"Check that it is whole. {_ENCODING}")

    def _wrong(self, line: int, problem: str, remedy: str, **facts: object) -> InputError:
        return InputError(problem, remedy=remedy, path=self.part.path, line=line, **facts)


def n_feeds(raw: bytes) -> int:
    """Count line feeds."""
    return int(np.count_nonzero(np.frombuffer(raw, np.uint8) == ord("\n")))


def n_lines(raw: bytes) -> int:
    r"""Count the ends of lines.

    Examples
    --------
    >>> n_lines(b"a\nb\r\nc\rd")
    3
    """
    return n_feeds(raw) + (raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else 0)
