"""What fair classifiers share: rows read and dealt into folds, groups predicted or given, prices, predictions and their evidence."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, check_is_fitted

from r2b._constraints.families import Request
from r2b._constraints.families.request import is_a, one_of
from r2b._data.arrays import Array, Floats
from r2b._data.columns import column_of, refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import generator, seed_of
from r2b._labels.debiasing import DEFAULTS, request_and_settings
from r2b._labels.labels import Form
from r2b._labels.sampling import sample_rows
from r2b.errors import InputError, NotFairWarning, ParameterError
from r2b.metrics.criteria import CRITERIA
from r2b.metrics.promise import parity_promise
from r2b.sklearn.crossfit import FoldEnsemble, columns_of, rows_at
from r2b.sklearn.fit_rows import FitRows
from r2b.sklearn.labels import (
    checked_labels,
    class_order,
    note_features,
    part_of,
    require_sensitive,
    weight_column,
)
from r2b.sklearn.learners import (
    class_scores,
    fit_requests,
    gives_probabilities,
    kind_of,
    refuse_no_learner,
)
from r2b.sklearn.prediction_parity import PredictionParity, measure
from r2b.sklearn.price import trace_frontier
from r2b.sklearn.scores import FairScores, Kind, ScoreTask, decide
from r2b.sklearn.visible import group_learner, predicted_codes, train_groups

AttributeUse = Literal["predicted", "given"]


class FairPredictor(ClassifierMixin, MetaEstimatorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """The base of classifiers whose predictions are made fair by prices."""

    def _fit(
        self, X: Any, y: Any, data: dict[str, Any], clusters: Any, fit_params: dict[str, Any]
    ) -> Self:
        """Hold rows back where a promise is asked for, train on the others, and measure."""
        self._refuse_learner()
        one_of("attribute", self.attribute, get_args(AttributeUse))
        require_sensitive(data["sensitive_features"], type(self).__name__)
        y, held = checked_labels(y), None
        note_features(self, X)
        if self.confidence is not None:
            if not is_a(Real, self.confidence) or not 0 < self.confidence < 1:
                problem = f"confidence is {self.confidence!r}."
                raise ParameterError(
                    problem,
                    remedy="Pass a number between 0 and 1, such as 0.95.",
                    confidence=self.confidence,
                )
            weight = data["sample_weight"]
            uneven = weight is not None and len(np.unique(weight_column(weight))) > 1
            if clusters is not None or uneven:
                other = (
                    "clusters"
                    if clusters is not None
                    else "a sample_weight that differs between rows"
                )
                problem = f"confidence is given together with {other}, but a promise counts rows as drawn one by one."
                raise ParameterError(
                    problem, remedy="Leave one of the two out.", confidence=self.confidence
                )
            whole = self._read(X, y, data, clusters, fit_params, self._held_folds())
            left, held = next(iter(whole.folds))
            later = (
                rows_at(X, held),
                part_of(y, held),
                {name: part_of(each, held) for name, each in data.items()},
            )
            X, y, clusters = rows_at(X, left), part_of(y, left), part_of(clusters, left)
            fit_params = _check_method_params(whole.X, fit_params, left)
            data = {name: part_of(each, left) for name, each in data.items()}
        for name in (
            "parity_",
            "promise_",
            "probability_promise_",
            "frontier_",
            "decision_rule_",
            "probability_rule_",
            "fold_estimators_",
        ):
            if hasattr(self, name):
                delattr(self, name)  # of a model before
        if self._cross_fits:
            rows = self._read(X, y, data, clusters, fit_params, self.cv)
            self._order = class_order(rows.classes)
            self.classes_ = rows.classes[self._order]
            self._train(rows)
            self.comparisons_ = rows.groups.without_rows()
        else:
            self._train_once(X, y, data, fit_params)
        if held is not None:
            self._promise(*later)
        return self

    def _refuse_learner(self) -> None:
        """Refuse what cannot be trained."""
        refuse_no_learner(self.estimator)

    @property
    def _cross_fits(self) -> bool:
        """Whether anything is predicted out of fold."""
        return True

    @abstractmethod
    def _train(self, rows: FitRows) -> None:
        """Train, and find the prices of predictions."""

    def _train_once(self, X: Any, y: Any, data: dict[str, Any], fit_params: dict[str, Any]) -> None:
        """Train without anything out of fold; only where :attr:`_cross_fits` may be false."""

    def _options(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.get_params(deep=False).items() if name in DEFAULTS
        }

    def _request(self) -> Request:
        return request_and_settings(self._options())[0]

    def _held_folds(self) -> int:
        share = self.held_back
        if not is_a(Real, share) or not 0.02 <= share <= 0.5:
            remedy = "Pass a share of the rows between 0.02 and 0.5, such as 0.25."
            raise ParameterError(f"held_back is {share!r}.", remedy=remedy, held_back=share)
        return round(1 / float(share))

    def _read(
        self,
        X: Any,
        y: Any,
        data: dict[str, Any],
        clusters: Any,
        fit_params: dict[str, Any],
        n_folds: Any,
    ) -> FitRows:
        own: dict[str, Any] = {
            "criterion": getattr(self, "criterion", "demographic_parity"),
            "normalize": getattr(self, "normalize", False),
        }
        further = {
            "random_state": self.random_state,
            "clusters": clusters,
            "fit_params": fit_params,
        }
        return FitRows.of(X, y, data, self._request(), cv=n_folds, **own, **further)

    def _fit_groups(self, rows: FitRows) -> Floats | None:
        """Train who predicts the groups, and predict those of the fitted rows out of fold; None where nothing does."""
        learner, reason = group_learner(self.group_estimator, self.estimator)
        if self.attribute == "predicted":
            codes, models = predicted_codes(learner, rows.X, rows.groups, rows.folds, self.n_jobs)
            whole = (
                None
                if self.ensemble
                else train_groups(learner, rows.X, rows.groups.codes, rows.groups.weight)
            )
            self.group_estimator_, self.group_reason_ = (
                FoldEnsemble(models) if whole is None else whole,
                reason,
            )
            return codes
        self.group_estimator_, self.group_reason_ = None, "the attribute is given at prediction"
        try:  # only to show what doing without it would cost
            return (
                predicted_codes(learner, rows.X, rows.groups, rows.folds, self.n_jobs)[0]
                if self._n_points()
                else None
            )
        except (InputError, ParameterError):
            return None

    def _rule(self, rows: FitRows, scores: Floats, codes: Floats | None, kind: Kind) -> FairScores:
        """Find prices on out-of-fold scores, and say so where predictions stay above epsilon by more than chance."""
        used = (
            codes if self.attribute == "predicted" else rows.groups.given(rows.groups.cells, scores)
        )
        assert used is not None
        options = self._options()
        rule = ScoreTask.of(
            scores, rows.groups, used, rows.truth, kind=kind, options=options
        ).solve()
        if kind == "decisions" and rows.truth is not None and self._n_points():
            self.frontier_ = trace_frontier(
                scores, rows.groups, codes, rows.truth, self._n_points(), options
            )
        if rule.excess > rule.limit:
            shown = f"{rule.disparity:.4f} by true group, {rule.excess:.4f} above epsilon"
            problem = f"Out of fold the {kind} have a parity of {shown}; chance alone shows up to {rule.limit:.4f}."
            remedy = "Pass more rows, a group_estimator that sees the groups better, attribute='given', or a larger epsilon."
            warnings.warn(
                NotFairWarning(
                    problem,
                    remedy=remedy,
                    disparity=rule.disparity,
                    excess=rule.excess,
                    limit=rule.limit,
                ),
                stacklevel=5,
            )
        return rule

    def _n_points(self) -> int:
        if not is_a(Integral, self.frontier) or self.frontier < 0 or self.frontier == 1:
            remedy = "Pass how many epsilons the path has, at least 2, or 0 to leave it out."
            raise ParameterError(
                f"frontier is {self.frontier!r}.", remedy=remedy, frontier=self.frontier
            )
        return int(self.frontier)

    def _promise(self, X: Any, y: Any, data: Mapping[str, Any]) -> None:
        """Bound the parity of predictions for new rows, from the rows that were held back."""
        request, criterion = self._request(), getattr(self, "criterion", "demographic_parity")
        given = (
            {name: data[name] for name in ("sensitive_features", "control_features")}
            if self.attribute == "given"
            else {}
        )
        asked: dict[str, Any] = {
            **data,
            "confidence": self.confidence,
            "criterion": criterion,
            "families": request.families,
        }
        asked["epsilon"] = float(request.epsilon) if is_a(Real, request.epsilon) else None  # type: ignore[arg-type]
        asked["y_true"] = y if CRITERIA[criterion].by_true_class else None
        self.promise_ = parity_promise(self.predict(X, **given), **asked)
        if hasattr(self, "predict_proba"):
            self.probability_promise_ = parity_promise(
                self.predict_proba(X, **given), classes=self.classes_, **asked
            )

    def _codes(
        self, X: Any, scores: Floats, sensitive_features: Any, control_features: Any
    ) -> Floats:
        """Give the probabilities of the codes of new rows.

        Raises
        ------
        ParameterError
            The attribute is missing where it is needed, or given where nothing looks at it.
        """
        known = sensitive_features is not None or control_features is not None
        if self.group_estimator_ is not None:
            if known:
                problem = "The prediction was given the attribute, but attribute is 'predicted', which looks at X alone."
                raise ParameterError(
                    problem,
                    remedy="Leave it out, or fit with attribute='given'.",
                    attribute="predicted",
                )
            return columns_of(self.group_estimator_, X, self.comparisons_.n_codes)
        if sensitive_features is None:
            problem = "attribute is 'given', but the prediction came without sensitive_features."
            raise ParameterError(
                problem,
                remedy="Pass sensitive_features=..., or fit with attribute='predicted'.",
                attribute="given",
            )
        refuse_other_index(
            ("X", row_labels(X)), ("sensitive_features", row_labels(sensitive_features))
        )
        cells = self.comparisons_.cells_of(sensitive_features, control_features, len(scores))
        return self.comparisons_.given(cells, scores)

    @abstractmethod
    def _scores(self, X: Any, kind: Kind) -> Floats:
        """Give the scores that a rule is applied to, with columns in the order of the labels."""

    def _mean_scores(self, X: Any, kind: Kind, classes: Array, form: Form) -> Floats:
        """Give the mean of the scores of all models that the prices of one kind of prediction are for."""
        return np.asarray(
            np.mean(
                [class_scores(model, X, classes, form) for model in self.fold_estimators_[kind]],
                axis=0,
            )
        )

    def _fair_rows(
        self, rule: FairScores, X: Any, sensitive_features: Any, control_features: Any
    ) -> Floats:
        scores = self._scores(X, rule.kind)
        return rule.apply(
            scores, self.comparisons_, self._codes(X, scores, sensitive_features, control_features)
        )

    def predict(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        key: Any = None,
    ) -> Array:
        """Decide for one class per row, in parity.

        The most accurate decisions for these scores that meet epsilon on the rows that the prices
        were found on. They follow from the row alone: where classes tie, the row is drawn by its
        key.

        Parameters
        ----------
        X : array, sparse matrix or frame
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.
        key : array-like of shape (n,), optional
            What tells rows apart where scores tie; without it their features, so that equal rows
            get equal decisions.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "comparisons_")
        rows = self._fair_rows(self.decision_rule_, X, sensitive_features, control_features)
        if key is not None:
            column = column_of(key, what="key")
            refuse_lengths("X", len(rows), "key", len(column.native))
            refuse_other_index(("X", row_labels(X)), ("key", column.index))
            key = column.native
        return np.asarray(
            self.comparisons_.schema.classes.values[
                decide(rows, X, key, seed_of(self.random_state))
            ]
        )

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, control_features: Any = None
    ) -> Array:
        """Give fair probabilities: the group means of every class meet epsilon on the rows that the prices were found on.

        Parameters
        ----------
        X : array, sparse matrix or frame
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns as in ``classes_``.
        """
        check_is_fitted(self, "comparisons_")
        return self._fair_rows(self.probability_rule_, X, sensitive_features, control_features)[
            :, self._order
        ]

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(
        self, X: Any, *, sensitive_features: Any = None, control_features: Any = None
    ) -> Array:
        """Give the logarithms of the probabilities; minus infinity where one is 0.

        Parameters
        ----------
        X, sensitive_features, control_features
            As for :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(
                    self.predict_proba(
                        X, sensitive_features=sensitive_features, control_features=control_features
                    )
                )
            )

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
    ) -> float:
        """Give the accuracy of the decisions.

        Parameters
        ----------
        X : array, sparse matrix or frame
        y : array-like of shape (n,)
            True classes.
        sample_weight : array-like of shape (n,), optional
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.

        Returns
        -------
        float
        """
        decided = self.predict(
            X, sensitive_features=sensitive_features, control_features=control_features
        )
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    def get_metadata_routing(self) -> Any:
        """Say what each method takes: besides its own what the learner asks for in ``fit``, and the attribute where predictions need it.

        Returns
        -------
        MetadataRequest
        """
        requests = super().get_metadata_routing()
        for name, alias in fit_requests(self.estimator).items():
            if name not in requests.fit.requests:
                requests.fit.add_request(param=name, alias=alias)
        for method in ("predict", "predict_proba", "predict_log_proba", "score"):
            request, needed = getattr(requests, method), self.attribute == "given"
            for name in ("sensitive_features", "control_features"):
                # A search hands the groups that it passes to fit to score as well.
                if request.requests.get(name) is None and (needed or method == "score"):
                    request.add_request(param=name, alias=needed)
        return requests

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_sampled(self, X: Any, random_state: Any = 0, **groups: Any) -> Array:
        """Draw a class for every row from its fair probabilities.

        Parameters
        ----------
        X : array, sparse matrix or frame
        random_state : int, Generator, RandomState or None
            The same number gives the same draw for the same rows.
        **groups
            As for :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n,)
        """
        chances = self.predict_proba(X, **groups)
        return np.asarray(
            self.classes_[sample_rows(chances, generator(random_state).random(len(chances)))]
        )

    def parity_report(
        self,
        X: Any,
        *,
        sensitive_features: Any,
        y: Any = None,
        sample_weight: Any = None,
        n_permutations: int = 200,
    ) -> PredictionParity:
        """Measure the parity of predictions on rows whose groups are known.

        It is the largest difference between two groups, the crossings of all attributes passed,
        whatever ``bound`` and ``families`` are.

        Parameters
        ----------
        X : array, sparse matrix or frame
            Rows that the model was not trained on.
        sensitive_features, sample_weight
            As for :func:`r2b.metrics.demographic_parity_difference`.
        y : array-like of shape (n,), optional
            True classes, for the accuracy.
        n_permutations : int
            For the level of chance; each is a pass over the rows. 0 leaves it out.

        Returns
        -------
        PredictionParity
        """
        given = {
            "X": X,
            "y": y,
            "sensitive_features": sensitive_features,
            "sample_weight": sample_weight,
        }
        refuse_other_index(*((name, row_labels(rows)) for name, rows in given.items()))
        known = (
            {"sensitive_features": sensitive_features}
            if getattr(self, "group_estimator_", self) is None
            else {}
        )
        probabilities = self.predict_proba(X, **known) if hasattr(self, "predict_proba") else None
        groups = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        return measure(
            probabilities, self.predict(X, **known), y=y, n_permutations=n_permutations, **groups
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # a place that a search fills, or a finished model that is no estimator
        if kind_of(self.estimator) is None:
            return tags
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags
