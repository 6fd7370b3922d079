"""Which labels leave which class for which, group by group: the channel times the counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2b._constraints.bounds import MomentBound
from r2b._data.arrays import Floats, Whole, plain_value
from r2b._data.merge import class_weights
from r2b._labels import FairLabels

# numbers in the channel of all cells, beyond which no flow is worked out: 128 MiB
MOST_NUMBERS = 1 << 24
MOST_MOVES = 40  # moves listed by name for one group
TOP_CLASSES = 8  # classes of each side that a summary names; the others are put together
MOST_GROUPS = 200
_FIELDS = (
    "family",
    "group",
    "weight",
    "changed",
    "before",
    "after",
    "moves",
    "moves_left_out",
    "summary",
)


def flows_of(fair: FairLabels) -> dict[str, Any]:
    """Give the flow of old to new labels of every group, those with the most changes first.

    Returns
    -------
    dict
        ``flows``: one entry per group with its family, weight, the weight that changes, weight by
        class before and after, and the largest ``moves`` as [old, new, weight], classes by their
        place; ``moves_left_out`` counts the others. ``summary`` has all moves in the same form,
        between the few classes that lose and gain most; -1 stands for the other classes.
        ``flows_note`` says what is not there and why, or is None.
    """
    data = fair.dataset
    assert data is not None
    if data.labels.is_soft:
        return {
            "flows": _of_means(fair),
            "flows_note": "Labels are probabilities: a row has no one class that it leaves.",
        }
    if data.n_cells * data.n_classes**2 > MOST_NUMBERS:
        return {
            "flows": [],
            "flows_note": f"There are too many cells ({data.n_cells:,}) to list where labels go.",
        }
    weights = class_weights(data)
    flow = channel_of(fair) * weights[:, :, None]
    counted = zip(fair.families.members, fair.families.counting, strict=True)
    of_groups = [
        (member, counting)
        for member, counting in counted
        if not isinstance(member.bound, MomentBound)
    ]
    entries = [] if of_groups else [_entry("", "all rows", flow.sum(axis=0))]
    for member, counting in of_groups:
        by_group = (
            flow
            if fair.families.by_cell
            else np.tensordot(counting.design(data.cells).T, flow, axes=1)
        )
        for name, table in zip(fair.groups[member.groups], by_group, strict=True):
            entries.append(_entry(member.name, str(plain_value(name)), table))
    entries.sort(key=lambda entry: -entry["changed"])
    left = len(entries) - MOST_GROUPS
    note = f"{left:,} groups with fewer changes are not listed." if left > 0 else None
    return {"flows": entries[:MOST_GROUPS], "flows_note": note}


def channel_of(fair: FairLabels) -> Floats:
    """Give P(new class | old class, cell) for the cells of the rows; of a table elsewhere the labels keep one typical row of each."""
    data = fair.dataset
    assert data is not None
    return (
        fair.channel
        if len(fair.schema.table) == data.n_cells
        else fair.rule.response(data.cells).channel()
    )


def _entry(family: str, group: str, table: Floats) -> dict[str, Any]:
    moved = table.copy()
    np.fill_diagonal(moved, 0.0)
    order = np.argsort(-moved, axis=None, kind="stable")
    # What is a rounding error of the group's weight is no move.
    there = order[moved.ravel()[order] > 1e-12 * max(float(table.sum()), 1e-300)]
    listed = [
        (old, new, moved[old, new])
        for old, new in zip(*np.unravel_index(there[:MOST_MOVES], table.shape), strict=True)
    ]
    changed, summary = (float(moved.sum()), _summary(moved)) if len(there) else (0.0, [])
    weights = float(table.sum()), changed, table.sum(axis=1), table.sum(axis=0)
    return dict(
        zip(
            _FIELDS,
            (family, group, *weights, listed, len(there) - len(listed), summary),
            strict=True,
        )
    )


def _summary(moved: Floats) -> list[tuple[Any, ...]]:
    olds, news = _most(moved.sum(axis=1)), _most(moved.sum(axis=0))
    joined = np.zeros((len(olds) + 1, len(news) + 1))
    of_old, of_new = (np.full(len(moved), len(named)) for named in (olds, news))
    of_old[olds], of_new[news] = np.arange(len(olds)), np.arange(len(news))
    np.add.at(joined, (of_old[:, None], of_new[None, :]), moved)
    return [
        ([*olds, -1][i], [*news, -1][j], joined[i, j])
        for i, j in np.argwhere(joined > 1e-9 * moved.sum())
    ]


def _most(totals: Floats) -> Whole:
    order = np.argsort(-totals, kind="stable")
    order = order[totals[order] > 0]
    return order if len(order) <= TOP_CLASSES else order[: TOP_CLASSES - 1]


def _of_means(fair: FairLabels) -> list[dict[str, Any]]:
    proof, data, entries = fair.certificate, fair.dataset, []
    assert data is not None
    total = float(data.size if data.weight is None else data.weight.sum())
    for member in fair.families.members:
        if isinstance(member.bound, MomentBound):
            continue
        for place in range(member.groups.start, member.groups.stop):
            weight = float(fair.families.share[place]) * total
            before, after = proof.means_before[place] * weight, proof.means[place] * weight
            group, changed = (
                str(plain_value(fair.groups[place])),
                float(np.abs(after - before).sum() / 2),
            )
            entries.append(
                dict(
                    zip(
                        _FIELDS,
                        (member.name, group, weight, changed, before, after, None, 0, None),
                        strict=True,
                    )
                )
            )
    return sorted(entries, key=lambda entry: -entry["changed"])[:MOST_GROUPS]
