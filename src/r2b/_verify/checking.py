"""``r2b.verify``: an output against its certificate, from the data alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from r2b._constraints.families import Families, Request
from r2b._constraints.families.resolve import resolve
from r2b._constraints.parity import Parity
from r2b._data import Groups, Schema, Vocabulary, read
from r2b._data.arrays import plain_value
from r2b._data.probabilities import TOLERANCE
from r2b._files.plain import as_text
from r2b._labels import FairLabels
from r2b._labels.options import request_and_settings
from r2b._labels.realised import Realised, realised
from r2b._solve.certificate import PROVEN, Certificate
from r2b._verify.claims import Check, Verification, claim_of, difference, insisted
from r2b._verify.evidence import RowSums
from r2b._verify.record import Record, beside, read_record
from r2b._verify.rows import ROWS, Fingerprints, Output, WrittenRows, spelled_schema
from r2b.engines.applying import recounted
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.relabel import Relabel
from r2b.engines.roles import names_of, refuse_columns
from r2b.engines.spool import ahead
from r2b.engines.table_rows import TableRows, read_rows
from r2b.engines.tally import Tally, dataset_of, groups_of
from r2b.errors import FileFormatError, InputError, ParameterError, R2BError

FOLLOWED = "the certificate can be followed"


def verify(
    output: str | PathLike[str],
    certificate: str | PathLike[str] | None = None,
    *,
    data: str | PathLike[str] | None = None,
    label: str | Sequence[str] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    epsilon: float | Mapping[Any, float] | None = None,
    **reading: Any,
) -> Verification:
    r"""Check the fair labels in an output from the data: means, parity, bound and, from the prices, that no labels in parity are closer.

    No number in the certificate is believed: it says what was asked for and holds the prices, which prove or do not. An edited label, price
    or number makes a check fail.

    Parameters
    ----------
    output : path
        A file or folder that ``r2b debias`` wrote.
    certificate : path, optional
        The file that was written beside it by default.
    data : path, optional
        The table that was debiased, where the output no longer has its columns: the same rows in the same order.
    label, sensitive_features : str or list of str, optional
        Insist that these are the columns of the label and of the attributes, no more and no fewer.
    epsilon : float or mapping, optional
        Insist on this instead of what the certificate says was asked for.
    **reading
        ``format``, ``encoding``, ``delimiter`` and ``na`` as for :func:`r2b.scan`, where they are not as the certificate says; ``watch``, a
        function that is called with the number of rows of each piece that was read.

    Returns
    -------
    Verification
        Its ``ok`` says whether all checks hold, ``claim`` what was proven.

    Raises
    ------
    ParameterError
        A file or column is not there.
    FileFormatError
        The certificate is not one.

    Examples
    --------
    >>> import pathlib, tempfile, r2b
    >>> from r2b.cli import main
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = place.write_text("sex,job\nf,a\nf,b\nm,b\nm,b\n")
    >>> fair = place.with_name("fair.csv")
    >>> main(["debias", str(place), "--label", "job", "--sensitive", "sex", "--quiet", "--output", str(fair)])
    0
    >>> found = r2b.verify(fair, label="job", sensitive_features="sex", epsilon=0)
    >>> found.ok, round(found.parity_before, 2), round(found.parity, 2)
    (True, 0.5, 0.0)
    """
    path = os.fspath(output)
    proof = os.fspath(certificate) if certificate is not None else beside(path)
    if not os.path.exists(path):
        raise ParameterError(f"There is no file {path!r}.", remedy="Check the path.", path=path)
    if not os.path.exists(proof):
        remedy = "Name the one that r2b debias wrote beside its output with certificate=..."
        raise ParameterError(f"There is no certificate {proof!r}.", remedy=remedy, path=proof)
    try:
        fair, record = read_record(proof)
    except FileFormatError as error:
        if not error.facts.get("damaged"):
            raise
        return Verification(path, [Check(FOLLOWED, False, error.problem)])
    if epsilon is not None:
        record.options["epsilon"] = epsilon
    named = insisted(record.columns, names_of(label, "label"), names_of(sensitive_features, "sensitive_features"))
    try:
        found = _opened(path, None if data is None else os.fspath(data), fair, record, reading).verification(path)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError) as error:
        if isinstance(error, R2BError):
            raise
        # What is asked for cannot be followed to its end: a certificate that nobody here wrote, and so no proof.
        found = Verification(path, [Check(FOLLOWED, False, f"{type(error).__name__} ({error})")])
    return replace(found, checks=[*named, *found.checks], claim=claim_of(fair, record))


def _opened(output: str, data: str | None, fair: FairLabels, record: Record, reading: dict[str, Any]) -> _Checking:
    """Open the files, and refuse columns that are not there."""
    watch, asked = reading.pop("watch", None), {"na": record.na, **{name: each for name, each in reading.items() if each}}
    own = _source(output, watch, **{**record.reading, **asked})
    old = (*record.columns.used, *record.columns.key)
    gone = next((name for name in old if name not in own.names), None)
    if data is None and gone is not None:
        raise ParameterError(
            f"{own.name} no longer has the column {gone!r}, which was read.",
            remedy="Pass the table that was debiased with data=...",
            column=gone,
        )
    refuse_columns(own.names, [("the certificate", record.new)], own.subject)
    table = own
    if data is not None:
        table = _source(data, watch, **{name: each for name, each in asked.items() if name != "format"})
        refuse_columns(table.names, [("the certificate", old)], table.subject)
    return _Checking(own, table, fair, record)


def _source(path: str, watch: Any, **reading: Any) -> FileSource:
    try:
        found = FileSource.open(path, **reading)
    except ParameterError as error:
        if "na" not in error.facts:
            raise
        found = FileSource.open(path, **{**reading, "na": EMPTY})  # written from text, in a format that says itself what is missing
    return replace(found, watch=watch, spelled=True)  # text is read as numbers in every format


class _Checking:
    """An output, the table with its data (often the same), and the certificate that both are held against."""

    def __init__(self, output: FileSource, table: FileSource, fair: FairLabels, record: Record) -> None:
        self.output, self.table, self.fair, self.record = output, table, fair, record
        self.checks: list[Check] = []
        self.whole = record.form in ("round", "sample")

    def verification(self, path: str) -> Verification:
        """Run all checks."""
        measured: dict[str, Any] = {}
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                measured = self._measured()
        except R2BError as error:
            name = "labels are probabilities" if error.facts.get("column") in self.record.new else "data can be read as they were"
            self._check(str(error.facts.get("check", name)), False, error.problem)
        return Verification(path, self.checks, **measured)

    def _check(self, name: str, ok: bool, found: str) -> None:
        self.checks.append(Check(name, bool(ok), found))

    def _measured(self) -> dict[str, Any]:
        fair, record = self.fair, self.record
        sums, marks, rows = self._added()
        n_rows = int(sums.sums["rows"])
        if n_rows != record.n_rows or rows is None:
            raise InputError(f"{n_rows:,}, not {record.n_rows:,}", remedy="Pass the output as it was written.", check=ROWS)
        self._check(ROWS, True, f"{n_rows:,}")
        for part, name in (("data", "data are those that were debiased"), ("labels", "labels are those that were written")):
            found, wanted = marks[part], record.fingerprints[part]
            self._check(name, found == wanted, f"sha256 {found[:12]}{'' if found == wanted else f', not {wanted[:12]}'}")
        request, settings = request_and_settings(record.options)
        lam = 0.0 if settings.objective == "agreement" else float(settings.lam)
        families, parity = self._settled(sums, rows, request)
        proof = sums.certificate(fair, parity, lam)
        self._compare(
            "the certificate states what holds",
            "every number and name, from the data",
            [
                ("lam", fair.lam, lam),
                ("certificate", fair.certificate.to_json(), proof.to_json()),
                ("families", fair.families.to_json(), families.to_json()),
                ("status", fair.status.ok, proof.holds),
            ],
        )
        drawn = realised(families, proof, fair.schema, sums.sums["after"], sums.sums["mass"]) if self.whole else None
        self._labels(sums)
        if drawn is not None:
            self._drawn(sums, drawn, families, parity)
        self._proven(proof, parity)
        return {"parity_before": proof.parity_before, "parity": proof.parity, "realised": drawn}

    def _added(self) -> tuple[RowSums, dict[str, str], WrittenRows | None]:
        """Read all rows: what they add up to, their fingerprints, and the last of them."""
        relabel, data = self._relabel(), None if self.table is self.output else self.table
        output = Output(self.output, relabel.decode, relabel.form, relabel.names, data)
        sums, marks, last = RowSums(relabel), Fingerprints(), None
        for rows, seen in ahead(lambda rows: (rows, sums.look(rows)), output.rows(), self.output.threads):
            marks.take(rows.data, rows.weight, rows.made)
            sums.add(*seen)
            last = rows
        if last is not None:
            sums.finish()
        return sums, marks.marks(), last

    def _relabel(self) -> Relabel:
        """Give what makes the labels again, from the prices and what the certificate says was asked for."""
        record, roles, schema = self.record, self.record.columns, spelled_schema(self.fair.schema, self.table, self.record.columns)
        normalize, counts, held = bool(record.options.get("normalize")), None, None
        if record.form == "round" and not roles.categorical:
            held = read_rows(self.table.reading_numbers(roles).columns(roles.used), roles, schema, normalize)
        elif record.form == "round" and not roles.soft:
            counts = recounted(self.table, schema, roles)
        rows = TableRows(self.table, roles, schema, counts, normalize, held, record.n_rows)
        return rows.relabelled(replace(self.fair.rule, schema=schema), record.form, record.new, record.random_state, roles.key)

    def _settled(self, sums: RowSums, rows: WrittenRows, request: Request) -> tuple[Families, Parity]:
        """Settle what was asked for on the table: nothing that the certificate says of classes and groups is used."""
        fair, mass, before = self.fair, sums.sums["mass"], sums.sums["before"]
        groups, schema = self._groups(sums, rows, request.missing)
        differs = difference(_named(fair.schema), _named(schema), "schema")
        if differs is None:
            before = np.divide(before, mass[:, None], out=np.zeros_like(before), where=mass[:, None] > 0)
            families, parity = resolve(replace(request, names=fair.classes.tolist()), groups, mass, before)
            differs = difference(fair.groups.tolist(), families.names.tolist(), "groups")
        if differs is not None:
            raise InputError(differs, remedy="Pass the table that was debiased.", check="classes and groups are the same")
        self._check("classes and groups are the same", True, f"{len(fair.classes)} classes, {len(fair.groups)} groups")
        return families, parity

    def _groups(self, sums: RowSums, rows: WrittenRows, missing: str) -> tuple[Groups, Schema]:
        """Read classes and groups as if for the first time: from the values of all combinations that occur."""
        roles, schema, count = self.record.columns, self.fair.schema, sums.sums["count"]
        classes = Vocabulary(np.arange(len(schema.classes)) if roles.listed else np.array(roles.label)) if roles.soft else None
        if not roles.categorical:
            y, features = roles.labels(rows.batch.columns), roles.features(rows.batch.columns)
            normalize = bool(self.record.options.get("normalize"))
            data = read(y, **features, sample_weight=rows.weight, normalize=normalize, missing=missing, weightless="allow")
            return data.groups, data.schema
        there = np.argwhere(count)
        known = zip(schema.columns, schema.vocabularies, schema.table[there[:, 0]].T, strict=True)
        values = {name: _values(vocabulary, codes) for name, vocabulary, codes in known}
        tally = Tally(values, count[tuple(there.T)], sums.sums["mass" if roles.soft else "before"][tuple(there.T)])
        if classes is None:
            tally.columns[roles.label[0]] = _values(schema.classes, there[:, 1])
            data = dataset_of(tally, roles, missing=missing)
            return data.groups, data.schema
        groups = groups_of(tally, roles, missing=missing)[0]
        return groups, Schema(*groups.parts, classes=classes, is_soft=True)

    def _compare(self, name: str, found: str, stated: Sequence[tuple[str, Any, Any]]) -> None:
        """Compare every number and name that is stated with what the data give."""
        differs = next((each for where, said, seen in stated if (each := difference(said, seen, where)) is not None), None)
        self._check(name, differs is None, found if differs is None else differs)

    def _labels(self, sums: RowSums) -> None:
        """Check labels one by one: classes or distributions that follow from the prices."""
        form, unknown, wrong = self.record.form, sums.sums["unknown"], int(sums.sums["wrong"])
        if form != "soft":
            self._check("labels are classes", not unknown, f"{int(unknown):,} are none" if unknown else "all of them")
        if form == "expand":
            copies, apart = int(sums.sums["copies"]), sums.most["apart"]
            self._check("repeated rows are copies", not copies, f"{copies:,} rows have copies that differ" if copies else "every row")
            self._check("weights of a row add up to its own", apart <= PROVEN, f"off by {apart:.0e}")
        if not self.whole:
            limit = max(TOLERANCE.values()) if self.fair.unchanged else PROVEN
            self._check("labels are on the simplex", sums.most["off"] <= limit, f"off by {sums.most['off']:.0e}")
            where = f" in {wrong:,} row{'s' if wrong > 1 else ''}, the first is row {sums.first}" if wrong else ""
            found = f"off by {sums.most['away']:.0e}{where}"
        else:
            differ = f"{wrong:,} {'row differs' if wrong == 1 else 'rows differ'}, the first is row {sums.first}"
            found = differ if wrong else "every row, drawn again"
        self._check("labels follow from the prices", not wrong, found)

    def _drawn(self, sums: RowSums, drawn: Realised, families: Families, parity: Parity) -> None:
        """Check the parity of one class per row, and what rounding promises."""
        stated = [("realised", self.record.realised, drawn.to_json())]
        self._compare("the labels in the file have this parity", f"parity {drawn.parity:.6f}", stated)
        if self.record.form == "round":
            weighted = self.record.columns.weight is not None
            away, beyond = sums.beyond_promise(self.fair, families, parity, weighted=weighted)
            found = f"at most {away:.2e} away" if beyond <= PROVEN else f"{beyond:.0e} too far"
            self._check("group means are as near as promised", beyond <= PROVEN, found)

    def _proven(self, proof: Certificate, parity: Parity) -> None:
        """Check bound and optimum; of one class per row it is their probabilities that meet them."""
        asked = max(float(member.bound.epsilon.max()) for member in parity.members)
        meet, kind = ("their probabilities meet", "probabilities") if self.whole else ("labels meet", "labels")
        found = f"{proof.excess:.0e} above the bound; parity {proof.parity:.6f}, epsilon {asked:g}"
        self._check(f"{meet} the bound", proof.excess <= PROVEN, found)
        self._check(f"no {kind} in parity are closer", abs(proof.relative_gap) <= PROVEN, f"duality gap {abs(proof.relative_gap):.0e}")


def _values(vocabulary: Any, codes: Any) -> list[Any]:
    """Give values by their codes; a missing one is None."""
    values = [*(plain_value(value) for value in vocabulary.values), None]
    return [values[code] for code in codes.tolist()]


def _named(schema: Schema) -> dict[str, Any]:
    """Give classes and groups by the text of their values, which is the same in every format."""
    values = [as_text(each.values, "values") if isinstance(each, Vocabulary) else [] for each in schema.vocabularies]
    named = {"classes": as_text(schema.classes.values, "classes"), "columns": list(schema.columns), "values": values}
    return {**named, "cells": schema.table.tolist(), "soft": schema.is_soft, "kinds": list(schema.kinds), "control": schema.n_control}
