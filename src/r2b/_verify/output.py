"""An output read as the debiased rows, and what rows and new labels add up to.

Rows are read batch by batch, in order. Repeated rows ("expand") are put together again, so that
they read like rows of probabilities. No code here is shared with a solver.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.parity import Parity
from r2b._data import Dataset, Schema, Vocabulary
from r2b._data.arrays import Array, Floats
from r2b._data.cells import Layout
from r2b._data.compute import matrix_parts, work_ahead
from r2b._data.merge import cell_sums, joint_codes
from r2b._data.probabilities import TOLERANCE
from r2b._files.arrow import pyarrow
from r2b._files.formats import as_text
from r2b._labels import FairLabels
from r2b._labels.realised import rounding_bound
from r2b._labels.rows import Form
from r2b._solve.certificate import PROVEN, Certificate, stated_as
from r2b.engines.batch import PIECE_ENTRIES, Batch, numbers_of, plain_type, taken_rows
from r2b.engines.files import FileSource
from r2b.engines.roles import ColumnRoles, Decode
from r2b.engines.source import Relabel
from r2b.errors import InputError

_DEBIASED = "Pass the table that was debiased."
ROWS = "rows are as many as were debiased"
Seen = tuple[dict[str, Any], dict[str, float], int | None]
_TERMS = ("slack", "squared_norm", "agreement", "distance", "moved")


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
    """

    batch: Batch
    data: Dataset
    weight: Array | None
    made: list[Array]
    labels: Array
    total: Floats | None = None

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
        return WrittenRows(
            first, self.decode.read(first), self.decode.weight(first), made, labels, total
        )

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
        found = [_numbers(columns[name], name) for name in names]
        return found if len(found) > 1 else [1.0 - found[0], *found]  # a tag
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
    for rows in work_ahead(output.read, output.pieces()):
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


class RowSums:
    """Adds up rows of an output.

    Parameters
    ----------
    relabel : Relabel
        Makes the labels again, from the prices and what the certificate says was asked for.

    Attributes
    ----------
    response : Response
        What the prices make of old labels.
    sums : dict
        Arrays and numbers that are added up: of labels before and after by cell, of rows, and the
        terms of the gap.
    most : dict
        Numbers of which the largest is kept: how far off rows are.
    first : int or None
        The first row whose label does not follow from the prices.
    """

    def __init__(self, relabel: Relabel) -> None:
        self.relabel, self.whole = relabel, relabel.form in ("round", "sample")
        self.response = relabel.response
        self.sums: dict[str, Any] = defaultdict(float)
        self.most: dict[str, float] = defaultdict(lambda: -np.inf)
        self.first: int | None = None

    def look(self, rows: WrittenRows) -> tuple[Seen, WrittenRows]:
        """Look at some rows, and give them back; it may be done in any thread."""
        # numbers that are none are found, not warned of
        with np.errstate(invalid="ignore", over="ignore"):
            return self._look(rows), rows

    def _look(self, rows: WrittenRows) -> Seen:
        data, fair = rows.data, self.relabel.rows(rows.data)
        self.response = fair.response
        n_cells, n_classes = self.response.shifts.shape
        cells, weight = (
            data.cells.codes.astype(np.int64),
            np.ones(len(rows.batch)) if rows.weight is None else rows.weight,
        )
        expected = (
            np.asarray(fair.matrix(np.float64)) if data.labels.is_soft or not self.whole else None
        )
        sums: dict[str, Any] = {
            "rows": len(rows.batch),
            "unknown": int((rows.made[0] < 0).sum()),
        }
        most = {"weight": float(weight.max()), "lightest": float(-weight.min())}
        mass, sums["before"] = cell_sums(data.labels, data.cells, rows.weight)
        if data.labels.is_soft:
            assert expected is not None
            sums |= {"count": np.bincount(cells, minlength=n_cells), "mass": mass}
            terms, most["simplex"] = self._terms(
                np.asarray(data.labels.array, np.float64), cells, weight, expected
            )
            sums |= terms
        else:
            sums["count"] = np.bincount(joint_codes(data), minlength=n_cells * n_classes).reshape(
                n_cells, n_classes
            )
        if not self.whole:
            assert expected is not None
            x = (
                rows.labels
                if rows.total is None
                else np.where(rows.total[:, None] > 0, rows.labels, expected)
            )
            sums["after"] = _by_cell(cells, weight, x, n_cells)
            if rows.weight is not None:
                sums["plain"] = _by_cell(cells, np.ones(len(cells)), x, n_cells)
            away, most["off"] = np.abs(x - expected).max(axis=1), _off_simplex(x)
        else:
            there = rows.labels >= 0
            pairs = cells[there] * n_classes + rows.labels[there]
            sums["after"] = np.bincount(pairs, weight[there], n_cells * n_classes).reshape(
                n_cells, n_classes
            )
            if rows.weight is not None:
                plain = np.bincount(pairs, minlength=n_cells * n_classes)
                sums["plain"] = plain.reshape(n_cells, n_classes)
            away = (rows.labels != self.relabel.codes(rows.batch, data)).astype(np.float64)
        wrong = np.flatnonzero(~(away <= PROVEN))
        sums["wrong"], most["away"] = len(wrong), float(away.max())
        if rows.total is not None:
            apart = np.abs(rows.total - weight) / np.maximum(1.0, rows.total)
            most["apart"] = float(apart.max()) if np.isfinite(apart).all() else np.inf
        return sums, most, rows.batch.first + int(wrong[0]) if len(wrong) else None

    def add(self, sums: dict[str, Any], most: dict[str, float], first: int | None) -> None:
        """Add what was seen of the next rows."""
        for name, value in sums.items():
            self.sums[name] = self.sums[name] + value
        for name, value in most.items():
            self.most[name] = value if np.isnan(value) else max(self.most[name], value)
        self.first = first if self.first is None else self.first

    def finish(self) -> None:
        """Add the terms of class labels, which are the same for all rows of a cell and a class."""
        if "slack" in self.sums:
            return
        n_classes, before = self.response.shifts.shape[1], self.sums["before"]
        self.sums["mass"] = before.sum(axis=1)
        places = np.flatnonzero(self.sums["count"])
        for part in matrix_parts(len(places), n_classes):
            cells, classes = np.divmod(places[part], n_classes)
            labels = np.zeros((len(cells), n_classes))
            labels[np.arange(len(cells)), classes] = 1.0
            table = self.response.table
            x = (
                self.response.of_rows(labels, cells)
                if table is None or self.response.unchanged
                else table[cells, classes]
            )
            terms, simplex = self._terms(labels, cells, before.ravel()[places[part]], x)
            self.add(terms, {"simplex": simplex}, None)

    def _terms(
        self, labels: Floats, cells: Array, weight: Floats, x: Floats
    ) -> tuple[dict[str, Any], float]:
        response = self.response
        worth = labels if response.costs is None else labels @ -response.costs
        slope, apart = response.lam * x - worth + response.shifts[cells], x - labels
        each = [
            (x * slope).sum(axis=1) - slope.min(axis=1),
            (x * x).sum(axis=1),
            (x * worth).sum(axis=1),
            (apart * apart).sum(axis=1),
            0.5 * np.abs(apart).sum(axis=1),
        ]
        found: dict[str, Any] = {
            name: float(weight @ term) for name, term in zip(_TERMS, each, strict=True)
        }
        return found | {"expected": _by_cell(cells, weight, x, len(response.shifts))}, _off_simplex(
            x
        )

    def cell_means(self, name: str) -> Floats:
        """Return means of cells from the sums of this name; a cell without weight has none."""
        mass = self.sums["mass"][:, None]
        return np.asarray(
            np.divide(self.sums[name], mass, out=np.zeros_like(self.sums[name]), where=mass > 0)
        )

    def certificate(self, fair: FairLabels, parity: Parity, lam: float) -> Certificate:
        """Certify the labels as they are or, for one class per row, their distributions."""
        total = float(self.sums["mass"].sum())
        slack, squared_norm, agreement, distance, moved = (
            self.sums[name] / total for name in _TERMS
        )
        means, before = (
            parity.means(self.cell_means(name))
            for name in ("expected" if self.whole else "after", "before")
        )
        settled, size = parity.settle(fair.prices), 0.5 * lam * squared_norm
        # The slack of a row changes by at most twice what its prices do.
        beyond = parity.largest_shift(settled - fair.prices) + float(
            np.abs(parity.shifts(fair.prices) - self.response.shifts).max()
        )
        gap = slack + 2.0 * beyond + parity.support(settled) - parity.product(settled, means)
        # Labels that go out as they came in may be farther off the simplex, by the type in which
        # they came.
        stated = fair.certificate.simplex_allowance
        allowance = stated if stated in TOLERANCE.values() else TOLERANCE[np.dtype(np.float64)]
        costliest = 0.0 if fair.costs is None else float(fair.costs.max())
        off_simplex = {
            "simplex_violation": self.most["simplex"],
            "simplex_allowance": allowance if fair.unchanged else PROVEN,
        }
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
            **off_simplex,
        )

    def beyond_promise(
        self, cells: Layout, families: Families, parity: Parity, *, weighted: bool
    ) -> tuple[float, float]:
        """Return how far group means of rounded labels are from the optimum, and beyond promise."""
        count = (
            self.sums["count"].reshape(len(self.sums["mass"]), -1).sum(axis=1).astype(np.float64)
        )
        heaviest = self.most["weight"] if weighted else None
        allowed = rounding_bound(
            families, cells, count, self.sums["mass"], heaviest, self.response.shifts.shape[1]
        )
        away = np.abs(parity.means(self.cell_means("after") - self.cell_means("expected"))).max(
            axis=1
        )
        return float(away.max()), float((away - allowed).max())


def _by_cell(cells: Array, weight: Floats, values: Array, n_cells: int) -> Floats:
    return np.column_stack([np.bincount(cells, weight * column, n_cells) for column in values.T])


def _off_simplex(x: Array) -> float:
    return (
        float(max(0.0, -x.min(), np.abs(x.sum(axis=1) - 1.0).max()))
        if np.isfinite(x).all()
        else np.inf
    )
