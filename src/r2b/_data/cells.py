"""The cells of the rows: the crossings of all attributes that occur.

Which groups they form follows from the constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from r2b._data.arrays import (
    Array,
    as_objects,
    count_codes,
    cross,
    first_and_count,
    plain_value,
    smallest_unsigned,
)
from r2b._data.attributes import (
    CATEGORICAL,
    CONTINUOUS,
    CONTROL,
    KINDS,
    MEMBERSHIP,
    SENSITIVE,
    Attribute,
    ContinuousSettings,
    all_attributes,
    fitted_attributes,
)
from r2b._data.mixtures import Mixtures, read_mixtures
from r2b._data.numbers import read_continuous
from r2b._data.values import one_of
from r2b._data.vocabulary import Vocabulary, read_vocabulary
from r2b.errors import (
    InputError,
    MissingValueError,
    ParameterError,
    ShapeError,
    UnseenError,
    row_number,
    this_part,
)

WHAT = SENSITIVE
AnyVocabulary: TypeAlias = Vocabulary | Mixtures
MISSING_NAME = "missing"


@dataclass(frozen=True, eq=False)
class Layout:
    """The cells of a table without its rows: attributes, values and crossings that occur.

    Attributes
    ----------
    columns : tuple of str
        Names of the attributes, control features last; ``("",)`` for one column without a name.
    vocabularies : tuple of Vocabulary or Mixtures
        One per attribute; :class:`Mixtures` for a membership.
    table : ndarray of shape (R, n_attributes)
        For each group (cell) the code of its value of each attribute; only crossings that were
        fitted, in lexicographic order.
    n_control : int
        How many of the last attributes are control features.
    kinds : tuple of str
        "categorical", "continuous" or "membership", one per attribute.
    settings : tuple of ContinuousSettings or None
        One per attribute, None for all but continuous ones.
    """

    columns: tuple[str, ...]
    vocabularies: tuple[AnyVocabulary, ...]
    table: Array
    n_control: int = 0
    kinds: tuple[str, ...] = ()
    settings: tuple[ContinuousSettings | None, ...] = ()

    def __post_init__(self) -> None:
        self.table.flags.writeable = False
        if not self.kinds:
            object.__setattr__(self, "kinds", (CATEGORICAL,) * len(self.columns))
        if not self.settings:
            object.__setattr__(self, "settings", (None,) * len(self.columns))

    def places_of(self, crossings: Array) -> Array:
        """Return the cell of each crossing of codes; -1 for one that is not in the table."""
        place = {tuple(codes): cell for cell, codes in enumerate(self.table.tolist())}
        return np.array([place.get(tuple(codes), -1) for codes in crossings.tolist()])

    @property
    def parts(self) -> tuple[Any, ...]:
        """What a layout is made of, in order: groups and schemas of the same cells take it over."""
        return tuple(getattr(self, each.name) for each in fields(Layout))

    @property
    def is_categorical(self) -> bool:
        """Whether every attribute is one of categories."""
        return set(self.kinds) == {CATEGORICAL}

    @property
    def n_cells(self) -> int:
        """The number of cells, R."""
        return len(self.table)

    @property
    def n_sensitive(self) -> int:
        """The number of sensitive attributes."""
        return len(self.columns) - self.n_control

    @property
    def missing_codes(self) -> tuple[int | None, ...]:
        """For each attribute the code of rows without a value, None where there is none."""
        return tuple(vocabulary.missing_code for vocabulary in self.vocabularies)

    @property
    def index(self) -> Any | None:
        """The row labels that the pandas columns which were read share, None without any."""
        return next(
            (vocabulary.index for vocabulary in self.vocabularies if vocabulary.index is not None),
            None,
        )

    def value_name(self, column: int, code: int) -> str:
        """Write one value of an attribute as it appears in names.

        Parameters
        ----------
        column : int
            Place of the attribute.
        code : int
        """
        vocabulary = self.vocabularies[column]
        if code == vocabulary.missing_code:
            return MISSING_NAME
        written = str(plain_value(vocabulary.values[code]))
        return written.removesuffix(".0") if self.kinds[column] == CONTINUOUS else written

    def crossing_name(self, columns: Sequence[int], codes: Sequence[int]) -> str:
        """Name a crossing of some attributes by its values."""
        values = map(self.value_name, columns, codes)
        named = zip((self.columns[j] for j in columns), values, strict=True)
        return ", ".join(f"{name}={value}" if name else value for name, value in named)

    def crossings(self, columns: Sequence[int]) -> tuple[Array, list[tuple[int, ...]]]:
        """Return which crossing of some attributes each cell has, and the crossings in order."""
        if not columns:
            return np.zeros(self.n_cells, np.intp), [()]
        sizes = [self.vocabularies[j].n_codes for j in columns]
        codes, table = cross([self.table[:, j] for j in columns], sizes)
        return codes, list(map(tuple, table.tolist()))

    @cached_property
    def names(self) -> Array:
        """The R names: the values of one attribute, or text such as ``"sex=f, race=b"``."""
        if len(self.columns) == 1:
            (vocabulary,) = self.vocabularies
            values = vocabulary.values
            if vocabulary.has_missing and values.dtype.kind == "U":
                values = np.append(values, MISSING_NAME)
            elif vocabulary.has_missing:
                values = as_objects([*map(plain_value, values), MISSING_NAME])
            names = values[self.table[:, 0]]
        else:
            every = range(len(self.columns))
            named = [self.crossing_name(every, row) for row in self.table.tolist()]
            names = np.array(named, dtype=np.str_)
        names.flags.writeable = False
        return np.asarray(names)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; kinds only where not all are categories."""
        stored: dict[str, Any] = {
            "columns": list(self.columns),
            "vocabularies": [vocabulary.to_json() for vocabulary in self.vocabularies],
            "table": self.table.tolist(),
        }
        if self.n_control:
            stored["n_control"] = self.n_control
        if not self.is_categorical:
            stored["kinds"] = list(self.kinds)
            stored["settings"] = [settings and settings.to_json() for settings in self.settings]
        return stored


def layout_from_json(stored: dict[str, Any]) -> Layout:
    """Restore a layout; the caller turns Python's errors into one about the file."""
    columns = tuple(map(str, stored["columns"]))
    kinds = tuple(stored.get("kinds", (CATEGORICAL,) * len(columns)))
    settings = stored.get("settings", [None] * len(columns))
    n_control = stored.get("n_control", 0)
    if type(n_control) is not int or not 0 <= n_control < len(columns):
        raise ValueError(f"n_control is {n_control!r}")
    if not set(kinds) <= set(KINDS) or len(settings) != len(columns):
        raise ValueError(f"kinds are {kinds!r}, settings {settings!r}")
    vocabularies = tuple(
        (Mixtures if kind == MEMBERSHIP else Vocabulary).from_json(each)
        for _, each, kind in zip(columns, stored["vocabularies"], kinds, strict=True)
    )
    table = np.array(stored["table"], dtype=np.int64).reshape(-1, len(columns))
    ends = [vocabulary.n_codes for vocabulary in vocabularies]
    if len(table) == 0 or (table < 0).any() or (table >= ends).any():
        raise ValueError("cells of values that are not there")
    restored = tuple(each and ContinuousSettings.from_json(each) for each in settings)
    return Layout(columns, vocabularies, table, n_control, kinds, restored)


@dataclass(frozen=True, eq=False)
class Cells(Layout):
    """Groups that were read and checked: a :class:`Layout` and the rows.

    Attributes
    ----------
    codes : ndarray of shape (N,)
        The group (cell) of each row, in the smallest unsigned dtype.
    repeats : ndarray of shape (N,), or None
        How many rows of the table each row here stands for, where equal rows were counted before
        they came; None for one each.

    Examples
    --------
    >>> from r2b._data import read
    >>> job = ["x", "x", None]
    >>> people = {"sensitive_features": {"sex": ["f", "m", "m"]}, "control_features": {"job": job}}
    >>> cells = read([0, 1, 0], **people, missing="group").cells
    >>> cells.names.tolist(), cells.n_control, cells.missing_codes
    (['sex=f, job=x', 'sex=m, job=x', 'sex=m, job=missing'], 1, (None, 1))
    """

    _: KW_ONLY
    codes: Array
    repeats: Array | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.codes.flags.writeable = False

    @property
    def n_rows(self) -> int:
        """The number of rows, N."""
        return len(self.codes)

    @cached_property
    def counts(self) -> Array:
        """The number of rows of each cell, of shape (R,)."""
        counts = count_codes(self.codes.__getitem__, self.n_rows, self.n_cells, self.repeats)
        counts = counts.astype(np.int64)
        counts.flags.writeable = False
        return counts

    def rows_of(self, cells: Array) -> int:
        """Count the rows of some cells.

        Parameters
        ----------
        cells : ndarray of shape (R,), bool
        """
        return int(self.counts[np.asarray(cells, dtype=bool)].sum())


def read_cells(
    sensitive_features: Any,
    *,
    control_features: Any = None,
    missing: str = "error",
    categorical_only: bool = True,
) -> Cells:
    """Read attributes whose values are not known yet.

    Parameters
    ----------
    sensitive_features, control_features, missing
        As for :func:`r2b._data.read`.
    categorical_only : bool, default True
        Refuse continuous attributes and memberships, for callers to whom every value is a group.
    """
    one_of("missing", missing, ("error", "group", "exclude"))
    attributes = all_attributes(sensitive_features, control_features)
    other = next((each for each in attributes if each.kind != CATEGORICAL), None)
    if categorical_only and other is not None:
        problem = (
            f"The attribute in {other.place} is {other.kind}; only categories are of use here."
        )
        facts = {"argument": other.argument, "column": other.name, "kind": other.kind}
        raise ParameterError(problem, remedy="Pass a column of categories.", **facts)
    read = [_read_attribute(attribute, missing) for attribute in attributes]
    vocabularies = tuple(vocabulary for _, vocabulary in read)
    codes, table = cross([codes for codes, _ in read], [each.n_codes for each in vocabularies])
    return Cells(
        tuple(each.name for each in attributes),
        vocabularies,
        table,
        sum(each.argument == CONTROL for each in attributes),
        tuple(each.kind for each in attributes),
        tuple(each.settings for each in attributes),
        codes=codes,
    )


def _read_as(attribute: Attribute, kind: str, kept: bool, fitted: Any = None) -> tuple[Array, Any]:
    """Read an attribute, or new rows of one, with codes of their own."""
    if kind == MEMBERSHIP:
        return read_mixtures(attribute, fitted)
    column: Any = attribute.arrived
    reader = read_continuous if kind == CONTINUOUS else read_vocabulary
    return reader(column, what=attribute.called, keep_missing=kept, known=fitted is not None)


def _read_attribute(attribute: Attribute, missing: str) -> tuple[Array, AnyVocabulary]:
    what, continuous = attribute.called, attribute.kind == CONTINUOUS
    kept = missing == "exclude" or (missing == "group" and not continuous)
    try:
        codes, vocabulary = _read_as(attribute, attribute.kind, kept)
    except MissingValueError as error:
        if kept:
            raise
        choices = ("" if continuous else "`missing='group'` or ") + "`missing='exclude'`"
        remedy = f"{error.remedy} To keep them, use {choices} where it is offered."
        raise error.changed(remedy=remedy) from None
    if attribute.kind != CATEGORICAL:
        return codes, vocabulary
    names = [str(plain_value(value)) for value in vocabulary.values]
    if vocabulary.has_missing and MISSING_NAME in names:
        row = int(np.argmax(codes == names.index(MISSING_NAME)))
        without = int(np.argmax(codes == vocabulary.missing_code))
        problem = f"In `{what}`, row {row} holds {MISSING_NAME!r}, and row {without} has no value."
        remedy = f"Rename the value {MISSING_NAME!r}, or make it missing too."
        facts = {"column": what, "row": row, "value": MISSING_NAME, "missing_row": without}
        raise InputError(problem, remedy=remedy, **facts)
    return codes, vocabulary


def read_known_cells(
    sensitive_features: Any,
    control_features: Any = None,
    *,
    fitted: Layout,
    known_crossings: bool = True,
) -> Cells:
    """Read the attributes of a layout.

    Parameters
    ----------
    sensitive_features, control_features
        As for :func:`r2b._data.read`.
    fitted : Layout
    known_crossings : bool, default True
        Whether every crossing must be in the table of the layout. Otherwise the table is made of
        those that occur, and only the values of categories must be known.

    Raises
    ------
    UnseenError
        A value, or a crossing of values, was not fitted.
    ShapeError
        Other attributes than those fitted.
    """
    names = fitted.columns[: fitted.n_sensitive], fitted.columns[fitted.n_sensitive :]
    attributes = fitted_attributes(sensitive_features, control_features, *names)
    known = zip(attributes, fitted.vocabularies, fitted.kinds, strict=True)
    read = [_read_known_attribute(*each, known_crossings) for each in known]
    vocabularies = tuple(vocabulary for _, vocabulary in read)
    here, table = cross([codes for codes, _ in read], [each.n_codes for each in vocabularies])
    layout = replace(fitted, vocabularies=vocabularies)
    if not known_crossings:
        return Cells(*replace(layout, table=table).parts, codes=here)
    places = fitted.places_of(table)
    if -1 in places:
        row, count = first_and_count((places < 0)[here])
        name, number = str(replace(layout, table=table).names[here[row]]), row_number(row)
        problem = f"Row {number} of {WHAT} is of the group {name!r}, which was not fitted."
        counted = f"{count} in {this_part('all')}"
        remedy = f"Drop such rows ({counted}), or fit again on data that has this group."
        facts = {"column": WHAT, "row": number, "value": name, "count": count}
        raise UnseenError(problem, remedy=remedy, **facts, known=fitted.names.tolist())
    return Cells(*layout.parts, codes=places.astype(smallest_unsigned(fitted.n_cells))[here])


_AS_FITTED = {
    CATEGORICAL: "a column of categories",
    CONTINUOUS: "a column of numbers",
    MEMBERSHIP: "r2b.Membership(probabilities)",
}


def _read_known_attribute(
    attribute: Attribute, fitted: Any, kind: str, known_crossings: bool
) -> tuple[Array, Any]:
    """Read an attribute with the fitted codes, or with its own where values may be new."""
    # A plain column of numbers is enough for a continuous attribute.
    if attribute.kind not in (kind, CATEGORICAL if kind == CONTINUOUS else kind):
        problem = f"The attribute in {attribute.place} is {attribute.kind}, but {kind} was fitted."
        facts = {"argument": attribute.argument, "column": attribute.name}
        facts |= {"kind": attribute.kind, "fitted": kind}
        raise ShapeError(problem, remedy=f"Pass {_AS_FITTED[kind]}, or fit again.", **facts)
    codes, new = _read_as(attribute, kind, fitted.has_missing, fitted)
    if kind == CATEGORICAL:
        here = fitted.like(attribute.arrived)
    elif known_crossings:
        here = replace(fitted, index=new.index)
    else:
        return codes, new
    return fitted.recode(codes, new, what=attribute.called), here
