"""The classifier among those of scikit-learn: searches in parallel, calibration, votes, thresholds,
prepared columns, samplers.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from r2b.errors import InputError, ParameterError
from r2b.sklearn import LabelDebiaser, ParityClassifier

# what is trained on, without what is predicted out of fold
GIVEN = {"groups": "given", "decisions": "likeliest"}

RNG = np.random.default_rng(21)
N = 360
GROUPS = RNG.choice(["f", "m"], N)
X = RNG.normal(size=(N, 3)) + np.outer(GROUPS == "m", [0, 0, 3.0])
RANKS = ["low", "mid", "high"]  # in their own order, which is not that of the alphabet
LABELS = np.array(RANKS)[np.argmax(2 * X * [1, 1, 0.2] + RNG.gumbel(size=(N, 3)), axis=1)]
MATRIX = np.eye(3)[pd.Categorical(LABELS, RANKS).codes] * 0.7 + 0.1

IN_THEIR_OWN_ORDER = {
    "categories": lambda: pd.Series(pd.Categorical(LABELS, RANKS, ordered=True)),
    "enum": lambda: pl.Series(LABELS, dtype=pl.Enum(RANKS)),
    "columns": lambda: pd.DataFrame(MATRIX, columns=RANKS),
    "dictionary": lambda: dict(zip(RANKS, MATRIX.T, strict=True)),
}


def requesting(learner, **settings):
    return ParityClassifier(learner, **settings, **GIVEN).set_fit_request(sensitive_features=True)


def fitted(learner, features=X, y=LABELS, **settings):
    return ParityClassifier(learner, **settings, **GIVEN).fit(
        features, y, sensitive_features=GROUPS
    )


@pytest.mark.parametrize(
    "learner",
    [LogisticRegression(), Ridge(), KNeighborsClassifier()],
    ids=["expand", "soft", "sample"],
)
@pytest.mark.parametrize("kind", IN_THEIR_OWN_ORDER)
def test_columns_of_probabilities_are_those_of_the_sorted_classes_whatever_order_the_labels_have(
    kind, learner
):
    model = fitted(learner, y=IN_THEIR_OWN_ORDER[kind]())
    assert model.classes_.tolist() == sorted(RANKS)
    assert model.labels_.classes.tolist() == RANKS
    chances = model.predict_proba(X)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(X)).mean() > 0.98
    drawn = model.predict_sampled(np.repeat(X[:1], 4000, axis=0))
    np.testing.assert_allclose(
        [(drawn == name).mean() for name in model.classes_], chances[0], atol=0.05
    )
    # Scorers read columns as the sorted classes.
    assert roc_auc_score(LABELS, chances, multi_class="ovr") > 0.6


def test_calibration_and_rankings_take_the_scores_of_a_learner_without_probabilities(routing):
    calibrated = CalibratedClassifierCV(requesting(LinearSVC()), cv=3).fit(
        X, LABELS, sensitive_features=GROUPS
    )
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    frozen = CalibratedClassifierCV(FrozenEstimator(fitted(LinearSVC()))).fit(X, LABELS)
    assert frozen.predict_proba(X).shape == (N, 3)
    found = cross_validate(
        requesting(LinearSVC()),
        X,
        LABELS == "high",
        params={"sensitive_features": GROUPS},
        scoring="roc_auc",
        cv=3,
        error_score="raise",
    )
    assert found["test_score"].mean() > 0.55


def test_scores_are_the_learners_own_and_absent_where_it_has_none():
    model = fitted(LinearSVC())
    np.testing.assert_array_equal(model.decision_function(X), model.estimator_.decision_function(X))
    assert not hasattr(ParityClassifier(Ridge(), form="soft", **GIVEN), "decision_function")
    assert not hasattr(ParityClassifier(GaussianNB(), **GIVEN), "decision_function")


def test_scores_for_a_class_without_rows_are_refused_with_a_remedy_that_works():
    soft = np.column_stack([np.eye(3)[pd.Categorical(LABELS).codes], np.zeros(N)])
    model = fitted(LogisticRegression(), y=soft, epsilon=1.0)
    with pytest.raises(InputError, match=r"no score for the class 3.*predict_proba"):
        model.decision_function(X)
    assert (model.predict_proba(X)[:, 3] == 0).all()
    assert np.isneginf(model.predict_log_proba(X)[:, 3]).all()


def test_a_sampler_inside_gets_one_class_per_row_since_weights_do_not_follow_its_rows():
    imblearn = pytest.importorskip("imblearn")
    under = imblearn.under_sampling.RandomUnderSampler(random_state=0)
    inside = imblearn.pipeline.make_pipeline(StandardScaler(), under, LogisticRegression())
    model = fitted(inside)
    assert model.form_ == "sample"
    assert "resamples rows" in model.form_reason_
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    with pytest.raises(ParameterError, match="form='sample'` or `form='round'`"):
        fitted(inside, form="expand")
    assert fitted(inside, form="round").form_ == "round"
    with pytest.raises(ParameterError, match="takes no sample_weight"):
        ParityClassifier(inside, **GIVEN).fit(
            X, LABELS, sensitive_features=GROUPS, sample_weight=np.ones(N)
        )


@pytest.mark.parametrize(
    "learner",
    [None, "lr", LogisticRegression, StandardScaler()],
    ids=["none", "name", "class", "transformer"],
)
def test_what_is_no_learner_is_refused_by_fit(learner):
    with pytest.raises(ParameterError, match="Pass a classifier or a regressor"):
        fitted(learner)


@pytest.mark.parametrize("state", ["abc", -1, 1.5, np.random])
def test_a_random_state_that_is_none_is_refused(state):
    with pytest.raises(ParameterError, match=r"random_state is .*, or None"):
        LabelDebiaser(form="sample", random_state=state).fit_transform(
            LABELS, sensitive_features=GROUPS
        )
    with pytest.raises(ParameterError, match="random_state"):
        fitted(KNeighborsClassifier(), random_state=state)
    with pytest.raises(ParameterError, match="random_state"):
        fitted(LogisticRegression()).predict_sampled(X, random_state=state)


def test_a_call_without_groups_names_the_request_of_its_own_method():
    for call, request in (
        (
            lambda: ParityClassifier(GaussianNB(), **GIVEN).partial_fit(X, LABELS),
            "set_partial_fit_request",
        ),
        (
            lambda: LabelDebiaser().fit(LABELS, sensitive_features=GROUPS).transform(LABELS),
            "set_transform_request",
        ),
    ):
        with pytest.raises(ParameterError, match=request):
            call()
