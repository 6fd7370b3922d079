"""Text part by part, in any encoding: it is worked on as UTF-8, and the bytes of every record go back as they came."""

from __future__ import annotations

import codecs
import sys
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from r2b._files.arrow import first_line
from r2b._files.compression import opened
from r2b._files.formats import Format, seen_instead
from r2b.engines.batch import Batch
from r2b.engines.files.listing import Part
from r2b.engines.files.stored import ReadJob, Stored, reading
from r2b.errors import InputError, ParameterError

Integers = NDArray[np.int64]

CHUNK = 1 << 22
_LONGEST = 1 << 26  # bytes of one record
_HEAD = 1 << 20
_WIDE = ("utf-16", "utf-32")


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
    """

    raw: bytes
    first: int
    line: int
    n_records: int
    ends: Integers | None = None
    offset: int = 0

    def line_of(self, record: int) -> int:
        """Say on which line a record begins."""
        if self.ends is None or record == 0:
            return self.line + record
        return self.line + n_lines(self.raw[: int(self.ends[record - 1])])

    def record(self, number: int) -> str:
        """Give the text of a record with the end of its line."""
        if self.ends is None:
            return self.raw.splitlines(keepends=True)[number].decode(errors="replace")
        return self.raw[int(self.ends[number - 1]) if number else 0 : int(self.ends[number])].decode(errors="replace")


class TextStored(Stored):
    """A file of text, possibly compressed, that is cut into chunks of whole records.

    Parameters
    ----------
    part : Part
    format : Format
    encoding : str
    size : int
        Bytes that are read at a time.

    Attributes
    ----------
    encoding : str
        That writes the text back, after the mark.
    mark : bytes
        Of the encoding, at the start of the file.
    """

    def __init__(self, part: Part, format: Format, encoding: str, size: int) -> None:
        self.part, self.format, self.size = part, format, size
        with reading(part):
            self.n_bytes, _ = self.seen()
            with opened(part.path, format.compression) as file:
                self._begin = file.read(64)
        self.encoding, self.mark = settled_encoding(encoding, self._begin)
        self._header, self._header_lines = b"", 0
        self.n_rows = None

    @abstractmethod
    def batches(
        self, chunk: Chunk, columns: Sequence[str] | None, first: int, coded: Collection[str], rows: int, *, spelled: bool = False
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

    def jobs(self, columns: Sequence[str] | None, first: int, *, coded: Collection[str], rows: int) -> Iterator[ReadJob]:
        """Give one job per chunk, which parses it."""
        for chunk in self.chunks():
            yield ReadJob(chunk.n_records, partial(self.batches, chunk, columns, first, coded, rows), chunk)

    def start(self) -> str:
        """Give the text at the start of the file, which has its header."""
        head = b""
        for piece in self._pieces():
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
        carry, row, line, blank, last = b"", 0, 1 + self._header_lines, b"", False
        while len(carry) < len(self._header):
            carry += next(pieces)
        carry, offset = carry[len(self._header) :], len(self.mark) + len(self._header)
        while not last:
            more = next(pieces, b"")
            last, carry = not more, carry + more
            raw, ends = self._cut(carry, last, line)
            carry = carry[len(raw) :]
            if len(carry) > _LONGEST:
                raise InputError(
                    f"The record on line {line} of {self.part.name} does not end within {_LONGEST:,} bytes.",
                    remedy="Look for a quote that is not closed.",
                    path=self.part.path,
                    line=line,
                )
            if blank and raw.strip(b"\r\n"):
                raise self._blank(line - n_lines(blank))
            body = len(raw.rstrip(b"\r\n"))
            kept = raw[: body + (2 if raw[body : body + 2] == b"\r\n" else 1)] if body else b""
            blank += raw[len(kept) :]
            if kept:
                chunk = self._chunk(kept, ends, row, line, offset)
                yield chunk
                row += chunk.n_records
            line, offset = line + n_lines(raw), offset + len(raw)
        if blank:
            yield Chunk(blank, row, line - n_lines(blank), 0)

    def _pieces(self) -> Iterator[bytes]:
        """Give the text after the mark in UTF-8."""
        with reading(self.part), opened(self.part.path, self.format.compression) as file:
            place, line = len(file.read(len(self.mark))), 1
            decoder = None if self.encoding == "utf-8" else codecs.getincrementaldecoder(self.encoding)()
            while True:
                raw = file.read(self.size)
                if decoder is None:
                    piece = raw
                else:
                    held: bytes = decoder.getstate()[0]
                    try:
                        text = decoder.decode(raw, not raw)
                    except UnicodeDecodeError as cause:
                        raise self._undecodable(place - len(held), held + raw, cause.start, line) from cause
                    place, line, piece = place + len(raw), line + text.count("\n"), text.encode()
                if piece:
                    yield piece
                if not raw:
                    return

    def _undecodable(self, offset: int, raw: bytes, start: int, line: int) -> InputError:
        """Say which byte is no text; ``raw`` begins after this many bytes, on this line."""
        seen = seen_instead(self._begin, self.format.kind)
        line += raw[:start].decode(self.encoding, "replace").count("\n")
        found = f"0x{raw[start]:02x}, on line {line}" if start < len(raw) else f"the end, on line {line}"
        return InputError(
            f"{self.part.name} is not {self.encoding}: byte {offset + start} ({found}) cannot be read.{f' {seen[0]}.' if seen else ''}",
            remedy=seen[1] if seen else "Say how it is encoded, such as encoding='latin-1' or 'cp1252'.",
            path=self.part.path,
            byte=offset + start,
            line=line,
        )

    def _fault(self, chunk: Chunk, cause: Exception) -> InputError:
        """Say what is wrong with a chunk that cannot be parsed."""
        try:
            chunk.raw.decode()
        except UnicodeDecodeError as other:
            if self.encoding == "utf-8":
                return self._undecodable(chunk.offset, chunk.raw, other.start, chunk.line)
        return InputError(
            f"{self.part.name} cannot be read after line {chunk.line}: {first_line(cause)}.",
            remedy="Check that it is whole, and say how it is encoded, such as encoding='latin-1' or 'cp1252'.",
            path=self.part.path,
            line=chunk.line,
        )

    def _chunk(self, raw: bytes, ends: Integers | None, row: int, line: int, offset: int) -> Chunk:
        if ends is None:
            n_records = raw.count(b"\n") + (not raw.endswith(b"\n"))
            gap = 0 if raw.startswith((b"\n", b"\r\n")) else max(raw.find(b"\n\n"), raw.find(b"\n\r\n")) + 1
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

    def _cut(self, raw: bytes, last: bool, line: int) -> tuple[bytes, Integers | None]:
        """Give the whole records at the start of some bytes, and where they end where that is not at every line feed."""
        return (raw if last else raw[: raw.rfind(b"\n") + 1]), None

    def _blank(self, line: int) -> InputError:
        return InputError(
            f"Line {line} of {self.part.name} is blank.",
            remedy='Remove it, or write "" for a field without text.' if self.format.kind != "jsonl" else "Remove it.",
            path=self.part.path,
            line=line,
        )


def n_lines(raw: bytes) -> int:
    r"""Count the ends of lines.

    Examples
    --------
    >>> n_lines(b"a\nb\r\nc\rd")
    3
    """
    returns = raw.count(b"\r")
    return raw.count(b"\n") + (returns - raw.count(b"\r\n") if returns else 0)


def settled_encoding(name: str, head: bytes) -> tuple[str, bytes]:
    r"""Give the encoding of text after its mark, and the mark.

    Raises
    ------
    ParameterError
        There is no such encoding.

    Examples
    --------
    >>> settled_encoding("utf_16", "a".encode("utf-16-be")), settled_encoding("UTF-16", b"\xfe\xff\0a")[0]
    (('utf-16-le', b''), 'utf-16-be')
    """
    try:
        "a".encode(name)
        codec = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise ParameterError(
            f"There is no encoding {name!r}.", remedy="Pass one such as utf-8, latin-1 or cp1252.", encoding=name
        ) from None
    if codec in ("utf-8", "utf-8-sig"):
        return "utf-8", codecs.BOM_UTF8 if head.startswith(codecs.BOM_UTF8) else b""
    wide = next((each for each in _WIDE if codec.startswith(each)), None)
    if wide is None:
        return codec, b""
    marks = {f"{wide}-{end}": "\ufeff".encode(f"{wide}-{end}") for end in ("le", "be")}
    found = [each for each, mark in marks.items() if head.startswith(mark) and codec in (wide, each)]
    if found:
        return found[0], marks[found[0]]
    return (f"{wide}-{sys.byteorder[0]}e" if codec == wide else codec), b""
