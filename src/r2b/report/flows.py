"""Which labels leave which class for which, group by group: the channel times the counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b._constraints.parity import MomentBound
from r2b._data.arrays import plain_value
from r2b._data.merge import class_weights
from r2b._labels import FairLabels

Floats = NDArray[np.float64]

MOST_NUMBERS = 1 << 24  # numbers in the channel of all cells, beyond which no flow is worked out: 128 MiB
MOST_MOVES = 40  # moves listed by name for one group
TOP_CLASSES = 8  # classes of each side that a summary names; the others are put together
MOST_GROUPS = 200


def flows_of(fair: FairLabels) -> dict[str, Any]:
    """Give the flow of old to new labels of every group, those with the most changes first.

    Returns
    -------
    dict
        ``flows``: one entry per group with its family, weight, the weight that changes, weight by class before and after, and the largest
        ``moves`` as [old, new, weight], classes by their place; ``moves_left_out`` counts the others. ``summary`` has all moves in the same
        form, between the few classes that lose and gain most; -1 stands for the other classes. ``flows_note`` says what is not there and
        why, or is None.
    """
    data = fair.dataset
    assert data is not None
    if data.labels.is_soft:
        return {"flows": _of_means(fair), "flows_note": "Labels are probabilities: a row has no one class that it leaves."}
    if data.n_groups * data.n_classes**2 > MOST_NUMBERS:
        return {"flows": [], "flows_note": f"There are too many cells ({data.n_groups:,}) to list where labels go."}
    weights = class_weights(data)
    flow = fair.channel * weights[:, :, None]
    entries = [_entry("", "all rows", flow.sum(axis=0))] if _no_groups(fair) else []
    for member, counting in zip(fair.families.members, fair.families.counting, strict=True):
        if isinstance(member.bound, MomentBound):
            continue
        by_group = flow if fair.families.by_cell else np.tensordot(counting.design(data.groups).T, flow, axes=1)
        for name, table in zip(fair.groups[member.groups], by_group, strict=True):
            entries.append(_entry(member.name, str(plain_value(name)), table))
    entries.sort(key=lambda entry: -entry["changed"])
    left = len(entries) - MOST_GROUPS
    note = f"{left:,} groups with fewer changes are not listed." if left > 0 else None
    return {"flows": entries[:MOST_GROUPS], "flows_note": note}


def _no_groups(fair: FairLabels) -> bool:
    return all(isinstance(member.bound, MomentBound) for member in fair.families.members)


def _entry(family: str, group: str, table: Floats) -> dict[str, Any]:
    moved = table.copy()
    np.fill_diagonal(moved, 0.0)
    order = np.argsort(-moved, axis=None, kind="stable")
    # What is a rounding error of the group's weight is no move.
    there = order[moved.ravel()[order] > 1e-12 * max(float(table.sum()), 1e-300)]
    places = [np.unravel_index(place, table.shape) for place in there[:MOST_MOVES]]
    listed = [[int(old), int(new), float(moved[old, new])] for old, new in places]
    total = float(moved.sum())
    return {
        "family": family,
        "group": group,
        "weight": float(table.sum()),
        "changed": total if len(there) else 0.0,
        "before": table.sum(axis=1).tolist(),
        "after": table.sum(axis=0).tolist(),
        "moves": listed,
        "moves_left_out": len(there) - len(listed),
        "summary": _summary(moved) if len(there) else [],
    }


def _summary(moved: Floats) -> list[list[float]]:
    olds, news = _most(moved.sum(axis=1)), _most(moved.sum(axis=0))
    joined = np.zeros((len(olds) + 1, len(news) + 1))
    of_old, of_new = (np.full(len(moved), len(named)) for named in (olds, news))
    of_old[olds], of_new[news] = np.arange(len(olds)), np.arange(len(news))
    np.add.at(joined, (of_old[:, None], of_new[None, :]), moved)
    places = [(i, j) for i in range(len(olds) + 1) for j in range(len(news) + 1) if joined[i, j] > 1e-9 * moved.sum()]
    return [[int([*olds, -1][i]), int([*news, -1][j]), float(joined[i, j])] for i, j in places]


def _most(totals: Floats) -> NDArray[np.int64]:
    order = np.argsort(-totals, kind="stable")
    order = order[totals[order] > 0]
    return order if len(order) <= TOP_CLASSES else order[: TOP_CLASSES - 1]


def _of_means(fair: FairLabels) -> list[dict[str, Any]]:
    proof, total = fair.certificate, 1.0 if fair.dataset is None else _total(fair)
    entries = []
    for member in fair.families.members:
        if isinstance(member.bound, MomentBound):
            continue
        for place in range(member.groups.start, member.groups.stop):
            weight = float(fair.families.share[place]) * total
            before, after = proof.means_before[place] * weight, proof.means[place] * weight
            entries.append(
                {
                    "family": member.name,
                    "group": str(plain_value(fair.groups[place])),
                    "weight": weight,
                    "changed": float(np.abs(after - before).sum() / 2),
                    "before": before.tolist(),
                    "after": after.tolist(),
                    "moves": None,
                    "moves_left_out": 0,
                    "summary": None,
                }
            )
    return sorted(entries, key=lambda entry: -entry["changed"])[:MOST_GROUPS]


def _total(fair: FairLabels) -> float:
    assert fair.dataset is not None
    return float(fair.dataset.size if fair.dataset.weight is None else fair.dataset.weight.sum())
