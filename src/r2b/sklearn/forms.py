"""From fair labels to the rows that a learner is trained on, for each form, and the training; no form is the most probable class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_method_params

from r2b._data.arrays import Array, plain_value
from r2b._labels import FairLabels
from r2b._labels.labels import Form
from r2b._labels.sampling import take_rows
from r2b.errors import InputError, ParameterError
from r2b.sklearn.labels import class_order, part_of
from r2b.sklearn.learners import (
    FormChoice,
    choose,
    final_step,
    own_split,
    parameters_of,
    reads_pairs,
    takes_validation_rows,
    weight_keyword,
)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What a learner is shown.

    Attributes
    ----------
    index : ndarray of shape (m,), or None
        Row of X behind each training row; None where they are the rows of X themselves.
    target : ndarray of shape (m,) or (m, n_classes)
        Classes, or probabilities.
    weight : ndarray of shape (m,), or None
        Positive numbers.
    """

    index: Array | None
    target: Array
    weight: Array | None

    def features(self, X: Any) -> Any:
        """Take the features of these rows, as the kind of table that came in; X itself where no row moves."""
        return X if self.index is None else take_rows(indexable(X), self.index)

    def among(self, rows: Array) -> TrainingRows:
        """Keep what is of these rows of X."""
        return self.part(rows if self.index is None else np.flatnonzero(np.isin(self.index, rows)))

    def part(self, chosen: Array) -> TrainingRows:
        """Keep some of the rows."""
        index = chosen if self.index is None else self.index[chosen]
        return TrainingRows(
            index, self.target[chosen], None if self.weight is None else self.weight[chosen]
        )


def labels_as(labels: FairLabels, form: Form, random_state: Any) -> Any:
    """Give the fair labels of the fitted rows in a form, as ``FairLabels.transform`` gives those of others."""
    if form == "soft":
        return labels.soft_labels
    return labels.expand() if form == "expand" else getattr(labels, form)(random_state)


def training_rows(
    labels: FairLabels, form: Form, given: Any, n_rows: int, weight: Array | None
) -> TrainingRows:
    """Give the rows to train on from the labels of ``n_rows`` rows in a form, and the weights of those rows.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"])
    >>> rows = training_rows(fair, "expand", labels_as(fair, "expand", 0), 6, None)
    >>> len(rows.target), round(float(rows.weight.sum()), 9)
    (11, 6.0)
    """
    index, target, weight = given if form == "expand" else (None, given, weight)
    target, order = np.asarray(target), class_order(labels.classes)
    if target.ndim == 1:
        # Columns of text come back from some libraries as objects; the learner and ``classes_``
        # must have the same values.
        target = target.astype(labels.classes.dtype, copy=False)
    elif not (np.diff(order) > 0).all():
        target = target[:, order]
    rows = TrainingRows(index, target, weight)
    # A row of weight 0 is as good as absent, but not to a learner that draws rows or counts those
    # in a leaf.
    if weight is not None and not weight.all():
        rows = rows.part(np.flatnonzero(weight))
    if (
        rows.index is not None
        and len(rows.index) == n_rows
        and bool((rows.index == np.arange(n_rows)).all())
    ):
        return replace(rows, index=None)
    return rows


def chosen_rows(
    wanted: str, learner: Any, labels: FairLabels, seed: int
) -> tuple[FormChoice, TrainingRows]:
    """Choose a form and give its rows."""
    data = labels.dataset
    assert data is not None
    choice = choose(wanted, learner, data.n_rows)
    return choice, training_rows(
        labels, choice.form, labels_as(labels, choice.form, seed), data.n_rows, data.weight
    )


def indexable(X: Any) -> Any:
    """Give features as something that rows can be taken of."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if hasattr(X, "__array__") and not hasattr(X, "__getitem__"):
        return np.asarray(X)
    return X


def fresh_learner(estimator: Any, form: Form) -> Any:
    """Clone the learner; a regressor of one output becomes one regressor per class."""
    learner = clone(estimator)
    one_by_one = (
        form == "soft" and is_regressor(learner) and not get_tags(learner).target_tags.multi_output
    )
    return MultiOutputRegressor(learner) if one_by_one else learner


def train(
    learner: Any,
    X: Any,
    rows: TrainingRows,
    form: Form,
    seed: Any,
    fit_params: Mapping[str, Any] = MappingProxyType({}),
    given: Any = None,
) -> Any:
    """Fit a fresh learner on training rows; ``fit_params`` go to its ``fit``, those with a value per row of X with their rows.

    Parameters
    ----------
    learner : estimator
    X : array, sparse matrix or frame
    rows : TrainingRows
    form : {"expand", "sample", "round", "soft"}
    seed : int
    fit_params : mapping
    given : array-like, optional
        The labels of X as they came, which steps of a pipeline before the last are fitted with.

    Raises
    ------
    InputError
        One class is left.
    ParameterError
        There are weights that the learner cannot take, or targets that it refuses.
    """
    if final_step(learner) is not learner:
        return _train_steps(learner, X, rows, form, seed, fit_params, given)
    _refuse_one_class(rows)
    _refuse_pairwise(learner, rows)
    # Copies of one row on both sides of a split would make early stopping see what was trained on.
    splits = (
        form == "expand"
        and takes_validation_rows(learner)
        and own_split(learner, len(rows.target)) is not None
    )
    if splits and "X_val" not in fit_params:
        rows, held = split_whole_rows(rows, learner.get_params()["validation_fraction"], seed)
        held_back = {
            "X_val": held.features(X),
            "y_val": held.target,
            "sample_weight_val": held.weight,
        }
        return _call(learner, "fit", X, rows, fit_params, **held_back)
    if form == "soft" and not is_regressor(learner):
        return _fit_soft_classifier(learner, X, rows, fit_params)
    return _call(learner, "fit", X, rows, fit_params)


def _train_steps(
    learner: Any,
    X: Any,
    rows: TrainingRows,
    form: Form,
    seed: Any,
    fit_params: Mapping[str, Any],
    given: Any,
) -> Any:
    """Fit the steps of a pipeline before the last on every row once, as they would be outside, and the last one on the training rows."""
    (name, last), head = learner.steps[-1], learner[:-1]
    if rows.index is not None:
        seen, place = np.unique(rows.index, return_inverse=True)
        fit_params, given = _check_method_params(X, fit_params, seen), part_of(given, seen)
        X, rows = take_rows(indexable(X), seen), replace(rows, index=place.ravel())
    prefix = f"{name}__"
    own = {
        key.removeprefix(prefix): value
        for key, value in fit_params.items()
        if key.startswith(prefix)
    }
    if head.steps:
        with config_context(enable_metadata_routing=False):
            X = head.fit_transform(
                X,
                given,
                **{key: value for key, value in fit_params.items() if not key.startswith(prefix)},
            )
    learner.steps = [*head.steps, (name, train(last, X, rows, form, seed, own, given))]
    return learner


def train_further(learner: Any, X: Any, rows: TrainingRows, classes: Array) -> Any:
    """Show a learner one more batch."""
    _refuse_pairwise(learner, rows)
    further = {"classes": classes} if "classes" in parameters_of(learner, "partial_fit") else {}
    return _call(learner, "partial_fit", X, rows, {}, **further)


def split_whole_rows(
    rows: TrainingRows, held_back: float | int, seed: Any
) -> tuple[TrainingRows, TrainingRows]:
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


def plain_rows(
    labels: Array, truth: Array | None, classes: Array, weight: Array | None, form: Form
) -> TrainingRows:
    """Give the rows to train on for labels as they came: classes, or distributions as probabilities or as weighted copies.

    Examples
    --------
    >>> plain_rows(np.eye(2), np.array([0, 1]), np.array(["no", "yes"]), None, "expand").target.tolist()
    ['no', 'yes']
    """
    index, target = (
        None,
        labels if form == "soft" else classes[truth] if truth is not None else None,
    )
    if target is None:
        index, columns = np.nonzero(labels)
        target, weight = (
            classes[columns],
            labels[index, columns] * (1.0 if weight is None else weight[index]),
        )
    elif form == "soft" and not (np.diff(class_order(classes)) > 0).all():
        target = target[:, class_order(classes)]
    rows = TrainingRows(index, target, weight)
    return rows if weight is None or weight.all() else rows.part(np.flatnonzero(weight))


def _call(
    learner: Any,
    method: str,
    X: Any,
    rows: TrainingRows,
    fit_params: Mapping[str, Any],
    **further: Any,
) -> Any:
    further |= fit_params if rows.index is None else _check_method_params(X, fit_params, rows.index)
    keyword = weight_keyword(learner, method)
    if rows.weight is not None:
        if keyword is None:
            name = type(learner).__name__
            fault = f"{name}.{method} takes no sample_weight, so they would count for the labels and not for the model"
            remedy = "Leave sample_weight out, or pass a learner that takes it."
            raise ParameterError(
                f"There are row weights, but {fault}.", remedy=remedy, estimator=name
            )
        further[keyword] = rows.weight
    # The weights are ours and not metadata that the user routes: they go to the learner, whatever
    # the steps before it asked for.
    with config_context(enable_metadata_routing=False):
        getattr(learner, method)(rows.features(X), rows.target, **further)
    return learner  # not what the call gave back: MultiOutputRegressor.partial_fit gives nothing


def _fit_soft_classifier(
    learner: Any, X: Any, rows: TrainingRows, fit_params: Mapping[str, Any]
) -> Any:
    name = type(learner).__name__
    try:
        return _call(learner, "fit", X, rows, fit_params)
    except (ValueError, TypeError) as error:
        if isinstance(error, ParameterError):
            raise
        problem = (
            f"{name} was given a matrix of probabilities as its target and refused it ({error})."
        )
        remedy = "Use form='auto', or the regressor of the same family, such as KNeighborsRegressor for KNeighborsClassifier."
        raise ParameterError(problem, remedy=remedy, estimator=name, form="soft") from error


def _refuse_one_class(rows: TrainingRows) -> None:
    if rows.target.ndim == 1 and (rows.target == rows.target[0]).all():
        only = plain_value(rows.target[0])
        problem = f"All rows that are left for training are of the one class {only!r}, so that there is nothing to learn."
        remedy = "Pass more rows, another random_state or a larger epsilon; rows of weight 0 do not count."
        raise InputError(problem, remedy=remedy, value=only)


def _refuse_pairwise(learner: Any, rows: TrainingRows) -> None:
    if rows.index is not None and reads_pairs(learner):
        way = (
            "Leave out rows of weight 0"
            if is_regressor(learner)
            else "Use form='round' or 'sample' without weights of zero"
        )
        problem = f"X is a table of pairs of rows to {type(learner).__name__}, and rows of it cannot be repeated or left out."
        remedy = f"{way}, or let the learner compute the kernel from features."
        raise ParameterError(problem, remedy=remedy, estimator=type(learner).__name__)
