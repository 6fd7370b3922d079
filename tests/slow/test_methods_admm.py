"""Algorithm 1: it converges to the certified optimum, round by round as printed, and has none of
the defects of its published forms.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from problems import group_means, parity_of

import r2b
from r2b.datasets import load_adult
from r2b.errors import ParameterError, UnseenError
from r2b.methods import HTO
from r2b.methods.admm import R2B, R2B0

# closed, one that binds on every table, and one that Adult's own labels all but meet
BOUNDS = (0.0, 0.025, 0.1)
ALL_ROUNDS = 1_000


@cache
def data(name):
    """Labels, groups and the labels as a matrix; "injected" sets half of Adult's labels by sex, as
    in the paper's experiments.
    """
    rng = np.random.default_rng(7)
    if name == "many":
        groups = rng.choice(3, 3_000)
        shares = rng.dirichlet(np.full(64, 0.7), 3)
        y = (
            (rng.random(3_000)[:, None] > np.cumsum(shares, axis=1)[groups])
            .sum(axis=1)
            .clip(max=63)
        )
        return y, groups, (y[:, None] == np.unique(y)).astype(float)
    if name == "soft":
        groups = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
        y = np.stack([rng.dirichlet(np.ones(4) + 2.0 * np.eye(4)[group]) for group in groups])
        return y, groups, y
    table = load_adult()
    y, sex = table["education"], table["sex"]
    if name == "crossed":
        sex = np.char.add(sex.astype(str), table["race"].astype(str))
    if name == "injected":
        by_sex = np.where(sex == "Male", table.education_order[0], table.education_order[1])
        y = np.where(rng.random(len(y)) < 0.5, by_sex, y)
    return y, sex, (y[:, None] == np.unique(y)).astype(float)


@cache
def solved(name, epsilon, **settings):
    """A fit of up to 1,000 rounds, ended by residuals at rounding, and the distance and labels of
    the certified optimum.
    """
    y, groups, matrix = data(name)
    optimum = r2b.debias(y, sensitive_features=groups, epsilon=epsilon).soft_labels
    fitted = R2B(epsilon, max_rounds=ALL_ROUNDS, tol=1e-9, **settings).fit(
        y, sensitive_features=groups
    )
    return fitted, float(((optimum - matrix) ** 2).sum()), optimum


def after(fitted, rounds):
    return fitted.history_[min(rounds, len(fitted.history_)) - 1]


# One test for both numbers of rounds, and for the pinned mean: wherever tests run, a fit is made
# once.
@pytest.mark.parametrize("epsilon", BOUNDS)
@pytest.mark.parametrize("name", ["adult", "injected", "soft"])
def test_a_hundred_rounds_come_close_to_the_certified_optimum_and_a_thousand_reach_it(
    name, epsilon
):
    fitted, distance, optimum = solved(name, epsilon)
    y, groups, matrix = data(name)
    reached = after(fitted, 100)
    assert abs(reached.disparity - min(epsilon, parity_of(matrix, groups).max())) <= 1e-3
    # Adult's labels are nearly fair: the distance is small, and at tau = 0.5 the rounds approach it
    # slowly from below. Measured 1.4e-2 and 1.7e-3 for epsilon 0 and 0.025; a quadratic program in
    # place of the binary steps gives the same iterates.
    within = {0.0: 2e-2, 0.025: 2e-3}.get(epsilon, 1e-3) if name == "adult" else 1e-3
    assert reached.squared_distance == pytest.approx(distance, rel=within, abs=1e-15)
    out = fitted.transform(y, sensitive_features=groups)
    assert ((out - matrix) ** 2).sum() == pytest.approx(distance, rel=1e-6, abs=1e-15)
    assert abs(parity_of(out, groups).max() - min(epsilon, parity_of(matrix, groups).max())) <= 1e-6
    assert np.abs(out - optimum).max() <= 1e-6
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert out.min() >= 0
    if name != "injected":
        assert_a_pinned_mean_is_never_closer(name, epsilon, distance)


def assert_a_pinned_mean_is_never_closer(name, epsilon, distance):
    fitted, _, _ = solved(name, epsilon, target="population")
    y, groups, matrix = data(name)
    assert after(fitted, ALL_ROUNDS).squared_distance >= distance * (1 - 1e-9)
    means = group_means(fitted.transform(y, sensitive_features=groups), groups, np.ones(len(y)))
    assert np.abs(means - matrix.mean(axis=0)).max() <= epsilon / 2 + 1e-6
    assert fitted.rho_.sum() == pytest.approx(1.0, abs=1e-12)
    if epsilon == 0:
        assert after(fitted, ALL_ROUNDS).squared_distance > distance * (1 + 1e-6)


@pytest.mark.parametrize("target", ["free", "population"])
@pytest.mark.parametrize("name", ["adult", "soft"])
def test_z_as_printed_is_fair_after_every_round_and_what_is_left_comes_from_the_last_step(
    name, target
):
    y, groups, _ = data(name)
    for rounds in (1, 9, 30):
        method = R2B(max_rounds=rounds, target=target, output="z")
        z = method.fit_transform(y, sensitive_features=groups)
        np.testing.assert_allclose(z.sum(axis=1), 1.0, atol=1e-12)
        assert parity_of(z, groups).max() <= 1e-13
        assert max(each.raw_disparity for each in method.history_) <= 1e-13
        labels = R2B(max_rounds=rounds, target=target).fit_transform(y, sensitive_features=groups)
        np.testing.assert_allclose(
            labels, np.maximum(z, 0) / np.maximum(z, 0).sum(axis=1, keepdims=True), atol=1e-13
        )
        assert parity_of(labels, groups).max() == pytest.approx(
            method.history_[-1].disparity, abs=1e-13
        )
    assert z.min() < 0
    assert method.history_[-1].disparity > 1e-9


def test_r2b0_has_two_readings_and_they_differ():
    y, groups, _ = data("adult")
    tables, printed = (
        R2B0(reading=reading).fit_transform(y, sensitive_features=groups)
        for reading in ("tables", "algorithm")
    )
    np.testing.assert_allclose(
        tables, HTO().fit_transform(y, sensitive_features=groups), atol=1e-12
    )
    np.testing.assert_allclose(
        printed, R2B(max_rounds=1).fit_transform(y, sensitive_features=groups), atol=0
    )
    assert 0.2 < np.abs(tables - printed).max() < 0.4
    with pytest.raises(ParameterError, match="reading"):
        R2B0(reading="both")


def test_the_rounds_are_those_of_the_paper():
    # Written out class by class from the page, with all classes solved before Z and U move; the
    # thresholds are the fitted ones.
    y, groups, _ = data("soft")
    tau, n_classes = 0.5, y.shape[1]
    fitted = R2B(tau=tau, max_rounds=5).fit(y, sensitive_features=groups)
    z, u = np.zeros_like(y), np.zeros_like(y)
    for thresholds in fitted.thresholds_:
        f = y + tau * (z - u)
        h = np.stack(
            [
                np.clip((f[:, k] - thresholds[groups, k]) / (1 + tau), 0, 1)
                for k in range(n_classes)
            ],
            axis=1,
        )
        assert parity_of(h, groups).max() <= 1e-13
        z = h + u - ((h + u).sum(axis=1) - 1)[:, None] @ np.ones((1, n_classes)) / n_classes
        u = u + h - z
        np.testing.assert_allclose(z.sum(axis=1), 1.0, atol=1e-12)
    expected = np.maximum(z, 0) / np.maximum(z, 0).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.transform(y, sensitive_features=groups), expected, atol=1e-13)


@pytest.mark.parametrize("name", ["adult", "soft"])
def test_a_new_row_gets_what_an_equal_training_row_got(name):
    y, groups, _ = data(name)
    fitted = R2B(0.02).fit(y, sensitive_features=groups)
    out = fitted.transform(y, sensitive_features=groups)
    some = np.random.default_rng(0).permutation(len(y))[:40]
    np.testing.assert_allclose(
        fitted.transform(y[some], sensitive_features=groups[some]), out[some], atol=1e-12
    )
    # What the rounds themselves ended with: the training rows' own distance, to the last digits.
    matrix = data(name)[2]
    assert fitted.history_[-1].squared_distance == pytest.approx(
        ((out - matrix) ** 2).sum(), rel=1e-11
    )
    with pytest.raises(UnseenError):
        fitted.transform(y[:1], sensitive_features=["nobody"] if name == "adult" else [9])


def test_a_weight_is_a_repetition():
    y, groups, _ = data("soft")
    weight = np.random.default_rng(2).integers(1, 4, len(y))
    weighted = R2B(0.01).fit(y, sensitive_features=groups, sample_weight=weight)
    repeated = R2B(0.01).fit(
        np.repeat(y, weight, axis=0), sensitive_features=np.repeat(groups, weight)
    )
    np.testing.assert_allclose(weighted.thresholds_, repeated.thresholds_, atol=1e-10)
    assert weighted.history_[-1].squared_distance == pytest.approx(
        repeated.history_[-1].squared_distance, rel=1e-9
    )


@pytest.mark.parametrize("target", ["free", "population"])
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.05])
def test_descent_in_the_binary_step_agrees_with_the_exact_one(target, epsilon):
    y, groups, _ = data("soft")
    exact = R2B(epsilon, target=target, max_rounds=20).fit_transform(y, sensitive_features=groups)
    descent = R2B(
        epsilon, target=target, max_rounds=20, binary="sgd", steps=20, epochs=500, batch_size=32
    )
    np.testing.assert_allclose(
        descent.fit_transform(y, sensitive_features=groups), exact, atol=1e-7
    )


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"output": "y"},
            {"tau": 0.0},
            {"lam": 0.0},
            {"max_rounds": 0},
            {"max_rounds": 1.5},
            {"tol": -1.0},
        ),
        *({"target": "any"}, {"binary": "qp"}, {"random_state": -1}, {"random_state": "seed"}),
    ],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        R2B(**wrong)
    with pytest.raises(ParameterError, match="epsilon"):
        R2B(-0.1).fit(["a", "b"], sensitive_features=[0, 1])
