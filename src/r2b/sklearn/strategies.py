"""From fair labels to the rows that a learner is trained on, for each form; the most probable class of a fair row is none of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from r2b._labels import FairLabels
from r2b._labels.changes import take_rows
from r2b.sklearn.labels import class_order, n_rows_of, weight_column
from r2b.sklearn.learners import Form, FormChoice, choose

Array = np.ndarray[Any, np.dtype[Any]]


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
        return X if self.index is None else take_rows(_indexable(X), self.index)

    def part(self, chosen: Array) -> TrainingRows:
        """Keep some of the rows."""
        index = chosen if self.index is None else self.index[chosen]
        return TrainingRows(index, self.target[chosen], None if self.weight is None else self.weight[chosen])


def training_rows(labels: FairLabels, form: Form, seed: Any) -> TrainingRows:
    """Give the rows to train on for the labels that were just solved.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"])
    >>> rows = training_rows(fair, "expand", 0)
    >>> len(rows.target), round(float(rows.weight.sum()), 9)
    (11, 6.0)
    """
    assert labels.dataset is not None
    weight, n_rows = labels.dataset.weight, labels.dataset.n_rows
    if form == "expand":
        return _checked(labels, n_rows, *labels.expand())
    if form == "soft":
        return _checked(labels, n_rows, None, _in_order(labels, labels.soft_labels), weight)
    return _checked(labels, n_rows, None, labels.round(seed) if form == "round" else labels.sample(seed), weight)


def chosen_rows(wanted: str, learner: Any, labels: FairLabels, seed: Any) -> tuple[FormChoice, TrainingRows]:
    """Choose a form and give its rows.

    Some learners split their rows from a certain number on. Copies may pass it where the rows themselves do not, so that the choice is made
    again once they are counted.
    """
    assert labels.dataset is not None
    choice = choose(wanted, learner, labels.dataset.n_rows)
    rows = training_rows(labels, choice.form, seed)
    again = choose(wanted, learner, len(rows.target))
    return (choice, rows) if again.form == choice.form else (again, training_rows(labels, again.form, seed))


def batch_rows(labels: FairLabels, form: Form, seed: Any, y: Any, sample_weight: Any, **further: Any) -> TrainingRows:
    """Give the rows to train on for other rows than those solved, by the prices of ``labels``."""
    moved = labels.transform(y, sample_weight=sample_weight, form=form, random_state=seed, **further)
    n_rows = n_rows_of(y)
    if form == "expand":
        return _checked(labels, n_rows, *moved)
    moved = _in_order(labels, moved) if form == "soft" else moved
    return _checked(labels, n_rows, None, moved, None if sample_weight is None else weight_column(sample_weight))


def _in_order(labels: FairLabels, matrix: Array) -> Array:
    order = class_order(labels.classes)
    return matrix if bool((np.diff(order) > 0).all()) else matrix[:, order]


def _checked(labels: FairLabels, n_rows: int, index: Array | None, target: Any, weight: Array | None) -> TrainingRows:
    plain = np.asarray(target)
    # Columns of text come back from some libraries as objects; the learner and ``classes_`` must speak of the same values.
    plain = plain.astype(labels.classes.dtype, copy=False) if plain.ndim == 1 else plain
    rows = TrainingRows(index, plain, weight)
    # A row of weight 0 is as good as absent, but not to a learner that draws rows or counts those in a leaf.
    if weight is not None and not weight.all():
        rows = rows.part(np.flatnonzero(weight))
    if rows.index is not None and len(rows.index) == n_rows and bool((rows.index == np.arange(n_rows)).all()):
        return replace(rows, index=None)
    return rows


def _indexable(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if hasattr(X, "__array__") and not hasattr(X, "__getitem__"):
        return np.asarray(X)
    return X
