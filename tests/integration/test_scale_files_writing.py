"""Files leave as they came: rows, text, types, codecs and cuts stay, new columns come after them,
and nothing is written over.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import file_tables
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from file_tables import WAYS

import r2b
from r2b.engines.files import FileSource
from r2b.errors import ParameterError

pytestmark = pytest.mark.usefixtures("small_chunks")
PEOPLE = file_tables.people()
FORMS = ("soft", "round", "sample", "expand")


def fair_of(given: Any, **options: Any) -> r2b.FairLabels:
    return r2b.scan(given, **options).debias("job", sensitive_features="sex", epsilon=0.05)


def read_back(given: Any) -> pa.Table:
    source = FileSource.open(given)
    return pa.Table.from_batches([batch.record for batch in source.batches(source.names)])


def values(table: pa.Table) -> dict[str, list[Any]]:
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return {
        name: [f"{value:.12g}" if isinstance(value, float) else value for value in column]
        for name, column in columns.items()
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_written_as_it_would_be_framed(way: str, form: Any, tmp_path: Path) -> None:
    given = WAYS[way](PEOPLE, tmp_path)
    fair = fair_of(given)
    suffix = "" if "folder" in way or way == "pattern" else "".join(Path(given).suffixes)
    target = tmp_path / f"out{suffix}"
    fair.write(target, form, random_state=2)
    wanted = pa.Table.from_batches(list(fair.frame(form, random_state=2)))
    got = read_back(target)
    if got.schema.field(got.num_columns - 1).type == pa.string():
        wanted = wanted.cast(pa.schema([(name, pa.string()) for name in wanted.column_names]))
        for name in wanted.column_names[-4:]:
            if (
                name in fair.rows.relabel(fair.rule, form).names
                and form in ("soft", "expand")
                and name != "job_fair"
            ):
                np.testing.assert_array_equal(
                    np.array(got[name].to_pylist(), float),
                    np.array(wanted[name].to_pylist(), float),
                )
                got, wanted = got.drop_columns(name), wanted.drop_columns(name)
    assert values(got) == values(wanted)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {target.name, Path(given).parts[len(tmp_path.parts)]}
    )


def rich(n: int = 900) -> pa.Table:
    """Columns of many types, with notes on the schema and on a field."""
    rng = np.random.default_rng(0)
    fields = [
        pa.field("job", pa.dictionary(pa.int16(), pa.string())),
        pa.field("sex", pa.int8(), nullable=False),
        pa.field("when", pa.timestamp("us", "UTC")),
        pa.field("cost", pa.decimal128(9, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("blob", pa.large_binary(), metadata={b"unit": b"none"}),
        pa.field("x", pa.float32()),
    ]
    schema = pa.schema(fields, {b"owner": b"statistics"})
    sex = rng.integers(0, 2, n)
    rows = {
        "job": np.array(["a", "b", "c"])[np.minimum(rng.poisson(0.4 + sex), 2)].tolist(),
        "sex": sex.tolist(),
        "when": [datetime(2024, 1, 1 + k % 28) for k in range(n)],
        "cost": [Decimal(k) / 4 if k % 5 else None for k in range(n)],
        "tags": [["t"] * (k % 3) for k in range(n)],
        "blob": [b"\0" * (k % 4) for k in range(n)],
        "x": rng.normal(size=n).tolist(),
    }
    return pa.table(rows, schema=schema)


def test_parquet_keeps_types_notes_codecs_and_row_groups(tmp_path: Path) -> None:
    table = rich()
    codecs = {
        "job": "zstd",
        "sex": "none",
        "when": "gzip",
        "cost": "snappy",
        "tags.list.element": "zstd",
        "blob": "brotli",
        "x": "lz4",
    }
    with pq.ParquetWriter(
        tmp_path / "p.parquet", table.schema, compression=codecs, use_dictionary=["job", "when"]
    ) as writer:
        for start, rows in ((0, 100), (100, 350), (450, 450)):
            writer.write_table(table.slice(start, rows))
    fair_of(tmp_path / "p.parquet").write(tmp_path / "q.parquet", "round")
    old, new = pq.ParquetFile(tmp_path / "p.parquet"), pq.ParquetFile(tmp_path / "q.parquet")
    assert [new.metadata.row_group(k).num_rows for k in range(3)] == [100, 350, 450]
    assert new.schema_arrow.remove(7).equals(old.schema_arrow, check_metadata=True)
    assert new.schema_arrow.field("job_fair").type == table.schema.field("job").type
    assert new.read().drop_columns("job_fair").equals(table)
    for group in range(3):
        for place in range(7):
            one, other = (
                old.metadata.row_group(group).column(place),
                new.metadata.row_group(group).column(place),
            )
            assert (one.path_in_schema, one.compression) == (
                other.path_in_schema,
                other.compression,
            )
    assert new.metadata.row_group(0).column(7).compression == "ZSTD"


@pytest.mark.parametrize("codec", ["lz4", "zstd", "uncompressed"])
def test_arrow_keeps_types_codec_and_batches(codec: str, tmp_path: Path) -> None:
    pa.feather.write_feather(rich(), tmp_path / "p.arrow", compression=codec, chunksize=200)
    fair_of(tmp_path / "p.arrow").write(tmp_path / "q.arrow", "round")
    old, new = (FileSource.open(tmp_path / name).files[0] for name in ("p.arrow", "q.arrow"))
    assert old.codec == new.codec == (None if codec == "uncompressed" else codec)  # type: ignore[attr-defined]
    got = pa.ipc.open_file(tmp_path / "q.arrow")
    assert [got.get_batch(k).num_rows for k in range(got.num_record_batches)] == [
        200,
        200,
        200,
        200,
        100,
    ]
    assert got.read_all().drop_columns("job_fair").equals(rich())
    assert got.schema.metadata == {b"owner": b"statistics"}
    assert got.schema.field("job_fair").type == rich().schema.field("job").type


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_leaves_with_the_same_paths_and_without_what_they_tell(
    form: Any, tmp_path: Path
) -> None:
    place = file_tables.hive(PEOPLE, tmp_path)
    file_tables.write(
        PEOPLE.slice(0, 0).drop_columns(["year", "region"]),
        place / "year=2022" / "region=z" / "none.parquet",
    )
    (place / "_SUCCESS").write_text("")
    fair = r2b.scan(place).debias("job", sensitive_features=["sex", "region"], epsilon=0.05)
    fair.write(tmp_path / "out", form)
    names = {path.relative_to(place) for path in place.rglob("*.parquet")}
    assert {
        path.relative_to(tmp_path / "out")
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    } == names
    for name in names:
        new = pq.ParquetFile(tmp_path / "out" / name)
        assert new.schema_arrow.names == [
            *pq.ParquetFile(place / name).schema_arrow.names,
            *fair.rows.relabel(fair.rule, form).names,
        ]
    got, wanted = read_back(tmp_path / "out"), pa.Table.from_batches(list(fair.frame(form)))
    assert got.num_rows == wanted.num_rows
    assert values(got.select(wanted.column_names)) == values(wanted)


def test_a_folder_is_replaced_as_a_whole_and_only_where_it_holds_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = WAYS["folder"](PEOPLE, tmp_path)
    fair = fair_of(place)
    fair.write(tmp_path / "out", "soft")
    file_tables.write(PEOPLE, tmp_path / "out" / "stale.parquet")
    with pytest.raises(ParameterError, match="there already"):
        fair.write(tmp_path / "out", "round")
    fair.write(tmp_path / "out", "round", force=True)
    assert not (tmp_path / "out" / "stale.parquet").exists()
    assert "job_fair" in FileSource.open(tmp_path / "out").names
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(ParameterError, match=r"thesis\.tex is not a table"):
        fair.write(tmp_path / "out", "round", force=True)
    assert (tmp_path / "out" / "thesis.tex").exists()
    for where in (place, place / "out", tmp_path):
        with pytest.raises(ParameterError):
            fair.write(where, "round", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "people"]
    monkeypatch.chdir(place)
    with pytest.raises(ParameterError, match=r"lies in|holds"):
        fair_of(".").write("out", "round")
