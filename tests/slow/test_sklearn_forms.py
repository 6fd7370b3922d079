"""Every documented learner with every form that it can follow: the model comes nearer to parity;
with the others: a refusal.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from r2b.errors import ParameterError
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import ParityClassifier

# what is trained on, without what is predicted out of fold
GIVEN = {"groups": "given", "decisions": "likeliest"}

N = 3000


def boosters():
    """Those of other libraries, where they are installed."""
    found = {}
    try:
        from lightgbm import LGBMClassifier

        found["LightGBM"] = LGBMClassifier(n_estimators=30, num_leaves=7, n_jobs=1, verbosity=-1)
    except ImportError:
        pass
    try:
        from xgboost import XGBClassifier

        found["XGBoost"] = XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1)
    except ImportError:
        pass
    return found


# The names of docs/learners.md, and what it says that ``auto`` takes.
LEARNERS = {
    "logistic regression": LogisticRegression(),
    "random forest": RandomForestClassifier(20, max_depth=5, random_state=0),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "kNN": KNeighborsClassifier(15),
    "MLP": MLPClassifier((8,), max_iter=300, tol=1e-3, random_state=0),
    "random forest, one per class": RandomForestRegressor(20, max_depth=5, random_state=0),
    "gradient boosting, soft": HistGradientBoostingRegressor(max_iter=30, random_state=0),
    "kNN, soft": KNeighborsRegressor(15),
    "MLP, soft": MLPRegressor(hidden_layer_sizes=(8,), max_iter=300, tol=1e-3, random_state=0),
    **boosters(),
}
WITHOUT_WEIGHTS = {"kNN"}
COUNTING_LEAVES = {"gradient boosting", "LightGBM"}


def can(name, form):
    if is_regressor(LEARNERS[name]):
        return form == "soft"
    return form != "soft" and not (form == "expand" and name in WITHOUT_WEIGHTS)


@cache
def table():
    rng = np.random.default_rng(6)
    groups = rng.choice(["f", "m"], N)
    X = rng.normal(size=(N, 3)) + np.outer(groups == "m", [0, 0, 4.0])
    y = np.argmax(
        X * [1.0, 1.0, 0.0] + np.outer(groups == "m", [1.5, 0, 0]) + rng.gumbel(size=(N, 3)), axis=1
    )
    return X, y, groups


@cache
def disparity_before(name):
    X, y, groups = table()
    learner = clone(LEARNERS[name])
    if is_regressor(learner):
        model = ParityClassifier(learner, epsilon=1.0, **GIVEN).fit(
            X[::2], y[::2], sensitive_features=groups[::2]
        )
    else:
        model = learner.fit(X[::2], y[::2])
    return demographic_parity_difference(
        model.predict_proba(X[1::2]), sensitive_features=groups[1::2]
    )


@pytest.mark.parametrize("form", ["expand", "round", "sample", "soft"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_form_brings_held_out_rows_nearer_to_parity_or_is_refused(name, form):
    X, y, groups = table()
    model = ParityClassifier(LEARNERS[name], form=form, **GIVEN)
    if not can(name, form):
        with pytest.raises(ParameterError, match="Use `form="):
            model.fit(X[:60], y[:60], sensitive_features=groups[:60])
        return
    chances = model.fit(X[::2], y[::2], sensitive_features=groups[::2]).predict_proba(X[1::2])
    assert disparity_before(name) > 0.2
    # Two means of about 750 rows each are still 0.03 or so apart by chance.
    assert demographic_parity_difference(chances, sensitive_features=groups[1::2]) < 0.08
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_choice_of_auto_is_the_one_of_the_table(name):
    X, y, groups = table()
    model = ParityClassifier(LEARNERS[name], **GIVEN).fit(
        X[:300], y[:300], sensitive_features=groups[:300]
    )
    kinds = {
        "sample": name in WITHOUT_WEIGHTS,
        "round": name in COUNTING_LEAVES,
        "soft": is_regressor(LEARNERS[name]),
    }
    expected = next((form for form, holds in kinds.items() if holds), "expand")
    assert model.form_ == expected
