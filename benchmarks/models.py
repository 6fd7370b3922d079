"""Measure accuracy against disparity of models.

    python -m benchmarks.models [--splits 10] [--rows 12000] [--linearpost FOLDER] [--only NAME]

Every method is trained on the same rows of the same tables by the same learners, and measured on
rows that nobody has seen, beside chance. Writes JSON, from which ``scripts/make_models_page.py``
writes docs/models.md and draws its figure, and judges itself: what holds and what is missed, the
worst beside the best. With ``--resume`` splits that are missing are added to what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.measure import versions, write_rows
from benchmarks.models_cases import (
    TABLES,
    TEST_SHARE,
    Remembered,
    Split,
    Unavailable,
    learners,
    split_of,
)
from benchmarks.models_judge import Row, extremes, verdicts
from benchmarks.models_methods import Answer, NoAnswer, methods
from experiments.tables import grouped
from r2b.metrics import demographic_parity_difference
from r2b.metrics.chance import sampling_level

KEYS = ("table", "learner", "method")
RESULTS = Path(__file__).resolve().parent / "results" / "models.json"
MEASURES = (
    "probabilities",
    "probabilities_chance",
    "decisions",
    "decisions_chance",
    "accuracy",
    "drawn",
    "seconds",
)
LIBRARIES = ("r2b", "numpy", "scikit-learn", "lightgbm", "fairlearn", "cvxpy", "highspy")
PERMUTATIONS = 20


@dataclass(frozen=True)
class Task:
    """One learner on one split of one table, by all methods."""

    table: str
    learner: str
    split: int
    rows: int
    paths: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ("",)


def run(task: Task) -> list[Row]:
    """Measure one task on one thread; what cannot answer says why."""
    from threadpoolctl import threadpool_limits

    split = split_of(TABLES[task.table](), task.rows, task.split)
    learner, found = learners()[task.learner](), []
    head = {"table": task.table, "learner": task.learner, "split": task.split}
    Remembered.known.clear()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence of small learners, and what rivals warn of
        for name, method in methods(len(split.classes), **task.paths).items():
            if not name.startswith(task.only):
                continue
            Remembered.charged, begun = 0.0, processor_seconds()
            try:
                answers = method(learner, split)
            except NoAnswer as reason:
                found.append({**head, "method": name, "status": str(reason)})
                continue
            seconds = processor_seconds() - begun + Remembered.charged
            found += [
                {**head, "method": one, **measured(answer, split), "seconds": seconds}
                for one, answer in answers.items()
            ]
    return found


def processor_seconds() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def measured(answer: Answer, split: Split) -> Row:
    """Compare with the test rows: disparity, what chance explains of it, and accuracy."""
    groups = {"sensitive_features": split.groups_test}
    row: Row = {
        "decisions": demographic_parity_difference(answer.decisions, **groups),
        "accuracy": float((answer.decisions == split.y_test).mean()),
    }
    row["decisions_chance"] = chance(answer.decisions, split)
    if answer.probabilities is not None:
        row["probabilities"] = demographic_parity_difference(answer.probabilities, **groups)
        row["probabilities_chance"] = chance(answer.probabilities, split)
        place = np.minimum(np.searchsorted(split.classes, split.y_test), len(split.classes) - 1)
        right = answer.probabilities[np.arange(len(place)), place]
        row["drawn"] = float(np.where(split.classes[place] == split.y_test, right, 0.0).mean())
    return row


def chance(predictions: Any, split: Split) -> float:
    """Return the mean disparity when groups are permuted among rows, or among clusters."""
    if split.clusters_test is None:
        return sampling_level(
            predictions, sensitive_features=split.groups_test, n_permutations=PERMUTATIONS
        ).mean
    _, first, place = np.unique(split.clusters_test, return_index=True, return_inverse=True)
    rng, of_cluster = np.random.default_rng(0), split.groups_test[first]
    drawn = (rng.permutation(of_cluster)[place] for _ in range(PERMUTATIONS))
    return fmean(
        demographic_parity_difference(predictions, sensitive_features=groups) for groups in drawn
    )


def gathered(rows: Iterable[Row]) -> list[Row]:
    """Join the splits of one table, learner and method: a list per measure, in their order."""
    joined = []
    for key, found in grouped(sorted(rows, key=lambda row: row["split"]), *KEYS).items():
        answered = [row for row in found if "status" not in row]
        said = [{"status": row["status"]} for row in found if "status" in row]
        measures = {
            name: [round(row[name], 5) for row in answered]
            for name in MEASURES
            if any(name in row for row in answered)
        }
        splits = [row["split"] for row in answered]
        head = dict(zip(KEYS, key, strict=True))
        joined.append({**head, "splits": splits, **measures, **(said[-1] if said else {})})
    return joined


def apart(rows: Iterable[Row]) -> list[Row]:
    """Take gathered rows apart again."""
    found = []
    for row in rows:
        head = {name: row[name] for name in KEYS}
        if not row["splits"]:
            found.append({**head, "split": 0, "status": row["status"]})
        for place, split in enumerate(row["splits"]):
            measures = {name: row[name][place] for name in MEASURES if name in row}
            found.append({**head, "split": split, **measures})
    return found


def write(
    path: Path,
    rows: list[Row],
    facts: list[Row],
    options: argparse.Namespace,
    left_out: dict[str, str],
) -> None:
    """Write the figures and the settings, in the order of tables and learners."""
    tables, names = list(TABLES), list(learners())
    known = {one["name"]: one for one in facts}
    measured_on = sorted({row["table"] for row in rows}, key=tables.index)
    setting = {
        "rows": options.rows,
        "test_share": round(TEST_SHARE, 4),
        "tables": [known[name] for name in measured_on if name in known],
        "left_out": left_out,
    }
    head = {"format": 1, "setting": setting, "versions": versions(*LIBRARIES)}
    place = {row["method"]: n for n, row in reversed(list(enumerate(rows)))}
    rows = sorted(
        rows,
        key=lambda row: (
            tables.index(row["table"]),
            names.index(row["learner"]),
            place[row["method"]],
        ),
    )
    write_rows(path, head, rows)


def judge(rows: list[Row]) -> bool:
    """Print what holds and what is missed, worst and best; return whether all holds."""
    judged = verdicts(rows)
    print("\n".join(map(str, judged)))
    for worst, best, holding, n in extremes(judged):
        print(
            f"\n{worst.method}, {worst.what}: {holding} of {n} hold\n"
            f"  worst  {worst}\n  best   {best}"
        )
    return all(one.holds for one in judged)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--rows",
        type=int,
        default=12_000,
        help="rows of a table that a split draws; a third of them to measure on",
    )
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--learners", nargs="+", choices=list(learners()), default=list(learners()))
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="METHOD",
        help="methods whose name begins like this",
    )
    place, other = os.environ.get("R2B_LINEARPOST"), os.environ.get("R2B_FAIRPROJECTION")
    parser.add_argument(
        "--linearpost",
        type=Path,
        default=place,
        metavar="FOLDER",
        help="holds postprocess.py; or set R2B_LINEARPOST",
    )
    parser.add_argument(
        "--fairprojection",
        type=Path,
        default=other,
        metavar="FOLDER",
        help="holds coreMP.py; or set R2B_FAIRPROJECTION",
    )
    parser.add_argument(
        "--fairprojection-python",
        default="python3",
        metavar="PYTHON",
        help="an interpreter that has TensorFlow and CVXPY",
    )
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="limit of time of FairProjection"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes beside each other")
    parser.add_argument("--resume", action="store_true", help="add to the results that are there")
    parser.add_argument(
        "--check", action="store_true", help="exit status 1 where a limit is missed"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run everything, write the JSON, and judge it."""
    options = _options(arguments)
    facts, left_out = [], {}
    for name in options.tables:
        try:
            facts.append(TABLES[name]().facts)
        except Unavailable as reason:
            left_out[name] = str(reason)
            print(f"{name} is left out: {reason}")
    found: list[Row] = []
    if options.resume and options.output.exists():
        kept = json.loads(options.output.read_text(encoding="utf-8"))
        found = apart(kept["rows"])
        facts = [*kept["setting"]["tables"], *facts]
    paths = {"linearpost": options.linearpost, "fairprojection": options.fairprojection}
    paths |= {"python": options.fairprojection_python, "seconds": options.seconds}
    done = set() if any(options.only) else set(grouped(found, "split", "table", "learner"))
    tables = [name for name in options.tables if name not in left_out]
    # Split after split, so that a run that is stopped leaves every table with as many.
    tasks = [
        Task(table, learner, split, options.rows, paths, tuple(options.only))
        for split, table, learner in product(range(options.splits), tables, options.learners)
        if (split, table, learner) not in done
    ]
    begun = time.perf_counter()
    with ProcessPoolExecutor(options.workers) as pool:
        for task, rows in zip(tasks, pool.map(run, tasks), strict=True):
            # What is measured again takes the place of what was there.
            known = {tuple(row[name] for name in (*KEYS, "split")): row for row in (*found, *rows)}
            found = list(known.values())
            write(options.output, gathered(found), facts, options, left_out)
            taken = time.perf_counter() - begun
            print(f"{taken:6.0f} s  {task.table}, {task.learner}, split {task.split}", flush=True)
    holds = judge(gathered(found))
    return 1 if options.check and not holds else 0


if __name__ == "__main__":
    raise SystemExit(main())
