"""``WeightedClassifier``: trained on weighted rows, for labels that may not be changed."""

from __future__ import annotations

from typing import Any, Literal, Self

from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

import r2b
from r2b._constraints.epsilon import Epsilon
from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, Floats
from r2b._data.outcomes import OutcomeChoice
from r2b._weights import RowWeights
from r2b.errors import ParameterError
from r2b.sklearn.fair_labels import visible_groups
from r2b.sklearn.labels import require_sensitive, weight_column
from r2b.sklearn.learners import can_be_trained, weight_keyword
from r2b.sklearn.reporting import ReportsItself

Groups = Literal["predicted", "given"]


def _has(method: str) -> Any:
    return available_if(lambda self: hasattr(self.estimator, method))


class WeightedClassifier(ReportsItself):
    """Train a classifier on row weights under which groups are in parity; labels stay as they are.

    Weights make a model fairer and bound nothing: its decisions may still differ between groups,
    because features tell them apart. :class:`ParityClassifier` bounds decisions.

    Parameters
    ----------
    estimator : classifier
        Whose ``fit`` takes ``sample_weight``.
    epsilon : float, array-like of shape (L,) or mapping
        As for :func:`r2b.reweigh`.
    max_weight : float, optional
        The largest weight; any by default.
    outcomes : "ordinal", mapping, array-like or frame, optional
        What is compared instead of the classes, as for :func:`r2b.debias`.
    groups : {"predicted", "given"}
        Balance the groups as the features show them, out of fold, which is what a model of these
        features learns from; or the true groups.
    group_estimator : classifier, optional
        Predicts the groups; a clone of the estimator by default.
    cv : int
        Folds in which groups are predicted.
    random_state : int, Generator, RandomState or None
        For the folds.

    Attributes
    ----------
    estimator_ : classifier
        Trained on the weighted rows.
    weights_ : RowWeights
        The weights, what they reach, and the proof.
    classes_ : ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 1000)
    >>> X = rng.normal(size=(1000, 2)) + np.outer(sex == "m", [1, 0])
    >>> y = np.where(X[:, 0] + rng.normal(size=1000) > 0.5, "yes", "no")
    >>> model = WeightedClassifier(LogisticRegression(), max_weight=5)
    >>> model.fit(X, y, sensitive_features=sex).weights_.status.value
    'solved'
    """

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: Epsilon = 0.0,
        max_weight: float | None = None,
        outcomes: OutcomeChoice | None = None,
        groups: Groups = "predicted",
        group_estimator: Any = None,
        cv: int = 5,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.max_weight = max_weight
        self.outcomes = outcomes
        self.groups = groups
        self.group_estimator = group_estimator
        self.cv = cv
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Weigh the rows, and train on them.

        Parameters
        ----------
        X : array, sparse matrix or frame with N rows
            Features of the rows.
        y : array-like of shape (N,)
            Class of every row.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            One attribute or several.
        sample_weight : array-like of shape (N,), optional
            Weights of the rows; without them all count the same.

        Raises
        ------
        ParameterError
            The estimator takes no weights.
        InfeasibleError
            As for :func:`r2b.reweigh`.
        """
        require_sensitive(sensitive_features, type(self).__name__)
        one_of("groups", self.groups, Groups)
        keyword = weight_keyword(self.estimator) if can_be_trained(self.estimator) else None
        if keyword is None:
            name = type(self.estimator).__name__
            problem = f"{name}.fit takes no sample_weight."
            remedy = "Pass a learner that takes weights, or draw rows with r2b.reweigh(...).select."
            raise ParameterError(problem, remedy=remedy, estimator=name)
        groups = sensitive_features
        if self.groups == "predicted":
            groups = visible_groups(
                self.group_estimator or self.estimator,
                X,
                sensitive_features=sensitive_features,
                cv=self.cv,
                sample_weight=sample_weight,
                random_state=self.random_state,
            )
        self.weights_: RowWeights = r2b.reweigh(
            y,
            sensitive_features=groups,
            sample_weight=sample_weight,
            epsilon=self.epsilon,
            max_weight=self.max_weight,
            outcomes=self.outcomes,
        )
        weight = self.weights_.weights
        if sample_weight is not None:
            weight = weight * weight_column(sample_weight)
        self.estimator_ = clone(self.estimator).fit(X, y, **{keyword: weight})
        return self

    @property
    def classes_(self) -> Array:
        """Names of the classes."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.classes_  # type: ignore[no-any-return]

    def predict(self, X: Any) -> Array:
        """Return the class that the trained estimator predicts for each row."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X)  # type: ignore[no-any-return]

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities that the trained estimator predicts."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)  # type: ignore[no-any-return]
