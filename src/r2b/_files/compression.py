"""Files unpacked and squeezed on the way, and how large they may become: a file of a few hundred kilobytes can hold gigabytes of one value.

What is written depends on the bytes alone, so that the same table makes the same file.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, BinaryIO

from r2b._files.arrow import pyarrow
from r2b.errors import DamagedFileError, FileTooLargeError

MOST_UNPACKED = 2_000_000_000
"""Bytes that a file may grow to when it is read into memory."""

_most = ContextVar("most_unpacked", default=MOST_UNPACKED)


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
    ...     most_unpacked()
    1000
    """
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def most_unpacked() -> int:
    """Give the limit that holds here, in bytes."""
    return _most.get()


_STREAM = "Read it part by part with --stream, or raise the limit with --max-unpacked where the memory has room for it."


def refuse_growth(name: str, packed: int, size: int, remedy: str = _STREAM) -> None:
    """Refuse a file that becomes larger than the limit.

    Parameters
    ----------
    name : str
        Of the file.
    packed : int
        Its bytes.
    size : int
        Bytes that it grows to, as far as they were counted.
    remedy : str
        What to do about it.

    Raises
    ------
    FileTooLargeError
        Names both sizes and the limit.

    Examples
    --------
    >>> with unpacked_within(10_000_000):
    ...     refuse_growth("people.csv.zst", 2_000_000, 8_000_000)
    """
    most = most_unpacked()
    if size > most:
        raise FileTooLargeError(
            f"{name} has {megabytes(packed)} and grows to {megabytes(size)} or more when it is unpacked; the limit is {megabytes(most)}.",
            remedy=remedy,
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


_PART = 1 << 24  # bytes that are unpacked at a time


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
    """Give what squeezes bytes on their way into a file, which stays open when it is closed."""
    if not compression:
        return file
    if compression == "gz":  # no name and no time of writing inside, or no two files would be alike
        return importlib.import_module("gzip").GzipFile("", "wb", 6, file, mtime=0)
    if compression == "zst":
        arrow = pyarrow()
        return arrow.CompressedOutputStream(arrow.PythonFile(LeftOpen(file), "w"), "zstd")
    return importlib.import_module(_MODULES[compression]).open(file, "wb")


class LeftOpen(io.RawIOBase):
    """Writes to a file that it does not close, and counts the bytes: a pipe does not know its place."""

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
            while part := stream.read(min(_PART, most_unpacked() + 1 - total)):
                parts.append(part)
                total += len(part)
                refuse_growth(name, len(content), total)
    except (FileTooLargeError, MemoryError):
        raise
    except Exception as cause:  # each library has errors of its own for the same fault
        raise DamagedFileError(
            f"{name} cannot be decompressed as {compression}: {str(cause).rstrip('.') or type(cause).__name__}.",
            remedy="Check that the file is whole, and say what it is with --format, such as csv or csv.gz.",
            path=name,
            compression=compression,
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
