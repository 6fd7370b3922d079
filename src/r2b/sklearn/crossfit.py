"""Predictions for rows that the model behind them was not trained on: shuffled folds, and one fit per fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils.parallel import Parallel, delayed

from r2b._data.arrays import Array, Floats, Whole
from r2b._data.columns import column_of, refuse_lengths
from r2b._labels.sampling import take_rows
from r2b.errors import InputError, ParameterError
from r2b.sklearn.forms import TrainingRows, indexable, train
from r2b.sklearn.learners import kind_of


@dataclass(frozen=True, eq=False)
class Folds:
    """Which fold every row is in.

    Attributes
    ----------
    number : ndarray of shape (n,)
    n : int
        How many folds there are.

    Examples
    --------
    >>> folds = Folds(np.array([0, 1, 0, 1]), 2)
    >>> [(left.tolist(), held.tolist()) for left, held in folds]
    [([1, 3], [0, 2]), ([0, 2], [1, 3])]
    """

    number: Whole
    n: int

    def __iter__(self) -> Iterator[tuple[Whole, Whole]]:
        for fold in range(self.n):
            held = self.number == fold
            yield np.flatnonzero(~held), np.flatnonzero(held)


def make_folds(strata: Whole, cv: Any, seed: int, clusters: Any = None) -> Folds:
    """Deal rows into shuffled folds that are alike in their strata; rows of one cluster stay together.

    Parameters
    ----------
    strata : ndarray of shape (n,)
        What folds should be alike in, as codes.
    cv : int
        The number of folds.
    seed : int
    clusters : array-like of shape (n,), optional
        Rows of equal values belong together, such as pictures of one person.

    Raises
    ------
    ParameterError
        ``cv`` is no number of folds that so many rows, or clusters, can be dealt into.

    Examples
    --------
    >>> folds = make_folds(np.array([0, 0, 1, 1, 1, 1]), 2, 0)
    >>> [np.bincount(np.array([0, 0, 1, 1, 1, 1])[held]).tolist() for _, held in folds]
    [[1, 2], [1, 2]]
    """
    if not isinstance(cv, Integral) or isinstance(cv, bool) or cv < 2:
        raise ParameterError(
            f"cv is {cv!r}.",
            remedy="Pass the number of folds, a whole number of at least 2.",
            cv=cv,
        )
    n, n_folds, rng = len(strata), int(cv), np.random.default_rng(seed)
    together = None if clusters is None else cluster_codes(clusters, n)
    apart = n if together is None else int(together.max()) + 1
    if apart < n_folds:
        problem = f"There are {apart} {'rows' if together is None else 'clusters'}, fewer than the {n_folds} folds of cv."
        raise ParameterError(problem, remedy="Pass more rows, or a smaller cv.", cv=cv, n=apart)
    number = np.empty(n, np.int64)
    if together is None:
        # Shuffled within strata and dealt one by one, so that folds differ by at most one row of
        # any stratum.
        number[np.lexsort((rng.random(n), strata))] = np.arange(n) % n_folds
        return Folds(number, n_folds)
    split = StratifiedGroupKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    for fold, (_, held) in enumerate(split.split(strata, strata, together)):
        number[held] = fold
    return Folds(number, n_folds)


def cluster_codes(clusters: Any, n_rows: int) -> Whole:
    """Give codes of the clusters of rows.

    Examples
    --------
    >>> cluster_codes(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    column = column_of(clusters, what="clusters")
    refuse_lengths("X", n_rows, "clusters", len(column.native))
    return (
        np.unique(np.asarray(column.native).astype(str), return_inverse=True)[1]
        .ravel()
        .astype(np.int64)
    )


def out_of_fold(
    predict: Callable[[Whole, Whole], tuple[Floats, Any]],
    folds: Folds,
    n_columns: int,
    n_jobs: int | None,
) -> tuple[Floats, tuple[Any, ...]]:
    """Put together what each fold's model predicts for the rows it was not trained on, and keep the models.

    Parameters
    ----------
    predict : callable
        Takes the rows to train on and the rows to predict; gives a matrix, and the model behind it.
    folds : Folds
    n_columns : int
    n_jobs : int, optional
        Folds trained at a time, as joblib counts.
    """
    found, models = np.empty((len(folds.number), n_columns)), []
    parts = list(folds)
    for (_, held), (rows, model) in zip(
        parts, Parallel(n_jobs=n_jobs)(delayed(predict)(*part) for part in parts), strict=True
    ):
        found[held] = rows
        models.append(model)
    return found, tuple(models)


class FoldEnsemble(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The models of all folds as one: its probabilities are the mean of theirs.

    Parameters
    ----------
    estimators : sequence of classifiers
        Trained, each on all folds but one.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> models = [DummyClassifier(strategy="prior").fit([[0]] * 4, y) for y in ([0, 0, 1, 1], [1, 1, 1, 2])]
    >>> FoldEnsemble(models).predict_proba([[0]])
    array([[0.25 , 0.625, 0.125]])
    """

    def __init__(self, estimators: Sequence[Any]) -> None:
        self.estimators = estimators

    @property
    def classes_(self) -> Array:
        """All classes that one of them was trained on."""
        return np.unique(np.concatenate([model.classes_ for model in self.estimators]))

    def predict_proba(self, X: Any) -> Floats:
        """Give the mean of their probabilities.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        found, classes = [], self.classes_
        for model in self.estimators:
            given = np.asarray(model.predict_proba(X), np.float64)
            found.append(np.zeros((len(given), len(classes))))
            found[-1][:, np.searchsorted(classes, model.classes_)] = given
        return np.asarray(np.mean(found, axis=0))


def rows_at(X: Any, rows: Whole) -> Any:
    """Take rows of features, as the kind of table that came in."""
    return take_rows(indexable(X), rows)


def trained(learner: Any, X: Any, target: Array, weight: Floats | None) -> Any:
    """Fit a clone of a learner on classes, with weights under the keyword that it takes them by.

    Raises
    ------
    InputError
        One class is left.
    ParameterError
        There are weights that it cannot take.
    """
    if (target == target[0]).all():
        problem = f"All {len(target)} rows of a part to train {type(learner).__name__} on are of one class or group."
        raise InputError(problem, remedy="Pass more rows, or fewer folds (cv).", n_rows=len(target))
    return train(clone(learner), X, TrainingRows(None, target, weight), "sample", 0, given=target)


def columns_of(model: Any, X: Any, n_columns: int) -> Floats:
    """Give a model's probabilities with one column per code; zeros for codes that it was not trained on.

    Raises
    ------
    InputError
        It gives numbers that are no probabilities.
    """
    given = np.asarray(model.predict_proba(X), np.float64)
    total = given.sum(axis=1) if given.ndim == 2 else np.zeros(1)
    if (
        given.ndim != 2
        or given.shape[1] != len(model.classes_)
        or not np.isfinite(given).all()
        or (given < 0).any()
        or not (total > 0).all()
    ):
        name = type(model).__name__
        problem = f"{name}.predict_proba gives rows that are no distributions over its {len(model.classes_)} classes."
        raise InputError(
            problem,
            remedy="Pass an estimator whose probabilities are finite, not negative and add up to 1.",
            estimator=name,
        )
    matrix = np.zeros((len(given), n_columns))
    matrix[:, np.asarray(model.classes_, dtype=np.int64)] = given / total[:, None]
    return matrix


def require_probabilities(learner: Any, parameter: str, otherwise: str) -> None:
    """Refuse a learner that gives no probabilities.

    Raises
    ------
    ParameterError
    """
    classifies = kind_of(learner) == "classifier"
    if not classifies or not hasattr(learner, "predict_proba"):
        name = type(learner).__name__
        problem = f"The {parameter} {name} gives no probabilities (predict_proba), which prices are applied to."
        wrap = (
            "Wrap it in sklearn.calibration.CalibratedClassifierCV"
            if classifies
            else "Pass a classifier"
        )
        raise ParameterError(problem, remedy=f"{wrap}, {otherwise}.", estimator=name)
