"""Offsets as a user writes them: numbers per group and class, by name or in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._constraints.bounds import Bound
from r2b._data.arrays import SUM_ROUNDING, Floats, frozen, plain_value
from r2b._data.by_class import numbers_per_class, places_of, read_table
from r2b._data.values import listed
from r2b.errors import ParameterError

Offsets = ArrayLike | Mapping[Any, Any]

_FORM = (
    "Pass one row of numbers per group, one number per class, such as "
    "{'f': [0.01, -0.01], 'm': [-0.01, 0.01]}."
)


def by_family(given: Any, families: Sequence[str]) -> list[Any]:
    """Return the part of the offsets for each family; None for a family without.

    Parameters
    ----------
    given : mapping, table or None
        A mapping from names of families, or for one family its offsets themselves.
    families : sequence of str

    Raises
    ------
    ParameterError
        A family that is not there, or several families that it may be meant for.

    Examples
    --------
    >>> by_family({"sex": [[0.1, -0.1], [0, 0]]}, ["sex", "race"])
    [[[0.1, -0.1], [0, 0]], None]
    """
    by_name = isinstance(given, Mapping) and given
    if by_name and set(given) <= set(families):
        return [given.get(name) for name in families]
    if given is None or len(families) == 1:
        return [given] * len(families)
    unknown = [name for name in given if name not in families] if by_name else []
    fault = "does not say for which family it is"
    if unknown:
        fault = f"names {unknown[0]!r}, which is not a family"
    remedy = f"Pass a mapping from names of families, {listed(families)}, to offsets of their "
    remedy += "groups."
    raise ParameterError(f"offsets {fault}.", remedy=remedy, families=families, unknown=unknown)


def read_offsets(
    given: Any, bound: Bound, family: str, groups: Sequence[Any], classes: Sequence[object]
) -> Floats | None:
    """Read the offsets of one family; None where they are None or all 0.

    Parameters
    ----------
    given : array-like of shape (n_groups, n_classes), frame, mapping by group, or None
        Rows in the order of the groups, or by their names; numbers of a row in the order of the
        classes, or by their names.
    bound : Bound
    family : str
    groups, classes : sequence
        Names.

    Raises
    ------
    ParameterError
        Groups or classes that are not there or left out, numbers that are not finite, or a row that
        does not add up to 0.

    Examples
    --------
    >>> from r2b._constraints.bounds import RangeBound
    >>> given, bound = {"m": {"x": 0.1, "y": -0.1}, "f": [0, 0]}, RangeBound(np.zeros(2))
    >>> read_offsets(given, bound, "sex", ["f", "m"], ["x", "y"])
    array([[ 0. ,  0. ],
           [ 0.1, -0.1]])
    """
    if given is None:
        return None
    if not bound.compares_groups:
        problem = f"offsets are given for {family!r}, which is continuous and has no group means."
        raise ParameterError(problem, remedy="Leave it out of the offsets.", family=family)
    labels: list[Any] | None
    rows: Any
    if isinstance(given, Mapping):
        labels, rows = list(given), list(given.values())
    else:
        labels, rows = read_table("offsets", given, classes, _FORM)
    names = [plain_value(group) for group in groups]
    if labels is not None:
        # Names of groups are what FairLabels.groups holds. Numbers may have become text, and a
        # column's name may stand before its value.
        spelled = {
            way: name
            for name in names
            for way in (str(name).removeprefix(f"{family}="), f"{family}={name}", str(name))
        }
        called = [spelled.get(label, label) for label in labels]
        rows = [rows[place] for place in places_of("offsets", called, names, noun="group")]
    if len(rows) != len(names):
        problem = f"`offsets` has {len(rows)} rows, but there are {len(names)} groups."
        remedy = f"{_FORM} The groups are {listed(names)}."
        raise ParameterError(problem, remedy=remedy, n_rows=len(rows), n_groups=len(names))
    added = np.array([numbers_per_class("offsets", row, classes) for row in rows])
    for name, row in zip(names, added, strict=True):
        total = float(row.sum())
        if not abs(total) <= SUM_ROUNDING:
            raise ParameterError(
                f"The offsets of group {name!r} add up to {total:.10g}, not to 0, but the shares "
                "of its classes add up to 1 with them.",
                remedy="Subtract their mean, or take the difference of two means of labels.",
                family=family,
                group=name,
                total=total,
            )
    added -= added.mean(axis=1, keepdims=True)  # what rounding left of the sum
    return frozen(added) if added.any() else None
