"""What a trained learner says about new rows, as probabilities over all classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

from r2b._solve.oracle.plain import project
from r2b.errors import InputError, ShapeError
from r2b.sklearn.strategies import Array


def gives_probabilities(model: Any) -> bool:
    """Tell whether a classifier around a learner can give probabilities: by regression, or because the learner does."""
    return bool(is_regressor(model.estimator)) or hasattr(getattr(model, "estimator_", model.estimator), "predict_proba")


def probabilities_of(learner: Any, X: Any, classes: Array, form: str) -> Array:
    """Give the probabilities of all classes.

    Predictions of regressors are put back by the Euclidean projection. Clipping at 0 and dividing by the sum is the other way: it has no
    answer for a row of zeros, and dividing moves large entries more than small ones, while the projection takes the same from all. The
    projection is also never farther from the true probabilities than the prediction was, since these lie in the simplex.

    Parameters
    ----------
    learner : estimator
        Trained.
    X : array, sparse matrix or frame
    classes : ndarray of shape (L,)
    form : str

    Returns
    -------
    ndarray of shape (n, L)
        Columns in the order of ``classes``, whatever order the learner has.
    """
    if form == "soft":
        regression = is_regressor(learner)
        rows = np.asarray(learner.predict(X) if regression else learner.predict_proba(X), np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(classes):
            raise ShapeError(
                f"{type(learner).__name__} was trained on {len(classes)} columns of probabilities and answers with shape {rows.shape}.",
                remedy="Use another form for this learner.",
                shape=rows.shape,
            )
        return project(rows)
    given = np.asarray(learner.predict_proba(X))
    known = np.asarray(learner.classes_)
    if known.tolist() == classes.tolist():
        return given
    out = np.zeros((len(given), len(classes)), given.dtype)
    place = {value: k for k, value in enumerate(classes.tolist())}
    out[:, [place[value] for value in known.tolist()]] = given
    return out


def scores_of(learner: Any, X: Any, classes: Array) -> Array:
    """Give what the learner's ``decision_function`` gives, if it speaks of all classes.

    Raises
    ------
    InputError
        Debiasing left a class without any row, so that the learner has no score for it.
    """
    known = np.asarray(learner.classes_)
    if known.tolist() != classes.tolist():
        lost = next(value for value in classes.tolist() if value not in known.tolist())
        raise InputError(
            f"{type(learner).__name__} has no score for the class {lost!r}, which debiasing left without any row.",
            remedy="Use predict, or predict_proba, which gives the class the probability 0.",
            value=lost,
        )
    return np.asarray(learner.decision_function(X))


def most_probable(probabilities: Array, classes: Array) -> Array:
    """Give the decision of a model on new rows; the labels that a model is trained on never pass through here.

    Examples
    --------
    >>> most_probable(np.array([[0.25, 0.75]]), np.array(["no", "yes"])).tolist()
    ['yes']
    """
    return np.asarray(classes[probabilities.argmax(axis=1)])
