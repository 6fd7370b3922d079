"""The classifier: what it accepts, refuses, chooses and gives back."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

import r2b
from r2b.errors import InputError, LengthError, ParameterError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import ParityClassifier
from r2b.sklearn.learners import probabilities_of

# what is trained on, without what is predicted out of fold
GIVEN = {"groups": "given", "decisions": "likeliest"}

RNG = np.random.default_rng(3)
N = 300
GROUPS = RNG.choice(["f", "m"], N)
X = RNG.normal(size=(N, 3)) + np.outer(GROUPS == "m", [0, 0, 4.0])
LABELS = np.array(["a", "b", "c"])[
    np.argmax(X[:, :3] * [1, 1, 0.3] + RNG.gumbel(size=(N, 3)), axis=1)
]
NAMES = ["x0", "x1", "x2"]


def fitted(learner, features=X, y=LABELS, **settings):
    return ParityClassifier(learner, **settings, **GIVEN).fit(
        features, y, sensitive_features=GROUPS
    )


@pytest.mark.parametrize(
    ("learner", "form", "reason"),
    [
        (LogisticRegression(), "expand", "takes sample_weight"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "expand", "takes sample_weight"),
        (
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            "sample",
            "takes no sample_weight",
        ),
        (KNeighborsClassifier(), "sample", "takes no sample_weight"),
        (KNeighborsRegressor(), "soft", "regressor"),
        (SVR(), "soft", "regressor"),
        (
            SGDClassifier(early_stopping=True, loss="log_loss", random_state=0),
            "sample",
            "splits its rows",
        ),
        (
            LogisticRegressionCV(
                Cs=[1.0], cv=3, l1_ratios=(0,), use_legacy_attributes=False, scoring="accuracy"
            ),
            "sample",
            "splits its rows",
        ),
        (
            GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [2, 3]}),
            "sample",
            "splits its rows",
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else value,
)
def test_the_form_follows_from_what_the_learner_can_do_and_is_said(learner, form, reason):
    model = fitted(learner)
    assert model.form_ == form
    assert reason in model.form_reason_
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert set(model.predict(X)) <= {"a", "b", "c"}


@pytest.mark.parametrize(
    "learner",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [1.0]}),
    ],
)
def test_weights_find_their_way_to_the_learner_inside(learner):
    model = fitted(learner, form="expand")
    inner = (
        model.estimator_[-1]
        if hasattr(model.estimator_, "steps")
        else model.estimator_.best_estimator_
    )
    fair = r2b.debias(LABELS, sensitive_features=GROUPS)
    rows, y, weight = fair.expand(X)
    # the scaler sees each row once
    rows = StandardScaler().fit(X).transform(rows) if hasattr(model.estimator_, "steps") else rows
    np.testing.assert_allclose(
        inner.coef_, LogisticRegression().fit(rows, y, weight).coef_, atol=1e-6
    )


def test_a_classifier_that_refuses_probabilities_is_refused_with_a_remedy():
    with pytest.raises(ParameterError, match=r"refused a matrix of probabilities"):
        fitted(KNeighborsClassifier(), form="soft")


class SoftLearner(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.mean_ = np.asarray(y).mean(axis=0)
        return self

    def predict_proba(self, X):
        return np.tile(self.mean_, (len(X), 1))


def test_a_classifier_that_takes_probabilities_gets_them():
    model = fitted(SoftLearner(), form="soft")
    np.testing.assert_allclose(
        model.predict_proba(X)[0],
        r2b.debias(LABELS, sensitive_features=GROUPS).soft_labels.mean(axis=0),
    )


@pytest.mark.parametrize(
    ("learner", "form", "remedy"),
    [
        (KNeighborsClassifier(), "expand", "'sample'"),
        (Ridge(), "round", "form='soft'"),
        (Ridge(), "argmax", "Pass one of 'auto'"),
    ],
)
def test_a_form_that_the_learner_cannot_follow_is_refused(learner, form, remedy):
    with pytest.raises(ParameterError, match=remedy):
        fitted(learner, form=form)


def test_forgotten_groups_and_features_of_other_rows_are_refused():
    with pytest.raises(ParameterError, match="without sensitive_features"):
        ParityClassifier(LogisticRegression(), **GIVEN).fit(X, LABELS)
    with pytest.raises(LengthError, match="`X` has 299 rows"):
        fitted(LogisticRegression(), X[:-1])


def test_pairs_of_rows_cannot_be_repeated():
    with pytest.raises(ParameterError, match=r"table of pairs.*form='round'"):
        fitted(SVC(kernel="precomputed"), X @ X.T, form="expand")
    for form, taken in (("round", "round"), ("auto", "sample")):
        model = fitted(SVC(kernel="precomputed"), X @ X.T, form=form)
        assert model.form_ == taken
        assert model.predict(X @ X.T).shape == (N,)
    weight = (np.arange(N) % 2).astype(float)
    for learner in (KernelRidge(kernel="precomputed"), SVR(kernel="precomputed")):
        assert fitted(learner, X @ X.T).form_ == "soft"
        with pytest.raises(ParameterError, match=r"table of pairs"):
            ParityClassifier(learner, **GIVEN).fit(
                X @ X.T, LABELS, sensitive_features=GROUPS, sample_weight=weight
            )


CONTAINERS = {
    "numpy": lambda: X.copy(),
    "list": lambda: X.tolist(),
    "pandas": lambda: pd.DataFrame(X, columns=NAMES, index=np.arange(N) * 3),
    "polars": lambda: pl.DataFrame(X, schema=NAMES),
    "pyarrow": lambda: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "csr": lambda: sparse.csr_array(X),
    "coo": lambda: sparse.coo_array(X),
}


class Kind(ClassifierMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        self.kind_, self.classes_, self.rows_ = type(X), np.unique(y), X
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name != "coo"])
def test_the_learner_sees_the_kind_of_table_that_came_in(name):
    features = CONTAINERS[name]()
    model = fitted(Kind(), features)
    assert model.estimator_.kind_ is type(features)
    assert model.n_features_in_ == 3
    if name in ("pandas", "polars", "pyarrow"):
        assert (
            list(
                model.estimator_.rows_.columns
                if name != "pyarrow"
                else model.estimator_.rows_.column_names
            )
            == NAMES
        )


KINDS_OF_LABELS = {
    "list": list,
    "pandas": pd.Series,
    "categories": lambda y: pd.Series(y, dtype="category"),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "narwhals": lambda y: nw.from_native(pl.Series(y), series_only=True),
}


@pytest.mark.parametrize("name", KINDS_OF_LABELS)
def test_labels_of_any_kind_give_the_same_model(name):
    model = fitted(LogisticRegression(), y=KINDS_OF_LABELS[name](LABELS.tolist()))
    np.testing.assert_allclose(
        model.predict_proba(X), fitted(LogisticRegression()).predict_proba(X), atol=1e-12
    )
    assert model.predict(X).tolist() == fitted(LogisticRegression()).predict(X).tolist()


def test_probabilities_as_labels_are_taken():
    soft = np.eye(3)[np.searchsorted(["a", "b", "c"], LABELS)] * 0.7 + 0.1
    frame = pd.DataFrame(soft, columns=["a", "b", "c"])
    model = fitted(LogisticRegression(), y=frame)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict(X).dtype.kind == "U"


def test_a_class_that_training_lost_keeps_its_column():
    learner = LogisticRegression().fit(X[LABELS != "b"], LABELS[LABELS != "b"])
    chances = probabilities_of(learner, X, np.array(["a", "b", "c"]), "expand")
    np.testing.assert_array_equal(chances[:, 1], 0)
    np.testing.assert_array_equal(chances[:, [0, 2]], learner.predict_proba(X))


def test_one_class_left_is_refused_with_a_remedy():
    y = np.where(np.arange(N) == 0, "b", "a")
    weight = (y == "a").astype(float)
    with pytest.raises(InputError, match="one class 'a'"):
        ParityClassifier(LogisticRegression(), **GIVEN).fit(
            X, y, sensitive_features=GROUPS, sample_weight=weight
        )


def test_parity_within_the_values_of_a_control_feature_reaches_the_learner():
    years = RNG.choice(["junior", "senior"], N)
    model = ParityClassifier(KNeighborsRegressor(), epsilon=0.01, **GIVEN).fit(
        X, LABELS, sensitive_features=GROUPS, control_features=years
    )
    direct = r2b.debias(LABELS, sensitive_features=GROUPS, control_features=years, epsilon=0.01)
    np.testing.assert_allclose(
        model.predict_proba(X),
        KNeighborsRegressor().fit(X, direct.soft_labels).predict(X),
        atol=1e-12,
    )
    assert len(model.groups_) == 4


def test_drawn_predictions_are_seeded_and_follow_the_probabilities():
    model = fitted(LogisticRegression())
    many = np.repeat(X[:1], 20_000, axis=0)
    drawn = model.predict_sampled(many, random_state=1)
    np.testing.assert_array_equal(drawn, model.predict_sampled(many, random_state=1))
    shares = [(drawn == name).mean() for name in model.classes_]
    np.testing.assert_allclose(
        shares, model.predict_proba(X[:1])[0], atol=4 * 0.5 / np.sqrt(20_000)
    )


def test_parity_of_predictions_is_reported_for_a_validation_set():
    half = N // 2
    model = ParityClassifier(LogisticRegression(), **GIVEN)
    model.fit(
        X[:half],
        LABELS[:half],
        sensitive_features=GROUPS[:half],
        validation=(X[half:], LABELS[half:], GROUPS[half:]),
    )
    held = {"sensitive_features": GROUPS[half:]}
    soft = model.parity_report(X[half:], **held, kind="probabilities")
    for report, fair in (
        (soft, model.predict_proba(X[half:])),
        (model.report_, model.predict(X[half:])),
    ):
        assert report.disparity == pytest.approx(demographic_parity_difference(fair, **held))
    assert model.report_.accuracy == pytest.approx(
        (model.predict(X[half:]) == LABELS[half:]).mean()
    )
    assert [each.group for each in model.report_.groups] == sorted(set(GROUPS))
    assert all(0 < each.chance < 0.5 for each in model.report_.groups)
    assert "Disparity of decisions on 150 unseen rows" in str(model.report_)
    assert not hasattr(model.fit(X, LABELS, sensitive_features=GROUPS), "report_")


def test_a_validation_set_of_another_shape_is_refused():
    with pytest.raises(ParameterError, match=r"validation=\(X, y, sensitive_features\)"):
        ParityClassifier(LogisticRegression(), **GIVEN).fit(
            X, LABELS, sensitive_features=GROUPS, validation=X
        )
