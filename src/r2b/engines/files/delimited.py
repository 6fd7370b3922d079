"""CSV and TSV part by part; columns come as text.

pyarrow parses the fields. Where records end is found here, because the bytes of a record are
written again as they are, and because pyarrow passes over blank lines.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from r2b._data.arrays import Whole
from r2b._files.arrow import first_line, pyarrow
from r2b._files.formats import Dialect
from r2b.engines.files.lines import Chunk, TextStored, n_lines
from r2b.engines.files.listing import Part
from r2b.engines.files.reading import ReadOptions, Wanted, no_columns
from r2b.errors import EmptyError, InputError

_MARKS = (",", ";", "\t", "|")  # delimiters that are looked for in a header, in this order


class DelimitedStored(TextStored):
    """A CSV or TSV file, possibly compressed.

    Parameters
    ----------
    part : Part
    options : ReadOptions

    Attributes
    ----------
    na : sequence of str
        Text that means missing.
    dialect : Dialect
        How the header is written, and so new fields.
    shown : str
        The delimiter that the header shows.
    """

    def __init__(self, part: Part, options: ReadOptions) -> None:
        super().__init__(part, options)
        csv.field_size_limit(2**31 - 1)  # the largest number that every platform takes
        self.na, text = options.na, self.start()
        first = next(_lines(text), "").strip("\r\n")
        if not text.strip("\r\n"):
            remedy = "Pass a file with a header and at least one row."
            raise EmptyError(f"{part.name} is empty.", remedy=remedy, path=part.name)
        if not first:
            remedy = "Put the names of the columns there."
            raise self._wrong(1, f"The first line of {part.name} is blank.", remedy)
        if re.fullmatch(r'"?sep=."?', first.strip(), re.IGNORECASE):
            note = f"{first!r}, is a note to a spreadsheet, not a header"
            remedy = (
                "Remove the line. Where the header does not tell the delimiter, pass `delimiter`."
            )
            raise self._wrong(1, f"The first line of {part.name}, {note}.", remedy)
        self.shown = "\t" if self.kind == "tsv" else _delimiter_of(text)
        delimiter = options.delimiter or self.shown
        reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
        try:
            names = next(reader)
        except csv.Error as cause:
            raise self._quotes(1, cause) from cause
        header = "".join(islice(_lines(text), reader.line_num))
        body = header.rstrip("\r\n")
        self.newline = header[len(body) :].encode() or b"\n"
        quoted = Dialect(delimiter, quote_all=True).joined([names]) == [body]
        self.dialect = Dialect(delimiter, quoted)
        self._header = header.encode()
        self.schema = pyarrow().schema([(name, pyarrow().string()) for name in names])

    def header_with(self, new: Sequence[str]) -> bytes:
        """Return the header as it stands, with new names at its end."""
        (added,) = self.dialect.joined([new])
        return self.joined(self._header.rstrip(b"\r\n"), added.encode()) + self.newline

    def texts(self, columns: Mapping[str, Any]) -> list[str]:
        """Return the fields of new columns, row by row."""
        return self.dialect.records(columns)

    def joined(self, record: bytes, new: bytes) -> bytes:
        """Put new fields at the end of a record."""
        return record + self.dialect.delimiter.encode() + new

    def remedy_for(self, column: str) -> str:
        """Return another delimiter, if it shows the column."""
        header = self._header.decode()
        marks = (mark for mark in _MARKS if mark != self.dialect.delimiter)
        return next((_separated(mark) for mark in marks if column in _split(header, mark)), "")

    def chunks(self, size: int | None = None) -> Iterator[Chunk]:
        """Cut the file; of one column, a blank line at its end might be a record."""
        for chunk in super().chunks(size):
            if not chunk.n_records and len(self.schema) == 1:
                raise self._blank(chunk.line)
            yield chunk

    def parsed(self, chunk: Chunk, wanted: Wanted, *, spelled: bool) -> Any:
        """Parse a chunk."""
        # pyarrow would pass over blank lines, which begin with the end of a line
        first = np.frombuffer(chunk.raw, np.uint8)[np.append(0, chunk.ends[:-1])]
        for blank in np.flatnonzero((first == ord("\n")) | (first == ord("\r")))[:1].tolist():
            raise self._blank(chunk.line_of(blank))
        names, columns = self.schema.names, wanted.columns
        places = range(len(names)) if columns is None else [*map(names.index, columns)]
        if not places:
            return no_columns(chunk.n_records)
        arrow, reader = pyarrow(), importlib.import_module("pyarrow.csv")
        text, codes = arrow.string(), arrow.dictionary(arrow.int32(), arrow.string())
        # By their numbers: several columns may have one name.
        kinds = {str(place): codes if names[place] in wanted.coded else text for place in places}
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
                    column_names=list(map(str, range(len(names)))),
                ),
                reader.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    newlines_in_values=b'"' in chunk.raw,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                reader.ConvertOptions(
                    column_types=kinds,
                    include_columns=list(kinds),
                    null_values=[] if spelled else list(self.na),
                    strings_can_be_null=True,
                ),
            )
        except arrow.ArrowException as cause:
            if ragged and ragged[0].number is not None:
                raise self._ragged(chunk, ragged[0].number - 1, ragged[0].actual_columns) from cause
            raise self._unreadable(chunk, first_line(cause)) from cause
        if table.num_rows != chunk.n_records:
            problem = f"it has {table.num_rows:,} records, not {chunk.n_records:,}"
            raise self._unreadable(chunk, problem)
        return table.rename_columns([names[place] for place in places])

    def _blank(self, line: int) -> InputError:
        remedy = 'Remove it, or write "" for a field without text.'
        return self._wrong(line, f"Line {line} of {self.part.name} is blank.", remedy)

    def _ragged(self, chunk: Chunk, number: int, n_fields: int) -> InputError:
        """Return the error that a record has a wrong number of fields."""
        record = chunk.records()[number].rstrip(b"\r\n")
        text, header, own = record.decode(), self._header.decode(), self.dialect.delimiter
        first = chunk.line_of(number)
        last = first + n_lines(record)
        where = f"Line {first}" if last == first else f"The record on lines {first} to {last}"
        remedy = "Correct the line, or say how fields are separated, such as `delimiter=';'`."
        if n_fields == len(self.schema) + 1 and text.endswith(own):
            remedy = (
                f"Take the {own!r} from the end of every line, or put one at the end of the header."
            )
        for mark in _MARKS:
            if mark != own and 1 < len(_split(header, mark)) == len(_split(text, mark)):
                remedy = _separated(mark)
        return self._wrong(
            first,
            f"{where} of {self.part.name} has {n_fields} field{'' if n_fields == 1 else 's'}, but "
            f"the header has {len(self.schema)}.",
            remedy,
            n_fields=n_fields,
            n_names=len(self.schema),
        )

    def _ends(self, raw: bytes, last: bool, line: int) -> Whole:
        """Return where records end: at the ends of lines that are not in quotes."""
        if b'"' not in raw and b"\r" not in raw:
            return super()._ends(raw, last, line)
        ends = record_ends(raw, ord(self.dialect.delimiter))
        if ends is None or (last and raw.count(b'"') % 2):
            return self._ends_one_by_one(raw, last, line)
        return ends

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
                raise self._quotes(wrong, cause) from cause
        found = np.array(ends, np.int64)
        whole = last or raw.endswith((b"\r", b"\n"))
        return found if whole else found[found < len(raw)]

    def _quotes(self, line: int, cause: csv.Error) -> InputError:
        problem = f"{self.part.name} cannot be read from line {line} on: {cause}."
        remedy = (
            "A field with quotes inside must be in quotes, and each of its quotes written twice."
        )
        return self._wrong(line, problem, remedy)


def record_ends(raw: bytes, delimiter: int) -> Whole | None:
    r"""Find where records end in bytes with quotes; None if a quote stands inside a field.

    Carriage returns that no line feed follows end lines as well.

    Examples
    --------
    >>> record_ends(b'a,"b\n"\nc,d\n', ord(","))
    array([ 7, 11])
    """
    seen = np.frombuffer(raw, np.uint8)
    lines, returns = seen == ord("\n"), seen == ord("\r")
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
    """Split the first record of a text at a mark."""
    return next(csv.reader(_lines(text), delimiter=mark), [])


def _delimiter_of(text: str) -> str:
    """Return the first mark that splits the header; a comma if none does."""
    return next((mark for mark in _MARKS if len(_split(text, mark)) > 1), ",")
