"""What a report does not say: what is particular to its data, then what is the same for all."""

from __future__ import annotations

from typing import Any

from r2b.report.words import MIN_GROUP_SIZE, isolated, rows_of


def limits_of(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Say what the measure does not: what is particular to this report, then what is the same for all; each as a title and a text."""
    change = facts["change"]
    limits = {
        **_particular(facts),
        **_GENERAL,
        **({} if change is None or change["unchanged"] else _OF_CHANGE),
    }
    return [{"title": title, "text": text} for title, text in limits.items()]


def _particular(facts: dict[str, Any]) -> dict[str, str]:
    found, change, limits = facts["audit"], facts["change"], {}
    if change is not None and not change["proven"]:
        limits["The optimum was not reached"] = f"Status: {change['status']}. {change['advice']}"
    sizes = [
        (rows, group, each["name"])
        for each in found["families"]
        for rows, group in zip(each["rows"], each["groups"], strict=True)
    ]
    known = [each for each in sizes if not isinstance(each[0], str)]
    if len(known) < len(sizes):
        text = f"Some have fewer than {facts['suppressed']['below']} rows. The means of such a group move far by chance alone."
        limits["Some groups are small"] = f"{text} {MIN_GROUP_SIZE}"
    elif sizes and min(sizes)[0] < 100:
        rows, group, family = min(sizes)
        smallest = f"The smallest, {isolated(group)}{f' of {isolated(family)}' if family else ''}, has {rows_of(round(rows))}."
        limits["Some groups are small"] = (
            f"{smallest} The means of such a group move far by chance alone. {MIN_GROUP_SIZE}"
        )
    if facts["doubts"]:
        limits["The data may not be what was meant"] = " ".join(
            doubt["problem"] for doubt in facts["doubts"]
        )
    if found["clusters"] is not None and (found["n_permutations"] or found["n_boot"]):
        text = f"{found['clusters']:,} clusters are taken as independent of each other, and the rows of one as a single observation."
        limits["Rows come in clusters"] = text
    elif found["n_permutations"] or found["n_boot"]:
        text = "Several rows of one person or annotator say less than rows of as many. Where there are such, audit with clusters."
        limits["Rows are taken as independent"] = text
    if found["left_out"] > 0:
        limits["Some rows are in no group"] = (
            f"{100 * found['left_out']:.2f} % of the weight is in no group and is compared with nothing."
        )
    if found["absent"]:
        text = f"{len(found['absent']):,} groups do not occur in some value of the control features; they are compared where they occur."
        limits["Some groups are absent"] = text
    if facts["suppressed"] is not None:
        limits["Small cells are not shown"] = _SUPPRESSED.format(**facts["suppressed"])
    if facts["data"]["weights"] is not None:
        text = "Shares are shares of weight, not of rows; a row of weight 2 still counts as one observation when chance is judged."
        limits["Rows are weighted"] = text
    return limits


_SUPPRESSED = (
    "Of {of:,} cells, {cells:,} are shown as <{below}: those of fewer than {below} rows and, where a single one of a group or a class "
    "would follow from the others, the next smallest too. Largest differences are over all cells, those not shown among them. Tables of "
    "several families, or several reports of the same rows, may together still tell what one of them does not: look before publishing."
)
_GENERAL = {
    "A difference is not its cause": (
        "Parity compares how often each label is given. It does not say why groups differ, nor whether a single label is right."
    ),
    "Equal shares may not be what is fair": (
        "Where a difference has a reason that should count, compare within its values (control features) instead of over all rows."
    ),
    "Only what was given was looked at": "Other attributes, and finer groups than those listed, may differ more.",
    "A largest difference is never zero": (
        "It is the largest over all classes and pairs of groups, so even fair labels show some. That is why chance is shown beside it."
    ),
    "Intervals suppose a sample": (
        "They speak of the population from which these rows, or clusters, were drawn independently, not of errors in labels or groups."
    ),
}
_OF_CHANGE = {
    "Labels are not predictions": "A model trained on fair labels is usually much fairer, but its predictions must be audited too.",
    "Fair labels are probabilities": (
        "Taking the most likely class of each row would undo the work. Use soft labels, weighted rows, samples or rounded labels instead."
    ),
}
