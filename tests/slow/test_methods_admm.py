"""Algorithm 1: it converges to the certified optimum, round by round as printed, and has none of
the defects of its published forms.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from problems import group_means, parity_of

import r2b
from r2b.datasets import load_adult
from r2b.methods import HTO, R2B, R2B0

ALL_ROUNDS = 1_000


@cache
def data(name: str) -> Any:
    """Labels, groups and the labels as a matrix; "injected" sets half of Adult's labels by sex, as
    in the paper's experiments.
    """
    rng = np.random.default_rng(7)
    if name == "soft":
        groups = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
        y = np.stack([rng.dirichlet(np.ones(4) + 2.0 * np.eye(4)[group]) for group in groups])
        return y, groups, y
    table = load_adult()
    y, sex = table["education"], table["sex"]
    if name == "injected":
        by_sex = np.where(sex == "Male", table.education_order[0], table.education_order[1])
        y = np.where(rng.random(len(y)) < 0.5, by_sex, y)
    return y, sex, (y[:, None] == np.unique(y)).astype(float)


def normalised(z: Any) -> Any:
    positive = np.maximum(z, 0)
    return positive / positive.sum(axis=1, keepdims=True)


# closed, one that binds on every table, and one that Adult's own labels all but meet
@pytest.mark.parametrize("epsilon", [0.0, 0.025, 0.1])
@pytest.mark.parametrize("name", ["adult", "injected", "soft"])
def test_a_hundred_rounds_come_close_to_the_certified_optimum_and_a_thousand_reach_it(
    name, epsilon
):
    y, groups, matrix = data(name)
    optimum = r2b.debias(y, sensitive_features=groups, epsilon=epsilon).soft_labels
    distance, bound = ((optimum - matrix) ** 2).sum(), min(epsilon, parity_of(matrix, groups).max())
    # Ended by residuals at rounding.
    fitted = R2B(epsilon, max_rounds=ALL_ROUNDS, tol=1e-9).fit(y, sensitive_features=groups)
    reached = fitted.history_[min(100, len(fitted.history_)) - 1]
    assert abs(reached.disparity - bound) <= 1e-3
    # Adult's labels are nearly fair: the distance is small, and at tau = 0.5 the rounds approach it
    # slowly from below. Measured 1.4e-2 and 1.7e-3 for epsilon 0 and 0.025; a quadratic program in
    # place of the binary steps gives the same iterates.
    within = {0.0: 2e-2, 0.025: 2e-3}.get(epsilon, 1e-3) if name == "adult" else 1e-3
    assert reached.squared_distance == pytest.approx(distance, rel=within, abs=1e-15)
    out = fitted.transform(y, sensitive_features=groups)
    assert ((out - matrix) ** 2).sum() == pytest.approx(distance, rel=1e-6, abs=1e-15)
    assert abs(parity_of(out, groups).max() - bound) <= 1e-6
    assert np.abs(out - optimum).max() <= 1e-6 and out.min() >= 0
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    if name == "injected":
        return
    # A pinned mean is never closer.
    pinned = R2B(epsilon, max_rounds=ALL_ROUNDS, tol=1e-9, target="population")
    out = pinned.fit_transform(y, sensitive_features=groups)
    assert pinned.history_[-1].squared_distance >= distance * (
        1 + (1e-6 if epsilon == 0 else -1e-9)
    )
    means = group_means(out, groups, np.ones(len(y)))
    assert np.abs(means - matrix.mean(axis=0)).max() <= epsilon / 2 + 1e-6
    assert pinned.rho_.sum() == pytest.approx(1.0, abs=1e-12)


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
        np.testing.assert_allclose(labels, normalised(z), atol=1e-13)
        left = method.history_[-1].disparity
        assert parity_of(labels, groups).max() == pytest.approx(left, abs=1e-13)
    assert z.min() < 0 and left > 1e-9


def test_r2b0_has_two_readings_and_they_differ():
    y, sex, _ = data("adult")
    tables, printed, hto, one_round = (
        method.fit_transform(y, sensitive_features=sex)
        for method in (R2B0(), R2B0(reading="algorithm"), HTO(), R2B(max_rounds=1))
    )
    np.testing.assert_allclose(tables, hto, atol=1e-12)
    np.testing.assert_array_equal(printed, one_round)
    assert 0.2 < np.abs(tables - printed).max() < 0.4


def test_the_rounds_are_those_of_the_paper():
    # Written out from the page, with all classes solved before Z and U move; the thresholds are the
    # fitted ones.
    y, groups, _ = data("soft")
    tau, n_classes = 0.5, y.shape[1]
    fitted = R2B(tau=tau, max_rounds=5).fit(y, sensitive_features=groups)
    z, u = np.zeros_like(y), np.zeros_like(y)
    for thresholds, said in zip(fitted.thresholds_, fitted.history_, strict=True):
        f, before = y + tau * (z - u), z
        h = np.clip((f - thresholds[groups]) / (1 + tau), 0, 1)
        assert parity_of(h, groups).max() <= 1e-13
        z = h + u - ((h + u).sum(axis=1) - 1)[:, None] @ np.ones((1, n_classes)) / n_classes
        u = u + h - z
        assert said.primal_residual == pytest.approx(np.linalg.norm(z - h))
        assert said.dual_residual == pytest.approx(np.linalg.norm(z - before))
        assert said.squared_distance == pytest.approx(((normalised(z) - y) ** 2).sum())
    found = fitted.transform(y, sensitive_features=groups)
    np.testing.assert_allclose(found, normalised(z), atol=1e-13)


def test_a_weight_is_a_repetition():
    y, groups, _ = data("soft")
    weight = np.random.default_rng(2).integers(1, 4, len(y))
    weighted = R2B(0.01).fit(y, sensitive_features=groups, sample_weight=weight)
    many = np.repeat(np.arange(len(y)), weight)
    repeated = R2B(0.01).fit(y[many], sensitive_features=groups[many])
    np.testing.assert_allclose(weighted.thresholds_, repeated.thresholds_, atol=1e-10)
    distances = [each.history_[-1].squared_distance for each in (weighted, repeated)]
    assert distances[0] == pytest.approx(distances[1], rel=1e-9)


@pytest.mark.parametrize("target", ["free", "population"])
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.05])
def test_descent_in_the_binary_step_agrees_with_the_exact_one(target, epsilon):
    y, groups, _ = data("soft")
    known = {"target": target, "max_rounds": 20}
    exact = R2B(epsilon, **known)
    descent = R2B(epsilon, **known, binary="sgd", steps=20, epochs=500, batch_size=32)
    one, two = (each.fit_transform(y, sensitive_features=groups) for each in (exact, descent))
    np.testing.assert_allclose(one, two, atol=1e-7)
