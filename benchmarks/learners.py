"""Measure what learners make of fair labels.

    python -m benchmarks.learners [--splits 10] [--only kNN] [--workers 2] [--output FILE]

Adult, education by sex, with and without the injected bias of the paper. Every learner is trained
in every way that applies to it, and measured on rows that it has not seen. Writes JSON, from which
``scripts/make_learners_figure.py`` draws the picture and writes the tables of docs/learners.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.learners_cases import (
    N_CLASSES,
    TEST_SHARE,
    adult,
    learners,
    measured,
    split_of,
    trained,
)
from benchmarks.measure import versions, write_rows
from experiments.tables import cell_of, grouped, markdown

RESULTS = Path(__file__).resolve().parent / "results" / "learners.json"
BIASES = (0.5, 0.0)
MEASURES = ("probability", "hard", "accuracy", "ties_at_random", "chance", "fit_seconds")
LIBRARIES = ("r2b", "numpy", "scikit-learn", "lightgbm")
Row = dict[str, Any]


def run(task: tuple[str, float, int]) -> list[Row]:
    """Measure one learner on one split in all ways, on one thread: tasks run beside each other."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    name, p, seed = task
    learner = next(one for one in learners() if one.name == name)
    split = split_of(p, seed)
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        # ten epochs are what this benchmark gives the networks
        warnings.simplefilter("ignore", ConvergenceWarning)
        for way in learner.ways if p else learner.few_ways:
            found = measured(partial(trained, learner, way, split), split)
            rows.append({"p": p, "learner": name, "way": way, "auto": way == learner.own, **found})
    return rows


def gather(rows: Iterable[Row]) -> list[Row]:
    """Join the splits of one learner, way and bias: a list per measure, in their order."""
    together = grouped(rows, "p", "learner", "way", "auto")
    return [
        {
            **{name: found[0][name] for name in ("p", "learner", "way", "auto")},
            **{name: [round(row[name], 5) for row in found] for name in MEASURES},
        }
        for found in together.values()
    ]


def table(rows: Iterable[Row], p: float) -> str:
    """Write the rows of one bias as a table in Markdown, in percent."""
    body, before = [], None
    for row in (row for row in rows if row["p"] == p):
        name = row["learner"] if row["learner"] != before else ""
        before = row["learner"]
        way = f"**{row['way']}**" if row["auto"] else row["way"]
        parity, hard, accuracy = (
            cell_of(row[measure]).text() for measure in ("probability", "hard", "accuracy")
        )
        chance, seconds = f"{100 * fmean(row['chance']):.1f}", f"{fmean(row['fit_seconds']):.1f}"
        body.append([name, way, parity, chance, hard, accuracy, seconds])
    head = ["learner", "trained on", "probability parity", "by chance", "hard parity", "accuracy"]
    return markdown([*head, "CPU seconds"], body)


def main(arguments: list[str] | None = None) -> int:
    """Run everything, print the tables, write the JSON."""
    parser = argparse.ArgumentParser(
        description="Measure parity and accuracy of learners that were trained on fair labels."
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[one.name for one in learners()],
        help="some learners instead of all",
    )
    parser.add_argument("--workers", type=int, default=2, help="processes beside each other")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    names = options.only or [one.name for one in learners()]
    tasks = list(product(names, BIASES, range(options.splits)))
    X, y, _ = adult()
    data = {"rows": len(y), "features": X.shape[1], "classes": N_CLASSES, "test_share": TEST_SHARE}
    head = {"format": 1, "data": data, "versions": versions(*LIBRARIES)}
    begun = time.perf_counter()
    found: list[Row] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for (name, p, seed), rows in zip(tasks, pool.map(run, tasks), strict=True):
            found += rows
            taken = time.perf_counter() - begun
            print(f"{taken:6.0f} s  {name}, p = {p:g}, split {seed}", flush=True)
            write_rows(options.output, head, gather(found))
    for p in BIASES:
        print(f"\np = {p:g}", table(gather(found), p), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
