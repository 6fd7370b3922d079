"""The figure of docs/models.md: accuracy against parity of decisions, a panel for every table and learner, with chance marked."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from make_figures import line, picture, text  # noqa: E402 - after the path

from benchmarks.models_judge import along, mean  # noqa: E402

Row = dict[str, Any]
Report = dict[str, Any]

# Shape and class of each mark, in the order of the legend. Both of our classes decide alike, so that one of them is drawn.
MARKS = {
    "plain": ("circle", "old", "plain model"),
    "labels by true group": ("triangle", "paper", "labels by true group"),
    "labels by visible group": ("triangle", "keeps", "labels by visible group"),
    "ParityClassifier": ("circle", "keeps", "r2b"),
    "ParityClassifier, attribute given": ("ring", "ring", "r2b, attribute given"),
    "LinearPost": ("cross", "linear", "LinearPost"),
    "FairProjection": ("cross", "projection", "FairProjection"),
    "ExponentiatedGradient": ("square", "gradient", "ExponentiatedGradient"),
    "ThresholdOptimizer, attribute given": ("square", "threshold", "ThresholdOptimizer, given"),
}
STYLE = """  .paper { fill: #eda100 } .ring { fill: none; stroke: #2a78d6; stroke-width: 2 }
  .linear { fill: none; stroke: #e34948; stroke-width: 2.2 } .projection { fill: none; stroke: #8a6fd6; stroke-width: 2.2 }
  .gradient { fill: #1baf7a } .threshold { fill: none; stroke: #1baf7a; stroke-width: 2 }
  .chance { fill: #c3c2b7; fill-opacity: .28 } .path { fill: none; stroke: #2a78d6; stroke-width: 1.4; stroke-opacity: .6 }
"""
LOW, HIGH = 0.002, 0.4  # of parity, on a logarithmic scale
WIDTH, PANEL, TALL, GAP, LEFT, TOP = 920, 248, 132, 34, 78, 128


def mark(shape: str, kind: str, x: float, y: float) -> str:
    """Draw one mark."""
    if shape in ("circle", "ring"):
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{5 if shape == "circle" else 6.5:g}"/>'
    if shape == "square":
        return f'<rect class="{kind}" x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"/>'
    if shape == "triangle":
        return f'<path class="{kind}" d="M{x:.1f} {y - 6:.1f}l5.5 9.5h-11z"/>'
    return f'<path class="{kind}" d="M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9"/>'


def across(left: float) -> Callable[[float], float]:
    """Give the place of a parity in a panel; what lies outside stands at the edge."""
    return lambda value: left + PANEL * math.log(min(max(value, LOW), HIGH) / LOW) / math.log(HIGH / LOW)


def panel(rows: Sequence[Row], points: Sequence[tuple[float, float]], left: float, top: float, low: float, high: float) -> list[str]:
    """Draw one table and learner; accuracy from low to high."""
    x, bottom = across(left), top + TALL

    def y(value: float) -> float:
        return bottom - TALL * (value - low) / (high - low)

    found = {row["method"]: row for row in rows if "decisions" in row}
    body = []
    if ours := found.get("ParityClassifier"):
        edge = x(mean(ours, "decisions_chance"))
        body.append(f'<rect class="chance" x="{left:.1f}" y="{top:.1f}" width="{edge - left:.1f}" height="{TALL}"/>')
    for tick in (0.005, 0.02, 0.1):
        body += [line(round(x(tick), 1), top, round(x(tick), 1), bottom, "grid")]
        body += [text(round(x(tick), 1), bottom + 15, f"{100 * tick:g} %", "small", "middle")]
    body.append(line(left, bottom, left + PANEL, bottom, "axis"))
    if len(points) > 1:
        places = " ".join(f"{x(parity):.1f},{y(min(max(accuracy, low), high)):.1f}" for parity, accuracy in points)
        body.append(f'<polyline class="path" points="{places}"/>')
    for method, (shape, kind, _) in MARKS.items():
        if row := found.get(method):
            body.append(mark(shape, kind, x(mean(row, "decisions")), y(mean(row, "accuracy"))))
    return body


def steps(low: float, high: float) -> list[float]:
    """Give three or four round accuracies between two."""
    step = next(one for one in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / one <= 4)
    return [round(k * step, 4) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def figure(report: Report) -> str:
    """Draw all panels: tables from top to bottom, learners from left to right."""
    rows, facts = report["rows"], {one["name"]: one for one in report["setting"]["tables"]}
    tables = list(dict.fromkeys(row["table"] for row in rows))
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    shown = [row for row in rows if row["method"] in MARKS and "decisions" in row]
    used = [name for name in MARKS if any(row["method"] == name for row in shown)]
    height = TOP + len(tables) * (TALL + 2 * GAP) + 26 * math.ceil((len(used) + 1) / 4) + 6
    body = [
        text(20, 32, "Accuracy against parity of decisions, on rows that no method has seen", "title"),
        text(20, 54, "A panel for every table and learner: further left is fairer (logarithmic), further up is more accurate."),
        text(20, 72, "In the shaded part parity is below what chance alone shows on as many rows."),
    ]
    for column, learner in enumerate(learners):
        body.append(text(LEFT + column * (PANEL + GAP), TOP - 26, learner, "strong"))
    for place, table in enumerate(tables):
        top = TOP + place * (TALL + 2 * GAP) + 14
        about = facts[table]
        body.append(text(20, top - 12, f"{about['title']}, {about['classes']} classes, {about['groups']} groups", "small strong"))
        levels = [mean(row, "accuracy") for row in shown if row["table"] == table]
        low, high = min(levels) - 0.004, max(levels) + 0.004
        for tick in steps(low, high):
            y = round(top + TALL - TALL * (tick - low) / (high - low), 1)
            body += [
                line(LEFT, y, LEFT + len(learners) * (PANEL + GAP) - GAP, y, "grid"),
                text(LEFT - 8, y + 4, f"{100 * tick:g} %", "small", "end"),
            ]
        for column, learner in enumerate(learners):
            here = [row for row in shown if (row["table"], row["learner"]) == (table, learner)]
            body += panel(here, along(rows, table, learner), LEFT + column * (PANEL + GAP), top, low, high)
    foot = TOP + len(tables) * (TALL + 2 * GAP) + 8
    keys = [(*MARKS[name][:2], MARKS[name][2]) for name in used]
    for n, (shape, kind, words) in enumerate(keys):
        x, y = 28 + 214 * (n % 4), foot + 26 * (n // 4)
        body += [mark(shape, kind, x, y - 4), text(x + 13, y, words, "small")]
    x, y = 28 + 214 * (len(keys) % 4), foot + 26 * (len(keys) // 4)
    body += [f'<polyline class="path" points="{x - 8},{y - 4} {x + 8},{y - 4}"/>', text(x + 13, y, "r2b along epsilons", "small")]
    drawn = picture(WIDTH, height, "Accuracy against parity of decisions for several methods, by table and learner", body)
    return drawn.replace("  @media", STYLE + "  @media", 1)
