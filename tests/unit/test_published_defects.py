"""Defects of the published implementations, none of which `debias` has."""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b.metrics import demographic_parity_difference


def biased(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Class labels whose shares differ by group."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, n)
    reached = np.cumsum(rng.dirichlet(np.full(4, 2.0), 3), axis=1)[:, :-1]
    return (rng.random(n)[:, None] > reached[groups]).sum(axis=1), groups


@pytest.mark.parametrize("epsilon", [0.0, 0.002, 0.1])
def test_the_common_mean_is_free(epsilon):
    """Defect: the means are pinned to those of the first round, which costs 1 to 3 % more distance
    than the optimum.
    """
    cvxpy = pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    y, groups = biased(200)
    one_hot = np.eye(4)[y]
    x = cvxpy.Variable(one_hot.shape, nonneg=True)
    average = np.stack([(groups == s) / (groups == s).sum() for s in np.unique(groups)])
    off = average @ x - np.tile(one_hot.mean(axis=0), (len(average), 1))
    conditions = [cvxpy.sum(x, axis=1) == 1, off <= epsilon / 2, off >= -epsilon / 2]
    pinned = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - one_hot)), conditions)
    fair = r2b.debias(y, sensitive_features=groups, epsilon=epsilon)
    ours = float(((fair.soft_labels - one_hot) ** 2).sum())
    assert ours < pinned.solve(solver="CLARABEL") * 0.999
    # and the mean did move
    assert np.abs(fair.certificate.means.mean(axis=0) - one_hot.mean(axis=0)).max() > 1e-3


def test_no_random_numbers_without_a_seed():
    """Defect: two runs differed by .026, through the global generator."""
    y, groups = biased(600)
    found = []
    for seed in (1, 2):
        np.random.seed(seed)
        state = np.random.get_state()[1].copy()
        fair = r2b.debias(y, sensitive_features=groups)
        found.append((fair.soft_labels, fair.sample(), fair.round()))
        assert np.array_equal(np.random.get_state()[1], state)
    assert all(map(np.array_equal, *found))


def test_a_class_without_mass_is_no_error():
    """Defect: it raised "rho must be ..."."""
    rng = np.random.default_rng(6)
    y, groups = np.insert(rng.dirichlet(np.ones(3), 30), 2, 0.0, axis=1), np.arange(30) % 2
    fair = r2b.debias(y, sensitive_features=groups)
    assert fair.status.ok and fair.soft_labels[:, 2].max() < 1e-9
    without = r2b.debias(np.delete(y, 2, axis=1), sensitive_features=groups)
    assert np.abs(np.delete(fair.soft_labels, 2, axis=1) - without.soft_labels).max() < 1e-9


def test_the_argmax_trap():
    """np.argmax of fair labels undoes the work; round keeps it, and nothing in the object offers an
    argmax.
    """
    rng = np.random.default_rng(7)
    groups = np.repeat([0, 1], 500)
    stays = rng.random(1000) < np.where(groups == 0, 0.85, 0.15)
    y = np.where(stays, 0, 1 + (rng.random(1000) < 0.3))
    fair = r2b.debias(y, sensitive_features=groups, epsilon=0)
    likeliest = np.argmax(fair.soft_labels, axis=1)
    before, trapped, kept = (
        demographic_parity_difference(each, sensitive_features=groups)
        for each in (y, likeliest, fair.round())
    )
    assert trapped > 0.5 * before > 0.3 and kept <= 2 / 500
    assert not [name for name in dir(fair) if "argmax" in name or name == "predict"]
