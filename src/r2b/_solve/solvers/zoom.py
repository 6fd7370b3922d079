"""The interior point beside prices that are all but right, in units of what they are off by.

A band of 1e-8 is lost to an interior point that counts in units of 1: its products meet rounding
before they tell on which side of its band a mean is. But the answer to given prices is exact to
rounding, so what is left is a problem of differences from it (iterative refinement, as of linear
programmes). With a unit h of the order of what prices are off by,

    prices = prices* + h eta,        x = x* + h xi,        c = c* + h chi,

and in this unit nearly everything is settled. Of the entries of rows those far above 0 have no
barrier, and those whose dual is far above 0 stay 0; of the bounds those far inside their band have
no price, and those with a large price are equalities. What is left in doubt has a barrier, as in
the whole problem, and is of size 1, as is the width of a band.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._solve.certificate import Problem
from r2b._solve.oracle.reference import thresholds
from r2b._solve.solvers.central import InteriorState
from r2b._solve.solvers.general import GeneralInterior, GeneralPoint, SideGaps
from r2b._solve.solvers.rows import RowGaps, RowPoint, RowSide, RowSystem, longest
from r2b._solve.solvers.systems import SystemLayout

_SURE = 1e4  # units from which on an entry is not in doubt


class Zoom(GeneralInterior):
    """Predictor-corrector method for what is left beside the prices that it starts from; see :class:`GeneralInterior`.

    Parameters
    ----------
    problem : Problem
    unit : float
        What prices may be off by. In units of 1 nothing is known of them: they start at 0, where
        rows are their labels.
    near : ndarray of shape (n_groups, n_classes), optional
        Where to start, instead of the prices given then.
    """

    name = "zoom"
    # in this unit fewer digits are lost, and means that are to be equal come that much closer
    regularisation = 1e-13

    def __init__(self, problem: Problem, unit: float, near: Floats | None = None) -> None:
        super().__init__(problem)
        self.corrections = 0  # products are of entries in doubt alone
        self.unit, self.near = unit, near
        self.layout_of_all, self.rows_of_all = self.layout, self.rows
        self.base = self.fixed
        self.mu = max(1.0, float(problem.lam))

    def start(self, prices: Floats) -> InteriorState[GeneralPoint, SideGaps]:
        """Settle what is far from any side at these prices, and start where all products of the rest are equal."""
        layout, side, unit = self.layout_of_all, self.rows_of_all, self.unit
        prices = prices if self.near is None else self.near
        own = np.where(layout.bound & (unit < 1), prices, 0.0)
        own = own - np.where(layout.averaged, _medians(own, layout), 0.0)[layout.family]
        near = layout.centred(own)
        worth = side.y - self.parity.shifts(near)[side.cell]
        worth -= side.lam * thresholds(worth / side.lam)[:, None]
        means = layout.centred(self.parity.means(side.means(np.maximum(worth, 0.0) / side.lam)))
        sides = _sides(layout, own, means, unit)
        base = np.where(sides.upper | sides.lower | layout.equal, own, 0.0)
        beside = self.parity.shifts((near - layout.centred(base)) / unit)[side.cell]
        self.rows = rows = _Doubtful(side, worth / unit, beside)
        known = layout.centred(self.parity.means(rows.means(rows.known)))
        self.layout = local = _beside(layout, sides, known)
        self.base = layout.centred(base) + self.fixed
        self.owed = (
            np.where(layout.leveled, layout.family_sum(self.share * local.high_slope * base), 0.0)
            / unit
        )
        self.mass = max(
            rows.mass + 2.0 * float((self.share * sides.doubt).sum()), np.finfo(float).tiny
        )
        state = self._state(self._first(np.where(sides.doubt, own, 0.0) / unit, sides))
        # What is off by more than entries are sure of is not seen in this unit.
        outside = -float(np.minimum(sides.above, sides.below).min(where=layout.bound, initial=0.0))
        return replace(state, stalled=state.stalled or outside > _SURE)

    def _first(self, own: Floats, sides: _Sides) -> GeneralPoint:
        """Give a point at about these prices of entries in doubt where all products are equal.

        Slacks are what they are, or the price where that is larger: else a band of many units would
        be off by as much.
        """
        rows = self.rows
        assert isinstance(rows, _Doubtful)
        b, a = (np.maximum(each, 1.0) for each in (sides.above, sides.below))
        p, q = self.mu / b, self.mu / a
        p, q = np.where(own > b, own + q, p), np.where(-own > a, p - own, q)
        p, q = (np.where(sides.doubt, each, 0.0) for each in (p, q))
        b, a = (
            np.divide(self.mu, each, out=np.ones_like(each), where=sides.doubt) for each in (p, q)
        )
        prices, c = self.layout.centred(p - q), np.zeros(self.layout.leveled.shape)
        return GeneralPoint(
            rows=rows.centred(self.parity.shifts(prices)[rows.cell], self.mu),
            prices=prices,
            a=a,
            b=b,
            p=p,
            q=q,
            c=c,
        )

    def asked(self, prices: Floats) -> Floats:
        """Give prices of the problem that was asked."""
        return self.base + self.unit * prices


@dataclass(frozen=True, eq=False)
class _Sides:
    """Where means are in their bands.

    Attributes
    ----------
    above, below : ndarray of shape (n_groups, n_classes)
        How far the upper side is above a mean, and the lower below it, in units of what is in
        doubt.
    upper, lower, inside, doubt : ndarray of bool, same shape
        Entries that surely lean on a side, that are surely inside, and the other ones with a band.
    """

    above: Floats
    below: Floats
    upper: Flags
    lower: Flags
    inside: Flags
    doubt: Flags


def _sides(layout: SystemLayout, own: Floats, means: Floats, unit: float) -> _Sides:
    level = _levels(layout, means)[layout.family]
    above = (layout.high_slope * level + layout.high - means) / unit
    below = (means - layout.low_slope * level - layout.low) / unit
    apart = np.zeros((len(own), 1), dtype=bool)
    for component in layout.components:
        apart[component.groups] = component.disjoint
    # Prices of groups that share rows may all but cancel, and a large one may be none in the end.
    # Where prices are passed on less their mean, that mean joins them to all others. Such entries
    # keep their barrier.
    settled = layout.band & apart & ~layout.averaged[layout.family]
    sure = _SURE * unit
    upper, lower = settled & (own > sure), settled & (own < -sure)
    inside = layout.band & (np.abs(own) <= sure) & (above > _SURE) & (below > _SURE)
    return _Sides(above, below, upper, lower, inside, layout.band & ~(upper | lower | inside))


def _beside(layout: SystemLayout, sides: _Sides, known: Floats) -> SystemLayout:
    """Give the bounds on means that count from ``known``: sides that are surely leant on are equalities, and what is inside is free."""
    slope = np.where(sides.lower, layout.low_slope, layout.high_slope)
    high = known + np.where(sides.lower, -sides.below, sides.above)
    return replace(
        layout,
        low=np.where(sides.doubt, known - sides.below, high),
        high=high,
        low_slope=np.where(sides.doubt, layout.low_slope, slope),
        high_slope=slope,
        bound=layout.bound & ~sides.inside,
        equal=layout.equal | sides.lower | sides.upper,
        band=sides.doubt,
    )


def _medians(prices: Floats, layout: SystemLayout) -> Floats:
    """Give the median of each family and class by share: the price from which those of entries count where levels are means."""
    found = np.zeros(layout.averaged.shape)
    for family in np.flatnonzero(layout.averaged.any(axis=1)):
        mine = layout.family == family
        order = np.argsort(prices[mine], axis=0)
        below = np.cumsum(layout.share[mine][:, 0][order], axis=0) < 0.5 * layout.total[family]
        found[family] = np.take_along_axis(
            np.take_along_axis(prices[mine], order, axis=0), below.sum(axis=0)[None], axis=0
        )[0]
    return found


def _levels(layout: SystemLayout, means: Floats) -> Floats:
    """Give levels for which no mean is farther outside its band than it must be."""
    used = layout.bound & layout.leveled[layout.family]
    highest = np.divide(
        means - layout.low,
        layout.low_slope,
        out=np.full_like(means, np.inf),
        where=used & (layout.low_slope > 0),
    )
    lowest = np.divide(
        means - layout.high,
        layout.high_slope,
        out=np.full_like(means, -np.inf),
        where=used & (layout.high_slope > 0),
    )
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (
            np.minimum.reduceat(highest, layout.first, axis=0)
            + np.maximum.reduceat(lowest, layout.first, axis=0)
        )
    return np.where(layout.leveled & np.isfinite(middle), middle, 0.0)


class _Doubtful(RowSide):
    """Rows beside their answer, in units of what is in doubt.

    Parameters
    ----------
    side : RowSide
        The rows of the whole problem.
    worth : ndarray of shape (n_rows, n_classes)
        lam times what entries are at the answer, in this unit; below 0 minus their duals.
    beside : ndarray of the same shape
        Shifts that the answer was made with and that are part of the prices to find.
    """

    def __init__(self, side: RowSide, worth: Floats, beside: Floats) -> None:
        self.__dict__.update(copy(side).__dict__)
        positive = worth > _SURE * side.lam
        self.doubt: Flags = ~positive & (worth > -_SURE)
        self.moving: Flags = positive | self.doubt
        # Of an entry that is surely positive only its change is of interest: it counts from here,
        # whatever it is.
        self.known = np.where(
            positive, _SURE, np.where(self.doubt, np.maximum(worth, 0.0) / side.lam, 0.0)
        )
        self.y = np.where(positive, side.lam * _SURE, worth) + beside
        self.whole = self.known.sum(axis=1)
        self.mass = float(self.weight @ self.doubt.sum(axis=1))

    def centred(self, shifts: Floats, products: float) -> RowPoint:
        """Start where rows answer these shifts but for their sums, with all products equal."""
        worth = self.y - shifts
        root = np.sqrt(worth**2 + 4.0 * self.lam * products)
        x = np.where(worth > 0, worth + root, 4.0 * self.lam * products / (root - worth)) / (
            2.0 * self.lam
        )
        z = np.where(self.doubt, products / x, 0.0)
        return RowPoint(
            np.where(self.doubt, x, np.where(self.moving, worth / self.lam, 0.0)),
            z,
            np.zeros(len(x)),
        )

    def gaps(self, at: RowPoint, shifts: Floats) -> RowGaps:
        """Residuals of the rows' equations; what stays 0 has none."""
        found = super().gaps(at, shifts)
        found.stationary[~self.moving] = 0.0
        largest = max(float(np.abs(found.stationary).max()), float(np.abs(found.row_sum).max()))
        return replace(found, largest=largest)

    def reach(self, here: RowPoint, d: RowPoint) -> float:
        """Largest step along a direction that keeps what is in doubt at or above zero."""
        return min(
            longest(one[self.doubt], change[self.doubt])
            for one, change in ((here.x, d.x), (here.z, d.z))
        )

    def system(self, here: RowPoint, gaps: RowGaps) -> RowSystem:
        """Linearise."""
        return _DoubtfulSystem(self, here, gaps)


class _DoubtfulSystem(RowSystem):
    """The rows' part of the Newton system: what is not in doubt has no product, and moves freely or not at all."""

    def __init__(self, side: _Doubtful, here: RowPoint, gaps: RowGaps) -> None:
        # Where nothing is in doubt any number does as the entry that products are divided by.
        self.side, self.gaps, self.doubt = side, gaps, side.doubt
        self.here = replace(here, x=np.where(side.doubt, here.x, 1.0))
        self.ratio = here.z / self.here.x
        self.d = np.where(side.moving, 1.0 / (self.ratio + side.lam), 0.0)
        self.d_sum = self.d.sum(axis=1)

    def aim(self, target: float, second_order: RowPoint | None) -> Floats:
        """Give the changes that bring every product in doubt to ``target``."""
        return np.asarray(np.where(self.doubt, super().aim(target, second_order), 0.0))
