"""``r2b frontier``: what parity costs, epsilon by epsilon."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import click

from r2b._files import AtomicWriter, table_of
from r2b._files.formats import format_for
from r2b._files.text import compress
from r2b.cli import completing, options
from r2b.cli.costs import cost_files
from r2b.cli.options import asked_of, columns_of, on_lines, open_table
from r2b.cli.printing import DONE, NOT_REACHED, RowMeter, print_json, print_text
from r2b.engines.files.writing import kept_files
from r2b.engines.tables import class_names, roles_of
from r2b.errors import NotSolvedWarning, ParameterError


@click.command("frontier", short_help="Show what parity costs, epsilon by epsilon.")
@click.argument("data", shell_complete=completing.files)
@options.columns
@click.option(
    "--epsilons",
    multiple=True,
    metavar="NUMBERS",
    help="Epsilons to solve for: '0,0.01,0.05', or repeated.",
)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    metavar="N",
    help="Or how many, from 0 to where labels are fair as they are; 20 by default.",
)
@options.groups
@options.bounds
@options.solving
@click.option(
    "--output",
    "-o",
    metavar="PATH",
    shell_complete=completing.files,
    help="Write the points as a table as well.",
)
@options.output_format
@options.force
@options.reading
@options.verbosity
def frontier_command(
    data: str,
    epsilons: tuple[str, ...],
    points: int | None,
    output: str | None,
    output_format: str | None,
    force: bool,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Solve along a path of epsilons and show what each costs: squared distance and expected changes, each proven.

    \b
    Examples:
      r2b frontier adult.csv --label education --sensitive sex
      r2b frontier adult.csv --label education --sensitive sex --epsilons 0,0.01,0.02,0.05
      r2b frontier adult.csv --label education --sensitive sex,race --families both --output
      cost.csv r2b frontier 'people/*.parquet' --label job --sensitive sex
    """  # noqa: D301
    path = _path(epsilons, points)
    solves = path if isinstance(path, int) else len(path)
    with (
        AtomicWriter(force=force) as writer,
        RowMeter(tol=given["tol"], n_solves=solves, quiet=quiet or as_json) as meter,
    ):
        scan, source = open_table(data, reading, threads=given["threads"], watch=meter)
        writer.keep = (*kept_files(source), *(cost_files(given["costs"]) if given["costs"] else ()))
        if output is not None:
            writer.check(output)
            shape = format_for(output, output_format)
        arguments = columns_of(source, given)
        with on_lines(source):
            classes = class_names(source, roles_of(source, **arguments), given["missing"])
        asked = asked_of(given, scan.names, classes)
        with warnings.catch_warnings(), on_lines(source):
            # the points say it, and the exit code
            warnings.simplefilter("ignore", NotSolvedWarning)
            found = scan.frontier(
                **arguments, epsilons=path, progress=meter if meter.shown else None, **asked
            )
        if output is not None:
            rows = [asdict(point) for point in found]
            content = table_of({name: [row[name] for row in rows] for name in rows[0]}, shape)
            writer.write(output, compress(content, shape.compression))
            writer.commit()
    if as_json:
        print_json({"data": source.name, "points": [asdict(point) for point in found]})
    elif not quiet:
        print_text(str(found))
    return DONE if all(point.solved for point in found) else NOT_REACHED


def _path(epsilons: tuple[str, ...], points: int | None) -> int | list[float]:
    if epsilons and points is not None:
        raise ParameterError("Both --epsilons and --points are given.", remedy="Pass one of them.")
    if not epsilons:
        return 20 if points is None else points
    texts = [text for each in epsilons for text in each.split(",")]
    try:
        return [float(text) for text in texts]
    except ValueError:
        remedy = "Pass numbers of at least 0, such as 0,0.01,0.05."
        raise ParameterError(
            f"--epsilons is {','.join(texts)!r}.", remedy=remedy, epsilons=texts
        ) from None
