"""What an audit says about chance and about its own precision: valid under the null, equal to the
measures it stands on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import r2b
from r2b._audit import Audit, audit
from r2b._audit.measure import Draws
from r2b.metrics.chance import sampling_level
from r2b.metrics.explained import explained_variation
from r2b.metrics.intervals import disparity_interval


@pytest.fixture(scope="module")
def adult() -> Any:
    return r2b.datasets.load_adult()


@pytest.fixture(scope="module")
def found(adult: Any) -> Audit:
    people = {"sex": adult["sex"], "race": adult["race"], "age": r2b.Continuous(adult["age"])}
    return audit(adult["education"], sensitive_features=people)


def test_chance_and_interval_are_those_of_the_measures_on_their_own(adult: Any) -> None:
    y, race = adult["education"], adult["race"]
    family = audit(y, sensitive_features=race, n_permutations=50, n_boot=40, level=0.9).families[0]
    level = sampling_level(
        y, sensitive_features=race, n_permutations=50, random_state=Draws().rng("groups")
    )
    assert family.chance is not None
    assert (family.chance.mean, family.chance.p_value) == (level.mean, level.p_value)
    # of 1 + 50 tables two are the last to be 1 in 20 or fewer
    assert family.chance.quantile == np.sort(level.draws)[-2]
    interval = disparity_interval(y, sensitive_features=race, level=0.9)
    assert family.interval == interval


def test_families_of_adult_are_beyond_chance_and_age_explains_as_much_as_measured_alone(
    adult: Any, found: Audit
) -> None:
    for family in found.families:
        assert family.chance is not None and family.interval is not None
        assert family.chance.p_value == pytest.approx(1 / 201)
        assert family.chance.quantile < family.disparity
        assert family.interval.low < family.disparity < family.interval.high
    [age] = found.continuous
    alone = explained_variation(adult["education"], adult["age"])
    np.testing.assert_allclose(age.explained_by_class, alone.by_class, atol=1e-12)
    assert age.explained == pytest.approx(0.041, abs=0.001)
    assert age.class_name == "11th"
    assert age.interval is not None and age.interval.low < age.explained < age.interval.high < 0.06
    assert age.chance is not None
    assert age.chance.quantile < 0.001
    assert age.chance.p_value == pytest.approx(1 / 201)


def labels(kind: str, rng: np.random.Generator, n: int) -> dict[str, Any]:
    if kind == "probabilities":
        return {"y": rng.dirichlet([1, 1, 2], n)}
    drawn = {"y": rng.choice(3, n, p=[0.2, 0.3, 0.5])}
    if kind == "few weights":
        return drawn | {"sample_weight": rng.integers(1, 3, n)}
    return drawn | ({"sample_weight": rng.gamma(2.0, size=n)} if kind == "weights" else {})


def attribute(kind: str, rng: np.random.Generator, n: int) -> dict[str, Any]:
    if kind == "groups":
        return {"a": rng.integers(0, 2, n), "b": rng.integers(0, 2, n)}
    if kind == "membership":
        return {"q": r2b.Membership(rng.dirichlet(np.ones(3), n))}
    return {"age": r2b.Continuous(rng.normal(size=n), basis="linear")}


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("classes", "groups"),
        ("few weights", "groups"),
        ("weights", "groups"),
        ("probabilities", "groups"),
        ("weights", "membership"),
        ("weights", "continuous"),
    ],
)
def test_p_values_of_fair_labels_are_uniform_and_hardly_a_group_is_beyond_chance(
    form: str, kind: str
) -> None:
    rng = np.random.default_rng(17)
    times, p_values, accused = 100, [], 0
    for each in range(times):
        drawn = labels(form, rng, 120)
        result = audit(
            drawn.pop("y"),
            sensitive_features=attribute(kind, rng, 120),
            n_permutations=39,
            n_boot=0,
            random_state=each,
            **drawn,
        )
        measured = (*result.families, *result.continuous)[-1]
        assert measured.chance is not None
        p_values.append(measured.chance.p_value)
        accused += any(group.beyond_chance for group in result.ranked)
    # Uniform on 1/40, ..., 1 under the null: four standard deviations of a share of 100.
    for point in (0.1, 0.25, 0.5, 0.75):
        assert np.mean(np.array(p_values) <= point) == pytest.approx(
            point, abs=4 * (point * (1 - point) / times) ** 0.5
        )
    assert accused / times < 0.05 + 4 * (0.05 * 0.95 / times) ** 0.5


def test_permutations_stay_within_a_stratum() -> None:
    # Within each job all are alike, so that chance cannot make a difference there; over all jobs it
    # can.
    job = np.repeat(["x", "y"], 50)
    y, sex = np.where(job == "x", "a", "b"), np.tile(["f", "m"], 50)
    within = audit(y, sensitive_features={"sex": sex}, control_features={"job": job}, n_boot=0)
    assert [family.chance.quantile for family in within.families if family.chance] == [0.0, 0.0]
    over_all = audit(y, sensitive_features={"sex": sex}, n_boot=0).families[0]
    assert over_all.chance is not None and over_all.chance.mean > 0.05


def test_an_unfair_crossing_comes_before_small_groups_that_are_farther_by_chance() -> None:
    rng = np.random.default_rng(8)
    n = 6000
    sex, race = (
        rng.choice(["f", "m"], n),
        rng.choice(["a", "b", "c", "rare"], n, p=[0.4, 0.3, 0.299, 0.001]),
    )
    unfair = (sex == "f") & (race == "b")
    y = np.where(rng.random(n) < np.where(unfair, 0.65, 0.5), "yes", "no")
    result = audit(y, sensitive_features={"sex": sex, "race": race}, n_boot=0)
    first = result.ranked[0]
    assert (first.group, first.beyond_chance) == ("sex=f, race=b", True)
    rare = [group for group in result.ranked if "rare" in group.group]
    assert max(group.deviation for group in rare) > first.deviation
    assert not any(group.beyond_chance for group in rare)
    mean, overall = np.mean(y[unfair] == first.class_name), np.mean(y == first.class_name)
    assert (first.mean, first.overall, first.deviation) == pytest.approx(
        (mean, overall, abs(mean - overall))
    )
    assert first.total_variation == pytest.approx(abs(mean - overall))  # of two classes
    assert first.chance is not None and first.chance.p_value == pytest.approx(1 / 201)


def test_without_permutations_groups_are_ranked_by_deviation_and_nothing_is_said_of_chance() -> (
    None
):
    rng = np.random.default_rng(8)
    y, s = rng.integers(0, 3, 300), rng.integers(0, 12, 300)
    result = audit(y, sensitive_features=s, n_permutations=0, n_boot=0, n_largest=5)
    deviations = [group.deviation for group in result.ranked]
    assert deviations == sorted(deviations, reverse=True) and len(deviations) == 5
    assert all(group.chance is None and group.beyond_chance is None for group in result.ranked)
    assert result.families[0].chance is None and result.families[0].interval is None
    assert "chance" not in str(result)


def test_the_same_number_gives_the_same_draws_and_another_gives_others() -> None:
    rng = np.random.default_rng(0)
    y, s = rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200)
    one, again, other = (
        audit(y, sensitive_features=s, n_permutations=20, n_boot=20, random_state=state).to_json()[
            "families"
        ]
        for state in (1, 1, 2)
    )
    assert one == again
    assert one != other


def test_a_missing_value_of_a_continuous_attribute_is_left_out_and_counted(adult: Any) -> None:
    y, age = adult["income"][:2000], adult["age"][:2000].astype(float)
    age[:100] = np.nan
    result = audit(
        y,
        sensitive_features={"age": r2b.Continuous(age)},
        missing="exclude",
        n_permutations=5,
        n_boot=5,
    )
    assert (result.continuous[0].left_out, result.continuous[0].rows) == (100, 1900)
    np.testing.assert_allclose(
        result.continuous[0].explained_by_class,
        explained_variation(y[100:], age[100:]).by_class,
        atol=1e-10,
    )
    assert result.worst is None and result.exceeds(0) == () and result.ranked == ()
