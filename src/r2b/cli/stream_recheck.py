"""The checks of ``r2b verify`` for outputs that were written part by part: from counts for class labels, else batch by batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b import FairLabels
from r2b._data import Schema, Vocabulary
from r2b._files.plain import as_text
from r2b._labels.label_rows import MemoryRows
from r2b._labels.options import request_and_settings
from r2b._labels.realised import Realised
from r2b._labels.task import MemoryTask
from r2b._solve.certificate import PROVEN
from r2b.cli.claims import Check, Verification, realised_check, stated
from r2b.cli.recheck import FOLLOW, Evidence, alike, codes_of, how_many_differ, of_soft, proof_of, same, typed
from r2b.cli.record import Record
from r2b.cli.stream_marks import marks_of_counts, rows_of, written_counts
from r2b.cli.stream_repeats import repeats
from r2b.cli.stream_reports import chosen
from r2b.cli.stream_soft import drawn_as, recheck_probabilities
from r2b.cli.streams import StreamedTable, columns_of
from r2b.engines.batch import Batch
from r2b.engines.files import FileSource
from r2b.engines.roles import ColumnRoles
from r2b.engines.tables import Scan
from r2b.engines.tally import Tally, dataset_of
from r2b.errors import R2BError

Floats = NDArray[np.float64]


def recheck_stream(source: FileSource, fair: FairLabels, record: Record) -> Verification:
    """Check labels in files."""
    table = StreamedTable(source.name, source.listing.format, source.names)
    table.check([*record.selection.used, *record.key], "named in the certificate")
    table.check(record.new, "named in the certificate")
    choice = replace(chosen(Scan(source), columns_of(record.selection)), key=record.key)
    try:
        if choice.soft:
            return recheck_probabilities(source, fair, record, choice)
        return _of_counts(source, fair, record, choice)
    except R2BError as error:
        return Verification([Check("data can be read as they were", False, error.problem)])


def _of_counts(source: FileSource, fair: FairLabels, record: Record, choice: ColumnRoles) -> Verification:
    old, form = (choice.label[0], *choice.attributes), record.form
    counts = written_counts(source, old, choice.weight, form, record.new)  # type: ignore[arg-type]
    marks = marks_of_counts(counts, old, form)  # type: ignore[arg-type]
    rows = rows_of(counts, old, form)  # type: ignore[arg-type]
    checks = [same("rows are as many as were debiased", sum(rows.values()), record.n_rows)]
    checks += [alike("data are those that were debiased", marks["data"], record.fingerprints["data"])]
    checks += [alike("labels are those that were written", marks["labels"], record.fingerprints["labels"])]
    counts, spelled = _as_fitted(counts, fair, choice)
    found = counts if form != "expand" else _gathered(counts, old, record.new[0])
    request, settings = request_and_settings(record.options)
    data = dataset_of(replace(found, columns={name: found.columns[name] for name in old}), choice, missing=request.missing)
    job = MemoryTask.of(data, request, settings, fair.costs)
    known = [job.families.names.tolist() == fair.groups.tolist(), data.schema.classes.values.tolist() == fair.classes.tolist()]
    checks.append(Check("classes and groups are the same", all(known), f"{len(fair.classes)} classes, {len(fair.groups)} groups"))
    if not all(known):
        return Verification(checks)
    proof = job.certify(fair)
    checks.append(stated(fair, proof, job.families, job.schema, job.problem(job.parity).lam))
    weight = found.count.astype(np.float64) if found.weight is None else found.weight
    weighed = replace(data, weight=weight)
    evidence = Evidence(replace(job, dataset=weighed), replace(fair, rows=MemoryRows(weighed)))
    expected = np.asarray(evidence.fair.soft_labels, dtype=np.float64)
    realised_ = None
    if form in ("round", "sample"):
        more, realised_ = _of_whole(evidence, record, found, expected)
        checks += more
        if realised_ is not None:
            checks.append(_drawn_again(source, fair, record, choice, data, spelled))
        checks += proof_of(evidence, expected, whole=True)
    else:
        try:
            checks += of_soft(evidence, _distributions(evidence, record, counts, found, old), expected)
        except (KeyError, ValueError, TypeError) as error:
            checks.append(Check("labels are probabilities", False, str(error)))
        if form == "expand":
            schema = _spelled_schema(fair.schema, choice.label[0], spelled)
            checks.append(repeats(source, drawn_as(source, fair, record, choice, schema), codes_of(fair), record.n_rows))
    return Verification(checks, proof.parity_before, proof.parity, realised_)


def _as_fitted(counts: Tally, fair: FairLabels, choice: ColumnRoles) -> tuple[Tally, set[str]]:
    """Give text back the type that it had before a format without types took it away, and say which columns that was needed for."""
    known: dict[str, Any] = dict(zip(fair.schema.columns, fair.schema.vocabularies, strict=True))
    columns, spelled = dict(counts.columns), set()
    for name in (choice.label[0], *choice.attributes):
        values = fair.classes if name == choice.label[0] else known[name].values
        plain = columns[name].to_pylist()
        columns[name] = typed(plain, values)
        if columns[name] != plain:
            spelled.add(name)
    return replace(counts, columns=columns), spelled


def _spelled_schema(schema: Schema, label: str, spelled: set[str]) -> Schema:
    """Give a schema that reads columns of text that stand for values of another type."""

    def textual(vocabulary: Any) -> Vocabulary:
        return Vocabulary(np.array(as_text(vocabulary.values, label), dtype=np.str_), has_missing=vocabulary.has_missing)

    named = zip(schema.columns, schema.vocabularies, strict=True)
    vocabularies = tuple(textual(each) if name in spelled else each for name, each in named)
    return replace(schema, classes=textual(schema.classes) if label in spelled else schema.classes, vocabularies=vocabularies)


def _gathered(counts: Tally, old: tuple[str, ...], new: str) -> Tally:
    """Give the rows before they were repeated: every combination of old columns once, with its rows and weight."""
    keys = list(zip(*(counts.columns[name] for name in old), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    count, weight = np.zeros(len(places), np.int64), np.zeros(len(places))
    assert counts.weight is not None
    for key, rows, mass in zip(keys, counts.count.tolist(), counts.weight.tolist(), strict=True):
        count[places[key]] = max(count[places[key]], rows)
        weight[places[key]] += mass
    columns = {name: [key[place] for key in places] for place, name in enumerate(old)}
    return Tally(columns, count, weight)


def _distributions(evidence: Evidence, record: Record, counts: Tally, found: Tally, old: tuple[str, ...]) -> Floats:
    """Read the new labels of every combination as probabilities."""
    if record.form == "soft":
        return np.column_stack([np.array([float(value) for value in counts.columns[name].to_pylist()]) for name in record.new])
    code = codes_of(evidence.fair)
    places = {key: place for place, key in enumerate(zip(*(found.columns[name] for name in old), strict=True))}
    x = np.zeros((len(found.count), len(code)))
    keys = zip(*(counts.columns[name] for name in old), strict=True)
    labels = as_text(counts.columns[record.new[0]], record.new[0])
    assert counts.weight is not None and found.weight is not None
    for key, label, rows, mass in zip(keys, labels, counts.count.tolist(), counts.weight.tolist(), strict=True):
        if rows != found.count[places[key]]:
            raise ValueError(f"of {found.count[places[key]]:,} rows {rows:,} are repeated for {label!r}")
        x[places[key], code[label]] += mass
    total = x.sum(axis=1)
    x[total > 0] /= total[total > 0, None]
    if record.selection.weight is None and np.abs(total / found.count - 1.0).max() > PROVEN:
        raise ValueError("the weights of a row do not add up to 1")
    x[total == 0] = np.asarray(evidence.fair.soft_labels)[total == 0]  # rows of no weight say nothing about their labels
    return x


def _of_whole(evidence: Evidence, record: Record, found: Tally, expected: Floats) -> tuple[list[Check], Realised | None]:
    """Check one class per row: each is possible, the counts are those that were promised, and the parity is what is stated."""
    code, texts = codes_of(evidence.fair), as_text(found.columns[record.new[0]], record.new[0])
    unknown = next((text for text in texts if text not in code), None)
    if unknown is not None:
        return [Check("labels are classes", False, f"{unknown!r} is none")], None
    labels = np.array([code[text] for text in texts])
    chance = expected[np.arange(len(labels)), labels]
    odd = int(found.count[chance <= 0].sum())
    told = "each has a chance above 0" if not odd else f"{odd:,} rows have a label that may not"
    realised_ = evidence.realised(labels)
    checks = [Check("every label may be drawn", odd == 0, told), realised_check(record, realised_)]
    if record.form == "round" and record.selection.weight is None:
        checks.append(_whole_counts(evidence.job.dataset, labels, found.count, expected))
    return checks, realised_


def _whole_counts(data: Any, labels: NDArray[Any], count: NDArray[Any], expected: Floats) -> Check:
    """Check that every class of every cell has its fair number of rows, rounded up or down."""
    n_cells, n_classes = data.n_groups, expected.shape[1]
    got = np.bincount(data.groups.codes.astype(np.int64) * n_classes + labels, count, n_cells * n_classes).reshape(n_cells, n_classes)
    wanted = np.column_stack([np.bincount(data.groups.codes, count * p, n_cells) for p in expected.T])
    off = float(np.abs(got - wanted).max())
    return Check("counts are the fair ones, rounded", off <= 1.0 + PROVEN * float(count.sum()), f"at most {off:.2f} rows away")


def differing_rows(drawn: Any, written: Any, name: str, first: int) -> tuple[int, int | None]:
    """Count rows whose labels differ, and give the number of the first."""
    kinds = {str(drawn.type), str(written.type)}
    if len(kinds) == 1 and drawn.equals(written):
        return 0, None
    one, other = as_text(drawn, name), as_text(written, name)
    wrong = [row for row, (mine, its) in enumerate(zip(one, other, strict=True)) if mine != its]
    return len(wrong), first + wrong[0] if wrong else None


def _drawn_again(source: FileSource, fair: FairLabels, record: Record, choice: ColumnRoles, counted: Any, spelled: set[str]) -> Check:
    """Draw every row again from its key and the prices."""
    schema = _spelled_schema(fair.schema, choice.label[0], spelled)
    relabel = drawn_as(source, fair, record, choice, schema, counted)
    name = record.new[0]

    def differing(batch: Batch) -> tuple[int, int | None]:
        return differing_rows(relabel(batch).columns[name], batch.columns[name], name, batch.first)

    total, first = 0, None
    for wrong, row in source.reading_numbers(choice).run([*relabel.needed, name], differing, coded=False):
        total, first = total + wrong, row if first is None else first
    return Check(FOLLOW, total == 0, how_many_differ(total, first) if total else "every row, drawn again")
