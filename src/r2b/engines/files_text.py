"""CSV and TSV part by part: the bytes of every record are at hand for writing, and columns come as text."""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from r2b._files.arrow import pyarrow
from r2b._files.delimited import DelimitedTable
from r2b._files.formats import Format
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files_listing import Part
from r2b.engines.files_stored import ReadJob, Stored, reading
from r2b.errors import InputError, ParameterError

Integers = NDArray[np.int64]

_CHUNK = 1 << 22
_LONGEST = 1 << 26  # bytes of one record
_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_QUOTE = ord('"')


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole records, as they stand in the file.

    Attributes
    ----------
    raw : bytes
    first : int
        Number of the first record.
    line : int
        Line on which it begins, from 1.
    n_records : int
    ends : ndarray or None
        Where records end; None where every line is one.
    """

    raw: bytes
    first: int
    line: int
    n_records: int
    ends: Integers | None = None

    def line_of(self, record: int) -> int:
        """Say on which line a record begins."""
        if self.ends is None or record == 0:
            return self.line + record
        return self.line + self.raw.count(b"\n", 0, int(self.ends[record - 1]))


class DelimitedStored(Stored):
    """A CSV or TSV file, possibly compressed.

    Parameters
    ----------
    part : Part
    format : Format
    delimiter : str, optional
    na : sequence of str
        Text that means missing.
    encoding : str
        One whose first 128 characters are those of ASCII, a byte each.
    size : int
        Bytes that are read at a time.
    """

    def __init__(
        self, part: Part, format: Format, delimiter: str | None, na: Sequence[str], encoding: str = "utf-8", size: int = _CHUNK
    ) -> None:
        self.part, self.format, self.na, self.size = part, format, tuple(na), size
        self.encoding = plain_encoding(encoding)
        with reading(part):
            self.n_bytes, _ = self.seen()
            with opened(part.path, format.compression) as file:
                head = file.read(size)
        if head.startswith(_WIDE_MARKS):
            raise InputError(
                f"{part.name} is text of two bytes a character (UTF-16), which is not read part by part.",
                remedy="Convert it to UTF-8, or read it into memory: --encoding utf-16 --no-stream on the command line.",
                path=part.path,
            )
        self.mark = _MARK if head.startswith(_MARK) and self.encoding == "utf-8" else b""
        head = head[len(self.mark) :]
        if b"\r" in head and b"\n" not in head:
            raise InputError(
                f"The lines of {part.name} end in a carriage return alone.",
                remedy="Convert its line ends, or read it into memory: --no-stream on the command line.",
                path=part.path,
            )
        text = (head[: head.rfind(b"\n") + 1] or head).decode(self.encoding, "replace")
        table = DelimitedTable.parse(text, part.name, format, delimiter, self.encoding)
        self.dialect, names = table.dialect, table.names
        self.header = text[: sum(map(len, table.lines[: table._ends[0]]))].encode(self.encoding)
        self.header_lines = table._ends[0]
        if not head.startswith(self.header):
            raise InputError(
                f"The first line of {part.name} is not {self.encoding}.",
                remedy="Say how it is encoded, such as encoding='latin-1' or 'cp1252'; --encoding on the command line.",
                path=part.path,
                line=1,
            )
        self.schema = pyarrow().schema([(name, pyarrow().string()) for name in names])
        self.n_rows = None

    @property
    def names(self) -> list[str]:
        """The names in the header."""
        return list(self.schema.names)

    def jobs(self, columns: Sequence[str], first: int, *, coded: Collection[str], rows: int) -> Iterator[ReadJob]:
        """Give one job per chunk, which parses it."""
        for chunk in self.chunks():
            yield ReadJob(chunk.n_records, partial(self.batches, chunk, list(columns), first, coded, rows), chunk)

    def batches(self, chunk: Chunk, columns: list[str], first: int, coded: Collection[str], rows: int) -> list[Batch]:
        """Parse a chunk; ``first`` is the number of the file's first row in the table."""
        if not chunk.n_records:
            return []
        if not columns:
            record = pyarrow().record_batch({"": pyarrow().nulls(chunk.n_records)})
            return [Batch(record, first + chunk.first, self.part.name, chunk.first)]
        table = self._parsed(chunk, columns, coded)
        found = in_batches(table, rows, first + chunk.first, self.part.name)
        return [Batch(each.record, each.first, each.place, each.offset + chunk.first) for each in found]

    def _parsed(self, chunk: Chunk, columns: list[str], coded: Collection[str]) -> Any:
        arrow, reader = pyarrow(), importlib.import_module("pyarrow.csv")
        kinds = {name: arrow.dictionary(arrow.int32(), arrow.string()) if name in coded else arrow.string() for name in columns}
        ragged: list[Any] = []

        def refuse(row: Any) -> str:
            ragged.append(row)
            return "error"

        try:
            table = reader.read_csv(
                arrow.BufferReader(chunk.raw),
                reader.ReadOptions(use_threads=False, block_size=len(chunk.raw) + 1, column_names=self.names, encoding=self.encoding),
                reader.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    newlines_in_values=chunk.ends is not None,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                reader.ConvertOptions(
                    column_types=kinds,
                    include_columns=columns,
                    null_values=list(self.na),
                    strings_can_be_null=True,
                ),
            )
        except (arrow.ArrowException, UnicodeError) as cause:
            raise self._fault(chunk, ragged, cause) from cause
        if table.num_rows != chunk.n_records:
            raise InputError(
                f"{self.part.name} has line ends of several kinds after line {chunk.line}.",
                remedy="Convert its line ends, or read it into memory: --no-stream on the command line.",
                path=self.part.path,
                line=chunk.line,
            )
        return table

    def _fault(self, chunk: Chunk, ragged: list[Any], cause: Exception) -> InputError:
        if ragged and ragged[0].number is not None:
            line = chunk.line_of(ragged[0].number - 1)
            found = int(ragged[0].actual_columns)
            return InputError(
                f"Line {line} of {self.part.name} has {found} field{'' if found == 1 else 's'}, but the header has {len(self.names)}.",
                remedy="Correct the line, or say how fields are separated: delimiter=';' or the like, --delimiter on the command line.",
                path=self.part.path,
                line=line,
                n_fields=found,
                n_names=len(self.names),
            )
        return InputError(
            f"{self.part.name} cannot be read after line {chunk.line}: {str(cause).splitlines()[0].rstrip('.')}.",
            remedy="Check that it is whole, and say how it is encoded, such as encoding='latin-1'; --encoding on the command line.",
            path=self.part.path,
            line=chunk.line,
        )

    def chunks(self) -> Iterator[Chunk]:
        """Cut the file after its header into whole records; blank lines at its end come last, as a chunk without records."""
        row, line, blank, carry, last = 0, 1 + self.header_lines, b"", b"", False
        with reading(self.part), opened(self.part.path, self.format.compression) as file:
            file.read(len(self.mark) + len(self.header))
            while not last:
                more = file.read(self.size)
                last = not more
                raw, ends = self._cut(carry + more, last, line)
                carry = (carry + more)[len(raw) :]
                if len(carry) > _LONGEST:
                    raise InputError(
                        f"The record on line {line} of {self.part.name} does not end within {_LONGEST:,} bytes.",
                        remedy="Look for a quote that is not closed.",
                        path=self.part.path,
                        line=line,
                    )
                if blank and raw.strip(b"\r\n"):
                    raise self._blank(line - blank.count(b"\n"))
                body = len(raw.rstrip(b"\r\n"))
                end = raw.find(b"\n", body) + 1
                kept = raw[: end or len(raw)] if body else b""
                blank += raw[len(kept) :]
                if kept:
                    chunk = self._chunk(kept, ends, row, line)
                    yield chunk
                    row += chunk.n_records
                line += raw.count(b"\n")
        if blank:
            if len(self.names) == 1:
                raise self._blank(line - blank.count(b"\n"))
            yield Chunk(blank, row, line, 0)

    def _chunk(self, raw: bytes, ends: Integers | None, row: int, line: int) -> Chunk:
        if ends is None:
            n_records = raw.count(b"\n") + (not raw.endswith(b"\n"))
            gap = 0 if raw.startswith((b"\n", b"\r\n")) else max(raw.find(b"\n\n"), raw.find(b"\n\r\n")) + 1
            if gap or raw.startswith((b"\n", b"\r\n")):
                raise self._blank(line + raw.count(b"\n", 0, gap))
            return Chunk(raw, row, line, n_records)
        ends = ends[ends <= len(raw)]
        starts = np.concatenate([[0], ends[:-1]])
        short = np.flatnonzero(ends - starts <= 2)
        for place in short.tolist():
            if not raw[starts[place] : ends[place]].strip(b"\r\n"):
                raise self._blank(line + raw.count(b"\n", 0, int(starts[place])))
        return Chunk(raw, row, line, len(ends), ends)

    def _cut(self, raw: bytes, last: bool, line: int) -> tuple[bytes, Integers | None]:
        """Give the whole records at the start of some bytes, and where they end where that is not plain."""
        if b'"' not in raw:
            return (raw if last else raw[: raw.rfind(b"\n") + 1]), None
        ends = record_ends(raw, ord(self.dialect.delimiter))
        if ends is None:
            ends = self._ends_one_by_one(raw, last, line)
        if last and (not len(ends) or ends[-1] < len(raw)):
            ends = np.append(ends, len(raw))
        return raw[: int(ends[-1]) if len(ends) else 0], ends

    def _ends_one_by_one(self, raw: bytes, last: bool, line: int) -> Integers:
        """Find ends of records where quotes stand in odd places, as the reader of whole files does."""
        lines = raw.splitlines(keepends=True) if b"\r" not in raw else [each + b"\n" for each in raw.split(b"\n")]
        places = np.cumsum([len(each) for each in lines])
        texts = [each.decode("latin-1") for each in lines]
        reader = csv.reader(texts, delimiter=self.dialect.delimiter, strict=True)
        ends: list[int] = []
        while True:
            try:
                next(reader)
            except StopIteration:
                break
            except csv.Error as cause:
                if "unexpected end" in str(cause) and not last:
                    break
                raise InputError(
                    f"{self.part.name} cannot be read from line {line + reader.line_num - 1} on: {cause}.",
                    remedy="A field with quotes inside must be in quotes, and each of its quotes written twice.",
                    path=self.part.path,
                    line=line + reader.line_num - 1,
                ) from cause
            ends.append(int(places[reader.line_num - 1]))
        found = np.array(ends, np.int64)
        return found[found <= len(raw)] if raw.endswith(b"\n") or last else found[found <= raw.rfind(b"\n") + 1]

    def _blank(self, line: int) -> InputError:
        return InputError(
            f"Line {line} of {self.part.name} is blank.",
            remedy='Remove it, or write "" for a field without text.',
            path=self.part.path,
            line=line,
        )


def record_ends(raw: bytes, delimiter: int) -> Integers | None:
    r"""Find where records end in bytes with quotes; None where a quote stands where none begins or ends a field.

    Examples
    --------
    >>> record_ends(b'a,"b\n"\nc,d\n', ord(","))
    array([ 7, 11])
    """
    seen = np.frombuffer(raw, np.uint8)
    quotes, lines = np.flatnonzero(seen == _QUOTE), np.flatnonzero(seen == ord("\n"))
    around = np.zeros(256, bool)
    around[[delimiter, ord("\n"), ord("\r"), _QUOTE]] = True
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = seen[opening[opening > 0] - 1], seen[closing[closing < len(seen) - 1] + 1]
    if not (around[before].all() and around[after].all()):
        return None
    return np.asarray(lines[np.searchsorted(quotes, lines) % 2 == 0] + 1, np.int64)


def opened(path: str, compression: str) -> BinaryIO:
    """Open a file for reading, decompressed on the way."""
    if not compression:
        return open(path, "rb")
    if compression == "zst":
        stream: Any = pyarrow().input_stream(path, compression="zstd")
        return stream  # type: ignore[no-any-return]
    module: Any = importlib.import_module({"gz": "gzip", "bz2": "bz2", "xz": "lzma"}[compression])
    found: BinaryIO = module.open(os.fspath(path), "rb")
    return found


def plain_encoding(name: str) -> str:
    """Give the name of an encoding in which text can be cut between bytes.

    Raises
    ------
    ParameterError
        It is not one of single bytes, nor UTF-8.
    """
    try:
        ascii_alike = all(bytes([byte]).decode(name) == chr(byte) for byte in range(128))
    except (LookupError, UnicodeError):
        ascii_alike = False
    spelled = name.lower().replace("_", "-")
    if spelled in ("utf-8", "utf8", "utf-8-sig"):
        return "utf-8"
    if not ascii_alike or not all(len(chr(code).encode(name, "replace")) == 1 for code in (0xE9, 0x20AC, 0x4E2D)):
        raise ParameterError(
            f"A file in the encoding {name!r} is not read part by part.",
            remedy="Convert it to utf-8, or read it into memory: --no-stream on the command line.",
            encoding=name,
        )
    return name
