"""Who is compared with whom, by true group and by the groups that the features predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from r2b._constraints.bounds import Bound
from r2b._constraints.families import Family, Request, resolve
from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Flags, Floats, Whole, divided
from r2b._data.attributes import CATEGORICAL, Membership
from r2b._data.cells import read_known_cells
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import seed_of
from r2b._data.dataset import Dataset, Schema, read
from r2b._data.merge import cell_sums
from r2b._data.outcomes import Outcomes, read_outcomes
from r2b._data.values import listed
from r2b._labels.labels import Form
from r2b.errors import InputError, MissingValueError, ParameterError, R2BError, UnseenError
from r2b.metrics.criteria import CRITERIA, Criterion, refuse_positive
from r2b.sklearn.folds import Folds, code_probabilities, make_folds, out_of_fold
from r2b.sklearn.labels import bare_schema, check_same_rows, class_order, part_of
from r2b.sklearn.learners import (
    can_be_trained,
    for_groups,
    kind_of,
    require_probabilities,
)
from r2b.sklearn.training import TrainingRows, row_texts, rows_at, train_on_classes


@dataclass(frozen=True, eq=False)
class Comparison:
    """Groups that are compared with each other, in what, and how closely they must agree.

    Attributes
    ----------
    name : str
    groups : tuple of str
    place : ndarray of shape (n_codes,)
        The group of every code of :class:`TrueGroups`; -1 for codes that it does not count.
    bound : Bound
        Infinite for predicted classes that are not compared.
    criterion : str
    n_right : int
        Where right predictions are compared the number of classes, else 0.
    """

    name: str
    groups: tuple[str, ...]
    place: Whole
    bound: Bound
    criterion: str = "demographic_parity"
    n_right: int = 0

    @property
    def counts(self) -> Floats:
        """Which codes each group counts, as ones and zeros, of shape (n_codes, n_groups)."""
        return np.asarray(self.place[:, None] == np.arange(len(self.groups)), np.float64)

    def parts(self, codes: Floats) -> Floats:
        """Return the part of each row in each group, (n, n_groups).

        Where right predictions are compared, the part with each true class, as a third axis.
        """
        if not self.n_right:
            return codes @ self.counts
        k = self.n_right
        each = [codes[:, first::k] @ self.counts[first::k] for first in range(k)]
        return np.stack(each, axis=2)

    def among(self, here: Flags) -> Comparison | None:
        """Keep some of the groups; None if fewer than two are left, or not the reference."""
        if self.bound.on_level(len(here))[~here].any() or here.sum() < 2:
            return None
        place = np.append(np.where(here, np.cumsum(here) - 1, -1), -1)[self.place]
        groups = tuple(self.groups[group] for group in np.flatnonzero(here))
        return replace(
            self, groups=groups, place=place, bound=self.bound.reordered(np.flatnonzero(here))
        )

    def means(self, sums: Floats, sizes: Floats) -> Floats:
        """Return the group means of outcomes, from sums of rows and their weight by true code."""
        if self.n_right:
            right = np.tile(np.eye(self.n_right), (len(sums) // self.n_right, 1))
            sums = (sums * right).sum(axis=1, keepdims=True)
        found, total = self.counts.T @ sums, (sizes @ self.counts)[:, None]
        overall = found.sum(axis=0) / total.sum()  # of groups that some fold leaves without rows
        return divided(found, total, overall)


@dataclass(frozen=True, eq=False, repr=False)
class TrueGroups:
    """The true group of every row, and all comparisons that the criteria ask for.

    A code is what the group estimator learns: a cell, which is a crossing of all attributes and
    control features, or for criteria that look at the true class a cell and a class.

    Attributes
    ----------
    schema : Schema
        Reads the groups of new rows.
    codes : ndarray of shape (n,)
    n_cells, n_classes : int
    by_class : bool
        Whether a code is a cell and a true class.
    comparisons : tuple of Comparison
    weight : ndarray of shape (n,) or None
    cell_share : ndarray of shape (n_cells,)
        The weight of each cell in the rows that were fitted, as a share of all.
    judged_together : int
        Of how many tags the rows are judged, each by these comparisons.
    outcomes : Outcomes or None
        What is compared instead of the classes.
    """

    schema: Schema
    codes: Whole
    n_cells: int
    n_classes: int
    by_class: bool
    comparisons: tuple[Comparison, ...]
    weight: Floats | None
    cell_share: Floats
    judged_together: int = 1
    outcomes: Outcomes | None = None

    @property
    def n_codes(self) -> int:
        """The number of codes."""
        return self.n_cells * (self.n_classes if self.by_class else 1)

    @property
    def families(self) -> list[Family]:
        """The families, as an option of ``debias``."""
        found = []
        for each in self.comparisons:
            bound = each.bound
            asked: Any = {"bound": bound.name, **bound.parameters_for(each.groups)}
            found.append(Family(each.name, epsilon=bound.epsilon, **asked))
        return found

    def memberships(self, codes: Floats) -> dict[str, Membership]:
        """Return the sensitive features of rows from the probabilities of their codes."""
        found = {}
        for each in self.comparisons:
            parts = np.minimum(codes @ each.counts, 1.0)
            found[each.name] = Membership(parts, groups=each.groups, partial=True)
        return found

    def compared(self, rows: Floats) -> Floats:
        """Return what is compared of rows of classes, in the last axis."""
        return rows if self.outcomes is None else self.outcomes.shares(rows)

    @property
    def outcome_matrix(self) -> Floats | None:
        """How much each class counts in every outcome; None where classes are compared."""
        return None if self.outcomes is None else self.outcomes.matrix

    def means(self, rows: Floats, power: int = 1) -> list[Floats]:
        """Return the means of what is compared, or of its power, for every comparison."""
        weight = np.ones(len(rows)) if self.weight is None else self.weight
        values = self.compared(rows) ** power
        columns = [np.bincount(self.codes, weight * column, self.n_codes) for column in values.T]
        sizes = np.asarray(np.bincount(self.codes, weight, self.n_codes), np.float64)
        return [each.means(np.transpose(columns), sizes) for each in self.comparisons]

    def sizes(self) -> list[Floats]:
        """Return the number of rows of all groups; of weighted rows Kish's effective number."""
        weight = np.ones(len(self.codes)) if self.weight is None else self.weight
        total, squares = (np.bincount(self.codes, weight**p, self.n_codes) for p in (1, 2))
        least = np.finfo(float).tiny
        return [
            (total @ each.counts) ** 2 / np.maximum(squares @ each.counts, least)
            for each in self.comparisons
        ]

    def given(self, scores: Floats, cells: Whole | None = None) -> Floats:
        """Return the probabilities of the codes of rows whose cell is known; -1 if it is not.

        Without cells those of these rows.

        Where codes tell true classes apart, their probabilities are the scores. Unknown groups are
        as probable as they are frequent.
        """
        if cells is None:
            cells = self.codes // self.n_classes if self.by_class else self.codes
        known = np.eye(self.n_cells)[cells]
        known[cells < 0] = self.cell_share
        within = scores if self.by_class else np.ones((len(cells), 1))
        return (known[:, :, None] * within[:, None, :]).reshape(len(cells), -1)

    def cells_of(self, sensitive_features: Any, control_features: Any, n_rows: int) -> Whole:
        """Read the cells of new rows.

        Raises
        ------
        UnseenError
            A crossing of values was not fitted.
        """
        found = read_known_cells(sensitive_features, control_features, fitted=self.schema)
        refuse_lengths("X", n_rows, "sensitive_features", found.n_rows)
        return found.codes.astype(np.int64)

    def cells_or_unknown(self, sensitive_features: Any, control_features: Any, n: int) -> Whole:
        """Read the cells of new rows; -1 for values and crossings that were not fitted."""
        with suppress(UnseenError, MissingValueError):
            return self.cells_of(sensitive_features, control_features, n)
        both = sensitive_features, control_features
        texts = np.array([row_texts(each) for each in both if each is not None])
        refuse_lengths("X", n, "sensitive_features", texts.shape[1])
        _, first, place = np.unique(texts, axis=1, return_index=True, return_inverse=True)
        cells = np.full(len(first), -1)
        for k, row in enumerate(first):
            with suppress(UnseenError, MissingValueError):
                one, control = (part_of(each, np.array([row])) for each in both)
                cells[k] = self.cells_of(one, control, 1)[0]
        return cells[place.ravel()]

    def present(self) -> TrueGroups:
        """Leave out groups without any row, and comparisons in which nothing is left."""
        rows = np.bincount(self.codes, self.weight, self.n_codes)
        found = [each.among(rows @ each.counts > 0) for each in self.comparisons]
        return replace(self, comparisons=tuple(each for each in found if each is not None))

    def of_rows(self, cells: Whole, truth: Whole | None, weight: Floats | None) -> TrueGroups:
        """Return the same comparisons for other rows."""
        codes = cells
        if self.by_class:
            assert truth is not None
            codes = cells * self.n_classes + truth
        return replace(self, codes=codes, weight=weight)

    def at(self, epsilon: float) -> TrueGroups:
        """Return the same comparisons with this epsilon wherever it is smaller."""
        found = []
        for each in self.comparisons:
            bound = each.bound.at(np.maximum(each.bound.epsilon, epsilon))
            found.append(replace(each, bound=bound))
        return replace(self, comparisons=tuple(found))

    def of_labels(self) -> TrueGroups:
        """Return the comparisons that labels are made fair by: true ones meet all others."""
        found = [each for each in self.comparisons if each.criterion == "demographic_parity"]
        return replace(self, comparisons=tuple(found))

    def renamed(self, pattern: str) -> TrueGroups:
        """Return the same with other names of families, so that both can stand together."""
        found = [replace(each, name=pattern.format(each.name)) for each in self.comparisons]
        return replace(self, comparisons=tuple(found))

    def part(self, chosen: Whole) -> TrueGroups:
        """Keep some of the rows."""
        return replace(self, codes=self.codes[chosen], weight=part_of(self.weight, chosen))

    def without_rows(self) -> TrueGroups:
        """Keep names and comparisons: a stored model holds nobody's group."""
        return replace(self, schema=bare_schema(self.schema), codes=self.codes[:0], weight=None)


def shares_of(weight: Floats | None, n_rows: int) -> Floats:
    """Return the weights of rows as shares, which add up to 1."""
    return np.full(n_rows, 1.0 / n_rows) if weight is None else weight / weight.sum()


def true_groups(
    y: Any,
    data: Mapping[str, Any],
    request: Request,
    criteria: Sequence[str] = ("demographic_parity",),
    positive: Any = None,
) -> tuple[TrueGroups, Dataset]:
    """Read the groups of rows and settle who is compared with whom.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, L)
        Classes; probabilities for demographic parity only.
    data : mapping
        ``sensitive_features``, ``control_features``, ``sample_weight`` and ``normalize``, as for
        ``debias``.
    request : Request
    criteria : sequence of str
        Names in :data:`CRITERIA`.
    positive : class, optional
        The one class that criteria of single classes look at.

    Raises
    ------
    ParameterError
        An attribute is uncertain or continuous, or a criterion needs true classes.
    """
    dataset = read(y, **data, missing=request.missing)
    for name, kind in zip(dataset.cells.columns, dataset.cells.kinds, strict=True):
        if kind != CATEGORICAL:
            attribute = f"The attribute {name!r}" if name else "The attribute"
            problem = f"{attribute} is {kind}, but only groups of categories can be predicted."
            way = "use ParityClassifier with `groups='given'` and `decisions='likeliest'`"
            remedy = f"Cut it into groups, or {way}."
            raise ParameterError(problem, remedy=remedy, column=name, kind=kind)
    asked = [CRITERIA[name] for name in criteria]
    by_class = any(each.needs_truth for each in asked)
    if by_class and dataset.labels.is_soft:
        problem = f"The criteria {', '.join(criteria)} need true classes, but y is probabilities."
        remedy = "Pass classes, or `criterion='demographic_parity'`."
        raise ParameterError(problem, remedy=remedy, criterion=list(criteria))
    cell_weight, sums = cell_sums(dataset.labels, dataset.cells, dataset.weight)
    means = divided(sums, cell_weight[:, None])
    vocabulary = dataset.labels.vocabulary
    names = vocabulary.values.tolist()
    of_classes = request.of_classes(vocabulary)
    outcomes = read_outcomes(of_classes.outcomes, of_classes.names)
    if outcomes is not None and {each.outcome for each in asked} != {"every class"}:
        problem = f"The criteria {', '.join(criteria)} are about classes, and outcomes are given."
        remedy = "Leave out `outcomes`, or pass `criterion='demographic_parity'`."
        raise ParameterError(problem, remedy=remedy, criterion=list(criteria))
    refuse_positive(positive, asked, names)
    found: list[Comparison] = []
    absent: list[str] = []
    codes, n_codes = dataset.cells.codes.astype(np.int64), dataset.n_cells
    if by_class:
        codes = codes * dataset.n_classes + dataset.labels.array
        n_codes *= dataset.n_classes
    weight = np.asarray(np.bincount(codes, dataset.weight, n_codes), np.float64)
    for name, epsilon in epsilons_of(request.epsilon, criteria).items():
        wanted = replace(request, epsilon=epsilon).of_classes(vocabulary)
        _, parity = resolve(wanted, dataset.cells, cell_weight, means)
        for each in _comparisons(parity):
            split = _split(each, CRITERIA[name], names, positive, weight, absent)
            found += split if by_class else [each]
    if absent and request.absent == "error":
        problem = f"The group {absent[0]!r} has no row to compare."
        remedy = "Pass `absent='report'` to leave such groups out."
        raise InputError(problem, remedy=remedy, group=absent[0])
    if not found:
        problem = f"No true class has rows of two groups to compare by {', '.join(criteria)}."
        remedy = "Pass more rows, or coarser groups."
        raise InputError(problem, remedy=remedy, criterion=list(criteria))
    groups = TrueGroups(
        dataset.schema,
        codes,
        dataset.n_cells,
        dataset.n_classes,
        by_class,
        tuple(found),
        dataset.weight,
        cell_weight / cell_weight.sum(),
        outcomes=outcomes,
    )
    return groups, dataset


def epsilons_of(epsilon: Any, criteria: Sequence[str]) -> dict[str, Any]:
    """Return the epsilon of each criterion: the same for all, or by name.

    Examples
    --------
    >>> epsilons_of({"equal_accuracy": 0.1, "demographic_parity": 0.0}, list(CRITERIA)[::4])
    {'demographic_parity': 0.0, 'equal_accuracy': 0.1}
    """
    if not isinstance(epsilon, Mapping) or not any(name in CRITERIA for name in epsilon):
        return dict.fromkeys(criteria, epsilon)
    if set(epsilon) != set(criteria):
        problem = f"epsilon names {listed(epsilon)}, but criterion is {listed(criteria)}."
        remedy = "Give each criterion its epsilon, or one epsilon for all."
        raise ParameterError(problem, remedy=remedy, epsilon=list(epsilon), criterion=[*criteria])
    return {name: epsilon[name] for name in criteria}


def _comparisons(parity: Parity) -> tuple[Comparison, ...]:
    found = []
    for member in parity.members:
        design, bound = parity.matrix[:, member.groups], member.bound
        place = np.where(design.any(axis=1), design.argmax(axis=1), -1)
        prefix = f"{member.name}="
        groups = tuple(str(name).removeprefix(prefix) for name in parity.names[member.groups])
        found.append(Comparison(member.name or "groups", groups, place, bound))
    return tuple(found)


def _split(
    plain: Comparison,
    criterion: Criterion,
    classes: list[Any],
    positive: Any,
    weight: Floats,
    absent: list[str],
) -> Iterator[Comparison]:
    """Compare groups by one criterion: among all rows, or once for each true class."""
    n_classes, right = len(classes), criterion.outcome == "right"
    label = "right predictions" if right else ""
    cases: list[tuple[str, Any, Any]] = [(label, slice(None), slice(None))]
    if criterion.rows != "all":
        mark = "" if criterion.rows == "own" else "not "
        named = positive is not None and criterion.of_class
        chosen = [k for k, each in enumerate(classes) if not named or each == positive]
        cases = [(f"{mark}{classes[k]}", k, k) for k in chosen]
    if right and plain.bound.of_classes:
        problem = f"The bound of {plain.name!r} is of single classes, and accuracy is of none."
        remedy = "Pass another `bound`, a group as `reference`, or leave 'equal_accuracy' out."
        raise ParameterError(problem, remedy=remedy, family=plain.name, criterion=criterion.name)
    for label, true, predicted in cases:
        rows = np.zeros(n_classes, bool)
        rows[true] = True
        rows = ~rows if criterion.rows == "other" else rows
        place = np.where(rows, plain.place[:, None], -1).ravel()
        here = np.bincount(place + 1, weight, len(plain.groups) + 1)[1:] > 0
        title = f"{plain.name} | {label}" if label else plain.name
        absent += [f"{title}: {plain.groups[g]}" for g in np.flatnonzero(~here)]
        kept = replace(plain, place=place).among(here)
        if kept is None:
            continue
        bound = kept.bound
        if right:
            bound = bound.at(bound.epsilon.min(axis=-1, keepdims=True))
        elif criterion.of_class:
            own = np.arange(n_classes) == predicted
            bound = bound.at(np.where(own, bound.epsilon, np.inf))
        n_right = n_classes * right
        yield replace(kept, name=title, bound=bound, criterion=criterion.name, n_right=n_right)


@dataclass(frozen=True, eq=False, repr=False)
class FitRows:
    """The rows of one fit, read and dealt into folds.

    Attributes
    ----------
    X, y
        As they came.
    data : dict
        ``sensitive_features``, ``control_features`` and ``sample_weight``.
    groups : TrueGroups
    folds : Folds
    truth : ndarray of shape (n,) or None
        Codes of the true classes; None where labels are probabilities.
    labels : ndarray of shape (n, L) or None
        The labels as distributions; None where nobody knows them.
    seed : int
    fit_params : dict
        For the learner.
    """

    X: Any
    y: Any
    data: dict[str, Any]
    groups: TrueGroups
    folds: Folds
    truth: Whole | None
    labels: Floats | None
    seed: int
    fit_params: dict[str, Any]

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        data: dict[str, Any],
        read: tuple[TrueGroups, Dataset],
        *,
        cv: Any,
        random_state: Any,
        clusters: Any = None,
        fit_params: dict[str, Any] | None = None,
    ) -> FitRows:
        """Deal rows that :func:`true_groups` read into folds alike in groups and classes."""
        groups, dataset = read
        check_same_rows(X, dataset.n_rows, dataset.index)
        indexes = ("X", row_labels(X)), ("y", dataset.index), ("clusters", row_labels(clusters))
        refuse_other_index(*indexes)
        array, strata = dataset.labels.array, dataset.cells.codes.astype(np.int64)
        truth = None
        labels = array.astype(np.float64)
        if not dataset.labels.is_soft:
            truth, labels = array.astype(np.int64), np.eye(dataset.n_classes)[array]
            strata = strata * dataset.n_classes + truth
        seed = seed_of(random_state)
        folds = make_folds(strata, cv, seed, clusters)
        return cls(X, y, data, groups, folds, truth, labels, seed, fit_params or {})

    @property
    def classes(self) -> Array:
        """The classes, in the order in which the labels have them."""
        return self.groups.schema.classes.values

    def as_they_came(self, form: Form) -> TrainingRows:
        """Return the rows to train on for labels as they came."""
        assert self.labels is not None
        classes, weight = self.classes, self.groups.weight
        if form == "soft":
            target = self.labels[:, class_order(classes)]
        elif self.truth is not None:
            target = classes[self.truth]
        else:
            index, columns = np.nonzero(self.labels)
            own = self.labels[index, columns] * (1.0 if weight is None else weight[index])
            return TrainingRows(index, classes[columns], own).with_weight()
        return TrainingRows(None, target, weight).with_weight()


def choose_group_learner(given: Any, estimator: Any) -> tuple[Any, str]:
    """Choose who predicts the groups, and say why.

    What was given, else the learner itself, else logistic regression.

    Raises
    ------
    ParameterError
        What was given has no probabilities, or cannot be trained.
    """
    if given is not None:
        require_probabilities(given, "group_estimator", "or leave group_estimator out")
        if not can_be_trained(given):
            name = type(given).__name__
            problem = f"The group_estimator {name} has no fit, but it is trained for every fold."
            remedy = "Pass a classifier that can be trained."
            raise ParameterError(problem, remedy=remedy, estimator=name)
        return given, "asked for"
    # frozen, it would learn nothing
    estimator = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    name = type(estimator).__name__
    classifies = can_be_trained(estimator) and kind_of(estimator) == "classifier"
    if classifies and hasattr(estimator, "predict_proba"):
        itself = f"{name} itself, without settings that speak of its classes"
        return for_groups(estimator), f"{itself}: it can differ by what it can see of the groups"
    fallback = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000))
    return fallback, f"logistic regression, because {name} predicts no probabilities of groups"


def train_groups(learner: Any, X: Any, groups: TrueGroups) -> Any:
    """Fit a clone of the group estimator on the true codes of rows.

    Raises
    ------
    ParameterError
        It cannot be trained on these features.
    """
    name = type(learner).__name__
    try:
        model = train_on_classes(learner, X, groups.codes, groups.weight)
    except R2BError:
        raise
    except Exception as error:  # LightGBM and CatBoost raise their own
        said = str(error).partition("\n")[0]
        problem = f"{name} could not be trained to predict the groups ({said})."
        way = "Pass `group_estimator=...`, a classifier that takes these features"
        raise ParameterError(
            problem, remedy=f"{way}, or `groups='given'`.", estimator=name
        ) from error
    if np.asarray(model.classes_).tolist() != np.unique(groups.codes).tolist():
        problem = f"{name} was fitted to predict the groups and still predicts other classes."
        remedy = "Pass `group_estimator=...`, a classifier that can be trained."
        raise ParameterError(problem, remedy=remedy, classes=model.classes_)
    return model


def predict_codes(
    learner: Any, X: Any, groups: TrueGroups, folds: Folds, n_jobs: int | None = None
) -> tuple[Floats, tuple[Any, ...]]:
    """Predict the codes of all rows out of fold; return also the models of the folds.

    Raises
    ------
    InputError
        All rows of a group are in one fold.
    """
    for each in () if groups.by_class else groups.comparisons:
        where = each.place[groups.codes]
        for group, name in enumerate(each.groups):
            rows = np.flatnonzero(where == group)
            if len(np.unique(folds.number[rows])) < 2:
                problem = (
                    f"All {len(rows)} rows of the group {name!r} of {each.name!r} are in one fold."
                )
                remedy = (
                    "Pass more rows; `min_group_size=10` with `small_groups='merge'`, or 'exclude' "
                    "for a single small group; or `attribute='given'` (and for ParityClassifier "
                    "`groups='given'`), which predicts no group."
                )
                facts = {"group": name, "family": each.name, "n_rows": len(rows)}
                raise InputError(problem, remedy=remedy, **facts)

    def predict(left: Whole, held: Whole) -> tuple[Floats, Any]:
        model = train_groups(learner, rows_at(X, left), groups.part(left))
        return code_probabilities(model, rows_at(X, held), groups.n_codes), model

    return out_of_fold(predict, folds, groups.n_codes, n_jobs)
