"""Charts as inline SVG: every text in them is escaped, and every chart has a name to be read aloud.

Strips use coordinates in percent, so that they stretch with the page and their text does not.
"""

from __future__ import annotations

from math import floor, log10
from typing import Any
from unicodedata import east_asian_width

from markupsafe import Markup, escape

from r2b._data.values import directions_shown
from r2b.report.words import MINUS, isolated, moved, percent, points, shortened, shown

Place = tuple[float, float]
Move = tuple[int, int, float]

_FRAME = (46.0, 14.0, 404.0, 216.0)  # of the plot of a frontier: left, top, right, bottom


def tag(name: str, content: Any = "", **attributes: Any) -> Markup:
    """Write an element; names of attributes use underscores for hyphens, and values are escaped."""
    # Joined as text: Markup's own formatting takes several times as long, for thousands of them.
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(shown(_short(value)))}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{escape(shown(content))}</{name}>")


def _short(value: Any) -> Any:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def _picture(title: str, body: list[Markup], **attributes: Any) -> Markup:
    return tag("svg", Markup("").join(body), role="img", aria_label=title, **attributes)


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
    steps = [step for step in (1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if step * size >= largest * 1.04]
    end = round((steps[0] if steps else 10) * size, 12)
    return min(end, 1.0) if largest <= 1 else end


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
    found: float,
    end: float,
    *,
    interval: list[float] | None,
    chance: float | None,
    after: float | None = None,
    name: str,
    tall: bool = False,
) -> Markup:
    """Draw a measure on a line: a dot with its interval, chance as a band, after as a ring."""
    y, height, half = (30, 64, 11) if tall else (12, 24, 7)

    def at(value: float) -> str:
        return f"{2 + 94 * min(value, end) / end:.2f}%"

    def line(start: float, stop: float, kind: str, *, reach: int = 0) -> Markup:
        return tag("line", x1=at(start), x2=at(stop), y1=y - reach, y2=y + reach, class_=kind)

    body = [line(0, end, "axis")]
    if chance is not None:
        width = f"{94 * min(chance, end) / end:.2f}%"
        band = {"x": at(0), "y": y - half, "width": width, "height": 2 * half}
        body.append(tag("rect", **band, class_="chance"))
        body.append(line(chance, chance, "chance-end", reach=half))
    if interval is not None:
        body.append(line(interval[0], interval[1], "whisker"))
    if after is not None:
        body.append(tag("circle", cx=at(after), cy=y, r=6 if tall else 4, class_="after"))
    body.append(tag("circle", cx=at(found), cy=y, r=8 if tall else 5, class_="found"))
    for value in ticks(end, 4) if tall else ():
        body.append(_tick(f"{100 * value:g}", at(value), height - 4))
    return _picture(name, body, width="100%", height=height, class_="strip")


def _tick(text: str, x: Any, y: float, anchor: str = "middle") -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_="tick")


def flow(entry: dict[str, Any], classes: list[Any], number_of: int, noun: str) -> Markup:
    """Draw which labels of a group leave which class for which; those that stay are not drawn."""
    moves: list[Move] = [(int(old), int(new), float(much)) for old, new, much in entry["summary"]]
    left, right = _totals(moves, 0), _totals(moves, 1)
    names = {
        k: "other classes" if k < 0 else directions_shown(shortened(classes[k], 200))
        for k in (*left, *right)
    }
    scale = 180.0 / sum(weight for _, _, weight in moves)
    height = max(sum(_slot(scale * each) for each in side.values()) for side in (left, right)) + 12
    olds, news = _stacked(left, scale, height), _stacked(right, scale, height)
    fade = f"fade{number_of}"
    stops = tag("stop", offset=0, class_="from") + tag("stop", offset=1, class_="to")
    body = [tag("defs", tag("linearGradient", stops, id=fade))]
    body += _ribbons(moves, dict(olds), dict(news), scale, names, f"url(#{fade})")
    body += _classes(left, names, olds, scale)
    body += _classes(right, names, news, scale, gains=True)
    title = (
        f"{noun.capitalize()}s of {isolated(entry['group'])} that change: from the left to the "
        "right. The table below has the numbers."
    )
    return _picture(title, body, viewBox=f"0 0 400 {height:.0f}", class_="flow")


def _totals(moves: list[Move], side: int) -> dict[int, float]:
    """Add up what leaves, or reaches, each class; the largest first, the other classes last."""
    totals: dict[int, float] = {}
    for old, new, weight in moves:
        k = (old, new)[side]
        totals[k] = totals.get(k, 0.0) + weight
    return dict(sorted(totals.items(), key=lambda item: (item[0] < 0, -item[1])))


def _slot(size: float) -> float:
    return max(size + 4.0, 19.0)  # no two names nearer than a line of text


def _stacked(side: dict[int, float], scale: float, height: float) -> dict[int, float]:
    """Place the classes of one side under each other, with even gaps."""
    slots = {k: _slot(scale * weight) for k, weight in side.items()}
    gap = top = max(0.0, (height - sum(slots.values())) / (len(slots) + 1))
    places = {}
    for k, slot in slots.items():
        places[k] = top + (slot - scale * side[k]) / 2
        top += slot + gap
    return places


def _ribbons(
    moves: list[Move],
    olds: dict[int, float],
    news: dict[int, float],
    scale: float,
    names: dict[int, str],
    fill: str,
) -> list[Markup]:
    """Draw the moves; the tops of both sides go down as ribbons leave and arrive."""
    body, left, right = [], list(olds), list(news)
    for old, new, weight in sorted(moves, key=lambda m: (left.index(m[0]), right.index(m[1]))):
        thick, y0, y1 = scale * weight, olds[old], news[new]
        olds[old] += thick
        news[new] += thick
        if thick < 0.25:  # pixels
            continue
        z0, z1 = y0 + thick, y1 + thick
        path = f"M150 {y0:.1f}C200 {y0:.1f} 200 {y1:.1f} 250 {y1:.1f}"
        path += f"V{z1:.1f}C200 {z1:.1f} 200 {z0:.1f} 150 {z0:.1f}Z"
        title = tag("title", f"{isolated(names[old])} to {isolated(names[new])}: {moved(weight)}")
        body.append(tag("path", title, d=path, class_="ribbon", fill=fill))
    return body


def _classes(
    side: dict[int, float],
    names: dict[int, str],
    places: dict[int, float],
    scale: float,
    *,
    gains: bool = False,
) -> list[Markup]:
    """Draw the bars of one side, with the name and the amount of each class."""
    kind, sign, bar, at = ("gains", "+", 250, 262) if gains else ("loses", MINUS, 144, 138)
    body = []
    for k, weight in side.items():
        name, y, size, much = names[k], places[k], max(1.5, scale * weight), moved(weight)
        body.append(tag("rect", x=bar, y=y, width=6, height=size, class_=kind))
        written = much if much.startswith("<") else sign + much
        # There are 11 widths of a wide character for the name, a blank and the amount.
        short = name if k < 0 else _fitted(name, 10.4 - 0.635 * len(written))
        full = tag("title", name) if short != name else Markup("")
        amount = tag("tspan", written, class_="much")
        label = Markup("{} {}").format(full + escape(isolated(short)), amount)
        anchor = "start" if gains else "end"
        body.append(tag("text", label, x=at, y=y + size / 2 + 4, text_anchor=anchor))
    return body


def _fitted(name: str, room: float) -> str:
    """Shorten a name until it fits; fonts differ, so widths are estimated and rather too wide."""

    def of(c: str) -> float:
        if east_asian_width(c) in "WF" or ord(c) > 0x2000:
            return 1.4 if ord(c) > 0x1F000 else 1.1
        return 1.0 if c in "mwMW@%" else 0.75 if c.isupper() else 0.6

    def width(text: str) -> float:
        return sum(map(of, text))

    short, most = name, len(name)
    while most > 3 and width(short) > room:
        most -= 1
        short = shortened(name, most)
    return short


def frontier_places(cost: dict[str, Any]) -> list[Place]:
    """Return where each point of the frontier is drawn."""
    ends = _ends(cost)
    return [_place(point["epsilon"], point["expected_changes"], ends) for point in cost["points"]]


def _ends(cost: dict[str, Any]) -> Place:
    largest = max(point["epsilon"] for point in cost["points"])
    chosen = cost["chosen"] or 0.0
    across = max(largest, chosen if chosen <= 1.5 * largest else 0.0, 1e-9)
    return across, scale_end(max(point["expected_changes"] for point in cost["points"]))


def _place(epsilon: float, changes: float, ends: Place) -> Place:
    left, top, right, bottom = _FRAME
    across, up = min(epsilon / ends[0], 1.0), min(changes / ends[1], 1.0)
    return left + (right - left) * across, bottom - (bottom - top) * up


def frontier(cost: dict[str, Any], changes: float, axis: str) -> Markup:
    """Draw what parity costs: the share of labels that change against the epsilon accepted."""
    left, top, right, bottom = _FRAME
    ends, body = _ends(cost), []
    for value in ticks(ends[1], 4):
        y = _place(0.0, value, ends)[1]
        body.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid" if value else "axis"))
        body.append(_tick(f"{100 * value:g} %" if value else "0", left - 6, y + 4, "end"))
    for value in ticks(ends[0]):
        body.append(_tick(f"{100 * value:g}", _place(value, 0.0, ends)[0], bottom + 18))
    body.append(_tick(axis, (left + right) / 2, bottom + 38))
    if cost["chance"] is not None and cost["chance"] < ends[0]:
        x = _place(cost["chance"], 0.0, ends)[0]
        band = {"width": x - left, "height": bottom - top}
        body.append(tag("rect", x=left, y=top, **band, class_="chance"))
        body.append(tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="chance-end"))
        before = x < (left + right) / 2  # the name goes where there is more room
        side = x + 6 if before else x - 6
        body.append(_tick("chance alone", side, top + 12, "start" if before else "end"))
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in frontier_places(cost))
    body.append(tag("polyline", points=places, class_="curve"))
    if cost["chosen"] is not None and cost["chosen"] <= ends[0]:
        x, y = _place(cost["chosen"], changes, ends)
        title = tag("title", "the epsilon of this report")
        body.append(tag("circle", title, cx=x, cy=y, r=5, class_="found"))
    cursor = [tag("line", x1=0, x2=0, y1=top, y2=bottom), tag("circle", cx=0, cy=0, r=6)]
    body.append(tag("g", Markup("").join(cursor), class_="cursor", visibility="hidden"))
    ends_said = (
        f"{percent(point['expected_changes'])} of labels change at {points(point['epsilon'])}"
        for point in (cost["points"][0], cost["points"][-1])
    )
    name = f"What parity costs: {', '.join(ends_said)}. The table has every point."
    return _picture(name, body, viewBox="0 0 420 262", class_="frontier")
