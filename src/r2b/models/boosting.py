"""LightGBM and XGBoost on soft labels: one custom objective instead of a copy of X per class.

The loss of a row is its cross-entropy ``-sum_k y_k log p_k``, p the softmax of the margins. It is what a table with every row repeated once
per class, weighted by y, would give; here X goes in once, N rows, and the labels stay a table and one code per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.errors import ParameterError, ShapeError
from r2b.models.libraries import require
from r2b.models.objectives import Library, cross_entropy, soft_objective, softmax
from r2b.models.targets import SoftTargets, refuse_other_rows

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]

_SMALLEST_SHARE = 1e-15  # LightGBM's own floor under the share of a class, before it takes the logarithm
_TAKEN = {
    "lightgbm": ("objective objective_type app application loss num_class num_classes", "metric metrics metric_types"),
    "xgboost": ("objective num_class base_score", "eval_metric disable_default_eval_metric"),
}
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


@dataclass(frozen=True, eq=False)
class SoftBooster:
    """Trees that were trained on soft labels, and what is needed to read probabilities from them.

    A custom objective leaves margins. ``predict_proba`` adds the start and takes the softmax; a booster that is saved on its own loses
    both. Pickle this object instead. There is no ``predict``: the likeliest class of each row is not fair even where the
    probabilities are.

    Attributes
    ----------
    booster : lightgbm.Booster or xgboost.Booster
    classes : ndarray of shape (L,)
        The names of the columns of ``predict_proba``.
    start : ndarray of shape (L,)
        The margin of every row before the first tree: the logarithm of the share of each class.
    library : {"lightgbm", "xgboost"}
    """

    booster: Any
    classes: Array
    start: Floats
    library: Library

    def predict_proba(self, X: Any) -> Floats:
        """Give the probabilities of new rows; the sensitive attribute is not asked for.

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
        if self.library == "lightgbm":
            margins = self.booster.predict(X, raw_score=True)
        else:
            best = self.booster.attr("best_iteration")
            rounds = (0, 0) if best is None else (0, int(best) + 1)
            matrix = require("xgboost", extra="xgboost", needed_by="This model").DMatrix(X, enable_categorical=True)
            _refuse_other_features(int(matrix.num_col()), int(self.booster.num_features()))
            margins = self.booster.predict(matrix, output_margin=True, iteration_range=rounds)
        return softmax(np.asarray(margins, np.float64) + self.start)


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
) -> SoftBooster:
    """Train LightGBM on fair labels.

    With class labels it gives the model of LightGBM's own ``multiclass`` objective: the same start, gradient and hessian.

    Parameters
    ----------
    labels : FairLabels, or array-like of shape (N, L) or (N,)
        What ``debias`` returns; or probabilities, or classes.
    X : array or frame of shape (N, n_features)
        Of any kind that LightGBM reads; handed to it as it is, once.
    params : mapping, optional
        LightGBM's parameters, less objective, number of classes and metric, which follow from the labels.
    num_boost_round : int
    sample_weight : array-like of shape (N,), optional
        Beside probabilities or classes. Fair labels bring the weights they were made with.
    validation : (X, labels), optional
        Other rows, on which the soft cross-entropy is measured after each round under the name ``soft_logloss``.
    early_stopping_rounds : int, optional
        Stop after this many rounds without improvement on ``validation``.
    callbacks : sequence of callable, optional
        LightGBM's own.

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

    Examples
    --------
    >>> import numpy as np, r2b
    >>> sex = np.array(["f", "m"] * 200)
    >>> y = np.where(np.arange(400) % 4 < 1, "low", np.where(sex == "f", "mid", "high"))
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> fair = r2b.debias(y, sensitive_features=sex)
    >>> model = train_lightgbm(fair, X, {"num_threads": 1, "verbosity": -1}, num_boost_round=5)
    >>> model.classes.tolist(), model.predict_proba(X).shape
    (['high', 'low', 'mid'], (400, 3))
    """
    lightgbm = require("lightgbm", extra="lightgbm", needed_by="train_lightgbm")
    chosen = _free_of("lightgbm", params)
    targets, watched = _read(X, labels, sample_weight, validation, early_stopping_rounds)
    start, threads = _start(targets), _threads(chosen)
    train = lightgbm.Dataset(X, label=np.zeros(targets.n_rows, np.float32))
    sets = [lightgbm.Dataset(watched[0], label=np.zeros(watched[1].n_rows, np.float32), reference=train)] if watched else None
    chosen |= {"objective": soft_objective(targets, "lightgbm", start, threads), "num_class": len(targets.classes), "metric": "None"}
    after = list(callbacks or ())
    if early_stopping_rounds is not None:
        after.append(lightgbm.early_stopping(early_stopping_rounds, verbose=False))
    measure = cross_entropy(watched[1], start) if watched else None
    booster = lightgbm.train(
        chosen,
        train,
        num_boost_round,
        valid_sets=sets,
        valid_names=["validation"] if sets else None,
        feval=(lambda margins, _: ("soft_logloss", measure(margins), False)) if measure else None,
        callbacks=after,
    )
    return SoftBooster(booster, targets.classes, start, "lightgbm")


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
) -> SoftBooster:
    """Train XGBoost on fair labels.

    With class labels it gives the model of XGBoost's own ``multi:softprob`` objective: the same start, gradient and hessian.

    Parameters
    ----------
    labels, X, num_boost_round, sample_weight, validation, early_stopping_rounds
        As for :func:`train_lightgbm`.
    params : mapping, optional
        XGBoost's parameters, less objective, number of classes, base score and metric, which follow from the labels.
    callbacks : sequence of xgboost.callback.TrainingCallback, optional

    Returns
    -------
    SoftBooster

    Raises
    ------
    MissingExtraError
        XGBoost is not installed.
    ParameterError
        A parameter was given that follows from the labels.
    InputError
        Labels, weights and X do not fit together.

    Examples
    --------
    >>> import numpy as np, r2b
    >>> sex = np.array(["f", "m"] * 200)
    >>> y = np.where(np.arange(400) % 4 < 1, "low", np.where(sex == "f", "mid", "high"))
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> fair = r2b.debias(y, sensitive_features=sex)
    >>> model = train_xgboost(fair, X, {"nthread": 1, "max_depth": 3}, num_boost_round=5)
    >>> model.classes.tolist(), model.predict_proba(X).shape
    (['high', 'low', 'mid'], (400, 3))
    """
    xgboost = require("xgboost", extra="xgboost", needed_by="train_xgboost")
    chosen = _free_of("xgboost", params)
    targets, watched = _read(X, labels, sample_weight, validation, early_stopping_rounds)
    start, threads = _start(targets), _threads(chosen)
    train = xgboost.DMatrix(X, enable_categorical=True)
    chosen |= {"num_class": len(targets.classes), "base_score": 0.0, "disable_default_eval_metric": True}
    measure = cross_entropy(watched[1], start) if watched else None
    booster = xgboost.train(
        chosen,
        train,
        num_boost_round,
        obj=soft_objective(targets, "xgboost", start, threads),
        evals=[(xgboost.DMatrix(watched[0], enable_categorical=True), "validation")] if watched else None,
        custom_metric=(lambda margins, _: ("soft_logloss", measure(margins))) if measure else None,
        early_stopping_rounds=early_stopping_rounds,
        callbacks=callbacks,
        verbose_eval=False,
    )
    return SoftBooster(booster, targets.classes, start, "xgboost")


def _read(
    X: Any, labels: Any, sample_weight: Any, validation: tuple[Any, Any] | None, patience: int | None
) -> tuple[SoftTargets, tuple[Any, SoftTargets] | None]:
    targets = SoftTargets.of(labels, sample_weight)
    refuse_other_rows(X, targets)
    if validation is None:
        if patience is not None:
            raise ParameterError(
                f"early_stopping_rounds is {patience}, but there is nothing to watch.",
                remedy="Pass validation=(X, labels) of rows that are not trained on.",
                early_stopping_rounds=patience,
            )
        return targets, None
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise ParameterError(
            f"validation is of type {type(validation).__name__} and not two things.",
            remedy="Pass validation=(X, labels); weights come with the labels that debias returns.",
            validation=type(validation).__name__,
        )
    other, watched = validation[0], SoftTargets.of(validation[1], like=targets)
    refuse_other_rows(other, watched)
    return targets, (other, watched)


def _refuse_other_features(given: int, trained: int) -> None:
    if given != trained:
        raise ShapeError(
            f"X has {given} features, but the model was trained on {trained}.", remedy="Pass the features of training.", n_features=given
        )


def _free_of(library: Library, params: Mapping[str, Any] | None) -> dict[str, Any]:
    chosen = dict(params or {})
    by_labels, metrics = (names.split() for names in _TAKEN[library])
    for name in _named(by_labels, chosen):
        raise ParameterError(
            f"The parameter {name!r} is {chosen[name]!r}, but it follows from the labels.", remedy="Leave it out.", parameter=name
        )
    for name in _named(metrics, chosen):
        raise ParameterError(
            f"The parameter {name!r} is {chosen[name]!r}, but the library's metrics need one class per row.",
            remedy="Leave it out; soft_logloss is measured on the rows passed as validation.",
            parameter=name,
        )
    return chosen


def _named(names: Iterable[str], chosen: Mapping[str, Any]) -> list[str]:
    return [name for name in names if name in chosen]


def _threads(chosen: Mapping[str, Any]) -> int | None:
    named = [name for name in _named(_THREADS, chosen) if chosen[name] is not None]
    for name in named:
        if not str(chosen[name]).lstrip("-").isdigit():
            remedy = "Pass a whole number; 0 or less takes all cores."
            raise ParameterError(f"The parameter {name!r} is {chosen[name]!r}.", remedy=remedy, parameter=name)
    given = [int(chosen[name]) for name in named]
    return given[0] if given and given[0] > 0 else None


def _start(targets: SoftTargets) -> Floats:
    start: Floats = np.log(np.maximum(targets.mean(), _SMALLEST_SHARE))
    return start
