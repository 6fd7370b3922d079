"""Fair labels worked out again, from the definition of the problem and docs/file-format.md.

Nothing here imports the package.

The optimum is found by an interior point (Clarabel), made exact by Newton on the bounds that bind,
and proven by the conditions of optimality. Draws are whole-number arithmetic of Python; whole
labels follow from them by dependent rounding, written on a plain graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import clarabel
import numpy as np
from scipy import sparse

Graph = dict[tuple[int, int], float]
FULL = 2**64 - 1


def closest_distribution(v: np.ndarray) -> np.ndarray:
    """Project rows onto the simplex: take the same amount from all that stay positive."""
    falling = -np.sort(-v, axis=1)
    level = (np.cumsum(falling, axis=1) - 1) / np.arange(1, v.shape[1] + 1)
    kept = (falling > level).sum(axis=1) - 1
    return np.maximum(v - level[np.arange(len(v)), kept][:, None], 0.0)


def optimum(
    y: np.ndarray, weight: np.ndarray, group: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return prices and fair labels of rows.

    Raises where the conditions of optimality do not hold to 1e-12, or leave prices open.
    """
    n, n_groups = len(y), int(group.max()) + 1
    weight = weight / weight.sum()
    share = np.bincount(group, weight)
    mean = np.zeros((n_groups, n))
    mean[group, np.arange(n)] = weight / share[group]
    prices = _interior_point(y, weight, mean, epsilon) / share[:, None]
    side = np.where(np.abs(prices) > 1e-6, np.sign(prices), 0.0)
    assert (side == 0).any(axis=1).all(), (
        "a group without a class at leave: its prices are only known up to a constant"
    )
    prices[side == 0] = 0.0
    for _ in range(30):
        means, slope = _answers(y, prices, mean, group)
        low, wrong = _missed(means, prices, side, share, epsilon)
        if np.abs(wrong).max() < 1e-15:
            break
        prices[side != 0] += _step(slope, side, share, wrong)
    x = closest_distribution(y - prices[group])
    means = mean @ x
    assert np.abs(wrong).max() < 1e-13
    assert (side * prices >= 0).all()
    bound = side.any(axis=0)
    assert (means[:, bound] > low[bound] - 1e-12).all()
    assert (means[:, bound] < low[bound] + epsilon + 1e-12).all()
    assert (np.ptp(means[:, ~bound], axis=0) <= epsilon).all()
    return prices, x


def _interior_point(
    y: np.ndarray, weight: np.ndarray, mean: np.ndarray, epsilon: float
) -> np.ndarray:
    """Minimise the squared distance with ``low <= means <= low + epsilon`` and give what
    each bound presses with."""
    (n, k), g = y.shape, len(mean)
    each = sparse.kron(mean, sparse.eye(k))  # means from labels, row by row
    low = sparse.kron(np.ones((g, 1)), sparse.eye(k))
    sums = sparse.kron(sparse.eye(n), np.ones((1, k)))
    none = sparse.csc_matrix((n, k))
    rows = [
        [sums, none],
        [-sparse.eye(n * k), sparse.csc_matrix((n * k, k))],
        [each, -low],
        [-each, low],
    ]
    right = np.concatenate([np.ones(n), np.zeros(n * k), np.full(g * k, epsilon), np.zeros(g * k)])
    heavy = np.repeat(weight, k)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    found = clarabel.DefaultSolver(
        sparse.diags(np.concatenate([heavy, np.zeros(k)])).tocsc(),
        np.concatenate([-heavy * y.ravel(), np.zeros(k)]),
        sparse.bmat(rows).tocsc(),
        right,
        [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(n * k + 2 * g * k)],
        settings,
    ).solve()
    above, below = np.array(found.z)[n + n * k :].reshape(2, g, k)
    return np.asarray(above - below)


def _answers(
    y: np.ndarray, prices: np.ndarray, mean: np.ndarray, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the group means at these prices, and how those of each group change with its own
    prices."""
    x = closest_distribution(y - prices[group])
    n_classes = y.shape[1]
    slope = np.zeros((len(prices), n_classes, n_classes))
    for i, s in enumerate(group):
        there = (x[i] > 0).astype(float)
        slope[s] -= mean[s, i] * (np.diag(there) - np.outer(there, there) / there.sum())
    return mean @ x, slope


def _missed(
    means: np.ndarray, prices: np.ndarray, side: np.ndarray, share: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower ends of the bands, and by how much means miss the ends that they press
    on, and prices their balance."""
    active = side != 0
    ends = np.where(active, means - epsilon * (side > 0), 0.0)
    low = ends.sum(axis=0) / np.maximum(active.sum(axis=0), 1)
    return low, np.concatenate([(ends - low)[active], (share @ prices)[active.any(axis=0)]])


def _step(slope: np.ndarray, side: np.ndarray, share: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Solve for the prices that bind.

    The lower ends of the bands are the average of what presses on them.
    """
    active = side != 0
    s, k = np.nonzero(active)
    change = np.where(s[:, None] == s[None, :], slope[s[:, None], k[:, None], k[None, :]], 0.0)
    alike = (k[:, None] == k[None, :]) / np.maximum(active.sum(axis=0), 1)[k][:, None]
    balance = np.array(
        [np.where(k == each, share[s], 0.0) for each in np.flatnonzero(active.any(axis=0))]
    )
    matrix = np.vstack([change - alike @ change, balance])
    return np.asarray(np.linalg.lstsq(matrix, -wrong, rcond=None)[0])


def mixed(word: int) -> int:
    """The finaliser of splitmix64."""
    word = (word + 0x9E3779B97F4A7C15) & FULL
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & FULL
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & FULL
    return word ^ word >> 31


def draw(key: int, seed: int) -> int:
    """The draw of a row, of 53 bits."""
    return mixed(mixed(key & FULL) ^ mixed(2 * seed + 1)) >> 11


def stream(seed: int, cell: int) -> Iterator[float]:
    """Numbers in [0, 1) for the counts of a cell."""
    start = mixed(mixed(cell) ^ mixed(mixed(2 * seed + 1) ^ FULL))
    return (float((mixed(mixed(number) ^ start) >> 11) * 2.0**-53) for number in count())


def sampled(x: np.ndarray, keys: np.ndarray, seed: int) -> list[int]:
    """One class per row: where the draw falls among the cumulative probabilities."""
    return [
        int((np.cumsum(row) <= draw(key, seed) * 2.0**-53 * row.sum()).sum())
        for row, key in zip(x, keys.tolist(), strict=True)
    ]


def rounded_classes(
    old: np.ndarray, x: np.ndarray, group: np.ndarray, keys: np.ndarray, seed: int
) -> list[int]:
    """Whole labels of classes.

    Counts of each group and class are rounded together, and go out in the order of the draws.
    """
    labels = np.zeros(len(old), int)
    draws = [draw(key, seed) for key in keys.tolist()]
    n_classes = x.shape[1]
    for cell in range(int(group.max()) + 1):
        pairs = [np.flatnonzero((group == cell) & (old == k)) for k in range(n_classes)]
        targets = np.array([x[rows].sum(axis=0) for rows in pairs])
        for rows, counts in zip(pairs, rounded_table(targets, stream(seed, cell)), strict=True):
            order = sorted(rows, key=draws.__getitem__)
            labels[order] = np.repeat(np.arange(n_classes), counts)
    return labels.tolist()


def rounded_table(targets: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
    """Round a table with whole row sums so that column sums are rounded up or down as well.

    One more row makes them whole.
    """
    whole = np.floor(targets + 1e-9)
    parts = np.where(targets - whole < 1e-9, 0.0, targets - whole)
    sums = parts.sum(axis=0)
    slack = np.where(np.abs(sums - np.rint(sums)) < 1e-6, 0.0, np.ceil(sums) - sums)
    graph: Graph = {}
    full: list[tuple[int, int]] = []
    for row, entries in enumerate(np.vstack([parts, slack])):
        open_ = np.flatnonzero(entries)
        _add(
            graph,
            full,
            row,
            [(int(k), float(entries[k]), next(uniforms)) for k in open_],
            capped=True,
        )
    counts = np.vstack([whole, np.zeros(targets.shape[1])]).astype(int)
    for row, k in [*full, *(edge for edge, mass in graph.items() if mass > 0.5)]:
        counts[row, k] += 1
    return counts[:-1]


def rounded_rows(x: np.ndarray, group: np.ndarray, keys: np.ndarray, seed: int) -> list[int]:
    """Whole labels of distributions.

    The rows of a group one after the other, in the order of their draws.
    """
    labels = np.zeros(len(x), int)
    draws = [draw(key, seed) for key in keys.tolist()]
    for cell in range(int(group.max()) + 1):
        graph: Graph = {}
        full: list[tuple[int, int]] = []
        for row in sorted(np.flatnonzero(group == cell).tolist(), key=draws.__getitem__):
            if x[row].max() >= 1 - 1e-12:
                full.append((row, int(x[row].argmax())))
                continue
            uniforms = {
                k: (mixed(mixed(draws[row]) + k & FULL) >> 11) * 2.0**-53 for k in range(x.shape[1])
            }
            _add(
                graph,
                full,
                row,
                [(int(k), float(x[row, k]), uniforms[int(k)]) for k in np.flatnonzero(x[row])],
                capped=False,
            )
        last = sorted({row for row, _ in graph})
        table = np.array(
            [[graph.get((row, k), 0.0) for k in range(x.shape[1])] for row in last]
        ).reshape(-1, x.shape[1])
        decided = (
            rounded_table(table / table.sum(axis=1, keepdims=True), stream(seed, cell))
            if last
            else table
        )
        full += [(row, int(counts.argmax())) for row, counts in zip(last, decided, strict=True)]
        for row, k in full:
            labels[row] = k
    return labels.tolist()


def _add(
    graph: Graph,
    full: list[tuple[int, int]],
    row: int,
    entries: list[tuple[int, float, float]],
    *,
    capped: bool,
) -> None:
    """Add a row to the entries that are neither 0 nor full.

    A cycle among them moves until one of them is.
    """
    left = len(entries)
    for k, mass, uniform in entries:
        if left == 1:  # the sum of the row is whole
            full += [(row, k)] if mass > 0.5 else []
            return
        way = _way(graph, k, row)
        graph[row, k] = mass
        if way is None:
            continue
        falls, rises = way[::2], [*way[1::2], (row, k)]
        up = min([graph[edge] for edge in falls] + [1 - graph[edge] for edge in rises if capped])
        down = min([graph[edge] for edge in rises] + [1 - graph[edge] for edge in falls if capped])
        step = up if uniform * (up + down) < down else -down
        for edges, sign in ((falls, -1), (rises, 1)):
            for edge in edges:
                graph[edge] += sign * step
        for each in {edge[0] for edge in falls}:
            mine = [edge for edge in graph if edge[0] == each]
            done = [edge for edge in mine if graph[edge] <= 0 or (capped and graph[edge] >= 1)]
            if each == row:
                left -= len(done)
            rest = left if each == row else len(mine) - len(done)
            if rest == 1 and len(mine) - len(done) == 1:
                done, left = mine, (0 if each == row else left)
            full += [edge for edge in done if graph[edge] > 0.5]
            for edge in done:
                del graph[edge]
        if left == 0:
            return


def _way(graph: Graph, start: int, row: int) -> list[tuple[int, int]] | None:
    """Return the entries between a class and a row, from the class on; None where there is no
    way.
    """
    ways: list[tuple[tuple[str, int], list[tuple[int, int]]]] = [(("class", start), [])]
    seen = {("class", start)}
    for (kind, number), way in ways:
        if (kind, number) == ("row", row):
            return way
        for edge in graph:
            here, there = (
                (edge[1], ("row", edge[0])) if kind == "class" else (edge[0], ("class", edge[1]))
            )
            if here == number and there not in seen:
                seen.add(there)
                ways.append((there, [*way, edge]))
    return None
