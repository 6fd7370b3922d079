"""``r2b serve`` and ``r2b reproduce``: doors to rooms that are only opened when someone asks."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from r2b.cli import completing, options
from r2b.cli.meter import RunMeter
from r2b.cli.reporting import room
from r2b.cli.speaking import say, say_json
from r2b.errors import ParameterError


@click.command("serve", short_help="Open the app in a browser.")
@click.argument("data", required=False, shell_complete=completing.files)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; only those of this machine are taken.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 takes one that is free.")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open a browser.")
@click.option("--max-upload", type=click.IntRange(min=1), default=200, show_default=True, metavar="MB", help="Largest file that is taken.")
@options.manners
def serve_command(data: str | None, host: str, port: int, browser: bool, max_upload: int, as_json: bool, quiet: bool) -> None:
    """Open the app on this machine, with the file DATA or with none. Ctrl-C ends it; nothing is kept.

    \b
    Examples:
      r2b serve
      r2b serve adult.csv --port 8000 --no-browser
    """  # noqa: D301
    app = room("app", "The app")

    def announce(address: str) -> None:
        if as_json:
            say_json({"address": address})
        elif not (quiet and browser):  # without a browser nobody could find it
            click.echo(f"r2b runs at {address}")
            if not quiet:
                click.echo("The data stay on this machine and in memory. Ctrl-C ends it.")
        sys.stdout.flush()

    app.serve(host, port, path=data, open_browser=browser, max_upload=max_upload, announce=announce)


@click.command("reproduce", short_help="Repeat the experiments of the paper.")
@click.argument("name")
@click.option("--quick", is_flag=True, help="A small run that shows that everything works.")
@click.option("--output", "-o", metavar="FOLDER", help="Where results go.")
@click.option("--data", metavar="FOLDER", help="Where data are that do not come with the package.")
@click.option("--seeds", metavar="NUMBERS", help="Seeds instead of the paper's: '0,1,2'.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Processes at a time.")
@click.option("--resume/--no-resume", default=True, show_default=True, help="Go on from what a run before has finished.")
@options.manners
def reproduce_command(name: str, seeds: str | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """Repeat the experiment NAME of the paper, such as adult or synthetic, or all of them.

    \b
    Examples:
      r2b reproduce adult --quick
      r2b reproduce all --output results --jobs 4
    """  # noqa: D301
    experiments = room("experiments", "This command")
    rows: dict[str, Any] = {}
    if name == "all" or experiments.find(name).needs_data:
        _refuse_absent(given["data"] or os.environ.get("R2B_DATA"))
    names, left_out = experiments.within_reach(given["data"])
    if name != "all":
        if name in left_out:  # before hundreds of runs that would each say so
            remedy = "Pass --data with the folder that holds them, or set R2B_DATA."
            raise ParameterError(f"The data of {name} do not come with the package, and no folder is named.", remedy=remedy, name=name)
        names, left_out = [name], []
    if left_out and not quiet and not as_json:
        say(f"Left out, since they need --data or R2B_DATA: {', '.join(left_out)}")
    for each in names:
        with RunMeter(shown=not quiet and not as_json) as meter:
            rows[each] = experiments.reproduce(each, seeds=_seeds(seeds), progress=meter, **given)
        if not as_json and not quiet:
            say(f"{each}: {len(rows[each]):,} runs in {given['output'] or ('results/quick' if given['quick'] else 'results')}")
    if as_json:
        say_json(rows)


def _refuse_absent(folder: str | None) -> None:
    if folder is not None and not os.path.isdir(folder):
        remedy = "Pass --data with the folder that holds the data, or set R2B_DATA."
        raise ParameterError(f"There is no folder {folder!r}.", remedy=remedy, folder=folder)


def _seeds(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(each) for each in text.split(",")]
    except ValueError:
        raise ParameterError(f"--seeds is {text!r}.", remedy="Pass whole numbers, such as 0,1,2.", seeds=text) from None
