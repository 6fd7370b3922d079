"""Tables as lines of text and as bytes, packed and unpacked within a limit; names in sentences.

A file of a few hundred kilobytes can hold gigabytes of one value.
"""

from __future__ import annotations

import importlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from r2b._files.arrow import first_line, pyarrow
from r2b._files.formats import (
    Format,
    dialect_of,
    field_text,
    most_unpacked,
    opened,
    plain_values,
    squeezed,
)
from r2b.errors import DamagedFileError, FileTooLargeError, InputError


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
    shown = ", ".join(map(repr, names[:12]))
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown


def objects_of(columns: Mapping[str, Any]) -> list[str]:
    """Return each row as an object of JSON.

    Examples
    --------
    >>> objects_of({"a": ["x", "y"], "b": [1, None]})
    ['{"a": "x", "b": 1}', '{"a": "y", "b": null}']
    """
    parts = [
        [f"{key}: {_json(value, name)}" for value in plain_values(values)]
        for name, values in columns.items()
        for key in [json.dumps(name, ensure_ascii=False)]
    ]
    return [f"{{{', '.join(row)}}}" for row in zip(*parts, strict=True)]


def _json(value: Any, name: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null" if math.isnan(value) else json.dumps(str(value))
    try:
        return json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            default=lambda other: field_text(other, name, 0),
        )
    except (InputError, ValueError) as cause:
        problem = f"The column {name!r} holds {type(value).__name__}, which JSON cannot hold."
        raise InputError(
            problem, remedy="Write Parquet or Arrow, or leave the column out.", column=name
        ) from cause


def parse_object(text: str, name: str, line: int) -> dict[str, Any]:
    """Read one line of JSON Lines; an error names it."""
    remedy = 'Write one object per line, such as {"sex": "f"}.'
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as cause:
        raise InputError(
            f"Line {line} of {name} is not JSON: {cause}.", remedy=remedy, path=name, line=line
        ) from cause
    if not isinstance(found, _Pairs):
        raise InputError(
            f"Line {line} of {name} is not an object.", remedy=remedy, path=name, line=line
        )
    record = dict(found)
    if len(record) < len(found):
        keys = [key for key, _ in found]
        twice = next(key for key in keys if keys.count(key) > 1)
        problem = f"Line {line} of {name} has the key {twice!r} twice."
        raise InputError(problem, remedy="Keep one of them.", path=name, line=line, column=twice)
    return record


class _Pairs(list[tuple[str, Any]]):
    """Keys and values in the order they came, also where a key is there twice."""


def header_of(names: Sequence[str], format: Format) -> str:
    """Return the line with the names of columns; none for JSON Lines."""
    return "" if format.kind == "jsonl" else f"{dialect_of(format).joined([names])[0]}\n"


def lines_of(columns: Mapping[str, Any], format: Format) -> str:
    """Return the rows of columns as lines of text, without a header."""
    is_json = format.kind == "jsonl"
    records = objects_of(columns) if is_json else dialect_of(format).records(columns)
    return "".join(f"{record}\n" for record in records)


def table_of(columns: Mapping[str, Any], format: Format) -> bytes:
    r"""Return columns as the bytes of a file, not yet compressed.

    Examples
    --------
    >>> table_of({"a": ["x", "y, z"], "b": [1.5, None]}, Format("csv"))
    b'a,b\nx,1.5\n"y, z",\n'
    """
    if format.is_text:
        return (header_of(list(columns), format) + lines_of(columns, format)).encode()
    arrow, sink = pyarrow(), io.BytesIO()
    try:
        table = arrow.table(dict(columns))
    except (arrow.ArrowException, OverflowError) as cause:
        raise InputError(
            "A column holds values of several types, which Arrow cannot hold in one column: "
            f"{first_line(cause)}.",
            remedy="Write JSON Lines or CSV.",
        ) from cause
    if format.kind == "parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, sink)
    elif format.kind == "xlsx":
        from r2b._files.workbook import SheetWriter

        writer = SheetWriter(sink, table.schema.names, n_rows=table.num_rows)
        writer.take(table)
        writer.close()
    else:
        with arrow.ipc.new_file(sink, table.schema) as batches:
            batches.write_table(table)
    return sink.getvalue()


def refuse_growth(name: str, packed: int, size: int) -> None:
    """Refuse a file that becomes larger than the limit.

    Parameters
    ----------
    name : str
        Of the file.
    packed : int
        Its bytes.
    size : int
        Bytes that it grows to, as far as they were counted.

    Raises
    ------
    FileTooLargeError
        Names both sizes and the limit.

    Examples
    --------
    >>> from r2b._files.formats import unpacked_within
    >>> with unpacked_within(10_000_000):
    ...     refuse_growth("people.csv.zst", 2_000_000, 8_000_000)
    """
    most = most_unpacked.get()
    if size > most:
        raise FileTooLargeError(
            f"{name} has {megabytes(packed)} and grows to {megabytes(size)} or more when it is "
            f"unpacked; the limit is {megabytes(most)}.",
            remedy="Read the file with pandas or pyarrow and pass the table, or raise "
            "`--max-unpacked` on the command line, where the memory has room for it.",
            path=name,
            packed=packed,
            size=size,
            limit=most,
        )


def megabytes(size: int) -> str:
    """Write a size.

    Examples
    --------
    >>> megabytes(200_000_000), megabytes(1500)
    ('200 MB', '0.0015 MB')
    """
    return f"{size / 1e6:.3g} MB" if size < 1e9 else f"{size / 1e6:,.0f} MB"


def decompress(content: bytes, compression: str, name: str) -> bytes:
    """Unpack bytes, within the limit.

    Raises
    ------
    DamagedFileError
        The bytes are not compressed that way, or are cut short.
    FileTooLargeError
        They grow beyond the limit.
    """
    parts, total = [], 0
    try:
        with opened(io.BytesIO(content), compression) as stream:
            # Part by part: what grows beyond the limit is never held.
            while part := stream.read(min(1 << 24, most_unpacked.get() + 1 - total)):
                parts.append(part)
                total += len(part)
                refuse_growth(name, len(content), total)
    except (FileTooLargeError, MemoryError):
        raise
    except Exception as cause:  # each library has errors of its own for the same fault
        reason = str(cause).rstrip(".") or type(cause).__name__
        problem = f"{name} cannot be decompressed as {compression}: {reason}."
        remedy = "Check that the file is whole, and say what it is, such as `format='csv.gz'`."
        raise DamagedFileError(
            problem, remedy=remedy, path=name, compression=compression
        ) from cause
    return b"".join(parts)


def compress(content: bytes, compression: str) -> bytes:
    """Compress bytes.

    Examples
    --------
    >>> decompress(compress(b"a,b", "xz"), "xz", "x")
    b'a,b'
    """
    sink = io.BytesIO()
    stream = squeezed(sink, compression)
    stream.write(content)
    if compression:
        stream.close()
    return sink.getvalue()
