"""Which solver when: a path in lambda, Newton, the interior point where Newton stalls, and a polish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
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
_MANY_CLASSES = 50  # from here on all merged rows go to the interior point first, whose steps hardly grow with the classes
_PREPARE = 1e-3  # residual at which a stage on an easier problem has done its part


def exact_plan(problem: Problem, oracle: Oracle, samples: tuple[Oracle, Oracle] | None, tol: float) -> Iterator[Stage]:
    """Stages that lead to the optimum, in the order in which they are tried."""
    newton = Newton(oracle, problem.bound, problem.share, float(problem.lam))
    attempts = [_by_newton(problem, oracle, samples, newton, tol)]
    if problem.rows.labels.size <= _NET_ENTRIES:
        net = [_by_interior(problem, newton, tol, *start) for start in _STARTS]
        attempts = net + attempts if _starts_in_a_corner(problem) else attempts + net
    for attempt in attempts:
        yield from attempt
    yield Stage(newton, tol, 10_000)


def _by_interior(problem: Problem, newton: Newton, tol: float, middle: float, products: float) -> Iterator[Stage]:
    interior = Interior(problem, middle, products)
    yield Stage(interior, 0.0, 100, final=False)
    yield Stage(newton, tol, _POLISH, refine=partial(_on_face, interior))


def _by_newton(problem: Problem, oracle: Oracle, samples: tuple[Oracle, Oracle] | None, newton: Newton, tol: float) -> Iterator[Stage]:
    lam, bound, share = float(problem.lam), problem.bound, problem.share
    small, large = samples or (oracle, None)
    for step, easier in enumerate([*_path(lam), *([lam] if samples else [])]):
        gentler = Newton(small, bound, share, easier, name=f"prepare, lam {easier:.3g}")
        yield Stage(gentler, _PREPARE, 20, final=False, refine=partial(_shifted, gentler) if step == 0 else None)
    if large is not None:
        yield Stage(Newton(oracle, bound, share, lam, large, name="newton, sampled curvature"), tol, _SAMPLED_PATIENCE)
    yield Stage(newton, tol, _PATIENCE, refine=None if samples else partial(_shifted, newton))


def _starts_in_a_corner(problem: Problem) -> bool:
    """Whether rows sit in corners of the simplex, where the dual has no curvature and Newton's steps grow with classes and groups.

    With two groups and few classes Newton is done in half the time all the same.
    """
    return problem.rows.merged and (problem.n_classes >= _MANY_CLASSES or (problem.rows.one_hot and problem.n_groups > 2))


def _on_face(interior: Interior, state: NewtonState, last: InteriorState) -> Iterator[Floats]:
    # A product is told to belong to one side where that side is larger; where rounding blurs this, the next guess leans to either.
    for lean in (1.0, 1e3, 1e-3):
        with suppress(np.linalg.LinAlgError):
            yield from interior.at_face(last, lean)


def _shifted(newton: Newton, state: NewtonState, last: object) -> Iterator[Floats]:
    yield newton.mean_shift(state)


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
