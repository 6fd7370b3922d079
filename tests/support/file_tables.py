"""Tables in files for the tests of files: the same rows in every format, whole and in parts."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.csv")
pytest.importorskip("pyarrow.feather")

N_ROWS = 3_000


def people(n: int = N_ROWS, seed: int = 3) -> pa.Table:
    """Four classes that depend on two attributes, a third column of years, ids, weights and a note
    with quotes and line ends.
    """
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, n), rng.integers(0, 3, n)
    job = np.minimum(rng.poisson(0.8 + sex + 0.2 * region), 3)
    notes = np.array(["plain", 'a "quoted" word', "two\nlines", "", "comma, here", "ü"])
    return pa.table(
        {
            "id": pa.array([f"k{k:05d}" for k in range(n)]),
            "job": pa.array(np.array(["none", "clerk", "boss", "chief"])[job]),
            "sex": pa.array(np.array(["f", "m"])[sex]),
            "region": pa.array(np.array(["n", "s", "w"])[region]),
            "year": pa.array(np.sort(rng.integers(2020, 2023, n)).astype(str)),
            "w": pa.array([f"{w:.3f}" for w in rng.gamma(2.0, 1.0, n)]),
            "note": pa.array(notes[rng.integers(0, len(notes), n)]),
        }
    )


def scores(
    n: int = N_ROWS, n_classes: int = 5, seed: int = 4, dtype: type = np.float64
) -> tuple[Any, pa.Table]:
    """Rows of probabilities that depend on a group: the matrix, and a table that has it as lists
    and as columns.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    y = rng.dirichlet(np.full(n_classes, 0.7), n)
    y[group == 2, 0] *= 4
    y[group == 1, 1] *= 3
    y = (y / y.sum(axis=1, keepdims=True)).astype(dtype)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(y.ravel()), n_classes)
    columns = {f"p{k}": pa.array(y[:, k]) for k in range(n_classes)}
    return y, pa.table(
        {
            "id": np.arange(n),
            "g": pa.array(np.array(["a", "b", "c"])[group]),
            "p": lists,
            **columns,
            "w": rng.gamma(2, 1, n),
        }
    )


def csv_bytes(table: pa.Table, delimiter: str = ",") -> bytes:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table, sink, pa.csv.WriteOptions(delimiter=delimiter, quoting_style="needed"))
    return bytes(sink.getvalue().to_pybytes())


def write(table: pa.Table, path: Path) -> Path:
    """Write one file, in pieces so small that every table has many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    suffixes = "".join(path.suffixes)
    if suffixes == ".parquet":
        pq.write_table(table, path, row_group_size=700)
    elif suffixes == ".arrow":
        pa.feather.write_feather(table, path, chunksize=450, compression="lz4")
    elif suffixes == ".ipc":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=350)
    elif suffixes == ".csv.gz":
        path.write_bytes(gzip.compress(csv_bytes(table), mtime=0))
    else:
        path.write_bytes(csv_bytes(table, "\t" if suffixes == ".tsv" else ","))
    return path


def one(suffix: str) -> Callable[[pa.Table, Path], Any]:
    return lambda table, folder: write(table, folder / f"people{suffix}")


def parts(suffix: str, ways: str) -> Callable[[pa.Table, Path], Any]:
    """Three files and an empty one, handed over as a folder, a pattern or a list."""

    def made(table: pa.Table, folder: Path) -> Any:
        cuts = [0, 1_100, 1_100, 2_500, len(table)]
        paths = [
            write(table.slice(start, stop - start), folder / "people" / f"part-{k}{suffix}")
            for k, (start, stop) in enumerate(itertools.pairwise(cuts))
        ]
        return {
            "folder": folder / "people",
            "pattern": str(folder / "people" / f"part-*{suffix}"),
            "list": list(reversed(paths)),
        }[ways]

    return made


def hive(table: pa.Table, folder: Path) -> Path:
    """A folder for each year and region, whose columns are not in the files; rows leave in the
    order of the paths.
    """
    order = table.sort_by([("year", "ascending"), ("region", "ascending")])
    keys = list(zip(order["year"].to_pylist(), order["region"].to_pylist(), strict=True))
    for year, region in sorted(set(keys)):
        mine = order.filter(pa.array([key == (year, region) for key in keys])).drop_columns(
            ["year", "region"]
        )
        write(mine, folder / "hive" / f"year={year}" / f"region={region}" / "part.parquet")
    return folder / "hive"


WAYS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "parquet": one(".parquet"),
    "arrow": one(".arrow"),
    "stream": one(".ipc"),
    "csv": one(".csv"),
    "tsv": one(".tsv"),
    "csv.gz": one(".csv.gz"),
    "folder": parts(".parquet", "folder"),
    "pattern": parts(".arrow", "pattern"),
    "csv folder": parts(".csv", "folder"),
}
