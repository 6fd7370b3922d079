"""What is printed, and how a command ends: plain text that no column name can turn into something else, strict JSON, errors as options."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn, Self

import click

from r2b import Progress
from r2b._data.values import json_value
from r2b._solve.solvers import TOLERANCE
from r2b.engines.files import PassProgress
from r2b.errors import DataWarning, FileFormatError, InputError, ParameterError, R2BError

DONE = 0
NOT_REACHED = 1
WRONG_USE = 2
BAD_DATA = 3
FAULT = 70
INTERRUPTED = 130
TERMINATED = 143


def code_of(error: R2BError) -> int:
    """Give the exit code of an error.

    Examples
    --------
    >>> from r2b.errors import EmptyError, ParameterError
    >>> code_of(EmptyError("No rows.", remedy="Add some.")), code_of(ParameterError("epsilon is -1.", remedy="Pass 0."))
    (3, 2)
    """
    if isinstance(error, RuntimeError):  # an experiment that ran and failed
        return NOT_REACHED
    return BAD_DATA if isinstance(error, (InputError, FileFormatError)) else WRONG_USE


_MOMENT = 0.7  # seconds without a bar: most runs are over by then


class Meter:
    """A bar for one solve, or for several in a row: on a terminal, after a moment, until the work is done.

    Parameters
    ----------
    tol : float
        Residual at which a solve is over.
    n_solves : int
    quiet : bool
    """

    def __init__(self, *, tol: float = TOLERANCE, n_solves: int = 1, quiet: bool = False) -> None:
        self.shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self.begun = time.monotonic()
        self.tol, self.n_solves = tol, n_solves
        self._bar: Any = None
        self._task: Any = None
        self._first, self._last = math.nan, 0
        self._solve, self._part, self._done = 0, 0.0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: Progress) -> None:
        """Take note of a step."""
        if not self.shown:
            return
        if step.iteration <= self._last:
            self._solve, self._part, self._first = (
                min(self._solve + 1, self.n_solves - 1),
                0.0,
                math.nan,
            )
        self._last = step.iteration
        self._part = max(self._part, self._share(step.residual))
        what = f"Solving {self._solve + 1} of {self.n_solves}" if self.n_solves > 1 else "Solving"
        self._update(
            f"{what}, residual {step.residual:.0e}", (self._solve + self._part) / self.n_solves
        )

    def _share(self, residual: float) -> float:
        """Give the digits of the residual gained, of those that are wanted."""
        if not residual > 0 or not math.isfinite(residual):
            return 0.0
        if math.isnan(self._first):
            self._first = max(residual, 10 * self.tol)
        return min(
            max(math.log(self._first / residual) / math.log(self._first / self.tol), 0.0), 0.99
        )

    def _update(self, description: str, done: float | None = None) -> None:
        if time.monotonic() - self.begun < _MOMENT:
            return
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task(
                description, total=None if done is None else 1.0, completed=done or 0.0
            )
        if done is not None and done < self._done:
            self._bar.reset(
                self._task, total=1.0, description=description
            )  # a pass of its own: its time left does not follow from the one before
        self._done = done or 0.0
        seen = {
            "total": None if done is None else 1.0,
            "completed": self._done,
            "description": description,
        }
        self._bar.update(self._task, **seen, refresh=done is not None)


class RowMeter(Meter):
    """A bar for a table and its solve: how many rows were read, for passes that take longer than the solve, and the steps between them."""

    _what = "Reading"

    def now(self, what: str) -> None:
        """Say what comes next."""
        self._what = what

    def __call__(self, step: PassProgress | Progress) -> None:
        """Take note of some rows, or of a step."""
        if isinstance(step, Progress):
            super().__call__(step)
        elif self.shown:
            self._update(f"{self._what}, {step.rows:,} rows", step.share)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    columns = (
        text,
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    return bar


_OPTIONS = (
    *(
        "families",
        "bound",
        "target",
        "missing",
        "min_group_size",
        "small_groups",
        "absent",
        "normalize",
        "lam",
        "objective",
    ),
    *(
        "epsilon",
        "epsilons",
        "costs",
        "tol",
        "max_iter",
        "time_limit",
        "new_column",
        "key",
        "na",
        "encoding",
        "format",
        "force",
        "sheet",
    ),
)
_SPELLED = re.compile(rf"\b({'|'.join(_OPTIONS)})=(?:'([^']*)'|\"([^\"]*)\"|([\w.]+))")
_BARE = re.compile(rf"(?<![-\w])({'|'.join(name for name in _OPTIONS if '_' in name)})\b")
# of a process of its own; --debug has it whole
_TRACE = re.compile(r"\nTraceback \(most recent call last\):\n(?: .*\n)+(.*)\n?")
_REWORDED = {
    " where it is offered": "",
    "Pass a file written by FairLabels.save.": "Pass the certificate that r2b debias wrote.",
    "costs={'ordinal': [...]}": "--costs ordinal=low,middle,high",
}
_NARROWEST = 30  # columns: on anything narrower, lines are left to the terminal
_NAMES = {
    "y": "the label",
    "sensitive_features": "the sensitive columns",
    "control_features": "the control columns",
    "sample_weight": "the weights",
}


# those whose option has another name
_ARGUMENTS = {"n_permutations": "permutations", "n_boot": "bootstrap", "n_largest": "largest"}
_LEADING = re.compile(
    rf"^({'|'.join((*_OPTIONS, *_ARGUMENTS, 'level', 'random_state', 'threads', 'kernel', 'merge_rows'))})\b(?= (?:is|has|gives|names)\b)"
)
_UNREADABLE = re.compile("[\ud800-\udfff]")


def spelled(text: str) -> str:
    r"""Write the bytes of a name that are no text, which Python keeps as half characters that no file and no JSON can hold.

    Examples
    --------
    >>> spelled("caf\udce9.csv")
    'caf\\xe9.csv'
    """
    return _UNREADABLE.sub(
        lambda m: (
            f"\\x{ord(m[0]) - 0xDC00:02x}"
            if "\udc80" <= m[0] <= "\udcff"
            else f"\\u{ord(m[0]):04x}"
        ),
        text,
    )


def visible(text: str) -> str:
    r"""Show control characters instead of obeying them; lines stay lines.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        c if c == "\n" or c == "\t" or c.isprintable() else c.encode("unicode_escape").decode()
        for c in spelled(text)
    )


def one_line(text: str) -> str:
    r"""Show line ends as well.

    Examples
    --------
    >>> one_line("a\nb")
    'a\\nb'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def colour() -> bool | None:
    """Say whether text may be coloured: not where NO_COLOR or TERM=dumb asks for none; None leaves it to the stream."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def folded(text: str, stream: Any) -> str:
    """Break long lines between words where the stream is a terminal, the rest of a line below its own text; a pipe gets lines whole."""
    if stream is None or not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    return "\n".join(_fold(line, width) for line in text.split("\n"))


def _fold(line: str, width: int) -> str:
    if len(line) <= width or re.search(r"\S {3,}\S.* {3,}\S", line):  # a row of a table stays one
        return line
    named = re.match(r" +\S+(?: \S+)* {2,}(?=\S)", line)
    deep = (
        len(named[0])
        if named and len(named[0]) <= width // 2
        else len(line) - len(line.lstrip()) + 2
    )
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * deep,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )


_OUTCOME = re.compile(r"^(  )?(ok|FAIL|Verified|NOT VERIFIED)(?=[ :])", re.MULTILINE)


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text; on a terminal its first line stands out, and what was checked is green or red."""
    first, _, rest = folded(visible(text), sys.stderr if err else sys.stdout).partition("\n")
    first, rest = (_OUTCOME.sub(_outcome, part) for part in (first, rest))
    click.echo(
        click.style(first, bold=True) + (f"\n{rest}" if rest else ""), err=err, color=colour()
    )


def _outcome(found: re.Match[str]) -> str:
    tint = "green" if found[2] in ("ok", "Verified") else "red"
    # ends the colour alone: the line may be bold
    return (found[1] or "") + click.style(found[2], fg=tint, reset=False) + "\x1b[39m"


def print_json(facts: Any) -> None:
    """Print facts as strict JSON."""
    click.echo(json.dumps(json_value(facts, spelled), ensure_ascii=False, allow_nan=False))


def format_error(error: R2BError | DataWarning) -> tuple[str, str]:
    """Give problem and remedy of an error or a warning in words of the command line: options instead of arguments.

    Examples
    --------
    >>> from r2b.errors import InputError
    >>> format_error(InputError("The argument y has no rows.", remedy="Pass small_groups='merge'."))
    ('The label has no rows.', 'Pass --small-groups merge.')
    """
    names = "|".join(_NAMES)
    problem = re.sub(
        rf"\bThe argument ({names})\b", lambda m: _NAMES[m[1]].capitalize(), error.problem
    )
    problem = re.sub(rf"\b(In|of) ({names})(?=[ ,.])", lambda m: f"{m[1]} {_NAMES[m[2]]}", problem)
    problem = re.sub(r"\b(?:sensitive|control)_features\[('[^']*')\]", r"column \1", problem)
    problem = _TRACE.sub(r" \1", problem)
    problem = _LEADING.sub(lambda m: f"--{_ARGUMENTS.get(m[1], m[1]).replace('_', '-')}", problem)
    remedy = error.remedy
    for ours, theirs in _REWORDED.items():
        remedy = remedy.replace(ours, theirs)
    remedy = as_options(remedy)
    problem = re.sub(r"^standard input\b", "Standard input", problem)
    return one_line(problem.strip()), one_line(remedy)


def as_options(text: str) -> str:
    """Write arguments of functions as options.

    Examples
    --------
    >>> as_options("Raise max_iter, or pass missing='group'.")
    'Raise --max-iter, or pass --missing group.'
    """
    text = _SPELLED.sub(
        lambda m: f"--{m[1].replace('_', '-')} {m[2] or m[3] or m[4]}".removesuffix(" True"), text
    )
    return _BARE.sub(lambda m: f"--{m[1].replace('_', '-')}", text)


_WORDS = {
    "Pass it as r2b.Continuous(column)": "Pass it with --continuous",
    "make it missing and pass": "make it missing with --na, and pass",
}


@contextlib.contextmanager
def printed_warnings(*, quiet: bool) -> Iterator[None]:
    """Print warnings about the data as notes while a command runs; whatever Python was told to do with warnings, they stop nothing.

    Parameters
    ----------
    quiet : bool
        Print none.
    """
    shown: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str, category: type[Warning], *where: Any, **further: Any
        ) -> None:
            if not isinstance(message, DataWarning):
                usual(message, category, *where, **further)
            elif not quiet and str(message) not in shown:
                shown.add(str(message))
                problem, remedy = format_error(message)
                for ours, theirs in _WORDS.items():
                    remedy = remedy.replace(ours, theirs)
                click.echo(folded(f"Note: {problem} {remedy}", sys.stderr), err=True)

        warnings.showwarning = show
        warnings.simplefilter("always", DataWarning)
        yield


def run(commands: click.Group, arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; every error of r2b becomes one paragraph on standard error."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    # A polite end request cleans up like Ctrl-C does; the default would leave files half written
    # beside their targets.
    before = (
        signal.signal(signal.SIGTERM, _asked_to_end)
        if threading.current_thread() is threading.main_thread()
        else None
    )
    try:
        if sys.stdout is None:
            raise ParameterError(
                "Standard output is closed.", remedy="Send it to a file, or to /dev/null."
            )
        with printed_warnings(quiet=not {"-q", "--quiet"}.isdisjoint(typed)):
            ended = commands.main(
                args=typed, prog_name="r2b", standalone_mode=False, obj=typed, color=colour()
            )
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
        _print(
            "UsageError",
            said if said.endswith((".", "?", "?)")) else f"{said}.",
            where.strip(),
            as_json,
        )
        return WRONG_USE
    if isinstance(error, OSError):
        what, remedy = (
            f"{visible(str(error.filename))} cannot be used",
            "Check the path and the disk.",
        )
        if error.filename is None:  # files are written with their names, so this is standard output
            _give_up_output()
            what, remedy, as_json = (
                "Standard output cannot be written",
                "Write to a file, or make room.",
                False,
            )
        _print(type(error).__name__, f"{what}: {error.strerror or error}.", remedy, as_json)
        return WRONG_USE
    fault = f"r2b failed where it should not: {type(error).__name__}: {visible(str(error))}."
    _print("Fault", fault, "Please report it, with what --debug prints.", as_json)
    return FAULT


def _print(kind: str, problem: str, remedy: str, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {"error": {"type": kind, "problem": problem, "remedy": remedy}}, ensure_ascii=False
            )
        )
    first, *rest = folded(f"Error: {problem} {remedy}".rstrip(), sys.stderr).split(":", 1)
    click.echo(
        f"{click.style(f'{first}:', fg='red', bold=True)}{rest[0]}", err=True, color=colour()
    )
