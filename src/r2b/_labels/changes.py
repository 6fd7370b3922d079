"""Which labels move where, and which constraints make them: the largest flows, the means that change most, the costliest prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as libraries

from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, Places
from r2b._data.compute import parts_of

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels


_PART = 1 << 20  # flows that are looked at together
_NOTHING = 1e-9  # of the weight: a flow this small is rounding


@dataclass(frozen=True)
class Change:
    """Weight of one group that leaves one class for another, in expectation.

    Attributes
    ----------
    group, old, new : object
        Names as they came in.
    weight : float
        Rows (or their weight) expected to move.
    share : float
        The same as a share of the group's rows with the old label.
    """

    group: Any
    old: Any
    new: Any
    weight: float
    share: float


def heaviest_flows(answers: Callable[[Places, Places], Floats], weights: Floats, groups: Array, classes: Array, n: int) -> list[Change]:
    """List the ``n`` heaviest flows, without the answers of all groups and classes at once: they can be more than memory holds.

    Parameters
    ----------
    answers : callable
        From groups and old classes, arrays of shape (m,), to the distributions of their new classes, of shape (m, n_classes).
    weights : ndarray of shape (n_groups, n_classes)
        Weight of each (group, old label).
    groups, classes : ndarray
        Names.
    n : int

    Examples
    --------
    >>> channel, names = np.array([[[0.75, 0.25], [0.0, 1.0]]]), np.array(["no", "yes"])
    >>> heaviest_flows(lambda cells, old: channel[cells, old], np.array([[8.0, 2.0]]), np.array(["all"]), names, 1)[0].weight
    2.0
    """
    pairs, n_classes = np.nonzero(weights), len(classes)
    flows, places = np.zeros(0), np.zeros(0, dtype=np.int64)
    for part in parts_of(len(pairs[0]), max(1, _PART // n_classes)):
        cells, old = pairs[0][part], pairs[1][part]
        flow = answers(cells, old) * weights[cells, old][:, None]
        flow[np.arange(len(old)), old] = 0.0
        # The earliest of equal ones first: earlier parts stand before this one, and sorting is stable.
        flows = np.concatenate([flows, flow.ravel()])
        places = np.concatenate([places, np.arange(flow.size) + part.start * n_classes])
        kept = np.flatnonzero(flows > _NOTHING * float(weights.sum()))
        kept = kept[largest_first(flows[kept], n, float(weights.sum()))]
        flows, places = flows[kept], places[kept]
    found = []
    for weight, place in zip(flows.tolist(), places.tolist(), strict=True):
        pair, new = divmod(place, n_classes)
        cell, old_class = int(pairs[0][pair]), int(pairs[1][pair])
        names = _named(groups, cell), _named(classes, old_class), _named(classes, new)
        found.append(Change(*names, weight, weight / float(weights[cell, old_class])))
    return found


def largest_first(values: Floats, n: int, scale: float = 1.0) -> Places:
    """Give the places of the ``n`` largest values, the earliest of equal ones first.

    Values that differ by rounding are equal: which of them comes out larger depends on the processor. Of two groups, for one, each bears
    the same cost.

    Parameters
    ----------
    values : ndarray of shape (m,)
    n : int
    scale : float
        What is 1e-12 of it is rounding.

    Examples
    --------
    >>> largest_first(np.array([0.1, 0.3, 0.2, 0.1 + 0.2]), 2)
    array([1, 3])
    """
    falling = -np.round(values / scale, 12)
    if 0 < n < len(values):
        candidates = np.flatnonzero(falling <= np.partition(falling, n - 1)[n - 1])
        return candidates[np.argsort(falling[candidates], kind="stable")[:n]]
    return np.argsort(falling, kind="stable")[: max(n, 0)]


@dataclass(frozen=True)
class MeanChange:
    """The mean of one class in one group, before and after; for a continuous attribute the moment with one of its functions.

    Attributes
    ----------
    family : str
    group, label : object
        Names as they came in.
    before, after : float
    """

    family: str
    group: Any
    label: Any
    before: float
    after: float


def largest_mean_changes(
    families: list[tuple[str, slice]], before: Floats, after: Floats, groups: Array, classes: Array, n: int
) -> list[MeanChange]:
    """List the ``n`` means of groups that change most: what can be said where a row is in several groups, or in none.

    Parameters
    ----------
    families : list of (name, groups)
    before, after : ndarray of shape (n_groups, n_classes)
    groups, classes : ndarray
        Names.
    n : int

    Examples
    --------
    >>> before, after = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([[0.4, 0.6], [0.4, 0.6]])
    >>> largest_mean_changes([("sex", slice(0, 2))], before, after, np.array(["f", "m"]), np.array(["no", "yes"]), 1)
    [MeanChange(family='sex', group='m', label='no', before=0.2, after=0.4)]
    """
    listed = [(name, group, label) for name, mine in families for group in range(mine.start, mine.stop) for label in range(len(classes))]
    size = np.array([abs(after[group, label] - before[group, label]) for _, group, label in listed])
    order = [place for place in largest_first(size, n) if size[place] > _NOTHING]
    return [
        MeanChange(family, _named(groups, group), _named(classes, label), float(before[group, label]), float(after[group, label]))
        for family, group, label in (listed[place] for place in order)
    ]


def _named(names: Array, place: int) -> Any:
    """Give one name as a Python value."""
    return names[place : place + 1].tolist()[0]


@dataclass(frozen=True)
class ConstraintCost:
    """What holding the mean of one class in one group costs.

    Attributes
    ----------
    family, group, label : object
        Names as they came in.
    price : float
        Positive where the bound keeps the class down in this group, negative where it brings it up.
    rate : float
        How fast the objective falls, per unit of weight, as this one mean is let go: the price times the group's share. The squared
        distance falls twice as fast where lam is 1. Bounds that hold each other in place bring less when only one is let go.
    """

    family: str
    group: Any
    label: Any
    price: float
    rate: float


def costliest_constraints(
    families: list[tuple[str, slice]], prices: Floats, share: Floats, groups: Array, classes: Array, n: int
) -> list[ConstraintCost]:
    """List the ``n`` entries of the prices that cost most.

    Parameters
    ----------
    families : list of (name, groups)
    prices : ndarray of shape (n_groups, n_classes)
    share : ndarray of shape (n_groups,)
    groups, classes : ndarray
        Names.
    n : int

    Examples
    --------
    >>> prices, share = np.array([[0.5, -0.5], [-0.1, 0.1]]), np.array([0.1, 0.9])
    >>> costliest_constraints([("sex", slice(0, 2))], prices, share, np.array(["f", "m"]), np.array(["no", "yes"]), 1)
    [ConstraintCost(family='sex', group='m', label='no', price=-0.1, rate=0.09...)]
    """
    rate = np.abs(prices) * share[:, None]
    order = largest_first(rate.ravel(), n)
    found = []
    for group, label in zip(*np.unravel_index(order, rate.shape), strict=True):
        if rate[group, label] > 0:
            family = next(name for name, mine in families if mine.start <= group < mine.stop)
            names = _named(groups, int(group)), _named(classes, int(label))
            found.append(ConstraintCost(family, *names, float(prices[group, label]), float(rate[group, label])))
    return found


def means_by_cell(data: Dataset, fair: FairLabels) -> Floats:
    """Give the means of fair labels over the cells of a table, which may be others than they were made for."""
    sums, total, start = np.zeros((data.n_groups, data.n_classes)), np.zeros(data.n_groups), 0
    for block in fair.iter_soft(max(1, _PART // data.n_classes)):
        part = slice(start, start + len(block))
        weight = np.ones(len(block)) if data.weight is None else data.weight[part]
        np.add.at(sums, data.groups.codes[part], block * weight[:, None])
        np.add.at(total, data.groups.codes[part], weight)
        start += len(block)
    return np.asarray(sums / np.where(total > 0, total, 1.0)[:, None])


def take_rows(X: Any, index: Array) -> Any:
    """Take rows by number, as the kind of table that came in; without one, give the numbers.

    Examples
    --------
    >>> take_rows(np.array([[1, 2], [3, 4]]), np.array([1, 1, 0]))
    array([[3, 4],
           [3, 4],
           [1, 2]])
    """
    if X is None:
        return index
    frame = nw.from_native(X, eager_only=True, pass_through=True, allow_series=True)
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return nw.to_native(frame[index])
    return X[index] if hasattr(X, "__array__") or hasattr(X, "tocsr") else [X[i] for i in index]


def with_row_labels(labels: Any, taken: Any, row_labels: Any, index: Array) -> Any:
    """Give a pandas column of labels the row labels of its features: pandas joins by them, not by position."""
    if not libraries.is_pandas_series(labels):
        return labels
    if libraries.is_pandas_dataframe(taken) or libraries.is_pandas_series(taken):
        return labels.set_axis(taken.index)
    return labels if row_labels is None else labels.set_axis(row_labels[index])
