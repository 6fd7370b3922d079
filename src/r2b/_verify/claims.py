"""What a certificate claims, read with suspicion, and what was found about it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import r2b
from r2b._constraints.bounds import PARAMETERS
from r2b._data.values import json_value, written
from r2b._labels import FairLabels
from r2b._labels.debiasing import DEFAULTS
from r2b._labels.realised import Realised
from r2b._labels.rows import Form
from r2b._labels.storage import content_of
from r2b._labels.summary import MEASURES
from r2b._solve.certificate import PROVEN
from r2b._verify.record import VERSION, Record
from r2b.engines.roles import ColumnRoles
from r2b.errors import FileFormatError

_KINDS = {str: ("command",), int: ("n_rows", "random_state"), dict: ("reading", "fingerprints")}
_LISTS = ("label", "sensitive", "control", "key", "continuous")
_LISTED = 12  # families that are listed one by one


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


def _options_of(stored: Any) -> dict[str, Any]:
    if not isinstance(stored, dict) or not set(stored) <= {*DEFAULTS}:
        raise ValueError(f"options is {stored!r}")
    found = dict(stored)
    for name in ("epsilon", *PARAMETERS):
        value = found.get(name)
        if isinstance(value, list):
            found[name] = {each: float(number) for each, number in value}
        elif value == "inf":
            found[name] = math.inf
    return found


def read_record(path: str) -> tuple[FairLabels, Record]:
    """Read a certificate file.

    Raises
    ------
    FileFormatError
        It is not one, or damaged.
    """
    fair = r2b.load(path)
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    stored = content.pop("file", None)
    if not isinstance(stored, dict):
        remedy = "Pass the file that r2b debias wrote beside its output."
        raise FileFormatError(
            f"{path} does not say how the labels were made.", remedy=remedy, path=path
        )
    try:
        record = _record_of(stored, fair)
        # What is read must be all that is there: no number that is taken for another, no name that
        # is passed over.
        _refuse_other(content, content_of(fair))
        _refuse_other(
            {name: value for name, value in stored.items() if name not in ("version", "r2b")},
            record.to_json(),
        )
        return fair, record
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        problem = f"{path} cannot be followed: {type(cause).__name__} ({cause})."
        remedy = "Pass the file that r2b debias wrote beside its output, as it wrote it."
        raise FileFormatError(problem, remedy=remedy, path=path, damaged=True) from cause


def _refuse_other(said: dict[str, Any], read: dict[str, Any]) -> None:
    """Refuse what is not spelled as it would be written."""
    for name in {**said, **read}:
        written = [json.dumps(each.get(name), sort_keys=True) for each in (said, read)]
        if written[0] != written[1] or (name in said) != (name in read):
            raise ValueError(f"{name} is not as it would be written")


def _record_of(stored: dict[str, Any], fair: FairLabels) -> Record:
    """Read a record; every field is looked at, since anyone may have written it."""
    columns, new = _columns_of(stored["columns"]), _texts_of("new", stored["new"])
    form, sound = (
        stored["form"],
        {name: type(stored[name]) is kind for kind, names in _KINDS.items() for name in names},
    )
    sound |= {
        "version": stored["version"] == VERSION,
        "columns": columns.soft == fair.schema.is_soft,
        "form": form in get_args(Form),
    }
    sound["new"] = (
        len(new) == {"soft": len(fair.classes), "expand": 3}.get(form, 1) == len(set(new))
    )
    sound["realised"] = type(stored["realised"]) is (
        dict if form in ("round", "sample") else NoneType
    )
    sound["random_state"] &= 0 <= stored["random_state"] < 2**63
    wrong = next((name for name, right in sound.items() if not right), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is {stored[wrong]!r}")
    read = {
        "columns": columns,
        "new": new,
        "na": _texts_of("na", stored["na"]),
        "options": _options_of(stored["options"]),
    }
    return Record(**{**{name: stored[name] for name in Record.__dataclass_fields__}, **read})


def _columns_of(stored: Any) -> ColumnRoles:
    lists = {name: _texts_of(name, stored[name]) for name in _LISTS}
    membership = tuple(
        (str(name), _texts_of(name, columns)) for name, columns in stored["membership"]
    )
    if (
        type(stored["soft"]) is not bool
        or not isinstance(stored["weight"], (str, NoneType))
        or not lists["label"]
    ):
        raise ValueError(f"columns is {stored!r}")
    if stored["settings"]:
        raise ValueError("settings of continuous attributes are not written by the command line")
    return ColumnRoles(
        soft=stored["soft"],
        weight=stored["weight"],
        membership=membership,
        **lists,  # type: ignore[arg-type]
    )


def _texts_of(name: str, stored: Any) -> tuple[str, ...]:
    if not isinstance(stored, list) or not all(isinstance(each, str) for each in stored):
        raise ValueError(f"{name} is {stored!r}")
    return tuple(stored)


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
    for family in claim["families"][:_LISTED]:
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
    if len(claim["families"]) > _LISTED:
        lines.append(("", f"and {len(claim['families']) - _LISTED} more"))
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
