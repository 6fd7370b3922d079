"""The label transformer: every option of the core, fitted attributes, outputs that keep parity,
scores of a finished model.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import r2b
from r2b.errors import ParameterError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import LabelDebiaser

RNG = np.random.default_rng(5)
GROUPS = RNG.choice(["f", "m"], 600, p=[0.4, 0.6])
LABELS = np.where(
    GROUPS == "m",
    RNG.choice(["a", "b", "c"], 600, p=[0.6, 0.3, 0.1]),
    RNG.choice(["a", "b", "c"], 600, p=[0.2, 0.4, 0.4]),
)
WEIGHTS = RNG.uniform(0.5, 2, 600)


def test_parameters_reach_the_core():
    fitted = LabelDebiaser(epsilon={"a": 0.1, "b": 0.2, "c": 0.3}, lam=0.5, tol=1e-8).fit(
        LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS
    )
    direct = r2b.debias(
        LABELS,
        sensitive_features=GROUPS,
        sample_weight=WEIGHTS,
        epsilon={"a": 0.1, "b": 0.2, "c": 0.3},
        lam=0.5,
        tol=1e-8,
    )
    np.testing.assert_array_equal(fitted.prices_, direct.prices)
    assert fitted.labels_.lam == 0.5


def test_fitted_attributes_are_those_of_the_labels():
    fitted = LabelDebiaser(0.01).fit(LABELS, sensitive_features=GROUPS)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.groups_.tolist() == ["f", "m"]
    assert fitted.prices_.shape == (2, 3)
    assert fitted.status_ is r2b.Status.SOLVED
    assert fitted.certificate_.disparity == pytest.approx(0.01, abs=1e-9)
    assert fitted.n_iter_ >= 1


@pytest.mark.parametrize("form", ["soft", "round", "sample"])
def test_fit_transform_is_fit_then_transform(form):
    one = LabelDebiaser(form=form, random_state=3).fit_transform(
        LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS
    )
    two = LabelDebiaser(form=form, random_state=3).fit(
        LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS
    )
    np.testing.assert_array_equal(
        one, two.transform(LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS)
    )


@pytest.mark.parametrize(
    ("form", "allowed"), [("soft", 1e-9), ("round", 1 / 200 + 1 / 300), ("sample", 0.15)]
)
def test_labels_leave_in_parity_in_every_form(form, allowed):
    fair = LabelDebiaser(form=form).fit_transform(LABELS, sensitive_features=GROUPS)
    assert demographic_parity_difference(fair, sensitive_features=GROUPS) <= allowed
    assert demographic_parity_difference(LABELS, sensitive_features=GROUPS) > 0.2


def test_a_clone_has_the_parameters_and_no_fit():
    fitted = LabelDebiaser(0.05, lam=0.7, form="round").fit(LABELS, sensitive_features=GROUPS)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(LABELS, sensitive_features=GROUPS)
    assert copy.set_params(epsilon=0.2).epsilon == 0.2


def test_forgotten_groups_are_refused_with_the_remedy():
    with pytest.raises(ParameterError, match=r"without sensitive_features.*set_fit_request"):
        LabelDebiaser().fit(LABELS)
    with pytest.raises(ParameterError, match="without sensitive_features"):
        LabelDebiaser().fit(LABELS, sensitive_features=GROUPS).transform(LABELS)


def test_an_unknown_form_is_refused_and_argmax_is_one():
    with pytest.raises(ParameterError, match="form is 'argmax'"):
        LabelDebiaser(form="argmax").fit(LABELS, sensitive_features=GROUPS)
