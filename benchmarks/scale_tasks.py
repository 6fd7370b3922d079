"""The tasks of the scale benchmark, each run in a process of its own.

python benchmarks/scale_tasks.py '{"task": ..., ...}'    # prints JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from measure import high_water


def taken(begun: tuple[float, float], what: str = "") -> dict[str, float]:
    """Return the seconds since, and the CPU seconds, which other work hardly changes."""
    seconds, cpu = (later - earlier for later, earlier in zip(clocks(), begun, strict=True))
    return {what or "seconds": seconds, f"cpu_{what}".rstrip("_"): cpu}


def clocks() -> tuple[float, float]:
    """Read the clock, and that of the process."""
    return time.perf_counter(), time.process_time()


def count(path: str) -> dict[str, Any]:
    """DuckDB's own group-by."""
    import duckdb

    connection = duckdb.connect()
    begun = clocks()
    found = connection.execute(
        f"select label, \"group\", count(*) from read_parquet('{path}') group by all"
    ).fetchall()
    return {**taken(begun), "combinations": len(found)}


def copy(path: str, output: str) -> dict[str, Any]:
    """Copy a file by pyarrow, row group by row group, with its own codec."""
    import pyarrow.parquet as pq

    begun = clocks()
    source = pq.ParquetFile(path)
    codec = source.metadata.row_group(0).column(0).compression.lower()
    with pq.ParquetWriter(output, source.schema_arrow, compression=codec) as writer:
        for number in range(source.num_row_groups):
            writer.write_table(source.read_row_group(number))
    return taken(begun)


def audit(path: str) -> dict[str, Any]:
    """Audit class labels in a file."""
    import r2b

    begun = clocks()
    found = r2b.scan(path).audit("label", sensitive_features="group")
    return {**taken(begun), "rows": found.n_rows, "parity": found.families[0].parity}


def debias(path: str, output: str | None = None, form: str = "round") -> dict[str, Any]:
    """Debias class labels in a file and write it with the new ones."""
    import r2b

    begun = clocks()
    fair = r2b.scan(path).debias("label", sensitive_features="group", epsilon=0.01)
    solved, solve = clocks(), taken(begun, "count_and_solve")
    if output is not None:
        fair.write(output, form)  # type: ignore[arg-type]
    times = taken(begun) | solve | taken(solved, "write")
    proof = fair.certificate
    facts = {
        "status": fair.status.value,
        "disparity_before": proof.disparity_before,
        "parity": proof.disparity,
        "gap": proof.relative_gap,
    }
    return {**times, **facts}


def soft(path: str) -> dict[str, Any]:
    """Debias probabilities in a file."""
    import r2b

    begun = clocks()
    fair = r2b.scan(path).debias("scores", sensitive_features="group", epsilon=0.01)
    proof = fair.certificate
    facts = {
        "status": fair.status.value,
        "disparity_before": proof.disparity_before,
        "parity": proof.disparity,
        "gap": proof.relative_gap,
    }
    return {**taken(begun), "steps": [line.stage for line in fair.history], **facts}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "count": count,
    "copy": copy,
    "audit": audit,
    "debias": debias,
    "soft": soft,
}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    found = TASKS[request.pop("task")](**request)
    found["peak_bytes"] = high_water()
    print(json.dumps(found))
