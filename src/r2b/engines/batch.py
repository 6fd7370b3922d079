"""A batch of rows on its way through: Arrow columns, and where they come from, so that an error can say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from r2b._data.arrays import Array
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b.errors import EmptyError, InputError, MissingValueError, ProbabilityError

Result = TypeVar("Result")
PIECE_ROWS = 1 << 20  # of a batch
RELABELLED_ROWS = 1 << 18  # of a batch that gets new labels, of which several copies are held
PIECE_ENTRIES = 1 << 22  # numbers of a piece where its columns hold lists
_FILL = "Fill or drop such rows."
# as people of many countries write a number
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

    @contextmanager
    def placed(self, labels: str = "y") -> Iterator[None]:
        """Let errors about a row of this batch say where it is, and call the labels by their columns."""
        try:
            yield
        except InputError as error:
            facts: dict[str, Any] = dict(error.facts)
            row, where, problem = facts.get("row"), self.place or "the table", error.problem
            facts["place"] = self.place
            if isinstance(row, int):
                where += f", row {self.offset + row}"
                facts |= {"row": self.first + row, "row_in_place": self.offset + row}
                problem = problem.replace(f"ow {row} ", f"ow {self.first + row} ", 1)
            problem = problem.replace("In y, ", f"In {labels}, ", 1).replace(
                " of y ", f" of {labels} ", 1
            )
            # What was counted was counted in this batch alone: others have not been looked at.
            problem = problem.replace(
                "it is the only such row", "it is the only such row of this part"
            )
            remedy = error.remedy.replace(" in all)", " in this part)")
            raise type(error)(f"In {where}: {problem}", remedy=remedy, **facts) from error


def lists_to_matrix(column: Any, n_classes: int | None = None, name: str = "") -> Array:
    """Give a column of lists of numbers as a matrix, without a copy where the lists lie side by side.

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
    arrow, compute = pyarrow(), pyarrow_compute()
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ProbabilityError(
            f"Row {row} has no list of probabilities in {name!r}.",
            remedy=_FILL,
            row=row,
            column=name,
        )
    lengths = np.asarray(compute.list_value_length(column).to_numpy(zero_copy_only=False))
    if n_classes is None and len(lengths) == 0:
        raise EmptyError(
            "There are no rows, and so no list of probabilities.", remedy="Pass at least one row."
        )
    wanted = int(lengths[0]) if n_classes is None else n_classes
    wrong = np.flatnonzero(lengths != wanted)
    if len(wrong):
        row = int(wrong[0])
        problem = f"Row {row} has a list of {int(lengths[row])} probabilities in {name!r}, not of {wanted}."
        remedy = "Give every row one probability per class, in the same order."
        raise ProbabilityError(
            problem, remedy=remedy, row=row, column=name, length=int(lengths[row]), n_classes=wanted
        )
    values = column.flatten()
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]) // max(
            wanted, 1
        )
        raise ProbabilityError(
            f"Row {row} has a missing probability in {name!r}.", remedy=_FILL, row=row, column=name
        )
    if not arrow.types.is_floating(values.type):
        if not (
            arrow.types.is_integer(values.type)
            or arrow.types.is_decimal(values.type)
            or arrow.types.is_null(values.type)
        ):
            problem = f"The lists in {name!r} hold {values.type}, not numbers."
            raise ProbabilityError(
                problem,
                remedy="Name a column of classes, or of lists with one probability per class.",
                column=name,
            )
        values = values.cast(arrow.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), wanted)


def one_array(column: Any) -> Any:
    """Give a column of several chunks as one array."""
    whole = column.combine_chunks() if hasattr(column, "chunks") else column
    # Arrow gives text that is too long for one array in several chunks still.
    return pyarrow().concat_arrays(whole.chunks) if hasattr(whole, "chunks") else whole


def one_record(table: Any) -> Any:
    """Give a table as one record batch, whatever chunks its columns lie in."""
    columns = [
        column.chunk(0) if column.num_chunks == 1 else one_array(column) for column in table.columns
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=table.schema)


def numbers_of(column: Any, name: str, *, delimited: bool = False) -> Any:
    """Read text as numbers; of delimited text, another text may mean missing.

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
    plain = column.cast(arrow.string())
    try:
        return plain.cast(arrow.float64())
    except arrow.ArrowInvalid:
        values: list[float | None] = []
        for row, text in enumerate(plain.to_pylist()):
            try:
                # Python reads 1_000 as a number; no other reader of the file would.
                values.append(None if text is None else float(text if "_" not in text else ""))
            except ValueError:
                raise _not_a_number(text, name, row, delimited) from None
        return arrow.array(values, arrow.float64())


def _not_a_number(text: str, name: str, row: int, delimited: bool) -> InputError:
    where, facts = (
        f"In the column {name!r}, row {row}: ",
        {"column": name, "row": row, "value": text},
    )
    if not text.strip():
        return MissingValueError(
            f"{where}is empty.", remedy="Fill in a number, or drop the row.", **facts
        )
    remedy = (
        "Correct it, or say which text means missing with na=..." if delimited else "Correct it."
    )
    if _POINTED.fullmatch(text.strip()):
        remedy = "Write numbers with a point for decimals and nothing between thousands: 1234.5."
    return InputError(f"{where}holds {text!r}, which is not a number.", remedy=remedy, **facts)


def taken(column: Any, rows: Any) -> Any:
    """Give some entries of a column; Arrow itself cannot take from views of text and bytes.

    Examples
    --------
    >>> import pyarrow
    >>> taken(pyarrow.array(["a", "b"], pyarrow.string_view()), pyarrow.array([1, 1])).to_pylist()
    ['b', 'b']
    """
    plain = {"string_view": pyarrow().large_string(), "binary_view": pyarrow().large_binary()}.get(
        str(column.type)
    )
    return column.take(rows) if plain is None else column.cast(plain).take(rows).cast(column.type)


def taken_rows(record: Any, rows: Any) -> Any:
    """Give some rows of a record batch."""
    return pyarrow().RecordBatch.from_arrays(
        [taken(column, rows) for column in record.columns], schema=record.schema
    )


def in_batches(
    record: Any, size: int, first: int = 0, place: str = "", offset: int = 0
) -> Iterator[Batch]:
    """Cut a record batch or a table into batches of at most ``size`` rows."""
    pieces: Sequence[Any] = (
        record.to_batches(max_chunksize=size) if hasattr(record, "to_batches") else [record]
    )
    done = 0
    for piece in pieces:
        for start in range(0, max(piece.num_rows, 1), size):
            part = piece.slice(start, size)
            yield Batch(part, first + done, place, offset + done)
            done += part.num_rows


def evened(batch: Batch, kinds: Mapping[str, Any]) -> Batch:
    """Give a batch with some columns in these types, so that batches of all files are alike."""
    if not kinds:
        return batch
    arrow = pyarrow()
    columns = []
    for name, column in zip(batch.record.schema.names, batch.record.columns, strict=True):
        plain = (
            column.dictionary_decode()
            if name in kinds and hasattr(column, "dictionary")
            else column
        )
        columns.append(plain.cast(kinds[name]) if name in kinds else column)
    fields = [
        field.with_type(column.type)
        for field, column in zip(batch.record.schema, columns, strict=True)
    ]
    return replace(
        batch,
        record=arrow.RecordBatch.from_arrays(
            columns, schema=arrow.schema(fields, batch.record.schema.metadata)
        ),
    )
