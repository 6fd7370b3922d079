"""One file of a table: its columns, and its rows a piece at a time. Reading never holds more than a few pieces."""

from __future__ import annotations

import importlib
import os
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from r2b._data.compute import cores
from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch
from r2b.engines.files_listing import Part
from r2b.errors import DamagedFileError

Item = TypeVar("Item")
Result = TypeVar("Result")
PIECE_ROWS = 1 << 20
PIECE_ENTRIES = 1 << 22  # numbers of a piece where its columns hold lists


@dataclass(frozen=True, eq=False)
class ReadJob:
    """Some rows that are still to be read.

    Attributes
    ----------
    n_rows : int
    read : callable
        Reads them; it may be called in any thread.
    chunk : Chunk or None
        Their bytes, where the file is text.
    """

    n_rows: int
    read: Callable[[], list[Batch]]
    chunk: Any = None


class Stored(ABC):
    """A file of rows.

    Attributes
    ----------
    part : Part
    schema : pyarrow.Schema
        Of the file alone, without what its folders say.
    n_rows : int or None
        None where only reading tells.
    n_bytes : int
    """

    part: Part
    schema: Any
    n_rows: int | None
    n_bytes: int

    @abstractmethod
    def jobs(self, columns: Sequence[str], first: int, *, coded: Collection[str], rows: int) -> Iterator[ReadJob]:
        """Give what reads the file, piece by piece in order.

        Parameters
        ----------
        columns : sequence of str
            Of this file; may be none.
        first : int
            Number of its first row in the table.
        coded : collection of str
            Columns whose text may come as a dictionary.
        rows : int
            Most rows of a batch.
        """

    def seen(self) -> tuple[int, int]:
        """Give size and time of change."""
        told = os.stat(self.part.path)
        return told.st_size, told.st_mtime_ns


@contextmanager
def reading(part: Part, place: str = "") -> Iterator[None]:
    """Turn what goes wrong with a file into an error that names it."""
    try:
        yield
    except _faults() as cause:
        where = f"{part.name}{f', {place}' if place else ''}"
        told = str(cause).splitlines()[0].rstrip(".") if str(cause) else type(cause).__name__
        raise DamagedFileError(
            f"{where} cannot be read: {told}.",
            remedy="Check that the file is whole; write it again where it is not.",
            path=part.path,
            place=where,
        ) from cause


def _faults() -> tuple[type[Exception], ...]:
    """Give what damaged files raise: each library has errors of its own for the same fault."""
    return pyarrow().ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error, importlib.import_module("lzma").LZMAError


def piece_rows(schema: Any, columns: Sequence[str]) -> int:
    """Give how many rows of these columns may be held at once: fewer where they hold lists."""
    arrow = pyarrow()
    width = 0
    for name in columns:
        kind = schema.field(name).type
        width += int(kind.list_size) if arrow.types.is_fixed_size_list(kind) else 16 if arrow.types.is_nested(kind) else 1
    return max(1024, min(PIECE_ROWS, PIECE_ENTRIES // max(width, 1)))


def ahead(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """Give results in the order of the items while threads work on the next few.

    Unlike a pool's own ``map`` it does not take all items at once: what waits is bounded, and so is the memory.

    Examples
    --------
    >>> list(ahead(abs, [-1, -2, -3], threads=2))
    [1, 2, 3]
    """
    n_threads = cores() if threads is None else threads
    if n_threads <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n_threads)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()
        pool.shutdown(wait=True)
