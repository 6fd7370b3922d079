"""The command ``r2b`` itself."""

from __future__ import annotations

from functools import partial

import click

from r2b import __version__
from r2b.cli.audit import audit_command
from r2b.cli.data import datasets_group
from r2b.cli.debias import debias_command
from r2b.cli.frontier import frontier_command
from r2b.cli.options import Commands
from r2b.cli.printing import run
from r2b.cli.serve import serve_command
from r2b.cli.verify import verify_command

r2b = Commands(
    "r2b",
    commands=[
        audit_command,
        debias_command,
        frontier_command,
        verify_command,
        datasets_group,
        serve_command,
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Audit labels for multiclass demographic parity, and make the closest labels that satisfy it.

    \b
    Examples:
      r2b datasets export adult adult.csv
      r2b audit adult.csv --label education --sensitive sex
      r2b debias adult.csv --label education --sensitive sex --epsilon 0.01 --output fair.csv
      r2b verify fair.csv

    \b
    Exit codes:
      0  done
      1  parity not reached, or verification failed
      2  wrong use: an option, a column, a file that cannot be opened or written, a library that is not installed
      3  bad data
    """,
)
click.version_option(__version__, prog_name="r2b", message="%(prog)s %(version)s")(r2b)

main = partial(run, r2b)
"""Run a command and give its exit code."""
