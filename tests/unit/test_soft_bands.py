"""Narrow open bands and many groups: bands that give lead to the answer of the general methods."""

from __future__ import annotations

import numpy as np
import pytest
from test_many_classes import problem_of, table, zipf

import r2b
from r2b._solve.certificate import Problem, certify
from r2b._solve.oracle import ClassOracle, MemoryOracle
from r2b._solve.solvers import Status, plan, solve
from r2b._solve.solvers.newton import Newton

pytest.importorskip("numba")

from r2b._solve.oracle.soft_bands import balanced_softly, falls, places
from r2b._solve.solvers.soft import SoftBands
from r2b._solve.solvers.thresholds import Point, Thresholds


def narrow(n_groups: int, n_classes: int, lam: float = 0.3, epsilon: float = 5e-4) -> Problem:
    return problem_of(zipf(n_groups, n_classes, seed=n_groups), epsilon, lam)


@pytest.mark.parametrize(
    ("n_groups", "n_classes", "lam"), [(60, 16, 0.3), (60, 16, 1.0), (40, 50, 0.3)]
)
def test_the_answer_is_that_of_the_general_methods(n_groups, n_classes, lam):
    problem = narrow(n_groups, n_classes, lam)
    walker = MemoryOracle(problem.rows_in_memory, "numpy")
    ours, theirs = (
        solve(problem, ClassOracle(problem.rows_in_memory, "compiled")),
        solve(problem, walker),
    )
    assert ours.status is theirs.status is Status.SOLVED
    assert {step.stage for step in ours.history} == {"soft bands", "thresholds"}
    proof, other = (
        certify(problem, walker, each.prices, walker.label_means()) for each in (ours, theirs)
    )
    assert proof.holds
    assert proof.objective == pytest.approx(other.objective, abs=1e-8)
    assert proof.means == pytest.approx(other.means, abs=1e-8)


def test_few_groups_closed_or_wide_bands_and_plain_kernels_go_to_thresholds():
    for problem, kernel in (
        (narrow(2, 12), "compiled"),
        (narrow(5, 12, lam=1.0), "compiled"),
        (narrow(30, 12, epsilon=0.0), "compiled"),
        (narrow(30, 12, epsilon=0.1), "compiled"),
        (narrow(30, 12, lam=1.0), "numpy"),
    ):
        oracle = ClassOracle(problem.rows_in_memory, kernel)
        first = next(
            plan.exact_plan(
                problem, oracle, None, 1e-10, Newton(oracle, problem.parity, problem.lam)
            )
        )
        assert not isinstance(first.solver, SoftBands)


@pytest.mark.parametrize(
    ("n_groups", "n_classes", "epsilon"),
    [(5, 40, 1e-4), (8, 60, 1e-6), (16, 100, 3e-8), (40, 50, 2e-6)],
)
def test_below_one_a_few_groups_and_bands_of_any_narrowness_are_led_there_too(
    n_groups, n_classes, epsilon
):
    problem = narrow(n_groups, n_classes, 0.2, epsilon)
    walker = MemoryOracle(problem.rows_in_memory, "numpy")
    found = solve(problem, ClassOracle(problem.rows_in_memory, "compiled"))
    assert found.status is Status.SOLVED and found.history[0].stage == "soft bands"
    assert len(found.history) < 200
    assert certify(problem, walker, found.prices, walker.label_means()).holds


@pytest.mark.parametrize("seed", [0, 1])
def test_means_that_no_price_brings_about_end_no_search(seed):
    """Groups without a row of a class, in a band that all but touches 0: their mean comes to it at no worth, however low."""
    rng = np.random.default_rng(seed)
    labels, groups = rng.integers(0, 100, 800), rng.integers(0, 30, 800)
    fair = r2b.debias(labels, sensitive_features=groups, lam=0.28, epsilon=1.4e-9, time_limit=20.0)
    assert np.isfinite(fair.prices).all() and fair.status in (Status.SOLVED, Status.OUT_OF_TIME)


@pytest.mark.parametrize("soft", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_soft_prices_balance_and_means_are_at_their_places(lam, soft):
    rng = np.random.default_rng(3)
    n_cells, n_classes = 30, 7
    weight = rng.dirichlet(np.ones(n_classes), n_cells)
    share, epsilon = rng.dirichlet(np.ones(n_cells)), np.full(n_classes, 1e-3)
    level = rng.normal(0.3, 0.2, (n_cells, n_classes))
    worth, levels = balanced_softly(
        level, weight, share, lam, epsilon, np.full(n_classes, np.nan), np.zeros(level.shape), soft
    )
    assert share @ worth == pytest.approx(np.zeros(n_classes), abs=1e-10)
    received = (weight[:, None, :] * np.maximum(worth[:, :, None] - level[:, None, :], 0.0)).sum(
        axis=2
    )
    means = (received + weight * np.clip(worth + 1.0 - level, 0.0, min(lam, 1.0))) / lam
    assert means - places(worth, epsilon, soft)[0] == pytest.approx(
        np.tile(levels / lam, (n_cells, 1)), abs=1e-10
    )


def test_places_glide_from_one_side_to_the_other_and_are_the_slope_of_the_cost():
    worth, epsilon, soft, little = np.linspace(-1.0, 1.0, 41)[:, None], np.array([0.01]), 0.05, 1e-6
    place, fall = places(worth, epsilon, soft)[0], falls(worth, epsilon, soft)
    above, below = places(worth + little, epsilon, soft), places(worth - little, epsilon, soft)
    assert place[20] == pytest.approx(0.005) and place[0] > 0.0095 and place[-1] < 0.0005
    assert (below[0] - above[0]) / (2 * little) == pytest.approx(fall, abs=1e-7)
    assert (below[1] - above[1]) / (2 * little) == pytest.approx(place, abs=1e-8)


@pytest.mark.parametrize("seed", range(30))
def test_soft_prices_are_found_from_any_guess_where_means_keep_over_stretches(seed):
    """Rows that keep their labels leave means flat and bands to decide, and where those give little the balance all but jumps."""
    rng = np.random.default_rng(seed)
    n_cells, n_classes, lam = (
        int(rng.integers(2, 40)),
        int(rng.integers(2, 30)),
        float(rng.choice([0.05, 0.3, 1.0, 3.0])),
    )
    weight = rng.dirichlet(np.full(n_classes, rng.choice([0.1, 1.0])), n_cells)
    weight = np.where(weight < 1e-6, 0.0, weight)
    weight /= weight.sum(axis=1, keepdims=True)
    share, epsilon = (
        rng.dirichlet(np.ones(n_cells)),
        np.full(n_classes, 10.0 ** rng.uniform(-5, -2)),
    )
    epsilon[0] = np.inf
    level, guess = (
        rng.normal(0.3, 0.2, weight.shape),
        rng.normal(0.0, 0.1, weight.shape) * rng.integers(2),
    )
    soft = float(10.0 ** rng.uniform(-6, 0))
    worth, levels = balanced_softly(
        level, weight, share, lam, epsilon, np.full(n_classes, np.nan), guess, soft
    )
    assert share @ worth == pytest.approx(np.zeros(n_classes), abs=1e-12)
    assert not worth[:, 0].any()
    received = (weight[:, None, :] * np.maximum(worth[:, :, None] - level[:, None, :], 0.0)).sum(
        axis=2
    )
    means = (received + weight * np.clip(worth + 1.0 - level, 0.0, min(lam, 1.0))) / lam
    off = means - places(worth, epsilon, soft)[0] - levels / lam
    assert np.abs(off[:, 1:]).max() < 1e-7


def test_threads_change_no_bit():
    args = table(zipf(60, 150, seed=3))
    one, two = (r2b.debias(**args, lam=0.3, epsilon=1e-3, threads=threads) for threads in (1, 2))
    assert one.status is two.status is Status.SOLVED
    assert np.array_equal(one.prices, two.prices)


def test_where_thresholds_go_in_circles_the_interior_point_starts_beside_them():
    rng = np.random.default_rng(0)
    y, groups, weight = (
        rng.integers(0, 60, 900),
        rng.integers(0, 40, 900),
        10.0 ** rng.uniform(-3, 3, 900),
    )
    weights = np.zeros((40, 60))
    np.add.at(weights, (groups, y), weight)
    problem = problem_of(weights, 1e-6, 0.3)
    walker = MemoryOracle(problem.rows_in_memory, "numpy")
    ours, theirs = (
        solve(problem, ClassOracle(problem.rows_in_memory, "compiled")),
        solve(problem, walker),
    )
    assert ours.status is theirs.status is Status.SOLVED
    stages = {step.stage for step in ours.history}
    assert "zoom" in stages and "interior" not in stages
    proof, other = (
        certify(problem, walker, each.prices, walker.label_means()) for each in (ours, theirs)
    )
    assert proof.holds
    assert proof.means == pytest.approx(other.means, abs=1e-9)


def direction_of(seed: int) -> tuple[Thresholds, Point, np.ndarray, np.ndarray]:
    """Give a point on the way of even classes, and the direction from it, undamped."""
    rng = np.random.default_rng(seed)
    problem = problem_of(
        rng.poisson(50, (25, 60)) * rng.choice([0.3, 1.0, 2.0], (25, 60)), 2e-3, 0.3
    )
    way = SoftBands(ClassOracle(problem.rows_in_memory, "compiled"), problem.parity, problem.lam)
    state = way.start(np.zeros((25, 60)))
    while state.soft > 1e-2:
        state = way.step(state)
    thresholds = way._at(state.soft)
    here = thresholds.point(state.inner.level, 0.3, state.inner.levels, -state.inner.prices)
    return thresholds, here, *thresholds._direction(here, 0.3, 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_directions_see_what_supports_do_not_know(seed):
    """A row that begins to give, and a class that begins to receive, meet all others of their group at once."""
    thresholds, here, worth, level = direction_of(seed)
    there = here.worth + worth
    nobody = here.supports.given == 0
    plain = here.worth + thresholds.change(here, 0.3, 1e-9)
    held = np.maximum(np.where(nobody, -np.inf, plain).max(axis=1), plain.min(axis=1) + 0.7)
    assert (there <= np.maximum(held[:, None], here.worth) + 1e-12)[nobody].all()
    assert np.array_equal(there[~nobody], plain[~nobody])
    best = thresholds.oracle.respond(-there, 0.3)[1]
    begins = (here.supports.sizes == 0) & (there + 0.7 < there.max(axis=1, keepdims=True))
    assert begins.any()
    assert (here.level + level >= best - 1e-12)[begins].all()


def test_even_classes_take_few_steps():
    """Rows that gave to hundreds of classes at once sent every long step back: 43 steps, where 28 are enough."""
    rng = np.random.default_rng(0)
    weights = rng.poisson(200_000 / 30 / 150 * rng.dirichlet(np.ones(150) * 2.0, 30) * 150)
    fair = r2b.debias(**table(weights), lam=0.3, epsilon=2e-3)
    assert fair.status is Status.SOLVED
    assert len(fair.history) <= 40
