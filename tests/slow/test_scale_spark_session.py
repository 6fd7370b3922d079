"""What the driver says when workers are not what they should be. Nothing of it needs Spark."""

from __future__ import annotations

import pytest

from r2b.engines.spark import set_up_errors, worker_error
from r2b.errors import MissingExtraError


@pytest.mark.parametrize(
    ("message", "library", "says"),
    [
        (
            "PythonException: ... ModuleNotFoundError: No module named 'r2b.engines'; ...",
            "r2b",
            "cannot import r2b.engines",
        ),
        ("ModuleNotFoundError: No module named 'numpy'", "numpy", "cannot import numpy"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version",
            "python",
            "another version of Python",
        ),
        (
            "AttributeError: Can't get attribute 'Pass' on <module 'r2b.engines.spark_worker' from",
            "r2b",
            "another version of r2b",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/none/python3": error=2',
            "python",
            "found no Python",
        ),
    ],
)
def test_a_worker_that_cannot_start_is_told_with_a_remedy(
    message: str, library: str, says: str
) -> None:
    error = worker_error(message)
    assert error is not None
    assert says in error.problem and "PYSPARK_PYTHON" in error.remedy
    assert error.facts == {"library": library, "spark": message}


def test_only_what_spark_says_is_read_as_the_failure_of_a_worker() -> None:
    with pytest.raises(ModuleNotFoundError, match="'r2b'") as caught, set_up_errors():
        raise ModuleNotFoundError("No module named 'r2b'")
    assert not isinstance(caught.value, MissingExtraError)


def test_a_failure_of_another_kind_stays_what_it_is() -> None:
    errors = pytest.importorskip("pyspark.errors")
    with pytest.raises(errors.PySparkException, match="table or view"), set_up_errors():
        raise errors.PySparkException("table or view not found")


def test_the_java_trace_is_not_shown() -> None:
    errors = pytest.importorskip("pyspark.errors")
    with pytest.raises(MissingExtraError) as caught, set_up_errors():
        raise errors.PySparkException("No module named 'r2b'\n at org.apache.spark.api.python ...")
    assert "org.apache" not in str(caught.value) and caught.value.__suppress_context__
    assert "org.apache" in str(caught.value.facts["spark"])
