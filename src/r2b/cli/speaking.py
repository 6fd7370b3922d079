"""What is printed: plain text that no column name can turn into something else, strict JSON, errors in words of the command line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from r2b.errors import InputError, R2BError
from r2b.tables import Table

_OPTIONS = (
    *("families", "bound", "target", "missing", "min_group_size", "small_groups", "absent", "normalize", "lam", "objective"),
    *("epsilon", "epsilons", "costs", "tol", "max_iter", "time_limit", "new_column", "key", "na", "encoding", "format"),
)
_SPELLED = re.compile(rf"\b({'|'.join(_OPTIONS)})=(?:'([^']*)'|\"([^\"]*)\"|([\w.]+))")
_BARE = re.compile(rf"(?<![-\w])({'|'.join(name for name in _OPTIONS if '_' in name)})\b")
_NAMES = {
    "y": "the label",
    "sensitive_features": "the sensitive columns",
    "control_features": "the control columns",
    "sample_weight": "the weights",
}


def visible(text: str) -> str:
    r"""Show control characters instead of obeying them; lines stay lines.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c == "\n" or c == "\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    r"""Show line ends as well.

    Examples
    --------
    >>> one_line("a\nb")
    'a\\nb'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def say(text: str, *, err: bool = False) -> None:
    """Print a text; its first line stands out on a terminal."""
    first, _, rest = visible(text).partition("\n")
    click.echo(click.style(first, bold=True) + (f"\n{rest}" if rest else ""), err=err)


def say_json(facts: Any) -> None:
    """Print facts as strict JSON."""
    click.echo(json.dumps(strict(facts), ensure_ascii=False, allow_nan=False))


def strict(facts: Any) -> Any:
    """Give facts as values that strict JSON can hold; what is not finite becomes text.

    Examples
    --------
    >>> strict({"a": np.float64("inf"), 1: (np.int64(2), "x")})
    {'a': 'inf', '1': [2, 'x']}
    """
    if isinstance(facts, dict):
        return {str(key): strict(value) for key, value in facts.items()}
    if isinstance(facts, np.ndarray):
        return strict(facts.tolist())
    if isinstance(facts, (list, tuple)):
        return [strict(value) for value in facts]
    if isinstance(facts, np.generic):
        return strict(facts.item())
    if isinstance(facts, float) and not math.isfinite(facts):
        return str(facts)
    return facts if facts is None or isinstance(facts, (bool, int, float, str)) else str(facts)


def spoken(error: R2BError) -> tuple[str, str]:
    """Give problem and remedy of an error in words of the command line: options instead of arguments.

    Examples
    --------
    >>> from r2b.errors import InputError
    >>> spoken(InputError("The argument y has no rows.", remedy="Pass small_groups='merge'."))
    ('The label has no rows.', 'Pass --small-groups merge.')
    """
    problem = re.sub(
        r"\bThe argument (y|sensitive_features|control_features|sample_weight)\b", lambda m: _NAMES[m[1]].capitalize(), error.problem
    )
    problem = re.sub(
        r"\b(In|of) (y|sensitive_features|control_features|sample_weight)(?=[ ,.])", lambda m: f"{m[1]} {_NAMES[m[2]]}", problem
    )
    return one_line(problem), one_line(as_options(error.remedy))


@contextmanager
def on_lines(table: Table) -> Iterator[None]:
    """Say of a row in an error on which line of the file it is."""
    try:
        yield
    except InputError as error:
        row = error.facts.get("row")
        place = table.place(row) if isinstance(row, int) and 0 <= row < table.n_rows else ""
        if "line" not in place:
            raise
        where = f" In {table.name}, {place.replace(' (', ' is on ').rstrip(')')}."
        raise type(error)(error.problem + where, remedy=error.remedy, **error.facts) from error


def as_options(text: str) -> str:
    """Write arguments of functions as options.

    Examples
    --------
    >>> as_options("Raise max_iter, or pass missing='group'.")
    'Raise --max-iter, or pass --missing group.'
    """
    text = _SPELLED.sub(lambda m: f"--{m[1].replace('_', '-')} {m[2] or m[3] or m[4]}", text)
    return _BARE.sub(lambda m: f"--{m[1].replace('_', '-')}", text)
