"""Lanes and threads: what a solve does to the process while it runs, it undoes."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info

from r2b._data.compute import one_blas_thread


def threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def work(seed):
    with one_blas_thread():
        assert max(threads()) >= 1
        np.linalg.inv(np.random.default_rng(seed).random((40, 40)))


with one_blas_thread():
    assert set(threads()) == {1}
before = threads()
# no BLAS starts threads for so few, and the limit is not worth setting
with one_blas_thread(entries=1_000):
    assert threads() == before
with one_blas_thread(entries=1_000_000):
    assert set(threads()) == {1}
for _ in range(5):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
assert threads() == before, (before, threads())
"""


def test_solves_on_several_threads_leave_linear_algebra_as_they_found_it():
    """Each restored what it found, and what the later ones found was the limit of the first: the
    process kept to one thread for good.
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
