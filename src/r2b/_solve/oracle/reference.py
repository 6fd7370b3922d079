"""What a solver may ask about rows, wherever they live, and the reference answer: the row kernels in NumPy.

A backend decides where blocks of rows live and adds up what comes back. Every other kernel is
tested against those here. Each adds to its output arrays, takes ``weight`` of length 0 to mean
ones, and works block by block: temporaries stay in cache, labels are not copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from r2b._constraints.parity import Parity
from r2b._data.arrays import Array, Flags, Floats, Places
from r2b._data.compute import parts_of
from r2b._solve.oracle.folding import Folded


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The rows' response to prices, added up.

    The response of row i is ``x_i = P((y_i - nu_s) / lam)``, P the projection onto the simplex and
    s the row's group.

    Attributes
    ----------
    means : ndarray of shape (n_groups, n_classes)
        Weighted group means of the responses.
    value : float
        ``sum_i w_i (lam/2 |x_i|^2 - <x_i, y_i - nu_s>)`` per unit of weight.
    curvature : ndarray of shape (n_groups, n_classes, n_classes) or None
        Minus the derivative of each group's means by its prices: the mean of ``(diag(1_A) - 1_A
        1_A' / |A|) / lam``, A the support.
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
        ``sum_i w_i (<x_i, g_i> - min_k g_ik)`` with ``g_i = lam x_i - y_i + nu_s``: 0 where each
        row is the best response to its prices.
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


class Responses(NamedTuple):
    """The labels that are the best responses to these prices at this lambda, where others are to be proven optimal by them.

    Attributes
    ----------
    prices : ndarray
        By group or by cell, as those beside them.
    lam : float
    """

    prices: Floats
    lam: float


Answers = Floats | Responses  # labels row by row, or how they follow from rows


class Oracle(Protocol):
    """A sum over blocks of rows."""

    def evaluate(self, prices: Floats, lam: float, *, curvature: bool) -> Evaluation:
        """Evaluate all rows at these prices."""
        ...

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the data and the labels that go out at these prices.

        These are the old labels if ``unchanged``, the ``answers`` if given, else the best responses
        to the prices.
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
    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence, as :meth:`Oracle.inspect`, at these prices of groups."""

    @abstractmethod
    def curvature(
        self, prices: Floats, lam: float, components: list[Places], entries: Flags | None = None
    ) -> list[Floats]:
        """Add up ``w_i b_ig b_ih H_i`` over the rows for the groups of each component, b_i how row i counts, H_i its curvature.

        ``entries`` of shape (n_groups, n_classes) tells the prices that matter, all of them by
        default; for the others there may be 0.

        Returns
        -------
        list of ndarray of shape (n, n_classes, n, n_classes)
            Per unit of weight, for the n groups of each component.
        """

    @abstractmethod
    def among(self, groups: Places) -> GroupOracle:
        """Give the oracle of some of the groups alone, in this order."""

    @abstractmethod
    def label_means(self) -> Floats:
        """Group means of the labels as they came in."""

    @abstractmethod
    def samples(self) -> Samples | None:
        """Give a small and a larger sample of the rows, or None where all rows are cheap to read or no sample stands for them."""


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
        Means of all labels less those of the small sample's, by cell or group as the oracle gives
        them. Where no response touches the border of the simplex the means of responses are off by
        as much, and nearly so where few do. Prices found on a sample that is corrected by it are
        several times nearer to those of all rows, at no cost. The labels themselves are not moved:
        that would lift rows off the border.
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
    oracle: AnyOracle,
    parity: Parity,
    prices: Floats,
    lam: float,
    *,
    unchanged: bool = False,
    answers: Answers | None = None,
) -> Inspection:
    """Recompute the evidence at prices of groups; the means are those of groups."""
    if isinstance(oracle, GroupOracle):
        return oracle.inspect(prices, lam, unchanged=unchanged, answers=answers)
    if isinstance(answers, Responses):
        answers = answers._replace(prices=parity.shifts(answers.prices))
    seen = oracle.inspect(parity.shifts(prices), lam, unchanged=unchanged, answers=answers)
    return replace(seen, means=parity.means(seen.means))


def group_means(oracle: AnyOracle, parity: Parity, means: Floats) -> Floats:
    """Give means of groups from means as the oracle gives them."""
    return means if isinstance(oracle, GroupOracle) else parity.means(means)


def folded_curvature(
    oracle: AnyOracle, parity: Parity, prices: Floats, lam: float, entries: Flags | None = None
) -> list[Floats]:
    """Give ``sum_j v_j B_jg B_jh H_j`` for each component of the constraint, H_j the curvature of cell j.

    Parameters
    ----------
    oracle : Oracle or GroupOracle
    parity : Parity
    prices : ndarray of shape (n_groups, n_classes)
    lam : float
    entries : ndarray of bool, shape (n_groups, n_classes), optional
        The prices that matter, all of them by default; for the others there may be 0.

    Returns
    -------
    list of ndarray of shape (n, n_classes, n, n_classes)
        Minus the derivative of the means of the component's n groups, each times its share.
    """
    if isinstance(oracle, GroupOracle):
        return oracle.curvature(prices, lam, parity.components, entries)
    n_cells, n_classes = len(parity.cell_share), prices.shape[1]
    shifts = parity.shifts(prices)
    if n_cells * n_classes**2 > _CELL_ENTRIES:
        return [oracle.fold(shifts, lam, parity.matrix[:, groups]) for groups in parity.components]
    curvature = oracle.evaluate(shifts, lam, curvature=True).curvature
    assert curvature is not None
    blocks = parity.cell_share[:, None, None] * curvature
    if parity.design is None:  # groups are the cells, and share none
        return [_block_diagonal(blocks[groups]) for groups in parity.components]
    return [folded_cells(parity.matrix[:, groups], blocks) for groups in parity.components]


def _block_diagonal(blocks: Floats) -> Floats:
    n_groups, n_classes, _ = blocks.shape
    whole = np.zeros((n_groups, n_classes, n_groups, n_classes))
    each = np.arange(n_groups)
    whole[each, :, each] = blocks
    return whole


def folded_cells(design: Floats, blocks: Floats) -> Floats:
    """Give ``sum_j B_jg B_jh H_j`` as (n_groups, n_classes, n_groups, n_classes), the H_j blocks of the cells."""
    n_groups, n_classes = design.shape[1], blocks.shape[1]
    touched = np.flatnonzero(design.any(axis=1))
    mine, flat = design[touched], blocks[touched].reshape(len(touched), -1)
    if mine.size * n_groups <= _CELL_ENTRIES:
        pairs = (mine[:, :, None] * mine[:, None, :]).reshape(len(touched), -1)
        folded = (pairs.T @ flat).reshape(n_groups, n_groups, n_classes, n_classes)
        return np.ascontiguousarray(folded.transpose(0, 2, 1, 3))
    whole = np.zeros((n_groups, n_classes, n_groups, n_classes))
    # few other groups share cells with one, and pairs of all would be cells x groups x groups
    # numbers
    for g in range(n_groups):
        cells = np.flatnonzero(mine[:, g])
        others = np.flatnonzero(mine[cells].any(axis=0))
        pair = mine[np.ix_(cells, others)] * mine[cells, g, None]
        whole[g][:, others] = (
            (pair.T @ flat[cells]).reshape(-1, n_classes, n_classes).transpose(1, 0, 2)
        )
    return whole


def thresholds(rows: Floats) -> Floats:
    """Threshold of each row: ``max(row - t, 0)`` sums to 1.

    Examples
    --------
    >>> thresholds(np.array([[0.5, 0.5, 0.5], [3.0, 0.0, 0.0]]))
    array([0.16666667, 2.        ])
    """
    top = rows.max(axis=1)
    return np.asarray(top + _levels(rows - top[:, None]))


def project(rows: Floats) -> Floats:
    """Closest point of the simplex to each row.

    Examples
    --------
    >>> project(np.array([[0.5, 0.5, -1.0], [0.9, 0.6, 0.0]]))
    array([[0.5 , 0.5 , 0.  ],
           [0.65, 0.35, 0.  ]])
    """
    # Measured from the largest entry, sums stay of the size of the answer and no digits are lost on
    # rows far from the simplex.
    out: Floats = rows - rows.max(axis=1, keepdims=True)
    out -= _levels(out)[:, None]
    return np.maximum(out, 0.0, out=out)


def _levels(below: Floats) -> Floats:
    """Threshold of each row whose largest entry is 0. Sorting is the fastest way in NumPy, where Newton takes three times as long."""
    falling = -below
    falling.sort(axis=1)
    np.negative(falling, out=falling)
    levels = falling.cumsum(axis=1)
    levels -= 1.0
    levels /= np.arange(1, below.shape[1] + 1)
    support = np.count_nonzero(falling > levels, axis=1)  # the largest entry is always above
    return np.asarray(levels[np.arange(len(below)), support - 1])


_BLOCK_ENTRIES = 65_536


def _blocks(labels: Array) -> list[slice]:
    return parts_of(len(labels), max(1, _BLOCK_ENTRIES // labels.shape[1]))


def respond(labels: Array, groups: Array, prices: Floats, lam: float) -> Floats:
    """Best response of each row to its group's prices: ``P((y_i - nu_s) / lam)``."""
    shifted = labels - prices[groups]
    return project(shifted if lam == 1.0 else shifted / lam)


def evaluate(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    out: Sequence[Array],
) -> None:
    """Add the responses to ``sums`` (R, L), their values to ``totals[0]``, their curvature times lam to ``curvature`` (if not empty).

    ``out`` is the three of them.
    """
    sums, totals, curvature = out
    for part in _blocks(labels):
        mine = groups[part]
        shifted = labels[part] - prices[mine]
        x = project(shifted if lam == 1.0 else shifted / lam)
        own = weight[part] if len(weight) else np.ones(len(x))
        totals[0] += own @ np.einsum("ik,ik->i", x, 0.5 * lam * x - shifted)
        _add_by_group(sums, mine, x * own[:, None])
        if curvature.size:
            _add_curvature(curvature, mine, (x > 0).astype(np.float64), own)


def _add_curvature(curvature: Floats, groups: Array, support: Floats, weight: Floats) -> None:
    order, first = _runs(groups)
    if order is not None:
        groups, support, weight = groups[order], support[order], weight[order]
    scaled = support * (weight / support.sum(axis=1))[:, None]
    ends = [*first[1:].tolist(), len(groups)]
    for group, start, stop in zip(groups[first].tolist(), first.tolist(), ends, strict=True):
        here = support[start:stop]
        curvature[group] -= scaled[start:stop].T @ here
        curvature[group].flat[:: here.shape[1] + 1] += weight[start:stop] @ here


def _add_by_group(sums: Floats, groups: Array, rows: Floats) -> None:
    """Add rows to the sums of their groups; rows that come ordered by group are not moved."""
    order, first = _runs(groups)
    if order is not None:
        groups, rows = groups[order], rows[order]
    sums[groups[first]] += np.add.reduceat(rows, first, axis=0)


def _runs(groups: Array) -> tuple[Places | None, Places]:
    """Give the order that puts rows of a group beside each other, None where they are, and the first place of each group in it."""
    order = None
    if (groups[1:] < groups[:-1]).any():
        order = np.argsort(groups, kind="stable")
        groups = groups[order]
    new = np.ones(len(groups), dtype=bool)
    np.not_equal(groups[1:], groups[:-1], out=new[1:])
    return order, new.nonzero()[0]


def answer(
    labels: Array, groups: Array, prices: Floats, lam: float, levels: Floats, out: Array
) -> None:
    """Write the response of each row into ``out``."""
    for part in _blocks(labels):
        out[part] = respond(labels[part], groups[part], prices, lam)


def inspect(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    answers: Array,
    out: Sequence[Array],
) -> None:
    """Add the evidence about ``answers``: group sums, and slack, |x|^2, <x, y>, |x - y|^2, |x - y|_1 / 2; the worst row into totals[5]."""
    sums, totals = out
    for part in _blocks(labels):
        x = answers[part].astype(np.float64, copy=False)
        y = labels[part].astype(np.float64, copy=False)
        own = weight[part] if len(weight) else np.ones(len(x))
        gradient = lam * x - y + prices[groups[part]]
        difference = x - y
        totals[0] += own @ (np.einsum("ik,ik->i", x, gradient) - gradient.min(axis=1))
        totals[1] += own @ np.einsum("ik,ik->i", x, x)
        totals[2] += own @ np.einsum("ik,ik->i", x, y)
        totals[3] += own @ np.einsum("ik,ik->i", difference, difference)
        totals[4] += own @ (0.5 * np.abs(difference).sum(axis=1))
        totals[5] = max(totals[5], float(np.abs(x.sum(axis=1) - 1.0).max()), float(-x.min()))
        _add_by_group(sums, groups[part], x * own[:, None])


def prove(
    labels: Array,
    groups: Array,
    weight: Array,
    prices: Array,
    lam: float,
    levels: Array,
    out: Sequence[Array],
) -> None:
    """Add the evidence about the responses: :func:`answer` and :func:`inspect`, block by block."""
    for part in _blocks(labels):
        x = respond(labels[part], groups[part], prices, lam)
        inspect(labels[part], groups[part], weight[part], prices, lam, x, out)


def add_rows(labels: Array, groups: Array, weight: Floats, sums: Floats) -> None:
    """Add the label rows themselves to ``sums`` (R, L)."""
    for part in _blocks(labels):
        rows = labels[part].astype(np.float64)
        _add_by_group(sums, groups[part], rows * weight[part][:, None] if len(weight) else rows)


def fold(
    labels: Array, groups: Array, weight: Floats, prices: Floats, lam: float, design: Floats
) -> Floats:
    """Give the rows' curvature times lam, (n, L, n, L), counted by pairs of columns of ``design`` (cells, n)."""
    folded = Folded(design.shape[1], labels.shape[1])
    for part in _blocks(labels):
        support = (respond(labels[part], groups[part], prices, lam) > 0).astype(np.float64)
        folded.add(
            design[groups[part]], support, weight[part] if len(weight) else np.ones(len(support))
        )
    return folded.table()
