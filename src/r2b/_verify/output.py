"""An output read as the debiased rows, and what rows and new labels add up to.

Rows are read batch by batch, in order. Repeated rows ("expand") are put together again, so that
they read like rows of probabilities. No code here is shared with a solver.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.parity import Parity
from r2b._data import Cells, Dataset, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, divided
from r2b._data.cells import Layout
from r2b._data.compute import work_ahead
from r2b._data.dataset import Labels
from r2b._data.merge import cell_sums, joint_codes
from r2b._data.probabilities import TOLERANCE
from r2b._files.arrow import pyarrow
from r2b._files.formats import as_text
from r2b._labels import FairLabels
from r2b._labels.forms import FairRows
from r2b._labels.realised import rounding_bound
from r2b._labels.rows import Form
from r2b._solve.certificate import PROVEN, Certificate, stated_as
from r2b.engines.batch import (
    PIECE_ENTRIES,
    Batch,
    numbers_of,
    one_record,
    plain_type,
    taken_rows,
)
from r2b.engines.files import FileSource
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import Relabel
from r2b.errors import InputError

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
        The new columns as they stand: numbers, and classes as codes.
    labels : Labels
        Distributions for "soft" and "expand", classes for "round" and "sample".
    total : ndarray or None
        For "expand": what the weights of each row add up to.
    """

    batch: Batch
    data: Dataset
    weight: Array | None
    made: list[Array]
    labels: Labels
    total: Floats | None = None


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
    data : FileSource
        The table that was debiased, in the same order: the output itself, or another table.
    """

    source: FileSource
    decode: Decode
    form: Form
    names: tuple[str, ...]
    data: FileSource

    def pieces(self) -> Iterator[tuple[Batch, Batch]]:
        """Yield batches with all copies of their rows, and the debiased rows that they are of."""
        roles, names, source = self.decode.roles, self.names, self.source
        old, table = tuple(dict.fromkeys([*roles.used, *roles.key])), None
        if self.data is source:
            source, names = source.with_numbers(roles.numbers), (*old, *names)
        else:
            table = pyarrow().table(self.data.with_numbers(roles.numbers).columns(old))
        most = max(1024, PIECE_ENTRIES // len(self.decode.schema.classes))
        batches = source.run(names, lambda batch: batch, coded=False, most_rows=most)
        if self.form == "expand":
            records = whole_rows((batch.record for batch in batches), self.names[2])
            batches = map(Batch, records)
        if not roles.categorical:  # the cells of a batch are not those of the table
            every = [batch.record for batch in batches]
            batches = iter([Batch(pyarrow().concat_batches(every))] if every else [])
        end = 0
        for batch in batches:
            first, rows = end, batch
            if self.form == "expand":
                starts = pyarrow().array(copies(batch.record, self.names[2])[0])
                rows = Batch(taken_rows(batch.record, starts))
            end += len(rows)
            if table is not None:
                if end > len(table):
                    break
                record = one_record(table.slice(first, len(rows)))
                rows = Batch(record, first, self.data.name, first)
            yield replace(batch, first=first), replace(rows, first=first)
        if table is not None and end != len(table):
            problem = f"{self.data.name} has {len(table):,} rows, and the output others"
            raise InputError(problem, remedy="Pass the table that was debiased.", check=ROWS)

    def read(self, piece: tuple[Batch, Batch]) -> WrittenRows:
        """Read a piece; it may be done in any thread.

        Raises
        ------
        InputError
            A value cannot be read, or rows are not where they should be.
        """
        (batch, rows), classes, total = piece, self.decode.schema.classes, None
        made = made_columns(batch.columns, self.form, self.names, classes.values)
        if self.form == "soft":
            labels = Labels(classes, matrix=np.column_stack(made))
        elif self.form == "expand":
            labels, total = self._gathered(batch, made)
        else:
            labels = Labels(classes, codes=made[0])
        data, weight = self.decode.read(rows), self.decode.weight(rows)
        return WrittenRows(rows, data, weight, made, labels, total)

    def _gathered(self, batch: Batch, made: list[Array]) -> tuple[Labels, Floats]:
        """Put the copies of rows together: the weights of a row are its probabilities."""
        codes, weight, number = made
        starts, row, _ = copies(batch.record, self.names[2])
        wrong = np.flatnonzero(number != batch.first + row)
        if len(wrong):
            place = wrong[0]
            after = f"row {number[place]:.0f} comes where row {batch.first + row[place]} should be"
            raise InputError(after, remedy="Repeated rows come in their order.", check=ROWS)
        shape = len(starts), len(self.decode.schema.classes)
        sums = np.bincount(row * shape[1] + codes, weight, shape[0] * shape[1]).reshape(shape)
        total = sums.sum(axis=1)
        return Labels(self.decode.schema.classes, matrix=divided(sums, total[:, None])), total


def copies(record: Any, name: str) -> tuple[Array, Array, Floats]:
    """Tell repeated rows apart by the column of their numbers.

    Returns
    -------
    starts : ndarray
        Places of the first copies.
    row, number : ndarray
        For each copy which of these rows it repeats, and the number that stands there.
    """
    number = _numbers(record.column(name), name)
    new = np.append(True, number[1:] != number[:-1])
    return np.flatnonzero(new), np.cumsum(new) - 1, number


def whole_rows(records: Iterable[Any], name: str) -> Iterator[Any]:
    """Cut records of repeated rows anew, so that all copies of a row are in one."""
    held = None
    for record in records:
        record = record if held is None else pyarrow().concat_batches([held, record])
        last = int(copies(record, name)[0][-1])
        if last:
            yield record.slice(0, last)
        held = record.slice(last)
    if held is not None:
        yield held


def made_columns(
    columns: Mapping[str, Any], form: Form, names: Sequence[str], classes: Any
) -> list[Array]:
    """Read new columns: numbers as such, classes as codes.

    Raises
    ------
    InputError
        A number cannot be read, or a label is no class.
    """
    if form == "soft":
        found = [_numbers(columns[name], name) for name in names]
        return found if len(found) > 1 else [1.0 - found[0], *found]  # a tag
    place = {text: number for number, text in enumerate(as_text(classes, "classes"))}
    coded, name = columns[names[0]].dictionary_encode(), names[0]
    known = np.array([*(place.get(text, -1) for text in as_text(coded.dictionary, name)), -1])
    codes = known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]
    if (codes < 0).any():
        problem = f"{int((codes < 0).sum()):,} are none"
        raise InputError(problem, remedy="Name labels by classes.", check="labels are classes")
    return [codes, *(_numbers(columns[name], name) for name in names[1:])]


def _numbers(column: Any, name: str) -> Floats:
    spelled = "string" in str(column.type)
    numbers = numbers_of(column, name) if spelled else column.cast(pyarrow().float64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def checksums(pieces: Iterable[WrittenRows]) -> dict[str, str]:
    """Return one checksum of the debiased rows, and one of the new columns.

    They are the same for every format and batch size.
    """
    seen: dict[str, list[Any]] = {}
    for rows in pieces:
        weight = np.empty(0) if rows.weight is None else rows.weight
        data = [rows.data.labels.array, rows.data.cells.codes, weight]
        for name, columns in (("data", data), ("labels", rows.made)):
            marks = seen.setdefault(name, [hashlib.sha256() for _ in columns])
            for mark, column in zip(marks, columns, strict=True):
                kind = "<f8" if column.dtype.kind == "f" else "<i8"
                mark.update(np.ascontiguousarray(column, kind).tobytes())
    return {
        name: hashlib.sha256(b"".join(mark.digest() for mark in marks)).hexdigest()
        for name, marks in seen.items()
    }


def fingerprints(
    source: FileSource, decode: Decode, form: Form, names: tuple[str, ...]
) -> dict[str, str]:
    """Return the checksums of an output: of the debiased rows, and of the new columns."""
    schema = spelled_schema(decode.schema, source, decode.roles)
    output = Output(source, replace(decode, schema=schema), form, names, source)
    return checksums(work_ahead(output.read, output.pieces()))


def spelled_schema(schema: Schema, source: FileSource, roles: ColumnRoles) -> Schema:
    """Return a schema as a table spells it, which may use text for other types."""

    def spelled(vocabulary: Any, name: str) -> Any:
        values = vocabulary.values.tolist()
        text = "string" in str(plain_type(source.kind_of(name)))
        if not text or any(isinstance(each, str) for each in values):
            return vocabulary
        texts = np.array(as_text(values, name), dtype=np.str_)
        return Vocabulary(texts, has_missing=vocabulary.has_missing)

    known = dict(zip(schema.columns, schema.vocabularies, strict=True))
    known |= {name: spelled(known[name], name) for name in roles.attributes}
    classes = schema.classes if roles.soft else spelled(schema.classes, roles.label[0])
    return replace(schema, classes=classes, vocabularies=tuple(known.values()))


class RowSums:
    """Adds up rows of an output.

    Parameters
    ----------
    relabel : Relabel
        Makes the labels again, from the prices and what the certificate says was asked for.

    Attributes
    ----------
    shifts : ndarray of shape (n_cells, n_classes)
        What the prices add to each class in each cell.
    sums : dict
        Arrays and numbers that are added up: of labels before and after by cell, of rows, and the
        terms of the gap.
    most : dict
        Numbers of which the largest is kept: how far off rows are; and minus the number of the
        first row whose label does not follow from the prices.
    groups : Cells or None
        The cells of the rows; None where there are no rows.
    """

    def __init__(self, relabel: Relabel) -> None:
        self.relabel, self.whole = relabel, relabel.form in ("round", "sample")
        self.shifts = relabel.response.shifts
        self.sums: dict[str, Any] = defaultdict(float)
        self.most: dict[str, float] = defaultdict(lambda: -np.inf)
        self.groups: Cells | None = None

    def look(self, rows: WrittenRows) -> tuple[dict[str, Any], dict[str, float]]:
        """Return what some rows add up to, and how far off they are; it may be done in any thread.

        Numbers that are none are found, not warned of.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            return self._look(rows)

    def _look(self, rows: WrittenRows) -> tuple[dict[str, Any], dict[str, float]]:
        data, labels, rule = rows.data, rows.labels, self.relabel.rule
        fair = self.relabel.rows(data)
        self.shifts, self.groups = fair.response.shifts, data.cells
        weight = np.ones(len(rows.batch)) if rows.weight is None else rows.weight
        old, cells, mass, x, place = _alike(fair, weight)
        sums: dict[str, Any] = {"rows": len(rows.batch)}
        worth = old if rule.costs is None else old @ -rule.costs
        slope, apart = rule.lam * x - worth + self.shifts[cells], x - old
        terms = [
            (x * slope).sum(axis=1) - slope.min(axis=1),
            (x * x).sum(axis=1),
            (x * worth).sum(axis=1),
            (apart * apart).sum(axis=1),
            0.5 * np.abs(apart).sum(axis=1),
        ]
        sums["terms"] = np.array([mass @ term for term in terms])
        expected = [np.bincount(cells, mass * column, len(self.shifts)) for column in x.T]
        sums["expected"] = np.column_stack(expected)
        sums["mass"], sums["before"] = cell_sums(data.labels, data.cells, rows.weight)
        sums["count"] = np.bincount(data.cells.codes, minlength=data.n_cells)
        if not data.labels.is_soft:
            sums["classes"] = np.bincount(data.labels.array, minlength=data.n_classes)
        most = {"weight": float(weight.max()), "lightest": float(-weight.min())}
        most["simplex"] = _off_simplex(x)
        if labels.matrix is None:
            away = (labels.array != self.relabel.codes(rows.batch, data)).astype(np.float64)
        else:
            if rows.total is not None:  # a row without weight has no copy that says its label
                there = rows.total[:, None] > 0
                labels = replace(labels, matrix=np.where(there, labels.matrix, x[place]))
                off = np.abs(rows.total - weight) / np.maximum(1.0, rows.total)
                most["apart"] = float(off.max()) if np.isfinite(off).all() else np.inf
            away = np.abs(labels.array - x[place]).max(axis=1)
            most["off"] = _off_simplex(labels.array)
        _, sums["after"] = cell_sums(labels, data.cells, rows.weight)
        _, sums["plain"] = cell_sums(labels, data.cells, None)
        wrong = np.flatnonzero(~(away <= PROVEN))
        sums["wrong"], most["away"] = len(wrong), float(away.max())
        if len(wrong):
            most["first"] = -float(rows.batch.first + wrong[0])
        return sums, most

    def add(self, sums: dict[str, Any], most: dict[str, float]) -> None:
        """Add what was seen of the next rows."""
        for name, value in sums.items():
            self.sums[name] = self.sums[name] + value
        for name, value in most.items():  # a number that is none stays
            self.most[name] = float(np.maximum(self.most[name], value))

    def cell_means(self, name: str) -> Floats:
        """Return means of cells from the sums of this name; a cell without weight has none."""
        return divided(self.sums[name], self.sums["mass"][:, None])

    def certificate(self, fair: FairLabels, parity: Parity, lam: float) -> Certificate:
        """Certify the labels as they are or, for one class per row, their distributions."""
        total = float(self.sums["mass"].sum())
        slack, squared_norm, agreement, distance, moved = (self.sums["terms"] / total).tolist()
        means, before = (
            parity.means(self.cell_means(name))
            for name in ("expected" if self.whole else "after", "before")
        )
        settled, size = parity.settle(fair.prices), 0.5 * lam * squared_norm
        # The slack of a row changes by at most twice what its prices do.
        beyond = parity.largest_shift(settled - fair.prices) + float(
            np.abs(parity.shifts(fair.prices) - self.shifts).max()
        )
        gap = slack + 2.0 * beyond + parity.support(settled) - parity.product(settled, means)
        # Labels that go out as they came in may be farther off the simplex, by the type in which
        # they came.
        stated = fair.certificate.simplex_allowance
        allowance = stated if stated in TOLERANCE.values() else TOLERANCE[np.dtype(np.float64)]
        costliest = 0.0 if fair.costs is None else float(fair.costs.max())
        return stated_as(
            parity,
            means,
            before,
            size,
            agreement,
            gap,
            costliest,
            distance=distance,
            expected_changes=moved,
            simplex_violation=self.most["simplex"],
            simplex_allowance=allowance if fair.unchanged else PROVEN,
        )

    def _moved(self, parity: Parity) -> Floats:
        """Return how far the group means of the labels are from those expected."""
        return np.abs(parity.means(self.cell_means("after") - self.cell_means("expected")))

    def beyond_promise(
        self, cells: Layout, families: Families, parity: Parity, *, weighted: bool
    ) -> tuple[float, float]:
        """Return how far group means of rounded labels are from the optimum, and beyond promise."""
        heaviest, count = self.most["weight"] if weighted else None, self.sums["count"] * 1.0
        n_classes, away = self.shifts.shape[1], self._moved(parity).max(axis=1)
        allowed = rounding_bound(families, cells, count, self.sums["mass"], heaviest, n_classes)
        return float(away.max()), float((away - allowed).max())

    def beyond_chance(self, cells: Layout, families: Families, parity: Parity) -> float:
        """Return how much farther group means of drawn labels are from those expected than chance.

        By Bernstein's inequality one mean is as far off as that with a chance below 1e-10.
        """
        most, expected = 24.0, parity.means(self.cell_means("expected"))
        rows = families.cells_of_groups(cells, self.sums["mass"])[1] / self.most["weight"]
        spread = np.clip(expected * (1.0 - expected), 0.0, None) / rows[:, None]
        allowed = np.sqrt(2.0 * most * spread) + 2.0 * most / (3.0 * rows[:, None])
        return float((self._moved(parity) - allowed).max())


def _alike(fair: FairRows, weight: Floats) -> tuple[Floats, Array, Floats, Floats, Array | slice]:
    """Return old labels, cells, weights and new labels of rows, and the place of each row there.

    Rows of one cell and class are alike: they are looked at once, with their weight together.
    """
    data = fair.dataset
    if data.labels.is_soft:
        x = np.asarray(fair.matrix(np.float64))
        return np.asarray(data.labels.array, np.float64), data.cells.codes, weight, x, slice(None)
    pairs, place = np.unique(joint_codes(data), return_inverse=True)
    cells, classes = np.divmod(pairs.astype(np.intp), data.n_classes)
    x = np.asarray(fair.response.of_classes(classes, cells))
    mass = np.bincount(place, weight).astype(np.float64)
    return np.eye(data.n_classes)[classes], cells, mass, x, place


def _off_simplex(x: Array) -> float:
    if not np.isfinite(x).all():
        return np.inf
    return float(max(0.0, -x.min(), np.abs(x.sum(axis=1) - 1.0).max()))
