"""CSV and TSV part by part; columns come as text."""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import pyarrow
from r2b._files.formats import Dialect, Format
from r2b.engines.batch import Batch, in_batches
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import Chunk, TextStored, column_texts, leaving_rows, n_lines
from r2b.engines.source import NewColumns
from r2b.errors import EmptyError, InputError

_QUOTE = ord('"')
_OTHERS = (";", "\t", "|")  # delimiters looked for where a header has no comma
_MARKS = (",", *_OTHERS)


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
            raise EmptyError(
                f"{file} is empty.",
                remedy="Pass a file with a header and at least one row.",
                path=file,
            )
        first = next(_lines(text)).strip()
        if re.fullmatch(r"sep=.", first.strip('"').lower()):
            problem = (
                f"The first line of {file}, {first!r}, is a note to a spreadsheet, not a header."
            )
            remedy = "Remove the line; where the header does not tell the delimiter, pass it with --delimiter."
            raise InputError(problem, remedy=remedy, path=file, line=1)
        if delimiter is None:
            delimiter = "\t" if format.kind == "tsv" else _delimiter_of(text)
        reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
        try:
            names = next(reader, [])
        except csv.Error as cause:
            raise _unreadable(file, 1, cause) from cause
        if not names:
            raise InputError(
                f"The first line of {file} is blank.",
                remedy="Put the names of the columns there.",
                path=file,
                line=1,
            )
        raw = "".join(line for line, _ in zip(_lines(text), range(reader.line_num), strict=False))
        newline = raw[len(raw.rstrip("\r\n")) :] or "\n"
        quoted = Dialect(delimiter, newline, True).joined([names])[0] == raw.rstrip("\r\n")
        return cls(file, tuple(names), Dialect(delimiter, newline, quoted), raw, reader.line_num)

    def remedy_for(self, name: str) -> str:
        """Say what to do about a name that is not there where the header may be split at the wrong mark; else nothing."""
        marks = (
            mark
            for mark in _MARKS
            if mark != self.dialect.delimiter and name in _split(self.raw, mark)
        )
        return next((_separated(mark) for mark in marks), "")

    def ragged(self, record: str, n_fields: int, first: int) -> InputError:
        """Say that a record, which begins on this line, has more or fewer fields than the header."""
        last = first + len(list(_lines(record))) - 1
        where = f"Line {first}" if last == first else f"The record on lines {first} to {last}"
        remedy = "Correct the line, or say how fields are separated: delimiter=';' or the like, --delimiter on the command line."
        if n_fields == len(self.names) + 1 and record.rstrip("\r\n").endswith(
            self.dialect.delimiter
        ):
            remedy = f"Take the {_spelled(self.dialect.delimiter)} from the end of every line, or put one at the end of the header."
        # where another one makes header and line agree, it is the delimiter that is wrong, not the
        # line
        for mark in _MARKS:
            if (
                1 < len(_split(self.raw, mark)) == len(_split(record, mark))
                and mark != self.dialect.delimiter
            ):
                remedy = _separated(mark)
        problem = f"{where} of {self.file} has {n_fields} field{'' if n_fields == 1 else 's'}, but the header has {len(self.names)}."
        return InputError(
            problem,
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

    def chunks(self) -> Iterator[Chunk]:
        """Cut the file; of one column, a blank line at its end might be a record."""
        for chunk in super().chunks():
            if not chunk.n_records and len(self.header.names) == 1:
                raise self._blank(chunk.line)
            yield chunk

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
        """Parse a chunk."""
        if not chunk.n_records:
            return []
        names = self.schema.names
        places = range(len(names)) if columns is None else [names.index(name) for name in columns]
        if not places:
            return [
                Batch(
                    pyarrow().record_batch({"": pyarrow().nulls(chunk.n_records)}),
                    first + chunk.first,
                    self.part.name,
                    chunk.first,
                )
            ]
        table = self._parsed(chunk, places, coded, () if spelled else self.na)
        return list(in_batches(table, rows, first + chunk.first, self.part.name, chunk.first))

    def extended(self, chunk: Chunk, made: Sequence[NewColumns]) -> bytes:
        """Give the records of a chunk with new fields after each."""
        if not chunk.n_records:
            return chunk.raw
        dialect = self.dialect
        newline = dialect.newline.encode()
        bodies, ends = _records(chunk)
        tails = column_texts(made, dialect.records)
        order = leaving_rows(made)
        if order is not None:
            open_end = chunk.raw[-1:] not in (b"\n", b"\r")
            bodies, ends = [bodies[row] for row in order], [ends[row] or newline for row in order]
            if open_end:
                ends[-1] = b""
        pieces: list[bytes] = [dialect.delimiter.encode()] * (4 * len(bodies))
        pieces[0::4], pieces[2::4], pieces[3::4] = bodies, tails, ends
        return b"".join(pieces)

    def _parsed(
        self, chunk: Chunk, places: Sequence[int], coded: Collection[str], na: Sequence[str]
    ) -> Any:
        arrow, reader, names = pyarrow(), importlib.import_module("pyarrow.csv"), self.schema.names
        plain, codes = arrow.string(), arrow.dictionary(arrow.int32(), arrow.string())
        ragged: list[Any] = []

        def refuse(row: Any) -> str:
            ragged.append(row)
            return "error"

        try:
            # By their numbers: several columns may have one name.
            table = reader.read_csv(
                arrow.BufferReader(chunk.raw),
                reader.ReadOptions(
                    use_threads=False,
                    block_size=len(chunk.raw) + 1,
                    column_names=list(map(str, range(len(names)))),
                ),
                reader.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    newlines_in_values=chunk.ends is not None,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                reader.ConvertOptions(
                    column_types={
                        str(place): codes if names[place] in coded else plain for place in places
                    },
                    include_columns=list(map(str, places)),
                    null_values=list(na),
                    strings_can_be_null=True,
                ),
            )
        except (arrow.ArrowException, UnicodeError) as cause:
            if ragged and ragged[0].number is not None:
                number = ragged[0].number - 1
                raise self.header.ragged(
                    chunk.record(number), int(ragged[0].actual_columns), chunk.line_of(number)
                ) from cause
            raise self._fault(chunk, cause) from cause
        if table.num_rows != chunk.n_records:
            raise self._fault(
                chunk,
                ValueError(
                    f"it has {table.num_rows:,} records where {chunk.n_records:,} were expected"
                ),
            )
        return table.rename_columns([names[place] for place in places])

    def _cut(self, raw: bytes, last: bool, line: int) -> tuple[bytes, Whole | None]:
        alone = b"\r" in raw and raw.count(b"\r") - raw.count(b"\r\n") - (
            raw.endswith(b"\r") and not last
        )
        if b'"' not in raw and not alone:
            return super()._cut(raw, last, line)
        ends = record_ends(raw, ord(self.dialect.delimiter), bool(alone))
        if ends is None or (last and raw.count(b'"') % 2):
            ends = self._ends_one_by_one(raw, last, line)
        if last and (not len(ends) or ends[-1] < len(raw)):
            ends = np.append(ends, len(raw))
        elif not last and len(ends) and ends[-1] == len(raw) and raw.endswith(b"\r"):
            ends = ends[:-1]  # a line feed may follow
        return raw[: int(ends[-1]) if len(ends) else 0], ends

    def _ends_one_by_one(self, raw: bytes, last: bool, line: int) -> Whole:
        """Find ends of records where quotes stand in odd places."""
        lines = raw.splitlines(keepends=True)
        places = np.cumsum([len(each) for each in lines])
        reader = csv.reader(
            (each.decode("latin-1") for each in lines),
            delimiter=self.dialect.delimiter,
            strict=True,
        )
        ends: list[int] = []
        while True:
            try:
                next(reader)
            except StopIteration:
                break
            except csv.Error as cause:
                if "unexpected end" in str(cause) and not last:
                    break
                # The record that it is in begins after the last whole one.
                wrong = line + n_lines(raw[: ends[-1]] if ends else b"")
                raise _unreadable(self.part.name, wrong, cause) from cause
            ends.append(int(places[reader.line_num - 1]))
        found = np.array(ends, np.int64)
        return (
            found
            if last or not len(lines) or lines[-1].endswith((b"\r", b"\n"))
            else found[found < len(raw)]
        )


def record_ends(raw: bytes, delimiter: int, alone: bool = False) -> Whole | None:
    r"""Find where records end in bytes with quotes; None where a quote stands where none begins or ends a field.

    With ``alone``, carriage returns that no line feed follows end lines as well.

    Examples
    --------
    >>> record_ends(b'a,"b\n"\nc,d\n', ord(","))
    array([ 7, 11])
    """
    seen = np.frombuffer(raw, np.uint8)
    quotes, lines = np.flatnonzero(seen == _QUOTE), np.flatnonzero(seen == ord("\n"))
    if alone:
        returns = np.flatnonzero(seen == ord("\r"))
        lines = np.sort(
            np.concatenate([lines, returns[~np.isin(returns + 1, lines, assume_unique=True)]])
        )
    around = np.zeros(256, bool)
    around[[delimiter, ord("\n"), ord("\r"), _QUOTE]] = True
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = seen[opening[opening > 0] - 1], seen[closing[closing < len(seen) - 1] + 1]
    if not (around[before].all() and around[after].all()):
        return None
    return np.asarray(lines[np.searchsorted(quotes, lines) % 2 == 0] + 1, np.int64)


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
        return next(
            csv.reader([next(_lines(line), "").strip("\r\n")], delimiter=mark, strict=True), []
        )
    except csv.Error:
        return []


def _unreadable(file: str, line: int, cause: csv.Error) -> InputError:
    problem = f"{file} cannot be read from line {line} on: {cause}."
    remedy = "A field with quotes inside must be in quotes, and each of its quotes written twice."
    return InputError(problem, remedy=remedy, path=file, line=line)


def _delimiter_of(text: str) -> str:
    """Take a comma, unless the header has none and has another of the usual marks."""
    with_comma = next(csv.reader(_lines(text)), [])
    if len(with_comma) == 1:
        for mark in _OTHERS:
            if (
                mark in with_comma[0]
                and len(next(csv.reader(_lines(text), delimiter=mark), [])) > 1
            ):
                return mark
    return ","


def _records(chunk: Chunk) -> tuple[list[bytes], list[bytes]]:
    """Give the text of each record and the end of its line."""
    raw = chunk.raw
    if chunk.ends is None and b"\r" not in raw:
        bodies = raw.split(b"\n")
        ends = [b"\n"] * len(bodies)
        if not bodies[-1]:
            del bodies[-1], ends[-1]
        else:
            ends[-1] = b""
        return bodies, ends
    places = chunk.ends.tolist() if chunk.ends is not None else _line_ends(raw)
    bodies, ends, start = [], [], 0
    for stop in places:
        record = raw[start:stop]
        body = (
            record[:-2]
            if record.endswith(b"\r\n")
            else record[:-1]
            if record.endswith((b"\n", b"\r"))
            else record
        )
        bodies.append(body)
        ends.append(record[len(body) :])
        start = stop
    return bodies, ends


def _line_ends(raw: bytes) -> list[int]:
    found = (np.flatnonzero(np.frombuffer(raw, np.uint8) == ord("\n")) + 1).tolist()
    return found if raw.endswith(b"\n") else [*found, len(raw)]
