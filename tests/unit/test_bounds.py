"""Shapes of bound on their own: projection, derivative, support and settled prices against programmes written from the definitions."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from families_qp import Rule, limits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from r2b._constraints.parity import MomentBound, OverallBound, RangeBound, RatioBound, TargetBound

KINDS = ("range", "to_overall", "ratio", "target", "moments")
EPSILONS = (0.0, 1e-9, 1e-3, 0.3, 10.0, np.inf)
DECADES = (0, 3, 6)
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def shape(kind, epsilon, target):
    return {
        "range": lambda: RangeBound(epsilon),
        "to_overall": lambda: OverallBound(epsilon),
        "ratio": lambda: RatioBound(epsilon),
        "target": lambda: TargetBound(epsilon, target),
        "moments": lambda: MomentBound(epsilon, np.zeros_like(target)),
    }[kind]()


def drawn(kind, seed, decades, groups=None):
    """Means around and outside the simplex, weights over so many decades, one epsilon per class."""
    rng = np.random.default_rng([KINDS.index(kind), seed, decades])
    n_groups, n_classes = groups or int(rng.integers(1, 7)), 4
    means = rng.normal(0.3, 0.5, (n_groups, n_classes))
    weight = 10.0 ** rng.uniform(-decades, 0, n_groups)
    epsilon = rng.choice(EPSILONS, n_classes)
    if kind == "ratio":
        epsilon = np.where(epsilon == 10.0, 1.0, epsilon)
    return rng, means, weight / weight.sum(), epsilon, rng.dirichlet(np.ones(n_classes))


def inequalities(kind, epsilon, target, weight, k):
    """``low <= row @ m <= high`` for the means of one class; a ratio is one of means that are not negative."""
    if kind == "moments":  # as numbers, moments are boxed like the distance from a target of 0
        kind, epsilon, target = "target", 2.0 * epsilon, 0.0 * target
    rows = limits(Rule(np.eye(len(weight)), kind, epsilon, target), weight, k)
    rows = [each for each in rows if each[0].any()]  # one group is its own mean over all
    return rows + ([(row, 0.0, np.inf) for row in np.eye(len(weight))] if kind == "ratio" else [])


def parts(rows, n):
    equal = [(row, low) for row, low, high in rows if low == high]
    above = [(row, high) for row, low, high in rows if low < high and np.isfinite(high)]
    above += [(-row, -low) for row, low, high in rows if low < high and np.isfinite(low)]
    return [
        (np.array([row for row, _ in part]).reshape(-1, n), np.array([level for _, level in part]))
        for part in (equal, above)
    ]


def nearest(rows, means, weight):
    """Squared distance in the weighted norm to the closest means allowed, by an interior point method; lengths are scaled by weight."""
    n, root = len(means), np.sqrt(weight)
    (equal, level), (above, top) = parts(rows, n)
    if not rows:
        return 0.0
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    matrix = np.concatenate([equal, above]) / root
    size = np.abs(matrix).max(axis=1)
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.eye(n)),
        -root * means,
        sparse.csc_matrix(matrix / size[:, None]),
        np.concatenate([level, top]) / size,
        [clarabel.ZeroConeT(len(level)), clarabel.NonnegativeConeT(len(top))],
        options,
    ).solve()
    return float(((np.array(found.x) - root * means) ** 2).sum())


@pytest.mark.parametrize("decades", DECADES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_projection_is_allowed_and_no_allowed_means_are_closer(kind, decades):
    for seed in range(12):
        _, means, weight, epsilon, target = drawn(kind, seed, decades)
        bound = shape(kind, epsilon, target)
        found = bound.project(means, weight)
        assert bound.violation(found.means, weight).max() <= 1e-14
        for k in range(len(epsilon)):
            rows = inequalities(kind, epsilon, target, weight, k)
            for row, low, high in rows:
                assert low - 1e-13 <= row @ found.means[:, k] <= high + 1e-13
            own = float(weight @ (found.means[:, k] - means[:, k]) ** 2)
            assert own == pytest.approx(
                nearest(rows, means[:, k], weight), abs=2e-7 if decades == 6 else 2e-8
            )


@pytest.mark.parametrize("decades", DECADES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_projection_takes_away_is_a_price_that_supports_it(kind, decades):
    # Moreau: v = p + nu with nu settled, and <nu, p> the largest product of nu with anything
    # allowed. For the cone of a ratio it is 0.
    for seed in range(60):
        _, means, weight, epsilon, target = drawn(kind, seed, decades)
        bound = shape(kind, epsilon, target)
        kept = bound.project(means, weight).means
        prices = means - kept
        np.testing.assert_allclose(bound.settle(prices, weight), prices, atol=1e-14)
        product = float(weight @ (prices * kept).sum(axis=1))
        assert bound.support(bound.settle(prices, weight), weight) == pytest.approx(
            product, abs=1e-13
        )
        if kind == "ratio":
            assert product == pytest.approx(0.0, abs=1e-14)
        np.testing.assert_allclose(bound.project(kept, weight).means, kept, atol=2e-15)


@pytest.mark.parametrize("decades", DECADES)
@pytest.mark.parametrize("kind", KINDS)
def test_settled_prices_have_the_support_that_a_linear_programme_finds(kind, decades):
    for seed in range(8):
        rng, _, weight, epsilon, target = drawn(kind, seed, decades)
        bound = shape(kind, epsilon, target)
        prices = bound.settle(rng.normal(size=(len(weight), len(epsilon))), weight)
        np.testing.assert_allclose(bound.settle(prices, weight), prices, atol=1e-14)
        assert (
            (prices[:, np.isinf(epsilon)] <= 0).all()
            if kind == "ratio"
            else (prices[:, np.isinf(epsilon)] == 0).all()
        )
        value = 0.0
        for k in range(len(epsilon)):
            rows = inequalities(kind, epsilon, target, weight, k)
            # No rows: any means are allowed, and only prices of 0 are bounded.
            if not rows:
                assert np.abs(prices[:, k]).max() <= 1e-15
                continue
            (equal, level), (above, top) = parts(rows, len(weight))
            # A box far away keeps rounding of the balance from making the programme unbounded;
            # settled prices gain nothing there.
            cost = -weight * prices[:, k]
            found = linprog(
                cost, above, top, equal, level, bounds=(-100, 100), method="highs", options=EXACT
            )
            assert found.success
            value -= found.fun
        assert bound.support(prices, weight) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("decades", DECADES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_derivative_is_that_of_the_projection_and_an_orthogonal_projector(kind, decades):
    compared = 0
    for seed in range(40):
        rng, means, weight, epsilon, target = drawn(kind, seed, decades)
        bound = shape(kind, epsilon, target)
        jacobian = bound.derivative(bound.project(means, weight), weight)
        np.testing.assert_allclose(jacobian @ jacobian, jacobian, atol=1e-12)
        product = weight[:, None] * jacobian
        np.testing.assert_allclose(product, product.transpose(0, 2, 1), atol=1e-14)
        step, way = 1e-6, rng.normal(size=means.shape)
        ahead, here, behind = (
            bound.project(means + t * step * way, weight).means for t in (1, 0, -1)
        )
        slope = np.einsum("kst,tk->sk", jacobian, way)
        for k in range(len(epsilon)):
            # no kink between the three
            if np.abs(ahead[:, k] - 2 * here[:, k] + behind[:, k]).max() < 1e-12:
                np.testing.assert_allclose(
                    (ahead - behind)[:, k] / (2 * step), slope[:, k], atol=1e-8
                )
                compared += 1
    assert compared >= 150


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.sampled_from(DECADES))
def test_projections_do_not_grow_distances(kind, seed, decades):
    rng, means, weight, epsilon, target = drawn(kind, seed, decades)
    other = means + rng.normal(0, 10.0 ** rng.uniform(-6, 0), means.shape)
    bound = shape(kind, epsilon, target)
    apart = bound.project(means, weight).means - bound.project(other, weight).means
    assert (weight @ apart**2 <= weight @ (means - other) ** 2 * (1 + 1e-9) + 1e-28).all()


@pytest.mark.parametrize("kind", KINDS)
def test_measure_is_at_most_epsilon_exactly_where_nothing_is_violated(kind):
    for seed in range(200):
        rng, means, weight, epsilon, target = drawn(kind, seed, 3)
        means, bound = rng.dirichlet(np.ones(4), len(weight)), shape(kind, epsilon, target)
        if seed % 2:
            means = bound.project(means, weight).means
        inside = bound.violation(means, weight) <= 1e-13
        near = np.abs(bound.measure(means, weight) - epsilon) <= 1e-12
        np.testing.assert_array_equal(
            inside | near, (bound.measure(means, weight) <= epsilon) | near
        )
        if seed % 2:
            assert inside.all()


def test_with_equal_means_every_shape_of_group_bound_is_met():
    means, weight = np.tile([0.2, 0.8], (3, 1)), np.array([0.2, 0.3, 0.5])
    for kind in ("range", "to_overall", "ratio"):
        bound = shape(kind, np.zeros(2), means[0])
        assert bound.violation(means, weight).max() <= 1e-16
        assert bound.measure(means, weight).max() <= 1e-15


def test_a_ratio_of_negative_sums_projects_to_the_tip_where_nothing_moves():
    bound, weight = RatioBound(np.array([0.2])), np.array([0.5, 0.5])
    found = bound.project(np.array([[-1.0], [0.1]]), weight)
    np.testing.assert_array_equal(found.means, [[0.0], [0.0]])
    np.testing.assert_array_equal(bound.derivative(found, weight), np.zeros((1, 2, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_another_epsilon_keeps_the_shape(kind):
    bound = shape(kind, np.array([0.1, 0.2]), np.array([0.4, 0.6]))
    other = bound.at(np.array([0.0, np.inf]))
    assert type(other) is type(bound)
    assert other.epsilon.tolist() == [0.0, np.inf]
    if kind in ("target", "moments"):
        np.testing.assert_array_equal(other.target, bound.target)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, np.inf])
def test_two_groups_project_in_closed_form_as_three_do_by_their_kinks(epsilon):
    """A group cut in two equal halves changes nothing, but three groups go another way than two."""
    rng = np.random.default_rng(0)
    means, weight = rng.random((2, 200)), np.array([0.3, 0.7])
    # at the border of the bound, and equal
    means[1, :20] = means[0, :20] + (epsilon if np.isfinite(epsilon) else 0.0)
    bound = RangeBound(np.where(np.arange(200) % 7, epsilon, 0.2))
    two = bound.project(means, weight)
    three = bound.project(means[[0, 0, 1]], np.array([0.15, 0.15, 0.7]))
    assert np.abs(two.means - three.means[[0, 2]]).max() <= 1e-15
    away = np.abs(np.ptp(means, axis=0) - bound.epsilon) > 1e-12
    assert np.array_equal(two.clipped[:, away], three.clipped[[0, 2]][:, away])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["range", "to_overall", "ratio"])
def test_many_groups_project_by_a_sort_as_few_do_by_all_pairs(kind, seed, monkeypatch):
    decades = DECADES[seed % 3]
    _, means, weight, epsilon, target = drawn(kind, seed, decades, groups=17 + seed)
    bound = shape(kind, epsilon, target)
    means = means.round(1) if seed % 4 == 0 else means  # with ties
    sorted_ = bound.project(means, weight)
    monkeypatch.setattr("r2b._constraints.parity.bands._FEW_GROUPS", 1000)
    pairs = bound.project(means, weight)
    assert sorted_.means == pytest.approx(pairs.means, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_guess_of_who_leans_on_which_side_changes_no_bit_of_a_projection(seed):
    """Whether it is right, as signs of prices at the answer are, or wrong, or says nothing of a class."""
    rng = np.random.default_rng(seed)
    n_groups, n_classes = int(rng.integers(2, 8)), int(rng.integers(2, 10))
    bound = RangeBound(
        rng.choice([0.0, 1e-3, 0.05, 0.3, np.inf] if seed % 4 == 0 else [1e-3, 0.05], n_classes)
    )
    means, weight = rng.dirichlet(np.ones(n_classes), n_groups), rng.dirichlet(np.ones(n_groups))
    plain = bound.project(means, weight)
    right = np.where(plain.clipped, np.sign(means - plain.means), 0.0)
    for guess in (right, -right, np.zeros_like(means), rng.standard_normal(means.shape)):
        guided = bound.project(means, weight, guess)
        assert np.array_equal(guided.means, plain.means) and np.array_equal(
            guided.clipped, plain.clipped
        )
    if seed % 4:
        found = bound._as_guessed(means, weight, right)
        assert found is not None or not plain.clipped.any(axis=0).all()
