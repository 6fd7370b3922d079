"""Labels of a linear programme told by prices: the only optimum is taken as it is, others are not."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b._constraints.parity import Member, Parity, RangeBound
from r2b._data.merge import Rows
from r2b._solve.oracle import DesignOracle
from r2b._solve.oracle.reference import respond
from r2b._solve.oracle.screening import screened
from r2b._solve.solvers.agreement import Agreement
from r2b._solve.solvers.corners import Corner
from r2b._solve.solvers.driver import Status


@pytest.fixture
def seen(monkeypatch):
    """Keep what is found out about corners."""
    found, only = [], Corner.only
    monkeypatch.setattr(Corner, "only", lambda *given: found.append(only(*given)) or found[-1])
    return found


def drawn(seed, n_rows, n_classes=5, n_groups=3, leaves=None):
    rng = np.random.default_rng(seed)
    joint = np.exp(
        2.0 * rng.normal(size=(leaves or n_rows, n_groups, n_classes))
        + rng.normal(size=(n_groups, n_classes))
    )
    joint /= joint.sum(axis=(1, 2), keepdims=True)
    if leaves is not None:
        joint = joint[rng.integers(0, leaves, n_rows)]
    return joint.sum(axis=1), joint.sum(axis=2)


def decided(scores, members, epsilon, **options):
    fair = r2b.debias(
        scores,
        sensitive_features=r2b.Membership(members),
        epsilon=epsilon,
        objective="agreement",
        **options,
    )
    assert fair.status.ok and fair.certificate.holds
    return np.asarray(fair.soft_labels)


@pytest.mark.parametrize("leaves", [None, 60])
@pytest.mark.parametrize("epsilon", [0.0, 0.02])
def test_the_labels_of_a_corner_are_those_that_the_path_ends_in(leaves, epsilon, seen, monkeypatch):
    scores, members = drawn(3, 400, leaves=leaves)
    by_corner = decided(scores, members, epsilon)
    assert seen == [True]
    monkeypatch.setattr(Corner, "only", lambda *given: False)
    np.testing.assert_allclose(by_corner, decided(scores, members, epsilon), rtol=0, atol=1e-6)


def test_rows_that_are_the_same_get_the_same_label(seen):
    scores, members = drawn(5, 150)
    labels = decided(
        *(np.repeat(each, 2, axis=0) for each in (scores, members)), 0.01, merge_rows="never"
    )
    assert seen == [True] and (labels[::2] == labels[1::2]).all()
    np.testing.assert_allclose(labels[::2], decided(scores, members, 0.01), rtol=0, atol=1e-8)


def a_corner(answers, prices, labels=None):
    design = np.eye(2)[np.arange(len(answers)) % 2]
    labels = np.eye(2)[np.arange(len(answers)) % 2] if labels is None else labels
    rows = Rows(
        labels, np.arange(len(answers), dtype=np.uint32), np.ones(len(answers)), len(answers), None
    )
    share = np.full(len(answers), 1 / len(answers))
    parity = Parity(
        (Member("g", slice(0, 2), RangeBound(np.full(2, 0.1))),),
        np.arange(2),
        np.full(2, 0.5),
        share,
        design,
    )
    oracle = DesignOracle(rows, design, parity.share, "numpy", 1)
    few = screened(oracle, parity, prices, 10.0)
    found = Agreement(answers, prices, 0, Status.SOLVED)
    return Corner.of(found, few, np.ones(labels.shape, dtype=bool)), (oracle, parity)


def test_a_programme_that_splits_no_row_is_told_by_its_own_prices():
    prices = np.array([[0.1, -0.1], [-0.1, 0.1]])
    corner, _ = a_corner(np.eye(2), prices)
    assert all((told.prices == prices).all() for told in corner.told()) and list(corner.told())


def test_two_rows_that_lose_as_much_are_no_only_optimum():
    # Rows 0 and 2 of one group are tied between both classes at these prices; row 0 is split, row 2
    # could be as well.
    labels = np.array([[0.6, 0.4], [0.0, 1.0], [0.6, 0.4], [0.0, 1.0]]) + np.array(
        [[0, 0], [0, 0], [0.1, 0.1], [0, 0]]
    )
    prices = np.array([[0.1, -0.1], [-0.1, 0.1]])
    alone, about = a_corner(np.array([[0.3, 0.7], [0, 1.0], [1.0, 0], [0, 1.0]]), prices, labels)
    assert alone.n_tied == 2 and not alone.only(*about)
    both, about = a_corner(np.array([[0.3, 0.7], [0, 1.0], [0.3, 0.7], [0, 1.0]]), prices, labels)
    assert not both.only(*about)  # what one gives the other may take
    labels[2] = [0.9, 0.1]
    single, about = a_corner(np.array([[0.3, 0.7], [0, 1.0], [1.0, 0], [0, 1.0]]), prices, labels)
    assert single.n_tied == 1 and single.only(*about)


def test_prices_split_rows_as_the_programme_says():
    labels = np.array([[0.6, 0.4], [0.0, 1.0], [0.9, 0.1], [0.0, 1.0]])
    answers = np.array([[0.3, 0.7], [0, 1.0], [1.0, 0], [0, 1.0]])
    corner, _ = a_corner(answers, np.array([[0.1, -0.1], [-0.1, 0.1]]), labels)
    tries, few = list(corner.told()), corner.few
    assert [told.lam for told in tries] == [1e-5, 1e-6, 3e-7, 1e-7, 1e-8]
    for told in tries:
        told_labels = respond(
            few.oracle.rows.labels, few.oracle.rows.cells, few.parity.shifts(told.prices), told.lam
        )
        np.testing.assert_allclose(told_labels, answers, atol=1e-7)
