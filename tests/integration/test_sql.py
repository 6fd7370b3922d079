"""Statements in SQL on PostgreSQL, DuckDB and SQLite: the labels of memory, row by row."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlglot
from databases import Database, open_database, quoted

import r2b
from r2b._labels.draws import draws_of, key_words
from r2b.engines.sql.dialects import DIALECTS
from r2b.engines.sql.draws import drawn
from r2b.errors import (
    InputError,
    MissingValueError,
    MixedTypeError,
    ParameterError,
    RowsUnavailableError,
    UnseenError,
)

RUN = ["postgres", "duckdb", "sqlite"]
SEED = 5
JOBS = ["O'Hara", "back\\slash", "naïve 100%", "new\nline", 'a "b"']
LABEL, REGION, SEX, KEY = 'job "title"', "a.b", "Sex ", "the id"


@pytest.fixture(scope="module", params=RUN)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with open_database(request.param) as opened:
        yield opened


def people(n: int = 1500, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, n), rng.integers(0, 4, n)
    shares = np.array([[0.5, 0.2, 0.1, 0.1, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2]])
    job = [int(rng.choice(5, p=shares[code])) for code in sex]
    return {
        KEY: rng.permutation(np.arange(n) * 7_000_000_000_001 - 10**16).tolist(),
        "part": rng.integers(-3, 3, n).tolist(),
        LABEL: [JOBS[code] for code in job],
        "grade": [code - 2 for code in job],
        "senior": [code > 1 for code in job],
        SEX: (sex * 2 - 1).tolist(),
        REGION: [None if code == 3 else ("north", "NORTH", "south")[code] for code in region],
        "flag": (region == 0).tolist(),
        "weight": rng.integers(1, 5, n).tolist(),
    }


ROWS = people()
KINDS = {
    KEY: "whole",
    "part": "small",
    LABEL: "text",
    "grade": "small",
    "senior": "truth",
    SEX: "small",
    REGION: "text",
}
KINDS |= {"flag": "truth", "weight": "small"}


@pytest.fixture(scope="module")
def filled(database: Database) -> Database:
    database.fill("the people", {name: (KINDS[name], values) for name, values in ROWS.items()})
    return database


CASES: dict[str, dict[str, Any]] = {
    "text, nulls": {
        "label": LABEL,
        "sensitive_features": [SEX, REGION],
        "missing": "group",
        "families": "both",
        "epsilon": 0.02,
    },
    "integers": {"label": "grade", "sensitive_features": SEX, "epsilon": 0.01},
    "booleans": {
        "label": "senior",
        "sensitive_features": "flag",
        "control_features": SEX,
        "epsilon": 0.0,
    },
    "left out": {
        "label": LABEL,
        "sensitive_features": REGION,
        "missing": "exclude",
        "epsilon": 0.0,
    },
    "fewest changes": {
        "label": LABEL,
        "sensitive_features": SEX,
        "objective": "agreement",
        "epsilon": 0.05,
    },
}


def split(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    asked = {
        name: case[name]
        for name in ("label", "sensitive_features", "control_features")
        if name in case
    }
    return asked, {name: value for name, value in case.items() if name not in asked}


def in_memory(case: dict[str, Any], **more: Any) -> r2b.FairLabels:
    asked, options = split(case)
    features = {
        role: {
            name: ROWS[name]
            for name in ([asked[role]] if isinstance(asked[role], str) else asked[role])
        }
        for role in ("sensitive_features", "control_features")
        if role in asked
    }
    return r2b.debias(ROWS[asked["label"]], **features, **options, **more)


@pytest.mark.parametrize("name", CASES)
def test_labels_are_those_in_memory(filled: Database, name: str) -> None:
    asked, options = split(CASES[name])
    known, by = in_memory(CASES[name]), filled.dialect
    counted = filled.columns(r2b.count_query(by, "the people", **asked))
    fair = r2b.debias_counts(counted, **asked, **options)
    assert fair.status is known.status
    assert np.abs(fair.prices - known.prices).max() < 1e-12
    for form in ("soft", "round", "sample"):
        key = {} if form == "soft" else {"key": KEY, "random_state": SEED}
        made = known.sql(by, table="the people", form=form, into="fair people", **asked, **key)
        if form == "round":
            assert filled.run(made.check) == []
        filled.run('DROP TABLE IF EXISTS "fair people"')
        filled.connection.execute(made.create)
        found = filled.columns('SELECT * FROM "fair people"')
        place = {each: row for row, each in enumerate(found[KEY])}
        rows = [place[each] for each in ROWS[KEY]]
        assert len(found[KEY]) == len(rows)
        new = [each for each in found if each not in ROWS]
        if form == "soft":
            matrix = np.array([found[each] for each in new], float).T[rows]
            assert np.array_equal(matrix, known.soft_labels)  # the very numbers
            assert [found[asked["label"]][row] for row in rows] == ROWS[asked["label"]]
        else:
            labels = getattr(known, form)(SEED, key=ROWS[KEY]).tolist()
            kind = type(labels[0])  # SQLite has no truth values
            assert [kind(found[new[0]][row]) for row in rows] == labels


def test_repeated_rows_and_weights_are_those_in_memory(filled: Database) -> None:
    case = CASES["text, nulls"]
    asked, options = split(case)
    weight = {"sample_weight": "weight"}
    query = r2b.count_query(filled.dialect, "the people", **asked, **weight)
    fair = r2b.debias_counts(filled.columns(query), **asked, **options, **weight)
    known = in_memory(case, sample_weight=ROWS["weight"])
    assert np.abs(fair.prices - known.prices).max() < 1e-9 and fair.weighted
    with pytest.raises(ParameterError, match="one after the other"):
        fair.sql(filled.dialect, table="the people", form="round", key=KEY)
    made = known.sql(
        filled.dialect, table="the people", form="expand", **asked, columns=[KEY], **weight
    )
    rows, labels, weights = known.expand()
    keys = [ROWS[KEY][row] for row in rows]
    expected = sorted(zip(keys, labels.tolist(), weights.tolist(), strict=True))
    assert sorted(filled.run(made.select)) == expected


@pytest.mark.parametrize("keys", [[KEY], ["part"], ["part", KEY, "weight"]])
def test_draws_are_those_in_memory_bit_for_bit(filled: Database, keys: list[str]) -> None:
    words, ends = DIALECTS[filled.dialect], [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32), 2**31]
    table = {key: [*ROWS[key], *ends] for key in {KEY, *keys}}
    columns = {key: ("whole", values) for key, values in table.items()}
    filled.fill("drawn", columns | {"place": ("whole", list(range(len(table[KEY]))))})
    for seed in (0, 2**63 - 1):
        steps = drawn(words, '"drawn"', {'"c0"': "old.place"}, [*map(quoted, keys)], seed)
        found = dict(filled.run(f'WITH {", ".join(steps)} SELECT "c0", "draw" FROM r2b_drawn'))
        draws = draws_of(key_words([table[key] for key in keys], keys), seed)
        assert [found[place] for place in range(len(draws))] == draws.tolist()


def test_rows_that_share_a_key_round_as_in_memory_and_are_shown(database: Database) -> None:
    # Few enough for memory to take the keys, and shared right where borders are.
    keys = [*range(2000), *range(7)]
    label = ["ab"[key % 3 == 0] for key in keys]
    sex = ["f" if key % 2 == 0 or place >= 1000 else "m" for place, key in enumerate(keys)]
    fair = r2b.debias(label, sensitive_features={"sex": sex})
    database.fill("shared", {"id": ("whole", keys), "job": ("text", label), "sex": ("text", sex)})
    made = fair.sql(database.dialect, table="shared", label="job", form="round", key="id")
    found = sorted((key, new) for key, *_, new in database.run(made.select))
    assert found == sorted(zip(keys, fair.round(0, key=keys).tolist(), strict=True))
    assert sorted(database.run(made.check)) == [(key, 2) for key in range(7)]


def test_stored_prices_label_another_table_and_its_counts_are_kept(
    filled: Database, tmp_path: Any
) -> None:
    in_memory(CASES["text, nulls"]).save(tmp_path / "prices.json")
    stored, asked = r2b.load(tmp_path / "prices.json"), split(CASES["text, nulls"])[0]
    later = people(500, seed=1)
    filled.fill("later", {name: (KINDS[name], values) for name, values in later.items()})
    asked_for = {"table": "later", "key": KEY, "random_state": SEED, **asked}
    with pytest.raises(RowsUnavailableError, match="count_query"):
        stored.sql(filled.dialect, form="round", **asked_for)
    counts = filled.columns(r2b.count_query(filled.dialect, "later", **asked))
    roles = {"sensitive_features": asked["sensitive_features"]}
    rows = r2b.scan(pa.table(later)).transform(stored, LABEL, **roles)
    for form in ("round", "sample"):
        made = stored.sql(filled.dialect, form=form, counts=counts, **asked_for)
        known = rows.frame(form, key=KEY, random_state=SEED)[f"{LABEL}_fair"].to_pylist()
        found = {row[0]: row[-1] for row in filled.run(made.select)}
        assert [found[key] for key in later[KEY]] == known


def test_a_row_that_was_not_counted_fails_the_statement(database: Database) -> None:
    table = {
        "id": ("whole", [1, 2, 3, 4, 5]),
        "job": ("text", [*"abbab"]),
        "sex": ("text", [*"ffmmm"]),
    }
    database.fill("small", table)
    fair = r2b.debias(table["job"][1], sensitive_features={"sex": table["sex"][1]})
    made = {
        form: fair.sql(
            database.dialect,
            table="small",
            label="job",
            form=form,
            key=None if form in ("soft", "expand") else "id",
        ).select
        for form in ("soft", "expand", "round", "sample")
    }
    for statement in made.values():
        assert len(database.run(statement)) >= 5
    for values, forms in {
        "(6, 'c', 'f')": made,
        "(6, 'a', NULL)": made,
        "(6, NULL, 'f')": made,
        "(6, 'A', 'f')": made,
        "(6, 'a', 'f')": ["round"],
        "(NULL, 'a', 'f')": ["round", "sample"],
    }.items():
        database.connection.execute(f"INSERT INTO small VALUES {values}")
        for form in forms:
            with pytest.raises(Exception, match="r2b: th"):
                database.run(made[form])
        database.connection.execute("DELETE FROM small WHERE id IS NULL OR id = 6")
    database.connection.execute("DELETE FROM small WHERE id = 5")
    with pytest.raises(Exception, match="not as many"):
        database.run(made["round"])


def test_types_and_capitals_are_not_mixed_up(database: Database) -> None:
    refused = r"r2b: this row|operator does not exist|collations are not supported by type"
    for kind, ours, theirs in (("text", [1, 2], ["1", "2"]), ("small", ["1", "2"], [1, 2])):
        database.fill("typed", {"job": (kind, theirs), "sex": ("text", ["f", "F"])})
        fair = r2b.debias(ours, sensitive_features={"sex": ["f", "F"]}, epsilon=1)
        with pytest.raises(Exception, match=refused):
            database.run(fair.sql(database.dialect, table="typed", label="job").select)
    for kind, values in {"text": ["1", "2"], "real": [1.0, 2.5]}.items():
        columns = {"id": (kind, values), "job": ("text", [*"ab"]), "sex": ("text", [*"fm"])}
        database.fill("odd", columns)
        fair = r2b.debias([*"ab"], sensitive_features={"sex": [*"fm"]}, epsilon=1)
        made = fair.sql(database.dialect, table="odd", label="job", form="sample", key="id")
        with pytest.raises(Exception, match=r"no whole number|operator does not exist"):
            database.run(made.select)
    with pytest.raises(Exception, match="gender"):  # SQLite takes such a name for a text
        database.run(r2b.count_query(database.dialect, "odd", "job", sensitive_features="gender"))
    if database.dialect == "postgres":
        return
    # where a column may take capitals for small letters
    text = "TEXT COLLATE NOCASE"
    database.run("DROP TABLE IF EXISTS cased")
    database.connection.execute(f"CREATE TABLE cased (job {text}, sex {text})")
    database.connection.execute("INSERT INTO cased VALUES ('a', 'f'), ('A', 'F'), ('a', 'F')")
    fair = r2b.debias([*"aAa"], sensitive_features={"sex": [*"fFF"]}, epsilon=1)
    made = fair.sql(database.dialect, table=["main", "cased"], label="job", form="expand")
    expected = [("A", "F", "A", 1.0), ("a", "F", "a", 1.0), ("a", "f", "a", 1.0)]
    assert sorted(database.run(made.select)) == expected


def test_an_enum_of_duckdb_is_text_and_nulls_match_nulls() -> None:
    with open_database("duckdb") as database:
        database.connection.execute("CREATE TYPE job AS ENUM ('a', 'b')")
        database.connection.execute("CREATE TABLE people (job job, sex VARCHAR)")
        rows = "('a', 'f'), ('b', 'f'), ('b', 'm'), ('b', NULL)"
        database.connection.execute(f"INSERT INTO people VALUES {rows}")
        query = r2b.count_query("duckdb", "people", "job", sensitive_features="sex")
        counts = database.connection.sql(query)
        fair = r2b.debias_counts(counts, "job", sensitive_features="sex", missing="group")
        found = database.run(fair.sql("duckdb", table="people", columns=["job", "sex"]).select)
        job, sex = [*"abbb"], ["f", "f", "m", None]
        known = r2b.debias(job, sensitive_features={"sex": sex}, missing="group").soft_labels
        assert {(row[0], row[1], round(row[2], 9)) for row in found} == {
            (*each, round(share, 9)) for *each, share in zip(job, sex, known[:, 0], strict=True)
        }


def test_answers_may_lie_in_a_table_of_their_own(filled: Database) -> None:
    fair = in_memory(CASES["integers"])
    made = fair.sql(
        filled.dialect, table="the people", label="grade", form="round", key=KEY, answers="answers"
    )
    assert "VALUES" not in made.select and made.answers.column_names[:2] == ["k0", "k1"]
    filled.fill(
        "answers",
        {name: ("whole", made.answers[name].to_pylist()) for name in made.answers.column_names},
    )
    inline = fair.sql(filled.dialect, table="the people", label="grade", form="round", key=KEY)
    assert sorted(filled.run(made.select)) == sorted(filled.run(inline.select))


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery"])
def test_dialects_that_are_not_run_can_at_least_be_parsed(dialect: str) -> None:
    fair, asked = in_memory(CASES["text, nulls"]), split(CASES["text, nulls"])[0]
    sqlglot.parse_one(r2b.count_query(dialect, "the people", **asked), read=dialect)
    for form in ("soft", "expand"):
        made = fair.sql(
            dialect, table=["hr", "people"], form=form, label=LABEL, into=["hr", "fair"]
        )
        sqlglot.parse_one(made.create, read=dialect)
    with pytest.raises(ParameterError, match="not offered there"):
        fair.sql(dialect, table="people", form="round", label=LABEL, key=KEY)


COUNTS = {"job": ["a", "b", "b", "a"], "sex": ["f", "f", "m", "m"], "count": [4, 6, 7, 3]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table, pl.LazyFrame])
def test_counts_of_any_frame_are_the_rows(kind: Any) -> None:
    rows = [(job, sex) for job, sex, n in zip(*COUNTS.values(), strict=True) for _ in range(n)]
    known = r2b.debias(
        [job for job, _ in rows], sensitive_features={"sex": [sex for _, sex in rows]}, epsilon=0.05
    )
    fair = r2b.debias_counts(kind(COUNTS), "job", sensitive_features="sex", epsilon=0.05)
    assert np.array_equal(fair.prices, known.prices)
    assert fair.certificate.disparity == known.certificate.disparity
    assert fair.certificate.objective == known.certificate.objective
    weighted = r2b.debias(
        COUNTS["job"],
        sensitive_features={"sex": COUNTS["sex"]},
        sample_weight=COUNTS["count"],
        epsilon=0.05,
    )
    assert np.abs(fair.prices - weighted.prices).max() < 1e-12
    assert fair.largest_changes(1)[0].weight == known.largest_changes(1)[0].weight


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"count": [4, -1, 7, 3]}, InputError, "count -1"),
        ({"count": [4, 1.5, 7, 3]}, InputError, "count 1.5"),
        ({"count": [4, None, 7, 3]}, MissingValueError, "Row 1 has no count"),
        ({"count": ["4", "1", "7", "3"]}, InputError, "not numbers"),
        ({"job": ["a", None, "b", "a"]}, MissingValueError, "row 1 has no value in 'job'"),
        ({"sex": ["f", "f", None, "m"]}, MissingValueError, "missing='group'"),
        ({"job": ["a", 1, "b", "a"]}, MixedTypeError, "one type"),
        ({"count": [0, 0, 0, 0]}, InputError, "no rows"),
    ],
)
def test_counts_that_cannot_be_are_refused(
    change: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        r2b.debias_counts(COUNTS | change, "job", sensitive_features="sex")


def test_what_follows_from_no_join_is_refused() -> None:
    fair = r2b.debias_counts(COUNTS, "job", sensitive_features="sex")
    for form in (fair.round, lambda: fair.frame("soft")):
        with pytest.raises(RowsUnavailableError, match="sql"):
            form()
    for asked, match in (
        ({"dialect": "mysql"}, "dialect is 'mysql'"),
        ({"form": "rounded"}, "form is 'rounded'"),
        ({"form": "round"}, "needs a key"),
        ({"table": []}, "table is called"),
        ({"new_column": "sex", "form": "expand"}, "name of another"),
        ({"new_column": "x" * 63}, "63 bytes"),
        ({"new_column": "K0", "form": "expand"}, "name of another"),
    ):
        with pytest.raises(ParameterError, match=match):
            fair.sql(**{"dialect": "postgres", "table": "people"} | asked)
    with pytest.raises(ParameterError, match="counts would have the name"):
        r2b.count_query("sqlite", "people", "job", sensitive_features="count")
    new = {"job": ["c"], "sex": ["f"], "count": [3]}
    with pytest.raises(UnseenError, match="3 rows with 'job' 'c'"):
        fair.sql("sqlite", table="people", form="round", key="id", counts=new)
    sex = {"sex": ["f", "m"]}
    soft = r2b.debias([[0.5, 0.5], [0.1, 0.9]], sensitive_features=sex)
    with pytest.raises(ParameterError, match="probabilities"):
        soft.sql("sqlite", table="people", label="p")
    with pytest.raises(ParameterError, match="columns are not known"):
        r2b.debias([*"abba"], sensitive_features=[*"ffmm"]).sql("sqlite", table="people", label="y")
    day = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
    for odd in (day, [1.0, 2.0], np.array(day, "M8[D]")):
        dated = r2b.debias(odd, sensitive_features=sex, epsilon=1)
        with pytest.raises(ParameterError, match="written differently"):
            dated.sql("sqlite", table="people", label="job")
    cased = r2b.debias(["a", "A", "b", "b"], sensitive_features={"sex": [*"ffmm"]})
    assert '"job_fair_A"' in cased.sql("postgres", table="people", label="job").select
    for dialect in ("duckdb", "sqlite"):
        with pytest.raises(ParameterError, match="differs from 'job_fair_A' in capitals only"):
            cased.sql(dialect, table="people", label="job")


def test_a_reference_of_dbt_is_left_alone() -> None:
    fair = r2b.debias_counts(COUNTS, "job", sensitive_features="sex")
    made = fair.sql("snowflake", table="{{ ref('people') }}", answers="{{ ref('fair_answers') }}")
    assert "FROM {{ ref('people') }} AS old" in made.select
    assert "LEFT JOIN {{ ref('fair_answers') }} AS new" in made.select
    assert str(made) == f"{made.select};" and made.create is None
