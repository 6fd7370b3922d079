"""From fair labels to the rows that a learner is trained on, and the training.

No form of the labels is the most probable class.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import narwhals as nw
import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_method_params

from r2b._data.arrays import Array, Floats, plain_value
from r2b._labels import FairLabels
from r2b._labels.labels import Form
from r2b._labels.sampling import take_rows
from r2b.errors import InputError, ParameterError, UnseenError
from r2b.sklearn.labels import class_order, part_of
from r2b.sklearn.learners import final_step, parameters_of, reads_pairs, weight_keyword


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
        """Return the features of these rows, as the kind of table that came in."""
        return X if self.index is None else rows_at(X, self.index)

    def among(self, rows: Array) -> TrainingRows:
        """Keep the training rows of these rows of X."""
        return self.part(rows if self.index is None else np.flatnonzero(np.isin(self.index, rows)))

    def part(self, chosen: Array) -> TrainingRows:
        """Keep some of the rows."""
        index = chosen if self.index is None else self.index[chosen]
        return TrainingRows(index, self.target[chosen], part_of(self.weight, chosen))

    def with_weight(self) -> TrainingRows:
        """Drop rows of weight 0: a learner may still draw them, or count them in a leaf."""
        if self.weight is None or self.weight.all():
            return self
        return self.part(np.flatnonzero(self.weight))


def labels_as(labels: FairLabels, form: Form, random_state: Any) -> Any:
    """Return the fair labels of the fitted rows in a form, as ``FairLabels.transform`` does."""
    if form == "soft":
        return labels.soft_labels
    return labels.expand() if form == "expand" else getattr(labels, form)(random_state)


def fair_rows(
    labels: FairLabels, form: Form, given: Any, n_rows: int, weight: Array | None
) -> TrainingRows:
    """Return the rows to train on from the labels of ``n_rows`` rows in a form.

    Examples
    --------
    >>> import r2b
    >>> sex = ["f", "f", "f", "m", "m", "m"]
    >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=sex)
    >>> rows = fair_rows(fair, "expand", labels_as(fair, "expand", 0), 6, None)
    >>> len(rows.target), round(float(rows.weight.sum()), 9)
    (11, 6.0)
    """
    index, target, weight = given if form == "expand" else (None, given, weight)
    target = np.asarray(target)
    if target.ndim == 1:
        # Columns of text come back from some libraries as objects; the learner and ``classes_``
        # must have the same values.
        target = target.astype(labels.classes.dtype, copy=False)
    else:
        target = target[:, class_order(labels.classes)]
    rows = TrainingRows(index, target, weight).with_weight()
    same = rows.index is not None and np.array_equal(rows.index, np.arange(n_rows))
    return replace(rows, index=None) if same else rows


def rows_at(X: Any, rows: Array) -> Any:
    """Take rows of features, as the kind of table that came in."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif hasattr(X, "__array__") and not hasattr(X, "__getitem__"):
        X = np.asarray(X)
    return take_rows(X, rows)


def row_texts(X: Any) -> list[str]:
    """Write rows of features as text, equal for equal rows in every kind of table.

    Examples
    --------
    >>> row_texts(np.array([[1.0, 2.5]])), row_texts(["a text"])
    (['1.0|2.5'], ['a text'])
    """
    if isinstance(X, Mapping):
        X = list(zip(*X.values(), strict=True))
    X = X.toarray() if hasattr(X, "toarray") else X
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        rows: list[Any] = frame.rows()
    else:
        rows = X.tolist() if hasattr(X, "tolist") else list(X)
    return ["|".join(map(str, row)) if isinstance(row, (list, tuple)) else str(row) for row in rows]


def train_fresh(
    estimator: Any,
    X: Any,
    rows: TrainingRows,
    form: Form,
    classes: Array,
    fit_params: Mapping[str, Any],
    y: Any,
    own: bool = False,
) -> Any:
    """Fit a clone of an estimator on training rows; parameters as for :func:`train`.

    Parameters
    ----------
    classes : ndarray of shape (L,)
    own : bool
        Hand over callbacks themselves, and no copies of them.
    """
    params = params_for(estimator, fit_params, form, classes, own)
    return train(fresh_learner(estimator, form), X, rows, form, params, y)


def fresh_learner(estimator: Any, form: Form) -> Any:
    """Clone the learner; a regressor of one output becomes one regressor per class."""
    learner = clone(estimator)
    soft = form == "soft" and is_regressor(learner)
    one_by_one = soft and not get_tags(learner).target_tags.multi_output
    return MultiOutputRegressor(learner) if one_by_one else learner


def train(
    learner: Any,
    X: Any,
    rows: TrainingRows,
    form: Form,
    fit_params: Mapping[str, Any] = MappingProxyType({}),
    y: Any = None,
) -> Any:
    """Fit a fresh learner on training rows.

    Parameters
    ----------
    learner : estimator
    X : array, sparse matrix or frame
    rows : TrainingRows
    form : {"expand", "sample", "round", "soft"}
    fit_params : mapping
        For its ``fit``; those with one value per row of X go with their rows.
    y : array-like, optional
        The labels of X as they came, on which the steps of a pipeline before the last are fitted.

    Raises
    ------
    InputError
        One class is left.
    ParameterError
        There are weights that the learner cannot take, or targets that it refuses.
    """
    if final_step(learner) is not learner:
        return _train_steps(learner, X, rows, form, fit_params, y)
    if rows.target.ndim == 1 and (rows.target == rows.target[0]).all():
        only = plain_value(rows.target[0])
        problem = f"All rows that are left for training are of the one class {only!r}."
        remedy = "Pass more rows of positive weight, fewer folds (cv) or a larger epsilon."
        raise InputError(problem, remedy=remedy, value=only)
    try:
        return _call(learner, "fit", X, rows, fit_params)
    except (ValueError, TypeError) as error:
        if form != "soft" or is_regressor(learner) or isinstance(error, ParameterError):
            raise
        name = type(learner).__name__
        problem = f"{name} refused a matrix of probabilities as its target ({error})."
        remedy = "Use `form='auto'`, or the regressor of the same family."
        raise ParameterError(problem, remedy=remedy, estimator=name, form="soft") from error


def _train_steps(
    learner: Any, X: Any, rows: TrainingRows, form: Form, fit_params: Mapping[str, Any], y: Any
) -> Any:
    """Fit a pipeline: all steps but the last see every row once, the last the training rows."""
    (name, last), head = learner.steps[-1], learner[:-1]
    if rows.index is not None:
        seen, place = np.unique(rows.index, return_inverse=True)
        fit_params, y = _check_method_params(X, fit_params, seen), part_of(y, seen)
        X, rows = rows_at(X, seen), replace(rows, index=place.ravel())
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in fit_params.items():
        (own if key.startswith(f"{name}__") else others)[key.removeprefix(f"{name}__")] = value
    if head.steps:
        with config_context(enable_metadata_routing=False):
            X = head.fit_transform(X, y, **others)
    learner.steps = [*head.steps, (name, train(last, X, rows, form, own, y))]
    return learner


def train_further(learner: Any, X: Any, rows: TrainingRows, classes: Array) -> Any:
    """Show a learner one more batch."""
    further = {"classes": classes} if "classes" in parameters_of(learner, "partial_fit") else {}
    return _call(learner, "partial_fit", X, rows, {}, **further)


def train_on_classes(learner: Any, X: Any, target: Array, weight: Floats | None) -> Any:
    """Fit a clone of a learner on classes."""
    return train(clone(learner), X, TrainingRows(None, target, weight), "sample", y=target)


def _call(
    learner: Any, method: str, X: Any, rows: TrainingRows, fit_params: Mapping[str, Any], **own: Any
) -> Any:
    name = type(learner).__name__
    if rows.index is not None and reads_pairs(learner):
        problem = f"X is a table of pairs of rows to {name}: none can be repeated or left out."
        remedy = "Use `form='round'` or `form='sample'` without weights of zero, or pass features."
        raise ParameterError(problem, remedy=remedy, estimator=name)
    own |= fit_params if rows.index is None else _check_method_params(X, fit_params, rows.index)
    if rows.weight is not None:
        keyword = weight_keyword(learner, method)
        if keyword is None:
            problem = f"There are row weights, but {name}.{method} takes no sample_weight."
            remedy = "Leave sample_weight out, or pass a learner that takes it."
            raise ParameterError(problem, remedy=remedy, estimator=name)
        own[keyword] = rows.weight
    # The weights are ours, not metadata that the user routes.
    with config_context(enable_metadata_routing=False):
        getattr(learner, method)(rows.features(X), rows.target, **own)
    return learner  # not the result of the call: MultiOutputRegressor.partial_fit returns nothing


def params_for(
    learner: Any, fit_params: Mapping[str, Any], form: Form, classes: Array, own: bool
) -> dict[str, Any]:
    """Return what one training of a learner is passed besides its rows.

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
                problem = f"{type(learner).__name__} is trained once per class, without {key}."
                remedy = "Pass a classifier, or a learner of several outputs, or leave it out."
                raise ParameterError(problem, remedy=remedy, parameter=key)
            known = classes[class_order(classes)]
            params[key] = [(X, _soft(y, known, key), *rest) for X, y, *rest in value]
    return params


def _copied(callbacks: Any, key: str) -> Any:
    try:
        return deepcopy(callbacks)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        problem = f"{key} cannot be copied ({error}), but every fold is trained with its own."
        remedy = "Pass functions, or objects that copy.deepcopy takes."
        raise ParameterError(problem, remedy=remedy, parameter=key) from error


def _soft(y: Any, classes: Array, key: str) -> Array:
    """Return labels as probabilities; a matrix stays as it is."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] > 1:
        return labels
    match = labels.reshape(-1, 1) == classes
    if not match.any(axis=1).all():
        value = plain_value(labels.ravel()[int(np.argmin(match.any(axis=1)))])
        problem = f"{key} has the class {value!r}, which y does not have."
        raise UnseenError(problem, remedy="Pass evaluation rows of the classes in y.", value=value)
    return np.asarray(match, np.float64)
