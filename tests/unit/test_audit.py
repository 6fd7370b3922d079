"""What an audit measures, against arithmetic that shares no code with it, and what must not change
it.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import r2b
from r2b._audit import FamilyAudit, audit
from r2b.errors import EmptyError, InputError, ParameterError, WeightError

QUIET: dict[str, Any] = {"n_permutations": 0, "n_boot": 0}


@pytest.fixture(scope="module")
def adult() -> pd.DataFrame:
    return r2b.datasets.load_adult(as_frame="pandas")


def table_of(
    frame: pd.DataFrame, columns: list[str], weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Mean of every class in every group, in the order of sorted names."""
    w = pd.Series(np.ones(len(frame)) if weight is None else weight, index=frame.index)
    sums = (
        w.groupby([frame[name] for name in [*columns, "education"]])
        .sum()
        .unstack("education", fill_value=0.0)
        .sort_index()
    )
    return (sums.div(sums.sum(axis=1), axis=0)).to_numpy()


def agrees(family: FamilyAudit, means: NDArray[np.float64], share: NDArray[np.float64]) -> None:
    overall = share @ means
    np.testing.assert_allclose(family.means, means, atol=1e-12)
    np.testing.assert_allclose(family.share, share, atol=1e-12)
    np.testing.assert_allclose(family.overall, overall, atol=1e-12)
    gaps = np.abs(means[:, None] - means[None]).max(axis=(0, 1))
    np.testing.assert_allclose(family.disparity_by_class, gaps, atol=1e-12)
    assert family.disparity == pytest.approx(gaps.max())
    assert family.to_overall == pytest.approx(np.abs(means - overall).max())
    ratios = [min(column) / max(column) if max(column) else np.nan for column in means.T.tolist()]
    np.testing.assert_allclose(family.ratio_by_class, ratios, atol=1e-12)
    k = int(gaps.argmax())
    assert family.largest.class_name == family.classes[k]
    assert family.largest.groups == (
        family.groups[int(means[:, k].argmax())],
        family.groups[int(means[:, k].argmin())],
    )
    assert family.largest.value == pytest.approx(gaps.max())


def test_margins_and_intersections_of_adult_agree_with_pandas(adult: pd.DataFrame) -> None:
    found = audit(adult["education"], sensitive_features=adult[["sex", "race"]], **QUIET)
    assert [family.name for family in found.families] == ["sex", "race", "sex x race"]
    assert [len(family.groups) for family in found.families] == [2, 5, 10]
    for family, columns in zip(found.families, (["sex"], ["race"], ["sex", "race"]), strict=True):
        counts = adult.groupby(columns).size().sort_index()
        assert family.rows.tolist() == counts.tolist()
        agrees(family, table_of(adult, columns), counts.to_numpy() / len(adult))
        names = [
            ", ".join(f"{c}={v}" for c, v in zip(columns, np.atleast_1d(key), strict=True))
            for key in counts.index
        ]
        assert list(family.groups) == names
        assert family.left_out == 0
    assert found.worst == found.families[2].largest
    np.testing.assert_allclose(
        found.overall, adult["education"].value_counts(normalize=True).sort_index().to_numpy()
    )


def test_weights_enter_every_mean(adult: pd.DataFrame) -> None:
    weight = np.random.default_rng(3).gamma(0.7, size=len(adult))
    found = audit(
        adult["education"], sensitive_features=adult[["sex", "race"]], sample_weight=weight, **QUIET
    )
    for family, columns in zip(found.families, (["sex"], ["race"], ["sex", "race"]), strict=True):
        share = (
            pd.Series(weight)
            .groupby([adult[name] for name in columns])
            .sum()
            .sort_index()
            .to_numpy()
        )
        agrees(family, table_of(adult, columns, weight), share / share.sum())


def test_control_features_compare_groups_within_each_stratum(adult: pd.DataFrame) -> None:
    found = audit(
        adult["education"],
        sensitive_features=adult[["sex", "race"]],
        control_features=adult[["workclass"]],
        **QUIET,
    )
    strata = sorted(adult["workclass"].unique())
    names = [
        f"{family} | workclass={stratum}"
        for stratum in strata
        for family in ("sex", "race", "sex x race")
    ]
    assert [family.name for family in found.families] == names
    for family in found.families:
        columns, _, stratum = family.name.partition(" | workclass=")
        inside = adult[adult["workclass"] == stratum]
        counts = inside.groupby(columns.split(" x ")).size().sort_index()
        means = pd.DataFrame(
            table_of(inside, columns.split(" x ")), columns=sorted(inside["education"].unique())
        )
        means = means.reindex(columns=sorted(adult["education"].unique()), fill_value=0.0)
        agrees(family, means.to_numpy(), counts.to_numpy() / len(inside))
        assert family.left_out == 0  # rows of other strata are not left out, they are elsewhere
    present = adult.groupby(["workclass", "sex", "race"]).size().unstack("workclass", fill_value=0)
    assert (
        len([each for each in found.absent if each.family == "sex x race"])
        == int((present == 0).to_numpy().sum())
        > 0
    )
    with pytest.raises(InputError, match="no rows of the group"):
        audit(
            adult["education"],
            sensitive_features=adult[["sex", "race"]],
            control_features=adult[["workclass"]],
            absent="error",
            **QUIET,
        )


def soft_example(n: int = 600) -> tuple[NDArray[np.float64], dict[str, Any], NDArray[np.float64]]:
    rng = np.random.default_rng(5)
    people = {"sex": rng.choice(["f", "m"], n), "job": rng.choice(["x", "y", "z"], n)}
    matrix = rng.dirichlet([1.0, 2.0, 3.0], n)
    matrix[people["sex"] == "f"] = rng.dirichlet([3.0, 2.0, 1.0], int((people["sex"] == "f").sum()))
    return matrix, people, rng.uniform(0.5, 2, n)


def test_probabilities_are_averaged() -> None:
    matrix, people, weight = soft_example()
    found = audit(matrix, sensitive_features=people, sample_weight=weight, **QUIET)
    for place, sex in enumerate("fm"):
        rows = people["sex"] == sex
        np.testing.assert_allclose(
            found.families[0].means[place],
            np.average(matrix[rows], axis=0, weights=weight[rows]),
            atol=1e-12,
        )
    assert found.families[0].disparity == pytest.approx(
        r2b.metrics.demographic_parity_difference(
            matrix, sensitive_features=people["sex"], sample_weight=weight
        )
    )


def with_gaps() -> tuple[list[str], dict[str, list[str | None]]]:
    y = ["a", "b", "a", "b", "b", "a", "a", "b"]
    return y, {
        "sex": ["f", "f", "m", "m", None, "m", "f", None],
        "job": ["x", "y", "x", "y", "x", "y", None, "x"],
    }


def test_missing_values_form_a_group_on_request() -> None:
    y, people = with_gaps()
    sex = audit(y, sensitive_features=people, missing="group", **QUIET).families[0]
    assert sex.groups == ("sex=f", "sex=m", "sex=missing")
    assert sex.means[2].tolist() == [0.0, 1.0]
    assert sex.left_out == 0


def test_missing_values_are_left_out_of_their_families_and_counted() -> None:
    y, people = with_gaps()
    found = audit(y, sensitive_features=people, missing="exclude", n_permutations=10, n_boot=10)
    assert [
        (family.name, family.left_out, int(family.rows.sum())) for family in found.families
    ] == [("sex", 2, 6), ("job", 1, 7), ("sex x job", 3, 5)]
    sex = found.families[0]
    np.testing.assert_allclose(sex.means, [[2 / 3, 1 / 3], [2 / 3, 1 / 3]])
    assert sex.overall.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert found.left_out == 0  # every row is in some family
    alone = audit(y, sensitive_features={"sex": people["sex"]}, missing="exclude", **QUIET)
    assert alone.left_out == pytest.approx(2 / 8)


def test_small_groups_are_refused_by_name_or_merged() -> None:
    y, s = ["a", "b"] * 10 + ["a", "b", "a"], ["f"] * 10 + ["m"] * 10 + ["d", "d", "e"]
    with pytest.raises(InputError, match="sex=d'"):
        audit(y, sensitive_features={"sex": s}, min_group_size=3)
    merged = audit(
        y, sensitive_features={"sex": s}, min_group_size=3, small_groups="merge", **QUIET
    ).families[0]
    assert merged.groups == ("sex=f", "sex=m", "sex=other")
    assert merged.rows.tolist() == [10, 10, 3]
    np.testing.assert_allclose(merged.means[2], [2 / 3, 1 / 3])


def test_worst_and_exceeds_name_family_class_and_groups() -> None:
    y = ["a"] * 3 + ["b"] * 7 + ["a"] * 5 + ["c"] * 5
    found = audit(y, sensitive_features={"sex": ["f"] * 10 + ["m"] * 10}, **QUIET)
    assert found.worst is not None
    assert (found.worst.family, found.worst.class_name, found.worst.groups) == (
        "sex",
        "b",
        ("f", "m"),
    )
    assert found.worst.value == pytest.approx(0.7)
    assert [(each.class_name, round(each.value, 6)) for each in found.exceeds(0.2)] == [
        ("b", 0.7),
        ("c", 0.5),
    ]
    with pytest.raises(ParameterError, match="epsilon"):
        found.exceeds(-0.1)


def test_a_parity_of_epsilon_does_not_exceed_it_whatever_its_last_digit() -> None:
    y = ["a"] * 8 + ["b"] * 2 + ["a"] + ["b"] * 9
    found = audit(y, sensitive_features=["f"] * 10 + ["m"] * 10, **QUIET)
    assert found.families[0].disparity > 0.7  # 0.8 - 0.1 in floating point
    assert found.exceeds(0.7) == ()
    assert len(found.exceeds(0.699)) == 2


def test_labels_of_one_class_and_tables_of_one_group_are_fair() -> None:
    one_class = audit(["a"] * 6, sensitive_features=["f", "m"] * 3)
    one_group = audit(["a", "b"] * 3, sensitive_features=["f"] * 6)
    for found in (one_class, one_group):
        assert found.worst is None and found.largest is not None and found.largest.value == 0
        assert found.families[0].chance is not None and found.families[0].chance.p_value == 1
        assert not found.ranked[0].beyond_chance


def test_facts_are_strict_json_and_the_account_holds_the_main_ones(adult: pd.DataFrame) -> None:
    some = adult.iloc[:2000]
    people = {"sex": some["sex"], "race": some["race"], "age": r2b.Continuous(some["age"])}
    found = audit(some["education"], sensitive_features=people, n_permutations=20, n_boot=20)
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert stored["families"][0]["disparity"] == found.families[0].disparity
    assert stored["largest"]["class_name"] == found.largest.class_name if found.largest else False
    assert [each["beyond_chance"] for each in stored["ranked"]] == [
        each.beyond_chance for each in found.ranked
    ]
    text = str(found)
    for family in found.families:
        assert f"{family.name} (" in text
        assert f"{family.disparity:.4f}" in text
    assert f"{100 * found.continuous[0].explained:.2f} %" in text
    assert found.ranked[0].group in text
    assert "2,000 rows" in repr(found)


def test_an_empty_class_has_no_ratio() -> None:
    matrix = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]] * 4)
    found = audit(matrix, sensitive_features=["f", "m"] * 4)
    assert np.isnan(found.families[0].ratio_by_class[2])
    assert found.families[0].ratio == pytest.approx(0.4)
    assert found.to_json()["families"][0]["ratio_by_class"][2] is None


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"n_permutations": -1}, "n_permutations"),
        ({"n_boot": 1}, "n_boot"),
        ({"level": 1.0}, "level"),
        ({"random_state": None}, "random_state"),
        ({"n_largest": -1}, "n_largest"),
        ({"families": "all"}, "families"),
        ({"families": ["race"]}, "race"),
        ({"missing": "drop"}, "missing"),
        ({"min_group_size": -2}, "min_group_size"),
    ],
)
def test_an_argument_outside_its_range_is_refused_with_its_name(
    wrong: dict[str, Any], word: str
) -> None:
    with pytest.raises(ParameterError, match=word):
        audit(["a", "b"], sensitive_features={"sex": ["f", "m"]}, **wrong)


def test_data_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(EmptyError):
        audit([], sensitive_features=[])
    with pytest.raises(WeightError, match=r"zero|no weight"):
        audit(["a", "b", "a"], sensitive_features=["f", "m", "m"], sample_weight=[0, 1, 1])
    with pytest.raises(InputError, match="distinct values"):
        audit(np.random.default_rng(0).permutation(3000), sensitive_features=np.arange(3000) % 2)


def test_chance_explains_no_more_than_a_measure_can_be() -> None:
    """Groups of a row or two go far by chance; shares are never more than 1 apart."""
    rng = np.random.default_rng(3)
    y, group = rng.choice(["a", "b"], 60), np.append(np.arange(30), rng.integers(30, 33, 30))
    found = audit(y, sensitive_features={"team": group}, n_boot=0, n_permutations=99)
    levels = found.families[0].levels
    assert levels is not None and 0.5 < levels.max() <= 1.0  # of two groups they add up to more
    assert found.largest is not None and (found.largest.value, found.largest.level) == (1.0, 1.0)
    assert "chance explains 1.0000" in str(found)
