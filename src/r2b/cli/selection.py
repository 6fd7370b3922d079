"""From a table and the columns named on the command line to what ``r2b.debias`` and ``r2b.audit`` take."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import r2b
from r2b._files import Table
from r2b._files.plain import as_matrix, as_numbers
from r2b.engines.roles import ColumnRoles
from r2b.errors import ParameterError

EMPTY = ("",)
PARTS = ("label", "label_columns", "sensitive", "continuous", "membership", "control", "weight", "na")  # options of the command line


@dataclass(frozen=True)
class Selection:
    """Which columns of a table play which part.

    Attributes
    ----------
    label : str or None
        Column of class labels.
    label_columns : tuple of str
        Columns of probabilities instead.
    sensitive, continuous, control : tuple of str
    membership : tuple of (str, tuple of str)
    weight : str or None
    na : tuple of str
        Text that means missing, in formats that know only text.
    """

    label: str | None
    label_columns: tuple[str, ...]
    sensitive: tuple[str, ...]
    continuous: tuple[str, ...]
    membership: tuple[tuple[str, tuple[str, ...]], ...]
    control: tuple[str, ...]
    weight: str | None
    na: tuple[str, ...] = EMPTY

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        label: str | None,
        label_columns: Sequence[str],
        sensitive: Sequence[str],
        continuous: Sequence[str],
        membership: Sequence[str],
        control: Sequence[str],
        weight: str | None,
        na: Sequence[str],
    ) -> Selection:
        """Find the columns, or say which is not there."""
        if (label is None) == (not label_columns):
            raise ParameterError(
                "There must be either a label or columns of probabilities.",
                remedy="Pass --label COLUMN for classes, or --label-columns COLUMNS for probabilities.",
            )
        if label is not None and label not in table and len(_split(label)) > 1 and all(name in table for name in _split(label)):
            raise ParameterError(f"--label names several columns: {label!r}.", remedy=f"For probabilities pass --label-columns {label!r}.")
        if not (sensitive or continuous or membership):
            raise ParameterError("No sensitive column is named.", remedy="Pass --sensitive COLUMN, or --continuous or --membership.")
        if label is not None:
            table.check([label], "--label")
        if weight is not None:
            table.check([weight], "--weight")
        found = cls(
            label,
            named(table, label_columns, "--label-columns", patterns=True),
            named(table, sensitive, "--sensitive"),
            named(table, continuous, "--continuous"),
            tuple(_membership(table, each) for each in membership),
            named(table, control, "--control"),
            weight,
            # Formats that say themselves what is missing take no text for it, nor does what is written of them.
            (tuple(na) if table.format.kind in ("csv", "tsv") else ()) or EMPTY,
        )
        found._check_parts()
        return found

    @property
    def stem(self) -> str:
        """What new columns are called after."""
        return "label" if self.label is None else self.label

    @property
    def used(self) -> tuple[str, ...]:
        """All columns that are read, once each."""
        members = [name for _, names in self.membership for name in names]
        label = self.label_columns if self.label is None else (self.label,)
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys([*label, *self.sensitive, *self.continuous, *members, *self.control, *weight]))

    def arguments(self, table: Table, columns: dict[str, Any] | None = None) -> dict[str, Any]:
        """Give ``y``, ``sensitive_features`` and what else there is as r2b takes it; from these columns where some rows were chosen."""
        found = table.columns(self.used) if columns is None else columns

        def classes(name: str) -> Any:
            return self.with_gaps(table, found[name])

        def numbers(name: str, missing: Sequence[str] = ()) -> Any:
            return as_numbers(found[name], table, name, missing)

        sensitive: dict[str, Any] = {name: classes(name) for name in self.sensitive}
        sensitive |= {name: r2b.Continuous(numbers(name, tuple(self._gaps(table)))) for name in self.continuous}
        for name, members in self.membership:
            sensitive[name] = r2b.Membership(as_matrix([numbers(each) for each in members]), groups=members)
        arguments: dict[str, Any] = {"sensitive_features": sensitive}
        arguments["y"] = classes(self.label) if self.label is not None else {name: numbers(name) for name in self.label_columns}
        if self.control:
            arguments["control_features"] = {name: classes(name) for name in self.control}
        if self.weight is not None:
            arguments["sample_weight"] = numbers(self.weight)
        return arguments

    def roles(self, soft: bool, key: tuple[str, ...] = ()) -> ColumnRoles:
        """Give the columns by their roles."""
        label = self.label_columns if self.label is None else (self.label,)
        return ColumnRoles(label, soft, self.sensitive, self.control, self.weight, key, self.continuous, self.membership)

    def with_gaps(self, table: Table, column: Any) -> Any:
        """Give a column with None where its text means missing; formats with types say themselves what is."""
        gaps = self._gaps(table)
        return [None if value in gaps else value for value in column] if gaps and not gaps.isdisjoint(column) else column

    def _gaps(self, table: Table) -> set[str]:
        return set(self.na) if table.format.kind in ("csv", "tsv") else set()

    def _check_parts(self) -> None:
        attributes = [*self.sensitive, *self.continuous, *(name for name, _ in self.membership), *self.control]
        twice = next((name for name in attributes if attributes.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"The column {twice!r} is named in two parts.", remedy="Name each column once.", column=twice)
        labels = self.label_columns if self.label is None else (self.label,)
        both = next((name for name in labels if name in attributes), None)
        if both is not None:
            raise ParameterError(f"The column {both!r} is the label and an attribute.", remedy="Name another column.", column=both)
        if self.label is None and len(self.label_columns) < 2:
            raise ParameterError(
                f"--label-columns names one column, {self.label_columns[0]!r}; probabilities need one for every class.",
                remedy="Name them all, or pass --label if its values are classes.",
            )


def named(table: Table, given: Sequence[str], what: str, *, patterns: bool = False) -> tuple[str, ...]:
    """Find columns: a name as it stands, a list with commas, or a pattern where they are welcome."""
    found: list[str] = []
    for each in given:
        if each in table:
            found.append(each)
            continue
        for name in _split(each):
            matching = [known for known in table.names if fnmatchcase(known, name)] if patterns and name not in table else []
            found += matching or [name]
    table.check(found, what)
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


def _membership(table: Table, text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, columns = text.partition("=")
    if not name or not equals:
        raise ParameterError(f"--membership is {text!r}.", remedy="Pass a name and its columns, such as sex=p_f,p_m.", membership=text)
    return name, named(table, [columns], "--membership", patterns=True)


def families_of(table: Table, choice: str | None, family: Sequence[str], default: str) -> str | list[list[str]]:
    """Read ``--families`` and ``--family``."""
    if choice is not None and family:
        raise ParameterError("Both --families and --family are given.", remedy="Pass one of them.")
    if not family:
        return choice or default
    return [[each] if each in table else _split(each) for each in family]
