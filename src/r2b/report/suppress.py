"""Figures of small cells are removed from the facts, so that no rendering can show them."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from r2b._audit import Audit
from r2b._constraints.bounds import MomentBound
from r2b._data.arrays import Array, Floats
from r2b._data.merge import class_weights
from r2b.errors import ParameterError
from r2b.report.words import limits_of

Facts = dict[str, Any]
Key = tuple[str, str]
"""A family and a group."""


def suppressed(facts: Facts, below: int, found: Audit) -> Facts:
    """Remove the figures of cells of fewer rows, a cell being the rows of a group with a class.

    The shares of a group add up to 1, and those of a class to that of all rows. If a single cell
    of a group or a class is hidden, the next smallest is hidden too, until none follows from the
    others. Largest differences are still over all cells.

    Parameters
    ----------
    facts : dict
    below : int
        0 hides nothing.
    found : Audit
        Of the same rows.

    Raises
    ------
    ParameterError
        ``below`` is not a whole number of 0 or more.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a"] * 30 + ["b"] * 3 + ["a"] * 20 + ["b"] * 15, ["f"] * 33 + ["m"] * 35
    >>> found = r2b.audit(y, sensitive_features={"sex": sex}, n_boot=0)
    >>> found.report(suppress_below=10).facts["audit"]["families"][0]["means"]
    [['<10', '<10'], ['<10', '<10']]
    """
    if not isinstance(below, Integral) or isinstance(below, bool) or below < 0:
        raise ParameterError(
            f"`suppress_below` is {below!r}.",
            remedy="Pass a whole number such as `suppress_below=10`, or 0.",
            suppress_below=below,
        )
    return _Hiding(copy.deepcopy(facts), int(below)).run(found) if below else facts


@dataclass
class _Hiding:
    facts: Facts
    below: int
    hidden_classes: dict[Key, Array] = field(default_factory=dict)
    sizes: dict[Key, Any] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        return f"<{self.below}"

    def run(self, found: Audit) -> Facts:
        facts, cells, hidden = self.facts, 0, 0
        for place, (rows, counts) in enumerate(_sizes(found)):
            family = facts["audit"]["families"][place]
            mask = _mask(rows, counts, len(found.classes), self.below)
            cells, hidden = cells + mask.size, hidden + int(mask.sum())
            self._hide_family(family, mask)
            if facts["after"] is not None:
                self._hide_means(facts["after"][place], mask)
            keys = [(family["name"], group) for group in family["groups"]]
            self.hidden_classes |= dict(zip(keys, mask, strict=True))
            self.sizes |= dict(zip(keys, family["rows"], strict=True))
        self._hide_findings()
        if facts["change"] is not None:
            self._hide_change()
        facts["suppressed"] = {"below": self.below, "cells": hidden, "of": cells}
        facts["limits"] = limits_of(facts)
        return facts

    def _is_hidden(self, family: str, group: str, *names: Any) -> bool:
        """Tell whether a cell is hidden; groups that the audit does not have are."""
        mask = self.hidden_classes.get((family, group))
        classes = [str(name) for name in self.facts["data"]["classes"]]
        return mask is None or any(bool(mask[classes.index(str(name))]) for name in names)

    def _hide_few(self, counts: list[Any]) -> list[int]:
        """Mark counts below the limit and, if it is one, the next smallest; return the places."""
        order = sorted(range(len(counts)), key=lambda place: float(counts[place]))
        few = [place for place in order if counts[place] < self.below]
        few = order[:2] if len(few) == 1 else few
        for place in few:
            counts[place] = self.mark
        return few

    def _hide_family(self, family: Facts, mask: Array) -> None:
        for group in self._hide_few(family["rows"]):
            family["share"][group] = self.mark
        family["levels"] = None  # what chance explains of a group tells its size
        if 0 < family["left_out"] < self.below:
            family["left_out"] = self.mark
        self._hide_means(family, mask)
        shown = [value for value in family["ratio_by_class"] if isinstance(value, float)]
        family["ratio"] = min(shown) if shown else self.mark
        del family["to_overall"], family["to_overall_by_class"]
        family["largest"] = family["worst"] = _largest(family)

    def _hide_means(self, family: Facts, mask: Array) -> None:
        """Hide the means of cells, and compare groups in a class over the others."""
        means = np.asarray(family["means"], np.float64)
        family["means"] = _marked(means, mask, self.mark)
        for k in range(means.shape[1]):
            left = means[~mask[:, k], k]
            difference: Any = self.mark
            ratio: Any = self.mark
            if len(left) > 1:
                difference = float(np.ptp(left))
                ratio = float(left.min() / left.max()) if left.max() > 0 else None
            family["disparity_by_class"][k], family["ratio_by_class"][k] = difference, ratio

    def _hide_findings(self) -> None:
        facts, audit, headline = self.facts, self.facts["audit"], self.facts["headline"]
        audit["ranked"] = [
            each
            for each in audit["ranked"]
            if not self._is_hidden(each["family"], each["group"], each["class_name"])
        ]
        for each in audit["ranked"]:
            each["rows"] = self.sizes[each["family"], each["group"]]
            each["level"] = None if isinstance(each["rows"], str) else each["level"]
        audit["small"] = [
            [family, group, self.mark if rows < self.below else rows]
            for family, group, rows in audit["small"]
        ]
        shown = [family["largest"] for family in audit["families"] if family["largest"]]
        largest = max(shown, key=lambda each: float(each["value"]), default=None)
        audit["largest"] = audit["worst"] = largest
        # A doubt that counts rows may count those of a small cell.
        facts["doubts"] = [
            each for each in facts["doubts"] if not re.search(r"\d", each["problem"])
        ]
        if headline is not None:
            self._hide_headline(headline, largest)
        if facts["data"]["class_rows"] is not None:
            self._hide_few(facts["data"]["class_rows"])

    def _hide_headline(self, headline: Facts, largest: Facts | None) -> None:
        family, name = headline["family"], headline["class"]
        if any(self._is_hidden(family, group, name) for group in headline["groups"]):
            headline |= {"interval": None, "chance": None, "after": None, "verdict": "not tested"}
            if largest is None:
                families = self.facts["audit"]["families"]
                headline["difference"] = max(float(each["disparity"]) for each in families)
                headline |= dict.fromkeys(("class", "groups", "means", "rows"))
                return
            headline |= {part: largest[part] for part in ("family", "groups", "means")}
            headline |= {"class": largest["class_name"], "difference": largest["value"]}
        headline["rows"] = [self.sizes[headline["family"], group] for group in headline["groups"]]

    def _hide_change(self) -> None:
        change, below = self.facts["change"], self.below
        flows = [
            each
            for each in change["flows"]
            if min(each["weight"], each["changed"]) >= below
            and not isinstance(self.sizes.get((each["family"], each["group"]), ""), str)
        ]
        if len(flows) < len(change["flows"]):
            less = len(change["flows"]) - len(flows)
            note = f"{less:,} groups of which fewer than {below} rows change are not listed."
            change["flows_note"] = " ".join(filter(None, [change["flows_note"], note]))
        for each in flows:
            mask = self.hidden_classes[each["family"], each["group"]]
            for when in ("before", "after"):
                each[when] = _marked(np.asarray([each[when]], np.float64), mask[None], self.mark)[0]
            if each["moves"] is not None:
                kept = [move for move in each["moves"] if _is_shown(move, mask, below)]
                each["moves_left_out"] += len(each["moves"]) - len(kept)
                each["moves"] = kept
                each["summary"] = [m for m in each["summary"] if _is_shown(m, mask, below)]
        change["flows"], change["share"] = flows, None
        change["largest"] = [
            each
            for each in change["largest"]
            if each["weight"] >= below and self._alone(each["group"], each["old"], each["new"])
        ]
        change["means"] = [
            each for each in change["means"] if self._alone(each["group"], each["label"])
        ]
        # By group and class these are the means themselves; what is kept is over all of them.
        for part in filter(None, (self.facts["certificate"], self.facts["leaving"])):
            for name in ("means", "means_before", "disparity_by_class"):
                if name in part:
                    part[name] = None
            for family in part["families"]:
                for name in ("measure", "measure_before"):
                    family[name] = [max(family[name])]

    def _alone(self, group: str, *names: Any) -> bool:
        """Tell whether cells of a group, known by its name alone, are shown."""
        keys = [key for key in self.sizes if key[1] == group]
        if len(keys) != 1 or isinstance(self.sizes[keys[0]], str):
            return False
        return not self._is_hidden(*keys[0], *names)


def _marked(values: Floats, mask: Array, mark: str) -> list[list[Any]]:
    return [
        [mark if hide else value for value, hide in zip(row, hidden, strict=True)]
        for row, hidden in zip(values.tolist(), mask, strict=True)
    ]


def _is_shown(move: list[Any], mask: Array, below: int) -> bool:
    places = [place for place in move[:2] if place >= 0]
    return bool(move[2] >= below) and not mask[places].any()


def _sizes(found: Audit) -> list[tuple[Floats, Floats | None]]:
    """Return the rows of every group and, for classes, of every cell."""
    assert found.data is not None and found.fitted is not None
    data, families = found.data, found.fitted
    cells = None if data.labels.is_soft else class_weights(data, ignore_weight=True)
    counting = [
        counting
        for member, counting in families.pairs()
        if not isinstance(member.bound, MomentBound)
    ]
    sizes = []
    for family, each in zip(found.families, counting, strict=True):
        counts = None if cells is None else each.sums(data.cells, cells)
        sizes.append((family.rows, counts))
    return sizes


def _mask(rows: Floats, counts: Floats | None, n_classes: int, below: int) -> Array:
    """Return which cells of a family are hidden, so that none follows from the others."""
    sizes = np.repeat(rows[:, None], n_classes, axis=1) if counts is None else counts
    mask: Array = (sizes < below) | (rows[:, None] < below)
    changed = not mask.all()
    while changed:
        changed = False
        for lines, values in ((mask, sizes), (mask.T, sizes.T)):
            for place in np.flatnonzero(lines.sum(axis=1) == 1):
                left = np.flatnonzero(~lines[place])
                if len(left):
                    lines[place, left[values[place, left].argmin()]] = True
                    changed = True
    return mask


def _largest(family: Facts) -> Facts | None:
    """Return the largest difference between two groups among the cells that are shown."""
    differences = family["disparity_by_class"]
    shown = [k for k, value in enumerate(differences) if isinstance(value, float)]
    if not shown:
        return None
    k = max(shown, key=lambda place: float(differences[place]))
    means = [row[k] for row in family["means"]]
    order = sorted(
        (g for g, mean in enumerate(means) if isinstance(mean, float)), key=lambda g: -means[g]
    )
    ends = order[0], order[-1]
    return {
        "family": family["name"],
        "class_name": family["classes"][k],
        "groups": [family["groups"][g] for g in ends],
        "means": [means[g] for g in ends],
        "value": differences[k],
        "rows": [family["rows"][g] for g in ends],
        "level": None,
    }
