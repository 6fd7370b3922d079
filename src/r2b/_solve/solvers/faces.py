"""Prices that are exact on one face of a general constraint: which entries lean on which side is given, prices and levels follow.

Entries inside a band have no price of their own. Where the level of the band is the mean of the family, own prices are passed on less
their mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity import Parity
from r2b._solve.solvers.central import FACE_DAMPING
from r2b._solve.solvers.elimination import Layout
from r2b._solve.solvers.systems import Conditions, system_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Families that imply each other leave prices a choice. Basis functions that nearly do leave curvature hardly larger than this.
_SHARED_DAMPING = 1e-11


class Face:
    """A face of the set of allowed means.

    Parameters
    ----------
    parity : Parity
    layout : Layout
    upper, lower : ndarray of bool, shape (n_groups, n_classes)
        Entries of open bands that lean on a side. On both: the tip of a band that narrows to a point.
    """

    def __init__(self, parity: Parity, layout: Layout, upper: Flags, lower: Flags) -> None:
        self.parity, self.layout = parity, layout
        self.clipped = upper | lower | layout.equal
        tip = upper & lower & (layout.high_slope != layout.low_slope)
        tips = np.stack([tip[member.groups].any(axis=0) for member in parity.members])
        # At the tip nothing moves: every mean of the class is 0.
        self.leveled = layout.leveled & ~tips
        self.clipped |= tips[layout.family] & layout.bound
        low_side = lower & ~upper
        self.slope = np.where(self.leveled[layout.family], np.where(low_side, layout.low_slope, layout.high_slope), 0.0)
        self.height = np.where(low_side, layout.low, layout.high)

    def own_prices(self, folded: list[Floats], means: Floats, near: Floats, own: Floats, lam: float) -> Floats:
        """Give the entries' own prices on this face, nearest to ``own`` where it leaves a choice.

        Parameters
        ----------
        folded : list of ndarray
            Curvature of each component.
        means : ndarray of shape (n_groups, n_classes)
            At the prices ``near``.
        near, own : ndarray of shape (n_groups, n_classes)
            Prices of groups, and those of entries: the same except where they are passed on less their mean.
        lam : float
        """
        layout, share = self.layout, self.parity.share[:, None]
        exact = np.where(self.clipped, own, 0.0)
        held = Conditions(
            free=self.clipped,
            softness=np.zeros_like(own),
            slope=self.slope,
            leveled=self.leveled,
            omega=np.zeros(layout.leveled.shape),
            damping=FACE_DAMPING / lam,
        )
        change = self._passed_on(exact) - near
        pull = share * self.slope * exact
        balance = -np.stack([pull[member.groups].sum(axis=0) for member in self.parity.members])
        reached = means.copy()
        for component, block in zip(layout.components, folded, strict=True):
            groups = component.groups
            moved = np.einsum("gkl,gl->gk" if component.disjoint else "gkhl,hl->gk", block, change[groups])
            reached[groups] -= moved / share[groups]
        right = self._passed_on(reached) - self.height
        for component, block in zip(layout.components, folded, strict=True):
            mine = held if component.disjoint else replace(held, damping=_SHARED_DAMPING / lam)
            system = system_of(self.parity, layout, component, block, mine)
            exact[component.groups] += system.solve(right[component.groups], balance)[0]
        return exact

    def _passed_on(self, entries: Floats) -> Floats:
        """Take away the mean of the family where that is the level."""
        passed, share = entries.copy(), self.parity.share
        for f, member in enumerate(self.parity.members):
            mine = member.groups
            passed[mine] -= np.where(self.layout.averaged[f], share[mine] @ entries[mine] / self.layout.total[f], 0.0)
        return passed
