"""Models whose decisions are in parity by the shares of ordered or merged classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from r2b.errors import ParameterError
from r2b.metrics import demographic_parity_difference, parity_promise
from r2b.sklearn import ParityClassifier, ParityPostprocessor, WeightedClassifier

ORDER = ["low", "mid", "high", "top"]
ORDINAL, UPPER = {"ordinal": ORDER}, {"upper": ["high", "top"]}
FAST = {"frontier": 0, "cv": 3}


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 3)) + np.outer(sex == "m", [1, 0.3, 0])
    score = X[:, 0] + X[:, 2] + rng.normal(size=n)
    return X, np.array(ORDER)[np.digitize(score, [-1, 0.5, 2])], sex


X, Y, SEX = people()
NEW, Y_NEW, SEX_NEW = people(seed=1)


def apart(predicted, outcomes=None, **more):
    return demographic_parity_difference(
        predicted, sensitive_features=SEX_NEW, outcomes=outcomes, **more
    )


@pytest.mark.parametrize("model", [ParityPostprocessor, ParityClassifier])
@pytest.mark.parametrize("use", ["predicted", "given"])
def test_the_outcomes_of_decisions_are_in_parity(model, use):
    given = {"sensitive_features": SEX_NEW} if use == "given" else {}
    found = {}
    for name, outcomes in (("classes", None), ("ordinal", ORDINAL), ("upper", UPPER)):
        fair = model(LogisticRegression(), attribute=use, outcomes=outcomes, **FAST)
        fair.fit(X, Y, sensitive_features=SEX)
        decided, chances = fair.predict(NEW, **given), fair.predict_proba(NEW, **given)
        found[name] = fair, decided
        assert apart(decided, outcomes) < 0.08
        assert apart(chances, outcomes, classes=fair.classes_) < 0.06
    plain = apart(LogisticRegression().fit(X, Y).predict(NEW), UPPER)
    assert plain > 0.25
    # what is not asked for stays nearer to the plain model: less accuracy is lost
    right = {name: (each[1] == Y_NEW).mean() for name, each in found.items()}
    assert right["upper"] > right["classes"] + 0.01 and apart(found["upper"][1]) > 0.1
    report = found["upper"][0].parity_report(NEW, sensitive_features=SEX_NEW, y=Y_NEW)
    assert {each.class_name for each in report.groups} == {"upper"}
    assert report.disparity == pytest.approx(apart(found["upper"][1], UPPER))


def test_every_class_as_an_outcome_changes_nothing():
    every = np.eye(4)
    asked = {**FAST, "attribute": "given"}
    one = ParityPostprocessor(LogisticRegression(), **asked).fit(X, Y, sensitive_features=SEX)
    two = ParityPostprocessor(LogisticRegression(), outcomes=every, **asked)
    two.fit(X, Y, sensitive_features=SEX)
    for each in ("predict", "predict_proba"):
        a, b = (getattr(m, each)(NEW, sensitive_features=SEX_NEW) for m in (one, two))
        assert (a == b).mean() > 0.995 if each == "predict" else np.abs(a - b).max() < 0.01


def test_promise_frontier_and_epsilon_by_outcome():
    model = ParityPostprocessor(
        LogisticRegression(), outcomes=UPPER, confidence=0.9, epsilon=0.1, cv=3, frontier=3
    ).fit(X, Y, sensitive_features=SEX)
    assert model.promise_.classes == ["upper"]
    assert model.promise_.bound >= apart(model.predict(NEW), UPPER)
    assert model.probability_promise_.n_differences == 2
    assert model.frontier_.disparity[0] < model.frontier_.plain_disparity
    loose = ParityPostprocessor(
        LogisticRegression(), outcomes=ORDINAL, epsilon={"at least top": 0.02, ...: np.inf}, **FAST
    ).fit(X, Y, sensitive_features=SEX)
    decided = loose.predict(NEW)
    assert apart(decided, {"top": ["top"]}) < 0.06 < apart(decided, UPPER)


def test_a_promise_for_tags_holds_for_all_at_once():
    rng = np.random.default_rng(0)
    tags = rng.random((2000, 2)) < np.where((SEX == "f")[:2000, None], [0.3, 0.5], [0.35, 0.5])
    both = parity_promise(tags, multilabel=True, sensitive_features=SEX[:2000])
    each = [parity_promise(tags[:, k], sensitive_features=SEX[:2000]).bound for k in range(2)]
    assert both.bound == pytest.approx(max(each), abs=0.003) and both.n_differences == 4


def test_weights_and_refusals():
    weighed = WeightedClassifier(LogisticRegression(), outcomes=UPPER)
    weighed.fit(X, Y, sensitive_features=SEX)
    assert weighed.weights_.outcomes.tolist() == ["upper"] and weighed.weights_.disparity < 1e-9
    for asked in ({"criterion": "equal_opportunity"}, {"multilabel": True}):
        model = ParityPostprocessor(RandomForestClassifier(), outcomes=UPPER, **asked, **FAST)
        labels = Y if "criterion" in asked else np.eye(4, dtype=int)[np.arange(len(X)) % 4]
        with pytest.raises(ParameterError, match=r"[Oo]utcomes"):
            model.fit(X, labels, sensitive_features=SEX)
