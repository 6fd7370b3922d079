"""How databases write names, values, comparisons and errors; sqlglot quotes names and texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from r2b.errors import ParameterError, require

Kind = Literal["text", "whole", "truth", "real"]

_TYPES: dict[Kind, str] = {"text": "text", "whole": "bigint", "truth": "boolean", "real": "double"}


@dataclass(frozen=True)
class Dialect:
    """The words of a database.

    Attributes
    ----------
    name : str
        As sqlglot calls it.
    draws : bool
        Whether the draws of rows are computed there, and were compared with those in memory.
    fence : str
        The end of a query that must not be written into another.
    by_byte : str
        What makes a comparison one of bytes.
    """

    name: str
    draws: bool = False
    fence: str = ""
    by_byte: str = ""

    def quoted(self, *parts: str) -> str:
        """Write a name, of several parts where it has them.

        Examples
        --------
        >>> print(DIALECTS["postgres"].quoted("hr", "all people"))
        "hr"."all people"
        >>> print(DIALECTS["bigquery"].quoted("hr", "all people"))
        `hr`.`all people`
        """
        made = (_sqlglot().exp.to_identifier(part, quoted=True) for part in parts)
        return ".".join(each.sql(dialect=self.name) for each in made)

    def table(self, given: str | Sequence[str]) -> str:
        """Write the name of a table; a reference of dbt stays as it is."""
        if isinstance(given, str) and given.startswith("{{") and given.endswith("}}"):
            return given
        parts = (given,) if isinstance(given, str) else tuple(given)
        if not parts or not all(isinstance(part, str) and part for part in parts):
            raise ParameterError(
                f"The table is called {given!r}.",
                remedy="Pass its name, or a list of names such as ['schema', 'people'].",
                table=given,
            )
        return self.quoted(*parts)

    def type(self, kind: Kind) -> str:
        """Write a type."""
        return _type(kind, self.name)

    def value(self, value: Any) -> str:
        """Write a value: text, whole number, truth value, decimal number or null."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return _text(value, self.name)
        return str(value) if isinstance(value, int) else self.number(value)

    def number(self, value: float) -> str:
        """Write a decimal number so that the very number is read."""
        if self.name != "sqlite":
            return repr(value) if "e" in repr(value) else f"{value!r}e0"
        # SQLite may read the last digit of a decimal number wrong; it reads whole numbers right.
        mantissa, exponent = math.frexp(value)
        whole, power = int(mantissa * 2**53), 53 - exponent
        # Every database holds 2**62 as a whole number.
        parts = [min(62, power - start) for start in range(0, max(power, 0), 62)]
        whole_number = f"CAST({whole << max(-power, 0)} AS REAL)"
        return " / ".join([whole_number, *(str(1 << part) for part in parts)])

    def xor(self, one: str, other: str) -> str:
        """Write the exclusive or of whole numbers that are not negative."""
        if self.name == "postgres":
            return f"({one} # {other})"
        return f"(({one} | {other}) - ({one} & {other}))"

    def whole_number(self, column: str) -> str:
        """Write a column as 64 bits; null or an error where it holds no whole numbers."""
        if self.name == "postgres":  # there is no such operator for other types
            return f"({column} | CAST(0 AS BIGINT))"
        kinds, made = "'integer'", column
        if self.name == "duckdb":
            kinds = (
                "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'UTINYINT', 'USMALLINT', 'UINTEGER'"
            )
            made = f"TRY_CAST({column} AS BIGINT)"
        return f"CASE WHEN typeof({column}) IN ({kinds}) THEN {made} END"

    def same(self, old: str, new: str, kind: Kind, *, nulls: bool) -> str:
        """Write that a value of the table is one of the answers.

        Text is compared byte by byte, and 1 is not '1'. Where ``nulls`` are among the answers, they
        match each other.
        """
        checks = []
        if self.name == "sqlite":
            found = f"typeof({old}) = '{'text' if kind == 'text' else 'integer'}'"
            checks = [f"({found} OR {old} IS NULL)"]
        if self.name == "duckdb":
            text = f"(typeof({old}) = 'VARCHAR' OR typeof({old}) LIKE 'ENUM%')"
            truth = f"typeof({old}) = 'BOOLEAN'"
            checks = [{"text": text, "truth": truth}.get(kind, f"NOT {text}")]
            if kind == "text":  # an ENUM is text too, and takes no collation
                old, new = f"encode(CAST({old} AS VARCHAR))", f"encode({new})"
        equal = "="
        if nulls:
            equal = "IS" if self.name == "sqlite" else "IS NOT DISTINCT FROM"
        by_byte = self.by_byte if kind == "text" else ""
        return " AND ".join([f"{old}{by_byte} {equal} {new}", *checks])

    def failure(self, message: str, columns: Sequence[str], kind: Kind) -> str:
        """Write an error with a message and the values of a row, in place of such a value."""
        shown = [f"COALESCE(CAST({column} AS {self.type('text')}), 'null')" for column in columns]
        text = f"{self.value(message)} || " + " || ', ' || ".join(shown)
        if self.name in ("duckdb", "bigquery"):
            return f"error({text})"
        if self.name == "sqlite":  # a path that is none is an error that shows it
            return f"json_extract('{{}}', {text})"
        # No function fails on purpose: a cast of this text does, and the error quotes it.
        failed = f"CAST({text} AS {self.type('truth' if kind == 'text' else kind)})"
        return f"CAST({failed} AS {self.type('text')})" if kind == "text" else failed

    def rows(
        self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]]
    ) -> str:
        """Write a table of values, to stand after WITH."""
        names = [self.quoted(column) for column, _ in columns]
        listed = [[self.value(value) for value in row] for row in rows]
        listed[0] = [
            f"CAST({value} AS {self.type(kind)})"
            for value, (_, kind) in zip(listed[0], columns, strict=True)
        ]
        if self.name in ("snowflake", "bigquery"):
            listed[0] = [f"{value} AS {to}" for value, to in zip(listed[0], names, strict=True)]
            selects = "\nUNION ALL\n".join(f"SELECT {', '.join(values)}" for values in listed)
            return f"{self.quoted(name)} AS (\n{selects}\n)"
        values = ",\n".join(f"({', '.join(row)})" for row in listed)
        return f"{self.quoted(name)} ({', '.join(names)}) AS (VALUES\n{values}\n)"


DIALECTS = {
    each.name: each
    for each in (
        Dialect("postgres", True, " OFFSET 0", ' COLLATE "C"'),
        Dialect("duckdb", True),
        Dialect("sqlite", True, " LIMIT -1", " COLLATE BINARY"),
        Dialect("snowflake"),
        Dialect("bigquery"),
    )
}
"""The databases for which statements are written."""


def dialect_of(name: Any) -> Dialect:
    """Return a dialect by its name.

    Raises
    ------
    ParameterError
        It is none of those that statements are written for.
    """
    if not isinstance(name, str) or name not in DIALECTS:
        raise ParameterError(
            f"dialect is {name!r}.",
            remedy=f"Pass one of {', '.join(map(repr, DIALECTS))}; r2b.scan reads tables of "
            "others.",
            dialect=name,
        )
    return DIALECTS[name]


@lru_cache(1 << 16)  # a text stands in as many answers as there are groups and classes
def _text(value: str, dialect: str) -> str:
    return str(_sqlglot().exp.Literal.string(value).sql(dialect=dialect))


@cache
def _type(kind: Kind, dialect: str) -> str:
    return str(_sqlglot().exp.DataType.build(_TYPES[kind]).sql(dialect=dialect))


@cache
def _sqlglot() -> Any:
    return require("sqlglot", "Statements in SQL need sqlglot", extra="sql")
