"""The part that runs in Spark's workers: classes that map Arrow batches to Arrow batches.

They hold plain data, so that they can be sent. An error about the data is a result like any other:
it travels to the driver and is raised there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Reduction, merged
from r2b.engines.batch import RELABELLED_ROWS, Batch
from r2b.engines.lazy import in_rows
from r2b.engines.source import Relabel, beside
from r2b.errors import R2BError

RESULTS = "part bigint, number bigint, result binary"
MERGED_AT_ONCE = 128  # partitions whose results are merged by one task


def part_number() -> int:
    """Return the number of the partition of this task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def in_place(records: Iterable[Any], names: tuple[str, ...], rows: int | None) -> Iterator[Batch]:
    """Cut record batches to so many rows, or leave them as they come; restore column names."""
    named = (record.rename_columns(list(names)) for record in records)
    return in_rows(named, rows, f"partition {part_number()}")


def unpacked(content: Any) -> Any:
    """Return a result that was sent; an error is raised."""
    result = pickle.loads(content)
    if isinstance(result, R2BError):
        raise result
    return result


def sent(results: Iterator[Any], part: int) -> Iterator[Any]:
    """Yield results as rows with their place; an error ends them, and is the last."""
    number = 0
    try:
        for result in results:
            yield _row(part, number, result)
            number += 1
    except R2BError as error:
        yield _row(part, number, error)


def _row(part: int, number: int, result: Any) -> Any:
    columns = {"part": [part], "number": [number], "result": [pickle.dumps(result, protocol=5)]}
    return pyarrow().RecordBatch.from_pydict(columns)


@dataclass(frozen=True, eq=False)
class Run:
    """Run work on batches; one result per batch."""

    names: tuple[str, ...]
    work: Callable[[Batch], Any]
    rows: int = RELABELLED_ROWS

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Work on the rows of a partition."""
        return sent(map(self.work, in_place(records, self.names, self.rows)), part_number())


@dataclass(frozen=True, eq=False)
class Reduce:
    """Merge what a task makes of the batches of a partition, or of blocks that were kept.

    At most one result; ``names`` is None for blocks.
    """

    names: tuple[str, ...] | None
    task: Reduction
    rows: int = RELABELLED_ROWS

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Work on the rows of a partition."""
        if self.names is None:
            kept = (content for record in records for content in record["result"])
            several: Iterator[Any] = (unpacked(content.as_buffer()) for content in kept)
        else:
            several = in_place(records, self.names, self.rows)
        return sent(_whole(self.task, map(self.task.make, several)), part_number())


def _whole(task: Reduction, parts: Iterator[Any]) -> Iterator[Any]:
    """Merge parts in their order; yield nothing where there are none."""
    return (merged(task, chain([first], parts)) for first in parts)


@dataclass(frozen=True, eq=False)
class Merge:
    """Merge the results of partitions, which come in their order: one result for so many."""

    task: Reduction

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Work on the rows of a partition."""
        rows = (
            (part.as_py() // MERGED_AT_ONCE, content.as_buffer())
            for record in records
            for part, content in zip(record["part"], record["result"], strict=True)
        )
        for branch, several in groupby(rows, key=lambda row: row[0]):
            results = (unpacked(content) for _, content in several)
            yield from sent(_whole(self.task, results), branch)


@dataclass(frozen=True, eq=False)
class Beside:
    """Put new columns beside the old ones; an error is raised here, by the action that runs it."""

    names: tuple[str, ...]
    relabel: Relabel
    rows: int | None = None

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Work on the rows of a partition."""
        for batch in in_place(records, self.names, self.rows):
            whole = beside(batch.record, self.relabel(batch))
            yield whole.rename_columns([f"c{place}" for place in range(whole.num_columns)])
