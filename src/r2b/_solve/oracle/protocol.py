"""What a solver may ask about rows, wherever they live.

A backend decides where blocks of rows live and adds up what comes back. It answers for prices; it never decides anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Floats, Places


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
    def curvature(self, prices: Floats, lam: float, components: list[Places]) -> list[Floats]:
        """Add up ``w_i b_ig b_ih H_i`` over the rows for the groups of each component, b_i how row i counts, H_i its curvature.

        Returns
        -------
        list of ndarray of shape (n, n_classes, n, n_classes)
            Per unit of weight, for the n groups of each component.
        """


AnyOracle = Oracle | GroupOracle


class Samples(NamedTuple):
    """Samples of the rows, for a solver to come near with.

    Attributes
    ----------
    small : AnyOracle
        To find prices with.
    large : AnyOracle
        To stand for all rows between passes.
    error : ndarray, optional
        Means of all labels less those of the small sample's, by cell or group as the oracle gives them. Where no response touches the
        border of the simplex the means of responses are off by as much, and nearly so where few do. Prices found on a sample that is
        corrected by it are several times nearer to those of all rows, at no cost. The labels themselves are not moved: that would lift
        rows off the border.
    """

    small: AnyOracle
    large: AnyOracle
    error: Floats | None = None


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
    blocks = parity.cell_share[:, None, None] * curvature
    return [folded_cells(parity.matrix[:, groups], blocks) for groups in parity.components]


def folded_cells(design: Floats, blocks: Floats) -> Floats:
    """Give ``sum_j B_jg B_jh H_j`` as (n_groups, n_classes, n_groups, n_classes), the H_j blocks of the cells."""
    n_groups, n_classes = design.shape[1], blocks.shape[1]
    touched = np.flatnonzero(design.any(axis=1))
    mine = design[touched]
    pairs = (mine[:, :, None] * mine[:, None, :]).reshape(len(touched), -1)
    folded = (pairs.T @ blocks[touched].reshape(len(touched), -1)).reshape(n_groups, n_groups, n_classes, n_classes)
    return np.ascontiguousarray(folded.transpose(0, 2, 1, 3))
