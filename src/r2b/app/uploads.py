"""Files to tables, within limits: of what is sent, and of what it grows to when it is unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, BinaryIO

from r2b.datasets import load_adult
from r2b.errors import InputError, ParameterError, R2BError
from r2b.tables import Format, Table, format_of, read_table, table_of

GROWTH = 5  # times the limit of an upload that it may grow to when it is unpacked

_BOUNDED = ("gz", "bz2", "xz")  # compressions that can be read up to a limit


class TooLargeError(InputError):
    """A file is larger than the app takes."""


async def body_within(stream: AsyncIterator[bytes], limit: int) -> bytes:
    """Read what is sent. What is too much is read to its end and dropped: a browser shows the answer only after it has sent everything.

    Raises
    ------
    TooLargeError
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


def too_large(found: str, limit: int, size: int) -> TooLargeError:
    """Say that a file is too large, and what can be done."""
    return TooLargeError(
        f"{found}, and this app takes {megabytes(limit)}.",
        remedy="Start it with a larger --max-upload, or use r2b on the command line, which has no limit.",
        control="file",
        limit=limit,
        size=size,
    )


def megabytes(size: int) -> str:
    """Write a size.

    Examples
    --------
    >>> megabytes(200_000_000), megabytes(1500)
    ('200 MB', '0.0015 MB')
    """
    return f"{size / 1e6:.3g} MB" if size < 1e9 else f"{size / 1e6:,.0f} MB"


def read_upload(name: str, content: bytes, limit: int) -> Table:
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
        if found is not None and found.compression in _BOUNDED:
            content = _unpacked(content, found.compression, name, limit)
            table = read_table(name, stream=io.BytesIO(content), format=found.kind)
        else:
            table = read_table(name, stream=io.BytesIO(content))
        if not table.names or table.n_rows < 1:
            raise InputError(f"{name} has no rows.", remedy="Pass a file with at least one.")
        return table
    except (TooLargeError, ParameterError):
        raise
    except R2BError as error:
        raise type(error)(error.problem, remedy=error.remedy, **{**error.facts, "control": "file"}) from error


def _unpacked(content: bytes, compression: str, name: str, limit: int) -> bytes:
    """Unpack with an eye on the size: a small file can hold a table of zeros larger than the memory."""
    most = GROWTH * limit
    try:
        with _opened(io.BytesIO(content), compression) as stream:
            unpacked = stream.read(most + 1)
    except (OSError, EOFError, lzma.LZMAError, ValueError) as cause:
        raise InputError(
            f"{name} cannot be decompressed as {compression}: {cause}.", remedy="Check that the file is whole.", path=name
        ) from cause
    if len(unpacked) > most:
        raise too_large(f"{name} grows to more than {megabytes(most)} when it is unpacked", limit, len(unpacked))
    return unpacked


def _opened(stream: BinaryIO, compression: str) -> BinaryIO:
    if compression == "gz":
        return gzip.GzipFile(fileobj=stream)  # type: ignore[return-value]
    return bz2.BZ2File(stream) if compression == "bz2" else lzma.LZMAFile(stream)  # type: ignore[return-value]


class AdultData(Table):
    """The Adult data as a table: numbers are numbers, and it leaves as CSV."""

    def __init__(self) -> None:
        self._columns = load_adult().columns
        self.name, self.format, self.names = "adult.csv", Format("csv"), tuple(self._columns)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self._columns[self.names[0]])

    def columns(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Give columns by name, as arrays."""
        return {name: self._columns[name] for name in wanted}

    def encoded(self, new: Mapping[str, Sequence[Any]], rows: Sequence[int] | None = None) -> bytes:
        """Give the table as CSV with new columns after its own."""
        content = table_of(self._columns, self.format)
        return read_table(self.name, stream=io.BytesIO(content)).encoded(new, rows)
