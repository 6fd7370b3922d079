"""Columns of a table brought into memory, as rows: for what cannot be done where they live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from r2b._data import Dataset, Schema
from r2b._data.compute import refuse_beyond_memory
from r2b._data.dataset import read
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b.engines.batch import Batch, lists_to_matrix, one_array, taken
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import NO_ATTRIBUTE, NO_LABEL, Source
from r2b.errors import ParameterError


@dataclass(frozen=True)
class RowCount:
    """How many rows there are."""

    def make(self, batch: Batch) -> int:
        """Count the rows of a batch."""
        return len(batch)

    def merge(self, one: int, other: int) -> int:
        """Add up."""
        return one + other


@dataclass(frozen=True, eq=False)
class Readable:
    """Reads all rows, and counts them: a row that cannot be read is refused before any is written."""

    decode: Decode

    def make(self, batch: Batch) -> int:
        """Read a batch."""
        return self.decode.read(batch).n_rows if len(batch) else 0

    def merge(self, one: int, other: int) -> int:
        """Add up."""
        return one + other


def read_rows(
    columns: Mapping[str, Any], roles: ColumnRoles, schema: Schema, normalize: bool
) -> Dataset:
    """Read whole columns as rows with the codes of a schema."""
    y, weight = roles.labels(columns, len(schema.classes)), roles.weights(columns)
    return schema.read(
        y,
        **roles.features(columns),
        sample_weight=weight,
        normalize=normalize,
        known_crossings=roles.categorical,
    )


def held_rows(source: Source, roles: ColumnRoles, schema: Schema, normalize: bool) -> Dataset:
    """Read the columns that are used into memory, as rows in their order with the codes of a schema."""
    return read_rows(_columns(source, roles, "group"), roles, schema, normalize)


def _columns(
    source: Source, roles: ColumnRoles, missing: str, *, any_order: bool = False
) -> dict[str, Any]:
    """Read the columns that are used into memory; rows without a label, or without an attribute where that is an error, are refused.

    Rows without an order are put into one that follows from what they hold, where ``any_order``
    will do.
    """
    source = source.with_numbers(roles.numbers)
    if not roles.categorical and not source.ordered and not any_order:
        raise ParameterError(
            f"The rows of {source.name} have no order, and continuous and uncertain attributes are read row by row.",
            remedy="Read the columns into memory and use r2b.debias or r2b.audit, or write them to files and scan those.",
        )
    if not roles.categorical:  # the table may be larger than memory
        n_rows = source.reduce([roles.measured[0]], RowCount()) or 0
        needed = n_rows * (24 * len(roles.used) + 64)
        refuse_beyond_memory(
            needed,
            f"The rows of {source.name}",
            "Take a sample of the rows, or put the attribute in bins and name these.",
        )
    columns = source.columns(roles.used)
    for name in (*roles.label, *roles.sensitive, *roles.control):
        label = name in roles.label
        if columns[name].null_count and (label or missing == "error"):
            source.refuse_missing(name, NO_LABEL if label else NO_ATTRIBUTE)
    return _sorted(columns, roles) if any_order and not source.ordered else columns


def _sorted(columns: dict[str, Any], roles: ColumnRoles) -> dict[str, Any]:
    """Put rows into the order of what they hold: rows that tie are equal."""
    arrow = pyarrow()
    plain = {
        name: column
        for name, column in columns.items()
        if not (roles.listed and name == roles.label[0])
    }
    plain = {
        name: column.dictionary_decode() if hasattr(column, "dictionary") else column
        for name, column in plain.items()
    }
    keys = list(plain.values())
    if roles.listed:
        keys += list(
            map(
                arrow.array,
                lists_to_matrix(one_array(columns[roles.label[0]]), name=roles.label[0]).T.copy(),
            )
        )
    names = [f"{place}" for place in range(len(keys))]
    order = pyarrow_compute().sort_indices(
        arrow.table(keys, names=names), sort_keys=[(name, "ascending") for name in names]
    )
    return {name: taken(column, order) for name, column in columns.items()}


def gathered(
    source: Source,
    roles: ColumnRoles,
    missing: str,
    *,
    normalize: bool = False,
    fewest_classes: int = 2,
    any_order: bool = False,
) -> Dataset:
    """Read the columns that are used into memory, as rows in their order."""
    columns = _columns(source, roles, missing, any_order=any_order)
    return read(
        roles.labels(columns),
        **roles.features(columns),
        sample_weight=roles.weights(columns),
        normalize=normalize,
        fewest_classes=fewest_classes,
        missing=missing,
        weightless="allow",
    )
