"""Scorers of parity in searches and cross-validation, with metadata routing and without."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from r2b import metrics
from r2b.errors import InputError, ParameterError
from r2b.metrics import (
    demographic_parity_difference,
)
from r2b.metrics.criteria import CRITERIA, disparity_by_chance
from r2b.sklearn import ParityClassifier, accuracy_under, parity_scorer

RNG = np.random.default_rng(4)
N = 900
SEX = RNG.choice(["f", "m"], N)
RACE = RNG.choice(["a", "b", "c"], N)
# Column 0 is of use and fair, column 1 is of more use and gives sex away, column 2 is nothing but
# sex.
X = np.column_stack(
    [RNG.normal(size=N), RNG.normal(size=N) + 2.0 * (SEX == "m"), (SEX == "m") * 1.0]
)
LABELS = np.array(["low", "mid", "high"])[
    np.digitize(X[:, 0] + X[:, 1] + RNG.normal(size=N) * 0.5, [0.0, 2.0])
]
WEIGHTS = RNG.uniform(0.5, 2, N)
MEASURES = {name: getattr(metrics, f"{name}_difference") for name in CRITERIA}


def take(X, columns=(0, 1, 2)):
    return X[:, list(columns)]


def search(scoring, *choices, cv=3):
    grid = {"functiontransformer__kw_args": [{"columns": each} for each in choices]}
    return GridSearchCV(
        make_pipeline(FunctionTransformer(take), LogisticRegression()), grid, scoring=scoring, cv=cv
    )


@pytest.mark.parametrize("criterion", MEASURES)
@pytest.mark.parametrize("kind", ["decisions", "probabilities"])
def test_a_scorer_gives_minus_the_measure(criterion, kind):
    model = LogisticRegression().fit(X, LABELS)
    predicted = model.predict(X) if kind == "decisions" else model.predict_proba(X)
    people = {"sex": SEX, "race": RACE}
    rows = {"sensitive_features": people, "sample_weight": WEIGHTS, "control_features": X[:, 0] > 0}
    for families in ("crossed", "marginal"):
        score = parity_scorer(kind, criterion=criterion, families=families)(
            model, X, LABELS, **rows
        )
        expected = -MEASURES[criterion](LABELS, predicted, families=families, **rows)
        assert score == pytest.approx(expected, abs=1e-12) and score < -0.02
    if CRITERIA[criterion].outcome == "own class":
        asked = {"criterion": criterion, "positive": LABELS[0]}
        score = parity_scorer(kind, **asked)(model, X, LABELS, **rows)
        assert score == -MEASURES[criterion](LABELS, predicted, positive=LABELS[0], **rows)


def test_a_search_picks_the_fair_model_under_a_tight_epsilon_and_the_accurate_one_under_a_loose_one(
    routing,
):
    fair, accurate = (0,), (0, 1)
    for epsilon, best in ((0.05, fair), (0.9, accurate)):
        found = search(accuracy_under(epsilon), fair, accurate).fit(
            X, LABELS, sensitive_features=SEX
        )
        assert found.best_params_["functiontransformer__kw_args"]["columns"] == best
    plain = search("accuracy", fair, accurate).fit(X, LABELS)
    assert plain.best_params_["functiontransformer__kw_args"]["columns"] == accurate
    # A fair enough model is scored by its accuracy, on the same folds.
    assert found.best_score_ == plain.best_score_


@pytest.mark.filterwarnings("ignore::r2b.errors.NotFairWarning")
def test_a_fair_classifier_and_its_scorer_share_the_groups(routing):
    model = ParityClassifier(LogisticRegression()).set_fit_request(sensitive_features=True)
    found = GridSearchCV(
        model, {"epsilon": [0.0, 1.0]}, scoring=parity_scorer("probabilities"), cv=2
    )
    found.fit(X[:, :2], LABELS, sensitive_features=SEX)
    assert found.best_params_ == {"epsilon": 0.0}
    assert found.score(X[:, :2], LABELS, sensitive_features=SEX) < 0


def test_without_routing_groups_may_be_columns_of_the_features():
    pd = pytest.importorskip("pandas")
    model = LogisticRegression().fit(X, LABELS)
    direct = parity_scorer()(model, X, LABELS, sensitive_features=X[:, 2])
    assert parity_scorer(columns=2)(model, X, LABELS) == direct
    # what is passed counts
    assert parity_scorer(columns=2)(model, X, LABELS, sensitive_features=RACE) > direct
    frame = pd.DataFrame(X, columns=["skill", "proxy", "sex"]).assign(race=RACE)
    pipe = make_pipeline(
        FunctionTransformer(lambda frame: frame[["skill", "proxy"]]), LogisticRegression()
    )
    scoring = {
        "disparity": parity_scorer(columns=["sex", "race"], families="both"),
        "accuracy": accuracy_under(1.0, columns="sex"),
    }
    found = cross_validate(
        pipe,
        frame,
        LABELS,
        scoring=scoring,
        cv=2,
        return_estimator=True,
        return_indices=True,
        error_score="raise",
    )
    for fold, (fitted, rows) in enumerate(
        zip(found["estimator"], found["indices"]["test"], strict=True)
    ):
        part = frame.iloc[rows]
        predicted = fitted.predict(part)
        assert found["test_disparity"][fold] == -demographic_parity_difference(
            predicted, sensitive_features=part[["sex", "race"]], families="both"
        )
        assert found["test_accuracy"][fold] == accuracy_score(LABELS[rows], predicted)
    with pytest.raises(ParameterError, match=r"X has no columns 'age'"):
        parity_scorer(columns="age")(pipe.fit(frame, LABELS), frame, LABELS)


def test_what_chance_explains_holds_in_19_of_20_fair_tables():
    rng = np.random.default_rng(0)
    names = [name for name in CRITERIA if CRITERIA[name].outcome != "every class"]
    within = np.zeros((2 + len(names), 200))
    for draw in range(200):
        groups, y, p = (
            rng.choice(3, 200, p=[0.6, 0.3, 0.1]),
            rng.choice(4, 200, p=[0.5, 0.3, 0.15, 0.05]),
            rng.dirichlet([3, 2, 1], 200),
        )
        weight = rng.exponential(size=200)
        within[0, draw] = demographic_parity_difference(
            y, sensitive_features=groups
        ) <= disparity_by_chance("demographic_parity", y, y, sensitive_features=groups)
        within[1, draw] = demographic_parity_difference(
            p, sensitive_features=groups, sample_weight=weight
        ) <= disparity_by_chance(
            "demographic_parity", None, p, sensitive_features=groups, sample_weight=weight
        )
        true, rows = rng.choice(3, 200), {"sensitive_features": groups, "classes": [0, 1, 2]}
        for place, name in enumerate(names, 2):
            found = MEASURES[name](true, p, **rows)
            within[place, draw] = found <= disparity_by_chance(name, true, p, **rows)
    assert (within.mean(axis=1) > 0.91).all()  # 0.95 less 2.6 standard errors
    assert (within.mean(axis=1) < 1).all()  # and is no more than that asks for


def test_scorers_are_cloned_and_pickled():
    model = LogisticRegression().fit(X, LABELS)
    for scorer in (
        parity_scorer("probabilities", criterion="equalized_odds"),
        accuracy_under(0.4, families="marginal"),
    ):
        score = scorer(model, X, LABELS, sensitive_features=SEX)
        assert clone(scorer)(model, X, LABELS, sensitive_features=SEX) == score
        assert pickle.loads(pickle.dumps(scorer))(model, X, LABELS, sensitive_features=SEX) == score
    assert "epsilon=0.4" in repr(scorer)


def test_wrong_scorers_and_calls_are_refused():
    model = DummyClassifier().fit(X, LABELS)
    with pytest.raises(ParameterError, match=r"set_score_request\(sensitive_features=True\)"):
        parity_scorer()(model, X, LABELS)
    with pytest.raises(ParameterError, match="LinearSVC has no predict_proba"):
        parity_scorer("probabilities")(
            LinearSVC().fit(X, LABELS), X, LABELS, sensitive_features=SEX
        )
    with pytest.raises(InputError, match="has no rows of true class"):
        parity_scorer(criterion="equalized_odds", absent="error")(
            model, X, LABELS, sensitive_features=LABELS
        )
    for wrong in ({"kind": "scores"}, {"criterion": "parity"}):
        with pytest.raises(ParameterError):
            parity_scorer(**wrong)
        with pytest.raises(ParameterError):
            accuracy_under(0.1, **wrong)
    for wrong in (
        {"epsilon": -0.1},
        {"epsilon": True},
        {"epsilon": "0.1"},
        {"epsilon": 0.1, "slack": -1},
        {"epsilon": 0.1, "slack": "none"},
    ):
        with pytest.raises(ParameterError, match="between 0 and 1"):
            accuracy_under(**wrong)
