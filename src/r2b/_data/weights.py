"""The weights of the rows, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.arrival import Column
from r2b._data.groups import Groups
from r2b._data.integers import Array
from r2b._data.vocabulary import plain_value
from r2b.errors import WeightError

WHAT = "sample_weight"


def read_weight(column: Column) -> Array:
    """Read one finite, non-negative number per row.

    Returns
    -------
    ndarray of shape (N,), float64, read-only

    Raises
    ------
    WeightError

    Examples
    --------
    >>> read_weight(Column([1, 0, 2], "list"))
    array([1., 0., 2.])
    """
    weight = _numbers(column).view()
    weight.flags.writeable = False
    # NaN fails every comparison and infinity the second, so that two numbers answer for the whole column.
    if not (weight.min() >= 0 and weight.max() < np.inf):
        bad = ~((weight >= 0) & (weight < np.inf))
        row = int(np.argmax(bad))
        value = float(weight[row])
        raise WeightError(
            f"The weight of row {row} is {value!r}; {int(bad.sum())} of {len(weight)} weights are negative, missing or infinite.",
            remedy="Pass finite weights of zero or more.",
            row=row,
            value=value,
            count=int(bad.sum()),
        )
    return weight


def refuse_weightless_groups(weight: Array, groups: Groups) -> None:
    """Raise where the rows of a group have no weight between them, which leaves its mean undefined."""
    totals = np.bincount(groups.codes, weights=weight, minlength=groups.n_groups)
    rows = np.bincount(groups.codes, minlength=groups.n_groups)
    empty = np.flatnonzero((totals == 0) & (rows > 0))
    if len(empty):
        name = plain_value(groups.names[empty[0]])
        raise WeightError(
            f"The weights of all {int(rows[empty[0]])} rows of group {name!r} are zero.",
            remedy="Give at least one of its rows a positive weight, or drop the group.",
            group=name,
            count=int(rows[empty[0]]),
        )
    refuse_weightless_table(weight)


def refuse_weightless_table(weight: Array) -> None:
    """Raise where the weights of all rows add up to zero or to infinity, which leaves every mean undefined."""
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total == 0:
        raise WeightError(
            f"The weights of all {len(weight)} rows are zero.",
            remedy="Give at least one row a positive weight.",
            count=len(weight),
            total=total,
        )
    if not np.isfinite(total):
        raise WeightError("The weights add up to infinity.", remedy="Divide them by their largest value.", total=total)


def _numbers(column: Column) -> Array:
    native = column.native
    if isinstance(native, np.ma.MaskedArray):
        native = np.ma.filled(native.astype(np.float64), np.nan)
    if column.library == "pandas" and not isinstance(native.dtype, np.dtype):
        native = native.astype(object).where(native.notna(), None)
    array = np.asarray(native.to_numpy() if column.library == "polars" else native)
    if array.dtype.kind in "OUST":
        return np.array([_number(row, value) for row, value in enumerate(array.tolist())], dtype=np.float64)
    if array.dtype.kind not in "fiub":
        raise _not_a_number(0, plain_value(array[0]))
    return array.astype(np.float64, copy=False)


def _number(row: int, value: Any) -> float:
    if value is None or type(value).__name__ == "NAType":
        return float("nan")
    if isinstance(value, (str, bytes)):
        raise _not_a_number(row, value)
    try:
        return float(value)
    except OverflowError:  # a whole number beyond what a float can hold
        return float("inf")
    except (TypeError, ValueError) as error:
        raise _not_a_number(row, value) from error


def _not_a_number(row: int, value: Any) -> WeightError:
    return WeightError(
        f"The weight of row {row} is {value!r}, which is not a number.",
        remedy="Pass one number per row.",
        row=row,
        value=value,
    )
