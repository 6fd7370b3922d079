"""Agreement alone: lambda goes to 0 along a path of prices.

For a linear programme the labels at a small enough lambda are labels at lambda 0, those of least
norm, and prices move along a line from there on. So each lambda is solved from where the last one
points to, on the rows that are still nearly tied there, until prices at the end of the line prove
the labels optimal for lambda 0. Rows that tie are split by the same rule as all: ``P((y - theta) /
lambda)``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._data.compute import one_blas_thread
from r2b._solve.certificate import PROVEN, Certificate, Problem, certify
from r2b._solve.oracle import DesignOracle, MemoryOracle
from r2b._solve.oracle.reference import Responses, inspected, respond
from r2b._solve.oracle.screening import Screened, screened
from r2b._solve.oracle.thinning import thin
from r2b._solve.solvers.agreement import Agreement, infeasible, most_agreement
from r2b._solve.solvers.bands import BandNewton, Bands
from r2b._solve.solvers.corners import Corner
from r2b._solve.solvers.descent import nearest_corner
from r2b._solve.solvers.driver import Limits, Outcome, Progress, Stage, Status, run
from r2b._solve.solvers.newton import Newton
from r2b._solve.solvers.plan import by_interiors, solve
from r2b.errors import MissingExtraError

# lambda to begin with, by how the prices are found there
_FIRST, _FIRST_BY_BANDS, _FIRST_SAMPLED = 0.1, 0.03, 0.01
_NEAR = 1e-3  # residual that will do there
_FIRST_EARLY, _NEAR_EARLY = 0.05, 2e-3  # both, where the end is looked for from there at once
_SHORT = 1 << 13  # entries of a table that a linear programme may be asked about so early
_MANY = 1 << 18  # entries from where on prices are found with a sample before all rows are asked
_SAMPLE, _PER_PRICE = 500, 10  # its rows, at least
# the smallest that is worth a try at once: below, rounding of a row's worth moves its label
_LAST = 1e-7
_LEAST = 1e-9  # below which that is beyond what a certificate lets pass
# residual that will do above this lambda, where the path only shows the way
_ROUGH, _FINE = 1e-4, 2e-4
# residual that will do at the last one, where rounding leaves no less; a certificate lets it pass
_BLURRED = 4e-10
_PATIENCE = 30  # Newton steps for one lambda; five are the rule
_LANDING = 12  # Newton steps from prices of a linear programme; four are the rule
_ROUNDS = 4  # of looking again at all rows for one lambda
_TRIES = 8  # programmes, each with the classes that the prices of the last one ask for
_AHEAD = 1e-6  # of lambda: how far the direction of the path is looked along
_ROUGH_DAMPING = 1e-4  # of Newton's first step on all rows, in units of 1 / lambda
_DAMPING = 1e-3  # of Newton's first step, in units of the curvature that the open rows can have
# times lambda: how far prices are taken to move before its end; steeper slopes are of prices that
# have a choice
_FARTHEST = 10.0
# for the direction of the path; where prices have a choice it keeps them where they are
_UNDAMPED = 1e-9
_WORTH = 1e-7  # gap to expect of the prices themselves from where on they are tried
_PROVEN = 9e-10  # gap on the rows that are left at which all rows are asked

_PROGRAMME = 1 << 15  # entries of a linear programme that is solved at once
# Entries that may still be labelled: a linear programme is faster than the path from its beginning;
# later on; than other ways.
_EARLY_LEAP, _LEAP, _LONG_LEAP = 400, 1_000, 16_000
_DESCENT = 1 << 14  # the same for all of them, where corners are found from prices nearby
_AROUND = 0.8  # times lambda: rows whose best class leads by more are put together there
_ENDS = (1e-5, 1e-6, _LAST)  # lambda at which its prices are tried
_LOOK = 1 << 18  # entries of rows that are left, from where on they are not looked at for that
_FIRST_NEAR = 0.35  # of the margin: classes that a programme begins with
_HOPELESS = 1e-6  # gap or excess from where on no other lambda will do
_LIMITS = (Status.OUT_OF_TIME, Status.OUT_OF_ITERATIONS, Status.INTERRUPTED)

Prove = Callable[[Floats, Responses], Certificate]
Plan = Callable[[Problem, Newton, float], Iterator[Stage]]
Way = tuple[float, float, Plan]


@dataclass(frozen=True, eq=False)
class Sharpened:
    """Labels at a small lambda and prices that prove them optimal for lambda 0.

    Attributes
    ----------
    outcome : Outcome
        With the prices for lambda 0.
    splits : Responses
        Prices and lambda whose best responses are the labels.
    """

    outcome: Outcome
    splits: Responses


def sharpen(
    problem: Problem, oracle: MemoryOracle | DesignOracle, prove: Prove, tol: float, limits: Limits
) -> Sharpened:
    """Minimise ``-sum_i w_i <x_i, y_i>`` over rows of the simplex in parity.

    Parameters
    ----------
    problem : Problem
        With lambda 0.
    oracle : MemoryOracle or DesignOracle
    prove : callable
        Certifies labels on all rows: from prices for lambda 0, and the prices and lambda that tell
        the labels.
    tol : float
        Residual in units of group means.
    limits : Limits
    """
    begun = time.perf_counter()
    free = Responses(np.zeros((problem.n_groups, problem.n_classes)), _LAST)
    if (
        Newton(oracle, problem.parity, _LAST).start(free.prices).residual <= tol
        and prove(free.prices, free).holds
    ):
        return Sharpened(Outcome(free.prices, 0.0, Status.SOLVED), free)
    samples, scale = oracle.samples(), max(1.0, problem.costliest)
    bands = Bands.of(problem.parity) if samples is None else None
    descends = bands is not None and oracle.kernel_choice == "compiled"
    early = descends or (bands is not None and oracle.rows.entries <= _SHORT)
    lam = scale * (
        _FIRST_SAMPLED
        if samples is not None
        else _FIRST
        if bands is None
        else _FIRST_EARLY
        if early
        else _FIRST_BY_BANDS
    )
    begin, enough = replace(problem, lam=lam), max(tol, _NEAR_EARLY if early else _NEAR)
    if samples is None:
        first = _first(begin, oracle, bands, enough, limits)
    else:
        first = solve(begin, oracle, samples=samples, tol=enough, limits=limits)
    if not first.status.ok:
        return Sharpened(first, Responses(first.prices, lam))
    prices = first.prices
    # a path that was followed roughly may miss an end that another finds
    for fine in (_FINE, np.inf):
        first.prices, first.status = prices, Status.STALLED
        with one_blas_thread():
            found = _Path(
                problem, oracle, prove, tol, limits, first, lam, begun, fine, bands, descends, early
            ).to_zero()
        if first.status is not Status.STALLED:
            break
    # by less than what will do at the first lambda
    if first.status is Status.STALLED and infeasible(problem):
        first.status = Status.INFEASIBLE
    return found


def _first(
    problem: Problem,
    oracle: MemoryOracle | DesignOracle,
    bands: Bands | None,
    tol: float,
    limits: Limits,
) -> Outcome:
    """Solve for the first lambda, by way of a sample where all rows are many more."""
    few = _sample(problem, oracle)
    if bands is not None:
        newton = BandNewton(
            oracle, problem.parity, float(problem.lam), bands=bands, damping=_ROUGH_DAMPING
        )
        stages = [Stage(newton, tol, _PATIENCE)]
        if few is not None:
            stages.insert(
                0,
                Stage(
                    replace(newton, oracle=few, name="newton, sample"),
                    _NEAR,
                    _PATIENCE,
                    final=False,
                ),
            )
        with one_blas_thread():
            found = run(stages, np.zeros((problem.n_groups, problem.n_classes)), limits)
        if found.status.ok or found.status in _LIMITS:
            return found
    start = (
        None
        if few is None
        else solve(replace(problem, rows=few.rows), few, tol=_NEAR, limits=Limits(_PATIENCE)).prices
    )
    return solve(problem, oracle, tol=tol, limits=limits, start=start)


def _sample(
    problem: Problem, oracle: MemoryOracle | DesignOracle
) -> MemoryOracle | DesignOracle | None:
    """Give fewer rows that lead to prices nearby; None where all are not many more."""
    n_wanted = max(_SAMPLE, _PER_PRICE * problem.n_groups * problem.n_classes)
    if oracle.rows.merged or oracle.rows.entries < _MANY or 4 * n_wanted > len(oracle.rows.cells):
        return None
    if isinstance(oracle, DesignOracle):
        return oracle.sample(n_wanted)
    return MemoryOracle(thin(oracle.rows, n_wanted), "numpy", oracle.threads)


@dataclass(eq=False)
class _Path:
    """Where the path stands: the prices at a lambda, and how they move with it."""

    problem: Problem
    oracle: MemoryOracle | DesignOracle
    prove: Prove
    tol: float
    limits: Limits
    outcome: Outcome
    lam: float
    begun: float
    fine: float  # lambda from which on it is followed closely, and its end looked at
    bands: Bands | None = None
    descends: bool = False  # corners are found from prices nearby: with bands, and compiled
    early: bool = False  # the end is looked for at once
    slope: Floats | float = 0.0
    leaps: int = 3  # that may still be tried: what fails so often fails on

    def to_zero(self) -> Sharpened:
        """Follow the path until its end is proven."""
        splits, few, zero = Responses(self.outcome.prices, self.lam), None, None
        if self.early and self.oracle.rows.entries < _MANY:
            few = screened(self.oracle, self.problem.parity, splits.prices, _AROUND * self.lam)
            if (leapt := self._leap(splits.prices, few, _EARLY_LEAP, 1.0)) is not None:
                zero, splits = leapt
        while zero is None and self.lam > _LEAST:
            found = self._next(splits.prices, _WAYS[:1])
            if (
                found is None
                and few is not None
                and self.outcome.status not in (Status.OUT_OF_TIME, Status.INTERRUPTED)
            ):
                if (leapt := self._leap(splits.prices, few, _LONG_LEAP)) is not None:
                    zero, splits = leapt
                    break
                zero = self._by_programme(splits, few)
            if found is None and zero is None and self.outcome.status not in _LIMITS:
                found = self._next(splits.prices, _WAYS[1:])
            if found is None:
                break
            prices, few = found
            splits = Responses(prices, self.lam)
            zero = self._proof(prices, splits, few) if self.lam <= self.fine else None
            if zero is None and (leapt := self._leap(prices, few, _LEAP)) is not None:
                zero, splits = leapt
        self.outcome.prices = splits.prices if zero is None else zero
        self.outcome.status = self.outcome.status if zero is None else Status.SOLVED
        return Sharpened(self.outcome, splits)

    def _by_programme(self, splits: Responses, few: Screened) -> Floats | None:
        """Ask a linear programme of the rows that are left for prices, where many are as good and the path points to none of them."""
        if few.oracle.rows.entries > _PROGRAMME:
            return None
        with suppress(MissingExtraError):
            found = most_agreement(self._of(few, 0.0))
            if found.status is Status.SOLVED and self.prove(found.prices, splits).holds:
                return found.prices
        return None

    def _leap(
        self, prices: Floats, few: Screened, most: int, part: float = _FIRST_NEAR
    ) -> tuple[Floats, Responses] | None:
        """Go to the end at once where few rows are left: a linear programme of their best classes has its prices."""
        near, largest = _near(few, prices, part), max(most, _DESCENT if self.descends else 0)
        if self.leaps <= 0 or not 0 < near.sum() <= largest:
            return None
        self.leaps, few_at = self.leaps - 1, prices
        for _ in range(_TRIES):
            found = self._corner(few, prices, near, most)
            if found is None:
                break
            if found.status is not Status.SOLVED:  # classes may be too few to meet the bounds with
                wider = _near(few, prices, 1.0) & ~near
            else:
                corner, prices = Corner.of(found, few, near), found.prices
                told = None if corner.better else self._told(corner)
                if told is not None and corner.only(self.oracle, self.problem.parity):
                    return told
                if told is not None or (few.serves(prices, 0.0) and not corner.better):
                    return self._landed(corner) or told
                if not corner.better:  # rows that were put together are not what they were
                    few = screened(self.oracle, self.problem.parity, prices, few.margin, few)
                    near = _near(few, few_at, part)
                wider = _near(few, prices, part) & ~near
            near |= wider
            if not wider.any() or near.sum() > largest:
                break
        return None

    def _corner(self, few: Screened, prices: Floats, near: Flags, most: int) -> Agreement | None:
        """Solve the linear programme of these entries; None where they are too many for what is there to do so."""
        if self.bands is not None and self.descends:
            found = nearest_corner(few, prices, near, self.bands)
            if found.status is not Status.STALLED or near.sum() > most:
                return found
        with suppress(MissingExtraError):
            return most_agreement(self._of(few, 0.0), among=near)
        return None

    def _landed(self, corner: Corner) -> tuple[Floats, Responses] | None:
        """Give labels that prices of a linear programme prove, or the prices to which they point."""
        slope, lam = self.slope, self.lam
        self.slope = 0.0
        for end in _ENDS:
            at = self._at(corner.prices, end, 32.0 * end, _by_few_steps)
            # the programme has many prices that are as good, and these are not where the path ends
            if at is None:
                break
            splits = Responses(at[0], end)
            if self.prove(corner.prices, splits).holds:
                return corner.prices, splits
            # prices of a linear programme are as exact as its tolerance; the end of the path may be
            # more so
            self.lam = end
            if (zero := self._proof(at[0], splits, at[1])) is not None:
                return zero, splits
        self.slope, self.lam = slope, lam
        return None

    def _told(self, corner: Corner) -> tuple[Floats, Responses] | None:
        """Give the labels of a corner, by prices, where they are proven."""
        for splits in corner.told():
            proof = self.prove(corner.prices, splits)
            if proof.holds:
                return corner.prices, splits
            if max(abs(proof.relative_gap), proof.excess) > _HOPELESS:
                break
        return None

    def _next(self, prices: Floats, ways: Sequence[Way]) -> tuple[Floats, Screened] | None:
        """Solve a smaller lambda from the prices of this one; None where none of these ways there works."""
        # Prices move by their slope times lambda on the way to its end, and rows that they pass on
        # it must not be put together.
        way = self.lam * min(
            1.0 + self.problem.parity.largest_shift(np.abs(self.slope) + np.zeros_like(prices)),
            _FARTHEST,
        )
        for factor, margin, plan in ways:
            lam = max(factor * self.lam, min(_LAST, 0.3 * self.lam))
            found = self._at(prices, lam, margin * way, plan)
            if found is not None:
                self.lam = lam
                return found
            if self.outcome.status in _LIMITS:
                break
        return None

    def _of(self, few: Screened, lam: float) -> Problem:
        return replace(self.problem, rows=few.oracle.rows, parity=few.parity, lam=lam)

    def _at(
        self, prices: Floats, lam: float, margin: float, plan: Plan
    ) -> tuple[Floats, Screened] | None:
        """Solve at this lambda, on the rows that may be tied there."""
        guess = prices + self.slope * (lam - self.lam) if np.any(self.slope) else prices
        tol = max(self.tol, _ROUGH if lam > self.fine else _BLURRED if lam <= _LAST else 0.0)
        if lam > self.fine and self.oracle.rows.entries < _MANY:
            return self._on_all_rows(guess, lam, margin, tol)
        everything = Newton(self.oracle, self.problem.parity, lam)
        for _ in range(_ROUNDS):
            few = screened(self.oracle, self.problem.parity, prices, margin)
            newton = BandNewton(
                few.oracle,
                few.parity,
                lam,
                name=f"newton, lam {lam:.0e}",
                damping=_DAMPING * few.open_share,
                bands=self.bands,
            )
            if guess is not prices:
                guess = min(guess, prices, key=lambda start: newton.start(start).residual)
            found = self._run(plan(self._of(few, lam), newton, tol), guess)
            if found is None:
                return None
            if few.serves(found, lam) or everything.start(found).residual <= tol:
                return found, few
            # Some of the rows that were put together are tied here: look at them again from here.
            prices, guess, margin = found, found, 2.0 * margin
        return None

    def _on_all_rows(
        self, prices: Floats, lam: float, margin: float, tol: float
    ) -> tuple[Floats, Screened] | None:
        """Solve at this lambda with rows that are too few to be worth putting together on the way."""
        newton = BandNewton(
            self.oracle,
            self.problem.parity,
            lam,
            name=f"newton, lam {lam:.0e}",
            damping=_ROUGH_DAMPING,
            bands=self.bands,
        )
        found = self._run(_by_newton(self.problem, newton, tol), prices)
        return (
            None
            if found is None
            else (found, screened(self.oracle, self.problem.parity, found, margin))
        )

    def _run(self, plan: Iterator[Stage], prices: Floats) -> Floats | None:
        """Run some stages within what is left of the limits."""
        history, limits = self.outcome.history, self.limits
        taken, passed = history[-1].iteration if history else 0, time.perf_counter() - self.begun

        def later(step: Progress) -> Progress:
            return replace(step, iteration=taken + step.iteration, seconds=passed + step.seconds)

        told, until = limits.progress, limits.time_limit
        left = Limits(
            max(limits.max_iter - taken, 0),
            None if until is None else until - passed,
            None if told is None else lambda step: told(later(step)),
        )
        found = run(plan, prices, left)
        history.extend(later(step) for step in found.history)
        self.outcome.status = Status.STALLED if found.status.ok else found.status
        self.outcome.residual = found.residual
        return found.prices if found.status.ok else None

    def _end(self, prices: Floats, few: Screened) -> Floats:
        """Give the prices at lambda 0 to which the path points, and keep its direction."""
        rows, newton = few.oracle.rows, Newton(few.oracle, few.parity, self.lam, damping=_UNDAMPED)
        support = respond(rows.labels, rows.cells, few.parity.shifts(prices), self.lam) > 0
        # As long as supports stay, a label is its support's even split and what is apart from it,
        # which grows as lambda falls.
        even = inspected(
            few.oracle,
            few.parity,
            prices,
            self.lam,
            answers=support / support.sum(axis=1, keepdims=True),
        ).means
        with suppress(np.linalg.LinAlgError):
            self.slope = -newton.drift(prices, even, _AHEAD) / (_AHEAD * self.lam)
        return self.problem.parity.canonical(prices - self.lam * self.slope, self.problem.reach)

    def _proof(self, prices: Floats, splits: Responses, few: Screened) -> Floats | None:
        """Give the prices that prove these labels, asked of all rows where the rows that are left say so."""
        # Prices as they are leave about lambda on the table, for every row that is tied.
        near = [prices] if self.lam * few.open_share <= _WORTH else []
        for zero in (self._end(prices, few), *near):
            proof = certify(
                self._of(few, 0.0), few.oracle, zero, few.oracle.label_means(), answers=splits
            )
            if (
                proof.relative_gap <= _PROVEN
                and proof.excess <= PROVEN
                and self.prove(zero, splits).holds
            ):
                return zero
        return None


def _near(few: Screened, prices: Floats, part: float) -> Flags:
    """Find the classes that rows may have near these prices, within a part of the margin; none where that would take long."""
    rows = few.oracle.rows
    if rows.entries > _LOOK:
        return np.zeros((0, 1), dtype=bool)
    worth = rows.labels - few.parity.shifts(prices)[rows.cells]
    return np.asarray(worth >= worth.max(axis=1, keepdims=True) - part * few.margin)


def _by_newton(problem: Problem, newton: Newton, tol: float) -> Iterator[Stage]:
    yield Stage(newton, tol, _PATIENCE)


def _by_few_steps(problem: Problem, newton: Newton, tol: float) -> Iterator[Stage]:
    yield Stage(newton, tol, _LANDING)


# In the order in which they are tried: the next lambda, in units of this one; by how much rows lead
# that are put together, also; how.
_WAYS: tuple[Way, ...] = (
    (1.0 / 3.0, 4.0 / 3.0, _by_newton),
    (0.01, 32.0, by_interiors),
    (0.6, 4.0, _by_newton),
    (0.3, 1e9, by_interiors),
)
