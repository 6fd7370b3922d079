"""Membership in probability: a checked matrix P(group | row), and its distinct rows as codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from r2b._data.arrays import (
    Array,
    distinct_rows,
    first_and_count,
    frozen,
    new_part,
    smallest_unsigned,
)
from r2b._data.attributes import Attribute
from r2b._data.columns import Frame
from r2b._data.probabilities import Wording, as_matrix, checked
from r2b._data.values import listed, stored_numbers
from r2b.errors import ShapeError, UnseenError, row_number, this_part

GROUPS = Wording(
    "group",
    "Divide each row by its sum, with a column for every group. Where rows may belong to no group, "
    "pass `partial=True`.",
)
PARTS = Wording("group", "Divide such rows by their sums.", at_most=True)


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The distinct rows of a membership: what a vocabulary is to a column of categories.

    Attributes
    ----------
    matrix : ndarray of shape (D, R), float64, read-only
        In the order in which they first occur.
    groups : tuple of str
        The R names.
    rows : ndarray of shape (D,)
        The first row of each, for names such as ``"row 12"``.
    index : object
        The row labels of the pandas frame that was read.
    partial : bool
        Whether sums may be below 1.

    Examples
    --------
    >>> mixtures = Mixtures(np.array([[0.25, 0.75], [1, 0]]), ("f", "m"), np.array([0, 1]))
    >>> len(mixtures), mixtures.values.tolist()
    (2, ['row 0', 'row 1'])
    """

    matrix: Array
    groups: tuple[str, ...]
    rows: Array
    index: Any = None
    partial: bool = False

    has_missing = False
    missing_code: None = None

    def __post_init__(self) -> None:
        for name in ("matrix", "rows"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def n_codes(self) -> int:
        """The number of codes, D."""
        return len(self.matrix)

    @cached_property
    def values(self) -> Array:
        """How each is written in a name."""
        return np.array([f"row {row}" for row in self.rows.tolist()], dtype=np.str_)

    def recode(self, codes: Array, new: Mixtures, *, what: str) -> Array:
        """Return the codes of rows that were read with mixtures of their own."""
        known = {row.tobytes(): code for code, row in enumerate(self.matrix)}
        places = np.array([known.get(row.tobytes(), -1) for row in new.matrix])
        if (places < 0).any():
            row, count = first_and_count(places[codes] < 0)
            value, row = new.matrix[codes[row]].tolist(), row_number(row)
            problem = f"Row {row} of `{what}` has memberships that were not fitted: {value}."
            counted = f"{count} in {this_part('all')}"
            remedy = f"Drop such rows ({counted}), or fit again on data that has them."
            raise UnseenError(
                problem, remedy=remedy, column=what, row=row, value=value, count=count
            )
        return places.astype(smallest_unsigned(len(self)))[codes]

    def to_json(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        stored: dict[str, Any] = {"type": "mixtures", "groups": list(self.groups)}
        stored |= {"matrix": self.matrix.tolist(), "rows": self.rows.tolist()}
        return stored | ({"partial": True} if self.partial else {})

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Mixtures:
        """Restore mixtures from :meth:`to_json`."""
        groups = tuple(str(name) for name in stored["groups"])
        rows = np.array(stored["rows"], dtype=np.int64)
        matrix = stored_numbers(stored["matrix"], (len(rows), len(groups)))
        return cls(matrix, groups, rows, partial=bool(stored.get("partial", False)))


def read_mixtures(attribute: Attribute, fitted: Mixtures | None = None) -> tuple[Array, Mixtures]:
    """Check a membership; return the code of each row and the distinct mixtures.

    Parameters
    ----------
    attribute : Attribute
        Of the kind "membership".
    fitted : Mixtures, optional
        What new rows must agree with: their columns are brought into the order of its groups, and
        sums are partial where its are.

    Raises
    ------
    ProbabilityError
        A row is not a distribution, or a partial one sums to more than 1.
    ShapeError, UnseenError
        Group names are not distinct, not as many as columns, or not those that were fitted.
    """
    table = attribute.arrived
    assert isinstance(table, Frame)
    what, given = attribute.place, _given_names(attribute, table)
    names = given or tuple(str(j) for j in range(len(table.columns)))
    matrix = as_matrix(
        table, what=what, remedy="Pass one numeric column of probabilities per group."
    )
    partial = attribute.partial if fitted is None else fitted.partial
    checked(matrix, names, what=what, normalize=False, wording=PARTS if partial else GROUPS)
    if fitted is not None:
        order = _order(names, given is not None, fitted.groups, what)
        matrix, names = matrix[:, order], fitted.groups
    # -0.0 becomes 0.0, so that equal rows have equal bytes
    matrix = np.ascontiguousarray(matrix, dtype=np.float64) + 0.0
    # Finding equal rows takes a sort. Predicted groups hardly ever repeat.
    if len(matrix) >> 12 and new_part(matrix) == 1:
        first = np.arange(len(matrix))
        codes = first.astype(smallest_unsigned(len(matrix)))
    else:
        codes, first = distinct_rows(matrix)
    kept = matrix if len(first) == len(matrix) else matrix[first]
    return codes, Mixtures(kept, names, first, attribute.index, partial)


def _given_names(attribute: Attribute, table: Frame) -> tuple[str, ...] | None:
    """Return the group names that came with a membership, or None where it has none."""
    own = tuple(column.name for column in table.columns) if table.labels is not None else None
    groups, place = attribute.groups, attribute.place
    if groups is None:
        return own
    listing = isinstance(groups, Iterable) and not isinstance(groups, (str, bytes))
    named, n_columns = tuple(map(str, groups)) if listing else (), len(table.columns)
    if len(set(named)) != n_columns or len(named) != n_columns or own not in (None, named):
        called = "" if own is None else f", called {listed(own)}"
        raise ShapeError(
            f"The groups of `{place}` are {groups!r}, for {n_columns} columns{called}.",
            remedy="Pass a different name for each column; leave out groups where the columns of a "
            "frame have names.",
            argument=attribute.argument,
            column=attribute.name,
            groups=groups,
        )
    return named


def _order(names: tuple[str, ...], given: bool, fitted: tuple[str, ...], what: str) -> list[int]:
    """Return the column of each fitted group; columns without names are taken in order."""
    if len(names) != len(fitted) or (given and set(names) != set(fitted)):
        raise UnseenError(
            f"The groups of `{what}` are {listed(names)}, but {listed(fitted)} were fitted.",
            remedy="Pass one column per fitted group, with its name.",
            argument=what,
            value=names,
            known=fitted,
        )
    return [names.index(name) for name in fitted] if given else list(range(len(fitted)))
