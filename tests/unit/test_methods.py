"""All methods: what they have in common, and reweighing, RTO and HTO by their definitions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from problems import group_means, parity_of

from r2b.datasets import load_adult
from r2b.errors import (
    EmptyError,
    InputError,
    LengthError,
    MissingValueError,
    NotSolvedWarning,
    ParameterError,
    ProbabilityError,
    RowsUnavailableError,
    UnseenError,
)
from r2b.methods import HTO, OST, R2B, R2B0, RTO, DPRemover, Exact, Reweighing, Unchanged
from r2b.metrics import demographic_parity_difference

METHODS = [Exact, R2B, R2B0, HTO, OST]
LABELS = np.array(list("aabbcabcabccab"))
GROUPS = np.array(list("ffffffmmmmmmmm"))
KNOWN = {"sensitive_features": GROUPS}
ONE_HOT = (LABELS[:, None] == list("abc")).astype(float)
RNG = np.random.default_rng(2)
MATRIX, WEIGHTS = RNG.dirichlet(np.ones(3), len(LABELS)), RNG.uniform(0.5, 2.0, len(LABELS))


@pytest.fixture(scope="module")
def adult() -> Any:
    table = load_adult()
    return table["education"], table["sex"]


@pytest.mark.parametrize("method", [*METHODS, Unchanged])
def test_labels_that_need_no_change_stay_and_one_class_is_refused(method):
    one_group = method().fit_transform(LABELS, sensitive_features=["f"] * len(LABELS))
    np.testing.assert_allclose(one_group, ONE_HOT, atol=1e-12)
    if method is not Unchanged:
        for epsilon in (np.inf, 1.0):
            new = method(epsilon).fit_transform(LABELS, **KNOWN)
            np.testing.assert_allclose(new, ONE_HOT, atol=1e-12)
    fitted = method().fit(LABELS, **KNOWN)
    before = fitted.transform(LABELS, **KNOWN)
    with pytest.raises(EmptyError, match="one class 'a'"):
        fitted.fit(["a"] * 4, sensitive_features=["f", "f", "m", "m"])
    # A refit that fails leaves the fit before.
    np.testing.assert_array_equal(fitted.transform(LABELS, **KNOWN), before)


def test_a_yardstick_that_is_not_solved_says_so():
    with pytest.warns(NotSolvedWarning, match="out of iterations"):
        short = Exact(max_iter=1).fit(LABELS, **KNOWN)
    assert not short.status_.ok and Exact().fit(LABELS, **KNOWN).status_.ok


@pytest.mark.parametrize("method", [*METHODS, Unchanged])
def test_new_rows_are_answered_as_equal_fitted_ones_by_a_pickle_too(method):
    fitted = method().fit(MATRIX, **KNOWN, sample_weight=WEIGHTS)
    answers = fitted.transform(MATRIX, **KNOWN)
    np.testing.assert_allclose(answers.sum(axis=1), 1, atol=1e-12)
    some = np.array([9, 2, 2, 11])
    again = pickle.loads(pickle.dumps(fitted))
    found = again.transform(MATRIX[some], sensitive_features=GROUPS[some])
    np.testing.assert_allclose(found, answers[some], atol=1e-12)
    soft = method().fit_transform(ONE_HOT, **KNOWN)
    np.testing.assert_allclose(method().fit_transform(LABELS, **KNOWN), soft, atol=1e-9)
    for stranger in ({"sensitive_features": ["x"]}, {"sensitive_features": ["f", "m"]}):
        with pytest.raises(InputError):
            fitted.transform(MATRIX[:1], **stranger)
    with pytest.raises(RowsUnavailableError):
        method().transform(MATRIX, **KNOWN)


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        *((method, {"random_state": state}) for method in (RTO, DPRemover) for state in ("x", -1)),
        *((RTO, {"gamma": value}) for value in (0.0, np.nan, True)),
        *((RTO, {"rho": value}) for value in (1.5, -0.1)),
        *((RTO, {name: -1.0}) for name in ("epsilon", "steps", "tol")),
        *((RTO, {name: "any"}) for name in ("solver", "score_range")),
        *((RTO, {"epochs": 1.5}), (RTO, {"batch_size": 0}), (HTO, {"gamma": 0})),
        *((R2B, {name: "any"}) for name in ("output", "target", "binary", "random_state")),
        *((R2B, {name: 0.0}) for name in ("tau", "lam", "max_rounds")),
        *((R2B, {"max_rounds": 1.5}), (R2B, {"tol": -1.0}), (R2B0, {"reading": "both"})),
        *((Exact, {"max_iter": 0}), (DPRemover, {"n_bins": 0}), (DPRemover, {"amount": 1.5})),
        *((DPRemover, {"amount": np.nan}), (DPRemover, {"random_state": True})),
    ],
)
def test_parameters_out_of_range_are_refused(method, wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        method(**wrong).fit(pd.DataFrame({"x": [0.1, 0.2]}), sensitive_features=[0, 1])


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        (R2B(), "R2B()"),
        (R2B(0.1, tau=4.0, steps=5), "R2B(epsilon=0.1, tau=4.0, steps=5)"),
        (R2B({"a": 0.1}, target="population"), "R2B(epsilon={'a': 0.1}, target='population')"),
        (R2B0(reading="algorithm"), "R2B0(reading='algorithm')"),
        (HTO(gamma=0.1), "HTO(gamma=0.1)"),
        (RTO(gamma=0.5, tol=1e-6), "RTO(gamma=0.5, tol=1e-06)"),
        (Unchanged(), "Unchanged()"),
    ],
)
def test_a_method_shows_what_differs_from_the_defaults(method, shown):
    assert repr(method) == shown


# Reweighing.


def by_definition(y: Any, groups: Any, weight: Any) -> Any:
    """AIF360's formula, one (group, class) mask at a time."""
    out, total = weight.astype(float).copy(), weight.sum()
    for s in np.unique(groups):
        for k in np.unique(y):
            cell = (groups == s) & (y == k)
            expected = weight[groups == s].sum() * weight[y == k].sum() / total
            out[cell] *= expected / weight[cell].sum() if cell.any() else 1.0
    return out


def random_table(n_rows: int = 500) -> Any:
    rng = np.random.default_rng(1)
    y, groups = rng.integers(0, 4, n_rows), rng.integers(0, 3, n_rows)
    return y, groups, rng.random(n_rows) + 0.1, rng.dirichlet(np.ones(4), n_rows)


def test_adult_by_sex_is_independent_under_the_weights(adult):
    y, sex = adult
    model = Reweighing()
    weight = model.fit_transform(y, sensitive_features=sex)
    assert demographic_parity_difference(y, sensitive_features=sex, sample_weight=weight) < 1e-12
    assert model.unreachable_ == () and model.parity_ < 1e-12 and model.factors_.shape == (2, 16)
    np.testing.assert_allclose(weight, by_definition(y, sex, np.ones(len(y))), rtol=1e-12)
    for column in adult:
        for value in np.unique(column):
            count = (column == value).sum()
            assert weight[column == value].sum() == pytest.approx(count, rel=1e-12)


def test_an_unreachable_class_differs_by_what_is_said():
    y, groups = np.array([0, 1, 2, 0, 1, 0]), np.array(["a", "a", "a", "b", "b", "b"])
    model = Reweighing()
    with pytest.raises(RowsUnavailableError):
        model.transform(y, sensitive_features=groups)
    (cell,) = model.fit(y, sensitive_features=groups).unreachable_
    assert (cell.group, cell.label) == ("b", 2)
    weight, first = model.transform(y, sensitive_features=groups), groups == "a"
    left = weight[first & (y == 2)].sum() / weight[first].sum()
    assert cell.disparity == pytest.approx(left) == pytest.approx(model.parity_)
    assert model.transform([2], sensitive_features=["b"], sample_weight=[3.0]).tolist() == [3.0]
    for stranger in (
        {"y": [9], "sensitive_features": ["a"]},
        {"y": [0], "sensitive_features": [9]},
    ):
        with pytest.raises((UnseenError, InputError)):
            model.transform(**stranger)
    y, groups, weight, _ = random_table()
    refitted = model.fit(y, sensitive_features=groups, sample_weight=weight)
    fresh = Reweighing().fit(y, sensitive_features=groups, sample_weight=weight)
    assert refitted.unreachable_ == () and np.array_equal(refitted.factors_, fresh.factors_)


def test_weights_multiply_and_are_repetitions():
    y, groups, weight, _ = random_table()
    known = {"sensitive_features": groups}
    found = Reweighing().fit_transform(y, **known, sample_weight=weight)
    np.testing.assert_allclose(found, by_definition(y, groups, weight), rtol=1e-12)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    once = Reweighing().fit(y, **known, sample_weight=times)
    often = Reweighing().fit(np.repeat(y, times), sensitive_features=np.repeat(groups, times))
    np.testing.assert_allclose(once.factors_, often.factors_, rtol=1e-12)
    twice = once.transform(y, **known, sample_weight=weight)
    np.testing.assert_allclose(twice, weight * once.transform(y, **known), rtol=1e-15)


def test_probabilities_are_weighed_pair_by_pair():
    y, groups, weight, rows = random_table()
    known = {"sensitive_features": groups, "sample_weight": weight}
    found = Reweighing().fit_transform(rows, **known)
    assert found.shape == rows.shape
    pairs = {"sensitive_features": np.repeat(groups, 4), "sample_weight": found.ravel()}
    assert demographic_parity_difference(np.tile(np.arange(4), len(rows)), **pairs) < 1e-12
    np.testing.assert_allclose(found.sum(axis=0), weight @ rows, rtol=1e-12)
    of_groups = np.bincount(groups, found.sum(axis=1))
    np.testing.assert_allclose(of_groups, np.bincount(groups, weight), rtol=1e-12)
    hard, soft = (Reweighing().fit_transform(each, **known) for each in (y, np.eye(4)[y]))
    np.testing.assert_allclose(soft, np.eye(4)[y] * hard[:, None], rtol=1e-12)


# RTO and HTO.


@pytest.fixture(scope="module")
def scored() -> Any:
    rng = np.random.default_rng(3)
    groups = rng.choice(["a", "b", "c"], 400, p=[0.5, 0.3, 0.2])
    return np.clip(rng.normal(0.5, 0.2, 400) + 0.2 * (groups == "a"), 0, 1), groups


# short descents are the point here
@pytest.mark.filterwarnings("ignore::r2b.errors.NotSolvedWarning")
@pytest.mark.parametrize(
    ("gamma", "epsilon"), [(0.01, 0.05), (1.0, 0.0), (0.1, 0.0), (1.0, 0.001), (1.0, 0.05)]
)
def test_rto_keeps_groups_near_rho_and_descent_states_its_error(scored, gamma, epsilon):
    scores, groups = scored
    known = {"sensitive_features": groups}
    rto = RTO(epsilon, gamma=gamma).fit(scores, **known)
    exact = rto.transform(scores, **known)
    assert rto.rho_ == pytest.approx(scores.mean())
    means = group_means(exact[:, None], groups, np.ones(400))
    assert np.abs(means - rto.rho_).max() <= epsilon / 2 + 1e-12
    assert rto.converged_ and rto.error_.max() <= 1e-12
    for steps, epochs in ((300, 0), (0, 40), (300, 2_000)):
        settings = {"solver": "sgd", "steps": steps, "epochs": epochs, "batch_size": 64}
        descent = RTO(epsilon, gamma=gamma, **settings).fit(scores, **known)
        off = np.abs(descent.transform(scores, **known) - exact)[:, None]
        assert (group_means(off, groups, np.ones(400))[:, 0] <= descent.error_ + 1e-12).all()
        assert descent.converged_ == (descent.error_.max() <= 1e-10)
        assert epochs < 2_000 or gamma < 0.1 or descent.error_.max() <= 1e-8


def test_a_descent_that_ends_early_says_so():
    # Class labels and a small gamma: no score is near a threshold until the descent has come all
    # the way.
    y, groups = np.repeat([1.0, 0.0, 1.0, 0.0], [60, 40, 50, 50]), np.repeat([0, 1], 100)
    with pytest.warns(NotSolvedWarning, match=r"5.0e-02 from the group means.*solver='exact'"):
        rto = RTO(gamma=0.01, solver="sgd", steps=0, epochs=100).fit(y, sensitive_features=groups)
    assert not rto.converged_ and rto.error_.max() == pytest.approx(0.05, abs=1e-3)


def test_signed_scores_aim_at_half_of_one_plus_their_mean_and_wrong_ones_are_refused(scored):
    scores, groups = scored
    signed = RTO(score_range="signed")
    assert signed.fit(2 * scores - 1, sensitive_features=groups).rho_ == pytest.approx(
        scores.mean()
    )
    # Scores without a negative value are still signed ones.
    half = scores.mean() / 2 + 0.5
    assert signed.fit(scores, sensitive_features=groups).rho_ == pytest.approx(half)
    for kind, wrong, of in (
        (MissingValueError, [0.1, np.nan], ["a", "b"]),
        (ProbabilityError, [-0.5, 0.5], ["a", "b"]),
        (LengthError, scores[1:], groups),
        (InputError, [[0.5, 0.5]], ["a"]),
    ):
        with pytest.raises(kind):
            RTO().fit(wrong, sensitive_features=of)
    with pytest.raises(RowsUnavailableError):
        RTO().predict_proba(scores, sensitive_features=groups)
    with pytest.raises(UnseenError):
        signed.predict_proba([0.5], sensitive_features=["d"])


@pytest.mark.parametrize("method", [HTO, R2B0])
def test_classes_are_fair_alone_and_less_so_once_rows_are_divided_by_their_sums(adult, method):
    y, sex = adult
    fitted = method().fit(y, sensitive_features=sex)
    out = fitted.transform(y, sensitive_features=sex)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert out.min() >= 0 and fitted.rho_.sum() == pytest.approx(1.0)
    # Dividing brings 2.1 % back on Adult, of the 5.3 % of the labels.
    assert parity_of(out, sex).max() == pytest.approx(0.021, abs=5e-4)
    # On class labels the two coincide, on others they do not.
    np.testing.assert_allclose(out, HTO().fit_transform(y, sensitive_features=sex), atol=1e-12)
    hto, other = (each().fit_transform(MATRIX, **KNOWN) for each in (HTO, R2B0))
    assert np.abs(hto - other).max() > 0.1
