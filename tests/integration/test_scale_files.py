"""Files part by part give what the whole table in memory gives: prices, proof and labels, whatever
the format and the cuts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import file_tables
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from file_tables import WAYS

import r2b
from r2b.engines.files import FileSource
from r2b.engines.lazy import HeldSource
from r2b.errors import InputError, MissingValueError, ProbabilityError, UnseenError, WeightError

pytestmark = pytest.mark.usefixtures("small_chunks")
PEOPLE = file_tables.people()


def opened(way: str, folder: Path, table: pa.Table = PEOPLE, **options: Any) -> r2b.engines.Scan:
    return r2b.scan(WAYS[way](table, folder), **options)


def framed(fair: Any, form: str, **options: Any) -> pa.Table:
    return pa.Table.from_batches(list(fair.frame(form, **options)))


@pytest.mark.parametrize("way", WAYS)
def test_class_labels_in_files_are_those_of_the_table_in_memory(way: str, tmp_path: Path) -> None:
    scan = opened(way, tmp_path)
    assert scan.names == tuple(PEOPLE.column_names)
    fair = scan.debias("job", sensitive_features=["sex", "region"], families="both", epsilon=0.02)
    features = {name: PEOPLE[name] for name in ("sex", "region")}
    known = r2b.debias(PEOPLE["job"], sensitive_features=features, families="both", epsilon=0.02)
    np.testing.assert_allclose(fair.prices, known.prices, atol=1e-9)
    assert fair.certificate.disparity == pytest.approx(known.certificate.disparity, abs=1e-9)
    held = r2b.scan(HeldSource(PEOPLE, 999)).debias(
        "job", sensitive_features=["sex", "region"], families="both", epsilon=0.02
    )
    for form in ("soft", "round", "sample", "expand"):
        got, wanted = framed(fair, form, random_state=5), held.frame(form, random_state=5)
        assert got.column_names == wanted.column_names
        for name in wanted.column_names:
            if pa.types.is_floating(wanted[name].type):
                np.testing.assert_allclose(got[name].to_numpy(), wanted[name].to_numpy(), atol=1e-9)
            else:
                gap = None if (name == "note" and "csv" in way) or way == "tsv" else ""
                assert got[name].to_pylist() == [
                    gap if value == "" else value for value in wanted[name].to_pylist()
                ]
    keyed = framed(fair, "round", key="id", random_state=1)["job_fair"].to_pylist()
    assert keyed == known.round(1, key=PEOPLE["id"]).to_pylist()


@pytest.mark.parametrize("way", ["parquet", "csv", "stream", "arrow"])
def test_threads_and_the_size_of_pieces_do_not_show(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = WAYS[way](PEOPLE, tmp_path)
    wanted = framed(r2b.scan(place, threads=1).debias("job", sensitive_features="sex"), "round")
    monkeypatch.setattr("r2b.engines.batch.PIECE_ROWS", 64)
    monkeypatch.setattr("r2b.engines.files.source._piece_rows", lambda schema, columns: 64)
    assert (
        framed(r2b.scan(place, threads=3).debias("job", sensitive_features="sex"), "round")
        == wanted
    )


def test_folders_that_tell_columns_are_columns(tmp_path: Path) -> None:
    place = file_tables.hive(PEOPLE, tmp_path)
    source = FileSource.open(place)
    assert source.names == ("id", "job", "sex", "w", "note", "year", "region")
    fair = r2b.scan(place).debias("job", sensitive_features=["year", "region"], epsilon=0.01)
    years = pc.cast(PEOPLE["year"], pa.int64())
    known = r2b.debias(
        PEOPLE["job"], sensitive_features={"year": years, "region": PEOPLE["region"]}, epsilon=0.01
    )
    np.testing.assert_allclose(fair.prices, known.prices, atol=1e-9)
    assert framed(fair, "round", key="id").schema.field("year").type == pa.int64()


def test_a_null_label_deep_in_a_file_is_named_with_its_row_group(tmp_path: Path) -> None:
    labels = PEOPLE["job"].to_pylist()
    labels[2_345] = None
    pq.write_table(
        PEOPLE.set_column(1, "job", pa.array(labels)), tmp_path / "gap.parquet", row_group_size=700
    )
    with pytest.raises(
        MissingValueError,
        match=(
            r"gap.parquet, row group 3, row 245 has no value in 'job'. 1 of 3,000 rows has none."
            r" Every row needs a label"
        ),
    ) as caught:
        r2b.scan(tmp_path / "gap.parquet").debias("job", sensitive_features="sex")
    assert caught.value.facts["row"] == 2_345


def test_a_wrong_weight_and_a_wrong_probability_are_named_with_their_place(tmp_path: Path) -> None:
    _, table = file_tables.scores()
    weights = table["w"].to_numpy().copy()
    weights[1_700] = -1.0
    pq.write_table(
        table.set_column(table.num_columns - 1, "w", pa.array(weights)),
        tmp_path / "w.parquet",
        row_group_size=800,
    )
    with pytest.raises(WeightError, match=r"row group 2, row 100"):
        r2b.scan(tmp_path / "w.parquet").debias("p", sensitive_features="g", sample_weight="w")
    first = table["p0"].to_numpy().copy()
    first[1_700] = 0.9999
    pq.write_table(
        table.set_column(3, "p0", pa.array(first)), tmp_path / "p.parquet", row_group_size=800
    )
    with pytest.raises(ProbabilityError, match=r"p.parquet, row group 2, row 100"):
        r2b.scan(tmp_path / "p.parquet").debias([f"p{k}" for k in range(5)], sensitive_features="g")


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    scan = opened("parquet", tmp_path)
    fair = scan.debias("job", sensitive_features="sex")
    pq.write_table(PEOPLE.slice(0, 100), tmp_path / "people.parquet")
    with pytest.raises(InputError, match=r"people.parquet was changed or removed"):
        framed(fair, "soft")


def test_files_may_hold_their_columns_in_another_order(tmp_path: Path) -> None:
    order = list(reversed(PEOPLE.column_names))
    file_tables.write(PEOPLE.slice(0, 1_000), tmp_path / "in" / "a.parquet")
    file_tables.write(PEOPLE.slice(1_000).select(order), tmp_path / "in" / "b.parquet")
    fair = r2b.scan(tmp_path / "in").debias("job", sensitive_features="sex")
    assert framed(fair, "round").select(PEOPLE.column_names).equals(PEOPLE)
    fair.write(tmp_path / "out", "round")
    assert pq.read_schema(tmp_path / "out" / "b.parquet").names == [*order, "job_fair"]


def test_rows_that_are_unlike_those_that_were_counted_are_refused_with_their_place(
    tmp_path: Path,
) -> None:
    fair = opened("parquet", tmp_path).debias("job", sensitive_features="sex")
    other = PEOPLE.set_column(2, "sex", pa.array(["x"] * len(PEOPLE)))
    place = file_tables.write(other, tmp_path / "other" / "people.parquet")
    relabel = fair.rows.relabel(fair.rule, "soft")
    with pytest.raises(UnseenError, match=r"people.parquet, row group 0, row 0"):
        list(FileSource.open(place).frame(relabel))


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
def test_passes_tell_how_far_they_are_and_how_long_it_still_takes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r2b.engines.files.lines.TextStored.size", 1 << 12)
    table, place = file_tables.people(2000), tmp_path / f"people.{kind}"
    if kind == "parquet":
        pq.write_table(table, place, row_group_size=300)
    else:
        with pa.output_stream(str(place), compression="detect") as stream:
            pyarrow.csv.write_csv(table, stream)
    told: list[Any] = []
    fair = r2b.scan(place, progress=told.append).debias(
        "job", sensitive_features="sex", epsilon=0.05
    )
    assert [each.rows for each in told] == sorted(each.rows for each in told)
    assert told[-1].rows == 2000
    # Of text, compressed or not, the bytes read tell it before anybody has counted the rows.
    assert 0 < told[0].share < 1 and told[-1].share == 1.0 and len(told) > 2
    told.clear()
    fair.write(tmp_path / f"fair.{kind}", "soft")
    shares = [each.share for each in told]
    assert shares == sorted(shares) and 0 < shares[0] < 1 and shares[-1] == 1.0
    assert told[0].seconds_left > 0 and told[-1].seconds_left == 0 and "100 %" in str(told[-1])
