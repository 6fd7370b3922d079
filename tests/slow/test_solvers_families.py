"""Families that share cells, under every bound, beside an independent QP solver."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from problems import lumpy_rows, spread_weights, tied_rows

from r2b._constraints.bounds import (
    Bound,
    MomentBound,
    OverallBound,
    RangeBound,
    RatioBound,
    TargetBound,
)
from r2b._constraints.parity import Member, Parity
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Certificate, Problem, certify
from r2b._solve.oracle import Oracle
from r2b._solve.solvers import Limits, Outcome, solve

BOUNDS = ("range", "to_overall", "ratio", "target")
DESIGNS = (
    "margins",
    "crossings",
    "both",
    "strata",
    "twice",
    "memberships",
    "moments",
    "margins and moments",
)
EPSILONS = {"zero": (0.0,), "tiny": (1e-4,), "wide": (0.2,), "mixed": (0.0, 0.05, 1e-3, np.inf)}


@dataclass(frozen=True)
class FamilyCase:
    """One problem, drawn from a seed."""

    design: str
    bound: str
    epsilon: str = "tiny"
    kind: str = "class"
    rows: int = 40
    classes: int = 4
    levels: tuple[int, ...] = (2, 3)
    lam: float = 1.0
    decades: float = 0.0
    single: bool = False
    seed: int = 0

    @property
    def name(self) -> str:
        """What is unusual about it."""
        plain = FamilyCase(self.design, self.bound)
        told = [
            f"{field} {getattr(self, field)}"
            for field in self.__dataclass_fields__
            if getattr(self, field) != getattr(plain, field)
        ]
        return ", ".join([self.design, self.bound, *told])


def labels_of(case: FamilyCase, rng: np.random.Generator, attributes: np.ndarray) -> np.ndarray:
    n, classes = case.rows, case.classes
    if case.kind == "class":
        y = np.where(
            rng.random(n) < 0.5,
            attributes.sum(axis=1) % classes,
            rng.choice(classes, n, p=rng.dirichlet(np.ones(classes))),
        )
        y[:classes] = np.arange(classes)
        return y
    if case.kind == "soft":
        return rng.dirichlet(np.full(classes, 0.3), n)
    return tied_rows(rng, n, classes) if case.kind == "ties" else lumpy_rows(rng, n, classes)


def indicators(key: np.ndarray) -> np.ndarray:
    found = np.unique(key, axis=0, return_inverse=True)[1].ravel()
    return np.eye(found.max() + 1)[found]


def families_of(
    case: FamilyCase, rng: np.random.Generator, attributes: np.ndarray, share: np.ndarray
) -> list[tuple[np.ndarray, str]]:
    """The columns of the design, family by family, each with its bound."""
    margins = [(indicators(column[:, None]), case.bound) for column in attributes.T]
    crossings = [(indicators(attributes), case.bound)]
    strata = [
        (crossings[0][0] * (attributes[:, :1] == value), case.bound)
        for value in np.unique(attributes[:, 0])
    ]
    powers = rng.normal(size=(len(share), 1)).clip(-2, 2) ** np.arange(1, 4)
    moments = [(powers - share @ powers, "moments")]
    return {
        "margins": margins,
        "crossings": crossings,
        "both": margins + crossings,
        "strata": [(part[:, part.any(axis=0)], bound) for part, bound in strata],
        "twice": margins + margins[::-1],
        "memberships": [*margins, (rng.dirichlet(np.full(3, 0.5), len(share)), case.bound)],
        "moments": moments,
        "margins and moments": margins + moments,
    }[case.design]


def bound_of(kind: str, epsilon: np.ndarray, target: np.ndarray) -> Bound:
    if kind == "target":
        return TargetBound(epsilon, target)
    return {
        "moments": MomentBound,
        "range": RangeBound,
        "to_overall": OverallBound,
        "ratio": RatioBound,
    }[kind](epsilon)


def problem_of(case: FamilyCase) -> tuple[Problem, Oracle]:
    rng = np.random.default_rng(case.seed)
    attributes = np.stack([rng.integers(0, levels, case.rows) for levels in case.levels], axis=1)
    if case.single:
        attributes[0] = case.levels  # values that no other row has
    weight = spread_weights(rng, case.rows, case.decades)
    y = labels_of(case, rng, attributes)
    own_cell = case.design in ("memberships", "moments", "margins and moments")
    cells = (
        np.arange(case.rows)
        if own_cell
        else np.unique(attributes, axis=0, return_inverse=True)[1].ravel()
    )
    rows = merge(read(y, sensitive_features=cells, sample_weight=weight))
    share = rows.cell_weight / rows.cell_weight.sum()
    of_cell = attributes[np.unique(cells, return_index=True)[1]]
    epsilon = np.resize(EPSILONS[case.epsilon], rows.n_classes).astype(float)
    members, columns, shares, start = [], [], [], 0
    target = rng.dirichlet(np.full(rows.n_classes, 2.0))
    for place, (column, kind) in enumerate(families_of(case, rng, of_cell, share)):
        members.append(
            Member(
                str(place), slice(start, start + column.shape[1]), bound_of(kind, epsilon, target)
            )
        )
        columns.append(column)
        shares.append(np.ones(column.shape[1]) if kind == "moments" else share @ column)
        start += column.shape[1]
    parity = Parity(
        tuple(members),
        np.arange(start),
        np.concatenate(shares),
        share,
        np.concatenate(columns, axis=1),
    )
    return Problem(rows, parity, case.lam), Oracle.of(rows, kernel="numpy")


def certified(problem: Problem, oracle: Oracle) -> tuple[Outcome, Certificate]:
    outcome = solve(problem, oracle, limits=Limits(max_iter=600))
    return outcome, certify(problem, oracle, outcome.prices, oracle.label_means())


def by_qp_solver(problem: Problem) -> tuple[str, float]:
    """Solve with a general QP solver, each bound by its definition; return status and optimum."""
    cvxpy = pytest.importorskip("cvxpy")
    rows, parity = problem.rows, problem.parity
    y, weight = (
        rows.labels.astype(float),
        np.ones(len(rows.labels)) if rows.weight is None else rows.weight,
    )
    weight = weight / weight.sum()
    x = cvxpy.Variable(y.shape, nonneg=True)
    conditions = [cvxpy.sum(x, axis=1) == 1]
    for member in parity.members:
        columns = parity.design[rows.cells][:, member.groups] * weight[:, None]
        size = (
            np.ones(columns.shape[1])
            if isinstance(member.bound, MomentBound)
            else columns.sum(axis=0)
        )
        means = (columns / size).T @ x
        for k in np.flatnonzero(np.isfinite(member.bound.epsilon)):
            conditions += definition(
                cvxpy, member.bound, float(member.bound.epsilon[k]), means[:, k], size, int(k)
            )
    root = np.sqrt(0.5 * problem.lam * weight)[:, None]
    cost = cvxpy.sum_squares(cvxpy.multiply(root, x)) - cvxpy.sum(
        cvxpy.multiply(weight[:, None] * y, x)
    )
    task = cvxpy.Problem(cvxpy.Minimize(cost), conditions)
    task.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return task.status, float(task.value)


def definition(cvxpy, bound: Bound, epsilon: float, means, size: np.ndarray, k: int) -> list:
    level = cvxpy.Variable()
    if bound.name == "ratio":
        return [means <= level, means >= (1 - epsilon) * level]
    if bound.name == "range":
        return [means == level] if epsilon == 0 else [means >= level, means <= level + epsilon]
    centre, reach = {
        "to_overall": (size @ means / size.sum(), epsilon),
        "target": (getattr(bound, "target", np.zeros(k + 1))[k], epsilon / 2),
        "moments": (0.0, epsilon),
    }[bound.name]
    return [means == centre] if reach == 0 else [means <= centre + reach, means >= centre - reach]


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


SWEEP = [
    FamilyCase(design, bound, epsilon, kind, rows, classes, seed=seed)
    for seed, (design, bound, epsilon, (kind, rows, classes)) in enumerate(
        itertools.product(DESIGNS, BOUNDS, EPSILONS, [("class", 30, 3), ("soft", 24, 4)])
    )
    if design != "moments" or bound == "range"  # the moments alone have one bound
]

# --- solved and proven ---


@pytest.mark.parametrize("part", range(4))
def test_every_bound_on_every_design_is_solved_as_the_definitions_say(part):
    pytest.importorskip("clarabel")
    compared = 0
    for case in SWEEP[part::4]:
        problem, oracle = problem_of(case)
        outcome, proof = certified(problem, oracle)
        assert outcome.status.ok and proof.holds, case.name
        status, theirs = by_qp_solver(problem)
        if status == "optimal":
            assert proof.objective == pytest.approx(theirs, abs=1e-7), case.name
            compared += 1
    assert compared >= 0.95 * len(SWEEP[part::4])


# --- bounds that contradict each other ---


def contradiction(epsilon: float) -> tuple[Problem, Oracle]:
    """Ask two attributes for targets that are 0.4 apart in one class, within epsilon / 2."""
    problem, oracle = problem_of(FamilyCase("margins", "target", classes=3, seed=10))
    first, second = problem.parity.members
    width = np.full(3, epsilon)
    members = (
        replace(first, bound=TargetBound(width, np.array([0.6, 0.3, 0.1]))),
        replace(second, bound=TargetBound(width, np.array([0.2, 0.5, 0.3]))),
    )
    return replace(problem, parity=replace(problem.parity, members=members)), oracle


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3, 0.4 - 1e-6])
def test_bounds_that_contradict_each_other_are_never_called_solved(epsilon):
    problem, oracle = contradiction(epsilon)
    outcome = solve(problem, oracle)
    assert not outcome.status.ok
    assert len(outcome.history) < 300 and np.isfinite(outcome.prices).all()
    assert certify(problem, oracle, outcome.prices, oracle.label_means()).excess > 1e-7


@pytest.mark.parametrize("epsilon", [0.4, 0.4 + 1e-6, 0.5])
def test_bounds_that_barely_meet_are_solved(epsilon):
    outcome, proof = certified(*contradiction(epsilon))
    assert outcome.status.ok and proof.holds
