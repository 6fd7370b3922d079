"""An output, read as the rows that were debiased: each with its data, and with what the new columns say of it.

Rows are read batch by batch, in order. Repeated rows ("expand") are put together again, so that they read like rows of probabilities.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data import Dataset, Schema, Vocabulary
from r2b._files.arrow import pyarrow
from r2b._files.text import as_text
from r2b._labels.labels import Form
from r2b.engines.batch import Batch, ahead, in_batches, numbers_of, plain_type, taken_rows
from r2b.engines.files.stored import PIECE_ENTRIES
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import Source
from r2b.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
Floats = NDArray[np.float64]
ROWS = "rows are as many as were debiased"


@dataclass(frozen=True, eq=False)
class WrittenRows:
    """Some of the rows that were debiased, and what the output says of them.

    Attributes
    ----------
    batch : Batch
        The data.
    data : Dataset
        The data, read.
    weight : ndarray or None
        Of each row.
    made : list of ndarray
        The new columns as they stand: numbers, and classes as codes; -1 is no class.
    labels : ndarray
        Distributions of shape (n, n_classes) for "soft" and "expand", codes of shape (n,) for "round" and "sample".
    total : ndarray or None
        For "expand": what the weights of each row add up to.
    copies : int
        For "expand": rows whose copies are not equal.
    """

    batch: Batch
    data: Dataset
    weight: Array | None
    made: list[Array]
    labels: Array
    total: Floats | None = None
    copies: int = 0


@dataclass(frozen=True, eq=False)
class Output:
    """Reads an output.

    Attributes
    ----------
    source : Source
    decode : Decode
    form : {"soft", "round", "sample", "expand"}
    names : tuple of str
        Of the new columns.
    data : Source or None
        The table that was debiased, where the output lacks its columns: rows are in the same order.
    """

    source: Source
    decode: Decode
    form: Form
    names: tuple[str, ...]
    data: Source | None = None

    def pieces(self) -> Iterator[tuple[Batch, Batch | None]]:
        """Give batches of the output in order, and the same rows of the table that was debiased where it is another."""
        roles = self.decode.roles
        old = tuple(dict.fromkeys([*roles.used, *roles.key]))
        own = self.source.reading_numbers(roles).batches([*old, *self.names]) if self.data is None else self.source.batches(self.names)
        beside = None if self.data is None else _Ahead(self.data.reading_numbers(roles).batches(old), self.data.name)
        for batch in self._whole_rows(self._cut(own)) if self.form == "expand" else self._cut(own):
            yield batch, None if beside is None else beside.take(self._n_rows(batch))
        if beside is not None:
            beside.refuse_more()

    def read(self, piece: tuple[Batch, Batch | None]) -> WrittenRows:
        """Read a piece; it may be done in any thread.

        Raises
        ------
        InputError
            A value cannot be read, or rows are not where they should be.
        """
        batch, data = piece
        made = made_columns(batch.columns, self.form, self.names, self.decode.schema.classes.values)
        if self.form == "expand":
            return self._gathered(batch, data, made)
        data, labels = batch if data is None else data, np.column_stack(made) if self.form == "soft" else made[0]
        return WrittenRows(data, self.decode.read(data), self.decode.weight(data), made, labels)

    def _n_rows(self, batch: Batch) -> int:
        """Count the rows that were debiased in a batch, in which they may be repeated."""
        return len(batch) if self.form != "expand" else 1 + int(np.count_nonzero(np.diff(self._row_numbers(batch.record))))

    def _row_numbers(self, record: Any) -> Floats:
        return _numbers(record.column(self.names[2]), self.names[2])

    def _gathered(self, batch: Batch, beside: Batch | None, made: list[Array]) -> WrittenRows:
        """Put the copies of rows together: the weights of a row are its probabilities."""
        codes, part, number = made
        new = np.append(True, number[1:] != number[:-1])
        starts, row = np.flatnonzero(new), np.cumsum(new) - 1
        wrong = np.flatnonzero(number[starts] != batch.first + np.arange(len(starts)))
        if len(wrong):
            after = f"row {number[starts[wrong[0]]]:.0f} comes where row {batch.first + wrong[0]} should"
            raise InputError(f"{after} be.", remedy="Repeated rows come in their order.", check=ROWS)
        n_classes, there = len(self.decode.schema.classes), codes >= 0
        place = row[there] * n_classes + codes[there]
        sums = np.bincount(place, part[there], len(starts) * n_classes).reshape(len(starts), n_classes)
        total = sums.sum(axis=1)
        labels = np.divide(sums, total[:, None], out=np.zeros_like(sums), where=total[:, None] > 0)
        first = Batch(taken_rows(batch.record, pyarrow().array(starts)), batch.first) if beside is None else beside
        data, weight, copies = self.decode.read(first), self.decode.weight(first), 0
        if beside is None:
            alike = _same(self.decode.read(batch), data, row)
            if weight is not None:
                alike &= np.asarray(self.decode.weight(batch)) == weight[row]
            copies = len(np.unique(row[~alike]))
        return WrittenRows(first, data, weight, made, labels, total, copies)

    def _cut(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Give smaller batches where each row has many numbers; one of all rows where attributes are continuous or uncertain."""
        if not self.decode.roles.categorical:
            records = [batch.record for batch in batches]
            yield from [Batch(pyarrow().concat_batches(records))] if records else []
            return
        most = max(1024, PIECE_ENTRIES // len(self.decode.schema.classes))
        for batch in batches:
            for part in in_batches(batch.record, most, batch.first, batch.place):
                if len(part):
                    yield Batch(part.record, part.first, part.place, batch.offset + part.offset)

    def _whole_rows(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Give batches in which all copies of a row are together, each with the number of its first row."""
        held, first = None, 0
        for batch in batches:
            record = batch.record if held is None else pyarrow().concat_batches([held, batch.record])
            others = np.flatnonzero(np.diff(self._row_numbers(record)))
            cut = int(others[-1]) + 1 if len(others) and self.decode.roles.categorical else 0
            if cut:
                yield (whole := Batch(record.slice(0, cut), first, batch.place))
                first += self._n_rows(whole)
            held = record.slice(cut)
        if held is not None:
            yield Batch(held, first)


class _Ahead:
    """Rows of a table that are taken some at a time.

    Parameters
    ----------
    batches : iterator of Batch
    name : str
        Of the table.
    """

    def __init__(self, batches: Iterator[Batch], name: str) -> None:
        self.batches, self.name, self.first = batches, name, 0
        self.held: list[Any] = []

    def take(self, n_rows: int) -> Batch:
        """Give the next rows."""
        while (there := sum(each.num_rows for each in self.held)) < n_rows:
            batch = next(self.batches, None)
            if batch is None:
                raise InputError(
                    f"{self.name} has only {self.first + there:,} rows.", remedy="Pass the table that was debiased.", check=ROWS
                )
            self.held.append(batch.record)
        record = pyarrow().concat_batches(self.held) if len(self.held) > 1 else self.held[0]
        self.held = [record.slice(n_rows)]
        self.first += n_rows
        return Batch(record.slice(0, n_rows), self.first - n_rows, self.name, self.first - n_rows)

    def refuse_more(self) -> None:
        """Refuse rows that the output does not have."""
        if any(each.num_rows for each in self.held) or next(self.batches, None) is not None:
            raise InputError(f"{self.name} has more than {self.first:,} rows.", remedy="Pass the table that was debiased.", check=ROWS)


def made_columns(columns: Mapping[str, Any], form: Form, names: Sequence[str], classes: Any) -> list[Array]:
    """Read new columns: numbers as such, classes as codes."""
    if form == "soft":
        return [_numbers(columns[name], name) for name in names]
    code = {text: place for place, text in enumerate(as_text(classes, "classes"))}
    coded = columns[names[0]].dictionary_encode()
    known = np.array([*(code.get(text, -1) for text in as_text(coded.dictionary, names[0])), -1])
    codes = known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]
    return [codes, *(_numbers(columns[name], name) for name in names[1:])]


def _numbers(column: Any, name: str) -> Floats:
    numbers = numbers_of(column, name) if "string" in str(column.type) else column.cast(pyarrow().float64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _same(data: Dataset, first: Dataset, row: Array) -> Array:
    """Tell which rows are equal to the first of their copies."""
    labels = data.labels.array == first.labels.array[row]
    return np.asarray((labels.all(axis=1) if labels.ndim > 1 else labels) & (data.groups.codes == first.groups.codes[row]))


class Fingerprints:
    """Checksums of rows in order, the same whatever the format and the batches: each column has one of its own."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Any]] = {}

    def take(self, data: Dataset, weight: Array | None, made: Sequence[Array]) -> None:
        """Add rows: the labels and cells that were read, their weights and the new columns."""
        for name, columns in (("data", [data.labels.array, data.groups.codes, weight]), ("labels", made)):
            seen = self._seen.setdefault(name, [hashlib.sha256() for _ in columns])
            for each, column in zip(seen, columns, strict=True):
                each.update(b"" if column is None else np.ascontiguousarray(column, "<f8" if column.dtype.kind == "f" else "<i8").tobytes())

    def marks(self) -> dict[str, str]:
        """Give one checksum of the data and one of the new columns."""
        return {name: hashlib.sha256(b"".join(each.digest() for each in seen)).hexdigest() for name, seen in self._seen.items()}


def fingerprints(source: Source, decode: Decode, form: Form, names: tuple[str, ...]) -> dict[str, str]:
    """Give the fingerprints of an output: of the rows that were debiased, as they are read, and of the new columns."""
    found, spelled = Fingerprints(), replace(decode, schema=spelled_schema(decode.schema, source, decode.roles))
    output = Output(source, spelled, form, names)
    for rows in ahead(output.read, output.pieces()):
        found.take(rows.data, rows.weight, rows.made)
    return found.marks()


def spelled_schema(schema: Schema, source: Any, roles: ColumnRoles) -> Schema:
    """Give a schema as a table spells it: text may stand for values of another type that its format does not have."""

    def spelled(vocabulary: Any, name: str) -> Any:
        values = vocabulary.values.tolist()
        if "string" not in str(plain_type(source.kind_of(name))) or any(isinstance(each, str) for each in values):
            return vocabulary
        return Vocabulary(np.array(as_text(values, name), dtype=np.str_), has_missing=vocabulary.has_missing)

    known = dict(zip(schema.columns, schema.vocabularies, strict=True))
    known |= {name: spelled(known[name], name) for name in roles.attributes}
    return replace(
        schema, classes=schema.classes if roles.soft else spelled(schema.classes, roles.label[0]), vocabularies=tuple(known.values())
    )
