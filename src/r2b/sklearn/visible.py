"""Groups as the features show them: who is compared with whom, by true group, and the same with probabilities predicted out of fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from r2b._constraints.families import Family, Request, resolve
from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import TargetBound
from r2b._data.arrays import Floats, Whole
from r2b._data.attributes import CATEGORICAL, Membership
from r2b._data.cells import read_known_cells
from r2b._data.columns import refuse_lengths
from r2b._data.dataset import Dataset, Schema, read
from r2b.errors import InputError, ParameterError
from r2b.metrics.criteria import CRITERIA, CriterionName
from r2b.sklearn.crossfit import (
    Folds,
    columns_of,
    out_of_fold,
    require_probabilities,
    rows_at,
    trained,
)
from r2b.sklearn.labels import bare_schema
from r2b.sklearn.learners import can_be_trained, kind_of, without_early_stopping


@dataclass(frozen=True, eq=False)
class Comparison:
    """Groups that are compared with each other, and how closely they must agree.

    Attributes
    ----------
    family : Family
        Its name and its bound.
    groups : tuple of str
    place : ndarray of shape (n_codes,)
        The group of every code of :class:`TrueGroups`; -1 for codes that it does not count.
    """

    family: Family
    groups: tuple[str, ...]
    place: Whole

    @property
    def name(self) -> str:
        """The name of the family."""
        return self.family.names[0]

    def membership(self, codes: Floats) -> Membership:
        """Give the part of each row in each group, from the probabilities of its codes."""
        matrix = np.zeros((len(codes), len(self.groups)))
        for group in range(len(self.groups)):
            matrix[:, group] = codes[:, self.place == group].sum(axis=1)
        return Membership(np.minimum(matrix, 1.0), groups=self.groups, partial=True)


@dataclass(frozen=True, eq=False)
class TrueGroups:
    """The true group of every row, and all comparisons that a criterion asks for.

    A code is what the group estimator learns: a cell, which is a crossing of all attributes and
    control features, or for criteria that look at the true class a cell and a class.

    Attributes
    ----------
    schema : Schema
        Reads the groups of new rows.
    criterion : str
    codes : ndarray of shape (n,)
    n_cells, n_classes : int
    comparisons : tuple of Comparison
    weight : ndarray of shape (n,) or None
    absent : tuple of str
        Groups without any row of a true class, which its comparison does without.
    """

    schema: Schema
    criterion: CriterionName
    codes: Whole = field(repr=False)
    n_cells: int
    n_classes: int
    comparisons: tuple[Comparison, ...]
    weight: Floats | None = field(repr=False)
    absent: tuple[str, ...] = ()

    @property
    def by_class(self) -> bool:
        """Whether a code is a cell and a true class."""
        return CRITERIA[self.criterion].by_true_class

    @property
    def n_codes(self) -> int:
        """The number of codes."""
        return self.n_cells * (self.n_classes if self.by_class else 1)

    @property
    def cells(self) -> Whole:
        """The cell of every row."""
        return self.codes // self.n_classes if self.by_class else self.codes

    @property
    def families(self) -> list[Family]:
        """The families, as an option of ``debias``."""
        return [each.family for each in self.comparisons]

    def memberships(self, codes: Floats) -> dict[str, Membership]:
        """Give the sensitive features of rows from the probabilities of their codes."""
        return {each.name: each.membership(codes) for each in self.comparisons}

    def means(self, rows: Floats, codes: Whole | None = None) -> Floats:
        """Give the means of all groups, comparison after comparison, by true group."""
        codes = self.codes if codes is None else codes
        weight = np.ones(len(rows)) if self.weight is None else self.weight
        sums = np.zeros((self.n_codes, rows.shape[1]))
        for k in range(rows.shape[1]):
            sums[:, k] = np.bincount(codes, weight * rows[:, k], self.n_codes)
        total = np.bincount(codes, weight, self.n_codes)
        found = []
        for each in self.comparisons:
            for group in range(len(each.groups)):
                inside = each.place == group
                found.append(sums[inside].sum(axis=0) / total[inside].sum())
        return np.array(found)

    def sizes(self) -> Floats:
        """Give the number of rows of all groups, comparison after comparison; of weighted rows, as many as would say as much."""
        weight = np.ones(len(self.codes)) if self.weight is None else self.weight
        total, squares = (
            np.bincount(self.codes, weight, self.n_codes),
            np.bincount(self.codes, weight**2, self.n_codes),
        )
        inside = [
            each.place == group for each in self.comparisons for group in range(len(each.groups))
        ]
        return np.array([total[codes].sum() ** 2 / squares[codes].sum() for codes in inside])

    def given(self, cells: Whole, scores: Floats) -> Floats:
        """Give the probabilities of the codes of rows whose cell is known: of the true class, those of the scores."""
        known = np.zeros((len(cells), self.n_codes))
        rows = np.arange(len(cells))
        if not self.by_class:
            known[rows, cells] = 1.0
            return known
        for k in range(self.n_classes):
            known[rows, cells * self.n_classes + k] = scores[:, k]
        return known

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

    def permuted(self, rng: np.random.Generator) -> Whole:
        """Hand groups out by chance: over all rows, or among the rows of each true class."""
        if not self.by_class:
            return rng.permutation(self.codes)
        codes = self.codes.copy()
        for k in range(self.n_classes):
            rows = np.flatnonzero(self.codes % self.n_classes == k)
            codes[rows] = rng.permutation(self.codes[rows])
        return codes

    def renamed(self, pattern: str) -> TrueGroups:
        """Give families other names, so that they can stand beside these."""
        named = tuple(
            replace(each, family=replace(each.family, columns=pattern.format(each.name)))
            for each in self.comparisons
        )
        return replace(self, comparisons=named)

    def part(self, chosen: Whole) -> TrueGroups:
        """Keep some of the rows."""
        return replace(
            self,
            codes=self.codes[chosen],
            weight=None if self.weight is None else self.weight[chosen],
        )

    def without_rows(self) -> TrueGroups:
        """Keep names and comparisons: a stored model holds nobody's group."""
        return replace(self, schema=bare_schema(self.schema), codes=self.codes[:0], weight=None)


def true_groups(
    y: Any, data: Mapping[str, Any], request: Request, criterion: CriterionName
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
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}

    Raises
    ------
    ParameterError
        An attribute is uncertain or continuous, or the criterion needs true classes.
    """
    dataset = read(y, **data, missing=request.missing, weightless="allow")
    _refuse_uncertain(dataset)
    if CRITERIA[criterion].by_true_class and dataset.labels.is_soft:
        problem = f"The criterion is {criterion!r}, which compares rows of one true class, but y holds probabilities."
        raise ParameterError(
            problem, remedy="Pass classes, or criterion='demographic_parity'.", criterion=criterion
        )
    classes = dataset.labels.vocabulary.values
    weight = np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight
    cell_weight = np.bincount(dataset.cells.codes, weight, dataset.n_cells).astype(np.float64)
    labels = (
        dataset.labels.array
        if dataset.labels.is_soft
        else np.eye(dataset.n_classes)[dataset.labels.array]
    )
    sums = np.array(
        [
            np.bincount(dataset.cells.codes, weight * labels[:, k], dataset.n_cells)
            for k in range(dataset.n_classes)
        ]
    ).T
    means = sums / np.where(cell_weight > 0, cell_weight, 1.0)[:, None]
    _, parity = resolve(replace(request, names=classes.tolist()), dataset.cells, cell_weight, means)
    cells, whole = dataset.cells.codes.astype(np.int64), _comparisons(parity)
    made = TrueGroups(
        dataset.schema, criterion, cells, dataset.n_cells, dataset.n_classes, whole, dataset.weight
    )
    return _by_class(made, dataset, classes, request) if made.by_class else made, dataset


def _refuse_uncertain(dataset: Dataset) -> None:
    for name, kind in zip(dataset.cells.columns, dataset.cells.kinds, strict=True):
        if kind != CATEGORICAL:
            attribute = f"The attribute {name!r}" if name else "The attribute"
            problem = f"{attribute} is {kind}, but visible groups are predictions of true groups, which are categories."
            remedy = "Cut it into groups, or use ParityClassifier with groups='given' and decisions='likeliest'."
            raise ParameterError(problem, remedy=remedy, column=name, kind=kind)


def _comparisons(parity: Parity) -> tuple[Comparison, ...]:
    found = []
    for member in parity.members:
        design, bound = parity.matrix[:, member.groups], member.bound
        place = np.where(design.any(axis=1), design.argmax(axis=1), -1)
        target = bound.target if isinstance(bound, TargetBound) else None
        family = Family(
            member.name or "groups",
            epsilon=bound.epsilon,
            bound=bound.kind,  # type: ignore[arg-type]
            target=target,
        )
        prefix = f"{member.name}="
        groups = tuple(str(name).removeprefix(prefix) for name in parity.names[member.groups])
        found.append(Comparison(family, groups, place))
    return tuple(found)


def _by_class(plain: TrueGroups, dataset: Dataset, classes: Any, request: Request) -> TrueGroups:
    """Compare groups among the rows of each true class."""
    codes = plain.codes * plain.n_classes + dataset.labels.array
    weight = np.ones(len(codes)) if plain.weight is None else plain.weight
    share = np.bincount(codes, weight, plain.n_cells * plain.n_classes).reshape(
        plain.n_cells, plain.n_classes
    )
    found, absent = [], []
    for each in plain.comparisons:
        for k, name in enumerate(classes.tolist()):
            there = [
                group
                for group in range(len(each.groups))
                if share[each.place == group, k].sum() > 0
            ]
            missing = [
                f"{each.name}={group} | {name}"
                for g, group in enumerate(each.groups)
                if g not in there
            ]
            if missing and request.absent == "error":
                problem = f"No row of the true class {name!r} is of the group {missing[0]!r}."
                raise InputError(
                    problem,
                    remedy="Pass absent='report' to leave such groups out and list them.",
                    group=missing[0],
                )
            absent += missing
            if len(there) < 2:
                continue
            place = np.full((plain.n_cells, plain.n_classes), -1)
            for new, group in enumerate(there):
                place[each.place == group, k] = new
            counts = CRITERIA[plain.criterion].counts(plain.n_classes, k)
            bounds = np.where(counts, np.asarray(each.family.epsilon), np.inf)
            family = replace(each.family, columns=f"{each.name} | {name}", epsilon=bounds)
            found.append(
                Comparison(family, tuple(each.groups[group] for group in there), place.ravel())
            )
    if not found:
        problem = f"No true class has rows of two groups, so that {plain.criterion} has nothing to compare."
        raise InputError(
            problem, remedy="Pass more rows, or coarser groups.", criterion=plain.criterion
        )
    return replace(plain, codes=codes, comparisons=tuple(found), absent=tuple(absent))


def group_learner(given: Any, estimator: Any) -> tuple[Any, str]:
    """Choose who predicts the groups, and say why: what was given, else the learner itself, else logistic regression.

    Raises
    ------
    ParameterError
        What was given has no probabilities, or cannot be trained.
    """
    if given is not None:
        require_probabilities(given, "group_estimator", "or leave group_estimator out")
        if not can_be_trained(given):
            problem = f"The group_estimator {type(given).__name__} has no fit, but it is trained once for every fold."
            raise ParameterError(
                problem,
                remedy="Pass a classifier that can be trained.",
                estimator=type(given).__name__,
            )
        return given, "asked for"
    # frozen, it would learn nothing
    estimator = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    if (
        can_be_trained(estimator)
        and kind_of(estimator) == "classifier"
        and hasattr(estimator, "predict_proba")
    ):
        learner, name = without_early_stopping(estimator), type(estimator).__name__
        watched = (
            ""
            if learner is estimator
            else "; without early stopping, since the groups of the rows it watches are not known"
        )
        return (
            learner,
            f"{name} itself: what it can see of the groups is what its predictions can differ by{watched}",
        )
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fallback = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000))
    return (
        fallback,
        f"logistic regression, because {type(estimator).__name__} gives no probabilities of groups",
    )


def train_groups(learner: Any, X: Any, codes: Whole, weight: Floats | None) -> Any:
    """Fit a clone of the group estimator on the true codes.

    Raises
    ------
    ParameterError
        It cannot be trained on these features.
    """
    try:
        model = trained(learner, X, codes, weight)
    except (ValueError, TypeError) as error:
        if isinstance(error, (ParameterError, InputError)):
            raise
        name = type(learner).__name__
        problem = f"{name} could not be trained to predict the groups ({error})."
        remedy = (
            "Pass group_estimator=..., a classifier that takes these features, or groups='given'."
        )
        raise ParameterError(problem, remedy=remedy, estimator=name) from error
    if np.asarray(model.classes_).tolist() != np.unique(codes).tolist():
        problem = f"{type(learner).__name__} was fitted to predict the groups and still predicts other classes, as frozen estimators do."
        raise ParameterError(
            problem,
            remedy="Pass group_estimator=..., a classifier that can be trained.",
            classes=model.classes_,
        )
    return model


def predicted_codes(
    learner: Any, X: Any, groups: TrueGroups, folds: Folds, n_jobs: int | None = None
) -> tuple[Floats, tuple[Any, ...]]:
    """Predict the codes of all rows out of fold; the models of the folds come with them.

    Raises
    ------
    InputError
        A code has fewer rows than it takes to be in every part that a fold is predicted from, or
        the predictions do not vary.
    """
    _refuse_rare(groups, folds)
    weight = groups.weight

    def predict(left: Whole, held: Whole) -> tuple[Floats, Any]:
        model = train_groups(
            learner, rows_at(X, left), groups.codes[left], None if weight is None else weight[left]
        )
        return columns_of(model, rows_at(X, held), groups.n_codes), model

    return out_of_fold(predict, folds, groups.n_codes, n_jobs)


def _refuse_rare(groups: TrueGroups, folds: Folds) -> None:
    for each in groups.comparisons:
        where = each.place[groups.codes]
        for group, name in enumerate(each.groups):
            spread = np.bincount(folds.number[where == group], minlength=folds.n)
            if (spread > 0).sum() < 2:
                rows = int(spread.sum())
                problem = f"The group {name!r} of {each.name!r} has {rows} row{'s' if rows > 1 else ''}, all in one fold of {folds.n}."
                way = "Pass min_group_size with small_groups='merge' or 'exclude'"
                remedy = f"{way}, more rows, or groups='given' and attribute='given', which predict no group."
                raise InputError(problem, remedy=remedy, group=name, family=each.name, n_rows=rows)
