"""Measures of multiclass demographic parity on labels or probabilities; they know no solver.

The arithmetic lives in :func:`means_of` (data to group means) and :func:`parity_by_class_of_means`
(group means to parity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from r2b._data import Dataset, Vocabulary, read
from r2b._data.arrays import Array, frozen, plain_value
from r2b._data.columns import (
    Column,
    argument_error,
    column_of,
    recognise,
    refuse_other_choice,
    refuse_other_index,
    refuse_other_rows,
    row_labels,
)
from r2b._data.dataset import refuse_lone_probabilities
from r2b._data.merge import class_weights
from r2b._data.probabilities import row_blocks
from r2b._data.vocabulary import read_vocabulary
from r2b._plot import Measure, measures, percent
from r2b._plot import group_means as draw_means
from r2b.errors import InputError
from r2b.metrics.comparisons import AbsentGroup, Families, families_of

Method = Literal["between_groups", "to_overall"]
Absent = Literal["report", "error"]


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """The mean label of every group.

    Attributes
    ----------
    means : ndarray of shape (R, L)
        Weighted mean of each class in each group; a row is NaN where its group has no weight.
    classes : ndarray of shape (L,)
    groups : ndarray of shape (R,)
    weights : ndarray of shape (R,)
        The total weight of each group.
    """

    means: Array
    classes: Array
    groups: Array
    weights: Array

    @property
    def overall(self) -> Array:
        """The weighted mean over all rows, of shape (L,)."""
        return overall_mean(self.means, self.weights)

    def plot(self, ax: Any = None) -> Any:
        """Draw the means on matplotlib Axes and give these back; groups without weight are left out."""
        there = np.flatnonzero(self.weights > 0)
        means = self.means[there]
        return draw_means(
            ax,
            "GroupMeans",
            ["Group means"],
            self.classes,
            self.groups[there].tolist(),
            {"": means},
            np.ptp(means, axis=0),
        )


@dataclass(frozen=True, eq=False)
class ParityByClass:
    """The parity of every class.

    Attributes
    ----------
    values : ndarray of shape (L,)
        NaN for a class whose rows no two groups have, which only rates among true classes can be.
    classes : ndarray of shape (L,)
    absent : tuple of AbsentGroup
        The groups that a stratum of the control features, or a true class, lacks: they were not
        compared there.
    """

    values: Array
    classes: Array
    absent: tuple[AbsentGroup, ...] = ()

    def as_dict(self) -> dict[Any, float]:
        """Give the parity by class name."""
        return {
            plain_value(name): float(value)
            for name, value in zip(self.classes, self.values, strict=True)
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the parity of every class, of many the largest, on matplotlib Axes and give these back; classes without one are left out."""
        found = [
            Measure(name, value, beside=percent(value))
            for name, value in self.as_dict().items()
            if not np.isnan(value)
        ]
        return measures(ax, "ParityByClass", ["Parity by class"], "parity", found)


def demographic_parity(
    y: Any,
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: Families = "crossed",
    sample_weight: Any = None,
    method: Method = "between_groups",
    absent: Absent = "report",
) -> float:
    """Give the multiclass demographic parity of labels, equation (2) of the paper: 0 is fair, 1 the farthest from it.

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
    method : {"between_groups", "to_overall"}
        The largest difference over the classes between the means of two groups, or between the mean
        of a group and of all rows.
    absent : {"report", "error"}
        Groups that a stratum lacks are not compared there, and named by
        :func:`demographic_parity_by_class`; or refused by name.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        The method is not one of the two, or a family names a column that is not there.
    InputError
        The data cannot be used as they are.

    Examples
    --------
    >>> demographic_parity(["no", "yes", "no", "no"], sensitive_features=["f", "f", "m", "m"])
    0.5

    Of predictions, in the way that scorers call it:

    >>> demographic_parity(["no", "no", "no", "yes"], ["no", "yes", "no", "no"], sensitive_features=["f", "f", "m", "m"])
    0.5
    """
    rows = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    parity = demographic_parity_by_class(
        y, y_pred, **rows, families=families, method=method, absent=absent
    )
    return float(np.nanmax(parity.values))


def demographic_parity_by_class(
    y: Any,
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    families: Families = "crossed",
    sample_weight: Any = None,
    method: Method = "between_groups",
    absent: Absent = "report",
) -> ParityByClass:
    """Give the demographic parity of each class on its own.

    Parameters
    ----------
    y, y_pred, sensitive_features, control_features, families, sample_weight, method, absent
        As for :func:`demographic_parity`, which is the largest of these values.

    Returns
    -------
    ParityByClass

    Examples
    --------
    >>> demographic_parity_by_class(["no", "yes", "no", "no"], sensitive_features=["f", "f", "m", "m"]).as_dict()
    {'no': 0.5, 'yes': 0.5}
    """
    if y_pred is not None:
        read_true_classes(y, y_pred)
    data = read(
        y if y_pred is None else y_pred,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        fewest_classes=1,
        weightless="allow",
    )
    if y_pred is not None:
        refuse_other_index(("y_true", row_labels(y)), ("sensitive_features", data.index))
    values, missing = largest_differences(data, families, method, absent)
    return ParityByClass(values[0], data.labels.vocabulary.values, missing)


def read_true_classes(y_true: Any, y_pred: Any) -> tuple[Array, Vocabulary]:
    """Read true classes beside predictions: their codes and their names.

    Raises
    ------
    ShapeError
        They are probabilities, as where the two arguments come in the wrong order.
    InputError
    """
    truth, found = recognise(y_true, what="y_true"), recognise(y_pred, what="y_pred")
    if not isinstance(truth, Column) and len(truth.columns) > 1:
        problem = f"has {len(truth.columns)} columns, but a row has one true class"
        raise argument_error(
            "y_true",
            problem,
            "Pass one class per row; the order is (y_true, y_pred).",
            n_columns=len(truth.columns),
        )
    refuse_other_rows(("y_true", len(truth), truth.index), ("y_pred", len(found), found.index))
    codes, classes = read_vocabulary(column_of(y_true, what="y_true"), what="y_true")
    refuse_lone_probabilities(classes)
    return codes, classes


def largest_differences(
    data: Dataset, families: Families, method: Method, absent: Absent, n_true: int = 0
) -> tuple[Array, tuple[AbsentGroup, ...]]:
    """Give the largest parity over families and strata, by class, and the groups that could not be compared.

    Parameters
    ----------
    data : Dataset
    families, method, absent
        As for :func:`demographic_parity`.
    n_true : int
        The number of true classes where they are the last control feature.

    Returns
    -------
    ndarray of shape (n_true or 1, L)
        NaN for a true class whose rows no two groups have.
    tuple of AbsentGroup
    """
    refuse_other_choice("absent", absent, get_args(Absent))
    refuse_other_choice("method", method, get_args(Method))
    means, weights = means_of(data)
    values, missing = np.full((n_true or 1, data.n_classes), np.nan), []
    for family in families_of(data.cells, families):
        family.refuse_weightless(data.cells, weights)
        compared = False
        for found in family.compared(data.cells, means, weights):
            lacking = family.absent(found, data.cells, n_true > 0)
            if lacking and absent == "error":
                raise absent_error(lacking)
            missing += lacking
            # of one group alone nothing differs, with strata or without
            if len(found.present) > 1 or len(family.groups) == 1:
                row, compared = found.stratum[-1] if n_true else 0, True
                values[row] = np.fmax(
                    values[row], parity_by_class_of_means(found.means, found.weights, method)
                )
        if not compared:
            problem = f"No {'true class' if n_true else 'stratum'} has rows of two groups of the family {family.name!r}."
            remedy = "Measure on more rows, or with coarser groups, classes or control features."
            raise InputError(problem, remedy=remedy, family=family.name, absent=missing)
    return frozen(values), tuple(missing)


def absent_error(lacking: list[AbsentGroup]) -> InputError:
    """Say which groups cannot be compared."""
    more = f" ({len(lacking) - 1} more like it)" if len(lacking) > 1 else ""
    remedy = "Measure on more rows, or pass absent='report' to compare the groups that are there."
    return InputError(
        f"The group {lacking[0]}{more}.", remedy=remedy, group=lacking[0].group, absent=lacking
    )


def group_means(y: Any, *, sensitive_features: Any, sample_weight: Any = None) -> GroupMeans:
    """Give the weighted mean label of every group.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`demographic_parity`; attributes of categories, crossed.

    Returns
    -------
    GroupMeans

    Examples
    --------
    >>> found = group_means(["no", "yes", "no", "no"], sensitive_features=["f", "f", "m", "m"])
    >>> found.means
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    data = table_to_measure(y, sensitive_features, sample_weight)
    means, weights = means_of(data)
    return GroupMeans(
        frozen(means), data.labels.vocabulary.values, data.cells.names, frozen(weights)
    )


def table_to_measure(y: Any, sensitive_features: Any, sample_weight: Any) -> Dataset:
    """Read a table to measure: a prediction of one class everywhere is perfectly fair and worth measuring, although nothing is to solve."""
    return read(
        y,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        categorical_only=True,
        fewest_classes=1,
    )


def means_of(dataset: Dataset) -> tuple[Array, Array]:
    """Give the weighted mean label and the total weight of every group.

    Sums are taken block by block in the order of the rows, so that the same data give the same
    bits.

    Parameters
    ----------
    dataset : Dataset

    Returns
    -------
    means : ndarray of shape (R, L)
        NaN for a group without weight, which only data read with a fitted schema can have.
    weights : ndarray of shape (R,)

    Examples
    --------
    >>> from r2b._data import read
    >>> means_of(read([0, 1, 1], sensitive_features=["a", "a", "b"]))
    (array([[0.5, 0.5],
           [0. , 1. ]]), array([2., 1.]))
    """
    if dataset.labels.matrix is None:
        sums = class_weights(dataset)
        weights = sums.sum(axis=1)
    else:
        sums = _sums_of_matrix(dataset)
        weights = np.bincount(
            dataset.cells.codes, weights=dataset.weight, minlength=dataset.n_cells
        ).astype(np.float64)
    return divided(sums, weights[:, None]), weights


def divided(sums: Array, weights: Array) -> Array:
    """Divide sums by weights; NaN where there is no weight."""
    result = np.full(np.broadcast_shapes(sums.shape, weights.shape), np.nan)
    np.divide(sums, weights, out=result, where=weights > 0)
    return result


def _sums_of_matrix(dataset: Dataset) -> Array:
    matrix, groups, weight = dataset.labels.array, dataset.cells.codes, dataset.weight
    sums = np.zeros((dataset.n_cells, dataset.n_classes))
    for rows in row_blocks(matrix):
        # Rows of a group are brought together, then added: no product with a table of rows x
        # groups, which is mostly zeros.
        order = np.argsort(groups[rows], kind="stable")
        here = groups[rows][order]
        starts = np.flatnonzero(np.concatenate(([True], here[1:] != here[:-1])))
        block = matrix[rows].astype(np.float64)[order]
        if weight is not None:
            block *= weight[rows][order, None]
        sums[here[starts]] += np.add.reduceat(block, starts, axis=0)
    return sums


def overall_mean(means: Array, weights: Array) -> Array:
    """Give the weighted mean over all groups that have weight.

    Examples
    --------
    >>> overall_mean(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    array([0.75, 0.25])
    """
    there = weights > 0
    return np.asarray(weights[there] @ means[there] / weights[there].sum())


def parity_by_class_of_means(
    means: Array, weights: Array, method: Method = "between_groups"
) -> Array:
    """Give the parity of each class from the group means; groups without weight do not count.

    Parameters
    ----------
    means : ndarray of shape (R, L)
    weights : ndarray of shape (R,)
    method : {"between_groups", "to_overall"}

    Returns
    -------
    ndarray of shape (L,)

    Examples
    --------
    >>> means, weights = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0])
    >>> parity_by_class_of_means(means, weights), parity_by_class_of_means(means, weights, "to_overall")
    (array([1., 1.]), array([0.75, 0.75]))
    """
    refuse_other_choice("method", method, get_args(Method))
    there = np.asarray(means)[np.asarray(weights) > 0]
    if method == "between_groups":
        return np.asarray(there.max(axis=0) - there.min(axis=0))
    return np.asarray(np.abs(there - overall_mean(means, weights)).max(axis=0))


def parity_of_means(means: Array, weights: Array, method: Method = "between_groups") -> float:
    """Give the multiclass parity, the largest over the classes, from the group means.

    Examples
    --------
    >>> parity_of_means(np.array([[0.5, 0.5], [0.25, 0.75]]), np.ones(2))
    0.25
    """
    return float(parity_by_class_of_means(means, weights, method).max())
