"""``ParityClassifier``: any learner, trained on labels that are fair by what it can see of the groups; it predicts from X alone."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack, get_args

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, Floats
from r2b._data.compute import seed_of
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, takes_options
from r2b._labels.labels import Form
from r2b.errors import ParameterError
from r2b.sklearn.batches import BatchTraining
from r2b.sklearn.crossfit import require_probabilities
from r2b.sklearn.fit_rows import FitRows
from r2b.sklearn.forms import (
    TrainingRows,
    chosen_rows,
    fresh_learner,
    plain_rows,
    train,
    training_rows,
)
from r2b.sklearn.labels import (
    WITHOUT,
    check_same_rows,
    class_order,
    publish,
    solve,
    store,
    without_rows,
)
from r2b.sklearn.learners import gives_probabilities, probabilities_of, reads_pairs, scores_of
from r2b.sklearn.predictor import AttributeUse
from r2b.sklearn.scores import Kind
from r2b.sklearn.training import codes_apart, params_for, scored, trained_on
from r2b.sklearn.visible import group_learner
from r2b.sklearn.visible_labels import GroupUse, labels_by, seen_by

Decisions = Literal["fair", "likeliest"]


def _gives_scores(self: Any) -> bool:
    soft = getattr(self, "form_", self.form) == "soft"
    return not soft and hasattr(getattr(self, "estimator_", self.estimator), "decision_function")


@takes_options(without=WITHOUT)
class ParityClassifier(BatchTraining):
    """Train a learner on the closest labels in demographic parity, and predict in parity; the attribute is needed by ``fit`` alone.

    Parameters
    ----------
    estimator : classifier or regressor
        The learner. It is cloned, not changed.
    groups : {"visible", "given", "both"}
        By which groups labels are made fair.

        - "visible": by the groups as the features show them, predicted out of fold. The parity of a model is the parity of its labels
          with respect to these.
        - "given": by the true groups, the paper's way. Labels are fair, and the model keeps what the features show of the groups.
        - "both": by both.
    group_estimator : classifier, optional
        Predicts the groups; a clone of ``estimator`` by default.
    attribute : {"predicted", "given"}
        Whether predictions look at X alone, or are given the attribute as well, which costs less
        accuracy.
    decisions : {"fair", "likeliest"}
        What ``predict`` gives: the most accurate decisions in parity, by prices on the scores of
        the learner trained on the labels as they came; or the likeliest class of the learner
        trained on fair labels, which promises no parity.
    form : {"auto", "expand", "round", "sample", "soft"}
        How the learner sees a distribution per row. None of them takes the most probable class,
        which would undo the parity.

        - "expand": the row once for each class of positive probability, with weights. Exact; for learners with ``sample_weight``.
        - "round": one class per row, picked so that the class counts of every group stay, to within one row.
        - "sample": one class per row, drawn; the counts stay in expectation.
        - "soft": the probabilities themselves; a regressor of several outputs takes them at once, another is trained once per class, and
          predictions are projected onto the simplex. Also for a classifier of yours whose ``fit``
          takes them.
        - "auto": "soft" for regressors, "expand" for classifiers with ``sample_weight``, "sample" for the others and for those that split
          their rows by themselves, where copies of one row would land on both sides, resample them,
          or balance classes by counting them.
    cv : int
        Folds, shuffled, for predictions that prices are found on.
    ensemble : bool
        Predict by the mean of the models of all folds, which the prices were found for. False
        predicts by one model trained on all rows: ``cv`` times faster, but further from epsilon,
        since that model errs in its own way.
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
    fold_estimators_ : dict of tuple
        The models whose mean scores the prices are for: of "probabilities", trained on fair labels,
        and of "decisions", trained on the labels as they came.
    form_, form_reason_ : str
        What was chosen and why.
    labels_ : FairLabels
        Prices, status and certificate of the labels, without the rows: a stored model holds
        nobody's group.
    classes_ : ndarray of shape (n_classes,)
        Sorted, as in every classifier. ``labels_.classes`` keeps the order of categories or columns
        in y, which is also that of an ``epsilon``, ``target`` or ``costs`` given in order.
    prices_ : ndarray of shape (n_groups, n_classes)
        Columns as in ``classes_``.
    groups_, certificate_, status_, n_iter_
        As in :class:`LabelDebiaser`.
    decision_rule_, probability_rule_ : FairScores
        Prices of predictions with certificate; parity, accuracy and rounds of offsets, measured out
        of fold by true group.
    group_estimator_, group_reason_
        Who predicts the groups, and why.
    frontier_ : ModelFrontier
        What parity costs, blind and with the attribute.
    promise_, probability_promise_ : Promise
        With ``confidence``: of decisions and of probabilities.
    n_batches_ : int
        How often the learner was trained on: 1 after ``fit``, and one more for each
        ``partial_fit``.
    parity_ : PredictionParity
        On the validation rows, where ``fit`` was given some.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Notes
    -----
    ``fit`` trains the learner ``cv + 1`` times on fair labels and ``cv`` times on the labels as
    they came, and the group estimator ``cv`` times and once for each pair of folds. With
    ``groups="given"`` and ``decisions="likeliest"`` it trains once.

    A pipeline as ``estimator`` is trained as it would be with this classifier as its last step:
    steps before the last see every row once, with its label as it came, and the weights go to the
    last step. Out of fold they are fitted anew for each fold, which a pipeline around this
    classifier does not do.

    ``fit_params`` go to every training. Those with one value per row go with their rows; an
    ``eval_set`` is the same for all, with labels as they came. Callbacks are copied for all
    trainings but that of ``estimator_``, which gets the objects that were passed.

    Copies of one row on both sides of a split disagree about its class, which stops a learner early
    or makes a search prefer a simpler model. ``HistGradientBoostingClassifier`` with early stopping
    therefore gets whole rows held back, through its ``X_val``; searches over this classifier,
    instead of inside it, never split copies.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from r2b.metrics import demographic_parity_difference
    >>> rng = np.random.default_rng(1)
    >>> sex = rng.choice(["f", "m"], 4000)
    >>> X = rng.normal(size=(4000, 2)) + np.outer(sex == "m", [0, 2])  # the second column tells of sex
    >>> y = np.where(X[:, 0] + 2 * (sex == "m") + rng.normal(size=4000) > 1, "yes", "no")
    >>> model = ParityClassifier(LogisticRegression()).fit(X[:2000], y[:2000], sensitive_features=sex[:2000])
    >>> plain = LogisticRegression().fit(X[:2000], y[:2000])
    >>> before = demographic_parity_difference(plain.predict(X[2000:]), sensitive_features=sex[2000:])
    >>> before > 0.3, demographic_parity_difference(model.predict(X[2000:]), sensitive_features=sex[2000:]) < before / 5
    (True, True)
    >>> print(model.frontier_.price)
    Accuracy at epsilon 0: ... % without the attribute, ... % with it at prediction; ... % without
    parity.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        groups: GroupUse = "visible",
        group_estimator: Any = None,
        attribute: AttributeUse = "predicted",
        decisions: Decisions = "fair",
        form: str = "auto",
        cv: int = 5,
        ensemble: bool = True,
        confidence: float | None = None,
        held_back: float = 0.25,
        frontier: int = 6,
        n_jobs: int | None = None,
        random_state: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        own = {
            name: value
            for name, value in locals().items()
            if name not in ("self", "options", "__class__")
        }
        store(self, options, WITHOUT, **own)

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
            Classes, or probabilities over L classes.
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
            ``parity_``.
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
            Predictions out of fold are above epsilon by more than chance explains.
        """
        one_of("groups", self.groups, get_args(GroupUse))
        one_of("decisions", self.decisions, get_args(Decisions))
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
            self.parity_ = self.parity_report(X_val, sensitive_features=sensitive_val, y=y_val)
        return self

    @property
    def _cross_fits(self) -> bool:
        return bool(self.groups != "given" or self.decisions != "likeliest")

    def _train_once(self, X: Any, y: Any, data: dict[str, Any], fit_params: dict[str, Any]) -> None:
        labels, seed = solve(self, y, **data), seed_of(self.random_state)
        assert labels.dataset is not None
        check_same_rows(X, labels.dataset.n_rows, labels.dataset.index)
        choice, rows = chosen_rows(self.form, self.estimator, labels, seed)
        params = params_for(self.estimator, fit_params, choice.form, labels.classes, own=True)
        self.estimator_ = train(
            fresh_learner(self.estimator, choice.form), X, rows, choice.form, seed, params, y
        )
        self.form_, self.form_reason_ = choice.form, choice.reason
        self._publish(labels)

    def _train(self, rows: FitRows) -> None:
        visible, fair = self.groups != "given", self.decisions == "fair"
        if reads_pairs(self.estimator):
            problem = f"X is a table of pairs of rows to {type(self.estimator).__name__}, which cannot be dealt into folds."
            remedy = "Let the learner compute the kernel from features, or pass groups='given' and decisions='likeliest'."
            raise ParameterError(problem, remedy=remedy, estimator=type(self.estimator).__name__)
        if fair and not gives_probabilities(self):
            require_probabilities(self.estimator, "estimator", "or pass decisions='likeliest'")
        codes = self._fit_groups(rows)
        labels = labels_by(self.groups, rows, codes, self._options())
        choice, training = chosen_rows(self.form, self.estimator, labels, rows.seed)
        self.form_, self.form_reason_ = choice.form, choice.reason
        self._publish(labels)
        models: dict[str, tuple[Any, ...]] = {}
        if visible and gives_probabilities(self):
            parts = (
                self._apart(rows, codes, labels, choice.form)
                if self.group_estimator_ is not None
                else [training] * rows.folds.n
            )
            scores, models["probabilities"] = scored(
                self.estimator, rows, parts, choice.form, self.n_jobs
            )
            self.probability_rule_ = self._rule(rows, scores, codes, "probabilities")
        if fair:
            form: Form = "soft" if choice.form == "soft" else "expand"
            plain = plain_rows(rows.labels, rows.truth, rows.classes, rows.groups.weight, form)
            scores, models["decisions"] = scored(
                self.estimator, rows, [plain] * rows.folds.n, form, self.n_jobs
            )
            if not self.ensemble:
                models["decisions"] = (trained_on(self.estimator, rows, plain, form),)
            self.decision_rule_ = self._rule(rows, scores, codes, "decisions")
        self.estimator_ = trained_on(self.estimator, rows, training, choice.form, own=True)
        if not self.ensemble and "probabilities" in models:
            models["probabilities"] = (self.estimator_,)
        self.fold_estimators_ = models

    def _apart(
        self, rows: FitRows, codes: Floats | None, labels: FairLabels, form: Form
    ) -> list[TrainingRows]:
        """For each fold give the training rows whose labels know nothing of the groups of that fold, but for the prices."""
        assert codes is not None
        learner = group_learner(self.group_estimator, self.estimator)[0]
        found = []
        for apart in codes_apart(learner, rows, codes):
            given = labels.transform(
                rows.y, **seen_by(self.groups, rows, apart), form=form, random_state=rows.seed
            )
            found.append(training_rows(labels, form, given, len(apart), rows.groups.weight))
        return found

    def _publish(self, labels: FairLabels) -> None:
        self.labels_ = without_rows(labels)
        publish(self, labels, class_order(labels.classes))

    def _scores(self, X: Any, kind: Kind) -> Floats:
        plain = kind == "decisions"
        form = "soft" if self.form_ == "soft" else "expand" if plain else self.form_
        return self._mean_scores(X, kind, self.labels_.classes, form)

    def predict(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        key: Any = None,
    ) -> Array:
        """Decide for one class per row: in parity, or the likeliest one where that was asked for.

        Fair decisions follow from the row alone, and are the most accurate ones for the learner's
        scores that meet epsilon on the rows that the prices were found on.

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
        check_is_fitted(self, "labels_")
        if hasattr(self, "decision_rule_"):
            decided: Array = super().predict(
                X, sensitive_features=sensitive_features, control_features=control_features, key=key
            )
            return decided
        if self.form_ == "soft":
            chances = probabilities_of(self.estimator_, X, self.classes_, self.form_)
            return np.asarray(self.classes_[chances.argmax(axis=1)])
        return np.asarray(self.estimator_.predict(X))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, control_features: Any = None
    ) -> Array:
        """Give the probabilities of the learner that was trained on fair labels, in parity by prices unless ``groups`` is "given".

        Parameters
        ----------
        X : array, sparse matrix or frame
        sensitive_features, control_features
            Where ``attribute`` is "given", and only there.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns as in ``classes_``; with ``groups="given"`` zeros for a class that debiasing
            left without any row.
        """
        check_is_fitted(self, "labels_")
        if not hasattr(self, "probability_rule_"):
            return probabilities_of(self.estimator_, X, self.classes_, self.form_)
        given = {"sensitive_features": sensitive_features, "control_features": control_features}
        return self._fair_rows(self.probability_rule_, X, **given)[:, self._order]

    @available_if(_gives_scores)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Give the own scores of the learner that was trained on fair labels, on all rows, for ranking; no parity is promised for them.

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
