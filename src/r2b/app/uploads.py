"""Files to tables, within limits: of what is sent, and of what it grows to when it is unpacked."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import replace

from r2b._files import Format, format_of, table_of
from r2b._files.formats import unpacked_within
from r2b._files.text import decompress, megabytes
from r2b.app.parsing import parsed
from r2b.datasets import load_adult
from r2b.engines.files import FileSource
from r2b.errors import FileTooLargeError, InputError, ParameterError, R2BError

GROWTH = 5  # times the limit of an upload that it may grow to when it is unpacked


async def body_within(stream: AsyncIterator[bytes], limit: int) -> bytes:
    """Read what is sent. What is too much is read to its end and dropped: a browser shows the answer only after it has sent everything.

    Raises
    ------
    FileTooLargeError
        Says how much was sent and how much is taken.
    """
    content, total = bytearray(), 0
    async for chunk in stream:
        total += len(chunk)
        if total <= limit:
            content += chunk
        else:
            content.clear()
    if total > limit:
        raise too_large(f"The file has {megabytes(total)}", limit, total)
    return bytes(content)


def too_large(found: str, limit: int, size: int) -> FileTooLargeError:
    """Say that a file is too large, and what can be done."""
    return FileTooLargeError(
        f"{found}, and this app takes {megabytes(limit)}.",
        remedy="Start it with a larger --max-upload, or use r2b on the command line, which has no limit.",
        control="file",
        limit=limit,
        size=size,
    )


def read_upload(name: str, content: bytes, limit: int) -> FileSource:
    """Read a table from what was sent.

    Raises
    ------
    InputError
        It is empty, damaged, too large when it is unpacked, or not what its name says.
    ParameterError
        Its name does not tell a format.
    """
    # Only the last part: a browser may send a path, and names are shown.
    name = name.replace("\\", "/").rpartition("/")[2].strip() or "upload"
    found = format_of(name) if "." in name else None
    try:
        with unpacked_within(GROWTH * limit):
            return checked(_opened(name, content, found, GROWTH * limit))
    except FileTooLargeError as error:
        size = error.facts.get("size")
        if not isinstance(size, int):  # it takes too much time or memory, and says so
            raise
        raise too_large(f"{name} grows to more than {megabytes(GROWTH * limit)} when it is unpacked", limit, size) from error
    except ParameterError:
        raise
    except R2BError as error:
        raise type(error)(error.problem, remedy=error.remedy, **{**error.facts, "control": "file"}) from error


def checked(source: FileSource) -> FileSource:
    """Read every row once, so that errors in a file are found when it is opened."""
    source = replace(source, spelled=True)
    if not source.names or not sum(source.run(None, len)):
        raise InputError(f"{source.name} has no rows.", remedy="Pass a file with at least one.")
    return source


def _opened(name: str, content: bytes, format: Format | None, most: int) -> FileSource:
    """Open text here, and what needs a foreign reader, which a damaged file may break, after another process has read it."""
    if format is not None and (not format.is_text or format.compression == "zst"):
        clean, content = parsed(content, name, format, most)
        return FileSource.open(name, str(clean), stream=io.BytesIO(content))
    source = FileSource.open(name, stream=io.BytesIO(content))
    found = source.listing.format
    if not found.compression:
        return source
    # Unpacked as a whole, within the limit: what is read part by part has none.
    return FileSource.open(name, found.kind, stream=io.BytesIO(decompress(content, found.compression, name)))


def open_adult() -> FileSource:
    """Open the Adult data; numbers are numbers."""
    return checked(FileSource.open("adult.arrow", stream=io.BytesIO(table_of(load_adult().columns, Format("arrow")))))
