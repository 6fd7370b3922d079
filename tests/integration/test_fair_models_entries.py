"""Entries to fair models: boosters, networks and samplers by visible groups, parameters of fit,
pipelines, routing and scorers.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from test_fair_models import people

from r2b.errors import ParameterError, UnseenError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import (
    ParityClassifier,
    ParityPostprocessor,
    accuracy_under,
    fair_labels,
    parity_scorer,
    visible_groups,
)

# of 1,200 rows no fit is sure of its parity
pytestmark = pytest.mark.filterwarnings("ignore::r2b.errors.NotFairWarning")
FAST = {"frontier": 0, "cv": 2}
X, Y, SEX = people(1200)
NEW, Y_NEW, SEX_NEW = people(1200, seed=5)
PLAIN = LogisticRegression().fit(X, Y)
VISIBLE = visible_groups(LogisticRegression(), X, sensitive_features=SEX, random_state=0)
PARAMS = {
    "lightgbm": {
        "num_threads": 1,
        "verbosity": -1,
        "num_leaves": 4,
        "learning_rate": 0.3,
        "deterministic": True,
        "force_row_wise": True,
    },
    "xgboost": {"nthread": 1, "max_depth": 2, "eta": 0.3},
}


@pytest.fixture(params=["lightgbm", "xgboost"])
def library(request):
    pytest.importorskip(request.param)
    return request.param


def booster(library, rounds=15, **settings):
    from r2b.models.boosting import SoftBooster

    return SoftBooster(library, params=PARAMS[library], num_boost_round=rounds, **settings)


def parity(rows, groups=SEX_NEW):
    return demographic_parity_difference(rows, sensitive_features=groups)


# --- labels by visible groups, for those who train by other means


def test_boosters_make_labels_fair_by_what_they_see(library):
    from r2b.models import boosting

    train = getattr(boosting, f"train_{library}")
    plain = parity(train(Y, X, PARAMS[library], 15).predict_proba(NEW))
    by_membership = train(Y, X, PARAMS[library], 15, sensitive_features=VISIBLE)
    itself = train(Y, X, PARAMS[library], 15, sensitive_features=SEX, cv=2)
    named = train(
        Y,
        X,
        PARAMS[library],
        15,
        sensitive_features=SEX,
        group_estimator=LogisticRegression(),
        epsilon=0.02,
    )
    assert plain > 0.1
    assert (
        max(parity(model.predict_proba(NEW)) for model in (by_membership, itself, named))
        < 0.6 * plain
    )
    fair = fair_labels(X, Y, sensitive_features=SEX, group_estimator=booster(library), cv=2)
    np.testing.assert_array_equal(
        train(fair, X, PARAMS[library], 15).predict_proba(NEW), itself.predict_proba(NEW)
    )


def test_options_without_groups_and_groups_beside_fair_labels_are_refused():
    pytest.importorskip("lightgbm")
    from r2b.models.boosting import train_lightgbm

    with pytest.raises(
        ParameterError, match="option 'epsilon' was given without sensitive_features"
    ):
        train_lightgbm(Y, X, epsilon=0.1)
    with pytest.raises(ParameterError, match="beside labels that debias has made fair"):
        train_lightgbm(fair_labels(X, Y, sensitive_features=VISIBLE), X, sensitive_features=SEX)
    with pytest.raises(ParameterError, match="groups is 'seen'"):
        train_lightgbm(Y, X, sensitive_features=SEX, groups="seen")


def test_a_sampler_relabels_by_visible_groups():
    pytest.importorskip("imblearn")
    from imblearn.pipeline import make_pipeline as make_imblearn

    from r2b.models.imblearn import FairRelabeler

    with config_context(enable_metadata_routing=True):
        found = {
            groups: make_imblearn(FairRelabeler(groups=groups, cv=2), LogisticRegression()).fit(
                X, Y, sensitive_features=SEX
            )
            for groups in ("visible", "given")
        }
    before, given, after = (
        parity(model.predict_proba(NEW)) for model in (PLAIN, found["given"], found["visible"])
    )
    assert after < 0.6 * given < given < before
    relabelled = FairRelabeler().fit_resample(X, Y, sensitive_features=VISIBLE)[1]
    assert parity(LogisticRegression().fit(X, relabelled).predict_proba(NEW)) < before / 2
    with pytest.raises(ParameterError, match=r"group_estimator=.*groups='given'"):
        FairRelabeler().fit_resample(np.array([["a"], ["b"]] * 600), Y, sensitive_features=SEX)


def test_a_dataset_for_networks_makes_labels_fair():
    torch = pytest.importorskip("torch")
    from r2b.models.torch import SoftLabelDataset

    fair = fair_labels(X, Y, sensitive_features=SEX, cv=2)
    for features in (X, torch.from_numpy(X)):
        soft = SoftLabelDataset(features, Y, sensitive_features=SEX, cv=2)[:][1].numpy()
        np.testing.assert_allclose(soft, fair.soft_labels, atol=1e-6)
    by_membership = SoftLabelDataset(X, Y, sensitive_features=VISIBLE)[:][1].numpy()
    np.testing.assert_allclose(
        by_membership, fair_labels(X, Y, sensitive_features=VISIBLE).soft_labels, atol=1e-6
    )


# --- finished models


class Thin:
    """As little as a wrapper of a network may be."""

    def __init__(self, model):
        self.classes_, self.predict_proba = (
            model.classes_[::-1],
            lambda X: model.predict_proba(X)[:, ::-1],
        )


@pytest.mark.parametrize("kind", [ParityClassifier, ParityPostprocessor])
def test_predictions_come_from_the_models_that_the_prices_were_found_for(kind):
    model = kind(LogisticRegression(), ensemble=True, **FAST).fit(X, Y, sensitive_features=SEX)
    folds, groups = model.score_estimators_, model.group_estimator_
    assert len(folds) == len(groups.estimators) == 2
    assert not np.allclose(folds[0].coef_, folds[1].coef_)
    scores = np.mean([each.predict_proba(NEW) for each in folds], axis=0)
    parts = np.mean([each.predict_proba(NEW) for each in groups.estimators], axis=0)
    (prices,) = model.probability_rule_.prices
    odds = scores * np.exp(-parts @ prices)
    expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=1e-9)
    one = kind(LogisticRegression(), **FAST).fit(X, Y, sensitive_features=SEX)
    (only,) = one.score_estimators_
    assert (only is one.estimator_) == (kind is ParityPostprocessor)
    assert 0 < np.abs(one.predict_proba(NEW) - model.predict_proba(NEW)).max() < 0.1
    with pytest.raises(ParameterError, match="FoldEnsemble has no fit"):
        kind(LogisticRegression(), group_estimator=groups, **FAST).fit(X, Y, sensitive_features=SEX)


def test_a_finished_model_needs_no_more_than_probabilities_and_classes():
    thin = ParityPostprocessor(Thin(PLAIN), prefit=True, **FAST).fit(
        NEW, Y_NEW, sensitive_features=SEX_NEW
    )
    logistic = thin.group_estimator_
    own = ParityPostprocessor(PLAIN, prefit=True, group_estimator=logistic, **FAST).fit(
        NEW, Y_NEW, sensitive_features=SEX_NEW
    )
    assert thin.group_reason_.startswith("logistic regression, because Thin")
    np.testing.assert_array_equal(thin.predict(X), own.predict(X))
    np.testing.assert_allclose(thin.predict_proba(X), own.predict_proba(X), atol=1e-12)
    assert parity(thin.predict(X), SEX) < 0.4 * parity(PLAIN.predict(X), SEX)
    thin.__sklearn_tags__()
    with pytest.raises(ParameterError, match="has no predict_proba and no classes_"):
        ParityPostprocessor(object(), prefit=True, **FAST).fit(
            NEW, Y_NEW, sensitive_features=SEX_NEW
        )
    with pytest.raises(ParameterError, match="learns nothing from labels"):
        ParityPostprocessor(Thin(PLAIN), **FAST).fit(NEW, Y_NEW, sensitive_features=SEX_NEW)


def test_a_frozen_model_survives_clones_and_does_not_predict_the_groups():
    frozen = ParityPostprocessor(FrozenEstimator(PLAIN), prefit=True, **FAST)
    model = clone(frozen).fit(NEW, Y_NEW, sensitive_features=SEX_NEW)
    plain = ParityPostprocessor(PLAIN, prefit=True, **FAST).fit(
        NEW, Y_NEW, sensitive_features=SEX_NEW
    )
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    # frozen on numbers, it would pass for a model of groups
    codes = np.unique(Y_NEW, return_inverse=True)[1]
    stuck = FrozenEstimator(LogisticRegression().fit(NEW, codes))
    with pytest.raises(ParameterError, match="still predicts other classes"):
        ParityPostprocessor(PLAIN, prefit=True, group_estimator=stuck, **FAST).fit(
            NEW, Y_NEW, sensitive_features=SEX_NEW
        )


# --- SoftBooster


def test_a_soft_booster_is_a_learner_of_fair_models(library):
    watched = {"eval_set": [(NEW, Y_NEW)]}
    learner = booster(library, 60, early_stopping_rounds=2)
    model = ParityClassifier(learner, **FAST).fit(X, Y, sensitive_features=SEX, **watched)
    assert model.form_ == "soft"
    assert "probabilities" in model.form_reason_
    assert "without settings that speak of its classes" in model.group_reason_
    assert model.estimator_.booster_.best_iteration < 50
    plain = learner.fit(X, Y, **watched)
    after = ParityPostprocessor(learner, **FAST).fit(X, Y, sensitive_features=SEX, **watched)
    for fair in (model, after):
        assert parity(fair.predict(NEW)) < 0.5 * parity(plain.predict(NEW))
        assert parity(fair.predict_proba(NEW)) < 0.4 * parity(plain.predict_proba(NEW))
    stored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(stored.predict(NEW), model.predict(NEW))
    with pytest.raises(UnseenError, match="class 'z'"):
        clone(model).fit(X, Y, sensitive_features=SEX, eval_set=[(NEW[:2], ["u", "z"])])


# --- parameters of fit


class Noted(LogisticRegression):
    """Keeps what its ``fit`` was shown."""

    def fit(self, X, y, sample_weight=None, *, numbers=None, callbacks=None):
        self.pairs_ = (X[:, 0], numbers)
        if callbacks is not None:
            callbacks[0].append(len(y))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    "settings", [{}, {"confidence": 0.9, "epsilon": 0.3}], ids=["all rows", "rows held back"]
)
def test_parameters_of_rows_go_with_their_rows_and_callbacks_are_not_shared(settings):
    seen = []
    given = {"sensitive_features": SEX, "numbers": X[:, 0].copy(), "callbacks": [seen]}
    for learner, prefix in (
        (Noted(max_iter=200), ""),
        (make_pipeline(FunctionTransformer(), Noted(max_iter=200)), "noted__"),
    ):
        params = {
            name if name == "sensitive_features" else prefix + name: value
            for name, value in given.items()
        }
        model = ParityClassifier(
            learner, group_estimator=LogisticRegression(), **FAST, **settings
        ).fit(X, Y, **params)
        last = model.estimator_[-1] if prefix else model.estimator_
        assert model.form_ == "expand" and len(last.pairs_[0]) >= len(X) * 0.75
        np.testing.assert_array_equal(*last.pairs_)
    assert len(seen) == 2
    with pytest.raises(ParameterError, match="cannot be copied"):
        ParityClassifier(Noted(), **FAST).fit(
            X, Y, sensitive_features=SEX, callbacks=[(each for each in ())]
        )


# --- pipelines


@pytest.mark.parametrize(
    "learner",
    [
        LogisticRegression(),
        Ridge(),
        HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0),
        DecisionTreeClassifier(max_depth=3, class_weight="balanced", random_state=0),
    ],
    ids=["weights", "soft", "early stopping", "balanced"],
)
def test_pipelines_inside_and_outside_choose_the_same_form_and_model(learner):
    lean = {"groups": "given", "decisions": "likeliest"}
    inside = ParityClassifier(make_pipeline(StandardScaler(), learner), **lean).fit(
        X, Y, sensitive_features=SEX
    )
    outside = make_pipeline(StandardScaler(), ParityClassifier(learner, **lean)).fit(
        X, Y, parityclassifier__sensitive_features=SEX
    )
    assert (inside.form_, inside.form_reason_) == (outside[-1].form_, outside[-1].form_reason_)
    np.testing.assert_allclose(inside.predict_proba(NEW), outside.predict_proba(NEW), atol=1e-12)


# --- routing and scorers


def test_the_attribute_is_routed_to_fit_and_predict_and_scored(routing):
    model = ParityPostprocessor(LogisticRegression(), attribute="given", **FAST).set_fit_request(
        sensitive_features=True
    )
    pipe = make_pipeline(StandardScaler(), model).fit(X, Y, sensitive_features=SEX)
    decided = pipe.predict(NEW, sensitive_features=SEX_NEW)
    assert parity(decided) < 0.4 * parity(PLAIN.predict(NEW))
    scored = parity_scorer()(pipe, NEW, Y_NEW, sensitive_features=SEX_NEW)
    assert scored == pytest.approx(-parity(decided))
    assert parity_scorer("probabilities")(
        pipe, NEW, Y_NEW, sensitive_features=SEX_NEW
    ) == pytest.approx(-parity(pipe.predict_proba(NEW, sensitive_features=SEX_NEW)))
    assert pipe.score(NEW, Y_NEW, sensitive_features=SEX_NEW) == np.mean(decided == Y_NEW)
    under = accuracy_under(0.2, kind="probabilities")(pipe, NEW, Y_NEW, sensitive_features=SEX_NEW)
    assert under == np.mean(decided == Y_NEW)
    explicit = clone(model).set_predict_request(
        sensitive_features=True, control_features=False, key=True
    )
    assert explicit.get_metadata_routing().predict.requests == {
        "sensitive_features": True,
        "control_features": False,
        "key": True,
    }
