"""Measure what learners make of fair labels.

    python -m benchmarks.learners [--splits 10] [--only kNN] [--workers 2] [--output FILE]

Adult, education by sex, with and without the injected bias of the paper. Every learner is trained
in every way that applies to it, and measured on rows that it has not seen. Writes JSON, from which
``scripts/make_learners_figure.py`` draws the picture and writes the tables of docs/learners.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learners_cases import (
    N_CLASSES,
    TEST_SHARE,
    adult,
    learners,
    measured,
    split_of,
    trained,
)

RESULTS = Path(__file__).resolve().parent / "results" / "learners.json"
BIASES = (0.5, 0.0)
MEASURES = ("probability", "hard", "accuracy", "ties_at_random", "chance", "fit_seconds")
LIBRARIES = ("r2b", "numpy", "scikit-learn", "lightgbm")
Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One learner on one split, trained in all ways."""

    learner: str
    p: float
    seed: int


def run(task: Task) -> list[Row]:
    """Measure one task, on one thread: tasks run beside each other."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    learner = next(one for one in learners() if one.name == task.learner)
    split = split_of(task.p, task.seed)
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        # ten epochs are what this benchmark gives the networks
        warnings.simplefilter("ignore", ConvergenceWarning)
        for way in learner.ways if task.p else learner.few_ways:
            found = measured(lambda way=way: trained(learner, way, split), split)  # type: ignore[misc]
            rows.append(
                {
                    "learner": learner.name,
                    "way": way,
                    "auto": way == learner.own,
                    "p": task.p,
                    **asdict(found),
                }
            )
    return rows


def gathered(rows: Iterable[Row]) -> list[Row]:
    """Join the splits of one learner, way and bias: a list per measure, in their order."""
    together: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in ("p", "learner", "way"))
        if key not in together:
            together[key] = {
                "p": row["p"],
                "learner": row["learner"],
                "way": row["way"],
                "auto": row["auto"],
                **{m: [] for m in MEASURES},
            }
        for name in MEASURES:
            together[key][name].append(round(row[name], 5))
    return list(together.values())


def mean_and_half_width(values: list[float], level: float = 0.99) -> tuple[float, float]:
    """Return the mean over splits and half of its interval by Student's t.

    Examples
    --------
    >>> mean_and_half_width([1.0, 1.0, 1.0])
    (1.0, 0.0)
    """
    from scipy.stats import t

    spread = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return float(np.mean(values)), float(t.ppf(0.5 + level / 2, len(values) - 1)) * spread / sqrt(
        len(values)
    )


def table(rows: Iterable[Row], p: float) -> list[str]:
    """Write the rows of one bias as a table in Markdown, in percent."""
    lines = [
        "| learner | trained on | probability parity | by chance "
        "| hard parity | accuracy | CPU seconds |",
        "| --- " * 7 + "|",
    ]
    before = None
    for row in rows:
        if row["p"] != p:
            continue
        name = row["learner"] if row["learner"] != before else ""
        before = row["learner"]
        cells = [
            f"{100 * mean:.1f} ± {100 * half:.1f}"
            for mean, half in (
                mean_and_half_width(row[m]) for m in ("probability", "hard", "accuracy")
            )
        ]
        chance, seconds = np.mean(row["chance"]), np.mean(row["fit_seconds"])
        way = f"**{row['way']}**" if row["auto"] else row["way"]
        lines.append(
            f"| {name} | {way} | {cells[0]} | {100 * chance:.1f} "
            f"| {cells[1]} | {cells[2]} | {seconds:.1f} |"
        )
    return lines


def write(path: Path, rows: list[Row]) -> None:
    """Write the figures and the settings, one line per row."""
    X, y, _ = adult()
    data = {"rows": len(y), "features": X.shape[1], "classes": N_CLASSES, "test_share": TEST_SHARE}
    head = {"format": 1, "data": data, "versions": {name: version(name) for name in LIBRARIES}}
    body = ",\n  ".join(json.dumps(row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n  {body}\n ]\n}}\n', encoding="utf-8"
    )


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
    tasks = [
        Task(name, p, seed) for p in BIASES for name in names for seed in range(options.splits)
    ]
    begun = time.perf_counter()
    found: list[Row] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for task, rows in zip(tasks, pool.map(run, tasks), strict=True):
            found += rows
            print(
                f"{time.perf_counter() - begun:6.0f} s  {task.learner}, "
                f"p = {task.p:g}, split {task.seed}",
                flush=True,
            )
            write(options.output, gathered(found))
    rows = gathered(found)
    for p in BIASES:
        print(f"\np = {p:g}", *table(rows, p), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
