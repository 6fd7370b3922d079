"""Adult with injected bias, learners, and the ways to train each of them on fair labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

import r2b
from experiments.adult import N_CLASSES, TEST_SHARE, columns_of, encoded
from r2b.metrics import demographic_parity_difference
from r2b.metrics.chance import sampling_level
from r2b.metrics.performance import top_k_accuracy

Array = np.ndarray[Any, np.dtype[Any]]

PERMUTATIONS = 50


@dataclass(frozen=True, eq=False)
class Split:
    """Features without sex, education as 0 to 15, and sex, for training and for the test."""

    X: Array
    y: Array
    sex: Array
    X_test: Array
    y_test: Array
    sex_test: Array

    def head(self, n_rows: int) -> Split:
        """Keep the first training rows only; they are in random order already."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows], sex=self.sex[:n_rows])


@cache
def adult() -> tuple[Array, Array, Array]:
    """Return the 29 features, education in order, and sex, of rows without a question mark."""
    columns, y, sex = columns_of()
    return encoded(columns, "mixed"), y, sex


def split_of(p: float, seed: int) -> Split:
    """Inject the paper's bias, split, and scale by the training rows.

    With probability p the label becomes the sex, 0 or 1.
    """
    X, y, sex = adult()
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(len(y)) < p, sex, y)
    order = rng.permutation(len(y))
    n_test = int(TEST_SHARE * len(y))
    test, train = order[:n_test], order[n_test:]
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return Split(X[train], y[train], sex[train], X[test], y[test], sex[test])


Predictor = Callable[[Array], tuple[Array, Array]]
"""From features to probabilities, and the classes of their columns."""


def measured(train: Callable[[], Predictor], split: Split) -> dict[str, float]:
    """Train, predict, and compare with the test rows.

    Ties go to the first class, as in scikit-learn's kNN; or to any of them.
    """
    begun = time.process_time()  # of the processor: what else the machine does is no matter
    predict = train()
    seconds = time.process_time() - begun
    given, known = predict(split.X_test)
    classes = np.arange(N_CLASSES)
    scores = np.zeros((len(given), N_CLASSES))
    scores[:, known] = given
    decided = classes[scores.argmax(axis=1)]  # the decision of a model, not a label to train on
    groups = {"sensitive_features": split.sex_test}
    return {
        "probability": demographic_parity_difference(scores, **groups),
        "hard": demographic_parity_difference(decided, **groups),
        "accuracy": float((decided == split.y_test).mean()),
        "ties_at_random": top_k_accuracy(split.y_test, scores, classes=classes).value,
        "chance": sampling_level(scores, n_permutations=PERMUTATIONS, **groups).mean,
        "fit_seconds": seconds,
    }


@dataclass(frozen=True)
class Learner:
    """A learner by name, and the ways in which it can be trained.

    Attributes
    ----------
    name : str
    makers : dict
        Form to a function that makes the estimator. The first is what ``form="auto"`` takes.
    """

    name: str
    makers: dict[str, Callable[[], Any]]

    @property
    def own(self) -> str:
        """The form that the library chooses."""
        return next(iter(self.makers))

    @property
    def ways(self) -> tuple[str, ...]:
        """All ways, the baseline first and the trap last."""
        return ("baseline", *self.makers, f"{self.own}, agreement", "argmax")

    @property
    def few_ways(self) -> tuple[str, ...]:
        """Those that show the most."""
        return ("baseline", self.own, f"{self.own}, agreement", "argmax")


def trained(learner: Learner, way: str, split: Split) -> Predictor:
    """Train in one way.

    Parameters
    ----------
    learner : Learner
    way : str
        A form; a form on labels with the fewest changes instead of the smallest distance ("sample,
        agreement"); "baseline", on the labels as they came; "argmax", on the likeliest class of
        each fair row, which nothing but this benchmark does.
    split : Split
    """
    form, _, objective = way.partition(", ")
    y, options = split.y, {"objective": objective or "distance", "epsilon": 0.0}
    if form == "argmax":
        fair = r2b.debias(y, sensitive_features=split.sex)
        y = fair.classes[fair.soft_labels.argmax(axis=1)]
    if form in ("argmax", "baseline"):
        # met by any labels, which are then returned as they came
        form, options = learner.own, {"epsilon": 1.0}
    make = learner.makers[form]
    if make is boosted:
        return boosted(y, split, **options)
    from r2b.sklearn import ParityClassifier

    # What is measured is training on fair labels alone, the way of the paper.
    model = ParityClassifier(
        make(), groups="given", decisions="likeliest", form=form, random_state=0, **options
    )
    model.fit(split.X, y, sensitive_features=split.sex)
    return lambda X: (model.predict_proba(X), model.classes_)


BOOSTING = {"num_leaves": 15, "learning_rate": 0.2}
ROUNDS = 30


def boosted(y: Array, split: Split, **options: Any) -> Predictor:
    """Train LightGBM on soft labels, by its own function instead of the classifier."""
    from r2b.models.boosting import train_lightgbm

    fair = r2b.debias(y, sensitive_features=split.sex, **options)
    model = train_lightgbm(
        fair, split.X, {**BOOSTING, "num_threads": 1, "verbosity": -1}, num_boost_round=ROUNDS
    )
    return lambda X: (model.predict_proba(X), model.classes)


def learners() -> tuple[Learner, ...]:
    """Return the learners, each with one thread, since splits run in parallel."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    trees = {"max_depth": 5, "max_samples": 0.25, "random_state": 0}
    steps = {"learning_rate": 0.2, "max_leaf_nodes": 15, "max_iter": ROUNDS, "random_state": 0}
    layers = {"hidden_layer_sizes": (64,), "batch_size": 256, "max_iter": 10}
    layers |= {"tol": 0, "random_state": 0}
    light = {"n_estimators": ROUNDS, "n_jobs": 1, "verbosity": -1, **BOOSTING}

    def forest_per_class() -> Any:
        return MultiOutputRegressor(RandomForestRegressor(10, **trees))

    def on_classes(kind: type, own: str = "expand", **options: Any) -> dict[str, Callable[[], Any]]:
        return dict.fromkeys((own, "expand", "sample", "round"), partial(kind, **options))

    boosting = on_classes(HistGradientBoostingClassifier, "round", **steps)
    neighbours = {"sample": KNeighborsClassifier, "round": KNeighborsClassifier}
    return (
        Learner("logistic regression", on_classes(LogisticRegression, tol=1e-3, max_iter=300)),
        Learner("random forest, one per class", {"soft": forest_per_class}),
        Learner("random forest", on_classes(RandomForestClassifier, n_estimators=50, **trees)),
        Learner(
            "gradient boosting",
            {**boosting, "soft": partial(HistGradientBoostingRegressor, **steps)},
        ),
        Learner("kNN", {**neighbours, "soft": KNeighborsRegressor}),
        Learner(
            "MLP", {**on_classes(MLPClassifier, **layers), "soft": partial(MLPRegressor, **layers)}
        ),
        Learner("LightGBM", {**on_classes(LGBMClassifier, "round", **light), "soft": boosted}),
    )
