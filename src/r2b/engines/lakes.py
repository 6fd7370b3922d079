"""Arrow datasets and streams, and tables of lakes: what pyarrow, Delta Lake and Iceberg read.

A dataset and a table of a lake are read as often as rows are needed. A stream is read once, where
one pass counts and another writes: so it is copied to a scratch file first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from r2b._files.arrow import first_line, pyarrow
from r2b.engines.batch import PIECE_ROWS, one_record
from r2b.engines.lazy import HeldSource, StreamSource
from r2b.engines.spool import spilled
from r2b.errors import InputError, ParameterError


class DatasetSource(StreamSource):
    """A ``pyarrow.dataset.Dataset``: files of any filesystem of pyarrow, or those of a lake.

    Parameters
    ----------
    table : pyarrow.dataset.Dataset
    batch_rows : int
    name : str
    ordered : bool
        Whether rows are told apart by their place. The files of a dataset have an order; those of a
        lake may be rewritten in another.
    """

    def __init__(
        self,
        table: Any,
        batch_rows: int = PIECE_ROWS,
        name: str = "the dataset",
        ordered: bool = True,
    ) -> None:
        super().__init__(table, batch_rows)
        self.name, self.ordered, self.names = name, ordered, tuple(self.schema.names)

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        return self.table.schema

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns."""
        return one_record(self.schema.empty_table().select(list(columns)))

    def records(self, columns: Sequence[str], size: int) -> Iterable[Any]:
        """Stream some columns, in the order of the files."""
        wanted = columns if columns == self.names else dict.fromkeys(columns)
        try:
            yield from self.table.to_batches(columns=list(wanted), batch_size=size)
        except pyarrow().ArrowInvalid as cause:
            raise InputError(
                f"{self.subject} cannot be read: {first_line(cause)}.",
                remedy="Correct or leave out the file.",
            ) from cause


class IcebergSource(DatasetSource):
    """A table of Iceberg that ``pyiceberg`` has loaded, or a scan of one, without deleted rows."""

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self.table.projection(), include_field_ids=False)

    def records(self, columns: Sequence[str], size: int) -> Iterable[Any]:
        """Stream some columns; each file at a time, whatever size is asked for."""
        scan = self.table.update(selected_fields=tuple(columns))
        return (record.select(list(columns)) for record in scan.to_arrow_batch_reader())


def delta_source(table: Any) -> DatasetSource:
    """Open a ``deltalake.DeltaTable``: the files that its log names at this version, no others.

    Raises
    ------
    ParameterError
        The table has what the library cannot read into Arrow, such as rows deleted within files.
    """
    from deltalake.exceptions import DeltaError

    try:
        dataset = table.to_pyarrow_dataset()
    except DeltaError as cause:
        raise ParameterError(
            f"The Delta table cannot be read as a dataset: {first_line(cause)}.",
            remedy="Read it with Spark, Polars or DuckDB, and scan their frame.",
        ) from cause
    return DatasetSource(dataset, name="the Delta table", ordered=False)


def iceberg_source(table: Any) -> IcebergSource:
    """Open a table of ``pyiceberg`` at the snapshot that it was loaded with, or a scan of one."""
    scan = table if type(table).__name__.endswith("Scan") else table.scan()
    return IcebergSource(scan, name="the Iceberg table", ordered=False)


def stream_source(stream: Any) -> HeldSource:
    """Copy a reader, or any object with an Arrow C stream, to a scratch file, and open that.

    Examples
    --------
    >>> import pyarrow
    >>> people = pyarrow.table({"sex": ["f", "m"], "job": ["a", "b"]})
    >>> stream_source(people.to_reader()).names
    ('sex', 'job')
    """
    reader = pyarrow().RecordBatchReader.from_stream(stream)
    records = (record for record in reader if record.num_rows)
    first = next(records, None)
    if first is None:
        return HeldSource(reader.schema.empty_table(), name="the stream")
    return HeldSource(spilled(chain([first], records)), name="the stream")
