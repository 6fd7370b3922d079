"""The appendix: three rows, two ways to bin, fair samples of many classes, and time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reruns import assert_comes_out_again

from experiments import find, reproduce
from experiments.appendix_bins import distance
from experiments.appendix_cartoon import EXPERIMENT as CARTOON
from experiments.appendix_cartoon import FIGURE, GROUPS, LABELS, parity_of
from experiments.appendix_time import exponent, sample_labels
from experiments.journal import read_results

RESULTS = Path(__file__).resolve().parents[2] / "results"
NAMES = ("appendix_cartoon", "appendix_bins", "appendix_classes", "appendix_time")
TIMES = {"time", "time_per_label_and_round"}


def rows_of(name: str, folder: Path) -> list[dict[str, object]]:
    return reproduce(name, quick=True, output=folder, jobs=1)


def test_figure_1_has_the_papers_numbers_before_and_after_normalising(tmp_path: Path) -> None:
    found = {row["case"]: row for row in rows_of("appendix_cartoon", tmp_path)}
    assert found["data"]["parity"] == pytest.approx(3 / 4)
    assert found["figure"]["parity_before_normalising"] == pytest.approx(0)
    assert found["figure"]["parity"] == pytest.approx(0.1)
    assert found["figure"]["row_2"] == "0.400 0.200 0.400"
    assert CARTOON.section(list(found.values())).count("✓") == 2


def test_the_exact_labels_of_figure_1_are_the_optimum_of_a_general_solver(tmp_path: Path) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    found = {row["case"]: row for row in rows_of("appendix_cartoon", tmp_path)}
    new = cvxpy.Variable((3, 3), nonneg=True)
    fair = (new[0] + new[2]) / 2 == new[1]
    best = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(new - LABELS)), [cvxpy.sum(new, axis=1) == 1, fair]
    ).solve()
    assert found["Exact"]["squared_distance"] == pytest.approx(best, abs=1e-6)
    assert found["Exact"]["parity"] == pytest.approx(0, abs=1e-9)
    assert found["HTO"]["parity"] > 0.1, "normalising brings bias back"


def test_parity_of_the_figures_matrices_is_a_difference_of_plain_means() -> None:
    assert GROUPS.tolist() == [0, 1, 0]
    assert parity_of(FIGURE / FIGURE.sum(axis=1, keepdims=True)) == pytest.approx(
        max(abs(1 / 3 - 2 / 5), abs(1 / 6 - 1 / 5), 0.1)
    )


def test_the_distance_of_samples_is_that_of_kolmogorov_and_smirnov() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 6, 80), rng.integers(1, 9, 50)
    assert distance(one, other) == pytest.approx(
        stats.ks_2samp(one, other, method="asymp").statistic
    )


def test_equal_widths_leave_narrow_modes_apart_and_equal_mass_does_not(tmp_path: Path) -> None:
    found = {(row["bins"], row["spread"]): row for row in rows_of("appendix_bins", tmp_path)}
    narrow, wide = found["equal_width", 0.001], found["equal_mass", 0.001]
    assert narrow["distance_after"] > 0.4
    assert narrow["values_two_modes"] <= 3 < narrow["values_one_mode"]
    assert wide["distance_after"] < 0.01
    assert wide["distance_before"] == narrow["distance_before"] > 0.4


def test_fair_samples_stay_below_the_bounds_and_near_the_permuted_level(tmp_path: Path) -> None:
    for row in rows_of("appendix_classes", tmp_path):
        assert 0 < row["parity"] < row["approximation"]
        assert row["sharper"] <= row["approximation"] + 1e-12
        assert row["parity"] == pytest.approx(row["chance"], rel=0.25)


def test_more_classes_raise_the_standardised_measure_and_more_rows_lower_parity() -> None:
    rows = read_results(RESULTS / "appendix_classes.parquet")

    def mean(measure: str, classes: int, size: int) -> float:
        wanted = ("even", classes, size)
        values = [
            row[measure] for row in rows if (row["kind"], row["classes"], row["size"]) == wanted
        ]
        assert len(values) == 10
        return float(np.mean(values))

    assert (
        mean("standardised", 256, 16_000)
        > mean("standardised", 16, 16_000)
        > mean("standardised", 2, 16_000)
    )
    assert mean("parity", 16, 1_000) / mean("parity", 16, 16_000) == pytest.approx(4, rel=0.1), (
        "the square root of the rows"
    )


def test_drawn_labels_lean_with_the_group_and_repeat() -> None:
    labels, groups = sample_labels("soft", 500, 1)
    np.testing.assert_allclose(labels.sum(axis=1), 1)
    assert (sample_labels("soft", 500, 1)[0] == labels).all()
    classes, groups = sample_labels("class", 5000, 1)
    assert classes[groups == 1].mean() > classes[groups == 0].mean() + 1


def test_a_timed_row_has_a_positive_time_and_fair_labels() -> None:
    experiment = find("appendix_time")
    shape = {"labels": "class", "size": 2_000, "classes": 16, "groups": 2}
    row = experiment.run({**shape, "solver": "exact", "steps": None}, 0, None)
    assert row["time"] > 0
    assert row["label_parity"] < 1e-9 < row["data_parity"]
    assert row["time_per_label_and_round"] is None
    rounds = experiment.run({**shape, "solver": "sgd", "steps": 50}, 0, None)
    assert rounds["time_per_label_and_round"] == pytest.approx(rounds["time"] / 16)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_the_results_come_out_again(name: str) -> None:
    rows = read_results(RESULTS / f"{name}.parquet")
    fast = [
        row
        for row in rows
        if name != "appendix_time" or (row["solver"] == "exact" and row["size"] == 10_000)
    ]
    for row in fast[:: max(1, len(fast) // 3)]:
        assert_comes_out_again(row, ignored=TIMES)


def run_of(name: str, **settings: object) -> dict[str, float]:
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


def test_rounds_are_held_to_the_optimum_of_their_own_problem() -> None:
    known = {"table": "probabilities", "epsilon": 0.0, "tau": 0.5}
    free, pinned = (
        run_of("convergence", target=target, **known) for target in ("free", "population")
    )
    for row in (free, pinned):
        assert row["raw_parity"] < 1e-12
        assert row["short_100"] < 1e-9 < 1e-3 < row["short_1"]
        assert row["parity_100"] < 1e-9
    assert pinned["optimum"] > free["optimum"], "a pinned mean costs distance"


def test_the_bound_of_proposition_2_is_made_of_its_terms() -> None:
    shape = {"data": "synthetic", "classes": 4, "features": 10, "per_class": 1_000, "rows": None}
    row = run_of("guarantee", **shape, learner="knn", trees=None)
    root = np.sqrt(np.log(2 * 4 * 5 / 0.05) / (2 * row["smallest_group"]))
    assert row["confidence"] == pytest.approx(root)
    assert row["printed"] == pytest.approx(
        row["label_parity"] + 2 * row["fit_gap"] + 2 * row["complexity"] + root
    )
    assert row["parity"] <= row["printed"] <= row["proven"]


def test_two_classes_of_one_probability_differ_by_the_root_of_their_number() -> None:
    few, many = (run_of("appendix_balance", classes=classes, size=4_000) for classes in (4, 256))
    assert few["mean_gap"] / np.sqrt(4_000 / 4) == pytest.approx(2 / np.sqrt(np.pi), rel=0.25)
    assert many["mean_gap"] / np.sqrt(4_000 / 256) == pytest.approx(2 / np.sqrt(np.pi), rel=0.25)
    assert many["relative_error"] > 3 * few["relative_error"]


def test_time_grows_by_the_power_that_the_page_says() -> None:
    shapes = [(3_000, 16, 2, 1.0), (3_000, 16, 32, 4.0), (30_000, 16, 2, 100.0)]
    rows = [
        {"labels": "soft", "solver": "exact", "size": n, "classes": c, "groups": g, "time": t}
        for n, c, g, t in shapes
    ]
    assert exponent(rows, "groups", "exact") == pytest.approx(0.5)
    assert exponent(rows, "rows", "exact") == pytest.approx(2.0)
