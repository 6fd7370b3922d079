"""Tables to the bytes of a file, in their own format or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from r2b._files.arrow import ArrowTable, of_columns, written
from r2b._files.compression import compress
from r2b._files.delimited import Dialect
from r2b._files.formats import Format
from r2b._files.jsonl import members
from r2b._files.plain import as_text, listed
from r2b._files.table import Table
from r2b.errors import InputError

_DELIMITED = ("csv", "tsv")


def encode_table(
    table: Table, new: Mapping[str, Any], format: Format, rows: Sequence[int] | None = None, missing: Sequence[str] = ("",)
) -> bytes:
    """Give a table with new columns as the bytes of a file.

    Parameters
    ----------
    table : Table
    new : mapping of str to column
        Of as many rows as leave.
    format : Format
        In its own format the text of a table stays as it is; in another, text stays text and types stay types.
    rows : sequence of int, optional
        Rows that leave, in order and possibly repeated.
    missing : sequence of str
        Fields of CSV and TSV that mean missing, which formats that can say so do.

    Raises
    ------
    InputError
        A column that the format cannot hold.
    """
    try:
        return compress(_encoded(table, new, format, rows, missing), format.compression)
    except UnicodeEncodeError as cause:
        raise InputError(
            f"The character {cause.object[cause.start]!r} cannot be written in the encoding {cause.encoding}.",
            remedy="Write Parquet or Arrow with --output-format, or convert the file to UTF-8 first.",
            encoding=cause.encoding,
        ) from cause


def _encoded(table: Table, new: Mapping[str, Any], format: Format, rows: Sequence[int] | None, missing: Sequence[str]) -> bytes:
    if isinstance(table, ArrowTable) and not format.is_text:
        return ArrowTable(table.name, format, table.table).encoded(new, rows)
    if table.format.kind == format.kind:
        return table.encoded(new, rows)
    columns = as_written(table.values(), table, format, missing)
    if rows is not None:
        columns = {name: _taken(values, rows) for name, values in columns.items()}
    return table_of({**columns, **new}, format)


def as_written(columns: Mapping[str, Any], table: Table, format: Format, missing: Sequence[str]) -> dict[str, Any]:
    """Give columns of a table as another format holds them: what only a text could call missing is missing where a format can say so."""
    if table.format.kind not in _DELIMITED or format.kind in _DELIMITED:
        return dict(columns)
    gaps = set(missing)
    return {
        name: values if gaps.isdisjoint(values) else [None if each in gaps else each for each in values] for name, values in columns.items()
    }


def _taken(values: Any, rows: Sequence[int]) -> Any:
    if hasattr(values, "to_pylist"):
        return values.take(np.asarray(rows))
    return [values[row] for row in rows]


def table_of(columns: Mapping[str, Any], format: Format) -> bytes:
    r"""Give columns as the bytes of a file, not yet compressed.

    Examples
    --------
    >>> table_of({"a": ["x", "y, z"], "b": [1.5, None]}, Format("csv"))
    b'a,b\nx,1.5\n"y, z",\n'
    """
    if not format.is_text:
        return written(of_columns(columns), format.kind)
    if format.kind == "jsonl":
        n_lines = len(listed(next(iter(columns.values()))))
        return "".join(f"{{{line}}}\n" for line in members(columns, n_lines)).encode()
    dialect = Dialect("\t" if format.kind == "tsv" else ",")
    texts = [as_text(values, name) for name, values in columns.items()]
    return "".join(f"{line}\n" for line in dialect.joined([list(columns), *zip(*texts, strict=True)])).encode()
