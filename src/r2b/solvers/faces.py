"""Prices that are exact on one face of a general constraint: which entries lean on which side is given, prices and levels follow.

Entries inside a band have no price of their own. Where the level of the band is the mean of the family, own prices are passed on less
their mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from r2b.parity import Parity
from r2b.solvers.central import FACE_DAMPING
from r2b.solvers.elimination import ComponentSystem, Layout, centred_block

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
            Minus the derivative of the means of each component, times share.
        means : ndarray of shape (n_groups, n_classes)
            At the prices ``near``.
        near, own : ndarray of shape (n_groups, n_classes)
            Prices of groups, and those of entries: the same except where they are passed on less their mean.
        lam : float
        """
        exact = np.where(self.clipped, own, 0.0)
        for groups, block in zip(self.parity.components, folded, strict=True):
            exact[groups] += self._change(groups, block, means[groups], near[groups], exact[groups], lam)
        return exact

    def _change(self, groups: NDArray[np.intp], block: Floats, means: Floats, near: Floats, own: Floats, lam: float) -> Floats:
        layout, share = self.layout, self.parity.share[groups, None]
        root, clipped = np.sqrt(share), self.clipped[groups]
        alive = np.flatnonzero(clipped.ravel())
        if not len(alive):
            return np.zeros_like(own)
        matrix = centred_block(block, self.parity, layout, groups).reshape(own.size, own.size)[np.ix_(alive, alive)]
        columns = []
        for f in np.unique(layout.family[groups]):
            leaning = clipped & (layout.family[groups] == f)[:, None]
            for k in np.flatnonzero(self.leveled[f] & leaning.any(axis=0)):
                column = np.zeros_like(own)
                column[:, k] = np.where(leaning[:, k], root[:, 0] * self.slope[groups, k], 0.0)
                columns.append(column.ravel()[alive])
        wide = np.stack(columns, axis=1) if columns else np.zeros((len(alive), 0))
        change = self._passed_on(groups, own) - near
        reached = means - np.einsum("gkhl,hl->gk", block, change) / share
        right = root * (self._passed_on(groups, reached) - self.height[groups])
        system = ComponentSystem(matrix, wide, np.zeros(wide.shape[1]), FACE_DAMPING / lam)
        found, _ = system.solve(right.ravel()[alive], -wide.T @ (root * own).ravel()[alive])
        step = np.zeros(own.size)
        step[alive] = found
        return np.asarray(step.reshape(own.shape) / root)

    def _passed_on(self, groups: NDArray[np.intp], entries: Floats) -> Floats:
        """Take away the mean of the family where that is the level."""
        layout, share, family = self.layout, self.parity.share[groups], self.layout.family[groups]
        passed = entries.copy()
        for f in np.unique(family):
            mine = family == f
            passed[mine] -= np.where(layout.averaged[f], share[mine] @ entries[mine] / layout.total[f], 0.0)
        return passed
