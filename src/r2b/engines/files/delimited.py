"""CSV and TSV part by part; columns come as text.

pyarrow parses the fields. Where records end is found here, because the bytes of a record are
written again as they are, and because pyarrow passes over blank lines.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import pyarrow
from r2b._files.formats import Dialect, Format
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import (
    Chunk,
    TextStored,
    Wanted,
    column_texts,
    n_lines,
    no_columns,
    repeated_rows,
)
from r2b.engines.source import NewColumns
from r2b.errors import EmptyError, InputError

_MARKS = (",", ";", "\t", "|")  # delimiters that are looked for in a header, in this order


@dataclass(frozen=True)
class Header:
    """The first record of a delimited file.

    Attributes
    ----------
    file : str
        How errors call the file.
    names : tuple of str
    dialect : Dialect
    raw : str
        Its text, with the end of its line.
    n_lines : int
        Lines that it takes.
    """

    file: str
    names: tuple[str, ...]
    dialect: Dialect
    raw: str
    n_lines: int

    @classmethod
    def read(cls, text: str, file: str, format: Format, delimiter: str | None) -> Header:
        """Read the header at the start of a text.

        Raises
        ------
        EmptyError
            There is none.
        InputError
            The first line is no header.
        """
        csv.field_size_limit(2**31 - 1)  # the largest number that every platform takes
        if not text.strip("\r\n"):
            remedy = "Pass a file with a header and at least one row."
            raise EmptyError(f"{file} is empty.", remedy=remedy, path=file)
        first = next(_lines(text)).strip()
        if re.fullmatch(r"sep=.", first.strip('"').lower()):
            problem = (
                f"The first line of {file}, {first!r}, is a note to a spreadsheet, not a header."
            )
            remedy = (
                "Remove the line. Where the header does not tell the delimiter, pass `delimiter`."
            )
            raise InputError(problem, remedy=remedy, path=file, line=1)
        if delimiter is None:
            delimiter = "\t" if format.kind == "tsv" else _delimiter_of(text)
        reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
        try:
            names = next(reader, [])
        except csv.Error as cause:
            raise _unreadable(file, 1, cause) from cause
        if not names:
            remedy = "Put the names of the columns there."
            raise InputError(
                f"The first line of {file} is blank.", remedy=remedy, path=file, line=1
            )
        raw = "".join(islice(_lines(text), reader.line_num))
        body = raw.rstrip("\r\n")
        newline = raw[len(body) :] or "\n"
        quoted = Dialect(delimiter, newline, True).joined([names])[0] == body
        return cls(file, tuple(names), Dialect(delimiter, newline, quoted), raw, reader.line_num)

    def remedy_for(self, name: str) -> str:
        """Return a remedy for a missing column if another delimiter shows it; else nothing."""
        for mark in _MARKS:
            if mark != self.dialect.delimiter and name in _split(self.raw, mark):
                return _separated(mark)
        return ""

    def ragged(self, record: str, n_fields: int, first: int) -> InputError:
        """Return the error that a record, which begins on this line, has a wrong field count."""
        last = first + len(list(_lines(record))) - 1
        where = f"Line {first}" if last == first else f"The record on lines {first} to {last}"
        own = self.dialect.delimiter
        remedy = "Correct the line, or say how fields are separated, such as `delimiter=';'`."
        if n_fields == len(self.names) + 1 and record.rstrip("\r\n").endswith(own):
            remedy = (
                f"Take the {own!r} from the end of every line, or put one at the end of the header."
            )
        for mark in _MARKS:
            if mark != own and 1 < len(_split(self.raw, mark)) == len(_split(record, mark)):
                remedy = _separated(mark)
        return InputError(
            f"{where} of {self.file} has {n_fields} field{'' if n_fields == 1 else 's'}, but the "
            f"header has {len(self.names)}.",
            remedy=remedy,
            path=self.file,
            line=first,
            n_fields=n_fields,
            n_names=len(self.names),
        )


class DelimitedStored(TextStored):
    """A CSV or TSV file, possibly compressed.

    Parameters
    ----------
    part : Part
    format : Format
    delimiter : str, optional
    na : sequence of str
        Text that means missing.
    encoding : str

    Attributes
    ----------
    header : Header
    dialect : Dialect
    """

    def __init__(
        self, part: Part, format: Format, delimiter: str | None, na: Sequence[str], encoding: str
    ) -> None:
        super().__init__(part, format, encoding)
        self.na = tuple(na)
        self.header = Header.read(self.start(), part.name, format, delimiter)
        self.dialect = self.header.dialect
        self._header, self._header_lines = self.header.raw.encode(), self.header.n_lines
        self.schema = pyarrow().schema([(name, pyarrow().string()) for name in self.header.names])

    def header_with(self, new: Sequence[str]) -> bytes:
        """Return the header as it stands, with new names at its end."""
        raw, dialect = self.header.raw, self.dialect
        body = raw.rstrip("\r\n")
        added = dialect.joined([list(new)])[0]
        return f"{body}{dialect.delimiter}{added}{raw[len(body) :] or dialect.newline}".encode()

    def remedy_for(self, column: str) -> str:
        """Return another delimiter, if it shows the column."""
        return self.header.remedy_for(column)

    @property
    def shown(self) -> str:
        """The delimiter that the header shows."""
        return Header.read(self.header.raw, self.part.name, self.format, None).dialect.delimiter

    def chunks(self, size: int | None = None) -> Iterator[Chunk]:
        """Cut the file; of one column, a blank line at its end might be a record."""
        for chunk in super().chunks(size):
            if not chunk.n_records and len(self.header.names) == 1:
                raise self._blank(chunk.line)
            yield chunk

    def parsed(self, chunk: Chunk, wanted: Wanted, *, spelled: bool) -> Any:
        """Parse a chunk."""
        names, columns = self.schema.names, wanted.columns
        place = {name: number for number, name in enumerate(names)}
        places = range(len(names)) if columns is None else [place[name] for name in columns]
        if not places:
            return no_columns(chunk.n_records)
        return self._table(chunk, places, wanted.coded, () if spelled else self.na)

    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Return the records of a chunk with new fields after each."""
        if not chunk.n_records:
            return chunk.raw
        dialect = self.dialect
        bodies, ends = _records(chunk)
        tails = column_texts(made, dialect.records)
        order = repeated_rows(made)
        if order is not None:
            open_end = not ends[-1]
            newline = dialect.newline.encode()
            bodies, ends = [bodies[row] for row in order], [ends[row] or newline for row in order]
            if open_end:
                ends[-1] = b""
        pieces: list[bytes] = [dialect.delimiter.encode()] * (4 * len(bodies))
        pieces[0::4], pieces[2::4], pieces[3::4] = bodies, tails, ends
        return b"".join(pieces)

    def _table(
        self, chunk: Chunk, places: Sequence[int], coded: Collection[str], na: Sequence[str]
    ) -> Any:
        arrow, reader, names = pyarrow(), importlib.import_module("pyarrow.csv"), self.schema.names
        text, codes = arrow.string(), arrow.dictionary(arrow.int32(), arrow.string())
        kinds = {str(place): codes if names[place] in coded else text for place in places}
        ragged: list[Any] = []

        def refuse(row: Any) -> str:
            ragged.append(row)
            return "error"

        try:
            table = reader.read_csv(
                arrow.BufferReader(chunk.raw),
                reader.ReadOptions(
                    use_threads=False,
                    block_size=len(chunk.raw) + 1,
                    # By their numbers: several columns may have one name.
                    column_names=list(map(str, range(len(names)))),
                ),
                reader.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    newlines_in_values=chunk.ends is not None,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                reader.ConvertOptions(
                    column_types=kinds,
                    include_columns=list(kinds),
                    null_values=list(na),
                    strings_can_be_null=True,
                ),
            )
        except (arrow.ArrowException, UnicodeError) as cause:
            if not ragged or ragged[0].number is None:
                raise self._fault(chunk, cause) from cause
            number = ragged[0].number - 1
            n_fields, line = int(ragged[0].actual_columns), chunk.line_of(number)
            raise self.header.ragged(chunk.record(number), n_fields, line) from cause
        if table.num_rows != chunk.n_records:
            problem = f"it has {table.num_rows:,} records, not {chunk.n_records:,}"
            raise self._fault(chunk, ValueError(problem))
        return table.rename_columns([names[place] for place in places])

    def _cut(self, raw: bytes, last: bool, line: int) -> tuple[bytes, Whole | None]:
        # A carriage return at the end may belong to a line feed that follows.
        held = raw.endswith(b"\r") and not last
        alone = b"\r" in raw and raw.count(b"\r") - raw.count(b"\r\n") - held
        if b'"' not in raw and not alone:
            return super()._cut(raw, last, line)
        ends = record_ends(raw, ord(self.dialect.delimiter), bool(alone))
        if ends is None or (last and raw.count(b'"') % 2):
            ends = self._ends_one_by_one(raw, last, line)
        if last and (not len(ends) or ends[-1] < len(raw)):
            ends = np.append(ends, len(raw))
        elif not last and len(ends) and ends[-1] == len(raw) and raw.endswith(b"\r"):
            ends = ends[:-1]
        return raw[: int(ends[-1]) if len(ends) else 0], ends

    def _ends_one_by_one(self, raw: bytes, last: bool, line: int) -> Whole:
        """Find ends of records where quotes stand inside fields."""
        lines = raw.splitlines(keepends=True)
        places = np.cumsum([len(each) for each in lines])
        text = (each.decode("latin-1") for each in lines)
        reader = csv.reader(text, delimiter=self.dialect.delimiter, strict=True)
        ends: list[int] = []
        try:
            for _ in reader:
                ends.append(int(places[reader.line_num - 1]))
        except csv.Error as cause:
            if last or "unexpected end" not in str(cause):
                wrong = line + n_lines(raw[: ends[-1]] if ends else b"")
                raise _unreadable(self.part.name, wrong, cause) from cause
        found = np.array(ends, np.int64)
        whole = last or raw.endswith((b"\r", b"\n"))
        return found if whole else found[found < len(raw)]


def record_ends(raw: bytes, delimiter: int, alone: bool = False) -> Whole | None:
    r"""Find where records end in bytes with quotes; None if a quote stands inside a field.

    With ``alone``, carriage returns that no line feed follows end lines as well.

    Examples
    --------
    >>> record_ends(b'a,"b\n"\nc,d\n', ord(","))
    array([ 7, 11])
    """
    seen = np.frombuffer(raw, np.uint8)
    lines = seen == ord("\n")
    if alone:
        returns = seen == ord("\r")
        returns[:-1] &= ~lines[1:]
        lines |= returns
    quotes, ends = np.flatnonzero(seen == ord('"')), np.flatnonzero(lines)
    around = np.zeros(256, bool)
    around[[delimiter, *b'\r\n"']] = True
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = seen[opening[opening > 0] - 1], seen[closing[closing < len(seen) - 1] + 1]
    if not (around[before].all() and around[after].all()):
        return None
    return np.asarray(ends[np.searchsorted(quotes, ends) % 2 == 0] + 1, np.int64)


def _separated(mark: str) -> str:
    return f"Fields seem to be separated by {mark!r}: pass `delimiter={mark!r}`."


def _lines(text: str) -> Iterator[str]:
    return io.StringIO(text, newline="")


def _split(text: str, mark: str) -> list[str]:
    """Split the first line of a text at a mark; one that cannot be has no fields."""
    try:
        first = next(_lines(text), "").strip("\r\n")
        return next(csv.reader([first], delimiter=mark, strict=True), [])
    except csv.Error:
        return []


def _unreadable(file: str, line: int, cause: csv.Error) -> InputError:
    problem = f"{file} cannot be read from line {line} on: {cause}."
    remedy = "A field with quotes inside must be in quotes, and each of its quotes written twice."
    return InputError(problem, remedy=remedy, path=file, line=line)


def _delimiter_of(text: str) -> str:
    """Return the first mark that splits the header; a comma if none does."""
    for mark in _MARKS:
        if len(next(csv.reader(_lines(text), delimiter=mark), [])) > 1:
            return mark
    return ","


def _records(chunk: Chunk) -> tuple[list[bytes], list[bytes]]:
    """Return the text of each record and the end of its line."""
    raw = chunk.raw
    if chunk.ends is None and b"\r" not in raw:
        last = b"\n" if raw.endswith(b"\n") else b""
        ends = [b"\n"] * (chunk.n_records - 1) + [last]
        return raw.split(b"\n")[: chunk.n_records], ends
    records = raw.splitlines(keepends=True)
    if chunk.ends is not None:
        records = [raw[start:stop] for start, stop in pairwise([0, *chunk.ends.tolist()])]
    bodies = [record.rstrip(b"\r\n") for record in records]
    return bodies, [record[len(body) :] for record, body in zip(records, bodies, strict=True)]
