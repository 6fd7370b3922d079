"""What a learner can do, asked before anything is trained: weights, soft targets, splits of its own."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sklearn.base import is_classifier, is_regressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from r2b.errors import ParameterError

Form = Literal["expand", "sample", "round", "soft"]
_HIST_AUTO = 10_000  # rows above which scikit-learn's early_stopping="auto" is on


@dataclass(frozen=True)
class FormChoice:
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
        Rows that the learner will see, as far as they are known: copies may come on top.
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
    options = ("auto", *get_args(Form))
    if wanted not in options:
        raise ParameterError(f"form is {wanted!r}.", remedy=f"Pass one of {', '.join(map(repr, options))}.", form=wanted)
    if wanted != "auto":
        _refuse_mismatch(wanted, learner, method)
        return FormChoice(wanted, "asked for")  # type: ignore[arg-type]
    name = type(learner).__name__
    if is_regressor(learner):
        return FormChoice("soft", f"{name} is a regressor: it learns the fair probabilities themselves")
    if reads_pairs(learner):
        return FormChoice("sample", f"X is a table of pairs of rows to {name}, which cannot be repeated: every row gets one class, drawn")
    if resamples(learner):
        return FormChoice("sample", f"a step of {name} resamples rows, which weights do not follow: every row gets one class, drawn")
    if weight_keyword(learner, method) is None:
        return FormChoice("sample", f"{name}.{method} takes no sample_weight: every row gets one class, drawn from its fair probabilities")
    if counts_rows(learner):
        return FormChoice(
            "sample", f"{name} balances classes by counting rows, and copies would count too: every row gets one class, drawn"
        )
    split = own_split(learner, n_rows) if method == "fit" else None
    if split is not None and not takes_validation_rows(learner):
        return FormChoice("sample", f"{name} {split}, and copies of one row would land on both sides: every row gets one class, drawn")
    return FormChoice("expand", f"{name}.{method} takes sample_weight: rows are repeated for their classes, with weights")


def refuse_no_learner(learner: Any) -> None:
    """Refuse what can neither be trained nor predict: a class instead of an instance, a transformer, a name.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> refuse_no_learner(Ridge())
    """
    able = hasattr(learner, "fit") and hasattr(learner, "get_params") and not isinstance(learner, type)
    if not able or not (hasattr(learner, "predict") or is_classifier(learner) or is_regressor(learner)):
        remedy = "Pass a classifier or a regressor, such as LogisticRegression()."
        raise ParameterError(f"estimator is {learner!r}, which learns nothing from labels.", remedy=remedy, estimator=repr(learner))


def _refuse_mismatch(wanted: str, learner: Any, method: str) -> None:
    name = type(learner).__name__
    if wanted != "soft" and is_regressor(learner):
        raise ParameterError(
            f"The form {wanted!r} trains on classes, but {name} is a regressor.",
            remedy="Use form='soft', or pass a classifier.",
            form=wanted,
            estimator=name,
        )
    if wanted == "expand" and resamples(learner):
        raise ParameterError(
            f"The form 'expand' needs weights, but a step of {name} resamples rows, which weights do not follow.",
            remedy="Use form='sample' or 'round'.",
            form=wanted,
            estimator=name,
        )
    if wanted == "expand" and weight_keyword(learner, method) is None:
        raise ParameterError(
            f"The form 'expand' needs weights, but {name}.{method} takes no sample_weight.",
            remedy="Use form='sample' or 'round', or a learner that takes sample_weight.",
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
    if isinstance(learner, MultiOutputRegressor) and weight_keyword(learner.estimator, method) is None:
        return None  # it says that it takes weights, whatever the regressor inside does
    if "sample_weight" in _parameters(learner, method):
        return "sample_weight"
    # A search hands its keywords on to the learner that it searches for.
    return weight_keyword(learner.estimator, method) if _is_search(learner) and method == "fit" else None


def reads_pairs(learner: Any) -> bool:
    """Tell whether X is to a learner a table of pairs of rows, as of a kernel computed before."""
    inner = learner.estimator if isinstance(learner, MultiOutputRegressor) else learner
    return bool(get_tags(inner).input_tags.pairwise)


def resamples(learner: Any) -> bool:
    """Tell whether a step of a pipeline changes which rows there are, as the samplers of imbalanced-learn do."""
    return isinstance(learner, Pipeline) and any(hasattr(step, "fit_resample") or resamples(step) for _, step in learner.steps)


def counts_rows(learner: Any) -> bool:
    """Tell whether a learner, or one inside it, balances classes, which most do by their numbers of rows and not by weight.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> counts_rows(DecisionTreeClassifier(class_weight="balanced")), counts_rows(DecisionTreeClassifier())
    (True, False)
    """
    settings = [part.get_params(deep=False) for part in _parts(learner)]
    # The ensembles of imbalanced-learn draw as many rows of each class as their sampling_strategy says.
    return any(str(given.get("class_weight")).startswith("balanced") or "sampling_strategy" in given for given in settings)


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
    return [part for part in (learner, *inside) if hasattr(part, "fit") and hasattr(part, "get_params") and not isinstance(part, type)]


def _splits(learner: Any, n_rows: int) -> str | None:
    settings = learner.get_params(deep=False)
    # Support vector machines find the scale of their probabilities by folds.
    if ("cv" in settings and settings["cv"] != "prefit") or settings.get("probability") is True:
        return "makes folds of its own"
    early = settings.get("early_stopping", settings.get("n_iter_no_change") is not None and "validation_fraction" in settings)
    stops = early is True or (early == "auto" and n_rows > _HIST_AUTO)
    if stops and settings.get("validation_fraction", None) is not None:
        return "holds rows back for early stopping"
    return None


def takes_validation_rows(learner: Any) -> bool:
    """Tell whether ``fit`` takes the rows for early stopping from outside, with weights."""
    return {"X_val", "y_val", "sample_weight_val"} <= _parameters(learner, "fit")


def takes_matrix(learner: Any) -> bool:
    """Tell whether a regressor takes all classes at once."""
    return bool(get_tags(learner).target_tags.multi_output)


def takes_classes(learner: Any) -> bool:
    """Tell whether ``partial_fit`` wants to know the classes."""
    return "classes" in _parameters(learner, "partial_fit")


def _parameters(learner: Any, method: str) -> set[str]:
    function = getattr(learner, method, None)
    return set() if function is None else set(inspect.signature(function).parameters)


def _is_search(learner: Any) -> bool:
    settings = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    return {"estimator", "cv", "refit"} <= set(settings)
