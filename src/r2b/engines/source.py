"""Where a table lives, and what is sent to its rows.

A source counts equal rows, runs work on batches, keeps coded blocks, and leaves with new columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import Array, Whole, smallest_unsigned
from r2b._data.merge import joint_codes
from r2b._files.arrow import pyarrow
from r2b._files.formats import as_text
from r2b._labels.forms import FairRows, Response
from r2b._labels.labels import Form
from r2b._labels.rounding import classes_after, padded, round_rows
from r2b._labels.rule import Rule
from r2b._solve.oracle import Blocks, Reduction
from r2b.engines.batch import (
    PIECE_ENTRIES,
    RELABELLED_ROWS,
    Batch,
    lists_to_matrix,
    one_array,
    taken,
    taken_rows,
)
from r2b.engines.roles import Decode
from r2b.engines.tally import Count, Tally, plain_type
from r2b.errors import EmptyError, InputError, MissingValueError, ParameterError


@dataclass(frozen=True, eq=False)
class NewColumns:
    """What is put beside the old columns of a batch.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
    rows : ndarray or None
        Rows of the batch that leave, where they are repeated.
    """

    columns: dict[str, Any]
    rows: Whole | None = None


@dataclass(frozen=True, eq=False)
class Relabel:
    """Makes new columns; it can be pickled and sent to where the rows are.

    Attributes
    ----------
    decode : Decode
    rule : Rule
    form : {"soft", "round", "sample", "expand"}
    names : tuple of str
        Of the new columns.
    random_state : int
        For "round" and "sample".
    borders : ndarray of shape (n_cells * n_classes, n_classes - 1), optional
        For "round" of class labels without weights: draws at which new classes end, see
        :mod:`r2b._labels.rounding`.
    decided : ndarray of shape (n_rows,), optional
        For "round" of other rows: their classes, decided one after the other, in the order of the
        rows.
    draws : ndarray of shape (n_rows,), optional
        Where rows have no order: the draws of the decided rows, rising. Where a table is too large
        for that, the rows of each batch are rounded together.
    """

    decode: Decode
    rule: Rule
    form: Form
    names: tuple[str, ...]
    random_state: int = 0
    borders: Whole | None = None
    decided: Array | None = None
    draws: Whole | None = None

    @cached_property
    def response(self) -> Response:
        """The map from old to new labels, for every cell of the schema."""
        return self.rule.response(self.decode.schema)

    @cached_property
    def _ends(self) -> Whole:
        assert self.borders is not None
        return padded(self.borders)

    def rows(self, data: Dataset) -> FairRows:
        """Give the rows of a batch with their new labels."""
        return FairRows(
            data,
            self.response if self.decode.roles.categorical else self.rule.response(data.cells),
        )

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that must be in a batch."""
        roles = self.decode.roles
        weight = (
            () if roles.weight is None or self.form not in ("expand", "round") else (roles.weight,)
        )
        return tuple(
            dict.fromkeys(
                [
                    *roles.described,
                    *weight,
                    *(roles.key if self.form in ("round", "sample") else ()),
                ]
            )
        )

    @property
    def rows_at_once(self) -> int:
        """How many rows may get new labels at once: fewer where each gets a number per class."""
        wide = (
            self.form in ("soft", "expand")
            or self.decode.roles.soft
            or (self.form == "round" and self.borders is None)
        )
        most = PIECE_ENTRIES // len(self.decode.schema.classes) if wide else RELABELLED_ROWS
        return max(1024, min(most, RELABELLED_ROWS))

    def __call__(self, batch: Batch) -> NewColumns:
        """Make the new columns of a batch; one without rows has them too."""
        if len(batch) == 0:
            label = (
                None if self.decode.roles.soft else batch.columns[self.decode.roles.label[0]].type
            )
            none = {
                name: pyarrow().array([], kind)
                for name, kind in zip(self.names, self.kinds(label), strict=False)
            }
            return NewColumns(none, np.empty(0, np.int64) if self.form == "expand" else None)
        data = self.decode.read(batch)
        if self.form == "soft":
            return self._soft(data)
        if self.form == "expand":
            return self._expanded(batch, data)
        return NewColumns({self.names[0]: self._classes(batch, self.codes(batch, data))})

    def kinds(self, label: Any) -> list[Any]:
        """Give the Arrow types of new columns, where the labels are classes of this type."""
        arrow = pyarrow()
        if self.form == "soft":
            return [arrow.float64()] * len(self.names)
        classes = (
            arrow.array(self.decode.schema.classes.values.tolist()).type
            if self.decode.roles.soft
            else label
        )
        return [classes, arrow.float64(), arrow.int64()][: len(self.names)]

    def codes(self, batch: Batch, data: Dataset) -> Array:
        """Give the classes of a batch for "round" and "sample", as codes."""
        draws = self.decode.draws(batch, self.random_state)
        return (
            self.rows(data).sample(draws)
            if self.form == "sample"
            else self._rounded(batch, data, draws)
        )

    def _soft(self, data: Dataset) -> NewColumns:
        arrow = pyarrow()
        matrix = self.rows(data).matrix(np.float64)
        return NewColumns(
            {
                name: arrow.array(np.ascontiguousarray(matrix[:, k]))
                for k, name in enumerate(self.names)
            }
        )

    def _expanded(self, batch: Batch, data: Dataset) -> NewColumns:
        arrow = pyarrow()
        rows, codes, parts = self.rows(data).expand()
        weight = self.decode.weight(batch)
        if weight is not None:
            parts = parts * weight[rows]
        made = [self._classes(batch, codes), arrow.array(parts), arrow.array(rows + batch.first)]
        return NewColumns(dict(zip(self.names, made, strict=False)), rows)

    def _rounded(self, batch: Batch, data: Dataset, draws: Whole) -> Array:
        if self.response.unchanged and not data.labels.is_soft:
            return data.labels.array
        if self.borders is not None:
            return classes_after(joint_codes(data), draws, self._ends, data.n_classes)
        if self.decided is not None:
            mine: Any = slice(batch.first, batch.first + len(batch))
            return self.decided[mine if self.draws is None else np.searchsorted(self.draws, draws)]
        weight = self.decode.weight(batch)
        # neighbours in the attribute, which rows are rounded by
        if not self.decode.roles.categorical:
            return self.rows(replace(data, weight=weight)).round(
                draws, self.random_state, keyed=True
            )
        matrix = self.rows(data).matrix(np.float64)
        cells, codes = data.cells.codes, np.empty(len(matrix), smallest_unsigned(data.n_classes))
        # In the order of their draws: the result depends on which rows are in the batch, not on how
        # they are ordered in it.
        order = np.lexsort((draws, cells))
        starts = np.flatnonzero(np.diff(cells[order].astype(np.int64))) + 1
        for mine in np.split(order, starts):
            codes[mine] = round_rows(
                matrix[mine], draws[mine], None if weight is None else weight[mine]
            )
        return codes

    def _classes(self, batch: Batch, codes: Array) -> Any:
        """Give classes with the type of the column they come from."""
        arrow = pyarrow()
        roles, classes = self.decode.roles, self.decode.schema.classes.values
        if roles.soft:
            return arrow.array(classes.tolist()).take(arrow.array(codes))
        kind = batch.columns[roles.label[0]].type
        plain = plain_type(kind)
        values = arrow.array(classes.tolist(), type=plain)
        if plain is kind:
            return taken(values, arrow.array(codes))
        return arrow.DictionaryArray.from_arrays(arrow.array(codes), values).cast(kind)


class Partial(Protocol):
    """What is asked of all rows: made of some of them, and put together in their order.

    It can be pickled, and so can what it gives, which has a size of its own however many rows there
    are: what would grow beyond that is refused here. It changes nothing that it is given, so that
    work is repeated where a worker was lost.
    """

    def make(self, batch: Batch) -> Any:
        """Give the part of a batch."""
        ...

    def merge(self, one: Any, other: Any) -> Any:
        """Put together the part of some rows and that of later ones."""
        ...


@dataclass(frozen=True)
class Gaps:
    """Refuses a row without a value, a null or a NaN, and says where it is; there are more ways out for attributes than for labels."""

    column: str
    remedy: str

    def make(self, batch: Batch) -> None:
        """Look at the rows of a batch."""
        gaps = np.asarray(
            batch.columns[self.column].is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        )
        if gaps.any():
            row = int(np.flatnonzero(gaps)[0])
            with batch.placed():
                raise MissingValueError(
                    f"Row {row} has no value in {self.column!r}.",
                    remedy=self.remedy,
                    column=self.column,
                    row=row,
                )

    def merge(self, one: None, other: None) -> None:
        """Nothing was missing."""


def new_names(
    form: Form, stem: str | None, roles: Any, classes: Sequence[Any], *, ordered: bool
) -> tuple[str, ...]:
    """Name the new columns: one per class for soft labels, one for whole ones; for repeated rows weight and, in order, row number too."""
    base = f"{roles.stem}_fair" if stem is None else stem
    if form == "soft":
        if stem is None and len(roles.label) > 1:
            return tuple(f"{name}_fair" for name in roles.label)
        bytes_ = next((each for each in classes if isinstance(each, bytes)), None)
        if bytes_ is not None:
            problem = f"The class {bytes_!r} is bytes, of which no name of a column can be made."
            remedy = "Take 'round', 'sample' or 'expand', which need no column per class, or cast the labels to text."
            raise ParameterError(problem, remedy=remedy, value=bytes_)
        return tuple(f"{base}_{text}" for text in as_text(list(classes), base))
    if form == "expand":
        return (base, f"{base}_weight", f"{base}_row")[: 3 if ordered else 2]
    return (base,)


NO_LABEL = "Every row needs a label: fill in those that are missing, or drop their rows."
NO_ATTRIBUTE = (
    "Fill or drop such rows, or make them a group of their own with `missing='group'`, "
    "or leave them out with `missing='exclude'`."
)


class Source(ABC):
    """A table that is not in memory.

    Attributes
    ----------
    name : str
        How errors call it.
    names : tuple of str
        Of its columns.
    ordered : bool
        Whether its rows have an order that every pass meets again. If not, what is drawn for a row
        needs a key.
    library : str
        That results are frames of; "" for a table that is of none.
    """

    name: str
    names: tuple[str, ...]
    ordered: bool
    library: ClassVar[str] = ""

    @cached_property
    def _list_lengths(self) -> dict[str, int | None]:
        return {}

    def list_length(self, column: str) -> int | None:
        """Give the number of entries of the lists in a column, from its first row, 0 without rows; None where it holds no lists."""
        # kept: an engine may answer one query at a time, and this is asked while rows are streamed
        if column not in self._list_lengths:
            self._list_lengths[column] = self.first_list_length(column)
        return self._list_lengths[column]

    @abstractmethod
    def first_list_length(self, column: str) -> int | None:
        """Look at the first row for the number of entries of its list; None where the column holds no lists."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Give the rows in order, some columns of them, a batch at a time."""

    def run(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        """Run work on every batch; results come in the order of the batches."""
        return (work(batch) for batch in self.batches(columns))

    def reduce(self, columns: Sequence[str], partial: Partial) -> Any:
        """Give the part of all rows; None where there are none. Elsewhere it is put together where the rows are."""
        return folded(partial, self.run(columns, partial.make))

    def with_numbers(self, wanted: Sequence[str]) -> Source:
        """Give the same table with some columns, such as weights, as numbers; files of text read them so on request."""
        return self

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Read whole columns into memory, as Arrow arrays by name."""
        arrow = pyarrow()
        wanted = list(dict.fromkeys(names))
        parts = [batch.record.select(wanted) for batch in self.batches(wanted)]
        if not parts:
            raise EmptyError(f"{self.subject} has no rows.", remedy="Pass at least one row.")
        table = arrow.Table.from_batches(parts).combine_chunks()
        return {name: one_array(table.column(name)) for name in wanted}

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination of values, and add up their weights."""
        count = Count(tuple(keys), weight)
        return count.tally(self.reduce(count.columns, count))

    @abstractmethod
    def blocks(self, decode: Decode) -> AbstractContextManager[Blocks]:
        """Keep the rows as coded blocks for several passes; what was made for them is gone at the end."""

    @abstractmethod
    def frame(self, relabel: Relabel) -> Any:
        """Give the table with new columns, of the kind that came in."""

    def write(self, relabel: Relabel, path: str, *, force: bool = False) -> None:
        """Write the table with new columns to files."""
        raise InputError(
            f"{self.subject} is not a file, so there is nothing that says how to write it.",
            remedy="Take frame(...), which is of the kind that came in, and write that.",
        )

    def refuse_missing(self, column: str, remedy: str) -> None:
        """Find a row without a value, and say where it is.

        Parameters
        ----------
        column : str
        remedy : str
            There are more ways out for attributes than for labels.

        Raises
        ------
        MissingValueError
            Always, unless no row lacks one after all.
        """
        self.reduce([column], Gaps(column, remedy))

    @property
    def subject(self) -> str:
        """Its name at the start of a sentence; names of files stay as they are."""
        return f"The {self.name[4:]}" if self.name.startswith("the ") else self.name


def folded(partial: Reduction, parts: Iterable[Any]) -> Any:
    """Put parts together in their order; None where there are none."""
    merge, several = partial.merge, iter(parts)
    total: Any = next(several, None)
    for each in several:
        total = merge(total, each)
    return total


def joined(record: Any, relabel: Relabel, batch: Batch) -> Any:
    """Put the new columns of a batch beside the columns of a record that has the same rows."""
    return beside(record, relabel(batch))


def beside(record: Any, new: NewColumns) -> Any:
    """Put new columns beside the columns of a record."""
    arrow = pyarrow()
    if new.rows is not None:
        record = taken_rows(record, arrow.array(new.rows))
    fields = [
        *record.schema,
        *(arrow.field(name, column.type) for name, column in new.columns.items()),
    ]
    return arrow.RecordBatch.from_arrays(
        [*record.columns, *new.columns.values()],
        schema=arrow.schema(fields, record.schema.metadata),
    )


def list_length_of(kind: Any, name: str, first: Callable[[], Any]) -> int | None:
    """Give the number of entries of lists of this type; ``first`` gives a column of the first row where the type does not tell."""
    types = pyarrow().types
    if types.is_fixed_size_list(kind):
        return int(kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        column = one_array(first())
        return int(lists_to_matrix(column, name=name).shape[1]) if len(column) else 0
    return None
