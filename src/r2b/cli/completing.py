"""What a shell offers at a press of Tab: files, and the columns of the file that was named. It never fails and never reads a whole file."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from r2b._files.formats import format_of
from r2b.engines.files.delimited import Header
from r2b.errors import R2BError

_HEAD = 1 << 16  # bytes in which a header is looked for
_PLAIN = re.compile(r"[\w.+@%/-]+")  # names that every shell takes without quotes


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer files, as the shell itself would."""
    return [CompletionItem(incomplete, type="file")]


def columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the columns of the data, after a comma those that come next."""
    done, comma, begun = incomplete.rpartition(",")
    # An option that has no value yet ends click's reading, and the data are still among what was not read.
    names = next(filter(None, map(names_in, [context.params.get("data"), *context.args])), ())
    return [CompletionItem(f"{done}{comma}{name}") for name in names if name.startswith(begun) and _PLAIN.fullmatch(name)]


def names_in(data: Any) -> tuple[str, ...]:
    """Give the columns of a CSV, TSV or Parquet file; none where they cannot be seen quickly."""
    shape = format_of(data) if isinstance(data, str) and os.path.isfile(data) else None
    if shape is None or shape.compression:
        return ()
    with suppress(R2BError, OSError, ImportError, ValueError):  # a press of Tab is no place for an error
        if shape.kind == "parquet":
            import pyarrow.parquet

            return tuple(pyarrow.parquet.read_schema(data).names)
        if shape.kind in ("csv", "tsv"):
            with open(data, "rb") as file:
                text = file.read(_HEAD).decode("utf-8-sig", "replace")
            return Header.read(text, data, shape, None).names
    return ()
