"""Learners on Adult with injected bias: what fair labels bring to held-out rows, and that the
argmax does not; the recorded figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.ensemble import RandomForestRegressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.learners import RESULTS
from benchmarks.learners_cases import Learner, adult, split_of, trained
from r2b.metrics import demographic_parity_difference

ROOT = Path(__file__).resolve().parents[2]
SPLITS = 10  # of the recorded figures
FEW_SPLITS = 4
TRAIN_ROWS = 8_000  # of 33,917, so that the test takes seconds; all 11,305 test rows are kept
PAPER_LEVEL = 0.015
PAPER_ACCURACY = {"random forest, one per class": 0.340, "random forest": 0.340, "kNN": 0.311}


def forest() -> MultiOutputRegressor:
    return MultiOutputRegressor(
        RandomForestRegressor(5, max_depth=5, max_samples=0.3, random_state=0)
    )


LEARNERS = {
    "forest": Learner("forest", {"soft": forest}),
    "kNN": Learner("kNN", {"sample": KNeighborsClassifier}),
}


@cache
def mean_parity(name: str, way: str, n_splits: int = FEW_SPLITS) -> float:
    found = []
    for seed in range(n_splits):
        split = split_of(0.5, seed).head(TRAIN_ROWS)
        predicted, _ = trained(LEARNERS[name], way, split)(split.X_test)
        found.append(demographic_parity_difference(predicted, sensitive_features=split.sex_test))
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("name", "way"), [("forest", "soft"), ("kNN", "sample"), ("kNN", "sample, agreement")]
)
def test_probability_parity_on_held_out_rows_reaches_the_level_of_the_paper(name, way):
    assert mean_parity(name, "baseline", 2) > 0.2
    assert mean_parity(name, way) <= PAPER_LEVEL


def test_training_on_the_argmax_does_not_reach_it():
    assert mean_parity("kNN", "argmax") > PAPER_LEVEL


def test_the_features_hold_no_sex_and_the_injected_labels_the_bias_of_the_paper():
    X, y, sex = adult()
    assert X.shape == (45_222, 29)
    assert set(np.unique(y)) == set(range(16))
    assert max(abs(np.corrcoef(X.T, sex)[-1, :-1])) < 0.9
    split = split_of(0.5, 3)
    assert 0.48 < demographic_parity_difference(split.y, sensitive_features=split.sex) < 0.52
    assert demographic_parity_difference(
        split_of(0.0, 3).y, sensitive_features=split_of(0.0, 3).sex
    ) == pytest.approx(0.05, abs=0.006)
    assert len(split.y) == 33_917
    assert len(split.y_test) == 11_305
    assert split.X.min() == 0
    assert split.X.max() == 1


@pytest.fixture(scope="module")
def recorded():
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    return {(row["p"], row["learner"], row["way"]): row for row in rows}


def mean_of(row, measure="probability"):
    return float(np.mean(row[measure]))


def test_every_recorded_learner_meets_what_was_asked_of_it(recorded):
    chosen = [row for row in recorded.values() if row["auto"] and row["p"] == 0.5]
    assert len(chosen) == 7
    for row in chosen:
        assert len(row["probability"]) == SPLITS
        before = mean_of(recorded[0.5, row["learner"], "baseline"])
        assert mean_of(row) < before / 10, row["learner"]
        if row["learner"] in PAPER_ACCURACY:
            assert mean_of(row) <= PAPER_LEVEL, row["learner"]


def test_picture_and_tables_of_the_page_are_those_of_the_recorded_figures():
    pytest.importorskip("scipy")
    script = ROOT / "scripts" / "make_learners_figure.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
