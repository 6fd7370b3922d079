"""Training rows handed to a learner: weights under the right keyword, rows for early stopping held back whole, refusals with a remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputRegressor

from r2b._data.arrays import plain_value
from r2b.errors import InputError, ParameterError
from r2b.sklearn.learners import Form, own_split, reads_pairs, takes_classes, takes_matrix, takes_validation_rows, weight_keyword
from r2b.sklearn.strategies import Array, TrainingRows


def fresh_learner(estimator: Any, form: Form) -> Any:
    """Clone the learner; a regressor of one output becomes one regressor per class."""
    learner = clone(estimator)
    one_by_one = form == "soft" and is_regressor(learner) and not takes_matrix(learner)
    return MultiOutputRegressor(learner) if one_by_one else learner


def train(learner: Any, X: Any, rows: TrainingRows, form: Form, seed: Any) -> Any:
    """Fit a fresh learner on training rows.

    Raises
    ------
    InputError
        One class is left.
    ParameterError
        There are weights that the learner cannot take, or targets that it refuses.
    """
    _refuse_one_class(rows)
    _refuse_pairwise(learner, rows)
    # Copies of one row on both sides of a split would make early stopping see what was trained on.
    if form == "expand" and takes_validation_rows(learner) and own_split(learner, len(rows.target)) is not None:
        rows, held = split_whole_rows(rows, learner.get_params()["validation_fraction"], seed)
        held_back = {"X_val": held.features(X), "y_val": held.target, "sample_weight_val": held.weight}
        return _call(learner, "fit", X, rows, **held_back)
    if form == "soft" and not is_regressor(learner):
        return _fit_soft_classifier(learner, X, rows)
    return _call(learner, "fit", X, rows)


def train_further(learner: Any, X: Any, rows: TrainingRows, classes: Array) -> Any:
    """Show a learner one more batch."""
    _refuse_pairwise(learner, rows)
    return _call(learner, "partial_fit", X, rows, **({"classes": classes} if takes_classes(learner) else {}))


def split_whole_rows(rows: TrainingRows, held_back: float | int, seed: Any) -> tuple[TrainingRows, TrainingRows]:
    """Split training rows so that the copies of one row stay together and no class is held back entirely.

    Examples
    --------
    >>> copies = TrainingRows(np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array(list("abababab")), np.full(8, 0.5))
    >>> left, held = split_whole_rows(copies, 0.25, 0)
    >>> len(left.target), len(held.target), len(set(held.index))
    (6, 2, 1)
    """
    index = np.arange(len(rows.target)) if rows.index is None else rows.index
    state = int(np.random.default_rng(seed).integers(2**31))
    _, chosen = train_test_split(np.unique(index), test_size=held_back, random_state=state)
    held = np.isin(index, chosen)
    only_held = ~np.isin(rows.target, np.unique(rows.target[~held]))
    held &= ~np.isin(index, index[only_held])
    return rows.part(np.flatnonzero(~held)), rows.part(np.flatnonzero(held))


def _call(learner: Any, method: str, X: Any, rows: TrainingRows, **further: Any) -> Any:
    keyword = weight_keyword(learner, method)
    if rows.weight is not None and keyword is None:
        name = type(learner).__name__
        raise ParameterError(
            f"There are row weights, but {name}.{method} takes no sample_weight, so they would count for the labels and not for the model.",
            remedy="Leave sample_weight out, or pass a learner that takes it.",
            estimator=name,
        )
    if rows.weight is not None and keyword is not None:
        further[keyword] = rows.weight
    # The weights are ours and not metadata that the user routes: they go to the learner, whatever the steps before it asked for.
    with config_context(enable_metadata_routing=False):
        getattr(learner, method)(rows.features(X), rows.target, **further)
    return learner  # not what the call gave back: MultiOutputRegressor.partial_fit gives nothing


def _fit_soft_classifier(learner: Any, X: Any, rows: TrainingRows) -> Any:
    name = type(learner).__name__
    try:
        return _call(learner, "fit", X, rows)
    except (ValueError, TypeError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(
            f"{name} was given a matrix of probabilities as its target and refused it ({error}).",
            remedy="Use form='auto', or the regressor of the same family, such as KNeighborsRegressor for KNeighborsClassifier.",
            estimator=name,
            form="soft",
        ) from error


def _refuse_one_class(rows: TrainingRows) -> None:
    if rows.target.ndim == 1 and (rows.target == rows.target[0]).all():
        only = plain_value(rows.target[0])
        raise InputError(
            f"All rows that are left for training are of the one class {only!r}, so that there is nothing to learn.",
            remedy="Pass more rows, another random_state or a larger epsilon; rows of weight 0 do not count.",
            value=only,
        )


def _refuse_pairwise(learner: Any, rows: TrainingRows) -> None:
    if rows.index is not None and reads_pairs(learner):
        way = "Leave out rows of weight 0" if is_regressor(learner) else "Use form='round' or 'sample' without weights of zero"
        raise ParameterError(
            f"X is a table of pairs of rows to {type(learner).__name__}, and rows of it cannot be repeated or left out.",
            remedy=f"{way}, or let the learner compute the kernel from features.",
            estimator=type(learner).__name__,
        )
