"""Reports that are a few tables: of row weights, and of several tags."""

from __future__ import annotations

from os import PathLike
from typing import Any

from r2b.report.render import environment, framed, markdown_text, script_hash, source
from r2b.report.results import write_report

Table = tuple[str, list[str], list[list[str]]]
"""What it shows, the names of its columns, and its rows."""


class TableReport:
    """What reports of tables share: a title, tables, and pages that are folded below them."""

    title: str

    @property
    def _tables(self) -> list[Table]:
        raise NotImplementedError

    @property
    def _folded(self) -> dict[str, Any]:
        """Reports of parts, by name."""
        return {}

    def to_html(self) -> str:
        """Return the report as one self-contained page."""
        from markupsafe import Markup

        folded = {name: Markup(framed(each.to_html(), name)) for name, each in self._folded.items()}
        page: str = (
            environment()
            .get_template("tables.html.j2")
            .render(
                title=self.title,
                tables=self._tables,
                folded=folded,
                style=source("report.css"),
                script_hash=script_hash(),
            )
        )
        return page

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        lines = [f"# {self.title}"]
        for caption, names, rows in self._tables:
            cells = [names, ["---"] * len(names), *(map(markdown_text, row) for row in rows)]
            lines += ["", f"{caption}:", "", *(f"| {' | '.join(row)} |" for row in cells)]
        for name, each in self._folded.items():
            page = each.to_markdown().replace("\n#", "\n##").lstrip("# ")
            lines += ["", f"## {markdown_text(name)}", "", page]
        return "\n".join([*lines, ""])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as ``.html``, ``.md`` or ``.json``, whole or not at all."""
        write_report(self, path)

    def _repr_html_(self) -> str:
        return framed(self.to_html(), self.title)
