"""The one loop: stopping, time limit, finiteness, progress and history are decided here, for every solver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from r2b._constraints.parity import Parity
from r2b._constraints.parity.constraint import proves_infeasible, surely_feasible
from r2b._data.arrays import Floats
from r2b._solve.certificate import Certificate

TOLERANCE = 1e-10  # residual that is asked for unless another is
# of a stage, above which no more was asked for than a certificate tells
_AS_ASKED = 0.01 * TOLERANCE
_ROUNDING = 1e-13  # residual below which no step is of use
NEAR = 1e-7  # residual from which prices may be proven optimal


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands: what the loop reads of it.

    Attributes
    ----------
    prices : ndarray of shape (n_groups, n_classes)
    residual : float
        How far they are from optimal.
    stalled : bool
        Another step would not improve them.
    """

    prices: Floats
    residual: float
    stalled: bool = field(default=False, kw_only=True)


class Solver(Protocol):
    """Settings that can start from prices and take one step."""

    @property
    def name(self) -> str:
        """What history calls it."""
        ...

    def start(self, prices: Floats) -> Any:
        """Give the state at these prices."""
        ...

    def step(self, state: Any) -> Any:
        """Give the state after one step."""
        ...


class Status(Enum):
    """What happened; ``advice`` says what to do about it.

    Examples
    --------
    >>> Status.SOLVED.ok, Status.OUT_OF_TIME.ok
    (True, False)
    """

    SOLVED = "solved"
    ALREADY_FAIR = "already fair"
    ONE_GROUP = "one group"
    OUT_OF_ITERATIONS = "out of iterations"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"
    INFEASIBLE = "infeasible"
    NOT_FINITE = "not finite"
    NOT_CERTIFIED = "not certified"

    @property
    def ok(self) -> bool:
        """Whether the labels are the optimum, as the certificate bears out."""
        return self in (Status.SOLVED, Status.ALREADY_FAIR, Status.ONE_GROUP)

    @property
    def advice(self) -> str:
        """One sentence for the user."""
        return _ADVICE[self]


_ADVICE = {
    Status.SOLVED: "The labels are the optimum; the certificate proves it.",
    Status.ALREADY_FAIR: "The labels met epsilon as they came and are returned unchanged.",
    Status.ONE_GROUP: "There is one group, so any labels are in parity with themselves; they are returned unchanged.",
    Status.OUT_OF_ITERATIONS: "Raise max_iter; the certificate says how far these labels are from the optimum.",
    Status.OUT_OF_TIME: "Raise time_limit; the certificate says how far these labels are from the optimum.",
    Status.INTERRUPTED: "The progress callback stopped the run; the certificate says how far these labels are from the optimum.",
    Status.STALLED: "No solver could improve further: the tolerance is below what this problem's scale allows. "
    "Read the certificate, and if it is not good enough raise lam or tol, or rescale extreme weights.",
    Status.INFEASIBLE: "No labels are within all of these bounds: raise an epsilon, "
    "or ask for fewer families, another target or smaller offsets.",
    Status.NOT_FINITE: "The computation left the range of floating point: check for weights or lam of extreme size.",
    Status.NOT_CERTIFIED: "The residual is small but the certificate does not bear it out: read its gap and parity before use.",
}


@dataclass(frozen=True)
class Progress:
    """One line of history.

    Attributes
    ----------
    iteration : int
        Steps taken so far, over all stages.
    stage : str
    residual : float
    seconds : float
        Since the start of the solve.
    """

    iteration: int
    stage: str
    residual: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Stage:
    """One attempt of a plan.

    Attributes
    ----------
    solver : Solver
    tol : float
        Residual at which this stage is done.
    max_iter : int
        Steps after which the plan goes on without it.
    final : bool
        Whether reaching ``tol`` here solves the problem (a stage on an easier problem only prepares
        prices).
    near : float
        Residual from which on steps are taken; above it none is, where they are dear and would lead
        nowhere.
    refine : callable, optional
        Guesses of better prices to begin with, from the first state of this stage and the last of
        the one before; the one with the lowest residual is taken.
    """

    solver: Solver
    tol: float
    max_iter: int
    final: bool = True
    refine: Callable[[Any, Any], Iterable[Floats]] | None = None
    near: float = np.inf


@dataclass(frozen=True)
class Limits:
    """When to stop whatever happens."""

    max_iter: int = 1000
    time_limit: float | None = None
    progress: Callable[[Progress], object] | None = None


@dataclass(eq=False)
class Outcome:
    """What a run leaves: the best prices of a final stage, how good they are, and how it went."""

    prices: Floats
    residual: float = np.inf
    status: Status = Status.STALLED
    history: list[Progress] = field(default_factory=list)


def run(
    plan: Iterable[Stage], prices: Floats, limits: Limits, parity: Parity | None = None
) -> Outcome:
    """Go through the plan until a final stage reaches its tolerance or a limit is met.

    A stage begins at the best prices of the one before; one without guesses of its own at the best
    of any final stage, if that is better.

    Parameters
    ----------
    plan : iterable of Stage
        Consumed lazily: a later stage is built only when it is needed.
    prices : ndarray of shape (n_groups, n_classes)
        Where to start.
    limits : Limits
    parity : Parity, optional
        The constraint of the problem asked for: prices from any stage may prove that no labels meet
        it.
    """
    return _Run(
        limits, Outcome(prices), None if parity is None or surely_feasible(parity) else parity
    ).through(plan, prices)


@dataclass(eq=False)
class _Run:
    """One run: its limits, what it has found so far, and the constraint where that may be impossible."""

    limits: Limits
    outcome: Outcome
    doubtful: Parity | None
    # where steps were taken from, by which solver, and how many
    walked: list[tuple[Solver, Floats, int]] = field(default_factory=list)
    # prices of the problem asked for that a certificate will bear out, though their residual is
    # above tol
    proven: Floats | None = None
    begun: float = field(default_factory=time.perf_counter)

    def through(self, plan: Iterable[Stage], prices: Floats) -> Outcome:
        last: State | None = None
        for stage in plan:
            reason, last, prices = self._stage(stage, prices, last)
            if reason is not None:
                self.outcome.status = reason
                break
        return self.outcome

    def _stage(
        self, stage: Stage, prices: Floats, last: State | None
    ) -> tuple[Status | None, State, Floats]:
        state = best = self._start(stage, prices, last)
        most = 0 if self._knows(stage, state) else stage.max_iter
        for taken in range(most + 1):
            best = state if state.residual < best.residual else best
            reason = self._look(state, stage)
            ended = state.stalled or taken == most or not state.residual <= stage.near
            if reason is not None or ended or self._enough(state, stage):
                break
            state = stage.solver.step(state)
            self.outcome.history.append(
                Progress(self._steps + 1, stage.solver.name, state.residual, self._seconds)
            )
        if reason is None and self.proven is not None:
            self.outcome.prices, reason = self.proven, Status.STALLED
        return reason, state, best.prices

    def _knows(self, stage: Stage, state: State) -> bool:
        """Tell whether as many steps were taken from here before: they would be the same ones."""
        if any(
            solver is stage.solver
            and steps >= stage.max_iter
            and np.array_equal(prices, state.prices)
            for solver, prices, steps in self.walked
        ):
            return True
        if stage.max_iter and stage.final:
            self.walked.append((stage.solver, state.prices, stage.max_iter))
        return False

    def _start(self, stage: Stage, prices: Floats, last: State | None) -> State:
        if (
            stage.final
            and stage.refine is None
            and last is not None
            and self.outcome.residual < last.residual
        ):
            prices = self.outcome.prices
        state: State = stage.solver.start(prices)
        guesses = iter(() if stage.refine is None else stage.refine(state, last))
        # A guess costs about a step: none is made where the prices will do as they are.
        while not self._enough(state, stage) and (guess := next(guesses, None)) is not None:
            guessed: State = stage.solver.start(guess)
            self._prove(guessed, stage)
            state = min(state, guessed, key=lambda candidate: candidate.residual)
        return state

    def _enough(self, state: State, stage: Stage) -> bool:
        """Tell whether a stage is done: where prices are so large that a certificate may see a gap, only when rounding leaves no more."""
        if not state.residual <= stage.tol:
            return False
        if not stage.final or stage.tol > TOLERANCE or state.residual <= _ROUNDING:
            return True
        doubts = getattr(stage.solver, "doubts", None)
        return doubts is None or not doubts(state)

    def _prove(self, state: State, stage: Stage) -> None:
        """Keep prices that will do as they are: in a narrow band the residual asks for more than any label shows."""
        if stage.final and self.proven is None and _AS_ASKED <= stage.tol < state.residual <= NEAR:
            proves = getattr(stage.solver, "proves", None)
            if proves is not None and proves(state):
                self.proven = state.prices

    @property
    def _steps(self) -> int:
        return self.outcome.history[-1].iteration if self.outcome.history else 0

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self.begun

    def _look(self, state: State, stage: Stage) -> Status | None:
        outcome, limits = self.outcome, self.limits
        if not np.isfinite(state.residual):
            return Status.NOT_FINITE
        if self.doubtful is not None and proves_infeasible(self.doubtful, state.prices):
            return Status.INFEASIBLE
        if stage.final and state.residual < outcome.residual:
            outcome.prices, outcome.residual = state.prices, state.residual
        if stage.final and self._enough(state, stage):
            # These, not others with no larger a residual that a certificate may not bear out.
            outcome.prices, outcome.residual = state.prices, state.residual
            return Status.SOLVED
        self._prove(state, stage)
        now = Progress(self._steps, stage.solver.name, state.residual, self._seconds)
        if limits.progress is not None and limits.progress(now) is False:
            return Status.INTERRUPTED
        if limits.time_limit is not None and now.seconds >= limits.time_limit:
            return Status.OUT_OF_TIME
        return Status.OUT_OF_ITERATIONS if now.iteration >= limits.max_iter else None


def final_status(outcome: Outcome, proof: Certificate, tol: float) -> Status:
    """Let the certificate decide: what it proves is solved, however the run ended, unless more was asked for; nothing else is."""
    if outcome.status.ok:
        return outcome.status if proof.holds else Status.NOT_CERTIFIED
    return Status.SOLVED if proof.holds and tol >= TOLERANCE else outcome.status
