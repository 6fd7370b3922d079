"""What was handed in: a column, a frame or a matrix, told apart without importing any library that is not already there.

Nothing is converted or checked here beyond the number of dimensions; the memory stays the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array, as_objects
from r2b._data.libraries import family_of, index_values, missing_rows, take
from r2b._data.values import listed
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    ParameterError,
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
        problem = f"The argument {what} has {n_rows} rows, but {other} has {n_other}."
        remedy = "Pass the same rows in both; name several attributes in a dictionary of columns."
        raise LengthError(problem, remedy=remedy, lengths={what: n_rows, other: n_other})


def refuse_other_choice(
    parameter: str, value: Any, options: Sequence[str], remedy: str = ""
) -> None:
    """Raise where a parameter is not one of the options.

    Examples
    --------
    >>> refuse_other_choice("missing", "group", ("error", "group"))
    """
    if not isinstance(value, str) or value not in options:
        problem = f"The parameter {parameter} is {value!r}, which is not one of {listed(options)}."
        raise ParameterError(
            problem,
            remedy=remedy or f"Pass one of {listed(options)}.",
            parameter=parameter,
            value=value,
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
        return next(
            (index for column in native.values() if (index := row_labels(column)) is not None), None
        )
    return (
        native.index
        if libraries.is_pandas_dataframe(native) or libraries.is_pandas_series(native)
        else None
    )


def refuse_other_index(*arguments: tuple[str, Any | None]) -> Any | None:
    """Raise where two pandas arguments do not have the same row labels in the same order: by position and by label would then differ.

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


def refuse_other_rows(*arguments: tuple[str, int, Any | None]) -> Any | None:
    """Raise where arguments, named with their numbers of rows and their indexes, describe other rows; give the index that all share."""
    for other, n_rows, _ in arguments[1:]:
        refuse_lengths(arguments[0][0], arguments[0][1], other, n_rows)
    return refuse_other_index(*((what, index) for what, _, index in arguments))


def _disagreement(what: str, index: Any, other: str, theirs: Any) -> RowLabelError:
    ours, others = index.tolist(), theirs.tolist()
    row = next(
        (row for row, pair in enumerate(zip(ours, others, strict=True)) if _differ(*pair)), 0
    )
    known = theirs.isin(index)
    foreign = int((~known).sum())
    by_position = f"if the rows already correspond, pass {other} with .to_numpy() to go by position"
    if foreign == len(theirs):
        found, remedy = (
            "have no row label in common",
            f"Give them one index: {other}.index = {what}.index; or, {by_position}.",
        )
    else:
        same = not foreign and bool(index.isin(theirs).all())
        found = (
            "have the same row labels in a different order"
            if same
            else f"differ in their row labels ({foreign} of {len(theirs)})"
        )
        remedy = (
            f"Bring them in one order with {other} = {other}.loc[{what}.index]; or, {by_position}."
        )
        if foreign:
            remedy = f"Take .loc[{what}.index.intersection({other}.index)] of both, the rows that they share; or, {by_position}."
        if index.has_duplicates or theirs.has_duplicates:
            remedy = f"Some labels occur twice, so that only you know which rows belong together: {by_position}."
    problem = f"The arguments {what} and {other} {found}; at row {row} they are {ours[row]!r} and {others[row]!r}."
    facts: dict[str, Any] = {
        "row": row,
        "row_labels": (ours[row], others[row]),
        "arguments": (what, other),
        "n_foreign": foreign,
    }
    return RowLabelError(problem, remedy=remedy, **facts)


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

    def missing(self) -> Array:
        """Say of every row whether it has no value."""
        return missing_rows(self.native, self.library)

    def take(self, rows: Array) -> Column:
        """Give some rows, by number."""
        return replace(self, native=take(self.native, self.library, rows))


@dataclass(frozen=True, eq=False)
class Frame:
    """Several named columns; ``native`` is kept because some libraries can give the whole as one matrix without a copy."""

    native: Any
    library: str
    columns: tuple[Column, ...]
    # (n_columns,), of the type that they have in the frame; objects where they are of several
    names: Array

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

    index = None  # an array has no row labels

    def __len__(self) -> int:
        return len(self.array)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns as views, unnamed."""
        return tuple(Column(self.array[:, j], "numpy") for j in range(self.array.shape[1]))


def recognise(handed: Any, *, what: str) -> Column | Frame | Matrix:
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
    >>> recognise({"no": [0.5], "yes": [0.5]}, what="y").names
    array(['no', 'yes'], dtype='<U3')
    """
    wrapped = libraries.is_narwhals_series(handed)
    native = nw.to_native(handed, pass_through=True)
    # Asking every library whether an array is one of its own costs a small problem a tenth of its
    # time.
    found: Column | Frame | Matrix | None = (
        None if type(native) is np.ndarray else _of_library(native, what=what)
    )
    if found is None:
        found = (
            _of_mapping(native, what=what)
            if isinstance(native, Mapping)
            else _of_array(native, what=what)
        )
    if isinstance(found, (Frame, Matrix)) and not found.columns:
        raise argument_error(
            what, "has no columns", "Pass a table with at least one column.", EmptyError
        )
    if len(found) == 0:
        raise argument_error(what, "has no rows", "Pass at least one row.", EmptyError)
    return replace(found, wrapped=True) if wrapped and isinstance(found, Column) else found


def column_of(handed: Any, *, what: str) -> Column:
    """Recognise a single column; a matrix or frame of one column is one."""
    found = recognise(handed, what=what)
    if isinstance(found, Column):
        return found
    if len(found.columns) > 1:
        raise argument_error(
            what,
            f"has {len(found.columns)} columns",
            "Pass one value per row.",
            n_columns=len(found.columns),
        )
    return found.columns[0]


def argument_error(
    what: str, found: str, remedy: str, kind: type[InputError] = ShapeError, **facts: Any
) -> InputError:
    """Build the error for an argument that cannot be used as it is."""
    return kind(f"The argument {what} {found}.", remedy=remedy, argument=what, **facts)


def _of_library(native: Any, *, what: str) -> Column | Frame | None:
    pandas, arrow = libraries.get_pandas(), libraries.get_pyarrow()
    if pandas is not None and isinstance(native, pandas.MultiIndex):
        remedy = "Pass a frame with one column per level: index.to_frame(index=False)."
        raise argument_error(
            what,
            f"is an index of {native.nlevels} levels, not a column",
            remedy,
            levels=native.nlevels,
        )
    if pandas is not None and (
        libraries.is_pandas_index(native)
        or isinstance(native, pandas.api.extensions.ExtensionArray)
    ):
        return Column(
            pandas.Series(native), "pandas", _name(getattr(native, "name", None)), labelled=False
        )
    if libraries.is_pandas_series(native):
        return Column(native, "pandas", _name(native.name))
    if libraries.is_polars_series(native):
        return Column(native, "polars", _name(native.name))
    if arrow is not None and isinstance(native, (arrow.Array, arrow.ChunkedArray)):
        # pyarrow cannot yet take rows from a view on text, so it becomes plain text and leaves as
        # such.
        return Column(
            native.cast("string") if str(native.type) == "string_view" else native, "pyarrow"
        )
    if arrow is not None and isinstance(native, arrow.RecordBatch):
        native = arrow.Table.from_batches([native])
    if libraries.is_pandas_dataframe(native):
        return _of_pandas_frame(native, what=what)
    if libraries.is_polars_dataframe(native):
        return _frame(native, "polars", native.get_columns(), native.columns, what=what)
    if libraries.is_pyarrow_table(native):
        return _frame(native, "pyarrow", native.columns, native.column_names, what=what)
    # What narwhals knows beyond the three libraries: modin, cuDF; lazy tables are refused.
    known: Any = nw.from_native(native, pass_through=True, allow_series=True)
    if isinstance(known, nw.LazyFrame):
        found = f"is a lazy table of type {type(native).__name__}, whose rows are not in memory"
        raise argument_error(what, found, "Collect it first, for example with .collect().")
    if isinstance(known, nw.Series):
        return Column(known.to_numpy(), "numpy", _name(known.name))
    return (
        _of_pandas_frame(known.to_pandas(), what=what) if isinstance(known, nw.DataFrame) else None
    )


def _name(label: Any) -> str:
    return "" if label is None else str(label)


def _of_pandas_frame(native: Any, *, what: str) -> Frame:
    if native.columns.nlevels > 1:
        raise argument_error(
            what,
            f"has column names of {native.columns.nlevels} levels",
            "Flatten the names to one level.",
        )
    columns = [native.iloc[:, j] for j in range(native.shape[1])]
    found = _frame(native, "pandas", columns, native.columns.tolist(), what=what)
    # An index of moments gives Timestamps, which NumPy has no dtype for.
    typed = getattr(native.columns.dtype, "kind", "O") in "iufbmM"
    return replace(found, names=index_values(native.columns)) if typed else found


def _of_mapping(native: Mapping[Any, Any], *, what: str) -> Frame:
    refuse_twice([_name(name) for name in native], what=what)  # 1 and "1" are two keys and one name
    columns: list[Column] = []
    for name, handed in native.items():
        found = recognise(handed, what=f"{what}[{name!r}]")
        column = found if isinstance(found, Column) else found.columns[0]
        if not isinstance(found, Column) and len(found.columns) > 1:
            problem = f"Column {name!r} of {what} has more than one dimension."
            raise ShapeError(
                problem,
                remedy="Give the dictionary one column per name.",
                argument=what,
                column=name,
            )
        columns.append(replace(column, name=_name(name)))
        if len(column) != len(columns[0]):
            problem = f"In {what}, column {next(iter(native))!r} has {len(columns[0])} rows and column {name!r} has {len(column)}."
            raise LengthError(
                problem,
                remedy="Give all columns the same rows.",
                argument=what,
                lengths=(len(columns[0]), len(column)),
            )
    refuse_other_index(
        *((f"{what}[{name!r}]", column.index) for name, column in zip(native, columns, strict=True))
    )
    return Frame(native, "dict", tuple(columns), _labels(list(native)))


def _frame(native: Any, library: str, columns: list[Any], names: list[Any], *, what: str) -> Frame:
    written = [_name(name) for name in names]
    refuse_twice(written, what=what)
    return Frame(
        native,
        library,
        tuple(Column(c, library, n) for c, n in zip(columns, written, strict=True)),
        _labels(names),
    )


def refuse_twice(names: list[str], *, what: str) -> None:
    """Raise where two columns of an argument have the same name.

    Examples
    --------
    >>> refuse_twice(["sex", "race"], what="sensitive_features")
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        found = f"has {names.count(twice)} columns named {twice!r}"
        raise argument_error(what, found, "Give every column a name of its own.", column=twice)


def _labels(names: list[Any]) -> Array:
    families = {family_of(type(name)) for name in names}
    if families == {"str"}:
        return np.array([str(name) for name in names], dtype=np.str_)
    if len(families) == 1 and families <= {"int", "float", "bool"}:
        array = np.array(names)
        if array.dtype.kind in "iufb":  # NumPy makes objects of integers that are too large
            return array
    return as_objects(names)


def _of_array(native: Any, *, what: str) -> Column | Matrix:
    if hasattr(native, "toarray"):
        raise argument_error(
            what, "is a sparse matrix", "Pass a dense one, for example with .toarray()."
        )
    if isinstance(native, (list, tuple, range)):
        return _of_list(native, what=what)
    if isinstance(native, (str, bytes, set, frozenset)) or not (
        hasattr(native, "__array__") or hasattr(native, "__array_interface__")
    ):
        kind = type(native).__name__
        remedy = "Pass an array, a list, a Series, a frame or a dictionary of columns."
        raise argument_error(
            what, f"is of type {kind}, which is not a column or a table", remedy, type=kind
        )
    array = np.asanyarray(native)
    return _of_dimensions(array.A if isinstance(array, np.matrix) else array, "numpy", what=what)


def _of_dimensions(array: Array, library: str, *, what: str) -> Column | Matrix:
    if array.dtype.names is not None:
        raise argument_error(what, "is a structured array", "Pass a dictionary of its columns.")
    if array.ndim not in (1, 2):
        remedy = "Pass one dimension (one value per row) or two (rows by columns)."
        raise argument_error(
            what, f"has {array.ndim} dimensions, of shape {array.shape}", remedy, shape=array.shape
        )
    return Column(array, library) if array.ndim == 1 else Matrix(array)


def _of_list(rows: Any, *, what: str) -> Column | Matrix:
    nested = [
        isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim > 0)
        for row in rows
    ]
    if not any(nested):
        if rows and _of_library(rows[0], what=what) is not None:
            remedy = 'Pass a dictionary such as {"sex": column, "race": column}.'
            raise argument_error(what, "is a list of columns, which have no names", remedy)
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
    raise ShapeError(
        problem, remedy="Give every row the same number of values.", argument=what, row=odd
    )


def _typed_matrix(rows: Any) -> Array:
    # NumPy would silently turn [1, "a"] into text; numbers only are converted, all else stays as
    # the objects it was.
    plain = np.array(rows, dtype=object)
    kinds = {type(value) for value in plain.ravel()} if plain.ndim == 2 else set()
    numeric = all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds)
    return np.array(rows) if numeric and kinds else plain
