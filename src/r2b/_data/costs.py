"""What it costs to turn one class into another: a table that the user gives, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.errors import ParameterError

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
