"""What a shell offers at a press of Tab: files, and the columns of the file that was named. It never fails and never reads a whole file."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from r2b._files.formats import Format, format_of, opened
from r2b._files.text import parse_object
from r2b.engines.files.delimited import Header

_HEAD = 1 << 16  # bytes in which a header is looked for
_SPECIAL = re.compile(r"[^\w.+@%/,-]")  # what bash does not take as it stands
_BREAKS = re.compile(r"[=:\x00-\x1f\x7f]")  # bash begins a new word there, or a line


def files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer files, as the shell itself would."""
    return [CompletionItem(incomplete, type="file")]


def columns(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the columns of the data, after a comma those that come next."""
    # An option that has no value yet ends click's reading, and the data are still among what was
    # not read.
    names = next(filter(None, map(names_in, [context.params.get("data"), *context.args])), ())
    done, comma, begun = incomplete.rpartition(",")
    whole = [name for name in names if name.startswith(incomplete)]  # a comma may be part of a name
    listed = (
        []
        if whole
        else [
            f"{done}{comma}{name}" for name in names if name.startswith(begun) and "," not in name
        ]
    )
    return [
        CompletionItem(typed) for name in whole or listed if (typed := _as_typed(name)) is not None
    ]


def _as_typed(name: str) -> str | None:
    """Give a name as the shell in question takes it; None where it cannot be typed at once."""
    if _BREAKS.search(name):
        return None
    # Other shells put in quotes themselves, and so does bash where one was opened.
    last = re.split(r"[\n ]", os.environ.get("COMP_WORDS", ""))
    quoted = any(word.startswith(("'", '"')) and word.count(word[0]) == 1 for word in last)
    bash = os.environ.get("_R2B_COMPLETE", "").startswith("bash")
    # Click's script for bash reads what is offered with a `read` that takes one backslash of every
    # two.
    return _SPECIAL.sub(lambda found: rf"\\{found[0]}", name) if bash and not quoted else name


def names_in(data: Any) -> tuple[str, ...]:
    """Give the columns of a file; none where they cannot be seen quickly."""
    shape = format_of(data) if isinstance(data, str) and os.path.isfile(data) else None
    # A press of Tab is no place for an error, and every library has errors of its own for a damaged
    # file.
    with suppress(Exception):
        return () if shape is None else _names(data, shape)
    return ()


def _names(data: str, shape: Format) -> tuple[str, ...]:
    if not shape.is_text:
        from r2b.engines.files import FileSource

        return () if shape.compression else FileSource.open(data).names
    with opened(data, shape.compression) as file:
        text = file.read(_HEAD).decode("utf-8-sig", "replace")
    if shape.kind == "jsonl":
        return tuple(parse_object(text.partition("\n")[0], data, 1))
    return Header.read(text, data, shape, None).names
