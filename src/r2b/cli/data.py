"""``r2b datasets``: data that come with the package."""

from __future__ import annotations

import sys

import click

from r2b._files import AtomicWriter, did_you_mean, table_of
from r2b._files.formats import format_for
from r2b._files.text import compress
from r2b.cli import completing, options
from r2b.cli.options import Commands
from r2b.cli.printing import print_json
from r2b.datasets import load_adult
from r2b.errors import ParameterError

DATASETS = {
    "adult": "48,842 people of the 1994 census of the United States: education, income, sex, race, age (UCI, CC BY 4.0)."
}


@click.group("datasets", cls=Commands, short_help="List and export the data that come with r2b.")
def datasets_group() -> None:
    """List and export the data that come with r2b. Nothing is downloaded.

    \b
    Examples:
      r2b datasets list
      r2b datasets export adult adult.csv
    """  # noqa: D301


@datasets_group.command("list", short_help="List the data sets.")
@options.verbosity
def list_command(as_json: bool, quiet: bool) -> None:
    """List the data sets that can be exported.

    \b
    Example:
      r2b datasets list
    """  # noqa: D301
    if as_json:
        print_json(DATASETS)
    elif not quiet:
        for name, what in DATASETS.items():
            click.echo(f"{name:10}{what}")


@datasets_group.command("export", short_help="Write a data set to a file.")
@click.argument(
    "name",
    shell_complete=lambda context, parameter, begun: [
        name for name in DATASETS if name.startswith(begun)
    ],
)
@click.argument("output", shell_complete=completing.files)
@click.option(
    "--output-format",
    metavar="FORMAT",
    help="Format of the output, where its name does not tell: csv, jsonl, parquet, ...",
)
@options.force
@options.verbosity
def export_command(
    name: str, output: str, output_format: str | None, force: bool, as_json: bool, quiet: bool
) -> None:
    """Write the data set NAME to the file OUTPUT; - is standard output.

    \b
    Examples:
      r2b datasets export adult adult.csv
      r2b datasets export adult adult.parquet
      r2b datasets export adult - --output-format csv | head
    """  # noqa: D301
    if name not in DATASETS:
        remedy = did_you_mean(name, list(DATASETS)) or f"There are {', '.join(DATASETS)}."
        raise ParameterError(f"There is no data set {name!r}.", remedy=remedy, name=name)
    if output == "-" and as_json:
        raise ParameterError(
            "Both --json and the table would go to standard output.",
            remedy="Leave out --json, or write to a file.",
        )
    shape = format_for("data.csv" if output == "-" else output, output_format)
    table = load_adult()
    with AtomicWriter(force=force) as writer:
        if output != "-":
            writer.check(output)
        content = compress(table_of(table.columns, shape), shape.compression)
        if output == "-":
            sys.stdout.buffer.write(content)
            return
        writer.write(output, content)
        writer.commit()
    if as_json:
        print_json(
            {"name": name, "rows": len(table), "columns": list(table.columns), "output": output}
        )
    elif not quiet:
        click.echo(f"{len(table):,} rows, {len(table.columns)} columns: {output}")
