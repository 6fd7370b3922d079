"""The randomised threshold optimiser (RTO), and the baseline that applies it by class: HTO.

RTO minimises ``sum_i w_i (gamma/2 h_i^2 - f_i h_i)`` over ``0 <= h <= 1`` with ``|m_s - rho| <=
epsilon / 2`` for the mean m_s of each group s.
"""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np

from r2b._constraints.epsilon import Epsilon, epsilon_per_class
from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.cells import Cells, read_cells, read_known_cells
from r2b._data.columns import column_of
from r2b.errors import ProbabilityError
from r2b.methods.base import (
    LabelMethod,
    at_least,
    read_numbers,
    read_weight_beside,
    refuse_unfitted,
)
from r2b.methods.binary import (
    GroupedRows,
    answer,
    divided_by_sums,
    grouped_labels,
    pinned_thresholds,
)

ScoreRange = Literal["unit", "signed"]


class RTO:
    """The randomised threshold optimiser on binary scores.

    It returns probabilities of predicting 1 whose group means lie within epsilon / 2 of rho.

    Parameters
    ----------
    epsilon : float
        Largest accepted difference between group means.
    gamma : float
        Width of the band of scores in which the answer is random. Small values come close to one
        hard threshold per group.
    rho : float, optional
        The mean aimed at, in [0, 1]; by default that of the scores: E[f] of unit scores, E[f] / 2 +
        1 / 2 of signed ones.
    score_range : {"unit", "signed"}
        Labels or probabilities in [0, 1] (pre-processing), or ``2 * probability - 1`` in [-1, 1]
        (post-processing, where the largest expected accuracy is sought). Never guessed from the
        data: a signed score may happen to have no negative value.

    Attributes
    ----------
    rho_ : float
        The mean aimed at.
    thresholds_ : ndarray of shape (n_groups,)
        What is subtracted from the scores of each group.
    groups_ : ndarray of shape (n_groups,)
        The names of the fitted groups.

    Notes
    -----
    Thresholds are found exactly, from sorted breakpoints. The published procedure descends to them
    by steps of at most gamma, and may end far away where no score lies within gamma of one.

    Examples
    --------
    >>> rto = RTO().fit([1.0, 1.0, 1.0, 0.0], sensitive_features=["a", "a", "b", "b"])
    >>> rto.predict_proba([1.0, 0.0, 1.0, 0.0], sensitive_features=["a", "a", "b", "b"])
    array([0.75, 0.  , 1.  , 0.5 ])
    """

    def __init__(
        self,
        epsilon: float = 0.0,
        *,
        gamma: float = 1.0,
        rho: float | None = None,
        score_range: ScoreRange = "unit",
    ) -> None:
        self.epsilon = float(epsilon_per_class(epsilon, range(1), largest=1.0)[0])
        self.gamma = float(at_least("gamma", gamma, 0.0, above=True))
        self.rho = None if rho is None else float(at_least("rho", rho, 0, most=1))
        one_of("score_range", score_range, get_args(ScoreRange))
        self.score_range = score_range

    def fit(self, scores: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Self:
        """Find one threshold per group; whatever an earlier fit left behind is gone.

        Parameters
        ----------
        scores : array-like of shape (N,)
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
        sample_weight : array-like of shape (N,), optional

        Raises
        ------
        InputError
            One of its subclasses, naming the column, the row and the value.
        """
        groups = read_cells(sensitive_features)
        f, weight = self._read(scores, groups, sample_weight)
        rows = GroupedRows.of(groups.codes, weight, groups.n_cells)
        column = f[rows.order, None]
        mean = float(rows.overall(column)[0])
        default = mean if self.score_range == "unit" else mean / 2 + 0.5
        self.rho_ = min(max(default if self.rho is None else self.rho, 0.0), 1.0)
        self.thresholds_: Floats = pinned_thresholds(
            rows, column, self.gamma, np.array([self.rho_]), np.array([self.epsilon])
        )[:, 0]
        self._groups, self.groups_ = groups, groups.names
        return self

    def predict_proba(self, scores: Any, *, sensitive_features: Any) -> Floats:
        """Return the probability of predicting 1, of shape (N,), of scores of the fitted groups."""
        refuse_unfitted(self, "thresholds_", "scores")
        groups = read_known_cells(sensitive_features, fitted=self._groups)
        return answer(self._read(scores, groups)[0], self.thresholds_[groups.codes], self.gamma)

    def transform(self, scores: Any, *, sensitive_features: Any) -> Floats:
        """Return the new scores: the same as :meth:`predict_proba`."""
        return self.predict_proba(scores, sensitive_features=sensitive_features)

    def fit_transform(
        self, scores: Any, *, sensitive_features: Any, sample_weight: Any = None
    ) -> Floats:
        """Fit, and return the new scores of the same rows."""
        self.fit(scores, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(scores, sensitive_features=sensitive_features)

    def _read(
        self, scores: Any, groups: Cells, sample_weight: Any = None
    ) -> tuple[Floats, Floats | None]:
        """Return the scores of the rows of these groups, and their weights."""
        column = column_of(scores, what="scores")
        weight = read_weight_beside(sample_weight, "scores", column, groups)
        f = read_numbers(column, "scores")
        low = 0.0 if self.score_range == "unit" else -1.0
        wrong = np.flatnonzero((f < low - 1e-9) | (f > 1 + 1e-9))
        if len(wrong):
            row = int(wrong[0])
            remedy = 'Scores of `score_range="unit"` lie in [0, 1], of "signed" in [-1, 1].'
            problem = f"The argument scores is {f[row]} at row {row}."
            raise ProbabilityError(problem, remedy=remedy, row=row, value=float(f[row]))
        return f, weight


class HTO(LabelMethod):
    """The hard-threshold baseline of the paper: RTO on each class, then rows divided by sums.

    Gamma is 0.01 and rho is E[y_k].

    Each class alone is fair; dividing by the sums brings some of the unfairness back. A row below
    the threshold of every class (soft labels only) gets the overall class means.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between group means, before rows are divided by their sums.
    gamma : float
        Width of the band of scores in which an answer is neither 0 nor 1.

    Attributes
    ----------
    rho_ : ndarray of shape (L,)
        The mean of each class over all rows.
    thresholds_ : ndarray of shape (n_groups, L)
        What is taken from the scores of each group and class.

    Examples
    --------
    >>> HTO().fit_transform(["x", "x", "x", "y"], sensitive_features=["a", "a", "b", "b"])
    array([[0.75, 0.25],
           [0.75, 0.25],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """

    name = "HTO"

    def __init__(self, epsilon: Epsilon = 0.0, *, gamma: float = 0.01) -> None:
        self.epsilon = epsilon
        self.gamma = float(at_least("gamma", gamma, 0.0, above=True))

    def _learn(self, dataset: Dataset) -> None:
        rows, labels, bound = grouped_labels(dataset, self.epsilon)
        self.rho_: Floats = rows.overall(labels)
        self.thresholds_: Floats = pinned_thresholds(
            rows, labels, self.gamma, self.rho_, bound.epsilon
        )

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        h = answer(labels, self.thresholds_[groups], self.gamma)
        # A soft row may be below the threshold of every class; the overall means favour no group
        # and add up to 1.
        return divided_by_sums(h, self.rho_)
