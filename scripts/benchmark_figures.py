"""The figures of docs/benchmark.md: time against rows and against classes, a line per method, on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from make_figures import line, picture, text

OURS = "r2b"
Row = dict[str, Any]
Report = dict[str, Any]

# Colour and dashes of each line; the QP solvers are drawn at equal accuracy.
LINES = {
    OURS: ("#2a78d6", ""),
    "r2b, NumPy kernel": ("#2a78d6", "5 3"),
    "r2b, GPU": ("#2a78d6", "1.5 3"),
    "published procedure": ("#e34948", ""),
    "ml_debiaser": ("#e34948", "5 3"),
    "HolisticAI": ("#eb6834", "5 3"),
    "Clarabel": ("#1baf7a", ""),
    "PIQP": ("#8a6fd6", ""),
    "OSQP": ("#eda100", ""),
    "SCS": ("#b0578d", ""),
    "Reweighing": ("#6f6e68", "1.5 3"),
}
NOTHING = "-"


def figures_of(report: Report, case: str) -> list[Row]:
    """Give the lines of one case."""
    return [row for row in report["results"] if row["case"] == case]


def seconds_of(rows: Sequence[Row], method: str, key: str = "seconds") -> float | None:
    """Give the seconds of a method, at equal accuracy where it has tolerances."""
    found = [row.get(key) for row in rows if row["method"] == method and row.get("setting", "accurate") == "accurate"]
    return found[0] if found else None


def duration(seconds: float | None) -> str:
    """Write seconds in the unit that suits them."""
    if seconds is None:
        return NOTHING
    for size, unit in ((1e-3, "µs"), (1.0, "ms")):
        if seconds < size:
            return f"{seconds / size * 1000:.3g} {unit}"
    for most, size, unit in ((120, 1, "s"), (7_200, 60, "min"), (math.inf, 3_600, "h")):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return NOTHING


def series(report: Report, kind: str, along: str, fixed: int) -> list[Row]:
    """Give the cases of a figure: one kind of labels, growing in rows or in classes."""
    other = "classes" if along == "rows" else "rows"
    return sorted((case for case in report["cases"] if case["series"] == kind and case[other] == fixed), key=lambda case: case[along])


def figures(report: Report) -> dict[str, tuple[str, str]]:
    """Draw time against rows and against classes: a description and an SVG each, empty where there is nothing to draw."""
    by_rows = [
        ("Class labels, 16 classes", series(report, "classes", "rows", 16)),
        ("Probabilities, 16 classes", series(report, "soft", "rows", 16)),
    ]
    by_classes = [
        ("Class labels, 100,000 rows", series(report, "classes", "classes", 100_000)),
        ("Probabilities, 1,000 rows", series(report, "soft", "classes", 1_000)),
        ("Probabilities, 100,000 rows", series(report, "soft", "classes", 100_000)),
    ]
    drawn = {}
    for along, panels in (("rows", by_rows), ("classes", by_classes)):
        words = f"Time against {along}, both on logarithmic scales"
        enough = [(title, cases) for title, cases in panels if len(cases) > 1]
        drawn[f"benchmark-{along}.svg"] = (words, curves(report, along, words, enough) if enough else "")
    return drawn


def curves(report: Report, along: str, words: str, panels: list[tuple[str, list[Row]]]) -> str:
    """Draw panels of lines, one per method, on the same scale of seconds."""
    found = {title: _points(report, along, cases) for title, cases in panels}
    values = [y for lines in found.values() for points in lines.values() for _, y in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    width, top, height, gap = 940, 112, 300, 40
    panel = (width - 104 - gap * (len(panels) - 1)) / len(panels)

    def y_of(seconds: float) -> float:
        return top + height * (high - math.log10(seconds)) / (high - low)

    body = [
        text(20, 32, words, "title"),
        text(20, 54, "Whole calls; QP solvers at equal accuracy; rounds of the slow ones scaled. Lower is better."),
    ]
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        body += [
            line(74, y, width - 30, y, "grid"),
            text(66, y + 4, duration(10.0**power) if power < 1 else f"{10**power:,} s", "small", "end"),
        ]
    for place, (title, cases) in enumerate(panels):
        left = 74 + place * (panel + gap)
        body += _panel(title, [case[along] for case in cases], found[title], left, panel, top, height, y_of)
    return picture(width, top + height + 116, words, [*body, *_legend(found, top + height + 62, width)])


def _points(report: Report, along: str, cases: list[Row]) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        rows = figures_of(report, case["name"])
        for method in LINES:
            seconds = seconds_of(rows, method)
            if seconds is not None:
                lines.setdefault(method, []).append((float(case[along]), seconds))
    return lines


def _panel(
    title: str,
    ticks: list[int],
    lines: dict[str, list[tuple[float, float]]],
    left: float,
    width: float,
    top: float,
    height: float,
    y_of: Callable[[float], float],
) -> list[str]:
    first, last, room = math.log10(min(ticks)), math.log10(max(ticks)), 14

    def x_of(value: float) -> float:
        return left + room + (width - 2 * room) * (math.log10(value) - first) / (last - first)

    body = [text(left, top - 14, title, "strong"), line(left, top + height, left + width, top + height, "axis")]
    body += [text(x_of(tick), top + height + 18, f"{tick:,}", "small", "middle") for tick in ticks]
    for method, points in reversed(lines.items()):  # ours on top
        colour, dashes = LINES[method]
        where = [(x_of(value), y_of(seconds)) for value, seconds in points]
        thick = 3 if method == OURS else 1.8
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in where)
        body.append(f'<polyline fill="none" stroke="{colour}" stroke-width="{thick}" stroke-dasharray="{dashes}" points="{path}"/>')
        body += [f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{thick + 0.6:g}"/>' for x, y in where]
    return body


def _legend(found: dict[str, dict[str, list[tuple[float, float]]]], top: float, width: float) -> list[str]:
    shown = [method for method in LINES if any(method in lines for lines in found.values())]
    body, columns = [], 5
    for place, method in enumerate(shown):
        x, y = 20 + (place % columns) * (width - 40) / columns, top + 22 * (place // columns)
        colour, dashes = LINES[method]
        body.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="3" stroke-dasharray="{dashes}" points="{x:g},{y:g} {x + 22:g},{y:g}"/>'
        )
        body.append(text(x + 28, y + 4, method, "small"))
    return body
