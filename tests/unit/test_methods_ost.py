"""Optimised score transformation: by its definition, by its dual, by its closed form on class
labels, and on Adult.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2b.datasets import load_adult
from r2b.methods import OST
from r2b.methods.binary import GroupedRows
from r2b.methods.ost import fit_scores, transform_scores
from r2b.metrics import demographic_parity_difference, group_means


def fitted(scores: Any, groups: Any, weight: Any = None, epsilon: float = 0.0) -> Any:
    """Return prices and targets of scores in any order."""
    rows = GroupedRows.of(np.asarray(groups), weight, int(np.max(groups)) + 1)
    return fit_scores(np.asarray(scores, np.float64)[rows.order], rows, epsilon)


def table(seed: int, kind: str, n_rows: int = 300) -> Any:
    rng, n_groups = np.random.default_rng(seed), 2 + seed
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n_rows - n_groups)])
    soft = rng.beta(1 + groups, 2)
    hard = (rng.random(n_rows) < soft).astype(float)
    hard[:2] = 0, 1
    scores = {
        "soft": soft,
        "hard": hard,
        "mixed": np.where(rng.random(n_rows) < 0.5, soft, hard),
        "near": np.where(hard > 0, 1 - 1e-9, 1e-9),
    }
    return scores[kind], groups, rng.random(n_rows) + 0.05


@given(r=st.floats(0, 1), mu=st.floats(-1e6, 1e6))
def test_the_closed_form_is_stationary(r, mu):
    new = float(transform_scores(r, mu))
    assert 0 <= new <= 1
    assert abs(mu * new**2 - (1 + mu) * new + r) <= 1e-14 * (1 + abs(mu))
    mirrored = 1 - float(transform_scores(1 - r, mu))
    assert float(transform_scores(1 - (1 - r), -mu)) == pytest.approx(mirrored, abs=1e-9)


def test_the_closed_form_at_its_edges():
    scores = np.linspace(0, 1, 101)
    assert np.array_equal(transform_scores(scores, 0.0), scores)
    for tiny in (1e-300, 1e-17, 1e-12, -1e-12, -1e-300):
        np.testing.assert_allclose(transform_scores(scores, tiny), scores, atol=1e-12)
    mu = np.array([1e-3, 0.5, 1.0, 1.5, 7.0, 1e9, 1e200])
    np.testing.assert_allclose(transform_scores(1.0, mu), np.minimum(1, 1 / mu), rtol=1e-15)
    np.testing.assert_allclose(transform_scores(0.0, -mu), np.maximum(0, 1 - 1 / mu), rtol=1e-14)
    assert not transform_scores(0.0, mu).any() and (transform_scores(1.0, -mu) == 1).all()


@pytest.mark.parametrize("seed", range(30))
def test_class_labels_of_two_groups_in_closed_form(seed):
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.random(2))
    one, two = rng.random(2) * [1, 10 ** rng.uniform(-3, 3)]
    weight = [one * low, one * (1 - low), two * high, two * (1 - high)]
    prices, targets = fitted([1, 0, 1, 0], [0, 0, 1, 1], np.array(weight))
    best = np.clip(two * high / (two * high + one * (1 - low)), low, high)
    np.testing.assert_allclose(targets, best, rtol=1e-13)
    raised, lowered = (transform_scores([0, 1], price) for price in prices)
    np.testing.assert_allclose(raised, [(best - low) / (1 - low), 1], atol=1e-13)
    np.testing.assert_allclose(lowered, [0, best / high], atol=1e-13)


def log_likelihood(r: Any, new: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        ones, zeros = np.where(r > 0, r * np.log(new), 0.0), (1 - r) * np.log1p(-new)
        return ones + np.where(r < 1, zeros, 0.0)


def pivot_of(prices: Any, targets: Any, center: float, epsilon: float) -> float:
    """The multiplier of the overall mean: the price of a group inside its bounds, else anything
    between those at the two bounds.
    """
    upper, lower = targets >= center + epsilon - 1e-11, targets <= center - epsilon + 1e-11
    inside = ~(upper | lower)
    if inside.any():
        return prices[inside].mean()
    return prices[upper].min() if upper.any() else prices[lower].max()


@pytest.mark.parametrize("epsilon", [0.0, 0.003, 0.03, 0.1])
@pytest.mark.parametrize("kind", ["soft", "hard", "mixed", "near"])
@pytest.mark.parametrize("seed", range(3))
def test_no_gap_to_the_dual(seed, kind, epsilon):
    """Weak duality makes this a proof: a feasible point whose value is that of a dual point is
    optimal.
    """
    r, groups, weight = table(seed, kind)
    total = np.bincount(groups, weight)
    share = total / total.sum()

    def means_of(values: Any) -> Any:
        return np.bincount(groups, weight * values) / total

    prices, targets = fitted(r, groups, weight, epsilon)
    new = transform_scores(r, prices[groups])
    means, original = means_of(new), means_of(r)
    center = share @ means
    np.testing.assert_allclose(means, targets, atol=1e-13)
    assert abs(share @ prices) < 1e-13
    bound = min(epsilon, np.abs(original - share @ original).max())
    assert np.abs(means - center).max() == pytest.approx(bound, abs=1e-12)
    multiplier = share * (prices - pivot_of(prices, means, center, epsilon))
    # The dual point must be one on its own: mu_s = lambda_s / w_s - sum(lambda), from which the
    # dual value is computed afresh.
    dual_prices = (multiplier / share - multiplier.sum())[groups]
    answer = transform_scores(r, dual_prices)
    dual = share @ means_of(log_likelihood(r, answer) - dual_prices * answer)
    gap = dual + epsilon * np.abs(multiplier).sum() - share @ means_of(log_likelihood(r, new))
    assert gap == pytest.approx(0, abs=1e-11)


@pytest.mark.parametrize("kind", ["soft", "hard", "mixed"])
def test_a_weight_is_a_repetition_and_names_do_not_matter(kind):
    r, groups, _ = table(1, kind)
    times = np.random.default_rng(0).integers(0, 4, len(r))
    for epsilon in (0.0, 0.04):
        once = fitted(r, groups, times, epsilon)
        often = fitted(np.repeat(r, times), np.repeat(groups, times), epsilon=epsilon)
        np.testing.assert_allclose(once, often, atol=1e-9)
        mirrored = fitted(1 - r, 2 - groups, times, epsilon)
        np.testing.assert_allclose(1 - mirrored[1][::-1], once[1], atol=1e-12)


def test_adult_by_sex_moves_to_the_rates_of_the_larger_group():
    adult = load_adult()
    y, sex = adult["education"], adult["sex"]
    model = OST().fit(y, sensitive_features=sex)
    classes, codes = np.unique(y, return_inverse=True)
    groups = (sex == "Male").astype(int)
    before = transform_scores(np.eye(len(classes))[codes], model.prices_[groups])
    women, men = (before[groups == s].mean(axis=0) for s in (0, 1))
    np.testing.assert_allclose(women, men, atol=1e-12)
    np.testing.assert_allclose(men, group_means(y, sensitive_features=sex).means[1], atol=1e-12)
    assert model.targets_.sum(axis=1) == pytest.approx([1, 1], abs=1e-12)
    rows = model.transform(y, sensitive_features=sex)
    np.testing.assert_allclose(rows, before / before.sum(axis=1, keepdims=True), atol=1e-15)
    # Dividing by the row sums brings back part of the difference, which is the weakness of solving
    # class by class.
    left, whole = (
        demographic_parity_difference(each, sensitive_features=sex) for each in (rows, y)
    )
    assert 0.005 < left < whole
