"""Whether any labels are within all bounds: prices that prove that there are none, or a distribution that meets them all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity.constraint import Parity
from r2b._constraints.parity.target import MomentBound, TargetBound

Floats = NDArray[np.float64]

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
