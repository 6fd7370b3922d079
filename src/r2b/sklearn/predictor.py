"""What fair classifiers share: predicted groups, prices, predictions and their evidence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted

from r2b._constraints.families import Request
from r2b._constraints.families.request import is_a, one_of
from r2b._data import Vocabulary
from r2b._data.arrays import Array, Floats
from r2b._data.columns import (
    column_of,
    refuse_lengths,
    refuse_other_index,
    refuse_other_rows,
    row_labels,
)
from r2b._data.compute import generator, one_blas_thread
from r2b._data.dataset import read_known_labels
from r2b._data.numbers import refuse_no_probability, refuse_other_number
from r2b._data.values import warn
from r2b._labels.debiasing import request_and_settings
from r2b._labels.labels import Form
from r2b._labels.sampling import sample_rows
from r2b.errors import DataWarning, InputError, NotFairWarning, ParameterError
from r2b.metrics.criteria import CRITERIA
from r2b.metrics.promise import Promise, parity_promise
from r2b.sklearn.evidence import ParityReport, report_of, trace_frontier
from r2b.sklearn.folds import FoldEnsemble, code_probabilities, out_of_fold
from r2b.sklearn.groups import (
    FitRows,
    choose_group_learner,
    epsilons_of,
    predict_codes,
    shares_of,
    train_groups,
    true_groups,
)
from r2b.sklearn.labels import (
    checked_labels,
    class_order,
    note_features,
    options_of,
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
from r2b.sklearn.multilabel import by_tag, fit_tags, strata_of
from r2b.sklearn.prices import Kind
from r2b.sklearn.reporting import ReportsItself
from r2b.sklearn.rule import FairScores, ScoreRows, decide, find_rule
from r2b.sklearn.training import (
    TrainingRows,
    rows_at,
    train_fresh,
)

AttributeUse = Literal["predicted", "given"]
_GROUPS = ("sensitive_features", "control_features")
_THREADED = 1 << 22
"""Numbers in X from which learners may gain by a threaded BLAS.

On smaller tables its threads wait for each other: logistic regression takes ten times as long.
"""
_FITTED = (
    "classes_",
    "report_",
    "parity_",
    "promise_",
    "probability_promise_",
    "frontier_",
    "decision_rule_",
    "probability_rule_",
    "score_estimators_",
    "tags_",
)


def few_threads(X: Any) -> AbstractContextManager[None]:
    """Keep linear algebra on one thread while models are trained on a small table."""
    small = np.prod(getattr(X, "shape", (0,))) < _THREADED
    return one_blas_thread() if small else nullcontext()


class FairPredictor(ReportsItself, ABC):
    """The base of classifiers whose predictions are made fair by prices."""

    def _fit(
        self, X: Any, y: Any, data: dict[str, Any], clusters: Any, fit_params: dict[str, Any]
    ) -> Self:
        """Hold rows back where a promise is asked for, train on the others, and measure."""
        self._refuse_learner()
        one_of("attribute", self.attribute, AttributeUse)
        for name in self._criteria or (None,):
            one_of("criterion", name, list(CRITERIA))
        require_sensitive(data["sensitive_features"], type(self).__name__)
        y = checked_labels(y, type(self).__name__)
        note_features(self, X)
        later = None
        if self.confidence is not None:
            n_folds = self._held_folds(data["sample_weight"], clusters)
            whole = self._read(X, y, data, clusters, fit_params, n_folds)
            left, held = next(iter(whole.folds))
            later = rows_at(X, held), part_of(y, held), part_of(data, held)
            X, y, data = rows_at(X, left), part_of(y, left), part_of(data, left)
            clusters = part_of(clusters, left)
            fit_params = _check_method_params(whole.X, fit_params, left)
        for name in _FITTED:  # of a model before
            self.__dict__.pop(name, None)
        try:
            with few_threads(X):
                self._fit_on(X, y, data, clusters, fit_params)
        except BaseException:  # what was made until then predicts nothing
            self.__dict__.pop("classes_", None)
            raise
        if later is not None:
            self._promise(*later)
        return self

    def _fit_on(
        self, X: Any, y: Any, data: dict[str, Any], clusters: Any, fit_params: dict[str, Any]
    ) -> None:
        """Train, and find the prices."""
        if not self._cross_fits:
            self._train_once(X, y, data, fit_params)
            return
        rows = self._read(X, y, data, clusters, fit_params, self.cv)
        compared = rows.groups.comparisons
        if all(len(each.groups) < each.bound.fewest_groups for each in compared):
            problem = "The rows are all of one group, so that there is nothing to compare."
            raise InputError(problem, remedy="Check that the right column was passed.")
        self._seed = rows.seed
        if self.multilabel:
            fit_tags(self, rows, y)
            return
        self._order = class_order(rows.classes)
        self.classes_ = rows.classes[self._order]
        self._train(rows)
        self.comparisons_ = rows.groups.without_rows()

    def _refuse_learner(self) -> None:
        """Refuse what cannot be trained."""
        refuse_no_learner(self.estimator)

    def _held_folds(self, weight: Any, clusters: Any) -> int:
        """Return of how many folds one is held back.

        Refuses a confidence that no promise can have, and rows that were not drawn one by one.
        """
        confidence, share = self.confidence, self.held_back
        refuse_no_probability("confidence", confidence, 0.95)
        uneven = weight is not None and len(np.unique(weight_column(weight))) > 1
        if clusters is not None or uneven:
            other = "clusters" if clusters is not None else "a sample_weight that differs"
            problem = f"confidence is given with {other}, but a promise counts rows one by one."
            remedy = "Leave one of the two out."
            raise ParameterError(problem, remedy=remedy, confidence=confidence)
        remedy = "Pass a share of the rows between 0.02 and 0.5, such as 0.25."
        refuse_other_number("held_back", share, remedy, lambda value: 0.02 <= value <= 0.5)
        return round(1 / float(share))

    @property
    def _cross_fits(self) -> bool:
        """Whether anything is predicted out of fold."""
        return True

    @abstractmethod
    def _train(self, rows: FitRows) -> None:
        """Train, and find the prices of predictions."""

    def _train_once(self, X: Any, y: Any, data: dict[str, Any], fit_params: dict[str, Any]) -> None:
        """Train without anything out of fold; only where :attr:`_cross_fits` may be false."""

    def _scores(self, X: Any) -> Floats:
        """Return the mean scores of the models that the prices are for."""
        scores = [
            class_scores(model, X, self._label_classes, self._score_form)
            for model in self.score_estimators_
        ]
        return scores[0] if len(scores) == 1 else np.mean(scores, axis=0)

    @property
    def _label_classes(self) -> Array:
        """The classes, in the order in which the labels have them."""
        settled = hasattr(self, "comparisons_")
        classes: Array
        classes = self.comparisons_.schema.classes.values if settled else self.labels_.classes
        return classes

    def _request(self) -> Request:
        return request_and_settings(options_of(self))[0]

    @property
    def _criteria(self) -> tuple[str, ...]:
        """The criteria by name."""
        one = self.criterion is None or isinstance(self.criterion, str)
        return (self.criterion,) if one else tuple(dict.fromkeys(self.criterion))

    def _read(
        self,
        X: Any,
        y: Any,
        data: dict[str, Any],
        clusters: Any,
        fit_params: dict[str, Any],
        n_folds: Any,
    ) -> FitRows:
        request, criteria = self._request(), self._criteria
        if self.multilabel:
            (y, request), criteria = strata_of(y, request), ("demographic_parity",)
        asked = {**data, "normalize": getattr(self, "normalize", False)}
        return FitRows.of(
            X,
            y,
            data,
            true_groups(y, asked, request, criteria, self.positive),
            cv=n_folds,
            random_state=self.random_state,
            clusters=clusters,
            fit_params=fit_params,
        )

    def _train_on(
        self, rows: FitRows, training: TrainingRows, form: Form, own: bool = False
    ) -> Any:
        """Fit a clone of the learner; ``own`` hands it the callbacks themselves."""
        estimator, params = self.estimator, rows.fit_params
        return train_fresh(estimator, rows.X, training, form, rows.classes, params, rows.y, own)

    def _fit_scores(self, rows: FitRows, form: Form, own: bool) -> tuple[Floats, Any]:
        """Train on the labels as they came; return scores out of fold, and the model."""
        training = rows.as_they_came(form)

        def predict(left: Array, held: Array) -> tuple[Floats, Any]:
            model = self._train_on(rows, training.among(left), form)
            return class_scores(model, rows_at(rows.X, held), rows.classes, form), model

        scores, models = out_of_fold(predict, rows.folds, len(rows.classes), self.n_jobs)
        model = self._train_on(rows, training, form, own)
        self.score_estimators_ = models if self.ensemble else (model,)
        self._score_form = form
        return scores, model

    def _fit_rules(self, rows: FitRows, scores: Floats, codes: Floats | None) -> None:
        """Find the prices of out-of-fold scores, and warn of what unseen rows show."""
        with one_blas_thread():
            groups = rows.groups
            used = groups.given(scores) if self.attribute == "given" else codes
            assert used is not None
            decisions = ScoreRows("decisions", scores, used, groups, rows.labels)
            self.decision_rule_, fair = find_rule(decisions, rows.folds)
            self.parity_ = report_of("decisions", groups, fair, rows.labels, decisions.weight, True)
            probabilities = replace(decisions, kind="probabilities")
            self.probability_rule_, soft = find_rule(probabilities, rows.folds)
            self._warn(self.decision_rule_)
            if stuck := report_of(
                "probabilities", groups, soft, None, decisions.weight, True
            ).not_met:
                apart = max(each.disparity for each in stuck)
                held = "prices cannot move scores of 0 and 1"
                problem = f"The probabilities have a disparity of {apart:.3f}: {held}."
                remedy = "Decide by predict, or calibrate the estimator."
                warn(DataWarning(problem, remedy=remedy, disparity=apart))
            if rows.truth is not None and self._n_points():
                plan = self.decision_rule_.plan
                self.frontier_ = trace_frontier(decisions, codes, self._n_points(), plan, rows.seed)

    def _fit_groups(self, rows: FitRows) -> Floats | None:
        """Train who predicts the groups, and return their predictions out of fold."""
        learner, reason = choose_group_learner(self.group_estimator, self.estimator)
        if self.attribute == "predicted":
            codes, models = predict_codes(learner, rows.X, rows.groups, rows.folds, self.n_jobs)
            self.group_estimator_ = (
                FoldEnsemble(models)
                if self.ensemble
                else train_groups(learner, rows.X, rows.groups)
            )
            self.group_reason_ = reason
            return codes
        self.group_estimator_, self.group_reason_ = None, "the attribute is given at prediction"
        if not self._n_points():
            return None
        try:  # only to show what doing without it would cost
            return predict_codes(learner, rows.X, rows.groups, rows.folds, self.n_jobs)[0]
        except (InputError, ParameterError):
            return None

    def _warn(self, rule: FairScores) -> None:
        """Say where decisions are unfair, or not what a user expects of a fair model."""
        unfair = self.parity_.problems()
        problems = list(unfair)
        numbers = rule.accuracy, rule.majority, rule.plain_accuracy
        mine, most, plain = (f"{number:.3f}" for number in numbers)
        if rule.largest_share > 0.95:
            problems.append(
                f"One class takes {100 * rule.largest_share:.0f} % of the rows: the accuracy is "
                f"{mine}, that of the plain model {plain}."
            )
        elif rule.accuracy < rule.majority:
            problems.append(f"The accuracy is {mine}, below {most} of the most frequent class.")
        if rule.is_plain:
            found = "do not meet" if unfair else "meet"
            problems.append(f"The decisions are those of the plain model, which {found} epsilon.")
        if not problems:
            return
        other = "" if self.attribute == "given" else "`attribute='given'`, "
        other += "a better `group_estimator`, " * bool(other)
        remedy = f"Pass more rows, {other}`small_groups='merge'` or 'exclude' with "
        remedy += "`min_group_size`, or a larger epsilon."
        kind: Any = NotFairWarning
        if rule.is_plain and not unfair:
            kind, remedy = DataWarning, "Nothing needs to be done; parity_report() has the figures."
        named = [each.group for each in (*self.parity_.not_met, *self.parity_.likely)]
        facts = {"groups": named, "accuracy": rule.accuracy}
        warn(kind(" ".join(problems), remedy=remedy, **facts))

    def _n_points(self) -> int:
        remedy = "Pass how many epsilons the path has, at least 2, or 0 to leave it out."
        refuse_other_number("frontier", self.frontier, remedy, lambda n: n == 0 or n > 1, Integral)
        return int(self.frontier)

    def _promise(self, X: Any, y: Any, data: dict[str, Any]) -> None:
        """Bound the disparity of predictions for new rows, from the rows that were held back."""
        if self.multilabel:
            self.__dict__ |= self.tags_.promise(X, y, data)
            return
        request = self._request()
        given = {name: data[name] for name in _GROUPS} if self.attribute == "given" else {}
        asked: list[dict[str, Any]] = []
        for name, epsilon in epsilons_of(request.epsilon, self._criteria).items():
            criterion = CRITERIA[name]
            asked.append(
                {
                    **data,
                    "confidence": self.confidence,
                    "criterion": name,
                    "positive": self.positive if criterion.of_class else None,
                    "families": request.families,
                    "epsilon": float(epsilon) if is_a(Real, epsilon) else None,
                    "y_true": y if criterion.needs_truth else None,
                }
            )
        self.promise_ = self._promised("decisions", X, given, asked)
        if hasattr(self, "predict_proba"):
            self.probability_promise_ = self._promised("probabilities", X, given, asked)

    def _promised(
        self, kind: str, X: Any, given: dict[str, Any], asked: list[dict[str, Any]]
    ) -> Promise:
        how: dict[str, Any] = {}
        settled = hasattr(self, "comparisons_")
        outcomes = self.comparisons_.outcomes if settled else self.labels_.families.outcomes
        if outcomes is not None:
            shares = outcomes.shares(self._distributions(kind, X, given))
            # what is compared need not add up to 1, as tags need not
            predicted: Any = dict(zip(outcomes.names, shares.T, strict=True))
            how = {"multilabel": True}
        elif kind == "decisions":
            predicted = self.predict(X, **given)
        else:
            predicted, how = self.predict_proba(X, **given), {"classes": self.classes_}
        promises = [parity_promise(predicted, **how, **each) for each in asked]
        # what is farthest above its epsilon holds where all of them do
        return max(promises, key=lambda each: each.bound - (each.epsilon or 0.0))

    def _distributions(self, kind: str, X: Any, given: dict[str, Any]) -> Floats:
        """Return predictions as one distribution per row, with classes as the labels have them."""
        classes = self._label_classes
        if kind == "decisions":
            return np.asarray(self.predict(X, **given)[:, None] == classes, np.float64)
        rows = np.empty((_num_samples(X), len(classes)))
        rows[:, class_order(classes)] = self.predict_proba(X, **given)
        return rows

    def _codes(self, X: Any, scores: Floats, sensitive: Any, control: Any) -> Floats:
        """Return the probabilities of the codes of new rows.

        Raises
        ------
        ParameterError
            The attribute is missing where it is needed, or given where nothing looks at it.
        """
        if self.group_estimator_ is not None:
            if sensitive is not None or control is not None:
                problem = "The prediction was given the attribute, but attribute is 'predicted'."
                remedy = "Leave it out, or fit with `attribute='given'`."
                raise ParameterError(problem, remedy=remedy, attribute="predicted")
            return code_probabilities(self.group_estimator_, X, self.comparisons_.n_codes)
        if sensitive is None:
            problem = "attribute is 'given', but the prediction came without sensitive_features."
            remedy = "Pass `sensitive_features=...`, or fit with `attribute='predicted'`."
            raise ParameterError(problem, remedy=remedy, attribute="given")
        refuse_other_index(("X", row_labels(X)), ("sensitive_features", row_labels(sensitive)))
        cells = self.comparisons_.cells_or_unknown(sensitive, control, len(scores))
        unknown = int((cells < 0).sum())
        if unknown:
            problem = f"The group of {unknown:,} rows is missing, or was not there in fit."
            remedy = "They pay the mean price of all groups; pass groups that were fitted."
            warn(DataWarning(problem, remedy=remedy, count=unknown))
        return self.comparisons_.given(scores, cells)

    def _fair_rows(self, rule: FairScores, X: Any, sensitive: Any, control: Any) -> Floats:
        scores = self._scores(X)
        return rule.apply(scores, self.comparisons_, self._codes(X, scores, sensitive, control))

    def predict_plain(self, X: Any) -> Array | None:
        """Return the most probable classes by the scores without prices, to compare with.

        Parameters
        ----------
        X : array, sparse matrix or frame
            Features of the rows.

        Returns
        -------
        ndarray of shape (n,) or None
            None where no prices were found.
        """
        check_is_fitted(self, "classes_")
        if not hasattr(self, "decision_rule_"):
            return None
        return np.asarray(self._label_classes[self._scores(X).argmax(axis=1)])

    @by_tag
    def predict(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        key: Any = None,
    ) -> Array:
        """Decide for one class per row, in parity unless ``decisions`` is "likeliest".

        Fair decisions are the most accurate ones for the scores that meet epsilon on the rows that
        the prices were found on. They follow from the row alone: where classes tie, the row is
        drawn by its key.

        Parameters
        ----------
        X : array, sparse matrix or frame
            Features of the rows.
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.
        key : array-like of shape (n,), optional
            What tells rows apart where scores tie; without it their features, so that equal rows
            get equal decisions.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "classes_")
        if not hasattr(self, "decision_rule_"):
            if any(each is not None for each in (sensitive_features, control_features, key)):
                problem = "The prediction was given groups or a key, which nothing looks at."
                remedy = "Leave them out, or fit with `decisions='fair'`."
                raise ParameterError(problem, remedy=remedy)
            return np.asarray(self._predict_plain(X))
        rows = self._fair_rows(self.decision_rule_, X, sensitive_features, control_features)
        if key is not None:
            column = column_of(key, what="key")
            refuse_other_rows(("X", len(rows), row_labels(X)), ("key", len(column), column.index))
            key = column.native
        codes = decide(rows, X, key, self._seed)
        return self._label_classes[codes]

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    @by_tag
    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, control_features: Any = None
    ) -> Array:
        """Return fair probabilities.

        Their group means meet epsilon on the rows that the prices were found on, as far as scores
        lie between 0 and 1: prices cannot move a score of 0, and ``fit`` warns where that keeps
        groups apart. With ``decisions="likeliest"`` they are those of the learner trained on fair
        labels.

        Parameters
        ----------
        X : array, sparse matrix or frame
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns as in ``classes_``; with ``decisions="likeliest"`` zeros for a class that
            debiasing left without any row.
        """
        check_is_fitted(self, "classes_")
        if not hasattr(self, "probability_rule_"):
            return np.asarray(self._predict_proba_plain(X))
        rows = self._fair_rows(self.probability_rule_, X, sensitive_features, control_features)
        return rows[:, self._order]

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(
        self, X: Any, *, sensitive_features: Any = None, control_features: Any = None
    ) -> Array:
        """Return the logarithms of the probabilities; minus infinity where one is 0.

        Parameters
        ----------
        X, sensitive_features, control_features
            As for :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        groups = {"sensitive_features": sensitive_features, "control_features": control_features}
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, **groups)))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    @by_tag
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
        draws = generator(random_state).random(len(chances))
        return self.classes_[sample_rows(chances, draws)]

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
    ) -> float:
        """Return the accuracy of the decisions.

        Parameters
        ----------
        X : array, sparse matrix or frame
            Features of the rows.
        y : array-like of shape (n,)
            True classes.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; without them all count the same.
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.

        Returns
        -------
        float
        """
        groups = {"sensitive_features": sensitive_features, "control_features": control_features}
        return float(accuracy_score(y, self.predict(X, **groups), sample_weight=sample_weight))

    @by_tag
    def parity_report(
        self,
        X: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        kind: Kind = "decisions",
    ) -> ParityReport:
        """Return a verdict for every group: its disparity, what chance explains, its rows.

        Without rows it is that of ``fit``, whose prices were judged on rows that they were not
        found on. Families and criteria are those of the model.

        Parameters
        ----------
        X : array, sparse matrix or frame, optional
            Rows that the model was not trained on.
        sensitive_features, control_features, sample_weight
            Of these rows, as for :meth:`fit`.
        y : array-like of shape (n,), optional
            True classes, for the accuracy; criteria that compare error rates need them.
        kind : {"decisions", "probabilities"}
            Whether the class of each row is judged, or its probabilities.

        Returns
        -------
        ParityReport
        """
        check_is_fitted(self, "classes_")
        one_of("kind", kind, Kind)
        if X is None:
            others = sensitive_features, control_features, y, sample_weight
            if any(each is not None for each in others) or kind != "decisions":
                problem = "parity_report was told what to judge, but X is None."
                raise ParameterError(problem, remedy="Pass the features of these rows as X.")
            if not hasattr(self, "parity_"):
                problem = "This model has no prices, whose decisions fit would have judged."
                remedy = "Pass X and sensitive_features, or fit with `decisions='fair'`."
                raise ParameterError(problem, remedy=remedy)
            return self.parity_
        require_sensitive(sensitive_features, type(self).__name__, "parity_report")
        rows = {"sensitive_features": sensitive_features, "control_features": control_features}
        given = {"X": X, "y": y, "sample_weight": sample_weight, **rows}
        refuse_other_index(*((name, row_labels(each)) for name, each in given.items()))
        classes = self._label_classes
        fair = self._distributions(kind, X, rows if self.attribute == "given" else {})
        weight = weight_column(sample_weight)
        if hasattr(self, "comparisons_"):
            groups = self.comparisons_
        else:  # of a model without folds these rows settle who is compared
            groups = true_groups(fair, {**rows, "sample_weight": weight}, self._request())[0]
            groups = replace(groups, schema=replace(groups.schema, classes=Vocabulary(classes)))
        cells = groups.cells_of(sensitive_features, control_features, len(fair))
        labels = truth = None
        if y is not None:
            found = read_known_labels(
                y, vocabulary=Vocabulary(classes), soft=False, normalize=False
            )
            refuse_lengths("X", len(fair), "y", found.n_rows)
            truth = found.array.astype(np.int64)
            labels = np.eye(len(classes))[truth]
        elif groups.by_class:
            problem = f"criterion {self.criterion!r} compares rows of a true class, but y is None."
            raise ParameterError(problem, remedy="Pass y.", criterion=self.criterion)
        here = groups.of_rows(cells, truth, weight).present()
        if not here.comparisons:
            problem = "The rows are all of one group, so that nothing can be compared."
            raise InputError(problem, remedy="Pass rows of at least two groups.", n_rows=len(fair))
        return report_of(kind, here, fair, labels, shares_of(weight, len(fair)))

    def get_metadata_routing(self) -> Any:
        """Return what each method takes.

        Besides its own, ``fit`` takes what the learner asks for, and predictions the attribute
        where they need it.

        Returns
        -------
        MetadataRequest
        """
        requests = super().get_metadata_routing()
        for name, alias in fit_requests(self.estimator).items():
            if name not in requests.fit.requests:
                requests.fit.add_request(param=name, alias=alias)
        needed = self.attribute == "given"
        for method in ("predict", "predict_proba", "predict_log_proba", "score"):
            request = getattr(requests, method)
            for name in _GROUPS:
                # A search hands the groups that it passes to fit to score as well.
                if request.requests.get(name) is None and (needed or method == "score"):
                    request.add_request(param=name, alias=needed)
        return requests

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.multilabel
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
