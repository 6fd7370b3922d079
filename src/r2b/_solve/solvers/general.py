"""Interior point for any parity constraint: families that share cells, bands that narrow with their level, boxes, equalities.

Per entry (group g, class k) of a family with level c the slacks are ``b = high_slope c + high - m``
with dual p and ``a = m - low_slope c - low`` with dual q. The price is p - q; where the level is
the mean of the family it is what p - q is apart from its own mean. Entries whose sides coincide
have a price and no slacks. Eliminating rows and slacks leaves prices and levels, one dense system
for each set of groups that touch each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from r2b._data.arrays import Flags, Floats
from r2b._solve.certificate import Problem
from r2b._solve.solvers.central import Aim, CentralPath, CentralPoint, Gaps, InteriorState, System
from r2b._solve.solvers.conditions import Conditions, system_of
from r2b._solve.solvers.factors import RowCurvature
from r2b._solve.solvers.gradients import EXACT
from r2b._solve.solvers.rows import longest
from r2b._solve.solvers.systems import (
    Curved,
    SystemLayout,
    curvature_of,
    layout_of,
    times,
    unfolded,
)

# Families that imply each other leave prices a choice. Basis functions that nearly do leave
# curvature hardly larger than this.
_SHARED_DAMPING = 1e-11


def face_prices(
    layout: SystemLayout,
    sides: tuple[Flags, Flags],
    folded: list[Curved],
    means: Floats,
    near: Floats,
    own: Floats,
    lam: float,
    owed: Floats | float = 0.0,
) -> Floats:
    """Give the entries' own prices on a face of the set of allowed means, nearest to ``own`` where it leaves a choice.

    Parameters
    ----------
    layout : SystemLayout
    sides : pair of ndarray of bool, shape (n_groups, n_classes)
        Entries of open bands that lean on the upper side, and on the lower. On both: the tip of a
        band that narrows to a point.
    folded : list
        Curvature of each component.
    means : ndarray of shape (n_groups, n_classes)
        At the prices ``near``.
    near, own : ndarray of shape (n_groups, n_classes)
        Prices of groups, and those of entries: the same except where they are passed on less their
        mean.
    lam : float
    owed : ndarray of shape (n_families, n_classes) or 0
        What levels are out of balance by already.
    """
    (upper, lower), share = sides, layout.share
    tip = upper & lower & (layout.high_slope != layout.low_slope)
    tips = np.logical_or.reduceat(tip, layout.first, axis=0)
    # At the tip nothing moves: every mean of the class is 0.
    leveled = layout.leveled & ~tips
    clipped = upper | lower | layout.equal | (tips[layout.family] & layout.bound)
    low_side = lower & ~upper
    slope = np.where(
        leveled[layout.family], np.where(low_side, layout.low_slope, layout.high_slope), 0.0
    )
    exact = np.where(clipped, own, 0.0)
    held = Conditions(
        clipped,
        np.zeros_like(own),
        slope,
        leveled,
        np.zeros(leveled.shape),
        CentralPath.face_damping / lam,
    )
    change = layout.centred(exact) - near
    balance = -layout.family_sum(share * slope * exact) - owed
    reached = means.copy()
    for component, block in zip(layout.components, folded, strict=True):
        groups = component.groups
        reached[groups] -= times(block, change[groups]) / share[groups]
    right = layout.centred(reached) - np.where(low_side, layout.low, layout.high)
    for component, block in zip(layout.components, folded, strict=True):
        mine = held if component.disjoint else replace(held, damping=_SHARED_DAMPING / lam)
        system = system_of(layout, component, block, mine)
        exact[component.groups] += system.solve(right[component.groups], balance)[0]
    return exact


# times what labels and lambda can make of a difference between classes: a price that no one pays
_FORBIDDING = 100.0
_LEAST_PART = 1e-3  # of a row in a group that it is multiplied for
_FLOOR = 1e-7  # of a class at the centre of the path's start
# of a direction, and prices of groups that share rows from which they pay
_CORRECTIONS, _DEAR = 3, 200
# what conjugate gradients may leave, once a step is lost to it; as long as it is above this
_MORE_EXACT, _MOST_EXACT = 0.3, 2e-5
# least slacks to start with: in a narrower band the first step would send prices beyond all bounds
_ROOM = 1e-2


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneralPoint(CentralPoint):
    """With the upper slacks b; levels c are those of families x classes."""

    b: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class SideGaps(Gaps):
    """With the residuals of both slacks, those of equalities in ``upper``."""

    lower: Floats
    upper: Floats


class GeneralInterior(CentralPath[GeneralPoint, SideGaps]):
    """Predictor-corrector method for any constraint; see :class:`CentralPath` for its settings."""

    def __init__(self, problem: Problem, middle: float = 0.7, products: float = 0.05) -> None:
        self.parity = problem.parity
        self.owed: Floats | float = 0.0  # what levels are out of balance by before any price
        # what solutions may leave, and whether those of the last step did
        self.exact, self.by_gradients = EXACT, False
        layout = layout_of(problem.parity)
        self.share = problem.parity.share[:, None]
        # A mean of at most 0 has no interior: no row of the group may have the class, and a price
        # that no row pays sees to it.
        design = problem.parity.matrix
        nothing = (
            layout.bound
            & (layout.high_slope == 0)
            & (layout.high == 0)
            & np.asarray((design >= 0).all(axis=0))[:, None]
        )
        least = np.maximum(design.min(axis=0, where=design > 0, initial=1.0), _LEAST_PART)[:, None]
        self.fixed = np.where(nothing, _FORBIDDING * problem.reach / least, 0.0)
        self.layout = layout = replace(
            layout,
            **{
                name: getattr(layout, name) & (self.fixed == 0)
                for name in ("bound", "equal", "band")
            },
        )
        open_width = np.where(
            layout.high > layout.low, layout.high - layout.low, layout.high_slope - layout.low_slope
        )
        super().__init__(
            problem,
            middle,
            products,
            min(1.0, float(open_width.min(where=layout.band, initial=1.0))),
        )
        # Factorised systems that are dear are worth another solution or two.
        self.corrections = (
            _CORRECTIONS
            if any(not part.disjoint for part in layout.components) and self.n_prices > _DEAR
            else 0
        )
        self.mass = problem.n_classes + 2.0 * float((self.share * layout.band).sum())
        if self.fixed.any():
            self.rows.y = self.rows.y - self.parity.shifts(self.fixed)[self.rows.cell]

    def start(self, prices: Floats) -> InteriorState[GeneralPoint, SideGaps]:
        """Start in the middle of every band, with all products equal. Prices of earlier attempts are of no use here."""
        layout = self.layout
        rows = self.rows.start(self.middle, self.mu, self._centre())
        means = self.parity.means(self.rows.means(rows.x))
        slope = np.where(
            layout.high_slope + layout.low_slope > 0, layout.high_slope + layout.low_slope, 1.0
        )
        centre = (
            2.0 * layout.family_mean(means) - (layout.high + layout.low)[layout.first]
        ) / slope[layout.first]
        c = np.where(layout.leveled, centre, 0.0)
        width = (layout.high_slope - layout.low_slope) * c[layout.family] + layout.high - layout.low
        half = np.where(layout.band, np.maximum(0.5 * width, _ROOM), 1.0)
        dual = np.where(layout.band, self.mu / half, 0.0)
        return self._state(
            GeneralPoint(
                rows=rows,
                prices=np.zeros_like(half),
                a=half,
                b=half.copy(),
                p=dual,
                q=dual.copy(),
                c=c,
            )
        )

    def _state(self, point: GeneralPoint) -> InteriorState[GeneralPoint, SideGaps]:
        return replace(super()._state(point), prices=self.asked(point.prices))

    def asked(self, prices: Floats) -> Floats:
        """Give prices of the problem that was asked."""
        return prices + self.fixed

    def upper_slacks(self, at: GeneralPoint) -> Floats:
        """Give the upper slacks."""
        return at.b

    def more_digits(self) -> bool:
        """Ask conjugate gradients for more digits: what they leave of what rows and bands lack is more than products are by then."""
        if not self.by_gradients or self.exact <= _MOST_EXACT:
            return False
        self.exact *= _MORE_EXACT
        return True

    def _centre(self) -> Floats | None:
        """Give the distribution that targets ask for, at which all groups agree; None where there are none."""
        layout, members = (
            self.layout,
            [member for member in self.parity.members if member.bound.sides().level == "none"],
        )
        if not members or (self.parity.matrix < 0).any():
            return None
        asked = np.any([np.isfinite(member.bound.epsilon) for member in members], axis=0)
        centre = np.mean(
            [0.5 * (layout.low + layout.high)[member.groups.start] for member in members], axis=0
        )
        rest = max(1.0 - float(centre[asked].sum()), 0.0) / max(1, int((~asked).sum()))
        centre = np.maximum(np.where(asked, centre, rest), _FLOOR)
        return np.asarray(centre / centre.sum())

    def infeasibility(self, at: GeneralPoint) -> SideGaps:
        """Residuals of the equations that a solution satisfies exactly."""
        layout = self.layout
        rows = self.rows.gaps(at.rows, self.parity.shifts(at.prices))
        means, c = layout.centred(self.parity.means(rows.means)), at.c[layout.family]
        upper = layout.high_slope * c + layout.high - means - np.where(layout.band, at.b, 0.0)
        lower = np.where(layout.band, means - layout.low_slope * c - layout.low - at.a, 0.0)
        upper = np.where(layout.bound, upper, 0.0)
        pull = np.where(
            layout.band,
            layout.high_slope * at.p - layout.low_slope * at.q,
            layout.high_slope * at.prices,
        )
        balance = np.where(layout.leveled, layout.family_sum(self.share * pull) + self.owed, 0.0)
        largest = max(rows.largest, *(float(np.abs(x).max()) for x in (lower, upper, balance)))
        return SideGaps(rows=rows, lower=lower, upper=upper, balance=balance, largest=largest)

    def complementarity(self, at: GeneralPoint) -> float:
        """Mean of all products."""
        bands = np.where(self.layout.band, at.p * at.b + at.q * at.a, 0.0)
        return (self.rows.complementarity(at.rows) + float((self.share * bands).sum())) / self.mass

    def reach(self, here: GeneralPoint, d: GeneralPoint) -> float:
        """Largest step along a direction that keeps everything positive, at most a little over 1."""
        band = self.layout.band
        limits = [
            longest(getattr(here, name)[band], getattr(d, name)[band])
            for name in ("a", "b", "p", "q")
        ]
        return min(1.0 / self.shy, self.rows.reach(here.rows, d.rows), *limits)

    def system(self, here: GeneralPoint, off: SideGaps) -> _SideSystem:
        """Linearise and factorise."""
        return _SideSystem(self, here, off)

    def at_face(
        self, state: InteriorState[GeneralPoint, SideGaps], lean: float = 1.0
    ) -> Iterator[Floats]:
        """Guess prices that are exact on the face where the iteration ended."""
        at, layout = state.point, self.layout
        cell_means, d, d_sum = self.rows.on_support(at.rows, self.parity.shifts(at.prices), lean)
        folded = curvature_of(self.rows, self.parity, layout.components, d, d_sum)
        means = self.parity.means(cell_means)
        upper = layout.band & (at.p * lean > at.b)
        lower = layout.band & (at.q * lean > at.a)
        own = np.where(layout.averaged[layout.family], at.p - at.q, at.prices)
        for _ in range(self.releases):
            exact = face_prices(
                layout, (upper, lower), folded, means, at.prices, own, self.rows.lam, self.owed
            )
            yield self.asked(layout.centred(exact))
            # A price of the wrong sign says that its entry does not lean on that side of the band:
            # let it go and solve again.
            wrong = (upper & ~lower & (exact < 0)) | (lower & ~upper & (exact > 0))
            if not wrong.any():
                break
            upper, lower = upper & ~wrong, lower & ~wrong


class _SideSystem(System[GeneralPoint]):
    """The Newton system of the central path at one point, factorised."""

    def __init__(self, method: GeneralInterior, here: GeneralPoint, off: SideGaps) -> None:
        self.method, self.here, self.off, self.b = method, here, off, here.b
        layout = method.layout
        high, low = here.p / here.b, here.q / here.a
        theta = np.where(layout.band, high + low, 1.0)
        self.softness = np.where(layout.band, 1.0 / theta, method.regularisation)
        # With dm = softness d + slope c + ..., the slope lies between those of the two sides,
        # nearer to that of the tighter one.
        apart = np.where(layout.band, layout.high_slope - layout.low_slope, 0.0)
        # high_slope - slope, slope - low_slope
        self.above, self.below = apart * low / theta, apart * high / theta
        omega = layout.family_sum(
            method.share * np.where(layout.band, apart**2 * high * low / theta, 0.0)
        )
        self.rows = method.rows.system(here.rows, off.rows)
        conditions = Conditions(
            layout.bound,
            self.softness,
            layout.high_slope - self.above,
            layout.leveled,
            omega,
            exact=method.exact,
        )
        seen = method.rows, method.parity, self.rows.d, self.rows.d_sum
        folded = curvature_of(*seen[:2], layout.components, *seen[2:])
        self.parts = [
            (
                component.groups,
                system_of(
                    layout,
                    component,
                    block,
                    conditions,
                    partial(unfolded, *seen[:2], component, *seen[2:]),
                ),
            )
            for component, block in zip(layout.components, folded, strict=True)
        ]
        method.by_gradients = any(
            isinstance(block, RowCurvature) and block.products > 0 for block in folded
        )

    def upper_change(self, d: GeneralPoint) -> Floats:
        """Give the change of the upper slacks along a direction."""
        return d.b

    def direction(self, aim: Aim, *, repair: float) -> GeneralPoint:
        """Direction that makes these changes to first order and removes this part of the infeasibility."""
        method, here, layout = self.method, self.here, self.method.layout
        band = layout.band
        short_b, short_a = repair * self.off.upper, repair * self.off.lower
        up = np.where(band, (aim.upper - here.p * short_b) / here.b, 0.0)
        down = np.where(band, (aim.lower - here.q * short_a) / here.a, 0.0)
        rows, cell_means = self.rows.own(aim.rows, repair)
        right = layout.centred(method.parity.means(cell_means)) - np.where(
            band, -self.softness * (up - down), short_b
        )
        balance = -repair * self.off.balance - layout.family_sum(
            method.share * (self.above * up + self.below * down)
        )
        own, c = self._solve(right, balance)
        prices = layout.centred(own)
        self.rows.respond(rows, method.parity.shifts(prices))
        core = self.softness * (own - up + down)
        level = c[layout.family]
        b = np.where(band, self.above * level - core + short_b, 0.0)
        a = np.where(band, self.below * level + core + short_a, 0.0)
        p = np.where(band, (aim.upper - here.p * b) / here.b, 0.0)
        q = np.where(band, (aim.lower - here.q * a) / here.a, 0.0)
        return GeneralPoint(rows=rows, prices=prices, a=a, b=b, p=p, q=q, c=c)

    def _solve(self, right: Floats, balance: Floats) -> tuple[Floats, Floats]:
        own, c = np.zeros_like(right), np.zeros_like(balance)
        for groups, system in self.parts:
            own[groups], levels = system.solve(right[groups], balance)
            c += levels
        return own, c
