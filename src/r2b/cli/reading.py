"""From options as they are typed to arguments of the library: tables, columns, classes, costs."""

from __future__ import annotations

import csv
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from r2b import Continuous, Membership
from r2b._constraints.bounds import PARAMETERS
from r2b._data.outcomes import Outcomes, read_outcomes
from r2b._data.vocabulary import Vocabulary
from r2b._files import did_you_mean
from r2b._files.formats import as_text
from r2b.cli.output import spelled
from r2b.engines.batch import numbers_of
from r2b.engines.files import FileSource, PassProgress
from r2b.engines.tables import roles_of
from r2b.errors import InputError, ParameterError

_TAGGED, _UNTAGGED = ("1", "1.0", "true"), ("0", "0.0", "false")


def command_line() -> str:
    """Return the command as it was typed, so that it can be typed again."""
    return spelled(shlex.join(["r2b", *click.get_current_context().obj]))


def typed_reading() -> dict[str, Any]:
    """Return how files are to be read, as far as it was typed."""
    return dict(click.get_current_context().meta.get("reading", {}))


def refuse_idle(idle: dict[str, str | bool]) -> None:
    """Refuse an option that is typed and has no effect; the values say why, or are false."""
    typed = click.get_current_context().get_parameter_source
    for name, why in idle.items():
        if why and typed(name) is ParameterSource.COMMANDLINE:
            raise ParameterError(f"`{name}` has no effect: {why}.", remedy="Leave it out.")


def open_table(
    data: Any, watch: Callable[[PassProgress], object] | None = None, threads: int | None = None
) -> FileSource:
    """Open a file, a folder, a pattern or standard input, with the options for reading."""
    source = FileSource.open(data, threads=threads, progress=watch, **typed_reading())
    return replace(source, spelled=True)  # numbers may be spelled as text in every format


@contextmanager
def on_lines(source: FileSource) -> Iterator[None]:
    """Let an error about a row of text say on which line of the file it is."""
    try:
        yield
    except InputError as error:
        row = error.facts.get("row")
        if not isinstance(row, int) or row < 0 or "(line " in error.problem:
            raise
        line = ""
        with suppress(IndexError, InputError):
            line = source.place(row).partition("(line ")[2].removesuffix(")")
        if not line:
            raise
        problem = f"{error.problem} Row {row} is on line {line}."
        raise error.changed(problem=problem, line=int(line)) from error


def columns_of(source: FileSource, given: dict[str, Any]) -> dict[str, Any]:
    """Take the options that name columns, and return the arguments that name them in Python.

    Raises
    ------
    ParameterError
        A column is not in the table, or has two roles.
    """
    names, label, weight = source.names, given.pop("label"), given.pop("sample_weight")
    several = named(names, given.pop("label_columns"), patterns=True)
    categories, numbers, controls = (
        named(names, given.pop(each))
        for each in ("sensitive_features", "continuous", "control_features")
    )
    members = [_membership(names, each) for each in given.pop("membership")]
    if (label is None) == (not several):
        raise _no_label("There must be either a label or columns of probabilities.")
    if label is not None and label not in names and {*named_in([label])} <= {*names}:
        problem = f"--label names several columns: {label!r}."
        raise _no_label(problem, f"For probabilities pass `label_columns={label!r}`.")
    if not (categories or numbers or members):
        raise no_sensitive("Pass `sensitive_features=...`, `continuous=...` or `membership=...`.")
    source.check(
        [
            ("--label-columns" if label is None else "--label", several or [label]),
            ("--sensitive", categories),
            ("--continuous", numbers),
            *(("--membership", columns) for _, columns in members),
            ("--control", controls),
            ("--weight", [] if weight is None else [weight]),
        ]
    )
    if len(several) == 1:
        raise _no_label(f"--label-columns names one column, {several[0]!r}, and not one per class.")
    classes = label is not None and "list" not in str(source.kind_of(label))
    refuse_idle(
        {
            "normalize": classes and "the labels are classes, not probabilities",
            "small_groups": not given["min_group_size"] and "`min_group_size` is not set",
            "absent": not controls and "no control column is named",
        }
    )
    uncertain = (Membership(columns, name=name) for name, columns in members)
    return {
        "label": several or label,
        "sensitive_features": [*categories, *map(Continuous, numbers), *uncertain],
        "control_features": controls or None,
        "sample_weight": weight,
    }


def no_sensitive(remedy: str) -> ParameterError:
    """Return the error for a command that names no sensitive column."""
    return ParameterError("No sensitive column is named.", remedy=remedy, code="no-sensitive")


def _no_label(
    problem: str,
    remedy: str = "Pass `label=...` for classes, or `label_columns=...` for probabilities.",
) -> ParameterError:
    return ParameterError(problem, remedy=remedy, code="no-label")


def tags_of(names: Sequence[str], given: dict[str, Any]) -> list[str]:
    """Take the options that name tags; the first one then stands for the label."""
    tags = named(names, given.pop("labels"), patterns=True)
    asked = given.pop("multilabel")
    if bool(tags) != asked or (tags and (given["label"] or given["label_columns"])):
        raise _no_label(
            "Several labels per row are named with --labels and --multilabel, and nothing else.",
            "Pass `labels=...` and `multilabel`, or `label=...` for one label per row.",
        )
    if tags:
        refuse_idle({"outcomes": "every tag is compared on its own"})
        given["label"] = tags[0]
    return tags


def rows_of_tags(
    source: FileSource, columns: dict[str, Any], tags: Sequence[str]
) -> dict[str, Any]:
    """Read tags with their groups and weights into memory, as arguments of ``r2b.audit``."""
    roles = roles_of(source, **columns)
    found = source.with_numbers(roles.numbers).columns([*tags, *roles.used])
    matrix = {}
    for tag in tags:
        texts = as_text(found[tag], tag)
        _refuse_no_tag(tag, sorted(set(texts)))
        matrix[tag] = [text.lower() in _TAGGED for text in texts]
    weight = roles.weights(found)
    return {"y": matrix, **roles.features(found), "sample_weight": weight, "multilabel": True}


def _refuse_no_tag(name: str, values: Sequence[Any]) -> None:
    """Refuse a column of other values than 0 and 1."""
    wrong = [value for value in values if str(value).lower() not in (*_TAGGED, *_UNTAGGED)]
    if wrong or len(values) > 2:
        value = (wrong or values)[0]
        raise InputError(
            f"The tag {name!r} has the value {value!r}.",
            remedy="Name columns of 0 and 1. Probabilities of tags are debiased in Python: "
            "r2b.debias(Y, multilabel=True).",
            column=name,
            value=value,
        )


def options_by_tag(
    names: Sequence[str], given: dict[str, Any], tags: Sequence[str], vocabularies: list[Vocabulary]
) -> list[dict[str, Any]]:
    """Return the options of each tag; the share of rows that have it is bounded."""
    limits = per_class("--epsilon", given["epsilon"] or ["0"], tags)
    found = []
    for tag, vocabulary in zip(tags, vocabularies, strict=True):
        values = vocabulary.values.tolist()
        _refuse_no_tag(tag, values)
        own = options_of(names, {**given, "epsilon": ()}, vocabulary)
        limit = limits.get(tag, math.inf) if isinstance(limits, dict) else limits
        found.append({**own, "epsilon": {values[-1]: limit}})
    return found


def named(names: Sequence[str], given: Sequence[str], *, patterns: bool = False) -> list[str]:
    """Find columns: a name as it is, a list with commas, or a pattern if these are welcome."""
    found: list[str] = []
    for each in given:
        for name in [each] if each in names else named_in([each]):
            alike = [known for known in names if patterns and fnmatchcase(known, name)]
            found += [name] if name in names else alike or [name]
    return list(dict.fromkeys(found))


def named_in(given: Sequence[str]) -> list[str]:
    """Return the names in options that may each hold several, with commas.

    Examples
    --------
    >>> named_in(["sex,race", "age"])
    ['sex', 'race', 'age']
    """
    return [name for each in given if each for name in next(csv.reader([each]), [each])]


def _membership(names: Sequence[str], text: str) -> tuple[str, list[str]]:
    name, columns = _assigned("membership", text, "a name and its columns, such as sex=p_f,p_m")
    return name, named(names, [columns], patterns=True)


def _assigned(option: str, text: str, what: str) -> tuple[str, str]:
    """Split ``name=value``."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ParameterError(f"--{option} is {text!r}.", remedy=f"Pass {what}.", value=text)
    return name, value


def families_of(names: Sequence[str], given: dict[str, Any], default: str | None = "both") -> Any:
    """Take ``--families`` and ``--family``, and return the families in Python's form.

    Every command has the default of :func:`r2b.audit`, so that labels are bounded where an audit
    looks at them.
    """
    choice, families = given.pop("families"), given.pop("family")
    if choice is not None and families:
        raise ParameterError("Both --families and --family are given.", remedy="Pass one of them.")
    if not families:
        return choice or default
    return [[each] if each in names else named_in([each]) for each in families]


def per_class(option: str, given: Sequence[str], classes: Sequence[Any] | None) -> Any:
    """Read one number for all classes, or one per class; None stands for groups, each with its own.

    A plain number beside ``class=number`` is for the classes that are not named.

    Examples
    --------
    >>> per_class("--epsilon", ["0.1", "a=0.2"], ["a", "b"])
    {'a': 0.2, 'b': 0.1}
    """
    known, by_class, others = _by_text(classes or ()), dict[Any, float](), list[float]()
    for text in given:
        name, equals, number = text.rpartition("=")
        value = math.nan
        with suppress(ValueError):
            value = float(number)
        if math.isnan(value) or (not equals and (others or classes is None)):
            remedy = "Pass one number such as 0.01, or class=number."
            if classes is None:
                remedy = "Pass 'equal', or group=share for each group."
            raise ParameterError(f"{option} is {text!r}.", remedy=remedy, value=text)
        if not equals:
            others.append(value)
        elif classes is None or name in known:
            by_class[known.get(name, name)] = value
        else:
            listed = ", ".join(map(repr, list(known)[:10])) + ", ..." * (len(known) > 10)
            raise ParameterError(
                f"{option} names {name!r}, which is not a class.",
                remedy=did_you_mean(name, list(known)) or f"The classes are {listed}.",
                code="unknown-class",
                class_name=name,
            )
    if not by_class or not others:
        return by_class or (others[0] if others else None)
    return {name: by_class.get(name, others[0]) for name in classes or by_class}


def _by_text(classes: Sequence[Any]) -> dict[str, Any]:
    """Return classes by the text that names them in a file."""
    return dict(zip(as_text(list(classes), "classes"), classes, strict=True))


def outcomes_of(given: Sequence[str], vocabulary: Vocabulary) -> Outcomes | None:
    """Read ``--outcomes``: an order of the classes, or which of them each outcome counts."""
    labels = vocabulary.values.tolist()
    known, asked = _by_text(labels), dict[str, Any]()
    if not given or tuple(given) == ("ordinal",):
        return read_outcomes(given[0] if given else None, labels, vocabulary)
    ways = "'ordinal=low,middle,high', or a name and classes for each outcome, such as "
    for text in given:
        name, classes = _assigned("outcomes", text, f"{ways}'degree=Bachelors,Masters'")
        if name in asked:
            problem = f"--outcomes names {name!r} twice."
            raise ParameterError(problem, remedy="Give each a name of its own.", outcomes=text)
        asked[name] = [known.get(each, each) for each in named_in([classes])]
    return read_outcomes(asked, labels, vocabulary)


def options_of(
    names: Sequence[str], given: dict[str, Any], vocabulary: Vocabulary
) -> dict[str, Any]:
    """Return the options of a debiasing, with those that name columns or classes read."""
    asked = {**given, "families": families_of(names, given)}
    del asked["family"]
    asked["outcomes"] = outcomes = outcomes_of(given["outcomes"], vocabulary)
    labels = vocabulary.values.tolist()
    classes = labels if outcomes is None else list(outcomes.names)
    if "epsilon" in given:
        asked["epsilon"] = per_class("--epsilon", given["epsilon"] or ["0"], classes)
    for name, (_, parameter) in PARAMETERS.items():
        if parameter.per_class:  # a word, or a share for each class
            words = given[name]
            plain = len(words) == 1 and "=" not in words[0]
            asked[name] = words[0] if plain else per_class(f"--{name}", words, classes)
    if given.get("costs") is not None:
        asked["costs"] = _costs(given["costs"], labels)
    return asked


def shares_of(given: Sequence[str]) -> Any:
    """Read what shares groups are to stand for.

    Examples
    --------
    >>> shares_of(["f=0.5", "m=0.5"]), shares_of(["equal"]), shares_of([])
    ({'f': 0.5, 'm': 0.5}, 'equal', None)
    """
    equal = list(given) == ["equal"]
    return "equal" if equal else per_class("--representation", given, None)


def cost_files(costs: str | None) -> tuple[str, ...]:
    """Return the file that ``--costs`` names, if it names one."""
    return () if costs is None or costs.partition("=")[0] == "ordinal" else (costs,)


def _costs(given: str, classes: Sequence[Any]) -> Any:
    """Read an order of the classes, or a table of costs with a row and a column per class."""
    known = _by_text(classes)
    word, equals, order = given.partition("=")
    if word == "ordinal":
        return {word: [known.get(name, name) for name in named_in([order])]} if equals else word
    source, names = FileSource.open(given), list(known)
    table = source.columns(source.names)
    first, *columns = source.names
    rows = as_text(table[first], first)
    if not sorted(names) == sorted(rows) == sorted(columns):
        raise InputError(
            f"The rows and columns of {source.name} are not the classes.",
            remedy="Name every class once as a row and as a column: "
            f"{', '.join(map(repr, names[:10]))}.",
            path=given,
        )
    costs = [np.asarray(numbers_of(table[name], name), np.float64) for name in names]
    return np.column_stack(costs)[[rows.index(name) for name in names]]
