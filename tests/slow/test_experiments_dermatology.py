"""Dermatology: age in the paper's buckets crossed with sex, any table of scores or features, and two public tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reruns import assert_comes_out_again, skip_without_data

from experiments import reproduce
from experiments.dermatology import PAPER, debias_scores, section, train_and_measure
from experiments.dermatology_data import split_rows
from experiments.journal import read_results
from experiments.learners import measures_of
from experiments.read_dermatology import (
    Cases,
    age_buckets,
    crossed,
    ham10000_cases,
    scin_cases,
)
from r2b.errors import FileFormatError, InputError, LengthError, ParameterError
from r2b.methods import Exact
from r2b.metrics import demographic_parity_difference

RESULTS = Path(__file__).resolve().parents[2] / "results"


def drawn_cases(n: int = 1200, seed: int = 0, n_classes: int = 4) -> Cases:
    """Draw cases whose condition goes with age, two rows per lesion."""
    rng = np.random.default_rng(seed)
    age, sex = (
        rng.uniform(18, 90, n // 2).repeat(2),
        rng.choice(["female", "male"], n // 2).repeat(2),
    )
    condition = np.clip(
        (age / 90 * n_classes + rng.normal(0, 1.0, n)).astype(int), 0, n_classes - 1
    )
    labels = np.eye(n_classes)[condition]
    features = np.column_stack(
        [labels + 0.7 * rng.standard_normal((n, n_classes)), age, sex == "male"]
    )
    units = np.array([f"lesion {i // 2}" for i in range(n)])
    return Cases(features, labels, crossed(age, sex), units, tuple("abcd"[:n_classes]))


def test_ages_fall_into_the_papers_buckets_and_nowhere_else() -> None:
    assert age_buckets([0, 17.99, 18, 29.99, 30, 44, 45, 64.5, 65, 89.9, 90, np.nan]).tolist() == [
        -1,
        -1,
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        -1,
        -1,
    ]


def test_an_age_outside_the_buckets_is_refused_by_row() -> None:
    with pytest.raises(InputError, match=r"Row 1 has the age 95, and 2 rows in all"):
        crossed([20, 95, 10], ["f", "m", "f"])
    with pytest.raises(LengthError, match="2 ages and 1 sexes"):
        crossed([20, 30], ["f"])


def test_no_lesion_is_in_two_splits_and_every_group_is_in_all() -> None:
    cases = drawn_cases()
    rows = split_rows(cases, (0.76, 0.12, 0.12), seed=4)
    parts = [set(cases.units[part]) for part in (rows.train, rows.tune, rows.test)]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
    assert sorted(np.concatenate([rows.train, rows.tune, rows.test]).tolist()) == list(
        range(len(cases))
    )
    assert all(len(set(cases.groups[part])) == 8 for part in (rows.train, rows.tune, rows.test))
    assert len(rows.tune) == pytest.approx(0.12 * len(cases), rel=0.1)
    assert (split_rows(cases, (0.76, 0.12, 0.12), seed=4).test == rows.test).all()
    assert set(split_rows(cases, (0.76, 0.12, 0.12), seed=5).test) != set(rows.test)


def test_a_group_that_cannot_be_divided_is_refused_by_name() -> None:
    cases = drawn_cases()
    few = np.concatenate(
        [
            np.flatnonzero(cases.groups != "65-89 male"),
            np.flatnonzero(cases.groups == "65-89 male")[:2],
        ]
    )
    small = Cases(
        cases.features[few], cases.labels[few], cases.groups[few], cases.units[few], cases.classes
    )
    with pytest.raises(ParameterError, match="'65-89 male' has 1 units"):
        split_rows(small, (0.5, 0.25, 0.25), seed=0)


def test_ham10000_joins_by_image_and_leaves_out_what_has_no_group() -> None:
    metadata = {
        "image_id": np.array(["i1", "i2", "i3", "i4", "i5"]),
        "lesion_id": np.array(["l1", "l1", "l2", "l3", "l4"]),
        "dx": np.array(["nv", "nv", "mel", "bkl", "nv"]),
        "age": np.array([20.0, 20.0, 70.0, np.nan, 50.0]),
        "sex": np.array(["female", "female", "male", "male", "unknown"]),
    }
    features = {
        "image_id": np.array(["i3", "i2", "i1", "i4", "i5"]),
        "pc0": np.array([3.0, 2.0, 1.0, 4.0, 5.0]),
    }
    found = ham10000_cases(metadata, features)
    assert found.features.tolist() == [[1, 20, 0], [2, 20, 0], [3, 70, 1]]
    assert found.classes == ("bkl", "mel", "nv")
    assert found.labels.tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert found.groups.tolist() == ["18-29 female", "18-29 female", "65-89 male"]
    assert found.left_out == 2
    with pytest.raises(FileFormatError, match="'i1'"):
        ham10000_cases(metadata, {"image_id": np.array(["i3"]), "pc0": np.array([3.0])})


def scin_tables(label: str = "{'A': 0.5, 'B': 0.5}") -> tuple[dict[str, Any], dict[str, Any]]:
    cases = {
        "case_id": np.array([7, 8, 9, 10]),
        "age_group": np.array(["AGE_18_TO_29", "AGE_40_TO_49", "AGE_UNKNOWN", "AGE_60_TO_69"]),
        "sex_at_birth": np.array(["FEMALE", "MALE", "MALE", "FEMALE"]),
        "textures_flat": np.array(["YES", None, None, None], dtype=object),
        "condition_duration": np.array(["ONE_DAY", "UNKNOWN", "ONE_DAY", "ONE_DAY"]),
        "related_category": np.array(["RASH", "RASH", "RASH", "ACNE"]),
        "fitzpatrick_skin_type": np.array(["FST1", "FST2", "FST1", "FST1"]),
    }
    labels = {
        "case_id": np.array([8, 7, 10, 9]),
        "weighted_skin_condition_label": np.array(
            [label, "{'A': 0.66, 'C': 0.33}", "{}", "{'A': 1.0}"], dtype=object
        ),
    }
    return cases, labels


def test_scin_keeps_frequent_conditions_and_puts_the_rest_into_other() -> None:
    found = scin_cases(*scin_tables(), n_conditions=2)
    assert found.classes == ("A", "B", "other")
    np.testing.assert_allclose(found.labels, [[0.5, 0.5, 0], [2 / 3, 0, 1 / 3]])
    assert found.groups.tolist() == ["45-64 male", "18-29 female"]
    assert found.left_out == 2
    assert found.features[:, 0].tolist() == [0, 1]
    with pytest.raises(FileFormatError, match="In row 0"):
        scin_cases(*scin_tables("nonsense("))


def test_scores_are_debiased_by_the_tuning_split_with_the_attribute() -> None:
    cases = drawn_cases(4000)
    powers = np.exp(cases.features[:, :4])
    scores = powers / powers.sum(axis=1, keepdims=True)
    tune, test = np.arange(0, 4000, 2), np.arange(1, 4000, 2)
    known = {"sensitive_features": cases.groups[test]}
    before = demographic_parity_difference(scores[test], **known)
    fair = debias_scores(
        "Exact", scores[tune], cases.groups[tune], scores[test], cases.groups[test]
    )
    assert demographic_parity_difference(fair, **known) < before / 2
    assert (
        demographic_parity_difference(
            debias_scores("Exact", scores, cases.groups, scores, cases.groups),
            sensitive_features=cases.groups,
        )
        < 1e-9
    )
    same = (
        Exact()
        .fit(scores[tune], sensitive_features=cases.groups[tune])
        .transform(scores[test], **known)
    )
    np.testing.assert_allclose(fair, same, atol=1e-7)
    for method in ("DPR", "OST", "HTO", "R2B0", "R2B"):
        found = debias_scores(
            method, scores[tune], cases.groups[tune], scores[test], cases.groups[test]
        )
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
        assert (found >= 0).all()
    assert debias_scores("BL", scores, cases.groups, scores, cases.groups) is scores
    with pytest.raises(ParameterError, match="'RW' does not change scores"):
        debias_scores("RW", scores, cases.groups, scores, cases.groups)


def test_top_k_against_soft_labels_is_the_expected_accuracy() -> None:
    labels = np.array([[0.6, 0.3, 0.1], [0.0, 0.5, 0.5]])
    scores = np.array([[0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
    found = measures_of(scores, labels, np.array(["a", "b"]))
    assert found["top_1"] == pytest.approx((0.3 + 0.5) / 2)
    assert found["top_2"] == pytest.approx((0.4 + 1.0) / 2)
    assert found["top_3"] == pytest.approx(1.0)
    assert found["error_parity"] == pytest.approx(0.2)
    assert found["parity"] == pytest.approx(0.4)


def test_training_on_fair_labels_lowers_parity_of_new_predictions() -> None:
    cases = drawn_cases(4000)
    rows = split_rows(cases, (0.6, 0.2, 0.2), seed=0)
    before, after = (train_and_measure(cases, rows, method, seed=0) for method in ("BL", "Exact"))
    assert after["fitted_parity"] < 1e-9 < 0.3 < before["fitted_parity"]
    assert after["parity"] < 0.7 * before["parity"]
    assert before["top_1"] > 0.5
    assert train_and_measure(cases, rows, "Exact", seed=0) == after


def test_the_page_is_made_of_rows_and_of_the_papers_numbers() -> None:
    rows = read_results(RESULTS / "dermatology.parquet")
    page = section(rows)
    values = [
        100 * row["top_1"]
        for row in rows
        if (row["table"], row["use"], row["method"]) == ("ham10000", "scores", "Exact")
        and row["seed"] < 10
    ]
    assert len(values) == 10
    assert f"{np.mean(values):.1f} ± {3.250 * np.std(values, ddof=1) / np.sqrt(10):.1f}" in page
    assert PAPER["top_1", "HTO"] == (48.9, 0.9)
    assert len(PAPER) == 30


def test_both_public_tables_run_in_the_small_setting(tmp_path: Path) -> None:
    skip_without_data("ham10000", "scin")
    rows = reproduce("dermatology", quick=True, output=tmp_path, jobs=1)
    found = {(row["table"], row["use"], row["method"]): row for row in rows}
    assert len(rows) == 38 == len(found)
    assert found["ham10000", "training", "BL"]["n_left_out"] == 308
    assert found["scin", "training", "BL"]["n_classes"] == 27
    for table in ("ham10000", "scin"):
        assert found[table, "training", "BL"]["top_1"] == found[table, "scores", "BL"]["top_1"], (
            "the same model"
        )
        assert found[table, "scores", "Exact"]["fitted_parity"] < 1e-9


def test_rows_of_the_results_come_out_again() -> None:
    skip_without_data("ham10000", "scin")
    rows = read_results(RESULTS / "dermatology.parquet")
    for row in [
        row
        for row in rows
        if row["seed"] == 7 and row["method"] in ("DPR", "R2B") and row["table"] == "scin"
    ]:
        assert_comes_out_again(row)
