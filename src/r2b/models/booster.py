"""``SoftBooster``: LightGBM or XGBoost as a classifier of scikit-learn that learns from probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, get_args

import numpy as np

from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, Floats
from r2b._labels import FairLabels
from r2b.errors import ParameterError, ShapeError, require
from r2b.models.boosting import Trees, grow
from r2b.models.targets import Library, made_fair, softmax
from r2b.sklearn.labels import checked_labels, class_order, note_features

_sklearn: Any = require("sklearn.base", "SoftBooster needs scikit-learn", extra="sklearn")
_check_is_fitted: Any = require(
    "sklearn.utils.validation", "SoftBooster needs scikit-learn", extra="sklearn"
).check_is_fitted


class SoftBooster(_sklearn.ClassifierMixin, _sklearn.BaseEstimator):  # type: ignore[misc]
    """Trees on soft labels: a classifier that is trained on classes, or on a probability per class and row.

    It is what :func:`train_lightgbm` and :func:`train_xgboost` give, and an ``estimator`` for
    :class:`r2b.sklearn.ParityClassifier`, which hands it the fair probabilities themselves, and for
    :class:`r2b.sklearn.ParityPostprocessor`.

    A custom objective leaves margins. ``predict_proba`` adds the start and takes the softmax; a
    booster that is saved on its own loses both. Pickle this object instead.

    Parameters
    ----------
    library : {"lightgbm", "xgboost"}
    params : mapping, optional
        The library's parameters, less objective, number of classes, base score and metric, which
        follow from the labels.
    num_boost_round : int
    early_stopping_rounds : int, optional
        Stop after this many rounds without improvement on ``eval_set``.

    Attributes
    ----------
    booster_ : lightgbm.Booster or xgboost.Booster
    classes_ : ndarray of shape (L,)
        The names of the columns of ``predict_proba``: sorted after ``fit``; :func:`train_lightgbm`
        and :func:`train_xgboost` leave them in the order of the labels.
    start_ : ndarray of shape (L,)
        The margin of every row before the first tree: the logarithm of the share of each class.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Examples
    --------
    >>> from r2b.sklearn import ParityClassifier
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 600)
    >>> X = rng.normal(size=(600, 2)) + np.outer(sex == "m", [1, 1])
    >>> y = np.where(X[:, 0] + rng.normal(size=600) > 0.5, "yes", "no")
    >>> booster = SoftBooster(params={"num_threads": 1, "verbosity": -1, "num_leaves": 4}, num_boost_round=10)
    >>> booster.fit(X, y).predict(X[:2]).tolist()
    ['yes', 'yes']
    >>> model = ParityClassifier(booster, cv=2, frontier=0).fit(X, y, sensitive_features=sex)
    >>> model.form_, model.predict_proba(X).shape
    ('soft', (600, 2))
    """

    takes_probabilities = True

    def __init__(
        self,
        library: Library = "lightgbm",
        *,
        params: Mapping[str, Any] | None = None,
        num_boost_round: int = 100,
        early_stopping_rounds: int | None = None,
    ) -> None:
        self.library, self.params = library, params
        self.num_boost_round, self.early_stopping_rounds = num_boost_round, early_stopping_rounds

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        callbacks: Any = None,
    ) -> Self:
        """Train on classes or probabilities.

        Parameters
        ----------
        X : array or frame of shape (N, n_features)
            Of any kind that the library reads.
        y : array-like of shape (N,) or (N, L), or FairLabels
        sample_weight : array-like of shape (N,), optional
        eval_set : sequence of one (X, y), optional
            Other rows, on which the soft cross-entropy is measured after each round under the name
            ``soft_logloss``.
        callbacks : sequence, optional
            The library's own.

        Returns
        -------
        SoftBooster
            Itself.

        Raises
        ------
        InputError, ParameterError
        """
        if eval_set is not None and not (
            isinstance(eval_set, (list, tuple)) and len(eval_set) == 1
        ):
            raise ParameterError(
                "eval_set is not one pair in a list.",
                remedy="Pass eval_set=[(X, y)].",
                eval_set=type(eval_set).__name__,
            )
        if eval_set is None and self.early_stopping_rounds is not None:
            problem = f"early_stopping_rounds is {self.early_stopping_rounds}, but there is nothing to watch."
            remedy = "Pass eval_set=[(X, y)] of rows that are not trained on."
            raise ParameterError(
                problem, remedy=remedy, early_stopping_rounds=self.early_stopping_rounds
            )
        y = y if isinstance(y, FairLabels) else checked_labels(y, type(self).__name__)
        trees = self._grown(y, X, sample_weight, eval_set[0] if eval_set else None, callbacks)
        return self._keep(trees, X, class_order(trees.classes))

    def _trained_on(
        self,
        labels: Any,
        X: Any,
        sample_weight: Any,
        validation: Any,
        callbacks: Any,
        fairness: Mapping[str, Any],
    ) -> Self:
        """Train on labels in their own order of classes, made fair first where groups are given."""
        one_of("library", self.library, get_args(Library))
        labels, sample_weight = made_fair(X, labels, sample_weight, self._for_groups(), fairness)
        trees = self._grown(labels, X, sample_weight, validation, callbacks)
        return self._keep(trees, X, np.arange(len(trees.classes)))

    def _for_groups(self) -> SoftBooster:
        return SoftBooster(self.library, params=self.params, num_boost_round=self.num_boost_round)

    def _grown(
        self, labels: Any, X: Any, sample_weight: Any, validation: Any, callbacks: Any
    ) -> Trees:
        one_of("library", self.library, get_args(Library))
        settings = self.params, self.num_boost_round
        return grow(
            self.library,
            labels,
            X,
            *settings,
            sample_weight,
            validation,
            self.early_stopping_rounds,
            callbacks,
        )

    def _keep(self, trees: Trees, X: Any, order: Array) -> Self:
        note_features(self, X)
        self.booster_, self.start_, self._order = trees.booster, trees.start[order], order
        self.classes_ = trees.classes[order]
        return self

    @property
    def booster(self) -> Any:
        """``booster_``."""
        return self.booster_

    @property
    def classes(self) -> Array:
        """``classes_``."""
        return self.classes_

    @property
    def start(self) -> Floats:
        """``start_``."""
        return self.start_

    def predict_proba(self, X: Any) -> Floats:
        """Give the probabilities of new rows; the sensitive attribute is not asked for.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)
            Of any kind that the library reads. After early stopping the best round counts.

        Returns
        -------
        ndarray of shape (n, L)

        Raises
        ------
        ShapeError
            XGBoost was trained on another number of features, which it does not notice by itself.
        """
        _check_is_fitted(self)
        if self.library == "lightgbm":
            margins = self.booster_.predict(X, raw_score=True)
        else:
            best = self.booster_.attr("best_iteration")
            rounds = (0, 0) if best is None else (0, int(best) + 1)
            matrix = require("xgboost", "This model needs xgboost", extra="xgboost").DMatrix(
                X, enable_categorical=True
            )
            given, trained = int(matrix.num_col()), int(self.booster_.num_features())
            if given != trained:
                fault = f"X has {given} features, but the model was trained on {trained}."
                raise ShapeError(fault, remedy="Pass the features of training.", n_features=given)
            margins = self.booster_.predict(matrix, output_margin=True, iteration_range=rounds)
        return softmax(np.asarray(margins, np.float64)[:, self._order] + self.start_)

    def predict(self, X: Any) -> Array:
        """Give the likeliest class of each row, as classifiers do; it is not fair even where the probabilities are.

        For decisions in parity make this the ``estimator`` of ``ParityClassifier``, or of
        ``ParityPostprocessor(prefit=True)``.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
