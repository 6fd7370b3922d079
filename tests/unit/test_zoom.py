"""The interior point in units of what prices are off by: its problem is the whole one seen closer, and it solves what rounding hid."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import r2b
from r2b._constraints.parity import Bound, OverallBound, Parity, RangeBound, RatioBound, TargetBound
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Problem
from r2b._solve.oracle import MemoryOracle
from r2b._solve.oracle.reference import project
from r2b._solve.solvers import solve
from r2b._solve.solvers.newton import Newton
from r2b._solve.solvers.zoom import Zoom

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
UNIT = 1e-6


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("campaign_draws")


def bound_of(kind: str, epsilon: float, classes: int = 4) -> Bound:
    each = np.full(classes, epsilon)
    if kind == "target":
        return TargetBound(each, np.full(classes, 1.0 / classes))
    return {"range": RangeBound, "ratio": RatioBound, "to_overall": OverallBound}[kind](each)


def problem_of(kind: str, epsilon: float, lam: float = 0.5) -> tuple[Problem, MemoryOracle]:
    rng = np.random.default_rng(7)
    groups = rng.integers(0, 3, 120)
    y = 0.8 * rng.dirichlet(np.full(4, 0.5), 120) + 0.2 * rng.dirichlet(np.ones(4), 3)[groups]
    rows = merge(
        read(y, sensitive_features=groups, sample_weight=10.0 ** rng.uniform(-1, 1, 120)), "always"
    )
    return Problem(
        rows, Parity.of_groups(bound_of(kind, epsilon), rows.group_weight), lam
    ), MemoryOracle(rows, "numpy")


@pytest.mark.parametrize("kind", ["range", "target", "ratio", "to_overall"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1e-2])
def test_prices_that_are_off_by_a_little_are_brought_to_rounding_in_its_unit(
    kind: str, epsilon: float
) -> None:
    problem, oracle = problem_of(kind, epsilon)
    found = solve(problem, oracle)
    newton, zoom = Newton(oracle, problem.parity, problem.lam), Zoom(problem, UNIT)
    off = problem.parity.settle(
        found.prices + 3 * UNIT * np.random.default_rng(0).uniform(-1, 1, found.prices.shape)
    )
    assert newton.start(off).residual > 1e-7
    state = zoom.start(off)
    with np.errstate(all="ignore"):
        for _ in range(60):
            state = state if state.stalled else zoom.step(state)
        best = min(
            newton.start(prices).residual
            for lean in (1.0, 1e3, 1e-3)
            for prices in zoom.at_face(state, lean)
        )
    assert best < 1e-14


@pytest.mark.parametrize(("kind", "epsilon"), [("range", 1e-5), ("target", 0.05), ("ratio", 1e-5)])
def test_residuals_are_those_of_the_whole_problem_over_the_unit(kind: str, epsilon: float) -> None:
    problem, oracle = problem_of(kind, epsilon)
    prices = solve(problem, oracle).prices + 1e-6
    zoom = Zoom(problem, UNIT)
    state = zoom.start(prices)
    state = zoom.step(zoom.step(state))
    rows, lam, at, layout, whole = (
        zoom.rows,
        problem.lam,
        state.point,
        zoom.layout,
        zoom.layout_of_all,
    )
    y, cell = zoom.rows_of_all.y, rows.cell
    before = project((y - prices[cell]) / lam)
    assert (
        layout.band.any()
        and layout.equal.any()
        and rows.doubt.any()
        and (rows.moving & ~rows.doubt).any()
        and (~rows.moving).any()
    )
    x = before + UNIT * np.where(rows.moving, at.rows.x - rows.known, 0.0)
    # What an entry that moves is worth less what it costs is the level of its row: the gap is what
    # is left, less the mean of the row.
    left = lam * x - y + state.prices[cell] - UNIT * at.rows.z
    for gap, mine, moving in zip(state.off.rows.stationary, left, rows.moving, strict=True):
        assert np.abs(np.ptp(mine[moving] - UNIT * gap[moving])) < 1e-13
    assert np.abs(x.sum(axis=1) - 1.0 - UNIT * state.off.rows.row_sum).max() < 1e-14
    # Slacks of entries in doubt are those of the whole problem at its level, which one of them
    # tells.
    means = zoom.parity.means(rows.means(x))
    b, a = (
        np.where(layout.band, each, np.nan)
        for each in (at.b + state.off.upper, at.a + state.off.lower)
    )
    levels = (means + UNIT * b - whole.high) / np.where(
        whole.high_slope > 0, whole.high_slope, np.nan
    )
    lows = (means - UNIT * a - whole.low) / np.where(whole.low_slope > 0, whole.low_slope, np.nan)
    if kind == "target":
        assert (
            np.nanmax(np.abs(whole.high - means - UNIT * b)) < 1e-14
            and np.nanmax(np.abs(means - whole.low - UNIT * a)) < 1e-14
        )
    for k in range(problem.n_classes) if kind != "target" else ():
        seen = np.concatenate([levels[:, k], lows[:, k]])
        seen = seen[np.isfinite(seen)]
        assert len(seen) == 0 or np.ptp(seen) < 1e-13


def test_prices_out_of_balance_do_not_count_as_proven() -> None:
    problem, oracle = problem_of("range", 1e-2)
    prices, newton = solve(problem, oracle).prices, Newton(oracle, problem.parity, problem.lam)
    assert newton.proves(newton.start(prices))
    # A constant for all groups of a class is taken away before labels are made, and they change.
    lifted = prices + 1e-9 * (np.arange(problem.n_classes) == 0)
    assert not newton.proves(newton.start(lifted))
    assert np.abs(problem.parity.settle(lifted) - prices).max() < 1e-12


def test_prices_that_are_too_far_off_are_not_looked_at() -> None:
    problem, _ = problem_of("target", 1e-8)
    assert Zoom(problem, UNIT).start(np.zeros((problem.n_groups, problem.n_classes))).stalled


# Narrow bands, ratios, memberships whose prices cancel, a target of 1e-8; the last three end where
# no face is told, or in a third unit.
@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (20261203, 15821),
        (20261203, 23805),
        (20261203, 33061),
        (20261203, 21518),
        (20261203, 22621),
        (20262902, 16933),
        (20262904, 29775),
        (20262301, 8931),
    ],
)
def test_drawn_problems_that_fell_short_are_solved(
    draws: ModuleType, seed: int, number: int
) -> None:
    fair = r2b.debias(**draws.draw(seed, number).arguments, threads=1)
    assert fair.status.ok and fair.certificate.holds and len(fair.history) < 300
