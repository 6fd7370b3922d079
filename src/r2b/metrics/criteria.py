"""Criteria of fairness: one table says which rows and which classes each compares.

Measures, their chance level, promises and estimators read this table. No solver is used here, so
a measure can contradict one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from r2b._data import Dataset, Labels, Vocabulary
from r2b._data.arrays import Array, frozen, plain_value
from r2b._data.columns import (
    Column,
    argument_error,
    column_of,
    recognise,
    refuse_other_index,
    refuse_other_rows,
)
from r2b._data.dataset import read, read_known_labels, read_labels, refuse_decimals
from r2b._data.outcomes import OutcomeChoice, Outcomes, read_outcomes
from r2b._data.probabilities import class_places
from r2b._data.tags import read_tags
from r2b._data.values import listed, one_of
from r2b._data.vocabulary import read_vocabulary
from r2b._plot import Measure, measures, percent
from r2b.errors import InputError, ParameterError
from r2b.metrics.chance import RARE
from r2b.metrics.groups import (
    AbsentGroup,
    Comparison,
    Families,
    RowChoice,
    Stratum,
    families_of,
    strata_of,
    with_true_classes,
)
from r2b.metrics.means import (
    Method,
    by_name,
    disparity_by_class,
    ratio_by_class,
    sums_of,
)
from r2b.metrics.performance import classes_of

Absent = Literal["report", "error"]
CriterionName = Literal[
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "equal_false_positives",
    "equal_accuracy",
]


@dataclass(frozen=True)
class Criterion:
    """What a criterion compares between groups, once for all rows or once for each true class.

    Attributes
    ----------
    name : str
        As options name it; the measure in ``r2b.metrics`` is ``<name>_difference``.
    title : str
    meaning : str
        What the groups are compared in, as the end of a sentence.
    rows : {"all", "own", "other"}
        All rows; those of one true class; or those of all other true classes.
    outcome : {"every class", "own class", "right"}
        Which shares are compared: of every predicted class, of the true class that the comparison
        is for, or of right predictions.
    """

    name: CriterionName
    title: str
    meaning: str
    rows: RowChoice
    outcome: Literal["every class", "own class", "right"]

    @property
    def needs_truth(self) -> bool:
        """Whether true classes must be known."""
        return self.rows != "all" or self.outcome == "right"

    @property
    def of_class(self) -> bool:
        """Whether it looks at single classes, of which one may be named."""
        return self.outcome == "own class"


CRITERIA: dict[str, Criterion] = {
    each.name: each
    for each in (
        Criterion(
            "demographic_parity",
            "Demographic parity",
            "the share of rows that get a prediction, whatever is true",
            "all",
            "every class",
        ),
        Criterion(
            "equal_opportunity",
            "Equal opportunity",
            "the share of right predictions among the rows of a class",
            "own",
            "own class",
        ),
        Criterion(
            "equalized_odds",
            "Equalized odds",
            "the share of every prediction, right or wrong, among the rows of a class",
            "own",
            "every class",
        ),
        Criterion(
            "equal_false_positives",
            "Equal false-positive rates",
            "the share of wrong predictions of a class among the rows of all other classes",
            "other",
            "own class",
        ),
        Criterion(
            "equal_accuracy",
            "Equal accuracy",
            "the share of right predictions among all rows",
            "all",
            "right",
        ),
    )
}


def criterion_of(name: str) -> Criterion:
    """Return a criterion by name.

    Raises
    ------
    ParameterError
        There is none of this name.
    """
    one_of("criterion", name, tuple(CRITERIA))
    return CRITERIA[name]


def refuse_positive(positive: Any, criteria: Iterable[Criterion], classes: Sequence[Any]) -> None:
    """Refuse a positive class that is no class, or that none of the criteria looks at."""
    if positive is None:
        return
    if not any(each.of_class for each in criteria):
        able = [repr(each.name) for each in CRITERIA.values() if each.of_class]
        problem = f"positive is {positive!r}, but the criterion looks at all classes."
        remedy = f"Leave it out, or take {' or '.join(able)}."
        raise ParameterError(problem, remedy=remedy, positive=positive)
    if positive not in classes:
        remedy = f"Pass one of the classes: {listed(classes)}."
        problem = f"positive is {positive!r}, which is not among the true classes."
        raise ParameterError(problem, remedy=remedy, positive=positive)


@dataclass(frozen=True, eq=False)
class DisparityByClass:
    """How far groups are apart in every class.

    Attributes
    ----------
    values : ndarray of shape (L,) or (C, L)
        The largest difference between two groups in each class; for equalized odds in each true
        class (rows) and predicted class (columns). NaN for a true class whose rows no two groups
        have.
    classes : ndarray of shape (L,)
        The predicted classes; for equal opportunity the true ones.
    absent : tuple of AbsentGroup
        Groups without rows in a stratum of the control features, or of a true class. They were not
        compared there.
    true_classes : ndarray of shape (C,) or None
        The rows of ``values``, where it has two dimensions.
    """

    values: Array
    classes: Array
    absent: tuple[AbsentGroup, ...] = ()
    true_classes: Array | None = None

    def as_dict(self) -> dict[Any, Any]:
        """Return the values by class, or by true class and then by predicted class."""
        if self.true_classes is None:
            return by_name(self.classes, self.values)
        rows = [by_name(self.classes, row) for row in self.values]
        return dict(zip(map(plain_value, self.true_classes), rows, strict=True))

    def plot(self, ax: Any = None) -> Any:
        """Draw the disparity of every class, of many the largest, on matplotlib Axes."""
        named = self.as_dict().items()
        if self.true_classes is not None:
            named = {f"{k} among {c}": v for c, row in named for k, v in row.items()}.items()
        found = [Measure(k, value, beside=percent(value)) for k, value in named if value == value]
        return measures(ax, "DisparityByClass", ["Disparity by class"], "disparity", found)


class MeasureOptions(TypedDict, total=False):
    """What every measure takes beside labels and groups; see each for what it means."""

    control_features: Any
    families: Families
    sample_weight: Any
    method: Method
    absent: Absent
    classes: Any
    multilabel: bool
    outcomes: OutcomeChoice | None
    positive: Any


def demographic_parity_difference(
    y: Any, y_pred: Any = None, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> float:
    """Return the disparity of labels, equation (2) of the paper: 0 is fair, 1 the farthest from it.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes. With ``y_pred`` the true classes, which do not
        count here but must be of the same rows: measures of fairlearn and scikit-learn are called
        ``metric(y_true, y_pred, ...)``.
    y_pred : array-like of shape (N,) or (N, L), optional
        Predicted classes or probabilities.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        One attribute or several; :class:`r2b.Membership` for groups that are known in probability.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Groups are compared within each of their values, or crossings of values.
    families : {"crossed", "marginal", "both"} or list
        Which groups are compared: the crossings of all attributes, those of each attribute, or
        both; or a list of columns such as ``["sex", ["sex", "race"]]``. The largest of all counts.
    sample_weight : array-like of shape (N,), optional
        Weights of the rows; without them all count the same.
    method : {"between_groups", "to_overall"}
        The largest difference over the classes between the means of two groups, or between the mean
        of a group and of all rows.
    absent : {"report", "error"}
        Groups that a stratum lacks are not compared there, and named by
        :func:`demographic_parity_difference_by_class`; or refused by name.
    classes : array-like of shape (L,), optional
        The classes of the columns of probabilities, in order, where these have no names.
    multilabel : bool
        Whether labels have a column of 0 and 1, or of probabilities, for each of several tags. The
        largest difference of any tag counts; ``..._by_class`` has each.
    outcomes : "ordinal", {"ordinal": sequence}, mapping, array-like or frame, optional
        For demographic parity: what is compared instead of every class, such as shares of "at least
        k" or of merged classes, as for :func:`r2b.debias`. "ordinal" also takes the order of
        ``classes``.
    positive : class, optional
        For equal opportunity and false-positive rates: the one class that counts. Otherwise the
        largest difference of any class does.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        The method is not one of the two, or a family names a column that is not there.
    InputError
        The data cannot be used as they are.

    See Also
    --------
    r2b.metrics.demographic_parity_difference_by_class : The difference of every class.
    r2b.metrics.demographic_parity_ratio : The smallest ratio of shares, for the four-fifths rule.
    r2b.audit : What groups differ in, and what chance explains of it.

    Examples
    --------
    >>> sex = ["f", "f", "m", "m"]
    >>> demographic_parity_difference(["no", "yes", "no", "no"], sensitive_features=sex)
    0.5

    Of predictions, in the way that scorers call it:

    >>> y_true, y_pred = ["no", "no", "no", "yes"], ["no", "yes", "no", "no"]
    >>> demographic_parity_difference(y_true, y_pred, sensitive_features=sex)
    0.5
    """
    return disparity(
        "demographic_parity", y, y_pred, sensitive_features=sensitive_features, **options
    )


def demographic_parity_difference_by_class(
    y: Any, y_pred: Any = None, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> DisparityByClass:
    """Return the disparity of each class.

    Parameters
    ----------
    y, y_pred, sensitive_features, **options
        As for :func:`demographic_parity_difference`, which is the largest of these values.

    Returns
    -------
    DisparityByClass

    See Also
    --------
    r2b.metrics.demographic_parity_difference : The largest difference in shares.
    r2b.metrics.group_means : The shares of every group.

    Examples
    --------
    >>> y, sex = ["no", "yes", "no", "no"], ["f", "f", "m", "m"]
    >>> demographic_parity_difference_by_class(y, sensitive_features=sex).as_dict()
    {'no': 0.5, 'yes': 0.5}
    """
    return _by_class(
        "demographic_parity", y, y_pred, sensitive_features=sensitive_features, **options
    )


def demographic_parity_ratio(
    y: Any, y_pred: Any = None, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> float:
    """Return the smallest ratio of two groups' shares of a class: 1 is fair, 0 the farthest.

    At least .8 is the four-fifths rule. A class that no group has does not count.

    Parameters
    ----------
    y, y_pred, sensitive_features, **options
        As for :func:`demographic_parity_difference`. With ``method="to_overall"`` the ratio is that
        of a group's share and of all rows, the smaller divided by the larger.

    Returns
    -------
    float

    See Also
    --------
    r2b.metrics.demographic_parity_difference : The largest difference in shares.

    Examples
    --------
    >>> y, sex = ["no", "yes", "no", "yes", "yes", "yes"], ["f", "f", "m", "m", "m", "m"]
    >>> round(demographic_parity_ratio(y, sensitive_features=sex), 3)
    0.5
    """
    rows: Any = {"sensitive_features": sensitive_features, **options}
    return float(np.nanmin(_by_class("demographic_parity", y, y_pred, ratio=True, **rows).values))


def equalized_odds_difference(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> float:
    """Return how far predictions are from equalized odds: 0 is fair, 1 the farthest from it.

    Over all true classes c and predicted classes k, the largest difference between two groups in
    the mean prediction of k among the rows of true class c. Of two classes it is the larger one of
    the differences in true and in false positive rates.

    Parameters
    ----------
    y_true : array-like of shape (N,)
        The true classes.
    y_pred : array-like of shape (N,) or (N, L)
        Predicted classes, or probabilities over L classes.
    sensitive_features, control_features, families, sample_weight, method
        As for :func:`demographic_parity_difference`, among the rows of a true class.
    absent : {"report", "error"}
        A group without rows of a true class has no rates there. It is compared with the others
        where it has some, and named by :func:`equalized_odds_difference_by_class`; or it is refused
        by name. Where no true class has rows of two groups, both refuse.
    classes : array-like of shape (L,), optional
        The classes of the columns of ``y_pred``, in order. Without it the column names, or else the
        sorted classes that occur in ``y_true``, which must then be as many as there are columns.

    Returns
    -------
    float

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.metrics.equalized_odds_difference_by_class : All error rates, by true and predicted class.
    r2b.metrics.equal_opportunity_difference : True positive rates.

    Examples
    --------
    >>> y_true, sex = ["no", "yes", "yes", "no", "yes", "yes"], ["f"] * 3 + ["m"] * 3
    >>> y_pred = ["no", "yes", "yes", "no", "no", "yes"]
    >>> equalized_odds_difference(y_true, y_pred, sensitive_features=sex)
    0.5
    """
    return disparity(
        "equalized_odds", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def equalized_odds_difference_by_class(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> DisparityByClass:
    """Return the differences between groups for each true class and each predicted class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, **options
        As for :func:`equalized_odds_difference`, which is the largest of these values.

    Returns
    -------
    DisparityByClass
        It also names the groups that lack a true class.

    See Also
    --------
    r2b.metrics.equalized_odds_difference : All error rates, by true class.

    Examples
    --------
    >>> y_true, sex = ["no", "yes", "yes", "yes", "yes"], ["f"] * 3 + ["m"] * 2
    >>> y_pred = ["no", "yes", "yes", "no", "yes"]
    >>> found = equalized_odds_difference_by_class(y_true, y_pred, sensitive_features=sex)
    >>> found.as_dict()
    {'no': {'no': nan, 'yes': nan}, 'yes': {'no': 0.5, 'yes': 0.5}}
    >>> print(*found.absent)
    'm' (groups) has no rows of true class 'no'
    """
    return _by_class(
        "equalized_odds", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def equal_opportunity_difference(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> float:
    """Return how far predictions are from equal opportunity: 0 is fair, 1 the farthest from it.

    Over all classes c, the largest difference between two groups in the mean prediction of c among
    the rows of true class c: of true positive rates, or for probabilities of the mean probability
    of the true class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, **options
        As for :func:`equalized_odds_difference`. A class that is never predicted, or that has no
        column, has the rate 0 in every group.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Also where none of the true classes is among the predicted ones.
    ParameterError

    See Also
    --------
    r2b.metrics.equal_opportunity_difference_by_class : The true positive rate of every class.
    r2b.metrics.equalized_odds_difference : All error rates, by true class.

    Examples
    --------
    >>> y_true, sex = ["no", "yes", "yes", "no", "yes", "yes"], ["f"] * 3 + ["m"] * 3
    >>> y_pred = ["yes", "yes", "yes", "no", "yes", "yes"]
    >>> equal_opportunity_difference(y_true, y_pred, sensitive_features=sex)
    1.0
    """
    return disparity(
        "equal_opportunity", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def equal_opportunity_difference_by_class(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> DisparityByClass:
    """Return the difference in true positive rates of each class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, **options
        As for :func:`equal_opportunity_difference`, which is the largest of these values.

    Returns
    -------
    DisparityByClass
        Of the true classes; it also names the groups that lack one.

    See Also
    --------
    r2b.metrics.equal_opportunity_difference : True positive rates.

    Examples
    --------
    >>> y_true, sex = ["no", "yes", "yes", "no", "yes", "yes"], ["f"] * 3 + ["m"] * 3
    >>> y_pred = ["no", "yes", "yes", "no", "no", "yes"]
    >>> equal_opportunity_difference_by_class(y_true, y_pred, sensitive_features=sex).as_dict()
    {'no': 0.0, 'yes': 0.5}
    """
    return _by_class(
        "equal_opportunity", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def equal_false_positives_difference(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> float:
    """Return how far groups are apart in false-positive rates: 0 is fair, 1 the farthest from it.

    Over all classes c, the largest difference between two groups in the mean prediction of c among
    the rows of all other true classes.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, **options
        As for :func:`equal_opportunity_difference`.

    Returns
    -------
    float

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.metrics.equal_false_positives_difference_by_class : The false positive rate of every class.
    r2b.metrics.equal_opportunity_difference : True positive rates.

    Examples
    --------
    >>> y_true, sex = ["no", "no", "yes", "no", "no", "yes"], ["f"] * 3 + ["m"] * 3
    >>> y_pred = ["yes", "no", "no", "no", "no", "yes"]
    >>> asked = {"sensitive_features": sex, "positive": "yes"}
    >>> equal_false_positives_difference(y_true, y_pred, **asked)
    0.5
    """
    return disparity(
        "equal_false_positives", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def equal_false_positives_difference_by_class(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> DisparityByClass:
    """Return the difference in false-positive rates of each class.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, **options
        As for :func:`equal_false_positives_difference`, which is the largest of these values.

    Returns
    -------
    DisparityByClass

    See Also
    --------
    r2b.metrics.equal_false_positives_difference : False positive rates.

    Examples
    --------
    >>> y_true, sex = ["no", "no", "yes", "no", "no", "yes"], ["f"] * 3 + ["m"] * 3
    >>> y_pred = ["yes", "no", "no", "no", "no", "yes"]
    >>> equal_false_positives_difference_by_class(y_true, y_pred, sensitive_features=sex).as_dict()
    {'no': 1.0, 'yes': 0.5}
    """
    return _by_class(
        "equal_false_positives", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def equal_accuracy_difference(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, **options: Unpack[MeasureOptions]
) -> float:
    """Return how far groups are apart in accuracy: 0 is fair, 1 the farthest from it.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, **options
        As for :func:`equalized_odds_difference`. Of probabilities the accuracy is the mean
        probability of the true class.

    Returns
    -------
    float

    Raises
    ------
    ParameterError, InputError

    See Also
    --------
    r2b.metrics.error_parity : How far losses of groups are apart.
    r2b.metrics.equal_opportunity_difference : True positive rates.

    Examples
    --------
    >>> y_true, sex = ["no", "yes", "yes", "no"], ["f", "f", "m", "m"]
    >>> equal_accuracy_difference(y_true, ["no", "yes", "no", "no"], sensitive_features=sex)
    0.5
    """
    return disparity(
        "equal_accuracy", y_true, y_pred, sensitive_features=sensitive_features, **options
    )


def disparity(
    criterion: str,
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    **options: Unpack[MeasureOptions],
) -> float:
    """Return how far predictions are from a criterion.

    Parameters
    ----------
    criterion : str
        Its name.
    y_true, y_pred, sensitive_features, **options
        As for :func:`equalized_odds_difference`.

    Examples
    --------
    >>> rows = {"sensitive_features": ["f", "f", "m", "m"]}
    >>> [disparity(name, [0, 1, 0, 1], [1, 1, 0, 1], **rows) for name in CRITERIA]
    [0.5, 1.0, 1.0, 1.0, 0.5]
    """
    found = _by_class(criterion, y_true, y_pred, sensitive_features=sensitive_features, **options)
    return float(np.nanmax(found.values))


def disparity_by_chance(
    criterion: str,
    y_true: Any,
    y_pred: Any,
    *,
    families: Families = "crossed",
    **rows: Any,
) -> float:
    """Return what chance explains of a disparity, without drawing: few fair tables exceed it.

    Where a row's label does not depend on its group, the difference of groups a and b in class k
    has the variance ``v_k sum_i w_i^2 (m_ia / T_a - m_ib / T_b)^2``, with v_k the variance of the
    class in the stratum, m the memberships and T the total weights. Differences are taken as
    normal, and the chances of all to be exceeded add up to 1 in 20.

    Parameters
    ----------
    criterion, y_true, y_pred, families
        As for :func:`disparity`.
    **rows
        Its ``sensitive_features``, ``control_features``, ``sample_weight``, ``classes`` and
        ``positive``.

    Returns
    -------
    float
        0 where nothing is compared, or nothing varies.

    Examples
    --------
    >>> y_true, y_pred = [0, 0, 1, 1] * 100, [0, 0, 0, 0, 1, 1, 1, 1] * 50
    >>> rows = {"sensitive_features": [0, 1] * 200}
    >>> [round(disparity_by_chance(name, y_true, y_pred, **rows), 3) for name in CRITERIA]
    [0.098, 0.158, 0.158, 0.158, 0.098]
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    table = read_predictions(criterion, y_true, y_pred, **rows)
    data = table.data
    sums, weights = sums_of(data)
    seconds, soft = sums, data.labels.matrix  # the square of a label that is 0 or 1 is the label
    if soft is not None:
        squared = replace(data.labels, matrix=soft.astype(np.float64) ** 2)
        seconds, _ = sums_of(replace(data, labels=squared))
    squares = None if data.weight is None else data.weight**2
    squares = np.bincount(data.cells.codes, squares, data.n_cells)
    errors = [
        _standard_errors(found, table.columns(found.stratum), seconds, squares)
        for family in families_of(data.cells, families)
        for found in family.compared(table.strata(), sums, weights)
        if len(found.present) > 1
    ]
    every = np.concatenate([*errors, np.zeros(1)])
    widest = float(every.max())
    if widest == 0:
        return 0.0
    # Standard errors are rounded up to a few values, so that any number of differences takes the
    # same time.
    rounded = np.ceil(every / widest * _STEPS).astype(np.intp)
    sizes, counts = np.unique(rounded[rounded > 0], return_counts=True)

    def too_often(largest: float) -> float:
        return float(2 * counts @ norm.sf(largest * _STEPS / sizes) - RARE)

    # A normal number never exceeds 38 standard errors, and no shares differ by more than 1.
    return min(1.0, widest * float(brentq(too_often, 0.0, 38.0)))


_STEPS = 64  # standard errors are told apart in so many steps


def _standard_errors(
    found: Comparison, columns: list[int], seconds: Array, squares: Array
) -> Array:
    """Compute the standard errors of all differences between groups under chance."""
    cells, share = found.cells, found.weights / found.weights.sum()
    predicted = [k for k in columns if k >= 0]  # what is never predicted does not vary
    middle = (share @ found.means)[predicted]
    second = seconds[cells].sum(axis=0)[predicted] / found.weights.sum()
    part = found.family.parts[cells]
    part = part[:, found.present] if part.ndim == 2 else part[:, None] == found.present
    part = part / found.weights
    gram = part.T @ (part * squares[cells, None])
    one, two = np.triu_indices(len(found.present), 1)
    pairs = np.maximum(gram[one, one] + gram[two, two] - 2 * gram[one, two], 0.0)
    return np.sqrt(np.outer(np.maximum(second - middle**2, 0.0), pairs)).ravel()


@dataclass(frozen=True, eq=False)
class PredictionTable:
    """Predictions and groups, with what a criterion compares.

    Attributes
    ----------
    criterion : Criterion
    data : Dataset
        Where the criterion tells true classes apart they are the last control feature. Where right
        predictions are compared, these are one of two classes.
    true_classes : ndarray of shape (C,)
        Empty where the criterion does not tell them apart.
    own : list of int
        For each true class the predicted class of the same name; -1 for one never predicted.
    positive : int or None
        The one true class that counts; None for all.
    outcomes : Outcomes or None
        What is compared; None for every class.
    add_up : bool
        Whether the shares of a row add up to 1; those of tags need not.
    """

    criterion: Criterion
    data: Dataset
    true_classes: Array
    own: list[int]
    positive: int | None = None
    outcomes: Outcomes | None = None
    add_up: bool = True

    def strata(self) -> list[Stratum]:
        """Return the parts of the table that groups are compared in."""
        found = strata_of(self.data.cells, self.criterion.rows)
        return [each for each in found if self.positive in (None, each.true_code)]

    def columns(self, stratum: Stratum) -> list[int]:
        """Return the predicted classes that count in a stratum.

        -1 stands for a class that is never predicted. Of two classes the second mirrors the
        first and is left out.
        """
        if self.criterion.of_class and stratum.true_code is not None:
            return [self.own[stratum.true_code]]
        mirrored = self.add_up and self.data.n_classes == 2
        return list(range(1 if mirrored else self.data.n_classes))


def read_predictions(
    criterion: str,
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    multilabel: bool = False,
    positive: Any = None,
    outcomes: OutcomeChoice | None = None,
) -> PredictionTable:
    """Read predictions with their groups, and the true classes where the criterion needs them.

    Tags take the place of predicted classes. Demographic parity also measures ``y_true`` alone.
    """
    asked = criterion_of(criterion)
    if y_pred is None and not asked.needs_truth:
        y_true, y_pred = None, y_true
    if asked.needs_truth:
        for given, problem, remedy in (
            (y_true is None, "y_true is not given", "Pass `y_true=`, the true class of every row."),
            (
                multilabel,
                "rows may have several tags",
                "Measure each tag on its own: pass its column, without `multilabel`.",
            ),
            (
                outcomes is not None,
                "outcomes are given",
                "Leave them out, or measure demographic parity.",
            ),
        ):
            if given:
                problem = f"{asked.title} looks at one true class of every row, and {problem}."
                raise ParameterError(problem, remedy=remedy, criterion=criterion)
    truth, true = None, None
    if y_true is not None:
        truth, found = recognise(y_true, what="y_true"), recognise(y_pred, what="y_pred")
        if len(truth.columns) > 1 and not multilabel:
            problem = f"has {len(truth.columns)} columns, but a row has one true class"
            remedy = "Pass one class per row; the order is (y_true, y_pred)."
            raise argument_error("y_true", problem, remedy, n_columns=len(truth.columns))
        refuse_other_rows(("y_true", len(truth), truth.index), ("y_pred", len(found), found.index))
        if not multilabel:
            true = read_vocabulary(truth.columns[0], what="y_true")
            refuse_decimals(true[1])
    names = [] if true is None else true[1].values.tolist()
    refuse_positive(positive, [asked], names)
    labels = (
        read_tags(y_pred).whole
        if multilabel
        else _read_predicted(y_pred, y_true if asked.needs_truth else None, classes)
    )
    own: list[int] = []
    if true is not None and asked.outcome != "every class":
        own = _own_places(true[1].values, labels.vocabulary.values)
        if asked.outcome == "right":
            labels = _right(labels, true[0], own)
    data = read(
        labels,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
    )
    if truth is not None:
        refuse_other_index(("y_true", truth.index), ("sensitive_features", data.index))
    if isinstance(outcomes, str) and outcomes == "ordinal" and classes is not None:
        outcomes = {outcomes: list(classes)}
    known = labels.vocabulary
    compared = read_outcomes(outcomes, known.values.tolist(), known)
    true_classes, place = np.empty(0), None
    if true is not None and asked.rows != "all":
        data = replace(data, cells=with_true_classes(data.cells, *true))
        true_classes = true[1].values
        place = None if positive is None else names.index(positive)
    return PredictionTable(asked, data, true_classes, own, place, compared, not multilabel)


def _right(labels: Labels, truth: Array, own: list[int]) -> Labels:
    """Return whether predictions are right, as labels of two classes."""
    place = np.array(own)[truth]
    names = Vocabulary(np.array(["right", "wrong"]))
    if labels.matrix is None:
        return Labels(names, codes=(labels.array != place).astype(np.uint8))
    chance = np.where(place < 0, 0.0, labels.matrix[np.arange(len(place)), place])
    return Labels(names, matrix=np.column_stack([chance, 1.0 - chance]))


def _by_class(
    criterion: str,
    y_true: Any,
    y_pred: Any,
    *,
    ratio: bool = False,
    families: Families = "crossed",
    method: Method = "between_groups",
    absent: Absent = "report",
    **rows: Any,
) -> DisparityByClass:
    """Return the largest difference of each class, or the smallest ratio of its shares."""
    one_of("absent", absent, Absent)
    one_of("method", method, Method)
    table = read_predictions(criterion, y_true, y_pred, **rows)
    data, true_classes = table.data, table.true_classes
    (sums, weights), predicted = sums_of(data), data.labels.vocabulary.values
    if table.outcomes is not None:
        sums, predicted = table.outcomes.shares(sums), np.array(table.outcomes.names)
    by_class, extreme = (ratio_by_class, np.fmin) if ratio else (disparity_by_class, np.fmax)
    # NaN for a true class whose rows no two groups have
    values = np.full((len(true_classes) or 1, sums.shape[1]), np.nan)
    missing: list[AbsentGroup] = []
    for family in families_of(data.cells, families):
        family.refuse_weightless(data.cells, weights)
        compared = False
        for found in family.compared(table.strata(), sums, weights):
            lacking = found.absent
            if lacking and absent == "error":
                more = f" ({len(lacking) - 1} more like it)" if len(lacking) > 1 else ""
                remedy = "Measure on more rows, or pass `absent='report'` to compare the others."
                first, facts = lacking[0], {"group": lacking[0].group, "absent": lacking}
                raise InputError(f"The group {first}{more}.", remedy=remedy, **facts)
            missing += lacking
            # of one group alone nothing differs, with strata or without
            if len(found.present) > 1 or len(family.groups) == 1:
                row, compared = found.stratum.true_code or 0, True
                values[row] = extreme(values[row], by_class(found.means, found.weights, method))
        if not compared:
            where = "true class" if len(true_classes) else "stratum"
            problem = f"No {where} has rows of two groups of the family {family.name!r}."
            remedy = "Measure on more rows, or with coarser groups, classes or control features."
            raise InputError(problem, remedy=remedy, family=family.name, absent=missing)
    if not len(true_classes):
        return DisparityByClass(frozen(values[0]), predicted, tuple(missing))
    if not table.criterion.of_class:
        return DisparityByClass(frozen(values), predicted, tuple(missing), true_classes)
    # a class that nobody is predicted to be of has the rate 0 everywhere; NaN stays NaN
    pairs = zip(values, table.own, strict=True)
    own = np.array([row[k] if k >= 0 else row[0] * 0.0 for row, k in pairs])
    chosen = slice(None) if table.positive is None else [table.positive]
    return DisparityByClass(frozen(own[chosen]), true_classes[chosen], tuple(missing))


def _own_places(true_classes: Array, classes: Array) -> list[int]:
    """Return which predicted class each true class is; refuse true classes of other names."""
    own = class_places(true_classes, classes)
    if max(own) < 0:
        raise InputError(
            f"None of the true classes {listed(true_classes)} is among the predicted ones "
            f"{listed(classes)}.",
            remedy="Name classes alike in `y_true` and `y_pred`. For columns without names pass "
            "`classes=`.",
            true_classes=true_classes.tolist(),
            classes=classes.tolist(),
        )
    return own


def _read_predicted(y_pred: Any, y_true: Any, classes: Any) -> Labels:
    """Read predictions.

    Columns without names are of the given classes, or of those of ``y_true`` where it is given.
    """
    found = recognise(y_pred, what="y_pred")
    if isinstance(found, Column) or len(found.columns) == 1:
        if classes is None:
            return read_labels(y_pred, normalize=False, fewest_classes=1)
        known = read_vocabulary(column_of(classes, what="classes"), what="classes")[1]
        return read_known_labels(y_pred, vocabulary=known, soft=False, normalize=False)
    labels = read_labels(y_pred, normalize=False, fewest_classes=1)
    if y_true is None and classes is None:
        return labels
    truth = found if y_true is None else column_of(y_true, what="y_true")
    named = Vocabulary(classes_of(found, truth, classes, "y_pred"))
    order = named.values.tolist()
    if classes is None and found.labels is None and sorted(order) != order:
        raise InputError(
            "The columns of y_pred have no names, and y_true has the classes "
            f"{listed(named.values)} in an order of its own.",
            remedy="Pass `classes=` with the class of every column, in order.",
            classes=order,
        )
    return replace(labels, vocabulary=named)
