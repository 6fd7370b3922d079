"""Every method on the edges: one group, a class that a group lacks, epsilon in all its forms,
weights, rows in another order, strangers.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from r2b.errors import (
    EmptyError,
    NotSolvedWarning,
    ParameterError,
)
from r2b.methods import HTO, OST, R2B, R2B0, RTO, DPRemover, Exact, Reweighing, Unchanged

METHODS = [Exact, R2B, R2B0, HTO, OST]
LABELS = np.array(list("aabbcabcabccab"))
GROUPS = np.array(list("ffffffmmmmmmmm"))
RNG = np.random.default_rng(2)
MATRIX = RNG.dirichlet(np.ones(3), len(LABELS))
WEIGHTS = RNG.uniform(0.5, 2.0, len(LABELS))


@pytest.mark.parametrize("method", [*METHODS, Unchanged])
def test_one_group_is_fair_as_it_is(method):
    new = method().fit_transform(LABELS, sensitive_features=["f"] * len(LABELS))
    np.testing.assert_allclose(new, np.eye(3)[np.searchsorted(["a", "b", "c"], LABELS)], atol=1e-12)


@pytest.mark.parametrize("method", [*METHODS, Unchanged, Reweighing])
def test_one_class_is_refused(method):
    with pytest.raises(EmptyError, match="one class 'a'"):
        method().fit(["a"] * 4, sensitive_features=["f", "f", "m", "m"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [np.inf, 1.0])
def test_a_bound_that_binds_nothing_leaves_class_labels_alone(method, epsilon):
    new = method(epsilon).fit_transform(LABELS, sensitive_features=GROUPS)
    np.testing.assert_allclose(
        new, Unchanged().fit_transform(LABELS, sensitive_features=GROUPS), atol=1e-12
    )


@pytest.mark.parametrize("method", METHODS)
def test_epsilon_is_one_number_or_one_per_class_in_order_or_by_name(method):
    forms = [[0.0, 0.05, np.inf], {"c": np.inf, "a": 0.0, "b": 0.05}]
    one, two = (
        method(epsilon).fit_transform(LABELS, sensitive_features=GROUPS) for epsilon in forms
    )
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - method(0.0).fit_transform(LABELS, sensitive_features=GROUPS)).max() > 1e-3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "epsilon", [-1.0, np.nan, "small", {"no such class": 0.1}, [0.1, 0.2]], ids=str
)
def test_an_epsilon_that_is_none_is_refused(method, epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        method(epsilon).fit(LABELS, sensitive_features=GROUPS)


def test_a_yardstick_that_is_not_solved_says_so():
    with pytest.warns(NotSolvedWarning, match="out of iterations"):
        short = Exact(max_iter=1).fit(LABELS, sensitive_features=GROUPS)
    assert not short.status_.ok
    assert Exact().fit(LABELS, sensitive_features=GROUPS).status_.ok
    with pytest.raises(ParameterError, match="max_iter"):
        Exact(max_iter=0)


@pytest.mark.parametrize("method", [*METHODS, Unchanged])
def test_a_pickle_answers_new_rows_as_the_original(method):
    fitted = method().fit(MATRIX, sensitive_features=GROUPS, sample_weight=WEIGHTS)
    new = {"y": MATRIX[::-1] * 0.5 + 1 / 6, "sensitive_features": GROUPS}
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).transform(**new), fitted.transform(**new)
    )


@pytest.mark.parametrize("method", [*METHODS, Unchanged])
def test_a_refit_that_fails_leaves_the_fit_before(method):
    fitted = method().fit(LABELS, sensitive_features=GROUPS)
    before = fitted.transform(LABELS, sensitive_features=GROUPS)
    with pytest.raises(EmptyError):
        fitted.fit(["a"] * 4, sensitive_features=["f", "f", "m", "m"])
    np.testing.assert_array_equal(fitted.transform(LABELS, sensitive_features=GROUPS), before)


SCORES = pd.Series(RNG.random(len(LABELS)))
TABLE = pd.DataFrame({"x": SCORES})
GROUP_COLUMN, WEIGHT_COLUMN = pd.Series(GROUPS), pd.Series(WEIGHTS)


@pytest.mark.parametrize("state", ["x", -1, 1.5, True])
@pytest.mark.parametrize("method", [RTO, DPRemover])
def test_a_random_state_that_is_none_is_refused(method, state):
    with pytest.raises(
        ParameterError, match=r"random_state is .*Pass a whole number of zero or more"
    ):
        method(random_state=state).fit(TABLE, sensitive_features=GROUPS)


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        (R2B(), "R2B()"),
        (R2B(0.1, tau=4.0, steps=5), "R2B(epsilon=0.1, tau=4.0, steps=5)"),
        (R2B({"a": 0.1}, target="population"), "R2B(epsilon={'a': 0.1}, target='population')"),
        (R2B0(reading="algorithm"), "R2B0(reading='algorithm')"),
        (HTO(gamma=0.1), "HTO(gamma=0.1)"),
        (OST(), "OST()"),
        (RTO(gamma=0.5, tol=1e-6), "RTO(gamma=0.5, tol=1e-06)"),
        (Exact(lam=0.5), "Exact(lam=0.5)"),
        (Unchanged(), "Unchanged()"),
        (Reweighing(), "Reweighing()"),
    ],
)
def test_a_method_shows_what_differs_from_the_defaults(method, shown):
    assert repr(method) == shown
