"""A continuous attribute without binning: its moments against a programme from the definition,
groups as a case of it, new values.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from families_qp import Rule, Table, closest, fewest, people, violation
from hypothesis import given, settings
from hypothesis import strategies as st

import r2b
from r2b.datasets import load_adult
from r2b.errors import InputError, ParameterError

SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12, deadline=None)


def orthonormal(functions, weight):
    """Functions made centred and orthonormal over the rows, first to last: Gram and Schmidt."""
    w, done = weight / weight.sum(), []
    for column in functions.T:
        left = column - w @ column
        for before in done:
            left = left - (w @ (left * before)) * before
        done.append(left / np.sqrt(w @ left**2))
    return np.array(done).T


def ages(seed, n):
    rng = np.random.default_rng([seed, 5])
    return np.round(rng.gamma(4.0, 10.0, n), 1)


FUNCTIONS = [lambda v: v, lambda v: v**2, lambda v: np.sin(v / 10)]


@few
@given(SEEDS, st.booleans(), st.sampled_from([0.0, 0.01, 0.05]), st.sampled_from([0.5, 1.0]))
def test_the_labels_are_those_of_a_programme_that_bounds_every_moment(seed, soft, epsilon, lam):
    who = people(seed, soft=soft, decades=1.0)
    age = ages(seed, len(who.y))
    fair = r2b.debias(
        who.given,
        sensitive_features={"age": r2b.Continuous(age, basis=FUNCTIONS)},
        sample_weight=who.weight,
        epsilon=epsilon,
        lam=lam,
    )
    raw = np.array([function(age) for function in FUNCTIONS]).T
    rule = Rule(orthonormal(raw, who.w), "moments", np.full(who.n_classes, epsilon))
    table = Table(who.y, who.w, [rule], lam)
    assert fair.certificate.holds and violation(table, fair.soft_labels) <= 1e-8
    assert table.value(fair.soft_labels) == pytest.approx(closest(table)[0], abs=1e-7)


@few
@given(SEEDS)
def test_indicators_of_all_but_one_value_are_groups(seed):
    who = people(seed)
    number = np.select([who.race == "p", who.race == "q"], [1.0, 2.0], 5.0)
    basis = [lambda v: v == 1.0, lambda v: v == 2.0]
    moments = r2b.debias(
        who.given,
        sensitive_features={"n": r2b.Continuous(number, basis=basis)},
        sample_weight=who.weight,
    )
    groups = r2b.debias(who.given, sensitive_features=who.race, sample_weight=who.weight)
    np.testing.assert_allclose(moments.soft_labels, groups.soft_labels, atol=1e-7)


def test_strata_have_moments_of_their_own():
    who = people(4, decades=0.0)
    age = ages(4, len(who.y))
    fair = r2b.debias(
        who.given,
        sensitive_features={"age": r2b.Continuous(age, basis="linear")},
        control_features={"job": who.job},
    )
    for value in "uv":
        rows = who.job == value
        alone = r2b.debias(
            who.given[rows], sensitive_features={"age": r2b.Continuous(age[rows], basis="linear")}
        )
        np.testing.assert_allclose(fair.soft_labels[rows], alone.soft_labels, atol=1e-8)
        assert np.abs(np.cov(age[rows], fair.soft_labels[rows].T)[0, 1:]).max() <= 1e-6


def test_rows_without_an_age_stay_as_they_are():
    who = people(6, decades=0.0)
    age = ages(6, len(who.y))
    age[[7, 9]] = np.nan
    there = ~np.isnan(age)
    fair = r2b.debias(
        who.given, sensitive_features={"age": r2b.Continuous(age)}, missing="exclude", epsilon=0.01
    )
    np.testing.assert_array_equal(fair.soft_labels[~there], who.y[~there])
    alone = r2b.debias(
        who.given[there], sensitive_features={"age": r2b.Continuous(age[there])}, epsilon=0.01
    )
    np.testing.assert_allclose(fair.soft_labels[there], alone.soft_labels, atol=1e-8)
    assert fair.families.left_out == pytest.approx(2 / len(age))


def test_agreement_with_moments_is_a_linear_programme():
    who = people(8, decades=0.0)
    age = ages(8, len(who.y))
    fair = r2b.debias(
        who.given,
        sensitive_features={"age": r2b.Continuous(age, basis="linear")},
        objective="agreement",
        epsilon=0.01,
    )
    table = Table(
        who.y,
        who.w,
        [Rule(orthonormal(age[:, None], who.w), "moments", np.full(who.n_classes, 0.01))],
        0.0,
    )
    assert fair.certificate.holds
    assert table.value(fair.soft_labels) == pytest.approx(fewest(table), abs=1e-9)


@pytest.fixture(scope="module")
def by_age():
    adult = load_adult()
    fair = r2b.debias(adult["education"], sensitive_features={"age": r2b.Continuous(adult["age"])})
    basis = fair.families.counting[0].basis
    return adult, fair, basis.evaluate(adult["age"])


def test_education_on_adult_does_not_vary_with_age_any_more(by_age):
    adult, fair, functions = by_age
    x = fair.soft_labels
    np.testing.assert_allclose(
        functions.T @ functions / len(x), np.eye(functions.shape[1]), atol=1e-9
    )
    assert fair.status.value == "solved" and fair.certificate.holds
    assert np.abs(functions.T @ x / len(x)).max() <= 1e-9
    assert np.abs(functions.T @ (adult["education"][:, None] == fair.classes) / len(x)).max() > 0.04
    assert fair.certificate.disparity_before > 0.04 and fair.certificate.disparity <= 1e-9
    for degree in (1, 2):  # the spline holds straight lines exactly and comes close to parabolas
        slope = np.abs(np.corrcoef(adult["age"] ** float(degree), x.T)[0, 1:])
        assert slope.max() <= (1e-7, 0.02)[degree - 1]


def test_new_ages_are_priced_by_the_same_functions(by_age, tmp_path):
    adult, fair, _ = by_age
    y, age = adult["education"][:3], np.array([38.5, 16.0, 101.0])
    shift = fair.families.counting[0].basis.evaluate(age) @ fair.prices
    worth = (y[:, None] == fair.classes) - shift
    level = np.array(
        [
            max((np.sort(row)[::-1][:k].sum() - 1) / k for k in range(1, len(row) + 1))
            for row in worth
        ]
    )
    expected = np.maximum(worth - level[:, None], 0.0)
    fair.save(tmp_path / "fair.json")
    json.loads(
        (tmp_path / "fair.json").read_text(),
        parse_constant=lambda word: pytest.fail(f"{word} is not strict JSON"),
    )
    for each in (fair, r2b.load(tmp_path / "fair.json")):
        np.testing.assert_allclose(
            each.transform(y, sensitive_features={"age": age}), expected, atol=1e-12
        )
        np.testing.assert_allclose(
            each.transform(y, sensitive_features=r2b.Continuous(age)), expected, atol=1e-12
        )
        assert len(each.transform(y, sensitive_features={"age": age}, form="round")) == 3
    with pytest.raises(InputError, match="'old'"):
        fair.transform(y[:1], sensitive_features={"age": ["old"]})


def test_functions_of_the_users_own_transform_but_cannot_be_saved(tmp_path):
    fair = r2b.debias(
        list("aabb"), sensitive_features={"age": r2b.Continuous([20, 30, 40, 50], basis=np.sqrt)}
    )
    assert fair.transform(["a"], sensitive_features={"age": [33]}).shape == (1, 2)
    with pytest.raises(ParameterError, match="sqrt"):
        fair.save(tmp_path / "fair.json")
    assert not list(tmp_path.iterdir())


AGE = [20.0, 30, 40, 50, 60, 25]
REFUSED = {
    "a constant attribute": ({"age": r2b.Continuous([5.0] * 6)}, {}, InputError, "5.0"),
    "a ratio": (
        {"age": r2b.Continuous(AGE)},
        {"bound": "ratio", "epsilon": 0.2},
        ParameterError,
        "continuous",
    ),
    "a target": (
        {"age": r2b.Continuous(AGE)},
        {"bound": "target", "target": "population"},
        ParameterError,
        "continuous",
    ),
    "a crossing": (
        {"age": r2b.Continuous(AGE), "sex": list("ffmmfm")},
        {"families": [["age", "sex"]]},
        ParameterError,
        "'age'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_its_facts_and_a_remedy(name):
    sensitive, more, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words) as caught:
        r2b.debias(list("aabbab"), sensitive_features=sensitive, **more)
    assert caught.value.remedy.endswith(".") and caught.value.facts
