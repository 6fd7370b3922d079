"""The command ``r2b`` itself: its commands, how it ends, and what it says when something is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from r2b import __version__
from r2b.cli.audit import audit_command
from r2b.cli.data import datasets_group
from r2b.cli.debias import debias_command
from r2b.cli.frontier import frontier_command
from r2b.cli.options import Commands
from r2b.cli.printing import (
    DONE,
    FAULT,
    INTERRUPTED,
    NOT_REACHED,
    TERMINATED,
    WRONG_USE,
    code_of,
    colour,
    folded,
    format_error,
    printed_warnings,
    visible,
)
from r2b.cli.serve import serve_command
from r2b.cli.verify import verify_command
from r2b.errors import ParameterError, R2BError


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="r2b", message="%(prog)s %(version)s")
def r2b() -> None:
    """Audit labels for multiclass demographic parity, and make the closest labels that satisfy it.

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
    """  # noqa: D301


for _command in (audit_command, debias_command, frontier_command, verify_command, datasets_group, serve_command):
    r2b.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code; every error of r2b becomes one paragraph on standard error."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    # A polite end request cleans up like Ctrl-C does; the default would leave files half written beside their targets.
    before = signal.signal(signal.SIGTERM, _asked_to_end) if threading.current_thread() is threading.main_thread() else None
    try:
        if sys.stdout is None:
            raise ParameterError("Standard output is closed.", remedy="Send it to a file, or to /dev/null.")
        with printed_warnings(quiet=not {"-q", "--quiet"}.isdisjoint(typed)):
            ended = r2b.main(args=typed, prog_name="r2b", standalone_mode=False, obj=typed, color=colour())
        sys.stdout.flush()
        return ended if isinstance(ended, int) else DONE
    except BrokenPipeError:
        # A reader that goes away early, such as head, is no error.
        _give_up_output()
        return DONE
    except BaseException as error:
        if "--debug" in typed and not isinstance(error, (SystemExit, click.exceptions.Exit)):
            traceback.print_exc()
        return _print_error(error, as_json="--json" in typed)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _asked_to_end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)


def _give_up_output() -> None:
    # Python flushes once more on exit; give that flush somewhere to go.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong, and give the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return int(error.exit_code)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else NOT_REACHED
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo("Stopped. Nothing was left half written.", err=True)
        return INTERRUPTED
    if isinstance(error, R2BError):
        problem, remedy = format_error(error)
        _print(type(error).__name__, problem, remedy, as_json)
        return code_of(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return WRONG_USE
    if isinstance(error, click.UsageError):
        where = f" See: {error.ctx.command_path} --help" if error.ctx is not None else ""
        said = visible(error.format_message())
        _print("UsageError", said if said.endswith((".", "?", "?)")) else f"{said}.", where.strip(), as_json)
        return WRONG_USE
    if isinstance(error, OSError):
        what, remedy = f"{visible(str(error.filename))} cannot be used", "Check the path and the disk."
        if error.filename is None:  # files are written with their names, so this is standard output
            _give_up_output()
            what, remedy, as_json = "Standard output cannot be written", "Write to a file, or make room.", False
        _print(type(error).__name__, f"{what}: {error.strerror or error}.", remedy, as_json)
        return WRONG_USE
    fault = f"r2b failed where it should not: {type(error).__name__}: {visible(str(error))}."
    _print("Fault", fault, "Please report it, with what --debug prints.", as_json)
    return FAULT


def _print(kind: str, problem: str, remedy: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"error": {"type": kind, "problem": problem, "remedy": remedy}}, ensure_ascii=False))
    first, *rest = folded(f"Error: {problem} {remedy}".rstrip(), sys.stderr).split(":", 1)
    click.echo(f"{click.style(f'{first}:', fg='red', bold=True)}{rest[0]}", err=True, color=colour())
