"""Reports that are a few tables: of row weights, of fair tags, and of a model of tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from r2b._data.arrays import Array, Floats
from r2b._data.tags import read_tags
from r2b._data.values import json_value
from r2b._data.vocabulary import Vocabulary
from r2b._labels.tags import FairTags, TagForm
from r2b._plot import percent
from r2b._weights import RowWeights
from r2b.report import words
from r2b.report.facts import to_json
from r2b.report.model import ModelReportOptions
from r2b.report.render import environment, framed, markdown_text, script_hash, source
from r2b.report.results import Report, Saved
from r2b.report.trace import stamp

Table = tuple[str, list[str], list[list[str]]]
"""What it shows, the names of its columns, and its rows."""


@dataclass(frozen=True, eq=False)
class TableReport(Saved):
    """A report of a few tables, with the reports of parts folded below them.

    Attributes
    ----------
    title : str
    tables : list of (str, list of str, list of list of str)
        What each shows, the names of its columns, and its rows.
    facts : dict
        What :meth:`to_json` writes beside the title.
    reports : dict of str to Report
        The report of each tag.

    Examples
    --------
    >>> import r2b
    >>> weights = r2b.reweigh(["a", "b", "b", "a", "a", "b"], sensitive_features=list("fffmmm"))
    >>> weights.report(date="2026-11-16").to_markdown().splitlines()[0]
    '# Row weights: disparity 0.3333 before, 0.0000 after'
    >>> Y = {"cat": [1, 0, 1, 1, 0, 0], "dog": [0, 1, 1, 0, 1, 0]}
    >>> fair = r2b.debias(Y, multilabel=True, sensitive_features=["f", "f", "f", "m", "m", "m"])
    >>> fair.report(date="2026-11-16").to_markdown().splitlines()[0]
    '# 2 tags: disparity 0.3333 before, 0.0000 after'
    """

    title: str
    tables: list[Table] = field(repr=False)
    facts: dict[str, Any] = field(repr=False)
    reports: dict[str, Report] = field(default_factory=dict, repr=False)

    def to_html(self) -> str:
        """Return the report as one self-contained page."""
        from markupsafe import Markup

        folded = {name: Markup(framed(each.to_html(), name)) for name, each in self.reports.items()}
        page: str = (
            environment()
            .get_template("tables.html.j2")
            .render(
                title=self.title,
                tables=self.tables,
                folded=folded,
                style=source("report.css"),
                script_hash=script_hash(),
            )
        )
        return page

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        lines = [f"# {self.title}"]
        for caption, names, rows in self.tables:
            cells = [names, ["---"] * len(names), *(map(markdown_text, row) for row in rows)]
            lines += ["", f"{caption}:", "", *(f"| {' | '.join(row)} |" for row in cells)]
        for name, each in self.reports.items():
            page = each.to_markdown().replace("\n#", "\n##").lstrip("# ")
            lines += ["", f"## {markdown_text(name)}", "", page]
        return "\n".join([*lines, ""])

    def to_json(self) -> str:
        """Return all facts as strict JSON."""
        parts = {name: each.facts for name, each in self.reports.items()}
        tags = {"tags": parts} if parts else {}
        return to_json(json_value({"title": self.title, **self.facts, **tags}))

    def _repr_html_(self) -> str:
        return framed(self.to_html(), self.title)


def report_of_weights(weights: RowWeights, date: Any) -> TableReport:
    """Make the report of row weights; ``date`` is today by default."""
    proof, rule = weights.certificate, weights.rule
    disparity = f"{proof.disparity_before:.4f} before, {proof.disparity:.4f} after"
    numbers = {
        "status": weights.status.value,
        "proven": "yes" if proof.holds else "no",
        "disparity": disparity,
        "above the bound": f"{proof.excess:.0e}",
        "smallest and largest weight": f"{proof.smallest:.3f}, {proof.largest:.3f}",
        "largest that was allowed": "none" if np.isinf(rule.largest) else f"{rule.largest:g}",
        "distance from 1 (half the mean square)": f"{proof.objective:.6f}",
        "date": stamp(date),
    }
    groups, each = weights.groups.tolist(), list[list[Any]]()
    shares = _by_group(groups, weights.outcomes, proof.means_before, proof.means)
    if weights.data is not None:
        size = weights.effective_sample_size
        numbers["rows"] = f"{weights.data.size:,}, worth {size:,.1f} of equal weight"
        each = _by_group(groups, weights.classes, weights.table)
    tables: list[Table] = [
        ("What the weights reach", ["what", "value"], [[*map(str, e)] for e in numbers.items()]),
        (
            "Shares of weight",
            ["group", "compared", "share before", "share after"],
            [[*names, percent(before), percent(after)] for *names, before, after in shares],
        ),
        (
            "Mean weight of the rows; they count less below 1",
            ["group", "class", "mean weight"],
            [[*names, f"{weight:.3f}"] for *names, weight in each],
        ),
    ]
    facts = {"numbers": numbers, "shares": shares, "weights": each}
    return TableReport(f"Row weights: disparity {disparity}", tables, facts)


def _by_group(groups: list[Any], classes: Array, *tables: Floats) -> list[list[Any]]:
    """Return a row for every group and class: their names, and their number in every table."""
    return [
        [str(group), str(name), *(float(table[g, k]) for table in tables)]
        for g, group in enumerate(groups)
        for k, name in enumerate(classes.tolist())
    ]


def report_of_tags(
    fair: FairTags, form: TagForm, seeds: Sequence[int], **options: Any
) -> TableReport:
    """Make the report of fair tags; options as for :meth:`r2b.FairLabels.report`."""
    each = zip(map(str, fair.names.tolist()), fair.labels, seeds, strict=True)
    return together(
        {
            tag: labels.report(form=form, random_state=seed, **{"label_name": tag, **options})
            for tag, labels, seed in each
        }
    )


def together(reports: dict[str, Report]) -> TableReport:
    """Put the reports of fair tags together."""
    rows, cells = [], []
    for tag, report in reports.items():
        proof, made = report.facts.certificate, report.facts.made
        row = {
            "tag": tag,
            "before": proof.disparity_before,
            "after": (made or proof).disparity,
            "epsilon": min(map(float, proof.epsilon)),
            "changes": proof.expected_changes,
            "proven": proof.holds,
        }
        rows.append(row)
        cells.append(
            [
                tag,
                f"{row['before']:.4f}",
                f"{row['after']:.4f}",
                f"{row['epsilon']:g}",
                percent(row["changes"]),
                "yes" if row["proven"] else "no",
            ]
        )
    before, after = (max((row[name] for row in rows), default=0.0) for name in ("before", "after"))
    names = ["tag", "disparity before", "disparity after", "epsilon", "rows that change", "proven"]
    return TableReport(
        f"{len(rows)} tags: disparity {before:.4f} before, {after:.4f} after",
        [("Disparity of every tag, and rows that are expected to change", names, cells)],
        {"table": rows},
        reports,
    )


def report_of_tag_models(
    tags: Any, X: Any, y: Any, **options: Unpack[ModelReportOptions]
) -> TableReport:
    """Report on every tag of a model; options as for :func:`r2b.model_report`."""
    columns: Any = [None] * len(tags.names)
    if y is not None:
        columns = read_tags(y, Vocabulary(tags.names)).matrix.T.astype(np.int64)
    with tags.held():
        reports = {
            str(name): model.report(None, X, own, **{**options, "label_name": str(name)})
            for name, model, own in zip(tags.names.tolist(), tags.models, columns, strict=True)
        }
    rows, cells = [], []
    for tag, each in reports.items():
        found, model = each.facts.headline, each.facts.model
        verdicts = [one.verdict for one in model.asked or ()]
        chance = found.chance and found.chance.quantile
        accuracy = model.accuracy and model.accuracy.all
        row = {"tag": tag, "disparity": found.difference, "chance": chance}
        counts = {"met": verdicts.count("met"), "asked": len(verdicts)}
        rows.append({**row, **counts, "accuracy": accuracy})
        cells.append(
            [
                tag,
                words.points(found.difference),
                "not drawn" if chance is None else words.points(chance),
                "{met} of {asked} groups".format(**counts) if verdicts else "not asked",
                "unknown" if accuracy is None else words.percent(accuracy),
            ]
        )
    most = words.points(max((row["disparity"] for row in rows), default=0.0))
    names = ["tag", "disparity", "chance", "bound met", "accuracy"]
    return TableReport(
        f"{len(rows)} tags: decisions differ by up to {most}",
        [("Decisions on held-out rows, and what chance explains", names, cells)],
        {"table": rows},
        reports,
    )
