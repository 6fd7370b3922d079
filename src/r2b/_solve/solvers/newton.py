"""Semismooth Newton on the prices, with the forward-backward envelope as merit and damping adapted like a trust region.

The prices nu are optimal exactly when ``E(nu) = m(nu) - Proj_C(m(nu) + nu / gamma)`` is zero, m the group means of the rows' responses and
C the set of means that parity allows. E is piecewise affine, so near the end a step lands on the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Projected
from r2b._data.arrays import Flags, Floats
from r2b._solve.oracle.reference import AnyOracle, Evaluation, GroupOracle, evaluated, folded_curvature
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.faces import FaceSteps, Steps
from r2b._solve.solvers.levels import LevelSystem, face_step, groups_in_parts, level_step, products
from r2b._solve.solvers.splitting import sided

__all__ = ["Curvature", "LevelSystem", "Newton", "NewtonState", "groups_in_parts", "level_step", "products"]


@dataclass(frozen=True, eq=False)
class Curvature:
    """Minus the derivative of the group means by the prices.

    Attributes
    ----------
    blocks : ndarray of shape (n_groups, n_classes, n_classes) or None
        Where every group is a cell.
    components : list of ndarray of shape (n, n_classes, n, n_classes)
        Else, for each component of the constraint with n groups, the derivative times the share of the group it is of: symmetric.
    entries : ndarray of bool, shape (n_groups, n_classes), optional
        The prices that it is known for, where it is not all of them.
    """

    blocks: Floats | None
    components: list[Floats]
    entries: Flags | None = None


_SIDED = 32  # classes from which systems are dear enough to find out beforehand which sides of their bands means lean on
_GAMMA = 0.95  # of lam over the scale of the design: any value below 1 makes the envelope exact; near 1 the safe step is longest
_DECREASE = 1e-4  # of the decrease that the safe step guarantees: what a step must bring to be taken
_SERVES = 0.1  # a step with an old estimate of the curvature must gain this much, or a new one is made
_SLOW = 0.3  # of the residual: a step with a sample's curvature that leaves more costs more than it saves, and so would the next
_AHEAD = 10  # steps on a sample before all rows are asked again
_FAR = 0.01  # of the residual: where steps on a sample go beyond what the sample can tell
_PROVEN = 0.9e-9  # of what a certificate lets pass, which is 1e-9
_SETTLED = 1e-10  # of lam: by how much prices may be out of balance for labels to stay as they are when that is taken away
_NOISE = 1e-13  # merit differences below this are rounding; then the residual decides


@dataclass(frozen=True, eq=False)
class NewtonState(State):
    """Where the iteration stands; the residual is the largest entry of E, in units of group means.

    It is stalled where no step was accepted, not even the safe one: the residual is then at the rounding level of the problem.

    Attributes
    ----------
    means, gap : ndarray of shape (n_groups, n_classes)
        Group means of the responses, and E.
    value : float
        What the rows pay.
    target : Projected
        The projection, with the face that it landed on.
    merit : float
        The forward-backward envelope.
    damping : float
        Added to the curvature, in units of 1 / lam.
    curvature : Curvature or None
        None until a step is taken from here.
    """

    means: Floats
    gap: Floats
    value: float
    target: Projected
    merit: float
    damping: float = 1e-3
    curvature: Curvature | None = None


@dataclass(frozen=True, eq=False)
class Newton:
    """Settings of the Newton solver for one problem.

    Attributes
    ----------
    near : float
        Residual on a sample from which on what the sample lacks decides.
    oracle : Oracle or GroupOracle
    parity : Parity
    lam : float
    sample : Oracle or GroupOracle, optional
        Rows that stand for all of them between two passes. They cost a fraction of a pass and leave the answer as it is: the residual
        always comes from all rows. Each pass then gains a factor of about the square root of the sample's rows per class and group.
    lean : ndarray of shape (n_groups, n_classes), optional
        Added to the means that the oracle gives, and to its value accordingly: what a sample is known to be off by.
    damping : float
        To begin with, in units of 1 / lam.
    long : bool
        Whether a pass over the oracle's rows costs more than the arithmetic of a step.
    """

    near: ClassVar[float] = 1e-4
    oracle: AnyOracle
    parity: Parity
    lam: float
    sample: AnyOracle | None = None
    name: str = "newton"
    lean: Floats | None = None
    damping: float = 1e-3
    long: bool = False

    @property
    def gamma(self) -> float:
        """The length of the safe step."""
        return _GAMMA * self.lam / self.parity.scale

    def start(self, prices: Floats) -> NewtonState:
        """Evaluate at the given prices."""
        return self._evaluate(prices, damping=self.damping)

    def mean_shift(self, state: NewtonState) -> Floats:
        """Prices that close the gap of the means if no response touches the border of the simplex: then they are exact at once.

        Rejected: starting class labels from zero. There the curvature vanishes and damped steps crawl out of the corner.
        """
        return state.prices + self.lam / self.parity.scale * (state.means - self.parity.project(state.means).means)

    def drift(self, prices: Floats, origin: Floats, part: float) -> Floats:
        """Give what is added to the step that parity asks for where the means at these prices go this part farther from an origin."""
        here = replace(self.start(prices), curvature=self._curvature(self.oracle, prices))
        moved = self._judged(prices, Evaluation(here.means + part * (here.means - origin), 0.0, None), self.damping)
        damping = self.damping / self.lam
        return self._steps(replace(moved, curvature=here.curvature))(damping) - self._steps(here)(damping)

    def step(self, state: NewtonState) -> NewtonState:
        """One accepted step; the damping grows by 8 on a rejection and shrinks by 20 on success. A sample that does not help is left."""
        new = self._step(state)
        slow = self.sample is not None and new.residual > _SLOW * state.residual
        return replace(new, stalled=True) if slow else new

    def _step(self, state: NewtonState) -> NewtonState:
        ahead = self._step_on_sample(state)
        if ahead is not None:
            return ahead
        # Made when a step is taken, not for points that are rejected or final.
        state = replace(state, curvature=self._serving(state, self.sample or self.oracle))
        try:
            damping, steps = state.damping, self._steps(state)
        except np.linalg.LinAlgError:
            return self._safe_step(state)
        while damping < 1e3:
            candidate = self._candidate(state, steps, damping)
            if candidate is not None and self._accept(state, candidate):
                # Near the answer an estimated curvature hardly changes: it is kept as long as it serves.
                keep = self.sample is not None and candidate.residual <= _SERVES * state.residual
                return replace(candidate, curvature=state.curvature) if keep else candidate
            damping = max(8 * damping, 1e-12)
        return self._safe_step(state)

    def _step_on_sample(self, state: NewtonState) -> NewtonState | None:
        """Step to where the sample, corrected so that it agrees with all rows here, has its answer; None where that is no step ahead.

        A pass over all rows tells the sample's error in the means, and what is left is the change of that error on the way. So rows that
        change sides, which a linear step does not see, cost passes over the sample alone.
        """
        if self.sample is None:
            return None
        seen = evaluated(self.sample, self.parity, state.prices, self.lam)
        blind = replace(self, oracle=self.sample, sample=None, lean=state.means - seen.means)
        here = replace(blind._judged(state.prices, seen, state.damping), curvature=state.curvature)
        for _ in range(_AHEAD):
            curvature = self._serving(here, self.sample)
            last, here = here, blind.step(replace(here, curvature=curvature))
            if here.stalled or here.residual <= _FAR * state.residual:
                break
            if here.residual <= _SERVES * last.residual:
                here = replace(here, curvature=curvature)
        if not np.isfinite(here.residual):
            return None
        found = self._evaluate(here.prices, damping=here.damping)
        return replace(found, curvature=curvature) if self._accept(state, found) else None

    def _candidate(self, state: NewtonState, steps: Steps, damping: float) -> NewtonState | None:
        try:
            prices = state.prices + steps(damping / self.lam)
            ahead = self._looks_ahead(state)
            # Where steps are dear, damping that had to grow stays for the next one: what fails costs as much as what serves.
            found = self._evaluate(prices, damping=damping if ahead and damping > state.damping else max(damping / 20, 1e-13))
            turned: Flags = (state.prices * prices < 0) & self.parity.banded
            if damping == state.damping and turned.any() and not ahead and not self._accept(state, found):
                # A price that turns its sign jumps across its band: the step is made again with it at 0, inside. Later tries are short.
                prices = state.prices + self._steps(self._released(state, turned))(damping / self.lam)
                found = self._evaluate(prices, damping=found.damping)
        except np.linalg.LinAlgError:  # singular to the last bit: more damping will do
            return None
        return found

    def _looks_ahead(self, state: NewtonState) -> bool:
        """Whether a step costs so much that sides of bands are found out before it, and damping is changed with care."""
        blocks = None if state.curvature is None else state.curvature.blocks
        return isinstance(blocks, np.ndarray) and (self.long or blocks.shape[1] >= _SIDED)

    def _released(self, state: NewtonState, entries: Flags) -> NewtonState:
        """See a state as if the bound did not hold these entries."""
        target = state.target
        means = np.where(entries, state.means + state.prices / self.gamma, target.means)
        return replace(state, gap=state.means - means, target=replace(target, means=means, clipped=target.clipped & ~entries))

    def _safe_step(self, state: NewtonState) -> NewtonState:
        # A proximal-gradient step never increases the envelope; where rounding hides even that, there is nothing left to gain.
        candidate = self._evaluate(state.prices + self.gamma * state.gap, damping=1e-2)
        if candidate.merit <= state.merit or candidate.residual < state.residual:
            return candidate
        return replace(state, stalled=True)

    def _accept(self, old: NewtonState, new: NewtonState) -> bool:
        decrease = old.merit - new.merit
        promised = self.gamma * self.parity.product(old.gap, old.gap)
        if decrease >= max(_DECREASE * promised, _NOISE):
            return True
        if decrease < -_NOISE:
            return False
        if float((new.gap**2).sum()) <= 0.8 * float((old.gap**2).sum()):
            return True
        # Prices of a class that a group does not use cost epsilon times a weight: too little for the merit to see, and their
        # residual stays at epsilon until they are gone.
        return new.residual <= (1 + 1e-6) * old.residual and self._unpaid(new) <= 0.9 * self._unpaid(old)

    def proves(self, state: NewtonState) -> bool:
        """Tell whether a certificate will bear these prices out: rows answer them exactly, so that what groups leave is the whole gap."""
        if self.sample is not None or self.lean is not None or self.doubts(state):
            return False
        return float(np.abs(self.parity.settle(state.prices) - state.prices).max()) <= _SETTLED * self.lam

    def doubts(self, state: NewtonState) -> bool:
        """Tell whether means are too far outside their bounds for a certificate, or prices so large that it may see a gap."""
        if self.parity.violation(state.means) > _PROVEN:
            return True
        # The merit is the objective, up to its sign and what is left to gain: no more than the size of its terms.
        return abs(self._unpaid(state)) > _PROVEN * abs(state.merit)

    def _unpaid(self, state: NewtonState) -> float:
        """Give what the groups leave on the table: the support function at the prices minus what they pay.

        It is free of cancellation, so it still tells two points apart where their merits agree to rounding.
        """
        settled = self.parity.settle(state.prices)
        return self.parity.support(settled) - self.parity.product(settled, state.means)

    def _evaluate(self, prices: Floats, *, damping: float = 1e-3) -> NewtonState:
        return self._judged(prices, evaluated(self.oracle, self.parity, prices, self.lam), damping)

    def _judged(self, prices: Floats, seen: Evaluation, damping: float) -> NewtonState:
        parity, gamma = self.parity, self.gamma
        means, value = seen.means, seen.value
        if self.lean is not None:
            means, value = means + self.lean, value + parity.product(prices, self.lean)
        target = parity.project(means + prices / gamma)
        gap = means - target.means
        # Forward-backward envelope: -F(nu) + <nu, t> - gamma/2 |E|^2 in the weighted inner product; exact and free.
        merit = -value + parity.product(prices, target.means) - 0.5 * gamma * parity.product(gap, gap)
        residual = float(np.abs(gap).max())
        return NewtonState(prices, residual, means, gap, value, target, merit, damping)

    def _serving(self, state: NewtonState, oracle: AnyOracle) -> Curvature:
        """Give the curvature of a state, or a new one where it has none for all prices that its step may move."""
        # Prices of a family that does not lean on the bound of a class are 0 there and stay so.
        moving: Flags = state.target.clipped | (state.prices != 0)
        for member in self.parity.members:
            moving[member.groups] = moving[member.groups].any(axis=0)
        if (has := state.curvature) is not None and (has.entries is None or not (moving & ~has.entries).any()):
            return has
        return self._curvature(oracle, state.prices, moving)

    def _curvature(self, oracle: AnyOracle, prices: Floats, entries: Flags | None = None) -> Curvature:
        if self.parity.by_levels and not isinstance(oracle, GroupOracle):
            return Curvature(oracle.evaluate(prices, self.lam, curvature=True).curvature, [])
        known = entries if isinstance(oracle, GroupOracle) else None
        return Curvature(None, folded_curvature(oracle, self.parity, prices, self.lam, known), known)

    def _steps(self, state: NewtonState) -> Steps:
        """Give the steps from here by their damping; for a system that is singular to the last bit they raise LinAlgError."""
        assert state.curvature is not None
        blocks, clipped, parity = state.curvature.blocks, state.target.clipped, self.parity
        if blocks is None:
            return FaceSteps(parity, state.target, state.gap, state.curvature.components, self.gamma)
        if self._looks_ahead(state) and parity.banded.any():
            return partial(self._sided_step, state, blocks)
        return lambda damping: level_step(blocks, clipped, state.gap, state.prices, parity.share, damping, self.gamma)

    def _sided_step(self, state: NewtonState, blocks: Floats, damping: float) -> Floats:
        """Give the step on the face where the model of the rows has its answer: which sides of bands means lean on is no part of a step."""
        parity, prices = self.parity, state.prices
        seen = sided(parity, blocks, prices, state.means, state.target, damping, state.residual)
        balance = -(parity.share @ np.where(seen.clipped, prices, 0.0))
        return face_step(blocks, seen.clipped, state.means - seen.means, prices, parity.share, damping, balance)
