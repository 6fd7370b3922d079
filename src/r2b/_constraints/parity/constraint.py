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
from r2b._constraints.parity.bounds import Bound, Projected
from r2b._constraints.parity.canon import centred, within_reach

Floats = NDArray[np.float64]
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
