"""``r2b debias``: the closest labels in parity, in a new file, with their certificate beside it."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import click

import r2b
from r2b._files import AtomicWriter, Table, encode_table, read_table
from r2b._files.arrow import pyarrow
from r2b._files.atomic import is_device
from r2b._files.formats import Format, format_for
from r2b._files.plain import listed
from r2b._labels.realised import Realised
from r2b._labels.text import account
from r2b._verify.record import Record, beside
from r2b._verify.rows import Fingerprints, made_columns
from r2b.cli import completing, options
from r2b.cli.exits import DONE, NOT_REACHED
from r2b.cli.labelling import FORMS, new_columns, new_names, refuse_taken
from r2b.cli.meter import Meter
from r2b.cli.numbers import classes_of, costs_of, per_class, target_of
from r2b.cli.reporting import check_reports, command_line, write_reports
from r2b.cli.selection import PARTS, Selection, families_of, named
from r2b.cli.speaking import as_options, on_lines, one_line, say, say_json
from r2b.cli.stream_debias import Wanted, debias_stream
from r2b.cli.streams import streams
from r2b.errors import NotSolvedWarning, ParameterError

_NUMBERS = ("parity_before", "parity", "distance", "expected_changes", "relative_gap", "excess")
_SOLVING = ("tol", "max_iter", "time_limit", "merge_rows", "kernel", "threads")


@click.command("debias", short_help="Make the closest labels in parity.")
@click.argument("data", shell_complete=completing.files)
@options.columns
@click.option("--epsilon", multiple=True, metavar="NUMBER", help="Accepted difference, or 'class=number', repeated. 0 by default.")
@options.bounds
@options.groups
@click.option("--output", "-o", required=True, metavar="PATH", shell_complete=completing.files, help="File to write; - is standard output.")
@click.option("--output-format", metavar="FORMAT", help="Format of the output, where its name does not tell.")
@click.option("--form", "form", type=click.Choice(FORMS), default="soft", show_default=True, help="Form in which labels leave.")
@click.option("--random-state", type=int, default=0, show_default=True, help="For round and sample; the same number, the same labels.")
@click.option(
    "--key",
    multiple=True,
    metavar="COLUMNS",
    shell_complete=completing.columns,
    help="For round and sample: columns that the draw of a row follows from.",
)
@click.option("--new-column", metavar="NAME", help="Name of the new column, or what new names begin with. '<label>_fair' by default.")
@click.option(
    "--certificate", metavar="PATH", shell_complete=completing.files, help="Where the certificate goes; beside the output by default."
)
@options.reports
@options.force
@options.streaming
@options.solving
@options.reading
@options.manners
def debias_command(
    data: str,
    epsilon: tuple[str, ...],
    target: tuple[str, ...],
    costs: str | None,
    families: str | None,
    family: tuple[str, ...],
    output: str,
    output_format: str | None,
    form: str,
    random_state: int,
    key: tuple[str, ...],
    new_column: str | None,
    certificate: str | None,
    html: str | None,
    markdown: str | None,
    force: bool,
    stream: bool | None,
    format_: str | None,
    encoding: str,
    delimiter: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Make the closest labels to those in DATA that are in parity, and write DATA with them in new columns.

    Rows keep their order and all other columns stay as they are. The certificate goes beside the output; `r2b verify` checks it.
    DATA is a file, a folder or a pattern; - is standard input. Files larger than memory are read and written part by part.

    \b
    Forms:
      soft    one column of probabilities per class; parity is exact
      round   one class per row; every class count is right to within a row
      sample  one class per row, drawn; parity holds on average
      expand  rows repeated with weights; parity is exact for learners that take weights

    \b
    Examples:
      r2b debias adult.csv --label education --sensitive sex --epsilon 0.01 --output fair.csv
      r2b debias adult.csv --label education --sensitive sex,race --families both --form round --output fair.csv.gz
      r2b debias adult.csv --label income --sensitive sex --bound ratio --epsilon 0.2 --output fair.parquet
      r2b debias adult.csv --label education --sensitive sex --epsilon 0.01 --epsilon Doctorate=0.001 -o fair.csv
      r2b debias people/ --label job --sensitive sex --form round --key id --output fair/
      cat people.jsonl | r2b debias - --label job --sensitive sex --form sample --output - > fair.jsonl
    """  # noqa: D301
    if output == "-" and as_json:
        raise ParameterError("Both --json and the table would go to standard output.", remedy="Leave out --json, or write to a file.")
    proof = certificate if certificate is not None or output == "-" or is_device(Path(output)) else beside(output)
    paths = {"output": output, "certificate": proof, "html": html, "markdown": markdown}
    if streams(
        data, stream, format_, {**given, "html": html, "markdown": markdown, "costs": costs, "output": output, "encoding": encoding}
    ):
        reading = {"format_": format_, "encoding": encoding, "delimiter": delimiter}
        wanted = Wanted(
            data=data,
            output=output,
            output_format=output_format,
            certificate=proof,
            html=html,
            markdown=markdown,
            new_column=new_column,
            form=form,
            random_state=random_state,
            key=key,
            epsilon=epsilon,
            target=target,
            family=family,
            families=families,
            costs=costs,
            reading=reading,
            quiet=quiet or as_json,
        )
        return _solved_in_parts(paths, wanted, given, force=force, as_json=as_json, quiet=quiet)
    with AtomicWriter(force=force, keep=(data, *filter(None, [costs]))) as writer:
        _check(writer, paths)
        table = read_table(data, format=format_, encoding=encoding, delimiter=delimiter)
        shape = _shape(table, output, output_format)
        selection = Selection.of(table, **{name: given.pop(name) for name in PARTS})
        arguments = selection.arguments(table)
        with on_lines(table):
            classes = classes_of(arguments["y"])
        # Before the work: these names can only clash with what is there already.
        refuse_taken(table, new_names(form, new_column, selection, classes))
        keyed = named(table, key, "--key")
        given |= {"families": families_of(table, families, family, "crossed"), "target": target_of(target, classes)}
        given |= {"epsilon": per_class("--epsilon", epsilon, classes) if epsilon else 0.0, "costs": costs_of(costs, classes)}
        with on_lines(table):
            fair = _solved(arguments, given, quiet=quiet or as_json)
        keys = table.columns(keyed) if keyed else {}
        new = new_columns(fair, form, new_names(form, new_column, selection, fair.classes.tolist()), random_state, keys)
        found = fair.realised(new.columns[next(iter(new.columns))]) if form in ("round", "sample") else None
        content = encode_table(table, new.columns, shape, None if new.rows is None else new.rows.tolist(), selection.na)
        if proof is not None:
            reading = {"format": str(shape), "encoding": encoding if table.format.kind == shape.kind else "utf-8", "delimiter": delimiter}
            drawn = {"form": form, "random_state": random_state, "realised": None if found is None else found.to_json()}
            record = _record(fair, selection, given, new.columns, reading, keyed, drawn)
            writer.write(proof, record.encoded(fair))
        told: dict[str, Any] = {"label": selection.stem, "options": given, "draws": {"random_state": random_state}}
        write_reports(writer, html, markdown, arguments=arguments, **told, leaving=None if found is None else (form, found))
        _land(writer, output, content)
    _tell(fair, form, tuple(new.columns), found, paths, as_json=as_json, quiet=quiet)
    return DONE if fair.status.ok else NOT_REACHED


def _land(writer: AtomicWriter, output: str, content: bytes) -> None:
    """Put everything in its place, the table last: where it is there, so is everything that belongs to it."""
    if output == "-":
        _to_standard_output(content)
    else:
        writer.write(output, content)
    writer.commit()


def _solved_in_parts(
    paths: dict[str, str | None], wanted: Wanted, given: dict[str, Any], *, force: bool, as_json: bool, quiet: bool
) -> int:
    """Debias a table that is read part by part, and say what came of it."""
    with AtomicWriter(force=force, keep=(wanted.data, *filter(None, [wanted.costs]))) as writer:
        _check(writer, {**paths, "output": None})
        _refuse_twice(paths)
        made = debias_stream(writer, wanted, given)
        writer.commit()
    _tell(made.fair, wanted.form, made.names, made.realised, paths, as_json=as_json, quiet=quiet)
    return DONE if made.fair.status.ok else NOT_REACHED


def _record(
    fair: r2b.FairLabels,
    selection: Selection,
    given: dict[str, Any],
    new: dict[str, Any],
    reading: dict[str, Any],
    key: tuple[str, ...],
    drawn: dict[str, Any],
) -> Record:
    """Say what was asked for and written, for the certificate."""
    marks, columns = Fingerprints(), {name: pyarrow().array(listed(column)) for name, column in new.items()}
    assert fair.dataset is not None
    marks.take(fair.dataset, fair.dataset.weight, made_columns(columns, drawn["form"], tuple(new), fair.classes))
    return Record(
        columns=selection.roles(fair.schema.is_soft, key if drawn["form"] in ("round", "sample") else ()),
        na=selection.na,
        options={name: value for name, value in given.items() if name not in (*_SOLVING, "costs")},
        new=tuple(new),
        reading=reading,
        fingerprints=marks.marks(),
        n_rows=fair.dataset.n_rows,
        command=command_line(),
        **drawn,
    )


def _check(writer: AtomicWriter, paths: dict[str, str | None]) -> None:
    """Refuse targets before any work is done."""
    for path in (paths["output"], paths["certificate"]):
        if path is not None and path != "-":
            writer.check(path)
    check_reports(writer, paths["html"], paths["markdown"])
    _refuse_twice(paths)


def _refuse_twice(paths: dict[str, str | None]) -> None:
    named = [os.path.realpath(path) for path in paths.values() if path is not None and path != "-"]
    twice = next((path for path in named if named.count(path) > 1), None)
    if twice is not None:
        raise ParameterError(f"Two files would be written to {twice}.", remedy="Give each a name of its own.", path=twice)


def _solved(arguments: dict[str, Any], given: dict[str, Any], *, quiet: bool) -> r2b.FairLabels:
    with warnings.catch_warnings(), Meter(tol=given["tol"], quiet=quiet) as meter:
        warnings.simplefilter("ignore", NotSolvedWarning)  # the status says it, and the exit code
        return r2b.debias(**arguments, **given, progress=meter if meter.shown else None)


def _shape(table: Table, output: str, said: str | None) -> Format:
    if output == "-" and said is None:
        return Format(table.format.kind)
    return format_for(output, said) if not is_device(Path(output)) or said is not None else table.format


def _to_standard_output(content: bytes) -> None:
    stream = sys.stdout.buffer
    if sys.stdout.isatty() and b"\0" in content[:4096]:
        raise ParameterError("The output is binary and standard output is a terminal.", remedy="Pass --output PATH, or a pipe.")
    stream.write(content)
    stream.flush()


def _tell(
    fair: r2b.FairLabels,
    form: str,
    new: tuple[str, ...],
    found: Realised | None,
    paths: dict[str, str | None],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    written = {name: path for name, path in paths.items() if path is not None}
    if as_json:
        status = {"status": fair.status.value, "ok": fair.status.ok, "advice": fair.status.advice}
        made = {"form": form, "columns": list(new), "files": written, "classes": fair.classes, "groups": fair.groups}
        proof = fair.certificate
        numbers = {name: getattr(proof, name) for name in _NUMBERS}
        # What is said of the labels is said of those in the file; the distributions they come from stand beside it.
        held = {"parity": proof.parity, "excess": proof.excess}
        numbers |= held if found is None else {"parity": found.parity, "excess": found.excess}
        realised = None if found is None else found.to_json()
        say_json({**status, **made, **numbers, "probabilities": held, "realised": realised, "certificate": proof.to_json()})
        return
    err = paths["output"] == "-"
    if not fair.status.ok:
        click.echo(f"Parity was not reached ({fair.status.value}). {as_options(fair.status.advice)}", err=True)
    if quiet or (err and not sys.stderr.isatty()):
        return
    say(account(fair, None if found is None else (form, found)).replace(fair.status.advice, as_options(fair.status.advice)), err=err)
    click.echo(f"  form              {form}: {', '.join(map(one_line, new[:4]))}{', ...' if len(new) > 4 else ''}", err=err)
    for name, path in written.items():
        click.echo(f"  {name:18}{one_line(os.fspath(path))}", err=err)
