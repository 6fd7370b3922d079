"""The report of fair tags: a table of all, and the label report of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from r2b._labels.tags import FairTags, TagForm
from r2b.report.facts import to_json
from r2b.report.render import environment, framed, markdown_text
from r2b.report.results import Report, write_report

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body {font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
padding: 0 1rem} table {margin-bottom: 2rem}
td, th {padding: .2rem 1rem .2rem 0; text-align: left}</style></head>
<body><h1>{{ title }}</h1>
{% for names, rows in tables %}<table>
<tr>{% for name in names %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for each in row %}<td>{{ each }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endfor %}
{% for name, frame in frames %}<details><summary>{{ name }}</summary>{{ frame }}</details>
{% endfor %}</body></html>
"""
_NAMES = ("tag", "disparity before", "disparity after", "epsilon", "rows that change", "proven")


@dataclass(frozen=True, eq=False)
class TagReport:
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

    def _table(self) -> list[list[str]]:
        return [
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

    def to_html(self) -> str:
        """Return the report as one self-contained page."""
        from markupsafe import Markup

        frames = [
            (name, Markup(framed(each.to_html(), name))) for name, each in self.reports.items()
        ]
        page = environment().from_string(PAGE)
        rendered: str = page.render(
            title=self.title, tables=[(_NAMES, self._table())], frames=frames
        )
        return rendered

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        table = [[markdown_text(each) for each in row] for row in self._table()]
        lines = [f"| {' | '.join(row)} |" for row in [list(_NAMES), ["---"] * len(_NAMES), *table]]
        parts = [
            f"## {markdown_text(name)}\n\n" + each.to_markdown().replace("\n#", "\n##").lstrip("# ")
            for name, each in self.reports.items()
        ]
        return "\n".join([f"# {self.title}", "", *lines, "", *parts])

    def to_json(self) -> str:
        """Return all facts as strict JSON."""
        tags = {name: each.facts for name, each in self.reports.items()}
        return to_json({"title": self.title, "table": self.rows, "tags": tags})

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as ``.html``, ``.md`` or ``.json``, whole or not at all."""
        write_report(self, path)

    def _repr_html_(self) -> str:
        return framed(self.to_html(), self.title)


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
