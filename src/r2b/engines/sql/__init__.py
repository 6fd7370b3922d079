"""Statements in SQL: one counts class labels, one returns every row with its fair label.

The new label of a row follows from its class and its groups, so that a join with a small table
returns it. The draw of a row follows from its key by arithmetic that is the same, bit for bit, as
in memory (:mod:`r2b.engines.sql.draws`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from r2b._data import Dataset
from r2b._data.values import one_of
from r2b._labels import FairLabels
from r2b._labels.rows import FORMS, Form
from r2b.engines.counts import counts_source
from r2b.engines.reweighing import WeighedRows
from r2b.engines.roles import ColumnRoles, names_of, refuse_alike
from r2b.engines.source import new_names
from r2b.engines.sql.answers import Answers, answers_of
from r2b.engines.sql.dialects import Dialect, dialect_of
from r2b.engines.sql.draws import drawn
from r2b.engines.table_rows import TableRows, recounted
from r2b.errors import EmptyError, ParameterError, RowsUnavailableError

_UNKNOWN = "r2b: this row is not among those that were counted, debias again: "
_CHANGED = "r2b: these rows are not as many as were counted, debias again: "
_KEYLESS = "r2b: the key of this row is no whole number: "
_OWN = re.compile(r"k\d+|r2b_(from|to|rows)", re.IGNORECASE)  # columns of the answers
_SCAN = "or scan the table where it lives with r2b.scan, or read it and use r2b.debias."


@dataclass(frozen=True, eq=False)
class SQL:
    """Statements that count a table and label its rows, from :meth:`r2b.FairLabels.sql`.

    Attributes
    ----------
    dialect : str
    count : str
        The query whose result :func:`r2b.debias_counts` takes.
    select : str
        The query that returns the rows with their fair labels. It fails on a row that was not
        there when rows were counted.
    create : str or None
        The statement that writes them to a table, where one was named.
    check : str or None
        For "round": a query that returns the keys that several rows share; it should be empty.
    answers : pyarrow.Table
        The new labels of each combination, as they are joined.
    """

    dialect: str
    count: str
    select: str
    create: str | None = None
    check: str | None = None
    answers: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.create or self.select};"


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
        The database whose SQL is written.
    table : str or list of str
        Its name, with schema as a list. Names are quoted as they are; a reference of dbt, ``{{
        ref('people') }}``, stays as it is.
    label, sensitive_features, control_features : str or list of str
        Names of columns.
    sample_weight : str, optional
        Column of weights, to be added up beside the counts.
    count : str
        What the counts are called.

    See Also
    --------
    r2b.debias_counts : Labels from a table of counts.

    Examples
    --------
    >>> print(count_query("postgres", ["hr", "people"], "job", sensitive_features="sex"))
    SELECT old."job", old."sex", COUNT(*) AS "count" FROM "hr"."people" AS old GROUP BY old."job",
    old."sex"
    """
    label_names = names_of(label, "label")
    attributes = names_of(sensitive_features, "sensitive_features")
    if len(label_names) != 1 or not attributes:
        raise ParameterError(
            "One column of classes and at least one attribute are counted.",
            remedy="Name them.",
            label=label,
        )
    control = names_of(control_features, "control_features")
    roles = ColumnRoles(label_names, False, attributes, control, weight=sample_weight)
    words = dialect_of(dialect)
    return _count(words, words.table(table), roles, count)


def _count(words: Dialect, table: str, roles: ColumnRoles, count: str) -> str:
    if count in (*roles.described, roles.weight):
        raise ParameterError(
            f"The counts would have the name of the column {count!r}.",
            remedy="Pass another `count`.",
            column=count,
        )
    keys = [f"old.{words.quoted(name)}" for name in roles.described]
    chosen = [*keys, f"COUNT(*) AS {words.quoted(count)}"]
    if roles.weight is not None:
        weight = words.quoted(roles.weight)
        chosen.append(f"SUM(old.{weight}) AS {weight}")
    grouped = ", ".join(key + _grouped_by_byte(words) for key in keys)
    return f"SELECT {', '.join(chosen)} FROM {table} AS old GROUP BY {grouped}"


def _grouped_by_byte(words: Dialect) -> str:
    # of other databases only text has an order of letters
    return words.by_byte if words.name == "sqlite" else ""


def statements(
    fair: Any,
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
    names: tuple[str, ...] = (),
) -> SQL:
    """Write statements for a result; arguments as for :meth:`r2b.FairLabels.sql`.

    Results of :func:`r2b.reweigh` pass ``names``, which are those of the new columns.
    """
    words = dialect_of(dialect)
    one_of("form", form, Form)
    roles = _roles(fair, label, sensitive_features, control_features)
    weight = roles.weight if sample_weight is None else sample_weight
    roles = replace(roles, key=names_of(key, "key"), weight=weight)
    _refuse_form(fair, words, form, roles)
    source, kept = words.table(table), None if columns is None else names_of(columns, "columns")
    classes = fair.classes.tolist()
    names = names or new_names(form, new_column, roles, classes, ordered=False)
    _refuse_names(words, names, (*roles.described, *roles.key, *(kept or ())))
    seen = _seen(fair, roles, counts, count) if form == "round" else None
    found = answers_of(fair.rule, form, names, seen, random_state)
    steps = [words.rows("r2b_answers", [*found.keys, *found.new], found.rows)]
    held = "r2b_answers"
    if answers is not None:
        steps, held = [], words.table(answers)
    select = _select(words, source, roles, kept, found, form, held, steps, random_state)
    create = None if into is None else f"CREATE TABLE {words.table(into)} AS\n{select}"
    keys = ", ".join(f"old.{words.quoted(name)}" for name in roles.key)
    check = (
        f"SELECT {keys}, COUNT(*) AS {words.quoted('rows')} FROM {source} AS old GROUP BY {keys} "
        "HAVING COUNT(*) > 1"
    )
    counting = _count(words, source, roles, count)
    return SQL(
        words.name, counting, select, create, check if form == "round" else None, found.table
    )


def _select(
    words: Dialect,
    source: str,
    roles: ColumnRoles,
    columns: tuple[str, ...] | None,
    answers: Answers,
    form: Form,
    held: str,
    steps: list[str],
    random_state: int,
) -> str:
    """Write the query that joins the answers.

    For draws the table is read through queries that compute the draw, and a row's place is its
    draw, or how many draws of its kind come no later; the answers hold stretches of places.
    """
    # Columns with their table: SQLite takes the name of a column that is not there for a text.
    at = {name: f"old.{words.quoted(name)}" for name in (*roles.described, *roles.key)}
    kept = ["old.*"] if columns is None else [f"old.{words.quoted(name)}" for name in columns]
    within, failures, new = "", [], answers.new
    if FORMS[form].drawn:
        columns = columns or tuple(dict.fromkeys([*roles.key, *roles.described]))
        wanted = dict.fromkeys([*columns, *at])
        carried = {f'"c{place}"': f"old.{words.quoted(name)}" for place, name in enumerate(wanted)}
        called = dict(zip(wanted, carried, strict=True))
        keys = [words.quoted(name) for name in roles.key]
        steps = [*steps, *drawn(words, source, carried, keys, random_state)]
        source, place = "r2b_drawn", '"draw"'
        if form == "round":
            kinds = ", ".join(called[name] + _grouped_by_byte(words) for name in roles.described)
            # Rows that share a draw are counted together, as in memory: both come before a border
            # or after it.
            windows = (
                f'COUNT(*) OVER (PARTITION BY {kinds} ORDER BY "draw") - 1 AS "place", '
                f'COUNT(*) OVER (PARTITION BY {kinds}) AS "rows"'
            )
            chosen = f'SELECT {", ".join(carried)}, "draw", {windows} FROM r2b_drawn{words.fence}'
            steps.append(f"r2b_placed AS ({chosen})")
            source, place = "r2b_placed", '"place"'
        at = {name: f"old.{called[name]}" for name in at}
        kept = [f"old.{called[name]} AS {words.quoted(name)}" for name in columns]
        first, last, rows = (f"new.{words.quoted(name)}" for name, _ in new[1:])
        within = f" AND old.{place} >= {first} AND old.{place} < {last}"
        failures = [('old."draw" IS NULL', _KEYLESS, [at[name] for name in roles.key])]
        new = new[:1]
    olds = [at[name] for name in roles.described]
    failures.append((f"new.{words.quoted(new[0][0])} IS NULL", _UNKNOWN, olds))
    if form == "round":
        failures.append((f'old."rows" <> {rows}', _CHANGED, olds))
    for number, (name, kind) in enumerate(new):
        value = f"new.{words.quoted(name)}"
        if FORMS[form].repeated and number == 1 and roles.weight is not None:
            value += f" * old.{words.quoted(roles.weight)}"
        cases = " ".join(
            f"WHEN {wrong} THEN {words.failure(message, values, kind)}"
            for wrong, message, values in failures
        )
        kept.append(f"CASE {cases} ELSE {value} END AS {words.quoted(name)}")
    same = " AND ".join(
        words.same(old, f"new.{words.quoted(name)}", kind, nulls=nulls)
        for old, (name, kind), nulls in zip(olds, answers.keys, answers.nulls, strict=True)
    )
    query = f"SELECT {', '.join(kept)}\nFROM {source} AS old\nLEFT JOIN {held} AS new ON {same}"
    return (f"WITH {f',{chr(10)}'.join(steps)}\n" if steps else "") + query + within


def _refuse_names(words: Dialect, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse new columns that the database would not tell from others, or cut off."""
    remedy, times = "Pass another `new_column`.", Counter([*names, *{*known}])
    for name in names:
        long = words.name == "postgres" and len(name.encode()) > 63
        if times[name] > 1 or long or _OWN.fullmatch(name):
            why = "would have the name of another"
            if long:
                why = "is longer than the 63 bytes that PostgreSQL keeps of it"
            raise ParameterError(f"The new column {name!r} {why}.", remedy=remedy, column=name)
    if words.name not in ("postgres", "snowflake"):  # where capitals count in names that are quoted
        remedy = f"{remedy} 'round', 'sample' and 'expand' need no column per class."
        refuse_alike(known, names, words.name, remedy)


def _roles(fair: FairLabels, label: Any, sensitive: Any, control: Any) -> ColumnRoles:
    """Return the names of the columns: as given here, else those of the table that was solved."""
    schema = fair.schema
    if schema.is_soft or not schema.is_categorical:
        what = "probabilities" if schema.is_soft else "continuous or uncertain attributes"
        raise ParameterError(
            f"The labels were found from {what}, and follow from numbers of each row that no table "
            "can be joined by.",
            remedy="Scan the table where it lives with r2b.scan, or read it and use r2b.debias.",
        )
    rows = fair.rows.table if isinstance(fair.rows, WeighedRows) else fair.rows
    known = rows.roles if isinstance(rows, TableRows) else None
    classes = names_of(label, "label") or (() if known is None else known.label)
    attributes = (names_of(sensitive, "sensitive_features"), names_of(control, "control_features"))
    if not any(attributes):
        attributes = (schema.columns[: schema.n_sensitive], schema.columns[schema.n_sensitive :])
    named = all(map(len, attributes[0])) and len(sum(attributes, ())) == len(schema.columns)
    if len(classes) != 1 or not named:
        raise ParameterError(
            f"The prices were found for one label and {len(schema.columns)} attributes, and their "
            "columns are not known.",
            remedy="Pass `label`, `sensitive_features` and `control_features`, in their order.",
        )
    return ColumnRoles(classes, False, *attributes, weight=None if known is None else known.weight)


def _refuse_form(fair: FairLabels, words: Dialect, form: Form, roles: ColumnRoles) -> None:
    if FORMS[form].repeated and fair.weighted and roles.weight is None:
        raise ParameterError(
            "The rows have weights, and their column is not known.",
            remedy="Pass `sample_weight`.",
            form=form,
        )
    if not FORMS[form].drawn:
        return
    if not words.draws:
        raise ParameterError(
            f"The draws of rows were never compared with those in memory on {words.name}, so that "
            f"{form!r} is not offered there.",
            remedy=f"Take 'soft' or 'expand', {_SCAN}",
            dialect=words.name,
            form=form,
        )
    if not roles.key:
        raise ParameterError(
            f"The rows of a database have no order, so that {form!r} needs a key.",
            remedy="Name columns of whole numbers that identify rows, such as `key='id'`.",
            form=form,
        )
    if form == "round" and fair.weighted and not fair.unchanged:
        raise ParameterError(
            "Weighted rows are rounded one after the other, which no join does.",
            remedy=f"Take 'soft', 'sample' or 'expand', {_SCAN}",
            form=form,
        )


def _seen(fair: FairLabels, roles: ColumnRoles, counts: Any, count: str) -> Dataset:
    """Return the counts of the table, read with the classes and groups of the prices."""
    if counts is not None:
        found = recounted(counts_source(counts, count), fair.schema, roles)
        if found is None:
            raise EmptyError("The counts have no rows.", remedy="Count a table that has some.")
        return found
    seen = None if fair.rows is None else fair.rows.counts
    if seen is None:
        raise RowsUnavailableError(
            "These prices come without the counts of a table, which 'round' keeps.",
            remedy="Run the query of r2b.count_query on the table, and pass its result as "
            "`counts`.",
        )
    return seen
