"""The problem: rows, objective and parity, frozen. Paper eq. (4), with weights, any lambda > 0 and any families of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.merge import Extent, Rows
from r2b.errors import ParameterError


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``sum_i w_i (lam/2 |x_i|^2 - <x_i, y_i>)`` over rows x_i of the simplex in ``parity``.

    ``lam = 1`` is the squared distance to the labels, ``lam = 0`` agreement alone. Values are per unit of weight throughout, so they do
    not grow with the table.

    Attributes
    ----------
    rows : Rows or Extent
        The rows themselves where they are in memory.
    parity : Parity
    lam : float
    dearest : float
        The most that any label of a row can cost beyond its size; 0 for labels as they are, more where changes have costs.
    """

    rows: Rows | Extent
    parity: Parity
    lam: float = 1.0
    dearest: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.lam, (int, float, np.floating, np.integer)) and 0 <= self.lam < math.inf):
            raise ParameterError(
                f"lam is {self.lam!r}.",
                remedy="It weighs the size of the new labels against agreement with the old: pass a number above 0; 1 is squared distance.",
                lam=self.lam,
            )

    @property
    def reach(self) -> float:
        """The largest difference of prices that any row can tell: what two classes are worth to it, and lambda."""
        return max(1.0, self.dearest) + self.lam

    @property
    def n_groups(self) -> int:
        """The number of groups, over all families."""
        return self.parity.n_groups

    @property
    def n_classes(self) -> int:
        """The number of classes, L."""
        return self.rows.n_classes

    @property
    def at_hand(self) -> Rows:
        """The rows, for solvers that keep copies of them; only where they are in memory."""
        assert isinstance(self.rows, Rows), "these rows live elsewhere"
        return self.rows
