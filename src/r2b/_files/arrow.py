"""Parquet and Arrow files; the types of all columns stay what they are."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from r2b._files.formats import Format
from r2b._files.table import Table
from r2b.errors import DamagedFileError, EmptyError, FileTooLargeError, InputError, require


def pyarrow() -> Any:
    """Import the library, or say what to install."""
    return require("pyarrow", "Parquet and Arrow files need pyarrow", extra="frames")


@dataclass(eq=False)
class ArrowTable(Table):
    """A table in memory of Arrow, from Parquet or from an Arrow file or stream.

    Attributes
    ----------
    table : pyarrow.Table
    """

    name: str
    format: Format
    table: Any
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.names = tuple(self.table.column_names)

    @classmethod
    def parse(cls, content: bytes, name: str, format: Format) -> ArrowTable:
        """Read a file of either kind; nothing is looked at before all of it is found to be sound.

        Raises
        ------
        DamagedFileError
            It is cut short, or what it says about itself does not hold.
        FileTooLargeError
            It grows beyond the limit when it is unpacked.
        """
        from r2b._files.arrow_loading import load

        arrow = pyarrow()
        try:
            table = load(content, name, format.kind)
        except FileTooLargeError:
            raise
        except (arrow.ArrowException, OSError, ValueError) as cause:
            raise DamagedFileError(
                f"{name} cannot be read as {format.kind}: {first_line(cause)}.",
                remedy="Check that the file is whole, and say what it is with --format.",
                path=name,
                format=format.kind,
            ) from cause
        if table.num_rows == 0 or table.num_columns == 0:
            raise EmptyError(f"{name} has no rows.", remedy="Pass at least one row.", path=name)
        return cls(name, format, table)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def columns(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Give columns as chunked arrays."""
        return {name: self.table.column(self.names.index(name)) for name in wanted}

    def encoded(self, new: Mapping[str, Sequence[Any]], rows: Sequence[int] | None = None) -> bytes:
        """Write the table with new columns in its own format."""
        arrow = pyarrow()
        table = self.table if rows is None else self.table.take(arrow.array(rows))
        for name, values in new.items():
            table = table.append_column(name, _column(arrow, values, name))
        return written(table, self.format.kind)


def written(table: Any, kind: str) -> bytes:
    """Give an Arrow table as the bytes of a file."""
    arrow = pyarrow()
    sink = arrow.BufferOutputStream()
    if kind == "parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, sink)
    else:
        with arrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def of_columns(columns: Mapping[str, Any]) -> Any:
    """Build an Arrow table from columns of any kind."""
    arrow = pyarrow()
    return arrow.table({name: _column(arrow, values, name) for name, values in columns.items()})


def first_line(cause: Exception) -> str:
    """Give the first line of what another library says, without the full stop that our own sentence has."""
    return str(cause).splitlines()[0].rstrip(". ") if str(cause).strip() else type(cause).__name__


def _column(arrow: Any, values: Any, name: str) -> Any:
    if isinstance(values, (arrow.Array, arrow.ChunkedArray)):
        return values
    try:
        return arrow.array(values)
    except (arrow.ArrowException, OverflowError) as cause:
        raise InputError(
            f"The column {name!r} holds values of several types, which Arrow cannot hold in one column: {first_line(cause)}.",
            remedy="Write JSON Lines or CSV with --output-format.",
            column=name,
        ) from cause
