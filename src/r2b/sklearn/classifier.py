"""``ParityClassifier``: any learner, trained on fair labels; it predicts from X alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, Unpack

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, plain_value
from r2b._data.columns import refuse_other_index, row_labels
from r2b._data.compute import seed_of
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, takes_options
from r2b._labels.labels import Form
from r2b.errors import ParameterError, UnseenError
from r2b.sklearn.fair_labels import GroupUse, debias_rows
from r2b.sklearn.groups import FitRows, epsilons_of
from r2b.sklearn.labels import (
    WITHOUT,
    check_same_rows,
    checked_labels,
    class_order,
    note_features,
    options_of,
    publish,
    require_sensitive,
    solve,
    store,
    weight_column,
    without_rows,
)
from r2b.sklearn.learners import (
    FormChoice,
    choose_form,
    decision_scores,
    gives_probabilities,
    probabilities_of,
    reads_pairs,
    require_probabilities,
)
from r2b.sklearn.predictor import AttributeUse, FairPredictor
from r2b.sklearn.training import (
    TrainingRows,
    fair_rows,
    fresh_learner,
    labels_as,
    train_fresh,
    train_further,
)

Decisions = Literal["fair", "likeliest"]


def _trains_further(self: Any) -> bool:
    return hasattr(self.estimator, "partial_fit")


def _gives_scores(self: Any) -> bool:
    soft = getattr(self, "form_", self.form) == "soft"
    plain = not (soft or self.multilabel)
    return plain and hasattr(getattr(self, "estimator_", self.estimator), "decision_function")


@takes_options(without=WITHOUT)
class ParityClassifier(FairPredictor):
    """Train a learner on the closest labels in demographic parity, and predict in parity.

    The attribute is needed by ``fit`` alone.

    Parameters
    ----------
    estimator : classifier or regressor
        The learner. It is cloned, not changed.
    groups : {"visible", "given", "both"}
        By which groups labels are made fair.

        - "visible": by the groups that the features predict, out of fold. A model is as fair as its
          labels are with respect to these.
        - "given": by the true groups, the paper's way. Labels are fair, and the model can still
          infer the group from the features.
        - "both": by both.
    group_estimator : classifier, optional
        Predicts the groups; a clone of ``estimator`` by default.
    criterion : str or sequence of str
        What predictions are fair by, as for :class:`ParityPostprocessor`. Labels are made fair for
        demographic parity alone: true labels meet all other criteria.
    positive : class, optional
        As for :class:`ParityPostprocessor`.
    attribute : {"predicted", "given"}
        Whether predictions look at X alone, or are given the attribute as well, which costs less
        accuracy.
    multilabel : bool
        Whether y has a column of 0 and 1 for each of several tags, and the learner predicts all of
        them. ``epsilon`` and ``target`` may then be given by tag; the forms are "round", which
        "auto" chooses, "sample" and "soft".
    decisions : {"fair", "likeliest"}
        What ``predict`` gives: the most accurate decisions in parity, by prices on the scores of
        the learner trained on the labels as they came; or the most probable class of the learner
        trained on fair labels, which promises no parity.
    form : {"auto", "expand", "round", "sample", "soft"}
        How the learner sees a distribution per row. None of them takes the most probable class,
        which would undo the parity.

        - "expand": the row once for each class of positive probability, with weights. Exact; for
          learners with ``sample_weight``.
        - "round": one class per row, picked so that the class counts of every group stay, to within
          one row.
        - "sample": one class per row, drawn; the counts stay in expectation.
        - "soft": the probabilities themselves; a regressor of several outputs takes them at once,
          another is trained once per class, and predictions are projected onto the simplex. Also
          for a classifier of yours whose ``fit`` takes them.
        - "auto": "soft" for regressors, "expand" for classifiers with ``sample_weight``, "round"
          for boosted trees whose leaves are bounded by counts, and "sample" for the others and for
          those that split their rows by themselves, resample them, or balance classes by counting.
    cv : int
        Folds, shuffled, for predictions that prices are found on.
    ensemble : bool
        Predict by the mean of the models of all folds instead of one model trained on all rows:
        a little more accurate where single models vary, and ``cv`` times slower.
    confidence : float, optional
        Hold rows back, and promise a bound on the parity of new rows with this confidence.
    held_back : float
        Share of the rows that are held back for the promise.
    frontier : int
        Epsilons along which accuracy and parity are kept in ``frontier_``; 0 leaves it out.
    n_jobs : int, optional
        Folds trained at a time.
    random_state : int, Generator, RandomState or None
        For folds, "round", "sample", rows held back, and rows whose scores tie. The learner's own
        is the learner's.
    **options : Options
        As for :func:`r2b.debias`.

    Attributes
    ----------
    estimator_ : estimator
        The learner trained on fair labels, on all rows.
    score_estimators_ : tuple of estimators
        Trained on the labels as they came: those whose mean scores the prices are for.
    form_, form_reason_ : str
        What was chosen and why.
    labels_ : FairLabels
        Prices, status and certificate of the labels, without the rows: a stored model holds
        nobody's group.
    classes_ : ndarray of shape (n_classes,)
        Sorted, as in every classifier. ``labels_.classes`` keeps the order of categories or columns
        in y, which is also that of an ``epsilon``, ``target`` or ``costs`` given in order.
    prices_ : ndarray of shape (n_groups, n_classes)
        Columns as in ``classes_``; with ``outcomes`` those of the outcomes.
    groups_, certificate_, status_, n_iter_
        As in :class:`LabelDebiaser`.
    decision_rule_, probability_rule_ : FairScores
        Prices, and accuracy on rows that they were not found on.
    parity_ : ParityReport
        A verdict for every group, on rows that the prices were not found on.
    tags_ : TagModels
        With ``multilabel`` the model of each tag, such as ``tags_["dog"]``, with rules and a
        frontier of its own.
    group_estimator_, group_reason_
        Who predicts the groups, and why.
    frontier_ : ModelFrontier
        What parity costs, blind and with the attribute.
    promise_, probability_promise_ : Promise
        With ``confidence``: of decisions and of probabilities.
    n_batches_ : int
        How often the learner was trained on: 1 after ``fit``, and one more for each
        ``partial_fit``.
    report_ : ParityReport
        On the validation rows, where ``fit`` was given some.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Notes
    -----
    ``fit`` trains the learner on fair labels once, and on the labels as they came ``cv + 1`` times;
    the group estimator ``cv + 1`` times. With ``decisions="likeliest"`` the learner is trained
    once, and with ``groups="given"`` no group estimator.

    A pipeline as ``estimator`` is trained as it would be with this classifier as its last step:
    steps before the last see every row once, with its label as it came, and the weights go to the
    last step. Out of fold they are fitted anew for each fold, which a pipeline around this
    classifier does not do.

    ``fit_params`` go to every training. Those with one value per row go with their rows; an
    ``eval_set`` is the same for all, with labels as they came. Callbacks are copied for all
    trainings but that of ``estimator_``, which gets the objects that were passed.

    Copies of one row on both sides of a split disagree about its class, which stops a learner early
    or makes a search prefer a simpler model. Search over this classifier, instead of inside it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from r2b.metrics import demographic_parity_difference
    >>> rng = np.random.default_rng(1)
    >>> sex = rng.choice(["f", "m"], 4000)
    >>> X = rng.normal(size=(4000, 2)) + np.outer(sex == "m", [0, 2])
    >>> y = np.where(X[:, 0] + 2 * (sex == "m") + rng.normal(size=4000) > 1, "yes", "no")
    >>> old, new = slice(2000), slice(2000, None)
    >>> model = ParityClassifier(LogisticRegression())
    >>> model = model.fit(X[old], y[old], sensitive_features=sex[old])
    >>> plain = LogisticRegression().fit(X[old], y[old])
    >>> disparity = [
    ...     demographic_parity_difference(each.predict(X[new]), sensitive_features=sex[new])
    ...     for each in (plain, model)
    ... ]
    >>> disparity[0] > 0.3, disparity[1] < disparity[0] / 5
    (True, True)
    >>> print(model.frontier_.cost)
    Accuracy at epsilon 0: ... % without the attribute, ... % with it at prediction; ... % without
    parity.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        groups: GroupUse = "visible",
        group_estimator: Any = None,
        criterion: str | Sequence[str] = "demographic_parity",
        positive: Any = None,
        attribute: AttributeUse = "predicted",
        multilabel: bool = False,
        decisions: Decisions = "fair",
        form: str = "auto",
        cv: int = 3,
        ensemble: bool = False,
        confidence: float | None = None,
        held_back: float = 0.25,
        frontier: int = 4,
        n_jobs: int | None = None,
        random_state: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        store(locals(), WITHOUT)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        validation: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Make the labels fair, train the learner on them, and find the prices of its predictions.

        Parameters
        ----------
        X : array, sparse matrix or frame with N rows
            Handed to the learner as the kind of table it is; not changed.
        y : array-like of shape (N,) or (N, L)
            Classes, or probabilities over L classes; with ``multilabel`` a column for each tag.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            Must be given.
        control_features : array-like of shape (N,) or (N, n_features), optional
            Parity is asked for within each of their values.
        sample_weight : array-like of shape (N,), optional
            Counts for the parity and for the learner. Rows of weight 0 are left out of training.
        clusters : array-like of shape (N,), optional
            Rows that belong together, and stay in one fold.
        validation : tuple (X, y, sensitive_features), optional
            Rows to measure the parity of predictions on; y may be None. The result is in
            ``report_``.
        **fit_params
            For the learner's ``fit``, such as evaluation sets and callbacks.

        Returns
        -------
        ParityClassifier
            Itself.

        Raises
        ------
        InputError, ParameterError
            The message says what to do instead.

        Warns
        -----
        NotFairWarning
            On unseen rows a group is above epsilon by more than chance explains, one class takes
            nearly all rows, or accuracy is below that of the most frequent class.
        """
        one_of("groups", self.groups, GroupUse)
        one_of("decisions", self.decisions, Decisions)
        if self.decisions == "likeliest" and self._criteria != ("demographic_parity",):
            problem = (
                f"criterion is {self.criterion!r}, which true labels meet and decisions do not."
            )
            remedy = "Pass `decisions='fair'`."
            raise ParameterError(problem, remedy=remedy, criterion=self.criterion)
        if validation is not None and not (
            isinstance(validation, (tuple, list)) and len(validation) == 3
        ):
            problem = f"validation is of type {type(validation).__name__} and not three things."
            remedy = "Pass validation=(X, y, sensitive_features); y may be None."
            raise ParameterError(problem, remedy=remedy, validation=type(validation).__name__)
        data = {
            "sensitive_features": sensitive_features,
            "control_features": control_features,
            "sample_weight": sample_weight,
        }
        self._fit(X, y, data, clusters, fit_params)
        self.n_batches_ = 1
        if validation is not None:
            X_val, y_val, sensitive_val = validation
            self.report_ = self.parity_report(X_val, sensitive_features=sensitive_val, y=y_val)
        return self

    @property
    def _cross_fits(self) -> bool:
        return bool(self.multilabel or self.groups != "given" or self.decisions != "likeliest")

    def _train_once(self, X: Any, y: Any, data: dict[str, Any], fit_params: dict[str, Any]) -> None:
        labels, seed = solve(self, y, **data), seed_of(self.random_state)
        assert labels.dataset is not None
        check_same_rows(X, labels.dataset.n_rows, labels.dataset.index)
        rows, form = self._choose(labels, seed), self.form_
        self.estimator_ = train_fresh(
            self.estimator, X, rows, form, labels.classes, fit_params, y, own=True
        )
        self._publish(labels)

    def _choose(self, labels: FairLabels, seed: int) -> TrainingRows:
        """Choose the form of the labels, and return the rows to train on."""
        self.form_, self.form_reason_ = choose_form(self.form, self.estimator)
        data = labels.dataset
        assert data is not None
        given = labels_as(labels, self.form_, seed)
        return fair_rows(labels, self.form_, given, data.n_rows, data.weight)

    def _train(self, rows: FitRows) -> None:
        fair = self.decisions == "fair"
        if reads_pairs(self.estimator):
            name = type(self.estimator).__name__
            problem = f"X is a table of pairs of rows to {name}, which cannot be dealt into folds."
            way = "pass `groups='given'` and `decisions='likeliest'`"
            remedy = f"Pass features instead of a kernel, or {way}."
            raise ParameterError(problem, remedy=remedy, estimator=name)
        if fair and not gives_probabilities(self):
            require_probabilities(self.estimator, "estimator", "or pass `decisions='likeliest'`")
        codes = self._fit_groups(rows)
        epsilon = epsilons_of(self.epsilon, self._criteria).get("demographic_parity")
        options = {**options_of(self), "epsilon": epsilon}
        labels = debias_rows(self.groups, rows, codes, options)
        training = self._choose(labels, rows.seed)
        self._publish(labels)
        if fair:
            form: Form = "soft" if self.form_ == "soft" else "expand"
            self._fit_rules(rows, self._fit_scores(rows, form, own=False)[0], codes)
        self.estimator_ = self._train_on(rows, training, self.form_, own=True)

    def _publish(self, labels: FairLabels) -> None:
        publish(self, without_rows(labels), class_order(labels.classes))

    def _predict_plain(self, X: Any) -> Array:
        if self.form_ == "soft":
            chances = self._predict_proba_plain(X)
            return np.asarray(self.classes_[chances.argmax(axis=1)])
        return np.asarray(self.estimator_.predict(X))

    def _predict_proba_plain(self, X: Any) -> Array:
        return probabilities_of(self.estimator_, X, self.classes_, self.form_)

    @available_if(_gives_scores)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Return the scores of the learner that was trained on fair labels, for ranking.

        No parity is promised for them.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            Of the shape that the learner returns.
        """
        check_is_fitted(self, "labels_")
        return decision_scores(self.estimator_, X, self.classes_)

    @available_if(_trains_further)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        labels: Any = None,
    ) -> Self:
        """Train the learner on one more batch, with prices that stay as they are.

        The prices come from ``labels``, from an earlier :meth:`fit`, or else from the first batch
        alone, which then has to be large and like the others: parity of later batches holds as far
        as they are distributed like the rows that the prices were found on. A class or group that
        those rows did not have is refused. One pass over all labels is cheap and needs no X:
        ``labels=LabelDebiaser(epsilon).fit(all_y, sensitive_features=all_s)``.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As for :meth:`fit`, of this batch.
        classes : array-like of shape (L,), optional
            All classes, in any order. Only compared with those that have prices, which may not be
            fewer.
        labels : LabelDebiaser or FairLabels, optional
            Where the prices come from; on the first call only.

        Returns
        -------
        ParityClassifier
            Itself.
        """
        if self._cross_fits:
            problem = "partial_fit sees one batch at a time, and folds need all rows."
            way = "Pass `groups='given'` and `decisions='likeliest'`"
            remedy = f"{way}, or fit on all rows and use ParityPostprocessor(prefit=True)."
            facts = {"groups": self.groups, "decisions": self.decisions}
            raise ParameterError(problem, remedy=remedy, **facts)
        first = not hasattr(self, "labels_")
        require_sensitive(sensitive_features, type(self).__name__, "partial_fit")
        y = checked_labels(y, type(self).__name__)
        n_rows = len(next(iter(y.values())) if isinstance(y, dict) else y)
        data = {
            "sensitive_features": sensitive_features,
            "control_features": control_features,
            "sample_weight": sample_weight,
        }
        indexes = [(name, row_labels(rows)) for name, rows in {"y": y, **data}.items()]
        check_same_rows(X, n_rows, refuse_other_index(*indexes))
        if not first and labels is not None:
            problem = "The argument labels came with a later batch; the first one fixed the prices."
            remedy = "Pass labels with the first batch only, or start again from a clone."
            raise ParameterError(problem, remedy=remedy, n_batches=self.n_batches_)
        note_features(self, X, first=first)
        if first:
            solved = labels if labels is not None else solve(self, y, **data)
            solved = getattr(solved, "labels_", solved)
            choice = choose_form(self.form, self.estimator, "partial_fit")
            learner, batch = fresh_learner(self.estimator, choice.form), 0
        else:
            solved, choice = self.labels_, FormChoice(self.form_, self.form_reason_)
            learner, batch = self.estimator_, self.n_batches_
        _refuse_unpriced(solved, classes)
        seeds = np.random.SeedSequence([seed_of(self.random_state), batch])
        given = solved.transform(
            y,
            **data,
            normalize=self.normalize,
            form=choice.form,
            random_state=int(seeds.generate_state(1)[0]),
        )
        rows = fair_rows(solved, choice.form, given, n_rows, weight_column(sample_weight))
        # A first batch that fails leaves nothing behind, so that the next one is the first again.
        self.estimator_ = train_further(learner, X, rows, solved.classes)
        self.form_, self.form_reason_, self.n_batches_ = choice.form, choice.reason, batch + 1
        self._publish(solved)
        self.__dict__.pop("report_", None)  # of the model before
        return self


def _refuse_unpriced(solved: Any, classes: Any) -> None:
    """Refuse what holds no prices, or no prices of a class that batches may have."""
    if not isinstance(solved, FairLabels):
        name = type(solved).__name__
        problem = f"The argument labels is of type {name} and holds no prices."
        remedy = "Pass a fitted LabelDebiaser, or what r2b.debias returned."
        raise ParameterError(problem, remedy=remedy, labels=name)
    wanted = np.asarray(solved.classes if classes is None else classes)
    unknown = wanted[~np.isin(wanted, solved.classes)]
    if len(unknown):
        value = plain_value(unknown[0])
        problem = f"The class {value!r} has no prices: the rows they were found on do not have it."
        remedy = "Find them on all labels: labels=LabelDebiaser().fit(y, sensitive_features=s)."
        raise UnseenError(problem, remedy=remedy, value=value)
