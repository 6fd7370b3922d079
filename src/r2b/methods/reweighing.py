"""Reweighing (Kamiran and Calders): row weights make the label independent of the group.

It is the rival that needs no new labels, where the learner takes weights. It cannot give a group a
class that none of its rows has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import Floats, divided, plain_value
from r2b._data.merge import cell_sums
from r2b.methods.base import Learner, refuse_unfitted
from r2b.metrics.means import disparity_by_class


class UnreachableCell(NamedTuple):
    """A group without a single row (of positive weight) of a class that others have.

    Attributes
    ----------
    group, label : object
        Names of the group and the class.
    disparity : float
        The difference between groups that remains in this class under the weights of
        :class:`Reweighing`. No positive weights bring it to 0: the mean of the class is 0 in this
        group, and above 0 in another. Only leaving the class out everywhere would.
    """

    group: Any
    label: Any
    disparity: float


class Reweighing(Learner):
    """Weigh rows by ``P(s) P(y) / P(s, y)``: group and label are then independent.

    P is the weighted frequency; a row of probabilities counts for each class by its share.

    Where every group has every class, the weighted labels have demographic parity 0 to rounding,
    and the total weight of each group and of each class is kept. Where a (group, class) cell is
    empty, the weight it should have had is missing: ``unreachable_`` names the cell, ``parity_`` is
    what remains, and the group and the class weigh less than before.

    Attributes
    ----------
    schema_ : Schema
        Classes and groups that were fitted.
    factors_ : ndarray of shape (n_groups, n_classes)
        The factor of each cell. It is 1 where the cell is empty: of such rows nothing is known, and
        a later one keeps its weight.
    unreachable_ : tuple of UnreachableCell
        Cells that no weight can fix, in the order of groups and classes.
    parity_ : float
        Demographic parity, between groups, of the weighted labels that were fitted.

    Examples
    --------
    >>> y, sex = ["a", "b", "a", "a", "a", "b"], ["f", "f", "m", "m", "m", "m"]
    >>> Reweighing().fit_transform(y, sensitive_features=sex).round(3)
    array([1.333, 0.667, 0.889, 0.889, 0.889, 1.333])
    >>> Reweighing().fit(["a", "b", "a"], sensitive_features=["f", "f", "m"]).unreachable_
    (UnreachableCell(group='m', label='b', disparity=0.33...),)
    """

    def _learn(self, dataset: Dataset) -> None:
        _, joint = cell_sums(dataset.labels, dataset.cells, dataset.weight)
        by_group, by_class = joint.sum(axis=1), joint.sum(axis=0)
        expected = np.outer(by_group / by_group.sum(), by_class)
        self.factors_: Floats = divided(expected, joint, 1.0)
        left = self.factors_ * joint
        total = left.sum(axis=1)
        # A group whose rows weigh nothing was refused on reading, so that no total is 0.
        parity = disparity_by_class(left / total[:, None], total, "between_groups")
        self.parity_ = float(parity.max())
        groups, classes = dataset.cells.names, dataset.labels.vocabulary.values
        self.unreachable_ = tuple(
            UnreachableCell(plain_value(groups[s]), plain_value(classes[k]), float(parity[k]))
            for s, k in np.argwhere((joint == 0) & (expected > 0)).tolist()
        )

    def transform(
        self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False
    ) -> Floats:
        """Return the weights of rows of the fitted classes and groups.

        Parameters
        ----------
        y, sensitive_features, normalize
            As for ``fit``.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, which the factors multiply. Independence is exact for the rows and
            weights that were fitted.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            Class labels: the weight of each row. Probabilities: the weight of each (row, class)
            pair, ``weight * y[i, k] * factor``, for a table in which every row is repeated once per
            class with that class as its label. Such a matrix is not a new label, and its row sums
            alone do not make groups and labels independent.

        Raises
        ------
        RowsUnavailableError
            ``fit`` was not called.
        UnseenError
            A class or group was not fitted.

        Examples
        --------
        >>> rows, sex = [[0.5, 0.5], [1.0, 0.0]], ["f", "m"]
        >>> fitted = Reweighing().fit([[0.5, 0.5], [0.8, 0.2]], sensitive_features=sex)
        >>> fitted.transform(rows, sensitive_features=sex)
        array([[0.65  , 0.35  ],
               [0.8125, 0.    ]])
        """
        refuse_unfitted(self, "schema_", "labels")
        dataset = self.schema_.read(
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            normalize=normalize,
        )
        codes, groups, weight = dataset.labels.codes, dataset.cells.codes, dataset.weight
        if codes is not None:
            factors = self.factors_[groups, codes]
            return factors if weight is None else factors * weight
        factors = self.factors_[groups] * dataset.labels.array
        return factors if weight is None else factors * weight[:, None]

    def fit_transform(
        self, y: Any, *, sensitive_features: Any, sample_weight: Any = None, normalize: bool = False
    ) -> Floats:
        """Fit, and give the weights of the same rows."""
        known = {"sensitive_features": sensitive_features, "normalize": normalize}
        fitted = self.fit(y, sample_weight=sample_weight, **known)
        return fitted.transform(y, sample_weight=sample_weight, **known)
