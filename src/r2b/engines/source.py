"""Sources and reductions: where a table is, and what is computed from all its rows.

A source has columns and batches of rows in a fixed order; everything else follows from these unless
the source does it better: a count of equal rows, blocks of decoded rows, and results with new
columns. A reduction is made of each batch, and merged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, assert_never

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import Array, Whole
from r2b._data.compute import work_ahead
from r2b._data.merge import joint_codes
from r2b._files.arrow import pyarrow
from r2b._files.formats import as_text
from r2b._files.text import did_you_mean, listed_names
from r2b._labels.forms import FairRows, Response
from r2b._labels.rounding import classes_after
from r2b._labels.rows import FORMS, Form, FormTraits
from r2b._labels.rule import Rule
from r2b._solve.oracle import Block, Blocks, Reduction, merged
from r2b.engines.batch import (
    RELABELLED_ENTRIES,
    RELABELLED_ROWS,
    Batch,
    Fold,
    add,
    in_batches,
    lists_to_matrix,
    one_array,
    one_record,
    plain_type,
    taken,
    taken_rows,
)
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.spool import HeldBlocks, read_blocks, record_of, stored
from r2b.engines.tally import Count, Tally, tally_of
from r2b.errors import EmptyError, InputError, MissingValueError, ParameterError

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
        Whether its rows have an order that every pass repeats. If not, what is drawn for a row
        needs a key.
    has_rows : bool
        Whether rows can be read; False for a table of counts.
    library : str
        That results are frames of; "" for a table that is of none.
    scratch : str or None
        Folder for scratch files; the system's by default.
    threads : int or None
        Threads that decode rows; all cores by default.
    """

    name: str
    names: tuple[str, ...]
    ordered: bool
    has_rows: ClassVar[bool] = True
    library: ClassVar[str] = ""
    scratch: str | None = None
    threads: int | None = None
    most_held: ClassVar[int] = 1 << 28  # bytes of decoded rows; more go to a scratch file

    @property
    def subject(self) -> str:
        """Its name at the start of a sentence; names of files stay as they are."""
        return f"The {self.name[4:]}" if self.name.startswith("the ") else self.name

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield the rows in order, some columns of them, a batch at a time; none is empty.

        For all columns in their order, also those that share a name are there.
        """

    def run(self, columns: Sequence[str], work: Callable[[Batch], Any]) -> Iterator[Any]:
        """Run work on every batch; results come in the order of the batches."""
        return (work(batch) for batch in self.batches(list(dict.fromkeys(columns))))

    def reduce(self, columns: Sequence[str], reduction: Reduction) -> Any:
        """Return the result for all rows; None where there are none."""
        return merged(reduction, self.run(columns, reduction.make))

    def tally(self, keys: Sequence[str], weight: str | None = None) -> Tally:
        """Count the rows of every combination of values, and add up their weights exactly."""
        grouped = self.grouped(keys) if weight is None else None
        if grouped is not None:
            *values, counts = one_record(grouped).columns
            return tally_of(keys, values, counts.to_numpy().astype(np.int64))
        count = Count(tuple(keys), weight)
        return count.tally(self.reduce(count.columns, count))

    def grouped(self, keys: Sequence[str]) -> Any:
        """Return the table of a group-by, where an engine has one: the keys, and last the counts.

        It may end with one combination more than are allowed; names of columns do not matter.
        """
        return None

    @contextmanager
    def blocks(self, decode: Decode) -> Iterator[Blocks]:
        """Keep decoded rows for several passes, in memory or in a scratch file."""
        decoded, held, n_bytes = self._decoded(decode), list[Block](), 0
        blocks = HeldBlocks(lambda: held, self.threads)
        with ExitStack() as stack:
            stack.callback(held.clear)
            for block in decoded:
                held.append(block)
                n_bytes += block.labels.nbytes
                if n_bytes > self.most_held:
                    popped = (held.pop(0) for _ in range(len(held)))
                    records = map(record_of, chain(popped, decoded))
                    file = stack.enter_context(stored(records, self.scratch))
                    blocks = HeldBlocks(partial(read_blocks, file), self.threads)
            yield blocks

    def _decoded(self, decode: Decode) -> Iterator[Block]:
        n_classes = len(decode.schema.classes)
        rows = self._cut(decode.roles.used, max(1, (1 << 24) // n_classes))
        return work_ahead(decode, rows, self.threads)

    def _cut(self, columns: Sequence[str], size: int) -> Iterator[Batch]:
        """Yield the rows, at most so many at a time."""
        for batch in self.batches(columns):
            yield from in_batches(batch.record, size, batch.first, batch.place, batch.offset)

    def frame(self, relabel: Relabel) -> Any:
        """Return the table with new columns, of the kind that came in: a stream by default."""
        made = self.labelled(relabel)
        first = next(made)
        return pyarrow().RecordBatchReader.from_batches(first.schema, chain([first], made))

    def labelled(self, relabel: Relabel) -> Iterator[Any]:
        """Yield record batches of all columns and the new ones; one where there are no rows."""
        batch = None
        for batch in self._cut(self.names, relabel.rows_at_once):
            yield beside(batch.record, relabel(batch))
        if batch is None:
            none = Batch(self.empty(self.names))
            yield beside(none.record, relabel(none))

    def empty(self, columns: Sequence[str]) -> Any:
        """Return a record batch without rows, which tells the types of columns."""
        return pyarrow().record_batch(dict.fromkeys(columns, pyarrow().nulls(0)))

    def write(self, relabel: Relabel, path: str, *, force: bool = False) -> None:
        """Write the table with new columns to files."""
        raise InputError(
            f"{self.subject} is not a file, so there is nothing that says how to write it.",
            remedy="Take frame(...), which is of the kind that came in, and write that.",
        )

    def check(self, chosen: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Refuse columns that are not there, twice in the table, or asked to be two things.

        Parameters
        ----------
        chosen : sequence of (str, sequence of str)
            What names columns, such as an argument, and the columns that it names.

        Raises
        ------
        ParameterError
            Names the column and, where it is not there, one that is much like it.
        """
        role: dict[str, str] = {}
        known = {*self.names}
        for argument, columns in chosen:
            self.refuse_twice(columns)
            for column in columns:
                if column not in known:
                    raise ParameterError(
                        f"{self.subject} has no column {column!r}, which {argument} names.",
                        remedy=self.remedy_for(column),
                        code="unknown-column",
                        column=column,
                        argument=argument,
                    )
                if column in role and "key" not in (argument, role[column]):
                    raise ParameterError(
                        f"The column {column!r} is named by {role[column]} and by {argument}.",
                        remedy="Name each column once.",
                        column=column,
                    )
                role[column] = argument

    def remedy_for(self, column: str) -> str:
        """Return a remedy for a column that is not there."""
        close = did_you_mean(column, self.names)
        return close or f"Its columns are {listed_names(self.names)}."

    def refuse_twice(self, wanted: Sequence[str]) -> None:
        """Refuse names that several columns share."""
        times = Counter(self.names)
        for name in wanted:
            if times[name] > 1:
                places = [place + 1 for place, each in enumerate(self.names) if each == name]
                raise InputError(
                    f"{self.subject} has {len(places)} columns called {name!r} (columns "
                    f"{', '.join(map(str, places))}).",
                    remedy="Give each a name of its own.",
                    column=name,
                    places=places,
                )

    def with_numbers(self, wanted: Sequence[str]) -> Source:
        """Return the table with some columns as numbers; files of text read them so on request."""
        return self

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Read whole columns into memory, as Arrow arrays by name."""
        wanted = list(dict.fromkeys(names))
        parts = [batch.record.select(wanted) for batch in self.batches(wanted)]
        if not parts:
            raise EmptyError(f"{self.subject} has no rows.", remedy="Pass at least one row.")
        table = pyarrow().Table.from_batches(parts)
        return {name: one_array(table.column(name)) for name in wanted}

    def list_length(self, column: str) -> int | None:
        """Return the number of entries of the first list, 0 without rows; None without lists."""
        first, types = self.empty([column]).column(0), pyarrow().types
        if any(test(first.type) for test in (types.is_null, types.is_list, types.is_large_list)):
            batch = next(iter(self.batches([column])), None)  # the type tells no length
            first = first if batch is None else batch.record.slice(0, 1).column(0)
        if types.is_fixed_size_list(first.type):
            return int(first.type.list_size)
        if types.is_list(first.type) or types.is_large_list(first.type):
            return int(lists_to_matrix(first, name=column).shape[1]) if len(first) else 0
        return None

    def refuse_missing(self, column: str, remedy: str) -> None:
        """Find a row without a value (a null or a NaN), and say where it is.

        Raises
        ------
        MissingValueError
            Always, unless no row lacks one after all.
        """
        self.reduce([column], Fold(partial(_refuse_gap, column, remedy), add))


def _refuse_gap(column: str, remedy: str, batch: Batch) -> int:
    gaps = np.asarray(batch.columns[column].is_null(nan_is_null=True))
    for row in np.flatnonzero(gaps)[:1].tolist():
        raise MissingValueError(
            f"In {batch.place_of(row)} has no value in {column!r}.",
            remedy=remedy,
            column=column,
            **batch.facts_of(row),
        )
    return 0


@dataclass(frozen=True, eq=False)
class NewColumns:
    """What is put beside the old columns of a batch.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
    rows : ndarray or None
        Rows of the batch that are written, where they are repeated.
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
        Of the new columns; a single one for "soft" labels is the last class.
    random_state : int
        For "round" and "sample".
    borders : ndarray of shape (n_cells * n_classes, n), optional
        For "round" of class labels without weights: draws at which new classes end, padded for
        :func:`r2b._labels.rounding.classes_after`.
    decided : ndarray of shape (n_rows,), optional
        For "round" of other rows: their classes, in the order of the rows.
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

    @property
    def roles(self) -> ColumnRoles:
        """Which columns are what."""
        return self.decode.roles

    @property
    def traits(self) -> FormTraits:
        """What the form asks of rows, and gives them."""
        return FORMS[self.form]

    @cached_property
    def response(self) -> Response:
        """The map from old to new labels, for every cell of the schema."""
        return self.rule.response(self.decode.schema)

    def rows(self, data: Dataset) -> FairRows:
        """Return the rows of a batch with their new labels."""
        known = self.roles.categorical
        return FairRows(data, self.response if known else self.rule.response(data.cells))

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that must be in a batch."""
        roles = self.roles
        weighs = roles.weight is not None and self.traits.weighed
        key = roles.key if self.traits.drawn else ()
        weight = (roles.weight,) if weighs else ()
        return tuple(dict.fromkeys([*roles.described, *weight, *key]))

    @property
    def rows_at_once(self) -> int:
        """How many rows may get new labels at once: fewer where each gets a number per class."""
        by_row = self.form == "round" and self.borders is None
        if not self.traits.drawn or self.roles.soft or by_row:
            return max(
                1, min(RELABELLED_ENTRIES // len(self.decode.schema.classes), RELABELLED_ROWS)
            )
        return RELABELLED_ROWS

    def __call__(self, batch: Batch) -> NewColumns:
        """Return the new columns of a batch; one without rows has them too."""
        arrow = pyarrow()
        if len(batch) == 0:
            return self._none(batch)
        data = self.decode.read(batch)
        match self.form:
            case "soft":
                matrix = np.ascontiguousarray(self.rows(data).matrix(np.float64).T)
                columns = zip(self.names, matrix[-len(self.names) :], strict=True)
                return NewColumns({name: arrow.array(column) for name, column in columns})
            case "expand":
                rows, codes, parts = self.rows(data).expand()
                weight = self.decode.weight(batch)
                parts = parts if weight is None else parts * weight[rows]
                made = [
                    self._classes(batch, codes),
                    arrow.array(parts),
                    arrow.array(rows + batch.first),
                ]
                return NewColumns(dict(zip(self.names, made, strict=False)), rows)
            case "round" | "sample":
                return NewColumns({self.names[0]: self._classes(batch, self.codes(batch, data))})
        assert_never(self.form)

    def _none(self, batch: Batch) -> NewColumns:
        """Return the new columns of a batch without rows, which have the types of all others."""
        arrow, roles = pyarrow(), self.roles
        kinds = [arrow.float64()] * len(self.names)
        if self.traits.classes:
            classes = self.decode.schema.classes.values.tolist()
            old = arrow.array(classes) if roles.soft else batch.columns[roles.label[0]]
            kinds = [old.type, arrow.float64(), arrow.int64()]
        none = {name: arrow.array([], kind) for name, kind in zip(self.names, kinds, strict=False)}
        return NewColumns(none, np.empty(0, np.int64) if self.traits.repeated else None)

    def codes(self, batch: Batch, data: Dataset) -> Array:
        """Return the classes of a batch for "round" and "sample", as codes."""
        draws = self.decode.draws(batch, self.random_state)
        match self.form:
            case "sample":
                return self.rows(data).sample(draws)
            case "round":
                return self._rounded(batch, data, draws)
            case "soft" | "expand":
                raise AssertionError(f"{self.form!r} gives no class to each row")
        assert_never(self.form)

    def _rounded(self, batch: Batch, data: Dataset, draws: Whole) -> Array:
        if self.response.keeps_all and not data.labels.is_soft:
            return data.labels.array
        if self.borders is not None:
            return classes_after(joint_codes(data), draws, self.borders, data.n_classes)
        if self.decided is not None:
            if self.draws is not None:
                return self.decided[np.searchsorted(self.draws, draws)]
            return self.decided[batch.first : batch.first + len(batch)]
        rows = self.rows(replace(data, weight=self.decode.weight(batch)))
        return rows.round(draws, self.random_state, keyed=True)

    def _classes(self, batch: Batch, codes: Array) -> Any:
        """Return classes with the type of the column they come from."""
        arrow, roles = pyarrow(), self.roles
        classes, places = self.decode.schema.classes.values.tolist(), arrow.array(codes)
        if roles.soft:
            return arrow.array(classes).take(places)
        kind = batch.columns[roles.label[0]].type
        values = arrow.array(classes, type=plain_type(kind))
        if values.type == kind:
            return taken(values, places)
        return arrow.DictionaryArray.from_arrays(places, values).cast(kind)


@dataclass(frozen=True, eq=False)
class RelabelTags(Relabel):
    """Makes the new columns of several tags, each of which is a label of its own.

    Attributes
    ----------
    tags : tuple of Relabel
    """

    tags: tuple[Relabel, ...] = ()

    @classmethod
    def of(cls, tags: Sequence[Relabel]) -> RelabelTags:
        """Put tags of the same rows together."""
        decode, roles = tags[0].decode, tags[0].roles
        every = replace(roles, label=tuple(each.roles.label[0] for each in tags))
        names = tuple(name for each in tags for name in each.names)
        decode = replace(decode, roles=every)
        return cls(decode, tags[0].rule, tags[0].form, names, tags=tuple(tags))

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that must be in a batch."""
        return tuple(dict.fromkeys(name for each in self.tags for name in each.needed))

    @property
    def rows_at_once(self) -> int:
        """How many rows may get new labels at once."""
        return min(each.rows_at_once for each in self.tags)

    def __call__(self, batch: Batch) -> NewColumns:
        """Return the new columns of a batch."""
        found: dict[str, Any] = {}
        for each in self.tags:
            found |= each(batch).columns
        return NewColumns(found)


def new_names(
    form: Form, stem: str | None, roles: ColumnRoles, classes: Sequence[Any], *, ordered: bool
) -> tuple[str, ...]:
    """Name the new columns: one per class for soft labels, else one.

    Repeated rows have their weight too and, if rows are ordered, their number.
    """
    base = f"{roles.stem}_fair" if stem is None else stem
    if not base:
        return ("",)  # refused with names that are taken
    if FORMS[form].repeated:
        return (base, f"{base}_weight", f"{base}_row")[: 3 if ordered else 2]
    if FORMS[form].classes:
        return (base,)
    if stem is None and len(roles.label) > 1:
        return tuple(f"{name}_fair" for name in roles.label)
    for each in classes:
        if isinstance(each, bytes):
            raise ParameterError(
                f"The class {each!r} is bytes, of which no name of a column can be made.",
                remedy="Take 'round', 'sample' or 'expand', which need no column per class, or "
                "cast the labels to text.",
                value=each,
            )
    return tuple(f"{base}_{text}" for text in as_text(list(classes), base))


def beside(record: Any, new: NewColumns) -> Any:
    """Return a record with new columns after its own."""
    arrow = pyarrow()
    if new.rows is not None:
        record = taken_rows(record, arrow.array(new.rows))
    schema = schema_beside(record.schema, new)
    return arrow.RecordBatch.from_arrays([*record.columns, *new.columns.values()], schema=schema)


def schema_beside(schema: Any, new: NewColumns) -> Any:
    """Return the schema of a record with new columns after its own."""
    arrow = pyarrow()
    fields = [arrow.field(name, column.type) for name, column in new.columns.items()]
    return arrow.schema([*schema, *fields], schema.metadata)
