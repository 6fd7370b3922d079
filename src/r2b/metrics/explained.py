"""The share of each class's variance that a continuous attribute explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._data.arrays import Array, Floats, divided, frozen
from r2b._data.basis import Basis, Choice, fit_basis
from r2b._data.cells import Cells
from r2b._data.columns import column_of, refuse_other_rows
from r2b._data.dataset import WHAT as LABELS
from r2b._data.dataset import Dataset, combine, read_labels
from r2b._data.numbers import read_continuous
from r2b.metrics.means import by_name, means_of

WHAT = "attribute"


@dataclass(frozen=True, eq=False)
class Explained:
    """The share of the variance of each class that an attribute explains.

    Attributes
    ----------
    by_class : ndarray of shape (L,)
        From 0 (no function of the basis is correlated with the class) to 1 (the attribute decides
        it). A class without variance has 0.
    classes : ndarray of shape (L,)
    basis : Basis
        The functions of the attribute that were looked at.
    """

    by_class: Floats
    classes: Array
    basis: Basis

    @property
    def largest(self) -> float:
        """The largest share over the classes."""
        return float(self.by_class.max())

    def as_dict(self) -> dict[Any, float]:
        """Return the share by class name."""
        return by_name(self.classes, self.by_class)


def explained_variation(
    y: Any,
    attribute: Any,
    *,
    sample_weight: Any = None,
    basis: Choice = "spline",
    knots: int | ArrayLike = 5,
) -> Explained:
    """Return the share of each class's variance that a continuous attribute explains.

    For class labels this is the R squared of a weighted regression of the class's indicator on the
    basis. For probabilities it is that of labels drawn from the rows, in expectation over a large
    sample: flat rows do not make it smaller.

    Parameters
    ----------
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes.
    attribute : array-like of shape (N,)
        Numbers.
    sample_weight : array-like of shape (N,), optional
        Rows of weight 0 do not count.
    basis : {"linear", "spline"}, callable or sequence of callables
        The functions of the attribute that are looked at, as for :class:`r2b.Continuous`.
    knots : int or array-like, default 5
        How many knots the spline of the attribute has, or where they are.

    Returns
    -------
    Explained

    Raises
    ------
    InputError
        The data cannot be used as they are, or the attribute is not numeric or has one value only.
    ParameterError
        The basis or its knots cannot be used.

    See Also
    --------
    r2b.metrics.group_means : The shares of every group.

    Examples
    --------
    >>> age = [20, 30, 40, 50, 60, 70]
    >>> y = ["no", "no", "yes", "no", "yes", "yes"]
    >>> found = explained_variation(y, {"age": age}, basis="linear")
    >>> found.as_dict(), found.basis.names
    ({'no': 0.466..., 'yes': 0.466...}, ('age, linear',))
    """
    data = _read_beside(y, attribute, sample_weight)
    means, weights = means_of(data)
    there = weights > 0
    values, means, weights = data.cells.vocabularies[0].values[there], means[there], weights[there]
    fitted = fit_basis(values, weights, basis=basis, knots=knots, name=data.cells.columns[0])
    share = weights / weights.sum()
    overall = share @ means
    # The functions have mean 0, so that subtracting a constant changes nothing but the rounding.
    moments = (share[:, None] * fitted.evaluate(values)).T @ (means - overall)
    return Explained(
        frozen(explained_of_moments(moments, overall)), data.labels.vocabulary.values, fitted
    )


def explained_of_moments(moments: Floats, means: Floats) -> Floats:
    """Return the share of each class's variance that is explained, from known moments.

    It is ``sum_j M_jk^2 / (m_k (1 - m_k))``. The denominator is the variance of a label drawn from
    the rows, not that of the probabilities, which shrinks as rows become flatter. For moments of
    distributions the share is at most 1.

    Parameters
    ----------
    moments : ndarray of shape (J, L)
        Weighted means of ``b_j(s_i) y_ik``, the b_j centred and orthonormal on these rows
        (:meth:`r2b._data.basis.Basis.evaluate`).
    means : ndarray of shape (L,)
        Weighted mean of each class, m_k.

    Returns
    -------
    ndarray of shape (L,)

    Examples
    --------
    >>> explained_of_moments(np.array([[0.3, -0.3]]), np.array([0.5, 0.5]))
    array([0.36, 0.36])
    """
    spread = np.sqrt(np.maximum(means * (1 - means), 0))
    # Divided before squaring: the square of the moment of a rare class can be too small for a
    # float.
    return np.asarray((divided(moments, spread) ** 2).sum(axis=0))


def _read_beside(y: Any, attribute: Any, sample_weight: Any) -> Dataset:
    """Read labels, one attribute and weights; a value may be left without weight."""
    labels = read_labels(y, normalize=False, fewest_classes=1)
    column = column_of(attribute, what=WHAT)
    refuse_other_rows(
        (LABELS, labels.n_rows, labels.vocabulary.index), (WHAT, len(column), column.index)
    )
    what = f"column {column.name!r} of {WHAT}" if column.name else WHAT
    codes, vocabulary = read_continuous(column, what=what)
    groups = Cells((column.name,), (vocabulary,), np.arange(len(vocabulary))[:, None], codes=codes)
    return combine(labels, groups, sample_weight)
