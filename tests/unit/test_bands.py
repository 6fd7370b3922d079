"""Steps that know their bands: models solved exactly, by the projection and by an outside solver."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b._constraints.parity import (
    Member,
    OverallBound,
    Parity,
    RangeBound,
    RatioBound,
    TargetBound,
)
from r2b._constraints.parity.offsets import OffsetBound
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.oracle import DesignOracle, MemoryOracle
from r2b._solve.solvers.bands import BandNewton, Bands
from r2b._solve.solvers.newton import Newton

GROUPS, CLASSES = 5, 6


def parity(bound, rng):
    """Give a constraint whose groups share all cells."""
    share = rng.dirichlet(np.ones(GROUPS))
    cells = rng.dirichlet(np.ones(GROUPS), 40)
    return Parity(
        (Member("g", slice(0, GROUPS), bound),),
        np.arange(GROUPS),
        share,
        np.full(40, 1 / 40),
        cells / share,
    )


def bounds(rng):
    """Draw bounds of the kinds that bands know, some classes closed or free."""
    width = rng.choice([0.0, 1e-3, 0.05, 0.3], CLASSES)
    width[0] = 0.02
    spread = RangeBound(width)
    added = rng.normal(size=(GROUPS, CLASSES)) * 0.05
    return [
        spread,
        RangeBound(np.where(width == 0.3, np.inf, width)),
        TargetBound(width, rng.dirichlet(np.ones(CLASSES))),
        OffsetBound.of(spread, added - added.mean(axis=1, keepdims=True)),
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", range(4))
def test_a_model_is_solved_exactly_whichever_way_signs_change(seed, kind):
    rng = np.random.default_rng([seed, kind])
    constraint = parity(bounds(rng)[kind], rng)
    bands = Bands.of(constraint)
    factor = rng.normal(size=(len(bands.entries), 2 * len(bands.entries))) * 10.0 ** rng.uniform(
        -2, 1
    )
    matrix = factor @ factor.T + 1e-3 * np.eye(len(factor))
    means = rng.uniform(size=(GROUPS, CLASSES))
    system = bands.frame.copy()
    system[: len(matrix), : len(matrix)] = matrix
    model = bands.model(system, bands.scaled(means))
    start = bands.scaled(
        constraint.settle(
            rng.choice([0.0, 1.0], (GROUPS, CLASSES)) * rng.normal(size=(GROUPS, CLASSES))
        )
    )
    for found in (
        bands.best(model, start, 1e-13),
        bands._one_by_one(model, np.zeros_like(start), 1e-13),
    ):
        prices = bands.prices(found, means.shape)
        left = np.array(means)
        left.ravel()[bands.entries] -= (matrix @ found) / bands.root
        # Optimal prices are those at which what is left of the means is its own projection, moved
        # by the prices.
        bounded = np.zeros(means.size, dtype=bool)
        bounded[bands.entries] = True
        gap = np.where(
            bounded.reshape(means.shape), left - constraint.project(left + prices).means, 0.0
        )
        assert np.abs(gap).max() < 1e-9
        assert np.abs(prices - constraint.settle(prices)).max() < 1e-9


def test_other_shapes_of_bands_are_left_to_newton():
    rng = np.random.default_rng(0)
    for bound in (OverallBound(np.full(CLASSES, 0.1)), RatioBound(np.full(CLASSES, 0.2))):
        assert Bands.of(parity(bound, rng)) is None
    cells = Parity(
        (Member("g", slice(0, 2), RangeBound(np.zeros(3))),),
        np.arange(2),
        np.full(2, 0.5),
        np.full(2, 0.5),
        None,
    )
    assert Bands.of(cells) is None
    assert Bands.of(cells.at(0.1)) is not None


@pytest.mark.parametrize("epsilon", [[0.1, 0.2, 0.3], [0.0, 0.2, np.inf], [np.inf, 1e-3, np.inf]])
def test_the_papers_bound_is_read_directly_as_it_is_through_its_sides(epsilon, monkeypatch):
    cells = Parity.of_groups(RangeBound(np.array(epsilon)), np.array([2.0, 1.0, 5.0, 3.0]))
    direct = Bands.of(cells)
    monkeypatch.setattr(Parity, "simple", False)
    written_out = Bands.of(cells)
    for name in Bands.__dataclass_fields__:
        assert np.array_equal(getattr(direct, name), getattr(written_out, name)), name


def test_the_system_of_groups_is_that_of_any_constraint(monkeypatch):
    rng = np.random.default_rng(0)
    groups = np.arange(300) % GROUPS
    rows = merge(
        read(
            rng.dirichlet(np.full(CLASSES, 0.3), 300),
            sensitive_features=groups,
            sample_weight=rng.uniform(1, 9, 300),
        ),
        "never",
    )
    constraint = Parity.of_groups(RangeBound(np.full(CLASSES, 0.02)), rows.group_weight)
    bands = Bands.of(constraint)
    newton = BandNewton(MemoryOracle(rows, "numpy", 1), constraint, 0.7, bands=bands)
    state = newton.start(constraint.settle(0.1 * rng.standard_normal((GROUPS, CLASSES))))
    by_group = newton._curved(bands, state)
    monkeypatch.setattr(Parity, "simple", False)
    assert np.abs(by_group - newton._curved(bands, state)).max() <= 1e-14
    assert np.abs(by_group - bands.frame).max() > 0.1


@pytest.mark.parametrize("seed", range(4))
def test_steps_end_where_newton_does_in_fewer(seed):
    rng = np.random.default_rng(seed)
    y, matrix = rng.dirichlet(np.full(CLASSES, 0.3), 300), rng.dirichlet(np.full(GROUPS, 0.2), 300)
    rows = merge(read(y, sensitive_features=r2b.Membership(matrix)), "never")
    member = Member("g", slice(0, GROUPS), RangeBound(np.full(CLASSES, 0.02)))
    constraint = Parity(
        (member,), np.arange(GROUPS), matrix.mean(axis=0), np.full(300, 1 / 300), matrix
    )
    oracle = DesignOracle(rows, matrix, constraint.share, "numpy", 1)
    bands, taken, ends = Bands.of(constraint), [], []
    for solver in (
        Newton(oracle, constraint, 0.05),
        BandNewton(oracle, constraint, 0.05, bands=bands),
    ):
        state, steps = solver.start(np.zeros((constraint.n_groups, rows.n_classes))), 0
        while state.residual > 1e-11 and steps < 300:
            state, steps = solver.step(state), steps + 1
        assert state.residual <= 1e-11
        taken.append(steps)
        ends.append(state.means)
    np.testing.assert_allclose(*ends, atol=1e-9)
    assert taken[1] <= taken[0]
