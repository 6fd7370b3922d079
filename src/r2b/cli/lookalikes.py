"""Values that a reader takes for one and a computer for two: a blank at the end makes a group. They are told, never merged."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from r2b.cli.speaking import folded, one_line


def tell_lookalikes(arguments: Mapping[str, Any], label: str | None) -> None:
    """Say on standard error which values of the label, of sensitive and of control columns look alike.

    Parameters
    ----------
    arguments : mapping
        As :func:`r2b.debias` takes them.
    label : str or None
        Column of class labels; None for probabilities, which have no such values.
    """
    columns: dict[str, Any] = {**arguments["sensitive_features"], **arguments.get("control_features", {})}
    if label is not None:
        columns[label] = arguments["y"]
    for name, column in columns.items():
        alike = lookalikes(_distinct(column))
        if alike:
            shown = "; ".join(" and ".join(map(repr, each)) for each in alike[:3])
            more = f"; and {len(alike) - 3:,} more" if len(alike) > 3 else ""
            said = f"Note: in the column {name!r} these differ in blanks or capitals alone, and are taken as different: {shown}{more}."
            click.echo(folded(one_line(said), sys.stderr), err=True)


def lookalikes(values: Iterable[Any]) -> list[list[str]]:
    """Give the texts that differ in blanks or capitals alone, put together.

    Examples
    --------
    >>> lookalikes(["f", "m", "f ", "F", "x y", "x  y", None, 1])
    [['F', 'f', 'f '], ['x  y', 'x y']]
    """
    seen: dict[str, set[str]] = {}
    for value in values:
        if isinstance(value, str):
            seen.setdefault(" ".join(value.split()).casefold(), set()).add(value)
    return [sorted(texts) for texts in seen.values() if len(texts) > 1]


def _distinct(column: Any) -> Iterable[Any]:
    if isinstance(column, list):
        return dict.fromkeys(value for value in column if isinstance(value, str))
    if hasattr(column, "unique") and "string" in str(getattr(column, "type", "")):
        return list(column.unique().to_pylist())
    return ()
