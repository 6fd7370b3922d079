"""Predictions for rows that the model behind them was not trained on: shuffled folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils.parallel import Parallel, delayed

from r2b._data.arrays import Array, Floats, Whole
from r2b._data.columns import column_of, refuse_lengths
from r2b._data.numbers import refuse_other_number
from r2b.errors import ParameterError
from r2b.sklearn.learners import distributions


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
    """Deal rows into shuffled folds that are alike in their strata.

    Parameters
    ----------
    strata : ndarray of shape (n,)
        What folds should be alike in, as codes.
    cv : int
        The number of folds.
    seed : int
    clusters : array-like of shape (n,), optional
        Rows of equal values stay together, such as pictures of one person.

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
    remedy = "Pass the number of folds, a whole number of at least 2."
    refuse_other_number("cv", cv, remedy, lambda n: n >= 2, Integral)
    n, n_folds, rng = len(strata), int(cv), np.random.default_rng(seed)
    together = np.arange(n) if clusters is None else cluster_codes(clusters, n)
    apart = int(together.max()) + 1
    if apart < n_folds:
        kind = "rows" if clusters is None else "clusters"
        problem = f"There are {apart} {kind}, fewer than the {n_folds} folds of cv."
        raise ParameterError(problem, remedy="Pass more rows, or a smaller cv.", cv=cv, n=apart)
    number = np.empty(n, np.int64)
    if clusters is None:
        # Shuffled within strata and dealt one by one, so that folds differ by at most one row of
        # any stratum.
        number[np.lexsort((rng.random(n), strata))] = np.arange(n) % n_folds
        return Folds(number, n_folds)
    split = StratifiedGroupKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    for fold, (_, held) in enumerate(split.split(strata, strata, together)):
        number[held] = fold
    return Folds(number, n_folds)


def cluster_codes(clusters: Any, n_rows: int) -> Whole:
    """Return codes of the clusters of rows.

    Examples
    --------
    >>> cluster_codes(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    column = column_of(clusters, what="clusters")
    refuse_lengths("X", n_rows, "clusters", len(column))
    names = np.asarray(column.native).astype(str)
    return np.asarray(np.unique(names, return_inverse=True)[1], np.int64)


def out_of_fold(
    predict: Callable[[Whole, Whole], tuple[Floats, Any]],
    folds: Folds,
    n_columns: int,
    n_jobs: int | None,
) -> tuple[Floats, tuple[Any, ...]]:
    """Return what each fold's model predicts for the rows it was not trained on, and the models.

    Parameters
    ----------
    predict : callable
        Takes the rows to train on and the rows to predict; returns a matrix, and the model.
    folds : Folds
    n_columns : int
    n_jobs : int, optional
        Folds trained at a time, as joblib counts.
    """
    found, parts = np.empty((len(folds.number), n_columns)), list(folds)
    results = Parallel(n_jobs=n_jobs)(delayed(predict)(*part) for part in parts)
    for (_, held), (rows, _) in zip(parts, results, strict=True):
        found[held] = rows
    return found, tuple(model for _, model in results)


class FoldEnsemble(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The models of all folds as one: its probabilities are the mean of theirs.

    Parameters
    ----------
    estimators : sequence of classifiers
        Trained, each on all folds but one.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> labels = [0, 0, 1, 1], [1, 1, 1, 2]
    >>> models = [DummyClassifier(strategy="prior").fit([[0]] * 4, y) for y in labels]
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
        """Return the mean of their probabilities.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        n_columns = int(self.classes_[-1]) + 1
        found = [code_probabilities(model, X, n_columns) for model in self.estimators]
        return np.asarray(np.mean(found, axis=0)[:, self.classes_])


def code_probabilities(model: Any, X: Any, n_columns: int) -> Floats:
    """Return a model's probabilities with one column per code; 0 for codes it does not know.

    Raises
    ------
    InputError
        They are no probabilities.
    """
    matrix = distributions(
        np.asarray(model.predict_proba(X), np.float64), len(model.classes_), model
    )
    found = np.zeros((len(matrix), n_columns))
    found[:, np.asarray(model.classes_, dtype=np.int64)] = matrix
    return found
