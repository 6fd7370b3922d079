"""Arrays of class or group names to plain values that JSON can hold, and back with their dtype; no pickle."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np

from r2b._data.integers import Array
from r2b._data.objects import family_of
from r2b.errors import FileFormatError


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
        return _stored(values.dtype.str, "float", [_written(float(value)) for value in values])
    if kind in "mM":
        return _stored(values.dtype.str, "time", values.view(values.dtype.str[0] + "i8").tolist())
    if kind == "U":
        return _stored(values.dtype.str, "str", values.tolist())
    if kind == "S":
        return _stored(values.dtype.str, "bytes", [value.decode("latin-1") for value in values.tolist()])
    return _of_objects(values)


def _stored(dtype: str, kind: str, values: list[Any]) -> dict[str, Any]:
    return {"dtype": dtype, "type": kind, "values": values}


def _written(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)  # JSON has no infinity


def _of_objects(values: Array) -> dict[str, Any]:
    # Objects of a type that JSON does not know are kept as they are written; a vocabulary compares them in that form.
    family = family_of(type(values[0])) if len(values) else "str"
    dtype = "object"
    if family in ("int", "bool"):
        return _stored(dtype, "number", [bool(value) if family == "bool" else int(value) for value in values])
    if family == "float" and all(isinstance(value, (float, np.floating)) for value in values):
        return _stored(dtype, "float", [_written(float(value)) for value in values])
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
