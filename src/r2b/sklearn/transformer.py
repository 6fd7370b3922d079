"""``LabelDebiaser``: labels in, fair labels out, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from r2b._constraints.epsilon import Epsilon
from r2b._constraints.families.request import one_of
from r2b._labels.debiasing import DEFAULTS, Options, takes_options
from r2b.sklearn.labels import WITHOUT, publish, require_sensitive, solve, store
from r2b.sklearn.training import labels_as

LabelForm = Literal["soft", "round", "sample"]


@takes_options(without=WITHOUT)
class LabelDebiaser(BaseEstimator):  # type: ignore[misc]
    """Transform labels, or scores of a model, into the closest ones in demographic parity.

    It changes y and not X, as ``LabelEncoder`` does, so it is no step of a ``Pipeline``;
    :class:`ParityClassifier` is.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups, for all classes or one per
        class.
    form : {"soft", "round", "sample"}
        The form in which labels are returned: a matrix of probabilities; one class per row, chosen
        so that parity is kept; or one class per row, drawn, with parity in expectation. The most
        probable class is not offered: it would undo the parity.
    random_state : int, Generator, RandomState or None
        For "round" and "sample".
    **options : Options
        As for :func:`r2b.debias`.

    Attributes
    ----------
    labels_ : FairLabels
        All that :func:`r2b.debias` returns, the fitted rows included.
    classes_, groups_ : ndarray
    prices_ : ndarray of shape (n_groups, n_classes)
    certificate_ : Certificate
    status_ : Status
    n_iter_ : int
        Steps of the solver; 0 where there was nothing to do.

    Examples
    --------
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> LabelDebiaser(epsilon=0.0).fit_transform(y, sensitive_features=sex).round(3).tolist()[:2]
    [[1.0, 0.0], [0.4, 0.6]]

    Scores of a finished model, where the attribute is known at prediction: fit on a tuning split,
    apply to new scores.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], 2000)
    >>> p = np.clip(rng.beta(2, 3, 4000) + 0.2 * (sex == "m"), 0, 1)
    >>> scores, tune = np.column_stack([1 - p, p]), rng.random(4000) < 0.5
    >>> post = LabelDebiaser(epsilon=0.0).fit(scores[tune], sensitive_features=sex[tune])
    >>> fair = post.transform(scores[~tune], sensitive_features=sex[~tune])
    >>> from r2b.metrics import demographic_parity_difference
    >>> before = demographic_parity_difference(scores[~tune], sensitive_features=sex[~tune])
    >>> demographic_parity_difference(fair, sensitive_features=sex[~tune]) < before / 10
    True
    """

    def __init__(  # type: ignore[misc] # epsilon may come without its name
        self,
        epsilon: Epsilon = DEFAULTS["epsilon"],
        *,
        form: LabelForm = "soft",
        random_state: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        store(locals())

    def fit(
        self,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Find the prices that make labels fair.

        Parameters
        ----------
        y : array-like of shape (N,) or (N, L)
            Classes, or probabilities: labels, or the scores of a model, one column per class.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            Must be given.
        control_features : array-like of shape (N,) or (N, n_features), optional
            Parity is asked for within each of their values.
        sample_weight : array-like of shape (N,), optional
            Weights of the rows; without them all count the same.

        Returns
        -------
        LabelDebiaser
            Itself.

        Raises
        ------
        InputError, ParameterError
        """
        one_of("form", self.form, LabelForm)
        labels = solve(
            self,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
        )
        publish(self, labels)
        return self

    def fit_transform(
        self,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Find the prices and give the fair labels of the same rows, as certified.

        Parameters
        ----------
        y, sensitive_features, control_features, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        ndarray of shape (N, L), or column
            A column is of the kind of y.
        """
        labels = self.fit(
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
        ).labels_
        return labels_as(labels, self.form, self.random_state)

    def transform(
        self,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Apply the prices to other rows, whose classes and groups must be among those fitted.

        Parameters
        ----------
        y, sensitive_features, control_features, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        ndarray of shape (n, L), or column
            Parity holds as far as the rows are distributed like the fitted ones.

        Raises
        ------
        UnseenError
            A class or group is new.
        """
        check_is_fitted(self, "labels_")
        one_of("form", self.form, LabelForm)
        require_sensitive(sensitive_features, type(self).__name__, "transform")
        return self.labels_.transform(
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            normalize=self.normalize,
            form=self.form,
            random_state=self.random_state,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Its input is a column of labels or a matrix of probabilities, never a table of features.
        tags.input_tags.two_d_array = False
        tags.target_tags.one_d_labels = True
        return tags
