"""Dask frames: rows stay with the workers; tasks go there, and their results are merged there.

Partitions are of pandas: they become Arrow on the way in, and new columns have the types of the old
ones on the way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import pandas

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Reduction, merged
from r2b.engines.batch import Batch, one_record, plain
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source
from r2b.errors import MixedTypeError, ParameterError

_MERGED_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """Blocks kept by the workers; a partition without rows has none.

    Attributes
    ----------
    kept : list of dask.delayed.Delayed
        Each of a block in a tuple, or None. With the distributed scheduler they are futures: a
        block that is lost with its worker is made again.
    """

    kept: list[Any]

    def reduce(self, task: Reduction) -> Any:
        """Return the result of all blocks."""
        work, sent = _delayed(_on_block), _delayed(task)
        return _merged([work(block, sent) for block in self.kept], task)


class DaskSource(Source):
    """A ``dask.dataframe.DataFrame``, with any scheduler: threads, processes or a cluster."""

    name = "the Dask frame"
    # Partitions have an order, but the number of a row in the table would take a pass to know: a
    # key is asked for instead.
    ordered = False

    def __init__(self, table: Any) -> None:
        self.table, self.names = table, tuple(table.columns)
        strange = next((name for name in self.names if not isinstance(name, str)), None)
        if strange is not None:
            raise ParameterError(
                f"The name {strange!r} of a column of {self.name} is not text.",
                remedy="Rename the columns, such as with frame.rename(columns=str).",
                column=strange,
            )

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns; of null for objects, which may be anything."""
        kinds = [getattr(self.table.dtypes[name], "pyarrow_dtype", None) for name in columns]
        none = [pyarrow().array([], kind or pyarrow().null()) for kind in kinds]
        return pyarrow().record_batch(none, names=list(columns))

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring one partition after the other to this process."""
        for task in self._tasks(columns, lambda batch: batch):
            (found,) = dask.compute(task)
            if found is not None:
                yield found[0]

    def reduce(self, columns: Sequence[str], task: Reduction) -> Any:
        """Merge what a task makes of all rows, where they are."""
        return _merged(self._tasks(columns, task.make), task)

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[DaskBlocks]:
        """Decode the partitions once, and keep the blocks with the workers."""
        kept = list(dask.persist(*self._tasks(decode.roles.used, decode)))
        try:
            yield DaskBlocks(kept)
        finally:
            kept.clear()  # the workers release what nobody holds

    def frame(self, relabel: Relabel) -> Any:
        """Return a Dask frame with new columns; nothing is computed before it is asked for."""
        plain = self.table._meta.iloc[:0]
        dtype = label_dtype(plain, relabel)
        meta = relabelled(plain, relabel, dtype)
        return self.table.map_partitions(relabelled, _delayed(relabel), dtype, meta=meta)

    def _tasks(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> list[Any]:
        do, work = _delayed(_on_part), _delayed(work)
        parts = self.table[list(dict.fromkeys(columns))].to_delayed()
        return [do(part, number, work) for number, part in enumerate(parts)]


def _delayed(work: Any) -> Any:
    """Make work a node of the graph: inside every task it would be sent once per partition."""
    return dask.delayed(work, pure=False, traverse=False)


def _merged(tasks: list[Any], task: Reduction) -> Any:
    """Merge results where they are, in a tree whose shape follows from their number alone."""
    merge, sent = _delayed(_fold), _delayed(task)
    while len(tasks) > 1:
        starts = range(0, len(tasks), _MERGED_AT_ONCE)
        tasks = [merge(sent, *tasks[start : start + _MERGED_AT_ONCE]) for start in starts]
    (found,) = dask.compute(tasks[0])
    return None if found is None else found[0]


# Results are in a tuple, for Dask would look into one that is a collection; None is no rows.
def _on_part(part: Any, number: int, work: Callable[[Batch], Any]) -> tuple[Any] | None:
    place = f"partition {number}"
    return (work(Batch(record_of(part, place), 0, place)),) if len(part) else None


def _on_block(block: tuple[Any] | None, task: Reduction) -> tuple[Any] | None:
    return None if block is None else (task.make(block[0]),)


def _fold(task: Reduction, *parts: tuple[Any] | None) -> tuple[Any] | None:
    there = [part[0] for part in parts if part is not None]
    return (merged(task, there),) if there else None


def record_of(part: Any, place: str) -> Any:
    """Return a partition as a record batch, without its index.

    Raises
    ------
    MixedTypeError
        A column holds values of several types, which Arrow cannot hold.
    """
    arrow = pyarrow()
    try:
        return one_record(arrow.Table.from_pandas(part, preserve_index=False, nthreads=1))
    except arrow.ArrowException as cause:
        # Arrow says what is wrong first, and then in which column.
        found = re.search(r"column (.+) with type", str(cause.args[-1]))
        column = found[1] if found else None
        called = f"the column {column!r}"
        if column is None:
            called = f"a column of {', '.join(map(repr, part.columns))}"
        wrong = str(cause.args[0]).splitlines()[0].rstrip(".")
        raise MixedTypeError(
            f"In {place}: {called} holds values of several types: {wrong}.",
            remedy="Give all values of a column the same type.",
            place=place,
            column=column,
        ) from cause


def label_dtype(meta: Any, relabel: Relabel) -> Any:
    """Return the dtype of new classes: that of the old ones, with all categories known."""
    roles, classes = relabel.roles, relabel.decode.schema.classes.values.tolist()
    if roles.soft:
        return pandas.Series(classes).dtype
    dtype = meta.dtypes[roles.label[0]]
    if not isinstance(dtype, pandas.CategoricalDtype):
        return dtype
    known = [] if "__UNKNOWN_CATEGORIES__" in dtype.categories else list(dtype.categories)
    return pandas.CategoricalDtype(list(dict.fromkeys([*known, *classes])), dtype.ordered)


def relabelled(part: Any, relabel: Relabel, dtype: Any) -> Any:
    """Return a partition with new columns; index and other columns stay as they are.

    Parameters
    ----------
    part : pandas.DataFrame
    relabel : Relabel
    dtype : dtype
        Of new classes.
    """
    kinds = ["float64"] * len(relabel.names)
    if relabel.traits.classes:
        kinds[0] = dtype
    rows: Any = part
    values: list[Any] = [[] for _ in kinds]
    if len(part):
        place = f"the partition of index {part.index[0]!r} to {part.index[-1]!r}"
        new = relabel(Batch(record_of(part[list(relabel.needed)], place), 0, place))
        rows = part if new.rows is None else part.iloc[new.rows]
        values = [plain(column).to_pandas() for column in new.columns.values()]
    columns = {
        name: pandas.Series(pandas.array(each, dtype=kind), index=rows.index)
        for name, each, kind in zip(relabel.names, values, kinds, strict=True)
    }
    # Not assign: of two old columns with one name it would give up.
    return pandas.concat([rows, pandas.DataFrame(columns, index=rows.index)], axis=1)
