"""The yardsticks: the exact optimum of the paper's problem, and labels left as they are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from r2b._constraints.parity import Parity, RangeBound
from r2b._data.merge import Rows
from r2b._solve.certificate import Problem
from r2b._solve.oracle import MemoryOracle, respond
from r2b._solve.solvers import Limits, Status, solve
from r2b.errors import NotSolvedWarning
from r2b.methods.base import Array, Floats, LabelMethod
from r2b.methods.rto import at_least


class Exact(LabelMethod):
    """The optimum, as :func:`r2b.debias` finds it; there with a certificate, here under the interface of its rivals.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups.
    lam : float
        Weight of the squared labels, above 0; 1 is the squared distance.
    tol : float
        Residual, in units of group means, below which the problem is solved.
    max_iter : int

    Attributes
    ----------
    prices_ : ndarray of shape (n_groups, n_classes)
    status_ : Status
        A run that is not solved also ends with a ``NotSolvedWarning``.

    Examples
    --------
    >>> Exact().fit_transform(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"]).round(3)
    array([[1.   , 0.   ],
           [0.333, 0.667],
           [0.667, 0.333],
           [0.667, 0.333]])
    """

    name = "exact"

    def __init__(
        self, epsilon: float | ArrayLike | Mapping[Any, float] = 0.0, *, lam: float = 1.0, tol: float = 1e-10, max_iter: int = 1000
    ) -> None:
        self.epsilon = epsilon
        self.lam = lam
        self.tol = float(at_least("tol", tol, 0.0))
        self.max_iter = int(at_least("max_iter", max_iter, 1, integer=True))

    def _learn(self, rows: Rows) -> None:
        parity = Parity.of_groups(RangeBound.of(self.epsilon, rows.n_classes, rows.class_names, largest=1.0), rows.group_weight)
        problem = Problem(rows, parity, self.lam)
        oracle = MemoryOracle(rows)
        outcome = solve(problem, oracle, samples=oracle.samples(), tol=self.tol, limits=Limits(self.max_iter))
        self.prices_: Floats = outcome.prices
        self.status_: Status = outcome.status
        if not self.status_.ok:
            message = f"{self.status_.value}: residual {outcome.residual:.1e}. {self.status_.advice}"
            warnings.warn(NotSolvedWarning(message), stacklevel=3)

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

    name = "none"

    def _learn(self, rows: Rows) -> None:
        pass

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        return np.array(labels, dtype=np.float64)
