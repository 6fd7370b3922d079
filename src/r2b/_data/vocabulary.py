"""The values of one column, in order, and how to give them back in the form they came in."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import (
    BLOCK_ROWS,
    Array,
    as_objects,
    compact_integers,
    encode_text,
    first_and_count,
    first_rows,
    frozen,
    plain_value,
    smallest_unsigned,
)
from r2b._data.columns import (
    Column,
    column_of,
    index_values,
    make_column,
    missing_objects,
    take,
    values_of,
)
from r2b._data.values import (
    ALWAYS_THERE,
    family_of,
    from_plain,
    key_of,
    listed,
    stored_as,
    to_plain,
    type_word,
)
from r2b.errors import (
    InputError,
    MissingValueError,
    MixedTypeError,
    UnseenError,
    row_number,
    this_part,
)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The distinct values of one column.

    Attributes
    ----------
    values : ndarray of shape (n,)
        The values, in order, with the dtype they came in.
    native : object
        The same values as a column of the library that they came from, or None where that is NumPy.
    library : str
    wrapped : bool
        Whether columns are returned as a narwhals Series.
    index : object
        The row labels of the pandas Series that was read, put back on columns of the same length.
    has_missing : bool
        Whether rows without a value have a code of their own: ``len(values)``, the last.

    Examples
    --------
    >>> vocabulary = Vocabulary(np.array(["no", "yes"]))
    >>> vocabulary.encode(["yes", "no"], what="y")
    array([1, 0], dtype=uint8)
    >>> vocabulary.decode(np.array([1, 1, 0]))
    array(['yes', 'yes', 'no'], dtype='<U3')
    """

    values: Array
    native: Any = None
    library: str = "numpy"
    wrapped: bool = False
    index: Any = None
    has_missing: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        missing = ", has_missing=True" if self.has_missing else ""
        return f"Vocabulary({self.values.tolist()!r}{missing})"

    @property
    def n_codes(self) -> int:
        """The number of codes: the values, and one more where missing rows have theirs."""
        return len(self.values) + self.has_missing

    @property
    def missing_code(self) -> int | None:
        """The code of rows without a value, None where they are refused."""
        return len(self.values) if self.has_missing else None

    @cached_property
    def _places(self) -> dict[object, int]:
        return {key_of(value): code for code, value in enumerate(self.values)}

    def encode(self, column: Any, *, what: str) -> Array:
        """Return the codes of new rows.

        Parameters
        ----------
        column : array-like of shape (N,), or a Column
        what : str
            How the column is called in an error.

        Raises
        ------
        UnseenError
            A value is not in the vocabulary.
        MissingValueError
            A row has no value, and the vocabulary has no code for it.
        """
        column = column if isinstance(column, Column) else column_of(column, what=what)
        codes, values, gaps = _codes(column, what=what, keep_missing=self.has_missing)
        known = np.array(
            [self._places.get(key_of(value), -1) for value in values] + [len(self)] * gaps
        )
        if (known < 0).any():
            row, count = first_and_count((known < 0)[codes])
            raise self._unseen(values[codes[row]], row, count, what)
        dtype = smallest_unsigned(self.n_codes)
        if np.array_equal(known, np.arange(len(known))):
            return codes.astype(dtype, copy=False)
        return known.astype(dtype)[codes]

    def _unseen(self, found: Any, row: int, count: int, what: str) -> UnseenError:
        value, word, row = plain_value(found), type_word(found), row_number(row)
        known = [plain_value(each) for each in self.values]
        words = {type_word(each) for each in self.values}
        problem, hint = f"Row {row} of {what} holds {value!r}", ""
        if word not in words:  # '0' is not 0, however alike they are written
            other = min(words)
            problem += (
                f" ({word}), but the known values are of another type: {listed(known)} ({other})."
            )
            hint = f"Convert the column to {other}, for example with astype. "
        else:
            problem += f", which is not among the known values {listed(known)}."
            if close := difflib.get_close_matches(str(value), map(str, known), n=1):
                hint = f"Did you mean {close[0]!r}? "
        remedy = (
            f"{hint}Correct or drop such rows ({count} in {this_part('all')}), or fit again on "
            "data that has them."
        )
        facts: dict[str, Any] = {"column": what, "row": row, "value": value, "count": count}
        facts |= {"known": known, "type": word, "known_type": min(words)}
        return UnseenError(problem, remedy=remedy, **facts)

    def decode(self, codes: Array) -> Any:
        """Return the values of codes, as a column of the library and dtype that was read.

        Parameters
        ----------
        codes : ndarray of integers, of shape (M,)

        Returns
        -------
        ndarray, pandas.Series, polars.Series, pyarrow.Array or pyarrow.ChunkedArray
            A list that was read is returned as an ndarray. A pandas Series has the index of the
            rows that were read where M is their number.
        """
        codes = np.asarray(codes)
        codes = codes if codes.size else codes.astype(np.intp)  # an empty list has no integer dtype
        if self.native is None:
            return self._with_gap[codes]
        column = take(self.native, self.library, codes)
        if self.library == "pandas":
            same_rows = self.index is not None and len(self.index) == len(codes)
            column = column.set_axis(self.index) if same_rows else column.reset_index(drop=True)
        return nw.from_native(column, series_only=True) if self.wrapped else column

    @cached_property
    def _with_gap(self) -> Array:
        """The values in the order of the codes, with what stands for a missing one."""
        kind = self.values.dtype.kind
        if not self.has_missing:
            return self.values
        if kind in "fmM":
            return np.append(
                self.values, np.array(np.nan if kind == "f" else "NaT", self.values.dtype)
            )
        return np.append(self.values.astype(object), np.array([None], dtype=object))

    def like(self, column: Column) -> Vocabulary:
        """Return the same values, decoding to the library and the row labels of another column."""
        library = column.library
        if library in ("numpy", "list"):
            return Vocabulary(self.values, has_missing=self.has_missing)
        kind = "type" if library == "pyarrow" else "dtype"
        native = self.native
        if self.library != library or getattr(native, kind) != getattr(column.native, kind):
            native = make_column(self._with_gap, library, column.name)
        elif library != "pyarrow":
            native = getattr(native, "rename" if library == "pandas" else "alias")(
                column.native.name
            )
        return replace(
            self, native=native, library=library, wrapped=column.wrapped, index=column.index
        )

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as a dictionary of plain values that JSON can hold.

        Examples
        --------
        >>> Vocabulary(np.array([0, 2], dtype=np.int8)).to_json()
        {'dtype': '|i1', 'type': 'number', 'values': [0, 2]}
        """
        return to_plain(self.values) | ({"has_missing": True} if self.has_missing else {})

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Vocabulary:
        """Restore a vocabulary; it encodes as before and decodes to NumPy arrays.

        Examples
        --------
        >>> Vocabulary.from_json({"dtype": "|i1", "type": "number", "values": [0, 2]}).values
        array([0, 2], dtype=int8)
        """
        has_missing = stored.get("has_missing", False)
        with stored_as("values"):
            if not isinstance(has_missing, bool):
                raise TypeError(f"has_missing is {has_missing!r}")
            made = cls(from_plain(stored), has_missing=has_missing)
            if len(made._places) < len(made):
                raise ValueError("a value is there twice")
        return made


def read_vocabulary(
    column: Column, *, what: str, keep_missing: bool = False
) -> tuple[Array, Vocabulary]:
    """Return the codes of a column and its vocabulary.

    Parameters
    ----------
    column : Column
    what : str
        How the column is called in an error.
    keep_missing : bool, default False
        Give rows without a value the last code instead of refusing them.

    Examples
    --------
    >>> read_vocabulary(Column(["b", None, "a"], "list"), what="sex", keep_missing=True)
    (array([1, 2, 0], dtype=uint8), Vocabulary(['a', 'b'], has_missing=True))
    """
    codes, values, has_missing = _codes(column, what=what, keep_missing=keep_missing)
    if not len(values):
        refuse_all_missing(codes == 0, what)
    if column.library in ("numpy", "list"):
        return codes, Vocabulary(values, has_missing=has_missing)
    native = take(column.native, column.library, first_rows(codes, len(values) + has_missing))
    facts = column.library, column.wrapped, column.index, has_missing
    return codes, Vocabulary(values, native, *facts)


def _codes(column: Column, *, what: str, keep_missing: bool) -> tuple[Array, Array, bool]:
    """Return codes, distinct values, and whether rows without a value have the last code."""
    missing = column.missing() if keep_missing else np.zeros(1, dtype=bool)
    if not missing.any():
        return *factorize(column, what=what), False
    rows = np.flatnonzero(~missing)
    codes, values = np.zeros(0, np.uint8), np.zeros(0)
    if len(rows):
        try:
            codes, values = factorize(column.take(rows), what=what)
        except MixedTypeError as error:  # names rows of those that were taken
            facts: dict[str, Any] = error.facts
            pair = [int(rows[row]) for row in facts["rows"]]
            raise _mixed_error(what, pair, facts["values"], facts["types"]) from None
    return with_missing(codes, missing, len(values)), values, True


def with_missing(codes: Array, missing: Array, n_values: int) -> Array:
    """Spread the codes of rows with a value over all rows; others get ``n_values``.

    Examples
    --------
    >>> with_missing(np.array([1, 0]), np.array([False, True, False]), 2)
    array([1, 2, 0], dtype=uint8)
    """
    spread = np.full(len(missing), n_values, dtype=smallest_unsigned(n_values + 1))
    spread[~missing] = codes
    return spread


def refuse_all_missing(missing: Array, what: str) -> None:
    """Raise where no row has a value."""
    if missing.all():
        refuse_missing(missing, what, "Leave this column out, or check that it is the right one.")


def factorize(column: Column, *, what: str) -> tuple[Array, Array]:
    """Return the code of every row and the distinct values that occur.

    Codes are in ascending order of the values, or in the order of the categories where the column
    declares one: pandas categoricals, polars enums, ordered pyarrow dictionaries. Values are
    compared within one type only: ``1``, ``1.0`` and ``True`` are equal to Python and never the
    same class here.

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
    native = column.native
    if column.library == "list":
        return _of_list(native, what)
    if column.library == "pandas" and isinstance(
        native.dtype, libraries.get_pandas().CategoricalDtype
    ):
        return _of_categories(native, what)
    values = values_of(native, column.library)
    return of_numpy(values, what) if isinstance(values, np.ndarray) else _of_arrow(values, what)


def _of_categories(series: Any, what: str) -> tuple[Array, Array]:
    codes = series.cat.codes.to_numpy()
    refuse_missing(codes < 0, what)
    codes, present = compact_integers(codes)
    values = index_values(series.dtype.categories.take(present))
    if len({family_of(type(value)) for value in values}) > 1:
        # for an error that names rows, not categories
        uniform_family(np.asarray(series, dtype=object), what=what)
    return codes, values


def _of_arrow(array: Any, what: str) -> tuple[Array, Array]:
    arrow = libraries.get_pyarrow()
    if array.null_count:
        refuse_missing(np.asarray(array.is_null()), what)
    if arrow.types.is_nested(array.type):
        raise name_error(what, f"are of the nested type {array.type}", type=str(array.type))
    if arrow.types.is_string(array.type) or arrow.types.is_large_string(array.type):
        array = array.dictionary_encode()
    if not arrow.types.is_dictionary(array.type):
        return of_numpy(np.asarray(array), what)
    if isinstance(array, arrow.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    codes, values = np.asarray(array.indices), np.asarray(array.dictionary)
    unknown = np.asarray(array.dictionary.is_null(nan_is_null=True))
    if unknown.any():
        refuse_missing(unknown[codes], what)
    codes, present = compact_integers(codes)
    values = values[present]
    return (codes, values) if array.type.ordered else _ordered(codes, values, what)


def _ordered(codes: Array, values: Array, what: str) -> tuple[Array, Array]:
    """Put values, of which some may be equal, in ascending order."""
    rank, distinct, _ = encode_objects(values, what=what)
    return rank[codes], as_objects(distinct).astype(values.dtype)


def of_numpy(array: Array, what: str) -> tuple[Array, Array]:
    """Factorize a one-dimensional NumPy array of any dtype."""
    if isinstance(array, np.ma.MaskedArray):
        refuse_missing(np.ma.getmaskarray(array), what)
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
        refuse_missing(np.isnat(array), what)
        codes, present = compact_integers(array.view(array.dtype.str[0] + "i8"))
        return codes, present.view(array.dtype)
    if kind in "US":
        return encode_text(array)
    if kind in "OUST":
        codes, distinct, _ = encode_objects(array, what=what)
        return codes, as_objects(distinct) if kind == "O" else np.array(distinct, dtype=array.dtype)
    raise name_error(what, f"have the dtype {array.dtype}", dtype=str(array.dtype))


def _of_floats(array: Array, what: str) -> tuple[Array, Array]:
    low, high = float(array.min()), float(array.max())
    if np.isnan(low):  # NaN spreads through min, so that the mask is only built when there is one
        refuse_missing(np.isnan(array), what)
    if abs(low) < 2**30 and high - low < BLOCK_ROWS:
        whole = array.astype(np.int32)
        # classes that became floats on the way, the usual case: no sorting needed
        if np.array_equal(whole, array):
            codes, present = compact_integers(whole)
            return codes, present.astype(array.dtype)
    values, inverse = np.unique(array, return_inverse=True)
    return inverse.astype(smallest_unsigned(len(values)), copy=False), values


_DTYPE_KINDS = {
    "str": "U",
    "bool": "b",
    "int": "iu",
    "float": "f",
    "datetime": "M",
    "timedelta": "m",
}


def _of_list(rows: Any, what: str) -> tuple[Array, Array]:
    codes, distinct, family = encode_objects(rows, what=what)
    # NumPy drops zeros at the end of text, which would make two classes of one name.
    if family in _DTYPE_KINDS and not (family == "str" and any(v.endswith("\0") for v in distinct)):
        typed = np.array(distinct)
        # NumPy makes floats or objects of integers that are too large, and of Python's dates
        if typed.dtype.kind in _DTYPE_KINDS[family]:
            return codes, typed
    return codes, as_objects(distinct)


_FILL = 'Drop these rows, or fill them with a category of your own such as "unknown".'


def refuse_missing(mask: Array, what: str, remedy: str = _FILL) -> None:
    """Raise where rows have no value."""
    row, count = first_and_count(mask)
    if count:
        row = row_number(row)
        rows = "1 row has" if count == 1 else f"{count} of {len(mask)} rows have"
        problem = f"In `{what}`, {rows} no value; the first is row {row}."
        raise MissingValueError(
            problem, remedy=remedy, column=what, row=row, count=count, n_rows=len(mask)
        )


def encode_objects(values: Sequence[Any] | Array, *, what: str) -> tuple[Array, list[Any], str]:
    """Return codes, sorted distinct values and the family of a column of Python objects.

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
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        distinct = set(plain)
    except TypeError as error:  # lists or dictionaries in the cells
        raise name_error(what, f"are of type {family}", type=family) from error
    try:
        ordered = sorted(distinct)
    except TypeError:  # values without an order of their own, such as members of an Enum
        ordered = sorted(distinct, key=str)
    place = {value: code for code, value in enumerate(ordered)}
    dtype = smallest_unsigned(len(ordered))
    codes = np.fromiter(map(place.__getitem__, plain), dtype=dtype, count=len(plain))
    scalars = (np.str_, np.number, np.bool_)
    return codes, [v.item() if isinstance(v, scalars) else v for v in ordered], family


def name_error(what: str, found: str, **facts: Any) -> InputError:
    """Build the error for values that cannot name a class or group."""
    return InputError(
        f"The values of `{what}` {found}, which cannot name a class or group.",
        remedy="Pass one plain value per row: text, whole number, true/false or date.",
        column=what,
        **facts,
    )


def uniform_family(values: Sequence[Any] | Array, *, what: str) -> str:
    """Return the one family of values in a column, or raise for missing or mixed values."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    families = {family_of(kind) for kind in set(map(type, plain))}
    if families - ALWAYS_THERE:
        refuse_missing(missing_objects(plain), what)
    if len(families) > 1:
        seen: dict[str, int] = {}
        for row, value in enumerate(plain):
            seen.setdefault(family_of(type(value)), row)
        pair = list(seen.values())[:2]
        raise _mixed_error(what, pair, [plain[row] for row in pair], list(seen)[:2])
    (family,) = families
    if family == "complex":
        raise name_error(what, "are complex numbers")
    return family


def _mixed_error(what: str, rows: Any, values: Any, types: Any) -> MixedTypeError:
    one, other = (f"row {rows[i]} holds {values[i]!r} ({types[i]})" for i in (0, 1))
    remedy = (
        "Convert the column to one type, for example with astype(str) or [str(v) for v in column]."
    )
    facts = {"rows": tuple(rows), "values": tuple(values), "types": tuple(types)}
    return MixedTypeError(f"In `{what}`, {one} and {other}.", remedy=remedy, column=what, **facts)
