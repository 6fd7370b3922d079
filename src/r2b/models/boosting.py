"""LightGBM and XGBoost on soft labels: one custom objective instead of a copy of X per class.

The loss of a row is its cross-entropy ``-sum_k y_k log p_k``, p the softmax of the margins. A table
with every row repeated once per class, weighted by y, would have the same loss; here X has N rows,
and the labels stay a table and one code per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, Floats
from r2b._data.numbers import refuse_other_number
from r2b._labels import FairLabels
from r2b.errors import ParameterError, ShapeError, require
from r2b.models.targets import (
    BoosterObjective,
    Library,
    SoftTargets,
    cross_entropy,
    make_fair,
    refuse_other_rows,
    soft_objective,
    softmax,
)

_sklearn: Any = require("sklearn.base", "r2b.models.boosting needs scikit-learn", extra="sklearn")


from r2b.sklearn.labels import checked_labels, class_order, note_features  # noqa: E402

if TYPE_CHECKING:
    from r2b.sklearn.fair_labels import GroupUse

__all__ = [
    "SoftBooster",
    "lightgbm_objective",
    "train_lightgbm",
    "train_xgboost",
    "xgboost_objective",
]

# parameters that follow from the labels, or from the loss that is measured
_SET_HERE = {
    "lightgbm": "objective objective_type app application loss num_class num_classes "
    "metric metrics metric_types",
    "xgboost": "objective num_class base_score eval_metric disable_default_eval_metric",
}
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


class SoftBooster(_sklearn.ClassifierMixin, _sklearn.BaseEstimator):  # type: ignore[misc]
    """Boosted trees that are trained on classes, or on a probability per class and row.

    It is what :func:`train_lightgbm` and :func:`train_xgboost` give, and an ``estimator`` for
    :class:`r2b.sklearn.ParityClassifier`, which hands it the fair probabilities themselves, and for
    :class:`r2b.sklearn.ParityPostprocessor`.

    A custom objective leaves margins. ``predict_proba`` adds the start and takes the softmax; a
    booster that is saved on its own loses both. Pickle this object instead.

    Parameters
    ----------
    library : {"lightgbm", "xgboost"}
        Which one grows the trees.
    params : mapping, optional
        The library's parameters, less objective, number of classes, base score and metric, which
        follow from the labels.
    num_boost_round : int
        How many rounds of boosting.
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
    >>> sex = rng.choice(["f", "m"], 2000)
    >>> X = rng.normal(size=(2000, 2)) + np.outer(sex == "m", [1, 1])
    >>> y = np.where(X[:, 0] + rng.normal(size=2000) > 0.5, "yes", "no")
    >>> params = {"num_threads": 1, "verbosity": -1, "num_leaves": 4}
    >>> booster = SoftBooster(params=params, num_boost_round=10)
    >>> booster.fit(X, y).predict(X[:2]).tolist()
    ['yes', 'yes']
    >>> model = ParityClassifier(booster, cv=2, frontier=0).fit(X, y, sensitive_features=sex)
    >>> model.form_, model.predict_proba(X).shape
    ('soft', (2000, 2))
    """

    takes_probabilities = True
    booster_: Any
    classes_: Array
    start_: Floats

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
            Classes, or probabilities of the columns.
        sample_weight : array-like of shape (N,), optional
            Weights of the rows; without them all count the same.
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
        y = y if isinstance(y, FairLabels) else checked_labels(y, type(self).__name__)
        one = isinstance(eval_set, (list, tuple)) and len(eval_set) == 1
        watched = None if eval_set is None else eval_set[0] if one else ()
        self._grow(y, X, sample_weight, watched, callbacks, "eval_set=[(X, y)]")
        self._order = class_order(self.classes_)
        self.start_, self.classes_ = self.start_[self._order], self.classes_[self._order]
        return self

    def _grow(
        self,
        labels: Any,
        X: Any,
        sample_weight: Any,
        validation: Any,
        callbacks: Any,
        watch: str,
    ) -> Self:
        """Train the library, with classes in the order of the labels."""
        one_of("library", self.library, Library)
        module = require(self.library, f"This model needs {self.library}", extra=self.library)
        chosen, threads = _checked_params(self.library, self.params)
        patience, rounds = self.early_stopping_rounds, self.num_boost_round
        targets = SoftTargets.of(labels, sample_weight)
        refuse_other_rows(X, targets)
        start: Floats = np.log(np.maximum(targets.mean(), 1e-15))  # LightGBM's own floor
        other: Any = None
        if validation is None and patience is not None:
            problem = f"early_stopping_rounds is {patience}, but there is nothing to watch."
            remedy = f"Pass {watch} of rows that are not trained on."
            raise ParameterError(problem, remedy=remedy, early_stopping_rounds=patience)
        if validation is not None:
            if not isinstance(validation, (tuple, list)) or len(validation) != 2:
                remedy = f"Pass {watch}; weights come with the labels that debias returns."
                raise ParameterError("What is to be watched is not a pair.", remedy=remedy)
            other, watched = validation[0], SoftTargets.of(validation[1], like=targets)
            refuse_other_rows(other, watched)
            loss = cross_entropy(watched, start)
        objective = soft_objective(targets, self.library, start, threads)
        chosen |= {"num_class": len(targets.classes)}
        if self.library == "xgboost":
            chosen |= {"base_score": 0.0, "disable_default_eval_metric": True}
            matrix = {"enable_categorical": True}
            own: dict[str, Any] = {"early_stopping_rounds": patience, "verbose_eval": False}
            if other is not None:
                own["evals"] = [(module.DMatrix(other, **matrix), "validation")]
                own["custom_metric"] = lambda margins, _: ("soft_logloss", loss(margins))
            own |= {"obj": objective, "callbacks": callbacks}
            train = module.DMatrix(X, **matrix)
        else:
            chosen |= {"objective": objective, "metric": "None"}
            train = module.Dataset(X, label=np.zeros(targets.n_rows, np.float32))
            own = {"callbacks": list(callbacks or ())}
            if patience is not None:
                own["callbacks"].append(module.early_stopping(patience, verbose=False))
            if other is not None:
                zeros = np.zeros(watched.n_rows, np.float32)
                own["valid_sets"] = [module.Dataset(other, label=zeros, reference=train)]
                own["valid_names"] = ["validation"]
                own["feval"] = lambda margins, _: ("soft_logloss", loss(margins), False)
        self.booster_ = module.train(chosen, train, rounds, **own)
        note_features(self, X)
        self.classes_, self.start_ = targets.classes, start
        self._order = np.arange(len(start))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of new rows; the sensitive attribute is not asked for.

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
        require("sklearn.utils.validation", "", extra="sklearn").check_is_fitted(self)
        if self.library == "lightgbm":
            margins = self.booster_.predict(X, raw_score=True)
        else:
            best = self.booster_.attr("best_iteration")
            rounds = (0, 0) if best is None else (0, int(best) + 1)
            module = require("xgboost", "This model needs xgboost", extra="xgboost")
            matrix = module.DMatrix(X, enable_categorical=True)
            given, trained = int(matrix.num_col()), int(self.booster_.num_features())
            if given != trained:
                fault = f"X has {given} features, but the model was trained on {trained}."
                raise ShapeError(fault, remedy="Pass the features of training.", n_features=given)
            margins = self.booster_.predict(matrix, output_margin=True, iteration_range=rounds)
        return softmax(np.asarray(margins, np.float64)[:, self._order] + self.start_)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row: not fair, even where the probabilities are.

        For decisions in parity make this the ``estimator`` of ``ParityClassifier``, or of
        ``ParityPostprocessor(prefit=True)``.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)
            Features of the rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def train_lightgbm(
    labels: Any,
    X: Any,
    params: Mapping[str, Any] | None = None,
    num_boost_round: int = 100,
    *,
    sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None,
    early_stopping_rounds: int | None = None,
    callbacks: Sequence[Callable[..., Any]] | None = None,
    sensitive_features: Any = None,
    groups: GroupUse = "visible",
    group_estimator: Any = None,
    **options: Any,
) -> SoftBooster:
    """Train LightGBM on fair labels.

    With class labels it gives the model of LightGBM's own ``multiclass`` objective: the same start,
    gradient and hessian.

    Parameters
    ----------
    labels : FairLabels, or array-like of shape (N, L) or (N,)
        What ``debias`` or :func:`r2b.sklearn.fair_labels` returns; or probabilities, or classes.
    X : array or frame of shape (N, n_features)
        Of any kind that LightGBM reads; handed to it as it is, once.
    params : mapping, optional
        LightGBM's parameters, less objective, number of classes and metric, which follow from the
        labels.
    num_boost_round : int
        How many rounds of boosting.
    sample_weight : array-like of shape (N,), optional
        Beside probabilities or classes. Fair labels bring the weights they were made with.
    validation : (X, labels), optional
        Other rows, on which the soft cross-entropy is measured after each round under the name
        ``soft_logloss``.
    early_stopping_rounds : int, optional
        Stop after this many rounds without improvement on ``validation``.
    callbacks : sequence of callable, optional
        LightGBM's own.
    sensitive_features : array-like of shape (N,) or (N, n_attributes), or Membership, optional
        Makes classes or probabilities fair first, by these groups.
    groups : {"visible", "given", "both"}
        By which groups: as the features show them, which makes the model fair, or as they are,
        which makes the labels fair.
    group_estimator : classifier, optional
        Predicts the groups; a booster with the same parameters by default.
    **options
        As for :func:`r2b.sklearn.fair_labels`, such as ``epsilon``.

    Returns
    -------
    SoftBooster

    Raises
    ------
    MissingExtraError
        LightGBM is not installed.
    ParameterError
        A parameter was given that follows from the labels.
    InputError
        Labels, weights and X do not fit together.

    See Also
    --------
    r2b.models.boosting.train_xgboost : XGBoost on probabilities.
    r2b.models.boosting.SoftBooster : Boosters as a scikit-learn classifier.

    Examples
    --------
    >>> import numpy as np, r2b
    >>> sex = np.array(["f", "m"] * 200)
    >>> y = np.where(np.arange(400) % 4 < 1, "low", np.where(sex == "f", "mid", "high"))
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> fair = r2b.debias(y, sensitive_features=sex)
    >>> model = train_lightgbm(fair, X, {"num_threads": 1, "verbosity": -1}, num_boost_round=5)
    >>> model.classes_.tolist(), model.predict_proba(X).shape
    (['high', 'low', 'mid'], (400, 3))
    """
    return _trained("lightgbm", **locals())


def train_xgboost(
    labels: Any,
    X: Any,
    params: Mapping[str, Any] | None = None,
    num_boost_round: int = 100,
    *,
    sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None,
    early_stopping_rounds: int | None = None,
    callbacks: Sequence[Any] | None = None,
    sensitive_features: Any = None,
    groups: GroupUse = "visible",
    group_estimator: Any = None,
    **options: Any,
) -> SoftBooster:
    """Train XGBoost on fair labels.

    With class labels it gives the model of XGBoost's own ``multi:softprob`` objective: the same
    start, gradient and hessian.

    Parameters
    ----------
    labels, X, num_boost_round, sample_weight, validation, early_stopping_rounds
        As for :func:`train_lightgbm`.
    params : mapping, optional
        XGBoost's parameters, less objective, number of classes, base score and metric, which follow
        from the labels.
    callbacks : sequence of xgboost.callback.TrainingCallback, optional
        Called after every round.
    sensitive_features, groups, group_estimator, **options
        As for :func:`train_lightgbm`.

    Returns
    -------
    SoftBooster

    Raises
    ------
    MissingExtraError
        XGBoost is not installed.
    ParameterError, InputError
        As for :func:`train_lightgbm`.

    See Also
    --------
    r2b.models.boosting.train_lightgbm : LightGBM on probabilities.
    r2b.models.boosting.SoftBooster : Boosters as a scikit-learn classifier.

    Examples
    --------
    >>> import numpy as np, r2b
    >>> sex = np.array(["f", "m"] * 200)
    >>> y = np.where(np.arange(400) % 4 < 1, "low", np.where(sex == "f", "mid", "high"))
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> fair = r2b.debias(y, sensitive_features=sex)
    >>> model = train_xgboost(fair, X, {"nthread": 1, "max_depth": 3}, num_boost_round=5)
    >>> model.classes_.tolist(), model.predict_proba(X).shape
    (['high', 'low', 'mid'], (400, 3))
    """
    return _trained("xgboost", **locals())


def _trained(
    library: Library,
    labels: Any,
    X: Any,
    sample_weight: Any,
    validation: Any,
    callbacks: Any,
    early_stopping_rounds: int | None,
    options: dict[str, Any],
    params: Mapping[str, Any] | None,
    num_boost_round: int,
    **groups: Any,
) -> SoftBooster:
    """Train on labels in their own order of classes, made fair first where groups are given."""
    own: dict[str, Any] = {"params": params, "num_boost_round": num_boost_round}
    model = SoftBooster(library, **own, early_stopping_rounds=early_stopping_rounds)
    learner = SoftBooster(library, **own)
    labels, weight = make_fair(X, labels, sample_weight, learner, {**groups, **options})
    return model._grow(labels, X, weight, validation, callbacks, "validation=(X, labels)")


def lightgbm_objective(
    labels: Any, *, sample_weight: Any = None, start: Any = None, threads: int | None = None
) -> BoosterObjective:
    """Make the objective for ``lightgbm.train``, for those who call it themselves.

    The gradient is ``w (p - y)`` and the hessian ``w p (1 - p) L / (L - 1)``: LightGBM's own for
    ``multiclass``.

    Parameters
    ----------
    labels, sample_weight
        As for :func:`train_lightgbm`. The weights are in the objective; leave them out of the
        Dataset.
    start : array-like of shape (L,), optional
        Margins before the first tree, 0 by default. LightGBM's own objective starts from the
        logarithm of the share of each class; whatever is passed here has to be added to the margins
        that the booster predicts.
    threads : int, optional
        All cores by default.

    Returns
    -------
    callable
        From margins and the Dataset to gradient and hessian, each of shape (N, L).

    See Also
    --------
    r2b.models.boosting.train_lightgbm : LightGBM on probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> objective = lightgbm_objective([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]])
    >>> gradient, hessian = objective(np.zeros((2, 3)), None)
    >>> gradient.round(3)
    array([[-0.167, -0.167,  0.333],
           [ 0.333,  0.133, -0.467]], dtype=float32)
    >>> hessian[0].round(3)
    array([0.333, 0.333, 0.333], dtype=float32)
    """
    return _objective(labels, sample_weight, "lightgbm", start, threads)


def xgboost_objective(
    labels: Any, *, sample_weight: Any = None, start: Any = None, threads: int | None = None
) -> BoosterObjective:
    """Make the objective for ``xgboost.train``, for those who call it themselves.

    The gradient is ``w (p - y)`` and the hessian ``w max(2 p (1 - p), 1e-16)``: XGBoost's own for
    ``multi:softprob``. Pass ``num_class`` and a ``base_score`` of 0 in the parameters, or XGBoost
    looks for labels to start from.

    Parameters
    ----------
    labels, sample_weight, start, threads
        As for :func:`lightgbm_objective`.

    Returns
    -------
    callable
        From margins and the DMatrix to gradient and hessian, each of shape (N, L).

    See Also
    --------
    r2b.models.boosting.train_xgboost : XGBoost on probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> objective = xgboost_objective(["a", "b", "c"], sample_weight=[1, 1, 3])
    >>> gradient, hessian = objective(np.zeros((3, 3)), None)
    >>> gradient.round(3)
    array([[-0.667,  0.333,  0.333],
           [ 0.333, -0.667,  0.333],
           [ 1.   ,  1.   , -2.   ]], dtype=float32)
    """
    return _objective(labels, sample_weight, "xgboost", start, threads)


def _objective(
    labels: Any, sample_weight: Any, library: Library, start: Any, threads: int | None
) -> BoosterObjective:
    targets = SoftTargets.of(labels, sample_weight)
    try:
        first = np.zeros(len(targets.classes)) if start is None else np.asarray(start, np.float64)
    except (TypeError, ValueError):
        first = np.empty(0)  # refused below, like any start of another shape
    if first.shape != (len(targets.classes),) or not np.isfinite(first).all():
        remedy = f"Pass one finite margin for each of the {len(targets.classes)} classes."
        raise ParameterError(f"start is {start!r}.", remedy=remedy, start=start)
    return soft_objective(targets, library, first, threads)


def _checked_params(
    library: Library, params: Mapping[str, Any] | None
) -> tuple[dict[str, Any], int | None]:
    """Refuse parameters that follow from the labels; return the others and the threads."""
    chosen = dict(params or {})
    for name in _SET_HERE[library].split():
        if name in chosen:
            problem = f"The parameter {name!r} is {chosen[name]!r}, but it is set here."
            remedy = "Leave it out: it follows from the labels, and soft_logloss is measured on "
            remedy += "the rows passed as validation."
            raise ParameterError(problem, remedy=remedy, parameter=name)
    threads = next((name for name in _THREADS if chosen.get(name) is not None), None)
    if threads is None:
        return chosen, None
    remedy = "Pass a whole number; 0 or less takes all cores."
    refuse_other_number(threads, chosen[threads], remedy, lambda value: True, Integral)
    return chosen, max(int(chosen[threads]), 0) or None
