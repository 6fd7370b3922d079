"""Families that share cells, under every bound: solved and proven, as an independent QP solver has it, and by the net alone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from problems import lumpy_rows, spread_weights, tied_rows
from r2b._solve.solvers.general import GeneralInterior
from r2b._solve.solvers.systems import fold

from r2b._constraints.parity import (
    Bound,
    Member,
    MomentBound,
    OverallBound,
    Parity,
    RangeBound,
    RatioBound,
    TargetBound,
)
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Certificate, Problem, certify
from r2b._solve.oracle import MemoryOracle
from r2b._solve.oracle.reference import folded_cells
from r2b._solve.solvers import Limits, Outcome, Stage, run, solve
from r2b._solve.solvers.interior import Interior
from r2b._solve.solvers.newton import Newton
from r2b._solve.solvers.plan import _STARTS, _by_interior

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
    if kind in ("target", "moments"):
        return (
            TargetBound(epsilon, target)
            if kind == "target"
            else MomentBound(epsilon, np.zeros(len(epsilon)))
        )
    if kind == "ratio":
        return RatioBound(np.minimum(epsilon, 1.0))
    return {"range": RangeBound, "to_overall": OverallBound}[kind](epsilon)


def problem_of(case: FamilyCase) -> tuple[Problem, MemoryOracle]:
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
    rows = merge(read(y, sensitive_features=cells, sample_weight=weight), "always")
    share = rows.group_weight / rows.group_weight.sum()
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
    return Problem(rows, parity, case.lam), MemoryOracle(rows, "numpy")


def certified(problem: Problem, oracle: MemoryOracle) -> tuple[Outcome, Certificate]:
    outcome = solve(problem, oracle, limits=Limits(max_iter=600))
    return outcome, certify(problem, oracle, outcome.prices, oracle.label_means())


def by_qp_solver(problem: Problem) -> tuple[str, float]:
    """Each bound as it is defined, given to a general QP solver; its status and the optimal value."""
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
    if bound.kind == "ratio":
        return [means <= level, means >= (1 - epsilon) * level]
    if bound.kind == "range":
        return [means == level] if epsilon == 0 else [means >= level, means <= level + epsilon]
    centre, reach = {
        "to_overall": (size @ means / size.sum(), epsilon),
        "target": (getattr(bound, "target", np.zeros(k + 1))[k], epsilon / 2),
        "moments": (0.0, epsilon),
    }[bound.kind]
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

# Found by drawing at random: Newton alone, from prices of 0, was still at a residual above 1e-7
# after 200 steps on each of these. On the seventh and the tenth the last bit decides.
HARD = [
    FamilyCase("memberships", "ratio", "tiny", "lumpy", 12, 5, (2, 2, 3), lam=0.05, seed=11),
    FamilyCase(
        "memberships", "ratio", "tiny", "soft", 12, 8, (3, 3, 3), lam=0.05, decades=3.0, seed=68
    ),
    FamilyCase(
        "margins",
        "range",
        "wide",
        "ties",
        12,
        8,
        (3, 4),
        lam=0.05,
        decades=6.0,
        single=True,
        seed=85,
    ),
    FamilyCase("both", "target", "tiny", "lumpy", 40, 8, (2, 2, 3), lam=0.05, decades=3.0, seed=93),
    FamilyCase(
        "margins and moments",
        "to_overall",
        "zero",
        "soft",
        12,
        8,
        (3, 3, 3),
        lam=0.3,
        decades=6.0,
        seed=132,
    ),
    FamilyCase(
        "both", "target", "mixed", "soft", 120, 5, (3, 3, 3), lam=0.05, decades=6.0, seed=179
    ),
    FamilyCase("memberships", "target", "tiny", "class", 40, 3, (3, 4), lam=0.05, seed=209),
    FamilyCase(
        "both", "range", "mixed", "lumpy", 12, 8, (3, 3, 3), lam=0.05, decades=3.0, seed=225
    ),
    FamilyCase(
        "margins and moments",
        "range",
        "tiny",
        "ties",
        120,
        5,
        lam=0.05,
        decades=3.0,
        single=True,
        seed=259,
    ),
    FamilyCase("both", "ratio", "zero", "class", 12, 8, (3, 4), decades=6.0, single=True, seed=277),
    FamilyCase(
        "crossings", "ratio", "tiny", "ties", 12, 8, (3, 4), lam=0.05, decades=3.0, seed=338
    ),
    FamilyCase(
        "memberships",
        "to_overall",
        "tiny",
        "soft",
        40,
        5,
        (3, 3, 3),
        lam=0.05,
        decades=6.0,
        single=True,
        seed=339,
    ),
    FamilyCase(
        "both", "target", "tiny", "soft", 120, 8, (2, 2, 3), lam=0.05, decades=6.0, seed=350
    ),
]
# Newton alone goes astray on these where prices may jump across their bands.
WIDE_STEPS = [
    FamilyCase(
        "twice", "ratio", "tiny", "ties", 40, 8, lam=10.0, decades=6.0, single=True, seed=19
    ),
    FamilyCase("both", "ratio", "mixed", "lumpy", 12, 8, decades=6.0, seed=70),
]
# Prices in the thousands that cancel in every shift: a residual of 1e-11 still leaves a gap that
# the certificate does not pass.
NEARLY_DEPENDENT = FamilyCase("margins and moments", "range", "zero", "lumpy", 6, 3, seed=145)


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


@named([*HARD, *WIDE_STEPS, NEARLY_DEPENDENT])
def test_hard_problems_are_solved_and_proven(case):
    problem, oracle = problem_of(case)
    outcome, proof = certified(problem, oracle)
    assert outcome.status.ok and proof.holds
    assert len(outcome.history) < 100


def newton_alone(case, starts=8):
    """From how many starts that are all but 0 it solves a problem: from a single one the last bit may decide."""
    problem, oracle = problem_of(case)
    newton, rng = Newton(oracle, problem.parity, case.lam), np.random.default_rng(1)
    drawn = [
        problem.parity.settle(1e-6 * rng.uniform(-1, 1, (problem.n_groups, problem.n_classes)))
        for _ in range(starts)
    ]
    return sum(run([Stage(newton, 1e-10, 60)], start, Limits()).status.ok for start in drawn)


def test_hard_problems_are_hard_for_newton_alone():
    """Otherwise the table says nothing about the net."""
    solved = [newton_alone(case, starts=3) for case in HARD]
    assert sum(solved) < 0.25 * 3 * len(HARD) and solved.count(0) >= 0.75 * len(HARD)


@named(WIDE_STEPS)
def test_newton_alone_sets_prices_that_would_turn_to_none(case, monkeypatch):
    solved = newton_alone(case)
    monkeypatch.setattr(Newton, "_released", lambda _, state, entries: state)
    assert solved > newton_alone(case)


@named([*HARD, *WIDE_STEPS])
@pytest.mark.parametrize("start", _STARTS)
def test_the_net_alone_brings_prices_that_a_polish_finishes(case, start):
    problem, oracle = problem_of(case)
    plan = _by_interior(
        partial(GeneralInterior, problem, *start),
        Newton(oracle, problem.parity, case.lam),
        1e-10,
    )
    outcome = run(plan, np.zeros((problem.n_groups, problem.n_classes)), Limits())
    assert outcome.status.ok
    assert certify(
        problem, oracle, problem.parity.settle(outcome.prices), oracle.label_means()
    ).holds


# --- what must not change the answer ---


def responses(problem: Problem, oracle: MemoryOracle) -> np.ndarray:
    outcome, proof = certified(problem, oracle)
    assert outcome.status.ok and proof.holds
    return oracle.evaluate(
        problem.parity.shifts(outcome.prices), problem.lam, curvature=False
    ).means


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_family_listed_twice_counts_once(bound, epsilon):
    once = FamilyCase("margins", bound, epsilon, seed=5)
    assert (
        np.abs(
            responses(*problem_of(once)) - responses(*problem_of(replace(once, design="twice")))
        ).max()
        < 1e-9
    )


@pytest.mark.parametrize("kind", ["class", "soft"])
def test_margins_follow_from_equal_crossings(kind):
    crossings = FamilyCase("crossings", "range", "zero", kind, seed=6)
    assert (
        np.abs(
            responses(*problem_of(crossings))
            - responses(*problem_of(replace(crossings, design="both")))
        ).max()
        < 1e-9
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_general_method_solves_the_papers_constraint_too(epsilon):
    problem, oracle = problem_of(FamilyCase("crossings", "range", epsilon, seed=7))
    simple = replace(
        problem, parity=Parity.of_groups(problem.parity.members[0].bound, problem.parity.share)
    )
    start = np.zeros((problem.n_groups, problem.n_classes))
    answers = []
    for method in (Interior(simple), GeneralInterior(simple)):
        state = method.start(start)
        while not state.stalled:
            state = method.step(state)
        answers.append(
            oracle.evaluate(next(iter(method.at_face(state))), 1.0, curvature=False).means
        )
    assert np.abs(answers[0] - answers[1]).max() < 1e-9


def test_classes_without_a_bound_have_no_price():
    problem, oracle = problem_of(FamilyCase("both", "range", "mixed", seed=8))
    outcome, _ = certified(problem, oracle)
    free = ~np.isfinite(problem.parity.members[0].bound.epsilon)
    assert (
        free.any()
        and (outcome.prices[:, free] == 0).all()
        and (outcome.prices[:, ~free] != 0).any()
    )


@pytest.mark.parametrize(
    ("design", "bound"),
    [("both", "range"), ("memberships", "range"), ("strata", "ratio"), ("crossings", "target")],
)
@pytest.mark.parametrize("rows", [12, 200], ids=lambda rows: f"{rows} rows")
def test_curvature_folds_as_the_sum_over_rows_says(design, bound, rows):
    problem, _ = problem_of(FamilyCase(design, bound, rows=rows, seed=9))
    # cells that count in part
    problem = replace(problem, parity=replace(problem.parity, design=0.7 * problem.parity.design))
    method, parity = GeneralInterior(problem), problem.parity
    d = np.random.default_rng(0).uniform(0.1, 1.0, method.rows.y.shape)
    wanted = np.zeros((parity.n_groups, problem.n_classes) * 2)
    for row, cell, weight in zip(d, method.rows.cell, method.rows.weight, strict=True):
        own = np.diag(row) - np.outer(row, row) / row.sum()
        wanted += weight * np.einsum("g,h,kl->gkhl", parity.matrix[cell], parity.matrix[cell], own)
    components = method.layout.components
    for component, block in zip(
        components, fold(method.rows, parity, components, d, d.sum(axis=1)), strict=True
    ):
        mine = component.groups
        whole = wanted[mine][:, :, mine]
        assert (
            np.abs(block - (np.einsum("gkgl->gkl", whole) if component.disjoint else whole)).max()
            < 1e-14
        )
        wanted[np.ix_(mine, range(problem.n_classes), mine, range(problem.n_classes))] = 0.0
    assert not wanted.any()  # nothing is left between components


@pytest.mark.parametrize(
    ("design", "bound", "count", "disjoint"),
    [
        ("crossings", "ratio", 1, True),
        ("crossings", "target", 6, True),
        ("crossings", "to_overall", 1, True),
        ("strata", "range", 2, True),
        ("margins", "target", 1, False),
    ],
)
def test_groups_are_held_together_by_shared_cells_and_levels_only(design, bound, count, disjoint):
    components = GeneralInterior(problem_of(FamilyCase(design, bound, seed=9))[0]).layout.components
    assert len(components) == count and all(
        component.disjoint is disjoint for component in components
    )


# --- bounds that contradict each other ---


def contradiction(epsilon: float) -> tuple[Problem, MemoryOracle]:
    """Two attributes whose groups must come within epsilon / 2 of targets that are 0.4 apart in one class."""
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


def test_curvature_of_many_groups_that_share_cells_is_folded_group_by_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    design = np.where(rng.random((60, 12)) < 0.3, rng.random((60, 12)), 0.0)
    design[5] = 0.0
    blocks = rng.random((60, 4, 4))
    wanted = np.einsum("jg,jh,jkl->gkhl", design, design, blocks)
    for most in (1 << 23, 0):
        monkeypatch.setattr("r2b._solve.oracle.reference._CELL_ENTRIES", most)
        np.testing.assert_allclose(folded_cells(design, blocks), wanted, rtol=1e-12, atol=1e-14)
