"""Options that several commands share, declared once, and read: tables where they lie, with roles, classes and numbers by class."""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any

import click

from r2b import Continuous, Membership, Scan
from r2b._files import did_you_mean
from r2b._files.formats import MOST_UNPACKED, as_text, unpacked_within
from r2b._labels.debiasing import CHOICES, DEFAULTS
from r2b.cli import completing
from r2b.cli.costs import costs_of
from r2b.cli.printing import spelled
from r2b.engines.files import EMPTY, FileSource, PassProgress
from r2b.engines.files.listing import Listing
from r2b.engines.roles import refuse_columns
from r2b.errors import InputError, ParameterError

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def together(*options: Decorator) -> Decorator:
    """Make one decorator of several, in the order in which help lists them."""

    def declare(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return declare


def gathered(name: str, names: Sequence[str], *options: Decorator) -> Decorator:
    """Declare options that the command gets together, as one dictionary of this name: those that are given, or have a default."""

    def declare(command: Command) -> Command:
        @wraps(command)
        def gather(*arguments: Any, **given: Any) -> Any:
            mine = {each: given.pop(each) for each in names}
            return command(
                *arguments,
                **{name: {each: value for each, value in mine.items() if value is not None}},
                **given,
            )

        return together(*options)(gather)

    return declare


def option_of_debias(name: str, help_text: str, **more: Any) -> Decorator:
    """Declare an option of ``debias`` with its default, its choices or its type."""
    usual = DEFAULTS[name]
    if usual is not None:
        more |= {
            "type": click.Choice(CHOICES[name]) if name in CHOICES else type(usual),
            "default": usual,
            "show_default": True,
        }
    return click.option("--" + name.replace("_", "-"), help=help_text, **more)


def column_option(name: str, help_text: str, *, several: bool = True) -> Decorator:
    """Declare an option that names a column, or several and may be repeated."""
    metavar = "COLUMNS" if several else "COLUMN"
    return click.option(
        f"--{name}",
        multiple=several,
        metavar=metavar,
        shell_complete=completing.columns,
        help=help_text,
    )


def file_option(name: str, help_text: str, **more: Any) -> Decorator:
    """Declare an option that names a file."""
    return click.option(
        f"--{name}", shell_complete=completing.files, help=help_text, **{"metavar": "PATH"} | more
    )


output_format = click.option(
    "--output-format", metavar="FORMAT", help="Format of the output, where its name does not tell."
)


def _tab(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Take what people type for a tab, which shells do not."""
    return "\t" if value == "\\t" else value


def _unpacked(context: click.Context, option: click.Parameter, value: int) -> None:
    """Let the limit hold for all files that the command reads."""
    context.with_resource(unpacked_within(value * 1_000_000))


reading = gathered(
    "reading",
    ("format", "encoding", "delimiter", "na", "sheet"),
    click.option(
        "--format",
        metavar="FORMAT",
        help="Format of the data: csv, tsv, jsonl, parquet, arrow or xlsx, such as csv.gz.",
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text files."),
    click.option(
        "--delimiter",
        metavar="CHAR",
        callback=_tab,
        help="Delimiter of CSV, where it is neither a comma nor plain from the header; '\\t' is a tab.",
    ),
    click.option(
        "--na",
        multiple=True,
        metavar="TEXT",
        help="Text of CSV and TSV that means missing; repeatable. By default an empty field.",
    ),
    click.option(
        "--sheet", metavar="NAME", help="Sheet of a workbook (.xlsx), where several have cells."
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


def _refuse_output(
    context: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    """Refuse a report on standard output before any work is done."""
    if value == "-":
        raise ParameterError(
            "A report cannot go to standard output.", remedy="Pass the name of a file.", path=value
        )
    return value


columns = together(
    column_option("label", "Column of class labels.", several=False),
    column_option(
        "label-columns",
        "Columns of probabilities instead, one per class: 'a,b,c', repeated, or a pattern such as 'p_*'.",
    ),
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
    click.option(
        "--families",
        type=click.Choice(CHOICES["families"]),
        help="Which crossings of sensitive columns count.",
    ),
    column_option("family", "A family of groups of its own, such as 'sex,race'; repeatable."),
    option_of_debias("missing", "Rows without a value of a sensitive or control column."),
    option_of_debias("min_group_size", "Fewest rows of a group."),
    option_of_debias(
        "small_groups", "Smaller groups: refused, put together, or left out with their labels kept."
    ),
    option_of_debias("absent", "Groups that a control value lacks."),
)

normalize = click.option(
    "--normalize", is_flag=True, help="Divide rows of probabilities by their sums first."
)

bounds = together(
    option_of_debias("bound", "What epsilon limits."),
    click.option(
        "--target",
        multiple=True,
        metavar="SHARE",
        help="With --bound target: 'population', or 'class=share' for each class.",
    ),
    option_of_debias("lam", "1 is squared distance; less changes fewer labels."),
    option_of_debias("objective", "Closest labels, or the fewest changed."),
    file_option(
        "costs",
        "Table of what it costs to turn one class (row) into another (column); or 'ordinal=low,middle,high': as many places as it goes.",
        metavar="FILE",
    ),
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
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print strict JSON on standard output, for machines.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors."),
    click.option(
        "--debug", is_flag=True, expose_value=False, help="Print the traceback of an error."
    ),
)

reports = together(
    gathered(
        "reports",
        ("html", "markdown"),
        file_option(
            "html", "Write a report, one self-contained HTML file.", callback=_refuse_output
        ),
        file_option("markdown", "Write the same report as Markdown.", callback=_refuse_output),
    ),
    click.option(
        "--suppress-below",
        type=click.IntRange(0),
        default=0,
        metavar="ROWS",
        help="In reports: hide figures of smaller cells.",
    ),
)

force = click.option("--force", is_flag=True, help="Replace files that are there.")

# options of the command line
_PARTS = ("label", "label_columns", "sensitive", "continuous", "membership", "control", "weight")


class Commands(click.Group):
    """A group that suggests a command where none has the name typed."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which is spelled like it."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            hint = did_you_mean(args[0], known) or f"The commands are {', '.join(known)}."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


def command_line() -> str:
    """Give the command as it was typed, so that it can be typed again."""
    return spelled(shlex.join(["r2b", *click.get_current_context().obj]))


def open_table(
    data: str | Listing,
    reading: dict[str, Any],
    *,
    threads: int | None = None,
    watch: Callable[[PassProgress], object] | None = None,
) -> tuple[Scan, FileSource]:
    """Open a file, a folder, a pattern or standard input."""
    source = FileSource.open(
        data, threads=threads, **{**reading, "na": tuple(reading["na"]) or EMPTY}
    )
    # numbers may be written as text in every format
    source = replace(source, watch=watch, spelled=True)
    return Scan(source), source


@contextmanager
def on_lines(source: FileSource) -> Iterator[None]:
    """Let an error about a row say on which line of the file it is."""
    try:
        yield
    except InputError as error:
        row = error.facts.get("row")
        try:
            place = source.place(row) if isinstance(row, int) and row >= 0 else ""
        except (IndexError, InputError):
            place = ""
        line = re.search(r"\(line \d+\)", place)
        if line is None or "line" in error.problem:
            raise
        start = f"In {source.name}, row {row}:"
        if error.problem.startswith(start):
            problem = error.problem.replace(start, f"{start[:-1]} {line[0]}:", 1)
        else:
            problem = f"{error.problem} In {source.name}, row {row} is on {line[0][1:-1]}."
        raise type(error)(problem, remedy=error.remedy, **error.facts) from error


def columns_of(source: FileSource, given: dict[str, Any]) -> dict[str, Any]:
    """Take the options that name columns out of those given, find the columns, and give them as :meth:`r2b.Scan.debias` takes them.

    Raises
    ------
    ParameterError
        A column is not there, or is to be two things.
    """
    label, label_columns, sensitive, continuous, membership, control, weight = (
        given.pop(name) for name in _PARTS
    )
    names = source.names
    if (label is None) == (not label_columns):
        raise ParameterError(
            "There must be either a label or columns of probabilities.",
            remedy="Pass --label COLUMN for classes, or --label-columns COLUMNS for probabilities.",
        )
    if (
        label is not None
        and label not in names
        and len(_split(label)) > 1
        and all(name in names for name in _split(label))
    ):
        raise ParameterError(
            f"--label names several columns: {label!r}.",
            remedy=f"For probabilities pass --label-columns {label!r}.",
        )
    if not (sensitive or continuous or membership):
        raise ParameterError(
            "No sensitive column is named.",
            remedy="Pass --sensitive COLUMN, or --continuous or --membership.",
        )
    labels = (label,) if label is not None else named(names, label_columns, patterns=True)
    categories, numbers, controls = (
        named(names, sensitive),
        named(names, continuous),
        named(names, control),
    )
    members = [_membership(names, each) for each in membership]
    chosen = [
        ("--label" if label is not None else "--label-columns", labels),
        ("--sensitive", categories),
        ("--continuous", numbers),
    ]
    chosen += [("--membership", columns) for _, columns in members]
    chosen += [("--control", controls), ("--weight", () if weight is None else (weight,))]
    for option, columns in chosen:
        source.check(columns, option)
    refuse_columns(names, chosen, source.name)
    if label is None and len(labels) < 2:
        raise ParameterError(
            f"--label-columns names one column, {labels[0]!r}; probabilities need one for every class.",
            remedy="Name them all, or pass --label if its values are classes.",
        )
    attributes = [
        *categories,
        *map(Continuous, numbers),
        *(Membership(list(columns), name=name) for name, columns in members),
    ]
    found: dict[str, Any] = {
        "label": label if label is not None else list(labels),
        "sensitive_features": attributes,
    }
    return found | {"control_features": list(controls) or None, "sample_weight": weight}


def named(names: Sequence[str], given: Sequence[str], *, patterns: bool = False) -> tuple[str, ...]:
    """Find columns: a name as it stands, a list with commas, or a pattern where they are welcome."""
    found: list[str] = []
    for each in given:
        if each in names:
            found.append(each)
            continue
        for name in _split(each):
            matching = (
                [known for known in names if fnmatchcase(known, name)]
                if patterns and name not in names
                else []
            )
            found += matching or [name]
    return tuple(dict.fromkeys(found))


def named_in(given: Sequence[str]) -> list[str]:
    """Give the names in options that may each hold several, with commas.

    Examples
    --------
    >>> named_in(["sex,race", "age"])
    ['sex', 'race', 'age']
    """
    return [name for each in given for name in _split(each)]


def _split(text: str) -> list[str]:
    return [] if not text else next(csv.reader([text]), [text])


def _membership(names: Sequence[str], text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, columns = text.partition("=")
    if not name or not equals:
        raise ParameterError(
            f"--membership is {text!r}.",
            remedy="Pass a name and its columns, such as sex=p_f,p_m.",
            membership=text,
        )
    return name, named(names, [columns], patterns=True)


def families_of(
    names: Sequence[str], choice: str | None, family: Sequence[str], default: str
) -> str | list[list[str]]:
    """Read ``--families`` and ``--family``."""
    if choice is not None and family:
        raise ParameterError("Both --families and --family are given.", remedy="Pass one of them.")
    if not family:
        return choice or default
    return [[each] if each in names else _split(each) for each in family]


def per_class(what: str, given: Sequence[str], classes: Sequence[Any]) -> Any:
    """Read one number for all classes, or one per class; a plain number among them is for the classes not named.

    Examples
    --------
    >>> per_class("--epsilon", ["0.1", "a=0.2"], ["a", "b"])
    {'a': 0.2, 'b': 0.1}
    """
    by_name: dict[Any, float] = {}
    others: float | None = None
    known = {as_text([value], what)[0]: value for value in classes}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
            if math.isnan(value):
                raise ValueError
        except ValueError:
            raise ParameterError(
                f"{what} is {text!r}.",
                remedy="Pass a number such as 0.01, or class=number.",
                value=text,
            ) from None
        if "=" not in text:
            if others is not None:
                raise ParameterError(
                    f"{what} gives two numbers for all classes.",
                    remedy="Pass one; write class=number for one class.",
                )
            others = value
            continue
        if name not in known:
            listed = ", ".join(map(repr, list(known)[:10]))
            remedy = (
                did_you_mean(name, list(known))
                or f"The classes are {listed}{', ...' if len(known) > 10 else ''}."
            )
            raise ParameterError(
                f"{what} names {name!r}, which is not a class.", remedy=remedy, class_name=name
            )
        by_name[known[name]] = value
    if not by_name:
        return others
    return by_name if others is None else {value: by_name.get(value, others) for value in classes}


def asked_of(
    given: Mapping[str, Any], names: tuple[str, ...], classes: list[Any]
) -> dict[str, Any]:
    """Read the options of a debiasing that name columns or classes."""
    asked = {name: value for name, value in given.items() if name != "family"}
    asked["families"] = families_of(names, given["families"], given["family"], "crossed")
    if "epsilon" in given:
        asked["epsilon"] = (
            per_class("--epsilon", given["epsilon"], classes) if given["epsilon"] else 0.0
        )
    target = given["target"]  # a word, or a share for each class
    asked["target"] = (
        target[0]
        if len(target) == 1 and "=" not in target[0]
        else per_class("--target", target, classes)
    )
    return asked | {"costs": None if given["costs"] is None else costs_of(given["costs"], classes)}
