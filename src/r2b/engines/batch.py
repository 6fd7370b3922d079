"""A batch of rows: Arrow columns, and where they come from, so that an error can say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._data.columns import Column
from r2b._data.numbers import read_weight
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b.errors import (
    EmptyError,
    InputError,
    MissingValueError,
    ProbabilityError,
    part_of_a_table,
    row_number,
)

PIECE_ROWS = 1 << 20  # of a batch
RELABELLED_ROWS = 1 << 18  # of a batch that gets new labels, of which several copies are held
RELABELLED_ENTRIES = 1 << 18  # numbers of such a batch, each of which may become a line of text
PIECE_ENTRIES = 1 << 22  # numbers of a batch whose columns hold lists
# a number as people of many countries write it
_THOUSANDS = r"^(\s*[-+]?[1-9][0-9]{0,2})\.([0-9]{3}([.,].*)?\s*)$"
_POINTED = re.compile(r"[-+]?\d[\d ,.'_\u00a0\u2009\u202f\u2019]*")


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows.

    Attributes
    ----------
    record : pyarrow.RecordBatch
    first : int
        Number of the first row in the table where rows have an order, else in its place.
    place : str
        Where the rows are, such as "part-1.parquet, row group 3"; empty for a table of one piece.
    offset : int
        Number of the first row within the place.
    """

    record: Any
    first: int = 0
    place: str = ""
    offset: int = 0

    def __len__(self) -> int:
        return int(self.record.num_rows)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name; a name that comes twice is not asked for."""
        return dict(zip(self.record.schema.names, self.record.columns, strict=True))

    def place_of(self, row: int) -> str:
        """Return where a row of this batch is, for errors."""
        return f"{self.place or 'the table'}, row {self.offset + row}"

    def facts_of(self, row: int) -> dict[str, Any]:
        """Return where a row of this batch is, as facts of an error."""
        return {"place": self.place, "row": self.first + row, "row_in_place": self.offset + row}

    @contextmanager
    def placed(self, labels: str = "y") -> Iterator[None]:
        """Let errors about a row of this batch say where it is, and name the columns of labels."""

        def phrase(name: str, value: Any) -> str:
            return labels if name == "y" else f"`{name}`" if value is None else f"`{name}={value}`"

        try:
            with part_of_a_table(self.first):
                yield
        except InputError as error:
            row, where = error.facts.get("row"), self.place or "the table"
            facts: dict[str, Any] = {"place": self.place}
            if isinstance(row, int):
                where, facts = self.place_of(row - self.first), self.facts_of(row - self.first)
            problem, _ = error.render(phrase, "")
            raise error.changed(problem=f"In {where}: {problem}", **facts) from error


@dataclass(frozen=True)
class Fold:
    """A reduction made of two functions."""

    make: Callable[[Batch], Any]
    merge: Callable[[Any, Any], Any]


def add(one: Any, other: Any) -> Any:
    """Add two results, or the entries of two tuples."""
    return tuple(map(add, one, other)) if isinstance(one, tuple) else one + other


def lists_to_matrix(column: Any, n_classes: int | None = None, name: str = "") -> Array:
    """Return a column of lists of numbers as a matrix, if possible without a copy.

    Parameters
    ----------
    column : pyarrow.Array
        Of lists of any kind.
    n_classes : int, optional
        Numbers that each list must have; those of the first by default.
    name : str
        Of the column, for errors.

    Raises
    ------
    ProbabilityError
        A list is missing or has another length.
    EmptyError
        There is no row that tells the length.

    Examples
    --------
    >>> import pyarrow
    >>> lists_to_matrix(pyarrow.array([[0.25, 0.75], [1.0, 0.0]]))
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    arrow, types = pyarrow(), pyarrow().types
    _refuse_null(column, 1, f"no list of probabilities in {name!r}", name)
    lengths = np.asarray(pyarrow_compute().list_value_length(column))
    if n_classes is None and len(lengths) == 0:
        raise EmptyError(
            "There are no rows, and so no list of probabilities.", remedy="Pass at least one row."
        )
    wanted = int(lengths[0]) if n_classes is None else n_classes
    wrong = np.flatnonzero(lengths != wanted)
    if len(wrong):
        row, length = row_number(int(wrong[0])), int(lengths[wrong[0]])
        raise ProbabilityError(
            f"Row {row} has a list of {length} probabilities in {name!r}, not of {wanted}.",
            remedy="Give every row one probability per class, in the same order.",
            row=row,
            column=name,
            length=length,
            n_classes=wanted,
        )
    values = column.flatten()
    _refuse_null(values, wanted, f"a missing probability in {name!r}", name)
    if not types.is_floating(values.type):
        kinds = (types.is_integer, types.is_decimal, types.is_null)
        if not any(kind(values.type) for kind in kinds):
            raise ProbabilityError(
                f"The lists in {name!r} hold {values.type}, not numbers.",
                remedy="Name a column of classes, or of lists with one probability per class.",
                column=name,
            )
        values = values.cast(arrow.float64())
    return np.asarray(values).reshape(len(column), wanted)


def _refuse_null(values: Any, width: int, found: str, name: str) -> None:
    """Refuse rows, of so many values each, of which one is missing."""
    if values.null_count:
        place = int(np.flatnonzero(np.asarray(values.is_null()))[0])
        row = row_number(place // width)
        raise ProbabilityError(
            f"Row {row} has {found}.", remedy="Fill or drop such rows.", row=row, column=name
        )


def one_array(column: Any) -> Any:
    """Return a column of several chunks as one array."""
    whole = column.combine_chunks() if hasattr(column, "chunks") else column
    # Text that is too long for one array stays in several chunks, and is refused here.
    return pyarrow().concat_arrays(whole.chunks) if hasattr(whole, "chunks") else whole


def one_record(table: Any) -> Any:
    """Return a table as one record batch, whatever chunks its columns lie in."""
    columns = [
        column.chunk(0) if column.num_chunks == 1 else one_array(column) for column in table.columns
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=table.schema)


def numbers_of(
    column: Any,
    name: str,
    *,
    delimited: bool = False,
    decimal: str = ".",
    place: Callable[[int], str] = ", row {}".format,
) -> Any:
    """Read text as numbers.

    Parameters
    ----------
    column : pyarrow.Array
    name : str
        Of the column, for errors.
    delimited : bool
        Whether other text may be named as meaning missing.
    decimal : str
        The decimal mark. Where it is a comma, a point between thousands is refused.
    place : callable
        Returns what follows the name of the column: where a row is.

    Raises
    ------
    InputError
        A text is not a number; the message names the row.

    Examples
    --------
    >>> import pyarrow
    >>> numbers_of(pyarrow.array(["1.5", None, " 2 "]), "w").to_pylist()
    [1.5, None, 2.0]
    """
    arrow = pyarrow()
    texts = spelled = column.cast(arrow.string())
    if decimal != ".":
        compute = pyarrow_compute()
        texts = compute.replace_substring_regex(texts, pattern=_THOUSANDS, replacement=r"\1_\2")
        texts = compute.replace_substring(texts, decimal, ".")
    try:
        return texts.cast(arrow.float64())
    except arrow.ArrowInvalid:
        values: list[float | None] = []
        for row, text in enumerate(texts.to_pylist()):
            try:
                # Python reads 1_000 as a number; no other reader of the file would.
                values.append(None if text is None else float(text if "_" not in text else ""))
            except ValueError:
                text, row = spelled[row].as_py(), row_number(row)
                where = f"In the column {name!r}{place(row)}"
                raise _not_a_number(text, where, delimited, decimal, column=name, row=row) from None
        return arrow.array(values, arrow.float64())


def _not_a_number(text: str, where: str, delimited: bool, decimal: str, **facts: Any) -> InputError:
    if not text.strip():
        return MissingValueError(
            f"{where} is empty.", remedy="Fill in a number, or drop the row.", value=text, **facts
        )
    remedy = "Correct it."
    if delimited:
        remedy = f"Correct it, or say that it means missing: `na={text!r}`."
    if _POINTED.fullmatch(text.strip()):
        remedy = f"Write numbers with nothing between thousands: 1234{decimal}5."
        if decimal == ".":
            remedy = f"For a decimal comma pass `decimal=','`. Otherwise: {remedy}"
    return InputError(
        f"{where} holds {text!r}, which is not a number.", remedy=remedy, value=text, **facts
    )


def weights_of(batch: Batch, name: str) -> Floats:
    """Read the weights of rows; errors as for :func:`r2b._data.numbers.read_weight`."""
    with batch.placed():
        return read_weight(Column(batch.columns[name], "pyarrow", name), f"the column {name!r}")


def plain_type(kind: Any) -> Any:
    """Return the type of the values behind a dictionary."""
    return kind.value_type if hasattr(kind, "value_type") and hasattr(kind, "index_type") else kind


def plain(column: Any) -> Any:
    """Return the values of a column that may be a dictionary."""
    return column.dictionary_decode() if hasattr(column, "dictionary") else column


def taken(column: Any, rows: Any) -> Any:
    """Return some entries of a column; Arrow itself cannot take from views of text and bytes.

    Examples
    --------
    >>> import pyarrow
    >>> taken(pyarrow.array(["a", "b"], pyarrow.string_view()), pyarrow.array([1, 1])).to_pylist()
    ['b', 'b']
    """
    views = {"string_view": pyarrow().large_string(), "binary_view": pyarrow().large_binary()}
    plain = views.get(str(column.type))
    return column.take(rows) if plain is None else column.cast(plain).take(rows).cast(column.type)


def taken_rows(record: Any, rows: Any) -> Any:
    """Return some rows of a record batch."""
    columns = [taken(column, rows) for column in record.columns]
    return pyarrow().RecordBatch.from_arrays(columns, schema=record.schema)


def in_batches(
    record: Any, size: int, first: int = 0, place: str = "", offset: int = 0
) -> Iterator[Batch]:
    """Cut a record batch or a table into batches of at most ``size`` rows; none is empty."""
    whole = record if hasattr(record, "to_batches") else pyarrow().Table.from_batches([record])
    for part in whole.to_batches(max_chunksize=size):
        if part.num_rows:
            yield Batch(part, first, place, offset)
            first, offset = first + part.num_rows, offset + part.num_rows
