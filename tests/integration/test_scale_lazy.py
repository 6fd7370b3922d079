"""Polars lazy frames and DuckDB relations: order, types and laziness stay what they were."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import SEED, cases, check_columns, check_solved

import r2b
from r2b.engines.duckdb import DuckDBSource
from r2b.engines.lazy import HeldSource
from r2b.engines.polars import PolarsSource
from r2b.errors import DataWarning, MissingValueError, ParameterError, UnseenError

pa, pl, duckdb = (pytest.importorskip(library) for library in ("pyarrow", "polars", "duckdb"))

N = 300
FORMS = ("soft", "sample", "round", "expand")


def people(n: int = N) -> Any:
    rng = np.random.default_rng(2)
    sex = rng.integers(0, 2, n)
    level = np.minimum(rng.poisson(1.0 + sex), 2)
    columns = {
        "id": np.arange(n) * 3,
        "level": np.array(["low", "middle", "high"])[level],
        "sex": np.array(["f", "m"])[sex],
    }
    return pa.table({**columns, "weight": rng.gamma(2.0, 1.0, n)})


def debiased(table: Any, **settings: Any) -> Any:
    return r2b.scan(table).debias("level", sensitive_features="sex", epsilon=0.01, **settings)


def lazy(n: int = N) -> Any:
    return pl.from_arrow(people(n)).lazy()


SCANNED = [
    ("a frame", lambda frame: frame),
    ("rows chosen", lambda frame: frame.filter(pl.col("id") % 2 == 0)),
    (
        "columns made",
        lambda frame: frame.with_columns(double=pl.col("weight") * 2).rename({"double": "twice"}),
    ),
    ("columns chosen", lambda frame: frame.select("id", "level", "sex")),
    ("first rows", lambda frame: frame.head(100)),
    ("one below the other", lambda frame: pl.concat([frame, frame])),
]
SHUFFLED = [
    ("sorted", lambda frame: frame.sort("sex")),
    ("distinct", lambda frame: frame.unique("id")),
    ("joined", lambda frame: frame.join(frame.select("id"), on="id")),
    ("grouped", lambda frame: frame.group_by("id").first()),
    ("another function", lambda frame: frame.map_batches(lambda part: part)),
]


@pytest.mark.parametrize(
    "change", [change for _, change in SCANNED], ids=[name for name, _ in SCANNED]
)
def test_rows_of_a_scan_are_told_apart_by_their_place(change: Any) -> None:
    frame = change(lazy())
    fair = debiased(frame)
    known = debiased(HeldSource(frame.collect().to_arrow(), 1000))
    for form in FORMS:
        found = fair.frame(form, random_state=5).collect()
        assert found.equals(pl.from_arrow(known.frame(form, random_state=5)))


@pytest.mark.parametrize(
    "change", [change for _, change in SHUFFLED], ids=[name for name, _ in SHUFFLED]
)
def test_rows_whose_order_may_change_need_a_key(change: Any) -> None:
    fair = debiased(change(lazy()))
    with pytest.raises(ParameterError, match="the LazyFrame have no order"):
        fair.frame("round")
    with_key = fair.frame("round", key="id").collect().sort("id")
    assert with_key["level_fair"].equals(
        debiased(lazy()).frame("round", key="id").collect()["level_fair"]
    )
    assert "level_fair_row" not in fair.frame("expand").collect_schema()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["String", "Categorical", "Enum"])
def test_types_are_kept_and_every_plan_after_it_agrees(form: Any, kind: str) -> None:
    dtype = pl.Enum(["low", "middle", "high", "never"]) if kind == "Enum" else getattr(pl, kind)
    frame = lazy().with_columns(pl.col("level").cast(dtype), when=pl.date(2024, 1, 1))
    new = debiased(frame, sample_weight="weight").frame(form, key="id")
    found = new.collect(engine="in-memory")
    assert new.collect_schema() == found.schema
    assert list(found.schema.items())[:5] == list(frame.collect_schema().items())
    if form != "soft":
        assert found.schema["level_fair"] == dtype
    assert found.equals(new.collect(engine="streaming"))
    some = [found.columns[-1], "id"]
    women = new.filter(pl.col("sex") == "f").select(some).collect()
    assert women.equals(found.filter(pl.col("sex") == "f").select(some))
    assert new.slice(5, 9).collect().equals(found.slice(5, 9))


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_batches_do_not_show_in_labels_and_no_file_stays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases()["probabilities in columns"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("r2b.engines.source.Source.most_held", 0)  # rows are kept in a scratch file
    opened = {"polars": pl.from_arrow(case.table).lazy(), "duckdb": duckdb.from_arrow(case.table)}
    sources = {"polars": PolarsSource, "duckdb": DuckDBSource}
    asked = {**case.asked, **case.settings, "sample_entries": 0}
    found = []
    for size in (64, 1000):
        fair = r2b.scan(sources[name](opened[name], size)).debias(case.label, **asked)
        check_solved(fair, case.name)
        made = fair.frame("sample", key="id")
        found.append(made.collect().to_arrow() if name == "polars" else made.to_arrow_table())
    assert found[0].equals(found[1]) and list(tmp_path.iterdir()) == []


def test_a_long_table_without_order_is_rounded_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("r2b.engines.table_rows._SENT_ROWS", 10)
    case = cases()["probabilities in lists"]
    fair = r2b.scan(duckdb.from_arrow(case.table)).debias(case.label, **case.asked, **case.settings)
    with pytest.warns(DataWarning, match="every batch, not of the whole table"):
        found = fair.frame("round", key="id", random_state=SEED)
    check_columns(found.to_arrow_table(), case.name, "round")  # one batch is the whole table


def test_rows_that_have_changed_since_are_an_error_and_not_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    pl.from_arrow(people(60)).write_csv(path)
    new = [debiased(pl.scan_csv(path)).frame(form, key="id") for form in ("soft", "sample")]
    pl.DataFrame({"id": [1], "level": ["new"], "sex": ["f"], "weight": [1.0]}).write_csv(path)
    for each in new:
        with pytest.raises(UnseenError, match="'new'"):
            each.collect()
    with duckdb.connect() as connection:
        connection.register("people", people())
        connection.execute("CREATE TABLE held AS SELECT * FROM people")
        fair = debiased(connection.table("held"))
        soft, sample = fair.frame("soft"), fair.frame("sample", key="id")
        connection.execute("INSERT INTO held VALUES (1, 'new', 'f', 1.0)")
        with pytest.raises(duckdb.Error, match="was not there when the labels were made"):
            soft.fetchall()
        assert len(sample.fetchall()) == N


def test_errors_of_lazy_rows_keep_their_type() -> None:
    gap = pl.when(pl.col("id") != 30)
    with pytest.raises(MissingValueError, match="Row 10 has no value of the key 'key'"):
        debiased(lazy().with_columns(key=gap.then("id"))).frame("sample", key="key").collect()
    with pytest.raises(MissingValueError, match="row 10 has no value in 'sex'"):
        debiased(lazy().with_columns(sex=gap.then("sex")))
    with pytest.raises(ParameterError, match="pattern"):
        r2b.scan(lazy().rename({"id": "^i.*$"}))


@pytest.fixture
def relation() -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TYPE level AS ENUM ('low', 'middle', 'high')")
    table = people()
    connection.register("people", table)
    return connection.sql(
        "SELECT id, level::level AS level, sex, weight, 7::HUGEINT AS big, "
        "1.50::DECIMAL(9, 2) AS price FROM people"
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_relation_keeps_names_and_types_and_can_be_read_again(relation: Any, form: Any) -> None:
    relation = relation.project('*, id AS "the ""id""", sex AS "from"')
    fair = r2b.scan(relation).debias("level", sensitive_features="from", sample_weight="weight")
    new, n_old = fair.frame(form, key='the "id"'), len(relation.columns)
    assert new.columns[:n_old] == relation.columns and new.types[:n_old] == relation.types
    if form != "soft":
        assert new.types[n_old] == relation.types[1]
    once = new.order("ALL").fetchall()
    assert once == new.order("ALL").fetchall()
    assert len(new.filter("sex = 'f'").fetchall()) == sum(row[2] == "f" for row in once)


def test_a_relation_outlives_all_that_made_it_and_its_scratch_file_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def made() -> tuple[Any, Any, Any]:
        connection = duckdb.connect()
        connection.register("people", people())
        fair = debiased(connection.sql("SELECT * FROM people"))
        return fair, fair.frame("soft"), fair.frame("sample", key="id")

    fair, soft, sample = made()
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert len(soft.fetchall()) == len(sample.fetchall()) == N
    with pytest.raises(ParameterError, match="the DuckDB relation have no order"):
        fair.frame("round")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(ParameterError, match="/nowhere/at/all"):
        fair.frame("sample", key="id")
