"""Whether the columns of several files make one table, and how they look as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from r2b._files.arrow import pyarrow
from r2b._files.formats import Format
from r2b.engines.batch import Batch, plain_type, same_values
from r2b.engines.files_stored import Stored
from r2b.errors import InputError


def refuse_other_columns(files: Sequence[Stored], shape: Format) -> None:
    """Refuse files whose columns are not those of the first; text may be laid out in any way, such as codes in one file only.

    Raises
    ------
    InputError
        Names the column, both files and, where it has one in both, its types.
    """
    first = files[0]
    mine = {each.name: each.type for each in first.schema}
    one = first.part.name
    for other in files:
        two, others = other.part.name, {each.name: each.type for each in other.schema}
        for name in [*mine, *others]:
            if name not in others:
                problem = f"{two} has no column {name!r}, which {one} has."
            elif name not in mine:
                problem = f"{two} has a column {name!r}, which {one} has not."
            elif not same_values(mine[name], others[name]):
                problem = f"The column {name!r} holds {mine[name]} in {one} and {others[name]} in {two}."
            else:
                continue
            raise InputError(problem, remedy=_remedy(shape), column=name, path=other.part.path, first=first.part.path)


def _remedy(shape: Format) -> str:
    remedy = "Give all files the same columns, or read those that belong together"
    if shape.kind == "arrow":
        return f"{remedy}."
    reader = "read_csv" if shape.is_text else "read_parquet"
    return f"{remedy}; or let DuckDB make one table of them, and scan its relation: FROM {reader}('...', union_by_name=true)."


def uneven_columns(files: Sequence[Stored]) -> dict[str, Any]:
    """Give the columns that files lay out in different ways, and the type that all of them can have."""
    arrow = pyarrow()
    found: dict[str, Any] = {}
    for column in files[0].schema:
        if len({file.schema.field(column.name).type for file in files}) > 1:
            kind = plain_type(column.type)
            found[column.name] = arrow.large_string() if "string" in str(kind) else arrow.large_binary() if "binary" in str(kind) else kind
    return found


def evened(batch: Batch, kinds: Mapping[str, Any]) -> Batch:
    """Give a batch with some columns in these types, so that batches of all files are alike."""
    if not kinds:
        return batch
    arrow = pyarrow()
    columns = []
    for name, column in batch.columns.items():
        plain = column.dictionary_decode() if name in kinds and hasattr(column, "dictionary") else column
        columns.append(plain.cast(kinds[name]) if name in kinds else column)
    fields = [field.with_type(column.type) for field, column in zip(batch.record.schema, columns, strict=True)]
    return replace(batch, record=arrow.RecordBatch.from_arrays(columns, schema=arrow.schema(fields, batch.record.schema.metadata)))
