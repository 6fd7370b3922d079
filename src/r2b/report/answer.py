"""The first screen: before, after, bound and proof in four figures; and which rows are not in them."""

from __future__ import annotations

from typing import Any

from r2b._labels.summary import counted as plural
from r2b.report.words import (
    BOUNDS,
    epsilon,
    family_name,
    made,
    number,
    percent,
    points,
    quoted,
    rows_of,
    tiny,
)

_FORMS = {
    "soft": "as probabilities",
    "expand": "as weighted rows",
    "round": "one class per row, rounded",
    "sample": "one class per row, drawn",
}


def answer(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Give the figures that a reader looks for first, each with its name and what it is of."""
    return _of_audit(facts) if facts["change"] is None else _of_change(facts)


def _of_change(facts: dict[str, Any]) -> list[dict[str, str]]:
    proof, change, done = facts["certificate"], facts["change"], facts["made"]
    after = proof["disparity"] if done is None else done["disparity"]
    form = (
        "as probabilities" if done is None else f"in the labels that left, {_FORMS[done['form']]}"
    )
    above = 0.0 if done is None else done["excess"]
    kept = "within the bound" if above <= 1e-9 else f"{points(above)} above the bound"
    closer = (
        f"no {'probabilities' if facts['leaving'] else 'labels'} within the bound are closer"
        if change["proven"]
        else change["status"]
    )
    return [
        _figure("Before", proof["disparity_before"], _unit(facts), "in the labels that came"),
        _figure(made(facts, "After, if made", "After"), after, _unit(facts), f"{form}; {kept}"),
        {"name": "Bound", **_bound(facts)},
        {
            "name": "Proof",
            "figure": "holds" if proof["holds"] else "open",
            "unit": "",
            "note": f"{closer}; relative gap {tiny(proof['relative_gap'])}",
        },
    ]


def _unit(facts: dict[str, Any]) -> str:
    return "moment" if facts["headline"] is None and not facts["audit"]["families"] else "points"


def _figure(name: str, value: float, unit: str, note: str) -> dict[str, str]:
    return {
        "name": name,
        "figure": number(100 * value) if unit == "points" else number(value, 3),
        "unit": unit,
        "note": note,
    }


def _bound(facts: dict[str, Any]) -> dict[str, str]:
    """Say what was asked for: in points where one number bounds differences of shares."""
    families = facts["certificate"]["families"]
    bounds, asked = (
        {family["bound"] for family in families},
        {str(value) for family in families for value in family["epsilon"]},
    )
    what = BOUNDS[next(iter(bounds))] if len(bounds) == 1 else "several bounds"
    if len(asked) == 1 and "inf" not in asked and len(bounds) == 1:
        value = float(next(iter(asked)))
        plain = bounds <= {"ratio", "moments"}
        return {
            "figure": number(value, 3) if plain else number(100 * value),
            "unit": "" if plain else "points",
            "note": f"on the {what}",
        }
    every = families[0]["epsilon"] if len(families) == 1 else facts["certificate"]["epsilon"]
    return {"figure": epsilon(every), "unit": "", "note": f"on the {what}"}


def _of_audit(facts: dict[str, Any]) -> list[dict[str, str]]:
    found, families = facts["headline"], facts["audit"]["families"]
    if found is None:
        return []
    figures = [
        _figure("Found", found["difference"], "points", "largest difference between two groups")
    ]
    if found["chance"] is not None:
        figures.append(
            _figure(
                "Chance",
                found["chance"]["quantile"],
                "points",
                "at most, in 19 of 20 tables without any difference",
            )
        )
    if found["interval"] is not None:
        low, high = (number(100 * end) for end in found["interval"])
        note = f"{number(100 * found['level'], 0)} % interval of the difference"
        figures.append(
            {"name": "Interval", "figure": f"{low} to {high}", "unit": "points", "note": note}
        )
    ratios = [family["ratio"] for family in families if isinstance(family["ratio"], float)]
    if ratios:
        note = "lowest share of a group over the highest; four fifths is 0.8"
        figures.append({"name": "Ratio", "figure": f"{min(ratios):.2f}", "unit": "", "note": note})
    return figures


def left_out(facts: dict[str, Any]) -> list[str]:
    """Say which rows are not counted, and why."""
    audit, said = facts["audit"], []
    for family in audit["families"]:
        if family["left_out"]:
            many = rows_of(family["left_out"])
            said.append(
                f"{many} {'has' if family['left_out'] == 1 else 'have'} no known group of {family_name(family['name'])}."
            )
    if audit["left_out"] > 0:
        kept = (
            ""
            if facts["change"] is None
            else made(facts, " and would keep their labels", " and kept their labels")
        )
        said.append(
            f"Rows of {percent(audit['left_out'])} of the weight are in no group at all{kept}."
        )
    if facts["excluded"]:
        names, more = ", ".join(map(quoted, facts["excluded"][:5])), len(facts["excluded"]) - 5
        said.append(
            f"Groups left out for having too few rows: {names}{f' and {more:,} more' if more > 0 else ''}."
        )
    if audit["absent"]:
        said.append(
            f"{plural(len(audit['absent']), 'group does', 'groups do')} not occur in some value of the control features."
        )
    return said or ["None: every row is counted in every family."]
