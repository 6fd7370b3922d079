"""Write docs/benchmark.md and its figures from benchmarks/results/peers.json.

``python benchmarks/peers.py`` makes the results.

``python scripts/make_benchmark_page.py`` writes them; ``--check`` only says whether they are what
would be written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from benchmark_figures import (  # noqa: E402 - after the path
    NOTHING,
    OURS,
    Report,
    Row,
    duration,
    figures,
    figures_of,
    seconds_of,
)

from experiments.figures import Picture, update  # noqa: E402
from experiments.tables import markdown  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "peers.json"
PAGE = ROOT / "docs" / "benchmark.md"
IMAGES = ROOT / "docs" / "images"
SOLVERS = ("Clarabel", "OSQP", "PIQP", "SCS")

HEAD = """# Compared with everyone else

These figures were measured in November 2026, before the solvers were rewritten;
`make bench-peers` repeats them.

This page compares r2b with every method that answers the same question, on the same tables. Each
method runs in its own process with {seconds:g} s and {memory:.0f} GB. One function scores all
labels; what a method reports about itself does not count.

    make bench-peers                                  # about ten minutes; --quick takes one
    python -m benchmarks.algorithm                    # the paper's Algorithm 1, seconds
    python benchmarks/peers.py --original FOLDER      # FOLDER holds ml_debiaser
    python benchmarks/peers.py --holisticai PYTHON    # an interpreter that has holisticai[bias]

`scripts/make_benchmark_page.py` writes this page from `benchmarks/results/peers.json`. The run had
{cores} cores, Python {python}, {versions}.
"""

WHO = """## Who is compared

| method | what it is |
| --- | --- |
| r2b | `r2b.debias` as users call it, certificate included; also on one thread |
| published procedure | the paper's algorithm and settings, vectorised (`benchmarks/published.py`) |
| ml_debiaser | the original implementation of the paper, called by its public classes |
| HolisticAI | its `MLDebiaser` at its defaults: five rounds, two groups |
| Clarabel, OSQP, PIQP, SCS | general QP solvers, through CVXPY |
| Reweighing | `r2b.methods.Reweighing`: weights instead of labels |
"""

HOW = """## How it was measured

- **Seconds** are those of the whole call, with libraries loaded: from a matrix to a matrix for
  probabilities, from codes to a table of old and new labels for classes. For r2b they include the
  certificate. Calls of less than a second are repeated, and the least time counts.
- **Alone** leaves out preparation on both sides: for r2b it is the solve and the certificate,
  without reading and merging; for a QP solver its set-up and solve, without CVXPY.
- **Scaled** figures (marked ~) belong to methods that do the same work in a fixed number of rounds.
  Binary solves of some classes are timed, and the least time stands for all classes and rounds.
  This favours these methods: aggregation between rounds is left out, and the accuracy of the
  published procedure is that of 100 rounds with exact binary steps. HolisticAI has five rounds.
- **Rows.** With class labels, QP solvers get the distinct weighted rows, at most groups x classes.
  That reduction is ours; the lines *all rows* show what it saves. Probabilities go in row by row.
- **Equal accuracy** means that disparity and simplex hold within 1e-6, and that the distance is
  within a relative 1e-6 of the optimum. A QP solver starts at its defaults and tries smaller
  tolerances (Clarabel, PIQP: 1e-10, 1e-12; OSQP: 1e-7, 1e-9; SCS: 1e-7, 1e-9, 1e-11) until its
  labels are that accurate. The time is that of this last tolerance alone. If none is accurate
  enough, there is no answer.
- **Memory** is the rise of resident memory above inputs and loaded libraries. For scaled methods it
  is that of one round.
- **Disparity** is what remains above epsilon. **Distance** is relative to the optimum, which r2b
  proves on every table by a duality gap (the largest here is {gap}). Labels below the optimum
  violate their limits.
- **Not tried** means that a smaller size shows that the limit would be exceeded, if time grows at
  least with the number of entries.
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
    size = f"{case['rows']:,} rows, {case['classes']} classes, {case['groups']} groups"
    before = case["disparity_before"]
    words = f"{size}, epsilon {case['epsilon']:g}; disparity before {before:.2g}."
    head = [
        "method",
        "seconds",
        "alone",
        "memory",
        "disparity above epsilon",
        "distance above optimum",
        "status",
    ]
    return [f"### {case['title']}", "", words, "", markdown(head, body), ""]


def rivals_at_equal_accuracy(
    report: Report, case: Row, key: str = "seconds"
) -> list[tuple[float, str]]:
    """Return seconds and name of every QP solver that is as accurate as r2b, fastest first."""
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
        "A ratio above 1 says how many times longer the fastest QP solver takes at equal accuracy.",
        "",
    ]
    other = "`Reweighing` is not among them: it keeps the labels and computes weights."
    return [*words, markdown(head, body), "", *_faster_lines(faster), "", other, ""]


def _faster_lines(faster: list[tuple[Row, str]]) -> list[str]:
    if not faster:
        return [
            "No peer is faster at any of these sizes, in the whole call or in the solver alone."
        ]
    lines = ["Where a peer is faster:", "", *(words for _, words in faster)]
    merged = [case["groups"] * case["classes"] for case, _ in faster if not case["soft"]]
    if merged:
        lines += [
            "",
            f"In these tables, class labels are merged to at most {max(merged)} rows. A compiled",
            "solver then needs the time of a few of our steps, which are NumPy calls. It gets the",
            "merged rows, which is our reduction, and its answer has no certificate.",
        ]
    return lines


def algorithm_lines() -> list[str]:
    """Write how long the paper's Algorithm 1 takes as it is implemented here."""
    lines = []
    for case in json.loads((RESULTS.parent / "algorithm.json").read_text(encoding="utf-8")):
        ours, said = case["debias"][0], []
        for way in case["algorithm"]:
            least = way["seconds"][0]
            said.append(
                f"{duration(least)} with target {way['target']!r}, {least / ours:.1f} times "
                f"(disparity {small(way['disparity'])})"
            )
        lines.append(
            f"- Adult, education by {' and '.join(case['by'])}: the paper's Algorithm 1 as "
            f"implemented here (`r2b.methods.R2B`) {' and '.join(said)}; r2b {duration(ours)}. "
            "CPU time of one thread, `python -m benchmarks.algorithm`."
        )
    return lines


def short_lines(report: Report) -> list[str]:
    """Write what the tables come to."""
    lines = ["## In short", "", *algorithm_lines()]
    names = {case["name"]: case for case in report["cases"]}
    if "adult-sex" in names:
        rows = figures_of(report, "adult-sex")
        ours = seconds_of(rows, OURS)
        for method in ("published procedure", "ml_debiaser", "HolisticAI"):
            row = next((one for one in rows if one["method"] == method and "seconds" in one), None)
            if row is None or ours is None:
                continue
            left = (
                f"; it ends {row['above']:+.0%} from the optimum, "
                f"with disparity {small(row['excess'])} above epsilon"
                if "above" in row
                else ""
            )
            ratio = f"{row['seconds'] / ours:,.0f} times{left}"
            how = ", by its stochastic steps" if method == "published procedure" else ""
            words = f"{method}{how} {duration(row['seconds'])}, r2b {duration(ours)}: {ratio}"
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
        "## Every figure",
        "",
    ]
    for case in report["cases"]:
        lines += case_lines(report, case)
    return "\n".join(lines).rstrip() + "\n"


def results() -> Report:
    """Read the results."""
    report: Report = json.loads(RESULTS.read_text(encoding="utf-8"))
    return report


def wanted(report: Report) -> dict[Path, str | Picture]:
    """Return what belongs into every file."""
    return {
        PAGE: page_of(report),
        **{IMAGES / name: drawn for name, drawn in figures(report).items()},
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    return update(wanted(results()), arguments)


if __name__ == "__main__":
    sys.exit(main())
