"""Offsets as a user writes them: numbers per group and class, by name or in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._constraints.bounds import Bound
from r2b._constraints.epsilon import numbers_per_class
from r2b._data.arrays import SUM_ROUNDING, Array, Floats, plain_value
from r2b._data.values import listed
from r2b.errors import ParameterError

Offsets = ArrayLike | Mapping[Any, Any]

_FORM = (
    "Pass one row of numbers per group, one number per class, such as "
    "{'f': [0.01, -0.01], 'm': [-0.01, 0.01]}"
)


def by_family(given: Any, families: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
    """Return the part of the offsets for each family; None for a family without.

    Parameters
    ----------
    given : mapping, table or None
        A mapping from names of families, or for one family its offsets themselves.
    families : sequence of (str, sequence)
        The name of each, and the names of its groups.

    Raises
    ------
    ParameterError
        A family that is not there, or several families that it may be meant for.

    Examples
    --------
    >>> families = [("sex", ["sex=f", "sex=m"]), ("race", ["race=a", "race=b"])]
    >>> by_family({"sex": [[0.1, -0.1], [0, 0]]}, families)
    [[[0.1, -0.1], [0, 0]], None]
    """
    known = [name for name, _ in families]
    if isinstance(given, Mapping) and given and set(given) <= set(known):
        return [given.get(name) for name in known]
    if given is None or len(families) == 1:
        return [given] * len(families)
    unknown = [name for name in given if name not in known] if isinstance(given, Mapping) else []
    fault = (
        f"names {unknown[0]!r}, which is not a family"
        if unknown
        else "does not say for which family it is"
    )
    remedy = f"Pass a mapping from names of families, {listed(known)}, to offsets of their groups."
    raise ParameterError(f"offsets {fault}.", remedy=remedy, families=known, unknown=unknown)


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
    rows = _ordered(given, family, groups)
    added = np.array([numbers_per_class("offsets", row, classes) for row in rows])
    for group, row in zip(groups, added, strict=True):
        _refuse_row(row, plain_value(group), family)
    added -= added.mean(axis=1, keepdims=True)  # what rounding left of the sum
    added.flags.writeable = False
    return added if added.any() else None


def _refuse_row(row: Floats, group: Any, family: str) -> None:
    facts = {"family": family, "group": group}
    if not np.isfinite(row).all():
        problem = f"The offsets of group {group!r} hold {float(row[~np.isfinite(row)][0])}."
        raise ParameterError(
            problem, remedy="Pass finite numbers: what is added to the mean of each class.", **facts
        )
    total = float(row.sum())
    if abs(total) > SUM_ROUNDING:
        raise ParameterError(
            f"The offsets of group {group!r} add up to {total:.10g}, not to 0, but the shares of "
            "its classes add up to 1 with them.",
            remedy="Subtract their mean, or take the difference of two means of labels.",
            total=total,
            **facts,
        )


def _ordered(given: Any, family: str, groups: Sequence[Any]) -> list[Any]:
    """Return one row per group, in order."""
    rows, names = _rows_of(given, family), [plain_value(group) for group in groups]
    if isinstance(rows, Mapping):
        # Names of groups are what FairLabels.groups holds. Numbers may have become text, and a
        # column's name may stand before its value.
        written = (
            [f"{family}={name}", str(name).removeprefix(f"{family}="), str(name), name]
            for name in names
        )
        places = {
            each: place for way in zip(*written, strict=True) for place, each in enumerate(way)
        }
        found = {places[name]: row for name, row in rows.items() if name in places}
        unknown = [name for name in rows if name not in places]
        missing = [name for place, name in enumerate(names) if place not in found]
        if unknown or missing or len(found) < len(rows):
            fault = (
                f"name {unknown[0]!r}, which is not a group" if unknown else "name a group twice"
            )
            fault = f"have no row for group {missing[0]!r}" if missing and not unknown else fault
            raise ParameterError(
                f"The offsets of the family {family!r} {fault}.",
                remedy=f"Name every group once: {listed(names)}.",
                unknown=unknown,
                missing=missing,
            )
        return [found[place] for place in range(len(names))]
    if len(rows) != len(names):
        problem = (
            f"The offsets of the family {family!r} have {len(rows)} rows, but it has {len(names)} "
            f"groups: {listed(names)}."
        )
        raise ParameterError(
            problem, remedy=f"{_FORM}.", n_rows=len(rows), n_groups=len(names), family=family
        )
    return list(rows)


def _rows_of(given: Any, family: str) -> Mapping[Any, Any] | Sequence[Any] | Array:
    """Read a mapping from groups, a frame by its names, or a matrix."""
    if isinstance(given, Mapping):
        return given
    columns, index = getattr(given, "columns", None), getattr(given, "index", range(0))
    if columns is not None and hasattr(given, "to_numpy"):
        names, matrix = list(columns), given.to_numpy()
        # Names 0, 1, 2, ... are what a frame has that was given none.
        rows = (
            list(matrix)
            if names == list(range(len(names)))
            else [dict(zip(names, row, strict=True)) for row in matrix]
        )
        labels = list(index)
        if labels in ([], list(range(len(rows)))):
            return rows
        if len(set(labels)) < len(labels):
            problem = f"The offsets of the family {family!r} name a group twice."
            raise ParameterError(problem, remedy="Give one row per group.", family=family)
        return dict(zip(labels, rows, strict=True))
    if isinstance(given, (str, bytes)) or np.ndim(given) == 0:
        raise ParameterError(
            f"The offsets of the family {family!r} are {given!r}.",
            remedy=f"{_FORM}.",
            family=family,
        )
    return list(given)
