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
from r2b._solve.settings import SETTINGS
from r2b._verify.output import ROWS, Fingerprints, Output, RowSums, spelled_schema
from r2b._verify.record import UNREADABLE, Record, beside, read_record
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.gathering import held_rows
from r2b.engines.roles import ColumnRoles, names_of
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
        if self.claim is not None:
            lines += [f"  {name:18}{text}" for name, text in _claim_lines(self.claim)]
        if self.disparity is not None:
            soft = "" if self.realised is None else f"; {self.disparity:.4f} as probabilities"
            lines.append(
                f"  {'disparity':18}{self.disparity_before:.4f} before, "
                f"{self.disparity_in_file:.4f} in the file{soft}"
            )
        for each in self.checks:
            lines.append(f"  {'ok  ' if each.ok else 'FAIL'}  {each.name:40}{each.found}")
        return "\n".join(lines)


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
        remedy, problem = (
            f"Choose among {', '.join(_READING)}.",
            f"{unknown!r} is no way to read files.",
        )
        raise ParameterError(problem, remedy=remedy, option=unknown)
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
        other = None if data is None else os.fspath(data)
        found = _opened(path, other, fair, record, reading).verification(path)
    except R2BError:
        raise
    except (*UNREADABLE, ArithmeticError, AssertionError) as error:
        # What is asked for cannot be followed to its end: a certificate that nobody here wrote, and
        # so no proof.
        found = Verification(path, [Check(FOLLOWED, False, f"{type(error).__name__} ({error})")])
    return replace(found, checks=[*named, *found.checks], claim=claim_of(fair, record))


def _opened(
    path: str, data: str | None, fair: FairLabels, record: Record, reading: dict[str, Any]
) -> _Checking:
    """Open the files, and refuse columns that are not there."""
    watch = reading.pop("watch", None)
    asked = {"na": record.na, **{name: each for name, each in reading.items() if each}}
    own = table = _source(path, watch, **{**record.reading, **asked})
    if data is not None:
        asked.pop("format", None)
        table = _source(data, watch, **asked)
    old = (*record.columns.used, *record.columns.key)
    gone = next((name for name in old if name not in table.names), None)
    if data is None and gone is not None:
        remedy = "Pass the table that was debiased with `data=...`."
        problem = f"{own.name} no longer has the column {gone!r}, which was read."
        raise ParameterError(problem, remedy=remedy, column=gone)
    own.check([("the certificate", record.new)])
    table.check([("the certificate", old)])
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
            new = error.facts.get("column") in self.record.new
            name = "labels are probabilities" if new else "data can be read as they were"
            self._check(str(error.facts.get("check", name)), False, error.problem)
        return Verification(path, self.checks, **measured)

    def _check(self, name: str, ok: bool, found: str, wrong: str = "") -> None:
        self.checks.append(Check(name, bool(ok), found if ok else wrong or found))

    def _measured(self) -> dict[str, Any]:
        fair, record = self.fair, self.record
        sums, marks, groups = self._added()
        n_rows = int(sums.sums["rows"])
        if n_rows != record.n_rows or groups is None:
            remedy = "Pass the output as it was written."
            raise InputError(f"{n_rows:,}, not {record.n_rows:,}", remedy=remedy, check=ROWS)
        self._check(ROWS, True, f"{n_rows:,}")
        for part, name in {"data": "that were debiased", "labels": "that were written"}.items():
            mark, wanted = (f"{each[part][:12]}" for each in (marks, record.fingerprints))
            same, found = marks[part] == record.fingerprints[part], f"sha256 {mark}"
            self._check(f"{part} are those {name}", same, found, f"{found}, not {wanted}")
        request, settings = request_and_settings(record.options)
        lam = float(settings.lam)
        if settings.objective == "agreement":  # a table of lam 0, or the small lam of probabilities
            lam = SETTINGS.agreement_lam if fair.table is None and not fair.unchanged else 0.0
        families, parity, cells = self._settled(sums, groups, request)
        proof = sums.certificate(fair, parity, lam)
        names = ("lam", "certificate", "families", "status")
        stated = (fair.lam, fair.certificate, fair.families, fair.status.ok)
        seen = (lam, proof, families, proof.holds)
        self._same(
            "the certificate states what holds",
            "every number and name, from the data",
            *(dict(zip(names, each, strict=True)) for each in (stated, seen)),
        )
        self._labels(sums)
        drawn = None
        if sums.whole:
            drawn = realised(families, proof, cells, sums.sums["after"], sums.sums["mass"])
            found = f"disparity {drawn.disparity:.6f}"
            name = "the labels in the file have this disparity"
            self._same(name, found, record.realised, drawn)
        if record.form == "round":
            weighted = record.columns.weight is not None
            away, beyond = sums.beyond_promise(cells, families, parity, weighted=weighted)
            near, far = f"at most {away:.2e} away", f"{beyond:.0e} too far"
            self._check("group means are as near as promised", beyond <= PROVEN, near, far)
        kind = "probabilities" if sums.whole else "labels"
        epsilon = max(float(each.bound.epsilon.max()) for each in parity.members)
        asked = f"disparity {proof.disparity:.6f}, epsilon {epsilon:g}"
        self._check(
            f"{'their ' * sums.whole}{kind} meet the bound",
            proof.excess <= PROVEN,
            f"{proof.excess:.0e} above the bound; {asked}",
        )
        gap = abs(proof.relative_gap)
        self._check(f"no {kind} in parity are closer", gap <= PROVEN, f"duality gap {gap:.0e}")
        return {
            "disparity_before": proof.disparity_before,
            "disparity": proof.disparity,
            "realised": drawn,
        }

    def _added(self) -> tuple[RowSums, dict[str, str], Cells | None]:
        """Read all rows: what they add up to, their fingerprints and their groups."""
        relabel, groups = self._relabel(), None
        sums, marks = RowSums(relabel), Fingerprints()
        data = None if self.table is self.output else self.table
        output = Output(self.output, relabel.decode, relabel.form, relabel.names, data)
        looked = work_ahead(
            lambda piece: sums.look(output.read(piece)), output.pieces(), self.output.threads
        )
        for seen, rows in looked:
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
        rule = replace(self.fair.rule, schema=schema)
        return rows.relabelled(rule, record.form, record.new, record.random_state, roles.key)

    def _settled(
        self, sums: RowSums, groups: Cells, request: Request
    ) -> tuple[Families, Parity, Cells]:
        """Settle on the table what was asked for, if all that the certificate names occurs."""
        sums.finish()
        roles, schema = self.record.columns, self.fair.schema
        count = sums.sums["count"].reshape(groups.n_cells, -1)
        # Of a table that was solved where it lives one typical row is kept for each cell of
        # categories: the cells are those of the data.
        kept = not roles.categorical and len(schema.table) < groups.n_cells
        named = [*map(str, range(len(schema.classes)))] if roles.listed else list(roles.label)
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
            codes, repeats = np.arange(groups.n_cells), count.sum(axis=1)
            cells = Cells(*(groups if kept else schema).parts, codes=codes, repeats=repeats)
            asked = replace(request, outcomes=self.fair.families.outcomes)
            asked = asked.of_classes(schema.classes)
            families, parity = resolve(asked, cells, sums.sums["mass"], sums.cell_means("before"))
            wrong = difference(self.fair.groups.tolist(), families.names.tolist(), "groups")
        name = "classes and groups are the same"
        found = f"{len(schema.classes)} classes, {len(self.fair.groups)} groups"
        if wrong is not None:
            remedy = "Pass the table that was debiased."
            raise InputError(f"{found}: other {wrong}", remedy=remedy, check=name)
        self._check(name, True, found)
        return families, parity, cells

    def _same(self, name: str, found: str, stated: Any, seen: Any) -> None:
        """Compare every number and name that is stated with what the data give."""
        differs = difference(_plain(stated), _plain(seen), "")
        self._check(name, differs is None, found, differs or "")

    def _labels(self, sums: RowSums) -> None:
        """Check labels one by one: classes or distributions that follow from the prices."""
        form, wrong = self.record.form, int(sums.sums["wrong"])
        if form != "soft":
            unknown = int(sums.sums["unknown"])
            self._check("labels are classes", not unknown, "all of them", f"{unknown:,} are none")
        if form == "expand":
            copies, apart = int(sums.sums["copies"]), sums.most["apart"]
            differ = f"{copies:,} rows have copies that differ"
            self._check("repeated rows are copies", not copies, "every row", differ)
            name = "weights of a row add up to its own"
            self._check(name, apart <= PROVEN, f"off by {apart:.0e}")
        if sums.whole:
            many = f"{wrong:,} {'row differs' if wrong == 1 else 'rows differ'}"
            found, differ = "every row, drawn again", f"{many}, the first is row {sums.first}"
        else:
            limit, off = (
                max(TOLERANCE.values()) if self.fair.unchanged else PROVEN,
                sums.most["off"],
            )
            self._check("labels are on the simplex", off <= limit, f"off by {off:.0e}")
            many = f"{wrong:,} row{'s' if wrong > 1 else ''}"
            found = f"off by {sums.most['away']:.0e}"
            differ = f"{found} in {many}, the first is row {sums.first}"
        self._check("labels follow from the prices", not wrong, found, differ)


def _plain(facts: Any) -> Any:
    if isinstance(facts, dict):
        return {name: _plain(each) for name, each in facts.items()}
    return facts.to_json() if hasattr(facts, "to_json") else facts


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
            "outcomes": _parts_of(fair),
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


def _parts_of(fair: FairLabels) -> dict[str, dict[str, float]] | None:
    """Return how much each class counts in every outcome; None where classes are compared."""
    asked, classes = fair.families.outcomes, [str(name) for name in fair.classes.tolist()]
    if asked is None:
        return None
    return {
        name: {label: part for label, part in zip(classes, row, strict=True) if part}
        for name, row in zip(asked.names, asked.matrix.tolist(), strict=True)
    }


def sensitive_names(columns: ColumnRoles) -> list[str]:
    """Name the sensitive attributes of every kind."""
    return [*columns.sensitive, *columns.continuous, *(name for name, _ in columns.membership)]


def _claim_lines(claim: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe what is claimed."""

    def names(each: Sequence[str]) -> str:
        return ", ".join(map(written, each))

    label, whose = claim["label"], "rows" if claim["weight"] is None else "weight"
    several = f"{len(label)} columns of probabilities"
    lines = [("label", written(label if isinstance(label, str) else several))]
    lines.append(("sensitive", names(claim["sensitive"])))
    if claim["control"]:
        lines.append(("within", names(claim["control"])))
    if claim["weight"] is not None:
        lines.append(("weights", written(claim["weight"])))
    for family in claim["families"][:12]:
        epsilon = family["epsilon"]
        if isinstance(epsilon, list):
            epsilon = f"{len(epsilon)} epsilons by class"
        measure = f"{MEASURES[family['bound']]} at most {epsilon}"
        lines.append(("bound", f"{written(family['name']) or 'groups'}: {measure}"))
    for name, parts in [*(claim["outcomes"] or {}).items()][:12]:
        counted = [
            written(label) if part == 1 else f"{part:g} of {written(label)}"
            for label, part in parts.items()
        ]
        lines.append(("outcome", f"{written(name)}: {', '.join(counted)}"))
    if len(claim["families"]) > 12:
        lines.append(("", f"and {len(claim['families']) - 12} more"))
    if claim["objective"] != "distance" or claim["lam"] not in (0.0, 1.0) or claim["costs"]:
        costs = ", costs of the certificate" if claim["costs"] else ""
        lines.append(("objective", f"{claim['objective']}, lambda {claim['lam']:g}{costs}"))
    form, left_out = claim["form"], "none"
    if claim["random_state"] is not None:
        form += f" (seed {claim['random_state']}, by {names(claim['key']) or 'row number'})"
    if claim["left_out"] > 0:
        left_out = f"{100 * claim['left_out']:.2f} % of the {whose}, in no group"
        if claim["left_out_because"]:
            left_out += f", {' and '.join(claim['left_out_because'])}"
    lines += [("form", form), ("left out", left_out)]
    if claim["absent"]:
        more = " and more" if len(claim["absent"]) > 5 else ""
        lines.append(("absent", "; ".join(map(written, claim["absent"][:5])) + more))
    return lines


def insisted(columns: ColumnRoles, label: Sequence[str], sensitive: Sequence[str]) -> list[Check]:
    """Check that the certificate is about the columns that the reader names."""
    found = {
        "the label is the one insisted on": (columns.label, label),
        "the attributes are those insisted on": (sensitive_names(columns), sensitive),
    }
    return [
        Check(name, sorted(own) == sorted(wanted), ", ".join(map(written, own)))
        for name, (own, wanted) in found.items()
        if wanted
    ]


def difference(said: Any, found: Any, where: str) -> str | None:
    """Name the first place where two trees of plain values differ by more than rounding."""
    both, places = (said, found), list[Any]()
    if all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in both):
        near = abs(said - found) <= PROVEN * (1.0 + abs(found))
        return None if near else f"{where} is {found:.9g}, not {said:.9g}"
    if all(isinstance(each, dict) for each in both) and said.keys() == found.keys():
        places = [(said[key], found[key], f"{where} {key}".strip()) for key in found]
    elif all(isinstance(each, (list, tuple)) for each in both) and len(said) == len(found):
        pairs = zip(said, found, strict=True)
        places = [(one, other, f"{where}[{n}]") for n, (one, other) in enumerate(pairs)]
    elif said != found:
        return f"{where} is {found!r}, not {said!r}"[:200]
    differences = (difference(*each) for each in places)
    return next((each for each in differences if each is not None), None)
