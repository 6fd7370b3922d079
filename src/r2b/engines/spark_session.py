"""The driver's side of Spark: frames sent through workers, results brought home in order, failures of the set-up told plainly."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from r2b.engines.spark_worker import unpacked
from r2b.errors import MissingExtraError


def numbered(frame: Any) -> Any:
    """Call columns after their places: Spark reads dots and capitals in names in its own way, and allows a name twice."""
    return frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))


def by_byte(frame: Any, name: str) -> Any:
    """Give a column whose texts are the same only where every byte is; a collation may hold others for equal."""
    from pyspark.sql import functions, types

    column = functions.col(name)
    return column.cast("string").alias(name) if isinstance(frame.schema[name].dataType, types.StringType) else column


def mapped(frame: Any, work: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> Any:
    """Send a frame through the workers."""
    with warnings.catch_warnings():
        # mapInArrow looks at the version of pandas although no pandas is involved.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        return frame.mapInArrow(work, schema)


def fetched(results: Any) -> Iterator[Any]:
    """Bring results home in the order of partitions; the first error among them is raised."""
    with told_plainly():
        rows = results.collect()
    rows.sort(key=lambda row: (row["part"], row["number"]))
    return (unpacked(row["result"]) for row in rows)


def streamed(results: Any) -> Iterator[Any]:
    """Bring results home one partition at a time."""
    with told_plainly():
        for row in results.toLocalIterator():
            yield unpacked(row["result"])


@contextmanager
def told_plainly() -> Iterator[None]:
    """Say in one sentence what a worker lacks; every other failure stays what it is."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        plain = worker_error(str(error))
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
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if missing:
        return _error(f"The Python of Spark's workers cannot import {missing[1]}.", message, missing[1].partition(".")[0])
    if "PYTHON_VERSION_MISMATCH" in message:
        return _error(f"Spark's workers run another version of Python than the {here} that runs here.", message, "python")
    if re.search(r"Can't get attribute '\w+' on <module 'r2b", message):
        return _error("Spark's workers have another version of r2b.", message, "r2b")
    if re.search(r'Cannot run program "[^"]*python', message):
        return _error("Spark found no Python to run its workers with.", message, "python")
    return None


def _error(problem: str, message: str, library: str) -> MissingExtraError:
    return MissingExtraError(
        problem,
        remedy="On one machine set PYSPARK_PYTHON to sys.executable before the session starts; on a cluster give every worker the "
        "environment of the driver, for example packed with venv-pack and named by spark.archives.",
        library=library,
        spark=message,
    )
