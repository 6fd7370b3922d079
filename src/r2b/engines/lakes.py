"""Arrow datasets and streams, and tables of lakes: what pyarrow, Delta Lake and Iceberg read, here or in an object store.

A dataset and a table of a lake are read as often as rows are looked at. A stream is read once,
where one pass counts and another writes: so it is copied to a scratch file first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from r2b._files.arrow import first_line, pyarrow
from r2b.engines.batch import Batch, one_record
from r2b.engines.lazy import HeldSource, StreamSource, in_rows, spilled
from r2b.engines.source import Relabel, joined, list_length_of
from r2b.errors import InputError, ParameterError


@dataclass(frozen=True, eq=False)
class DatasetSource(StreamSource):
    """A ``pyarrow.dataset.Dataset``: files of any filesystem of pyarrow, or those that a table of a lake names.

    Attributes
    ----------
    table : pyarrow.dataset.Dataset
    name : str
    ordered : bool
        Whether rows are told apart by their place. The files of a dataset have an order; those of a
        lake may be rewritten in another.
    """

    name: str = "the dataset"
    ordered: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.schema.names))

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        return self.table.schema

    def first_list_length(self, column: str) -> int | None:
        """Give the length of the first list."""
        return list_length_of(self.schema.field(column).type, column, lambda: self._first(column))

    def _first(self, column: str) -> Any:
        record = next((record for record in self.records([column], 1) if record.num_rows), None)
        return (
            pyarrow().array([], self.schema.field(column).type)
            if record is None
            else record.column(0).slice(0, 1)
        )

    def select(self, columns: Sequence[str]) -> list[str]:
        """Give the names of some columns: they are chosen when they are read."""
        return list(dict.fromkeys(columns))

    def records(self, frame: Any, size: int) -> Iterable[Any]:
        """Stream some columns, in the order of the files."""
        with self._reading():
            yield from self.table.to_batches(columns=frame, batch_size=size)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say of what cannot be read that it is this table."""
        arrow = pyarrow()
        try:
            yield
        except arrow.ArrowInvalid as cause:
            raise InputError(
                f"{self.subject} cannot be read: {first_line(cause)}.",
                remedy="Correct or leave out the file.",
            ) from cause

    def frame(self, relabel: Relabel) -> Any:
        """Give a ``pyarrow.RecordBatchReader`` with new columns, which every writer of Arrow takes."""
        size = min(self.batch_rows, relabel.rows_at_once)
        # All columns by name: a name that comes twice could not be asked for.
        made = (
            joined(batch.record, relabel, batch)
            for batch in in_rows(self.records(list(self.names), size), size)
        )
        none = Batch(one_record(self.schema.empty_table()))
        first = next(made, None) or joined(none.record, relabel, none)
        return pyarrow().RecordBatchReader.from_batches(first.schema, chain([first], made))


@dataclass(frozen=True, eq=False)
class IcebergSource(DatasetSource):
    """A table of Iceberg as ``pyiceberg`` has loaded it, or a scan of one: rows that were deleted are not read.

    Attributes
    ----------
    table : pyiceberg.table.DataScan
    """

    name: str = "the Iceberg table"
    ordered: bool = field(default=False)

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self.table.projection(), include_field_ids=False)

    def records(self, frame: Any, size: int) -> Iterable[Any]:
        """Stream some columns; each file at a time, whatever size is asked for."""
        scan = self.table.update(selected_fields=tuple(frame))
        for record in scan.to_arrow_batch_reader():
            yield record.select(frame)


def delta_source(table: Any) -> DatasetSource:
    """Open a ``deltalake.DeltaTable``: the files that its log names at this version, and no others.

    Raises
    ------
    ParameterError
        The table has what the library cannot read into Arrow, such as rows deleted within files.
    """
    from deltalake.exceptions import DeltaError

    try:
        dataset = table.to_pyarrow_dataset()
    except DeltaError as cause:
        problem = f"The Delta table cannot be read as a dataset: {first_line(cause)}."
        raise ParameterError(
            problem, remedy="Read it with Spark, Polars or DuckDB, and scan their frame."
        ) from cause
    return DatasetSource(dataset, name="the Delta table", ordered=False)


def iceberg_source(table: Any) -> IcebergSource:
    """Open a table of ``pyiceberg`` at the snapshot that it was loaded with, or a scan of one."""
    return IcebergSource(table if type(table).__name__.endswith("Scan") else table.scan())


def stream_source(stream: Any) -> HeldSource:
    """Copy what a reader, or any object with an Arrow C stream, gives to a scratch file, and open that.

    Examples
    --------
    >>> import pyarrow
    >>> people = pyarrow.table({"sex": ["f", "m"], "job": ["a", "b"]})
    >>> stream_source(people.to_reader()).names
    ('sex', 'job')
    """
    arrow = pyarrow()
    reader = (
        stream
        if isinstance(stream, arrow.RecordBatchReader)
        else arrow.RecordBatchReader.from_stream(stream)
    )
    records = (record for record in reader if record.num_rows)
    first = next(records, None)
    if first is None:
        return HeldSource(reader.schema.empty_table(), name="the stream")
    return HeldSource(spilled(chain([first], records)), name="the stream")
