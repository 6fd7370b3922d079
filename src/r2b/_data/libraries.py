"""What differs between pandas, polars and pyarrow: missing rows, codes, taking rows, columns made from values.

Codes are in ascending order of the values, or in the order of the categories where the column declares one: pandas categoricals, polars
enums, pyarrow dictionaries marked as ordered. The order of other dictionaries and polars categoricals is an accident of storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array, as_objects, compact_integers, first_rows, smallest_unsigned
from r2b._data.values import encode_objects, family_of, missing_objects, no_name, refuse_missing, uniform_family


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
        return np.asarray((mask | native.is_nan().fill_null(False) if native.dtype.is_float() else mask).to_numpy(), dtype=bool)
    if library == "pyarrow":
        return _missing_in_arrow(native)
    if library == "list":
        return missing_objects(native)
    mask = np.ma.getmaskarray(native) if isinstance(native, np.ma.MaskedArray) else np.zeros(len(native), dtype=bool)
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
            uniform_family(np.asarray(series, dtype=object), what=what)  # for an error that names rows, not categories
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
        return codes.astype(smallest_unsigned(len(distinct)), copy=False), as_objects(distinct.to_list())
    if dtype in (polars.Categorical, polars.Enum):
        codes, present = compact_integers(series.to_physical().to_numpy())
        names = as_objects(series.gather(first_rows(codes, len(present))).cast(polars.String).to_list())
        return (codes, names) if dtype == polars.Enum else _ordered(codes, names, what)
    if dtype.is_nested():
        raise no_name(what, f"are of the nested type {dtype}", type=str(dtype))
    if (dtype.is_numeric() or dtype.is_temporal() or dtype == polars.Boolean) and not str(dtype).endswith("Int128"):
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
