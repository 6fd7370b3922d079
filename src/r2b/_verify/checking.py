"""``r2b.verify``: an output against its certificate, from the data alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from r2b._constraints.epsilon import epsilon_per_class
from r2b._constraints.families import BoundName, Families, Family, FamilyChoice, Request
from r2b._constraints.families.request import MissingValues, SmallGroups
from r2b._constraints.families.resolve import resolve
from r2b._constraints.parity import Parity
from r2b._data import Cells
from r2b._data.cells import Layout
from r2b._data.compute import work_ahead
from r2b._data.outcomes import OutcomeChoice
from r2b._data.probabilities import TOLERANCE
from r2b._data.values import UNREADABLE, json_value, written
from r2b._files.formats import as_text, format_of
from r2b._labels import FairLabels
from r2b._labels.debiasing import request_and_settings
from r2b._labels.realised import Realised, realised
from r2b._labels.rows import Form
from r2b._labels.storage import in_words
from r2b._labels.summary import MEASURES
from r2b._solve.certificate import PROVEN
from r2b._solve.settings import SETTINGS
from r2b._verify.claim import CALLED, COMPARED, Check, claim_lines, claim_of, required_checks
from r2b._verify.output import ROWS, Output, RowSums, WrittenRows, checksums, spelled_schema
from r2b._verify.record import Record, beside, read_records
from r2b._verify.table import ColumnMarks, column_marks
from r2b.engines.batch import Batch
from r2b.engines.files import EMPTY, FileSource
from r2b.engines.files.delimited import DelimitedStored
from r2b.engines.gathering import held_rows
from r2b.engines.roles import Decode, names_of
from r2b.engines.source import Relabel
from r2b.engines.table_rows import TableRows, recounted
from r2b.errors import FileFormatError, InputError, ParameterError, R2BError

_READING = ("format", "encoding", "decimal", "delimiter", "na", "sheet", "watch")
_NAMES = ("label", "columns", "sensitive", "control")  # requirements that name columns
FOLLOWED = "the certificate can be followed"
NOT_CHECKED = ("command", "history", "residual", "r2b", "names of outcomes")
"""What a certificate says of how it was made; nothing follows from it."""


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
        Of the old labels, and of the distributions; None where it did not come to that.
    realised : Realised or None
        Of one class per row, as it stands in the output.
    plain : float or None
        The disparity of the file if every crossing of values is a group and every row counts once.
    similar : tuple of str
        Columns that look like fair labels and were not verified.
    tags : dict of str to Verification
        Of an output of several tags, what was looked at in each.
    """

    output: str
    checks: Sequence[Check]
    claim: dict[str, Any] | None = None
    disparity_before: float | None = None
    disparity: float | None = None
    realised: Realised | None = field(default=None, repr=False)
    plain: float | None = None
    similar: tuple[str, ...] = ()
    tags: dict[Any, Verification] = field(default_factory=dict)

    @property
    def _failed(self) -> list[str]:
        """Names of the checks that do not hold, those of every tag among them."""
        own = [check.name for check in self.checks if not check.ok]
        return own + [name for each in self.tags.values() for name in each._failed]

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return not self._failed

    @property
    def verdict(self) -> str:
        """Return "verified", "not verified", or "not proven" where only nothing is compared."""
        if self.ok:
            return "verified"
        return "not proven" if {*self._failed} == {COMPARED} else "not verified"

    @property
    def disparity_in_file(self) -> float | None:
        """The parity of the labels as they stand."""
        return self.disparity if self.realised is None else self.realised.disparity

    @property
    def read_plainly(self) -> str:
        """Say which disparity the file has if nothing narrows the claim, if it is another."""
        if self.plain is None or abs(self.plain - (self.disparity_in_file or 0)) <= PROVEN:
            return ""
        return f"{self.plain:.4f} if every crossing of values is a group and every row counts once"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values that strict JSON can hold."""
        facts: dict[str, Any] = {
            "verified": self.ok,
            "verdict": self.verdict,
            "checks": self.checks,
            "similar_columns": self.similar,
        }
        if self.tags:
            facts["tags"] = {str(tag): each.to_json() for tag, each in self.tags.items()}
        else:
            facts |= {
                "form": None if self.claim is None else self.claim["form"],
                "claim": self.claim,
                "disparity": {
                    "before": self.disparity_before,
                    "probabilities": self.disparity,
                    "file": self.disparity_in_file,
                    "plain": self.plain,
                },
                "realised": None if self.realised is None else self.realised.to_json(),
                "not_checked": NOT_CHECKED,
            }
        plain: dict[str, Any] = json_value(facts)
        return plain

    def __str__(self) -> str:
        lines, claim = list[tuple[str, str]](), self.claim
        if self.tags:  # what is the same for all
            every = (each.claim for each in self.tags.values())
            shared = next((each for each in every if each is not None), None)
            if shared is not None:
                told = claim_lines({**shared, "label": list(map(str, self.tags))})
                own = ("label", "columns", "bound", "  not bound")
                lines = [each for each in told if each[0] not in own]
        elif claim is not None:
            lines = claim_lines(claim)
        if self.disparity is not None:
            soft = "" if self.realised is None else f"; {self.disparity:.4f} as probabilities"
            now = f"{self.disparity_in_file:.4f} in the file{soft}"
            lines.append(("disparity", f"{self.disparity_before:.4f} before, {now}"))
            lines.append(("", self.read_plainly))
        lines.append(("not checked", f"{', '.join(NOT_CHECKED)} of the certificate"))
        names = ", ".join(map(written, self.similar))
        lines.append(("not verified", names and f"{names}: they look like fair labels"))
        form = "" if claim is None else f", {claim['form']}"
        verdict = "Verified" if self.ok else self.verdict.upper()
        return "\n".join(
            [
                f"{verdict}: {written(self.output)}{form}",
                *(f"  {name:18}{text}" for name, text in lines if text),
                *(f"  {_MARKS[each.ok]}  {each.name:40} {each.found}" for each in self.checks),
                *(
                    f"  {_MARKS[each.ok]}  {written(str(tag)):24}{each._in_short}"
                    for tag, each in self.tags.items()
                ),
            ]
        )

    @property
    def _in_short(self) -> str:
        """What was found of a tag, on one line."""
        found = []
        if self.disparity_before is not None and self.disparity_in_file is not None:
            found += [f"disparity {self.disparity_before:.4f} before"]
            found += [f"{self.disparity_in_file:.4f} in the file"]
        found += [self.read_plainly] if self.read_plainly else []
        for family in self.claim["families"] if self.claim is not None else ():
            least = min(map(float, np.atleast_1d(family["epsilon"])))
            found += [f"{MEASURES[family['bound']]} at most {least:g}"]
        wrong = next((f"{each.name}: {each.found}" for each in self.checks if not each.ok), "")
        return "; ".join(filter(None, [", ".join(dict.fromkeys(found)), wrong]))


_MARKS = {True: "ok  ", False: "FAIL"}


def verify(
    output: str | PathLike[str],
    certificate: str | PathLike[str] | None = None,
    *,
    data: str | PathLike[str] | None = None,
    label: str | Sequence[str] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    control_features: str | Sequence[str] | None = None,
    sample_weight: str | None = None,
    families: FamilyChoice | Sequence[str | Sequence[str] | Family] | None = None,
    bound: BoundName | None = None,
    epsilon: float | Mapping[Any, float] | None = None,
    outcomes: OutcomeChoice | None = None,
    missing: MissingValues | None = None,
    small_groups: SmallGroups | None = None,
    min_group_size: int | None = None,
    form: Form | None = None,
    columns: str | Sequence[str] | None = None,
    strict: bool = False,
    **reading: Any,
) -> Verification:
    r"""Check the fair labels in an output from the data.

    It checks means, parity, the bound and, from the prices, that no labels in parity are closer.

    No number in the certificate is believed: it says what was asked for and holds the prices, which
    prove or do not. An edited label, price or number makes a check fail, and so does an edit of any
    other column. A claim may be true and empty, so require what you were promised.

    Parameters
    ----------
    output : path
        A file or folder that ``r2b debias`` wrote.
    certificate : path, optional
        The file that was written beside it by default.
    data : path, optional
        The table that was debiased, where the output no longer has its columns: the same rows in
        the same order. Columns that both have are compared.
    label, sensitive_features, control_features : str or list of str, optional
        Require that these are the columns, no more and no fewer. Every required attribute must be
        compared.
    sample_weight : str, optional
        Require this column of weights; "" for none.
    families : {"crossed", "marginal", "both"} or list, optional
        Require these families, with two groups or more in each.
    bound : str, optional
        Require this bound; "range" where ``epsilon`` is required.
    epsilon : float or mapping, optional
        Require at most this.
    outcomes : optional
        Require that these are compared, as for :func:`r2b.debias`.
    missing, small_groups : str, optional
        Require that rows without values, or in small groups, are treated in this way or occur not.
    min_group_size : int, optional
        Require so many rows of every group.
    form, columns : optional
        Require this form, and that these are the columns of new labels.
    strict : bool
        Require the plain reading of all that is not required by name: every value of every
        attribute is a group of its own, in the crossing of all; the bound is "range"; there are no
        weights, control columns, outcomes, offsets and texts that mean missing; nothing is merged
        or left out; new columns have their usual names; and the file is read as it shows.
    **reading
        ``format``, ``encoding``, ``decimal``, ``delimiter`` and ``na`` as for :func:`r2b.scan`,
        where they are not as the certificate says; ``sheet`` of the data, or of the output;
        ``watch``, a function called with how far each pass over the rows is.

    Returns
    -------
    Verification
        Its ``ok`` says whether all checks hold, ``claim`` what was proven. Where no two groups are
        compared its ``verdict`` is "not proven".

    Raises
    ------
    ParameterError
        A file or column is not there.
    FileFormatError
        The certificate is not one.

    See Also
    --------
    r2b.debias : The closest labels in parity.
    r2b.load : Read labels that were saved.

    Examples
    --------
    >>> import pathlib, tempfile, r2b
    >>> from r2b.cli import main
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = place.write_text("sex,job\nf,a\nf,b\nm,b\nm,b\n")
    >>> fair = place.with_name("fair.csv")
    >>> asked = ["--label", "job", "--sensitive", "sex", "--output", str(fair), "--quiet"]
    >>> main(["debias", str(place), *asked]) == 0
    True
    >>> asked = {"label": "job", "sensitive_features": "sex", "epsilon": 0, "strict": True}
    >>> found = r2b.verify(fair, **asked)
    >>> found.ok, round(found.disparity_before, 2), round(found.disparity, 2)
    (True, 0.5, 0.0)
    """
    unknown = next((name for name in reading if name not in _READING), None)
    if unknown is not None:
        remedy, problem = f"Choose among {', '.join(_READING)}.", "is no way to read files"
        raise ParameterError(f"{unknown!r} {problem}.", remedy=remedy, option=unknown)
    path = os.fspath(output)
    proof = os.fspath(certificate) if certificate is not None else beside(path)
    if not os.path.exists(path):
        raise ParameterError(
            f"There is no file {path!r}.", remedy="Check the path.", code="no-file", path=path
        )
    if not os.path.exists(proof):
        remedy = (
            "Name the one that r2b debias wrote beside its output with `certificate=...`. Row "
            "weights have none: multiply them with those that rows had, and audit with the product."
        )
        raise ParameterError(f"There is no certificate {proof!r}.", remedy=remedy, path=proof)
    try:
        records = read_records(proof)
    except FileFormatError as error:
        if not error.facts.get("damaged"):
            raise
        return Verification(path, [Check(FOLLOWED, False, error.problem)])
    asked: dict[str, Any] = {
        "label": label,
        "columns": columns,
        "sensitive": sensitive_features,
        "control": control_features,
        "weight": sample_weight,
        "families": families,
        "bound": bound,
        "epsilon": epsilon,
        "outcomes": outcomes,
        "missing": missing,
        "small_groups": small_groups,
        "min_rows": min_group_size,
        "form": form,
    }
    required = {
        part: names_of(wanted, part) if part in _NAMES else wanted
        for part, wanted in asked.items()
        if wanted is not None
    }

    def verified(tag: Any, asked: dict[str, Any]) -> Verification:
        """Check the label, or one tag."""
        fair, record = records[tag]
        try:
            own, table = _opened(path, data, record, reading)
            checking = _Checking(own, table, fair, record)
            return checking.verification(path, asked, reading, tag=tag, strict=strict)
        except R2BError:
            raise
        except (*UNREADABLE, AssertionError) as error:
            # What is asked for cannot be followed to its end: a certificate that nobody here wrote,
            # and so no proof.
            return Verification(path, [Check(FOLLOWED, False, in_words(error))])

    if None in records:
        return verified(None, required)
    new = tuple(name for _, record in records.values() for name in record.new)
    checks = []
    for part, found in (("label", tuple(records)), ("columns", new)):
        if part in required:
            same, names = sorted(required[part]) == sorted(found), ", ".join(map(written, found))
            checks.append(Check(f"{CALLED.get(part, part)} as required", same, names))
    each, limits = {}, epsilon_per_class(required.get("epsilon", 1.0), [*records], largest=1.0)
    for (tag, (fair, record)), limit in zip(records.items(), limits.tolist(), strict=True):
        own = {part: wanted for part, wanted in required.items() if part != "label"}
        if "columns" in required:
            own["columns"] = record.new
        if "epsilon" in required or strict:  # the share of rows that have the tag is bounded
            own["epsilon"] = {fair.classes.tolist()[-1]: limit}
        each[tag] = verified(tag, own)
    similar = {name for one in each.values() for name in one.similar} - {*new}
    return Verification(path, checks, similar=tuple(sorted(similar)), tags=each)


def _opened(
    path: str, data: str | PathLike[str] | None, record: Record, asked: Mapping[str, Any]
) -> tuple[FileSource, FileSource]:
    """Open the output and the table with its data; refuse columns that are not there."""
    typed = {name: each for name, each in asked.items() if each and name not in ("sheet", "watch")}
    sheet = {"sheet": asked.get("sheet"), "progress": asked.get("watch")}
    reading = {**record.reading, "na": record.na, **typed}
    if data is None:
        own = table = _source(path, **reading, **sheet)
    else:
        own = _source(path, **reading, progress=sheet["progress"])
        typed.pop("format", None)
        table = _source(data, **{"na": record.na, **typed}, **sheet)
    if "na" in typed and not {each.listing.format.kind for each in (own, table)} & {"csv", "tsv"}:
        problem = f"`na` is for CSV and TSV, and {own.name} is {own.listing.format}."
        raise ParameterError(problem, remedy="Leave `na` out.", na=typed["na"])
    old = (*record.columns.used, *record.columns.key)
    gone = next((name for name in old if name not in table.names), None)
    if data is None and gone is not None:
        remedy = "Pass the table that was debiased with `data=...`."
        problem = f"{own.name} no longer has the column {gone!r}, which was read."
        raise ParameterError(problem, remedy=remedy, column=gone)
    own.check([("the certificate", record.new)])
    table.check([("the certificate", old)])
    return own, table


def _source(path: str | PathLike[str], **reading: Any) -> FileSource:
    try:
        found = FileSource.open(path, **reading)
    except ParameterError as error:
        if "na" not in error.facts:
            raise
        # written from text, in a format that says itself what is missing
        found = FileSource.open(path, **{**reading, "na": EMPTY})
    return replace(found, spelled=True)  # text is read as numbers in every format


class _Checking:
    """An output and the table with its data (often the same), checked against a certificate."""

    def __init__(
        self, output: FileSource, table: FileSource, fair: FairLabels, record: Record
    ) -> None:
        self.output, self.table, self.fair, self.record = output, table, fair, record
        self.checks: list[Check] = []
        self.schema = spelled_schema(fair.schema, table, record.columns)
        self.cells: Cells | None = None
        self.counted: dict[str, Any] = {}
        self.measured: dict[str, Any] = {}

    def verification(
        self,
        path: str,
        required: Mapping[str, Any],
        reading: Mapping[str, Any],
        *,
        tag: Any,
        strict: bool,
    ) -> Verification:
        """Run all checks."""
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                self._measure(strict)
        except R2BError as error:
            new = error.facts.get("column") in self.record.new
            name = "labels are probabilities" if new else "data can be read as they were"
            self._check(str(error.facts.get("check", name)), False, error.problem)
        fair, record = self.fair, self.record
        claim = claim_of(fair, record, self.cells, self.counted)
        groups = sum(len(each["groups"]) for each in claim["families"])
        bounds = [member.bound for member in fair.families.members]
        idle = all((bound.epsilon >= bound.largest).all() for bound in bounds)
        wrong = "the bound limits nothing" if idle else "nothing is compared"
        self._check(COMPARED, bool(claim["compared"]), f"{groups:,}", wrong)
        named = required_checks(fair, record, claim, required, reading, tag=tag, strict=strict)
        return Verification(path, [*named, *self.checks], claim, **self.measured)

    def _check(self, name: str, ok: bool, found: str, wrong: str | None = "") -> None:
        self.checks.append(Check(name, bool(ok), found if ok else wrong or found))

    def _measure(self, strict: bool) -> None:
        fair, record = self.fair, self.record
        sums, marks = self._added()
        n_rows, groups = int(sums.sums["rows"]), sums.groups
        if n_rows != record.n_rows or groups is None:
            remedy = "Pass the output as it was written."
            raise InputError(f"{n_rows:,}, not {record.n_rows:,}", remedy=remedy, check=ROWS)
        self._check(ROWS, True, f"{n_rows:,}")
        for part, name in {"data": "that were debiased", "labels": "that were written"}.items():
            mark, wanted = marks[part][:12], record.fingerprints[part][:12]
            same, found = marks[part] == record.fingerprints[part], f"sha256 {mark}"
            self._check(f"{part} are those {name}", same, found, f"{found}, not {wanted}")
        columns = self._columns()
        request, settings = request_and_settings(record.options)
        lam = float(settings.lam)
        if settings.objective == "agreement":  # a table of lam 0, or the small lam of probabilities
            lam = SETTINGS.agreement_lam if fair.table is None and not fair.unchanged else 0.0
        families, parity, cells = self._settled(sums, groups, request)
        proof = sums.certificate(fair, parity, lam)
        self._count(sums, cells, columns, families)
        wrong = (
            difference(fair.lam, lam, "lam")
            or difference(fair.certificate.to_json(), proof.to_json(), "certificate")
            or difference(fair.families.to_json(), families.to_json(), "families")
            or difference(fair.status.ok, proof.holds, "status")
        )
        found = "every number and name, from the data"
        self._check("the certificate states what holds", not wrong, found, wrong)
        self._labels(sums)
        drawn = None
        if sums.whole:
            drawn = realised(families, proof, cells, sums.sums["after"], sums.sums["mass"])
            wrong = difference(record.realised, drawn.to_json(), "")
            found = f"disparity {drawn.disparity:.6f}"
            name = "the labels in the file have this disparity"
            self._check(name, not wrong, found, wrong)
        if record.form == "round":
            weighted = record.columns.weight is not None
            away, beyond = sums.beyond_promise(cells, families, parity, weighted=weighted)
            near, far = f"at most {away:.2e} away", f"{beyond:.0e} too far"
            self._check("group means are as near as promised", beyond <= PROVEN, near, far)
        if strict and record.form == "sample" and record.columns.categorical:
            beyond = sums.beyond_chance(cells, families, parity)
            found = f"{beyond:.4f} farther than chance explains"
            self._check("the draw is by chance", beyond <= 0, "within chance", found)
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
        self.measured |= {"disparity_before": proof.disparity_before, "disparity": proof.disparity}
        self.measured["realised"] = drawn

    def _added(self) -> tuple[RowSums, dict[str, str]]:
        """Read all rows: what they add up to, and their fingerprints."""
        relabel = self._relabel()
        sums = RowSums(relabel)
        output = Output(self.output, relabel.decode, relabel.form, relabel.names, self.table)

        def look(piece: tuple[Batch, Batch]) -> tuple[WrittenRows, Any]:
            rows = output.read(piece)
            return rows, sums.look(rows)

        def added() -> Iterator[WrittenRows]:
            for rows, seen in work_ahead(look, output.pieces(), self.output.threads):
                sums.add(*seen)
                yield rows

        marks = checksums(added())
        return sums, marks

    def _columns(self) -> ColumnMarks:
        """Compare all columns but the new ones with those that were written, or with the data's."""
        record = self.record
        decode = Decode(record.columns, self.schema)
        repeated = record.new[2] if record.form == "expand" else None
        found = own = column_marks(self.output, decode, record.new, repeated=repeated)
        marks, stated = list(own.marks), list(record.table)
        if self.table is not self.output:
            found = column_marks(self.table, decode, record.new)
            # a number is spelled in another way by every format
            same = {
                name
                for name in {*self.output.names} & {*self.table.names}
                if str(self.output.kind_of(name)) == str(self.table.kind_of(name))
            }
            marks, stated = (
                sorted(each for each in table.marks if each[0] in same) for table in (own, found)
            )
        wrong = sorted({name for name, _ in {*marks} ^ {*stated}})[:5]
        differ = f"not {', '.join(map(written, wrong)) or 'in another order'}"
        self._check("columns are as they were", marks == stated, f"{len(stated):,}", differ)
        if repeated is not None:
            differ = f"copies differ in {', '.join(map(written, own.differing[:5]))}"
            self._check("repeated rows are copies", not own.differing, "every row", differ)
        self.measured["similar"] = tuple(sorted({*own.similar, *found.similar}))
        return found

    def _count(self, sums: RowSums, cells: Cells, columns: ColumnMarks, families: Families) -> None:
        """Count what the claim says of rows, beside what the certificate says."""
        roles, self.cells = self.record.columns, cells
        self.counted = {"missing": columns.missing, "reading": self._reading()}
        self.counted["divided"] = self._divided()
        if roles.weight is not None:
            self.counted["weights"] = (-sums.most["lightest"], sums.most["weight"])
        if roles.categorical:
            codes, keys = cells.crossings(range(cells.n_sensitive))
            total = np.zeros((len(keys), len(self.schema.classes)))
            np.add.at(total, codes, sums.sums["plain"])
            n_rows = np.bincount(codes, cells.counts, len(keys))
            self.measured["plain"] = float(
                np.ptp(families.compared(total / n_rows[:, None]), axis=0).max()
            )

    def _divided(self) -> bool:
        """Return whether rows of probabilities were divided by sums other than 1."""
        roles = self.record.columns
        if not roles.soft or not self.record.options.get("normalize"):
            return False
        batches = () if roles.listed else self.table.with_numbers(roles.label).batches(roles.label)
        totals = (sum(map(np.asarray, batch.columns.values())) for batch in batches)
        off = (np.abs(total - 1.0).max(initial=0.0) for total in totals)
        return roles.listed or any(each > max(TOLERANCE.values()) for each in off)

    def _reading(self) -> dict[str, str]:
        """Return how the output is read where it shows another way."""
        shape, file, found = self.output.listing.format, self.output.files[0], {}
        if format_of(self.output.listing.root) not in (None, shape):
            found["format"] = str(shape)
        if file.encoding != "utf-8":
            found["encoding"] = file.encoding
        if self.output.decimal != "." and self.record.columns.numbers:
            found["decimal"] = self.output.decimal
        if isinstance(file, DelimitedStored) and file.shown != file.dialect.delimiter:
            found["delimiter"] = file.dialect.delimiter
        return found

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
        roles, schema, count = self.record.columns, self.fair.schema, sums.sums["count"]
        # Of a table that was solved where it lives one typical row is kept for each cell of
        # categories: the cells are those of the data.
        kept = not roles.categorical and len(schema.table) < groups.n_cells
        named = [*map(str, range(len(schema.classes)))] if roles.listed else list(roles.label)
        codes = zip(schema.vocabularies, schema.table.T, strict=True)
        known = {
            "columns": schema.columns == (*roles.names, *roles.control)
            and schema.n_control == len(roles.control),
            "cells": count.all()
            and (kept or difference(_layout(self.schema), _layout(groups), "") is None),
            "classes": as_text(schema.classes.values, "classes") == named
            if roles.soft
            else sums.sums["classes"].all(),
            "values": kept or all(len(np.unique(own)) == each.n_codes for each, own in codes),
            "missing values": request.missing != "error"
            or not any(each.has_missing for each in schema.vocabularies),
        }
        wrong = next((name for name, right in known.items() if not right), None)
        if wrong is None:
            layout = groups if kept else schema
            cells = Cells(*layout.parts, codes=np.arange(groups.n_cells), repeats=count)
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

    def _labels(self, sums: RowSums) -> None:
        """Check labels one by one: classes or distributions that follow from the prices."""
        wrong, first = int(sums.sums["wrong"]), -sums.most["first"]
        rows = f"{wrong:,} row{'' if wrong == 1 else 's'}, the first is row {first:.0f}"
        found = f"off by {sums.most['away']:.0e}"
        differ = f"{found} in {rows}"
        if sums.whole:
            found, differ = "every row, drawn again", f"drawn in another way in {rows}"
        else:
            limit = max(TOLERANCE.values()) if self.fair.unchanged else PROVEN
            off = sums.most["off"]
            self._check("labels are on the simplex", off <= limit, f"off by {off:.0e}")
        if self.record.form == "expand":
            apart = sums.most["apart"]
            name = "weights of a row add up to its own"
            self._check(name, apart <= PROVEN, f"off by {apart:.0e}")
        self._check("labels follow from the prices", not wrong, found, differ)


def _layout(groups: Layout) -> dict[str, Any]:
    return Layout(*groups.parts).to_json()


def difference(said: Any, found: Any, where: str) -> str | None:
    """Name the first place where two trees of plain values differ by more than rounding.

    Examples
    --------
    >>> difference({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}, "table")
    'table a 1 is 3.0, not 2.0'
    """
    one, other = (dict(_leaves(tree, where)) for tree in (said, found))
    for place in {**other, **one}:
        both = one.get(place), other.get(place)
        numbers = [each for each in both if isinstance(each, (int, float))]
        near = len(numbers) == 2 and abs(numbers[0] - numbers[1]) <= PROVEN * (1 + abs(numbers[1]))
        if both[0] != both[1] and not near:
            return f"{place} is {both[1]!r}, not {both[0]!r}"[:200]
    return None


def _leaves(tree: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of a tree with their places; an empty part is a value."""
    if not isinstance(tree, (dict, list, tuple)) or not tree:
        yield place, tree
        return
    for key, each in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from _leaves(each, f"{place} {key}".strip())
