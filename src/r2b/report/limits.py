"""What the measure does not say: the same for every report, and what is particular to this one."""

from __future__ import annotations

from typing import Any

from r2b.report.words import isolated, rows_of


def limits_of(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Give each limit as a short title and a sentence or two."""
    limits = [*_particular(facts), *_GENERAL]
    if facts["change"]["unchanged"]:
        limits = [limit for limit in limits if limit["title"] not in _OF_CHANGE]
    return limits


def _particular(facts: dict[str, Any]) -> list[dict[str, str]]:
    found, change, limits = facts["audit"], facts["change"], []
    if not change["proven"]:
        limits.append(_limit("The optimum was not reached", f"Status: {change['status']}. {change['advice']}"))
    small = [
        (rows, group, family["name"]) for family in found["families"] for rows, group in zip(family["rows"], family["groups"], strict=True)
    ]
    if small and min(small)[0] < 100:
        rows, group, family = min(small)
        where = f" of {isolated(family)}" if family else ""
        hint = " min_group_size refuses, merges or leaves out smaller groups than it says."
        text = (
            f"The smallest, {isolated(group)}{where}, has {rows_of(round(rows))}. The means of such a group move far by chance alone.{hint}"
        )
        limits.append(_limit("Some groups are small", text))
    if facts["doubts"]:
        limits.append(_limit("The data may not be what was meant", " ".join(doubt["problem"] for doubt in facts["doubts"])))
    if found["n_permutations"] or found["n_boot"]:
        if found["clusters"] is None:
            text = "Several rows of one person or annotator say less than rows of as many. Where there are such, audit with clusters."
            limits.append(_limit("Rows are taken as independent", text))
        else:
            text = f"{found['clusters']:,} clusters are taken as independent of each other, and the rows of one as a single observation."
            limits.append(_limit("Rows come in clusters", text))
    if found["left_out"] > 0:
        text = f"{100 * found['left_out']:.2f} % of the weight is in no group and is compared with nothing."
        limits.append(_limit("Some rows are in no group", text))
    if found["absent"]:
        text = f"{len(found['absent']):,} groups do not occur in some value of the control features; they are compared where they occur."
        limits.append(_limit("Some groups are absent", text))
    if facts["data"]["weights"] is not None:
        text = "Shares are shares of weight, not of rows; a row of weight 2 still counts as one observation when chance is judged."
        limits.append(_limit("Rows are weighted", text))
    return limits


def _limit(title: str, text: str) -> dict[str, str]:
    return {"title": title, "text": text}


_GENERAL = [
    _limit(
        "A difference is not its cause",
        "Parity compares how often each label is given. It does not say why groups differ, nor whether a single label is right.",
    ),
    _limit(
        "Equal shares may not be what is fair",
        "Where a difference has a reason that should count, compare within its values (control features) instead of over all rows.",
    ),
    _limit(
        "Only what was given was looked at",
        "Other attributes, and finer groups than those listed, may differ more.",
    ),
    _limit(
        "A largest difference is never zero",
        "It is the largest over all classes and pairs of groups, so even fair labels show some. That is why chance is shown beside it.",
    ),
    _limit(
        "Intervals suppose a sample",
        "They speak of the population from which these rows, or clusters, were drawn independently, not of errors in labels or groups.",
    ),
    _limit(
        "Labels are not predictions",
        "A model trained on fair labels is usually much fairer, but its predictions must be audited too.",
    ),
    _limit(
        "Fair labels are probabilities",
        "Taking the most likely class of each row would undo the work. Use soft labels, weighted rows, samples or rounded labels instead.",
    ),
]
_OF_CHANGE = {"Labels are not predictions", "Fair labels are probabilities"}
