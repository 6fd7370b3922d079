"""How a file is stored: its format, compression and encoding, and values as fields of text.

What is compressed here depends on the bytes alone, so that equal tables make equal files.
"""

from __future__ import annotations

import codecs
import csv
import importlib
import io
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, BinaryIO, Literal

from r2b._files.arrow import pyarrow
from r2b.errors import InputError, ParameterError

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "xlsx")
COMPRESSIONS = ("gz", "bz2", "xz", "zst")

_KINDS = {kind: kind for kind in FORMATS} | {
    "tab": "tsv",
    "ndjson": "jsonl",
    "pq": "parquet",
    "feather": "arrow",
    "ipc": "arrow",
}
_MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_WORKBOOK = ("a workbook", "Save it as .xlsx, or the sheet as CSV in UTF-8, and pass that.")
_STATISTICS = ("a file of another program", "Save it there as CSV, or as Parquet, and pass that.")
_FOREIGN = {
    **dict.fromkeys(("xls", "xlsm", "xlsb", "ods"), _WORKBOOK),
    **dict.fromkeys(
        ("sav", "dta", "sas7bdat", "rds", "rdata", "pkl", "pickle", "npz", "npy"), _STATISTICS
    ),
    "json": (
        "one JSON document",
        "Write one object per line, and end its name in .jsonl: of an array, jq -c '.[]' does so.",
    ),
    "zip": ("an archive", "Unpack it, and pass the table inside."),
}


@dataclass(frozen=True)
class Format:
    """How a table is stored.

    Attributes
    ----------
    kind : str
        One of "csv", "tsv", "jsonl", "parquet", "arrow" and "xlsx".
    compression : str
        One of "gz", "bz2", "xz" and "zst"; empty for none.

    Examples
    --------
    >>> str(Format("csv", "gz"))
    'csv.gz'
    """

    kind: str
    compression: str = ""

    def __str__(self) -> str:
        return f"{self.kind}.{self.compression}" if self.compression else self.kind

    @property
    def is_delimited(self) -> bool:
        """Whether it is CSV or TSV."""
        return self.kind in ("csv", "tsv")

    @property
    def is_text(self) -> bool:
        """Whether it is lines of text."""
        return self.is_delimited or self.kind == "jsonl"


def format_of(name: str) -> Format | None:
    """Tell the format from a file's name, or from the name of a format; None where it says nothing.

    Examples
    --------
    >>> format_of("people.CSV.gz"), format_of("parquet"), format_of("people.dat")
    (Format(kind='csv', compression='gz'), Format(kind='parquet', compression=''), None)
    """
    parts = name.lower().replace("\\", "/").rpartition("/")[2].split(".")
    compression = parts.pop() if parts[-1] in COMPRESSIONS else ""
    kind = _KINDS.get(parts[-1]) if parts else None
    return None if kind is None else Format(kind, compression)


def format_named(name: str) -> Format:
    """Read what the user calls a format.

    Raises
    ------
    ParameterError
        There is no such format.
    """
    found = format_of(name) if "/" not in name else None
    if found is None or len(name.split(".")) > 2:
        raise ParameterError(
            f"There is no format {name!r}.",
            remedy=f"Say which it is with `format`: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, "
            "with .gz, .bz2, .xz or .zst after it where it is compressed.",
            code="unknown-format",
            name=name,
        )
    return found


def format_for(path: str, asked: str | None) -> Format:
    """Settle the format of a file that is to be written or read by name.

    Raises
    ------
    ParameterError
        The name says nothing and the user neither.
    """
    if asked is not None:
        return format_named(asked)
    found = format_of(path) if "." in path else None
    if found is None:
        ending = path.lower().rpartition(".")[2]
        problem = f"The name {path!r} does not tell a format" + (
            f" that r2b writes: .{ending} is {_FOREIGN[ending][0]}" if ending in _FOREIGN else ""
        )
        remedy = f"Let its name end in one of .{', .'.join(FORMATS)}."
        raise ParameterError(f"{problem}.", remedy=remedy, code="unknown-format", name=path)
    return found


def refuse_foreign(name: str) -> None:
    """Refuse a file of a format that is not read, and say what to do with it.

    Raises
    ------
    ParameterError
        Names the file and what it is.
    """
    ending = name.lower().rpartition(".")[2]
    if "." in name and ending in _FOREIGN:
        what, remedy = _FOREIGN[ending]
        raise ParameterError(
            f"{name} is {what} (.{ending}), which r2b does not read.", remedy=remedy, path=name
        )


def seen_instead(content: bytes, shape: Format) -> tuple[str, str] | None:
    r"""Return what the start of a file looks like if not like its format, and a remedy.

    Examples
    --------
    >>> seen_instead(b"\x1f\x8b...", Format("csv"))
    ('It is compressed with gz', "Pass `format='csv.gz'`.")
    >>> seen_instead("sex,job".encode("utf-16-le"), Format("csv"))
    ('It looks like UTF-16', "Pass `encoding='utf-16-le'`.")
    >>> seen_instead(b"sex,job", Format("parquet"))
    ('It looks like text', "Pass `format='csv'`.")
    """
    kind, packed = shape.kind, compression_seen(content[:8])
    if packed and not shape.compression:
        return f"It is compressed with {packed}", f"Pass `format='{kind}.{packed}'`."
    if packed:
        return None
    if content.startswith(b"PK\x03\x04") and kind != "xlsx":
        return (
            "It looks like a workbook or an archive",
            "Of a workbook, let its name end in .xlsx; unpack an archive.",
        )
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        return "It looks like a workbook of an old Excel", _WORKBOOK[1]
    other = kind_seen(content)
    if content.startswith((b"PAR1", b"ARROW1")) and other != kind:
        return f"It looks like {other.capitalize()}", f"Pass `format='{other}'`."
    for name, end in itertools.product(("utf-32", "utf-16"), ("le", "be")):
        width = 4 if name == "utf-32" else 2
        letter = 0 if end == "le" else width - 1
        zeros = [byte for place, byte in enumerate(content) if place % width != letter]
        if content.startswith("\ufeff".encode(f"{name}-{end}")):
            return f"It begins like {name.upper()}", f"Pass `encoding='{name}'`."
        # most characters of a header are of the alphabet, and all their other bytes are zero
        if 4 * zeros.count(0) > 3 * len(zeros) > 0:
            return f"It looks like {name.upper()}", f"Pass `encoding='{name}-{end}'`."
    if content.startswith(b'{"') and shape.is_delimited:
        return "It looks like JSON Lines", "Pass `format='jsonl'`."
    text = content.strip() and content.isascii() and b"\0" not in content
    if text and not content.startswith(b"PK") and (shape.compression or not shape.is_text):
        return "It looks like text", f"Pass `format='{kind if shape.is_text else other}'`."
    return None


def compression_seen(head: bytes) -> str:
    """Tell how a stream is compressed from its first bytes; empty where it is not.

    Examples
    --------
    >>> compression_seen(b"BZh91AY")
    'bz2'
    """
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


def kind_seen(content: bytes) -> str:
    """Tell the format of an uncompressed stream from its first bytes; CSV where they say nothing.

    Examples
    --------
    >>> kind_seen(b'{"a": 1}'), kind_seen(b"a;b")
    ('jsonl', 'csv')
    """
    if content.startswith(b"PAR1"):
        return "parquet"
    if content.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if content.startswith(b"PK\x03\x04"):
        return "xlsx"
    return "jsonl" if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else "csv"


MOST_UNPACKED = 2_000_000_000
"""Bytes that a file may grow to when it is read into memory."""

most_unpacked = ContextVar("most_unpacked", default=MOST_UNPACKED)
"""The limit that holds here, in bytes."""


@contextmanager
def unpacked_within(most: int) -> Iterator[None]:
    """Read files under another limit.

    Parameters
    ----------
    most : int
        Bytes that a file may grow to.

    Examples
    --------
    >>> with unpacked_within(1000):
    ...     most_unpacked.get()
    1000
    """
    token = most_unpacked.set(most)
    try:
        yield
    finally:
        most_unpacked.reset(token)


def opened(file: str | BinaryIO, compression: str) -> BinaryIO:
    """Open a file for reading, unpacked on the way."""
    stream: Any
    if not compression:
        stream = open(file, "rb") if isinstance(file, str) else file  # noqa: SIM115
    elif compression == "zst":
        stream = pyarrow().input_stream(file, compression="zstd")
    else:
        stream = importlib.import_module(_MODULES[compression]).open(file, "rb")
    return stream  # type: ignore[no-any-return]


def squeezed(file: Any, compression: str) -> Any:
    """Return a stream that compresses into a file, and leaves the file open."""
    if not compression:
        return file
    if compression == "gz":  # no name and no time of writing inside, or no two files would be alike
        return importlib.import_module("gzip").GzipFile("", "wb", 6, file, mtime=0)
    if compression == "zst":
        arrow = pyarrow()
        return arrow.CompressedOutputStream(arrow.PythonFile(LeftOpen(file), "w"), "zstd")
    return importlib.import_module(_MODULES[compression]).open(file, "wb")


class LeftOpen(io.RawIOBase):
    """Writes to a file that it leaves open, and counts the bytes, which a pipe does not."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.place = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self.file.write(piece)
        self.place += memoryview(piece).nbytes
        return memoryview(piece).nbytes

    def tell(self) -> int:
        return self.place

    def flush(self) -> None:
        self.file.flush()


_MODULES = {"gz": "gzip", "bz2": "bz2", "xz": "lzma"}


_MARKED = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
# Python's own, of source code and of names of hosts
_NOT_OF_FILES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")


def plain_values(values: Any) -> list[Any]:
    """Return a column of any library as a list of Python's own values."""
    if hasattr(values, "dictionary_decode"):  # Arrow makes a scalar of every code otherwise
        values = values.dictionary_decode()
    for way in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, way):
            return list(getattr(values, way)())
    return list(values)


def as_text(values: Any, name: str) -> list[str]:
    """Return a column as text; a missing value is an empty field, a number all its digits.

    Raises
    ------
    InputError
        A value that a field cannot hold, such as a list.

    Examples
    --------
    >>> as_text(["a", None, 0.1, True], "x")
    ['a', '', '0.1', 'true']
    """
    plain = plain_values(values)
    if all(type(value) is str for value in plain):
        return plain
    if all(type(value) is float for value in plain):
        return [repr(value) if value == value else "" for value in plain]
    return [field_text(value, name, row) for row, value in enumerate(plain)]


def field_text(value: Any, name: str, row: int) -> str:
    """Return a value as a field of text."""
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
        f"In the column {name!r}, row {row} holds {type(value).__name__}, which a field of CSV "
        "cannot hold.",
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
    quote_all : bool
        Every name in the header is in quotes; new fields then are as well.
    """

    delimiter: str
    quote_all: bool = False

    def joined(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return each row as the text of one record, without the end of the line."""
        out: list[str] = []
        quoting: Literal[0, 1] = csv.QUOTE_ALL if self.quote_all else csv.QUOTE_MINIMAL
        # The writer quotes a line end inside a field only where it ends lines with such a character
        # itself.
        sink: Any = SimpleNamespace(write=out.append)  # keeps each write apart
        csv.writer(
            sink, delimiter=self.delimiter, lineterminator="\r\n", quoting=quoting
        ).writerows(rows)
        return [text[:-2] for text in out]

    def records(self, columns: Mapping[str, Any]) -> list[str]:
        """Return the rows of columns as the text of records."""
        return self.joined(
            list(zip(*(as_text(values, name) for name, values in columns.items()), strict=True))
        )


def dialect_of(format: Format) -> Dialect:
    """Return how files of CSV and TSV are written where nothing says otherwise."""
    return Dialect("\t" if format.kind == "tsv" else ",")


def settled_encoding(name: str, head: bytes) -> tuple[str, bytes]:
    r"""Return the encoding of text after its mark, and the mark.

    Raises
    ------
    ParameterError
        There is no such encoding.

    Examples
    --------
    >>> settled_encoding("utf_16", "a".encode("utf-16-be"))
    ('utf-16-le', b'')
    >>> settled_encoding("UTF-16", b"\xfe\xff\0a")[0]
    'utf-16-be'
    """
    try:
        "a".encode(name)
        codec = codecs.lookup(name).name
        if codec in _NOT_OF_FILES:
            raise LookupError
    except (LookupError, UnicodeError):
        raise ParameterError(
            f"There is no encoding {name!r}.",
            remedy="Pass one such as utf-8, latin-1 or cp1252.",
            encoding=name,
        ) from None
    for known in _MARKED:
        mark = "\ufeff".encode(known)
        if head.startswith(mark) and known.startswith(codec.removesuffix("-sig")):
            return known, mark
    ending = f"-{sys.byteorder[0]}e" if codec in ("utf-16", "utf-32") else ""
    return codec.removesuffix("-sig") + ending, b""
