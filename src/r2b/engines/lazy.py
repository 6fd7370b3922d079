"""Arrow tables in memory, and what lazy frames have in common: streams and joins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from r2b._files.arrow import pyarrow
from r2b.engines.batch import PIECE_ROWS, Batch, in_batches, one_record, taken_rows
from r2b.engines.source import Relabel, Source
from r2b.errors import UnseenError


class HeldSource(Source):
    """A ``pyarrow.Table``.

    Parameters
    ----------
    table : pyarrow.Table
    batch_rows : int
    name : str

    Examples
    --------
    >>> import pyarrow, r2b
    >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
    >>> fair = r2b.scan(people).debias("job", sensitive_features="sex")
    >>> fair.frame("round")["job_fair"].to_pylist().count("b")
    2
    """

    library = "pyarrow"
    ordered = True

    def __init__(self, table: Any, batch_rows: int = PIECE_ROWS, name: str = "the table") -> None:
        self.table, self.batch_rows, self.name = table, batch_rows, name
        self.names = tuple(table.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Cut the table."""
        table = self.table
        if columns != self.names:
            table = table.select([self.names.index(name) for name in dict.fromkeys(columns)])
        return in_batches(table, self.batch_rows)

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns."""
        return one_record(self.table.slice(0, 0).select(list(columns)))

    def frame(self, relabel: Relabel) -> Any:
        """Return a table with new columns."""
        return pyarrow().Table.from_batches(self.labelled(relabel))


class StreamSource(Source):
    """A table that is streamed as record batches, as often as asked.

    Parameters
    ----------
    table : object
        What yields the batches.
    batch_rows : int
    """

    ordered = False

    def __init__(self, table: Any, batch_rows: int = PIECE_ROWS) -> None:
        self.table, self.batch_rows = table, batch_rows

    @abstractmethod
    def records(self, columns: Sequence[str], size: int) -> Iterable[Any]:
        """Stream some columns as record batches of about this size."""

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Stream some columns in batches of a fixed size."""
        return in_rows(self.records(columns, self.batch_rows), self.batch_rows)


def in_rows(records: Iterable[Any], size: int | None, place: str = "") -> Iterator[Batch]:
    """Cut and join record batches to batches of ``size`` rows, however an engine cuts them.

    Parameters
    ----------
    records : iterable of pyarrow.RecordBatch
    size : int or None
        None to leave them as they come.
    place : str
        Where the rows are.
    """
    held: list[Any] = []
    rows = first = 0
    for record in records:
        held.append(record)
        rows += record.num_rows
        while rows and rows >= (size or rows):
            table = pyarrow().Table.from_batches(held)
            batch = Batch(one_record(table.slice(0, size)), first, place, first)
            yield batch
            first, rows = first + len(batch), rows - len(batch)
            held = table.slice(len(batch)).to_batches()
    if rows:
        yield Batch(one_record(pyarrow().Table.from_batches(held)), first, place, first)


def joins(relabel: Relabel) -> bool:
    """Tell whether new columns follow from the label and the attributes alone, and so by a join."""
    return relabel.roles.counted and not relabel.traits.drawn


def lookup(values: Mapping[str, Any], relabel: Relabel) -> Any:
    """Return the table that is joined to give class labels their new columns.

    Parameters
    ----------
    values : mapping of str to pyarrow.Array
        Label and attributes of every combination there is.
    relabel : Relabel
        For "soft" or "expand".

    Returns
    -------
    pyarrow.Table
        Keys, called k0, k1, ..., and new columns, called n0, n1, ...: in the order of classes for
        repeated rows; weights of rows not yet multiplied in.
    """
    arrow, roles = pyarrow(), relabel.roles
    keys = roles.described
    record = one_record(arrow.table([values[name] for name in keys], names=list(keys)))
    # Rows have weights of their own, which come in after the join.
    decode = replace(relabel.decode, roles=replace(roles, weight=None))
    try:
        new = replace(relabel, decode=decode)(Batch(record))
    except UnseenError as error:
        # The rows of the record are combinations: their numbers say nothing of the table.
        value = error.facts.get("value")
        raise UnseenError(
            f"The table has the value {value!r}, which was not there when the labels were made.",
            remedy="Debias again, and leave the table alone until its labels are written.",
            value=value,
        ) from error
    if new.rows is not None:
        record = taken_rows(record, arrow.array(new.rows))
    names = [f"k{place}" for place in range(len(keys))]
    names += [f"n{place}" for place in range(len(new.columns))]
    return arrow.Table.from_arrays([*record.columns, *new.columns.values()], names=names)
