"""The same through Spark Connect: a client without a Java machine of its own, which a process of its own plays here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_sessions import JAVA, SETTINGS, skip_without_spark

SCRIPT = """
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
region = pa.array(["north", None, "south", "south"] * 100)
table = pa.table({"id": np.arange(400), "job": job, "p": pa.array(list(p)), "sex": np.array(list("fm"))[sex], "region": region})
frame = spark.createDataFrame(table).repartition(3)
said = {"module": type(frame).__module__}

asked = {"sensitive_features": ["sex", "region"], "epsilon": 0.01, "missing": "group"}
features = {"sensitive_features": {"sex": table["sex"], "region": table["region"]}, "epsilon": 0.01, "missing": "group"}
fair, known = r2b.scan(frame).debias("job", **asked), r2b.debias(job, **features)
said["classes"] = float(np.abs(fair.prices - known.prices).max())
soft = fair.frame("soft").toArrow().sort_by("id")
said["soft"] = float(np.abs(np.column_stack([soft[f"job_fair_{k}"] for k in "abc"]) - known.soft_labels).max())
rounded = fair.frame("round", key="id", random_state=1).toArrow().sort_by("id")["job_fair"].to_pylist()
said["round"] = rounded == list(known.round(1, key=np.arange(400)))
fair, known = r2b.scan(frame).debias("p", sample_entries=200, **asked), r2b.debias(p, **features)
said["status"] = fair.status.value
soft = fair.frame("soft").toArrow().sort_by("id")
said["probabilities"] = float(np.abs(np.column_stack([soft[f"p_fair_{k}"] for k in range(3)]) - known.soft_labels).max())
said["audited"] = abs(r2b.scan(frame).audit("p", sensitive_features="sex", n_boot=5, n_permutations=5).families[0].disparity
                      - r2b.audit(p, sensitive_features={"sex": table["sex"]}, n_boot=5, n_permutations=5).families[0].disparity)
try:
    r2b.scan(frame.selectExpr("array(0.5D, 0.1D) as p", "sex")).debias("p", sensitive_features="sex")
except r2b.errors.ProbabilityError as error:
    said["refused"] = str(error)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Spark's own, of a version of pandas
    from r2b.engines.spark_ml import LabelDebiaser, LabelDebiaserModel

    LabelDebiaser(labelCol="job", sensitiveCols=["sex"], epsilon=0.01).fit(frame).save(sys.argv[1])
    said["stage"] = LabelDebiaserModel.load(sys.argv[1]).fair.certificate.disparity
print(json.dumps(said))
"""


def test_a_frame_of_spark_connect_gives_what_memory_gives(tmp_path: Path) -> None:
    skip_without_spark()
    for library in ("grpc", "grpc_status", "google.protobuf", "zstandard"):
        pytest.importorskip(library, reason="Spark Connect needs the libraries of pyspark[connect]")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    paths = [str(Path(__file__).resolve().parents[2] / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": JAVA,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    words = [sys.executable, str(script), str(tmp_path / "stage"), json.dumps(SETTINGS)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["module"].startswith("pyspark.sql.connect")
    assert max(said["classes"], said["soft"], said["probabilities"], said["audited"]) < 1e-9
    assert said["round"] is True and said["status"] == "solved"
    assert "In partition 0, row 0: In the column 'p', row 0 sums to 0.6" in said["refused"]
    assert round(said["stage"], 9) == 0.01
