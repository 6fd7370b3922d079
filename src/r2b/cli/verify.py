"""``r2b verify``: check an output against its certificate, from the data alone."""

from __future__ import annotations

import os

import click

from r2b import FairLabels
from r2b.cli import completing, options
from r2b.cli.exits import DONE, NOT_REACHED
from r2b.cli.meter import RowMeter
from r2b.cli.numbers import per_class
from r2b.cli.recheck import Check, recheck
from r2b.cli.record import Record, beside, read_record
from r2b.cli.speaking import say, say_json
from r2b.cli.stream_recheck import recheck_stream
from r2b.cli.streams import open_stream
from r2b.errors import ParameterError
from r2b.tables import read_table


@click.command("verify", short_help="Check fair labels from the data alone.")
@click.argument("output", shell_complete=completing.files)
@click.option("--certificate", metavar="PATH", shell_complete=completing.files, help="The certificate; OUTPUT.r2b.json by default.")
@click.option(
    "--data", metavar="PATH", shell_complete=completing.files, help="The table that was debiased, where OUTPUT no longer has its columns."
)
@click.option("--epsilon", multiple=True, metavar="NUMBER", help="Check against this instead of what the certificate says was asked for.")
@options.reading
@options.manners
def verify_command(
    output: str,
    certificate: str | None,
    data: str | None,
    epsilon: tuple[str, ...],
    format_: str | None,
    encoding: str,
    delimiter: str | None,
    na: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """Check the fair labels in OUTPUT from the data: means, parity, bound and, from the prices, that no labels in parity are closer.

    No number in the certificate is believed: it says what was asked for and holds the prices, which prove or do not.
    An edited label, or an edited price, makes this fail with code 1.

    \b
    Examples:
      r2b verify fair.csv
      r2b verify fair.csv --epsilon 0.01
      r2b verify labels.parquet --data adult.parquet --certificate labels.parquet.r2b.json --json
    """  # noqa: D301
    proof = certificate if certificate is not None else beside(output)
    if not os.path.exists(output):
        raise ParameterError(f"There is no file {output!r}.", remedy="Check the path.", path=output)
    if not os.path.exists(proof):
        remedy = "Name the one that r2b debias wrote beside its output with --certificate."
        raise ParameterError(f"There is no certificate {proof!r}.", remedy=remedy, path=proof)
    fair, record = read_record(proof)
    spelled = encoding if encoding != "utf-8" else str(record.reading["encoding"])
    if epsilon:
        record.options["epsilon"] = per_class("--epsilon", epsilon, fair.classes.tolist())
    if record.stream is not None:
        checks, name = _of_stream(output, fair, record, data, format_, spelled, delimiter, quiet=quiet or as_json)
        return _said(checks, name, record.form, as_json=as_json, quiet=quiet)
    table = read_table(
        output, format=format_ or record.reading["format"], encoding=spelled, delimiter=delimiter or record.reading["delimiter"]
    )
    source = table if data is None else read_table(data, encoding=encoding, delimiter=delimiter)
    return _said(recheck(table, source, fair, record), table.name, record.form, as_json=as_json, quiet=quiet)


def _of_stream(
    output: str,
    fair: FairLabels,
    record: Record,
    data: str | None,
    format_: str | None,
    encoding: str,
    delimiter: str | None,
    *,
    quiet: bool,
) -> tuple[list[Check], str]:
    """Check an output that was written part by part."""
    if data is not None:
        remedy = "Leave out --data: an output that was written part by part has all columns of its data."
        raise ParameterError("--data is given.", remedy=remedy, path=data)
    with RowMeter(quiet=quiet) as meter:
        source, _ = open_stream(
            output,
            format_=format_ or record.reading["format"],
            encoding=encoding,
            delimiter=delimiter or record.reading["delimiter"],
            na=record.selection.na,
            watch=meter,
        )
        return recheck_stream(source, fair, record), source.name


def _said(checks: list[Check], name: str, form: str, *, as_json: bool, quiet: bool) -> int:
    ok = all(check.ok for check in checks)
    if as_json:
        say_json({"verified": ok, "form": form, "checks": [vars(check) for check in checks]})
    elif not quiet or not ok:
        say("\n".join([f"{'Verified' if ok else 'NOT VERIFIED'}: {name}, {form}", *map(_line, checks)]))
    return DONE if ok else NOT_REACHED


def _line(check: Check) -> str:
    return f"  {'ok  ' if check.ok else 'FAIL'}  {check.name:38}{check.found}"
