"""Newton's steps with every band exact: rows as a quadratic, the support function of the bounds as it is.

Prices are 0 for groups inside their band, so that bounds act like an L1 norm on them. A step that
takes the signs of the prices for given finds one change of sign at a time. Here each step solves
for prices and signs together, on the quadratic model of the rows alone: a small problem in prices,
by an active set. Two or three such steps do where a dozen of the others would.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Flags, Floats, Places
from r2b._solve.oracle.reference import GroupOracle, folded_curvature
from r2b._solve.solvers.newton import Newton, NewtonState
from r2b._solve.solvers.systems import layout_of

_MOST = 512  # prices that are solved for together
_QUICK = 10  # rounds of an active set that changes at once; four are the rule
_ROUNDS = 200  # of one that changes by one
_ZERO = 1e-13  # of the largest price: what rounding leaves of 0
_INEXACT = 0.01  # of the residual: what a model is solved to
_LEAST = 1e-13  # a difference of means that is rounding
_DECREASE = 1e-4  # of the decrease that a model promises: what a step must bring
_TRIES = 2  # along one direction, before another is made with more damping
# times lambda: how far a price may go in a step by itself; the curvature here says little about
# rows farther off
_REACH = 10.0
# factors of the damping: where a step fails, after a whole step and after a shorter one
_MORE, _LESS, _AFTER_SHORT = 10.0, 0.05, 3.0
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e3  # in units of 1 / lam
_NOISE = 1e-15  # differences of the objective below this are rounding
# residual below which the signs are known, and steps that take them for given are as good
_NEAR = 1e-7


class Quadratic(NamedTuple):
    """``x' matrix x / 2 - x' linear``, over scaled prices; and the system of these and of the levels of their balances."""

    matrix: Floats
    linear: Floats
    system: Floats
    right: Floats


@dataclass(frozen=True, eq=False)
class Bands:
    """The bounds entry by entry, over scaled prices ``x = sqrt(share) * price`` of the entries that are bounded.

    Attributes
    ----------
    entries : ndarray of int
        Their places among groups x classes.
    root : ndarray
        ``sqrt(share)``.
    low, high : ndarray
        What a price below and above 0 costs per unit.
    closed : ndarray of bool
        Where both are the same.
    level : ndarray of int
        Which balance an entry takes part in; -1 for none.
    balances : ndarray of shape (n_balances, n_entries)
        ``sum root * x = 0`` over each class of a family that has a level to find.
    """

    entries: Places
    root: Floats
    low: Floats
    high: Floats
    closed: Flags
    level: Places
    balances: Floats

    @classmethod
    def of(cls, parity: Parity) -> Bands | None:
        """Read a constraint; None where its bands are of another kind or its prices too many."""
        if parity.simple:
            return cls._of_range(parity)
        layout = layout_of(parity)
        n_classes = layout.low.shape[1]
        if layout.averaged.any() or (layout.low_slope != layout.high_slope)[layout.bound].any():
            return None
        # signs have nothing to say, and blocks of groups are faster
        if parity.design is None and not layout.band.any():
            return None
        entries = np.flatnonzero(layout.bound)
        if (
            not 0 < len(entries) <= _MOST
            or not (parity.share > 0).all()
            or len(parity.components) > 1
        ):
            return None
        groups, classes = np.divmod(entries, n_classes)
        family = layout.family[groups]
        balanced, level = layout.leveled[family, classes], np.full(len(entries), -1)
        kinds, level[balanced] = np.unique(
            family[balanced] * n_classes + classes[balanced], return_inverse=True
        )
        root = np.sqrt(parity.share)[groups]
        low, high, closed = (
            layout.low.ravel()[entries],
            layout.high.ravel()[entries],
            layout.equal.ravel()[entries],
        )
        return cls(
            entries,
            root,
            low,
            high,
            closed,
            level,
            root * (level == np.arange(len(kinds))[:, None]),
        )

    @classmethod
    def _of_range(cls, parity: Parity) -> Bands | None:
        """Read the paper's constraint: small tables are solved in less time than a general one is written out in."""
        epsilon, share = parity.bound.epsilon, parity.share
        bounded = np.flatnonzero(np.isfinite(epsilon))
        n_groups, n_bounded = len(share), len(bounded)
        if (
            not 0 < n_groups * n_bounded <= _MOST
            or not epsilon[bounded].any()
            or not (share > 0).all()
        ):
            return None
        entries = (len(epsilon) * np.arange(n_groups)[:, None] + bounded).ravel()
        root, high = np.repeat(np.sqrt(share), n_bounded), np.tile(epsilon[bounded], n_groups)
        level = np.tile(np.arange(n_bounded), n_groups)
        return cls(
            entries,
            root,
            np.zeros(len(entries)),
            high,
            high == 0,
            level,
            root * (level == np.arange(n_bounded)[:, None]),
        )

    def scaled(self, prices: Floats) -> Floats:
        """Give the unknowns."""
        return np.asarray(prices.ravel()[self.entries] * self.root)

    def prices(self, x: Floats, shape: tuple[int, ...]) -> Floats:
        """Give prices of all entries."""
        found = np.zeros(shape)
        found.ravel()[self.entries] = x / self.root
        return found

    def cost(self, x: Floats) -> float:
        """Value of the support function."""
        return float(x @ np.where(x > 0, *self._paid))

    @cached_property
    def _paid(self) -> tuple[Floats, Floats]:
        """What a unit of each unknown costs above and below 0."""
        return self.root * self.high, self.root * self.low

    @cached_property
    def _place(self) -> Places:
        """Where the level of an entry's balance is in the system; after its end for none."""
        return np.where(self.level < 0, len(self.balances), self.level) + len(self.entries)

    @cached_property
    def frame(self) -> Floats:
        """The system of rows without curvature: the balances alone."""
        n, m = len(self.entries), len(self.balances)
        frame = np.zeros((n + m, n + m))
        frame[n:, :n], frame[:n, n:] = self.balances, self.balances.T
        return frame

    def model(self, system: Floats, linear: Floats) -> Quadratic:
        """Give the model of rows with this slope, and this curvature in the frame."""
        n, right = len(linear), np.zeros(len(system))
        right[:n] = linear
        return Quadratic(system[:n, :n], linear, system, right)

    def best(self, model: Quadratic, x: Floats, tol: float) -> Floats:
        """Minimise a model and the support function, from prices that are balanced.

        Each round solves for the prices that are not 0 as if their signs stayed, and goes along
        that direction to the best point, which may be beyond changes of sign. Where none changes,
        prices that are 0 and want to leave are let go.

        Raises
        ------
        numpy.linalg.LinAlgError
            The system is singular to the last bit.
        """
        x = np.where(np.abs(x) <= _ZERO * np.abs(x).max(initial=0.0), 0.0, x)
        found = self._at_once(model, x, tol)
        return self._one_by_one(model, x, tol) if found is None else found

    def _at_once(self, model: Quadratic, x: Floats, tol: float) -> Floats | None:
        """Change all signs that are wrong in each round; None where that goes in circles."""
        free, sign, open_ = self.closed | (x != 0), np.sign(x), ~self.closed
        for _ in range(_QUICK):
            x, levels = self._solved(model, free, sign)
            wrong = free & open_ & (x * sign <= 0)
            leaving = self._leaving(
                (model.linear - model.matrix @ x) / self.root, levels, free, tol
            )
            if not wrong.any() and not leaving.any():
                return x
            sign = np.where(wrong, 0.0, sign + leaving)
            free = self.closed | (sign != 0)
        return None

    def _one_by_one(self, model: Quadratic, x: Floats, tol: float) -> Floats:
        free, sign = self.closed | (x != 0), np.sign(x)
        for _ in range(_ROUNDS):
            goal, levels = self._solved(model, free, sign)
            step = goal - x
            wrong = free & (x == 0) & ~self.closed & (step * sign <= 0)
            if wrong.any():  # let go together, but one holds another back
                free &= ~wrong
                continue
            turning = free & ~self.closed & (goal * sign < 0)
            if turning.any():
                x, halted = self._toward(model, x, step, turning)
                free[halted] = False
                sign = np.sign(x)
                continue
            x = goal
            leaving = self._leaving(
                (model.linear - model.matrix @ x) / self.root, levels, free, tol
            )
            if not leaving.any():
                break
            free, sign = free | (leaving != 0), sign + leaving
        return x

    def _solved(self, model: Quadratic, free: Flags, sign: Floats) -> tuple[Floats, Floats]:
        """Solve for free prices of given signs that balance; give all, and the level of each balance, nan where none of it is free."""
        n, alive = len(free), np.zeros(len(model.right) + 1, dtype=bool)
        alive[:n] = free
        alive[self._place[free]] = True
        here = alive[:-1].nonzero()[0]
        right = model.right.copy()
        right[:n] -= np.where(sign > 0, *self._paid)
        found = np.full(len(alive), np.nan)
        found[here] = np.linalg.solve(
            model.system.take(here, axis=0).take(here, axis=1), right[here]
        )
        found[-1] = 0.0
        return np.where(free, found[:n], 0.0), found[n:]

    def _toward(
        self, model: Quadratic, x: Floats, step: Floats, turning: Flags
    ) -> tuple[Floats, Places]:
        """Go to the best point on a line: each price that turns on the way makes it steeper there. Give it, and who stops it at 0."""
        at = np.flatnonzero(turning)
        when = -x[at] / step[at]
        order = np.argsort(when, kind="stable")
        at, when = at[order], when[order]
        # The slope at t is (t - 1) step' M step, as the step ends where it is 0, and what turning
        # adds to it.
        bend = float(step @ model.matrix @ step)
        jumps = np.cumsum((self.high - self.low)[at] * self.root[at] * np.abs(step[at]))
        after = (when - 1.0) * bend + jumps
        stop = int(np.argmax(after >= 0)) if (after >= 0).any() else len(at)
        length = 1.0 - (jumps[stop - 1] if stop else 0.0) / max(bend, np.finfo(float).tiny)
        halted = at[stop : stop + 1] if stop < len(at) and length >= when[stop] else at[:0]
        x = x + (when[stop] if len(halted) else length) * step
        x[halted] = 0.0
        return x, halted

    def _leaving(self, rest: Floats, levels: Floats, free: Flags, tol: float) -> Floats:
        """Give the sign with which a price of 0 leaves, 0 where it stays; ``rest`` is what the model leaves of its mean."""
        apart = rest - levels[self.level]
        leaving = np.where(apart > self.high + tol, 1.0, 0.0) - (apart < self.low - tol)
        leaving[free] = 0.0
        if np.isnan(levels).any():  # no price of a balance is free: two leave together, if any
            alone = np.flatnonzero(np.isnan(levels[self.level]))
            leaving[alone] = 0.0
            order = alone[np.argsort(self.level[alone], kind="stable")]
            first = np.flatnonzero(np.diff(self.level[order], prepend=-2))
            above, below = (rest - self.high)[order], (rest - self.low)[order]
            tops, bottoms = np.maximum.reduceat(above, first), np.minimum.reduceat(below, first)
            counts = np.diff(np.append(first, len(order)))
            wants = np.repeat(tops > bottoms + tol, counts)
            leaving[order[wants & (above == np.repeat(tops, counts))]] = 1.0
            leaving[order[wants & (below == np.repeat(bottoms, counts))]] = -1.0
        return leaving


@dataclass(frozen=True, eq=False)
class BandNewton(Newton):
    """Newton's method with steps that know their bands.

    Attributes
    ----------
    bands : Bands or None
        Of the constraint, one component; where there are none steps are those of :class:`Newton`.
    """

    bands: Bands | None = None

    def step(self, state: NewtonState) -> NewtonState:
        """One accepted step; one of :class:`Newton` where no model helps, or nothing is left to find out about signs."""
        bands, parity = self.bands, self.parity
        if bands is None or self.lean is not None or state.residual < _NEAR:
            return super().step(state)
        x, pull = bands.scaled(parity.settle(state.prices)), bands.scaled(state.means)
        system, n = self._curved(bands, state), len(x)
        diagonal = system.reshape(-1)[: n * len(system) : len(system) + 1]
        damping, added, tol = state.damping, 0.0, max(_INEXACT * state.residual, _LEAST)
        # Few rows near a rare class bend little: its price would go far beyond them, and the step
        # of all be shortened for it.
        diagonal += np.abs(state.gap.ravel()[bands.entries]) / (_REACH * self.lam)
        with suppress(np.linalg.LinAlgError):
            while damping < _MOST_DAMPING:
                diagonal += damping / self.lam - added
                added = damping / self.lam
                goal = bands.best(bands.model(system, pull + system[:n, :n] @ x), x, tol)
                if (found := self._along(bands, state, x, goal - x, damping)) is not None:
                    return found
                damping = max(_MORE * damping, _LEAST_DAMPING)
        return super().step(state)

    def _curved(self, bands: Bands, state: NewtonState) -> Floats:
        """Give the system with the curvature of the rows at these prices."""
        system, n, shape, parity = (
            bands.frame.copy(),
            len(bands.entries),
            state.prices.shape,
            self.parity,
        )
        if n == state.prices.size and parity.simple and not isinstance(self.oracle, GroupOracle):
            # The curvature of a group alone, as shares leave it and unknowns are scaled by their
            # roots.
            each, blocks = (
                np.arange(shape[0]),
                self.oracle.evaluate(state.prices, self.lam, curvature=True).curvature,
            )
            system[:n, :n].reshape(*shape, *shape)[each, :, each] = blocks
            return system
        (block,) = folded_curvature(self.oracle, parity, state.prices, self.lam)
        matrix = block.reshape((state.prices.size,) * 2)
        if n < len(matrix):
            matrix = matrix[bands.entries[:, None], bands.entries]
        system[:n, :n] = matrix / bands.root / bands.root[:, None]
        return system

    def _along(
        self, bands: Bands, state: NewtonState, x: Floats, step: Floats, damping: float
    ) -> NewtonState | None:
        """Go along a direction until the objective is lower by a part of what is promised; None where that is not soon."""
        cost, cost_there = bands.cost(x), bands.cost(x + step)
        promised = float(bands.scaled(state.means) @ step) - (cost_there - cost)
        if not promised > 0:
            return None
        length = 1.0
        for _ in range(_TRIES):
            prices = bands.prices(x + length * step, state.prices.shape)
            factor = _LESS if length == 1.0 else _AFTER_SHORT
            found = self._evaluate(prices, damping=max(factor * damping, _LEAST_DAMPING))
            cost_here = cost_there if length == 1.0 else bands.cost(x + length * step)
            gained = (cost - state.value) - (cost_here - found.value)
            if gained >= _DECREASE * length * promised or (
                abs(gained) <= _NOISE and found.residual < state.residual
            ):
                return found
            # The slopes here and there tell where it is 0.
            slope = cost_there - cost - float(bands.scaled(found.means) @ step)
            length *= float(np.clip(promised / (promised + max(slope, 0.0)), 0.1, 0.7))
        return None
