"""Columns of pandas, polars and pyarrow, and of Python objects: missing rows, codes, taking rows, columns made from values.

Codes are in ascending order of the values, or in the order of the categories where the column
declares one: pandas categoricals, polars enums, pyarrow dictionaries marked as ordered. The order
of other dictionaries and polars categoricals is an accident of storage. Values are compared within
one type only: ``1``, ``1.0`` and ``True`` are equal to Python and never the same class here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import (
    BLOCK_ROWS,
    Array,
    as_objects,
    compact_integers,
    first_and_count,
    first_rows,
    smallest_unsigned,
)
from r2b.errors import InputError, MissingValueError, MixedTypeError


def take(native: Any, library: str, rows: Array) -> Any:
    """Give some rows of a column, by number, as a column of the same library."""
    if library == "pandas":
        return native.take(rows)
    if library == "polars":
        return native.gather(rows)
    if library == "pyarrow":
        return native.take(libraries.get_pyarrow().array(rows))
    return [native[row] for row in rows.tolist()] if library == "list" else native[rows]


def made_from(values: Array, library: str, name: str) -> Any:
    """Make a column of a library from NumPy values; None for those without columns of their own."""
    listed = values.tolist() if values.dtype.kind in "OU" else values
    if library == "pandas":
        return libraries.get_pandas().Series(listed, name=name or None)
    if library == "polars":
        return libraries.get_polars().Series(name, listed)
    return libraries.get_pyarrow().array(listed) if library == "pyarrow" else None


def missing_rows(native: Any, library: str) -> Array:
    """Say of every row whether it has no value: null, None, NaN, NaT, pandas.NA or masked.

    Examples
    --------
    >>> missing_rows(["a", None, float("nan")], "list")
    array([False,  True,  True])
    """
    if library == "pandas":
        return _missing_in_pandas(native)
    if library == "polars":
        mask = native.is_null()
        return np.asarray(
            (
                mask | native.is_nan().fill_null(False) if native.dtype.is_float() else mask
            ).to_numpy(),
            dtype=bool,
        )
    if library == "pyarrow":
        return _missing_in_arrow(native)
    if library == "list":
        return missing_objects(native)
    mask = (
        np.ma.getmaskarray(native)
        if isinstance(native, np.ma.MaskedArray)
        else np.zeros(len(native), dtype=bool)
    )
    array = np.asarray(native)
    if array.dtype.kind in "fmM":
        mask = mask | (np.isnan(array) if array.dtype.kind == "f" else np.isnat(array))
    elif array.dtype.kind in "OT":
        mask = mask | missing_objects(array)
    return np.asarray(mask)


def _missing_in_pandas(series: Any) -> Array:
    if isinstance(series.dtype, libraries.get_pandas().ArrowDtype):
        return _missing_in_arrow(series.array.__arrow_array__())
    mask = np.asarray(series.isna(), dtype=bool)
    if getattr(getattr(series.dtype, "numpy_dtype", None), "kind", "") == "f":
        # A nullable float tells NaN from NA; neither is a value.
        mask = mask | np.isnan(series.to_numpy(dtype=series.dtype.numpy_dtype, na_value=np.nan))
    return mask


def _missing_in_arrow(array: Any) -> Array:
    if libraries.get_pyarrow().types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)  # the null may sit in the dictionary itself
    return np.asarray(array.is_null(nan_is_null=True), dtype=bool)


def encoded(native: Any, library: str, what: str) -> Array | tuple[Array, Array]:
    """Give the codes and distinct values of a column, or its values as a NumPy array where it holds no codes of its own.

    Raises
    ------
    MissingValueError, MixedTypeError, InputError
    """
    return {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}[library](native, what)


def _of_pandas(series: Any, what: str) -> Array | tuple[Array, Array]:
    pandas, dtype = libraries.get_pandas(), series.dtype
    if isinstance(dtype, np.dtype):
        return np.asarray(series.to_numpy())
    if isinstance(dtype, pandas.ArrowDtype):
        return _of_arrow(series.array.__arrow_array__(), what)
    if isinstance(dtype, pandas.CategoricalDtype):
        codes = series.cat.codes.to_numpy()
        refuse_missing(codes < 0, what)
        codes, present = compact_integers(codes)
        values = index_values(dtype.categories.take(present))
        if len({family_of(type(value)) for value in values}) > 1:
            # for an error that names rows, not categories
            uniform_family(np.asarray(series, dtype=object), what=what)
        return codes, values
    if hasattr(dtype, "numpy_dtype"):  # the nullable numbers: Int64, Float32, boolean
        refuse_missing(series.isna().to_numpy(), what)
        return np.asarray(series.to_numpy(dtype=dtype.numpy_dtype))
    codes, uniques = pandas.factorize(series)
    refuse_missing(codes < 0, what)
    return _ordered(codes, index_values(uniques), what)


def index_values(index: Any) -> Array:
    """Turn a pandas Index into a NumPy array; moments with a time zone become moments in UTC."""
    if getattr(index.dtype, "tz", None) is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    return np.asarray(index)


def _of_polars(series: Any, what: str) -> Array | tuple[Array, Array]:
    polars, dtype = libraries.get_polars(), series.dtype
    if series.null_count():
        refuse_missing(series.is_null().to_numpy(), what)
    if dtype == polars.String:
        distinct = series.unique().sort()
        codes = series.cast(polars.Enum(distinct)).to_physical().to_numpy()
        return codes.astype(smallest_unsigned(len(distinct)), copy=False), as_objects(
            distinct.to_list()
        )
    if dtype in (polars.Categorical, polars.Enum):
        codes, present = compact_integers(series.to_physical().to_numpy())
        names = as_objects(
            series.gather(first_rows(codes, len(present))).cast(polars.String).to_list()
        )
        return (codes, names) if dtype == polars.Enum else _ordered(codes, names, what)
    if dtype.is_nested():
        raise no_name(what, f"are of the nested type {dtype}", type=str(dtype))
    if (dtype.is_numeric() or dtype.is_temporal() or dtype == polars.Boolean) and not str(
        dtype
    ).endswith("Int128"):
        return np.asarray(series.to_numpy())
    return as_objects(series.to_list())  # what NumPy has no dtype for


def _of_arrow(array: Any, what: str) -> Array | tuple[Array, Array]:
    arrow = libraries.get_pyarrow()
    if array.null_count:
        refuse_missing(np.asarray(array.is_null()), what)
    if arrow.types.is_nested(array.type):
        raise no_name(what, f"are of the nested type {array.type}", type=str(array.type))
    if str(array.type) in ("string", "large_string", "string_view"):
        array = array.cast(arrow.large_string()).dictionary_encode()
    if not arrow.types.is_dictionary(array.type):
        return np.asarray(array)
    if isinstance(array, arrow.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    codes, values = np.asarray(array.indices), np.asarray(array.dictionary)
    unknown = np.asarray(array.dictionary.is_null(nan_is_null=True))
    if unknown.any():
        refuse_missing(unknown[codes], what)
        codes, present = compact_integers(codes)  # the dictionary holds a null that no row has
        values = values[present]
    if not array.type.ordered:
        return _ordered(codes, values, what)
    codes, present = compact_integers(codes)
    return codes, values[present]


def _ordered(codes: Array, values: Array, what: str) -> tuple[Array, Array]:
    """Put distinct values, in order of appearance, in ascending order; values may repeat and need not all occur."""
    rank, distinct, _ = encode_objects(values, what=what)
    codes, present = compact_integers(rank[codes])
    kept = [distinct[code] for code in present]
    return codes, as_objects(kept) if values.dtype == object else np.array(kept, dtype=values.dtype)


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
    """Name the family of values that a Python type belongs to: ``np.str_`` and ``str`` are one, ``bool`` and ``int`` are two.

    Examples
    --------
    >>> family_of(np.str_), family_of(bool), family_of(np.int8), family_of(type(None))
    ('str', 'bool', 'int', 'missing')
    """
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return MISSING
    return next((name for kinds, name in _FAMILIES if issubclass(kind, kinds)), kind.__name__)


def is_missing(value: Any) -> bool:
    """Say whether a single value stands for "not known": None, NaN, NaT or pandas.NA.

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


_FILL = 'Drop these rows, or fill them with a category of your own such as "unknown".'


def refuse_missing(mask: Array, what: str, remedy: str = _FILL) -> None:
    """Raise where rows have no value."""
    row, count = first_and_count(mask)
    if count:
        rows = "1 row has" if count == 1 else f"{count} of {len(mask)} rows have"
        problem = f"In {what}, {rows} no value; the first is row {row}."
        raise MissingValueError(
            problem, remedy=remedy, column=what, row=row, count=count, n_rows=len(mask)
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
        raise no_name(what, f"are of type {family}", type=family) from error
    try:
        ordered = sorted(distinct)
    except TypeError:  # values without an order of their own, such as members of an Enum
        ordered = sorted(distinct, key=str)
    place = {value: code for code, value in enumerate(ordered)}
    codes = np.empty(len(values), dtype=smallest_unsigned(len(ordered)))
    start = 0
    for block in _blocks(values):
        codes[start : start + len(block)] = np.fromiter(
            map(place.__getitem__, block), dtype=codes.dtype, count=len(block)
        )
        start += len(block)
    return (
        codes,
        [
            value.item() if isinstance(value, (np.str_, np.number, np.bool_)) else value
            for value in ordered
        ],
        family,
    )


def no_name(what: str, found: str, **facts: Any) -> InputError:
    """Build the error for values that cannot name a class or group."""
    problem = f"The values of {what} {found}, which cannot name a class or group."
    return InputError(
        problem,
        remedy="Pass one plain value per row: text, whole number, true/false or date.",
        column=what,
        **facts,
    )


def uniform_family(values: Sequence[Any] | Array, *, what: str) -> str:
    """Give the one family of values in a column, or raise the error for missing or mixed values."""
    families = {family_of(kind) for block in _blocks(values) for kind in set(map(type, block))}
    if families - ALWAYS_THERE:
        refuse_missing(missing_objects(values), what)
    if len(families) > 1:
        raise _mixed_rows(values, what=what)
    (family,) = families
    if family == "complex":
        raise complex_error(what)
    return family


def complex_error(what: str) -> InputError:
    """Build the error for complex numbers."""
    return InputError(
        f"The values of {what} are complex numbers.",
        remedy="Pass real numbers or class names.",
        column=what,
    )


def _blocks(values: Sequence[Any] | Array) -> Iterator[list[Any]]:
    for start in range(0, len(values), BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS]
        yield block.tolist() if isinstance(block, np.ndarray) else list(block)


def missing_objects(values: Sequence[Any] | Array) -> Array:
    """Say of every object whether it stands for "not known"."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    doubtful = {kind for kind in set(map(type, values)) if family_of(kind) not in ALWAYS_THERE}
    if not doubtful:
        return np.zeros(len(values), dtype=bool)
    return np.fromiter(
        (type(value) in doubtful and is_missing(value) for value in values),
        dtype=bool,
        count=len(values),
    )


def _mixed_rows(values: Sequence[Any] | Array, *, what: str) -> MixedTypeError:
    seen: dict[str, tuple[int, Any]] = {}
    for row, value in enumerate(chain.from_iterable(_blocks(values))):
        seen.setdefault(family_of(type(value)), (row, value))
    (one, (row_one, value_one)), (two, (row_two, value_two)) = list(seen.items())[:2]
    return mixed_error(
        what, rows=(row_one, row_two), values=(value_one, value_two), types=(one, two)
    )


def mixed_error(
    what: str, *, rows: tuple[int, int], values: tuple[Any, Any], types: tuple[str, str]
) -> MixedTypeError:
    """Build the error for two rows whose values are of different types."""
    problem = f"In {what}, row {rows[0]} holds {values[0]!r} ({types[0]}) and row {rows[1]} holds {values[1]!r} ({types[1]})."
    remedy = "Convert the column to one type, for example with astype(str); a list with [str(value) for value in column]."
    return MixedTypeError(
        problem, remedy=remedy, column=what, rows=rows, values=values, types=types
    )
