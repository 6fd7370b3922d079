"""Make large tables in pieces: ``python benchmarks/scale_data.py classes|soft ROWS PATH``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 1 << 20


def classes(rows: int, path: Path, n_classes: int = 16, n_groups: int = 5, seed: int = 0) -> None:
    """Write class labels by group, and three other columns: a number, an amount and a date."""
    rng = np.random.default_rng(seed)
    # Whole blocks of classes are drawn by group: labels that differ between groups, none of them
    # missing one.
    shares = rng.dirichlet(np.full(n_classes, 8.0), n_groups).cumsum(axis=1)
    names = pa.array([f"class {k:02d}" for k in range(n_classes)])
    groups = pa.array([f"group {s:02d}" for s in range(n_groups)])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("label", pa.string()),
            ("group", pa.string()),
            ("amount", pa.float32()),
            ("day", pa.date32()),
        ]
    )
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in range(0, rows, ROW_GROUP):
            n = min(ROW_GROUP, rows - start)
            group = rng.integers(0, n_groups, n).astype(np.int16)
            draw = rng.random(n)
            label = np.minimum(
                (draw[:, None] > shares[group]).sum(axis=1)
                if n_classes <= 64
                else _searched(shares, group, draw),
                n_classes - 1,
            )
            columns = [
                pa.array(np.arange(start, start + n)),
                names.take(pa.array(label)),
                groups.take(pa.array(group)),
                pa.array(np.round(rng.gamma(2.0, 50.0, n), 2).astype(np.float32)),
                pa.array(rng.integers(15_000, 20_000, n).astype(np.int32)).cast(pa.date32()),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _searched(shares: np.ndarray, group: np.ndarray, draw: np.ndarray) -> np.ndarray:
    found = np.empty(len(draw), np.int64)
    for s in range(len(shares)):
        mine = group == s
        found[mine] = np.searchsorted(shares[s], draw[mine])
    return found


def soft(rows: int, path: Path, n_classes: int = 16, n_groups: int = 5, seed: int = 0) -> None:
    """Write probabilities as lists of float32, by group."""
    rng = np.random.default_rng(seed)
    tilt = rng.dirichlet(np.full(n_classes, 4.0), n_groups) * n_classes
    groups = pa.array([f"group {s:02d}" for s in range(n_groups)])
    kind = pa.list_(pa.float32(), n_classes)
    schema = pa.schema([("id", pa.int64()), ("scores", kind), ("group", pa.string())])
    with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=["group"]) as writer:
        for start in range(0, rows, ROW_GROUP):
            n = min(ROW_GROUP, rows - start)
            group = rng.integers(0, n_groups, n).astype(np.int16)
            matrix = rng.standard_exponential((n, n_classes), np.float32) ** 2 * tilt[group].astype(
                np.float32
            )
            matrix /= matrix.sum(axis=1, keepdims=True)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), n_classes)
            columns = [pa.array(np.arange(start, start + n)), lists, groups.take(pa.array(group))]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


if __name__ == "__main__":
    {"classes": classes, "soft": soft}[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
