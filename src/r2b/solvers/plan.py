"""Which solver when: a path in lambda, Newton, the interior point where Newton stalls, and a polish."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from r2b.oracle import Oracle
from r2b.problem import Problem
from r2b.solvers.driver import Limits, Outcome, Stage, run
from r2b.solvers.interior import Interior
from r2b.solvers.newton import Newton

_PATIENCE = 60  # Newton steps before the net is spread: nine in ten problems need fewer than ten
_NET_ENTRIES = 20_000_000  # the interior point keeps some ten arrays of this many entries
_PREPARE = 1e-3  # residual at which a stage on an easier problem has done its part


def exact_plan(problem: Problem, oracle: Oracle, tol: float) -> Iterator[Stage]:
    """Stages that lead to the optimum, in the order in which they are tried."""
    newton = Newton(oracle, problem.bound, problem.share, float(problem.lam))
    for lam in _path(float(problem.lam)):
        easier = Newton(oracle, problem.bound, problem.share, lam, name=f"newton, lam {lam:.3g}")
        yield Stage(easier, _PREPARE, 20, final=False, refine=easier.mean_shift)
    yield Stage(newton, tol, _PATIENCE, refine=newton.mean_shift)
    if problem.rows.labels.size <= _NET_ENTRIES:
        yield Stage(Interior(problem), 0.0, 100, final=False)
        yield Stage(newton, tol, _PATIENCE)
    yield Stage(newton, tol, 10_000)


def _path(lam: float) -> list[float]:
    # A small lam bends the dual sharply; each third of it is solved from the last. Above 1 the problem only gets easier.
    steps = int(np.ceil(np.log(1.0 / lam) / np.log(3.0))) if lam < 1.0 else 0
    return [lam * 3.0**power for power in range(steps, 0, -1)]


def solve(problem: Problem, oracle: Oracle, *, tol: float = 1e-10, limits: Limits | None = None) -> Outcome:
    """Solve a problem for its prices.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Walks the problem's rows.
    tol : float
        Residual in units of group means.
    limits : Limits, optional
    """
    prices = np.zeros((problem.n_groups, problem.n_classes))
    outcome = run(exact_plan(problem, oracle, tol), prices, limits or Limits())
    # Prices have a free constant per class within rounding; the certificate wants sum_s W_s nu_sk = 0.
    outcome.prices = outcome.prices - problem.share @ outcome.prices
    return outcome
