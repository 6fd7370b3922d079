"""The values of one column, in order, and how to give them back in the form they came in."""

from __future__ import annotations

import datetime
import difflib
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data.arrays import Array, first_rows, smallest_unsigned
from r2b._data.arrival import Column, Matrix, recognise
from r2b._data.factorize import factorize, missing_rows, refuse_all_missing, taken, with_missing
from r2b._data.objects import family_of, from_plain, mixed_error, to_plain, type_word
from r2b.errors import FileFormatError, MixedTypeError, ShapeError, UnseenError

SHOWN_VALUES = 10


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
        frozen = self.values.view()
        frozen.flags.writeable = False
        object.__setattr__(self, "values", frozen)

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
        column : array-like of shape (N,)
        what : str
            How the column is called in an error.

        Raises
        ------
        UnseenError
            A value is not in the vocabulary.
        MissingValueError
            A row has no value, and the vocabulary has no code for it.
        """
        return self.encode_column(column_of(column, what=what), what=what)

    def encode_column(self, column: Column, *, what: str) -> Array:
        """Give the codes of a column that was already recognised."""
        if self.has_missing:
            missing = missing_rows(column)
            kept = np.flatnonzero(~missing)
            codes = self._encode_values(column, kept, what=what) if len(kept) else np.zeros(0, dtype=np.uint8)
            return with_missing(codes, missing, len(self))
        return self._encode_values(column, None, what=what)

    def _encode_values(self, column: Column, rows: Array | None, *, what: str) -> Array:
        codes, values = factorize(column, what=what) if rows is None else _factorize_rows(column, rows, what=what)
        places = [self._places.get(key_of(value), -1) for value in values]
        if -1 in places:
            raise self._unseen(codes, values, np.array(places) < 0, rows, what)
        known = np.array(places, dtype=smallest_unsigned(len(self)))
        return codes.astype(known.dtype, copy=False) if np.array_equal(known, np.arange(len(known))) else known[codes]

    def _unseen(self, codes: Array, values: Array, unseen: Array, kept: Array | None, what: str) -> UnseenError:
        rows = unseen[codes]
        place = int(np.argmax(rows))
        row = place if kept is None else int(kept[place])
        value, word = plain_value(values[codes[place]]), type_word(values[codes[place]])
        known, words = [plain_value(value) for value in self.values], {type_word(value) for value in self.values}
        close = difflib.get_close_matches(str(value), [str(value) for value in known], n=1)
        shown = ", ".join(map(repr, known[:SHOWN_VALUES])) + (f" and {len(known) - SHOWN_VALUES} more" if len(known) > SHOWN_VALUES else "")
        problem, hint = f"Row {row} of {what} holds {value!r}, which is not among the known values {shown}.", ""
        if word not in words:  # '0' is not 0, however alike they are written
            problem = f"Row {row} of {what} holds {value!r} ({word}), but the known values are of another type: {shown} ({min(words)})."
            hint = f"Convert the column to {min(words)}, for example with astype. "
        elif close:
            hint = f"Did you mean {close[0]!r}? "
        return UnseenError(
            problem,
            remedy=f"{hint}Correct or drop such rows ({int(rows.sum())} in all), or fit again on data that has them.",
            column=what,
            row=row,
            value=value,
            count=int(rows.sum()),
            known=known,
            type=word,
            known_type=min(words),
        )

    def decode(self, codes: Array) -> Any:
        """Give the values of codes, as a column of the library and dtype that the vocabulary was read from.

        Parameters
        ----------
        codes : ndarray of integers, of shape (M,)

        Returns
        -------
        ndarray, pandas.Series, polars.Series, pyarrow.Array or pyarrow.ChunkedArray
            A list that was read leaves as an ndarray. A pandas Series has the index of the rows that were read where M is their number.
        """
        codes = np.asarray(codes)
        codes = codes if codes.size else codes.astype(np.intp)  # an empty list has no integer dtype
        if self.library == "pandas":
            column = self.native.take(codes)
            same_rows = self.index is not None and len(self.index) == len(codes)
            column.index = self.index if same_rows else libraries.get_pandas().RangeIndex(len(codes))
        elif self.library == "polars":
            column = self.native.gather(codes)
        elif self.library == "pyarrow":
            column = self.native.take(libraries.get_pyarrow().array(codes))
        else:
            column = self._with_gap[codes]
        return nw.from_native(column, series_only=True) if self.wrapped else column

    @cached_property
    def _with_gap(self) -> Array:
        """The values in the order of the codes, with what stands for a missing one."""
        if not self.has_missing:
            return self.values
        if self.values.dtype.kind in "fmM":
            return np.append(self.values, np.array([np.nan if self.values.dtype.kind == "f" else "NaT"], dtype=self.values.dtype))
        return np.append(self.values.astype(object), np.array([None], dtype=object))

    def like(self, column: Column) -> Vocabulary:
        """Give the same values, decoding to the library and the row labels of another column."""
        if column.library in ("numpy", "list"):
            return Vocabulary(self.values, has_missing=self.has_missing)
        same = self.library == column.library and _native_type(self.native) == _native_type(column.native)
        native = _renamed(self.native, column) if same else build_native(self._with_gap, column.library, column.name)
        return replace(self, native=native, library=column.library, wrapped=column.wrapped, index=column.index)

    def to_json(self) -> dict[str, Any]:
        """Give the vocabulary as a dictionary of plain values that JSON can hold.

        Examples
        --------
        >>> Vocabulary(np.array([0, 2], dtype=np.int8)).to_json()
        {'dtype': '|i1', 'type': 'number', 'values': [0, 2]}
        """
        return {**to_plain(self.values), "has_missing": True} if self.has_missing else to_plain(self.values)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Vocabulary:
        """Restore a vocabulary; it encodes as before and decodes to NumPy arrays.

        Examples
        --------
        >>> Vocabulary.from_json({"dtype": "|i1", "type": "number", "values": [0, 2]}).values
        array([0, 2], dtype=int8)
        """
        has_missing = stored.get("has_missing", False)
        if not isinstance(has_missing, bool):
            raise FileFormatError(
                f"The stored values cannot be read: has_missing is {has_missing!r}.",
                remedy="Save the object again with this release.",
            )
        return cls(from_plain(stored), has_missing=has_missing)


def read_vocabulary(column: Column, *, what: str, keep_missing: bool = False) -> tuple[Array, Vocabulary]:
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
    missing = missing_rows(column) if keep_missing else None
    if missing is None or not missing.any():
        codes, values = factorize(column, what=what)
        return codes, _vocabulary(column, codes, values, has_missing=False)
    refuse_all_missing(missing, what)
    codes, values = _factorize_rows(column, np.flatnonzero(~missing), what=what)
    codes = with_missing(codes, missing, len(values))
    return codes, _vocabulary(column, codes, values, has_missing=True)


def _factorize_rows(column: Column, rows: Array, *, what: str) -> tuple[Array, Array]:
    """Factorize some rows of a column; an error names rows of the whole."""
    try:
        return factorize(taken(column, rows), what=what)
    except MixedTypeError as error:
        facts: dict[str, Any] = error.facts
        first, second = (int(rows[row]) for row in facts["rows"])
        raise mixed_error(what, rows=(first, second), values=facts["values"], types=facts["types"]) from None


def _vocabulary(column: Column, codes: Array, values: Array, *, has_missing: bool) -> Vocabulary:
    if column.library in ("numpy", "list"):
        return Vocabulary(values, has_missing=has_missing)
    rows = first_rows(codes, len(values) + has_missing)
    if column.library == "pandas":
        native = column.native.take(rows)
    elif column.library == "polars":
        native = column.native.gather(rows)
    else:
        native = column.native.take(libraries.get_pyarrow().array(rows))
    return Vocabulary(values, native, column.library, column.wrapped, column.index, has_missing)


def column_of(handed: Any, *, what: str) -> Column:
    """Recognise a single column; a matrix or frame of one column is one."""
    found = recognise(handed, what=what)
    if isinstance(found, Column):
        return found
    if len(found.columns) > 1:
        raise ShapeError(
            f"The argument {what} has {len(found.columns)} columns.",
            remedy="Pass one value per row.",
            argument=what,
            n_columns=len(found.columns),
        )
    return Column(found.array[:, 0], "numpy") if isinstance(found, Matrix) else found.columns[0]


def build_native(values: Array, library: str, name: str) -> Any:
    """Make a column of a library from NumPy values."""
    if library == "pandas":
        return libraries.get_pandas().Series(values.tolist() if values.dtype.kind in "OU" else values, name=name or None)
    if library == "polars":
        return libraries.get_polars().Series(name, values.tolist() if values.dtype.kind in "OU" else values)
    if library == "pyarrow":
        return libraries.get_pyarrow().array(values.tolist() if values.dtype.kind in "OU" else values)
    return None


def _native_type(native: Any) -> Any:
    return native.type if hasattr(native, "type") else native.dtype


def _renamed(native: Any, column: Column) -> Any:
    if column.library == "pandas":
        return native.rename(column.native.name)
    return native.alias(column.name) if column.library == "polars" else native


def plain_value(value: Any) -> Any:
    """Give a NumPy scalar as a Python value, for messages and names."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def key_of(value: Any) -> object:
    """Give what two values must share to be the same class: ``1`` and ``1.0`` do, ``1`` and ``True`` do not.

    Examples
    --------
    >>> key_of(np.int8(1)) == key_of(1.0), key_of(1) == key_of(True), key_of(np.str_("a")) == key_of("a")
    (True, False, True)
    """
    family = family_of(type(value))
    if family in ("int", "float"):
        return "number", value.item() if isinstance(value, np.generic) else value
    if family in ("datetime", "date"):
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        moment = np.datetime64(value)
        micro = moment.astype("M8[us]")  # equal moments of different units hash differently in some versions of NumPy
        return "time", int(micro.astype(np.int64)), str(moment) if micro != moment else ""
    if family == "timedelta":
        return family, np.timedelta64(value)
    if family in ("bool", "bytes"):
        return family, bool(value) if family == "bool" else value
    # Whatever else a library keeps in its cells, such as intervals, is known by how it is written: that survives a file.
    return "str", str(value)


_LONGEST = 200  # characters; the crossing of many attributes has room, a document that slipped into a cell does not

_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")  # characters that turn the direction of the text after them
_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def directions_shown(text: str) -> str:
    r"""Show characters that turn the direction of text instead of obeying them: "-18" after one of them would read "81-".

    Examples
    --------
    >>> directions_shown("a\u202eb")
    'a\\u202eb'
    """
    return _DIRECTION.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def directions_kept(text: str) -> str:
    r"""Do the same for a whole text; isolates that are closed, in which names are put on purpose, stay as they are.

    Examples
    --------
    >>> directions_kept("\u2068a\u2069 b") == "\u2068a\u2069 b", directions_kept("\u202e")
    (True, '\\u202e')
    """
    if not _DIRECTION.search(text):
        return text
    parts = text.split(_ISOLATE)
    closed = _END not in parts[0] and all(part.count(_END) == 1 for part in parts[1:])
    if not closed:
        return directions_shown(text)
    return "".join(each if each in (_ISOLATE, _END) else directions_shown(each) for each in re.split(f"([{_ISOLATE}{_END}])", text))


def written(name: object) -> str:
    r"""Write a name on one line: what cannot be printed is escaped, and the middle of a very long name left out.

    Examples
    --------
    >>> written("Prof-school"), written("two\nlines"), len(written("x" * 5000))
    ('Prof-school', 'two\\nlines', 200)
    """
    text = str(plain_value(name))
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    half = (_LONGEST - 3) // 2
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3 - half]}...{text[-half:]}"
