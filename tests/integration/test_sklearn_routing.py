"""Metadata through pipelines, searches and cross-validation; batches."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import r2b
from r2b.errors import ParameterError, UnseenError
from r2b.sklearn import LabelDebiaser, ParityClassifier

# what is trained on, without what is predicted out of fold
GIVEN = {"groups": "given", "decisions": "likeliest"}

RNG = np.random.default_rng(8)
N = 600
GROUPS = RNG.choice(["f", "m"], N)
X = RNG.normal(size=(N, 3)) + np.outer(GROUPS == "m", [0, 0, 4.0])
LABELS = np.where(X[:, 0] + (GROUPS == "m") + RNG.normal(size=N) > 0.5, "yes", "no")
WEIGHTS = RNG.uniform(0.5, 2, N)


def requesting(learner=None, **settings):
    model = ParityClassifier(
        LogisticRegression() if learner is None else learner, **settings, **GIVEN
    )
    return model.set_fit_request(sensitive_features=True, sample_weight=True).set_score_request(
        sample_weight=True
    )


def test_groups_reach_the_classifier_at_the_end_of_a_pipeline(routing):
    pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), requesting())
    pipe.fit(X, LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS)
    scaler = StandardScaler().fit(X, sample_weight=WEIGHTS)
    direct = ParityClassifier(LogisticRegression(), **GIVEN).fit(
        scaler.transform(X), LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS
    )
    np.testing.assert_allclose(
        pipe.predict_proba(X), direct.predict_proba(scaler.transform(X)), atol=1e-12
    )


def test_a_search_goes_over_epsilon_and_the_learner_with_the_groups_of_each_fold(routing):
    search = GridSearchCV(requesting(), {"epsilon": [0.0, 0.5], "estimator__C": [0.1, 1.0]}, cv=3)
    search.fit(X, LABELS, sensitive_features=GROUPS, sample_weight=WEIGHTS)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # The labels that were kept come nearest to the labels scored against.
    assert search.best_params_["epsilon"] == 0.5


def test_cross_validation_trains_each_fold_in_parity(routing):
    found = cross_validate(
        requesting(),
        X,
        LABELS,
        params={"sensitive_features": GROUPS, "sample_weight": WEIGHTS},
        cv=3,
        return_estimator=True,
    )
    assert all(model.certificate_.disparity < 1e-9 for model in found["estimator"])
    assert len({model.prices_.tobytes() for model in found["estimator"]}) == 3


def test_a_pipeline_that_does_not_hand_the_groups_on_is_refused(routing):
    pipe = make_pipeline(
        StandardScaler(),
        ParityClassifier(LogisticRegression(), **GIVEN).set_fit_request(sensitive_features=False),
    )
    with pytest.raises(ParameterError, match="set_fit_request"):
        pipe.fit(X, LABELS)


def test_batches_with_prices_of_all_labels_give_the_model_of_one_fit():
    prices = LabelDebiaser().fit(LABELS, sensitive_features=GROUPS)
    model = ParityClassifier(GaussianNB(var_smoothing=0), **GIVEN)
    for start in range(0, N, 200):
        part = slice(start, start + 200)
        model.partial_fit(
            X[part],
            LABELS[part],
            sensitive_features=GROUPS[part],
            labels=prices if start == 0 else None,
        )
    whole = ParityClassifier(GaussianNB(var_smoothing=0), **GIVEN).fit(
        X, LABELS, sensitive_features=GROUPS
    )
    np.testing.assert_array_equal(model.prices_, whole.prices_)
    np.testing.assert_allclose(model.estimator_.theta_, whole.estimator_.theta_, atol=1e-10)
    np.testing.assert_allclose(
        model.estimator_.class_prior_, whole.estimator_.class_prior_, atol=1e-12
    )
    assert model.n_batches_ == 3


def test_without_labels_the_first_batch_sets_the_prices():
    first = slice(0, 300)
    model = ParityClassifier(SGDClassifier(loss="log_loss", random_state=0), **GIVEN)
    model.partial_fit(
        X[first], LABELS[first], sensitive_features=GROUPS[first], classes=["no", "yes"]
    )
    prices = model.prices_.copy()
    model.partial_fit(X[300:], LABELS[300:], sensitive_features=GROUPS[300:])
    np.testing.assert_array_equal(model.prices_, prices)
    np.testing.assert_array_equal(
        prices, r2b.debias(LABELS[first], sensitive_features=GROUPS[first]).prices
    )


def test_a_batch_after_fit_takes_back_what_was_measured_on_the_model_before():
    model = ParityClassifier(GaussianNB(), **GIVEN).fit(
        X, LABELS, sensitive_features=GROUPS, validation=(X, LABELS, GROUPS)
    )
    assert model.report_.n_rows == N
    model.partial_fit(X[:100], LABELS[:100], sensitive_features=GROUPS[:100])
    assert not hasattr(model, "report_")


def test_classes_and_groups_without_prices_are_refused_in_batches():
    with pytest.raises(UnseenError, match=r"'maybe' has no prices.*labels=LabelDebiaser"):
        ParityClassifier(GaussianNB(), **GIVEN).partial_fit(
            X, LABELS, sensitive_features=GROUPS, classes=["no", "yes", "maybe"]
        )
    model = ParityClassifier(GaussianNB(), **GIVEN).partial_fit(
        X, LABELS, sensitive_features=GROUPS
    )
    with pytest.raises(UnseenError):
        model.partial_fit(X[:2], LABELS[:2], sensitive_features=["x", "m"])
    with pytest.raises(ParameterError, match="later batch"):
        model.partial_fit(
            X,
            LABELS,
            sensitive_features=GROUPS,
            labels=LabelDebiaser().fit(LABELS, sensitive_features=GROUPS),
        )


def test_batches_are_offered_only_where_the_learner_takes_them():
    assert not hasattr(ParityClassifier(KNeighborsClassifier(), **GIVEN), "partial_fit")
    assert hasattr(ParityClassifier(GaussianNB(), **GIVEN), "partial_fit")
