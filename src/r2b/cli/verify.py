"""``r2b verify``: check an output against its certificate, from the data alone."""

from __future__ import annotations

from typing import Any

import click

import r2b
from r2b._verify.record import beside
from r2b.cli import completing, options
from r2b.cli.options import named_in, per_class
from r2b.cli.printing import DONE, NOT_REACHED, RowMeter, print_json, print_text
from r2b.errors import ParameterError


@click.command("verify", short_help="Check fair labels from the data alone.")
@click.argument("output", shell_complete=completing.files)
@options.file_option("certificate", "The certificate; OUTPUT.r2b.json by default.")
@options.file_option("data", "The table that was debiased, where OUTPUT no longer has its columns.")
@options.column_option("label", "Insist that this is the label.")
@options.column_option("sensitive", "Insist on these attributes.")
@click.option(
    "--epsilon",
    multiple=True,
    metavar="NUMBER",
    help="Insist on this instead of what the certificate says was asked for.",
)
@options.reading
@options.verbosity
def verify_command(
    output: str,
    certificate: str | None,
    data: str | None,
    label: tuple[str, ...],
    sensitive: tuple[str, ...],
    epsilon: tuple[str, ...],
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    """Check the fair labels in OUTPUT from the data: means, parity, bound and, from the prices, that no labels in parity are closer.

    No number in the certificate is believed: it says what was asked for and holds the prices, which
    prove or do not. An edited label, price or number makes this fail with code 1. What is claimed
    is printed first: insist on what you were promised with --label, --sensitive and --epsilon.

    \b
    Examples:
      r2b verify fair.csv
      r2b verify fair.csv --label education --sensitive sex --epsilon 0.01
      r2b verify labels.parquet --data adult.parquet --certificate labels.parquet.r2b.json --json
    """  # noqa: D301
    if reading["encoding"] == "utf-8":
        reading["encoding"] = None
    asked: dict[str, Any] = {
        "data": data,
        "label": named_in(label),
        "sensitive_features": named_in(sensitive),
    }
    if epsilon:
        asked["epsilon"] = per_class(
            "--epsilon", epsilon, r2b.load(certificate or beside(output)).classes.tolist()
        )
    try:
        with RowMeter(quiet=quiet or as_json) as meter:
            found = r2b.verify(output, certificate, **asked, **reading, watch=meter)
    except ParameterError as error:
        remedy = error.remedy.replace("data=...", "--data.").replace(
            "certificate=...", "--certificate."
        )
        raise ParameterError(error.problem, remedy=remedy, **error.facts) from error
    if as_json:
        print_json(found.to_json())
    elif not quiet or not found.ok:
        print_text(str(found))
    return DONE if found.ok else NOT_REACHED
