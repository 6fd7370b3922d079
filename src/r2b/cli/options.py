"""Every option of the command line, declared once: how it is typed, its help and its default.

An option has the name of the library's argument that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click
from click.core import ParameterSource

from r2b._constraints.bounds import PARAMETERS
from r2b._files.formats import MOST_UNPACKED, unpacked_within
from r2b._labels.debiasing import CHOICES, DEFAULTS
from r2b._labels.labels import Form

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Option = tuple[str, dict[str, Any]]

FILE = click.Path()
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
_POSITIVE = click.FloatRange(0, min_open=True)


def argument(name: str, **more: Any) -> Decorator:
    """Declare an argument that names a file."""
    return click.argument(name, type=FILE, **more)


def _option(help: str, typed: str = "", **more: Any) -> Option:
    """Describe an option; it is typed like its name if nothing else is said."""
    return typed, {"help": help, "show_default": more.get("default") is not None, **more}


def _column(help: str, typed: str = "", **more: Any) -> Option:
    return _option(help, typed, metavar="COLUMN", **more)


def _several(help: str, typed: str = "", metavar: str = "COLUMNS") -> Option:
    return _option(help, typed, multiple=True, metavar=metavar)


def _file(help: str, typed: str = "", **more: Any) -> Option:
    return _option(help, typed, type=FILE, **more)


def _of_debias(name: str, help: str, kind: Any = None) -> Option:
    """Describe an option of ``debias`` with its default there."""
    kind = click.Choice(CHOICES[name]) if name in CHOICES else kind
    return _option(help, type=kind, default=DEFAULTS[name])


def _unpacked(context: click.Context, option: click.Parameter, value: int) -> None:
    context.with_resource(unpacked_within(value * 1_000_000))


def _not_nan(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value != value:
        raise click.BadParameter("nan is no number", context, option)
    return value


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[str(option.name)] = value


def _note_reading(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Note how files are to be read, where it was typed."""
    name = str(option.name)
    if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
        # shells do not take a tab
        context.meta.setdefault("reading", {})[name] = "\t" if value == "\\t" else value


def _reading(help: str, **more: Any) -> Option:
    return _option(help, callback=_note_reading, expose_value=False, **more)


_NOTED: dict[str, Any] = {"callback": _note, "expose_value": False}

_OPTIONS: dict[str, Option] = {
    # the data and their columns
    "label": _column("Column of class labels."),
    "label_columns": _several(
        "Columns of probabilities instead, one per class: 'a,b,c', or a pattern such as 'p_*'."
    ),
    "labels": _several("With --multilabel: columns of 0 and 1, one for each tag."),
    "multilabel": _option(
        "A row may have any number of labels: each of --labels is debiased on its own. Epsilon may "
        "be given by tag, 'dog=0.02'.",
        is_flag=True,
    ),
    "sensitive_features": _several("Sensitive columns: repeated, or 'sex,race'.", "--sensitive"),
    "continuous": _several("Sensitive columns of numbers, not cut into groups."),
    "membership": _several(
        "A sensitive attribute known by probabilities: 'sex=p_f,p_m'; repeatable.",
        metavar="NAME=COLUMNS",
    ),
    "control_features": _several("Columns within whose values groups are compared.", "--control"),
    "sample_weight": _column("Column of row weights.", "--weight"),
    "clusters": _column(
        "Column that says which rows belong together, such as those of one patient."
    ),
    "key": _several("For round and sample: columns that decide the draw of a row."),
    "prediction": _column("Column of decisions, one class per row.", required=True),
    "plain": _column("Column of the decisions to compare with, such as those before."),
    "report.label": _column("Column of true classes."),
    # what is asked of the groups
    "families": _option(
        "Which crossings of sensitive columns count; 'both' by default.",
        type=click.Choice(CHOICES["families"]),
    ),
    "family": _several("A family of groups of its own: 'sex,race'; repeatable."),
    "missing": _of_debias("missing", "Rows without a value of a sensitive or control column."),
    "min_group_size": _of_debias("min_group_size", "Fewest rows of a group.", click.IntRange(0)),
    "small_groups": _of_debias("small_groups", "What becomes of smaller groups."),
    "absent": _of_debias("absent", "Groups that a control value lacks."),
    "epsilon": _several(
        "Accepted difference, 0 by default; or 'class=number', repeated.", metavar="NUMBER"
    ),
    "audit.epsilon": _option(
        "For the report: the epsilon of the labels that it describes.",
        type=click.FloatRange(0),
        default=0.01,
    ),
    "report.epsilon": _option(
        "The difference that was asked of the model; the report says whether it is met.",
        type=click.FloatRange(0, 1),
    ),
    "confidence": _option("Confidence of the promise about new rows.", default=0.95, type=_SHARE),
    "epsilons": _several("Epsilons to solve for: '0,0.01,0.05', or repeated.", metavar="NUMBERS"),
    "points": _option(
        "Or how many, from 0 to where the labels are fair as they are; 20 by default.",
        type=click.IntRange(1),
    ),
    "bound": _of_debias("bound", "What epsilon limits."),
    **{
        name: _option(f"With --bound {bound}: {each.help}", multiple=each.per_class)
        for name, (bound, each) in PARAMETERS.items()
    },
    "max_weight": _option("The largest weight of a row; any by default.", type=click.FloatRange(1)),
    "representation": _several(
        "What share of the rows each group is to stand for: 'equal', or 'group=share' for each.",
        metavar="SHARES",
    ),
    "outcomes": _several(
        "Compare shares of 'at least k': 'ordinal', or 'ordinal=low,middle,high'; or of merged "
        "classes: 'degree=Bachelors,Masters', repeated.",
        metavar="NAME=CLASSES",
    ),
    "objective": _of_debias("objective", "The closest labels, or the fewest changes."),
    "lam": _of_debias("lam", "1 is squared distance; less changes fewer labels.", _POSITIVE),
    "costs": _file(
        "Table of what turning a class (row) into another (column) costs; or the order of the "
        "classes, 'ordinal=low,middle,high'."
    ),
    "normalize": _option("Divide rows of probabilities by their sums first.", is_flag=True),
    # how it is solved
    "tol": _of_debias("tol", "Residual at which a problem is solved.", _POSITIVE),
    "max_iter": _of_debias("max_iter", "Most steps.", click.IntRange(0)),
    "time_limit": _of_debias(
        "time_limit", "Most seconds; no limit by default.", click.FloatRange(0)
    ),
    "threads": _of_debias("threads", "All cores by default.", click.IntRange(1)),
    # chance
    "n_permutations": _option(
        "How often chance is drawn; 0 leaves it out.",
        "--permutations",
        type=click.IntRange(0),
        default=200,
    ),
    "n_boot": _option(
        "Resamples for intervals; 0 leaves them out.",
        "--bootstrap",
        type=click.IntRange(0),
        default=500,
    ),
    "level": _option("Level of the intervals.", default=0.95, type=_SHARE),
    "n_largest": _option(
        "How many groups are listed.", "--largest", type=click.IntRange(0), default=10
    ),
    "random_state": _option(
        "The same number gives the same draws.", default=0, type=click.IntRange(0, 2**63 - 1)
    ),
    "max_disparity": _option(
        "End with code 1 if the disparity of a family is larger; no limit by default.",
        type=click.FloatRange(0),
        callback=_not_nan,
    ),
    # what is written
    "output": _file("Write a table as well.", "--output -o"),
    "table.output": _file("File to write; - is standard output.", "--output -o", required=True),
    "output_format": _option("Format of the output, if its name does not tell.", metavar="FORMAT"),
    "save": _file("File for the rule, which r2b.load reads."),
    "weight.new_column": _option(
        "Name of the new column; multiply it with that of --weight.",
        default="weight",
        metavar="NAME",
    ),
    "form": _option(
        "Form in which labels are returned.", type=click.Choice(get_args(Form)), default="soft"
    ),
    "new_column": _option(
        "Name of the new column, or the beginning of new names; '<label>_fair' by default.",
        metavar="NAME",
    ),
    "certificate": _file("File of the certificate; OUTPUT.r2b.json by default."),
    "html": _file("Write a report as one HTML file."),
    "markdown": _file("Write the report as Markdown."),
    "report.output": _file(
        "The report: a file that ends in .html, .md or .json.", "--output -o", required=True
    ),
    "purpose": _option("What the model is for, to be stated.", metavar="TEXT"),
    "owner": _option("Who answers for it, to be stated.", metavar="TEXT"),
    "suppress_below": _option(
        "In reports: hide figures of smaller cells.", type=click.IntRange(0), default=0
    ),
    "force": _option("Replace files that exist.", is_flag=True, **_NOTED),
    # what verify requires
    "verify.label": _several("Require this label.", metavar="COLUMN"),
    "verify.sensitive_features": _several("Require these attributes, all compared.", "--sensitive"),
    "verify.control_features": _several("Require these control columns; '' for none.", "--control"),
    "verify.sample_weight": _column("Require these weights; '' for none.", "--weight"),
    "verify.epsilon": _several("Require at most this.", metavar="NUMBER"),
    "verify.family": _several("Require this family of groups: 'sex,race'; repeatable."),
    "verify.outcomes": _several("Require that these are compared.", metavar="NAME=CLASSES"),
    "verify.columns": _several("Require that these hold the new labels."),
    **{
        f"verify.{name}": _option(f"Require this: {words}.", type=click.Choice(choices))
        for name, words, choices in (
            ("bound", "what epsilon limits", CHOICES["bound"]),
            ("families", "which crossings of sensitive columns count", CHOICES["families"]),
            ("missing", "what became of rows without a value", CHOICES["missing"]),
            ("small_groups", "what became of small groups", CHOICES["small_groups"]),
            ("form", "the form of the labels", get_args(Form)),
        )
    },
    "verify.min_group_size": _option(
        "Require so many rows of every group.", type=click.IntRange(0)
    ),
    "verify.strict": _option(
        "Require the plain reading of all that is not required by name: every value a group, bound "
        "range, no weights, no control columns, nothing merged or left out.",
        is_flag=True,
    ),
    "verify.data": _file("The table that was debiased, if OUTPUT lacks its columns."),
    # how files are read
    "format": _reading(
        "Format of the data: csv, tsv, jsonl, parquet, arrow or xlsx, such as csv.gz.",
        metavar="FORMAT",
    ),
    "encoding": _reading("Encoding of text files.", default="utf-8"),
    "delimiter": _reading(
        "Delimiter of CSV, if the header does not show it; '\\t' is a tab.", metavar="CHAR"
    ),
    "decimal": _reading(
        "Decimal mark of numbers that are spelled as text.",
        type=click.Choice([".", ","]),
        default=".",
    ),
    "na": _reading(
        "Text of CSV and TSV that means missing; repeatable. An empty field by default.",
        multiple=True,
        metavar="TEXT",
    ),
    "sheet": _reading("Sheet of a workbook, if several have cells.", metavar="NAME"),
    "max_unpacked": _option(
        "Most that a file may grow to when it is unpacked into memory.",
        type=click.IntRange(1),
        default=MOST_UNPACKED // 1_000_000,
        metavar="MB",
        callback=_unpacked,
        expose_value=False,
    ),
    # what is printed
    "json": _option("Print strict JSON on standard output.", is_flag=True, **_NOTED),
    "quiet": _option("Print nothing but errors.", "--quiet -q", is_flag=True, **_NOTED),
    "debug": _option("Print the traceback of an error.", is_flag=True, expose_value=False),
}

CLAIMS = tuple(name for name in _OPTIONS if name.startswith("verify."))
ROLES = (
    *("label", "label_columns", "sensitive_features", "continuous", "membership"),
    *("control_features", "sample_weight"),
)
TAGS = ("labels", "multilabel")
GROUPS = ("families", "family", "missing", "min_group_size", "small_groups", "absent")
BOUNDS = ("bound", *PARAMETERS, "outcomes", "lam", "objective", "costs", "normalize")
SOLVER = ("tol", "max_iter", "time_limit", "threads")
DRAWS = ("n_permutations", "n_boot", "level", "random_state")
REPORTS = ("html", "markdown", "suppress_below")
READING = ("format", "encoding", "delimiter", "decimal", "na", "sheet", "max_unpacked")
PRINTING = ("json", "quiet", "debug")


def takes(*names: str) -> Decorator:
    """Declare options of a command, in the order in which its help lists them."""

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(names):
            (typed, more), name = _OPTIONS[each], each.rpartition(".")[2]
            flags = typed.split() or [f"--{name.replace('_', '-')}"]
            command = click.option(*flags, name, **more)(command)
        return command

    return declare
