"""What groups are told by an oracle, whether that answers for cells or for groups; and the curvature of their means.

Where cells sit in several groups there are two ways to the same curvature: cell by cell, from what the kernels give, where the cells'
blocks fit in memory; row by row where they do not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity import Parity
from r2b._solve.oracle.protocol import AnyOracle, Evaluation, GroupOracle, Inspection

Floats = NDArray[np.float64]

_CELL_ENTRIES = 1 << 23  # entries of the cells' curvature that are held at once


def evaluated(oracle: AnyOracle, parity: Parity, prices: Floats, lam: float) -> Evaluation:
    """Evaluate all rows at prices of groups; the means are those of groups."""
    if isinstance(oracle, GroupOracle):
        return oracle.evaluate(prices, lam)
    seen = oracle.evaluate(parity.shifts(prices), lam, curvature=False)
    return replace(seen, means=parity.means(seen.means))


def inspected(
    oracle: AnyOracle, parity: Parity, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None
) -> Inspection:
    """Recompute the evidence at prices of groups; the means are those of groups."""
    if isinstance(oracle, GroupOracle):
        return oracle.inspect(prices, lam, unchanged=unchanged, answers=answers)
    seen = oracle.inspect(parity.shifts(prices), lam, unchanged=unchanged, answers=answers)
    return replace(seen, means=parity.means(seen.means))


def group_means(oracle: AnyOracle, parity: Parity, means: Floats) -> Floats:
    """Give means of groups from means as the oracle gives them."""
    return means if isinstance(oracle, GroupOracle) else parity.means(means)


def folded_curvature(oracle: AnyOracle, parity: Parity, prices: Floats, lam: float) -> list[Floats]:
    """Give ``sum_j v_j B_jg B_jh H_j`` for each component of the constraint, H_j the curvature of cell j.

    Parameters
    ----------
    oracle : Oracle or GroupOracle
    parity : Parity
    prices : ndarray of shape (n_groups, n_classes)
    lam : float

    Returns
    -------
    list of ndarray of shape (n, n_classes, n, n_classes)
        Minus the derivative of the means of the component's n groups, each times its share.
    """
    if isinstance(oracle, GroupOracle):
        return oracle.curvature(prices, lam, parity.components)
    n_cells, n_classes = len(parity.cell_share), prices.shape[1]
    shifts = parity.shifts(prices)
    if n_cells * n_classes**2 > _CELL_ENTRIES:
        return [oracle.fold(shifts, lam, parity.matrix[:, groups]) for groups in parity.components]
    curvature = oracle.evaluate(shifts, lam, curvature=True).curvature
    assert curvature is not None
    flat = curvature.reshape(n_cells, -1)
    return [_cell_by_cell(parity.matrix[:, groups], parity.cell_share, flat, n_classes) for groups in parity.components]


def _cell_by_cell(design: Floats, share: Floats, curvature: Floats, n_classes: int) -> Floats:
    n_groups = design.shape[1]
    touched = np.flatnonzero(design.any(axis=1))
    mine = design[touched]
    pairs = (share[touched, None, None] * mine[:, :, None] * mine[:, None, :]).reshape(len(touched), -1)
    folded = (pairs.T @ curvature[touched]).reshape(n_groups, n_groups, n_classes, n_classes)
    return np.ascontiguousarray(folded.transpose(0, 2, 1, 3))
