"""The fewest changed labels: a published value, the limit of small lam, tables for new rows."""

from __future__ import annotations

import numpy as np
import pytest
from families_qp import BOUNDS, asked, people
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
    with pytest.warns(r2b.errors.NotSolvedWarning, match="time"):
        fair = r2b.debias(
            who.given,
            sensitive_features=who.sensitive,
            objective="agreement",
            time_limit=1e-9,
            costs=costs,
        )
    x = fair.soft_labels
    assert fair.status is r2b.Status.OUT_OF_TIME and not fair.certificate.holds
    np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-9)
    assert x.min() >= 0
