"""Which solver when: a path in lambda, Newton, the interior point where Newton stalls, and a polish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from r2b._data.arrays import Floats
from r2b._data.compute import one_blas_thread
from r2b._data.merge import Extent
from r2b._solve.certificate import Problem
from r2b._solve.oracle import ClassOracle, Samples, group_means
from r2b._solve.oracle.reference import AnyOracle
from r2b._solve.solvers.agreement import infeasible
from r2b._solve.solvers.central import CentralPath, InteriorState
from r2b._solve.solvers.driver import NEAR, TOLERANCE, Limits, Outcome, Stage, Status, run
from r2b._solve.solvers.fitting import (
    FEW_UNKNOWNS,
    apart_but_many,
    few_rows_count,
    interior_first,
    interior_fits,
    is_small,
    matrices_fit,
    refuse_large_systems,
    sides_pay,
    steps_fit,
)
from r2b._solve.solvers.general import GeneralInterior
from r2b._solve.solvers.interior import Interior
from r2b._solve.solvers.newton import Newton, NewtonState
from r2b._solve.solvers.small import SmallInterior
from r2b._solve.solvers.thresholds import Thresholds
from r2b._solve.solvers.zoom import Zoom

# Newton steps before the interior point, where nine in ten need fewer than ten, and after it, two
# or three
_PATIENCE, _POLISH = 40, 30
_AT_ONCE = 10  # steps where rows are so few that Newton is there within these or not at all
# where the interior point may look closer; and where a step of Newton's costs more than one of its
_BRIEFLY, _DEARLY = 6, 3
# path of narrowing bounds: where it begins, its factor, its length
_WIDEST, _NARROWER, _NARROWINGS = 1e-2, 10.0**-0.5, 16
# steps on thresholds before that path is taken where the band is narrow and lam below 1
_EARLY = 40
# of an interior point; thirty are the rule, up to 220 where weights differ by orders of magnitude
_CENTRAL_STEPS = 300
# residual from which on steps of Newton's are taken where they are dear: from farther off three do
# not get there
_HOPEFUL = 1e-6
# To look closer in, one after the other. Where groups share rows, prices that all but cancel may be
# far off.
_UNITS, _SHARED_UNITS = (1e-6, 1e-5, 1e-3), (1e-3, 1e-5, 1e-6)
# such a unit where thresholds end short; steps in one, ten as a rule, sixty after thresholds
_AFTER_THRESHOLDS, _ZOOM_STEPS = 1e-3, 80
# of the tolerance, where prices on the face of the answer are there for the asking
_WELL_WITHIN = 0.01
# of the interior point: what fails from one is solved from another
_STARTS = ((0.7, 0.05), (1.0, 0.05), (0.7, 0.5))
# Of that for any constraint: far from the path's end rows and bands repair what they lack in half
# the steps where weights differ widely.
_GENERAL_STARTS = ((0.7, 5.0), (0.7, 0.05), (1.0, 0.5))
_BY_FAR = 1e-2  # of what a certificate lets pass: prices that leave less need no look at their face
# of the tolerance, to which only prices on the right face come while the path is still far from its
# end
_EXACT = 1e-3
# Complementarity below which products may tell the face of the answer; where a look that fails
# costs little, and where it costs ten steps.
_LOOK, _LOOK_SOON, _LOOK_LATE = 1e-7, 1e-4, 1e-12
# on the thresholds of class labels; ten are the rule where lam is 1, a hundred where it is far
# below
_THRESHOLD_STEPS = 150
# with fewer groups or wider bands exact thresholds are found in fewer steps
_MANY_GROUPS, _NARROWEST, _NARROW = 20, 1e-9, 1e-2
# the same for lam below 1, where rows keep their labels up to a price and steps across it go in
# circles
_SOME_GROUPS = 3
_SAMPLED_PATIENCE = 15  # steps with an estimated curvature; four or five are the rule
# entries from which a pass costs more than finding out which sides of bands means lean on
_LONG = 1 << 20
_PREPARE = 1e-3  # residual at which a stage on an easier problem has done its part


def exact_plan(
    problem: Problem, oracle: AnyOracle, samples: Samples | None, tol: float, newton: Newton
) -> Iterator[Stage]:
    """Stages that lead to the optimum, in the order in which they are tried."""
    if _by_structure(problem, oracle):
        led = _narrow_for_many(problem, oracle)
        if led:
            yield from _by_soft_bands(problem, oracle, newton, tol)
        # else the same few steps were taken just now
        if not (led and _soon_left(problem) and matrices_fit(problem)):
            yield from _by_thresholds(problem, oracle, newton, tol)
        if not matrices_fit(problem):
            yield from _by_narrowing(problem, oracle, newton, tol)
            yield from _by_thresholds(problem, oracle, newton, tol, path=True)
            return
        # Thresholds that go in circles are near the answer all the same: there most of it is
        # settled.
        yield from _by_interior(
            partial(Zoom, problem, _AFTER_THRESHOLDS), newton, tol, problem, _ZOOM_STEPS
        )
    if apart_but_many(problem):
        yield from by_interiors(problem, newton, tol, closer=True)
        return
    attempts, last = [_by_newton(problem, oracle, samples, newton, tol)], _PATIENCE
    if not interior_fits(problem):
        attempts.append(_by_narrowing(problem, oracle, newton, tol))
    elif not interior_first(problem, oracle):
        attempts.append(by_interiors(problem, newton, tol, closer=True))
    elif newton.parity.by_levels or problem.n_prices <= FEW_UNKNOWNS:
        attempts.insert(0, by_interiors(problem, newton, tol, closer=True))
    # where a step takes half a second, a path of them has not solved what interior points could not
    else:
        attempts, last = [by_interiors(problem, newton, tol, closer=True)], _AT_ONCE
    yield from chain(*attempts)
    # Where a step is dear, hundreds of them take minutes, and have not solved what an interior
    # point could not.
    dear = replace(newton, dear=True) if last == _AT_ONCE else newton
    yield Stage(
        dear,
        tol,
        10_000 if newton.parity.by_levels or problem.n_prices <= FEW_UNKNOWNS // 4 else last,
    )


def _by_structure(problem: Problem, oracle: AnyOracle) -> bool:
    """Whether these are class labels under the paper's constraint, with an oracle that knows their structure.

    Without compiled kernels many steps, as a small lam needs them, cost more than those of the
    interior point, where that fits.
    """
    if (
        not isinstance(oracle, ClassOracle)
        or not problem.parity.simple
        or not (problem.parity.share > 0).all()
    ):
        return False
    return oracle.kernel_choice == "compiled" or problem.lam >= 1 or not interior_fits(problem)


def _by_thresholds(
    problem: Problem, oracle: AnyOracle, newton: Newton, tol: float, *, path: bool = False
) -> Iterator[Stage]:
    assert isinstance(oracle, ClassOracle)
    thresholds = Thresholds(oracle, problem.parity, float(problem.lam), path)
    # A residual within tol in each of thousands of classes may still leave a gap, and the last step
    # goes to rounding anyway.
    yield Stage(
        thresholds,
        _WELL_WITHIN * tol,
        _EARLY if _soon_left(problem) and not path else (2 if path else 1) * _THRESHOLD_STEPS,
    )
    yield Stage(newton, tol, 0)


def _soon_left(problem: Problem) -> bool:
    """Whether thresholds that are not there soon go in circles."""
    return problem.lam < 1 and 0 < problem.parity.bound.epsilon.min() < 0.1 * _WIDEST


def _narrow_for_many(problem: Problem, oracle: AnyOracle) -> bool:
    """Whether bands are open and so narrow, and groups so many, that nearly all means lean on a side and finding which is the problem."""
    epsilon = problem.parity.bound.epsilon
    compiled = isinstance(oracle, ClassOracle) and oracle.kernel_choice == "compiled"
    many = problem.n_groups >= (_SOME_GROUPS if problem.lam < 1 else _MANY_GROUPS)
    return compiled and many and bool((epsilon >= _NARROWEST).all() and (epsilon <= _NARROW).all())


def _by_soft_bands(
    problem: Problem, oracle: AnyOracle, newton: Newton, tol: float
) -> Iterator[Stage]:
    from r2b._solve.solvers.soft import SoftBands  # only now: its kernels are compiled

    assert isinstance(oracle, ClassOracle)
    yield Stage(
        SoftBands(oracle, problem.parity, float(problem.lam)), 0.0, _CENTRAL_STEPS, final=False
    )
    exact = Thresholds(oracle, problem.parity, float(problem.lam))
    yield Stage(exact, _WELL_WITHIN * tol, _EARLY, refine=_from_last)
    yield Stage(newton, tol, 0)


def _interior(problem: Problem) -> type[CentralPath[Any, Any]]:
    if not problem.parity.simple:
        return GeneralInterior
    return SmallInterior if is_small(problem) else Interior


def by_interiors(
    problem: Problem, newton: Newton, tol: float, *, closer: bool = False
) -> Iterator[Stage]:
    """Give the stages of the interior point, from every start; none where it does not fit. What it leaves may be looked at closer."""
    if not interior_fits(problem):
        return
    method = _interior(problem)
    starts = _GENERAL_STARTS if method is GeneralInterior else _STARTS
    begins: list[Any] = [partial(method, problem, *start) for start in starts]
    if closer:
        # The same from prices of 0, where rows are met exactly: a target of 1e-8 for a class leaves
        # the other starts far off.
        targets = any(member.bound.sides().level == "none" for member in problem.parity.members)
        begins.insert(0 if targets else 1, partial(Zoom, problem, 1.0))
    yield from chain.from_iterable(
        _by_interior(begin, newton, tol, problem if closer else None) for begin in begins
    )


def _by_interior(
    begin: Callable[[], CentralPath[Any, Any]],
    newton: Newton,
    tol: float,
    closer: Problem | None = None,
    most: int = _CENTRAL_STEPS,
) -> Iterator[Stage]:
    interior = begin()  # only now: it keeps copies of the rows
    few = newton.parity.by_levels or interior.n_prices <= FEW_UNKNOWNS
    newton = newton if few or newton.dear else replace(newton, dear=True)
    ahead = _Ahead(
        interior, newton, _EXACT * tol, interior.name, proving=not few and tol >= TOLERANCE
    )
    yield Stage(ahead, 0.0, most, final=False)
    if (proven := ahead.proven) is not None:
        yield Stage(newton, tol, 0, refine=lambda *_: [proven])
    briefly, near = (
        (_BRIEFLY, np.inf)
        if few
        else (_DEARLY if steps_fit(newton, interior.n_prices) else 0, _HOPEFUL)
    )
    steps = _POLISH if few and most == _CENTRAL_STEPS else briefly
    first = steps if closer is None else briefly
    if isinstance(interior, GeneralInterior):
        # Prices of several families may cancel in their shifts and be large: then a residual within
        # tol still leaves a gap.
        yield Stage(newton, _WELL_WITHIN * tol, 0, final=False, refine=partial(_ends_of, interior))
        # Prices that a certificate bears out need no dear steps.
        yield from [
            Stage(newton, tol, each, near=near) for each in ((first,) if few else (0, first))
        ]
    else:
        yield Stage(newton, tol, first, refine=partial(_ends_of, interior))
    if closer is not None:
        ended = ahead.ended
        del interior, ahead  # and the copies of the rows that they keep
        yield from _by_zooming(closer, newton, tol, ended)
        yield Stage(newton, tol, steps if few else 0, near=near)


def _by_zooming(
    problem: Problem, newton: Newton, tol: float, ended: Floats | None
) -> Iterator[Stage]:
    """Look closer at where an interior point ended, at the best prices, and at its end again, each in a unit that they may be off by."""
    first, *others = _UNITS if problem.parity.design is None else _SHARED_UNITS
    yield from _by_interior(partial(Zoom, problem, first, ended), newton, tol, most=_ZOOM_STEPS)
    for unit, near in zip(others, (None, ended), strict=True):
        yield Stage(newton, tol, 0)
        yield from _by_interior(partial(Zoom, problem, unit, near), newton, tol, most=_ZOOM_STEPS)


@dataclass(eq=False)
class _Ahead:
    """An interior point that looks ahead: where its products tell the face of the answer, the prices on it end the path early.

    A look costs about a step, and four steps or more are left when it succeeds. A face is looked at
    once, when two steps agree on it; on small tables as soon as it shows, and those next to it with
    it.

    Attributes
    ----------
    interior : CentralPath
    newton : Newton
        Judges the prices.
    tol : float
        Residual at which they are the answer.
    proving : bool
        Whether to ask of its own prices, too, if a certificate will bear them out by far: where
        systems are dear a face costs ten steps.
    ended : ndarray of shape (n_groups, n_classes) or None
        The interior point's own prices, where it is.
    proven : ndarray of shape (n_groups, n_classes) or None
        Such prices.
    """

    interior: CentralPath[Any, Any]
    newton: Newton
    tol: float
    name: str = "interior"
    proving: bool = False
    ended: Floats | None = None
    proven: Floats | None = None

    @property
    def threshold(self) -> float:
        """Complementarity from which on it looks."""
        soon = _LOOK_SOON if isinstance(self.interior, SmallInterior) else _LOOK
        return (
            soon
            if self.newton.parity.by_levels or self.interior.n_prices <= FEW_UNKNOWNS
            else _LOOK_LATE
        )

    def start(self, prices: Floats) -> InteriorState[Any, Any]:
        """Start the path."""
        self.ended = (state := self.interior.start(prices)).prices
        return state

    def step(self, state: InteriorState[Any, Any]) -> InteriorState[Any, Any]:
        """Take a step, and look ahead."""
        new = self.interior.step(state)
        self.ended = new.prices
        if new.stalled or new.complementarity > self.threshold:
            return new
        if (
            self.proving
            and (found := self.newton.start(new.prices)).residual <= NEAR
            and self.newton.proves(found, _BY_FAR)
        ):
            self.proven = found.prices
            return replace(new, prices=found.prices, residual=found.residual, stalled=True)
        new = replace(new, face=self.interior.face(new), looked=state.looked)
        with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            if isinstance(self.interior, SmallInterior):
                answer = None if new.face == state.face else self.interior.answer(new)
                return (
                    new
                    if answer is None
                    else replace(new, prices=answer[0], residual=answer[1], stalled=True)
                )
            if new.face != state.face or new.face == state.looked:
                return new
            new = replace(new, looked=new.face)
            found = self.newton.start(next(self.interior.at_face(new)))
            # Where it is the right face, damped, one step undoes what the damping left.
            if self.tol < found.residual <= _LOOK and steps_fit(
                self.newton, self.interior.n_prices
            ):
                found = self.newton.step(found)
            if found.residual <= self.tol:
                return replace(new, prices=found.prices, residual=found.residual, stalled=True)
        return new


def _by_narrowing(
    problem: Problem, oracle: AnyOracle, newton: Newton, tol: float
) -> Iterator[Stage]:
    """Narrow bounds by half decades to what they are, each from the best prices of the last: in a wide band the face is easier to find."""
    narrowest = min(float(np.min(member.bound.epsilon)) for member in problem.parity.members)
    solver: Newton | Thresholds = newton
    enough, patience = tol, _PATIENCE
    if _by_structure(problem, oracle):
        assert isinstance(oracle, ClassOracle)
        solver = Thresholds(oracle, problem.parity, float(problem.lam))
        enough, patience = _WELL_WITHIN * tol, _THRESHOLD_STEPS
    for step in range(_NARROWINGS):
        width = _WIDEST * _NARROWER**step
        if width <= 1.5 * narrowest:
            break
        wide = replace(
            solver, parity=problem.parity.at(width, widen=True), name=f"narrow, epsilon {width:.0e}"
        )
        yield Stage(wide, enough, patience, final=False)
    if narrowest < _WIDEST:
        yield Stage(solver, enough, patience, refine=_from_last)
        if solver is not newton:
            yield Stage(newton, tol, 0, refine=_from_last)


def _from_last(state: object, last: object) -> Iterator[Floats]:
    """Guess nothing: where the last stage ended is where to begin, whatever others found before."""
    yield from ()


def _by_newton(
    problem: Problem, oracle: AnyOracle, samples: Samples | None, newton: Newton, tol: float
) -> Iterator[Stage]:
    lam, small = float(problem.lam), samples.small if samples else oracle
    error = (
        None
        if samples is None or samples.error is None
        else group_means(oracle, problem.parity, samples.error)
    )
    for step, easier in enumerate([*_path(lam), *([lam] if samples else [])]):
        # Below 1 rows are drawn into corners, where their labels' error is not theirs.
        lean = None if error is None or easier < 1.0 else error / easier
        gentler = replace(
            newton, oracle=small, lam=easier, name=f"prepare, lam {easier:.3g}", lean=lean
        )
        enough = newton.near if easier == lam else _PREPARE
        yield Stage(
            gentler,
            enough,
            20,
            final=False,
            refine=partial(_shifted, gentler) if step == 0 else None,
        )
    if samples:
        # Passes over all rows: the means of the labels, one to see how far the sample's answer is
        # off, one for each step, and the certificate's. On a million rows of 100 classes there are
        # two steps. Not fewer: no sample tells the answer to better than the square root of its
        # size, so from 1e-4 to a tolerance of 1e-10 takes two or three gains of a hundred or so.
        # Exact curvature would gain more than that and cost more than the pass that it saves.
        sampled = replace(newton, sample=samples.large, name="newton, sampled curvature")
        yield Stage(sampled, tol, _SAMPLED_PATIENCE, refine=_afresh)
    patience = _AT_ONCE if few_rows_count(problem) else _PATIENCE
    yield Stage(
        replace(newton, long=problem.rows.entries >= _LONG),
        tol,
        patience,
        refine=None if samples else partial(_shifted, newton),
    )


def _afresh(state: NewtonState, last: NewtonState) -> Iterator[Floats]:
    # A corrected sample may have no answer, where a bound is met at the border of the simplex
    # alone; its prices are then worth nothing.
    if last.residual > _PREPARE:
        yield np.zeros_like(state.prices)


def _ends_of(interior: CentralPath[Any, Any], state: NewtonState, last: Any) -> Iterator[Floats]:
    """Give its last prices, which are not always those where its own residual was least, then those on the face that it tells."""
    yield last.prices
    # A product belongs to the side that is larger; where rounding blurs this, the next guess leans
    # to either.
    for lean in (1.0, 1e3, 1e-3):
        with suppress(np.linalg.LinAlgError):
            yield from interior.at_face(last, lean)


def _shifted(newton: Newton, state: NewtonState, last: object) -> Iterator[Floats]:
    yield newton.mean_shift(state)


def _path(lam: float) -> list[float]:
    # A small lam bends the dual sharply; each third of it is solved from the last. Above 1 the
    # problem only gets easier.
    steps = int(np.ceil(np.log(1.0 / lam) / np.log(3.0))) if lam < 1.0 else 0
    return [lam * 3.0**power for power in range(steps, 0, -1)]


def solve(
    problem: Problem,
    oracle: AnyOracle,
    *,
    samples: Samples | None = None,
    tol: float = TOLERANCE,
    limits: Limits | None = None,
    start: Floats | None = None,
    newton: Callable[..., Newton] = Newton,
) -> Outcome:
    """Solve a problem for its prices.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle or GroupOracle
        Reads the problem's rows.
    samples : Samples, optional
        Of its rows, to come near cheaply.
    tol : float
        Residual in units of group means.
    limits : Limits, optional
    start : ndarray of shape (n_groups, n_classes), optional
        Prices that are near the answer, such as those of a problem much like this one: Newton goes
        on from them first.
    newton : callable
        Makes the steps, for an oracle whose curvature has a form of its own.
    """
    refuse_large_systems(problem)
    steps = replace(newton(oracle, problem.parity, float(problem.lam)), sides=sides_pay(problem))
    plan = exact_plan(problem, oracle, samples, tol, steps)
    if start is not None and not _by_structure(problem, oracle):
        plan = chain(
            [Stage(replace(steps, sample=samples.large if samples else None), tol, _PATIENCE)], plan
        )
    prices = np.zeros((problem.n_groups, problem.n_classes)) if start is None else start
    # Matrices of small tables are below what a BLAS starts threads for, and the limit costs as much
    # as half a step.
    with nullcontext() if is_small(problem) else one_blas_thread():
        outcome = run(plan, prices, limits or Limits(), problem.parity)
    if (
        outcome.status in (Status.STALLED, Status.OUT_OF_ITERATIONS)
        and not isinstance(problem.rows, Extent)
        and infeasible(problem)
    ):
        outcome.status = Status.INFEASIBLE
    # Within rounding prices have parts that buy nothing, such as a constant per class; the
    # certificate wants them gone.
    outcome.prices = problem.parity.canonical(outcome.prices, problem.reach)
    return outcome
