"""Data that can be solved but are rarely meant so, such as tiny groups or placeholders.

Nothing is repaired here: what was found is named, in one warning per call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._constraints.families.fitted import Families, Moments
from r2b._data.arrays import plain_value
from r2b._data.attributes import CATEGORICAL
from r2b._data.cells import Cells
from r2b._data.values import warn, written
from r2b.errors import DataWarning

FEWEST = 10
"""Rows below which a group is doubtful: its means move by a tenth and more with every row."""
_SHOWN = 5  # values named in a warning

_UNKNOWN = re.compile(
    r"|\?\??|--?|\.|n/?a|n\.a\.|#n/a|nan|null|none|nil|unk(nown)?|missing|no data|undefined|"
    r"unspecified|not (known|available|specified)"
)


@dataclass(frozen=True)
class Doubt:
    """One thing that was found.

    Attributes
    ----------
    kind : str
        "one group", "decimal numbers", "small groups", "placeholders" or "look alike".
    column : str
        The column, or the family of groups.
    values : tuple
        The values or groups in question.
    problem, remedy : str
        In sentences.
    """

    kind: str
    column: str
    values: tuple[Any, ...]
    problem: str
    remedy: str


def doubts_of(groups: Cells, families: Families, classes: Sequence[Any] = ()) -> tuple[Doubt, ...]:
    """List what is doubtful about the groups and classes of a table.

    Parameters
    ----------
    groups : Cells
    families : Families
        Settled on these groups; groups that were merged or left out are not looked at.
    classes : sequence, optional
        Names of the classes.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b"] * 20, sensitive_features={"sex": ["m", "m", "M", "?"] * 10})
    >>> [(doubt.kind, doubt.values) for doubt in doubts_of(fair.dataset.cells, fair.families)]
    [('placeholders', ('?',)), ('look alike', ('M', 'm'))]
    """
    found = [*_of_families(groups, families)]
    for name, vocabulary, kind in zip(
        groups.columns, groups.vocabularies, groups.kinds, strict=True
    ):
        if kind == CATEGORICAL:
            found += _of_values(
                f"The column {name!r}" if name else "The sensitive column",
                name,
                vocabulary.values.tolist(),
            )
    found += _of_names("The label", "y", list(classes), but="none")
    return tuple(found)


def warn_of_doubts(*tables: Any) -> None:
    """Issue one warning about all that is doubtful, at the line that called r2b.

    Parameters
    ----------
    *tables : object
        Each has ``groups``, ``families`` that are settled on them, and a ``schema``.
    """
    found = (
        doubt
        for table in tables
        for doubt in doubts_of(table.groups, table.families, table.schema.classes.values.tolist())
    )
    doubts = tuple(dict.fromkeys(found))
    if doubts:
        problems, remedies = (
            " ".join(dict.fromkeys(getattr(doubt, part) for doubt in doubts))
            for part in ("problem", "remedy")
        )
        warn(DataWarning(problems, remedy=remedies, doubts=doubts))


def lookalikes(values: Iterable[Any]) -> list[list[str]]:
    """Return groups of texts that differ only in blanks or capitals.

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


def _of_families(groups: Cells, families: Families) -> Iterator[Doubt]:
    alone, small = dict[str, Any](), []
    for member, counting in families.pairs():
        if isinstance(counting, Moments):
            continue
        names = [plain_value(name) for name in families.names[member.groups]]
        if len(names) == 1 and member.bound.fewest_groups > 1:
            alone[member.name] = names[0]
        rows = counting.sums(groups, groups.counts).tolist()
        small += [(n, name) for n, name in zip(rows, names, strict=True) if n < FEWEST]
    # Names of groups of several columns say which themselves.
    start = f"{groups.columns[0]}=" if len(groups.columns) == 1 and groups.columns[0] else ""
    if alone:
        shown = listed(repr(f"{start}{written(group)}") for group in alone.values())
        problem = f"There is one group only, {shown}, so that there is nothing to compare."
        remedy = "Check that the right column was passed."
        yield Doubt("one group", next(iter(alone)), tuple(alone.values()), problem, remedy)
    if small:
        small.sort(key=lambda each: each[0])
        shown = listed(f"{start + written(name)!r} ({rows:g})" for rows, name in small)
        many = f"{len(small):,} groups have" if len(small) > 1 else "One group has"
        problem = f"{many} fewer than {FEWEST} rows, and shares that move far by chance: {shown}."
        remedy = (
            f"Pass `min_group_size={FEWEST}` with `small_groups='merge'` "
            "or `small_groups='exclude'`."
        )
        values = tuple(name for _, name in small)
        yield Doubt("small groups", families.members[0].name, values, problem, remedy)


def _of_values(where: str, name: str, values: list[Any]) -> Iterator[Doubt]:
    decimals = _decimals(values)
    # Few different decimal numbers may still be categories, such as doses.
    if len(values) > 10 and decimals:
        shown = listed(map(repr, decimals))
        many = f"{len(values):,} different numbers, such as {shown}"
        problem = f"{where} holds {many}, each a group of its own."
        remedy = "Pass it as `r2b.Continuous(column)`, or cut it into intervals."
        yield Doubt("decimal numbers", name, tuple(decimals), problem, remedy)
    yield from _of_names(where, name, values)


def _of_names(where: str, name: str, values: list[Any], but: str | None = None) -> Iterator[Doubt]:
    unknown = {each: each.strip().casefold() for each in values if isinstance(each, str)}
    placeholders = [
        text for text, plain in unknown.items() if plain != but and _UNKNOWN.fullmatch(plain)
    ]
    if placeholders:
        found = listed(map(repr, placeholders))
        problem = f"{where} holds {found}, which is taken as a value like any other."
        remedy = (
            "If that stands for a value that is not known, make it missing and pass "
            "`missing='group'` or `missing='exclude'`."
        )
        yield Doubt("placeholders", name, tuple(placeholders), problem, remedy)
    for alike in lookalikes(values):
        shown = " and ".join(repr(written(value)) for value in alike[:_SHOWN])
        same = "which differ in blanks or capitals alone and are taken as different"
        problem = f"{where} holds {shown}, {same}."
        yield Doubt("look alike", name, tuple(alike), problem, "Write one value in one way.")


def _decimals(values: list[Any]) -> list[Any]:
    """Return some of the decimal numbers of a column that holds nothing but numbers."""
    if any(isinstance(value, bool) for value in values):
        return []
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        return []
    pairs = zip(values, numbers, strict=True)
    found = [value for value, n in pairs if np.isfinite(n) and not n.is_integer()]
    return found[:_SHOWN]


def listed(texts: Iterable[str], between: str = ", ") -> str:
    """Name the first few, and how many more there are."""
    every = list(texts)
    return between.join(every[:_SHOWN]) + (
        f" and {len(every) - _SHOWN:,} more" if len(every) > _SHOWN else ""
    )
