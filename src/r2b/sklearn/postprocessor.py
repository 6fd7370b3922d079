"""``ParityPostprocessor``: fair predictions from the scores of any classifier."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self, Unpack

import numpy as np
from sklearn.utils.validation import check_is_fitted

from r2b._constraints.epsilon import Epsilon
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._labels.debiasing import DEFAULTS, Options, takes_options
from r2b.errors import InputError, ParameterError
from r2b.sklearn.folds import make_folds
from r2b.sklearn.groups import FitRows
from r2b.sklearn.labels import require_sensitive, store, weight_column
from r2b.sklearn.learners import can_be_trained, class_scores, require_probabilities
from r2b.sklearn.multilabel import update_tags, warn_of_tags
from r2b.sklearn.predictor import AttributeUse, FairPredictor, few_threads

WITHOUT = (
    *("lam", "objective", "costs", "normalize"),
    *("tol", "max_iter", "time_limit", "threads", "progress"),
)


@takes_options(without=WITHOUT)
class ParityPostprocessor(FairPredictor):
    """Make the predictions of a classifier fair, by prices on its scores.

    The classifier stays as it is. The attribute is not needed at prediction: predictions of it from
    the features take its place, with offsets for what they get wrong.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``. With ``prefit`` any object will do that has it, and ``classes_``,
        the names of its columns.
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between two groups.
    criterion : str or sequence of str
        What groups are compared in; several criteria are met together, each with its epsilon if
        that is a mapping by criterion.

        - "demographic_parity": the share of every predicted class.
        - "equal_opportunity": the share of right predictions among the rows of a true class.
        - "equalized_odds": the share of every predicted class among the rows of a true class.
        - "equal_false_positives": the share of a predicted class among rows of other true classes.
        - "equal_accuracy": the share of right predictions among all rows.
    positive : class, optional
        The one class that "equal_opportunity" and "equal_false_positives" look at; by default each
        in turn.
    attribute : {"predicted", "given"}
        Whether predictions look at X alone, or are given the attribute as well, which costs less
        accuracy.
    multilabel : bool
        Whether y has a column of 0 and 1 for each of several tags, and the estimator predicts all
        of them. ``epsilon`` and ``target`` may then be given by tag.
    prefit : bool
        The estimator is trained already, on other rows than those passed to ``fit``. Put it into
        scikit-learn's ``FrozenEstimator`` where this object is cloned, as in a search: a clone of
        it would not be trained.
    group_estimator : classifier, optional
        Predicts the groups, or for the other criteria group and class; a clone of the estimator by
        default.
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
        For folds, and rows whose scores tie. The learner's own is the learner's.
    **options : Options
        As for :func:`r2b.debias`.

    Attributes
    ----------
    estimator_ : classifier
        Trained on all rows.
    score_estimators_ : tuple of classifiers
        Those whose mean scores the prices are for.
    group_estimator_ : classifier or None
    group_reason_ : str
        Why it.
    decision_rule_, probability_rule_ : FairScores
        Prices, and accuracy on rows that they were not found on.
    frontier_ : ModelFrontier
        What parity costs, blind and with the attribute.
    promise_, probability_promise_ : Promise
        With ``confidence``: of decisions and of probabilities.
    comparisons_ : TrueGroups
        Who is compared with whom.
    tags_ : TagModels
        With ``multilabel`` the model of each tag, such as ``tags_["dog"]``, with rules and a
        frontier of its own.
    parity_ : ParityReport
        A verdict for every group, on rows that the prices were not found on.
    classes_, n_features_in_, feature_names_in_
        As scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from r2b.metrics import demographic_parity_difference
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 4000)
    >>> X = rng.normal(size=(4000, 2)) + np.outer(sex == "m", [1, 1])
    >>> y = np.where(X[:, 0] + rng.normal(size=4000) > 0.5, "yes", "no")
    >>> old, new = slice(2000), slice(2000, None)
    >>> model = ParityPostprocessor(LogisticRegression())
    >>> model = model.fit(X[old], y[old], sensitive_features=sex[old])
    >>> plain, fair = (
    ...     demographic_parity_difference(each.predict(X[new]), sensitive_features=sex[new])
    ...     for each in (model.estimator_, model)
    ... )
    >>> fair < plain / 5
    True
    """

    def __init__(  # type: ignore[misc] # epsilon may come without its name
        self,
        estimator: Any,
        *,
        epsilon: Epsilon = DEFAULTS["epsilon"],
        criterion: str | Sequence[str] = "demographic_parity",
        positive: Any = None,
        attribute: AttributeUse = "predicted",
        multilabel: bool = False,
        prefit: bool = False,
        group_estimator: Any = None,
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
        **fit_params: Any,
    ) -> Self:
        """Train the estimator unless it is trained already, and find the prices.

        Parameters
        ----------
        X : array, sparse matrix or frame with N rows
            Features of the rows.
        y : array-like of shape (N,), or (N, n_tags) with ``multilabel``
            Classes.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            True groups; must be given.
        control_features : array-like of shape (N,) or (N, n_features), optional
            Parity is asked for within each of their values.
        sample_weight : array-like of shape (N,), optional
            Weights of the rows; without them all count the same.
        clusters : array-like of shape (N,), optional
            Rows that belong together, and stay in one fold.
        **fit_params
            For the estimator's ``fit``.

        Returns
        -------
        ParityPostprocessor
            Itself.

        Raises
        ------
        InputError, ParameterError

        Warns
        -----
        NotFairWarning
            On unseen rows a group is above epsilon by more than chance explains, one class takes
            nearly all rows, or the decisions are those of the plain model.
        """
        data = {
            "sensitive_features": sensitive_features,
            "control_features": control_features,
            "sample_weight": sample_weight,
        }
        return self._fit(X, y, data, clusters, fit_params)

    def update(
        self,
        X: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Find the prices again on new rows, whose true classes are not known.

        The classifier stays as it is, and groups are predicted anew, so that this follows a
        population that drifts. Accuracy is what the classifier expects of itself.

        Parameters
        ----------
        X : array, sparse matrix or frame
            Rows that the classifier was not trained on.
        sensitive_features, control_features, sample_weight
            Of these rows, as for :meth:`fit`.

        Returns
        -------
        ParityPostprocessor
            Itself, without the frontier and the promise of ``fit``.

        Raises
        ------
        ParameterError
            A criterion compares rows of a true class.
        InputError
            No row is of some group.

        Warns
        -----
        NotFairWarning, DataWarning
            As in :meth:`fit`.
        """
        check_is_fitted(self, "classes_")
        require_sensitive(sensitive_features, type(self).__name__, "update")
        handed = {
            "sensitive_features": sensitive_features,
            "control_features": control_features,
            "sample_weight": sample_weight,
        }
        refuse_other_index(*((name, row_labels(each)) for name, each in {"X": X, **handed}.items()))
        updated = copy(self)  # an update that fails changes nothing
        for name in ("frontier_", "promise_", "probability_promise_"):
            updated.__dict__.pop(name, None)
        if self.multilabel:
            updated.tags_ = update_tags(self.tags_, X, handed)
            updated.parity_ = updated.tags_.parity_report()
            warn_of_tags(updated.parity_)
        else:
            updated._find_prices(X, **handed)
        self.__dict__ = updated.__dict__
        return self

    def _find_prices(
        self, X: Any, sensitive_features: Any, control_features: Any, sample_weight: Any
    ) -> None:
        if self.comparisons_.by_class:
            problem = f"criterion {self.criterion!r} compares rows of a true class."
            remedy = "Call fit with `prefit=True` and y."
            raise ParameterError(problem, remedy=remedy, criterion=self.criterion)
        scores = self._scores(X)
        cells = self.comparisons_.cells_of(sensitive_features, control_features, len(scores))
        weight = weight_column(sample_weight)
        if weight is not None:
            refuse_lengths("X", len(scores), "sample_weight", len(weight))
        groups = self.comparisons_.of_rows(cells, None, weight)
        here = np.bincount(groups.codes, weight, groups.n_codes)
        for each in groups.comparisons:
            empty = [each.groups[group] for group in np.flatnonzero(here @ each.counts == 0)]
            if empty:
                problem = f"No row is of the group {empty[0]!r} of {each.name!r}."
                remedy = "Pass rows of all groups that were fitted."
                raise InputError(problem, remedy=remedy, group=empty[0], family=each.name)
        folds = make_folds(cells, self.cv, self._seed)
        rows = FitRows(X, None, {}, groups, folds, None, None, self._seed, {})
        with few_threads(X):
            self._fit_rules(rows, scores, self._fit_groups(rows))

    def _refuse_learner(self) -> None:
        if not self.prefit:
            super()._refuse_learner()
            require_probabilities(self.estimator, "estimator", "or pass another classifier")
            return
        if can_be_trained(self.estimator):  # another object cannot be asked
            check_is_fitted(self.estimator)
        wanted = ("predict_proba", "classes_")
        missing = [name for name in wanted if not hasattr(self.estimator, name)]
        if missing or isinstance(self.estimator, type):
            lacks = " and no ".join(missing) or "instance"
            problem = f"prefit is True, but the estimator {self.estimator!r} has no {lacks}."
            remedy = "Pass a trained model with predict_proba and classes_, its columns' names."
            raise ParameterError(problem, remedy=remedy, estimator=repr(self.estimator))

    def _train(self, rows: FitRows) -> None:
        if self.prefit:
            self.estimator_, self._score_form = self.estimator, "expand"
            scores = class_scores(self.estimator_, rows.X, rows.classes, "expand")
            self.score_estimators_: tuple[Any, ...] = (self.estimator_,)
        else:
            scores, self.estimator_ = self._fit_scores(rows, "expand", own=True)
        self._fit_rules(rows, scores, self._fit_groups(rows))
