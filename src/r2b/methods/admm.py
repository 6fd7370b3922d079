"""Algorithm 1 of the paper as printed: rounds of binary debiasing per class, joined by ADMM.

This is the method of the paper; :func:`r2b.debias` solves the same problem to a certificate, and is
what these rounds are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from r2b._constraints.epsilon import Epsilon
from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats
from r2b._data.compute import generator
from r2b.methods.base import LabelMethod, at_least
from r2b.methods.binary import (
    answer,
    free_thresholds,
    grouped_labels,
    pinned_thresholds,
)
from r2b.methods.rto import HTO, BinarySolver, Descent, box

CommonMean = Literal["free", "population"]
Output = Literal["labels", "z"]
Reading = Literal["tables", "algorithm"]


@dataclass(frozen=True)
class Round:
    """One round of Algorithm 1.

    Attributes
    ----------
    disparity : float
        Multiclass demographic parity of the labels that would be returned after this round (Z,
        clipped and divided by row sums).
    squared_distance : float
        ``||Y - Yhat||_F^2`` of the same labels, rows counted by weight.
    raw_disparity : float
        Multiclass demographic parity of Z as printed, before that. With epsilon 0 it is 0 in every
        round: steps 1 and 2(b) keep it there.
    primal_residual : float
        delta_p = ``||Z - H||_F`` of the algorithm's own iterates, rows counted by weight.
    dual_residual : float
        delta_r = ``||Z - Z of the round before||_F``, likewise.
    """

    disparity: float
    squared_distance: float
    raw_disparity: float
    primal_residual: float
    dual_residual: float


@dataclass
class _Iterates:
    """What a row carries from round to round; each row's own, given the thresholds."""

    labels: Floats
    tau: float
    gamma: float

    def __post_init__(self) -> None:
        # Training, first line: Z(0) = U(0) = 0, in floats whatever the labels came as.
        self.z = self.u = np.zeros(self.labels.shape)

    def scores(self) -> Floats:
        # Step 1: F(t) = Y + tau (Z(t) - U(t)).
        return self.labels + self.tau * (self.z - self.u)

    def advance(self, scores: Floats, thresholds: Floats) -> Floats:
        """Go on by one round once all classes are solved; give H."""
        # Step 1, solved, and 2(a): H(t+1), column k being the answer of class k.
        h = answer(scores, thresholds, self.gamma)
        # Step 2(b): Z(t+1) = H + U - ((H + U) 1 - 1) 1' / L, the closest rows to H + U that add up
        # to 1.
        moved = h + self.u
        self.z = moved - (moved.sum(axis=1, keepdims=True) - 1.0) / h.shape[1]
        # Step 2(c): U(t+1) = U + H - Z(t+1).
        self.u = moved - self.z
        return h

    def returned(self, output: Output = "labels") -> Floats:
        # Return Yhat = Z. Before convergence Z may have negative entries: as in the published code,
        # they become 0 and rows are divided by their sums.
        if output == "z":
            return self.z
        positive = np.maximum(self.z, 0.0)
        return np.asarray(positive / positive.sum(axis=1, keepdims=True))


class R2B(LabelMethod):
    """The reduce-to-binary method: Algorithm 1 of the paper, as printed.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between the means of two groups.
    tau : float
        Step size, above 0. The paper's 0.5 is the default; 4 to 6 come far closer to the optimum in
        as many rounds (see Notes).
    lam : float
        Weight of the squared labels, above 0; 1 is the squared distance.
    max_rounds : int
        At least 1. ``R2B(max_rounds=1)`` is one round as printed; for what the paper's tables call
        R2B0 see :class:`R2B0`.
    tol : float, optional
        Stop once delta_p + delta_r is at most this. None runs all rounds, as the paper does.
    target : {"free", "population"}
        Whether the common mean of each class is left free, as Algorithm 1 is printed, or pinned to
        within epsilon / 2 of E[y_k], as published. The latter is another problem, with a larger
        distance.
    output : {"labels", "z"}
        What ``transform`` gives: labels, that is Z with entries below 0 set to 0 and rows divided
        by their sums, as the published code does; or Z itself, as Algorithm 1 is printed. Rows of Z
        add up to 1, but entries may lie outside [0, 1] before convergence.
    binary : {"exact", "sgd"}
        How the binary problems are solved: sorted breakpoints, or descent (started from the
        thresholds of the round before).
    steps, epochs, batch_size
        Of the descent: :class:`~r2b.methods.rto.Descent`. Not used by "exact".
    random_state : int or numpy.random.Generator
        Draws the minibatches of the descent.

    Attributes
    ----------
    thresholds_ : ndarray of shape (rounds, n_groups, L)
        All that is learnt. A new row goes through the same rounds, so it gets what an equal row of
        the training data got.
    history_ : tuple of Round
    rho_ : ndarray of shape (L,) or None
        The pinned means of ``target="population"``.

    Notes
    -----
    After finitely many rounds the disparity of the labels is near epsilon, not below it:
    ``history_[-1].disparity`` says how near. What is left comes from the last clip and division:
    with epsilon 0, Z has none after any round. On Adult (education by sex, epsilon 0) 100
    rounds leave a disparity of 5e-4 and a squared distance 1.4 % below the optimum's; 1,000 rounds
    agree with :func:`r2b.debias` to 1e-11, and 100 rounds with ``tau=4`` to 2e-7. docs/methods.md
    has a table of tau.

    Examples
    --------
    >>> labels, groups = ["x", "x", "x", "y"], ["a", "a", "b", "b"]
    >>> r2b = R2B(epsilon=0.1)
    >>> r2b.fit_transform(labels, sensitive_features=groups).round(3)
    array([[0.733, 0.267],
           [0.733, 0.267],
           [1.   , 0.   ],
           [0.267, 0.733]])
    >>> len(r2b.history_), round(r2b.history_[-1].disparity, 6)
    (100, 0.1)
    >>> labels, groups = ["x", "x", "x", "y", "z"], ["a", "a", "b", "b", "b"]
    >>> R2B(max_rounds=2, output="z").fit_transform(labels, sensitive_features=groups).round(3)[1:4]
    array([[ 0.52 ,  0.24 ,  0.24 ],
           [ 1.   ,  0.   ,  0.   ],
           [ 0.28 ,  0.763, -0.043]])
    """

    def __init__(
        self,
        epsilon: Epsilon = 0.0,
        *,
        tau: float = 0.5,
        lam: float = 1.0,
        max_rounds: int = 100,
        tol: float | None = None,
        target: CommonMean = "free",
        output: Output = "labels",
        binary: BinarySolver = "exact",
        steps: int = 10_000,
        epochs: int = 1_000,
        batch_size: int = 256,
        random_state: int | np.random.Generator = 0,
    ) -> None:
        self.epsilon = epsilon
        self.tau = at_least("tau", tau, 0.0, above=True)
        self.lam = at_least("lam", lam, 0.0, above=True)
        self.max_rounds = at_least("max_rounds", max_rounds, 1, integer=True)
        self.tol = None if tol is None else at_least("tol", tol, 0.0)
        one_of("target", target, CommonMean)
        one_of("output", output, Output)
        one_of("binary", binary, BinarySolver)
        self.target, self.output, self.binary = target, output, binary
        self.descent = Descent(steps, epochs, batch_size)
        generator(random_state)  # refuses what is none
        self.random_state = random_state

    def _learn(self, dataset: Dataset) -> None:
        rows, labels, bound = grouped_labels(dataset, self.epsilon)
        # Taken from the labels once, and afresh in every fit; the means of a later round's F are
        # not those of any label.
        rho = rows.overall(labels) if self.target == "population" else None
        nearest = (
            (lambda means: bound.project(means, rows.weight).means)
            if rho is None
            else box(rho, bound.epsilon)
        )
        weight, rng = (rows.share * rows.weight[rows.groups])[:, None], generator(self.random_state)

        def apart(rows_now: Floats) -> float:
            return float(np.ptp(rows.means(rows_now), axis=0).max())

        def squared(change: Floats) -> float:
            return float((weight * change**2).sum())

        gamma, epsilon = self.lam + self.tau, bound.epsilon
        iterates = _Iterates(labels, self.tau, gamma)
        found: Floats | None = None
        thresholds, history = [], []
        for _ in range(self.max_rounds):
            scores, before = iterates.scores(), iterates.z
            if self.binary == "sgd":
                # Scores change little from round to round, so the thresholds of one are a good
                # start for the next.
                found = self.descent.thresholds(rows, scores, gamma, nearest, rng, found)
            elif rho is None:
                found = free_thresholds(rows, scores, gamma, epsilon)
            else:
                found = pinned_thresholds(rows, scores, gamma, rho, epsilon)
            h = iterates.advance(scores, found[rows.groups])
            new = iterates.returned()
            thresholds.append(found)
            history.append(
                Round(
                    disparity=apart(new),
                    squared_distance=squared(new - labels),
                    raw_disparity=apart(iterates.z),
                    primal_residual=sqrt(squared(iterates.z - h)),
                    dual_residual=sqrt(squared(iterates.z - before)),
                )
            )
            residual = history[-1].primal_residual + history[-1].dual_residual
            if self.tol is not None and residual <= self.tol:
                break
        self.thresholds_: Floats = np.stack(thresholds)
        self.history_, self.rho_ = tuple(history), rho

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        iterates = _Iterates(labels, self.tau, self.lam + self.tau)
        for found in self.thresholds_:
            iterates.advance(iterates.scores(), found[groups])
        return iterates.returned(self.output)


class R2B0(LabelMethod):
    """The paper's R2B0, "a single round of R2B", in either of its two readings.

    As the paper's tables behave (the default), it is RTO with gamma 1 on each class, then rows
    divided by their sums. The evidence: on Adult the tables' figures of R2B0 are those of HTO in
    every cell, and on class labels all gamma up to 1 give the same answers, so this rule makes the
    two equal; on COCO, where labels are soft, both differ. One round of Algorithm 1 is something
    else: it has 1 + tau = 1.5 in place of gamma = 1, which shrinks every label, and ends in the
    additive step 2(b), which keeps group means; its labels are far fairer than those that the
    tables report.

    Parameters
    ----------
    epsilon : float, array-like of shape (L,) or mapping
        Largest accepted difference between group means, before rows are divided by their sums.
    reading : {"tables", "algorithm"}
        "algorithm" is ``R2B(epsilon, max_rounds=1)``.

    Attributes
    ----------
    rho_, thresholds_
        As in :class:`HTO`; the reading "algorithm" pins no mean and has the thresholds of
        :class:`R2B`.

    Examples
    --------
    >>> labels, groups = ["x", "x", "x", "y"], ["a", "a", "b", "b"]
    >>> R2B0().fit_transform(labels, sensitive_features=groups)
    array([[0.75, 0.25],
           [0.75, 0.25],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    >>> R2B0(reading="algorithm").fit_transform(labels, sensitive_features=groups).round(3)
    array([[0.639, 0.361],
           [0.639, 0.361],
           [0.917, 0.083],
           [0.361, 0.639]])
    """

    def __init__(self, epsilon: Epsilon = 0.0, *, reading: Reading = "tables") -> None:
        one_of("reading", reading, Reading)
        self.epsilon, self.reading = epsilon, reading
        self._method = (
            R2B(epsilon, max_rounds=1) if reading == "algorithm" else HTO(epsilon, gamma=1.0)
        )

    def _learn(self, dataset: Dataset) -> None:
        self._method._learn(dataset)
        self.rho_, self.thresholds_ = self._method.rho_, self._method.thresholds_

    def _respond(self, labels: Floats, groups: Array) -> Floats:
        return self._method._respond(labels, groups)
