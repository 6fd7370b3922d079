"""Parity as one constraint: families of groups over cells, each with its bound.

Rows belong to cells, cells to groups; a group counts a cell by the entry of the design. The shift of a cell is what its groups' prices add
up to, and the mean of a group is the sum of its cells' means by weight:

    shift_j = sum_g B_jg nu_g,        M_g = sum_j v_j B_jg m_j / share_g.

With indicators these are groups, with probabilities uncertain groups, with basis functions the moments of a continuous attribute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity.bands import RangeBound
from r2b._constraints.parity.bounds import Bound, MomentBound, Projected, TargetBound

Floats = NDArray[np.float64]

_ZERO = 1e-11  # prices below this, which are units of labels, are none
_SAME = 1e-12  # slopes are sums of eps / 2


def centred(prices: Floats, epsilon: Floats, share: Floats) -> Floats:
    """Give the prices with the means nearest to 0 among those that are as good.

    Parameters
    ----------
    prices : ndarray of shape (n_groups, n_classes)
        Optimal for a range, with ``sum_s W_s nu_sk = 0`` for every class.
    epsilon : ndarray of shape (n_classes,)
    share : ndarray of shape (n_groups,)

    Examples
    --------
    >>> centred(np.array([[0.5, 0.3], [-0.5, -0.3]]), np.zeros(2), np.array([0.5, 0.5])).round(3)
    array([[ 0.1, -0.1],
           [-0.1,  0.1]])
    """
    if not np.isfinite(epsilon).all():  # a class that is free has no price, and a constant would give it one
        return prices
    half = 0.5 * epsilon
    left = np.where(prices > _ZERO, 1.0, -1.0) @ half
    right = np.where(prices < -_ZERO, -1.0, 1.0) @ half
    flat = np.flatnonzero(np.abs(right - left) <= _SAME)
    if not len(flat):
        return prices  # every group sits on a corner: the prices are the only ones
    slope = left[flat[0]]
    breaks = np.where(epsilon > 0, -prices, np.nan)  # the constant at which a price changes its sign
    lowest = np.where(breaks < -_ZERO, breaks, -np.inf).max(axis=1, initial=-np.inf)
    highest = np.where(breaks > _ZERO, breaks, np.inf).min(axis=1, initial=np.inf)
    lowest = np.where(np.abs(left - slope) <= _SAME, lowest, 0.0)
    highest = np.where(np.abs(right - slope) <= _SAME, highest, 0.0)
    return np.asarray(prices + _moves(prices.mean(axis=1), lowest, highest, share)[:, None])


def _moves(means: Floats, lowest: Floats, highest: Floats, share: Floats) -> Floats:
    """Give moves within their limits, balanced, that bring the means nearest to a common level of 0: ``clip(level - mean)``."""

    def at(level: float) -> Floats:
        return np.clip(level - means, lowest, highest)

    # The balance grows with the level and is piecewise linear: between two of its corners a line tells the root.
    corners = np.concatenate([means + lowest, means + highest])
    corners = np.unique(np.concatenate([corners[np.isfinite(corners)], means, [0.0]]))
    balance = np.array([float(share @ at(level)) for level in corners])
    after = int(np.searchsorted(balance, 0.0))
    if after == 0 or after == len(corners):
        edge = corners[0] if after == 0 else corners[-1]
        moving = share[(at(edge) > lowest) & (at(edge) < highest)].sum() if np.isfinite(edge) else 0.0
        outside = share[np.isinf(lowest if after == 0 else highest)].sum()
        pace = float(max(moving, outside))
        level = edge - float(share @ at(edge)) / pace if pace > 0 else edge
        return at(level)
    low, high = corners[after - 1], corners[after]
    span = balance[after] - balance[after - 1]
    return at(low + (high - low) * (0.0 - balance[after - 1]) / span if span > 0 else high)


def within_reach(prices: Floats, epsilon: Floats, reach: float) -> Floats:
    """Bring prices near a target down to what a row could pay: beyond it they change no label, and cost the labels their digits.

    A class whose price is more than ``reach`` above the least of its group is in the label of no row. Lowering it down to there, but not
    below 0, changes no label and makes no bound worse. Where every epsilon is 0, a constant per group is free as well.

    Parameters
    ----------
    prices : ndarray of shape (n_groups, n_classes)
        Optimal for a target, the groups being the cells.
    epsilon : ndarray of shape (n_classes,)
    reach : float
        The largest difference of what two classes are worth to a row, and lambda.

    Examples
    --------
    >>> within_reach(np.array([[-1000.0, -1000.5, 1e6]]), np.zeros(3), 2.0)
    array([[-0.33333333, -0.83333333,  1.16666667]])
    """
    if not np.isfinite(epsilon).all():  # a class that is free has no price
        return prices
    most = prices.min(axis=1, keepdims=True) + reach
    if epsilon.any():
        return np.asarray(np.minimum(prices, np.maximum(most, 0.0)))
    lowered = np.minimum(prices, most)
    return np.asarray(lowered - lowered.mean(axis=1, keepdims=True))


Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Member:
    """One family of a parity constraint: which groups must agree, and how closely.

    Attributes
    ----------
    name : str
        Such as ``"sex"`` or ``"sex x race"``; ``""`` for one column without a name.
    groups : slice
        Its groups among those of the constraint.
    bound : Bound
    """

    name: str
    groups: slice
    bound: Bound


@dataclass(frozen=True, eq=False)
class Parity:
    """Families over cells.

    Attributes
    ----------
    members : tuple of Member
    names : ndarray of shape (n_groups,)
        Names of all groups, family after family.
    share : ndarray of shape (n_groups,)
        Weight of each group as a share of the total; 1 for the moments of a continuous attribute.
    cell_share : ndarray of shape (n_cells,)
    design : ndarray of shape (n_cells, n_groups), or None where groups are the cells themselves

    Examples
    --------
    >>> bound = RangeBound.of(0.0, n_classes=2)
    >>> design = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> parity = Parity((Member("", slice(0, 2), bound),), np.array(["a", "b"]), np.array([0.5, 0.5]), np.array([0.2, 0.3, 0.5]), design)
    >>> parity.means(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    array([[0.4, 0.6],
           [0.5, 0.5]])
    """

    members: tuple[Member, ...]
    names: Array
    share: Floats
    cell_share: Floats
    design: Floats | None = None

    @classmethod
    def of_groups(cls, bound: Bound, weight: Floats, names: Array | None = None, name: str = "") -> Parity:
        """One family whose groups are the cells themselves."""
        share = weight / weight.sum()
        named = np.arange(len(share)) if names is None else names
        return cls((Member(name, slice(0, len(share)), bound),), named, share, share)

    @property
    def n_groups(self) -> int:
        """The number of groups, over all families."""
        return len(self.share)

    @property
    def simple(self) -> bool:
        """Whether this is the paper's constraint: one family, its groups the cells, a range."""
        return self.design is None and len(self.members) == 1 and isinstance(self.members[0].bound, RangeBound)

    @property
    def bound(self) -> RangeBound:
        """The bound of a simple constraint."""
        bound = self.members[0].bound
        assert self.simple and isinstance(bound, RangeBound)
        return bound

    @cached_property
    def matrix(self) -> Floats:
        """The design, also where it is the identity."""
        return np.eye(self.n_groups) if self.design is None else self.design

    @cached_property
    def scale(self) -> float:
        """A bound on the factor between the squared lengths of shifts and of the prices they come from; 1 for disjoint groups."""
        if self.design is None:
            return 1.0
        # The largest row sum bounds the largest eigenvalue, and for groups that count cells whole it is that eigenvalue.
        if (self.design >= 0).all():
            pairs = self.design.T @ (self.cell_share * self.design.sum(axis=1))
        else:
            pairs = np.abs(self.design.T @ (self.cell_share[:, None] * self.design)).sum(axis=1)
        return float((pairs / self.share).max())

    @cached_property
    def components(self) -> list[NDArray[np.intp]]:
        """Groups that constrain each other through shared cells or a shared family, as lists of group numbers."""
        label = np.arange(self.n_groups)
        for member in self.members:
            label[member.groups] = label[member.groups].min()
        touching = (self.matrix != 0).astype(np.float64)
        joined = touching.T @ touching > 0
        while True:
            nearest = np.where(joined, label[None, :], self.n_groups).min(axis=1)
            for member in self.members:
                nearest[member.groups] = nearest[member.groups].min()
            if (nearest == label).all():
                return [np.flatnonzero(label == each) for each in np.unique(label)]
            label = nearest

    def shifts(self, prices: Floats) -> Floats:
        """Add up the prices of its groups for each cell."""
        return prices if self.design is None else self.design @ prices

    def largest_shift(self, prices: Floats) -> float:
        """Bound the shift of any cell: what its parts in groups make of the largest price."""
        largest = float(np.abs(prices).max())
        if self.design is None or largest == 0:
            return largest
        return largest * float(np.abs(self.design).sum(axis=1).max())

    def means(self, cell_means: Floats) -> Floats:
        """Means of groups from means of cells."""
        if self.design is None:
            return cell_means
        means: Floats = self.design.T @ (self.cell_share[:, None] * cell_means) / self.share[:, None]
        return means

    def project(self, means: Floats) -> Projected:
        """Project each family's means onto what it allows."""
        parts = [member.bound.project(means[member.groups], self.share[member.groups]) for member in self.members]
        if len(parts) == 1:
            return parts[0]
        return Projected(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "clipped", "slope")))

    def settle(self, prices: Floats) -> Floats:
        """Give the closest prices at which the support function is finite."""
        return np.concatenate([member.bound.settle(prices[member.groups], self.share[member.groups]) for member in self.members])

    def canonical(self, prices: Floats, reach: float) -> Floats:
        """Settle optimal prices; of those that are as good, take the ones whose means over the classes are nearest to 0.

        Parameters
        ----------
        prices : ndarray of shape (n_groups, n_classes)
        reach : float
            The largest difference of what two classes are worth to a row, and lambda: prices farther apart say no more.
        """
        prices = self.settle(prices)
        if self.design is None and len(self.members) == 1 and self.members[0].bound.kind == "target":
            return within_reach(prices, self.members[0].bound.epsilon, reach)
        if not self.simple or self.n_groups == 1:
            return prices
        return self.settle(centred(prices, self.bound.epsilon, self.share))

    def support(self, prices: Floats) -> float:
        """Value of the support function at settled prices."""
        return sum(member.bound.support(prices[member.groups], self.share[member.groups]) for member in self.members)

    def violation(self, means: Floats) -> float:
        """How far outside its bound some mean lies, in units of means."""
        return max(float(member.bound.violation(means[member.groups], self.share[member.groups]).max()) for member in self.members)

    def product(self, prices: Floats, means: Floats) -> float:
        """Give the product of prices and means weighted by the groups."""
        return float(self.share @ (prices * means).sum(axis=1))

    def at_least(self, epsilon: float) -> Parity:
        """Give the same families with every epsilon at least this."""
        members = [replace(member, bound=member.bound.at(np.maximum(member.bound.epsilon, epsilon))) for member in self.members]
        return replace(self, members=tuple(members))

    def at(self, epsilon: float) -> Parity:
        """Give the same families with this epsilon for every class that is bounded."""
        members = []
        for member in self.members:
            old = member.bound.epsilon
            members.append(replace(member, bound=member.bound.at(np.where(np.isfinite(old), epsilon, old))))
        return replace(self, members=tuple(members))


_EXCESS = 1e-9  # by how much a certificate lets labels be off a bound and rows off the simplex
_ROUNDING = float(np.finfo(np.float64).eps)


def surely_feasible(parity: Parity) -> bool:
    """Tell whether one distribution for all rows meets every bound.

    Under it the means of all groups are that distribution and the moments of continuous attributes 0, so that only targets can be missed.

    Examples
    --------
    >>> def pinned(*targets):
    ...     bounds = [TargetBound(np.zeros(2), np.array(target)) for target in targets]
    ...     members = tuple(Member("", slice(place, place + 1), bound) for place, bound in enumerate(bounds))
    ...     return Parity(members, np.arange(len(bounds)), np.ones(len(bounds)), np.ones(1), np.ones((1, len(bounds))))
    >>> from r2b._constraints.parity import Member
    >>> surely_feasible(pinned([0.5, 0.5])), surely_feasible(pinned([0.5, 0.5], [0.4, 0.6]))
    (True, False)
    """
    targets = [m.bound for m in parity.members if isinstance(m.bound, TargetBound) and not isinstance(m.bound, MomentBound)]
    if not targets:
        return True
    low = np.max([np.maximum(bound.target - bound.reach, 0.0) for bound in targets], axis=0)
    high = np.min([np.minimum(bound.target + bound.reach, 1.0) for bound in targets], axis=0)
    return bool((low <= high + _EXCESS).all() and low.sum() <= 1.0 + _EXCESS and high.sum() >= 1.0 - _EXCESS)


def proves_infeasible(parity: Parity, prices: Floats) -> bool:
    """Tell whether these prices prove that no labels are within all bounds, even by the excess that a certificate lets pass.

    Each row pays at least the least shift of its cell, all rows together ``sum_j v_j min_k shift_jk``. Paid for groups it is
    ``<prices, means>``, of which allowed means give at most so much (:meth:`Bound.most`). Where rows pay more, no means are allowed
    (Farkas' lemma). Labels within an excess of the bounds could pay that much more per unit of price; rounding is bounded by the number of
    terms of each sum times the sum of their sizes.
    """
    prices = parity.settle(prices)
    if not np.isfinite(prices).all():
        return False
    sizes = np.abs(prices)
    charged = float(parity.share @ sizes.sum(axis=1))
    paid = float(parity.cell_share @ parity.shifts(prices).min(axis=1))
    most = sum(member.bound.most(prices[member.groups], parity.share[member.groups]) for member in parity.members)
    shifted = sizes if parity.design is None else np.abs(parity.design) @ sizes
    size = float(parity.cell_share @ shifted.max(axis=1))
    rounding = _ROUNDING * (len(parity.cell_share) + parity.n_groups + 8) * (size + 2.0 * charged)
    return paid - most > _EXCESS * (charged + size) + rounding
