"""The walk of rows that count in several groups, compiled: shifts, thresholds and sums of a tile while it is in the first-level cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._data.compute import compiled
from r2b._solve.oracle.compiled import TILE, fixed, in_chunks, pieces, settle_tile
from r2b._solve.oracle.kernel_loops import design_loops

Array = np.ndarray[Any, np.dtype[Any]]

_spread, _gather = design_loops()


@compiled
def _walk(rows: Any, n_groups: int, weight: Array, lam: float, beyond: Array, space: Array, sums: Array, totals: Array) -> None:
    room, levels, each = rows[4], rows[5], 1.0 / lam
    tile = space.shape[0] // room
    none = np.zeros(tile, np.uint8)
    value, n_rows = 0.0, levels.shape[0]
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        _spread(rows, start, stop, n_groups, space)
        tiled = (space, room, none, beyond, room, levels[start:stop])
        settle_tile(tiled, 0, stop - start, lam)
        square, lifted = _gather(tiled, stop - start, start, n_groups, rows[2], weight, each, sums)
        # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
        value -= 0.5 * square + lifted
    totals[0] += value


def walk(labels: Array, design: Array, weight: Array, prices: Array, lam: float, levels: Array, sums: Array, totals: Array) -> None:
    """Add the responses of rows to the sums of their groups, and their values to ``totals[0]``.

    Parameters
    ----------
    labels : ndarray of shape (n,) or (n, n_classes)
        Codes of classes, or label rows.
    design : ndarray of shape (n, n_groups)
    weight : ndarray of shape (n,), or empty where each row weighs 1
    prices : ndarray of shape (n_groups, n_classes)
    lam : float
    levels : ndarray of shape (n,)
        Thresholds of the last pass; those of this one are written here.
    sums : ndarray of shape (n_groups, n_classes)
    totals : ndarray of shape (1,)
    """
    n_groups, n_classes = prices.shape
    given, gathered, beyond = in_chunks(n_groups, n_classes), in_chunks(n_groups, n_classes), in_chunks(1, n_classes, np.inf)
    given[:, :n_classes], beyond[:, :n_classes] = prices, 0.0
    room = given.shape[1]
    space = in_chunks(max(8, TILE // room), n_classes).reshape(-1)
    several = [(slice(0, len(labels)), [labels], False)] if labels.ndim == 1 else pieces(labels)
    for part, (flat,), _ in several:
        counts = np.ascontiguousarray(design[part]).reshape(-1)
        rows = (fixed(flat), n_classes, fixed(counts), given.reshape(-1), room, levels[part])
        _walk(rows, n_groups, fixed(weight[part]), float(lam), beyond.reshape(-1), space, gathered.reshape(-1), totals)
    sums += gathered[:, :n_classes]
