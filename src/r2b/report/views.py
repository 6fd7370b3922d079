"""What a page shows of the facts, and in which order: the largest first, the size bounded."""

from __future__ import annotations

from typing import Any

from r2b._data.arrays import SAME
from r2b._labels.summary import SHOWN_FAMILIES
from r2b.report import charts, words
from r2b.report.words import Facts

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


def heat_maps(facts: Facts) -> list[dict[str, Any]]:
    """Return the table of shares of every family, before and, if it is known, after."""
    unchanged = facts.change is not None and facts.change.unchanged
    after = _by_name(None if unchanged else facts.after)
    left, maps = 12_000, []  # cells of folded tables: about 600 kB of page
    for family in _families(facts):
        later = after.get(family.name)
        n_classes, n_groups = len(family.classes), len(family.groups)
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
                "family": words.family_name(family.name),
                "groups": n_groups,
                "disparity": family.disparity,
                **_pair(family, later, rows[:TOP_ROWS], columns[:TOP_COLUMNS], down),
                "whole": blocks,
                "cut": more and not folded,
                "left_out": family.left_out,
            }
        )
    return maps


def _by_name(families: list[Facts] | None) -> dict[str, Facts]:
    return {each.name: each for each in families or ()}


def _families(facts: Facts) -> list[Facts]:
    """Return the families that are shown: that of the headline, then those that differ most."""
    first = facts.headline and facts.headline.family
    order = sorted(facts.audit.families, key=lambda each: (each.name != first, -each.disparity))
    return order[:SHOWN_FAMILIES]


def _order(family: Facts, down: bool) -> tuple[list[int], list[int]]:
    """Put rows and columns in the order of their largest differences."""

    def largest_first(values: list[Any]) -> list[int]:
        return sorted(range(len(values)), key=lambda place: -_value(values[place], -1.0))

    far = [_farthest(means, family.overall) for means in family.means]
    classes, groups = largest_first(family.disparity_by_class), largest_first(far)
    return (classes, groups) if down else (groups, classes)


def _value(figure: Any, hidden: float) -> float:
    """Return a figure, or the number that puts one that is hidden or missing last."""
    return float(figure) if isinstance(figure, (int, float)) else hidden


def _farthest(means: list[Any], overall: list[float]) -> float | str:
    hidden = [mean for mean in means if isinstance(mean, str)]
    if hidden:  # the group may be farthest from all where it has few rows
        return hidden[0]
    return float(max(abs(mean - whole) for mean, whole in zip(means, overall, strict=True)))


def _pair(
    family: Facts, later: Facts | None, rows: list[int], columns: list[int], down: bool
) -> dict[str, Any]:
    """Return a table before and, if it is known, after, with the same rows and columns."""
    before, after = (
        source and _table(family, source, rows, columns, down) for source in (family, later)
    )
    return {"table": before, "later": after}


def _table(
    family: Facts, source: Facts, rows: list[int], columns: list[int], down: bool
) -> dict[str, Any]:
    """Lay out shares with the classes as rows (``down``) or as columns."""
    means, overall, sizes = source.means, source.overall, family.rows
    classes, groups = family.classes, _members(family)
    if down:
        columns = sorted(columns)  # groups in the order they came are easier to find
        names, heads, measures = classes, groups, source.disparity_by_class
        alls, notes = [words.number(100 * each) for each in overall], [*map(words.rows_of, sizes)]
        n_classes, n_groups = len(rows), len(columns)
    else:
        names, heads = groups, classes
        measures = [_farthest(each, overall) for each in means]
        alls, notes = [*map(words.count, sizes)], [f"all {words.percent(p)}" for p in overall]
        n_classes, n_groups = len(columns), len(rows)

    def cell(row: int, column: int) -> tuple[str, str, str]:
        group, k = (column, row) if down else (row, column)
        mean = means[group][k]
        if isinstance(mean, str):
            return mean, "", "few"
        away = mean - overall[k]
        return f"{100 * mean:.1f}", words.signed(away), shade(away)

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
        "columns": [{"name": heads[column], "note": notes[column]} for column in columns],
        "corner": "Class" if down else "Group",
        "all": "All rows" if down else "Rows",
        "measure": "Largest difference" if down else "Farthest from all",
        "shown": "" if whole else f"Shown: {shown}, those farthest apart.",
        "every": f"All {len(classes)} classes and {len(groups)} groups",
    }


def _members(family: Facts) -> list[str]:
    return [words.member(family.name, group) for group in family.groups]


def four_fifths(facts: Facts) -> list[dict[str, Any]]:
    """Return the ratio of the lowest share of a group to the highest, per class, lowest first."""
    after = _by_name(facts.after)
    return [_ratios(family, after.get(family.name)) for family in _families(facts)]


def _ratios(family: Facts, later: Facts | None) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    every: list[dict[str, Any]] = []
    groups = _members(family)
    for k, name in enumerate(family.classes):
        before = family.ratio_by_class[k]
        after = later and later.ratio_by_class[k]
        if before is None and after is None:  # a class of no group
            continue
        shares = list(zip([means[k] for means in family.means], groups, strict=True))
        hidden = isinstance(before, str)
        low, high = (None, None) if before is None or hidden else (min(shares), max(shares))
        rows.append({"class": name, "before": before, "after": after, "low": low, "high": high})
        for n_rows, (share, group) in zip(family.rows, shares, strict=True):
            ratio = share / high[0] if high else before
            each = {"class": name, "group": group, "rows": n_rows, "share": share, "ratio": ratio}
            every.append(each)
    rows.sort(key=lambda each: _value(each["before"], 2.0))
    every.sort(key=lambda each: _value(each["ratio"], 2.0))
    n_hidden = sum(isinstance(each["before"], str) for each in rows)
    return {
        "family": words.family_name(family.name),
        "rows": rows[:TOP_ROWS],
        "more": max(0, len(rows) - TOP_ROWS),
        "every": every[:LISTED_RATIOS],
        "every_more": max(0, len(every) - LISTED_RATIOS),
        "classes": len(rows) - n_hidden,
        "hidden": n_hidden,
        "absent": len(family.classes) - len(rows),
        "below": sum(words.is_short(each["before"]) for each in rows),
        "below_after": later and sum(words.is_short(each["after"]) for each in rows),
    }


def grown(facts: Facts) -> dict[str, Any] | None:
    """Return the classes in which the largest difference of a family grew, the most first.

    None if the report does not compare labels before and after.
    """
    after = _by_name(facts.after)
    if not words.is_changed(facts) or not after:
        return None
    rows, compared = [], 0
    for family in facts.audit.families:
        measures = family.disparity_by_class, after[family.name].disparity_by_class
        for name, before, now in zip(family.classes, *measures, strict=True):
            if isinstance(before, str) or isinstance(now, str):  # hidden, as a cell has few rows
                continue
            compared += 1
            # less than half of the last digit that is shown is no growth
            if now > before + 0.0005:
                row = {"class": name, "before": before, "after": now}
                rows.append({"family": words.family_name(family.name), **row})
    rows.sort(key=lambda row: row["before"] - row["after"])
    grew, verb = f"{len(rows):,}" if rows else "none", words.made(facts, "would grow", "grew")
    said = f"In {grew} of {compared:,} pairs of a family and a class the largest difference {verb}"
    said += f" by more than {words.points(0.0005)}."
    if len(rows) > TOP_ROWS:
        said += f" Shown: the {TOP_ROWS} that {verb} most."
    return {"rows": rows[:TOP_ROWS], "said": said}


def flows(facts: Facts) -> dict[str, Any]:
    """Return the groups whose labels change: charts of the first, and tables."""
    classes = facts.data.classes
    change = facts.change or (facts.model and facts.model.plain)
    entries = change.flows if change else []
    moving = [entry for entry in entries if entry.changed > 0]
    several = len({entry.family for entry in moving}) > 1
    drawn = [entry for entry in moving if entry.moves and entry.summary]
    pictures = [
        {
            **entry,
            "family": words.family_name(entry.family) if several else "",
            "chart": charts.flow(entry.summary, classes),
            "place": place,
        }
        for place, entry in enumerate(drawn[: TOP_FLOWS + 8])
    ]
    moves = [
        {
            "group": entry.group,
            "old": classes[old],
            "new": classes[new],
            "weight": weight,
            "share": weight / entry.before[old],
        }
        for entry in moving
        for old, new, weight in entry.moves or ()
    ]
    moves.sort(key=lambda move: -move["weight"])
    more = max(0, len(moves) - LISTED_MOVES)
    return {
        "pictures": pictures[:TOP_FLOWS],
        "folded": pictures[TOP_FLOWS:],
        "moves": moves[:LISTED_MOVES],
        "more": more + sum(entry.moves_left_out for entry in moving),
        "groups": entries,
    }


def cost(facts: Facts) -> dict[str, Any] | None:
    """Return the frontier: its chart, what to say at each point, and where the cursor goes."""
    asked = facts.cost
    if asked is None:
        return None
    points, chosen, chart = asked.points, asked.chosen or 0.0, None
    if len(points) > 1:
        plain = asked.bounds == ["range"]
        axis = "largest difference accepted, in points" if plain else "epsilon accepted, times 100"
        chart = charts.frontier(asked, facts.change.expected_changes, axis)
    return {
        "chart": chart,
        "nothing": chart is None and points[0].expected_changes == 0.0,
        "points": points,
        "start": min(range(len(points)), key=lambda place: abs(points[place].epsilon - chosen)),
        "script": chart and {"places": chart["points"], "captions": [*map(_caption, points)]},
    }


def _caption(point: Facts) -> str:
    proven = "proven optimal" if point.proven else "not proven optimal"
    changes = f"{words.percent(point.expected_changes)} of labels change"
    distance = f"squared distance {point.distance:.5f} per row"
    return f"Epsilon {point.epsilon:.4f}: {changes}, {distance}, {proven}."


def evidence(audit: Facts) -> list[dict[str, Any]]:
    """Return the families and continuous attributes of an audit with interval and chance."""
    families = sorted(audit.families, key=lambda family: -family.disparity)
    measured = [("difference", each.disparity, each) for each in families[: 2 * SHOWN_FAMILIES]]
    measured += [("share explained", each.explained, each) for each in audit.continuous]
    listed, marks = [], []
    for kind, value, each in measured:
        interval = each.interval and [each.interval.low, each.interval.high]
        name = words.family_name(each.name)
        listed.append({**each, "name": name, "kind": kind, "value": value, "interval": interval})
        marks.append((value, interval, each.chance and each.chance.quantile))
    end = charts.end_of(marks)
    for row, mark in zip(listed, marks, strict=True):
        row["line"] = charts.strip(f"{row['name']}: {words.points(row['value'])}", end, *mark)
    return listed


def hero(facts: Facts) -> dict[str, Any] | None:
    """Place the headline on a line: found, by chance, afterwards."""
    found = facts.headline
    if found is None:
        return None
    chance = found.chance and found.chance.quantile
    by_chance = f", by chance up to {words.points(chance)}" if chance else ""
    marks = found.difference, found.interval, chance
    return charts.strip(
        f"Largest difference {words.points(found.difference)}{by_chance}",
        charts.end_of([marks]),
        *marks,
        found.after if words.is_changed(facts) else None,
    )
