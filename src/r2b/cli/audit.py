"""``r2b audit``: how far labels are from parity."""

from __future__ import annotations

from typing import Any

import click

from r2b._files import AtomicWriter
from r2b.cli import completing, options
from r2b.cli.options import columns_of, families_of, on_lines, open_table
from r2b.cli.printing import DONE, NOT_REACHED, RowMeter, one_line, print_json, print_text
from r2b.engines.files.writing import kept_files

_LARGEST = 10
_SOLVES = 27  # for a report: what is asked for, and those that tell what it costs


@click.command("audit", short_help="Measure how far labels are from parity.")
@click.argument("data", shell_complete=completing.files)
@options.columns
@options.normalize
@options.groups
@options.column_option(
    "clusters",
    "Column that says which rows go together, such as the patient or the annotator. Without it rows are taken as independent.",
    several=False,
)
@click.option(
    "--permutations",
    type=int,
    default=200,
    show_default=True,
    help="How often chance is drawn; 0 leaves it out.",
)
@click.option(
    "--bootstrap",
    type=int,
    default=500,
    show_default=True,
    help="Resamples for the intervals; 0 leaves them out.",
)
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Level of the intervals."
)
@click.option(
    "--largest", type=int, default=_LARGEST, show_default=True, help="How many groups are listed."
)
@click.option(
    "--random-state",
    type=int,
    default=0,
    show_default=True,
    help="The same number gives the same draws.",
)
@click.option(
    "--max-parity",
    type=float,
    metavar="NUMBER",
    help="End with code 1 where some family's parity is above this.",
)
@options.reports
@click.option(
    "--epsilon",
    type=float,
    default=0.01,
    show_default=True,
    help="For the report alone: what debiasing would be asked for.",
)
@options.force
@options.reading
@options.verbosity
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
    reports: dict[str, str],
    suppress_below: int,
    epsilon: float,
    force: bool,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Measure how far the labels in DATA are from parity, for every family of groups. Nothing is changed.

    DATA is a CSV, TSV, JSON Lines, Parquet or Arrow file, compressed or not; or a folder or a
    pattern of such, which need not fit in memory; - is standard input.

    \b
    Examples:
      r2b audit adult.csv --label education --sensitive sex
      r2b audit adult.csv --label education --sensitive sex,race --html report.html
      r2b audit adult.csv --label income --sensitive sex --control occupation --na '?' --missing
      exclude zcat scores.csv.gz | r2b audit - --label-columns 'p_*' --sensitive sex --continuous
      age --json r2b audit 'people/*.parquet' --label job --sensitive sex r2b audit images.csv
      --label diagnosis --sensitive sex --clusters patient r2b audit adult.csv --label education
      --sensitive sex --max-parity 0.05 || echo too far apart
    """  # noqa: D301
    draws: dict[str, Any] = {
        "n_permutations": permutations,
        "n_boot": bootstrap,
        "level": level,
        "random_state": random_state,
    }
    draws["clusters"] = clusters
    with (
        AtomicWriter(force=force) as writer,
        RowMeter(n_solves=_SOLVES, quiet=quiet or as_json) as meter,
    ):
        scan, source = open_table(data, reading, watch=meter)
        writer.keep = kept_files(source)
        for path in reports.values():
            writer.check(path)
        arguments = columns_of(source, given)
        asked = {
            **given,
            "families": families_of(scan.names, families, family, "both"),
            "normalize": normalize,
        }
        if clusters is not None:
            source.check([clusters], "--clusters")
        with on_lines(source):
            found = scan.audit(**arguments, **asked, **draws, n_largest=largest)
            if reports:
                from r2b.cli.reports import write_reports

                solving = {**asked, "epsilon": epsilon, "progress": meter if meter.shown else None}
                same = found if asked["families"] == "both" and largest == _LARGEST else None
                write_reports(
                    writer,
                    reports,
                    scan,
                    arguments,
                    solving,
                    draws,
                    audited=same,
                    suppress_below=suppress_below,
                )
        writer.commit()
    if as_json:
        print_json(found.to_json() | {"data": source.name})
    elif not quiet:
        print_text(str(found))
        for path in reports.values():
            click.echo(f"  report            {one_line(path)}")
    parity = max((each.disparity for each in found.families), default=0.0)
    return DONE if max_parity is None or parity <= max_parity else NOT_REACHED
