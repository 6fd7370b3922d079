"""Tell what kind of table was handed in, without importing a library that is not there already."""

from __future__ import annotations

import sys
from importlib import import_module
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
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, PathLike)) or (isinstance(data, (list, tuple)) and all(isinstance(each, (str, PathLike)) for each in data)):
        opened = import_module("r2b.engines.files").FileSource.open
        known = [name for name in signature(opened).parameters if name != "path"]
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            raise ParameterError(f"{unknown!r} is no way to read files.", remedy=f"Choose among {', '.join(known)}.", option=unknown)
        source: Source = opened(data, **options)
        return source
    if options:
        raise ParameterError(
            f"{', '.join(map(repr, options))} says how files are read, and this is a {_kind(data)}.", remedy="Leave it out.", **options
        )
    for library, module, kinds in _FRAMES:
        loaded = sys.modules.get(library)
        if loaded is not None and type(data).__module__.partition(".")[0] == library and type(data).__name__ in kinds:
            found: Source = import_module(f"r2b.engines.{module}").open_source(data)
            return found
    raise ParameterError(
        f"A {_kind(data)} is not a table that can be scanned.",
        remedy="Pass files, a Polars LazyFrame, a DuckDB relation, a Spark or Dask DataFrame or a pyarrow Table; "
        "for arrays and frames in memory use r2b.debias(y, sensitive_features=...).",
        kind=_kind(data),
    )


def _kind(data: Any) -> str:
    library = type(data).__module__.partition(".")[0]
    return type(data).__name__ if library == "builtins" else f"{library} {type(data).__name__}"


# Library, module of this room, and names of the types: told by name, so that no library is imported to ask.
_FRAMES = (
    ("pyarrow", "held", ("Table",)),
    ("polars", "lazy_polars", ("LazyFrame",)),
    ("duckdb", "lazy_duckdb", ("DuckDBPyRelation",)),
    ("_duckdb", "lazy_duckdb", ("DuckDBPyRelation",)),
    ("dask", "dask", ("DataFrame",)),
    ("pyspark", "spark", ("DataFrame",)),
)
