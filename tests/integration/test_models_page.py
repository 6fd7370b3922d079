"""The page of fair models is what its results say, its judge can find against us, and rows of a
cluster stay together.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "models.json"
sys.path.insert(0, str(ROOT))

from benchmarks.models_judge import verdicts  # noqa: E402 - after the path

needs_results = pytest.mark.skipif(
    not RESULTS.exists(), reason="the results are not part of this distribution"
)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "scripts" / "make_models_page.py"
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def row_of(
    method: str, decisions: float, accuracy: float, probabilities: float | None = None
) -> dict[str, Any]:
    row = {
        "table": "t",
        "learner": "tree",
        "method": method,
        "splits": [0, 1],
        "decisions": [decisions] * 2,
        "accuracy": [accuracy] * 2,
    }
    row |= {"decisions_chance": [0.01, 0.01], "seconds": [1.0, 3.0]}
    return (
        row
        if probabilities is None
        else row | {"probabilities": [probabilities] * 2, "probabilities_chance": [0.004] * 2}
    )


def report_of(*rows: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "name": "t",
        "title": "Some table",
        "rows": 100,
        "features": 3,
        "classes": 4,
        "groups": 2,
        "smallest": "b",
        "smallest_rows": 30,
    }
    return {
        "setting": {"rows": 100, "test_share": 0.3333, "tables": [facts], "left_out": {}},
        "versions": {"r2b": "1"},
        "rows": list(rows),
    }


@needs_results
def test_the_page_and_its_figure_are_what_the_results_say(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0
    report = script.results()
    changed = copy.deepcopy(report)
    changed["rows"][0]["accuracy"] = [0.98765]
    assert script.page_of(changed) != script.page_of(report)
    assert script.figure(changed) != script.figure(report)


def test_parity_is_judged_beside_chance_and_accuracy_at_the_parity_of_the_rival(
    script: ModuleType,
) -> None:
    ours = [
        row_of("ParityPostprocessor", 0.02, 0.70, 0.009),
        row_of("ParityPostprocessor, epsilon 0.1", 0.10, 0.78),
    ]
    found = {one.what: one for one in verdicts([*ours, row_of("LinearPost", 0.06, 0.742)])}
    assert found["disparity of decisions"].room == pytest.approx(1.5 * 0.01 + 0.005 - 0.02)
    assert found["disparity of probabilities"].limit == pytest.approx(1.5 * 0.004 + 0.003)
    accuracy = found["accuracy at the disparity of LinearPost"]
    assert (accuracy.value, accuracy.limit) == (pytest.approx(0.74), pytest.approx(0.739))
    assert all(one.room >= -1e-12 for one in found.values())
    worse = verdicts([*ours, row_of("LinearPost", 0.02, 0.704)])[-1]
    assert not worse.holds
    page = script.page_of(report_of(*ours, row_of("LinearPost", 0.02, 0.704)))
    assert "Missed, 1 of 3:" in page
    assert (
        "- ParityPostprocessor, accuracy at the disparity of LinearPost: Some table, tree: 70.0"
        " (limit 70.1)." in page
    )


def test_splits_keep_clusters_together_and_results_can_be_taken_apart() -> None:
    pytest.importorskip("sklearn")
    from benchmarks.models import apart, gathered
    from benchmarks.models_cases import Table, split_of

    lesions = np.repeat(np.arange(20), 3)
    split = split_of(
        Table("t", "t", lesions[:, None] * 1.0, lesions % 2, lesions.astype(str), lesions), 50, 1
    )
    assert len(split.y) + len(split.y_test) == 50 and len(split.y_test) >= 16
    assert not set(split.groups.tolist()) & set(split.groups_test.tolist())
    assert split.clusters is not None
    assert split.clusters.astype(str).tolist() == split.groups.tolist()
    rows = [
        {
            "table": "t",
            "learner": "l",
            "method": "m",
            "split": k,
            "accuracy": 0.1 * k,
            "decisions": 0.2,
        }
        for k in (1, 0)
    ]
    assert apart(gathered(rows)) == sorted(rows, key=lambda row: row["split"])
