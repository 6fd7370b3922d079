"""Draw the pictures and fill in the tables of docs/planning.md from benchmarks/results.

``python scripts/make_scale_page.py`` writes them; ``--check`` only says whether they are what would
be written. ``make bench-scale`` makes ``scale.json``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from experiments.figures import Axis, Panel, Picture, Series, update  # noqa: E402 - after the path

RESULTS = ROOT / "benchmarks" / "results" / "scale.json"
PAGE = ROOT / "docs" / "planning.md"
IMAGES = ROOT / "docs" / "images"
Points = dict[str, list[tuple[float, float]]]


def seconds(title: str, under: str, points: Points, x_name: str, axis: Axis) -> Picture:
    """Show seconds against something that grows on a logarithmic scale."""
    series = tuple(
        Series(name, tuple((x, y, None) for x, y in pairs)) for name, pairs in points.items()
    )
    return Picture(
        title, under, ((Panel("", series, axis),),), Axis(f"{x_name} (logarithmic)", "log")
    )


def every_size(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of tables of 16 classes and 5 groups, the large one last."""
    return [
        *found["by_rows"],
        {**found["large"], "peak_bytes": found["large"]["debias"]["peak_bytes"]},
    ]


def figures(found: dict[str, Any]) -> dict[str, Picture]:
    """Show cost against rows, and against classes and groups."""
    names = {"count": "DuckDB's count", "audit": "audit", "debias": "debias"}
    rows: Points = {
        name: [(each["rows"], each[key]["cpu"]) for each in every_size(found)]
        for key, name in names.items()
    }
    under = "One Parquet file, 16 classes, 5 groups; debias writes it."
    drawn = {
        "scale-rows.svg": seconds(
            "Seconds of all cores against rows",
            under,
            rows,
            "rows",
            Axis("seconds (logarithmic)", "log", floor=1e-6),
        )
    }
    n = found["by_size"][0]["rows"]
    for kind, other in (("classes", ("groups", 5)), ("groups", ("classes", 16))):
        mine = [each for each in found["by_size"] if each[other[0]] == other[1]]
        pairs = sorted((each[kind], each["cpu_count_and_solve"]) for each in mine)
        under = f"{n:,} rows in Parquet, {other[1]} {other[0]}: count, solve and certificate."
        drawn[f"scale-{kind}.svg"] = seconds(
            f"Seconds of all cores against {kind}",
            under,
            {"count and solve": pairs},
            kind,
            Axis("seconds", zero=True),
        )
    return drawn


def tables(found: dict[str, Any]) -> dict[str, list[str]]:
    """Write the tables."""
    large, soft = found["large"], found["soft"]
    rows = large["rows"]
    lines = [
        "| what | seconds | seconds of all cores | million rows a second and core | peak memory |",
        "| --- " * 5 + "|",
    ]
    words = {
        "count": "DuckDB, `group by` and count",
        "copy": "pyarrow, copy of the file",
        "audit": "`r2b` audit",
        "debias": "`r2b` debias, whole labels written",
    }
    for name, what in words.items():
        one = large[name]
        times = f"{one['seconds']:.1f} | {one['cpu']:.1f} | {rows / one['cpu'] / 1e6:.1f}"
        lines.append(f"| {what} | {times} | {one['peak_bytes'] / 1e6:,.0f} MB |")
    lines += [
        "",
        f"(audit + debias) / (count + copy) = **{large['ratio']:.2f}**,",
        f"in seconds of all cores {large['cpu_ratio']:.2f}.",
        f"The file has {rows:,} rows and {large['file_bytes'] / 1e9:.2f} GB.",
    ]
    steps = [
        f"{soft['rows']:,} x 16 float32 as lists in Parquet ({soft['file_bytes'] / 1e9:.2f} GB):",
        f"{soft['seconds']:.1f} s, {soft['cpu']:.1f} s of all cores,",
        f"peak memory {soft['peak_bytes'] / 1e6:,.0f} MB, {soft['status']},",
        f"relative gap {abs(soft['gap']):.0e}.",
    ]
    curve = ["| rows | count | audit | debias | peak memory |", "| --- | --- | --- | --- | --- |"]
    for each in every_size(found):
        cells = " | ".join(f"{each[name]['cpu']:.2f} s" for name in ("count", "audit", "debias"))
        curve.append(f"| {each['rows']:,} | {cells} | {each['peak_bytes'] / 1e6:,.0f} MB |")
    groups = ["| groups | rows | solve | solve, round and write |", "| --- " * 4 + "|"]
    for each in found["by_groups"]:
        cells = " | ".join(
            f"{each[name]['peak_bytes'] / 1e6:,.0f} MB" for name in ("solve", "write")
        )
        groups.append(f"| {each['groups']:,} | {each['rows']:,} | {cells} |")
    return {"large": lines, "soft": steps, "rows": curve, "groups": groups}


def plan(found: dict[str, Any]) -> list[str]:
    """Compute what a hundred nodes would take."""
    large, soft = found["large"], found["soft"]
    rows, nodes, node_cores, partition, tasks = 10**11, 100, 16, 4_000_000, 2_000
    there = nodes * node_cores
    starting = rows / partition / tasks
    lines = [
        f"{rows:,} rows on {nodes} nodes of {node_cores} cores,",
        f"in {rows // partition:,} partitions of {partition:,} rows. The scheduler starts {tasks:,}",
        f"tasks a second, so a pass takes at least {starting:.1f} s.",
        "",
        "| work | passes | bytes a row | rows a second and core, here "
        "| scan, s | with scheduling, s | a node reads |",
        "| --- " * 7 + "|",
    ]
    counted = large["counted_bytes"] / large["rows"]
    works = [
        ("classes: audit", 1, large["rows"], large["audit"]["cpu"], counted),
        (
            "classes: debias, to the certificate",
            1,
            large["rows"],
            large["debias"]["cpu_count_and_solve"],
            counted,
        ),
        (
            "probabilities of 16 classes: debias",
            9,
            soft["rows"],
            soft["cpu"],
            soft["file_bytes"] / soft["rows"],
        ),
    ]
    for what, passes, n, cpu, size in works:
        rate = n / cpu
        scan = rows / rate / there
        total = max(scan, passes * starting)
        cells = f"{passes} | {size:.1f} | {rate / 1e6:.2f} million | {scan:,.0f} | {total:,.0f}"
        lines.append(f"| {what} | {cells} | {rows * size / nodes / total / 1e6:,.0f} MB/s |")
    return lines


MEASURED = [
    "The figures below were measured in November 2026, before the solvers were rewritten;",
    "`make bench-scale` repeats them.",
]


def page(words: str, parts: dict[str, list[str]]) -> str:
    """Put the tables between their marks."""
    for name, lines in parts.items():
        mark = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        body = "\n" + "\n".join(lines) + "\n\n"
        words = mark.sub(lambda found, body=body: found[1] + body + found[2], words)  # type: ignore[misc]
    return words


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    found = json.loads(RESULTS.read_text())
    parts = tables(found) | {"measured": MEASURED, "plan": plan(found)}
    made: dict[Path, str | Picture] = {
        **{IMAGES / name: drawn for name, drawn in figures(found).items()},
        PAGE: page(PAGE.read_text(), parts),
    }
    return update(made, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
