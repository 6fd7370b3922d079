"""What the command line prints: text, strict JSON, notes, errors, and a progress bar."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self

import click

from r2b import Progress
from r2b._data.values import json_value
from r2b.engines.files import PassProgress
from r2b.errors import FileFormatError, InputError, MessageWithRemedy, R2BError


class Exit(IntEnum):
    """How a command ended, for scripts."""

    DONE = 0
    NOT_REACHED = 1
    WRONG_USE = 2
    BAD_DATA = 3
    FAULT = 70
    INTERRUPTED = 130
    TERMINATED = 143


_ALIASES = {"y": "label", "r2b.Continuous": "continuous", "r2b.Membership": "membership"}
"""Names of the library that have an option of another name here."""

_ROLES = {
    "y": "the label",
    "sensitive_features": "the sensitive columns",
    "control_features": "the control columns",
    "sample_weight": "the weights",
    "y_pred": "the predictions",
    "y_true": "the label",
}
_OUTCOMES = {
    "ok": "green",
    "Verified": "green",
    "FAIL": "red",
    "NOT VERIFIED": "red",
    "NOT PROVEN": "red",
}
_DELAY = 0.7  # seconds before a progress bar appears: most runs are over by then


def code_of(error: R2BError) -> int:
    """Return the exit code of an error.

    Examples
    --------
    >>> from r2b.errors import EmptyError
    >>> code_of(EmptyError("No rows.", remedy="")).value
    3
    """
    if isinstance(error, RuntimeError):
        return Exit.NOT_REACHED
    return Exit.BAD_DATA if isinstance(error, (InputError, FileFormatError)) else Exit.WRONG_USE


def phrase(name: str, value: Any) -> str | None:
    """Return an option of the library as it is typed here; None if this command lacks it."""
    command = click.get_current_context().command
    known, element, key = name.partition("(")[0].partition("[")
    if element:
        return f"column {key.removesuffix(']')}"
    column, of, role = name.rpartition(" of ")
    if of and role in _ROLES:
        return column
    if value is None and known in _ROLES:
        return _ROLES[known]
    known = _ALIASES.get(known, known)
    option = next((each for each in command.params if each.name == known), None)
    if not isinstance(option, click.Option):
        return None
    bare = value is None or value is True or value is ...
    typed = "" if bare else f" {_typed(value)}"
    return option.opts[0] + typed


def _typed(value: Any) -> str:
    if value is ...:
        return "..."
    if isinstance(value, dict):
        return ",".join(f"{key}={_typed(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(_typed, value))
    return shlex.quote(value) if isinstance(value, str) else str(value)


def rendered(message: MessageWithRemedy) -> tuple[str, str]:
    """Return problem and remedy of an error or warning, with the options of this command."""
    path = click.get_current_context().command_path
    problem, remedy = message.render(phrase, f"See: {path} --help")
    for name in message.facts:  # an option that is wrong is a fact, and the subject of the problem
        option = phrase(name, None)
        if option and problem.startswith(f"{name} is "):
            problem = option + problem.removeprefix(name)
    return one_line(problem), one_line(remedy)


@dataclass(frozen=True)
class Done:
    """What a command found, and how it is printed.

    Attributes
    ----------
    facts : mapping
        What ``--json`` prints.
    text : str
        What is printed otherwise, and not with ``--quiet`` unless it is ``loud``.
    files : mapping of str to str
        What was written where.
    ok : bool
        Whether all is as it was asked for; otherwise the exit code says so.
    alarm : str
        What goes to standard error, also with ``--quiet``.
    loud : bool
    aside : bool
        Whether the text goes to standard error, and only to a terminal, since a table went to
        standard output.
    """

    facts: Mapping[str, Any]
    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    ok: bool = True
    alarm: str = ""
    loud: bool = False
    aside: bool = False


def print_done(done: Done) -> int:
    """Print what a command found, and return its exit code."""
    asked, err = click.get_current_context().meta, done.aside
    if asked["json"]:
        print_json(done.facts)
    else:
        if done.alarm:
            click.echo(done.alarm, err=True)
        if (done.loud or not asked["quiet"]) and (not err or sys.stderr.isatty()):
            print_text(done.text, err=err)
            for name, path in done.files.items():
                click.echo(f"  {name:18}{one_line(path)}", err=err)
    return Exit.DONE if done.ok else Exit.NOT_REACHED


def print_error(kind: str, code: str, problem: str, remedy: str, *, as_json: bool) -> None:
    """Print an error as a paragraph on standard error, and as JSON if that was asked for."""
    if as_json:
        error = {"type": kind, "code": code, "problem": problem, "remedy": remedy}
        print_json({"error": error})
    head, text = "Error:", f"Error: {problem} {remedy}".rstrip()
    click.echo(click.style(head, fg="red", bold=True) + text[len(head) :], err=True, color=colour())


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text; on a terminal its first line is bold, and outcomes of checks are coloured."""
    first, *rest = map(_coloured, visible(text).split("\n"))
    click.echo("\n".join([click.style(first, bold=True), *rest]), err=err, color=colour())


def _coloured(line: str) -> str:
    for word, tint in _OUTCOMES.items():
        before, found, after = line.partition(word)
        if found and not before.strip() and after[:1] in ("", " ", ":"):
            # 39 ends the colour alone: the line may be bold
            return f"{before}{click.style(word, fg=tint, reset=False)}\x1b[39m{after}"
    return line


def print_json(facts: Mapping[str, Any]) -> None:
    """Print facts as strict JSON, with the name and version of their schema."""
    context = click.get_current_context(silent=True)
    name = "r2b" if context is None else context.command_path.replace(" ", "-")
    # a saved object has a schema of its own
    named = {"format": name, "version": 1} | json_value(facts, spelled)
    click.echo(json.dumps(named, ensure_ascii=False, allow_nan=False))


def spelled(text: str) -> str:
    r"""Spell out bytes of a name that are not text; no file and no JSON can hold them.

    Examples
    --------
    >>> spelled("caf\udce9.csv")
    'caf\\udce9.csv'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def visible(text: str) -> str:
    r"""Show control characters instead of obeying them; lines stay lines.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode()
        for c in spelled(text)
    )


def one_line(text: str) -> str:
    r"""Show control characters and line ends.

    Examples
    --------
    >>> one_line("a\nb")
    'a\\nb'
    """
    return visible(text.strip()).replace("\n", "\\n").replace("\t", "\\t")


def colour() -> bool | None:
    """Return False if NO_COLOR or TERM=dumb asks for no colour, else None: the stream decides."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


class Meter:
    """A progress bar on standard error, for passes over rows and for the steps of a solver.

    It appears on a terminal only, after a moment, and vanishes when the work is done. With
    ``--quiet`` or ``--json`` it never appears.
    """

    def __init__(self) -> None:
        asked = click.get_current_context().meta
        quiet = asked["quiet"] or asked["json"] or sys.stderr is None
        self.shown = not quiet and sys.stderr.isatty()
        self._begun, self._what, self._share = time.monotonic(), "Reading", 0.0
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def now(self, what: str) -> None:
        """Say what the next pass over the rows does."""
        self._what = what

    def __call__(self, step: PassProgress | Progress) -> None:
        """Take note of some rows, or of a step of the solver."""
        if not self.shown or time.monotonic() - self._begun < _DELAY:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task("")
        task, share = self._bar.task_ids[0], None
        what = f"Solving, step {step.iteration:,}" if isinstance(step, Progress) else self._what
        if isinstance(step, PassProgress):
            what, share = f"{what}, {step.rows:,} rows", step.share
        if (share or 0.0) < self._share:  # a new pass: its time left starts anew
            self._bar.reset(task)
        self._share = share or 0.0
        total = None if share is None else 1.0
        self._bar.update(task, description=what, total=total, completed=self._share, refresh=True)


def _bar() -> Any:
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.start()
    return bar
