"""Benchmarks on tables that nobody chose: what is drawn, and that median and worst are told."""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("drawn")


def test_draws_follow_from_the_seed_and_keep_to_what_is_stated(drawn: ModuleType) -> None:
    several = drawn.specs(5, 300, drawn.HOST_ENTRIES)
    assert several[:7] == drawn.specs(5, 7, drawn.HOST_ENTRIES)
    assert several[:7] != drawn.specs(6, 7, drawn.HOST_ENTRIES)
    for spec in several:
        assert 4 <= spec.n_classes <= 1000 and 2 <= spec.n_groups <= 20 and 0.3 <= spec.sharp <= 10
        assert spec.epsilon == 0 or 1e-4 <= spec.epsilon <= 0.1
        assert 0.2 <= spec.lam <= 5 and spec.rows >= 1000
        assert spec.rows == 1000 or 0.99e6 <= spec.rows * spec.n_classes <= 20.01e6
    share = np.mean(
        [
            [spec.epsilon == 0, spec.lam == 1, spec.zipf == 1, spec.dtype == "float32"]
            for spec in several
        ],
        axis=0,
    )
    assert np.abs(share - (0.2, 0.5, 0.5, 0.5)).max() < 0.1


def test_tables_are_made_as_their_draw_says(drawn: ModuleType) -> None:
    blunt, sharp = (
        drawn.Spec(2000, 10, 3, sharp, 1.0, "float32", 0.01, 1.0, 4) for sharp in (0.3, 10.0)
    )
    (one, groups), (other, _) = drawn.build(blunt), drawn.build(sharp)
    again, _ = drawn.build(blunt)
    assert (
        one.shape == (2000, 10)
        and one.dtype == np.float32
        and set(groups) == {0, 1, 2}
        and np.array_equal(one, again)
    )
    assert np.abs(one.sum(axis=1) - 1).max() < 1e-6
    assert one.max(axis=1).mean() < 0.6 < 0.85 < other.max(axis=1).mean()
    assert (np.diff(one.mean(axis=0)[[0, 4, 9]]) < 0).all()  # the k-th class is as common as 1 / k


def test_the_benchmark_tells_median_and_worst_of_what_it_draws(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    command = [
        sys.executable,
        str(BENCHMARKS / "run.py"),
        "--only",
        "drawn",
        "--quick",
        "--seed",
        "11",
        "--output",
        str(output),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    report = json.loads(output.read_text(encoding="utf-8"))
    *tables, median, worst = report["results"]
    ratios = [one["ratio"] for one in tables]
    assert (
        report["seed"] == 11
        and 1 <= len(tables) <= 4
        and all(one["ours"] > 0 and one["details"]["seed"] >= 11_000 for one in tables)
    )
    assert (median["ratio"], worst["ratio"]) == (statistics.median(ratios), max(ratios))
    assert median["details"]["not_ok"] == 0
    for name in ("median", "worst"):
        assert f"{len(tables)} drawn: {name}" in done.stdout
