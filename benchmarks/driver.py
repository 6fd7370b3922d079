"""Measure the driver of a Spark cluster: ``python benchmarks/driver.py [--rows N ...] [--groups G ...] [--soft N ...] [--heap 512m]``.

Two executors in processes of their own (``local-cluster[2,1,1024]``), rows that Spark makes as it
goes. For each table, in a process of its own: the seconds of solve, borders of whole labels and
write, and the peak of resident memory of the driver's Python and of its Java in each phase. Writes
JSON for docs/planning.md.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import environment

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "driver.json"
MB = 1e6
CLASSES, PARTITION_ROWS, EPSILON = 16, 1_000_000, 0.01
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}


def session(heap: str) -> Any:
    """Start a master, two workers and two executors here."""
    import pyspark
    from pyspark.sql import SparkSession

    # Workers keep a folder for every executor in the home of Spark, which is therefore one of
    # links.
    home = Path(tempfile.mkdtemp(prefix="r2b-spark-"))
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    builder = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .appName("driver")
        .config("spark.driver.memory", heap)
    )
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def people(spark: Any, rows: int, groups: int, soft: bool) -> Any:
    """Give rows that are the same whenever they are made: classes, or lists of float, tilted by group."""
    made = spark.range(0, rows, 1, max(2, rows // PARTITION_ROWS))
    group = f"pmod(hash(id, 1), {groups})"
    if not soft:
        # The lesser of two draws, for some groups more often.
        label = f"least(pmod(hash(id, 2), {CLASSES}), if(pmod(hash(id, 3), 100) < 20 + pmod(grp, 60), pmod(hash(id, 4), {CLASSES}), 99))"
        return made.selectExpr("id", f"{group} AS grp").selectExpr(
            "id", "concat('group ', grp) AS grp", f"{label} AS label"
        )
    parts = ", ".join(
        f"float(1 + pmod(hash(id, {k + 10}), 1000) * if(pmod(grp, {CLASSES}) = {k}, 2, 1))"
        for k in range(CLASSES)
    )
    made = made.selectExpr("id", f"{group} AS grp").selectExpr("id", "grp", f"array({parts}) AS w")
    total = "aggregate(w, 0D, (a, x) -> a + x)"
    return made.selectExpr(
        "id", "concat('group ', grp) AS grp", f"transform(w, x -> float(x / {total})) AS label"
    )


class Peaks:
    """Peaks of resident memory, by phase: marks are set back when a phase begins."""

    def __init__(self) -> None:
        import pyspark

        java = pyspark.SparkContext._gateway.jvm.ProcessHandle.current().pid()
        self.places = {"python": Path("/proc/self"), "java": Path(f"/proc/{java}")}
        self.phases: dict[str, dict[str, float]] = {}

    def watched(self, phase: str, work: Callable[[], Any]) -> Any:
        """Do some work, and note what it took."""
        for place in self.places.values():
            (place / "clear_refs").write_text("5")
        begun = time.perf_counter()
        found = work()
        taken = time.perf_counter() - begun
        self.phases[phase] = {
            "seconds": taken,
            **{name: high_water(place) for name, place in self.places.items()},
        }
        print(phase, self.phases[phase], file=sys.stderr, flush=True)
        return found


def high_water(place: Path) -> int:
    """Give the peak of a process's resident memory."""
    lines = (place / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def measured(rows: int, groups: int, soft: bool, heap: str) -> dict[str, Any]:
    """Solve, find the borders, write."""
    import r2b

    spark = session(heap)
    peaks, folder = Peaks(), Path(tempfile.mkdtemp(prefix="r2b-driver-"))
    frame = people(spark, rows, groups, soft)
    try:
        fair = peaks.watched(
            "solve",
            lambda: r2b.scan(frame).debias("label", sensitive_features="grp", epsilon=EPSILON),
        )
        form = "soft" if soft else "round"
        made = peaks.watched("round", lambda: fair.frame(form, **({} if soft else {"key": "id"})))
        peaks.watched("write", lambda: made.write.parquet(str(folder / "out")))
        written = spark.read.parquet(str(folder / "out")).count()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()
    assert written == rows, (written, rows)
    proof = fair.certificate
    facts = {
        "status": fair.status.value,
        "disparity_before": proof.disparity_before,
        "parity": proof.disparity,
        "gap": proof.relative_gap,
    }
    return {
        "rows": rows,
        "groups": groups,
        "classes": CLASSES,
        "soft": soft,
        "heap": heap,
        "phases": peaks.phases,
        **facts,
    }


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--rows",
        type=int,
        nargs="*",
        default=[10_000_000, 100_000_000],
        help="rows of class labels",
    )
    parser.add_argument(
        "--soft", type=int, nargs="*", default=[1_000_000, 10_000_000], help="rows of probabilities"
    )
    parser.add_argument("--groups", type=int, nargs="*", default=[200, 5_000])
    parser.add_argument(
        "--heap",
        nargs="*",
        default=["1g", "512m"],
        help="spark.driver.memory, which is 1g unless it is set",
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(**json.loads(options.one))))
        return 0
    asked = [
        {"rows": rows, "groups": groups, "soft": soft, "heap": heap}
        for heap in options.heap
        for soft, sizes in ((False, options.rows), (True, options.soft))
        for groups in options.groups
        for rows in sizes
    ]
    tables: list[dict[str, Any]] = []
    for one in asked:
        done = subprocess.run(
            [sys.executable, __file__, "--one", json.dumps(one)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        tables.append(json.loads(done.stdout.strip().splitlines()[-1]))
        shown = {
            phase: f"{each['seconds']:.0f} s, {each['python'] / MB:.0f} + {each['java'] / MB:.0f} MB"
            for phase, each in tables[-1]["phases"].items()
        }
        print(
            f"{one['rows']:,} rows, {one['groups']:,} groups, {one['heap']}{', probabilities' * one['soft']}: {shown}",
            flush=True,
        )
    options.output.write_text(
        json.dumps({"format": 1, "environment": environment(), "tables": tables}, indent=1) + "\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
