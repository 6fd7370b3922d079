"""The report of fair tags: a table of all, and the label report of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from r2b._data.tags import read_tags
from r2b._labels.tags import FairTags, TagForm
from r2b.report import words
from r2b.report.facts import to_json
from r2b.report.model import ModelReportOptions
from r2b.report.results import Report
from r2b.report.tables import Table, TableReport

_NAMES = ["tag", "disparity before", "disparity after", "epsilon", "rows that change", "proven"]


@dataclass(frozen=True, eq=False)
class TagReport(TableReport):
    """A report of fair tags: a table of all tags, and the label report of each.

    Attributes
    ----------
    title : str
    rows : list of dict
        What holds for each tag.
    reports : dict of str to Report
        The report of each tag.

    Examples
    --------
    >>> import r2b
    >>> Y = {"cat": [1, 0, 1, 1, 0, 0], "dog": [0, 1, 1, 0, 1, 0]}
    >>> fair = r2b.debias(Y, multilabel=True, sensitive_features=["f", "f", "f", "m", "m", "m"])
    >>> fair.report(date="2026-11-16").to_markdown().splitlines()[0]
    '# 2 tags: disparity 0.3333 before, 0.0000 after'
    """

    title: str
    rows: list[dict[str, Any]] = field(repr=False)
    reports: dict[str, Report] = field(repr=False)

    @property
    def _tables(self) -> list[Table]:
        rows = [
            [
                row["tag"],
                f"{row['before']:.4f}",
                f"{row['after']:.4f}",
                f"{row['epsilon']:g}",
                f"{100 * row['changes']:.2f} %",
                "yes" if row["proven"] else "no",
            ]
            for row in self.rows
        ]
        return [("Disparity of every tag, and rows that are expected to change", _NAMES, rows)]

    @property
    def _folded(self) -> dict[str, Any]:
        return self.reports

    def to_json(self) -> str:
        """Return all facts as strict JSON."""
        tags = {name: each.facts for name, each in self.reports.items()}
        return to_json({"title": self.title, "table": self.rows, "tags": tags})


def report_of_tags(
    fair: FairTags, form: TagForm, seeds: Sequence[int], **options: Any
) -> TagReport:
    """Make the report of fair tags; options as for :meth:`r2b.FairLabels.report`."""
    each = zip(map(str, fair.names.tolist()), fair.labels, seeds, strict=True)
    return together(
        {
            tag: labels.report(form=form, random_state=seed, **{"label_name": tag, **options})
            for tag, labels, seed in each
        }
    )


def together(reports: dict[str, Report]) -> TagReport:
    """Put the reports of tags together."""
    rows = []
    for tag, report in reports.items():
        proof, made = report.facts["certificate"], report.facts["made"]
        rows.append(
            {
                "tag": tag,
                "before": proof["disparity_before"],
                "after": proof["disparity"] if made is None else made["disparity"],
                "epsilon": min(map(float, proof["epsilon"])),
                "changes": proof["expected_changes"],
                "proven": proof["holds"],
            }
        )
    before, after = (max((row[name] for row in rows), default=0.0) for name in ("before", "after"))
    title = f"{len(rows)} tags: disparity {before:.4f} before, {after:.4f} after"
    return TagReport(title, rows, reports)


class TagModelReport(TagReport):
    """A report on a model of tags: a table of all tags, and the model report of each."""

    @property
    def _tables(self) -> list[Table]:
        names = ["tag", "disparity", "chance", "bound met", "accuracy"]
        rows = [
            [
                row["tag"],
                words.points(row["disparity"]),
                "not drawn" if row["chance"] is None else words.points(row["chance"]),
                f"{row['met']} of {row['asked']} groups" if row["asked"] else "not asked",
                "unknown" if row["accuracy"] is None else words.percent(row["accuracy"]),
            ]
            for row in self.rows
        ]
        return [("Decisions on held-out rows, and what chance explains", names, rows)]


def report_of_tag_models(
    tags: Any, X: Any, y: Any, **options: Unpack[ModelReportOptions]
) -> TagModelReport:
    """Report on every tag of a model; options as for :func:`r2b.model_report`."""
    columns = [None] * len(tags.names) if y is None else read_tags(y).matrix.T.astype(np.int64)
    with tags.held():
        reports = {
            str(name): model.report(None, X, own, **{**options, "label_name": str(name)})
            for name, model, own in zip(tags.names.tolist(), tags.models, columns, strict=True)
        }
    rows = []
    for name, each in reports.items():
        found, model = each.facts["headline"], each.facts["model"]
        verdicts = [one["verdict"] for one in model["asked"] or ()]
        rows.append(
            {
                "tag": name,
                "disparity": found["difference"],
                "chance": found["chance"] and found["chance"]["quantile"],
                "met": verdicts.count("met"),
                "asked": len(verdicts),
                "accuracy": model["accuracy"] and model["accuracy"]["all"],
            }
        )
    most = words.points(max((row["disparity"] for row in rows), default=0.0))
    return TagModelReport(f"{len(rows)} tags: decisions differ by up to {most}", rows, reports)
