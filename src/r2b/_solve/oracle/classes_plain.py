"""The kernels for class labels in NumPy: the reference for :mod:`r2b._solve.oracle.classes_compiled`.

Rows of one cell differ in one entry. With v what each class is worth there (minus its shift),
sorted once, the row of class j is v with the entry of j raised by 1, and its support is a prefix of
the sorted order, and j. So thresholds, means, values and products with the curvature cost a sort
and a few cumulative sums for each cell, whatever the number of rows.

All tables have shape (cells, classes). Ranks are places in the sorted order; ``size`` is how long a
row's prefix is, ``own`` is 1 where its own class lies beyond that prefix and still belongs to its
support.

Where the thresholds t of the rows are held instead, the mean of class k at worth v is a rising
function of v alone,

    lam m_k(v) = sum_j w_j max(v - t_j, 0) + w_k clip(v + 1 - t_k, 0, min(lam, 1)),

so that the best prices of a class do not depend on those of any other: :func:`balanced` finds the
level c for which the prices that bring every group into [c, c + epsilon] balance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from r2b._data.arrays import Floats, Places, Whole
from r2b._solve.oracle.curvature_plain import averages, product, reached, solution, spread

__all__ = ["averages", "balanced", "product", "reached", "settle", "solution", "spread", "supports"]

_MOST = 100  # halvings; what is done by then is done
_HALVE_FROM = 50
NARROW = 1e-14  # of the largest mean of a class: levels this close are one
# steps before levels beside those where a mean may stay are tried, and how far beside
PROBES, BESIDE = 3, 2e-15
BALANCED = 1e-14  # of the size of the prices of a class


def settle(
    worth: Floats, order: Whole, weight: Floats, lam: float
) -> tuple[Whole, Floats, Floats, Floats, Floats]:
    """Best response of every row.

    Parameters
    ----------
    worth : ndarray of shape (n_cells, n_classes)
    order : ndarray of the same shape
        The classes of each cell, costliest first.
    weight : ndarray of the same shape
        Of the row of each class, as a share of its cell.
    lam : float

    Returns
    -------
    size, own : ndarray
        By rank.
    level, means : ndarray
        By class: threshold of its row, and mean of the responses.
    value : ndarray of shape (n_cells,)
        ``sum_j w_j (lam/2 |x_j|^2 - <x_j, e_j + v>)``.
    """
    n_cells = len(worth)
    size, own = np.empty(worth.shape, np.int64), np.zeros(worth.shape)
    level, means, value = np.empty(worth.shape), np.empty(worth.shape), np.empty(n_cells)
    for cell in range(n_cells):
        mine = order[cell]
        size[cell], own[cell], falling, above, squares = _thresholds(worth[cell, mine], lam)
        part, top = weight[cell, mine], worth[cell, mine[0]]
        level[cell, mine] = falling + top
        means[cell, mine] = _means(worth[cell, mine] - top, size[cell], falling, part, above, lam)
        value[cell] = -(part @ (0.5 * squares / lam + level[cell, mine]))
    return size, own, level, means, value


def _thresholds(sorted_worth: Floats, lam: float) -> tuple[Whole, Floats, Floats, Floats, Floats]:
    """Sizes, own flags, thresholds, and the own entry and sum of squares above them, of the rows of one cell by rank.

    Everything is measured from the costliest class and built from gaps between neighbours, so that
    no digits cancel.
    """
    n_classes = len(sorted_worth)
    s = sorted_worth - sorted_worth[0]
    gap = np.append(0.0, s[:-1] - s[1:])
    rank = np.arange(n_classes)
    # For the first n + 1 classes: what they are above the last of them, summed, and its squares.
    first = np.cumsum(rank * gap)
    second = np.cumsum(2.0 * gap * np.append(0.0, first[:-1]) + rank * gap**2)
    alone = 1 + int((first[1:] < lam).sum())
    inside = 1 + int((1.0 + first[1:] < lam).sum())
    raised = s + 1.0
    low = s[alone - 1] + (first[alone - 1] - lam) / alone
    size = np.minimum(
        np.searchsorted(np.maximum.accumulate(first - s), lam - raised, side="left"), rank
    )
    last = np.maximum(size - 1, 0)
    some = size > 0
    base = np.where(some, s[last], 0.0)
    level = np.where(some, base + (first[last] + raised - base - lam) / (size + 1), raised - lam)
    own = np.ones(n_classes)
    # A row that is worth less than what others alone settle at keeps nothing; one within its own
    # prefix shares it with its neighbours.
    gone, within = raised <= low, rank < inside
    size, level, own = (
        np.where(gone, alone, size),
        np.where(gone, low, level),
        np.where(gone | within, 0.0, own),
    )
    size = np.where(within, inside, size)
    level = np.where(within, s[inside - 1] + (first[inside - 1] + 1.0 - lam) / inside, level)
    last, some = np.maximum(size - 1, 0), size > 0
    rest = np.where(some, s[last] - level, 0.0)
    squares = np.where(some, second[last] + 2.0 * rest * first[last] + size * rest**2, 0.0)
    above = np.where(within, 1.0, own * (raised - level))
    squares += np.where(within, 2.0 * (s - level) + 1.0, above**2)
    return size.astype(np.int64), own, level, above, squares


def _means(
    v: Floats, size: Whole, level: Floats, weight: Floats, above: Floats, lam: float
) -> Floats:
    n_classes = len(v)
    # From the cheapest class that anyone takes upwards: each has what the next one has, and more.
    # No term is negative.
    taken = np.bincount(size, weight, minlength=n_classes + 1)[1:]
    begun: Floats = np.bincount(
        size, weight * (v[np.maximum(size - 1, 0)] - level), minlength=n_classes + 1
    )[1:].astype(np.float64)
    reach = np.cumsum(taken[::-1])[::-1]
    begun[:-1] += (v[:-1] - v[1:]) * reach[1:]
    received = np.cumsum(begun[::-1])[::-1]
    return np.asarray((received + weight * above) / lam)


def supports(
    worth: Floats, order: Whole, level: Floats, lam: float
) -> tuple[Whole, Floats, Floats]:
    """Supports of rows whose thresholds are given, by rank, and by class how much the sum of the row then exceeds 1.

    A row that keeps its label whole counts its own class as 1 whatever its threshold, and gives
    what lies above that threshold besides.
    """
    size, own, excess = (
        np.empty(worth.shape, np.int64),
        np.empty(worth.shape),
        np.empty(worth.shape),
    )
    for cell, mine in enumerate(order):
        s, t = worth[cell, mine] - worth[cell, mine[0]], level[cell, mine] - worth[cell, mine[0]]
        rank = np.arange(len(s))
        first = np.cumsum(rank * np.append(0.0, s[:-1] - s[1:]))
        size[cell] = np.searchsorted(-s, -t, side="left")
        kept = np.clip(s + 1.0 - t, 0.0, min(lam, 1.0))
        own[cell] = (rank >= size[cell]) & (kept > 0.0) & (kept < min(lam, 1.0))
        last = np.maximum(size[cell] - 1, 0)
        total = np.where(size[cell] > 0, first[last] + size[cell] * (s[last] - t), 0.0)
        excess[cell, mine] = (total + kept) / lam - 1.0
    return size, own, excess


@dataclass(frozen=True, eq=False)
class Received:
    """What one cell gives to a class by its worth, without the class's own row: ``sum_j w_j max(v - t_j, 0)``, piecewise linear.

    Attributes
    ----------
    kinks : ndarray of shape (n_classes,)
        The thresholds, rising.
    amount : ndarray of the same shape
        Its value there.
    slope : ndarray of shape (n_classes + 1,)
        Its slope before the first kink, after the first, and so on.
    """

    kinks: Floats
    amount: Floats
    slope: Floats

    @classmethod
    def of(cls, level: Floats, weight: Floats) -> Received:
        """Sort the thresholds of a cell."""
        order = np.argsort(level, kind="stable")
        kinks, slope = level[order], np.append(0.0, np.cumsum(weight[order]))
        return cls(kinks, np.append(0.0, np.cumsum(slope[1:-1] * np.diff(kinks))), slope)

    def at(self, worth: Floats) -> Floats:
        """Give its value."""
        place = np.searchsorted(self.kinks, worth, side="left")
        before = np.maximum(place - 1, 0)
        return np.asarray(
            np.where(
                place > 0,
                self.amount[before] + (worth - self.kinks[before]) * self.slope[place],
                0.0,
            )
        )

    def inverse(self, amount: Floats) -> Floats:
        """Give the lowest worth at which it has these values, all above 0."""
        place = np.searchsorted(self.amount, amount, side="left")
        before = np.maximum(place - 1, 0)
        steep = np.where(place > 0, self.slope[place], 1.0)
        return np.asarray(
            self.kinks[before] + np.where(place > 0, (amount - self.amount[before]) / steep, 0.0)
        )

    def inverse_with(self, amount: Floats, extra: Floats) -> Floats:
        """Give the worth v at which its value and ``extra * v`` add up to these amounts."""
        low, high = np.zeros(len(amount), np.intp), np.full(len(amount), len(self.kinks), np.intp)
        while (low < high).any():
            middle = np.minimum((low + high) // 2, len(self.kinks) - 1)
            short = (low < high) & (self.amount[middle] + extra * self.kinks[middle] < amount)
            low, high = (
                np.where(short, middle + 1, low),
                np.where(short, high, np.minimum(high, middle)),
            )
        before = np.maximum(low - 1, 0)
        past = low > 0
        rest = amount - np.where(
            past, self.amount[before] - self.kinks[before] * self.slope[low], 0.0
        )
        return np.asarray(rest / (np.where(past, self.slope[low], 0.0) + extra))


@dataclass(frozen=True, eq=False)
class _Cell:
    """The means of the classes of one cell by their worth, times lam."""

    received: Received
    level: Floats
    weight: Floats
    most: float
    at_end: Floats
    at_start: Floats
    unpriced: Floats

    @classmethod
    def of(cls, level: Floats, weight: Floats, most: float) -> _Cell:
        received, start = Received.of(level, weight), level - 1.0
        unpriced = received.at(np.zeros(len(level))) + weight * np.clip(-start, 0.0, most)
        return cls(
            received, level, weight, most, received.at(start + most), received.at(start), unpriced
        )

    @property
    def stays(self) -> Floats:
        """The mean that each class keeps over a stretch of prices: its own row keeps all and no other gives; 0 where there is none."""
        return np.where(self.at_end == 0.0, self.most * self.weight, 0.0)

    def inverse(self, amount: Floats, some: Places) -> Floats:
        """Give the worth at which some classes have these means."""
        own, level = self.weight[some], self.level[some]
        whole = self.at_end[some] + self.most * own <= amount
        none = (self.at_start[some] >= amount) | (own <= 0)
        partly = ~(whole | none)
        worth = self.received.inverse(
            np.where(whole, np.maximum(amount - self.most * own, 0.0), amount)
        )
        # Nothing at all: below every threshold, and 1 below the own one.
        worth = np.where((amount <= 0) & (own > 0), np.minimum(worth, level - 1.0), worth)
        if partly.any():
            base = amount[partly] - own[partly] * (1.0 - level[partly])
            worth[partly] = self.received.inverse_with(base, own[partly])
        return worth


def balanced(
    level: Floats, weight: Floats, share: Floats, lam: float, epsilon: Floats, guess: Floats
) -> tuple[Floats, Floats]:
    """Give the best worth (minus the price) of every class in every cell for given thresholds, and the levels of the classes.

    Parameters
    ----------
    level : ndarray of shape (n_cells, n_classes)
        Threshold of the row of each class.
    weight : ndarray of the same shape
        Of these rows, as shares of their cells.
    share : ndarray of shape (n_cells,)
    lam : float
    epsilon : ndarray of shape (n_classes,)
        A class without a bound has no price.
    guess : ndarray of shape (n_classes,)
        Levels that may be near; NaN where nothing is known.

    Examples
    --------
    >>> level, weight = np.zeros((2, 2)), np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> balanced(level, weight, np.array([0.5, 0.5]), 1.0, np.zeros(2), np.full(2, np.nan))[0].round(3)
    array([[-0.286,  0.286],
           [ 0.286, -0.286]])
    """
    cells = [_Cell.of(*each, min(lam, 1.0)) for each in zip(level, weight, strict=True)]
    unpriced = np.stack([cell.unpriced for cell in cells])
    width = np.where(np.isfinite(epsilon), epsilon * lam, 0.0)
    low, high = unpriced.min(axis=0) - width, unpriced.max(axis=0)
    top = high.copy()
    at = np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
    # what is out of balance at either end; 0 where that end was never tried
    below, above = np.zeros_like(at), np.zeros_like(at)
    side = np.zeros(len(at))
    stays = np.concatenate(
        [np.stack([cell.stays for cell in cells]) - less for less in (0.0, width)]
    )
    worth = np.zeros_like(level)
    open_ = some = np.flatnonzero(np.isfinite(epsilon))
    for count in range(_MOST):
        if not len(some):
            break
        worth[:, some] = mine = _answers(cells, unpriced, at, width, some)
        excess = share @ mine
        settled = np.abs(excess) <= BALANCED * (share @ np.abs(mine))
        open_ = np.setdiff1d(open_, some[settled], assume_unique=True)
        some, excess = some[~settled], excess[~settled]
        # False position; an end that stays twice in a row counts for half (the Illinois rule).
        over = excess > 0
        below[some[over & (side[some] > 0)]] *= 0.5
        above[some[~over & (side[some] < 0)]] *= 0.5
        high[some[over]], above[some[over]] = at[some[over]], excess[over]
        low[some[~over]], below[some[~over]] = at[some[~over]], excess[~over]
        side[some] = np.where(over, 1.0, -1.0)
        a, b, f, g = low[some], high[some], below[some], above[some]
        middle = 0.5 * (a + b)
        try_secant = (f < 0) & (g > 0) & (count < _HALVE_FROM)
        new = np.where(try_secant, (a * g - b * f) / np.where(try_secant, g - f, 1.0), middle)
        new = np.where((new > a) & (new < b), new, middle)
        if count >= PROBES and count % 2:
            new = _beside(stays[:, some], a, b, new)
        moves = (new > a) & (new < b) & (b - a > NARROW * top[some])
        at[some] = new
        some = some[moves]
    if len(open_):
        # A mean of 0, or one that no row gives to or takes from, stays over a stretch of prices,
        # and the balance jumps there: it is met between the two ends of the stretch.
        first, last = (_answers(cells, unpriced, end, width, open_) for end in (low, high))
        short, beyond = share @ first, share @ last
        part = np.divide(-short, beyond - short, out=np.full(len(open_), 0.5), where=beyond > short)
        worth[:, open_] = first + np.clip(part, 0.0, 1.0) * (last - first)
    return worth, at


def _beside(stays: Floats, low: Floats, high: Floats, otherwise: Floats) -> Floats:
    """Give levels right below or above one where the balance may jump, if there is one in between: it ends a search that would halve on."""
    new = otherwise
    for level in stays:
        inside = (level > 0) & (level > low) & (level < high)
        before, after = level * (1.0 - BESIDE), level * (1.0 + BESIDE)
        probe = np.where(before > low, before, after)
        new = np.where(inside & (probe > low) & (probe < high), probe, new)
    return new


def _answers(
    cells: list[_Cell], unpriced: Floats, at: Floats, width: Floats, some: Places
) -> Floats:
    """Give the worth that brings every mean into the band above ``at``; 0 where it is there unpriced."""
    worth = np.zeros((len(cells), len(some)))
    for number, cell in enumerate(cells):
        found, bottom = unpriced[number, some], at[some]
        wanted = np.where(bottom > found, bottom, bottom + width[some])
        priced = (bottom > found) | (wanted < found)
        worth[number, priced] = cell.inverse(wanted[priced], some[priced])
    return worth
