"""Classifiers trained on row weights."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import r2b
from r2b.errors import InfeasibleError, ParameterError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import WeightedClassifier


def table(n=4000):
    rng = np.random.default_rng(1)
    sex = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 3)) + np.outer(sex == "m", [1.5, 0.0, 0.0])
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=n), [0.5, 2.0])]
    return X, y, sex


X, Y, SEX = table()
OLD, NEW = slice(2000), slice(2000, None)


def apart(model):
    shares = model.predict_proba(X[NEW])
    return demographic_parity_difference(shares, sensitive_features=SEX[NEW])


def test_weights_make_a_model_fairer():
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    plain = apart(clone(learner).fit(X[OLD], Y[OLD]))
    given = WeightedClassifier(learner, groups="given", max_weight=10)
    seen = WeightedClassifier(learner, max_weight=10)
    given, seen = (each.fit(X[OLD], Y[OLD], sensitive_features=SEX[OLD]) for each in (given, seen))
    assert seen.weights_.status.ok and seen.weights_.largest_weight <= 10
    assert apart(seen) < apart(given) < plain
    assert seen.classes_.tolist() == ["a", "b", "c"]
    assert set(seen.predict(X[NEW])) <= {"a", "b", "c"}


def test_given_groups_get_the_weights_of_reweigh():
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 2000)
    rows = {"sensitive_features": SEX[OLD], "sample_weight": weight}
    model = WeightedClassifier(LogisticRegression(), groups="given", epsilon=0.02)
    model.fit(X[OLD], Y[OLD], **rows)
    weights = r2b.reweigh(Y[OLD], **rows, epsilon=0.02).weights
    plain = LogisticRegression().fit(X[OLD], Y[OLD], sample_weight=weights * weight)
    assert (model.predict_proba(X[NEW]) == plain.predict_proba(X[NEW])).all()


def test_what_cannot_be_weighed_is_refused():
    with pytest.raises(ParameterError, match="no sample_weight"):
        WeightedClassifier(KNeighborsClassifier()).fit(X, Y, sensitive_features=SEX)
    with pytest.raises(ParameterError, match="sensitive_features"):
        WeightedClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(InfeasibleError, match="epsilon"):
        model = WeightedClassifier(LogisticRegression(), groups="given", max_weight=1.01)
        model.fit(X, Y, sensitive_features=SEX)
