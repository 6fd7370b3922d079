"""Means of groups, and how far they are apart. No solver is used here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from r2b._data import Dataset, read
from r2b._data.arrays import Array, divided, frozen, plain_value
from r2b._data.merge import cell_sums, class_weights
from r2b._plot import group_means as draw_means

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

    def plot(self, ax: Any = None) -> Any:
        """Draw the means on matplotlib Axes; groups without weight are left out."""
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


def group_means(y: Any, *, sensitive_features: Any, sample_weight: Any = None) -> GroupMeans:
    """Return the weighted mean label of every group.

    Parameters
    ----------
    y, sensitive_features, sample_weight
        As for :func:`r2b.metrics.demographic_parity_difference`; attributes of categories, crossed.

    Returns
    -------
    GroupMeans

    See Also
    --------
    r2b.metrics.demographic_parity_difference : The largest difference in shares.

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
    """Read a table to measure, which may have only one class: nothing is solved."""
    return read(
        y,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        categorical_only=True,
        fewest_classes=1,
    )


def means_of(dataset: Dataset) -> tuple[Array, Array]:
    """Return the weighted mean label and the total weight of every group.

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
    sums, weights = sums_of(dataset)
    return divided(sums, weights[:, None], np.nan), weights


def sums_of(dataset: Dataset) -> tuple[Array, Array]:
    """Return the weighted sum of the labels and the total weight of every group.

    Rows are added in their order, so that the same data give the same bits.
    """
    if dataset.labels.is_soft:
        weights, sums = cell_sums(dataset.labels, dataset.cells, dataset.weight)
        return sums, weights
    sums = class_weights(dataset)
    return sums, sums.sum(axis=1)


def by_name(names: Array, values: Array) -> dict[Any, float]:
    """Return numbers by the names of classes or groups.

    Examples
    --------
    >>> by_name(np.array(["f", "m"]), np.array([0.5, 0.25]))
    {'f': 0.5, 'm': 0.25}
    """
    return dict(zip(map(plain_value, names), values.tolist(), strict=True))


def overall_mean(means: Array, weights: Array) -> Array:
    """Return the weighted mean over all groups that have weight.

    Examples
    --------
    >>> overall_mean(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    array([0.75, 0.25])
    """
    there = weights > 0
    return np.asarray(weights[there] @ means[there] / weights[there].sum())


def disparity_by_class(means: Array, weights: Array, method: Method = "between_groups") -> Array:
    """Return the disparity of each class; groups without weight do not count.

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
    >>> disparity_by_class(means, weights), disparity_by_class(means, weights, "to_overall")
    (array([1., 1.]), array([0.75, 0.75]))
    """
    there = means[weights > 0]
    if method == "between_groups":
        return np.asarray(there.max(axis=0) - there.min(axis=0))
    return np.asarray(np.abs(there - overall_mean(means, weights)).max(axis=0))


def ratio_by_class(means: Array, weights: Array, method: Method = "between_groups") -> Array:
    """Return the smallest ratio of two shares of each class; 1 for a class that no group has.

    Examples
    --------
    >>> means, weights = np.array([[0.5, 0.5], [0.25, 0.75]]), np.ones(2)
    >>> ratio_by_class(means, weights), ratio_by_class(means, weights, "to_overall")
    (array([0.5       , 0.66666667]), array([0.66666667, 0.8       ]))
    """
    there = means[weights > 0]
    if method == "between_groups":
        small, large = there.min(axis=0), there.max(axis=0)
    else:
        overall = overall_mean(means, weights)
        small, large = np.minimum(there, overall), np.maximum(there, overall)
    return np.asarray(np.atleast_2d(divided(small, large, 1.0)).min(axis=0))


def disparity_of_means(means: Array, weights: Array) -> float:
    """Return the largest disparity over the classes.

    Examples
    --------
    >>> disparity_of_means(np.array([[0.5, 0.5], [0.25, 0.75]]), np.ones(2))
    0.25
    """
    return float(disparity_by_class(means, weights).max())
