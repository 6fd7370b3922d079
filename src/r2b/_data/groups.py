"""The groups of the rows: the values of one sensitive attribute, or the crossings of several that occur.

With control features, continuous attributes or memberships these crossings are cells; which groups they form is said elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from r2b._data.arrays import Array, cross, smallest_unsigned
from r2b._data.arrival import Column, refuse_lengths, refuse_other_index
from r2b._data.attributes import (
    CATEGORICAL,
    CONTINUOUS,
    CONTROL,
    MEMBERSHIP,
    SENSITIVE,
    UNNAMED,
    Attribute,
    attributes_of,
    read_continuous,
    read_known_continuous,
)
from r2b._data.factorize import refuse_other_choice
from r2b._data.layout import MISSING_NAME, AnyVocabulary, Layout
from r2b._data.mixtures import Mixtures, read_mixtures
from r2b._data.vocabulary import Vocabulary, plain_value, read_vocabulary
from r2b.errors import InputError, MissingValueError, ParameterError, ShapeError, UnseenError

WHAT = SENSITIVE


@dataclass(frozen=True, eq=False)
class Groups(Layout):
    """Groups that were read and checked: a :class:`Layout` and the rows.

    Attributes
    ----------
    codes : ndarray of shape (N,)
        The group (cell) of each row, in the smallest unsigned dtype.
    repeats : ndarray of shape (N,), or None
        How many rows of the table each row here stands for, where equal rows were counted before they came; None for one each.

    Examples
    --------
    >>> from r2b._data import read
    >>> job = ["x", "x", None]
    >>> groups = read([0, 1, 0], sensitive_features={"sex": ["f", "m", "m"]}, control_features={"job": job}, missing="group").groups
    >>> groups.names.tolist(), groups.n_control, groups.missing_codes
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
        counts = np.bincount(self.codes, self.repeats, minlength=self.n_groups).astype(np.int64)
        counts.flags.writeable = False
        return counts

    def first_row(self, cell: int) -> int:
        """Give the first row of a cell.

        Raises
        ------
        ParameterError
            The cell has no row.
        """
        rows = np.flatnonzero(self.codes == cell)
        if not len(rows):
            raise ParameterError(
                f"Cell {cell} has none of the {self.n_rows} rows.",
                remedy=f"Pass a cell that occurs, below {self.n_groups}.",
                cell=cell,
                n_groups=self.n_groups,
            )
        return int(rows[0])

    def rows_of(self, cells: Array) -> int:
        """Count the rows of some cells.

        Parameters
        ----------
        cells : ndarray of shape (R,), bool
        """
        return int(self.counts[np.asarray(cells, dtype=bool)].sum())


def read_groups(sensitive_features: Any, *, control_features: Any = None, missing: str = "error", categorical_only: bool = True) -> Groups:
    """Read attributes whose values are not known yet.

    Parameters
    ----------
    sensitive_features, control_features, missing
        As for :func:`r2b._data.read`.
    categorical_only : bool, default True
        Refuse continuous attributes and memberships, for callers to whom every value is a group.
    """
    refuse_other_choice(missing)
    attributes = _arrived(sensitive_features, control_features)
    if categorical_only:
        _refuse_wrapped(attributes)
    read = [_read_attribute(attribute, missing) for attribute in attributes]
    vocabularies = tuple(vocabulary for _, vocabulary in read)
    codes, table = cross([codes for codes, _ in read], [vocabulary.n_codes for vocabulary in vocabularies])
    names, kinds = tuple(a.name for a in attributes), tuple(a.kind for a in attributes)
    n_control = sum(attribute.argument == CONTROL for attribute in attributes)
    return Groups(names, vocabularies, table, n_control, kinds, tuple(a.settings for a in attributes), codes=codes)


def _arrived(sensitive_features: Any, control_features: Any) -> tuple[Attribute, ...]:
    attributes = attributes_of(sensitive_features)
    if control_features is not None:
        attributes += attributes_of(control_features, argument=CONTROL)
        _refuse_overlap(attributes)
    _refuse_other_rows(attributes)
    return attributes


def _refuse_overlap(attributes: Sequence[Attribute]) -> None:
    sensitive = {attribute.name for attribute in attributes if attribute.argument == SENSITIVE}
    both = next((a.name for a in attributes if a.argument == CONTROL and a.name in sensitive), None)
    if both is not None:
        raise ShapeError(
            f"Both {SENSITIVE} and {CONTROL} have a column named {both!r}.",
            remedy="Rename one of them, or leave it out of one of the two arguments.",
            column=both,
            arguments=(SENSITIVE, CONTROL),
        )


def _refuse_other_rows(attributes: Sequence[Attribute]) -> None:
    spoken = spoken_places(attributes)
    for attribute, other in zip(attributes[1:], spoken[1:], strict=True):
        refuse_lengths(spoken[0], len(attributes[0]), other, len(attribute))
    refuse_other_index(*((place, attribute.index) for place, attribute in zip(spoken, attributes, strict=True)))


def spoken_places(attributes: Sequence[Attribute]) -> list[str]:
    """Name each attribute in an error about its rows: by its argument where that has no other, else by its place in it."""
    arguments = [attribute.argument for attribute in attributes]
    return [a.argument if arguments.count(a.argument) == 1 else a.place for a in attributes]


def _refuse_wrapped(attributes: Sequence[Attribute]) -> None:
    wrapped = next((attribute for attribute in attributes if attribute.kind != CATEGORICAL), None)
    if wrapped is not None:
        raise ParameterError(
            f"The attribute in {wrapped.place} is of the kind {wrapped.kind!r}, but only categories are of use here.",
            remedy="Pass a column of categories.",
            argument=wrapped.argument,
            column=wrapped.name,
            kind=wrapped.kind,
        )


def _read_attribute(attribute: Attribute, missing: str) -> tuple[Array, AnyVocabulary]:
    if attribute.kind == MEMBERSHIP:
        return read_mixtures(attribute)
    assert isinstance(attribute.arrived, Column)
    try:
        if attribute.kind == CONTINUOUS:
            return read_continuous(attribute.arrived, what=attribute.spoken, missing=missing)
        codes, vocabulary = read_vocabulary(attribute.arrived, what=attribute.spoken, keep_missing=missing != "error")
    except MissingValueError as error:
        if missing != "error":
            raise
        choices = "missing='exclude'" if attribute.kind == CONTINUOUS else "missing='group' or missing='exclude'"
        remedy = f"{error.remedy} To keep them, use {choices} where it is offered."
        raise MissingValueError(error.problem, remedy=remedy, **error.facts) from None
    if vocabulary.has_missing:
        _refuse_taken_name(codes, vocabulary, attribute.spoken)
    return codes, vocabulary


def _refuse_taken_name(codes: Array, vocabulary: Vocabulary, what: str) -> None:
    """Raise where a value has the name that is given to rows without one."""
    taken = next((code for code, value in enumerate(vocabulary.values) if str(plain_value(value)) == MISSING_NAME), None)
    if taken is not None:
        row, without = int(np.argmax(codes == taken)), int(np.argmax(codes == vocabulary.missing_code))
        raise InputError(
            f"In {what}, row {row} holds {MISSING_NAME!r}, which is also the name of rows without a value (first: row {without}).",
            remedy=f"Rename the value {MISSING_NAME!r}, or make it missing too.",
            column=what,
            row=row,
            value=MISSING_NAME,
            missing_row=without,
        )


def read_known_groups(
    sensitive_features: Any, *, columns: tuple[str, ...], vocabularies: tuple[AnyVocabulary, ...], table: Array
) -> Groups:
    """Read sensitive attributes of the groups in a table.

    Raises
    ------
    UnseenError
        A value, or a crossing of values, was not fitted.
    ShapeError
        Other attributes than those fitted.
    """
    return read_known_cells(sensitive_features, None, fitted=Layout(columns, vocabularies, table), known_crossings=True)


def read_known_cells(sensitive_features: Any, control_features: Any, *, fitted: Layout, known_crossings: bool) -> Groups:
    """Read the attributes of a layout.

    Parameters
    ----------
    sensitive_features, control_features
        As for :func:`r2b._data.read`.
    fitted : Layout
    known_crossings : bool
        Whether every crossing must be in the table of the layout. Otherwise the table is made of those that occur, and only the values
        of categories must be known.
    """
    _refuse_other_control(control_features, fitted)
    sensitive = _matched(attributes_of(sensitive_features), fitted.columns[: fitted.n_sensitive], SENSITIVE)
    control: tuple[Attribute, ...] = ()
    if fitted.n_control:
        control = _matched(attributes_of(control_features, argument=CONTROL), fitted.columns[fitted.n_sensitive :], CONTROL)
    attributes = sensitive + control
    _refuse_other_rows(attributes)
    known = zip(attributes, fitted.vocabularies, fitted.kinds, strict=True)
    read = [_read_known_attribute(*attribute, known_crossings) for attribute in known]
    here, crossings = cross([codes for codes, _ in read], [vocabulary.n_codes for _, vocabulary in read])
    layout = replace(fitted, vocabularies=tuple(vocabulary for _, vocabulary in read))
    if not known_crossings:
        return _with_rows(replace(layout, table=crossings), here)
    place = {tuple(row): group for group, row in enumerate(fitted.table.tolist())}
    places = [place.get(tuple(row), -1) for row in crossings.tolist()]
    if -1 in places:
        _refuse_crossing(here, np.array(places) < 0, replace(layout, table=crossings).names, fitted.names)
    return _with_rows(layout, np.array(places, dtype=smallest_unsigned(len(fitted.table)))[here])


def _with_rows(layout: Layout, codes: Array) -> Groups:
    return Groups(layout.columns, layout.vocabularies, layout.table, layout.n_control, layout.kinds, layout.settings, codes=codes)


def _read_known_attribute(attribute: Attribute, fitted: AnyVocabulary, kind: str, known_crossings: bool) -> tuple[Array, AnyVocabulary]:
    """Read an attribute with the codes of the fitted values, or with its own where it is not of categories and may be new."""
    # A plain column of numbers is enough for a continuous attribute: how it enters was settled when it was fitted.
    if attribute.kind != kind and not (kind == CONTINUOUS and attribute.kind == CATEGORICAL):
        raise ShapeError(
            f"The attribute in {attribute.place} is of the kind {attribute.kind!r}, but {kind!r} was fitted.",
            remedy=f"Pass {_AS_FITTED[kind]}, or fit again.",
            argument=attribute.argument,
            column=attribute.name,
            kind=attribute.kind,
            fitted=kind,
        )
    if isinstance(fitted, Mixtures):
        codes, mixtures = read_mixtures(attribute, fitted)
        if not known_crossings:
            return codes, mixtures
        return fitted.encode(mixtures, codes, what=attribute.spoken), replace(fitted, index=mixtures.index)
    column = attribute.arrived
    assert isinstance(column, Column)
    if kind == CONTINUOUS:
        codes, new = read_known_continuous(column, what=attribute.spoken, has_missing=fitted.has_missing)
        if not known_crossings:
            return codes, new
        numbers = Column(new.decode(codes), "numpy")
        return fitted.encode_column(numbers, what=attribute.spoken), replace(fitted, index=new.index)
    return fitted.encode_column(column, what=attribute.spoken), fitted.like(column)


_AS_FITTED = {
    CATEGORICAL: "a column of categories",
    CONTINUOUS: "a column of numbers",
    MEMBERSHIP: "r2b.Membership(probabilities)",
}


def _refuse_other_control(control_features: Any, fitted: Layout) -> None:
    if (control_features is None) is (fitted.n_control == 0):
        return
    names = fitted.columns[fitted.n_sensitive :]
    listed = ", ".join(map(repr, names))
    if names:
        problem, remedy = f"The argument {CONTROL} is absent, but {listed} was fitted.", f"Pass {CONTROL} with {listed}."
    else:
        problem, remedy = f"The argument {CONTROL} is given, but none was fitted.", f"Leave {CONTROL} out, or fit again with it."
    raise ShapeError(problem, remedy=remedy, argument=CONTROL, fitted=names)


def _matched(arrived: tuple[Attribute, ...], columns: tuple[str, ...], argument: str) -> tuple[Attribute, ...]:
    """Put the attributes in the fitted order; columns without names are taken in the order they come."""
    names = tuple(attribute.name for attribute in arrived)
    if len(names) == len(columns) == 1 or names == columns:
        return tuple(replace(attribute, name=name) for attribute, name in zip(arrived, columns, strict=True))
    if set(columns) <= set(names):
        return tuple(arrived[names.index(name)] for name in columns)
    if len(names) == len(columns) and names == tuple(f"{UNNAMED[argument][1]} {j}" for j in range(len(names))):
        return tuple(replace(attribute, name=name) for attribute, name in zip(arrived, columns, strict=True))
    missing = next((name for name in columns if name not in names), columns[0])
    raise ShapeError(
        f"The argument {argument} has the columns {', '.join(map(repr, names))}, but {', '.join(map(repr, columns))} were fitted.",
        remedy=f"Add the column {missing!r}.",
        argument=argument,
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
