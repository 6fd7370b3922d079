"""Dask frames: rows stay with the workers; tasks go there, and their results are put together there, in the order of the partitions.

Partitions are of pandas: they become Arrow on the way in, and new columns have the types of the old
ones on the way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import dask
import pandas

from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Block
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import Batch, one_record
from r2b.engines.roles import Decode
from r2b.engines.source import Partial, Relabel, Source, list_length_of
from r2b.errors import MixedTypeError, ParameterError

_MERGED_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """Blocks kept by the workers; a partition without rows has none.

    Attributes
    ----------
    kept : list of dask.delayed.Delayed
        Each of a block or None. With the distributed scheduler they are futures: a block that is
        lost with its worker is made again.
    """

    kept: list[Any]

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on all blocks, where they are; there is one result, of all of them."""
        return iter([self.reduce(task)])

    def reduce(self, task: BlockTask) -> Sums:
        """Give the result of all blocks."""
        walk, sent = _delayed(_walked), _delayed(task)
        found: Sums = _put_together([walk(block, sent) for block in self.kept], task)
        return found


@dataclass(frozen=True, eq=False)
class DaskSource(Source):
    """A ``dask.dataframe.DataFrame``, with whatever scheduler is active: threads, processes or a cluster.

    Attributes
    ----------
    table : dask.dataframe.DataFrame
    """

    table: Any
    name: str = "the Dask frame"
    # Partitions have an order, but the number of a row in the table would take a pass to know: a
    # key is asked for instead.
    ordered: bool = field(default=False, init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        strange = next((name for name in self.table.columns if not isinstance(name, str)), None)
        if strange is not None:
            problem = f"The name {strange!r} of a column of {self.name} is not text."
            remedy = "Columns are asked for by name: rename them, such as with frame.rename(columns=str)."
            raise ParameterError(problem, remedy=remedy, column=strange)
        object.__setattr__(self, "names", tuple(self.table.columns))

    def first_list_length(self, column: str) -> int | None:
        """Give the length of the lists, from the first partition that has a row, where the column may hold lists."""
        if not may_hold_lists(self.table.dtypes[column]):
            return None
        first = next(self._each([column], lambda batch: batch.record.slice(0, 1)), None)
        if first is None:
            return 0 if hasattr(self.table.dtypes[column], "pyarrow_dtype") else None
        return list_length_of(first.schema.field(0).type, column, partial(first.column, 0))

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring home one partition after the other."""
        return self._each(columns, lambda batch: batch)

    def reduce(self, columns: Sequence[str], partial: Partial) -> Any:
        """Give the part of all rows."""
        return _put_together(self._tasks(columns, partial.make), partial)

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[DaskBlocks]:
        """Decode the partitions once, and keep the blocks with the workers."""
        kept = list(dask.persist(*self._tasks(decode.roles.used, decode)))
        try:
            yield DaskBlocks(kept)
        finally:
            kept.clear()  # the workers let go of what nobody holds

    def frame(self, relabel: Relabel) -> Any:
        """Give a Dask frame with new columns; nothing is computed before it is asked for."""
        plain = self.table._meta.iloc[:0]
        dtype = label_dtype(plain, relabel)
        return self.table.map_partitions(
            relabelled, _delayed(relabel), dtype, meta=relabelled(plain, relabel, dtype)
        )

    def _tasks(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> list[Any]:
        do, work = _delayed(_done), _delayed(work)
        return [
            do(part, number, work)
            for number, part in enumerate(self.table[list(dict.fromkeys(columns))].to_delayed())
        ]

    def _each(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        for task in self._tasks(columns, work):
            (found,) = dask.compute(task)
            if found is not None:
                yield found[0]


def _delayed(work: Any) -> Any:
    """Make work a part of the graph of its own: inside every task it would be sent, and held, once per partition."""
    return dask.delayed(work, pure=False, traverse=False)


def _put_together(tasks: list[Any], partial: Partial | BlockTask) -> Any:
    """Merge what tasks give where they run, in a tree that only depends on their number; None where no partition has rows."""
    merge, sent = _delayed(_merged), _delayed(partial)
    while len(tasks) > 1:
        tasks = [
            merge(sent, *tasks[start : start + _MERGED_AT_ONCE])
            for start in range(0, len(tasks), _MERGED_AT_ONCE)
        ]
    (found,) = dask.compute(tasks[0])
    return None if found is None else found[0]


def _done(part: Any, number: int, work: Callable[[Batch], Any]) -> tuple[Any] | None:
    """Run work on a partition; in a tuple, as what work gives may be a collection that Dask would look into."""
    if len(part) == 0:
        return None
    place = f"partition {number}"
    return (work(Batch(record_of(part, place), 0, place)),)


def _walked(block: tuple[Block] | None, task: BlockTask) -> tuple[Sums] | None:
    return None if block is None else (task(block[0]),)


def _merged(partial: Partial | BlockTask, *parts: tuple[Any] | None) -> tuple[Any] | None:
    there = [part[0] for part in parts if part is not None]
    return (reduce(partial.merge, there),) if there else None


def record_of(part: Any, place: str) -> Any:
    """Give a partition as a record batch; its index stays behind.

    Raises
    ------
    MixedTypeError
        A column holds values of several types, which Arrow cannot hold.
    """
    arrow = pyarrow()
    try:
        # Text of Arrow lies in several chunks after concat, shuffle or repartition.
        return one_record(arrow.Table.from_pandas(part, preserve_index=False, nthreads=1))
    except arrow.ArrowException as cause:
        # Arrow says what is wrong first, and then in which column.
        found = re.search(r"column (.+) with type", str(cause.args[-1]))
        column = found[1] if found else None
        named = (
            f"the column {column!r}"
            if column
            else f"a column of {', '.join(map(repr, part.columns))}"
        )
        problem = f"In {place}: {named} holds values of several types: {str(cause.args[0]).splitlines()[0].rstrip('.')}."
        raise MixedTypeError(
            problem, remedy="Give all values of a column the same type.", place=place, column=column
        ) from cause


def may_hold_lists(dtype: Any) -> bool:
    """Say whether a column of this type may hold lists: objects may, and Arrow says it.

    Examples
    --------
    >>> may_hold_lists(pandas.Series([[0.5, 0.5]]).dtype), may_hold_lists(pandas.Series(["a"]).dtype)
    (True, False)
    """
    if hasattr(dtype, "pyarrow_dtype"):
        return bool(pyarrow().types.is_nested(dtype.pyarrow_dtype))
    return type(dtype).__module__.partition(".")[0] == "numpy" and dtype.kind == "O"


def label_dtype(meta: Any, relabel: Relabel) -> Any:
    """Give the type of a column of new classes: that of the old ones, with all categories where they are not known."""
    roles, classes = relabel.decode.roles, relabel.decode.schema.classes.values.tolist()
    if roles.soft:
        return pandas.Series(classes).dtype
    dtype = meta.dtypes[roles.label[0]]
    if not isinstance(dtype, pandas.CategoricalDtype):
        return dtype
    known = dtype.categories if "__UNKNOWN_CATEGORIES__" not in dtype.categories else []
    return pandas.CategoricalDtype(
        [*known, *(value for value in classes if value not in set(known))], dtype.ordered
    )


def relabelled(part: Any, relabel: Relabel, dtype: Any) -> Any:
    """Give a partition with new columns; index and other columns stay as they are.

    Parameters
    ----------
    part : pandas.DataFrame
    relabel : Relabel
    dtype : dtype
        Of new classes.
    """
    kinds = (
        ["float64"] * len(relabel.names)
        if relabel.form == "soft"
        else [dtype, "float64"][: len(relabel.names)]
    )
    rows, made = part, [pandas.array([], dtype=kind) for kind in kinds]
    if len(part):
        place = f"the partition of index {part.index[0]!r} to {part.index[-1]!r}"
        new = relabel(Batch(record_of(part[list(relabel.needed)], place), 0, place))
        rows = part if new.rows is None else part.iloc[new.rows]
        plain = [
            column.dictionary_decode() if hasattr(column, "dictionary") else column
            for column in new.columns.values()
        ]
        made = [
            pandas.array(column.to_pandas(), dtype=kind)
            for column, kind in zip(plain, kinds, strict=True)
        ]
    columns = {
        name: pandas.Series(values, index=rows.index)
        for name, values in zip(relabel.names, made, strict=True)
    }
    # Not assign: of two old columns with one name it would give up.
    return pandas.concat([rows, pandas.DataFrame(columns, index=rows.index)], axis=1)
