"""A column of any library to codes and its distinct values, in the same order whichever library it came from.

Order is ascending, or the order of the categories where the column declares one: pandas categoricals, polars enums, pyarrow
dictionaries marked as ordered. The order of an unmarked pyarrow dictionary or of a polars categorical is an accident of storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import WIDEST_SPAN, WIDEST_TEXT, Array, compact_integers, encode_text, first_rows, smallest_unsigned
from r2b._data.arrival import Column
from r2b._data.objects import MISSING, complex_error, encode_objects, family_of, is_missing, missing_error, uniform_family
from r2b.errors import InputError, MissingValueError, ParameterError

CHOICES = ("error", "group", "exclude")
ALWAYS_THERE = {"str", "bool", "int", "bytes", "date"}  # families without a value that stands for "not known"


def refuse_other_choice(missing: str) -> None:
    """Raise where ``missing`` is not one of the three choices.

    Examples
    --------
    >>> refuse_other_choice("group")
    """
    if not isinstance(missing, str) or missing not in CHOICES:
        raise ParameterError(
            f"The parameter missing is {missing!r}, which is not one of {', '.join(map(repr, CHOICES))}.",
            remedy='Pass "error" to refuse missing values, "group" to make them a group, or "exclude" to leave them out of the constraint.',
            parameter="missing",
            value=missing,
        )


def missing_rows(column: Column) -> Array:
    """Say of every row whether it has no value: null, None, NaN, NaT, pandas.NA or masked.

    Parameters
    ----------
    column : Column

    Returns
    -------
    ndarray of shape (N,), bool

    Examples
    --------
    >>> missing_rows(Column(["a", None, float("nan")], "list"))
    array([False,  True,  True])
    """
    if column.library == "pandas":
        return _missing_in_pandas(column.native)
    if column.library == "polars":
        series = column.native
        mask = series.is_null()
        return np.asarray((mask | series.is_nan().fill_null(False) if series.dtype.is_float() else mask).to_numpy(), dtype=bool)
    if column.library == "pyarrow":
        return _missing_in_arrow(column.native)
    if column.library == "list":
        return _of_objects(column.native)
    return _of_numpy(column.native)


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
    mask = array.is_null(nan_is_null=True)
    return np.asarray(mask.to_numpy() if hasattr(mask, "chunks") else mask.to_numpy(zero_copy_only=False), dtype=bool)


def _of_numpy(array: Array) -> Array:
    mask = np.array(np.ma.getmaskarray(array)) if isinstance(array, np.ma.MaskedArray) else np.zeros(len(array), dtype=bool)
    array = np.asarray(array)
    kind = array.dtype.kind
    if kind == "f":
        mask |= np.isnan(array)
    elif kind in "mM":
        mask |= np.isnat(array)
    elif kind in "OT":
        mask |= _of_objects(array.tolist())
    return mask


def _of_objects(values: Sequence[Any]) -> Array:
    families = {kind: family_of(kind) for kind in set(map(type, values))}
    doubtful = {kind for kind, family in families.items() if family not in ALWAYS_THERE}
    if not doubtful:
        return np.zeros(len(values), dtype=bool)
    never = {kind for kind, family in families.items() if family == MISSING}
    rows = (type(value) in never or (type(value) in doubtful and is_missing(value)) for value in values)
    return np.fromiter(rows, dtype=bool, count=len(values))


def taken(column: Column, rows: Array) -> Column:
    """Give some rows of a column, by number, as a column of the same library."""
    native = column.native
    if column.library == "pandas":
        return replace(column, native=native.take(rows))
    if column.library == "polars":
        return replace(column, native=native.gather(rows))
    if column.library == "pyarrow":
        return replace(column, native=native.take(libraries.get_pyarrow().array(rows)))
    if column.library == "list":
        return replace(column, native=[native[row] for row in rows.tolist()])
    return replace(column, native=native[rows])


def with_missing(codes: Array, missing: Array, n_values: int) -> Array:
    """Spread the codes of the rows that have a value over all rows; the others get the code ``n_values``.

    Examples
    --------
    >>> with_missing(np.array([1, 0]), np.array([False, True, False]), 2)
    array([1, 2, 0], dtype=uint8)
    """
    spread = np.full(len(missing), n_values, dtype=smallest_unsigned(n_values + 1))
    spread[~missing] = codes
    return spread


def refuse_all_missing(missing: Array, what: str) -> None:
    """Raise where no row at all has a value: such a column says nothing, and its values have no type."""
    if missing.all():
        raise MissingValueError(
            f"In {what}, none of the {len(missing)} rows has a value.",
            remedy="Leave this column out, or check that the right one was passed.",
            column=what,
            row=0,
            count=len(missing),
            n_rows=len(missing),
        )


def factorize(column: Column, *, what: str) -> tuple[Array, Array]:
    """Give the code of every row and the distinct values that occur.

    Parameters
    ----------
    column : Column
        With at least one row.
    what : str
        How the column is called in an error.

    Returns
    -------
    codes : ndarray of shape (N,)
        In the smallest unsigned dtype.
    values : ndarray of shape (n,)

    Raises
    ------
    MissingValueError, MixedTypeError, InputError

    Examples
    --------
    >>> factorize(Column(["b", "a", "b"], "list"), what="y")
    (array([1, 0, 1], dtype=uint8), array(['a', 'b'], dtype='<U1'))
    """
    if column.library == "pandas":
        return _of_pandas(column.native, what)
    if column.library == "polars":
        return _of_polars(column.native, what)
    if column.library == "pyarrow":
        return _of_arrow(column.native, what)
    if column.library == "list":
        return _of_list(column.native, what)
    return of_numpy(column.native, what)


def of_numpy(array: Array, what: str) -> tuple[Array, Array]:
    """Factorize a one-dimensional NumPy array of any dtype."""
    if isinstance(array, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(array), what)
        array = np.asarray(array)
    kind = array.dtype.kind
    if kind in "iu":
        return compact_integers(array)
    if kind == "b":
        codes, present = compact_integers(array.view(np.uint8))
        return codes, present.astype(bool)
    if kind == "f":
        return _of_floats(array, what)
    if kind in "mM":
        _refuse_missing(np.isnat(array), what)
        codes, present = compact_integers(array.view(array.dtype.str[0] + "i8"))
        return codes, present.view(array.dtype)
    if kind == "c":
        raise complex_error(what)
    if kind in "US" and 0 < array.dtype.itemsize <= WIDEST_TEXT * (4 if kind == "U" else 1):
        return encode_text(array)
    if kind in "OUST":
        codes, distinct, _ = encode_objects(array, what=what)
        return codes, _as_objects(distinct) if kind == "O" else np.array(distinct, dtype=array.dtype)
    raise InputError(
        f"The values of {what} have the dtype {array.dtype}, which cannot name a class or group.",
        remedy="Pass text, whole numbers, true/false or dates.",
        column=what,
        dtype=str(array.dtype),
    )


def _as_objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _refuse_missing(mask: Array, what: str) -> None:
    if mask.any():
        raise missing_error(what, row=int(np.argmax(mask)), count=int(mask.sum()), n_rows=len(mask))


def _of_floats(array: Array, what: str) -> tuple[Array, Array]:
    low, high = float(array.min()), float(array.max())
    if np.isnan(low):  # NaN spreads through min, so that the mask is only built when there is one
        _refuse_missing(np.isnan(array), what)
    if abs(low) < 2**30 and high - low < WIDEST_SPAN:
        whole = array.astype(np.int32)
        if np.array_equal(whole, array):  # classes that became floats on the way, the usual case: no sorting needed
            codes, present = compact_integers(whole)
            return codes, present.astype(array.dtype)
    values, inverse = np.unique(array, return_inverse=True)
    return inverse.astype(smallest_unsigned(len(values)), copy=False), values


def _of_list(rows: Any, what: str) -> tuple[Array, Array]:
    codes, distinct, family = encode_objects(rows, what=what)
    # NumPy drops zeros at the end of text, which would make two classes of one name.
    cut = family == "str" and any(value.endswith("\0") for value in distinct)
    typed = np.array(distinct) if family in _DTYPE_KINDS and not cut else None
    # NumPy makes floats or objects of integers that are too large, and objects of Python's own dates.
    return codes, typed if typed is not None and typed.dtype.kind in _DTYPE_KINDS[family] else _as_objects(distinct)


_DTYPE_KINDS = {"str": "U", "bool": "b", "int": "iu", "float": "f", "datetime": "M", "timedelta": "m"}


def _ordered(codes: Array, values: Array, what: str) -> tuple[Array, Array]:
    """Put distinct values, in order of appearance, in ascending order; values may repeat and need not all occur."""
    rank, distinct, _ = encode_objects(values, what=what)
    codes, present = compact_integers(rank[codes])
    kept = [distinct[code] for code in present]
    return codes, _as_objects(kept) if values.dtype == object else np.array(kept, dtype=values.dtype)


def _of_pandas(series: Any, what: str) -> tuple[Array, Array]:
    pandas = libraries.get_pandas()
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return of_numpy(series.to_numpy(), what)
    if isinstance(dtype, pandas.CategoricalDtype):
        codes = series.cat.codes.to_numpy()
        if codes.min() < 0:
            _refuse_missing(codes < 0, what)
        codes, present = compact_integers(codes)
        values = _plain(dtype.categories.take(present))
        if len({family_of(type(value)) for value in values}) > 1:
            uniform_family(np.asarray(series, dtype=object), what=what)  # for an error that names rows, not categories
        return codes, values
    if isinstance(dtype, pandas.ArrowDtype):
        return _of_arrow(series.array.__arrow_array__(), what)
    if hasattr(dtype, "numpy_dtype"):  # the nullable numbers: Int64, Float32, boolean
        _refuse_missing(series.isna().to_numpy(), what)
        return of_numpy(series.to_numpy(dtype=dtype.numpy_dtype), what)
    codes, uniques = pandas.factorize(series)
    if codes.min() < 0:
        _refuse_missing(codes < 0, what)
    return _ordered(codes, _plain(uniques), what)


def _plain(index: Any) -> Array:
    """Turn a pandas Index into a NumPy array; moments with a time zone become moments in UTC."""
    if getattr(index.dtype, "tz", None) is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    return np.asarray(index)


def _of_polars(series: Any, what: str) -> tuple[Array, Array]:
    polars = libraries.get_polars()
    if series.null_count():
        _refuse_missing(series.is_null().to_numpy(), what)
    dtype = series.dtype
    if dtype == polars.String:
        distinct = series.unique().sort()
        codes = series.cast(polars.Enum(distinct)).to_physical().to_numpy()
        return codes.astype(smallest_unsigned(len(distinct)), copy=False), _as_objects(distinct.to_list())
    if dtype in (polars.Categorical, polars.Enum):
        codes, present = compact_integers(series.to_physical().to_numpy())
        names = series.gather(first_rows(codes, len(present))).cast(polars.String).to_list()
        return (codes, _as_objects(names)) if dtype == polars.Enum else _ordered(codes, _as_objects(names), what)
    if dtype.is_nested():
        raise _nested(what, dtype)
    if (dtype.is_numeric() or dtype.is_temporal() or dtype == polars.Boolean) and not str(dtype).endswith("Int128"):
        return of_numpy(series.to_numpy(), what)
    return of_numpy(_as_objects(series.to_list()), what)  # what NumPy has no dtype for


def _of_arrow(array: Any, what: str) -> tuple[Array, Array]:
    arrow = libraries.get_pyarrow()
    kind = array.type
    if array.null_count:
        _refuse_missing(np.asarray(array.is_null()), what)
    if arrow.types.is_nested(kind):
        raise _nested(what, kind)
    if str(kind) in ("string", "large_string", "string_view"):
        array = array.cast(arrow.large_string()).dictionary_encode()
    if not arrow.types.is_dictionary(array.type):
        return of_numpy(array.to_numpy() if isinstance(array, arrow.ChunkedArray) else array.to_numpy(zero_copy_only=False), what)
    if isinstance(array, arrow.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    codes, values = array.indices.to_numpy(zero_copy_only=False), array.dictionary.to_numpy(zero_copy_only=False)
    unknown = np.asarray(array.dictionary.is_null(nan_is_null=True))
    if unknown.any():
        _refuse_missing(unknown[codes], what)
        codes, present = compact_integers(codes)  # the dictionary holds a null that no row has
        values = values[present]
    if not array.type.ordered:
        return _ordered(codes, values, what)
    codes, present = compact_integers(codes)
    return codes, values[present]


def _nested(what: str, dtype: Any) -> InputError:
    return InputError(
        f"The values of {what} are of the nested type {dtype}, which cannot name a class or group.",
        remedy="Pass one plain value per row: text, whole number, true/false or date.",
        column=what,
        type=str(dtype),
    )
