"""Dask frames: rows stay with the workers; tasks go there, and small results come back in the order of the partitions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from r2b._data.compute import cores
from r2b._solve.oracle import Block
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import Batch, list_length_of
from r2b.engines.dask_parts import label_dtype, may_hold_lists, record_of, relabelled
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source
from r2b.engines.tally import Counter, Tally
from r2b.errors import EmptyError, ParameterError, require

_MERGED_AT_ONCE = 16
_MOST_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """Blocks kept by the workers; a partition without rows has none.

    Attributes
    ----------
    kept : list of dask.delayed.Delayed
        Each of a block or None. With the distributed scheduler they are futures: a block that is lost with its worker is made again.
    """

    kept: list[Any]

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every block, where it is."""
        walk, task = _dask().delayed(_walked, pure=False, traverse=False), _sent_once(task)
        return (sums for sums in _in_waves([walk(block, task) for block in self.kept]) if sums is not None)


@dataclass(frozen=True, eq=False)
class DaskSource(Source):
    """A ``dask.dataframe.DataFrame``, with whatever scheduler is active: threads, processes or a cluster.

    Attributes
    ----------
    table : dask.dataframe.DataFrame
    """

    table: Any
    name: str = "the Dask frame"
    # Partitions have an order, but the number of a row in the table would take a pass to know: a key is asked for instead.
    ordered: bool = field(default=False, init=False)
    names: tuple[str, ...] = field(init=False)
    _lengths: dict[str, int | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        strange = next((name for name in self.table.columns if not isinstance(name, str)), None)
        if strange is not None:
            raise ParameterError(
                f"The name {strange!r} of a column of {self.name} is not text.",
                remedy="Columns are asked for by name: rename them, such as with frame.rename(columns=str).",
                column=strange,
            )
        object.__setattr__(self, "names", tuple(self.table.columns))

    def list_length(self, column: str) -> int | None:
        """Give the length of the lists, from the first partition that has a row, where the column may hold lists."""
        if column not in self._lengths:
            self._lengths[column] = self._list_length(column)
        return self._lengths[column]

    def _list_length(self, column: str) -> int | None:
        if not may_hold_lists(self.table.dtypes[column]):
            return None
        for first in self._each([column], _first_row):
            if first is not None:
                return list_length_of(first.schema.field(0).type, column, partial(first.column, 0))
        raise EmptyError(f"There are no rows in {self.name}.", remedy="Pass at least one row.")

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring home one partition after the other."""
        return (batch for batch in self._each(columns, _itself) if batch is not None)

    def run(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        """Run work on every partition, where it is."""
        return (found[0] for found in _in_waves(self._tasks(columns, work)) if found is not None)

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count partitions where they are, and add the counts up in a tree."""
        columns = [*keys, *([] if weight is None or weight in keys else [weight])]
        delayed = _dask().delayed
        counters = self._tasks(columns, _Counting(tuple(keys), weight))
        merge = delayed(_merged, pure=False, traverse=False)
        empty = Counter(keys, weight)
        while len(counters) > 1:
            starts = range(0, len(counters), _MERGED_AT_ONCE)
            counters = [merge(empty, *counters[start : start + _MERGED_AT_ONCE]) for start in starts]
        (found,) = _dask().compute(merge(empty, *counters))
        total: Counter = found[0]
        return total.tally()

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[DaskBlocks]:
        """Decode the partitions once, and keep the blocks with the workers."""
        kept = list(_dask().persist(*self._tasks(decode.roles.used, decode)))
        try:
            yield DaskBlocks(kept)
        finally:
            kept.clear()  # the workers let go of what nobody holds

    def frame(self, relabel: Relabel) -> Any:
        """Give a Dask frame with new columns; nothing is computed before it is asked for."""
        plain = self.table._meta.iloc[:0]
        dtype = label_dtype(plain, relabel)
        meta = relabelled(plain, relabel, dtype)
        return self.table.map_partitions(relabelled, _sent_once(relabel), dtype, meta=meta)

    def _tasks(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> list[Any]:
        wanted = list(dict.fromkeys(columns))
        do, work = _dask().delayed(_done, pure=False, traverse=False), _sent_once(work)
        return [do(part, number, work) for number, part in enumerate(self.table[wanted].to_delayed())]

    def _each(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        for task in self._tasks(columns, work):
            (found,) = _dask().compute(task)
            yield None if found is None else found[0]


def _sent_once(work: Any) -> Any:
    """Make work a part of the graph of its own: inside every task it would be sent, and held, once per partition."""
    return _dask().delayed(work, pure=False, traverse=False)


def _in_waves(tasks: list[Any]) -> Iterator[Any]:
    """Give results in order, enough at a time to keep all workers busy: a result may be some megabytes, and partitions may be thousands."""
    size = _at_once()
    for start in range(0, len(tasks), size):
        yield from _dask().compute(*tasks[start : start + size])


def _at_once() -> int:
    distributed = sys.modules.get("distributed")
    try:
        threads = sum(distributed.get_client().nthreads().values()) if distributed is not None else 0
    except ValueError:  # no cluster is connected
        threads = 0
    return min(max(2 * (threads or cores()), 16), _MOST_AT_ONCE)


def _done(part: Any, number: int, work: Callable[[Batch], Any]) -> tuple[Any] | None:
    """Run work on a partition; in a tuple, as what work gives may be a collection that Dask would look into."""
    if len(part) == 0:
        return None
    place = f"partition {number}"
    return (work(Batch(record_of(part, place), 0, place)),)


def _walked(block: tuple[Block] | None, task: BlockTask) -> Sums | None:
    return None if block is None else task(block[0])


@dataclass(frozen=True)
class _Counting:
    keys: tuple[str, ...]
    weight: str | None

    def __call__(self, batch: Batch) -> Counter:
        counter = Counter(self.keys, self.weight)
        counter.add(batch)
        return counter


def _merged(empty: Counter, *counters: tuple[Counter] | None) -> tuple[Counter]:
    total = Counter(empty.keys, empty.weight)
    for found in counters:
        if found is not None:
            total.merge(found[0])
    return (total,)


def _itself(batch: Batch) -> Batch:
    return batch


def _first_row(batch: Batch) -> Any:
    return batch.record.slice(0, 1)


def _dask() -> Any:
    return require("dask", "Dask frames need dask", extra="dask")


def open_source(frame: Any) -> DaskSource:
    """Open a Dask frame."""
    return DaskSource(frame)
