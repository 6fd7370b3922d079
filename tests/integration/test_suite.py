"""How the suite is cut into parts, and how it is run as on another processor."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest
from threadpoolctl import threadpool_info

ROOT = Path(__file__).resolve().parents[2]


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_under_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def processors() -> ModuleType:
    return module_of(ROOT / "scripts" / "test_processors.py")


def test_threads_are_set_before_numpy_is_imported() -> None:
    asked = int(os.environ["OPENBLAS_NUM_THREADS"])
    found = [
        each["num_threads"] for each in threadpool_info() if each["internal_api"] == "openblas"
    ]
    assert set(found) <= {min(asked, os.cpu_count() or 1)}


def test_an_unknown_core_type_is_refused(
    processors: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert processors.main(["Nonsense"]) == 2
    assert "'Nonsense' is not a core type that this script knows" in capsys.readouterr().err


def test_a_core_type_without_effect_is_refused(
    processors: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(processors.CORES, "here", {"Nonsense": (("Nonsense",), {})})
    with pytest.raises(
        processors.NotHereError, match=r"Nonsense has no effect: linear algebra runs on"
    ):
        processors.probe("Nonsense", "here")
