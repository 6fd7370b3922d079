"""The interior point for few rows: the same method in one long vector, so that a step is a few dozen calls.

It starts on the central path of every row by itself: rows add up to 1 and their duals are in
balance there, and stay so, because both are linear. What is left to repair is that group means are
apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._solve.certificate import Problem
from r2b._solve.solvers.central import CentralPoint, InteriorState
from r2b._solve.solvers.interior import BandGaps, Interior
from r2b._solve.solvers.newton import LevelSystem
from r2b._solve.solvers.rows import RowGaps, RowPoint

# complementarity down to which a system is solved without refinement: the next step repairs what is
# lost
_ROUGH = 1e-6
# added to the curvature, for a constant in the prices of a group that nothing but a narrow band
# holds
_SINGULAR = 1e-12
_NARROW = 1e-4  # width of a band below which every digit counts
# times the products of other starts; rows by themselves are on their path wherever it begins
_NEAR, _FAR = 4.0, 200.0
_LEVELLINGS = 2  # of group means, at the start
_SAFE = 0.25  # of the products there: the smallest dual of a row that was moved
_FACES = 4  # that are looked at from one place
# by how much prices on the right one are off: with what damping leaves, and without
_NEARLY, _RIGHT = 1e-7, 1e-12
_GAIN = 0.8  # of that, from one to the next
# steps to the central path of a row, and how near it rows start; four are the rule
_ENTRIES, _ENOUGH = 30, 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class _Whole(CentralPoint):
    """A point whose parts are views of one vector: x, p, q; z, b, a; prices, levels c, levels of rows."""

    whole: Floats
    b: Floats


class SmallInterior(Interior):
    """The method of :class:`Interior` for few rows and bounds that are all open or all closed."""

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        super().__init__(problem, middle, (_NEAR if middle < 1.0 else _FAR) * products)
        rows, n_classes = self.rows, problem.n_classes
        self.n_rows = len(rows.cell)
        self.average = np.zeros((rows.n_cells, self.n_rows))
        self.average[rows.cell, np.arange(self.n_rows)] = rows.within
        self.one_hot = problem.rows_in_memory.classes is not None
        self.narrow = self.banded and float(self.epsilon.min()) < _NARROW
        counts = np.diff(rows.first)
        # Rows in a table of cells, as many for each as the fullest has: products of all cells are
        # one call then.
        self.places = rows.cell * counts.max() + np.arange(self.n_rows) - rows.first[rows.cell]
        self.table = (rows.n_cells, int(counts.max()), n_classes)
        bands = [np.repeat(self.share, n_classes)] * 2 if self.banded else []
        self.each_mass = np.concatenate([np.repeat(rows.weight, n_classes), *bands]) / self.mass
        self.n_products = len(self.each_mass)
        self.still = np.ones(self.band.shape)  # in the place of bands where there are none

    def blocks(self, d: Floats, d_sum: Floats, more: Floats | float) -> Floats:
        """Give what rows leave of each cell, as :meth:`RowSide.blocks` does, with more on the diagonals."""
        spread = np.zeros((self.table[0] * self.table[1], self.table[2]))
        spread[self.places] = d * np.sqrt(self.rows.within / d_sum)[:, None]
        spread = spread.reshape(self.table)
        blocks: Floats = np.matmul(-spread.transpose(0, 2, 1), spread)
        np.einsum("skk->sk", blocks)[...] += self.average @ d + more
        return blocks

    def start(self, prices: Floats) -> InteriorState[CentralPoint, BandGaps]:
        """Start near the central path of each row by itself, with group means that all but agree, in the middle of every band."""
        x, t = _central(
            np.eye(1, self.table[2]) if self.one_hot else self.rows.y, self.rows.lam, self.mu
        )
        if self.one_hot:  # rows are alike but for the place of their 1
            x = x[0, 1] + (x[0, 0] - x[0, 1]) * self.rows.y
        for _ in range(_LEVELLINGS):
            means = self.average @ x
            x *= (self.share @ means / means)[self.rows.cell]
            x /= x.sum(axis=1, keepdims=True)
        z = self.rows.lam * x - self.rows.y
        t = np.minimum(t, z.min(axis=1) - _SAFE * self.mu)
        at = self._point(
            np.zeros(2 * self.n_products + (len(self.share) + 1) * x.shape[1] + self.n_rows)
        )
        at.rows.x[...], at.rows.t[...] = x, t
        np.subtract(z, t[:, None], out=at.rows.z)
        if self.banded:
            at.a[...] = at.b[...] = 0.5 * self.width
            at.p[...] = at.q[...] = 2.0 * self.mu / self.width
        at.c[...] = self.share @ (self.average @ x) - (0.5 * self.width if self.banded else 0.0)
        return self._state(at)

    def _point(self, whole: Floats) -> _Whole:
        n, half, (n_groups, n_classes) = self.n_rows, self.n_products, self.band.shape
        first, second = (
            whole[:half].reshape(-1, n_classes),
            whole[half : 2 * half].reshape(-1, n_classes),
        )
        rest, t = whole[2 * half : -n].reshape(-1, n_classes), whole[-n:]
        rows, prices, c = RowPoint(first[:n], second[:n], t), rest[:-1], rest[-1]
        if not self.banded:
            return _Whole(
                rows=rows,
                prices=prices,
                a=self.still,
                p=self.still,
                q=self.still,
                c=c,
                b=self.still,
                whole=whole,
            )
        to = n + n_groups
        return _Whole(
            rows=rows,
            prices=prices,
            a=second[to:],
            p=first[n:to],
            q=first[to:],
            c=c,
            b=second[n:to],
            whole=whole,
        )

    def infeasibility(self, at: CentralPoint) -> BandGaps:
        """Give by how much group means are off their bands, and prices off their balance, by rounding: nothing else is off."""
        means = self.average @ at.rows.x
        slack = at.c - means
        if self.banded:
            slack += at.a
        balance, gaps = self.share @ at.prices, RowGaps(_NOTHING, _NOTHING, means, 0.0)
        return BandGaps(
            rows=gaps,
            slack=slack,
            balance=balance,
            largest=max(float(np.abs(slack).max()), float(np.abs(balance).max())),
        )

    def complementarity(self, at: CentralPoint) -> float:
        """Mean of all products."""
        assert isinstance(at, _Whole)
        half = self.n_products
        return float(self.each_mass @ (at.whole[:half] * at.whole[half : 2 * half]))

    def _advance(self, here: CentralPoint, off: BandGaps, mu: float) -> CentralPoint:
        assert isinstance(here, _Whole)
        half, both = self.n_products, here.whole[: 2 * self.n_products]
        products = both[:half] * both[half:]
        system = _System(self, here, off, refine=self.narrow or mu < _ROUGH)
        d = system.direction(-products, 1.0)
        length = self._longest(both, d)
        cross = d[:half] * d[half : 2 * half]
        # To first order products fall as the step is long; what is left of them is of second order.
        ahead = (1.0 - length) * mu + length**2 * float(self.each_mass @ cross)
        centring = (max(ahead, 0.0) / mu) ** 3
        cross += products
        d = system.direction(centring * mu - cross, 1.0 - min(centring, 1.0))
        return self._point(here.whole + min(1.0, self.shy * self._longest(both, d)) * d)

    def answer(self, state: InteriorState[CentralPoint, BandGaps]) -> tuple[Floats, float] | None:
        """Give the prices on the face that the products tell, or on one next to it, and by how much they are off; None if by too much.

        Where prices on a face ask for another one, that is looked at next.
        """
        at, banded = state.point, self.banded
        support, upper, lower = (
            self.rows.support(at.rows),
            at.p > self.upper_slacks(at),
            at.q > at.a,
        )
        prices, levels, last = at.prices, at.c, 1.0
        for _ in range(_FACES):
            face = _Face(self, support, upper, lower)
            # once more without what damping left, where it is the right face
            for enough in (_NEARLY, _RIGHT):
                prices, levels = face.solve(prices, levels, refine=enough == _RIGHT)
                worth, means = face.means(prices)
                wrong = np.where(upper, -prices, np.where(lower, prices, 0.0)) if banded else _ZERO
                apart = means.max(axis=0) - means.min(axis=0) - self.epsilon
                off = max(
                    -float(np.where(support, worth, -worth).min()),
                    float(apart.max()),
                    float(wrong.max()),
                )
                if not off <= enough:
                    break
            else:
                return prices, max(off, 0.0)
            if not off < _GAIN * last:
                return None
            support, last = worth > 0, off
            if banded:
                upper = (upper & (wrong <= 0)) | (means > levels + self.epsilon)
                lower = (lower & (wrong <= 0)) | (means < levels)
        return None

    def _longest(self, both: Floats, d: Floats) -> float:
        """Largest step that keeps everything positive, at most a little over 1."""
        steepest = float((d[: len(both)] / both).min())
        return min(1.0 / self.shy, -1.0 / steepest if steepest < 0 else np.inf)


class _System:
    """The Newton system of the central path at one point, factorised; see :mod:`r2b._solve.solvers.interior`."""

    def __init__(self, method: SmallInterior, here: _Whole, off: BandGaps, *, refine: bool) -> None:
        self.method, self.here, self.off, self.refine = method, here, off, refine
        self.ratio = here.rows.z / here.rows.x
        self.d = 1.0 / (self.ratio + method.rows.lam)
        d_sum = self.d.sum(axis=1)
        self.part = self.d / d_sum[:, None]
        self.give: Floats | float = method.regularisation
        if method.banded:
            self.upper, self.lower = here.p / here.b, here.q / here.a
            self.give = 1.0 / (self.upper + self.lower)
        self.system = LevelSystem(
            method.blocks(self.d, d_sum, self.give + _SINGULAR), None, method.share
        )

    def direction(self, aim: Floats, repair: float) -> Floats:
        """Direction that makes these changes of the products to first order and removes this part of the infeasibility."""
        method, here = self.method, self.here
        n, half, (n_groups, n_classes) = method.n_rows, method.n_products, method.band.shape
        out = np.empty(len(here.whole))
        first, second = (
            out[:half].reshape(-1, n_classes),
            out[half : 2 * half].reshape(-1, n_classes),
        )
        wanted, slack = aim.reshape(-1, n_classes), repair * self.off.slack
        wish = wanted[:n] / here.rows.x
        x, t = self._moved(wish)
        right = method.average @ x - slack
        if method.banded:
            sides = wanted[n:] / here.whole[half + n * n_classes : 2 * half].reshape(-1, n_classes)
            push = sides[:n_groups] - sides[n_groups:]
            right += push * self.give
        solve = self.system.solve_with_levels if self.refine else self.system.once
        prices, _ = solve(right, -repair * self.off.balance)
        more, lift = self._moved(prices[method.rows.cell])
        x -= more
        first[:n] = x
        np.subtract(wish, self.ratio * x, out=second[:n])
        moved = method.average @ x - slack
        if method.banded:
            a = (prices - push) * self.give
            moved -= a
            second[n + n_groups :] = a
            np.negative(a, out=second[n : n + n_groups])
            first[n:] = sides
            first[n : n + n_groups] += self.upper * a
            first[n + n_groups :] -= self.lower * a
        rest = out[2 * half : -n].reshape(-1, n_classes)
        rest[:-1] = prices
        rest[-1] = method.share @ moved
        np.subtract(t, lift, out=out[-n:])
        return out

    def _moved(self, pull: Floats) -> tuple[Floats, Floats]:
        """Move the rows under a pull, their sums unchanged; give the moves of their levels too."""
        t = -np.einsum("ik,ik->i", self.part, pull)
        return self.d * (pull + t[:, None]), t


class _Face:
    """Labels and bands on one face: prices to labels is linear there."""

    def __init__(self, method: SmallInterior, support: Flags, upper: Flags, lower: Flags) -> None:
        self.method, lam = method, method.rows.lam
        self.support = support.astype(np.float64)
        self.size = np.maximum(self.support.sum(axis=1), 1.0)
        self.above = np.where(upper, method.epsilon, 0.0) if method.banded else 0.0
        self.clipped = upper | lower if method.banded else None
        self.system = LevelSystem(
            method.blocks(self.support / lam, self.size / lam, method.face_damping / lam),
            self.clipped,
            method.share,
        )

    def solve(self, prices: Floats, levels: Floats, *, refine: bool) -> tuple[Floats, Floats]:
        """Give the prices and levels of classes at which means are where the face has them, from others."""
        if self.clipped is not None:
            prices = np.where(self.clipped, prices, 0.0)
        solve = self.system.solve_with_levels if refine else self.system.once
        more, fall = solve(self.means(prices)[1] - self.above - levels, -self.method.share @ prices)
        return prices + more, levels - fall

    def means(self, prices: Floats) -> tuple[Floats, Floats]:
        """Give what classes are worth to rows, above what they must be to count, and the group means."""
        rows = self.method.rows
        worth = rows.y - prices[rows.cell]
        worth -= ((np.einsum("ik,ik->i", self.support, worth) - rows.lam) / self.size)[:, None]
        return worth, self.method.average @ (self.support * worth) / rows.lam


def _central(y: Floats, lam: float, mu: float) -> tuple[Floats, Floats]:
    """Give the rows x of the simplex, and their levels t, at which ``x (lam x - y - t) = mu``."""
    # From above, Newton's steps on the sum of a row, which is convex in its level, stay above.
    t = lam - y.max(axis=1)
    for _ in range(_ENTRIES):
        root = y + t[:, None]
        spread = np.sqrt(root * root + 4.0 * lam * mu)
        # Where the sum would cancel, the other root tells it.
        x = np.where(root > 0, (root + spread) / (2.0 * lam), 2.0 * mu / (spread - root))
        over = x.sum(axis=1) - 1.0
        t = t - over / (x / spread).sum(axis=1)
        if over.max() < _ENOUGH:
            break
    return x / (1.0 + over)[:, None], t


_NOTHING, _ZERO = np.empty(0), np.zeros(1)
