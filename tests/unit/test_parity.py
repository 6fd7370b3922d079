"""The range bound by its definition: what it allows, the closest allowed means, its support function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import group_means, parity_of

from r2b._constraints.parity import RangeBound
from r2b.errors import ParameterError


def distance(means, other, weight):
    return float(weight @ ((means - other) ** 2).sum(axis=1))


def allowed(rng, n_groups, epsilon, centre, spread):
    """Random means inside the band, per class anywhere near the centre."""
    base = centre + rng.normal(0, spread, len(epsilon))
    inside = rng.uniform(0, 1, (n_groups, len(epsilon))) ** rng.choice([0.2, 1, 5])
    inside[:, rng.random(len(epsilon)) < 0.5] = np.round(inside[:, :1])
    return base + epsilon * inside


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e9])
@pytest.mark.parametrize("n_groups", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.4])
def test_no_allowed_point_is_closer_than_the_projection(scale, n_groups, epsilon):
    rng = np.random.default_rng(7 * n_groups)
    for _ in range(20):
        means = rng.uniform(0, 1, (n_groups, 4)) * scale
        weight = 10.0 ** rng.uniform(-3, 0, n_groups)
        bound = RangeBound.of(epsilon * scale, 4)
        found = bound.project(means, weight)
        assert (np.ptp(found.means, axis=0) <= bound.epsilon + 1e-15 * scale * 4).all()
        best = distance(means, found.means, weight)
        for _ in range(40):
            other = allowed(
                rng, n_groups, bound.epsilon, weight @ means / weight.sum(), 0.2 * scale
            )
            assert best <= distance(means, other, weight) * (1 + 1e-12)
            # Near by as well: a step from the projection towards any allowed point leads away from
            # the means.
            near = found.means + 1e-3 * (other - found.means)
            assert best <= distance(means, near, weight) * (1 + 1e-12) + 1e-28 * scale**2


def test_a_grid_of_levels_does_no_better():
    """Per class the closest point clips to [c, c + epsilon] for some c; every c of a fine grid is tried."""
    rng = np.random.default_rng(1)
    grid = np.linspace(-0.5, 1.5, 4001)
    for epsilon in (0.0, 0.1, 0.7):
        means, weight = rng.uniform(0, 1, (5, 3)), rng.uniform(0.1, 1, 5)
        found = RangeBound.of(epsilon, 3).project(means, weight).means
        for k in range(3):
            clipped = np.clip(means[:, k], grid[:, None], grid[:, None] + epsilon)
            costs = ((clipped - means[:, k]) ** 2) @ weight
            mine = weight @ (found[:, k] - means[:, k]) ** 2
            assert mine <= costs.min() + 1e-15
            # and the grid comes near it: the comparison is not vacuous
            assert mine >= costs.min() - 1e-3


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([0.0, 1e-6, 0.05, 0.3, 2.0, np.inf]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_the_face_and_the_balance(n_groups, n_classes, epsilon, tied, seed):
    rng = np.random.default_rng(seed)
    means = (
        rng.integers(0, 4, (n_groups, n_classes)) / 4
        if tied
        else rng.uniform(-1, 1, (n_groups, n_classes))
    )
    weight = 10.0 ** rng.uniform(-6, 0, n_groups)
    bound = RangeBound.of(epsilon, n_classes)
    found = bound.project(means, weight)
    assert np.array_equal(found.means[~found.clipped], means[~found.clipped])
    assert (bound.violation(found.means, weight) <= 1e-15).all()
    # What is cut off above equals what is filled up below, in weight: the mean over all groups
    # stays.
    assert np.abs(weight @ (found.means - means)).max() <= 1e-14 * weight.sum()
    # An exact projection is idempotent.
    assert np.abs(bound.project(found.means, weight).means - found.means).max() <= 1e-14
    if epsilon == 0:
        assert found.clipped.all()
        assert np.abs(found.means - weight @ means / weight.sum()).max() < 1e-14
    if epsilon >= 2:
        assert not found.clipped.any()


def test_means_that_are_allowed_stay_bit_for_bit():
    means = np.random.default_rng(0).uniform(0.4, 0.5, (4, 3))
    found = RangeBound.of(0.1, 3).project(means, np.ones(4))
    assert np.array_equal(found.means, means) and not found.clipped.any()


def test_renaming_groups_and_classes_goes_through_the_projection():
    rng = np.random.default_rng(3)
    means, weight, epsilon = (
        rng.uniform(0, 1, (6, 5)),
        rng.uniform(0.1, 1, 6),
        np.array([0, 0.1, 0.2, 1e-6, np.inf]),
    )
    plain = RangeBound.of(epsilon, 5).project(means, weight).means
    rows, columns = rng.permutation(6), rng.permutation(5)
    moved = RangeBound.of(epsilon[columns], 5).project(means[rows][:, columns], weight[rows]).means
    assert np.abs(moved - plain[rows][:, columns]).max() < 1e-15
    assert (
        np.abs(RangeBound.of(epsilon, 5).project(means, 1e6 * weight).means - plain).max() < 1e-15
    )


def test_violation_is_what_lies_above_epsilon():
    x, groups = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]), np.array([0, 0, 1])
    means = group_means(x, groups, np.ones(3))
    assert parity_of(x, groups).tolist() == pytest.approx([0.55, 0.55])
    assert RangeBound.of([0.05, 0.6], 2).violation(
        means, np.ones(len(means))
    ).tolist() == pytest.approx([0.5, 0.0])


@pytest.mark.parametrize("epsilon", [0.0, 0.1, np.array([0.0, 0.3, 1.0])])
def test_support_is_the_largest_inner_product(epsilon):
    """By definition: max of <nu, m>_W over allowed means m, attained at the ends of the bands, and no random point exceeds it."""
    rng = np.random.default_rng(5)
    bound = RangeBound.of(epsilon, 3)
    weight = rng.uniform(0.1, 1, 4)
    for _ in range(20):
        prices = rng.normal(0, 1, (4, 3))
        prices -= weight @ prices / weight.sum()
        best = bound.support(prices, weight)
        ends = bound.epsilon * (prices > 0)
        assert weight @ (prices * ends).sum(axis=1) == pytest.approx(best, abs=1e-13)
        others = (allowed(rng, 4, bound.epsilon, rng.uniform(0, 1, 3), 1.0) for _ in range(30))
        assert max(float(weight @ (prices * other).sum(axis=1)) for other in others) <= best + 1e-12


def test_a_class_without_a_bound_costs_nothing():
    bound = RangeBound.of([np.inf, 0.2], 2)
    prices = np.array([[0.0, 0.5], [0.0, -0.5]])
    assert bound.support(prices, np.array([0.5, 0.5])) == pytest.approx(0.05)


@pytest.mark.parametrize(
    "epsilon", [-0.1, np.nan, -np.inf, "fair", None, [0.1, -0.1, 0.1], [0.1, np.nan, 0.0], 1j]
)
def test_epsilons_that_are_no_bound_are_refused(epsilon):
    with pytest.raises(ParameterError) as raised:
        RangeBound.of(epsilon, 3)
    assert "epsilon" in raised.value.problem and raised.value.remedy.endswith(".")


def test_the_error_names_the_class_and_the_shape():
    with pytest.raises(ParameterError, match=r"epsilon is -0\.5 for class 'b'"):
        RangeBound.of([0.1, -0.5], 2, ["a", "b"])
    for wrong in ([0.1, 0.2], [[0.1, 0.2, 0.3]], []):
        with pytest.raises(ParameterError, match="3 classes") as raised:
            RangeBound.of(wrong, 3)
        assert raised.value.facts["n_classes"] == 3


def test_the_bound_is_frozen_and_its_own():
    given_epsilon = np.array([0.1, 0.2])
    bound = RangeBound.of(given_epsilon, 2)
    given_epsilon[0] = 9.0
    assert bound.epsilon.tolist() == [0.1, 0.2]
    with pytest.raises(ValueError, match="read-only"):
        bound.epsilon[0] = 0.5
