"""Where charts put their marks; ``charts.html.j2`` draws them as inline SVG.

Strips use coordinates in percent, so that they stretch with the page and their text does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import floor, log10
from typing import Any
from unicodedata import east_asian_width

from r2b._data.values import directions_shown
from r2b.report.words import MINUS, Facts, isolated, moved, percent, points, shortened

Move = tuple[int, int, float]
Mark = tuple[float, list[float] | None, float | None]
"""A measure, its interval, and what chance shows of it."""

_FRAME = (46, 14, 404, 216)  # left, top, right and bottom of the plot of a frontier
_SUM = 180.0  # height of all that a group moves, in pixels
_LINE = 19.0  # no two names are nearer than a line of text
_THIN = 0.25  # thinner ribbons are not drawn
_ROOM = 10.4  # for a name and its amount, in widths of a wide character


def scale_end(largest: float) -> float:
    """Return a round number at which an axis from 0 may end; no share is above 1.

    Examples
    --------
    >>> scale_end(0.2069), scale_end(0.011), scale_end(0.0), scale_end(1.0)
    (0.25, 0.0125, 0.01, 1.0)
    """
    if largest <= 0:
        return 0.01
    size = 10.0 ** floor(log10(largest))
    steps = (1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    step = next((step for step in steps if step * size >= largest * 1.04), 10)
    return min(round(step * size, 12), 1.0)


def end_of(marks: Iterable[Mark]) -> float:
    """Return where an axis ends that holds measures, their intervals and what chance shows."""
    reach = (max(value, *(interval or ()), chance or 0.0) for value, interval, chance in marks)
    return scale_end(max(reach, default=0.0))


def ticks(end: float, most: int = 5) -> list[float]:
    """Return round numbers from 0 to the end of an axis.

    Examples
    --------
    >>> ticks(0.2069), ticks(1.0)
    ([0.0, 0.05, 0.1, 0.15, 0.2], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    size = 10.0 ** floor(log10(end / most))
    step = size * next(step for step in (1, 2, 2.5, 5, 10) if step * size * most >= end * 0.999999)
    return [round(place * step, 12) for place in range(int(end / step * 1.000001) + 1)]


def strip(
    name: str,
    end: float,
    found: float,
    interval: list[float] | None,
    chance: float | None,
    after: float | None = None,
) -> dict[str, Any]:
    """Place a measure on a line that ends at ``end``, with its interval, chance and what follows.

    Examples
    --------
    >>> strip("sex", 0.2, 0.1, [0.05, 0.15], None)["interval"]
    [25.5, 72.5]
    """

    def at(value: float) -> float:
        return round(2 + 94 * min(value, end) / end, 2)

    return {
        "name": name,
        "found": at(found),
        "interval": interval and [at(value) for value in interval],
        "chance": None if chance is None else at(chance),
        "after": None if after is None else at(after),
        "ticks": [(f"{100 * value:g}", at(value)) for value in ticks(end, 4)],
    }


def flow(moves: list[Move], classes: list[Any]) -> dict[str, Any]:
    """Place which labels leave which class for which; those that stay are not drawn.

    Parameters
    ----------
    moves : list of (int, int, float)
        Places of the old and of the new class, -1 for the other classes, and the weight.
    classes : list
        Names.
    """
    leaving = _totals((old, weight) for old, _, weight in moves)
    sides = leaving, _totals((new, weight) for _, new, weight in moves)
    scale = _SUM / sum(leaving.values())
    height = 12 + max(sum(_slot(scale * each) for each in side.values()) for side in sides)
    old, new = (_bars(side, scale, height, classes) for side in sides)
    left, right = ({k: bar["y"] for k, bar in side.items()} for side in (old, new))
    ribbons, order = [], (list(old), list(new))
    for k, j, weight in sorted(moves, key=lambda m: (order[0].index(m[0]), order[1].index(m[1]))):
        ends, thick = (left[k], right[j]), scale * weight
        left[k] += thick
        right[j] += thick
        if thick >= _THIN:
            name = f"{isolated(old[k]['name'])} to {isolated(new[j]['name'])}: {moved(weight)}"
            ribbons.append({"name": name, "tops": ends, "bottoms": (left[k], right[j])})
    bars = {MINUS: old.values(), "+": new.values()}
    return {"height": round(height), "ribbons": ribbons, "sides": bars}


def _totals(moved: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Add up what leaves, or reaches, each class; the largest first, the other classes last."""
    totals = defaultdict[int, float](float)
    for k, weight in moved:
        totals[k] += weight
    return dict(sorted(totals.items(), key=lambda item: (item[0] < 0, -item[1])))


def _slot(size: float) -> float:
    return max(size + 4.0, _LINE)


def _bars(
    side: dict[int, float], scale: float, height: float, classes: list[Any]
) -> dict[int, dict[str, Any]]:
    """Place the classes of one side under each other, with even gaps."""
    gap = (height - sum(_slot(scale * weight) for weight in side.values())) / (len(side) + 1)
    bars, top = {}, gap
    for k, weight in side.items():
        size, slot, much = scale * weight, _slot(scale * weight), moved(weight)
        name = "other classes" if k < 0 else directions_shown(shortened(classes[k], 200))
        short = name if k < 0 else _fitted(name, _ROOM - 0.635 * (len(much) + (much[0] != "<")))
        bars[k] = {"name": name, "short": short, "much": much, "y": top + (slot - size) / 2}
        bars[k]["size"] = max(1.5, size)
        top += slot + gap
    return bars


def _fitted(name: str, room: float) -> str:
    """Shorten a name until it fits; fonts differ, so widths are estimated and rather too wide."""

    def of(c: str) -> float:
        if east_asian_width(c) in "WF" or ord(c) > 0x2000:
            return 1.4 if ord(c) > 0x1F000 else 1.1
        return 1.0 if c in "mwMW@%" else 0.75 if c.isupper() else 0.6

    short, most = name, len(name)
    while most > 3 and sum(map(of, short)) > room:
        most -= 1
        short = shortened(name, most)
    return short


def frontier(cost: Facts, changes: float, axis: str) -> dict[str, Any]:
    """Place what parity costs: the share of labels that change against the epsilon accepted.

    Parameters
    ----------
    cost : Facts
        ``points``, and ``chosen`` and ``chance``, each an epsilon or None.
    changes : float
        The share of labels that change at the epsilon that was chosen.
    axis : str
        What epsilon limits.
    """
    (left, top, right, bottom), found = _FRAME, cost.points
    chosen, chance = cost.chosen, cost.chance
    widest: float = max(point.epsilon for point in found)
    near = chosen is not None and chosen <= 1.5 * widest
    across = max(widest, chosen if near else 0.0, 1e-9)
    up = scale_end(max(point.expected_changes for point in found))

    def x(epsilon: float) -> float:
        return left + (right - left) * min(epsilon / across, 1.0)

    def y(share: float) -> float:
        return bottom - (bottom - top) * min(share / up, 1.0)

    ends = (
        f"{percent(point.expected_changes)} of labels change at {points(point.epsilon)}"
        for point in (found[0], found[-1])
    )
    return {
        "name": f"What parity costs: {', '.join(ends)}. The table has every point.",
        "frame": _FRAME,
        "axis": axis,
        "rows": [(f"{100 * value:g} %" if value else "0", y(value)) for value in ticks(up, 4)],
        "columns": [(f"{100 * value:g}", x(value)) for value in ticks(across)],
        "chance": x(chance) if chance is not None and chance < across else None,
        "points": [
            (round(x(point.epsilon), 1), round(y(point.expected_changes), 1)) for point in found
        ],
        "chosen": (x(chosen), y(changes)) if near else None,
    }
