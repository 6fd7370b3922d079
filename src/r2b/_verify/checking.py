"""``r2b.verify``: an output against its certificate, from the data alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from r2b._constraints.families import Families, Request
from r2b._constraints.families.resolve import resolve
from r2b._constraints.parity import Parity
from r2b._data import Cells
from r2b._data.cells import Layout
from r2b._data.compute import work_ahead
from r2b._data.probabilities import TOLERANCE
from r2b._data.values import json_value, written
from r2b._files.formats import as_text
from r2b._labels import FairLabels
from r2b._labels.debiasing import request_and_settings
from r2b._labels.realised import Realised, realised
from r2b._labels.summary import MEASURES
from r2b._solve.certificate import PROVEN
from r2b._solve.solvers.settings import SETTINGS
from r2b._verify.output import ROWS, Fingerprints, Output, RowSums, spelled_schema
from r2b._verify.record import Record, beside, read_record
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.gathering import held_rows
from r2b.engines.roles import ColumnRoles, names_of, refuse_columns
from r2b.engines.source import Relabel
from r2b.engines.table_rows import TableRows, recounted
from r2b.errors import FileFormatError, InputError, ParameterError, R2BError

_READING = ("format", "encoding", "delimiter", "na", "watch")
FOLLOWED = "the certificate can be followed"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
    ok : bool
    found : str
    """

    name: str
    ok: bool
    found: str


@dataclass(frozen=True, eq=False)
class Verification:
    """All that was looked at in an output of fair labels, and what was measured on the way.

    Attributes
    ----------
    output : str
    checks : tuple of Check
    claim : dict or None
        What the certificate claims, as plain values; None where it cannot be followed.
    disparity_before, disparity : float or None
        Of the labels that came in, and of the distributions; None where it did not come to that.
    realised : Realised or None
        Of one class per row, as it stands in the output.
    """

    output: str
    checks: Sequence[Check]
    claim: dict[str, Any] | None = None
    disparity_before: float | None = None
    disparity: float | None = None
    realised: Realised | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.ok for check in self.checks)

    @property
    def disparity_in_file(self) -> float | None:
        """The parity of the labels as they stand."""
        return self.disparity if self.realised is None else self.realised.disparity

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values that strict JSON can hold."""
        facts = {
            "verified": self.ok,
            "form": None if self.claim is None else self.claim["form"],
            "claim": self.claim,
            "disparity": {
                "before": self.disparity_before,
                "probabilities": self.disparity,
                "file": self.disparity_in_file,
            },
            "realised": None if self.realised is None else self.realised.to_json(),
            "checks": self.checks,
        }
        plain: dict[str, Any] = json_value(facts)
        return plain

    def __str__(self) -> str:
        form = "" if self.claim is None else f", {self.claim['form']}"
        lines = [f"{'Verified' if self.ok else 'NOT VERIFIED'}: {written(self.output)}{form}"]
        lines += (
            []
            if self.claim is None
            else [f"  {name:18}{text}" for name, text in _claim_lines(self.claim)]
        )
        if self.disparity is not None:
            soft = "" if self.realised is None else f"; {self.disparity:.4f} as probabilities"
            lines.append(
                f"  {'disparity':18}{self.disparity_before:.4f} before, "
                f"{self.disparity_in_file:.4f} in the file{soft}"
            )
        return "\n".join(
            [
                *lines,
                *(
                    f"  {'ok  ' if each.ok else 'FAIL'}  {each.name:40}{each.found}"
                    for each in self.checks
                ),
            ]
        )


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
    r"""Check the fair labels in an output from the data.

    It checks means, parity, the bound and, from the prices, that no labels in parity are closer.

    No number in the certificate is believed: it says what was asked for and holds the prices, which
    prove or do not. An edited label, price or number makes a check fail.

    Parameters
    ----------
    output : path
        A file or folder that ``r2b debias`` wrote.
    certificate : path, optional
        The file that was written beside it by default.
    data : path, optional
        The table that was debiased, where the output no longer has its columns: the same rows in
        the same order.
    label, sensitive_features : str or list of str, optional
        Insist that these are the columns of the label and of the attributes, no more and no fewer.
    epsilon : float or mapping, optional
        Insist on this instead of what the certificate says was asked for.
    **reading
        ``format``, ``encoding``, ``delimiter`` and ``na`` as for :func:`r2b.scan`, where they are
        not as the certificate says; ``watch``, a function called with how far each pass over the
        rows is.

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
    >>> asked = ["--label", "job", "--sensitive", "sex", "--output", str(fair), "--quiet"]
    >>> main(["debias", str(place), *asked])
    0
    >>> found = r2b.verify(fair, label="job", sensitive_features="sex", epsilon=0)
    >>> found.ok, round(found.disparity_before, 2), round(found.disparity, 2)
    (True, 0.5, 0.0)
    """
    unknown = next((name for name in reading if name not in _READING), None)
    if unknown is not None:
        raise ParameterError(
            f"{unknown!r} is no way to read files.",
            remedy=f"Choose among {', '.join(_READING)}.",
            option=unknown,
        )
    path = os.fspath(output)
    proof = os.fspath(certificate) if certificate is not None else beside(path)
    if not os.path.exists(path):
        raise ParameterError(
            f"There is no file {path!r}.", remedy="Check the path.", code="no-file", path=path
        )
    if not os.path.exists(proof):
        remedy = "Name the one that r2b debias wrote beside its output with `certificate=...`."
        raise ParameterError(f"There is no certificate {proof!r}.", remedy=remedy, path=proof)
    try:
        fair, record = read_record(proof)
    except FileFormatError as error:
        if not error.facts.get("damaged"):
            raise
        return Verification(path, [Check(FOLLOWED, False, error.problem)])
    if epsilon is not None:
        record.options["epsilon"] = epsilon
    named = insisted(
        record.columns, names_of(label, "label"), names_of(sensitive_features, "sensitive_features")
    )
    try:
        found = _opened(
            path, None if data is None else os.fspath(data), fair, record, reading
        ).verification(path)
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        AssertionError,
    ) as error:
        if isinstance(error, R2BError):
            raise
        # What is asked for cannot be followed to its end: a certificate that nobody here wrote, and
        # so no proof.
        found = Verification(path, [Check(FOLLOWED, False, f"{type(error).__name__} ({error})")])
    return replace(found, checks=[*named, *found.checks], claim=claim_of(fair, record))


def _opened(
    path: str, data: str | None, fair: FairLabels, record: Record, reading: dict[str, Any]
) -> _Checking:
    """Open the files, and refuse columns that are not there."""
    watch, asked = (
        reading.pop("watch", None),
        {"na": record.na, **{name: each for name, each in reading.items() if each}},
    )
    own = _source(path, watch, **{**record.reading, **asked})
    table = (
        own
        if data is None
        else _source(
            data, watch, **{name: each for name, each in asked.items() if name != "format"}
        )
    )
    old = (*record.columns.used, *record.columns.key)
    gone = next((name for name in old if name not in table.names), None)
    if data is None and gone is not None:
        remedy = "Pass the table that was debiased with `data=...`."
        raise ParameterError(
            f"{own.name} no longer has the column {gone!r}, which was read.",
            remedy=remedy,
            column=gone,
        )
    refuse_columns(own.names, [("the certificate", record.new)], own.subject)
    refuse_columns(table.names, [("the certificate", old)], table.subject)
    return _Checking(own, table, fair, record)


def _source(path: str, watch: Any, **reading: Any) -> FileSource:
    try:
        found = FileSource.open(path, **reading)
    except ParameterError as error:
        if "na" not in error.facts:
            raise
        # written from text, in a format that says itself what is missing
        found = FileSource.open(path, **{**reading, "na": EMPTY})
    return replace(found, watch=watch, spelled=True)  # text is read as numbers in every format


class _Checking:
    """An output and the table with its data (often the same), checked against a certificate."""

    def __init__(
        self, output: FileSource, table: FileSource, fair: FairLabels, record: Record
    ) -> None:
        self.output, self.table, self.fair, self.record = output, table, fair, record
        self.checks: list[Check] = []
        self.schema = spelled_schema(fair.schema, table, record.columns)

    def verification(self, path: str) -> Verification:
        """Run all checks."""
        measured: dict[str, Any] = {}
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                measured = self._measured()
        except R2BError as error:
            name = (
                "labels are probabilities"
                if error.facts.get("column") in self.record.new
                else "data can be read as they were"
            )
            self._check(str(error.facts.get("check", name)), False, error.problem)
        return Verification(path, self.checks, **measured)

    def _check(self, name: str, ok: bool, found: str) -> None:
        self.checks.append(Check(name, bool(ok), found))

    def _measured(self) -> dict[str, Any]:
        fair, record = self.fair, self.record
        sums, marks, groups = self._added()
        n_rows = int(sums.sums["rows"])
        if n_rows != record.n_rows or groups is None:
            raise InputError(
                f"{n_rows:,}, not {record.n_rows:,}",
                remedy="Pass the output as it was written.",
                check=ROWS,
            )
        self._check(ROWS, True, f"{n_rows:,}")
        for part, name in (
            ("data", "data are those that were debiased"),
            ("labels", "labels are those that were written"),
        ):
            found, wanted = marks[part], record.fingerprints[part]
            self._check(
                name,
                found == wanted,
                f"sha256 {found[:12]}{'' if found == wanted else f', not {wanted[:12]}'}",
            )
        request, settings = request_and_settings(record.options)
        lam = float(settings.lam)
        if settings.objective == "agreement":  # a table of lam 0, or the small lam of probabilities
            lam = SETTINGS.agreement_lam if fair.table is None and not fair.unchanged else 0.0
        families, parity, cells = self._settled(sums, groups, request)
        proof = sums.certificate(fair, parity, lam)
        stated = {
            "lam": fair.lam,
            "certificate": fair.certificate,
            "families": fair.families,
            "status": fair.status.ok,
        }
        seen = {"lam": lam, "certificate": proof, "families": families, "status": proof.holds}
        self._same(
            "the certificate states what holds",
            "every number and name, from the data",
            stated,
            seen,
        )
        self._labels(sums)
        drawn = (
            realised(families, proof, cells, sums.sums["after"], sums.sums["mass"])
            if sums.whole
            else None
        )
        if drawn is not None:
            self._same(
                "the labels in the file have this disparity",
                f"disparity {drawn.disparity:.6f}",
                record.realised,
                drawn,
            )
        if record.form == "round":
            away, beyond = sums.beyond_promise(
                cells, families, parity, weighted=record.columns.weight is not None
            )
            found = f"at most {away:.2e} away" if beyond <= PROVEN else f"{beyond:.0e} too far"
            self._check("group means are as near as promised", beyond <= PROVEN, found)
        meet, kind = (
            ("their probabilities meet", "probabilities")
            if sums.whole
            else ("labels meet", "labels")
        )
        epsilon = max(float(each.bound.epsilon.max()) for each in parity.members)
        asked = f"disparity {proof.disparity:.6f}, epsilon {epsilon:g}"
        self._check(
            f"{meet} the bound",
            proof.excess <= PROVEN,
            f"{proof.excess:.0e} above the bound; {asked}",
        )
        self._check(
            f"no {kind} in parity are closer",
            abs(proof.relative_gap) <= PROVEN,
            f"duality gap {abs(proof.relative_gap):.0e}",
        )
        return {
            "disparity_before": proof.disparity_before,
            "disparity": proof.disparity,
            "realised": drawn,
        }

    def _added(self) -> tuple[RowSums, dict[str, str], Cells | None]:
        """Read all rows: what they add up to, their fingerprints and their groups."""
        relabel, groups = self._relabel(), None
        sums, marks = RowSums(relabel), Fingerprints()
        output = Output(
            self.output,
            relabel.decode,
            relabel.form,
            relabel.names,
            None if self.table is self.output else self.table,
        )
        for seen, rows in work_ahead(
            lambda piece: sums.look(output.read(piece)), output.pieces(), self.output.threads
        ):
            marks.take(rows)
            sums.add(*seen)
            groups = rows.data.cells
        return sums, marks.marks(), groups

    def _relabel(self) -> Relabel:
        """Return what makes the labels again, from the prices and what was asked for."""
        record, roles, schema = self.record, self.record.columns, self.schema
        normalize, counts, held = bool(record.options.get("normalize")), None, None
        if record.form == "round" and not roles.categorical:
            held = held_rows(self.table, roles, schema, normalize)
        elif record.form == "round" and not roles.soft:
            counts = recounted(self.table, schema, roles)
        rows = TableRows(self.table, roles, schema, counts, normalize, held, record.n_rows)
        return rows.relabelled(
            replace(self.fair.rule, schema=schema),
            record.form,
            record.new,
            record.random_state,
            roles.key,
        )

    def _settled(
        self, sums: RowSums, groups: Cells, request: Request
    ) -> tuple[Families, Parity, Cells]:
        """Settle on the table what was asked for, if all that the certificate names occurs."""
        sums.finish()
        roles, schema, count = (
            self.record.columns,
            self.fair.schema,
            sums.sums["count"].reshape(groups.n_cells, -1),
        )
        # Of a table that was solved where it lives one typical row is kept for each cell of
        # categories: the cells are those of the data.
        kept = not roles.categorical and len(schema.table) < groups.n_cells
        named = (
            [str(place) for place in range(len(schema.classes))]
            if roles.listed
            else list(roles.label)
        )
        known = {
            "columns": schema.columns == (*sensitive_names(roles), *roles.control),
            "controls": schema.n_control == len(roles.control),
            "cells": count.sum(axis=1).all()
            and (kept or difference(_layout(self.schema), _layout(groups), "") is None),
            "classes": as_text(schema.classes.values, "classes") == named
            if roles.soft
            else count.sum(axis=0).all(),
            "values": kept
            or all(
                len(np.unique(codes)) == each.n_codes
                for each, codes in zip(schema.vocabularies, schema.table.T, strict=True)
            ),
            "missing values": request.missing != "error"
            or not any(each.has_missing for each in schema.vocabularies),
        }
        wrong = next((name for name, right in known.items() if not right), None)
        if wrong is None:
            cells = Cells(
                *(groups if kept else schema).parts,
                codes=np.arange(groups.n_cells),
                repeats=count.sum(axis=1),
            )
            asked = replace(request, names=self.fair.classes.tolist())
            families, parity = resolve(asked, cells, sums.sums["mass"], sums.cell_means("before"))
            wrong = difference(self.fair.groups.tolist(), families.names.tolist(), "groups")
        name, found = (
            "classes and groups are the same",
            f"{len(schema.classes)} classes, {len(self.fair.groups)} groups",
        )
        if wrong is not None:
            raise InputError(
                f"{found}: other {wrong}", remedy="Pass the table that was debiased.", check=name
            )
        self._check(name, True, found)
        return families, parity, cells

    def _same(self, name: str, found: str, stated: Any, seen: Any) -> None:
        """Compare every number and name that is stated with what the data give."""
        differs = difference(_plain(stated), _plain(seen), "")
        self._check(name, differs is None, found if differs is None else differs)

    def _labels(self, sums: RowSums) -> None:
        """Check labels one by one: classes or distributions that follow from the prices."""
        form, unknown, wrong = self.record.form, sums.sums["unknown"], int(sums.sums["wrong"])
        if form != "soft":
            self._check(
                "labels are classes",
                not unknown,
                f"{int(unknown):,} are none" if unknown else "all of them",
            )
        if form == "expand":
            copies, apart = int(sums.sums["copies"]), sums.most["apart"]
            self._check(
                "repeated rows are copies",
                not copies,
                f"{copies:,} rows have copies that differ" if copies else "every row",
            )
            self._check(
                "weights of a row add up to its own", apart <= PROVEN, f"off by {apart:.0e}"
            )
        if not sums.whole:
            limit = max(TOLERANCE.values()) if self.fair.unchanged else PROVEN
            self._check(
                "labels are on the simplex",
                sums.most["off"] <= limit,
                f"off by {sums.most['off']:.0e}",
            )
            where = (
                f" in {wrong:,} row{'s' if wrong > 1 else ''}, the first is row {sums.first}"
                if wrong
                else ""
            )
            found = f"off by {sums.most['away']:.0e}{where}"
        else:
            rows = "row differs" if wrong == 1 else "rows differ"
            differ = f"{wrong:,} {rows}, the first is row {sums.first}"
            found = differ if wrong else "every row, drawn again"
        self._check("labels follow from the prices", not wrong, found)


def _plain(facts: Any) -> Any:
    return (
        {name: _plain(each) for name, each in facts.items()}
        if isinstance(facts, dict)
        else getattr(facts, "to_json", lambda: facts)()
    )


def _layout(groups: Layout) -> dict[str, Any]:
    return Layout(*groups.parts).to_json()


def claim_of(fair: FairLabels, record: Record) -> dict[str, Any]:
    """Return what is claimed as plain values: labels, groups, bounds, form, rows left out."""
    columns, options, families = record.columns, record.options, fair.families
    reasons = [
        f"{name}={options[name]!r}"
        for name in ("missing", "small_groups")
        if options.get(name) == "exclude"
    ]
    claim: dict[str, Any] = json_value(
        {
            "label": columns.label[0] if len(columns.label) == 1 else columns.label,
            "sensitive": sensitive_names(columns),
            "control": columns.control,
            "weight": columns.weight,
            "families": [
                {"name": each.name, "bound": each.bound.name, "epsilon": each.bound.epsilon}
                for each in families.members
            ],
            "objective": options.get("objective", "distance"),
            "lam": fair.lam,
            "costs": fair.costs is not None,
            "form": record.form,
            "columns": record.new,
            "random_state": record.random_state if record.form in ("round", "sample") else None,
            "key": columns.key,
            "rows": record.n_rows,
            "left_out": families.left_out,
            "left_out_because": reasons,
            "absent": [f"{each.group} in {each.stratum}" for each in families.absent],
        }
    )
    for family in claim["families"]:
        if len(set(map(str, family["epsilon"]))) == 1:
            family["epsilon"] = family["epsilon"][0]
    return claim


def sensitive_names(columns: ColumnRoles) -> list[str]:
    """Name the sensitive attributes of every kind."""
    return [*columns.sensitive, *columns.continuous, *(name for name, _ in columns.membership)]


def _claim_lines(claim: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe what is claimed."""
    label = (
        claim["label"]
        if isinstance(claim["label"], str)
        else f"{len(claim['label'])} columns of probabilities"
    )
    lines = [("label", written(label)), ("sensitive", ", ".join(map(written, claim["sensitive"])))]
    if claim["control"]:
        lines.append(("within", ", ".join(map(written, claim["control"]))))
    if claim["weight"] is not None:
        lines.append(("weights", written(claim["weight"])))
    for family in claim["families"][:12]:
        epsilon = (
            family["epsilon"]
            if not isinstance(family["epsilon"], list)
            else f"{len(family['epsilon'])} epsilons by class"
        )
        lines.append(
            (
                "bound",
                f"{written(family['name']) or 'groups'}: {MEASURES[family['bound']]} "
                f"at most {epsilon}",
            )
        )
    if len(claim["families"]) > 12:
        lines.append(("", f"and {len(claim['families']) - 12} more"))
    if claim["objective"] != "distance" or claim["lam"] not in (0.0, 1.0) or claim["costs"]:
        costs = ", costs of the certificate" if claim["costs"] else ""
        lines.append(("objective", f"{claim['objective']}, lambda {claim['lam']:g}{costs}"))
    key = ", ".join(map(written, claim["key"])) or "row number"
    by = f" (seed {claim['random_state']}, by {key})"
    lines.append(("form", claim["form"] + (by if claim["random_state"] is not None else "")))
    reasons = f", {' and '.join(claim['left_out_because'])}" if claim["left_out_because"] else ""
    whose = "rows" if claim["weight"] is None else "weight"
    left = (
        f"{100 * claim['left_out']:.2f} % of the {whose}, in no group{reasons}"
        if claim["left_out"] > 0
        else "none"
    )
    lines.append(("left out", left))
    if claim["absent"]:
        lines.append(
            (
                "absent",
                "; ".join(map(written, claim["absent"][:5]))
                + (" and more" if len(claim["absent"]) > 5 else ""),
            )
        )
    return lines


def insisted(columns: ColumnRoles, label: Sequence[str], sensitive: Sequence[str]) -> list[Check]:
    """Check that the certificate is about the columns that the reader names."""
    found, checks = sensitive_names(columns), []
    if label:
        same = list(columns.label) == list(label)
        checks.append(
            Check("the label is the one insisted on", same, ", ".join(map(written, columns.label)))
        )
    if sensitive:
        checks.append(
            Check(
                "the attributes are those insisted on",
                sorted(found) == sorted(sensitive),
                ", ".join(map(written, found)),
            )
        )
    return checks


def difference(said: Any, found: Any, where: str) -> str | None:
    """Name the first place where two trees of plain values differ by more than rounding."""
    number = (int, float)
    if (
        isinstance(said, number)
        and isinstance(found, number)
        and bool not in (type(said), type(found))
    ):
        return (
            None
            if abs(said - found) <= PROVEN * (1.0 + abs(found))
            else f"{where} is {found:.9g}, not {said:.9g}"
        )
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() == found.keys():
        places: Any = ((said[key], found[key], f"{where} {key}".strip()) for key in found)
    elif (
        isinstance(said, (list, tuple))
        and isinstance(found, (list, tuple))
        and len(said) == len(found)
    ):
        places = (
            (one, other, f"{where}[{place}]")
            for place, (one, other) in enumerate(zip(said, found, strict=True))
        )
    else:
        return None if said == found else f"{where} is {found!r}, not {said!r}"[:200]
    return next(
        (
            each
            for one, other, place in places
            if (each := difference(one, other, place)) is not None
        ),
        None,
    )
