"""Scratch files: decoded rows that are read several times, and copies of streams.

They have no name from the moment they are made where the system allows it, so that nothing is left
of them however the process ends. A block is in memory only while a task looks at it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import work_ahead
from r2b._files.paths import refused_path
from r2b._solve.oracle import Block, Reduction, merged

ELSEWHERE = (
    "name another folder with the environment variable TMPDIR, or pass `scratch` to r2b.scan"
)

Slot = tuple[str, np.dtype[Any], tuple[int, ...], int]
"""Where an array of a block is in the file: field, type, shape and offset."""


@dataclass(frozen=True)
class HeldBlocks:
    """Blocks in memory, for several threads."""

    blocks: list[Block]
    threads: int | None = None

    def reduce(self, task: Reduction) -> Any:
        """Return the result for all blocks."""
        return merged(task, work_ahead(task.make, self.blocks, self.threads))


class Spool:
    """Blocks in a scratch file.

    Parameters
    ----------
    folder : str
        Where the file is made.
    threads : int, optional
        All cores by default.
    """

    def __init__(self, folder: str, threads: int | None = None) -> None:
        self.folder = folder
        self.threads = threads
        self._blocks: list[list[Slot]] = []
        with keeping(folder):
            self._file = tempfile.TemporaryFile(dir=folder, prefix=".r2b-")  # noqa: SIM115

    def add(self, block: Block) -> None:
        """Keep a block."""
        slots: list[Slot] = []
        with keeping(self.folder):
            end = self._file.seek(0, os.SEEK_END)
            for field in fields(block):
                array = getattr(block, field.name)
                if array is None:
                    continue
                # Every byte is written: a hole would be filled later, when a full disk could only
                # end the process.
                end += self._file.write(bytes(-end % 64))
                slots.append((field.name, array.dtype, array.shape, end))
                end += self._file.write(
                    np.ascontiguousarray(array).data.cast("B") if array.size else b""
                )
            self._file.flush()
        self._blocks.append(slots)

    def reduce(self, task: Reduction) -> Any:
        """Return the result for all blocks."""
        made = work_ahead(lambda slots: task.make(self._block(slots)), self._blocks, self.threads)
        return merged(task, made)

    def _block(self, slots: list[Slot]) -> Block:
        return Block(**{slot[0]: self._array(*slot[1:]) for slot in slots})

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Array:
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.asarray(np.memmap(self._file, dtype, "r+", offset, shape))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


@contextmanager
def keeping(folder: str, what: str = "Decoded probabilities", when: str = "") -> Iterator[None]:
    """Turn the errors of a scratch folder into one that names it and says what to do."""
    try:
        yield
    except OSError as cause:
        full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "there is no room left" if full else cause.strerror or str(cause)
        problem = f"{what} cannot be kept in {folder}{when}: {reason}."
        remedy = f"Make room there, or {ELSEWHERE}."
        raise refused_path(folder, problem, remedy, errno=cause.errno) from cause


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
