"""Families that others imply: a mean over a union of groups is an average of theirs, so bounds on crossings may bound margins too."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity.bands import OverallBound, RangeBound, RatioBound
from r2b._constraints.parity.bounds import Bound, MomentBound, TargetBound
from r2b._constraints.parity.constraint import Member, Parity

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

_ROUNDING = 1e-12  # between the targets of two families over the same rows


@dataclass(frozen=True, eq=False)
class Slim:
    """A constraint without the families that the others imply: the same labels are allowed, by fewer prices.

    Attributes
    ----------
    parity : Parity
    places : ndarray of shape (n_groups of ``parity``,)
        Which groups of the whole constraint these are.
    carriers : list of (slice, ndarray)
        For each family left out its groups, and of each of the groups that carry it which of them it is in; -1 for none.
    size : int
        Groups of the whole constraint.
    """

    parity: Parity
    places: Whole
    carriers: list[tuple[slice, Whole]]
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
    """Leave out the families that others imply; where the groups of the one that is left are the cells, so that they are seen to be.

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
    design: Floats | None = parity.design[:, places]
    assert design is not None
    cells = np.argmax(design, axis=1)
    if len(kept) == 1 and sorted(cells.tolist()) == list(range(design.shape[1])) and (design.sum(axis=1) == 1).all():
        places, design = places[cells], None
    ends = np.cumsum([member.groups.stop - member.groups.start for member in kept]).tolist()
    members = tuple(
        replace(member, groups=slice(end - (member.groups.stop - member.groups.start), end)) for member, end in zip(kept, ends, strict=True)
    )
    slim = Parity(members, parity.names[places], parity.share[places], parity.cell_share, design)
    return Slim(slim, places, carriers, parity.n_groups)


def _implied(parity: Parity, member: Member, other: Member) -> Whole | None:
    """Where the bound of another family implies this one, tell of every group of the constraint which of this family it is part of."""
    if not _tighter(other.bound, member.bound):
        return None
    assert parity.design is not None
    coarse, fine = parity.design[:, member.groups], parity.design[:, other.groups]
    if not all(np.isin(part, (0.0, 1.0)).all() for part in (coarse, fine)):
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
    if isinstance(than, TargetBound):
        return isinstance(bound, TargetBound) and bool((np.abs(bound.target - than.target) + bound.reach <= than.reach + _ROUNDING).all())
    closer = bound.epsilon <= than.epsilon
    # Means that are all equal are within any bound between groups.
    enough = (bound.epsilon == 0) | np.isinf(than.epsilon)
    alike = type(bound) is type(than) or (isinstance(bound, (RangeBound, TargetBound)) and isinstance(than, (RangeBound, OverallBound)))
    if isinstance(than, RatioBound):
        enough |= than.epsilon >= 1
    return bool((enough | closer).all() if alike else enough.all())
