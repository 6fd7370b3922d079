"""The classifier among those of scikit-learn: searches in parallel, calibration, votes, thresholds, prepared columns, samplers."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, TheilSenRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import r2b
from r2b.errors import InputError, LengthError, ParameterError, ShapeError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import LabelDebiaser, ParityClassifier
from r2b.sklearn.learners import choose_form

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


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


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


def test_the_model_and_its_prices_do_not_depend_on_the_order_of_categories():
    plain, ranked = (
        fitted(LogisticRegression()),
        fitted(LogisticRegression(), y=IN_THEIR_OWN_ORDER["categories"]()),
    )
    np.testing.assert_allclose(ranked.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(ranked.prices_, plain.prices_, atol=1e-9)


def test_batches_of_categories_keep_the_order_too():
    y = pd.Series(pd.Categorical(LABELS, RANKS))
    model = ParityClassifier(GaussianNB(), **GIVEN)
    for part in (slice(0, 180), slice(180, N)):
        model.partial_fit(X[part], y.iloc[part], sensitive_features=GROUPS[part])
    assert (model.classes_[model.predict_proba(X).argmax(axis=1)] == model.predict(X)).all()


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


def test_votes_and_thresholds_are_taken_over_several_fair_models(routing):
    voters = [
        ("a", requesting(LogisticRegression())),
        ("b", requesting(Ridge())),
        ("c", GaussianNB()),
    ]
    vote = VotingClassifier(voters, voting="soft").fit(X, LABELS, sensitive_features=GROUPS)
    assert set(vote.predict(X)) <= set(RANKS)
    tuned = TunedThresholdClassifierCV(requesting(LogisticRegression()), cv=3)
    assert tuned.fit(X, LABELS == "high", sensitive_features=GROUPS).predict(X).dtype == bool


def test_a_search_runs_in_parallel_and_answers_as_in_one_process(routing):
    grid = {"form": ["expand", "round", "sample"], "estimator__C": [0.1, 1.0]}
    found = [
        GridSearchCV(
            requesting(LogisticRegression()), grid, cv=3, n_jobs=jobs, error_score="raise"
        ).fit(X, LABELS, sensitive_features=GROUPS)
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(*(search.cv_results_["mean_test_score"] for search in found))


def test_a_search_may_go_over_learners(routing):
    learners = [LogisticRegression(), KNeighborsClassifier(), Ridge()]
    search = GridSearchCV(requesting(None), {"estimator": learners}, cv=2, error_score="raise")
    search.fit(X, LABELS, sensitive_features=GROUPS)
    assert len(set(search.cv_results_["mean_test_score"])) == 3
    assert search.predict_proba(X).shape == (N, 3)


def test_a_group_that_a_fold_lacks_is_no_obstacle_and_prediction_asks_for_none(routing):
    rare = np.where(np.arange(N) < 3, "rare", GROUPS)  # in the first fold alone
    params = {"sensitive_features": rare}
    chances = cross_val_predict(
        requesting(LogisticRegression()),
        X,
        LABELS,
        params=params,
        cv=KFold(3),
        method="predict_proba",
    )
    np.testing.assert_allclose(chances.sum(axis=1), 1)


@pytest.mark.parametrize("library", ["default", "pandas", "polars"])
def test_columns_of_a_frame_are_prepared_before_it_and_inside_it(routing, library):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=RNG.choice(["u", "v"], N))
    columns = [
        ("numbers", StandardScaler(), ["a", "b", "c"]),
        ("kinds", OneHotEncoder(sparse_output=False), ["kind"]),
    ]
    prepare = ColumnTransformer(columns).set_output(transform=library)
    table = pl.from_pandas(frame) if library == "polars" else frame
    outside = make_pipeline(clone(prepare), requesting(LogisticRegression())).fit(
        table, LABELS, sensitive_features=GROUPS
    )
    inside = ParityClassifier(
        make_pipeline(clone(prepare), LogisticRegression()), form="round", **GIVEN
    )
    inside.fit(table, LABELS, sensitive_features=GROUPS)
    for model in (outside, inside):
        assert (
            demographic_parity_difference(model.predict_proba(table), sensitive_features=GROUPS)
            < 0.1
        )
    if library != "default":
        assert outside[-1].feature_names_in_.tolist()[-2:] == ["kinds__kind_u", "kinds__kind_v"]


def test_a_model_from_disk_answers_as_before(tmp_path):
    model = fitted(LogisticRegression(), y=IN_THEIR_OWN_ORDER["categories"]())
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_copies_are_not_made_for_a_learner_that_counts_the_rows_of_a_leaf():
    rng = np.random.default_rng(0)
    n = 6000
    groups, features = rng.choice(["f", "m"], n), rng.normal(size=(n, 2))
    y = np.where(
        features[:, 0] + (groups == "m") + rng.normal(size=n) > 0,
        rng.choice(["a", "b", "c"], n),
        "d",
    )
    booster = HistGradientBoostingClassifier(max_iter=2, random_state=0)
    inside = make_pipeline(
        StandardScaler(), BaggingClassifier(booster, n_estimators=1, random_state=0)
    )
    model = ParityClassifier(inside, **GIVEN).fit(features, y, sensitive_features=groups)
    assert model.form_ == "round"
    assert "counting rows" in model.form_reason_
    assert not model.estimator_[-1].estimators_[0].do_early_stopping_


@pytest.mark.parametrize(
    "learner",
    [
        BaggingClassifier(
            SGDClassifier(early_stopping=True, loss="log_loss", random_state=0),
            n_estimators=2,
            random_state=0,
        ),
        make_pipeline(
            StandardScaler(),
            BaggingClassifier(
                CalibratedClassifierCV(LinearSVC(), cv=3), n_estimators=2, random_state=0
            ),
        ),
    ],
    ids=["early stopping", "folds"],
)
def test_a_learner_that_splits_deep_inside_another_is_seen(learner):
    assert fitted(learner).form_ == "sample"


def test_folds_behind_the_probabilities_of_a_support_vector_machine_are_seen():
    assert choose_form("auto", SVC(probability=True)).form == "sample"
    assert choose_form("auto", SVC()).form == "expand"


def test_a_sampler_inside_gets_one_class_per_row_since_weights_do_not_follow_its_rows():
    imblearn = pytest.importorskip("imblearn")
    under = imblearn.under_sampling.RandomUnderSampler(random_state=0)
    inside = imblearn.pipeline.make_pipeline(StandardScaler(), under, LogisticRegression())
    model = fitted(inside)
    assert model.form_ == "sample"
    assert "resamples rows" in model.form_reason_
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    with pytest.raises(ParameterError, match="form='sample' or 'round'"):
        fitted(inside, form="expand")
    assert fitted(inside, form="round").form_ == "round"
    with pytest.raises(ParameterError, match="takes no sample_weight"):
        ParityClassifier(inside, **GIVEN).fit(
            X, LABELS, sensitive_features=GROUPS, sample_weight=np.ones(N)
        )


@pytest.mark.parametrize(
    "wrap",
    [lambda tree: tree, lambda tree: make_pipeline(StandardScaler(), tree)],
    ids=["alone", "in a pipeline"],
)
def test_balanced_classes_are_balanced_although_fair_labels_spread_over_them(wrap):
    rng = np.random.default_rng(0)
    groups = rng.choice(["f", "m"], 4000)
    y = np.where(
        groups == "f",
        rng.choice(3, 4000, p=[0.8, 0.15, 0.05]),
        rng.choice(3, 4000, p=[0.5, 0.4, 0.1]),
    )
    # that tell nothing, so that every class is as likely as another once they are balanced
    features = rng.normal(size=(4000, 2))
    model = ParityClassifier(
        wrap(DecisionTreeClassifier(max_depth=1, class_weight="balanced", random_state=0)), **GIVEN
    )
    model.fit(features, y, sensitive_features=groups)
    np.testing.assert_allclose(model.predict_proba(features).mean(axis=0), 1 / 3, atol=0.02)
    assert model.form_ == "sample"
    assert "counting rows" in model.form_reason_


def test_weights_for_a_regressor_per_class_that_takes_none_are_refused():
    learner = TheilSenRegressor(max_subpopulation=10, random_state=0)
    with pytest.raises(ParameterError, match="takes no sample_weight"):
        ParityClassifier(learner, **GIVEN).fit(
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


def test_features_in_another_order_than_labels_are_refused():
    frame, y, groups = pd.DataFrame(X), pd.Series(LABELS), pd.Series(GROUPS)
    for form in ("expand", "round"):
        with pytest.raises(
            InputError, match=r"X and y have the same row labels in a different order"
        ):
            ParityClassifier(LogisticRegression(), form=form, **GIVEN).fit(
                frame.iloc[::-1], y, sensitive_features=groups
            )
    with pytest.raises(InputError, match="different order"):
        ParityClassifier(GaussianNB(), **GIVEN).partial_fit(
            frame.iloc[::-1], y, sensitive_features=groups
        )
    model = ParityClassifier(LogisticRegression(), **GIVEN).fit(frame, y, sensitive_features=groups)
    for given in (
        {"sensitive_features": groups.iloc[::-1]},
        {"sensitive_features": groups, "y": y.iloc[::-1]},
    ):
        with pytest.raises(InputError, match="different order"):
            model.parity_report(frame, **given)
    with pytest.raises(InputError, match="y and sensitive_features"):
        fitted(LogisticRegression()).parity_report(X, sensitive_features=groups, y=y.iloc[::-1])


def test_the_accuracy_of_a_report_reads_a_column_and_nothing_wider():
    model = fitted(LogisticRegression())
    right = float((model.predict(X) == LABELS).mean())
    for y in (
        LABELS,
        LABELS.tolist(),
        LABELS[:, None],
        pd.DataFrame({"y": LABELS}),
        pl.Series(LABELS),
    ):
        assert (
            model.parity_report(X, sensitive_features=GROUPS, y=y, n_permutations=0).accuracy
            == right
        )
    with pytest.raises(LengthError, match="y has 359"):
        model.parity_report(X, sensitive_features=GROUPS, y=LABELS[:-1])
    with pytest.raises(ShapeError, match="one true class per row"):
        model.parity_report(X, sensitive_features=GROUPS, y=MATRIX)


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


@pytest.mark.parametrize(
    "labels",
    [
        LABELS == "high",
        (LABELS == "high").astype(np.int8),
        pd.Series(LABELS == "high", dtype="boolean"),
        pd.Series(LABELS, dtype="string"),
    ],
    ids=["bool", "int8", "boolean", "string"],
)
def test_predictions_are_of_the_type_of_the_labels(labels):
    for learner in (LogisticRegression(), Ridge()):
        model = fitted(learner, y=labels)
        assert set(model.predict(X).tolist()) <= set(np.asarray(labels).tolist())
        assert model.predict(X).dtype.kind == model.classes_.dtype.kind


def test_labels_of_classes_that_sort_as_they_came_are_trained_on_without_a_copy():
    soft = r2b.debias(MATRIX, sensitive_features=GROUPS).soft_labels
    np.testing.assert_allclose(
        fitted(Ridge(), y=MATRIX).estimator_.predict(X), Ridge().fit(X, soft).predict(X), atol=1e-12
    )


def test_weights_in_a_table_of_one_column_are_a_column():
    weight = RNG.uniform(0.5, 2.0, N)
    table = pd.DataFrame({"weight": weight})
    models = []
    for given in (weight, table):
        model = ParityClassifier(GaussianNB(), form="round", **GIVEN).partial_fit(
            X, LABELS, sensitive_features=GROUPS, sample_weight=given
        )
        models.append(
            model.fit(X, LABELS, sensitive_features=GROUPS, sample_weight=given).predict_proba(X)
        )
        report = model.parity_report(
            X, sensitive_features=GROUPS, y=LABELS, sample_weight=given, n_permutations=0
        )
        assert report.accuracy == pytest.approx(
            np.average(model.predict(X) == LABELS, weights=weight)
        )
    np.testing.assert_array_equal(*models)
