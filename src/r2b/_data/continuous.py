"""Numbers of a continuous attribute: one finite float per row, and their distinct values."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from r2b._data.arrival import Column
from r2b._data.factorize import of_numpy
from r2b._data.integers import Array
from r2b._data.missing import missing_rows, refuse_all_missing, taken, with_missing
from r2b._data.objects import missing_error
from r2b._data.vocabulary import Vocabulary, plain_value
from r2b.errors import InputError, ParameterError


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
