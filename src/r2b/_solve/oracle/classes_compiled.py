"""Compiled loops for merged class labels: responses, supports, curvature, and prices by class.

Rows of one cell differ in one entry. With v what each class is worth there (minus its shift),
sorted once, the row of class j is v with the entry of j raised by 1, and its support is a prefix of
the sorted order, and j. So thresholds, means, values and products with the curvature cost a sort
and a few cumulative sums for each cell, whatever the number of rows.

Ranks are places in the sorted order; ``size`` is how long a row's prefix is, ``own`` is 1 where its
own class lies beyond that prefix and still belongs to its support.

Where the thresholds t of the rows are held instead, the mean of class k at worth v is a rising
function of v alone,

    lam m_k(v) = sum_j w_j max(v - t_j, 0) + w_k clip(v + 1 - t_k, 0, min(lam, 1)),

so that the best prices of a class do not depend on those of any other: :func:`balanced` finds the
level c for which the prices that bring every group into [c, c + epsilon] balance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from r2b._data.arrays import Array
from r2b._data.compute import compiled, in_order, parts_of
from r2b._solve.oracle.classes import ROUNDING

_PART_ENTRIES = 1 << 12  # that are worth handing to a thread


def spread_out(work: Callable[[slice], None], number: int, entries: int) -> None:
    """Do work on cells or classes that do not touch each other, by threads where it pays."""
    list(in_order(work, parts_of(number, max(1, number * _PART_ENTRIES // entries))))


def over_cells(kernel: Callable[..., None], *arguments: Any) -> None:
    """Call a kernel with the same cells of all arrays, by threads where it pays."""

    def work(some: slice) -> None:
        kernel(*(each[some] if isinstance(each, np.ndarray) else each for each in arguments))

    spread_out(work, len(arguments[0]), arguments[0].size)


def ordered(worth: Array) -> Array:
    """Return the classes of each cell, best first."""
    order = np.empty(worth.shape, np.int64)

    def work(some: slice) -> None:
        # Ties in whatever order: a stable sort takes two to three times as long.
        order[some] = np.argsort(-worth[some], axis=1)

    spread_out(work, len(worth), worth.size)
    return order


@compiled
def product(d: Array, order: Array, size: Array, own: Array, weight: Array, reach: Array) -> Array:
    """Multiply the curvature of each cell, times lam, by a vector.

    ``d`` is by class; ``weight``, and ``reach``, the weight of the rows whose prefix holds a rank,
    are by rank.
    """
    n_cells, n_classes = d.shape
    out, mean = np.empty(d.shape), np.empty(n_classes)
    total, taken = np.zeros(n_classes + 1), np.empty(n_classes + 1)
    for cell in range(n_cells):
        for r in range(n_classes):
            total[r + 1] = total[r] + d[cell, order[cell, r]]
        taken[:] = 0.0
        for r in range(n_classes):
            k, o = size[cell, r], own[cell, r]
            mean[r] = (total[k] + o * d[cell, order[cell, r]]) / max(k + o, 1.0)
            taken[k] += weight[cell, r] * mean[r]
        received = 0.0
        for r in range(n_classes - 1, -1, -1):
            received += taken[r + 1]
            mine = d[cell, order[cell, r]]
            kept = own[cell, r] * weight[cell, r] * (mine - mean[r])
            out[cell, order[cell, r]] = reach[cell, r] * mine - received + kept
    return out


@compiled
def _settle_cell(
    s: Array,
    first: Array,
    second: Array,
    lam: float,
    size: Array,
    own: Array,
    level: Array,
    above: Array,
) -> None:
    """Find the thresholds of the rows of one cell by rank; s is measured from the best class.

    ``above`` is what lies above them, squared and summed.
    """
    n_classes = s.size
    first[0], second[0] = 0.0, 0.0
    for n in range(1, n_classes):
        gap = s[n - 1] - s[n]
        second[n] = second[n - 1] + 2.0 * gap * first[n - 1] + n * gap * gap
        first[n] = first[n - 1] + n * gap
    alone, inside = 1, 1
    while alone < n_classes and first[alone] < lam:
        alone += 1
    while inside < n_classes and 1.0 + first[inside] < lam:
        inside += 1
    low = s[alone - 1] + (first[alone - 1] - lam) / alone
    shared = s[inside - 1] + (first[inside - 1] + 1.0 - lam) / inside
    n = 0
    for r in range(n_classes):
        raised = s[r] + 1.0
        # Costlier classes have shorter prefixes, so one pass finds all of them.
        if r < inside:
            size[r], own[r], level[r] = inside, 0.0, shared
        elif raised <= low:
            size[r], own[r], level[r] = alone, 0.0, low
        else:
            while n < r and first[n] - s[n] < lam - raised:
                n += 1
            size[r], own[r] = n, 1.0
            level[r] = (
                s[n - 1] + (first[n - 1] + raised - s[n - 1] - lam) / (n + 1)
                if n > 0
                else raised - lam
            )
        k = size[r]
        squares = 0.0
        if k > 0:
            rest = s[k - 1] - level[r]
            squares = second[k - 1] + 2.0 * rest * first[k - 1] + k * rest * rest
        if r < inside:
            squares += 2.0 * (s[r] - level[r]) + 1.0
        elif own[r] > 0.0:
            squares += (raised - level[r]) ** 2
        above[r] = squares


@compiled
def _settle(
    worth: Array,
    order: Array,
    weight: Array,
    lam: float,
    size: Array,
    own: Array,
    level: Array,
    means: Array,
    value: Array,
) -> None:
    n_cells, n_classes = worth.shape
    s, first, second, above = (
        np.empty(n_classes),
        np.empty(n_classes),
        np.empty(n_classes),
        np.empty(n_classes),
    )
    ranked, taken, begun = np.empty(n_classes), np.empty(n_classes + 1), np.empty(n_classes + 1)
    for cell in range(n_cells):
        top = worth[cell, order[cell, 0]]
        for r in range(n_classes):
            s[r] = worth[cell, order[cell, r]] - top
        _settle_cell(s, first, second, lam, size[cell], own[cell], ranked, above)
        taken[:] = 0.0
        begun[:] = 0.0
        total = 0.0
        for r in range(n_classes):
            part, k = weight[cell, order[cell, r]], size[cell, r]
            level[cell, order[cell, r]] = ranked[r] + top
            total -= part * (0.5 * above[r] / lam + ranked[r] + top)
            taken[k] += part
            if k > 0:
                begun[k] += part * (s[k - 1] - ranked[r])
        value[cell] = total
        received, reach = 0.0, 0.0
        for r in range(n_classes - 1, -1, -1):
            if r < n_classes - 1:
                received += (s[r] - s[r + 1]) * reach
            reach += taken[r + 1]
            received += begun[r + 1]
            kept = own[cell, r] * (s[r] + 1.0 - ranked[r])
            if own[cell, r] == 0.0 and r < size[cell, r]:
                kept = 1.0
            means[cell, order[cell, r]] = (received + weight[cell, order[cell, r]] * kept) / lam


def settle(
    worth: Array, order: Array, weight: Array, lam: float
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the best response of every row.

    ``worth``, ``order`` (the classes of each cell, best first) and ``weight`` (as shares of cells)
    have shape (n_cells, n_classes). Returned are ``size`` and ``own`` by rank; by class the
    threshold of its row and the mean of the responses; and the value of each cell,
    ``sum_j w_j (lam/2 |x_j|^2 - <x_j, e_j + v>)``.
    """
    size, own, value = np.empty(worth.shape, np.int64), np.empty(worth.shape), np.empty(len(worth))
    level, means = np.empty(worth.shape), np.empty(worth.shape)
    over_cells(_settle, worth, order, weight, lam, size, own, level, means, value)
    return size, own, level, means, value


@compiled
def _supports(
    worth: Array, order: Array, level: Array, lam: float, size: Array, own: Array, excess: Array
) -> None:
    n_cells, n_classes = worth.shape
    s, first = np.empty(n_classes), np.empty(n_classes)
    for cell in range(n_cells):
        top = worth[cell, order[cell, 0]]
        for r in range(n_classes):
            s[r] = worth[cell, order[cell, r]] - top
            first[r] = first[r - 1] + r * (s[r - 1] - s[r]) if r > 0 else 0.0
        for r in range(n_classes):
            t = level[cell, order[cell, r]] - top
            low, high = 0, n_classes
            while low < high:
                middle = (low + high) // 2
                if s[middle] > t:
                    low = middle + 1
                else:
                    high = middle
            total = first[low - 1] + low * (s[low - 1] - t) if low > 0 else 0.0
            kept = min(max(s[r] + 1.0 - t, 0.0), min(lam, 1.0))
            size[cell, r] = low
            own[cell, r] = 1.0 if r >= low and kept > 0.0 and kept < min(lam, 1.0) else 0.0
            excess[cell, order[cell, r]] = (total + kept) / lam - 1.0


def supports(worth: Array, order: Array, level: Array, lam: float) -> tuple[Array, Array, Array]:
    """Return the supports of rows with these thresholds, by rank, and how much their sums exceed 1.

    The last is by class. A row that keeps its label whole counts its own class as 1 whatever its
    threshold, and gives what lies above that threshold besides.
    """
    size, own, excess = (
        np.empty(worth.shape, np.int64),
        np.empty(worth.shape),
        np.empty(worth.shape),
    )
    over_cells(_supports, worth, order, level, lam, size, own, excess)
    return size, own, excess


@compiled
def _inverse(wanted: float, extra: float, curves: Array, cell: int) -> tuple[float, float]:
    """Return the worth v at which the amount received and ``extra * v`` add up to ``wanted``.

    The lowest one where nothing is added; and how fast it grows with ``wanted``.
    """
    low, high = 0, curves.shape[2] - 1
    while low < high:
        middle = (low + high) // 2
        if curves[cell, 1, middle] + extra * curves[cell, 0, middle] < wanted:
            low = middle + 1
        else:
            high = middle
    bend = curves[cell, 2, low] + extra
    if low == 0:
        return (wanted / extra, 1.0 / bend) if extra > 0.0 else (curves[cell, 0, 0], 0.0)
    kink, more = curves[cell, 0, low - 1], wanted - curves[cell, 1, low - 1]
    if extra == 0.0:
        return kink + more / bend, 1.0 / bend
    return (more + kink * curves[cell, 2, low]) / bend, 1.0 / bend


@compiled
def _answer(
    wanted: float, own: float, most: float, level: float, facts: Array, cell: int, curves: Array
) -> tuple[float, float]:
    if own > 0.0 and facts[cell, 0] + most * own <= wanted:
        return _inverse(max(wanted - most * own, 0.0), 0.0, curves, cell)
    if own <= 0.0 or facts[cell, 1] >= wanted:
        worth, rate = _inverse(wanted, 0.0, curves, cell)
        return min(worth, level - 1.0) if wanted <= 0.0 and own > 0.0 else worth, rate
    return _inverse(wanted - own * (1.0 - level), own, curves, cell)


@compiled
def _worth_at(
    at: float,
    width: float,
    most: float,
    own: Array,
    level: Array,
    curves: Array,
    facts: Array,
    share: Array,
    worth: Array,
) -> tuple[float, float, float]:
    """Write the worth of a class in each cell that brings its mean into the band above ``at``.

    It is 0 where the mean is there without a price. Return the imbalance of these, their size, and
    how fast they grow with ``at``.
    """
    excess, size, rise = 0.0, 0.0, 0.0
    for cell in range(len(share)):
        found = facts[cell, 2]
        wanted = at if at > found else at + width
        worth[cell] = 0.0
        if at > found or wanted < found:
            worth[cell], rate = _answer(wanted, own[cell], most, level[cell], facts, cell, curves)
            excess += share[cell] * worth[cell]
            size += share[cell] * abs(worth[cell])
            rise += share[cell] * rate
    return excess, size, rise


@compiled
def _before(worth: float, start: int, curves: Array, cell: int) -> int:
    """Return how many thresholds of a cell lie below a worth; so many are known to."""
    n = start
    while n < curves.shape[2] - 1 and curves[cell, 0, n] < worth:
        n += 1
    return n


@compiled
def _at(worth: float, n: int, curves: Array, cell: int) -> float:
    """Return what is received at a worth that n thresholds lie below."""
    if n == 0:
        return 0.0
    value: float = curves[cell, 1, n - 1] + (worth - curves[cell, 0, n - 1]) * curves[cell, 2, n]
    return value


@compiled
def _receive(
    level: Array, order: Array, weight: Array, most: float, curves: Array, facts: Array
) -> None:
    n_cells, n_classes = level.shape
    for cell in range(n_cells):
        reached, total = 0.0, 0.0
        for i in range(n_classes):
            j = order[cell, i]
            curves[cell, 0, i], curves[cell, 2, i] = level[cell, j], total
            if i > 0:
                reached += total * (curves[cell, 0, i] - curves[cell, 0, i - 1])
            curves[cell, 1, i] = reached
            total += weight[cell, j]
        curves[cell, 2, n_classes] = total
        free = _at(0.0, _before(0.0, 0, curves, cell), curves, cell)
        whole, none = 0, 0
        for i in range(n_classes):
            j, t = order[cell, i], curves[cell, 0, i]
            whole = _before(t - 1.0 + most, whole, curves, cell)
            none = _before(t - 1.0, none, curves, cell)
            facts[cell, 0, j] = _at(t - 1.0 + most, whole, curves, cell)
            facts[cell, 1, j] = _at(t - 1.0, none, curves, cell)
            facts[cell, 2, j] = free + weight[cell, j] * min(max(1.0 - t, 0.0), most)


def received(level: Array, weight: Array, most: float) -> tuple[Array, Array]:
    """Return what the classes of each cell receive as their worth grows.

    Returns
    -------
    curves : ndarray of shape (n_cells, 3, n_classes + 1)
        The sorted thresholds of each cell, what is received there, and the slopes before them. In
        one array: passed one by one, arrays cost compiled code more than the work on them.
    facts : ndarray of shape (n_cells, 3, n_classes)
        What each class receives from others where its own row keeps ``most`` and where that keeps
        nothing, and its mean without a price.
    """
    n_cells, n_classes = level.shape
    curves, facts = np.empty((n_cells, 3, n_classes + 1)), np.empty((n_cells, 3, n_classes))
    over_cells(_receive, level, ordered(-level), weight, most, curves, facts)
    return curves, facts


@compiled
def _beside_jump(
    low: float,
    high: float,
    narrow: float,
    width: float,
    most: float,
    own: Array,
    facts: Array,
) -> float:
    """Return the level beside a jump of the balance that is nearest to the middle of two levels.

    Where no jump lies between them, it is their middle. The balance jumps where the mean of a cell
    is what a row keeps of its own label and no other row gives anything, over a stretch of prices.
    """
    middle = 0.5 * (low + high)
    found, distance = middle, np.inf
    for cell in range(own.size):
        if facts[cell, 0] > 0.0:
            continue
        for side in range(4):
            at = most * own[cell] - (side // 2) * width + (side % 2 - 0.5) * 0.9 * narrow
            if at > low and at < high and abs(at - middle) < distance:
                found, distance = at, abs(at - middle)
    return found


@compiled
def _up_to_jump(
    at: float,
    new: float,
    narrow: float,
    width: float,
    most: float,
    own: Array,
    facts: Array,
) -> float:
    """Return the new level, or the far side of the first jump on the way there."""
    way = 1.0 if new > at else -1.0
    for cell in range(own.size):
        if facts[cell, 0] > 0.0:
            continue
        for side in range(2):
            beyond = most * own[cell] - side * width + way * 0.45 * narrow
            if (beyond - at) * way > 0.0 and (new - beyond) * way > 0.0:
                new = beyond
    return new


@compiled
def _balance_class(
    at: float,
    width: float,
    most: float,
    own: Array,
    level: Array,
    curves: Array,
    share: Array,
    facts: Array,
    worth: Array,
) -> float:
    """Find the worth of one class in each cell, from a guess of its level; return the level."""
    low, high = (facts[:, 2] - width).min(), facts[:, 2].max()
    top, last, slow = high, np.inf, 0
    at = at if at > low and at < high else 0.5 * (low + high)
    below, above = np.empty(len(share)), np.empty(len(share))  # the worth at low, and at high
    short, over = np.nan, np.nan
    for _ in range(100):  # by then the levels are as close as can be
        excess, size, rise = _worth_at(at, width, most, own, level, curves, facts, share, worth)
        if abs(excess) <= ROUNDING * size:
            return at
        if excess > 0.0:
            high, over, above[:] = at, excess, worth
        else:
            low, short, below[:] = at, excess, worth
        # Between two kinks the balance is a straight line; a jump ends it.
        slow = 0 if abs(excess) <= 0.5 * last else slow + 1
        new = at - excess / rise if rise > 0.0 else np.nan
        new = _up_to_jump(at, new, ROUNDING * top, width, most, own, facts)
        last = abs(excess)
        if slow >= 2 or not (new > low and new < high):
            slow = 0
            new = _beside_jump(low, high, ROUNDING * top, width, most, own, facts)
        if not (new > low and new < high and high - low > ROUNDING * top):
            break
        at = new
    # A mean that no row gives to or takes from stays over a stretch of prices, and the balance
    # jumps there: it is met between the two ends of the stretch.
    if np.isnan(short):
        short = _worth_at(low, width, most, own, level, curves, facts, share, below)[0]
    if np.isnan(over):
        over = _worth_at(high, width, most, own, level, curves, facts, share, above)[0]
    part = min(max(-short / (over - short), 0.0), 1.0) if over > short else 0.5
    worth[:] = below + part * (above - below)
    return at


@compiled
def _balance(
    some: Any,
    level: Array,
    weight: Array,
    share: Array,
    lam: float,
    epsilon: Array,
    curves: Array,
    facts: Array,
    levels: Array,
    worth: Array,
) -> None:
    mine = np.empty(len(level))
    for k in range(some[0], some[1]):
        if np.isfinite(epsilon[k]):
            own, t = weight[:, k].copy(), level[:, k].copy()
            levels[k] = _balance_class(
                levels[k],
                epsilon[k] * lam,
                min(lam, 1.0),
                own,
                t,
                curves,
                share,
                facts[:, :, k].copy(),
                mine,
            )
            worth[:, k] = mine


def balanced(
    level: Array, weight: Array, share: Array, lam: float, epsilon: Array, guess: Array
) -> tuple[Array, Array]:
    """Return the best worth (minus the price) of every class in every cell for given thresholds.

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
        Levels of the classes that may be near, NaN where nothing is known; those found come second.
    """
    worth, levels = np.zeros(level.shape), np.array(guess, np.float64)
    curves, facts = received(level, weight, min(lam, 1.0))

    def work(some: slice) -> None:
        _balance(
            (some.start, some.stop),
            level,
            weight,
            share,
            lam,
            epsilon,
            curves,
            facts,
            levels,
            worth,
        )

    # A search for a level reads each entry several times.
    spread_out(work, len(levels), 2 * level.size)
    return worth, levels
