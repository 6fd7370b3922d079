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

# Steps of colour in points from the mean of all rows. They are the same in every report, so that two can be laid side by side.
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
    """Give the heat map of every family, that of the headline first."""
    first = facts["headline"] and facts["headline"]["family"]
    families = sorted(facts["audit"]["families"], key=lambda family: (family["name"] != first, -family["parity"]))
    left, maps = MOST_CELLS, []
    for family in families[:TOP_FAMILIES]:
        size = len(family["classes"]) * len(family["groups"])
        folded = _larger_than_shown(family) and size <= left
        left -= size if folded else 0
        maps.append(
            {
                "family": words.family_name(family["name"]),
                "groups": len(family["groups"]),
                "parity": family["parity"],
                "table": _table(family, TOP_ROWS, TOP_COLUMNS),
                "whole": _table(family, None, None) if folded else None,
                "cut": _larger_than_shown(family) and not folded,
                "left_out": family["left_out"],
            }
        )
    return maps


def _larger_than_shown(family: dict[str, Any]) -> bool:
    sizes = sorted((len(family["classes"]), len(family["groups"])))
    return sizes[0] > TOP_COLUMNS or sizes[1] > TOP_ROWS


def _table(family: dict[str, Any], top_rows: int | None, top_columns: int | None) -> dict[str, Any]:
    """Lay out a family with the longer of classes and groups as rows; the order is that of the largest differences."""
    means, overall, by_class = family["means"], family["overall"], family["parity_by_class"]
    n_groups, n_classes = len(family["groups"]), len(overall)
    deviation = [[mean - all_rows for mean, all_rows in zip(row, overall, strict=True)] for row in means]
    far, classes_down = [max(map(abs, row)) for row in deviation], n_classes >= n_groups
    classes = sorted(range(n_classes), key=lambda k: -by_class[k])[: top_rows if classes_down else top_columns]
    groups = sorted(range(n_groups), key=lambda g: -far[g])[: top_columns if classes_down else top_rows]
    shown = {"classes": len(classes), "groups": len(groups), "all_classes": n_classes, "all_groups": n_groups}

    def row(name: Any, whole: float, measure: float, cells: list[tuple[int, int]]) -> dict[str, Any]:
        texts = [(f"{100 * means[g][k]:.1f}", words.signed(deviation[g][k]), shade(deviation[g][k])) for g, k in cells]
        return {"name": name, "all": whole, "measure": measure, "cells": texts}

    if classes_down:
        groups = sorted(groups)  # in the order they came groups are easier to find; only what is cut away is decided by size
        columns = [{"name": family["groups"][g], "note": words.rows_of(family["rows"][g])} for g in groups]
        rows = [row(family["classes"][k], overall[k], by_class[k], [(g, k) for g in groups]) for k in classes]
        return {"rows": rows, "columns": columns, "corner": "Class", "all": "All rows", "measure": "Largest difference", **shown}
    columns = [{"name": family["classes"][k], "note": f"all {words.percent(overall[k])}"} for k in classes]
    rows = [row(family["groups"][g], family["rows"][g], far[g], [(g, k) for k in classes]) for g in groups]
    return {"rows": rows, "columns": columns, "corner": "Group", "all": "Rows", "measure": "Farthest from all", **shown}


def flows(facts: dict[str, Any]) -> dict[str, Any]:
    """Give the groups whose labels change, with pictures of the first and a table of all."""
    classes = facts["data"]["classes"]
    moving = [entry for entry in facts["change"]["flows"] if entry["changed"] > 0]
    several = len({entry["family"] for entry in moving}) > 1
    drawn = [entry for entry in moving if entry["moves"]][: TOP_FLOWS + FOLDED_FLOWS]
    pictures = [
        {**entry, "family": words.family_name(entry["family"]) if several else "", "svg": svg.flow(entry, classes, place)}
        for place, entry in enumerate(drawn)
    ]
    moves = [(entry, *move) for entry in moving for move in entry["moves"] or []]
    moves.sort(key=lambda move: -move[3])
    listed = [
        {"group": entry["group"], "old": classes[old], "new": classes[new], "weight": weight, "share": weight / entry["before"][old]}
        for entry, old, new, weight in moves[:LISTED_MOVES]
    ]
    more = len(moves) - len(listed) + sum(entry["moves_left_out"] for entry in moving)
    return {
        "pictures": pictures[:TOP_FLOWS],
        "folded": pictures[TOP_FLOWS:],
        "moves": listed,
        "more": more,
        "shifts": _shifts(moving, classes) if not moves else [],
        "groups": [{key: entry[key] for key in ("family", "group", "weight", "changed")} for entry in facts["change"]["flows"]],
    }


def _shifts(moving: list[dict[str, Any]], classes: list[Any]) -> list[dict[str, Any]]:
    """List how the means of probabilities change, the largest first; rows have no one class that they leave."""
    listed = [
        {"group": entry["group"], "class": classes[k], "before": before / entry["weight"], "after": after / entry["weight"]}
        for entry in moving
        for k, (before, after) in enumerate(zip(entry["before"], entry["after"], strict=True))
    ]
    return sorted(listed, key=lambda each: -abs(each["after"] - each["before"]))[:LISTED_MOVES]


def cost(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Give the frontier: its picture, what to say at each point, and where the cursor goes."""
    asked = facts["cost"]
    if asked is None:
        return None
    bound = asked["bounds"][0] if len(asked["bounds"]) == 1 else None
    axis = {"range": "largest difference accepted, in points"}.get(bound or "", "epsilon accepted, times 100")
    places, epsilons = svg.frontier_places(asked), [point["epsilon"] for point in asked["points"]]
    captions = [_format_point(point) for point in asked["points"]]
    return {
        "svg": svg.frontier(asked, facts["change"]["expected_changes"], axis) if len(places) > 1 else None,
        "nothing": len(places) == 1 and asked["points"][0]["expected_changes"] == 0.0,
        "points": asked["points"],
        "start": 0 if asked["chosen"] is None else min(range(len(epsilons)), key=lambda place: abs(epsilons[place] - asked["chosen"])),
        "script": {"places": [[round(x, 1), round(y, 1)] for x, y in places], "captions": captions},
    }


def _format_point(point: dict[str, Any]) -> str:
    proven = "proven optimal" if point["proven"] else "not proven optimal"
    changes = f"{words.percent(point['expected_changes'])} of labels change"
    return f"Epsilon {point['epsilon']:.4f}: {changes}, squared distance {point['distance']:.5f} per row, {proven}."


def evidence(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Give every family and continuous attribute of an audit with its interval and what chance shows, all on one scale."""
    families = sorted(found["families"], key=lambda family: -family["parity"])[: 2 * TOP_FAMILIES]
    measured = [("difference", each["parity"], each) for each in families]
    measured += [("share explained", each["explained"], each) for each in found["continuous"]]
    listed = []
    for kind, value, each in measured:
        interval = [each["interval"]["low"], each["interval"]["high"]] if each["interval"] else None
        listed.append({**each, "name": words.family_name(each["name"]), "kind": kind, "value": value, "interval": interval})
    end = svg.scale_end(max((_reach(each) for each in listed), default=0.0))
    for each in listed:
        chance, name = each["chance"]["quantile"] if each["chance"] else None, f"{each['name']}: {words.points(each['value'])}"
        each["svg"] = svg.strip(each["value"], end, interval=each["interval"], chance=chance, name=name)
    return listed


def _reach(each: dict[str, Any]) -> float:
    """Give how far to the right a measure, its interval and what chance shows go."""
    return float(max(each["value"], *(each["interval"] or []), each["chance"]["quantile"] if each["chance"] else 0.0))


def hero(facts: dict[str, Any]) -> Any:
    """Draw the headline on a line: found, by chance, afterwards."""
    found = facts["headline"]
    if found is None:
        return None
    chance = found["chance"]["quantile"] if found["chance"] else None
    end = svg.scale_end(_reach({**found, "value": found["difference"]}))
    name = f"Largest difference {words.points(found['difference'])}" + (f", by chance up to {words.points(chance)}" if chance else "")
    after = None if facts["change"]["unchanged"] else found["after"]
    return svg.strip(found["difference"], end, interval=found["interval"], chance=chance, after=after, name=name, tall=True)
