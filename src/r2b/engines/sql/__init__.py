"""Statements in SQL: one that counts class labels, and one that gives every row its fair label where it is.

The new label of a row follows from its class and its groups, so that a join with a small table
gives it. What is drawn for a row follows from its key by arithmetic that is the same, bit for bit,
as in memory (:mod:`r2b.engines.sql.hashing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from r2b._data import Dataset
from r2b._data.attributes import CATEGORICAL
from r2b._labels import FairLabels
from r2b._labels.labels import Form
from r2b.engines.counts import counts_source
from r2b.engines.roles import ColumnRoles, names_of, refuse_alike
from r2b.engines.source import new_names
from r2b.engines.sql.answers import Answers, answers_of
from r2b.engines.sql.dialects import Dialect, dialect_of
from r2b.engines.sql.hashing import drawn
from r2b.engines.table_rows import TableRows, recounted
from r2b.errors import EmptyError, ParameterError, RowsUnavailableError

_UNKNOWN = "r2b: this row is not among those that were counted, debias again: "
_CHANGED = "r2b: these rows are not as many as were counted, debias again: "
_KEYLESS = "r2b: the key of this row is no whole number: "
_LONGEST = 63
_OWN = re.compile(r"k\d+|r2b_(from|to|rows)", re.IGNORECASE)  # columns of the answers
_SCAN = "Take 'soft' or 'expand', or scan the table where it lives with r2b.scan, or read it and use r2b.debias."


@dataclass(frozen=True, eq=False)
class SQL:
    """Statements that count a table and give its rows their fair labels; made by :meth:`r2b.FairLabels.sql`.

    Attributes
    ----------
    dialect : str
    count : str
        The query whose result :func:`r2b.debias_counts` takes.
    select : str
        The query that gives the rows with their fair labels. It fails on a row that was not there
        when rows were counted.
    create : str or None
        The statement that writes them to a table, where one was named.
    check : str or None
        For "round": a query that gives the keys that several rows share, and nothing where all is
        well.
    answers : pyarrow.Table
        What becomes of each combination, as it is joined.
    """

    dialect: str
    count: str
    select: str
    create: str | None = None
    check: str | None = None
    answers: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.create or self.select};"


@dataclass(frozen=True)
class Target:
    """The table that statements are for.

    Attributes
    ----------
    dialect : Dialect
    table : str
        In SQL.
    roles : ColumnRoles
    columns : tuple of str or None
        Old columns that leave.
    """

    dialect: Dialect
    table: str
    roles: ColumnRoles
    columns: tuple[str, ...] | None

    def column(self, name: str, of: str = "old") -> str:
        """Write a column; with its table, for SQLite takes the name of a column that is not there for a text."""
        return f"{of}.{self.dialect.quoted(name)}"


def count_query(
    dialect: str,
    table: str | Sequence[str],
    label: str,
    *,
    sensitive_features: str | Sequence[str],
    control_features: str | Sequence[str] | None = None,
    sample_weight: str | None = None,
    count: str = "count",
) -> str:
    """Write the query that counts class labels by group, for :func:`r2b.debias_counts`.

    Parameters
    ----------
    dialect : {"postgres", "duckdb", "sqlite", "snowflake", "bigquery"}
    table : str or list of str
        Its name, with schema as a list. Names are quoted as they are; a reference of dbt, ``{{
        ref('people') }}``, is left alone.
    label, sensitive_features, control_features : str or list of str
        Names of columns.
    sample_weight : str, optional
        Column of weights, to be added up beside the counts.
    count : str
        What the counts are called.

    Examples
    --------
    >>> print(count_query("postgres", ["hr", "people"], "job", sensitive_features="sex"))
    SELECT old."job", old."sex", COUNT(*) AS "count" FROM "hr"."people" AS old GROUP BY old."job",
    old."sex"
    """
    words = dialect_of(dialect)
    roles = ColumnRoles(
        names_of(label, "label"), False, names_of(sensitive_features, "sensitive_features")
    )
    roles = replace(
        roles, control=names_of(control_features, "control_features"), weight=sample_weight
    )
    if len(roles.label) != 1 or not roles.sensitive:
        raise ParameterError(
            "One column of classes and at least one attribute are counted.",
            remedy="Name them.",
            label=label,
        )
    return _count(Target(words, words.table(table), roles, None), count)


def _count(target: Target, count: str) -> str:
    roles, words = target.roles, target.dialect
    keys = [target.column(name) for name in roles.described]
    if count in (*roles.described, roles.weight):
        raise ParameterError(
            f"The counts would have the name of the column {count!r}.",
            remedy="Choose another with count=...",
            column=count,
        )
    chosen = [*keys, f"COUNT(*) AS {words.quoted(count)}"]
    if roles.weight is not None:
        chosen.append(f"SUM({target.column(roles.weight)}) AS {words.quoted(roles.weight)}")
    # of other databases only text has an order of letters
    bytes_ = words.by_byte if words.name == "sqlite" else ""
    return f"SELECT {', '.join(chosen)} FROM {target.table} AS old GROUP BY {', '.join(f'{key}{bytes_}' for key in keys)}"


def statements(
    fair: FairLabels,
    dialect: str,
    table: str | Sequence[str],
    form: Form,
    *,
    label: str | None = None,
    sensitive_features: Any = None,
    control_features: Any = None,
    sample_weight: str | None = None,
    key: Any = None,
    random_state: int = 0,
    new_column: str | None = None,
    columns: Sequence[str] | None = None,
    into: str | Sequence[str] | None = None,
    counts: Any = None,
    count: str = "count",
    answers: str | Sequence[str] | None = None,
) -> SQL:
    """Write statements for a result; arguments as for :meth:`r2b.FairLabels.sql`."""
    words = dialect_of(dialect)
    if form not in get_args(Form):
        raise ParameterError(
            f"form is {form!r}.",
            remedy=f"Pass one of {', '.join(map(repr, get_args(Form)))}.",
            form=form,
        )
    roles = _roles(fair, label, sensitive_features, control_features)
    roles = replace(
        roles,
        key=names_of(key, "key"),
        weight=roles.weight if sample_weight is None else sample_weight,
    )
    _refuse_form(fair, words, form, roles)
    target = Target(
        words, words.table(table), roles, None if columns is None else names_of(columns, "columns")
    )
    names = new_names(form, new_column, roles, fair.classes.tolist(), ordered=False)
    _refuse_names(words, names, (*roles.described, *roles.key, *(target.columns or ())))
    seen = _seen(fair, roles, counts, count) if form == "round" else None
    found = answers_of(fair.rule, form, names, seen, random_state)
    held = words.table(answers) if answers is not None else "r2b_answers"
    with_ = [] if answers is not None else [words.rows("r2b_answers", found.columns, found.rows)]
    select = (
        _drawn(target, found, form, random_state, held, with_)
        if form in ("round", "sample")
        else _joined(target, found, form, held, with_)
    )
    create = None if into is None else f"CREATE TABLE {words.table(into)} AS\n{select}"
    return SQL(
        words.name,
        _count(target, count),
        select,
        create,
        _check(target) if form == "round" else None,
        found.table,
    )


def _refuse_names(words: Dialect, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse new columns that the database would not tell from others, or cut off."""
    remedy = "Choose another name with new_column."
    for name in names:
        long = words.name == "postgres" and len(name.encode()) > _LONGEST
        if name in known or names.count(name) > 1 or long or _OWN.fullmatch(name):
            why = (
                f"is longer than the {_LONGEST} bytes that PostgreSQL keeps of it"
                if long
                else "would have the name of another"
            )
            raise ParameterError(f"The new column {name!r} {why}.", remedy=remedy, column=name)
    if words.name not in ("postgres", "snowflake"):  # where capitals count in names that are quoted
        refuse_alike(
            known,
            names,
            words.name,
            f"{remedy} 'round', 'sample' and 'expand' need no column per class.",
        )


def _roles(fair: FairLabels, label: Any, sensitive: Any, control: Any) -> ColumnRoles:
    """Find out what the columns are called: as said here, else as the table was called that the prices were found on."""
    schema = fair.schema
    if schema.is_soft or set(schema.kinds) != {CATEGORICAL}:
        what = "probabilities" if schema.is_soft else "continuous or uncertain attributes"
        problem = f"The labels were found from {what}, and follow from numbers of each row that no table can be joined by."
        raise ParameterError(
            problem,
            remedy="Scan the table where it lives with r2b.scan, or read it and use r2b.debias.",
        )
    known = fair.rows.roles if isinstance(fair.rows, TableRows) else None
    classes = names_of(label, "label") or (() if known is None else known.label)
    attributes = (names_of(sensitive, "sensitive_features"), names_of(control, "control_features"))
    if not any(attributes):
        attributes = (schema.columns[: schema.n_sensitive], schema.columns[schema.n_sensitive :])
    if (
        len(classes) != 1
        or not all(map(len, attributes[0]))
        or len(attributes[0] + attributes[1]) != len(schema.columns)
    ):
        problem = f"The prices were found for one label and {len(schema.columns)} attributes, and their columns are not known."
        raise ParameterError(
            problem,
            remedy="Name them with label=..., sensitive_features=... and control_features=..., in their order.",
        )
    return ColumnRoles(classes, False, *attributes, weight=None if known is None else known.weight)


def _refuse_form(fair: FairLabels, words: Dialect, form: Form, roles: ColumnRoles) -> None:
    if form == "expand" and fair.weighted and roles.weight is None:
        raise ParameterError(
            "The rows have weights, and their column is not known.",
            remedy="Name it with sample_weight=...",
            form=form,
        )
    if form not in ("round", "sample"):
        return
    if not words.draws:
        problem = f"The draws of rows were never compared with those in memory on {words.name}, so that {form!r} is not offered there."
        raise ParameterError(problem, remedy=_SCAN, dialect=words.name, form=form)
    if not roles.key:
        problem = (
            f"The rows of a database have no order, so that nothing tells them apart for {form!r}."
        )
        raise ParameterError(
            problem, remedy="Name columns of whole numbers that do, such as key='id'.", form=form
        )
    if form == "round" and fair.weighted and not fair.unchanged:
        problem = "Weighted rows are rounded one after the other, each by those before it, which no join does."
        raise ParameterError(problem, remedy=_SCAN.replace("'soft'", "'soft', 'sample'"), form=form)


def _seen(fair: FairLabels, roles: ColumnRoles, counts: Any, count: str) -> Dataset:
    """Give the counts of the table, read with the classes and groups of the prices."""
    if counts is not None:
        found = recounted(counts_source(counts, count), fair.schema, roles)
        if found is None:
            raise EmptyError("The counts have no rows.", remedy="Count a table that has some.")
        return found
    seen = None if fair.rows is None else fair.rows.counts
    if seen is None:
        remedy = (
            "Run the query of r2b.count_query on the table, and pass what it gives as counts=..."
        )
        raise RowsUnavailableError(
            "These prices come without the counts of a table, which 'round' keeps.", remedy=remedy
        )
    return seen


def _keys(target: Target, answers: Answers, olds: Sequence[str]) -> str:
    """Write the condition of the join."""
    pairs = zip(olds, answers.columns[: answers.n_keys], answers.missing, strict=True)
    return " AND ".join(
        target.dialect.same(old, target.column(name, "new"), kind, gap)
        for old, (name, kind), gap in pairs
    )


def _joined(target: Target, answers: Answers, form: Form, held: str, with_: list[str]) -> str:
    words, roles = target.dialect, target.roles
    olds = [target.column(name) for name in roles.described]
    made = []
    for place, (name, kind) in enumerate(answers.columns[answers.n_keys :]):
        value = target.column(name, "new")
        times = (
            f" * {target.column(roles.weight)}"
            if form == "expand" and place == 1 and roles.weight is not None
            else ""
        )
        failed = words.failure(_UNKNOWN, olds, kind)
        made.append(
            f"CASE WHEN {value} IS NULL THEN {failed} ELSE {value}{times} END AS {words.quoted(name)}"
        )
    kept = ["old.*"] if target.columns is None else [target.column(name) for name in target.columns]
    query = f"SELECT {', '.join([*kept, *made])}\nFROM {target.table} AS old\nLEFT JOIN {held} AS new ON {_keys(target, answers, olds)}"
    return _with(with_, query)


def _drawn(
    target: Target, answers: Answers, form: Form, random_state: int, held: str, with_: list[str]
) -> str:
    """Write the query that finds the stretch that a row's place lies in: its draw, or how many draws of its kind come no later."""
    words, roles = target.dialect, target.roles
    kept = tuple(dict.fromkeys(target.columns or (*roles.key, *roles.described)))
    carried = {
        f'"c{place}"': target.column(name)
        for place, name in enumerate(dict.fromkeys([*kept, *roles.key, *roles.described]))
    }
    called = dict(zip(dict.fromkeys([*kept, *roles.key, *roles.described]), carried, strict=True))
    steps = drawn(
        words, target.table, carried, [words.quoted(name) for name in roles.key], random_state
    )
    place, rows = 's."draw"', "0"
    if form == "round":
        bytes_ = words.by_byte if words.name == "sqlite" else ""
        kinds = ", ".join(f"{called[name]}{bytes_}" for name in roles.described)
        # Rows that share a draw are counted together, as in memory: both come before a border or
        # after it.
        windows = [
            f'COUNT(*) OVER (PARTITION BY {kinds} ORDER BY "draw") - 1 AS "place"',
            f'COUNT(*) OVER (PARTITION BY {kinds}) AS "rows"',
        ]
        steps.append(
            f'r2b_placed AS (SELECT {", ".join(carried)}, "draw", {", ".join(windows)} FROM r2b_drawn{words.fence})'
        )
        place, rows = 's."place"', 's."rows"'
    olds = [f"s.{called[name]}" for name in roles.described]
    keys = [f"s.{called[name]}" for name in roles.key]
    (name, kind), new = (
        answers.columns[answers.n_keys],
        target.column(answers.columns[answers.n_keys][0], "new"),
    )
    cases = [
        f'WHEN s."draw" IS NULL THEN {words.failure(_KEYLESS, keys, kind)}',
        f"WHEN {new} IS NULL THEN {words.failure(_UNKNOWN, olds, kind)}",
    ]
    if form == "round":
        cases.append(
            f"WHEN {rows} <> {target.column('r2b_rows', 'new')} THEN {words.failure(_CHANGED, olds, kind)}"
        )
    old = [f"s.{called[each]} AS {words.quoted(each)}" for each in kept]
    within = f"{place} >= {target.column('r2b_from', 'new')} AND {place} < {target.column('r2b_to', 'new')}"
    chosen = f"{', '.join(old)}, CASE {' '.join(cases)} ELSE {new} END AS {words.quoted(name)}"
    last = "r2b_placed" if form == "round" else "r2b_drawn"
    query = f"SELECT {chosen}\nFROM {last} AS s\nLEFT JOIN {held} AS new ON {_keys(target, answers, olds)} AND {within}"
    return _with([*with_, *steps], query)


def _with(queries: Sequence[str], query: str) -> str:
    return f"WITH {f',{chr(10)}'.join(queries)}\n{query}" if queries else query


def _check(target: Target) -> str:
    keys = ", ".join(target.column(name) for name in target.roles.key)
    return f"SELECT {keys}, COUNT(*) AS {target.dialect.quoted('rows')} FROM {target.table} AS old GROUP BY {keys} HAVING COUNT(*) > 1"
