"""Means of fair labels by cell, from the labels themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from r2b._data import Dataset
from r2b._labels.labels import FairLabels

Floats = NDArray[np.float64]

_PART = 1 << 20  # entries of fair labels that are looked at together


def means_by_cell(data: Dataset, fair: FairLabels) -> Floats:
    """Give the means of fair labels over the cells of a table, which may be others than they were made for."""
    sums, total, start = np.zeros((data.n_groups, data.n_classes)), np.zeros(data.n_groups), 0
    for block in fair.iter_soft(max(1, _PART // data.n_classes)):
        part = slice(start, start + len(block))
        weight = np.ones(len(block)) if data.weight is None else data.weight[part]
        np.add.at(sums, data.groups.codes[part], block * weight[:, None])
        np.add.at(total, data.groups.codes[part], weight)
        start += len(block)
    means: Floats = sums / np.where(total > 0, total, 1.0)[:, None]
    return means
