"""What a certificate claims: all of it, how it is printed, and what a reader requires of it.

A claim can be true and empty: of groups that were merged into one, of weights that are nearly 0, of
a control column that repeats the label. So nothing that narrows it is left out here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from r2b._constraints.epsilon import epsilon_per_class
from r2b._constraints.families.fitted import Crossings
from r2b._data.cells import Cells
from r2b._data.families import family_columns
from r2b._data.outcomes import read_outcomes
from r2b._data.values import json_value, written
from r2b._files.formats import as_text
from r2b._labels import FairLabels
from r2b._labels.summary import MEASURES, SHOWN_FAMILIES, format_epsilon
from r2b._labels.summary import counted as plural
from r2b._solve.certificate import PROVEN
from r2b._verify.record import Record
from r2b.engines.roles import names_of
from r2b.engines.source import new_names

COMPARED = "two groups or more are compared"
CALLED = {"columns": "verified columns", "sensitive": "attributes", "min_rows": "rows of groups"}


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


def claim_of(
    fair: FairLabels, record: Record, cells: Cells | None, counted: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that is claimed as plain values.

    Parameters
    ----------
    fair : FairLabels
    record : Record
    cells : Cells or None
        None where rows could not be counted.
    counted : mapping
        What else was found in the rows: ``weights``, the smallest and the largest; ``missing``, how
        often each text stands for a missing value, where "" is also null; ``reading``, how the
        output is read where it shows another way, since it may then hold two tables; ``divided``,
        whether rows of probabilities were divided by sums other than 1.
    """
    columns, options, families = record.columns, record.options, fair.families
    of_groups, merged, left_out = None, dict[str, list[str]](), None
    if cells is not None:
        of_groups = families.cells_of_groups(cells, cells.counts * 1.0)[1]
        inside = np.any([how.counted(cells) for how in families.counting], axis=0)
        left_out = int(cells.counts[~inside].sum())
    found, compared = [], set[tuple[str, ...]]()
    for member, how in families.pairs():
        bound, names = member.bound, families.names[member.groups].tolist()
        places = getattr(how, "columns", None) or (how.column,)  # type: ignore[attr-defined]
        of = tuple(fair.schema.columns[place] for place in places)
        several = member.n_groups > 1 or not bound.compares_groups
        binds = bound.epsilon < bound.largest
        if families.outcomes is not None:  # one that counts all classes alike is always met
            binds = binds & (np.ptp(families.outcomes.matrix, axis=1) > 0)
        if several and binds.any():
            compared.add(of)
        if isinstance(how, Crossings):
            values = defaultdict[int, list[str]](list)
            for key, group in how.place:
                values[group].append(", ".join(map(fair.schema.value_name, how.columns, key)))
            several_of = {k: each for k, each in values.items() if k >= 0 and len(each) > 1}
            merged |= {str(names[k]): each for k, each in several_of.items()}
        rows = [None] * len(names)
        if of_groups is not None and bound.compares_groups:
            rows = [round(each) for each in of_groups[member.groups]]
        outside = None
        if cells is not None:
            left = how.stratum.of(cells) & ~how.counted(cells)
            outside = int(cells.counts[left].sum())
        epsilons = np.unique(bound.epsilon)
        groups = zip(map(str, names), rows, strict=True)
        found.append(
            {
                "name": member.name,
                "columns": of,
                "bound": bound.name,
                "epsilon": epsilons[0] if len(epsilons) == 1 else bound.epsilon,
                "not_bound": fair.outcomes[np.isinf(bound.epsilon)],
                "offsets": member.offsets is not None,
                "left_out_rows": outside,
                "groups": [{"name": name, "rows": n_rows} for name, n_rows in groups],
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
            "divided": counted.get("divided", False),
            "categorical": columns.categorical,
            "control": columns.control,
            "weight": columns.weight,
            "weights": counted.get("weights"),
            "compared": sorted(compared),
            "families": found,
            "merged": merged,
            "excluded": families.excluded,
            "left_out": families.left_out,
            "left_out_rows": left_out,
            "reading": counted.get("reading", {}),
            "missing": counted.get("missing", {}),
            "missing_as": options.get("missing") if counted.get("missing") else None,
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
    asked = fair.families.outcomes
    if asked is None:
        return None
    classes = [str(name) for name in fair.classes.tolist()]
    parts = (dict(zip(classes, row, strict=True)) for row in asked.matrix.tolist())
    each = zip(asked.names, parts, strict=True)
    return {name: {label: part for label, part in own.items() if part} for name, own in each}


def claim_lines(claim: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe what is claimed: names of lines, and their text; "" where nothing is said."""
    label, weight, form, families = (claim[n] for n in ("label", "weight", "form", "families"))
    if not isinstance(label, str):
        divided = ", divided by their sums" * claim["divided"]
        label = f"{len(label)} columns of probabilities{divided}"
    lines = [("label", written(label))]
    lines += [(name, _names(claim[name])) for name in ("columns", "sensitive")]
    for name, of in claim["membership"].items():
        lines.append(("", f"{written(name)} is known in probability, from {_names(of)}"))
    lines.append(("within", _names(claim["control"])))
    if weight is not None:
        least = "" if claim["weights"] is None else ", from {:g} to {:g}".format(*claim["weights"])
        lines.append(("weights", f"{written(weight)}{least}"))
    # families of which other rows are left out than of all
    apart = [each["left_out_rows"] not in (None, claim["left_out_rows"]) for each in families]
    for family, own in [*zip(families, apart, strict=True)][:SHOWN_FAMILIES]:
        lines += _family_lines(family, own)
    more = len(families) - SHOWN_FAMILIES
    lines.append(("", f"and {more} more families" if more > 0 else ""))
    for name, values in [*claim["merged"].items()][:SHOWN_FAMILIES]:
        lines.append(("merged", f"{written(name)}: {_names(values)}"))
    for name, parts in [*(claim["outcomes"] or {}).items()][:SHOWN_FAMILIES]:
        counted = [f"{part:g} of " * (part != 1) + written(each) for each, part in parts.items()]
        lines.append(("outcome", f"{written(name)}: {', '.join(counted)}"))
    how = ", ".join(f"{name} {value!r}" for name, value in claim["reading"].items())
    lines.append(("read with", how and f"{how}; the file shows another"))
    marks = [f"{written(repr(text))} in {n:,} rows" for text, n in claim["missing"].items()]
    lines.append(("missing values", ", ".join(marks[:SHOWN_FAMILIES])))
    if claim["objective"] != "distance" or claim["lam"] not in (0.0, 1.0) or claim["costs"]:
        costs = ", costs of the certificate" * claim["costs"]
        lines.append(("objective", f"{claim['objective']}, lambda {claim['lam']:g}{costs}"))
    if claim["random_state"] is not None:
        form += f" (seed {claim['random_state']}, by {_names(claim['key']) or 'row number'})"
    left_out = "" if any(apart) else "none"
    if claim["left_out"] > 0:
        whose = "rows" if weight is None else "weight"
        among = f", among them {_names(claim['excluded'])}" if claim["excluded"] else ""
        left_out = f"{100 * claim['left_out']:.2f} % of the {whose}, in no group{among}"
    return [*lines, ("form", form), ("left out", left_out), ("absent", _names(claim["absent"]))]


def _family_lines(family: Mapping[str, Any], apart: bool) -> list[tuple[str, str]]:
    groups, epsilon = family["groups"], format_epsilon(np.atleast_1d(family["epsilon"]))
    measure = f"{MEASURES[family['bound']]} at most {epsilon}{', with offsets' * family['offsets']}"
    rows = [
        f"{written(each['name'])} {each['rows']:,}" for each in groups if each["rows"] is not None
    ]
    return [
        ("bound", f"{written(family['name']) or 'groups'}: {measure}"),
        ("  not bound", _names([str(each) for each in family["not_bound"]])),
        ("  rows", _listed(rows)),
        ("  left out", plural(family["left_out_rows"], "row") if apart else ""),
    ]


def _names(each: Sequence[str]) -> str:
    return _listed([written(name) for name in each])


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN_FAMILIES
    return ", ".join(texts[:SHOWN_FAMILIES]) + (f" and {more} more" if more > 0 else "")


def required_checks(
    fair: FairLabels,
    record: Record,
    claim: Mapping[str, Any],
    required: Mapping[str, Any],
    reading: Mapping[str, Any],
    *,
    tag: Any = None,
    strict: bool,
) -> list[Check]:
    """Compare a claim with what a reader requires of it.

    Parameters
    ----------
    fair : FairLabels
    record : Record
    claim : mapping
    required : mapping
        Parts of the claim by name; those that are not there may be anything.
    reading : mapping
        How the reader wants files read.
    tag : object
        The name of the tag that the labels are of, if they are of one.
    strict : bool
        Whether a part that is not required must be the plain reading.
    """
    plain: dict[str, Any] = {"control": (), "weight": "", "bound": "range", "outcomes": None}
    plain |= {"small_groups": "error", "missing": "group", "families": "crossed"}
    asked = {**(plain if strict else {}), **required}
    if "epsilon" in asked:  # a number means little without what it limits
        asked.setdefault("bound", "range")
    checks = [
        Check(f"{CALLED.get(part, part)} as required", *_compared(fair, claim, part, wanted))
        for part, wanted in asked.items()
    ]
    usual, named = _names_of_columns(fair, record, tag)
    right = record.new in (usual, named)
    checks.append(Check("columns are named for what they hold", right, _names(record.new)))
    if "sensitive" in asked and "families" not in asked and claim["compared"]:
        missed = {*claim["sensitive"]} - {name for each in claim["compared"] for name in each}
        found = f"not {_names(sorted(missed))}" if missed else "all of them"
        checks.append(Check("attributes are compared", not missed, found))
    if not strict:
        return checks
    bounds = [member.bound for member in fair.families.members]
    free = any((bound.epsilon >= bound.largest).any() for bound in bounds)
    excluding = "exclude" in (asked["missing"], asked["small_groups"])
    odd = {
        "columns have their usual names": "columns" not in asked and record.new != usual,
        "every value is a group": not claim["categorical"],
        "every class is bounded": "epsilon" not in asked and free,
        "no offsets are added": any(each["offsets"] for each in claim["families"]),
        "only empty fields are missing": {*claim["missing"]}
        - {"", *names_of(reading.get("na"), "na")},
        "the file is read as it shows": {*claim["reading"]} - {*reading},
        "no rows are left out": not excluding
        and (claim["left_out"] > 0 or any(each["left_out_rows"] for each in claim["families"])),
    }
    return checks + [
        Check(name, not wrong, "no" if wrong else "yes") for name, wrong in odd.items()
    ]


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


def _compared(
    fair: FairLabels, claim: Mapping[str, Any], part: str, wanted: Any
) -> tuple[bool, str]:
    """Return whether a part of a claim is as required, and what it is."""
    families = claim["families"]
    if part == "epsilon":
        most = epsilon_per_class(wanted, fair.outcomes.tolist())
        each = [member.bound.epsilon for member in fair.families.members]
        right = all((epsilon <= most + PROVEN).all() for epsilon in each)
        limited = np.isfinite(most) | np.isinf(most).all()
        largest = max(float(epsilon[limited].max()) for epsilon in each)
        return right, "some classes have no bound" if largest == inf else f"at most {largest:g}"
    if part == "bound":
        names = {family["bound"] for family in families} - {"moments"}
        return names <= {wanted}, _names(sorted(names)) or "moments"
    if part == "families":
        kinds = fair.schema.kinds[: fair.schema.n_sensitive]
        asked = {*map(frozenset, family_columns(wanted, claim["sensitive"], kinds))}
        found = "; ".join(" x ".join(map(written, each)) for each in claim["compared"])
        return asked <= {*map(frozenset, claim["compared"])}, found or "none"
    if part == "small_groups":
        found = "merged" * bool(claim["merged"]) + "left out" * bool(claim["excluded"])
        return found in (
            "",
            {"merge": "merged", "exclude": "left out"}.get(wanted),
        ), found or "none"
    if part == "missing":
        return claim["missing_as"] in (None, wanted), claim["missing_as"] or "none is missing"
    if part == "min_rows":
        rows = [group["rows"] for family in families for group in family["groups"]]
        least = min((each for each in rows if each is not None), default=0)
        return least >= wanted, f"{least:,} or more"
    if part == "outcomes":
        classes = fair.schema.classes
        both = fair.families.outcomes, read_outcomes(wanted, classes.values.tolist(), classes)
        # their names are the maker's
        own, other = ({*map(tuple, each.matrix.tolist())} if each else None for each in both)
        return own == other, _names([*(claim["outcomes"] or ("every class",))])
    own = claim[part]
    if isinstance(wanted, str):
        return (own or "") == wanted, written(own or "none")
    listed = [own] if isinstance(own, str) else [*own]
    return sorted(listed) == sorted(wanted), _names(listed) or "none"
