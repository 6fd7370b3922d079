"""The figure of docs/models.md: accuracy against disparity, by table and learner."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from benchmarks.models_judge import along, mean  # noqa: E402 - after the path
from experiments.figures import Axis, Panel, Picture, Series  # noqa: E402

Row = dict[str, Any]
Report = dict[str, Any]

# What is drawn and how it is named, in the order of the legend. Both of our classes decide alike,
# so that one of them is drawn.
PATH = "r2b along epsilons"
NAMES = {
    "ParityClassifier": "r2b",
    "labels by true group": "labels by true group",
    "labels by visible group": "labels by visible group",
    "FairProjection": "FairProjection",
    "ExponentiatedGradient": "ExponentiatedGradient",
    "LinearPost": "LinearPost",
    "LinearPost, calibrated": "LinearPost, calibrated",
    "plain": "plain model",
    "ThresholdOptimizer, attribute given": "ThresholdOptimizer, given",
    "ParityPostprocessor, attribute given": "r2b, attribute given",
}


def across(disparity: float) -> float:
    """Return a disparity in percent as it is drawn: no logarithm has a place for 0."""
    return 100 * max(disparity, 0.001)


def figure(report: Report) -> Picture:
    """Show all panels: tables from top to bottom, learners from left to right."""
    rows, facts = report["rows"], {one["name"]: one for one in report["setting"]["tables"]}
    measured = [row for row in rows if "decisions" in row]
    grid = []
    for table in dict.fromkeys(row["table"] for row in rows):
        about = facts[table]
        panels = []
        for learner in dict.fromkeys(row["learner"] for row in rows):
            found = {
                row["method"]: row
                for row in measured
                if (row["table"], row["learner"]) == (table, learner)
            }
            path = tuple(
                (across(parity), 100 * accuracy, None)
                for parity, accuracy in along(rows, table, learner)
            )
            series = []
            for method, name in NAMES.items():
                row = found.get(method)
                point = (
                    ()
                    if row is None
                    else ((across(mean(row, "decisions")), 100 * mean(row, "accuracy"), None),)
                )
                series.append(Series(name, point, hollow=method.endswith("given")))
            series.append(Series(PATH, path if len(path) > 1 else (), plain=True))
            ours = found.get("ParityClassifier")
            level = None if ours is None else across(mean(ours, "decisions_chance"))
            first = f"{about['title']}\n" if not panels else "\n"
            panels.append(Panel(f"{first}{learner}", tuple(series), Axis("accuracy (%)"), level))
        grid.append(tuple(panels))
    words = (
        "On rows that no method has seen, mean over splits. "
        "Further left is fairer, further up is more accurate."
    )
    axis = Axis(
        "disparity of decisions (%, logarithmic)", "log", (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    )
    title = "Accuracy against disparity of decisions, by table and learner"
    return Picture(
        title, words, tuple(grid), axis, legend=True, level="disparity that chance alone shows"
    )
