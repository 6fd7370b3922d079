"""The groups of the rows: the values of one sensitive attribute, or the crossings of several that occur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b.errors import ShapeError, UnseenError
from r2b.inputs.arrival import Column, Frame, recognise
from r2b.inputs.integers import Array, cross, smallest_unsigned
from r2b.inputs.vocabulary import Vocabulary, plain_value, read_vocabulary

WHAT = "sensitive_features"


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups that were read and checked.

    Attributes
    ----------
    columns : tuple of str
        Names of the attributes; ``("",)`` for one column without a name.
    vocabularies : tuple of Vocabulary
        One per attribute.
    table : ndarray of shape (R, n_attributes)
        For each group the code of its value of each attribute; only crossings that were fitted, in lexicographic order.
    names : ndarray of shape (R,)
        One attribute: its values. Several: text such as ``"sex=Female, race=Black"``.
    codes : ndarray of shape (N,)
        The group of each row, in the smallest unsigned dtype.
    """

    columns: tuple[str, ...]
    vocabularies: tuple[Vocabulary, ...]
    table: Array
    names: Array
    codes: Array

    def __post_init__(self) -> None:
        for array in (self.table, self.codes):
            array.flags.writeable = False

    @property
    def n_groups(self) -> int:
        """The number of groups, R."""
        return len(self.table)

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return len(self.codes)


def read_groups(sensitive_features: Any) -> Groups:
    """Read sensitive attributes whose values are not known yet."""
    names, columns = attributes_of(sensitive_features)
    read = [read_vocabulary(column, what=spoken(name)) for name, column in zip(names, columns, strict=True)]
    vocabularies = tuple(vocabulary for _, vocabulary in read)
    codes, table = cross([codes for codes, _ in read], [len(vocabulary) for vocabulary in vocabularies])
    return Groups(names, vocabularies, table, group_names(names, vocabularies, table), codes)


def read_known_groups(sensitive_features: Any, *, columns: tuple[str, ...], vocabularies: tuple[Vocabulary, ...], table: Array) -> Groups:
    """Read sensitive attributes of the groups in a table.

    Raises
    ------
    UnseenError
        A value, or a crossing of values, was not fitted.
    ShapeError
        Other attributes than those fitted.
    """
    arrived = _matched(*attributes_of(sensitive_features), columns)
    encoded = [v.encode_column(c, what=spoken(n)) for n, v, c in zip(columns, vocabularies, arrived, strict=True)]
    here, crossings = cross(encoded, [len(vocabulary) for vocabulary in vocabularies])
    place = {tuple(row): group for group, row in enumerate(table.tolist())}
    places = [place.get(tuple(row), -1) for row in crossings.tolist()]
    names = group_names(columns, vocabularies, table)
    if -1 in places:
        _refuse_crossing(here, np.array(places) < 0, group_names(columns, vocabularies, crossings), names)
    codes = np.array(places, dtype=smallest_unsigned(len(table)))[here]
    like = tuple(vocabulary.like(column) for vocabulary, column in zip(vocabularies, arrived, strict=True))
    return Groups(columns, like, table, names, codes)


def attributes_of(sensitive_features: Any) -> tuple[tuple[str, ...], tuple[Column, ...]]:
    """Give the names and columns of the sensitive attributes."""
    found = recognise(sensitive_features, what=WHAT)
    if isinstance(found, Column):
        return (found.name,), (found,)
    if isinstance(found, Frame):
        return tuple(column.name for column in found.columns), found.columns
    columns = found.columns
    return ("",) if len(columns) == 1 else tuple(f"attribute {j}" for j in range(len(columns))), columns


def spoken(name: str) -> str:
    """Say which column is meant in an error.

    Examples
    --------
    >>> spoken("sex"), spoken("")
    ("column 'sex' of sensitive_features", 'sensitive_features')
    """
    return f"column {name!r} of {WHAT}" if name else WHAT


def group_names(columns: tuple[str, ...], vocabularies: tuple[Vocabulary, ...], table: Array) -> Array:
    """Name the groups: the values of one attribute, or text that names each attribute and its value."""
    if len(columns) == 1:
        names = vocabularies[0].values[table[:, 0]]
    else:
        values = [[plain_value(vocabulary.values[code]) for code in table[:, j]] for j, vocabulary in enumerate(vocabularies)]
        written = [", ".join(f"{name}={value}" for name, value in zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
        names = np.array(written, dtype=np.str_)
    names.flags.writeable = False
    return names


def _matched(names: tuple[str, ...], arrived: tuple[Column, ...], columns: tuple[str, ...]) -> tuple[Column, ...]:
    """Put the attributes in the fitted order; columns without names are taken in the order they come."""
    if len(names) == len(columns) == 1 or names == columns:
        return arrived
    if set(columns) <= set(names):
        return tuple(arrived[names.index(name)] for name in columns)
    if len(names) == len(columns) and all(name.startswith("attribute ") for name in names):
        return arrived
    missing = next((name for name in columns if name not in names), columns[0])
    raise ShapeError(
        f"The argument {WHAT} has the columns {', '.join(map(repr, names))}, but {', '.join(map(repr, columns))} were fitted.",
        remedy=f"Add the column {missing!r}.",
        argument=WHAT,
        columns=names,
        fitted=columns,
    )


def _refuse_crossing(here: Array, unseen: Array, crossings: Array, known: Array) -> None:
    rows = unseen[here]
    row = int(np.argmax(rows))
    name = str(crossings[here[row]])
    raise UnseenError(
        f"Row {row} of {WHAT} is of the group {name!r}, which was not fitted although each of its values was.",
        remedy=f"Drop such rows ({int(rows.sum())} in all), or fit again on data that has this group.",
        column=WHAT,
        row=row,
        value=name,
        count=int(rows.sum()),
        known=known.tolist(),
    )
