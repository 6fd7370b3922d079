"""What lazy frames have in common: equal rows counted by their own engine, batches of a fixed size, and a table of new labels to join.

Polars and DuckDB count through narwhals; a left join that takes nulls for equal is written in the words of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch, taken_rows
from r2b.engines.roles import free_name
from r2b.engines.source import Relabel
from r2b.engines.tally import MOST_COMBINATIONS, Tally, refuse_combinations
from r2b.errors import UnseenError


def counted(frame: Any, keys: Sequence[str], **collect: Any) -> Any:
    """Count the rows of every combination of values, in the frame's own engine.

    Parameters
    ----------
    frame : polars.LazyFrame or duckdb.DuckDBPyRelation
    keys : sequence of str
    **collect
        For the engine.

    Returns
    -------
    pyarrow.Table
        The keys, nulls among them, and last how often they occur.

    Raises
    ------
    InputError
        There are too many combinations.
    """
    rows = nw.len().cast(nw.Int64).alias(free_name("r2b: rows", keys))
    grouped = nw.from_native(frame).select(*keys).group_by(*keys, drop_null_keys=False).agg(rows)
    found = grouped.head(MOST_COMBINATIONS + 1).collect("pyarrow", **collect).to_native()
    if found.num_rows > MOST_COMBINATIONS:
        refuse_combinations({name: len(found.column(name).unique()) for name in keys})
    return found


def tally_of(found: Any, keys: Sequence[str]) -> Tally:
    """Give what was counted as a tally."""
    columns = {name: found.column(name).combine_chunks() for name in keys}
    return Tally(columns, found.column(found.num_columns - 1).to_numpy().astype(np.int64))


def in_rows(records: Iterable[Any], size: int) -> Iterator[Batch]:
    """Cut and join a stream of record batches to batches of ``size`` rows, so that nothing depends on how an engine cuts it."""
    arrow = pyarrow()
    held: list[Any] = []
    rows = first = 0
    for record in records:
        held.append(record)
        rows += record.num_rows
        while rows >= size:
            table = arrow.Table.from_batches(held)
            yield Batch(_whole(table.slice(0, size)), first, "", first)
            first, rows = first + size, rows - size
            held = table.slice(size).to_batches()
    if rows:
        yield Batch(_whole(arrow.Table.from_batches(held)), first, "", first)


def _whole(table: Any) -> Any:
    arrow = pyarrow()
    columns = [_one(column) for column in table.columns]
    return arrow.RecordBatch.from_arrays(columns, schema=table.schema)


def _one(column: Any) -> Any:
    one = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return one.combine_chunks() if hasattr(one, "chunks") else one


def lookup(found: Any, relabel: Relabel) -> tuple[Any, tuple[str, ...]]:
    """Make the table that is joined to give class labels their new columns.

    Parameters
    ----------
    found : pyarrow.Table
        Every combination of label and attributes there is.
    relabel : Relabel
        For "soft" or "expand".

    Returns
    -------
    pyarrow.Table
        Keys and new columns, in the order of classes for repeated rows; weights of rows not yet multiplied in.
    tuple of str
        Names of the keys in it; all names in it are its own.
    """
    arrow = pyarrow()
    keys = keys_of(relabel)
    record = _whole(arrow.Table.from_arrays([found.column(name) for name in keys], names=list(keys)))
    try:
        new = unweighted(relabel)(Batch(record))
    except UnseenError as error:
        # The rows of the record are combinations: their numbers say nothing of the table.
        raise UnseenError(
            f"The table has the value {error.facts.get('value')!r}, which was not there when the labels were made.",
            remedy="Debias again, and leave the table alone until its labels are written.",
            value=error.facts.get("value"),
        ) from error
    if new.rows is not None:
        record = taken_rows(record, arrow.array(new.rows))
    own = tuple(f"r2b: key {place}" for place in range(len(keys)))
    columns = {name: column for name, column in new.columns.items() if name in relabel.names[:2] or relabel.form == "soft"}
    return arrow.Table.from_arrays([*record.columns, *columns.values()], names=[*own, *columns]), own


def keys_of(relabel: Relabel) -> tuple[str, ...]:
    """Give the columns that tell what becomes of a class label."""
    choice = relabel.decode.roles
    return tuple(dict.fromkeys([*choice.label, *choice.attributes]))


def unweighted(relabel: Relabel) -> Relabel:
    """Give the same without the weights of rows, which are no part of a lookup."""
    return replace(relabel, decode=replace(relabel.decode, roles=replace(relabel.decode.roles, weight=None)))


def joins(relabel: Relabel) -> bool:
    """Say whether new columns follow from the label and the attributes alone, and so from a join."""
    return not relabel.decode.roles.soft and relabel.form in ("soft", "expand")
