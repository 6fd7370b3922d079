"""The methods that ``models.py`` compares, each trained on the same rows.

LinearPost and FairProjection are other people's code, taken from paths; nothing of them is kept
here. Both are handed the scores and the predictions of the group that ours work on, out of fold and
by the same learner, which is more than they ask for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV

from benchmarks.models_cases import Array, Split
from r2b.sklearn import ParityClassifier, ParityPostprocessor
from r2b.sklearn.folds import code_probabilities, make_folds, out_of_fold
from r2b.sklearn.training import train_on_classes

PATH = (0.03, 0.1)  # epsilons of ParityPostprocessor, for accuracy at the parity of others
ALPHA = 0.001  # LinearPost's own default; its linear programme is solved by HiGHS
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions for the test rows: classes, and probabilities if the method has them."""

    decisions: Array
    probabilities: Array | None = None
    note: str = ""


class NoAnswer(Exception):
    """A method that could not answer; the message says why."""


Method = Callable[[Any, Split], Mapping[str, Answer]]
"""From a learner and rows to answers by name: methods that come out of one fit share it."""


def _known(attribute: str, split: Split) -> dict[str, Any]:
    return {"sensitive_features": split.groups_test} if attribute == "given" else {}


def _fitted(model: Any, split: Split) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is above epsilon is measured here on other rows
        further = (
            {} if split.clusters is None or not model._cross_fits else {"clusters": split.clusters}
        )
        return model.fit(split.X, split.y, sensitive_features=split.groups, **further)


def _full(model: Any, X: Array, classes: Array) -> Array:
    """Return probabilities with a column for every class, 0 for one that was not trained."""
    matrix = np.zeros((len(X), len(classes)))
    matrix[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    return matrix


def plain(learner: Any, split: Split) -> Mapping[str, Answer]:
    """The learner on the labels as they came."""
    model = clone(learner).fit(split.X, split.y)
    return {"plain": Answer(model.predict(split.X_test), _full(model, split.X_test, split.classes))}


def by_true_group(learner: Any, split: Split) -> Mapping[str, Answer]:
    """The paper: labels made fair by the true groups, and the likeliest class."""
    model = _fitted(ParityClassifier(clone(learner), groups="given", decisions="likeliest"), split)
    return {
        "labels by true group": Answer(
            model.predict(split.X_test), model.predict_proba(split.X_test)
        )
    }


def classifier(learner: Any, split: Split) -> Mapping[str, Answer]:
    """``ParityClassifier`` by default, and the learner in it without prices."""
    model = _fitted(ParityClassifier(clone(learner), frontier=0), split)
    inner = _full(model.estimator_, split.X_test, split.classes)
    return {
        "ParityClassifier": Answer(model.predict(split.X_test), model.predict_proba(split.X_test)),
        "labels by visible group": Answer(model.estimator_.predict(split.X_test), inner),
    }


def postprocessor(
    learner: Any, split: Split, attribute: str = "predicted", epsilon: float = 0.0
) -> Mapping[str, Answer]:
    """``ParityPostprocessor``, without the attribute at prediction or with it."""
    model = _fitted(
        ParityPostprocessor(clone(learner), attribute=attribute, epsilon=epsilon, frontier=0), split
    )
    known = _known(attribute, split)
    name = "ParityPostprocessor" + (
        ", attribute given" if attribute == "given" else f", epsilon {epsilon:g}" if epsilon else ""
    )
    return {
        name: Answer(
            model.predict(split.X_test, **known), model.predict_proba(split.X_test, **known)
        )
    }


def _out_of_fold(learner: Any, split: Split, target: Array) -> tuple[Array, Array]:
    """Predict codes out of fold for training rows, in the package's folds, and for test rows."""
    strata = np.unique(split.groups, return_inverse=True)[1] * len(split.classes) + np.searchsorted(
        split.classes, split.y
    )
    folds, n = make_folds(strata, FOLDS, 0, split.clusters), int(target.max()) + 1

    def predict(left: Array, held: Array) -> tuple[Array, Any]:
        model = train_on_classes(learner, split.X[left], target[left], None)
        return code_probabilities(model, split.X[held], n), model

    rows, _ = out_of_fold(predict, folds, n, None)
    return rows, code_probabilities(
        train_on_classes(learner, split.X, target, None), split.X_test, n
    )


def _scores(learner: Any, split: Split) -> dict[str, Array]:
    """P(class | x) and P(group | x) of training rows, out of fold, and of test rows."""
    classes, test_classes = _out_of_fold(learner, split, np.searchsorted(split.classes, split.y))
    groups, test_groups = _out_of_fold(
        learner, split, np.unique(split.groups, return_inverse=True)[1]
    )
    return {
        "classes": classes,
        "groups": groups,
        "test_classes": test_classes,
        "test_groups": test_groups,
    }


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Probabilities that are there already, as the features of a classifier to be calibrated."""

    def fit(self, X: Array, y: Array) -> Given:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Array) -> Array:
        return X

    def predict(self, X: Array) -> Array:
        return np.asarray(self.classes_[X.argmax(axis=1)])


def _calibrated(scores: Array, test: Array, target: Array) -> tuple[Array, Array]:
    """Calibrate as LinearPost's notebooks do: by sigmoids on the rows that it is fitted on."""
    model = CalibratedClassifierCV(Given(), method="sigmoid", ensemble=False).fit(scores, target)
    return model.predict_proba(scores), model.predict_proba(test)


def linear_post(
    learner: Any, split: Split, folder: Path, calibrate: bool = False
) -> Mapping[str, Answer]:
    """LinearPost, which also needs no attribute at prediction. It gives decisions alone."""
    sys.path.insert(0, str(folder))
    try:
        import cvxpy
        from postprocess import PostProcessor  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(folder))
    given = _scores(learner, split)
    if calibrate:
        for name, values in (("classes", split.y), ("groups", split.groups)):
            codes = np.unique(values, return_inverse=True)[1]
            found = _calibrated(given[name], given[f"test_{name}"], codes)
            given[name], given[f"test_{name}"] = found
    model = PostProcessor(
        len(split.classes), given["groups"].shape[1], criterion="sp", alpha=ALPHA, seed=0
    )
    try:
        model.fit(p_a_x=given["groups"], p_y_x=given["classes"], solver=cvxpy.HIGHS)
    except (cvxpy.error.SolverError, TypeError) as error:
        raise NoAnswer(f"its linear programme was not solved ({error})") from error
    codes = model.predict(p_a_x=given["test_groups"], p_y_x=given["test_classes"])
    return {"LinearPost" + ", calibrated" * calibrate: Answer(split.classes[codes])}


def fair_projection(
    learner: Any, split: Split, folder: Path, python: str, seconds: float
) -> Mapping[str, Answer]:
    """FairProjection, run by an interpreter with TensorFlow; it decides by argmax."""
    with tempfile.TemporaryDirectory(prefix="r2b-models-") as place:
        np.savez(Path(place) / "given.npz", **_scores(learner, split))  # type: ignore[arg-type]
        script = Path(__file__).with_name("models_foreign.py")
        call = [python, str(script), json.dumps({"folder": str(folder), "place": place})]
        try:
            done = subprocess.run(
                call, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise NoAnswer(f"no answer in {seconds:g} s") from late
        if done.returncode:
            raise NoAnswer(
                done.stderr.strip().splitlines()[-1][:160]
                if done.stderr.strip()
                else f"exit status {done.returncode}"
            )
        found = np.load(Path(place) / "found.npy")
    return {
        "FairProjection": Answer(
            split.classes[found.argmax(axis=1)], found, note=done.stdout.strip()
        )
    }


def exponentiated_gradient(learner: Any, split: Split) -> Mapping[str, Answer]:
    """fairlearn's reduction, for two classes; decisions are drawn from its mixture of models."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    target = (split.y == split.classes[1]).astype(int)
    model = ExponentiatedGradient(
        clone(learner), DemographicParity(difference_bound=0.005), eps=0.005, max_iter=25
    )
    model.fit(split.X, target, sensitive_features=split.groups)
    return {
        "ExponentiatedGradient": Answer(
            split.classes[np.asarray(model.predict(split.X_test, random_state=0))]
        )
    }


def threshold_optimizer(learner: Any, split: Split) -> Mapping[str, Answer]:
    """fairlearn's thresholds per group, for two classes; it needs the attribute at prediction."""
    from fairlearn.postprocessing import ThresholdOptimizer

    target = (split.y == split.classes[1]).astype(int)
    model = ThresholdOptimizer(
        estimator=clone(learner), constraints="demographic_parity", predict_method="predict_proba"
    )
    model.fit(split.X, target, sensitive_features=split.groups)
    found = model.predict(split.X_test, sensitive_features=split.groups_test, random_state=0)
    return {"ThresholdOptimizer, attribute given": Answer(split.classes[np.asarray(found)])}


def methods(
    n_classes: int,
    linearpost: Path | None,
    fairprojection: Path | None = None,
    python: str = sys.executable,
    seconds: float = 120.0,
) -> dict[str, Method]:
    """Return every method that can be run on a table."""
    found: dict[str, Method] = {
        "plain": plain,
        "labels by true group": by_true_group,
        "ParityClassifier": classifier,
        "ParityPostprocessor": postprocessor,
        "ParityPostprocessor, attribute given": lambda learner, split: postprocessor(
            learner, split, "given"
        ),
    }
    for epsilon in PATH:
        found[f"ParityPostprocessor, epsilon {epsilon:g}"] = lambda learner, split, e=epsilon: (
            postprocessor(learner, split, epsilon=e)
        )  # type: ignore[misc]
    if n_classes == 2:
        found["ExponentiatedGradient"] = exponentiated_gradient
        found["ThresholdOptimizer, attribute given"] = threshold_optimizer
    if linearpost is not None:
        for calibrate in (False, True):
            found["LinearPost" + ", calibrated" * calibrate] = partial(
                linear_post, folder=linearpost, calibrate=calibrate
            )
    if fairprojection is not None:
        found["FairProjection"] = lambda learner, split: fair_projection(
            learner, split, fairprojection, python, seconds
        )
    return found
