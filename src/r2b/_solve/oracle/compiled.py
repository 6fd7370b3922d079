"""The row kernels compiled by numba; imported only where they pay. Same functions as ``reference``."""

from __future__ import annotations

import numpy as np

from r2b._data.arrays import Floats
from r2b._solve.oracle import compiled_cells, design_compiled, reference
from r2b._solve.oracle.blocks import Block, as_matrix

_NONE = np.empty((0, 0, 0))


def evaluate(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats]:
    """Return the sums of the responses, and the sum of their values."""
    sums, value = np.zeros(prices.shape), np.zeros(1)
    if block.design.ndim == 2:
        args = (block.labels, block.design, block.weight, prices, lam, block.levels)
        design_compiled.evaluate(*args, [sums, value])
    else:
        for part in [block] if block.labels.ndim == 2 else block.parts(prices.shape[1]):
            labels = as_matrix(part.labels, prices.shape[1])
            cells = (labels, part.design, part.weight, prices, lam, part.levels)
            compiled_cells.evaluate(*cells, [sums, value, _NONE])
    return sums, value


def answer(block: Block, prices: Floats, lam: float) -> Floats:
    """Return the best response of each row."""
    return reference.answer(block, prices, lam)


def inspect(block: Block, prices: Floats, lam: float) -> tuple[Floats, Floats, Floats]:
    """Return the evidence about the returned labels."""
    if block.answers is not None or block.truth is not None:
        return reference.inspect(block, prices, lam)
    sums, totals = np.zeros(prices.shape), np.zeros(6)
    if block.design.ndim == 2:
        args = (block.labels, block.design, block.weight, prices, lam, block.levels)
        design_compiled.prove(*args, [sums, totals])
    else:
        for part in [block] if block.labels.ndim == 2 else block.parts(prices.shape[1]):
            labels = as_matrix(part.labels, prices.shape[1])
            cells = (labels, part.design, part.weight, prices, lam, part.levels)
            compiled_cells.prove(*cells, [sums, totals])
    return sums, totals[:5], totals[5:]


def cell_curvature(block: Block, prices: Floats, lam: float) -> Floats:
    """Return lam times the curvature of the rows of each cell."""
    n_cells, n_classes = prices.shape
    table = np.zeros((n_cells, n_classes, n_classes))
    for part in [block] if block.labels.ndim == 2 else block.parts(n_classes):
        labels = as_matrix(part.labels, n_classes)
        cells = (labels, part.design, part.weight, prices, lam, part.levels)
        compiled_cells.evaluate(*cells, [np.zeros(prices.shape), np.zeros(1), table])
    return table


def group_curvature(block: Block, prices: Floats, lam: float, counts: Floats) -> Floats:
    """Return lam times the curvature by pairs of groups."""
    if block.design.ndim == 1:
        return reference.group_curvature(block, prices, lam, counts)
    n_groups, n_classes = counts.shape[1], prices.shape[1]
    table = np.zeros(2 * (n_groups, n_classes))
    given = (block.labels, (block.design, counts), block.weight, prices, lam, block.levels)
    if not design_compiled.fold_entries(*given, n_classes**2 / 32, table):
        table = np.zeros(2 * (n_groups, n_classes))
        design_compiled.fold_products(*given, table)
    return table
