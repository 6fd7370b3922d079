"""Fair labels as a step of imbalanced-learn's pipeline.

A class with ``fit_resample`` gets its metadata request only if imbalanced-learn was imported before
the class was made; that is why it has a module of its own.
"""

from __future__ import annotations

from typing import Any, Self, Unpack

from narwhals import dependencies as libraries

from r2b._constraints.epsilon import Epsilon
from r2b._labels.debiasing import DEFAULTS, Options, takes_options
from r2b.errors import ParameterError, require
from r2b.sklearn.fair_labels import GroupUse, fair_labels
from r2b.sklearn.labels import WITHOUT, checked_labels, note_features, publish, store, without_rows

_BaseSampler: Any = require(
    "imblearn", "r2b.models.imblearn needs imblearn", extra="imblearn"
).base.BaseSampler


@takes_options(without=WITHOUT)
class FairRelabeler(_BaseSampler):  # type: ignore[misc]
    """Replace the training labels by fair ones; prediction needs no sensitive attribute.

    The rows stay, their order stays, and X is passed on unchanged. Labels are
    those of ``FairLabels.round``: without weights every class count of every group is its fair
    value rounded up or down. Rows are relabelled and not resampled because a step cannot hand
    weights on (which ``expand`` needs), because copies of rows say nothing that new labels do not,
    and because weights or groups that are routed to later steps still belong to the rows they meet
    there.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups, for all classes or one per
        class.
    groups : {"visible", "given", "both"}
        By which groups: as the features show them, predicted out of fold, which makes the model
        fair that the next steps train; or as they are, which makes the labels fair.
    group_estimator : classifier, optional
        Predicts the groups; logistic regression on scaled features by default.
    cv : int
        Folds, shuffled, out of which groups are predicted.
    random_state : int, Generator, RandomState or None
        Folds, and which rows of a group and class are relabelled. The same number gives the same
        labels.
    **options : Options
        As for :func:`r2b.debias`.

    Attributes
    ----------
    labels_ : FairLabels
        Prices, status and certificate, without the rows: a stored pipeline holds nobody's group.
    classes_, groups_, prices_, certificate_, status_, n_iter_
        As in :class:`r2b.sklearn.LabelDebiaser`.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Notes
    -----
    In a pipeline scikit-learn's metadata routing must be on. The pipeline then hands
    ``sensitive_features`` and ``control_features`` to this step by itself, and ``sample_weight``
    after ``set_fit_resample_request(sample_weight=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from imblearn.pipeline import make_pipeline
    >>> from sklearn import config_context
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> sex = np.array(["f", "f", "m", "m"] * 50)
    >>> y = np.where(sex == "f", "low", np.array(["low", "high", "high", "high"] * 50))
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> with config_context(enable_metadata_routing=True):
    ...     model = make_pipeline(FairRelabeler(), DecisionTreeClassifier(max_depth=3))
    ...     model = model.fit(X, y, sensitive_features=sex)
    >>> model.predict_proba(X).shape
    (200, 2)
    >>> relabelled = FairRelabeler(groups="given").fit_resample(X, y, sensitive_features=sex)[1]
    >>> [int((relabelled[sex == group] == "high").sum()) for group in ("f", "m")]
    [50, 50]
    """

    # The base class has a parameter ``sampling_strategy``: no class is made larger or smaller here.
    _sampling_type = "bypass"
    # Attributes are what this step is for: they are requested by default; weights only on demand.
    __metadata_request__fit_resample = {  # noqa: RUF012
        "sensitive_features": True,
        "control_features": True,
    }
    _parameter_constraints: dict[str, Any] = {}  # noqa: RUF012 - scikit-learn's own convention

    def __init__(  # type: ignore[misc] # epsilon may come without its name
        self,
        epsilon: Epsilon = DEFAULTS["epsilon"],
        *,
        groups: GroupUse = "visible",
        group_estimator: Any = None,
        cv: int = 5,
        random_state: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        store(locals())

    def fit(self, X: Any, y: Any, **metadata: Any) -> Self:
        """Find the prices without handing labels out.

        Parameters
        ----------
        X, y, **metadata
            As for ``fit_resample``, by name.
        """
        # Metadata without names of their own are not asked for twice: a pipeline calls fit_resample
        # alone, but routes to both.
        self.fit_resample(X, y, **metadata)
        return self

    def fit_resample(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> tuple[Any, Any]:
        """Return the same rows with fair labels.

        Parameters
        ----------
        X : array or frame with N rows
            The group estimator looks at it. With ``groups="given"`` nothing but its shape, its
            column names and its row labels counts.
        y : array-like of shape (N,) or (N, L)
            Classes, or probabilities.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            Not optional; its default only serves an error that says how a pipeline passes it. A
            :class:`r2b.Membership`, such as :func:`r2b.sklearn.visible_groups` gives, is taken as
            it is.
        control_features : array-like of shape (N,) or (N, n_features), optional
            Parity is asked for within each of their values.
        sample_weight : array-like of shape (N,), optional
            Weights under which parity holds, as far as whole rows allow.

        Returns
        -------
        X, y
            X itself; one class per row, as the kind of column that came in.

        Raises
        ------
        ParameterError
            The sensitive attribute did not arrive.
        InputError
            The data cannot be used as they are.
        """
        if sensitive_features is None:
            problem = "sensitive_features did not arrive at this step of the pipeline."
            way = "Call sklearn.set_config(enable_metadata_routing=True)"
            remedy = f"{way} and pass sensitive_features to the pipeline's fit."
            raise ParameterError(problem, remedy=remedy)
        is_frame = libraries.is_pandas_dataframe(y) and y.shape[1] == 1
        column = checked_labels(y.iloc[:, 0] if is_frame else y, type(self).__name__)
        taken = self.get_params(deep=False)
        taken.pop("sampling_strategy", None)
        fair = fair_labels(
            X,
            column,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            **taken,
        )
        note_features(self, X)
        publish(self, without_rows(fair))
        labels = fair.round(self.random_state)
        if isinstance(y, list):
            return X, labels.tolist()
        return X, labels.to_frame() if is_frame else labels

    def _fit_resample(self, X: Any, y: Any, **params: Any) -> tuple[Any, Any]:
        # Abstract in the base class, whose ``fit_resample`` would turn X into an array first; ours
        # does not come here.
        return self.fit_resample(X, y, **params)
