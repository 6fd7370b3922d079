"""Which labels move where: the largest entries of the flow from old to new labels, group by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
        if weight > 0:
            share = weight / float(weights[group, old])
            changes.append(Change(groups.tolist()[group], classes.tolist()[old], classes.tolist()[new], weight, share))
    return changes
