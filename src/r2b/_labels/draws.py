"""One random number per row that follows from the row's key and the seed alone.

It does not depend on the place of the row, on batches or on the engine.

The number has 53 bits, so that it is a float in [0, 1) as well as an integer that can be compared
exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data import Dataset
from r2b._data.arrays import BLOCK_ROWS, Array, Floats, Whole
from r2b._data.columns import (
    Column,
    column_of,
    recognise,
    refuse_lengths,
    refuse_other_index,
)
from r2b._data.compute import in_order, parts_of, seed_of
from r2b._data.values import is_missing
from r2b.errors import InputError, MissingValueError, ParameterError, row_number

Words = NDArray[np.uint64]

BITS = 53
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WHOLE = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_MOMENT = re.compile(
    rb"([0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)?)"
    rb"(?:([+-])([0-9]{2}):([0-9]{2}))?"
)
_TRUTH = {b"true": 1, b"false": 0}


def row_numbers(first: int, n_rows: int) -> Words:
    """Return the keys of rows that are told apart by their place.

    Examples
    --------
    >>> row_numbers(3, 2)
    array([3, 4], dtype=uint64)
    """
    return np.arange(first, first + n_rows, dtype=np.uint64)


def key_words(columns: Sequence[Any], names: Sequence[str]) -> Words:
    """Return one 64-bit word per row for the columns that tell rows apart.

    Equal keys give equal words in every library, integer width and format: CSV knows only text, so
    that text which spells a whole number, a date, a moment or a truth value is the key that it
    spells. Other text is hashed, so that two of a billion different keys may share a word; nothing
    depends on them but a random number.

    Parameters
    ----------
    columns : sequence of array-like
        Integers, text, dates, moments or booleans: NumPy, pandas, polars, pyarrow, lists.
    names : sequence of str
        For errors.

    Raises
    ------
    MissingValueError
        A row has no key.
    InputError
        A column holds other things, such as decimal numbers.

    Examples
    --------
    >>> [key_words([column], ["id"]).tolist() for column in ([7, 8], ["7", "8"])]
    [[7, 8], [7, 8]]
    """
    words = [_words(column, name) for column, name in zip(columns, names, strict=True)]
    if len(words) == 1:
        return words[0]
    mixed = np.zeros(len(words[0]), np.uint64)
    for word in words:  # the order of the columns counts
        mixed = _mixed(mixed + word)
    return mixed


def draws_of(words: Words, random_state: int) -> Whole:
    """Return a random number of 53 bits for each key.

    Examples
    --------
    >>> draws_of(row_numbers(0, 2), 0).tolist() == draws_of(row_numbers(1, 1), 0).tolist()
    False
    >>> draws_of(row_numbers(0, 2), 0)[1:] == draws_of(row_numbers(1, 1), 0)
    array([ True])
    """
    seed, draws = seed_word(random_state), np.empty(len(words), np.int64)

    def draw(rows: slice) -> None:
        draws[rows] = _top_bits(_mixed(_mixed(words[rows]) ^ seed))

    list(in_order(draw, parts_of(len(words), BLOCK_ROWS)))
    return draws


def uniforms_of(draws: Whole) -> Floats:
    """Return draws as numbers in [0, 1), without rounding."""
    return np.asarray(draws * 2.0**-BITS, np.float64)


def entry_uniforms(draws: Whole, classes: Whole) -> Floats:
    """Return a number in [0, 1) for each entry: a class of a row with this draw.

    Examples
    --------
    >>> entry_uniforms(np.array([5, 5]), np.array([0, 1])).round(3)
    array([0.98 , 0.881])
    """
    spread = _mixed(_mixed(draws.astype(np.uint64)) + classes.astype(np.uint64))
    return uniforms_of(_top_bits(spread))


class SeededStream:
    """A stream of numbers in [0, 1), the same in every release of NumPy and on every machine.

    Parameters
    ----------
    random_state : int
    place : int
        Streams of different places have nothing in common.

    Examples
    --------
    >>> one, two = SeededStream(0, 3), SeededStream(0, 3)
    >>> one.random(4).tolist() == [*two.random(1), *two.random(3)]
    True
    """

    def __init__(self, random_state: int, place: int = 0) -> None:
        self._start = _mixed(
            _mixed(np.array([place], np.uint64)) ^ _mixed(~seed_word(random_state))
        )
        self._given = 0

    def random(self, n: int) -> Floats:
        """Return the next ``n`` numbers."""
        words = _mixed(_mixed(row_numbers(self._given, n)) ^ self._start)
        self._given += n
        return uniforms_of(_top_bits(words))


def seed_word(random_state: int) -> Words:
    """Return the word of a seed, which must be a number: batches must get the same one."""
    if not isinstance(random_state, (int, np.integer)):
        remedy = "Pass a whole number from 0 to 2**63 - 1."
        raise ParameterError(
            f"random_state is {random_state!r}.", remedy=remedy, random_state=random_state
        )
    return _mixed(np.array([seed_of(random_state)], np.uint64) * np.uint64(2) + np.uint64(1))


def _top_bits(words: Words) -> Whole:
    return (words >> np.uint64(64 - BITS)).astype(np.int64)


def _mixed(words: Words) -> Words:
    # The finaliser of splitmix64: every bit of the input moves every bit of the output.
    words = words + GOLDEN
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))


def _words(column: Any, name: str) -> Words:
    # pandas turns whole numbers with gaps into decimals, polars as well
    pandas = hasattr(column, "isna")
    if pandas or hasattr(column, "is_null"):
        _refuse_missing(np.asarray(column.isna() if pandas else column.is_null()), name)
    values = np.asarray(Column(column, "pandas").values if pandas else column)
    kind = values.dtype.kind
    if kind in "mM":
        _refuse_missing(np.isnat(values), name)
        return values.astype(f"{kind}8[ns]").astype(np.int64).view(np.uint64)
    if kind in "iub":
        return values.astype(np.int64 if kind == "i" else np.uint64).view(np.uint64)
    if kind in "OSU":
        return _text_words(values, name)
    raise InputError(
        f"The key {name!r} holds values of type {values.dtype}, which do not tell rows apart.",
        remedy="Name columns of whole numbers, text or dates.",
        column=name,
        dtype=str(values.dtype),
    )


def _refuse_missing(missing: Array, name: str) -> None:
    if missing.any():
        row = row_number(int(np.flatnonzero(missing)[0]))
        raise MissingValueError(
            f"Row {row} has no value of the key{f' {name!r}' if name else ''}.",
            remedy="Name columns that tell every row apart, or fill the gap.",
            column=name,
            row=row,
        )


def _text_words(values: Array, name: str) -> Words:
    out = np.empty(len(values), np.uint64)
    for rows in parts_of(len(values), 1 << 16):  # hashing holds a word per byte
        start = rows.start
        texts = [_bytes(value, name, start + i) for i, value in enumerate(values[rows].tolist())]
        out[rows] = _hashed(texts)
        for place, text in enumerate(texts):
            word = _spelled_word(text)
            if word is not None:
                out[start + place] = word % 2**64
    return out


def _spelled_word(text: bytes) -> int | None:
    """Return the word of the value that a text spells, or None if it is only text."""
    if _WHOLE.fullmatch(text):
        number = int(text)
        return number if -(2**63) <= number < 2**64 else None
    moment = _MOMENT.fullmatch(text)
    if moment is None:
        return _TRUTH.get(text)
    local, sign, hours, minutes = moment.groups()
    try:
        ahead = 0 if sign is None else int(sign + hours) * 60 + int(sign + minutes)
        return int(np.datetime64(local.decode(), "ns").astype(np.int64)) - ahead * 60 * 10**9
    except (ValueError, OverflowError):  # such as the 31st of February
        return None


def _bytes(value: Any, name: str, row: int) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    if is_missing(value):
        _refuse_missing(np.arange(row + 1) == row, name)
    if isinstance(value, (bool, np.bool_)):
        return b"true" if value else b"false"
    if isinstance(value, date):
        return value.isoformat().encode()
    if isinstance(value, float):
        row = row_number(row)
        remedy = "Name columns of whole numbers, text or dates."
        raise InputError(
            f"Row {row} of the key {name!r} is {value!r}.", remedy=remedy, column=name, row=row
        )
    return str(value).encode()


def _hashed(texts: list[bytes]) -> Words:
    """Hash byte strings, all at once: a random word for each (byte, place), added up."""
    lengths = np.array([len(text) for text in texts], np.int64)
    joined = np.frombuffer(b"".join(texts), np.uint8)
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(joined), dtype=np.int64) - np.repeat(starts, lengths)
    words = _mixed(joined.astype(np.uint64) + np.uint64(256) * place.astype(np.uint64))
    sums = np.zeros(len(texts), np.uint64)
    some = lengths > 0
    if some.any():
        sums[some] = np.add.reduceat(words, starts[some])
    return _mixed(sums + lengths.astype(np.uint64))


def row_draws(key: Any, seed: int, data: Dataset) -> Whole:
    """Return a random number of 53 bits for each row.

    Parameters
    ----------
    key : array-like of shape (N,), list of such, or None
        None for the numbers of the rows.
    seed : int
    data : Dataset
        The rows.

    Raises
    ------
    LengthError, RowLabelError
        The keys are not those of the rows.

    Examples
    --------
    >>> from r2b._data import read
    >>> data = read(["a", "b", "b"], sensitive_features=["f", "m", "m"])
    >>> row_draws(None, 0, data).tolist() == row_draws([0, 1, 2], 0, data).tolist()
    True
    """
    n_rows = data.n_rows
    if key is None:
        return draws_of(row_numbers(0, n_rows), seed)
    first = key[0] if isinstance(key, (list, tuple)) and key else ""
    columns: Sequence[Column] = (
        [column_of(each, what="key") for each in key]
        if hasattr(first, "__len__") and not isinstance(first, (str, bytes))
        else recognise(key, what="key").columns
    )
    for column in columns:
        refuse_lengths("y", n_rows, "key", len(column))
    refuse_other_index(("y", data.index), *(("key", column.index) for column in columns))
    return draws_of(key_words([column.native for column in columns], ["key"] * len(columns)), seed)
