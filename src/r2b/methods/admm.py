"""Algorithm 1 of the paper as printed: rounds of binary debiasing per class, joined by ADMM.

This is the method of the paper; :func:`r2b.debias` solves the same problem to a certificate, and is what these rounds are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from r2b._constraints.families.request import one_of
from r2b._constraints.parity import RangeBound
from r2b._constraints.parity.bounds import Epsilon
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.compute import generator
from r2b.methods.base import LabelMethod, at_least
from r2b.methods.binary import GroupedRows, answer, free_thresholds, grouped_labels, pinned_thresholds
from r2b.methods.rto import BinarySolver, Descent, box

CommonMean = Literal["free", "population"]


@dataclass(frozen=True)
class Round:
    """One round of Algorithm 1.

    Attributes
    ----------
    parity : float
        Multiclass demographic parity of the labels that would be returned after this round (Z, clipped and divided by row sums).
    squared_distance : float
        ``||Y - Yhat||_F^2`` of the same labels, rows counted by weight.
    primal_residual : float
        delta_p = ``||Z - H||_F`` of the algorithm's own iterates, rows counted by weight.
    dual_residual : float
        delta_r = ``||Z - Z of the round before||_F``, likewise.
    """

    parity: float
    squared_distance: float
    primal_residual: float
    dual_residual: float


@dataclass
class _Iterates:
    """What a row carries from round to round; each row's own, given the thresholds."""

    labels: Floats
    z: Floats
    u: Floats
    tau: float
    gamma: float

    @classmethod
    def begin(cls, labels: Floats, tau: float, lam: float) -> _Iterates:
        # Training, first line: Z(0) = U(0) = 0, in floats whatever the labels came as.
        return cls(labels, np.zeros(labels.shape), np.zeros(labels.shape), tau, lam + tau)

    def scores(self) -> Floats:
        # Step 1: F(t) = Y + tau (Z(t) - U(t)).
        return self.labels + self.tau * (self.z - self.u)

    def advance(self, scores: Floats, thresholds: Floats) -> Floats:
        """Go on by one round once all classes are solved; give H."""
        # Step 1, solved, and 2(a): H(t+1), column k being the answer of class k.
        h = answer(scores, thresholds, self.gamma)
        # Step 2(b): Z(t+1) = H + U - ((H + U) 1 - 1) 1' / L, the closest rows to H + U that add up to 1.
        moved = h + self.u
        self.z = moved - (moved.sum(axis=1, keepdims=True) - 1.0) / h.shape[1]
        # Step 2(c): U(t+1) = U + H - Z(t+1).
        self.u = moved - self.z
        return h

    def returned(self) -> Floats:
        # Return Yhat = Z. Before convergence Z may have negative entries: as in the published code, they become 0 and rows are divided
        # by their sums.
        positive = np.maximum(self.z, 0.0)
        return np.asarray(positive / positive.sum(axis=1, keepdims=True))


class R2B(LabelMethod):
    """The reduce-to-binary method: Algorithm 1 of the paper, as printed.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups.
    tau : float
        Step size, above 0. The paper's 0.5 is the default; 4 to 6 come far closer to the optimum in as many rounds (see Notes).
    lam : float
        Weight of the squared labels, above 0; 1 is the squared distance.
    max_rounds : int
        At least 1. ``R2B(max_rounds=1)`` is one round as printed; for what the paper's tables call R2B0 see :class:`R2B0`.
    tol : float, optional
        Stop once delta_p + delta_r is at most this. None runs all rounds, as the paper does.
    target : {"free", "population"}
        Whether the common mean of each class is left free, as Algorithm 1 is printed, or pinned to within epsilon / 2 of E[y_k], as
        published. The latter is another problem, with a larger distance.
    binary : {"exact", "sgd"}
        How the binary problems are solved: sorted breakpoints, or descent (started from the thresholds of the round before).
    steps, epochs, batch_size
        Of the descent: :class:`Descent`. Not used by "exact".
    random_state : int or numpy.random.Generator
        Draws the minibatches of the descent.

    Attributes
    ----------
    thresholds_ : ndarray of shape (rounds, n_groups, L)
        All that is learnt. A new row goes through the same rounds, so it gets what an equal row of the training data got.
    history_ : tuple of Round
    rho_ : ndarray of shape (L,) or None
        The pinned means of ``target="population"``.

    Notes
    -----
    After finitely many rounds the parity of the answer is near epsilon, not below it: ``history_[-1].parity`` says how near. On Adult
    (education by sex, epsilon 0) 100 rounds leave a parity of 5e-4 and a squared distance 1.4 % below the optimum's; 1,000 rounds agree
    with :func:`r2b.debias` to 1e-11, and 100 rounds with ``tau=4`` to 2e-7. docs/methods.md has a table of tau.

    Examples
    --------
    >>> labels, groups = ["x", "x", "x", "y"], ["a", "a", "b", "b"]
    >>> r2b = R2B(epsilon=0.1)
    >>> r2b.fit_transform(labels, sensitive_features=groups).round(3)
    array([[0.733, 0.267],
           [0.733, 0.267],
           [1.   , 0.   ],
           [0.267, 0.733]])
    >>> len(r2b.history_), round(r2b.history_[-1].parity, 6)
    (100, 0.1)
    """

    name = "R2B"

    def __init__(
        self,
        epsilon: Epsilon = 0.0,
        *,
        tau: float = 0.5,
        lam: float = 1.0,
        max_rounds: int = 100,
        tol: float | None = None,
        target: CommonMean = "free",
        binary: BinarySolver = "exact",
        steps: int = 10_000,
        epochs: int = 1_000,
        batch_size: int = 256,
        random_state: int | np.random.Generator = 0,
    ) -> None:
        self.epsilon = epsilon
        self.tau = float(at_least("tau", tau, 0.0, above=True))
        self.lam = float(at_least("lam", lam, 0.0, above=True))
        self.max_rounds = int(at_least("max_rounds", max_rounds, 1, integer=True))
        self.tol = None if tol is None else float(at_least("tol", tol, 0.0))
        one_of("target", target, get_args(CommonMean))
        one_of("binary", binary, get_args(BinarySolver))
        self.target, self.binary = target, binary
        self.descent = Descent(steps, epochs, batch_size)
        generator(random_state)  # refuses what is none
        self.random_state = random_state

    def _learn(self, dataset: Dataset) -> None:
        rows, labels, bound = grouped_labels(dataset, self.epsilon)
        # Taken from the labels once, and afresh in every fit; the means of a later round's F are not those of any label.
        rho = rows.overall(labels) if self.target == "population" else None
        weight, rng = rows.row_weight[:, None], generator(self.random_state)
        iterates = _Iterates.begin(labels, self.tau, self.lam)
        found: Floats | None = None
        thresholds, history = [], []
        for _ in range(self.max_rounds):
            scores, before = iterates.scores(), iterates.z
            found = self._thresholds(rows, scores, bound, rho, rng, found)
            h = iterates.advance(scores, found[rows.groups])
            new = iterates.returned()
            thresholds.append(found)
            history.append(
                Round(
                    parity=float(np.ptp(rows.means(new), axis=0).max()),
                    squared_distance=float((weight * (new - labels) ** 2).sum()),
                    primal_residual=float(np.sqrt((weight * (iterates.z - h) ** 2).sum())),
                    dual_residual=float(np.sqrt((weight * (iterates.z - before) ** 2).sum())),
                )
            )
            if self.tol is not None and history[-1].primal_residual + history[-1].dual_residual <= self.tol:
                break
        self.thresholds_: Floats = np.stack(thresholds)
        self.history_, self.rho_ = tuple(history), rho

    def _thresholds(
        self, rows: GroupedRows, scores: Floats, bound: RangeBound, rho: Floats | None, rng: np.random.Generator, last: Floats | None
    ) -> Floats:
        """Solve the binary problems of a round: thresholds (n_groups, L) for the scores F."""
        gamma, epsilon = self.lam + self.tau, bound.epsilon
        if self.binary == "sgd":
            nearest = box(rho, epsilon) if rho is not None else lambda means: bound.project(means, rows.weight).means
            # Scores change little from round to round, so the thresholds of one are a good start for the next.
            return self.descent.thresholds(rows, scores, gamma, nearest, rng, last)
        return free_thresholds(rows, scores, gamma, epsilon) if rho is None else pinned_thresholds(rows, scores, gamma, rho, epsilon)

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        iterates = _Iterates.begin(labels, self.tau, self.lam)
        for found in self.thresholds_:
            iterates.advance(iterates.scores(), found[groups])
        return iterates.returned()
