"""Attributes that are not categories, and all attributes as they came in: name, kind and columns, not yet read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.arrival import Column, Frame, Matrix, recognise, refuse_twice
from r2b._data.factorize import missing_rows, of_numpy, refuse_all_missing, taken, with_missing
from r2b._data.objects import missing_error
from r2b._data.vocabulary import Vocabulary, column_of, plain_value
from r2b.errors import InputError, ParameterError, ShapeError

SENSITIVE, CONTROL = "sensitive_features", "control_features"
CATEGORICAL, CONTINUOUS, MEMBERSHIP = KINDS = ("categorical", "continuous", "membership")
UNNAMED = {SENSITIVE: ("", "attribute"), CONTROL: ("control", "control")}  # one column, the columns of a matrix


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
    name : str, optional
        The name of the attribute; that of the Series where it has one. In a dictionary of columns the key names it.

    Examples
    --------
    >>> from r2b._data import read
    >>> data = read([0, 1, 0], sensitive_features={"age": Continuous([39, 50, 39])})
    >>> data.groups.kinds, data.groups.vocabularies[0].values
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
        Finite numbers of zero or more, each row with the sum 1. The column names of a frame are the names of the groups.
    groups : sequence of R names, optional
        For a matrix without names; "0", "1", ... where it is left out.
    name : str, optional
        The name of the attribute. In a dictionary of columns the key names it.

    Examples
    --------
    >>> from r2b._data import read
    >>> data = read([0, 1], sensitive_features=Membership([[0.25, 0.75], [1, 0]], groups=["f", "m"], name="sex"))
    >>> data.groups.vocabularies[0].groups, data.groups.names.tolist()
    (('f', 'm'), ['row 0', 'row 1'])
    """

    probabilities: Any
    _: KW_ONLY
    groups: Sequence[Any] | None = None
    name: str = ""


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
        """Give plain values, or None where there is none for a basis of the user's own.

        Examples
        --------
        >>> ContinuousSettings("spline", 5).to_json(), ContinuousSettings(abs).to_json()
        ({'basis': 'spline', 'knots': 5}, None)
        """
        knots = self.knots.tolist() if isinstance(self.knots, (np.ndarray, np.generic)) else self.knots
        if isinstance(knots, Integral):
            return {"basis": self.basis, "knots": int(knots)} if isinstance(self.basis, str) else None
        numbers = isinstance(knots, (list, tuple)) and all(isinstance(knot, Real) for knot in knots)
        return {"basis": self.basis, "knots": [float(knot) for knot in knots]} if numbers and isinstance(self.basis, str) else None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> ContinuousSettings:
        """Restore settings from :meth:`to_json`."""
        knots = stored["knots"]
        return cls(str(stored["basis"]), tuple(float(knot) for knot in knots) if isinstance(knots, list) else int(knots))


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute as it came in.

    Attributes
    ----------
    name : str
        Empty for one sensitive column without a name.
    arrived : Column, or Frame or Matrix of a membership
    argument : str
        "sensitive_features" or "control_features".
    kind : str
        "categorical", "continuous" or "membership".
    settings : ContinuousSettings or None
    groups : sequence of names, or None
        Group names that were given for a membership.
    """

    name: str
    arrived: Column | Frame | Matrix
    argument: str
    kind: str = CATEGORICAL
    settings: ContinuousSettings | None = None
    groups: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self.arrived)

    @property
    def index(self) -> Any | None:
        """The row labels of pandas, None for other libraries."""
        return self.arrived.index

    @property
    def place(self) -> str:
        """How to reach it in the argument, such as ``sensitive_features['age']``."""
        return placed(self.argument, self.name)

    @property
    def spoken(self) -> str:
        """How an error calls it."""
        return f"column {self.name!r} of {self.argument}" if self.name else self.argument


def placed(argument: str, name: Any) -> str:
    """Say where in an argument something is.

    Examples
    --------
    >>> placed("sensitive_features", "age"), placed("sensitive_features", "")
    ("sensitive_features['age']", 'sensitive_features')
    """
    return f"{argument}[{name!r}]" if name else argument


def attributes_of(handed: Any, *, argument: str = SENSITIVE) -> tuple[Attribute, ...]:
    """Give the attributes in an argument, in order and named.

    Raises
    ------
    InputError
        It is not a column or table, or two of its columns have the same name.
    ParameterError
        A control feature is not a category.
    """
    one, many = UNNAMED[argument]
    if isinstance(handed, (Continuous, Membership)):
        return (_wrapped(handed, argument, None),)
    if isinstance(handed, Mapping) and any(isinstance(value, (Continuous, Membership)) for value in handed.values()):
        return _of_mapping(handed, argument)
    if isinstance(handed, (list, tuple)) and handed and isinstance(handed[0], (Continuous, Membership)):
        raise ShapeError(
            f"The argument {argument} is a list of attributes, which need names.",
            remedy='Pass a dictionary such as {"sex": column, "age": r2b.Continuous(column)}.',
            argument=argument,
        )
    found = recognise(handed, what=argument)
    if isinstance(found, Column):
        return (Attribute(found.name or one, found, argument),)
    if isinstance(found, Frame):
        return tuple(Attribute(column.name, column, argument) for column in found.columns)
    if len(found.columns) == 1:
        return (Attribute(one, found.columns[0], argument),)
    return tuple(Attribute(f"{many} {j}", column, argument) for j, column in enumerate(found.columns))


def _of_mapping(handed: Mapping[Any, Any], argument: str) -> tuple[Attribute, ...]:
    refuse_twice([str(name) for name in handed], what=argument)
    attributes = []
    for name, value in handed.items():
        if isinstance(value, (Continuous, Membership)):
            attributes.append(_wrapped(value, argument, name))
        else:
            attributes += attributes_of({name: value}, argument=argument)
    return tuple(attributes)


def _wrapped(handed: Continuous | Membership, argument: str, key: Any) -> Attribute:
    if argument == CONTROL:
        raise ParameterError(
            f"In {placed(argument, key)} there is a {type(handed).__name__}, but control features are categories.",
            remedy="Cut it into intervals, or pass it in sensitive_features.",
            argument=argument,
            column=key,
            type=type(handed).__name__,
        )
    if key is not None and handed.name and str(handed.name) != str(key):
        raise ShapeError(
            f"In {argument}, the attribute under {key!r} has the name {handed.name!r}.",
            remedy="Leave out the name; the key of the dictionary is one.",
            argument=argument,
            column=str(key),
            name=handed.name,
        )
    name = str(handed.name if key is None else key)
    what = placed(argument, name)
    if isinstance(handed, Continuous):
        column = column_of(handed.values, what=what)
        settings = ContinuousSettings(handed.basis, handed.knots)
        return Attribute(name or column.name, column, argument, CONTINUOUS, settings)
    table = recognise(handed.probabilities, what=what)
    if isinstance(table, Column):
        raise ShapeError(
            f"The membership in {what} has one dimension; it needs one column of probabilities per group.",
            remedy="Pass a matrix of rows by groups, or the column itself, without Membership, if its values are groups.",
            argument=argument,
            column=name,
        )
    return Attribute(name, table, argument, MEMBERSHIP, groups=handed.groups)


def read_continuous(column: Column, *, what: str, missing: str) -> tuple[Array, Vocabulary]:
    """Give the codes of a numeric column and its distinct values, as float64.

    Parameters
    ----------
    column : Column
    what : str
        How the column is called in an error.
    missing : str
        "error", "group" or "exclude"; only the last keeps rows without a value.

    Raises
    ------
    InputError
        A value is not a number, or infinite.
    MissingValueError, ParameterError
        A row has no value.

    Examples
    --------
    >>> codes, vocabulary = read_continuous(Column([39, 50, 39], "list"), what="age", missing="error")
    >>> codes, vocabulary.values
    (array([0, 1, 0], dtype=uint8), array([39., 50.]))
    """
    gaps = missing_rows(column)
    if gaps.any():
        _refuse_missing(gaps, what, missing)
        refuse_all_missing(gaps, what)
    return encode_numbers(column, gaps, what=what, has_missing=bool(gaps.any()))


def read_known_continuous(column: Column, *, what: str, has_missing: bool) -> tuple[Array, Vocabulary]:
    """Give codes and distinct values of new rows, whose numbers may be new too; missing ones only where there were some."""
    gaps = missing_rows(column)
    if gaps.any() and not has_missing:
        _refuse_missing(gaps, what, "error")
    return encode_numbers(column, gaps, what=what, has_missing=has_missing)


def encode_numbers(column: Column, gaps: Array, *, what: str, has_missing: bool) -> tuple[Array, Vocabulary]:
    """Give codes and distinct values of the rows that have one; the others get the last code."""
    numbers = _floats(column, gaps, what)
    codes, values = of_numpy(numbers, what) if len(numbers) else (np.zeros(0, dtype=np.uint8), numbers)
    if has_missing:
        codes = with_missing(codes, gaps, len(values))
    return codes, Vocabulary(values, index=column.index, has_missing=has_missing)


def _refuse_missing(gaps: Array, what: str, missing: str) -> None:
    row, count = int(np.argmax(gaps)), int(gaps.sum())
    if missing == "error":
        raise missing_error(what, row=row, count=count, n_rows=len(gaps), fill=False)
    if missing == "group":
        raise ParameterError(
            f"In {what}, {count} of {len(gaps)} rows have no value (the first is row {row}), "
            "and missing='group' has no group for them: the attribute is continuous.",
            remedy="Pass missing='exclude', or drop these rows.",
            parameter="missing",
            column=what,
            row=row,
            count=count,
        )


def _floats(column: Column, gaps: Array, what: str) -> Array:
    rows = np.flatnonzero(~gaps)
    native = (taken(column, rows) if gaps.any() else column).native
    if column.library == "list":
        array = np.empty(len(rows), dtype=object)
        array[:] = native
    elif column.library == "numpy":
        array = np.asarray(native)
    elif column.library == "pyarrow":
        array = native.to_numpy() if hasattr(native, "chunks") else native.to_numpy(zero_copy_only=False)
    else:
        array = np.asarray(native.to_numpy())
    if array.dtype.kind in "fiu":
        numbers = array.astype(np.float64)
    else:
        numbers = np.array([_number(int(row), value, what) for row, value in zip(rows, array, strict=True)], dtype=np.float64)
    infinite = np.isinf(numbers)
    if infinite.any():
        place = int(np.argmax(infinite))
        raise InputError(
            f"In {what}, row {int(rows[place])} holds {float(numbers[place])!r}; {int(infinite.sum())} of {len(gaps)} rows are infinite.",
            remedy="Correct or drop these rows; a continuous attribute is finite.",
            column=what,
            row=int(rows[place]),
            value=float(numbers[place]),
            count=int(infinite.sum()),
        )
    return numbers


def _number(row: int, value: Any, what: str) -> float:
    value = plain_value(value)
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise InputError(
            f"In {what}, row {row} holds {value!r}, which is not a number.",
            remedy="Pass one number per row, or pass the column without Continuous if its values are categories.",
            column=what,
            row=row,
            value=value,
        )
    try:
        return float(value)
    except OverflowError:  # an integer beyond the largest float
        return float("inf") if str(value)[0] != "-" else float("-inf")
