"""Columns of a table read into memory as rows, for what cannot be done where they are."""

from __future__ import annotations

from typing import Any

from r2b._data import Dataset, Schema
from r2b._data.compute import refuse_beyond_memory
from r2b._data.dataset import read
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b.engines.batch import Fold, add, lists_to_matrix, one_array, plain, taken
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import NO_ATTRIBUTE, NO_LABEL, Source
from r2b.errors import ParameterError


def held_rows(source: Source, roles: ColumnRoles, schema: Schema, normalize: bool) -> Dataset:
    """Read the columns that are used into memory, as rows with the codes of a schema."""
    columns = _columns(source, roles, "group")
    return Decode(roles, schema, normalize).rows(columns, roles.weights(columns))


def gathered(
    source: Source,
    roles: ColumnRoles,
    missing: str,
    *,
    normalize: bool = False,
    fewest_classes: int = 2,
    any_order: bool = False,
) -> Dataset:
    """Read the columns that are used into memory, as rows in their order.

    With ``any_order``, rows without an order are put into one that follows from what they hold.
    """
    columns = _columns(source, roles, missing, any_order=any_order)
    return read(
        roles.labels(columns),
        **roles.features(columns),
        sample_weight=roles.weights(columns),
        normalize=normalize,
        fewest_classes=fewest_classes,
        missing=missing,
    )


def _columns(
    source: Source, roles: ColumnRoles, missing: str, *, any_order: bool = False
) -> dict[str, Any]:
    """Read the columns that are used; refuse rows without a label, or without an attribute."""
    source = source.with_numbers(roles.numbers)
    if not roles.categorical:  # the table may be larger than memory
        if not source.ordered and not any_order:
            raise ParameterError(
                f"The rows of {source.name} have no order, and continuous and uncertain attributes "
                "are read row by row.",
                remedy="Read the columns into memory and use r2b.debias or r2b.audit, or write "
                "them to files and scan those.",
            )
        n_rows = source.reduce([roles.measured[0]], Fold(len, add)) or 0
        needed = n_rows * (24 * len(roles.used) + 64)
        refuse_beyond_memory(
            needed,
            f"The rows of {source.name}",
            "Take a sample of the rows, or put the attribute in bins and name these.",
        )
    columns = source.columns(roles.used)
    for name in (*roles.label, *roles.attributes):
        label = name in roles.label
        if columns[name].null_count and (label or missing == "error"):
            source.refuse_missing(name, NO_LABEL if label else NO_ATTRIBUTE)
    return _sorted(columns, roles) if any_order and not source.ordered else columns


def _sorted(columns: dict[str, Any], roles: ColumnRoles) -> dict[str, Any]:
    """Sort rows by all that they hold: rows that tie are equal."""
    arrow, keys = pyarrow(), []
    for name, column in columns.items():
        if roles.listed and name == roles.label[0]:
            matrix = lists_to_matrix(one_array(column), name=name)
            keys += [arrow.array(each) for each in matrix.T.copy()]
        else:
            keys.append(plain(column))
    names = [str(place) for place in range(len(keys))]
    by = [(name, "ascending") for name in names]
    order = pyarrow_compute().sort_indices(arrow.table(keys, names=names), sort_keys=by)
    return {name: taken(column, order) for name, column in columns.items()}
