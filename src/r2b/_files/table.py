"""What every stored table can do: name its columns, give some of them, and leave with new ones beside the old."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from r2b._files.formats import Format
from r2b.errors import InputError, ParameterError

_MOST_NAMED = 12


class Table(ABC):
    """A table as it is stored; its bytes stay what they were until new columns are put beside them.

    Attributes
    ----------
    name : str
        How the file is called in errors.
    format : Format
    names : tuple of str
        Of the columns, in order.
    """

    name: str
    format: Format
    names: tuple[str, ...]

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def columns(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Give columns by name: lists of text or values, or Arrow arrays. Names must be there, once each."""

    @abstractmethod
    def encoded(self, new: Mapping[str, Sequence[Any]], rows: Sequence[int] | None = None) -> bytes:
        """Give the table in its own format with new columns after its own, for all rows or for these, in order."""

    def values(self) -> dict[str, Any]:
        """Give all columns, for another format."""
        self.refuse_twice(self.names)
        return self.columns(self.names)

    def place(self, row: int) -> str:
        """Say where a row is, for errors; rows count from 0."""
        return f"row {row}"

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def check(self, wanted: Sequence[str], what: str) -> None:
        """Refuse columns that are not there, or more than once.

        Raises
        ------
        ParameterError
            Names the column, and those that are spelled like it.
        """
        for name in wanted:
            if name not in self.names:
                raise ParameterError(
                    f"{self.name} has no column {name!r} ({what}).",
                    remedy=self.remedy_for(name),
                    column=name,
                    columns=self.names,
                )
        self.refuse_twice(wanted)

    def remedy_for(self, name: str) -> str:
        """Say what to do about a name that is not there."""
        return did_you_mean(name, self.names) or f"Its columns are {listed_names(self.names)}."

    def refuse_twice(self, wanted: Sequence[str]) -> None:
        """Refuse names that several columns share."""
        for name in wanted:
            places = [place + 1 for place, each in enumerate(self.names) if each == name]
            if len(places) > 1:
                raise InputError(
                    f"{self.name} has {len(places)} columns called {name!r} (columns {', '.join(map(str, places))}).",
                    remedy="Give each a name of its own.",
                    column=name,
                    places=places,
                )


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Suggest names that are spelled alike, or nothing.

    Examples
    --------
    >>> did_you_mean("Educaton", ["education", "sex"])
    "Did you mean 'education'?"
    """
    folded = {each.casefold().strip(): each for each in reversed(known)}
    close = get_close_matches(name.casefold().strip(), list(folded), n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(repr(folded[each]) for each in close)}?" if close else ""


def listed_names(names: Sequence[str]) -> str:
    """Write names in a row, the first dozen of them."""
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"
