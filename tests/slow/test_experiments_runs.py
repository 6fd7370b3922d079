"""What experiments compute: learners, labels and samples by their definitions, and stored rows that
come out again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reruns import assert_agrees, assert_comes_out_again, skip_without_data

from experiments import find, reproduce
from experiments.adult import run as adult_run
from experiments.appendix_cartoon import LABELS, section
from experiments.experiment import Row
from experiments.journal import read_results, results_path
from experiments.labelling import LABEL_METHODS, METHODS, VISIBLE, drawn_classes
from experiments.learners import class_forest, measures_of, nearest, per_class_forest, vote
from experiments.synthetic import run as synthetic_run

RESULTS = Path(__file__).resolve().parents[2] / "results"

needs_results = pytest.mark.skipif(
    not results_path(RESULTS, "adult").exists(),
    reason="the results files are not part of this distribution",
)


# Learners and labels.


def test_forests_return_distributions_over_all_classes() -> None:
    rng = np.random.default_rng(5)
    X, X_test = rng.normal(size=(300, 4)), rng.normal(size=(50, 4))
    y, known = np.digitize(X[:, 0], [-0.5, 0.5]), np.digitize(X_test[:, 0], [-0.5, 0.5])
    shares = class_forest(X, X_test, y, 4, None, seed=0, trees=10)  # class 3 has no rows
    assert shares.shape == (50, 4) and not shares[:, 3].any()
    for scores in (shares, per_class_forest(X, X_test, np.eye(3)[y], None, seed=0, trees=10)):
        np.testing.assert_allclose(scores.sum(axis=1), 1.0)
        assert (scores.argmax(axis=1) == known).mean() > 0.9


def test_votes_of_the_nearest_rows_are_scikit_learns_and_count_by_weight() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(3)
    X, asked, y = rng.normal(size=(200, 3)), rng.normal(size=(40, 3)), rng.integers(0, 4, 200)
    theirs = KNeighborsClassifier().fit(X, y).predict_proba(asked)
    np.testing.assert_allclose(vote(nearest(X, asked), y, 4), theirs)
    found, labels = np.array([[0, 2], [1, 2]]), np.array([0, 1, 2])
    weighted = vote(found, labels, 3, np.array([3.0, 1.0, 1.0]))
    np.testing.assert_allclose(weighted, [[0.75, 0, 0.25], [0, 0.5, 0.5]])


@pytest.mark.parametrize("even", [False, True])
def test_labels_are_drawn_with_their_chances(even: bool) -> None:
    channel = np.array([[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.1, 0.3, 0.6]])
    y = np.repeat([0, 1, 2], 5_000)

    def drawn(seed: int) -> np.ndarray:
        return drawn_classes(channel[y], np.random.default_rng(seed), y if even else None)

    shares = np.stack([np.bincount(drawn(0)[y == k], minlength=3) / 5_000 for k in range(3)])
    # Even draws are exact to within one row of 5,000.
    np.testing.assert_allclose(shares, channel, atol=2.1e-4 if even else 0.025)
    one = [drawn(seed)[12_000] for seed in range(400)]
    np.testing.assert_allclose(np.bincount(one, minlength=3) / 400, channel[2], atol=0.1)


def test_measures_are_those_of_the_definitions() -> None:
    scores = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]])
    y, groups = np.array([0, 1, 0, 2]), np.array([0, 0, 1, 1])
    found = measures_of(scores, y, groups)
    assert found["parity"] == pytest.approx(0.05)
    assert found["top_1"] == pytest.approx(0.5)
    assert found["top_2"] == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found["error_parity"] == pytest.approx(1.0)
    tied = np.array([[0.4, 0.2, 0.4], [0.2, 0.4, 0.4]])
    for true, lowest in (([2, 1], 0.5), ([0, 1], 1.0), ([2, 2], 0.0)):
        rows = tied, np.array(true), np.array([0, 1])
        assert measures_of(*rows)["top_1"] == pytest.approx(0.5)
        assert measures_of(*rows, ties="lowest")["top_1"] == lowest
    # Against distributions it is the expected accuracy.
    labels = np.array([[0.6, 0.3, 0.1], [0.0, 0.5, 0.5]])
    scores = np.array([[0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
    found = measures_of(scores, labels, np.array(["a", "b"]))
    tops = [found[f"top_{k}"] for k in (1, 2, 3)]
    assert tops == pytest.approx([(0.3 + 0.5) / 2, (0.4 + 1.0) / 2, 1.0])
    assert (found["error_parity"], found["parity"]) == pytest.approx((0.2, 0.4))


# Samples.


TINY_ADULT = {
    "features": "mixed",
    "order": "education-num",
    "repair": "columns",
    "rows": 3_000,
    "trees": 2,
    "p": 0.5,
}
TINY_SYNTHETIC = {"classes": 4, "features": 10, "per_class": 100, "test_rows": 400, "trees": 2}


@pytest.mark.parametrize("learner", ["knn", "rf"])
def test_every_method_can_be_run_small(learner: str) -> None:
    for method in (*METHODS, VISIBLE):
        known: dict[str, Any] = {"learner": learner, "method": method}
        rows = [adult_run({**TINY_ADULT, **known}, 0, None)]
        for attribute in ("hidden", "feature"):
            setting = {**TINY_SYNTHETIC, **known, "attribute": attribute}
            rows.append(synthetic_run(setting, 0, None))
        for row in rows:
            assert all(0 <= value <= 1 for value in row.values())
            assert row["data_parity"] > 0.3
            exact, most = method in ("R2B", "Exact"), 0.12 if method in LABEL_METHODS else 1
            assert row["label_parity"] < (1e-3 if exact else most)
    # A quadratic discriminant analysis refuses groups of fewer rows than features as it comes.
    few = {**TINY_SYNTHETIC, "features": 100, "per_class": 60, "attribute": "hidden"}
    assert synthetic_run({**few, "learner": learner, "method": VISIBLE}, 0, None)["parity"] >= 0


# The appendix.


def test_figure_1_has_the_papers_numbers_and_the_optimum_of_a_general_solver(
    tmp_path: Path,
) -> None:
    rows = reproduce("appendix_cartoon", quick=True, output=tmp_path, jobs=1)
    found = {row["case"]: row for row in rows}
    assert found["data"]["parity"] == pytest.approx(3 / 4)
    assert found["figure"]["parity_before_normalising"] == pytest.approx(0)
    assert found["figure"]["parity"] == pytest.approx(0.1)
    assert found["figure"]["row_2"] == "0.400 0.200 0.400"
    assert found["HTO"]["parity"] > 0.1, "normalising brings bias back"
    assert section(rows).count("✓") == 2
    cvxpy = pytest.importorskip("cvxpy")
    new = cvxpy.Variable((3, 3), nonneg=True)
    conditions = [cvxpy.sum(new, axis=1) == 1, (new[0] + new[2]) / 2 == new[1]]
    best = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(new - LABELS)), conditions).solve()
    assert found["Exact"]["squared_distance"] == pytest.approx(best, abs=1e-6)
    assert found["Exact"]["parity"] == pytest.approx(0, abs=1e-9)


def run_of(name: str, **settings: object) -> Row:
    return find(name).run(settings, 0, None)


@pytest.mark.parametrize("method", ["OST", "HTO", "R2B0"])
def test_debiasing_classes_one_by_one_is_fair_until_rows_are_divided(method: str) -> None:
    row = run_of("normalising", kind="labels", classes=4, per_class=1_000, method=method)
    assert row["before"] < 1e-12
    assert row["change_over_excess"] < 1e-12, "no class mean changes by more than the excess"
    assert row["shifted"] < 1e-12, (
        "the additive step keeps means whose excess is the same in all groups"
    )
    assert 0.01 < row["divided"] < row["data_parity"]
    assert row["sampled_excess"] <= row["hoeffding"]
    assert (row["excess"] < 1e-12) == (method != "OST"), "pinned means add up to 1"


def test_the_bound_of_proposition_2_is_made_of_its_terms() -> None:
    shape = {"data": "synthetic", "classes": 4, "features": 10, "per_class": 1_000, "rows": None}
    row = run_of("guarantee", **shape, learner="knn", trees=None)
    root = np.sqrt(np.log(2 * 4 * 5 / 0.05) / (2 * row["smallest_group"]))
    assert row["confidence"] == pytest.approx(root)
    terms = row["label_parity"] + 2 * row["fit_gap"] + 2 * row["complexity"] + root
    assert row["printed"] == pytest.approx(terms)
    assert row["parity"] <= row["printed"] <= row["proven"]


# Stored rows.

SMALL = {"classes": 4, "features": 10, "per_class": 1_000, "learner": "knn"}
TIMES = {"time", "time_per_label_and_round"}


@needs_results
@pytest.mark.parametrize(
    ("name", "seed", "wanted"),
    [
        ("rounds", 4, {"classes": 16, "per_class": 2_000, "epsilon": 0.05, "target": None}),
        ("rounds", 2, {"classes": 4, "per_class": 1_000, "epsilon": 0.0, "target": "population"}),
        ("synthetic", 0, {**SMALL, "method": "Exact", "attribute": "feature"}),
        ("synthetic", 7, {**SMALL, "method": "RW", "attribute": "hidden"}),
        ("synthetic", 9, {**SMALL, "method": "DPR", "attribute": "hidden"}),
        ("synthetic", 5, {**SMALL, "method": "Visible", "attribute": "hidden"}),
        (
            "convergence",
            0,
            {"table": "Adult, sex", "target": "population", "epsilon": 0.05, "tau": 2.0},
        ),
        ("normalising", 6, {"kind": "labels", "classes": 4, "per_class": 2_000, "method": "OST"}),
        ("appendix_balance", 8, {"classes": 64, "size": 4_000}),
        ("appendix_bins", 1, {"bins": "equal_width", "size": 500, "spread": 0.1}),
        ("appendix_cartoon", 0, {"case": "R2B"}),
        ("appendix_classes", 3, {"kind": "skewed", "size": 1_000, "classes": 16}),
        (
            "appendix_time",
            2,
            {"solver": "exact", "labels": "soft", "size": 10_000, "classes": 16, "groups": 2},
        ),
        ("guarantee", 1, {"classes": 4, "features": 10, "learner": "knn"}),
        ("adult", 3, {"learner": "knn", "p": 0.5, "method": "HTO", "missing": None}),
        ("dermatology", 7, {"table": "scin", "use": "scores", "method": "R2B"}),
        ("dermatology", 7, {"table": "scin", "use": "training", "method": "DPR"}),
    ],
)
def test_a_row_comes_out_again(name: str, seed: int, wanted: dict[str, object]) -> None:
    if name == "dermatology":
        skip_without_data("scin")
    rows = read_results(results_path(RESULTS, name))
    known = {**wanted, "seed": seed}
    [row] = [row for row in rows if all(row.get(key) == value for key, value in known.items())]
    assert_comes_out_again(row, ignored=TIMES)


@needs_results
def test_a_rerun_that_is_off_is_seen() -> None:
    rows = read_results(results_path(RESULTS, "adult"))
    row = next(row for row in rows if (row["learner"], row["method"]) == ("rf", "HTO"))
    assert_agrees({**row, "parity": row["parity"] + 6e-7, "top_2": row["top_2"] + 8.8e-5}, row)
    for wrong in (
        {"parity": row["parity"] + 2e-3},
        {"label_parity": row["label_parity"] + 1e-8},
        {"method": "OST"},
    ):
        with pytest.raises(AssertionError):
            assert_agrees({**row, **wrong}, row)
