"""One suite for every place of a table: prices, certificate and labels are those of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale_cases import CLOSE, as_table, cases, check_everything, check_solved, expected

import r2b
from r2b.engines.lakes import DatasetSource
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


def of_file(table: Any, folder: Path) -> str:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, folder / "people.parquet", row_group_size=110)
    return str(folder / "people.parquet")


def of_dask(table: Any, folder: Path) -> Any:
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")

    def kept(kind: Any) -> Any:
        # Types of Arrow where those of NumPy would not tell text, gaps and lists apart.
        arrow = pa.types.is_list(kind) or pa.types.is_date(kind)
        return pandas.ArrowDtype(kind) if arrow else None

    return frames.from_pandas(table.to_pandas(types_mapper=kept), npartitions=3, sort=False)


PLACES: dict[str, Any] = {
    "batches": lambda table, folder: HeldSource(table, 97),
    "row groups": of_file,
    "Polars": lambda table, folder: pytest.importorskip("polars").from_arrow(table).lazy(),
    "DuckDB": lambda table, folder: pytest.importorskip("duckdb").connect().from_arrow(table),
    "Dask": of_dask,
}
SOME: dict[str, Any] = {
    "dataset": lambda table, folder: DatasetSource(
        pytest.importorskip("pyarrow.dataset").dataset(of_file(table, folder)), 97
    ),
    "stream": lambda table, folder: table.to_reader(max_chunksize=50),
}


@pytest.mark.parametrize(
    "place",
    [pytest.param("Dask", marks=pytest.mark.slow), *(each for each in PLACES if each != "Dask")],
)
@everywhere
def test_labels_are_those_of_memory(place: str, name: str, few: int | None, tmp_path: Path) -> None:
    check_everything(
        lambda table: PLACES[place](table, tmp_path), as_table, name, sample_entries=few
    )


@pytest.mark.parametrize("place", SOME)
@in_some
def test_arrow_datasets_and_streams(place: str, name: str, few: int | None, tmp_path: Path) -> None:
    check_everything(lambda table: SOME[place](table, tmp_path), as_table, name, sample_entries=few)


@in_some
def test_a_spark_frame(spark: Any, name: str, few: int | None) -> None:
    check_everything(
        lambda table: spark.createDataFrame(table).coalesce(2),
        as_table,
        name,
        sample_entries=few,
    )
