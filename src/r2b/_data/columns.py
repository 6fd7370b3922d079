"""What was passed: a column, a frame or a matrix, told apart without importing any library.

Nothing is converted or checked here beyond the number of dimensions; the memory stays the user's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array, as_objects
from r2b._data.values import ALWAYS_THERE, family_of, is_missing, repeated
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    RowLabelError,
    ShapeError,
)


def refuse_lengths(what: str, n_rows: int, other: str, n_other: int) -> None:
    """Raise where two arguments have different numbers of rows.

    Examples
    --------
    >>> refuse_lengths("y", 3, "sample_weight", 3)
    """
    if n_rows != n_other:
        problem = f"`{what}` has {n_rows} rows, but `{other}` has {n_other}."
        remedy = "Pass the same rows in both; name several attributes in a dictionary of columns."
        raise LengthError(problem, remedy=remedy, lengths={what: n_rows, other: n_other})


def row_labels(handed: Any) -> Any | None:
    """Return the index of a pandas object or dictionary of columns; None for everything else.

    Examples
    --------
    >>> row_labels([1, 2]) is None
    True
    """
    native = nw.to_native(handed, pass_through=True)
    if isinstance(native, Mapping):
        return next(
            (index for column in native.values() if (index := row_labels(column)) is not None), None
        )
    return (
        native.index
        if libraries.is_pandas_dataframe(native) or libraries.is_pandas_series(native)
        else None
    )


def refuse_other_index(*arguments: tuple[str, Any | None]) -> Any | None:
    """Raise where two pandas arguments differ in their row labels or the order of these.

    By position and by label would then be different rows.

    Parameters
    ----------
    *arguments : tuple (str, pandas Index or None)
        Names of arguments, each with its index. None, for what has no row labels, agrees with
        everything.

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
    >>> index = pd.Index(["a", "b"])
    >>> refuse_other_index(("y", index), ("sensitive_features", None), ("sample_weight", index))
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


def refuse_other_rows(*arguments: tuple[str, int, Any | None]) -> Any | None:
    """Raise where arguments are of other rows; return the index that all share."""
    for other, n_rows, _ in arguments[1:]:
        refuse_lengths(arguments[0][0], arguments[0][1], other, n_rows)
    return refuse_other_index(*((what, index) for what, _, index in arguments))


def _disagreement(what: str, index: Any, other: str, theirs: Any) -> RowLabelError:
    row = bisect_left(
        range(len(index)),
        True,
        key=lambda row: not index[: row + 1].equals(theirs[: row + 1]),
    )
    foreign = int((~theirs.isin(index)).sum())
    found = "have the same row labels in a different order"
    way = f"Bring them in one order with {other} = {other}.loc[{what}.index]; or,"
    if foreign == len(theirs):
        found = "have no row label in common"
        way = f"Give them one index: {other}.index = {what}.index; or,"
    elif foreign:
        found = f"differ in their row labels ({foreign} of {len(theirs)})"
        both = f"{what}.index.intersection({other}.index)"
        way = f"Take .loc[{both}] of both, the rows they share; or,"
    if index.has_duplicates or theirs.has_duplicates:
        way = "Some labels occur twice, so that only you know which rows belong together:"
    pair = index[row], theirs[row]
    return RowLabelError(
        f"`{what}` and `{other}` {found}; at row {row} they are {pair[0]!r} and {pair[1]!r}.",
        remedy=f"{way} if the rows already correspond, pass {other} with .to_numpy() to go by "
        "position.",
        row=row,
        row_labels=pair,
        arguments=(what, other),
        n_foreign=foreign,
    )


def make_column(values: Array, library: str, name: str) -> Any:
    """Make a column of pandas, polars or pyarrow from NumPy values."""
    listed = values.tolist() if values.dtype.kind in "OU" else values
    if library == "pandas":
        return libraries.get_pandas().Series(listed, name=name or None)
    if library == "polars":
        return libraries.get_polars().Series(name, listed)
    return libraries.get_pyarrow().array(listed)


def _missing_objects(values: Sequence[Any] | Array) -> Array:
    """Tell of every object whether it is missing."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    doubtful = {kind for kind in set(map(type, values)) if family_of(kind) not in ALWAYS_THERE}
    if not doubtful:
        return np.zeros(len(values), dtype=bool)
    return np.array([type(value) in doubtful and is_missing(value) for value in values])


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
        Whether it came inside a narwhals Series and should be returned as one.
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

    @property
    def columns(self) -> tuple[Column, ...]:
        """Itself, as the one column of a table."""
        return (self,)

    @property
    def values(self) -> Any:
        """The column as a sequence, a NumPy array or, without a NumPy type, an Arrow array."""
        native = self.native
        if self.library == "polars":
            if str(native.dtype) in ("Int128", "UInt128", "Object"):  # Arrow has no such types
                return as_objects(native.to_list())
            return native.to_arrow()
        if self.library != "pandas":
            return native
        if isinstance(native.dtype, np.dtype):
            return native.to_numpy()
        import pyarrow

        try:
            array = pyarrow.array(native, from_pandas=True)
        except pyarrow.ArrowException:  # sparse
            return np.asarray(native)
        return np.asarray(native) if isinstance(array.type, pyarrow.BaseExtensionType) else array

    def missing(self) -> Array:
        """Tell of every row whether it has no value: null, None, NaN, NaT, pandas.NA or masked.

        Examples
        --------
        >>> Column(["a", None, float("nan")], "list").missing()
        array([False,  True,  True])
        """
        values = self.values
        if self.library == "list":
            return _missing_objects(values)
        if not isinstance(values, np.ndarray):
            pyarrow = libraries.get_pyarrow()
            if pyarrow.types.is_dictionary(values.type):  # which can hold a null itself
                parts = [
                    part.dictionary.is_null(nan_is_null=True).take(part.indices)
                    for part in getattr(values, "chunks", [values])
                ]
                values = pyarrow.chunked_array(parts, pyarrow.bool_()).fill_null(True)
                return np.asarray(values, dtype=bool)
            return np.asarray(values.is_null(nan_is_null=True), dtype=bool)
        mask, array = np.zeros(len(values), dtype=bool), np.asarray(values)
        if isinstance(values, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(values)
        if array.dtype.kind in "fmM":
            return np.asarray(mask | (array != array))
        return np.asarray(mask | _missing_objects(array)) if array.dtype.kind in "OT" else mask

    def take(self, rows: Array) -> Column:
        """Return some rows of a column of pandas, polars or pyarrow, by number."""
        if self.library == "pandas":
            native = self.native.take(rows)
        elif self.library == "polars":
            native = self.native.gather(rows)
        else:  # pyarrow cannot take rows of a string view
            view = str(self.native.type) == "string_view"
            native = self.native.cast("string") if view else self.native
            native = native.take(libraries.get_pyarrow().array(rows))
        return replace(self, native=native)


@dataclass(frozen=True, eq=False)
class Frame:
    """Several columns.

    Attributes
    ----------
    native : object
        Kept because some libraries return the whole as one matrix without a copy.
    library : str
        "dict" for a dictionary of columns, "numpy" for an array.
    columns : tuple of Column
    labels : list or pandas Index, or None
        The names of the columns as they came; None for an array.
    """

    native: Any
    library: str
    columns: tuple[Column, ...]
    labels: Any = None

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def index(self) -> Any | None:
        """The row labels that its pandas columns share, None without any."""
        return next((column.index for column in self.columns if column.index is not None), None)


def recognise(handed: Any, *, what: str) -> Column | Frame:
    """Tell what kind of table was handed in.

    Parameters
    ----------
    handed : object
        Array, list, Series, frame, dictionary of columns; from NumPy, pandas, polars, pyarrow or
        narwhals.
    what : str
        How the argument is called in an error, such as ``"y"``.

    Raises
    ------
    ShapeError, EmptyError, LengthError, ParameterError, RowLabelError, InputError

    Examples
    --------
    >>> recognise([0, 1, 1], what="y").library
    'list'
    >>> recognise({"no": [0.5], "yes": [0.5]}, what="y").labels
    ['no', 'yes']
    """
    native = nw.to_native(handed, pass_through=True)
    found: Column | Frame | None
    if isinstance(native, Mapping):
        found = _of_mapping(native, what=what)
    else:
        # NumPy arrays are the usual case, and asking every library takes time
        found = None if type(native) is np.ndarray else _of_library(native, what=what)
        found = _of_array(native, what=what) if found is None else found
    for length, kind in ((len(found.columns), "column"), (found.columns and len(found), "row")):
        if not length:
            remedy = f"Pass a table with at least one {kind}."
            raise argument_error(what, f"has no {kind}s", remedy, EmptyError)
    wrapped = libraries.is_narwhals_series(handed)
    return replace(found, wrapped=True) if wrapped and isinstance(found, Column) else found


def column_of(handed: Any, *, what: str) -> Column:
    """Recognise a single column; a matrix or frame of one column is one."""
    columns = recognise(handed, what=what).columns
    if len(columns) > 1:
        found, remedy = f"has {len(columns)} columns", "Pass one value per row."
        raise argument_error(what, found, remedy, n_columns=len(columns))
    return columns[0]


def argument_error(
    what: str, found: str, remedy: str, kind: type[InputError] = ShapeError, **facts: Any
) -> InputError:
    """Build the error for an argument that cannot be used as it is."""
    return kind(f"`{what}` {found}.", remedy=remedy, argument=what, **facts)


def _of_library(native: Any, *, what: str) -> Column | Frame | None:
    pandas, arrow = libraries.get_pandas(), libraries.get_pyarrow()
    named = native.columns if libraries.is_pandas_dataframe(native) else native
    if libraries.is_pandas_index(named) and named.nlevels > 1:
        found = f"has {named.nlevels} levels of names"
        remedy = "Flatten the names to one level; of an index pass `index.to_frame(index=False)`."
        raise argument_error(what, found, remedy, levels=named.nlevels)
    if pandas is not None and isinstance(
        native, (pandas.Index, pandas.api.extensions.ExtensionArray)
    ):
        name = _name(getattr(native, "name", None))
        return Column(pandas.Series(native), "pandas", name, labelled=False)
    if arrow is not None and isinstance(native, (arrow.Array, arrow.ChunkedArray)):
        return Column(native, "pyarrow")
    # Frames with two columns of one name, which narwhals refuses in words of its own.
    if libraries.is_pandas_dataframe(native):
        # An index of times holds Timestamps, for which NumPy has no dtype.
        typed = getattr(native.columns.dtype, "kind", "O") in "iufbmM"
        labels = native.columns if typed else native.columns.tolist()
        columns = [native.iloc[:, j] for j in range(native.shape[1])]
        return _frame(native, "pandas", columns, labels, what=what)
    if arrow is not None and isinstance(native, (arrow.Table, arrow.RecordBatch)):
        return _frame(native, "pyarrow", native.columns, native.column_names, what=what)
    known: Any = nw.from_native(native, pass_through=True, allow_series=True)
    if isinstance(known, nw.LazyFrame):
        found = f"is a lazy table of type {type(native).__name__}, whose rows are not in memory"
        raise argument_error(what, found, "Collect it first, for example with .collect().")
    if not isinstance(known, (nw.Series, nw.DataFrame)):
        return None
    library = known.implementation.value
    if library not in ("pandas", "polars"):
        return _of_library(known.to_pandas(), what=what)
    if isinstance(known, nw.Series):
        return Column(native, library, _name(native.name))
    return _frame(native, library, native.get_columns(), native.columns, what=what)


def _name(label: Any) -> str:
    return "" if label is None else str(label)


def _of_mapping(native: Mapping[Any, Any], *, what: str) -> Frame:
    places = [f"{what}[{name!r}]" for name in native]
    made = tuple(
        replace(column_of(native[name], what=place), name=_name(name))
        for name, place in zip(native, places, strict=True)
    )
    refuse_twice([column.name for column in made], what=what)  # 1 and "1" are one name
    refuse_other_rows(
        *((place, len(each), each.index) for place, each in zip(places, made, strict=True))
    )
    return Frame(native, "dict", made, list(native))


def _frame(native: Any, library: str, columns: list[Any], labels: Any, *, what: str) -> Frame:
    names = [_name(label) for label in labels]
    refuse_twice(names, what=what)
    made = (Column(each, library, name) for each, name in zip(columns, names, strict=True))
    return Frame(native, library, tuple(made), labels)


def refuse_twice(names: list[str], *, what: str) -> None:
    """Raise where two columns of an argument have the same name.

    Examples
    --------
    >>> refuse_twice(["sex", "race"], what="sensitive_features")
    """
    twice = repeated(names)
    if twice is not None:
        found = f"has {names.count(twice)} columns named {twice!r}"
        raise argument_error(what, found, "Give every column a name of its own.", column=twice)


def _of_array(native: Any, *, what: str) -> Column | Frame:
    if hasattr(native, "toarray"):
        remedy = "Pass a dense one, for example with .toarray()."
        raise argument_error(what, "is a sparse matrix", remedy)
    if isinstance(native, (list, tuple, range)):
        return _of_list(native, what=what)
    if not (hasattr(native, "__array__") or hasattr(native, "__array_interface__")):
        kind = type(native).__name__
        remedy = "Pass an array, a list, a Series, a frame or a dictionary of columns."
        found = f"is of type {kind}, which is not a column or a table"
        raise argument_error(what, found, remedy, type=kind)
    array = native if isinstance(native, np.ma.MaskedArray) else np.asarray(native)
    if array.ndim not in (1, 2):
        remedy = "Pass one dimension (one value per row) or two (rows by columns)."
        found = f"has {array.ndim} dimensions, of shape {array.shape}"
        raise argument_error(what, found, remedy, shape=array.shape)
    if array.ndim == 1:
        return Column(array, "numpy")
    return Frame(array, "numpy", tuple(Column(column, "numpy") for column in array.T))


def _of_list(rows: Any, *, what: str) -> Column | Frame:
    # the number of values in each row, None for a row that is a single value
    lengths = [
        len(row)
        if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim > 0)
        else None
        for row in rows
    ]
    odd = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if odd is not None:
        problem = f"In `{what}`, row {odd} has another number of values than row 0."
        remedy = "Give every row the same number of values."
        raise ShapeError(problem, remedy=remedy, argument=what, row=odd)
    if not rows:
        return Column(rows, "list")
    if lengths[0] is not None:
        return _of_array(_typed_matrix(rows), what=what)
    if _of_library(rows[0], what=what) is not None:
        remedy = 'Pass a dictionary such as {"sex": column, "race": column}.'
        raise argument_error(what, "is a list of columns, which have no names", remedy)
    return Column(rows, "list")


def _typed_matrix(rows: Any) -> Array:
    # NumPy would turn [1, "a"] into text: only numbers are converted.
    plain = np.array(rows, dtype=object)
    kinds = {type(value) for value in plain.ravel()} if plain.ndim == 2 else set()
    numeric = all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds)
    return np.array(rows) if numeric and kinds else plain
