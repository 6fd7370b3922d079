"""What a page shows of the facts, and in which order: the largest first, the size bounded."""

from __future__ import annotations

from typing import Any

from r2b._data.arrays import SAME
from r2b._labels.summary import SHOWN_FAMILIES
from r2b.report import charts, words

TOP_ROWS, TOP_COLUMNS = 20, 10  # of a table of shares before the rest is folded
TOP_FLOWS = 4  # groups whose flow is drawn
LISTED_MOVES, LISTED_RATIOS = 100, 400


def shade(deviation: float) -> str:
    """Return the class of a cell's colour: ``u`` above all rows, ``d`` below, with its step.

    Examples
    --------
    >>> shade(0.03), shade(-0.3), shade(0.005)
    ('u2', 'd5', '')
    """
    step = sum(abs(deviation) >= edge - SAME for edge in (0.01, 0.025, 0.05, 0.1, 0.2))
    return f"{'u' if deviation > 0 else 'd'}{step}" if step else ""


def heat_maps(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the table of shares of every family, before and, if it is known, after."""
    changed = facts["change"] is None or not facts["change"]["unchanged"]
    after = _by_name(facts["after"] if changed else None)
    left, maps = 12_000, []  # cells of folded tables: about 600 kB of page
    for family in _families(facts):
        later = after.get(family["name"])
        n_classes, n_groups = len(family["classes"]), len(family["groups"])
        down = n_classes >= n_groups  # the classes, being more, are the rows
        rows, columns = _order(family, down)
        size = n_classes * n_groups * (1 if later is None else 2)
        more = min(n_classes, n_groups) > TOP_COLUMNS or max(n_classes, n_groups) > TOP_ROWS
        folded, blocks = more and size <= left, []
        if folded:
            left -= size
            wide = sorted(columns) if down else columns
            parts = [wide[at : at + TOP_COLUMNS] for at in range(0, len(wide), TOP_COLUMNS)]
            blocks = [_pair(family, later, rows, part, down) for part in parts]
        maps.append(
            {
                "family": words.family_name(family["name"]),
                "groups": n_groups,
                "disparity": family["disparity"],
                **_pair(family, later, rows[:TOP_ROWS], columns[:TOP_COLUMNS], down),
                "whole": blocks,
                "cut": more and not folded,
                "left_out": family["left_out"],
            }
        )
    return maps


def _by_name(families: Any) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in families or ()}


def _families(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the families that are shown: that of the headline, then those that differ most."""
    first = facts["headline"] and facts["headline"]["family"]
    families = facts["audit"]["families"]
    order = sorted(families, key=lambda each: (each["name"] != first, -each["disparity"]))
    return order[:SHOWN_FAMILIES]


def _order(family: dict[str, Any], down: bool) -> tuple[list[int], list[int]]:
    """Put rows and columns in the order of their largest differences."""

    def largest_first(values: list[Any]) -> list[int]:
        return sorted(range(len(values)), key=lambda place: -_value(values[place], -1.0))

    far = [_farthest(means, family["overall"]) for means in family["means"]]
    classes, groups = largest_first(family["disparity_by_class"]), largest_first(far)
    return (classes, groups) if down else (groups, classes)


def _value(figure: Any, hidden: float) -> float:
    """Return a figure, or the number that puts one that is hidden or missing last."""
    return float(figure) if isinstance(figure, (int, float)) else hidden


def _farthest(means: list[Any], overall: list[float]) -> float | str:
    pairs = zip(means, overall, strict=True)
    away = [abs(mean - whole) for mean, whole in pairs if not isinstance(mean, str)]
    return max(away) if away else str(means[0])


def _pair(
    family: dict[str, Any], later: Any, rows: list[int], columns: list[int], down: bool
) -> dict[str, Any]:
    """Return a table before and, if it is known, after, with the same rows and columns."""
    after = None if later is None else _table(family, later, rows, columns, down)
    return {"table": _table(family, family, rows, columns, down), "later": after}


def _table(
    family: dict[str, Any], source: dict[str, Any], rows: list[int], columns: list[int], down: bool
) -> dict[str, Any]:
    """Lay out shares with the classes as rows (``down``) or as columns."""
    means, overall, sizes = source["means"], source["overall"], family["rows"]
    classes, groups = family["classes"], _members(family)
    if down:
        columns = sorted(columns)  # groups in the order they came are easier to find
        names, heads, measures = classes, groups, source["disparity_by_class"]
        alls, notes = [words.number(100 * each) for each in overall], [*map(words.rows_of, sizes)]
    else:
        names, heads = groups, classes
        measures = [_farthest(each, overall) for each in means]
        alls, notes = [*map(words.count, sizes)], [f"all {words.percent(p)}" for p in overall]
    named = list(zip(heads, notes, strict=True))

    def cell(row: int, column: int) -> tuple[str, str, str]:
        group, k = (column, row) if down else (row, column)
        mean = means[group][k]
        if isinstance(mean, str):
            return mean, "", "few"
        away = mean - overall[k]
        return f"{100 * mean:.1f}", words.signed(away), shade(away)

    n_classes, n_groups = (len(rows), len(columns)) if down else (len(columns), len(rows))
    shown = f"{n_classes} of {len(classes)} classes, {n_groups} of {len(groups)} groups"
    whole = n_classes == len(classes) and n_groups == len(groups)
    return {
        "rows": [
            {
                "name": names[row],
                "all": alls[row],
                "measure": measures[row],
                "cells": [cell(row, column) for column in columns],
            }
            for row in rows
        ],
        "columns": [dict(zip(("name", "note"), named[column], strict=True)) for column in columns],
        "corner": "Class" if down else "Group",
        "all": "All rows" if down else "Rows",
        "measure": "Largest difference" if down else "Farthest from all",
        "shown": "" if whole else f"Shown: {shown}, those farthest apart.",
        "every": f"All {len(classes)} classes and {len(groups)} groups",
    }


def _members(family: dict[str, Any]) -> list[str]:
    return [words.member(family["name"], group) for group in family["groups"]]


def four_fifths(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ratio of the lowest share of a group to the highest, per class, lowest first."""
    after = _by_name(facts["after"])
    return [_ratios(family, after.get(family["name"])) for family in _families(facts)]


def _ratios(family: dict[str, Any], later: dict[str, Any] | None) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    every: list[dict[str, Any]] = []
    groups = _members(family)
    for k, name in enumerate(family["classes"]):
        before = family["ratio_by_class"][k]
        after = None if later is None else later["ratio_by_class"][k]
        if before is None and after is None:  # a class of no group
            continue
        shares = list(zip([means[k] for means in family["means"]], groups, strict=True))
        known = [each for each in shares if not isinstance(each[0], str)]
        ends = (min(known), max(known)) if isinstance(before, float) else (None, None)
        row = {"class": name, "before": before, "after": after}
        rows.append({**row, "low": ends[0], "high": ends[1]})
        most = ends[1][0] if ends[1] else 0.0
        every += [
            {
                "class": name,
                "group": group,
                "rows": n_rows,
                "share": share,
                "ratio": share / most if most and not isinstance(share, str) else None,
            }
            for n_rows, (share, group) in zip(family["rows"], shares, strict=True)
        ]
    rows.sort(key=lambda each: _value(each["before"], 2.0))
    every.sort(key=lambda each: _value(each["ratio"], 2.0))

    def below(when: str) -> int:
        return sum(words.is_short(each[when]) for each in rows)

    return {
        "family": words.family_name(family["name"]),
        "rows": rows[:TOP_ROWS],
        "more": max(0, len(rows) - TOP_ROWS),
        "every": every[:LISTED_RATIOS],
        "every_more": max(0, len(every) - LISTED_RATIOS),
        "classes": len(rows),
        "absent": len(family["classes"]) - len(rows),
        "below": below("before"),
        "below_after": None if later is None else below("after"),
    }


def grown(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return the classes in which the largest difference of a family grew, the most first.

    None if the report does not compare labels before and after.
    """
    change, after = facts["change"], _by_name(facts["after"])
    if change is None or change["unchanged"] or not after:
        return None
    rows, compared = [], 0
    for family in facts["audit"]["families"]:
        measures = family["disparity_by_class"], after[family["name"]]["disparity_by_class"]
        for name, before, now in zip(family["classes"], *measures, strict=True):
            if isinstance(before, str) or isinstance(now, str):  # hidden, as a cell has few rows
                continue
            compared += 1
            # less than half of the last digit that is shown is no growth
            if now > before + 0.0005:
                row = {"class": name, "before": before, "after": now}
                rows.append({"family": words.family_name(family["name"]), **row})
    rows.sort(key=lambda row: row["before"] - row["after"])
    grew, verb = f"{len(rows):,}" if rows else "none", words.made(facts, "would grow", "grew")
    said = f"In {grew} of {compared:,} pairs of a family and a class the largest difference {verb}"
    said += f" by more than {words.points(0.0005)}."
    if len(rows) > TOP_ROWS:
        said += f" Shown: the {TOP_ROWS} that {verb} most."
    return {"rows": rows[:TOP_ROWS], "said": said}


def flows(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the groups whose labels change: charts of the first, and tables."""
    model, classes = facts["model"] or {}, facts["data"]["classes"]
    change = facts["change"] or model.get("plain")
    entries = [] if change is None else change["flows"]
    moving = [entry for entry in entries if entry["changed"] > 0]
    several = len({entry["family"] for entry in moving}) > 1
    drawn = [entry for entry in moving if entry["moves"] and entry["summary"]]
    pictures = [
        {
            **entry,
            "family": words.family_name(entry["family"]) if several else "",
            "chart": charts.flow(entry["summary"], classes),
            "place": place,
        }
        for place, entry in enumerate(drawn[: TOP_FLOWS + 8])
    ]
    moves = [
        {
            "group": entry["group"],
            "old": classes[old],
            "new": classes[new],
            "weight": weight,
            "share": weight / entry["before"][old],
        }
        for entry in moving
        for old, new, weight in entry["moves"] or ()
    ]
    moves.sort(key=lambda move: -move["weight"])
    more = max(0, len(moves) - LISTED_MOVES)
    return {
        "pictures": pictures[:TOP_FLOWS],
        "folded": pictures[TOP_FLOWS:],
        "moves": moves[:LISTED_MOVES],
        "more": more + sum(entry["moves_left_out"] for entry in moving),
        "groups": entries,
    }


def cost(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return the frontier: its chart, what to say at each point, and where the cursor goes."""
    asked = facts["cost"]
    if asked is None:
        return None
    points, chosen, chart = asked["points"], asked["chosen"] or 0.0, None
    if len(points) > 1:
        plain = asked["bounds"] == ["range"]
        axis = "largest difference accepted, in points" if plain else "epsilon accepted, times 100"
        chart = charts.frontier(asked, facts["change"]["expected_changes"], axis)
    return {
        "chart": chart,
        "nothing": chart is None and points[0]["expected_changes"] == 0.0,
        "points": points,
        "start": min(range(len(points)), key=lambda place: abs(points[place]["epsilon"] - chosen)),
        "script": chart and {"places": chart["points"], "captions": [*map(_caption, points)]},
    }


def _caption(point: dict[str, Any]) -> str:
    proven = "proven optimal" if point["proven"] else "not proven optimal"
    changes = f"{words.percent(point['expected_changes'])} of labels change"
    distance = f"squared distance {point['distance']:.5f} per row"
    return f"Epsilon {point['epsilon']:.4f}: {changes}, {distance}, {proven}."


def evidence(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the families and continuous attributes of an audit with interval and chance."""
    families = sorted(found["families"], key=lambda family: -family["disparity"])
    measured = [("difference", each["disparity"], each) for each in families[: 2 * SHOWN_FAMILIES]]
    measured += [("share explained", each["explained"], each) for each in found["continuous"]]
    listed = []
    for kind, value, each in measured:
        interval = each["interval"] and [each["interval"]["low"], each["interval"]["high"]]
        name = words.family_name(each["name"])
        listed.append({**each, "name": name, "kind": kind, "value": value, "interval": interval})
    end = charts.scale_end(max(map(_reach, listed), default=0.0))
    for each in listed:
        name, chance = f"{each['name']}: {words.points(each['value'])}", _chance(each)
        each["line"] = charts.strip(name, end, each["value"], each["interval"], chance)
    return listed


def _chance(each: dict[str, Any]) -> float | None:
    return None if each["chance"] is None else float(each["chance"]["quantile"])


def _reach(each: dict[str, Any]) -> float:
    """Return how far to the right a measure, its interval and its chance go."""
    return float(max(each["value"], *(each["interval"] or ()), _chance(each) or 0.0))


def hero(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Place the headline on a line: found, by chance, afterwards."""
    found, change = facts["headline"], facts["change"]
    if found is None:
        return None
    value, chance = found["difference"], _chance(found)
    by_chance = f", by chance up to {words.points(chance)}" if chance else ""
    unchanged = change is None or change["unchanged"]
    return charts.strip(
        f"Largest difference {words.points(value)}{by_chance}",
        charts.scale_end(_reach({**found, "value": value})),
        value,
        found["interval"],
        chance,
        None if unchanged else found["after"],
    )
