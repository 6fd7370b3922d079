"""Which labels move where, and which constraints make them: the largest flows and the dearest prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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


def largest_changes(channel: Floats, weights: Floats, groups: NDArray[Any], classes: NDArray[Any], n: int) -> list[Change]:
    """List the ``n`` heaviest flows.

    Parameters
    ----------
    channel : ndarray of shape (n_groups, n_classes, n_classes)
        P(new | old, group).
    weights : ndarray of shape (n_groups, n_classes)
        Weight of each (group, old label).
    groups, classes : ndarray
        Names.
    n : int

    Examples
    --------
    >>> channel = np.array([[[0.75, 0.25], [0.0, 1.0]]])
    >>> largest_changes(channel, np.array([[8.0, 2.0]]), np.array(["all"]), np.array(["no", "yes"]), 1)[0].weight
    2.0
    """
    flow = channel * weights[:, :, None]
    np.einsum("skk->sk", flow)[:] = 0.0
    order = np.argsort(-flow, axis=None, kind="stable")[:n]
    changes = []
    for group, old, new in zip(*np.unravel_index(order, flow.shape), strict=True):
        weight = float(flow[group, old, new])
        if weight > _NOTHING * float(weights.sum()):
            share = weight / float(weights[group, old])
            changes.append(Change(groups.tolist()[group], classes.tolist()[old], classes.tolist()[new], weight, share))
    return changes


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


def dearest_constraints(
    families: list[tuple[str, slice]], prices: Floats, share: Floats, groups: NDArray[Any], classes: NDArray[Any], n: int
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
    >>> dearest_constraints([("sex", slice(0, 2))], prices, share, np.array(["f", "m"]), np.array(["no", "yes"]), 1)
    [ConstraintCost(family='sex', group='m', label='no', price=-0.1, rate=0.09...)]
    """
    rate = np.abs(prices) * share[:, None]
    order = np.argsort(-rate, axis=None, kind="stable")[:n]
    found = []
    for group, label in zip(*np.unravel_index(order, rate.shape), strict=True):
        if rate[group, label] > 0:
            family = next(name for name, mine in families if mine.start <= group < mine.stop)
            names = groups.tolist()[group], classes.tolist()[label]
            found.append(ConstraintCost(family, *names, float(prices[group, label]), float(rate[group, label])))
    return found
