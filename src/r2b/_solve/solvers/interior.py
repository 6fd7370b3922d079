"""A primal-dual interior-point method (Mehrotra's predictor-corrector) with an active-set polish.

The unknowns are the rows x with duals z and levels t; the prices of groups; and for every entry
(group, class) of a band with level c the slacks ``b = high_slope c + high - mean`` with dual p and
``a = mean - low_slope c - low`` with dual q. The price is p - q; where the level is the mean of the
family it is p - q less its own mean. Entries whose sides coincide have a price and no slacks.
Eliminating rows and slacks leaves prices and levels: the systems of :mod:`linear`.

Complementarity identifies the active set: which classes a row keeps and which side of its band a
mean leans on. Prices that are exact on that set end the iteration early, and far more accurately.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from r2b._constraints.parity import Parity
from r2b._data.arrays import Flags, Floats, divided
from r2b._data.compute import parts_of
from r2b._solve.certificate import Problem
from r2b._solve.settings import SETTINGS, TOLERANCE
from r2b._solve.solvers.driver import State
from r2b._solve.solvers.linear import (
    BlockSystem,
    DenseSystem,
    Entries,
    Held,
    entries_of,
    system_of,
)
from r2b._solve.solvers.newton import Newton

_ROUNDING = 1e-12  # complementarity below which a step may be lost to rounding
_CHUNK = 1 << 23  # entries of rows by prices that are held at once
_IDLE = 40  # steps that do not halve the residual, after which none will


class MergedRows:
    """The rows of a problem, ordered by cell."""

    def __init__(self, problem: Problem) -> None:
        rows, share = problem.rows_in_memory, problem.parity.cell_share
        order = np.argsort(rows.cells, kind="stable")
        self.y = rows.labels[order].astype(np.float64, copy=False)
        self.cell = rows.cells[order].astype(np.intp)
        weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
        self.weight = weight / weight.sum()
        self.within = divided(self.weight, share[self.cell])  # cells without weight have no mean
        self.first = np.searchsorted(self.cell, np.arange(len(share) + 1))
        places = np.arange(len(order))
        self.averaging = sparse.csr_array(
            (self.within, (self.cell, places)), shape=(len(share), len(order))
        )

    def means(self, x: Floats) -> Floats:
        """Return the weighted means of rows by cell."""
        return np.asarray(self.averaging @ x)

    def blocks(self, d: Floats) -> Floats:
        """Average ``D - D 1 1' D / 1' D 1`` over the rows of each cell, D the diagonal of a row."""
        n_cells, n_classes = len(self.first) - 1, d.shape[1]
        blocks = np.zeros((n_cells, n_classes, n_classes))
        np.einsum("jkk->jk", blocks)[:] = self.means(d)
        scaled = d * np.sqrt(self.within / d.sum(axis=1))[:, None]
        for cell in np.flatnonzero(np.diff(self.first)):
            mine = scaled[self.first[cell] : self.first[cell + 1]]
            blocks[cell] -= mine.T @ mine
        return blocks


def curvature_of(rows: MergedRows, parity: Parity, d: Floats, *, disjoint: bool) -> Floats:
    """Count the curvature of rows by pairs of groups: ``sum_i w_i b_ig b_ih (D - D11'D / 1'D1)``.

    Returns
    -------
    ndarray of shape (n, n_outcomes, n, n_outcomes); where ``disjoint`` (n, n_outcomes, n_outcomes),
    over the shares of the groups
    """
    if disjoint and parity.design is None:
        return parity.curvature(rows.blocks(d))
    design, n_classes = parity.matrix, d.shape[1]
    if disjoint:
        blocks = parity.curvature(rows.blocks(d))
        part = (design**2 * parity.cell_share[:, None] / parity.share).T
        return np.tensordot(part, blocks, 1)
    n_groups = design.shape[1]
    if len(d) >= 4 * len(design):  # cells stand for many rows
        blocks = parity.curvature(rows.blocks(d)) * parity.cell_share[:, None, None]
        pairs = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        tables = pairs.T @ blocks.reshape(len(design), -1)
        whole = tables.reshape(n_groups, n_groups, *blocks.shape[1:])
    else:
        square = np.zeros((n_groups, n_classes, n_groups, n_classes))
        scaled = d / np.sqrt(d.sum(axis=1))[:, None]
        for some in parts_of(len(d), max(1, _CHUNK // (n_groups * n_classes))):
            counted = design[rows.cell[some]] * np.sqrt(rows.weight[some])[:, None]
            flat = (counted[:, :, None] * scaled[some, None, :]).reshape(len(counted), -1)
            square -= (flat.T @ flat).reshape(square.shape)
            for class_ in range(n_classes):
                square[:, class_, :, class_] += counted.T @ (d[some, class_, None] * counted)
        whole = parity.curvature(square.transpose(0, 2, 1, 3))
    return np.ascontiguousarray(whole.transpose(0, 2, 1, 3))


@dataclass(frozen=True, eq=False)
class Point:
    """A primal-dual point, or a direction.

    Attributes
    ----------
    x, z : ndarray of shape (n_rows, n_classes)
        Labels, and the duals of ``x >= 0``.
    t : ndarray of shape (n_rows,)
        Duals of the row sums.
    prices : ndarray of shape (n_groups, n_classes)
    a, b, p, q : ndarray of the same shape
        Lower and upper slacks; the duals of the upper ones and of the lower ones.
    c : ndarray of shape (n_families, n_classes)
        Levels.
    """

    x: Floats
    z: Floats
    t: Floats
    prices: Floats
    a: Floats
    b: Floats
    p: Floats
    q: Floats
    c: Floats

    def moved(self, d: Point, length: float) -> Point:
        """Go so far along a direction."""
        names = self.__dataclass_fields__
        return Point(*(getattr(self, name) + length * getattr(d, name) for name in names))


@dataclass(frozen=True, eq=False)
class Gaps:
    """Residuals of the equations that a solution satisfies exactly."""

    stationary: Floats
    row_sum: Floats
    upper: Floats
    lower: Floats
    balance: Floats

    @property
    def largest(self) -> float:
        """The largest of them."""
        return max(
            float(np.abs(getattr(self, name)).max(initial=0.0))
            for name in self.__dataclass_fields__
        )


Aim = tuple[Floats, Floats, Floats]
"""Wanted changes of the products x z, p b (upper) and q a (lower)."""


@dataclass(frozen=True, eq=False)
class InteriorState(State):
    """Where the iteration stands; the residual is the largest of complementarity and infeasibility.

    ``face`` is the active set that the products tell, ``polished`` the last one that prices were
    computed on; ``halved`` is the residual when it was last halved, ``idle`` steps ago.
    """

    point: Point
    gaps: Gaps
    complementarity: float
    face: bytes = b""
    polished: bytes = b""
    halved: float = np.inf
    idle: int = 0


class InteriorPoint:
    """The method for one problem whose merged rows fit in memory.

    Parameters
    ----------
    problem : Problem
    newton : Newton or None
        Judges polished prices by their residual; None for no polish.
    tol : float
        Residual at which polished prices are the answer.
    start_at : (float, float)
        One of the ``starts`` of the settings.
    """

    name = "interior"

    def __init__(
        self,
        problem: Problem,
        newton: Newton | None = None,
        tol: float = TOLERANCE,
        start_at: tuple[float, float] = SETTINGS.starts[0],
    ) -> None:
        self.parity, self.newton, self.tol = problem.parity, newton, tol
        self.lam = float(problem.lam)
        self.rows = MergedRows(problem)
        entries = entries_of(problem.parity)
        self.forbidden = _forbidden(problem, entries)
        allowed = self.forbidden == 0
        bound, equal = entries.bound & allowed, entries.equal & allowed
        self.entries = entries = replace(entries, bound=bound, equal=equal)
        # what classes are worth counts from the least, where changes have costs
        worth = self.rows.y - min(0.0, float(self.rows.y.min()))
        self.worth = worth - self.parity.shifts(self.forbidden)[self.rows.cell]
        self.middle, products = start_at
        self.mu = products * max(1.0, self.lam) / problem.n_classes
        self.mass = problem.n_classes + 2.0 * float((entries.share * entries.band).sum())
        width = np.where(
            entries.high > entries.low,
            entries.high - entries.low,
            entries.high_slope - entries.low_slope,
        )
        self.narrowest = min(1.0, float(width.min(where=entries.band, initial=1.0)))

    def start(self, prices: Floats) -> InteriorState:
        """Start in the middle of every band, with all products equal; prices do not matter."""
        entries, worth = self.entries, self.worth
        x = (1.0 - self.middle) * np.maximum(worth, 0.0) + self.middle * self._centre()
        # below 0 is a class that may not be had, less its price
        z = np.where(worth < 0, -worth, self.mu / x)
        x = self.mu / z
        t = np.einsum("ik,ik->i", x, self.lam * x - worth - z)
        means = self.parity.means(self.rows.means(x))
        slope = entries.high_slope + entries.low_slope
        middle = 2.0 * entries.family_mean(means) - (entries.high + entries.low)[entries.first]
        c = np.where(entries.leveled, middle / np.where(slope > 0, slope, 1.0)[entries.first], 0.0)
        width = (entries.high_slope - entries.low_slope) * c[entries.family]
        width = width + entries.high - entries.low
        # in a narrower band the first step would send prices beyond all bounds
        half = np.where(entries.band, np.maximum(0.5 * width, 1e-2), 1.0)
        dual = np.where(entries.band, self.mu / half, 0.0)
        return self._state(Point(x, z, t, np.zeros_like(half), half, half, dual, dual, c))

    def step(self, state: InteriorState) -> InteriorState:
        """Take one predictor and one corrector step, and polish where the active set shows."""
        mu = state.complementarity
        with np.errstate(all="ignore"):  # a step beyond double precision is caught here
            try:
                new = self._state(self._advanced(state))
            except (np.linalg.LinAlgError, ValueError):
                return self._ended(state)
            size = self.entries.share / self.entries.share.max() * new.prices
            # no feasible problem needs prices of a million
            runaway = float(np.abs(size).max()) > 1e6 * max(1.0, self.lam)
            # Rounding makes the residuals of tiny steps bounce; as long as one of both falls and
            # they stay below 1e-9, prices still improve.
            lost = mu < _ROUNDING and (
                new.residual > max(state.residual, 1e-9)
                or (new.complementarity >= mu and new.residual >= state.residual)
            )
            if not np.isfinite(new.residual) or runaway or lost:
                return self._ended(state)
        halved = new.residual <= 0.5 * state.halved
        new = replace(
            new,
            halved=new.residual if halved else state.halved,
            idle=0 if halved else state.idle + 1,
            polished=state.polished,
        )
        # far below the rounding of the objective
        central = min(1e-17, 1e-6 * self.narrowest**2)
        if new.complementarity <= central or new.idle >= _IDLE:
            return self._ended(new)
        if self.newton is None or new.complementarity > SETTINGS.polish_below:
            return new
        return self._looked(replace(new, face=self.face(new.point)), state.face)

    def gaps(self, at: Point) -> Gaps:
        """Return the residuals of a point."""
        entries = self.entries
        shifts = self.parity.shifts(at.prices)[self.rows.cell]
        stationary = self.lam * at.x - self.worth - at.z + shifts - at.t[:, None]
        means = entries.centred(self.parity.means(self.rows.means(at.x)))
        c = at.c[entries.family]
        upper = entries.high_slope * c + entries.high - means - np.where(entries.band, at.b, 0.0)
        lower = np.where(entries.band, means - entries.low_slope * c - entries.low - at.a, 0.0)
        pull = np.where(
            entries.band,
            entries.high_slope * at.p - entries.low_slope * at.q,
            entries.high_slope * at.prices,
        )
        balance = np.where(entries.leveled, entries.family_sum(entries.share * pull), 0.0)
        row_sum = at.x.sum(axis=1) - 1.0
        return Gaps(stationary, row_sum, np.where(entries.bound, upper, 0.0), lower, balance)

    def complementarity(self, at: Point) -> float:
        """Return the mean of all products."""
        bands = np.where(self.entries.band, at.p * at.b + at.q * at.a, 0.0)
        rows = float(np.einsum("i,ik,ik->", self.rows.weight, at.x, at.z))
        return (rows + float((self.entries.share * bands).sum())) / self.mass

    def face(self, at: Point) -> bytes:
        """Return the active set as the products tell it."""
        flags = (at.x * max(1.0, self.lam) > at.z, at.p > at.b, at.q > at.a)
        return b"".join(np.packbits(each).tobytes() for each in flags)

    def on_face(self, at: Point) -> Iterator[Floats]:
        """Yield prices that are exact on the active set, with entries of wrong sign released."""
        entries, rows = self.entries, self.rows
        kept = at.x > at.z / max(1.0, self.lam)
        support = (kept | (at.x == at.x.max(axis=1, keepdims=True))).astype(np.float64)
        size = support.sum(axis=1)
        shifted = self.worth - self.parity.shifts(at.prices)[rows.cell]
        level = (np.einsum("ik,ik->i", support, shifted) - self.lam) / size
        means = self.parity.means(rows.means(support * (shifted - level[:, None]) / self.lam))
        curvature = curvature_of(rows, self.parity, support / self.lam, disjoint=entries.disjoint)
        upper = entries.band & (at.p > at.b)
        lower = entries.band & (at.q > at.a)
        own = np.where(entries.averaged[entries.family], at.p - at.q, at.prices)
        for _ in range(3):
            exact = face_prices(
                entries, (upper, lower), curvature, means, at.prices, own, 1e-9 / self.lam
            )
            yield entries.centred(exact) + self.forbidden
            # A price of the wrong sign says that its entry does not lean on that side of the band.
            wrong = (upper & ~lower & (exact < 0)) | (lower & ~upper & (exact > 0))
            if not wrong.any():
                break
            upper, lower = upper & ~wrong, lower & ~wrong

    def _state(self, point: Point) -> InteriorState:
        mu, gaps = self.complementarity(point), self.gaps(point)
        prices = point.prices + self.forbidden
        return InteriorState(prices, max(mu, gaps.largest), point, gaps, mu)

    def _looked(self, state: InteriorState, last: bytes) -> InteriorState:
        """Polish once two steps agree on an active set; end where that gives the answer."""
        assert self.newton is not None
        if state.face != last or state.face == state.polished:
            return state
        state = replace(state, polished=state.face)
        with np.errstate(all="ignore"):
            try:
                found = self.newton.start(next(self.on_face(state.point)))
            except (np.linalg.LinAlgError, ValueError):
                return state
        if not found.residual <= self.tol:
            return state
        return replace(state, prices=found.prices, residual=found.residual, stalled=True)

    def _ended(self, state: InteriorState) -> InteriorState:
        """Return the best prices that the last point tells."""
        state = replace(state, stalled=True)
        if self.newton is None:
            return state
        best = self.newton.start(state.prices)
        with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError, ValueError):
            for prices in self.on_face(state.point):
                found = self.newton.start(prices)
                best = found if found.residual < best.residual else best
        residual = best.residual if best.residual <= self.tol else state.residual
        return replace(state, prices=best.prices, residual=residual)

    def _centre(self) -> Floats:
        """Return the distribution that targets ask for, at which all groups agree; else uniform."""
        entries, n_classes = self.entries, self.worth.shape[1]
        fixed = [member for member in self.parity.members if member.bound.level == "none"]
        if not fixed or self.parity.outcomes is not None or (self.parity.matrix < 0).any():
            return np.full(n_classes, 1.0 / n_classes)
        asked = np.any(
            [np.isfinite(np.atleast_2d(member.bound.epsilon)).all(axis=0) for member in fixed],
            axis=0,
        )
        middle = 0.5 * (entries.low + entries.high)
        centre = np.mean([middle[member.groups.start] for member in fixed], axis=0)
        rest = max(1.0 - float(centre[asked].sum()), 0.0) / max(1, int((~asked).sum()))
        centre = np.maximum(np.where(asked, centre, rest), 1e-7)
        return np.asarray(centre / centre.sum())

    def _advanced(self, state: InteriorState) -> Point:
        here, mu = state.point, state.complementarity
        system = _NewtonSystem(self, here, state.gaps)
        ahead = system.direction(self._aim(here, 0.0, None), repair=1.0)
        reached = self.complementarity(here.moved(ahead, self._reach(here, ahead)))
        centring = min((max(reached, 0.0) / mu) ** 3, 1.0)
        d = system.direction(self._aim(here, centring * mu, ahead), repair=1.0 - centring)
        return here.moved(d, min(1.0, SETTINGS.to_boundary * self._reach(here, d)))

    def _aim(self, here: Point, target: float, ahead: Point | None) -> Aim:
        """Bring every product to ``target``, with Mehrotra's correction after a predictor."""
        rows, upper, lower = here.x * here.z, here.p * here.b, here.q * here.a
        if ahead is not None:
            rows = rows + ahead.x * ahead.z
            upper, lower = upper + ahead.p * ahead.b, lower + ahead.q * ahead.a
        return target - rows, target - upper, target - lower

    def _reach(self, here: Point, d: Point) -> float:
        """Return the largest step that keeps all positive, at most a little over 1."""
        longest = 1.0 / SETTINGS.to_boundary
        for name in ("x", "z", "a", "b", "p", "q"):
            mask = ... if name in ("x", "z") else self.entries.band
            steepest = (getattr(d, name)[mask] / getattr(here, name)[mask]).min(initial=0.0)
            longest = min(longest, -1.0 / float(steepest) if steepest < 0 else longest)
        return longest


class _NewtonSystem:
    """The linearised equations at one point, factorised.

    A change s of its shift moves a row by ``-d (s - (d s) / 1'd)`` with d = 1 / (lam + z / x). A
    mean moves by ``softness price + slope level + ...``; the slope lies between those of the two
    sides, nearer to that of the tighter one.
    """

    def __init__(self, method: InteriorPoint, here: Point, gaps: Gaps) -> None:
        self.method, self.here, self.gaps = method, here, gaps
        entries = method.entries
        self.d = 1.0 / (method.lam + here.z / here.x)
        self.d_sum = self.d.sum(axis=1)
        high, low = here.p / here.b, here.q / here.a
        theta = np.where(entries.band, high + low, 1.0)
        self.softness = np.where(entries.band, 1.0 / theta, SETTINGS.regularisation)
        apart = np.where(entries.band, entries.high_slope - entries.low_slope, 0.0)
        self.above, self.below = apart * low / theta, apart * high / theta
        omega = entries.share * np.where(entries.band, apart**2 * high * low / theta, 0.0)
        held = Held(
            entries.bound,
            self.softness,
            entries.high_slope - self.above,
            entries.leveled,
            entries.family_sum(omega),
        )
        curvature = curvature_of(method.rows, method.parity, self.d, disjoint=entries.disjoint)
        self.system: BlockSystem | DenseSystem = system_of(entries, curvature, held)

    def direction(self, aim: Aim, *, repair: float) -> Point:
        """Return the direction that changes products so and removes this part of the residuals."""
        method, here, gaps, entries = self.method, self.here, self.gaps, self.method.entries
        band, (rows, upper, lower) = entries.band, aim
        short_b, short_a = repair * gaps.upper, repair * gaps.lower
        up = np.where(band, (upper - here.p * short_b) / here.b, 0.0)
        down = np.where(band, (lower - here.q * short_a) / here.a, 0.0)
        wish = rows / here.x
        x = wish - repair * gaps.stationary
        t = -(repair * gaps.row_sum + np.einsum("ik,ik->i", self.d, x)) / self.d_sum
        x = self.d * (x + t[:, None])
        means = entries.centred(method.parity.means(method.rows.means(x)))
        right = means - np.where(band, -self.softness * (up - down), short_b)
        balance = -repair * gaps.balance - entries.family_sum(
            entries.share * (self.above * up + self.below * down)
        )
        own, c = self.system.solve(right, balance)
        prices = entries.centred(own)
        shift = method.parity.shifts(prices)[method.rows.cell]
        common = np.einsum("ik,ik->i", self.d, shift) / self.d_sum
        x = x - self.d * (shift - common[:, None])
        core, level = self.softness * (own - up + down), c[entries.family]
        b = np.where(band, self.above * level - core + short_b, 0.0)
        a = np.where(band, self.below * level + core + short_a, 0.0)
        p = np.where(band, (upper - here.p * b) / here.b, 0.0)
        q = np.where(band, (lower - here.q * a) / here.a, 0.0)
        return Point(x, wish - here.z / here.x * x, t + common, prices, a, b, p, q, c)


def face_prices(
    entries: Entries,
    sides: tuple[Flags, Flags],
    curvature: Floats,
    means: Floats,
    near: Floats,
    own: Floats,
    damping: float,
) -> Floats:
    """Return the prices of entries on a face of the allowed means, nearest to ``own``.

    Parameters
    ----------
    entries : Entries
    sides : pair of ndarray of bool, shape (n_groups, n_classes)
        Entries of open bands that lean on the upper side, and on the lower. On both: the tip of a
        band that narrows to a point.
    curvature : ndarray
        As :func:`curvature_of` returns it.
    means : ndarray of shape (n_groups, n_classes)
        At the prices ``near``.
    near, own : ndarray of shape (n_groups, n_classes)
        Prices of groups, and those of entries: the same except where they reach groups less their
        mean.
    damping : float
        Decides where the face leaves prices a choice.
    """
    upper, lower = sides
    tip = upper & lower & (entries.high_slope != entries.low_slope)
    tips = np.logical_or.reduceat(tip, entries.first, axis=0)
    leveled = entries.leveled & ~tips  # at the tip every mean of the class is 0
    free = upper | lower | entries.equal | (tips[entries.family] & entries.bound)
    low_side = lower & ~upper
    slope = np.where(
        leveled[entries.family], np.where(low_side, entries.low_slope, entries.high_slope), 0.0
    )
    exact = np.where(free, own, 0.0)
    softness = np.full(own.shape, damping if entries.disjoint else 1e-2 * damping)
    held = Held(free, softness, slope, leveled, np.zeros(leveled.shape))
    change = entries.centred(exact) - near
    if entries.disjoint:
        answer = np.einsum("gkl,gl->gk", curvature, change)
    else:
        answer = np.einsum("gkhl,hl->gk", curvature, change) / entries.share
    right = entries.centred(means - answer) - np.where(low_side, entries.low, entries.high)
    balance = -entries.family_sum(entries.share * slope * exact)
    return exact + system_of(entries, curvature, held).solve(right, balance)[0]


def _forbidden(problem: Problem, entries: Entries) -> Floats:
    """Return prices that no row pays, of entries whose mean may be at most 0.

    Such a bound has no interior: no row of the group may have the class.
    """
    nothing = entries.bound & (entries.high_slope == 0) & (entries.high == 0)
    if not nothing.any() or problem.parity.outcomes is not None:
        return np.zeros(nothing.shape)
    design = problem.parity.matrix
    nothing &= np.asarray((design >= 0).all(axis=0))[:, None]
    least = np.maximum(design.min(axis=0, where=design > 0, initial=1.0), 1e-3)[:, None]
    return np.where(nothing, 100.0 * problem.reach / least, 0.0)
