"""One feature of every group moved onto a distribution that the groups share.

Numbers are moved by quantile functions, categories by transport.

Everything rests on one number per row, its rank ``u`` in its own group. Where ``u`` is uniform on
(0, 1) in each group, any common function of it has the same distribution in each group. A value
that many rows share must therefore spread over a whole interval of ranks, at random: giving all of
them one rank would send the same value to a different number in each group, which names the group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Array, Floats, divided


def spread(cells: Array, order: Array, rng: np.random.Generator) -> Floats:
    """Return rows of one cell evenly spread places in (0, 1), each of them uniformly distributed.

    Parameters
    ----------
    cells : ndarray of integers, of shape (n,)
    order : ndarray of shape (n,)
        The rows, cell after cell; inside a cell, a row that comes earlier gets a smaller place.
    rng : numpy.random.Generator

    Examples
    --------
    >>> cells = np.array([0, 0, 0, 0, 1])
    >>> np.floor(4 * spread(cells, np.arange(5), np.random.default_rng(0))[:4])
    array([0., 1., 2., 3.])
    """
    sorted_cells = cells[order]
    _, first, count = np.unique(sorted_cells, return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, count)
    places = np.empty(len(order))
    # One draw per stratum instead of independent draws: a row's place is just as uniform, and the
    # rows together hold no sampling noise.
    places[order] = (rank + rng.random(len(order))) / np.repeat(count, count)
    return places


@dataclass(frozen=True, eq=False)
class RankCdf:
    """The distribution of one feature in one group, value by value.

    Attributes
    ----------
    values : ndarray of shape (m,)
        Distinct training values, ascending.
    below : ndarray of shape (m + 1,)
        Share of the weight below each value; the last entry is 1.
    n_rows : int
        Training rows that count.
    """

    values: Floats
    below: Floats
    n_rows: int

    @classmethod
    def fit(cls, values: Floats, weight: Floats) -> RankCdf:
        """Learn from training values; rows without weight do not count."""
        values, weight = values[weight > 0], weight[weight > 0]
        distinct, inverse = np.unique(values, return_inverse=True)
        below = np.concatenate([[0.0], np.cumsum(np.bincount(inverse, weights=weight))])
        return cls(distinct, below / below[-1], len(values))

    def ranks(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return rows their ranks: in the order of their values, ties at random.

        A training value owns the interval of ranks from the share below it to the share up to it. A
        new value between two of them owns half a row's share to either side of the boundary.
        """
        place = np.searchsorted(self.values, values)
        seen = self.values[np.minimum(place, len(self.values) - 1)] == values
        cells = 2 * place + seen
        order = np.lexsort((rng.random(len(values)), values))
        beside = np.where(seen, 0.0, 0.5 / self.n_rows)
        low = np.maximum(self.below[place] - beside, 0.0)
        high = np.minimum(self.below[place + seen] + beside, 1.0)
        drawn = low + (high - low) * spread(cells, order, rng)
        ranks = np.empty(len(values))
        # The intervals of new values overlap their neighbours', so the same ranks are dealt out
        # again in the order of the values.
        ranks[order] = np.sort(drawn)
        return ranks

    def quantiles(self, u: Floats) -> Floats:
        """Return the smallest training value whose share up to it reaches ``u``.

        Examples
        --------
        >>> cdf = RankCdf.fit(np.array([1.0, 2.0, 2.0, 5.0]), np.ones(4))
        >>> cdf.quantiles(np.array([0.0, 0.25, 0.3, 0.75, 1.0]))
        array([1., 1., 2., 2., 5.])
        """
        # Sums of weights carry rounding, and a rank that equals a share must not slip over it.
        place = np.searchsorted(self.below[1:], u - 1e-12)
        return self.values[np.minimum(place, len(self.values) - 1)]


@dataclass(frozen=True, eq=False)
class NumericRepair:
    """How one numeric feature is moved: the CDF of each group, and the shared quantiles.

    Attributes
    ----------
    groups : tuple of RankCdf
    grid : ndarray of shape (B + 1,) or None
        The shared quantile function at ``j / B``, linear in between; None evaluates it exactly.
    """

    groups: tuple[RankCdf, ...]
    grid: Floats | None

    @classmethod
    def fit(
        cls,
        values: Floats,
        codes: Array,
        weight: Floats,
        *,
        n_groups: int,
        cdf: type[RankCdf],
        n_bins: int | None,
    ) -> NumericRepair:
        """Learn the CDF of every group."""
        groups = tuple(
            cdf.fit(values[codes == group], weight[codes == group]) for group in range(n_groups)
        )
        exact = cls(groups, None)
        if n_bins is None:
            return exact
        return cls(groups, exact.shared(np.arange(n_bins + 1) / n_bins))

    def shared(self, u: Floats) -> Floats:
        """Return the median over groups of their quantiles at ``u``: for two groups the average."""
        if self.grid is not None:
            return np.interp(u, np.linspace(0, 1, len(self.grid)), self.grid)
        return np.median(np.stack([group.quantiles(u) for group in self.groups]), axis=0)

    def apply(self, values: Floats, codes: Array, *, amount: float, seed: list[int]) -> Floats:
        """Move values towards the shared distribution."""
        if len(self.groups) == 1:
            return values.copy()  # the shared distribution is its own; the grid would only blur it
        moved = np.empty(len(values))
        for code, group in enumerate(self.groups):
            rows = np.flatnonzero(codes == code)
            moved[rows] = self.shared(
                group.ranks(values[rows], np.random.default_rng([*seed, code]))
            )
        return moved if amount == 1 else (1 - amount) * values + amount * moved


@dataclass(frozen=True, eq=False)
class CategoryRepair:
    """How one categorical feature is moved.

    Attributes
    ----------
    target : ndarray of shape (K,)
        The median over groups of each category's share, divided by their sum.
    transport : ndarray of shape (n_groups, K, K)
        Chance of the new category given the group and the old one.
    """

    target: Floats
    transport: Floats

    @classmethod
    def fit(
        cls, categories: Array, codes: Array, weight: Floats, *, n_groups: int, n_categories: int
    ) -> CategoryRepair:
        """Learn the shares of every group.

        Examples
        --------
        >>> categories, codes = np.array([0, 0, 0, 1, 0, 1]), np.array([0, 0, 0, 0, 1, 1])
        >>> repair = CategoryRepair.fit(categories, codes, np.ones(6), n_groups=2, n_categories=2)
        >>> repair.target
        array([0.625, 0.375])
        >>> repair.transport[0].round(3)
        array([[0.833, 0.167],
               [0.   , 1.   ]])
        """
        counts = np.bincount(
            codes.astype(np.intp) * n_categories + categories,
            weights=weight,
            minlength=n_groups * n_categories,
        )
        shares = counts.reshape(n_groups, n_categories)
        shares = shares / shares.sum(axis=1, keepdims=True)
        target = np.median(shares, axis=0)
        # Three groups without a common category have a median of zero everywhere; their mean is the
        # nearest thing that is a distribution.
        target = target / target.sum() if target.sum() > 0 else shares.mean(axis=0)
        return cls(target, np.stack([least_transport(share, target) for share in shares]))

    def apply(self, categories: Array, codes: Array, *, amount: float, seed: list[int]) -> Array:
        """Reassign rows at random; with an ``amount`` below 1 that share of the moves is made."""
        n_groups, n_categories = self.transport.shape[:2]
        moved = categories.copy()
        for code in range(n_groups if n_groups > 1 else 0):
            rows = np.flatnonzero(codes == code)
            rng = np.random.default_rng([*seed, code])
            old = categories[rows].astype(np.intp)
            place = spread(old, np.lexsort((rng.random(len(rows)), old)), rng)
            for category in np.unique(old):
                here = old == category
                chance = amount * self.transport[code, category]
                chance[category] += 1 - amount
                new = np.searchsorted(np.cumsum(chance), place[here], side="right")
                moved[rows[here]] = np.minimum(new, n_categories - 1)
        return moved


def least_transport(shares: Floats, target: Floats) -> Floats:
    """Return P(new | old category) that reaches the target and moves the least mass.

    Overfull categories give up what they have too much, to the others in proportion to what these
    lack.

    Examples
    --------
    >>> least_transport(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25]))
    array([[0.5, 0. , 0.5],
           [0. , 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    lack = np.maximum(target - shares, 0)
    if lack.sum() <= 0:
        return np.eye(len(shares))
    stay = divided(np.minimum(shares, target), shares, 1.0)
    return np.diag(stay) + np.outer(1 - stay, lack / lack.sum())
