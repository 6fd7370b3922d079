"""Tables of many classes: sides of bands, inverses of what rows join, samples that do not pay, and weights that differ widely."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b._constraints.families import Request
from r2b._constraints.parity import Member, OverallBound, Parity, RangeBound
from r2b._data import read
from r2b._data.merge import merge
from r2b._labels.debiasing import Settings
from r2b._labels.task import MemoryTask
from r2b._solve.oracle import ClassOracle
from r2b._solve.oracle.memory import MemoryOracle, oracle_of
from r2b._solve.solvers.faces import Curvature
from r2b._solve.solvers.fitting import interior_first, sides_pay
from r2b._solve.solvers.inverses import inverses
from r2b._solve.solvers.newton import level_step
from r2b._solve.solvers.splitting import SidedSteps, sided


def definite(rng, n, joined):
    """Make a positive definite matrix whose other rows hold their diagonal alone."""
    factor = rng.standard_normal((len(joined), 2 * len(joined)))
    matrix = np.diag(rng.uniform(0.5, 2.0, n))
    matrix[np.ix_(joined, joined)] += factor @ factor.T / max(len(joined), 1)
    return matrix


@pytest.mark.parametrize("n_joined", [0, 1, 97, 230])
def test_inverses_of_what_is_joined_are_inverses(n_joined):
    rng = np.random.default_rng(n_joined)
    blocks = np.stack([definite(rng, 230, rng.permutation(230)[:n_joined]) for _ in range(3)])
    assert np.abs(np.matmul(blocks, inverses(blocks)) - np.eye(230)).max() < 1e-10


def test_what_halves_lose_pivots_find():
    # Its first half is all but singular, so that halves have no digits left; with rows exchanged it
    # is all but a diagonal.
    matrix = np.kron(np.array([[1e-14, 1.0], [1.0, 1e-14]]), np.eye(80)) + 1e-3
    assert np.abs(inverses(matrix) @ matrix - np.eye(160)).max() < 1e-10


@pytest.mark.parametrize("epsilon", [1e-4, 1e-3, 1e-2])
def test_on_the_sides_that_are_found_lies_the_optimum_of_the_model(epsilon):
    rng = np.random.default_rng(7)
    n_groups, n_classes = 5, 40
    share = rng.dirichlet(5 * np.ones(n_groups))
    parity = Parity.of_groups(RangeBound.of(epsilon, n_classes), share)
    blocks = (
        np.stack([definite(rng, n_classes, np.arange(n_classes)) for _ in range(n_groups)]) / 10
    )
    # Every class has a price, so that none is left out of the model.
    prices, means = rng.normal(0, 0.01, (2, n_groups, n_classes))
    prices -= share @ prices
    residual = float(np.abs(means - parity.project(means + prices).means).max())
    seen = sided(
        parity, blocks, prices, means, parity.project(means + prices), 0.0, 1e-3 * residual
    )
    step = level_step(blocks, seen.clipped, means - seen.means, prices, share, 0.0)
    there = means - np.einsum("skl,sl->sk", blocks, step)
    assert 0 < seen.clipped.mean() <= 1
    # Prices are optimal for means that follow them exactly when these are the projection of both
    # together.
    assert np.abs(there - parity.project(there + prices + step).means).max() < 1e-3 * residual


@pytest.mark.parametrize("shape", [RangeBound, OverallBound])
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_steps_of_groups_that_share_cells_end_at_the_optimum_of_the_model(shape, epsilon):
    rng = np.random.default_rng(7)
    n_classes, sizes = 12, (3, 2)
    n_groups = sum(sizes)
    bound = shape(np.full(n_classes, epsilon))
    members = (Member("a", slice(0, 3), bound), Member("b", slice(3, 5), bound))
    design = np.concatenate([rng.dirichlet(np.ones(size), 60) for size in sizes], axis=1)
    share = design.mean(axis=0)
    parity = Parity(members, np.arange(n_groups), share, np.full(60, 1 / 60), design)
    table = (
        definite(rng, n_groups * n_classes, np.arange(n_groups * n_classes)).reshape(
            2 * (n_groups, n_classes)
        )
        / 50
    )
    prices, means = rng.normal(0, 0.01, (2, n_groups, n_classes))
    prices = parity.settle(prices)
    target = parity.project(means + prices)
    residual = float(np.abs(means - target.means).max())
    step = SidedSteps(parity, Curvature(None, [table]), prices, means, target, 1e-3 * residual)(0.0)
    there = means - np.einsum("gkhl,hl->gk", table, step) / share[:, None]
    # some means are inside their bands
    assert 0 < np.isclose(prices + step, 0.0, atol=1e-12).mean() < 1
    assert np.abs(there - parity.project(there + prices + step).means).max() < 1e-3 * residual


def uncertain(n_rows, n_classes, n_groups, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 4))
    parts, y = (np.exp(z @ rng.normal(size=(4, size))) for size in (n_groups, n_classes))
    return y / y.sum(axis=1, keepdims=True), parts / parts.sum(axis=1, keepdims=True)


def test_uncertain_groups_in_bands_take_few_steps_of_newtons():
    y, parts = uncertain(30_000, 8, 5)
    fair = r2b.debias(y, sensitive_features=r2b.Membership(parts), epsilon=1e-3, lam=0.1)
    assert fair.status.ok and fair.certificate.holds
    # Without knowing sides they went in circles for forty steps, and an interior point took thirty
    # more.
    assert {line.stage.partition(",")[0] for line in fair.history} <= {"prepare", "newton"}
    assert len(fair.history) <= 40


@pytest.mark.parametrize(("n_rows", "n_classes", "n_groups", "epsilon", "first", "sides"), [
    (60_000, 20, 5, 1e-3, False, True),  # rows outnumber prices, and their table is soon made
    # in so narrow a band sides are not found out in a few hundred turns
    (60_000, 20, 5, 1e-6, False, False),
    (60_000, 20, 5, 0.0, False, False),
    (50, 20, 5, 1e-3, True, False),  # fewer rows than prices
    # a table of 1,200 prices costs more than a step of the interior point
    (9_000, 150, 8, 1e-3, True, False),
])  # fmt: skip
def test_which_comes_first_follows_from_rows_and_prices(
    n_rows, n_classes, n_groups, epsilon, first, sides
):
    y, parts = uncertain(n_rows, n_classes, n_groups)
    task = MemoryTask.of(
        read(y, sensitive_features=r2b.Membership(parts)), Request(epsilon=epsilon), Settings()
    )
    problem = task.problem(task.parity)
    assert interior_first(problem, task.oracle) is first and sides_pay(problem) is sides


def soft(rng, n_rows, n_classes, n_groups, sharp):
    groups = rng.integers(0, n_groups, n_rows)
    logits = (
        sharp * rng.standard_normal((n_rows, n_classes))
        + 0.5 * rng.standard_normal((n_groups, n_classes))[groups]
    )
    y = np.exp(logits - logits.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True), groups


@pytest.mark.parametrize("epsilon", [0.0, 3e-4])
def test_repeated_rows_ask_for_the_prices_of_weighted_ones(epsilon):
    y, groups = soft(np.random.default_rng(3), 1200, 60, 4, 5.0)
    times = np.random.default_rng(4).integers(1, 4, len(y))
    settings = {"epsilon": epsilon, "lam": 0.6, "merge_rows": "never"}
    weighted = r2b.debias(y, sensitive_features=groups, sample_weight=times, **settings)
    repeated = r2b.debias(
        np.repeat(y, times, axis=0), sensitive_features=np.repeat(groups, times), **settings
    )
    assert weighted.certificate.holds and repeated.certificate.holds
    assert (
        np.abs(np.repeat(weighted.soft_labels, times, axis=0) - repeated.soft_labels).max() < 1e-7
    )


def test_threads_change_no_bit_of_a_wide_table():
    y, groups = soft(np.random.default_rng(5), 1500, 130, 3, 4.0)
    one, two = (
        r2b.debias(y, sensitive_features=groups, epsilon=5e-4, threads=threads)
        for threads in (1, 2)
    )
    assert one.certificate.holds and np.array_equal(one.prices, two.prices)


def test_a_sample_has_rows_for_its_prices_or_is_not_drawn():
    rng = np.random.default_rng(6)
    for shape, drawn in (((7_000, 310, 6), False), ((140_000, 16, 6), True)):
        y, groups = soft(rng, *shape, 1.0)
        samples = MemoryOracle(merge(read(y, sensitive_features=groups))).samples()
        assert (samples is not None) == drawn


def test_weights_that_differ_widely_go_by_the_structure_of_class_labels():
    rng = np.random.default_rng(8)
    y, groups = np.append(np.arange(40), rng.integers(0, 40, 960)), rng.integers(0, 12, 1000)
    uneven = 10.0 ** rng.uniform(-4, 4, 1000)
    assert isinstance(
        oracle_of(merge(read(y, sensitive_features=groups, sample_weight=uneven))), ClassOracle
    )
    assert isinstance(oracle_of(merge(read(y, sensitive_features=groups))), MemoryOracle)
    fair = r2b.debias(y, sensitive_features=groups, sample_weight=uneven, lam=0.3)
    assert fair.certificate.holds
    # The names of classes and groups say nothing: those of others give the same labels.
    other = r2b.debias(39 - y, sensitive_features=11 - groups, sample_weight=uneven, lam=0.3)
    assert np.abs(other.soft_labels[:, ::-1] - fair.soft_labels).max() < 1e-7
