"""Each solver by itself, judged by arithmetic of its own: no other stage can repair a mistake."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from problems import range_bound

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from campaign_draws import Drawn
from campaign_judge import judge, project

import r2b
from r2b._audit.tradeoff import task_of
from r2b._constraints.bounds import RangeBound
from r2b._constraints.parity import Parity
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Problem, certify
from r2b._solve.oracle import ClassOracle, Oracle, Supports
from r2b._solve.settings import SETTINGS
from r2b._solve.solvers import Limits, Outcome, Stage, run
from r2b._solve.solvers.agreement import infeasible, most_agreement
from r2b._solve.solvers.interior import InteriorPoint, Point, _NewtonSystem
from r2b._solve.solvers.linear import BlockSystem, DenseSystem, Held, entries_of
from r2b._solve.solvers.newton import Newton
from r2b._solve.solvers.plan import stages
from r2b._solve.solvers.thresholds import Thresholds

BOUNDS = ("range", "to_overall", "ratio", "target")
CERTIFIED, NEAR = 1.1e-9, 1e-7


@dataclass(frozen=True)
class Small:
    """One small problem, drawn from its fields."""

    bound: str = "range"
    epsilon: float = 0.05
    lam: float = 1.0
    soft: bool = False
    families: str = "crossed"
    rows: int = 60
    weighted: bool = True

    @cached_property
    def drawn(self) -> Drawn:
        """The problem in the words of the campaign's judge."""
        rng = np.random.default_rng(list(repr(self).encode()))
        n, classes = self.rows, 4
        sex, race = np.arange(n) % 2, rng.integers(0, 3, n)
        taste = rng.dirichlet(np.full(classes, 2.0), (2, 3))
        labels = np.eye(classes)[[rng.choice(classes, p=p) for p in taste[sex, race]]]
        y = labels.argmax(axis=1)
        if self.soft:
            labels = 0.7 * rng.dirichlet(np.ones(classes), n) + 0.3 * taste[sex, race]
            y = labels
        if self.families == "marginal":
            features = {"sex": sex, "race": race}
            margins = [
                {f"sex={s}": 1.0 * (sex == s) for s in range(2)},
                {f"race={r}": 1.0 * (race == r) for r in range(3)},
            ]
        else:
            features = race
            margins = [{f"{r}": 1.0 * (race == r) for r in range(3)}]
        weight = 10.0 ** rng.uniform(-1, 1, n) if self.weighted else np.ones(n)
        arguments = {
            "y": y,
            "sensitive_features": features,
            "sample_weight": weight,
            "epsilon": self.epsilon,
            "lam": self.lam,
            "bound": self.bound,
            "families": self.families,
        }
        target = None
        if self.bound == "target":
            target = rng.dirichlet(np.full(classes, 5.0))
            arguments["target"] = target
        return Drawn({}, arguments, labels, weight, margins, target)

    @cached_property
    def task(self):
        """The problem and its oracle."""
        return task_of(
            self.drawn.arguments["y"],
            {name: value for name, value in self.drawn.arguments.items() if name != "y"},
        )

    @property
    def problem(self) -> Problem:
        """The problem as solvers see it."""
        return self.task.problem(self.task.parity)

    def newton(self, **more) -> Newton:
        """Newton's method for it."""
        return Newton(self.task.oracle, self.task.parity, self.lam, **more)

    def judged(self, prices: np.ndarray) -> float:
        """The largest violation or gap of the labels at these prices."""
        prices = self.task.parity.settle(prices)
        shift, at = np.zeros(self.drawn.labels.shape), 0
        for member in self.drawn.members:
            names = list(self.task.parity.names[at : at + len(member)])
            for place, name in enumerate(names):
                shift += member[str(name)][:, None] * prices[at + place]
            at += len(member)
        answer = project((self.drawn.labels - shift) / self.lam)
        names = [str(name) for name in self.task.parity.names]
        found = judge(self.drawn, answer, prices, names)
        assert "fault" not in found, found
        return max(found["simplex"], found["excess"], abs(found["gap"]))


SMALL = [
    Small(bound, epsilon, lam, soft, families)
    for bound in BOUNDS
    for epsilon in (0.0, 0.05)
    for families in ("crossed", "marginal")
    for lam, soft in ((1.0, False), (0.4, True))
]
named = pytest.mark.parametrize("case", SMALL, ids=repr)


def alone(case: Small, solver, steps: int, tol: float = 1e-10, *, final: bool = True) -> Outcome:
    """Run a plan of one stage from no prices at all."""
    outcome = run(
        [Stage(solver, tol, steps, final=final)],
        np.zeros((case.problem.n_groups, case.problem.n_classes)),
        Limits(),
    )
    if not final:  # what it leaves for the next stage
        seen = []
        newton = case.newton()
        watched = replace(newton, name="watched")
        stages = [Stage(solver, tol, steps, final=False), Stage(watched, 1.0, 0)]
        outcome = run(stages, np.zeros_like(outcome.prices), Limits(progress=seen.append))
    return outcome


@named
def test_newton_from_a_cold_start(case):
    outcome = alone(case, case.newton(), 80)
    assert outcome.status.ok and case.judged(outcome.prices) <= CERTIFIED


@named
def test_the_interior_point_without_a_polish_comes_near(case):
    outcome = alone(case, InteriorPoint(case.problem), 60, 0.0, final=False)
    assert len(outcome.history) < 45
    assert case.judged(outcome.prices) <= NEAR


@named
def test_the_interior_point_with_its_polish_is_exact(case):
    outcome = alone(case, InteriorPoint(case.problem, case.newton()), 25, 0.0, final=False)
    assert case.judged(outcome.prices) <= CERTIFIED and outcome.residual <= 1e-10
    raw = alone(case, InteriorPoint(case.problem), 60, 0.0, final=False)
    assert len(outcome.history) <= len(raw.history) - 3  # the polish ends it early


def test_groups_of_little_weight_may_have_high_prices():
    labels = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    weight = np.where(np.arange(60) % 3 > 0, 1.0, 1e-8)
    rows = merge(read(labels, sensitive_features=np.arange(60) % 3, sample_weight=weight))
    parity = Parity.of_groups(range_bound(0.01, 4), rows.cell_weight)
    newton = Newton(Oracle.of(rows), parity, 1.0)
    method = InteriorPoint(Problem(rows, parity), newton)
    state = method.start(np.zeros(1))
    while not state.stalled:
        state = method.step(state)
    assert state.residual <= 1e-10 and state.complementarity <= 1e-6


def test_a_class_that_no_row_may_have_starts_with_a_dual_for_it():
    case = Small("target", 0.0)
    (member,) = case.task.parity.members
    bound = replace(member.bound, target=np.array([0.5, 0.5, 0.0, 0.0]))
    parity = replace(case.task.parity, members=(replace(member, bound=bound),))
    method = InteriorPoint(replace(case.problem, parity=parity))
    start = method.start(np.zeros(1)).point
    assert (start.x > 0).all() and (start.z > 0).all()
    assert (start.z[:, 2:] > start.z[:, :2].max()).all()


@named
def test_prices_on_the_active_set_are_exact_long_before_the_iteration_is(case):
    method, newton = InteriorPoint(case.problem), case.newton()
    state, raw, exact = method.start(np.zeros(1)), 1.0, 1.0
    while exact > 1e-10 and not state.stalled:
        state = method.step(state)
        if state.complementarity < 1e-6:
            raw = newton.start(state.prices).residual
            exact = min(newton.start(prices).residual for prices in method.on_face(state.point))
    assert exact <= 1e-10 < raw


@pytest.mark.parametrize("side", ["p", "q"])
def test_an_entry_that_does_not_lean_on_its_side_is_released(side):
    case = Small("target", 0.2, 0.4, soft=True)
    method, newton = InteriorPoint(case.problem), case.newton()
    state = method.start(np.zeros(1))
    while state.complementarity > 1e-10:
        state = method.step(state)
    at = state.point
    (exact,) = method.on_face(at)
    assert newton.start(exact).residual <= 1e-10
    inside = method.entries.band & (at.p < at.b) & (at.q < at.a)
    one = np.arange(inside.size).reshape(inside.shape) == np.flatnonzero(inside)[0]
    leaning = {side: np.where(one, 2.0, getattr(at, side))}
    first, released = method.on_face(replace(at, **leaning))
    assert newton.start(first).residual > 1e-3
    assert released[one] == 0 and newton.start(released).residual <= 1e-10


@pytest.mark.parametrize("bound", BOUNDS)
def test_newton_by_steps_on_a_sample(bound):
    case = Small(bound, 0.02, 0.5, soft=True, rows=900, weighted=False)
    sample = Oracle.of(case.problem.rows_in_memory).sample(300)
    outcome = alone(case, case.newton(sample=sample), 40)
    assert outcome.status.ok and case.judged(outcome.prices) <= CERTIFIED


@pytest.mark.parametrize("epsilon", [0.0, 0.01])
@pytest.mark.parametrize("lam", [0.4, 1.0, 2.0])
def test_thresholds_alone(epsilon, lam):
    pytest.importorskip("numba")
    case = Small("range", epsilon, lam, rows=300)
    solver = Thresholds(ClassOracle.of(case.problem.rows_in_memory), case.task.parity, lam)
    outcome = alone(case, solver, 40, 1e-11)
    assert outcome.status.ok and case.judged(outcome.prices) <= CERTIFIED
    assert len(outcome.history) < 30


def test_rows_that_keep_their_label_keep_their_threshold():
    pytest.importorskip("numba")
    case = Small("range", 0.01, 0.4, rows=300)
    solver = Thresholds(ClassOracle.of(case.problem.rows_in_memory), case.task.parity, 0.4)
    state = solver.start(np.zeros((3, 4)))
    for _ in range(3):
        state = solver.step(state)
        best, gives_up = -state.prices.min(axis=1)[:, None], solver.look(state.prices).level
        whole = gives_up > best
        assert (state.level[~whole] == gives_up[~whole]).all()
        assert ((state.level >= best) & (state.level <= gives_up))[whole].all()
        assert (state.level < gives_up)[whole].any()


# --- Newton by definition ---


@named
def test_newton_s_merit_is_the_forward_backward_envelope(case):
    newton, parity = case.newton(), case.task.parity
    rng = np.random.default_rng(1)
    prices = 0.1 * rng.normal(size=(case.problem.n_groups, 4))
    state = newton.start(prices)
    rows = case.problem.rows_in_memory
    weight = np.ones(len(rows.cells)) if rows.weight is None else rows.weight / rows.weight.sum()
    weight = weight / weight.sum()
    shifted = rows.labels - parity.shifts(prices)[rows.cells]
    x = project(shifted / case.lam)
    smooth = -weight @ (0.5 * case.lam * x * x - x * shifted).sum(axis=1)
    ahead = prices + newton.gamma * state.gap  # a proximal step of the support function
    share = parity.share[:, None]
    envelope = (
        smooth
        - (share * state.means * (ahead - prices)).sum()
        + parity.support(ahead)
        + 0.5 / newton.gamma * (share * (ahead - prices) ** 2).sum()
    )
    assert state.merit == pytest.approx(envelope, abs=1e-12)
    assert state.gap == pytest.approx(
        state.means - parity.project(state.means + prices / newton.gamma).means, abs=1e-14
    )
    assert newton.gamma > 0 and parity.support(ahead) < np.inf


@named
def test_newton_s_direction_removes_the_residual_to_first_order(case):
    newton = case.newton()
    prices = newton.start(np.zeros((case.problem.n_groups, 4))).prices
    state = newton.step(newton.start(1.1 * prices + 1e-3))
    state = replace(state, curvature=newton._curvature(state.prices))
    damping = 1e-3
    d = newton.direction(state, damping)
    h = 1e-7 / max(1.0, np.abs(d).max())
    changed = (newton.start(state.prices + h * d).gap - state.gap) / h
    at = state.means + state.prices / newton.gamma
    project_ = case.task.parity.project
    along = (project_(at + h * d).means - project_(at).means) / h
    assert changed == pytest.approx(-state.gap + damping * (d - along), abs=1e-5)


@named
def test_newton_s_safe_step_lowers_the_merit(case, monkeypatch):
    def singular(*_):
        raise np.linalg.LinAlgError

    newton = case.newton()
    rng = np.random.default_rng(1)
    state = newton.start(0.1 * rng.normal(size=(case.problem.n_groups, 4)))
    monkeypatch.setattr(Newton, "direction", singular)
    safe = newton.step(state)
    assert not safe.stalled and safe.merit < state.merit


@named
def test_newton_accepts_a_step_that_keeps_enough_of_its_promise(case):
    newton = case.newton()
    rng = np.random.default_rng(1)
    state = newton.start(0.1 * rng.normal(size=(case.problem.n_groups, 4)))
    state = replace(state, unpaid=1.0)  # the last ground to accept a step is that it falls
    enough = SETTINGS.least_decrease * newton.gamma
    enough *= case.task.parity.product(state.gap, state.gap)
    assert enough > 1e-12
    for part, accepted in ((2.0, True), (0.5, False), (-2.0, False)):
        assert newton._accepts(state, replace(state, merit=state.merit - part * enough)) is accepted


# --- the interior point by definition ---


def a_point(case: Small, seed: int = 0) -> tuple[InteriorPoint, Point]:
    """A method and a point inside all its bounds, where no equation holds."""
    method = InteriorPoint(case.problem)
    rng = np.random.default_rng(seed)
    start = method.start(np.zeros(1)).point
    assert min(start.x.min(), start.z.min(), start.a.min(), start.b.min()) > 0
    assert start.x * start.z == pytest.approx(method.mu)
    band = method.entries.band
    moved = {
        name: getattr(start, name) * rng.uniform(0.5, 1.5, getattr(start, name).shape)
        for name in ("x", "z", "a", "b", "p", "q")
    }
    dual = np.where(band, moved["p"] - moved["q"], rng.normal(size=band.shape))
    c = np.where(method.entries.leveled, start.c + 0.1, 0.0)
    own = np.where(method.entries.bound, dual, 0.0)
    prices = method.entries.centred(own)
    return method, replace(start, prices=prices, c=c, **moved)


def lagrangian(case: Small, method: InteriorPoint, at: Point) -> float:
    """Objective of the rows, and what the prices charge for means outside their sides."""
    rows, entries, parity = method.rows, method.entries, case.task.parity
    cost = rows.weight @ (0.5 * case.lam * at.x**2 - at.x * method.worth - at.x * at.z).sum(
        axis=1
    ) - rows.weight @ (at.t * (at.x.sum(axis=1) - 1.0))
    means = entries.centred(parity.means(rows.means(at.x)))
    c = at.c[entries.family]
    above = means - entries.high_slope * c - entries.high
    below = entries.low_slope * c + entries.low - means
    own = np.where(entries.band, at.p * above + at.q * below, at.prices * above)
    return float(cost + (entries.share * np.where(entries.bound, own, 0.0)).sum())


@named
def test_the_interior_point_s_residuals_are_derivatives_of_the_lagrangian(case):
    method, at = a_point(case)
    gaps, rng = method.gaps(at), np.random.default_rng(2)

    def slope(**change: np.ndarray) -> float:
        h = 1e-6
        ahead, behind = (
            replace(at, **{name: getattr(at, name) + s * h * d for name, d in change.items()})
            for s in (1, -1)
        )
        return (lagrangian(case, method, ahead) - lagrangian(case, method, behind)) / (2 * h)

    names = ("stationary", "row_sum", "upper", "lower", "balance")
    largest = max(np.abs(getattr(gaps, name)).max(initial=0.0) for name in names)
    assert method._state(at).residual == max(largest, method.complementarity(at))
    weight = method.rows.weight
    d = rng.normal(size=at.x.shape)
    assert slope(x=d) == pytest.approx((weight[:, None] * gaps.stationary * d).sum(), abs=1e-7)
    d = rng.normal(size=at.t.shape)
    assert slope(t=d) == pytest.approx(-(weight * gaps.row_sum * d).sum(), abs=1e-7)
    share, band = method.entries.share, method.entries.band
    d = np.where(band, rng.normal(size=at.p.shape), 0.0)
    assert slope(p=d) == pytest.approx(-(share * (gaps.upper + at.b) * d).sum(), abs=1e-7)
    assert slope(q=d) == pytest.approx(-(share * (gaps.lower + at.a) * d).sum(), abs=1e-7)
    d = np.where(method.entries.leveled, rng.normal(size=at.c.shape), 0.0)
    assert slope(c=d) == pytest.approx(-(gaps.balance * d).sum(), abs=1e-7)


@named
def test_a_direction_of_the_interior_point_removes_what_it_should(case):
    method, at = a_point(case)
    gaps, band = method.gaps(at), method.entries.band
    mu = method.complementarity(at)
    d = _NewtonSystem(method, at, gaps).direction(method._aim(at, 0.3 * mu, None), repair=1.0)
    regular = SETTINGS.regularisation * np.abs(d.prices).max()
    after = method.gaps(at.moved(d, 0.25))
    for name in ("stationary", "row_sum", "upper", "lower", "balance"):
        left = getattr(after, name) - 0.75 * getattr(gaps, name)
        assert np.abs(left).max(initial=0.0) <= 1e-9 + regular, name
    for one, other in (("x", "z"), ("p", "b"), ("q", "a")):
        mine, theirs = getattr(at, one), getattr(at, other)
        change = getattr(d, one) * theirs + mine * getattr(d, other)
        wanted = 0.3 * mu - mine * theirs
        inside = np.ones_like(band) if one == "x" else band
        if one == "x":
            assert change == pytest.approx(wanted, abs=1e-9)
        else:
            assert change[inside] == pytest.approx(wanted[inside], abs=1e-9)


# --- the linear systems ---


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("families", ["crossed", "marginal"])
@pytest.mark.parametrize("omega", [0.0, 0.3])
def test_both_systems_solve_their_equations(bound, families, omega):
    case = Small(bound, 0.05, families=families)
    entries, rng = entries_of(case.task.parity), np.random.default_rng(3)
    n, k = entries.low.shape
    free = rng.random((n, k)) < 0.8
    held = Held(
        free,
        rng.uniform(0.1, 1.0, (n, k)),
        rng.uniform(0.5, 1.0, (n, k)),
        entries.leveled,
        np.full(entries.leveled.shape, omega),
    )
    root = rng.normal(size=(n, k, k + 1))
    blocks = root @ root.transpose(0, 2, 1)
    whole = np.einsum("gkl,gh->gkhl", blocks, np.eye(n)) * entries.share[:, :, None, None]
    systems = [DenseSystem(entries, whole, held)]
    if entries.disjoint:
        systems.append(BlockSystem(entries, blocks, held))
    right, balance = rng.normal(size=(n, k)), rng.normal(size=entries.leveled.shape)
    for system in systems:
        d, levels = system.solve(right, balance)
        assert (d[~free] == 0).all() and (levels[~entries.leveled] == 0).all()
        answer = np.einsum("gkl,gl->gk", blocks, entries.centred(d))
        answer = entries.centred(answer) + held.softness * d
        slope = np.where(entries.leveled[entries.family], held.slope, 0.0)
        answer += slope * levels[entries.family]
        assert answer[free] == pytest.approx(right[free], abs=1e-10)
        total = entries.family_sum(entries.share * slope * d) - omega * levels
        assert total[entries.leveled] == pytest.approx(balance[entries.leveled], abs=1e-10)


def test_a_singular_system_is_said_to_be():
    case = Small("target")
    entries = entries_of(case.task.parity)
    n, k = entries.low.shape
    none = np.zeros((n, k))
    held = Held(none == 0, none, none, entries.leveled, np.zeros(entries.leveled.shape))
    with pytest.raises(np.linalg.LinAlgError):
        BlockSystem(entries, np.zeros((n, k, k)), held)


# --- bounds that contradict each other ---


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("apart", [0.0, 0.4])
def test_the_least_violation_proves_what_no_labels_meet(epsilon, apart):
    case = Small("target", epsilon, families="marginal")
    first, second = case.task.parity.members
    target = np.array([0.4, 0.2, 0.2, 0.2])
    moved = target + apart * np.array([-0.5, 0.5, 0.0, 0.0])
    members = (
        replace(first, bound=replace(first.bound, target=target)),
        replace(second, bound=replace(second.bound, target=moved)),
    )
    problem = replace(case.problem, parity=replace(case.task.parity, members=members))
    assert infeasible(problem) is (apart > 0)


# --- which solver when ---


def planned(case: Small, oracle=None, *, warm: bool = False) -> list[str]:
    """The stages of a plan, by name, without neighbours that are the same."""
    found = stages(case.problem, oracle or case.task.oracle, None, 1e-10, warm=warm)
    names = [f"{stage.solver.name} {getattr(stage.solver, 'lam', 1.0):.2g}" for stage in found]
    return [one for one, _ in itertools.groupby(names)]


def test_the_plan():
    pytest.importorskip("numba")
    lasts = ["interior 1", "newton 1"] * 3
    few, many = Small(soft=True), Small(soft=True, rows=400, weighted=False)
    assert planned(few) == lasts
    assert planned(many) == ["newton 1", *lasts]
    assert planned(few, warm=True) == ["newton 1", *lasts]
    labels = Small()
    by_class = ClassOracle.of(labels.problem.rows_in_memory)
    assert planned(labels, by_class) == ["thresholds 1", *lasts]
    assert planned(labels, by_class, warm=True) == ["thresholds 1", *lasts]
    bent = Small(lam=0.2, soft=True, rows=400, weighted=False)
    assert planned(bent)[:3] == [
        "newton, larger lam 1.8",
        "newton, larger lam 0.6",
        "newton 0.2",
    ]


# --- outcomes that are not the classes ---


@pytest.mark.parametrize("families", ["crossed", "marginal"])
@pytest.mark.parametrize("soft", [False, True])
def test_merged_classes_are_compared_by_every_solver(families, soft):
    case = Small("range", 0.02, families=families, soft=soft)
    parity, rows = case.task.parity, case.problem.rows_in_memory
    merged = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])
    width = np.full(2, 0.02)
    members = tuple(replace(each, bound=RangeBound(width)) for each in parity.members)
    parity = replace(parity, members=members, outcomes=merged)
    problem, oracle = Problem(rows, parity), case.task.oracle
    newton, none = Newton(oracle, parity, 1.0), np.zeros((parity.n_groups, 2))
    proofs = []
    for plan in (
        [Stage(newton, 1e-10, 80)],
        [Stage(InteriorPoint(problem, newton), 0.0, 30, final=False), Stage(newton, 1e-10, 0)],
    ):
        outcome = run(plan, none, Limits())
        assert outcome.status.ok
        proofs.append(certify(problem, oracle, parity.settle(outcome.prices), oracle.label_means()))
    assert proofs[0].holds and proofs[1].holds
    assert proofs[0].objective == pytest.approx(proofs[1].objective, abs=1e-10)
    fewest = most_agreement(replace(problem, lam=0.0))
    assert fewest.status is r2b.Status.SOLVED
    weight = np.ones(len(rows.cells)) if rows.weight is None else rows.weight
    cells = np.stack(
        [
            weight[rows.cells == cell]
            @ fewest.answers[rows.cells == cell]
            / weight[rows.cells == cell].sum()
            for cell in range(rows.n_cells)
        ]
    )
    assert parity.violation(parity.means(cells)) <= 1e-9


# --- thresholds by definition ---


def test_the_slope_of_thresholds_is_the_derivative_of_the_dual():
    pytest.importorskip("numba")
    case = Small("range", 0.01, 1.0, rows=300)
    oracle, parity = ClassOracle.of(case.problem.rows_in_memory), case.task.parity
    solver = Thresholds(oracle, parity, 1.0)
    level = np.random.default_rng(0).uniform(-0.1, 0.4, oracle.weight.shape)
    nothing = np.full(4, np.nan)

    def dual(level: np.ndarray) -> float:
        worth = solver.point(level, nothing).worth
        label = np.eye(4)
        above = np.maximum(worth[:, None, :] + label - level[:, :, None], 0.0)
        rows = level + 0.5 * (above**2).sum(axis=2)
        return float(parity.share @ (oracle.weight * rows).sum(axis=1)) + parity.support(-worth)

    direction = np.random.default_rng(1).normal(size=level.shape)
    h = 1e-6
    measured = (dual(level + h * direction) - dual(level - h * direction)) / (2 * h)
    at = solver.point(level, nothing)
    assert solver.slope(at, direction) == pytest.approx(measured, abs=1e-6)
    # prices are the best for these thresholds: they balance, and the dual has no slope along others
    assert np.abs(parity.share @ at.worth).max() <= 1e-12


def test_a_step_keeps_the_place_of_rows_that_keep_their_label(monkeypatch):
    pytest.importorskip("numba")
    case = Small("range", 0.01, 0.4, rows=300)
    oracle, parity, lam = ClassOracle.of(case.problem.rows_in_memory), case.task.parity, 0.4
    solver, moves = Thresholds(oracle, parity, lam), []
    solution = Supports.solution
    monkeypatch.setattr(
        Supports, "solution", lambda *given: moves.append(solution(*given)) or moves[-1]
    )
    # the thresholds of the uniform answer, raised: some rows keep their label whole, others none
    level = np.random.default_rng(3).uniform(0.3, 0.9, oracle.weight.shape)
    at = solver.point(level, np.full(4, np.nan))
    change = solver.direction(at, 1e-3)
    kept = at.supports.counts == 0
    assert kept.any() and not kept.all()

    def place(worth: np.ndarray, level: np.ndarray) -> np.ndarray:
        low = worth.max(axis=1, keepdims=True)
        return ((level - low) / (worth + 1.0 - lam - low))[kept]

    before, after = place(at.worth, level), place(at.worth + moves[0], level + change)
    inside = (before > 0) & (before < 1)
    assert inside.any() and np.abs(moves[0]).max() > 1e-3
    np.testing.assert_allclose(after[inside], before[inside], atol=1e-12)


def test_classes_that_stay_as_they_are_cost_no_step():
    pytest.importorskip("numba")
    rows = merge(read(list("aabb"), sensitive_features=list("fmfm")))
    parity = Parity.of_groups(range_bound(0.1, 2), rows.cell_weight)
    for solver in (
        Thresholds(ClassOracle.of(rows), parity, 1.0),
        Newton(Oracle.of(rows), parity, 1.0),
    ):
        outcome = run([Stage(solver, 1e-10, 9)], np.zeros((2, 2)), Limits())
        assert outcome.status is r2b.Status.SOLVED and not outcome.history
