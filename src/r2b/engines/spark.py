"""A Spark frame as a source: rows are counted, read and relabelled where they are.

Only sums and small tables come to the driver. The code uses frames alone, no RDD and no
SparkContext, so that it serves Spark Connect too.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from r2b._solve.oracle import Reduction, merged
from r2b.engines.batch import PIECE_ENTRIES, RELABELLED_ROWS, Batch
from r2b.engines.lazy import in_rows, joins, lookup
from r2b.engines.roles import Decode, refuse_alike
from r2b.engines.source import NO_LABEL, Relabel, Source
from r2b.engines.spark_worker import MERGED_AT_ONCE, RESULTS, Beside, Merge, Reduce, Run, unpacked
from r2b.engines.tally import MOST_COMBINATIONS, Tally, refuse_nested
from r2b.errors import InputError, MissingExtraError, ParameterError, install


@dataclass(frozen=True, eq=False)
class SparkBlocks:
    """Blocks in a frame that Spark keeps, one to a row.

    Attributes
    ----------
    kept : pyspark.sql.DataFrame
    """

    kept: Any

    def reduce(self, task: Reduction) -> Any:
        """Return the result of all blocks: one Spark job."""
        return merged_there(mapped(self.kept, Reduce(None, task), RESULTS), task)


class SparkSource(Source):
    """A ``pyspark.sql.DataFrame``, of a classic session or of Spark Connect.

    The frame is evaluated once per pass and must give the same rows each time: a frame with random
    columns is to be kept or written first.

    Raises
    ------
    ParameterError
        It is a stream, which has no end, or a pandas frame on Spark.
    MissingExtraError
        Spark is too old.
    """

    name = "the Spark frame"
    ordered = False

    def __init__(self, data: Any) -> None:
        _refuse_other_frames(data)
        self.data, self.names = data, tuple(data.columns)
        self._tallies: dict[tuple[str, ...], Tally] = {}
        # Columns called after their places: Spark reads dots and capitals in names in its own way,
        # and allows a name twice.
        places = (f"c{place}" for place in range(len(self.names)))
        self.plain = data.toDF(*places)

    def select(self, columns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """Return some columns, called after their places, and their names."""
        wanted = tuple(dict.fromkeys(columns))
        places = (f"c{self.names.index(name)}" for name in wanted)
        return self.plain.select(*(by_byte(self.plain, place) for place in places)), wanted

    def list_length(self, column: str) -> int | None:
        """Return the length of the first list, by one small job."""
        from pyspark.sql import types

        kind = self.data.schema.fields[self.names.index(column)].dataType
        if type(kind).__name__ == "VectorUDT":
            raise ParameterError(
                f"The column {column!r} holds vectors of Spark ML.",
                remedy="Make lists of them with pyspark.ml.functions.vector_to_array.",
                column=column,
            )
        if not isinstance(kind, types.ArrayType):
            return None
        if not isinstance(kind.elementType, types.NumericType):
            found = kind.elementType.simpleString()
            raise InputError(
                f"The column {column!r} holds lists of {found}, not of probabilities.",
                remedy="Name a column of classes, or of lists of numbers.",
                column=column,
            )
        rows = self.select([column])[0].limit(1).collect()
        if rows and rows[0][0] is None:
            self.refuse_missing(column, NO_LABEL)
        return len(rows[0][0]) if rows else 0

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring the rows to the driver."""
        frame, names = self.select(columns)
        with set_up_errors():
            table = frame.toArrow()
        return in_rows(table.rename_columns(list(names)).to_batches(), RELABELLED_ROWS)

    def reduce(self, columns: Sequence[str], task: Reduction) -> Any:
        """Merge what a task makes of all rows, where they are."""
        frame, names = self.select(columns)
        return merged_there(mapped(frame, Reduce(names, task), RESULTS), task)

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination; what was counted is kept for later joins."""
        found = super().tally(keys, weight)
        if weight not in keys:
            self._tallies[tuple(keys)] = found
        return found

    def grouped(self, keys: Sequence[str]) -> Any:
        """Count in SQL."""
        frame, _ = self.select(keys)
        counted = frame.groupBy(*frame.columns).count().limit(MOST_COMBINATIONS + 1).toArrow()
        for column, name in zip(counted.columns, keys, strict=False):
            refuse_nested(column, name)
        # Groups arrive in any order, and sums that follow must not depend on it.
        return counted.sort_by([(name, "ascending") for name in frame.columns])

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[SparkBlocks]:
        """Decode all rows once, and have Spark keep them until the end, in memory and on disk."""
        from pyspark import StorageLevel

        frame, names = self.select(decode.roles.used)
        # Blocks of 16 MB are enough for the compiled kernel, and a worker holds several.
        rows = max(1, (1 << 21) // len(decode.schema.classes))
        kept = mapped(frame, Run(names, decode, rows), RESULTS)
        kept = kept.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield SparkBlocks(kept)
        finally:
            kept.unpersist()

    def frame(self, relabel: Relabel) -> Any:
        """Return a frame with new columns; nothing is computed before it is used."""
        # A frame with names that Spark cannot tell apart could be neither queried nor written.
        if self.data.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            other = "Pass another `new_column`, or set spark.sql.caseSensitive to true."
            refuse_alike(self.names, relabel.names, "Spark", other)
        made = self._joined(relabel) if joins(relabel) else self._made(relabel)
        return made.toDF(*self.names, *relabel.names)

    def _joined(self, relabel: Relabel) -> Any:
        """Join the new columns of each combination, so that no row leaves Spark."""
        from pyspark.sql import functions, types

        roles, fields = relabel.roles, self.plain.schema.fields
        keys = roles.described
        tally = self._tallies[keys] if keys in self._tallies else self.tally(keys)
        answers = lookup(tally.columns, relabel)
        places, new = [self.names.index(name) for name in keys], answers.column_names[len(keys) :]
        kinds = [*(fields[place].dataType for place in places), *[types.DoubleType()] * len(new)]
        if relabel.traits.repeated:
            kinds[len(keys)] = kinds[0]
        named = zip(answers.column_names, kinds, strict=True)
        schema = types.StructType([types.StructField(name, kind) for name, kind in named])
        right = self.data.sparkSession.createDataFrame(answers, schema)
        # Null-safe: a missing value is a value here, and a plain join would match it with nothing.
        same = [
            by_byte(self.plain, f"c{place}").eqNullSafe(by_byte(right, f"k{number}"))
            for number, place in enumerate(places)
        ]
        values = [functions.col(f"c{place}").cast("string") for place in places]
        problem = functions.concat(
            functions.lit(f"A row was not counted: its {', '.join(map(repr, keys))} are "),
            functions.concat_ws(
                ", ", *(functions.coalesce(value, functions.lit("null")) for value in values)
            ),
            functions.lit(". Fix the rows first: write the frame or persist it, and debias that."),
        )
        unknown = functions.when(functions.col("n0").isNull(), functions.raise_error(problem))
        columns = [unknown.otherwise(functions.col(name)).alias(name) for name in new]
        if relabel.traits.repeated and roles.weight is not None:
            weight = functions.col(f"c{self.names.index(roles.weight)}").cast("double")
            columns[1] = columns[1] * weight
        both = self.plain.join(functions.broadcast(right), reduce(and_, same), "left")
        return both.select(*self.plain.columns, *columns)

    def _made(self, relabel: Relabel) -> Any:
        """Make new columns in the workers."""
        from pyspark.sql import types

        roles, old = relabel.roles, self.plain.schema.fields
        kinds: list[types.DataType] = [types.DoubleType()] * len(relabel.names)
        if relabel.traits.classes:
            classes = types.LongType() if roles.listed else types.StringType()
            kinds[0] = classes if roles.soft else old[self.names.index(roles.label[0])].dataType
        new = [
            types.StructField(f"c{len(old) + place}", kind, False)
            for place, kind in enumerate(kinds)
        ]
        # Batches are put together only where that makes the labels better: all columns pass here.
        together = relabel.form == "round" and relabel.borders is None and relabel.decided is None
        rows = max(1, PIECE_ENTRIES // len(relabel.decode.schema.classes)) if together else None
        work = Beside(self.names, relabel, rows)
        return mapped(self.plain, work, types.StructType([*old, *new]))


def _refuse_other_frames(frame: Any) -> None:
    if not hasattr(frame, "mapInArrow"):
        raise ParameterError(
            "This is a pandas frame on Spark.",
            remedy="Pass frame.to_spark(), or frame.to_spark(index_col='id') to keep its index as "
            "key.",
        )
    if not hasattr(frame, "toArrow"):
        raise MissingExtraError(
            "The Spark frame is of a version before 4.0, which cannot give Arrow tables.",
            remedy=f"Install a later one: {install('spark')}.",
            library="pyspark",
        )
    if frame.isStreaming:
        raise ParameterError(
            "The Spark frame is a stream, whose rows have no end.",
            remedy="Write it to a table, and pass a frame of that.",
        )


def by_byte(frame: Any, name: str) -> Any:
    """Return a column whose texts are compared byte by byte, whatever their collation."""
    from pyspark.sql import functions, types

    column = functions.col(name)
    if isinstance(frame.schema[name].dataType, types.StringType):
        return column.cast("string").alias(name)
    return column


def mapped(frame: Any, work: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> Any:
    """Send a frame through the workers."""
    with warnings.catch_warnings():
        # mapInArrow looks at the version of pandas although no pandas is involved.
        message = "PySpark does not yet fully support pandas"
        warnings.filterwarnings("ignore", message=message, category=FutureWarning)
        return frame.mapInArrow(work, schema)


def merged_there(results: Any, task: Reduction) -> Any:
    """Merge results where they are, in the order of partitions, and collect the result.

    The first error among them is raised. The tree of merges depends on the numbers of partitions
    alone, so that sums are the same bits when a task is repeated.
    """
    from pyspark.sql import functions

    branch = functions.floor(functions.col("part") / MERGED_AT_ONCE)
    ordered = results.repartition(branch).sortWithinPartitions("part", "number")
    with set_up_errors():
        table = mapped(ordered, Merge(task), RESULTS).toArrow().sort_by("part")
    return merged(task, (unpacked(result.as_buffer()) for result in table["result"]))


@contextmanager
def set_up_errors() -> Iterator[None]:
    """Say in one sentence what a worker lacks; every other failure stays what it is."""
    try:
        yield
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        plain = worker_error(str(error)) if library in ("pyspark", "py4j") else None
        if plain is None:
            raise
        # The trace of the Java machine is among the facts.
        raise plain from None


def worker_error(message: str) -> MissingExtraError | None:
    """Read what Spark says about a worker that could not start.

    Examples
    --------
    >>> print(worker_error("... ModuleNotFoundError: No module named 'r2b' ...").problem)
    The Python of Spark's workers cannot import r2b.
    >>> worker_error("Task failed while writing rows") is None
    True
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    known = {
        r"No module named '([\w.]+)'": ("The Python of Spark's workers cannot import {}.", ""),
        "PYTHON_VERSION_MISMATCH": (
            f"Spark's workers run another version of Python than the {here} that runs here.",
            "python",
        ),
        r"Can't get attribute '\w+' on <module 'r2b": (
            "Spark's workers have another version of r2b.",
            "r2b",
        ),
        r'Cannot run program "[^"]*python': (
            "Spark found no Python to run its workers with.",
            "python",
        ),
    }
    for pattern, (problem, library) in known.items():
        if found := re.search(pattern, message):
            return MissingExtraError(
                problem.format(*found.groups()),
                remedy="On one machine set PYSPARK_PYTHON to sys.executable before the session "
                "starts; on a cluster give every worker the environment of the driver, for example "
                "packed with venv-pack and named by spark.archives.",
                library=library or found[1].partition(".")[0],
                spark=message,
            )
    return None
