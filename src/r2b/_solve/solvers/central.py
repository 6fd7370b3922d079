"""The loop of a primal-dual interior point, whatever the constraint: predictor, corrector, step lengths, when to stop.

Its prices start a polish by Newton; it is never the last word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from r2b._data.arrays import Floats
from r2b._solve.certificate import Problem
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.rows import RowGaps, RowPoint, RowSide, RowSystem

# Complementarity at which to stop: far below the rounding of the objective, so that the products
# tell on which side of every bound the answer lies even where weights differ by six orders of
# magnitude. The price of an entry inside its band is about this over epsilon, and must be small
# beside epsilon too.
_CENTRAL = 1e-17
_BESIDE_BAND = 1e-6
_ROUNDING = 1e-12  # complementarity below which a step may be lost to rounding
# prices of the largest group, in units of lam or 1, that no feasible problem needs; a part of it
# may take as much more
_RUNAWAY = 1e6
_LONG = 0.9  # a step that no correction need lengthen
_PARTS = (0.75, 0.5, 0.25, 0.1)  # of a correction that are tried where all of it blocks the way
_WORTH = 1.1  # times the step's length, that less of a correction must bring
# Gondzio's: how far products may be from the target, how much longer a step is aimed at
_NEARBY, _FARTHER, _GAINED = 0.1, 0.3, 0.05
_FEASIBLE = 1e-9  # infeasibility that is still rounding
# steps that do not halve the residual, after which none will; the slowest path that gets there
# takes ten or so to halve it
_IDLE = 40


@dataclass(frozen=True, eq=False, kw_only=True)
class CentralPoint:
    """A primal-dual point: rows; prices; slacks a (lower) with duals q; the duals p of upper slacks; levels c."""

    rows: RowPoint
    prices: Floats
    a: Floats
    p: Floats
    q: Floats
    c: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Gaps:
    """Residuals of the rows, of slacks and of the balance of prices, and the largest of them all."""

    rows: RowGaps
    balance: Floats
    largest: float


P = TypeVar("P", bound=CentralPoint)
G = TypeVar("G", bound=Gaps)


class Aim(NamedTuple):
    """Wanted changes of the products x z (rows), p b (upper) and q a (lower)."""

    rows: Floats
    upper: Floats
    lower: Floats


class System(ABC, Generic[P]):
    """The Newton system of the central path at one point, factorised."""

    here: P
    rows: RowSystem
    b: Floats  # the upper slacks

    @abstractmethod
    def upper_change(self, d: P) -> Floats:
        """Give the change of the upper slacks along a direction."""

    def aim(self, target: float, second_order: P | None = None) -> Aim:
        """Give the changes that bring every product to ``target``, with Mehrotra's correction where a predictor is given."""
        here, d = self.here, second_order
        upper, lower = target - here.p * self.b, target - here.q * here.a
        if d is not None:
            upper, lower = upper - d.p * self.upper_change(d), lower - d.q * d.a
        return Aim(self.rows.aim(target, None if d is None else d.rows), upper, lower)

    @abstractmethod
    def direction(self, aim: Aim, *, repair: float) -> P:
        """Direction that makes these changes to first order and removes this part of the infeasibility."""


@dataclass(frozen=True, eq=False)
class InteriorState(State, Generic[P, G]):
    """Where the iteration stands; the residual is the largest of complementarity and infeasibility.

    ``face`` is the face of the answer as the products tell it, and ``looked`` the last one that
    prices were found on. ``halved`` is the residual when it was last halved, ``idle`` steps ago.
    """

    point: P
    off: G
    complementarity: float
    face: bytes = b""
    looked: bytes = b""
    halved: float = np.inf
    idle: int = 0


class CentralPath(ABC, Generic[P, G]):
    """Predictor-corrector method for one problem whose merged rows fit in memory a few times over.

    Parameters
    ----------
    problem : Problem
    middle : float
        Where to start: 0 is at the labels, 1 in the middle of the simplex, where all group means
        agree. At 0.7 it takes a quarter fewer steps than at 1; the few problems that fail from one
        start are solved from another.
    products : float
        Complementarity products at the start, in units of lam / n_classes.
    narrowest : float
        The smallest width of a band.
    """

    name = "interior"
    # for the curvature of an equality; smaller, digits are lost, larger, means no longer meet
    regularisation = 1e-9
    # of the way to the border: nearer, one product would vanish beside the others and block the
    # next step
    shy = 0.995
    face_damping, releases = 1e-9, 3
    # of a direction, beyond the first: they save one iteration in 25, a quarter (47 to 36) where
    # weights differ widely
    corrections = 0

    def __init__(self, problem: Problem, middle: float, products: float, narrowest: float) -> None:
        self.rows = RowSide(problem)
        self.n_prices = problem.n_groups * problem.n_classes
        self.size = problem.parity.share[:, None] / problem.parity.share.max()
        self.middle = middle
        self.mu = products * max(1.0, float(problem.lam)) / problem.n_classes
        self.central = min(_CENTRAL, _BESIDE_BAND * narrowest**2)

    @abstractmethod
    def start(self, prices: Floats) -> InteriorState[P, G]:
        """Start in the middle of every band, with all products equal. Prices of earlier attempts are of no use here."""

    @abstractmethod
    def at_face(self, state: InteriorState[P, G], lean: float = 1.0) -> Iterator[Floats]:
        """Guess prices that are exact on the face where the iteration ended: supports of rows and sides of bands as the products tell them.

        The iterates come to within rounding of that face but not onto it, and where groups differ
        by orders of magnitude in weight Newton cannot tell its sides from the prices alone.
        ``lean`` above 1 counts entries in doubt as positive, below 1 as zero.
        """

    def face(self, state: InteriorState[P, G]) -> bytes:
        """Give the face that the products tell: which entries of rows are positive, and which sides of bands are leant on."""
        at = state.point
        tells = (self.rows.support(at.rows), at.p > self.upper_slacks(at), at.q > at.a)
        return b"".join(np.packbits(each).tobytes() for each in tells)

    @abstractmethod
    def upper_slacks(self, at: P) -> Floats:
        """Give the upper slacks."""

    @abstractmethod
    def infeasibility(self, at: P) -> G:
        """Residuals of the equations that a solution satisfies exactly."""

    @abstractmethod
    def complementarity(self, at: P) -> float:
        """Mean of all products."""

    def moved(self, here: P, d: P, length: float) -> P:
        """Go so far along a direction."""
        small = {
            name: getattr(here, name) + length * getattr(d, name)
            for name in here.__dataclass_fields__
            if name != "rows"
        }
        return replace(here, rows=self.rows.moved(here.rows, d.rows, length), **small)

    @abstractmethod
    def reach(self, here: P, d: P) -> float:
        """Largest step along a direction that keeps everything positive, at most a little over 1."""

    @abstractmethod
    def system(self, here: P, off: G) -> System[P]:
        """Linearise and factorise."""

    def step(self, state: InteriorState[P, G]) -> InteriorState[P, G]:
        """One predictor and one corrector solve with the same factorisation."""
        mu = state.complementarity
        # a step beyond double precision is caught by the checks below
        with np.errstate(all="ignore"):
            try:
                new = self._state(self._advance(state.point, state.off, mu))
            except np.linalg.LinAlgError:
                return replace(state, stalled=True)
        # Rounding makes the residuals of tiny steps bounce; as long as one of both falls and they
        # stay small, prices still improve.
        lost = new.residual > max(state.residual, _FEASIBLE) or (
            new.complementarity >= mu and new.residual >= state.residual
        )
        if mu < _ROUNDING and lost and self.more_digits():
            return self.step(state)
        # Where no labels meet the bounds prices grow without end.
        runaway = float(np.abs(self.size * new.prices).max()) > _RUNAWAY * max(1.0, self.rows.lam)
        if not np.isfinite(new.residual) or runaway or (mu < _ROUNDING and lost):
            return replace(state, stalled=True)
        halved = new.residual <= 0.5 * state.halved
        idle = 0 if halved else state.idle + 1
        return replace(
            new,
            halved=new.residual if halved else state.halved,
            idle=idle,
            stalled=new.stalled or idle >= _IDLE,
        )

    def more_digits(self) -> bool:
        """Ask for more digits of every solution from now on; False where solutions have all that there are."""
        return False

    def _advance(self, here: P, off: G, mu: float) -> P:
        system = self.system(here, off)
        ahead = system.direction(system.aim(0.0), repair=1.0)
        centring = (
            max(self.complementarity(self.moved(here, ahead, self.reach(here, ahead))), 0.0) / mu
        ) ** 3
        d = system.direction(
            system.aim(centring * mu, second_order=ahead), repair=1.0 - min(centring, 1.0)
        )
        length = self.reach(here, d)
        # Tried and left out: pure centring after a short step, and shortening steps to keep lagging
        # products (both make more problems fail than they save).
        if self.corrections and length < _LONG:
            d, length = self._weighed(here, ahead, d, length)
            d, length = self._corrected(system, d, length, centring * mu)
        return self.moved(here, d, min(1.0, self.shy * length))

    def _weighed(self, here: P, ahead: P, d: P, length: float) -> tuple[P, float]:
        """Take less of a correction that blocks the way: what is between the two directions costs no solution."""
        change, best = self.moved(d, ahead, -1.0), (d, length)
        for part in _PARTS:
            less = self.moved(ahead, change, part)
            reached = self.reach(here, less)
            if reached > _WORTH * best[1]:
                best = less, reached
        return best

    def _corrected(self, system: System[P], d: P, length: float, target: float) -> tuple[P, float]:
        """Bring products that would leave the neighbourhood of the path back to it, as long as that lets steps be longer (Gondzio)."""
        here, b = system.here, system.b

        def back(product: Floats) -> Floats:
            wanted = np.clip(product, _NEARBY * target, target / _NEARBY) - product
            return np.maximum(wanted, -target / _NEARBY, out=wanted)

        for _ in range(self.corrections):
            if length >= _LONG:
                break
            far = min(1.0, length + _FARTHER)
            x, z = here.rows.x + far * d.rows.x, here.rows.z + far * d.rows.z
            upper = (here.p + far * d.p) * (b + far * system.upper_change(d))
            aim = Aim(back(x * z), back(upper), back((here.q + far * d.q) * (here.a + far * d.a)))
            better = self.moved(d, system.direction(aim, repair=0.0), 1.0)
            reached = self.reach(here, better)
            if reached < length + _GAINED * _FARTHER:
                break
            d, length = better, reached
        return d, length

    def _state(self, point: P) -> InteriorState[P, G]:
        mu, off = self.complementarity(point), self.infeasibility(point)
        return InteriorState(
            point.prices, max(mu, off.largest), point, off, mu, stalled=mu <= self.central
        )
