"""Bytes squeezed and back; what is written depends on the bytes alone, so that the same table makes the same file."""

from __future__ import annotations

import importlib
from typing import Any

from r2b.errors import InputError, MissingExtraError


def decompress(content: bytes, compression: str, name: str) -> bytes:
    """Undo a compression.

    Raises
    ------
    InputError
        The bytes are not compressed that way, or are cut short.
    MissingExtraError
        Nothing here can read them.
    """
    if not compression:
        return content
    try:
        if compression == "zst":
            return _zstandard(content, undo=True)
        return bytes(_module(compression).decompress(content))
    except MissingExtraError:
        raise
    except Exception as cause:  # each library has errors of its own for the same fault
        raise InputError(
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
        return _zstandard(content, undo=False)
    if compression == "gz":  # no time of writing inside, or no two files would be alike
        return bytes(_module("gz").compress(content, compresslevel=6, mtime=0))
    return bytes(_module(compression).compress(content))


def _module(compression: str) -> Any:
    return importlib.import_module({"gz": "gzip", "bz2": "bz2", "xz": "lzma"}[compression])


def _zstandard(content: bytes, *, undo: bool) -> bytes:
    for name in ("compression.zstd", "pyarrow"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        if name == "pyarrow":
            return _by_arrow(library, content, undo=undo)
        return bytes(library.decompress(content) if undo else library.compress(content))
    raise MissingExtraError(
        "Nothing here can read or write zst.", remedy="Use gz, bz2 or xz, or install pyarrow: pip install 'r2b[frames]'.", library="pyarrow"
    )


def _by_arrow(arrow: Any, content: bytes, *, undo: bool) -> bytes:
    if undo:
        with arrow.CompressedInputStream(arrow.BufferReader(content), "zstd") as stream:
            return bytes(stream.read())
    sink = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue().to_pybytes())
