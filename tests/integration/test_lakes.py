"""Arrow datasets and streams, Delta Lake and Iceberg: the answers of memory for their rows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import cases

import r2b
from r2b.errors import InputError, ParameterError

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

MIDDLE = int(np.median(np.asarray(cases()["text"].table["id"])))


def in_files(table: Any, folder: Path) -> Any:
    """Write a table to three files, the last with text of another layout."""
    folder.mkdir()
    for number, start in enumerate(range(0, table.num_rows, table.num_rows // 2 - 1)):
        pq.write_table(
            table.slice(start, table.num_rows // 2 - 1),
            folder / f"{number}.parquet",
            row_group_size=70,
        )
    return ds.dataset(folder)


def test_folders_that_tell_values_and_filters_are_those_of_the_dataset(tmp_path: Path) -> None:
    table = cases()["text"].table
    ds.write_dataset(
        table,
        tmp_path / "by",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("sex", pa.string())]), flavor="hive"),
    )
    opened = ds.dataset(tmp_path / "by", partitioning="hive").filter(ds.field("id") > MIDDLE)
    fair = r2b.scan(opened).debias("level", sensitive_features="sex", epsilon=0.01)
    kept = table.filter(pa.compute.greater(table["id"], MIDDLE))
    known = r2b.debias(kept["level"], sensitive_features={"sex": kept["sex"]}, epsilon=0.01)
    assert np.abs(fair.prices - known.prices).max() < 1e-12
    found = fair.frame("sample", key="id").read_all().sort_by("id")
    assert (
        found["level_fair"].to_pylist()
        == known.sample(0, key=kept["id"]).take(pa.compute.sort_indices(kept["id"])).to_pylist()
    )


class Capsule:
    """What another library may hand over: nothing but an Arrow C stream."""

    def __init__(self, table: Any) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def test_any_arrow_stream_is_scanned_and_its_copy_is_gone_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = cases()["text"].table
    found, known = (
        r2b.scan(each).debias("level", sensitive_features="sex").frame("round")
        for each in (Capsule(table), table)
    )
    assert found["level_fair"].equals(known["level_fair"])
    assert list(tmp_path.iterdir()) == []
    for frame in (table.to_pandas(), pytest.importorskip("polars").from_arrow(table)):
        with pytest.raises(ParameterError, match=r"use r2b\.debias"):
            r2b.scan(frame)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    opened = in_files(cases()["text"].table, tmp_path / "people")
    (tmp_path / "people" / "1.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(InputError, match=r"The dataset cannot be read: .*1\.parquet"):
        r2b.scan(opened).debias("level", sensitive_features="sex")


@pytest.fixture
def delta(tmp_path: Path) -> Any:
    """Write a Delta table in three commits, the last of which replaces a part of it."""
    deltalake = pytest.importorskip("deltalake")
    table, path = cases()["text"].table, str(tmp_path / "delta")
    deltalake.write_deltalake(path, table.slice(0, 200))
    deltalake.write_deltalake(path, table.slice(200), mode="append")
    deltalake.DeltaTable(path).delete("id % 2 = 0")
    return deltalake, path, table


def check_rows(opened: Any, rows: Any, form: str) -> Any:
    """Debias a table that has some rows, and compare with the same rows in memory."""
    fair = r2b.scan(opened).debias("level", sensitive_features="sex", epsilon=0.01)
    known = r2b.debias(rows["level"], sensitive_features={"sex": rows["sex"]}, epsilon=0.01)
    assert np.abs(fair.prices - known.prices).max() < 1e-12 and fair.rows.n_rows == len(rows)
    found = fair.frame(form, key="id").read_all().sort_by("id")["level_fair"].to_pylist()
    labels = getattr(known, form)(0, key=rows["id"])
    assert found == labels.take(pa.compute.sort_indices(rows["id"])).to_pylist()
    return fair


def test_delta_tables_have_the_rows_of_their_version(delta: Any, tmp_path: Path) -> None:
    deltalake, path, table = delta
    odd = table.filter(pa.array(np.asarray(table["id"]) % 2 != 0))
    for version, kept in ((1, table), (2, odd)):
        fair = check_rows(deltalake.DeltaTable(path, version=version), kept, "round")
    with pytest.raises(ParameterError, match="have no order"):
        fair.frame("round")
    deltalake.write_deltalake(str(tmp_path / "fair"), fair.frame("sample", key="id"))
    again = deltalake.DeltaTable(str(tmp_path / "fair")).to_pyarrow_table()
    assert again.num_rows == len(odd) and again.column_names[-1] == "level_fair"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log = Path(path) / "_delta_log" / f"{3:020}.json"
    log.write_text(
        json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features})
    )
    with pytest.raises(ParameterError, match=r"deletionVectors.* Read it with Spark"):
        r2b.scan(deltalake.DeltaTable(path))
    with pytest.raises(ParameterError, match=r"r2b\.scan\(deltalake\.DeltaTable"):
        r2b.scan(path)


def test_an_iceberg_table_has_the_rows_of_its_snapshot(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    table = cases()["text"].table
    catalog = catalogs.SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)
    )
    catalog.create_namespace("hr")
    people = catalog.create_table("hr.people", schema=table.schema)
    people.append(table.slice(0, 150))
    people.append(table.slice(150))
    before = people.current_snapshot().snapshot_id
    people.delete(f"id <= {MIDDLE}")
    kept = table.filter(pa.compute.greater(table["id"], MIDDLE))
    filtered = table.filter(pa.compute.greater(table["id"], MIDDLE + 30))
    for opened, rows in (
        (people, kept),
        (people.scan(snapshot_id=before), table),
        (people.scan(f"id > {MIDDLE + 30}"), filtered),
    ):
        fair = check_rows(opened, rows, "round")
    with pytest.raises(ParameterError, match="the Iceberg table have no order"):
        fair.frame("sample")
    catalog.engine.dispose()
