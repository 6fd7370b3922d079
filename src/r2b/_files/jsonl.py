"""JSON Lines: the text of every object is kept as it stands, and new keys are written before its closing brace."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from r2b._files.formats import Format
from r2b._files.plain import listed
from r2b._files.table import Table
from r2b.errors import EmptyError, InputError


@dataclass(eq=False)
class JsonLinesTable(Table):
    """A file with one object per line.

    Attributes
    ----------
    records : list of dict
    texts : list of str
        The text of each object, without blanks around it.
    newline, encoding : str
    """

    name: str
    format: Format
    records: list[dict[str, Any]]
    texts: list[str]
    newline: str = "\n"
    encoding: str = "utf-8"
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.names = tuple(dict.fromkeys(key for record in self.records for key in record))

    @classmethod
    def parse(cls, text: str, name: str, format: Format, encoding: str) -> JsonLinesTable:
        """Read and check every line."""
        texts: list[str] = []
        records: list[dict[str, Any]] = []
        blank = 0
        for number, line in enumerate(io.StringIO(text, newline="\n"), start=1):
            stripped = line.strip()
            if not stripped:
                blank = blank or number
                continue
            if blank:
                raise InputError(f"Line {blank} of {name} is blank.", remedy="Remove it.", path=name, line=blank)
            records.append(parse_object(stripped, name, number))
            texts.append(stripped)
        if not records:
            raise EmptyError(f"{name} has no rows.", remedy="Pass a file with one object per line.", path=name)
        return cls(name, format, records, texts, "\r\n" if "\r\n" in text[: len(texts[0]) + 80] else "\n", encoding)

    @property
    def n_rows(self) -> int:
        """The number of objects."""
        return len(self.records)

    def columns(self, wanted: Sequence[str]) -> dict[str, list[Any]]:
        """Give columns as lists of values; an object without the key has none."""
        return {name: [record.get(name) for record in self.records] for name in wanted}

    def encoded(self, new: Mapping[str, Sequence[Any]], rows: Sequence[int] | None = None) -> bytes:
        """Write new keys at the end of each object."""
        order = range(self.n_rows) if rows is None else rows
        tails = members(new, len(order))
        out: list[str] = []
        for row, tail in zip(order, tails, strict=True):
            begin = self.texts[int(row)][:-1].rstrip()
            out += (begin, "" if begin.endswith("{") or not tail else ", ", tail, "}", self.newline)
        return "".join(out).encode(self.encoding)

    def place(self, row: int) -> str:
        """Say on which line a row is."""
        return f"row {row} (line {row + 1})"


def members(columns: Mapping[str, Any], n_lines: int) -> list[str]:
    """Give the keys and values of each row as JSON, without braces.

    Examples
    --------
    >>> members({"a": ["x", "y"], "b": [1, None]}, 2)
    ['"a": "x", "b": 1', '"a": "y", "b": null']
    """
    parts = []
    for name, values in columns.items():
        key = json.dumps(name, ensure_ascii=False)
        # Values repeat: a class is put into words once.
        words: dict[tuple[type, Any], str] = {}
        texts = []
        for value in listed(values):
            known = (type(value), value) if value.__hash__ is not None else None
            text = None if known is None else words.get(known)
            if text is None:
                text = f"{key}: {_json(value, name)}"
                if known is not None and len(words) < 10_000:
                    words[known] = text
            texts.append(text)
        parts.append(texts)
    return [", ".join(row) for row in zip(*parts, strict=True)] if parts else [""] * n_lines


def _json(value: Any, name: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null" if math.isnan(value) else json.dumps(str(value))
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_worded)
    except (TypeError, ValueError) as cause:
        raise InputError(
            f"The column {name!r} holds {type(value).__name__}, which JSON cannot hold.",
            remedy="Write Parquet or Arrow with --output-format, or leave the column out.",
            column=name,
        ) from cause


def _worded(value: Any) -> str:
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(type(value).__name__)


def parse_object(text: str, name: str, line: int) -> dict[str, Any]:
    """Read one line; an error names it."""
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
