"""A file or a stream of bytes to a table."""

from __future__ import annotations

import sys
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

from r2b._files.arrow import ArrowTable
from r2b._files.compression import decompress
from r2b._files.delimited import DelimitedTable
from r2b._files.formats import Format, compression_seen, format_named, format_of, kind_seen, refuse_foreign, seen_instead
from r2b._files.jsonl import JsonLinesTable
from r2b._files.table import Table
from r2b.errors import InputError, ParameterError

STANDARD = "-"

_PART = 1 << 20


def read_table(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    stream: BinaryIO | None = None,
) -> Table:
    r"""Read a table from a file, or from standard input.

    Parameters
    ----------
    path : path-like
        "-" for standard input.
    format : str, optional
        Such as "csv" or "jsonl.gz". By default what the name says; for a stream, what its first bytes say.
    encoding : str
        Of text.
    delimiter : str, optional
        Of CSV: a comma by default, or what the header has instead.
    stream : binary file, optional
        Read instead of opening the path.

    Returns
    -------
    Table

    Raises
    ------
    InputError
        The file is empty, damaged or ragged; the message names the line.
    ParameterError
        The format or the encoding is not known, or the file is not there.

    Examples
    --------
    >>> import io
    >>> table = read_table("people.csv", stream=io.BytesIO(b"sex,label\nf,yes\nm,no\n"))
    >>> table.names, table.columns(["label"])
    (('sex', 'label'), {'label': ['yes', 'no']})
    >>> table.encoded({"new": ["no", "no"]})
    b'sex,label,new\nf,yes,no\nm,no,no\n'
    """
    place = fspath(path)
    name = "standard input" if place == STANDARD else Path(place).name
    content = stream.read() if stream is not None else _bytes_of(place)
    settled = _settled(place, format, content)
    content = decompress(content, settled.compression, name)
    if format is None and place == STANDARD:
        settled = Format(kind_seen(content), settled.compression)
    if not settled.is_text:
        return ArrowTable.parse(content, name, settled)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n"'):
        raise ParameterError(f"The delimiter is {delimiter!r}.", remedy="Pass one character, such as a semicolon.", delimiter=delimiter)
    text, encoding = _decoded(content, encoding, name, settled.kind)
    if settled.kind == "jsonl":
        return JsonLinesTable.parse(text, name, settled, encoding)
    return DelimitedTable.parse(text, name, settled, delimiter, encoding)


def _bytes_of(place: str) -> bytes:
    if place == STANDARD:
        # Part by part, so that Ctrl-C is heard between two: one long read can miss it.
        if sys.stdin is None:
            raise ParameterError("Standard input is closed.", remedy="Pass the name of a file, or send the table to standard input.")
        stream: Any = sys.stdin.buffer
        try:
            return b"".join(iter(lambda: stream.read1(_PART), b""))
        except OSError as cause:
            raise ParameterError(f"Standard input cannot be read: {cause.strerror or cause}.", remedy="Pass the name of a file.") from cause
    if not place:
        raise ParameterError("The name of the file is empty.", remedy="Pass a path, or - for standard input.", path=place)
    try:
        return Path(place).read_bytes()
    except OSError as cause:
        raise ParameterError(
            f"{place} cannot be read: {cause.strerror or cause}.", remedy="Check the path and the permissions.", path=place
        ) from cause


def _settled(place: str, said: str | None, content: bytes) -> Format:
    if said is not None:
        return format_named(said)
    if place == STANDARD:
        return Format("csv", compression_seen(content[:8]))
    found = format_of(place) if "." in Path(place).name else None
    if found is None:
        refuse_foreign(Path(place).name)
        raise ParameterError(
            f"The name {Path(place).name!r} does not tell a format.",
            remedy="Say which it is with --format: csv, tsv, jsonl, parquet or arrow, with .gz, .bz2, .xz or .zst where it is compressed.",
            path=place,
        )
    return found


def _decoded(content: bytes, encoding: str, name: str, kind: str) -> tuple[str, str]:
    """Give the text, and the encoding that writes it back with its mark at the start."""
    try:
        if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig") and content.startswith(b"\xef\xbb\xbf"):
            encoding = "utf-8-sig"
        return content.decode(encoding), encoding
    except LookupError:
        raise ParameterError(
            f"There is no encoding {encoding!r}.", remedy="Pass one such as utf-8, latin-1 or cp1252.", encoding=encoding
        ) from None
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        found = f"0x{content[cause.start]:02x}"
        seen = seen_instead(content, kind)
        raise InputError(
            f"{name} is not {encoding}: byte {cause.start} ({found}, on line {line}) cannot be read.{f' {seen[0]}.' if seen else ''}",
            remedy=seen[1] if seen else "Say how it is encoded, such as encoding='latin-1' or 'cp1252'.",
            path=name,
            byte=cause.start,
            line=line,
        ) from cause
