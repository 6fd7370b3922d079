"""What a learner can do, asked before it is trained, and the probabilities of a trained one."""

from __future__ import annotations

import inspect
from numbers import Real
from typing import Any, NamedTuple, get_args

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from r2b._constraints.families.request import is_a, one_of
from r2b._data.arrays import Array, Floats
from r2b._labels.labels import Form
from r2b._solve.oracle import project
from r2b.errors import InputError, ParameterError, ShapeError, UnseenError
from r2b.sklearn.labels import class_order


class FormChoice(NamedTuple):
    """A form and the reason for it.

    Attributes
    ----------
    form : {"expand", "sample", "round", "soft"}
    reason : str
    """

    form: Form
    reason: str


def choose_form(wanted: str, learner: Any, method: str = "fit") -> FormChoice:
    """Choose how a learner is trained on fair labels.

    Parameters
    ----------
    wanted : {"auto", "expand", "sample", "round", "soft"}
    learner : estimator
    method : {"fit", "partial_fit"}

    Returns
    -------
    FormChoice

    Raises
    ------
    ParameterError
        The form is not known, or this learner cannot follow it.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> choose_form("auto", KNeighborsClassifier()).form
    'sample'
    """
    one_of("form", wanted, ("auto", *get_args(Form)))
    if wanted != "auto":
        _refuse_mismatch(wanted, learner, method)
        return FormChoice(wanted, "asked for")  # type: ignore[arg-type]
    # Steps before the last see every row once, so that the last one decides.
    learner = final_step(learner)
    name = type(learner).__name__
    if is_regressor(learner):
        reason = f"{name} is a regressor: it learns the fair probabilities themselves"
        return FormChoice("soft", reason)
    if takes_probabilities(learner):
        return FormChoice("soft", f"{name} learns from probabilities: it is given the fair ones")
    if steps_by_count(learner):
        reason = f"{name} keeps leaves large by counting rows, and copies of little weight count"
        return FormChoice("round", f"{reason}: every row gets one class, with the counts kept")
    resampling = f"a step of {name} resamples rows, which weights do not follow"
    counting = f"{name} balances classes by counting rows, and copies would count too"
    splitting = f"{name} splits its rows by itself, and copies of a row would land on both sides"
    for holds, reason in (
        (
            reads_pairs(learner),
            f"X is a table of pairs of rows to {name}, which cannot be repeated",
        ),
        (resamples(learner), resampling),
        (weight_keyword(learner, method) is None, f"{name}.{method} takes no sample_weight"),
        (counts_rows(learner), counting),
        (method == "fit" and any(map(_splits, _parts(learner))), splitting),
    ):
        if holds:
            return FormChoice("sample", f"{reason}: every row gets one class, drawn")
    reason = f"{name}.{method} takes sample_weight: rows are repeated for their classes"
    return FormChoice("expand", f"{reason}, with weights")


def _refuse_mismatch(wanted: str, learner: Any, method: str) -> None:
    name, others = type(learner).__name__, "Use `form='sample'` or `form='round'`."
    fault, remedy = "", others
    if wanted != "soft" and is_regressor(learner):
        fault = f"trains on classes, but {name} is a regressor"
        remedy = "Use `form='soft'`, or pass a classifier."
    elif wanted == "expand" and resamples(learner):
        fault = f"needs weights, but a step of {name} resamples rows, which weights do not follow"
    elif wanted == "expand" and weight_keyword(learner, method) is None:
        fault = f"needs weights, but {name}.{method} takes none"
    if fault:
        problem = f"The form {wanted!r} {fault}."
        raise ParameterError(problem, remedy=remedy, form=wanted, estimator=name)


def refuse_no_learner(learner: Any) -> None:
    """Refuse what can neither be trained nor predict: a class, a transformer, a name.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> refuse_no_learner(Ridge())
    """
    predicts = hasattr(learner, "predict") or kind_of(learner) in ("classifier", "regressor")
    if not can_be_trained(learner) or not predicts:
        problem = f"estimator is {learner!r}, which learns nothing from labels."
        remedy = "Pass a classifier or a regressor, such as LogisticRegression()."
        raise ParameterError(problem, remedy=remedy, estimator=repr(learner))


def require_probabilities(learner: Any, parameter: str, otherwise: str) -> None:
    """Refuse a learner that predicts no probabilities.

    Raises
    ------
    ParameterError
    """
    classifies = kind_of(learner) == "classifier"
    if not classifies or not hasattr(learner, "predict_proba"):
        name = type(learner).__name__
        problem = f"The {parameter} {name} has no predict_proba, to which prices are applied."
        way = "Wrap it in sklearn.calibration.CalibratedClassifierCV"
        remedy = f"{way if classifies else 'Pass a classifier'}, {otherwise}."
        raise ParameterError(problem, remedy=remedy, estimator=name)


def can_be_trained(learner: Any) -> bool:
    """Tell whether a learner can be cloned and fitted."""
    is_instance = not isinstance(learner, type)
    return is_instance and hasattr(learner, "fit") and hasattr(learner, "get_params")


def kind_of(learner: Any) -> str | None:
    """Return what scikit-learn takes a learner for; None for an object that does not say.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> kind_of(Ridge()), kind_of(object())
    ('regressor', None)
    """
    try:
        kind: str | None = get_tags(learner).estimator_type
    except (AttributeError, TypeError):
        return None
    return kind


def final_step(learner: Any) -> Any:
    """Return the last step of a pipeline, and of all other learners themselves.

    Where a step resamples rows, or the last one reads pairs of them, a pipeline is trained as a
    whole.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> final_step(make_pipeline(StandardScaler(), LogisticRegression()))
    LogisticRegression()
    """
    if not isinstance(learner, Pipeline) or resamples(learner):
        return learner
    last = learner.steps[-1][1]
    return final_step(last) if hasattr(last, "fit") and not reads_pairs(last) else learner


def takes_probabilities(learner: Any) -> bool:
    """Tell whether the ``fit`` of a classifier takes probabilities as y.

    It says so by an attribute ``takes_probabilities``.
    """
    return bool(getattr(final_step(learner), "takes_probabilities", False))


def fit_requests(learner: Any) -> dict[str, str | bool]:
    """Return the metadata that a learner asks for in ``fit``; a step's as ``step__name``.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> fit_requests(make_pipeline(StandardScaler()))
    {}
    """
    if isinstance(learner, Pipeline):
        return {
            f"{step}__{name}": name if alias is True else alias
            for step, each in learner.steps
            for name, alias in fit_requests(each).items()
        }
    given = get_routing_for_object(learner)
    asked = given.fit.requests if isinstance(given, MetadataRequest) else {}
    return {
        name: alias
        for name, alias in asked.items()
        if alias is True or (isinstance(alias, str) and alias.isidentifier())
    }


CLASS_SETTINGS = (
    *("objective", "loss_function", "eval_metric", "use_best_model"),
    *("early_stopping_rounds", "early_stopping_round"),
    *("num_class", "classes_count", "class_names", "priors", "class_prior"),
    *("class_weight", "class_weights", "auto_class_weights", "scale_pos_weight", "is_unbalance"),
)
"""Parameters of learners that say something of their classes, or of rows that they watch."""


def for_groups(learner: Any) -> Any:
    """Return a learner like this one, to be trained, for groups instead of classes.

    Settings that speak of its classes have their defaults: groups have other names and another
    number, weights of classes would shift their shares, and none are known of watched rows. XGBoost
    keeps an objective for many classes from an earlier ``fit``.

    Features show less of groups than of classes, so that boosting ends sooner and logistic
    regression is solved less exactly: more fits noise, and takes most of the time.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> for_groups(LogisticRegression(C=2.0, class_weight={"yes": 3.0}))
    LogisticRegression(C=2.0, tol=0.01)
    """
    given = learner.get_params(deep=False)
    kept = {name: value for name, value in given.items() if name not in CLASS_SETTINGS}
    if isinstance(learner, LogisticRegression):
        kept["tol"] = max(kept["tol"], 1e-2)
    rate = kept.get("learning_rate", "none")
    if rate is None or is_a(Real, rate):  # of boosting; other learners name a schedule
        most = max(10, round(2.0 / (rate or 0.1)))
        for name in {"n_estimators", "max_iter", "iterations"} & set(kept):
            kept[name] = min(kept[name] or most, most)
    return type(learner)(**{name: _inner_for_groups(value) for name, value in kept.items()})


def _inner_for_groups(value: Any) -> Any:
    """Return a parameter of a learner, with the learners in it for groups."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_inner_for_groups, value))
    return for_groups(value) if can_be_trained(value) else clone(value, safe=False)


def weight_keyword(learner: Any, method: str = "fit") -> str | None:
    """Return the keyword under which a learner takes row weights, or None.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> weight_keyword(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if isinstance(learner, Pipeline):
        name, last = learner.steps[-1]
        inner = None if resamples(learner) else weight_keyword(last, method)
        return None if inner is None else f"{name}__{inner}"
    # It says that it takes weights, whatever the regressor inside does.
    each = isinstance(learner, MultiOutputRegressor)
    if each and weight_keyword(learner.estimator, method) is None:
        return None
    if "sample_weight" in parameters_of(learner, method):
        return "sample_weight"
    # A search hands its keywords on to the learner that it searches for.
    settings = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    if method == "fit" and {"estimator", "cv", "refit"} <= set(settings):
        return weight_keyword(learner.estimator)
    return None


def parameters_of(learner: Any, method: str) -> set[str]:
    """Return the names of the parameters of a method; none where a learner does not have it."""
    function = getattr(learner, method, None)
    return set() if function is None else set(inspect.signature(function).parameters)


def reads_pairs(learner: Any) -> bool:
    """Tell whether X is to a learner a table of pairs of rows, as of a precomputed kernel."""
    inner = learner.estimator if isinstance(learner, MultiOutputRegressor) else learner
    return bool(get_tags(inner).input_tags.pairwise)


def resamples(learner: Any) -> bool:
    """Tell whether a step of a pipeline changes which rows there are, as in imbalanced-learn."""
    return isinstance(learner, Pipeline) and any(
        hasattr(step, "fit_resample") or resamples(step) for _, step in learner.steps
    )


def counts_rows(learner: Any) -> bool:
    """Tell whether a learner, or one inside it, balances classes by their numbers of rows.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> counts_rows(DecisionTreeClassifier(class_weight="balanced"))
    True
    """
    settings = [part.get_params(deep=False) for part in _parts(learner)]
    # ensembles of imbalanced-learn draw rows of each class by their sampling_strategy
    return any(
        str(given.get("class_weight")).startswith("balanced") or "sampling_strategy" in given
        for given in settings
    )


def steps_by_count(learner: Any) -> bool:
    """Tell whether a learner boosts trees whose leaves have a least number of rows.

    A step of such a leaf is a quotient of two sums of weights, and where many copies of little
    weight make a leaf it can be of any length. XGBoost bounds weights, forests average.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    >>> steps_by_count(HistGradientBoostingClassifier()), steps_by_count(RandomForestClassifier())
    (True, False)
    """
    return any(
        "min_child_samples" in part.get_params(deep=False)  # LightGBM
        or isinstance(part, HistGradientBoostingClassifier)
        for part in _parts(learner)
    )


def _parts(learner: Any) -> list[Any]:
    """Return a learner and all estimators inside it."""
    inside = learner.get_params().values() if hasattr(learner, "get_params") else ()
    return [part for part in (learner, *inside) if can_be_trained(part)]


def _splits(learner: Any) -> bool:
    """Tell whether a learner makes folds of its own, or holds rows back to stop early."""
    settings = learner.get_params(deep=False)
    # support vector machines find the scale of their probabilities by folds
    if settings.get("cv", "prefit") != "prefit" or settings.get("probability") is True:
        return True
    stops = settings.get("early_stopping", settings.get("n_iter_no_change") is not None)
    return stops in (True, "auto") and settings.get("validation_fraction") is not None


def gives_probabilities(model: Any) -> bool:
    """Tell whether a classifier around a learner has probabilities."""
    learner = getattr(model, "estimator_", model.estimator)
    return kind_of(model.estimator) == "regressor" or hasattr(learner, "predict_proba")


def probabilities_of(learner: Any, X: Any, classes: Array, form: str) -> Array:
    """Return the probabilities of all classes.

    Predictions of regressors are put back by the Euclidean projection onto the simplex, which is
    never farther from the true probabilities than the prediction was.

    Parameters
    ----------
    learner : estimator
        Trained.
    X : array, sparse matrix or frame
    classes : ndarray of shape (L,)
    form : str

    Returns
    -------
    ndarray of shape (n, L)
        Columns in the order of ``classes``, whatever order the learner has.
    """
    if form == "soft":
        given = learner.predict(X) if is_regressor(learner) else learner.predict_proba(X)
        rows = np.asarray(given, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(classes):
            fault = f"was trained on {len(classes)} columns of probabilities"
            problem = f"{type(learner).__name__} {fault} and answers with shape {rows.shape}."
            remedy = "Use another form for this learner."
            raise ShapeError(problem, remedy=remedy, shape=rows.shape)
        return project(rows)
    given, known = np.asarray(learner.predict_proba(X)), np.asarray(learner.classes_)
    names, wanted = known.tolist(), classes.tolist()
    # a finished model may know its classes by number, in sorted order, as LabelEncoder gives them
    if names == wanted or names == list(range(len(wanted))):
        return given
    place = {value: k for k, value in enumerate(wanted)}
    unknown = [value for value in names if value not in place]
    if unknown:
        problem = f"{type(learner).__name__} predicts the class {unknown[0]!r}, which y lacks."
        remedy = (
            "Name the classes in y as the estimator's classes_ has them; where y lacks some, pass "
            "a table with a column of 0 and 1 for every class."
        )
        raise UnseenError(problem, remedy=remedy, value=unknown[0])
    out = np.zeros((len(given), len(wanted)), given.dtype)
    out[:, [place[value] for value in names]] = given
    return out


def distributions(given: Array, n_classes: int, learner: Any) -> Floats:
    """Divide rows of probabilities by their sums.

    Raises
    ------
    InputError
        They are no probabilities.
    """
    total = given.sum(axis=1, keepdims=True) if given.ndim == 2 else np.zeros((1, 1))
    fits = given.ndim == 2 and given.shape[1] == n_classes and np.isfinite(given).all()
    if not fits or (given < 0).any() or not (total > 0).all():
        name = type(learner).__name__
        problem = f"{name}.predict_proba returns no distributions over its {n_classes} classes."
        remedy = "Pass an estimator whose probabilities are finite, not negative and add up to 1."
        raise InputError(problem, remedy=remedy, estimator=name)
    return given / total


def class_scores(learner: Any, X: Any, classes: Array, form: str) -> Floats:
    """Return the probabilities of the classes in the order of the labels.

    Raises
    ------
    InputError
        They are no probabilities.
    """
    order = class_order(classes)
    given = np.asarray(probabilities_of(learner, X, classes[order], form), np.float64)
    scores = np.empty_like(given)
    scores[:, order] = distributions(given, len(classes), learner)
    return scores


def decision_scores(learner: Any, X: Any, classes: Array) -> Array:
    """Return the learner's ``decision_function``, if it has a score for every class.

    Raises
    ------
    InputError
        Debiasing left a class without any row, so that the learner has no score for it.
    """
    known = np.asarray(learner.classes_).tolist()
    lost = [value for value in classes.tolist() if value not in known]
    if lost:
        name = type(learner).__name__
        problem = f"{name} has no score for the class {lost[0]!r}: debiasing left it no row."
        remedy = "Use predict, or predict_proba, which gives the class the probability 0."
        raise InputError(problem, remedy=remedy, value=lost[0])
    return np.asarray(learner.decision_function(X))
