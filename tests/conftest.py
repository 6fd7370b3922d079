"""Settings that must be made before NumPy is imported, and what the whole suite shares."""

import os
from pathlib import Path
from typing import Any

import pytest

# The matrices of these tests are small: threads of the linear algebra library only wait for each
# other, most of all when the suite itself runs in several processes (measured: 4 s alone, 70 s
# beside two others).
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# scikit-learn runs its checks of array libraries only where SciPy was told of them before it was
# imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Data that are not part of the project lie beside the checkout, or where R2B_DATA says; tests that
# need them skip where there are none.
_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if _BESIDE.is_dir():
    os.environ.setdefault("R2B_DATA", str(_BESIDE))


@pytest.fixture(scope="session")
def spark() -> Any:
    """Return the Spark session that all tests of this process share."""
    from spark_sessions import spark_session

    return spark_session()
