"""Files to tables, within limits: of what is sent, and of what it grows to when it is unpacked."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from r2b._files import Format, Table, format_of, read_table, table_of
from r2b._files.arrow import ArrowTable
from r2b._files.limits import megabytes, unpacked_within
from r2b.app.parsing import parsed
from r2b.datasets import load_adult
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
        table = _table(name, content, found, GROWTH * limit)
        if not table.names or table.n_rows < 1:
            raise InputError(f"{name} has no rows.", remedy="Pass a file with at least one.")
        return table
    except FileTooLargeError as error:
        size = error.facts.get("size")
        if not isinstance(size, int):  # it takes too much time or memory, and says so
            raise
        raise too_large(f"{name} grows to more than {megabytes(GROWTH * limit)} when it is unpacked", limit, size) from error
    except ParameterError:
        raise
    except R2BError as error:
        raise type(error)(error.problem, remedy=error.remedy, **{**error.facts, "control": "file"}) from error


def _table(name: str, content: bytes, format: Format | None, most: int) -> Table:
    """Read text here, and what needs a foreign reader, which a damaged file may break, in another process."""
    if format is None or (format.is_text and format.compression != "zst"):
        with unpacked_within(most):
            return read_table(name, stream=io.BytesIO(content))
    clean, body = parsed(content, name, format, most)
    if clean.is_text:
        return read_table(name, stream=io.BytesIO(body), format=clean.kind)
    with unpacked_within(2 * most):  # counted there once; written anew it may be a little larger
        return ArrowTable(name, Format(format.kind), ArrowTable.parse(body, name, clean).table)


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
