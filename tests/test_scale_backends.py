"""One suite for every place a table can live: whatever runs it, prices, proof and labels are those of rows in memory."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import CLOSE, Case, cases, check_everything, check_solved, expected

import r2b
from r2b.scale.held import HeldSource

pa = pytest.importorskip("pyarrow")

NAMES = list(cases())
CLASSES = [name for name in NAMES if not cases()[name].soft]
SOFT = [name for name in NAMES if cases()[name].soft]
AT_HAND = [(name, None) for name in NAMES] + [(name, few) for name in SOFT for few in (0, 800)]


def everywhere(function: Callable[..., None]) -> Callable[..., None]:
    """Run a test for every table; those of probabilities also with few numbers at hand."""
    names = [f"{name}, {few} at hand" if few is not None else name for name, few in AT_HAND]
    return pytest.mark.parametrize(("name", "at_hand"), AT_HAND, ids=names)(function)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
def test_both_kernels_in_memory_agree(name: str, kernel: Any) -> None:
    if kernel == "compiled":
        pytest.importorskip("numba")
    case = cases()[name]
    fair = r2b.debias(case.y(), **case.in_memory(), **case.settings, kernel=kernel)
    check_solved(fair, name)
    assert np.abs(fair.soft_labels - expected(name).fair.soft_labels).max() < CLOSE


@everywhere
@pytest.mark.parametrize("batch_rows", [97, 1 << 20])
def test_a_table_cut_into_batches(name: str, at_hand: int | None, batch_rows: int) -> None:
    check_everything(lambda table: HeldSource(table, batch_rows), lambda table: table, name, at_hand=at_hand)


@everywhere
def test_a_parquet_file_of_several_row_groups(name: str, at_hand: int | None, tmp_path: Path) -> None:
    if importlib.util.find_spec("r2b.scale.files") is None:
        pytest.skip("files cannot be scanned yet")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "people.parquet"

    def written(table: Any) -> str:
        parquet.write_table(table, path, row_group_size=110)
        return str(path)

    check_everything(written, pa.Table.from_batches, name, at_hand=at_hand)


@everywhere
def test_a_polars_lazy_frame(name: str, at_hand: int | None) -> None:
    polars = pytest.importorskip("polars")
    check_everything(lambda table: polars.from_arrow(table).lazy(), lambda frame: frame.collect().to_arrow(), name, at_hand=at_hand)


@everywhere
def test_a_duckdb_relation(name: str, at_hand: int | None) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        check_everything(connection.from_arrow, lambda relation: relation.to_arrow_table(), name, at_hand=at_hand)


@everywhere
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_dask_frame(name: str, at_hand: int | None, partitions: int) -> None:
    pytest.importorskip("dask.dataframe")
    check_everything(lambda table: dask_frame(table, partitions), from_pandas, name, at_hand=at_hand)


def dask_frame(table: Any, partitions: int) -> Any:
    """Columns keep the types of Arrow where those of NumPy would not tell text, gaps and lists apart."""
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    held = table.to_pandas(types_mapper=lambda kind: pandas.ArrowDtype(kind) if pa.types.is_list(kind) or pa.types.is_date(kind) else None)
    return frames.from_pandas(held, npartitions=partitions, sort=False)


def from_pandas(frame: Any) -> Any:
    return pa.Table.from_pandas(frame.compute(), preserve_index=False)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start one session for all tests, which takes seconds; its workers are of the Python that runs the tests."""
    if importlib.util.find_spec("r2b.scale.spark") is None:
        pytest.skip("Spark frames cannot be scanned yet")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    sql = pytest.importorskip("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[2]").appName("r2b").config("spark.ui.enabled", "false")
    for setting, value in (("spark.sql.shuffle.partitions", "2"), ("spark.driver.memory", "1g"), ("spark.log.level", "ERROR")):
        builder = builder.config(setting, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        session = builder.getOrCreate()
        yield session
        session.stop()


def test_spark_frames_of_one_and_of_five_partitions(spark: Any) -> None:
    # One test, so that a suite run by several processes starts one session.
    for name, partitions in itertools.product(cases(), (1, 5)):
        few = 800 if cases()[name].soft else None
        try:
            check_everything(
                lambda table: spark.createDataFrame(table).repartition(partitions),  # noqa: B023
                lambda frame: frame.toArrow(),
                name,
                at_hand=few,
            )
        except Exception as error:
            error.add_note(f"in the table {name!r} with {partitions} partitions")
            raise


def test_every_table_has_something_to_do() -> None:
    for name, case in cases().items():
        assert isinstance(case, Case)
        assert expected(name).fair.certificate.parity_before > expected(name).fair.certificate.parity, name
