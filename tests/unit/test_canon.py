"""Prices that are as good as each other come out as one."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b._constraints.parity import RangeBound, TargetBound
from r2b._solve.oracle.reference import project


def solved(n_groups: int, epsilon: float, seed: int) -> r2b.FairLabels:
    rng = np.random.default_rng(seed)
    n, n_classes = 400, 5
    groups = np.arange(n) % n_groups
    y = (
        rng.dirichlet(np.ones(n_classes), n)
        * (rng.dirichlet(np.full(n_classes, 4.0), n_groups) * n_classes)[groups]
    )
    return r2b.debias(y / y.sum(axis=1, keepdims=True), sensitive_features=groups, epsilon=epsilon)


def support(prices: np.ndarray, epsilon: float, share: np.ndarray) -> float:
    return float(0.5 * epsilon * (share[:, None] * np.abs(prices)).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("n_groups", [2, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_prices_moved_at_no_cost_come_back(n_groups, epsilon, seed):
    fair = solved(n_groups, epsilon, seed)
    share = fair.families.share
    rng = np.random.default_rng(seed)
    moved_at_all = 0
    for _ in range(200):
        moves = (
            rng.normal(size=n_groups) * rng.choice([1e-3, 1e-2, 0.1]) * (rng.random(n_groups) < 0.7)
        )
        moves -= share @ moves
        moved = fair.prices + moves[:, None]
        if support(moved, epsilon, share) > support(fair.prices, epsilon, share) + 1e-15:
            continue
        moved_at_all += 1
        back = RangeBound(np.full(fair.prices.shape[1], epsilon)).canonical(moved, share, 2.0)
        np.testing.assert_allclose(back, fair.prices, atol=1e-10)
    assert moved_at_all or epsilon > 0


@pytest.mark.parametrize("n_groups", [2, 4])
def test_at_epsilon_zero_every_group_is_centred(n_groups):
    fair = solved(n_groups, 0.0, 7)
    assert np.abs(fair.prices.mean(axis=1)).max() < 1e-15
    assert np.abs(fair.families.share @ fair.prices).max() < 1e-15
    assert fair.certificate.holds


def test_a_class_that_is_free_keeps_a_price_of_zero():
    prices = np.array([[0.2, 0.0], [-0.2, 0.0]])
    bound = RangeBound(np.array([0.0, np.inf]))
    np.testing.assert_array_equal(bound.canonical(prices, np.array([0.5, 0.5]), 2.0), prices)


def test_no_move_raises_what_is_paid():
    for seed in range(20):
        fair = solved(5, 0.02, seed)
        prices = fair.prices + 0.0
        again = RangeBound(np.full(5, 0.02)).canonical(prices, fair.families.share, 2.0)
        assert (
            support(again, 0.02, fair.families.share)
            <= support(prices, 0.02, fair.families.share) + 1e-14
        )


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_prices_that_no_row_can_pay_are_lowered_without_a_label_changing(
    lam: float, epsilon: float
) -> None:
    rng = np.random.default_rng(5)
    prices = rng.normal(size=(1, 5)) - (0.0 if epsilon else 1e5)
    prices[0, 2] = 1e6
    lowered = TargetBound(np.full(5, epsilon), np.full(5, 0.2)).canonical(
        prices, np.ones(1), 1.0 + lam
    )
    assert np.abs(lowered).max() < 10
    rows = np.vstack([np.eye(5), rng.dirichlet(np.ones(5), 50)])
    before, after = (project((rows - each) / lam) for each in (prices, lowered))
    assert (after[:, 2] == 0).all()
    np.testing.assert_allclose(after, before, atol=1e-9 / lam)
