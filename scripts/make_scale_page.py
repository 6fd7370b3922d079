"""Draw the pictures and fill in the tables of docs/planning.md from benchmarks/results.

``python scripts/make_scale_page.py`` writes them; ``--check`` only says whether they are what would
be written. ``make bench-scale`` makes ``scale.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from experiments.figures import (  # noqa: E402 - after the path
    Axis,
    Panel,
    Picture,
    Series,
    fill_marks,
    update,
)
from experiments.tables import markdown  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "scale.json"
PAGE = ROOT / "docs" / "planning.md"
IMAGES = ROOT / "docs" / "images"
LOG = Axis("seconds (logarithmic)", "log", floor=1e-6)


def seconds(title: str, under: str, series: list[Series], along: str, axis: Axis) -> Picture:
    """Show seconds against something that grows on a logarithmic scale."""
    panel = Panel("", tuple(series), axis)
    return Picture(title, under, ((panel,),), Axis(f"{along} (logarithmic)", "log"))


def every_size(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of tables of 16 classes and 5 groups, the large one last."""
    return [
        *found["by_rows"],
        {**found["large"], "peak_bytes": found["large"]["debias"]["peak_bytes"]},
    ]


def figures(found: dict[str, Any]) -> dict[str, Picture]:
    """Show cost against rows, and against classes and groups."""
    names = {"count": "DuckDB's count", "audit": "audit", "debias": "debias"}
    rows = [
        Series(name, tuple((each["rows"], each[key]["cpu"], None) for each in every_size(found)))
        for key, name in names.items()
    ]
    title = "Seconds of all cores against "
    under = "One Parquet file, 16 classes, 5 groups; debias writes it."
    drawn = {"scale-rows.svg": seconds(f"{title}rows", under, rows, "rows", LOG)}
    n = found["by_size"][0]["rows"]
    for kind, other, size in (("classes", "groups", 5), ("groups", "classes", 16)):
        mine = [each for each in found["by_size"] if each[other] == size]
        pairs = sorted((each[kind], each["cpu_count_and_solve"], None) for each in mine)
        under = f"{n:,} rows in Parquet, {size} {other}: count, solve and certificate."
        line, axis = Series("count and solve", tuple(pairs)), Axis("seconds", zero=True)
        drawn[f"scale-{kind}.svg"] = seconds(f"{title}{kind}", under, [line], kind, axis)
    return drawn


def megabytes(one: dict[str, Any]) -> str:
    return f"{one['peak_bytes'] / 1e6:,.0f} MB"


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Write the tables."""
    large, soft = found["large"], found["soft"]
    rows = large["rows"]
    words = {
        "count": "DuckDB, `group by` and count",
        "copy": "pyarrow, copy of the file",
        "audit": "`r2b` audit",
        "debias": "`r2b` debias, whole labels written",
    }
    body = []
    for name, what in words.items():
        one = large[name]
        pace = f"{rows / one['cpu'] / 1e6:.1f}"
        body.append([what, f"{one['seconds']:.1f}", f"{one['cpu']:.1f}", pace, megabytes(one)])
    head = ["what", "seconds", "seconds of all cores", "million rows a second and core"]
    lines = [
        markdown([*head, "peak memory"], body),
        "",
        f"(audit + debias) / (count + copy) = **{large['ratio']:.2f}**,",
        f"in seconds of all cores {large['cpu_ratio']:.2f}.",
        f"The file has {rows:,} rows and {large['file_bytes'] / 1e9:.2f} GB.",
    ]
    steps = [
        f"{soft['rows']:,} x 16 float32 as lists in Parquet ({soft['file_bytes'] / 1e9:.2f} GB):",
        f"{soft['seconds']:.1f} s, {soft['cpu']:.1f} s of all cores,",
        f"peak memory {megabytes(soft)}, {soft['status']},",
        f"relative gap {abs(soft['gap']):.0e}.",
    ]
    names = ("count", "audit", "debias")
    curve = [
        [f"{each['rows']:,}", *(f"{each[name]['cpu']:.2f} s" for name in names), megabytes(each)]
        for each in every_size(found)
    ]
    groups = [
        [
            f"{each['groups']:,}",
            f"{each['rows']:,}",
            *map(megabytes, (each["solve"], each["write"])),
        ]
        for each in found["by_groups"]
    ]
    return {
        "large": "\n".join(lines),
        "soft": "\n".join(steps),
        "rows": markdown(["rows", *names, "peak memory"], curve),
        "groups": markdown(["groups", "rows", "solve", "solve, round and write"], groups),
    }


def plan(found: dict[str, Any]) -> str:
    """Compute what a hundred nodes would take."""
    large, soft = found["large"], found["soft"]
    rows, nodes, node_cores, partition, tasks = 10**11, 100, 16, 4_000_000, 2_000
    there = nodes * node_cores
    starting = rows / partition / tasks
    words = f"""{rows:,} rows on {nodes} nodes of {node_cores} cores,
in {rows // partition:,} partitions of {partition:,} rows. The scheduler starts {tasks:,}
tasks a second, so a pass takes at least {starting:.1f} s."""
    counted, read = (
        large["counted_bytes"] / large["rows"],
        soft["file_bytes"] / soft["rows"],
    )
    to_certificate, solved = large["debias"]["cpu_count_and_solve"], soft["cpu"]
    works = {
        "classes: audit": (1, large["rows"] / large["audit"]["cpu"], counted),
        "classes: debias, to the certificate": (1, large["rows"] / to_certificate, counted),
        "probabilities of 16 classes: debias": (9, soft["rows"] / solved, read),
    }
    body = []
    for what, (passes, rate, size) in works.items():
        scan = rows / rate / there
        total = max(scan, passes * starting)
        times = [f"{rate / 1e6:.2f} million", f"{scan:,.0f}", f"{total:,.0f}"]
        of_node = f"{rows * size / nodes / total / 1e6:,.0f} MB/s"
        body.append([what, str(passes), f"{size:.1f}", *times, of_node])
    head = ["work", "passes", "bytes a row", "rows a second and core, here", "scan, s"]
    return f"{words}\n\n{markdown([*head, 'with scheduling, s', 'a node reads'], body)}"


MEASURED = """The figures below were measured in November 2026, before the solvers were rewritten;
`make bench-scale` repeats them."""


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    found = json.loads(RESULTS.read_text())
    parts = tables(found) | {"measured": MEASURED, "plan": plan(found)}
    made: dict[Path, str | Picture] = {
        **{IMAGES / name: drawn for name, drawn in figures(found).items()},
        PAGE: fill_marks(PAGE.read_text(), parts),
    }
    return update(made, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
