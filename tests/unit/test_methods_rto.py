"""RTO on scores, and the two baselines that use it class by class."""

from __future__ import annotations

import numpy as np
import pytest
from problems import group_means, parity_of

from r2b.datasets import load_adult
from r2b.errors import (
    InputError,
    LengthError,
    MissingValueError,
    NotSolvedWarning,
    ParameterError,
    ProbabilityError,
    RowsUnavailableError,
    UnseenError,
)
from r2b.methods import R2B0
from r2b.methods.rto import HTO, RTO


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(3)
    groups = rng.choice(["a", "b", "c"], 400, p=[0.5, 0.3, 0.2])
    scores = np.clip(rng.normal(0.5, 0.2, 400) + 0.2 * (groups == "a"), 0, 1)
    return scores, groups


@pytest.fixture(scope="module")
def adult():
    table = load_adult()
    return table["education"], table["sex"]


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.05])
def test_groups_lie_within_half_of_epsilon_of_rho(scored, gamma, epsilon):
    scores, groups = scored
    rto = RTO(epsilon, gamma=gamma).fit(scores, sensitive_features=groups)
    h = rto.transform(scores, sensitive_features=groups)
    assert rto.rho_ == pytest.approx(scores.mean())
    assert (
        np.abs(group_means(h[:, None], groups, np.ones(400)) - rto.rho_).max()
        <= epsilon / 2 + 1e-12
    )
    assert rto.converged_ and rto.error_.max() <= 1e-12


# short descents are the point here
@pytest.mark.filterwarnings("ignore::r2b.errors.NotSolvedWarning")
@pytest.mark.parametrize("steps, epochs", [(300, 0), (0, 40), (300, 2_000)])
@pytest.mark.parametrize(
    "gamma, epsilon", [(1.0, 0.0), (0.1, 0.0), (1.0, 0.001), (1.0, 0.05), (1.0, 0.5)]
)
def test_descent_agrees_with_the_exact_solver_within_its_stated_error(
    scored, gamma, epsilon, steps, epochs
):
    scores, groups = scored
    exact = (
        RTO(epsilon, gamma=gamma)
        .fit(scores, sensitive_features=groups)
        .transform(scores, sensitive_features=groups)
    )
    rto = RTO(epsilon, gamma=gamma, solver="sgd", steps=steps, epochs=epochs, batch_size=64).fit(
        scores, sensitive_features=groups
    )
    apart = group_means(
        np.abs(rto.transform(scores, sensitive_features=groups) - exact)[:, None],
        groups,
        np.ones(400),
    )[:, 0]
    assert (apart <= rto.error_ + 1e-12).all()
    assert rto.converged_ == (rto.error_.max() <= 1e-10)
    if epochs == 2_000:
        assert rto.error_.max() <= 1e-8


# short descents are the point here
def test_a_descent_that_ends_early_says_so():
    # Class labels and a small gamma: no score is near a threshold until the descent has come all
    # the way.
    y, groups = np.repeat([1.0, 0.0, 1.0, 0.0], [60, 40, 50, 50]), np.repeat([0, 1], 100)
    with pytest.warns(NotSolvedWarning, match=r"5.0e-02 from the group means.*solver='exact'"):
        rto = RTO(gamma=0.01, solver="sgd", steps=0, epochs=100).fit(y, sensitive_features=groups)
    assert not rto.converged_
    assert rto.error_.max() == pytest.approx(0.05, abs=1e-3)


def test_signed_scores_aim_at_half_of_one_plus_their_mean(scored):
    scores, groups = scored
    rto = RTO(score_range="signed").fit(2 * scores - 1, sensitive_features=groups)
    assert rto.rho_ == pytest.approx(scores.mean())
    # Scores without a negative value are still signed ones.
    assert RTO(score_range="signed").fit(scores, sensitive_features=groups).rho_ == pytest.approx(
        scores.mean() / 2 + 0.5
    )


def test_scores_that_cannot_be_used_are_refused(scored):
    scores, groups = scored
    with pytest.raises(MissingValueError, match="row 1"):
        RTO().fit([0.1, np.nan], sensitive_features=["a", "b"])
    with pytest.raises(ProbabilityError, match="signed"):
        RTO().fit([-0.5, 0.5], sensitive_features=["a", "b"])
    with pytest.raises(LengthError):
        RTO().fit(scores[1:], sensitive_features=groups)
    with pytest.raises(InputError):
        RTO().fit([[0.5, 0.5]], sensitive_features=["a"])
    with pytest.raises(RowsUnavailableError):
        RTO().predict_proba(scores, sensitive_features=groups)
    with pytest.raises(UnseenError):
        RTO().fit(scores, sensitive_features=groups).predict_proba([0.5], sensitive_features=["d"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 0.0},
        {"gamma": np.nan},
        {"epsilon": -1.0},
        {"rho": 1.5},
        {"rho": -0.1},
        {"solver": "exactly"},
        {"score_range": "any"},
        {"steps": -1},
        {"epochs": 1.5},
        {"batch_size": 0},
        {"tol": -1.0},
    ],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        RTO(**wrong)


def test_hto_and_r2b0_coincide_on_class_labels_and_not_on_soft_ones(adult):
    y, sex = adult
    np.testing.assert_allclose(
        HTO().fit_transform(y, sensitive_features=sex),
        R2B0().fit_transform(y, sensitive_features=sex),
        atol=1e-12,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    soft, groups = rng.dirichlet(np.ones(4), 200), rng.integers(0, 2, 200)
    assert (
        np.abs(
            HTO().fit_transform(soft, sensitive_features=groups)
            - R2B0().fit_transform(soft, sensitive_features=groups)
        ).max()
        > 0.1
    )


@pytest.mark.parametrize("method", [HTO, R2B0])
def test_classes_are_fair_alone_and_less_so_once_rows_are_divided_by_their_sums(adult, method):
    y, sex = adult
    fitted = method().fit(y, sensitive_features=sex)
    out = fitted.transform(y, sensitive_features=sex)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert out.min() >= 0
    assert fitted.rho_.sum() == pytest.approx(1.0)
    # Dividing brings 2.1 % back on Adult, of the 5.3 % of the labels.
    assert parity_of(out, sex).max() == pytest.approx(0.021, abs=5e-4)


def test_a_soft_row_that_no_class_accepts_gets_the_overall_means():
    rng = np.random.default_rng(1)
    soft, groups = rng.dirichlet(np.full(6, 20.0), 300), rng.integers(0, 2, 300)
    hto = HTO().fit(soft, sensitive_features=groups)
    row = np.full((1, 6), 1 / 6)
    hto.thresholds_ = np.ones((2, 6))
    np.testing.assert_array_equal(hto._respond(row, np.array([0])), hto.rho_[None, :])
