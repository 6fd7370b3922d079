"""What changes of labels cost, as it is typed: the name of a table, or an order of the classes."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from r2b._files.formats import as_text
from r2b.engines.batch import numbers_of
from r2b.engines.files import FileSource
from r2b.errors import InputError

_ORDINAL = re.compile(r"ordinal(?:=|$)")  # an order of the classes, and no file


def cost_files(costs: str) -> tuple[str, ...]:
    """Give the file that ``--costs`` names, where it names one."""
    return () if _ORDINAL.match(costs) else (costs,)


def costs_of(path: str, classes: Sequence[Any]) -> Any:
    """Read a table of costs: its first column names the class that is left, the other columns the class that is taken.

    Or an order: "ordinal" is that of the labels themselves, "ordinal=low,middle,high" the one
    given.

    Raises
    ------
    InputError
        The table does not have every class once, as a row and as a column.
    """
    if path == "ordinal":
        return path
    if not cost_files(path):
        known = {as_text([value], "classes")[0]: value for value in classes}
        return {
            "ordinal": [
                known.get(name, name) for name in next(csv.reader([path.partition("=")[2]]), [])
            ]
        }
    source = FileSource.open(path)
    names = as_text(list(classes), "classes")
    first, *others = source.names
    table = source.columns(source.names)
    left = as_text(table[first], first)
    for found, where in ((others, "columns"), (left, "rows")):
        if sorted(found) != sorted(names):
            odd = next(
                iter(sorted(set(names) ^ set(found))),
                next((name for name in found if found.count(name) > 1), ""),
            )
            raise InputError(
                f"The {where} of {source.name} are not the classes: {odd!r} is only in one of them, or there twice.",
                remedy=f"Name every class once as a row and as a column: {', '.join(map(repr, names[:10]))}.",
                path=path,
                value=odd,
            )
    order = [left.index(name) for name in names]
    by_column = [
        np.asarray(numbers_of(table[name], name).to_numpy(zero_copy_only=False), np.float64)
        for name in names
    ]
    return np.column_stack(by_column)[order]
