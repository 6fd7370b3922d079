"""Semismooth Newton on the prices, with the forward-backward envelope as merit and damping adapted like a trust region.

The prices nu are optimal exactly when ``E(nu) = m(nu) - Proj_C(m(nu) + nu / gamma)`` is zero, m the group means of the rows' responses and
C the set of means that the bound allows. E is piecewise affine, so near the end a step lands on the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from r2b.oracle import Oracle
from r2b.parity import RangeBound
from r2b.solvers.blocks import LevelSystem

Floats = NDArray[np.float64]

_GAMMA = 0.95  # of lam: any value below 1 makes the envelope exact; near 1 the safe step is longest
_DECREASE = 1e-4  # of the decrease that the safe step guarantees: what a step must bring to be taken
_SERVES = 0.1  # a step with an old estimate of the curvature must gain this much, or a new one is made
_NOISE = 1e-13  # merit differences below this are rounding; then the residual decides


@dataclass(frozen=True, eq=False)
class NewtonState:
    """Where the iteration stands.

    Attributes
    ----------
    prices : ndarray of shape (n_groups, n_classes)
    residual : float
        The largest entry of E, in units of group means.
    means, gap : ndarray of shape (n_groups, n_classes)
        Group means of the responses, and E.
    clipped : ndarray of bool
        The face that the projection landed on.
    merit : float
        The forward-backward envelope.
    unpaid : float
        What the groups leave on the table: support function at the prices minus what they pay. Free of cancellation, so it still
        tells two points apart where their merits agree to rounding.
    curvature : ndarray of shape (n_groups, n_classes, n_classes) or None
        None until a step is taken from here.
    damping : float
        Added to the curvature, in units of 1 / lam.
    stalled : bool
        No step was accepted, not even the safe one: the residual is at the rounding level of this problem.
    """

    prices: Floats
    residual: float
    means: Floats
    gap: Floats
    clipped: NDArray[np.bool_]
    merit: float
    unpaid: float
    curvature: Floats | None
    damping: float = 1e-3
    stalled: bool = False


@dataclass(frozen=True, eq=False)
class Newton:
    """Settings of the Newton solver for one problem.

    Parameters
    ----------
    oracle : Oracle
    bound : RangeBound
    share : ndarray of shape (n_groups,)
        Each group's share of the weight.
    lam : float
    sample : Oracle, optional
        Where to take the curvature from. An estimate from a sample costs a fraction of a pass and leaves the answer as it is: the residual
        always comes from all rows. Each step then gains a factor of about the square root of the sample's size.
    """

    oracle: Oracle
    bound: RangeBound
    share: Floats
    lam: float
    sample: Oracle | None = None
    name: str = "newton"

    def start(self, prices: Floats) -> NewtonState:
        """Evaluate at the given prices."""
        return self._evaluate(prices)

    def mean_shift(self, state: NewtonState) -> Floats:
        """Prices that close the gap of the means if no response touches the border of the simplex: then they are exact at once.

        Rejected: starting class labels from zero. There the curvature vanishes and damped steps crawl out of the corner.
        """
        return state.prices + self.lam * (state.means - self.bound.project(state.means, self.share).means)

    def step(self, state: NewtonState) -> NewtonState:
        """One accepted step; the damping grows by 8 on a rejection and shrinks by 20 on success."""
        if state.curvature is None:  # made when a step is taken, not for points that are rejected or final
            oracle = self.sample or self.oracle
            state = replace(state, curvature=oracle.evaluate(state.prices, self.lam, curvature=True).curvature)
        damping = state.damping
        while damping < 1e3:
            candidate = self._candidate(state, damping)
            if candidate is not None and self._accept(state, candidate):
                # Near the answer an estimated curvature hardly changes: it is kept as long as it serves.
                keep = self.sample is not None and candidate.residual <= _SERVES * state.residual
                return replace(candidate, curvature=state.curvature) if keep else candidate
            damping = max(8 * damping, 1e-12)
        return self._safe_step(state)

    def _candidate(self, state: NewtonState, damping: float) -> NewtonState | None:
        try:
            direction = self._direction(state, damping)
        except np.linalg.LinAlgError:  # singular to the last bit: more damping will do
            return None
        return self._evaluate(state.prices + direction, damping=max(damping / 20, 1e-13))

    def _safe_step(self, state: NewtonState) -> NewtonState:
        # A proximal-gradient step never increases the envelope; where rounding hides even that, there is nothing left to gain.
        candidate = self._evaluate(state.prices + _GAMMA * self.lam * state.gap, damping=1e-2)
        if candidate.merit <= state.merit or candidate.residual < state.residual:
            return candidate
        return replace(state, stalled=True)

    def _accept(self, old: NewtonState, new: NewtonState) -> bool:
        decrease = old.merit - new.merit
        promised = _GAMMA * self.lam * float(self.share @ (old.gap * old.gap).sum(axis=1))
        if decrease >= max(_DECREASE * promised, _NOISE):
            return True
        smaller = float((new.gap**2).sum()) <= 0.8 * float((old.gap**2).sum())
        # Prices of a class that a group does not use cost epsilon times a weight: too little for the merit to see, and their
        # residual stays at epsilon until they are gone.
        cheaper = new.residual <= (1 + 1e-6) * old.residual and new.unpaid <= 0.9 * old.unpaid
        return decrease >= -_NOISE and (smaller or cheaper)

    def _evaluate(self, prices: Floats, *, damping: float = 1e-3) -> NewtonState:
        gamma = _GAMMA * self.lam
        seen = self.oracle.evaluate(prices, self.lam, curvature=False)
        target = self.bound.project(seen.means + prices / gamma, self.share)
        gap = seen.means - target.means
        # Forward-backward envelope: -F(nu) + <nu, t> - gamma/2 |E|^2 in the weighted inner product; exact and free.
        merit = -seen.value + float(self.share @ (prices * target.means - 0.5 * gamma * gap * gap).sum(axis=1))
        centred = prices - self.share @ prices
        unpaid = self.bound.support(centred, self.share) - float(self.share @ (centred * seen.means).sum(axis=1))
        residual = float(np.abs(gap).max())
        return NewtonState(prices, residual, seen.means, gap, target.clipped, merit, unpaid, None, damping)

    def _direction(self, state: NewtonState, damping: float) -> Floats:
        """Solve ``((I - Q) K + Q / gamma) d = E``, Q the derivative of the projection.

        Entries inside the band have their price driven to 0; those on it share one unknown level per class.
        """
        curvature, clipped = state.curvature, state.clipped
        assert curvature is not None
        held = np.where(clipped, 0.0, -state.prices)
        blocks = curvature.copy()
        np.einsum("skk->sk", blocks)[:] += damping / self.lam
        right = state.gap - np.einsum("skl,sl->sk", curvature, held)
        balance = _GAMMA * self.lam * (self.share @ np.where(clipped, state.gap, 0.0))
        return LevelSystem(blocks, clipped, self.share).solve(right, balance) + held
