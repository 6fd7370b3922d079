"""How databases write names, values and refusals; names and texts are quoted by sqlglot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from r2b.errors import ParameterError, require

Kind = Literal["text", "whole", "truth", "real"]

_TYPES: dict[Kind, str] = {"text": "text", "whole": "bigint", "truth": "boolean", "real": "double"}
_BITS = 62  # of a power of two that every database holds as a whole number


@dataclass(frozen=True)
class Dialect:
    """The words of a database.

    Attributes
    ----------
    name : str
        As sqlglot calls it.
    draws : bool
        Whether the draw of a row is computed there, and was compared with that in memory.
    fence : str
        What ends a query that must not be written into another.
    """

    name: str
    draws: bool = False
    fence: str = ""

    def quoted(self, *parts: str) -> str:
        """Write a name, of several parts where it has them.

        Examples
        --------
        >>> print(DIALECTS["postgres"].quoted("hr", "all people"), DIALECTS["bigquery"].quoted("hr", "all people"))
        "hr"."all people" `hr`.`all people`
        """
        expressions = _sqlglot().exp
        return ".".join(
            expressions.to_identifier(part, quoted=True).sql(dialect=self.name) for part in parts
        )

    def table(self, given: str | Sequence[str]) -> str:
        """Write the name of a table; a reference of dbt stays as it is."""
        if isinstance(given, str) and given.startswith("{{") and given.endswith("}}"):
            return given
        parts = (given,) if isinstance(given, str) else tuple(given)
        if not parts or not all(isinstance(part, str) and part for part in parts):
            remedy = "Pass its name, or a list of names such as ['schema', 'people']."
            raise ParameterError(f"The table is called {given!r}.", remedy=remedy, table=given)
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
        # SQLite may read the last digit of a decimal number wrong; whole numbers and powers of two
        # it does not.
        mantissa, exponent = math.frexp(value)
        whole, power = int(mantissa * 2**53), 53 - exponent
        parts = [min(_BITS, power - start) for start in range(0, max(power, 0), _BITS)]
        return " / ".join(
            [f"CAST({whole << max(-power, 0)} AS REAL)", *(str(1 << part) for part in parts)]
        )

    def xor(self, one: str, other: str) -> str:
        """Write the exclusive or of whole numbers that are not negative."""
        match self.name:
            case "postgres":
                return f"({one} # {other})"
            case "duckdb":
                return f"xor({one}, {other})"
        return f"(({one} | {other}) - ({one} & {other}))"

    def whole_number(self, column: str) -> str:
        """Give a column of whole numbers as 64 bits; null, or an error of the database, where it holds something else."""
        match self.name:
            case "postgres":  # there is no such operator for other types
                return f"({column} | CAST(0 AS BIGINT))"
            case "duckdb":
                kinds = "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'UTINYINT', 'USMALLINT', 'UINTEGER'"
                return (
                    f"CASE WHEN typeof({column}) IN ({kinds}) THEN TRY_CAST({column} AS BIGINT) END"
                )
        return f"CASE WHEN typeof({column}) = 'integer' THEN {column} END"

    def same(self, old: str, new: str, kind: Kind, missing: Any) -> str:
        """Write that a value of the table is one of the answers.

        Parameters
        ----------
        old, new : str
        kind : Kind
            Of the answers. Text is compared byte by byte, and 1 is not '1'.
        missing : object
            A value of the column where nulls are among the answers, which then match each other;
            None where they are not. Written as two equalities, which databases find by hashing, as
            they do not for IS NOT DISTINCT FROM.
        """
        checks, text = self._types(old, kind), kind == "text"
        if missing is not None:
            checks.append(f"({old} IS NULL) = ({new} IS NULL)")
            if self.name == "sqlite":
                checks[0] = f"({checks[0]} OR {old} IS NULL)"
        if self.name == "duckdb" and text:  # an ENUM is text too, and takes no collation
            old, new = f"encode(CAST({old} AS VARCHAR))", f"encode({new})"
        if missing is not None:
            gap = (
                f"encode({self.value(missing)})"
                if self.name == "duckdb" and text
                else self.value(missing)
            )
            old, new = f"COALESCE({old}, {gap})", f"COALESCE({new}, {gap})"
        by_byte = self.by_byte if text else ""
        return " AND ".join([f"{old}{by_byte} = {new}", *checks])

    @property
    def by_byte(self) -> str:
        """What makes a comparison one of bytes."""
        return {"postgres": ' COLLATE "C"', "sqlite": " COLLATE BINARY"}.get(self.name, "")

    def _types(self, column: str, kind: Kind) -> list[str]:
        if self.name == "sqlite":
            return [f"typeof({column}) = '{'text' if kind == 'text' else 'integer'}'"]
        if self.name == "duckdb":
            text = f"(typeof({column}) = 'VARCHAR' OR typeof({column}) LIKE 'ENUM%')"
            return [
                {"text": text, "truth": f"typeof({column}) = 'BOOLEAN'"}.get(kind, f"NOT {text}")
            ]
        return []

    def failure(self, message: str, columns: Sequence[str], kind: Kind) -> str:
        """Write what fails with a message and the values of a row, in place of a value of this kind."""
        shown = [f"COALESCE(CAST({column} AS {self.type('text')}), 'null')" for column in columns]
        told = " || ', ' || ".join(shown)
        told = f"{self.value(message)} || {told}"
        match self.name:
            case "duckdb":
                return f"error({told})"
            case "bigquery":
                return f"ERROR({told})"
            case "sqlite":  # a path that is none is an error that says it
                return f"json_extract('{{}}', {told})"
        # No function fails on purpose: a text that is none of the type does, and the error quotes
        # it.
        failed = f"CAST({told} AS {self.type('truth' if kind == 'text' else kind)})"
        return f"CAST({failed} AS {self.type('text')})" if kind == "text" else failed

    def rows(
        self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]]
    ) -> str:
        """Write a table of values, to stand after WITH."""
        names, kinds = [self.quoted(column) for column, _ in columns], [kind for _, kind in columns]
        first = [
            f"CAST({self.value(value)} AS {self.type(kind)})"
            for value, kind in zip(rows[0], kinds, strict=True)
        ]
        if self.name in ("snowflake", "bigquery"):
            first = [f"{value} AS {column}" for value, column in zip(first, names, strict=True)]
            selects = [first, *([self.value(value) for value in row] for row in rows[1:])]
            return (
                f"{self.quoted(name)} AS (\n"
                + "\nUNION ALL\n".join(f"SELECT {', '.join(values)}" for values in selects)
                + "\n)"
            )
        listed = [first, *([self.value(value) for value in row] for row in rows[1:])]
        values = ",\n".join(f"({', '.join(row)})" for row in listed)
        return f"{self.quoted(name)} ({', '.join(names)}) AS (VALUES\n{values}\n)"


DIALECTS = {
    each.name: each
    for each in (
        Dialect("postgres", True, " OFFSET 0"),
        Dialect("duckdb", True),
        Dialect("sqlite", True, " LIMIT -1"),
        Dialect("snowflake"),
        Dialect("bigquery"),
    )
}
"""The databases for which statements are written."""


def dialect_of(name: Any) -> Dialect:
    """Give a dialect by its name.

    Raises
    ------
    ParameterError
        It is none of those that statements are written for.
    """
    if not isinstance(name, str) or name not in DIALECTS:
        known = ", ".join(map(repr, DIALECTS))
        raise ParameterError(
            f"dialect is {name!r}.",
            remedy=f"Pass one of {known}; r2b.scan reads tables of others.",
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
