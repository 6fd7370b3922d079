"""The page of the comparison shows its results, and the scores are right."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import r2b
from r2b.metrics import demographic_parity_difference

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "peers.json"

needs_results = pytest.mark.skipif(
    not RESULTS.exists(), reason="the results are not part of this distribution"
)


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(ROOT / "scripts" / "make_benchmark_page.py", monkeypatch)


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(ROOT / "benchmarks" / "peers_score.py", monkeypatch)


def case_of(name: str, rows: int, soft: bool) -> dict[str, Any]:
    facts = {
        "name": name,
        "title": name,
        "series": "soft" if soft else "classes",
        "epsilon": 0.01,
        "soft": soft,
        "rows": rows,
    }
    return {
        **facts,
        "classes": 16,
        "groups": 2,
        "optimum": 0.1,
        "gap": 1e-15,
        "disparity_before": 0.2,
    }


def report_of(whole: float, alone: float, *, setting: str = "accurate") -> dict[str, Any]:
    cases = [
        case_of("small", 1_000, True),
        case_of("large", 10_000, True),
        case_of("counted", 10_000, False),
    ]
    ours = {
        "method": "r2b",
        "seconds": 0.02,
        "solver_seconds": 0.01,
        "excess": 0.0,
        "above": 0.0,
        "status": "solved",
    }
    theirs = {
        "method": "PIQP",
        "setting": setting,
        "seconds": whole,
        "solver_seconds": alone,
        "status": "optimal",
        "note": "tolerance 1e-10",
    }
    environment = {"cores": 2, "python": "3", "versions": {"r2b": "1", "scs": None}}
    return {
        "quick": False,
        "environment": environment,
        "limits": {"seconds": 30.0, "memory_bytes": 1e9},
        "cases": cases,
        "results": [{"case": case["name"], **row} for case in cases for row in (ours, theirs)],
    }


@needs_results
def test_the_page_and_its_figures_are_what_the_results_say(script: ModuleType) -> None:
    files = script.wanted(script.results())
    assert script.PAGE in files
    assert script.main(["--check"]) == 0


def test_a_peer_that_is_faster_at_equal_accuracy_is_named(script: ModuleType) -> None:
    page = script.page_of(report_of(whole=0.005, alone=0.02))
    assert "- counted, whole call: PIQP 5 ms; r2b 20 ms." in page
    assert "solver alone: PIQP" not in page
    assert "No peer is faster" not in page


def test_that_no_peer_is_faster_is_said_only_where_it_is_so(script: ModuleType) -> None:
    assert "No peer is faster" in script.page_of(report_of(whole=0.5, alone=0.02))


def saved(folder: Path, labels: Any, groups: Any, n_classes: int) -> str:
    np.save(folder / "labels.npy", labels)
    np.save(folder / "groups.npy", groups)
    np.save(folder / "sizes.npy", np.array([n_classes, int(groups.max()) + 1]))
    return str(folder)


def test_labels_are_scored_as_the_metrics_of_the_package_do(
    score: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "BLOCK", 7)
    rng = np.random.default_rng(3)
    y, groups = rng.dirichlet(np.ones(4), 40), rng.integers(0, 3, 40)
    x = rng.dirichlet(np.ones(4), 40)
    x[5] *= 1.25
    table = score.Table(saved(tmp_path, y, groups, 4))
    found = score.scored(lambda part: x[part], table, 0.05)
    means = np.stack([x[groups == s].mean(axis=0) for s in range(3)])
    assert found["disparity"] == pytest.approx(np.ptp(means, axis=0).max(), abs=1e-14)
    assert found["excess"] == pytest.approx(found["disparity"] - 0.05, abs=1e-14)
    assert found["simplex"] == pytest.approx(0.25)
    assert found["distance"] == pytest.approx(((x - y) ** 2).sum(axis=1).mean(), abs=1e-14)


def test_the_optimum_passes_as_accurate_and_other_labels_do_not(
    score: ModuleType, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    y, groups = rng.integers(0, 3, 90), rng.integers(0, 2, 90)
    fair = r2b.debias(y, sensitive_features=groups, epsilon=0.01)
    table = score.Table(saved(tmp_path, y, groups, 3))
    best = score.scored(lambda part: fair.soft_labels[part], table, 0.01)
    assert best["disparity"] == pytest.approx(
        demographic_parity_difference(fair.soft_labels, sensitive_features=groups), abs=1e-12
    )
    assert score.accurate(best, fair.certificate.distance)
    unchanged = score.scored(table.matrix, table, 0.01)
    assert not score.accurate(unchanged, fair.certificate.distance)
    assert not score.accurate(
        best | {"distance": best["distance"] * (1 + 1e-5)}, fair.certificate.distance
    )
