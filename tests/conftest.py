"""Settings that must be made before NumPy is imported, and what the whole suite shares."""

import os
from collections.abc import Iterator
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


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Return what runs the command line in a folder of its own, with a table in people.csv."""
    from cli_calls import Shell, csv_of, people

    monkeypatch.chdir(tmp_path)
    made = Shell(capsys, tmp_path)
    made.write("people.csv", csv_of(people()))
    return made


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut text files into many chunks, some of which end within a record."""
    from r2b.engines.files.lines import TextStored

    monkeypatch.setattr(TextStored, "size", 5_003)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start a browser for the tests of a module."""
    import browser

    with browser.launch() as started:
        yield started


@pytest.fixture
def routing() -> Iterator[None]:
    """Turn scikit-learn's metadata routing on."""
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        yield
