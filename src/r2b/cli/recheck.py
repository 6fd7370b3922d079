"""The checks of ``r2b verify``, each from the table: nothing that the certificate claims is used but what was asked for, and the prices.

For any labels x that meet the bound and any prices, ``gap`` bounds how much better other labels can be (see ``certificate``). It is
computed here row by row, by code that no solver shares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b import FairLabels
from r2b._audit.tradeoff import task_of
from r2b._constraints.parity import Parity
from r2b._data.dataset import Labels
from r2b._data.merge import cell_sums
from r2b._data.probabilities import TOLERANCE
from r2b._files import Table
from r2b._files.plain import as_matrix, as_numbers, as_text, listed
from r2b._labels.label_rows import MemoryRows
from r2b._labels.realised import Realised, realised
from r2b._labels.task import MemoryTask
from r2b._solve.certificate import PROVEN
from r2b.cli.claims import Check, Verification, realised_check, stated
from r2b.cli.labelling import drawn
from r2b.cli.record import Record, fingerprint
from r2b.errors import ParameterError, R2BError

Floats = NDArray[np.float64]

FOLLOW = "labels follow from the prices"
_BLOCK = 65_536


def recheck(table: Table, source: Table, fair: FairLabels, record: Record) -> Verification:
    """Check labels in a table against their source, which may be the same table."""
    selection = record.selection
    if source is table and (gone := [name for name in selection.used if name not in table]):
        remedy = "Pass the table that was debiased with --data."
        raise ParameterError(f"{table.name} no longer has the column {gone[0]!r}, which was read.", remedy=remedy, column=gone[0])
    source.check(selection.used, "named in the certificate")
    table.check(record.new, "named in the certificate")
    made, columns = table.columns(record.new), source.columns(selection.used)
    rows = None
    if record.form == "expand":
        rows = np.asarray(as_numbers(listed(made[record.new[2]]), table, record.new[2]), dtype=np.float64).astype(np.int64)
        there, first = np.unique(rows, return_index=True)
        checks = [same("rows are as many as were debiased", len(there), record.n_rows)]
        if source is table:
            checks.append(_copies(columns, rows, first))
            columns = {name: _taken(column, first) for name, column in columns.items()}
    else:
        checks = [same("rows are as many as were debiased", source.n_rows, record.n_rows)]
    if not all(check.ok for check in checks):
        return Verification(checks)
    if rows is not None and (rows.min() < 0 or rows.max() >= record.n_rows):
        return Verification([replace(checks[0], ok=False, found="a row number that was not debiased")])
    checks.append(alike("data are those that were debiased", fingerprint(columns), record.fingerprints["data"]))
    checks.append(alike("labels are those that were written", fingerprint(made), record.fingerprints["labels"]))
    try:
        arguments = _as_fitted(selection.arguments(source, columns), fair)
        job = task_of(arguments.pop("y"), {**arguments, **record.options, "costs": fair.costs})
    except R2BError as error:
        return Verification([*checks, Check("data can be read as they were", False, error.problem)])
    known = [job.families.names.tolist() == fair.groups.tolist(), job.dataset.schema.classes.values.tolist() == fair.classes.tolist()]
    checks.append(Check("classes and groups are the same", all(known), f"{len(fair.classes)} classes, {len(fair.groups)} groups"))
    if not all(known):
        return Verification(checks)
    proof = job.certify(fair)
    checks.append(stated(fair, proof, job.families, job.schema, job.problem(job.parity).lam))
    found, realised_ = _of_labels(Evidence(job, replace(fair, rows=MemoryRows(job.dataset))), record, made, table, rows)
    return Verification(checks + found, proof.parity_before, proof.parity, realised_)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A problem built anew from the table, and the prices that are said to solve it.

    Attributes
    ----------
    job : MemoryTask
    fair : FairLabels
        With the rows of the table.
    """

    job: MemoryTask
    fair: FairLabels

    @property
    def weight(self) -> Floats:
        """The weights of all rows, with the sum 1."""
        data = self.job.dataset
        weight = np.ones(data.n_rows) if data.weight is None else data.weight
        return np.asarray(weight / weight.sum())

    def means(self, x: Floats) -> Floats:
        """Give the group means of labels."""
        cells, weight = self.job.dataset.groups.codes, self.weight
        share = np.bincount(cells, weight, minlength=self.job.dataset.n_groups)
        sums = np.column_stack([np.bincount(cells, weight * column, minlength=len(share)) for column in x.T])
        return self.job.parity.means(np.divide(sums, share[:, None], out=np.zeros_like(sums), where=share[:, None] > 0))

    def realised(self, codes: NDArray[Any]) -> Realised:
        """Measure one class per row."""
        data, job = self.job.dataset, self.job
        weight, sums = cell_sums(Labels(data.labels.vocabulary, codes=codes), data.groups, data.weight)
        return realised(job.families, self.fair.certificate, data.groups, sums, weight)

    def before(self) -> Floats:
        """Give the labels that came in, as a matrix."""
        labels = self.job.dataset.labels
        return np.asarray(labels.array, dtype=np.float64) if labels.is_soft else np.eye(labels.n_classes)[labels.array]

    def gap(self, x: Floats, means: Floats) -> float:
        """Bound how much better other labels can be, as a share of the objective."""
        parity, lam = self.job.parity, self.job.problem(self.job.parity).lam
        prices = parity.settle(self.fair.prices)
        shifts, cells, weight = parity.shifts(prices), self.job.dataset.groups.codes, self.weight
        worth = self.before() if self.job.costs is None else self.before() @ -self.job.costs
        slack = size = 0.0
        for start in range(0, len(x), _BLOCK):
            part = slice(start, start + _BLOCK)
            here, old, mine = x[part], worth[part], weight[part]
            slope = lam * here - old + shifts[cells[part]]
            slack += float(mine @ ((here * slope).sum(axis=1) - slope.min(axis=1)))
            size += 0.5 * lam * float(mine @ (here * here).sum(axis=1)) + abs(float(mine @ (here * old).sum(axis=1)))
        return (slack + parity.support(prices) - parity.product(prices, means)) / size


def _of_labels(
    evidence: Evidence, record: Record, made: dict[str, Any], table: Table, rows: NDArray[np.int64] | None
) -> tuple[list[Check], Realised | None]:
    expected = np.asarray(evidence.fair.soft_labels, dtype=np.float64)
    if record.form in ("round", "sample"):
        table.check(record.key, "the key in the certificate")
        key = table.columns(record.key) if record.key else {}
        return _of_whole(evidence, record, as_text(made[record.new[0]], record.new[0]), expected, key)
    checks: list[Check] = []
    try:
        if rows is None:
            x = as_matrix([as_numbers(listed(made[name]), table, name) for name in record.new])
        else:
            x, checks = _gathered(evidence, made, record, table, rows, expected)
    except R2BError as error:
        return [Check("labels are probabilities", False, error.problem)], None
    except KeyError as error:
        return [Check("labels are classes", False, f"{error.args[0]!r} is none")], None
    return checks + of_soft(evidence, x, expected), None


def of_soft(evidence: Evidence, x: Floats, expected: Floats) -> list[Check]:
    """Check distributions: on the simplex, as the prices say, within the bound, and optimal."""
    untouched = np.array_equal(x, evidence.before())
    off = float(max(0.0, -x.min(), np.abs(x.sum(axis=1) - 1.0).max())) if np.isfinite(x).all() else np.inf
    away = np.abs(x - expected).max(axis=1)
    worst = float(away.max())
    checks = [
        Check("labels are on the simplex", off <= (TOLERANCE[np.dtype(np.float64)] if untouched else PROVEN), f"off by {off:.0e}"),
        Check(FOLLOW, worst <= PROVEN, f"off by {worst:.0e}{_where(away)}"),
    ]
    return checks + proof_of(evidence, x)


def _where(away: Floats) -> str:
    wrong = np.flatnonzero(~(away <= PROVEN))
    return f" in {len(wrong):,} row{'s' if len(wrong) > 1 else ''}, the first is row {wrong[0]}" if len(wrong) else ""


def proof_of(evidence: Evidence, x: Floats, *, whole: bool = False) -> list[Check]:
    """Check the bound and the optimum of labels, from their means and the prices."""
    means = evidence.means(x)
    return told(evidence.job.parity, means, evidence.gap(x, means), whole=whole)


def told(parity_: Parity, means: Floats, gap: float, *, whole: bool = False) -> list[Check]:
    """Say whether means meet the bound and the gap is closed; of ``whole`` labels it is their probabilities that do."""
    excess, members = parity_.violation(means), parity_.members
    parity = max(float(np.ptp(means[member.groups], axis=0).max()) for member in members)
    asked = max(float(member.bound.epsilon.max()) for member in members)
    meet, kind = ("their probabilities meet", "probabilities") if whole else ("labels meet", "labels")
    found = f"{excess:.0e} above the bound; parity {parity:.6f}, epsilon {asked:g}"
    return [
        Check(f"{meet} the bound", excess <= PROVEN, found),
        Check(f"no {kind} in parity are closer", abs(gap) <= PROVEN, f"duality gap {abs(gap):.0e}"),
    ]


def _of_whole(
    evidence: Evidence, record: Record, texts: list[str], expected: Floats, key: dict[str, Any]
) -> tuple[list[Check], Realised | None]:
    """Check one class per row: drawn again from the prices, and near the means that were promised."""
    code = codes_of(evidence.fair)
    unknown = next((text for text in texts if text not in code), None)
    if unknown is not None:
        return [Check("labels are classes", False, f"{unknown!r} is none")], None
    again = as_text(drawn(evidence.fair, record.form, record.random_state, key), "labels")
    wrong = [row for row, (one, other) in enumerate(zip(texts, again, strict=True)) if one != other]
    checks = [Check(FOLLOW, not wrong, how_many_differ(len(wrong), wrong[0]) if wrong else "every row, drawn again")]
    found = evidence.realised(np.array([code[text] for text in texts]))
    checks.append(realised_check(record, found))
    if record.form == "round":
        checks += promise_of(evidence, found.means)
    return checks + proof_of(evidence, expected, whole=True), found


def how_many_differ(n: int, first: Any) -> str:
    """Say how many rows are not as they were drawn."""
    return f"{n:,} {'row differs' if n == 1 else 'rows differ'}, the first is row {first}"


def promise_of(evidence: Evidence, means: Floats) -> list[Check]:
    """Check that rounding kept every group mean as close to the optimum as ``FairLabels.round`` promises."""
    allowed = evidence.fair.rounding_bound
    away = np.abs(means - evidence.means(np.asarray(evidence.fair.soft_labels, np.float64))).max(axis=1)
    beyond = float((away - allowed).max())
    found = f"at most {away.max():.2e} away" if beyond <= PROVEN else f"{beyond:.0e} too far"
    return [Check("group means are as near as promised", beyond <= PROVEN, found)]


def _gathered(
    evidence: Evidence, made: dict[str, Any], record: Record, table: Table, rows: NDArray[np.int64], expected: Floats
) -> tuple[Floats, list[Check]]:
    """Put repeated rows together again: the weights of a row are its probabilities."""
    label, weight, _ = record.new
    code = codes_of(evidence.fair)
    column = np.array([code[text] for text in as_text(made[label], label)])
    x = np.zeros_like(expected)
    np.add.at(x, (rows, column), np.asarray(as_numbers(listed(made[weight]), table, weight), dtype=np.float64))
    total, wanted = x.sum(axis=1), evidence.job.dataset.weight
    off = np.abs(total - (1.0 if wanted is None else wanted))
    heavy = total > 0
    x[heavy] /= total[heavy, None]
    x[~heavy] = expected[~heavy]  # a row of no weight says nothing about its label
    ok = bool((off <= PROVEN * np.maximum(1.0, total)).all())
    return x, [Check("weights of a row add up to its own", ok, f"off by {off.max():.0e}{'' if ok else _where(off)}")]


def codes_of(fair: FairLabels) -> dict[str, int]:
    """Give the code of each class by its text."""
    return {text: code for code, text in enumerate(as_text(fair.classes, "classes"))}


def _copies(columns: dict[str, Any], rows: NDArray[np.int64], first: NDArray[np.int64]) -> Check:
    """Check that a repeated row has the same values wherever it stands."""
    place = first[np.searchsorted(rows[first], rows)]
    for name, column in columns.items():
        texts = as_text(column, name)
        odd = next((row for row, (text, source) in enumerate(zip(texts, place.tolist(), strict=True)) if text != texts[source]), None)
        if odd is not None:
            return Check("repeated rows are copies", False, f"row {rows[odd]} has two values of {name!r}")
    return Check("repeated rows are copies", True, f"{len(rows):,} of {len(first):,}")


def _taken(column: Any, rows: NDArray[np.int64]) -> Any:
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column.take(rows)


def _as_fitted(arguments: dict[str, Any], fair: FairLabels) -> dict[str, Any]:
    """Give text back the type that it had before a format without types took it away."""
    vocabularies = dict(zip(fair.schema.columns, fair.schema.vocabularies, strict=True))
    for part in ("sensitive_features", "control_features"):
        for name, column in arguments.get(part, {}).items():
            arguments[part][name] = typed(column, getattr(vocabularies.get(name), "values", None))
    if not isinstance(arguments["y"], dict):
        arguments["y"] = typed(arguments["y"], fair.classes)
    return arguments


def typed(column: Any, known: Any) -> Any:
    """Give a list of text the values that it spells, where those are not text themselves."""
    if not isinstance(column, list) or known is None or any(isinstance(value, str) for value in listed(known)):
        return column
    values = listed(known)
    spelled = dict(zip(as_text(values, "values"), values, strict=True))
    return [spelled.get(value, value) if isinstance(value, str) else value for value in column]


def same(name: str, found: int, wanted: int) -> Check:
    """Compare numbers of rows."""
    return Check(name, found == wanted, f"{found:,}" if found == wanted else f"{found:,}, not {wanted:,}")


def alike(name: str, found: str, wanted: str) -> Check:
    """Compare checksums."""
    return Check(name, found == wanted, f"sha256 {found[:12]}" if found == wanted else f"sha256 {found[:12]}, not {wanted[:12]}")
