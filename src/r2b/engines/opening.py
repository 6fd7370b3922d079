"""From what a table is to where it lives: a source, whose library is imported only here."""

from __future__ import annotations

from inspect import signature
from os import PathLike
from typing import Any

from r2b.engines.source import Source
from r2b.errors import ParameterError


def open_source(data: Any, options: dict[str, Any]) -> Source:
    """Open a table by the name of its type, so that no library is imported to ask."""
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    called = kind if library == "builtins" else f"{library} {kind}"
    if isinstance(data, (str, PathLike)) or (
        isinstance(data, (list, tuple)) and all(isinstance(each, (str, PathLike)) for each in data)
    ):
        from r2b.engines.files import FileSource

        known = [name for name in signature(FileSource.open).parameters if name != "path"]
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            raise ParameterError(
                f"{unknown!r} is no way to read files.",
                remedy=f"Choose among {', '.join(known)}.",
                option=unknown,
            )
        return FileSource.open(data, **options)
    if options:
        raise ParameterError(
            f"{', '.join(map(repr, options))} says how files are read, and this is a {called}.",
            remedy="Leave it out.",
            **options,
        )
    match library, kind:
        case _ if isinstance(data, Source):
            return data
        case "pyarrow", "Table":
            from r2b.engines.lazy import HeldSource

            return HeldSource(data)
        case "pyarrow", _ if kind.endswith("Dataset"):
            from r2b.engines.lakes import DatasetSource

            return DatasetSource(data)
        case "deltalake", "DeltaTable":
            from r2b.engines.lakes import delta_source

            return delta_source(data)
        case "pyiceberg", _ if hasattr(data, "scan") or hasattr(data, "to_arrow_batch_reader"):
            from r2b.engines.lakes import iceberg_source

            return iceberg_source(data)
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
    # those are in memory
    if hasattr(data, "__arrow_c_stream__") and library not in ("pandas", "polars"):
        from r2b.engines.lakes import stream_source

        return stream_source(data)
    raise ParameterError(
        f"A {called} is not a table that can be scanned.",
        remedy="Pass files, a Polars LazyFrame, a DuckDB relation, a Spark or Dask DataFrame, a Delta or Iceberg table, or a table, "
        "dataset or stream of Arrow; for arrays and frames in memory use r2b.debias(y, sensitive_features=...).",
        kind=called,
    )
