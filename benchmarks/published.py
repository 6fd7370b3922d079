"""The published procedure, written from its description.

ADMM rounds contain one stochastic binary solve per class and group.

Each binary solve (the randomised threshold optimiser) finds the shift of one class in one group by
minibatch SGD from zero, averages its iterates, and goes on with full-gradient steps. Its target is
the mean of the class over all rows in round 0, within epsilon / 2. Every step here is vectorised
over its rows, so this is, if anything, faster than the original. No code was copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BinarySolves = Callable[[Floats], Floats]

# epsilon / 2 up to which the procedure keeps one signed multiplier instead of two
_ONE_SIDED = 1e-3
_DRAWN_AT_ONCE = 500  # minibatches whose rows are drawn in one call


@dataclass(frozen=True)
class Settings:
    """The published settings: tau and rounds from the paper, steps from its code."""

    epsilon: float = 0.0
    rounds: int = 100
    sgd_steps: int = 10_000
    epochs: int = 1_000
    batch: int = 256
    gamma: float = 1.0
    tau: float = 0.5
    seed: int = 0

    @property
    def width(self) -> float:
        """The weight of the squared labels in a binary solve, gamma + tau."""
        return self.gamma + self.tau

    @property
    def sgd_step(self) -> float:
        """The length of a minibatch step."""
        return self.width * float(np.sqrt(1.0 / (self.sgd_steps * self.batch))) * self.batch


@dataclass
class Multipliers:
    """The two multipliers of a binary solve; answers depend on their difference."""

    upper: Floats | float
    lower: Floats | float
    settings: Settings

    @property
    def shift(self) -> Floats | float:
        """What is taken from every score."""
        return self.upper - self.lower

    def step(self, length: float, mean: Floats | float, target: Floats | float) -> None:
        """Take a gradient step on the dual, and project the multipliers to be nonnegative."""
        half = self.settings.epsilon / 2
        upper = self.upper - length * (half + target - mean)
        if half <= _ONE_SIDED:
            self.upper = upper
            return
        lower = self.lower - length * (half - target + mean)
        self.upper, self.lower = (
            (upper if upper > 0 else 0.0, lower if lower > 0 else 0.0)
            if isinstance(upper, float)
            else (
                np.maximum(upper, 0.0),
                np.maximum(lower, 0.0),
            )
        )


@dataclass
class RowByRow:
    """Binary solves on all rows, class after class and group after group, as published.

    Attributes
    ----------
    groups : ndarray of shape (N,)
    target : ndarray of shape (L,)
    settings : Settings
    seconds : list of float
        How long each binary solve of a class took, over all groups, in the order in which they were
        done.
    """

    groups: NDArray[np.integer]
    target: Floats
    settings: Settings
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.settings.seed)
        self._members = [
            np.flatnonzero(self.groups == group) for group in range(int(self.groups.max()) + 1)
        ]

    def __call__(self, scores: Floats) -> Floats:
        answers = np.empty_like(scores)
        for k in range(scores.shape[1]):
            begun = time.perf_counter()
            column, answer = np.ascontiguousarray(scores[:, k]), np.empty(len(scores))
            for mine in self._members:
                own = column[mine]
                answer[mine] = np.clip(
                    (own - self._solve(own, float(self.target[k]))) / self.settings.width, 0.0, 1.0
                )
            answers[:, k] = answer
            self.seconds.append(time.perf_counter() - begun)
        return answers

    def _solve(self, scores: Floats, target: float) -> float:
        s = self.settings
        found = Multipliers(0.0, 0.0, s)
        upper: Floats | float = 0.0
        lower: Floats | float = 0.0
        for start in range(0, s.sgd_steps, _DRAWN_AT_ONCE):
            for batch in scores[
                self._rng.integers(
                    0, len(scores), (min(_DRAWN_AT_ONCE, s.sgd_steps - start), s.batch)
                )
            ]:
                found.step(
                    s.sgd_step, _mean_answer(batch, float(found.shift), s.width, batch), target
                )
                upper += found.upper
                lower += found.lower
        if s.sgd_steps:
            found.upper, found.lower = upper / s.sgd_steps, lower / s.sgd_steps
        room = np.empty_like(scores)
        for _ in range(s.epochs):
            found.step(s.width / 2, _mean_answer(scores, float(found.shift), s.width, room), target)
        return float(found.shift)


def _mean_answer(scores: Floats, shift: float, width: float, room: Floats) -> float:
    np.subtract(scores, shift, out=room)
    room /= width
    np.maximum(room, 0.0, out=room)
    np.minimum(room, 1.0, out=room)
    return float(room.sum()) / len(room)


def admm(labels: Floats, solves: BinarySolves, tau: float) -> Iterator[Floats]:
    """Yield the labels after each round of Algorithm 1, clipped at zero and normalised.

    Parameters
    ----------
    labels : ndarray of shape (N, L)
    solves : callable
        From the scores F of a round to the answers H of its binary problems.
    tau : float
    """
    n_classes = labels.shape[1]
    z, u = np.zeros_like(labels), np.zeros_like(labels)
    while True:
        h = solves(labels + tau * (z - u))
        u += h
        z = u - (u.sum(axis=1, keepdims=True) - 1.0) / n_classes
        u -= z
        positive = np.maximum(z, 0.0)
        yield positive / positive.sum(axis=1, keepdims=True)
