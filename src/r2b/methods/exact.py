"""The yardsticks: the exact optimum of the paper's problem, and labels left as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from r2b.merge import Rows
from r2b.methods.base import Array, Floats, LabelMethod
from r2b.oracle import MemoryOracle, respond
from r2b.parity import Parity, RangeBound
from r2b.problem import Problem
from r2b.solvers import Status, solve


class Exact(LabelMethod):
    """The optimum, as :func:`r2b.debias` finds it; there with a certificate, here under the interface of its rivals.

    Parameters
    ----------
    epsilon : float or array-like of shape (n_classes,)
    lam : float

    Attributes
    ----------
    prices_ : ndarray of shape (n_groups, n_classes)
    status_ : Status

    Examples
    --------
    >>> Exact().fit_transform(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"]).round(3)
    array([[1.   , 0.   ],
           [0.333, 0.667],
           [0.667, 0.333],
           [0.667, 0.333]])
    """

    name = "exact"

    def __init__(self, epsilon: float | ArrayLike = 0.0, lam: float = 1.0) -> None:
        self.epsilon = epsilon
        self.lam = lam

    def _learn(self, rows: Rows) -> None:
        parity = Parity.of_groups(RangeBound.of(self.epsilon, rows.n_classes), rows.group_weight)
        problem = Problem(rows, parity, self.lam)
        oracle = MemoryOracle(rows)
        outcome = solve(problem, oracle, samples=oracle.samples())
        self.prices_: Floats = outcome.prices
        self.status_: Status = outcome.status

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        return respond(labels, groups, self.prices_, self.lam)


class Unchanged(LabelMethod):
    """Labels as they are: the baseline that every method is measured against.

    Examples
    --------
    >>> Unchanged().fit_transform(["a", "b"], sensitive_features=[0, 1])
    array([[1., 0.],
           [0., 1.]])
    """

    name = "none"

    def _learn(self, rows: Rows) -> None:
        pass

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        return np.array(labels, dtype=np.float64)
