"""From corner to corner of the dual: the same optimum as that of HiGHS, from prices near it or far off."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import r2b
from r2b._constraints.parity import Member, Parity, RangeBound, TargetBound
from r2b._data.merge import Rows
from r2b._solve.certificate import Problem
from r2b._solve.oracle import DesignOracle
from r2b._solve.oracle.screening import screened
from r2b._solve.solvers import descent, sharpening
from r2b._solve.solvers.agreement import most_agreement
from r2b._solve.solvers.bands import Bands
from r2b._solve.solvers.driver import Status

pytest.importorskip("numba")


def table(
    seed, n_rows=60, n_classes=4, n_groups=3, leaves=None, epsilon=0.01, target=None, whole=True
):
    """Draw rows in uncertain groups; with leaves, rows that are the same."""
    rng = np.random.default_rng(seed)
    labels = rng.dirichlet(np.ones(n_classes), leaves or n_rows)
    design = rng.dirichlet(np.ones(n_groups), leaves or n_rows)
    if leaves is not None:
        chosen = rng.integers(0, leaves, n_rows)
        labels, design = labels[chosen], design[chosen]
    weight = np.ones(n_rows) if whole else rng.uniform(0.5, 2.0, n_rows)
    rows = Rows(labels, np.arange(n_rows, dtype=np.uint32), weight, n_rows, None)
    epsilons = np.full(n_classes, epsilon)
    bound = RangeBound(epsilons) if target is None else TargetBound(epsilons, np.asarray(target))
    share = weight @ design / weight.sum()
    parity = Parity(
        (Member("g", slice(0, n_groups), bound),),
        np.arange(n_groups),
        share,
        weight / weight.sum(),
        design,
    )
    oracle = DesignOracle(rows, design, share, "numpy", 1)
    return oracle, parity, screened(oracle, parity, np.zeros((n_groups, n_classes)), 10.0)


def worth(few, found):
    rows = few.oracle.rows
    return float((rows.weight[:, None] * rows.labels * found.answers).sum() / rows.weight.sum())


def descended(few, parity, prices, near=None):
    near = np.ones(few.oracle.rows.labels.shape, dtype=bool) if near is None else near
    bands = Bands.of(parity)
    assert bands is not None
    return descent.nearest_corner(few, prices, near, bands)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("leaves", [None, 15])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.02, 0.3])
@pytest.mark.parametrize("apart", [0.0, 0.1])
def test_the_optimum_is_that_of_a_linear_programme(seed, leaves, epsilon, apart):
    _, parity, few = table(seed, leaves=leaves, epsilon=epsilon, whole=seed % 2 == 0)
    expected = most_agreement(Problem(few.oracle.rows, few.parity, 0.0))
    start = apart * np.random.default_rng(seed).normal(size=expected.prices.shape)
    found = descended(few, parity, start)
    assert found.status is Status.SOLVED and found.answers is not None
    np.testing.assert_allclose(worth(few, found), worth(few, expected), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.answers.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    means = (
        few.oracle.design.T
        @ (few.oracle.rows.weight[:, None] * found.answers)
        / few.oracle.rows.weight.sum()
    )
    assert parity.violation(means / parity.share[:, None]) < 1e-12
    # Prices prove it: what rows and groups leave at them is nothing.
    shifted = few.oracle.rows.labels - few.oracle.design @ found.prices
    dual = few.oracle.rows.weight @ shifted.max(
        axis=1
    ) / few.oracle.rows.weight.sum() + parity.support(found.prices)
    np.testing.assert_allclose(dual, worth(few, found), rtol=0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_targets_are_met(epsilon):
    _, parity, few = table(7, epsilon=epsilon, target=[0.4, 0.3, 0.2, 0.1])
    found, expected = (
        descended(few, parity, np.zeros((3, 4))),
        most_agreement(Problem(few.oracle.rows, few.parity, 0.0)),
    )
    assert found.status is Status.SOLVED
    np.testing.assert_allclose(worth(few, found), worth(few, expected), rtol=0, atol=1e-12)


def test_only_the_classes_that_are_named_are_given():
    _, parity, few = table(8, epsilon=0.1)
    near = few.oracle.rows.labels >= np.sort(few.oracle.rows.labels, axis=1)[:, -3:-2]
    found = descended(few, parity, np.zeros((3, 4)), near)
    expected = most_agreement(Problem(few.oracle.rows, few.parity, 0.0), among=near)
    assert found.answers is not None and not found.answers[~near].any()
    np.testing.assert_allclose(worth(few, found), worth(few, expected), rtol=0, atol=1e-12)


def test_rows_that_cannot_meet_the_bounds_are_told():
    _, parity, few = table(9, epsilon=0.0, target=[0.97, 0.01, 0.01, 0.01])
    near = np.zeros((60, 4), dtype=bool)
    near[:, 2:] = True
    assert descended(few, parity, np.zeros((3, 4)), near).status is Status.INFEASIBLE


def test_labels_are_those_of_the_path_without_it(monkeypatch):
    rng = np.random.default_rng(3)
    joint = np.exp(2.0 * rng.normal(size=(3_000, 3, 6)))
    joint /= joint.sum(axis=(1, 2), keepdims=True)
    found = []
    for most in (sharpening._DESCENT, 0):
        monkeypatch.setattr(sharpening, "_DESCENT", most)
        options = {"epsilon": 0.01, "objective": "agreement", "kernel": "compiled"}
        fair = r2b.debias(
            joint.sum(axis=1), sensitive_features=r2b.Membership(joint.sum(axis=2)), **options
        )
        assert fair.status.ok
        found.append(np.asarray(fair.soft_labels))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-9)


def test_where_a_descent_gives_up_another_way_is_taken(monkeypatch):
    rng = np.random.default_rng(4)
    scores, members = rng.dirichlet(np.ones(5), 2_000), rng.dirichlet(np.ones(3), 2_000)
    options = {
        "sensitive_features": r2b.Membership(members),
        "epsilon": 0.01,
        "objective": "agreement",
        "kernel": "compiled",
    }
    expected = r2b.debias(scores, **options)
    original, asked = sharpening.nearest_corner, []

    def stalled(*given):
        asked.append(given)
        return dataclasses.replace(original(*given), answers=None, status=Status.STALLED)

    monkeypatch.setattr(sharpening, "nearest_corner", stalled)
    found = r2b.debias(scores, **options)
    assert asked and found.status.ok
    np.testing.assert_allclose(found.soft_labels, expected.soft_labels, rtol=0, atol=1e-9)


def test_rows_without_a_choice_leave_nothing_to_find():
    _, parity, few = table(2, epsilon=0.9)
    near = few.oracle.rows.labels == few.oracle.rows.labels.max(axis=1, keepdims=True)
    found = descended(few, parity, np.zeros((3, 4)), near)
    assert found.status is Status.SOLVED and not found.prices.any()
    np.testing.assert_array_equal(found.answers, near)
