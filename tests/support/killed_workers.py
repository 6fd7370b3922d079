"""A Spark cluster of two executors in processes of their own, one of which can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from spark_sessions import JAVA, SETTINGS


@contextmanager
def cluster() -> Iterator[Any]:
    """Start a master and two workers here, whose executors are processes of their own."""
    import pyspark
    from pyspark.sql import SparkSession

    # Workers keep a folder for every executor in the home of Spark: make a home of links.
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
        "spark.task.maxFailures": "8",
    }
    for setting, value in {**SETTINGS, **more}.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def executors() -> list[psutil.Process]:
    """Return the executors of this process's session."""
    found = []
    for each in psutil.Process().children(recursive=True):
        try:
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                found.append(each)
        except psutil.NoSuchProcess:
            pass
    return found


def killing(spark: Any, work: Callable[[], Any]) -> tuple[Any, bool]:
    """Do some work, and kill an executor once a task runs; return the result, and if it died."""
    tracker, ended, killed = spark.sparkContext.statusTracker(), threading.Event(), []

    def watch() -> None:
        while not ended.wait(0.02):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            there = executors()
            if there and any(stage is not None and stage.numActiveTasks for stage in stages):
                there[-1].send_signal(signal.SIGKILL)
                killed.append(there[-1].pid)
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        found = work()
    finally:
        ended.set()
        thread.join()
    return found, bool(killed)
