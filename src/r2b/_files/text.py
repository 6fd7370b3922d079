"""Values and rows as text: fields of CSV and TSV, objects of JSON Lines, names in sentences. What has no such form is refused by name."""

from __future__ import annotations

import codecs
import csv
import importlib
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Literal

from r2b._files.arrow import first_line, pyarrow
from r2b._files.formats import Format
from r2b.errors import InputError, ParameterError

_MOST_NAMED = 12
_WIDE = ("utf-16", "utf-32")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Suggest names that are spelled alike, or nothing.

    Examples
    --------
    >>> did_you_mean("Educaton", ["education", "sex"])
    "Did you mean 'education'?"
    """
    folded = {each.casefold().strip(): each for each in reversed(known)}
    close = get_close_matches(name.casefold().strip(), list(folded), n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(repr(folded[each]) for each in close)}?" if close else ""


def listed_names(names: Sequence[str]) -> str:
    """Write names in a row, the first dozen of them."""
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


def _listed(values: Any) -> list[Any]:
    """Give a column of any library as a list of Python's own values."""
    if hasattr(values, "dictionary_decode"):  # Arrow makes a scalar of every code otherwise
        values = values.dictionary_decode()
    for way in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, way):
            return list(getattr(values, way)())
    return list(values)


def as_text(values: Any, name: str) -> list[str]:
    """Give a column as text; a missing value is an empty field, a number all its digits.

    Raises
    ------
    InputError
        A value that a field cannot hold, such as a list.

    Examples
    --------
    >>> as_text(["a", None, 0.1, True], "x")
    ['a', '', '0.1', 'true']
    """
    plain = _listed(values)
    if all(type(value) is str for value in plain):
        return plain
    if all(type(value) is float for value in plain):
        return [repr(value) if value == value else "" for value in plain]
    return [_text(value, name, row) for row, value in enumerate(plain)]


def _text(value: Any, name: str, row: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal, timedelta)):
        return str(value)
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    raise InputError(
        f"In the column {name!r}, row {row} holds {type(value).__name__}, which a field of CSV cannot hold.",
        remedy="Write Parquet, Arrow or JSON Lines, or leave the column out.",
        column=name,
        row=row,
    )


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
    """

    delimiter: str
    newline: str = "\n"
    quote_all: bool = False

    def joined(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Give each row as the text of one record, without the end of the line."""
        out: list[str] = []
        quoting: Literal[0, 1] = csv.QUOTE_ALL if self.quote_all else csv.QUOTE_MINIMAL
        # The writer quotes a line end inside a field only where it ends lines with such a character itself.
        sink: Any = SimpleNamespace(write=out.append)  # keeps each write apart
        csv.writer(sink, delimiter=self.delimiter, lineterminator="\r\n", quoting=quoting).writerows(rows)
        return [text[:-2] for text in out]

    def records(self, columns: Mapping[str, Any]) -> list[str]:
        """Give the rows of columns as the text of records."""
        return self.joined(list(zip(*(as_text(values, name) for name, values in columns.items()), strict=True)))


def dialect_of(format: Format) -> Dialect:
    """Give how files of CSV and TSV are written where nothing says otherwise."""
    return Dialect("\t" if format.kind == "tsv" else ",")


def members(columns: Mapping[str, Any]) -> list[str]:
    """Give the keys and values of each row as JSON, without braces.

    Examples
    --------
    >>> members({"a": ["x", "y"], "b": [1, None]})
    ['"a": "x", "b": 1', '"a": "y", "b": null']
    """
    parts = [
        [f"{key}: {_json(value, name)}" for value in _listed(values)]
        for name, values in columns.items()
        for key in [json.dumps(name, ensure_ascii=False)]
    ]
    return [", ".join(row) for row in zip(*parts, strict=True)]


def _json(value: Any, name: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null" if math.isnan(value) else json.dumps(str(value))
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=lambda other: _text(other, name, 0))
    except (InputError, ValueError) as cause:
        raise InputError(
            f"The column {name!r} holds {type(value).__name__}, which JSON cannot hold.",
            remedy="Write Parquet or Arrow, or leave the column out.",
            column=name,
        ) from cause


def parse_object(text: str, name: str, line: int) -> dict[str, Any]:
    """Read one line of JSON Lines; an error names it."""
    remedy = 'Write one object per line, such as {"sex": "f"}.'
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as cause:
        raise InputError(f"Line {line} of {name} is not JSON: {cause}.", remedy=remedy, path=name, line=line) from cause
    if not isinstance(found, _Pairs):
        raise InputError(f"Line {line} of {name} is not an object.", remedy=remedy, path=name, line=line)
    record = dict(found)
    if len(record) < len(found):
        keys = [key for key, _ in found]
        twice = next(key for key in keys if keys.count(key) > 1)
        problem = f"Line {line} of {name} has the key {twice!r} twice."
        raise InputError(problem, remedy="Keep one of them.", path=name, line=line, column=twice)
    return record


class _Pairs(list[tuple[str, Any]]):
    """Keys and values in the order they came, also where a key is there twice."""


def lines_of(columns: Mapping[str, Any], format: Format) -> str:
    """Give the rows of columns as lines of text, without a header."""
    lines = [f"{{{line}}}" for line in members(columns)] if format.kind == "jsonl" else dialect_of(format).records(columns)
    return "".join(f"{line}\n" for line in lines)


def table_of(columns: Mapping[str, Any], format: Format) -> bytes:
    r"""Give columns as the bytes of a file, not yet compressed.

    Examples
    --------
    >>> table_of({"a": ["x", "y, z"], "b": [1.5, None]}, Format("csv"))
    b'a,b\nx,1.5\n"y, z",\n'
    """
    if format.is_text:
        header = "" if format.kind == "jsonl" else f"{dialect_of(format).joined([list(columns)])[0]}\n"
        return (header + lines_of(columns, format)).encode()
    arrow, sink = pyarrow(), io.BytesIO()
    try:
        table = arrow.table({name: values if hasattr(values, "type") else arrow.array(values) for name, values in columns.items()})
    except (arrow.ArrowException, OverflowError) as cause:
        raise InputError(
            f"A column holds values of several types, which Arrow cannot hold in one column: {first_line(cause)}.",
            remedy="Write JSON Lines or CSV.",
        ) from cause
    if format.kind == "parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, sink)
    else:
        with arrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


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
