"""Parity as one constraint: families of groups over cells, each with its bound.

Rows belong to cells, cells to groups; a group counts a cell by the entry of the design. The shift
of a cell is what its groups' prices add up to, and the mean of a group is the sum of its cells'
means by weight:

    shift_j = sum_g B_jg nu_g,        M_g = sum_j v_j B_jg m_j / share_g.

With indicators these are groups, with probabilities uncertain groups, with basis functions the
moments of a continuous attribute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from r2b._constraints.parity.bands import OverallBound, RangeBound, RatioBound
from r2b._constraints.parity.bounds import Bound, MomentBound, Projected, TargetBound
from r2b._data.arrays import Array, Flags, Floats, Places
from r2b._data.compute import parts_of


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
    def of_groups(
        cls, bound: Bound, weight: Floats, names: Array | None = None, name: str = ""
    ) -> Parity:
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
        return (
            self.design is None
            and len(self.members) == 1
            and isinstance(self.members[0].bound, RangeBound)
        )

    @property
    def by_levels(self) -> bool:
        """Whether groups are the cells and share one level per class: the paper's constraint, perhaps shifted."""
        return (
            self.design is None
            and len(self.members) == 1
            and isinstance(self.members[0].bound.shape, RangeBound)
        )

    @cached_property
    def shift(self) -> Floats | None:
        """What is added to the means of all groups before the bounds are asked, of shape (n_groups, n_classes); None where nothing is."""
        if all(member.bound.shift is None for member in self.members):
            return None
        shift = np.zeros((self.n_groups, len(self.members[0].bound.epsilon)))
        for member in self.members:
            if member.bound.shift is not None:
                shift[member.groups] = member.bound.shift
        return shift

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
        # The largest row sum bounds the largest eigenvalue, and for groups that count cells whole
        # it is that eigenvalue.
        if (self.design >= 0).all():
            pairs = self.design.T @ (self.cell_share * (self.design @ np.ones(self.n_groups)))
        else:
            pairs = np.abs(self.design.T @ (self.cell_share[:, None] * self.design)).sum(axis=1)
        return float((pairs / self.share).max())

    @cached_property
    def banded(self) -> Flags:
        """Where a bound leaves room between two sides, (n_groups, n_classes): inside it there is no price."""
        counts = [member.groups.stop - member.groups.start for member in self.members]
        return np.repeat([member.bound.epsilon > 0 for member in self.members], counts, axis=0)

    @cached_property
    def touching(self) -> Flags:
        """Which groups share cells, (n_groups, n_groups)."""
        shared = np.zeros((self.n_groups, self.n_groups), dtype=bool)
        # a few cells tell where memberships have no zeros
        for part in parts_of(len(self.matrix), 1 << 13):
            there = (self.matrix[part] != 0).astype(np.float64)
            if (shared := shared | (there.T @ there > 0)).all():
                break
        return shared

    @cached_property
    def components(self) -> list[Places]:
        """Groups that constrain each other through shared cells or a shared family, as lists of group numbers."""
        if len(self.members) == 1:
            return [np.arange(self.n_groups)]
        label = np.arange(self.n_groups)
        for member in self.members:
            label[member.groups] = label[member.groups].min()
        while True:
            nearest = np.where(self.touching, label[None, :], self.n_groups).min(axis=1)
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
        return largest * float((np.abs(self.design) @ np.ones(self.n_groups)).max())

    def least_paid(self, prices: Floats, most: float) -> tuple[float, float, int]:
        """Give the least that rows pay at these prices whatever their labels, the size of the terms, and how many there are.

        Of interest is only whether it is above ``most``.
        """
        sizes = np.abs(prices) if self.design is None else np.abs(self.design) @ np.abs(prices)
        return (
            float(self.cell_share @ self.shifts(prices).min(axis=1)),
            float(self.cell_share @ sizes.max(axis=1)),
            len(self.cell_share),
        )

    def counts_whole(self, member: Member) -> bool:
        """Tell whether every row counts in a group of a family whole or not at all."""
        return self.design is not None and bool(
            np.isin(self.design[:, member.groups], (0.0, 1.0)).all()
        )

    def among(self, members: tuple[Member, ...], places: Places, design: Floats | None) -> Parity:
        """Give the constraint of some families, whose groups are these of all."""
        return Parity(members, self.names[places], self.share[places], self.cell_share, design)

    def means(self, cell_means: Floats) -> Floats:
        """Means of groups from means of cells."""
        if self.design is None:
            return cell_means
        return np.asarray(
            self.design.T @ (self.cell_share[:, None] * cell_means) / self.share[:, None]
        )

    def project(self, means: Floats, leaning: Floats | None = None) -> Projected:
        """Project each family's means onto what it allows; signs that tell who leans on which side save looking for it."""
        if leaning is not None and self.simple:
            bound = self.members[0].bound
            assert isinstance(bound, RangeBound)
            return bound.project(means, self.share, leaning)
        parts = [
            member.bound.project(means[member.groups], self.share[member.groups])
            for member in self.members
        ]
        if len(parts) == 1:
            return parts[0]
        return Projected(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("means", "clipped", "slope")
            )
        )

    def settle(self, prices: Floats) -> Floats:
        """Give the closest prices at which the support function is finite."""
        return np.concatenate(
            [
                member.bound.settle(prices[member.groups], self.share[member.groups])
                for member in self.members
            ]
        )

    def canonical(self, prices: Floats, reach: float) -> Floats:
        """Settle optimal prices; where groups are the cells, of those that are as good take the ones of :meth:`Bound.canonical`.

        Parameters
        ----------
        prices : ndarray of shape (n_groups, n_classes)
        reach : float
            The largest difference of what two classes are worth to a row, and lambda: prices
            farther apart say no more.
        """
        prices, cells = self.settle(prices), self.design is None and len(self.members) == 1
        return self.members[0].bound.canonical(prices, self.share, reach) if cells else prices

    def support(self, prices: Floats) -> float:
        """Value of the support function at settled prices."""
        return sum(
            member.bound.support(prices[member.groups], self.share[member.groups])
            for member in self.members
        )

    def violation(self, means: Floats) -> float:
        """How far outside its bound some mean lies, in units of means."""
        return max(
            float(member.bound.violation(means[member.groups], self.share[member.groups]).max())
            for member in self.members
        )

    def product(self, prices: Floats, means: Floats) -> float:
        """Give the product of prices and means weighted by the groups."""
        return float(self.share @ (prices * means).sum(axis=1))

    def at(self, epsilon: float, *, widen: bool = False) -> Parity:
        """Give the same families with this epsilon, or where they are to ``widen`` at least this, for every class that is bounded."""
        members = []
        for member in self.members:
            old = member.bound.epsilon
            new = np.maximum(old, epsilon) if widen else np.where(np.isfinite(old), epsilon, old)
            members.append(replace(member, bound=member.bound.at(new)))
        return replace(self, members=tuple(members))


_EXCESS = 1e-9  # by how much a certificate lets labels be off a bound and rows off the simplex
_ROUNDING = float(np.finfo(np.float64).eps)
_SAME_TARGET = 1e-12  # between the targets of two families over the same rows


def surely_feasible(parity: Parity) -> bool:
    """Tell whether one distribution for all rows meets every bound.

    Under it the means of all groups are that distribution and the moments of continuous attributes
    0, so that only targets can be missed, or bounds on means that are shifted apart.

    Examples
    --------
    >>> def pinned(*targets):
    ...     bounds = [TargetBound(np.zeros(2), np.array(target)) for target in targets]
    ...     members = tuple(Member("", slice(place, place + 1), bound) for place, bound in enumerate(bounds))
    ...     return Parity(members, np.arange(len(bounds)), np.ones(len(bounds)), np.ones(1), np.ones((1, len(bounds))))
    >>> surely_feasible(pinned([0.5, 0.5])), surely_feasible(pinned([0.5, 0.5], [0.4, 0.6]))
    (True, False)
    """
    if parity.shift is not None:
        return False
    targets = [
        m.bound
        for m in parity.members
        if isinstance(m.bound, TargetBound) and not isinstance(m.bound, MomentBound)
    ]
    if not targets:
        return True
    low = np.max([np.maximum(bound.target - bound.reach, 0.0) for bound in targets], axis=0)
    high = np.min([np.minimum(bound.target + bound.reach, 1.0) for bound in targets], axis=0)
    return bool(
        (low <= high + _EXCESS).all() and low.sum() <= 1.0 + _EXCESS and high.sum() >= 1.0 - _EXCESS
    )


def proves_infeasible(parity: Parity, prices: Floats) -> bool:
    """Tell whether these prices prove that no labels are within all bounds, even by the excess that a certificate lets pass.

    Each row pays at least the least shift of its cell, all rows together ``sum_j v_j min_k
    shift_jk``. Paid for groups it is ``<prices, means>``, of which allowed means give at most so
    much (:meth:`Bound.most`). Where rows pay more, no means are allowed (Farkas' lemma). Labels
    within an excess of the bounds could pay that much more per unit of price; rounding is bounded
    by the number of terms of each sum times the sum of their sizes.
    """
    prices = parity.settle(prices)
    if not np.isfinite(prices).all():
        return False
    sizes = np.abs(prices)
    charged = float(parity.share @ sizes.sum(axis=1))
    most = sum(
        member.bound.most(prices[member.groups], parity.share[member.groups])
        for member in parity.members
    )
    paid, size, n_terms = parity.least_paid(prices, most)
    rounding = _ROUNDING * (n_terms + parity.n_groups + 8) * (size + 2.0 * charged)
    return paid - most > _EXCESS * (charged + size) + rounding


@dataclass(frozen=True, eq=False)
class Slim:
    """A constraint without the families that the others imply: the same labels are allowed, by fewer prices.

    Attributes
    ----------
    parity : Parity
    places : ndarray of shape (n_groups of ``parity``,)
        Which groups of the whole constraint these are.
    carriers : list of (slice, ndarray)
        For each family left out its groups, and of each of the groups that carry it which of them
        it is in; -1 for none.
    size : int
        Groups of the whole constraint.
    """

    parity: Parity
    places: Places
    carriers: list[tuple[slice, Places]]
    size: int

    def whole(self, prices: Floats) -> Floats:
        """Give prices of all groups: those of implied families are 0."""
        prices_of_all = np.zeros((self.size, prices.shape[1]))
        prices_of_all[self.places] = prices
        return prices_of_all

    def reduced(self, prices: Floats) -> Floats:
        """Give prices of the groups that are left with the same shifts of cells: what a union costs, each of its groups does."""
        mine = prices.copy()
        for groups, union_of in self.carriers:
            there = union_of >= 0
            mine[there] += mine[groups][union_of[there]]
        return mine[self.places]


def without_implied(parity: Parity) -> Slim:
    """Leave out the families that others imply: a mean over a union of groups is an average of theirs, so crossings may bound margins.

    Where the groups of the one family that is left are the cells, the design goes as well.

    Examples
    --------
    >>> crossed, margin = np.eye(4), np.repeat(np.eye(2), 2, axis=0)
    >>> bound = RangeBound(np.full(3, 0.1))
    >>> members = (Member("sex", slice(0, 2), bound), Member("sex x race", slice(2, 6), bound))
    >>> share, design = np.array([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]), np.concatenate([margin, crossed], axis=1)
    >>> slim = without_implied(Parity(members, np.arange(6), share, np.full(4, 0.25), design))
    >>> slim.places.tolist(), slim.parity.simple
    ([2, 3, 4, 5], True)
    """
    kept, carriers = list(parity.members), []
    for member in parity.members if parity.design is not None and len(kept) > 1 else ():
        for other in kept:
            union_of = None if other is member else _implied(parity, member, other)
            if union_of is not None:
                kept.remove(member)
                carriers.append((member.groups, union_of))
                break
    places = np.concatenate([np.arange(member.groups.start, member.groups.stop) for member in kept])
    if parity.design is None or not carriers:
        return Slim(parity, places, [], parity.n_groups)
    design = parity.design[:, places]
    cells = np.argmax(design, axis=1)
    if (
        whole := len(kept) == 1
        and sorted(cells.tolist()) == list(range(design.shape[1]))
        and (design.sum(axis=1) == 1).all()
    ):
        places = places[cells]
    ends = np.cumsum([member.groups.stop - member.groups.start for member in kept]).tolist()
    members = tuple(
        replace(member, groups=slice(end - (member.groups.stop - member.groups.start), end))
        for member, end in zip(kept, ends, strict=True)
    )
    return Slim(
        parity.among(members, places, None if whole else design), places, carriers, parity.n_groups
    )


def _implied(parity: Parity, member: Member, other: Member) -> Places | None:
    """Where the bound of another family implies this one, tell of every group of the constraint which of this family it is part of."""
    if not _tighter(other.bound, member.bound):
        return None
    coarse, fine = parity.matrix[:, member.groups], parity.matrix[:, other.groups]
    if not (parity.counts_whole(member) and parity.counts_whole(other)):
        return None
    inside, covered = coarse.any(axis=1), fine.any(axis=1)
    everywhere = not isinstance(member.bound, OverallBound) or np.array_equal(inside, covered)
    if not everywhere or (inside & ~covered).any():
        return None
    union_of = np.full(parity.n_groups, -1, dtype=np.intp)
    part, whole = np.argmax(fine, axis=1), np.where(inside, np.argmax(coarse, axis=1), -1)
    union_of[other.groups.start + part[covered]] = whole[covered]
    agree = union_of[other.groups.start + part[covered]] == whole[covered]
    return union_of if agree.all() else None


def _tighter(bound: Bound, than: Bound) -> bool:
    """Tell whether means within one bound have averages within another, whatever the averages."""
    if isinstance(bound, MomentBound) or isinstance(than, MomentBound):
        return False
    if bound.shift is not None or than.shift is not None:
        return False  # the shift of a union need not be the average of those of its parts
    if isinstance(than, TargetBound):
        return isinstance(bound, TargetBound) and bool(
            (np.abs(bound.target - than.target) + bound.reach <= than.reach + _SAME_TARGET).all()
        )
    closer = bound.epsilon <= than.epsilon
    # Means that are all equal are within any bound between groups.
    enough = (bound.epsilon == 0) | np.isinf(than.epsilon)
    alike = type(bound) is type(than) or (
        isinstance(bound, (RangeBound, TargetBound))
        and isinstance(than, (RangeBound, OverallBound))
    )
    if isinstance(than, RatioBound):
        enough |= than.epsilon >= 1
    return bool((enough | closer).all() if alike else enough.all())
