"""Measure files larger than memory.

    python benchmarks/scale.py [--rows N] [--folder DIR] [--quick] [--parts large soft ...]

Every figure comes from a process of its own, with its peak of memory. Prints a table and writes
JSON for docs/planning.md and its figures.
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
FULL = {
    "rows": 200_000_000,
    "soft": 20_000_000,
    "sizes": [100_000, 1_000_000, 10_000_000, 100_000_000],
    "many": 10_000_000,
    "grouped": [10_000_000, 100_000_000],
}
QUICK = {
    "rows": 4_000_000,
    "soft": 400_000,
    "sizes": [100_000, 1_000_000],
    "many": 1_000_000,
    "grouped": [100_000, 1_000_000],
}
CLASSES, GROUPS = (2, 16, 64, 256), (2, 5, 20, 100)
MANY_GROUPS = (200, 5_000)
REPEATS = 2


def run(task: str, **arguments: Any) -> dict[str, Any]:
    """Run a task in a process of its own."""
    command = [
        sys.executable,
        str(HERE / "scale_tasks.py"),
        json.dumps({"task": task, **arguments}),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{task} failed: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}"
        )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def best(task: str, repeats: int, output: Path | None = None, **arguments: Any) -> dict[str, Any]:
    """Return least seconds, least CPU seconds and largest memory of several runs."""
    runs = []
    for _ in range(repeats):
        runs.append(run(task, **arguments, **({} if output is None else {"output": str(output)})))
        if output is not None:
            output.unlink(missing_ok=True)
    fastest = min(runs, key=lambda one: one["seconds"])
    least = {name: min(one[name] for one in runs) for name in fastest if name.startswith("cpu")}
    return {**fastest, **least, "peak_bytes": max(one["peak_bytes"] for one in runs)}


def table(folder: Path, rows: int, n_classes: int = 16, n_groups: int = 5) -> Path:
    """Make a file, or take it where it was made before."""
    path = folder / f"people-{rows}-{n_classes}-{n_groups}.parquet"
    if not path.exists():
        scale_data.classes(rows, path.with_suffix(".part"), n_classes, n_groups)
        path.with_suffix(".part").rename(path)
    return path


def column_bytes(path: Path, columns: tuple[str, ...]) -> int:
    """Return the bytes of some columns in a file, which a counting pass reads."""
    import pyarrow.parquet as pq

    stored = pq.ParquetFile(path).metadata
    groups = (stored.row_group(number) for number in range(stored.num_row_groups))
    parts = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(part.total_compressed_size for part in parts if part.path_in_schema in columns)


def large(folder: Path, rows: int, sizes: dict[str, Any]) -> dict[str, Any]:
    """Compare audit and debias of one large file with DuckDB's count and a plain copy."""
    path, output = table(folder, rows), folder / "out.parquet"
    found = {
        "count": best("count", REPEATS, path=str(path)),
        "copy": best("copy", REPEATS, output, path=str(path)),
        "audit": best("audit", REPEATS, path=str(path)),
        "debias": best("debias", REPEATS, output, path=str(path)),
    }
    ratio, cpu_ratio = (
        (found["audit"][name] + found["debias"][name])
        / (found["count"][name] + found["copy"][name])
        for name in ("seconds", "cpu")
    )
    peak = max(found["audit"]["peak_bytes"], found["debias"]["peak_bytes"])
    n_bytes = {
        "file_bytes": path.stat().st_size,
        "counted_bytes": column_bytes(path, ("label", "group")),
    }
    path.unlink()
    print(
        f"{rows:,} rows of 16 classes and 5 groups, {n_bytes['file_bytes'] / MB:,.0f} MB of Parquet"
    )
    for name, one in found.items():
        print(
            f"  {name:8} {one['seconds']:8.2f} s   {one['cpu']:8.2f} s of all cores   "
            f"peak {one['peak_bytes'] / MB:6.0f} MB"
        )
    ratios = f"{ratio:.2f}, of all cores {cpu_ratio:.2f} (at most 3)"
    print(
        f"  (audit + debias) / (count + copy) = {ratios}, peak {peak / MB:.0f} MB (below 1,000)",
        flush=True,
    )
    return {
        "rows": rows,
        **n_bytes,
        **found,
        "ratio": ratio,
        "cpu_ratio": cpu_ratio,
        "peak_bytes": peak,
    }


def soft(folder: Path, rows: int, sizes: dict[str, Any]) -> dict[str, Any]:
    """Debias probabilities."""
    path = folder / f"soft-{sizes['soft']}.parquet"
    if not path.exists():
        scale_data.soft(sizes["soft"], path)
    found = {
        "rows": sizes["soft"],
        "file_bytes": path.stat().st_size,
        **best("soft", 1, path=str(path)),
    }
    path.unlink()
    print(
        f"{sizes['soft']:,} x 16 float32: {found['seconds']:.1f} s, "
        f"peak {found['peak_bytes'] / MB:.0f} MB (below 1,500)",
        flush=True,
    )
    return found


def by_rows(folder: Path, rows: int, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Time tables of more and more rows."""
    found = []
    for size in (each for each in sizes["sizes"] if each < rows):  # the large table is one more
        path = table(folder, size)
        each = {name: best(name, REPEATS, path=str(path)) for name in ("count", "audit")}
        each["debias"] = best("debias", REPEATS, folder / "out.parquet", path=str(path))
        found.append({"rows": size, **each, "peak_bytes": each["debias"]["peak_bytes"]})
        print(
            f"  {size:>13,} rows: "
            + ", ".join(f"{name} {one['cpu']:.3f} s of all cores" for name, one in each.items()),
            flush=True,
        )
        path.unlink()
    return found


def by_size(folder: Path, rows: int, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Time the solve of more and more classes and groups."""
    found = []
    for n_classes, n_groups in [
        *((each, 5) for each in CLASSES),
        *((16, each) for each in GROUPS if each != 5),
    ]:
        path = table(folder, sizes["many"], n_classes, n_groups)
        one = best("debias", REPEATS, path=str(path)) | {
            "classes": n_classes,
            "groups": n_groups,
            "rows": sizes["many"],
        }
        found.append(one)
        print(
            f"  {n_classes:>4} classes, {n_groups:>3} groups: "
            f"count and solve {one['cpu_count_and_solve']:.2f} s of all cores",
            flush=True,
        )
        path.unlink()
    return found


def by_groups(folder: Path, rows: int, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure the memory of many groups, of a solve and of a solve with a write."""
    found = []
    for n_groups in MANY_GROUPS:
        for size in sizes["grouped"]:
            path = table(folder, size, 16, n_groups)
            solve, write = (
                best("debias", 1, path=str(path)),
                best("debias", 1, folder / "out.parquet", path=str(path)),
            )
            path.unlink()
            found.append({"rows": size, "groups": n_groups, "solve": solve, "write": write})
            peaks = (
                f"solve {solve['peak_bytes'] / MB:.0f} MB, "
                f"solve and write {write['peak_bytes'] / MB:.0f} MB (below 1,000)"
            )
            print(f"  {n_groups:>5,} groups, {size:,} rows: {peaks}", flush=True)
    return found


PARTS = {
    "large": large,
    "soft": soft,
    "by_rows": by_rows,
    "by_size": by_size,
    "by_groups": by_groups,
}


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small tables, a minute; the bounds are meant for the full run",
    )
    parser.add_argument("--rows", type=int, help="rows of the large table of classes")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the tables are made and kept; a temporary folder by default",
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument(
        "--parts",
        nargs="*",
        choices=list(PARTS),
        default=list(PARTS),
        help="the others stay as they were measured before",
    )
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    rows = options.rows or sizes["rows"]
    folder = options.folder or Path(tempfile.mkdtemp(prefix="r2b-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        before = json.loads(options.output.read_text()) if len(options.parts) < len(PARTS) else {}
        report = before | {
            name: PARTS[name](folder, int(str(rows)), sizes)
            for name in PARTS
            if name in options.parts
        }
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    options.output.write_text(
        json.dumps(
            report | {"format": 1, "quick": options.quick, "environment": environment()}, indent=1
        )
        + "\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
