"""A Spark frame as a source: rows are counted, walked and relabelled where they are; only sums and small tables come to the driver.

Frames are all that is used, no RDD and no SparkContext, so that Spark Connect is served by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2b._files.arrow import pyarrow
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import Batch
from r2b.engines.roles import Decode, free_name, refuse_alike
from r2b.engines.source import NO_LABEL, RefuseMissing, Relabel, Source
from r2b.engines.spark_lookup import looked_up
from r2b.engines.spark_session import by_byte, fetched, mapped, numbered, streamed
from r2b.engines.spark_worker import BLOCKS, RESULTS, Beside, Count, Keep, Pass, Run, Ship
from r2b.engines.tally import MOST_COMBINATIONS, Counter, Tally, added_up
from r2b.errors import EmptyError, InputError, MissingExtraError, ParameterError


@dataclass(frozen=True, eq=False)
class SparkBlocks:
    """Blocks in a frame that Spark keeps, one to a row.

    Attributes
    ----------
    kept : pyspark.sql.DataFrame
    """

    kept: Any

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on every block: one Spark job."""
        return fetched(mapped(self.kept, Pass(task), RESULTS))


@dataclass(frozen=True, eq=False)
class SparkSource(Source):
    """A ``pyspark.sql.DataFrame``, of a classic session or of Spark Connect.

    The frame is evaluated once per pass and must give the same rows each time: a frame with random columns is to be kept or written first.

    Attributes
    ----------
    data : pyspark.sql.DataFrame
    """

    data: Any
    name: str = "the Spark frame"
    ordered: bool = field(default=False, init=False)
    names: tuple[str, ...] = field(init=False)
    plain: Any = field(init=False, repr=False)
    _tallies: dict[tuple[str, ...], Tally] = field(default_factory=dict, init=False, repr=False)
    _lengths: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.data.columns))
        object.__setattr__(self, "plain", numbered(self.data))

    def select(self, columns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """Give some columns, called after their places, and what they are called here."""
        wanted = tuple(dict.fromkeys(columns))
        return self.plain.select(*(by_byte(self.plain, f"c{self.names.index(name)}") for name in wanted)), wanted

    def list_length(self, column: str) -> int | None:
        """Give the length of the first list; one small job where it has not been asked before."""
        kind = self.data.schema.fields[self.names.index(column)].dataType
        if type(kind).__name__ == "VectorUDT":
            raise ParameterError(
                f"The column {column!r} holds vectors of Spark ML.",
                remedy="Make lists of them with pyspark.ml.functions.vector_to_array.",
                column=column,
            )
        if kind.typeName() != "array":
            return None
        _refuse_other_lists(column, kind.elementType)
        if column not in self._lengths:
            self._lengths[column] = self._first_length(column)
        return self._lengths[column]

    def _first_length(self, column: str) -> int:
        frame, _ = self.select([column])
        rows = frame.limit(1).collect()
        if not rows:
            raise EmptyError(f"{self.subject} has no rows.", remedy="Pass at least one row.")
        if rows[0][0] is None:
            self.refuse_missing(column, NO_LABEL)
        return len(rows[0][0])

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring the rows to the driver, one partition after the other."""
        arrow = pyarrow()
        frame, names = self.select(columns)
        for content, first, place in streamed(mapped(frame, Ship(names), RESULTS)):
            with arrow.ipc.open_stream(content) as reader:
                for record in reader:
                    yield Batch(record, first, place, first)

    def run(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        """Run work where the rows are; results come in the order of partitions and batches."""
        frame, names = self.select(columns)
        return fetched(mapped(frame, Run(names, work), RESULTS))

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination: by Spark itself, or with exact sums of weights in its workers."""
        if weight is None:
            found = self._grouped(tuple(keys))
        else:
            frame, names = self.select([*keys, weight])
            counters: Iterable[Counter] = fetched(mapped(frame, Count(names, tuple(keys), weight), RESULTS))
            found = added_up(counters, keys, weight)
        if weight not in keys:
            self._tallies[tuple(keys)] = found
        return found

    def _grouped(self, keys: tuple[str, ...]) -> Tally:
        frame, names = self.select(keys)
        grouped = frame.groupBy(*frame.columns).count().limit(MOST_COMBINATIONS + 1).toArrow()
        rows_of_each = free_name("rows", names)  # a column of the table may well be called count
        counter = Counter(names, rows_of_each)
        table = grouped.rename_columns([*names, rows_of_each]).combine_chunks()
        for record in table.to_batches():
            counter.add(Batch(record))
        found = counter.tally()
        assert found.weight is not None
        # Groups arrive in any order, and sums that follow must not depend on it.
        rows = sorted(range(len(found.count)), key=lambda row: [str(found.columns[name][row]) for name in names])
        columns = {name: column.take(pyarrow().array(rows, pyarrow().int64())) for name, column in found.columns.items()}
        return Tally(columns, found.weight[rows].astype(np.int64))

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[SparkBlocks]:
        """Decode all rows once, and have Spark keep them until the end: in memory, and on disk what does not fit."""
        from pyspark import StorageLevel

        frame, names = self.select(decode.roles.used)
        kept = mapped(frame, Keep(names, decode), BLOCKS).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield SparkBlocks(kept)
        finally:
            kept.unpersist()

    def frame(self, relabel: Relabel) -> Any:
        """Give a frame with new columns; nothing is computed before it is used."""
        choice = relabel.decode.roles
        self._refuse_alike(relabel.names)
        if not choice.soft and relabel.form in ("soft", "expand"):
            return looked_up(self.plain, self.names, self._combinations((choice.label[0], *choice.attributes)), relabel)
        return self._relabelled(relabel)

    def _refuse_alike(self, new: Sequence[str]) -> None:
        """Refuse new names that Spark would not tell from others: nothing could be asked of such a frame, and no file written."""
        if self.data.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
            return
        refuse_alike(self.names, new, "Spark", "Choose another name with new_column=..., or set spark.sql.caseSensitive to true.")

    def _combinations(self, keys: tuple[str, ...]) -> dict[str, Any]:
        return (self._tallies[keys] if keys in self._tallies else self.tally(keys)).columns

    def _relabelled(self, relabel: Relabel) -> Any:
        from pyspark.sql import types

        choice, old = relabel.decode.roles, self.plain.schema.fields
        kinds: list[types.DataType] = [types.DoubleType()] * len(relabel.names)
        if relabel.form != "soft":
            classes = types.LongType() if choice.listed else types.StringType()
            kinds[0] = classes if choice.soft else old[self.names.index(choice.label[0])].dataType
        new = [types.StructField(f"c{len(old) + place}", kind, False) for place, kind in enumerate(kinds)]
        made = mapped(self.plain, Beside(self.names, relabel), types.StructType([*old, *new]))
        return made.toDF(*self.names, *relabel.names)

    def refuse_missing(self, column: str, remedy: str) -> None:
        """Find a row without a value where the rows are, and say which partition it is in."""
        for _ in self.run([column], RefuseMissing(column, remedy)):
            pass


def _refuse_other_lists(column: str, kind: Any) -> None:
    from pyspark.sql import types

    if not isinstance(kind, types.NumericType):
        raise InputError(
            f"The column {column!r} holds lists of {kind.simpleString()}, not of probabilities.",
            remedy="Name a column of classes, or of lists of numbers.",
            column=column,
        )


def open_source(frame: Any) -> SparkSource:
    """Open a Spark frame.

    Raises
    ------
    ParameterError
        It is a stream, which has no end, or a pandas frame on Spark.
    MissingExtraError
        Spark is too old.
    """
    if not hasattr(frame, "mapInArrow"):
        raise ParameterError(
            "This is a pandas frame on Spark.",
            remedy="Pass frame.to_spark(), or frame.to_spark(index_col='id') to keep its index as a key.",
        )
    if not hasattr(frame, "toArrow"):
        raise MissingExtraError(
            "The Spark frame is of a version before 4.0, which cannot give Arrow tables.",
            remedy="Install a later one: pip install 'r2b[spark]'.",
            library="pyspark",
        )
    if frame.isStreaming:
        raise ParameterError(
            "The Spark frame is a stream, whose rows have no end.", remedy="Write it to a table, and pass a frame of that."
        )
    return SparkSource(frame)
