"""Which sensitive columns are crossed to make the groups that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from r2b._data.attributes import CATEGORICAL
from r2b._data.values import listed
from r2b.errors import ParameterError

FamilyChoice = Literal["crossed", "marginal", "both"]


def family_columns(
    asked: Any, columns: Sequence[str], kinds: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the columns of each family that is asked for.

    Continuous and uncertain attributes cannot be crossed with others: each makes a family of its
    own.

    Parameters
    ----------
    asked : {"crossed", "marginal", "both"} or sequence
        Of columns, sequences of columns and :class:`r2b.Family`.
    columns, kinds : sequence of str
        Names and kinds of the sensitive attributes.

    Raises
    ------
    ParameterError
        A column that is not there, is named twice, or cannot be crossed.

    Examples
    --------
    >>> family_columns("both", ["sex", "race"], ["categorical"] * 2)
    [('sex',), ('race',), ('sex', 'race')]
    """
    categorical = tuple(
        name for name, kind in zip(columns, kinds, strict=True) if kind == CATEGORICAL
    )
    choices = get_args(FamilyChoice)
    if isinstance(asked, str) and asked in choices:
        crossed = [categorical] * bool(categorical)
        if asked == "crossed":
            return crossed + [(name,) for name in columns if name not in categorical]
        both = asked == "both" and len(categorical) > 1
        return [(name,) for name in columns] + crossed * both
    if isinstance(asked, str) or not isinstance(asked, Sequence) or not asked:
        example = f"[{asked!r}]" if isinstance(asked, str) else "['sex', ['sex', 'race']]"
        remedy = f"Pass one of {listed(choices)}, or a list of columns such as {example}."
        raise ParameterError(f"families is {asked!r}.", remedy=remedy, families=asked)
    found = [_names_of(each, columns) for each in asked]
    for names in found:
        _refuse_columns(names, columns, kinds)
    return found


def _names_of(family: Any, columns: Sequence[str]) -> tuple[str, ...]:
    given = getattr(family, "names", family)
    names = [given] if isinstance(given, (str, int, np.integer)) else given
    # Names of columns are text; a frame may have had them as numbers.
    right = isinstance(names, Sequence) and all(
        isinstance(name, (str, int, np.integer)) and not isinstance(name, bool) for name in names
    )
    if not right:
        remedy = _among(columns, f", such as [{columns[0]!r}], or pass a Family")
        problem = f"A family is {family!r}, which names no columns."
        raise ParameterError(problem, remedy=remedy, family=family)
    return tuple(map(str, names))


def _refuse_columns(names: tuple[str, ...], columns: Sequence[str], kinds: Sequence[str]) -> None:
    unknown = [name for name in names if name not in columns]
    if unknown or not names:
        fault = "has no columns"
        if unknown:
            fault = f"names the column {unknown[0]!r}, which is not among `sensitive_features`"
        facts = {"family": names, "columns": columns}
        raise ParameterError(f"A family {fault}.", remedy=_among(columns), **facts)
    if len(set(names)) < len(names):
        problem = f"The family {names} names a column twice."
        raise ParameterError(problem, remedy="Name each column once.", family=names)
    kind_of = dict(zip(columns, kinds, strict=True))
    alone = next((name for name in names if kind_of[name] != CATEGORICAL), None)
    if alone is not None and len(names) > 1:
        fault = f"crosses {alone!r}, which is {kind_of[alone]} and has no groups of its own"
        remedy = f"Give {alone!r} a family of its own: `families=[..., {alone!r}]`."
        problem = f"The family {names} {fault}."
        raise ParameterError(problem, remedy=remedy, family=names, column=alone)


def _among(columns: Sequence[str], more: str = "") -> str:
    if tuple(columns) == ("",):
        return (
            "The one column has no name: leave families out, or name the column in a dictionary "
            "such as {'sex': column}."
        )
    return f"Name columns among {', '.join(map(repr, columns))}{more}."
