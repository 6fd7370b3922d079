"""The row kernels in NumPy, and the projection onto the simplex that all of them rest on.

The response of row i is ``x_i = P((y_i - s_i) / lam)``: s_i its shift, P the projection onto the
row set, which is the simplex. The compiled kernels are tested against these.
"""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._data.compute import parts_of
from r2b._solve.oracle.blocks import CACHED, Block, as_matrix


def project(rows: Floats) -> Floats:
    """Return the closest point of the simplex to each row.

    Examples
    --------
    >>> project(np.array([[0.5, 0.5, -1.0], [0.9, 0.6, 0.0]]))
    array([[0.5 , 0.5 , 0.  ],
           [0.65, 0.35, 0.  ]])
    """
    # Measured from the largest entry, sums stay of the size of the answer and no digits are lost on
    # rows far from the simplex.
    if rows.shape[1] == 2:  # NumPy is slow along short axes
        out: Floats = rows - np.maximum(rows[:, :1], rows[:, 1:])
        out -= np.maximum(0.5 * (out[:, :1] + out[:, 1:] - 1.0), -1.0)
    else:
        out = rows - rows.max(axis=1, keepdims=True)
        out -= _levels(out)[:, None]
    return np.maximum(out, 0.0, out=out)


def _levels(below: Floats) -> Floats:
    """Return the threshold of rows whose largest entry is 0, by sorting."""
    falling = -below
    falling.sort(axis=1)
    np.negative(falling, out=falling)
    levels = falling.cumsum(axis=1)
    levels -= 1.0
    levels /= np.arange(1, below.shape[1] + 1)
    support = np.count_nonzero(falling > levels, axis=1)  # the largest entry is always above
    return np.asarray(levels[np.arange(len(below)), support - 1])


def respond(labels: Array, cells: Array, prices: Floats, lam: float) -> Floats:
    """Return the best response of each row to its cell's prices."""
    shifted = labels - prices[cells]
    return project(shifted if lam == 1.0 else shifted / lam)


def answer(block: Block, prices: Floats, lam: float) -> Floats:
    """Return the best response of each row, of shape (n, n_classes)."""
    shifted = as_matrix(block.labels, prices.shape[1]) - block.shifts(prices)
    return project(shifted if lam == 1.0 else shifted / lam)


def label_sums(block: Block, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return the sums of the old labels, and the weights, by cell or group."""
    sums = np.zeros(shape)
    for part in block.parts(shape[1]):
        labels = as_matrix(part.old_labels, shape[1])
        sums += part.totals(labels.astype(np.float64, copy=False), shape[0])
    return sums, block.totals(np.ones((len(block), 1)), shape[0])[:, 0]


def evaluate(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats]:
    """Return the sums of the responses by cell or group, and the sum of their values.

    The value of row i is ``w_i (lam/2 |x_i|^2 - <x_i, y_i - s_i>)``.
    """
    sums, value = np.zeros(prices.shape), np.zeros(1)
    for part in block.parts(prices.shape[1]):
        shifted = as_matrix(part.labels, prices.shape[1]) - part.shifts(prices)
        x = project(shifted if lam == 1.0 else shifted / lam)
        value += part.weights @ np.einsum("ik,ik->i", x, 0.5 * lam * x - shifted)
        sums += part.totals(x, len(prices))
    return sums, value


def inspect(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats, Floats]:
    """Return the evidence about the returned labels: the block's answers, else the responses.

    Returns
    -------
    sums : ndarray of the shape of the prices
        Of the returned labels x.
    totals : ndarray of shape (5,)
        Sums of ``<x, g> - min g`` with ``g = lam x - y + s``, which is 0 for a best response; of
        ``|x|^2``, ``<x, y>``, ``|x - y|^2`` and ``|x - y|_1 / 2``. The last two compare with the
        true labels.
    worst : ndarray of shape (1,)
        The largest violation of the simplex.
    """
    n_classes = prices.shape[1]
    sums, totals, worst = np.zeros(prices.shape), np.zeros(5), np.zeros(1)
    for part in block.parts(n_classes):
        if part.answers is None:
            x = answer(part, prices, lam)
        else:
            x = as_matrix(part.answers, n_classes).astype(np.float64)
        y = as_matrix(part.labels, n_classes).astype(np.float64)
        truth = as_matrix(part.old_labels, n_classes).astype(np.float64)
        gradient, difference = lam * x - y + part.shifts(prices), x - truth
        by_row = [
            np.einsum("ik,ik->i", x, gradient) - gradient.min(axis=1),
            np.einsum("ik,ik->i", x, x),
            np.einsum("ik,ik->i", x, y),
            np.einsum("ik,ik->i", difference, difference),
            0.5 * np.abs(difference).sum(axis=1),
        ]
        totals += [part.weights @ each for each in by_row]
        off = np.abs(x.sum(axis=1) - 1.0).max()
        worst = np.maximum(worst, max(float(off), float(-x.min())))
        sums += part.totals(x, len(prices))
    return sums, totals, worst


def cell_curvature(block: Block, prices: Floats, lam: float) -> Floats:
    """Return lam times the curvature of the rows of each cell: ``w (diag(1_A) - 1_A 1_A' / |A|)``.

    A is the support of a row's response. Of shape (n_cells, n_classes, n_classes).
    """
    n_cells, n_classes = prices.shape
    table = np.zeros((n_cells, n_classes, n_classes))
    for part in block.parts(n_classes):
        add_cell_products(part, supports(answer(part, prices, lam)), table)
    return table


def supports(answers: Floats) -> Floats:
    """Return 1 where a row gives to a class and 0 elsewhere, as numbers to calculate with."""
    return (answers > 0).astype(np.float64)


def sizes_of(support: Floats) -> Floats:
    """Return how many classes each row gives to; NumPy adds up short rows slowly."""
    return support @ np.ones(support.shape[1])


def add_cell_products(block: Block, support: Floats, table: Floats) -> None:
    """Add the curvature of rows with these supports to that of their cells."""
    order = np.argsort(block.design, kind="stable")
    ends = np.flatnonzero(np.diff(block.design[order].astype(np.int64))) + 1
    for rows in np.split(order, ends):
        mine, own = support[rows], block.weights[rows]
        scaled = mine * (own / sizes_of(mine))[:, None]
        table[block.design[rows[0]]] += np.diag(own @ mine) - scaled.T @ mine


def group_curvature(block: Block, prices: Floats, lam: float, counts: Floats) -> Floats:
    """Return lam times the curvature of the rows by pairs of groups.

    That of a row is ``w b_g b_h (diag(1_A) - 1_A 1_A' / |A|)``; ``counts`` says how much each row
    counts in these groups, b. Of shape (n, n_classes, n, n_classes).
    """
    n_groups, n_classes = counts.shape[1], prices.shape[1]
    table = np.zeros((n_groups, n_classes, n_groups, n_classes))
    size = max(1, CACHED // (n_groups * n_classes))
    for rows in parts_of(len(block), size):
        part = block[rows]
        add_group_products(part, supports(answer(part, prices, lam)), counts[rows], table)
    return table


def add_group_products(block: Block, support: Floats, counts: Floats, table: Floats) -> None:
    """Add the curvature of rows with these supports, by pairs of groups."""
    n_groups, n_classes, weights = table.shape[0], table.shape[1], block.weights
    scaled = support * np.sqrt(weights / sizes_of(support))[:, None]
    factors = (counts[:, :, None] * scaled[:, None, :]).reshape(len(block), -1)
    pairs = counts[:, :, None] * (weights[:, None] * counts)[:, None, :]
    own = pairs.reshape(len(block), -1).T @ support
    table -= (factors.T @ factors).reshape(table.shape)
    np.einsum("gkhk->ghk", table)[:] += own.reshape(n_groups, n_groups, n_classes)
