"""What is made once from the rows of a lazy frame and read several times: coded blocks, and rows with new columns."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Block, Blocks
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import Batch, ahead
from r2b.engines.roles import Decode
from r2b.engines.spool import Spool, refusal
from r2b.errors import EmptyError

_IN_MEMORY = 1 << 28  # bytes of decoded rows from which they go to a scratch file
_ENTRIES = 1 << 24  # probabilities of a batch


@dataclass(frozen=True)
class KeptBlocks:
    """Blocks in memory, walked by threads."""

    blocks: list[Block]

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every block."""
        return ahead(task, self.blocks)


@contextmanager
def kept_blocks(batches: Iterable[Batch], decode: Decode) -> Iterator[Blocks]:
    """Decode rows and keep them for several passes: in memory, or in a scratch file where they are many."""
    held: list[Block] = []
    spool: Spool | None = None
    n_bytes = 0
    try:
        for block in ahead(decode, batches):
            n_bytes += block.labels.nbytes
            held.append(block)
            if spool is None and n_bytes > _IN_MEMORY:
                spool = Spool(tempfile.gettempdir())
            while spool is not None and held:
                spool.add(held.pop(0))
        yield KeptBlocks(held) if spool is None else spool
    finally:
        held.clear()
        if spool is not None:
            spool.close()


def rows_at_once(most: int, n_classes: int) -> int:
    """Give the rows of a batch: fewer where they are wide.

    Examples
    --------
    >>> rows_at_once(1 << 20, 10), rows_at_once(1 << 20, 1000)
    (1048576, 16777)
    """
    return max(1, min(most, _ENTRIES // n_classes))


def spilled(records: Iterable[Any]) -> Any:
    """Write record batches to a scratch file, and give them as a table that is mapped from it.

    The file has no name where the system allows it, so that it is gone with the table, whatever becomes of the process; its pages are in
    memory only while there is room. It lies where temporary files do; the environment variable TMPDIR says where.

    Examples
    --------
    >>> import pyarrow
    >>> spilled([pyarrow.record_batch({"a": [1]}), pyarrow.record_batch({"a": [2]})])["a"].to_pylist()
    [1, 2]
    """
    try:
        return _spilled(records)
    except OSError as cause:
        raise refusal(tempfile.gettempdir(), cause) from cause


def _spilled(records: Iterable[Any]) -> Any:
    arrow = pyarrow()
    handle, path = tempfile.mkstemp(prefix="r2b-", suffix=".arrow")
    os.close(handle)
    try:
        writer = None
        with arrow.OSFile(path, "wb") as sink:
            try:
                for record in records:
                    writer = writer or arrow.ipc.new_stream(sink, record.schema)
                    writer.write_batch(record)
            finally:
                if writer is not None:
                    writer.close()
        if writer is None:
            raise EmptyError("There are no rows.", remedy="Pass at least one row.")
        table = arrow.ipc.open_stream(arrow.memory_map(path)).read_all()
    except BaseException:
        _removed(path)
        raise
    try:
        os.unlink(path)
    except OSError:  # Windows keeps the file as long as it is mapped
        weakref.finalize(table, _removed, path)
    return table


def _removed(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
