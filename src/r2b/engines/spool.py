"""Decoded rows in a scratch file: read from their table once, then walked as often as a solve needs.

The file has no name from the moment it is made, so that nothing is left of it however the process ends. A block is in memory only while a
task looks at it.
"""

from __future__ import annotations

import errno
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._data.arrays import Array
from r2b._files.atomic import refuse_little_room, refused_path
from r2b._solve.oracle import Block
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import ahead
from r2b.engines.roles import Decode
from r2b.errors import R2BError

if TYPE_CHECKING:
    from r2b.engines.files import FileSource


_ELSEWHERE = "name another folder with the environment variable TMPDIR or r2b.scan(..., scratch=...)"
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
        try:
            self._file = tempfile.TemporaryFile(dir=folder, prefix=".r2b-")  # noqa: SIM115 - closed by close()
        except OSError as cause:
            raise refusal(folder, cause) from cause

    def add(self, block: Block) -> None:
        """Keep a block."""
        pieces: list[tuple[str, np.dtype[Any], tuple[int, ...], int]] = []
        place = 0
        arrays = {"labels": block.labels, "cells": block.cells, "weight": block.weight, "levels": block.levels}
        try:
            self._file.seek(self._end)
            for name, array in arrays.items():
                array = np.ascontiguousarray(array)
                pieces.append((name, array.dtype, array.shape, place))
                # Every byte is written, thresholds too: a hole would be filled later, when a full disk could only kill the process.
                self._file.write(array.reshape(-1).view(np.uint8).data)
                gap = -array.nbytes % 64
                self._file.write(bytes(gap))
                place += array.nbytes + gap
            self._file.write(bytes(-place % _PAGE))
            self._file.flush()
        except OSError as cause:
            raise refusal(self.folder, cause) from cause
        self._slots.append(Slot(self._end, place, tuple(pieces)))
        self._end += place + -place % _PAGE

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every block; the results come in the order of the blocks."""
        return ahead(lambda slot: self._walked(slot, task), self._slots, self.threads)

    def _walked(self, slot: Slot, task: BlockTask) -> Sums:
        mapped = self._mapped(slot)
        try:
            block = Block(**{name: _view(mapped, dtype, shape, place) for name, dtype, shape, place in slot.pieces})
            # What a task returns may look into the block, which is gone when the mapping is.
            results = [np.array(each) for each in task(block)]
            del block
            return results
        finally:
            with suppress(BufferError):  # an error on its way out still looks into the block; the mapping goes when it does
                mapped.close()

    def _mapped(self, slot: Slot) -> mmap.mmap:
        if _SHARED:
            return mmap.mmap(self._file.fileno(), slot.n_bytes, flags=_SHARED | _AT_ONCE, offset=slot.offset)
        return mmap.mmap(self._file.fileno(), slot.n_bytes, access=mmap.ACCESS_WRITE, offset=slot.offset)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()


def _view(mapped: mmap.mmap, dtype: np.dtype[Any], shape: tuple[int, ...], place: int) -> Array:
    count = int(np.prod(shape))
    return np.frombuffer(mapped, dtype, count, place).reshape(shape) if count else np.empty(shape, dtype)


@contextmanager
def spooled(source: FileSource, decode: Decode) -> Iterator[Spool]:
    """Decode all rows of files into a scratch file for as long as it is wanted.

    Raises
    ------
    ParameterError
        The disk has not enough room.
    """
    folder = source.scratch or tempfile.gettempdir()
    try:
        refuse_little_room(folder, needed(source, decode), "decoded probabilities", _ELSEWHERE)
    except OSError as cause:
        raise refusal(folder, cause) from cause
    spool = Spool(folder, source.threads)
    try:
        for block in source.run(decode.roles.used, decode):
            spool.add(block)
        yield spool
    finally:
        spool.close()


def needed(source: FileSource, decode: Decode) -> int:
    """Estimate the bytes of the scratch file from the number of rows; 0 where that is not known."""
    kinds = {source.files[0].schema.field(name).type for name in decode.roles.label if name not in source.keys}
    single = all("float" in str(kind) and "halffloat" not in str(kind) for kind in kinds)  # Arrow calls 32 bits float
    width = len(decode.schema.classes) * (4 if single else 8)
    return (source.n_rows or 0) * (width + 1 + 8 + (0 if decode.roles.weight is None else 8))


def refusal(folder: str, cause: OSError) -> R2BError:
    """Say that scratch space ran out, or cannot be had."""
    full = cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = "there is no room left" if full else cause.strerror or str(cause)
    problem = f"Decoded probabilities cannot be kept in {folder}: {reason}."
    return refused_path(folder, problem, f"Make room there, or {_ELSEWHERE}.", errno=cause.errno)
