"""How an old label becomes a new one, cell by cell: by prices, by a table, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._data.memory import refuse_beyond_memory
from r2b._solve.oracle import respond

Floats = NDArray[np.float64]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Response:
    """The map from (old label, cell) to the distribution of the new label.

    Attributes
    ----------
    shifts : ndarray of shape (n_cells, n_classes)
        What the prices of its groups add up to for each cell.
    lam : float
        0 where the table decides.
    unchanged : bool
        Labels go out as they came in.
    costs : ndarray of shape (n_classes, n_classes), optional
        What it costs to turn one class into another.
    table : ndarray of shape (n_cells, n_classes, n_classes), optional
        P(new class | old class, cell), where prices do not tell it.

    Examples
    --------
    >>> Response(np.array([[0.2, -0.2]]), 1.0).of_rows(np.array([[1.0, 0.0]]), np.array([0]))
    array([[0.8, 0.2]])
    """

    shifts: Floats
    lam: float
    unchanged: bool = False
    costs: Floats | None = None
    table: Floats | None = None

    def of_rows(self, labels: Array, cells: Array) -> Array:
        """Give the new label of rows of probabilities."""
        if self.unchanged:
            return labels
        worth = labels if self.costs is None else labels @ -self.costs
        return respond(worth, cells, self.shifts, self.lam)

    def channel(self) -> Floats:
        """Answer of every cell to every pure class: P(new class | old class, cell)."""
        if self.table is not None:
            return self.table
        n_cells, n_classes = self.shifts.shape
        needed = n_cells * n_classes**2 * 8
        remedy = "Use iter_soft(), sample() or round(), which need no such table, or put rare classes and small groups together."
        refuse_beyond_memory(needed, f"The table of {n_cells:,} cells and {n_classes:,} x {n_classes:,} classes", remedy)
        one_hot = np.eye(n_classes)
        if self.unchanged:
            return np.broadcast_to(one_hot, (n_cells, n_classes, n_classes)).copy()
        return np.stack([self.of_rows(one_hot, np.full(n_classes, cell)) for cell in range(n_cells)])
