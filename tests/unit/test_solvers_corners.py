"""Problems on which a solver once gave up or spoke too soon, found by searches with other seeds than those of the fuzz tests."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from families_qp import Table, asked, closest, people, violation
from test_fuzz import bad_problem

import r2b
from r2b._constraints.parity import Parity, RangeBound
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Problem
from r2b._solve.solvers import Limits, Status
from r2b._solve.solvers.central import CentralPoint
from r2b._solve.solvers.driver import Stage, run
from r2b._solve.solvers.fitting import is_small
from r2b._solve.solvers.interior import Interior
from r2b._solve.solvers.small import SmallInterior


def test_rounding_of_large_prices_proves_nothing_impossible():
    """Means that are all equal are always possible; prices that cancel had grown to 1e11, and rounding with them."""
    who = people(7000747, soft=False, decades=1.0)
    arguments, rules = asked(who, "control", "to_overall", "zero", 7000747)
    costs = np.array([[0.0, 1.25], [1.8, 0.0]])
    fair = r2b.debias(who.given, sample_weight=who.weight, costs=costs, **arguments)
    table = Table(who.y, who.w, rules, 1.0, costs)
    assert fair.status.ok and violation(table, fair.soft_labels) < 1e-9
    assert table.value(fair.soft_labels) == pytest.approx(closest(table)[0], abs=1e-7)


# Kind, classes, groups, more rows, crowd, decades of weights, seed; lam; bound. A band of 1e-9 is
# narrower than rounding lets solvers see.
ALL_BUT_CLOSED = [
    (("ties", 9, 15, 23, "spread", 6, 841032346), 10.0, "to_overall"),
    (("lumpy", 8, 8, 18, "crowded", 9, 947864502), 0.1, "target"),
    (("class", 18, 10, 80, "crowded", 0, 195423109), 2.0, "target"),
    (("class", 17, 11, 97, "single", 1, 795659627), 0.1, "range"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "lam", "bound"), ALL_BUT_CLOSED)
def test_bounds_that_are_all_but_closed_are_solved_as_closed_ones(problem, lam, bound):
    y, codes, weight = bad_problem(*problem)
    if problem[0] == "class" and problem[-1] % 2:
        y = np.nonzero(y)[1]
    target = {"target": "population"} if bound == "target" else {}
    options = {
        "sensitive_features": codes,
        "sample_weight": weight,
        "lam": lam,
        "bound": bound,
        **target,
    }
    fair = r2b.debias(y, epsilon=1e-9, **options)
    assert fair.status.ok and fair.certificate.holds
    closed = r2b.debias(y, epsilon=0.0, **options)
    assert closed.status.ok and fair.certificate.objective == pytest.approx(
        closed.certificate.objective, rel=1e-7
    )


@pytest.mark.parametrize("seed", range(12))
def test_small_problems_take_short_cuts_to_the_same_answer(seed, monkeypatch):
    """The interior point looks ahead, few groups are projected without sorting, few rows are added up in one call."""
    rng = np.random.default_rng(seed)
    kind, crowd = ("class", "ties")[seed % 2], ("spread", "crowded")[seed // 2 % 2]
    y, codes, weight = bad_problem(
        kind, int(rng.integers(2, 12)), int(rng.integers(3, 9)), 120, crowd, seed % 3, seed
    )
    options = {
        "sensitive_features": codes,
        "sample_weight": weight,
        "epsilon": (0.0, 0.01, 0.1)[seed % 3],
        "lam": (1.0, 0.3)[seed // 4 % 2],
    }
    y = np.nonzero(y)[1] if kind == "class" else y
    short = r2b.debias(y, **options)
    monkeypatch.setattr("r2b._solve.solvers.plan._LOOK", 0.0)
    monkeypatch.setattr("r2b._constraints.parity.bands._FEW_GROUPS", 0)
    monkeypatch.setattr("r2b._solve.solvers.rows._FEW", 0)
    monkeypatch.setattr("r2b._solve.solvers.fitting._SMALL", 0)
    long = r2b.debias(y, **options)
    assert short.status.ok and long.status.ok and len(short.history) <= len(long.history)
    np.testing.assert_allclose(short.soft_labels, long.soft_labels, atol=1e-8)
    assert short.certificate.objective == pytest.approx(long.certificate.objective, abs=1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize("soft", [False, True])
def test_small_tables_take_the_same_interior_steps_in_fewer_calls(epsilon, soft):
    rng = np.random.default_rng(3)
    y = rng.dirichlet(np.ones(6), 90) if soft else rng.integers(0, 6, 90)
    rows = merge(
        read(y, sensitive_features=rng.integers(0, 4, 90), sample_weight=rng.random(90) + 0.1)
    )
    problem = Problem(rows, Parity.of_groups(RangeBound.of(epsilon, 6), rows.group_weight), 0.7)
    assert is_small(problem) and not is_small(
        replace(problem, parity=Parity.of_groups(RangeBound.of([0.0] + [0.1] * 5, 6), np.ones(4)))
    )
    usual, small = Interior(problem), SmallInterior(problem)
    other = small.start(np.zeros((4, 6)))
    for _ in range(6):
        at = other.point
        here = usual._state(
            CentralPoint(rows=at.rows, prices=at.prices, a=at.a, p=at.p, q=at.q, c=at.c)
        )
        assert here.off.rows.largest < 1e-12  # the equations of rows hold from the start on
        one, other = usual.step(here), small.step(other)
        assert other.residual == pytest.approx(one.residual, rel=1e-6)
        assert other.complementarity == pytest.approx(one.complementarity, rel=1e-6)
        # A constant for all classes of a group changes no label, and rounding moves it.
        np.testing.assert_allclose(
            *(each.prices - each.prices.mean(axis=1, keepdims=True) for each in (one, other)),
            atol=1e-7,
        )
        np.testing.assert_allclose(other.point.rows.x, one.point.rows.x, atol=1e-7)
    assert other.complementarity < 1e-4  # well on the way


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize("lam", [0.3, 1.0])
@pytest.mark.parametrize("dear", [False, True])
def test_small_tables_end_on_the_face_of_the_answer_long_before_the_path_does(epsilon, lam, dear):
    rng = np.random.default_rng(8)
    y, sex = rng.choice(7, 600, p=rng.dirichlet(np.ones(7))), rng.integers(0, 5, 600)
    y = np.where(rng.random(600) < 0.1 * sex, rng.integers(0, 7, 600), y)
    costs = 1.0 + rng.random((7, 7)) if dear else None
    if costs is not None:
        np.fill_diagonal(costs, 0.0)
    fair = r2b.debias(y, sensitive_features=sex, epsilon=epsilon, lam=lam, costs=costs)
    assert fair.status.ok and fair.certificate.holds and len(fair.history) <= 9
    assert fair.residual <= 1e-12 and max(step.residual for step in fair.history[:-1]) > 1e-6


def test_no_guess_is_made_where_prices_will_do_as_they_are():
    """A guess of the face costs about a step of the interior point."""
    seen = []

    class Still:
        name = "still"

        def start(self, prices):
            return SimpleNamespace(
                prices=prices, residual=float(np.abs(prices).max()), stalled=True
            )

    def guesses(state, last):
        seen.append(state.residual)
        yield np.zeros((2, 2))

    for size, wanted in ((1e-12, []), (1.0, [1.0])):
        seen.clear()
        found = run([Stage(Still(), 1e-10, 0, refine=guesses)], np.full((2, 2), size), Limits())
        assert found.status is Status.SOLVED and seen == wanted
