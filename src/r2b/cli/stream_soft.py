"""The checks of ``r2b verify`` for probabilities in files: two passes, batch by batch, with nothing kept but sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b import FairLabels
from r2b._constraints.families import Families
from r2b._constraints.families.resolve import resolve
from r2b._constraints.parity import Parity
from r2b._data import Schema
from r2b._data.probabilities import TOLERANCE
from r2b._files.plain import as_text
from r2b._labels.options import request_and_settings
from r2b._labels.realised import realised
from r2b._labels.rows import FairRows
from r2b._solve.certificate import PROVEN, between_groups
from r2b.cli.claims import Check, Verification, realised_check, stated_in_part
from r2b.cli.recheck import FOLLOW, alike, codes_of, same, told
from r2b.cli.record import Record
from r2b.cli.stream_marks import RowMarks, numeric
from r2b.cli.stream_repeats import repeats
from r2b.engines.batch import Batch
from r2b.engines.decode import Decode
from r2b.engines.files import FileSource
from r2b.engines.relabel import Relabel
from r2b.engines.roles import ColumnRoles
from r2b.engines.table_rows import TableRows
from r2b.engines.tally import groups_of

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Look:
    """Looks at batches of an output.

    Attributes
    ----------
    relabel : Relabel
        As the labels are said to have been made.
    shifts : ndarray of shape (n_cells, n_classes)
    lam : float
    codes : dict of str to int
    """

    relabel: Relabel
    shifts: Floats
    lam: float
    codes: dict[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """The new columns."""
        return self.relabel.names

    def rows(self, batch: Batch) -> tuple[Array, Array, Floats]:
        """Give labels, cells and weights; a row that is repeated weighs what its label says."""
        decode = self.relabel.decode
        data, weight = decode.read(batch), decode.weight(batch)
        if self.relabel.form == "expand":
            weight = np.asarray(batch.columns[self.names[1]].to_numpy(zero_copy_only=False), np.float64)
        return data.labels.array, data.groups.codes, np.ones(len(batch)) if weight is None else weight

    def before(self, batch: Batch) -> tuple[Floats, Floats]:
        """Add up the labels that came in, and the weights, by cell."""
        labels, cells, weight = self.rows(batch)
        return _by_cell(cells, weight, labels, len(self.shifts)), np.bincount(cells, weight, minlength=len(self.shifts)).astype(np.float64)

    def after(self, batch: Batch) -> list[Any]:
        """Compare new labels with what the prices say; give sums, slack, size and how far off they are."""
        labels, cells, weight = self.rows(batch)
        data = self.relabel.decode.read(batch)
        expected = np.asarray(FairRows(data, self.relabel.response).matrix(np.float64))
        x, away, simplex, odd, first = expected, np.zeros(len(batch)), 0.0, 0, None
        form = self.relabel.form
        if form == "soft":
            x = np.column_stack([np.asarray(batch.columns[name].to_numpy(zero_copy_only=False), np.float64) for name in self.names])
            away = np.abs(x - expected).max(axis=1)
            simplex = float(max(-x.min(), np.abs(x.sum(axis=1) - 1.0).max())) if np.isfinite(x).all() else np.inf
        else:
            texts = as_text(batch.columns[self.names[0]], self.names[0])
            code = np.array([self.codes.get(text, -1) for text in texts])
            chance = np.where(code >= 0, expected[np.arange(len(batch)), code], 0.0)
            odd = int((chance <= 0).sum())
            if form == "expand":
                own = self.relabel.decode.weight(batch)
                away = np.abs(weight - chance * (1.0 if own is None else own)) / np.maximum(1.0, 1.0 if own is None else own)
            else:
                away = (np.array(as_text(self.relabel(batch).columns[self.names[0]], self.names[0])) != np.array(texts)).astype(float)
        wrong = np.flatnonzero(~(away <= PROVEN))
        if len(wrong):
            first = batch.first + int(wrong[0])
        slope = self.lam * x - labels + self.shifts[cells]
        slack = float(weight @ ((x * slope).sum(axis=1) - slope.min(axis=1)))
        size = 0.5 * self.lam * float(weight @ (x * x).sum(axis=1)) + abs(float(weight @ (x * labels).sum(axis=1)))
        rows = 1.0 / np.maximum((expected > 0).sum(axis=1), 1) if form == "expand" else np.ones(len(batch))
        worst = float(away.max(initial=0.0))
        sums = _by_cell(cells, weight, x, len(self.shifts))
        whole = self._whole(code, cells, weight) if form in ("round", "sample") else 0.0
        return [sums, slack, size, worst, simplex, odd, first, len(wrong), float(rows.sum()), whole]

    def _whole(self, code: Array, cells: Array, weight: Floats) -> Floats:
        """Add up one class per row; what is no class counts for none."""
        n_cells, n_classes = self.shifts.shape
        there = code >= 0
        pairs = cells[there].astype(np.int64) * n_classes + code[there]
        return np.bincount(pairs, weight[there], n_cells * n_classes).astype(np.float64).reshape(n_cells, n_classes)


def _by_cell(cells: Array, weight: Floats, values: Array, n_cells: int) -> Floats:
    return np.column_stack([np.bincount(cells, weight * column, minlength=n_cells) for column in values.T])


def recheck_probabilities(source: FileSource, fair: FairLabels, record: Record, choice: ColumnRoles) -> Verification:
    """Check labels that came as probabilities."""
    numbers = record.new if record.form == "soft" else record.new[1:]
    source = source.reading_numbers(choice)
    decode = Decode(choice, fair.schema, bool(record.options.get("normalize")))
    checks, counted = _known(source, fair, record, choice)
    if counted is None:
        return Verification(checks)
    groups, _ = counted
    relabel = drawn_as(source, fair, record, choice)
    marks = RowMarks(decode, record.form, record.new)  # type: ignore[arg-type]
    look = Look(relabel, relabel.response.shifts, fair.lam, codes_of(fair))
    columns = list(dict.fromkeys([*choice.used, *choice.key, *record.new]))

    def first(batch: Batch) -> Any:
        whole = numeric(batch, numbers)
        return marks.read(whole), look.before(whole)

    sums, mass = 0.0, 0.0
    for (old, new), (labels, weight) in source.run(columns, first, coded=False):
        marks.take(old, new)
        sums, mass = sums + labels, mass + weight
    found = marks.marks()
    checks += [alike("data are those that were debiased", found["data"], record.fingerprints["data"])]
    checks += [alike("labels are those that were written", found["labels"], record.fingerprints["labels"])]
    total = np.asarray(mass, np.float64)
    request, _ = request_and_settings(record.options)
    request = replace(request, names=fair.classes.tolist())
    families, parity = resolve(request, groups, total, np.asarray(sums) / _divisor(total))
    same_groups = families.names.tolist() == fair.groups.tolist()
    checks.append(Check("classes and groups are the same", same_groups, f"{len(fair.classes)} classes, {len(fair.groups)} groups"))
    if not same_groups:
        return Verification(checks)
    return _evidence(source, record, look, (families, parity), fair, np.asarray(sums), total, columns, numbers, checks)


def drawn_as(
    source: FileSource, fair: FairLabels, record: Record, choice: ColumnRoles, schema: Schema | None = None, counted: Any = None
) -> Relabel:
    """Give what made the labels, from the prices and what the certificate says was asked for."""
    rows = TableRows(source, choice, schema or fair.schema, counted, bool(record.options.get("normalize")), total=record.n_rows)
    rule = fair.rule if schema is None else replace(fair.rule, schema=schema)
    return rows.relabelled(rule, record.form, record.new, record.random_state, record.key)  # type: ignore[arg-type]


def _divisor(mass: Floats) -> Floats:
    return np.where(mass > 0, mass, 1.0)[:, None]


def _known(source: FileSource, fair: FairLabels, record: Record, choice: ColumnRoles) -> tuple[list[Check], Any]:
    """Count cells; they must be those of the certificate."""
    tally = source.tally(choice.attributes, choice.weight)
    groups, weight = groups_of(tally, choice, missing=record.options.get("missing", "error"))
    alike_cells = np.array_equal(groups.table, fair.schema.table) and groups.names.tolist() == fair.schema.names.tolist()
    checks = [] if record.form == "expand" else [same("rows are as many as were debiased", tally.n_rows, record.n_rows)]
    if not alike_cells:
        return [*checks, Check("classes and groups are the same", False, f"{groups.n_groups} cells, not {len(fair.schema.table)}")], None
    return checks, (groups, weight)


def _evidence(
    source: FileSource,
    record: Record,
    look: Look,
    settled: tuple[Families, Parity],
    fair: FairLabels,
    labels: Floats,
    mass: Floats,
    columns: list[str],
    numbers: Any,
    checks: list[Check],
) -> Verification:
    families, parity = settled
    prices, form = parity.settle(fair.prices), record.form
    look = Look(look.relabel, parity.shifts(prices), look.lam, look.codes)
    sums, whole, slack, size, worst, simplex = np.zeros_like(look.shifts), np.zeros_like(look.shifts), 0.0, 0.0, 0.0, 0.0
    odd, first, wrong, rows = 0, None, 0, 0.0
    for each in source.run(columns, lambda batch: look.after(numeric(batch, numbers)), coded=False):
        sums, slack, size, worst = sums + each[0], slack + each[1], size + each[2], max(worst, each[3])
        simplex, odd, wrong, rows, whole = max(simplex, each[4]), odd + each[5], wrong + each[7], rows + each[8], whole + each[9]
        first = each[6] if first is None else first
    means = parity.means(sums / _divisor(mass))
    gap = (slack + float(mass.sum()) * (parity.support(prices) - parity.product(prices, means))) / size
    where = "" if first is None else f" in {wrong:,} row{'s' if wrong > 1 else ''}, the first is row {first}"
    checks = [*checks]
    if form == "expand":
        checks.append(same("rows are as many as were debiased", round(rows), record.n_rows))
        checks.append(repeats(source, look.relabel, look.codes, record.n_rows))
    if form == "soft":
        limit = max(TOLERANCE.values()) if fair.unchanged else PROVEN
        checks.append(Check("labels are on the simplex", simplex <= limit, f"off by {simplex:.0e}"))
    else:
        found = "each has a chance above 0" if not odd else f"{odd:,} rows have a label that may not"
        checks.append(Check("every label may be drawn", odd == 0, found))
    off = f"off by {worst:.0e}" if form in ("soft", "expand") else "every row, drawn again" if not wrong else "not as drawn"
    checks.append(Check(FOLLOW, worst <= PROVEN, f"{off}{where}"))
    before = replace(fair.certificate, means_before=parity.means(labels / _divisor(mass)))
    held = realised(families, before, fair.schema, sums, mass)
    proven = told(parity, means, gap, whole=form in ("round", "sample"))
    checks.append(stated_in_part(fair, held, families, look.lam, all(check.ok for check in proven)))
    drawn = realised(families, before, fair.schema, whole, mass) if form in ("round", "sample") else None
    checks += [] if drawn is None else [realised_check(record, drawn)]
    parity_before = float(between_groups(families.members, before.means_before).max())
    return Verification(checks + proven, parity_before, held.parity, drawn)
