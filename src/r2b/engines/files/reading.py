"""Files that are read part by part: their columns, and their rows a piece at a time.

Reading never holds more than a few pieces.
"""

from __future__ import annotations

import importlib
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from r2b._files.arrow import first_line, pyarrow
from r2b._files.formats import Format
from r2b.engines.batch import PIECE_ROWS, Batch
from r2b.engines.files.listing import Part
from r2b.errors import DamagedFileError, InputError


@dataclass(frozen=True, eq=False)
class ReadJob:
    """Some rows that are still to be read.

    Attributes
    ----------
    n_rows : int
    read : callable
        Reads them, in any thread. Of delimited text, ``spelled=True`` keeps text that means
        missing as it is.
    chunk : Chunk or None
        Their bytes, where the file is text.
    """

    n_rows: int
    read: Callable[..., list[Batch]]
    chunk: Any = None


@dataclass(frozen=True)
class ReadOptions:
    """How the files of a table are read.

    Attributes
    ----------
    format : Format
    delimiter : str or None
        Of CSV and TSV; None for what the header shows.
    na : sequence of str
        Text that means missing in CSV and TSV.
    encoding : str
        Of text.
    sheet : str or None
        Of a workbook; may be left out where only one has cells.
    """

    format: Format
    delimiter: str | None
    na: Sequence[str]
    encoding: str
    sheet: str | None


@dataclass(frozen=True)
class Wanted:
    """What is to be read of a file.

    Attributes
    ----------
    columns : list of str or None
        Columns with unique names, possibly none; None for all columns, as they stand.
    coded : collection of str
        Columns whose text may come as a dictionary.
    rows : int
        Most rows of a batch.
    """

    columns: list[str] | None
    coded: Collection[str] = ()
    rows: int = PIECE_ROWS


class Stored(ABC):
    """A file of rows.

    Parameters
    ----------
    part : Part
    options : ReadOptions

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the file alone, without the columns that its folders name.
    n_rows : int or None
        None where only reading tells.
    n_bytes : int
    kind : str
        Of its format.

    A file that is written from it in the same format takes over these:

    encoding, mark : str, bytes
        Of text, and what it begins with (BOM).
    codecs : dict of str to str
        Of the columns of Parquet.
    codec, streamed : str or None, bool
        How batches of Arrow are compressed, and whether they are a stream.
    sheet : str
        The title of a sheet.
    mixed : frozenset of str
        Columns whose values are of types that no column can hold together.
    """

    schema: Any
    n_rows: int | None = None
    kind: str
    encoding: str = "utf-8"
    mark: bytes = b""
    codec: str | None = None
    streamed: bool = False
    sheet: str = "Sheet1"
    mixed: frozenset[str] = frozenset()

    def __init__(self, part: Part, options: ReadOptions) -> None:
        self.part, self.kind = part, options.format.kind
        with reading(part):
            self._seen = self._size_and_time()
        self.n_bytes = self._seen[0]

    @property
    def codecs(self) -> dict[str, str]:
        """Return how columns are compressed, in formats where each has its codec."""
        return {}

    @abstractmethod
    def jobs(self, wanted: Wanted, first: int) -> Iterator[ReadJob]:
        """Yield what reads the file, piece by piece in order.

        Parameters
        ----------
        wanted : Wanted
        first : int
            Number of its first row in the table.
        """

    def header_with(self, new: Sequence[str]) -> bytes:
        """Return what stands before the rows of a file of text, with new columns."""
        return b""

    def remedy_for(self, column: str) -> str:
        """Return a remedy for a column that is not there, if the file suggests one."""
        return ""

    def refuse_changed(self) -> None:
        """Refuse a file that is not what it was when it was opened."""
        with suppress(OSError):
            if self._size_and_time() == self._seen:
                return
        raise InputError(
            f"{self.part.name} was changed or removed while the table was read.",
            remedy="Leave the files alone until it is done, and start again.",
            path=self.part.path,
        )

    def _size_and_time(self) -> tuple[int, int]:
        found = os.stat(self.part.path)
        return found.st_size, found.st_mtime_ns


@contextmanager
def reading(part: Part, place: str = "") -> Iterator[None]:
    """Turn what a damaged file raises, in any library, into an error that names the file."""
    try:
        yield
    except (
        pyarrow().ArrowException,
        OSError,
        EOFError,
        UnicodeDecodeError,
        zlib.error,
        importlib.import_module("lzma").LZMAError,
    ) as cause:
        where = f"{part.name}, {place}" if place else part.name
        raise DamagedFileError(
            f"{where} cannot be read: {first_line(cause)}.",
            remedy="Check that the file is whole; write it again where it is not.",
            path=part.path,
            place=where,
        ) from cause


def no_columns(n_rows: int) -> Any:
    """Return rows of which no column is wanted."""
    return pyarrow().record_batch({"": pyarrow().nulls(n_rows)})
