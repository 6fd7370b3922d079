"""Semismooth Newton on the prices, globalised by the forward-backward envelope and damping.

Prices nu are optimal exactly when ``E(nu) = m(nu) - Proj_C(m(nu) + nu / gamma)`` is zero, m the
group means of the rows' responses and C the set of means that parity allows. E is piecewise affine,
so near the end a step lands on the answer. With K the derivative of -m and Q that of the
projection, a step d solves

    ((I - Q) (K + damping) + Q / gamma) d = E.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from r2b._constraints.bounds import Projected
from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats
from r2b._data.compute import products
from r2b._solve.oracle import Evaluation, Oracle, evaluated, folded_curvature
from r2b._solve.settings import SETTINGS
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.linear import BlockSystem, Entries, Held, entries_of

_NOISE = 1e-13  # differences of the merit below this are rounding


@dataclass(frozen=True, eq=False)
class NewtonState(State):
    """Where the iteration stands.

    The residual is the largest entry of E, in units of group means, or a tenth of the relative
    duality gap, whichever is larger. It is stalled where no step was accepted, not even the safe
    one: the residual is then at the rounding level of the problem.

    Attributes
    ----------
    means, gap : ndarray of shape (n_groups, n_classes)
        Group means of the responses, and E.
    target : Projected
        The projection, with the face that it landed on.
    merit : float
        The forward-backward envelope.
    unpaid : float
        The part of the duality gap that groups leave.
    damping : float
        Added to the curvature, in units of 1 / lam.
    curvature : ndarray or None
        None until a step is taken from here.
    """

    means: Floats
    gap: Floats
    target: Projected
    merit: float
    unpaid: float
    damping: float
    curvature: Floats | None = None


@dataclass(frozen=True, eq=False)
class Newton:
    """The method for one problem.

    Attributes
    ----------
    oracle : Oracle
    parity : Parity
    lam : float
    sample : Oracle, optional
        Rows that stand for all of them between two passes. The residual always comes from all rows.
    lean : ndarray of shape (n_groups, n_classes), optional
        What the means of a sample are off by: it is added to them, and to the value accordingly.
    name : str
    """

    oracle: Oracle
    parity: Parity
    lam: float
    sample: Oracle | None = None
    lean: Floats | None = None
    name: str = "newton"

    @property
    def gamma(self) -> float:
        """The length of the safe step."""
        return SETTINGS.step_length * self.lam / self.parity.scale

    def start(self, prices: Floats) -> NewtonState:
        """Evaluate at the given prices; without any, at those that close the gap of the means.

        These are exact where no response touches the border of the simplex. From prices of 0 the
        curvature of class labels vanishes, and damped steps would crawl out of the corner.
        """
        state = self._at(prices, SETTINGS.damping)
        if prices.any() or not state.gap.any():
            return state
        gap = state.means - self.parity.project(state.means).means
        shifted = self._at(self.lam / self.parity.scale * gap, SETTINGS.damping)
        return shifted if shifted.residual < state.residual else state

    def step(self, state: NewtonState) -> NewtonState:
        """Take one accepted step; damping grows on a rejection and shrinks on success."""
        if self.sample is not None:
            return self._step_on_sample(state, self.sample)
        if state.curvature is None:
            state = replace(state, curvature=self._curvature(state.prices))
        damping = max(state.damping, 1e-13)
        while damping < 1e3:
            try:
                prices = state.prices + self.direction(state, damping / self.lam)
                candidate = self._at(prices, damping / 20)
            except np.linalg.LinAlgError:  # singular to the last bit: more damping will do
                candidate = None
            if candidate is not None and self._accepts(state, candidate):
                # The curvature of a sample is an estimate, and kept as long as it serves.
                serves = self.lean is not None and candidate.residual <= 0.1 * state.residual
                return replace(candidate, curvature=state.curvature) if serves else candidate
            damping *= 8
        # A proximal-gradient step never increases the envelope; where rounding hides even that,
        # nothing is left to gain.
        safe = self._at(state.prices + self.gamma * state.gap, 1e-2)
        if safe.merit <= state.merit or safe.residual < state.residual:
            return safe
        return replace(state, stalled=True)

    def _step_on_sample(self, state: NewtonState, sample: Oracle) -> NewtonState:
        """Step to the answer of the sample, corrected to have the means of all rows here.

        Stalled where that gains little: what is left is the change of the sample's error on the
        way.
        """
        seen = evaluated(sample, self.parity, state.prices, self.lam)
        lean = state.means - seen.means
        small = replace(self, oracle=sample, sample=None, lean=lean)
        here = replace(small._judged(state.prices, seen, state.damping), curvature=state.curvature)
        for _ in range(10):
            here = small.step(here)
            if here.stalled or here.residual <= 1e-3 * state.residual:
                break
        found = replace(self._at(here.prices, here.damping), curvature=here.curvature)
        if not self._accepts(state, found):
            return replace(state, stalled=True)
        return replace(found, stalled=found.residual > 0.3 * state.residual)

    def direction(self, state: NewtonState, damping: float) -> Floats:
        """Solve the system: entries inside their band get price 0, the others share levels."""
        assert state.curvature is not None
        if state.curvature.ndim == 3:
            return self._by_block(state, state.curvature, damping)
        return self._together(state, state.curvature, damping)

    def _by_block(self, state: NewtonState, blocks: Floats, damping: float) -> Floats:
        entries, clipped = self._entries, state.target.clipped
        start = np.where(clipped, 0.0, -state.prices)
        slope = np.where(clipped, state.target.slope, 0.0)
        held = Held(
            clipped,
            np.full(clipped.shape, damping),
            slope,
            entries.family_sum(np.abs(slope)) > 0,
            np.zeros((len(entries.first), clipped.shape[1])),
        )
        balance = entries.family_sum(entries.share * slope * self.gamma * state.gap)
        right = state.gap - products(blocks, start)
        return start + BlockSystem(entries, blocks, held).solve(right, balance)[0]

    def _together(self, state: NewtonState, curvature: Floats, damping: float) -> Floats:
        parity, gap, target = self.parity, state.gap, state.target
        matrix = curvature / parity.share[:, None, None, None]
        np.einsum("gkgk->gk", matrix)[:] += damping
        for member in parity.members:
            mine, share = member.groups, parity.share[member.groups]
            face = Projected(target.means[mine], target.clipped[mine], target.slope[mine])
            along = member.bound.derivative(face, share)
            leaving = np.eye(len(share)) - along
            matrix[mine] = np.einsum("kgh,hkal->gkal", leaving, matrix[mine], optimize=True)
            of_class = np.einsum("gkhk->kgh", matrix[mine, :, mine])
            of_class += along / self.gamma
        found = np.linalg.solve(matrix.reshape(gap.size, -1), gap.ravel())
        return np.asarray(found.reshape(gap.shape))

    @cached_property
    def _entries(self) -> Entries:
        return entries_of(self.parity)

    def _curvature(self, prices: Floats) -> Floats:
        """Return -dm/dnu: blocks where groups share no rows, else times share for all pairs."""
        oracle, parity = self.oracle, self.parity
        if parity.design is None and self._entries.disjoint and not oracle.by_group:
            seen = oracle.evaluate(parity.shifts(prices), self.lam, curvature=True)
            assert seen.curvature is not None
            return parity.curvature(seen.curvature)
        parts = folded_curvature(oracle, parity, prices, self.lam)
        n_groups, every = len(prices), np.arange(parts[0].shape[1])
        whole = np.zeros((n_groups, len(every), n_groups, len(every)))
        for groups, part in zip(parity.components, parts, strict=True):
            whole[np.ix_(groups, every, groups, every)] = part
        return whole

    def _accepts(self, old: NewtonState, new: NewtonState) -> bool:
        if not np.isfinite(new.residual):
            return False
        decrease = old.merit - new.merit
        promised = self.gamma * self.parity.product(old.gap, old.gap)
        if decrease >= max(SETTINGS.least_decrease * promised, _NOISE):
            return True
        if decrease < -_NOISE:
            return False
        if float((new.gap**2).sum()) <= 0.8 * float((old.gap**2).sum()):
            return True
        # Prices of a class that a group does not use cost too little for the merit to see; what
        # the groups leave unpaid is free of cancellation.
        return new.residual <= (1 + 1e-6) * old.residual and new.unpaid <= 0.9 * old.unpaid

    def _at(self, prices: Floats, damping: float) -> NewtonState:
        seen = evaluated(self.oracle, self.parity, prices, self.lam)
        return self._judged(prices, seen, damping)

    def _judged(self, prices: Floats, seen: Evaluation, damping: float) -> NewtonState:
        parity, gamma = self.parity, self.gamma
        if self.lean is not None:
            value = seen.value + parity.product(prices, self.lean)
            seen = replace(seen, means=seen.means + self.lean, value=value)
        target = parity.project(seen.means + prices / gamma)
        gap = seen.means - target.means
        merit = (
            -seen.value
            + parity.product(prices, target.means)
            - 0.5 * gamma * parity.product(gap, gap)
        )
        settled = parity.settle(prices)
        unpaid = parity.support(settled) - parity.product(settled, seen.means)
        # both terms of the objective are at least this large together
        size = max(abs(merit), 0.5 * self.lam / prices.shape[1])
        residual = max(float(np.abs(gap).max()), 0.1 * abs(unpaid) / size)
        return NewtonState(prices, residual, seen.means, gap, target, merit, unpaid, damping)
