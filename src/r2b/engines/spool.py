"""Scratch files: decoded rows, read from their table once and walked as often as a solve needs; copies of streams; rows on their way out.

They have no name from the moment they are made where the system allows it, so that nothing is left
of them however the process ends. A block is in memory only while a task looks at it.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import ahead
from r2b._files.paths import refuse_little_room, refused_path
from r2b._solve.oracle import Block, Reduction, merged
from r2b._solve.oracle.blocks import Sums
from r2b.engines.roles import Decode

if TYPE_CHECKING:
    from r2b.engines.files import FileSource


_ELSEWHERE = (
    "name another folder with the environment variable TMPDIR or r2b.scan(..., scratch=...)"
)
_COPIED = 1 << 20  # bytes at a time
_PAGE = max(mmap.ALLOCATIONGRANULARITY, 1 << 16)
_SHARED = getattr(mmap, "MAP_SHARED", 0)
_AT_ONCE = getattr(mmap, "MAP_POPULATE", 0)  # one call instead of a fault per page


@dataclass(frozen=True)
class Slot:
    """Where a block lies in the scratch file.

    Attributes
    ----------
    offset, n_bytes : int
    pieces : tuple of (str, dtype, shape, int)
        Labels, cells, weights and thresholds: name, type, shape and place within the slot.
    """

    offset: int
    n_bytes: int
    pieces: tuple[tuple[str, np.dtype[Any], tuple[int, ...], int], ...]


class Spool:
    """A scratch file of blocks, and the engine that walks it.

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
        self._slots: list[Slot] = []
        self._end = 0
        with keeping(folder):
            self._file = tempfile.TemporaryFile(dir=folder, prefix=".r2b-")  # noqa: SIM115 - closed by close()

    def add(self, block: Block) -> None:
        """Keep a block."""
        pieces: list[tuple[str, np.dtype[Any], tuple[int, ...], int]] = []
        place = 0
        arrays = {
            "labels": block.labels,
            "design": block.design,
            "weight": block.weight,
            "levels": block.levels,
        }
        with keeping(self.folder):
            self._file.seek(self._end)
            for name, array in arrays.items():
                array = np.ascontiguousarray(array)
                pieces.append((name, array.dtype, array.shape, place))
                # Every byte is written, thresholds too: a hole would be filled later, when a full
                # disk could only kill the process.
                self._file.write(array.reshape(-1).view(np.uint8).data)
                gap = -array.nbytes % 64
                self._file.write(bytes(gap))
                place += array.nbytes + gap
            self._file.write(bytes(-place % _PAGE))
            self._file.flush()
        self._slots.append(Slot(self._end, place, tuple(pieces)))
        self._end += place + -place % _PAGE

    def reduce(self, task: Reduction) -> Any:
        """Make the result of every block, and merge the results in order."""
        return merged(task, ahead(lambda slot: self._walked(slot, task), self._slots, self.threads))

    def _walked(self, slot: Slot, task: Reduction) -> Sums:
        mapped = self._mapped(slot)
        try:
            block = Block(
                **{
                    name: _view(mapped, dtype, shape, place)
                    for name, dtype, shape, place in slot.pieces
                }
            )
            # What a task returns may look into the block, which is gone when the mapping is.
            results = [np.array(each) for each in task.make(block)]
            del block
            return results
        finally:
            # an error on its way out still looks into the block; the mapping goes when it does
            with suppress(BufferError):
                mapped.close()

    def _mapped(self, slot: Slot) -> mmap.mmap:
        if _SHARED:
            return mmap.mmap(
                self._file.fileno(), slot.n_bytes, flags=_SHARED | _AT_ONCE, offset=slot.offset
            )
        return mmap.mmap(
            self._file.fileno(), slot.n_bytes, access=mmap.ACCESS_WRITE, offset=slot.offset
        )

    def close(self) -> None:
        """Give the space back."""
        self._file.close()


def _view(mapped: mmap.mmap, dtype: np.dtype[Any], shape: tuple[int, ...], place: int) -> Array:
    count = int(np.prod(shape))
    return (
        np.frombuffer(mapped, dtype, count, place).reshape(shape)
        if count
        else np.empty(shape, dtype)
    )


@contextmanager
def spooled(source: FileSource, decode: Decode) -> Iterator[Spool]:
    """Decode all rows of files into a scratch file for as long as it is wanted.

    Raises
    ------
    ParameterError
        The disk has not enough room.
    """
    folder = source.scratch or tempfile.gettempdir()
    with keeping(folder):
        refuse_little_room(folder, needed(source, decode), "decoded probabilities", _ELSEWHERE)
    with closing(Spool(folder, source.threads)) as spool:
        for block in source.run(decode.roles.used, decode):
            spool.add(block)
        yield spool


def needed(source: FileSource, decode: Decode) -> int:
    """Estimate the bytes of the scratch file from the number of rows; 0 where that is not known."""
    kinds = {
        source.files[0].schema.field(name).type
        for name in decode.roles.label
        if name not in source.keys
    }
    soft = decode.roles.soft
    # Arrow calls 32 bits float
    single = all("float" in str(kind) and "halffloat" not in str(kind) for kind in kinds)
    width = (len(decode.schema.classes) * (4 if single else 8) if soft else 2) + 8 * len(
        decode.roles.measured
    )
    return (source.n_rows or 0) * (width + 1 + 8 + (0 if decode.roles.weight is None else 8))


@contextmanager
def keeping(folder: str, what: str = "Decoded probabilities", when: str = "") -> Iterator[None]:
    """Say that scratch space ran out, or cannot be had.

    Raises
    ------
    ParameterError
        Names the folder.
    """
    try:
        yield
    except OSError as cause:
        full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "there is no room left" if full else cause.strerror or str(cause)
        problem = f"{what} cannot be kept in {folder}{when}: {reason}."
        raise refused_path(
            folder, problem, f"Make room there, or {_ELSEWHERE}.", errno=cause.errno
        ) from cause


def copied(
    name: str,
    read: Callable[[int], bytes],
    scratch: str | None,
    each: Callable[[int], object] | None = None,
    *,
    in_memory: bool = False,
) -> tuple[str, object]:
    """Copy what a function reads to a scratch file; give its path, and what keeps it there: it is gone with that.

    Parameters
    ----------
    name : str
        Of what is copied.
    read : callable
        Gives at most so many bytes, and none at the end. Part by part, so that Ctrl-C is heard
        between two.
    scratch : str, optional
        Folder of the copy; the system's by default.
    each : callable, optional
        Told how many bytes there are so far.
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
    while more := read(_COPIED):
        with keeping(folder, name, " while it is read"):
            while more:
                written = os.write(number, more)
                more, total = more[written:], total + written
        if each is not None:
            each(total)
    return f"/proc/self/fd/{number}" if nameless else path, held


@dataclass
class _Held:
    """Keeps a file open, and lets it go when nothing needs it any more."""

    number: int
    path: str | None

    def __del__(self) -> None:
        os.close(self.number)
        if self.path is not None:
            os.unlink(self.path)
