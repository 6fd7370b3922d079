"""A Spark frame as a source: rows are counted, walked and relabelled where they are; only sums and small tables come to the driver.

Frames are all that is used, no RDD and no SparkContext, so that Spark Connect is served by the same
code.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._files.arrow import pyarrow
from r2b._solve.oracle.blocks import BlockTask, Sums
from r2b.engines.batch import Batch, one_record
from r2b.engines.lazy import joins, lookup
from r2b.engines.roles import Decode, refuse_alike
from r2b.engines.source import NO_LABEL, Partial, Relabel, Source, folded
from r2b.engines.spark_worker import (
    BLOCKS,
    MERGED_AT_ONCE,
    RESULTS,
    Beside,
    Keep,
    Pass,
    Reduce,
    Run,
    Together,
    stream_of,
    unpacked,
)
from r2b.engines.tally import MOST_COMBINATIONS, Tally, encoded_column, refuse_combinations
from r2b.errors import InputError, MissingExtraError, ParameterError

_REDUCERS = 16  # tasks that put results together
# bytes of results that come home as they are: the driver holds several copies of them
_AT_HOME = 1 << 22


@dataclass(frozen=True, eq=False)
class SparkBlocks:
    """Blocks in a frame that Spark keeps, one to a row.

    Attributes
    ----------
    kept : pyspark.sql.DataFrame
    n_bytes : int
        About as large is the result of a partition.
    """

    kept: Any
    n_bytes: int

    @cached_property
    def _many(self) -> bool:
        """Whether the results of all partitions are too much to come home at once."""
        from pyspark.sql import functions

        with set_up_errors():
            ((last,),) = (
                self.kept.select(functions.spark_partition_id().alias("part"))
                .agg(functions.max("part"))
                .collect()
            )
        return last is not None and (last + 1) * self.n_bytes > _AT_HOME

    def run(self, task: BlockTask) -> Iterator[Sums]:
        """Run a task on all blocks; there is one result, of all of them."""
        return iter([self.reduce(task)])

    def reduce(self, task: BlockTask) -> Sums:
        """Give the result of all blocks: one Spark job."""
        results = mapped(self.kept, Pass(task), RESULTS)
        found: Sums = merged_there(results, task) if self._many else merged_here(results, task)
        return found


@dataclass(frozen=True, eq=False)
class SparkSource(Source):
    """A ``pyspark.sql.DataFrame``, of a classic session or of Spark Connect.

    The frame is evaluated once per pass and must give the same rows each time: a frame with random
    columns is to be kept or written first.

    Attributes
    ----------
    data : pyspark.sql.DataFrame

    Raises
    ------
    ParameterError
        It is a stream, which has no end, or a pandas frame on Spark.
    MissingExtraError
        Spark is too old.
    """

    data: Any
    name: str = "the Spark frame"
    ordered: bool = field(default=False, init=False)
    names: tuple[str, ...] = field(init=False)
    plain: Any = field(init=False, repr=False)
    _tallies: dict[tuple[str, ...], Tally] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        _refuse_other_frames(self.data)
        object.__setattr__(self, "names", tuple(self.data.columns))
        # Columns called after their places: Spark reads dots and capitals in names in its own way,
        # and allows a name twice.
        object.__setattr__(
            self, "plain", self.data.toDF(*(f"c{place}" for place in range(len(self.names))))
        )

    def select(self, columns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """Give some columns, called after their places, and what they are called here."""
        wanted = tuple(dict.fromkeys(columns))
        return self.plain.select(
            *(by_byte(self.plain, f"c{self.names.index(name)}") for name in wanted)
        ), wanted

    def first_list_length(self, column: str) -> int | None:
        """Give the length of the first list, by one small job."""
        kind = self.data.schema.fields[self.names.index(column)].dataType
        if type(kind).__name__ == "VectorUDT":
            problem = f"The column {column!r} holds vectors of Spark ML."
            raise ParameterError(
                problem,
                remedy="Make lists of them with pyspark.ml.functions.vector_to_array.",
                column=column,
            )
        if kind.typeName() != "array":
            return None
        from pyspark.sql import types

        if not isinstance(kind.elementType, types.NumericType):
            problem = f"The column {column!r} holds lists of {kind.elementType.simpleString()}, not of probabilities."
            raise InputError(
                problem, remedy="Name a column of classes, or of lists of numbers.", column=column
            )
        rows = self.select([column])[0].limit(1).collect()
        if not rows:
            return 0
        if rows[0][0] is None:
            self.refuse_missing(column, NO_LABEL)
        return len(rows[0][0])

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring the rows to the driver, one partition after the other."""
        frame, names = self.select(columns)
        with set_up_errors():
            for row in mapped(
                frame, Run(names, stream_of, counts=False), RESULTS
            ).toLocalIterator():
                content, first, place = unpacked(row["result"])
                for record in pyarrow().ipc.open_stream(content):
                    yield Batch(record, first, place, first)

    def reduce(self, columns: Sequence[str], partial: Partial) -> Any:
        """Give the part of all rows: each partition gives one, and they are put together where they are."""
        from pyspark import StorageLevel
        from pyspark.sql import functions

        frame, names = self.select(columns)
        results = mapped(frame, Reduce(names, partial), RESULTS).persist(
            StorageLevel.MEMORY_AND_DISK
        )
        try:
            with set_up_errors():
                ((n_bytes,),) = results.agg(functions.sum(functions.length("result"))).collect()
            return (
                merged_there(results, partial)
                if (n_bytes or 0) > _AT_HOME
                else merged_here(results, partial)
            )
        finally:
            results.unpersist()

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination: by Spark itself, or with exact sums of weights in its workers."""
        found = self._grouped(tuple(keys)) if weight is None else super().tally(keys, weight)
        if weight not in keys:
            self._tallies[tuple(keys)] = found
        return found

    def _grouped(self, keys: tuple[str, ...]) -> Tally:
        frame, names = self.select(keys)
        *columns, count = one_record(
            frame.groupBy(*frame.columns).count().limit(MOST_COMBINATIONS + 1).toArrow()
        ).columns
        coded = [encoded_column(column, name) for column, name in zip(columns, names, strict=True)]
        if len(count) > MOST_COMBINATIONS:
            refuse_combinations(
                {name: len(values) for name, (_, values) in zip(names, coded, strict=True)}
            )
        # Groups arrive in any order, and sums that follow must not depend on it.
        rows = np.lexsort([_by_text(*each) for each in reversed(coded)])
        places = pyarrow().array(rows, pyarrow().int64())
        return Tally(
            {name: column.take(places) for name, column in zip(names, columns, strict=True)},
            count.to_numpy()[rows],
        )

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[SparkBlocks]:
        """Decode all rows once, and have Spark keep them until the end: in memory, and on disk what does not fit."""
        from pyspark import StorageLevel

        frame, names = self.select(decode.roles.used)
        kept = mapped(frame, Keep(names, decode), BLOCKS).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield SparkBlocks(kept, 8 * len(decode.schema.table) * len(decode.schema.classes))
        finally:
            kept.unpersist()

    def frame(self, relabel: Relabel) -> Any:
        """Give a frame with new columns; nothing is computed before it is used."""
        # Nothing could be asked of a frame with names that Spark does not tell apart, and no file
        # written.
        if self.data.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            other = (
                "Choose another name with new_column=..., or set spark.sql.caseSensitive to true."
            )
            refuse_alike(self.names, relabel.names, "Spark", other)
        made = self._joined(relabel) if joins(relabel) else self._made(relabel)
        return made.toDF(*self.names, *relabel.names)

    def _joined(self, relabel: Relabel) -> Any:
        """Join what becomes of each combination of label and attributes, so that no row leaves Spark."""
        from pyspark.sql import functions, types

        keys, fields = relabel.decode.roles.described, self.plain.schema.fields
        tally = self._tallies[keys] if keys in self._tallies else self.tally(keys)
        answers, own = lookup(tally.columns, relabel)
        places = [self.names.index(name) for name in keys]
        mine = [f"k{place}" for place in places]
        new = [f"n{number}" for number in range(answers.num_columns - len(own))]
        kinds = [*(fields[place].dataType for place in places), *[types.DoubleType()] * len(new)]
        if relabel.form == "expand":
            kinds[len(own)] = fields[places[0]].dataType
        schema = types.StructType(
            [
                types.StructField(name, kind, True)
                for name, kind in zip([*mine, *new], kinds, strict=True)
            ]
        )
        right = self.data.sparkSession.createDataFrame(
            answers.rename_columns([*mine, *new]), schema
        )
        # Null-safe: a missing value is a value here, and a plain join would match it with nothing.
        same = [
            by_byte(self.plain, f"c{place}").eqNullSafe(by_byte(right, f"k{place}"))
            for place in places
        ]
        called = ", ".join(map(repr, keys))
        shown = [
            functions.coalesce(functions.col(f"c{place}").cast("string"), functions.lit("null"))
            for place in places
        ]
        problem = functions.concat(
            functions.lit(
                f"A row has values of {called} that were not there when rows were counted: "
            ),
            functions.concat_ws(", ", *shown),
            functions.lit(". Fix the rows first: write the frame or persist it, and debias that."),
        )
        unknown = functions.when(functions.col("n0").isNull(), functions.raise_error(problem))
        columns = [unknown.otherwise(functions.col(name)).alias(name) for name in new]
        weight = relabel.decode.roles.weight
        if relabel.form == "expand" and weight is not None:
            columns[1] = columns[1] * functions.col(f"c{self.names.index(weight)}").cast("double")
        return self.plain.join(functions.broadcast(right), reduce(and_, same), "left").select(
            *self.plain.columns, *columns
        )

    def _made(self, relabel: Relabel) -> Any:
        """Make new columns in the workers."""
        from pyspark.sql import types

        roles, old = relabel.decode.roles, self.plain.schema.fields
        kinds: list[types.DataType] = [types.DoubleType()] * len(relabel.names)
        if relabel.form != "soft":
            classes = types.LongType() if roles.listed else types.StringType()
            kinds[0] = classes if roles.soft else old[self.names.index(roles.label[0])].dataType
        new = [
            types.StructField(f"c{len(old) + place}", kind, False)
            for place, kind in enumerate(kinds)
        ]
        return mapped(self.plain, Beside(self.names, relabel), types.StructType([*old, *new]))


def _by_text(codes: Array, values: Any) -> Array:
    """Rank rows by what their values look like as text; few are written out, however many rows there are."""
    shown = [*map(str, values.to_pylist()), "None"]  # a null has the code after the last
    rank = np.empty(len(shown), np.int64)
    rank[sorted(range(len(shown)), key=shown.__getitem__)] = np.arange(len(shown))
    return rank[codes]


def _refuse_other_frames(frame: Any) -> None:
    if not hasattr(frame, "mapInArrow"):
        raise ParameterError(
            "This is a pandas frame on Spark.",
            remedy="Pass frame.to_spark(), or frame.to_spark(index_col='id') to keep its index as a key.",
        )
    if not hasattr(frame, "toArrow"):
        problem = "The Spark frame is of a version before 4.0, which cannot give Arrow tables."
        raise MissingExtraError(
            problem, remedy="Install a later one: pip install 'r2b[spark]'.", library="pyspark"
        )
    if frame.isStreaming:
        raise ParameterError(
            "The Spark frame is a stream, whose rows have no end.",
            remedy="Write it to a table, and pass a frame of that.",
        )


def by_byte(frame: Any, name: str) -> Any:
    """Give a column whose texts are the same only where every byte is; a collation may hold others for equal."""
    from pyspark.sql import functions, types

    column = functions.col(name)
    return (
        column.cast("string").alias(name)
        if isinstance(frame.schema[name].dataType, types.StringType)
        else column
    )


def mapped(frame: Any, work: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> Any:
    """Send a frame through the workers."""
    with warnings.catch_warnings():
        # mapInArrow looks at the version of pandas although no pandas is involved.
        warnings.filterwarnings(
            "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
        )
        return frame.mapInArrow(work, schema)


def merged_there(results: Any, partial: Partial | BlockTask) -> Any:
    """Put results together where they are, in a tree that only depends on the numbers of partitions, and bring home what comes of it."""
    from pyspark.sql import functions

    branch = functions.floor(functions.col("part") / MERGED_AT_ONCE)
    few = mapped(results.repartition(_REDUCERS, branch), Together(partial), RESULTS)
    return merged_here(mapped(few.repartition(1), Together(partial), RESULTS), partial)


def merged_here(results: Any, partial: Partial | BlockTask) -> Any:
    """Bring results home, and put them together in the order of partitions; the first error among them is raised."""
    with set_up_errors():
        table = results.toArrow()  # rows of Python would take several times as long
    order = np.lexsort((table.column("number").to_numpy(), table.column("part").to_numpy()))
    results = table.column("result")  # not sorted: that would be a copy
    return folded(partial, (unpacked(results[place].as_buffer()) for place in order.tolist()))


@contextmanager
def set_up_errors() -> Iterator[None]:
    """Say in one sentence what a worker lacks; every other failure stays what it is."""
    try:
        yield
    except Exception as error:
        plain = (
            worker_error(str(error))
            if type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
            else None
        )
        if plain is None:
            raise
        # Without the trace of a Java machine: it is among the facts.
        raise plain from None


def worker_error(message: str) -> MissingExtraError | None:
    """Read what Spark says about a worker that could not start.

    Examples
    --------
    >>> print(worker_error("... ModuleNotFoundError: No module named 'r2b' ...").problem)
    The Python of Spark's workers cannot import r2b.
    >>> worker_error("BlockTask failed while writing rows") is None
    True
    """
    missing = re.search(r"No module named '([\w.]+)'", message)
    if missing:
        problem, library = (
            f"The Python of Spark's workers cannot import {missing[1]}.",
            missing[1].partition(".")[0],
        )
    elif "PYTHON_VERSION_MISMATCH" in message:
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        problem, library = (
            f"Spark's workers run another version of Python than the {here} that runs here.",
            "python",
        )
    elif re.search(r"Can't get attribute '\w+' on <module 'r2b", message):
        problem, library = "Spark's workers have another version of r2b.", "r2b"
    elif re.search(r'Cannot run program "[^"]*python', message):
        problem, library = "Spark found no Python to run its workers with.", "python"
    else:
        return None
    return MissingExtraError(
        problem,
        remedy="On one machine set PYSPARK_PYTHON to sys.executable before the session starts; on a cluster give every worker the "
        "environment of the driver, for example packed with venv-pack and named by spark.archives.",
        library=library,
        spark=message,
    )
