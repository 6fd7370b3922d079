"""``r2b frontier``: what parity costs, epsilon by epsilon."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import click

import r2b
from r2b._audit.tradeoff import Frontier
from r2b._files import AtomicWriter, read_table, table_of
from r2b._files.compression import compress
from r2b._files.formats import format_for
from r2b.cli import completing, options
from r2b.cli.exits import DONE, NOT_REACHED
from r2b.cli.meter import Meter
from r2b.cli.numbers import classes_of, costs_of, target_of
from r2b.cli.selection import PARTS, Selection, families_of
from r2b.cli.speaking import on_lines, say, say_json
from r2b.cli.stream_frontier import frontier_stream
from r2b.cli.streams import streams
from r2b.errors import NotSolvedWarning, ParameterError


@click.command("frontier", short_help="Show what parity costs, epsilon by epsilon.")
@click.argument("data", shell_complete=completing.files)
@options.columns
@click.option("--epsilons", multiple=True, metavar="NUMBERS", help="Epsilons to solve for: '0,0.01,0.05', or repeated.")
@click.option(
    "--points", type=click.IntRange(min=1), metavar="N", help="Or how many, from 0 to where labels are fair as they are; 20 by default."
)
@options.groups
@options.bounds
@options.solving
@click.option("--output", "-o", metavar="PATH", shell_complete=completing.files, help="Write the points as a table as well.")
@click.option("--output-format", metavar="FORMAT", help="Format of the output, where its name does not tell.")
@options.force
@options.streaming
@options.reading
@options.manners
def frontier_command(
    data: str,
    epsilons: tuple[str, ...],
    points: int | None,
    families: str | None,
    family: tuple[str, ...],
    target: tuple[str, ...],
    costs: str | None,
    output: str | None,
    output_format: str | None,
    force: bool,
    stream: bool | None,
    format_: str | None,
    encoding: str,
    delimiter: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Solve along a path of epsilons and show what each costs: squared distance and expected changes, each proven.

    \b
    Examples:
      r2b frontier adult.csv --label education --sensitive sex
      r2b frontier adult.csv --label education --sensitive sex --epsilons 0,0.01,0.02,0.05
      r2b frontier adult.csv --label education --sensitive sex,race --families both --output cost.csv
      r2b frontier 'people/*.parquet' --label job --sensitive sex
    """  # noqa: D301
    path = _path(epsilons, points)
    columns = {name: given.pop(name) for name in PARTS}
    asked = {"families": families, "family": family, "target": target, "costs": costs}
    reading = {"format_": format_, "encoding": encoding, "delimiter": delimiter}
    with AtomicWriter(force=force, keep=(data, *filter(None, [costs]))) as writer:
        if output is not None:
            writer.check(output)
            shape = format_for(output, output_format)
        if streams(data, stream, format_, {**columns, **given, "costs": costs, "encoding": encoding}):
            found, name = frontier_stream(writer, data, path, reading, columns, asked, given, quiet=quiet or as_json)
        else:
            found, name = _in_memory(data, path, reading, columns, asked, given, quiet=quiet, as_json=as_json)
        if output is not None:
            writer.check(output)  # once more: which files a pattern reads is known only now
            rows = [asdict(point) for point in found]
            content = table_of({name: [row[name] for row in rows] for name in rows[0]}, shape)
            writer.write(output, compress(content, shape.compression))
            writer.commit()
    if as_json:
        say_json({"data": name, "points": [asdict(point) for point in found]})
    elif not quiet:
        say(str(found))
    return DONE if all(point.solved for point in found) else NOT_REACHED


def _in_memory(
    data: str,
    path: int | list[float],
    reading: dict[str, Any],
    columns: dict[str, Any],
    asked: dict[str, Any],
    given: dict[str, Any],
    *,
    quiet: bool,
    as_json: bool,
) -> tuple[Frontier, str]:
    table = read_table(data, format=reading["format_"], encoding=reading["encoding"], delimiter=reading["delimiter"])
    arguments = Selection.of(table, **columns).arguments(table)
    with on_lines(table):
        classes = classes_of(arguments["y"])
    given |= {"families": families_of(table, asked["families"], asked["family"], "crossed")}
    given |= {"target": target_of(asked["target"], classes), "costs": costs_of(asked["costs"], classes)}
    solves = path if isinstance(path, int) else len(path)
    with warnings.catch_warnings(), on_lines(table), Meter(tol=given["tol"], n_solves=solves, quiet=quiet or as_json) as meter:
        warnings.simplefilter("ignore", NotSolvedWarning)
        return r2b.frontier(**arguments, epsilons=path, progress=meter, **given), table.name


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
        raise ParameterError(f"--epsilons is {','.join(texts)!r}.", remedy=remedy, epsilons=texts) from None
