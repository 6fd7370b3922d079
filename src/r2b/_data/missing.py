"""Which rows of a column have no value, and the column without them: only looked for where the caller asked to keep such rows.

Nothing is filled in. A missing row gets a code of its own, after those of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrival import Column
from r2b._data.integers import Array, smallest_unsigned
from r2b._data.objects import MISSING, family_of, is_missing
from r2b.errors import MissingValueError, ParameterError

CHOICES = ("error", "group", "exclude")
ALWAYS_THERE = {"str", "bool", "int", "bytes", "date"}  # families without a value that stands for "not known"


def refuse_other_choice(missing: str) -> None:
    """Raise where ``missing`` is not one of the three choices.

    Examples
    --------
    >>> refuse_other_choice("group")
    """
    if not isinstance(missing, str) or missing not in CHOICES:
        raise ParameterError(
            f"The parameter missing is {missing!r}, which is not one of {', '.join(map(repr, CHOICES))}.",
            remedy='Pass "error" to refuse missing values, "group" to make them a group, or "exclude" to leave them out of the constraint.',
            parameter="missing",
            value=missing,
        )


def missing_rows(column: Column) -> Array:
    """Say of every row whether it has no value: null, None, NaN, NaT, pandas.NA or masked.

    Parameters
    ----------
    column : Column

    Returns
    -------
    ndarray of shape (N,), bool

    Examples
    --------
    >>> missing_rows(Column(["a", None, float("nan")], "list"))
    array([False,  True,  True])
    """
    if column.library == "pandas":
        return _of_pandas(column.native)
    if column.library == "polars":
        series = column.native
        mask = series.is_null()
        return np.asarray((mask | series.is_nan().fill_null(False) if series.dtype.is_float() else mask).to_numpy(), dtype=bool)
    if column.library == "pyarrow":
        return _of_arrow(column.native)
    if column.library == "list":
        return _of_objects(column.native)
    return _of_numpy(column.native)


def _of_pandas(series: Any) -> Array:
    if isinstance(series.dtype, libraries.get_pandas().ArrowDtype):
        return _of_arrow(series.array.__arrow_array__())
    mask = np.asarray(series.isna(), dtype=bool)
    if getattr(getattr(series.dtype, "numpy_dtype", None), "kind", "") == "f":
        # A nullable float tells NaN from NA; neither is a value.
        mask = mask | np.isnan(series.to_numpy(dtype=series.dtype.numpy_dtype, na_value=np.nan))
    return mask


def _of_arrow(array: Any) -> Array:
    if libraries.get_pyarrow().types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)  # the null may sit in the dictionary itself
    mask = array.is_null(nan_is_null=True)
    return np.asarray(mask.to_numpy() if hasattr(mask, "chunks") else mask.to_numpy(zero_copy_only=False), dtype=bool)


def _of_numpy(array: Array) -> Array:
    mask = np.array(np.ma.getmaskarray(array)) if isinstance(array, np.ma.MaskedArray) else np.zeros(len(array), dtype=bool)
    array = np.asarray(array)
    kind = array.dtype.kind
    if kind == "f":
        mask |= np.isnan(array)
    elif kind in "mM":
        mask |= np.isnat(array)
    elif kind in "OT":
        mask |= _of_objects(array.tolist())
    return mask


def _of_objects(values: Sequence[Any]) -> Array:
    families = {kind: family_of(kind) for kind in set(map(type, values))}
    doubtful = {kind for kind, family in families.items() if family not in ALWAYS_THERE}
    if not doubtful:
        return np.zeros(len(values), dtype=bool)
    never = {kind for kind, family in families.items() if family == MISSING}
    rows = (type(value) in never or (type(value) in doubtful and is_missing(value)) for value in values)
    return np.fromiter(rows, dtype=bool, count=len(values))


def taken(column: Column, rows: Array) -> Column:
    """Give some rows of a column, by number, as a column of the same library."""
    native = column.native
    if column.library == "pandas":
        return replace(column, native=native.take(rows))
    if column.library == "polars":
        return replace(column, native=native.gather(rows))
    if column.library == "pyarrow":
        return replace(column, native=native.take(libraries.get_pyarrow().array(rows)))
    if column.library == "list":
        return replace(column, native=[native[row] for row in rows.tolist()])
    return replace(column, native=native[rows])


def with_missing(codes: Array, missing: Array, n_values: int) -> Array:
    """Spread the codes of the rows that have a value over all rows; the others get the code ``n_values``.

    Examples
    --------
    >>> with_missing(np.array([1, 0]), np.array([False, True, False]), 2)
    array([1, 2, 0], dtype=uint8)
    """
    spread = np.full(len(missing), n_values, dtype=smallest_unsigned(n_values + 1))
    spread[~missing] = codes
    return spread


def refuse_all_missing(missing: Array, what: str) -> None:
    """Raise where no row at all has a value: such a column says nothing, and its values have no type."""
    if missing.all():
        raise MissingValueError(
            f"In {what}, none of the {len(missing)} rows has a value.",
            remedy="Leave this column out, or check that the right one was passed.",
            column=what,
            row=0,
            count=len(missing),
            n_rows=len(missing),
        )
