"""LightGBM and XGBoost on soft labels: one custom objective instead of a copy of X per class.

The loss of a row is its cross-entropy ``-sum_k y_k log p_k``, p the softmax of the margins. It is
what a table with every row repeated once per class, weighted by y, would give; here X goes in once,
N rows, and the labels stay a table and one code per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b.errors import ParameterError, require
from r2b.models.targets import (
    BoosterObjective,
    Library,
    SoftTargets,
    cross_entropy,
    refuse_other_rows,
    soft_objective,
)

if TYPE_CHECKING:
    from r2b.models.booster import SoftBooster
    from r2b.sklearn.fair_labels import GroupUse

__all__ = [
    "SoftBooster",
    "lightgbm_objective",
    "train_lightgbm",
    "train_xgboost",
    "xgboost_objective",
]

# LightGBM's own floor under the share of a class, before it takes the logarithm
_SMALLEST_SHARE = 1e-15
_TAKEN = {
    "lightgbm": (
        "objective objective_type app application loss num_class num_classes",
        "metric metrics metric_types",
    ),
    "xgboost": ("objective num_class base_score", "eval_metric disable_default_eval_metric"),
}
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


class Trees(NamedTuple):
    """What training leaves: a booster that gives margins, the classes in their order, and the margins before the first tree."""

    booster: Any
    classes: Array
    start: Floats


def __getattr__(name: str) -> Any:
    # It is an estimator of scikit-learn, which the objectives below do without.
    if name == "SoftBooster":
        from r2b.models.booster import SoftBooster

        return SoftBooster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    require("lightgbm", "train_lightgbm needs lightgbm", extra="lightgbm")
    from r2b.models.booster import SoftBooster

    model = SoftBooster(
        "lightgbm",
        params=params,
        num_boost_round=num_boost_round,
        early_stopping_rounds=early_stopping_rounds,
    )
    asked = {
        "sensitive_features": sensitive_features,
        "groups": groups,
        "group_estimator": group_estimator,
        **options,
    }
    return model._trained_on(labels, X, sample_weight, validation, callbacks, asked)


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
    require("xgboost", "train_xgboost needs xgboost", extra="xgboost")
    from r2b.models.booster import SoftBooster

    model = SoftBooster(
        "xgboost",
        params=params,
        num_boost_round=num_boost_round,
        early_stopping_rounds=early_stopping_rounds,
    )
    asked = {
        "sensitive_features": sensitive_features,
        "groups": groups,
        "group_estimator": group_estimator,
        **options,
    }
    return model._trained_on(labels, X, sample_weight, validation, callbacks, asked)


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

    Examples
    --------
    >>> import numpy as np
    >>> gradient, hessian = xgboost_objective(["a", "b", "c"], sample_weight=[1, 1, 3])(np.zeros((3, 3)), None)
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


def grow(
    library: Library,
    labels: Any,
    X: Any,
    params: Mapping[str, Any] | None,
    rounds: int,
    sample_weight: Any,
    validation: tuple[Any, Any] | None,
    patience: int | None,
    callbacks: Sequence[Any] | None,
) -> Trees:
    """Train a library on labels; the public ways are :func:`train_lightgbm`, :func:`train_xgboost` and ``SoftBooster.fit``."""
    chosen, threads = _free_of(library, params)
    targets, start, watched, measure = _read(X, labels, sample_weight, validation, patience)
    objective, n_classes = soft_objective(targets, library, start, threads), len(targets.classes)
    if library == "xgboost":
        xgboost = require("xgboost", "This model needs xgboost", extra="xgboost")
        chosen |= {"num_class": n_classes, "base_score": 0.0, "disable_default_eval_metric": True}
        booster = xgboost.train(
            chosen,
            xgboost.DMatrix(X, enable_categorical=True),
            rounds,
            obj=objective,
            evals=[(xgboost.DMatrix(watched[0], enable_categorical=True), "validation")]
            if watched
            else None,
            custom_metric=(lambda margins, _: ("soft_logloss", measure(margins)))
            if measure
            else None,
            early_stopping_rounds=patience,
            callbacks=callbacks,
            verbose_eval=False,
        )
        return Trees(booster, targets.classes, start)
    lightgbm = require("lightgbm", "This model needs lightgbm", extra="lightgbm")
    chosen |= {"objective": objective, "num_class": n_classes, "metric": "None"}
    train = lightgbm.Dataset(X, label=np.zeros(targets.n_rows, np.float32))
    sets = (
        [
            lightgbm.Dataset(
                watched[0], label=np.zeros(watched[1].n_rows, np.float32), reference=train
            )
        ]
        if watched
        else None
    )
    booster = lightgbm.train(
        chosen,
        train,
        rounds,
        valid_sets=sets,
        valid_names=["validation"] if sets else None,
        feval=(lambda margins, _: ("soft_logloss", measure(margins), False)) if measure else None,
        callbacks=[
            *(callbacks or ()),
            *([] if patience is None else [lightgbm.early_stopping(patience, verbose=False)]),
        ],
    )
    return Trees(booster, targets.classes, start)


def _read(
    X: Any,
    labels: Any,
    sample_weight: Any,
    validation: tuple[Any, Any] | None,
    patience: int | None,
) -> tuple[SoftTargets, Floats, tuple[Any, SoftTargets] | None, Callable[[Array], float] | None]:
    """Give labels, the margins to start from, and for rows that are watched their features, labels and measure."""
    targets = SoftTargets.of(labels, sample_weight)
    refuse_other_rows(X, targets)
    start: Floats = np.log(np.maximum(targets.mean(), _SMALLEST_SHARE))
    if validation is None:
        if patience is not None:
            problem = f"early_stopping_rounds is {patience}, but there is nothing to watch."
            remedy = "Pass validation=(X, labels) of rows that are not trained on."
            raise ParameterError(problem, remedy=remedy, early_stopping_rounds=patience)
        return targets, start, None, None
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        problem = f"validation is of type {type(validation).__name__} and not two things."
        remedy = "Pass validation=(X, labels); weights come with the labels that debias returns."
        raise ParameterError(problem, remedy=remedy, validation=type(validation).__name__)
    other, watched = validation[0], SoftTargets.of(validation[1], like=targets)
    refuse_other_rows(other, watched)
    return targets, start, (other, watched), cross_entropy(watched, start)


def _free_of(
    library: Library, params: Mapping[str, Any] | None
) -> tuple[dict[str, Any], int | None]:
    """Refuse parameters that follow from the labels; give the others, and the number of threads among them."""
    chosen = dict(params or {})
    metrics = (
        "but the library's metrics need one class per row",
        "Leave it out; soft_logloss is measured on the rows passed as validation.",
    )
    faults = (("but it follows from the labels", "Leave it out."), metrics)
    for names, (fault, remedy) in zip(_TAKEN[library], faults, strict=True):
        for name in (name for name in names.split() if name in chosen):
            raise ParameterError(
                f"The parameter {name!r} is {chosen[name]!r}, {fault}.",
                remedy=remedy,
                parameter=name,
            )
    threads = {name: chosen[name] for name in _THREADS if chosen.get(name) is not None}
    for name, given in threads.items():
        if not str(given).lstrip("-").isdigit():
            remedy = "Pass a whole number; 0 or less takes all cores."
            raise ParameterError(
                f"The parameter {name!r} is {given!r}.", remedy=remedy, parameter=name
            )
    first = int(next(iter(threads.values()), 0))
    return chosen, first if first > 0 else None
