"""Workers and executors that die, and workers that lack the package: on a cluster of two executors, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from spark_sessions import skip_without_spark

SCRIPT = """
import json, sys, warnings
from pathlib import Path

warnings.simplefilter("error")
import numpy as np
import pyarrow.parquet as pq

import r2b
import fragile
from killed_workers import Watch, cluster

folder = Path(sys.argv[1])
entered = cluster()
spark = entered.__enter__()
said = {"killed": []}


def labels(frame, label, asked):
    # Solve and write, for probabilities while executors are killed: one in each phase.
    def watched(work):
        if label == "y":
            return work()
        watch = Watch(spark, 1)
        found = watch.during(work)
        said["killed"].append(watch.killed)
        return found

    out = str(folder / f"out-{label}")
    fair = watched(lambda: r2b.scan(frame).debias(label, sensitive_features="sex", epsilon=0.01, **asked))
    watched(lambda: fair.frame("round", key="id", random_state=3).write.parquet(out))
    table = pq.read_table(out).sort_by("id")
    return fair, table["id"].to_pylist(), table[label + "_fair"].to_pylist()


rows = fragile.people()
columns = dict(zip(("id", "y", "p", "sex", "w"), map(list, zip(*rows))))
for label, asked in (("y", {"sample_weight": "w"}), ("p", {"sample_entries": 90})):
    mass = columns["w"] if label == "y" else None
    known = r2b.debias(np.array(columns[label]), sensitive_features=columns["sex"], sample_weight=mass, epsilon=0.01)
    frame = spark.createDataFrame(rows, "id int, y string, p array<double>, sex string, w double").repartition(3, "id")
    # The user's own part of the plan dies, and every part of ours, once each; an executor that is killed takes its workers with it.
    if label == "y":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            frame = frame.mapInArrow(fragile.dies_once(folder / "y-upstream"), frame.schema)
        fragile.wrap(folder, label)
    fair, ids, found = labels(frame, label, asked)
    fragile.unwrap()
    same = found == known.round(3, key=columns["id"]).tolist()
    said[label] = [ids == columns["id"], same, float(np.abs(fair.prices - known.prices).max())]
said["died"] = sorted(path.name for path in folder.iterdir() if path.name.startswith(("y-", "p-")))

# A Python that has everything but the package.
blocked = folder / "blocked" / "r2b"
blocked.mkdir(parents=True)
(blocked / "__init__.py").write_text("raise ModuleNotFoundError(\\"No module named 'r2b'\\", name='r2b')")
bare = folder / "python-without-r2b"
bare.write_text(f"#!/bin/sh\\nPYTHONPATH={blocked.parent}:$PYTHONPATH exec {sys.executable} \\"$@\\"\\n")
bare.chmod(0o755)
spark.sparkContext.pythonExec = str(bare)
for label, asked in (("y", {"sample_weight": "w"}), ("p", {})):
    try:
        r2b.scan(frame).debias(label, sensitive_features="sex", **asked)
    except r2b.errors.MissingExtraError as error:
        said["without " + label] = [error.problem, error.facts["library"]]
print(json.dumps(said))
entered.__exit__(None, None, None)
"""

FRAGILE = '''
"""Functions that end their process the first time they are called, and leave a mark that they did."""

import os
from pathlib import Path

import numpy as np

from r2b.engines import spark, spark_worker

PARTS = ("Run", "Reduce", "Keep", "Pass", "Beside")
WHOLE = {part: getattr(spark_worker, part) for part in PARTS}


def people():
    rng = np.random.default_rng(0)
    rows = []
    for k in range(120):
        sex = k % 2
        p = rng.dirichlet([1 + sex, 1, 1])
        rows.append((k, "abc"[int(rng.integers(0, 3 - sex))], p.tolist(), "fm"[sex], float(rng.integers(1, 5))))
    return rows


def die_once(mark):
    if not Path(mark).exists():
        Path(mark).touch()
        os._exit(17)


class dies_once:
    def __init__(self, mark, work=None):
        self.mark, self.work = str(mark), work

    def __call__(self, records):
        for record in iter(records) if self.work is None else self.work(records):
            yield record
            die_once(self.mark)  # after the first result: half a task's work must not be counted twice
        die_once(self.mark)


def wrap(folder, name):
    for part in PARTS:
        setattr(spark, part, lambda *given, part=part, **named: dies_once(folder / f"{name}-{part}", WHOLE[part](*given, **named)))


def unwrap():
    for part in PARTS:
        setattr(spark, part, WHOLE[part])
'''


# One test, so that the session is started once however tests are spread over processes.
def test_workers_and_executors_that_die_change_no_label_and_workers_without_the_package_are_told(
    tmp_path: Path,
) -> None:
    skip_without_spark()
    code = tmp_path / "code"
    code.mkdir()
    (code / "fragile.py").write_text(FRAGILE, encoding="utf-8")
    (code / "script.py").write_text(SCRIPT, encoding="utf-8")
    paths = [
        str(code),
        str(Path(__file__).parent),
        str(Path(__file__).resolve().parents[2] / "src"),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    done = subprocess.run(
        [sys.executable, str(code / "script.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    for label in ("y", "p"):
        rows, classes, off = said[label]
        assert rows and classes and off < 1e-9
    assert len(said["killed"]) == 2 and all(said["killed"])  # one while solving, one while writing
    died = {"y-upstream", "y-Reduce", "y-Beside"}
    assert died <= set(said["died"])
    for label in ("y", "p"):
        assert said[f"without {label}"] == [
            "The Python of Spark's workers cannot import r2b.",
            "r2b",
        ]
