"""Values of any kind to the text of a field, and text to numbers; what has no such form is refused by name."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._files.table import Table
from r2b.errors import InputError, MissingValueError


def listed(values: Any) -> list[Any]:
    """Give a column of any library as a list of Python's own values.

    Examples
    --------
    >>> listed(np.array([1, 2]))
    [1, 2]
    """
    for way in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, way):
            return list(getattr(values, way)())
    return list(values)


def as_text(values: Any, name: str) -> list[str]:
    """Give a column as text; a missing value is an empty field, a number all its digits.

    Raises
    ------
    InputError
        A value that a field cannot hold, such as a list.

    Examples
    --------
    >>> as_text(["a", None, 0.1, True], "x")
    ['a', '', '0.1', 'true']
    """
    plain = listed(values)
    if all(type(value) is str for value in plain):
        return plain
    if all(type(value) is float for value in plain):
        return [repr(value) if value == value else "" for value in plain]
    return [_text(value, name, row) for row, value in enumerate(plain)]


def _text(value: Any, name: str, row: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal, timedelta)):
        return str(value)
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    raise InputError(
        f"In the column {name!r}, row {row} holds {type(value).__name__}, which a field of CSV cannot hold.",
        remedy="Write Parquet, Arrow or JSON Lines with --output-format, or leave the column out.",
        column=name,
        row=row,
    )


def as_numbers(values: Any, table: Table, name: str, missing: Sequence[str] = ()) -> Any:
    """Give a column as numbers; text is read, everything else goes through as it is. What is missing becomes NaN.

    Raises
    ------
    InputError
        A text that is not a number: the message names line and column.
    """
    if not isinstance(values, list):
        if not hasattr(values, "to_pylist") or "string" not in str(values.type):
            return values
        values = listed(values)
    if not any(type(value) is str for value in values):
        return [math.nan if value is None else value for value in values]
    numbers = np.empty(len(values))
    gaps = {None, *missing}
    for row, value in enumerate(values):
        try:
            # Python reads 1_000 as a number; no other reader of the file would.
            numbers[row] = math.nan if value in gaps else float(value if "_" not in str(value) else "")
        except (TypeError, ValueError):
            raise _not_a_number(table, name, row, value, missing) from None
    return numbers


_POINTED = re.compile(r"[-+]?\d[\d ,.'_\u00a0\u2009\u202f\u2019]*")  # as people of many countries write a number


def _not_a_number(table: Table, name: str, row: int, value: Any, missing: Sequence[str]) -> InputError:
    where = f"In the column {name!r} of {table.name}, {table.place(row)}"
    if isinstance(value, str) and not value.strip():
        return MissingValueError(f"{where} is empty.", remedy="Fill in a number, or drop the row.", column=name, row=row)
    remedy = "Correct it." if not missing else "Correct it, or say which text means missing with --na."
    if isinstance(value, str) and _POINTED.fullmatch(value.strip()):
        remedy = "Write numbers with a point for decimals and nothing between thousands: 1234.5."
    return InputError(f"{where} holds {value!r}, which is not a number.", remedy=remedy, column=name, row=row, value=value)


def as_matrix(columns: Sequence[Any]) -> NDArray[np.float64]:
    """Put columns of numbers side by side.

    Examples
    --------
    >>> as_matrix([[0.5, 1.0], [0.5, 0.0]]).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    return np.column_stack([np.asarray(listed(column), dtype=np.float64) for column in columns])
