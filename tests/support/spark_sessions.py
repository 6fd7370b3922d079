"""The one Spark session of this test process: starting it takes longer than most tests."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from typing import Any

import pytest

# Sessions of these tests live for minutes: a second compiler and a parallel collector only take the
# cores from the tests.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # tables of these tests begin in so many partitions, without a shuffle in every job
    "spark.default.parallelism": "3",
    # Plans are many and tables small: code compiled for a plan is used once, and a plan is not
    # worth a second look.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


def skip_without_spark() -> None:
    """Skip what needs Spark where there is none."""
    pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")


def spark_session() -> Any:
    """Return the session of this process."""
    skip_without_spark()
    return _started()


@cache
def _started() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("r2b")
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()
