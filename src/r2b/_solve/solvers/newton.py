"""Semismooth Newton on the prices, with the forward-backward envelope as merit and damping adapted like a trust region.

The prices nu are optimal exactly when ``E(nu) = m(nu) - Proj_C(m(nu) + nu / gamma)`` is zero, m the
group means of the rows' responses and C the set of means that parity allows. E is piecewise affine,
so near the end a step lands on the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.bounds import Projected
from r2b._data.arrays import Flags, Floats
from r2b._data.compute import products
from r2b._solve.oracle.reference import (
    AnyOracle,
    Evaluation,
    GroupOracle,
    evaluated,
    folded_curvature,
)
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.faces import Curvature, FaceSteps, Steps
from r2b._solve.solvers.inverses import SPREAD, inverses
from r2b._solve.solvers.splitting import SidedSteps, sided

_REFINEMENTS, _ROUNDING = 2, 1e-14  # of the right-hand side: where nothing is left to refine


def _inverted(blocks: Floats) -> Floats:
    # Small systems are solved by the thousand: what anything else would cost them counts.
    return np.asarray(np.linalg.inv(blocks)) if blocks.shape[-1] < SPREAD else inverses(blocks)


class LevelSystem:
    """The linear system that Newton and the interior points share: one block per group, one common level per class.

    Find d (groups x classes) and levels l (classes) such that, with M_s symmetric positive
    definite,

        (M_s d_s)_k = r_sk + g_sk l_k          where ``free[s, k]``,      d_sk = 0 elsewhere,
        sum_s W_s g_sk d_sk + o_k l_k = b_k    for every class k with a free entry.

    For the paper's bound all slopes g are 1 and o is 0. Eliminating the groups leaves one L x L
    system for the levels. It is factorised once and solved for several right-hand sides.

    Parameters
    ----------
    blocks : ndarray of shape (n_groups, n_classes, n_classes)
        The matrices M_s; overwritten.
    free : ndarray of bool, shape (n_groups, n_classes), or None
        None for all of them.
    weight : ndarray of shape (n_groups,)
    slope : ndarray of shape (n_groups, n_classes), optional
    corner : ndarray of shape (n_classes,), optional
    """

    def __init__(
        self,
        blocks: Floats,
        free: Flags | None,
        weight: Floats,
        slope: Floats | None = None,
        corner: Floats | None = None,
    ) -> None:
        if free is None:
            self.blocks, self.weight, self.slope, self.corner = blocks, weight, None, None
            self.all_free = self.all_used = True
            self.inverse = _inverted(blocks)
            self.levels = _inverted(
                (weight @ self.inverse.reshape(len(weight), -1)).reshape(blocks.shape[1:])
            )
            return
        self.all_free = bool(free.all())
        if not self.all_free:
            blocks *= free[:, :, None]
            blocks *= free[:, None, :]
            np.einsum("skk->sk", blocks)[~free] = 1.0
        self.blocks = blocks
        self.inverse = _inverted(blocks)
        self.free, self.weight, self.slope, self.corner = free, weight, slope, corner
        self.unused = ~free.any(axis=0) if slope is None else ~(free & (slope != 0)).any(axis=0)
        apart = (
            self.inverse if self.all_free else self.inverse * (free[:, :, None] & free[:, None, :])
        )
        apart = apart if slope is None else apart * slope[:, :, None] * slope[:, None, :]
        schur = (weight @ apart.reshape(len(weight), -1)).reshape(blocks.shape[1:])
        if corner is not None:
            np.einsum("kk->k", schur)[:] += corner
        self.all_used = not self.unused.any()
        if not self.all_used:
            schur[self.unused, self.unused] = 1.0
        self.levels = _inverted(schur)

    def solve(self, right: Floats, balance: Floats) -> Floats:
        """Return d for right-hand sides r (groups x classes) and b (classes)."""
        return self.solve_with_levels(right, balance)[0]

    def solve_with_levels(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Return d and l."""
        d, levels = self.once(right, balance)
        enough = _ROUNDING * max(float(np.abs(right).max()), float(np.abs(balance).max()))
        # Explicit inverses of nearly singular blocks lose digits; refining against the blocks
        # themselves brings them back.
        for _ in range(_REFINEMENTS):
            missing = (
                balance - self._added(d) - (0.0 if self.corner is None else self.corner * levels)
            )
            rest = right + self._sloped(levels) - products(self.blocks, d)
            rest = rest if self.all_free else np.where(self.free, rest, 0.0)
            missing = missing if self.all_used else np.where(self.unused, 0.0, missing)
            if np.abs(rest).max() <= enough and np.abs(missing).max() <= enough:
                break
            more, lift = self.once(rest, missing)
            d, levels = d + more, levels + lift
        return d, levels

    def once(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        """Return d and l without refinement."""
        own = self._apply(right)
        missing = balance - self._added(own)
        levels: Floats = self.levels @ (
            missing if self.all_used else np.where(self.unused, 0.0, missing)
        )
        return own + self._apply(self._sloped(levels)), levels

    def _sloped(self, levels: Floats) -> Floats:
        return levels if self.slope is None else self.slope * levels

    def _added(self, d: Floats) -> Floats:
        return np.asarray(self.weight @ (d if self.slope is None else self.slope * d))

    def _apply(self, right: Floats) -> Floats:
        if self.all_free:
            return (
                np.asarray(np.matmul(self.inverse, right))
                if right.ndim == 1
                else products(self.inverse, right)
            )
        return products(self.inverse, np.where(self.free, right, 0.0)) * self.free


def level_step(
    curvature: Floats,
    clipped: Flags,
    gap: Floats,
    prices: Floats,
    share: Floats,
    damping: float,
    gamma: float = 0.0,
) -> Floats:
    """Give the step of groups that are cells: entries inside the band go to price 0, those on it share one level per class.

    The gap is that of the projection with this gamma; with 0, of any means on the face.
    """
    held = np.where(clipped, 0.0, -prices)
    blocks = curvature.copy()
    np.einsum("skk->sk", blocks)[:] += damping
    balance = share @ np.where(clipped, gamma * gap if gamma else -prices, 0.0)
    return (
        LevelSystem(blocks, clipped, share).solve(gap - products(curvature, held), balance) + held
    )


# classes from which systems are dear enough to find out beforehand which sides of their bands means
# lean on
_SIDED = 32
# of lam over the scale of the design: any value below 1 makes the envelope exact; near 1 the safe
# step is longest
_GAMMA = 0.95
# of the decrease that the safe step guarantees: what a step must bring to be taken
_DECREASE = 1e-4
# a step with an old estimate of the curvature must gain this much, or a new one is made
_SERVES = 0.1
# times its damping, below which a dear step is tried; of the residual: what is left by wrong sides
# of bands
_TRIED, _HALF = 8, 0.5
# of the residual: a step with a sample's curvature that leaves more costs more than it saves, and
# so would the next
_SLOW = 0.3
# steps on a sample before all rows are asked again; of the residual, where they go beyond what it
# can tell
_AHEAD, _FAR = 10, 0.01
# Of what a certificate lets pass, which is 1e-9; of lam: by how far prices out of balance leave
# labels as they are when that is taken away.
_PROVEN, _SETTLED = 0.995e-9, 1e-10
_NOISE = 1e-13  # merit differences below this are rounding; then the residual decides


@dataclass(frozen=True, eq=False)
class NewtonState(State):
    """Where the iteration stands; the residual is the largest entry of E, in units of group means.

    It is stalled where no step was accepted, not even the safe one: the residual is then at the
    rounding level of the problem.

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
    sided : bool
        Whether the next step finds out first which sides of their bands means lean on.
    """

    means: Floats
    gap: Floats
    value: float
    target: Projected
    merit: float
    damping: float = 1e-3
    curvature: Curvature | None = None
    sided: bool = False


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
        Rows that stand for all of them between two passes. They cost a fraction of a pass and leave
        the answer as it is: the residual always comes from all rows. Each pass then gains a factor
        of about the square root of the sample's rows per class and group.
    lean : ndarray of shape (n_groups, n_classes), optional
        Added to the means that the oracle gives, and to its value accordingly: what a sample is
        known to be off by.
    damping : float
        To begin with, in units of 1 / lam.
    long, dear : bool
        Whether a pass over the oracle's rows costs more than the arithmetic of a step; whether only
        steps that gain much are worth theirs.
    sides : bool
        Whether groups share cells, and finding out which sides of their bands means lean on may
        save steps.
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
    sides: bool = False
    dear: bool = False

    @property
    def gamma(self) -> float:
        """The length of the safe step."""
        return _GAMMA * self.lam / self.parity.scale

    def start(self, prices: Floats) -> NewtonState:
        """Evaluate at the given prices."""
        return self._evaluate(prices, damping=self.damping)

    def mean_shift(self, state: NewtonState) -> Floats:
        """Prices that close the gap of the means if no response touches the border of the simplex: then they are exact at once.

        Rejected: starting class labels from zero. There the curvature vanishes and damped steps
        crawl out of the corner.
        """
        return state.prices + self.lam / self.parity.scale * (
            state.means - self.parity.project(state.means).means
        )

    def drift(self, prices: Floats, origin: Floats, part: float) -> Floats:
        """Give what is added to the step that parity asks for where the means at these prices go this part farther from an origin."""
        here = replace(self.start(prices), curvature=self._curvature(self.oracle, prices))
        moved = self._judged(
            prices, Evaluation(here.means + part * (here.means - origin), 0.0, None), self.damping
        )
        first, last = (
            self._steps(state, sides=False)
            for state in (here, replace(moved, curvature=here.curvature))
        )
        return last(self.damping / self.lam) - first(self.damping / self.lam)

    def step(self, state: NewtonState) -> NewtonState:
        """One accepted step; the damping grows by 8 on a rejection and shrinks by 20 on success. A sample that does not help is left."""
        new = self._step(state)
        # Sides of bands are taken for given while that serves; from then on they are found out
        # before each step.
        new = replace(
            new, sided=self.sides and (state.sided or new.residual > _HALF * state.residual)
        )
        return (
            replace(new, stalled=True)
            if (self.dear or self.sample) and new.residual > _SLOW * state.residual
            else new
        )

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
        while damping < (_TRIED * max(state.damping, 1e-12) if self.dear else 1e3):
            candidate = self._candidate(state, steps, damping)
            if candidate is not None and self._accept(state, candidate):
                # Near the answer an estimated curvature hardly changes: it is kept as long as it
                # serves.
                keep = self.sample is not None and candidate.residual <= _SERVES * state.residual
                return replace(candidate, curvature=state.curvature) if keep else candidate
            damping = max(8 * damping, 1e-12)
        return self._safe_step(state)

    def _step_on_sample(self, state: NewtonState) -> NewtonState | None:
        """Step to where the sample, corrected so that it agrees with all rows here, has its answer; None where that is no step ahead.

        A pass over all rows tells the sample's error in the means, and what is left is the change
        of that error on the way. So rows that change sides, which a linear step does not see, cost
        passes over the sample alone.
        """
        if self.sample is None:
            return None
        seen = evaluated(self.sample, self.parity, state.prices, self.lam)
        blind = replace(self, oracle=self.sample, sample=None, lean=state.means - seen.means)
        here = replace(
            blind._judged(state.prices, seen, state.damping),
            curvature=state.curvature,
            sided=state.sided,
        )
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
            # Where steps are dear, damping that had to grow stays for the next one: what fails
            # costs as much as what serves.
            found = self._evaluate(
                prices,
                damping=damping if ahead and damping > state.damping else max(damping / 20, 1e-13),
            )
            turned: Flags = (state.prices * prices < 0) & self.parity.banded
            if (
                damping == state.damping
                and turned.any()
                and not (ahead or state.sided)
                and not self._accept(state, found)
            ):
                # A price that turns its sign jumps across its band: the step is made again with it
                # at 0, inside. Later tries are short.
                prices = state.prices + self._steps(self._released(state, turned))(
                    damping / self.lam
                )
                found = self._evaluate(prices, damping=found.damping)
        except np.linalg.LinAlgError:  # singular to the last bit: more damping will do
            return None
        return found

    def _looks_ahead(self, state: NewtonState) -> bool:
        """Whether a step costs so much that sides of bands are found out before it, and damping is changed with care."""
        many = self.long or state.prices.shape[1] >= _SIDED
        return (
            many and state.curvature is not None and isinstance(state.curvature.blocks, np.ndarray)
        )

    def _released(self, state: NewtonState, entries: Flags) -> NewtonState:
        """See a state as if the bound did not hold these entries."""
        target = state.target
        means = np.where(entries, state.means + state.prices / self.gamma, target.means)
        return replace(
            state,
            gap=state.means - means,
            target=replace(target, means=means, clipped=target.clipped & ~entries),
        )

    def _safe_step(self, state: NewtonState) -> NewtonState:
        # A proximal-gradient step never increases the envelope; where rounding hides even that,
        # there is nothing left to gain.
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
        # Prices of a class that a group does not use cost epsilon times a weight: too little for
        # the merit to see, and their residual stays at epsilon until they are gone.
        return new.residual <= (1 + 1e-6) * old.residual and self._unpaid(
            new
        ) <= 0.9 * self._unpaid(old)

    def proves(self, state: NewtonState, part: float = 1.0) -> bool:
        """Tell whether a certificate will bear these prices out: rows answer them exactly, so that what groups leave is the whole gap."""
        if self.sample is not None or self.lean is not None or self.doubts(state, part):
            return False
        return (
            float(np.abs(self.parity.settle(state.prices) - state.prices).max())
            <= _SETTLED * self.lam
        )

    def doubts(self, state: NewtonState, part: float = 1.0) -> bool:
        """Tell whether means are too far outside their bounds for this part of what a certificate lets pass, or prices leave a gap."""
        if self.parity.violation(state.means) > part * _PROVEN:
            return True
        # The merit is the objective, up to its sign and what is left to gain: no more than the size
        # of its terms.
        return abs(self._unpaid(state)) > part * _PROVEN * abs(state.merit)

    def _unpaid(self, state: NewtonState) -> float:
        """Give what the groups leave on the table: the support function at the prices minus what they pay.

        It is free of cancellation, so it still tells two points apart where their merits agree to
        rounding.
        """
        return self.parity.support(
            settled := self.parity.settle(state.prices)
        ) - self.parity.product(settled, state.means)

    def _evaluate(self, prices: Floats, *, damping: float = 1e-3) -> NewtonState:
        return self._judged(prices, evaluated(self.oracle, self.parity, prices, self.lam), damping)

    def _judged(self, prices: Floats, seen: Evaluation, damping: float) -> NewtonState:
        parity, gamma, means, value = self.parity, self.gamma, seen.means, seen.value
        if self.lean is not None:
            means, value = means + self.lean, value + parity.product(prices, self.lean)
        target = parity.project(means + prices / gamma, prices)
        gap = means - target.means
        # Forward-backward envelope: -F(nu) + <nu, t> - gamma/2 |E|^2 in the weighted inner product;
        # exact and free.
        merit = (
            -value + parity.product(prices, target.means) - 0.5 * gamma * parity.product(gap, gap)
        )
        residual = float(np.abs(gap).max())
        return NewtonState(prices, residual, means, gap, value, target, merit, damping)

    def _serving(self, state: NewtonState, oracle: AnyOracle) -> Curvature:
        """Give the curvature of a state, or a new one where it has none for all prices that its step may move."""
        # Prices of a family that does not lean on the bound of a class are 0 there and stay so.
        moving: Flags = state.target.clipped | (state.prices != 0)
        for member in self.parity.members:
            moving[member.groups] = moving[member.groups].any(axis=0)
        if (has := state.curvature) is not None and (
            has.entries is None or not (moving & ~has.entries).any()
        ):
            return has
        return self._curvature(oracle, state.prices, moving)

    def _curvature(
        self, oracle: AnyOracle, prices: Floats, entries: Flags | None = None
    ) -> Curvature:
        if self.parity.by_levels and not isinstance(oracle, GroupOracle):
            return Curvature(oracle.evaluate(prices, self.lam, curvature=True).curvature, [])
        known = entries if isinstance(oracle, GroupOracle) else None
        return Curvature(
            None, folded_curvature(oracle, self.parity, prices, self.lam, known), known
        )

    def _steps(self, state: NewtonState, *, sides: bool = True) -> Steps:
        """Give the steps from here by their damping; for a system that is singular to the last bit they raise LinAlgError."""
        assert state.curvature is not None
        blocks, parity = state.curvature.blocks, self.parity
        if blocks is None:
            if sides and state.sided:
                return SidedSteps(
                    parity, state.curvature, state.prices, state.means, state.target, state.residual
                )
            return FaceSteps(
                parity, state.target, state.gap, state.curvature.components, state.gap, self.gamma
            )
        if self._looks_ahead(state) and parity.banded.any():
            return partial(self._sided_step, state, blocks)
        return lambda damping: level_step(
            blocks, state.target.clipped, state.gap, state.prices, parity.share, damping, self.gamma
        )

    def _sided_step(self, state: NewtonState, blocks: Floats, damping: float) -> Floats:
        """Give the step on the face where the model of the rows has its answer."""
        seen = sided(
            self.parity, blocks, state.prices, state.means, state.target, damping, state.residual
        )
        return level_step(
            blocks, seen.clipped, state.means - seen.means, state.prices, self.parity.share, damping
        )
