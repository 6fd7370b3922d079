"""Spark in processes of its own: a cluster whose workers die, Spark Connect, and the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spark_sessions import JAVA, SETTINGS, skip_without_spark, spark_session
from test_docs import ROOT, SHOWN, blocks_of, run

KILLED = """
import json, sys, warnings
from pathlib import Path

warnings.simplefilter("error")
import numpy as np
import pyarrow.parquet as pq

import r2b
import fragile
from killed_workers import cluster, killing

folder, said = Path(sys.argv[1]), {"killed": []}
rows = fragile.people()
columns = dict(zip(("id", "y", "p", "sex", "w"), map(list, zip(*rows))))
schema = "id int, y string, p array<double>, sex string, w double"


def watched(label, work):
    # Executors are killed for probabilities; for classes, workers die at every step.
    found, killed = killing(spark, work) if label == "p" else (work(), True)
    said["killed"].append(killed)
    return found


with cluster() as spark:
    for label, asked in (("y", {"sample_weight": "w"}), ("p", {"sample_entries": 90})):
        mass = columns["w"] if label == "y" else None
        y = np.array(columns[label])
        known = r2b.debias(y, sensitive_features=columns["sex"], sample_weight=mass, epsilon=0.01)
        frame, out = spark.createDataFrame(rows, schema).repartition(3, "id"), str(folder / label)
        if label == "y":
            fragile.wrap(folder)
        asked |= {"sensitive_features": "sex", "epsilon": 0.01}
        fair = watched(label, lambda: r2b.scan(frame).debias(label, **asked))
        made = fair.frame("round", key="id", random_state=3)
        watched(label, lambda: made.write.parquet(out))
        fragile.unwrap()
        table = pq.read_table(out).sort_by("id")
        said[label] = [
            table["id"].to_pylist() == columns["id"],
            table[label + "_fair"].to_pylist() == known.round(3, key=columns["id"]).tolist(),
            float(np.abs(fair.prices - known.prices).max()),
        ]
    said["died"] = sorted(path.name for path in folder.glob("died-*"))
    # A Python that has everything but the package.
    blocked = folder / "blocked" / "r2b"
    blocked.mkdir(parents=True)
    text = "raise ModuleNotFoundError(\\"No module named 'r2b'\\", name='r2b')"
    (blocked / "__init__.py").write_text(text)
    bare, paths = folder / "python-without-r2b", f"{blocked.parent}:$PYTHONPATH"
    bare.write_text(f"#!/bin/sh\\nPYTHONPATH={paths} exec {sys.executable} \\"$@\\"\\n")
    bare.chmod(0o755)
    spark.sparkContext.pythonExec = str(bare)
    try:
        r2b.scan(frame).debias("y", sensitive_features="sex", sample_weight="w")
    except r2b.errors.MissingExtraError as error:
        said["without"] = error.problem
print(json.dumps(said))
"""

FRAGILE = '''
"""Work that ends its process the first time, and leaves a mark that it did."""

import os
from pathlib import Path

import numpy as np

from r2b.engines import spark, spark_worker

PARTS = ("Run", "Reduce", "Merge", "Beside")


def people():
    rng = np.random.default_rng(0)
    rows = []
    for k in range(120):
        sex = k % 2
        p, y = rng.dirichlet([1 + sex, 1, 1]).tolist(), "abc"[int(rng.integers(0, 3 - sex))]
        rows.append((k, y, p, "fm"[sex], float(rng.integers(1, 5))))
    return rows


class DiesOnce:
    def __init__(self, mark, work):
        self.mark, self.work = str(mark), work

    def __call__(self, records):
        for record in self.work(records):
            yield record
            self.die()  # after the first result: half a task must not be counted twice
        self.die()

    def die(self):
        if not Path(self.mark).exists():
            Path(self.mark).touch()
            os._exit(17)


def wrap(folder):
    for part in PARTS:
        def made(*given, part=part):
            return DiesOnce(folder / f"died-{part}", getattr(spark_worker, part)(*given))
        setattr(spark, part, made)


def unwrap():
    for part in PARTS:
        setattr(spark, part, getattr(spark_worker, part))
'''

CONNECT = """
import json, sys, warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for setting, value in json.loads(sys.argv[2]).items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
warnings.simplefilter("error")

import numpy as np
import pyarrow as pa
import r2b

rng = np.random.default_rng(0)
sex = rng.integers(0, 2, 400)
p = rng.dirichlet(np.ones(3), 400)
p[:, 0] *= 1 + 2 * sex
p /= p.sum(axis=1, keepdims=True)
job = np.array(list("abc"))[np.minimum(rng.integers(0, 3, 400) + sex, 2)]
table = pa.table({"id": range(400), "job": job, "p": list(p), "sex": np.array(list("fm"))[sex]})
frame, said = spark.createDataFrame(table).repartition(3), {}
said["module"] = type(frame).__module__
asked = {"sensitive_features": "sex", "epsilon": 0.01}
for label, form, key in (("job", "soft", None), ("p", "round", "id")):
    rows = []
    for each in (frame, table):
        fair = r2b.scan(each).debias(label, **asked, sample_entries=200)
        made = fair.frame(form, key=key)
        made = (made if each is table else made.toArrow()).sort_by("id")
        rows.append(made.drop_columns(table.column_names).to_pylist())
    said[f"{label}, {form}"] = rows[0] == rows[1]
try:
    r2b.scan(frame.selectExpr("array(0.5D, 0.1D) as p", "sex")).debias("p", **asked)
except r2b.errors.ProbabilityError as error:
    said["refused"] = str(error)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Spark's own, of a version of pandas
    from r2b.engines.spark_ml import LabelDebiaser, LabelDebiaserModel

    LabelDebiaser(labelCol="job", sensitiveCols=["sex"], epsilon=0.01).fit(frame).save(sys.argv[1])
    said["stage"] = LabelDebiaserModel.load(sys.argv[1]).fair.certificate.disparity
print(json.dumps(said))
"""


def answers_of(script: str, folder: Path, *words: str, **environment: str) -> dict[str, Any]:
    """Run a script in a process of its own, and return what it prints last."""
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    paths = [folder, ROOT / "tests" / "support", ROOT / "src", os.environ.get("PYTHONPATH", "")]
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    done = subprocess.run(
        [sys.executable, str(path), *words],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_workers_and_executors_that_die_change_no_label(tmp_path: Path) -> None:
    skip_without_spark()
    (tmp_path / "fragile.py").write_text(FRAGILE, encoding="utf-8")
    said = answers_of(KILLED, tmp_path, str(tmp_path))
    for label in ("y", "p"):
        rows, classes, off = said[label]
        assert rows and classes and off < 1e-9
    assert said["killed"] == [True] * 4
    assert said["died"] == ["died-Beside", "died-Merge", "died-Reduce"]
    assert said["without"] == "The Python of Spark's workers cannot import r2b."


def test_a_frame_of_spark_connect_gives_what_memory_gives(tmp_path: Path) -> None:
    skip_without_spark()
    for library in ("grpc", "grpc_status", "google.protobuf", "zstandard"):
        pytest.importorskip(library, reason="Spark Connect needs the libraries of pyspark[connect]")
    words = (str(tmp_path / "stage"), json.dumps(SETTINGS))
    said = answers_of(CONNECT, tmp_path, *words, JDK_JAVA_OPTIONS=JAVA)
    assert said.pop("module").startswith("pyspark.sql.connect")
    assert "In partition 0, row 0: In the column 'p', row 0 sums to 0.6" in said.pop("refused")
    assert round(said.pop("stage"), 9) == 0.01
    assert len(said) == 2 and all(said.values()), said


def test_the_page_about_spark_runs_and_shows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_session()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "set by the page")
    # Java keeps the folder that it was started in: a name alone would leave the model there.
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    page = page.replace('"model"', repr(str(tmp_path / "model"))).replace("```py\n", "```python\n")
    blocks = blocks_of(page)
    shown = sum(len(SHOWN.findall(block.source)) + block.source.count("# ->") for block in blocks)
    assert shown > 8
    names: dict[str, Any] = {}
    for block in blocks:
        run(block, names, "spark.md")
