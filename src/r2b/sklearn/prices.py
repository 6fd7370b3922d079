"""Prices on the scores of a model: a small dual problem, solved for each fold and round.

A row has scores p and parts g in the groups. Its response is the best point of the simplex for
``p - sum_s g_s nu_s``: of decisions at a small lambda, which gives nearly every row one class; of
probabilities in relative entropy, ``p exp(-sum_s g_s nu_s)`` divided by its sum, which makes no
probability 0. The dual is the mean of what the responses are worth, plus the support function of
the bands that group means may lie in. Its absolute values are smoothed for Newton's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal

import numpy as np

from r2b._constraints.bounds.base import Level
from r2b._data.arrays import Flags, Floats
from r2b._solve.oracle import project

Kind = Literal["decisions", "probabilities"]

LAMBDAS = (0.05, 0.015, 0.005)
"""Of decisions, from easy to exact. Rows whose best classes are nearer than the last are drawn."""


EXACT = 1e-4
"""Error of group means, weighted by the groups, at which prices are good enough."""

PRECISE, ROUGH = 1e-6, 1e-4
"""Gains in accuracy at which the search ends: for prices to keep, and for those of folds."""


@dataclass(frozen=True, eq=False)
class Band:
    """How one comparison's means, by the groups that are seen, must lie.

    Attributes
    ----------
    parts : ndarray of shape (n, n_groups), or (n, n_groups, n_classes) for right predictions
    centre, half : ndarray of shape (n_groups, n_outcomes)
        Means lie within ``half`` of ``centre`` plus the level.
    give : ndarray of shape (n_groups, n_outcomes)
        By how much the band widens for each unit of the entry's price: what is dear to correct is
        corrected less.
    bounded : ndarray of shape (n_groups, n_outcomes)
        Entries of others have no price.
    level : {"free", "mean", "none"}
        Any number for each outcome, the mean over all groups, or 0.
    share : ndarray of shape (n_groups,)
        Weight of the groups that are seen, as shares of all rows.
    """

    parts: Floats
    centre: Floats
    half: Floats
    give: Floats
    bounded: Flags
    level: Level
    share: Floats

    @cached_property
    def root(self) -> Floats:
        """The unit of prices in which the problem is well scaled."""
        return np.sqrt(self.share)[:, None]

    def settle(self, scaled: Floats) -> Floats:
        """Project scaled prices onto those at which rows pay nothing for the level."""
        scaled = np.where(self.bounded, scaled, 0.0)
        if self.level == "none":
            return scaled
        return np.asarray(scaled - self._along * (self._along * scaled).sum(axis=0))

    @cached_property
    def _along(self) -> Floats:
        """The direction of a common price, of length 1 for each outcome."""
        along = self.root * self.bounded
        return np.asarray(along / np.sqrt(np.maximum((along**2).sum(axis=0), 1e-300)))

    def own(self, scaled: Floats) -> Floats:
        """Return the scaled prices at which bands are paid for: a common price moves no mean."""
        return np.where(self.bounded, scaled, 0.0) if self.level == "mean" else self.settle(scaled)

    def support(self, prices: Floats, smoothing: float) -> tuple[float, Floats]:
        """Return the smoothed support function and its derivative."""
        size = np.sqrt(prices**2 + smoothing**2)
        value = self.half * (size - smoothing) + (self.centre + 0.5 * self.give * prices) * prices
        slope = self.half * prices / size + self.centre + self.give * prices
        weight = self.share[:, None]
        return float((weight * value).sum()), weight * slope


def less_prices(
    base: Floats, parts: Sequence[Floats], prices: Sequence[Floats], outcomes: Floats | None
) -> Floats:
    """Return the base of rows less what they pay in all comparisons."""
    each = [
        part @ nu if part.ndim == 2 else np.einsum("ngk,g->nk", part, nu[:, 0])
        for part, nu in zip(parts, prices, strict=True)
    ]
    paid = np.sum(each, axis=0)
    return np.asarray(base - (paid if outcomes is None else paid @ outcomes))


def sums(parts: Floats, rows: Floats) -> Floats:
    """Return the sums of outcomes by the groups that are seen."""
    if parts.ndim == 2:
        return parts.T @ rows
    return np.asarray(np.einsum("ngk,nk->g", parts, rows)[:, None])


def base_of(kind: Kind, scores: Floats) -> Floats:
    """Return what prices are subtracted from: scores, or their logarithms."""
    if kind == "decisions":
        return scores
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(scores), -1e3)


def respond(kind: Kind, values: Floats) -> Floats:
    """Return the response of rows to their base less their shifts.

    Examples
    --------
    >>> respond("decisions", np.array([[0.4, 0.3], [0.3, 0.3]]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    if kind == "decisions":
        return _decide(values, LAMBDAS[-1])
    return _softmax(values)[0]


def _decide(values: Floats, lam: float) -> Floats:
    """Return the closest point of the simplex to ``values / lam``, without sorting clear cases."""
    rows = (values > (_largest(values) - lam)[:, None]).astype(np.float64)
    close = np.flatnonzero(rows @ np.ones(rows.shape[1]) > 1.0)
    rows[close] = project(values[close] / lam)
    return rows


def _largest(values: Floats) -> Floats:
    """Return the largest value of each row; NumPy is slow along short axes."""
    return reduce(np.maximum, values.T)


def _softmax(values: Floats) -> tuple[Floats, Floats]:
    top = _largest(values)
    rows = np.exp(values - top[:, None])
    total = rows @ np.ones(rows.shape[1])
    rows /= total[:, None]
    return rows, top + np.log(total)


STEPS = 30
"""Most steps of Newton's method for each lambda; fifteen are usual."""


@dataclass(frozen=True, eq=False)
class _Point:
    """Scaled prices, with the value, gradient and responses there."""

    scaled: list[Floats]
    value: float
    gradient: Floats
    rows: Floats

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.gradient))


@dataclass(frozen=True, eq=False)
class Dual:
    """The dual problem, in scaled prices.

    Attributes
    ----------
    kind : {"probabilities", "decisions"}
    base : ndarray of shape (n, L)
        From :func:`base_of`.
    bands : tuple of Band
    weight : ndarray of shape (n,)
        Adds up to 1.
    outcomes : ndarray of shape (n_outcomes, L), or None
        How much each class counts in what is compared.
    lam : float
    """

    kind: Kind
    base: Floats
    bands: tuple[Band, ...]
    weight: Floats
    outcomes: Floats | None
    lam: float = 1.0

    def solve(
        self, start: Sequence[Floats] | None = None, gain: float = PRECISE
    ) -> tuple[Floats, ...]:
        """Find the prices of bands by a damped Newton method.

        Parameters
        ----------
        start : sequence of ndarray, optional
            Prices near the solution.
        gain : float
            A step that gains less is the last.

        Returns
        -------
        tuple of ndarray of shape (n_groups, n_outcomes)
        """
        lambdas = LAMBDAS if self.kind == "decisions" else (self.lam,)
        prices = [np.zeros_like(band.centre) for band in self.bands]
        if start is not None:
            prices, lambdas = list(start), lambdas[-1:]
        for lam in lambdas:
            dual = replace(self, lam=lam)
            scaled = self.scaled(prices)
            now = dual.at([band.own(z) for band, z in zip(self.bands, scaled, strict=True)])
            damping, curvature = 1e-2, dual.curvature(now)
            for _ in range(STEPS):
                if now.size <= EXACT or damping > 1e6:
                    break
                then = dual.step(now, curvature, damping)
                gained = now.value - then.value
                if gained > 0.0:
                    now, damping = then, max(damping / 5.0, 1e-6)
                    if gained <= gain:
                        break
                    curvature = dual.curvature(now)
                else:
                    damping *= 25.0
            prices = [z / band.root for band, z in zip(self.bands, now.scaled, strict=True)]
        return tuple(self.settled(self.scaled(prices)))

    def scaled(self, prices: Sequence[Floats]) -> list[Floats]:
        """Return prices in the units in which the problem is well scaled."""
        return [nu * band.root for band, nu in zip(self.bands, prices, strict=True)]

    def settled(self, scaled: Sequence[Floats]) -> list[Floats]:
        """Return prices at which rows pay nothing for the level."""
        return [band.settle(z) / band.root for band, z in zip(self.bands, scaled, strict=True)]

    @property
    def smoothing(self) -> float:
        """Below which prices count little: they are shares of scores, or of logarithms."""
        return 1e-3 if self.kind == "decisions" else 5e-3

    def at(self, scaled: list[Floats]) -> _Point:
        """Evaluate the problem at scaled prices."""
        parts = [band.parts for band in self.bands]
        values = less_prices(self.base, parts, self.settled(scaled), self.outcomes)
        if self.kind == "decisions":
            rows = _decide(values, self.lam)
            weighted = rows * self.weight[:, None]
            total = float((weighted * (values - 0.5 * self.lam * rows)).sum())
        else:
            rows, worth = _softmax(values)
            weighted, total = rows * self.weight[:, None], float(self.weight @ worth)
        weighted = weighted if self.outcomes is None else weighted @ self.outcomes.T
        gradient = []
        for band, z in zip(self.bands, scaled, strict=True):
            value, slope = band.support(band.own(z) / band.root, self.smoothing)
            total += value
            reached = band.settle(sums(band.parts, weighted) / band.root)
            gradient.append((band.own(slope / band.root) - reached).ravel())
        return _Point(scaled, total, np.concatenate(gradient), rows)

    def step(self, now: _Point, curvature: Floats, damping: float) -> _Point:
        """Return the point that a damped step of Newton's leads to."""
        size = damping * max(float(np.diagonal(curvature).mean()), 1e-6)
        damped = curvature + size * np.eye(len(curvature))
        direction = np.asarray(np.linalg.solve(damped, now.gradient), np.float64)
        moved, first = [], 0
        for band, z in zip(self.bands, now.scaled, strict=True):
            part = direction[first : first + z.size].reshape(z.shape)
            moved.append(z - band.own(part))
            first += z.size
        return self.at(moved)

    def curvature(self, now: _Point) -> Floats:
        """Return the second derivative at a point."""
        inside = (now.rows > 0) & (now.rows < 1.0)
        split = np.flatnonzero(inside.any(axis=1))
        most = max(1, int(4e6) // now.rows.shape[1] ** 2)
        thinned = split[:: -(-len(split) // most)] if len(split) else split
        rows, inside = now.rows[thinned], inside[thinned].astype(np.float64)
        scale = self.weight[thinned] * (len(split) / max(len(thinned), 1))
        if self.kind == "decisions":
            own, count = inside / self.lam, np.maximum(inside.sum(axis=1), 1.0)
            pairs = -own[:, :, None] * (inside / count[:, None])[:, None, :]
        else:
            own, pairs = rows, -rows[:, :, None] * rows[:, None, :]
        classes = np.arange(rows.shape[1])
        pairs[:, classes, classes] += own
        pairs *= scale[:, None, None]
        if self.outcomes is not None:
            pairs = self.outcomes @ pairs @ self.outcomes.T
        designs = [
            band.parts[thinned] / (band.root if band.parts.ndim == 3 else band.root[:, 0])
            for band in self.bands
        ]
        found = _quadratic(pairs, designs)
        diagonal = []
        for band, z in zip(self.bands, now.scaled, strict=True):
            nu = band.own(z) / band.root
            bend = 1.0 / np.sqrt(nu**2 + self.smoothing**2)
            diagonal.append((band.half * bend + band.give).ravel())  # share over root squared is 1
        places = np.arange(len(found))
        found[places, places] += np.concatenate(diagonal)
        return found


def _quadratic(pairs: Floats, designs: Sequence[Floats]) -> Floats:
    """Return the curvature of all rows in the scaled prices of all bands, from scaled parts."""
    n, k = pairs.shape[:2]
    if all(each.ndim == 2 for each in designs):  # groups and classes are apart
        design = np.hstack(designs)
        g = design.shape[1]
        outer = (design[:, :, None] * design[:, None, :]).reshape(n, g * g)
        found = (outer.T @ pairs.reshape(n, k * k)).reshape(g, g, k, k)
        return found.transpose(0, 2, 1, 3).reshape(g * k, g * k)
    # what each price takes from every class, of shape (n, n_prices, n_classes)
    every = [each if each.ndim == 3 else np.kron(each[:, :, None], np.eye(k)) for each in designs]
    loads = np.hstack(every)
    return np.tensordot(loads @ pairs, loads, ((0, 2), (0, 2)))
