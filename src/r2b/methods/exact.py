"""The yardsticks: the exact optimum of the paper's problem, and labels left as they are."""

from __future__ import annotations

import numpy as np

from r2b._constraints.epsilon import Epsilon
from r2b._constraints.families import Request
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._labels.debiasing import Settings
from r2b._labels.task import Task
from r2b._solve.oracle import respond
from r2b._solve.solvers import TOLERANCE, Status
from r2b.methods.base import LabelMethod, at_least


class Exact(LabelMethod):
    """The optimum of :func:`r2b.debias`, under the interface of its rivals.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups.
    lam : float
        Weight of the squared labels, above 0; 1 is the squared distance.
    tol : float
        Residual, in units of group means, below which the problem is solved.
    max_iter : int
        Most steps.

    Attributes
    ----------
    prices_ : ndarray of shape (n_groups, n_classes)
    status_ : Status
        A run that is not solved also ends with a ``NotSolvedWarning``.

    Examples
    --------
    >>> y, sex = ["a", "b", "a", "a"], ["f", "f", "m", "m"]
    >>> Exact().fit_transform(y, sensitive_features=sex).round(3)
    array([[1.   , 0.   ],
           [0.333, 0.667],
           [0.667, 0.333],
           [0.667, 0.333]])
    """

    def __init__(
        self,
        epsilon: Epsilon = 0.0,
        *,
        lam: float = 1.0,
        tol: float = TOLERANCE,
        max_iter: int = 1000,
    ) -> None:
        self.epsilon = epsilon
        self.lam = lam
        self.tol = tol
        self.max_iter = at_least("max_iter", max_iter, 1, integer=True)

    def _learn(self, dataset: Dataset) -> None:
        settings = Settings(lam=self.lam, tol=self.tol, max_iter=self.max_iter)
        fair = Task.of(dataset, Request(epsilon=self.epsilon), settings).solve()
        self.prices_: Floats = fair.prices
        self.status_: Status = fair.status

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        return respond(labels, groups, self.prices_, self.lam)


class Unchanged(LabelMethod):
    """Labels as they are: the baseline that every method is measured against.

    It has no parameters and learns nothing but the names of classes and groups.

    Examples
    --------
    >>> Unchanged().fit_transform(["a", "b"], sensitive_features=[0, 1])
    array([[1., 0.],
           [0., 1.]])
    """

    def _learn(self, dataset: Dataset) -> None:
        pass

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        return np.array(labels, dtype=np.float64)
