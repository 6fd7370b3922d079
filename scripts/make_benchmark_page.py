"""Write docs/benchmark.md and its figures from benchmarks/results: peers.json, which ``python benchmarks/peers.py`` makes, and device.json.

``python scripts/make_benchmark_page.py`` writes them; ``--check`` only says whether they are what
would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from benchmark_figures import NOTHING, OURS, Report, Row, duration, figures, figures_of, seconds_of  # noqa: E402 - after the path

from experiments.figures import Picture, update  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "peers.json"
DEVICE = RESULTS.with_name("device.json")  # made by benchmarks/device.py on a machine with a GPU
PAGE = ROOT / "docs" / "benchmark.md"
IMAGES = ROOT / "docs" / "images"
SOLVERS = ("Clarabel", "OSQP", "PIQP", "SCS")

HEAD = """# Compared with everyone else

Every method that answers the same question, on the same tables, each in a process of its own with {seconds:g} s and {memory:.0f} GB.
All labels are scored by the same lines; no method's own word is taken for it. Made by `scripts/make_benchmark_page.py` from
`benchmarks/results/peers.json`; this run had {cores} cores, Python {python}, {versions}.

    make bench-peers                                  # about ten minutes; --quick takes one
    python benchmarks/peers.py --original FOLDER      # beside the original implementation: the folder that holds ml_debiaser
    python benchmarks/peers.py --holisticai PYTHON    # beside HolisticAI: an interpreter that has holisticai[bias]
"""

WHO = """## Who is compared

| method | what it is |
| --- | --- |
| r2b | `r2b.debias` as users call it, certificate included; also with either kernel, on one thread, and on a GPU |
| published procedure | the paper's algorithm at its published settings, written anew and vectorised (`benchmarks/published.py`) |
| ml_debiaser | the original implementation of the paper, called by its public classes |
| HolisticAI | its `MLDebiaser` at its defaults: five rounds, two groups |
| Clarabel, OSQP, PIQP, SCS | general QP solvers, through CVXPY |
| Reweighing | `r2b.methods.Reweighing`: weights instead of labels; the rival where the learner takes weights |
"""

HOW = """## How it was measured

- **Seconds** are of the whole call, libraries loaded: from a matrix to a matrix for probabilities, from codes to a table of old and new
  labels for classes; certificate included for r2b. The least of several calls, for what takes less than a second.
- **Alone** is what is left where both sides are spared preparation: our solve and certificate without reading and merging; a QP solver with
  its set-up, without CVXPY.
- **Scaled** figures (marked ~) are of methods with a fixed number of rounds, each the same work: binary solves of some classes are timed,
  and the least of them stands for all classes and rounds. The aggregation between rounds is left out, in their favour. HolisticAI's five
  rounds are counted as five. The accuracy of the published procedure is that of 100 rounds with exact binary steps, in its favour too.
- **Rows.** With class labels, QP solvers are given the distinct weighted rows, at most groups x classes of them. That reduction is ours;
  the lines *all rows* show what it saves them. Probabilities go in row by row.
- **Equal accuracy** means parity and simplex within 1e-6, and the distance within a relative 1e-6 of the optimum. A QP solver starts at its
  defaults and goes up a ladder of tolerances (Clarabel, PIQP: 1e-10, 1e-12; OSQP: 1e-7, 1e-9; SCS: 1e-7, 1e-9, 1e-11) until its labels are
  that good; the time is that of this rung alone. Where no rung is, it is not counted as an answer.
- **Memory** is the rise of resident memory above inputs and loaded libraries. For scaled methods it is that of one round.
- **Parity** is what is left above epsilon. **Distance** is relative to the optimum, which r2b proves on every table by a duality gap (the
  largest here is {gap}). Below it are labels that violate their limits.
- **Not tried** are sizes that a smaller one shows to be out of reach, if time grows at least with the number of entries.
"""


def small(value: float | None) -> str:
    """Write a deviation; what is rounding is called 0."""
    return (
        NOTHING
        if value is None
        else "0"
        if abs(value) < 1e-12
        else f"{value:.0e}"
        if abs(value) < 1e-3
        else f"{value:.2g}"
    )


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def case_lines(report: Report, case: Row) -> list[str]:
    """Write the table of one case."""
    body = []
    for row in figures_of(report, case["name"]):
        setting = row.get("setting")
        if setting == "accurate" and row.get("note") == "tolerance default":
            continue  # the line above is the same
        name = row["method"] + (
            ", defaults"
            if setting == "default"
            else f", {row['note']}"
            if row.get("note") and setting
            else ""
        )
        name += ", equal accuracy" if setting == "accurate" and not row.get("note") else ""
        memory = row.get("peak_bytes")
        # Distances of the optimum and of what is not the same kind of answer say nothing.
        distance = "no labels" if row["method"] == "Reweighing" else f"{small(row.get('above'))}"
        body.append(
            [
                name,
                ("~" if row.get("scaled") else "") + duration(row.get("seconds")),
                duration(row.get("solver_seconds")),
                NOTHING if memory is None else f"{memory / 1e6:,.0f} MB",
                small(row.get("excess")),
                distance,
                row.get("status", ""),
            ]
        )
    size = f"{case['rows']:,} rows, {case['classes']} classes, {case['groups']} groups, epsilon {case['epsilon']:g}"
    words = f"{size}; parity before {case['disparity_before']:.2g}."
    head = [
        "method",
        "seconds",
        "alone",
        "memory",
        "parity above epsilon",
        "distance above optimum",
        "status",
    ]
    return [f"### {case['title']}", "", words, "", *table(head, body), ""]


def rivals_at_equal_accuracy(
    report: Report, case: Row, key: str = "seconds"
) -> list[tuple[float, str]]:
    """Give seconds and name of every QP solver whose labels are as good as ours, fastest first."""
    rows = figures_of(report, case["name"])
    found = [(seconds_of(rows, solver, key), solver) for solver in SOLVERS]
    return sorted((seconds, solver) for seconds, solver in found if seconds is not None)


def equal_lines(report: Report) -> list[str]:
    """Write who is fastest at equal accuracy: whole calls, and solvers alone."""
    body: list[list[str]] = []
    faster: list[tuple[Row, str]] = []
    for case in report["cases"]:
        cells = [case["title"]]
        for what, key in (("whole call", "seconds"), ("solver alone", "solver_seconds")):
            ours, peers = (
                seconds_of(figures_of(report, case["name"]), OURS, key),
                rivals_at_equal_accuracy(report, case, key),
            )
            if ours is None or not peers:
                cells += [duration(ours), "none", NOTHING]
                continue
            best, name = peers[0]
            cells += [duration(ours), f"{duration(best)} ({name})", f"{best / ours:.3g}"]
            quicker = [f"{peer} {duration(seconds)}" for seconds, peer in peers if seconds < ours]
            faster += (
                [(case, f"- {case['title']}, {what}: {', '.join(quicker)}; r2b {duration(ours)}.")]
                if quicker
                else []
            )
        body.append(cells)
    head = [
        "table",
        "r2b, whole call",
        "fastest peer",
        "ratio",
        "r2b alone",
        "fastest peer alone",
        "ratio",
    ]
    words = [
        "## At equal accuracy",
        "",
        "A ratio above 1 says how many times longer the fastest QP solver takes for labels as good as ours.",
        "",
    ]
    other = "`Reweighing` is not among them: it answers another question, with weights for labels that stay as they are."
    return [*words, *table(head, body), "", *_faster_lines(faster), "", other, ""]


def _faster_lines(faster: list[tuple[Row, str]]) -> list[str]:
    if not faster:
        return [
            "No peer is faster at any of these sizes, neither by the whole call nor by the solver alone."
        ]
    lines = ["Where a peer is faster:", "", *(words for _, words in faster)]
    merged = [case["groups"] * case["classes"] for case, _ in faster if not case["soft"]]
    if merged:
        lines += [
            "",
            f"Class labels are merged to at most {max(merged)} rows here, where there is little to compute. A compiled solver is then done",
            "in the time of a few of our steps, each of them NumPy calls on small tables. It is handed the merged rows, which is our",
            "reduction, and its answer comes without a certificate.",
        ]
    return lines


def short_lines(report: Report) -> list[str]:
    """Write what the tables come to."""
    lines = ["## In short", ""]
    names = {case["name"]: case for case in report["cases"]}
    if "adult-sex" in names:
        rows = figures_of(report, "adult-sex")
        ours = seconds_of(rows, OURS)
        for method in ("published procedure", "ml_debiaser", "HolisticAI"):
            row = next((one for one in rows if one["method"] == method and "seconds" in one), None)
            if row is None or ours is None:
                continue
            left = (
                f"; it ends {row['above']:+.0%} from the optimum with {small(row['excess'])} of parity left"
                if "above" in row
                else ""
            )
            words = f"{method} {duration(row['seconds'])}, r2b {duration(ours)}: {row['seconds'] / ours:,.0f} times{left}"
            lines.append(f"- Adult, education by sex: {words}.")
    for case in sorted(report["cases"], key=lambda case: -case["rows"] * case["classes"]):
        peers = rivals_at_equal_accuracy(report, case) if case["soft"] else []
        ours = seconds_of(figures_of(report, case["name"]), OURS)
        if peers and ours is not None:
            best, name = peers[0]
            words = f"{name} {duration(best)}, r2b {duration(ours)}: {best / ours:,.0f} times"
            lines.append(
                f"- {case['title']}, the largest that a QP solver solved as well: {words}."
            )
            break
    return [*lines, ""] if len(lines) > 2 else []


def instruction_lines(report: Report) -> list[str]:
    """Write the instructions of the hot loop."""
    words = ["## Instructions", ""]
    found = report.get("instructions", [])
    if not found or "status" in found[0]:
        return [
            *words,
            f"{found[0]['status'].capitalize() if found else 'Not counted in this run'}.",
            "",
        ]
    words += [
        "One pass of the compiled kernel over rows of probabilities, without curvature, counted by callgrind. The kernel is compiled for",
        "AVX2, because valgrind does not know wider registers. *Warm* passes start from the thresholds of nearby prices, as all but the",
        "first do.",
    ]
    body = [
        [str(row["classes"]), row["pass"], f"{row['per_row']:.0f}", f"{row['per_entry']:.2f}"]
        for row in found
    ]
    return [*words, "", *table(["classes", "pass", "instructions per row", "per entry"], body), ""]


def device_lines(report: Report) -> list[str]:
    """Write the solves on a GPU, which have tables of their own: none of the others gets that far."""
    device = report.get("device", {})
    body = []
    for found in device.values():
        if not isinstance(found, dict) or "solve" not in found:
            continue
        solve = found["solve"]
        size = [f"{found[name]:,}" for name in ("rows", "classes", "groups")]
        memory = f"{solve['peak_bytes_above_the_labels'] / 1e6:,.0f} MB"
        figures = [
            duration(solve["ms"] / 1000),
            memory,
            small(solve["excess"]),
            small(abs(solve["relative_gap"])),
        ]
        body.append([*size, *figures, solve["status"]])
    if not body:
        return []
    head = [
        "rows",
        "classes",
        "groups",
        "seconds",
        "memory",
        "parity above epsilon",
        "relative gap",
        "status",
    ]
    words = [
        f"Whole calls of `r2b.engines.torch.debias` on one {device['device']}, float32 probabilities already there, epsilon 0.01,",
        "certificate included. Made by `benchmarks/device.py`, from tables of its own.",
    ]
    return ["## On a GPU", "", *words, "", *table(head, body), ""]


def page_of(report: Report) -> str:
    """Write the page."""
    facts = report["environment"]
    versions = ", ".join(
        f"{name} {version}" for name, version in facts["versions"].items() if version
    )
    limits = report["limits"]
    head = HEAD.format(
        seconds=limits["seconds"],
        memory=limits["memory_bytes"] / 1e9,
        cores=facts["cores"],
        python=facts["python"],
        versions=versions,
    )
    lines = [head]
    if report["quick"]:
        lines += ["These are figures of a quick run: few tables, small limits.", ""]
    lines += short_lines(report)
    for name, drawn in figures(report).items():
        lines += [f"![{drawn.title}](images/{name})", ""]
    gap = max(abs(case["gap"]) for case in report["cases"])
    lines += [
        *equal_lines(report),
        WHO,
        HOW.format(gap=f"{gap:.0e}"),
        *device_lines(report),
        *instruction_lines(report),
        "## Every figure",
        "",
    ]
    for case in report["cases"]:
        lines += case_lines(report, case)
    return "\n".join(lines).rstrip() + "\n"


def results() -> Report:
    """Read the results, and those of a GPU where there are any."""
    report: Report = json.loads(RESULTS.read_text(encoding="utf-8"))
    return report | (
        {"device": json.loads(DEVICE.read_text(encoding="utf-8"))} if DEVICE.exists() else {}
    )


def wanted(report: Report) -> dict[Path, str | Picture]:
    """Give every file and what belongs into it."""
    return {
        PAGE: page_of(report),
        **{IMAGES / name: drawn for name, drawn in figures(report).items()},
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write docs/benchmark.md and its figures.")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if a file is not what would be written",
    )
    check = parser.parse_args(arguments).check
    stale = update(wanted(results()), check=check)
    for path in stale:
        said = (
            f"{path.name} is not what scripts/make_benchmark_page.py writes; run it again."
            if check
            else f"{path.name} written"
        )
        print(said, file=sys.stderr if check else sys.stdout)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
