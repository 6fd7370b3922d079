"""The randomised threshold optimiser (RTO), and the baseline that applies it by class: HTO.

RTO minimises ``sum_i w_i (gamma/2 h_i^2 - f_i h_i)`` over ``0 <= h <= 1`` with ``|m_s - rho| <=
epsilon / 2`` for the mean m_s of each group s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from r2b._constraints.epsilon import Epsilon, epsilon_per_class
from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, divided
from r2b._data.cells import Cells, read_cells, read_known_cells
from r2b._data.columns import column_of
from r2b._data.compute import generator
from r2b._data.values import warn
from r2b.errors import NotSolvedWarning, ProbabilityError
from r2b.methods.base import (
    LabelMethod,
    Shown,
    at_least,
    read_numbers,
    read_weight_beside,
    refuse_unfitted,
)
from r2b.methods.binary import (
    GroupedRows,
    answer,
    grouped_labels,
    pinned_thresholds,
)

ScoreRange = Literal["unit", "signed"]
BinarySolver = Literal["exact", "sgd"]


@dataclass(frozen=True)
class Descent:
    """How thresholds are found by descent: averaged minibatch steps, then full-gradient steps.

    Parameters
    ----------
    steps : int
        Minibatch steps.
    epochs : int
        Most full-gradient steps.
    batch_size : int
        Rows per minibatch and group, drawn with replacement by weight.
    tol : float
        Full-gradient steps end once no group mean is farther than this from what the optimality
        conditions ask of it.
    """

    steps: int = 10_000
    epochs: int = 1_000
    batch_size: int = 256
    tol: float = 1e-10

    def __post_init__(self) -> None:
        at_least("steps", self.steps, 0, integer=True)
        at_least("epochs", self.epochs, 0, integer=True)
        at_least("batch_size", self.batch_size, 1, integer=True)
        at_least("tol", self.tol, 0.0)

    def thresholds(
        self,
        rows: GroupedRows,
        scores: Floats,
        gamma: float,
        nearest: Callable[[Floats], Floats],
        rng: np.random.Generator,
        start: Floats | None = None,
    ) -> Floats:
        """Minimise the dual over thresholds t of shape (n_groups, L).

        It is ``sum_s W_s mean_s xi_gamma(f - t_s) + support(t)``.

        xi_gamma is 0 below 0, ``w^2 / (2 gamma)`` up to gamma, ``w - gamma / 2`` beyond; its slope
        is the answer h. The two multipliers of a group are the parts of one signed t: at an optimum
        one of them is 0. A step along the means followed by the proximal step of the support
        function is ``step * (v - nearest(v))`` with ``v = t / step + means`` (Moreau), ``nearest``
        being the projection on the allowed means. So epsilon enters in one way whatever its size;
        the published code solves another problem up to 0.002.
        """
        n_groups = len(rows.weight)
        found = np.zeros((n_groups, scores.shape[1])) if start is None else start
        if self.steps:
            step = gamma * float(np.sqrt(self.batch_size / self.steps))
            ends = np.cumsum(rows.share)  # group s fills (s, s + 1]
            first, last = rows.start[:-1, None], rows.start[1:, None] - 1
            total = np.zeros_like(found)
            size = max(1, (1 << 20) // (n_groups * self.batch_size))  # minibatches of a call
            for begin in range(0, self.steps, size):
                shape = min(size, self.steps - begin), n_groups, self.batch_size
                drawn = rng.random(shape) + np.arange(n_groups)[:, None]
                for batch in np.clip(np.searchsorted(ends, drawn), first, last):
                    h = answer(scores[batch], found[:, None, :], gamma).mean(axis=1)
                    onward = found / step + h
                    found = step * (onward - nearest(onward))
                    total += found
            found = total / self.steps
        for _ in range(self.epochs):
            # The dual is smooth with constant 1 / gamma, so steps of gamma never overshoot.
            onward = found / gamma + rows.means(answer(scores, found[rows.groups], gamma))
            moved = gamma * (onward - nearest(onward))
            moves, found = np.abs(moved - found).max(), moved
            if moves <= self.tol * gamma:
                break
        return found


class RTO(Shown):
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
    solver : {"exact", "sgd"}
        Sorted breakpoints, or the descent of the published procedure.
    score_range : {"unit", "signed"}
        Labels or probabilities in [0, 1] (pre-processing), or ``2 * probability - 1`` in [-1, 1]
        (post-processing, where the largest expected accuracy is sought). Never guessed from the
        data: a signed score may happen to have no negative value.
    steps, epochs, batch_size, tol
        Of the descent: :class:`~r2b.methods.rto.Descent`.
    random_state : int, Generator or None
        Draws the minibatches.

    Attributes
    ----------
    rho_ : float
        The mean aimed at.
    thresholds_ : ndarray of shape (n_groups,)
        What is taken from the scores of each group.
    groups_ : ndarray of shape (n_groups,)
        The names of the fitted groups.
    error_ : ndarray of shape (n_groups,)
        How far each group mean is from where the optimum wants it. The mean of abs(h - optimum)
        over the group is at most this, because answers of two thresholds never cross.
    converged_ : bool
        Whether ``error_`` is within ``tol``; always so for "exact", up to rounding.

    Notes
    -----
    The descent takes steps of at most gamma. Where no score lies within gamma of the threshold
    (class labels, small gamma) it has a long way to go at a constant small slope, and may end far
    from the optimum: ``error_`` and ``converged_`` say so. "exact" does not care.

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
        solver: BinarySolver = "exact",
        score_range: ScoreRange = "unit",
        steps: int = 10_000,
        epochs: int = 1_000,
        batch_size: int = 256,
        tol: float = 1e-10,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.epsilon = float(epsilon_per_class(epsilon, range(1), largest=1.0)[0])
        self.gamma = at_least("gamma", gamma, 0.0, above=True)
        self.rho = None if rho is None else at_least("rho", rho, 0, most=1)
        one_of("solver", solver, BinarySolver)
        one_of("score_range", score_range, ScoreRange)
        self.solver, self.score_range = solver, score_range
        self.descent = Descent(steps, epochs, batch_size, tol)
        generator(random_state)  # refuses what is none
        self.random_state = random_state

    def fit(self, scores: Any, *, sensitive_features: Any, sample_weight: Any = None) -> Self:
        """Find one threshold per group; whatever an earlier fit left behind is gone.

        Parameters
        ----------
        scores : array-like of shape (N,)
            Scores of one class.
        sensitive_features : array-like of shape (N,) or (N, n_attributes)
            One attribute or several.
        sample_weight : array-like of shape (N,), optional
            Weights of the rows; without them all count the same.

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
        own = mean if self.score_range == "unit" else mean / 2 + 0.5
        rho = np.clip([own if self.rho is None else self.rho], 0.0, 1.0)
        epsilon = np.array([self.epsilon])
        nearest = box(rho, epsilon)
        if self.solver == "exact":
            thresholds = pinned_thresholds(rows, column, self.gamma, rho, epsilon)
        else:
            thresholds = self.descent.thresholds(
                rows, column, self.gamma, nearest, generator(self.random_state)
            )
        means = rows.means(answer(column, thresholds[rows.groups], self.gamma))
        # The sign of a threshold says at which end of the band the mean belongs; where it is 0,
        # anywhere inside.
        wanted = np.where(thresholds == 0, nearest(means), rho + np.sign(thresholds) * epsilon / 2)
        self.rho_ = float(rho[0])
        self.thresholds_: Floats = thresholds[:, 0]
        self.error_: Floats = np.abs(means - wanted)[:, 0]
        self.converged_ = bool(self.error_.max() <= max(self.descent.tol, 1e-12))
        self._groups, self.groups_ = groups, groups.names
        if not self.converged_:
            worst = f"RTO by descent ended {self.error_.max():.1e} from the group means it aims at"
            warn(NotSolvedWarning(f"{worst}. Raise steps or epochs, or use solver='exact'."))
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
        """Fit and give the new scores of the same rows."""
        fitted = self.fit(
            scores, sensitive_features=sensitive_features, sample_weight=sample_weight
        )
        return fitted.transform(scores, sensitive_features=sensitive_features)

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
            raise ProbabilityError(
                f"The argument scores is {f[row]} at row {row}.",
                remedy=remedy,
                row=row,
                value=float(f[row]),
            )
        return f, weight


def box(rho: Floats, epsilon: Floats) -> Callable[[Floats], Floats]:
    """Return the projection of group means on ``|m - rho| <= epsilon / 2``."""
    return lambda means: np.clip(means, rho - epsilon / 2, rho + epsilon / 2)


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

    def __init__(self, epsilon: Epsilon = 0.0, *, gamma: float = 0.01) -> None:
        self.epsilon = epsilon
        self.gamma = at_least("gamma", gamma, 0.0, above=True)

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
        return divided(h, h.sum(axis=1, keepdims=True), self.rho_)
