"""Arrow tables in memory, and what lazy frames have in common: streams, group-bys and joins.

Polars and DuckDB count with a group-by, which is written in the words of each.
"""

from __future__ import annotations

import mmap
import tempfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from r2b._data.compute import work_ahead
from r2b._files.arrow import pyarrow
from r2b._solve.oracle import Block
from r2b.engines.batch import PIECE_ROWS, Batch, in_batches, one_record, taken_rows
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source
from r2b.engines.spool import keeping
from r2b.engines.tally import MOST_COMBINATIONS, Tally, tally_of
from r2b.errors import EmptyError, UnseenError


@dataclass(frozen=True, eq=False)
class HeldSource(Source):
    """A ``pyarrow.Table``.

    Attributes
    ----------
    table : pyarrow.Table
    batch_rows : int

    Examples
    --------
    >>> import pyarrow, r2b
    >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
    >>> fair = r2b.scan(people).debias("job", sensitive_features="sex")
    >>> fair.frame("round")["job_fair"].to_pylist().count("b")
    2
    """

    library: ClassVar[str] = "pyarrow"
    table: Any
    batch_rows: int = PIECE_ROWS
    name: str = "the table"
    ordered: bool = field(default=True, init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.table.schema.names))

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Cut the table."""
        wanted = [self.names.index(name) for name in dict.fromkeys(columns)]
        cut = in_batches(self.table.select(wanted), self.batch_rows)
        return (batch for batch in cut if len(batch))

    def empty(self, columns: Sequence[str]) -> Any:
        """Return no rows of some columns."""
        return one_record(self.table.slice(0, 0).select(list(columns)))

    def rows(self, relabel: Relabel) -> Iterator[Batch]:
        """Cut the table with all columns."""
        return (batch for batch in in_batches(self.table, self.batch_rows) if len(batch))

    def frame(self, relabel: Relabel) -> Any:
        """Return a table with new columns."""
        return pyarrow().Table.from_batches(self.labelled(relabel))


@dataclass(frozen=True, eq=False)
class StreamSource(Source):
    """A table that is streamed as record batches, as often as asked.

    Attributes
    ----------
    table : object
        What yields the batches.
    batch_rows : int
    """

    table: Any
    batch_rows: int = PIECE_ROWS
    names: tuple[str, ...] = field(init=False)

    @abstractmethod
    def select(self, columns: Sequence[str]) -> Any:
        """Return some columns of the frame."""

    @abstractmethod
    def records(self, frame: Any, size: int) -> Iterable[Any]:
        """Stream a frame as record batches of about this size."""

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Stream some columns."""
        return self.stream(self.select(columns))

    def rows(self, relabel: Relabel) -> Iterator[Batch]:
        """Stream all columns."""
        return self.stream(self.whole, len(relabel.decode.schema.classes))

    @property
    def whole(self) -> Any:
        """The frame with all columns."""
        return self.table

    def stream(self, frame: Any, n_classes: int = 1) -> Iterator[Batch]:
        """Stream a frame in batches of a fixed size: fewer rows where they are wide."""
        size = max(1, min(self.batch_rows, (1 << 24) // n_classes))
        return in_rows(self.records(frame, size), size)

    def _decoded(self, decode: Decode) -> Iterator[Block]:
        frame, n_classes = self.select(decode.roles.used), len(decode.schema.classes)
        return work_ahead(decode, self.stream(frame, n_classes), self.threads)


@dataclass(frozen=True, eq=False)
class LazySource(StreamSource):
    """A frame that its own engine evaluates: a LazyFrame of Polars or a relation of DuckDB."""

    @abstractmethod
    def grouped(self, keys: Sequence[str], most: int) -> Any:
        """Return a table of at most ``most`` combinations of values, and last their counts."""

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count with a group-by; weights are added exactly, batch by batch."""
        if weight is not None:
            return super().tally(keys, weight)
        return tally_of(self.grouped(keys, MOST_COMBINATIONS + 1), keys)


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
    roles = relabel.decode.roles
    return not roles.soft and roles.categorical and relabel.form in ("soft", "expand")


def lookup(values: Mapping[str, Any], relabel: Relabel) -> tuple[Any, tuple[str, ...]]:
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
        Keys and new columns, in the order of classes for repeated rows; weights of rows not yet
        multiplied in.
    tuple of str
        Names of the keys in it; all names in it are its own.
    """
    arrow, roles = pyarrow(), relabel.decode.roles
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
    own = tuple(f"r2b: key {place}" for place in range(len(keys)))
    names = list(new.columns) if relabel.form == "soft" else list(relabel.names[:2])
    columns = [*record.columns, *(new.columns[name] for name in names)]
    return arrow.Table.from_arrays(columns, names=[*own, *names]), own


def spilled(records: Iterable[Any]) -> Any:
    """Write record batches to a scratch file, and return them as a table that is mapped from it.

    The file has no name where the system allows it, so that it is gone with the table, whatever
    becomes of the process; its pages are in memory only while there is room. The environment
    variable TMPDIR says where it lies.

    Examples
    --------
    >>> import pyarrow
    >>> records = [pyarrow.record_batch({"a": [1]}), pyarrow.record_batch({"a": [2]})]
    >>> spilled(records)["a"].to_pylist()
    [1, 2]
    """
    arrow, writer = pyarrow(), None
    with keeping(tempfile.gettempdir()), tempfile.TemporaryFile(prefix="r2b-") as file:
        for record in records:
            writer = writer or arrow.ipc.new_stream(file, record.schema)
            writer.write_batch(record)
        if writer is None:
            raise EmptyError("There are no rows.", remedy="Pass at least one row.")
        writer.close()
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return arrow.ipc.open_stream(arrow.py_buffer(mapped)).read_all()
