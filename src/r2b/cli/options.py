"""Options that several commands share, declared once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from r2b._files import did_you_mean
from r2b._files.formats import MOST_UNPACKED, unpacked_within
from r2b._labels.debiasing import CHOICES, DEFAULTS
from r2b.cli import completing

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def together(*options: Decorator) -> Decorator:
    """Make one decorator of several, in the order in which help lists them."""

    def declare(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return declare


def option_of_debias(name: str, help_text: str, **more: Any) -> Decorator:
    """Declare an option of ``debias`` with its default, its choices or its type."""
    usual = DEFAULTS[name]
    if usual is not None:
        more |= {"type": click.Choice(CHOICES[name]) if name in CHOICES else type(usual), "default": usual, "show_default": True}
    return click.option("--" + name.replace("_", "-"), help=help_text, **more)


def column_option(name: str, help_text: str, *, several: bool = True) -> Decorator:
    """Declare an option that names a column, or several and may be repeated."""
    metavar = "COLUMNS" if several else "COLUMN"
    return click.option(f"--{name}", multiple=several, metavar=metavar, shell_complete=completing.columns, help=help_text)


def file_option(name: str, help_text: str, *, metavar: str = "PATH") -> Decorator:
    """Declare an option that names a file."""
    return click.option(f"--{name}", metavar=metavar, shell_complete=completing.files, help=help_text)


output_format = click.option("--output-format", metavar="FORMAT", help="Format of the output, where its name does not tell.")


def _tab(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Take what people type for a tab, which shells do not."""
    return "\t" if value == "\\t" else value


def _unpacked(context: click.Context, option: click.Parameter, value: int) -> None:
    """Let the limit hold for all files that the command reads."""
    context.with_resource(unpacked_within(value * 1_000_000))


_reading = together(
    click.option("--format", metavar="FORMAT", help="Format of the data: csv, tsv, jsonl, parquet or arrow, such as csv.gz."),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text files."),
    click.option(
        "--delimiter",
        metavar="CHAR",
        callback=_tab,
        help="Delimiter of CSV, where it is neither a comma nor plain from the header; '\\t' is a tab.",
    ),
    click.option(
        "--na", multiple=True, metavar="TEXT", help="Text of CSV and TSV that means missing; repeatable. By default an empty field."
    ),
    click.option(
        "--max-unpacked",
        type=click.IntRange(min=1),
        default=MOST_UNPACKED // 1_000_000,
        show_default=True,
        metavar="MB",
        callback=_unpacked,
        expose_value=False,
        help="Most that a file may grow to when it is unpacked into memory.",
    ),
)


def reading(command: Command) -> Command:
    """Declare how files are read; the command gets it as one dictionary, ``reading``."""

    @wraps(command)
    def gathered(*arguments: Any, **given: Any) -> Any:
        return command(*arguments, reading={name: given.pop(name) for name in ("format", "encoding", "delimiter", "na")}, **given)

    return _reading(gathered)


columns = together(
    column_option("label", "Column of class labels.", several=False),
    column_option("label-columns", "Columns of probabilities instead, one per class: 'a,b,c', repeated, or a pattern such as 'p_*'."),
    column_option("sensitive", "Sensitive columns: repeated, or 'sex,race'."),
    column_option("continuous", "Sensitive columns of numbers, taken without cutting into groups."),
    click.option(
        "--membership",
        multiple=True,
        metavar="NAME=COLUMNS",
        help="A sensitive attribute known by probabilities: 'sex=p_f,p_m'; repeatable.",
    ),
    column_option("control", "Columns within whose values groups are compared."),
    column_option("weight", "Column of row weights.", several=False),
)

groups = together(
    click.option("--families", type=click.Choice(CHOICES["families"]), help="Which crossings of sensitive columns count."),
    column_option("family", "A family of groups of its own, such as 'sex,race'; repeatable."),
    option_of_debias("missing", "Rows without a value of a sensitive or control column."),
    option_of_debias("min_group_size", "Fewest rows of a group."),
    option_of_debias("small_groups", "Smaller groups: refused, put together, or left out with their labels kept."),
    option_of_debias("absent", "Groups that a control value lacks."),
)

normalize = click.option("--normalize", is_flag=True, help="Divide rows of probabilities by their sums first.")

bounds = together(
    option_of_debias("bound", "What epsilon limits."),
    click.option("--target", multiple=True, metavar="SHARE", help="With --bound target: 'population', or 'class=share' for each class."),
    option_of_debias("lam", "1 is squared distance; less changes fewer labels."),
    option_of_debias("objective", "Closest labels, or the fewest changed."),
    file_option("costs", "Table of what it costs to turn one class (row) into another (column).", metavar="FILE"),
    normalize,
)

solving = together(
    option_of_debias("tol", "Residual at which a problem is solved."),
    option_of_debias("max_iter", "Most steps."),
    option_of_debias("time_limit", "Most seconds.", type=float, metavar="SECONDS"),
    option_of_debias("kernel", "Who walks the rows."),
    option_of_debias("threads", "All cores by default.", type=int, metavar="N"),
)

verbosity = together(
    click.option("--json", "as_json", is_flag=True, help="Print strict JSON on standard output, for machines."),
    click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors."),
    click.option("--debug", is_flag=True, expose_value=False, help="Print the traceback of an error."),
)

reports = together(
    file_option("html", "Write a report, one self-contained HTML file."),
    file_option("markdown", "Write the same report as Markdown."),
)

force = click.option("--force", is_flag=True, help="Replace files that are there.")


class Commands(click.Group):
    """A group that suggests a command where none has the name typed."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which is spelled like it."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            hint = did_you_mean(args[0], known) or f"The commands are {', '.join(known)}."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)
