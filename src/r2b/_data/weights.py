"""The weights of the rows, and what it costs to turn one class into another: checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.arrays import Array
from r2b._data.arrival import Column
from r2b._data.groups import Groups
from r2b._data.vocabulary import plain_value
from r2b.errors import ParameterError, WeightError

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


Floats = NDArray[np.float64]


def read_costs(costs: Any, names: list[Any]) -> Floats:
    """Check a table of costs, and put it into the order of the classes.

    Raises
    ------
    ParameterError
        Not a square table of the classes with 0 on the diagonal and finite costs above 0 beside it.

    Examples
    --------
    >>> read_costs([[0, 1], [2, 0]], ["a", "b"]).tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    """
    n_classes = len(names)
    remedy = f"Pass a {n_classes} x {n_classes} table of what it costs to turn the class of a row into that of a column; 1 is usual."
    costs = _in_order(costs, names)
    try:
        table = np.array(costs, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("costs is not a table of numbers.", remedy=remedy) from None
    if table.shape != (n_classes, n_classes):
        raise ParameterError(f"costs has shape {table.shape}, but there are {n_classes} classes.", remedy=remedy, shape=table.shape)
    diagonal = np.eye(n_classes, dtype=bool)
    wrong = np.argwhere(np.where(diagonal, table != 0, ~(np.isfinite(table) & (table > 0))))
    if len(wrong):
        old, new = (int(place) for place in wrong[0])
        raise ParameterError(
            f"It costs {table[old, new]} to turn class {names[old]!r} into class {names[new]!r}.",
            remedy="Keeping a label costs 0, and every change a finite amount above 0.",
            old=names[old],
            new=names[new],
            cost=float(table[old, new]),
        )
    table.flags.writeable = False
    return table


def _in_order(costs: Any, names: list[Any]) -> Any:
    """Put a table with class names of its own into the order of the classes; without names it is taken as it comes."""
    if not all(hasattr(costs, part) for part in ("index", "columns", "loc")):
        return costs
    rows, columns = costs.index.tolist(), costs.columns.tolist()
    if rows == columns == list(range(len(rows))) and names != rows:
        return costs
    for side, found in (("rows", rows), ("columns", columns)):
        if len(found) != len(names) or set(found) != set(names):
            raise ParameterError(
                f"The {side} of costs are called {', '.join(map(repr, found[:10]))}, which are not the classes.",
                remedy=f"Name every class once: {', '.join(map(repr, names[:10]))}{', ...' if len(names) > 10 else ''}.",
                found=found,
                classes=names,
            )
    return costs.loc[names, names]
