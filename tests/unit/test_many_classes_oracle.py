"""Class labels by their structure, against rows read one by one; and prices class by class."""

from __future__ import annotations

import numpy as np
import pytest
from problems import project

from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.oracle import ClassOracle, Oracle

classes_compiled = pytest.importorskip("r2b._solve.oracle.classes_compiled")


def rows_of(weight: np.ndarray):
    """Merged rows of a table of weights, groups by classes."""
    groups, classes = np.nonzero(weight)
    return merge(read(classes, sensitive_features=groups, sample_weight=weight[groups, classes]))


def drawn(seed: int):
    """Draw weights (some groups miss classes), prices on any scale, some tied, and lam."""
    rng = np.random.default_rng(seed)
    n_groups, n_classes = int(rng.integers(1, 5)), int(rng.integers(2, 25))
    weight = rng.dirichlet(np.full(n_classes, 0.5), n_groups) * 10.0 ** rng.uniform(
        -3, 0, (n_groups, 1)
    )
    weight[rng.random(weight.shape) < 0.2] = 0.0
    weight[:, 0] += 0.01
    weight[0] += 0.01  # every class occurs
    prices = rng.normal(0.0, rng.choice([1e-3, 0.05, 0.5, 3.0]), weight.shape)
    lam = float(rng.choice([0.05, 0.3, 1.0, 2.0, 30.0]))
    return weight, prices if seed % 4 else prices.round(1), lam


def made(weight: np.ndarray) -> tuple[ClassOracle, Oracle]:
    rows = rows_of(weight)
    return ClassOracle.of(rows), Oracle.of(rows, kernel="numpy")


@pytest.mark.parametrize("seed", range(40))
def test_structure_gives_what_a_walk_over_the_rows_gives(seed):
    weight, prices, lam = drawn(seed)
    ours, theirs = made(weight)
    assert ours.label_means() == pytest.approx(theirs.label_means(), abs=1e-15)
    seen, walked = (oracle.evaluate(prices, lam, curvature=True) for oracle in (ours, theirs))
    assert seen.means == pytest.approx(walked.means, abs=1e-13)
    assert seen.value == pytest.approx(walked.value, abs=1e-13, rel=1e-13)
    if seed % 4:  # between ties either support is right
        assert seen.curvature == pytest.approx(walked.curvature, abs=1e-12 / lam)
        design, groups = np.random.default_rng(seed).random((len(weight), 3)), [np.arange(3)]
        assert ours.curvature(prices, lam, groups, design)[0] == pytest.approx(
            theirs.curvature(prices, lam, groups, design)[0], abs=1e-12 / lam
        )


@pytest.mark.parametrize("seed", range(12))
def test_evidence_is_that_of_rows_walked_one_by_one(seed):
    weight, prices, lam = drawn(seed)
    ours, theirs = made(weight)
    answers = np.random.default_rng(seed).dirichlet(np.ones(weight.shape[1]), len(ours.rows.cells))
    for options in ({}, {"unchanged": True}, {"answers": answers}):
        seen, walked = (oracle.inspect(prices, lam, **options) for oracle in (ours, theirs))
        assert seen.means == pytest.approx(walked.means, abs=1e-13)
        for name in (
            "slack",
            "squared_norm",
            "agreement",
            "squared_distance",
            "moved",
            "simplex_violation",
        ):
            assert getattr(seen, name) == pytest.approx(getattr(walked, name), abs=1e-13), name


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6, 7])
def test_products_averages_and_shares_follow_from_the_supports(seed):
    weight, prices, lam = drawn(seed)
    oracle, _ = made(weight)
    supports, level, _, _ = oracle.respond(prices, lam)
    rng = np.random.default_rng(seed)
    d, amount = rng.normal(size=prices.shape), rng.normal(size=prices.shape)
    n_classes = prices.shape[1]
    # cell, old class, new class
    inside = np.stack([project((np.eye(n_classes) - shift) / lam) > 0 for shift in prices])
    assert np.array_equal(supports.counts, inside.sum(axis=2))
    means = np.einsum("sjk,sk->sj", inside, d) / inside.sum(axis=2)
    assert supports.averages(d) == pytest.approx(means, abs=1e-12)
    share = oracle.weight * amount / inside.sum(axis=2)
    assert supports.spread(amount) == pytest.approx(
        np.einsum("sj,sjk->sk", share, inside), abs=1e-13
    )
    matrices = np.stack([supports.matrix(cell) for cell in range(len(prices))])
    assert supports.product(d) == pytest.approx(
        np.einsum("skl,sl->sk", matrices, d), abs=1e-12 / lam
    )
    assert supports.diagonal == pytest.approx(np.einsum("skk->sk", matrices), abs=1e-13 / lam)
    raised = np.eye(n_classes) - prices[:, None, :] - level[:, :, None]
    assert np.maximum(raised, 0.0).sum(axis=2) == pytest.approx(
        np.full(prices.shape, lam), rel=1e-12
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_compiled_loops_stay_inside_their_arrays(seed, monkeypatch):
    """Python checks every index that compiled code does not."""
    weight, prices, lam = drawn(seed)
    oracle, _ = made(weight)
    epsilon, nothing = np.full(prices.shape[1], 0.01), np.full(prices.shape[1], np.nan)

    def everything() -> list[np.ndarray]:
        supports, level, means, value = oracle.respond(prices, lam)
        share = (oracle.weight, oracle.cell_share, lam, epsilon, nothing)
        worth, levels = classes_compiled.balanced(level, *share)
        there, excess = oracle.supports_at(worth, level, lam)
        return [means, value, supports.product(prices), worth, levels, there.counts, excess]

    fast = everything()
    for name, function in vars(classes_compiled).copy().items():
        if hasattr(function, "py_func"):
            monkeypatch.setattr(classes_compiled, name, function.py_func)
    for one, other in zip(fast, everything(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_systems_are_solved_on_what_is_free_and_balance(seed):
    """By the conditions of a minimum on changes that balance.

    What is left is one number for each class, where anything may change.
    """
    weight, prices, lam = drawn(seed)
    oracle, _ = made(weight)
    rng = np.random.default_rng(seed)
    supports, share, n_classes = oracle.respond(prices, lam)[0], oracle.cell_share, weight.shape[1]
    free = rng.random(weight.shape) < (1.0 if seed % 3 == 0 else 0.7)
    extra = rng.uniform(0.5, 1.0, weight.shape if seed % 2 else n_classes)
    right = rng.normal(size=weight.shape)
    d = supports.solution(right, free, share, extra, 1e-12)
    assert not d[~free].any()
    assert share @ d == pytest.approx(np.zeros(n_classes), abs=1e-12)
    left = right - np.stack([supports.matrix(cell) @ d[cell] for cell in range(len(d))]) - extra * d
    for k in range(n_classes):
        assert np.ptp(left[free[:, k], k]) < 1e-9 if free[:, k].any() else True


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_supports_of_given_thresholds_by_their_definition(lam):
    rng = np.random.default_rng(3)
    oracle, _ = made(rng.dirichlet(np.ones(12), 2))
    worth, level = rng.normal(0, 0.4, (2, 12)), rng.normal(0.5, 0.4, (2, 12))
    supports, excess = oracle.supports_at(worth, level, lam)
    kept = np.clip(worth + 1.0 - level, 0.0, min(lam, 1.0))
    given = np.maximum(worth[:, None, :] - level[:, :, None], 0.0)
    assert excess == pytest.approx((given.sum(axis=2) + kept) / lam - 1.0, abs=1e-12)
    partly = (kept > 0) & (kept < min(lam, 1.0)) & (worth <= level)
    assert np.array_equal(supports.counts, (given > 0).sum(axis=2) + partly)


@pytest.mark.parametrize("seed", range(40))
def test_prices_of_a_class_balance_and_bring_its_means_into_the_band(seed):
    """Optimal by its conditions.

    At the bottom of the band where worth is raised, at the top where it is lowered, inside
    where it is 0.
    """
    rng = np.random.default_rng(seed)
    n_cells, n_classes = int(rng.integers(1, 5)), int(rng.integers(1, 25))
    lam = float(rng.choice([0.05, 0.3, 1.0, 2.0, 10.0]))
    level = rng.normal(
        rng.choice([0.0, 1.0 - lam]), rng.choice([0.0, 1e-3, 0.05, 0.5, 2.0]), (n_cells, n_classes)
    )
    weight = rng.dirichlet(np.full(n_classes, 0.5), n_cells) * (
        rng.random((n_cells, n_classes)) > 0.2
    )
    weight[:, 0] += 1e-3
    weight /= weight.sum(axis=1, keepdims=True)
    share = rng.dirichlet(np.ones(n_cells))
    epsilon = np.where(rng.random(n_classes) < 0.1, np.inf, rng.choice([0.0, 1e-4, 0.01, 0.1]))
    worth, at = classes_compiled.balanced(
        level, weight, share, lam, epsilon, np.full(n_classes, np.nan)
    )
    assert np.abs(share @ worth).max() < 1e-13 * max(1.0, np.abs(worth).max())
    given = np.einsum("sj,sjk->sk", weight, np.maximum(worth[:, None, :] - level[:, :, None], 0.0))
    means = (given + weight * np.clip(worth + 1.0 - level, 0.0, min(lam, 1.0))) / lam
    low = at / lam
    bounded = np.isfinite(epsilon)
    high = low + np.where(bounded, epsilon, 0.0)
    raised, lowered = (worth > 1e-12) & bounded, (worth < -1e-12) & bounded
    within = bounded & ~raised & ~lowered
    assert np.abs(means - low)[raised].max(initial=0.0) < 1e-11
    assert np.abs(means - high)[lowered].max(initial=0.0) < 1e-11
    assert np.maximum(low - means, means - high)[within].max(initial=0.0) < 1e-11
    assert not worth[:, ~bounded].any()
    guessed, _ = classes_compiled.balanced(level, weight, share, lam, epsilon, at)
    assert guessed == pytest.approx(worth, abs=1e-9 * max(1.0, np.abs(worth).max()))


@pytest.mark.parametrize(
    ("at", "new", "jump"), [(0.1, 0.9, 0.2), (0.25, 0.9, 0.3), (0.55, 0.1, 0.5), (0.35, 0.45, None)]
)
def test_a_step_to_another_level_ends_just_beyond_the_first_jump(at, new, jump):
    """Jumps at .2 and .3, and at .5 and .6; a cell that receives something has none."""
    own, facts, narrow = np.array([0.3, 0.6, 0.4]), np.zeros((3, 3)), 1e-6
    facts[2] = 0.1
    found = classes_compiled._up_to_jump(at, new, narrow, 0.1, 1.0, own, facts)
    beyond = 0.0 if jump is None else np.sign(new - at) * (found - jump)
    assert found == new if jump is None else 0.0 < beyond < narrow


@pytest.mark.parametrize("lam", [0.05, 0.3, 1.0, 4.0])
def test_the_level_of_a_class_is_found_in_few_evaluations(lam, monkeypatch):
    for name, function in vars(classes_compiled).copy().items():
        if hasattr(function, "py_func"):
            monkeypatch.setattr(classes_compiled, name, function.py_func)
    evaluated, worth_at = [], classes_compiled._worth_at
    monkeypatch.setattr(
        classes_compiled, "_worth_at", lambda *given: evaluated.append(1) or worth_at(*given)
    )
    rng, n_classes = np.random.default_rng(0), 12
    weight, share = rng.dirichlet(np.ones(n_classes), 5), rng.dirichlet(np.ones(5))
    level = rng.normal(0.3, 0.3, weight.shape)
    given = (weight, share, lam, np.full(n_classes, 0.01))
    _, found = classes_compiled.balanced(level, *given, np.full(n_classes, np.nan))
    assert len(evaluated) <= 6 * n_classes  # forty where a search halves what is left
    evaluated.clear()
    classes_compiled.balanced(level + 0.01 * rng.normal(size=level.shape), *given, found)
    assert len(evaluated) <= 3 * n_classes
