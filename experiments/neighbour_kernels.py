"""The loop of :mod:`experiments.neighbours`, compiled by numba; imported only where neighbours are sought."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from r2b._data.compute import compiled

Array = NDArray[Any]


@compiled
def keep_smallest(distance: Array, first: int, near: Array, rows: Array) -> None:
    """Merge a block of distances, of training rows from ``first`` on, into the sorted lists of the smallest so far."""
    last = near.shape[1] - 1
    for i in range(distance.shape[0]):
        worst = near[i, last]
        for j in range(distance.shape[1]):
            value = distance[i, j]
            if value < worst:
                place = last
                while place > 0 and near[i, place - 1] > value:
                    near[i, place] = near[i, place - 1]
                    rows[i, place] = rows[i, place - 1]
                    place -= 1
                near[i, place] = value
                rows[i, place] = first + j
                worst = near[i, last]
