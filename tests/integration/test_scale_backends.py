"""One suite for every place a table can live: whatever runs it, prices, proof and labels are those of rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import CLOSE, Case, cases, check_everything, check_solved, expected

import r2b
from r2b.engines.lazy import HeldSource

pa = pytest.importorskip("pyarrow")

NAMES = list(cases())
CLASSES = [name for name in NAMES if not cases()[name].soft]
SOFT = [name for name in NAMES if cases()[name].soft]
SAMPLE_ENTRIES = [(name, None) for name in NAMES] + [
    (name, few) for name in SOFT for few in (0, 800)
]
# In a single piece, where nothing is put together: one of each kind of label.
SINGLE = [
    ("text", None),
    ("weights", None),
    *((f"probabilities in {kind}", few) for kind in ("lists", "columns") for few in (None, 0)),
]


def everywhere(function: Callable[..., None]) -> Callable[..., None]:
    """Run a test for every table; those of probabilities also with few numbers at hand."""
    names = [f"{name}, {few} at hand" if few is not None else name for name, few in SAMPLE_ENTRIES]
    return pytest.mark.parametrize(("name", "sample_entries"), SAMPLE_ENTRIES, ids=names)(function)


def in_pieces(
    argument: str, several: int, single: int
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every table in several pieces, and for some in a single one."""
    given = [(*one, several) for one in SAMPLE_ENTRIES] + [(*one, single) for one in SINGLE]
    names = [
        f"{pieces}-{name}" + (f", {few} at hand" if few is not None else "")
        for name, few, pieces in given
    ]
    return pytest.mark.parametrize(("name", "sample_entries", argument), given, ids=names)


@pytest.mark.parametrize("name", NAMES)
def test_both_kernels_in_memory_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr("r2b._solve.oracle.blocks._COMPILED_FROM", 0)
    case = cases()[name]
    fair = r2b.debias(case.y(), **case.in_memory(), **case.settings)
    check_solved(fair, name)
    assert np.abs(fair.soft_labels - expected(name).fair.soft_labels).max() < CLOSE


@in_pieces("batch_rows", several=97, single=1 << 20)
def test_a_table_cut_into_batches(name: str, sample_entries: int | None, batch_rows: int) -> None:
    check_everything(
        lambda table: HeldSource(table, batch_rows),
        lambda table: table,
        name,
        sample_entries=sample_entries,
    )


@everywhere
def test_a_parquet_file_of_several_row_groups(
    name: str, sample_entries: int | None, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "people.parquet"

    def written(table: Any) -> str:
        parquet.write_table(table, path, row_group_size=110)
        return str(path)

    check_everything(written, pa.Table.from_batches, name, sample_entries=sample_entries)


@everywhere
def test_a_polars_lazy_frame(name: str, sample_entries: int | None) -> None:
    polars = pytest.importorskip("polars")
    check_everything(
        lambda table: polars.from_arrow(table).lazy(),
        lambda frame: frame.collect().to_arrow(),
        name,
        sample_entries=sample_entries,
    )


@everywhere
def test_a_duckdb_relation(name: str, sample_entries: int | None) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        check_everything(
            connection.from_arrow,
            lambda relation: relation.to_arrow_table(),
            name,
            sample_entries=sample_entries,
        )


@pytest.mark.slow
@in_pieces("partitions", several=3, single=1)
def test_a_dask_frame(name: str, sample_entries: int | None, partitions: int) -> None:
    pytest.importorskip("dask.dataframe")
    check_everything(
        lambda table: dask_frame(table, partitions),
        from_pandas,
        name,
        sample_entries=sample_entries,
    )


def dask_frame(table: Any, partitions: int) -> Any:
    """Columns keep the types of Arrow where those of NumPy would not tell text, gaps and lists apart."""
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    held = table.to_pandas(
        types_mapper=lambda kind: (
            pandas.ArrowDtype(kind) if pa.types.is_list(kind) or pa.types.is_date(kind) else None
        )
    )
    return frames.from_pandas(held, npartitions=partitions, sort=False)


def from_pandas(frame: Any) -> Any:
    return pa.Table.from_pandas(frame.compute(), preserve_index=False)


SPARK = [(name, 3) for name in NAMES] + [(name, 1) for name in dict(SINGLE)]


@pytest.mark.parametrize(
    ("name", "partitions"), SPARK, ids=[f"{name}, {partitions}" for name, partitions in SPARK]
)
def test_a_spark_frame(spark: Any, name: str, partitions: int) -> None:
    # With few numbers at hand every pass of the solver is a job of Spark; of single precision the
    # rows come home.
    few = 800 if name in ("probabilities in lists", "probabilities in columns") else None

    def opened(table: Any) -> Any:
        frame = spark.createDataFrame(table).coalesce(partitions)
        assert frame.rdd.getNumPartitions() == partitions
        return frame

    check_everything(opened, lambda frame: frame.toArrow(), name, sample_entries=few)


def test_every_table_has_something_to_do() -> None:
    for name, case in cases().items():
        assert isinstance(case, Case)
        assert (
            expected(name).fair.certificate.disparity_before
            > expected(name).fair.certificate.disparity
        ), name
