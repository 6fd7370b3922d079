"""What a certificate claims: said in words before it is checked, and compared with what the data give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b import FairLabels
from r2b._constraints.families import Families
from r2b._data.values import written
from r2b._files.plain import as_text
from r2b._labels.realised import Realised
from r2b._labels.text import MEASURES
from r2b._solve.certificate import PROVEN, Certificate
from r2b.cli.record import Record
from r2b.cli.speaking import strict

STATED = "the certificate states what holds"
IN_FILE = "the labels in the file have this parity"


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
    """All that was looked at, and what was measured on the way.

    Attributes
    ----------
    checks : list of Check
    parity_before, parity : float or None
        Of the labels that came in, and of the distributions; None where it did not come to that.
    realised : Realised or None
        Of one class per row, as it stands in the file.
    """

    checks: list[Check]
    parity_before: float | None = None
    parity: float | None = None
    realised: Realised | None = None

    @property
    def parity_in_file(self) -> float | None:
        """The parity of the labels as they stand."""
        return self.parity if self.realised is None else self.realised.parity


def claim_of(fair: FairLabels, record: Record) -> dict[str, Any]:
    """Give what is claimed, as plain values: which labels, which groups, which bound, which form, which rows are left out and why."""
    selection, options, families = record.selection, record.options, fair.families
    sensitive = [*selection.sensitive, *selection.continuous, *(name for name, _ in selection.membership)]
    bounds = [{"name": member.name, "bound": member.bound.kind, "epsilon": _epsilons(member.bound.epsilon)} for member in families.members]
    reasons = [f"{name}={options[name]!r}" for name in ("missing", "small_groups") if options.get(name) == "exclude"]
    return {
        "label": selection.label if selection.label is not None else list(selection.label_columns),
        "sensitive": sensitive,
        "control": list(selection.control),
        "weight": selection.weight,
        "families": bounds,
        "objective": options.get("objective", "distance"),
        "lam": fair.lam,
        "costs": fair.costs is not None,
        "form": record.form,
        "columns": list(record.new),
        "random_state": record.random_state if record.form in ("round", "sample") else None,
        "key": list(record.key),
        "rows": record.n_rows,
        "left_out": families.left_out,
        "left_out_because": reasons,
        "absent": [f"{each.group} in {each.stratum}" for each in families.absent],
    }


def _epsilons(epsilon: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    values = strict(epsilon.tolist())
    return values[0] if len(set(map(str, values))) == 1 else values


def claim_lines(claim: Mapping[str, Any], found: Verification) -> list[str]:
    """Say what is claimed."""
    label = claim["label"] if isinstance(claim["label"], str) else f"{len(claim['label'])} columns of probabilities"
    lines = [("label", written(label)), ("sensitive", ", ".join(map(written, claim["sensitive"])))]
    if claim["control"]:
        lines.append(("within", ", ".join(map(written, claim["control"]))))
    if claim["weight"] is not None:
        lines.append(("weights", written(claim["weight"])))
    for family in claim["families"][:12]:
        epsilon = family["epsilon"] if not isinstance(family["epsilon"], list) else f"{len(family['epsilon'])} epsilons by class"
        lines.append(("bound", f"{written(family['name']) or 'groups'}: {MEASURES[family['bound']]} at most {epsilon}"))
    if len(claim["families"]) > 12:
        lines.append(("", f"and {len(claim['families']) - 12} more"))
    if claim["objective"] != "distance" or claim["lam"] not in (0.0, 1.0) or claim["costs"]:
        costs = ", costs of the certificate" if claim["costs"] else ""
        lines.append(("objective", f"{claim['objective']}, lambda {claim['lam']:g}{costs}"))
    by = f" (seed {claim['random_state']}, by {', '.join(map(written, claim['key'])) or 'row number'})"
    lines.append(("form", claim["form"] + (by if claim["random_state"] is not None else "")))
    reasons = f", {' and '.join(claim['left_out_because'])}" if claim["left_out_because"] else ""
    whose = "rows" if claim["weight"] is None else "weight"
    left = f"{100 * claim['left_out']:.2f} % of the {whose}, in no group{reasons}" if claim["left_out"] > 0 else "none"
    lines.append(("left out", left))
    if claim["absent"]:
        lines.append(("absent", "; ".join(map(written, claim["absent"][:5])) + (" and more" if len(claim["absent"]) > 5 else "")))
    if found.parity is not None:
        soft = "" if found.realised is None else f"; {found.parity:.4f} as probabilities"
        lines.append(("parity", f"{found.parity_before:.4f} before, {found.parity_in_file:.4f} in the file{soft}"))
    return [f"  {name:18}{text}" for name, text in lines]


def insisted(record: Record, label: Sequence[str], sensitive: Sequence[str]) -> list[Check]:
    """Check that the certificate is about the columns that the reader names."""
    claim, checks = record.selection, []
    if label:
        named = [claim.label] if claim.label is not None else list(claim.label_columns)
        checks.append(Check("the label is the one insisted on", named == list(label), ", ".join(map(written, named))))
    if sensitive:
        columns = [*claim.sensitive, *claim.continuous, *(name for name, _ in claim.membership)]
        found = ", ".join(map(written, columns))
        checks.append(Check("the attributes are those insisted on", sorted(columns) == sorted(sensitive), found))
    return checks


def stated(fair: FairLabels, proof: Certificate, families: Families, schema: Any, lam: float) -> Check:
    """Compare every number and name of the certificate with what the data give."""
    told: list[tuple[str, Any, Any]] = [("schema", _named(fair.schema), _named(schema)), ("lam", fair.lam, lam)]
    told += [("certificate", fair.certificate.to_json(), proof.to_json()), ("families", fair.families.to_json(), families.to_json())]
    told.append(("status", fair.status.ok, proof.holds))
    return _compared(told)


def stated_in_part(fair: FairLabels, found: Realised, families: Families, lam: float, holds: bool) -> Check:
    """Compare what a pass over probabilities gives: means, parity and families."""
    proof = fair.certificate
    told = [("means", proof.means.tolist(), found.means.tolist()), ("parity", proof.parity, found.parity)]
    told += [("parity_by_class", proof.parity_by_class.tolist(), found.parity_by_class.tolist()), ("excess", proof.excess, found.excess)]
    told += [("families of the certificate", [each.to_json() for each in proof.families], [each.to_json() for each in found.families])]
    told += [("families", fair.families.to_json(), families.to_json()), ("lam", fair.lam, lam), ("status", fair.status.ok, holds)]
    return _compared(told)


def realised_check(record: Record, found: Realised) -> Check:
    """Compare the parity that is stated for one class per row with that of the labels in the file."""
    difference = _difference(record.realised, found.to_json(), "")
    return Check(
        IN_FILE, difference is None, f"parity {found.parity:.6f}" if difference is None else f"parity {found.parity:.6f}; {difference}"
    )


def _compared(told: list[tuple[str, Any, Any]]) -> Check:
    for name, said, found in told:
        difference = _difference(said, found, name)
        if difference is not None:
            return Check(STATED, False, difference)
    return Check(STATED, True, "every number and name, from the data")


def _named(schema: Any) -> dict[str, Any]:
    values = [as_text(each.values, "values") if hasattr(each, "values") else [] for each in schema.vocabularies]
    classes = as_text(schema.classes.values, "classes")
    named = {"classes": classes, "columns": list(schema.columns), "values": values, "cells": schema.table.tolist()}
    return {**named, "soft": schema.is_soft, "kinds": list(schema.kinds), "control": schema.n_control}


def _difference(said: Any, found: Any, where: str) -> str | None:
    """Name the first place where two trees of plain values differ; numbers may differ by what rounding does."""
    number = (int, float)
    if isinstance(said, number) and isinstance(found, number) and bool not in (type(said), type(found)):
        return None if abs(said - found) <= PROVEN * (1.0 + abs(found)) else f"{where} is {found:.9g}, not {said:.9g}"
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() == found.keys():
        places: Any = ((said[key], found[key], f"{where} {key}".strip()) for key in found)
    elif isinstance(said, (list, tuple)) and isinstance(found, (list, tuple)) and len(said) == len(found):
        places = ((one, other, f"{where}[{place}]") for place, (one, other) in enumerate(zip(said, found, strict=True)))
    else:
        return None if said == found else f"{where} is {found!r}, not {said!r}"[:200]
    return next((each for one, other, place in places if (each := _difference(one, other, place)) is not None), None)
