"""Every bound of the registry by its definition: two sides around a level, and what follows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from r2b._constraints.bounds import BOUNDS, CHOICES, PARAMETERS, Asked, RangeBound, TargetBound
from r2b._constraints.bounds.base import Bound
from r2b._constraints.parity import Member, Parity, proves_infeasible
from r2b.errors import ParameterError

NAMES = sorted(BOUNDS)
SEEDS = range(12)
EPSILONS = np.array([0.0, 1e-6, 0.05, 0.3, np.inf])
GROUPS = "abcdefg"


def made(name: str, rng: np.random.Generator, n_groups: int, epsilon: np.ndarray) -> Bound:
    """A bound as a user asks for it, then with widths of its own."""
    n_classes = epsilon.shape[-1]
    given = {"target": rng.dirichlet(np.ones(n_classes)), "reference": GROUPS[n_groups // 2]}
    parameters = {each: given[each] for each in BOUNDS[name].parameters}
    asked = Asked(
        np.full(n_classes, 0.1),
        dict.fromkeys(PARAMETERS) | parameters,
        range(n_classes),
        "letter",
        GROUPS[:n_groups],
        ["letter"],
        lambda: np.full(n_classes, 1.0 / n_classes),
        lambda: rng.dirichlet(np.ones(n_classes), n_groups),
    )
    return BOUNDS[name].of(asked).at(epsilon)


def drawn(name: str, seed: int, by_entry: bool = False, decades: int = 2):
    """Means around and outside the simplex, shares over some decades, widths per class or entry."""
    rng = np.random.default_rng([NAMES.index(name), seed, by_entry])
    n_groups, n_classes = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    means = rng.normal(0.3, 0.5, (n_groups, n_classes))
    if seed % 3 == 0:
        means = means.round(1)  # ties
    weight = 10.0 ** rng.uniform(-decades, 0, n_groups)
    epsilon = rng.choice(EPSILONS, (n_groups, n_classes) if by_entry else n_classes)
    return rng, means, weight / weight.sum(), made(name, rng, n_groups, epsilon)


def largest(bound: Bound, cost: np.ndarray, weight: np.ndarray, box: tuple) -> float:
    """The largest ``sum cost m`` over allowed means m in a box, by a linear programme per class.

    Minus infinity where no means in the box are allowed.
    """
    n_groups, n_classes = cost.shape
    low, high = (np.broadcast_to(end, cost.shape) for end in box)
    sides, total = bound.sides(n_groups), 0.0
    share = weight / weight.sum()
    for k in range(n_classes):
        above, top, equal = [], [], []
        if bound.level == "mean":
            equal = [np.append(share, -1.0)]
        for g in np.flatnonzero(sides.bounded[:, k]):
            unit = np.eye(n_groups + 1)[g]
            above += [unit, -unit]
            above[-2][-1] = -sides.high_slope[g, k]
            above[-1][-1] = sides.low_slope[g, k]
            top += [sides.high[g, k], -sides.low[g, k]]
        found = linprog(
            -np.append(cost[:, k], 0.0),
            np.array(above) if above else None,
            top or None,
            np.array(equal) if equal else None,
            [0.0] if equal else None,
            [*zip(low[:, k], high[:, k], strict=True), (max(bound.lowest_level, -1e3), 1e3)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.status == 2:
            return -np.inf
        assert found.success, found.message
        total -= found.fun
    return total


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_no_allowed_means_are_closer_than_the_projection(name, seed, by_entry):
    _, means, weight, bound = drawn(name, seed, by_entry)
    found = bound.project(means, weight)
    assert bound.violation(found.means, weight).max() <= 1e-13
    if not by_entry:
        assert (bound.measure(found.means, weight) <= bound.epsilon + 1e-12).all()
    # The closest point of a convex set: nothing allowed lies further in the direction of the rest.
    rest = weight[:, None] * (means - found.means)
    product = float((rest * found.means).sum())
    assert largest(bound, rest, weight, (-50, 50)) <= product + 1e-8
    assert (
        np.array_equal(found.means[~found.clipped], means[~found.clipped]) or name == "to_overall"
    )
    again = bound.project(found.means, weight)
    np.testing.assert_allclose(again.means, found.means, atol=1e-13)


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_settled_prices_have_the_support_of_the_definition(name, seed, by_entry):
    rng, means, weight, bound = drawn(name, seed, by_entry)
    prices = bound.settle(rng.normal(size=means.shape), weight)
    np.testing.assert_allclose(bound.settle(prices, weight), prices, atol=1e-13)
    value = largest(bound, weight[:, None] * prices, weight, (-50, 50))
    assert bound.support(prices, weight) == pytest.approx(value, abs=1e-7)
    # What a projection takes away is a price, and supports the set where it ends (Moreau).
    kept = bound.project(means, weight).means
    taken = means - kept
    np.testing.assert_allclose(bound.settle(taken, weight), taken, atol=1e-12)
    product = float(weight @ (taken * kept).sum(axis=1))
    assert bound.support(taken, weight) == pytest.approx(product, abs=1e-12)


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_is_that_of_the_projection(name, by_entry):
    compared = 0
    for seed in range(30):
        rng, means, weight, bound = drawn(name, seed, by_entry)
        jacobian = bound.derivative(bound.project(means, weight), weight)
        np.testing.assert_allclose(jacobian @ jacobian, jacobian, atol=1e-12)
        step, way = 1e-6, rng.normal(size=means.shape)
        ahead, here, behind = (
            bound.project(means + t * step * way, weight).means for t in (1, 0, -1)
        )
        slope = np.einsum("kst,tk->sk", jacobian, way)
        for k in range(means.shape[1]):
            if np.abs(ahead[:, k] - 2 * here[:, k] + behind[:, k]).max() < 1e-12:  # no kink
                np.testing.assert_allclose(
                    (ahead - behind)[:, k] / (2 * step), slope[:, k], atol=1e-7
                )
                compared += 1
    assert compared >= 30


@pytest.mark.parametrize("name", NAMES)
def test_a_disparity_is_at_most_epsilon_where_nothing_is_violated(name):
    for seed in range(60):
        rng, means, weight, bound = drawn(name, seed)
        means = rng.dirichlet(np.ones(means.shape[1]), len(weight))
        measure, violation = bound.measure(means, weight), bound.violation(means, weight)
        near = np.abs(measure - bound.epsilon) <= 1e-12
        assert np.array_equal((violation <= 1e-13) | near, (measure <= bound.epsilon) | near)
        assert (measure <= bound.largest).all()


@pytest.mark.parametrize("name", NAMES)
def test_many_groups_and_classes_of_far_apart_weights(name):
    rng = np.random.default_rng(1)
    weight = 10.0 ** rng.uniform(-6, 0, 300)
    means, weight = rng.dirichlet(np.ones(70), 300), weight / weight.sum()
    bound = made(name, rng, 7, np.full(70, 0.01))
    found = bound.project(means, weight)
    assert bound.violation(found.means, weight).max() <= 1e-13
    prices = means - found.means
    assert bound.support(bound.settle(prices, weight), weight) == pytest.approx(
        float(weight @ (prices * found.means).sum(axis=1)), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(150))
def test_what_is_taken_for_implied_is(seed):
    """Means within one bound, averaged over unions of groups, are within the one that it
    implies.
    """
    rng = np.random.default_rng(seed)
    groups = [name for name in CHOICES if BOUNDS[name].compares_groups]
    target = rng.dirichlet(np.ones(3))

    def one() -> Bound:
        name, epsilon = str(rng.choice(groups)), rng.choice([0.0, 0.02, 0.1, 0.3], 3)
        bound = made(name, rng, 6, epsilon)
        return TargetBound(epsilon, target) if isinstance(bound, TargetBound) else bound

    fine, coarse = one(), one()
    weight = rng.dirichlet(np.ones(6))
    means = fine.project(rng.dirichlet(np.ones(3), 6), weight).means
    union = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    averaged = union.T @ (weight[:, None] * means) / (weight @ union)[:, None]
    if hasattr(coarse, "reference"):
        coarse = made(coarse.name, rng, 3, coarse.epsilon)
    if coarse.implied_by(fine):
        assert coarse.violation(averaged, weight @ union).max() <= 1e-9
    assert type(fine)(**vars(fine)).implied_by(fine) or hasattr(fine, "reference")


@pytest.mark.parametrize("name", NAMES)
def test_a_bound_says_what_it_is_and_comes_back_from_json(name):
    cls = BOUNDS[name]
    assert cls.name == name and cls.title and cls.description[0].islower()
    assert set(cls.defaults) <= set(cls.parameters) <= set(PARAMETERS)
    for seed in range(6):
        _rng, means, weight, bound = drawn(name, seed, bool(seed % 2))
        back = cls.from_json(json.loads(json.dumps(bound.to_json())), len(means))
        assert type(back) is cls
        np.testing.assert_array_equal(back.epsilon, bound.epsilon)
        np.testing.assert_array_equal(
            back.project(means, weight).means, bound.project(means, weight).means
        )
    with pytest.raises(ValueError, match="epsilon"):
        cls.from_json({"kind": name, "epsilon": [-1.0]}, 1)


def test_names_to_choose_from_are_those_that_compare_groups():
    assert set(CHOICES) == {name for name, bound in BOUNDS.items() if bound.compares_groups}


def test_a_ratio_of_negative_sums_projects_to_the_tip_where_nothing_moves():
    bound, weight = BOUNDS["ratio"](np.array([0.2])), np.array([0.5, 0.5])
    found = bound.project(np.array([[-1.0], [0.1]]), weight)
    np.testing.assert_array_equal(found.means, [[0.0], [0.0]])
    np.testing.assert_array_equal(bound.derivative(found, weight), np.zeros((1, 2, 2)))


def test_a_ratio_refuses_a_class_that_nobody_has():
    asked = Asked(
        np.full(2, 0.2), {}, ["no", "yes"], "sex", population=lambda: np.array([1.0, 0.0])
    )
    with pytest.raises(ParameterError, match="'yes' is empty"):
        BOUNDS["ratio"].of(asked)


def layered(rng: np.random.Generator, name: str) -> Parity:
    """Two overlapping families over five cells, one with offsets, of two outcomes of three
    classes.
    """
    outcomes = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    cell_share = rng.dirichlet(np.ones(5))
    design = np.concatenate(
        [np.eye(5)[:, [0, 1, 1, 2, 2]][:, [0, 1, 3]], rng.random((5, 2))], axis=1
    )
    offsets = rng.normal(0, 0.02, (3, 2))
    members = (
        Member("one", slice(0, 3), made(name, rng, 3, np.array([0.05, 0.1])), offsets),
        Member("two", slice(3, 5), made(name, rng, 2, np.array([0.05, 0.1]))),
    )
    share = cell_share @ design
    return Parity(members, np.arange(5), share, cell_share, design, outcomes=outcomes)


@pytest.mark.parametrize("name", NAMES)
def test_shifts_are_the_transpose_of_means(name):
    rng = np.random.default_rng(2)
    parity = layered(rng, name)
    prices, cells = rng.normal(size=(5, 2)), rng.dirichlet(np.ones(3), 5)
    shifts, means = parity.shifts(prices), parity.means(cells)
    assert shifts.shape == (5, 3) and means.shape == (5, 2)
    paid = float(parity.cell_share @ (shifts * cells).sum(axis=1))
    assert paid == pytest.approx(parity.product(prices, means))
    assert np.abs(shifts).max() <= parity.largest_shift(prices)
    # the squared length of shifts by that of prices, in their own weights
    length = float(parity.cell_share @ (shifts**2).sum(axis=1))
    assert length <= parity.scale * parity.product(prices, prices) + 1e-12
    design = rng.normal(size=(5, 5))  # signed, as that of moments
    signed = replace(parity, design=design - design.mean(axis=1)[:, None], share=np.ones(5))
    pairs = signed.design.T @ (signed.cell_share[:, None] * signed.design)
    largest = np.linalg.eigvalsh(pairs).max() * np.linalg.norm(signed.outcomes, 2) ** 2
    assert largest <= signed.scale * (1 + 1e-12)
    curvature = rng.normal(size=(3, 3))
    np.testing.assert_allclose(
        parity.curvature(curvature), parity.outcomes @ curvature @ parity.outcomes.T
    )


@pytest.mark.parametrize("name", NAMES)
def test_offsets_are_added_before_the_bound_is_asked(name):
    rng = np.random.default_rng(3)
    parity = layered(rng, name)
    means = rng.uniform(0, 1, (5, 2))
    found = parity.project(means)
    assert parity.violation(found.means) <= 1e-13
    for member in parity.members:
        part, weight = member.groups, parity.share[member.groups]
        added = 0.0 if member.offsets is None else member.offsets
        expected = member.bound.project(means[part] + added, weight).means - added
        np.testing.assert_allclose(found.means[part], expected, atol=1e-14)
        assert member.violation(found.means[part], weight).max() <= 1e-13
    prices = means - found.means
    supported = parity.support(parity.settle(prices))
    assert supported == pytest.approx(parity.product(prices, found.means), abs=1e-12)
    sides = parity.sides
    level = {"none": 0.0, "mean": None, "free": None}
    if level[parity.members[0].bound.level] == 0.0:
        assert (found.means <= sides.high + 1e-12)[sides.bounded].all()
        assert (found.means >= sides.low - 1e-12)[sides.bounded].all()


def test_prices_are_centred_where_that_costs_nothing():
    share = np.array([0.25, 0.75])
    parity = Parity.of_groups(RangeBound(np.zeros(3)), share)
    prices = np.array([[0.9, 0.3, 0.3], [-0.3, -0.1, -0.1]])
    np.testing.assert_allclose(
        parity.canonical(prices, 2.0), [[0.4, -0.2, -0.2], [-0.4 / 3, 0.2 / 3, 0.2 / 3]]
    )
    banded = Parity.of_groups(RangeBound(np.full(3, 0.1)), share)
    dearer = np.array([[0.6, 0.0, 0.0], [-0.2, 0.0, 0.0]])  # once centred
    np.testing.assert_allclose(banded.canonical(dearer, 2.0), dearer)
    free = Parity.of_groups(RangeBound(np.array([0.0, 0.0, np.inf])), share)
    assert not free.canonical(prices, 2.0)[:, 2].any()


def test_prices_that_no_row_can_pay_are_lowered():
    bound = TargetBound(np.full(3, 0.1), np.full(3, 1 / 3))
    prices = np.array([[0.2, -0.1, 1e6]])
    np.testing.assert_allclose(bound.capped(prices, 2.0), [[0.2, -0.1, 1.9]])


@pytest.mark.parametrize("seed", range(20))
def test_targets_that_contradict_each_other_are_proven_infeasible(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.dirichlet(np.ones(3), 2)
    apart = float(np.abs(one - other).max())
    for epsilon, impossible in ((0.5 * apart, True), (1.5 * apart, False)):
        bounds = [TargetBound(np.full(3, epsilon), target) for target in (one, other)]
        members = tuple(Member("", slice(g, g + 1), bound) for g, bound in enumerate(bounds))
        parity = Parity(members, np.arange(2), np.ones(2), np.ones(1), np.ones((1, 2)))
        gap = np.sign(one - other) * (np.abs(one - other) == apart)
        assert proves_infeasible(parity, np.array([-gap, gap])) == impossible


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [0.0, 1e-9, 0.05])
def test_canonical_prices_have_the_same_answers(name, width):
    rng = np.random.default_rng(4)
    parity = Parity.of_groups(made(name, rng, 5, np.full(3, width)), rng.dirichlet(np.ones(5)))
    prices = rng.normal(size=(5, 3))
    prices = parity.settle(prices - parity.share @ prices)
    change = parity.canonical(prices, 1e3) - prices
    assert np.ptp(change, axis=1).max() <= 1e-13  # a constant per group changes no label
