"""What a picture shows, as data: panels of lines, or of dots beside names. :mod:`experiments.drawing` draws them, tests compare them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from experiments.experiment import Row
from experiments.labelling import METHODS, SPOKEN
from experiments.paper_numbers import Value
from experiments.tables import Cell

Point = tuple[Any, float, float | None]
"""A place (a number, or the name of a row of dots), a value, and half the width of its interval."""

HERE: Final = "here"
PAPER: Final = "the paper"


@dataclass(frozen=True)
class Axis:
    """What an axis measures.

    Attributes
    ----------
    title : str
        With the unit.
    scale : {"linear", "log", "symlog"}
        The last is logarithmic above 1 and linear below, so that it has a place for 0.
    ticks : tuple of float
        Where they are not chosen to fit.
    zero : bool
        Whether a linear axis begins at 0.
    """

    title: str
    scale: Literal["linear", "log", "symlog"] = "linear"
    ticks: tuple[float, ...] = ()
    zero: bool = False


@dataclass(frozen=True)
class Series:
    """Points of one method, or of one kind."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes
    ----------
    title : str
    series : tuple of Series
    value : Axis
        What is measured: upwards for lines, to the right for dots.
    chance : float or None
        A level below which nothing can be told from 0.
    """

    title: str
    series: tuple[Series, ...]
    value: Axis
    chance: float | None = None


@dataclass(frozen=True)
class Picture:
    """Rows of panels under one title.

    Attributes
    ----------
    title : str
    under : str
        What the reader needs to know to read it.
    rows : tuple of tuple of Panel
    along : Axis or None
        What lines run along; None for dots, which stand beside names.
    ranked : bool
        Whether the series are steps of one size, drawn from light to dark.
    """

    title: str
    under: str
    rows: tuple[tuple[Panel, ...], ...]
    along: Axis | None = None
    ranked: bool = False

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row]

    @property
    def facts(self) -> str:
        """All numbers that are drawn, for those who cannot see the picture and for tests."""
        lines = [self.title, self.under]
        for panel in self.panels:
            lines.append(f"{panel.title}, {panel.value.title}" + ("" if panel.chance is None else f"; by chance {panel.chance:.3g}"))
            lines += [f"{series.name}: {'; '.join(map(_said, series.points))}" for series in panel.series if series.points]
        return "\n".join(lines)

    def svg(self) -> str:
        """Draw it.

        Raises
        ------
        MissingExtraError
            Matplotlib is not installed.
        """
        from experiments.drawing import draw

        return draw(self)


def _said(point: Point) -> str:
    place, value, half = point
    return f"{place if isinstance(place, str) else format(place, ',g')} {value:.3g}" + ("" if half is None else f" ± {half:.2g}")


def points(cells: Iterable[tuple[Any, Cell | Value | None]]) -> tuple[Point, ...]:
    """Give the points of cells by place; those that were not run are left out."""
    return tuple((place, value.mean, value.half_width) for place, value in cells if value is not None)


def methods_in(rows: Sequence[Row]) -> list[str]:
    """List the methods of result rows: the known ones in their order, then others as they come.

    Examples
    --------
    >>> methods_in([{"method": "R2B"}, {"method": "mine"}, {"method": "BL"}])
    ['BL', 'R2B', 'mine']
    """
    found = dict.fromkeys(row["method"] for row in rows)
    return [name for name in METHODS if name in found] + [name for name in found if name not in METHODS]


def spoken(method: str) -> str:
    """Name a method for readers."""
    return SPOKEN.get(method, method)
