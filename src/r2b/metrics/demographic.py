"""Measures of multiclass demographic parity on labels or probabilities; they know no solver.

The arithmetic lives in :func:`means_of` (data to group means) and :func:`parity_by_class_of_means` (group means to parity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from r2b._data import Dataset, read
from r2b._data.arrays import Array, frozen, plain_value
from r2b._data.columns import refuse_other_choice
from r2b._data.merge import class_weights
from r2b._data.probabilities import row_blocks

Method = Literal["between_groups", "to_overall"]


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


@dataclass(frozen=True, eq=False)
class ParityByClass:
    """The parity of every class.

    Attributes
    ----------
    values : ndarray of shape (L,)
    classes : ndarray of shape (L,)
    """

    values: Array
    classes: Array

    def as_dict(self) -> dict[Any, float]:
        """Give the parity by class name."""
        return {plain_value(name): float(value) for name, value in zip(self.classes, self.values, strict=True)}


def demographic_parity(y: Any, *, sensitive_features: Any, sample_weight: Any = None, method: Method = "between_groups") -> float:
    """Give the multiclass demographic parity of labels, eq. (2) of the paper: 0 is fair, 1 the farthest from it.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        Several attributes are crossed.
    sample_weight : array-like of shape (N,), optional
    method : {"between_groups", "to_overall"}
        The largest difference over the classes between the means of two groups, or between the mean of a group and of all rows.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        The method is not one of the two.
    InputError
        The data cannot be used as they are.

    Examples
    --------
    >>> demographic_parity(["no", "yes", "no", "no"], sensitive_features=["f", "f", "m", "m"])
    0.5
    """
    parity = demographic_parity_by_class(y, sensitive_features=sensitive_features, sample_weight=sample_weight, method=method)
    return float(parity.values.max())


def demographic_parity_by_class(
    y: Any, *, sensitive_features: Any, sample_weight: Any = None, method: Method = "between_groups"
) -> ParityByClass:
    """Give the demographic parity of each class on its own.

    Parameters
    ----------
    y, sensitive_features, sample_weight, method
        As for :func:`demographic_parity`, which is the largest of these values.

    Returns
    -------
    ParityByClass

    Examples
    --------
    >>> demographic_parity_by_class(["no", "yes", "no", "no"], sensitive_features=["f", "f", "m", "m"]).as_dict()
    {'no': 0.5, 'yes': 0.5}
    """
    found = group_means(y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    return ParityByClass(parity_by_class_of_means(found.means, found.weights, method), found.classes)


def group_means(y: Any, *, sensitive_features: Any, sample_weight: Any = None) -> GroupMeans:
    """Give the weighted mean label of every group.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`demographic_parity`.

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
    return GroupMeans(frozen(means), data.labels.vocabulary.values, data.groups.names, frozen(weights))


def table_to_measure(y: Any, sensitive_features: Any, sample_weight: Any) -> Dataset:
    """Read a table to measure: a prediction of one class everywhere is perfectly fair and worth measuring, although nothing is to solve."""
    return read(y, sensitive_features=sensitive_features, sample_weight=sample_weight, categorical_only=True, fewest_classes=1)


def means_of(dataset: Dataset) -> tuple[Array, Array]:
    """Give the weighted mean label and the total weight of every group.

    Sums are taken block by block in the order of the rows, so that the same data give the same bits.

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
        weights = np.bincount(dataset.groups.codes, weights=dataset.weight, minlength=dataset.n_groups).astype(np.float64)
    return divided(sums, weights[:, None]), weights


def divided(sums: Array, weights: Array) -> Array:
    """Divide sums by weights; NaN where there is no weight."""
    result = np.full(np.broadcast_shapes(sums.shape, weights.shape), np.nan)
    np.divide(sums, weights, out=result, where=weights > 0)
    return result


def _sums_of_matrix(dataset: Dataset) -> Array:
    matrix, groups, weight = dataset.labels.array, dataset.groups.codes, dataset.weight
    sums = np.zeros((dataset.n_groups, dataset.n_classes))
    for rows in row_blocks(matrix):
        # Rows of a group are brought together, then added: no product with a table of rows x groups, which is mostly zeros.
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


def parity_by_class_of_means(means: Array, weights: Array, method: Method = "between_groups") -> Array:
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
