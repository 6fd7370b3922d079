"""Pictures by matplotlib in the package's style: sizes in pixels, the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from io import StringIO
from math import ceil, floor, log10
from typing import Any, Final

import numpy as np
from scipy.optimize import isotonic_regression

from experiments.figures import Axis, Panel, Picture, Series
from r2b._plot import COLOURS, INK, MARKERS, QUIET, STYLE, dress
from r2b.errors import require

WIDTH: Final = 900
_LETTER: Final = 6.4  # the width of one, on average, at the size of labels
_LINE: Final = 14.0  # the height of a name
_SHADES: Final = ("#8fc1e3", "#3f8fc4", "#084a7d", "#04263f")
_SHADE: Final = "#e8e8e2"


def draw(picture: Picture) -> str:
    """Draw a picture as SVG."""
    return svg_of(figure_of(picture), picture.title, picture.facts)


def figure_of(picture: Picture) -> Any:
    """Draw a picture as a matplotlib figure."""
    mpl = require("matplotlib", "Drawing a picture needs matplotlib", extra="plot")
    with mpl.rc_context(STYLE):
        return _lines(picture) if picture.along else _dots(picture)


def svg_of(figure: Any, title: str, facts: str) -> str:
    """Write a figure without a date, with a title and all its numbers for those who see none."""
    mpl, written = (
        require("matplotlib", "Drawing a picture needs matplotlib", extra="plot"),
        StringIO(),
    )
    with mpl.rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": "r2b"}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    head, body = re.split(r"(?<=>)", "<svg" + written.getvalue().partition("<svg")[2], maxsplit=1)
    head = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', head).replace(
        "<svg", '<svg role="img"', 1
    )
    # A smaller file: hundredths of a pixel, no names that nothing refers to, no turns by 0 degrees.
    body = re.sub(r' transform="rotate\(-0 [^"]*"| id="[a-zA-Z.2]+_\d+"', "", body)
    body = re.sub(
        r' (d|x|y|x1|x2|y1|y2)="([^"]*)"', lambda found: f' {found[1]}="{_rounded(found[2])}"', body
    )
    lines = "\n".join(line.strip() for line in body.splitlines() if line.strip())
    return f"{head}\n<title>{escape(title)}</title>\n<desc>{escape(facts)}</desc>\n{lines}\n"


def _rounded(places: str) -> str:
    """Write coordinates with two decimals, on one line."""
    return re.sub(
        r"-?\d+\.\d+",
        lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."),
        " ".join(places.split()),
    )


def _figure(picture: Picture, width: float, height: float) -> Any:
    """Begin a figure with its title and the words under it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(round(width) / 72, round(height) / 72), dpi=72)
    _text(figure, 16, 27, picture.title, fontsize=16, fontweight="bold")
    _text(figure, 16, 47, picture.under, color=QUIET)
    return figure


def _part(figure: Any, x: float, y: float) -> tuple[float, float]:
    """Return a place in pixels from the left and from the top as parts of a figure."""
    width, height = figure.get_size_inches() * 72
    return x / width, 1 - y / height


def _text(figure: Any, x: float, y: float, words: str, **look: Any) -> Any:
    return figure.text(*_part(figure, x, y), words, **{"fontsize": 11, **look})


def _axes(figure: Any, left: float, top: float, wide: float, tall: float) -> Any:
    (x, y), (right, above) = _part(figure, left, top + tall), _part(figure, left + wide, top)
    return figure.add_axes((x, y, right - x, above - y))


Keys = list[tuple[str, dict[str, Any]]]


def _key_rows(keys: Keys) -> list[list[tuple[float, str, dict[str, Any]]]]:
    """Set keys of a legend from the left, in as many rows as they take."""
    rows: list[list[tuple[float, str, dict[str, Any]]]] = [[]]
    x = 16.0
    for name, look in keys:
        wide = 42 + len(name) * 6.0
        if x + wide > WIDTH and rows[-1]:
            rows.append([])
            x = 16.0
        rows[-1].append((x, name, look))
        x += wide
    return rows


def _legend(figure: Any, keys: Keys) -> None:
    """Write what shapes mean, once for all panels."""
    from matplotlib.lines import Line2D

    for n, row in enumerate(_key_rows(keys)):
        y = 69.0 + 20 * n
        for x, name, look in row:
            ends = [(x, y), (x + 18, y)] if "linestyle" in look else [(x + 9, y)]
            places = zip(*(_part(figure, *end) for end in ends), strict=True)
            figure.add_artist(Line2D(*map(list, places), **{"linestyle": "none", **look}))
            _text(figure, x + 24, y + 4, name, color=QUIET)


# Dots beside names.


def _dots(picture: Picture) -> Any:
    names = list(
        dict.fromkeys(
            str(place)
            for panel in picture.panels
            for series in panel.series
            for place, *_ in series.points
        )
    )
    kinds = list(dict.fromkeys(series.name for panel in picture.panels for series in panel.series))
    left, gap = max(map(len, names)) * _LETTER + 28, 26
    columns = max(map(len, picture.rows))
    wide = (WIDTH - left - 18 - gap * (columns - 1)) / columns
    tall = len(names) * (_LINE + 2.5 * (len(kinds) - 1))
    keys: Keys = (
        [(name, _look(k, picture.ranked)) for k, name in enumerate(kinds)] if len(kinds) > 1 else []
    )
    if any(panel.level is not None for panel in picture.panels):
        keys.append((picture.level, {"linestyle": (0, (1, 2)), "color": INK, "linewidth": 1.2}))
    if _below(picture):
        keys.append((f"below {min(_below(picture)):g}", {"marker": 8, "color": COLOURS[0]}))
    top, step = 72.0 + 20 * len(_key_rows(keys)), tall + 76
    figure = _figure(picture, WIDTH, top + step * len(picture.rows) - 12)
    _legend(figure, keys)
    for i, row in enumerate(picture.rows):
        for j, panel in enumerate(row):
            ax = _axes(figure, left + j * (wide + gap), top + i * step + 16, wide, tall)
            _dot_panel(ax, panel, names, kinds, picture.ranked)
            ax.set_yticks(range(len(names)), names if j == 0 else [""] * len(names))
    return figure


def _look(kind: int, ranked: bool) -> dict[str, Any]:
    """Return shape and colour of one kind of dots; the second of two is hollow, to show both."""
    if ranked:
        shade = _SHADES[min(kind, len(_SHADES) - 1)]
        return {
            "marker": MARKERS[kind],
            "color": shade,
            "markerfacecolor": shade,
            "markersize": 5.0,
        }
    colour = COLOURS[kind % len(COLOURS)]
    return {
        "marker": "oDs^"[kind % 4],
        "color": colour,
        "markerfacecolor": "white" if kind % 2 else colour,
        "markersize": 5.2,
    }


def _dot_panel(
    ax: Any, panel: Panel, names: Sequence[str], kinds: Sequence[str], ranked: bool
) -> None:
    dress(ax, "x")
    low, high = _range([panel], [] if panel.level is None else [panel.level])
    for place in range(0, len(names), 2):
        ax.axhspan(place - 0.5, place + 0.5, color="#f5f5f1", zorder=0)
    if panel.level is not None:
        ax.axvline(max(panel.level, low), color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
    for series in panel.series:
        kind = kinds.index(series.name)
        order = sorted(kinds.index(each.name) for each in panel.series)
        shift = 0.56 * (order.index(kind) / max(1, len(order) - 1) - 0.5 * (len(order) > 1))
        for name, value, half in series.points:
            at, look = names.index(str(name)) + shift, _look(kind, ranked)
            if half is not None:
                ends = max(value - half, low), value + half
                ax.plot(ends, (at, at), color=look["color"], linewidth=1.6, solid_capstyle="butt")
            below = {"marker": 8, "markersize": 6} if value < low else {}
            ax.plot(
                [max(value, low)],
                [at],
                linestyle="none",
                markeredgewidth=1.3,
                **{**look, **below},
                clip_on=False,
                zorder=3,
            )
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0, pad=8)
    _scale(ax.xaxis, panel.value, low, high)
    ax.set_xlabel(panel.value.title, fontsize=10, labelpad=3)
    ax.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", pad=5)


def _below(picture: Picture) -> set[float]:
    """Return the floors of axes that a value lies below."""
    panels = [panel for panel in picture.panels if panel.value.scale == "log"]
    return {
        panel.value.floor
        for panel in panels
        for series in panel.series
        for _, value, _ in series.points
        if value < panel.value.floor
    }


# Lines with names at their ends.


def _lines(picture: Picture) -> Any:
    assert picture.along is not None
    series = {series.name: series for panel in picture.panels for series in panel.series}
    drawn = dict.fromkeys(
        series.name for panel in picture.panels for series in panel.series if series.points
    )
    names, columns, left, gap = list(series), max(map(len, picture.rows)), 66.0, 32.0
    label = 6.0 if picture.legend else max(map(len, drawn)) * _LETTER + 22
    room = min((WIDTH - left - gap * (columns - 1)) / columns, 620.0)
    keys: Keys = (
        [(name, _line_look(names, series[name])) for name in drawn] if picture.legend else []
    )
    if picture.legend and any(panel.level is not None for panel in picture.panels):
        keys.append(
            (
                picture.level,
                {"linestyle": "-", "linewidth": 10, "color": _SHADE, "solid_capstyle": "butt"},
            )
        )
    tall, top = (
        max(
            {1: 240.0, 2: 200.0}.get(columns, 150.0), 0.0 if picture.legend else len(names) * _LINE
        ),
        74.0 + 20 * bool(keys) * len(_key_rows(keys)),
    )
    two = 14.0 * any("\n" in panel.title for panel in picture.panels)
    top, step = top + two, tall + 52 + two
    figure = _figure(
        picture,
        max(left + columns * (room + gap) - gap, 620.0),
        top + step * len(picture.rows) + 18,
    )
    _legend(figure, keys)
    for i, row in enumerate(picture.rows):
        for j, panel in enumerate(row):
            limits = _range([each for each in row if each.value == panel.value])
            ax = _axes(figure, left + j * (room + gap), top + i * step + 8, room - label, tall)
            _line_panel(ax, panel, picture, names, limits)
            if j == 0 or panel.value != row[j - 1].value:
                ax.set_ylabel(panel.value.title, fontsize=10)
            if i == len(picture.rows) - 1 or j >= len(picture.rows[i + 1]):
                ax.set_xlabel((panel.along or picture.along).title, fontsize=10, labelpad=3)
    return figure


def _line_look(names: Sequence[str], series: Series) -> dict[str, Any]:
    kind = names.index(series.name)
    colour = COLOURS[kind % len(COLOURS)]
    look = {
        "color": colour,
        "marker": MARKERS[kind % len(MARKERS)],
        "markersize": 5.5,
        "linewidth": 1.6,
    }
    if series.plain:
        return {"color": COLOURS[0], "linestyle": "-", "linewidth": 1.4}
    return {**look, "markerfacecolor": "white" if series.hollow else colour, "markeredgewidth": 1.4}


def _line_panel(
    ax: Any, panel: Panel, picture: Picture, names: Sequence[str], limits: tuple[float, float]
) -> None:
    assert picture.along is not None
    dress(ax)
    ends = []
    for series in panel.series:
        if not series.points:
            continue
        look = _line_look(names, series)
        x, values, half = zip(*series.points, strict=True)
        y = [max(value, limits[0]) for value in values]
        ax.plot(
            x,
            y,
            **look,
            markevery=max(1, len(x) // 10),
            clip_on=False,
            zorder=2 if series.plain else 3,
        )
        if any(half):
            bars = [each or 0.0 for each in half]
            lower = [min(bar, value - limits[0]) for bar, value in zip(bars, y, strict=True)]
            ax.errorbar(
                x,
                y,
                yerr=(lower, bars),
                fmt="none",
                ecolor=look["color"],
                elinewidth=1.4,
                capsize=2.5,
                zorder=2,
            )
        ends.append((series.name, float(x[-1]), float(y[-1]), look["color"]))
    along = panel.along or picture.along
    alike = [each for each in picture.panels if (each.along or picture.along) == along]
    places = [place for each in alike for series in each.series for place, *_ in series.points]
    _scale(ax.yaxis, panel.value, *limits)
    _scale(ax.xaxis, along, *_edges(along, min(places), max(places)))
    if panel.level is not None:
        ax.axvspan(ax.get_xlim()[0], panel.level, color=_SHADE, zorder=0)
    ax.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", pad=5)
    if ends and not picture.legend:
        _name_ends(ax, ends)


def _edges(axis: Axis, low: float, high: float) -> tuple[float, float]:
    """Leave some room beside the first and the last point."""
    if axis.scale == "log":
        room = (high / low) ** 0.04
        return low / room, high * room
    if axis.scale == "symlog":
        return low - 0.15, 1.2 * high
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _name_ends(ax: Any, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write names beside where lines end, in order, apart, each tied to its line."""
    inverse, box = ax.transAxes.inverted(), ax.get_window_extent()
    found = sorted(
        (inverse.transform(ax.transData.transform((x, y)))[1], name, x, y, colour)
        for name, x, y, colour in ends
    )
    places = spread([each[0] for each in found], (_LINE - 1) / box.height, 0.0, 1.0)
    for place, (_, name, x, y, colour) in zip(places, found, strict=True):
        tie = {
            "arrowstyle": "-",
            "color": colour,
            "linewidth": 1.0,
            "linestyle": (0, (1, 1.5)),
            "shrinkA": 0,
            "shrinkB": 4,
            "relpos": (0, 0.5),
        }
        at = 1 + 16 / box.width, place
        ax.annotate(
            name,
            (x, y),
            at,
            xycoords="data",
            textcoords="axes fraction",
            va="center",
            fontsize=10,
            color=INK,
            arrowprops=tie,
        )


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move rising places as little as gives neighbours a gap; within bounds where there is room.

    Examples
    --------
    >>> spread([0.1, 0.5, 0.5], 0.25, 0.0, 1.0)
    [0.1, 0.375, 0.625]
    """
    # Less its share of gaps, each place must not be below the one before.
    shares = gap * np.arange(len(places))
    even = isotonic_regression(np.asarray(places) - shares).x
    most = high - gap * (len(places) - 1)
    return [float(place) for place in np.maximum(np.minimum(even, most), low) + shares]


# Scales.


def _range(panels: Sequence[Panel], levels: Sequence[float] = ()) -> tuple[float, float]:
    """Return the limits of values and levels, intervals included, that panels share."""
    axis = panels[0].value
    series: list[Series] = [each for panel in panels for each in panel.series]
    lows, highs = zip(
        *(
            (value - (half or 0), value + (half or 0))
            for each in series
            for _, value, half in each.points
        ),
        strict=True,
    )
    values = [value for each in series for _, value, _ in each.points] + list(levels)
    low, high = min(*lows, *values), max(*highs, *values)
    if axis.scale == "log":
        # An interval may reach 0; it then ends at the axis.
        least = max(min(values), axis.floor)
        return max(low / 1.15 if low > 0 else least / 3, least / 5, axis.floor), high * 1.15
    if axis.scale == "symlog":
        return min(low, 0.0), high * 1.4
    room = 0.06 * (high - low or 1.0)
    return (0.0 if axis.zero else low - room), high + room


def _scale(axis: Any, wanted: Axis, low: float, high: float) -> None:
    """Set scale, limits and round ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    axes, upwards = axis.axes, axis.axis_name == "y"
    limits = axes.set_ylim if upwards else axes.set_xlim
    scaled = axes.set_yscale if upwards else axes.set_xscale
    if wanted.scale == "linear":
        limits(low, high)
        axis.set_major_locator(
            FixedLocator(list(wanted.ticks))
            if wanted.ticks
            else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        )
    else:
        scaled(wanted.scale, **({"linthresh": 1} if wanted.scale == "symlog" else {}))
        limits(low, high)
        axis.set_major_locator(FixedLocator(list(wanted.ticks) or log_ticks(low, high)))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two on a logarithmic axis, denser on a short one.

    Examples
    --------
    >>> log_ticks(0.3, 40), log_ticks(2.1, 9)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [3.0, 4.0, 5.0, 6.0, 8.0])
    """
    decades = log10(high / low)
    parts = (
        (1, 1.5, 2, 3, 4, 5, 6, 8)
        if decades < 0.8
        else (1, 2, 3, 5)
        if decades < 1.5
        else (1, 2, 5)
        if decades < 2.6
        else (1,)
    )
    found = [
        part * 10.0**power
        for power in range(floor(log10(low)), ceil(log10(high)) + 1)
        for part in parts
    ]
    return [round(tick, 10) for tick in found if low <= tick <= high]
