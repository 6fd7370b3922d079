"""What a learner can do, asked before anything is trained, and what a trained one predicts: probabilities of all classes."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, get_args

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, Floats
from r2b._labels.labels import Form
from r2b._solve.oracle.reference import project
from r2b.errors import InputError, ParameterError, ShapeError
from r2b.sklearn.labels import class_order

_HIST_AUTO = 10_000  # rows above which scikit-learn's early_stopping="auto" is on


class FormChoice(NamedTuple):
    """A form and the reason for it.

    Attributes
    ----------
    form : {"expand", "sample", "round", "soft"}
    reason : str
    """

    form: Form
    reason: str


def choose(wanted: str, learner: Any, n_rows: int, method: str = "fit") -> FormChoice:
    """Choose how a learner is trained on fair labels.

    Parameters
    ----------
    wanted : {"auto", "expand", "sample", "round", "soft"}
    learner : estimator
    n_rows : int
        Rows that the learner will see.
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
    >>> choose("auto", KNeighborsClassifier(), 100).form
    'sample'
    """
    one_of("form", wanted, ("auto", *get_args(Form)))
    if wanted != "auto":
        _refuse_mismatch(wanted, learner, method)
        return FormChoice(wanted, "asked for")  # type: ignore[arg-type]
    # Steps before the last see every row once, so that the last one decides, as it would outside of
    # the pipeline.
    learner = final_step(learner)
    name = type(learner).__name__
    if is_regressor(learner):
        return FormChoice(
            "soft", f"{name} is a regressor: it learns the fair probabilities themselves"
        )
    if takes_probabilities(learner):
        return FormChoice(
            "soft", f"{name} learns from probabilities: it is given the fair ones themselves"
        )
    split = (
        own_split(learner, n_rows)
        if method == "fit" and not takes_validation_rows(learner)
        else None
    )
    reasons = (
        (
            reads_pairs(learner),
            f"X is a table of pairs of rows to {name}, which cannot be repeated",
        ),
        (resamples(learner), f"a step of {name} resamples rows, which weights do not follow"),
        (weight_keyword(learner, method) is None, f"{name}.{method} takes no sample_weight"),
        (
            counts_rows(learner),
            f"{name} balances classes by counting rows, and copies would count too",
        ),
        (split is not None, f"{name} {split}, and copies of one row would land on both sides"),
    )
    for holds, reason in reasons:
        if holds:
            return FormChoice(
                "sample", f"{reason}: every row gets one class, drawn from its fair probabilities"
            )
    if steps_by_count(learner):
        reason = f"{name} keeps leaves large by counting rows, and copies of little weight would count too"
        return FormChoice(
            "round",
            f"{reason}: every row gets one class, as many of each as the fair probabilities say",
        )
    return FormChoice(
        "expand",
        f"{name}.{method} takes sample_weight: rows are repeated for their classes, with weights",
    )


def refuse_no_learner(learner: Any) -> None:
    """Refuse what can neither be trained nor predict: a class instead of an instance, a transformer, a name.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> refuse_no_learner(Ridge())
    """
    if not can_be_trained(learner) or not (
        hasattr(learner, "predict") or kind_of(learner) in ("classifier", "regressor")
    ):
        remedy = "Pass a classifier or a regressor, such as LogisticRegression()."
        raise ParameterError(
            f"estimator is {learner!r}, which learns nothing from labels.",
            remedy=remedy,
            estimator=repr(learner),
        )


def can_be_trained(learner: Any) -> bool:
    """Tell whether a learner can be cloned and fitted."""
    return (
        hasattr(learner, "fit") and hasattr(learner, "get_params") and not isinstance(learner, type)
    )


def kind_of(learner: Any) -> str | None:
    """Give what scikit-learn takes a learner for; None for an object that does not say, such as a thin wrapper of a network.

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
    """Give the last step of a pipeline whose other steps are fitted before it, each row once; of all other learners themselves.

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
    """Tell whether a classifier says, by an attribute ``takes_probabilities``, that its ``fit`` takes a matrix of them as y."""
    return bool(getattr(final_step(learner), "takes_probabilities", False))


def fit_requests(learner: Any) -> dict[str, str | bool]:
    """Give the metadata that a learner asks for in ``fit`` where metadata are routed, with their aliases; a step's as ``step__name``.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> fit_requests(make_pipeline(StandardScaler()))
    {}
    """
    if isinstance(learner, Pipeline):
        steps = ((step, fit_requests(each).items()) for step, each in learner.steps)
        return {
            f"{step}__{name}": name if alias is True else alias
            for step, asked in steps
            for name, alias in asked
        }
    given = get_routing_for_object(learner)
    asked = given.fit.requests if isinstance(given, MetadataRequest) else {}
    return {
        name: alias
        for name, alias in asked.items()
        if alias is True or (isinstance(alias, str) and alias.isidentifier())
    }


def without_early_stopping(learner: Any) -> Any:
    """Give a clone that watches no rows: of those that are watched nobody knows the group; the learner itself where it watches none.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> without_early_stopping(LogisticRegression())
    LogisticRegression()
    """
    names = ("early_stopping_rounds", "early_stopping_round")
    set_on = [
        name
        for name, value in learner.get_params().items()
        if value is not None and name.rpartition("__")[2] in names
    ]
    return clone(learner).set_params(**dict.fromkeys(set_on)) if set_on else learner


def _refuse_mismatch(wanted: str, learner: Any, method: str) -> None:
    name, expands, others = type(learner).__name__, wanted == "expand", "'sample' or 'round'"
    follows = f"needs weights, but a step of {name} resamples rows, which weights do not follow"
    faults = (
        (
            wanted != "soft" and is_regressor(learner),
            f"trains on classes, but {name} is a regressor",
            "'soft', or pass a classifier",
        ),
        (expands and resamples(learner), follows, others),
        (
            expands and weight_keyword(learner, method) is None,
            f"needs weights, but {name}.{method} takes none",
            others,
        ),
    )
    for holds, fault, remedy in faults:
        if holds:
            raise ParameterError(
                f"The form {wanted!r} {fault}.",
                remedy=f"Use form={remedy}.",
                form=wanted,
                estimator=name,
            )


def weight_keyword(learner: Any, method: str = "fit") -> str | None:
    """Give the keyword under which a learner takes row weights, or None; a pipeline's is that of its last step.

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
    if (
        isinstance(learner, MultiOutputRegressor)
        and weight_keyword(learner.estimator, method) is None
    ):
        return None  # it says that it takes weights, whatever the regressor inside does
    if "sample_weight" in parameters_of(learner, method):
        return "sample_weight"
    # A search hands its keywords on to the learner that it searches for.
    return (
        weight_keyword(learner.estimator, method)
        if _is_search(learner) and method == "fit"
        else None
    )


def reads_pairs(learner: Any) -> bool:
    """Tell whether X is to a learner a table of pairs of rows, as of a kernel computed before."""
    inner = learner.estimator if isinstance(learner, MultiOutputRegressor) else learner
    return bool(get_tags(inner).input_tags.pairwise)


def resamples(learner: Any) -> bool:
    """Tell whether a step of a pipeline changes which rows there are, as the samplers of imbalanced-learn do."""
    return isinstance(learner, Pipeline) and any(
        hasattr(step, "fit_resample") or resamples(step) for _, step in learner.steps
    )


def counts_rows(learner: Any) -> bool:
    """Tell whether a learner, or one inside it, balances classes, which most do by their numbers of rows and not by weight.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> counts_rows(DecisionTreeClassifier(class_weight="balanced")), counts_rows(DecisionTreeClassifier())
    (True, False)
    """
    settings = [part.get_params(deep=False) for part in _parts(learner)]
    # The ensembles of imbalanced-learn draw as many rows of each class as their sampling_strategy
    # says.
    return any(
        str(given.get("class_weight")).startswith("balanced") or "sampling_strategy" in given
        for given in settings
    )


def steps_by_count(learner: Any) -> bool:
    """Tell whether a learner, or one inside it, boosts trees whose leaves have a least number of rows, but next to no least weight.

    A step of such a leaf is a quotient of two sums of weights, and where many copies of little
    weight make a leaf it can be of any length: on Adult accuracy fell by 2 to 5 points, and in one
    split of ten a class of 0.2 % got 18 %. XGBoost bounds weights, forests average.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    >>> steps_by_count(HistGradientBoostingClassifier()), steps_by_count(RandomForestClassifier())
    (True, False)
    """
    parts = list(_parts(learner))
    return any(
        "min_child_samples" in part.get_params(deep=False)
        or isinstance(part, HistGradientBoostingClassifier)
        for part in parts
    )


def own_split(learner: Any, n_rows: int) -> str | None:
    """Say how a learner, or one inside it, splits its training rows by itself, or None where none does.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression, SGDClassifier
    >>> own_split(SGDClassifier(early_stopping=True), 100), own_split(LogisticRegression(), 100)
    ('holds rows back for early stopping', None)
    """
    ways = (_splits(part, n_rows) for part in _parts(learner))
    return next((way for way in ways if way is not None), None)


def _parts(learner: Any) -> list[Any]:
    """Give a learner and all estimators inside it."""
    inside = learner.get_params().values() if hasattr(learner, "get_params") else ()
    return [
        part
        for part in (learner, *inside)
        if hasattr(part, "fit") and hasattr(part, "get_params") and not isinstance(part, type)
    ]


def _splits(learner: Any, n_rows: int) -> str | None:
    settings = learner.get_params(deep=False)
    # Support vector machines find the scale of their probabilities by folds.
    if ("cv" in settings and settings["cv"] != "prefit") or settings.get("probability") is True:
        return "makes folds of its own"
    early = settings.get(
        "early_stopping",
        settings.get("n_iter_no_change") is not None and "validation_fraction" in settings,
    )
    stops = early is True or (early == "auto" and n_rows > _HIST_AUTO)
    if stops and settings.get("validation_fraction", None) is not None:
        return "holds rows back for early stopping"
    return None


def takes_validation_rows(learner: Any) -> bool:
    """Tell whether ``fit`` takes the rows for early stopping from outside, with weights."""
    return {"X_val", "y_val", "sample_weight_val"} <= parameters_of(learner, "fit")


def parameters_of(learner: Any, method: str) -> set[str]:
    """Give the names of the parameters of a method; none where a learner does not have it."""
    function = getattr(learner, method, None)
    return set() if function is None else set(inspect.signature(function).parameters)


def _is_search(learner: Any) -> bool:
    settings = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    return {"estimator", "cv", "refit"} <= set(settings)


def gives_probabilities(model: Any) -> bool:
    """Tell whether a classifier around a learner can give probabilities: by regression, or because the learner does."""
    return kind_of(model.estimator) == "regressor" or hasattr(
        getattr(model, "estimator_", model.estimator), "predict_proba"
    )


def probabilities_of(learner: Any, X: Any, classes: Array, form: str) -> Array:
    """Give the probabilities of all classes.

    Predictions of regressors are put back by the Euclidean projection. Clipping at 0 and dividing
    by the sum is the other way: it has no answer for a row of zeros, and dividing moves large
    entries more than small ones, while the projection takes the same from all. The projection is
    also never farther from the true probabilities than the prediction was, since these lie in the
    simplex.

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
        rows = np.asarray(
            learner.predict(X) if is_regressor(learner) else learner.predict_proba(X), np.float64
        )
        if rows.ndim != 2 or rows.shape[1] != len(classes):
            fault = f"was trained on {len(classes)} columns of probabilities and answers with shape {rows.shape}"
            remedy = "Use another form for this learner."
            raise ShapeError(f"{type(learner).__name__} {fault}.", remedy=remedy, shape=rows.shape)
        return project(rows)
    given = np.asarray(learner.predict_proba(X))
    known = np.asarray(learner.classes_)
    if known.tolist() == classes.tolist():
        return given
    out = np.zeros((len(given), len(classes)), given.dtype)
    place = {value: k for k, value in enumerate(classes.tolist())}
    out[:, [place[value] for value in known.tolist()]] = given
    return out


def class_scores(learner: Any, X: Any, classes: Array, form: str) -> Floats:
    """Give the probabilities of the classes in the order in which labels have them, as distributions of float64.

    Raises
    ------
    InputError
        The learner gives numbers that are no probabilities.
    """
    order = class_order(classes)
    given = np.asarray(probabilities_of(learner, X, classes[order], form), np.float64)
    total = given.sum(axis=1, keepdims=True)
    if not np.isfinite(given).all() or (given < 0).any() or not (total > 0).all():
        name = type(learner).__name__
        problem = f"{name}.predict_proba gives rows that are no distributions over the {len(classes)} classes."
        raise InputError(
            problem,
            remedy="Pass a learner whose probabilities are finite, not negative and add up to 1.",
            estimator=name,
        )
    scores = np.empty_like(given)
    scores[:, order] = given / total
    return scores


def scores_of(learner: Any, X: Any, classes: Array) -> Array:
    """Give what the learner's ``decision_function`` gives, if it has a score for every class.

    Raises
    ------
    InputError
        Debiasing left a class without any row, so that the learner has no score for it.
    """
    known = np.asarray(learner.classes_)
    if known.tolist() != classes.tolist():
        lost = next(value for value in classes.tolist() if value not in known.tolist())
        problem = f"{type(learner).__name__} has no score for the class {lost!r}, which debiasing left without any row."
        raise InputError(
            problem,
            remedy="Use predict, or predict_proba, which gives the class the probability 0.",
            value=lost,
        )
    return np.asarray(learner.decision_function(X))
