"""Pictures as inline SVG: every text in them is escaped, every picture has a name for readers who do not see it.

Strips use coordinates in percent, so that they stretch with the page and their text does not.
"""

from __future__ import annotations

from math import floor, log10
from typing import Any
from unicodedata import category, east_asian_width

from markupsafe import Markup, escape

from r2b._data.values import directions_shown
from r2b.report.words import MINUS, isolated, moved, percent, points, shortened, shown

Place = tuple[float, float]
Move = tuple[int, int, float]

_OTHERS = "other classes"
_WIDTH = 400
_ROOM = 136.0  # pixels for the name of a class and its amount, on either side
_THINNEST = 0.25  # of a ribbon that is drawn, in pixels


def tag(name: str, content: Any = "", **attributes: Any) -> Markup:
    """Write an element; names of attributes use underscores for hyphens, and values are escaped."""
    # Escaped one by one and joined as text: Markup's own formatting takes several times as long,
    # and pages have thousands of elements.
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(shown(_short(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{escape(shown(content))}</{name}>")


def _short(value: Any) -> Any:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def picture(title: str, body: list[Markup], **attributes: Any) -> Markup:
    """Write a picture with its name."""
    return tag("svg", Markup("").join(body), role="img", aria_label=title, **attributes)


def scale_end(largest: float) -> float:
    """Give a round number at which an axis from 0 may end.

    Examples
    --------
    >>> scale_end(0.2069), scale_end(0.011), scale_end(0.0), scale_end(1.0)
    (0.25, 0.0125, 0.01, 1.0)
    """
    if largest <= 0:
        return 0.01
    size = 10.0 ** floor(log10(largest))
    steps = (1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    end = next(
        round(step * size, 12) for step in steps if step * size >= largest * 1.04 or step == 10
    )
    return min(end, 1.0) if largest <= 1 else end  # no share is above 1


def ticks(end: float, most: int = 5) -> list[float]:
    """Give round numbers from 0 to where an axis ends: steps of 1, 2, 2.5 or 5 times a power of ten.

    Examples
    --------
    >>> ticks(0.2069), ticks(0.0125), ticks(1.0)
    ([0.0, 0.05, 0.1, 0.15, 0.2], [0.0, 0.0025, 0.005, 0.0075, 0.01, 0.0125], [0.0, 0.2, 0.4, 0.6,
    0.8, 1.0])
    """
    size = 10.0 ** floor(log10(end / most))
    step = next(
        step * size for step in (1, 2, 2.5, 5, 10) if step * size * most >= end * (1 - 1e-9)
    )
    return [round(place * step, 12) for place in range(int(end / step * (1 + 1e-9)) + 1)]


def width_of(text: str) -> float:
    r"""Estimate how wide a text of 12 pixels is, rather too wide than too narrow: fonts differ, and names come in any script.

    Examples
    --------
    >>> width_of("abc") < width_of("WWW") < width_of("\u6f22\u5b57\u8868"), width_of("e\u0301") == width_of("e")
    (True, True)
    """
    return 12.0 * sum(map(_em, text))


def _em(character: str) -> float:
    if category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if ord(character) >= 0x1F000:
        return 1.4
    if east_asian_width(character) in "WF" or ord(character) >= 0x2000:
        return 1.1
    return (
        0.4
        if character in " .,:;'|!fijlrt()[]-"
        else 1.0
        if character in "mwMW@%"
        else 0.75
        if character.isupper()
        else 0.635
    )


def fitted(name: str, room: float) -> str:
    """Shorten a name in its middle until it fits into so many pixels.

    Examples
    --------
    >>> fitted("short", 100), fitted("Preschool teachers and others", 90)
    ('short', 'Presch…hers')
    """
    most, short = len(name), name
    while most > 3 and width_of(short) > room:
        most -= 1
        short = shortened(name, most)
    return short


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
    """Draw one measure on a line from 0: what chance shows as a band, the measure as a dot with its interval, what is left as a ring."""
    y, height = (30, 64) if tall else (12, 24)

    def at(value: float) -> str:
        return f"{2 + 94 * min(value, end) / end:.2f}%"

    body = [tag("line", x1=at(0), x2=at(end), y1=y, y2=y, class_="axis")]
    if chance is not None:
        width = f"{94 * min(chance, end) / end:.2f}%"
        body.append(
            tag(
                "rect",
                x=at(0),
                y=y - (11 if tall else 7),
                width=width,
                height=22 if tall else 14,
                class_="chance",
            )
        )
        body.append(
            tag(
                "line",
                x1=at(chance),
                x2=at(chance),
                y1=y - (11 if tall else 7),
                y2=y + (11 if tall else 7),
                class_="chance-end",
            )
        )
    if interval is not None:
        body.append(
            tag("line", x1=at(interval[0]), x2=at(interval[1]), y1=y, y2=y, class_="whisker")
        )
    if after is not None:
        body.append(tag("circle", cx=at(after), cy=y, r=6 if tall else 4, class_="after"))
    body.append(tag("circle", cx=at(found), cy=y, r=8 if tall else 5, class_="found"))
    if tall:
        for value in ticks(end, 4):
            body.append(
                tag(
                    "text",
                    f"{100 * value:g}",
                    x=at(value),
                    y=height - 4,
                    text_anchor="middle",
                    class_="tick",
                )
            )
    return picture(name, body, width="100%", height=height, class_="strip")


def flow(entry: dict[str, Any], classes: list[Any], number_of: int) -> Markup:
    """Draw which labels of a group leave which class for which; those that stay are not drawn."""
    moves: list[Move] = [
        (int(old), int(new), float(weight)) for old, new, weight in entry["summary"]
    ]
    left, right = _side(moves, 0), _side(moves, 1)
    names = {k: _OTHERS if k < 0 else directions_shown(str(classes[k])) for k in (*left, *right)}
    scale = 180.0 / sum(weight for _, _, weight in moves)
    height = (
        max(sum(_slot(scale * weight) for weight in side.values()) for side in (left, right)) + 12.0
    )
    olds, news = _stacked(left, scale, height), _stacked(right, scale, height)
    fade = f"fade{number_of}"
    stops = Markup("").join(
        [tag("stop", offset=0, class_="from"), tag("stop", offset=1, class_="to")]
    )
    body = [tag("defs", tag("linearGradient", stops, id=fade))]
    body += _ribbons(moves, dict(olds), dict(news), scale, names, f"url(#{fade})")
    body += _nodes(left, names, olds, scale, (144, 138), "end", MINUS)
    body += _nodes(right, names, news, scale, (250, 262), "start", "+")
    who = isolated(entry["group"])
    name = f"Labels of {who} that change: from the class on the left to the class on the right. The table below has the numbers."
    return picture(name, body, viewBox=f"0 0 {_WIDTH} {height:.0f}", class_="flow")


def _side(moves: list[Move], side: int) -> dict[int, float]:
    """Add up what leaves, or reaches, each class; the largest first, the other classes last."""
    totals: dict[int, float] = {}
    for move in moves:
        k = move[0] if side == 0 else move[1]
        totals[k] = totals.get(k, 0.0) + move[2]
    return dict(sorted(totals.items(), key=lambda item: (item[0] < 0, -item[1])))


def _stacked(side: dict[int, float], scale: float, height: float) -> dict[int, float]:
    """Place the classes of one side under each other, with even gaps, no two labels nearer than a line of text."""
    sizes = [scale * weight for weight in side.values()]
    gap = max(0.0, (height - sum(map(_slot, sizes))) / (len(sizes) + 1))
    places, top = {}, gap
    for name, size in zip(side, sizes, strict=True):
        places[name] = top + (_slot(size) - size) / 2
        top += _slot(size) + gap
    return places


def _slot(size: float) -> float:
    return max(size + 4.0, 19.0)


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
    for old, new, weight in sorted(
        moves, key=lambda move: (left.index(move[0]), right.index(move[1]))
    ):
        thick, (y0, y1) = scale * weight, (olds[old], news[new])
        olds[old] += thick
        news[new] += thick
        if thick >= _THINNEST:
            there = f"M150 {y0:.1f}C200 {y0:.1f} 200 {y1:.1f} 250 {y1:.1f}"
            back = (
                f"V{y1 + thick:.1f}C200 {y1 + thick:.1f} 200 {y0 + thick:.1f} 150 {y0 + thick:.1f}Z"
            )
            words = f"{isolated(names[old])} to {isolated(names[new])}: {moved(weight)}"
            body.append(
                tag("path", tag("title", words), d=there + back, class_="ribbon", fill=fill)
            )
    return body


def _nodes(
    side: dict[int, float],
    names: dict[int, str],
    places: dict[int, float],
    scale: float,
    at: tuple[int, int],
    anchor: str,
    sign: str,
) -> list[Markup]:
    body = []
    for k, weight in side.items():
        name, y, size, much = names[k], places[k], max(1.5, scale * weight), moved(weight)
        body.append(
            tag(
                "rect",
                x=at[0],
                y=y,
                width=6,
                height=size,
                class_="loses" if sign == MINUS else "gains",
            )
        )
        written = much if much.startswith("<") else sign + much
        short = name if k < 0 else fitted(name, _ROOM - width_of(f" {written}"))
        full = tag("title", name) if short != name else Markup("")
        amount = tag("tspan", written, class_="much")
        label = Markup("{} {}").format(full + escape(isolated(short)), amount)
        body.append(tag("text", label, x=at[1], y=y + size / 2 + 4, text_anchor=anchor))
    return body


def frontier_places(cost: dict[str, Any]) -> list[Place]:
    """Give where each point of the frontier is drawn."""
    ends = _ends(cost)
    return [_place(point["epsilon"], point["expected_changes"], ends) for point in cost["points"]]


# left, top, right, bottom of the plot in a picture of 420 x 262
_FRAME = (46.0, 14.0, 404.0, 216.0)


def _ends(cost: dict[str, Any]) -> Place:
    largest = max(point["epsilon"] for point in cost["points"])
    seen = max(
        largest,
        cost["chosen"] if cost["chosen"] is not None and cost["chosen"] <= 1.5 * largest else 0.0,
    )
    return max(seen, 1e-9), scale_end(max(point["expected_changes"] for point in cost["points"]))


def _place(epsilon: float, changes: float, ends: Place) -> Place:
    left, top, right, bottom = _FRAME
    return left + (right - left) * min(epsilon / ends[0], 1.0), bottom - (bottom - top) * min(
        changes / ends[1], 1.0
    )


def frontier(cost: dict[str, Any], changes: float, axis: str) -> Markup:
    """Draw what parity costs: the share of labels that change against the epsilon accepted."""
    left, top, right, bottom = _FRAME
    ends = _ends(cost)
    body = []
    for value in ticks(ends[1], 4):
        y = _place(0.0, value, ends)[1]
        body.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid" if value else "axis"))
        body.append(
            tag(
                "text",
                f"{100 * value:g} %" if value else "0",
                x=left - 6,
                y=y + 4,
                text_anchor="end",
                class_="tick",
            )
        )
    for value in ticks(ends[0]):
        x = _place(value, 0.0, ends)[0]
        body.append(
            tag("text", f"{100 * value:g}", x=x, y=bottom + 18, text_anchor="middle", class_="tick")
        )
    body.append(
        tag("text", axis, x=(left + right) / 2, y=bottom + 38, text_anchor="middle", class_="tick")
    )
    if cost["chance"] is not None and cost["chance"] < ends[0]:
        x = _place(cost["chance"], 0.0, ends)[0]
        body.append(
            tag("rect", x=left, y=top, width=x - left, height=bottom - top, class_="chance")
        )
        body.append(tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="chance-end"))
        # On the side with more room.
        side = ("start", x + 6) if x < (left + right) / 2 else ("end", x - 6)
        body.append(
            tag("text", "chance alone", x=side[1], y=top + 12, text_anchor=side[0], class_="tick")
        )
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in frontier_places(cost))
    body.append(tag("polyline", points=places, class_="curve"))
    if cost["chosen"] is not None and cost["chosen"] <= ends[0]:
        x, y = _place(cost["chosen"], changes, ends)
        body.append(
            tag(
                "circle",
                tag("title", "the epsilon of this report"),
                cx=x,
                cy=y,
                r=5,
                class_="found",
            )
        )
    cursor = [tag("line", x1=0, x2=0, y1=top, y2=bottom), tag("circle", cx=0, cy=0, r=6)]
    body.append(tag("g", Markup("").join(cursor), class_="cursor", visibility="hidden"))
    strict, most = cost["points"][0], cost["points"][-1]
    name = (
        f"What parity costs: {percent(strict['expected_changes'])} of labels change at {points(strict['epsilon'])}, "
        f"{percent(most['expected_changes'])} at {points(most['epsilon'])}. The table has every point."
    )
    return picture(name, body, viewBox="0 0 420 262", class_="frontier")
