"""Figures of small cells left out of the facts, before anything is rendered: what is not in them cannot be shown."""

from __future__ import annotations

import copy
import re
from numbers import Integral
from typing import Any

import numpy as np

from r2b._audit import Audit
from r2b._constraints.bounds import MomentBound
from r2b._data.arrays import Array, Floats
from r2b._data.merge import class_weights
from r2b.errors import ParameterError
from r2b.report.limits import limits_of

_UNTESTED = {"interval": None, "chance": None, "verdict": "not tested", "after": None}
_NAMELESS: dict[str, Any] = dict.fromkeys(("class", "groups", "means", "rows"))


def suppressed(facts: dict[str, Any], below: int, found: Audit) -> dict[str, Any]:
    """Leave out the figures of cells of fewer rows, a cell being the rows of a group with a class.

    The shares of a group add up to 1, and those of a class to that of all rows. Where a single cell
    of a group or a class is left out, the next smallest goes too, until none follows from the
    others. Largest differences are still over all cells.

    Parameters
    ----------
    facts : dict
    below : int
        0 leaves out nothing.
    found : Audit
        That the facts are of, with its rows.

    Raises
    ------
    ParameterError
        ``below`` is no whole number of 0 or more.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a"] * 30 + ["b"] * 3 + ["a"] * 20 + ["b"] * 15, ["f"] * 33 + ["m"] * 35
    >>> facts = r2b.audit(y, sensitive_features={"sex": sex}, n_boot=0).report(suppress_below=10).facts
    >>> facts["audit"]["families"][0]["means"], facts["suppressed"]["cells"]
    ([['<10', '<10'], ['<10', '<10']], 4)
    """
    if not isinstance(below, Integral) or isinstance(below, bool) or below < 0:
        raise ParameterError(
            f"suppress_below is {below!r}.",
            remedy="Pass a whole number such as 10, or 0.",
            suppress_below=below,
        )
    if not below:
        return facts
    facts, mark = copy.deepcopy(facts), f"<{below}"
    masks = [_mask(rows, counts, len(found.classes), int(below)) for rows, counts in _sizes(found)]
    known: dict[tuple[str, str], Array] = {}
    sizes: dict[tuple[str, str], Any] = {}
    for place, (family, mask) in enumerate(zip(facts["audit"]["families"], masks, strict=True)):
        known |= {
            (family["name"], group): row for group, row in zip(family["groups"], mask, strict=True)
        }
        _hide_family(family, mask, mark, int(below))
        sizes |= {
            (family["name"], group): rows
            for group, rows in zip(family["groups"], family["rows"], strict=True)
        }
        if facts["after"] is not None:
            _hide_means(facts["after"][place], mask, mark)
    classes = {str(name): k for k, name in enumerate(facts["data"]["classes"])}

    def hidden(family: str, group: str, *names: Any) -> bool:
        """Tell whether a cell is left out; groups that the audit does not have are not known, and left out."""
        row = known.get((family, group))
        return row is None or any(bool(row[classes[str(name)]]) for name in names)

    _hide_findings(facts, hidden, mark, int(below))
    _hide_change(
        facts,
        hidden,
        {place: row for place, row in known.items() if not isinstance(sizes[place], str)},
        int(below),
    )
    _hide_sizes(facts, sizes)
    cells = int(sum(mask.sum() for mask in masks))
    facts["suppressed"] = {
        "below": int(below),
        "cells": cells,
        "of": int(sum(mask.size for mask in masks)),
    }
    facts["limits"] = limits_of(facts)
    return facts


def _sizes(found: Audit) -> list[tuple[Floats, Floats | None]]:
    """Give the rows of every group and, of classes, of every cell; a row of probabilities has no one class."""
    assert found.data is not None and found.fitted is not None
    data, families, sizes = found.data, found.fitted, []
    cells = None if data.labels.is_soft else class_weights(data, ignore_weight=True)
    of_groups = [
        counting
        for member, counting in zip(families.members, families.counting, strict=True)
        if not isinstance(member.bound, MomentBound)
    ]
    for family, counting in zip(found.families, of_groups, strict=True):
        counts = (
            cells if cells is None or families.by_cell else counting.design(data.cells).T @ cells
        )
        sizes.append((family.rows, counts))
    return sizes


def _mask(rows: Floats, counts: Floats | None, n_classes: int, below: int) -> Array:
    """Tell which cells of a family are left out, so that none follows from the others."""
    sizes = np.repeat(rows[:, None], n_classes, axis=1) if counts is None else counts
    mask: Array = (sizes < below) | (rows[:, None] < below)
    changed = not mask.all()
    while changed:
        changed = False
        for lines, values in ((mask, sizes), (mask.T, sizes.T)):
            for place in np.flatnonzero(lines.sum(axis=1) == 1):
                open_ = np.flatnonzero(~lines[place])
                if len(open_):
                    lines[place, open_[values[place, open_].argmin()]] = True
                    changed = True
    return mask


def _hide_family(family: dict[str, Any], mask: Array, mark: str, below: int) -> None:
    few = np.flatnonzero(np.asarray(family["rows"]) < below)
    if len(few) == 1 and len(family["rows"]) > 1:  # the others would leave it
        order = np.argsort(family["rows"], kind="stable")
        few = order[:2]
    for group in few:
        family["rows"][group] = family["share"][group] = mark
    family["levels"] = None  # what chance explains of a group tells its size
    family["left_out"] = mark if 0 < family["left_out"] < below else family["left_out"]
    _hide_means(family, mask, mark)
    shown = [value for value in family["ratio_by_class"] if isinstance(value, float)]
    family["ratio"] = min(shown) if shown else mark
    for name in ("to_overall", "to_overall_by_class"):
        del family[name]
    family["largest"] = family["worst"] = _largest(family)


def _hide_means(family: dict[str, Any], mask: Array, mark: str) -> None:
    """Leave out the means of cells, and take what compares groups in a class over the others."""
    means = np.asarray(family["means"], np.float64)
    family["means"] = [
        [mark if hide else mean for mean, hide in zip(*pair, strict=True)]
        for pair in zip(means.tolist(), mask, strict=True)
    ]
    for k in range(means.shape[1]):
        open_ = means[~mask[:, k], k]
        two = len(open_) > 1
        family["disparity_by_class"][k] = float(np.ptp(open_)) if two else mark
        family["ratio_by_class"][k] = (
            (float(open_.min() / open_.max()) if open_.max() > 0 else None) if two else mark
        )


def _largest(family: dict[str, Any]) -> dict[str, Any] | None:
    """Name the largest difference between two groups among the cells that are shown."""
    shown = [
        (value, k)
        for k, value in enumerate(family["disparity_by_class"])
        if isinstance(value, float)
    ]
    if not shown:
        return None
    value, k = max(shown, key=lambda each: (each[0], -each[1]))
    groups = [g for g, row in enumerate(family["means"]) if isinstance(row[k], float)]
    high, low = (
        max(groups, key=lambda g: family["means"][g][k]),
        min(groups, key=lambda g: family["means"][g][k]),
    )
    return {
        "family": family["name"],
        "class_name": family["classes"][k],
        "groups": [family["groups"][high], family["groups"][low]],
        "means": [family["means"][high][k], family["means"][low][k]],
        "value": value,
        "rows": [family["rows"][high], family["rows"][low]],
        "level": None,
    }


def _hide_findings(facts: dict[str, Any], hidden: Any, mark: str, below: int) -> None:
    audit, headline = facts["audit"], facts["headline"]
    audit["ranked"] = [
        each
        for each in audit["ranked"]
        if not hidden(each["family"], each["group"], each["class_name"])
    ]
    audit["small"] = [
        [family, group, mark if rows < below else rows] for family, group, rows in audit["small"]
    ]
    shown = [family["largest"] for family in audit["families"] if family["largest"] is not None]
    audit["largest"] = audit["worst"] = max(
        shown, key=lambda each: float(each["value"]), default=None
    )
    # A doubt that counts rows may count those of a small cell.
    facts["doubts"] = [doubt for doubt in facts["doubts"] if not re.search(r"\d", doubt["problem"])]
    if headline is not None and any(
        hidden(headline["family"], group, headline["class"]) for group in headline["groups"]
    ):
        parity = max(float(family["disparity"]) for family in audit["families"])
        facts["headline"] = {
            **headline,
            **_UNTESTED,
            **(_difference(audit["largest"]) or {**_NAMELESS, "difference": parity}),
        }
    counts = facts["data"]["class_rows"]
    if counts is not None:
        few = {k for k, count in enumerate(counts) if count < below}
        few |= set(np.argsort(counts, kind="stable")[:2].tolist()) if len(few) == 1 else set()
        facts["data"]["class_rows"] = [
            mark if k in few else count for k, count in enumerate(counts)
        ]


def _hide_sizes(facts: dict[str, Any], sizes: dict[tuple[str, str], Any]) -> None:
    """Leave out the rows of groups wherever they are told again."""
    for each in facts["audit"]["ranked"]:
        each["rows"] = sizes[each["family"], each["group"]]
        each["level"] = None if isinstance(each["rows"], str) else each["level"]
    headline = facts["headline"]
    if headline is not None and headline["groups"] is not None:
        headline["rows"] = [sizes[headline["family"], group] for group in headline["groups"]]


def _difference(largest: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give the largest difference that is shown as a headline; None where no two groups are."""
    named = ("family", "groups", "means", "rows")
    return largest and {
        **{name: largest[name] for name in named},
        "class": largest["class_name"],
        "difference": largest["value"],
    }


def _hide_change(
    facts: dict[str, Any], hidden: Any, known: dict[tuple[str, str], Array], below: int
) -> None:
    change, proof, left = facts["change"], facts["certificate"], facts["leaving"]
    if change is None:
        return
    flows = [
        each for each in change["flows"] if each["weight"] >= below and each["changed"] >= below
    ]
    flows = [each for each in flows if (each["family"], each["group"]) in known]
    if len(flows) < len(change["flows"]):
        note = f"{len(change['flows']) - len(flows):,} groups of which fewer than {below} rows change are not listed."
        change["flows_note"] = " ".join(filter(None, [change["flows_note"], note]))
    for each in flows:
        row = known[each["family"], each["group"]]
        for name in ("before", "after"):
            each[name] = [
                f"<{below}" if hide else value for value, hide in zip(each[name], row, strict=True)
            ]
        if each["moves"] is not None:
            kept = [
                move
                for move in each["moves"]
                if move[2] >= below and not (row[move[0]] or row[move[1]])
            ]
            each["moves_left_out"] += len(each["moves"]) - len(kept)
            each["moves"], each["summary"] = (
                kept,
                [move for move in each["summary"] if _shown(move, row, below)],
            )
    cells = {group for _, group in known}
    alone = {group: family for family, group in known} if len(cells) == len(known) else {}
    change["largest"] = [
        each
        for each in change["largest"]
        if each["weight"] >= below
        and not hidden(alone.get(each["group"], ""), each["group"], each["old"], each["new"])
    ]
    change["means"] = [
        each
        for each in change["means"]
        if not hidden(alone.get(each["group"], ""), each["group"], each["label"])
    ]
    change["flows"], change["share"] = flows, None
    # By group and class these are the means themselves; what is left is over all of them.
    for part in filter(None, (proof, left)):
        part |= {
            name: None for name in ("means", "means_before", "disparity_by_class") if name in part
        }
        for family in part["families"]:
            family |= {name: [max(family[name])] for name in ("measure", "measure_before")}


def _shown(move: list[Any], row: Array, below: int) -> bool:
    return bool(move[2] >= below) and not any(place >= 0 and row[place] for place in move[:2])
