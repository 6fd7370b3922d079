"""One suite for every place of a table: prices, certificate and labels are those of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import CLOSE, cases, check_everything, check_solved, expected

import r2b
from r2b.engines.lazy import HeldSource

pa = pytest.importorskip("pyarrow")

NAMES = list(cases())
# Tables, and how many numbers are at hand: with few, passes go over blocks.
EVERY: list[tuple[str, int | None]] = [(name, None) for name in NAMES]
EVERY += [(name, few) for name in NAMES if cases()[name].soft for few in (0, 800)]
# One of each kind of label, for places where every pass takes a while.
FEW = [("text", None), ("gaps", None), ("weights", None), ("probabilities in lists", 800)]
FEW += [("probabilities in columns, single", None)]

everywhere = pytest.mark.parametrize(("name", "few"), EVERY)
in_some = pytest.mark.parametrize(("name", "few"), FEW)


@pytest.mark.parametrize("name", NAMES)
def test_both_kernels_in_memory_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr("r2b._solve.oracle.blocks._COMPILED_FROM", 0)
    case, known = cases()[name], expected(name).fair
    fair = r2b.debias(case.y(), **case.in_memory(), **case.settings)
    check_solved(fair, name)
    assert np.abs(fair.soft_labels - known.soft_labels).max() < CLOSE
    assert known.certificate.disparity_before > known.certificate.disparity


@everywhere
def test_a_table_cut_into_batches(name: str, few: int | None) -> None:
    check_everything(
        lambda table: HeldSource(table, 97), lambda table: table, name, sample_entries=few
    )


@everywhere
def test_a_parquet_file_of_several_row_groups(name: str, few: int | None, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "people.parquet"

    def written(table: Any) -> str:
        parquet.write_table(table, path, row_group_size=110)
        return str(path)

    check_everything(written, pa.Table.from_batches, name, sample_entries=few)


@everywhere
def test_a_polars_lazy_frame(name: str, few: int | None) -> None:
    polars = pytest.importorskip("polars")
    check_everything(
        lambda table: polars.from_arrow(table).lazy(),
        lambda frame: frame.collect().to_arrow(),
        name,
        sample_entries=few,
    )


@everywhere
def test_a_duckdb_relation(name: str, few: int | None) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        check_everything(
            connection.from_arrow,
            lambda relation: relation.to_arrow_table(),
            name,
            sample_entries=few,
        )


@pytest.mark.slow
@everywhere
def test_a_dask_frame(name: str, few: int | None) -> None:
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")

    def kept(kind: Any) -> Any:
        # Types of Arrow where those of NumPy would not tell text, gaps and lists apart.
        arrow = pa.types.is_list(kind) or pa.types.is_date(kind)
        return pandas.ArrowDtype(kind) if arrow else None

    check_everything(
        lambda table: frames.from_pandas(
            table.to_pandas(types_mapper=kept), npartitions=3, sort=False
        ),
        lambda frame: pa.Table.from_pandas(frame.compute(), preserve_index=False),
        name,
        sample_entries=few,
    )


@in_some
def test_a_spark_frame(spark: Any, name: str, few: int | None) -> None:
    check_everything(
        lambda table: spark.createDataFrame(table).coalesce(2),
        lambda frame: frame.toArrow(),
        name,
        sample_entries=few,
    )
