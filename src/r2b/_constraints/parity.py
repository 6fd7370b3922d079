"""Parity as one constraint: a linear map from means of cells to the numbers that are compared.

Rows belong to cells, cells to groups; a group counts a cell by an entry of the design B. Of the
classes of a cell, T says which shares are compared: each row of T is an outcome. Prices belong to
groups and outcomes, and reach cells by the transposed map:

    means of groups   M_g = sum_j v_j B_jg T m_j / share_g + added_g
    shifts of cells   s_j = sum_g B_jg T' nu_g

With indicators in B these are groups, with probabilities uncertain groups, with basis functions the
moments of a continuous attribute. Without T every class is an outcome. Everything that bounds see
has the shape (n_groups, n_outcomes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from r2b._constraints.bounds import Bound, Projected, RangeBound, Sides
from r2b._data.arrays import Array, Flags, Floats, Places

_EXCESS = 1e-9  # by how much a certificate lets labels be off a bound and rows off the simplex
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Member:
    """One family of a parity constraint: which groups are compared, and how closely.

    Attributes
    ----------
    name : str
        Such as ``"sex"`` or ``"sex x race"``; ``""`` for one column without a name.
    groups : slice
        Its groups among those of the constraint.
    bound : Bound
    offsets : ndarray of shape (n_groups of the family, n_outcomes), optional
        Added to the means before the bound is asked; each row adds up to 0.
    """

    name: str
    groups: slice
    bound: Bound
    offsets: Floats | None = None

    @property
    def n_groups(self) -> int:
        """The number of its groups."""
        return int(self.groups.stop - self.groups.start)

    @cached_property
    def added(self) -> Floats:
        """The offsets of entries that are bounded, 0 elsewhere."""
        sides = self.bound.sides(self.n_groups)
        return np.where(sides.bounded, 0.0 if self.offsets is None else self.offsets, 0.0)

    def measure(self, means: Floats, weight: Floats) -> Floats:
        """Return the disparity of each outcome, of means of this family's groups."""
        offset = means if self.offsets is None else means + self.offsets
        return self.bound.measure(offset, weight)

    def violation(self, means: Floats, weight: Floats) -> Floats:
        """Return how far some mean of each outcome lies outside the bound."""
        return self.bound.violation(means + self.added, weight)

    def sides(self, weight: Floats) -> Sides:
        """Return the sides of means without their offsets, around a level of such means."""
        sides = self.bound.sides(self.n_groups)
        if self.offsets is None:
            return sides
        level = weight @ self.added / weight.sum() if self.bound.level == "mean" else 0.0
        less = np.where(sides.bounded, self.added - level, 0.0)
        return sides._replace(low=sides.low - less, high=sides.high - less)


def side_by_side(members: Sequence[Member]) -> tuple[Member, ...]:
    """Return the families with their groups numbered from the first family to the last."""
    ends = np.cumsum([member.n_groups for member in members]).tolist()
    return tuple(
        replace(m, groups=slice(end - m.n_groups, end))
        for m, end in zip(members, ends, strict=True)
    )


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
    outcomes : ndarray of shape (n_outcomes, n_classes), or None where every class is compared

    Examples
    --------
    >>> design = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> member, share = Member("", slice(0, 2), RangeBound(np.zeros(2))), np.array([0.5, 0.5])
    >>> parity = Parity((member,), np.array(["a", "b"]), share, np.array([0.2, 0.3, 0.5]), design)
    >>> parity.means(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    array([[0.4, 0.6],
           [0.5, 0.5]])
    """

    members: tuple[Member, ...]
    names: Array
    share: Floats
    cell_share: Floats
    design: Floats | None = None
    outcomes: Floats | None = field(default=None, kw_only=True)

    @classmethod
    def of_groups(
        cls,
        bound: Bound,
        weight: Floats,
        names: Array | None = None,
        name: str = "",
        offsets: Floats | None = None,
    ) -> Parity:
        """Return the constraint of one family whose groups are the cells themselves."""
        share = weight / weight.sum()
        named = np.arange(len(share)) if names is None else names
        return cls((Member(name, slice(0, len(share)), bound, offsets),), named, share, share)

    @property
    def n_groups(self) -> int:
        """The number of groups, over all families."""
        return len(self.share)

    @property
    def simple(self) -> bool:
        """Whether this is the paper's constraint: one family, its groups the cells, a range."""
        (member, *others) = self.members
        return (
            self.design is None
            and self.outcomes is None
            and not others
            and isinstance(member.bound, RangeBound)
            and member.bound.epsilon.ndim == 1
            and member.offsets is None
        )

    @property
    def bound(self) -> RangeBound:
        """The bound of a simple constraint."""
        bound = self.members[0].bound
        assert self.simple and isinstance(bound, RangeBound)
        return bound

    @cached_property
    def offsets(self) -> Floats | None:
        """What is added to the means of all groups, (n_groups, n_outcomes); None if nothing."""
        if all(member.offsets is None for member in self.members):
            return None
        return np.concatenate([member.added for member in self.members])

    @cached_property
    def sides(self) -> Sides:
        """The two inequalities of every entry, on means without offsets."""
        parts = [member.sides(self.share[member.groups]) for member in self.members]
        return Sides(*map(np.concatenate, zip(*parts, strict=True)))

    @cached_property
    def matrix(self) -> Floats:
        """The design, also where it is the identity."""
        return np.eye(self.n_groups) if self.design is None else self.design

    @cached_property
    def scale(self) -> float:
        """A bound on the squared length of shifts in units of that of prices; 1 for cells."""
        most = 1.0
        if self.outcomes is not None:
            most = float(np.linalg.norm(self.outcomes, 2) ** 2) or 1.0  # 0 if none counts a class
        if self.design is None:
            return most
        # The largest row sum bounds the largest eigenvalue, and for groups that count cells whole
        # it is that eigenvalue.
        if (self.design >= 0).all():
            reached = self.design @ np.ones(self.n_groups)  # NumPy adds up short rows slowly
            pairs = self.design.T @ (self.cell_share * reached)
        else:
            pairs = np.abs(self.design.T @ (self.cell_share[:, None] * self.design)).sum(axis=1)
        return most * float((pairs / self.share).max())

    @cached_property
    def touching(self) -> Flags:
        """Which groups share cells, (n_groups, n_groups)."""
        there = (self.matrix != 0).astype(np.float64)
        return np.asarray(there.T @ there > 0)

    @cached_property
    def components(self) -> list[Places]:
        """Groups that constrain each other through a cell or a family, as lists of numbers."""
        if len(self.members) == 1:
            return [np.arange(self.n_groups)]
        from scipy.sparse.csgraph import connected_components

        linked = self.touching.copy()
        for member in self.members:
            linked[member.groups, member.groups] = True
        number, label = connected_components(linked, directed=False)
        return [np.flatnonzero(label == each) for each in range(number)]

    def shifts(self, prices: Floats) -> Floats:
        """Add up the prices of its groups for each cell, (n_cells, n_classes)."""
        added = prices if self.design is None else self.design @ prices
        return added if self.outcomes is None else added @ self.outcomes

    def means(self, cell_means: Floats) -> Floats:
        """Compute the means of groups from means of cells, (n_groups, n_outcomes)."""
        compared = cell_means if self.outcomes is None else cell_means @ self.outcomes.T
        if self.design is None:
            return compared
        return self.design.T @ (self.cell_share[:, None] * compared) / self.share[:, None]

    def curvature(self, of_classes: Floats) -> Floats:
        """Return T H T' for curvatures H of classes, in the last two axes."""
        if self.outcomes is None:
            return of_classes
        return self.outcomes @ of_classes @ self.outcomes.T

    def largest_shift(self, prices: Floats) -> float:
        """Return a bound on the shift of any cell and class."""
        largest = float(np.abs(prices).max())
        if largest == 0:
            return 0.0
        if self.design is not None:
            largest *= float(np.abs(self.design).sum(axis=1).max())
        if self.outcomes is not None:
            largest *= float(np.abs(self.outcomes).sum(axis=0).max())
        return largest

    def project(self, means: Floats) -> Projected:
        """Project each family's means onto what it allows."""
        parts = [
            m.bound.project(means[m.groups] + m.added, self.share[m.groups]) for m in self.members
        ]
        found = Projected(*map(np.concatenate, zip(*parts, strict=True)))
        return found if self.offsets is None else found._replace(means=found.means - self.offsets)

    def settle(self, prices: Floats) -> Floats:
        """Return the closest prices at which the support function is finite."""
        parts = [m.bound.settle(prices[m.groups], self.share[m.groups]) for m in self.members]
        return np.concatenate(parts)

    def support(self, prices: Floats) -> float:
        """Return the value of the support function at settled prices."""
        found = sum(m.bound.support(prices[m.groups], self.share[m.groups]) for m in self.members)
        return found if self.offsets is None else found - self.product(prices, self.offsets)

    def canonical(self, prices: Floats, reach: float) -> Floats:
        """Settle optimal prices, and centre them over the classes where that costs nothing.

        Where groups are the cells, a constant per group changes no label. ``reach`` is the largest
        difference of what two classes are worth to a row, and lambda.
        """
        prices = self.settle(prices)
        if self.design is not None or self.outcomes is not None or len(self.members) > 1:
            return prices
        prices = self.members[0].bound.capped(prices, reach)
        constant = prices.mean(axis=1, keepdims=True)
        moved = prices - constant
        centred = self.settle(moved)
        rounding = _ROUNDING * (1.0 + np.abs(prices).max())
        if np.abs(centred - moved).max() > (self.n_groups + 8) * rounding:
            return prices  # a class without a bound has no price
        lost = self.support(centred) + float(self.share @ constant[:, 0]) - self.support(prices)
        return centred if lost <= rounding else prices

    def violation(self, means: Floats) -> float:
        """Return how far outside its bound some mean lies, in units of means."""
        return max(
            float(m.violation(means[m.groups], self.share[m.groups]).max()) for m in self.members
        )

    def product(self, prices: Floats, means: Floats) -> float:
        """Return the product of prices and means weighted by the groups."""
        return float(self.share @ (prices * means).sum(axis=1))

    def at(self, epsilon: float) -> Parity:
        """Return the same families with this epsilon for every class that is bounded."""
        members = []
        for member in self.members:
            old = member.bound.epsilon
            bound = member.bound.at(np.where(np.isfinite(old), epsilon, old))
            members.append(replace(member, bound=bound))
        return replace(self, members=tuple(members))


def surely_feasible(parity: Parity) -> bool:
    """Return whether one distribution for all rows meets every bound.

    Under it all groups have the same means and the moments of continuous attributes are 0, so that
    only targets can be missed, or bounds on means with offsets.

    Examples
    --------
    >>> from r2b._constraints.bounds import TargetBound
    >>> def pinned(*targets):
    ...     bounds = [TargetBound(np.zeros(2), np.array(target)) for target in targets]
    ...     members = tuple(Member("", slice(g, g + 1), bound) for g, bound in enumerate(bounds))
    ...     n = len(bounds)
    ...     return Parity(members, np.arange(n), np.ones(n), np.ones(1), np.ones((1, n)))
    >>> surely_feasible(pinned([0.5, 0.5])), surely_feasible(pinned([0.5, 0.5], [0.4, 0.6]))
    (True, False)
    """
    fixed = [m for m in parity.members if m.bound.level == "none" and m.bound.compares_groups]
    if parity.offsets is not None or (fixed and parity.outcomes is not None):
        return False
    return not fixed or some_shares(*common_limits(fixed), None, _EXCESS)


def common_limits(members: list[Member]) -> tuple[Floats, Floats]:
    """Return between which numbers a mean that all groups have must lie, per class."""
    sides = [m.bound.sides(m.n_groups) for m in members]
    low = np.max([np.where(s.bounded, s.low, 0.0).max(axis=0) for s in sides], axis=0)
    high = np.min([np.where(s.bounded, s.high, 1.0).min(axis=0) for s in sides], axis=0)
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def some_shares(low: Floats, high: Floats, outcomes: Floats | None, rounding: float) -> bool:
    """Return whether some shares of the classes give every outcome a share between two limits.

    Examples
    --------
    >>> some_shares(np.array([0.5, 0.6]), np.ones(2), None, 1e-9)
    False
    """
    if outcomes is None:
        meets = (low <= high + rounding).all()
        return bool(meets and low.sum() <= 1.0 + rounding and high.sum() >= 1.0 - rounding)
    from scipy.optimize import linprog

    n_classes = outcomes.shape[1]
    found = linprog(
        np.zeros(n_classes),
        A_ub=np.vstack([outcomes, -outcomes]),
        b_ub=np.append(high, -low) + rounding,
        A_eq=np.ones((1, n_classes)),
        b_eq=[1.0],
    )
    return bool(found.status == 0)


def proves_infeasible(parity: Parity, prices: Floats) -> bool:
    """Return whether these prices prove that no labels are within all bounds.

    Each row pays at least the least shift of its cell, all rows together ``sum_j v_j min_k s_jk``.
    Paid for groups it is ``<prices, means>``, which for allowed means is at most the support
    function. Where rows pay more, no means are allowed (Farkas' lemma). Labels within an excess of
    the bounds could pay that much more per unit of price; rounding is bounded by the number of
    terms of each sum times the sum of their sizes.
    """
    prices = parity.settle(prices)
    if not np.isfinite(prices).all():
        return False
    charged = float(parity.share @ np.abs(prices).sum(axis=1))
    sizes = np.abs(prices) if parity.design is None else np.abs(parity.design) @ np.abs(prices)
    if parity.outcomes is not None:
        sizes = sizes @ np.abs(parity.outcomes)
    size = float(parity.cell_share @ sizes.max(axis=1))
    paid = float(parity.cell_share @ parity.shifts(prices).min(axis=1))
    n_terms = len(parity.cell_share) + parity.n_groups + 8
    rounding = _ROUNDING * n_terms * (size + 2.0 * charged)
    return paid - parity.support(prices) > _EXCESS * (charged + size) + rounding


@dataclass(frozen=True, eq=False)
class Slim:
    """A constraint without the families that the others imply: the same labels, fewer prices.

    Attributes
    ----------
    parity : Parity
    places : ndarray of shape (n_groups of ``parity``,)
        Which groups of the whole constraint these are.
    size : int
        Groups of the whole constraint.
    """

    parity: Parity
    places: Places
    size: int

    def whole(self, prices: Floats) -> Floats:
        """Return prices of all groups: those of implied families are 0."""
        prices_of_all = np.zeros((self.size, prices.shape[1]))
        prices_of_all[self.places] = prices
        return prices_of_all


def without_implied(parity: Parity) -> Slim:
    """Leave out the families that others imply.

    A mean over a union of groups is an average of theirs, so bounds on crossings may imply those on
    margins. Where the groups of the one family that is left are the cells, the design goes as well.

    Examples
    --------
    >>> design = np.concatenate([np.repeat(np.eye(2), 2, axis=0), np.eye(4)], axis=1)
    >>> bound = RangeBound(np.full(3, 0.1))
    >>> members = (Member("sex", slice(0, 2), bound), Member("sex x race", slice(2, 6), bound))
    >>> share = np.array([0.5, 0.5, 0.25, 0.25, 0.25, 0.25])
    >>> slim = without_implied(Parity(members, np.arange(6), share, np.full(4, 0.25), design))
    >>> slim.places.tolist(), slim.parity.simple
    ([2, 3, 4, 5], True)
    """
    kept = list(parity.members)
    for member in parity.members:
        if any(other is not member and _implies(parity, other, member) for other in kept):
            kept.remove(member)
    places = np.concatenate([np.arange(member.groups.start, member.groups.stop) for member in kept])
    if parity.design is None or len(kept) == len(parity.members):
        return Slim(parity, places, parity.n_groups)
    design = parity.design[:, places]
    cells = np.argmax(design, axis=1)
    whole = (
        len(kept) == 1
        and sorted(cells.tolist()) == list(range(design.shape[1]))
        and bool((design.sum(axis=1) == 1).all())
    )
    if whole:
        places = places[cells]
        offsets = None if kept[0].offsets is None else kept[0].offsets[cells]
        kept = [replace(kept[0], bound=kept[0].bound.reordered(cells), offsets=offsets)]
    slim = replace(
        parity,
        members=side_by_side(kept),
        names=parity.names[places],
        share=parity.share[places],
        design=None if whole else design,
    )
    return Slim(slim, places, parity.n_groups)


def _implies(parity: Parity, other: Member, member: Member) -> bool:
    """Return whether every group of a family is a union of groups of another, and so bounded."""
    # the offset of a union need not be the average of those of its parts
    if not all(each.offsets is None and each.bound.compares_groups for each in (member, other)):
        return False
    if not member.bound.implied_by(other.bound):
        return False
    coarse, fine = parity.matrix[:, member.groups], parity.matrix[:, other.groups]
    if not all(np.isin(design, (0.0, 1.0)).all() for design in (coarse, fine)):
        return False
    inside, covered = coarse.any(axis=1), fine.any(axis=1)
    everywhere = member.bound.level != "mean" or np.array_equal(inside, covered)
    if not everywhere or (inside & ~covered).any():
        return False
    part, whole = np.argmax(fine, axis=1), np.where(inside, np.argmax(coarse, axis=1), -1)
    union_of = np.zeros(other.n_groups, dtype=np.intp)
    union_of[part[covered]] = whole[covered]
    return bool((union_of[part] == whole)[covered].all())
