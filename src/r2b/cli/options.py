"""Every option of the command line, declared once: its name, help and default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from r2b._constraints.bounds import PARAMETERS
from r2b._files.formats import MOST_UNPACKED, unpacked_within
from r2b._labels.debiasing import CHOICES, DEFAULTS
from r2b._labels.labels import Form

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


FILE = click.Path()


def argument(name: str, **more: Any) -> Decorator:
    """Declare an argument that names a file."""
    return click.argument(name, type=FILE, **more)


def _option(name: str, help: str, **more: Any) -> Decorator:
    return click.option(f"--{name}", help=help, **more)


def _several(name: str, help: str, metavar: str = "COLUMNS") -> Decorator:
    return _option(name, help, multiple=True, metavar=metavar)


def _of_debias(name: str, help: str, kind: Any = None) -> Decorator:
    """Declare an option of ``debias`` with its default there."""
    usual = DEFAULTS[name]
    kind = click.Choice(CHOICES[name]) if name in CHOICES else kind
    more = {} if usual is None else {"default": usual, "show_default": True}
    return _option(name.replace("_", "-"), help, type=kind, **more)


def _number(name: str, help: str, default: float, least: float = 0) -> Decorator:
    kind = click.IntRange(int(least)) if isinstance(default, int) else click.FloatRange(least)
    return _option(name, help, default=default, show_default=True, type=kind)


def _tab(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    return "\t" if value == "\\t" else value  # shells do not take a tab


def _unpacked(context: click.Context, option: click.Parameter, value: int) -> None:
    context.with_resource(unpacked_within(value * 1_000_000))


def _not_nan(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value != value:
        raise click.BadParameter("nan is no number", context, option)
    return value


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[str(option.name)] = value


_NOTED: dict[str, Any] = {"callback": _note, "expose_value": False}

_OPTIONS: dict[str, Decorator] = {
    # the data and their columns
    "label": _option("label", "Column of class labels.", metavar="COLUMN"),
    "label_columns": _several(
        "label-columns",
        "Columns of probabilities instead, one per class: 'a,b,c', or a pattern such as 'p_*'.",
    ),
    "labels": _several("labels", "With --multilabel: columns of 0 and 1, one for each tag."),
    "multilabel": _option(
        "multilabel",
        "A row may have any number of labels: each of --labels is debiased on its own. Epsilon may "
        "be given by tag, 'dog=0.02'.",
        is_flag=True,
    ),
    "sensitive": _several("sensitive", "Sensitive columns: repeated, or 'sex,race'."),
    "continuous": _several("continuous", "Sensitive columns of numbers, not cut into groups."),
    "membership": _several(
        "membership",
        "A sensitive attribute known by probabilities: 'sex=p_f,p_m'; repeatable.",
        "NAME=COLUMNS",
    ),
    "control": _several("control", "Columns within whose values groups are compared."),
    "weight": _option("weight", "Column of row weights.", metavar="COLUMN"),
    "clusters": _option(
        "clusters",
        "Column that says which rows belong together, such as those of one patient.",
        metavar="COLUMN",
    ),
    "key": _several("key", "For round and sample: columns that decide the draw of a row."),
    "prediction": _option(
        "prediction", "Column of decisions, one class per row.", metavar="COLUMN", required=True
    ),
    "plain": _option(
        "plain", "Column of the decisions to compare with, such as those before.", metavar="COLUMN"
    ),
    "true_label": _option("label", "Column of true classes.", metavar="COLUMN"),
    # what is asked of the groups
    "families": _option(
        "families",
        "Which crossings of sensitive columns count; 'both' by default.",
        type=click.Choice(CHOICES["families"]),
    ),
    "family": _several("family", "A family of groups of its own: 'sex,race'; repeatable."),
    "missing": _of_debias("missing", "Rows without a value of a sensitive or control column."),
    "min_group_size": _of_debias("min_group_size", "Fewest rows of a group.", click.IntRange(0)),
    "small_groups": _of_debias("small_groups", "What becomes of smaller groups."),
    "absent": _of_debias("absent", "Groups that a control value lacks."),
    "epsilon": _option(
        "epsilon",
        "Accepted difference, 0 by default; or 'class=number', repeated.",
        multiple=True,
        metavar="NUMBER",
    ),
    "report_epsilon": _option(
        "epsilon",
        "For the report: the epsilon of the labels that it describes.",
        type=click.FloatRange(0),
        default=0.01,
        show_default=True,
    ),
    "asked_epsilon": _option(
        "epsilon", "The difference that was asked of the model.", type=click.FloatRange(0, 1)
    ),
    "confidence": _option(
        "confidence",
        "Confidence of the promise about new rows.",
        default=0.95,
        show_default=True,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
    ),
    "epsilons": _option(
        "epsilons",
        "Epsilons to solve for: '0,0.01,0.05', or repeated.",
        multiple=True,
        metavar="NUMBERS",
    ),
    "points": _option(
        "points",
        "Or how many, from 0 to where the labels are fair as they are; 20 by default.",
        type=click.IntRange(1),
    ),
    "bound": _of_debias("bound", "What epsilon limits."),
    **{
        name: _option(name, f"With --bound {bound}: {each.help}", multiple=each.per_class)
        for name, (bound, each) in PARAMETERS.items()
    },
    "max_weight": _option(
        "max-weight", "The largest weight of a row; any by default.", type=click.FloatRange(1)
    ),
    "representation": _several(
        "representation",
        "What share of the rows each group is to stand for: 'equal', or 'group=share' for each.",
        "SHARES",
    ),
    "outcomes": _several(
        "outcomes",
        "Compare shares of 'at least k': 'ordinal', or 'ordinal=low,middle,high'; or of merged "
        "classes: 'degree=Bachelors,Masters', repeated.",
        "NAME=CLASSES",
    ),
    "objective": _of_debias("objective", "The closest labels, or the fewest changes."),
    "lam": _of_debias(
        "lam",
        "1 is squared distance; less changes fewer labels.",
        click.FloatRange(0, min_open=True),
    ),
    "costs": _option(
        "costs",
        "Table of what turning a class (row) into another (column) costs; or the order of the "
        "classes, 'ordinal=low,middle,high'.",
        type=FILE,
    ),
    "normalize": _option(
        "normalize", "Divide rows of probabilities by their sums first.", is_flag=True
    ),
    # how it is solved
    "tol": _of_debias(
        "tol", "Residual at which a problem is solved.", click.FloatRange(0, min_open=True)
    ),
    "max_iter": _of_debias("max_iter", "Most steps.", click.IntRange(0)),
    "time_limit": _of_debias(
        "time_limit", "Most seconds; no limit by default.", click.FloatRange(0)
    ),
    "threads": _of_debias("threads", "All cores by default.", click.IntRange(1)),
    # chance
    "permutations": _number("permutations", "How often chance is drawn; 0 leaves it out.", 200),
    "bootstrap": _number("bootstrap", "Resamples for intervals; 0 leaves them out.", 500),
    "level": _option(
        "level",
        "Level of the intervals.",
        default=0.95,
        show_default=True,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
    ),
    "largest": _number("largest", "How many groups are listed.", 10),
    "random_state": _option(
        "random-state",
        "The same number gives the same draws.",
        default=0,
        show_default=True,
        type=click.IntRange(0, 2**63 - 1),
    ),
    "max_disparity": _option(
        "max-disparity",
        "End with code 1 if the disparity of a family is larger; no limit by default.",
        type=click.FloatRange(0),
        callback=_not_nan,
    ),
    # what is written
    "output": click.option("--output", "-o", type=FILE, help="Write a table as well."),
    "new_table": click.option(
        "--output", "-o", type=FILE, required=True, help="File to write; - is standard output."
    ),
    "output_format": _option(
        "output-format", "Format of the output, if its name does not tell.", metavar="FORMAT"
    ),
    "saved": _option("save", "File for the rule, which r2b.load reads.", type=FILE),
    "weight_column": _option(
        "new-column", "Name of the new column.", default="weight", show_default=True, metavar="NAME"
    ),
    "form": _option(
        "form",
        "Form in which labels are returned.",
        type=click.Choice(get_args(Form)),
        default="soft",
        show_default=True,
    ),
    "new_column": _option(
        "new-column",
        "Name of the new column, or the beginning of new names; '<label>_fair' by default.",
        metavar="NAME",
    ),
    "certificate": _option(
        "certificate", "File of the certificate; OUTPUT.r2b.json by default.", type=FILE
    ),
    "html": _option("html", "Write a report as one HTML file.", type=FILE),
    "markdown": _option("markdown", "Write the report as Markdown.", type=FILE),
    "report_file": click.option(
        "--output",
        "-o",
        type=FILE,
        required=True,
        help="The report: a file that ends in .html, .md or .json.",
    ),
    "purpose": _option("purpose", "What the model is for, to be stated.", metavar="TEXT"),
    "owner": _option("owner", "Who answers for it, to be stated.", metavar="TEXT"),
    "suppress_below": _number("suppress-below", "In reports: hide figures of smaller cells.", 0),
    "force": _option("force", "Replace files that exist.", is_flag=True),
    # what verify requires
    "claimed_label": _option("label", "Require this label.", metavar="COLUMN"),
    "claimed_sensitive": _several("sensitive", "Require these attributes, all compared."),
    "claimed_control": _several("control", "Require these control columns; '' for none."),
    "claimed_weight": _option("weight", "Require these weights; '' for none.", metavar="COLUMN"),
    "claimed_epsilon": _option("epsilon", "Require at most this.", multiple=True, metavar="NUMBER"),
    "claimed_family": _several("family", "Require this family of groups: 'sex,race'; repeatable."),
    "claimed_outcomes": _several("outcomes", "Require that these are compared.", "NAME=CLASSES"),
    "claimed_columns": _several("columns", "Require that these hold the new labels."),
    **{
        f"claimed_{name}": _option(
            name.replace("_", "-"), f"Require this: {words}.", type=click.Choice(choices)
        )
        for name, words, choices in (
            ("bound", "what epsilon limits", CHOICES["bound"]),
            ("families", "which crossings of sensitive columns count", CHOICES["families"]),
            ("missing", "what became of rows without a value", CHOICES["missing"]),
            ("small_groups", "what became of small groups", CHOICES["small_groups"]),
            ("form", "the form of the labels", get_args(Form)),
        )
    },
    "claimed_size": _option(
        "min-group-size", "Require so many rows of every group.", type=click.IntRange(0)
    ),
    "strict": _option(
        "strict",
        "Require the plain reading of all that is not required by name: every value a group, bound "
        "range, no weights, no control columns, nothing merged or left out.",
        is_flag=True,
    ),
    "debiased": _option(
        "data", "The table that was debiased, if OUTPUT lacks its columns.", type=FILE
    ),
    # how files are read
    "format": _option(
        "format",
        "Format of the data: csv, tsv, jsonl, parquet, arrow or xlsx, such as csv.gz.",
        metavar="FORMAT",
    ),
    "encoding": _option("encoding", "Encoding of text files.", default="utf-8", show_default=True),
    "delimiter": _option(
        "delimiter",
        "Delimiter of CSV, if the header does not show it; '\\t' is a tab.",
        metavar="CHAR",
        callback=_tab,
    ),
    "decimal": _option(
        "decimal",
        "Decimal mark of numbers that are spelled as text.",
        type=click.Choice([".", ","]),
        default=".",
        show_default=True,
    ),
    "na": _option(
        "na",
        "Text of CSV and TSV that means missing; repeatable. An empty field by default.",
        multiple=True,
        metavar="TEXT",
    ),
    "sheet": _option("sheet", "Sheet of a workbook, if several have cells.", metavar="NAME"),
    "max_unpacked": _option(
        "max-unpacked",
        "Most that a file may grow to when it is unpacked into memory.",
        type=click.IntRange(1),
        default=MOST_UNPACKED // 1_000_000,
        show_default=True,
        metavar="MB",
        callback=_unpacked,
        expose_value=False,
    ),
    # what is printed
    "json": click.option(
        "--json", is_flag=True, help="Print strict JSON on standard output.", **_NOTED
    ),
    "quiet": click.option(
        "--quiet", "-q", is_flag=True, help="Print nothing but errors.", **_NOTED
    ),
    "debug": _option("debug", "Print the traceback of an error.", is_flag=True, expose_value=False),
}

CLAIMS = tuple(name for name in _OPTIONS if name.startswith("claimed_"))
CLAIMS += ("strict",)
READING = ("format", "encoding", "delimiter", "decimal", "na", "sheet")
ROLES = ("label", "label_columns", "sensitive", "continuous", "membership", "control", "weight")
TAGS = ("labels", "multilabel")
GROUPS = ("families", "family", "missing", "min_group_size", "small_groups", "absent")
BOUNDS = ("bound", *PARAMETERS, "outcomes", "lam", "objective", "costs", "normalize")
SOLVER = ("tol", "max_iter", "time_limit", "threads")
DRAWS = ("permutations", "bootstrap", "level", "random_state")
REPORTS = ("html", "markdown", "suppress_below")
PRINTING = ("json", "quiet", "debug")


def takes(*names: str) -> Decorator:
    """Declare options of a command, in the order in which its help lists them."""

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            command = _OPTIONS[name](command)
        return command

    return declare
