"""LightGBM and XGBoost on soft labels: the library's own model on one-hot labels, the expansion's
on fair ones, X handed over once.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from learner_tables import fair_adult, injected_adult

from r2b.errors import ParameterError, ShapeError
from r2b.metrics import demographic_parity_difference
from r2b.models import boosting
from r2b.models.boosting import lightgbm_objective, xgboost_objective

PARAMS = {
    "lightgbm": {
        "num_threads": 1,
        "verbosity": -1,
        "num_leaves": 15,
        "deterministic": True,
        "force_row_wise": True,
    },
    "xgboost": {"nthread": 1, "max_depth": 4},
}
# What is left between our objective and the library's own on the same labels: LightGBM computes in
# double precision, XGBoost in single.
AGREEMENT = {"lightgbm": 1e-12, "xgboost": 1e-4}


@pytest.fixture(params=["lightgbm", "xgboost"])
def library(request):
    pytest.importorskip(request.param)
    return request.param


def train(library, labels, X, rounds=20, params=None, **options):
    fit = boosting.train_lightgbm if library == "lightgbm" else boosting.train_xgboost
    return fit(labels, X, PARAMS[library] | (params or {}), rounds, **options)


def built_in(library, y, X, X_new, rounds=20, weight=None, params=None):
    """Probabilities of the library's own multiclass objective."""
    classes, codes = np.unique(y, return_inverse=True)
    if library == "lightgbm":
        import lightgbm

        own = (
            PARAMS[library]
            | (params or {})
            | {"objective": "multiclass", "num_class": len(classes)}
        )
        return lightgbm.train(own, lightgbm.Dataset(X, label=codes, weight=weight), rounds).predict(
            X_new
        )
    import xgboost

    own = (
        PARAMS[library]
        | (params or {})
        | {"objective": "multi:softprob", "num_class": len(classes)}
    )
    return xgboost.train(own, xgboost.DMatrix(X, label=codes, weight=weight), rounds).predict(
        xgboost.DMatrix(X_new)
    )


def test_parity_on_held_out_rows_falls_to_a_tenth(library):
    seen, held_out = injected_adult()
    before = demographic_parity_difference(
        train(library, seen.y, seen.X).predict_proba(held_out.X), sensitive_features=held_out.sex
    )
    after = demographic_parity_difference(
        train(library, fair_adult(), seen.X).predict_proba(held_out.X),
        sensitive_features=held_out.sex,
    )
    assert before > 0.4
    assert after < before / 10


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_give_the_model_of_the_own_objective(library, weighted):
    seen, held_out = injected_adult()
    weight = (
        np.random.default_rng(2).integers(1, 4, len(seen.y)).astype(float) if weighted else None
    )
    ours = train(library, seen.y, seen.X, sample_weight=weight).predict_proba(held_out.X)
    own = built_in(library, seen.y, seen.X, held_out.X, weight=weight)
    np.testing.assert_allclose(ours, own, rtol=0, atol=AGREEMENT[library])


def test_fair_labels_give_the_model_of_the_weighted_expansion(library):
    seen, held_out = injected_adult()
    # Rules that count rows, and bins made from counts, would see the repetitions; these do not.
    by_weight = {
        "min_data_in_leaf": 0,
        "min_sum_hessian_in_leaf": 2.0,
        "min_data_in_bin": 1,
        "enable_bundle": False,
    }
    params = by_weight if library == "lightgbm" else {"tree_method": "exact"}
    X, y, weight = fair_adult().expand(seen.X)
    assert len(X) > 4 * len(seen.X)
    ours = train(library, fair_adult(), seen.X, rounds=5, params=params).predict_proba(held_out.X)
    expanded = built_in(library, y, X, held_out.X, rounds=5, weight=weight, params=params)
    np.testing.assert_allclose(ours, expanded, rtol=0, atol=1e-6 if library == "lightgbm" else 1e-4)


def test_a_model_survives_pickling_without_its_labels(library):
    seen, held_out = injected_adult()
    model = train(library, fair_adult(), seen.X, rounds=2)
    stored = pickle.dumps(model)
    np.testing.assert_array_equal(
        pickle.loads(stored).predict_proba(held_out.X), model.predict_proba(held_out.X)
    )
    assert b"SoftTargets" not in stored


def test_training_stops_where_the_watched_rows_no_longer_gain(library):
    seen, held_out = injected_adult()
    watched = fair_adult().transform(held_out.y, sensitive_features=held_out.sex)
    # Large leaves: with small ones the margins of rare classes run away, in the library's own
    # objective as well.
    params = {"learning_rate": 0.3} | (
        {"min_sum_hessian_in_leaf": 2.0} if library == "lightgbm" else {}
    )
    model = train(
        library,
        fair_adult(),
        seen.X,
        60,
        params,
        validation=(held_out.X, watched),
        early_stopping_rounds=2,
    )

    def loss(rounds):
        p = train(library, fair_adult(), seen.X, rounds, params).predict_proba(held_out.X)
        return float(-(watched * np.log(p)).sum(axis=1).mean())

    # one counts from 1, the other from 0
    best = model.booster_.best_iteration + (library == "xgboost")
    assert best < 50
    losses = [loss(rounds) for rounds in range(1, best + 3)]
    assert int(np.argmin(losses)) + 1 == best
    stopped = float(-(watched * np.log(model.predict_proba(held_out.X))).sum(axis=1).mean())
    assert stopped == pytest.approx(min(losses), abs=1e-9)


@pytest.mark.parametrize("name", ["objective", "num_class"])
def test_what_follows_from_the_labels_is_not_asked(library, name):
    with pytest.raises(ParameterError, match=rf"'{name}' .* Leave it out"):
        train(library, ["a", "b"], np.zeros((2, 1)), params={name: 3})


def test_early_stopping_needs_rows_to_watch(library):
    with pytest.raises(ParameterError, match=r"validation=\(X, labels\)"):
        train(library, ["a", "b"], np.zeros((2, 1)), early_stopping_rounds=3)


@pytest.mark.parametrize(
    ("make", "factor"), [(lightgbm_objective, 4 / 3), (xgboost_objective, 2.0)]
)
def test_the_objective_is_the_derivative_of_the_weighted_cross_entropy(make, factor):
    rng = np.random.default_rng(5)
    y, margins, weight, start = (
        rng.dirichlet(np.ones(4), 7),
        rng.normal(size=(7, 4)),
        rng.random(7) + 0.5,
        rng.normal(size=4),
    )

    def loss(z):
        return -(
            weight[:, None] * y * (z + start - np.log(np.exp(z + start).sum(axis=1, keepdims=True)))
        ).sum(axis=1)

    gradient, hessian = make(y, sample_weight=weight, start=start)(margins, None)
    h = 1e-4
    for k in range(4):
        up, down = margins.copy(), margins.copy()
        up[:, k] += h
        down[:, k] -= h
        np.testing.assert_allclose(
            gradient[:, k], (loss(up) - loss(down)) / (2 * h), rtol=0, atol=1e-6
        )
        # The libraries use more than the diagonal of the second derivative, to make up for the rest
        # of it.
        np.testing.assert_allclose(
            hessian[:, k],
            factor * (loss(up) - 2 * loss(margins) + loss(down)) / h**2,
            rtol=0,
            atol=1e-5,
        )


@pytest.mark.parametrize("start", [[0.0], [0.0, np.nan]])
def test_a_start_that_fits_no_classes_is_refused(start):
    with pytest.raises(ParameterError, match=r"start"):
        lightgbm_objective(["a", "b"], start=start)


@pytest.mark.parametrize(
    "watched", [([[0.0]], ["a"], [1.0]), np.zeros((2, 2))], ids=["three things", "an array"]
)
def test_rows_to_watch_are_two_things(library, watched):
    with pytest.raises(ParameterError, match=r"validation=\(X, labels\)"):
        train(library, ["a", "b"], np.zeros((2, 1)), validation=watched)


def test_another_number_of_features_is_refused():
    pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = train("xgboost", ["a", "b"] * 25, X, rounds=2)
    with pytest.raises(ShapeError, match="X has 2 features, but the model was trained on 3"):
        model.predict_proba(X[:, :2])
