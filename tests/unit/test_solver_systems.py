"""The systems of the interior point are solved as written down, whichever way they are factorised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_solvers_families import FamilyCase, problem_of

import r2b
from r2b._constraints.parity import Parity, TargetBound
from r2b._data import read
from r2b._data.merge import merge
from r2b._solve.certificate import Problem
from r2b._solve.solvers import factors, gradients, plan
from r2b._solve.solvers.conditions import Conditions, system_of
from r2b._solve.solvers.factors import Cholesky, RowCurvature
from r2b._solve.solvers.general import GeneralInterior
from r2b._solve.solvers.systems import curvature_of, fold


def written_out(method, groups, block, held, right, balance):
    """Solve the system of one component by its definition: the matrix of all its entries and levels at once."""
    layout, (n, n_classes) = method.layout, right.shape
    share, family = layout.share[groups, 0], layout.family[groups]
    centring = np.eye(n * n_classes).reshape(n, n_classes, n, n_classes)
    for f, k in zip(*np.nonzero(layout.averaged), strict=True):
        mine = np.flatnonzero(family == f)
        centring[mine[:, None], k, mine, k] -= share[mine] / share[mine].sum()
    table = np.einsum("gkl,gh->gkhl", block, np.eye(n)) if block.ndim == 3 else block
    whole = table.reshape(n * n_classes, -1) / np.repeat(share, n_classes)[:, None]
    centring = centring.reshape(n * n_classes, -1)
    matrix = centring @ whole @ centring + np.diag(held.softness[groups].ravel())
    free = held.free[groups].ravel()
    places = [
        (f, k)
        for f, k in zip(*np.nonzero(held.leveled), strict=True)
        if (held.free[groups][family == f, k]).any()
    ]
    columns = np.zeros((n, n_classes, len(places)))
    for place, (f, k) in enumerate(places):
        columns[family == f, k, place] = held.slope[groups][family == f, k]
    columns = columns.reshape(n * n_classes, -1)
    rows = (columns * np.repeat(share, n_classes)[:, None]).T
    corner = -np.diag([held.omega[place] for place in places])
    system = np.block([[matrix[np.ix_(free, free)], columns[free]], [rows[:, free], corner]])
    found = np.linalg.solve(
        system, np.concatenate([right.ravel()[free], [balance[place] for place in places]])
    )
    d = np.zeros(n * n_classes)
    d[free] = found[: free.sum()]
    return d.reshape(n, n_classes)


@pytest.mark.parametrize(
    ("design", "bound", "rows", "epsilon"),
    [
        ("memberships", "range", 12, "tiny"),
        ("memberships", "to_overall", 12, "mixed"),
        ("memberships", "ratio", 12, "tiny"),
        ("memberships", "to_overall", 200, "tiny"),
        ("both", "target", 12, "tiny"),
        ("both", "to_overall", 200, "mixed"),
        ("crossings", "to_overall", 60, "tiny"),
        ("crossings", "to_overall", 60, "mixed"),
        ("crossings", "ratio", 60, "tiny"),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["all entries", "some entries"])
def test_systems_are_solved_as_written_down(design, bound, rows, epsilon, whole):
    problem, _ = problem_of(FamilyCase(design, bound, epsilon, rows=rows, seed=5))
    method, rng = GeneralInterior(problem), np.random.default_rng(0)
    layout = method.layout
    d = 10.0 ** rng.uniform(-3, 0, method.rows.y.shape)
    softness = 10.0 ** rng.uniform(-4, 1, layout.bound.shape)
    free = layout.bound & (whole | (rng.random(layout.bound.shape) < 0.7))
    omega = np.where(layout.leveled, rng.random(layout.leveled.shape), 0.0)
    slope = np.where(layout.bound, layout.high_slope, 0.0)
    # to tell the right answer from one that is merely near
    held = Conditions(free, softness, slope, layout.leveled, omega, exact=1e-7)
    right, balance = (
        rng.standard_normal(free.shape),
        np.where(layout.leveled, rng.standard_normal(omega.shape), 0.0),
    )
    curved = curvature_of(method.rows, problem.parity, layout.components, d, d.sum(axis=1))
    tables = fold(method.rows, problem.parity, layout.components, d, d.sum(axis=1))
    if rows == 12:
        assert all(isinstance(each, RowCurvature) for each in curved)
    for component, one, table in zip(layout.components, curved, tables, strict=True):
        groups = component.groups
        wanted = written_out(method, groups, table, held, right[groups], balance)
        for curvature in (one, table):
            found, _ = system_of(layout, component, curvature, held).solve(right[groups], balance)
            assert np.abs(found - wanted).max() < 1e-8 * np.abs(wanted).max()
        if isinstance(one, RowCurvature):
            system = system_of(layout, component, replace(one, products=150), held)
            found, _ = system.solve(right[groups], balance)
            assert system.gradients is not None
            assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("bound", "epsilon", "known"),
    [
        ("range", "tiny", 5),
        ("to_overall", "tiny", 8),
        ("to_overall", "zero", 5),
        ("ratio", "tiny", None),
    ],
)
def test_prices_that_rows_do_not_answer_are_set_apart_with_the_products_that_they_have(
    bound, epsilon, known
):
    """Of eight groups in three families all, or five differences where levels move; where classes count by parts products are made."""
    problem, _ = problem_of(FamilyCase("memberships", bound, epsilon, rows=12, seed=5))
    method, rng = GeneralInterior(problem), np.random.default_rng(0)
    layout = method.layout
    softness = 10.0 ** rng.uniform(-12, 1, layout.bound.shape)
    slope = layout.high_slope * (rng.uniform(0.5, 1.0, softness.shape) if bound == "ratio" else 1.0)
    held = Conditions(layout.bound, softness, slope, layout.leveled, np.zeros(layout.leveled.shape))
    d = rng.random(method.rows.y.shape)
    (curved,) = curvature_of(method.rows, problem.parity, layout.components, d, d.sum(axis=1))
    made = system_of(layout, layout.components[0], replace(curved, products=150), held).gradients
    assert made is not None and (len(layout.first), len(made.alike)) == (3, known or 8)
    assert (made._unmoved() is None) == (known is None)
    for alike, lifts, products in zip(made.alike, made.lifts, made.products, strict=True):
        assert np.allclose(
            made._times(alike.reshape(softness.shape), lifts.reshape(made.leveled.shape)).ravel(),
            products,
            atol=1e-12,
        )
        assert np.allclose(
            np.einsum("fgk,gk->fk", made.columns, alike.reshape(softness.shape)),
            0.0,
            atol=1e-9 * np.abs(alike).max(),
        )


def test_where_systems_are_dear_the_path_ends_as_soon_as_a_certificate_will_bear_its_prices_out(
    monkeypatch,
):
    rng = np.random.default_rng(8)
    labels, parts = rng.dirichlet(np.full(6, 0.3), 80), rng.dirichlet(np.full(4, 0.5), 80)
    asked = {
        "sensitive_features": r2b.Membership(parts),
        "epsilon": 1e-3,
        "bound": "to_overall",
        "lam": 0.3,
    }
    exact = r2b.debias(labels, **asked)
    monkeypatch.setattr(plan, "FEW_UNKNOWNS", 5)
    looks = []
    monkeypatch.setattr(GeneralInterior, "at_face", lambda *_: looks.append(1) or iter(()))
    early = r2b.debias(labels, **asked)
    assert early.status.ok and early.certificate.holds and not looks
    assert np.isclose(early.certificate.objective, exact.certificate.objective, rtol=1e-10, atol=0)
    assert np.abs(early.soft_labels - exact.soft_labels).max() < 1e-6


def test_a_step_that_is_lost_to_what_gradients_leave_is_taken_again_with_more_digits(monkeypatch):
    problem, _ = problem_of(FamilyCase("memberships", "range", "tiny", rows=12, seed=5))
    method = GeneralInterior(problem)
    state = method.start(np.zeros((problem.n_groups, problem.n_classes)))
    while state.complementarity > 1e-13:
        state = method.step(state)
    left = []
    # a step that gains nothing
    monkeypatch.setattr(method, "_advance", lambda here, *_: left.append(method.exact) or here)
    method.by_gradients = False
    assert method.step(state).stalled and left == [gradients.EXACT]
    method.by_gradients = True
    assert method.step(state).stalled
    assert left[1] == gradients.EXACT and left[-1] < 2e-5 and np.all(np.diff(left[1:]) < 0)


def test_gradients_that_take_too_long_leave_it_to_a_factorisation():
    problem, _ = problem_of(FamilyCase("memberships", "range", "tiny", rows=12, seed=5))
    method, rng = GeneralInterior(problem), np.random.default_rng(0)
    layout = method.layout
    held = Conditions(
        layout.bound,
        np.ones(layout.bound.shape),
        layout.high_slope,
        layout.leveled,
        np.zeros(layout.leveled.shape),
    )
    d, right = rng.random(method.rows.y.shape), rng.standard_normal(layout.bound.shape)
    (curved,) = curvature_of(method.rows, problem.parity, layout.components, d, d.sum(axis=1))
    none = np.zeros(layout.leveled.shape)
    system = system_of(layout, layout.components[0], replace(curved, products=1), held)
    found, _ = system.solve(right, none)
    assert system.gradients is None
    assert np.allclose(
        found, system_of(layout, layout.components[0], curved, held).solve(right, none)[0]
    )
    assert gradients.worthwhile(2000, 2000) and not gradients.worthwhile(2000, 100)


def test_a_factorisation_by_blocks_solves_for_columns_and_halves():
    rng = np.random.default_rng(1)
    half = rng.standard_normal((250, 300)) * 10.0 ** rng.uniform(-3, 3, (250, 1))
    matrix, columns = half @ half.T, rng.standard_normal((250, 3))
    factor = Cholesky(matrix)
    assert np.abs(matrix @ factor.solve(columns) - columns).max() < 1e-8
    assert np.allclose(
        factor.half(columns).T @ factor.half(columns),
        columns.T @ np.linalg.solve(matrix, columns),
        rtol=1e-8,
    )


def test_what_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        Cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_a_class_that_a_target_forbids_has_a_price_that_no_row_pays_and_the_path_begins_at_the_target():
    rng = np.random.default_rng(4)
    labels, sex = (
        np.eye(40)[rng.choice(20, 80, p=rng.dirichlet(np.full(20, 0.3)))],
        rng.integers(0, 4, 80),
    )
    weight = 10.0 ** rng.uniform(-3, 3, 80)
    dataset = read(labels, sensitive_features=sex, sample_weight=weight)
    rows = merge(dataset)
    target = weight @ labels / weight.sum()
    parity = Parity.of_groups(TargetBound(np.zeros(40), target), np.bincount(sex, weight))
    method = GeneralInterior(Problem(rows, parity, 0.3))
    assert ((method.fixed > 0) == (target == 0)).all() and not method.layout.bound[
        :, target == 0
    ].any()
    start = method.start(np.zeros((4, 40)))
    assert (start.prices[:, target == 0] > 100).all() and (start.point.rows.x > 0).all()
    fair = r2b.debias(
        labels,
        sensitive_features=sex,
        epsilon=0,
        lam=0.3,
        bound="target",
        target="population",
        sample_weight=weight,
    )
    assert fair.status.ok and fair.soft_labels[:, target == 0].max() == 0


@pytest.mark.parametrize("held", [0.0, 0.3], ids=["all entries", "some entries"])
def test_prices_passed_on_less_their_mean_are_found_without_a_table_however_much_softness_differs(
    held,
):
    """As near the answer: entries soft as nothing is beside such as are all but held, rows in two or three classes."""
    problem, _ = problem_of(
        FamilyCase("crossings", "to_overall", "tiny", rows=400, classes=8, seed=3)
    )
    method, rng = GeneralInterior(problem), np.random.default_rng(1)
    layout, lam = method.layout, 0.1
    (component,) = layout.components
    support = rng.random(method.rows.y.shape) < 0.3
    d = np.where(support, 1.0 / lam, 10.0 ** rng.uniform(-14, -12, support.shape))
    softness = 10.0 ** rng.uniform(-13, 9, layout.bound.shape)
    # groups that lean on a side in all classes
    softness[::2] = 10.0 ** rng.uniform(-16, -14, softness[::2].shape)
    free = layout.bound & (rng.random(layout.bound.shape) >= held)
    none = np.zeros(layout.leveled.shape)
    conditions = Conditions(free, softness, np.zeros_like(softness), layout.leveled, none)
    (block,) = fold(method.rows, problem.parity, layout.components, d, d.sum(axis=1))
    system = system_of(layout, component, block, conditions)
    # Of a size that softness lets pass: a right-hand side that prices of about 1 answer.
    right = system._times(
        np.where(free, rng.standard_normal(free.shape) / np.maximum(softness, 1.0), 0.0), none[0]
    )[0]
    found, _ = system.solve(right, none)
    assert system._together.cache_info().currsize == 0
    assert np.abs(system._times(found, none[0])[0] - right).max() < 1e-6 * np.abs(right).max()


def test_levels_of_rows_are_joined_alike_by_one_table_by_classes_and_by_cells():
    rng = np.random.default_rng(2)
    cell = np.sort(np.concatenate([np.arange(5), rng.integers(0, 5, 25)]))
    d = np.where(rng.random((30, 7)) < 0.4, rng.random((30, 7)), 0.0) + 1e-30
    curvature = RowCurvature(rng.standard_normal((5, 3)), cell, d, d.sum(axis=1), rng.random(30))
    design, joined = rng.standard_normal((7, 5, 3)), d > 1e-20
    moves = np.where(joined, rng.random(d.shape), 0.0)
    one, *others = (
        kind(moves, joined, curvature, design)
        for kind in (factors._Together, factors._ByClass, factors._ByCell)
    )
    columns, level = rng.standard_normal((7, 3, 4)), rng.standard_normal(30)
    columns[2:5, :, 1] = 0.0
    for other in others:
        assert np.allclose(np.tril(one.squares()), np.tril(other.squares()), rtol=1e-12, atol=1e-14)
        for part in (columns, columns[:, :, :1]):
            assert np.allclose(one.of(part), other.of(part), rtol=1e-12, atol=1e-13)
        assert np.allclose(one.back(level), other.back(level), rtol=1e-12, atol=1e-13)


def test_near_the_answer_rows_are_joined_by_the_few_classes_that_they_have():
    d = np.full((50, 40), 1e-18)
    d[np.arange(50), np.arange(50) % 40] = d[np.arange(50), (np.arange(50) + 1) % 40] = 1.0
    dense = np.ones((50, 40))
    assert factors.row_work(d, d.sum(axis=1), 50, 20) < 0.1 * factors.row_work(
        dense, dense.sum(axis=1), 50, 20
    )
    assert factors.row_work(dense, dense.sum(axis=1), 2, 20) < 0.5 * factors.row_work(
        dense, dense.sum(axis=1), 50, 20
    )
