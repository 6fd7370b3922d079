"""The figures of docs/benchmark.md: time against rows and against classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from experiments.figures import Axis, Panel, Picture, Series

OURS = "r2b"
Row = dict[str, Any]
Report = dict[str, Any]

# The lines, in the order of their colours; the QP solvers are drawn at equal accuracy. Those of one
# maker differ by their markers.
LINES = (
    OURS,
    "published procedure",
    "Clarabel",
    "PIQP",
    "SCS",
    "OSQP",
    "Reweighing",
    "ml_debiaser",
    "HolisticAI",
)
HOLLOW = ("HolisticAI", "ml_debiaser")
NOTHING = "-"


def figures_of(report: Report, case: str) -> list[Row]:
    """Return the results of one case."""
    return [row for row in report["results"] if row["case"] == case]


def seconds_of(rows: Sequence[Row], method: str, key: str = "seconds") -> float | None:
    """Return the seconds of a method, at equal accuracy where it has tolerances."""
    found = [
        row.get(key)
        for row in rows
        if row["method"] == method and row.get("setting", "accurate") == "accurate"
    ]
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
    """Return the cases of a figure: one kind of labels, growing in rows or in classes."""
    other = "classes" if along == "rows" else "rows"
    return sorted(
        (case for case in report["cases"] if case["series"] == kind and case[other] == fixed),
        key=lambda case: case[along],
    )


def figures(report: Report) -> dict[str, Picture]:
    """Show time against rows and against classes, where there are sizes enough for a line."""
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
        shown = tuple(
            _panel(report, title, along, cases) for title, cases in panels if len(cases) > 1
        )
        if shown:
            words = (
                "Whole calls; QP solvers at equal accuracy; rounds of the slow ones scaled. "
                "Lower is better."
            )
            rows = tuple(shown[n : n + 2] for n in range(0, len(shown), 2))
            title = f"Time against {along}, both on logarithmic scales"
            drawn[f"benchmark-{along}.svg"] = Picture(
                title, words, rows, Axis(along, "log", tuple(_sizes(panels, along)))
            )
    return drawn


def _sizes(panels: Sequence[tuple[str, list[Row]]], along: str) -> list[float]:
    return sorted({float(case[along]) for _, cases in panels for case in cases})


def _panel(report: Report, title: str, along: str, cases: Sequence[Row]) -> Panel:
    found = []
    for method in LINES:
        timed = [
            (case[along], seconds_of(figures_of(report, case["name"]), method)) for case in cases
        ]
        points = tuple((size, seconds, None) for size, seconds in timed if seconds is not None)
        found.append(Series(method, points, hollow=method in HOLLOW))
    return Panel(title, tuple(found), Axis("seconds (logarithmic)", "log", floor=1e-6))
