"""The certificate file of an output, and the output itself, read as the debiased rows.

Rows are read batch by batch, in order. Repeated rows ("expand") are put together again, so that
they read like rows of probabilities.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import r2b
from r2b._data import Dataset, Schema, Vocabulary
from r2b._data.arrays import Array, Floats
from r2b._data.compute import ahead
from r2b._data.values import json_value
from r2b._files.arrow import pyarrow
from r2b._files.formats import Format, as_text
from r2b._labels import FairLabels
from r2b._labels.realised import Realised
from r2b._labels.rows import Form
from r2b._labels.storage import content_of
from r2b.engines.batch import PIECE_ENTRIES, Batch, numbers_of, taken_rows
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import Relabel
from r2b.engines.tally import plain_type
from r2b.errors import InputError

VERSION = 1
_DEBIASED = "Pass the table that was debiased."
ROWS = "rows are as many as were debiased"


def beside(output: str) -> str:
    """Name the certificate of an output, which may be a folder.

    Examples
    --------
    >>> beside("fair.csv"), beside("fair/")
    ('fair.csv.r2b.json', 'fair.r2b.json')
    """
    return f"{output.rstrip('/' + os.sep) or output}.r2b.json"


@dataclass(frozen=True, eq=False)
class Record:
    """How an output was made.

    Attributes
    ----------
    columns : ColumnRoles
        Its ``key`` names the columns that the draw of a row followed from.
    na : tuple of str
        Text that means missing, in formats that know only text.
    options : dict
        Of ``r2b.debias``; costs stand in the solution itself.
    form : str
    new : tuple of str
        Names of the new columns.
    random_state : int
    reading : dict
        Format, encoding and delimiter of the output.
    fingerprints : dict of str to str
        Of the data and of the new columns, as :func:`fingerprints` gives them.
    n_rows : int
        Of the data.
    command : str
        How it was asked for.
    realised : dict or None
        Parity of the labels as they stand, for one class per row; other forms have that of the
        certificate.
    """

    columns: ColumnRoles
    na: tuple[str, ...]
    options: dict[str, Any]
    form: Form
    new: tuple[str, ...]
    random_state: int
    reading: dict[str, str | None]
    fingerprints: dict[str, str]
    n_rows: int
    command: str = ""
    realised: dict[str, Any] | None = None

    def encoded(self, fair: FairLabels) -> bytes:
        """Return the file: everything that ``FairLabels.save`` writes, and this record."""
        content = {
            **content_of(fair),
            "file": {"version": VERSION, "r2b": r2b.__version__, **self.to_json()},
        }
        # Bytes of a file's name that are no text become escapes, which JSON reads back as they
        # were.
        return (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode(
            "utf-8", "backslashreplace"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values that strict JSON can hold."""
        # The names of classes need not be text, so that numbers by class are pairs.
        options = {
            name: list(value.items()) if isinstance(value, dict) else value
            for name, value in self.options.items()
        }
        plain: dict[str, Any] = json_value(
            {name: getattr(self, name) for name in self.__dataclass_fields__} | {"options": options}
        )
        return plain


_NOT_RECORDED = ("tol", "max_iter", "time_limit", "threads", "costs", "progress")


def reads_again(
    source: FileSource, shape: Format, encoding: str = "utf-8", na: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe how an output in some format is read again by :meth:`FileSource.open`.

    ``encoding`` and ``na`` are those of the input.
    """
    same = shape.kind == source.listing.format.kind
    dialect = getattr(source.files[0], "dialect", None) if same else None
    gaps = tuple(na) if shape.kind in ("csv", "tsv") and na else EMPTY
    reading = {"format": str(shape), "encoding": encoding if same else "utf-8"}
    return {**reading, "delimiter": None if dialect is None else dialect.delimiter, "na": gaps}


def record_of(
    source: FileSource,
    relabel: Relabel,
    made: FileSource,
    reading: dict[str, Any],
    options: dict[str, Any],
    command: str,
    found: Realised | None = None,
) -> Record:
    """Describe for the certificate what was asked for and what was written.

    Parameters
    ----------
    source : FileSource
        What was debiased.
    relabel : Relabel
    made : FileSource
        The output, as it reads again.
    reading : dict
        From :func:`reads_again`.
    options : dict
        Of ``r2b.debias``.
    command : str
        What makes the same output.
    found : Realised, optional
        Of one class per row, what holds for the labels themselves.
    """
    return Record(
        columns=relabel.decode.roles,
        na=reading["na"],
        options={name: value for name, value in options.items() if name not in _NOT_RECORDED},
        form=relabel.form,
        new=relabel.names,
        random_state=relabel.random_state,
        reading={name: value for name, value in reading.items() if name != "na"},
        fingerprints=fingerprints(made, relabel.decode, relabel.form, relabel.names),
        n_rows=source.n_rows or 0,
        command=command,
        realised=None if found is None else found.to_json(),
    )


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
        Distributions of shape (n, n_classes) for "soft" and "expand", codes of shape (n,) for
        "round" and "sample".
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

    @property
    def old(self) -> list[Array | None]:
        """The data as they stand: labels, cells and weights."""
        return [self.data.labels.array, self.data.cells.codes, self.weight]


@dataclass(frozen=True, eq=False)
class Output:
    """Reads an output.

    Attributes
    ----------
    source : FileSource
    decode : Decode
    form : {"soft", "round", "sample", "expand"}
    names : tuple of str
        Of the new columns.
    data : FileSource or None
        The table that was debiased, where the output lacks its columns: rows are in the same order.
    """

    source: FileSource
    decode: Decode
    form: Form
    names: tuple[str, ...]
    data: FileSource | None = None

    def pieces(self) -> Iterator[tuple[Batch, Batch | None]]:
        """Iterate over batches of the output, with the same rows of another table if given."""
        roles = self.decode.roles
        old = tuple(dict.fromkeys([*roles.used, *roles.key]))
        own = self.source if self.data is not None else self.source.with_numbers(roles.numbers)
        beside = (
            None
            if self.data is None
            else _Ahead(self.data.with_numbers(roles.numbers).batches(old), self.data.name)
        )
        most = max(1024, PIECE_ENTRIES // len(self.decode.schema.classes))
        batches = own.run(
            [*(() if beside else old), *self.names],
            lambda batch: batch,
            coded=False,
            most_rows=most,
        )
        if not roles.categorical:  # the cells of a batch are not those of the table
            records = [batch.record for batch in batches]
            batches = iter([Batch(pyarrow().concat_batches(records))] if records else [])
        for batch in self._whole_rows(batches) if self.form == "expand" else batches:
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
        data, labels = (
            batch if data is None else data,
            np.column_stack(made) if self.form == "soft" else made[0],
        )
        return WrittenRows(data, self.decode.read(data), self.decode.weight(data), made, labels)

    def _n_rows(self, batch: Batch) -> int:
        """Count the rows that were debiased in a batch, in which they may be repeated."""
        return (
            len(batch)
            if self.form != "expand"
            else 1 + int(np.count_nonzero(np.diff(self._row_numbers(batch.record))))
        )

    def _row_numbers(self, record: Any) -> Floats:
        return _numbers(record.column(self.names[2]), self.names[2])

    def _gathered(self, batch: Batch, beside: Batch | None, made: list[Array]) -> WrittenRows:
        """Put the copies of rows together: the weights of a row are its probabilities."""
        codes, part, number = made
        new = np.append(True, number[1:] != number[:-1])
        starts, row = np.flatnonzero(new), np.cumsum(new) - 1
        wrong = np.flatnonzero(number[starts] != batch.first + np.arange(len(starts)))
        if len(wrong):
            should = batch.first + wrong[0]
            after = f"row {number[starts[wrong[0]]]:.0f} comes where row {should} should be"
            raise InputError(after, remedy="Repeated rows come in their order.", check=ROWS)
        n_classes, there = len(self.decode.schema.classes), codes >= 0
        place = row[there] * n_classes + codes[there]
        sums = np.bincount(place, part[there], len(starts) * n_classes).reshape(
            len(starts), n_classes
        )
        total = sums.sum(axis=1)
        labels = np.divide(sums, total[:, None], out=np.zeros_like(sums), where=total[:, None] > 0)
        first = (
            Batch(taken_rows(batch.record, pyarrow().array(starts)), batch.first)
            if beside is None
            else beside
        )
        found = WrittenRows(
            first, self.decode.read(first), self.decode.weight(first), made, labels, total
        )
        if beside is not None:
            return found
        pairs = zip(
            replace(found, data=self.decode.read(batch), weight=self.decode.weight(batch)).old,
            found.old,
            strict=True,
        )
        odd = [
            (mine != one[row]).reshape(len(row), -1).any(axis=1)
            for mine, one in pairs
            if mine is not None and one is not None
        ]
        return replace(found, copies=len(np.unique(row[np.any(odd, axis=0)])))

    def _whole_rows(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Iterate over batches that hold all copies of each row, with the number of the first."""
        held, first = None, 0
        for batch in batches:
            record = (
                batch.record if held is None else pyarrow().concat_batches([held, batch.record])
            )
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
        """Return the next rows."""
        while (there := sum(each.num_rows for each in self.held)) < n_rows:
            batch = next(self.batches, None)
            if batch is None:
                raise InputError(
                    f"{self.name} has only {self.first + there:,} rows",
                    remedy=_DEBIASED,
                    check=ROWS,
                )
            self.held.append(batch.record)
        record = pyarrow().concat_batches(self.held) if len(self.held) > 1 else self.held[0]
        self.held = [record.slice(n_rows)]
        self.first += n_rows
        return Batch(record.slice(0, n_rows), self.first - n_rows, self.name, self.first - n_rows)

    def refuse_more(self) -> None:
        """Refuse rows that the output does not have."""
        if any(each.num_rows for each in self.held) or next(self.batches, None) is not None:
            raise InputError(
                f"{self.name} has more than {self.first:,} rows", remedy=_DEBIASED, check=ROWS
            )


def made_columns(
    columns: Mapping[str, Any], form: Form, names: Sequence[str], classes: Any
) -> list[Array]:
    """Read new columns: numbers as such, classes as codes."""
    if form == "soft":
        return [_numbers(columns[name], name) for name in names]
    code = {text: place for place, text in enumerate(as_text(classes, "classes"))}
    coded = columns[names[0]].dictionary_encode()
    known = np.array([*(code.get(text, -1) for text in as_text(coded.dictionary, names[0])), -1])
    codes = known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]
    return [codes, *(_numbers(columns[name], name) for name in names[1:])]


def _numbers(column: Any, name: str) -> Floats:
    numbers = (
        numbers_of(column, name)
        if "string" in str(column.type)
        else column.cast(pyarrow().float64())
    )
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


class Fingerprints:
    """Checksums of columns of rows in order, the same for every format and batch size."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Any]] = {}

    def take(self, rows: WrittenRows) -> None:
        """Add rows: the labels and cells that were read, their weights and the new columns."""
        for name, columns in (("data", rows.old), ("labels", rows.made)):
            seen = self._seen.setdefault(name, [hashlib.sha256() for _ in columns])
            for each, column in zip(seen, columns, strict=True):
                each.update(
                    b""
                    if column is None
                    else np.ascontiguousarray(
                        column, "<f8" if column.dtype.kind == "f" else "<i8"
                    ).tobytes()
                )

    def marks(self) -> dict[str, str]:
        """Return one checksum of the data and one of the new columns."""
        return {
            name: hashlib.sha256(b"".join(each.digest() for each in seen)).hexdigest()
            for name, seen in self._seen.items()
        }


def fingerprints(
    source: FileSource, decode: Decode, form: Form, names: tuple[str, ...]
) -> dict[str, str]:
    """Return the fingerprints of an output: of the debiased rows, and of the new columns."""
    found, spelled = (
        Fingerprints(),
        replace(decode, schema=spelled_schema(decode.schema, source, decode.roles)),
    )
    output = Output(source, spelled, form, names)
    for rows in ahead(output.read, output.pieces()):
        found.take(rows)
    return found.marks()


def spelled_schema(schema: Schema, source: FileSource, roles: ColumnRoles) -> Schema:
    """Return a schema as a table spells it, which may use text for other types."""

    def spelled(vocabulary: Any, name: str) -> Any:
        values = vocabulary.values.tolist()
        if "string" not in str(plain_type(source.kind_of(name))) or any(
            isinstance(each, str) for each in values
        ):
            return vocabulary
        return Vocabulary(
            np.array(as_text(values, name), dtype=np.str_), has_missing=vocabulary.has_missing
        )

    known = dict(zip(schema.columns, schema.vocabularies, strict=True))
    known |= {name: spelled(known[name], name) for name in roles.attributes}
    classes = schema.classes if roles.soft else spelled(schema.classes, roles.label[0])
    return replace(schema, classes=classes, vocabularies=tuple(known.values()))
