"""Tell what kind of table was handed in, without importing a library that is not there already."""

from __future__ import annotations

from inspect import signature
from os import PathLike
from typing import Any

from r2b.engines.source import Source
from r2b.engines.tables import Scan
from r2b.errors import ParameterError


def scan(data: Any, **options: Any) -> Scan:
    """Open a table where it lives: files, lazy frames, Spark and Dask.

    Nothing is read but names and types. :meth:`Scan.debias` and :meth:`Scan.audit` then take columns by name.

    Parameters
    ----------
    data : path, pattern, list of paths, or frame
        A Parquet, Arrow, CSV or TSV file, a folder or a pattern (``people/*.parquet``) of such; a Polars LazyFrame, a DuckDB relation, a
        Spark or Dask DataFrame; a pyarrow Table.
    **options
        For files, how they are read: ``format``, ``delimiter``, ``na``, ``encoding``, ``threads``, ``scratch``, as for
        :meth:`r2b.engines.files.FileSource.open`.

    Returns
    -------
    Scan

    Raises
    ------
    ParameterError
        It is none of these, or the files are not there.

    Examples
    --------
    >>> import pyarrow
    >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
    >>> fair = scan(people).debias("job", sensitive_features="sex", epsilon=0.1)
    >>> fair.status.value, round(fair.certificate.parity_before, 2), round(fair.certificate.parity, 2)
    ('solved', 0.5, 0.1)
    """
    return Scan(_source(data, options))


def _source(data: Any, options: dict[str, Any]) -> Source:
    """Open a table by the name of its type, so that no library is imported to ask."""
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    called = kind if library == "builtins" else f"{library} {kind}"
    if isinstance(data, (str, PathLike)) or (isinstance(data, (list, tuple)) and all(isinstance(each, (str, PathLike)) for each in data)):
        from r2b.engines.files import FileSource

        known = [name for name in signature(FileSource.open).parameters if name != "path"]
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            raise ParameterError(f"{unknown!r} is no way to read files.", remedy=f"Choose among {', '.join(known)}.", option=unknown)
        return FileSource.open(data, **options)
    if options:
        raise ParameterError(
            f"{', '.join(map(repr, options))} says how files are read, and this is a {called}.", remedy="Leave it out.", **options
        )
    match library, kind:
        case _ if isinstance(data, Source):
            return data
        case "pyarrow", "Table":
            from r2b.engines.held import HeldSource

            return HeldSource(data)
        case "polars", "LazyFrame":
            from r2b.engines.polars import PolarsSource

            return PolarsSource(data)
        case (("duckdb" | "_duckdb"), "DuckDBPyRelation"):
            from r2b.engines.duckdb import DuckDBSource

            return DuckDBSource(data)
        case "dask", "DataFrame":
            from r2b.engines.dask import DaskSource

            return DaskSource(data)
        case "pyspark", "DataFrame":
            from r2b.engines.spark import SparkSource

            return SparkSource(data)
    raise ParameterError(
        f"A {called} is not a table that can be scanned.",
        remedy="Pass files, a Polars LazyFrame, a DuckDB relation, a Spark or Dask DataFrame or a pyarrow Table; "
        "for arrays and frames in memory use r2b.debias(y, sensitive_features=...).",
        kind=called,
    )
