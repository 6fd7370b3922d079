"""The values of one column, in order, and how to give them back in the form they came in."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import (
    BLOCK_ROWS,
    Array,
    as_objects,
    compact_integers,
    few_texts,
    first_and_count,
    first_rows,
    frozen,
    plain_value,
    smallest_unsigned,
)
from r2b._data.columns import Column, column_of, make_column
from r2b._data.values import (
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
    source : Column or None
        The same values as a column of the library that they came from; None where that is NumPy.
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
    source: Column | None = None
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
    def library(self) -> str:
        """The library that the values came from."""
        return "numpy" if self.source is None else self.source.library

    @property
    def n_codes(self) -> int:
        """The number of codes: the values, and one more where missing rows have theirs."""
        return len(self.values) + self.has_missing

    @property
    def missing_code(self) -> int | None:
        """The code of rows without a value, None where they are refused."""
        return len(self.values) if self.has_missing else None

    @property
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
        new = read_vocabulary(column, what=what, keep_missing=self.has_missing, known=True)
        return self.recode(*new, what=what)

    def recode(self, codes: Array, new: Vocabulary, *, what: str) -> Array:
        """Return the codes of rows that were read with a vocabulary of their own."""
        places_of = self._places
        known = [places_of.get(key_of(value), -1) for value in new.values]
        places = np.array(known + [len(self)] * new.has_missing)
        if -1 in known:
            row, count = first_and_count((places < 0)[codes])
            raise self._unseen(new.values[codes[row]], row, count, what)
        dtype = smallest_unsigned(self.n_codes)
        if np.array_equal(places, np.arange(len(places))):
            return codes.astype(dtype, copy=False)
        return places.astype(dtype)[codes]

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
        if self.source is None:
            return self._with_gap[codes]
        column = self.source.take(codes).native
        if self.library == "pandas":
            same_rows = self.index is not None and len(self.index) == len(codes)
            column = column.set_axis(self.index) if same_rows else column.reset_index(drop=True)
        return nw.from_native(column, series_only=True) if self.source.wrapped else column

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
        if column.library in ("numpy", "list"):
            return Vocabulary(self.values, has_missing=self.has_missing)
        kind = "type" if column.library == "pyarrow" else "dtype"
        native = None if self.source is None else self.source.native
        if self.library != column.library or getattr(native, kind) != getattr(column.native, kind):
            native = make_column(self._with_gap, column.library, column.name)
        elif column.library != "pyarrow":
            native = getattr(native, "rename" if column.library == "pandas" else "alias")(
                column.native.name
            )
        return replace(self, source=replace(column, native=native), index=column.index)

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
    column: Column, *, what: str, keep_missing: bool = False, known: bool = False
) -> tuple[Array, Vocabulary]:
    """Return the codes of a column and its vocabulary.

    Parameters
    ----------
    column : Column
    what : str
        How the column is called in an error.
    keep_missing : bool, default False
        Give rows without a value the last code instead of refusing them.
    known : bool, default False
        Whether these are new rows of a column that was fitted, which may all lack a value and are
        not decoded.

    Examples
    --------
    >>> read_vocabulary(Column(["b", None, "a"], "list"), what="sex", keep_missing=True)
    (array([1, 2, 0], dtype=uint8), Vocabulary(['a', 'b'], has_missing=True))
    """
    gaps = gaps_of(column, what=what, keep_missing=keep_missing, known=known)
    codes, values = factorize(column, gaps, what=what)
    has_missing, source = bool(gaps.any()), None
    if not known and column.library not in ("numpy", "list"):
        source = column.take(first_rows(codes, len(values) + has_missing))
    return codes, Vocabulary(values, source, column.index, has_missing)


def gaps_of(column: Column, *, what: str, keep_missing: bool, known: bool) -> Array:
    """Return which rows have no value, where these are not refused.

    Parameters
    ----------
    column : Column
    what : str
        How the column is called in an error.
    keep_missing : bool
        Whether rows may have no value.
    known : bool
        Whether these are new rows of a column that was fitted, which may all lack a value.
    """
    gaps = column.missing()
    if not keep_missing:
        refuse_missing(gaps, what)
    elif gaps.all() and not known:
        remedy = "Leave this column out, or check that it is the right one."
        refuse_missing(gaps, what, remedy)
    return gaps


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


def factorize(column: Column, gaps: Array, *, what: str) -> tuple[Array, Array]:
    """Return the code of every row and the distinct values that occur.

    Codes are in ascending order of the values, or in the order of the categories where the column
    declares one: pandas categoricals, polars enums, ordered pyarrow dictionaries. Values are
    compared within one type only: ``1``, ``1.0`` and ``True`` are equal to Python and never the
    same class here.

    Parameters
    ----------
    column : Column
        With at least one row.
    gaps : ndarray of shape (N,), bool
        Rows without a value, whose code is the number of values.
    what : str
        How the column is called in an error.

    Returns
    -------
    codes : ndarray of shape (N,)
        In the smallest unsigned dtype.
    values : ndarray of shape (n,)

    Raises
    ------
    MixedTypeError, InputError

    Examples
    --------
    >>> factorize(Column(["b", "a", "b"], "list"), np.zeros(3, bool), what="y")
    (array([1, 0, 1], dtype=uint8), array(['a', 'b'], dtype='<U1'))
    """
    if gaps.all():
        return np.zeros(len(gaps), np.uint8), np.zeros(0)
    some, native = bool(gaps.any()), column.native
    if column.library == "pandas" and isinstance(
        native.dtype, libraries.get_pandas().CategoricalDtype
    ):
        codes, values = _of_categories(native, gaps, what)
    else:
        array = column.values
        if column.library == "list":
            codes, values = _of_list(array, gaps, what)
        elif not isinstance(array, np.ndarray):
            codes, values = _of_arrow(array.filter(~gaps) if some else array, what)
        elif array.dtype.kind in "OT":
            codes, distinct = encode_objects(array, gaps, what=what)
            values = distinct.astype(array.dtype)
        else:
            codes, values = of_numpy(array[~gaps] if some else array, what)
    return (with_missing(codes, gaps, len(values)) if some else codes), values


def _of_categories(series: Any, gaps: Array, what: str) -> tuple[Array, Array]:
    codes, present = compact_integers(series.cat.codes.to_numpy()[~gaps])
    values = np.asarray(Column(series.dtype.categories.take(present), "pandas").values)
    if len({family_of(type(value)) for value in values}) > 1:
        # for an error that names rows, not categories
        encode_objects(np.asarray(series, dtype=object), gaps, what=what)
    return codes, values


def _of_arrow(array: Any, what: str) -> tuple[Array, Array]:
    arrow = libraries.get_pyarrow()
    if arrow.types.is_nested(array.type):
        raise name_error(what, f"are of the nested type {array.type}", type=str(array.type))
    if array.type in (arrow.string(), arrow.large_string(), arrow.large_binary()):
        array = array.dictionary_encode()
    if not arrow.types.is_dictionary(array.type):
        return of_numpy(np.asarray(array), what)
    if isinstance(array, arrow.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    codes, present = compact_integers(np.asarray(array.indices))
    values = np.asarray(array.dictionary)[present]
    if array.type.ordered:
        return codes, values
    # in ascending order; some may be equal
    rank, distinct = encode_objects(values, what=what)
    return rank[codes], distinct.astype(values.dtype)


def of_numpy(array: Array, what: str) -> tuple[Array, Array]:
    """Factorize a one-dimensional NumPy array without gaps, of any dtype but objects."""
    array, kind = np.asarray(array), array.dtype.kind
    if kind in "iu":
        return compact_integers(array)
    if kind == "f":
        return _of_floats(array)
    if kind in "bmM":  # as whole numbers of their size
        codes, present = compact_integers(array.view(f"{array.dtype.str[0]}i{array.itemsize}"))
        return codes, present.view(array.dtype)
    if kind in "US":
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        if (few := few_texts(native)) is not None:
            values, rank = np.unique(few[1], return_inverse=True)
            codes = rank.astype(smallest_unsigned(len(values)))[few[0]]
            return codes, values.astype(array.dtype, copy=False)
        import pyarrow  # here, because reading numbers does not need it

        arrow_type = pyarrow.large_string() if kind == "U" else pyarrow.large_binary()
        codes, values = _of_arrow(pyarrow.array(native, type=arrow_type), what)
        return codes, values.astype(array.dtype)
    if kind == "O":
        return encode_objects(array, what=what)
    raise name_error(what, f"have the dtype {array.dtype}", dtype=str(array.dtype))


def _of_floats(array: Array) -> tuple[Array, Array]:
    low, high = float(array.min()), float(array.max())
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


def _of_list(rows: Any, gaps: Array, what: str) -> tuple[Array, Array]:
    codes, distinct = encode_objects(rows, gaps, what=what)
    family = family_of(type(distinct[0]))
    # NumPy drops zeros at the end of text, which would make two classes of one name.
    if family in _DTYPE_KINDS and not (family == "str" and any(v.endswith("\0") for v in distinct)):
        typed = np.array(distinct.tolist())
        # NumPy makes floats or objects of integers that are too large, and of Python's dates
        if typed.dtype.kind in _DTYPE_KINDS[family]:
            return codes, typed
    return codes, distinct


def encode_objects(
    values: Sequence[Any] | Array, gaps: Array | None = None, *, what: str
) -> tuple[Array, Array]:
    """Return codes and sorted distinct values of a column of Python objects.

    Parameters
    ----------
    values : sequence or ndarray of shape (N,)
        Python or NumPy scalars; at least one row.
    gaps : ndarray of shape (N,), optional
        Rows that are left out.
    what : str
        How the column is called in an error.

    Returns
    -------
    codes : ndarray
        Of the rows that are not left out.
    distinct : ndarray of objects
        Plain Python values, ascending.

    Raises
    ------
    MixedTypeError, InputError

    Examples
    --------
    >>> encode_objects(["b", "a", "b"], what="y")
    (array([1, 0, 1], dtype=uint8), array(['a', 'b'], dtype=object))
    """
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    if gaps is not None and gaps.any():
        plain = list(compress(plain, ~gaps))
    families = {family_of(kind) for kind in set(map(type, plain))}
    if len(families) > 1:
        rows = np.arange(len(plain)) if gaps is None else np.flatnonzero(~gaps)
        raise _mixed_error(plain, rows, what)
    (family,) = families
    if family == "complex":
        raise name_error(what, "are complex numbers")
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
    return codes, as_objects([v.item() if isinstance(v, scalars) else v for v in ordered])


def name_error(what: str, found: str, **facts: Any) -> InputError:
    """Build the error for values that cannot name a class or group."""
    return InputError(
        f"The values of `{what}` {found}, which cannot name a class or group.",
        remedy="Pass one plain value per row: text, whole number, true/false or date.",
        column=what,
        **facts,
    )


def _mixed_error(plain: Sequence[Any], rows: Array, what: str) -> MixedTypeError:
    """Build the error for values of several families, which names the first row of two."""
    first: dict[str, int] = {}
    for place, value in enumerate(plain):
        first.setdefault(family_of(type(value)), place)
    types, places = tuple(first)[:2], tuple(first.values())[:2]
    found = tuple(int(rows[place]) for place in places), tuple(plain[place] for place in places)
    holds = [f"row {row} holds {v!r} ({kind})" for row, v, kind in zip(*found, types, strict=True)]
    return MixedTypeError(
        f"In `{what}`, {' and '.join(holds)}.",
        remedy="Convert the column to one type, for example with astype(str) or "
        "[str(v) for v in column].",
        column=what,
        rows=found[0],
        values=found[1],
        types=types,
    )
