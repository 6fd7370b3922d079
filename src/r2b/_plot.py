"""One look for every picture, for the colour-blind and grey printers too.

What a picture shows is chosen by the results that have a ``plot``; here are the two forms that they
share, means of groups by class and measures beside chance, and what both are made of. Matplotlib's
own settings are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, Final, NamedTuple
from unicodedata import east_asian_width

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._data.values import written
from r2b.errors import ParameterError, require

# Okabe and Ito's colours, ordered so that neighbours also differ in lightness.
COLOURS: Final = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#6f6e68",
    "#000000",
)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
INK: Final = "#1a1a19"
QUIET: Final = "#52514e"
GRID: Final = "#e1e0d9"
STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": "#8f8e86",
    "axes.labelcolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "figure.facecolor": "white",
}


_ROWS: Final = 12  # names beside an axis; more are said to be there
_GROUPS: Final = 8  # told apart by colour and marker
_SOFT: Final = "#a3a29a"  # what is there and not named
_BAND: Final = "#f5f5f1"
SHADE: Final = "#d9d8d0"
# Fonts with Chinese, Japanese and Korean letters, of which DejaVu has none: those of them that a
# machine has are tried.
_EASTERN: Final = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Source Han Sans",
    "Arial Unicode MS",
)


Key = tuple[Any, dict[str, Any]]
"""A name and the look of what it stands for."""


class Measure(NamedTuple):
    """A number between 0 and 1 with its name.

    Attributes
    ----------
    name : object
    value : float
    interval : tuple of two float, optional
    chance : float, optional
        What 19 of 20 fair samples do not pass.
    beside : str
        What is written to the right.
    """

    name: Any
    value: float
    interval: tuple[float, float] | None = None
    chance: float | None = None
    beside: str = ""


def axes(ax: Any, what: str, rows: float | None = None, grid: str = "both") -> Any:
    """Return the axes that were passed, or new ones, high enough for so many names.

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ParameterError
        What was passed is no Axes.
    """
    plt = require("matplotlib.pyplot", f"{what}.plot needs matplotlib", extra="plot")
    if ax is None:
        with plt.rc_context(STYLE):
            ax = plt.subplots(
                figsize=(7.0, 4.0 if rows is None else 1.4 + 0.3 * rows), layout="constrained"
            )[1]
    elif not isinstance(ax, plt.Axes):
        remedy = "Pass one Axes of matplotlib, such as plt.subplots()[1], or nothing."
        raise ParameterError(
            f"ax is of type {type(ax).__name__}.",
            remedy=remedy,
            argument="ax",
            type=type(ax).__name__,
        )
    dress(ax, grid)
    return ax


def dress(ax: Any, grid: str = "both") -> None:
    """Make axes quiet: two spines, a light grid behind what is drawn.

    Parameters
    ----------
    ax : matplotlib Axes
    grid : {"both", "x", "y"}
    """
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=False)
    ax.grid(visible=True, axis=grid, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=3, labelsize=10)


def set_title(ax: Any, *lines: str) -> None:
    """Write a title at the left, its lines broken where they are too long for a picture."""
    # a number and its sign stay on one line
    kept = [line.replace(" %", "\N{NO-BREAK SPACE}%") for line in lines]
    broken = "\n".join(part for line in kept for part in wrap(line, max(20, int(_room(ax) / 5.9))))
    ax.set_title(
        broken.replace("\N{NO-BREAK SPACE}", " "),
        loc="left",
        fontsize=11,
        parse_math=False,
        **_fonts(lines),
    )


def _room(ax: Any) -> float:
    """Estimate the width of axes in points, less the names at the left."""
    whole = 72 * ax.figure.bbox.width / ax.figure.dpi
    names = max((columns_of(text.get_text()) for text in ax.get_yticklabels()), default=0)
    return float(min(ax.get_position().width * whole, whole - 15 - 6.1 * names))


def set_scale(axis: Any, title: str) -> None:
    """Set the title and round ticks of an axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_label_text(title, fontsize=10)
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def name_rows(ax: Any, names: Sequence[Any]) -> None:
    """Write names beside rows, the first at the top, with a shade behind every second one."""
    shown = [shorten(name) for name in names]
    ax.set_yticks(range(len(shown)), shown, parse_math=False, **_fonts(shown))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    for place in range(0, len(shown), 2):
        ax.axhspan(place - 0.5, place + 0.5, color=_BAND, zorder=0)


CHANCE_KEY: Key = ("what chance shows", {"linestyle": "-", "linewidth": 8, "color": SHADE})
"""The shade of what chance shows, for :func:`draw_legend`."""


def draw_legend(ax: Any, keys: Sequence[Key]) -> None:
    """Write below axes what markers mean, in as many columns as names leave room for."""
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

    if not keys:
        return
    # Matplotlib leaves out names that begin with an underscore.
    names = [
        f" {name}" if name.startswith("_") else name
        for name in (shorten(name, 48) for name, _ in keys)
    ]
    marks = [
        Line2D([], [], **{"linestyle": "none", "solid_capstyle": "butt", **look})
        for _, look in keys
    ]
    below = ax.transAxes + ScaledTranslation(0, -0.5, ax.figure.dpi_scale_trans)
    legend = ax.legend(
        marks,
        names,
        ncols=_columns(keys),
        frameon=False,
        fontsize=9.5,
        handletextpad=0.6,
        columnspacing=1.4,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        borderaxespad=0,
    )
    for text in legend.get_texts():
        text.set(parse_math=False, **_fonts(names))


def _columns(keys: Sequence[Key]) -> int:
    return max(1, min(4, 60 // (max(columns_of(shorten(name, 48)) for name, _ in keys) + 6)))


def group_means(
    ax: Any,
    what: str,
    lines: Sequence[str],
    classes: Array,
    groups: Sequence[Any],
    tables: Mapping[str, Floats],
    apart: Floats,
    *,
    moments: bool = False,
) -> Any:
    """Draw the mean of every class in every group, the classes that differ most at the top.

    Parameters
    ----------
    ax : matplotlib Axes or None
    what : str
        The class whose ``plot`` this is.
    lines : sequence of str
        The title.
    classes, groups : sequence
        Names.
    tables : mapping of str to ndarray of shape (n_groups, n_classes)
        The last one filled, those before it hollow.
    apart : ndarray of shape (n_classes,)
        How far each class is from parity.
    moments : bool
        The numbers are moments of a continuous attribute, not means.
    """
    shown, more = np.argsort(-np.round(apart, 12), kind="stable")[:_ROWS], ""
    rest, first = np.delete(apart, shown), next(iter(tables.values()))
    if len(rest):
        most = f"{rest.max():.4f}" if moments else percent(rest.max())
        more = f"the {len(shown)} classes that differ most; {len(rest):,} more by at most {most}"
    named = _highlighted(first[:, shown])
    keys: list[Key] = [
        (groups[s], {"marker": MARKERS[n], "color": COLOURS[n]}) for n, s in enumerate(named)
    ]
    if len(named) < len(groups):
        keys.append((f"{len(groups) - len(named):,} more groups", {"marker": ".", "color": _SOFT}))
    if len(tables) > 1:
        keys += [
            (name, {"marker": "o", "color": INK, "markerfacecolor": INK if n else "white"})
            for n, name in enumerate(tables)
        ]
    ax = axes(
        ax,
        what,
        len(shown) * (1 + 0.3 * (len(tables) - 1)) + 0.7 * len(keys) / _columns(keys),
        grid="x",
    )
    for n, table in enumerate(tables.values()):
        shift = 0.36 * (n - (len(tables) - 1) / 2)
        _means(
            ax, (1 if moments else 100) * table[:, shown], named, shift, hollow=n < len(tables) - 1
        )
    name_rows(ax, [classes[k] for k in shown])
    set_scale(ax.xaxis, "moment of the class" if moments else "mean of the class in a group (%)")
    set_title(ax, *lines, more)
    draw_legend(ax, keys)
    return ax


def _highlighted(means: Floats) -> list[int]:
    """Choose the groups that get a colour: all of a few, of many those farthest from the others."""
    if len(means) <= _GROUPS:
        return list(range(len(means)))
    far = np.abs(means - np.median(means, axis=0)).max(axis=1)
    return sorted(np.argsort(-np.round(far, 12), kind="stable")[: _GROUPS - 2].tolist())


def _means(ax: Any, means: Floats, named: Sequence[int], shift: float, hollow: bool) -> None:
    """Draw one table: a bar from lowest to highest mean per class, a marker per group."""
    places = np.arange(means.shape[1]) + shift
    ax.hlines(places, means.min(axis=0), means.max(axis=0), color=GRID, linewidth=4, zorder=1)
    others = np.delete(np.arange(len(means)), named)
    if len(others):
        ax.plot(
            means[others].ravel(),
            np.tile(places, len(others)),
            ".",
            color=_SOFT,
            markersize=4,
            zorder=2,
        )
    for n, group in enumerate(named):
        inside = "white" if hollow else COLOURS[n]
        ax.plot(
            means[group],
            places,
            MARKERS[n],
            color=COLOURS[n],
            markerfacecolor=inside,
            markersize=6,
            zorder=3,
        )


def measures(
    ax: Any,
    what: str,
    lines: Sequence[str],
    axis: str,
    found: Sequence[Measure],
    level: float | None = None,
    samples: str = "19 of 20",
) -> Any:
    """Draw one measure for each name, in percent: its interval as a line, chance as a shade.

    Parameters
    ----------
    ax, what, lines
        As for :func:`group_means`.
    axis : str
        What is measured.
    found : sequence of Measure
    level : float, optional
        Of the intervals.
    samples : str
        How many fair ones the shade speaks of.
    """
    shown = sorted(found, key=lambda each: -each.value)[:_ROWS] if len(found) > _ROWS else found
    tall = 1.5 if any("\n" in each.beside for each in shown) else 1.0
    ax = axes(ax, what, max(tall * len(shown), 2), grid="x")
    for place, each in enumerate(shown):
        if each.chance is not None:
            ax.barh(place, 100 * each.chance, height=0.5, color=SHADE, zorder=1)
        if each.interval is not None:
            low, high = (100 * end for end in each.interval)
            ax.hlines(place, low, high, color=COLOURS[0], linewidth=2, zorder=2)
        ax.plot(
            [100 * each.value],
            [place],
            "o",
            color=COLOURS[0],
            markersize=7,
            zorder=3,
            clip_on=False,
        )
    name_rows(ax, [each.name for each in shown])
    set_scale(ax.xaxis, f"{axis} (%)")
    _write_beside(ax, shown)
    set_title(
        ax, *lines, f"the {len(shown)} largest of {len(found):,}" if len(shown) < len(found) else ""
    )
    keys: list[Key] = []
    if level is not None and any(each.interval is not None for each in shown):
        look = {"marker": "o", "color": COLOURS[0], "linestyle": "-"}
        keys.append((f"measured, with its {100 * level:g} % interval", look))
    if any(each.chance is not None for each in shown):
        keys.append((f"what chance shows in {samples} fair samples", CHANCE_KEY[1]))
    draw_legend(ax, keys)
    return ax


def curves(
    ax: Any,
    what: str,
    lines: Sequence[str],
    scales: tuple[str, str],
    found: Sequence[tuple[str, Floats, Floats, dict[str, Any]]],
    chance: float | None,
) -> Any:
    """Draw points against each other, in a shade what chance explains of the first measure.

    Parameters
    ----------
    ax, what, lines
        As for :func:`group_means`.
    scales : tuple of two str
        What is measured along each axis.
    found : sequence of (str, ndarray, ndarray, dict)
        Name, both measures and look of each curve; one without a name is not in the legend.
    chance : float, optional
    """
    ax = axes(ax, what)
    keys: list[Key] = []
    for name, x, y, look in found:
        if np.isfinite(y).any():
            ax.plot(x, y, **look, clip_on=False, zorder=3)
            keys += [(name, look)] * bool(name)
    if chance is not None:
        ax.axvspan(0, chance, color=SHADE, zorder=0)
        keys.append(CHANCE_KEY)
    draw_legend(ax, keys)
    for axis, title in zip((ax.xaxis, ax.yaxis), scales, strict=True):
        set_scale(axis, title)
    set_title(ax, *lines)
    return ax


def _write_beside(ax: Any, shown: Sequence[Measure]) -> None:
    """Write words beside dots, and make the axis long enough to hold them."""
    texts, room = [each.beside for each in shown], _room(ax)
    words = {
        "textcoords": "offset points",
        "va": "center",
        "fontsize": 9,
        "parse_math": False,
        **_fonts(texts),
    }
    right = ax.get_xlim()[1]
    for place, each in enumerate(shown):
        if each.beside:
            ax.annotate(each.beside, (100 * each.value, place), (9, 0), **words)
            taken = (16 + 5.6 * max(map(columns_of, each.beside.split("\n")))) / room
            right = max(right, 100 * each.value / (1 - min(taken, 0.8)))
    ax.set_xlim(0, right)


def percent(share: float) -> str:
    """Write a share as the reports do.

    Examples
    --------
    >>> percent(0.2069), percent(0.0)
    ('20.69 %', '0.00 %')
    """
    return f"{100 * share:.2f} %"


def columns_of(text: str) -> int:
    """Count columns of text; a letter of Chinese, Japanese or Korean takes two.

    Examples
    --------
    >>> columns_of("name"), columns_of("名前")
    (4, 4)
    """
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def shorten(name: Any, most: int = 32) -> str:
    """Write a name on one line of so many columns; the middle of a longer one is left out.

    Examples
    --------
    >>> shorten("a name that is much too long to stand beside an axis", 20)
    'a name that… an axis'
    >>> shorten("とても長い名前です", 11)
    'とても…です'
    """
    text = written(name)
    if columns_of(text) <= most:
        return text
    head, tail = text, text
    while columns_of(head) > 3 * (most - 1) // 5:
        head = head[:-1]
    while columns_of(tail) > most - 1 - columns_of(head):
        tail = tail[1:]
    return f"{head}…{tail}"


def _fonts(texts: Sequence[str]) -> dict[str, Any]:
    """Return fonts of this machine for letters that matplotlib's own lacks."""
    if not any(east_asian_width(letter) in "WF" for text in texts for letter in text):
        return {}
    from matplotlib import font_manager, rcParams

    there = set(font_manager.get_font_names())
    found = [name for name in _EASTERN if name in there]
    return {"fontfamily": [*rcParams["font.family"], *found]} if found else {}
