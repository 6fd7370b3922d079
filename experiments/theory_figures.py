"""Pictures of what the paper claims and proves: rounds and the optimum, Proposition 2, normalising, balance of classes, time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from experiments.experiment import Row
from experiments.figures import Axis, Panel, Picture, Point, Series, points, spoken
from experiments.tables import cell, chosen

_KINDS: Final = {
    "labels": "synthetic",
    "stronger": "synthetic, more bias",
    "scores": "scores of neighbours",
    "drawn": "drawn tables",
}


def convergence(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw how far the rounds are from the optimum at the most, by tau, the mean free and pinned."""
    rounds = (1, 10, 20, 50, 100)
    panels = []
    for target, title in (
        ("free", "mean free, as printed"),
        ("population", "mean pinned, as published"),
    ):
        series = []
        for tau in sorted({row["tau"] for row in rows}):
            found = [
                row
                for row in chosen(rows, target=target, tau=tau, epsilon=0.0)
                if row["short_100"] is not None
            ]
            worst: tuple[Point, ...] = tuple(
                (t, 100 * max(row[f"short_{t}"] for row in found), None) for t in rounds if found
            )
            series.append(Series(f"tau {tau:g}", worst))
        axis = Axis("off in squared distance (%)", "log", floor=1e-4)
        panels.append(Panel(title, tuple(series), axis))
    words = "Epsilon 0, the furthest of five tables; one line for each tau. What is below 0.0001 % stands at the edge; both axes logarithmic."
    along = Axis("ADMM rounds", "log", tuple(map(float, rounds)))
    title = "How far the rounds of Algorithm 1 are from the optimum"
    return {"rounds": Picture(title, words, (tuple(panels),), along)}


def guarantee(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw the bound of Proposition 2 beside the disparity seen, for every table and learner."""
    kinds = {"parity": "disparity seen", "printed": "bound as printed", "proven": "bound as proven"}
    keys = dict.fromkeys(
        (row["data"], row["classes"], row["features"], row["learner"]) for row in rows
    )
    series = []
    for measure, name in kinds.items():
        found = []
        for data, classes, features, learner in keys:
            size = "" if classes is None else f", L = {classes}, d = {features}"
            where = f"{data}{size}, {'forest' if learner == 'rf' else 'kNN'}"
            wanted = {"data": data, "classes": classes, "features": features, "learner": learner}
            found.append((where, cell(chosen(rows, **wanted), measure).mean, None))
        series.append(Series(name, tuple(found)))
    panel = Panel(
        "", tuple(series), Axis("disparity of the predictions (%, logarithmic)", "log"), 100.0
    )
    words = (
        "Learners on labels of R2B after 100 rounds, disparity on test rows; means of three seeds."
    )
    title = "Proposition 2: the bound beside the disparity seen"
    return {"bound": Picture(title, words, ((panel,),), level="where a bound says nothing")}


def normalising(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw the largest disparity before and after rows are divided by their sums, by kind of labels and method."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    steps = {
        "data_parity": "labels as they are",
        "before": "every class by itself",
        "divided": "rows divided by their sums",
    }
    panels = []
    for method in dict.fromkeys(row["method"] for row in rows):
        series = []
        for measure, name in steps.items():
            worst = tuple(
                (
                    _KINDS.get(kind, kind),
                    100 * max(row[measure] for row in chosen(rows, kind=kind, method=method)),
                    None,
                )
                for kind in kinds
            )
            series.append(Series(name, worst))
        level = 22.0 if method == "OST" else None
        panels.append(Panel(spoken(method), tuple(series), Axis("disparity (%)", "log"), level))
    words = "The largest over seeds and sizes, on logarithmic axes."
    title, level_name = (
        "What dividing rows brings back after every class was debiased by itself",
        "the paper's example, 22 %",
    )
    return {"parity": Picture(title, words, (tuple(panels),), level=level_name)}


def balance(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw how uneven equally probable classes are, and how badly a known disparity is measured, by rows."""
    shown = {
        "relative_gap": ("two classes differ by", "mean difference over n / L (%, log)"),
        "relative_error": ("a known disparity is off by", "mean error over the disparity (%, log)"),
    }
    panels = []
    for measure, (title, axis) in shown.items():
        series = []
        for classes in sorted({row["classes"] for row in rows}):
            sizes = sorted({row["size"] for row in rows})
            found = [
                (size, cell(chosen(rows, classes=classes, size=size), measure)) for size in sizes
            ]
            series.append(Series(f"{classes} classes", points(found)))
        panels.append(Panel(title, tuple(series), Axis(axis, "log")))
    words = "Equally probable classes; mean over seeds with 99 % intervals."
    along = Axis("rows (logarithmic)", "log", (1_000.0, 4_000.0, 16_000.0, 64_000.0))
    title = "Balance of classes and the disparity measured, by rows"
    return {"rows": Picture(title, words, (tuple(panels),), along)}


def growth(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw the time of a fit by rows, by classes and by groups, the others held at their least."""
    solvers = {"rounds": "100 rounds", "exact": "the optimum"}
    names = {"size": "rows", "classes": "classes", "groups": "groups"}
    grown = chosen(rows, labels="soft")
    # The shape that all three series share.
    usual = {"size": 3_000, "classes": 16, "groups": 2}
    panels = []
    for varied, name in names.items():
        fixed = {each: value for each, value in usual.items() if each != varied}
        series = []
        for solver, words in solvers.items():
            some = chosen(grown, solver=solver, **fixed)
            sizes = sorted({row[varied] for row in some})
            times = [median(row["time"] for row in some if row[varied] == size) for size in sizes]
            series.append(
                Series(words, tuple((*each, None) for each in zip(sizes, times, strict=True)))
            )
        along = Axis(f"{name} (log)", "log", tuple(map(float, sizes)))
        others = ", ".join(f"{value:,.0f} {names[each]}" for each, value in fixed.items())
        axis = Axis("seconds (log)", "log", floor=1e-6)
        panels.append(Panel(others, tuple(series), axis, along=along))
    words = "One fit on one core, probabilities as labels; process time, median of ten; both axes logarithmic."
    title = "Running time by rows, classes and groups"
    return {"growth": Picture(title, words, (tuple(panels),), Axis("size", "log"))}
