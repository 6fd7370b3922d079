"""The attributes of the rows as they came in: name, kind and columns, not yet read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from r2b._data.columns import (
    Column,
    Frame,
    argument_error,
    column_of,
    recognise,
    refuse_other_rows,
    refuse_twice,
)
from r2b._data.values import listed
from r2b.errors import ParameterError, ShapeError

SENSITIVE, CONTROL = "sensitive_features", "control_features"
CATEGORICAL, CONTINUOUS, MEMBERSHIP = KINDS = ("categorical", "continuous", "membership")
# one column, the columns of a matrix
UNNAMED = {SENSITIVE: ("", "attribute"), CONTROL: ("control", "control")}


@dataclass(frozen=True, eq=False)
class Continuous:
    """One numeric attribute that enters through basis functions, without binning.

    Parameters
    ----------
    values : array-like of shape (N,)
        Finite numbers, from any library.
    basis : str or callable, default "spline"
        Kept as it is; the basis is built where the constraint is.
    knots : int or sequence of float, default 5
        How many knots the spline of the attribute has, or where they are.
    name : str, optional
        The name of the attribute; that of the Series where it has one. In a dictionary of columns
        the key names it.

    Examples
    --------
    >>> from r2b._data import read
    >>> data = read([0, 1, 0], sensitive_features={"age": Continuous([39, 50, 39])})
    >>> data.cells.kinds, data.cells.vocabularies[0].values
    (('continuous',), array([39., 50.]))
    """

    values: Any
    _: KW_ONLY
    basis: Any = "spline"
    knots: Any = 5
    name: str = ""


@dataclass(frozen=True, eq=False)
class Membership:
    """An attribute that is only known in probability: P(group | row).

    Parameters
    ----------
    probabilities : array-like of shape (N, R)
        Finite numbers of zero or more, each row with the sum 1. The column names of a frame are the
        names of the groups.
    groups : sequence of R names, optional
        For a matrix without names; "0", "1", ... where it is left out.
    name : str, optional
        The name of the attribute. In a dictionary of columns the key names it.
    partial : bool, default False
        Rows may have a sum below 1: with the rest a row belongs to no group of this attribute. So
        one attribute may hold the chances of each group together with one true class, P(group,
        class | row), and ask for parity among the rows of that class alone.

    Examples
    --------
    >>> from r2b._data import read
    >>> sex = Membership([[0.25, 0.75], [1, 0]], groups=["f", "m"], name="sex")
    >>> data = read([0, 1], sensitive_features=sex)
    >>> data.cells.vocabularies[0].groups, data.cells.names.tolist()
    (('f', 'm'), ['row 0', 'row 1'])
    """

    probabilities: Any
    _: KW_ONLY
    groups: Sequence[Any] | None = None
    name: str = ""
    partial: bool = False


@dataclass(frozen=True)
class ContinuousSettings:
    """What was asked of the basis of a continuous attribute.

    Attributes
    ----------
    basis : str or callable
    knots : int or sequence of float
    """

    basis: Any = "spline"
    knots: Any = 5

    def to_json(self) -> dict[str, Any] | None:
        """Return plain values, or None for a basis of the user's own.

        Examples
        --------
        >>> ContinuousSettings("spline", 5).to_json(), ContinuousSettings(abs).to_json()
        ({'basis': 'spline', 'knots': 5}, None)
        """
        knots = np.asarray(self.knots)
        if not isinstance(self.basis, str) or knots.dtype.kind not in "iuf":
            return None
        plain = knots.tolist() if knots.ndim == 0 else knots.astype(float).tolist()
        return {"basis": self.basis, "knots": plain}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> ContinuousSettings:
        """Restore settings from :meth:`to_json`."""
        knots = stored["knots"]
        several = isinstance(knots, list)
        return cls(str(stored["basis"]), tuple(map(float, knots)) if several else int(knots))


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute as it came in.

    Attributes
    ----------
    name : str
        Empty for one sensitive column without a name.
    arrived : Column, or Frame of a membership
    argument : str
        "sensitive_features" or "control_features".
    kind : str
        "categorical", "continuous" or "membership".
    settings : ContinuousSettings or None
    groups : sequence of names, or None
        Group names that were given for a membership.
    partial : bool
        Whether rows of a membership may belong to none of its groups.
    """

    name: str
    arrived: Column | Frame
    argument: str
    kind: str = CATEGORICAL
    settings: ContinuousSettings | None = None
    groups: Sequence[Any] | None = None
    partial: bool = False

    def __len__(self) -> int:
        return len(self.arrived)

    @property
    def index(self) -> Any | None:
        """The row labels of pandas, None for other libraries."""
        return self.arrived.index

    @property
    def place(self) -> str:
        """How to reach it in the argument, such as ``sensitive_features['age']``."""
        return place_of(self.argument, self.name)

    @property
    def called(self) -> str:
        """How an error calls it."""
        return f"column {self.name!r} of {self.argument}" if self.name else self.argument


def place_of(argument: str, name: Any) -> str:
    """Return how an error says where in an argument something is.

    Examples
    --------
    >>> place_of("sensitive_features", "age"), place_of("sensitive_features", "")
    ("sensitive_features['age']", 'sensitive_features')
    """
    return f"{argument}[{name!r}]" if name else argument


def attributes_of(handed: Any, argument: str = SENSITIVE) -> tuple[Attribute, ...]:
    """Return the attributes in an argument, in order and named.

    Raises
    ------
    InputError
        It is not a column or table, or two of its columns have the same name.
    ParameterError
        A control feature is not a category.
    """
    one, many = UNNAMED[argument]
    kinds = (Continuous, Membership)
    if isinstance(handed, kinds):
        return (_wrapped(handed, argument, None),)
    if isinstance(handed, Mapping) and any(isinstance(each, kinds) for each in handed.values()):
        refuse_twice([str(name) for name in handed], what=argument)
        read = (
            (_wrapped(each, argument, name),)
            if isinstance(each, kinds)
            else attributes_of({name: each}, argument)
            for name, each in handed.items()
        )
        return tuple(itertools.chain.from_iterable(read))
    if isinstance(handed, (list, tuple)) and handed and isinstance(handed[0], kinds):
        remedy = 'Pass a dictionary such as {"sex": column, "age": r2b.Continuous(column)}.'
        raise argument_error(argument, "is a list of attributes, which need names", remedy)
    found = recognise(handed, what=argument)
    if isinstance(found, Column):
        return (Attribute(found.name or one, found, argument),)
    names = [column.name for column in found.columns]
    if found.labels is None:
        names = [one] if len(names) == 1 else [f"{many} {j}" for j in range(len(names))]
    return tuple(Attribute(*each, argument) for each in zip(names, found.columns, strict=True))


def _wrapped(handed: Continuous | Membership, argument: str, key: Any) -> Attribute:
    if argument == CONTROL:
        kind = type(handed).__name__
        problem = (
            f"In {place_of(argument, key)} there is a {kind}, but control features are categories."
        )
        remedy = "Cut it into intervals, or pass it in sensitive_features."
        raise ParameterError(problem, remedy=remedy, argument=argument, column=key, type=kind)
    if key is not None and handed.name and str(handed.name) != str(key):
        problem = f"In `{argument}`, the attribute under {key!r} has the name {handed.name!r}."
        remedy = "Leave out the name; the key of the dictionary is one."
        raise ShapeError(
            problem, remedy=remedy, argument=argument, column=str(key), name=handed.name
        )
    name = str(handed.name if key is None else key)
    what = place_of(argument, name)
    if isinstance(handed, Continuous):
        column = column_of(handed.values, what=what)
        return Attribute(
            name or column.name,
            column,
            argument,
            CONTINUOUS,
            ContinuousSettings(handed.basis, handed.knots),
        )
    table = recognise(handed.probabilities, what=what)
    if isinstance(table, Column):
        problem = f"The membership in `{what}` has one dimension, not one column per group."
        remedy = "Pass a matrix of rows by groups, or the column itself if its values are groups."
        raise ShapeError(problem, remedy=remedy, argument=argument, column=name)
    if not isinstance(handed.partial, (bool, np.bool_)):
        raise ParameterError(
            f"The membership in `{what}` has partial={handed.partial!r}.",
            remedy="Pass True where rows may belong to no group, else False.",
            partial=handed.partial,
        )
    return Attribute(
        name, table, argument, MEMBERSHIP, groups=handed.groups, partial=bool(handed.partial)
    )


def all_attributes(sensitive_features: Any, control_features: Any) -> tuple[Attribute, ...]:
    """Return the attributes of both arguments, control features last.

    They must have the same rows, and names of their own.
    """
    sensitive = attributes_of(sensitive_features)
    control = () if control_features is None else attributes_of(control_features, argument=CONTROL)
    both = {attribute.name for attribute in sensitive} & {attribute.name for attribute in control}
    if both:
        problem = f"Both {SENSITIVE} and {CONTROL} have a column named {min(both)!r}."
        remedy = "Rename one of them, or leave it out of one of the two arguments."
        raise ShapeError(problem, remedy=remedy, column=min(both), arguments=(SENSITIVE, CONTROL))
    _refuse_other_rows(sensitive + control)
    return sensitive + control


def fitted_attributes(
    sensitive_features: Any,
    control_features: Any,
    sensitive: tuple[str, ...],
    control: tuple[str, ...],
) -> tuple[Attribute, ...]:
    """Return the attributes of both arguments in the order of the names that were fitted."""
    if control and control_features is None:
        problem = f"is absent, but {listed(control)} was fitted"
        raise argument_error(
            CONTROL, problem, f"Pass {CONTROL} with {listed(control)}.", fitted=control
        )
    if not control and control_features is not None:
        raise argument_error(
            CONTROL,
            "is given, but none was fitted",
            f"Leave {CONTROL} out, or fit again with it.",
            fitted=control,
        )
    attributes = _matched(attributes_of(sensitive_features), sensitive, SENSITIVE)
    if control:
        attributes += _matched(attributes_of(control_features, argument=CONTROL), control, CONTROL)
    _refuse_other_rows(attributes)
    return attributes


def _refuse_other_rows(attributes: Sequence[Attribute]) -> None:
    arguments = [attribute.argument for attribute in attributes]
    # An attribute is called by its argument where that has no other, else by its place in it.
    places = [a.argument if arguments.count(a.argument) == 1 else a.place for a in attributes]
    refuse_other_rows(
        *(
            (place, len(attribute), attribute.index)
            for place, attribute in zip(places, attributes, strict=True)
        )
    )


def _matched(
    arrived: tuple[Attribute, ...], columns: tuple[str, ...], argument: str
) -> tuple[Attribute, ...]:
    """Put the attributes in the fitted order; columns without names are taken as they come."""
    names = tuple(attribute.name for attribute in arrived)
    unnamed = tuple(f"{UNNAMED[argument][1]} {j}" for j in range(len(columns)))
    if set(columns) <= set(names):
        return tuple(arrived[names.index(name)] for name in columns)
    if len(names) == len(columns) == 1 or names == unnamed:
        return tuple(
            replace(attribute, name=name) for attribute, name in zip(arrived, columns, strict=True)
        )
    missing = next(name for name in columns if name not in names)
    problem = f"has the columns {listed(names)}, but {listed(columns)} were fitted"
    raise argument_error(
        argument, problem, f"Add the column {missing!r}.", columns=names, fitted=columns
    )
