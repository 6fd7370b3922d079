"""Polars lazy frames and DuckDB relations: order, types and laziness stay what they were."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import cases, check_solved

import r2b
from r2b.engines import lazy as shared
from r2b.engines import source as sources
from r2b.engines.lazy import HeldSource, in_rows
from r2b.engines.polars import PolarsSource
from r2b.errors import MissingValueError, ParameterError, UnseenError

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
def test_types_are_kept_and_known_without_running(form: Any, kind: str) -> None:
    dtype = pl.Enum(["low", "middle", "high", "never"]) if kind == "Enum" else getattr(pl, kind)
    frame = lazy().with_columns(pl.col("level").cast(dtype), when=pl.date(2024, 1, 1))
    new = debiased(frame).frame(form, key="id")
    found = new.collect()
    assert new.collect_schema() == found.schema
    assert list(found.schema.items())[:5] == list(frame.collect_schema().items())
    if form != "soft":
        assert found.schema["level_fair"] == dtype


@pytest.mark.parametrize("form", FORMS)
def test_both_engines_of_polars_and_every_plan_after_it_agree(form: Any, tmp_path: Path) -> None:
    new = debiased(lazy(), sample_weight="weight").frame(form, key="id")
    found = new.collect(engine="in-memory")
    assert found.equals(new.collect(engine="streaming"))
    assert (
        new.filter(pl.col("sex") == "f")
        .select(found.columns[-1], "id")
        .collect()
        .equals(found.filter(pl.col("sex") == "f").select(found.columns[-1], "id"))
    )
    assert new.head(7).collect().equals(found.head(7))
    assert new.slice(5, 9).collect().equals(found.slice(5, 9))
    new.sink_parquet(tmp_path / "fair.parquet")
    assert pl.read_parquet(tmp_path / "fair.parquet").equals(found)


def test_batches_have_a_fixed_size_however_the_engine_cuts_rows() -> None:
    table = people(100)
    cuts = [table.to_batches(max_chunksize=size) for size in (1, 7, 33, 100)]
    for records in cuts:
        batches = list(in_rows(records, 30))
        assert [(len(batch), batch.first) for batch in batches] == [
            (30, 0),
            (30, 30),
            (30, 60),
            (10, 90),
        ]
        assert pa.Table.from_batches([batch.record for batch in batches]).equals(table)
    assert list(in_rows([], 30)) == []


def test_batches_do_not_show_in_labels() -> None:
    case = cases()["probabilities in columns, single"]
    frame = pl.from_arrow(case.table).lazy()
    fair = [
        r2b.scan(PolarsSource(frame, size)).debias(
            case.label, **case.asked, **case.settings, sample_entries=0
        )
        for size in (64, 1000)
    ]
    for each in fair:
        check_solved(each, case.name)
    few, all_ = (each.frame("sample", key="id").collect() for each in fair)
    assert few.equals(all_)


@pytest.mark.parametrize(
    "open_table",
    [lambda table: pl.from_arrow(table).lazy(), lambda table: duckdb.from_arrow(table)],
    ids=["polars", "duckdb"],
)
def test_many_rows_go_to_a_scratch_file_that_has_no_name(
    open_table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases()["probabilities in columns"]
    monkeypatch.setattr(sources, "_IN_MEMORY", 0)
    monkeypatch.setattr(shared, "_ENTRIES", 400)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[Any] = []
    spool = sources.Spool
    monkeypatch.setattr(sources, "Spool", lambda *given: seen.append(spool(*given)) or seen[-1])
    fair = r2b.scan(open_table(case.table)).debias(
        case.label,
        **case.asked,
        **case.settings,
        sample_entries=0,
        progress=lambda _: seen.append(list(tmp_path.iterdir())),
    )
    check_solved(fair, case.name)
    assert isinstance(seen[0], spool) and len(seen) > 1 and not any(seen[1:])


def test_rows_that_have_changed_since_are_an_error_and_not_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    pl.from_arrow(people(60)).write_csv(path)
    new = {
        form: debiased(pl.scan_csv(path)).frame(form, key="id")
        for form in ("soft", "expand", "sample")
    }
    pl.DataFrame({"id": [1], "level": ["new"], "sex": ["f"], "weight": [1.0]}).write_csv(path)
    for form, kind, message in (
        ("soft", pl.exceptions.ComputeError, "not there when the labels were made"),
        ("expand", pl.exceptions.ComputeError, "not there when the labels were made"),
        ("sample", UnseenError, "'new'"),
    ):
        with pytest.raises(kind, match=message):
            new[form].select(new[form].collect_schema().names()[4]).collect()


def test_errors_of_lazy_rows_keep_their_type() -> None:
    frame = lazy().with_columns(key=pl.when(pl.col("id") == 30).then(None).otherwise(pl.col("id")))
    with pytest.raises(MissingValueError, match="Row 10 has no value of the key 'key'"):
        debiased(frame).frame("sample", key="key").collect()
    with pytest.raises(MissingValueError, match="Row 10 has no value in 'sex'"):
        debiased(
            lazy().with_columns(sex=pl.when(pl.col("id") == 30).then(None).otherwise(pl.col("sex")))
        )


@pytest.fixture
def relation() -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TYPE level AS ENUM ('low', 'middle', 'high')")
    table = people()
    connection.register("people", table)
    return connection.sql(
        "SELECT id, level::level AS level, sex, weight, 7::HUGEINT AS big, 1.50::DECIMAL(9, 2) AS price FROM people"
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_relation_keeps_types_and_can_be_read_again(relation: Any, form: Any) -> None:
    new = debiased(relation).frame(form, key="id")
    assert new.columns[:6] == relation.columns and new.types[:6] == relation.types
    if form != "soft":
        assert new.types[6] == relation.types[1]
    once = new.order("ALL").fetchall()
    assert once == new.order("ALL").fetchall()
    assert len(new.filter("sex = 'f'").fetchall()) == sum(row[2] == "f" for row in once)


def test_a_relation_outlives_all_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def made() -> tuple[Any, Any]:
        connection = duckdb.connect()
        connection.register("people", people())
        fair = debiased(connection.sql("SELECT * FROM people"))
        return fair.frame("soft"), fair.frame("sample", key="id")

    soft, sample = made()
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert len(soft.fetchall()) == len(sample.fetchall()) == N


def test_names_of_columns_are_quoted() -> None:
    table = people().rename_columns(['the "id"', "select", "from", "r2b: key 0"])
    fair = r2b.scan(duckdb.from_arrow(table)).debias(
        "select", sensitive_features="from", sample_weight="r2b: key 0", epsilon=0.01
    )
    for form in FORMS:
        found = fair.frame(form, key='the "id"')
        assert found.columns[:4] == table.column_names
    assert len(fair.frame("round", key='the "id"').fetchall()) == N


def test_a_changed_table_is_an_error_of_the_database() -> None:
    with duckdb.connect() as connection:
        connection.register("people", people())
        connection.execute("CREATE TABLE held AS SELECT * FROM people")
        fair = debiased(connection.table("held"))
        soft, sample = fair.frame("soft"), fair.frame("sample", key="id")
        connection.execute("INSERT INTO held VALUES (1, 'new', 'f', 1.0)")
        with pytest.raises(duckdb.Error, match="was not there when the labels were made"):
            soft.fetchall()
        assert len(sample.fetchall()) == N


def test_scratch_space_that_cannot_be_had_is_named(
    monkeypatch: pytest.MonkeyPatch, relation: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(ParameterError, match="/nowhere/at/all"):
        debiased(relation).frame("sample", key="id")


def test_rows_of_a_relation_need_a_key(relation: Any) -> None:
    with pytest.raises(ParameterError, match="the DuckDB relation have no order"):
        debiased(relation).frame("round")
