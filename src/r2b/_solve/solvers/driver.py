"""The loop around every solver: when to stop, progress and history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from r2b._constraints.parity import Parity, proves_infeasible, surely_feasible
from r2b._data.arrays import Floats
from r2b._solve.certificate import Proof
from r2b._solve.settings import TOLERANCE


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands, as far as the loop reads it.

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
    """A method that starts from prices and takes steps."""

    @property
    def name(self) -> str:
        """Its name in the history."""
        ...

    def start(self, prices: Floats) -> Any:
        """Return the state at these prices."""
        ...

    def step(self, state: Any) -> Any:
        """Return the state after one step."""
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

    def __reduce__(self) -> Any:  # without it skops cannot store a member
        return type(self), (self.value,)

    @property
    def ok(self) -> bool:
        """Whether the labels are the optimum, as the certificate proves."""
        return self in (Status.SOLVED, Status.ALREADY_FAIR, Status.ONE_GROUP)

    @property
    def advice(self) -> str:
        """One sentence for the user."""
        return _ADVICE[self]


_HOW_FAR = "the certificate says how far these labels are from the optimum."
_ADVICE = {
    Status.SOLVED: "The labels are the optimum; the certificate proves it.",
    Status.ALREADY_FAIR: "The labels met epsilon as they came and are returned unchanged.",
    Status.ONE_GROUP: "There is one group, and nothing to compare; the labels are unchanged.",
    Status.OUT_OF_ITERATIONS: f"Raise `max_iter`; {_HOW_FAR}",
    Status.OUT_OF_TIME: f"Raise `time_limit`; {_HOW_FAR}",
    Status.INTERRUPTED: f"The progress callback stopped the run; {_HOW_FAR}",
    Status.STALLED: "No solver could improve further. Read the certificate, and if it is not good "
    "enough raise `lam` or `tol`, or rescale extreme weights.",
    Status.INFEASIBLE: "No labels are within all of these bounds: raise an epsilon, "
    "or ask for fewer families, another target or smaller offsets.",
    Status.NOT_FINITE: "The computation left the range of floating point: "
    "check for weights or `lam` of extreme size.",
    Status.NOT_CERTIFIED: "The residual is small, but the certificate does not confirm it: "
    "read its gap and parity before use.",
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
        Whether reaching ``tol`` here solves the problem; other stages only prepare prices.
    """

    solver: Solver
    tol: float
    max_iter: int
    final: bool = True


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

    A stage starts at the best prices of the one before.

    Parameters
    ----------
    plan : iterable of Stage
        Consumed lazily: a later stage is built only when it is needed.
    prices : ndarray of shape (n_groups, n_classes)
        Where to start.
    limits : Limits
    parity : Parity, optional
        The constraint of the problem: prices from any stage may prove that no labels meet it.
    """
    doubtful = None if parity is None or surely_feasible(parity) else parity
    outcome, begun = Outcome(prices), time.perf_counter()
    for stage in plan:
        state: State = stage.solver.start(prices)
        best = state
        for taken in range(stage.max_iter + 1):
            # What a solver says last is its best.
            best = state if state.stalled or state.residual < best.residual else best
            if stage.final and state.residual < outcome.residual:
                outcome.prices, outcome.residual = state.prices, state.residual
            steps = outcome.history[-1].iteration if outcome.history else 0
            now = Progress(steps, stage.solver.name, state.residual, time.perf_counter() - begun)
            reason = _ending(state, stage, now, limits, doubtful)
            if reason is not None:
                outcome.status = reason
                return outcome
            if state.stalled or state.residual <= stage.tol or taken == stage.max_iter:
                break
            state = stage.solver.step(state)
            seconds = time.perf_counter() - begun
            outcome.history.append(Progress(steps + 1, stage.solver.name, state.residual, seconds))
        prices = best.prices
    return outcome


def _ending(
    state: State, stage: Stage, now: Progress, limits: Limits, doubtful: Parity | None
) -> Status | None:
    """Return why the run ends here, or None where it goes on."""
    if not np.isfinite(state.residual):
        return Status.NOT_FINITE
    if doubtful is not None and proves_infeasible(doubtful, state.prices):
        return Status.INFEASIBLE
    if stage.final and state.residual <= stage.tol:
        return Status.SOLVED
    if limits.progress is not None and limits.progress(now) is False:
        return Status.INTERRUPTED
    if limits.time_limit is not None and now.seconds >= limits.time_limit:
        return Status.OUT_OF_TIME
    return Status.OUT_OF_ITERATIONS if now.iteration >= limits.max_iter else None


def final_status(outcome: Outcome, proof: Proof, tol: float) -> Status:
    """Return the status that the certificate supports.

    What it proves is solved, however the run ended, unless a smaller tolerance was asked for.
    """
    if outcome.status.ok:
        return outcome.status if proof.holds else Status.NOT_CERTIFIED
    return Status.SOLVED if proof.holds and tol >= TOLERANCE else outcome.status
