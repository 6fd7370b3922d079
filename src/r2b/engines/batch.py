"""A batch of rows on its way through: Arrow columns, and where they come from, so that an error can say it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import cores
from r2b._files.arrow import pyarrow, pyarrow_compute
from r2b.errors import EmptyError, InputError, MissingValueError, ProbabilityError, R2BError

if TYPE_CHECKING:
    from r2b._files.formats import Format
    from r2b.engines.files.reading import Stored
    from r2b.engines.source import Relabel

Item = TypeVar("Item")
Result = TypeVar("Result")
PIECE_ROWS = 1 << 20
PIECE_ENTRIES = 1 << 22  # numbers of a piece where its columns hold lists
_FILL = "Fill or drop such rows."
_POINTED = re.compile(r"[-+]?\d[\d ,.'_\u00a0\u2009\u202f\u2019]*")  # as people of many countries write a number


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
            raise placed_error(error, self, labels) from error


def placed_error(error: InputError, batch: Batch, labels: str = "y") -> R2BError:
    """Give the same error with the place of the batch, its row in the table, and the labels called by their columns."""
    facts: dict[str, Any] = dict(error.facts)
    row = facts.get("row")
    where = batch.place or "the table"
    if isinstance(row, int):
        where += f", row {batch.offset + row}"
        facts["row"] = batch.first + row
        facts["row_in_place"] = batch.offset + row
    facts["place"] = batch.place
    problem = error.problem if row is None else error.problem.replace(f"ow {row} ", f"ow {batch.first + row} ", 1)
    problem = problem.replace("In y, ", f"In {labels}, ", 1).replace(" of y ", f" of {labels} ", 1)
    # What was counted was counted in this batch alone: others have not been looked at.
    problem = problem.replace("it is the only such row", "it is the only such row of this part")
    remedy = error.remedy.replace(" in all)", " in this part)")
    return type(error)(f"In {where}: {problem}", remedy=remedy, **facts)


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
        raise ProbabilityError(f"Row {row} has no list of probabilities in {name!r}.", remedy=_FILL, row=row, column=name)
    lengths = np.asarray(compute.list_value_length(column).to_numpy(zero_copy_only=False))
    if n_classes is None and len(lengths) == 0:
        raise EmptyError("There are no rows, and so no list of probabilities.", remedy="Pass at least one row.")
    wanted = int(lengths[0]) if n_classes is None else n_classes
    wrong = np.flatnonzero(lengths != wanted)
    if len(wrong):
        row = int(wrong[0])
        raise ProbabilityError(
            f"Row {row} has a list of {int(lengths[row])} probabilities in {name!r}, not of {wanted}.",
            remedy="Give every row one probability per class, in the same order.",
            row=row,
            column=name,
            length=int(lengths[row]),
            n_classes=wanted,
        )
    values = column.flatten()
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]) // max(wanted, 1)
        raise ProbabilityError(f"Row {row} has a missing probability in {name!r}.", remedy=_FILL, row=row, column=name)
    if not arrow.types.is_floating(values.type):
        if not (arrow.types.is_integer(values.type) or arrow.types.is_decimal(values.type) or arrow.types.is_null(values.type)):
            raise ProbabilityError(
                f"The lists in {name!r} hold {values.type}, not numbers.",
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
    where, facts = f"In the column {name!r}, row {row}: ", {"column": name, "row": row, "value": text}
    if not text.strip():
        return MissingValueError(f"{where}is empty.", remedy="Fill in a number, or drop the row.", **facts)
    remedy = "Correct it, or say which text means missing with na=..." if delimited else "Correct it."
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
    plain = {"string_view": pyarrow().large_string(), "binary_view": pyarrow().large_binary()}.get(str(column.type))
    return column.take(rows) if plain is None else column.cast(plain).take(rows).cast(column.type)


def taken_rows(record: Any, rows: Any) -> Any:
    """Give some rows of a record batch."""
    return pyarrow().RecordBatch.from_arrays([taken(column, rows) for column in record.columns], schema=record.schema)


def plain_type(kind: Any) -> Any:
    """Give the type of the values behind a dictionary."""
    return kind.value_type if hasattr(kind, "value_type") and hasattr(kind, "index_type") else kind


def same_values(one: Any, other: Any) -> bool:
    """Say whether two types hold the same values, however text is laid out.

    Examples
    --------
    >>> import pyarrow
    >>> same_values(pyarrow.string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.large_string()))
    True
    >>> same_values(pyarrow.int32(), pyarrow.int64())
    False
    """
    mine, others = (str(plain_type(kind)).removeprefix("large_").removesuffix("_view") for kind in (one, other))
    # Lists and structs are one thing only where they are equal: their parts may differ in ways that text does not show.
    return mine == others if not pyarrow().types.is_nested(plain_type(one)) else one == other


def in_batches(record: Any, size: int, first: int = 0, place: str = "", offset: int = 0) -> Iterator[Batch]:
    """Cut a record batch or a table into batches of at most ``size`` rows."""
    pieces: Sequence[Any] = record.to_batches(max_chunksize=size) if hasattr(record, "to_batches") else [record]
    done = 0
    for piece in pieces:
        for start in range(0, max(piece.num_rows, 1), size):
            part = piece.slice(start, size)
            yield Batch(part, first + done, place, offset + done)
            done += part.num_rows


def list_length_of(kind: Any, name: str, first: Callable[[], Any]) -> int | None:
    """Give the number of entries of lists of this type; ``first`` gives a column of the first row where the type does not tell."""
    types = pyarrow().types
    if types.is_fixed_size_list(kind):
        return int(kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return int(lists_to_matrix(one_array(first()), name=name).shape[1])
    return None


def ahead(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """Give results in the order of the items while threads work on the next few.

    Unlike a pool's own ``map`` it does not take all items at once: what waits is bounded, and so is the memory.

    Examples
    --------
    >>> list(ahead(abs, [-1, -2, -3], threads=2))
    [1, 2, 3]
    """
    n_threads = cores() if threads is None else threads
    if n_threads <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n_threads)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()
        pool.shutdown(wait=True)


def piece_rows(schema: Any, columns: Sequence[str] | None) -> int:
    """Give how many rows of these columns may be held at once: fewer where they hold lists."""
    types, kinds = pyarrow().types, [column.type for column in schema if columns is None or column.name in columns]
    width = sum(int(kind.list_size) if types.is_fixed_size_list(kind) else 16 if types.is_nested(kind) else 1 for kind in kinds)
    return max(1024, min(PIECE_ROWS, PIECE_ENTRIES // max(width, 1)))


def rows_at_once(relabel: Relabel) -> int:
    """Give how many rows may get new labels at once: fewer where each gets a number per class."""
    wide = relabel.form in ("soft", "expand") or relabel.decode.roles.soft or (relabel.form == "round" and relabel.borders is None)
    return max(1024, PIECE_ENTRIES // len(relabel.decode.schema.classes)) if wide else PIECE_ROWS


def refuse_other_columns(files: Sequence[Stored], shape: Format) -> None:
    """Refuse files whose columns are not those of the first; text may be laid out in any way, such as codes in one file only.

    Raises
    ------
    InputError
        Names the column, both files and, where it has one in both, its types.
    """
    first = files[0]
    mine = {each.name: each.type for each in first.schema}
    one = first.part.name
    for other in files:
        two, others = other.part.name, {each.name: each.type for each in other.schema}
        for name in [*mine, *others]:
            if name not in others:
                problem = f"{two} has no column {name!r}, which {one} has."
            elif name not in mine:
                problem = f"{two} has a column {name!r}, which {one} has not."
            elif not same_values(mine[name], others[name]):
                problem = f"The column {name!r} holds {mine[name]} in {one} and {others[name]} in {two}."
            else:
                continue
            raise InputError(problem, remedy=_remedy(shape), column=name, path=other.part.path, first=first.part.path)


def _remedy(shape: Format) -> str:
    remedy = "Give all files the same columns, or read those that belong together"
    if shape.kind == "arrow":
        return f"{remedy}."
    reader = "read_csv" if shape.is_text else "read_parquet"
    return f"{remedy}; or let DuckDB make one table of them, and scan its relation: FROM {reader}('...', union_by_name=true)."


def uneven_columns(files: Sequence[Stored]) -> dict[str, Any]:
    """Give the columns that files lay out in different ways, and the type that all of them can have."""
    arrow, names = pyarrow(), files[0].schema.names
    found: dict[str, Any] = {}
    for column in [each for each in files[0].schema if names.count(each.name) == 1]:
        if len({file.schema.field(column.name).type for file in files}) > 1:
            kind = plain_type(column.type)
            found[column.name] = arrow.large_string() if "string" in str(kind) else arrow.large_binary() if "binary" in str(kind) else kind
    return found


def evened(batch: Batch, kinds: Mapping[str, Any]) -> Batch:
    """Give a batch with some columns in these types, so that batches of all files are alike."""
    if not kinds:
        return batch
    arrow = pyarrow()
    columns = []
    for name, column in zip(batch.record.schema.names, batch.record.columns, strict=True):
        plain = column.dictionary_decode() if name in kinds and hasattr(column, "dictionary") else column
        columns.append(plain.cast(kinds[name]) if name in kinds else column)
    fields = [field.with_type(column.type) for field, column in zip(batch.record.schema, columns, strict=True)]
    return replace(batch, record=arrow.RecordBatch.from_arrays(columns, schema=arrow.schema(fields, batch.record.schema.metadata)))
