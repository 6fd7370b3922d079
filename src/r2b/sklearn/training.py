"""Training on the rows of a fit: once on all of them, and once per fold for scores that no row was trained on for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.multioutput import MultiOutputRegressor

from r2b._data.arrays import Array, Floats, Whole, plain_value
from r2b._labels.labels import Form
from r2b.errors import ParameterError, UnseenError
from r2b.sklearn.crossfit import columns_of, out_of_fold, rows_at
from r2b.sklearn.fit_rows import FitRows
from r2b.sklearn.forms import TrainingRows, fresh_learner, train
from r2b.sklearn.labels import class_order
from r2b.sklearn.learners import class_scores
from r2b.sklearn.visible import train_groups


def trained_on(
    learner: Any, rows: FitRows, training: TrainingRows, form: Form, own: bool = False
) -> Any:
    """Fit a clone of the learner on all rows; ``own`` hands it the callbacks themselves instead of copies."""
    params = params_for(learner, rows.fit_params, form, rows.classes, own)
    return train(fresh_learner(learner, form), rows.X, training, form, rows.seed, params, rows.y)


def scored(
    learner: Any, rows: FitRows, training: Sequence[TrainingRows], form: Form, n_jobs: int | None
) -> tuple[Floats, tuple[Any, ...]]:
    """Give the probabilities of every row by a clone of the learner that was trained without its fold, on training rows for that fold.

    The clones come with them, one per fold.
    """

    def predict(left: Whole, held: Whole) -> tuple[Floats, Any]:
        own = training[int(rows.folds.number[held[0]])].among(left)
        params = params_for(learner, rows.fit_params, form, rows.classes)
        model = train(fresh_learner(learner, form), rows.X, own, form, rows.seed, params, rows.y)
        return class_scores(model, rows_at(rows.X, held), rows.classes, form), model

    return out_of_fold(predict, rows.folds, len(rows.classes), n_jobs)


def codes_apart(learner: Any, rows: FitRows, codes: Floats) -> Iterator[Floats]:
    """For each fold give the probabilities of codes that nothing of that fold has entered: neither model that predicts them knows it.

    Labels that are debiased by predictions of groups depend on the true groups of the rows around.
    A model that is trained on such labels knows something of the group of a row that it never saw,
    and looks fairer there than it is for new rows; the closer learners follow single rows, as trees
    and neighbours do, the more.

    Parameters
    ----------
    learner : classifier
        Predicts the groups.
    rows : FitRows
    codes : ndarray of shape (n, n_codes)
        Predicted out of fold: what the rows of the fold itself get, which nothing is trained on.
    """
    folds, groups = rows.folds, rows.groups
    found = [codes.copy() for _ in range(folds.n)]
    for first, second in combinations(range(folds.n), 2):
        left = np.flatnonzero((folds.number != first) & (folds.number != second))
        if len(left) == 0 or (groups.codes[left] == groups.codes[left[0]]).all():
            # two folds, or a group that is in these two alone: predictions out of fold are all
            # there is
            continue
        model = train_groups(
            learner,
            rows_at(rows.X, left),
            groups.codes[left],
            None if groups.weight is None else groups.weight[left],
        )
        for apart, held in ((first, second), (second, first)):
            there = np.flatnonzero(folds.number == held)
            found[apart][there] = columns_of(model, rows_at(rows.X, there), groups.n_codes)
    yield from found


def params_for(
    learner: Any, fit_params: Mapping[str, Any], form: Form, classes: Array, own: bool = False
) -> dict[str, Any]:
    """Give what one training of a learner is passed besides its rows.

    Callbacks remember what they saw, such as the best round, so that each training gets its own.
    Where labels are probabilities, those of evaluation sets become probabilities too.

    Parameters
    ----------
    learner : estimator
    fit_params : mapping
    form : {"expand", "sample", "round", "soft"}
    classes : ndarray of shape (L,)
    own : bool
        Hand over the callbacks themselves.

    Raises
    ------
    ParameterError
        Callbacks cannot be copied, or a regressor per class was given evaluation sets.
    UnseenError
        An evaluation set has a class that the rows do not have.
    """
    params = dict(fit_params)
    for key, value in fit_params.items():
        name = key.rpartition("__")[2]
        if name == "callbacks" and not own:
            params[key] = _copied(value, key)
        if name == "eval_set" and value is not None and form == "soft":
            if isinstance(fresh_learner(learner, form), MultiOutputRegressor):
                problem = f"{type(learner).__name__} is trained once per class, and {key} has one column of labels for all of them."
                remedy = "Pass a classifier, or a learner of several outputs, or leave it out."
                raise ParameterError(problem, remedy=remedy, parameter=key)
            params[key] = [
                (X, _soft(y, classes[class_order(classes)], key), *rest) for X, y, *rest in value
            ]
    return params


def _copied(callbacks: Any, key: str) -> Any:
    try:
        return deepcopy(callbacks)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        problem = f"{key} holds an object that cannot be copied ({error}), but every fold is trained with callbacks of its own."
        remedy = "Pass functions, or objects that copy.deepcopy takes."
        raise ParameterError(problem, remedy=remedy, parameter=key) from error


def _soft(y: Any, classes: Array, key: str) -> Array:
    """Give labels as probabilities; a matrix is left as it is."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] > 1:
        return labels
    match = labels.reshape(-1, 1) == classes
    if not match.any(axis=1).all():
        value = plain_value(labels.ravel()[np.flatnonzero(~match.any(axis=1))[0]])
        remedy = "Pass evaluation rows of the classes in y."
        raise UnseenError(
            f"{key} has the class {value!r}, which y does not have.", remedy=remedy, value=value
        )
    return np.asarray(match, np.float64)
