"""``r2b audit``: how far labels are from parity."""

from __future__ import annotations

from typing import Any

import click

from r2b._audit import Audit
from r2b._files import AtomicWriter, Table, read_table
from r2b.cli import completing, options
from r2b.cli.exits import DONE, NOT_REACHED
from r2b.cli.numbers import normalized
from r2b.cli.reporting import check_reports, write_reports
from r2b.cli.selection import Selection, families_of
from r2b.cli.speaking import on_lines, one_line, say, say_json
from r2b.cli.stream_audit import audit_stream
from r2b.cli.streams import streams


@click.command("audit", short_help="Measure how far labels are from parity.")
@click.argument("data", shell_complete=completing.files)
@options.columns
@options.normalize
@options.groups
@click.option(
    "--clusters",
    metavar="COLUMN",
    shell_complete=completing.columns,
    help="Column that says which rows go together, such as the patient or the annotator. Without it rows are taken as independent.",
)
@click.option("--permutations", type=int, default=200, show_default=True, help="How often chance is drawn; 0 leaves it out.")
@click.option("--bootstrap", type=int, default=500, show_default=True, help="Resamples for the intervals; 0 leaves them out.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--largest", type=int, default=10, show_default=True, help="How many groups are listed.")
@click.option("--random-state", type=int, default=0, show_default=True, help="The same number gives the same draws.")
@click.option("--max-parity", type=float, metavar="NUMBER", help="End with code 1 where some family's parity is above this.")
@options.reports
@click.option("--epsilon", type=float, default=0.01, show_default=True, help="For the report alone: what debiasing would be asked for.")
@options.force
@options.streaming
@options.reading
@options.manners
def audit_command(
    data: str,
    normalize: bool,
    families: str | None,
    family: tuple[str, ...],
    clusters: str | None,
    permutations: int,
    bootstrap: int,
    level: float,
    largest: int,
    random_state: int,
    max_parity: float | None,
    html: str | None,
    markdown: str | None,
    epsilon: float,
    force: bool,
    stream: bool | None,
    format_: str | None,
    encoding: str,
    delimiter: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Measure how far the labels in DATA are from parity, for every family of groups. Nothing is changed.

    DATA is a CSV, TSV, JSON Lines, Parquet or Arrow file, compressed or not; or a folder or a pattern of such, which need not fit in
    memory; - is standard input.

    \b
    Examples:
      r2b audit adult.csv --label education --sensitive sex
      r2b audit adult.csv --label education --sensitive sex,race --html report.html
      r2b audit adult.csv --label income --sensitive sex --control occupation --na '?' --missing exclude
      zcat scores.csv.gz | r2b audit - --label-columns 'p_*' --sensitive sex --continuous age --json
      r2b audit 'people/*.parquet' --label job --sensitive sex
      r2b audit images.csv --label diagnosis --sensitive sex --clusters patient
      r2b audit adult.csv --label education --sensitive sex --max-parity 0.05 || echo too far apart
    """  # noqa: D301
    from r2b._audit import audit

    asked = {name: given.pop(name) for name in ("missing", "min_group_size", "small_groups", "absent")}
    draws: dict[str, Any] = {"n_permutations": permutations, "n_boot": bootstrap, "level": level, "random_state": random_state}
    needs = {**given, "html": html, "markdown": markdown, "encoding": encoding, "normalized": normalize, "clusters": clusters}
    if streams(data, stream, format_, needs):
        reading = {"format_": format_, "encoding": encoding, "delimiter": delimiter}
        asked |= {"families": families, "family": family, "n_largest": largest, "epsilon": epsilon, **draws}
        found, name = audit_stream(data, html, markdown, reading, asked, given, force=force, quiet=quiet or as_json)
        return _said(found, name, (html, markdown), max_parity, as_json=as_json, quiet=quiet)
    with AtomicWriter(force=force, keep=(data,)) as writer:
        check_reports(writer, html, markdown)
        table = read_table(data, format=format_, encoding=encoding, delimiter=delimiter)
        selection = Selection.of(table, **given)
        arguments = selection.arguments(table)
        draws["clusters"] = None if clusters is None else _clusters(table, clusters, selection)
        asked["families"] = families_of(table, families, family, "both")
        with on_lines(table):
            arguments["y"] = normalized(arguments["y"]) if normalize else arguments["y"]
            found = audit(**arguments, **asked, **draws, n_largest=largest)
        write_reports(writer, html, markdown, arguments=arguments, label=selection.stem, options={**asked, "epsilon": epsilon}, draws=draws)
        writer.commit()
    return _said(found, table.name, (html, markdown), max_parity, as_json=as_json, quiet=quiet)


def _clusters(table: Table, name: str, selection: Selection) -> Any:
    table.check([name], "--clusters")
    return selection.with_gaps(table, table.columns([name])[name])


def _said(found: Audit, name: str, reports: tuple[str | None, ...], max_parity: float | None, *, as_json: bool, quiet: bool) -> int:
    parity = max((each.parity for each in found.families), default=0.0)
    if as_json:
        say_json(found.to_json() | {"data": name})
    elif not quiet:
        say(str(found))
        for path in reports:
            if path is not None:
                click.echo(f"  report            {one_line(path)}")
    return DONE if max_parity is None or parity <= max_parity else NOT_REACHED
