"""What was handed in: a column, a frame or a matrix, told apart without importing any library that is not already there.

Nothing is converted or checked here beyond the number of dimensions; the memory stays the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array
from r2b._data.objects import family_of
from r2b.errors import EmptyError, InputError, LengthError, RowLabelError, ShapeError


def refuse_lengths(what: str, n_rows: int, other: str, n_other: int) -> None:
    """Raise where two arguments have different numbers of rows.

    Examples
    --------
    >>> refuse_lengths("y", 3, "sample_weight", 3)
    """
    if n_rows != n_other:
        raise LengthError(
            f"The argument {what} has {n_rows} rows, but {other} has {n_other}.",
            remedy="Pass the same rows in both; name several attributes in a dictionary of columns.",
            lengths={what: n_rows, other: n_other},
        )


def row_labels(handed: Any) -> Any | None:
    """Give the index of a pandas object, or of the first one in a dictionary of columns; None for everything else.

    Examples
    --------
    >>> row_labels([1, 2]) is None
    True
    """
    native = nw.to_native(handed, pass_through=True)
    if isinstance(native, Mapping):
        return next((index for column in native.values() if (index := row_labels(column)) is not None), None)
    return native.index if libraries.is_pandas_dataframe(native) or libraries.is_pandas_series(native) else None


def refuse_other_index(*arguments: tuple[str, Any | None]) -> Any | None:
    """Raise where two pandas arguments do not have the same row labels in the same order: by position and by label would then differ.

    Parameters
    ----------
    *arguments : tuple (str, pandas Index or None)
        Names of arguments, each with its index. None, for what has no row labels, agrees with everything.

    Returns
    -------
    pandas Index or None
        The one that all share.

    Raises
    ------
    RowLabelError, LengthError

    Examples
    --------
    >>> import pandas as pd
    >>> refuse_other_index(("y", pd.Index(["a", "b"])), ("sensitive_features", None), ("sample_weight", pd.Index(["a", "b"])))
    Index(['a', 'b'], dtype='...')
    """
    labelled = [(what, index) for what, index in arguments if index is not None]
    if not labelled:
        return None
    what, index = labelled[0]
    for other, theirs in labelled[1:]:
        refuse_lengths(what, len(index), other, len(theirs))
        if not index.equals(theirs):
            raise _disagreement(what, index, other, theirs)
    return index


def _disagreement(what: str, index: Any, other: str, theirs: Any) -> RowLabelError:
    ours, others = index.tolist(), theirs.tolist()
    row = next((row for row, pair in enumerate(zip(ours, others, strict=True)) if _differ(*pair)), 0)
    known = theirs.isin(index)
    foreign = int((~known).sum())
    by_position = f"if the rows already correspond, pass {other} with .to_numpy() to go by position"
    if foreign == len(theirs):
        found, remedy = "have no row label in common", f"Give them one index: {other}.index = {what}.index; or, {by_position}."
    else:
        same = not foreign and bool(index.isin(theirs).all())
        found = "have the same row labels in a different order" if same else f"differ in their row labels ({foreign} of {len(theirs)})"
        remedy = f"Bring them in one order with {other} = {other}.loc[{what}.index]; or, {by_position}."
        if foreign:
            remedy = f"Take .loc[{what}.index.intersection({other}.index)] of both, the rows that they share; or, {by_position}."
        if index.has_duplicates or theirs.has_duplicates:
            remedy = f"Some labels occur twice, so that only you know which rows belong together: {by_position}."
    return RowLabelError(
        f"The arguments {what} and {other} {found}; at row {row} they are {ours[row]!r} and {others[row]!r}.",
        remedy=remedy,
        row=row,
        row_labels=(ours[row], others[row]),
        arguments=(what, other),
        n_foreign=foreign,
    )


def _differ(one: Any, other: Any) -> bool:
    try:
        return bool(one != other)
    except (TypeError, ValueError):  # pandas.NA has no answer
        return one is not other


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it came in.

    Attributes
    ----------
    native : object
        NumPy array, list, pandas Series, polars Series or pyarrow (chunked) array.
    library : str
        "numpy", "list", "pandas", "polars" or "pyarrow".
    name : str
        Empty where it has none.
    wrapped : bool
        Whether it came inside a narwhals Series and should leave as one.
    labelled : bool
        Whether the index of a pandas Series is the user's: an Index or an array of pandas has none.
    """

    native: Any
    library: str
    name: str = ""
    wrapped: bool = False
    labelled: bool = True

    def __len__(self) -> int:
        return len(self.native)

    @property
    def index(self) -> Any | None:
        """The row labels of a pandas Series, None for the others."""
        return self.native.index if self.library == "pandas" and self.labelled else None


@dataclass(frozen=True, eq=False)
class Frame:
    """Several named columns; ``native`` is kept because some libraries can give the whole as one matrix without a copy."""

    native: Any
    library: str
    columns: tuple[Column, ...]
    names: Array  # (n_columns,), of the type that they have in the frame; objects where they are of several

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def index(self) -> Any | None:
        """The row labels that its pandas columns share, None without any."""
        return next((column.index for column in self.columns if column.index is not None), None)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A two-dimensional array without names."""

    array: Array

    def __len__(self) -> int:
        return len(self.array)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns as views, unnamed."""
        return tuple(Column(self.array[:, j], "numpy") for j in range(self.array.shape[1]))

    @property
    def index(self) -> None:
        """An array has no row labels."""
        return None


def recognise(handed: Any, *, what: str) -> Column | Frame | Matrix:
    """Tell what kind of table was handed in.

    Parameters
    ----------
    handed : object
        Array, list, Series, frame, dictionary of columns; from NumPy, pandas, polars, pyarrow or narwhals.
    what : str
        How the argument is called in an error, such as ``"y"``.

    Raises
    ------
    ShapeError, EmptyError, LengthError, RowLabelError, InputError

    Examples
    --------
    >>> recognise([0, 1, 1], what="y").library
    'list'
    >>> recognise({"no": [0.5], "yes": [0.5]}, what="y").names
    array(['no', 'yes'], dtype='<U3')
    """
    wrapped = libraries.is_narwhals_series(handed)
    native = nw.to_native(handed, pass_through=True)
    # Asking every library whether an array is one of its own costs a small problem a tenth of its time.
    found: Column | Frame | Matrix | None = None if type(native) is np.ndarray else _of_library(native, what=what)
    if found is None:
        found = _of_mapping(native, what=what) if isinstance(native, Mapping) else _of_array(native, what=what)
    if isinstance(found, (Frame, Matrix)) and not found.columns:
        raise EmptyError(f"{_start(what)} has no columns.", remedy="Pass a table with at least one column.", argument=what)
    if len(found) == 0:
        raise EmptyError(f"{_start(what)} has no rows.", remedy="Pass at least one row.", argument=what)
    return replace(found, wrapped=True) if wrapped and isinstance(found, Column) else found


def _start(what: str) -> str:
    return f"The argument {what}"


def _of_library(native: Any, *, what: str) -> Column | Frame | None:
    pandas, arrow = libraries.get_pandas(), libraries.get_pyarrow()
    if pandas is not None and isinstance(native, pandas.MultiIndex):
        raise ShapeError(
            f"{_start(what)} is an index of {native.nlevels} levels, not a column.",
            remedy="Pass a frame with one column per level: index.to_frame(index=False).",
            argument=what,
            levels=native.nlevels,
        )
    if pandas is not None and (libraries.is_pandas_index(native) or isinstance(native, pandas.api.extensions.ExtensionArray)):
        return Column(pandas.Series(native), "pandas", _name(getattr(native, "name", None)), labelled=False)
    if libraries.is_pandas_series(native):
        return Column(native, "pandas", _name(native.name))
    if libraries.is_polars_series(native):
        return Column(native, "polars", _name(native.name))
    if arrow is not None and isinstance(native, (arrow.Array, arrow.ChunkedArray)):
        # pyarrow cannot yet take rows from a view on text, so it becomes plain text and leaves as such.
        return Column(native.cast("string") if str(native.type) == "string_view" else native, "pyarrow")
    if arrow is not None and isinstance(native, arrow.RecordBatch):
        native = arrow.Table.from_batches([native])
    if libraries.is_pandas_dataframe(native):
        return _of_pandas_frame(native, what=what)
    if libraries.is_polars_dataframe(native):
        return _frame(native, "polars", native.get_columns(), native.columns, what=what)
    if libraries.is_pyarrow_table(native):
        return _frame(native, "pyarrow", native.columns, native.column_names, what=what)
    return _of_other_library(native, what=what)


def _of_other_library(native: Any, *, what: str) -> Column | Frame | None:
    """Take in what narwhals knows beyond the three libraries: modin, cuDF; lazy tables are refused."""
    known: Any = nw.from_native(native, pass_through=True, allow_series=True)
    if isinstance(known, nw.LazyFrame):
        raise ShapeError(
            f"{_start(what)} is a lazy table of type {type(native).__name__}, whose rows are not in memory.",
            remedy="Collect it first, for example with .collect().",
            argument=what,
        )
    if isinstance(known, nw.Series):
        return Column(known.to_numpy(), "numpy", _name(known.name))
    if isinstance(known, nw.DataFrame):
        return _of_pandas_frame(known.to_pandas(), what=what)
    return None


def _name(label: Any) -> str:
    return "" if label is None else str(label)


def _of_pandas_frame(native: Any, *, what: str) -> Frame:
    if native.columns.nlevels > 1:
        raise ShapeError(
            f"{_start(what)} has column names of {native.columns.nlevels} levels.",
            remedy="Flatten the names to one level.",
            argument=what,
        )
    columns = [native.iloc[:, j] for j in range(native.shape[1])]
    found = _frame(native, "pandas", columns, native.columns.tolist(), what=what)
    index = native.columns
    if getattr(index.dtype, "kind", "O") in "iufbmM":  # an index of moments gives Timestamps, which NumPy has no dtype for
        index = index.tz_convert("UTC").tz_localize(None) if getattr(index.dtype, "tz", None) is not None else index
        return replace(found, names=np.asarray(index))
    return found


def _of_mapping(native: Mapping[Any, Any], *, what: str) -> Frame:
    refuse_twice([_name(name) for name in native], what=what)  # 1 and "1" are two keys and one name
    columns = []
    for name, handed in native.items():
        column = recognise(handed, what=f"{what}[{name!r}]")
        if not isinstance(column, Column) and len(column.columns) == 1:
            (column,) = column.columns
        if not isinstance(column, Column):
            raise ShapeError(
                f"Column {name!r} of {what} has more than one dimension.",
                remedy="Give the dictionary one column per name.",
                argument=what,
                column=name,
            )
        columns.append(column)
    for name, column in zip(native, columns, strict=True):
        if len(column) != len(columns[0]):
            first = next(iter(native))
            raise LengthError(
                f"In {what}, column {first!r} has {len(columns[0])} rows and column {name!r} has {len(column)}.",
                remedy="Give all columns the same rows.",
                argument=what,
                lengths=(len(columns[0]), len(column)),
            )
    refuse_other_index(*((f"{what}[{name!r}]", column.index) for name, column in zip(native, columns, strict=True)))
    named = tuple(replace(column, name=_name(name)) for name, column in zip(native, columns, strict=True))
    return Frame(native, "dict", named, _labels(list(native)))


def _frame(native: Any, library: str, columns: list[Any], names: list[Any], *, what: str) -> Frame:
    written = [_name(name) for name in names]
    refuse_twice(written, what=what)
    return Frame(native, library, tuple(Column(c, library, n) for c, n in zip(columns, written, strict=True)), _labels(names))


def refuse_twice(names: list[str], *, what: str) -> None:
    """Raise where two columns of an argument have the same name.

    Examples
    --------
    >>> refuse_twice(["sex", "race"], what="sensitive_features")
    """
    if len(set(names)) == len(names):
        return
    twice = next(name for name in names if names.count(name) > 1)
    raise ShapeError(
        f"{_start(what)} has {names.count(twice)} columns named {twice!r}.",
        remedy="Give every column a name of its own.",
        argument=what,
        column=twice,
    )


def _labels(names: list[Any]) -> Array:
    families = {family_of(type(name)) for name in names}
    if families == {"str"}:
        return np.array([str(name) for name in names], dtype=np.str_)
    if len(families) == 1 and families <= {"int", "float", "bool"}:
        array = np.array(names)
        if array.dtype.kind in "iufb":  # NumPy makes objects of integers that are too large
            return array
    kept = np.empty(len(names), dtype=object)
    kept[:] = names
    return kept


def _of_array(native: Any, *, what: str) -> Column | Matrix:
    if hasattr(native, "toarray"):
        raise ShapeError(f"{_start(what)} is a sparse matrix.", remedy="Pass a dense one, for example with .toarray().", argument=what)
    if isinstance(native, (list, tuple, range)):
        return _of_list(native, what=what)
    if isinstance(native, (str, bytes, set, frozenset)) or not (hasattr(native, "__array__") or hasattr(native, "__array_interface__")):
        raise ShapeError(
            f"{_start(what)} is of type {type(native).__name__}, which is not a column or a table.",
            remedy="Pass an array, a list, a Series, a frame or a dictionary of columns.",
            argument=what,
            type=type(native).__name__,
        )
    array = np.asanyarray(native)
    if isinstance(array, np.matrix):
        array = array.A
    return _of_dimensions(array, "numpy", what=what)


def _of_dimensions(array: Array, library: str, *, what: str) -> Column | Matrix:
    if array.dtype.names is not None:
        raise ShapeError(f"{_start(what)} is a structured array.", remedy="Pass a dictionary of its columns.", argument=what)
    if array.ndim == 1:
        return Column(array, library)
    if array.ndim == 2:
        return Matrix(array)
    raise ShapeError(
        f"{_start(what)} has {array.ndim} dimensions, of shape {array.shape}.",
        remedy="Pass one dimension (one value per row) or two (rows by columns).",
        argument=what,
        shape=array.shape,
    )


def _of_list(rows: Any, *, what: str) -> Column | Matrix:
    nested = [isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim > 0) for row in rows]
    if not any(nested):
        if rows and _of_library(rows[0], what=what) is not None:
            raise _list_of_columns(what)
        return Column(rows, "list")
    if all(nested):
        lengths = [len(row) for row in rows]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is None:
            return _of_dimensions(_typed_matrix(rows), "list", what=what)
        problem = f"In {what}, row 0 has {lengths[0]} values and row {odd} has {lengths[odd]}."
    else:
        odd = nested.index(not nested[0])
        problem = f"In {what}, row 0 and row {odd} differ: one is a list of values, the other a single value."
    raise ShapeError(problem, remedy="Give every row the same number of values.", argument=what, row=odd)


def _list_of_columns(what: str) -> InputError:
    return ShapeError(
        f"{_start(what)} is a list of columns, which have no names.",
        remedy='Pass a dictionary such as {"sex": column, "race": column}.',
        argument=what,
    )


def _typed_matrix(rows: Any) -> Array:
    # NumPy would silently turn [1, "a"] into text; numbers only are converted, all else stays as the objects it was.
    plain = np.array(rows, dtype=object)
    kinds = {type(value) for value in plain.ravel()} if plain.ndim == 2 else set()
    numeric = all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds)
    return np.array(rows) if numeric and kinds else plain
