"""Models of several tags per row: decisions of every tag in parity, with one promise."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from r2b import Family
from r2b.errors import InputError, NotFairWarning, ParameterError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import ParityClassifier, ParityPostprocessor

FAST = {"multilabel": True, "frontier": 0, "cv": 3}
LEARNER = OneVsRestClassifier(LogisticRegression())


def people(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 4)) + np.outer(sex == "m", [1, 0.5, 0, 0])
    Y = (X[:, :3] + rng.normal(size=(n, 3)) > 0.7).astype(int)
    return X, pd.DataFrame(Y, columns=["cat", "dog", "bus"]), sex


X, Y, SEX = people()
NEW, Y_NEW, SEX_NEW = people(4000, seed=1)


def apart(tags):
    return demographic_parity_difference(tags, multilabel=True, sensitive_features=SEX_NEW)


@pytest.mark.parametrize(
    "learner",
    [
        LEARNER,
        MultiOutputClassifier(LogisticRegression()),
        ClassifierChain(LogisticRegression(), order=[2, 0, 1]),
        make_pipeline(StandardScaler(), LEARNER),
        RandomForestClassifier(30, min_samples_leaf=10, random_state=0),
        MLPClassifier((4,), alpha=1, solver="lbfgs", max_iter=2000, random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.parametrize("use", ["predicted", "given"])
def test_every_estimator_of_several_labels_is_made_fair(learner, use):
    asked = {**FAST, "group_estimator": LogisticRegression(), "attribute": use}
    model = ParityPostprocessor(learner, **asked).fit(X, Y, sensitive_features=SEX)
    given = {"sensitive_features": SEX_NEW} if use == "given" else {}
    plain, fair = model.estimator_.predict(NEW), model.predict(NEW, **given)
    assert fair.shape == Y_NEW.shape and set(np.unique(fair)) == {0, 1}
    assert apart(plain) > 0.25 and apart(fair) < 0.09
    lost = (plain == Y_NEW).to_numpy().mean() - (fair == Y_NEW).to_numpy().mean()
    assert lost < (0.03 if use == "given" else 0.08)
    assert apart(model.predict_proba(NEW, **given)) < 0.06
    assert model.score(NEW, Y_NEW, **given) == (fair == Y_NEW).all(axis=1).mean()


def test_a_tag_is_a_binary_problem_with_the_same_prices():
    model = ParityPostprocessor(LEARNER, attribute="given", **FAST)
    model.fit(X, Y, sensitive_features=SEX)
    one = model.tags_["dog"]
    given = {"sensitive_features": SEX_NEW}
    assert np.array_equal(one.predict(NEW, **given), model.predict(NEW, **given)[:, 1])
    scores = model.estimator_.predict_proba(NEW)[:, 1]
    paid = one.decision_rule_.prices[0] @ [-1.0, 1.0]
    wanted = scores > 0.5 + 0.5 * paid[(SEX_NEW == "m").astype(int)]
    assert (one.predict(NEW, **given) == wanted).mean() > 0.995
    with pytest.raises(ParameterError, match="cat"):
        model.tags_["cow"]


@pytest.mark.parametrize("where", ["of all", "of a family"])
def test_epsilon_by_tag_bounds_each(where):
    asked = {"epsilon": {"cat": 0.2, ...: 0}}
    if where == "of a family":
        asked = {"families": [Family("sex", **asked)]}
    model = ParityPostprocessor(LEARNER, attribute="given", **asked, **FAST)
    model.fit(X, Y, sensitive_features={"sex": SEX})
    decided = model.predict(NEW, sensitive_features={"sex": SEX_NEW})
    found = np.abs(decided[SEX_NEW == "f"].mean(axis=0) - decided[SEX_NEW == "m"].mean(axis=0))
    assert 0.08 < found[0] < 0.24 and (found[1:] < 0.06).all()


def test_a_network_that_is_trained_already():
    class Network:
        classes_ = np.arange(3)

        def predict_proba(self, rows):
            return 1 / (1 + np.exp(-2 * (rows[:, :3] - 0.7)))

    model = ParityPostprocessor(
        Network(), prefit=True, group_estimator=LogisticRegression(), **FAST
    ).fit(X, Y, sensitive_features=SEX)
    assert apart(Network().predict_proba(NEW) > 0.5) > 0.25 and apart(model.predict(NEW)) < 0.09
    later = model.update(X, sensitive_features=SEX)
    assert later is model and apart(model.predict(NEW)) < 0.09


@pytest.mark.parametrize("decisions", ["fair", "likeliest"])
def test_the_classifier_trains_on_fair_tags(decisions):
    model = ParityClassifier(LEARNER, decisions=decisions, **FAST).fit(X, Y, sensitive_features=SEX)
    assert model.certificate_.holds and model.form_ == "round" and model.status_.ok
    assert model.labels_.names.tolist() == ["cat", "dog", "bus"] and model.labels_.rows is None
    trained = model.estimator_.predict(NEW)
    assert apart(trained) < 0.15
    if decisions == "likeliest":
        assert np.array_equal(model.predict(NEW), trained)
    else:
        assert apart(model.predict(NEW)) < 0.09
    with pytest.raises(ParameterError):
        clone(model).set_params(form="expand").fit(X, Y, sensitive_features=SEX)


def test_one_promise_for_all_tags():
    asked = {**FAST, "confidence": 0.9, "epsilon": 0.1, "ensemble": True}
    model = ParityPostprocessor(LEARNER, **asked).fit(X, Y, sensitive_features=SEX)
    each = [model.tags_[name].promise_ for name in Y]
    assert model.promise_.bound == max(one.bound for one in each) >= apart(model.predict(NEW))
    assert model.promise_.classes == list(Y) and model.promise_.limit.class_name in list(Y)
    assert model.probability_promise_.n_rows == model.promise_.n_rows < 600


def test_reports_name_tags_and_warnings_are_one():
    model = ParityPostprocessor(LEARNER, **FAST).fit(X, Y, sensitive_features=SEX)
    found = model.parity_report(NEW, sensitive_features=SEX_NEW, y=Y_NEW)
    assert found.disparity == pytest.approx(apart(model.predict(NEW)))
    right = (model.predict(NEW) == Y_NEW).to_numpy().mean()
    assert found.accuracy == pytest.approx(right)
    assert [each.class_name for each in found.groups] == ["cat", "cat", "dog", "dog", "bus", "bus"]
    one = model.tags_["cat"].parity_report(NEW, sensitive_features=SEX_NEW)
    assert one.groups[0].chance == found.groups[0].chance  # chance is that of all tags together
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        blind = ParityPostprocessor(
            LEARNER, group_estimator=RandomForestClassifier(1, random_state=0), **FAST
        )
        blind.fit(X, Y, sensitive_features=SEX)
    unfair = [each for each in seen if issubclass(each.category, NotFairWarning)]
    assert len(unfair) <= 1 and (not unfair or unfair[0].filename == __file__)


def test_each_tag_has_a_report_of_the_model(tmp_path):
    model = ParityPostprocessor(LEARNER, **FAST).fit(X, Y, sensitive_features=SEX)
    assert get_tags(model).classifier_tags.multi_label
    found = model.tags_["dog"].report(
        tmp_path / "dog.html", NEW, Y_NEW["dog"], sensitive_features=SEX_NEW
    )
    assert "dog" in repr(found) and (tmp_path / "dog.html").exists()
    whole = model.report(tmp_path / "all.html", NEW, Y_NEW, sensitive_features=SEX_NEW, date=False)
    one = model.tags_["dog"].report(
        None, NEW, Y_NEW["dog"], sensitive_features=SEX_NEW, label_name="dog", date=False
    )
    assert whole.reports["dog"].facts == one.facts
    assert [row["tag"] for row in whole.facts["table"]] == list(Y_NEW)
    right = np.mean(model.predict(NEW) == np.asarray(Y_NEW), axis=0)
    assert [row["accuracy"] for row in whole.facts["table"]] == pytest.approx(right.tolist())
    assert max(row["disparity"] for row in whole.facts["table"]) == pytest.approx(
        demographic_parity_difference(
            model.predict(NEW), sensitive_features=SEX_NEW, multilabel=True
        )
    )
    assert (tmp_path / "all.html").read_text(encoding="utf-8").count("<iframe") == len(
        whole.facts["table"]
    )
    assert model.report(None, NEW, sensitive_features=SEX_NEW).facts["table"][0]["accuracy"] is None


@pytest.mark.filterwarnings("ignore::r2b.errors.NotFairWarning")
def test_other_criteria_and_controls():
    model = ParityPostprocessor(
        LEARNER, criterion="equal_opportunity", attribute="given", **FAST
    ).fit(X, Y, sensitive_features=SEX)
    decided, true = model.predict(NEW, sensitive_features=SEX_NEW), Y_NEW.to_numpy() == 1
    for k in range(3):
        rates = [decided[(s == SEX_NEW) & true[:, k], k].mean() for s in "fm"]
        assert abs(rates[0] - rates[1]) < 0.09
    region = np.random.default_rng(2).choice(["n", "s"], len(X))
    data = {"sensitive_features": SEX, "control_features": region}
    within = ParityPostprocessor(LEARNER, **FAST).fit(X, Y, **data)
    assert len(within.parity_.groups) == 12


def test_models_are_stored_and_draws_repeat():
    model = ParityPostprocessor(LEARNER, **FAST).fit(X, Y, sensitive_features=SEX)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    drawn = model.predict_sampled(NEW, random_state=3)
    assert np.array_equal(drawn, again.predict_sampled(NEW, random_state=3))
    assert np.abs(drawn.mean(axis=0) - model.predict_proba(NEW).mean(axis=0)).max() < 0.03


@pytest.mark.parametrize(
    ("tags", "learner", "words"),
    [
        (Y * 0.5, LEARNER, "probabilities"),
        (Y.assign(never=0), LEARNER, "'never'"),
        (Y["cat"], LEARNER, "one column"),
        (Y, LogisticRegression(), "could not be trained on these tags"),
    ],
)
def test_what_is_no_problem_of_tags_is_refused(tags, learner, words):
    with pytest.raises(InputError, match=words):
        ParityPostprocessor(learner, **FAST).fit(X, tags, sensitive_features=SEX)


def test_true_tags_are_known_by_name_and_an_update_forgets_the_promise():
    model = ParityPostprocessor(LEARNER, epsilon=0.1, confidence=0.9, **FAST)
    model.fit(X, Y, sensitive_features=SEX)
    report = model.parity_report(NEW, sensitive_features=SEX_NEW, y=Y_NEW)
    turned = model.parity_report(NEW, sensitive_features=SEX_NEW, y=Y_NEW[["bus", "cat", "dog"]])
    assert report.accuracy == turned.accuracy
    for wrong in (Y_NEW[["cat", "dog"]], Y_NEW.rename(columns={"cat": "cow"})):
        with pytest.raises(InputError, match="were fitted"):
            model.parity_report(NEW, sensitive_features=SEX_NEW, y=wrong)
    before = model.predict(NEW)
    with pytest.raises(InputError, match="same chances"):
        model.update(np.zeros_like(NEW), sensitive_features=SEX_NEW)
    assert np.array_equal(model.predict(NEW), before)
    model.update(NEW, sensitive_features=SEX_NEW)
    assert not hasattr(model, "promise_") and model.parity_.n_rows == len(NEW)
