"""The facts as Markdown, for a merge request or a wiki; names are text there too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from r2b._data.values import directions_kept
from r2b.report import answer, views, words

_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~$^-])")


def to_markdown(facts: dict[str, Any]) -> str:
    """Render the facts as Markdown.

    Parameters
    ----------
    facts : dict
        From :func:`r2b.report.gather`.

    Returns
    -------
    str

    Examples
    --------
    >>> from r2b.report import gather
    >>> facts = gather(["a", "b", "b", "a"], sensitive_features=["f", "f", "m", "m"], n_boot=0, n_permutations=0)
    >>> to_markdown(facts).splitlines()[0]
    '# Labels do not differ between groups'
    """
    date = f" of {text(facts['trace']['date'])}" if facts["trace"]["date"] else ""
    who = f"{text(words.label_of(facts))} by {text(words.attributes(facts))}"
    head = f"Parity report{date}: {who}, {facts['data']['rows']:,} rows."
    parts = [
        f"# {text(words.title(facts))}",
        head,
        *_answer(facts),
        *(text(sentence) for sentence in words.summary(facts)),
    ]
    parts.append(f"**What next.** {text(words.what_next(facts))}")
    parts += [
        *_who(facts),
        *_four_fifths(facts),
        *_change(facts),
        *_cost(facts),
        *_sure(facts),
        *_certificate(facts),
        *_check(facts),
    ]
    limits = (f"- **{text(each['title'])}.** {text(each['text'])}" for each in facts["limits"])
    parts += ["## What this does not say", "\n".join(limits), *_made(facts)]
    return "\n\n".join(part for part in parts if part).replace(words.SPACE, " ") + "\n"


def text(value: Any) -> str:
    r"""Write a value so that Markdown, and the HTML in it, show it as it is.

    Examples
    --------
    >>> text("<img src=x>|a_b")
    '&lt;img src=x&gt;\\|a\\_b'
    """
    one_line = " ".join(directions_kept(str(value)).split())
    entities = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A hyphen, plus, dot or hash only means something where a line starts; names stand inside
    # lines, but a table cell is one of its own.
    return _MARKS.sub(
        lambda mark: (
            mark[0] if mark[0] in "-+#!()" and not entities.startswith(mark[0]) else f"\\{mark[0]}"
        ),
        entities,
    )


def table(columns: Iterable[Any], rows: Iterable[Iterable[Any]], left: int = 1) -> str:
    """Write a table; the first columns hold names, the others numbers."""
    heads = [text(column) for column in columns]
    lines = [
        heads,
        ["---"] * left + ["---:"] * (len(heads) - left),
        *([text(value) for value in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _answer(facts: dict[str, Any]) -> list[str]:
    rows = [
        [each["name"], f"{each['figure']} {each['unit']}".strip(), each["note"]]
        for each in answer.answer(facts)
    ]
    return [table(["", "figure", ""], rows)] if rows else []


def _four_fifths(facts: dict[str, Any]) -> list[str]:
    families = views.four_fifths(facts)
    parts = (
        ["## Four fifths", "Lowest share of a group over the highest; the rule asks for 0.8."]
        if families
        else []
    )
    for each in families:
        after = [] if each["below_after"] is None else ["after"]
        rows = [
            [row["class"], *(_ratio(row[when]) for when in ("before", *after))]
            for row in each["rows"]
        ]
        parts += [f"### {text(each['family'])}", table(["Class", "before", *after], rows)]
    return parts


def _ratio(value: float | str | None) -> str:
    return "none" if value is None else value if isinstance(value, str) else f"{value:.2f}"


def _who(facts: dict[str, Any]) -> list[str]:
    maps = views.heat_maps(facts)
    if not maps:
        return []
    parts = [
        "## Who gets which label",
        "Shares in percent, and in brackets the distance from all rows in points.",
    ]
    for each in maps:
        parts += [f"### {text(each['family'])}"]
        for when, shown in (
            ("Before:", each["table"]),
            (words.made(facts, "After, if made:", "After:"), each["later"]),
        ):
            if shown is None:
                continue
            names = [
                f"{words.isolated(column['name'])} ({column['note']})"
                for column in shown["columns"]
            ]
            rows = [_row(row, shown["corner"]) for row in shown["rows"]]
            parts += [when] if each["later"] else []
            parts += [table([shown["corner"], shown["measure"], shown["all"], *names], rows)]
        shown = each["table"]
        if shown["classes"] < shown["all_classes"] or shown["groups"] < shown["all_groups"]:
            of = f"{shown['classes']} of {shown['all_classes']} classes, {shown['groups']} of {shown['all_groups']} groups"
            parts.append(f"Shown: {of}, those farthest apart.")
    return parts


def _row(row: dict[str, Any], corner: str) -> list[str]:
    whole = words.number(100 * row["all"]) if corner == "Class" else words.count(row["all"])
    measure = (
        row["measure"] if isinstance(row["measure"], str) else words.number(100 * row["measure"])
    )
    return [
        row["name"],
        measure,
        whole,
        *(f"{value} ({away})" if away else value for value, away, _ in row["cells"]),
    ]


def _change(facts: dict[str, Any]) -> list[str]:
    change, flows = facts["change"], views.flows(facts)
    if change is None:
        return []
    parts = [words.made(facts, "## What debiasing would change", "## What changed")]
    if change["unchanged"]:
        return [*parts, f"Nothing. {text(change['advice'])}"]
    would = words.made(facts, "would change", "changed")
    parts.append(
        f"The closest labels within epsilon {would} {words.percent(change['expected_changes'])} of all labels in expectation."
    )
    unit = words.unit(facts)
    groups = [
        [
            e["group"],
            words.count(e["weight"]),
            words.moved(e["changed"]),
            words.percent(e["changed"] / e["weight"]),
        ]
        for e in flows["groups"]
    ]
    if groups:
        parts.append(
            table(["Group", unit, "expected to change", "share"], groups[: views.LISTED_MOVES])
        )
    if change["largest"]:
        moves = [
            [c["group"], c["old"], c["new"], words.moved(c["weight"]), words.percent(c["share"])]
            for c in change["largest"]
        ]
        parts += [
            "The largest moves:",
            table(["Group", "From", "To", unit, "of that group and class"], moves, left=3),
        ]
    if change["means"]:
        means = [
            [c["group"], c["label"], f"{c['before']:.4f}", f"{c['after']:.4f}"]
            for c in change["means"]
        ]
        parts += [
            f"The largest changes of {change['means_of']}:",
            table(["Group", "Class", "before", "after"], means, left=2),
        ]
    shifts = [
        [s["group"], s["class"], words.percent(s["before"]), words.percent(s["after"])]
        for s in flows["shifts"][: views.TOP_ROWS]
    ]
    if shifts:
        parts.append(table(["Group", "Class", "before", "after"], shifts, left=2))
    return [*parts, text(change["flows_note"] or "")]


def _cost(facts: dict[str, Any]) -> list[str]:
    asked, costliest = (
        facts["cost"],
        [] if facts["change"] is None else facts["change"]["costliest"],
    )
    parts = []
    if asked is not None:
        rows = [
            [
                f"{p['epsilon']:.4f}",
                words.percent(p["expected_changes"]),
                f"{p['distance']:.5f}",
                "yes" if p["proven"] else "no",
            ]
            for p in asked["points"]
        ]
        parts += [
            "## What it costs",
            table(
                ["Epsilon", "labels that change", "squared distance per row", "proven optimal"],
                rows,
            ),
        ]
    if costliest:
        listed = [
            [
                d["group"],
                d["class"],
                "keeps it down" if d["price"] > 0 else "brings it up",
                f"{d['rate']:.5f}",
            ]
            for d in costliest
        ]
        parts += [
            "### Which bounds cost most",
            table(["Group", "Class", "The bound", "rate"], listed, left=3),
        ]
    return parts


def _sure(facts: dict[str, Any]) -> list[str]:
    rows = []
    for each in views.evidence(facts["audit"]):
        interval = (
            " to ".join(words.number(100 * end) for end in each["interval"] or ()) or "not drawn"
        )
        chance = (
            [words.number(100 * each["chance"]["quantile"]), words.p_value(each["chance"])]
            if each["chance"]
            else ["not drawn"] * 2
        )
        name = each["name"] if each["kind"] == "difference" else f"{each['name']} (share explained)"
        rows.append([name, words.number(100 * each["value"]), interval, *chance])
    parts = [
        "## How sure we are",
        text(words.supposed(facts)),
        text(words.small_groups(facts)),
        table(["Family", "found", "interval", "chance, up to in 19 of 20", "p"], rows),
        text(words.two_tests(facts)),
    ]
    ranked = [
        [
            r["group"],
            r["class_name"],
            f"{words.count(r['rows'])}{' (small)' if r['small'] else ''}",
            words.percent(r["mean"]),
            words.percent(r["overall"]),
            words.number(100 * r["deviation"]),
            "" if r["level"] is None else words.number(100 * r["level"]),
            "not tested"
            if r["beyond_chance"] is None
            else "beyond chance"
            if r["beyond_chance"]
            else "within chance",
        ]
        for r in facts["audit"]["ranked"]
    ]
    if ranked:
        columns = [
            "Group",
            "Class",
            "rows",
            "share",
            "all rows",
            "points away",
            "chance explains",
            "verdict",
        ]
        parts += ["### Groups farthest from all rows", table(columns, ranked, left=2)]
    return parts


def _certificate(facts: dict[str, Any]) -> list[str]:
    proof, left = facts["certificate"], facts["leaving"]
    if proof is None:
        return []
    rows = [
        ["status", facts["change"]["status"]],
        ["certificate holds", "yes" if proof["holds"] else "no"],
        ["epsilon", words.epsilon(proof["epsilon"])],
        *(
            [name, f"{proof[key]:.6f}"]
            for name, key in (
                ("disparity before", "disparity_before"),
                ("disparity after", "disparity"),
            )
        ),
        *(
            []
            if left is None
            else [[f"parity of the labels ({left['form']})", f"{left['disparity']:.6f}"]]
        ),
        ["above the bound", words.tiny(proof["excess"])],
        *(
            [name, f"{proof[key]:.12g}"]
            for name, key in (("objective", "objective"), ("lower bound", "lower_bound"))
        ),
        *(
            [name, words.tiny(proof[key])]
            for name, key in (
                ("relative gap", "relative_gap"),
                ("off the simplex", "simplex_violation"),
            )
        ),
        ["squared distance per row", f"{proof['distance']:.6f}"],
    ]
    return [
        "## The certificate",
        *(text(sentence) for sentence in words.certificate(facts)),
        table(["What", "value"], rows),
    ]


def _check(facts: dict[str, Any]) -> list[str]:
    trace, rows = facts["trace"], []
    for name, part in (("input", trace["input"]), ("labels that left", trace["output"])):
        rows += [[name, part["sha256"]]] if part["sha256"] else []
        rows += [[f"{name}: {file['name']}", file["sha256"]] for file in part["files"]]
    rows += (
        []
        if facts["made"] is None
        else [
            ["form", facts["made"]["form"]],
            ["parity of the labels that left", f"{facts['made']['disparity']:.6f}"],
        ]
    )
    parts = (
        ["## How to check it", table(["What", "sha256 or value"], rows, left=2)]
        if rows
        else ["## How to check it"]
    )
    parts.append(text(f"Rows left out: {' '.join(answer.left_out(facts))}"))
    return [*parts, *([_indented(trace["verify"])] if trace["verify"] else [])]


def _indented(lines: Any) -> str:
    """Give code; indented, it has no fence that a line could close."""
    return "\n".join(f"    {line}" for line in str(lines).splitlines())


def _made(facts: dict[str, Any]) -> list[str]:
    asked = "".join(f", {text(name)} {text(value)}" for name, value in facts["settings"].items())
    software = ", ".join(
        f"{name} {version}" for name, version in facts["trace"]["versions"].items()
    )
    parts = ["## How it was made", f"{text(software)}{asked}."]
    if facts["command"]:
        parts.append(_indented(facts["command"]))
    return parts
