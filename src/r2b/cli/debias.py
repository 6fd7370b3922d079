"""``r2b debias``: the closest labels in parity, in a new file, with their certificate beside it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import click

from r2b import FairLabels
from r2b._files import AtomicWriter
from r2b._files.paths import is_device
from r2b._labels.labels import Form
from r2b._labels.realised import Realised
from r2b._labels.summary import summarize
from r2b._verify.record import Record, beside, reads_again, record_of
from r2b.cli import completing, options
from r2b.cli.costs import cost_files
from r2b.cli.options import asked_of, columns_of, command_line, named, on_lines, open_table
from r2b.cli.printing import (
    DONE,
    NOT_REACHED,
    RowMeter,
    as_options,
    one_line,
    print_json,
    print_text,
    spelled,
)
from r2b.engines.files.writing import kept_files, shape_of, write_into
from r2b.engines.source import new_names
from r2b.engines.table_rows import TableRows, refuse_taken
from r2b.engines.tables import class_names, roles_of
from r2b.errors import NotSolvedWarning, ParameterError

_NUMBERS = (
    "disparity_before",
    "disparity",
    "distance",
    "expected_changes",
    "relative_gap",
    "excess",
)


@click.command("debias", short_help="Make the closest labels in parity.")
@click.argument("data", shell_complete=completing.files)
@options.columns
@click.option(
    "--epsilon",
    multiple=True,
    metavar="NUMBER",
    help="Accepted difference, or 'class=number', repeated. 0 by default.",
)
@options.bounds
@options.groups
@click.option(
    "--output",
    "-o",
    required=True,
    metavar="PATH",
    shell_complete=completing.files,
    help="File to write; - is standard output.",
)
@options.output_format
@click.option(
    "--form",
    type=click.Choice(get_args(Form)),
    default="soft",
    show_default=True,
    help="Form in which labels leave.",
)
@click.option(
    "--random-state",
    type=int,
    default=0,
    show_default=True,
    help="For round and sample; the same number, the same labels.",
)
@options.column_option("key", "For round and sample: columns that the draw of a row follows from.")
@click.option(
    "--new-column",
    metavar="NAME",
    help="Name of the new column, or what new names begin with. '<label>_fair' by default.",
)
@options.file_option("certificate", "Where the certificate goes; beside the output by default.")
@options.reports
@options.force
@options.solving
@options.reading
@options.verbosity
def debias_command(
    data: str,
    output: str,
    output_format: str | None,
    form: Form,
    random_state: int,
    key: tuple[str, ...],
    new_column: str | None,
    certificate: str | None,
    reports: dict[str, str],
    suppress_below: int,
    force: bool,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Make the closest labels to those in DATA that are in parity, and write DATA with them in new columns.

    Rows keep their order and all other columns stay as they are. The certificate goes beside the
    output; `r2b verify` checks it. DATA is a file, a folder or a pattern; - is standard input.
    Files are read and written part by part, and may be larger than memory.

    \b
    Forms:
      soft    one column of probabilities per class; parity is exact
      round   one class per row; every class count is right to within a row
      sample  one class per row, drawn; parity holds on average
      expand  rows repeated with weights; parity is exact for learners that take weights

    \b
    Examples:
      r2b debias adult.csv --label education --sensitive sex --epsilon 0.01 --output fair.csv
      r2b debias adult.csv --label education --sensitive sex,race --families both --form round
      --output fair.csv.gz r2b debias adult.csv --label income --sensitive sex --bound ratio
      --epsilon 0.2 --output fair.parquet r2b debias adult.csv --label education --sensitive sex
      --epsilon 0.01 --epsilon Doctorate=0.001 -o fair.csv r2b debias people/ --label job
      --sensitive sex --form round --key id --output fair/ cat people.jsonl | r2b debias - --label
      job --sensitive sex --form sample --output - > fair.jsonl
    """  # noqa: D301
    if output == "-" and as_json:
        raise ParameterError(
            "Both --json and the table would go to standard output.",
            remedy="Leave out --json, or write to a file.",
        )
    piped = output == "-" or is_device(Path(output))
    proof = certificate if certificate is not None or piped else beside(output)
    paths = {"output": output, "certificate": proof, **reports}
    with ExitStack() as stack:
        writer = stack.enter_context(AtomicWriter(force=force))
        meter = stack.enter_context(RowMeter(tol=given["tol"], quiet=quiet or as_json))
        scan, source = open_table(data, reading, threads=given["threads"], watch=meter)
        writer.keep = (*kept_files(source), *(cost_files(given["costs"]) if given["costs"] else ()))
        shape = shape_of(source, output, output_format)
        _check_paths(writer, paths, folder=source.listing.many)
        with on_lines(source):
            arguments = columns_of(source, given)
            roles = roles_of(source, **arguments)
            classes = class_names(source, roles, given["missing"])
            asked = asked_of(given, scan.names, classes)
            keys = named(scan.names, key)
            source.check(keys, "--key")
            refuse_taken(new_names(form, new_column, roles, classes, ordered=True), source)
            with warnings.catch_warnings():
                # the status says it, and the exit code
                warnings.simplefilter("ignore", NotSolvedWarning)
                fair = scan.debias(**arguments, **asked, progress=meter if meter.shown else None)
            rows = fair.rows
            assert isinstance(rows, TableRows)
            meter.now("Looking")
            relabel = rows.relabel(
                fair.rule, form, random_state=random_state, key=keys or None, new_column=new_column
            )
            meter.now("Writing")
            # What is piped is written whole before its first byte leaves.
            target = (
                os.path.join(stack.enter_context(TemporaryDirectory()), f"output.{shape}")
                if piped
                else output
            )
            aside = stack.enter_context(AtomicWriter()) if piped else writer
            written = write_into(aside, source, relabel, target, str(shape))
            meter.now("Measuring")
            found = (
                rows.measured(relabel, fair.certificate) if form in ("round", "sample") else None
            )
            record = None
            if proof is not None:
                meter.now("Checking")
                how = reads_again(source, shape, reading["encoding"], reading["na"])
                again = open_table(written, how, threads=source.threads, watch=source.watch)[1]
                record = record_of(source, relabel, again, how, asked, command_line(), found)
                writer.write(proof, record.encoded(fair))
            if reports:
                from r2b.cli.reports import write_reports

                leaving = None if found is None else (form, found)
                made = {"form": form, **_trace(record, output, proof)}
                meter.now("Reporting")
                solving, draws = (
                    {**asked, "progress": meter if meter.shown else None},
                    {"random_state": random_state},
                )
                write_reports(
                    writer,
                    reports,
                    scan,
                    arguments,
                    solving,
                    draws,
                    leaving,
                    made,
                    suppress_below=suppress_below,
                )
        if piped:
            _copy(Path(written.root), output)
        writer.commit()
    _print_result(fair, form, relabel.names, found, paths, as_json=as_json, quiet=quiet)
    return DONE if fair.status.ok else NOT_REACHED


def _trace(record: Record | None, output: str, proof: str | None) -> dict[str, Any]:
    """Give the checksum of the new columns, and the command that checks them, as the certificate has them."""
    if record is None or proof is None:
        return {}
    certificate = "" if proof == beside(output) else f" --certificate {shlex.quote(proof)}"
    mark = {
        "sha256": record.fingerprints["labels"],
        "of": f"the new columns of {spelled(os.path.basename(output.rstrip('/')))}",
    }
    return {"output": mark, "verify": spelled(f"r2b verify {shlex.quote(output)}{certificate}")}


def _check_paths(writer: AtomicWriter, paths: Mapping[str, str | None], *, folder: bool) -> None:
    """Refuse targets before any work is done."""
    targets = {
        name: path
        for name, path in paths.items()
        if path is not None and (name, path) != ("output", "-")
    }
    for name, path in targets.items():
        writer.check(path, folder=folder and name == "output")
    named = [os.path.realpath(path) for path in targets.values()]
    twice = next((path for path in named if named.count(path) > 1), None)
    if twice is not None:
        raise ParameterError(
            f"Two files would be written to {twice}.",
            remedy="Give each a name of its own.",
            path=twice,
        )


def _copy(written: Path, output: str) -> None:
    with open(written, "rb") as table:
        if output != "-":
            with open(output, "wb") as device:
                shutil.copyfileobj(table, device)
            return
        if sys.stdout.isatty() and b"\0" in table.read(4096):
            raise ParameterError(
                "The output is binary and standard output is a terminal.",
                remedy="Pass --output PATH, or a pipe.",
            )
        table.seek(0)
        shutil.copyfileobj(table, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _print_result(
    fair: FairLabels,
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
        made = {
            "form": form,
            "columns": list(new),
            "files": written,
            "classes": fair.classes,
            "groups": fair.groups,
        }
        proof = fair.certificate
        numbers = {name: getattr(proof, name) for name in _NUMBERS}
        # What is said of the labels is said of those in the file; the distributions they come from
        # stand beside it.
        held = {"disparity": proof.disparity, "excess": proof.excess}
        numbers |= held if found is None else {"disparity": found.disparity, "excess": found.excess}
        realised = None if found is None else found.to_json()
        print_json(
            {
                **status,
                **made,
                **numbers,
                "probabilities": held,
                "realised": realised,
                "certificate": proof.to_json(),
            }
        )
        return
    err = paths["output"] == "-"
    if not fair.status.ok:
        click.echo(
            f"Parity was not reached ({fair.status.value}). {as_options(fair.status.advice)}",
            err=True,
        )
    if quiet or (err and not sys.stderr.isatty()):
        return
    text = summarize(fair, None if found is None else (form, found)).replace(
        fair.status.advice, as_options(fair.status.advice)
    )
    print_text(text, err=err)
    click.echo(
        f"  form              {form}: {', '.join(map(one_line, new[:4]))}{', ...' if len(new) > 4 else ''}",
        err=err,
    )
    for name, path in written.items():
        click.echo(f"  {name:18}{one_line(os.fspath(path))}", err=err)
