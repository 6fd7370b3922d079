"""What of the facts a page shows, and in which order: the largest first, the rest folded away, the size bounded."""

from __future__ import annotations

from typing import Any

from r2b.report import svg, words

TOP_ROWS, TOP_COLUMNS = 20, 10  # of a heat map before the rest is folded away
MOST_CELLS = 12_000  # of all folded heat maps together: about 600 kB
TOP_FLOWS = 4  # groups whose flow is drawn
FOLDED_FLOWS = 8  # groups whose flow is drawn behind a fold
LISTED_MOVES = 100
TOP_FAMILIES = 12
FOUR_FIFTHS = 0.8

# Steps of colour in points from the mean of all rows. They are the same in every report, so that
# two can be laid side by side.
STEPS = (0.01, 0.025, 0.05, 0.1, 0.2)


def shade(deviation: float) -> str:
    """Give the class of a cell's colour: ``u`` above all rows, ``d`` below, with its step.

    Examples
    --------
    >>> shade(0.03), shade(-0.3), shade(0.005)
    ('u2', 'd5', '')
    """
    step = sum(abs(deviation) >= edge for edge in STEPS)
    return f"{'u' if deviation > 0 else 'd'}{step}" if step else ""


def heat_maps(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the heat map of every family, that of the headline first, with the same for the labels that leave."""
    changed = facts["change"] is not None and not facts["change"]["unchanged"]
    after = {each["name"]: each for each in facts["after"] or ()} if changed else {}
    left, maps = MOST_CELLS, []
    for family in _families(facts):
        later = after.get(family["name"])
        size = len(family["classes"]) * len(family["groups"])
        folded = _larger_than_shown(family) and size <= left
        both = later is not None and 2 * size <= left
        left -= (1 + both) * size if folded else 0
        classes, groups, down = _order(family)
        top = (
            classes[: TOP_ROWS if down else TOP_COLUMNS],
            groups[: TOP_COLUMNS if down else TOP_ROWS],
        )
        maps.append(
            {
                "family": words.family_name(family["name"]),
                "groups": len(family["groups"]),
                "disparity": family["disparity"],
                "after": None if later is None else later["disparity"],
                **_pair(family, later, *top, down),
                "whole": _blocks(family, later if both else None, classes, groups, down)
                if folded
                else None,
                "cut": _larger_than_shown(family) and not folded,
                "left_out": family["left_out"],
            }
        )
    return maps


def _families(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the families that are shown, that of the headline first, then those that differ most."""
    first = facts["headline"] and facts["headline"]["family"]
    return sorted(
        facts["audit"]["families"],
        key=lambda family: (family["name"] != first, -family["disparity"]),
    )[:TOP_FAMILIES]


def _larger_than_shown(family: dict[str, Any]) -> bool:
    sizes = sorted((len(family["classes"]), len(family["groups"])))
    return sizes[0] > TOP_COLUMNS or sizes[1] > TOP_ROWS


def _order(family: dict[str, Any]) -> tuple[list[int], list[int], bool]:
    """Put classes and groups in the order of their largest differences, and tell whether the classes, being more, are the rows."""
    n_groups, n_classes = len(family["groups"]), len(family["overall"])
    far = [_farthest(row, family["overall"]) for row in family["means"]]
    classes = sorted(range(n_classes), key=lambda k: -_worth(family["disparity_by_class"][k]))
    return classes, sorted(range(n_groups), key=lambda g: -_worth(far[g])), n_classes >= n_groups


def _worth(value: Any) -> float:
    """Give a figure to sort by; one that is left out goes last."""
    return -1.0 if isinstance(value, str) else float(value)


def _farthest(means: list[Any], overall: list[float]) -> float | str:
    away = [
        abs(mean - whole)
        for mean, whole in zip(means, overall, strict=True)
        if not isinstance(mean, str)
    ]
    return max(away) if away else next(mean for mean in means if isinstance(mean, str))


def _blocks(
    family: dict[str, Any], later: Any, classes: list[int], groups: list[int], down: bool
) -> list[dict[str, Any]]:
    """Cut a whole table into blocks of columns that fit on a page."""
    wide = sorted(groups) if down else classes
    parts = [wide[start : start + TOP_COLUMNS] for start in range(0, len(wide), TOP_COLUMNS)]
    return [
        _pair(family, later, classes if down else part, part if down else groups, down)
        for part in parts
    ]


def _pair(
    family: dict[str, Any], later: Any, classes: list[int], groups: list[int], down: bool
) -> dict[str, Any]:
    """Lay out a family before and, where it is known, after, with the same rows and columns."""
    shown = (classes, groups, down)
    return {
        "table": _table(family, family, *shown),
        "later": None if later is None else _table(family, later, *shown),
    }


def _table(
    family: dict[str, Any],
    source: dict[str, Any],
    classes: list[int],
    groups: list[int],
    down: bool,
) -> dict[str, Any]:
    """Lay out the means of a family, the longer of classes and groups as rows."""
    means, overall, by_class = source["means"], source["overall"], source["disparity_by_class"]
    shown = {
        "classes": len(classes),
        "groups": len(groups),
        "all_classes": len(overall),
        "all_groups": len(family["groups"]),
    }

    def cell(g: int, k: int) -> tuple[str, str, str]:
        mean = means[g][k]
        if isinstance(mean, str):
            return mean, "", "few"
        return f"{100 * mean:.1f}", words.signed(mean - overall[k]), shade(mean - overall[k])

    def row(name: Any, whole: Any, measure: Any, cells: list[tuple[int, int]]) -> dict[str, Any]:
        return {
            "name": name,
            "all": whole,
            "measure": measure,
            "cells": [cell(g, k) for g, k in cells],
        }

    if down:
        # in the order they came groups are easier to find; only what is cut away is decided by size
        groups = sorted(groups)
        columns = [
            {"name": family["groups"][g], "note": words.rows_of(family["rows"][g])} for g in groups
        ]
        rows = [
            row(family["classes"][k], overall[k], by_class[k], [(g, k) for g in groups])
            for k in classes
        ]
        return {
            "rows": rows,
            "columns": columns,
            "corner": "Class",
            "all": "All rows",
            "measure": "Largest difference",
            **shown,
        }
    columns = [
        {"name": family["classes"][k], "note": f"all {words.percent(overall[k])}"} for k in classes
    ]
    rows = [
        row(
            family["groups"][g],
            family["rows"][g],
            _farthest(means[g], overall),
            [(g, k) for k in classes],
        )
        for g in groups
    ]
    return {
        "rows": rows,
        "columns": columns,
        "corner": "Group",
        "all": "Rows",
        "measure": "Farthest from all",
        **shown,
    }


def four_fifths(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Give, class by class, the lowest share of a group over the highest, before and after; the lowest ratios first."""
    after = {each["name"]: each for each in facts["after"] or ()}
    return [_ratios(family, after.get(family["name"])) for family in _families(facts)]


def _ratios(family: dict[str, Any], later: dict[str, Any] | None) -> dict[str, Any]:
    listed = []
    for k, ratio in enumerate(family["ratio_by_class"]):
        known = [
            (row[k], group)
            for row, group in zip(family["means"], family["groups"], strict=True)
            if not isinstance(row[k], str)
        ]
        ends = (min(known), max(known)) if isinstance(ratio, float) else (None, None)
        after = None if later is None else later["ratio_by_class"][k]
        listed.append(
            {
                "class": family["classes"][k],
                "before": ratio,
                "after": after,
                "low": ends[0],
                "high": ends[1],
            }
        )
    listed.sort(key=lambda each: each["before"] if isinstance(each["before"], float) else 2.0)

    def below(name: str) -> int:
        return sum(isinstance(each[name], float) and each[name] < FOUR_FIFTHS for each in listed)

    return {
        "family": words.family_name(family["name"]),
        "rows": listed[:TOP_ROWS],
        "more": max(0, len(listed) - TOP_ROWS),
        "classes": len(listed),
        "below": below("before"),
        "below_after": None if later is None else below("after"),
    }


def flows(facts: dict[str, Any]) -> dict[str, Any]:
    """Give the groups whose labels change, with pictures of the first and a table of all."""
    classes = facts["data"]["classes"]
    if facts["change"] is None:
        return {"pictures": [], "folded": [], "moves": [], "more": 0, "shifts": [], "groups": []}
    moving = [entry for entry in facts["change"]["flows"] if entry["changed"] > 0]
    several = len({entry["family"] for entry in moving}) > 1
    drawn = [entry for entry in moving if entry["moves"] and entry["summary"]][
        : TOP_FLOWS + FOLDED_FLOWS
    ]
    pictures = [
        {
            **entry,
            "family": words.family_name(entry["family"]) if several else "",
            "svg": svg.flow(entry, classes, place),
        }
        for place, entry in enumerate(drawn)
    ]
    moves = [(entry, *move) for entry in moving for move in entry["moves"] or []]
    moves.sort(key=lambda move: -move[3])
    listed = [
        {
            "group": entry["group"],
            "old": classes[old],
            "new": classes[new],
            "weight": weight,
            "share": weight / entry["before"][old],
        }
        for entry, old, new, weight in moves[:LISTED_MOVES]
    ]
    more = len(moves) - len(listed) + sum(entry["moves_left_out"] for entry in moving)
    return {
        "pictures": pictures[:TOP_FLOWS],
        "folded": pictures[TOP_FLOWS:],
        "moves": listed,
        "more": more,
        "shifts": _shifts(moving, classes) if not moves else [],
        "groups": [
            {key: entry[key] for key in ("family", "group", "weight", "changed")}
            for entry in facts["change"]["flows"]
        ],
    }


def _shifts(moving: list[dict[str, Any]], classes: list[Any]) -> list[dict[str, Any]]:
    """List how the means of probabilities change, the largest first; rows have no one class that they leave."""
    listed = [
        {
            "group": entry["group"],
            "class": classes[k],
            "before": before / entry["weight"],
            "after": after / entry["weight"],
        }
        for entry in moving
        for k, (before, after) in enumerate(zip(entry["before"], entry["after"], strict=True))
        if not isinstance(before, str)
    ]
    return sorted(listed, key=lambda each: -abs(each["after"] - each["before"]))[:LISTED_MOVES]


def cost(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Give the frontier: its picture, what to say at each point, and where the cursor goes."""
    asked = facts["cost"]
    if asked is None:
        return None
    bound = asked["bounds"][0] if len(asked["bounds"]) == 1 else None
    axis = {"range": "largest difference accepted, in points"}.get(
        bound or "", "epsilon accepted, times 100"
    )
    places, epsilons = svg.frontier_places(asked), [point["epsilon"] for point in asked["points"]]
    captions = [_format_point(point) for point in asked["points"]]
    return {
        "svg": svg.frontier(asked, facts["change"]["expected_changes"], axis)
        if len(places) > 1
        else None,
        "nothing": len(places) == 1 and asked["points"][0]["expected_changes"] == 0.0,
        "points": asked["points"],
        "start": 0
        if asked["chosen"] is None
        else min(range(len(epsilons)), key=lambda place: abs(epsilons[place] - asked["chosen"])),
        "script": {"places": [[round(x, 1), round(y, 1)] for x, y in places], "captions": captions},
    }


def _format_point(point: dict[str, Any]) -> str:
    proven = "proven optimal" if point["proven"] else "not proven optimal"
    changes = f"{words.percent(point['expected_changes'])} of labels change"
    return f"Epsilon {point['epsilon']:.4f}: {changes}, squared distance {point['distance']:.5f} per row, {proven}."


def evidence(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Give every family and continuous attribute of an audit with its interval and what chance shows, all on one scale."""
    families = sorted(found["families"], key=lambda family: -family["disparity"])[
        : 2 * TOP_FAMILIES
    ]
    measured = [("difference", each["disparity"], each) for each in families]
    measured += [("share explained", each["explained"], each) for each in found["continuous"]]
    listed = []
    for kind, value, each in measured:
        interval = [each["interval"]["low"], each["interval"]["high"]] if each["interval"] else None
        listed.append(
            {
                **each,
                "name": words.family_name(each["name"]),
                "kind": kind,
                "value": value,
                "interval": interval,
            }
        )
    end = svg.scale_end(max((_reach(each) for each in listed), default=0.0))
    for each in listed:
        chance, name = (
            each["chance"]["quantile"] if each["chance"] else None,
            f"{each['name']}: {words.points(each['value'])}",
        )
        each["svg"] = svg.strip(
            each["value"], end, interval=each["interval"], chance=chance, name=name
        )
    return listed


def _reach(each: dict[str, Any]) -> float:
    """Give how far to the right a measure, its interval and what chance shows go."""
    return float(
        max(
            each["value"],
            *(each["interval"] or []),
            each["chance"]["quantile"] if each["chance"] else 0.0,
        )
    )


def hero(facts: dict[str, Any]) -> Any:
    """Draw the headline on a line: found, by chance, afterwards."""
    found = facts["headline"]
    if found is None:
        return None
    chance = found["chance"]["quantile"] if found["chance"] else None
    end = svg.scale_end(_reach({**found, "value": found["difference"]}))
    name = f"Largest difference {words.points(found['difference'])}" + (
        f", by chance up to {words.points(chance)}" if chance else ""
    )
    after = None if facts["change"] is None or facts["change"]["unchanged"] else found["after"]
    return svg.strip(
        found["difference"],
        end,
        interval=found["interval"],
        chance=chance,
        after=after,
        name=name,
        tall=True,
    )
