"""``r2b verify``: check an output against its certificate, from the data alone."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from r2b import FairLabels
from r2b._files import read_table
from r2b.cli import completing, options
from r2b.cli.claims import Check, Verification, claim_lines, claim_of, insisted
from r2b.cli.exits import DONE, NOT_REACHED
from r2b.cli.meter import RowMeter
from r2b.cli.numbers import per_class
from r2b.cli.recheck import recheck
from r2b.cli.record import Record, beside, read_record
from r2b.cli.selection import named_in
from r2b.cli.speaking import one_line, say, say_json
from r2b.cli.stream_recheck import recheck_stream
from r2b.cli.streams import open_stream
from r2b.errors import FileFormatError, ParameterError, R2BError


@click.command("verify", short_help="Check fair labels from the data alone.")
@click.argument("output", shell_complete=completing.files)
@click.option("--certificate", metavar="PATH", shell_complete=completing.files, help="The certificate; OUTPUT.r2b.json by default.")
@click.option(
    "--data", metavar="PATH", shell_complete=completing.files, help="The table that was debiased, where OUTPUT no longer has its columns."
)
@click.option("--label", multiple=True, metavar="COLUMNS", shell_complete=completing.columns, help="Insist that this is the label.")
@click.option("--sensitive", multiple=True, metavar="COLUMNS", shell_complete=completing.columns, help="Insist on these attributes.")
@click.option("--epsilon", multiple=True, metavar="NUMBER", help="Insist on this instead of what the certificate says was asked for.")
@options.reading
@options.manners
def verify_command(
    output: str,
    certificate: str | None,
    data: str | None,
    label: tuple[str, ...],
    sensitive: tuple[str, ...],
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
    An edited label, price or number makes this fail with code 1. What is claimed is printed first: insist on what you were promised with
    --label, --sensitive and --epsilon.

    \b
    Examples:
      r2b verify fair.csv
      r2b verify fair.csv --label education --sensitive sex --epsilon 0.01
      r2b verify labels.parquet --data adult.parquet --certificate labels.parquet.r2b.json --json
    """  # noqa: D301
    proof = certificate if certificate is not None else beside(output)
    if not os.path.exists(output):
        raise ParameterError(f"There is no file {output!r}.", remedy="Check the path.", path=output)
    if not os.path.exists(proof):
        remedy = "Name the one that r2b debias wrote beside its output with --certificate."
        raise ParameterError(f"There is no certificate {proof!r}.", remedy=remedy, path=proof)
    try:
        fair, record = read_record(proof)
    except FileFormatError as error:
        if not error.facts.get("damaged"):
            raise
        return _said(_not_followed(error.problem), output, None, as_json=as_json, quiet=quiet)
    spelled = encoding if encoding != "utf-8" else str(record.reading["encoding"])
    if epsilon:
        record.options["epsilon"] = per_class("--epsilon", epsilon, fair.classes.tolist())
    reading = {"format_": format_ or record.reading["format"], "encoding": spelled, "delimiter": delimiter or record.reading["delimiter"]}
    try:
        found = _checked(output, fair, record, data, reading, encoding, delimiter, quiet=quiet or as_json)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if isinstance(error, R2BError):
            raise
        # What is asked for cannot be followed to its end: a certificate that nobody here wrote, and so no proof.
        found = _not_followed(f"{type(error).__name__} ({error})")
    found = replace(found, checks=[*insisted(record, named_in(label), named_in(sensitive)), *found.checks])
    return _said(found, output, claim_of(fair, record), as_json=as_json, quiet=quiet)


def _not_followed(problem: str) -> Verification:
    return Verification([Check("the certificate can be followed", False, problem)])


def _checked(
    output: str,
    fair: FairLabels,
    record: Record,
    data: str | None,
    reading: dict[str, Any],
    encoding: str,
    delimiter: str | None,
    *,
    quiet: bool,
) -> Verification:
    if record.stream is not None:
        return _of_stream(output, fair, record, data, reading, quiet=quiet)
    table = read_table(output, format=reading["format_"], encoding=reading["encoding"], delimiter=reading["delimiter"])
    source = table if data is None else read_table(data, encoding=encoding, delimiter=delimiter)
    return recheck(table, source, fair, record)


def _of_stream(output: str, fair: FairLabels, record: Record, data: str | None, reading: dict[str, Any], *, quiet: bool) -> Verification:
    """Check an output that was written part by part."""
    if data is not None:
        remedy = "Leave out --data: an output that was written part by part has all columns of its data."
        raise ParameterError("--data is given.", remedy=remedy, path=data)
    with RowMeter(quiet=quiet) as meter:
        source, _ = open_stream(output, **reading, na=record.selection.na, watch=meter)
        return recheck_stream(source, fair, record)


def _said(found: Verification, name: str, claim: dict[str, Any] | None, *, as_json: bool, quiet: bool) -> int:
    ok = all(check.ok for check in found.checks)
    if as_json:
        parity = {"before": found.parity_before, "probabilities": found.parity, "file": found.parity_in_file}
        realised = None if found.realised is None else found.realised.to_json()
        form = None if claim is None else claim["form"]
        checks = [vars(check) for check in found.checks]
        say_json({"verified": ok, "form": form, "claim": claim, "parity": parity, "realised": realised, "checks": checks})
    elif not quiet or not ok:
        title = f"{'Verified' if ok else 'NOT VERIFIED'}: {one_line(name)}{'' if claim is None else ', ' + claim['form']}"
        claimed = [] if claim is None else claim_lines(claim, found)
        say("\n".join([title, *claimed, *map(_line, found.checks)]))
    return DONE if ok else NOT_REACHED


def _line(check: Check) -> str:
    return f"  {'ok  ' if check.ok else 'FAIL'}  {check.name:40}{check.found}"
