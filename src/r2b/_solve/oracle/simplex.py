"""Projection onto the simplex, for blocks of rows, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def thresholds(rows: Floats) -> Floats:
    """Threshold of each row: ``max(row - t, 0)`` sums to 1.

    Sorting each row is the fastest way in NumPy (its sort is vectorised; Newton on the threshold, which wins when compiled, costs three
    times as much here).

    Examples
    --------
    >>> thresholds(np.array([[0.5, 0.5, 0.5], [3.0, 0.0, 0.0]]))
    array([0.16666667, 2.        ])
    """
    # Measured from the largest entry, sums stay of the size of the answer and no digits are lost on rows far from the simplex.
    top = rows.max(axis=1)
    falling = top[:, None] - rows
    falling.sort(axis=1)
    np.negative(falling, out=falling)
    levels = falling.cumsum(axis=1)
    levels -= 1.0
    levels /= np.arange(1, rows.shape[1] + 1)
    support = np.count_nonzero(falling > levels, axis=1)  # the largest entry is always above
    answer: Floats = top + levels[np.arange(len(rows)), support - 1]
    return answer


def project(rows: Floats) -> Floats:
    """Closest point of the simplex to each row.

    Examples
    --------
    >>> project(np.array([[0.5, 0.5, -1.0], [0.9, 0.6, 0.0]]))
    array([[0.5 , 0.5 , 0.  ],
           [0.65, 0.35, 0.  ]])
    """
    out: Floats = rows - thresholds(rows)[:, None]
    return np.maximum(out, 0.0, out=out)
