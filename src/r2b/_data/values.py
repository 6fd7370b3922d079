"""Single values: their types in a word, how they are stored, compared and written."""

from __future__ import annotations

import datetime
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any, get_args

import numpy as np

from r2b._data.arrays import Array, Floats, as_objects, plain_value
from r2b.errors import FileFormatError, ParameterError

MISSING = "missing"
_FAMILIES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((str,), "str"),
    ((bytes,), "bytes"),
    ((bool, np.bool_), "bool"),
    # before the integers: NumPy derives timedelta64 from them
    ((np.timedelta64, datetime.timedelta), "timedelta"),
    ((Integral,), "int"),
    ((Real,), "float"),
    ((Complex,), "complex"),
    ((np.datetime64, datetime.datetime), "datetime"),
    ((datetime.date,), "date"),
)


# families without a value that stands for "not known"
ALWAYS_THERE = {"str", "bool", "int", "bytes", "date"}


def family_of(kind: type) -> str:
    """Return the family of values of a Python type.

    ``np.str_`` and ``str`` are one family, ``bool`` and ``int`` are two.

    Examples
    --------
    >>> family_of(np.str_), family_of(bool), family_of(np.int8), family_of(type(None))
    ('str', 'bool', 'int', 'missing')
    """
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return MISSING
    return next((name for kinds, name in _FAMILIES if issubclass(kind, kinds)), kind.__name__)


def is_missing(value: Any) -> bool:
    """Tell whether a single value is missing: None, NaN, NaT or pandas.NA.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(""), is_missing(0)
    (True, True, False, False)
    """
    if family_of(type(value)) == MISSING:
        return True
    # Only these know a value that differs from itself; an array in a cell would answer the question
    # with an array.
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64)):
        return bool(value != value)
    return isinstance(value, Decimal) and value.is_nan()


_WORDS = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true/false",
    "datetime": "date",
    "date": "date",
}


def type_word(value: Any) -> str:
    """Return the type of a value in a word for errors, such as text, number or date.

    Examples
    --------
    >>> type_word("0"), type_word(0), type_word(0.0), type_word(np.True_), type_word(b"0")
    ('text', 'number', 'number', 'true/false', 'bytes')
    """
    family = family_of(type(value))
    return _WORDS.get(family, family)


def json_value(value: Any, text: Callable[[str], str] = str) -> Any:
    """Return a value in the form that strict JSON holds.

    JSON has no infinity, so that is the text "inf", which Python and NumPy read back.

    Parameters
    ----------
    value : object
        Mappings, sequences, arrays and dataclasses are gone through; what JSON has no type for is
        given as text.
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


_KINDS = {
    **dict.fromkeys("iub", "number"),
    **dict.fromkeys("mM", "time"),
    "f": "float",
    "U": "str",
    "S": "bytes",
}
_PLAIN = ("float", "bytes", "date", "datetime")  # families of objects that are stored as such
# How values of a type are written to a file, and read from it.
_STORAGE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "number": (
        lambda value: bool(value) if isinstance(value, (bool, np.bool_)) else int(value),
        lambda value: value,
    ),
    "float": (lambda value: json_value(float(value)), float),
    "time": (int, int),
    "str": (str, str),
    "bytes": (lambda value: value.decode("latin-1"), lambda value: value.encode("latin-1")),
    "date": (lambda value: value.isoformat(), datetime.date.fromisoformat),
    "datetime": (lambda value: value.isoformat(), datetime.datetime.fromisoformat),
}


def to_plain(values: Array) -> dict[str, Any]:
    """Return an array as a dictionary of its dtype, the type of its values and the values.

    Examples
    --------
    >>> to_plain(np.array(["a", "b"]))
    {'dtype': '<U1', 'type': 'str', 'values': ['a', 'b']}
    """
    if values.dtype.kind in "SU":  # no wider than the values need
        values = np.array(values.tolist(), values.dtype.kind)
    if values.dtype.kind in _KINDS:
        dtype, kind = values.dtype.str, _KINDS[values.dtype.kind]
        values = values.view(dtype[0] + "i8") if kind == "time" else values
    else:
        family = family_of(type(values[0])) if len(values) else "str"
        # Moments of NumPy in cells, and spans: their typed array is the same vocabulary.
        if family == "timedelta" or (
            family == "datetime" and not all(isinstance(value, datetime.date) for value in values)
        ):
            return to_plain(np.array(list(values), "m8" if family == "timedelta" else "M8"))
        # Objects of a type that JSON does not know are kept as they are written; a vocabulary
        # compares them in that form.
        dtype, kind = (
            "object",
            {"int": "number", "bool": "number"}.get(family, family if family in _PLAIN else "str"),
        )
        if kind == "float" and not all(isinstance(value, (float, np.floating)) for value in values):
            kind = "str"
    return {
        "dtype": dtype,
        "type": kind,
        "values": [_STORAGE[kind][0](value) for value in values.tolist()],
    }


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
    with stored_as("values"):
        dtype, kind, values = (
            np.dtype(stored["dtype"]),
            stored["type"],
            [_STORAGE[stored["type"]][1](value) for value in stored["values"]],
        )
        if kind == "time":
            return np.array(values, dtype=dtype.str[0] + "i8").view(dtype)
        if dtype.kind in "SU" and dtype.itemsize > np.array(values, dtype.kind).itemsize:
            raise ValueError(f"{dtype} is wider than its values")
        return as_objects(values).astype(dtype)


UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,  # of Arrow, for columns of other types
    SyntaxError,  # of NumPy, for names of types
)
"""What Python raises about values that were not stored by r2b, or are damaged."""


@contextmanager
def stored_as(what: str) -> Iterator[None]:
    """Turn the errors of Python about what is stored in a file into one about the file."""
    try:
        yield
    except FileFormatError:  # it says which part
        raise
    except UNREADABLE as error:
        problem = f"The stored {what} cannot be read: {type(error).__name__} ({error})."
        raise FileFormatError(problem, remedy="Save the object again with this release.") from error


def stored_numbers(stored: Any, shape: tuple[int, ...]) -> Floats:
    """Read finite numbers of a shape from a file; others raise a ValueError."""
    numbers = np.array(stored, dtype=np.float64)
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise ValueError(f"{shape} finite numbers are expected, not {numbers.shape}")
    return numbers


def one_of(name: str, value: object, choice: Any) -> None:
    """Refuse a value of a parameter that is not among the options: names or numbers, or a Literal.

    Examples
    --------
    >>> one_of("missing", "group", ("error", "group"))
    """
    options = get_args(choice) or choice
    named = isinstance(value, str | int | np.integer) and not isinstance(value, bool)
    if not named or value not in options:
        several = f"Pass one of {', '.join(map(repr, options))}."
        remedy = several if options else "Leave it out: there is nothing to choose from."
        raise ParameterError(f"{name} is {value!r}.", remedy=remedy, **{name: value})


def listed(values: Iterable[Any]) -> str:
    """List values in an error, of many the first ten.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(12))
    ("'a', 'b'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    shown = [repr(plain_value(value)) for value in values]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")


def repeated(values: Iterable[Any]) -> Any | None:
    """Return the first value that was there before; None where all are different.

    Examples
    --------
    >>> repeated(["a", "b", "a"]), repeated(["a", "b"])
    ('a', None)
    """
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def key_of(value: Any) -> object:
    """Return a key that is equal for equal classes: ``1`` and ``1.0``, not ``1`` and ``True``.

    Examples
    --------
    >>> key_of(np.int8(1)) == key_of(1.0), key_of(1) == key_of(True)
    (True, False)
    """
    family = family_of(type(value))
    if family in ("int", "float"):
        return "number", value.item() if isinstance(value, np.generic) else value
    if family in ("datetime", "date"):
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        moment = np.datetime64(value)
        # equal moments of different units hash differently in some versions of NumPy
        micro = moment.astype("M8[us]")
        return "time", int(micro.astype(np.int64)), str(moment) if micro != moment else ""
    if family == "timedelta":
        return family, np.timedelta64(value)
    if family in ("bool", "bytes"):
        return family, bool(value) if family == "bool" else value
    # Whatever else a library keeps in its cells, such as intervals, is known by how it is written:
    # that survives a file.
    return "str", str(value)


# characters that turn the direction of the text after them
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def directions_shown(text: str) -> str:
    r"""Show characters that turn the direction of text instead of obeying them.

    "-18" after one of them would read "81-".

    Examples
    --------
    >>> directions_shown("a\u202eb")
    'a\\u202eb'
    """
    return _DIRECTION.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def directions_kept(text: str) -> str:
    r"""Do the same for a whole text, but keep closed isolates, in which names are put.

    Examples
    --------
    >>> directions_kept("\u2068a\u2069 b") == "\u2068a\u2069 b", directions_kept("\u202e")
    (True, '\\u202e')
    """
    if not _DIRECTION.search(text):
        return text
    parts = text.split(_ISOLATE)
    closed = _END not in parts[0] and all(part.count(_END) == 1 for part in parts[1:])
    if not closed:
        return directions_shown(text)
    return "".join(
        each if each in (_ISOLATE, _END) else directions_shown(each)
        for each in re.split(f"([{_ISOLATE}{_END}])", text)
    )


def written(name: object) -> str:
    r"""Write a name on one line, escaped where it cannot be printed and cut where too long.

    Examples
    --------
    >>> written("Prof-school"), written("two\nlines"), len(written("x" * 5000))
    ('Prof-school', 'two\\nlines', 200)
    """
    text = str(plain_value(name))
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    # The crossing of many attributes has room, a document that slipped into a cell does not.
    return text if len(text) <= 200 else f"{text[:99]}...{text[-98:]}"


def warn(warning: Warning) -> None:
    """Issue a warning at the line that called r2b."""
    frame, level = sys._getframe(), 1
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "r2b"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
