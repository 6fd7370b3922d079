"""What a solver may ask about rows, wherever they live.

A backend decides where blocks of rows live and adds up what comes back. It answers for prices; it never decides anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The rows' response to prices, added up.

    The response of row i is ``x_i = P((y_i - nu_s) / lam)``, P the projection onto the simplex and s the row's group.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        Weighted group means of the responses.
    value : float
        ``sum_i w_i (lam/2 |x_i|^2 - <x_i, y_i - nu_s>)`` per unit of weight.
    curvature : ndarray of shape (n_groups, n_classes, n_classes) or None
        Minus the derivative of each group's means by its prices: the mean of ``(diag(1_A) - 1_A 1_A' / |A|) / lam``, A the support.
    """

    means: Floats
    value: float
    curvature: Floats | None


@dataclass(frozen=True, eq=False)
class Inspection:
    """Sums over the data and the labels that are returned, from which a certificate is computed. All per unit of weight.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        Group means of the returned labels.
    slack : float
        ``sum_i w_i (<x_i, g_i> - min_k g_ik)`` with ``g_i = lam x_i - y_i + nu_s``: 0 where each row is the best response to its prices.
    squared_norm, agreement, squared_distance, moved : float
        Means of ``|x|^2``, ``<x, y>``, ``|x - y|^2`` and ``|x - y|_1 / 2``.
    simplex_violation : float
        The largest ``|sum_k x_k - 1|`` or ``-x_k`` of any row.
    """

    means: Floats
    slack: float
    squared_norm: float
    agreement: float
    squared_distance: float
    moved: float
    simplex_violation: float


class Oracle(Protocol):
    """A sum over blocks of rows."""

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        ...

    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices.

        These are the old labels if ``unchanged``, the ``answers`` (one per row) if given, else the best responses to the prices.
        """
        ...

    def fold(self, prices: Floats, lam: float, design: Floats) -> Floats:
        """Add up ``w_i b_ig b_ih H_i`` over the rows, b_i the row of the design for the cell of row i, H_i the row's curvature.

        Returns
        -------
        ndarray of shape (n, n_classes, n, n_classes)
            Per unit of weight, for the n columns of the design.
        """
        ...


class GroupOracle(ABC):
    """A sum over rows that know how they count in groups: prices and means here are those of groups, not of cells."""

    @abstractmethod
    def evaluate(self, prices: Floats, lam: float) -> Evaluation:
        """Evaluate all rows at these prices of groups, without curvature: :meth:`curvature` gives that."""

    @abstractmethod
    def inspect(self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Floats | None = None) -> Inspection:
        """Recompute the evidence, as :meth:`Oracle.inspect`, at these prices of groups."""

    @abstractmethod
    def curvature(self, prices: Floats, lam: float, components: list[NDArray[np.intp]]) -> list[Floats]:
        """Add up ``w_i b_ig b_ih H_i`` over the rows for the groups of each component, b_i how row i counts, H_i its curvature.

        Returns
        -------
        list of ndarray of shape (n, n_classes, n, n_classes)
            Per unit of weight, for the n groups of each component.
        """


AnyOracle = Oracle | GroupOracle
