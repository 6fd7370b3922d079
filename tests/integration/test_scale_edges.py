"""Tables at the edge on every engine: batches in which nothing came, odd names, text in several chunks, keys taken for classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import r2b
from r2b.engines import tally
from r2b.errors import EmptyError, InputError

pa, pl, duckdb = (pytest.importorskip(library) for library in ("pyarrow", "polars", "duckdb"))
pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
pq = pytest.importorskip("pyarrow.parquet")

ODD = ("a.b", '"job"', "job ", "*", "select", "it's", "c0")
LISTS = {pa.list_(pa.float64()): pd.ArrowDtype(pa.list_(pa.float64()))}


def people(n: int = 200, label: str = "job") -> Any:
    rng = np.random.default_rng(n)
    sex = rng.integers(0, 2, n)
    job = np.minimum(rng.poisson(1.0 + sex), 2)
    scores = rng.dirichlet(np.ones(3), n)
    texts = pa.array([["low", "middle", "high"][each] for each in job])
    return pa.table(
        {
            "id": np.arange(n),
            label: texts,
            "sex": np.array(["f", "m"])[sex],
            "p": list(scores),
            "w": rng.gamma(2.0, 1.0, n),
        }
    )


def of_file(table: Any, folder: Path) -> Any:
    place = folder / f"{table.num_rows}.parquet"
    if not place.exists():
        pq.write_table(table, place)
    return str(place)


ENGINES: dict[str, Any] = {
    "table": lambda table, _: table,
    "file": of_file,
    "dataset": lambda table, folder: pytest.importorskip("pyarrow.dataset").dataset(
        of_file(table, folder)
    ),
    "Polars": lambda table, _: pl.from_arrow(table).lazy(),
    "DuckDB": lambda table, _: duckdb.connect().from_arrow(table),
    "Dask": lambda table, _: dd.from_pandas(
        table.to_pandas(types_mapper=LISTS.get), npartitions=3, sort=False
    ),
}


def home(made: Any) -> Any:
    """Give any frame as an Arrow table."""
    if hasattr(made, "compute"):
        return pa.Table.from_pandas(made.compute(), preserve_index=False)
    if hasattr(made, "collect"):
        return made.collect().to_arrow()
    if hasattr(made, "to_arrow_table"):
        return made.to_arrow_table()
    if isinstance(made, pa.RecordBatchReader):
        return made.read_all()
    return made if isinstance(made, pa.Table) else pa.Table.from_batches(made)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["soft", "round", "sample", "expand"])
@pytest.mark.parametrize("label", ["job", "p"])
def test_a_batch_of_a_stream_in_which_nothing_came_leaves_as_it_came(
    engine: str, form: Any, label: str, tmp_path: Path
) -> None:
    table = people()
    asked: dict[str, Any] = (
        {"sensitive_features": "sex", "sample_weight": "w"}
        if form == "expand"
        else {"sensitive_features": "sex"}
    )
    fair = r2b.scan(table).debias(label, **asked, epsilon=0.01)
    some, none = (
        r2b.scan(ENGINES[engine](each, tmp_path)).transform(fair, label, **asked)
        for each in (table, table.slice(0, 0))
    )
    assert (
        r2b.scan(table.slice(0, 0))
        .transform(fair, label, **asked, unseen="overall")
        .frame("soft")
        .num_rows
        == 0
    )
    with pytest.raises(EmptyError):
        r2b.scan(ENGINES[engine](table.slice(0, 0), tmp_path)).debias(label, **asked)
    if engine == "file":
        none.write(tmp_path / "fair.parquet", form, key="id", force=True)
        made = pq.read_table(tmp_path / "fair.parquet")
        some = r2b.scan(table).transform(fair, label, **asked)
    else:
        made = home(none.frame(form, key="id"))
    known = home(some.frame(form, key="id"))
    assert made.num_rows == 0
    # Dask gives the number of a repeated row no column; text of pandas is laid out in another way
    # where there is none.
    assert made.column_names == known.column_names[: len(made.column_names)]
    if engine not in ("Dask", "file"):
        assert made.schema.types == known.schema.types


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine in ENGINES for name in ODD if (engine, name) != ("Polars", "*")],
)
def test_columns_have_any_name(engine: str, name: str, tmp_path: Path) -> None:
    table = people(label=name)
    known = r2b.debias(table[name], sensitive_features={"sex": table["sex"]}, epsilon=0.01)
    fair = r2b.scan(ENGINES[engine](table, tmp_path)).debias(
        name, sensitive_features="sex", epsilon=0.01
    )
    np.testing.assert_allclose(fair.prices, known.prices, atol=1e-12)
    soft = home(fair.frame("soft")).sort_by("id")
    rows = np.column_stack([soft[each].to_numpy() for each in soft.column_names[-3:]])
    np.testing.assert_allclose(rows, known.soft_labels, atol=1e-12)
    made = home(fair.frame("round", key="id")).sort_by("id")
    assert made[made.column_names[-1]].to_pylist() == known.round(0, key=table["id"]).to_pylist()


def from_row_groups(folder: str) -> Any:
    pq.write_table(
        people().select(["id", "job", "sex"]), f"{folder}/people.parquet", row_group_size=50
    )
    return dd.read_parquet(folder, split_row_groups=False)


@pytest.mark.parametrize(
    "cut",
    [
        lambda frame, folder: frame.repartition(npartitions=2),
        lambda frame, folder: dd.concat([frame, frame.assign(id=frame["id"] + 1000)]).repartition(
            npartitions=3
        ),
        lambda frame, folder: frame.shuffle("id"),
        lambda frame, folder: frame.assign(place=frame["id"]).set_index("place"),
        lambda frame, folder: frame.merge(frame[["id"]], on="id"),
        lambda frame, folder: from_row_groups(folder),
    ],
    ids=["repartition", "concat", "shuffle", "set_index", "merge", "read_parquet"],
)
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask's own reader
def test_text_of_dask_may_lie_in_several_chunks(cut: Any, tmp_path: Path) -> None:
    frame = cut(
        dd.from_pandas(people().select(["id", "job", "sex"]).to_pandas(), npartitions=5),
        str(tmp_path),
    )
    held = frame.compute().sort_values("id")
    known = r2b.debias(
        held["job"].tolist(), sensitive_features={"sex": held["sex"].tolist()}, epsilon=0.01
    )
    fair = r2b.scan(frame).debias("job", sensitive_features="sex", epsilon=0.01)
    np.testing.assert_allclose(fair.prices, known.prices, atol=1e-12)
    made = fair.frame("round", key="id").compute().sort_values("id")
    assert made["job_fair"].tolist() == list(known.round(0, key=held["id"].tolist()))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_key_taken_for_a_class_is_refused_early_and_named(
    engine: str, weight: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "MOST_COMBINATIONS", 60)
    monkeypatch.setattr("r2b.engines.lazy.MOST_COMBINATIONS", 60)
    with pytest.raises(
        InputError, match="more than 60 combinations of 'id', 'sex'; 'id' alone has"
    ) as refused:
        r2b.scan(ENGINES[engine](people(), tmp_path)).debias(
            "id", sensitive_features="sex", sample_weight=weight
        )
    assert refused.value.facts["column"] == "id"
