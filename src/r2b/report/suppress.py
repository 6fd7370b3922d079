"""Figures of small cells are removed from the facts, so that no rendering can show them."""

from __future__ import annotations

import copy
import re
from numbers import Integral
from typing import Any

import numpy as np

from r2b._audit import Audit
from r2b._data.arrays import Array, Floats
from r2b._data.merge import class_weights
from r2b.errors import ParameterError
from r2b.report.facts import groups_of
from r2b.report.words import Facts, limits_of

Cell = tuple[str, str, str]
"""A family, a group of it and a class."""


def suppressed(facts: Facts, below: int, found: Audit) -> Facts:
    """Remove the figures of cells of fewer rows, a cell being the rows of a group with a class.

    The shares of a group add up to 1, and those of a class to that of all rows. If a single cell
    of a group or a class is hidden, the next smallest is hidden too, until none follows from the
    others. Differences and ratios of classes with hidden cells are hidden too; the largest
    difference of a family is still over all cells.

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
    if below == 0:
        return facts
    data, families = found.data, found.fitted
    assert data is not None and families is not None
    if families.outcomes is not None:
        raise ParameterError(
            "`suppress_below` is given, but shares of outcomes are reported, from which those of "
            "single classes may follow.",
            remedy="Leave it out, or report on classes without `outcomes`.",
            suppress_below=below,
        )
    facts, below, hidden, of = copy.deepcopy(facts), int(below), set[Cell](), 0
    cells = None if data.labels.is_soft else class_weights(data, ignore_weight=True)
    for place, (_, counting) in enumerate(groups_of(families)):
        family, rows = facts.audit.families[place], found.families[place].rows[:, None]
        sizes = np.repeat(rows, len(found.classes), axis=1) if cells is None else cells
        if cells is not None and not families.by_cell:
            sizes = counting.design(data.cells).T @ cells
        mask = _mask(rows, sizes, below)
        of += mask.size
        hidden |= {
            (family.name, family.groups[group], str(family.classes[k]))
            for group, k in np.argwhere(mask)
        }
        _hide_family(family, mask, below)
        if facts.after is not None:
            _hide_means(facts.after[place], mask, below)
    _hide_findings(facts, hidden, below)
    if facts.change is not None:
        _hide_change(facts, hidden, below)
    facts["suppressed"] = Facts(below=below, cells=len(hidden), of=of)
    facts["limits"] = limits_of(facts)
    return facts


def _mask(rows: Floats, sizes: Floats, below: int) -> Array:
    """Return which cells of a family are hidden, so that none follows from the others."""
    mask: Array = (sizes < below) | (rows < below)
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


def _hide_few(counts: list[Any], below: int) -> list[int]:
    """Mark counts below the limit and, if it is one, the next smallest; return the places."""
    order = sorted(range(len(counts)), key=lambda place: float(counts[place]))
    few = [place for place in order if counts[place] < below]
    few = order[:2] if len(few) == 1 else few
    for place in few:
        counts[place] = f"<{below}"
    return few


def _hide_family(family: Facts, mask: Array, below: int) -> None:
    for group in _hide_few(family.rows, below):
        family.share[group] = f"<{below}"
    family["levels"] = None  # what chance explains of a group tells its size
    if 0 < family.left_out < below:
        family["left_out"] = f"<{below}"
    _hide_means(family, mask, below)
    del family["to_overall"], family["to_overall_by_class"]


def _hide_means(family: Facts, mask: Array, below: int) -> None:
    """Hide the means of cells, and what compares groups in a class of such cells."""
    few = f"<{below}"
    family["means"] = np.where(mask, few, np.asarray(family.means, object)).tolist()
    for k in np.flatnonzero(mask.any(axis=0)):
        family.disparity_by_class[k] = family.ratio_by_class[k] = few
    if mask.any():
        family["ratio"] = few


def _hide_findings(facts: Facts, hidden: set[Cell], below: int) -> None:
    audit, headline = facts.audit, facts.headline
    sizes = {
        (family.name, group): rows
        for family in audit.families
        for group, rows in zip(family.groups, family.rows, strict=True)
    }

    def is_hidden(family: str, groups: list[str], name: Any) -> bool:
        return any((family, group, str(name)) in hidden for group in groups)

    def sizes_of(found: Facts) -> list[Any]:
        return [sizes[found.family, group] for group in found.groups]

    for holder in (audit, *audit.families):
        for name in ("largest", "worst"):
            found = holder[name]
            if found and is_hidden(found.family, found.groups, found.class_name):
                holder[name] = None
            elif found:  # what chance explains of a group tells its size
                found |= {"rows": sizes_of(found), "level": None}
    audit["ranked"] = [
        each for each in audit.ranked if not is_hidden(each.family, [each.group], each.class_name)
    ]
    for each in audit.ranked:
        each["rows"] = sizes[each.family, each.group]
        each["level"] = None if isinstance(each.rows, str) else each.level
    audit["small"] = [
        [family, group, f"<{below}" if rows < below else rows]
        for family, group, rows in audit.small
    ]
    # A doubt that counts rows may count those of a small cell.
    facts["doubts"] = [each for each in facts.doubts if not re.search(r"\d", each.problem)]
    if facts.data.class_rows is not None:
        _hide_few(facts.data.class_rows, below)
    if headline is None:
        return
    if not is_hidden(headline.family, headline.groups, headline["class"]):
        headline["rows"] = sizes_of(headline)
        return
    headline |= {"interval": None, "chance": None, "after": None, "verdict": "not tested"}
    headline |= dict.fromkeys(("class", "groups", "means", "rows"))
    headline["difference"] = max(float(each.disparity) for each in audit.families)


def _hide_change(facts: Facts, hidden: set[Cell], below: int) -> None:
    """Keep the flows of groups of which no cell is hidden, and of the rest what is over all."""
    change = facts.change
    whole = {(each.name, group) for each in facts.audit.families for group in each.groups}
    whole -= {(family, group) for family, group, _ in hidden}
    flows = [
        each
        for each in change.flows
        if each.changed >= below and (each.family, each.group) in whole
    ]
    for each in flows:
        moves = [move for move in each.moves or () if move[2] >= below]
        if each.moves is not None:
            each["moves_left_out"] += len(each.moves) - len(moves)
            each["moves"] = moves
            each["summary"] = [move for move in each.summary if move[2] >= below]
    if len(flows) < len(change.flows):
        less = len(change.flows) - len(flows)
        note = f"{less:,} groups with small cells, or of which fewer than {below} rows change, are "
        change["flows_note"] = " ".join(filter(None, [change.flows_note, f"{note}not listed."]))
    change |= {"flows": flows, "share": None, "largest": [], "means": []}
    # By group and class these are the means themselves; what is kept is over all of them.
    for part in filter(None, (facts.certificate, facts.leaving)):
        part |= dict.fromkeys({"means", "means_before", "disparity_by_class"} & part.keys())
        for family in part.families:
            for name in ("measure", "measure_before"):
                family[name] = [max(family[name])]
