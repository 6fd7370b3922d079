"""Every problem of the table, solved and proven; an independent QP solver; how runs end."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from problems import ALL, KNOWN, NAMES, SMALL, Case, objective_of, parity_of, range_bound

import r2b
from r2b._constraints.parity import Parity
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Problem, certify
from r2b._solve.oracle import Oracle
from r2b._solve.solvers import Limits, Stage, Status, run, solve
from r2b._solve.solvers.newton import Newton


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def problem_of(case: Case) -> tuple[Problem, Oracle]:
    rows = merge(read(case.y, sensitive_features=case.groups, sample_weight=case.weight))
    return Problem(
        rows,
        Parity.of_groups(range_bound(case.epsilon, rows.n_classes), rows.cell_weight),
        case.lam,
    ), Oracle.of(rows, kernel="numpy")


# --- the table itself ---


@named(KNOWN)
def test_known_answers_satisfy_the_conditions_of_optimality(case):
    """Feasible, stationary and complementary, so that ``answer`` is the unique optimum."""
    x, y, bounds = case.answer, case.matrix, case.bounds
    assert (x >= 0).all() and np.abs(x.sum(axis=1) - 1).max() < 1e-12
    assert (y >= 0).all() and np.abs(y.sum(axis=1) - 1).max() < 1e-12
    means = np.stack(
        [
            case.w[case.groups == s] @ x[case.groups == s] / case.w[case.groups == s].sum()
            for s in np.unique(case.groups)
        ]
    )
    assert (np.ptp(means, axis=0) <= bounds + 1e-12).all()
    share = np.bincount(case.groups, case.w)
    assert np.abs(share @ case.prices).max() < 1e-14
    gradient = case.lam * x - y + case.prices[case.groups]
    level = gradient.min(axis=1, keepdims=True)
    assert (x * (gradient - level)).max() < 1e-12
    # Groups of positive price at the top, of negative price at the bottom of a band that is used
    # up.
    paid = 0.5 * (share @ np.abs(case.prices)) @ bounds
    assert share @ (case.prices * means).sum(axis=1) == pytest.approx(paid, abs=1e-14)
    assert np.abs(case.prices).max() > 1e-4  # otherwise the labels were fair before


# --- solved and proven ---


@named(ALL)
def test_solved_and_proven(case):
    fair = r2b.debias(case.y, **case.arguments)
    assert fair.status.ok
    assert fair.certificate.holds
    assert abs(fair.certificate.relative_gap) < 1e-9
    x = fair.soft(np.float64)
    assert (parity_of(x, case.groups, case.w) <= case.bounds + 1e-9).all()
    # float32 labels that are returned as they came are only as near the simplex as they came.
    assert x.min() >= 0
    assert np.abs(x.sum(axis=1) - 1).max() <= (1e-12 if case.y.dtype != np.float32 else 1e-6)
    assert objective_of(case, x) == pytest.approx(fair.certificate.objective, abs=1e-12)
    if case.answer is not None:
        assert np.abs(x - case.answer).max() < 1e-8


def by_qp_solver(case: Case) -> float:
    """Return the optimum of the paper's problem by a general QP solver."""
    cvxpy = pytest.importorskip("cvxpy")
    y, w, bounds = case.matrix, case.w, case.bounds
    x = cvxpy.Variable(y.shape, nonneg=True)
    average = np.stack(
        [
            np.where(case.groups == s, w, 0) / w[case.groups == s].sum()
            for s in np.unique(case.groups)
        ]
    )
    root = np.sqrt(0.5 * case.lam * w)[:, None]
    conditions = [cvxpy.sum(x, axis=1) == 1]
    bound = np.flatnonzero(np.isfinite(bounds))
    if len(average) > 1 and len(bound):
        low = cvxpy.Variable((1, len(bound)))
        above = (average @ x)[:, bound] - np.ones((len(average), 1)) @ low
        equal = bounds[bound] == 0
        conditions += [above[:, np.flatnonzero(equal)] == 0] if equal.any() else []
        if not equal.all():
            band = np.flatnonzero(~equal)
            top = np.broadcast_to(bounds[bound][band], (len(average), len(band)))
            conditions += [above[:, band] >= 0, above[:, band] <= top]
    target = cvxpy.Problem(
        cvxpy.Minimize(
            cvxpy.sum_squares(cvxpy.multiply(root, x))
            - cvxpy.sum(cvxpy.multiply(w[:, None] * y, x))
        ),
        conditions,
    )
    target.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert target.status in ("optimal", "optimal_inaccurate")
    return float(target.value)


@named(SMALL)
def test_an_independent_solver_finds_the_same_optimum(case):
    pytest.importorskip("clarabel")
    theirs = by_qp_solver(case)
    x = r2b.debias(case.y, **case.arguments).soft(np.float64)
    ours = objective_of(case, x)
    scale = float(case.w @ (0.5 * case.lam * (x * x).sum(axis=1) + (x * case.matrix).sum(axis=1)))
    assert ours <= theirs + 1e-6 * scale
    assert ours == pytest.approx(theirs, abs=1e-6 * scale)


# --- how runs end ---


@named([NAMES["class labels"], NAMES["soft, bounds by class"], NAMES["class labels, lam .05"]])
def test_history_tells_the_run(case):
    seen, begun = [], time.monotonic()
    fair = r2b.debias(case.y, **case.arguments, progress=seen.append)
    took = time.monotonic() - begun
    steps = [step.iteration for step in fair.history]
    assert steps == list(range(1, len(steps) + 1)) and steps
    assert all(
        later.seconds >= earlier.seconds for earlier, later in itertools.pairwise(fair.history)
    )
    assert all(0 < step.seconds <= took for step in [*fair.history, *seen])
    assert fair.residual <= 1e-10
    assert seen and all(isinstance(step, r2b.Progress) for step in seen)


@named([NAMES["class labels"], NAMES["class labels, lam .05"]])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_out_of_iterations_is_said_and_certified(case, steps):
    problem, oracle = problem_of(case)
    outcome = solve(problem, oracle, limits=Limits(max_iter=steps))
    assert outcome.status is Status.OUT_OF_ITERATIONS
    assert len(outcome.history) == steps
    assert not certify(problem, oracle, outcome.prices, oracle.label_means()).holds


def test_a_solver_that_leaves_floating_point_is_stopped():
    class Broken(Newton):
        def step(self, state):
            return self.start(np.full_like(state.prices, np.nan))

    problem, oracle = problem_of(NAMES["class labels"])
    stage = Stage(Broken(oracle, problem.parity, 1.0), 1e-10, 50)
    with np.errstate(invalid="ignore"):
        outcome = run([stage], np.zeros((problem.n_groups, problem.n_classes)), Limits())
    assert outcome.status is Status.NOT_FINITE and not outcome.status.ok
    assert np.isfinite(outcome.prices).all()


def test_a_plan_that_ends_without_an_answer_is_stalled():
    problem, oracle = problem_of(NAMES["class labels"])
    stage = Stage(Newton(oracle, problem.parity, 1.0), 1e-10, 1)
    outcome = run([stage], np.zeros((problem.n_groups, problem.n_classes)), Limits())
    assert outcome.status is Status.STALLED and not outcome.status.ok


def test_a_tolerance_below_rounding_is_never_called_solved():
    case = NAMES["soft, six decades, epsilon 1e-6"]
    with pytest.warns(r2b.errors.NotSolvedWarning):
        fair = r2b.debias(case.y, **case.arguments, tol=1e-300, max_iter=300)
    assert not fair.status.ok
    assert fair.certificate.holds  # as good as doubles allow, and the certificate says so


@pytest.mark.parametrize("name", ["150 classes, 3 groups, on the border", "10 classes, 50 groups"])
def test_a_second_run_starts_from_the_answer(name):
    """Fair labels are fair: solving for them again changes nothing that matters."""
    case = NAMES[name]
    once = r2b.debias(case.y, **case.arguments).soft_labels
    twice = r2b.debias(once, sensitive_features=case.groups, epsilon=case.epsilon).soft_labels
    assert np.abs(once - twice).max() < 1e-9
