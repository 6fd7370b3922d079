"""Which solver when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from r2b._data.arrays import Floats
from r2b._data.compute import one_blas_thread, refuse_beyond_memory
from r2b._data.merge import Extent
from r2b._solve.certificate import Problem
from r2b._solve.oracle import ClassOracle, Oracle, Samples
from r2b._solve.settings import SETTINGS, TOLERANCE
from r2b._solve.solvers.agreement import infeasible
from r2b._solve.solvers.driver import Limits, Outcome, Stage, Status, run
from r2b._solve.solvers.interior import InteriorPoint
from r2b._solve.solvers.linear import entries_of
from r2b._solve.solvers.newton import Newton
from r2b._solve.solvers.thresholds import Thresholds


def stages(
    problem: Problem, oracle: Oracle, samples: Samples | None, tol: float, *, warm: bool
) -> Iterator[Stage]:
    """Yield the stages of a solve, in the order in which they are tried.

    Thresholds for class labels under the paper's constraint. Then Newton's method for long tables:
    many rows for each price make the problem nearly smooth. Then the interior-point method, where
    the rows fit in memory a few times over; and Newton's method again.
    """
    newton = Newton(oracle, problem.parity, float(problem.lam))
    if isinstance(oracle, ClassOracle) and takes_thresholds(problem):
        thresholds = Thresholds(oracle, problem.parity, float(problem.lam))
        yield Stage(thresholds, 0.01 * tol, SETTINGS.threshold_steps)
        if not blocks_fit(problem):
            return
    elif warm:  # from prices that are near the answer
        yield Stage(newton, tol, SETTINGS.newton_steps // 4)
    by_newton = _by_newton(newton, samples, tol, warm=warm)
    if not fits_interior(problem):
        attempts = [by_newton]
    elif len(problem.rows_in_memory.cells) > SETTINGS.rows_per_price * problem.n_prices:
        attempts = [by_newton, _by_interior(problem, newton, tol)]
    else:
        attempts = [_by_interior(problem, newton, tol)]
    yield from chain(*attempts)
    yield Stage(newton, tol, 10 * SETTINGS.newton_steps)


def _by_interior(problem: Problem, newton: Newton, tol: float) -> Iterator[Stage]:
    """Yield the interior-point method from every start, each followed by Newton's method."""
    for start_at in SETTINGS.starts:
        interior = InteriorPoint(problem, newton, tol, start_at)
        yield Stage(interior, 0.0, SETTINGS.interior_steps, final=False)
        yield Stage(newton, tol, SETTINGS.newton_steps // 2)


def _by_newton(
    newton: Newton, samples: Samples | None, tol: float, *, warm: bool
) -> Iterator[Stage]:
    """Newton's method: down to lam by thirds, on a sample where there is one, then on all rows."""
    lam, steps = newton.lam, SETTINGS.newton_steps
    small = newton if samples is None else replace(newton, oracle=samples.small)
    thirds = int(np.ceil(np.log(1.0 / lam) / np.log(3.0))) if lam < 1.0 and not warm else 0
    for power in range(thirds, 0, -1):
        easier = replace(small, lam=lam * 3.0**power, name="newton, larger lam")
        yield Stage(easier, SETTINGS.near, steps // 3, final=False)
    if samples is not None:
        sampled = replace(small, name="newton, sample")
        yield Stage(sampled, SETTINGS.near, steps // 3, final=False)
        estimated = replace(newton, sample=samples.large, name="newton, sampled steps")
        yield Stage(estimated, tol, steps // 4)
    yield Stage(newton, tol, steps)


def takes_thresholds(problem: Problem) -> bool:
    """Whether this is the paper's constraint, every group with weight."""
    return problem.parity.simple and bool((problem.parity.share > 0).all())


def blocks_fit(problem: Problem) -> bool:
    """Whether a matrix of the classes for each group fits."""
    return problem.n_groups * problem.n_classes**2 <= SETTINGS.block_entries


def fits_interior(problem: Problem) -> bool:
    """Whether the copies of the rows and the systems of the interior-point method fit."""
    if isinstance(problem.rows, Extent) or problem.rows.entries > SETTINGS.interior_entries:
        return False
    if entries_of(problem.parity).disjoint:
        return blocks_fit(problem)
    return problem.n_prices <= SETTINGS.dense_prices


def refuse_large_systems(problem: Problem) -> None:
    """Refuse groups that share rows, or a mean, where the system of their prices does not fit.

    Raises
    ------
    MemoryLimitError
    """
    if entries_of(problem.parity).disjoint:
        return
    remedy = (
        "Bound the differences between groups (`bound='range'`), which is solved group by group; "
        if problem.parity.design is None
        else "Bound crossings no less closely than margins, or ask for `families='crossed'` alone; "
    )
    refuse_beyond_memory(
        5 * 8 * problem.n_prices**2,
        f"The system for the prices of {problem.n_groups:,} groups that share rows or a mean, "
        f"in {problem.n_classes:,} classes,",
        remedy=f"{remedy}put small groups together "
        "(`min_group_size`, `small_groups='merge'`), or rare classes.",
    )


def solve(
    problem: Problem,
    oracle: Oracle,
    *,
    samples: Samples | None = None,
    tol: float = TOLERANCE,
    limits: Limits | None = None,
    start: Floats | None = None,
) -> Outcome:
    """Solve a problem for its prices.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Reads the problem's rows.
    samples : Samples, optional
        Of its rows, to come near cheaply.
    tol : float
        Residual in units of group means.
    limits : Limits, optional
    start : ndarray of shape (n_groups, n_classes), optional
        Prices near the answer, such as those of a similar problem.
    """
    prices = np.zeros((problem.n_groups, problem.n_outcomes)) if start is None else start
    plan = stages(problem, oracle, samples, tol, warm=start is not None)
    with one_blas_thread(problem.rows.entries):
        refuse_large_systems(problem)
        outcome = run(plan, prices, limits or Limits(), problem.parity)
    unsolved = outcome.status in (Status.STALLED, Status.OUT_OF_ITERATIONS)
    if unsolved and not isinstance(problem.rows, Extent) and infeasible(problem):
        outcome.status = Status.INFEASIBLE
    # Of prices that are as good, such as those that differ by a constant, take the simplest.
    outcome.prices = problem.parity.canonical(outcome.prices, problem.reach)
    return outcome
