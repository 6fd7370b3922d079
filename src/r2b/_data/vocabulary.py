"""The values of one column, in order, and how to give them back in the form they came in."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import (
    WIDEST_SPAN,
    WIDEST_TEXT,
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
from r2b._data.columns import Column, column_of
from r2b._data.libraries import (
    complex_error,
    encode_objects,
    encoded,
    made_from,
    mixed_error,
    no_name,
    refuse_missing,
    take,
)
from r2b._data.values import from_plain, key_of, listed, stored_as, to_plain, type_word
from r2b.errors import MissingValueError, MixedTypeError, UnseenError


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
        Whether columns leave as a narwhals Series.
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
        return f"Vocabulary({self.values.tolist()!r}{', has_missing=True' if self.has_missing else ''})"

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
        """Give the codes of new rows.

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
        if not self.has_missing:
            return self._known(*factorize(column, what=what), None, what)
        missing = column.missing()
        if missing.all():
            return np.full(len(missing), len(self), dtype=smallest_unsigned(self.n_codes))
        kept = np.flatnonzero(~missing)
        return with_missing(
            self._known(*_factorize_rows(column, kept, what=what), kept, what), missing, len(self)
        )

    def _known(self, codes: Array, values: Array, kept: Array | None, what: str) -> Array:
        """Turn codes of values that were found into codes of those that are known; ``kept`` has the rows that have a value."""
        places = [self._places.get(key_of(value), -1) for value in values]
        if -1 in places:
            place, count = first_and_count((np.array(places) < 0)[codes])
            raise self._unseen(
                values[codes[place]], place if kept is None else int(kept[place]), count, what
            )
        known = np.array(places, dtype=smallest_unsigned(len(self)))
        return (
            codes.astype(known.dtype, copy=False)
            if np.array_equal(known, np.arange(len(known)))
            else known[codes]
        )

    def _unseen(self, found: Any, row: int, count: int, what: str) -> UnseenError:
        value, word = plain_value(found), type_word(found)
        known, words = (
            [plain_value(each) for each in self.values],
            {type_word(each) for each in self.values},
        )
        problem, hint = (
            f"Row {row} of {what} holds {value!r}, which is not among the known values {listed(known)}.",
            "",
        )
        if word not in words:  # '0' is not 0, however alike they are written
            other = min(words)
            problem = f"Row {row} of {what} holds {value!r} ({word}), but the known values are of another type: {listed(known)} ({other})."
            hint = f"Convert the column to {other}, for example with astype. "
        elif close := difflib.get_close_matches(str(value), map(str, known), n=1):
            hint = f"Did you mean {close[0]!r}? "
        remedy = (
            f"{hint}Correct or drop such rows ({count} in all), or fit again on data that has them."
        )
        facts: dict[str, Any] = {
            "column": what,
            "row": row,
            "value": value,
            "count": count,
            "known": known,
        }
        return UnseenError(problem, remedy=remedy, **facts, type=word, known_type=min(words))

    def decode(self, codes: Array) -> Any:
        """Give the values of codes, as a column of the library and dtype that the vocabulary was read from.

        Parameters
        ----------
        codes : ndarray of integers, of shape (M,)

        Returns
        -------
        ndarray, pandas.Series, polars.Series, pyarrow.Array or pyarrow.ChunkedArray
            A list that was read leaves as an ndarray. A pandas Series has the index of the rows
            that were read where M is their number.
        """
        codes = np.asarray(codes)
        codes = codes if codes.size else codes.astype(np.intp)  # an empty list has no integer dtype
        if self.native is None:
            return self._with_gap[codes]
        column = take(self.native, self.library, codes)
        if self.library == "pandas":
            same_rows = self.index is not None and len(self.index) == len(codes)
            column.index = (
                self.index if same_rows else libraries.get_pandas().RangeIndex(len(codes))
            )
        return nw.from_native(column, series_only=True) if self.wrapped else column

    @cached_property
    def _with_gap(self) -> Array:
        """The values in the order of the codes, with what stands for a missing one."""
        if not self.has_missing:
            return self.values
        if self.values.dtype.kind in "fmM":
            return np.append(
                self.values,
                np.array(
                    [np.nan if self.values.dtype.kind == "f" else "NaT"], dtype=self.values.dtype
                ),
            )
        return np.append(self.values.astype(object), np.array([None], dtype=object))

    def like(self, column: Column) -> Vocabulary:
        """Give the same values, decoding to the library and the row labels of another column."""
        if column.library in ("numpy", "list"):
            return Vocabulary(self.values, has_missing=self.has_missing)
        kind = "type" if column.library == "pyarrow" else "dtype"
        if self.library != column.library or getattr(self.native, kind) != getattr(
            column.native, kind
        ):
            native = made_from(self._with_gap, column.library, column.name)
        elif column.library == "pandas":
            native = self.native.rename(column.native.name)
        else:
            native = self.native.alias(column.name) if column.library == "polars" else self.native
        return replace(
            self, native=native, library=column.library, wrapped=column.wrapped, index=column.index
        )

    def to_json(self) -> dict[str, Any]:
        """Give the vocabulary as a dictionary of plain values that JSON can hold.

        Examples
        --------
        >>> Vocabulary(np.array([0, 2], dtype=np.int8)).to_json()
        {'dtype': '|i1', 'type': 'number', 'values': [0, 2]}
        """
        return (
            {**to_plain(self.values), "has_missing": True}
            if self.has_missing
            else to_plain(self.values)
        )

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
        return cls(from_plain(stored), has_missing=has_missing)


def read_vocabulary(
    column: Column, *, what: str, keep_missing: bool = False
) -> tuple[Array, Vocabulary]:
    """Give the codes of a column and its vocabulary.

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
    missing = column.missing() if keep_missing else None
    has_missing = missing is not None and bool(missing.any())
    if missing is not None and has_missing:
        refuse_all_missing(missing, what)
        codes, values = _factorize_rows(column, np.flatnonzero(~missing), what=what)
        codes = with_missing(codes, missing, len(values))
    else:
        codes, values = factorize(column, what=what)
    if column.library in ("numpy", "list"):
        return codes, Vocabulary(values, has_missing=has_missing)
    native = take(column.native, column.library, first_rows(codes, len(values) + has_missing))
    return codes, Vocabulary(
        values, native, column.library, column.wrapped, column.index, has_missing
    )


def _factorize_rows(column: Column, rows: Array, *, what: str) -> tuple[Array, Array]:
    """Factorize some rows of a column; an error names rows of the whole."""
    try:
        return factorize(column.take(rows), what=what)
    except MixedTypeError as error:
        facts: dict[str, Any] = error.facts
        first, second = (int(rows[row]) for row in facts["rows"])
        raise mixed_error(
            what, rows=(first, second), values=facts["values"], types=facts["types"]
        ) from None


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
        n_rows, remedy = (
            len(missing),
            "Leave this column out, or check that the right one was passed.",
        )
        problem = f"In {what}, none of the {n_rows} rows has a value."
        raise MissingValueError(
            problem, remedy=remedy, column=what, row=0, count=n_rows, n_rows=n_rows
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
    if column.library == "list":
        return _of_list(column.native, what)
    found = (
        column.native if column.library == "numpy" else encoded(column.native, column.library, what)
    )
    return found if isinstance(found, tuple) else of_numpy(found, what)


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
    if kind == "c":
        raise complex_error(what)
    if kind in "US" and 0 < array.dtype.itemsize <= WIDEST_TEXT * (4 if kind == "U" else 1):
        return encode_text(array)
    if kind in "OUST":
        codes, distinct, _ = encode_objects(array, what=what)
        return codes, as_objects(distinct) if kind == "O" else np.array(distinct, dtype=array.dtype)
    raise no_name(what, f"have the dtype {array.dtype}", dtype=str(array.dtype))


def _of_floats(array: Array, what: str) -> tuple[Array, Array]:
    low, high = float(array.min()), float(array.max())
    if np.isnan(low):  # NaN spreads through min, so that the mask is only built when there is one
        refuse_missing(np.isnan(array), what)
    if abs(low) < 2**30 and high - low < WIDEST_SPAN:
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
    cut = family == "str" and any(value.endswith("\0") for value in distinct)
    typed = np.array(distinct) if family in _DTYPE_KINDS and not cut else None
    # NumPy makes floats or objects of integers that are too large, and objects of Python's own
    # dates.
    return codes, typed if typed is not None and typed.dtype.kind in _DTYPE_KINDS[
        family
    ] else as_objects(distinct)
