"""What a picture shows, as data, which :mod:`experiments.drawing` draws and tests compare."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

from experiments.experiment import Row
from experiments.labelling import METHODS, SPOKEN
from experiments.paper_numbers import Value
from experiments.tables import Cell, cell, chosen, grouped, paired
from r2b.errors import ParameterError

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
    floor : float
        Where a logarithmic axis begins at the lowest; what lies below stands at its edge.
    """

    title: str
    scale: Literal["linear", "log", "symlog"] = "linear"
    ticks: tuple[float, ...] = ()
    zero: bool = False
    floor: float = 0.01


@dataclass(frozen=True)
class Series:
    """Points of one method, or of one kind.

    Attributes
    ----------
    name : str
    points : tuple of Point
    hollow : bool
        Whether markers have no colour inside.
    plain : bool
        Whether it is a path through the points of the first series, without markers.
    """

    name: str
    points: tuple[Point, ...]
    hollow: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes
    ----------
    title : str
    series : tuple of Series
    value : Axis
        What is measured: upwards for lines, to the right for dots.
    level : float or None
        A level to compare with, such as that of chance: a dotted line, or a shade on the axis along
        which points stand.
    along : Axis or None
        What the lines of this panel run along, where panels differ.
    """

    title: str
    series: tuple[Series, ...]
    value: Axis
    level: float | None = None
    along: Axis | None = None


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
    legend : bool
        Whether the series of lines are named once, above all panels, instead of at their ends.
    level : str
        What the levels of panels are.
    """

    title: str
    under: str
    rows: tuple[tuple[Panel, ...], ...]
    along: Axis | None = None
    ranked: bool = False
    legend: bool = False
    level: str = "by chance alone"

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row]

    @property
    def facts(self) -> str:
        """All numbers that are drawn, for those who cannot see the picture and for tests."""
        lines = [self.title, self.under]
        for panel in self.panels:
            lines.append(
                f"{' '.join(panel.title.split())}, {panel.value.title}"
                + ("" if panel.level is None else f"; {self.level} {panel.level:.3g}")
            )
            lines += [
                f"{series.name}: {'; '.join(map(_said, series.points))}"
                for series in panel.series
                if series.points
            ]
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


def update(wanted: Mapping[Path, str | Picture], arguments: Sequence[str] | None = None) -> int:
    """Write the files of a page that are not yet what they should be; the command line of a script.

    Parameters
    ----------
    wanted : mapping of Path to str or Picture
        What belongs into each file. A picture is there if a file has its numbers: versions of
        matplotlib write the same one differently.
    arguments : sequence of str, optional
        ``--check`` writes nothing.

    Returns
    -------
    int
        1 if a file was not what it should be and ``--check`` was asked for.
    """
    parser = ArgumentParser(description=f"Write {', '.join(path.name for path in wanted)}.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file differs"
    )
    check = parser.parse_args(arguments).check
    stale = False
    for path, content in wanted.items():
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if isinstance(content, str):
            fresh = content == there
        else:
            fresh = f"<desc>{escape(content.facts)}</desc>" in there
        if fresh:
            continue
        stale = True
        if check:
            print(f"{path.name} is not what this script writes; run it again.", file=sys.stderr)
        else:
            text = content if isinstance(content, str) else content.svg()
            path.write_text(text, encoding="utf-8")
            print(f"{path.name} written")
    return int(check and stale)


def fill_marks(page: str, parts: Mapping[str, str]) -> str:
    r"""Put texts between the marks of a page, each of which must be there once.

    Examples
    --------
    >>> print(fill_marks("<!-- figures: time -->\n<!-- end -->", {"time": "1 s"}))
    <!-- figures: time -->
    <BLANKLINE>
    1 s
    <BLANKLINE>
    <!-- end -->
    """
    for name, text in parts.items():
        head, mark, rest = page.partition(f"<!-- figures: {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not end:
            raise ParameterError(f"There is no place for {name!r}.", remedy="Add its marks.")
        page = f"{head}{mark}\n{text}\n\n{end}{tail}"
    return page


def _said(point: Point) -> str:
    place, value, half = point
    where = (
        place if isinstance(place, str) else f"{place:,.0f}" if place >= 1000 else f"{place:.4g}"
    )
    return f"{where} {value:.3g}" + ("" if half is None else f" ± {half:.2g}")


def points(cells: Iterable[tuple[Any, Cell | Value]]) -> tuple[Point, ...]:
    """Return the points of cells by place."""
    return tuple((place, value.mean, value.half_width) for place, value in cells)


def along(rows: Sequence[Row], column: str, measure: str) -> tuple[Point, ...]:
    """Return the points of a measure along a column."""
    return points((at, cell(found, measure)) for (at,), found in grouped(rows, column).items())


def paired_points(
    rows: Sequence[Row], measure: str, methods: Iterable[str], base: str = "R2B"
) -> tuple[Point, ...]:
    """Return the mean of every method, with the interval of its difference from ``base``.

    Methods share their splits; ``base`` itself has no interval.
    """
    known = chosen(rows, method=base)
    found = []
    for method in methods:
        mine = chosen(rows, method=method)
        half = None if method == base else paired(mine, known, measure).half_width
        found.append((spoken(method), cell(mine, measure).mean, half))
    return tuple(found)


PAIRED: Final = (
    "Test rows, mean over splits. Intervals (99 %) are of the difference from R2B within a split;"
    " R2B itself has none."
)


def paired_picture(
    title: str,
    axes: Mapping[str, Axis],
    panels: Mapping[str, tuple[Sequence[Row], Sequence[str], float]],
) -> Picture:
    """Draw measures, a row of panels each.

    Parameters
    ----------
    title : str
    axes : mapping
        By measure.
    panels : mapping
        By title: rows, their methods, and the disparity that chance gives their predictions.
    """
    grid = []
    for measure, axis in axes.items():
        row = []
        for name, (rows, methods, chance) in panels.items():
            ours = Series("", paired_points(rows, measure, methods))
            row.append(Panel(name, (ours,), axis, chance if measure == "parity" else None))
        grid.append(tuple(row))
    return Picture(title, PAIRED, tuple(grid))


def methods_in(rows: Sequence[Row]) -> list[str]:
    """List the methods of result rows: the known ones in their order, then others as they come.

    Examples
    --------
    >>> methods_in([{"method": "R2B"}, {"method": "mine"}, {"method": "BL"}])
    ['BL', 'R2B', 'mine']
    """
    found = dict.fromkeys(row["method"] for row in rows)
    return [name for name in METHODS if name in found] + [
        name for name in found if name not in METHODS
    ]


def spoken(method: str) -> str:
    """Name a method for readers."""
    return SPOKEN.get(method, method)
