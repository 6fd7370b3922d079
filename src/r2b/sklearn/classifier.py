"""``ParityClassifier``: any learner, trained on fair labels; it predicts from X alone."""

from __future__ import annotations

from typing import Any, Self, Unpack

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from r2b._data.arrays import Array
from r2b._data.columns import refuse_other_index, row_labels
from r2b._data.compute import generator, seed_of
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, takes_options
from r2b._labels.forms.sampling import sample_rows
from r2b.errors import ParameterError
from r2b.sklearn.forms import chosen_rows, fresh_learner, train, train_further, training_rows
from r2b.sklearn.labels import (
    WITHOUT,
    check_same_rows,
    checked_labels,
    class_order,
    n_rows_of,
    note_features,
    publish,
    refuse_unpriced,
    require_sensitive,
    solve,
    store,
    weight_column,
    without_rows,
)
from r2b.sklearn.learners import FormChoice, choose, gives_probabilities, probabilities_of, refuse_no_learner, scores_of
from r2b.sklearn.prediction_parity import PredictionParity, measure


def _gives_scores(self: Any) -> bool:
    soft = getattr(self, "form_", self.form) == "soft"
    return not soft and hasattr(getattr(self, "estimator_", self.estimator), "decision_function")


@takes_options(without=WITHOUT)
class ParityClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Train a learner on the closest labels in demographic parity; the sensitive attribute is needed by ``fit`` and never again.

    Parameters
    ----------
    estimator : classifier or regressor
        The learner. It is cloned, not changed.
    form : {"auto", "expand", "round", "sample", "soft"}
        How the learner sees a distribution per row. None of them takes the most probable class, which would undo the parity.

        - "expand": the row once for each class of positive probability, with weights. Exact; for learners with ``sample_weight``.
        - "round": one class per row, picked so that the class counts of every group stay, to within one row.
        - "sample": one class per row, drawn; the counts stay in expectation.
        - "soft": the probabilities themselves; a regressor of several outputs takes them at once, another is trained once per class, and
          predictions are projected onto the simplex. Also for a classifier of yours whose ``fit`` takes them.
        - "auto": "soft" for regressors, "expand" for classifiers with ``sample_weight``, "sample" for the others and for those that split
          their rows by themselves, where copies of one row would land on both sides, resample them, or balance classes by counting them.
    random_state : int, Generator, RandomState or None
        For "round", "sample" and the rows held back for early stopping. The learner's own is the learner's.
    **options : Options
        As for :func:`r2b.debias`.

    Attributes
    ----------
    estimator_ : estimator
        The trained learner.
    form_, form_reason_ : str
        What was chosen and why.
    labels_ : FairLabels
        Prices, status and certificate, without the rows: a stored model holds nobody's group.
    classes_ : ndarray of shape (n_classes,)
        Sorted, as in every classifier. ``labels_.classes`` keeps the order of categories or columns in y, which is also that of an
        ``epsilon``, ``target`` or ``costs`` given in order.
    prices_ : ndarray of shape (n_groups, n_classes)
        Columns as in ``classes_``.
    groups_, certificate_, status_, n_iter_
        As in :class:`LabelDebiaser`.
    n_batches_ : int
        How often the learner was trained on: 1 after ``fit``, and one more for each ``partial_fit``.
    parity_ : PredictionParity
        On the validation rows, where ``fit`` was given some.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Notes
    -----
    Parity of the labels becomes parity of the predicted *probabilities* as far as the model is calibrated in every group. It falls short
    where the features differ between groups without telling them apart: the model then cannot follow labels that were moved by group.
    ``predict`` gives the most probable class of the model, like every classifier, and has no such promise; ``predict_sampled`` draws
    classes from the probabilities and keeps their parity in expectation. :meth:`parity_report` measures both.

    In a pipeline, put this classifier last: steps before it then see every row once. A pipeline as ``estimator`` also works: the weights
    go to its last step, and its first steps see repeated rows without weights.

    Copies of one row on both sides of a split disagree about its class, which stops a learner early or makes a search prefer a simpler
    model. ``HistGradientBoostingClassifier`` with early stopping therefore gets whole rows held back, through its ``X_val``; searches over
    this classifier, instead of inside it, never split copies.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 4000)
    >>> X = rng.normal(size=(4000, 2)) + np.outer(sex == "m", [0, 4])  # the second column gives sex away
    >>> y = np.where(X[:, 0] + (sex == "m") + rng.normal(size=4000) > 0.5, "yes", "no")
    >>> model = ParityClassifier(LogisticRegression()).fit(X[:2000], y[:2000], sensitive_features=sex[:2000])
    >>> plain = LogisticRegression().fit(X[:2000], y[:2000])
    >>> from r2b.metrics.demographic import demographic_parity
    >>> before = demographic_parity(plain.predict_proba(X[2000:]), sensitive_features=sex[2000:])
    >>> model.parity_report(X[2000:], sensitive_features=sex[2000:]).probability < before / 5
    True
    """

    def __init__(self, estimator: Any, *, form: str = "auto", random_state: Any = 0, **options: Unpack[Options]) -> None:
        store(self, options, estimator=estimator, form=form, random_state=random_state)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
    ) -> Self:
        """Make the labels fair and train the learner on them.

        Parameters
        ----------
        X : array, sparse matrix or frame with N rows
            Handed to the learner as the kind of table it is; not changed.
        y : array-like of shape (N,) or (N, L)
            Classes, or probabilities over L classes.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            Must be given.
        control_features : array-like of shape (N,) or (N, n_features), optional
            Parity is asked for within each of their values.
        sample_weight : array-like of shape (N,), optional
            Counts for the parity and for the learner. Rows of weight 0 are left out of training.
        validation : tuple (X, y, sensitive_features), optional
            Rows to measure the parity of predictions on; y may be None. The result is in ``parity_``.

        Returns
        -------
        ParityClassifier
            Itself.

        Raises
        ------
        InputError, ParameterError
            The message says what to do instead.
        """
        refuse_no_learner(self.estimator)
        if validation is not None and not (isinstance(validation, (tuple, list)) and len(validation) == 3):
            problem = f"validation is of type {type(validation).__name__} and not three things."
            remedy = "Pass validation=(X, y, sensitive_features); y may be None."
            raise ParameterError(problem, remedy=remedy, validation=type(validation).__name__)
        y = checked_labels(y)
        note_features(self, X)
        labels = solve(self, y, sensitive_features=sensitive_features, control_features=control_features, sample_weight=sample_weight)
        assert labels.dataset is not None
        check_same_rows(X, labels.dataset.n_rows, labels.dataset.index)
        seed = seed_of(self.random_state)
        choice, rows = chosen_rows(self.form, self.estimator, labels, seed)
        self.estimator_ = train(fresh_learner(self.estimator, choice.form), X, rows, choice.form, seed)
        self.form_, self.form_reason_ = choice.form, choice.reason
        self._keep(labels)
        self.n_batches_ = 1
        if validation is not None:
            X_val, y_val, sensitive_val = validation
            self.parity_ = self.parity_report(X_val, sensitive_features=sensitive_val, y=y_val)
        return self

    @available_if(lambda self: hasattr(self.estimator, "partial_fit"))  # type: ignore[untyped-decorator]
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

        The prices come from ``labels``, from an earlier :meth:`fit`, or else from the first batch alone, which then has to be large and
        like the others: parity of later batches holds as far as they are distributed like the rows that the prices were found on. A class
        or group that those rows did not have is refused. One pass over all labels is cheap and needs no X:
        ``labels=LabelDebiaser(epsilon).fit(all_y, sensitive_features=all_s)``.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As for :meth:`fit`, of this batch.
        classes : array-like of shape (L,), optional
            All classes, in any order. Only compared with those that have prices, which may not be fewer.
        labels : LabelDebiaser or FairLabels, optional
            Where the prices come from; on the first call only.

        Returns
        -------
        ParityClassifier
            Itself.
        """
        first = not hasattr(self, "labels_")
        require_sensitive(sensitive_features, type(self).__name__, "partial_fit")
        y = checked_labels(y)
        groups = {"sensitive_features": sensitive_features, "control_features": control_features}
        handed = {"y": y, **groups, "sample_weight": sample_weight}
        check_same_rows(X, n_rows_of(y), refuse_other_index(*((name, row_labels(rows)) for name, rows in handed.items())))
        if not first and labels is not None:
            problem = "The argument labels came with a later batch, but the prices were fixed by the first."
            remedy = "Pass labels with the first batch only, or start again from a clone."
            raise ParameterError(problem, remedy=remedy, n_batches=self.n_batches_)
        note_features(self, X, first=first)
        if first:
            solved = solve(self, y, sample_weight=sample_weight, **groups) if labels is None else getattr(labels, "labels_", labels)
            choice = choose(self.form, self.estimator, n_rows_of(y), "partial_fit")
            learner, batch = fresh_learner(self.estimator, choice.form), 0
        else:
            solved, choice = self.labels_, FormChoice(self.form_, self.form_reason_)
            learner, batch = self.estimator_, self.n_batches_
        refuse_unpriced(solved, classes)
        seed = int(np.random.SeedSequence([seed_of(self.random_state), batch]).generate_state(1)[0])
        weight = None if sample_weight is None else weight_column(sample_weight)
        given = solved.transform(y, sample_weight=sample_weight, normalize=self.normalize, form=choice.form, random_state=seed, **groups)
        rows = training_rows(solved, choice.form, given, n_rows_of(y), weight)
        # A first batch that fails leaves nothing behind, so that the next one is the first again.
        self.estimator_ = train_further(learner, X, rows, solved.classes)
        self.form_, self.form_reason_, self.n_batches_ = choice.form, choice.reason, batch + 1
        self._keep(solved)
        return self

    def _keep(self, labels: FairLabels) -> None:
        self.labels_ = without_rows(labels)
        publish(self, labels, class_order(labels.classes))
        if hasattr(self, "parity_"):
            delattr(self, "parity_")  # it is of the model before

    def predict(self, X: Any) -> Array:
        """Give the class that the trained learner decides for.

        This is the decision of the model on new rows. Parity of hard decisions is not promised; see :meth:`predict_sampled`.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "labels_")
        if self.form_ == "soft":
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        return np.asarray(self.estimator_.predict(X))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Give the probabilities of the classes; parity of the fair labels carries over to their group means.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns as in ``classes_``; zeros for a class that debiasing left without any row.
        """
        check_is_fitted(self, "labels_")
        return probabilities_of(self.estimator_, X, self.classes_, self.form_)

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Give the logarithms of the probabilities; minus infinity where one is 0.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @available_if(_gives_scores)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Give the learner's own scores, for ranking and calibration; no parity is promised for them.

        Parameters
        ----------
        X : array, sparse matrix or frame

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            Of the shape that the learner gives.
        """
        check_is_fitted(self, "labels_")
        return scores_of(self.estimator_, X, self.classes_)

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_sampled(self, X: Any, random_state: Any = 0) -> Array:
        """Draw a class for every row from its probabilities: hard decisions whose parity is that of the probabilities, in expectation.

        Parameters
        ----------
        X : array, sparse matrix or frame
        random_state : int, Generator, RandomState or None
            The same number gives the same draw for the same rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[sample_rows(chances, generator(random_state).random(len(chances)))])

    def parity_report(
        self, X: Any, *, sensitive_features: Any, y: Any = None, sample_weight: Any = None, n_permutations: int = 200
    ) -> PredictionParity:
        """Measure the parity of predictions on rows whose groups are known.

        It is the largest difference between two groups, the crossings of all attributes passed, whatever ``bound`` and ``families`` are.

        Parameters
        ----------
        X : array, sparse matrix or frame
            Rows that the model was not trained on.
        sensitive_features, sample_weight
            As for :func:`r2b.metrics.demographic.demographic_parity`.
        y : array-like of shape (n,), optional
            True classes, for the accuracy.
        n_permutations : int
            For the level of chance; each is a pass over the rows. 0 leaves it out.

        Returns
        -------
        PredictionParity
        """
        given = {"X": X, "y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
        refuse_other_index(*((name, row_labels(rows)) for name, rows in given.items()))
        predicted = self.predict(X)
        probabilities = self.predict_proba(X) if hasattr(self, "predict_proba") else None
        groups = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        return measure(probabilities, predicted, y=y, n_permutations=n_permutations, **groups)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is None:  # a place that a search fills
            return tags
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags
