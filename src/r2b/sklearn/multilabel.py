"""Fair decisions on several tags per row: one binary problem for each, over the same predictions.

The estimator is trained once for all tags, out of fold, and the groups are predicted once. Each tag
then has prices of its own: a row gets the tag where its probability, less what its groups pay, is
above one half. The model of a tag is a fair classifier of the classes 0 and 1 like any other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.base import clone

from r2b._constraints.bounds import PARAMETERS
from r2b._constraints.families import Family, Request
from r2b._constraints.families.request import one_of
from r2b._data.arrays import Array, Floats, Whole, plain_value
from r2b._data.compute import generator
from r2b._data.tags import Tags, read_tags
from r2b._data.values import listed, warn
from r2b._data.vocabulary import Vocabulary
from r2b._labels import FairLabels
from r2b._labels.tags import put_together, requests_of
from r2b.errors import (
    DataWarning,
    InputError,
    NotFairWarning,
    ParameterError,
    R2BError,
)
from r2b.metrics.criteria import CRITERIA
from r2b.metrics.promise import Promise
from r2b.sklearn.evidence import ParityReport
from r2b.sklearn.fair_labels import debias_rows
from r2b.sklearn.folds import out_of_fold
from r2b.sklearn.groups import FitRows, true_groups
from r2b.sklearn.labels import options_of, without_rows
from r2b.sklearn.learners import takes_probabilities
from r2b.sklearn.training import TrainingRows, params_for, rows_at, train

Given = ParamSpec("Given")
Result = TypeVar("Result")


def by_tag(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a method of a model of several tags put together what the model of each tag returns."""

    @wraps(method)
    def put_together_or_call(*args: Given.args, **given: Given.kwargs) -> Result:
        model: Any = args[0]
        if not hasattr(model, "tags_"):
            return method(*args, **given)
        found: Result = getattr(model.tags_, method.__name__)(*args[1:], **given)
        return found

    return put_together_or_call


@dataclass(eq=False)
class SharedModel:
    """A trained model that all tags ask, and that predicts once while they ask for the same rows.

    Attributes
    ----------
    ask : callable
        Returns probabilities for features.
    classes_ : ndarray
    held : dict or None
        While predictions are kept: by the identity of the features.
    """

    ask: Callable[[Any], Floats]
    classes_: Array
    held: dict[int, Floats] | None = field(default=None, repr=False)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the classes."""
        if self.held is None:
            return self.ask(X)
        if id(X) not in self.held:
            self.held[id(X)] = self.ask(X)
        return self.held[id(X)]


@dataclass(frozen=True, eq=False)
class OneTag:
    """One tag of a trained model, as a classifier of the classes 0 and 1."""

    model: SharedModel
    place: int

    @property
    def classes_(self) -> Array:
        """Absent and present."""
        return np.array([0, 1])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of absent and present."""
        return _pair(self.model.predict_proba(X)[:, self.place])

    def predict(self, X: Any) -> Array:
        """Return the likelier one."""
        return (self.model.predict_proba(X)[:, self.place] > 0.5).astype(np.int64)


def _pair(present: Floats) -> Floats:
    return np.column_stack([1.0 - present, present])


def tag_probabilities(models: tuple[Any, ...], n_tags: int, X: Any) -> Floats:
    """Return the mean probability of every tag by some models, of shape (n, n_tags).

    Classifiers with an output per tag answer with a list of two columns each, others with one
    column per tag.

    Raises
    ------
    InputError
        They are no probabilities of so many tags.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multioutput import MultiOutputClassifier
    >>> Y = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    >>> model = MultiOutputClassifier(LogisticRegression()).fit(Y, Y)
    >>> tag_probabilities((model,), 2, Y).round(1)[0]
    array([0.4, 0.6])
    """
    return np.asarray(np.mean([_of_model(model, n_tags, X) for model in models], axis=0))


def _of_model(model: Any, n_tags: int, X: Any) -> Floats:
    given = model.predict_proba(X)
    if isinstance(given, list):
        known = [np.asarray(each).tolist() for each in model.classes_]
        pairs = zip(map(np.asarray, given), known, strict=True)
        given = np.column_stack([p[:, k.index(1)] if 1 in k else 0.0 * p[:, 0] for p, k in pairs])
    found = np.asarray(given, np.float64)
    right = found.ndim == 2 and found.shape[1] == n_tags
    if not right or not ((found >= 0) & (found <= 1)).all():
        name = type(model).__name__
        problem = f"{name}.predict_proba returns no probabilities of {n_tags} tags."
        remedy = (
            "Pass an estimator of several labels per row, such as OneVsRestClassifier, "
            "MultiOutputClassifier or ClassifierChain, that was trained on these tags."
        )
        raise InputError(problem, remedy=remedy, estimator=name, shape=found.shape)
    return found


@dataclass(frozen=True, eq=False)
class TagModels:
    """The fair model of every tag, by name: ``model.tags_["dog"]``.

    Attributes
    ----------
    names : ndarray of shape (n_tags,)
    models : tuple
        For each tag a fair classifier of the classes 0 and 1, with prices, a report, a frontier and
        a promise of its own.
    shared : tuple of SharedModel
        What all of them ask.
    """

    names: Array
    models: tuple[Any, ...]
    shared: tuple[SharedModel, ...] = field(repr=False)

    def __getitem__(self, name: Any) -> Any:
        """Return the model of one tag."""
        known = self.names.tolist()
        one_of("tag", name, known)
        return self.models[known.index(name)]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let shared models predict once for the same rows."""
        for each in self.shared:
            each.held = {}
        try:
            yield
        finally:
            for each in self.shared:
                each.held = None

    def _each(self, method: str, X: Any, **given: Any) -> list[Any]:
        with self.held():
            return [getattr(model, method)(X, **given) for model in self.models]

    def predict(self, X: Any, **given: Any) -> Array:
        """Return 0 or 1 for every row and tag."""
        return np.column_stack(self._each("predict", X, **given))

    def predict_proba(self, X: Any, **given: Any) -> Floats:
        """Return the fair probability of every tag."""
        return np.column_stack([each[:, 1] for each in self._each("predict_proba", X, **given)])

    def predict_sampled(self, X: Any, random_state: Any = 0, **given: Any) -> Array:
        """Draw every tag of every row."""
        chances = self.predict_proba(X, **given)
        return (generator(random_state).random(chances.shape) < chances).astype(np.int64)

    def parity_report(self, X: Any = None, *, y: Any = None, **given: Any) -> ParityReport:
        """Return the verdicts on all tags, with the tag in the place of the class.

        Accuracies are means over the tags.
        """
        columns: Any = [None] * len(self.names)
        if y is not None:
            columns = read_training_tags(y, self.names).matrix.T
        with self.held():
            found: list[ParityReport] = [
                model.parity_report(X, y=own, **given)
                for model, own in zip(self.models, columns, strict=True)
            ]
        named = list(zip(map(plain_value, self.names), found, strict=True))
        groups, pairs = (
            tuple(replace(each, class_name=tag) for tag, r in named for each in getattr(r, part))
            for part in ("groups", "pairs")
        )
        known = found[0].accuracy is not None
        return replace(
            found[0],
            groups=groups,
            pairs=pairs,
            disparity=max(report.disparity for report in found),
            accuracy=float(np.mean([r.accuracy for r in found])) if known else None,
            majority=float(np.mean([r.majority for r in found])) if known else None,
        )

    def promise(self, X: Any, Y: Any, data: dict[str, Any]) -> dict[str, Promise]:
        """Bound the disparity of all tags for new rows, from rows that were held back.

        The largest difference in the population is that of one tag, and the promise fails only
        where the bound of this one fails: nothing is divided among the tags.
        """
        with self.held():
            for model, own in zip(
                self.models, read_training_tags(Y, self.names).matrix.T, strict=True
            ):
                model._promise(X, own, data)
        found = {}
        for name in ("promise_", "probability_promise_"):
            every = [getattr(model, name) for model in self.models]
            k = int(np.argmax([each.bound for each in every]))
            worst, tag = every[k], plain_value(self.names[k])
            needed = [each.rows_needed for each in every if each.rows_needed is not None]
            found[name] = replace(
                worst,
                measured=max(each.measured for each in every),
                classes=[plain_value(each) for each in self.names],
                n_differences=sum(each.n_differences for each in every),
                rows_needed=max(needed) if needed else None,
                limit=None if worst.limit is None else replace(worst.limit, class_name=tag),
            )
        return found


def read_training_tags(Y: Any, known: Array | None = None) -> Tags:
    """Read the tags of rows that a model is trained on or judged by, perhaps with known names.

    Raises
    ------
    InputError
        A tag is a probability.
    """
    tags = read_tags(Y, None if known is None else Vocabulary(known))
    if not ((tags.matrix == 0) | (tags.matrix == 1)).all():
        problem = "Some tags are probabilities, but a model of several tags learns from 0 and 1."
        remedy = "Pass 0 and 1, such as r2b.debias(Y, multilabel=True, ...).round()."
        raise InputError(problem, remedy=remedy, argument="y")
    return replace(tags, matrix=tags.matrix.astype(np.int64))


def strata_of(Y: Any, request: Request) -> tuple[Whole, Request]:
    """Return what folds of tags are to be alike in, and a request that bounds none of it.

    Raises
    ------
    InputError
        All rows agree in some tag.
    """
    if request.outcomes is not None or request.offsets is not None:
        problem = "Outcomes and offsets are of classes, and these are tags."
        raise ParameterError(problem, remedy="Leave `outcomes` and `offsets` out.")
    tags = read_training_tags(Y)
    if still := tags.constant:
        problem = f"No row has the tag, or every row has it: {listed(still)}."
        raise InputError(problem, remedy="Leave these columns out of y.", tags=still)
    families = request.families
    if isinstance(families, list | tuple):
        families = [each.columns if isinstance(each, Family) else each for each in families]
    free: dict[str, Any] = {"epsilon": 0.0, "bound": "range", **dict.fromkeys(PARAMETERS)}
    # folds are alike in the rarest tag of every row; -1 where it has none
    order = np.argsort(tags.matrix.mean(axis=0), kind="stable")
    has = tags.matrix[:, order] == 1
    rarest = np.where(has.any(axis=1), order[has.argmax(axis=1)], -1)
    return rarest, replace(request, families=families, **free)


def fit_tags(model: Any, rows: FitRows, Y: Any) -> None:
    """Train a model of several tags, and find the prices of each.

    Parameters
    ----------
    model : ParityPostprocessor or ParityClassifier
    rows : FitRows
        Of :func:`strata_of` the tags.
    Y : array-like of shape (n, n_tags)
    """
    tags, trains_on_fair = read_training_tags(Y), hasattr(model, "decisions")
    fair, names, n_tags = getattr(model, "decisions", "fair") == "fair", tags.names, len(tags.names)
    scores, own_models, model.estimator_ = _scores_of(model, rows, tags)
    shared = [SharedModel(partial(tag_probabilities, own_models, n_tags), names)]
    binary = copy(model)
    binary.multilabel = False
    if model.group_estimator is None:  # groups exclude each other, and need no estimator of tags
        binary.group_estimator = getattr(model.estimator, "estimator", model.estimator)
    codes: Floats | None = None
    models: list[Any] = []
    labels: list[FairLabels] = []
    asked = requests_of(model._request(), names.tolist())
    positive = 1 if any(CRITERIA[name].of_class for name in model._criteria) else None
    for k, (request, column) in enumerate(zip(asked, tags.matrix.T, strict=True)):
        data = {**rows.data, "normalize": False}
        groups = true_groups(column, data, request, model._criteria, positive)[0]
        groups = replace(groups, judged_together=n_tags)
        mine = replace(rows, y=column, groups=groups, truth=column, labels=np.eye(2)[column])
        if not k or groups.by_class:  # the groups alone are the same for all tags
            codes = binary._fit_groups(mine)
            seen = binary.group_estimator_
            if seen is not None and not groups.by_class:
                binary.group_estimator_ = SharedModel(seen.predict_proba, seen.classes_)
                shared.append(binary.group_estimator_)
        each = copy(binary)
        each.__dict__ |= _by_tag(request)
        each.classes_, each._order, each._score_form = np.array([0, 1]), np.arange(2), "expand"
        each.comparisons_ = groups.without_rows()
        each.estimator = each.estimator_ = OneTag(shared[0], k)
        each.score_estimators_ = (each.estimator,)
        if fair:
            with _one_warning():
                each._fit_rules(mine, _pair(scores[:, k]), codes)
        if trains_on_fair:
            options = options_of(model) | _by_tag(request)
            labels.append(debias_rows(model.groups, mine, codes, options))
        models.append(each)
    model.score_estimators_, model.classes_ = own_models, names
    model.group_estimator_, model.group_reason_ = binary.group_estimator_, binary.group_reason_
    if trains_on_fair:
        _train_on_fair(model, rows, tags, labels)
    if not fair:
        shared.append(SharedModel(partial(tag_probabilities, (model.estimator_,), n_tags), names))
        for k, each in enumerate(models):
            each.estimator_, each.form_ = OneTag(shared[-1], k), "round"
    model.tags_ = TagModels(names, tuple(models), tuple(shared))
    if fair:
        model.parity_ = model.tags_.parity_report()
        warn_of_tags(model.parity_)


def update_tags(tags: TagModels, X: Any, handed: dict[str, Any]) -> TagModels:
    """Find the prices of every tag again on new rows."""
    models = tuple(map(copy, tags.models))
    with tags.held(), _one_warning():
        for each in models:
            each.update(X, **handed)
    return replace(tags, models=models)


@contextmanager
def _one_warning() -> Iterator[None]:
    """Silence what is said of single tags: one warning speaks for all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFairWarning)
        warnings.simplefilter("ignore", DataWarning)
        yield


def _by_tag(request: Request) -> dict[str, Any]:
    """Return the options that are read tag by tag."""
    return {name: getattr(request, name) for name in ("epsilon", "target", "families")}


def _scores_of(model: Any, rows: FitRows, tags: Tags) -> tuple[Floats, tuple[Any, ...], Any]:
    """Return the probabilities of tags out of fold, the models of them, and that of all rows."""
    n_tags = len(tags.names)
    if getattr(model, "prefit", False):
        models = (model.estimator,)
        return tag_probabilities(models, n_tags, rows.X), models, model.estimator
    training = TrainingRows(None, tags.matrix, rows.groups.weight).with_weight()

    def predict(left: Whole, held: Whole) -> tuple[Floats, Any]:
        fitted = _trained(model.estimator, rows, training.among(left), tags)
        return tag_probabilities((fitted,), n_tags, rows_at(rows.X, held)), fitted

    scores, models = out_of_fold(predict, rows.folds, n_tags, model.n_jobs)
    whole = _trained(model.estimator, rows, training, tags, own=True)
    return scores, models if model.ensemble else (whole,), whole


def _trained(
    estimator: Any, rows: FitRows, training: TrainingRows, tags: Tags, own: bool = False
) -> Any:
    params = params_for(estimator, rows.fit_params, "round", tags.names, own)
    try:
        return train(clone(estimator), rows.X, training, "round", params, tags.matrix)
    except ValueError as error:
        if isinstance(error, R2BError):
            raise
        rare = plain_value(tags.names[int(tags.matrix.sum(axis=0).argmin())])
        problem = f"{type(estimator).__name__} could not be trained on these tags ({error})."
        remedy = (
            "Pass an estimator of several labels per row, such as OneVsRestClassifier; or leave "
            f"out tags that few rows have: {rare!r} is the rarest."
        )
        name = type(estimator).__name__
        raise InputError(problem, remedy=remedy, estimator=name, tag=rare) from error


def _train_on_fair(model: Any, rows: FitRows, tags: Tags, labels: list[FairLabels]) -> None:
    """Train the estimator on the fair tags."""
    fair, form = put_together(tags, labels), model.form
    one_of("form", form, ("auto", "round", "sample", "soft"))
    reason = "asked for"
    if form == "auto":
        form = "soft" if takes_probabilities(model.estimator) else "round"
        reason = "every row gets tags, with the counts kept"
    target = fair.soft_labels if form == "soft" else getattr(fair, form)(rows.seed)
    training = TrainingRows(None, target, rows.groups.weight).with_weight()
    model.estimator_ = _trained(model.estimator, rows, training, tags, own=True)
    model.form_, model.form_reason_ = form, reason
    model.labels_ = replace(fair, labels=tuple(map(without_rows, fair.labels)))
    model.groups_, model.prices_ = fair.groups, fair.prices
    model.certificate_, model.status_ = fair.certificate, fair.status
    model.n_iter_ = sum(len(each.history) for each in labels)


def warn_of_tags(report: ParityReport) -> None:
    """Name the tags whose decisions are not in parity on unseen rows."""
    problems = report.problems(tags=True)
    if not problems:
        return
    remedy = "Pass more rows, `attribute='given'`, a better `group_estimator`, or a larger epsilon."
    bad = (*report.not_met, *report.likely)
    tags = list(dict.fromkeys(each.class_name for each in bad))
    warn(NotFairWarning(" ".join(problems), remedy=remedy, tags=tags))
