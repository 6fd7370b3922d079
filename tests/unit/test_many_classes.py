"""Many classes: the answers of the general methods, without a matrix of merged rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import KNOWN, Case, range_bound
from test_many_classes_oracle import rows_of

import r2b
from r2b._constraints.families import Request
from r2b._constraints.parity import Parity
from r2b._data import read
from r2b._data.merge import merge
from r2b._labels import forms
from r2b._labels.debiasing import Settings
from r2b._labels.task import Task
from r2b._solve.certificate import Problem, certify
from r2b._solve.oracle import ClassOracle, Oracle, oracle_of
from r2b._solve.solvers import Limits, Stage, Status, run, solve
from r2b._solve.solvers.thresholds import Thresholds


def zipf(n_groups: int, n_classes: int, seed: int = 0, spread: float = 0.5) -> np.ndarray:
    """Weights of groups by classes, the k-th class about 1 / k, differing between groups."""
    rng = np.random.default_rng(seed)
    weight = np.exp(spread * rng.standard_normal((n_groups, n_classes))) / np.arange(
        1, n_classes + 1
    )
    return weight * rng.uniform(0.2, 1.0, (n_groups, 1))


def table(weight: np.ndarray) -> dict[str, np.ndarray]:
    """Arguments of ``debias`` for a table of weights."""
    groups, classes = np.nonzero(weight)
    return {"y": classes, "sensitive_features": groups, "sample_weight": weight[groups, classes]}


def problem_of(weight: np.ndarray, epsilon: float | np.ndarray, lam: float) -> Problem:
    rows = rows_of(weight)
    return Problem(
        rows, Parity.of_groups(range_bound(epsilon, rows.n_classes), rows.cell_weight), lam
    )


def by_thresholds(problem: Problem):
    pytest.importorskip("numba")
    solver = Thresholds(ClassOracle.of(problem.rows_in_memory), problem.parity, problem.lam)
    outcome = run(
        [Stage(solver, 1e-12, 300), Stage(solver, 1e-10, 0)],
        np.zeros((problem.n_groups, problem.n_classes)),
        Limits(),
    )
    outcome.prices = problem.parity.settle(outcome.prices)
    return outcome


def drawn(seed: int) -> Problem:
    """Draw a problem; some groups miss classes, some tables have weights over three decades."""
    rng = np.random.default_rng(seed)
    n_groups, n_classes = int(rng.choice([2, 3, 5])), int(rng.choice([2, 5, 12, 40]))
    weight = zipf(n_groups, n_classes, seed)
    if seed % 3 == 0:
        weight *= rng.random(weight.shape) < 0.6
        weight[0] += 0.01
        weight[:, 0] += 0.01
    if seed % 4 == 0:
        weight = weight * 10.0 ** rng.uniform(-3, 0, weight.shape)
    epsilon = (
        rng.choice([0.0, 1e-3, 0.05, np.inf], n_classes)
        if seed % 5 == 0
        else float(rng.choice([0.0, 1e-3, 0.01]))
    )
    return problem_of(weight, epsilon, float(rng.choice([0.3, 1.0, 1.0, 3.0])))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_structure_and_the_general_methods_agree(seed):
    """Means are unique where prices are not."""
    problem = drawn(seed)
    walker = Oracle.of(problem.rows_in_memory, kernel="numpy")
    theirs = solve(problem, walker)
    assert theirs.status is Status.SOLVED
    other = certify(problem, walker, theirs.prices, walker.label_means())
    ours = by_thresholds(problem)
    assert ours.status is Status.SOLVED
    assert ours.residual <= 1e-10
    proof = certify(problem, walker, ours.prices, walker.label_means())
    assert proof.holds
    assert proof.objective == pytest.approx(other.objective, abs=1e-9)
    assert proof.means == pytest.approx(other.means, abs=1e-7)


@pytest.mark.parametrize(
    "case", [case for case in KNOWN if case.y.ndim == 1], ids=lambda case: case.name
)
def test_answers_known_in_advance_are_found(case: Case):
    rows = merge(read(case.y, sensitive_features=case.groups, sample_weight=case.weight))
    problem = Problem(
        rows,
        Parity.of_groups(range_bound(case.epsilon, rows.n_classes), rows.cell_weight),
        case.lam,
    )
    outcome = by_thresholds(problem)
    assert outcome.status is Status.SOLVED
    answers = r2b._solve.oracle.respond(case.matrix, case.groups, outcome.prices, case.lam)
    assert answers == pytest.approx(case.answer, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.001])
def test_a_thousand_classes_are_solved_and_their_matrix_is_never_made(epsilon):
    weight = zipf(3, 1000)
    arguments = table(weight)
    dataset = read(arguments.pop("y"), **arguments)
    job = Task.of(dataset, Request(epsilon=epsilon), Settings())
    fair = job.solve()
    assert fair.status is Status.SOLVED and fair.certificate.holds and fair.residual <= 1e-10
    assert {line.stage for line in fair.history} == {"thresholds"}
    assert "labels" not in vars(job.rows), "a matrix of rows times classes was made"
    # The labels that go out, cell by cell, from the channel alone.
    share = weight / weight.sum(axis=1, keepdims=True)
    means = np.einsum("sj,sjk->sk", share, fair.channel)
    assert np.ptp(means, axis=0).max() <= epsilon + 1e-9
    assert np.ptp(share, axis=0).max() > 0.01
    assert fair.certificate.means == pytest.approx(means, abs=1e-12)


def test_labels_that_are_fair_already_make_no_matrix_either():
    arguments = table(np.tile(zipf(1, 500), (2, 1)))
    job = Task.of(read(arguments.pop("y"), **arguments), Request(epsilon=0.0), Settings())
    assert job.solve().status is Status.ALREADY_FAIR
    assert "labels" not in vars(job.rows)


def test_permuted_classes_and_groups_give_permuted_labels():
    weight = zipf(3, 250)
    classes, groups = np.random.default_rng(1).permutation(250), np.array([2, 0, 1])
    here = r2b.debias(**table(weight), epsilon=0.001).channel
    there = r2b.debias(**table(weight[groups][:, classes]), epsilon=0.001).channel
    np.testing.assert_allclose(there, here[groups][:, classes][:, :, classes], rtol=0, atol=1e-7)


def test_the_oracle_by_structure_serves_the_general_methods_too():
    weight = zipf(4, 12)
    groups, classes = np.nonzero(weight)
    both = {"one": groups // 2, "other": groups % 2}
    dataset = read(classes, sensitive_features=both, sample_weight=weight[groups, classes])
    job = Task.of(dataset, Request(epsilon=0.01, families="marginal"), Settings())
    other = replace(job, oracle=ClassOracle.of(job.rows))
    walked, fair = job.solve(), other.solve()
    assert fair.status is Status.SOLVED and fair.certificate.holds
    assert fair.certificate.objective == pytest.approx(walked.certificate.objective, abs=1e-9)


def test_rows_to_which_changes_have_costs_are_walked_one_by_one():
    rows = rows_of(zipf(2, 300))
    pytest.importorskip("numba")
    assert isinstance(oracle_of(rows), ClassOracle)
    valued = replace(rows, matrix=rows.labels - 1.0, classes=None)
    assert not isinstance(oracle_of(valued, truth=rows.labels), ClassOracle)
    assert valued.classes is None
    small = zipf(2, 20)
    free, dear = (
        r2b.debias(**table(small), epsilon=0.01),
        r2b.debias(**table(small), epsilon=0.01, costs=1.0 - np.eye(20)),
    )
    np.testing.assert_allclose(dear.channel, free.channel, rtol=0, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_leave_the_same_whether_their_table_is_held_or_made_in_parts(monkeypatch, weighted):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 4000)
    chances = zipf(3, 30) / zipf(3, 30).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(30, p=chances[s]) for s in groups])
    weight = rng.random(4000) + 0.1 if weighted else None
    fair = r2b.debias(y, sensitive_features=groups, sample_weight=weight, epsilon=0.001)

    def outputs():
        expanded = fair.expand(np.arange(4000))
        return [
            fair.sample(random_state=1),
            fair.round(random_state=1),
            *expanded,
            fair.soft_labels,
            *fair.iter_soft(700),
        ]

    held = outputs()
    monkeypatch.setattr(forms, "HELD_ENTRIES", 100)
    for one, other in zip(held, outputs(), strict=True):
        assert np.array_equal(one, other)
