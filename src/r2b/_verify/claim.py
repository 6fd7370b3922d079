"""What a certificate claims: all of it, how it is printed, and what a reader requires of it.

A claim can be true and empty: of groups that were merged into one, of weights that are nearly 0, of
a control column that repeats the label. So nothing that narrows it is left out here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2b._constraints.epsilon import epsilon_per_class
from r2b._constraints.families.fitted import Crossings
from r2b._data.arrays import Floats
from r2b._data.cells import Cells
from r2b._data.families import family_columns
from r2b._data.outcomes import read_outcomes
from r2b._data.values import json_value, written
from r2b._files.formats import as_text
from r2b._labels import FairLabels
from r2b._labels.summary import MEASURES, SHOWN_FAMILIES
from r2b._solve.certificate import PROVEN
from r2b._verify.record import Record
from r2b.engines.roles import names_of
from r2b.engines.source import new_names

COMPARED = "two groups or more are compared"


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
class Counted:
    """What was counted in the rows, beside the sums that the certificate needs.

    Attributes
    ----------
    cells : Cells, optional
        None where rows could not be counted.
    rows : ndarray of shape (n_cells,)
    weights : tuple of float, optional
        The smallest and the largest.
    missing : Counter
        Rows without a value of an attribute, by the text that means it; "" also stands for null.
    plain : float, optional
        Disparity of the labels if every crossing of values is a group and every row counts once.
    reading : dict of str to str
        How the output is read where its name, its header or UTF-8 would have it read in another
        way: it may then hold two tables.
    chance : float
        How much farther group means of drawn labels are from those expected than chance explains.
    divided : bool
        Whether rows of probabilities were divided by sums other than 1.
    """

    cells: Cells | None = None
    rows: Floats = field(default_factory=lambda: np.zeros(0))
    weights: tuple[float, float] | None = None
    missing: Counter[str] = field(default_factory=Counter)
    plain: float | None = None
    reading: dict[str, str] = field(default_factory=dict)
    chance: float = 0.0
    divided: bool = False


def claim_of(fair: FairLabels, record: Record, counted: Counted) -> dict[str, Any]:
    """Return everything that is claimed as plain values; without a count no rows of groups."""
    columns, options, families = record.columns, record.options, fair.families
    of_groups, merged, left_out = None, dict[str, list[str]](), None
    if counted.cells is not None:
        of_groups = families.cells_of_groups(counted.cells, counted.rows)[1]
        inside = np.any([how.counted(counted.cells) for how in families.counting], axis=0)
        left_out = int(counted.rows[~inside].sum())
    found, compared = [], set[tuple[str, ...]]()
    for member, how in families.pairs():
        bound, names = member.bound, families.names[member.groups].tolist()
        places = getattr(how, "columns", None) or (how.column,)  # type: ignore[attr-defined]
        of = tuple(fair.schema.columns[place] for place in places)
        several = member.n_groups > 1 or not bound.compares_groups
        if several and (bound.epsilon < bound.largest).any():
            compared.add(of)
        if isinstance(how, Crossings):
            values = defaultdict[int, list[str]](list)
            for key, group in how.place.items():
                values[group].append(", ".join(map(fair.schema.value_name, how.columns, key)))
            merged |= {
                str(names[k]): each for k, each in values.items() if k >= 0 and len(each) > 1
            }
        rows = of_groups[member.groups] if of_groups is not None and bound.compares_groups else None
        one = len({*bound.epsilon.ravel().tolist()}) == 1
        found.append(
            {
                "name": member.name,
                "columns": of,
                "bound": bound.name,
                "epsilon": bound.epsilon.ravel()[0] if one else bound.epsilon,
                "offsets": member.offsets is not None,
                "groups": [
                    {"name": str(name), "rows": None if rows is None else round(rows[n])}
                    for n, name in enumerate(names)
                ],
            }
        )
    # A draw decides nothing where labels go out as they came in.
    drawn = record.form in ("round", "sample") and not (fair.unchanged and not columns.soft)
    claim: dict[str, Any] = json_value(
        {
            "label": columns.label[0] if len(columns.label) == 1 else columns.label,
            "columns": record.new,
            "sensitive": columns.names,
            "membership": dict(columns.membership),
            "divided": counted.divided,
            "categorical": columns.categorical,
            "control": columns.control,
            "weight": columns.weight,
            "weights": counted.weights,
            "compared": sorted(compared),
            "families": found,
            "merged": merged,
            "excluded": families.excluded,
            "left_out": families.left_out,
            "left_out_rows": left_out,
            "reading": counted.reading,
            "missing": dict(counted.missing),
            "missing_as": options.get("missing") if counted.missing else None,
            "absent": [f"{each.group} in {each.stratum}" for each in families.absent],
            "outcomes": _parts_of(fair),
            "objective": options.get("objective", "distance"),
            "lam": fair.lam,
            "costs": fair.costs is not None,
            "form": record.form,
            "random_state": record.random_state if drawn else None,
            "key": columns.key if drawn else (),
            "rows": record.n_rows,
        }
    )
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


def claim_lines(claim: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe what is claimed."""
    label, whose = claim["label"], "rows" if claim["weight"] is None else "weight"
    divided = ", divided by their sums" * claim["divided"]
    several = f"{len(label)} columns of probabilities{divided}"
    lines = [("label", written(label if isinstance(label, str) else several))]
    lines += [("columns", _names(claim["columns"])), ("sensitive", _names(claim["sensitive"]))]
    for name, of in claim["membership"].items():
        lines.append(("", f"{written(name)} is known in probability, from {_names(of)}"))
    if claim["control"]:
        lines.append(("within", _names(claim["control"])))
    if claim["weight"] is not None:
        least = "" if claim["weights"] is None else ", from {:g} to {:g}".format(*claim["weights"])
        lines.append(("weights", f"{written(claim['weight'])}{least}"))
    for family in claim["families"][:SHOWN_FAMILIES]:
        lines += _family_lines(family)
    if len(claim["families"]) > SHOWN_FAMILIES:
        lines.append(("", f"and {len(claim['families']) - SHOWN_FAMILIES} more families"))
    for name, values in [*claim["merged"].items()][:SHOWN_FAMILIES]:
        lines.append(("merged", f"{written(name)}: {_names(values)}"))
    for name, parts in [*(claim["outcomes"] or {}).items()][:SHOWN_FAMILIES]:
        counted = [
            written(label) if part == 1 else f"{part:g} of {written(label)}"
            for label, part in parts.items()
        ]
        lines.append(("outcome", f"{written(name)}: {', '.join(counted)}"))
    if claim["reading"]:
        how = ", ".join(f"{name} {value!r}" for name, value in claim["reading"].items())
        lines.append(("read with", f"{how}; the file shows another"))
    if claim["missing"]:
        marks = [f"{written(repr(text))} in {n:,} rows" for text, n in claim["missing"].items()]
        lines.append(("missing values", ", ".join(marks[:SHOWN_FAMILIES])))
    if claim["objective"] != "distance" or claim["lam"] not in (0.0, 1.0) or claim["costs"]:
        costs = ", costs of the certificate" if claim["costs"] else ""
        lines.append(("objective", f"{claim['objective']}, lambda {claim['lam']:g}{costs}"))
    form, left_out = claim["form"], "none"
    if claim["random_state"] is not None:
        form += f" (seed {claim['random_state']}, by {_names(claim['key']) or 'row number'})"
    if claim["left_out"] > 0:
        left_out = f"{100 * claim['left_out']:.2f} % of the {whose}, in no group"
        if claim["excluded"]:
            left_out += f", among them {_names(claim['excluded'])}"
    lines += [("form", form), ("left out", left_out)]
    if claim["absent"]:
        lines.append(("absent", _names(claim["absent"])))
    return lines


def _family_lines(family: Mapping[str, Any]) -> list[tuple[str, str]]:
    epsilon, groups = family["epsilon"], family["groups"]
    if isinstance(epsilon, list):
        epsilon = f"{len(epsilon)} epsilons by class"
    added = ", with offsets" if family["offsets"] else ""
    measure = f"{MEASURES[family['bound']]} at most {epsilon}{added}"
    lines = [("bound", f"{written(family['name']) or 'groups'}: {measure}")]
    if groups[0]["rows"] is not None:
        rows = [f"{written(each['name'])} {each['rows']:,}" for each in groups[:SHOWN_FAMILIES]]
        more = f" and {len(groups) - SHOWN_FAMILIES} more" * (len(groups) > SHOWN_FAMILIES)
        lines.append(("  rows", ", ".join(rows) + more))
    return lines


def _names(each: Sequence[str]) -> str:
    more = f" and {len(each) - SHOWN_FAMILIES} more" * (len(each) > SHOWN_FAMILIES)
    return ", ".join(map(written, each[:SHOWN_FAMILIES])) + more


def required_checks(
    fair: FairLabels,
    record: Record,
    claim: Mapping[str, Any],
    counted: Counted,
    required: Mapping[str, Any],
    *,
    strict: bool,
) -> list[Check]:
    """Compare a claim with what a reader requires of it.

    Parameters
    ----------
    fair : FairLabels
    record : Record
    claim : mapping
    counted : Counted
    required : mapping
        Parts of the claim by name; a part that is None may be anything. ``tag`` is the name of a
        tag, ``reading`` how the reader wants files read.
    strict : bool
        Whether a part that is not required must be the plain reading.
    """
    asked = {n: each for n, each in required.items() if each is not None}
    reading, tag = asked.pop("reading"), asked.pop("tag", None)
    plain: dict[str, Any] = {"control": (), "weight": "", "bound": "range", "outcomes": None}
    plain |= {"small_groups": "error", "missing": "group", "families": "crossed"}
    asked = {**(plain if strict else {}), **asked}
    if "epsilon" in asked:  # a number means little without what it limits
        asked.setdefault("bound", "range")
    checks = [
        Check(f"{CALLED.get(name, name)} as required", *_compared(fair, claim, name, wanted))
        for name, wanted in asked.items()
    ]
    usual, named = _names_of_columns(fair, record, tag)
    right = record.new in (usual, named)
    checks.append(Check("columns are named for what they hold", right, _names(record.new)))
    if "sensitive" in asked and "families" not in asked and claim["compared"]:
        missed = {*claim["sensitive"]} - {name for each in claim["compared"] for name in each}
        found = f"not {_names(sorted(missed))}" if missed else "all of them"
        checks.append(Check("attributes are compared", not missed, found))
    if strict:
        bounds = [member.bound for member in fair.families.members]
        marks = {*claim["missing"]} - {"", *names_of(reading.get("na"), "na")}
        others = {*claim["reading"]} - {*reading}
        odd = {
            "columns have their usual names": "columns" not in asked and record.new != usual,
            "every value is a group": not claim["categorical"],
            "every class is bounded": "epsilon" not in asked
            and any((bound.epsilon >= bound.largest).any() for bound in bounds),
            "no offsets are added": any(each["offsets"] for each in claim["families"]),
            "only empty fields are missing": bool(marks),
            "the file is read as it shows": bool(others),
            "no rows are left out": claim["left_out"] > 0
            and "exclude" not in (asked["missing"], asked["small_groups"]),
        }
        checks += [Check(name, not wrong, "no" if wrong else "yes") for name, wrong in odd.items()]
    if strict and claim["form"] == "sample":
        beyond = f"{counted.chance:.4f} farther than chance explains"
        near = counted.chance <= 0
        checks.append(Check("the draw is by chance", near, "within chance" if near else beyond))
    return checks


def _names_of_columns(
    fair: FairLabels, record: Record, tag: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the usual names of new columns, and those that begin like the first one there is."""
    classes, first = fair.classes.tolist(), record.new[0]
    if tag is not None:
        return (f"{tag}_fair",), (f"{first.removesuffix(f'_{tag}')}_{tag}",)
    if record.form == "soft":
        first = first.removesuffix(f"_{as_text(classes, 'classes')[0]}")
    usual, named = (
        new_names(record.form, stem, record.columns, classes, ordered=True)
        for stem in (None, first)
    )
    return usual, named


CALLED = {"columns": "verified columns", "sensitive": "attributes", "min_rows": "rows of groups"}


def _compared(
    fair: FairLabels, claim: Mapping[str, Any], part: str, wanted: Any
) -> tuple[bool, str]:
    """Return whether a part of a claim is as required, and what it is."""
    bounds = [member.bound for member in fair.families.members]
    if part == "epsilon":
        most = epsilon_per_class(wanted, fair.outcomes.tolist())
        right = all((bound.epsilon <= most + PROVEN).all() for bound in bounds)
        largest = max(float(bound.epsilon.max()) for bound in bounds)
        return right, f"at most {largest:g}"
    if part == "bound":
        names = {bound.name for bound in bounds if bound.compares_groups} or {"moments"}
        return names <= {wanted, "moments"}, _names(sorted(names))
    if part == "families":
        kinds = fair.schema.kinds[: fair.schema.n_sensitive]
        families = family_columns(wanted, claim["sensitive"], kinds)
        compared = {frozenset(each) for each in claim["compared"]}
        found = "; ".join(" x ".join(map(written, each)) for each in claim["compared"])
        return {*map(frozenset, families)} <= compared, found or "none"
    if part == "small_groups":
        merged, excluded = bool(claim["merged"]), bool(claim["excluded"])
        right = (wanted == "merge" or not merged) and (wanted == "exclude" or not excluded)
        return right, "merged" * merged + "left out" * excluded or "none"
    if part == "missing":
        return claim["missing_as"] in (None, wanted), claim["missing_as"] or "none is missing"
    if part == "min_rows":
        rows = [each["rows"] for family in claim["families"] for each in family["groups"]]
        least = min((each for each in rows if each is not None), default=0)
        return least >= wanted, f"{least:,} or more"
    if part == "outcomes":
        classes = fair.schema.classes
        asked = read_outcomes(wanted, classes.values.tolist(), classes)
        # their names are the maker's
        own, others = (
            {*map(tuple, each.matrix.tolist())} if each else None
            for each in (fair.families.outcomes, asked)
        )
        return own == others, _names([*(claim["outcomes"] or ("every class",))])
    own = claim[part]
    if isinstance(wanted, str):
        return (own or "") == wanted, written(own or "none")
    listed = [own] if isinstance(own, str) else [*own]
    return sorted(listed) == sorted(wanted), _names(listed) or "none"
