"""Figures as SVG that reads well on light and dark pages: a grid of panels with lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLOURS: Final = ("#6f6e68", "#e34948", "#eda100", "#1baf7a", "#4a3aa7", "#2a78d6", "#0b0b0b", "#eb6834")

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 170, 120, 58, 62, 58

# A card of its own colour, so that the picture is legible whatever the page around it looks like.
_STYLE: Final = """
  .card { fill: #fcfcfb; stroke: #e1e0d9 }
  text { font: 11px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #52514e }
  .title { font-size: 15px; font-weight: 600; fill: #0b0b0b }
  .grid { stroke: #e1e0d9 } .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1a1a19; stroke: #383835 } text { fill: #c3c2b7 } .title { fill: #ffffff } .grid { stroke: #2c2c2a } .ink { stroke:
    #ffffff } }
"""


@dataclass(frozen=True)
class Line:
    """Points of one method: a place on the x axis (0, 1, 2, ...) and a value; gaps are left out."""

    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Panel:
    """One small chart.

    Attributes
    ----------
    title : str
    ticks : tuple of str
        The x axis, evenly spaced.
    lines : tuple of Line
    """

    title: str
    ticks: tuple[str, ...]
    lines: tuple[Line, ...]


def palette(names: Sequence[str]) -> dict[str, str]:
    """Give each name a colour."""
    return {name: COLOURS[j % len(COLOURS)] for j, name in enumerate(names)}


def picture(title: str, panels: Sequence[Sequence[Panel]], names: Sequence[str] | Mapping[str, str], unit: str = "%") -> str:
    """Draw rows of panels under one title and one legend; every panel has a scale of its own.

    Parameters
    ----------
    title : str
    panels : sequence of rows of Panel
    names : sequence of str, or mapping of str to str
        Lines in the order of the legend; a mapping says their colours.
    unit : str
        Behind numbers of the y axis.
    """
    colours = names if isinstance(names, Mapping) else palette(names)
    width = _LEFT + max(len(row) for row in panels) * (_WIDTH + _GAP)
    height = _TOP + len(panels) * (_HEIGHT + _GAP + 14) + 4
    body = [_text(16, 26, title, "title")]
    for j, name in enumerate(colours):
        x = 16 + j * (width - 32) / len(colours)
        body += [_path([(x, 42.0), (x + 18, 42.0)], colours[name]), _text(x + 24, 46, name)]
    for i, row in enumerate(panels):
        for j, panel in enumerate(row):
            top = max((value for line in panel.lines for _, value in line.points), default=1.0) or 1.0
            body += _panel(panel, _LEFT + j * (_WIDTH + _GAP), _TOP + 16 + i * (_HEIGHT + _GAP + 14), top * 1.05, colours, unit)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    card = f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", card, *body, "</svg>", ""])


def _panel(panel: Panel, left: float, top: float, highest: float, colours: Mapping[str, str], unit: str) -> list[str]:
    step = _WIDTH / max(1, len(panel.ticks) - 1)
    shapes = [_text(left + _WIDTH / 2, top - 5, panel.title, anchor="middle")]
    for share in (0.0, 0.5, 1.0):
        y = top + _HEIGHT * (1 - share)
        shapes.append(f'<line class="grid" x1="{left:g}" x2="{left + _WIDTH:g}" y1="{y:g}" y2="{y:g}"/>')
        shapes.append(_text(left - 4, y + 4, f"{highest * share:.3g}{unit}", anchor="end"))
    shapes += [_text(left + j * step, top + _HEIGHT + 14, tick, anchor="middle") for j, tick in enumerate(panel.ticks)]
    for line in panel.lines:
        points = [(left + place * step, top + _HEIGHT * (1 - value / highest)) for place, value in line.points]
        if points:
            shapes.append(_path(points, colours[line.name]))
    return shapes


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _path(points: Sequence[tuple[float, float]], colour: str) -> str:
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    kind = "curve ink" if colour == "#0b0b0b" else "curve"
    # A style attribute would overrule the dark page's colour.
    return f'<polyline class="{kind}" stroke="{colour}" points="{where}"/>'
