"""The step of imbalanced-learn's pipeline takes what ``debias`` takes: every option as a parameter, every column of rows as metadata."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("imblearn")
from imblearn.pipeline import make_pipeline
from sklearn import config_context
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import r2b
from r2b.metrics import demographic_parity_difference
from r2b.models.imblearn import FairRelabeler

RNG = np.random.default_rng(4)
N_ROWS = 3000
SEX, AGE = RNG.choice(["f", "m"], N_ROWS), RNG.choice(["old", "young"], N_ROWS, p=[0.3, 0.7])
CHANCE = np.where(SEX == "m", 0.6, 0.3) + 0.2 * (AGE == "old")
LABELS = np.where(RNG.random(N_ROWS) < CHANCE, "a", RNG.choice(["b", "c"], N_ROWS))
X = RNG.normal(size=(N_ROWS, 2))


def gap(labels, groups, rows=slice(None)):
    return demographic_parity_difference(labels[rows], sensitive_features=groups[rows])


def test_parameters_reach_the_core():
    options = {
        "epsilon": 0.02,
        "bound": "to_overall",
        "families": "marginal",
        "objective": "agreement",
    }
    both = {"sex": SEX, "age": AGE}
    step = clone(FairRelabeler(groups="given", **options, random_state=2))
    _, labels = step.fit_resample(X, LABELS, sensitive_features=both)
    np.testing.assert_array_equal(
        labels, r2b.debias(LABELS, sensitive_features=both, **options).round(random_state=2)
    )
    assert gap(labels, SEX) < 0.05 < gap(LABELS, SEX)
    assert gap(labels, AGE) < 0.05 < gap(LABELS, AGE)


def test_control_features_are_handed_on_by_a_pipeline_and_parity_holds_within_each_of_them():
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FairRelabeler(groups="given"), DecisionTreeClassifier(max_depth=2))
        pipeline.fit(X, LABELS, sensitive_features=SEX, control_features=AGE)
    _, labels = FairRelabeler(groups="given").fit_resample(
        X, LABELS, sensitive_features=SEX, control_features=AGE
    )
    np.testing.assert_array_equal(
        pipeline[-1].predict(X), DecisionTreeClassifier(max_depth=2).fit(X, labels).predict(X)
    )
    for age in ("old", "young"):
        smallest = min(((age == AGE) & (sex == SEX)).sum() for sex in ("f", "m"))
        assert gap(labels, SEX, age == AGE) <= 2 / smallest
        assert gap(LABELS, SEX, age == AGE) > 0.2
    # Older people still are in class a more often: parity was asked for within each age and not
    # between them.
    assert gap(labels, AGE) > 0.1


def test_rows_without_a_group_may_stay_as_they_are():
    groups = np.where(np.arange(N_ROWS) % 10 == 0, None, SEX)
    _, labels = FairRelabeler(groups="given", missing="exclude").fit_resample(
        X, LABELS, sensitive_features=groups
    )
    without = groups == np.array(None)
    assert (labels[without] == LABELS[without]).all()
    assert gap(labels, SEX, ~without) < 0.01 < gap(LABELS, SEX, ~without)


def test_a_random_state_of_scikit_learn_is_taken():
    one, two = (
        FairRelabeler(random_state=np.random.RandomState(3)).fit_resample(
            X, LABELS, sensitive_features=SEX
        )[1]
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)
