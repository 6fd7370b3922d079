"""Columns of Python objects and strings: what is missing, what is mixed, and their codes.

Values are compared within one type only: ``1``, ``1.0`` and ``True`` are equal to Python and never the same class here.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np

from r2b._data.arrays import BLOCK_ROWS, Array, smallest_unsigned
from r2b.errors import FileFormatError, InputError, MissingValueError, MixedTypeError

MISSING = "missing"


def family_of(kind: type) -> str:
    """Name the family of values that a Python type belongs to: ``np.str_`` and ``str`` are one, ``bool`` and ``int`` are two.

    Examples
    --------
    >>> family_of(np.str_), family_of(bool), family_of(np.int8), family_of(type(None))
    ('str', 'bool', 'int', 'missing')
    """
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return MISSING
    families: tuple[tuple[tuple[type, ...], str], ...] = (
        ((str,), "str"),
        ((bytes,), "bytes"),
        ((bool, np.bool_), "bool"),
        ((np.timedelta64, datetime.timedelta), "timedelta"),  # before the integers: NumPy derives timedelta64 from them
        ((Integral,), "int"),
        ((Real,), "float"),
        ((Complex,), "complex"),
        ((np.datetime64, datetime.datetime), "datetime"),
        ((datetime.date,), "date"),
    )
    return next((name for kinds, name in families if issubclass(kind, kinds)), kind.__name__)


_WORDS = {"str": "text", "int": "number", "float": "number", "bool": "true/false", "datetime": "date", "date": "date"}


def type_word(value: Any) -> str:
    """Say of what type a value is, in a word for errors: text, number, true/false, date, or the name of the type.

    Examples
    --------
    >>> type_word("0"), type_word(0), type_word(0.0), type_word(np.True_), type_word(b"0")
    ('text', 'number', 'number', 'true/false', 'bytes')
    """
    family = family_of(type(value))
    return _WORDS.get(family, family)


def is_missing(value: Any) -> bool:
    """Say whether a single value stands for "not known": None, NaN, NaT or pandas.NA.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(""), is_missing(0)
    (True, True, False, False)
    """
    if family_of(type(value)) == MISSING:
        return True
    # Only these know a value that differs from itself; an array in a cell would answer the question with an array.
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64)):
        return bool(value != value)
    return isinstance(value, Decimal) and value.is_nan()


def missing_error(what: str, *, row: int, count: int, n_rows: int, fill: bool = True) -> MissingValueError:
    """Build the error for missing values from its facts; ``fill`` says whether a category could stand for them."""
    rows = "1 row has" if count == 1 else f"{count} of {n_rows} rows have"
    return MissingValueError(
        f"In {what}, {rows} no value; the first is row {row}.",
        remedy='Drop these rows, or fill them with a category of your own such as "unknown".' if fill else "Drop or fill these rows.",
        column=what,
        row=row,
        count=count,
        n_rows=n_rows,
    )


def encode_objects(values: Sequence[Any] | Array, *, what: str) -> tuple[Array, list[Any], str]:
    """Give codes, sorted distinct values and the family of a column of Python objects.

    Parameters
    ----------
    values : sequence or ndarray of shape (N,)
        Python or NumPy scalars; at least one row.
    what : str
        How the column is called in an error.

    Returns
    -------
    codes : ndarray of shape (N,)
    distinct : list
        Plain Python values, ascending.
    family : str

    Raises
    ------
    MissingValueError, MixedTypeError, InputError

    Examples
    --------
    >>> encode_objects(["b", "a", "b"], what="y")
    (array([1, 0, 1], dtype=uint8), ['a', 'b'], 'str')
    """
    family = uniform_family(values, what=what)
    try:
        distinct = set().union(*_blocks(values))
    except TypeError as error:  # lists or dictionaries in the cells
        raise InputError(
            f"The values of {what} are of type {family}, which cannot name a class or group.",
            remedy="Pass one plain value per row: text, whole number, true/false or date.",
            column=what,
            type=family,
        ) from error
    ordered = _sorted(distinct)
    place = {value: code for code, value in enumerate(ordered)}
    codes = np.empty(len(values), dtype=smallest_unsigned(len(ordered)))
    start = 0
    for block in _blocks(values):
        codes[start : start + len(block)] = np.fromiter(map(place.__getitem__, block), dtype=codes.dtype, count=len(block))
        start += len(block)
    return codes, [value.item() if isinstance(value, (np.str_, np.number, np.bool_)) else value for value in ordered], family


def uniform_family(values: Sequence[Any] | Array, *, what: str) -> str:
    """Give the one family of values in a column, or raise the error for missing or mixed values."""
    kinds: set[type] = set()
    for block in _blocks(values):
        kinds.update(map(type, block))
    families = {family_of(kind) for kind in kinds}
    if families - {"str", "bool", "int", "bytes", "date"}:  # the others may hide NaN or NaT
        _refuse_missing(values, what=what)
    if len(families) > 1:
        raise _mixed_rows(values, what=what)
    (family,) = families
    if family == "complex":
        raise complex_error(what)
    return family


def complex_error(what: str) -> InputError:
    """Build the error for complex numbers."""
    return InputError(f"The values of {what} are complex numbers.", remedy="Pass real numbers or class names.", column=what)


def _blocks(values: Sequence[Any] | Array) -> Iterator[list[Any]]:
    for start in range(0, len(values), BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS]
        yield block.tolist() if isinstance(block, np.ndarray) else list(block)


def _refuse_missing(values: Sequence[Any] | Array, *, what: str) -> None:
    first, count, row = -1, 0, 0
    for block in _blocks(values):
        for value in block:
            if is_missing(value):
                first = row if first < 0 else first
                count += 1
            row += 1
    if count:
        raise missing_error(what, row=first, count=count, n_rows=row)


def _mixed_rows(values: Sequence[Any] | Array, *, what: str) -> MixedTypeError:
    seen: dict[str, tuple[int, Any]] = {}
    row = 0
    for block in _blocks(values):
        for value in block:
            seen.setdefault(family_of(type(value)), (row, value))
            row += 1
    (one, (row_one, value_one)), (two, (row_two, value_two)) = list(seen.items())[:2]
    return mixed_error(what, rows=(row_one, row_two), values=(value_one, value_two), types=(one, two))


def mixed_error(what: str, *, rows: tuple[int, int], values: tuple[Any, Any], types: tuple[str, str]) -> MixedTypeError:
    """Build the error for two rows whose values are of different types."""
    return MixedTypeError(
        f"In {what}, row {rows[0]} holds {values[0]!r} ({types[0]}) and row {rows[1]} holds {values[1]!r} ({types[1]}).",
        remedy="Convert the column to one type, for example with astype(str); a list with [str(value) for value in column].",
        column=what,
        rows=rows,
        values=values,
        types=types,
    )


def _sorted(distinct: set[Any]) -> list[Any]:
    try:
        return sorted(distinct)
    except TypeError:  # values without an order of their own, such as members of an Enum
        return sorted(distinct, key=str)


def json_value(value: Any, text: Callable[[str], str] = str) -> Any:
    """Give a value in the form that strict JSON holds; it has no infinity, so that is the text "inf", which Python and NumPy read back.

    Parameters
    ----------
    value : object
        Mappings, sequences, arrays and dataclasses are gone through; what JSON has no type for is given as text.
    text : callable
        How texts and the names of keys are written.

    Examples
    --------
    >>> json_value({"a": np.array([1.0, np.inf]), 1: (np.int64(2), np.datetime64("2026-01-01"))})
    {'a': [1.0, 'inf'], '1': [2, '2026-01-01']}
    """
    if isinstance(value, np.generic):
        value = str(value) if value.dtype.kind in "mM" else value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_value(each, text) for each in value]
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {text(str(key)): json_value(each, text) for key, each in value.items()}
    return text(str(value))


def to_plain(values: Array) -> dict[str, Any]:
    """Give an array of values as a dictionary with its dtype, the type of its values and the values.

    Examples
    --------
    >>> to_plain(np.array(["a", "b"]))
    {'dtype': '<U1', 'type': 'str', 'values': ['a', 'b']}
    """
    kind = values.dtype.kind
    if kind in "iub":
        return _stored(values.dtype.str, "number", values.tolist())
    if kind == "f":
        return _stored(values.dtype.str, "float", json_value(values))
    if kind in "mM":
        return _stored(values.dtype.str, "time", values.view(values.dtype.str[0] + "i8").tolist())
    if kind == "U":
        return _stored(values.dtype.str, "str", values.tolist())
    if kind == "S":
        return _stored(values.dtype.str, "bytes", [value.decode("latin-1") for value in values.tolist()])
    return _of_objects(values)


def _stored(dtype: str, kind: str, values: list[Any]) -> dict[str, Any]:
    return {"dtype": dtype, "type": kind, "values": values}


def _of_objects(values: Array) -> dict[str, Any]:
    # Objects of a type that JSON does not know are kept as they are written; a vocabulary compares them in that form.
    family = family_of(type(values[0])) if len(values) else "str"
    dtype = "object"
    if family in ("int", "bool"):
        return _stored(dtype, "number", [bool(value) if family == "bool" else int(value) for value in values])
    if family == "float" and all(isinstance(value, (float, np.floating)) for value in values):
        return _stored(dtype, "float", [json_value(float(value)) for value in values])
    if family in ("date", "datetime") and all(isinstance(value, datetime.date) for value in values):
        return _stored(dtype, family, [value.isoformat() for value in values])
    if family in ("datetime", "timedelta"):  # moments of NumPy in cells, and spans: their typed array is the same vocabulary
        return to_plain(np.array([np.datetime64(v) if family == "datetime" else np.timedelta64(v) for v in values]))
    if family == "bytes":
        return _stored(dtype, "bytes", [value.decode("latin-1") for value in values])
    return _stored(dtype, "str", [str(value) for value in values])


def from_plain(stored: dict[str, Any]) -> Array:
    """Restore an array from :func:`to_plain`.

    Raises
    ------
    FileFormatError
        The dictionary has other keys or types than it should.

    Examples
    --------
    >>> from_plain({"dtype": "<U1", "type": "str", "values": ["a", "b"]})
    array(['a', 'b'], dtype='<U1')
    """
    try:
        dtype, kind, values = np.dtype(stored["dtype"]), stored["type"], [_READERS[stored["type"]](value) for value in stored["values"]]
        if kind == "time":
            return np.array(values, dtype=dtype.str[0] + "i8").view(dtype)
        array = np.empty(len(values), dtype=dtype)
        array[:] = values
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(
            f"The stored values cannot be read: {type(error).__name__} ({error}).",
            remedy="Save the object again with this release.",
        ) from error
    return array


_READERS: dict[str, Any] = {
    "number": lambda value: value,
    "float": float,
    "time": int,
    "str": str,
    "bytes": lambda value: value.encode("latin-1"),
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}
