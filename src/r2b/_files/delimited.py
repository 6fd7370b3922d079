"""CSV and TSV: the text of every record is kept as it stands, and new fields are written after it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from r2b._files.formats import Format
from r2b._files.plain import as_text
from r2b._files.table import Table
from r2b.errors import EmptyError, InputError

_OTHERS = (";", "\t", "|")  # delimiters looked for where a header has no comma
_MARKS = (",", *_OTHERS)


@dataclass(frozen=True)
class Dialect:
    """How a delimited file is written.

    Attributes
    ----------
    delimiter : str
    newline : str
        Of the header's line.
    quote_all : bool
        Every name in the header is in quotes; new fields then are as well.
    encoding : str
    """

    delimiter: str
    newline: str = "\n"
    quote_all: bool = False
    encoding: str = "utf-8"

    def joined(self, rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> list[str]:
        """Give each row as the text of one record, without the end of the line."""
        out: list[str] = []
        quoting: Literal[0, 1] = csv.QUOTE_ALL if self.quote_all else csv.QUOTE_MINIMAL
        # The writer quotes a line end inside a field only where it ends lines with such a character itself.
        csv.writer(_Sink(out), delimiter=self.delimiter, lineterminator="\r\n", quoting=quoting).writerows(rows)
        return [text[:-2] for text in out]


class _Sink:
    """A file that keeps each write apart."""

    def __init__(self, out: list[str]) -> None:
        self.write = out.append


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
    def read(cls, text: str, file: str, format: Format, delimiter: str | None, encoding: str = "utf-8") -> Header:
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
            raise EmptyError(f"{file} is empty.", remedy="Pass a file with a header and at least one row.", path=file)
        first = next(_lines(text)).strip()
        if re.fullmatch(r"sep=.", first.strip('"').lower()):
            raise InputError(
                f"The first line of {file}, {first!r}, is a note to a spreadsheet, not a header.",
                remedy="Remove the line; where the header does not tell the delimiter, pass it with --delimiter.",
                path=file,
                line=1,
            )
        if delimiter is None:
            delimiter = "\t" if format.kind == "tsv" else _delimiter_of(text)
        reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
        names = next(guarded(reader, file), [])
        if not names:
            raise InputError(f"The first line of {file} is blank.", remedy="Put the names of the columns there.", path=file, line=1)
        raw = "".join(line for line, _ in zip(_lines(text), range(reader.line_num), strict=False))
        newline = raw[len(raw.rstrip("\r\n")) :] or "\n"
        quoted = Dialect(delimiter, newline, True).joined([names])[0] == raw.rstrip("\r\n")
        return cls(file, tuple(names), Dialect(delimiter, newline, quoted, encoding), raw, reader.line_num)

    def remedy_for(self, name: str) -> str:
        """Say what to do about a name that is not there where the header may be split at the wrong mark; else nothing."""
        marks = (mark for mark in _MARKS if mark != self.dialect.delimiter and name in _split(self.raw, mark))
        return next((_separated(mark) for mark in marks), "")

    def ragged(self, record: str, n_fields: int, first: int) -> InputError:
        """Say that a record, which begins on this line, has more or fewer fields than the header."""
        last = first + len(list(_lines(record))) - 1
        where = f"Line {first}" if last == first else f"The record on lines {first} to {last}"
        remedy = "Correct the line, or say how fields are separated: delimiter=';' or the like, --delimiter on the command line."
        if n_fields == len(self.names) + 1 and record.rstrip("\r\n").endswith(self.dialect.delimiter):
            remedy = f"Take the {_spelled(self.dialect.delimiter)} from the end of every line, or put one at the end of the header."
        for mark in _MARKS:  # where another one makes header and line agree, it is the delimiter that is wrong, not the line
            if 1 < len(_split(self.raw, mark)) == len(_split(record, mark)) and mark != self.dialect.delimiter:
                remedy = _separated(mark)
        return InputError(
            f"{where} of {self.file} has {n_fields} field{'' if n_fields == 1 else 's'}, but the header has {len(self.names)}.",
            remedy=remedy,
            path=self.file,
            line=first,
            n_fields=n_fields,
            n_names=len(self.names),
        )


@dataclass(eq=False)
class DelimitedTable(Table):
    """A CSV or TSV file.

    Attributes
    ----------
    lines : list of str
        The text, line by line with line ends; a record may span several.
    dialect : Dialect
    """

    name: str
    format: Format
    lines: list[str]
    header: Header
    names: tuple[str, ...] = field(init=False)
    _ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.names = self.header.names
        self._ends = [self.header.n_lines]

    @classmethod
    def parse(cls, text: str, name: str, format: Format, delimiter: str | None, encoding: str) -> DelimitedTable:
        """Read the header and keep the text."""
        return cls(name, format, list(_lines(text)), Header.read(text, name, format, delimiter, encoding))

    @property
    def dialect(self) -> Dialect:
        """How the file is written."""
        return self.header.dialect

    @property
    def n_rows(self) -> int:
        """The number of records after the header."""
        if len(self._ends) == 1:
            self.columns(())
        return len(self._ends) - 1

    def columns(self, wanted: Sequence[str]) -> dict[str, list[str]]:
        """Give columns as lists of text, and check every record on the way."""
        reader = csv.reader(self.lines, delimiter=self.dialect.delimiter, strict=True)
        next(reader)
        found: dict[str, list[str]] = {name: [] for name in wanted}
        # One pass that keeps what is wanted: the other fields are gone as soon as they are read.
        takers = [(column.append, self.names.index(name)) for name, column in found.items()]
        ends = self._ends[:1]
        for record in self._records(reader):
            if len(record) != len(self.names):
                text = "".join(self.lines[ends[-1] : reader.line_num])
                raise self.header.ragged(text, len(record), ends[-1] + 1)
            for take, place in takers:
                take(record[place])
            ends.append(reader.line_num)
        if len(ends) == 1:
            raise EmptyError(f"{self.name} has a header and no rows.", remedy="Pass at least one row.", path=self.name)
        self._ends = ends
        return found

    def encoded(self, new: Mapping[str, Sequence[Any]], rows: Sequence[int] | None = None) -> bytes:
        """Write new fields after the text of each record."""
        fields = [as_text(values, name) for name, values in new.items()]
        last = self.n_rows - 1
        order = range(last + 1) if rows is None else rows
        tails = self.dialect.joined(list(zip(*fields, strict=True))) if fields else [""] * len(order)
        head = self.dialect.joined([list(new)])[0] if fields else ""
        between = self.dialect.delimiter if fields else ""
        first, end = self._raw(-1)
        out = [first, between, head, end or self.dialect.newline]
        for row, tail in zip(order, tails, strict=True):
            raw, end = self._raw(int(row))
            out += (raw, between, tail, end or self.dialect.newline)
        if not self._raw(last)[1]:
            out[-1] = ""  # the file did not end its last line, and still does not
        out += self.lines[self._ends[-1] :]
        return "".join(out).encode(self.dialect.encoding)

    def remedy_for(self, name: str) -> str:
        """Say what to do about a name that is not there; the whole header may be split at the wrong mark."""
        return self.header.remedy_for(name) or super().remedy_for(name)

    def place(self, row: int) -> str:
        """Say on which line a row begins."""
        return f"row {row} (line {self._ends[row] + 1})"

    def _raw(self, row: int) -> tuple[str, str]:
        """Give the text of a record and the end of its line; the header is row -1."""
        begin, end = (self._ends[row] if row >= 0 else 0), self._ends[row + 1]
        raw = self.lines[begin] if end == begin + 1 else "".join(self.lines[begin:end])
        for newline in ("\r\n", "\n", "\r"):
            if raw.endswith(newline):
                return raw[: -len(newline)], newline
        return raw, ""

    def _records(self, reader: Any) -> Iterator[list[str]]:
        """Give the records after the header; blank lines may only end the file, and are kept there."""
        blank = 0
        for record in guarded(reader, self.name):
            if record and blank:
                break
            if record:
                yield record
            else:
                blank = blank or reader.line_num
        else:
            if not blank or len(self.names) > 1:
                return
        raise InputError(
            f"Line {blank} of {self.name} is blank.", remedy='Remove it, or write "" for a field without text.', path=self.name, line=blank
        )


def _separated(mark: str) -> str:
    text = _spelled(mark)
    return f"Fields seem to be separated by {text}: delimiter={text}, --delimiter {text} on the command line."


def _spelled(mark: str) -> str:
    return "'\\t'" if mark == "\t" else f"'{mark}'"


def _lines(text: str) -> Iterator[str]:
    return io.StringIO(text, newline="")


def _split(line: str, mark: str) -> list[str]:
    """Split the first line of a text at a mark; one that cannot be has no fields."""
    try:
        return next(csv.reader([next(_lines(line), "").strip("\r\n")], delimiter=mark, strict=True), [])
    except csv.Error:
        return []


def guarded(reader: Any, name: str) -> Iterator[list[str]]:
    """Give what a reader of CSV gives; what it cannot read is an error that names the line."""
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as cause:
            raise InputError(
                f"{name} cannot be read from line {line} on: {cause}.",
                remedy="A field with quotes inside must be in quotes, and each of its quotes written twice.",
                path=name,
                line=line,
            ) from cause
        yield record


def _delimiter_of(text: str) -> str:
    """Take a comma, unless the header has none and has another of the usual marks."""
    with_comma = next(csv.reader(_lines(text)), [])
    if len(with_comma) == 1:
        for mark in _OTHERS:
            if mark in with_comma[0] and len(next(csv.reader(_lines(text), delimiter=mark), [])) > 1:
                return mark
    return ","
