"""Which solver when: a path in lambda, Newton, the interior point where Newton stalls, and a polish."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from r2b.lanes import one_blas_thread
from r2b.oracle import Oracle
from r2b.problem import Problem
from r2b.solvers.driver import Limits, Outcome, Stage, run
from r2b.solvers.interior import Interior, InteriorState
from r2b.solvers.newton import Newton, NewtonState

Floats = NDArray[np.float64]

_PATIENCE = 40  # Newton steps before the net is spread: nine in ten problems need fewer than ten
_POLISH = 30  # Newton steps after the interior point; two or three are the rule
_STARTS = ((0.7, 0.05), (1.0, 0.05), (0.7, 0.5))  # of the interior point: what fails from one is solved from another
_NET_ENTRIES = 20_000_000  # the interior point keeps some ten arrays of this many entries
_SAMPLED_PATIENCE = 15  # steps with an estimated curvature; four or five are the rule
_MANY_CLASSES = 50  # from here on merged rows go to the interior point first: its steps do not grow with the classes, Newton's do
_PREPARE = 1e-3  # residual at which a stage on an easier problem has done its part


def exact_plan(problem: Problem, oracle: Oracle, samples: tuple[Oracle, Oracle] | None, tol: float) -> Iterator[Stage]:
    """Stages that lead to the optimum, in the order in which they are tried."""
    lam, bound, share = float(problem.lam), problem.bound, problem.share
    newton = Newton(oracle, bound, share, lam)
    net = problem.rows.labels.size <= _NET_ENTRIES
    if not (net and problem.rows.merged and problem.n_classes >= _MANY_CLASSES):
        yield from _approach(problem, oracle, samples, tol)
        yield Stage(newton, tol, _PATIENCE, refine=None if samples else partial(_shifted, newton))
    for middle, products in _STARTS if net else ():
        interior = Interior(problem, middle, products)
        yield Stage(interior, 0.0, 60, final=False)
        yield Stage(newton, tol, _POLISH, refine=partial(_on_face, interior))
    yield Stage(newton, tol, 10_000)


def _on_face(interior: Interior, state: NewtonState, last: InteriorState) -> Floats:
    return interior.at_face(last)


def _shifted(newton: Newton, state: NewtonState, last: object) -> Floats:
    return newton.mean_shift(state)


def _approach(problem: Problem, oracle: Oracle, samples: tuple[Oracle, Oracle] | None, tol: float) -> Iterator[Stage]:
    lam, bound, share = float(problem.lam), problem.bound, problem.share
    small, large = samples or (oracle, None)
    for step, easier in enumerate([*_path(lam), *([lam] if samples else [])]):
        newton = Newton(small, bound, share, easier, name=f"prepare, lam {easier:.3g}")
        yield Stage(newton, _PREPARE, 20, final=False, refine=partial(_shifted, newton) if step == 0 else None)
    if large is not None:
        yield Stage(Newton(oracle, bound, share, lam, large, name="newton, sampled curvature"), tol, _SAMPLED_PATIENCE)


def _path(lam: float) -> list[float]:
    # A small lam bends the dual sharply; each third of it is solved from the last. Above 1 the problem only gets easier.
    steps = int(np.ceil(np.log(1.0 / lam) / np.log(3.0))) if lam < 1.0 else 0
    return [lam * 3.0**power for power in range(steps, 0, -1)]


def solve(
    problem: Problem, oracle: Oracle, *, samples: tuple[Oracle, Oracle] | None = None, tol: float = 1e-10, limits: Limits | None = None
) -> Outcome:
    """Solve a problem for its prices.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Walks the problem's rows.
    samples : pair of Oracle, optional
        Walk a small sample of them, to come near cheaply, and a larger one, to estimate the curvature.
    tol : float
        Residual in units of group means.
    limits : Limits, optional
    """
    prices = np.zeros((problem.n_groups, problem.n_classes))
    with one_blas_thread():
        outcome = run(exact_plan(problem, oracle, samples, tol), prices, limits or Limits())
    # Prices have a free constant per class within rounding; the certificate wants sum_s W_s nu_sk = 0.
    outcome.prices = outcome.prices - problem.share @ outcome.prices
    return outcome
