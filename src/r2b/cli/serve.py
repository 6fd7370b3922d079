"""``r2b serve``: the app, which is imported only when someone asks for it."""

from __future__ import annotations

import sys

import click

from r2b.cli import completing, options
from r2b.cli.printing import print_json


@click.command("serve", short_help="Open the app in a browser.")
@click.argument("data", required=False, shell_complete=completing.files)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; only those of this machine are taken.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port; 0 takes one that is free.",
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open a browser.")
@click.option(
    "--max-upload",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="MB",
    help="Largest file that is taken.",
)
@options.verbosity
def serve_command(
    data: str | None,
    host: str,
    port: int,
    browser: bool,
    max_upload: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Open the app on this machine, with the file DATA or with none. Ctrl-C ends it; nothing is kept.

    \b
    Examples:
      r2b serve
      r2b serve adult.csv --port 8000 --no-browser
    """  # noqa: D301
    from r2b.app import serve

    def announce(address: str) -> None:
        if as_json:
            print_json({"address": address})
        elif not (quiet and browser):  # without a browser nobody could find it
            click.echo(f"r2b runs at {address}")
            if not quiet:
                click.echo("The data stay on this machine and in memory. Ctrl-C ends it.")
        sys.stdout.flush()

    serve(host, port, path=data, open_browser=browser, max_upload=max_upload, announce=announce)
