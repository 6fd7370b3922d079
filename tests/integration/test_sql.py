"""Statements in SQL, run by PostgreSQL, DuckDB and SQLite: labels are those in memory, row by row, and what cannot be is refused."""

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
from r2b.engines.sql.answers import _draw_borders
from r2b.engines.sql.dialects import DIALECTS
from r2b.engines.sql.draws import drawn
from r2b.errors import (
    InputError,
    MissingValueError,
    MixedTypeError,
    ParameterError,
    RowsUnavailableError,
    UnseenError,
    WeightError,
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


def plain(values: Any, like: list[Any]) -> list[Any]:
    """Give values with the types that they came in: SQLite has no truth values."""
    return [type(like[0])(value) for value in values]


@pytest.mark.parametrize("name", CASES)
def test_labels_are_those_in_memory(filled: Database, name: str) -> None:
    asked, options = split(CASES[name])
    known, label, by = in_memory(CASES[name]), asked["label"], filled.dialect
    counted = filled.columns(r2b.count_query(by, "the people", **asked))
    fair = r2b.debias_counts(counted, **asked, **options)
    assert fair.status is known.status
    assert np.abs(fair.prices - known.prices).max() < 1e-12
    assert abs(fair.certificate.disparity - known.certificate.disparity) < 1e-12
    assert fair.certificate.relative_gap < 1e-6
    places = {key: place for place, key in enumerate(ROWS[KEY])}
    for form, soft in (("soft", True), ("round", False), ("sample", False)):
        key = {} if soft else {"key": KEY}
        made = fair.sql(
            by, table="the people", form=form, random_state=SEED, into="fair people", **key
        )
        filled.run('DROP TABLE IF EXISTS "fair people"')
        filled.connection.execute(made.create)
        found = filled.columns('SELECT * FROM "fair people"')
        order = np.argsort([places[each] for each in found[KEY]])
        assert len(order) == len(ROWS[KEY])
        new = [each for each in found if each not in ROWS]
        if soft:
            matrix = np.array([found[each] for each in new], float).T[order]
            assert (
                np.array_equal(matrix, known.soft_labels)
                or np.abs(matrix - known.soft_labels).max() < 1e-12
            )
            assert [found[label][row] for row in order] == ROWS[label]
        else:
            method = known.round if form == "round" else known.sample
            assert (
                plain(np.array(found[new[0]], object)[order], ROWS[label])
                == method(SEED, key=ROWS[KEY]).tolist()
            )


def test_soft_labels_arrive_bit_for_bit_and_expanded_ones_as_in_memory(filled: Database) -> None:
    asked, _ = split(CASES["text, nulls"])
    fair, by = in_memory(CASES["text, nulls"]), filled.dialect
    made = fair.sql(by, table="the people", label=LABEL, columns=[KEY])
    found = filled.columns(made.select)
    place = {key: row for row, key in enumerate(found[KEY])}
    matrix = np.array([found[name] for name in list(found)[1:]]).T[
        [place[key] for key in ROWS[KEY]]
    ]
    assert np.array_equal(matrix, fair.soft_labels)
    rows, labels, weights = fair.expand()
    known = sorted(
        zip([ROWS[KEY][row] for row in rows], labels.tolist(), weights.tolist(), strict=True)
    )
    made = fair.sql(
        by, table="the people", form="expand", **asked, columns=[KEY], sample_weight="weight"
    )
    found = filled.columns(made.select)
    got = sorted(zip(*found.values(), strict=True))
    weight = dict(zip(ROWS[KEY], ROWS["weight"], strict=True))
    assert [(key, job) for key, job, _ in got] == [(key, job) for key, job, _ in known]
    assert [share for *_, share in got] == [share * weight[key] for key, _, share in known]


@pytest.mark.parametrize("keys", [[KEY], ["part"], [KEY, "part"], ["part", KEY, "weight"]])
def test_draws_are_those_in_memory_bit_for_bit(filled: Database, keys: list[str]) -> None:
    words = DIALECTS[filled.dialect]
    for seed in (0, 2**63 - 1):
        steps = drawn(
            words,
            words.quoted("the people"),
            {'"c0"': f"old.{quoted(KEY)}"},
            [words.quoted(key) for key in keys],
            seed,
        )
        found = dict(filled.run(f'WITH {", ".join(steps)} SELECT "c0", "draw" FROM r2b_drawn'))
        draws = draws_of(key_words([ROWS[key] for key in keys], keys), seed)
        assert [found[key] for key in ROWS[KEY]] == draws.tolist()


def test_the_ends_of_whole_numbers_draw_the_same(database: Database) -> None:
    keys = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32), 2**32 - 1, 2**31]
    database.fill("ends", {"id": ("whole", keys)})
    words = DIALECTS[database.dialect]
    steps = drawn(words, '"ends"', {'"c0"': 'old."id"'}, ['"id"'], SEED)
    found = dict(database.run(f'WITH {", ".join(steps)} SELECT "c0", "draw" FROM r2b_drawn'))
    assert [found[key] for key in keys] == draws_of(key_words([keys], ["id"]), SEED).tolist()


def test_two_columns_are_a_key_and_shared_ones_are_shown(filled: Database) -> None:
    fair = in_memory(CASES["integers"])
    made = fair.sql(
        filled.dialect,
        table="the people",
        label="grade",
        form="round",
        key=["part", KEY],
        random_state=1,
    )
    found = {row[1]: row[-1] for row in filled.run(made.select)}
    assert [found[key] for key in ROWS[KEY]] == fair.round(
        1, key=[ROWS["part"], ROWS[KEY]]
    ).tolist()
    assert filled.run(made.check) == []
    shared = fair.sql(filled.dialect, table="the people", label="grade", form="round", key="part")
    assert sum(row[-1] for row in filled.run(shared.check)) == len(ROWS[KEY])
    sampled = fair.sql(
        filled.dialect, table="the people", label="grade", form="sample", key="part", columns=[KEY]
    )
    found = dict(filled.run(sampled.select))
    assert [found[key] for key in ROWS[KEY]] == fair.sample(0, key=ROWS["part"]).tolist()


def test_rows_that_share_a_draw_round_as_in_memory(database: Database) -> None:
    # Few enough for memory to take the keys, and shared right where borders are.
    keys = [*range(2000), *range(7)]
    label = ["ab"[key % 3 == 0] for key in keys]
    sex = ["f" if key % 2 == 0 or place >= 1000 else "m" for place, key in enumerate(keys)]
    fair = r2b.debias(label, sensitive_features={"sex": sex})
    database.fill("shared", {"id": ("whole", keys), "job": ("text", label), "sex": ("text", sex)})
    found = database.run(
        fair.sql(database.dialect, table="shared", label="job", form="round", key="id").select
    )
    known = fair.round(0, key=keys)
    assert sorted((key, new) for key, *_, new in found) == sorted(
        zip(keys, known.tolist(), strict=True)
    )


def test_stored_prices_label_another_table_and_its_counts_are_kept(
    filled: Database, tmp_path: Any
) -> None:
    in_memory(CASES["text, nulls"]).save(tmp_path / "prices.json")
    stored, asked = r2b.load(tmp_path / "prices.json"), split(CASES["text, nulls"])[0]
    later = people(500, seed=1)
    filled.fill("later", {name: (KINDS[name], values) for name, values in later.items()})
    with pytest.raises(RowsUnavailableError, match="count_query"):
        stored.sql(filled.dialect, table="later", form="round", key=KEY, **asked)
    counts = filled.columns(r2b.count_query(filled.dialect, "later", **asked))
    made = stored.sql(
        filled.dialect,
        table="later",
        form="round",
        key=KEY,
        counts=counts,
        **asked,
        random_state=SEED,
    )
    features = {name: later[name] for name in asked["sensitive_features"]}
    rows = r2b.scan(pa.table(later)).transform(
        stored, LABEL, sensitive_features=asked["sensitive_features"]
    )
    known = rows.frame("round", key=KEY, random_state=SEED)[f"{LABEL}_fair"].to_pylist()
    found = {row[0]: row[-1] for row in filled.run(made.select)}
    assert [found[key] for key in later[KEY]] == known
    # What is drawn for a row follows from its key alone, whatever else is in the table.
    made = stored.sql(
        filled.dialect, table="later", form="sample", key=KEY, **asked, random_state=SEED
    )
    found = {row[0]: row[-1] for row in filled.run(made.select)}
    assert stored.transform(later[LABEL], sensitive_features=features).shape == (500, 5)
    assert [found[key] for key in later[KEY]] == rows.frame("sample", key=KEY, random_state=SEED)[
        f"{LABEL}_fair"
    ].to_pylist()


def test_weights_are_added_up(filled: Database) -> None:
    asked, options = split(CASES["text, nulls"])
    counted = filled.columns(
        r2b.count_query(filled.dialect, "the people", **asked, sample_weight="weight")
    )
    fair = r2b.debias_counts(counted, **asked, **options, sample_weight="weight")
    known = in_memory(CASES["text, nulls"], sample_weight=ROWS["weight"])
    assert np.abs(fair.prices - known.prices).max() < 1e-9 and fair.weighted
    with pytest.raises(ParameterError, match="one after the other"):
        fair.sql(filled.dialect, table="the people", form="round", key=KEY)
    made = fair.sql(filled.dialect, table="the people", form="expand", columns=[KEY])
    assert sum(row[-1] for row in filled.run(made.select)) == pytest.approx(sum(ROWS["weight"]))


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


def test_a_key_that_is_no_whole_number_fails_the_statement(database: Database) -> None:
    fair = r2b.debias([*"abba"], sensitive_features={"sex": [*"ffmm"]})
    for kind, values in {"text": ["1", "2", "3", "4"], "real": [1.0, 2.5, 3.0, 4.0]}.items():
        database.fill(
            "odd", {"id": (kind, values), "job": ("text", [*"abba"]), "sex": ("text", [*"ffmm"])}
        )
        for form in ("round", "sample"):
            with pytest.raises(Exception, match=r"no whole number|operator does not exist"):
                database.run(
                    fair.sql(database.dialect, table="odd", label="job", form=form, key="id").select
                )


def test_one_is_not_the_text_one_and_capitals_count(database: Database) -> None:
    database.fill("typed", {"job": ("text", ["1", "2"]), "sex": ("text", ["f", "F"])})
    fair = r2b.debias([1, 2], sensitive_features={"sex": ["f", "F"]}, epsilon=1)
    with pytest.raises(
        Exception,
        match=r"r2b: this row|operator does not exist|collations are not supported by type",
    ):
        database.run(fair.sql(database.dialect, table="typed", label="job").select)
    database.fill("typed", {"job": ("small", [1, 2]), "sex": ("text", ["f", "F"])})
    fair = r2b.debias(["1", "2"], sensitive_features={"sex": ["f", "F"]}, epsilon=1)
    with pytest.raises(
        Exception,
        match=r"r2b: this row|operator does not exist|collations are not supported by type",
    ):
        database.run(fair.sql(database.dialect, table="typed", label="job").select)
    if database.dialect != "postgres":  # where a column may take capitals for small letters
        database.run("DROP TABLE typed")
        database.connection.execute(
            "CREATE TABLE typed (job TEXT COLLATE NOCASE, sex TEXT COLLATE NOCASE)"
        )
        database.connection.execute("INSERT INTO typed VALUES ('a', 'f'), ('A', 'F'), ('a', 'F')")
        counts = database.columns(
            r2b.count_query(database.dialect, "typed", "job", sensitive_features="sex")
        )
        if database.dialect == "sqlite":
            assert sorted(zip(*counts.values(), strict=True)) == [
                ("A", "F", 1),
                ("a", "F", 1),
                ("a", "f", 1),
            ]
            fair = r2b.debias_counts(counts, "job", sensitive_features="sex", epsilon=1)
            found = database.run(fair.sql("sqlite", table="typed", form="expand").select)
            assert sorted(found) == [
                ("A", "F", "A", 1.0),
                ("a", "F", "a", 1.0),
                ("a", "f", "a", 1.0),
            ]
        else:  # DuckDB counts them as one, and no row gets a label that was not counted, or two
            fair = r2b.debias([*"aAa"], sensitive_features={"sex": [*"fFF"]}, epsilon=1)
            found = database.run(
                fair.sql("duckdb", table="typed", label="job", form="expand").select
            )
            assert sorted(found) == [
                ("A", "F", "A", 1.0),
                ("a", "F", "a", 1.0),
                ("a", "f", "a", 1.0),
            ]


def test_an_enum_of_duckdb_is_text() -> None:
    with open_database("duckdb") as database:
        database.connection.execute("CREATE TYPE job AS ENUM ('a', 'b')")
        database.connection.execute("CREATE TABLE people (job job, sex VARCHAR)")
        database.connection.execute(
            "INSERT INTO people VALUES ('a', 'f'), ('b', 'f'), ('b', 'm'), ('b', NULL)"
        )
        counts = database.connection.sql(
            r2b.count_query("duckdb", "people", "job", sensitive_features="sex")
        )
        fair = r2b.debias_counts(counts, "job", sensitive_features="sex", missing="group")
        found = database.run(fair.sql("duckdb", table="people", columns=["job", "sex"]).select)
        job, sex = [*"abbb"], ["f", "f", "m", None]
        known = r2b.debias(job, sensitive_features={"sex": sex}, missing="group").soft_labels.round(
            9
        )
        assert {(row[0], row[1], round(row[2], 9)) for row in found} == set(
            zip(job, sex, known[:, 0].tolist(), strict=True)
        )


def test_a_column_that_is_not_there_is_not_taken_for_a_text(database: Database) -> None:
    database.fill("few", {"job": ("text", [*"ab"]), "sex": ("text", [*"fm"])})
    with pytest.raises(Exception, match="gender"):
        database.run(r2b.count_query(database.dialect, "few", "job", sensitive_features="gender"))


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


def test_a_schema_is_part_of_the_name(database: Database) -> None:
    schema = {"postgres": "public", "duckdb": "main", "sqlite": "main"}[database.dialect]
    database.fill("few", {"job": ("text", [*"ab"]), "sex": ("text", [*"fm"])})
    query = r2b.count_query(database.dialect, [schema, "few"], "job", sensitive_features="sex")
    assert sorted(database.run(query)) == [("a", "f", 1), ("b", "m", 1)]


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


def test_borders_of_draws_are_where_memory_changes_class() -> None:
    from r2b._labels.draws import uniforms_of
    from r2b._labels.sampling import sample_table

    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.full(6, 0.3), 200)
    table[rng.random(table.shape) < 0.3] = 0.0
    table[:, 0] += 1e-3
    table /= table.sum(axis=1, keepdims=True)
    ends = _draw_borders(table)
    assert (ends[:, -1] == 2**53).all()
    for step in (-1, 0, 1):
        draws = np.clip(ends[:, :-1] + step, 0, 2**53 - 1)
        index = np.repeat(np.arange(len(table)), draws.shape[1])
        known = sample_table(index, table, uniforms_of(draws.ravel()))
        assert (known == (ends[index] <= draws.ravel()[:, None]).sum(axis=1)).all()


COUNTS = {"job": ["a", "b", "b", "a"], "sex": ["f", "f", "m", "m"], "count": [4, 6, 7, 3]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table, pl.LazyFrame])
def test_counts_of_any_frame_are_the_rows(kind: Any) -> None:
    rows = [(job, sex) for job, sex, n in zip(*COUNTS.values(), strict=True) for _ in range(n)]
    known = r2b.debias(
        [job for job, _ in rows], sensitive_features={"sex": [sex for _, sex in rows]}, epsilon=0.05
    )
    fair = r2b.debias_counts(kind(COUNTS), "job", sensitive_features="sex", epsilon=0.05)
    assert np.array_equal(fair.prices, known.prices)
    assert (
        fair.certificate.disparity == known.certificate.disparity
        and fair.certificate.objective == known.certificate.objective
    )
    weighted = r2b.debias(
        COUNTS["job"],
        sensitive_features={"sex": COUNTS["sex"]},
        sample_weight=COUNTS["count"],
        epsilon=0.05,
    )
    assert np.abs(fair.prices - weighted.prices).max() < 1e-12
    assert fair.largest_changes(1)[0].weight == known.largest_changes(1)[0].weight


def test_counts_are_added_and_zeros_are_no_rows() -> None:
    known = r2b.debias_counts(COUNTS, "job", sensitive_features="sex")
    cut = {name: [*values[:3], *values[3:], *values[:1]] for name, values in COUNTS.items()} | {
        "count": [1, 6, 7, 3, 3]
    }
    assert np.array_equal(
        r2b.debias_counts(cut, "job", sensitive_features="sex").prices, known.prices
    )
    zero = {
        name: [*values, extra]
        for (name, values), extra in zip(COUNTS.items(), ["c", "x", 0], strict=True)
    }
    fair = r2b.debias_counts(zero, "job", sensitive_features="sex")
    assert fair.classes.tolist() == ["a", "b"] and np.array_equal(fair.prices, known.prices)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"count": [4, -1, 7, 3]}, InputError, "count -1"),
        ({"count": [4, 1.5, 7, 3]}, InputError, "count 1.5"),
        ({"count": [4, None, 7, 3]}, MissingValueError, "Row 1 has no count"),
        ({"count": ["4", "1", "7", "3"]}, InputError, "not numbers"),
        ({"job": ["a", None, "b", "a"]}, MissingValueError, "Row 1 has no value in 'job'"),
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
    with pytest.raises(RowsUnavailableError, match="sql"):
        fair.round()
    with pytest.raises(RowsUnavailableError, match="sql"):
        fair.frame("soft")
    for asked, match in (
        ({"dialect": "mysql"}, "dialect is 'mysql'"),
        ({"form": "rounded"}, "form is 'rounded'"),
        ({"form": "round"}, "no order"),
        ({"table": []}, "table is called"),
        ({"new_column": "sex", "form": "expand"}, "name of another"),
        ({"new_column": "x" * 63}, "63 bytes"),
        ({"new_column": "K0", "form": "expand"}, "name of another"),
    ):
        with pytest.raises(ParameterError, match=match):
            fair.sql(**{"dialect": "postgres", "table": "people"} | asked)
    with pytest.raises(ParameterError, match="counts would have the name"):
        r2b.count_query("sqlite", "people", "job", sensitive_features="count")
    with pytest.raises(ParameterError, match="no column of categories"):
        r2b.debias_counts(COUNTS, "job", sensitive_features=r2b.Continuous("count"))
    with pytest.raises(ParameterError, match="named by"):
        r2b.debias_counts(COUNTS, "job", sensitive_features="count")
    with pytest.raises(UnseenError, match="3 rows with 'job' 'c'"):
        fair.sql(
            "sqlite",
            table="people",
            form="round",
            key="id",
            counts={"job": ["c"], "sex": ["f"], "count": [3]},
        )
    with pytest.raises(WeightError, match="weight -1"):
        r2b.debias_counts(
            COUNTS | {"w": [1, 1, 1, -1]}, "job", sensitive_features="sex", sample_weight="w"
        )
    soft = r2b.debias([[0.5, 0.5], [0.1, 0.9]], sensitive_features=["f", "m"])
    with pytest.raises(ParameterError, match="probabilities"):
        soft.sql("sqlite", table="people", label="p")
    unnamed = r2b.debias([*"abba"], sensitive_features=[*"ffmm"])
    with pytest.raises(ParameterError, match="columns are not known"):
        unnamed.sql("sqlite", table="people", label="job")
    day = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
    for odd in (day, [0.5, 1.5], np.array(day, "M8[D]")):
        dated = r2b.debias(odd, sensitive_features={"sex": ["f", "m"]}, epsilon=1)
        with pytest.raises(ParameterError, match="written differently"):
            dated.sql("sqlite", table="people", label="job")


@pytest.mark.parametrize("dialect", RUN)
def test_classes_that_differ_in_capitals_are_columns_only_where_capitals_count(
    dialect: str,
) -> None:
    fair = r2b.debias(["a", "A", "b", "b"], sensitive_features={"sex": [*"ffmm"]})
    if dialect == "postgres":
        assert '"job_fair_A"' in fair.sql(dialect, table="people", label="job").select
    else:
        with pytest.raises(ParameterError, match="differs from 'job_fair_A' in capitals only"):
            fair.sql(dialect, table="people", label="job")
    assert fair.sql(dialect, table="people", label="job", form="expand").select


def test_a_reference_of_dbt_is_left_alone() -> None:
    fair = r2b.debias_counts(COUNTS, "job", sensitive_features="sex")
    made = fair.sql("snowflake", table="{{ ref('people') }}", answers="{{ ref('fair_answers') }}")
    assert (
        "FROM {{ ref('people') }} AS old" in made.select
        and "LEFT JOIN {{ ref('fair_answers') }} AS new" in made.select
    )
    assert str(made) == f"{made.select};" and made.create is None
