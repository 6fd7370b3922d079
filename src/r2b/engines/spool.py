"""Scratch files: decoded rows that are read several times, and copies of streams.

They have no name from the moment they are made where the system allows it, so that nothing is left
of them however the process ends. A block is in memory only while a task looks at it.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from r2b._data.compute import work_ahead
from r2b._files.arrow import pyarrow
from r2b._files.paths import refused_path
from r2b._solve.oracle import Block, Reduction, merged
from r2b.errors import EmptyError

ELSEWHERE = (
    "name another folder with the environment variable TMPDIR, or pass `scratch` to r2b.scan"
)


@dataclass(frozen=True)
class HeldBlocks:
    """Blocks in memory or in a scratch file, for several threads.

    Attributes
    ----------
    read : callable
        Returns them, for one pass.
    threads : int, optional
        All cores by default.
    """

    read: Callable[[], Iterable[Block]]
    threads: int | None = None

    def reduce(self, task: Reduction) -> Any:
        """Return the result for all blocks."""
        return merged(task, work_ahead(task.make, self.read(), self.threads))


def read_blocks(file: Any) -> Iterator[Block]:
    """Read the blocks of a scratch file, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> block = Block(np.array([[0.7, 0.3]]), np.array([0]))
    >>> with stored([record_of(block)]) as file:
    ...     [block.labels.tolist() for block in read_blocks(file)]
    [[[0.7, 0.3]]]
    """
    file.seek(0)
    return map(_block_of, pyarrow().ipc.open_stream(file))


def record_of(block: Block) -> Any:
    """Return a block of probabilities as a record batch."""
    arrow, width = pyarrow(), block.labels.shape[1]
    labels = arrow.FixedSizeListArray.from_arrays(arrow.array(block.labels.ravel()), width)
    columns = {"labels": labels, "design": arrow.array(block.design)}
    if len(block.weight):
        columns["weight"] = arrow.array(block.weight)
    return arrow.record_batch(columns)


def _block_of(record: Any) -> Block:
    labels, *others = record.columns
    matrix = labels.flatten().to_numpy().reshape(len(record), -1)
    return Block(matrix, *(column.to_numpy() for column in others))


@contextmanager
def stored(records: Iterable[Any], folder: str | None = None) -> Iterator[Any]:
    """Write record batches to a scratch file, which has no name where the system allows it.

    So it is gone with its last use, whatever becomes of the process.
    """
    arrow, writer, folder = pyarrow(), None, folder or tempfile.gettempdir()
    with keeping(folder):
        scratch = tempfile.TemporaryFile(dir=folder, prefix=".r2b-")  # noqa: SIM115
    with scratch as file:
        # Only what the folder refuses is its fault, not what is read or done meanwhile.
        for record in records:
            with keeping(folder):
                writer = writer or arrow.ipc.new_stream(file, record.schema)
                writer.write_batch(record)
        if writer is None:
            raise EmptyError("There are no rows.", remedy="Pass at least one row.")
        with keeping(folder):
            writer.close()
            file.flush()
        yield file


def spilled(records: Iterable[Any]) -> Any:
    """Write record batches to a scratch file, and return them as a table that is mapped from it.

    Its pages are in memory only while there is room. The environment variable TMPDIR says where it
    lies.

    Examples
    --------
    >>> import pyarrow
    >>> records = [pyarrow.record_batch({"a": [1]}), pyarrow.record_batch({"a": [2]})]
    >>> spilled(records)["a"].to_pylist()
    [1, 2]
    """
    with stored(records) as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrow = pyarrow()
    return arrow.ipc.open_stream(arrow.py_buffer(mapped)).read_all()


@contextmanager
def keeping(folder: str, what: str = "Decoded probabilities", when: str = "") -> Iterator[None]:
    """Turn the errors of a scratch folder into one that names it and says what to do."""
    try:
        yield
    except OSError as cause:
        full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "there is no room left" if full else cause.strerror or str(cause)
        raise refused_path(
            folder,
            f"{what} cannot be kept in {folder}{when}: {reason}.",
            f"Make room there, or {ELSEWHERE}.",
            errno=cause.errno,
        ) from cause


def copied(
    name: str,
    read: Callable[[int], bytes],
    scratch: str | None,
    each: Callable[[int], object] | None = None,
    *,
    in_memory: bool = False,
) -> tuple[str, object]:
    """Copy what a function reads to a scratch file; return its path, and what keeps it existing.

    Parameters
    ----------
    name : str
        Of what is copied.
    read : callable
        Returns at most so many bytes, and none at the end.
    scratch : str, optional
        Folder of the copy; the system's by default.
    each : callable, optional
        Called with the bytes so far.
    in_memory : bool
        Keep the copy in memory, where the system has files there; nothing of it is on a disk then.
    """
    folder, total = scratch or tempfile.gettempdir(), 0
    # A file without a name can be opened again where the system lists open files.
    nameless = os.path.isdir("/proc/self/fd")
    with keeping(folder, name, " while it is read"):
        if in_memory and nameless and hasattr(os, "memfd_create"):
            number, path = os.memfd_create("r2b"), ""
        else:
            number, path = tempfile.mkstemp(dir=folder, prefix=".r2b-")
            if nameless:
                os.unlink(path)
    held = _Held(number, None if nameless else path)
    while more := read(1 << 20):
        with keeping(folder, name, " while it is read"):
            while more:
                written = os.write(number, more)
                more, total = more[written:], total + written
        if each is not None:
            each(total)
    return f"/proc/self/fd/{number}" if nameless else path, held


@dataclass
class _Held:
    """Keeps a file open, and closes it when nothing needs it any more."""

    number: int
    path: str | None

    def __del__(self) -> None:
        os.close(self.number)
        if self.path is not None:
            os.unlink(self.path)
