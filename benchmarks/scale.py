"""Measure files larger than memory: ``python benchmarks/scale.py [--rows N] [--folder DIR] [--quick]``.

Every figure comes from a process of its own, with its peak of memory. Prints a table and writes JSON for docs/planning.md and its figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import scale_data
from measure import environment

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "scale.json"
MB = 1e6
FULL = {"rows": 200_000_000, "soft": 20_000_000, "sizes": [100_000, 1_000_000, 10_000_000, 100_000_000], "many": 10_000_000}
QUICK = {"rows": 4_000_000, "soft": 400_000, "sizes": [100_000, 1_000_000], "many": 1_000_000}
CLASSES, GROUPS = (2, 16, 64, 256), (2, 5, 20, 100)
REPEATS = 2


def run(task: str, **arguments: Any) -> dict[str, Any]:
    """Run a task in a process of its own."""
    command = [sys.executable, str(HERE / "scale_tasks.py"), json.dumps({"task": task, **arguments})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{task} failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def best(task: str, repeats: int, output: Path | None = None, **arguments: Any) -> dict[str, Any]:
    """Take the fastest of several runs, and the largest memory of any."""
    runs = []
    for _ in range(repeats):
        runs.append(run(task, **arguments, **({} if output is None else {"output": str(output)})))
        if output is not None:
            output.unlink(missing_ok=True)
    fastest = min(runs, key=lambda one: one["seconds"])
    return {**fastest, "peak_bytes": max(one["peak_bytes"] for one in runs)}


def table(folder: Path, rows: int, n_classes: int = 16, n_groups: int = 5) -> Path:
    """Make a file, or take it where it was made before."""
    path = folder / f"people-{rows}-{n_classes}-{n_groups}.parquet"
    if not path.exists():
        scale_data.classes(rows, path.with_suffix(".part"), n_classes, n_groups)
        path.with_suffix(".part").rename(path)
    return path


def column_bytes(path: Path, columns: tuple[str, ...]) -> int:
    """Give the bytes that some columns take in a file: what a pass that counts reads of it."""
    import pyarrow.parquet as pq

    stored = pq.ParquetFile(path).metadata
    groups = (stored.row_group(number) for number in range(stored.num_row_groups))
    parts = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(part.total_compressed_size for part in parts if part.path_in_schema in columns)


def headline(folder: Path, rows: int) -> dict[str, Any]:
    """Compare audit and debias of one large file with DuckDB's count and a plain copy."""
    path, output = table(folder, rows), folder / "out.parquet"
    found = {
        "count": best("count", REPEATS, path=str(path)),
        "copy": best("copy", REPEATS, output, path=str(path)),
        "audit": best("audit", REPEATS, path=str(path)),
        "debias": best("debias", REPEATS, output, path=str(path)),
    }
    plain = found["count"]["seconds"] + found["copy"]["seconds"]
    ours = found["audit"]["seconds"] + found["debias"]["seconds"]
    peak = max(found["audit"]["peak_bytes"], found["debias"]["peak_bytes"])
    sizes = {"file_bytes": path.stat().st_size, "counted_bytes": column_bytes(path, ("label", "group"))}
    return {"rows": rows, **sizes, **found, "ratio": ours / plain, "peak_bytes": peak}


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small tables, a minute; the bounds are meant for the full run")
    parser.add_argument("--rows", type=int, help="rows of the large table of classes")
    parser.add_argument("--folder", type=Path, help="where the tables are made and kept; a temporary folder by default")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    rows = options.rows or sizes["rows"]
    folder = options.folder or Path(tempfile.mkdtemp(prefix="r2b-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report = measure(folder, int(str(rows)), sizes)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    options.output.write_text(json.dumps({"format": 1, "quick": options.quick, "environment": environment(), **report}, indent=1) + "\n")
    return 0


def measure(folder: Path, rows: int, sizes: dict[str, Any]) -> dict[str, Any]:
    """Take all figures."""
    large = headline(folder, rows)
    print(f"{rows:,} rows of 16 classes and 5 groups, {large['file_bytes'] / MB:,.0f} MB of Parquet")
    for name in ("count", "copy", "audit", "debias"):
        print(f"  {name:8} {large[name]['seconds']:8.2f} s   peak {large[name]['peak_bytes'] / MB:6.0f} MB")
    print(f"  (audit + debias) / (count + copy) = {large['ratio']:.2f} (at most 3), peak {large['peak_bytes'] / MB:.0f} MB (below 1,000)")
    path = folder / f"soft-{sizes['soft']}.parquet"
    if not path.exists():
        scale_data.soft(sizes["soft"], path)
    probabilities = {"rows": sizes["soft"], "file_bytes": path.stat().st_size, **best("soft", 1, path=str(path))}
    size = f"{sizes['soft']:,} x 16 float32"
    print(f"{size}: {probabilities['seconds']:.1f} s, peak {probabilities['peak_bytes'] / MB:.0f} MB (below 1,500)")
    by_rows = []
    for size in sizes["sizes"]:
        path = table(folder, size)
        each = {name: best(name, REPEATS, path=str(path)) for name in ("count", "audit")}
        each["debias"] = best("debias", REPEATS, folder / "out.parquet", path=str(path))
        by_rows.append({"rows": size, **{name: one["seconds"] for name, one in each.items()}, "peak_bytes": each["debias"]["peak_bytes"]})
        print(f"  {size:>13,} rows: " + ", ".join(f"{name} {one['seconds']:.3f} s" for name, one in each.items()))
        path.unlink()
    by_rows.append(
        {"rows": rows, **{name: large[name]["seconds"] for name in ("count", "audit", "debias")}, "peak_bytes": large["peak_bytes"]}
    )
    by_size = []
    for n_classes, n_groups in [*((each, 5) for each in CLASSES), *((16, each) for each in GROUPS if each != 5)]:
        path = table(folder, sizes["many"], n_classes, n_groups)
        one = best("debias", REPEATS, path=str(path)) | {"classes": n_classes, "groups": n_groups, "rows": sizes["many"]}
        by_size.append(one)
        print(f"  {n_classes:>4} classes, {n_groups:>3} groups: count and solve {one['count_and_solve']:.2f} s")
        path.unlink()
    return {"large": large, "soft": probabilities, "by_rows": by_rows, "by_size": by_size}


if __name__ == "__main__":
    raise SystemExit(main())
