"""Workers that die and workers that lack the package: in a process of its own, whose Spark tries a task several times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from spark_sessions import SETTINGS, skip_without_spark

SCRIPT = """
import json, sys, warnings
from pathlib import Path

warnings.simplefilter("error")
from pyspark.sql import SparkSession

import r2b
import fragile

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[2,4]")
for setting, value in settings.items():
    builder = builder.config(setting, value)
spark = builder.getOrCreate()
said = {}


def labels(frame, label, asked):
    fair = r2b.scan(frame).debias(label, sensitive_features="sex", epsilon=0.01, **asked)
    rounded = fair.frame("round", key="id", random_state=3)
    return [fair.prices.tolist(), sorted((row["id"], row[label + "_fair"]) for row in rounded.collect())]


for label, asked in (("y", {"sample_weight": "w"}), ("p", {})):
    name = label + "".join(asked)
    frame = spark.createDataFrame(fragile.people(), "id int, y string, p array<double>, sex string, w double").repartition(3, "id")
    known = labels(frame, label, asked)
    # The user's own part of the plan dies, or every part of ours, once each.
    if label == "p":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            upstream = frame.mapInArrow(fragile.dies_once(folder / f"{name}-upstream"), frame.schema)
        said[name + " upstream"] = labels(upstream, label, asked) == known
    fragile.wrap(folder, name)
    said[name + " ours"] = labels(frame, label, asked) == known
    fragile.unwrap()
said["died"] = sorted(path.name for path in folder.iterdir() if path.name.startswith(("y-", "ysample", "p-")))

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
        labels(frame, label, asked)
    except r2b.errors.MissingExtraError as error:
        said["without " + label] = [error.problem, error.facts["library"]]
print(json.dumps(said))
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
def test_workers_that_die_once_change_no_label_and_workers_without_the_package_are_told(tmp_path: Path) -> None:
    skip_without_spark()
    code = tmp_path / "code"
    code.mkdir()
    (code / "fragile.py").write_text(FRAGILE, encoding="utf-8")
    (code / "script.py").write_text(SCRIPT, encoding="utf-8")
    paths = [str(code), str(Path(__file__).resolve().parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, str(code / "script.py"), str(tmp_path), json.dumps(SETTINGS)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert [said[name] for name in ("ysample_weight ours", "p upstream", "p ours")] == [True] * 3
    died = {"ysample_weight-Reduce", "ysample_weight-Beside", "p-upstream", "p-Keep", "p-Pass", "p-Beside"}
    assert died <= set(said["died"])
    for label in ("y", "p"):
        assert said[f"without {label}"] == ["The Python of Spark's workers cannot import r2b.", "r2b"]
