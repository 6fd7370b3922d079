"""What runs inside Spark's workers: functions from Arrow batches to Arrow batches, made of plain data so that they can be sent.

Nothing here may touch the driver's session. An error about the data is a result like any other: it
travels home and is raised there.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Block
from r2b._solve.oracle.blocks import BlockTask, merged
from r2b.engines.batch import Batch
from r2b.engines.lazy import in_rows
from r2b.engines.roles import Decode
from r2b.engines.source import Partial, Relabel, folded, joined
from r2b.errors import R2BError

RESULTS = "part bigint, number bigint, result binary"
BLOCKS = "labels binary, cells binary, weight binary, parts binary, kinds string, failure binary"

MERGED_AT_ONCE = 128  # partitions whose results are put together
_INFLATED_AT_ONCE = 1 << 16  # bytes
# Spark hands over 10,000 rows at a time; what comes back from a batch may be as long as the prices
BATCH_ROWS = 1 << 18
BLOCK_ENTRIES = 1 << 21  # 16 MB: enough for the compiled kernel to pay, and several fit in a worker
# rows that are rounded together where they are too many to be decided at once
ROUNDED_ENTRIES = 1 << 22


def part_number() -> int:
    """Give the number of the partition that is worked on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def in_place(records: Iterable[Any], names: tuple[str, ...], rows: int | None) -> Iterator[Batch]:
    """Give record batches of so many rows, or as they come; columns get their own names back."""
    arrow = pyarrow()
    named = (
        arrow.RecordBatch.from_arrays(
            record.columns,
            schema=arrow.schema(
                [kind.with_name(name) for kind, name in zip(record.schema, names, strict=True)]
            ),
        )
        for record in records
    )
    return in_rows(named, rows, f"partition {part_number()}")


def packed(result: Any, *, counts: bool = False) -> bytes:
    """Give a result as bytes; counts are mostly zeros, which weigh nothing once they are compressed."""
    return zlib.compress(pickle.dumps(result, protocol=5), 1 if counts else 0)


def unpacked(content: bytes) -> Any:
    """Give what was packed; an error is raised.

    Examples
    --------
    >>> unpacked(packed([1, 2]))
    [1, 2]
    """
    result = pickle.load(io.BufferedReader(_Inflated(content)))
    if isinstance(result, R2BError):
        raise result
    return result


class _Inflated(io.RawIOBase):
    """Bytes that were compressed, a little at a time: arrays are read to where they stay, and never held twice."""

    def __init__(self, content: Any) -> None:
        self._content, self._given, self._inflate = memoryview(content), 0, zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        found = b""
        while not found and not self._inflate.eof:
            held: Any = self._inflate.unconsumed_tail
            if not held:
                held = self._content[self._given : self._given + _INFLATED_AT_ONCE]
                self._given += len(held)
            if not held:
                raise EOFError("The result of a partition ends too early.")
            found = self._inflate.decompress(held, min(len(room), _INFLATED_AT_ONCE))
        room[: len(found)] = found
        return len(found)


def sent(results: Iterator[Any], *, counts: bool = False) -> Iterator[Any]:
    """Give results, or the error that came instead, as rows with their place."""
    part, number = part_number(), 0
    try:
        for result in results:
            yield _row({"part": part, "number": number, "result": packed(result, counts=counts)})
            number += 1
    except R2BError as error:
        yield _row({"part": part, "number": number, "result": packed(error)})


def _row(values: dict[str, Any]) -> Any:
    """Give a record batch of one row; what is neither a number nor text is bytes."""
    arrow = pyarrow()
    kinds = {int: arrow.int64(), str: arrow.string()}
    columns = [
        arrow.array([value], kinds.get(type(value), arrow.binary())) for value in values.values()
    ]
    return arrow.RecordBatch.from_arrays(columns, names=list(values))


@dataclass(frozen=True, eq=False)
class Run:
    """Runs work on batches."""

    names: tuple[str, ...]
    work: Callable[[Batch], Any]
    rows: int = BATCH_ROWS
    counts: bool = True

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give one result per batch; those that are counts are mostly zeros."""
        return sent(
            (self.work(batch) for batch in in_place(records, self.names, self.rows)),
            counts=self.counts,
        )


@dataclass(frozen=True, eq=False)
class Reduce:
    """Puts together the parts of the batches of a partition."""

    names: tuple[str, ...]
    partial: Partial
    rows: int = BATCH_ROWS

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give one result; none where there are no rows."""
        parts = (self.partial.make(batch) for batch in in_place(records, self.names, self.rows))
        return sent((folded(self.partial, chain([first], parts)) for first in parts), counts=True)


@dataclass(frozen=True, eq=False)
class Together:
    """Puts together the results of partitions, as many at once as have numbers next to each other."""

    partial: Partial | BlockTask

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give one result for every few partitions: merged in their order, or the first error among them."""
        held: dict[int, list[tuple[int, int, bytes]]] = {}
        for record in records:
            for row in zip(*(column.to_pylist() for column in record.columns), strict=True):
                held.setdefault(row[0] // MERGED_AT_ONCE, []).append(row)
        for branch in sorted(held):
            rows = sorted(held.pop(branch))
            try:
                merged: Any = folded(self.partial, (unpacked(content) for _, _, content in rows))
            except R2BError as error:
                merged = error
            # The number of a branch is that of its partitions, shorter.
            yield _row({"part": branch, "number": 0, "result": packed(merged, counts=True)})


def stream_of(batch: Batch) -> tuple[bytes, int, str]:
    """Give a batch as an Arrow stream, its first row and its place, to be sent home."""
    arrow = pyarrow()
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, batch.record.schema) as writer:
        writer.write_batch(batch.record)
    return sink.getvalue().to_pybytes(), batch.first, batch.place


@dataclass(frozen=True, eq=False)
class Keep:
    """Decodes batches of probabilities to rows that hold a block each."""

    names: tuple[str, ...]
    decode: Decode
    entries: int = BLOCK_ENTRIES

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give one row per block; the last may hold an error instead."""
        rows = max(1, self.entries // len(self.decode.schema.classes))
        try:
            for batch in in_place(records, self.names, rows):
                block = self.decode(batch)
                parts = {
                    "labels": block.labels,
                    "cells": block.cells,
                    "weight": block.weight.astype(np.float64, copy=False),
                }
                parts |= {"parts": np.empty(0) if block.parts is None else block.parts}
                kinds = f"{block.labels.dtype.str} {block.cells.dtype.str} {block.labels.ndim}"
                yield _row(
                    {name: part.tobytes() for name, part in parts.items()}
                    | {"kinds": kinds, "failure": None}
                )
        except R2BError as error:
            yield _row(
                {
                    "labels": b"",
                    "cells": b"",
                    "weight": b"",
                    "parts": b"",
                    "kinds": "",
                    "failure": packed(error),
                }
            )


@dataclass(frozen=True, eq=False)
class Pass:
    """Runs a task on the blocks of a partition."""

    task: BlockTask

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give one result; none where there are no blocks."""
        results = (self.task(block) for record in records for block in _blocks(record))
        return sent(merged(self.task, chain([first], results)) for first in results)


def _blocks(record: Any) -> Iterator[Block]:
    for row in range(record.num_rows):
        labels, cells, weight, parts, kinds, failure = (column[row] for column in record.columns)
        if failure.is_valid:
            unpacked(failure.as_py())
        of_labels, of_cells, dimensions = kinds.as_py().split()
        codes, numbers = _array(cells, of_cells), _array(parts, "<f8")
        held = _array(labels, of_labels)
        held = held.reshape(len(codes), -1) if dimensions == "2" else held
        yield Block(
            held,
            codes,
            _array(weight, "<f8"),
            parts=numbers.reshape(len(codes), -1) if len(numbers) else None,
        )


def _array(scalar: Any, kind: str) -> Any:
    # A view of the batch; entries of one column have one type, so that each of them is aligned.
    return np.require(np.frombuffer(scalar.as_buffer(), np.dtype(kind)), requirements="A")


@dataclass(frozen=True, eq=False)
class Beside:
    """Puts new columns beside the old ones."""

    names: tuple[str, ...]
    relabel: Relabel

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give batches with new columns; an error is raised here, for nobody is waiting for it at home."""
        relabel = self.relabel
        together = relabel.form == "round" and relabel.borders is None and relabel.decided is None
        # All columns pass through here, so batches are put together only where that makes the
        # labels better.
        rows = max(1, ROUNDED_ENTRIES // len(relabel.decode.schema.classes)) if together else None
        for batch in in_place(records, self.names, rows):
            whole = joined(batch.record, relabel, batch)
            yield pyarrow().RecordBatch.from_arrays(
                whole.columns, names=[f"c{place}" for place in range(whole.num_columns)]
            )
