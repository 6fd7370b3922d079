"""Executors of a Spark cluster killed while they solve and while they write, and the labels after it: run as a script, so many times.

python tests/killed_workers.py 20

Two executors in processes of their own (``local-cluster``). Each run solves probabilities by passes
over kept rows, or counts weighted class labels, and writes whole labels; in a random stage of each
phase an executor gets SIGKILL while tasks run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from spark_sessions import JAVA, SETTINGS

import r2b

N, PARTITIONS, N_CLASSES, SEED = 6_000, 6, 4, 3
PHASES = ("solve", "write")
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "probabilities": ([f"p{k}" for k in range(N_CLASSES)], {"sample_entries": 400, "tol": 1e-11}),
    "classes with weights": ("level", {"sample_weight": "weight"}),
}


def people() -> pa.Table:
    """Give rows with a key."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, N)
    scores = rng.dirichlet(np.full(N_CLASSES, 0.7), N)
    scores[:, 0] *= 1 + 2 * sex
    scores /= scores.sum(axis=1, keepdims=True)
    columns = {
        "id": rng.permutation(N),
        "sex": np.array(["f", "m"])[sex],
        "weight": rng.gamma(2.0, 1.0, N),
    }
    level = np.minimum(rng.poisson(0.8 + 0.6 * sex), N_CLASSES - 1)
    return pa.table(
        {**columns, "level": level, **{f"p{k}": scores[:, k] for k in range(N_CLASSES)}}
    )


@contextmanager
def cluster() -> Iterator[Any]:
    """Start a master and two workers here, whose executors are processes of their own."""
    import pyspark
    from pyspark.sql import SparkSession

    # Workers keep a folder for every executor in the home of Spark, which is therefore one of
    # links.
    home = Path(tempfile.mkdtemp())
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    more = {
        "spark.executor.extraJavaOptions": JAVA,
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.executor.memory": "512m",
    }
    more |= {"spark.task.maxFailures": "8"}
    for setting, value in {**SETTINGS, **more}.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def executors() -> list[psutil.Process]:
    """Give the executors of this process's session."""
    found = []
    for each in psutil.Process().children(recursive=True):
        try:
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                found.append(each)
        except psutil.NoSuchProcess:
            pass
    return found


class Watch:
    """Looks which stages have tasks that run; may kill an executor at one of them."""

    def __init__(self, spark: Any, at: int | None) -> None:
        self.tracker, self.at, self.seen, self.killed = spark.sparkContext.statusTracker(), at, 0, 0
        self._ended = threading.Event()

    def _look(self) -> None:
        last = -1
        while not self._ended.wait(0.02):
            stages = [
                self.tracker.getStageInfo(stage) for stage in self.tracker.getActiveStageIds()
            ]
            running = max(
                (
                    stage.stageId
                    for stage in stages
                    if stage is not None and stage.numActiveTasks > 0
                ),
                default=-1,
            )
            self.seen += running > last
            last = max(last, running)
            there = (
                executors() if self.at is not None and self.seen >= self.at and running >= 0 else []
            )
            if self.at is not None and there:
                victim = there[self.at % len(there)]
                victim.send_signal(signal.SIGKILL)
                self.killed = victim.pid
                return

    def during(self, work: Callable[[], Any]) -> Any:
        """Do some work."""
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            return work()
        finally:
            self._ended.set()
            thread.join()


def labels(
    spark: Any, case: str, folder: Path, watch: Callable[[str, Callable[[], Any]], Any]
) -> tuple[np.ndarray, list[Any]]:
    """Solve and write; give prices, and classes in the order of keys."""
    label, more = CASES[case]
    frame = spark.createDataFrame(people()).repartition(PARTITIONS)
    fair = watch(
        "solve",
        lambda: r2b.scan(frame).debias(label, sensitive_features="sex", epsilon=0.02, **more),
    )
    shutil.rmtree(folder, ignore_errors=True)
    watch(
        "write", lambda: fair.frame("round", key="id", random_state=SEED).write.parquet(str(folder))
    )
    table = pq.read_table(folder).sort_by("id")
    assert table["id"].to_pylist() == list(range(N)), (case, table.num_rows)
    return fair.prices, table[table.column_names[-1]].to_pylist()


def killed(times: int, cases: Sequence[str] = tuple(CASES)) -> dict[str, Any]:
    """Kill executors in both phases of every case, so many times; give how many kills hit, and how far prices were off.

    Raises
    ------
    AssertionError
        A label, or a price by more than 1e-9, differed from the undisturbed run.
    """
    draw, hit, off = random.Random(0), dict.fromkeys(PHASES, 0), 0.0
    folder = Path(tempfile.mkdtemp())
    with cluster() as spark:
        for case in cases:
            stages = dict.fromkeys(PHASES, 1)

            def watched(
                phase: str, work: Callable[[], Any], stages: dict[str, int] = stages, *, kill: bool
            ) -> Any:
                # Before the last stage, so that the others have to do without what the executor
                # kept.
                watch = Watch(spark, draw.randint(1, max(1, stages[phase] - 1)) if kill else None)
                found = watch.during(work)
                stages[phase] = stages[phase] if kill else watch.seen
                hit[phase] += watch.killed > 0
                return found

            prices, known = labels(spark, case, folder / "out", partial(watched, kill=False))
            for _ in range(times):
                again, found = labels(spark, case, folder / "out", partial(watched, kill=True))
                off = max(off, float(np.abs(again - prices).max()))
                assert off < 1e-9
                assert found == known, case
    shutil.rmtree(folder)
    return {"runs": times * len(cases), "killed": hit, "largest difference of prices": off}


if __name__ == "__main__":
    print(json.dumps(killed(int(sys.argv[1]))))
