"""Bytes squeezed and back; what is written depends on the bytes alone, so that the same table makes the same file."""

from __future__ import annotations

import importlib
import io
from typing import Any, BinaryIO

from r2b._files.limits import most_unpacked, refuse_growth
from r2b.errors import DamagedFileError, FileTooLargeError, MissingExtraError

_PART = 1 << 24  # bytes that are unpacked at a time


def decompress(content: bytes, compression: str, name: str) -> bytes:
    """Undo a compression, within the limit of :mod:`r2b._files.limits`.

    Raises
    ------
    DamagedFileError
        The bytes are not compressed that way, or are cut short.
    FileTooLargeError
        They grow beyond the limit.
    MissingExtraError
        Nothing here can read them.
    """
    if not compression:
        return content
    try:
        with _opened(content, compression) as stream:
            return _within(stream, len(content), name)
    except (MissingExtraError, FileTooLargeError, MemoryError):
        raise
    except Exception as cause:  # each library has errors of its own for the same fault
        raise DamagedFileError(
            f"{name} cannot be decompressed as {compression}: {str(cause).rstrip('.') or type(cause).__name__}.",
            remedy="Check that the file is whole, and say what it is with --format, such as csv or csv.gz.",
            path=name,
            compression=compression,
        ) from cause


def compress(content: bytes, compression: str) -> bytes:
    """Compress bytes.

    Examples
    --------
    >>> decompress(compress(b"a,b", "xz"), "xz", "x")
    b'a,b'
    """
    if not compression:
        return content
    if compression == "zst":
        return _by_zstandard(content)
    if compression == "gz":  # no time of writing inside, or no two files would be alike
        return bytes(_module("gz").compress(content, compresslevel=6, mtime=0))
    return bytes(_module(compression).compress(content))


def _module(compression: str) -> Any:
    return importlib.import_module({"gz": "gzip", "bz2": "bz2", "xz": "lzma"}[compression])


def _opened(content: bytes, compression: str) -> BinaryIO:
    stream: Any
    if compression == "zst":
        library = _zstandard()
        if library.__name__ == "pyarrow":
            stream = library.CompressedInputStream(library.BufferReader(content), "zstd")
        else:
            stream = library.open(io.BytesIO(content))
    else:
        stream = _module(compression).open(io.BytesIO(content))
    return stream  # type: ignore[no-any-return]


def _within(stream: BinaryIO, packed: int, name: str) -> bytes:
    """Read part by part: what grows beyond the limit is never held."""
    parts, total = [], 0
    while part := stream.read(min(_PART, most_unpacked() + 1 - total)):
        parts.append(part)
        total += len(part)
        refuse_growth(name, packed, total)
    return b"".join(parts)


def _zstandard() -> Any:
    for name in ("compression.zstd", "pyarrow"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtraError(
        "Nothing here can read or write zst.", remedy="Use gz, bz2 or xz, or install pyarrow: pip install 'r2b[frames]'.", library="pyarrow"
    )


def _by_zstandard(content: bytes) -> bytes:
    library = _zstandard()
    if library.__name__ != "pyarrow":
        return bytes(library.compress(content))
    sink = library.BufferOutputStream()
    with library.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue().to_pybytes())


def opened(path: str, compression: str) -> BinaryIO:
    """Open a file for reading, decompressed on the way."""
    if not compression:
        return open(path, "rb")
    if compression == "zst":
        stream: Any = importlib.import_module("pyarrow").input_stream(path, compression="zstd")
        return stream  # type: ignore[no-any-return]
    found: BinaryIO = _module(compression).open(path, "rb")
    return found
