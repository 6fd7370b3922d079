"""The fewest changed labels: a published value, the limit of small lam, tables for new rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from families_qp import BOUNDS, Table, asked, people, violation
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b.datasets import load_adult
from r2b.errors import UnseenError

SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12, deadline=None)


def both(who, **more):
    """The same request under both objectives."""
    arguments = {"sensitive_features": who.sensitive, "sample_weight": who.weight} | more
    return r2b.debias(who.given, objective="agreement", **arguments), r2b.debias(
        who.given, **arguments
    )


def test_adult_income_by_sex_with_equal_groups_reaches_the_published_agreement():
    adult = load_adult()
    sex = adult["sex"]
    weight = np.where(sex == "Male", 0.5 / (sex == "Male").sum(), 0.5 / (sex == "Female").sum())
    fair = r2b.debias(
        adult["income"], sensitive_features=sex, sample_weight=weight, objective="agreement"
    )
    assert fair.status.value == "solved" and fair.certificate.holds
    assert 1.0 - fair.certificate.expected_changes == pytest.approx(0.902742, abs=5e-7)
    # Two classes and two equal groups: at best each meets the other half way, so half the
    # difference of shares changes.
    rich = np.array(
        [(adult["income"][sex == each] == ">50K").mean() for each in ("Male", "Female")]
    )
    assert fair.certificate.expected_changes == pytest.approx(0.5 * np.ptp(rich), abs=1e-10)
    x = fair.soft_labels
    means = np.array([x[sex == each].mean(axis=0) for each in ("Male", "Female")])
    assert np.ptp(means, axis=0).max() <= 1e-10


@few
@given(
    SEEDS,
    st.sampled_from(["crossed", "marginal", "both"]),
    st.sampled_from(BOUNDS),
    st.sampled_from(["zero", "small", "array"]),
)
def test_agreement_never_changes_more_labels_than_distance_does(seed, families, bound, shape):
    who = people(seed, decades=(seed % 2) * 2.0)
    fewest, closest = both(who, **asked(who, families, bound, shape, seed)[0])
    assert fewest.status.ok and fewest.certificate.holds
    assert fewest.certificate.expected_changes <= closest.certificate.expected_changes + 1e-9
    assert closest.certificate.distance <= fewest.certificate.distance + 1e-9


@few
@given(SEEDS, st.sampled_from(["crossed", "marginal"]), st.sampled_from(["range", "ratio"]))
def test_agreement_is_where_a_small_lam_leads(seed, families, bound):
    who = people(seed, decades=0.0)
    more = {
        "families": families,
        "bound": bound,
        "epsilon": 0.05,
        "sensitive_features": who.sensitive,
    }
    fewest = r2b.debias(who.given, objective="agreement", **more).certificate.expected_changes
    changes = [
        r2b.debias(who.given, lam=lam, **more).certificate.expected_changes for lam in (1.0, 0.02)
    ]
    assert fewest <= changes[1] + 1e-9 <= changes[0] + 2e-9
    # lam/2 |x|^2 differs by at most lam/2 between labels: no more than that can be traded for
    # agreement.
    assert changes[1] <= fewest + 0.5 * 0.02


@few
@given(SEEDS, st.sampled_from(["crossed", "marginal", "both"]))
def test_the_answer_is_a_table_of_few_split_rows(seed, families):
    who = people(seed, decades=0.0)
    fair = r2b.debias(
        who.given, sensitive_features=who.sensitive, families=families, objective="agreement"
    )
    assert fair.lam == 0
    if fair.table is None:
        assert fair.unchanged
        return
    np.testing.assert_allclose(fair.channel.sum(axis=2), 1.0, atol=1e-12)
    assert fair.channel.min() >= 0
    # A corner: rows of the table that are split are at most the constraints that hold them.
    split = ((fair.channel > 1e-9).sum(axis=2) > 1).sum()
    assert split <= len(fair.groups) * who.n_classes


def test_labels_that_are_fair_stay_as_they_are():
    y, sex = ["a", "b", "a", "b"], ["f", "f", "m", "m"]
    fair = r2b.debias(y, sensitive_features=sex, objective="agreement")
    assert fair.status.value == "already fair" and fair.unchanged
    assert fair.transform(y, sensitive_features=sex).tolist() == fair.soft_labels.tolist()


@pytest.mark.parametrize("families", ["crossed", "marginal", "both"])
def test_a_saved_agreement_gives_the_same_labels_for_new_rows(tmp_path, families):
    who = people(5, decades=1.0)
    fair = r2b.debias(
        who.given,
        sensitive_features=who.sensitive,
        families=families,
        sample_weight=who.weight,
        objective="agreement",
    )
    fair.save(tmp_path / "fair.json")
    json.loads(
        (tmp_path / "fair.json").read_text(),
        parse_constant=lambda word: pytest.fail(f"{word} is not strict JSON"),
    )
    again = r2b.load(tmp_path / "fair.json")
    order = np.random.default_rng(0).permutation(len(who.y))
    new = {name: column[order] for name, column in who.sensitive.items()}
    np.testing.assert_array_equal(
        again.transform(who.given[order], sensitive_features=new), fair.soft_labels[order]
    )
    np.testing.assert_array_equal(again.channel, fair.channel)
    assert again.certificate.holds and again.status is fair.status
    for form in ("round", "sample"):
        drawn = [
            each.transform(who.given, sensitive_features=who.sensitive, form=form, random_state=3)
            for each in (fair, again)
        ]
        assert drawn[0].tolist() == drawn[1].tolist()


def test_a_class_that_a_group_did_not_have_gets_the_best_answer_to_its_prices():
    # Group m has no "c"; a new row (m, c) must get one class for sure, and one that its prices make
    # no worse than any other.
    y = ["a", "a", "b", "c", "c", "c", "a", "a", "a", "b"]
    sex = ["f"] * 6 + ["m"] * 4
    fair = r2b.debias(y, sensitive_features=sex, objective="agreement")
    (new,) = fair.transform(["c"], sensitive_features=["m"])
    assert sorted(new.tolist()) == [0.0, 0.0, 1.0]
    worth = np.eye(3)[2] - fair.prices[fair.groups.tolist().index("m")]
    assert worth[new.argmax()] >= worth.max() - 1e-9
    if worth[2] >= worth.max() - 1e-9:
        assert new[2] == 1.0


def test_a_crossing_that_was_not_fitted_has_no_table():
    people = {"sex": ["f", "f", "m", "m", "m"], "race": ["p", "q", "p", "p", "p"]}
    fair = r2b.debias(
        ["a", "b", "b", "a", "a"],
        sensitive_features=people,
        families="marginal",
        objective="agreement",
    )
    with pytest.raises(UnseenError, match="sex=m, race=q") as caught:
        fair.transform(["a"], sensitive_features={"sex": ["m"], "race": ["q"]})
    assert caught.value.facts["row"] == 0


@few
@given(SEEDS)
def test_costs_of_one_are_no_costs(seed):
    who = people(seed, decades=0.0)
    ones = 1.0 - np.eye(who.n_classes)
    more = {
        "sensitive_features": who.sensitive,
        "families": "both",
        "objective": "agreement",
        "epsilon": 0.01,
    }
    plain, priced = r2b.debias(who.given, **more), r2b.debias(who.given, costs=ones, **more)
    assert priced.certificate.expected_changes == pytest.approx(
        plain.certificate.expected_changes, abs=1e-10
    )


def test_a_dear_change_is_avoided():
    y, sex = ["a", "a", "a", "b", "b", "c"], ["f", "f", "f", "m", "m", "m"]
    costs = np.array([[0.0, 100.0, 1.0], [100.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    fair = r2b.debias(y, sensitive_features=sex, objective="agreement", costs=costs)
    x = fair.soft_labels
    assert fair.certificate.holds
    assert x[:3, 1].max() <= 1e-9 and x[3:5, 0].max() <= 1e-9
    assert fair.certificate.objective == pytest.approx(
        np.einsum("ik,ik->i", x, costs[[0, 0, 0, 1, 1, 2]]).mean(), abs=1e-12
    )


def test_rows_without_a_value_keep_their_labels():
    y, sex = list("aabbabaab"), ["f", "f", "f", "m", "m", "m", None, None, "m"]
    fair = r2b.debias(y, sensitive_features=sex, objective="agreement", missing="exclude")
    np.testing.assert_array_equal(fair.soft_labels[6:8], [[1.0, 0.0], [1.0, 0.0]])
    assert fair.certificate.holds and fair.families.left_out == pytest.approx(2 / 9)


def test_a_cell_of_no_weight_is_answered_for_but_costs_nothing():
    people = {"sex": list("ffffmmmm"), "race": list("ppqqppqq")}
    fair = r2b.debias(
        list("abaabbbb"),
        sensitive_features=people,
        families="marginal",
        sample_weight=[1, 1, 0, 0, 1, 1, 1, 1],
        objective="agreement",
    )
    assert fair.certificate.holds
    np.testing.assert_allclose(fair.soft_labels.sum(axis=1), 1.0, atol=1e-12)


def test_agreement_on_a_continuous_attribute_is_certified_and_takes_new_values():
    age = np.array([20.0, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    y = list("aaaababbbb")
    fair = r2b.debias(
        y, sensitive_features={"age": r2b.Continuous(age, basis="linear")}, objective="agreement"
    )
    assert fair.certificate.holds and fair.certificate.disparity <= 1e-9
    np.testing.assert_allclose(
        fair.transform(["a"], sensitive_features={"age": [33.0]}).sum(axis=1), 1.0, atol=1e-9
    )


def test_labels_that_are_fair_stay_as_they_are_whatever_a_change_would_cost():
    # Keeping every label costs nothing, so the objective is 0 and the gap has nothing to be
    # measured against.
    fair = r2b.debias(
        list("abab"), sensitive_features=list("ffmm"), objective="agreement", costs=[[0, 1], [2, 0]]
    )
    assert fair.unchanged and fair.certificate.holds
    free = r2b.debias(
        list("aabb"),
        sensitive_features=list("ffmm"),
        objective="agreement",
        costs=[[0, 1], [2, 0]],
        epsilon=np.inf,
    )
    assert free.unchanged and free.certificate.holds


@pytest.mark.parametrize("dear", [False, True], ids=["plain", "costs"])
def test_a_run_without_time_still_gives_out_distributions(dear):
    who = people(2, decades=0.0)
    costs = 3.0 * (1.0 - np.eye(who.n_classes)) if dear else None
    with pytest.warns(r2b.errors.NotSolvedWarning):
        fair = r2b.debias(
            who.given,
            sensitive_features=who.sensitive,
            objective="agreement",
            time_limit=1e-9,
            costs=costs,
        )
    x = fair.soft_labels
    assert not fair.status.ok and not fair.certificate.holds
    np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-9)
    assert x.min() >= 0


def test_a_run_without_time_says_so():
    who = people(2, decades=0.0)
    with pytest.warns(r2b.errors.NotSolvedWarning, match="time"):
        fair = r2b.debias(
            who.given, sensitive_features=who.sensitive, objective="agreement", time_limit=1e-9
        )
    assert fair.status is r2b.Status.OUT_OF_TIME


@pytest.mark.parametrize("dear", [False, True], ids=["plain", "costs"])
@pytest.mark.parametrize(
    ("bound", "seed"),
    [
        ("to_overall", 7567),
        ("target", 6006),
        ("population", 7265),
        ("ratio", 6175),
        ("ratio", 7425),
    ],
)
def test_groups_of_little_weight_do_not_make_it_infeasible_or_uncertified(bound, seed, dear):
    # A small share times a small epsilon must not fall below what the linear programme's solver can
    # tell from 0.
    families = {7567: "control", 6006: "control", 7265: "control", 6175: "both", 7425: "control"}[
        seed
    ]
    who = people(seed, decades=6.0)
    arguments, rules = asked(who, families, bound, "name" if seed == 7425 else "tiny", seed)
    costs = (
        np.random.default_rng([seed, 99]).uniform(0.3, 2.0, (who.n_classes, who.n_classes))
        if dear
        else None
    )
    if costs is not None:
        np.fill_diagonal(costs, 0.0)
    fair = r2b.debias(
        who.given, sample_weight=who.weight, objective="agreement", costs=costs, **arguments
    )
    assert fair.status.ok and fair.certificate.holds
    assert violation(Table(who.y, who.w, rules, 0.0), fair.soft_labels) <= 2e-9
