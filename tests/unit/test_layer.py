"""Outcomes, widths of entries and offsets as whole problems, against an independent solver."""

from __future__ import annotations

import cvxpy
import numpy as np
import pytest

from r2b._constraints.bounds import BOUNDS, Asked
from r2b._constraints.parity import Member, Parity
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Problem
from r2b._solve.oracle import Oracle
from r2b._solve.solvers.plan import solve

MERGED = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])  # at least k


@pytest.mark.parametrize("outcomes", [None, MERGED], ids=["classes", "at least k"])
@pytest.mark.parametrize("widths", [False, True], ids=["by class", "by entry"])
@pytest.mark.parametrize("name", ["range", "to_overall", "target", "to_reference"])
def test_the_optimum_is_that_of_the_problem_written_out(name, widths, outcomes):
    rng = np.random.default_rng([len(name), widths, outcomes is None])
    n, n_groups, n_classes, lam = 60, 3, 4, 0.7
    groups = np.arange(n) % n_groups
    y = rng.dirichlet(np.ones(n_classes), n) * np.eye(n_groups, n_classes)[groups] + 0.2
    y /= y.sum(axis=1, keepdims=True)
    rows = merge(read(y, sensitive_features=groups))
    n_outcomes = n_classes if outcomes is None else len(outcomes)
    shares = np.eye(n_classes) if outcomes is None else outcomes
    asked = Asked(
        np.full(n_outcomes, 0.1),
        {"target": np.full(n_outcomes, 1 / n_outcomes), "reference": "b"},
        range(n_outcomes),
        "letter",
        ["a", "b", "c"],
    )
    bound = BOUNDS[name].of(asked).at(np.full(n_outcomes, 0.03))
    if widths:
        bound = bound.at(rng.choice([0.01, 0.03, 0.08], (n_groups, n_outcomes)))
    offsets = rng.normal(0, 0.01, (n_groups, n_outcomes))
    share = np.full(n_groups, 1 / n_groups)
    member = Member("", slice(0, n_groups), bound, offsets)
    parity = Parity((member,), np.arange(n_groups), share, share, outcomes=outcomes)

    x = cvxpy.Variable((n, n_classes), nonneg=True)
    level, sides = cvxpy.Variable(n_outcomes), bound.sides(n_groups)
    means = [cvxpy.sum(x[groups == g], axis=0) / (n // n_groups) @ shares.T for g in range(3)]
    shifted = [mean + offsets[g] for g, mean in enumerate(means)]
    middle = {"free": level, "mean": sum(shifted) / 3, "none": 0.0}[bound.level]
    near = [cvxpy.sum(x, axis=1) == 1]
    for g in range(n_groups):
        near += [shifted[g] - middle <= sides.high[g], shifted[g] - middle >= sides.low[g]]
    cost = cvxpy.sum_squares(x) * lam / 2 - cvxpy.sum(cvxpy.multiply(x, y))
    task = cvxpy.Problem(cvxpy.Minimize(cost / n), near)
    task.solve(solver="CLARABEL")

    problem, oracle = Problem(rows, parity, lam), Oracle.of(rows)
    outcome = solve(problem, oracle)
    if task.status != "optimal":
        assert not outcome.status.ok
        return
    assert outcome.status.ok, outcome.status
    dual = oracle.evaluate(parity.shifts(outcome.prices), lam)
    assert parity.violation(parity.means(dual.means)) <= 1e-8
    value = dual.value - parity.support(parity.settle(outcome.prices))
    assert value == pytest.approx(task.value, abs=1e-7)
